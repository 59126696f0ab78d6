//! The FUSE front end: a disk group as a directory that every program can use.
//!
//! ```text
//!   programs --system calls--> kernel --/dev/fuse--> workers (lib.rs) --> filesystem.rs --> Session
//!                                 ^
//!                                 +---- watcher.rs: "forget what you cached" <-- changes made by others
//! ```
//!
//! 1. The caller mounts (`mount.rs`) and keeps a duplicate of the device: while one is open, the mount lives.
//! 2. [`FrontEnd::serve`] starts workers. Each reads one request, runs it to its end, answers, reads the next.
//! 3. `umount` makes the kernel answer ENODEV to every worker. The last one to leave gives back all references.
//!
//! A killed front end leaves the mount waiting, not broken: another process that has the device takes it over
//! ([`FrontEnd::take_over`]) from where this one stopped. It first asks the kernel to send again what was read and not answered, and
//! to look again at every name it has cached, because what this one had still to say about changes is lost. A front end that
//! hands over on purpose ([`FrontEnd::hand_over`]) answers what it has begun; what its workers read after that they drop, and
//! the kernel sends it again. That is why nothing here is state that matters:
//!
//! Invariants:
//!
//!   1. A node id is a file's number in the group, and its generation is the file's. A handle carries nothing but
//!      a constant that says how the kernel moves the data. Neither refers to memory of this process.
//!   2. Every request that wants an answer gets one, also a malformed one: whoever waits for it cannot be killed.
//!   3. The memory that requests are read into and answers are made in is locked before the first read. A page
//!      fault inside the kernel's copy, in a process that is being killed, would end the request with EIO.
//!   4. A request never waits for a notification to the kernel (see watcher.rs).
//!   5. A successor asks for what was not answered before it reads its first request; its predecessor's process is gone by then.
//!   6. While requests wait (for disks, for space, for voters), there is always one more worker to read the next,
//!      up to [`WORKERS_MAX`]: writes that must wait do not stop reads.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod filesystem;
mod handshake;
mod locked;
#[cfg(test)]
mod memory;
pub mod mount;
mod references;
#[cfg(test)]
mod tests;
mod transfer;
mod watcher;

use filesystem::{Current, Files};
use fuse_backend_rs::{
    api::server::Server,
    transport::{FuseBuf, FuseDevWriter, Reader},
};
use handshake::Header;
use locked::Locked;
#[cfg(test)]
use memory::Session;
use plinth_engine::api::Watcher;
#[cfg(not(test))]
use plinth_engine::session::Session;
use rustix::io::Errno;
use std::{
    future::Future,
    io,
    os::fd::{AsRawFd, OwnedFd},
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use watcher::Notifier;

/// Runs a task to its end on the calling thread.
pub type BlockOn = Arc<dyn Fn(Pin<&mut (dyn Future<Output = ()> + Send)>) + Send + Sync>;

/// Most workers at one time. Each has 2 MiB of locked memory; more than this many requests that all wait is a group
/// that has stopped.
pub const WORKERS_MAX: usize = 128;

/// The most data in one request, in bytes: what the kernel's default limit of 256 pages allows.
pub(crate) const DATA_MAX: usize = 1 << 20;
/// Room for the headers of a request or an answer.
const HEADERS_MAX: usize = 4096;

/// Idle workers that are kept at least: those that a burst brought serve the next one too.
const IDLE_MAX: usize = 16;

/// A mount that is being served. Dropping it changes nothing: the mount is served until it is unmounted.
pub struct FrontEnd {
    shared: Arc<Shared>,
}

struct Shared {
    files: Arc<Files>,
    server: Server<Arc<Files>>,
    device: Arc<OwnedFd>,
    notifier: Notifier,
    /// Workers that are kept although idle.
    keep: usize,
    workers: Mutex<Workers>,
    /// A worker has ended its request, or itself.
    ended_one: Condvar,
}

#[derive(Default)]
struct Workers {
    all: usize,
    /// Those that wait for a request.
    idle: usize,
    /// The kernel ended the connection.
    ended: bool,
    /// Another process is going to serve: no request is begun any more.
    handed_over: bool,
    handles: Vec<JoinHandle<()>>,
}

/// Notifications without content.
const RESEND: i32 = 7;
const INCREASE_EPOCH: i32 = 8;

fn notify(device: &OwnedFd, code: i32) -> io::Result<()> {
    // An answer to no request, with the code of the notification in place of the error.
    rustix::io::write(device, &Header { opcode: 0, unique: 0 }.error(-code))?;
    Ok(())
}

/// How a front end ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Unmounted,
    /// Another process serves the mount.
    HandedOver,
}

impl FrontEnd {
    /// Serves `device`, on which a mount was made, until it is unmounted. `session` makes the way into the group,
    /// given who wants to hear of changes; `block_on` runs what the group is asked for; `threads` workers are kept
    /// ready.
    ///
    /// # Errors
    /// If memory cannot be locked or no thread can be started. Nothing was read from the device then.
    pub fn serve(
        device: OwnedFd,
        session: impl FnOnce(Arc<dyn Watcher>) -> Session,
        block_on: BlockOn,
        threads: usize,
    ) -> io::Result<Self> {
        Self::start(device, session, block_on, threads, false)
    }

    /// As [`Self::serve`], of a device that a process served that is gone.
    ///
    /// # Errors
    /// As [`Self::serve`]; if the kernel is older than Linux 6.9, or the mount is gone. Another may try again then.
    pub fn take_over(
        device: OwnedFd,
        session: impl FnOnce(Arc<dyn Watcher>) -> Session,
        block_on: BlockOn,
        threads: usize,
    ) -> io::Result<Self> {
        Self::start(device, session, block_on, threads, true)
    }

    fn start(
        device: OwnedFd,
        session: impl FnOnce(Arc<dyn Watcher>) -> Session,
        block_on: BlockOn,
        threads: usize,
        takes_over: bool,
    ) -> io::Result<Self> {
        let keep = threads.clamp(1, WORKERS_MAX);
        let ready = (0..keep).map(|_| Memory::new()).collect::<io::Result<Vec<_>>>()?;
        let device = Arc::new(device);
        let notifier = Notifier::start(Arc::clone(&device))?;
        if takes_over {
            notify(&device, RESEND).inspect_err(|_| notifier.stop())?;
            // A kernel that does not know it (before Linux 6.16) believes names for as long as it was told to.
            let _ = notify(&device, INCREASE_EPOCH);
        }
        let files = Arc::new(Files::new(session(notifier.watcher()), block_on));
        let asked = Arc::downgrade(&files);
        notifier.tell(Box::new(move |node| asked.upgrade().into_iter().for_each(|files| files.does_not_hold(node))));
        let shared = Arc::new(Shared {
            server: Server::new(Arc::clone(&files)),
            files,
            device,
            notifier,
            keep,
            workers: Mutex::default(),
            ended_one: Condvar::new(),
        });
        for memory in ready {
            if let Err(error) = shared.add_worker(Some(memory)) {
                // One is enough to go on with: it adds others as it needs them.
                if shared.lock().all == 0 {
                    shared.notifier.stop();
                    return Err(error);
                }
            }
        }
        Ok(Self { shared })
    }

    /// Waits until the mount was unmounted, its last request answered and the way into the group closed; or until a mount that is
    /// handed over has no worker any more.
    pub fn join(&self) -> End {
        while let Some(handle) = { self.shared.lock().handles.pop() } {
            // A worker that panicked has said so, and nobody waits for what it did.
            let _ = handle.join();
        }
        if self.shared.lock().handed_over { End::HandedOver } else { End::Unmounted }
    }

    /// Begins no request any more, and waits until those that have begun are answered, but not longer than `patience`. Whether they
    /// all are. This process has to end then, for another to take over: also if they are not.
    #[must_use]
    pub fn hand_over(&self, patience: Duration) -> bool {
        let began = Instant::now();
        let mut workers = self.shared.lock();
        workers.handed_over = true;
        loop {
            if workers.all == workers.idle {
                return true;
            }
            let Some(left) = patience.checked_sub(began.elapsed()) else { return false };
            let waited = self.shared.ended_one.wait_timeout(workers, left);
            workers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A worker's memory, for one request and its answer.
struct Memory {
    request: Locked,
    answer: Locked,
}

impl Memory {
    fn new() -> io::Result<Self> {
        Ok(Self { request: Locked::new(DATA_MAX + HEADERS_MAX)?, answer: Locked::new(DATA_MAX + HEADERS_MAX)? })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a worker, which makes its own memory unless it is given some.
    fn add_worker(self: &Arc<Self>, memory: Option<Memory>) -> io::Result<()> {
        let mut workers = self.lock();
        let shared = Arc::clone(self);
        let handle = thread::Builder::new().name("fuse".into()).spawn(move || {
            if let Some(memory) = memory.or_else(|| Memory::new().ok()) {
                shared.work(memory);
            } else {
                shared.lock().idle -= 1;
            }
            shared.leave();
        })?;
        workers.all += 1;
        workers.idle += 1;
        workers.handles.retain(|handle| !handle.is_finished());
        workers.handles.push(handle);
        Ok(())
    }

    /// One worker's life.
    fn work(self: &Arc<Self>, mut memory: Memory) {
        while let Some(length) = self.next_request(&mut memory.request) {
            if !self.took_one() {
                return;
            }
            self.answer(&mut memory, length);
            let mut workers = self.lock();
            if workers.handed_over {
                return;
            }
            if workers.idle >= self.keep.max(IDLE_MAX) {
                return;
            }
            workers.idle += 1;
        }
        let mut workers = self.lock();
        workers.ended = true;
        workers.idle -= 1;
    }

    fn leave(&self) {
        let last = {
            let mut workers = self.lock();
            workers.all -= 1;
            self.ended_one.notify_all();
            workers.ended && workers.all == 0
        };
        if last {
            // With the mount went the kernel's references, of which it does not tell.
            self.notifier.stop();
            self.files.end();
        }
    }

    /// Reads the next request, and tells its length. `None` when the mount is gone.
    fn next_request(&self, into: &mut Locked) -> Option<usize> {
        loop {
            match rustix::io::read(&*self.device, &mut into[..]) {
                Ok(0) => return None,
                Ok(length) => return Some(length),
                // ENOENT: the request was taken back while it was being read.
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                // ENODEV: unmounted. Anything else: the kernel has given the connection up.
                Err(_) => return None,
            }
        }
    }

    /// Keeps invariant 6. False: the mount is handed over, and the request is the successor's.
    fn took_one(self: &Arc<Self>) -> bool {
        let add = {
            let mut workers = self.lock();
            workers.idle -= 1;
            if workers.handed_over {
                return false;
            }
            workers.idle == 0 && workers.all < WORKERS_MAX && !workers.ended
        };
        if add {
            // Without memory or threads, those there are must do: the next request waits a little.
            let _ = self.add_worker(None);
        }
        true
    }

    fn answer(&self, memory: &mut Memory, length: usize) {
        let device = self.device.as_raw_fd();
        let Some(header) = Header::parse(&memory.request[..length]) else { return };
        if header.opcode == handshake::INIT {
            let reply = handshake::answer(&memory.request[..length], &header);
            let _ = rustix::io::write(&*self.device, &reply);
            return;
        }
        let _current = Current::new(header);
        let handled = Reader::<()>::from_fuse_buffer(FuseBuf::new(&mut memory.request[..length]))
            .and_then(|request| Ok((request, FuseDevWriter::<()>::new(device, &mut memory.answer[..])?)))
            .map_err(|error| error.to_string())
            .and_then(|(request, answer)| {
                self.server.handle_message(request, answer.into(), None, None).map_err(|error| error.to_string())
            });
        // Invariant 2. If an answer was sent after all, the kernel knows no such request any more and says so.
        if handled.is_err() && header.wants_answer() {
            let _ = rustix::io::write(&*self.device, &header.error(libc::EIO));
        }
    }
}
