//! Makes a history that fails shorter: as long as something can be left out and it still fails, it is left out.
//!
//! Any failure counts: with less around it, a fault may show in another way. Each try is a process of its own, so that
//! one that never ends or takes the process with it is a try like others.

use crate::plan::Plan;
use std::time::{Duration, Instant};

/// Shrinks `plan` until nothing can be left out or the time is over. `fails`: runs a plan, and says how it failed.
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
