//! Disks that are far slower than the others: reported, and taken offline if an attribute asks for
//! it.
//!
//! A disk that answers within its timeout has not failed, and every write waits for it. Nothing
//! else shows it: reads avoid it by themselves (`read_policy.rs`), and the sum of all waits looks
//! like a busy database. So each [`WINDOW`] the latencies of the disks are compared: reads, writes
//! and flushes separately, of files, catalog and records only, since copies and checks take long on
//! one disk and not on another.
//!
//! ```text
//!   a disk's mean is TIMES the others' median, and at least LEAST --> this window is slow
//!   WINDOWS slow ones in a row                           --> a warning; SLOWER in v$asm_error
//!   slow for attribute disk_slow_time, if that is set    --> OFFLINE where R5 allows it
//!   WINDOWS in a row that are not slow                   --> a note
//! ```
//!
//! A window with fewer than [`COUNT`] I/Os on the disk, or on all others, proves nothing.
//! [`Speeds`] is pure; its input are the counters.

use crate::disk::{
    counters::{IoClass, IoClient},
    member::Member,
};
use plinth_format::DiskNumber;
use std::{collections::BTreeMap, fmt, time::Duration};

/// The time of one comparison.
pub const WINDOW: Duration = Duration::from_secs(10);
/// As many windows make a disk slow, or end that.
pub const WINDOWS: u32 = 3;
/// The fewest I/Os of a kind that prove something.
const COUNT: u64 = 5;
/// Slower than the others by this factor is no difference of models: a rotating disk is rarely that
/// much slower than one without moving parts.
const TIMES: u32 = 10;
/// A shorter latency is no problem.
const LEAST: Duration = Duration::from_millis(5);
/// The kinds of I/O that are compared.
const KINDS: [IoClass; 3] = [IoClass::Read, IoClass::Write, IoClass::Flush];

/// I/Os of each kind since the mount: count and sum of latencies.
pub type Totals = [(u64, Duration); KINDS.len()];

/// How slow a disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slowness {
    pub kind: IoClass,
    pub mean: Duration,
    /// The median of the others.
    pub others: Duration,
    /// For how long it has been slow.
    pub time: Duration,
}

impl fmt::Display for Slowness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            IoClass::Read => "reads take",
            IoClass::Write => "writes take",
            IoClass::Flush => "flushes take",
            IoClass::Discard => "discards take",
        };
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let times = self.mean.as_secs_f64() / self.others.as_secs_f64().max(1e-6);
        write!(
            f,
            "{kind} {:.1} ms, and {:.2} ms on the other disks: {times:.0} times as long, for {} s",
            milliseconds(self.mean),
            milliseconds(self.others),
            self.time.as_secs()
        )
    }
}

/// A change of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It has become slow.
    Slow(Slowness),
    /// It still is slow.
    Stays(Slowness),
    /// It is not slow any more.
    Over,
}

#[derive(Debug, Default)]
struct Known {
    before: Totals,
    slow: u32,
    quick: u32,
    is_told: bool,
}

/// The state of all disks. See the module's description.
#[derive(Debug, Default)]
pub struct Speeds(BTreeMap<DiskNumber, Known>);

impl Speeds {
    /// Ends a window. Returns the changes of each disk that is or was slow.
    pub fn compare(&mut self, totals: &BTreeMap<DiskNumber, Totals>) -> Vec<(DiskNumber, Change)> {
        self.0.retain(|disk, _| totals.contains_key(disk));
        let mut means: BTreeMap<DiskNumber, [Option<Duration>; KINDS.len()]> = BTreeMap::new();
        for (disk, now) in totals {
            let is_new = !self.0.contains_key(disk);
            let known = self.0.entry(*disk).or_default();
            let mean = |kind: usize| {
                let count = now[kind].0.saturating_sub(known.before[kind].0);
                let time = now[kind].1.saturating_sub(known.before[kind].1);
                (!is_new && count >= COUNT).then(|| time / u32::try_from(count).unwrap_or(u32::MAX))
            };
            means.insert(*disk, std::array::from_fn(mean));
            known.before = *now;
        }
        let mut changes = Vec::new();
        for (disk, known) in &mut self.0 {
            let mut worst: Option<Slowness> = None;
            let mut is_compared = false;
            for (index, kind) in KINDS.into_iter().enumerate() {
                let of_others = means
                    .iter()
                    .filter(|(other, _)| *other != disk)
                    .filter_map(|(_, means)| means[index]);
                let mut others: Vec<Duration> = of_others.collect();
                others.sort_unstable();
                // Of two the quicker one: half of the disks may be on the slow shelf.
                let median = others.len().checked_sub(1).map(|last| others[last / 2]);
                let (Some(mean), Some(others)) = (means[disk][index], median) else { continue };
                is_compared = true;
                let is_slow = mean >= LEAST && mean >= others * TIMES;
                if is_slow && worst.is_none_or(|worst| mean > worst.mean) {
                    worst = Some(Slowness { kind, mean, others, time: Duration::ZERO });
                }
            }
            match worst {
                Some(mut slowness) => {
                    (known.slow, known.quick) = (known.slow + 1, 0);
                    slowness.time = WINDOW * known.slow;
                    if known.slow >= WINDOWS {
                        let is_new = !std::mem::replace(&mut known.is_told, true);
                        changes.push((
                            *disk,
                            if is_new { Change::Slow(slowness) } else { Change::Stays(slowness) },
                        ));
                    }
                }
                None if is_compared => {
                    known.quick += 1;
                    if known.quick >= WINDOWS || !known.is_told {
                        known.slow = 0;
                    }
                    if known.quick >= WINDOWS && std::mem::take(&mut known.is_told) {
                        changes.push((*disk, Change::Over));
                    }
                }
                None => {}
            }
        }
        changes
    }
}

/// The counters of a disk.
pub(crate) fn totals(member: &Member) -> Totals {
    let flushes = member.counters.timings(IoClass::Flush);
    let (mut reads, mut writes) = ((0, Duration::ZERO), (0, Duration::ZERO));
    for client in [IoClient::Files, IoClient::Catalog, IoClient::Records] {
        let counters = member.counters.of(client);
        for (sum, tally) in [(&mut reads, &counters.reads), (&mut writes, &counters.writes)] {
            sum.0 += tally.count.load(std::sync::atomic::Ordering::Relaxed);
            sum.1 += tally.time();
        }
    }
    [reads, writes, (flushes.count(), flushes.total())]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Disks that each do a number of writes of a given latency in a window.
    struct Disks {
        speeds: Speeds,
        totals: BTreeMap<DiskNumber, Totals>,
    }

    impl Disks {
        fn new(count: u16) -> Self {
            let mut disks = Self { speeds: Speeds::default(), totals: BTreeMap::new() };
            disks.totals = (0..count).map(|disk| (DiskNumber(disk), Totals::default())).collect();
            assert_eq!(disks.speeds.compare(&disks.totals), []);
            disks
        }

        fn window(
            &mut self,
            kind: usize,
            count: u64,
            milliseconds: &[u64],
        ) -> Vec<(DiskNumber, Change)> {
            for (totals, each) in self.totals.values_mut().zip(milliseconds) {
                totals[kind].0 += count;
                totals[kind].1 +=
                    Duration::from_micros(100 + each * 1000) * u32::try_from(count).expect("few");
            }
            self.speeds.compare(&self.totals)
        }
    }

    /// The disk of the report: 50 ms more on each I/O, its mirror needs 0.1. It is reported once,
    /// with figures, and when it is over.
    #[test]
    fn a_disk_far_slower_than_its_mirror_is_reported_once() {
        for (kind, named) in KINDS.into_iter().enumerate() {
            let mut disks = Disks::new(2);
            assert_eq!(disks.window(kind, 38, &[0, 0]), []);
            assert_eq!(disks.window(kind, 38, &[0, 50]), []);
            assert_eq!(disks.window(kind, 38, &[0, 50]), []);
            let told = disks.window(kind, 38, &[0, 50]);
            let [(DiskNumber(1), Change::Slow(slowness))] = told[..] else { panic!("{told:?}") };
            assert_eq!((slowness.kind, slowness.time), (named, WINDOW * 3));
            assert!(
                slowness
                    .to_string()
                    .contains("50.1 ms, and 0.10 ms on the other disks: 501 times as long"),
                "{slowness}"
            );
            assert!(matches!(
                disks.window(kind, 38, &[0, 50])[..],
                [(DiskNumber(1), Change::Stays(_))]
            ));
            assert_eq!(disks.window(kind, 4, &[0, 50]), [], "too few to say anything");
            let stays = disks.window(kind, 38, &[0, 50]);
            assert!(
                matches!(stays[..], [(_, Change::Stays(slowness))] if slowness.time == WINDOW * 5),
                "{stays:?}"
            );
            assert_eq!(disks.window(kind, 38, &[0, 0]), []);
            assert_eq!(disks.window(kind, 38, &[0, 0]), []);
            assert_eq!(disks.window(kind, 38, &[0, 0]), [(DiskNumber(1), Change::Over)]);
            assert_eq!(disks.window(kind, 38, &[0, 0]), []);
        }
    }

    #[test]
    fn a_disk_that_is_not_slow_is_not_reported() {
        let mut disks = Disks::new(4);
        for _ in 0..10 {
            assert_eq!(disks.window(1, 100, &[50, 50, 50, 50]), [], "all are");
            assert_eq!(disks.window(1, 100, &[8, 8, 12, 20]), [], "some times");
            assert_eq!(disks.window(1, 100, &[0, 0, 0, 3]), [], "nobody would notice");
            assert_eq!(disks.window(1, 3, &[0, 0, 0, 500]), [], "too few");
        }
        // Hiccups that do not last.
        for _ in 0..10 {
            assert_eq!(disks.window(1, 100, &[0, 0, 0, 500]), []);
            assert_eq!(disks.window(1, 100, &[0, 0, 0, 500]), []);
            assert_eq!(disks.window(1, 100, &[0, 0, 0, 0]), []);
        }
    }

    /// A shelf of two, of four disks, is slow: both are reported.
    #[test]
    fn half_of_the_disks_may_be_slow() {
        let mut disks = Disks::new(4);
        let told = (0..3).map(|_| disks.window(1, 100, &[0, 0, 90, 70])).last().expect("three");
        let slow: Vec<_> = told.iter().map(|(disk, _)| disk.0).collect();
        assert_eq!(slow, [2, 3], "{told:?}");
    }
}
