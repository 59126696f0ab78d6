//! A histogram of latencies as it is kept, compared and drawn: buckets with any borders.
//!
//! A recorder of our own has borders 1 % apart; a database's report has powers of two, in
//! milliseconds or microseconds, and an open end. Both are a list of upper borders and counts, and
//! all that is asked of them is asked here.
//!
//! Invariants:
//!
//! 1. Upper borders grow strictly; a bucket holds what is above the border before it, and at most
//!    its own.
//! 2. The mean and the deviation are those of the values where `moments` is known, and an estimate
//!    from the middles of the buckets otherwise: [`Buckets::is_exact`] says which.

use serde::{Deserialize, Serialize};

/// Latencies by bucket.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Buckets {
    /// Upper border in nanoseconds, requests. Buckets that hold none may be left out.
    counts: Vec<(u64, u64)>,
    /// The last bucket has no upper border.
    #[serde(default)]
    pub is_open: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moments: Option<Moments>,
}

/// Sums of the values themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// Nanoseconds.
    pub sum: f64,
    /// Square nanoseconds.
    pub sum_of_squares: f64,
    /// Nanoseconds.
    pub min: u64,
    /// Nanoseconds.
    pub max: u64,
}

impl Buckets {
    /// Makes a histogram of pairs of upper border (nanoseconds) and requests, in any order. Pairs
    /// of one border are added up.
    #[must_use]
    pub fn new(pairs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut counts: Vec<(u64, u64)> = pairs.into_iter().filter(|pair| pair.1 > 0).collect();
        counts.sort_unstable_by_key(|pair| pair.0);
        counts.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            is_same
        });
        Self { counts, is_open: false, moments: None }
    }

    /// Upper borders in nanoseconds and requests, ascending.
    #[must_use]
    pub fn counts(&self) -> &[(u64, u64)] {
        &self.counts
    }

    #[must_use]
    pub fn requests(&self) -> u64 {
        self.counts.iter().fold(0, |sum, pair| sum.saturating_add(pair.1))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Whether mean and deviation are those of the values, not of their buckets.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.moments.is_some()
    }

    /// Adds the requests of another. The result has the borders of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = Self::new(self.counts.iter().chain(&other.counts).copied());
        sum.is_open = self.is_open || other.is_open;
        sum.moments = match (self.moments, other.moments) {
            (Some(a), Some(b)) => Some(Moments {
                sum: a.sum + b.sum,
                sum_of_squares: a.sum_of_squares + b.sum_of_squares,
                min: a.min.min(b.min),
                max: a.max.max(b.max),
            }),
            (Some(one), None) if other.is_empty() => Some(one),
            (None, Some(one)) if self.is_empty() => Some(one),
            _ => None,
        };
        sum
    }

    /// The least border below or at which this share (0 to 1) of the requests lies, in
    /// nanoseconds. None without requests.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let requests = self.requests();
        // Rounded up: the 99th percentile of 10 requests is the 10th.
        let wanted = ((requests as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0_u64;
        for (border, count) in &self.counts {
            seen = seen.saturating_add(*count);
            if seen >= wanted {
                return Some(self.moments.map_or(*border, |moments| (*border).min(moments.max)));
            }
        }
        None
    }

    /// The share of the requests (0 to 1) that took at most `border` nanoseconds; a bucket that
    /// lies across it counts by the part below.
    #[must_use]
    pub fn share_up_to(&self, border: u64) -> f64 {
        let mut from = 0;
        let mut below = 0.0;
        for (to, count) in &self.counts {
            if *to <= border {
                below += *count as f64;
            } else if from < border {
                below += *count as f64 * (border - from) as f64 / (*to - from) as f64;
            }
            from = *to;
        }
        let requests = self.requests();
        if requests == 0 { 0.0 } else { below / requests as f64 }
    }

    /// Nanoseconds. None without requests.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let requests = self.requests() as f64;
        if requests == 0.0 {
            return None;
        }
        let sum = match self.moments {
            Some(moments) => moments.sum,
            None => self.middles().map(|(middle, count)| middle * count).sum(),
        };
        Some(sum / requests)
    }

    /// Standard deviation in nanoseconds. None without requests.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        let mean = self.mean()?;
        let requests = self.requests() as f64;
        let squares = match self.moments {
            Some(moments) => moments.sum_of_squares,
            None => self.middles().map(|(middle, count)| middle * middle * count).sum(),
        };
        Some((squares / requests - mean * mean).max(0.0).sqrt())
    }

    /// Middles in nanoseconds and requests.
    fn middles(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let mut from = 0_u64;
        self.counts.iter().map(move |(to, count)| {
            let middle = (from as f64 + *to as f64) / 2.0;
            from = *to;
            (middle, *count as f64)
        })
    }
}
