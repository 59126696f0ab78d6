//! Which mirror a front end's read goes to.
//!
//! Each disk has a [`ReadGauge`]: the latency of its reads, and the reads in flight. Of the mirrors
//! that can be read, [`choose`] takes
//!
//! ```text
//!   1. those in preferred failure groups, if there is one: the others are not even explored
//!   2. of these, those that are expected to be about as fast as the fastest
//!   3. of these, the one with the least in flight; of equal ones, the one whose turn it is
//! ```
//!
//! The latency that is expected of a disk comes from its *estimate*, an exponentially weighted mean
//! of its latencies, each counted as [`PEAK`] times its quickest recent one at most. It is scaled
//! by the number of reads in flight: the measured reads had some beside them, the next read has the
//! present number, and [`QUEUE_DOUBLES`] more double the latency. (Rule 3 counts bytes, not reads.)
//! Reads of different lengths are not compared: there is an estimate for each of the [`CLASSES`] of
//! lengths, so that a disk that happened to serve long reads does not count as slow. A disk without
//! an estimate is expected to be as fast as the others.
//!
//! Latencies have two humps if a disk or an array has a cache: 0.1 ms, or 3 to 15. Their plain mean
//! says which hump the last reads were in, and not how far away the disk is. So a latency above
//! [`PEAK`] times the quickest of the last [`WINDOW`] to twice as many reads counts as that limit:
//! a disk that is 0.3 ms farther away is slower in its quick reads, and they count. A disk that is
//! slow in all its reads has no quick ones left after a window. And a disk that became slower only
//! in its slow reads is found by its plain mean: if that is [`GROSS`] times the longest of the last
//! reads of another mirror, the plain mean is expected.
//!
//! A disk that does not answer is avoided before it has answered: while it has reads in flight and
//! has ended none for longer than its reads ever take, the length of this silence is the latency
//! that is expected of it.
//!
//! A disk that is *set aside*, because it is expected to be slower, gets no reads that would
//! measure it. So it is explored (probed): after [`EXPLORE_PASSED`] reads have gone to other disks,
//! one of them is repeated on it by a task of its own (`latency_probe.rs`), and the answer is
//! dropped. No program waits for it. A disk is explored by one read at a time, and rests between
//! them, longer the slower it is. Its estimate falls by half at once, so that a disk that has
//! recovered is used again after a few explorations.
//!
//! Invariants:
//!
//!   1. A choice takes no lock and allocates nothing, and depends on nothing but the gauges, the
//!      clock and whose turn it is.
//!   2. The count that [`ReadGauge::begin`] adds is taken back when its [`Reading`] is
//!      dropped, however the read ended.
//!   3. Of one disk at most one read in [`EXPLORE_PASSED`] that could have gone there is an
//!      exploration: with two disks set aside, less than 2 % of all reads.
//!
//! Numbers are loaded and stored without order between them: of two reads that end at once one may
//! go uncounted, which does no harm.

#[cfg(test)]
mod tests;

use crate::{
    completion::Took,
    disk::{disk_io::IoResult, members::MIRRORS_MAX},
    world::World,
};
use std::{
    fmt,
    sync::atomic::{
        AtomicU8, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::Duration,
};

/// The longest reads of each class but the last, in bytes: blocks of databases, and their
/// read-ahead.
const LENGTHS: [usize; 3] = [16 << 10, 64 << 10, 256 << 10];
/// Classes of lengths.
pub const CLASSES: usize = LENGTHS.len() + 1;
/// A unit of I/O in flight, in bytes; a part of a unit counts as one.
const UNIT: usize = 64 << 10;
/// A read in flight, in the bits above its units. There are never as many units.
const ONE_READ: u64 = 1 << 32;
/// A read changes the estimate by this fraction of the difference: enough that a disk that became
/// slow is set aside after a few reads, and little enough that the noise of a disk does not move
/// the estimate as far as [`ALIKE`].
const WEIGHT: u64 = 8;
/// A latency counts as this many times the plain mean at most: one hiccup does not set a disk aside
/// for long.
const JUMP_MAX: u64 = 8;
/// And in the estimate as this many times the quickest recent latency at most: a read from behind a
/// cache then weighs about as much as one from the cache, and one that waits for some others is not
/// cut.
const PEAK: u64 = 4;
/// The quickest and the longest are those of this many reads, up to twice as many: if half of the
/// reads come from a cache, the chance that none of them does is one in 65,536.
const WINDOW: u64 = 16;
/// A plain mean of this many times the longest of another mirror's last reads is not chance.
const GROSS: u64 = 2;
/// The first estimate at most, in nanoseconds: the first read may have had bad luck. Below
/// [`ALIKE`].
const FIRST_MAX: u64 = 16_000;
/// Disks are alike if one is expected to be slower by no more than a quarter of the fastest, and
/// this many nanoseconds: waking a thread on a busy host takes that long.
const ALIKE: u64 = 25_000;
/// This many reads in flight double the expected latency: between a disk that serves one after the
/// other, and one that serves all at once.
const QUEUE_DOUBLES: u64 = 8;
/// Depths are kept in fractions of a read.
const DEPTH_PARTS: u64 = 16;
/// The longest estimate, in nanoseconds: beyond that a disk is silent, not slow.
const TIME_MAX: u64 = 64_000_000_000;
/// A disk is silent when no read has ended for this many times the latency of its slowest class of
/// reads.
const SILENT: u64 = 4;
/// After this many reads that went to other disks a disk is explored.
pub const EXPLORE_PASSED: u64 = 128;
/// Between explorations a disk rests for this many times the expected latency of the last one,
/// within these bounds (nanoseconds): a slow disk has work of its own to do, and one that has
/// recovered should be found within a second or two.
const REST: u64 = 16;
const REST_MIN: u64 = 10_000_000;
const REST_MAX: u64 = 250_000_000;

/// The reason why a read went to its disk, as `v$asm_read_policy` counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadReason {
    /// Its failure group is preferred.
    Preferred,
    /// Another mirror was expected to be slower.
    Faster,
    /// The mirrors were expected to be about as fast as each other.
    Equal,
    /// No other mirror could be read.
    Only,
    /// Another mirror was read first, and failed, was damaged or did not answer.
    Retry,
    /// To measure the disk: the answer was dropped.
    Exploration,
}

impl ReadReason {
    pub const ALL: [Self; 6] =
        [Self::Preferred, Self::Faster, Self::Equal, Self::Only, Self::Retry, Self::Exploration];
}

/// Whether reads prefer a disk, as `v$asm_disk.preferred_read` shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preference {
    /// Nothing is preferred in its disk group.
    #[default]
    Unknown,
    No,
    Yes,
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "U",
            Self::No => "N",
            Self::Yes => "Y",
        })
    }
}

/// The estimate for one class of lengths.
#[derive(Debug, Default)]
struct Estimate {
    /// The weighted mean in nanoseconds; 0: none yet.
    time: AtomicU64,
    /// Mean number of reads in flight when others began, in fractions of a read.
    depth: AtomicU64,
    /// The plain mean, in nanoseconds. It and the fields below are scaled to a read without others
    /// in flight.
    mean: AtomicU64,
    /// Reads in this window.
    seen: AtomicU64,
    /// The quickest and the longest in this window, and in the one before; 0: none yet.
    quickest: [AtomicU64; 2],
    longest: [AtomicU64; 2],
}

impl Estimate {
    /// Adds a latency, scaled to a read without others in flight. Returns the quickest recent one.
    fn note(&self, took: u64) -> u64 {
        let seen = self.seen.load(Relaxed) + 1;
        let [quickest, before] = &self.quickest;
        let [longest, longest_before] = &self.longest;
        if seen > WINDOW {
            before.store(quickest.load(Relaxed), Relaxed);
            longest_before.store(longest.load(Relaxed), Relaxed);
        }
        let begins = seen == 1 || seen > WINDOW;
        self.seen.store(if begins { 1 } else { seen }, Relaxed);
        let (low, high) =
            if begins { (took, took) } else { (quickest.load(Relaxed), longest.load(Relaxed)) };
        quickest.store(low.min(took), Relaxed);
        longest.store(high.max(took), Relaxed);
        match before.load(Relaxed) {
            0 => low.min(took),
            before => low.min(took).min(before),
        }
    }

    /// The longest recent latency; `None` if there were too few.
    fn longest(&self) -> Option<u64> {
        let [longest, before] = &self.longest;
        let is_known = before.load(Relaxed) > 0 || self.seen.load(Relaxed) >= WINDOW / 2;
        is_known.then(|| longest.load(Relaxed).max(before.load(Relaxed)))
    }

    fn forget(&self) {
        let ranges = self.quickest.iter().chain(&self.longest);
        [&self.time, &self.depth, &self.mean, &self.seen]
            .into_iter()
            .chain(ranges)
            .for_each(|one| one.store(0, Relaxed));
    }
}

/// States of an exploration:
///
/// ```text
///   IDLE --choose--> CLAIMED --set_probe--> WANTED
///        <--end_probe-- UNDER_WAY <--take_probe--
/// ```
const IDLE: u8 = 0;
const CLAIMED: u8 = 1;
const WANTED: u8 = 2;
const UNDER_WAY: u8 = 3;

/// Measurements of reads on one disk. See the module's description.
#[derive(Debug, Default)]
pub struct ReadGauge {
    preference: AtomicU8,
    estimates: [Estimate; CLASSES],
    /// In flight: units, and above them reads.
    queued: AtomicU64,
    /// When a read last ended, or began with none in flight: nanoseconds of the monotonic clock.
    progress: AtomicU64,
    /// Reads that went to other disks since it was last read.
    passed: AtomicU64,
    exploring: AtomicU8,
    /// The time before which it is not explored: nanoseconds.
    rests_until: AtomicU64,
    explore_offset: AtomicU64,
    explore_length: AtomicU64,
    counts: [AtomicU64; ReadReason::ALL.len()],
}

/// A read in flight, as the gauge of its disk counts it.
#[derive(Debug)]
pub struct Reading<'a> {
    gauge: &'a ReadGauge,
    class: usize,
    /// Its part of `queued`.
    weight: u64,
    /// Reads in flight when it began.
    depth: u64,
    began: u64,
    explores: bool,
}

/// The mirror that a read goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub index: usize,
    pub reason: ReadReason,
    /// This mirror is to be explored by the same read: [`ReadGauge::set_probe`].
    pub explore: Option<usize>,
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn class_of(length: usize) -> usize {
    LENGTHS.iter().position(|longest| length <= *longest).unwrap_or(CLASSES - 1)
}

/// The weighted mean with one more value.
fn weighed(mean: u64, one: u64) -> u64 {
    mean - mean / WEIGHT + one / WEIGHT
}

/// The mirror to be read. `None` stands for one that was tried already; it counts for whose turn it
/// is.
#[must_use]
pub fn choose(
    mirrors: &[Option<&ReadGauge>],
    turn: usize,
    length: usize,
    now: Duration,
) -> Option<Choice> {
    let prefers = mirrors.iter().flatten().any(|gauge| gauge.is_preferred());
    let is_open = |gauge: &&ReadGauge| !prefers || gauge.is_preferred();
    let open = || {
        mirrors
            .iter()
            .enumerate()
            .filter_map(|(index, gauge)| Some((index, gauge.filter(is_open)?)))
    };
    let now = nanoseconds(now);
    let expected = if open().nth(1).is_some() {
        expected_of(open(), class_of(length), now)
    } else {
        [0; MIRRORS_MAX]
    };
    let least = open().map(|(index, _)| expected[index]).min()?;
    let alike = least.saturating_add(least / 4).saturating_add(ALIKE);
    let rank = |index| (index + mirrors.len() - turn % mirrors.len()) % mirrors.len();
    let fast = open().filter(|(index, _)| expected[*index] <= alike);
    let (index, _) = fast.min_by_key(|(index, gauge)| (gauge.units(), rank(*index)))?;
    let (mut others, mut explore) = (ReadReason::Equal, None);
    for (other, gauge) in open() {
        if other == index {
            gauge.passed.store(0, Relaxed);
            continue;
        }
        let passed = gauge.passed.load(Relaxed) + 1;
        gauge.passed.store(passed, Relaxed);
        if expected[other] > alike {
            others = ReadReason::Faster;
            if explore.is_none() && passed >= EXPLORE_PASSED && gauge.claims_probe(now) {
                explore = Some(other);
            }
        }
    }
    let reason = match mirrors {
        [_] => ReadReason::Only,
        _ if mirrors.iter().any(Option::is_none) => ReadReason::Retry,
        _ if prefers => ReadReason::Preferred,
        _ => others,
    };
    Some(Choice { index, reason, explore })
}

/// The expected latency of a read of each mirror, in nanoseconds. For a disk without an estimate,
/// that of the fastest.
fn expected_of<'a>(
    mirrors: impl Iterator<Item = (usize, &'a ReadGauge)> + Clone,
    class: usize,
    now: u64,
) -> [u64; MIRRORS_MAX] {
    let mut expected = [0; MIRRORS_MAX];
    for (index, gauge) in mirrors.clone() {
        let silence = gauge.silence(now);
        expected[index] = gauge.expected(class).map_or(0, |time| time.max(silence));
    }
    let fastest = expected.into_iter().filter(|time| *time > 0).min().unwrap_or(0);
    for (index, gauge) in mirrors.clone().filter(|(_, gauge)| gauge.expected(class).is_none()) {
        expected[index] = fastest.max(gauge.silence(now));
    }
    for (index, gauge) in mirrors.clone() {
        let mean = gauge.estimates[class].mean.load(Relaxed);
        let others = mirrors.clone().filter(|(other, _)| *other != index);
        let longest = others.filter_map(|(_, other)| other.estimates[class].longest()).min();
        if longest.is_some_and(|longest| mean > longest.saturating_mul(GROSS)) {
            expected[index] = expected[index]
                .max(mean.saturating_mul(QUEUE_DOUBLES + gauge.reads()) / QUEUE_DOUBLES);
        }
    }
    expected
}

impl ReadGauge {
    fn is_preferred(&self) -> bool {
        self.preference() == Preference::Yes
    }

    #[must_use]
    pub fn preference(&self) -> Preference {
        match self.preference.load(Relaxed) {
            2 => Preference::Yes,
            1 => Preference::No,
            _ => Preference::Unknown,
        }
    }

    pub fn prefer(&self, preference: Preference) {
        self.preference.store(preference as u8, Relaxed);
    }

    fn units(&self) -> u64 {
        self.queued.load(Relaxed) % ONE_READ
    }

    /// Reads in flight.
    pub(crate) fn reads(&self) -> u64 {
        self.queued.load(Relaxed) / ONE_READ
    }

    /// The expected latency of reads of a class with the present reads in flight, in nanoseconds;
    /// `None` if none has ended yet.
    fn expected(&self, class: usize) -> Option<u64> {
        let estimate = &self.estimates[class];
        let time = Some(estimate.time.load(Relaxed)).filter(|time| *time > 0)?;
        let now = (QUEUE_DOUBLES + self.reads()) * DEPTH_PARTS;
        let then = QUEUE_DOUBLES * DEPTH_PARTS + estimate.depth.load(Relaxed);
        Some((time.saturating_mul(now) / then).max(1))
    }

    /// For how long it has not answered, in nanoseconds; 0: it answers, or has nothing in flight.
    fn silence(&self, now: u64) -> u64 {
        if self.queued.load(Relaxed) == 0 {
            return 0;
        }
        let slowest =
            self.estimates.iter().map(|estimate| estimate.time.load(Relaxed)).max().unwrap_or(0);
        let silence = now.saturating_sub(self.progress.load(Relaxed));
        if silence > slowest.saturating_mul(SILENT) { silence } else { 0 }
    }

    /// The estimate of each class; `None` if no read has ended yet.
    #[must_use]
    pub fn estimates(&self) -> [Option<Duration>; CLASSES] {
        std::array::from_fn(|class| {
            let time = self.estimates[class].time.load(Relaxed);
            (time > 0).then(|| Duration::from_nanos(time))
        })
    }

    /// Number of reads for a reason.
    #[must_use]
    pub fn count(&self, reason: ReadReason) -> u64 {
        self.counts[reason as usize].load(Relaxed)
    }

    /// Called when another disk takes its place, or it was away: its measurements are dropped.
    pub fn forget(&self) {
        self.estimates.iter().for_each(Estimate::forget);
        self.passed.store(0, Relaxed);
        self.rests_until.store(0, Relaxed);
    }

    /// Counts a read that begins.
    pub fn begin(&self, length: usize, now: Duration, reason: ReadReason) -> Reading<'_> {
        let began = nanoseconds(now);
        let weight = ONE_READ + length.div_ceil(UNIT).max(1) as u64;
        if self.queued.load(Relaxed) == 0 {
            self.progress.store(began, Relaxed);
        }
        let depth = self.queued.fetch_add(weight, Relaxed) / ONE_READ;
        self.counts[reason as usize].fetch_add(1, Relaxed);
        let explores = reason == ReadReason::Exploration;
        Reading { gauge: self, class: class_of(length), weight, depth, began, explores }
    }

    /// Whether it is to be explored: the caller that gets true is the only one to do so.
    fn claims_probe(&self, now: u64) -> bool {
        now >= self.rests_until.load(Relaxed)
            && self.exploring.load(Relaxed) == IDLE
            && self.exploring.compare_exchange(IDLE, CLAIMED, Acquire, Relaxed).is_ok()
    }

    /// Sets the read to be repeated. Only after [`choose`] has asked for it.
    pub fn set_probe(&self, offset: u64, length: usize) {
        self.explore_offset.store(offset, Relaxed);
        self.explore_length.store(length as u64, Relaxed);
        self.exploring.store(WANTED, Release);
    }

    /// Offset and length of a read that is to be repeated. The caller must call
    /// [`Self::end_probe`].
    pub fn take_probe(&self) -> Option<(u64, usize)> {
        let wanted = self.exploring.load(Relaxed) == WANTED
            && self.exploring.compare_exchange(WANTED, UNDER_WAY, Acquire, Relaxed).is_ok();
        let length = usize::try_from(self.explore_length.load(Relaxed)).ok()?;
        wanted.then(|| (self.explore_offset.load(Relaxed), length))
    }

    /// Called when the exploration has ended, or was not made.
    pub fn end_probe(&self, length: usize, now: Duration) {
        let took = self.estimates[class_of(length)].time.load(Relaxed);
        let rest = took.saturating_mul(REST).clamp(REST_MIN, REST_MAX);
        self.rests_until.store(nanoseconds(now).saturating_add(rest), Relaxed);
        self.passed.store(0, Relaxed);
        self.exploring.store(IDLE, Release);
    }
}

impl Reading<'_> {
    /// Records its result: overdue, and then it goes on, or ended.
    pub fn record(
        self,
        ended: Option<&IoResult>,
        took: Option<Took>,
        world: &dyn World,
    ) -> Option<Self> {
        let Some(ended) = ended else {
            self.note_overdue(world.monotonic());
            return Some(self);
        };
        match took {
            Some(took) if ended.is_ok() => self.ended(took),
            Some(took) => self.failed(took),
            None => {}
        }
        None
    }

    /// Called when it succeeded.
    fn ended(self, took: Took) {
        self.gauge.progress.store(nanoseconds(took.at), Relaxed);
        self.learn(nanoseconds(took.time));
    }

    /// Called when it failed. A quick failure does not make a disk fast; a slow one makes it slow.
    fn failed(self, took: Took) {
        self.gauge.progress.store(nanoseconds(took.at), Relaxed);
        let time = nanoseconds(took.time);
        if time > self.gauge.estimates[self.class].time.load(Relaxed) {
            self.learn(time);
        }
    }

    /// Called when it has not ended within the disk timeout. It counts as in flight until it is
    /// dropped.
    fn note_overdue(&self, now: Duration) {
        let time = nanoseconds(now).saturating_sub(self.began).min(TIME_MAX);
        self.gauge.estimates[self.class].time.fetch_max(time, Relaxed);
    }

    fn learn(&self, took: u64) {
        let estimate = &self.gauge.estimates[self.class];
        let Estimate { time, depth, mean, .. } = estimate;
        let new_depth = self.depth.saturating_mul(DEPTH_PARTS);
        let took = took.min(TIME_MAX);
        // Scaled to a read without others in flight, and back.
        let alone = (took * QUEUE_DOUBLES / (QUEUE_DOUBLES + self.depth)).max(1);
        let quickest = estimate.note(alone);
        let most = quickest.saturating_mul(PEAK * (QUEUE_DOUBLES + self.depth)) / QUEUE_DOUBLES;
        let old = time.load(Relaxed);
        if old == 0 {
            time.store(took.clamp(1, FIRST_MAX), Relaxed);
            depth.store(new_depth, Relaxed);
            mean.store(alone.min(FIRST_MAX), Relaxed);
            return;
        }
        let with = |old: u64, one: u64| {
            if self.explores && one < old { old - (old - one) / 2 } else { weighed(old, one) }
        };
        time.store(with(old, took.min(most)).max(1), Relaxed);
        let old = mean.load(Relaxed);
        mean.store(with(old, alone.min(old.saturating_mul(JUMP_MAX))).max(1), Relaxed);
        depth.store(weighed(depth.load(Relaxed), new_depth), Relaxed);
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.gauge.queued.fetch_sub(self.weight, Relaxed);
    }
}
