//! A client that is logged in: the simple and the extended protocol, from a message to a statement
//! and back to the answer.
//!
//! ```text
//!   idle --Query--> statements, one by one --> idle
//!     |
//!     +--Parse, Bind, Describe, Execute ...--Sync--> idle
//!             error: everything until Sync is skipped
//! ```
//!
//! Nothing here is transactional. BEGIN, COMMIT and ROLLBACK are accepted because drivers send
//! them; a statement that changes something is refused between them, because it could not be rolled
//! back.
//!
//! The description of parameters and columns that a client gets before a statement runs holds when
//! it runs.

use super::{
    Body, Connection, End, Key, arrays, fields,
    values::{self, format_of, type_number},
};
use crate::{
    instance::session::{Context, Notice, Outcome, Reply, describe, execute},
    query::{Cancel, Column, Described, Table, formats::Formats, infer_types, views::Type},
    sql::{self, Statement, variables},
    sql_error::{SqlError, state},
};
use bytes::BytesMut;
use pgwire::messages::{
    PgWireBackendMessage as Message,
    data::{DataRow, FieldDescription, NoData, ParameterDescription, RowDescription},
    extendedquery::{BindComplete, CloseComplete, ParseComplete, PortalSuspended},
    response::{CommandComplete, EmptyQueryResponse, ErrorResponse, NoticeResponse},
};
use plinth_engine::admin::Value;
use plinth_host::lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex,
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// How often the socket is checked for the client's end while its statement runs.
const LOOK: Duration = Duration::from_millis(50);
/// How long a cancelled statement may take to end before its client is answered without it.
const CANCEL: Duration = Duration::from_secs(2);
/// Statements and portals that one client may keep.
const KEPT_MAX: usize = 1000;

/// A prepared statement of the client.
struct Prepared {
    text: String,
    /// `None` if the statement is empty.
    statement: Option<Statement>,
    parameter_types: Vec<u32>,
    described: Mutex<Option<(Described, Formats)>>,
}

/// A prepared statement with its parameters, and its result once it has run.
struct Portal {
    prepared: Arc<Prepared>,
    parameters: Vec<Value>,
    formats: Vec<i16>,
    result: Option<Table>,
    sent: usize,
}

/// The state of a client that has logged in.
pub(super) struct Client {
    pub connection: Connection,
    context: Context,
    key: Key,
    in_transaction: bool,
    /// After an error in the extended protocol.
    skipping: bool,
    prepared: BTreeMap<String, Arc<Prepared>>,
    portals: BTreeMap<String, Portal>,
}

impl Client {
    pub fn new(connection: Connection, context: Context, key: Key) -> Self {
        Self {
            connection,
            context,
            key,
            in_transaction: false,
            skipping: false,
            prepared: BTreeMap::new(),
            portals: BTreeMap::new(),
        }
    }

    pub fn serve(&mut self) -> Result<(), End> {
        loop {
            let (kind, mut body) = self.connection.receive()?;
            if self.skipping && !matches!(kind, b'S' | b'X') {
                continue;
            }
            let result = match kind {
                b'X' => return Ok(()),
                b'Q' => {
                    self.simple(&mut body)?;
                    continue;
                }
                b'S' => {
                    self.skipping = false;
                    // Portals end with the transaction; within one, named portals stay.
                    if self.in_transaction {
                        self.portals.remove("");
                    } else {
                        self.portals.clear();
                    }
                    self.connection.ready(self.in_transaction)?;
                    continue;
                }
                b'H' => {
                    self.connection.flush()?;
                    continue;
                }
                b'P' => self.parse(&mut body),
                b'B' => self.bind(&mut body),
                b'D' => self.describe(&mut body),
                b'E' => self.execute(&mut body),
                b'C' => self.close(&mut body),
                // COPY data of a COPY that was refused is ignored, as in PostgreSQL.
                b'd' | b'c' | b'f' => continue,
                other => {
                    return Err(SqlError::new(
                        state::PROTOCOL,
                        format!(
                            "'{}' is no message of PostgreSQL's protocol",
                            char::from(other).escape_default()
                        ),
                    )
                    .into());
                }
            };
            match result {
                Ok(()) => {}
                Err(End::Gone) => return Err(End::Gone),
                Err(End::Refused(refusal)) => {
                    self.error(&refusal, "")?;
                    self.skipping = true;
                    self.connection.flush()?;
                }
            }
        }
    }

    fn error(&mut self, refusal: &SqlError, text: &str) -> io::Result<()> {
        self.connection
            .send(&Message::ErrorResponse(ErrorResponse::new(fields("ERROR", refusal, text))))
    }

    fn notice(&mut self, notice: &Notice) -> io::Result<()> {
        let (severity, state) =
            if notice.warning { ("WARNING", "01000") } else { ("NOTICE", "00000") };
        let fields = fields(severity, &SqlError::new(state, &notice.text), "");
        self.connection.send(&Message::NoticeResponse(NoticeResponse::new(fields)))
    }

    /// The statements in a text. Variables of SQL*Plus are refused, unless the session has turned
    /// them off.
    fn parsed(&self, text: &str) -> Result<Vec<Statement>, SqlError> {
        let is_off = lock(&self.context.settings)
            .get(variables::SETTING)
            .is_some_and(|value| value.eq_ignore_ascii_case("off"));
        if is_off { sql::parse(text) } else { sql::parse_without_variables(text) }
    }

    /// The simple protocol: one message, any number of statements.
    fn simple(&mut self, body: &mut Body) -> Result<(), End> {
        let text = body.string()?;
        match self.parsed(&text) {
            Err(refusal) => self.error(&refusal, &text)?,
            Ok(statements) if statements.is_empty() => {
                self.connection.send(&Message::EmptyQueryResponse(EmptyQueryResponse::new()))?;
            }
            Ok(statements) => {
                for statement in &statements {
                    let reply = self.run(statement, Vec::new())?;
                    for notice in &reply.notices {
                        self.notice(notice)?;
                    }
                    match reply.result {
                        Err(refusal) => {
                            self.error(&refusal, &text)?;
                            break;
                        }
                        Ok(Outcome::Done) => self.complete(statement, None)?,
                        Ok(Outcome::Rows(table)) => {
                            self.row_description(&table.columns, &[])?;
                            for row in &table.rows {
                                self.row(&table.columns, row, &[])?;
                            }
                            self.complete(statement, Some(table.rows.len()))?;
                        }
                    }
                }
            }
        }
        Ok(self.connection.ready(self.in_transaction)?)
    }

    /// Carries out one statement on a thread of its own, and watches the client's socket meanwhile.
    fn run(&mut self, statement: &Statement, parameters: Vec<Value>) -> Result<Reply, End> {
        match statement {
            Statement::Begin => self.in_transaction = true,
            Statement::Commit | Statement::Rollback => self.in_transaction = false,
            Statement::Deallocate(Some(name)) => drop(self.prepared.remove(name)),
            Statement::Deallocate(None) => self.prepared.clear(),
            Statement::Discard => {
                self.prepared.clear();
                self.portals.clear();
                self.in_transaction = false;
            }
            _ if statement.acts() && self.in_transaction => {
                let refusal = format!("{} cannot run inside a transaction block", statement.tag());
                let refusal = SqlError::new(state::IN_TRANSACTION, refusal)
                    .hint("it could not be rolled back: COMMIT first, or use autocommit");
                return Ok(Reply { notices: Vec::new(), result: Err(refusal) });
            }
            _ => {}
        }
        let context = self.context.clone();
        let owned = statement.clone();
        let goes_on = statement.acts();
        let reply = self.watched(move |cancel| execute(&context, &owned, &parameters, cancel))?;
        Ok(reply.unwrap_or_else(|| {
            let refusal = SqlError::canceled();
            let refusal =
                if goes_on { refusal.hint("the statement goes on without you") } else { refusal };
            Reply { notices: Vec::new(), result: Err(refusal) }
        }))
    }

    /// Runs a function on another thread; `None` if it was cancelled and did not end in time.
    fn watched<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Result<Option<T>, End> {
        let cancel = Cancel::default();
        self.connection.limits.running().insert(self.key, Some(cancel.clone()));
        let (tell, told) = channel();
        let given = cancel.clone();
        thread::Builder::new()
            .name("statement".into())
            .spawn(move || drop(tell.send(what(&given))))
            .map_err(|error| SqlError::new("53000", format!("starting a thread: {error}")))?;
        let mut cancelled: Option<Instant> = None;
        let result = loop {
            match told.recv_timeout(LOOK) {
                Ok(value) => break Ok(Some(value)),
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(SqlError::new(
                        state::INTERNAL,
                        "the statement ended without a result; this is a defect",
                    )
                    .into());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.is_gone() {
                cancel.cancel();
                break Err(End::Gone);
            }
            if cancel.is_cancelled()
                && cancelled.get_or_insert_with(Instant::now).elapsed() > CANCEL
            {
                break Ok(None);
            }
        };
        self.connection.limits.running().insert(self.key, None);
        result
    }

    /// Whether the client has closed its end.
    fn is_gone(&self) -> bool {
        let mut polled = [PollFd::new(&self.connection.stream, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        matches!(poll(&mut polled, Some(&now)), Ok(1..)) && polled[0].revents().intersects(gone)
    }

    fn complete(&mut self, statement: &Statement, rows: Option<usize>) -> io::Result<()> {
        let tag = match (statement, rows) {
            (Statement::Query(_), Some(rows)) => format!("SELECT {rows}"),
            _ => statement.tag().to_owned(),
        };
        self.connection.send(&Message::CommandComplete(CommandComplete::new(tag)))
    }

    fn row_description(&mut self, columns: &[Column], formats: &[i16]) -> io::Result<()> {
        let fields = columns.iter().enumerate().map(|(at, column)| {
            let (oid, size) = type_number(column.kind);
            FieldDescription::new(
                column.name.replace('\0', ""),
                0,
                0,
                oid,
                size,
                -1,
                format_of(formats, at),
            )
        });
        let fields = fields.collect();
        self.connection.send(&Message::RowDescription(RowDescription::new(fields)))
    }

    fn row(&mut self, columns: &[Column], row: &[Value], formats: &[i16]) -> Result<(), End> {
        let mut data = BytesMut::new();
        for (at, value) in row.iter().enumerate() {
            let kind = columns.get(at).map_or(Type::Text, |column| column.kind);
            values::put(&mut data, value, kind, format_of(formats, at) == 1)?;
        }
        let count = i16::try_from(row.len())
            .map_err(|_| SqlError::new(state::TOO_COMPLEX, "too many columns"))?;
        Ok(self.connection.send(&Message::DataRow(DataRow::new(data, count)))?)
    }

    fn parse(&mut self, body: &mut Body) -> Result<(), End> {
        let name = body.string()?;
        let text = body.string()?;
        let count = body.count()?;
        let mut parameter_types = Vec::new();
        for _ in 0..count {
            parameter_types.push(body.i32()?.cast_unsigned());
        }
        let statements = match self.parsed(&text) {
            Ok(statements) => statements,
            Err(refusal) => {
                // The text is known here, so the error can have its position.
                self.error(&refusal, &text)?;
                self.skipping = true;
                return Ok(self.connection.flush()?);
            }
        };
        if statements.len() > 1 {
            return Err(SqlError::new(
                state::SYNTAX,
                "several statements cannot be prepared as one",
            )
            .into());
        }
        if self.prepared.len() >= KEPT_MAX {
            return Err(SqlError::new(state::TOO_COMPLEX, "too many prepared statements")
                .hint("close some")
                .into());
        }
        let statement = statements.into_iter().next();
        if let Some(Statement::Query(query)) = &statement {
            // Parameter types that the client leaves open are inferred from the columns that the
            // parameters are compared with.
            let arrays = arrays::in_query(&query.tokens);
            for (at, kind) in infer_types::of_parameters(&query.tokens).into_iter().enumerate() {
                let single = kind.map_or(0, |kind| type_number(kind).0);
                let number = arrays.get(&at).copied().unwrap_or(single);
                match parameter_types.get_mut(at) {
                    Some(told) if *told == 0 => *told = number,
                    Some(_) => {}
                    None => parameter_types.push(number),
                }
            }
        }
        let prepared = Prepared { text, statement, parameter_types, described: Mutex::default() };
        self.prepared.insert(name, Arc::new(prepared));
        Ok(self.connection.send(&Message::ParseComplete(ParseComplete::new()))?)
    }

    fn prepared(&self, name: &str) -> Result<Arc<Prepared>, SqlError> {
        let missing =
            || SqlError::new("26000", format!("there is no prepared statement \"{name}\""));
        self.prepared.get(name).cloned().ok_or_else(missing)
    }

    fn bind(&mut self, body: &mut Body) -> Result<(), End> {
        let name = body.string()?;
        let prepared = self.prepared(&body.string()?)?;
        let mut parameter_formats = Vec::new();
        for _ in 0..body.count()? {
            parameter_formats.push(body.i16()?);
        }
        let mut parameters = Vec::new();
        for at in 0..body.count()? {
            let length = body.i32()?;
            let oid = prepared.parameter_types.get(at).copied().unwrap_or(0);
            parameters.push(match usize::try_from(length) {
                Err(_) => Value::Null,
                Ok(length) => values::parameter(
                    body.take(length)?,
                    oid,
                    format_of(&parameter_formats, at) == 1,
                )?,
            });
        }
        let mut formats = Vec::new();
        for _ in 0..body.count()? {
            formats.push(body.i16()?);
        }
        if self.portals.len() >= KEPT_MAX {
            return Err(SqlError::new(state::TOO_COMPLEX, "too many portals")
                .hint("close some")
                .into());
        }
        self.portals.insert(name, Portal { prepared, parameters, formats, result: None, sent: 0 });
        Ok(self.connection.send(&Message::BindComplete(BindComplete::new()))?)
    }

    /// The parameters and columns of a prepared statement.
    fn described(&self, prepared: &Arc<Prepared>) -> Result<Option<Described>, End> {
        let Some(statement) = &prepared.statement else { return Ok(None) };
        let formats = self.context.formats();
        if let Some((described, then)) = &*lock(&prepared.described)
            && *then == formats
        {
            return Ok(Some(described.clone()));
        }
        let context = self.context.clone();
        let owned = statement.clone();
        let described = self
            .watched(move |cancel| describe(&context, &owned, cancel))?
            .unwrap_or_else(|| Err(SqlError::canceled()))?;
        *lock(&prepared.described) = described.clone().map(|described| (described, formats));
        Ok(described)
    }

    /// Refuses a statement whose columns are no longer those that the client was told: the session
    /// writes times otherwise since then. Drivers prepare the statement again.
    fn still_as_described(&self, prepared: &Arc<Prepared>) -> Result<(), End> {
        let Some(before) = lock(&prepared.described).clone() else { return Ok(()) };
        let now = self.described(prepared)?;
        if now.is_some_and(|now| now.columns == before.0.columns) {
            return Ok(());
        }
        *lock(&prepared.described) = Some(before);
        let text = "cached plan must not change result type";
        let refusal = SqlError::new(state::NOT_SUPPORTED, text);
        Err(refusal
            .hint("prepare the statement again: the session's format of times has changed")
            .into())
    }

    fn describe(&mut self, body: &mut Body) -> Result<(), End> {
        let what = body.byte()?;
        let name = body.string()?;
        let (prepared, formats) = match what {
            b'S' => (self.prepared(&name)?, Vec::new()),
            b'P' => {
                let portal = self.portals.get(&name).ok_or_else(|| no_portal(&name))?;
                (Arc::clone(&portal.prepared), portal.formats.clone())
            }
            _ => {
                return Err(SqlError::new(
                    state::PROTOCOL,
                    "neither a statement nor a portal is described",
                )
                .into());
            }
        };
        let described = match self.described(&prepared) {
            Err(End::Refused(refusal)) => {
                self.error(&refusal, &prepared.text)?;
                self.skipping = true;
                return Ok(self.connection.flush()?);
            }
            other => other?,
        };
        if what == b'S' {
            let count = described.as_ref().map_or(0, |described| described.parameters);
            let types = (0..count)
                .map(|at| values::told(prepared.parameter_types.get(at).copied()))
                .collect();
            self.connection
                .send(&Message::ParameterDescription(ParameterDescription::new(types)))?;
        }
        match described {
            Some(described) => Ok(self.row_description(&described.columns, &formats)?),
            None => Ok(self.connection.send(&Message::NoData(NoData::new()))?),
        }
    }

    fn execute(&mut self, body: &mut Body) -> Result<(), End> {
        let name = body.string()?;
        let limit =
            usize::try_from(body.i32()?).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let mut portal = self.portals.remove(&name).ok_or_else(|| no_portal(&name))?;
        let prepared = Arc::clone(&portal.prepared);
        let Some(statement) = &prepared.statement else {
            self.portals.insert(name, portal);
            return Ok(self
                .connection
                .send(&Message::EmptyQueryResponse(EmptyQueryResponse::new()))?);
        };
        if portal.result.is_none() {
            self.still_as_described(&prepared)?;
            let reply = self.run(statement, std::mem::take(&mut portal.parameters))?;
            for notice in &reply.notices {
                self.notice(notice)?;
            }
            match reply.result {
                Ok(Outcome::Done) => return Ok(self.complete(statement, None)?),
                Ok(Outcome::Rows(mut table)) => {
                    // The columns must match the description that the client has already.
                    if let Some((described, _)) = &*lock(&prepared.described) {
                        table.columns.clone_from(&described.columns);
                    }
                    portal.result = Some(table);
                }
                Err(refusal) => {
                    self.error(&refusal, &prepared.text)?;
                    self.skipping = true;
                    return Ok(self.connection.flush()?);
                }
            }
        }
        let Some(mut table) = portal.result.take() else { return Ok(()) };
        let left = table.rows.get(portal.sent..).unwrap_or_default();
        let now = left.len().min(limit);
        for row in left.iter().take(now) {
            self.row(&table.columns, row, &portal.formats)?;
        }
        let suspended = now < left.len();
        portal.sent += now;
        if suspended {
            self.connection.send(&Message::PortalSuspended(PortalSuspended::new()))?;
        } else {
            self.complete(statement, Some(now))?;
            // The rows are not used again, and may be large.
            table.rows.clear();
            portal.sent = 0;
        }
        portal.result = Some(table);
        self.portals.insert(name, portal);
        Ok(())
    }

    fn close(&mut self, body: &mut Body) -> Result<(), End> {
        let what = body.byte()?;
        let name = body.string()?;
        match what {
            b'S' => drop(self.prepared.remove(&name)),
            b'P' => drop(self.portals.remove(&name)),
            _ => {
                return Err(SqlError::new(
                    state::PROTOCOL,
                    "neither a statement nor a portal is closed",
                )
                .into());
            }
        }
        Ok(self.connection.send(&Message::CloseComplete(CloseComplete::new()))?)
    }
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new("34000", format!("there is no portal \"{name}\""))
}
