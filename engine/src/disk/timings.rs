//! Latency histograms: counts in powers of two of microseconds, as `v$event_histogram_micro` shows
//! them.
//!
//! Adding one latency is three relaxed additions and a store, without a lock and without an
//! allocation: cheap enough for every I/O. A bucket is named by its exclusive upper bound: 1, 2, 4
//! ... 2^32 microseconds, more than an hour. Longer latencies are in the last bucket.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// From below 1 microsecond to below 2^32.
pub const BUCKETS: usize = 33;

/// Counts, and their sum. See the module's description.
#[derive(Debug)]
pub struct Timings {
    counts: [AtomicU64; BUCKETS],
    /// When a latency was last added, in nanoseconds of
    /// [`World::monotonic`](crate::world::World::monotonic).
    last: [AtomicU64; BUCKETS],
    /// The sum of all, in nanoseconds.
    total: AtomicU64,
}

/// One bucket of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Upper bound in microseconds, exclusive; the lower bound is half of it.
    pub below: u64,
    pub count: u64,
    /// When it was last added to, by the monotonic clock; `None` if it never was.
    pub last: Option<Duration>,
}

impl Default for Timings {
    fn default() -> Self {
        let zeros = || [const { AtomicU64::new(0) }; BUCKETS];
        Self { counts: zeros(), last: zeros(), total: AtomicU64::new(0) }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The bucket of a latency in microseconds.
fn bucket_of(micros: u64) -> usize {
    (u64::BITS - micros.leading_zeros()).min(BUCKETS as u32 - 1) as usize
}

impl Timings {
    /// Adds the latency of something that ended at `now`.
    pub fn note(&self, now: Duration, took: Duration) {
        let bucket = bucket_of(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        self.counts[bucket].fetch_add(1, Relaxed);
        self.last[bucket].store(nanoseconds(now).max(1), Relaxed);
        self.total.fetch_add(nanoseconds(took), Relaxed);
    }

    /// All buckets up to the largest that is not empty.
    #[must_use]
    pub fn buckets(&self) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> = (0..BUCKETS)
            .map(|bucket| Bucket {
                below: 1 << bucket,
                count: self.counts[bucket].load(Relaxed),
                last: Some(self.last[bucket].load(Relaxed))
                    .filter(|last| *last > 0)
                    .map(Duration::from_nanos),
            })
            .collect();
        let used = buckets.iter().rposition(|bucket| bucket.count > 0).map_or(0, |last| last + 1);
        buckets.truncate(used);
        buckets
    }

    /// Number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Sum of all latencies.
    #[must_use]
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total.load(Relaxed))
    }

    /// Adds all counts to another histogram. Most buckets are empty, and of most files all: those
    /// cost a read.
    pub fn add_to(&self, other: &Self) {
        for bucket in 0..BUCKETS {
            let count = self.counts[bucket].load(Relaxed);
            if count == 0 {
                continue;
            }
            other.counts[bucket].fetch_add(count, Relaxed);
            other.last[bucket].fetch_max(self.last[bucket].load(Relaxed), Relaxed);
        }
        other.total.fetch_add(self.total.load(Relaxed), Relaxed);
    }

    /// Moves all counts to another histogram.
    pub fn pour_into(&self, other: &Self) {
        for bucket in 0..BUCKETS {
            other.counts[bucket].fetch_add(self.counts[bucket].swap(0, Relaxed), Relaxed);
            other.last[bucket].fetch_max(self.last[bucket].swap(0, Relaxed), Relaxed);
        }
        other.total.fetch_add(self.total.swap(0, Relaxed), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(timings: &Timings) -> Vec<(u64, u64)> {
        timings.buckets().iter().map(|bucket| (bucket.below, bucket.count)).collect()
    }

    #[test]
    fn a_bucket_ends_below_its_bound() {
        let timings = Timings::default();
        assert_eq!(timings.buckets(), []);
        for (second, micros) in [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 15), (7, 16)] {
            timings.note(Duration::from_secs(second), Duration::from_micros(micros));
        }
        assert_eq!(counts(&timings), [(1, 1), (2, 1), (4, 2), (8, 1), (16, 1), (32, 1)]);
        assert_eq!(timings.buckets()[2].last, Some(Duration::from_secs(4)));
        assert_eq!((timings.count(), timings.total()), (7, Duration::from_micros(41)));
    }

    #[test]
    fn latencies_over_an_hour_are_in_the_last_bucket() {
        let timings = Timings::default();
        timings.note(Duration::ZERO, Duration::from_secs(100_000));
        assert_eq!(timings.buckets().len(), BUCKETS);
        assert_eq!(
            timings.buckets().last().map(|last| (last.below, last.count)),
            Some((1 << 32, 1))
        );
        assert_eq!(timings.buckets()[3], Bucket { below: 8, count: 0, last: None });
    }

    #[test]
    fn moving_counts_to_another_histogram_loses_none() {
        let (one, other) = (Timings::default(), Timings::default());
        one.note(Duration::from_secs(9), Duration::from_micros(5));
        other.note(Duration::from_secs(2), Duration::from_micros(6));
        one.pour_into(&other);
        assert_eq!(one.buckets(), []);
        assert_eq!(
            other.buckets().last(),
            Some(&Bucket { below: 8, count: 2, last: Some(Duration::from_secs(9)) })
        );
        assert_eq!(other.total(), Duration::from_micros(11));
    }
}
