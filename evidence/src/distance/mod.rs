//! The cost of distance: overhead, slope and round trips of a log write.
//!
//! A mirrored write is answered when its slowest copy is:
//!
//! ```text
//!   t = max over the copies of (overhead + slope * size + n * RTT)      RTT = 2 * km * 5 us
//!
//!   overhead   of the device and the path to it, for a write of no bytes
//!   slope      what each byte costs; mostly the array, not the wire
//!   n          round trips of one write: 1 if the answer to the write is the answer, 2 if a flush
//!              follows it or the other end asks for the data first (SCSI without fast write)
//! ```
//!
//! n is fitted, not taken for granted. The steps:
//!
//! 1. Writes of four sizes or more to all targets, each durable before the next, in rounds of
//!    alternating order ([`measure`]); or points that others measured.
//! 2. Overhead, slope and n by least squares of the medians; their 95 % intervals by drawing the
//!    rounds again ([`fit`]).
//! 3. The table of kilometres and milliseconds ([`table`]).
//!
//! Invariants:
//!
//! 1. Times are in nanoseconds, sizes in bytes, everywhere but in [`table`].
//! 2. Nothing that is there is overwritten without `force` ([`target`]).
//! 3. The overhead counts once. Where a table has a column with it counted twice, as a well-known
//!    article has it, the column's title says so.

pub mod amounts;
pub mod fit;
pub mod measure;
pub mod table;
pub mod target;

use serde::{Deserialize, Serialize};

/// The version of the file with measurements. Read are all up to it.
pub const VERSION: u32 = 1;

/// Light in glass: nanoseconds for a kilometre there and back.
pub const RTT_OF_KM: f64 = 2.0 * 5_000.0;

/// The measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub version: u32,
    /// The first one is the local copy.
    pub targets: Vec<Target>,
}

/// The log writes to one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    pub name: String,
    /// Round-trip time in nanoseconds; 0 for a local one.
    pub rtt: f64,
    /// Ascending by size.
    pub cells: Vec<Cell>,
}

/// The log writes of one size to one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Bytes.
    pub size: u64,
    pub writes: u64,
    /// Nanoseconds.
    pub median: f64,
    pub p25: f64,
    pub p75: f64,
    pub p99: f64,
    /// The median of each round; empty for points that others measured.
    pub rounds: Vec<f64>,
    /// By how much `median` may be wrong because it was rounded.
    pub rounding: f64,
}

impl Measured {
    /// Reads a file of [`crate::command`]'s `--json`.
    ///
    /// # Errors
    /// In one sentence, without the file's name: what is wrong with the text.
    pub fn from_json(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Saved {
            measured: Measured,
        }
        let Saved { measured } = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if measured.version > VERSION {
            return Err(format!(
                "it has version {}, and this program reads up to {VERSION}: take a newer one",
                measured.version
            ));
        }
        let is_time = |time: f64| time.is_finite() && time >= 0.0;
        let is_right = |target: &Target| {
            !target.cells.is_empty()
                && is_time(target.rtt)
                && target.cells.iter().all(|cell| {
                    cell.size > 0
                        && is_time(cell.median)
                        && cell.rounds.iter().copied().all(is_time)
                })
        };
        if measured.targets.is_empty() || !measured.targets.iter().all(is_right) {
            return Err("it has no measured target, or one with a time that is none".to_owned());
        }
        Ok(measured)
    }
}

/// The value at a part of a sorted list, between neighbours where it falls between them; 0 for an
/// empty one.
#[must_use]
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = part.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    let value = |at: usize| sorted.get(at).copied().unwrap_or_default();
    value(low) + (value(high) - value(low)) * (at - at.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), 3.0);
        assert_eq!(quantile(&[1.0], 0.99), 1.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn a_file_without_measurements_is_refused_in_one_sentence() {
        for text in [
            "",
            "{}",
            r#"{"measured":{"version":1,"targets":[]}}"#,
            r#"{"measured":{"version":2,"targets":[]}}"#,
            r#"{"measured":{"version":1,"targets":[{"name":"a","rtt":-1,"cells":[]}]}}"#,
        ] {
            let error = Measured::from_json(text).expect_err(text);
            assert!(!error.is_empty() && !error.contains('\n'), "{text}: {error}");
        }
    }
}
