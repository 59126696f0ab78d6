//! Statements over engines in memory, compared with the same statements over one database that has
//! all of their rows.

use super::*;
use plinth_engine::catalog::rows::{Seen, encode_row, in_parts};
use rusqlite::params_from_iter;

/// Engines of three groups, the last of them empty.
pub(super) struct Memory {
    groups: BTreeMap<String, Mutex<Connection>>,
    /// The statements that engines received.
    asked: Mutex<Vec<String>>,
    rows: Mutex<usize>,
    /// A group whose engine answers with this error, at once or after its rows.
    refuses: Option<(&'static str, AdminError, bool)>,
    pub(super) choice: Choice,
    /// The result of discovery.
    pub(super) surveyed: Vec<Survey>,
}

/// The columns that are filled, by view; every view has `group_number` in addition.
const FILLED: [(&str, &[&str]); 3] = [
    (
        "v$asm_file",
        &["file_number", "compound_index", "bytes", "space", "type", "redundancy", "blocks"],
    ),
    ("v$asm_alias", &["name", "file_number", "parent_index", "reference_index", "alias_directory"]),
    ("v$asm_attribute", &["name", "value"]),
];

/// A simple pseudo-random generator.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn row(columns: &[&str], number: i64, state: &mut u64) -> Vec<Value> {
    let mut one =
        |names: &[&str]| Value::Text(names[next(state) as usize % names.len()].to_owned());
    let value = |column: &&str| match *column {
        "type" => one(&["DATAFILE", "ONLINELOG", "ARCHIVELOG"]),
        "redundancy" => one(&["MIRROR", "HIGH"]),
        "alias_directory" => one(&["Y", "N"]),
        "name" => Value::Text(format!("name{number}")),
        "value" if number % 3 == 0 => Value::Null,
        "value" => one(&["x", "y"]),
        "parent_index" => Value::Integer(number / 4),
        "bytes" if number % 7 == 0 => Value::Null,
        "bytes" | "space" | "blocks" => Value::Integer(number * 1000 % 7919),
        _ => Value::Integer(number),
    };
    columns.iter().map(value).collect()
}

fn table(connection: &Connection, view: &str) {
    let view = super::views::find(view).expect("a view");
    let columns: Vec<String> =
        view.columns.iter().map(|(name, kind)| format!("{name} {}", kind.declaration())).collect();
    connection
        .execute_batch(&format!("CREATE TABLE {} ({})", view.name, columns.join(", ")))
        .expect("a table");
}

fn insert(connection: &Connection, view: &str, columns: &[&str], row: &[Value]) {
    let marks = vec!["?"; row.len()].join(", ");
    let sql = format!("INSERT INTO {view} ({}) VALUES ({marks})", columns.join(", "));
    connection.execute(&sql, params_from_iter(row.iter().map(Bound))).expect("a row");
}

/// The engines, and the database with all of their rows.
pub(super) fn worlds() -> (Memory, Connection) {
    let everything = Connection::open_in_memory().expect("a database");
    functions::create(Registry::whole(&everything), "tester", Rules::Oracle)
        .and_then(|()| pg_compat::create_functions(Registry::whole(&everything), "tester"))
        .expect("functions");
    let mut memory = Memory {
        groups: BTreeMap::new(),
        asked: Mutex::default(),
        rows: Mutex::default(),
        refuses: None,
        choice: Choice::Auto,
        surveyed: Vec::new(),
    };
    let mut state = 1;
    FILLED.iter().for_each(|(view, _)| table(&everything, view));
    for (at, (group, rows)) in [("DATA", 100), ("FRA", 37), ("NONE", 0)].into_iter().enumerate() {
        let number = at as i64 + 1;
        let engine = Connection::open_in_memory().expect("a database");
        for (view, columns) in FILLED {
            table(&engine, view);
            for file in 0..rows {
                let mut row = row(columns, file + 256, &mut state);
                insert(&engine, view, columns, &row);
                for (column, value) in columns.iter().zip(&mut row) {
                    if let (true, Value::Integer(value)) =
                        (super::views::COMPOUND.contains(column), value)
                    {
                        *value += number << 24;
                    }
                }
                row.push(Value::Integer(number));
                insert(&everything, view, &[columns, &["group_number"][..]].concat(), &row);
            }
        }
        // Views that have no rows, but for one volume's counters.
        for view in ["v$asm_disk", "v$asm_diskgroup", "v$asm_volume", "v$asm_volume_stat"] {
            table(&engine, view);
        }
        insert(&engine, "v$asm_volume_stat", &["volume_name"], &[Value::Text("VOL".to_owned())]);
        let short = "CREATE VIEW file_types AS SELECT type FROM \"v$asm_file\";
            CREATE VIEW entries AS SELECT 1 AS entry FROM \"v$asm_alias\"";
        engine.execute_batch(short).expect("views");
        memory.groups.insert(group.to_owned(), Mutex::new(engine));
    }
    (memory, everything)
}

fn all_rows(connection: &Connection, sql: &str, parameters: &[Value]) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let width = statement.column_count();
    for at in 1..=statement.parameter_count() {
        statement.raw_bind_parameter(at, Bound(&parameters[at - 1])).expect("a parameter");
    }
    let mut found = Vec::new();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().unwrap_or_else(|error| panic!("{sql}: {error}")) {
        let value = |at| Seen::from(row.get_ref(at).expect("a value")).to_value();
        found.push((0..width).map(value).collect());
    }
    found
}

impl Source for Memory {
    fn groups(&self) -> BTreeMap<String, u32> {
        self.groups.keys().cloned().zip(1..).collect()
    }

    fn query(
        &self,
        group: &str,
        sql: &str,
        part: &mut dyn FnMut(usize, Vec<u8>) -> std::result::Result<(), AdminError>,
    ) -> std::result::Result<(), AdminError> {
        self.asked.lock().expect("no panic").push(sql.to_owned());
        let rows = all_rows(&self.groups[group].lock().expect("no panic"), sql, &[]);
        *self.rows.lock().expect("no panic") += rows.len();
        let refusal = self.refuses.as_ref().filter(|(refusing, ..)| *refusing == group);
        if let Some((_, refusal, false)) = refusal {
            return Err(refusal.clone());
        }
        in_parts(&rows, |count, bytes| part(count, bytes.to_vec()))?;
        refusal.map_or(Ok(()), |(_, refusal, _)| Err(refusal.clone()))
    }

    fn survey(&self) -> std::result::Result<Vec<Survey>, AdminError> {
        Ok(self.surveyed.clone())
    }

    fn estimates(&self) -> Vec<Estimated> {
        Vec::new()
    }

    fn password_users(&self) -> Vec<Vec<Value>> {
        Vec::new()
    }

    fn user(&self) -> String {
        "tester".to_owned()
    }

    fn sql_rules(&self) -> Choice {
        self.choice
    }
}

fn sorted(mut rows: Vec<Vec<Value>>) -> Vec<Vec<u8>> {
    let encoded = |row: &mut Vec<Value>| {
        let mut bytes = Vec::new();
        encode_row(row, &mut bytes);
        bytes
    };
    let mut rows: Vec<Vec<u8>> = rows.iter_mut().map(encoded).collect();
    rows.sort();
    rows
}

/// Runs a statement both ways; returns the number of rows that engines sent.
fn compare(memory: &Memory, everything: &Connection, query: &str, parameters: &[Value]) -> usize {
    *memory.rows.lock().expect("no panic") = 0;
    memory.asked.lock().expect("no panic").clear();
    let whole = Query::new(query).expect("tokens");
    let ours = run(memory, &whole, parameters, &Cancel::default(), &mut Vec::new());
    let ours = ours.unwrap_or_else(|error| panic!("{query}: {error}"));
    let theirs = all_rows(
        everything,
        &pg_compat::rewrite(&whole, Choice::Auto.of(&whole)).expect("words").sql,
        parameters,
    );
    let asked = memory.asked.lock().expect("no panic").join("\n");
    assert_eq!(
        sorted(ours.rows.clone()),
        sorted(theirs.clone()),
        "{query}\n{asked}\n{:?}\n{theirs:?}",
        ours.rows
    );
    *memory.rows.lock().expect("no panic")
}

/// For a statement that reads few columns of a view, engines are queried for a shorter relation.
#[test]
fn few_columns_come_from_less() {
    let (memory, everything) = worlds();
    for (query, short) in [
        ("SELECT group_number, type, COUNT(*) FROM v$asm_file GROUP BY group_number, type", true),
        ("SELECT type FROM v$asm_file", true),
        ("SELECT COUNT(*) FROM v$asm_file WHERE type = 'DATAFILE'", true),
        ("SELECT COUNT(*) FROM v$asm_alias", true),
        ("SELECT COUNT(*) FROM v$asm_file WHERE bytes > 8192", false),
        ("SELECT type, SUM(bytes) FROM v$asm_file GROUP BY type", false),
        ("SELECT type FROM v$asm_file ORDER BY bytes LIMIT 3", false),
        ("SELECT a.name FROM v$asm_alias a", false),
    ] {
        compare(&memory, &everything, query, &[]);
        let asked = memory.asked.lock().expect("no panic");
        let from = |sql: &String| sql.contains("FROM file_types") || sql.contains("FROM entries");
        assert!(
            !asked.is_empty() && asked.iter().all(|sql| from(sql) == short),
            "{query}: {asked:?}"
        );
    }
}

/// The result of a statement does not depend on which part engines do, and engines send few rows of
/// results that they can aggregate.
#[test]
fn plans_change_no_result() {
    let (memory, everything) = worlds();
    // A statement, and the most rows that engines may send for it.
    for (query, most) in [
        ("SELECT group_number, type, COUNT(*) FROM v$asm_file GROUP BY group_number, type", 6),
        (
            "SELECT type, count(*), sum(bytes) FROM v$asm_file GROUP BY type ORDER BY count(*) DESC, 1",
            6,
        ),
        ("SELECT count(*) FROM v$asm_file", 3),
        (
            "SELECT count(*), sum(bytes), avg(bytes), min(bytes), max(type), total(bytes), count(bytes) FROM v$asm_file",
            3,
        ),
        (
            "SELECT count(*), avg(bytes), sum(bytes), min(bytes) FROM v$asm_file WHERE type = 'NOTHING'",
            0,
        ),
        ("SELECT group_number, avg(bytes + space) FROM v$asm_file f GROUP BY group_number", 3),
        (
            "SELECT group_number g, max(bytes) m FROM v$asm_file GROUP BY group_number HAVING count(*) > 50 ORDER BY m",
            3,
        ),
        ("SELECT DISTINCT type FROM v$asm_file", 6),
        ("SELECT count(DISTINCT type), count(DISTINCT redundancy) FROM v$asm_file", 12),
        (
            "SELECT f.type, round(sum(f.bytes) / 1048576.0, 2) AS mb FROM v$asm_file f WHERE f.group_number = 1 GROUP BY f.type",
            3,
        ),
        ("SELECT count(*) FROM v$asm_file WHERE file_number > 300", 3),
        ("SELECT count(*) FROM v$asm_file WHERE file_number > 300 AND group_number = 2", 1),
        (
            "SELECT type, count(*) FROM v$asm_file WHERE bytes BETWEEN 1000 AND 5000 OR type LIKE 'ON%' GROUP BY 1",
            6,
        ),
        (
            "SELECT a.name, f.type, count(*), sum(f.bytes) FROM v$asm_attribute a JOIN v$asm_file f ON f.group_number = a.group_number AND f.file_number < 270 WHERE a.name IN ('name256', 'name257') GROUP BY a.name, f.type",
            160,
        ),
        (
            "SELECT f.type, count(*), count(a.value), sum(length(a.value)) FROM v$asm_file f LEFT JOIN v$asm_attribute a ON a.group_number = f.group_number AND a.name = 'name256' GROUP BY f.type",
            150,
        ),
        ("SELECT file_number, bytes FROM v$asm_file WHERE file_number = 270", 2),
        (
            "SELECT file_number FROM v$asm_file WHERE group_number = 2 AND file_number IN (256, 270, -1)",
            2,
        ),
        (
            "SELECT file_number, type FROM v$asm_file ORDER BY bytes DESC, file_number, group_number LIMIT 5",
            200,
        ),
        (
            "SELECT file_number, bytes FROM v$asm_file ORDER BY bytes DESC, space, file_number LIMIT 5 OFFSET 2",
            14,
        ),
        (
            "SELECT type FROM v$asm_file WHERE group_number = 1 AND rownum <= 3 AND bytes > 0 ORDER BY type",
            3,
        ),
        (
            "SELECT bytes AS file_number FROM v$asm_file WHERE group_number = 1 ORDER BY file_number LIMIT 3",
            100,
        ),
        (
            "SELECT upper(name) FROM v$asm_alias WHERE lower(name) LIKE 'name27%' AND alias_directory <> 'Y'",
            20,
        ),
        (
            "SELECT count(*) FROM v$asm_file WHERE type = '5' OR bytes = '1000' OR file_number = '256'",
            137,
        ),
        (
            "SELECT max(bytes) - min(bytes), count(*) * 2 FROM v$asm_file WHERE NOT (type = 'DATAFILE')",
            3,
        ),
        (
            "SELECT type, (SELECT count(*) FROM v$asm_file g WHERE g.type = f.type) FROM v$asm_file f GROUP BY type",
            300,
        ),
        (
            "WITH v$asm_file AS (SELECT 1 AS type, 2 AS bytes) SELECT type, count(*) FROM v$asm_file GROUP BY type",
            0,
        ),
        (
            "WITH c AS (SELECT type, count(*) n FROM v$asm_file GROUP BY type) SELECT sum(n) FROM c",
            6,
        ),
        (
            "SELECT type, count(*) FROM v$asm_file GROUP BY type UNION ALL SELECT 'all', count(*) FROM v$asm_alias",
            9,
        ),
        (
            "SELECT count(*) FROM v$asm_file, v$asm_alias WHERE v$asm_file.file_number = v$asm_alias.file_number",
            300,
        ),
        (
            "SELECT f.type, count(*) FROM v$asm_file f, v$asm_alias a WHERE f.group_number = a.group_number AND a.file_number = 256 GROUP BY f.type",
            300,
        ),
        ("SELECT name, max(bytes) FROM v$asm_file, v$asm_attribute GROUP BY name", 300),
        (
            "SELECT type, group_concat(DISTINCT redundancy) FROM v$asm_file GROUP BY type HAVING count(*) > 1000",
            137,
        ),
        ("SELECT type, count(*) OVER () FROM v$asm_file", 137),
        ("SELECT type, count(*) FILTER (WHERE bytes > 10) FROM v$asm_file GROUP BY type", 137),
        ("SELECT compound_index, count(*) FROM v$asm_file GROUP BY compound_index", 137),
        (
            "SELECT min(compound_index), max(compound_index), sum(group_number), count(group_number) FROM v$asm_file",
            137,
        ),
        ("SELECT count(*) FROM v$asm_file WHERE compound_index = 16777472", 137),
        ("SELECT sum(CASE WHEN type = 'DATAFILE' THEN bytes ELSE 0 END) FROM v$asm_file", 137),
        (
            "SELECT CASE WHEN type = 'DATAFILE' THEN 'd' ELSE 'o' END k, count(*) FROM v$asm_file GROUP BY k",
            6,
        ),
        ("SELECT sum(1), count(1), count(NULL) FROM v$asm_file", 3),
        ("SELECT type t, count(*) c FROM v$asm_file GROUP BY t HAVING c > 3 ORDER BY c, t", 6),
        (
            "WITH RECURSIVE t(path, i) AS (SELECT name, reference_index FROM v$asm_alias WHERE mod(parent_index, 16777216) = 64 UNION ALL SELECT t.path || '/' || a.name, a.reference_index FROM t JOIN v$asm_alias a ON a.parent_index = t.i) SELECT count(*), max(path) FROM t",
            300,
        ),
    ] {
        let sent = compare(&memory, &everything, query, &[]);
        assert!(sent <= most, "{query}: engines sent {sent} rows, and {most} are enough");
    }
    let parameters = [Value::Text("DATAFILE".into()), Value::Integer(300)];
    let query = "SELECT count(*) FROM v$asm_file WHERE type = $1 AND file_number > $2";
    assert!(compare(&memory, &everything, query, &parameters) <= 3);
}

/// Statements composed at random: the columns, the tables, the conditions.
#[test]
fn plans_of_random_statements_change_no_result() {
    const KEYS: [&str; 6] =
        ["type", "f.redundancy", "group_number", "f.file_number % 5", "upper(f.type)", "bytes"];
    const SUMS: [&str; 10] = [
        "count(*)",
        "sum(f.bytes)",
        "avg(f.space)",
        "min(type)",
        "max(f.bytes + 1)",
        "count(f.bytes)",
        "sum(group_number)",
        "count(DISTINCT type)",
        "coalesce(sum(bytes), 0) / (count(*) + 1)",
        "total(blocks * 2)",
    ];
    const CONDITIONS: [&str; 10] = [
        "f.type = 'DATAFILE'",
        "bytes > 3000",
        "f.bytes IS NULL",
        "group_number <> 2",
        "group_number = 1",
        "(type LIKE '%LOG' OR space < 100)",
        "NOT f.redundancy = 'HIGH'",
        "file_number % 2 = 0",
        "f.file_number IN (256, 257, 290)",
        "space BETWEEN 10 AND 4000",
    ];
    let (memory, everything) = worlds();
    let mut state = 7;
    for _ in 0..600 {
        let mut some = |from: &[&'static str], most: u64| -> Vec<&'static str> {
            (0..next(&mut state) % (most + 1))
                .map(|_| from[next(&mut state) as usize % from.len()])
                .collect()
        };
        let (mut keys, sums, conditions) = (some(&KEYS, 2), some(&SUMS, 3), some(&CONDITIONS, 3));
        keys.dedup();
        let columns: Vec<&str> = keys.iter().chain(&sums).copied().collect();
        if columns.is_empty() {
            continue;
        }
        let mut query = format!("SELECT {} FROM v$asm_file f", columns.join(", "));
        if !conditions.is_empty() {
            query += &format!(" WHERE {}", conditions.join(" AND "));
        }
        if !keys.is_empty() && !sums.is_empty() {
            query += &format!(" GROUP BY {}", keys.join(", "));
        }
        compare(&memory, &everything, &query, &[]);
    }
}

/// If an engine refuses, the rows of the others would look like an answer: a count of nothing is 0.
/// So the statement fails, and the error names the group and the limit. A group that has no engine
/// has no rows, like one that is not mounted, and causes a notice. An engine that breaks off has
/// sent half of its rows.
#[test]
fn an_answer_is_whole_or_an_error() {
    let (mut memory, _) = worlds();
    let count = "SELECT count(*) FROM v$asm_file";
    let limit =
        AdminError::new(plinth_engine::admin::Code::Invalid, "the query took longer than 60 s")
            .hint("ask for less");
    let gone = AdminError::new(
        plinth_engine::admin::Code::Io,
        "the engine of FRA ended before it answered",
    );
    let none =
        AdminError::new(plinth_engine::admin::Code::NotMounted, "disk group FRA is not mounted");
    for query in [
        count,
        "SELECT * FROM v$asm_file",
        "SELECT file_number FROM v$asm_file JOIN v$asm_alias USING (file_number)",
    ] {
        for (error, after_rows) in [(&limit, false), (&limit, true), (&gone, true)] {
            memory.refuses = Some(("FRA", error.clone(), after_rows));
            let mut notices = Vec::new();
            let refusal = run(
                &memory,
                &Query::new(query).expect("tokens"),
                &[],
                &Cancel::default(),
                &mut notices,
            )
            .expect_err(query);
            assert_eq!(refusal.message, format!("disk group FRA: {}", error.message), "{query}");
            assert_eq!(refusal.hint, error.hint, "{query}");
        }
    }
    for error in [gone, none] {
        memory.refuses = Some(("FRA", error, false));
        let mut notices = Vec::new();
        let table = run(
            &memory,
            &Query::new(count).expect("tokens"),
            &[],
            &Cancel::default(),
            &mut notices,
        )
        .expect("the others answer");
        assert_eq!((table.rows, notices.len()), (vec![vec![Value::Integer(100)]], 1));
    }
}

/// Engines are never queried for columns that they do not have, and always for those that they
/// have.
#[test]
fn engines_are_asked_for_the_columns_that_are_theirs() {
    use super::fetch::OURS;
    use plinth_engine::catalog::columns::{self, Source};
    for view in columns::all() {
        let is_of_instance = |column: &columns::Column| column.source == Source::Instance;
        if view.is_of_instance() {
            assert!(view.columns.iter().all(is_of_instance), "{}", view.name);
            continue;
        }
        for column in view.columns {
            let is_ours = OURS.contains(&column.name);
            assert_eq!(is_of_instance(column), is_ours, "{}.{}", view.name, column.name);
        }
    }
}

/// A column whose type nothing tells has the type that all of its values fit.
#[test]
fn the_type_of_a_column_is_that_of_its_values() {
    let text = |text: &str| Value::Text(text.to_owned());
    let time = || text("2026-03-07 15:04:09");
    for (declared, values, kind) in [
        (None, vec![Value::Null, time(), text("2026-03-07 15:04:09.250000")], Type::Time),
        (None, vec![time(), text("x")], Type::Text),
        (None, vec![time(), Value::Integer(1)], Type::Text),
        (None, vec![Value::Integer(1), time()], Type::Text),
        (None, vec![text("2026-03-07")], Type::Text),
        (Some(Type::Text), vec![time()], Type::Text),
        (Some(Type::Time), vec![time(), Value::Null, text("2026-03-07")], Type::Time),
        (Some(Type::Time), vec![Value::Null], Type::Time),
        (Some(Type::Time), vec![time(), text("never")], Type::Text),
        (Some(Type::Time), vec![Value::Integer(1)], Type::Integer),
        (None, vec![Value::Integer(1), Value::Real(0.5)], Type::Real),
        (Some(Type::Real), vec![Value::Integer(1)], Type::Real),
    ] {
        assert_eq!(fitting(declared, values.iter()), kind, "{declared:?} {values:?}");
    }
}

/// A name in double quotes that nothing has is refused, and so is one with a `#`, which is put into
/// quotes on its way.
#[test]
fn a_quoted_name_is_no_string() {
    let (memory, _) = worlds();
    for query in ["SELECT \"nothing\" FROM dual", "SELECT no# FROM dual", "SELECT 1 ORDER BY no#"] {
        let asked = Query::new(query).expect("tokens");
        let refusal = run(&memory, &asked, &[], &Cancel::default(), &mut Vec::new());
        let refusal = refusal.expect_err(query);
        assert_eq!(refusal.state, "42703", "{query}: {refusal}");
        assert!(refusal.at.is_some(), "{query}: {refusal}");
    }
    let named = Query::new("SELECT dummy AS d# FROM dual ORDER BY d#").expect("tokens");
    let table = run(&memory, &named, &[], &Cancel::default(), &mut Vec::new()).expect("a row");
    assert_eq!((table.columns[0].name.as_str(), table.rows.len()), ("d#", 1));
}
