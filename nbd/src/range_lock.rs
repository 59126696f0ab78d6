//! Which bytes of a file are being changed: a change of bytes that another one has not ended with waits for it.
//!
//! This is for connections that outlive their engine (`connection_memory.rs`). A change that was carried out but not noted as done is carried out again by
//! the next engine. That must not undo a later one. So the later one begins when the earlier one has been noted, on all connections of the
//! engine: whatever is carried out again was then followed by nothing that overlaps it. The next engine has all such changes inside before it
//! serves anybody.
//!
//! Clients hardly ever have two changes of the same bytes under way, and nobody waits then: it costs a look at the others.

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// That of one file.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Where they begin, and where they end.
    inside: Mutex<Vec<(u64, u64)>>,
    left: Condvar,
    waiting: AtomicUsize,
}

/// A change that is inside, until this is dropped.
#[derive(Debug)]
pub(crate) struct Inside {
    gate: Arc<Gate>,
    range: (u64, u64),
}

fn overlaps(inside: &[(u64, u64)], (start, end): (u64, u64)) -> bool {
    inside.iter().any(|(other, other_end)| start < *other_end && *other < end)
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If nobody is in the way.
    pub fn try_enter(self: &Arc<Self>, offset: u64, length: u64) -> Option<Inside> {
        let range = (offset, offset.saturating_add(length));
        let mut inside = self.lock();
        if overlaps(&inside, range) {
            return None;
        }
        inside.push(range);
        Some(Inside { gate: Arc::clone(self), range })
    }

    /// Waits until nobody is in the way.
    pub fn enter(self: &Arc<Self>, offset: u64, length: u64) -> Inside {
        let range = (offset, offset.saturating_add(length));
        let mut inside = self.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while overlaps(&inside, range) {
            inside = self.left.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        inside.push(range);
        Inside { gate: Arc::clone(self), range }
    }

    /// Whoever is in the way: it was inside when an engine before this one died.
    pub fn enter_again(self: &Arc<Self>, offset: u64, length: u64) -> Inside {
        let range = (offset, offset.saturating_add(length));
        self.lock().push(range);
        Inside { gate: Arc::clone(self), range }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut inside = self.gate.lock();
        if let Some(at) = inside.iter().position(|range| *range == self.range) {
            inside.swap_remove(at);
        }
        // Who waits has counted itself while it had the lock.
        if self.gate.waiting.load(Ordering::SeqCst) > 0 {
            self.gate.left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_change_waits_for_those_that_it_overlaps() {
        let gate = Arc::new(Gate::default());
        let first = gate.try_enter(0, 10).expect("nobody is there");
        let second = gate.try_enter(10, 10).expect("they only touch");
        assert!(
            gate.try_enter(9, 1).is_none()
                && gate.try_enter(5, 10).is_none()
                && gate.try_enter(0, 100).is_none()
        );
        let again = gate.enter_again(5, 10);
        let waiting = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || drop(gate.enter(8, 4)))
        };
        while gate.waiting.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        drop(first);
        drop(second);
        assert!(gate.try_enter(7, 1).is_none(), "one of three is left");
        drop(again);
        waiting.join().expect("it came in");
        assert!(gate.try_enter(0, u64::MAX).is_some());
    }
}
