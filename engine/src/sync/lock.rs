//! Locks that are not poisoned by a panic of their holder, and that tests count.
//!
//! No read or write of a file takes one in the steady state (`server/tests/steady.rs`). To keep it
//! so there are no other locks: `clippy.toml` refuses the standard library's. The data that a lock
//! protects is consistent whenever the lock is released, even by a panic; so there is nothing to
//! poison.
//!
//! No thread waits for a disk while it holds one of these locks: the waiters are threads, and a
//! thread that serves clients or handles I/O completions would stand still as long as that disk
//! takes. For tasks clippy checks this (`await_holding_lock`), for synchronous code tests do
//! ([`none_is_held`]).
//!
//! Locks are counted in tests only ([`taken`]).

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync,
};

#[allow(clippy::disallowed_types)]
type StdMutex<T> = sync::Mutex<T>;
#[allow(clippy::disallowed_types)]
type StdRwLock<T> = sync::RwLock<T>;
#[allow(clippy::disallowed_types)]
type TokioMutex<T> = tokio::sync::Mutex<T>;

/// Counts its lock as held, in tests; or does not, for a lock that may be held for long.
#[derive(Debug)]
struct Held(#[cfg_attr(not(any(test, feature = "testing")), allow(dead_code))] bool);

#[cfg(any(test, feature = "testing"))]
thread_local! {
    static TAKEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    static HELD: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(any(test, feature = "testing"))]
fn count() {
    // A thread that is ending counts no more.
    let _ = TAKEN.try_with(|taken| taken.set(taken.get() + 1));
}

#[cfg(not(any(test, feature = "testing")))]
const fn count() {}

#[cfg(any(test, feature = "testing"))]
impl Held {
    fn new(counts: bool) -> Self {
        let _ = HELD.try_with(|held| held.set(held.get() + u64::from(counts)));
        Self(counts)
    }
}

#[cfg(any(test, feature = "testing"))]
impl Drop for Held {
    fn drop(&mut self) {
        let _ = HELD.try_with(|held| held.set(held.get() - u64::from(self.0)));
    }
}

#[cfg(not(any(test, feature = "testing")))]
impl Held {
    const fn new(counts: bool) -> Self {
        Self(counts)
    }
}

/// Whether this thread holds no [`Mutex`] and no [`RwLock`]. Known in tests only; elsewhere it is
/// true.
#[must_use]
pub fn none_is_held() -> bool {
    #[cfg(any(test, feature = "testing"))]
    return HELD.get() == 0;
    #[cfg(not(any(test, feature = "testing")))]
    true
}

/// Declares a guard.
macro_rules! guard {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $name<'a, T: ?Sized>(sync::$name<'a, T>, #[allow(dead_code)] Held);

        impl<T: ?Sized> Deref for $name<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.0
            }
        }
    };
}

guard!(
    /// See [`Mutex`].
    MutexGuard
);
guard!(
    /// See [`RwLock::read`].
    RwLockReadGuard
);
guard!(
    /// See [`RwLock::write`].
    RwLockWriteGuard
);

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Locks that this thread has taken so far.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub fn taken() -> u64 {
    TAKEN.with(std::cell::Cell::get)
}

/// [`std::sync::Mutex`].
#[derive(Default)]
pub struct Mutex<T: ?Sized>(StdMutex<T>);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(StdMutex::new(value))
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(sync::PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Needs no lock: the reference is exclusive.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(sync::PoisonError::into_inner)
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        count();
        MutexGuard(self.0.lock().unwrap_or_else(sync::PoisonError::into_inner), Held::new(true))
    }

    /// The same for a lock that only synchronous code takes: it may be held during disk I/O.
    pub fn lock_for_long(&self) -> MutexGuard<'_, T> {
        count();
        MutexGuard(self.0.lock().unwrap_or_else(sync::PoisonError::into_inner), Held::new(false))
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// [`std::sync::RwLock`].
#[derive(Default)]
pub struct RwLock<T: ?Sized>(StdRwLock<T>);

impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        Self(StdRwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no writer holds it.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        count();
        RwLockReadGuard(
            self.0.read().unwrap_or_else(sync::PoisonError::into_inner),
            Held::new(true),
        )
    }

    /// Waits until it is free.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        count();
        RwLockWriteGuard(
            self.0.write().unwrap_or_else(sync::PoisonError::into_inner),
            Held::new(true),
        )
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// [`tokio::sync::Mutex`]: a waiter does not block its thread, and waiters get the lock in the
/// order in which they came.
#[derive(Default)]
pub struct AsyncMutex<T: ?Sized>(TokioMutex<T>);

/// See [`AsyncMutex`].
#[derive(Debug)]
pub struct AsyncMutexGuard<'a, T: ?Sized>(tokio::sync::MutexGuard<'a, T>);

impl<T> AsyncMutex<T> {
    pub fn new(value: T) -> Self {
        Self(TokioMutex::new(value))
    }
}

impl<T: ?Sized> AsyncMutex<T> {
    /// Waits for the lock.
    pub async fn lock(&self) -> AsyncMutexGuard<'_, T> {
        count();
        AsyncMutexGuard(self.0.lock().await)
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<AsyncMutexGuard<'_, T>> {
        count();
        self.0.try_lock().ok().map(AsyncMutexGuard)
    }
}

impl<T: ?Sized> Deref for AsyncMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for AsyncMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for AsyncMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_counted_for_the_thread_that_takes_it() {
        let (mutex, both) = (Mutex::new(1), RwLock::new(2));
        let before = taken();
        assert_eq!((*mutex.lock(), *both.read()), (1, 2));
        *both.write() = 3;
        assert_eq!(taken(), before + 3);
        std::thread::scope(|scope| scope.spawn(|| drop(mutex.lock())).join().expect("no panic"));
        assert_eq!(taken(), before + 3);
        assert_eq!(mutex.into_inner() + *both.read(), 4);
    }

    #[test]
    fn a_lock_is_held_as_long_as_its_guard_lives() {
        let (mutex, both) = (Mutex::new(1), RwLock::new(2));
        for guard in
            [&mut || drop(mutex.lock()), &mut || drop(both.read()), &mut || drop(both.write())]
                as [&mut dyn FnMut(); 3]
        {
            guard();
            assert!(none_is_held());
        }
        let (one, other) = (mutex.lock(), both.read());
        drop(one);
        assert!(!none_is_held());
        drop(other);
        assert!(none_is_held());
        let _long = mutex.lock_for_long();
        assert!(none_is_held());
    }

    #[test]
    fn a_panic_of_the_holder_does_not_poison_a_lock() {
        let mutex = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let _held = mutex.lock();
                panic!("on purpose");
            });
            holder.join().is_err()
        });
        assert!(panicked && *mutex.lock() == 1);
    }
}
