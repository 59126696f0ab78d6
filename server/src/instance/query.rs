//! SELECT over the views.
//!
//! Each statement gets an SQLite of its own, in memory, and thrown away afterwards:
//!
//!   1. Make the views as empty tables and prepare the statement. The authorizer hears which columns it reads.
//!   2. Fetch those columns of those views from each engine; discovery adds disks and groups that are not mounted.
//!   3. Run the statement: only reading, for a limited time, with limited memory, until its client goes away.
//!
//! So a statement can hurt nobody but itself: engines answer from a snapshot, and the instance is in nobody's way.

use super::{
    psql::{self, Rewritten},
    views::{COMPOUND, Type, VIEWS, View},
};
use crate::{
    alert::rfc3339,
    refusal::{Refusal, state},
    sql::tokens::{Kind, Text},
};
use plinth_engine::admin::{AdminError, Estimate, HeaderStatus, Rows, Survey, Value};
use rusqlite::{
    Connection, OpenFlags, Statement,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
    types::ValueRef,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

type Result<T> = std::result::Result<T, Refusal>;

/// How long a statement may run, without the time that engines take.
const RUN_MAX: Duration = Duration::from_secs(60);
/// The longest value, in bytes.
const VALUE_MAX: i32 = 16 << 20;
/// The largest result, in bytes, about.
const RESULT_MAX: usize = 512 << 20;
/// Most rows fetched from engines for one statement.
const FETCH_MAX: usize = 20_000_000;
/// SQLite's steps between two looks at the clock.
const STEPS: i32 = 10_000;
/// Columns that engines do not know.
const OURS: [&str; 1] = ["remark"];

/// Where rows come from.
pub trait Source {
    /// Mounted groups (as far as we know) and their numbers.
    fn groups(&self) -> BTreeMap<String, u32>;
    /// Runs a SELECT in a group's engine.
    ///
    /// # Errors
    /// If the engine does not answer, or refuses.
    fn query(
        &self,
        group: &str,
        sql: &str,
        row: &mut dyn FnMut(Vec<Value>) -> std::result::Result<(), AdminError>,
    ) -> std::result::Result<Rows, AdminError>;
    /// # Errors
    /// If it takes too long.
    fn survey(&self) -> std::result::Result<Vec<Survey>, AdminError>;
    /// What was estimated lately.
    fn estimates(&self) -> Vec<Estimated>;
    /// Who asks, for `current_user`.
    fn user(&self) -> String;
}

/// What an `EXPLAIN WORK` has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimated {
    pub group: String,
    pub id: String,
    /// Nanoseconds since 1970.
    pub when: i64,
    pub estimate: Estimate,
}

/// Set when nobody waits for the result any more.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Value>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: Type,
}

/// What a statement is, before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    pub parameters: usize,
    pub columns: Vec<Column>,
}

/// Runs a query. `parameters` are `$1`, `$2` ...
///
/// # Errors
/// With the place in the query, where SQLite knows it.
pub fn run(
    source: &dyn Source,
    query: &str,
    parameters: &[Value],
    cancel: &Cancel,
    notices: &mut Vec<String>,
) -> Result<Table> {
    let mut prepared = Prepared::new(source, query)?;
    prepared.fill(source, cancel, notices)?;
    prepared.run(parameters, cancel)
}

/// Tells the parameters and columns of a query. Types of expressions are those of the first values they have now.
///
/// # Errors
/// As [`run`].
pub fn describe(source: &dyn Source, query: &str, cancel: &Cancel) -> Result<Described> {
    let mut prepared = Prepared::new(source, query)?;
    let (known, parameters) = {
        let statement = prepared.statement()?;
        (prepared.known_types(&statement), statement.parameter_count())
    };
    let columns = if known.iter().all(|(_, kind)| kind.is_some()) {
        known.into_iter().map(|(name, kind)| Column { name, kind: kind.unwrap_or(Type::Text) }).collect()
    } else {
        prepared.fill(source, cancel, &mut Vec::new())?;
        prepared.run(&vec![Value::Null; parameters], cancel)?.columns
    };
    Ok(Described { parameters, columns })
}

/// What a statement reads.
#[derive(Debug, Default)]
struct Reads {
    /// Columns by view.
    columns: BTreeMap<&'static str, BTreeSet<String>>,
    /// Whether disks must be looked for: a view was read by itself, not by its twin.
    discovery: bool,
}

struct Prepared {
    connection: Connection,
    rewritten: Rewritten,
    reads: Reads,
}

impl Prepared {
    fn new(source: &dyn Source, query: &str) -> Result<Self> {
        let rewritten = psql::rewrite(query)?;
        let mut connection = open(&source.user()).map_err(|error| internal(&error))?;
        if psql::mentions_catalog(&rewritten.sql) {
            psql::create_catalog(&connection, &source.user()).map_err(|error| internal(&error))?;
        }
        let reads = Arc::new(Mutex::new(Reads::default()));
        let heard = Arc::clone(&reads);
        connection
            .authorizer(Some(move |context: AuthContext<'_>| {
                note(&mut heard.lock().unwrap_or_else(PoisonError::into_inner), &context);
                authorize(&context)
            }))
            .map_err(|error| internal(&error))?;
        let mut prepared = Self { connection, rewritten, reads: Reads::default() };
        prepared.statement().map(drop)?;
        prepared.reads = std::mem::take(&mut *reads.lock().unwrap_or_else(PoisonError::into_inner));
        prepared.reads.discovery = looks_for_disks(query)?;
        for view in read_silently(query)? {
            let columns = prepared.reads.columns.entry(view.name).or_default();
            columns.extend(view.columns.iter().map(|(column, _)| (*column).to_owned()));
        }
        Ok(prepared)
    }

    fn statement(&self) -> Result<Statement<'_>> {
        self.connection.prepare(&self.rewritten.sql).map_err(|error| self.refused(error, None))
    }

    fn refused(&self, error: rusqlite::Error, why: Option<Refusal>) -> Refusal {
        use rusqlite::ErrorCode;
        if let Some(why) = why {
            return why;
        }
        match error {
            rusqlite::Error::SqlInputError { msg, offset, .. } => {
                let refusal = misunderstood(&msg);
                match usize::try_from(offset) {
                    Ok(offset) => refusal.at(self.rewritten.origin(offset)),
                    Err(_) => refusal,
                }
            }
            rusqlite::Error::SqliteFailure(error, Some(message)) if error.code == ErrorCode::Unknown => {
                let refusal = misunderstood(&message);
                // SQLite does not tell the place of a table that there is not.
                match message.strip_prefix("no such table: ").and_then(|name| self.rewritten.sql.find(name)) {
                    Some(offset) => refusal.at(self.rewritten.origin(offset)),
                    None => refusal,
                }
            }
            rusqlite::Error::MultipleStatement => {
                Refusal::new(state::SYNTAX, "several statements where one is expected")
            }
            rusqlite::Error::SqliteFailure(error, message) => {
                let message = message.unwrap_or_else(|| error.to_string());
                match error.code {
                    ErrorCode::AuthorizationForStatementDenied => Refusal::new(state::PERMISSION, message)
                        .hint("statements can only read, with SELECT, from the views"),
                    ErrorCode::OutOfMemory | ErrorCode::TooBig => Refusal::new(state::TOO_COMPLEX, message),
                    _ => Refusal::new("22000", message),
                }
            }
            other => Refusal::new(state::INTERNAL, other),
        }
    }

    /// Names of the result's columns, and their types where a view declares them.
    fn known_types(&self, statement: &Statement<'_>) -> Vec<(String, Option<Type>)> {
        let column =
            |column: rusqlite::Column<'_>| (column.name().to_owned(), column.decl_type().and_then(Type::declared));
        statement.columns().map(column).collect()
    }

    /// Step 2.
    fn fill(&self, source: &dyn Source, cancel: &Cancel, notices: &mut Vec<String>) -> Result<()> {
        let groups = source.groups();
        let survey = if self.reads.discovery {
            match source.survey() {
                Ok(survey) => survey,
                Err(error) => {
                    notices.push(format!("disks of no mounted group are not shown: {error}"));
                    Vec::new()
                }
            }
        } else {
            Vec::new()
        };
        let mut fetched = 0;
        for (name, columns) in &self.reads.columns {
            let Some(view) = super::views::find(name) else { continue };
            if view.name == "v$asm_estimate" {
                self.estimates(view, &source.estimates(), &groups)?;
                continue;
            }
            let mut wanted = columns.clone();
            wanted.insert("group_number".into());
            if view.name == "v$asm_disk" {
                wanted.insert("path".into());
                wanted.insert("name".into());
            }
            let wanted: Vec<&str> = wanted.iter().map(String::as_str).filter(|column| !OURS.contains(column)).collect();
            let mut paths = BTreeSet::new();
            for (group, number) in &groups {
                if cancel.is_cancelled() {
                    return Err(Refusal::canceled());
                }
                let sql = format!("SELECT {} FROM {}", wanted.join(", "), view.name);
                let mut insert = Insert::new(self, view, &wanted)?;
                let result = source.query(group, &sql, &mut |mut row| {
                    fetched += 1;
                    if fetched > FETCH_MAX {
                        return Err(AdminError::new(plinth_engine::admin::Code::NotSupported, TOO_MANY));
                    }
                    number_row(&wanted, &mut row, *number);
                    if let Some(Value::Text(path)) =
                        wanted.iter().position(|column| *column == "path").and_then(|at| row.get(at))
                    {
                        paths.insert(path.clone());
                    }
                    insert.row(&row).map_err(|error| AdminError::new(plinth_engine::admin::Code::Io, error))
                });
                drop(insert);
                if let Err(error) = result {
                    notices.push(format!("nothing of disk group {group} is shown: {error}"));
                    if view.name == "v$asm_diskgroup" {
                        self.insert(
                            view,
                            &["group_number", "name", "state"],
                            vec![
                                Value::Integer(i64::from(*number)),
                                Value::Text(group.clone()),
                                Value::Text("BROKEN".into()),
                            ],
                        )?;
                    }
                }
            }
            match view.name {
                "v$asm_disk" => {
                    let rest = self.returned_disks(&survey, &groups, paths)?;
                    self.unmounted_disks(view, &survey, &rest)?;
                }
                "v$asm_diskgroup" => self.unmounted_groups(view, &survey, &groups)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn insert(&self, view: &View, columns: &[&str], row: Vec<Value>) -> Result<()> {
        Insert::new(self, view, columns)?.row(&row).map_err(|error| internal(&error))
    }

    fn estimates(&self, view: &View, estimates: &[Estimated], groups: &BTreeMap<String, u32>) -> Result<()> {
        let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
        for Estimated { group, id, when, estimate } in estimates {
            let row = vec![
                number(groups.get(group).copied().unwrap_or(0).into()),
                Value::Text(id.clone()),
                Value::Text(rfc3339(*when).chars().take(19).collect::<String>().replace('T', " ")),
                number(estimate.work),
                Value::Integer(0),
                number(estimate.least),
                number(estimate.work.saturating_mul(estimate.au_size)),
            ];
            let columns: Vec<&str> = view.columns.iter().map(|(column, _)| *column).collect();
            self.insert(view, &columns, row)?;
        }
        Ok(())
    }

    /// A disk that its group does without, and that is in sight again, is shown once, with its path. Returns all paths
    /// that are shown.
    fn returned_disks(
        &self,
        survey: &[Survey],
        groups: &BTreeMap<String, u32>,
        mut shown: BTreeSet<String>,
    ) -> Result<BTreeSet<String>> {
        for disk in survey.iter().filter(|disk| disk.header == HeaderStatus::Member) {
            if shown.contains(&disk.path) {
                continue;
            }
            let number = disk.group.as_ref().and_then(|group| groups.get(group));
            let (Some(number), Some(name)) = (number, &disk.name) else { continue };
            let sql =
                "UPDATE v$asm_disk SET path = ?1 WHERE group_number = ?2 AND name = ?3 AND coalesce(path, '') = ''";
            let changed = filling(|| self.connection.prepare(sql))
                .and_then(|mut statement| statement.execute((&disk.path, *number, name)))
                .map_err(|error| internal(&error))?;
            if changed > 0 {
                shown.insert(disk.path.clone());
            }
        }
        Ok(shown)
    }

    fn unmounted_disks(&self, view: &View, survey: &[Survey], mounted: &BTreeSet<String>) -> Result<()> {
        const COLUMNS: [&str; 25] = [
            "group_number",
            "disk_number",
            "mount_status",
            "header_status",
            "mode_status",
            "state",
            "redundancy",
            "library",
            "os_mb",
            "total_mb",
            "free_mb",
            "name",
            "failgroup",
            "path",
            "sector_size",
            "logical_sector_size",
            "failgroup_type",
            "thin_provision_capable",
            "voting_file",
            "remark",
            "con_id",
            "compound_index",
            "incarnation",
            "reads",
            "writes",
        ];
        let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
        let word = |word: &str| Value::Text(word.to_owned());
        let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
        for (at, disk) in survey.iter().filter(|disk| !mounted.contains(&disk.path)).enumerate() {
            let mount_status = match disk.header {
                HeaderStatus::Conflict | HeaderStatus::Unknown => "IGNORED",
                _ => "CLOSED",
            };
            let row = vec![
                Value::Integer(0),
                number(at as u64),
                word(mount_status),
                Value::Text(disk.header.to_string()),
                word("ONLINE"),
                word("NORMAL"),
                word("UNKNOWN"),
                word("System"),
                number(disk.size >> 20),
                Value::Integer(0),
                Value::Integer(0),
                text(&disk.name),
                text(&disk.failure_group),
                Value::Text(disk.path.clone()),
                number(u64::from(disk.physical_sector)),
                number(u64::from(disk.logical_sector)),
                word(if disk.quorum { "QUORUM" } else { "REGULAR" }),
                word(if disk.can_discard { "Y" } else { "N" }),
                word("N"),
                text(&disk.remark),
                Value::Integer(0),
                number(at as u64),
                Value::Integer(0),
                Value::Integer(0),
                Value::Integer(0),
            ];
            self.insert(view, &COLUMNS, row)?;
        }
        Ok(())
    }

    fn unmounted_groups(&self, view: &View, survey: &[Survey], mounted: &BTreeMap<String, u32>) -> Result<()> {
        let members = survey.iter().filter(|disk| disk.header == HeaderStatus::Member);
        let seen: BTreeSet<(&String, &Option<String>)> =
            members.filter_map(|disk| disk.group.as_ref().map(|group| (group, &disk.group_id))).collect();
        for (group, _) in seen.into_iter().filter(|(group, _)| !mounted.contains_key(*group)) {
            const COLUMNS: [&str; 13] = [
                "group_number",
                "name",
                "sector_size",
                "logical_sector_size",
                "block_size",
                "allocation_unit_size",
                "state",
                "total_mb",
                "free_mb",
                "required_mirror_free_mb",
                "usable_file_mb",
                "offline_disks",
                "con_id",
            ];
            let mut row = vec![Value::Integer(0); COLUMNS.len()];
            row[1] = Value::Text(group.clone());
            row[6] = Value::Text("DISMOUNTED".into());
            self.insert(view, &COLUMNS, row)?;
        }
        Ok(())
    }

    /// Step 3.
    fn run(&mut self, parameters: &[Value], cancel: &Cancel) -> Result<Table> {
        let began = Instant::now();
        let watched = cancel.clone();
        self.connection
            .progress_handler(STEPS, Some(move || watched.is_cancelled() || began.elapsed() > RUN_MAX))
            .map_err(|error| internal(&error))?;
        let why = || {
            if cancel.is_cancelled() {
                Some(Refusal::canceled())
            } else if began.elapsed() > RUN_MAX {
                Some(Refusal::new(state::CANCELED, format!("the statement ran longer than {} s", RUN_MAX.as_secs())))
            } else {
                None
            }
        };
        let mut statement = self.statement()?;
        let known = self.known_types(&statement);
        for at in 1..=statement.parameter_count() {
            let number = match statement.parameter_name(at) {
                Some(name) => name.trim_start_matches(['$', '?', ':', '@']).parse().ok(),
                None => Some(at),
            };
            let value: Option<&Value> =
                number.and_then(|number: usize| number.checked_sub(1)).and_then(|index| parameters.get(index));
            let Some(value) = value else {
                return Err(Refusal::new("42P02", format!("there is no value for parameter {at}")));
            };
            statement.raw_bind_parameter(at, Bound(value)).map_err(|error| self.refused(error, None))?;
        }
        let mut table = Table::default();
        let mut size = 0;
        let mut rows = statement.raw_query();
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(error) => return Err(self.refused(error, why())),
            };
            let mut values = Vec::with_capacity(known.len());
            for at in 0..known.len() {
                let value = match row.get_ref(at).map_err(|error| self.refused(error, why()))? {
                    ValueRef::Null => Value::Null,
                    ValueRef::Integer(number) => Value::Integer(number),
                    ValueRef::Real(number) => Value::Real(number),
                    ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                    ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
                };
                size += 16
                    + match &value {
                        Value::Text(text) => text.len(),
                        Value::Blob(bytes) => bytes.len(),
                        _ => 0,
                    };
                values.push(value);
            }
            if size > RESULT_MAX {
                return Err(Refusal::new(state::TOO_COMPLEX, "the result is too large").hint("add a WHERE or a LIMIT"));
            }
            table.rows.push(values);
        }
        drop(rows);
        table.columns = known
            .into_iter()
            .enumerate()
            .map(|(at, (name, kind))| Column {
                name,
                kind: fitting(kind, table.rows.iter().filter_map(|row| row.get(at))),
            })
            .collect();
        Ok(table)
    }
}

/// Views of which the authorizer does not hear all: the columns that `JOIN ... USING` and `NATURAL JOIN` compare.
fn read_silently(query: &str) -> Result<Vec<&'static View>> {
    let text = Text::new(query)?;
    let tokens: Vec<_> = text.statements().flatten().collect();
    if !tokens.iter().any(|token| token.is("USING") || token.is("NATURAL")) {
        return Ok(Vec::new());
    }
    let named = tokens.iter().filter_map(|token| match &token.kind {
        Kind::Word(word) | Kind::Quoted(word) => {
            let word = word.to_ascii_lowercase();
            super::views::find(word.strip_suffix("_stat").unwrap_or(&word))
        }
        _ => None,
    });
    Ok(named.collect())
}

/// Whether a query names a view whose twin looks for no disks, by its own name.
fn looks_for_disks(query: &str) -> Result<bool> {
    let text = Text::new(query)?;
    let names = text.statements().flatten().filter_map(|token| match &token.kind {
        Kind::Word(word) | Kind::Quoted(word) => super::views::find(word),
        _ => None,
    });
    Ok(names.into_iter().any(|view| view.has_twin))
}

/// What SQLite says of a statement that it does not understand.
fn misunderstood(message: &str) -> Refusal {
    let state = match message {
        _ if message.starts_with("no such table") => "42P01",
        _ if message.starts_with("no such column") => "42703",
        _ if message.starts_with("no such function") => "42883",
        _ if message.starts_with("ambiguous column") => "42702",
        _ if message.contains("not authorized") || message.contains("is prohibited") => state::PERMISSION,
        _ => state::SYNTAX,
    };
    let refusal = Refusal::new(state, message);
    if message.starts_with("no such table") {
        let views: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
        return refusal.hint(format!("the views are {}", views.join(", ")));
    }
    refusal
}

const TOO_MANY: &str = "more rows than one statement may read";

/// The type of a column: the declared one if all values are of it, else the first that all values fit.
fn fitting<'a>(declared: Option<Type>, values: impl Iterator<Item = &'a Value>) -> Type {
    let mut found = None;
    for value in values {
        let kind = match value {
            Value::Null => continue,
            Value::Integer(_) => Type::Integer,
            Value::Real(_) => Type::Real,
            Value::Text(_) | Value::Blob(_) => return Type::Text,
        };
        found = match (found, kind) {
            (Some(Type::Real), _) | (_, Type::Real) => Some(Type::Real),
            _ => Some(kind),
        };
    }
    match (declared, found) {
        (Some(Type::Real), Some(Type::Integer)) => Type::Real,
        (Some(Type::Text), _) => Type::Text,
        (_, Some(found)) => found,
        (declared, None) => declared.unwrap_or(Type::Text),
    }
}

struct Bound<'a>(&'a Value);

impl rusqlite::ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::ToSqlOutput;
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Puts rows into a view's table.
struct Insert<'a> {
    statement: Statement<'a>,
}

impl<'a> Insert<'a> {
    fn new(prepared: &'a Prepared, view: &View, columns: &[&str]) -> Result<Self> {
        let marks = vec!["?"; columns.len()].join(", ");
        let sql = format!("INSERT INTO {} ({}) VALUES ({marks})", view.name, columns.join(", "));
        let statement = filling(|| prepared.connection.prepare(&sql));
        Ok(Self { statement: statement.map_err(|error| internal(&error))? })
    }

    fn row(&mut self, row: &[Value]) -> rusqlite::Result<()> {
        self.statement.execute(rusqlite::params_from_iter(row.iter().map(Bound))).map(drop)
    }
}

thread_local! {
    /// Whether this thread prepares a statement of our own.
    static FILLING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Prepares a statement of our own, which may write.
fn filling<T>(prepare: impl FnOnce() -> T) -> T {
    FILLING.with(|filling| filling.set(true));
    let prepared = prepare();
    FILLING.with(|filling| filling.set(false));
    prepared
}

/// Gives a row its group's number.
fn number_row(columns: &[&str], row: &mut [Value], group: u32) {
    for (column, value) in columns.iter().zip(row) {
        if *column == "group_number" {
            *value = Value::Integer(i64::from(group));
        } else if COMPOUND.contains(column)
            && let Value::Integer(number) = value
        {
            *number = number.wrapping_add(i64::from(group) << 24);
        }
    }
}

fn open(user: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_MEMORY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(":memory:", flags)?;
    let mut sql = String::from("PRAGMA journal_mode = OFF; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;");
    for view in &VIEWS {
        let columns: Vec<String> =
            view.columns.iter().map(|(name, kind)| format!("{name} {}", kind.declaration())).collect();
        sql.push_str(&format!("CREATE TABLE {} ({});", view.name, columns.join(", ")));
        if view.has_twin {
            sql.push_str(&format!("CREATE VIEW {0}_stat AS SELECT * FROM {0};", view.name));
        }
    }
    sql.push_str("CREATE TABLE dual (dummy TEXT); INSERT INTO dual VALUES ('X');");
    connection.execute_batch(&sql)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    psql::create_functions(&connection, user)?;
    Ok(connection)
}

fn internal(error: &rusqlite::Error) -> Refusal {
    Refusal::new(state::INTERNAL, format!("preparing the views: {error}"))
}

/// Hears what a statement reads.
fn note(reads: &mut Reads, context: &AuthContext<'_>) {
    let AuthAction::Read { table_name, column_name } = context.action else { return };
    let Some(view) = super::views::find(table_name) else { return };
    let columns = reads.columns.entry(view.name).or_default();
    if !column_name.is_empty() {
        columns.insert(column_name.to_ascii_lowercase());
    }
}

fn authorize(context: &AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Read { table_name, .. } if table_name.starts_with("sqlite_") => Authorization::Deny,
        AuthAction::Read { .. } => Authorization::Allow,
        AuthAction::Function { function_name } if function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Deny
        }
        AuthAction::Function { .. } => Authorization::Allow,
        AuthAction::Insert { .. } | AuthAction::Update { .. } | AuthAction::Transaction { .. }
            if FILLING.with(std::cell::Cell::get) =>
        {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}
