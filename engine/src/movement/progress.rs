//! How far a long operation is: a resync, a rebalance.

use crate::admin::{Operation, OperationPass, OperationState};
use std::{collections::VecDeque, time::Duration};

/// The rate is that of this much time before now: older progress says little about the end.
const WINDOW: Duration = Duration::from_secs(30);
/// How far apart the moments are at which it is noted how far it was.
const STEP: Duration = Duration::from_secs(1);

/// The progress of an operation. It counts in units of its own: extents, or mirrors.
#[derive(Debug, Clone)]
pub struct Progress {
    pub state: OperationState,
    pub so_far: u64,
    pub work: u64,
    pub bytes: u64,
    /// How far it was at moments within the window, and at the last one before it: oldest first.
    was: VecDeque<(Duration, u64)>,
    /// When it was last one further.
    last: Duration,
    pub error: Option<String>,
}

impl Progress {
    /// Of one that begins now.
    #[must_use]
    pub fn begin(now: Duration) -> Self {
        Self {
            state: OperationState::Run,
            so_far: 0,
            work: 0,
            bytes: 0,
            was: VecDeque::from([(now, 0)]),
            last: now,
            error: None,
        }
    }

    /// Of one that goes on now, and is so far already.
    #[must_use]
    pub fn resume(now: Duration, so_far: u64, work: u64, bytes: u64) -> Self {
        Self { so_far, work, bytes, was: VecDeque::from([(now, so_far)]), ..Self::begin(now) }
    }

    /// One more is done, for which `bytes` bytes were copied.
    pub fn advance(&mut self, now: Duration, bytes: u64) {
        self.advance_by(now, 1, bytes);
    }

    /// The same of `count`.
    pub fn advance_by(&mut self, now: Duration, count: u64, bytes: u64) {
        self.so_far += count;
        self.bytes += bytes;
        self.last = now;
        if self.was.back().is_none_or(|(last, _)| now.saturating_sub(*last) >= STEP) {
            self.was.push_back((now, self.so_far));
            while self.was.get(1).is_some_and(|(next, _)| now.saturating_sub(*next) >= WINDOW) {
                self.was.pop_front();
            }
        }
    }

    /// As `V$ASM_OPERATION` shows it.
    #[must_use]
    pub fn operation(&self, pass: OperationPass, power: u32, now: Duration) -> Operation {
        // One that has ended keeps the rate that it had.
        let now = match self.state {
            OperationState::Run | OperationState::Wait => now,
            OperationState::Done | OperationState::Errs => self.last,
        };
        // The oldest moment that is no more than the window ago, or the last before it.
        let recent = self.was.iter().rev().find(|(at, _)| now.saturating_sub(*at) >= WINDOW);
        let (since, was) = recent.or(self.was.front()).copied().unwrap_or((now, self.so_far));
        let millis =
            u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX).max(1);
        Operation {
            pass,
            state: self.state,
            power,
            so_far: self.so_far,
            work: self.work.max(self.so_far),
            rate: (self.so_far - was) * 60_000 / millis,
            bytes: self.bytes,
            error: self.error.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour at one a second, then ten a second: the last half minute predicts what comes next.
    #[test]
    fn the_rate_is_that_of_the_last_half_minute() {
        let at = |seconds: f64| Duration::from_secs_f64(seconds);
        let mut progress = Progress::begin(at(0.0));
        (1..=3600).for_each(|second| progress.advance(at(f64::from(second)), 1));
        assert_eq!(progress.operation(OperationPass::Rebalance, 8, at(3600.0)).rate, 60);
        (1..=400).for_each(|tenth| progress.advance(at(3600.0 + f64::from(tenth) / 10.0), 1));
        assert!(
            (595..=605).contains(&progress.operation(OperationPass::Rebalance, 8, at(3640.0)).rate)
        );
        assert_eq!(progress.operation(OperationPass::Rebalance, 8, at(3640.0)).bytes, 4000);
        assert!(progress.was.len() < 40, "nothing is kept for ever");
        // It is paused.
        assert_eq!(progress.operation(OperationPass::Rebalance, 0, at(9000.0)).rate, 0);
        let resumed = Progress::resume(at(5.0), 500, 900, 1 << 30);
        let operation = resumed.operation(OperationPass::Reclaim, 1, at(6.0));
        assert_eq!((operation.so_far, operation.work, operation.rate), (500, 900, 0));
        let fresh = Progress::begin(at(5.0));
        assert_eq!(fresh.operation(OperationPass::Rebalance, 8, at(5.0)).rate, 0);
    }
}
