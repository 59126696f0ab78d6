//! After the agreement: requests, many at a time, answered in any order.
//!
//! A connection has workers. One of them reads: it takes the next request with all that belongs to it, lets another read, carries the
//! request out, sends the reply, and waits for its turn to read. So a request never changes threads. Small ones are taken by whoever has the turn
//! without giving it away (`multiplex.rs`), so a client that sends nothing else is served by one thread, however many it sends at a time. When nobody waits to read, one more worker is started, up to [`WORKERS_MAX`], and as many as all connections
//! together may have; those that are not needed any more leave.
//!
//! A refused request is answered and the connection goes on: what a write brought with it is read and forgotten. Only what is no request at all
//! ends it, because then nobody knows where the next one begins. `DISCONNECT`, or the client's end, ends the reading; what is under way is
//! finished and answered before the connection is closed.
//!
//! Invariants:
//!
//!   1. Bytes from the client or for it are held only by who has taken them from both budgets, the connection's and everybody's; of the latter
//!      those are not taken that fit in [`OWN_MAX`], which each connection has of its own. They lie where the disks read and write them:
//!      nothing is copied in between. What a worker keeps of that memory between two requests is what any thread keeps (`buffer.rs`).
//!   2. Who began to send a request ends it, and who is sent a reply takes it, within [`PATIENCE`], or the connection is cut: a client that
//!      stands still holds its part of everybody's budget no longer than that.
//!   3. A request is carried out only if `check` has seen it: what it names lies within the export.
//!   4. Each time round, a worker takes a request or ends the connection. A pump that gives the turn back has met what it does not take, the
//!      end of the stream in the middle of a request included: that is received here next, and never offered to a pump again.

use crate::{
    Limits,
    budget::{Budget, Taken},
    connection_memory::{self, Kept, SlotNumber},
    export::{Export, Failure},
    multiplex,
    negotiate::{Agreed, PAYLOAD_MAX},
    protocol::{
        REQUEST_HEADER, Refused, Reply, Request, command, data_chunk, error_chunk, flag,
        simple_reply, status_chunk,
    },
    range_lock::{Gate, Inside},
    stream::{Answer, Incoming, Stream},
};
use plinth_engine::sync::{buffer::Buffer, transfer::Found};
use std::{
    collections::BTreeMap,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Most workers of one connection: what a queue of requests that wait for disks needs.
const WORKERS_MAX: usize = 16;
/// Idle workers that are kept.
const IDLE_MAX: usize = 4;
/// Bytes of one connection's requests, at most: two of the largest.
const CONNECTION_MAX: usize = 64 << 20;
/// Bytes of one connection's requests that are not taken from everybody's: requests as disks get them are served whatever others hold.
const OWN_MAX: usize = 1 << 20;
/// Bytes of a small request.
pub(crate) const SMALL_MAX: u32 = 64 << 10;
/// How long the rest of a request, or a reply, may be on its way: 280 KiB/s for the largest.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Ranges in one answer about data and holes.
const RANGES_MAX: usize = 1024;

/// What a request asks for, once it is found to be in order.
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
    /// Nothing has to be done for it.
    Nothing,
}

/// What a request is measured against.
#[derive(Debug, Clone, Copy)]
struct Terms {
    size: u64,
    read_only: bool,
    structured: bool,
    allocation: bool,
}

/// A request whose header is here.
struct Begun {
    request: Request,
    /// What is to be done, or why not.
    task: Result<Task, Failure>,
    /// Bytes that it is about.
    length: usize,
    /// The share of the limits that it has, if it needs memory.
    taken: Option<(Taken, Taken)>,
}

/// What a request asks for, or why it is not carried out.
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
    // Empty reads have an answer of their own.
    Ok(if request.length == 0 && task != Task::Read { Task::Nothing } else { task })
}

/// Whether a request is carried out together with others (`multiplex.rs`). Flushes are: a log that is written record by record is served by one thread.
fn is_for_pumps(request: &Request) -> bool {
    match request.kind {
        command::READ | command::WRITE => (1..=SMALL_MAX).contains(&request.length),
        command::FLUSH => true,
        _ => false,
    }
}

/// What an engine before this one had let in and not noted as done: slots, and the bytes that are changed.
pub(crate) fn to_be_done_again(
    found: &connection_memory::Found,
) -> impl Iterator<Item = (SlotNumber, u64, u64)> + use<'_> {
    let changes = |kind| matches!(kind, command::WRITE | command::TRIM | command::WRITE_ZEROES);
    let open =
        |other: &&connection_memory::Unanswered| other.done.is_none() && other.receiving.is_none();
    let all = found.unanswered.iter().filter(open).filter(move |other| changes(other.request.kind));
    all.map(|other| (other.slot, other.request.offset, other.request.length.into()))
}

/// A request on its way, with what it needs.
struct Job {
    request: Request,
    /// Where it is noted.
    slot: Option<SlotNumber>,
    /// It was inside already when an engine before this one died.
    inside: Option<Inside>,
    task: Result<Task, Failure>,
    /// What is to be written.
    payload: Option<Buffer>,
    _taken: Option<(Taken, Taken)>,
}

#[derive(Default)]
struct Workers {
    all: usize,
    /// Those that read or wait to read.
    idle: usize,
}

/// A connection in transmission.
pub(crate) struct Connection {
    pub(crate) stream: Arc<Stream>,
    /// The turn to read, unless a worker has it.
    incoming: Mutex<Option<Box<Incoming>>>,
    turned: Condvar,
    /// The socket, for pumps that wait for it and the disks.
    watched: Option<Arc<OwnedFd>>,
    pub(crate) export: Arc<dyn Export>,
    /// That of the export's file.
    pub(crate) gate: Arc<Gate>,
    terms: Terms,
    limits: Arc<Limits>,
    budget: Arc<Budget>,
    /// What it need not take from everybody's.
    own: Arc<Budget>,
    workers: Mutex<Workers>,
    /// Nothing more is read.
    ended: AtomicBool,
    /// What holds the connection's place, until the last worker has left.
    _place: Box<dyn Send + Sync>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    /// Serves a client until it leaves, on this thread and others. Returns when nothing more is read; others may still be finishing what
    /// they read, and hold `place` until they are done.
    pub fn serve(
        stream: Arc<Stream>,
        incoming: Incoming,
        agreed: Agreed,
        limits: Arc<Limits>,
        place: Box<dyn Send + Sync>,
    ) {
        Self::new(stream, agreed, limits, place).work_with(incoming);
    }

    fn new(
        stream: Arc<Stream>,
        agreed: Agreed,
        limits: Arc<Limits>,
        place: Box<dyn Send + Sync>,
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
            incoming: Mutex::new(None),
            turned: Condvar::new(),
            gate: limits.gate(export.identity().0),
            export,
            terms,
            limits,
            budget: Budget::new(CONNECTION_MAX),
            own: Budget::new(OWN_MAX),
            workers: Mutex::new(Workers { all: 1, idle: 1 }),
            ended: AtomicBool::new(false),
            _place: place,
        })
    }

    fn work_with(self: &Arc<Self>, incoming: Incoming) {
        *locked(&self.incoming) = Some(Box::new(incoming));
        self.work();
    }

    /// Goes on with a client of an engine that is gone: what was sent in part is ended, what was not answered is carried out, unless it was,
    /// and answered. Then it is served as any other.
    pub fn resume(
        stream: Arc<Stream>,
        found: &connection_memory::Found,
        inside: BTreeMap<SlotNumber, Inside>,
        agreed: Agreed,
        limits: Arc<Limits>,
        place: Box<dyn Send + Sync>,
    ) {
        let incoming = Incoming::resumed(&stream, found.origin, found.ahead.clone());
        let connection = Self::new(stream, agreed, limits, place);
        match connection.catch_up(incoming, found, inside) {
            Ok(incoming) => connection.work_with(incoming),
            Err(_) => connection.cut(),
        }
    }

    fn catch_up(
        self: &Arc<Self>,
        mut incoming: Incoming,
        found: &connection_memory::Found,
        mut inside: BTreeMap<SlotNumber, Inside>,
    ) -> io::Result<Incoming> {
        let Some(kept) = self.stream.kept().cloned() else { return Ok(incoming) };
        if let Some(partial) = &found.partial {
            let request = found.unanswered.iter().find(|other| other.slot == partial.slot);
            let request = request.ok_or(io::ErrorKind::InvalidData)?.request;
            // If it cannot be read any more, or is shorter, what the client has cannot be completed.
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
            drop(inside.remove(&partial.slot));
            self.stream.answer_rest(&kept, partial, &bytes, Instant::now() + self.patience())?;
        }
        for unanswered in &found.unanswered {
            let connection_memory::Unanswered { slot, request, done, has_payload, receiving } =
                *unanswered;
            if found.partial.is_some_and(|partial| partial.slot == slot) {
                continue;
            }
            if let Some(result) = done {
                kept.has_ended();
                let reply = match Refused::of(result) {
                    None => simple_reply(request.cookie, 0),
                    Some(error) => self.refusal(request.cookie, &Failure::new(error, "it failed")),
                };
                let answer = Answer { slot: Some(slot), header: &reply, found: &Found::default() };
                self.stream.answer(&[answer], Instant::now() + self.patience(), || ())?;
                continue;
            }
            let mut task = check(&request, self.terms);
            let length = usize::try_from(request.length).map_err(|_| io::ErrorKind::InvalidData)?;
            let mut payload = None;
            if request.kind == command::WRITE && length > 0 {
                if has_payload && task == Ok(Task::Write) {
                    if let Some(received) = receiving {
                        self.receive_rest(&mut incoming, &kept, slot, received)?;
                    }
                    payload = Buffer::try_unfilled(length);
                    payload
                        .iter_mut()
                        .for_each(|payload| payload.copy_from_slice(kept.payload(slot)));
                } else if let Some(skipped) = receiving {
                    self.skip(&mut incoming, length.saturating_sub(skipped))?;
                }
                if payload.is_none() && task.is_ok() {
                    task = Err(Failure::new(Refused::NoMemory, "no memory"));
                }
            }
            let inside = inside.remove(&slot);
            self.carry_out(Job { request, slot: Some(slot), inside, task, payload, _taken: None })?;
        }
        Ok(incoming)
    }

    /// Receives what is missing of a payload, of which `received` bytes are in its place, or all that was received is ahead.
    fn receive_rest(
        &self,
        incoming: &mut Incoming,
        kept: &Kept,
        slot: SlotNumber,
        received: usize,
    ) -> io::Result<()> {
        let deadline = Some(Instant::now() + self.patience());
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

    /// Reads and forgets, and notes how far.
    fn skip(&self, incoming: &mut Incoming, mut length: usize) -> io::Result<()> {
        let deadline = Some(Instant::now() + self.patience());
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

    /// What a header asks for, with the memory that it takes. `None`: the client leaves, or nobody waits any more.
    fn begin(&self, header: &[u8; REQUEST_HEADER]) -> io::Result<Option<Begun>> {
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
        Ok(Some(Begun { request, task, length, taken }))
    }

    /// The next request of a connection that is kept: see [`Self::receive`].
    fn receive_kept(&self, incoming: &mut Incoming, kept: &Kept) -> io::Result<Option<Job>> {
        let mut deadline = None;
        let header = loop {
            if let Some(header) = incoming.ahead().first_chunk::<REQUEST_HEADER>() {
                break *header;
            }
            let is_begun = !incoming.ahead().is_empty();
            if is_begun {
                deadline.get_or_insert_with(|| Instant::now() + self.patience());
            }
            if !incoming.wait_for_more(deadline)? {
                return if is_begun { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(None) };
            }
        };
        let Some(Begun { request, mut task, length, taken }) = self.begin(&header)? else {
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
        Ok(Some(Job { request, slot: Some(slot), inside: None, task, payload, _taken: taken }))
    }

    /// A request has been carried out, or could not be. `false`: another engine goes on with the connection, does it again, and answers.
    pub(crate) fn note_end(
        &self,
        slot: Option<SlotNumber>,
        inside: Option<Inside>,
        failure: Option<&Failure>,
    ) -> bool {
        let Some(kept) = self.stream.kept() else { return true };
        kept.has_ended();
        if kept.is_frozen() {
            // Nobody changes these bytes here any more.
            std::mem::forget(inside);
            return false;
        }
        if let (Some(slot), Some(_)) = (slot, &inside) {
            kept.done(slot, failure.map_or(0, |failure| failure.error as u32));
        }
        drop(inside);
        true
    }

    fn work(self: &Arc<Self>) {
        // The turn to read, where a pump has given it back.
        let mut kept = None;
        loop {
            // What comes next then is nothing that a pump takes: invariant 4.
            let may_pump = kept.is_none() && self.export.takes_several();
            let Some(mut incoming) = kept.take().or_else(|| self.turn()) else { break };
            if self.has_ended() {
                break;
            }
            let done = if may_pump && incoming.wait().is_ok() && self.is_for_pump(incoming.ahead())
            {
                let (turn, sent) = multiplex::run(self, incoming, self.watched.as_ref());
                kept = turn;
                sent
            } else {
                match self.receive(&mut incoming) {
                    Ok(Some(job)) => {
                        self.give_turn(incoming);
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
                // Nobody takes replies any more: whoever reads or writes hears of it.
                self.cut();
            }
            if kept.is_some() {
                continue;
            }
            let mut workers = locked(&self.workers);
            if workers.idle >= IDLE_MAX {
                workers.all -= 1;
                return;
            }
            workers.idle += 1;
        }
        let is_last = {
            let mut workers = locked(&self.workers);
            workers.idle -= 1;
            workers.all -= 1;
            workers.all == 0
        };
        if is_last {
            self.stream.close();
        }
    }

    /// Waits for the turn to read. `None`: nothing more is read.
    fn turn(&self) -> Option<Box<Incoming>> {
        let mut incoming = locked(&self.incoming);
        loop {
            if self.has_ended() {
                return None;
            }
            if let Some(turn) = incoming.take() {
                return Some(turn);
            }
            incoming = self.turned.wait(incoming).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets another read on; this worker has something to carry out.
    pub(crate) fn give_turn(self: &Arc<Self>, turn: Box<Incoming>) {
        *locked(&self.incoming) = Some(turn);
        self.turned.notify_one();
        self.took_one();
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Nothing more is read.
    fn end(&self) {
        let incoming = locked(&self.incoming);
        self.ended.store(true, Ordering::SeqCst);
        drop(incoming);
        self.turned.notify_all();
    }

    /// Ends the connection, whoever reads or writes.
    pub(crate) fn cut(&self) {
        self.end();
        self.stream.cut();
    }

    pub(crate) fn patience(&self) -> Duration {
        self.limits.patience.request
    }

    pub(crate) fn is_structured(&self) -> bool {
        self.terms.structured
    }

    /// Whether it is a request, in good order, that is carried out together with others.
    pub(crate) fn is_ours(&self, request: &Request) -> bool {
        is_for_pumps(request) && check(request, self.terms).is_ok()
    }

    /// Whether these bytes begin with one, and there is room for it.
    fn is_for_pump(&self, ahead: &[u8]) -> bool {
        let request = ahead.first_chunk::<REQUEST_HEADER>().and_then(Request::parse);
        request.is_some_and(|request| {
            let length = usize::try_from(request.length).unwrap_or(usize::MAX);
            self.is_ours(&request) && self.budget.has(length) && self.own.has(length)
        })
    }

    /// Takes bytes from the connection's budgets, if they are free.
    pub(crate) fn take_at_once(&self, bytes: usize) -> Option<(Taken, Taken)> {
        Some((self.budget.take_at_once(bytes)?, self.own.take_at_once(bytes)?))
    }

    /// Somebody has to read on.
    fn took_one(self: &Arc<Self>) {
        let mut workers = locked(&self.workers);
        workers.idle -= 1;
        if workers.idle > 0 || workers.all >= WORKERS_MAX || self.ended.load(Ordering::SeqCst) {
            return;
        }
        let Some(place) = self.limits.workers.enter() else { return };
        let connection = Arc::clone(self);
        // Without a thread, those there are must do.
        let started = thread::Builder::new().name("nbd".into()).spawn(move || {
            connection.work();
            drop(place);
        });
        if started.is_ok() {
            workers.all += 1;
            workers.idle += 1;
        }
    }

    /// Takes bytes from both budgets.
    fn take(&self, bytes: usize) -> Option<(Taken, Taken)> {
        let is_in_vain = || self.ended.load(Ordering::SeqCst);
        let taken = self.budget.take(bytes, is_in_vain)?;
        loop {
            if let Some(own) = self.own.take_at_once(bytes) {
                return Some((taken, own));
            }
            let is_free = || self.own.take_at_once(bytes).is_some();
            if let Some(of_all) = self.limits.bytes.take(bytes, || is_in_vain() || is_free()) {
                return Some((taken, of_all));
            }
            if is_in_vain() {
                return None;
            }
        }
    }

    /// The next request, with a write's bytes. `None`: the client leaves in good order.
    fn receive(&self, incoming: &mut Incoming) -> io::Result<Option<Job>> {
        if let Some(kept) = self.stream.kept() {
            return self.receive_kept(incoming, kept);
        }
        let mut header = [0; REQUEST_HEADER];
        let (first, rest) = header.split_at_mut(1);
        if incoming.read_exact(first, None)?.is_none() {
            return Ok(None);
        }
        let deadline = Some(Instant::now() + self.limits.patience.request);
        incoming.read_exact(rest, deadline)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let Some(Begun { request, mut task, length, taken }) = self.begin(&header)? else {
            return Ok(None);
        };
        let mut payload = None;
        if request.kind == command::WRITE && length > 0 {
            if task == Ok(Task::Write) {
                payload = Buffer::try_unfilled(length);
            }
            match &mut payload {
                Some(payload) => {
                    // What waited for room was not the client's delay.
                    let deadline = Some(Instant::now() + self.limits.patience.request);
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
        Ok(Some(Job { request, slot: None, inside: None, task, payload, _taken: taken }))
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
        let Job { request, slot, inside, task, payload, _taken } = job;
        let Request { flags, cookie, offset, length, kind } = request;
        let mut found = Found::default();
        let changes = matches!(task, Ok(Task::Write | Task::Trim | Task::Zero { .. }));
        let inside = inside.or_else(|| changes.then(|| self.gate.enter(offset, length.into())));
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
                    return self.export.status(offset, length.into(), most).map(Some);
                }
                // Nothing is kept between the disks and the client.
                Task::Cache | Task::Nothing => {}
            }
            if changes && flags & flag::FUA != 0 {
                self.export.flush()?;
            }
            Ok(None)
        });
        if !self.note_end(slot, inside, done.as_ref().err()) {
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
        self.stream.answer(&[answer], Instant::now() + self.limits.patience.request, || ())
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
    fn what_lies_outside_is_refused_in_the_protocols_words() {
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
    fn flags_belong_to_their_requests() {
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
    fn what_is_too_long_or_not_allowed_is_refused() {
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
