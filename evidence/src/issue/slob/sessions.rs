//! The sessions of a SLOB run, with the two processes that write for them, as a source of requests.
//!
//! ```text
//!   session:   choose --> read WORK_UNIT blocks, one after the other --> query: think, choose
//!                |                                     +--> update: its blocks go to the database
//!                |                                          writer, its redo to the log writer;
//!                |                                          log written --> think, choose
//!                +--> scan: read the scan table in large pieces --> think, choose
//!   database writer:   writes blocks from a queue, many at a time; sessions wait if it is full
//!   log writer:        one durable write at a time, of all redo that has come meanwhile
//! ```
//!
//! There is no buffer cache: every block that an operation touches is read.
//!
//! Several instances share the sessions, as those of a cluster do: each has its own writers, its
//! own part of the log and its own thread. They share blocks.

use super::{Event, conf::Parameters};
use crate::issue::{
    arrival::unit,
    drive::nanoseconds,
    engine::Kind,
    lanes::Limits,
    recorder::Tally,
    verify::Versions,
    worker::{Due, Request, Source},
};
use plinth_workload::{lock, random::Random};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    ops::Range,
    sync::{Arc, Mutex},
};

/// Writes of the database writer in flight.
pub const WRITER_DEPTH: usize = 64;
/// Blocks that wait for it before sessions do.
const DIRTY_MAX: usize = 16_384;
/// Bytes of a piece of a scan, and the most of a log write.
pub const PIECE: u64 = 1 << 20;
/// Redo of a changed block, in bytes.
const REDO_LITE: u64 = 512;
const REDO_HEAVY: u64 = 4096;

/// Where things are.
#[derive(Debug, Clone)]
pub struct Layout {
    pub block: u64,
    /// Blocks of a schema, without and with its scan table.
    pub scale: u64,
    pub scan: u64,
    pub targets: usize,
    /// Bytes of each target for blocks; the log is behind.
    pub data: u64,
    pub log: u64,
}

impl Layout {
    /// Pieces take turns on targets: as blocks do, and large pieces stay in one.
    fn place(&self, piece: u64, bytes: u64) -> (usize, u64) {
        let targets = self.targets as u64;
        ((piece % targets) as usize, piece / targets * bytes)
    }

    fn of_schema(&self, schema: u64) -> u64 {
        schema * (self.scale + self.scan)
    }
}

/// Beside requests.
#[derive(Debug, Default)]
pub struct Counters {
    pub executes: u64,
    /// Of sessions for the log writer.
    pub syncs: Tally,
}

/// Of all instances.
#[derive(Clone, Default)]
pub struct Shared {
    pub limits: Arc<Limits>,
    pub counters: Arc<Mutex<Counters>>,
    /// None: reads are not verified.
    pub versions: Option<Arc<Versions>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Query,
    Update,
    Scan,
}

#[derive(Debug)]
struct Session {
    schema: u64,
    random: Random,
    /// The next hundred operations, in random order.
    acts: Vec<Act>,
    act: Act,
    /// Requests of the operation that are left.
    left: u64,
    operations: u64,
    is_hot: bool,
    /// Blocks that an update has read.
    touched: Vec<(usize, u64)>,
    /// Of this operation, the schema.
    at: u64,
}

/// See above.
pub struct Sessions {
    parameters: Parameters,
    layout: Layout,
    shared: Shared,
    begin: u64,
    sessions: Vec<Session>,
    /// Sessions that can issue now.
    ready: VecDeque<usize>,
    /// And those that think, by the time of their end.
    thinking: BinaryHeap<Reverse<(u64, usize)>>,
    /// Sessions that wait for the database writer.
    blocked: VecDeque<usize>,
    dirty: VecDeque<(usize, u64)>,
    writing: usize,
    /// Redo that is not written: bytes, and sessions with the time since when they wait.
    redo: u64,
    committing: Vec<(usize, u64)>,
    /// Those whose redo is in the write in flight.
    in_log: Vec<(usize, u64)>,
    is_logging: bool,
    /// The instance's part of the log on each target.
    log: Range<u64>,
    log_next: u64,
    log_target: usize,
}

/// Nanoseconds until blocks are tried again that another instance writes.
const AGAIN: u64 = 100_000;

const WRITER: usize = usize::MAX;
const LOG: usize = usize::MAX - 1;

impl Sessions {
    /// Those of one of `instances`.
    #[must_use]
    pub fn new(
        parameters: Parameters,
        layout: Layout,
        shared: Shared,
        begin: u64,
        seed: u64,
        (instance, instances): (u64, u64),
    ) -> Self {
        let count = parameters.schemas * parameters.threads_per_schema;
        let session = |number: u64| Session {
            schema: number % parameters.schemas,
            random: Random::new(seed ^ number << 32),
            acts: Vec::new(),
            act: Act::Query,
            left: 0,
            operations: 0,
            is_hot: false,
            touched: Vec::new(),
            at: 0,
        };
        let sessions: Vec<Session> =
            (instance..count).step_by(instances as usize).map(session).collect();
        let of_instance = layout.log / instances / PIECE * PIECE;
        let log_begin = layout.data + of_instance * instance;
        Self {
            ready: (0..sessions.len()).collect(),
            sessions,
            log: log_begin..log_begin + of_instance,
            log_next: log_begin,
            parameters,
            layout,
            shared,
            begin,
            thinking: BinaryHeap::new(),
            blocked: VecDeque::new(),
            dirty: VecDeque::new(),
            writing: 0,
            redo: 0,
            committing: Vec::new(),
            in_log: Vec::new(),
            is_logging: false,
            log_target: 0,
        }
    }

    fn request(&self, event: Event, place: (usize, u64), length: u64, token: usize) -> Request {
        Request {
            class: event as usize,
            target: place.0,
            offset: place.1,
            length: length as usize,
            kind: match event {
                Event::Read | Event::Scan => Kind::Read,
                Event::Write => Kind::Write,
                Event::LogWrite => Kind::DurableWrite,
            },
            start: None,
            ticket: None,
            token,
        }
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.sessions.len()
    }

    /// With the ticket of a read that is verified. A block that is being written meanwhile is not.
    fn read(&self, event: Event, place: (usize, u64), length: u64, token: usize) -> Due {
        let versions = self.shared.versions.as_ref();
        let ticket = versions.and_then(|versions| versions.begin_read(place.0, place.1, length));
        Due::Now(Request { ticket, ..self.request(event, place, length, token) })
    }

    /// The next block of the database writer. One that is being written waits behind the others.
    fn block_write(&mut self) -> Option<Due> {
        let length = self.layout.block;
        for _ in 0..self.dirty.len().min(WRITER_DEPTH) {
            let place = self.dirty.pop_front()?;
            let mut request = self.request(Event::Write, place, length, WRITER);
            if let Some(versions) = &self.shared.versions {
                if !versions.begin_write(place.0, place.1, length) {
                    self.dirty.push_back(place);
                    continue;
                }
                request.ticket = Some(versions.next());
            }
            self.writing += 1;
            return Some(Due::Now(request));
        }
        None
    }

    fn log_write(&mut self) -> Due {
        self.is_logging = true;
        self.in_log = std::mem::take(&mut self.committing);
        let length = self.redo.next_multiple_of(512).min(PIECE);
        self.redo = self.redo.saturating_sub(length);
        if self.log_next + length > self.log.end {
            self.log_next = self.log.start;
        }
        let place = (self.log_target, self.log_next);
        self.log_target = (self.log_target + 1) % self.layout.targets;
        // Each target has the same stretch of its log, one after the other.
        if self.log_target == 0 {
            self.log_next += length.next_multiple_of(4096);
        }
        Due::Now(self.request(Event::LogWrite, place, length, LOG))
    }

    fn session_request(&mut self, number: usize) -> Due {
        let Self { sessions, parameters, layout, .. } = self;
        let session = &mut sessions[number];
        if session.left == 0 {
            begin_operation(session, parameters, layout);
        }
        session.left -= 1;
        let first = layout.of_schema(session.at);
        if session.act == Act::Scan {
            let blocks = PIECE / layout.block;
            let piece = (first + layout.scale).div_ceil(blocks) + session.left;
            let place = layout.place(piece, PIECE);
            return self.read(Event::Scan, place, PIECE, number);
        }
        let (from, count) = if session.is_hot {
            let blocks = |mb: u64| mb * (1 << 20) / layout.block;
            (blocks(parameters.hotspot_offset_mb), blocks(parameters.hotspot_mb))
        } else {
            (0, layout.scale)
        };
        let block = first + from + session.random.number() % count.max(1);
        let place = layout.place(block, layout.block);
        if session.act == Act::Update {
            session.touched.push(place);
        }
        self.read(Event::Read, place, self.layout.block, number)
    }

    /// An operation of a session has ended.
    fn end_operation(&mut self, number: usize, now: u64) {
        if now >= self.begin && now < self.shared.limits.end() {
            lock(&self.shared.counters).executes += 1;
        }
        let Self { sessions, parameters, .. } = self;
        let session = &mut sessions[number];
        session.operations += 1;
        if parameters.work_loop > 0 && session.operations >= parameters.work_loop {
            return;
        }
        let frequency = parameters.think_frequency;
        if frequency > 0 && session.operations.is_multiple_of(frequency) {
            let range = parameters.think_max - parameters.think_min;
            let seconds = parameters.think_min + unit(&mut session.random) * range;
            self.thinking.push(Reverse((now + nanoseconds(seconds), number)));
        } else {
            self.ready.push_back(number);
        }
    }

    fn commit(&mut self, number: usize, now: u64) {
        let session = &mut self.sessions[number];
        let of_block = if self.parameters.is_redo_heavy { REDO_HEAVY } else { REDO_LITE };
        self.redo += session.touched.len() as u64 * of_block;
        self.dirty.extend(session.touched.drain(..));
        self.committing.push((number, now));
    }

    fn session_ended(&mut self, number: usize, now: u64) {
        let session = &self.sessions[number];
        match (session.left, session.act) {
            (0, Act::Update) => self.commit(number, now),
            (0, _) => self.end_operation(number, now),
            _ => self.ready.push_back(number),
        }
    }

    fn log_ended(&mut self, now: u64) {
        self.is_logging = false;
        for (number, since) in std::mem::take(&mut self.in_log) {
            if since >= self.begin {
                lock(&self.shared.counters).syncs.add(now.saturating_sub(since), 0);
            }
            self.end_operation(number, now);
        }
    }
}

fn begin_operation(session: &mut Session, parameters: &Parameters, layout: &Layout) {
    if session.acts.is_empty() {
        session.acts = hundred(parameters);
        session.random.shuffle(&mut session.acts);
    }
    session.act = session.acts.pop().unwrap_or(Act::Query);
    let number = session.operations + 1;
    let is_turn = |of: u64| of > 0 && number.is_multiple_of(of);
    session.is_hot = parameters.has_hotspot && is_turn(parameters.hotspot_frequency);
    session.at = if is_turn(parameters.hot_schema_frequency) { 0 } else { session.schema };
    session.left = match session.act {
        Act::Scan => (layout.scan * layout.block / PIECE).saturating_sub(1).max(1),
        _ => parameters.work_unit,
    };
}

/// A hundred operations in the shares that are wanted.
fn hundred(parameters: &Parameters) -> Vec<Act> {
    let queries = 100 - parameters.update_pct.min(100);
    let scans = (f64::from(queries) * f64::from(parameters.scan_pct) / 100.0).round() as u32;
    let of = |act: Act, count: u32| std::iter::repeat_n(act, count as usize);
    of(Act::Update, 100 - queries)
        .chain(of(Act::Scan, scans))
        .chain(of(Act::Query, queries - scans))
        .collect()
}

impl Source for Sessions {
    fn due(&mut self, now: u64) -> Due {
        if now >= self.shared.limits.end() {
            return Due::Over;
        }
        if !self.is_logging && !self.committing.is_empty() {
            return self.log_write();
        }
        if self.writing < WRITER_DEPTH
            && let Some(write) = self.block_write()
        {
            return write;
        }
        while let Some(Reverse((then, number))) = self.thinking.peek().copied()
            && then <= now
        {
            self.thinking.pop();
            self.ready.push_back(number);
        }
        if self.dirty.len() > DIRTY_MAX {
            self.blocked.append(&mut self.ready);
        } else {
            self.ready.append(&mut self.blocked);
        }
        if let Some(number) = self.ready.pop_front() {
            return self.session_request(number);
        }
        if self.writing == 0 && !self.dirty.is_empty() {
            // Another instance is writing those blocks.
            return Due::At(now + AGAIN);
        }
        let is_busy = self.is_logging || self.writing > 0 || !self.blocked.is_empty();
        match self.thinking.peek() {
            Some(Reverse((then, _))) => Due::At(*then),
            None if is_busy => Due::Idle,
            // Those that have ended all their operations come no more.
            None if self.is_done() => Due::Over,
            None => Due::Idle,
        }
    }

    fn ended(&mut self, request: &Request, now: u64) {
        match request.token {
            WRITER => self.writing -= 1,
            LOG => self.log_ended(now),
            number => self.session_ended(number, now),
        }
    }

    fn is_open(&self) -> bool {
        false
    }
}

impl Sessions {
    /// Whether each session has done all its operations.
    fn is_done(&self) -> bool {
        let most = self.parameters.work_loop;
        most > 0 && self.sessions.iter().all(|session| session.operations >= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_operations_have_the_shares_that_are_wanted() {
        let parameters = Parameters { update_pct: 20, scan_pct: 10, ..Parameters::default() };
        let acts = hundred(&parameters);
        let count = |act| acts.iter().filter(|other| **other == act).count();
        assert_eq!((count(Act::Update), count(Act::Scan), count(Act::Query)), (20, 8, 72));
    }

    fn sessions(parameters: Parameters) -> (Sessions, Arc<Mutex<Counters>>) {
        let shared = Shared::default();
        let layout = Layout {
            block: 8192,
            scale: 10_000,
            scan: 256,
            targets: 2,
            data: 1 << 30,
            log: 1 << 24,
        };
        let counters = Arc::clone(&shared.counters);
        (Sessions::new(parameters, layout, shared, 0, 1, (0, 1)), counters)
    }

    /// Each request ends at once. Requests by event, and log writes that came while one was in
    /// flight.
    fn drive(source: &mut Sessions) -> [u64; 4] {
        let mut counts = [0; 4];
        let mut in_flight = VecDeque::new();
        let mut now = 0;
        loop {
            now += 1_000;
            match source.due(now) {
                Due::Now(request) => {
                    counts[request.class] += 1;
                    in_flight.push_back(request);
                    let logs = in_flight.iter().filter(|r| r.class == Event::LogWrite as usize);
                    assert!(logs.count() <= 1, "one log write at a time");
                }
                Due::At(then) => now = then,
                Due::Idle => {
                    let request = in_flight.pop_front().expect("something is in flight");
                    source.ended(&request, now);
                }
                Due::Over => return counts,
            }
        }
    }

    #[test]
    fn operations_make_the_requests_of_their_shares() {
        let parameters = Parameters {
            update_pct: 25,
            work_loop: 100,
            schemas: 4,
            threads_per_schema: 2,
            ..Parameters::default()
        };
        let (mut source, counters) = sessions(parameters);
        let [reads, scans, writes, logs] = drive(&mut source);
        assert_eq!((reads, scans), (8 * 100 * 64, 0));
        assert_eq!(writes, 8 * 25 * 64);
        assert!((25..=200).contains(&logs), "{logs}");
        let counters = lock(&counters);
        assert_eq!((counters.executes, counters.syncs.requests), (800, 200));
    }

    #[test]
    fn scans_read_large_pieces_and_thinking_sessions_come_back() {
        let parameters = Parameters {
            update_pct: 0,
            scan_pct: 50,
            work_loop: 100,
            think_frequency: 5,
            ..Parameters::default()
        };
        let (mut source, _) = sessions(parameters);
        let [reads, scans, writes, logs] = drive(&mut source);
        assert_eq!((reads, scans, writes, logs), (50 * 64, 50, 0, 0));
    }
}
