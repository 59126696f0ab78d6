//! Makes a history that fails shorter: as long as something can be left out and it still fails, it
//! is left out.
//!
//! Any failure counts: in a shorter history a fault may show in another way. Each try is its own
//! process, so that one that never ends or kills the process is a try like others.

use crate::plan::Plan;
use std::time::{Duration, Instant};

/// Shrinks `plan` until nothing can be left out or the time is over. `fails` runs a plan, and
/// returns its failure.
pub fn shrink(
    plan: Plan,
    time: Duration,
    fails: impl Fn(&Plan) -> Option<String>,
) -> (Plan, Option<String>) {
    let end = Instant::now() + time;
    let (mut best, mut failure) = (plan, None);
    'again: while Instant::now() < end {
        for lesser in best.lesser() {
            if Instant::now() >= end {
                break 'again;
            }
            if let Some(how) = fails(&lesser) {
                (best, failure) = (lesser, Some(how));
                continue 'again;
            }
        }
        break;
    }
    (best, failure)
}
