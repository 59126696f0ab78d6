//! The FUSE front end: a disk group as a directory that every program can use.
//!
//! ```text
//!   program --system call--> kernel --/dev/fuse--> workers.rs,   --> inline.rs,    --> Session
//!                              ^                   multiplex.rs      filesystem.rs
//!                              +-- watcher.rs: invalidates the kernel's caches <-- other sessions
//! ```
//!
//! 1. The caller mounts (`mount.rs`) and keeps a duplicate of the device: while one is open, the
//!    mount lives.
//! 2. [`FrontEnd::serve`] starts workers. One of them reads at a time (`workers.rs`).
//! 3. After `umount` the kernel answers a read with ENODEV. The last worker that leaves gives all
//!    references back to the engine.
//!
//! If the process of a front end is killed, its mount waits. Another process that has the device
//! takes the mount over ([`FrontEnd::take_over`]). It first asks the kernel to send again each
//! request that was read and not answered, and to look up again each name that it has cached:
//! invalidations that the killed process had not sent are lost. A front end that hands over on
//! purpose ([`FrontEnd::hand_over`]) answers the requests that it has begun. It drops those that
//! its workers read after that; the kernel sends them again. So this process has no state that a
//! successor needs.
//!
//! Invariants:
//!
//!   1. A node id is a file's number in the group, and its generation is the file's. A handle is a
//!      constant that says how the kernel moves the data. Neither refers to memory of this process.
//!   2. Every request that wants an answer gets one, even a malformed one: a program that waits for
//!      an answer cannot be killed.
//!   3. The memory that requests are read into and answered from is locked, and its pages exist. A
//!      page fault inside the kernel's copy, in a process that is being killed, would end the
//!      request with EIO.
//!   4. A request never waits for a notification to the kernel (see watcher.rs).
//!   5. A successor asks for unanswered requests before it reads its first request; the process of
//!      its predecessor has ended by then.
//!   6. While requests wait (for disks, for space, for voters), a worker reads the next one: writes
//!      that must wait do not stop reads (`workers.rs`).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod filesystem;
mod handshake;
mod inline;
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

use filesystem::GroupFileSystem;
use handshake::Header;
use plinth_engine::{api::Watcher, files::session::Session};
use plinth_frontend::Runner;
use request::Memory;
use std::{io, os::fd::OwnedFd, sync::Arc, time::Duration};
use watcher::Notifier;
use workers::Shared;

/// Workers at one time, at most. Each has 4 MiB of locked memory, beside its requests in flight. If
/// more requests than this wait at the same time, the group has stopped.
pub const WORKERS_MAX: usize = 128;

/// Bytes of data in one request, at most: the kernel's default limit of 256 pages.
pub(crate) const DATA_MAX: usize = 1 << 20;

/// A mount that is served. Dropping this value changes nothing: the mount is served until it is
/// unmounted.
pub struct FrontEnd {
    shared: Arc<Shared>,
}

/// Notifications without content.
const RESEND: i32 = 7;
const INCREASE_EPOCH: i32 = 8;

fn notify(device: &OwnedFd, code: i32) -> io::Result<()> {
    // A notification is an answer to request 0, with its code in place of the error.
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
    /// Serves `device`, on which a mount was made, until it is unmounted. `session` makes the
    /// session of the group, given the watcher that is to be notified of changes; `runner` runs the
    /// engine's futures; `threads` workers are started.
    ///
    /// # Errors
    /// If memory cannot be locked, or no thread can be started. The device was not read then.
    pub fn serve(
        device: OwnedFd,
        session: impl FnOnce(Arc<dyn Watcher>) -> Session,
        runner: Arc<dyn Runner>,
        threads: usize,
    ) -> io::Result<Self> {
        Self::start(device, session, runner, threads, false)
    }

    /// As [`Self::serve`], for a device whose former process has ended.
    ///
    /// # Errors
    /// As [`Self::serve`]; if the kernel is older than Linux 6.9, or the mount is gone. Another
    /// process may try again then.
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
        // The worker that reads waits for disks at the same time. No other process reads by now.
        rustix::fs::fcntl_setfl(
            &device,
            rustix::fs::fcntl_getfl(&device)? | rustix::fs::OFlags::NONBLOCK,
        )?;
        let device = Arc::new(device);
        let notifier = Notifier::start(Arc::clone(&device))?;
        if takes_over {
            notify(&device, RESEND).inspect_err(|_| notifier.stop())?;
            // Before Linux 6.16 the kernel refuses this, and trusts cached names until they expire.
            let _ = notify(&device, INCREASE_EPOCH);
        }
        let files =
            Arc::new(GroupFileSystem::new(session(notifier.watcher()), Arc::clone(&runner)));
        let weak = Arc::downgrade(&files);
        notifier.on_not_held(Box::new(move |node| {
            weak.upgrade().into_iter().for_each(|files| files.release_reference(node))
        }));
        let shared = Arc::new(Shared::new(files, runner, device, notifier, memories));
        for _ in 0..threads {
            if let Err(error) = shared.add_worker() {
                // One worker is enough: it starts others when it needs them.
                if !shared.has_workers() {
                    shared.notifier.stop();
                    return Err(error);
                }
            }
        }
        Ok(Self { shared })
    }

    /// Waits until the mount is unmounted, its last request answered and its session ended; or,
    /// after a hand-over, until no worker is left.
    pub fn join(&self) -> End {
        self.shared.join();
        if self.shared.is_handed_over() { End::HandedOver } else { End::Unmounted }
    }

    /// Begins no more requests, and waits until those in flight are answered, but not longer than
    /// `timeout`. Whether all are answered. In both cases this process has to end then: only after
    /// that another one can take over.
    #[must_use]
    pub fn hand_over(&self, timeout: Duration) -> bool {
        self.shared.hand_over(timeout)
    }
}
