//! What a run has measured: of each class a histogram and a time line. Kept as one JSON file.
//!
//! Runs of our own, of other load generators and of databases are all runs once they are read: what
//! compares them asks nothing else.

use crate::{buckets::Buckets, model::Class};
use serde::{Deserialize, Serialize};

/// The version of the file. Read are all up to it.
pub const VERSION: u32 = 1;

/// How requests were issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loop {
    /// At times that were fixed before: latency counts from the intended start.
    Open,
    /// The next when one has ended: latency counts from the start, and a stall hides those that
    /// would have come meanwhile.
    Closed,
    /// A database did, or the file does not say.
    Unknown,
}

/// See above.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub version: u32,
    /// As tables and legends call it.
    pub label: String,
    /// `plinth load run`, `fio 3.33`, `AWR 19.3`.
    pub source: String,
    /// What was measured: devices, files, a database.
    pub targets: Vec<String>,
    /// Begin, seconds since 1970; None if it is not known.
    pub began: Option<u64>,
    /// Seconds.
    pub seconds: f64,
    pub issued: Loop,
    pub classes: Vec<ClassRun>,
    /// Of what a reader should beware.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One class of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassRun {
    /// `random-read`; a job's name of another program.
    pub name: String,
    pub class: Option<Class>,
    pub requests: u64,
    pub bytes: u64,
    pub errors: u64,
    /// Empty if it is not known.
    pub latency: Buckets,
    /// In nanoseconds, for what has a mean and no histogram, or one that does not know the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Ascending.
    #[serde(default)]
    pub line: Vec<Point>,
}

/// An interval of a time line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Begin, seconds from the run's.
    pub at: f64,
    /// Seconds.
    pub length: f64,
    pub requests: u64,
    pub bytes: u64,
    /// Latencies of the interval, in nanoseconds: mean, standard deviation, 99th percentile,
    /// largest.
    pub mean: f64,
    pub deviation: f64,
    pub p99: f64,
    pub max: f64,
}

impl ClassRun {
    /// Nanoseconds. A mean that was measured counts before one from the middles of buckets.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let estimate = self.latency.mean();
        if self.latency.is_exact() { estimate } else { self.mean.or(estimate) }
    }
}

impl Run {
    /// # Errors
    /// In one sentence, without the file's name: what is wrong with the text.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let run: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if run.version > VERSION {
            return Err(format!(
                "it has version {}, and this program reads up to {VERSION}: take a newer one",
                run.version
            ));
        }
        Ok(run)
    }

    /// # Panics
    /// Never: no map in it has keys that are no strings.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers, strings and lists")
    }

    /// Requests a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            self.classes.iter().map(|class| class.requests as f64).sum::<f64>() / self.seconds
        } else {
            0.0
        }
    }
}
