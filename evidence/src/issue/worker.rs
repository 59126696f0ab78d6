//! The loop of one thread: issues requests when they are due, and measures those that have ended.
//!
//! ```text
//!   source --due--> buffer filled --> engine --ended--> verified --> tally --every second--> sink
//!      ^                                                  |
//!      +--------------------------------------------------+
//! ```
//!
//! Invariants:
//!
//! 1. A request that was due while the target or this thread was busy counts from the time at which
//!    it was due. One exception: if this thread slept, with nothing else to do, and its timer ended
//!    late, by [`LAG_MAX`] at most, then that is the host's delay and not the target's. It is
//!    counted by itself ([`Ending::lag`]).
//! 2. A request counts for the second in which it has ended. Those that were due before the time
//!    from which is measured do not count.

use super::{
    engine::{Ended, Engine, Io, Kind, Wait},
    recorder::{INTERVAL, Tally},
    stamp::Stamp,
    verify::{Versions, Wrong},
};
use std::{io, ops::Range, sync::Arc};

/// The most by which a timer's lateness is not counted as latency, in nanoseconds.
pub const LAG_MAX: u64 = 1_000_000;
/// Requests that are begun before the kernel hears of them.
const BATCH: usize = 32;

/// A transfer that a source wants.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Number of its class, for slots and tallies.
    pub class: usize,
    pub target: usize,
    pub offset: u64,
    pub length: usize,
    pub kind: Kind,
    /// From when its latency counts; None: from when it is issued.
    pub start: Option<u64>,
    /// The version of a write, the begin of a read for [`Versions::check`]; None: not verified.
    pub ticket: Option<u64>,
    /// Of the source.
    pub token: usize,
}

/// The next request.
#[derive(Debug)]
pub enum Due {
    Now(Request),
    /// None before that time.
    At(u64),
    /// None before one has ended.
    Idle,
    /// None any more.
    Over,
}

/// Where requests come from.
pub trait Source {
    fn due(&mut self, now: u64) -> Due;

    fn ended(&mut self, request: &Request, now: u64);

    /// The thread was to wake at `from` and woke at `to`.
    fn woke_late(&mut self, from: u64, to: u64) {
        let _ = (from, to);
    }

    /// Whether requests have times at which they are due: then the kernel hears of them at once.
    fn is_open(&self) -> bool;

    /// Requests that were due and were not issued.
    fn unissued(&self) -> u64 {
        0
    }
}

/// Where measurements go.
pub trait Sink {
    /// The requests of a thread up to the end of an interval, counted from 0, since the last call.
    fn interval(&self, thread: usize, number: u64, tallies: &[Tally]);

    /// The same of an interval that has only begun: the thread hands over no more.
    fn rest(&self, thread: usize, number: u64, tallies: &[Tally]);

    fn wrong(&self, wrong: &Wrong);

    fn failed(&self, request: &Request, error: &io::Error);
}

/// How bytes of writes are made and those of reads are verified.
#[derive(Clone)]
pub struct Data {
    pub stamp: Stamp,
    /// Of the first write that is not verified.
    pub version: u64,
    pub versions: Option<Arc<Versions>>,
}

/// Lateness of timers in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lag {
    pub count: u64,
    pub sum: u64,
    pub max: u64,
}

/// How a worker has ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ending {
    pub unissued: u64,
    pub lag: Lag,
    /// When its last request has ended.
    pub last: u64,
}

pub struct Worker<'a, E> {
    engine: E,
    sink: &'a dyn Sink,
    data: Data,
    thread: usize,
    /// From when is measured.
    begin: u64,
    /// Free slots of each class.
    free: Vec<Vec<usize>>,
    /// By slot: its request, and when it was issued.
    requests: Vec<Option<(Request, u64)>>,
    in_flight: usize,
    tallies: Vec<Tally>,
    interval: u64,
    ending: Ending,
}

impl<'a, E: Engine> Worker<'a, E> {
    /// `slots` are those of each class.
    pub fn new(
        engine: E,
        sink: &'a dyn Sink,
        data: Data,
        thread: usize,
        begin: u64,
        slots: &[Range<usize>],
    ) -> Self {
        let count = slots.last().map_or(0, |last| last.end);
        Self {
            engine,
            sink,
            data,
            thread,
            begin,
            free: slots.iter().map(|range| range.clone().rev().collect()).collect(),
            requests: vec![None; count],
            in_flight: 0,
            tallies: vec![Tally::default(); slots.len()],
            interval: 0,
            ending: Ending::default(),
        }
    }

    /// Until the source is over and all has ended.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn run(mut self, source: &mut dyn Source) -> io::Result<Ending> {
        let mut ended = Vec::new();
        loop {
            let now = self.engine.now();
            self.hand_over(now);
            let (count, wait) = self.begin_due(source, now)?;
            let Some(wait) = wait else { break };
            let wait = if count > 0 && source.is_open() { Wait::No } else { wait };
            let before = self.engine.now();
            self.engine.go(wait, &mut ended)?;
            let after = self.engine.now();
            if let Wait::Until(due) = wait
                && before < due
                && due <= after
            {
                self.note_lag(source, due, after);
            }
            for ended in ended.drain(..) {
                self.end(source, ended, after);
            }
        }
        self.ending.unissued = source.unissued();
        self.sink.rest(self.thread, self.interval, &self.tallies);
        Ok(self.ending)
    }

    fn note_lag(&mut self, source: &mut dyn Source, due: u64, after: u64) {
        let lag = after - due;
        self.ending.lag.count += 1;
        self.ending.lag.sum += lag;
        self.ending.lag.max = self.ending.lag.max.max(lag);
        if lag <= LAG_MAX {
            source.woke_late(due, after);
        }
    }

    /// Tallies of intervals that have ended.
    fn hand_over(&mut self, now: u64) {
        while now >= self.interval_end() {
            self.sink.interval(self.thread, self.interval, &self.tallies);
            self.tallies.iter_mut().for_each(Tally::clear);
            self.interval += 1;
        }
    }

    fn interval_end(&self) -> u64 {
        self.begin + (self.interval + 1) * INTERVAL
    }

    /// Begins requests that are due. Returns how many, and how to wait for more; None: it is over.
    fn begin_due(
        &mut self,
        source: &mut dyn Source,
        mut now: u64,
    ) -> io::Result<(usize, Option<Wait>)> {
        for count in 0..BATCH {
            match source.due(now) {
                Due::Now(request) => now = self.issue(&request, now)?,
                Due::At(then) => {
                    return Ok((count, Some(Wait::Until(then.min(self.interval_end())))));
                }
                Due::Over if self.in_flight == 0 => return Ok((count, None)),
                Due::Idle | Due::Over => {
                    return Ok((count, Some(Wait::Until(self.interval_end()))));
                }
            }
        }
        Ok((BATCH, Some(Wait::No)))
    }

    /// Returns the time.
    fn issue(&mut self, request: &Request, now: u64) -> io::Result<u64> {
        let slot = self.free[request.class].pop();
        let slot = slot.ok_or_else(|| io::Error::other("more requests than slots"))?;
        let mut now = now;
        if request.kind != Kind::Read {
            let version = request.ticket.unwrap_or(self.data.version);
            self.data.version += 1;
            let bytes = &mut self.engine.buffer(slot)[..request.length];
            self.data.stamp.fill(bytes, request.target, request.offset, version);
            now = self.engine.now();
        }
        let Request { target, offset, length, kind, .. } = *request;
        self.engine.push(Io { slot, target, offset, length, kind })?;
        self.requests[slot] = Some((*request, request.start.unwrap_or(now)));
        self.in_flight += 1;
        Ok(now)
    }

    fn end(&mut self, source: &mut dyn Source, ended: Ended, now: u64) {
        let Some((request, start)) = self.requests[ended.slot].take() else { return };
        self.in_flight -= 1;
        let result = ended.result.and_then(|bytes| {
            if bytes == request.length {
                Ok(())
            } else {
                Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("{bytes} bytes of {}", request.length),
                ))
            }
        });
        self.verify(&request, ended.slot, result.is_ok());
        self.free[request.class].push(ended.slot);
        let tally = &mut self.tallies[request.class];
        match result {
            Ok(()) if start >= self.begin => {
                tally.add(now.saturating_sub(start), request.length as u64);
            }
            Ok(()) => {}
            Err(error) => {
                tally.errors += 1;
                self.sink.failed(&request, &error);
            }
        }
        self.ending.last = now;
        source.ended(&request, now);
    }

    fn verify(&mut self, request: &Request, slot: usize, is_right: bool) {
        let (Some(versions), Some(ticket)) = (&self.data.versions, request.ticket) else { return };
        let Request { target, offset, length, .. } = *request;
        if request.kind != Kind::Read {
            versions.end_write(target, offset, length as u64, is_right.then_some(ticket));
        } else if is_right {
            let bytes = &self.engine.buffer(slot)[..length];
            if let Err(wrong) = versions.check(target, offset, bytes, ticket) {
                self.sink.wrong(&wrong);
            }
        }
    }
}
