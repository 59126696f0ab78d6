//! Locks of byte ranges of a file: a change waits for an earlier change of the same bytes.
//!
//! This is for connections that outlive their engine (`connection_memory.rs`). The next engine
//! carries out again each change that was carried out but not recorded as done. That must not undo
//! a later change. So a later change begins only when the earlier one is recorded, on all
//! connections of the engine: then a change that is carried out again was followed by no change
//! that overlaps it. The next engine locks the ranges of all such changes before it serves a
//! client.
//!
//! Clients hardly ever have two changes of the same bytes in flight. Then no thread waits, and a
//! lock costs a scan of the other ranges.

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// The locked ranges of one file.
#[derive(Debug, Default)]
pub(crate) struct RangeLock {
    /// Start and end of each.
    locked: Mutex<Vec<(u64, u64)>>,
    unlocked: Condvar,
    waiting: AtomicUsize,
}

/// A locked range, until this is dropped.
#[derive(Debug)]
pub(crate) struct RangeGuard {
    lock: Arc<RangeLock>,
    range: (u64, u64),
}

fn overlaps(locked: &[(u64, u64)], (start, end): (u64, u64)) -> bool {
    locked.iter().any(|(other, other_end)| start < *other_end && *other < end)
}

impl RangeLock {
    fn ranges(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a range, if no locked range overlaps it.
    pub fn try_lock(self: &Arc<Self>, offset: u64, length: u64) -> Option<RangeGuard> {
        let range = (offset, offset.saturating_add(length));
        let mut locked = self.ranges();
        if overlaps(&locked, range) {
            return None;
        }
        locked.push(range);
        Some(RangeGuard { lock: Arc::clone(self), range })
    }

    /// Waits until no locked range overlaps it, and locks a range.
    pub fn lock(self: &Arc<Self>, offset: u64, length: u64) -> RangeGuard {
        let range = (offset, offset.saturating_add(length));
        let mut locked = self.ranges();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while overlaps(&locked, range) {
            locked = self.unlocked.wait(locked).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        locked.push(range);
        RangeGuard { lock: Arc::clone(self), range }
    }

    /// Locks a range, even if others overlap it: it was locked when an earlier engine died.
    pub fn lock_again(self: &Arc<Self>, offset: u64, length: u64) -> RangeGuard {
        let range = (offset, offset.saturating_add(length));
        self.ranges().push(range);
        RangeGuard { lock: Arc::clone(self), range }
    }
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        let mut locked = self.lock.ranges();
        if let Some(at) = locked.iter().position(|range| *range == self.range) {
            locked.swap_remove(at);
        }
        // A waiting thread has counted itself under the mutex.
        if self.lock.waiting.load(Ordering::SeqCst) > 0 {
            self.lock.unlocked.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_change_waits_for_changes_that_it_overlaps() {
        let lock = Arc::new(RangeLock::default());
        let first = lock.try_lock(0, 10).expect("no range is locked");
        let second = lock.try_lock(10, 10).expect("the ranges only touch");
        assert!(
            lock.try_lock(9, 1).is_none()
                && lock.try_lock(5, 10).is_none()
                && lock.try_lock(0, 100).is_none()
        );
        let again = lock.lock_again(5, 10);
        let waiting = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || drop(lock.lock(8, 4)))
        };
        while lock.waiting.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        drop(first);
        drop(second);
        assert!(lock.try_lock(7, 1).is_none(), "one of three is still locked");
        drop(again);
        waiting.join().expect("it gets the lock");
        assert!(lock.try_lock(0, u64::MAX).is_some());
    }
}
