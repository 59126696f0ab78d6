//! The parts of NBD connections that outlive this process, and the process that receives them:
//! their sockets, and the memory that records the progress of each (`nbd/`).
//!
//! A listener is sent all present connections, and then each new one before any request of it is
//! carried out. So whenever this process dies, the descriptors are in the listener already, or in
//! its socket.

use super::protocol::Answer;
use plinth_host::ipc::Frames;
use plinth_nbd::Keeper;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{
    collections::BTreeMap,
    io,
    net::Shutdown,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long a client waits for a listener that does not read. After that the client is served all
/// the same, and the listener has to connect again.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Inner {
    /// Memory and socket.
    connections: BTreeMap<u64, (OwnedFd, OwnedFd)>,
    listeners: Vec<Frames>,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Keeping(Mutex<Inner>);

impl Inner {
    fn tell(&mut self, tell: impl Fn(&Frames) -> io::Result<()>) {
        self.listeners.retain(|listener| {
            let told = tell(listener).is_ok();
            if !told {
                let _ = listener.stream().shutdown(Shutdown::Both);
            }
            told
        });
    }
}

fn tell(
    listener: &Frames,
    id: u64,
    (memory, socket): (BorrowedFd<'_>, BorrowedFd<'_>),
) -> io::Result<()> {
    listener.send_with(&Answer::Kept { id }, &[], &[memory, socket])
}

impl Keeping {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends all present connections, and from then on each new one. Returns when the listener is
    /// gone.
    pub fn listen(&self, frames: &Frames) -> io::Result<()> {
        {
            let mut inner = self.lock();
            let listener = frames.duplicate()?;
            listener.stream().set_write_timeout(Some(WRITE_TIMEOUT))?;
            for (id, (memory, socket)) in &inner.connections {
                tell(&listener, *id, (memory.as_fd(), socket.as_fd()))?;
            }
            inner.listeners.push(listener);
        }
        // The listener sends nothing: this waits for its end. It is removed from the list when a
        // message to it fails.
        while frames.receive::<super::protocol::Request>()?.is_some() {}
        Ok(())
    }

    pub fn has(&self, id: u64) -> bool {
        self.lock().connections.contains_key(&id)
    }
}

impl Keeper for Keeping {
    fn keep(&self, id: u64, memory: BorrowedFd<'_>, socket: BorrowedFd<'_>) {
        let mut inner = self.lock();
        // Without descriptors to spare the connection is served, and not kept.
        let (Ok(kept), Ok(kept_socket)) =
            (memory.try_clone_to_owned(), socket.try_clone_to_owned())
        else {
            return;
        };
        inner.connections.insert(id, (kept, kept_socket));
        inner.tell(|listener| tell(listener, id, (memory, socket)));
    }

    fn forget(&self, id: u64) {
        let mut inner = self.lock();
        if inner.connections.remove(&id).is_some() {
            inner.tell(|listener| listener.send(&Answer::Ended { id }, &[], None));
        }
    }
}
