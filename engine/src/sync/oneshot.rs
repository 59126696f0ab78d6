#![allow(unsafe_code)]
//! A slot through which one thread hands a value to another, once and without a lock.
//!
//! ```text
//!   EMPTY --put--> FILLING --> FULL --take--> TAKEN
//! ```
//!
//! Unsafe: the value is written by the one thread that changed EMPTY to FILLING, and read by the
//! one thread that changed FULL to TAKEN. Neither accesses it at any other time.

use std::{
    cell::UnsafeCell,
    sync::atomic::{
        AtomicU8,
        Ordering::{Acquire, Relaxed, SeqCst},
    },
};

const EMPTY: u8 = 0;
const FILLING: u8 = 1;
const FULL: u8 = 2;
const TAKEN: u8 = 3;

/// See the module's description.
pub(crate) struct Oneshot<T> {
    state: AtomicU8,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value passes from one thread to another, and two threads never access it at once.
unsafe impl<T: Send> Sync for Oneshot<T> {}

impl<T> Default for Oneshot<T> {
    fn default() -> Self {
        Self { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(None) }
    }
}

impl<T> Oneshot<T> {
    /// Hands a value over. False: there was one before, and this one is dropped.
    pub fn put(&self, value: T) -> bool {
        let is_first = self.state.compare_exchange(EMPTY, FILLING, Acquire, Relaxed).is_ok();
        if is_first {
            // SAFETY: the thread that changed EMPTY to FILLING has exclusive access until it stores
            // FULL.
            unsafe { *self.value.get() = Some(value) };
            self.state.store(FULL, SeqCst);
        }
        is_first
    }

    /// Whether a value was handed over, taken or not. Ordered with every other [`SeqCst`] access.
    pub fn was_put(&self) -> bool {
        self.state.load(SeqCst) >= FULL
    }

    /// Takes the value, if it is there and was not taken yet.
    pub fn take(&self) -> Option<T> {
        self.state.compare_exchange(FULL, TAKEN, SeqCst, SeqCst).ok()?;
        // SAFETY: the thread that changed FULL to TAKEN has exclusive access from then on.
        unsafe { (*self.value.get()).take() }
    }

    /// Makes the slot empty again.
    pub fn clear(&mut self) {
        *self.value.get_mut() = None;
        *self.state.get_mut() = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_value_is_handed_over_once() {
        let mut place = Oneshot::default();
        assert!(!place.was_put() && place.take().is_none());
        assert!(place.put(Box::new(7)) && !place.put(Box::new(8)));
        assert!(place.was_put());
        assert_eq!((place.take(), place.take()), (Some(Box::new(7)), None));
        assert!(place.was_put() && !place.put(Box::new(9)));
        place.clear();
        assert!(!place.was_put() && place.put(Box::new(10)));
        place.clear();
        assert_eq!(place.take(), None);
    }

    #[test]
    fn one_of_many_takers_gets_the_whole_value() {
        for round in 0..500_u64 {
            let place = Arc::new(Oneshot::default());
            let takers: Vec<_> = (0..3)
                .map(|_| {
                    let place = Arc::clone(&place);
                    std::thread::spawn(move || {
                        while !place.was_put() {
                            std::hint::spin_loop();
                        }
                        place.take()
                    })
                })
                .collect();
            assert!(place.put(vec![round; 5]));
            let got: Vec<_> =
                takers.into_iter().filter_map(|taker| taker.join().expect("no panic")).collect();
            assert_eq!(got, [vec![round; 5]]);
        }
    }
}
