//! PostgreSQL's protocol, version 3, on `.s.PGSQL.5432`: so that `psql` and drivers for every language work.
//!
//! Messages are encoded by `pgwire`. What clients send is read here: a length is bounded before it is believed, and no
//! message, however short, is read past its end (`pgwire`'s own reading panics on a truncated Bind, and takes messages
//! of a gigabyte). Each connection has a thread, each statement one beside it, so that the connection notices a
//! cancel request or a client that went away while the statement runs.
//!
//! ```text
//!   startup --> idle --Query--> statements, one by one --> idle
//!                 |
//!                 +--Parse, Bind, Describe, Execute ...--Sync--> idle
//!                         error: everything until Sync is skipped
//! ```
//!
//! Nothing here is transactional. BEGIN, COMMIT and ROLLBACK are accepted because drivers send them; a statement that
//! changes something is refused between them, because it could not be rolled back.

use super::{
    Access, Instance,
    query::{Cancel, Column, Described, Table},
    session::{Context, Notice, Outcome, Reply, describe, execute},
    views::Type,
};
use crate::{
    process::Peer,
    refusal::{Refusal, state},
    sql::{self, Statement, TEXT_MAX},
    users,
};
use bytes::{BufMut, BytesMut};
use pgwire::messages::{
    PgWireBackendMessage as Message,
    data::{DataRow, FieldDescription, NoData, ParameterDescription, RowDescription},
    extendedquery::{BindComplete, CloseComplete, ParseComplete, PortalSuspended},
    response::{
        CommandComplete, EmptyQueryResponse, ErrorResponse, GssEncResponse, NoticeResponse, ReadyForQuery, SslResponse,
        TransactionStatus,
    },
    startup::{Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey},
};
use plinth_engine::admin::Value;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Most connections at one time; the last few are for who administers.
const CONNECTIONS_MAX: usize = 500;
const RESERVED: usize = 20;
/// How long a client may take from connecting to being ready.
const STARTUP: Duration = Duration::from_secs(10);
/// How long the rest of a message, or a client that does not read, may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest startup packet, as in PostgreSQL, and the longest message, in bytes.
const STARTUP_MAX: usize = 10_000;
const MESSAGE_MAX: usize = TEXT_MAX + (1 << 16);
/// Statements and portals that one client may keep.
const KEPT_MAX: usize = 1000;
/// How often a running statement's client is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a cancelled statement may take to end before its client is told without it.
const CANCEL: Duration = Duration::from_secs(2);
/// Bytes that wait to be sent, about.
const OUT: usize = 64 << 10;
/// The longest field of an error, in bytes: libpq takes errors of 30000.
const FIELD_MAX: usize = 8000;

const TEXT_OID: u32 = 25;
const INT8_OID: u32 = 20;
const FLOAT8_OID: u32 = 701;

/// Statements that run, by the key that cancels them.
type Running = Arc<Mutex<BTreeMap<(i32, i32), Option<Cancel>>>>;

/// The key that cancels a client's statements, and what the client wishes.
type Started = ((i32, i32), BTreeMap<String, String>);

/// Starts to listen.
pub(super) fn listen(instance: &Arc<Instance>, listener: UnixListener) -> io::Result<()> {
    let instance = Arc::clone(instance);
    let connections = Arc::new(AtomicUsize::new(0));
    let running = Running::default();
    thread::Builder::new().name("postgres".into()).spawn(move || {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let Ok(peer) = Peer::of(&stream) else { continue };
            let access = instance.access(peer);
            let limit = if access == Some(Access::Administer) { CONNECTIONS_MAX } else { CONNECTIONS_MAX - RESERVED };
            if connections.fetch_add(1, Ordering::SeqCst) >= limit {
                connections.fetch_sub(1, Ordering::SeqCst);
                refuse(stream, &Refusal::new(state::TOO_MANY_CONNECTIONS, "too many connections"));
                continue;
            }
            let connection = Connection {
                instance: Arc::clone(&instance),
                stream,
                peer,
                running: Arc::clone(&running),
                out: BytesMut::new(),
            };
            let counted = Arc::clone(&connections);
            let talking = thread::Builder::new().name("client".into()).spawn(move || {
                let _ = connection.talk(access);
                counted.fetch_sub(1, Ordering::SeqCst);
            });
            if talking.is_err() {
                connections.fetch_sub(1, Ordering::SeqCst);
            }
        }
    })?;
    Ok(())
}

/// Says why not, if the client listens, and ends the connection.
fn refuse(mut stream: UnixStream, refusal: &Refusal) {
    let mut out = BytesMut::new();
    let _ = Message::ErrorResponse(ErrorResponse::new(fields("FATAL", refusal, ""))).encode(&mut out);
    let _ = stream.set_nonblocking(true);
    let _ = stream.write_all(&out);
}

/// An error's fields; `text` is what the client sent.
fn fields(severity: &str, refusal: &Refusal, text: &str) -> Vec<(u8, String)> {
    let clean = |text: &str| -> String {
        let mut clean = text.replace('\0', " ");
        if clean.len() > FIELD_MAX {
            let end = (0..=FIELD_MAX).rev().find(|end| clean.is_char_boundary(*end)).unwrap_or(0);
            clean.truncate(end);
            clean.push_str(" ...");
        }
        clean
    };
    let mut fields = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', clean(&refusal.state)),
        (b'M', clean(&refusal.message)),
    ];
    fields.extend(refusal.detail.as_ref().map(|detail| (b'D', clean(detail))));
    fields.extend(refusal.hint.as_ref().map(|hint| (b'H', clean(hint))));
    // Some clients show the text around the place, and want it inside the text.
    fields.extend(
        refusal.at.filter(|at| !text.is_empty() && *at <= text.chars().count()).map(|at| (b'P', (at + 1).to_string())),
    );
    fields
}

/// A statement that the client keeps.
struct Prepared {
    text: String,
    /// `None`: empty.
    statement: Option<Statement>,
    parameter_types: Vec<u32>,
    described: Mutex<Option<Described>>,
}

/// A statement with its parameters, and perhaps its result.
struct Portal {
    prepared: Arc<Prepared>,
    parameters: Vec<Value>,
    formats: Vec<i16>,
    result: Option<Table>,
    sent: usize,
}

struct Connection {
    instance: Arc<Instance>,
    stream: UnixStream,
    peer: Peer,
    running: Running,
    out: BytesMut,
}

/// Everything about a client that is past its startup.
struct Client {
    connection: Connection,
    context: Context,
    key: (i32, i32),
    in_transaction: bool,
    /// After an error in the extended protocol.
    skipping: bool,
    prepared: BTreeMap<String, Arc<Prepared>>,
    portals: BTreeMap<String, Portal>,
}

/// A client's message, and reading from it.
struct Body {
    bytes: Vec<u8>,
    at: usize,
}

impl Body {
    fn take(&mut self, count: usize) -> Result<&[u8], Refusal> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len()).ok_or_else(short)?;
        let taken = self.bytes.get(self.at..end).ok_or_else(short)?;
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Refusal> {
        self.take(1)?.first().copied().ok_or_else(short)
    }

    fn i16(&mut self) -> Result<i16, Refusal> {
        self.take(2)?.try_into().map(i16::from_be_bytes).map_err(|_| short())
    }

    fn i32(&mut self) -> Result<i32, Refusal> {
        self.take(4)?.try_into().map(i32::from_be_bytes).map_err(|_| short())
    }

    fn count(&mut self) -> Result<usize, Refusal> {
        // An unsigned number, although the protocol says otherwise.
        Ok(usize::from(self.i16()?.cast_unsigned()))
    }

    fn string(&mut self) -> Result<String, Refusal> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == 0).ok_or_else(short)?;
        let text = String::from_utf8(rest.get(..length).unwrap_or_default().to_vec())
            .map_err(|_| Refusal::new("22021", "the text is not UTF-8").hint("SET client_encoding in the client"))?;
        self.at += length + 1;
        Ok(text)
    }
}

fn short() -> Refusal {
    Refusal::new(state::PROTOCOL, "a message of the client is cut short")
}

/// Why a connection ends.
enum End {
    /// It is said to the client, if it listens.
    Refused(Refusal),
    /// The client is gone, or as good as.
    Gone,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Connection {
    fn talk(mut self, access: Option<Access>) -> io::Result<()> {
        self.stream.set_write_timeout(Some(PATIENCE))?;
        let (key, parameters) = match self.start() {
            Ok(Some(started)) => started,
            Ok(None) | Err(End::Gone) => return Ok(()),
            Err(End::Refused(refusal)) => return self.fail(&refusal),
        };
        let Some(access) = access else {
            let who = users::name(self.peer.uid);
            return self.fail(&Refusal::new("28000", format!("{who} may not connect to this instance")).hint(
                "root and the instance's own user may; others if it was started with --look-group or --look-all",
            ));
        };
        let context = Context { instance: Arc::clone(&self.instance), access, peer: self.peer, waits_for_drops: false };
        self.welcome(key, access, &parameters)?;
        self.running().insert(key, None);
        let running = Arc::clone(&self.running);
        let mut client = Client {
            connection: self,
            context,
            key,
            in_transaction: false,
            skipping: false,
            prepared: BTreeMap::new(),
            portals: BTreeMap::new(),
        };
        let result = client.serve();
        running.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        match result {
            Err(End::Refused(refusal)) => client.connection.fail(&refusal),
            Ok(()) | Err(End::Gone) => Ok(()),
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeMap<(i32, i32), Option<Cancel>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&mut self, refusal: &Refusal) -> io::Result<()> {
        self.send(&Message::ErrorResponse(ErrorResponse::new(fields("FATAL", refusal, ""))))?;
        self.flush()
    }

    fn send(&mut self, message: &Message) -> io::Result<()> {
        message.encode(&mut self.out).map_err(io::Error::other)?;
        if self.out.len() >= OUT { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.stream.write_all(&self.out);
        self.out.clear();
        result
    }

    /// Reads so many bytes, until the deadline.
    fn exactly(&mut self, count: usize, deadline: Instant) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count.min(OUT)];
        let mut filled = 0;
        while filled < count {
            if filled == bytes.len() {
                bytes.resize(count.min(filled * 2), 0);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(bytes.get_mut(filled..).unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }

    /// From connecting to the client's wishes. `None`: it was a cancel request.
    fn start(&mut self) -> Result<Option<Started>, End> {
        const SSL: i32 = 80_877_103;
        const GSS: i32 = 80_877_104;
        const CANCEL: i32 = 80_877_102;
        let deadline = Instant::now() + STARTUP;
        // SSL, then GSS, then the real one; who asks for more is not a client.
        for _ in 0..4 {
            let length = self.exactly(4, deadline)?;
            let length = i32::from_be_bytes(length.try_into().map_err(|_| End::Gone)?);
            let length = usize::try_from(length)
                .ok()
                .filter(|length| (8..=STARTUP_MAX).contains(length))
                .ok_or_else(|| Refusal::new(state::PROTOCOL, "this is no startup packet of PostgreSQL's protocol"))?;
            let mut body = Body { bytes: self.exactly(length - 4, deadline)?, at: 0 };
            match body.i32()? {
                SSL => self.send(&Message::SslResponse(SslResponse::Refuse))?,
                GSS => self.send(&Message::GssEncResponse(GssEncResponse::Refuse))?,
                CANCEL => {
                    let key = (body.i32()?, body.i32()?);
                    if let Some(Some(cancel)) = self.running().get(&key) {
                        cancel.cancel();
                    }
                    return Ok(None);
                }
                version if version >> 16 == 3 => {
                    let mut parameters = BTreeMap::new();
                    loop {
                        let name = body.string()?;
                        if name.is_empty() {
                            break;
                        }
                        parameters.insert(name, body.string()?);
                    }
                    let unknown: Vec<String> =
                        parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
                    if version & 0xFFFF != 0 || !unknown.is_empty() {
                        self.send(&Message::NegotiateProtocolVersion(NegotiateProtocolVersion::new(0, unknown)))?;
                    }
                    if parameters.get("replication").is_some_and(|value| value != "false" && value != "off") {
                        return Err(Refusal::new(state::NOT_SUPPORTED, "there is nothing to replicate here").into());
                    }
                    return Ok(Some((new_key(), parameters)));
                }
                version => {
                    return Err(Refusal::new(
                        state::PROTOCOL,
                        format!(
                            "version {}.{} of the protocol is not spoken here, 3.0 is",
                            version >> 16,
                            version & 0xFFFF
                        ),
                    )
                    .into());
                }
            }
            self.flush()?;
        }
        Err(Refusal::new(state::PROTOCOL, "too many requests to encrypt").into())
    }

    fn welcome(&mut self, key: (i32, i32), access: Access, parameters: &BTreeMap<String, String>) -> io::Result<()> {
        self.send(&Message::Authentication(Authentication::Ok))?;
        let superuser = if access == Access::Administer { "on" } else { "off" };
        let user = users::name(self.peer.uid);
        let application = parameters.get("application_name").map_or("", String::as_str).replace('\0', "");
        for (name, value) in [
            ("server_version", super::psql::SERVER_VERSION),
            ("server_encoding", "UTF8"),
            ("client_encoding", "UTF8"),
            ("application_name", &application),
            ("DateStyle", "ISO, MDY"),
            ("IntervalStyle", "postgres"),
            ("TimeZone", "UTC"),
            ("integer_datetimes", "on"),
            ("standard_conforming_strings", "on"),
            ("is_superuser", superuser),
            ("session_authorization", &user),
        ] {
            self.send(&Message::ParameterStatus(ParameterStatus::new(name.to_owned(), value.to_owned())))?;
        }
        self.send(&Message::BackendKeyData(BackendKeyData::new(key.0, SecretKey::I32(key.1))))?;
        self.ready(false)
    }

    fn ready(&mut self, in_transaction: bool) -> io::Result<()> {
        let status = if in_transaction { TransactionStatus::Transaction } else { TransactionStatus::Idle };
        self.send(&Message::ReadyForQuery(ReadyForQuery::new(status)))?;
        self.flush()
    }

    /// The next message: its kind and its body.
    fn receive(&mut self) -> Result<(u8, Body), End> {
        self.stream.set_read_timeout(None)?;
        let mut kind = [0];
        loop {
            match self.stream.read(&mut kind) {
                Ok(0) => return Err(End::Gone),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Gone),
            }
        }
        let deadline = Instant::now() + PATIENCE;
        let length = self.exactly(4, deadline)?;
        let length = i32::from_be_bytes(length.try_into().map_err(|_| End::Gone)?);
        let length =
            usize::try_from(length).ok().filter(|length| (4..=MESSAGE_MAX).contains(length)).ok_or_else(|| {
                Refusal::new(
                    state::PROTOCOL,
                    format!("a message of {length} bytes is not taken; at most {MESSAGE_MAX} are"),
                )
            })?;
        let [kind] = kind;
        Ok((kind, Body { bytes: self.exactly(length - 4, deadline)?, at: 0 }))
    }
}

fn new_key() -> (i32, i32) {
    let mut bytes = [0; 8];
    // The kernel gives so few bytes at once, once it is up.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    let [a, b, c, d, e, f, g, h] = bytes;
    (i32::from_ne_bytes([a, b, c, d & 0x7F]), i32::from_ne_bytes([e, f, g, h]))
}

impl Client {
    fn serve(&mut self) -> Result<(), End> {
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
                    self.portals.remove("");
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
                // COPY data of a COPY that was refused, as in PostgreSQL.
                b'd' | b'c' | b'f' => continue,
                other => {
                    return Err(Refusal::new(
                        state::PROTOCOL,
                        format!("'{}' is no message of PostgreSQL's protocol", char::from(other).escape_default()),
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

    fn error(&mut self, refusal: &Refusal, text: &str) -> io::Result<()> {
        self.connection.send(&Message::ErrorResponse(ErrorResponse::new(fields("ERROR", refusal, text))))
    }

    fn notice(&mut self, notice: &Notice) -> io::Result<()> {
        let (severity, state) = if notice.warning { ("WARNING", "01000") } else { ("NOTICE", "00000") };
        let fields = fields(severity, &Refusal::new(state, &notice.text), "");
        self.connection.send(&Message::NoticeResponse(NoticeResponse::new(fields)))
    }

    /// The simple protocol: one message, any number of statements.
    fn simple(&mut self, body: &mut Body) -> Result<(), End> {
        let text = body.string()?;
        match sql::parse(&text) {
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

    /// Carries out one statement on a thread of its own, and watches the client meanwhile.
    fn run(&mut self, statement: &Statement, parameters: Vec<Value>) -> Result<Reply, End> {
        match statement {
            Statement::Begin => self.in_transaction = true,
            Statement::Commit | Statement::Rollback => self.in_transaction = false,
            _ if statement.administers() && self.in_transaction => {
                let refusal = format!("{} cannot run inside a transaction block", statement.tag());
                let refusal = Refusal::new(state::IN_TRANSACTION, refusal)
                    .hint("it could not be rolled back: COMMIT first, or use autocommit");
                return Ok(Reply { notices: Vec::new(), result: Err(refusal) });
            }
            _ => {}
        }
        let context = self.context.clone();
        let owned = statement.clone();
        let goes_on = statement.administers();
        let reply = self.watched(move |cancel| execute(&context, &owned, &parameters, cancel))?;
        Ok(reply.unwrap_or_else(|| {
            let refusal = Refusal::canceled();
            let refusal = if goes_on { refusal.hint("the statement goes on without you") } else { refusal };
            Reply { notices: Vec::new(), result: Err(refusal) }
        }))
    }

    /// Runs something beside this thread; `None` if it was cancelled and did not end in time.
    fn watched<T: Send + 'static>(&self, what: impl FnOnce(&Cancel) -> T + Send + 'static) -> Result<Option<T>, End> {
        let cancel = Cancel::default();
        self.connection.running().insert(self.key, Some(cancel.clone()));
        let (tell, told) = channel();
        let given = cancel.clone();
        thread::Builder::new()
            .name("statement".into())
            .spawn(move || drop(tell.send(what(&given))))
            .map_err(|error| Refusal::new("53000", format!("starting a thread: {error}")))?;
        let mut cancelled: Option<Instant> = None;
        let result = loop {
            match told.recv_timeout(LOOK) {
                Ok(value) => break Ok(Some(value)),
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(
                        Refusal::new(state::INTERNAL, "the statement ended without a result; this is a defect").into()
                    );
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.is_gone() {
                cancel.cancel();
                break Err(End::Gone);
            }
            if cancel.is_cancelled() && cancelled.get_or_insert_with(Instant::now).elapsed() > CANCEL {
                break Ok(None);
            }
        };
        self.connection.running().insert(self.key, None);
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
            let (oid, size) = match column.kind {
                Type::Integer => (INT8_OID, 8),
                Type::Real => (FLOAT8_OID, 8),
                Type::Text => (TEXT_OID, -1),
            };
            FieldDescription::new(column.name.replace('\0', ""), 0, 0, oid, size, -1, format_of(formats, at))
        });
        let fields = fields.collect();
        self.connection.send(&Message::RowDescription(RowDescription::new(fields)))
    }

    fn row(&mut self, columns: &[Column], row: &[Value], formats: &[i16]) -> Result<(), End> {
        let mut data = BytesMut::new();
        for (at, value) in row.iter().enumerate() {
            let kind = columns.get(at).map_or(Type::Text, |column| column.kind);
            put_value(&mut data, value, kind, format_of(formats, at) == 1)?;
        }
        let count = i16::try_from(row.len()).map_err(|_| Refusal::new(state::TOO_COMPLEX, "too many columns"))?;
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
        let statements = match sql::parse(&text) {
            Ok(statements) => statements,
            Err(refusal) => {
                // With the text at hand, the place can be told.
                self.error(&refusal, &text)?;
                self.skipping = true;
                return Ok(self.connection.flush()?);
            }
        };
        if statements.len() > 1 {
            return Err(Refusal::new(state::SYNTAX, "several statements cannot be prepared as one").into());
        }
        if self.prepared.len() >= KEPT_MAX {
            return Err(Refusal::new(state::TOO_COMPLEX, "too many prepared statements").hint("close some").into());
        }
        let statement = statements.into_iter().next();
        let prepared = Prepared { text, statement, parameter_types, described: Mutex::default() };
        self.prepared.insert(name, Arc::new(prepared));
        Ok(self.connection.send(&Message::ParseComplete(ParseComplete::new()))?)
    }

    fn prepared(&self, name: &str) -> Result<Arc<Prepared>, Refusal> {
        let missing = || Refusal::new("26000", format!("there is no prepared statement \"{name}\""));
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
            let oid = prepared.parameter_types.get(at).copied().unwrap_or(TEXT_OID);
            parameters.push(match usize::try_from(length) {
                Err(_) => Value::Null,
                Ok(length) => parameter(body.take(length)?, oid, format_of(&parameter_formats, at) == 1)?,
            });
        }
        let mut formats = Vec::new();
        for _ in 0..body.count()? {
            formats.push(body.i16()?);
        }
        if self.portals.len() >= KEPT_MAX {
            return Err(Refusal::new(state::TOO_COMPLEX, "too many portals").hint("close some").into());
        }
        self.portals.insert(name, Portal { prepared, parameters, formats, result: None, sent: 0 });
        Ok(self.connection.send(&Message::BindComplete(BindComplete::new()))?)
    }

    /// The parameters and columns of a statement that is kept.
    fn described(&self, prepared: &Arc<Prepared>) -> Result<Option<Described>, End> {
        let Some(statement) = &prepared.statement else { return Ok(None) };
        if let Some(described) = &*prepared.described.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Some(described.clone()));
        }
        let context = self.context.clone();
        let owned = statement.clone();
        let described = self
            .watched(move |cancel| describe(&context, &owned, cancel))?
            .unwrap_or_else(|| Err(Refusal::canceled()))?;
        prepared.described.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&described);
        Ok(described)
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
            _ => return Err(Refusal::new(state::PROTOCOL, "neither a statement nor a portal is described").into()),
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
            let types = (0..count).map(|at| match prepared.parameter_types.get(at) {
                None | Some(0) => TEXT_OID,
                Some(oid) => *oid,
            });
            let types = types.collect();
            self.connection.send(&Message::ParameterDescription(ParameterDescription::new(types)))?;
        }
        match described {
            Some(described) => Ok(self.row_description(&described.columns, &formats)?),
            None => Ok(self.connection.send(&Message::NoData(NoData::new()))?),
        }
    }

    fn execute(&mut self, body: &mut Body) -> Result<(), End> {
        let name = body.string()?;
        let limit = usize::try_from(body.i32()?).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let mut portal = self.portals.remove(&name).ok_or_else(|| no_portal(&name))?;
        let prepared = Arc::clone(&portal.prepared);
        let Some(statement) = &prepared.statement else {
            self.portals.insert(name, portal);
            return Ok(self.connection.send(&Message::EmptyQueryResponse(EmptyQueryResponse::new()))?);
        };
        if portal.result.is_none() {
            let reply = self.run(statement, std::mem::take(&mut portal.parameters))?;
            for notice in &reply.notices {
                self.notice(notice)?;
            }
            match reply.result {
                Ok(Outcome::Done) => return Ok(self.complete(statement, None)?),
                Ok(Outcome::Rows(mut table)) => {
                    // What the client was told about the columns holds.
                    if let Some(described) = &*prepared.described.lock().unwrap_or_else(PoisonError::into_inner) {
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
        let Some(table) = portal.result.take() else { return Ok(()) };
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
            _ => return Err(Refusal::new(state::PROTOCOL, "neither a statement nor a portal is closed").into()),
        }
        Ok(self.connection.send(&Message::CloseComplete(CloseComplete::new()))?)
    }
}

fn no_portal(name: &str) -> Refusal {
    Refusal::new("34000", format!("there is no portal \"{name}\""))
}

/// The format of a column or parameter: none given is text, one is for all.
fn format_of(formats: &[i16], at: usize) -> i16 {
    match formats {
        [one] => *one,
        formats => formats.get(at).copied().unwrap_or(0),
    }
}

/// A parameter's value.
fn parameter(bytes: &[u8], oid: u32, binary: bool) -> Result<Value, Refusal> {
    const BOOL: u32 = 16;
    const INT2: u32 = 21;
    const INT4: u32 = 23;
    const OID: u32 = 26;
    const FLOAT4: u32 = 700;
    let bad = || Refusal::new(state::BAD_VALUE, "a parameter is not what its type says");
    if !binary {
        let text = std::str::from_utf8(bytes).map_err(|_| bad())?;
        return Ok(match oid {
            INT2 | INT4 | INT8_OID | OID => Value::Integer(text.trim().parse().map_err(|_| bad())?),
            FLOAT4 | FLOAT8_OID => Value::Real(text.trim().parse().map_err(|_| bad())?),
            BOOL => Value::Integer(i64::from(matches!(text, "t" | "true" | "on" | "1"))),
            _ => Value::Text(text.to_owned()),
        });
    }
    Ok(match (oid, bytes) {
        (BOOL, [value]) => Value::Integer(i64::from(*value != 0)),
        (INT2, bytes) => Value::Integer(i64::from(i16::from_be_bytes(bytes.try_into().map_err(|_| bad())?))),
        (INT4, bytes) => Value::Integer(i64::from(i32::from_be_bytes(bytes.try_into().map_err(|_| bad())?))),
        (OID, bytes) => Value::Integer(i64::from(u32::from_be_bytes(bytes.try_into().map_err(|_| bad())?))),
        (INT8_OID, bytes) => Value::Integer(i64::from_be_bytes(bytes.try_into().map_err(|_| bad())?)),
        (FLOAT4, bytes) => Value::Real(f64::from(f32::from_be_bytes(bytes.try_into().map_err(|_| bad())?))),
        (FLOAT8_OID, bytes) => Value::Real(f64::from_be_bytes(bytes.try_into().map_err(|_| bad())?)),
        (17, bytes) => Value::Blob(bytes.to_vec()),
        (0 | TEXT_OID | 1043 | 19 | 18 | 705, bytes) => {
            Value::Text(String::from_utf8(bytes.to_vec()).map_err(|_| bad())?)
        }
        _ => return Err(Refusal::new(state::NOT_SUPPORTED, format!("a binary parameter of type {oid}"))),
    })
}

/// A value's text, as PostgreSQL writes it.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) if number.is_infinite() => if *number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => {
            use std::fmt::Write as _;
            bytes.iter().fold(String::from("\\x"), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
        }
    }
}

/// Appends a value with its length.
fn put_value(out: &mut BytesMut, value: &Value, kind: Type, binary: bool) -> Result<(), Refusal> {
    let mut put = |bytes: &[u8]| {
        let length = i32::try_from(bytes.len()).map_err(|_| Refusal::new(state::TOO_COMPLEX, "a value is too long"))?;
        out.put_i32(length);
        out.put_slice(bytes);
        Ok(())
    };
    match (value, kind) {
        (Value::Null, _) => {
            out.put_i32(-1);
            Ok(())
        }
        (value, Type::Text) => put(text_of(value).as_bytes()),
        (value, _) if !binary => put(text_of(value).as_bytes()),
        (Value::Integer(number), Type::Integer) => put(&number.to_be_bytes()),
        (Value::Integer(number), Type::Real) => put(&(*number as f64).to_be_bytes()),
        (Value::Real(number), Type::Real) => put(&number.to_be_bytes()),
        _ => Err(Refusal::new(state::BAD_VALUE, "a value is not of the type that its column was said to have")
            .hint("CAST the column, or use text results")),
    }
}
