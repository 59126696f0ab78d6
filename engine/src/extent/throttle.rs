//! Throttle: how fast mirrors move while client I/O has a latency target, attribute
//! `rebalance.latency_target`.
//!
//! The power of a rebalance says how many mirrors move at once at most. With a target every read,
//! write and sync of a front end is timed as well, and as long as mirrors move the 99th percentile
//! of each short window is compared with the target:
//!
//! - near the target or above: half as many moves at once; from one at a time on, a pause between
//!   them that doubles;
//! - well below: the pause is halved, and once there is none, one move more at once.
//!
//! So it begins with one move at a time, and finds by itself how much the disks can bear. A move
//! that has begun goes on: a front end waits on the disks for no more than the I/O of the moves in
//! flight. However slow the front ends are, the pause is limited, so that a rebalance ends.

use crate::sync::lock::{Mutex, MutexGuard};
use crate::world::World;
use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

/// The while after which latencies are looked at; and how many there should be, or how long it is
/// waited for them.
const WINDOW: Duration = Duration::from_millis(100);
const ENOUGH: u64 = 100;
const WINDOW_MAX: Duration = Duration::from_secs(1);

/// How often it is looked whether the next move may begin.
const TICK: Duration = Duration::from_millis(2);

/// The pause between moves, one at a time.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Latencies in steps of an eighth: from 1024 ns, in 30 octaves.
const OCTAVES: usize = 30;
const STEPS: usize = OCTAVES * 8;
const LEAST: u32 = 10;

/// The target, and how fast mirrors move for that.
#[derive(Debug)]
pub struct Throttle {
    /// Nanoseconds; 0: nothing was promised.
    target: AtomicU64,
    /// Of the window.
    seen: Latencies,
    /// Since discards were last compared with the target: they have rests, and longer windows.
    seen_beside_discards: Latencies,
    limits: Mutex<Limits>,
}

/// How many front-end requests took so long.
#[derive(Debug)]
struct Latencies([AtomicU32; STEPS]);

/// How the 99th percentile of front-end latencies compares with the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strain {
    /// Above it, or not far below.
    High,
    Middle,
    /// Less than half of it.
    Low,
}

#[derive(Debug)]
struct Limits {
    /// When the window began.
    since: Duration,
    at_once: u32,
    pause: Duration,
    /// Moves on their way, and when the last one began.
    on_way: u32,
    last: Duration,
}

/// A move on its way.
pub struct Moving<'a>(Option<&'a Throttle>);

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        if let Some(throttle) = self.0 {
            let mut limits = throttle.limits();
            limits.on_way = limits.on_way.saturating_sub(1);
        }
    }
}

impl Default for Throttle {
    fn default() -> Self {
        let limits = Limits {
            since: Duration::ZERO,
            at_once: 1,
            pause: Duration::ZERO,
            on_way: 0,
            last: Duration::ZERO,
        };
        Self {
            target: AtomicU64::new(0),
            seen: Latencies::default(),
            seen_beside_discards: Latencies::default(),
            limits: Mutex::new(limits),
        }
    }
}

/// The step of a latency.
fn step(latency: Duration) -> usize {
    let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1 << LEAST);
    let octave = nanoseconds.ilog2();
    let eighth = (nanoseconds >> (octave - 3)) & 7;
    (((octave - LEAST) as usize) * 8 + eighth as usize).min(STEPS - 1)
}

/// The latency at which a step ends.
fn end_of(step: usize) -> Duration {
    let (octave, eighth) = (step / 8, step as u64 % 8);
    Duration::from_nanos((9 + eighth) << (octave + LEAST as usize - 3))
}

impl Default for Latencies {
    fn default() -> Self {
        Self([const { AtomicU32::new(0) }; STEPS])
    }
}

impl Latencies {
    fn note(&self, latency: Duration) {
        self.0[step(latency)].fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(count.load(Ordering::Relaxed))).sum()
    }

    /// Above which latency one request in a hundred was, since it was asked last. Zero if there
    /// were none.
    fn take_slowest_hundredth(&self) -> Duration {
        let counts: Vec<u64> =
            self.0.iter().map(|count| u64::from(count.swap(0, Ordering::Relaxed))).collect();
        let mut above = counts.iter().sum::<u64>() / 100;
        for (step, count) in counts.iter().enumerate().rev() {
            if *count > above {
                return end_of(step);
            }
            above -= count;
        }
        Duration::ZERO
    }
}

impl Strain {
    fn of(slowest: Duration, target: Duration) -> Self {
        if slowest * 4 > target * 3 {
            Self::High
        } else if slowest * 2 < target {
            Self::Low
        } else {
            Self::Middle
        }
    }
}

impl Throttle {
    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock()
    }

    /// Promises a latency, or nothing any more.
    pub fn promise(&self, target: Option<Duration>) {
        let target =
            target.map_or(0, |target| u64::try_from(target.as_nanos()).unwrap_or(u64::MAX));
        if self.target.swap(target, Ordering::Relaxed) != target {
            let mut limits = self.limits();
            (limits.at_once, limits.pause) = (1, Duration::ZERO);
        }
    }

    fn target(&self) -> Option<Duration> {
        match self.target.load(Ordering::Relaxed) {
            0 => None,
            target => Some(Duration::from_nanos(target)),
        }
    }

    /// A request of a front end has ended, and took so long.
    pub fn end(&self, took: Duration) {
        if self.target().is_some() {
            self.note(took);
        }
    }

    fn note(&self, latency: Duration) {
        self.seen.note(latency);
        self.seen_beside_discards.note(latency);
    }

    /// How front ends fared since discards asked last. `None`: there is no target, or there were
    /// too few requests to say.
    pub fn strain_beside_discards(&self) -> Option<Strain> {
        let target = self.target().filter(|_| self.seen_beside_discards.count() >= ENOUGH)?;
        Some(Strain::of(self.seen_beside_discards.take_slowest_hundredth(), target))
    }

    /// Waits until another move may begin. Nothing to wait for if nothing was promised, or `is_off`
    /// says that it is not wanted any more.
    pub async fn admit(&self, world: &dyn World, is_off: impl Fn() -> bool) -> Moving<'_> {
        loop {
            let Some(target) = self.target().filter(|_| !is_off()) else { return Moving(None) };
            if self.may_begin(target, world.monotonic()) {
                return Moving(Some(self));
            }
            world.sleep(TICK).await;
        }
    }

    fn may_begin(&self, target: Duration, now: Duration) -> bool {
        let mut limits = self.limits();
        self.adjust(&mut limits, target, now);
        let may = limits.on_way < limits.at_once && now.saturating_sub(limits.last) >= limits.pause;
        if may {
            limits.on_way += 1;
            limits.last = now;
        }
        may
    }

    /// At the end of a window: faster or slower.
    fn adjust(&self, limits: &mut Limits, target: Duration, now: Duration) {
        let window = now.saturating_sub(limits.since);
        if window < WINDOW || (self.seen.count() < ENOUGH && window < WINDOW_MAX) {
            return;
        }
        limits.since = now;
        // Of a rebalance that did not run long ago nothing is known.
        let is_stale = window > 2 * WINDOW_MAX;
        let slowest = self.seen.take_slowest_hundredth();
        if is_stale {
            return;
        }
        match Strain::of(slowest, target) {
            Strain::High if limits.at_once > 1 => limits.at_once /= 2,
            Strain::High => limits.pause = (limits.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX),
            Strain::Middle => {}
            Strain::Low => {
                limits.pause /= 2;
                if limits.pause < PAUSE_MIN {
                    limits.pause = Duration::ZERO;
                    // More than are on their way anyhow would count later, all at once.
                    limits.at_once = (limits.at_once + 1).min(limits.on_way + 1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(2);

    /// Windows of a second with the given number of requests of these latencies, while every move
    /// that may begin does and ends at once or never. Returns how many are in flight.
    fn run(throttle: &Throttle, from: u64, windows: u64, latencies: &[(u64, u64)]) -> u32 {
        for window in 0..windows {
            for (count, micros) in latencies {
                (0..*count).for_each(|_| throttle.note(Duration::from_micros(*micros)));
            }
            let now = Duration::from_secs(from + window);
            while throttle.may_begin(TARGET, now) {
                if !throttle.limits().pause.is_zero() {
                    break;
                }
            }
        }
        throttle.limits().on_way
    }

    #[test]
    fn steps_are_an_eighth_apart() {
        for micros in [1, 2, 3, 10, 99, 1000, 1999, 123_456, 10_000_000] {
            let latency = Duration::from_micros(micros);
            let end = end_of(step(latency));
            assert!(
                end > latency && end <= latency * 9 / 8 + Duration::from_nanos(1024),
                "{latency:?} {end:?}"
            );
        }
        assert_eq!(step(Duration::ZERO), 0);
        assert_eq!(step(Duration::from_secs(1 << 40)), STEPS - 1);
    }

    /// One request in a hundred may be slower than that.
    #[test]
    fn the_99th_percentile_of_a_window() {
        let throttle = Throttle::default();
        (0..990).for_each(|_| throttle.note(Duration::from_micros(100)));
        (0..10).for_each(|_| throttle.note(Duration::from_millis(50)));
        assert!(throttle.seen.take_slowest_hundredth() < Duration::from_micros(130));
        assert_eq!(throttle.seen.take_slowest_hundredth(), Duration::ZERO);
        (0..980).for_each(|_| throttle.note(Duration::from_micros(100)));
        (0..20).for_each(|_| throttle.note(Duration::from_millis(50)));
        assert!(throttle.seen.take_slowest_hundredth() > Duration::from_millis(49));
    }

    /// Begun with one at a time; more and more while the front ends are fast, fewer and then with
    /// pauses when they are not.
    #[test]
    fn moves_go_as_fast_as_the_target_allows() {
        let throttle = Throttle::default();
        throttle.promise(Some(TARGET));
        assert_eq!(run(&throttle, 1, 1, &[(1000, 100)]), 1);
        let fast = run(&throttle, 2, 20, &[(1000, 100)]);
        assert!((15..=21).contains(&fast), "{fast}");
        // A few slow ones are no hundredth.
        assert!(run(&throttle, 22, 5, &[(1000, 100), (9, 90_000)]) > fast);
        let before = throttle.limits().at_once;
        run(&throttle, 27, 2, &[(1000, 100), (30, 3000)]);
        assert_eq!(throttle.limits().at_once, before / 4);
        run(&throttle, 29, 8, &[(1000, 3000)]);
        assert_eq!(throttle.limits().at_once, 1);
        assert!(throttle.limits().pause >= PAUSE_MIN, "{:?}", throttle.limits());
        run(&throttle, 37, 40, &[(1000, 3000)]);
        assert_eq!(throttle.limits().pause, PAUSE_MAX);
        // Between the two thresholds nothing changes; without client I/O it goes up again.
        run(&throttle, 77, 5, &[(1000, 1200)]);
        assert_eq!(throttle.limits().pause, PAUSE_MAX);
        run(&throttle, 82, 20, &[]);
        assert_eq!(throttle.limits().pause, Duration::ZERO);
    }
}
