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
//! A killed server leaves clients without an answer to what was under way, as a disk does that loses its power: what they were told is
//! written is there, what they flushed is durable, and they connect again to another server for the rest. A client is told that several
//! connections may be used as one: nothing is kept here between it and the group, and a flush makes durable whatever was acknowledged
//! of the file, to whomever.
//!
//! Invariants:
//!
//!   1. Whatever a client sends, it gets an error, or is cut; nobody else notices, but for what it takes of the [`Limits`].
//!   2. Nothing outlives a client but the thread of a request that the disks have not answered.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod budget;
pub mod export;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod negotiate;
mod protocol;
mod pump;
mod stream;
#[cfg(test)]
mod tests;
mod transmit;

pub use protocol::Refused;

use budget::Budget;
use export::Exports;
use negotiate::{Agreed, Entrance, negotiate};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fd::{AsFd, BorrowedFd, OwnedFd},
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
        atomic::{AtomicBool, AtomicUsize, Ordering},
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

/// How long a stop waits for what clients asked for.
const PARTING: Duration = Duration::from_secs(10);
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
                let listener = Listener { door: Listening::Unix(listener), path: Some(path.clone()) };
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
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"));
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
            let longest = there.strangers.values_mut().find_map(|stranger| std::mem::take(stranger).upgrade());
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
}

impl Limits {
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::of(256, 192, 256 << 20, Patience { handshake: negotiate::HANDSHAKE, request: transmit::PATIENCE })
    }

    fn of(clients: usize, workers: usize, bytes: usize, patience: Patience) -> Arc<Self> {
        Arc::new(Self {
            clients: Places::new(clients),
            strangers: Strangers::new(64),
            workers: Places::new(workers),
            bytes: Budget::new(bytes),
            patience,
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
    /// Serves what `exports` has; with `tls`, to nobody without, and who is refused there is told of.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        listener: Listener,
        exports: Arc<dyn Exports>,
        limits: &Arc<Limits>,
        tls: Option<(TlsSource, TlsRefused)>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            exports,
            limits: Arc::clone(limits),
            tls,
            clients: Mutex::default(),
            left: Condvar::new(),
            stopping: AtomicBool::new(false),
            bell: eventfd(0, EventfdFlags::CLOEXEC)?,
        });
        let accepting = Arc::clone(&shared);
        let thread = thread::Builder::new().name("nbd accept".into()).spawn(move || accepting.accept(&listener))?;
        Ok(Self { shared, accepting: Mutex::new(Some(thread)) })
    }

    /// How many clients have this export.
    #[must_use]
    pub fn clients_of(&self, export: &str) -> usize {
        self.shared.lock().values().filter(|client| client.export.as_deref() == Some(export)).count()
    }

    /// Cuts the clients that have this export.
    pub fn cut(&self, export: &str) {
        for client in self.shared.lock().values().filter(|client| client.export.as_deref() == Some(export)) {
            client.stream.cut();
        }
    }

    /// Ends it: see step 3 above.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // It can fail only when the counter is full, and then the bell rings already.
        let _ = rustix::io::write(&self.shared.bell, &1u64.to_ne_bytes());
        let thread = self.accepting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        let began = Instant::now();
        let mut clients = self.shared.lock();
        while !clients.is_empty() && began.elapsed() < PARTING {
            clients.values().for_each(|client| client.stream.cut());
            let wait = Duration::from_millis(100);
            clients = self.shared.left.wait_timeout(clients, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A client's entry, which goes with it.
struct Entered {
    shared: Arc<Shared>,
    number: u64,
    _place: Option<Place>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.shared.lock().remove(&self.number);
        self.shared.left.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &Listener) {
        let mut number = 0;
        while !self.stopping.load(Ordering::SeqCst) {
            let mut events = [PollFd::new(listener, PollFlags::IN), PollFd::new(&self.bell, PollFlags::IN)];
            if poll(&mut events, None).is_err() {
                continue;
            }
            match listener.accept() {
                Ok(socket) => {
                    number += 1;
                    self.admit(socket, number);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // No descriptors, or a client that was gone at once.
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Starts to talk to a client. Who is one too many among clients hears why.
    fn admit(self: &Arc<Self>, socket: Socket, number: u64) {
        let from = socket.peer();
        let Ok(stream) = Stream::new(socket) else { return };
        let Some(stranger) = self.limits.strangers.enter(&stream) else { return };
        let place = self.limits.clients.enter();
        let is_admitted = place.is_some();
        self.lock().insert(number, Client { stream: Arc::clone(&stream), export: None });
        let entered = Entered { shared: Arc::clone(self), number, _place: place };
        // Without a thread the places are given back, and the client sees the end.
        let _ = thread::Builder::new().name("nbd".into()).spawn(move || {
            let shared = Arc::clone(&entered.shared);
            let mut incoming = Incoming::new(&stream);
            let tls = shared.tls.as_ref().map(|(source, _)| source());
            let patience = shared.limits.patience.handshake;
            let refused = |why: &str| shared.tls.iter().for_each(|(_, refused)| refused(&from, why));
            let door = Entrance { tls, refused: &refused, closed: (!is_admitted).then_some(TOO_MANY), patience };
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

    fn serve(&self, stream: Arc<Stream>, incoming: Incoming, agreed: Agreed, entered: Entered) {
        if let Some(client) = self.lock().get_mut(&entered.number) {
            client.export = Some(agreed.export_name.clone());
        }
        Connection::serve(stream, incoming, agreed, Arc::clone(&self.limits), Box::new(entered));
    }
}
