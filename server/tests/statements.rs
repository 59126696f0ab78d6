//! Fuzzing of statements: valid ones with words removed, doubled, exchanged or inserted, and random
//! sequences of words. Each is parsed, and if it is a query it is run over rows in memory. It must
//! give an answer or a refusal: no crash, no endless run. Positions of refusals must lie within the
//! text.
//!
//! Every run of the tests fuzzes for some seconds. `PLINTH_FUZZ_SECONDS` sets another duration,
//! `PLINTH_FUZZ_SEED` the first seed: a failure names its seed.

use plinth_engine::{
    admin::{AdminError, Survey, Value},
    catalog::rows::{encode_count, encode_value},
};
use plinth_server::{
    query::{
        self, Cancel, Estimated, Source, formats::Formats, settings::Settings, userenv::Facts,
        views,
    },
    sql::{self, Statement},
};
use rusqlite::{Connection, params_from_iter, types::Value as Sql};
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        LazyLock, Mutex, PoisonError,
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// A cancelled statement must have ended after this time, even on the slowest of hosts.
const PATIENCE: Duration = Duration::from_secs(120);
/// A statement that runs for longer is cancelled.
const LONG: Duration = Duration::from_millis(300);

/// Three rows of every view, in two groups; and how the session writes times.
struct Memory(Formats);

static ENGINE: LazyLock<Mutex<Connection>> = LazyLock::new(|| {
    let engine = Connection::open_in_memory().expect("a database");
    for view in views::all() {
        let columns: Vec<String> = view
            .columns
            .iter()
            .map(|(name, kind)| format!("\"{name}\" {}", kind.declaration()))
            .collect();
        engine
            .execute_batch(&format!("CREATE TABLE {} ({})", view.name, columns.join(", ")))
            .expect("a table");
        let marks = vec!["?"; columns.len()].join(", ");
        for number in 0..3_i64 {
            let value = |(_, kind): &(&str, views::Type)| match kind {
                views::Type::Integer | views::Type::Truth => Sql::Integer(number * 256),
                views::Type::Real => Sql::Real(number as f64 / 3.0),
                views::Type::Time => Sql::Text(format!("2026-03-0{} 10:00:00", number + 1)),
                views::Type::Text if number < 2 => Sql::Text(format!("DATA_000{number}")),
                views::Type::Text | views::Type::Letter => Sql::Null,
            };
            let row = params_from_iter(view.columns.iter().map(value));
            engine
                .execute(&format!("INSERT INTO {} VALUES ({marks})", view.name), row)
                .expect("a row");
        }
    }
    Mutex::new(engine)
});

impl Source for Memory {
    fn groups(&self) -> BTreeMap<String, u32> {
        BTreeMap::from([("DATA".to_owned(), 1), ("FRA".to_owned(), 2)])
    }

    fn query(
        &self,
        _: &str,
        sql: &str,
        part: &mut dyn FnMut(usize, Vec<u8>) -> Result<(), AdminError>,
    ) -> Result<(), AdminError> {
        let engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement =
            engine.prepare(sql).unwrap_or_else(|error| panic!("an engine is asked {sql}: {error}"));
        let width = statement.column_count();
        let mut rows = statement.query([]).expect("a statement without parameters");
        let (mut count, mut bytes) = (0, Vec::new());
        while let Some(row) =
            rows.next().unwrap_or_else(|error| panic!("an engine is asked {sql}: {error}"))
        {
            encode_count(width, &mut bytes);
            for at in 0..width {
                encode_value(row.get_ref(at).expect("a value").into(), &mut bytes);
            }
            count += 1;
        }
        part(count, bytes)
    }

    fn survey(&self) -> Result<Vec<Survey>, AdminError> {
        Ok(Vec::new())
    }

    fn estimates(&self) -> Vec<Estimated> {
        Vec::new()
    }

    fn password_users(&self) -> Vec<Vec<Value>> {
        Vec::new()
    }

    fn user(&self) -> String {
        "scott".into()
    }

    fn formats(&self) -> Formats {
        self.0.clone()
    }

    fn userenv(&self) -> Facts {
        Facts::from([("sid", Some("1".to_owned())), ("terminal", None)])
    }
}

/// Every other session has set how it writes times.
fn session(seed: u64) -> Memory {
    let mut settings = Settings::default();
    if seed.is_multiple_of(2) {
        settings.set("nls_date_format", Some("DD-MON-RR HH24:MI"));
    }
    Memory(Formats::of(&settings))
}

/// Pseudo-random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % limit.max(1) as u64).expect("small")
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "ORDER SIBLINGS BY",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "FETCH FIRST 3 ROWS ONLY",
    "UNION ALL",
    "MINUS",
    "WITH",
    "WITH RECURSIVE",
    "AS",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "START WITH",
    "CONNECT BY",
    "PRIOR",
    "NOCYCLE",
    "LEVEL",
    "ROWNUM",
    "SYS_CONNECT_BY_PATH(name, '/')",
    "CONNECT_BY_ROOT",
    "LISTAGG(name, ',')",
    "WITHIN GROUP (ORDER BY name)",
    "OVER ()",
    "PARTITION BY",
    "NULL",
    "NOT",
    "AND",
    "OR",
    "IN",
    "BETWEEN",
    "LIKE",
    "ILIKE",
    "ESCAPE",
    "IS",
    "EXISTS",
    "DISTINCT",
    "JOIN",
    "LEFT JOIN",
    "USING (group_number)",
    "ON",
    "NATURAL",
    "(",
    ")",
    "(+)",
    ",",
    ".",
    "*",
    "/",
    "+",
    "-",
    "%",
    "||",
    "::",
    "::int",
    "::text[]",
    "~",
    "!~*",
    "=",
    "<",
    "<=",
    ">",
    "<>",
    "$1",
    "$2",
    "$99999",
    "''",
    "'a%'",
    "'2026-01-01'",
    "E'\\n'",
    "\"name\"",
    "0",
    "1",
    "-1",
    "9223372036854775808",
    "1e308",
    "0.5",
    "x'00'",
    "v$asm_disk",
    "v$asm_diskgroup",
    "gv$asm_file",
    "v$asm_alias a",
    "dual",
    "name",
    "group_number",
    "total_mb",
    "create_date",
    "mount_date m",
    "serial#",
    "sys.",
    "v_$session s",
    "sys_context('USERENV',",
    "'01-JAN-26 00:00'",
    "a.name",
    "sysdate",
    "interval '1 day'",
    "date '2026-01-01'",
    "nvl(",
    "decode(",
    "to_char(",
    "to_date(",
    "trunc(",
    "round(",
    "lpad(",
    "rpad(",
    "substr(",
    "instr(",
    "regexp_like(",
    "translate(",
    "greatest(",
    "power(",
    "mod(",
    "count(*)",
    "sum(",
    "cast(",
    "split_part(",
    "pg_size_pretty(",
    "array(",
    "any(",
    "unnest(",
    "pg_catalog.",
    "information_schema.tables",
    "pg_class",
    "zeroblob(",
    "randomblob(",
    "printf(",
    "hex(",
    "char(",
    "ALTER",
    "DISKGROUP",
    "CREATE",
    "USER",
    "PASSWORD",
    "DROP",
    "SHOW",
    "SET",
    "TO",
    "ALL",
    "REBALANCE",
    "POWER",
    "é",
    "\u{1F600}",
    "\u{0}",
    "--",
    "/*",
    "*/",
    "'",
    "\"",
    ";",
    "\n/\n",
    "\nPROMPT x\n",
];

const VALID: &[&str] = &[
    "SELECT name, nvl(failgroup, '-'), total_mb - free_mb used FROM v$asm_disk WHERE group_number = 1 ORDER BY 1",
    "SELECT g.name, count(*), listagg(d.name, ',') WITHIN GROUP (ORDER BY d.name DESC) FROM v$asm_disk d, v$asm_diskgroup g \
     WHERE d.group_number = g.group_number GROUP BY g.name HAVING count(*) > 0",
    "SELECT SYS_CONNECT_BY_PATH(name, '/'), LEVEL, PRIOR name FROM v$asm_alias START WITH mod(parent_index, power(2, 24)) = 0 \
     CONNECT BY PRIOR reference_index = parent_index ORDER SIBLINGS BY name",
    "SELECT * FROM (SELECT name, rownum r FROM v$asm_disk ORDER BY free_mb / total_mb) WHERE rownum <= $1",
    "SELECT to_char(create_date, 'DD-MON-YYYY HH24:MI'), round(sysdate - create_date, 1), trunc(sysdate) - 1/24 FROM v$asm_disk",
    "SELECT CASE WHEN free_mb > 100 THEN 'a' ELSE decode(state, 'NORMAL', 1, 2)::text END FROM v$asm_disk WHERE name ILIKE 'data%' ESCAPE '!'",
    "SELECT c.relname, format_type(a.atttypid, -1) FROM pg_catalog.pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relname ~ '^v'",
    "WITH x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 5) SELECT sum(n) OVER (ORDER BY n) FROM x FETCH FIRST 2 ROWS ONLY",
    "SELECT LEVEL FROM dual CONNECT BY LEVEL <= 5",
    "SELECT m, 'on ' || m, to_char(m), nvl(m, '01-JAN-26 00:00') FROM (SELECT mount_date m FROM sys.v_$asm_disk) q \
     WHERE q.m - 1 > '01-JAN-26 00:00' AND m NOT BETWEEN '01-JAN-20 00:00' AND sysdate AND m NOT IN ('02-JAN-26 00:00')",
    "SELECT s.sid, s.serial#, sys_context('USERENV', 'SID') FROM gv$session s WHERE s.serial#>1 AND logon_time < $2",
    "ALTER SESSION SET nls_date_format = 'DD-MON-YY' current_schema = SYS",
    "ALTER SYSTEM SET asm_power_limit = 4 COMMENT = 'x' SCOPE = BOTH SID = '*'",
    "BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY; COMMIT; SHOW PARAMETER asm%",
    "ALTER DISKGROUP data ADD FAILGROUP f1 DISK '/dev/a*' NAME x SIZE 10G FORCE DROP DISK b REBALANCE POWER 4 WAIT",
    "CREATE DISKGROUP data NORMAL REDUNDANCY FAILGROUP a DISK '/x' FAILGROUP b DISK '/y' ATTRIBUTE 'au_size' = '4M'",
    "CREATE USER scott WITH PASSWORD 'tiger' ROLE OPERATE",
    "SET LINESIZE 100\nCOL name FORMAT a30\nSELECT name FROM v$asm_disk\n/\n",
];

/// A random text, mostly close to a valid statement.
fn text(dice: &mut Dice, scripts: &[String]) -> String {
    if dice.below(10) == 0 {
        let length = dice.below(60) + 1;
        return (0..length).map(|_| dice.one(WORDS)).collect::<Vec<_>>().join(" ");
    }
    let valid = match dice.below(2) {
        0 if !scripts.is_empty() => scripts[dice.below(scripts.len())].clone(),
        _ => dice.one(VALID).to_owned(),
    };
    if dice.below(8) == 0 {
        // One to four random bytes, anywhere.
        let mut bytes = valid.into_bytes();
        for _ in 0..dice.below(4) + 1 {
            let at = dice.below(bytes.len());
            bytes[at] = u8::try_from(dice.below(256)).expect("a byte");
        }
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    let mut words: Vec<String> =
        valid.split_inclusive([' ', '(', ')', ',']).map(str::to_owned).collect();
    for _ in 0..dice.below(4) + 1 {
        let at = dice.below(words.len());
        match dice.below(6) {
            0 => drop(words.remove(at)),
            1 => words.insert(at, words[at].clone()),
            2 => {
                let other = dice.below(words.len());
                words.swap(at, other);
            }
            3 => words.insert(at, format!("{} ", dice.one(WORDS))),
            4 => words[at] = format!("{} ", dice.one(WORDS)),
            _ => words.truncate(at + 1),
        }
        if words.is_empty() {
            break;
        }
    }
    words.concat()
}

/// Parses a text and runs its queries, in a thread of its own, which is cancelled after [`LONG`].
fn tried(text: &str, seed: u64) {
    let cancel = Cancel::default();
    let (tell, told) = channel::<()>();
    let (given, owned) = (cancel.clone(), text.to_owned());
    let shown: String = text.chars().take(2000).collect();
    let told_of = shown.clone();
    let running = thread::spawn(move || {
        let length = owned.chars().count();
        let within = |refusal: plinth_server::sql_error::SqlError| {
            assert!(refusal.at.is_none_or(|at| at <= length), "{refusal:?} in {told_of:?}");
            assert!(
                refusal.state.len() == 5 && refusal.state != "XX000",
                "{refusal:?} in {told_of:?}"
            );
        };
        match sql::parse(&owned) {
            Err(refusal) => within(refusal),
            Ok(statements) => {
                for statement in statements.into_iter().take(4) {
                    let _ = (statement.tag(), statement.needs(), format!("{statement:?}"));
                    let Statement::Query(query) = statement else { continue };
                    let parameters = [Value::Integer(2), Value::Text("DATA%".into())];
                    let source = session(seed);
                    if let Err(refusal) = query::describe(&source, &query, &given) {
                        within(refusal);
                    }
                    match query::run(&source, &query, &parameters, &given, &mut Vec::new()) {
                        Ok(table) => drop(source.0.table(table)),
                        Err(refusal) => within(refusal),
                    }
                }
            }
        }
        drop(tell);
    });
    let ended = told.recv_timeout(LONG) != Err(RecvTimeoutError::Timeout);
    if !ended {
        cancel.cancel();
        let stopped = told.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout);
        assert!(stopped, "seed {seed}: it does not end: {shown:?}");
    }
    assert!(running.join().is_ok(), "seed {seed}: it crashed: {shown:?}");
}

fn scripts() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/scripts");
    let mut paths: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// Every text gives an answer or a refusal.
#[test]
fn no_statement_crashes_or_hangs() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let until = Instant::now() + Duration::from_secs(number("PLINTH_FUZZ_SECONDS").unwrap_or(5));
    let scripts = scripts();
    assert!(scripts.len() >= 12);
    let mut seed = number("PLINTH_FUZZ_SEED").unwrap_or(1);
    while Instant::now() < until || seed < 50 {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        tried(&text(&mut dice, &scripts), seed);
        seed += 1;
    }
}

/// Large and deeply nested statements are refused or carried out, without exhausting the stack, the
/// memory or the time limit.
#[test]
fn too_large_queries_are_refused() {
    let nested = |open: &str, close: &str, count: usize| {
        format!("SELECT {}1{}", open.repeat(count), close.repeat(count))
    };
    for (number, text) in [
        nested("(", ")", 100_000),
        nested("(SELECT ", ")", 30_000),
        nested("CASE WHEN 1 THEN ", " END", 5_000),
        nested("nvl(1, ", ")", 5_000),
        nested("-", "", 200_000),
        format!("SELECT 1{}", "::int".repeat(100_000)),
        format!("SELECT 1{}", " / 1".repeat(4_000)),
        format!("SELECT sysdate{}", " - 1".repeat(4_000)),
        format!("SELECT 1{}", " UNION SELECT 1".repeat(2_000)),
        format!("SELECT {}", "$1, ".repeat(8_000)),
        format!("SELECT LEVEL FROM dual {}", "CONNECT BY LEVEL < 3 ".repeat(2_000)),
        format!("{}1{}", "SELECT * FROM (SELECT LEVEL x FROM dual CONNECT BY LEVEL <= ".repeat(100), ")".repeat(100)),
        "SELECT 1;".repeat(60_000),
        "/*".repeat(100_000),
        "(".repeat(1 << 20),
        // As much as is let through.
        "(".repeat(19_990),
        nested("(", ")", 9_900),
        nested("(SELECT ", ")", 480),
        nested("decode(1, 1, ", ")", 2_800),
        nested("CASE WHEN 1 THEN ", " END", 3_300),
        nested("a.b(+) = ", "", 2_800),
        format!("SELECT 1{}", " INTERSECT SELECT 1".repeat(490)),
        format!("SELECT 1{}", " UNION (SELECT 1)".repeat(490)),
        format!("SELECT 1{}", ", (SELECT max(rownum) FROM dual)".repeat(490)),
        format!("SELECT 1 FROM dual{}", ", dual".repeat(9_900)),
        format!("SELECT 1 FROM dual ORDER BY 1{}", ", 1".repeat(9_900)),
        format!("SELECT 1 FROM dual WHERE 1 IN (1{})", ", 1".repeat(9_900)),
        format!("SELECT {}1", "'' || ".repeat(9_900)),
        format!("SELECT 1 FROM dual GROUP BY ROLLUP(1{})", ", 1".repeat(9_900)),
        format!("SELECT '{}'", "x".repeat((1 << 20) - 100)),
        "SELECT hex(zeroblob(100000000))".into(),
        "SELECT lpad('x', 1000000000), rpad('x', 9e18)".into(),
        "SELECT replace(hex(zeroblob(8000000)), '0', hex(zeroblob(100)))".into(),
        "SELECT group_concat(hex(zeroblob(1000000))) FROM (WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x FROM r)".into(),
        "SELECT regexp_like(hex(zeroblob(1000)), '(0+)+$')".into(),
    ]
    .into_iter()
    .enumerate()
    {
        tried(&text, number as u64);
    }
}
