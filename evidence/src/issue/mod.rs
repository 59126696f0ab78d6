//! Issues the load of a model to targets, and measures it.
//!
//! ```text
//!   plan + targets --> drive --> worker (a thread) --> engine: io_uring, or threads
//!                        |          ^      |
//!                        |       lanes   tallies
//!                        v          |      v
//!                    observer    places  collect --> recorder --> run
//!                                arrival
//! ```
//!
//! By default the loop is open: each class has the times of its requests before the first is
//! issued ([`arrival`]), and a latency counts from there. `closed` begins a request when one has
//! ended, counts from there, and the result says so.
//!
//! Invariants:
//!
//! 1. Nothing is written to a target that carries anything, unless that is forced; nothing at all
//!    to one that is in use, and nothing by a plan that only reads and does not fill.
//! 2. All memory is taken before the first request: a run of eight hours needs no more than one of
//!    a minute.
//! 3. A run that is interrupted has the results so far.

pub mod arrival;
mod collect;
mod drive;
mod engine;
mod fill;
mod lanes;
mod nbd;
mod place;
mod plan;
mod pool;
pub mod recorder;
mod ring;
pub mod slob;
mod stamp;
mod steady;
mod target;
#[cfg(test)]
mod tests;
pub mod text;
mod verify;
mod worker;

pub use collect::Interval;
pub use drive::Length;
pub use plan::{Closed, Outcome, Plan, measure, run};
pub use steady::{ROUND, ROUNDS_MAX};

use std::io;

/// Hears of a run while it goes on.
pub trait Observer {
    /// The data is written and the gate is open: the first request is next.
    fn begins(&mut self) {}

    /// A second has ended.
    fn interval(&mut self, interval: &Interval) {
        let _ = interval;
    }

    /// Something that a person should know, in one line.
    fn say(&mut self, text: &str) {
        let _ = text;
    }

    /// Whether the run is to end now.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Hears nothing.
pub struct Silent;

impl Observer for Silent {}

/// Why a load was not issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The plan is wrong.
    #[error("{0}")]
    Plan(String),
    /// A target is refused.
    #[error("{name}: {what}")]
    Target { name: String, what: String },
    #[error("cannot {doing} {name}: {source}")]
    Io { name: String, doing: &'static str, source: io::Error },
    /// A signal came before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
    /// The machinery failed.
    #[error("the load cannot go on: {0}")]
    Threads(io::Error),
}

impl IssueError {
    /// Whether nothing had begun: arguments or targets are wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Threads(_) | Self::Interrupted)
    }
}
