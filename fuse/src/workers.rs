//! The threads of a mount, and what each of them does.
//!
//! One worker has the reader role: it reads requests from the device, and carries small ones out
//! itself, many at a time (`multiplex.rs`). It gives any other request to a worker that waits, as a
//! *job*; or it carries that request out itself, and passes the role on if the request has to wait.
//! How roles and jobs move between threads is `plinth_frontend::workers`.
//!
//! A worker is *idle* while it has no request in flight: when it waits, and when it reads and the
//! device has nothing for it.
//!
//! Invariants:
//!
//!   1. While requests wait, one worker reads the next one, or at least one more could be started,
//!      up to [`WORKERS_MAX`](crate::WORKERS_MAX).
//!   2. No request begins after the mount was handed over, and a worker counts as idle only while
//!      it has nothing in flight.

use crate::{
    DATA_MAX, WORKERS_MAX,
    filesystem::{BeforeWait, Current, GroupFileSystem},
    handshake, inline,
    multiplex::{self, IN_FLIGHT_MAX},
    request::Memory,
    watcher::Notifier,
};
use fuse_backend_rs::{
    api::server::Server,
    transport::{FuseBuf, FuseDevWriter, Reader},
};
use plinth_frontend::{Duty, Runner, Workers};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    sync::{
        Arc, Condvar, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Waiting workers that are kept at least: those that a burst has started serve the next burst too.
const WAITING_MAX: usize = 16;
/// Requests in flight on all threads that keep every processor busy.
const IN_FLIGHT_IN_ALL: usize = 64;

/// State of the workers beside roles and jobs, under the same lock.
#[derive(Default)]
struct Own {
    /// Workers without a request in flight.
    idle: usize,
    /// Memory for requests that no worker uses.
    spare: Vec<Memory>,
    /// The kernel ended the connection.
    unmounted: bool,
    handles: Vec<JoinHandle<()>>,
}

impl Own {
    fn memory(&mut self) -> io::Result<Memory> {
        self.spare.pop().map_or_else(Memory::new, Ok)
    }
}

/// The state that the workers of a mount share.
pub(crate) struct Shared {
    pub files: Arc<GroupFileSystem>,
    pub runner: Arc<dyn Runner>,
    server: Server<Arc<GroupFileSystem>>,
    pub device: Arc<OwnedFd>,
    pub notifier: Notifier,
    /// Spare memories that are kept, at most.
    keep: usize,
    /// With more small requests than this in flight, a worker passes the reader role on.
    pub share: usize,
    /// A job is a request in its memory.
    workers: Workers<(), Memory, Own>,
    /// A worker has become idle, or has left.
    became_idle: Condvar,
    /// Another process is going to serve the mount: no request begins any more.
    handed_over: AtomicBool,
}

impl Shared {
    /// With memory for the first workers; the caller starts one worker for each.
    pub fn new(
        files: Arc<GroupFileSystem>,
        runner: Arc<dyn Runner>,
        device: Arc<OwnedFd>,
        notifier: Notifier,
        memories: Vec<Memory>,
    ) -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let keep = memories.len().max(WAITING_MAX);
        let own = Own { spare: memories, ..Own::default() };
        Self {
            server: Server::new(Arc::clone(&files)),
            files,
            runner,
            device,
            notifier,
            keep,
            share: (IN_FLIGHT_IN_ALL / processors).clamp(2, IN_FLIGHT_MAX),
            workers: Workers::new(Some(()), own, 0, WORKERS_MAX, keep),
            became_idle: Condvar::new(),
            handed_over: AtomicBool::new(false),
        }
    }

    pub fn has_workers(&self) -> bool {
        self.workers.lock().workers() > 0
    }

    /// Whether no request may begin any more.
    pub fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::SeqCst)
    }

    /// Waits until every worker's thread has ended.
    pub fn join(&self) {
        while let Some(handle) = { self.workers.lock().own.handles.pop() } {
            // The error is a panic, which was reported when it happened.
            let _ = handle.join();
        }
    }

    /// See [`FrontEnd::hand_over`](crate::FrontEnd::hand_over).
    pub fn hand_over(&self, timeout: Duration) -> bool {
        let began = Instant::now();
        let mut state = self.workers.lock();
        self.handed_over.store(true, Ordering::SeqCst);
        self.workers.stop(&mut state);
        loop {
            if state.workers() == state.own.idle {
                return true;
            }
            let Some(left) = timeout.checked_sub(began.elapsed()) else { return false };
            let waited = self.became_idle.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub fn add_worker(self: &Arc<Self>) -> io::Result<()> {
        let mut result = Ok(());
        self.workers.start(&mut self.workers.lock(), |own| {
            result = self.start_worker(own);
            result.is_ok()
        });
        result
    }

    fn start_worker(self: &Arc<Self>, own: &mut Own) -> io::Result<()> {
        let shared = Arc::clone(self);
        let handle = thread::Builder::new().name("fuse".into()).spawn(move || {
            shared.work();
            shared.leave();
        })?;
        own.idle += 1;
        own.handles.retain(|handle| !handle.is_finished());
        own.handles.push(handle);
        Ok(())
    }

    /// A worker's life.
    fn work(self: &Arc<Self>) {
        loop {
            let mut memory = match self.workers.next(|own| own.memory().ok()) {
                Duty::Read(((), memory)) => multiplex::read_requests(self, memory),
                Duty::Job(mut memory) => {
                    self.answer(&mut memory, None);
                    self.set_idle();
                    memory
                }
                Duty::Leave => return,
            };
            memory.release_payload();
            let mut state = self.workers.lock();
            if state.own.spare.len() < self.keep {
                state.own.spare.push(memory);
            }
        }
    }

    /// Passes the reader role on. If no worker waits for it and none can be started, the first
    /// worker that is done takes it.
    pub fn pass_reader_role(self: &Arc<Self>) {
        self.workers.pass((), |own| self.start_worker(own).is_ok());
    }

    /// Gives the request in `memory` to another worker, and puts other memory in its place.
    /// `false`: no worker can carry it out now.
    pub fn give_job(self: &Arc<Self>, memory: &mut Memory) -> bool {
        let mut state = self.workers.lock();
        if state.has_job() {
            return false;
        }
        let Ok(next) = state.own.memory() else { return false };
        let request = std::mem::replace(memory, next);
        let start = |own: &mut Own| self.start_worker(own).is_ok();
        match self.workers.give_job(&mut state, request, start) {
            Ok(()) => {
                state.own.idle -= 1;
                true
            }
            Err(request) => {
                state.own.spare.push(std::mem::replace(memory, request));
                false
            }
        }
    }

    /// This worker has a request in flight from now on. `false`: the mount was handed over, and the
    /// request is the successor's.
    pub fn set_busy(&self) -> bool {
        let mut state = self.workers.lock();
        if self.is_handed_over() {
            return false;
        }
        state.own.idle -= 1;
        true
    }

    /// This worker has nothing in flight any more.
    pub fn set_idle(&self) {
        let mut state = self.workers.lock();
        state.own.idle += 1;
        // Only a hand-over waits for this. A notification costs a system call even if no thread
        // waits for it.
        if self.is_handed_over() {
            self.became_idle.notify_all();
        }
    }

    /// The kernel has ended the connection.
    pub fn end(&self) {
        let mut state = self.workers.lock();
        state.own.unmounted = true;
        self.workers.stop(&mut state);
    }

    fn leave(&self) {
        let last = {
            let mut state = self.workers.lock();
            state.own.idle -= 1;
            self.became_idle.notify_all();
            self.workers.leave(&mut state) && state.own.unmounted
        };
        if last {
            // The kernel's references went with the mount; it does not send FORGET for them.
            self.notifier.stop();
            self.files.end();
        }
    }

    /// Carries out the request in `memory` on this thread, and answers it. `before_wait` is called
    /// before the request first waits, if it waits.
    pub fn answer(&self, memory: &mut Memory, before_wait: Option<BeforeWait>) {
        let Some(header) = memory.header() else { return };
        if header.opcode == handshake::INIT {
            let reply = handshake::answer(memory.whole(), &header);
            let _ = rustix::io::write(&*self.device, &reply);
            return;
        }
        let _current = Current::new(header, before_wait);
        if [inline::READ, inline::WRITE].contains(&header.opcode) {
            // A request that is too long gets ENOMEM, as the library answers it, and so does one
            // for which there is too little memory.
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
        // Invariant 2 of lib.rs. If the library has answered after all, the kernel refuses this
        // second answer: it no longer knows the request.
        if handled.is_err() && header.wants_answer() {
            let _ = rustix::io::write(&*self.device, &header.error(libc::EIO));
        }
    }
}
