//! The I/O in flight on one disk, for the watchdog that looks for I/O that has not ended.
//!
//! A thread that begins an I/O adds it, and removes at most two others that have ended, so that
//! their memory is reused by a thread while it is still in its cache. No thread waits for another:
//! a lock-free queue holds the I/Os, a list under a lock those beyond its size, and the watchdog
//! turns the queue round once.
//!
//! An entry that one thread has taken out to look at is not seen by another thread at that moment.
//! The watchdog sees it at its next tick.

use crate::{completion::Expiry, limits::Limit, sync::lock::Mutex};
use crossbeam_queue::ArrayQueue;
use std::sync::atomic::{AtomicBool, Ordering};

/// More than a disk has in flight; any more are kept under a lock.
const MOST: usize = 1024;
/// Up to this many ended I/Os are left to the threads that begin others.
const ENDED_MAX: Limit = Limit::new(256, 4);

/// An I/O, and the tick in which it began.
type Begun = (u64, Expiry);

/// See the module's description.
pub(crate) struct Outstanding {
    queue: ArrayQueue<Begun>,
    more: Mutex<Vec<Begun>>,
    has_more: AtomicBool,
}

impl Default for Outstanding {
    fn default() -> Self {
        Self {
            queue: ArrayQueue::new(MOST),
            more: Mutex::default(),
            has_more: AtomicBool::new(false),
        }
    }
}

impl Outstanding {
    /// Adds an I/O that has begun.
    pub fn add(&self, tick: u64, expiry: Expiry) {
        for _ in 0..2 {
            let Some(first) = self.queue.pop() else { break };
            if !first.1.is_over() {
                self.put(first);
                break;
            }
        }
        self.put((tick, expiry));
    }

    fn put(&self, one: Begun) {
        if let Err(one) = self.queue.push(one) {
            let mut more = self.more.lock();
            more.push(one);
            self.has_more.store(true, Ordering::Release);
        }
    }

    /// Takes all out.
    fn take(&self) -> Vec<Begun> {
        // I/Os that are added meanwhile are left for the next call.
        let mut all: Vec<Begun> = (0..self.queue.len()).map_while(|_| self.queue.pop()).collect();
        if self.has_more.load(Ordering::Acquire) {
            let mut more = self.more.lock();
            all.append(&mut more);
            self.has_more.store(false, Ordering::Release);
        }
        all
    }

    /// Takes all out that have not ended.
    pub fn take_unended(&self) -> Vec<Expiry> {
        self.take()
            .into_iter()
            .map(|(_, expiry)| expiry)
            .filter(|expiry| !expiry.is_over())
            .collect()
    }

    /// The tick in which the oldest I/O began that has not ended.
    pub fn oldest(&self) -> Option<u64> {
        let mut oldest: Option<u64> = None;
        let all = self.take();
        let are_many = all.len() > ENDED_MAX.get();
        for one in all {
            let is_over = one.1.is_over();
            if !is_over {
                oldest = Some(oldest.map_or(one.0, |oldest| oldest.min(one.0)));
            }
            if !is_over || !are_many {
                self.put(one);
            }
        }
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completion::{Completer, Completion, Done, completion};

    fn begin(all: &Outstanding, tick: u64) -> (Completion, Completer) {
        let (completion, completer) = completion();
        all.add(tick, completion.expiry());
        (completion, completer)
    }

    fn end((_, completer): (Completion, Completer)) {
        completer.finish(Done { result: Ok(()), buffer: None });
    }

    #[test]
    fn the_oldest_is_one_that_has_not_ended() {
        let all = Outstanding::default();
        assert_eq!(all.oldest(), None);
        let mut begun: Vec<_> = (5..10).map(|tick| begin(&all, tick)).collect();
        assert_eq!(all.oldest(), Some(5));
        end(begun.remove(0));
        end(begun.remove(1));
        assert_eq!(all.oldest(), Some(6));
        assert_eq!(all.take_unended().len(), 3);
        assert_eq!((all.oldest(), all.take_unended().len()), (None, 0));
    }

    /// As many leave as are added, and those that have not ended stay.
    #[test]
    fn memory_is_bounded_by_the_io_in_flight() {
        let all = Outstanding::default();
        let stuck: Vec<_> = (0..3).map(|tick| begin(&all, tick)).collect();
        for tick in 3..10_000 {
            end(begin(&all, tick));
        }
        assert!(all.queue.len() < 20, "{}", all.queue.len());
        assert_eq!(all.oldest(), Some(0));
        drop(stuck);
        assert_eq!(all.oldest(), None, "given up by the disk");
    }

    #[test]
    fn io_beyond_the_size_of_the_queue_is_kept() {
        let all = Outstanding::default();
        let begun: Vec<_> = (0..3 * MOST as u64).map(|tick| begin(&all, tick)).collect();
        assert_eq!(all.oldest(), Some(0));
        assert_eq!(all.take_unended().len(), 3 * MOST);
        begun.into_iter().for_each(end);
        let left = begin(&all, 7);
        assert_eq!(all.oldest(), Some(7));
        end(left);
        assert_eq!(all.take_unended().len(), 0);
    }
}
