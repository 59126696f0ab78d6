//! Locking a mutex whose owner may have panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whether or not a thread has panicked while it held the lock: every value under such a
/// lock is valid between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
