//! FIFO queue of tasks that wait for a lock with conflicting modes.
//!
//! An uncontended acquire is one compare-and-swap of the lock itself and never comes here: the
//! queue and its mutex cost only a task that has to wait.
//!
//! ```text
//!   no waiters --free--> taken --release--> free; waiters are notified
//!       |                  ^
//!       +--taken--> queue --notified, and no earlier waiter conflicts--+
//! ```
//!
//! Invariant: a waiter is counted before its first attempt, and a task that releases the lock reads
//! the count afterwards. So either the waiter sees that the lock is free, or the releasing task
//! sees that there is a waiter.

use crate::sync::lock::{Mutex, MutexGuard};
use event_listener::Event;
use std::{
    fmt,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

/// A mode in which a task wants the lock.
pub(crate) trait Want: Clone {
    /// Whether the two modes cannot be held at the same time.
    fn conflicts(&self, other: &Self) -> bool;
}

struct Queue<W> {
    waiting: Vec<(u64, W)>,
    tickets: u64,
}

/// See the module's description.
pub(crate) struct Waiters<W> {
    queue: Mutex<Queue<W>>,
    /// Tasks in the queue.
    count: AtomicUsize,
    told: Event,
}

/// A position in the queue; given up when dropped.
struct Waiting<'a, W: Want> {
    waiters: &'a Waiters<W>,
    ticket: u64,
}

impl<W> Default for Waiters<W> {
    fn default() -> Self {
        let queue = Queue { waiting: Vec::new(), tickets: 0 };
        Self { queue: Mutex::new(queue), count: AtomicUsize::new(0), told: Event::new() }
    }
}

impl<W> fmt::Debug for Waiters<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Waiters({} waiting)", self.count.load(SeqCst))
    }
}

impl<W: Want> Waiters<W> {
    /// Whether a waiter with a conflicting mode would be overtaken.
    pub fn are_ahead_of(&self, wanted: &W) -> bool {
        self.count.load(SeqCst) > 0
            && self.queue.lock().waiting.iter().any(|(_, other)| other.conflicts(wanted))
    }

    /// Notifies the waiters that something was released, so that they try again.
    pub fn tell(&self) {
        if self.count.load(SeqCst) > 0 {
            self.told.notify(usize::MAX);
        }
    }

    /// Waits until `take` has succeeded. One waiter at a time calls `take`.
    pub async fn wait(&self, wanted: &W, take: impl Fn() -> bool) {
        let waiting = {
            let mut queue = self.queue.lock();
            queue.tickets += 1;
            let ticket = queue.tickets;
            queue.waiting.push((ticket, wanted.clone()));
            self.count.store(queue.waiting.len(), SeqCst);
            Waiting { waiters: self, ticket }
        };
        loop {
            let listener = self.told.listen();
            if self.try_take(waiting.ticket, &take) {
                return;
            }
            listener.await;
        }
    }

    /// Number of waiters.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.count.load(SeqCst)
    }

    fn try_take(&self, ticket: u64, take: &impl Fn() -> bool) -> bool {
        let queue = self.queue.lock();
        let Some(place) = queue.waiting.iter().position(|(other, _)| *other == ticket) else {
            return false;
        };
        let wanted = &queue.waiting[place].1;
        let is_next = !queue.waiting[..place].iter().any(|(_, earlier)| earlier.conflicts(wanted));
        let has_taken = is_next && take();
        if has_taken {
            self.leave(queue, place);
        }
        has_taken
    }

    fn leave(&self, mut queue: MutexGuard<'_, Queue<W>>, place: usize) {
        queue.waiting.remove(place);
        self.count.store(queue.waiting.len(), SeqCst);
    }
}

impl<W: Want> Drop for Waiting<'_, W> {
    fn drop(&mut self) {
        let queue = self.waiters.queue.lock();
        if let Some(place) = queue.waiting.iter().position(|(ticket, _)| *ticket == self.ticket) {
            self.waiters.leave(queue, place);
            // Later waiters may have been blocked by this one only.
            self.waiters.tell();
        }
    }
}
