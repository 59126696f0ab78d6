//! I/O by blocking threads: where the kernel refuses io_uring, and for calls that a ring does not
//! offer.
//!
//! Each disk has a pool of its own, so that a disk that hangs blocks only its own threads. Its
//! threads have a file table of their own that contains only the disk (`apart.rs`), so that a
//! thread that hangs keeps only this disk when the process is killed (R1), not the others, nor the
//! process's locks and sockets. A thread starts when there is work and no idle thread, up to
//! [`THREADS_MAX`], and one in advance, as each may hang. Threads end when the pool is dropped and
//! its queue is empty; the last one closes the file.
//!
//! ```text
//!   submit --> queue --> threads of the pool, apart: the system call
//!                          --> finisher, in the main table: wakes the waiter
//! ```

use super::{apart, op::Op, timeout::no_answer};
use std::{
    collections::VecDeque,
    fmt,
    fs::File,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Enough to keep a solid-state disk busy, few enough for a hundred disks.
const THREADS_MAX: usize = 8;

/// How long dropping a pool without work waits for its end: then a caller that dropped a disk finds
/// it free.
const END_TIMEOUT: Duration = Duration::from_millis(200);

pub(super) struct Pool(Arc<Shared>);

enum Job {
    Io(Op),
    /// A call on the file itself. It owns no descriptor, and sends its answer on a channel.
    Call(Box<dyn FnOnce(&File) + Send>),
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    ended: Condvar,
    finisher: mpsc::Sender<(Op, io::Result<()>)>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Pool {
    /// A pool that has a duplicate of `file`.
    ///
    /// # Errors
    /// If its first thread cannot be started.
    pub(super) fn start(file: &File) -> io::Result<Self> {
        let (finisher, finished) = mpsc::channel::<(Op, io::Result<()>)>();
        let shared = Arc::new(Shared {
            state: Mutex::new(State { threads: 1, ..State::default() }),
            work: Condvar::new(),
            ended: Condvar::new(),
            finisher,
        });
        let finish = move || finished.into_iter().for_each(|(op, result)| op.finish(result));
        thread::Builder::new().name("disk-done".into()).spawn(finish)?;
        let serving = Arc::clone(&shared);
        apart::start("disk-io", file, move |file| serving.serve(Arc::new(file)))?;
        Ok(Self(shared))
    }

    /// Queues an operation.
    pub(super) fn submit(&self, op: Op) {
        self.queue(Job::Io(op));
    }

    /// Runs a function on the file in a thread of the pool, and waits for the result.
    ///
    /// # Errors
    /// `TimedOut` if there is none within `timeout`.
    pub(super) fn call<T: Send + 'static>(
        &self,
        timeout: Duration,
        what: impl FnOnce(&File) -> T + Send + 'static,
    ) -> io::Result<T> {
        let (tell, told) = mpsc::channel();
        self.queue(Job::Call(Box::new(move |file| drop(tell.send(what(file))))));
        told.recv_timeout(timeout).map_err(|_| no_answer(timeout))
    }

    fn queue(&self, job: Job) {
        self.0.lock().queue.push_back(job);
        self.0.work.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(self: &Arc<Self>, file: Arc<File>) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                // This job may hang: there must be another thread for the next one. It is started
                // here, so that it shares this file table.
                let more = state.idle == 0 && state.threads < THREADS_MAX;
                state.threads += usize::from(more);
                drop(state);
                if more {
                    let (shared, file) = (Arc::clone(self), Arc::clone(&file));
                    let started = thread::Builder::new()
                        .name("disk-io".into())
                        .spawn(move || shared.serve(file));
                    if started.is_err() {
                        // The existing threads will carry it out.
                        self.lock().threads -= 1;
                    }
                }
                match job {
                    Job::Io(mut op) => {
                        let result = op.carry_out(&file);
                        // This can fail and drop the operation here only when no caller waits any
                        // more: the finisher ends after this pool.
                        let _ = self.finisher.send((op, result));
                    }
                    Job::Call(what) => what(&file),
                }
                state = self.lock();
            } else if state.closed {
                break;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
        drop(state);
        // Closes the file, if this was the last thread.
        drop(file);
        self.lock().threads -= 1;
        self.ended.notify_all();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let deadline = Instant::now() + END_TIMEOUT;
        let mut state = self.0.lock();
        state.closed = true;
        self.0.work.notify_all();
        // A busy thread ends when its I/O has landed (R1): that is not waited for here.
        let none_works = state.threads == state.idle;
        while none_works && state.threads > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state =
                self.0.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} threads)", self.0.lock().threads)
    }
}

/// Carries out operations that a ring left, on a thread of their own.
pub(super) fn run_aside(ops: Vec<Op>) {
    if ops.is_empty() {
        return;
    }
    let work = move || ops.into_iter().for_each(Op::run);
    // Without a thread the operations are dropped with the closure: no caller waits for them, see
    // `reaper`.
    drop(thread::Builder::new().name("disk-io".into()).spawn(work));
}
