//! How a write enters a region that is open: one atomic instruction, and one when it leaves.
//!
//! The table of regions says which there are; the gate of each counts the writers inside, and
//! whether it may be entered. It is closed only while no writer is inside, so a writer that has
//! entered is inside of an open region until it leaves. Extents remember the gate of their region
//! (`extent/mod.rs`); that of a closed region never opens again once the region is out of the
//! table.

use std::{
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, SeqCst},
    },
    time::Duration,
};

/// Set while it may be entered; below it, how many are inside.
const OPEN: u64 = 1 << 63;

/// See the module's description.
#[derive(Debug, Default)]
pub struct Gate {
    state: AtomicU64,
    /// When it was last entered, in nanoseconds of the monotonic clock.
    last_used: AtomicU64,
}

impl Gate {
    /// Of a region that is not open yet.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        let gate = Self::default();
        gate.note(now);
        gate
    }

    fn note(&self, now: Duration) {
        self.last_used.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// When it was last entered, or made.
    #[must_use]
    pub fn last_used(&self) -> Duration {
        Duration::from_nanos(self.last_used.load(Relaxed))
    }

    /// Enters, if it is open.
    pub fn enter(&self, now: Duration) -> bool {
        let one_more = |state| (state & OPEN != 0).then_some(state + 1);
        let has_entered = self.state.fetch_update(SeqCst, Relaxed, one_more).is_ok();
        if has_entered {
            self.note(now);
        }
        has_entered
    }

    /// Leaves.
    pub fn leave(&self) {
        self.state.fetch_sub(1, SeqCst);
    }

    /// Whether a writer is inside.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.state.load(Acquire) & !OPEN != 0
    }

    pub fn open(&self) {
        self.state.fetch_or(OPEN, SeqCst);
    }

    /// Closes it, unless a writer is inside.
    pub fn close(&self) -> bool {
        self.state.fetch_update(SeqCst, Relaxed, |state| (state & !OPEN == 0).then_some(0)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    #[test]
    fn a_gate_is_entered_while_open_and_closed_while_empty() {
        let gate = Gate::new(Duration::from_secs(1));
        assert!(!gate.enter(Duration::from_secs(2)) && gate.last_used() == Duration::from_secs(1));
        gate.open();
        assert!(gate.enter(Duration::from_secs(3)) && gate.enter(Duration::from_secs(4)));
        gate.leave();
        assert!(gate.is_used() && !gate.close());
        gate.leave();
        assert!(!gate.is_used() && gate.close() && !gate.enter(Duration::from_secs(5)));
        assert!(gate.close(), "it is closed already");
        assert_eq!(gate.last_used(), Duration::from_secs(4));
    }

    /// After a successful close no writer is inside until the gate is opened.
    #[test]
    fn a_closed_gate_is_empty() {
        let (gate, inside, ended) = (Gate::default(), AtomicUsize::new(0), AtomicBool::new(false));
        gate.open();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !ended.load(SeqCst) {
                        if gate.enter(Duration::ZERO) {
                            inside.fetch_add(1, SeqCst);
                            inside.fetch_sub(1, SeqCst);
                            gate.leave();
                        }
                    }
                });
            }
            let mut closed = 0;
            while closed < 2_000 {
                if gate.close() {
                    assert_eq!(inside.load(SeqCst), 0);
                    closed += 1;
                    gate.open();
                }
            }
            ended.store(true, SeqCst);
        });
    }
}
