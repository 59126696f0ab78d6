//! The NBD front end: files of a disk group as block devices, for qemu, the kernel's nbd, and every
//! other client.
//!
//! ```text
//!   client --unix socket, TCP, TLS--> lib.rs -----> negotiate.rs ------> transmit.rs
//!                                     accepts       chooses the export   serves requests
//!                                                                             |
//!                                     stream.rs: bytes                   BlockDevice
//!                                     protocol.rs: encoding                   |
//!                                     budget.rs: memory limits             Session
//! ```
//!
//! 1. [`Address::bind`] takes the address, and [`Server::start`] serves it: a thread accepts, and
//!    each client has threads of its own.
//! 2. Client and server agree on an export. From then on the client sends requests.
//! 3. [`Server::stop`] accepts no more clients, disconnects the present ones, and waits until their
//!    requests are complete.
//!
//! If the process of a server is killed, the next one serves its clients on, if another process
//! keeps their sockets meanwhile ([`Keeper`]): unanswered requests are carried out, and answered
//! once, on the same connection (`connection_memory.rs`, `range_lock.rs`). That does not hold
//! during the handshake, and not for connections with TLS, whose state dies with the process: these
//! clients are disconnected. A write that was acknowledged to any client is in the group, and a
//! flush that was acknowledged is durable.
//!
//! A server declares that a client may use several connections as one (`MULTI_CONN`): it caches
//! nothing between client and group, and a flush makes every write of the file durable that was
//! acknowledged on any connection.
//!
//! Invariants:
//!
//!   1. A client that sends something wrong gets an error, or is disconnected. Other clients notice
//!      nothing, except what it takes of the [`Limits`].
//!   2. When a client has disconnected, only threads are left whose requests wait for disks.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod budget;
mod connection_memory;
#[cfg(test)]
mod crash_points;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod multiplex;
mod negotiate;
mod protocol;
mod range_lock;
mod stream;
#[cfg(test)]
mod tests;
mod transmit;

pub use protocol::Refused;

use budget::Budget;
use connection_memory::{About, ConnectionMemory, SlotNumber};
use negotiate::{Agreed, HandshakeOptions, negotiate};
use plinth_frontend::{Exports, NotOpened};
use range_lock::{RangeGuard, RangeLock};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fd::{AsFd, BorrowedFd, OwnedFd},
    net::{AddressFamily, sockopt},
    rand::{GetRandomFlags, getrandom},
};
use rustls::ServerConfig;
use std::{
    collections::BTreeMap,
    fmt, fs, io,
    net::{SocketAddr, TcpListener},
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use stream::{Incoming, Socket, Stream};
use transmit::Connection;

/// The configuration of TLS for the next client: certificates are renewed under a running server.
pub type TlsSource = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// Is called for a client whose TLS handshake failed: with its address, and the reason.
pub type TlsRefused = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Keeps the parts of a connection that outlive this process, in another process.
pub trait Keeper: Send + Sync {
    /// Keeps a connection's memory and socket, by which it can be resumed. Returns when both are
    /// kept.
    fn keep(&self, id: u64, memory: BorrowedFd<'_>, socket: BorrowedFd<'_>);

    /// The connection has ended.
    fn forget(&self, id: u64);
}

/// How long a stop waits for the requests of clients.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a process that leaves its clients to another one waits for requests in flight. The
/// other process carries out again those that are not complete then.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a new client waits until the one that was disconnected for it has left, before another
/// one is disconnected.
const EVICTION_WAIT: Duration = Duration::from_millis(500);
/// Clients that are disconnected for a new one, at most: on a busy host they are slow to leave.
const EVICTIONS_MAX: usize = 10;
const TOO_MANY: &str = "too many clients; others have to leave first";

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// An address in use.
#[derive(Debug)]
pub struct Listener {
    door: Listening,
    /// A socket's file, which is removed with the listener.
    path: Option<PathBuf>,
}

#[derive(Debug)]
enum Listening {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Address {
    /// Takes the address. A socket's file without a listener is replaced. Only the owner may use
    /// the new one.
    ///
    /// # Errors
    /// If another process listens there, or a file that is no socket is there.
    pub fn bind(&self) -> io::Result<Listener> {
        match self {
            Self::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Listener { door: Listening::Tcp(listener), path: None })
            }
            Self::Unix(path) => {
                remove_dead(path)?;
                let listener = UnixListener::bind(path)?;
                let listener =
                    Listener { door: Listening::Unix(listener), path: Some(path.clone()) };
                fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
                if let Listening::Unix(unix) = &listener.door {
                    unix.set_nonblocking(true)?;
                }
                Ok(listener)
            }
        }
    }
}

/// Removes a socket's file whose listener is dead.
fn remove_dead(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is a file that is no socket",
        ));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

impl Listener {
    fn accept(&self) -> io::Result<Socket> {
        match &self.door {
            Listening::Unix(listener) => listener.accept().map(|(socket, _)| Socket::Unix(socket)),
            Listening::Tcp(listener) => listener.accept().map(|(socket, _)| Socket::Tcp(socket)),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.door {
            Listening::Unix(listener) => listener.as_fd(),
            Listening::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// A semaphore that is never waited for.
#[derive(Debug)]
struct Permits {
    max: usize,
    taken: AtomicUsize,
}

/// One permit; free again when it is dropped.
#[derive(Debug)]
struct Permit(Arc<Permits>);

impl Permits {
    fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: AtomicUsize::new(0) })
    }

    fn take(self: &Arc<Self>) -> Option<Permit> {
        if self.taken.fetch_add(1, Ordering::SeqCst) < self.max {
            return Some(Permit(Arc::clone(self)));
        }
        self.taken.fetch_sub(1, Ordering::SeqCst);
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Clients in the handshake, `max` at one time. For one more the oldest is disconnected: a client
/// that means well has long completed its handshake, however many others only hold connections.
#[derive(Debug)]
struct Handshakes {
    max: usize,
    connecting: Mutex<Connecting>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Connecting {
    next: u64,
    /// In the order in which they came. A disconnected one has no stream here, and leaves when its
    /// thread notices.
    handshakes: BTreeMap<u64, Weak<Stream>>,
}

/// A client in the handshake, until this is dropped.
#[derive(Debug)]
struct HandshakePermit {
    handshakes: Arc<Handshakes>,
    number: u64,
}

impl Handshakes {
    fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, connecting: Mutex::default(), left: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Connecting> {
        self.connecting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client. `None`: no other client leaves in time; their threads wait for a disk.
    fn begin(self: &Arc<Self>, stream: &Arc<Stream>) -> Option<HandshakePermit> {
        let mut connecting = self.lock();
        for _ in 0..EVICTIONS_MAX {
            if connecting.handshakes.len() < self.max {
                break;
            }
            let longest = connecting
                .handshakes
                .values_mut()
                .find_map(|handshake| std::mem::take(handshake).upgrade());
            longest.inspect(|stream| stream.cut());
            let is_full = |connecting: &mut Connecting| connecting.handshakes.len() >= self.max;
            let waited = self.left.wait_timeout_while(connecting, EVICTION_WAIT, is_full);
            connecting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if connecting.handshakes.len() >= self.max {
            return None;
        }
        let number = connecting.next;
        connecting.next += 1;
        connecting.handshakes.insert(number, Arc::downgrade(stream));
        Some(HandshakePermit { handshakes: Arc::clone(self), number })
    }
}

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        self.handshakes.lock().handshakes.remove(&self.number);
        self.handshakes.left.notify_all();
    }
}

/// How long a client may take before it is disconnected.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    /// For the handshake.
    handshake: Duration,
    /// For the rest of a request, or a reply.
    request: Duration,
}

/// Limits for all servers of a process together.
#[derive(Debug)]
pub struct Limits {
    /// Clients.
    clients: Arc<Permits>,
    /// Clients in the handshake, including those for which there is no permit in `clients`.
    handshakes: Arc<Handshakes>,
    /// Workers beyond the first of each client.
    workers: Arc<Permits>,
    /// Bytes of requests, beside the reserve of each client.
    bytes: Arc<Budget>,
    timeouts: Timeouts,
    /// Of the files that clients use, by node.
    range_locks: Mutex<BTreeMap<u64, Weak<RangeLock>>>,
}

impl Limits {
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::of(
            256,
            192,
            256 << 20,
            Timeouts {
                handshake: negotiate::HANDSHAKE_TIMEOUT,
                request: transmit::REQUEST_TIMEOUT,
            },
        )
    }

    fn of(clients: usize, workers: usize, bytes: usize, timeouts: Timeouts) -> Arc<Self> {
        Arc::new(Self {
            clients: Permits::new(clients),
            handshakes: Handshakes::new(64),
            workers: Permits::new(workers),
            bytes: Budget::new(bytes),
            timeouts,
            range_locks: Mutex::default(),
        })
    }

    /// The lock of a file's ranges: one for all connections.
    fn range_lock(&self, file: u64) -> Arc<RangeLock> {
        let mut range_locks = self.range_locks.lock().unwrap_or_else(PoisonError::into_inner);
        range_locks.retain(|_, range_lock| range_lock.strong_count() > 0);
        let there = range_locks.get(&file).and_then(Weak::upgrade);
        there.unwrap_or_else(|| {
            let new = Arc::new(RangeLock::default());
            range_locks.insert(file, Arc::downgrade(&new));
            new
        })
    }
}

/// A client, for disconnecting it.
struct Client {
    stream: Arc<Stream>,
    /// The export that it uses, after the handshake.
    export: Option<String>,
}

struct Shared {
    exports: Arc<dyn Exports>,
    limits: Arc<Limits>,
    tls: Option<(TlsSource, TlsRefused)>,
    /// The keeper of connections, and the name of this address there.
    keeper: Option<(Arc<dyn Keeper>, String)>,
    /// The number of the next client.
    next: AtomicU64,
    clients: Mutex<BTreeMap<u64, Client>>,
    /// A client has left.
    left: Condvar,
    stopping: AtomicBool,
    /// Wakes the thread that accepts.
    wakeup: OwnedFd,
}

/// A server at one address. It runs until it is stopped.
pub struct Server {
    shared: Arc<Shared>,
    accepting: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Server {
    /// Serves `exports`. With `tls` every client must use TLS, and failed TLS handshakes are
    /// reported. Connections without TLS are given to the keeper, with the name of this address.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        listener: Listener,
        exports: Arc<dyn Exports>,
        limits: &Arc<Limits>,
        tls: Option<(TlsSource, TlsRefused)>,
        keeper: Option<(Arc<dyn Keeper>, String)>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            exports,
            limits: Arc::clone(limits),
            tls,
            keeper,
            next: AtomicU64::new(0),
            clients: Mutex::default(),
            left: Condvar::new(),
            stopping: AtomicBool::new(false),
            wakeup: eventfd(0, EventfdFlags::CLOEXEC)?,
        });
        let accepting = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("nbd accept".into())
            .spawn(move || accepting.accept(&listener))?;
        Ok(Self { shared, accepting: Mutex::new(Some(thread)) })
    }

    /// How many clients use this export.
    #[must_use]
    pub fn clients_of(&self, export: &str) -> usize {
        self.shared
            .lock()
            .values()
            .filter(|client| client.export.as_deref() == Some(export))
            .count()
    }

    /// Disconnects the clients that use this export.
    pub fn cut(&self, export: &str) {
        for client in
            self.shared.lock().values().filter(|client| client.export.as_deref() == Some(export))
        {
            client.stream.cut();
        }
    }

    /// Serves a client of an earlier server on.
    ///
    /// # Errors
    /// If its export cannot be opened any more: then the client is disconnected.
    pub fn resume(&self, survivor: Survivor) -> io::Result<()> {
        self.shared.resume(survivor)
    }

    /// Accepts no more clients, leaves the kept connections to another process, and disconnects the
    /// others. Returns when requests in flight are complete, or after a time limit. This process
    /// has to end then: it does not serve the kept connections any more.
    pub fn freeze(&self) {
        self.stop_accepting();
        let kept: Vec<Arc<Stream>> = {
            let clients = self.shared.lock();
            let (kept, others): (Vec<_>, Vec<_>) =
                clients.values().partition(|client| client.stream.kept().is_some());
            others.iter().for_each(|client| client.stream.cut());
            kept.iter().map(|client| Arc::clone(&client.stream)).collect()
        };
        kept.iter().filter_map(|stream| stream.kept()).for_each(|kept| kept.freeze());
        let began = Instant::now();
        let is_busy = |stream: &Arc<Stream>| stream.kept().is_some_and(|kept| kept.in_flight() > 0);
        while kept.iter().any(is_busy) && began.elapsed() < FREEZE_TIMEOUT {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops the server: see step 3 above.
    pub fn stop(&self) {
        self.stop_accepting();
        let began = Instant::now();
        let mut clients = self.shared.lock();
        while !clients.is_empty() && began.elapsed() < STOP_TIMEOUT {
            clients.values().for_each(|client| client.stream.cut());
            let wait = Duration::from_millis(100);
            clients = self
                .shared
                .left
                .wait_timeout(clients, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn stop_accepting(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // It fails only when the counter is full, and then the thread is woken already.
        let _ = rustix::io::write(&self.shared.wakeup, &1u64.to_ne_bytes());
        let thread = self.accepting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// A client's entry in the list of clients, removed when this is dropped.
struct ClientEntry {
    shared: Arc<Shared>,
    number: u64,
    stream: Arc<Stream>,
    _permit: Option<Permit>,
}

impl Drop for ClientEntry {
    fn drop(&mut self) {
        if self.stream.is_frozen() {
            return;
        }
        if let (Some(kept), Some((keeper, _))) = (self.stream.kept(), &self.shared.keeper) {
            kept.end();
            keeper.forget(kept.id());
        }
        self.shared.lock().remove(&self.number);
        self.shared.left.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &Listener) {
        while !self.stopping.load(Ordering::SeqCst) {
            let mut events =
                [PollFd::new(listener, PollFlags::IN), PollFd::new(&self.wakeup, PollFlags::IN)];
            if poll(&mut events, None).is_err() {
                continue;
            }
            match listener.accept() {
                Ok(socket) => self.admit(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // No descriptors, or a client that was gone at once.
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Starts the handshake with a client. If there are too many clients, the handshake says so.
    fn admit(self: &Arc<Self>, socket: Socket) {
        let from = socket.peer();
        let Ok(stream) = Stream::new(socket) else { return };
        let Some(handshake) = self.limits.handshakes.begin(&stream) else { return };
        let permit = self.limits.clients.take();
        let is_admitted = permit.is_some();
        let entered = self.enter(&stream, None, permit);
        // If no thread starts, the permits are freed and the client is disconnected.
        let _ = thread::Builder::new().name("nbd".into()).spawn(move || {
            let shared = Arc::clone(&entered.shared);
            let mut incoming = Incoming::new(&stream);
            let tls = shared.tls.as_ref().map(|(source, _)| source());
            let timeout = shared.limits.timeouts.handshake;
            let refused =
                |why: &str| shared.tls.iter().for_each(|(_, refused)| refused(&from, why));
            let options = HandshakeOptions {
                tls,
                refused: &refused,
                closed: (!is_admitted).then_some(TOO_MANY),
                timeout,
            };
            match negotiate(&mut incoming, &stream, &*shared.exports, &options) {
                Ok(Some(agreed)) => {
                    drop(handshake);
                    shared.serve(stream, incoming, agreed, entered);
                }
                refused => {
                    if refused.is_ok() {
                        stream.close()
                    } else {
                        stream.cut()
                    }
                    drop(entered);
                    drop(handshake);
                }
            }
        });
    }

    fn enter(
        self: &Arc<Self>,
        stream: &Arc<Stream>,
        export: Option<String>,
        permit: Option<Permit>,
    ) -> ClientEntry {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        self.lock().insert(number, Client { stream: Arc::clone(stream), export });
        ClientEntry {
            shared: Arc::clone(self),
            number,
            stream: Arc::clone(stream),
            _permit: permit,
        }
    }

    fn serve(
        &self,
        stream: Arc<Stream>,
        mut incoming: Incoming,
        agreed: Agreed,
        entered: ClientEntry,
    ) {
        if let Some(client) = self.lock().get_mut(&entered.number) {
            client.export = Some(agreed.export_name.clone());
        }
        self.keep(&stream, &mut incoming, &agreed);
        Connection::serve(stream, incoming, agreed, Arc::clone(&self.limits), Box::new(entered));
    }

    /// Makes the connection outlive this process, if it can.
    fn keep(&self, stream: &Arc<Stream>, incoming: &mut Incoming, agreed: &Agreed) {
        let (Some((keeper, place)), Some(socket)) = (&self.keeper, stream.descriptor()) else {
            return;
        };
        if stream.is_encrypted() {
            return;
        }
        let mut id = [0; 8];
        let about = About {
            place: place.clone(),
            export: agreed.export_name.clone(),
            identity: agreed.export.identity(),
            size: agreed.size,
            read_only: agreed.export.is_read_only(),
            structured: agreed.structured,
            allocation: agreed.allocation,
        };
        let made = getrandom(&mut id[..], GetRandomFlags::empty())
            .map_err(io::Error::from)
            .and_then(|_| ConnectionMemory::new(u64::from_ne_bytes(id), &about, incoming.ahead()));
        // If there is no memory, the client is served, and its connection ends with this process.
        let Ok(kept) = made else { return };
        let kept = Arc::new(kept);
        incoming.keep();
        stream.keep(Arc::clone(&kept));
        keeper.keep(kept.id(), kept.file(), socket);
    }

    fn resume(self: &Arc<Self>, survivor: Survivor) -> io::Result<()> {
        let about = &survivor.found.about;
        let export = match self.exports.open_again(&about.export, about.identity, about.size) {
            Ok(export) => export,
            Err(error) => {
                survivor.cut();
                let why = match error {
                    NotOpened::Unknown => "it is not exported any more".to_owned(),
                    NotOpened::Refused(why) => why,
                };
                return Err(io::Error::new(io::ErrorKind::NotFound, why));
            }
        };
        let agreed = Agreed {
            export,
            export_name: about.export.clone(),
            size: about.size,
            structured: about.structured,
            allocation: about.allocation,
        };
        let Survivor { stream, kept, found, guards } = survivor;
        // A client that was accepted before is served even without a permit.
        let permit = self.limits.clients.take();
        let entered = self.enter(&stream, Some(agreed.export_name.clone()), permit);
        if let Some((keeper, _)) = &self.keeper
            && let Some(socket) = stream.descriptor()
        {
            keeper.keep(kept.id(), kept.file(), socket);
        }
        let limits = Arc::clone(&self.limits);
        // If no thread starts, the permit is freed and the client is disconnected.
        let started = thread::Builder::new().name("nbd".into()).spawn(move || {
            Connection::resume(stream, &found, guards, agreed, limits, Box::new(entered))
        });
        started.map(drop)
    }
}

/// A connection whose server process has ended. From here on it locks the ranges of its unanswered
/// changes, so that they come before other changes of the same bytes.
pub struct Survivor {
    stream: Arc<Stream>,
    kept: Arc<ConnectionMemory>,
    found: connection_memory::Found,
    guards: BTreeMap<SlotNumber, RangeGuard>,
}

impl Survivor {
    /// From the memory and the socket that a [`Keeper`] was given.
    ///
    /// # Errors
    /// If it is not the memory of a connection, or the connection has ended.
    pub fn new(limits: &Limits, memory: OwnedFd, socket: OwnedFd) -> io::Result<Self> {
        let socket = match sockopt::socket_domain(&socket)? {
            AddressFamily::UNIX => Socket::Unix(socket.into()),
            _ => Socket::Tcp(socket.into()),
        };
        let stream = Stream::new(socket)?;
        let (kept, found) = ConnectionMemory::attach(memory).inspect_err(|_| stream.cut())?;
        let kept = Arc::new(kept);
        stream.keep(Arc::clone(&kept));
        let range_lock = limits.range_lock(found.about.identity.0);
        let guards = transmit::to_be_done_again(&found)
            .map(|(slot, offset, length)| (slot, range_lock.lock_again(offset, length)))
            .collect();
        Ok(Self { stream, kept, found, guards })
    }

    /// The id of the connection whose memory this is. The connection may be in use.
    ///
    /// # Errors
    /// If it is not the memory of a connection.
    pub fn id_of(memory: &OwnedFd) -> io::Result<u64> {
        ConnectionMemory::id_in(memory)
    }

    #[must_use]
    pub fn id(&self) -> u64 {
        self.kept.id()
    }

    /// The name of its server's address.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.found.about.place
    }

    #[must_use]
    pub fn export(&self) -> &str {
        &self.found.about.export
    }

    /// Disconnects the client.
    pub fn cut(self) {
        self.stream.cut();
    }
}
