//! PostgreSQL's protocol, version 3, on `.s.PGSQL.5432` and over TCP: so that `psql` and drivers
//! for every language work.
//!
//! Messages are encoded by `pgwire`. Messages from clients are decoded here: a length is bounded
//! before it is used, and no message, however short, is read past its end (`pgwire`'s own reading
//! panics on a truncated Bind, and accepts messages of a gigabyte). Each connection has a thread
//! and each statement another one, so that the connection notices a cancel request or a client that
//! has disconnected while the statement runs.
//!
//! ```text
//!   unix socket:  startup --> the user, from the kernel -----------------+--> client.rs
//!   TCP:          [TLS] startup --> SCRAM, login.rs --> its role --------+
//! ```
//!
//! This file: listening, and a connection from its first byte until its user is known. `stream.rs`:
//! the bytes. `network.rs`: TCP. `tls.rs`: certificates. `scram.rs`: proofs. `values.rs`: the
//! values in a message.

mod arrays;
mod client;
pub(crate) mod login;
pub mod network;
mod stream;
mod values;

use crate::{
    instance::{
        Instance,
        session::Context,
        sessions::{CONNECTIONS_MAX, Protocol},
    },
    login_failures::Failures,
    process::Peer,
    query::{Cancel, pg_compat},
    sql::{Role, TEXT_MAX},
    sql_error::{SqlError, state},
    tls::Tls,
    users,
};
use bytes::BytesMut;
use client::Client;
use pgwire::messages::{
    PgWireBackendMessage as Message,
    response::{ErrorResponse, GssEncResponse, ReadyForQuery, SslResponse, TransactionStatus},
    startup::{
        Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey,
    },
};
use plinth_host::lock;
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    os::unix::net::{UnixListener, UnixStream},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use stream::Stream;

/// The protocol (ALPN) that a client must request if it begins with TLS at once.
const ALPN: &[u8] = b"postgresql";
/// The last few of all connections are for administrators on this host.
const RESERVED: usize = 20;
/// Most connections over the network at one time that have not logged in.
const UNAUTHENTICATED_MAX: usize = 64;
/// How long a client may take from connecting to being ready.
const STARTUP: Duration = Duration::from_secs(10);
/// How long the rest of a message, or a client that does not read, may take.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest startup packet, as in PostgreSQL, and the longest message, in bytes.
const STARTUP_MAX: usize = 10_000;
const MESSAGE_MAX: usize = TEXT_MAX + (1 << 16);
/// The longest message of a client that logs in.
const LOGIN_MAX: usize = 2048;
/// About how many bytes may wait to be sent.
const OUT: usize = 64 << 10;
/// The longest field of an error, in bytes: libpq takes errors of 30000.
const FIELD_MAX: usize = 8000;
/// The first byte of a TLS handshake; as a length it would exceed that of any startup packet.
const TLS_HANDSHAKE: u8 = 0x16;

/// The key that cancels a client's statements.
type Key = (i32, i32);

/// The key, and the parameters of the client's startup packet.
type Started = (Key, BTreeMap<String, String>);

/// Connections of all listeners, counted and limited.
#[derive(Default)]
pub(super) struct ConnectionLimits {
    connections: AtomicUsize,
    unauthenticated: AtomicUsize,
    failures: Failures,
    /// Running statements, by the key that cancels them.
    running: Mutex<BTreeMap<Key, Option<Cancel>>>,
}

/// One of a limited number of connections; counted down when it is dropped.
struct Permit {
    limits: Arc<ConnectionLimits>,
    counter: fn(&ConnectionLimits) -> &AtomicUsize,
}

impl ConnectionLimits {
    fn take(self: &Arc<Self>, counter: fn(&Self) -> &AtomicUsize, limit: usize) -> Option<Permit> {
        let permit = Permit { limits: Arc::clone(self), counter };
        (counter(self).fetch_add(1, Ordering::SeqCst) < limit).then_some(permit)
    }

    /// Takes a permit for a connection.
    fn enter(self: &Arc<Self>, limit: usize) -> Option<Permit> {
        self.take(|limits| &limits.connections, limit)
    }

    /// Takes a permit for a connection that has not logged in.
    fn enter_unauthenticated(self: &Arc<Self>) -> Option<Permit> {
        self.take(|limits| &limits.unauthenticated, UNAUTHENTICATED_MAX)
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<Key, Option<Cancel>>> {
        lock(&self.running)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        (self.counter)(&self.limits).fetch_sub(1, Ordering::SeqCst);
    }
}

/// The rules for clients that connect over the network.
struct Door {
    tls: Option<Tls>,
    insecure: bool,
}

/// Starts to listen on the unix socket.
pub(super) fn listen(
    instance: &Arc<Instance>,
    listener: UnixListener,
    limits: &Arc<ConnectionLimits>,
) -> io::Result<()> {
    let (instance, limits) = (Arc::clone(instance), Arc::clone(limits));
    thread::Builder::new().name("postgres".into()).spawn(move || {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let Ok(peer) = Peer::of(&stream) else { continue };
            let access = instance.access(peer);
            let limit = if access == Some(Role::Administer) {
                CONNECTIONS_MAX
            } else {
                CONNECTIONS_MAX - RESERVED
            };
            let stream = Stream::Unix(stream);
            let Some(permit) = limits.enter(limit) else {
                refuse(stream, &SqlError::new(state::TOO_MANY_CONNECTIONS, "too many connections"));
                continue;
            };
            let connection = Connection::new(&instance, stream, &limits);
            // Without a thread the permit is dropped, and the client's connection is closed.
            let _ = thread::Builder::new().name("client".into()).spawn(move || {
                let _ = connection.talk(peer, access);
                drop(permit);
            });
        }
    })?;
    Ok(())
}

/// Sends a refusal, if the client reads, and closes the connection.
fn refuse(mut stream: Stream, refusal: &SqlError) {
    let mut out = BytesMut::new();
    let _ =
        Message::ErrorResponse(ErrorResponse::new(fields("FATAL", refusal, ""))).encode(&mut out);
    let _ = rustix::io::ioctl_fionbio(&stream, true);
    let _ = stream.write_all(&out);
}

/// An error's fields; `text` is the statement text that the client sent.
fn fields(severity: &str, refusal: &SqlError, text: &str) -> Vec<(u8, String)> {
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
    // Some clients show the text around the position, and need a position inside the text.
    fields.extend(
        refusal
            .at
            .filter(|at| !text.is_empty() && *at <= text.chars().count())
            .map(|at| (b'P', (at + 1).to_string())),
    );
    fields
}

struct Connection {
    instance: Arc<Instance>,
    stream: Stream,
    limits: Arc<ConnectionLimits>,
    out: BytesMut,
}

/// A client's message, and reading from it.
struct Body {
    bytes: Vec<u8>,
    at: usize,
}

impl Body {
    fn take(&mut self, count: usize) -> Result<&[u8], SqlError> {
        let end =
            self.at.checked_add(count).filter(|end| *end <= self.bytes.len()).ok_or_else(short)?;
        let taken = self.bytes.get(self.at..end).ok_or_else(short)?;
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, SqlError> {
        self.take(1)?.first().copied().ok_or_else(short)
    }

    fn i16(&mut self) -> Result<i16, SqlError> {
        self.take(2)?.try_into().map(i16::from_be_bytes).map_err(|_| short())
    }

    fn i32(&mut self) -> Result<i32, SqlError> {
        self.take(4)?.try_into().map(i32::from_be_bytes).map_err(|_| short())
    }

    fn count(&mut self) -> Result<usize, SqlError> {
        // An unsigned number, although the protocol declares it signed.
        Ok(usize::from(self.i16()?.cast_unsigned()))
    }

    fn string(&mut self) -> Result<String, SqlError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == 0).ok_or_else(short)?;
        let text =
            String::from_utf8(rest.get(..length).unwrap_or_default().to_vec()).map_err(|_| {
                SqlError::new("22021", "the text is not UTF-8")
                    .hint("SET client_encoding in the client")
            })?;
        self.at += length + 1;
        Ok(text)
    }
}

fn short() -> SqlError {
    SqlError::new(state::PROTOCOL, "a message of the client is cut short")
}

/// How a connection ends.
enum End {
    /// The error is sent to the client, if it still reads.
    Refused(SqlError),
    /// The client is gone, or does not respond.
    Gone,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<SqlError> for End {
    fn from(refusal: SqlError) -> Self {
        Self::Refused(refusal)
    }
}

impl Connection {
    fn new(instance: &Arc<Instance>, stream: Stream, limits: &Arc<ConnectionLimits>) -> Self {
        Self {
            instance: Arc::clone(instance),
            stream,
            limits: Arc::clone(limits),
            out: BytesMut::new(),
        }
    }

    /// Serves a connection on the unix socket until it ends.
    fn talk(mut self, peer: Peer, access: Option<Role>) -> io::Result<()> {
        self.stream.set_write_timeout(STALL_TIMEOUT)?;
        let started = self.start(None, Instant::now() + STARTUP);
        let Some((key, parameters)) = self.said(started)? else { return Ok(()) };
        let user = users::name(peer.uid);
        let Some(access) = access else {
            return self.fail(&SqlError::new("28000", format!("{user} may not connect to this instance")).hint(
                "root and the instance's own user may; others if it was started with --look-group or --look-all",
            ));
        };
        let client = (Protocol::Postgresql, application(&parameters));
        let context = Context::of_peer(&self.instance, access, peer, client);
        self.serve(key, &parameters, context)
    }

    /// Serves a connection over the network until it ends.
    fn talk_to_stranger(
        mut self,
        from: SocketAddr,
        door: &Door,
        stranger: Permit,
    ) -> io::Result<()> {
        // Until the client has logged in, the whole exchange has one deadline, in both directions.
        self.stream.set_write_timeout(STARTUP)?;
        let deadline = Instant::now() + STARTUP;
        let started = self.start(Some(door), deadline);
        let Some((key, parameters)) = self.said(started)? else { return Ok(()) };
        let user = parameters.get("user").cloned().unwrap_or_default();
        let access = self.log_in(&user, from, door, deadline).map(Some);
        let Some(access) = self.said(access)? else { return Ok(()) };
        drop(stranger);
        self.stream.set_write_timeout(STALL_TIMEOUT)?;
        let client = (Protocol::Postgresql, application(&parameters));
        let context = Context::of_user(&self.instance, access, &user, from, client);
        self.serve(key, &parameters, context)
    }

    /// Sends the client the error that ends the connection; `None` if the connection has ended.
    fn said<T>(&mut self, result: Result<Option<T>, End>) -> io::Result<Option<T>> {
        match result {
            Ok(value) => Ok(value),
            Err(End::Gone) => Ok(None),
            Err(End::Refused(refusal)) => self.fail(&refusal).map(|()| None),
        }
    }

    fn serve(
        mut self,
        key: Key,
        parameters: &BTreeMap<String, String>,
        context: Context,
    ) -> io::Result<()> {
        self.welcome(key, &context, parameters)?;
        let limits = Arc::clone(&self.limits);
        limits.running().insert(key, None);
        let mut client = Client::new(self, context, key);
        let result = client.serve();
        limits.running().remove(&key);
        match result {
            Err(End::Refused(refusal)) => client.connection.fail(&refusal)?,
            Ok(()) | Err(End::Gone) => {}
        }
        client.connection.stream.close();
        Ok(())
    }

    fn fail(&mut self, refusal: &SqlError) -> io::Result<()> {
        self.send(&Message::ErrorResponse(ErrorResponse::new(fields("FATAL", refusal, ""))))?;
        self.flush()?;
        self.stream.close();
        Ok(())
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

    /// Reads exactly `count` bytes, until the deadline.
    fn exactly(&mut self, count: usize, deadline: Option<Instant>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count.min(OUT)];
        let mut filled = 0;
        while filled < count {
            if filled == bytes.len() {
                bytes.resize(count.min(filled * 2), 0);
            }
            match self.stream.read(bytes.get_mut(filled..).unwrap_or_default(), deadline) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }

    /// Reads the startup packet and returns its parameters. `None` if it was a cancel request. No
    /// door: the connection came by the unix socket.
    fn start(&mut self, door: Option<&Door>, deadline: Instant) -> Result<Option<Started>, End> {
        const SSL: i32 = 80_877_103;
        const GSS: i32 = 80_877_104;
        const CANCEL: i32 = 80_877_102;
        let tls = door.and_then(|door| door.tls.as_ref());
        if let Some(tls) = tls {
            self.start_tls_at_once(tls, deadline)?;
        }
        // A request for SSL, one for GSS, then the startup packet; a peer that sends more is not a
        // client.
        for _ in 0..4 {
            let mut body = self.startup_packet(deadline)?;
            match body.i32()? {
                SSL => match (tls, self.stream.tls()) {
                    (Some(tls), None) => {
                        self.send(&Message::SslResponse(SslResponse::Accept))?;
                        self.flush()?;
                        self.encrypt(tls, deadline)?;
                    }
                    _ => self.send(&Message::SslResponse(SslResponse::Refuse))?,
                },
                GSS => self.send(&Message::GssEncResponse(GssEncResponse::Refuse))?,
                CANCEL => {
                    let key = (body.i32()?, body.i32()?);
                    if let Some(Some(cancel)) = self.limits.running().get(&key) {
                        cancel.cancel();
                    }
                    return Ok(None);
                }
                version if version >> 16 == 3 => {
                    return self.wishes(version, &mut body, door).map(Some);
                }
                version => {
                    return Err(SqlError::new(
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
        Err(SqlError::new(state::PROTOCOL, "too many requests to encrypt").into())
    }

    /// Starts TLS if the client begins with a TLS handshake.
    fn start_tls_at_once(&mut self, tls: &Tls, deadline: Instant) -> Result<(), End> {
        if self.stream.peek(deadline)? != Some(TLS_HANDSHAKE) {
            return Ok(());
        }
        self.encrypt(tls, deadline)?;
        if self.stream.tls().and_then(|session| session.alpn_protocol()) != Some(ALPN) {
            // Otherwise a web page could make a browser send requests here.
            let text = "TLS at once needs the protocol \"postgresql\" (ALPN)";
            return Err(SqlError::new(state::PROTOCOL, text).into());
        }
        Ok(())
    }

    fn startup_packet(&mut self, deadline: Instant) -> Result<Body, End> {
        let length = self.exactly(4, Some(deadline))?;
        let length = i32::from_be_bytes(length.try_into().map_err(|_| End::Gone)?);
        let length = usize::try_from(length)
            .ok()
            .filter(|length| (8..=STARTUP_MAX).contains(length))
            .ok_or_else(|| {
                SqlError::new(state::PROTOCOL, "this is no startup packet of PostgreSQL's protocol")
            })?;
        Ok(Body { bytes: self.exactly(length - 4, Some(deadline))?, at: 0 })
    }

    /// The rest of a startup packet of version 3: its parameters.
    fn wishes(
        &mut self,
        version: i32,
        body: &mut Body,
        door: Option<&Door>,
    ) -> Result<Started, End> {
        let needs_tls = door.is_some_and(|door| door.tls.is_some() && !door.insecure);
        if needs_tls && self.stream.tls().is_none() {
            return Err(SqlError::new(
                "28000",
                "this instance talks over the network with TLS only",
            )
            .hint("sslmode=verify-full, or at least sslmode=require, in the client")
            .into());
        }
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
            let negotiate = NegotiateProtocolVersion::new(0, unknown);
            self.send(&Message::NegotiateProtocolVersion(negotiate))?;
        }
        if parameters.get("replication").is_some_and(|value| value != "false" && value != "off") {
            let text = "there is nothing to replicate here";
            return Err(SqlError::new(state::NOT_SUPPORTED, text).into());
        }
        Ok((new_key(), parameters))
    }

    /// Switches the connection to TLS.
    fn encrypt(&mut self, tls: &Tls, deadline: Instant) -> io::Result<()> {
        // A placeholder without a peer, so that there is a stream even if the handshake fails.
        let (placeholder, _) = UnixStream::pair()?;
        let plain = std::mem::replace(&mut self.stream, Stream::Unix(placeholder));
        self.stream = plain.encrypt(Arc::clone(&tls.config), deadline)?;
        Ok(())
    }

    fn welcome(
        &mut self,
        key: Key,
        context: &Context,
        parameters: &BTreeMap<String, String>,
    ) -> io::Result<()> {
        self.send(&Message::Authentication(Authentication::Ok))?;
        let superuser = if context.access == Role::Administer { "on" } else { "off" };
        let user = context.who.clone();
        let application = application(parameters).to_owned();
        for (name, value) in [
            ("server_version", pg_compat::SERVER_VERSION),
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
            self.send(&Message::ParameterStatus(ParameterStatus::new(
                name.to_owned(),
                value.to_owned(),
            )))?;
        }
        self.send(&Message::BackendKeyData(BackendKeyData::new(key.0, SecretKey::I32(key.1))))?;
        self.ready(false)
    }

    fn ready(&mut self, in_transaction: bool) -> io::Result<()> {
        let status =
            if in_transaction { TransactionStatus::Transaction } else { TransactionStatus::Idle };
        self.send(&Message::ReadyForQuery(ReadyForQuery::new(status)))?;
        self.flush()
    }

    /// The next message of a client that is logged in. There is no time limit until it begins.
    fn receive(&mut self) -> Result<(u8, Body), End> {
        self.message(None, MESSAGE_MAX)
    }

    /// The next message: its kind and its body.
    fn message(&mut self, deadline: Option<Instant>, length_max: usize) -> Result<(u8, Body), End> {
        let kind = self.exactly(1, deadline)?;
        let deadline = deadline.or_else(|| Some(Instant::now() + STALL_TIMEOUT));
        let length = self.exactly(4, deadline)?;
        let length = i32::from_be_bytes(length.try_into().map_err(|_| End::Gone)?);
        let length = usize::try_from(length)
            .ok()
            .filter(|length| (4..=length_max).contains(length))
            .ok_or_else(|| {
                SqlError::new(
                    state::PROTOCOL,
                    format!("a message of {length} bytes is not taken; at most {length_max} are"),
                )
            })?;
        let kind = kind.first().copied().ok_or(End::Gone)?;
        Ok((kind, Body { bytes: self.exactly(length - 4, deadline)?, at: 0 }))
    }
}

/// The name that a client gives itself in its startup packet.
fn application(parameters: &BTreeMap<String, String>) -> &str {
    parameters.get("application_name").map_or("", String::as_str)
}

fn new_key() -> (i32, i32) {
    let mut bytes = [0; 8];
    // The kernel always returns this few bytes at once, after it has started.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    let [a, b, c, d, e, f, g, h] = bytes;
    (i32::from_ne_bytes([a, b, c, d & 0x7F]), i32::from_ne_bytes([e, f, g, h]))
}
