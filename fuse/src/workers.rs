//! The threads of a mount, and what each of them does.
//!
//! One has the *turn*: it reads what the kernel asks, and carries small requests out itself, many at a time (`multiplex.rs`). What else
//! comes it gives to one that waits, a *job*; or it carries that out itself, and gives the turn away if that has to wait.
//!
//! ```text
//!                 +--------------- turn ---------------+
//!                 v                                    |
//!   waits ----> has the turn: reads, pumps ---> pumps what it has begun ---> waits
//!     |                                                                        ^
//!     +-------> carries out a job ---------------------------------------------+
//! ```
//!
//! So a program that does one thing after another is served by one thread, which nobody wakes another for; and whoever has to wait
//! for disks, space or voters keeps nobody else from being read.
//!
//! Invariants:
//!
//!   1. While requests wait, there is one that reads the next, or at least one more that could, up to [`WORKERS_MAX`](crate::WORKERS_MAX).
//!   2. A turn or a job that is given has somebody who waits for it, or is started for it, unless there can be no more.
//!   3. Nothing is begun after the mount was handed over, and `idle` counts only who has nothing under way.

use crate::{
    DATA_MAX, Runner, WORKERS_MAX,
    filesystem::{BeforeWait, Current, Files},
    handshake, inline,
    multiplex::{self, UNDER_WAY_MAX},
    request::Memory,
    watcher::Notifier,
};
use fuse_backend_rs::{
    api::server::Server,
    transport::{FuseBuf, FuseDevWriter, Reader},
};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Idle workers that are kept at least: those that a burst brought serve the next one too.
const IDLE_MAX: usize = 16;

/// What a worker does next.
enum Duty {
    Turn(Memory),
    /// To carry out the request in it.
    Job(Memory),
    Leave,
}

#[derive(Default)]
struct Workers {
    all: usize,
    /// Those that have nothing under way.
    idle: usize,
    /// Those that wait for a duty.
    waiting: usize,
    /// Memory that nobody uses.
    spare: Vec<Memory>,
    turn_is_free: bool,
    job: Option<Memory>,
    /// The kernel ended the connection.
    ended: bool,
    handles: Vec<JoinHandle<()>>,
}

impl Workers {
    fn duties(&self) -> usize {
        usize::from(self.turn_is_free) + usize::from(self.job.is_some())
    }

    fn memory(&mut self) -> io::Result<Memory> {
        self.spare.pop().map_or_else(Memory::new, Ok)
    }
}

/// What the workers of a mount share.
pub(crate) struct Shared {
    pub files: Arc<Files>,
    pub runner: Arc<dyn Runner>,
    server: Server<Arc<Files>>,
    pub device: Arc<OwnedFd>,
    pub notifier: Notifier,
    /// Workers, and memories, that are kept although nobody needs them.
    keep: usize,
    /// So many small requests are under way on one thread before another reads: with 64 of them all processors have some.
    pub share: usize,
    workers: Mutex<Workers>,
    /// There is a duty for who waits.
    has_duty: Condvar,
    /// A worker has nothing under way any more.
    ended_one: Condvar,
    /// Another process is going to serve: no request is begun any more.
    handed_over: AtomicBool,
}

impl Shared {
    /// `memories` are the first ones; there will be as many workers.
    pub fn new(
        files: Arc<Files>,
        runner: Arc<dyn Runner>,
        device: Arc<OwnedFd>,
        notifier: Notifier,
        memories: Vec<Memory>,
    ) -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            server: Server::new(Arc::clone(&files)),
            files,
            runner,
            device,
            notifier,
            keep: memories.len().max(IDLE_MAX),
            share: (64 / processors).clamp(2, UNDER_WAY_MAX),
            workers: Mutex::new(Workers {
                turn_is_free: true,
                spare: memories,
                ..Workers::default()
            }),
            has_duty: Condvar::new(),
            ended_one: Condvar::new(),
            handed_over: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn has_workers(&self) -> bool {
        self.lock().all > 0
    }

    /// Whether no request may be begun any more.
    pub fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::SeqCst)
    }

    /// Waits for the end of one worker after the other, until there is none.
    pub fn join(&self) {
        while let Some(handle) = { self.lock().handles.pop() } {
            // A worker that panicked has said so, and nobody waits for what it did.
            let _ = handle.join();
        }
    }

    /// See [`FrontEnd::hand_over`](crate::FrontEnd::hand_over).
    pub fn hand_over(&self, patience: Duration) -> bool {
        let began = Instant::now();
        let mut workers = self.lock();
        self.handed_over.store(true, Ordering::SeqCst);
        self.has_duty.notify_all();
        loop {
            if workers.all == workers.idle {
                return true;
            }
            let Some(left) = patience.checked_sub(began.elapsed()) else { return false };
            let waited = self.ended_one.wait_timeout(workers, left);
            workers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub fn add_worker(self: &Arc<Self>) -> io::Result<()> {
        self.start_worker(&mut self.lock())
    }

    fn start_worker(self: &Arc<Self>, workers: &mut Workers) -> io::Result<()> {
        let shared = Arc::clone(self);
        let handle = thread::Builder::new().name("fuse".into()).spawn(move || {
            shared.work();
            shared.leave();
        })?;
        workers.all += 1;
        workers.idle += 1;
        workers.handles.retain(|handle| !handle.is_finished());
        workers.handles.push(handle);
        Ok(())
    }

    /// One worker's life.
    fn work(self: &Arc<Self>) {
        loop {
            let mut memory = match self.next_duty() {
                Duty::Turn(memory) => multiplex::take_turn(self, memory),
                Duty::Job(mut memory) => {
                    self.answer(&mut memory, None);
                    self.rest();
                    memory
                }
                Duty::Leave => return,
            };
            memory.rest();
            let mut workers = self.lock();
            if workers.spare.len() < self.keep {
                workers.spare.push(memory);
            }
        }
    }

    /// Waits for something to do.
    fn next_duty(&self) -> Duty {
        let mut workers = self.lock();
        loop {
            if let Some(memory) = workers.job.take() {
                return Duty::Job(memory);
            }
            if workers.ended || self.is_handed_over() {
                return Duty::Leave;
            }
            if workers.turn_is_free
                && let Ok(memory) = workers.memory()
            {
                workers.turn_is_free = false;
                return Duty::Turn(memory);
            }
            if workers.waiting >= self.keep {
                return Duty::Leave;
            }
            workers.waiting += 1;
            workers = self.has_duty.wait(workers).unwrap_or_else(PoisonError::into_inner);
            workers.waiting -= 1;
        }
    }

    /// Finds somebody for a duty that was just added (invariant 2). `false`: nobody waits, and nobody can be started.
    fn find_another(self: &Arc<Self>, workers: &mut Workers) -> bool {
        if workers.waiting >= workers.duties() {
            self.has_duty.notify_one();
            return true;
        }
        workers.all < WORKERS_MAX && self.start_worker(workers).is_ok()
    }

    /// Gives the turn to another. If nobody waits for it, it is for the first who has ended what it does.
    pub fn give_turn(self: &Arc<Self>) {
        let mut workers = self.lock();
        workers.turn_is_free = true;
        self.find_another(&mut workers);
    }

    /// Gives the request in `memory` to another, and other memory in its place. `false`: there is nobody who could carry it out.
    pub fn give_job(self: &Arc<Self>, memory: &mut Memory) -> bool {
        let mut workers = self.lock();
        if workers.job.is_some() {
            return false;
        }
        let Ok(next) = workers.memory() else { return false };
        workers.job = Some(std::mem::replace(memory, next));
        if self.find_another(&mut workers) {
            workers.idle -= 1;
            return true;
        }
        if let Some(request) = workers.job.take() {
            workers.spare.push(std::mem::replace(memory, request));
        }
        false
    }

    /// This worker has something under way from now on. `false`: nothing may be begun any more, what was read is the successor's.
    pub fn begin(&self) -> bool {
        let mut workers = self.lock();
        if self.is_handed_over() {
            return false;
        }
        workers.idle -= 1;
        true
    }

    /// This worker has nothing under way any more.
    pub fn rest(&self) {
        let mut workers = self.lock();
        workers.idle += 1;
        // Only a hand-over waits for that, and to wake nobody is a system call too.
        if self.is_handed_over() {
            self.ended_one.notify_all();
        }
    }

    /// The kernel has ended the connection.
    pub fn end(&self) {
        self.lock().ended = true;
        self.has_duty.notify_all();
    }

    fn leave(&self) {
        let last = {
            let mut workers = self.lock();
            workers.all -= 1;
            workers.idle -= 1;
            self.ended_one.notify_all();
            workers.ended && workers.all == 0
        };
        if last {
            // With the mount went the kernel's references, of which it does not tell.
            self.notifier.stop();
            self.files.end();
        }
    }

    /// Carries out the request in `memory` on this thread, and answers it. `before_wait` is called when it first has to wait, if it has to.
    pub fn answer(&self, memory: &mut Memory, before_wait: Option<BeforeWait>) {
        let Some(header) = memory.header() else { return };
        if header.opcode == handshake::INIT {
            let reply = handshake::answer(memory.whole(), &header);
            let _ = rustix::io::write(&*self.device, &reply);
            return;
        }
        let _current = Current::new(header, before_wait);
        if [inline::READ, inline::WRITE].contains(&header.opcode) {
            // More than we take is told as the library tells it, and as there is too little memory.
            match memory.take(header, DATA_MAX) {
                Some(data) => self.files.wait_for(data.run(&self.files)).send(&self.device),
                None => drop(rustix::io::write(&*self.device, &header.error(libc::ENOMEM))),
            }
            return;
        }
        let device = self.device.as_raw_fd();
        let (request, answer) = memory.with_answer();
        let handled = Reader::<()>::from_fuse_buffer(FuseBuf::new(request))
            .and_then(|request| Ok((request, FuseDevWriter::<()>::new(device, answer)?)))
            .map_err(|error| error.to_string())
            .and_then(|(request, answer)| {
                self.server
                    .handle_message(request, answer.into(), None, None)
                    .map_err(|error| error.to_string())
            });
        // Each request that wants an answer gets one. If one was sent after all, the kernel knows no such request any more and says so.
        if handled.is_err() && header.wants_answer() {
            let _ = rustix::io::write(&*self.device, &header.error(libc::EIO));
        }
    }
}
