//! Which mirror a read of a front end goes to.
//!
//! Each disk has a [`ReadGauge`]: how long reads take there, and what is under way. Of the mirrors that can be read, [`choose`] takes
//!
//! ```text
//!   1. those in preferred failure groups, if one is among them: others are not read, not even to find out how fast they are
//!   2. of these, those that are expected to be about as fast as the fastest
//!   3. of these, the one with least under way; of equal ones, the one whose turn it is
//! ```
//!
//! What is expected of a disk is its *estimate*, an exponentially weighted mean of how long reads took, each [`PEAK`] times its quickest of late at
//! most, in proportion to the number of reads under way: those that made it had so many beside them, the next one has so many now, and [`QUEUE_DOUBLES`] more double it. (Rule 3
//! counts bytes, not reads.) Reads of different lengths are not compared: there is an estimate for each of the [`CLASSES`] of lengths, so
//! that a disk that happened to serve long reads is not taken for a slow one. A disk without an estimate is expected to be as fast as the
//! others.
//!
//! Times have two humps where a disk or an array has a cache: 0.1 ms, or 3 to 15. Their plain mean says which hump the last reads were in, and not how
//! far the disk is. So what is above [`PEAK`] times the quickest of the last [`WINDOW`] to two times so many reads counts as so much: a disk that is 0.3 ms
//! farther is slower in its quick reads, and they count. A disk that is slow in all its reads has no quick ones any more after so many. And one
//! that became slow only where it was slow before is known by its plain mean: where that is [`GROSS`] times the longest of the last reads of another mirror, it is
//! what is expected.
//!
//! A disk that does not answer is known before it has answered: while it has reads under way and has ended none for longer than its
//! reads ever take, the silence itself is what is expected of it.
//!
//! A disk that is *set aside*, because it is expected to be slower, is not measured any more by reading. So it is explored: where
//! [`EXPLORE_PASSED`] reads have passed it by, one of them is made there a second time, by a task of its own (`latency_probe.rs`), and its answer
//! is dropped. No program waits for that. A disk is explored by one read at a time, and rests between them, longer the slower it is.
//! Its estimate falls by half at once, so that a disk that has recovered is used again after a few.
//!
//! Invariants:
//!
//!   1. A choice takes no lock and no memory, and depends on nothing but the gauges, the clock and whose turn it is.
//!   2. What [`ReadGauge::begin`] counts as under way is taken back when its [`Reading`] is dropped, however the read ended.
//!   3. Of one disk at most one read in [`EXPLORE_PASSED`] that could have gone there is an exploration: with two disks
//!      set aside, less than 2 % of all.
//!
//! Numbers are loaded and stored without order between them: of two reads that end at once one may go unnoticed, which does no harm.

#[cfg(test)]
mod tests;

use crate::{
    completion::Took,
    disk::{disk_io::Settled, members::MIRRORS_MAX},
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

/// The longest reads of each class but the last, in bytes. Blocks of databases, and what they read ahead.
const LENGTHS: [usize; 3] = [16 << 10, 64 << 10, 256 << 10];
/// Classes of lengths.
pub const CLASSES: usize = LENGTHS.len() + 1;
/// So many bytes, or less, are a unit of what is under way.
const UNIT: usize = 64 << 10;
/// A read under way, beside its units. There are never so many units.
const ONE_READ: u64 = 1 << 32;
/// A read changes the estimate by one part in so many of what it differs: few enough that a disk that became slow is set aside
/// after a few reads, enough that the noise of a disk does not move the estimate as far as [`ALIKE`].
const WEIGHT: u64 = 8;
/// A read counts as so many times the plain mean at most: one hiccup does not set a disk aside for long.
const JUMP_MAX: u64 = 8;
/// And in the estimate as so many times the quickest of late at most: a read from behind a cache then weighs about as much as one from the cache,
/// and one that waits for some others is not cut.
const PEAK: u64 = 4;
/// The quickest and the longest are those of so many reads, up to twice as many: where half of the reads come from a cache, the chance that none of so many
/// does is one in 65,536.
const WINDOW: u64 = 16;
/// A plain mean of so many times the longest of another mirror's last reads is not chance.
const GROSS: u64 = 2;
/// The first estimate at most, in nanoseconds: the first read may have had bad luck. Below [`ALIKE`].
const FIRST_MAX: u64 = 16_000;
/// Disks are alike where one is expected to be slower by no more than a quarter of the fastest, and this many nanoseconds: so much more it takes
/// to wake a thread on a busy host.
const ALIKE: u64 = 25_000;
/// So many reads under way double what is expected: between a disk that serves one after the other, and one that serves all at once.
const QUEUE_DOUBLES: u64 = 8;
/// Depths are kept in parts of a read.
const DEPTH_PARTS: u64 = 16;
/// The longest estimate, in nanoseconds: beyond that a disk is silent, not slow.
const TIME_MAX: u64 = 64_000_000_000;
/// A disk is silent when it has ended nothing for so many times what its slowest class of reads takes.
const SILENT: u64 = 4;
/// So many reads pass a disk by before it is explored.
pub const EXPLORE_PASSED: u64 = 128;
/// Between explorations a disk rests for so many times what the last one was expected to take, within these bounds (nanoseconds): a slow
/// disk has work of its own to do, and one that has recovered should be found in a second or two.
const REST: u64 = 16;
const REST_MIN: u64 = 10_000_000;
const REST_MAX: u64 = 250_000_000;

/// Why a read went to its disk, as `v$asm_read_policy` counts it.
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
    /// To find out how fast it is: the answer was dropped.
    Exploration,
}

impl ReadReason {
    pub const ALL: [Self; 6] =
        [Self::Preferred, Self::Faster, Self::Equal, Self::Only, Self::Retry, Self::Exploration];
}

/// Whether reads prefer a disk, as `v$asm_disk.preferred_read` says it.
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

/// Of one class of lengths.
#[derive(Debug, Default)]
struct Estimate {
    /// Nanoseconds; 0: none yet.
    time: AtomicU64,
    /// Reads that were under way when others began, in parts of one.
    depth: AtomicU64,
    /// The plain mean. This and what follows is as without others under way, in nanoseconds.
    mean: AtomicU64,
    /// Reads in this window.
    seen: AtomicU64,
    /// The quickest and the longest in this window, and in the one before; 0: none yet.
    quickest: [AtomicU64; 2],
    longest: [AtomicU64; 2],
}

impl Estimate {
    /// A read took so long, as without others under way. Returns the quickest of late.
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

    /// The longest of late; `None` if there were too few.
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

/// Where an exploration stands:
///
/// ```text
///   IDLE --choose--> CLAIMED --explore_at--> WANTED --take_exploration--> UNDER_WAY --end_exploration--> IDLE
/// ```
const IDLE: u8 = 0;
const CLAIMED: u8 = 1;
const WANTED: u8 = 2;
const UNDER_WAY: u8 = 3;

/// What is known of reads on one disk. See the module's description.
#[derive(Debug, Default)]
pub struct ReadGauge {
    preference: AtomicU8,
    estimates: [Estimate; CLASSES],
    /// What is under way: units, and above them reads.
    queued: AtomicU64,
    /// When a read last ended, or began with none under way: nanoseconds of the monotonic clock.
    progress: AtomicU64,
    /// Reads that went elsewhere since it was last read.
    passed: AtomicU64,
    exploring: AtomicU8,
    /// Not explored before: nanoseconds.
    rests_until: AtomicU64,
    explore_offset: AtomicU64,
    explore_length: AtomicU64,
    counts: [AtomicU64; ReadReason::ALL.len()],
}

/// A read under way, as the gauge of its disk knows it.
#[derive(Debug)]
pub struct Reading<'a> {
    gauge: &'a ReadGauge,
    class: usize,
    /// What it adds to `queued`.
    weight: u64,
    /// Reads under way when it began.
    depth: u64,
    began: u64,
    explores: bool,
}

/// Where a read goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub index: usize,
    pub reason: ReadReason,
    /// This one is to be explored by the same read: [`ReadGauge::explore_at`].
    pub explore: Option<usize>,
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn class_of(length: usize) -> usize {
    LENGTHS.iter().position(|longest| length <= *longest).unwrap_or(CLASSES - 1)
}

/// The mean, with one more.
fn weighed(mean: u64, one: u64) -> u64 {
    mean - mean / WEIGHT + one / WEIGHT
}

/// Which of these mirrors is read. `None` stands for one that was tried already; whose turn it is counts with them.
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
            if explore.is_none() && passed >= EXPLORE_PASSED && gauge.may_be_explored(now) {
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

/// What is expected of a read of each mirror, in nanoseconds. Of a disk without an estimate, what is expected of the fastest.
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

    fn reads(&self) -> u64 {
        self.queued.load(Relaxed) / ONE_READ
    }

    /// What reads of a class take with what is under way now, in nanoseconds; `None` if none has ended yet.
    fn expected(&self, class: usize) -> Option<u64> {
        let estimate = &self.estimates[class];
        let time = Some(estimate.time.load(Relaxed)).filter(|time| *time > 0)?;
        let now = (QUEUE_DOUBLES + self.reads()) * DEPTH_PARTS;
        let then = QUEUE_DOUBLES * DEPTH_PARTS + estimate.depth.load(Relaxed);
        Some((time.saturating_mul(now) / then).max(1))
    }

    /// For how long it has not answered, in nanoseconds; 0: it does, or nobody waits for it.
    fn silence(&self, now: u64) -> u64 {
        if self.queued.load(Relaxed) == 0 {
            return 0;
        }
        let slowest =
            self.estimates.iter().map(|estimate| estimate.time.load(Relaxed)).max().unwrap_or(0);
        let silence = now.saturating_sub(self.progress.load(Relaxed));
        if silence > slowest.saturating_mul(SILENT) { silence } else { 0 }
    }

    /// What the policy takes reads of each class to take; `None` if none has ended yet.
    #[must_use]
    pub fn estimates(&self) -> [Option<Duration>; CLASSES] {
        std::array::from_fn(|class| {
            let time = self.estimates[class].time.load(Relaxed);
            (time > 0).then(|| Duration::from_nanos(time))
        })
    }

    /// How many reads there were for a reason.
    #[must_use]
    pub fn count(&self, reason: ReadReason) -> u64 {
        self.counts[reason as usize].load(Relaxed)
    }

    /// It is another disk than before, or has been away: nothing is known of it.
    pub fn forget(&self) {
        self.estimates.iter().for_each(Estimate::forget);
        self.passed.store(0, Relaxed);
        self.rests_until.store(0, Relaxed);
    }

    /// A read begins.
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

    /// Whether it is to be explored: if so nobody else does.
    fn may_be_explored(&self, now: u64) -> bool {
        now >= self.rests_until.load(Relaxed)
            && self.exploring.load(Relaxed) == IDLE
            && self.exploring.compare_exchange(IDLE, CLAIMED, Acquire, Relaxed).is_ok()
    }

    /// What is to be read. Only after [`choose`] has said so.
    pub fn explore_at(&self, offset: u64, length: usize) {
        self.explore_offset.store(offset, Relaxed);
        self.explore_length.store(length as u64, Relaxed);
        self.exploring.store(WANTED, Release);
    }

    /// Offset and length of a read that is wanted. Whoever gets them says [`Self::end_exploration`].
    pub fn take_exploration(&self) -> Option<(u64, usize)> {
        let wanted = self.exploring.load(Relaxed) == WANTED
            && self.exploring.compare_exchange(WANTED, UNDER_WAY, Acquire, Relaxed).is_ok();
        let length = usize::try_from(self.explore_length.load(Relaxed)).ok()?;
        wanted.then(|| (self.explore_offset.load(Relaxed), length))
    }

    /// The read that was taken has ended, or was not made.
    pub fn end_exploration(&self, length: usize, now: Duration) {
        let took = self.estimates[class_of(length)].time.load(Relaxed);
        let rest = took.saturating_mul(REST).clamp(REST_MIN, REST_MAX);
        self.rests_until.store(nanoseconds(now).saturating_add(rest), Relaxed);
        self.passed.store(0, Relaxed);
        self.exploring.store(IDLE, Release);
    }
}

impl Reading<'_> {
    /// What became of it, as its flight says: overdue, and then it goes on, or ended.
    pub fn settle(
        self,
        settled: Option<&Settled>,
        took: Option<Took>,
        world: &dyn World,
    ) -> Option<Self> {
        let Some(settled) = settled else {
            self.note_overdue(world.monotonic());
            return Some(self);
        };
        match took {
            Some(took) if settled.is_ok() => self.ended(took),
            Some(took) => self.failed(took),
            None => {}
        }
        None
    }

    /// It ended well.
    fn ended(self, took: Took) {
        self.gauge.progress.store(nanoseconds(took.at), Relaxed);
        self.learn(nanoseconds(took.time));
    }

    /// It failed. That it did so at once makes no disk fast; that it took long makes it slow.
    fn failed(self, took: Took) {
        self.gauge.progress.store(nanoseconds(took.at), Relaxed);
        let time = nanoseconds(took.time);
        if time > self.gauge.estimates[self.class].time.load(Relaxed) {
            self.learn(time);
        }
    }

    /// It has not ended within the disk timeout, and counts as under way until it is dropped.
    fn note_overdue(&self, now: Duration) {
        let time = nanoseconds(now).saturating_sub(self.began).min(TIME_MAX);
        self.gauge.estimates[self.class].time.fetch_max(time, Relaxed);
    }

    fn learn(&self, took: u64) {
        let estimate = &self.gauge.estimates[self.class];
        let Estimate { time, depth, mean, .. } = estimate;
        let new_depth = self.depth.saturating_mul(DEPTH_PARTS);
        let took = took.min(TIME_MAX);
        // As it would have been alone, and back.
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
