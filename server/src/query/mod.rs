//! SELECT over the views.
//!
//! Each statement gets an SQLite database of its own, in memory, which is dropped afterwards:
//!
//!   1. Declare the views as empty tables ([`table`]) and prepare the statement. The authorizer is
//!      called for each column that it reads. Engines do the parts that they can do: conditions,
//!      sums and counts ([`plan`]).
//!   2. Fetch those columns of those views from each engine ([`fetch`]); discovery adds disks and
//!      groups that are not mounted.
//!   3. Run the statement: read-only, with a limit of time and of memory, and only while its client
//!      is connected.
//!
//! So a statement can harm only itself: engines answer from a snapshot, and hold no lock for it.

mod absent;
#[cfg(test)]
mod answers;
mod fetch;
mod fetched;
pub mod formats;
mod functions;
pub mod infer_types;
mod mentions;
pub mod pg_compat;
mod plan;
pub mod scheduling;
pub mod settings;
mod table;
#[cfg(test)]
mod tests;
pub mod userenv;
pub mod views;

use crate::{
    sql::{
        Query,
        rules::{Choice, Rules},
        tokens::{Kind, Token},
    },
    sql_error::{SqlError, state},
};
use fetch::{Fetching, Taken};
use formats::Formats;
pub use functions::{Time, number_of_client};
use mentions::{Mentions, Registry};
use pg_compat::{Rewritten, catalog};
use plan::{Plan, Planned};
use plinth_engine::{
    admin::{AdminError, Estimate, Survey, Value},
    catalog::rows::Seen,
};
use rusqlite::{
    Connection, OpenFlags, Statement,
    config::DbConfig,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
};
use scheduling::{Budget, Pace};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use table::Shared;
use views::{Type, View};

type Result<T> = std::result::Result<T, SqlError>;

/// How long a statement may run, without the time that it waits for engines.
const RUN_MAX: Duration = Duration::from_secs(60);
/// The longest value, in bytes.
const VALUE_MAX: i32 = 16 << 20;
/// The largest result, approximately, in bytes.
const RESULT_MAX: usize = 512 << 20;
/// Memory of all statements together, in bytes; a statement that needs more is refused.
const HEAP_MAX: u64 = 1 << 30;
/// Tables that are fetched at a time: half of the queries that an engine runs at once, so that it
/// can still answer others.
const AT_ONCE: usize = 2;
/// SQLite's steps between two checks of the time limit.
const STEPS: i32 = 10_000;

/// The source of rows, and the client that the statement is for.
pub trait Source: Sync {
    /// Mounted groups (as far as is known here) and their numbers.
    fn groups(&self) -> BTreeMap<String, u32>;
    /// Runs a SELECT in a group's engine; the rows come in parts (engine's `rows.rs`).
    ///
    /// # Errors
    /// If the engine does not answer, or refuses.
    fn query(
        &self,
        group: &str,
        sql: &str,
        part: &mut dyn FnMut(usize, Vec<u8>) -> std::result::Result<(), AdminError>,
    ) -> std::result::Result<(), AdminError>;
    /// # Errors
    /// If it takes too long.
    fn survey(&self) -> std::result::Result<Vec<Survey>, AdminError>;
    /// The results of recent `EXPLAIN WORK`.
    fn estimates(&self) -> Vec<Estimated>;
    /// The name of the client's user, for `current_user`.
    fn user(&self) -> String;
    /// The processor time that this client may use.
    fn budget(&self) -> Budget {
        Budget::default()
    }
    /// Whose rules the client wants.
    fn sql_rules(&self) -> Choice {
        Choice::default()
    }
    /// Rows of `v$pwfile_users`.
    fn password_users(&self) -> Vec<Vec<Value>>;
    /// Rows of another view that the instance itself has, with the values of all columns.
    fn instance_rows(&self, _view: &View) -> Vec<Vec<Value>> {
        Vec::new()
    }
    /// The facts that `SYS_CONTEXT` looks up.
    fn userenv(&self) -> userenv::Facts {
        userenv::Facts::new()
    }
    /// How the session writes times.
    fn formats(&self) -> Formats {
        Formats::default()
    }
    /// The rows of `SHOW ALL`.
    fn settings(&self) -> BTreeMap<String, String> {
        settings::defaults()
    }
}

/// The result of an `EXPLAIN WORK`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimated {
    pub group: String,
    pub id: String,
    /// Nanoseconds since 1970.
    pub when: i64,
    pub estimate: Estimate,
}

/// Set when the client does not wait for the result any more.
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

/// Parameters and columns of a statement, before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    pub parameters: usize,
    pub columns: Vec<Column>,
}

/// Runs a query. `parameters` are `$1`, `$2` ...
///
/// # Errors
/// With the position in the query, where SQLite reports it.
pub fn run(
    source: &dyn Source,
    query: &Query,
    parameters: &[Value],
    cancel: &Cancel,
    notices: &mut Vec<String>,
) -> Result<Table> {
    let mut prepared = Prepared::new(source, query)?;
    prepared.plan(query, parameters)?;
    prepared.answer(source, parameters, cancel, notices)
}

/// The parameters and columns of a query. The types of expressions are inferred from the text, or
/// else taken from the first values of the present result.
///
/// # Errors
/// As [`run`].
pub fn describe(source: &dyn Source, query: &Query, cancel: &Cancel) -> Result<Described> {
    let mut prepared = Prepared::new(source, query)?;
    let parameters = prepared.statement()?.parameter_count();
    let declared = prepared
        .columns
        .iter()
        .map(|(name, kind)| Some(Column { name: name.clone(), kind: (*kind)? }));
    let columns = match declared.collect() {
        Some(columns) => columns,
        None => {
            let nothing = vec![Value::Null; parameters];
            prepared.plan(query, &nothing)?;
            prepared.answer(source, &nothing, cancel, &mut Vec::new())?.columns
        }
    };
    Ok(Described { parameters, columns })
}

/// The data to fetch for one table.
enum Want<'a> {
    Planned(&'a Planned, &'a BTreeSet<String>),
    /// A view, and whether disks are looked for.
    View(&'a View, &'a BTreeSet<String>, bool),
}

/// A table that a statement reads.
struct TableRead {
    shared: Shared,
    fetch: Fetch,
}

/// How a table is filled from engines.
enum Fetch {
    /// With the columns of a view that are read; and whether disks are looked for, as they are not
    /// for a twin.
    View(&'static View, bool),
    /// With the rows that [`plan`] found to be enough.
    Planned(Planned),
}

/// Columns that a statement reads, by table, in lower case.
type Reads = BTreeMap<String, BTreeSet<String>>;

struct Prepared {
    connection: Connection,
    rules: Rules,
    rewritten: Rewritten,
    /// The SQL that runs: the rewritten statement, or its remainder where engines do a part.
    sql: String,
    /// By name, in lower case.
    tables: BTreeMap<String, TableRead>,
    heard: Arc<Mutex<Reads>>,
    reads: Reads,
    /// Names of the result's columns, and types where a view declares them.
    columns: Vec<(String, Option<Type>)>,
    /// Columns with numbers of functions, which are shown as names.
    procedures: Vec<usize>,
}

impl Prepared {
    fn new(source: &dyn Source, query: &Query) -> Result<Self> {
        let rules = source.sql_rules().of(query);
        let formats = source.formats();
        let rewritten = rewritten(query, &formats, rules)?;
        let mentions = Mentions::of(&rewritten.sql, &plan::FUNCTIONS);
        let mut connection =
            open(&source.user(), rules, &mentions).map_err(|error| internal(&error))?;
        formats.create_functions(&connection).map_err(|error| internal(&error))?;
        if userenv::is_mentioned(&rewritten.sql) {
            userenv::create(&connection, source.userenv()).map_err(|error| internal(&error))?;
        }
        let tables = declare_views(&connection, &mentions).map_err(|error| internal(&error))?;
        pg_compat::create_global_views(&connection, &rewritten.sql)
            .map_err(|error| internal(&error))?;
        if catalog::mentions_catalog(&rewritten.sql) {
            catalog::create(
                &connection,
                &rewritten.sql,
                &source.user(),
                &source.password_users(),
                &source.settings(),
            )
            .map_err(|error| internal(&error))?;
        }
        if rewritten.sql.to_ascii_lowercase().contains("current_setting") {
            catalog::create_settings(&connection, &source.settings())
                .map_err(|error| internal(&error))?;
        }
        let heard = Arc::new(Mutex::new(Reads::default()));
        let hears = Arc::clone(&heard);
        connection
            .authorizer(Some(move |context: AuthContext<'_>| {
                note(&mut hears.lock().unwrap_or_else(PoisonError::into_inner), &context);
                authorize(&context)
            }))
            .map_err(|error| internal(&error))?;
        let sql = rewritten.sql.clone();
        let (reads, columns, procedures) = (Reads::default(), Vec::new(), Vec::new());
        let mut prepared =
            Self { connection, rules, rewritten, sql, tables, heard, reads, columns, procedures };
        (prepared.columns, prepared.procedures) = {
            let statement = prepared.statement()?;
            let told: Vec<_> = statement.columns().collect();
            let is_procedure = |at: &usize| {
                told.get(*at).and_then(rusqlite::Column::decl_type) == Some(catalog::PROCEDURE)
            };
            let procedures = (0..told.len()).filter(is_procedure).collect();
            // The types of expressions are inferred from their text.
            let inferred = infer_types::of_columns(&query.tokens, told.len());
            let columns = told.iter().zip(inferred).map(|(column, inferred)| {
                let declared = match column.decl_type() {
                    Some(catalog::PROCEDURE) => Some(Type::Text),
                    declared => declared.and_then(Type::declared),
                };
                (column.name().to_owned(), declared.or(inferred))
            });
            (columns.collect(), procedures)
        };
        prepared.reads = prepared.heard();
        for table in read_silently(&query.tokens) {
            if let Some(TableRead { fetch: Fetch::View(view, _), .. }) = prepared.tables.get(&table)
            {
                let columns = view.columns.iter().map(|(column, _)| (*column).to_owned());
                prepared.reads.entry(table).or_default().extend(columns);
            }
        }
        Ok(prepared)
    }

    /// Takes the columns that the authorizer has seen since the last call.
    fn heard(&self) -> Reads {
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has engines do the parts that they can do. A plan that cannot be prepared is not used.
    fn plan(&mut self, query: &Query, parameters: &[Value]) -> Result<()> {
        if !read_silently(&query.tokens).is_empty() {
            return Ok(());
        }
        let Some(Plan { sql, tables }) = plan::plan(&self.sql, parameters) else { return Ok(()) };
        for table in tables {
            let shared = Shared::new(table.columns());
            shared.declare(&self.connection, &table.name).map_err(|error| internal(&error))?;
            self.tables
                .insert(table.name.clone(), TableRead { shared, fetch: Fetch::Planned(table) });
        }
        let prepared = self
            .connection
            .prepare(&sql)
            .is_ok_and(|planned| planned.column_count() == self.columns.len());
        let heard = self.heard();
        if prepared {
            (self.sql, self.reads) = (sql, heard);
        }
        Ok(())
    }

    fn statement(&self) -> Result<Statement<'_>> {
        self.connection.prepare(&self.sql).map_err(|error| self.refused(error, None))
    }

    fn refused(&self, error: rusqlite::Error, why: Option<SqlError>) -> SqlError {
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
            rusqlite::Error::SqliteFailure(error, Some(message))
                if error.code == ErrorCode::Unknown =>
            {
                let refusal = misunderstood(&message);
                // SQLite does not report the position of a table that does not exist.
                match message
                    .strip_prefix("no such table: ")
                    .and_then(|name| self.rewritten.sql.find(name))
                {
                    Some(offset) => refusal.at(self.rewritten.origin(offset)),
                    None => refusal,
                }
            }
            rusqlite::Error::MultipleStatement => {
                SqlError::new(state::SYNTAX, "several statements where one is expected")
            }
            rusqlite::Error::SqliteFailure(error, message) => {
                let message = message.unwrap_or_else(|| error.to_string());
                match error.code {
                    ErrorCode::AuthorizationForStatementDenied => {
                        SqlError::new(state::PERMISSION, message)
                            .hint("statements can only read, with SELECT, from the views")
                    }
                    ErrorCode::OutOfMemory | ErrorCode::TooBig => {
                        SqlError::new(state::TOO_COMPLEX, message).hint("add a WHERE or a LIMIT")
                    }
                    _ => SqlError::new("22000", message),
                }
            }
            other => SqlError::new(state::INTERNAL, other),
        }
    }

    /// A refusal for an error while a statement runs: mostly of a function.
    fn failed(&self, error: rusqlite::Error, why: Option<SqlError>) -> SqlError {
        match error {
            rusqlite::Error::SqliteFailure(error, Some(message))
                if why.is_none() && error.code == rusqlite::ErrorCode::Unknown =>
            {
                wrong_value(&message)
            }
            error => self.refused(error, why),
        }
    }

    /// Steps 2 and 3.
    fn answer(
        &mut self,
        source: &dyn Source,
        parameters: &[Value],
        cancel: &Cancel,
        notices: &mut Vec<String>,
    ) -> Result<Table> {
        let answer = || {
            let mut pace = Pace::new(cancel, source.budget());
            self.fill(source, cancel, &mut pace, notices)?;
            let table = self.run(parameters, cancel, pace);
            // The processor time of the statement is deducted from its session by the thread that
            // used it.
            self.connection
                .progress_handler(0, None::<fn() -> bool>)
                .map_err(|error| internal(&error))?;
            table
        };
        scheduling::run(answer).unwrap_or_else(|| Err(SqlError::canceled()))
    }

    /// Step 2.
    fn fill(
        &self,
        source: &dyn Source,
        cancel: &Cancel,
        pace: &mut Pace,
        notices: &mut Vec<String>,
    ) -> Result<()> {
        let groups = source.groups();
        let looks_for_disks = |name: &String| {
            let table = self.tables.get(name).map(|table| &table.fetch);
            matches!(table, Some(Fetch::View(_, true)))
        };
        let mut survey = Vec::new();
        if self.reads.keys().any(looks_for_disks) {
            match source.survey() {
                Ok(found) => survey = found,
                Err(error) => {
                    notices.push(format!("disks of no mounted group are not shown: {error}"))
                }
            }
        }
        let (mut tables, mut wants) = (Vec::new(), Vec::new());
        for (name, columns) in &self.reads {
            match self.tables.get(name) {
                None => {}
                Some(TableRead { shared, fetch: Fetch::Planned(planned) }) => {
                    tables.push(shared);
                    wants.push(Want::Planned(planned, columns));
                }
                Some(TableRead { shared, fetch: Fetch::View(view, looks) }) => {
                    tables.push(shared);
                    wants.push(Want::View(view, columns, *looks));
                }
            }
        }
        let taken = Taken::default();
        let fetch = |want: &Want<'_>, pace: &mut Pace| {
            let mut notices = Vec::new();
            // A twin shows what its view shows of mounted groups, even beside it.
            let looks = !matches!(want, Want::View(_, _, false));
            let mut fetching = Fetching {
                source,
                groups: &groups,
                survey: if looks { &survey } else { &[] },
                cancel,
                pace,
                notices: &mut notices,
                taken: &taken,
            };
            let fetched = match want {
                Want::Planned(planned, columns) => fetching.planned(planned, columns),
                Want::View(view, columns, _) => {
                    fetching.view(view, &columns.iter().map(String::as_str).collect())
                }
            };
            (fetched, notices)
        };
        for (wants, tables) in wants.chunks(AT_ONCE).zip(tables.chunks(AT_ONCE)) {
            let fetched =
                scheduling::each(wants, pace, || Pace::new(cancel, source.budget()), &fetch);
            for ((fetched, told), table) in fetched.into_iter().zip(tables) {
                notices.extend(told);
                table.fill(fetched?);
            }
        }
        Ok(())
    }

    /// Step 3.
    fn run(&mut self, parameters: &[Value], cancel: &Cancel, mut pace: Pace) -> Result<Table> {
        let began = Instant::now();
        let watched = cancel.clone();
        self.connection
            .progress_handler(
                STEPS,
                Some(move || {
                    pace.look_for_turn();
                    watched.is_cancelled() || began.elapsed() > RUN_MAX
                }),
            )
            .map_err(|error| internal(&error))?;
        let why = || {
            if cancel.is_cancelled() {
                Some(SqlError::canceled())
            } else if began.elapsed() > RUN_MAX {
                Some(SqlError::new(
                    state::CANCELED,
                    format!("the statement ran longer than {} s", RUN_MAX.as_secs()),
                ))
            } else {
                None
            }
        };
        let mut statement = self.statement()?;
        self.bind(&mut statement, parameters)?;
        let rows = self.rows(&mut statement, why)?;
        drop(statement);
        Ok(self.shown(rows))
    }

    /// Binds a statement's parameters.
    fn bind(&self, statement: &mut Statement<'_>, parameters: &[Value]) -> Result<()> {
        for at in 1..=statement.parameter_count() {
            let number = match statement.parameter_name(at) {
                Some(name) => name.trim_start_matches(['$', '?', ':', '@']).parse().ok(),
                None => Some(at),
            };
            let value: Option<&Value> = number
                .and_then(|number: usize| number.checked_sub(1))
                .and_then(|index| parameters.get(index));
            let Some(value) = value else {
                return Err(SqlError::new(
                    "42P02",
                    format!("there is no value for parameter {at}"),
                ));
            };
            // By Oracle's rules an empty text is NULL.
            let is_empty = matches!(value, Value::Text(text) if text.is_empty());
            let value = if is_empty && self.rules == Rules::Oracle { &Value::Null } else { value };
            statement
                .raw_bind_parameter(at, Bound(value))
                .map_err(|error| self.refused(error, None))?;
        }
        Ok(())
    }

    /// All rows, with SQLite's values. `why`: why the statement was interrupted, if it was.
    fn rows(
        &self,
        statement: &mut Statement<'_>,
        why: impl Fn() -> Option<SqlError>,
    ) -> Result<Vec<Vec<Value>>> {
        let width = self.columns.len();
        let (mut table, mut size) = (Vec::new(), 0);
        let mut rows = statement.raw_query();
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(table),
                Err(error) => return Err(self.failed(error, why())),
            };
            let mut values = Vec::with_capacity(width);
            for at in 0..width {
                let value =
                    Seen::from(row.get_ref(at).map_err(|error| self.refused(error, why()))?)
                        .to_value();
                // SQLite makes a real of an integer that is too long.
                if let Value::Real(real) = value
                    && real.abs() >= INTEGERS_MAX
                    && let Some((name, Some(Type::Integer))) = self.columns.get(at)
                {
                    return Err(too_many_digits(name));
                }
                size += 16
                    + match &value {
                        Value::Text(text) => text.len(),
                        Value::Blob(bytes) => bytes.len(),
                        _ => 0,
                    };
                values.push(value);
            }
            if size > RESULT_MAX {
                return Err(SqlError::new(state::TOO_COMPLEX, "the result is too large")
                    .hint("add a WHERE or a LIMIT"));
            }
            table.push(values);
        }
    }

    /// The result as clients get it: types that fit the values, names of functions instead of
    /// numbers, letters for booleans.
    fn shown(&self, mut rows: Vec<Vec<Value>>) -> Table {
        for at in &self.procedures {
            for value in rows.iter_mut().filter_map(|row| row.get_mut(*at)) {
                if let Value::Integer(number) = value {
                    *value = Value::Text(catalog::procedure(*number));
                }
            }
        }
        let columns: Vec<Column> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, (name, kind))| Column {
                name: name.clone(),
                kind: fitting(*kind, rows.iter().filter_map(|row| row.get(at))),
            })
            .collect();
        for (at, _) in columns.iter().enumerate().filter(|(_, column)| column.kind == Type::Time) {
            rows.iter_mut().filter_map(|row| row.get_mut(at)).for_each(in_full);
        }
        for (at, _) in columns.iter().enumerate().filter(|(_, column)| column.kind == Type::Truth) {
            for value in rows.iter_mut().filter_map(|row| row.get_mut(at)) {
                if let Value::Integer(truth) = value {
                    *value = Value::Text(if *truth == 0 { "f" } else { "t" }.to_owned());
                }
            }
        }
        Table { columns, rows }
    }
}

/// A query in SQLite's SQL, with the conversions that the session's formats ask for.
fn rewritten(query: &Query, formats: &Formats, rules: Rules) -> Result<Rewritten> {
    if !formats.are_set() {
        return pg_compat::rewrite(query, rules);
    }
    // Columns are named before: by what was written.
    let (named, naming) = pg_compat::named(query, rules)?;
    let Some((spelled, spelling)) = formats.spelled_out(&named)? else {
        return pg_compat::rewrite(query, rules);
    };
    let spelling = naming.then(spelling);
    let byte = |at: usize| {
        spelled.text.char_indices().nth(at).map_or(spelled.text.len(), |(byte, _)| byte)
    };
    let rewritten = pg_compat::rewrite(&spelled, rules).map_err(|mut refusal| {
        refusal.at = refusal.at.map(|at| spelling.origin(byte(at)));
        refusal
    })?;
    Ok(spelling.then(rewritten))
}

/// Whether a text has the form in which the views show times, with microseconds or without.
fn is_in_full(text: &str) -> bool {
    const SHORT: usize = "YYYY-MM-DD HH:MI:SS".len();
    [SHORT, SHORT + ".FFFFFF".len()].contains(&text.len())
        && text.get(4..5) == Some("-")
        && Time::parse(text)
            .is_some_and(|time| text == time.text() || text.trim_end_matches('0') == time.text())
}

/// A date alone becomes a time: drivers expect both in a timestamp.
fn in_full(value: &mut Value) {
    if let Value::Text(text) = value
        && text.len() < "YYYY-MM-DD HH:MI:SS".len()
        && let Some(time) = Time::parse(text)
    {
        *text = time.text();
    }
}

/// Tables for which the authorizer does not see all columns that are read: `JOIN ... USING` and
/// `NATURAL JOIN` compare more of them.
fn read_silently(tokens: &[Token]) -> Vec<String> {
    if !tokens.iter().any(|token| token.is("USING") || token.is("NATURAL")) {
        return Vec::new();
    }
    let named = tokens.iter().filter_map(|token| match &token.kind {
        Kind::Word(word) | Kind::Quoted(word) => Some(pg_compat::synonyms::local(word)),
        _ => None,
    });
    named.filter(|word| views::of_relation(word).is_some()).collect()
}

/// No integer is as large.
const INTEGERS_MAX: f64 = 9_223_372_036_854_775_808.0;

/// A refusal of an integer that would lose digits.
fn too_many_digits(what: &str) -> SqlError {
    SqlError::new(
        state::OUT_OF_RANGE,
        format!("{what} has more digits than integers have here, 18"),
    )
    .hint("multiply by 1.0 for a decimal, which is rounded to 15 digits")
}

/// A refusal for SQLite's message about a statement that it cannot prepare, with its SQLSTATE.
fn misunderstood(message: &str) -> SqlError {
    let state = match message {
        _ if message.starts_with("no such table") => "42P01",
        _ if message.starts_with("no such column") => "42703",
        _ if message.starts_with("no such function") => "42883",
        _ if message.starts_with("ambiguous column") => "42702",
        _ if message.contains("not authorized") || message.contains("is prohibited") => {
            state::PERMISSION
        }
        _ => state::SYNTAX,
    };
    if let Some(refusal) = message.strip_prefix("no such table: ").and_then(absent::refusal) {
        return refusal;
    }
    // A name in double quotes, also where we put them around a word that SQLite takes for its own.
    let quoted = message.strip_suffix(" - should this be a string literal in single-quotes?");
    if let Some(name) = quoted.and_then(|message| message.strip_prefix("no such column: ")) {
        let name = name.trim_matches('"');
        return SqlError::new(state, format!("no such column: {name}"))
            .hint(format!("as a text it stands in single quotes: '{name}'"));
    }
    let refusal = SqlError::new(state, message);
    if message.starts_with("no such table") {
        let shown = views::all().filter(|view| !view.is_without_rows);
        let views: Vec<&str> = shown.map(|view| view.name).collect();
        return refusal.hint(format!("the views are {}", views.join(", ")));
    }
    refusal
}

/// A refusal of a value, with its SQLSTATE by the message of our functions or of SQLite.
fn wrong_value(message: &str) -> SqlError {
    let state = match message {
        "integer overflow" => return too_many_digits("a sum of integers"),
        "division by zero" => state::DIVISION_BY_ZERO,
        _ if message.contains(functions::TOO_MANY_DIGITS) => state::OUT_OF_RANGE,
        _ if message.ends_with(" is no number") => state::BAD_VALUE,
        _ if message.contains(" of the format '")
            || message.contains(" is no time")
            || message.starts_with("there is no ") && message.contains(':') =>
        {
            state::BAD_TIME
        }
        _ => state::BAD_DATA,
    };
    SqlError::new(state, message)
}

/// The type of a column: the declared one if all values have it, else the first type that all
/// values fit.
fn fitting<'a>(declared: Option<Type>, values: impl Iterator<Item = &'a Value> + Clone) -> Type {
    if declared == Some(Type::Letter) {
        return Type::Letter;
    }
    if declared == Some(Type::Time) {
        let is_time = |value: &Value| match value {
            Value::Null => true,
            Value::Text(text) => Time::parse(text).is_some(),
            _ => false,
        };
        // An expression may give something else after all: then as if nothing were declared.
        return if values.clone().all(is_time) { Type::Time } else { fitting(None, values) };
    }
    let mut found = None;
    for value in values {
        let kind = match value {
            Value::Null => continue,
            Value::Integer(_) => Type::Integer,
            Value::Real(_) => Type::Real,
            // Of columns of subqueries under other names, for example.
            Value::Text(text) if declared.is_none() && is_in_full(text) => Type::Time,
            Value::Text(_) | Value::Blob(_) => return Type::Text,
        };
        found = match (found, kind) {
            (Some(before), kind) if (before == Type::Time) != (kind == Type::Time) => {
                return Type::Text;
            }
            (Some(Type::Real), _) | (_, Type::Real) => Some(Type::Real),
            _ => Some(kind),
        };
    }
    match (declared, found) {
        (Some(Type::Real), Some(Type::Integer)) => Type::Real,
        (Some(Type::Truth), Some(Type::Integer)) => Type::Truth,
        (Some(Type::Text), _) => Type::Text,
        (_, Some(found)) => found,
        (declared, None) => declared.unwrap_or(Type::Text),
    }
}

struct Bound<'a>(&'a Value);

impl rusqlite::ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(Seen::from(self.0).into()))
    }
}

fn open(user: &str, rules: Rules, mentions: &Mentions) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_MEMORY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(":memory:", flags)?;
    let mut sql = String::from(
        "PRAGMA journal_mode = OFF; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;",
    );
    if mentions.has("dual") {
        sql.push_str("CREATE TABLE dual (dummy TEXT); INSERT INTO dual VALUES ('X');");
    }
    sql.push_str(&format!("PRAGMA hard_heap_limit = {HEAP_MAX};"));
    connection.execute_batch(&sql)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    // A name in double quotes is a name, and no string if there is none such.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    let registry = Registry::new(&connection, mentions);
    pg_compat::create_functions(registry, user)?;
    functions::create(registry, user, rules)?;
    Ok(connection)
}

/// Declares the views that a statement mentions, as empty tables.
fn declare_views(
    connection: &Connection,
    mentions: &Mentions,
) -> rusqlite::Result<BTreeMap<String, TableRead>> {
    let mut tables = BTreeMap::new();
    for view in views::all() {
        let twin = view.has_twin.then(|| (format!("{}{}", view.name, views::TWIN), false));
        for (name, looks) in std::iter::once((view.name.to_owned(), view.has_twin)).chain(twin) {
            if mentions.has_view(&name) {
                let columns =
                    view.columns.iter().map(|(name, kind)| ((*name).to_owned(), Some(*kind)));
                let shared = Shared::new(columns.collect());
                shared.declare(connection, &name)?;
                tables.insert(name, TableRead { shared, fetch: Fetch::View(view, looks) });
            }
        }
    }
    Ok(tables)
}

fn internal(error: &rusqlite::Error) -> SqlError {
    if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OutOfMemory) {
        // Other statements use all of the memory.
        return SqlError::new(state::TOO_COMPLEX, error).hint("try again");
    }
    SqlError::new(state::INTERNAL, format!("preparing the views: {error}"))
}

/// Records what a statement reads.
fn note(reads: &mut Reads, context: &AuthContext<'_>) {
    let AuthAction::Read { table_name, column_name } = context.action else { return };
    let columns = reads.entry(table_name.to_ascii_lowercase()).or_default();
    if !column_name.is_empty() {
        columns.insert(column_name.to_ascii_lowercase());
    }
}

fn authorize(context: &AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Read { table_name, .. } if table_name.starts_with("sqlite_") => {
            Authorization::Deny
        }
        AuthAction::Read { .. } => Authorization::Allow,
        AuthAction::Function { function_name }
            if function_name.eq_ignore_ascii_case("load_extension") =>
        {
            Authorization::Deny
        }
        AuthAction::Function { .. } => Authorization::Allow,
        _ => Authorization::Deny,
    }
}
