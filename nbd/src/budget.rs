//! A bound on the bytes that requests hold at one time: of one connection, and of all of them.
//!
//! Who wants more than there is waits, and with him whatever the same client sends next: that is how the client learns to wait.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

/// How often who waits looks whether it is still worth it.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Budget {
    max: usize,
    used: Mutex<usize>,
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
        Arc::new(Self { max, used: Mutex::new(0), freed: Condvar::new() })
    }

    /// Waits until `bytes` are free and takes them; `None` if it is in vain. More than there is at all can be had when nobody has any.
    pub fn take(self: &Arc<Self>, bytes: usize, is_in_vain: impl Fn() -> bool) -> Option<Taken> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while *used > 0 && used.saturating_add(bytes) > self.max {
            if is_in_vain() {
                return None;
            }
            used = self.freed.wait_timeout(used, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        *used += bytes;
        Some(Taken { budget: Arc::clone(self), bytes })
    }

    /// Takes `bytes` if they are free.
    pub fn take_at_once(self: &Arc<Self>, bytes: usize) -> Option<Taken> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let more = used.checked_add(bytes).filter(|more| *more <= self.max)?;
        *used = more;
        Some(Taken { budget: Arc::clone(self), bytes })
    }

    /// Whether so many are free.
    pub fn has(&self, bytes: usize) -> bool {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.checked_add(bytes).is_some_and(|more| more <= self.max)
    }

    #[cfg(any(test, feature = "fuzz"))]
    pub fn used(&self) -> usize {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        *self.budget.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.budget.freed.notify_all();
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
}
