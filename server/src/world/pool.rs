//! I/O by blocking threads: where the kernel refuses io_uring, and for what a
//! ring cannot do.
//!
//! Each disk has a pool of its own, so that a disk that hangs takes its own
//! threads with it and nobody else's. Threads start when work finds none idle, up
//! to [`THREADS_MAX`], and end when the disk is dropped and its queue is empty. A
//! thread holds a share of the file only while it works on an operation (R1).

use super::op::Op;
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// Enough to keep a solid-state disk busy, few enough for a hundred disks.
const THREADS_MAX: usize = 8;

#[derive(Default)]
pub(super) struct Pool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Op>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Pool {
    /// Queues an operation.
    pub(super) fn start(&self, op: Op) {
        let mut state = self.0.lock();
        state.queue.push_back(op);
        if state.idle >= state.queue.len() || state.threads == THREADS_MAX {
            drop(state);
            self.0.work.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = Arc::clone(&self.0);
        if thread::Builder::new().name("disk-io".into()).spawn(move || shared.serve()).is_err() {
            let mut state = self.0.lock();
            state.threads -= 1;
            // No thread to be had: with none at all the caller does it, else the others will.
            let op = if state.threads == 0 { state.queue.pop_back() } else { None };
            drop(state);
            if let Some(op) = op {
                op.run();
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(op) = state.queue.pop_front() {
                drop(state);
                op.run();
                state = self.lock();
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_all();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} threads)", self.0.lock().threads)
    }
}

/// Does operations that no ring will do any more, on a thread of their own.
pub(super) fn run_aside(ops: Vec<Op>) {
    if ops.is_empty() {
        return;
    }
    let work = move || ops.into_iter().for_each(Op::run);
    // Without a thread the operations are dropped with the closure: nobody waits for them, see `reaper`.
    drop(thread::Builder::new().name("disk-io".into()).spawn(work));
}
