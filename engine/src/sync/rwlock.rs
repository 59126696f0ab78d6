#![allow(unsafe_code)]
//! An asynchronous reader-writer lock that is held for as long as an I/O takes.
//!
//! Like `tokio::sync::RwLock`, but a read lock costs two atomic instructions and no mutex while
//! there is no writer and no waiter (`waiters.rs`): every read and write of a file takes one to see
//! where its extents are.
//!
//! Unsafe: the value is shared while `state` counts readers, and exclusive while `state` is
//! [`WRITTEN`]; neither begins before the other has ended.

use crate::sync::waiters::{Waiters, Want};
use std::{
    cell::UnsafeCell,
    fmt,
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

/// `state` of a lock that a writer holds. Any other value is the number of readers.
const WRITTEN: u64 = u64::MAX;

/// The mode in which a task wants the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Shared,
    Alone,
}

impl Want for How {
    fn conflicts(&self, other: &Self) -> bool {
        *self == Self::Alone || *other == Self::Alone
    }
}

/// See the module's description.
#[derive(Default)]
pub struct AsyncRwLock<T> {
    state: AtomicU64,
    waiters: Waiters<How>,
    value: UnsafeCell<T>,
}

// SAFETY: several threads read the value at once, or one writes it, possibly not the thread that
// made it.
unsafe impl<T: Send + Sync> Sync for AsyncRwLock<T> {}

/// Read access; released when dropped.
pub struct ReadGuard<'a, T>(&'a AsyncRwLock<T>);

/// Write access; released when dropped.
pub struct WriteGuard<'a, T>(&'a AsyncRwLock<T>);

impl<T> AsyncRwLock<T> {
    fn take(&self, how: How) -> bool {
        let update = |state| match (how, state) {
            (How::Alone, 0) => Some(WRITTEN),
            (How::Alone, _) | (How::Shared, WRITTEN) => None,
            (How::Shared, readers) => Some(readers + 1),
        };
        self.state.fetch_update(SeqCst, SeqCst, update).is_ok()
    }

    fn take_if_free(&self, how: How) -> bool {
        !self.waiters.are_ahead_of(&how) && self.take(how)
    }

    async fn wait(&self, how: How) {
        if !self.take_if_free(how) {
            // Boxed, so that the future of an uncontended acquire is small.
            Box::pin(self.waiters.wait(&how, || self.take(how))).await;
        }
    }

    /// Waits until no writer holds the lock, and none has waited longer.
    pub async fn read(&self) -> ReadGuard<'_, T> {
        self.wait(How::Shared).await;
        ReadGuard(self)
    }

    /// Waits until the lock is free.
    pub async fn write(&self) -> WriteGuard<'_, T> {
        self.wait(How::Alone).await;
        WriteGuard(self)
    }

    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        // The guard is made only after the lock is taken, since dropping a guard releases it.
        self.take_if_free(How::Shared).then(|| ReadGuard(self))
    }

    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        self.take_if_free(How::Alone).then(|| WriteGuard(self))
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: counted among the readers, so there is no writer.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this is the only guard.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only guard.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        if self.0.state.fetch_sub(1, SeqCst) == 1 {
            self.0.waiters.tell();
        }
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        self.0.state.store(0, SeqCst);
        self.0.waiters.tell();
    }
}

impl<T> fmt::Debug for AsyncRwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsyncRwLock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn readers_share_and_a_writer_excludes() {
        let rwlock = AsyncRwLock::<u32>::default();
        let first = rwlock.read().now_or_never().expect("free");
        let second = rwlock.try_read().expect("shared");
        assert!(rwlock.try_write().is_none());
        drop(first);
        assert!(rwlock.write().now_or_never().is_none());
        drop(second);
        *rwlock.write().now_or_never().expect("free") = 7;
        let changing = rwlock.try_write().expect("free");
        assert!(rwlock.try_read().is_none() && rwlock.read().now_or_never().is_none());
        assert_eq!(*changing, 7);
    }

    /// Readers that never stop would starve a writer.
    #[test]
    fn a_waiting_writer_is_not_overtaken() {
        let rwlock = AsyncRwLock::<u32>::default();
        let reader = rwlock.try_read().expect("free");
        let mut writer = Box::pin(rwlock.write());
        assert!((&mut writer).now_or_never().is_none());
        let mut late = Box::pin(rwlock.read());
        let mut later = Box::pin(rwlock.read());
        for _ in 0..3 {
            // Polling a waiter again does not wake the others.
            assert!((&mut late).now_or_never().is_none() && (&mut later).now_or_never().is_none());
        }
        assert!(rwlock.try_read().is_none());
        drop(reader);
        let changing = (&mut writer).now_or_never().expect("it came first");
        assert!((&mut late).now_or_never().is_none());
        drop(changing);
        let (one, other) = (
            (&mut late).now_or_never().expect("free"),
            (&mut later).now_or_never().expect("shared"),
        );
        drop((one, other));
        assert!(rwlock.try_write().is_some());
    }

    /// A waiter that gives up blocks no other.
    #[test]
    fn a_waiter_that_gives_up_is_forgotten() {
        let rwlock = AsyncRwLock::<u32>::default();
        let reader = rwlock.try_read().expect("free");
        let mut writer = Box::pin(rwlock.write());
        assert!((&mut writer).now_or_never().is_none());
        let mut late = Box::pin(rwlock.read());
        assert!((&mut late).now_or_never().is_none());
        drop(writer);
        assert!((&mut late).now_or_never().is_some());
        drop(reader);
        assert_eq!(rwlock.waiters.count(), 0);
    }

    #[test]
    fn threads_see_each_others_writes() {
        let rwlock = AsyncRwLock::<(u64, u64)>::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let rwlock = &rwlock;
                scope.spawn(move || {
                    for round in 0..5_000 {
                        if (round + thread) % 3 == 0 {
                            let mut both = crate::testing::block_on(rwlock.write());
                            let (one, other) = &mut *both;
                            *one += 1;
                            *other += 1;
                        } else {
                            let (one, other) = *crate::testing::block_on(rwlock.read());
                            assert_eq!(one, other);
                        }
                    }
                });
            }
        });
        let expected = (0..4)
            .flat_map(|thread| (0..5_000).map(move |round| (round + thread) % 3))
            .filter(|one| *one == 0);
        let (one, _) = *rwlock.try_read().expect("free");
        assert_eq!(one, expected.count() as u64);
    }
}
