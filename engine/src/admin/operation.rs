//! Long operations as SQL shows them, and the moves that a statement would cause.

use crate::words::sql_words;
use serde::{Deserialize, Serialize};

sql_words! {
    /// `V$ASM_OPERATION.PASS`: the kind of the operation.
    pub enum OperationPass {
        /// Mirrors in the regions of the activity log are compared after a crash.
        Recovery = "RECOVERY",
        /// A disk that was offline gets the writes that it missed.
        Resync = "RESYNC",
        Rebalance = "REBALANCE",
        /// The phase of a rebalance that restores lost mirrors.
        Rebuild = "REBUILD",
        /// The phase of a rebalance that moves mirrors from the end of a disk to its beginning.
        Compact = "COMPACT",
        Scrubbing = "SCRUBBING",
        /// All free space is given back to thin devices.
        Reclaim = "RECLAIM",
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
        /// Lost mirrors are restored.
        Restore = "RESTORE",
        Balance = "BALANCE",
        Resize = "RESIZE",
        Convert = "CONVERT",
    }
}

/// A long operation that is in flight or has just ended: a row of `v$asm_operation`. AUs and AUs
/// per minute.
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

/// The answer to `EXPLAIN WORK`: the moves of a statement. In mirrors, of one AU each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    pub work: u64,
    /// No plan that ends even could move fewer.
    pub least: u64,
    /// Bytes of an AU.
    pub au_size: u64,
    /// The steps of which `work` is the sum.
    #[serde(default)]
    pub steps: Vec<PlannedStep>,
    /// The recent speed of moves, if that is known.
    #[serde(default)]
    pub rate: Option<Rate>,
}

/// Mirrors with the same source and destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStep {
    pub pass: PlannedPass,
    /// Names of disks; `None`: it is decided during the rebalance.
    pub from: Option<String>,
    pub to: Option<String>,
    pub mirrors: u64,
    pub why: String,
}

/// The speed of moves, and the power at which it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    pub per_minute: u64,
    pub power: u32,
}
