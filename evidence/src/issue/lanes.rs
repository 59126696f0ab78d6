//! The classes of a model on one thread, as a source of requests: each has a lane.
//!
//! Invariants:
//!
//! 1. Classes do not wait for each other: each has its own schedule and its own depth.
//! 2. A log has one lane of depth 1 on one thread: each write is durable before the next begins.

use super::{
    arrival::Schedule,
    engine::Kind,
    place::Places,
    verify::Versions,
    worker::{Due, Request, Source},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Places that are tried until one is free of writes in flight.
const TRIES: usize = 1_000;
/// After that, in nanoseconds, it is tried again.
const AGAIN: u64 = 100_000;

/// When a run ends, for all threads.
#[derive(Debug)]
pub struct Limits {
    /// Requests that are due from here on are not issued.
    pub end: AtomicU64,
    /// Nor are those that were due before, but not issued.
    pub abandon: AtomicU64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { end: AtomicU64::new(u64::MAX), abandon: AtomicU64::new(u64::MAX) }
    }
}

impl Limits {
    pub fn set(&self, end: u64, abandon: u64) {
        self.end.fetch_min(end, Ordering::Relaxed);
        self.abandon.fetch_min(abandon, Ordering::Relaxed);
    }

    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    fn is_abandoned(&self, now: u64) -> bool {
        now >= self.abandon.load(Ordering::Relaxed)
    }
}

/// How a lane is paced.
#[derive(Debug, Clone)]
pub enum Pace {
    /// At times that are fixed.
    Open(Schedule),
    /// Not before these times, and not before one has ended.
    Closed(Schedule),
    /// As soon as one has ended.
    Unpaced,
}

/// Bytes of the requests of a class: of one size, or of two that take turns so that their mean is
/// the wanted one. Places are as far apart as the larger needs.
#[derive(Debug, Clone)]
pub struct Sizes {
    larger: usize,
    smaller: usize,
    /// The share of the smaller, from 0 to 1, and what of it is due.
    share: f64,
    due: f64,
}

impl Sizes {
    #[must_use]
    pub fn fixed(size: usize) -> Self {
        Self { larger: size, smaller: size, share: 0.0, due: 0.0 }
    }

    /// `larger`, or a sector less, for a mean of `mean` bytes.
    #[must_use]
    pub fn of_mean(mean: f64, larger: usize, sector: usize) -> Self {
        if larger <= sector || mean >= larger as f64 {
            return Self::fixed(larger);
        }
        let share = ((larger as f64 - mean) / sector as f64).clamp(0.0, 1.0);
        Self { larger, smaller: larger - sector, share, due: 0.0 }
    }

    fn next(&mut self) -> usize {
        self.due += self.share;
        if self.due < 1.0 {
            return self.larger;
        }
        self.due -= 1.0;
        self.smaller
    }
}

/// A class on this thread.
#[derive(Debug, Clone)]
pub struct Lane {
    class: usize,
    sizes: Sizes,
    kind: Kind,
    places: Places,
    schedule: Option<Schedule>,
    is_open: bool,
    /// When the next request is due.
    due: u64,
    depth: usize,
    in_flight: usize,
    /// Requests in a second.
    rate: f64,
    /// See [`Source::woke_late`].
    excused: (u64, u64),
}

impl Lane {
    /// `rate` is that of this thread.
    #[must_use]
    pub fn new(
        class: usize,
        sizes: Sizes,
        kind: Kind,
        places: Places,
        pace: Pace,
        depth: usize,
        rate: f64,
    ) -> Self {
        let is_open = matches!(pace, Pace::Open(_));
        let mut schedule = match pace {
            Pace::Open(schedule) | Pace::Closed(schedule) => Some(schedule),
            Pace::Unpaced => None,
        };
        let due = schedule.as_mut().and_then(Iterator::next).unwrap_or(0);
        Self {
            class,
            sizes,
            kind,
            places,
            schedule,
            is_open,
            due,
            depth,
            in_flight: 0,
            rate,
            excused: (1, 0),
        }
    }

    /// The place of a request and its ticket.
    fn place(
        &mut self,
        length: u64,
        versions: Option<&Versions>,
    ) -> Option<(usize, u64, Option<u64>)> {
        for _ in 0..TRIES {
            let (target, offset) = self.places.next();
            let Some(versions) = versions else { return Some((target, offset, None)) };
            let ticket = if self.kind == Kind::Read {
                versions.begin_read(target, offset, length)
            } else {
                versions.begin_write(target, offset, length).then(|| versions.next())
            };
            if ticket.is_some() {
                return Some((target, offset, ticket));
            }
            self.places.avoid();
        }
        None
    }

    fn start(&self) -> Option<u64> {
        let (from, to) = self.excused;
        let is_excused = (from..=to).contains(&self.due);
        self.is_open.then_some(if is_excused { to } else { self.due })
    }

    fn step(&mut self) {
        if let Some(due) = self.schedule.as_mut().and_then(Iterator::next) {
            self.due = due;
        }
    }
}

/// See above.
pub struct Lanes {
    lanes: Vec<Lane>,
    limits: Arc<Limits>,
    versions: Option<Arc<Versions>>,
    unissued: f64,
}

impl Lanes {
    #[must_use]
    pub fn new(lanes: Vec<Lane>, limits: Arc<Limits>, versions: Option<Arc<Versions>>) -> Self {
        Self { lanes, limits, versions, unissued: 0.0 }
    }

    /// The lane whose request is due first, of those that have room.
    fn first(&self, end: u64) -> Option<usize> {
        let ready = self.lanes.iter().enumerate();
        let ready = ready.filter(|(_, lane)| lane.in_flight < lane.depth && lane.due < end);
        ready.min_by_key(|(_, lane)| lane.due).map(|(number, _)| number)
    }

    fn abandon(&mut self, end: u64, now: u64) -> Due {
        for lane in self.lanes.iter().filter(|lane| lane.is_open) {
            // A request that is not due yet at the end was never wanted.
            let behind = end.min(now).saturating_sub(lane.due);
            self.unissued += behind as f64 / 1e9 * lane.rate;
        }
        self.lanes.clear();
        Due::Over
    }
}

impl Source for Lanes {
    fn due(&mut self, now: u64) -> Due {
        let end = self.limits.end();
        if self.limits.is_abandoned(now) {
            return self.abandon(end, now);
        }
        let Some(number) = self.first(end) else {
            let is_over = |lane: &Lane| lane.due >= end || (!lane.is_open && now >= end);
            return if self.lanes.iter().all(is_over) { Due::Over } else { Due::Idle };
        };
        let lane = &mut self.lanes[number];
        if !lane.is_open && now >= end {
            return Due::Over;
        }
        if lane.due > now {
            return Due::At(lane.due);
        }
        let length = lane.sizes.next();
        let versions = self.versions.as_deref();
        let Some((target, offset, ticket)) = lane.place(length as u64, versions) else {
            return Due::At(now + AGAIN);
        };
        let start = lane.start();
        lane.step();
        lane.in_flight += 1;
        Due::Now(Request {
            class: lane.class,
            target,
            offset,
            length,
            kind: lane.kind,
            start,
            ticket,
            token: number,
        })
    }

    fn ended(&mut self, request: &Request, _: u64) {
        if let Some(lane) = self.lanes.get_mut(request.token) {
            lane.in_flight -= 1;
        }
    }

    fn woke_late(&mut self, from: u64, to: u64) {
        // One without room waits for the target.
        for lane in self.lanes.iter_mut().filter(|lane| lane.in_flight < lane.depth) {
            lane.excused = (from, to);
        }
    }

    fn is_open(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_open)
    }

    fn unissued(&self) -> u64 {
        self.unissued.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sizes_take_turns_so_that_their_mean_is_the_wanted_one() {
        for (mean, larger, sector) in [
            (7915.0, 8192, 512),
            (9273.0, 9728, 512),
            (176_205.0, 176_640, 512),
            (7915.0, 8192, 4096),
        ] {
            let mut sizes = Sizes::of_mean(mean, larger, sector);
            let sum: usize = (0..10_000).map(|_| sizes.next()).sum();
            let found = sum as f64 / 10_000.0;
            assert!((found - mean).abs() < 1.0, "{found} instead of {mean}");
        }
        let mut fixed = Sizes::of_mean(300.0, 512, 512);
        assert_eq!((fixed.next(), fixed.next()), (512, 512), "no request is smaller than a sector");
    }
}
