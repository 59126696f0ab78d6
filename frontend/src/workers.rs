//! Worker threads that share one source of requests: leader and followers.
//!
//! The source is a FUSE device or the socket of a client. One worker at a time has the *reader
//! role*, a token of type `R`: it reads requests. A request that may wait for long is carried out
//! by a thread that does not read meanwhile: the reader passes the role to another worker, or it
//! keeps the role and gives the request to another worker, as a *job* of type `J`.
//!
//! ```text
//!                    +------------- reader role -------------+
//!                    v                                       |
//!   waits ----> reads; carries out small requests ----> passes the role ----> completes its own
//!     |                                                                            |
//!     +-------> carries out a job ----------------------> waits, or ends <---------+
//! ```
//!
//! So a client that sends one request after another is served by one thread, and no other thread is
//! woken; and requests that wait do not stop the reading.
//!
//! A worker that passes the role wakes one that waits. If none waits, another worker is started; if
//! none can be, the role is taken by the first worker that has completed what it does.
//!
//! A protocol can keep more state under the same lock: `own`. A worker that keeps the
//! role takes no lock.
//!
//! Invariants:
//!
//!   1. A role or a job that is given has a waiting worker that was woken for it, or a new worker,
//!      or every worker is busy and no other can be started.
//!   2. After [`Workers::stop`] no worker gets the role. A job that was given before is carried
//!      out.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The next duty of a worker.
#[derive(Debug)]
pub enum Duty<R, J> {
    Read(R),
    Job(J),
    /// The thread is to end: nothing is read any more, or enough other workers wait.
    Leave,
}

/// The state that the workers share under one lock.
#[derive(Debug)]
pub struct State<R, J, S> {
    /// The reader role, while no worker has it.
    reader: Option<R>,
    job: Option<J>,
    /// Workers that were started and have not left.
    all: usize,
    /// Of them, those that wait for a duty.
    waiting: usize,
    stopped: bool,
    /// The state of the protocol.
    pub own: S,
}

impl<R, J, S> State<R, J, S> {
    /// Workers that were started and have not left.
    pub fn workers(&self) -> usize {
        self.all
    }

    /// Whether a job was given that no worker has taken yet: there is room for one.
    pub fn has_job(&self) -> bool {
        self.job.is_some()
    }

    fn duties(&self) -> usize {
        usize::from(self.reader.is_some()) + usize::from(self.job.is_some())
    }
}

/// See the module's description.
#[derive(Debug)]
pub struct Workers<R, J, S> {
    state: Mutex<State<R, J, S>>,
    /// There is a duty for a worker that waits, or all are to leave.
    has_duty: Condvar,
    /// Workers, at most.
    workers_max: usize,
    /// Waiting workers that are kept, at most.
    waiting_max: usize,
}

impl<R, J, S> Workers<R, J, S> {
    /// With `workers` that the caller starts, and no reader role to be had if `reader` is `None`.
    pub fn new(
        reader: Option<R>,
        own: S,
        workers: usize,
        workers_max: usize,
        waiting_max: usize,
    ) -> Self {
        let state = State { reader, job: None, all: workers, waiting: 0, stopped: false, own };
        Self { state: Mutex::new(state), has_duty: Condvar::new(), workers_max, waiting_max }
    }

    pub fn lock(&self) -> MutexGuard<'_, State<R, J, S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next duty: a job before the reader role. `prepare` makes what a reader needs,
    /// and is called with the lock held; while it returns `None` the role stays free.
    pub fn next<T>(&self, mut prepare: impl FnMut(&mut S) -> Option<T>) -> Duty<(R, T), J> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.job.take() {
                return Duty::Job(job);
            }
            if state.stopped {
                return Duty::Leave;
            }
            if state.reader.is_some()
                && let Some(prepared) = prepare(&mut state.own)
                && let Some(reader) = state.reader.take()
            {
                return Duty::Read((reader, prepared));
            }
            if state.waiting >= self.waiting_max {
                return Duty::Leave;
            }
            state.waiting += 1;
            state = self.has_duty.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Starts a worker if there may be one more: `start` says whether it has started a thread.
    /// Whether it did.
    pub fn start(&self, state: &mut State<R, J, S>, start: impl FnOnce(&mut S) -> bool) -> bool {
        let starts = state.all < self.workers_max && start(&mut state.own);
        state.all += usize::from(starts);
        starts
    }

    /// Finds a worker for a duty that was just added (invariant 1). `false`: none waits, and none
    /// can be started.
    fn find_worker(&self, state: &mut State<R, J, S>, start: impl FnOnce(&mut S) -> bool) -> bool {
        if state.waiting >= state.duties() {
            self.has_duty.notify_one();
            return true;
        }
        self.start(state, start)
    }

    /// Passes the reader role on. `start` starts a worker if none waits for the role.
    pub fn pass(&self, reader: R, start: impl FnOnce(&mut S) -> bool) {
        let mut state = self.lock();
        state.reader = Some(reader);
        if !state.stopped {
            self.find_worker(&mut state, start);
        }
    }

    /// Gives a job to another worker, where [`State::has_job`] says that there is none yet.
    ///
    /// # Errors
    /// The job, if no worker waits for it and none can be started.
    pub fn give_job(
        &self,
        state: &mut State<R, J, S>,
        job: J,
        start: impl FnOnce(&mut S) -> bool,
    ) -> Result<(), J> {
        state.job = Some(job);
        if self.find_worker(state, start) { Ok(()) } else { state.job.take().map_or(Ok(()), Err) }
    }

    /// No worker gets the reader role any more: those that wait leave.
    pub fn stop(&self, state: &mut State<R, J, S>) {
        state.stopped = true;
        self.has_duty.notify_all();
    }

    /// A worker's thread ends. Whether it was the last.
    pub fn leave(&self, state: &mut State<R, J, S>) -> bool {
        state.all -= 1;
        state.all == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
    };

    /// Numbers that are read one after the other; every third one is given to another worker as a
    /// job, and every third one is carried out after the role was passed.
    struct Numbers {
        workers: Workers<u32, u32, Vec<thread::JoinHandle<()>>>,
        done: Mutex<Vec<u32>>,
        readers: AtomicUsize,
    }

    const END: u32 = 3000;

    impl Numbers {
        fn spawn(self: &Arc<Self>, handles: &mut Vec<thread::JoinHandle<()>>) -> bool {
            let ours = Arc::clone(self);
            handles.push(thread::spawn(move || ours.work()));
            true
        }

        fn work(self: &Arc<Self>) {
            loop {
                match self.workers.next(|_| Some(())) {
                    Duty::Leave => break,
                    Duty::Job(number) => self.done.lock().unwrap().push(number),
                    Duty::Read((next, ())) => self.read(next),
                }
            }
            self.workers.leave(&mut self.workers.lock());
        }

        fn read(self: &Arc<Self>, mut next: u32) {
            assert_eq!(self.readers.fetch_add(1, Ordering::SeqCst), 0, "two workers read");
            loop {
                let number = next;
                if number == END {
                    self.readers.fetch_sub(1, Ordering::SeqCst);
                    return self.workers.stop(&mut self.workers.lock());
                }
                next += 1;
                if number.is_multiple_of(3) {
                    self.readers.fetch_sub(1, Ordering::SeqCst);
                    self.workers.pass(next, |handles| self.spawn(handles));
                    return self.done.lock().unwrap().push(number);
                }
                let mut state = self.workers.lock();
                if number % 3 == 1 && !state.has_job() {
                    let given =
                        self.workers.give_job(&mut state, number, |handles| self.spawn(handles));
                    assert_eq!(given.err().unwrap_or(number), number);
                    if given.is_ok() {
                        continue;
                    }
                }
                drop(state);
                self.done.lock().unwrap().push(number);
            }
        }
    }

    /// One worker reads at a time, each number is carried out once, and all workers leave.
    #[test]
    fn one_worker_reads_and_every_request_is_carried_out_once() {
        for (workers_max, waiting_max) in [(1, 0), (2, 1), (8, 2), (8, 8)] {
            let numbers = Arc::new(Numbers {
                workers: Workers::new(Some(0), Vec::new(), 0, workers_max, waiting_max),
                done: Mutex::default(),
                readers: AtomicUsize::new(0),
            });
            numbers.workers.start(&mut numbers.workers.lock(), |handles| numbers.spawn(handles));
            while let Some(handle) = { numbers.workers.lock().own.pop() } {
                handle.join().unwrap();
            }
            let mut done = std::mem::take(&mut *numbers.done.lock().unwrap());
            done.sort_unstable();
            assert_eq!(done, (0..END).collect::<Vec<_>>(), "{workers_max} {waiting_max}");
            assert_eq!(numbers.workers.lock().workers(), 0);
        }
    }

    #[test]
    fn a_job_is_returned_if_no_worker_can_take_it() {
        let workers: Workers<(), u32, ()> = Workers::new(None, (), 1, 2, 4);
        let mut state = workers.lock();
        assert_eq!(workers.give_job(&mut state, 7, |()| false), Err(7));
        assert!(!state.has_job());
        assert_eq!(workers.give_job(&mut state, 7, |()| true), Ok(()));
        assert_eq!((state.has_job(), state.workers()), (true, 2));
    }

    #[test]
    fn a_role_without_memory_stays_free() {
        let workers: Workers<u32, (), u32> = Workers::new(Some(5), 0, 1, 1, 0);
        assert!(matches!(workers.next(|_| None::<()>), Duty::Leave));
        let prepared = workers.next(|own| {
            *own += 1;
            Some(*own)
        });
        assert!(matches!(prepared, Duty::Read((5, 1))));
    }

    #[test]
    fn a_job_that_was_given_before_the_stop_is_carried_out() {
        let workers: Workers<(), u32, ()> = Workers::new(Some(()), (), 1, 2, 4);
        let mut state = workers.lock();
        assert_eq!(workers.give_job(&mut state, 7, |()| true), Ok(()));
        workers.stop(&mut state);
        drop(state);
        assert!(matches!(workers.next(|()| Some(())), Duty::Job(7)));
        assert!(matches!(workers.next(|()| Some(())), Duty::Leave));
    }
}
