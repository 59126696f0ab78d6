//! Takes over rings that their threads left with I/O in flight.
//!
//! That happens when a caller stopped waiting: a disk hangs, its deadline is over, and the thread
//! goes on to sleep elsewhere, perhaps for hours, or ends. Its ring then comes here, so that the
//! I/O gives back its memory and its share of the file as soon as it has landed: a lock held a
//! moment longer would keep a disk that has come back from being claimed (R1).
//!
//! One thread per process polls all such rings. It does not submit; the rest of a short transfer
//! goes to a blocking thread.

use super::{pool, ring::Ring};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::{
    io,
    os::fd::OwnedFd,
    sync::{Mutex, OnceLock, PoisonError},
    thread,
};

struct Reaper {
    inbox: Mutex<Vec<Ring>>,
    bell: OwnedFd,
}

static REAPER: OnceLock<Reaper> = OnceLock::new();

/// Starts the thread, once per process. Rings may be given away only after that.
pub(super) fn start() -> io::Result<()> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if REAPER.get().is_none() {
        let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
        thread::Builder::new().name("ring-reaper".into()).spawn(|| REAPER.wait().serve())?;
        drop(REAPER.set(Reaper { inbox: Mutex::default(), bell }));
    }
    Ok(())
}

/// Gives a ring away. Its owner submits nothing to it any more.
pub(super) fn adopt(ring: Ring) {
    let reaper = REAPER.get().expect("a ring exists only after `start`");
    reaper.inbox.lock().unwrap_or_else(PoisonError::into_inner).push(ring);
    let _ = rustix::io::write(&reaper.bell, &1u64.to_ne_bytes());
}

impl Reaper {
    fn serve(&self) {
        let mut rings: Vec<Ring> = Vec::new();
        loop {
            rings.append(&mut self.inbox.lock().unwrap_or_else(PoisonError::into_inner));
            for ring in &mut rings {
                while let Some(ended) = ring.reap() {
                    ended.tell();
                }
                pool::run_aside(ring.take_backlog());
            }
            rings.retain(|ring| !ring.is_idle());
            let mut polled = vec![PollFd::new(&self.bell, PollFlags::IN)];
            polled.extend(
                rings.iter().map(|ring| PollFd::from_borrowed_fd(ring.descriptor(), PollFlags::IN)),
            );
            if poll(&mut polled, None).is_ok() && polled[0].revents().contains(PollFlags::IN) {
                let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
            }
        }
    }
}
