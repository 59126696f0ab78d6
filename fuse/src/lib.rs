//! The FUSE front end: a disk group as a directory that every program can use.
//!
//! ```text
//!   programs --system calls--> kernel --/dev/fuse--> workers.rs, multiplex.rs --> inline.rs, filesystem.rs --> Session
//!                                 ^
//!                                 +---- watcher.rs: "forget what you cached" <-- changes made by others
//! ```
//!
//! 1. The caller mounts (`mount.rs`) and keeps a duplicate of the device: while one is open, the mount lives.
//! 2. [`FrontEnd::serve`] starts workers. One of them reads at a time (`workers.rs`).
//! 3. `umount` makes the kernel answer ENODEV to that one. The last one to leave gives back all references.
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
//!   3. The memory that requests are read into and answered from is there before, and locked. A page fault inside the kernel's copy, in a
//!      process that is being killed, would end the request with EIO.
//!   4. A request never waits for a notification to the kernel (see watcher.rs).
//!   5. A successor asks for what was not answered before it reads its first request; its predecessor's process is gone by then.
//!   6. While requests wait (for disks, for space, for voters), there is always one that reads the next: writes that must wait do not
//!      stop reads (`workers.rs`).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod filesystem;
mod handshake;
mod inline;
#[cfg(test)]
mod memory;
mod mlock;
pub mod mount;
mod multiplex;
mod options;
mod references;
mod request;
#[cfg(test)]
mod tests;
mod watcher;
mod workers;

use filesystem::Files;
use handshake::Header;
#[cfg(test)]
use memory::Session;
use plinth_engine::api::Watcher;
#[cfg(not(test))]
use plinth_engine::files::session::Session;
use request::Memory;
use std::{future::Future, io, os::fd::OwnedFd, pin::Pin, sync::Arc, time::Duration};
use watcher::Notifier;
use workers::Shared;

/// What a front end needs of its process.
pub trait Runner: Send + Sync {
    /// Runs a task to its end on the calling thread.
    fn block_on(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>);

    /// Waits, in a task that this thread runs, until there is something to read from the device, or for no reason. `None`: it cannot.
    fn readable(&self, device: &Arc<OwnedFd>) -> Option<Waiting>;
}

pub type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Most workers at one time. Each has 4 MiB of locked memory, and what is under way there; more than this many requests that all wait is a group
/// that has stopped.
pub const WORKERS_MAX: usize = 128;

/// The most data in one request, in bytes: what the kernel's default limit of 256 pages allows.
pub(crate) const DATA_MAX: usize = 1 << 20;
/// A mount that is being served. Dropping it changes nothing: the mount is served until it is unmounted.
pub struct FrontEnd {
    shared: Arc<Shared>,
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
    /// given who wants to hear of changes; `runner` runs what the group is asked for; `threads` workers are kept
    /// ready.
    ///
    /// # Errors
    /// If memory cannot be locked or no thread can be started. Nothing was read from the device then.
    pub fn serve(
        device: OwnedFd,
        session: impl FnOnce(Arc<dyn Watcher>) -> Session,
        runner: Arc<dyn Runner>,
        threads: usize,
    ) -> io::Result<Self> {
        Self::start(device, session, runner, threads, false)
    }

    /// As [`Self::serve`], of a device that a process served that is gone.
    ///
    /// # Errors
    /// As [`Self::serve`]; if the kernel is older than Linux 6.9, or the mount is gone. Another may try again then.
    pub fn take_over(
        device: OwnedFd,
        session: impl FnOnce(Arc<dyn Watcher>) -> Session,
        runner: Arc<dyn Runner>,
        threads: usize,
    ) -> io::Result<Self> {
        Self::start(device, session, runner, threads, true)
    }

    fn start(
        device: OwnedFd,
        session: impl FnOnce(Arc<dyn Watcher>) -> Session,
        runner: Arc<dyn Runner>,
        threads: usize,
        takes_over: bool,
    ) -> io::Result<Self> {
        let threads = threads.clamp(1, WORKERS_MAX);
        plinth_engine::sync::transfer::touch_zeros();
        let memories = (0..threads).map(|_| Memory::new()).collect::<io::Result<Vec<_>>>()?;
        // Who reads also waits for disks meanwhile. The engine before this one is gone.
        rustix::fs::fcntl_setfl(
            &device,
            rustix::fs::fcntl_getfl(&device)? | rustix::fs::OFlags::NONBLOCK,
        )?;
        let device = Arc::new(device);
        let notifier = Notifier::start(Arc::clone(&device))?;
        if takes_over {
            notify(&device, RESEND).inspect_err(|_| notifier.stop())?;
            // A kernel that does not know it (before Linux 6.16) believes names for as long as it was told to.
            let _ = notify(&device, INCREASE_EPOCH);
        }
        let files = Arc::new(Files::new(session(notifier.watcher()), Arc::clone(&runner)));
        let asked = Arc::downgrade(&files);
        notifier.tell(Box::new(move |node| {
            asked.upgrade().into_iter().for_each(|files| files.release_reference(node))
        }));
        let shared = Arc::new(Shared::new(files, runner, device, notifier, memories));
        for _ in 0..threads {
            if let Err(error) = shared.add_worker() {
                // One is enough to go on with: it adds others as it needs them.
                if !shared.has_workers() {
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
        self.shared.join();
        if self.shared.is_handed_over() { End::HandedOver } else { End::Unmounted }
    }

    /// Begins no request any more, and waits until those that have begun are answered, but not longer than `patience`. Whether they
    /// all are. This process has to end then, for another to take over: also if they are not.
    #[must_use]
    pub fn hand_over(&self, patience: Duration) -> bool {
        self.shared.hand_over(patience)
    }
}
