//! The load that a database puts on storage, as a model: a few classes of I/O, each with a rate, a
//! size and the latency that the report measured.
//!
//! Invariants:
//!
//! 1. The classes add up to the report: requests and bytes, of reads and of writes.
//!    `residual` has the rest, and is 0 if all fits.
//! 2. A size is a multiple of 512 bytes, and at most 1 MiB. A mean that is none is in `mean_size`,
//!    and is issued as a mix of the two multiples around it ([`Stream::sizes`]).
//! 3. `assumed` has all that was taken for granted, `missing` all that the report did not have.

pub mod text;

use crate::buckets::Buckets;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The smallest request, in bytes, and what sizes are multiples of.
pub const SIZE_MIN: u64 = 512;
/// The largest request, in bytes.
pub const SIZE_MAX: u64 = 1 << 20;

/// A kind of I/O of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Single blocks, anywhere.
    RandomRead,
    /// What a report counts as multi block: 128 KiB and more.
    LargeRead,
    RandomWrite,
    LargeWrite,
    /// Redo, write-ahead log: one after the other, each durable before the next.
    LogWrite,
}

impl Class {
    pub const ALL: [Self; 5] =
        [Self::RandomRead, Self::LargeRead, Self::RandomWrite, Self::LargeWrite, Self::LogWrite];

    /// As a model's file and the columns of tables have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RandomRead => "random-read",
            Self::LargeRead => "large-read",
            Self::RandomWrite => "random-write",
            Self::LargeWrite => "large-write",
            Self::LogWrite => "log-write",
        }
    }

    /// As people read it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::RandomRead => "random read",
            Self::LargeRead => "large read",
            Self::RandomWrite => "random write",
            Self::LargeWrite => "large write",
            Self::LogWrite => "log write",
        }
    }

    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::RandomRead | Self::LargeRead)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One class of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    pub class: Class,
    /// Requests a second.
    pub rate: f64,
    /// Bytes of a request: a multiple of 512.
    pub size: u64,
    /// Bytes of a request on average, where that is no multiple of 512.
    pub mean_size: Option<f64>,
    /// The mean that the report measured, in nanoseconds.
    pub latency: Option<f64>,
    /// Where the latency comes from: `db file sequential read`.
    pub latency_from: Option<String>,
}

impl Stream {
    /// Requests of this mean size, which is taken to be from 512 bytes to 1 MiB.
    #[must_use]
    pub fn of_mean(class: Class, rate: f64, mean: f64) -> Self {
        let mean = mean.clamp(SIZE_MIN as f64, SIZE_MAX as f64);
        let size = (mean / SIZE_MIN as f64).round() as u64 * SIZE_MIN;
        let mean_size = ((size as f64 - mean).abs() > mean * 1e-7).then_some(mean);
        Self { class, rate, size, mean_size, latency: None, latency_from: None }
    }

    /// Bytes of a request on average.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean_size.unwrap_or(self.size as f64)
    }

    /// The sizes whose mix has the mean, with their shares (0 to 1): one, or two multiples of 512
    /// that follow each other.
    #[must_use]
    pub fn sizes(&self) -> Vec<(u64, f64)> {
        let Some(mean) = self.mean_size else { return vec![(self.size, 1.0)] };
        let below = (mean / SIZE_MIN as f64).floor() as u64 * SIZE_MIN;
        let above = (mean - below as f64) / SIZE_MIN as f64;
        if above == 0.0 || !(SIZE_MIN..SIZE_MAX).contains(&below) {
            return vec![(below.clamp(SIZE_MIN, SIZE_MAX), 1.0)];
        }
        vec![(below, 1.0 - above), (below + SIZE_MIN, above)]
    }
}

/// Requests and bytes a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    pub reads: f64,
    pub read_bytes: f64,
    pub writes: f64,
    pub write_bytes: f64,
}

/// The latencies of one wait event of the report.
#[derive(Debug, Clone, PartialEq)]
pub struct Waits {
    /// `db file sequential read`.
    pub event: String,
    pub buckets: Buckets,
    /// The report's own mean, in nanoseconds.
    pub mean: Option<f64>,
}

/// See above.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// Of the database or the host, as the report has it.
    pub name: String,
    /// `AWR 19.3 HTML`, `Statspack`, `pg_stat_io`.
    pub source: String,
    /// The file.
    pub file: String,
    /// Of the database, in bytes.
    pub block_size: Option<u64>,
    /// How long the averages are for, in seconds.
    pub elapsed: f64,
    /// At most one of a class.
    pub streams: Vec<Stream>,
    /// As the report has them.
    pub totals: Totals,
    /// Totals without what the streams add up to.
    pub residual: Totals,
    pub assumed: Vec<String>,
    pub missing: Vec<String>,
    /// Of what a reader should beware: `averages over 24 h: peaks are averaged away`.
    pub warnings: Vec<String>,
    pub waits: Vec<Waits>,
}

impl Totals {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            write_bytes: self.write_bytes + other.write_bytes,
        }
    }

    /// These without others.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        // Sums of rates differ in their last bits.
        let minus = |a: f64, b: f64| if (a - b).abs() <= a.abs() * 1e-9 { 0.0 } else { a - b };
        Self {
            reads: minus(self.reads, other.reads),
            read_bytes: minus(self.read_bytes, other.read_bytes),
            writes: minus(self.writes, other.writes),
            write_bytes: minus(self.write_bytes, other.write_bytes),
        }
    }
}

impl Model {
    #[must_use]
    pub fn stream(&self, class: Class) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.class == class)
    }

    /// The sums of the streams.
    #[must_use]
    pub fn sums(&self) -> Totals {
        let mut sums = Totals::default();
        for stream in &self.streams {
            let bytes = stream.rate * stream.mean();
            if stream.class.reads() {
                sums.reads += stream.rate;
                sums.read_bytes += bytes;
            } else {
                sums.writes += stream.rate;
                sums.write_bytes += bytes;
            }
        }
        sums
    }
}
