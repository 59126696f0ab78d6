//! A limit for the bytes that requests hold at one time: of one connection, and of all of them.
//!
//! A thread that wants more bytes than are free waits, and reads no more requests of its client
//! meanwhile. So the client has to wait too: back-pressure.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

/// How often a waiting thread checks whether it waits in vain.
const LOOK: Duration = Duration::from_millis(200);

/// A thread that need not wait takes no lock, and freeing bytes wakes no thread if none waits: a
/// small request does each of these twice.
#[derive(Debug)]
pub(crate) struct Budget {
    max: usize,
    used: AtomicUsize,
    /// Threads that wait. A thread is counted here before it last checks `used`, and a thread that
    /// frees bytes checks this after it has changed `used`: at least one of them sees the other.
    waiting: AtomicUsize,
    /// Held from that last check until the wait has begun, and for waking.
    sleep: Mutex<()>,
    freed: Condvar,
}

/// Bytes of a budget, freed when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub fn new(max: usize) -> Arc<Self> {
        let (used, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { max, used, waiting, sleep: Mutex::new(()), freed: Condvar::new() })
    }

    /// Waits until `bytes` are free, and takes them; `None` if `is_in_vain`. More than `max` can be
    /// taken while none are taken.
    pub fn take(self: &Arc<Self>, bytes: usize, is_in_vain: impl Fn() -> bool) -> Option<Taken> {
        let fits = |used| used == 0 || self.fits(used, bytes);
        if let Some(taken) = self.take_if(bytes, fits) {
            return Some(taken);
        }
        let mut sleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, SeqCst);
        let taken = loop {
            match self.take_if(bytes, fits) {
                None if !is_in_vain() => {}
                ended => break ended,
            }
            sleep = self.freed.wait_timeout(sleep, LOOK).unwrap_or_else(PoisonError::into_inner).0;
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

    /// Whether `bytes` are free.
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
            drop(self.budget.sleep.lock());
            self.budget.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_waits_until_enough_bytes_are_free() {
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
        assert!(budget.take(1000, || true).is_some(), "a request of any size is served alone");
        assert!(budget.take_at_once(101).is_none() && budget.take_at_once(usize::MAX).is_none());
        let _all = budget.take_at_once(100).expect("there is room");
        assert!(budget.take_at_once(1).is_none());
    }

    #[test]
    fn threads_that_share_a_budget_never_take_more_than_its_limit() {
        let budget = Budget::new(100);
        let held = AtomicUsize::new(0);
        thread::scope(|scope| {
            for number in 0..8_usize {
                let (budget, held) = (&budget, &held);
                scope.spawn(move || {
                    for round in 0..2000 {
                        let bytes = 1 + (number * 31 + round * 7) % 60;
                        let waits = round % 3 > 0;
                        let taken = if waits {
                            budget.take(bytes, || false)
                        } else {
                            budget.take_at_once(bytes)
                        };
                        assert!(taken.is_some() || !waits, "a waiting thread gets its bytes");
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
