//! Long operations as SQL shows them: what is in flight, and what a statement would move.

use crate::words::sql_words;
use serde::{Deserialize, Serialize};

sql_words! {
    /// `V$ASM_OPERATION.PASS`: what is being done.
    pub enum OperationPass {
        /// Mirrors that the activity log names are compared after a crash.
        Recovery = "RECOVERY",
        /// A disk that was offline gets what it missed.
        Resync = "RESYNC",
        Rebalance = "REBALANCE",
        /// The stage of a rebalance that makes lost mirrors again.
        Rebuild = "REBUILD",
        /// The stage of a rebalance that moves what lies at the end of a disk to its beginning.
        Compact = "COMPACT",
        Scrubbing = "SCRUBBING",
        Checking = "CHECKING",
    }
}

sql_words! {
    /// `V$ASM_OPERATION.STATE`.
    pub enum OperationState {
        /// It is paused, and goes on.
        Wait = "WAIT",
        Run = "RUN",
        Done = "DONE",
        /// It ended with an error.
        Errs = "ERRS",
    }
}

sql_words! {
    /// The `PASS` of a row of `EXPLAIN WORK`.
    pub enum PlannedPass {
        /// Mirrors that are lost are made again.
        Restore = "RESTORE",
        Balance = "BALANCE",
        Resize = "RESIZE",
        Convert = "CONVERT",
    }
}

/// A long operation that is in flight or has just ended: a row of `v$asm_operation`. AUs and AUs per minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub pass: OperationPass,
    pub state: OperationState,
    pub power: u32,
    pub so_far: u64,
    pub work: u64,
    pub rate: u64,
    /// Bytes copied.
    pub bytes: u64,
    pub error: Option<String>,
}

/// What a statement would move: the answer to `EXPLAIN WORK`. In mirrors, of one AU each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    pub work: u64,
    /// No plan that ends even could move fewer.
    pub least: u64,
    /// Bytes of an AU.
    pub au_size: u64,
    /// What `work` is the sum of.
    #[serde(default)]
    pub steps: Vec<PlannedStep>,
    /// How fast mirrors moved lately, if that is known.
    #[serde(default)]
    pub rate: Option<Rate>,
}

/// Mirrors that go one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStep {
    pub pass: PlannedPass,
    /// Names of disks; `None`: it is decided on the way.
    pub from: Option<String>,
    pub to: Option<String>,
    pub mirrors: u64,
    pub why: String,
}

/// How fast mirrors moved, at which power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    pub per_minute: u64,
    pub power: u32,
}
