//! The NBD front end: files of a disk group as block devices, for qemu, the kernel's nbd, and every other client.
//!
//! ```text
//!   client --unix socket, TCP, TLS--> lib.rs: accept --> negotiate.rs: which export --> transmit.rs: requests
//!                                     stream.rs: bytes      protocol.rs: words                |
//!                                                           budget.rs: memory            export.rs --> Session
//! ```
//!
//! 1. [`Address::bind`] takes the address, [`Server::start`] serves it: a thread accepts, and each client has threads of its own.
//! 2. A client agrees with us on an export, and from then on sends requests.
//! 3. [`Server::stop`] takes no more clients, cuts those that there are, and waits until what they asked for has ended.
//!
//! A server whose process is killed leaves its clients to the next one, where somebody keeps their sockets meanwhile ([`Keeper`]): what was
//! asked and not answered is carried out, and answered once, on the same connection (`connection_memory.rs`, `range_lock.rs`). That is so from the agreement
//! on, and without TLS, whose state dies with the process: those clients, and those who have not agreed yet, see the end of their
//! connection. What any client was told is written is there, and what it flushed is durable.
//!
//! A client is told that several connections may be used as one: nothing is kept here between it and the group, and a flush makes durable
//! whatever was acknowledged of the file, to whomever.
//!
//! Invariants:
//!
//!   1. Whatever a client sends, it gets an error, or is cut; nobody else notices, but for what it takes of the [`Limits`].
//!   2. Nothing outlives a client but the thread of a request that the disks have not answered.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod budget;
mod connection_memory;
#[cfg(test)]
mod crash_points;
pub mod export;
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
use connection_memory::{About, Kept, SlotNumber};
use export::{Exports, NotOpened};
use negotiate::{Agreed, Entrance, negotiate};
use range_lock::{Gate, Inside};
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

/// Hears of a client with which TLS did not come about: from where it came, and why.
pub type TlsRefused = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Keeps, outside of this process, what of a connection outlives it.
pub trait Keeper: Send + Sync {
    /// From here on this connection can be resumed: by its memory and its socket. Returns when it is so.
    fn keep(&self, id: u64, memory: BorrowedFd<'_>, socket: BorrowedFd<'_>);

    /// It has ended.
    fn forget(&self, id: u64);
}

/// How long a stop waits for what clients asked for.
const PARTING: Duration = Duration::from_secs(10);
/// How long a process that leaves its clients to another one waits for what it has begun: the other one does again what has not ended then.
const FREEZING: Duration = Duration::from_secs(2);
/// How long who comes in waits for the place of somebody who was cut for it, before another is cut.
const MAKING_ROOM: Duration = Duration::from_millis(500);
/// How many are cut for one who comes in: more than one is slow to leave when the machine is busy.
const CUTS: usize = 10;
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

/// An address that was taken.
#[derive(Debug)]
pub struct Listener {
    door: Listening,
    /// A socket's file, which goes with the listener.
    path: Option<PathBuf>,
}

#[derive(Debug)]
enum Listening {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Address {
    /// Takes the address. A socket's file that nobody listens on any more is replaced; the new one is for its owner alone.
    ///
    /// # Errors
    /// If somebody listens there, or what is there is no socket.
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
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens there")),
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

/// So many, and no more, at one time.
#[derive(Debug)]
struct Places {
    max: usize,
    taken: AtomicUsize,
}

/// One of them; free again when it is dropped.
#[derive(Debug)]
struct Place(Arc<Places>);

impl Places {
    fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: AtomicUsize::new(0) })
    }

    fn enter(self: &Arc<Self>) -> Option<Place> {
        if self.taken.fetch_add(1, Ordering::SeqCst) < self.max {
            return Some(Place(Arc::clone(self)));
        }
        self.taken.fetch_sub(1, Ordering::SeqCst);
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Clients that have not agreed to anything yet: so many, and no more, at one time. When one more comes, whoever has been there longest is
/// cut: who knows what it wants has long agreed to it, however many others do nothing but stand in the door.
#[derive(Debug)]
struct Strangers {
    max: usize,
    there: Mutex<Door>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Door {
    next: u64,
    /// In the order in which they came; who was cut has no connection, and leaves as soon as its thread hears of it.
    strangers: BTreeMap<u64, Weak<Stream>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
struct Stranger {
    strangers: Arc<Strangers>,
    number: u64,
}

impl Strangers {
    fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, there: Mutex::default(), left: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Door> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: of those who were cut none leaves, because they wait for a disk.
    fn enter(self: &Arc<Self>, stream: &Arc<Stream>) -> Option<Stranger> {
        let mut there = self.lock();
        for _ in 0..CUTS {
            if there.strangers.len() < self.max {
                break;
            }
            let longest = there
                .strangers
                .values_mut()
                .find_map(|stranger| std::mem::take(stranger).upgrade());
            longest.inspect(|stream| stream.cut());
            let is_full = |there: &mut Door| there.strangers.len() >= self.max;
            let waited = self.left.wait_timeout_while(there, MAKING_ROOM, is_full);
            there = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if there.strangers.len() >= self.max {
            return None;
        }
        let number = there.next;
        there.next += 1;
        there.strangers.insert(number, Arc::downgrade(stream));
        Some(Stranger { strangers: Arc::clone(self), number })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.strangers.lock().strangers.remove(&self.number);
        self.strangers.left.notify_all();
    }
}

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// Until it has agreed to something.
    handshake: Duration,
    /// For the rest of a request, or a reply.
    request: Duration,
}

/// What all servers of a process together may take.
#[derive(Debug)]
pub struct Limits {
    /// Clients.
    clients: Arc<Places>,
    /// Clients that have not agreed to anything yet, those that are one too many included.
    strangers: Arc<Strangers>,
    /// Workers beyond the first of each client.
    workers: Arc<Places>,
    /// Bytes of requests, but for what each client has of its own.
    bytes: Arc<Budget>,
    patience: Patience,
    /// Of the files that clients have.
    gates: Mutex<BTreeMap<u64, Weak<Gate>>>,
}

impl Limits {
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::of(
            256,
            192,
            256 << 20,
            Patience { handshake: negotiate::HANDSHAKE, request: transmit::PATIENCE },
        )
    }

    fn of(clients: usize, workers: usize, bytes: usize, patience: Patience) -> Arc<Self> {
        Arc::new(Self {
            clients: Places::new(clients),
            strangers: Strangers::new(64),
            workers: Places::new(workers),
            bytes: Budget::new(bytes),
            patience,
            gates: Mutex::default(),
        })
    }

    /// The gate of a file: one for all that have it.
    fn gate(&self, file: u64) -> Arc<Gate> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        gates.retain(|_, gate| gate.strong_count() > 0);
        let there = gates.get(&file).and_then(Weak::upgrade);
        there.unwrap_or_else(|| {
            let new = Arc::new(Gate::default());
            gates.insert(file, Arc::downgrade(&new));
            new
        })
    }
}

/// A client, for who wants to cut it.
struct Client {
    stream: Arc<Stream>,
    /// The export that it has.
    export: Option<String>,
}

struct Shared {
    exports: Arc<dyn Exports>,
    limits: Arc<Limits>,
    tls: Option<(TlsSource, TlsRefused)>,
    /// Who keeps connections, and what this place is called there.
    keeper: Option<(Arc<dyn Keeper>, String)>,
    /// The number of the next client.
    next: AtomicU64,
    clients: Mutex<BTreeMap<u64, Client>>,
    /// One has left.
    left: Condvar,
    stopping: AtomicBool,
    /// Wakes who accepts.
    bell: OwnedFd,
}

/// A server at one address. It goes on until it is stopped.
pub struct Server {
    shared: Arc<Shared>,
    accepting: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Server {
    /// Serves what `exports` has; with `tls`, to nobody without, and who is refused there is told of. Connections without TLS are told to the
    /// keeper, with the name of this place.
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
            bell: eventfd(0, EventfdFlags::CLOEXEC)?,
        });
        let accepting = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("nbd accept".into())
            .spawn(move || accepting.accept(&listener))?;
        Ok(Self { shared, accepting: Mutex::new(Some(thread)) })
    }

    /// How many clients have this export.
    #[must_use]
    pub fn clients_of(&self, export: &str) -> usize {
        self.shared
            .lock()
            .values()
            .filter(|client| client.export.as_deref() == Some(export))
            .count()
    }

    /// Cuts the clients that have this export.
    pub fn cut(&self, export: &str) {
        for client in
            self.shared.lock().values().filter(|client| client.export.as_deref() == Some(export))
        {
            client.stream.cut();
        }
    }

    /// Goes on with a client of a server before this one.
    ///
    /// # Errors
    /// If its export is not to be had any more: then the client is cut.
    pub fn resume(&self, survivor: Survivor) -> io::Result<()> {
        self.shared.resume(survivor)
    }

    /// Accepts nobody any more, leaves the clients that are kept to another process as they are, and cuts the others. Returns when what was
    /// begun for them has ended, or that takes too long. This process has to end then: it serves them no more.
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
        let is_busy = |stream: &Arc<Stream>| stream.kept().is_some_and(|kept| kept.under_way() > 0);
        while kept.iter().any(is_busy) && began.elapsed() < FREEZING {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends it: see step 3 above.
    pub fn stop(&self) {
        self.stop_accepting();
        let began = Instant::now();
        let mut clients = self.shared.lock();
        while !clients.is_empty() && began.elapsed() < PARTING {
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
        // It can fail only when the counter is full, and then the bell rings already.
        let _ = rustix::io::write(&self.shared.bell, &1u64.to_ne_bytes());
        let thread = self.accepting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// A client's entry, which goes with it.
struct Entered {
    shared: Arc<Shared>,
    number: u64,
    stream: Arc<Stream>,
    _place: Option<Place>,
}

impl Drop for Entered {
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
                [PollFd::new(listener, PollFlags::IN), PollFd::new(&self.bell, PollFlags::IN)];
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

    /// Starts to talk to a client. Who is one too many among clients hears why.
    fn admit(self: &Arc<Self>, socket: Socket) {
        let from = socket.peer();
        let Ok(stream) = Stream::new(socket) else { return };
        let Some(stranger) = self.limits.strangers.enter(&stream) else { return };
        let place = self.limits.clients.enter();
        let is_admitted = place.is_some();
        let entered = self.enter(&stream, None, place);
        // Without a thread the places are given back, and the client sees the end.
        let _ = thread::Builder::new().name("nbd".into()).spawn(move || {
            let shared = Arc::clone(&entered.shared);
            let mut incoming = Incoming::new(&stream);
            let tls = shared.tls.as_ref().map(|(source, _)| source());
            let patience = shared.limits.patience.handshake;
            let refused =
                |why: &str| shared.tls.iter().for_each(|(_, refused)| refused(&from, why));
            let door = Entrance {
                tls,
                refused: &refused,
                closed: (!is_admitted).then_some(TOO_MANY),
                patience,
            };
            match negotiate(&mut incoming, &stream, &*shared.exports, &door) {
                Ok(Some(agreed)) => {
                    drop(stranger);
                    shared.serve(stream, incoming, agreed, entered);
                }
                refused => {
                    if refused.is_ok() {
                        stream.close()
                    } else {
                        stream.cut()
                    }
                    drop(entered);
                    drop(stranger);
                }
            }
        });
    }

    fn enter(
        self: &Arc<Self>,
        stream: &Arc<Stream>,
        export: Option<String>,
        place: Option<Place>,
    ) -> Entered {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        self.lock().insert(number, Client { stream: Arc::clone(stream), export });
        Entered { shared: Arc::clone(self), number, stream: Arc::clone(stream), _place: place }
    }

    fn serve(&self, stream: Arc<Stream>, mut incoming: Incoming, agreed: Agreed, entered: Entered) {
        if let Some(client) = self.lock().get_mut(&entered.number) {
            client.export = Some(agreed.export_name.clone());
        }
        self.keep(&stream, &mut incoming, &agreed);
        Connection::serve(stream, incoming, agreed, Arc::clone(&self.limits), Box::new(entered));
    }

    /// Has the connection outlive this process, if that can be.
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
            .and_then(|_| Kept::new(u64::from_ne_bytes(id), &about, incoming.ahead()));
        // Without memory the client is served all the same.
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
        let Survivor { stream, kept, found, inside } = survivor;
        // One that was let in has a place, however many came since.
        let place = self.limits.clients.enter();
        let entered = self.enter(&stream, Some(agreed.export_name.clone()), place);
        if let Some((keeper, _)) = &self.keeper
            && let Some(socket) = stream.descriptor()
        {
            keeper.keep(kept.id(), kept.file(), socket);
        }
        let limits = Arc::clone(&self.limits);
        // Without a thread the place is given back, and the connection cut.
        let started = thread::Builder::new().name("nbd".into()).spawn(move || {
            Connection::resume(stream, &found, inside, agreed, limits, Box::new(entered))
        });
        started.map(drop)
    }
}

/// A client whose process has ended. What it had asked to be changed, and has not been answered, is let in before anybody else's changes of the
/// same bytes, from here on.
pub struct Survivor {
    stream: Arc<Stream>,
    kept: Arc<Kept>,
    found: connection_memory::Found,
    inside: BTreeMap<SlotNumber, Inside>,
}

impl Survivor {
    /// Of the memory and the socket that a [`Keeper`] was given.
    ///
    /// # Errors
    /// If the memory is none, or the connection has ended.
    pub fn new(limits: &Limits, memory: OwnedFd, socket: OwnedFd) -> io::Result<Self> {
        let socket = match sockopt::socket_domain(&socket)? {
            AddressFamily::UNIX => Socket::Unix(socket.into()),
            _ => Socket::Tcp(socket.into()),
        };
        let stream = Stream::new(socket)?;
        let (kept, found) = Kept::attach(memory).inspect_err(|_| stream.cut())?;
        let kept = Arc::new(kept);
        stream.keep(Arc::clone(&kept));
        let gate = limits.gate(found.about.identity.0);
        let inside = transmit::to_be_done_again(&found)
            .map(|(slot, offset, length)| (slot, gate.enter_again(offset, length)))
            .collect();
        Ok(Self { stream, kept, found, inside })
    }

    /// The id of a connection whose memory this is; it may be served.
    ///
    /// # Errors
    /// If it is none.
    pub fn id_of(memory: &OwnedFd) -> io::Result<u64> {
        Kept::id_in(memory)
    }

    #[must_use]
    pub fn id(&self) -> u64 {
        self.kept.id()
    }

    /// What its server's place was called.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.found.about.place
    }

    #[must_use]
    pub fn export(&self) -> &str {
        &self.found.about.export
    }

    /// Ends it: nobody goes on with it.
    pub fn cut(self) {
        self.stream.cut();
    }
}
