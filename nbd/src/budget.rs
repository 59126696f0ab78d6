//! A bound on the bytes that requests hold at one time: of one connection, and of all of them.
//!
//! Who wants more than there is waits, and with him whatever the same client sends next: that is how the client learns to wait.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

/// How often who waits looks whether it is still worth it.
const LOOK: Duration = Duration::from_millis(200);

/// Whoever need not wait takes no lock, and whoever gives back wakes nobody if nobody waits: each small request does both twice.
#[derive(Debug)]
pub(crate) struct Budget {
    max: usize,
    used: AtomicUsize,
    /// So many wait. Who waits counts himself before he looks at `used` for the last time, who gives back looks here after he has: one of them sees
    /// the other.
    waiting: AtomicUsize,
    /// Held from that last look until the wait has begun, and for waking.
    gate: Mutex<()>,
    freed: Condvar,
}

/// A part of a budget, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub fn new(max: usize) -> Arc<Self> {
        let (used, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { max, used, waiting, gate: Mutex::new(()), freed: Condvar::new() })
    }

    /// Waits until `bytes` are free and takes them; `None` if it is in vain. More than there is at all can be had when nobody has any.
    pub fn take(self: &Arc<Self>, bytes: usize, is_in_vain: impl Fn() -> bool) -> Option<Taken> {
        let fits = |used| used == 0 || self.fits(used, bytes);
        if let Some(taken) = self.take_if(bytes, fits) {
            return Some(taken);
        }
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, SeqCst);
        let taken = loop {
            match self.take_if(bytes, fits) {
                None if !is_in_vain() => {}
                ended => break ended,
            }
            gate = self.freed.wait_timeout(gate, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        };
        self.waiting.fetch_sub(1, SeqCst);
        taken
    }

    /// Takes `bytes` if they are free.
    pub fn take_at_once(self: &Arc<Self>, bytes: usize) -> Option<Taken> {
        self.take_if(bytes, |used| self.fits(used, bytes))
    }

    fn take_if(self: &Arc<Self>, bytes: usize, fits: impl Fn(usize) -> bool) -> Option<Taken> {
        self.used
            .fetch_update(SeqCst, SeqCst, |used| fits(used).then(|| used.saturating_add(bytes)))
            .ok()?;
        Some(Taken { budget: Arc::clone(self), bytes })
    }

    /// Whether so many are free.
    pub fn has(&self, bytes: usize) -> bool {
        self.fits(self.used.load(SeqCst), bytes)
    }

    fn fits(&self, used: usize, bytes: usize) -> bool {
        used.checked_add(bytes).is_some_and(|more| more <= self.max)
    }

    #[cfg(any(test, feature = "fuzz"))]
    pub fn used(&self) -> usize {
        self.used.load(SeqCst)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, SeqCst);
        if self.budget.waiting.load(SeqCst) > 0 {
            drop(self.budget.gate.lock());
            self.budget.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn who_wants_more_than_is_left_waits() {
        let budget = Budget::new(100);
        let first = budget.take(60, || true).expect("there is room");
        assert!(budget.take(60, || true).is_none());
        let waiting = {
            let budget = Arc::clone(&budget);
            thread::spawn(move || budget.take(60, || false).is_some())
        };
        drop(first);
        assert!(waiting.join().expect("it ended"));
        assert_eq!(budget.used(), 0);
        assert!(budget.take(1000, || true).is_some(), "who is alone is served");
        assert!(budget.take_at_once(101).is_none() && budget.take_at_once(usize::MAX).is_none());
        let _all = budget.take_at_once(100).expect("there is room");
        assert!(budget.take_at_once(1).is_none());
    }

    #[test]
    fn many_share_a_budget_and_never_have_more_than_there_is() {
        let budget = Budget::new(100);
        let held = AtomicUsize::new(0);
        thread::scope(|scope| {
            for number in 0..8_usize {
                let (budget, held) = (&budget, &held);
                scope.spawn(move || {
                    for round in 0..2000 {
                        let bytes = 1 + (number * 31 + round * 7) % 60;
                        let patient = round % 3 > 0;
                        let taken = if patient {
                            budget.take(bytes, || false)
                        } else {
                            budget.take_at_once(bytes)
                        };
                        assert!(taken.is_some() || !patient, "who waits is served in the end");
                        if let Some(taken) = taken {
                            assert!(held.fetch_add(bytes, SeqCst) + bytes <= 100);
                            held.fetch_sub(bytes, SeqCst);
                            drop(taken);
                        }
                    }
                });
            }
        });
        assert_eq!((budget.used(), budget.waiting.load(SeqCst)), (0, 0));
    }
}
