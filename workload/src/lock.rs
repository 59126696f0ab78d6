//! Locks that ignore poison.
//!
//! In a test that has failed, the first panic is the message; other threads that find the lock
//! poisoned would only hide it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The guard of a mutex, even after a panic of another holder.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The value of a mutex that has no other user any more.
pub fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_holder_does_not_poison_the_lock() {
        let mutex = Mutex::new(1);
        let holder = || {
            let mut guard = lock(&mutex);
            *guard = 2;
            panic!("while it holds the lock");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(holder)).is_err());
        assert!(mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 2);
        assert_eq!(into_inner(mutex), 2);
    }
}
