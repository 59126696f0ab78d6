//! Transmission, the phase after the handshake: many requests at a time, answered in any order.
//!
//! The workers of a connection share its socket (`plinth_frontend::workers`). The one with the
//! reader role receives the next request, passes the role on, carries the request out and sends the
//! reply: so a request stays on one thread. Small requests are carried out by the reader, which
//! keeps the role (`multiplex.rs`): a client that sends nothing else is served by one thread,
//! however many requests it has in flight. If no worker waits for the role, one more is started, up
//! to [`WORKERS_MAX`], and up to a limit for all connections together; idle workers leave.
//!
//! A refused request is answered and the connection goes on: the bytes of a refused write are read
//! and dropped. Only bytes that are no request end the connection, because the beginning of the
//! next request is unknown then. After `DISCONNECT`, or when the client closes its side, nothing
//! more is read; requests in flight are completed and answered before the connection is closed.
//!
//! Invariants:
//!
//!   1. A request holds bytes only after it has taken them from the connection's budget, and from
//!      the connection's reserve of [`RESERVE_MAX`] or the budget for all connections. The bytes
//!      lie where the disks read and write them: they are not copied in between. Memory that a
//!      worker keeps between two requests is the pool of its thread (`buffer.rs`).
//!   2. A client that has begun to send a request has to end it, and has to take its reply, within
//!      [`REQUEST_TIMEOUT`], or it is disconnected: a client that stalls holds its part of the
//!      common budget no longer than that.
//!   3. A request is carried out only if `check` has passed it: its range lies within the export.
//!   4. In each round a worker takes a request or ends the connection. A multiplexer that returns
//!      with the reader role has met something that it does not take, which may be the end of the
//!      stream in the middle of a request: it is received here next, and not passed to a
//!      multiplexer again.

use crate::{
    Limits,
    budget::{Budget, Taken},
    connection_memory::{self, ConnectionMemory, SlotNumber},
    failure::Failure,
    multiplex,
    negotiate::{Agreed, PAYLOAD_MAX},
    protocol::{
        REQUEST_HEADER, Refused, Reply, Request, command, data_chunk, error_chunk, flag,
        simple_reply, status_chunk,
    },
    range_lock::{RangeGuard, RangeLock},
    stream::{Answer, Incoming, Stream},
};
use plinth_engine::sync::{buffer::Buffer, transfer::Found};
use plinth_frontend::{BlockDevice, Duty, Workers};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Workers of one connection, at most: enough for a queue of requests that wait for disks.
const WORKERS_MAX: usize = 16;
/// Workers that wait for the reader role, at most.
const WAITING_MAX: usize = 3;
/// Bytes of one connection's requests, at most: two of the largest.
const CONNECTION_MAX: usize = 64 << 20;
/// Bytes of one connection's requests that are not taken from the budget for all connections: a
/// connection's ordinary requests are served however many bytes others hold.
const RESERVE_MAX: usize = 1 << 20;
/// Bytes of a small request, at most.
pub(crate) const INLINE_MAX: u32 = 64 << 10;
/// How long the rest of a request, or a reply, may take: 280 KiB/s for the largest.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Ranges in one reply to `BLOCK_STATUS`, at most.
const RANGES_MAX: usize = 1024;

/// The task of a valid request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Read,
    Write,
    Flush,
    Trim,
    Zero {
        may_punch: bool,
    },
    Cache,
    Status {
        most: usize,
    },
    /// It is empty.
    Nothing,
}

/// The terms that requests are checked against.
#[derive(Debug, Clone, Copy)]
struct Terms {
    size: u64,
    read_only: bool,
    structured: bool,
    allocation: bool,
}

/// A request whose header was received.
struct ReceivedHeader {
    request: Request,
    /// Its task, or why it is refused.
    task: Result<Task, Failure>,
    /// The length of its range, in bytes.
    length: usize,
    /// The bytes of both budgets that it holds, if it needs memory.
    taken: Option<(Taken, Taken)>,
}

/// Checks a request. Its task, or why it is refused.
fn check(request: &Request, terms: Terms) -> Result<Task, Failure> {
    let refuse = |error, text: &str| Err(Failure::new(error, text));
    let known = match request.kind {
        command::READ if terms.structured => flag::FUA | flag::DF,
        command::WRITE_ZEROES => flag::FUA | flag::NO_HOLE | flag::FAST_ZERO,
        command::BLOCK_STATUS => flag::FUA | flag::REQ_ONE,
        _ => flag::FUA,
    };
    if request.flags & !known != 0 {
        return refuse(Refused::Invalid, "a flag that the request does not have");
    }
    let changes = matches!(request.kind, command::WRITE | command::TRIM | command::WRITE_ZEROES);
    if changes && terms.read_only {
        return refuse(Refused::NotPermitted, "the export is read-only");
    }
    let has = |flag: u16| request.flags & flag != 0;
    let task = match request.kind {
        command::FLUSH => return Ok(Task::Flush),
        command::READ => Task::Read,
        command::WRITE => Task::Write,
        command::TRIM => Task::Trim,
        command::WRITE_ZEROES => Task::Zero { may_punch: !has(flag::NO_HOLE) },
        command::CACHE => Task::Cache,
        command::BLOCK_STATUS if !terms.allocation => {
            return refuse(Refused::Invalid, "base:allocation was not agreed on");
        }
        command::BLOCK_STATUS if request.length == 0 => {
            return refuse(Refused::Invalid, "the status of nothing");
        }
        command::BLOCK_STATUS => {
            Task::Status { most: if has(flag::REQ_ONE) { 1 } else { RANGES_MAX } }
        }
        _ => return refuse(Refused::Invalid, "a request that this server does not know"),
    };
    let end = request.offset.checked_add(request.length.into());
    if end.is_none_or(|end| end > terms.size) {
        let error = if matches!(task, Task::Write | Task::Zero { .. }) {
            Refused::NoSpace
        } else {
            Refused::Invalid
        };
        return refuse(error, "it reaches behind the end of the export");
    }
    if matches!(task, Task::Read | Task::Write) && request.length > PAYLOAD_MAX {
        let error = if has(flag::DF) { Refused::Overflow } else { Refused::Invalid };
        return refuse(error, "a request has 32 MiB at most");
    }
    // The reply to an empty read is that to a read.
    Ok(if request.length == 0 && task != Task::Read { Task::Nothing } else { task })
}

/// Whether a request is carried out beside others on the reader's thread (`multiplex.rs`). Flushes
/// are, so that a log that is written record by record is served by one thread.
fn is_inline(request: &Request) -> bool {
    match request.kind {
        command::READ | command::WRITE => (1..=INLINE_MAX).contains(&request.length),
        command::FLUSH => true,
        _ => false,
    }
}

/// The changes that an earlier engine had begun and not recorded as done: slots, offsets and
/// lengths.
pub(crate) fn to_be_done_again(
    found: &connection_memory::Found,
) -> impl Iterator<Item = (SlotNumber, u64, u64)> + use<'_> {
    let changes = |kind| matches!(kind, command::WRITE | command::TRIM | command::WRITE_ZEROES);
    let open =
        |other: &&connection_memory::Unanswered| other.done.is_none() && other.receiving.is_none();
    let all = found.unanswered.iter().filter(open).filter(move |other| changes(other.request.kind));
    all.map(|other| (other.slot, other.request.offset, other.request.length.into()))
}

/// A received request.
struct Job {
    request: Request,
    /// Where the connection's memory records it.
    slot: Option<SlotNumber>,
    /// The lock of its range, which it already had when an earlier engine died.
    guard: Option<RangeGuard>,
    task: Result<Task, Failure>,
    /// The bytes of a write.
    payload: Option<Buffer>,
    _taken: Option<(Taken, Taken)>,
}

/// A connection in transmission.
pub(crate) struct Connection {
    pub(crate) stream: Arc<Stream>,
    /// The socket, for a multiplexer that waits for it and for disks.
    watched: Option<Arc<OwnedFd>>,
    pub(crate) export: Arc<dyn BlockDevice>,
    /// The range locks of the export's file.
    pub(crate) range_lock: Arc<RangeLock>,
    terms: Terms,
    limits: Arc<Limits>,
    budget: Arc<Budget>,
    /// Bytes that are not taken from the budget for all connections.
    reserve: Arc<Budget>,
    /// The reader role is the reading side of the socket.
    workers: Workers<Box<Incoming>, Infallible, ()>,
    /// Nothing more is read.
    ended: AtomicBool,
    /// The client's entry and permit, until the last worker has left.
    _entry: Box<dyn Send + Sync>,
}

impl Connection {
    /// Serves a client until it leaves, on this thread and on others. Returns when nothing more is
    /// read; others may still complete requests, and hold `entry` until then.
    pub fn serve(
        stream: Arc<Stream>,
        incoming: Incoming,
        agreed: Agreed,
        limits: Arc<Limits>,
        entry: Box<dyn Send + Sync>,
    ) {
        Self::new(stream, agreed, limits, entry).work_with(incoming);
    }

    fn new(
        stream: Arc<Stream>,
        agreed: Agreed,
        limits: Arc<Limits>,
        entry: Box<dyn Send + Sync>,
    ) -> Arc<Self> {
        let export = agreed.export;
        let terms = Terms {
            size: agreed.size,
            read_only: export.is_read_only(),
            structured: agreed.structured,
            allocation: agreed.allocation,
        };
        Arc::new(Self {
            watched: stream.watched(),
            stream,
            range_lock: limits.range_lock(export.identity().0),
            export,
            terms,
            limits,
            budget: Budget::new(CONNECTION_MAX),
            reserve: Budget::new(RESERVE_MAX),
            workers: Workers::new(None, (), 1, WORKERS_MAX, WAITING_MAX),
            ended: AtomicBool::new(false),
            _entry: entry,
        })
    }

    /// Works on this thread, which has the reader role first.
    fn work_with(self: &Arc<Self>, incoming: Incoming) {
        self.work(Some(Box::new(incoming)));
    }

    /// Serves a client of an earlier engine on. First the rest of a partly sent reply is sent; then
    /// each unanswered request is carried out, if it was not, and answered.
    pub fn resume(
        stream: Arc<Stream>,
        found: &connection_memory::Found,
        guards: BTreeMap<SlotNumber, RangeGuard>,
        agreed: Agreed,
        limits: Arc<Limits>,
        entry: Box<dyn Send + Sync>,
    ) {
        let incoming = Incoming::resumed(&stream, found.origin, found.ahead.clone());
        let connection = Self::new(stream, agreed, limits, entry);
        match connection.catch_up(incoming, found, guards) {
            Ok(incoming) => connection.work_with(incoming),
            Err(_) => connection.cut(),
        }
    }

    fn catch_up(
        self: &Arc<Self>,
        mut incoming: Incoming,
        found: &connection_memory::Found,
        mut guards: BTreeMap<SlotNumber, RangeGuard>,
    ) -> io::Result<Incoming> {
        let Some(kept) = self.stream.kept().cloned() else { return Ok(incoming) };
        if let Some(partial) = &found.partial {
            let request = found.unanswered.iter().find(|other| other.slot == partial.slot);
            let request = request.ok_or(io::ErrorKind::InvalidData)?.request;
            // If the bytes cannot be read any more, or are fewer, the reply cannot be completed.
            let bytes = match partial.data {
                0 => Found::default(),
                length => self
                    .export
                    .read(request.offset, length)
                    .map_err(|_| io::ErrorKind::InvalidData)?,
            };
            if bytes.len() != partial.data {
                return Err(io::ErrorKind::InvalidData.into());
            }
            kept.has_ended();
            drop(guards.remove(&partial.slot));
            let deadline = Instant::now() + self.request_timeout();
            self.stream.answer_rest(&kept, partial, &bytes, deadline)?;
        }
        for unanswered in &found.unanswered {
            if found.partial.is_none_or(|partial| partial.slot != unanswered.slot) {
                let guard = guards.remove(&unanswered.slot);
                self.answer_again(&mut incoming, &kept, unanswered, guard)?;
            }
        }
        Ok(incoming)
    }

    /// Answers a request that an earlier engine has not answered; first carries it out, unless it
    /// is recorded as done.
    fn answer_again(
        &self,
        incoming: &mut Incoming,
        kept: &ConnectionMemory,
        unanswered: &connection_memory::Unanswered,
        guard: Option<RangeGuard>,
    ) -> io::Result<()> {
        let connection_memory::Unanswered { slot, request, done, has_payload, receiving } =
            *unanswered;
        if let Some(result) = done {
            kept.has_ended();
            let reply = match Refused::of(result) {
                None => simple_reply(request.cookie, 0),
                Some(error) => self.refusal(request.cookie, &Failure::new(error, "it failed")),
            };
            let answer = Answer { slot: Some(slot), header: &reply, found: &Found::default() };
            return self.stream.answer(&[answer], Instant::now() + self.request_timeout(), || ());
        }
        let mut task = check(&request, self.terms);
        let length = usize::try_from(request.length).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut payload = None;
        if request.kind == command::WRITE && length > 0 {
            if has_payload && task == Ok(Task::Write) {
                if let Some(received) = receiving {
                    self.receive_rest(incoming, kept, slot, received)?;
                }
                payload = Buffer::try_unfilled(length);
                payload.iter_mut().for_each(|payload| payload.copy_from_slice(kept.payload(slot)));
            } else if let Some(skipped) = receiving {
                self.skip(incoming, length.saturating_sub(skipped))?;
            }
            if payload.is_none() && task.is_ok() {
                task = Err(Failure::new(Refused::NoMemory, "no memory"));
            }
        }
        self.carry_out(Job { request, slot: Some(slot), guard, task, payload, _taken: None })
    }

    /// Receives the rest of a payload, of which `received` bytes are in their slot. Bytes that were
    /// read ahead come first.
    fn receive_rest(
        &self,
        incoming: &mut Incoming,
        kept: &ConnectionMemory,
        slot: SlotNumber,
        received: usize,
    ) -> io::Result<()> {
        let deadline = Some(Instant::now() + self.request_timeout());
        let length = kept.payload(slot).len();
        let there = incoming.ahead().len().min(length - received);
        kept.put_payload(slot, received, incoming.ahead().get(..there).unwrap_or_default());
        incoming.used(there);
        if received + there < length {
            incoming.receive_payload(kept, slot, received + there, deadline)?;
        }
        kept.parsed(incoming.position());
        Ok(())
    }

    /// Reads bytes and drops them, and records the position.
    fn skip(&self, incoming: &mut Incoming, mut length: usize) -> io::Result<()> {
        let deadline = Some(Instant::now() + self.request_timeout());
        loop {
            let there = incoming.ahead().len().min(length);
            incoming.used(there);
            length -= there;
            if let Some(kept) = self.stream.kept() {
                kept.parsed(incoming.position());
            }
            if length == 0 {
                return Ok(());
            }
            if !incoming.wait_for_more(deadline)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Checks a header, and takes the bytes that its request needs. `None`: the client leaves, or
    /// the connection has ended.
    fn begin(&self, header: &[u8; REQUEST_HEADER]) -> io::Result<Option<ReceivedHeader>> {
        let request = Request::parse(header).ok_or(io::ErrorKind::InvalidData)?;
        if request.kind == command::DISCONNECT {
            return Ok(None);
        }
        let task = check(&request, self.terms);
        let length = usize::try_from(request.length).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut taken = None;
        if matches!(task, Ok(Task::Read | Task::Write)) {
            taken = self.take(length);
            if taken.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(ReceivedHeader { request, task, length, taken }))
    }

    /// [`Self::receive`], for a connection that is kept.
    fn receive_kept(
        &self,
        incoming: &mut Incoming,
        kept: &ConnectionMemory,
    ) -> io::Result<Option<Job>> {
        let mut deadline = None;
        let header = loop {
            if let Some(header) = incoming.ahead().first_chunk::<REQUEST_HEADER>() {
                break *header;
            }
            let is_begun = !incoming.ahead().is_empty();
            if is_begun {
                deadline.get_or_insert_with(|| Instant::now() + self.request_timeout());
            }
            if !incoming.wait_for_more(deadline)? {
                return if is_begun { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(None) };
            }
        };
        let Some(ReceivedHeader { request, mut task, length, taken }) = self.begin(&header)? else {
            return Ok(None);
        };
        let is_write = request.kind == command::WRITE && length > 0;
        let wanted = (is_write && task == Ok(Task::Write)).then_some(length);
        let start = incoming.position();
        let (slot, has_room) =
            kept.take(&header, start, wanted).ok_or(io::ErrorKind::OutOfMemory)?;
        incoming.used(REQUEST_HEADER);
        kept.parsed(start + REQUEST_HEADER as u64);
        let mut payload = None;
        if is_write {
            if has_room {
                self.receive_rest(incoming, kept, slot, 0)?;
                payload = Buffer::try_unfilled(length);
                payload.iter_mut().for_each(|payload| payload.copy_from_slice(kept.payload(slot)));
            } else {
                self.skip(incoming, length)?;
            }
            if payload.is_none() && task.is_ok() {
                task = Err(Failure::new(Refused::NoMemory, "no memory"));
            }
        }
        Ok(Some(Job { request, slot: Some(slot), guard: None, task, payload, _taken: taken }))
    }

    /// Records that a request is complete, or has failed. `false`: another engine serves the
    /// connection on; it carries the request out again, and answers it.
    pub(crate) fn note_end(
        &self,
        slot: Option<SlotNumber>,
        guard: Option<RangeGuard>,
        failure: Option<&Failure>,
    ) -> bool {
        let Some(kept) = self.stream.kept() else { return true };
        kept.has_ended();
        if kept.is_frozen() {
            // The range stays locked: no thread of this process changes it any more.
            std::mem::forget(guard);
            return false;
        }
        if let (Some(slot), Some(_)) = (slot, &guard) {
            kept.done(slot, failure.map_or(0, |failure| failure.error as u32));
        }
        drop(guard);
        true
    }

    /// A worker's life; `reader`: it has the reader role first.
    fn work(self: &Arc<Self>, reader: Option<Box<Incoming>>) {
        // The reader role, where this worker has it: at first, or from a multiplexer.
        let (mut reader, mut was_multiplexed) = (reader, false);
        while !self.has_ended() {
            let mut incoming = match reader.take() {
                Some(incoming) => incoming,
                None => match self.workers.next(|()| Some(())) {
                    Duty::Read((incoming, ())) => incoming,
                    Duty::Job(never) => match never {},
                    Duty::Leave => break,
                },
            };
            if self.has_ended() {
                break;
            }
            // After a multiplexer comes something that none takes: invariant 4.
            let may_multiplex =
                !std::mem::take(&mut was_multiplexed) && self.export.can_multiplex();
            let done = if may_multiplex
                && incoming.wait().is_ok()
                && self.has_inline_request(incoming.ahead())
            {
                let (role, sent) = multiplex::run(self, incoming, self.watched.as_ref());
                was_multiplexed = role.is_some();
                reader = role;
                sent
            } else {
                match self.receive(&mut incoming) {
                    Ok(Some(job)) => {
                        self.pass_reader_role(incoming);
                        self.carry_out(job)
                    }
                    Ok(None) => {
                        self.end();
                        break;
                    }
                    Err(_) => {
                        self.cut();
                        break;
                    }
                }
            };
            if done.is_err() {
                // The client takes no replies: disconnect, so that other workers notice too.
                self.cut();
            }
        }
        if self.workers.leave(&mut self.workers.lock()) {
            self.stream.close();
        }
    }

    /// Passes the reader role on: this worker has a request to carry out.
    pub(crate) fn pass_reader_role(self: &Arc<Self>, reader: Box<Incoming>) {
        self.workers.pass(reader, |()| {
            let Some(permit) = self.limits.workers.take() else { return false };
            let connection = Arc::clone(self);
            // If no thread starts, the present workers go on.
            let started = thread::Builder::new().name("nbd".into()).spawn(move || {
                connection.work(None);
                drop(permit);
            });
            started.is_ok()
        });
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Nothing more is read.
    fn end(&self) {
        let mut state = self.workers.lock();
        self.ended.store(true, Ordering::SeqCst);
        self.workers.stop(&mut state);
    }

    /// Disconnects the client.
    pub(crate) fn cut(&self) {
        self.end();
        self.stream.cut();
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.limits.timeouts.request
    }

    pub(crate) fn is_structured(&self) -> bool {
        self.terms.structured
    }

    /// Whether a request is valid and is carried out beside others.
    pub(crate) fn is_valid_inline(&self, request: &Request) -> bool {
        is_inline(request) && check(request, self.terms).is_ok()
    }

    /// Whether these bytes begin with such a request, and the budgets have room for it.
    fn has_inline_request(&self, ahead: &[u8]) -> bool {
        let request = ahead.first_chunk::<REQUEST_HEADER>().and_then(Request::parse);
        request.is_some_and(|request| {
            let length = usize::try_from(request.length).unwrap_or(usize::MAX);
            self.is_valid_inline(&request) && self.budget.has(length) && self.reserve.has(length)
        })
    }

    /// Takes bytes from the connection's budgets, if they are free.
    pub(crate) fn take_at_once(&self, bytes: usize) -> Option<(Taken, Taken)> {
        Some((self.budget.take_at_once(bytes)?, self.reserve.take_at_once(bytes)?))
    }

    /// Takes bytes from both budgets, and waits until they are free. `None`: the connection has
    /// ended.
    fn take(&self, bytes: usize) -> Option<(Taken, Taken)> {
        let is_in_vain = || self.ended.load(Ordering::SeqCst);
        let taken = self.budget.take(bytes, is_in_vain)?;
        loop {
            if let Some(own) = self.reserve.take_at_once(bytes) {
                return Some((taken, own));
            }
            let is_free = || self.reserve.take_at_once(bytes).is_some();
            if let Some(of_all) = self.limits.bytes.take(bytes, || is_in_vain() || is_free()) {
                return Some((taken, of_all));
            }
            if is_in_vain() {
                return None;
            }
        }
    }

    /// Receives the next request, with the bytes of a write. `None`: the client leaves.
    fn receive(&self, incoming: &mut Incoming) -> io::Result<Option<Job>> {
        if let Some(kept) = self.stream.kept() {
            return self.receive_kept(incoming, kept);
        }
        let mut header = [0; REQUEST_HEADER];
        let (first, rest) = header.split_at_mut(1);
        if incoming.read_exact(first, None)?.is_none() {
            return Ok(None);
        }
        let deadline = Some(Instant::now() + self.limits.timeouts.request);
        incoming.read_exact(rest, deadline)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let Some(ReceivedHeader { request, mut task, length, taken }) = self.begin(&header)? else {
            return Ok(None);
        };
        let mut payload = None;
        if request.kind == command::WRITE && length > 0 {
            if task == Ok(Task::Write) {
                payload = Buffer::try_unfilled(length);
            }
            match &mut payload {
                Some(payload) => {
                    // The wait for the budgets does not count as the client's delay.
                    let deadline = Some(Instant::now() + self.limits.timeouts.request);
                    incoming.read_exact(payload, deadline)?.ok_or(io::ErrorKind::UnexpectedEof)?;
                }
                None => {
                    if task.is_ok() {
                        task = Err(Failure::new(Refused::NoMemory, "no memory"));
                    }
                    incoming.skip(request.length.into(), deadline)?;
                }
            }
        }
        Ok(Some(Job { request, slot: None, guard: None, task, payload, _taken: taken }))
    }

    pub(crate) fn refusal(&self, cookie: u64, failure: &Failure) -> Reply {
        if self.terms.structured {
            error_chunk(cookie, failure.error, &failure.text)
        } else {
            simple_reply(cookie, failure.error as u32)
        }
    }

    /// Carries a request out and answers it.
    fn carry_out(&self, job: Job) -> io::Result<()> {
        let Job { request, slot, guard, task, payload, _taken } = job;
        let Request { flags, cookie, offset, length, kind } = request;
        let mut found = Found::default();
        let changes = matches!(task, Ok(Task::Write | Task::Trim | Task::Zero { .. }));
        let guard = guard.or_else(|| changes.then(|| self.range_lock.lock(offset, length.into())));
        let done = task.and_then(|task| {
            match task {
                Task::Read if length == 0 => {}
                Task::Read => {
                    found = self.export.read(offset, usize::try_from(length).unwrap_or(0))?
                }
                Task::Write => {
                    if let Some(payload) = payload {
                        self.export.write(offset, payload.share())?;
                    }
                }
                Task::Flush => self.export.flush()?,
                Task::Trim => self.export.trim(offset, length.into())?,
                Task::Zero { may_punch } => self.export.zero(offset, length.into(), may_punch)?,
                Task::Status { most } => {
                    return Ok(Some(self.export.status(offset, length.into(), most)?));
                }
                // There is no cache between the disks and the client.
                Task::Cache | Task::Nothing => {}
            }
            if changes && flags & flag::FUA != 0 {
                self.export.flush()?;
            }
            Ok(None)
        });
        if !self.note_end(slot, guard, done.as_ref().err()) {
            return Ok(());
        }
        let header = match done {
            Ok(Some(ranges)) => {
                let ranges = ranges
                    .iter()
                    .filter_map(|(length, data)| Some((u32::try_from(*length).ok()?, *data)));
                status_chunk(cookie, ranges)
            }
            Ok(None) if kind == command::READ && self.terms.structured => {
                data_chunk(cookie, offset, found.len())
            }
            Ok(None) => simple_reply(cookie, 0),
            Err(failure) => {
                found = Found::default();
                self.refusal(cookie, &failure)
            }
        };
        let answer = Answer { slot, header: &header, found: &found };
        self.stream.answer(&[answer], Instant::now() + self.limits.timeouts.request, || ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms =
        Terms { size: 1 << 30, read_only: false, structured: true, allocation: true };

    fn request(kind: u16, flags: u16, offset: u64, length: u32) -> Request {
        Request { flags, kind, cookie: 0, offset, length }
    }

    fn refusal(request: Request, terms: Terms) -> Refused {
        check(&request, terms).expect_err("refused").error
    }

    #[test]
    fn a_range_outside_of_the_export_is_refused_with_the_protocols_error() {
        for (kind, error) in [
            (command::READ, Refused::Invalid),
            (command::WRITE, Refused::NoSpace),
            (command::WRITE_ZEROES, Refused::NoSpace),
            (command::TRIM, Refused::Invalid),
            (command::CACHE, Refused::Invalid),
            (command::BLOCK_STATUS, Refused::Invalid),
        ] {
            for (offset, length) in
                [(1 << 30, 1), ((1 << 30) - 1, 2), (u64::MAX, 1), (u64::MAX - 4095, 4096)]
            {
                assert_eq!(
                    refusal(request(kind, 0, offset, length), TERMS),
                    error,
                    "{kind} {offset} {length}"
                );
            }
            assert!(check(&request(kind, 0, (1 << 30) - 1, 1), TERMS).is_ok());
        }
    }

    #[test]
    fn a_flag_of_another_request_is_refused() {
        for kind in
            [command::READ, command::WRITE, command::TRIM, command::FLUSH, command::CACHE, 99]
        {
            for bit in 5..16 {
                assert_eq!(refusal(request(kind, 1 << bit, 0, 1), TERMS), Refused::Invalid);
            }
        }
        assert_eq!(refusal(request(command::WRITE, flag::NO_HOLE, 0, 1), TERMS), Refused::Invalid);
        assert_eq!(refusal(request(command::TRIM, flag::REQ_ONE, 0, 1), TERMS), Refused::Invalid);
        assert!(check(&request(command::READ, flag::DF, 0, 1), TERMS).is_ok());
        let simple = Terms { structured: false, allocation: false, ..TERMS };
        assert_eq!(refusal(request(command::READ, flag::DF, 0, 1), simple), Refused::Invalid);
        assert_eq!(refusal(request(command::BLOCK_STATUS, 0, 0, 1), simple), Refused::Invalid);
        let both = flag::NO_HOLE | flag::FAST_ZERO | flag::FUA;
        assert_eq!(
            check(&request(command::WRITE_ZEROES, both, 0, 1), TERMS),
            Ok(Task::Zero { may_punch: false })
        );
        assert_eq!(
            check(&request(command::BLOCK_STATUS, flag::REQ_ONE, 0, 1), TERMS),
            Ok(Task::Status { most: 1 })
        );
    }

    #[test]
    fn requests_that_are_too_long_or_not_allowed_are_refused() {
        let wide = Terms { size: 1 << 40, ..TERMS };
        assert_eq!(refusal(request(command::READ, 0, 0, PAYLOAD_MAX + 1), wide), Refused::Invalid);
        assert_eq!(
            refusal(request(command::READ, flag::DF, 0, PAYLOAD_MAX + 1), wide),
            Refused::Overflow
        );
        assert_eq!(refusal(request(command::WRITE, 0, 0, u32::MAX), wide), Refused::Invalid);
        assert!(check(&request(command::WRITE_ZEROES, 0, 0, u32::MAX), wide).is_ok());
        let read_only = Terms { read_only: true, ..TERMS };
        for kind in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
            assert_eq!(refusal(request(kind, 0, 0, 1), read_only), Refused::NotPermitted);
        }
        assert_eq!(check(&request(command::FLUSH, 0, 0, 0), read_only), Ok(Task::Flush));
        assert_eq!(check(&request(command::WRITE, 0, 1 << 30, 0), TERMS), Ok(Task::Nothing));
        assert_eq!(refusal(request(command::BLOCK_STATUS, 0, 0, 0), TERMS), Refused::Invalid);
    }
}
