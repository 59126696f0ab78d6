//! Those who wait for something that excludes some of them, in the order in which they came.
//!
//! Who can have it at once takes it by atomic instructions of his own, and comes here only when he cannot. So the queue and its lock
//! are for who has to wait.
//!
//! ```text
//!   nobody waits --free--> taken --let go--> free, and those who wait are told
//!        |                   ^
//!        +--else--> queue --told, and nobody who came before stands in the way--+
//! ```
//!
//! Invariant: who waits is counted before he first tries, and whoever lets go looks at the count afterwards. Either the one sees that it
//! is free, or the other that somebody waits.

use crate::sync::lock::{Mutex, MutexGuard};
use event_listener::Event;
use std::{
    fmt,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

/// What somebody wants.
pub(crate) trait Want: Clone {
    /// Whether both cannot have what they want at a time.
    fn conflicts(&self, other: &Self) -> bool;
}

struct Queue<W> {
    waiting: Vec<(u64, W)>,
    tickets: u64,
}

/// See the module's description.
pub(crate) struct Waiters<W> {
    queue: Mutex<Queue<W>>,
    /// How many are in the queue.
    count: AtomicUsize,
    told: Event,
}

/// A place in the queue; given up when dropped.
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
        write!(f, "Turns({} waiting)", self.count.load(SeqCst))
    }
}

impl<W: Want> Waiters<W> {
    /// Whether somebody waits who would be overtaken.
    pub fn are_ahead_of(&self, wanted: &W) -> bool {
        self.count.load(SeqCst) > 0
            && self.queue.lock().waiting.iter().any(|(_, other)| other.conflicts(wanted))
    }

    /// Something is free again: those who wait may try.
    pub fn tell(&self) {
        if self.count.load(SeqCst) > 0 {
            self.told.notify(usize::MAX);
        }
    }

    /// Waits until `take` has taken it. It is called by one at a time of those who wait.
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

    /// How many wait.
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
            // Others may have waited for him.
            self.waiters.tell();
        }
    }
}
