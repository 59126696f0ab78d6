//! Waiting for a socket on a thread that waits for its disks as well: [`readable`].
//!
//! ```text
//!   readable --> ring: one poll --> readable, or closed by the other side
//!                                     --> fired, and the waiter is woken
//! ```
//!
//! A poll whose waiter is gone stays in the ring until it fires, or until its thread has no future
//! to run any more: it takes a slot there, and wakes no thread.

use super::executor;
use futures::task::AtomicWaker;
use io_uring::{opcode, squeue, types};
use std::{
    future::Future,
    os::fd::{AsRawFd, OwnedFd},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

#[derive(Default)]
struct State {
    fired: AtomicBool,
    waker: AtomicWaker,
}

/// A watch as the ring has it.
pub(super) struct Watch {
    descriptor: Arc<OwnedFd>,
    state: Arc<State>,
}

impl Watch {
    pub(super) fn entry(&self) -> squeue::Entry {
        opcode::PollAdd::new(types::Fd(self.descriptor.as_raw_fd()), libc::POLLIN as u32).build()
    }

    pub(super) fn fire(self) {
        self.state.fired.store(true, Ordering::Release);
        self.state.waker.wake();
    }
}

/// Ends when there is or was something to read. See [`readable`].
pub struct Readable(Arc<State>);

/// Waits, inside [`block_on`](super::block_on), until there is something to read from a socket or
/// it has been closed; it may end for no reason. `None` if this thread cannot wait for sockets and
/// disks at the same time.
#[must_use]
pub fn readable(descriptor: &Arc<OwnedFd>) -> Option<Readable> {
    let state = Arc::<State>::default();
    let watch = Watch { descriptor: Arc::clone(descriptor), state: Arc::clone(&state) };
    executor::watch(watch).then_some(Readable(state))
}

impl Future for Readable {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.waker.register(context.waker());
        if self.0.fired.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}
