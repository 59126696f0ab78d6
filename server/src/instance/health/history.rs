//! The latency of the last minute.
//!
//! Engines count since their mount, so a latency is the difference of two samples: the newest, and
//! the newest one that is at least a minute older. A history that is shorter says so: over its
//! oldest sample, or since the mount if there is no other. Counters that went back are of another
//! mount, and the history begins anew.

use super::super::Result;
use crate::engine::client::Client;
use plinth_engine::admin::Value;
use plinth_evidence::buckets::Buckets;
use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

/// The time over which a latency is shown.
const MINUTE: Duration = Duration::from_secs(60);
/// A latency over less than this is one of a few requests: then it is shown since the mount.
const SPAN_MIN: Duration = Duration::from_secs(10);
/// Most samples: more than there are in a minute.
const SAMPLES_MAX: usize = 32;
/// The purpose of I/O that programs wait for.
const PROGRAMS: &str = "FILES";

/// Reads, or writes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Tally {
    count: f64,
    /// Seconds.
    time: f64,
}

/// Counters at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    at: Instant,
    reads: Tally,
    writes: Tally,
    /// I/O of disks by class and upper bound in microseconds.
    buckets: BTreeMap<(String, u64), u64>,
}

/// How long reads or writes took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Class {
    /// I/O of programs' files.
    pub count: u64,
    pub mean_micros: f64,
    /// 99 of 100 of all I/O of the disks took less, in microseconds.
    pub p99_below: Option<u64>,
}

/// The latency over some time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Latency {
    /// `None`: since the mount.
    pub over: Option<Duration>,
    pub reads: Class,
    pub writes: Class,
}

impl Default for Sample {
    fn default() -> Self {
        let (reads, writes) = (Tally::default(), Tally::default());
        Self { at: Instant::now(), reads, writes, buckets: BTreeMap::new() }
    }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Integer(number) => *number as f64,
        Value::Real(number) => *number,
        _ => 0.0,
    }
}

impl Sample {
    /// Asks an engine.
    ///
    /// # Errors
    /// If it refuses, ends, or does not answer for long.
    pub(super) fn ask(engine: &Client) -> Result<Self> {
        let mut sample = Self::default();
        for row in engine
            .rows("SELECT io_client, reads, read_time, writes, write_time FROM v$asm_disk_iostat")?
        {
            let [Value::Text(purpose), reads, read_time, writes, write_time] = &row[..] else {
                continue;
            };
            if purpose != PROGRAMS {
                continue;
            }
            sample.reads.count += number(reads);
            sample.reads.time += number(read_time);
            sample.writes.count += number(writes);
            sample.writes.time += number(write_time);
        }
        for row in engine.rows(
            "SELECT io_class, wait_time_micro, wait_count FROM v$asm_diskgroup_histogram WHERE wait_count > 0",
        )? {
            let [Value::Text(class), below, count] = &row[..] else { continue };
            sample.buckets.insert((class.clone(), number(below) as u64), number(count) as u64);
        }
        Ok(sample)
    }

    /// Whether a later sample can be of the same mount.
    fn precedes(&self, later: &Self) -> bool {
        self.reads.count <= later.reads.count
            && self.writes.count <= later.writes.count
            && self.buckets.iter().all(|(bucket, count)| {
                later.buckets.get(bucket).is_some_and(|later| later >= count)
            })
    }

    fn class(&self, before: Option<&Self>, name: &str, tally: impl Fn(&Self) -> Tally) -> Class {
        let (now, then) = (tally(self), before.map(&tally).unwrap_or_default());
        let (count, time) = (now.count - then.count, (now.time - then.time).max(0.0));
        let mean_micros = if count > 0.0 { time * 1e6 / count } else { 0.0 };
        let buckets: Vec<(u64, u64)> = self
            .buckets
            .iter()
            .filter(|((class, _), _)| class == name)
            .map(|(bucket, count)| {
                let then = before.and_then(|before| before.buckets.get(bucket)).unwrap_or(&0);
                (bucket.1, count.saturating_sub(*then))
            })
            .collect();
        Class { count: count.max(0.0) as u64, mean_micros, p99_below: percentile(&buckets, 99) }
    }

    fn since(&self, before: Option<&Self>) -> Latency {
        Latency {
            over: before.map(|before| self.at.saturating_duration_since(before.at)),
            reads: self.class(before, "READ", |sample| sample.reads),
            writes: self.class(before, "WRITE", |sample| sample.writes),
        }
    }
}

/// The upper bound of the bucket in which `percent` of the values are reached; `None`: there are no
/// values.
fn percentile(buckets: &[(u64, u64)], percent: u64) -> Option<u64> {
    Buckets::new(buckets.iter().copied()).percentile(percent as f64 / 100.0)
}

/// Samples, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Sample>);

impl History {
    /// Adds a sample. Returns the latency until then.
    pub(super) fn add(&mut self, sample: Sample) -> Option<Latency> {
        if self.0.back().is_some_and(|last| !last.precedes(&sample)) {
            self.0.clear();
        }
        let is_old = |before: &Sample| sample.at.saturating_duration_since(before.at) >= MINUTE;
        // One that is a minute old stays: the latency is counted from it.
        while self.0.get(1).is_some_and(is_old) || self.0.len() >= SAMPLES_MAX {
            self.0.pop_front();
        }
        let is_long = |before: &&Sample| sample.at.saturating_duration_since(before.at) >= SPAN_MIN;
        let latency = sample.since(self.0.front().filter(is_long));
        self.0.push_back(sample);
        Some(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: Instant, reads: f64, time: f64, buckets: &[(u64, u64)]) -> Sample {
        let buckets =
            buckets.iter().map(|(below, count)| (("READ".to_owned(), *below), *count)).collect();
        let reads = Tally { count: reads, time };
        Sample { at, reads, writes: Tally::default(), buckets }
    }

    #[test]
    fn a_latency_is_of_the_last_minute_and_of_this_mount() {
        let (start, mut history) = (Instant::now(), History::default());
        let after = |seconds| start + Duration::from_secs(seconds);
        let first = history.add(sample(start, 100.0, 1.0, &[(64, 100)])).expect("a latency");
        assert_eq!((first.over, first.reads.count), (None, 100), "since the mount");
        for seconds in [10, 20, 30, 40, 50, 60, 70] {
            history.add(sample(after(seconds), 100.0, 1.0, &[(64, 100)]));
        }
        let last = sample(after(80), 200.0, 1.1, &[(64, 190), (1024, 10)]);
        let last = history.add(last).expect("a latency");
        assert_eq!(last.over, Some(Duration::from_secs(60)));
        assert_eq!((last.reads.count, last.reads.p99_below), (100, Some(1024)));
        assert!((last.reads.mean_micros - 1000.0).abs() < 1.0, "{last:?}");
        let again = history.add(sample(after(90), 1.0, 0.1, &[(64, 1)])).expect("a latency");
        assert_eq!((again.over, again.reads.count), (None, 1), "another mount");
        assert_eq!(percentile(&[], 99), None);
        assert_eq!(percentile(&[(64, 99), (128, 1)], 99), Some(64));
    }

    #[test]
    fn a_history_does_not_grow() {
        let mut history = History::default();
        for _ in 0..1000 {
            history.add(Sample::default());
        }
        assert!(history.0.len() <= SAMPLES_MAX);
    }
}
