//! How far a long operation is: a resync, a rebalance.

use crate::admin::Operation;
use std::time::Duration;

/// How far it is. What is counted is the operation's own: extents, or mirrors.
#[derive(Debug, Clone)]
pub struct Progress {
    pub state: &'static str,
    pub so_far: u64,
    pub work: u64,
    pub bytes: u64,
    began: Duration,
    pub error: Option<String>,
}

impl Progress {
    /// Of one that begins now.
    #[must_use]
    pub fn begin(now: Duration) -> Self {
        Self { state: "RUN", so_far: 0, work: 0, bytes: 0, began: now, error: None }
    }

    /// As `V$ASM_OPERATION` shows it.
    #[must_use]
    pub fn operation(&self, pass: &str, power: u32, now: Duration) -> Operation {
        let millis = u64::try_from(now.saturating_sub(self.began).as_millis()).unwrap_or(u64::MAX).max(1);
        Operation {
            pass: pass.to_owned(),
            state: self.state.to_owned(),
            power,
            so_far: self.so_far,
            work: self.work.max(self.so_far),
            rate: self.so_far * 60_000 / millis,
            bytes: self.bytes,
            error: self.error.clone(),
        }
    }
}
