//! Locks on ranges of blocks of one extent.
//!
//! Two writes of the same block must reach all mirrors in one order, and a read that
//! is checked against a checksum must not overlap a write. Ranges are blocks of one
//! extent; readers share, writers exclude. No fairness is promised: ranges are held
//! for one I/O.

use event_listener::Event;
use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    range: Range<usize>,
    exclusive: bool,
}

/// The locks of one extent.
#[derive(Debug, Default)]
pub struct Ranges {
    held: Mutex<Vec<Held>>,
    released: Event,
}

/// A range held; let go when dropped.
#[derive(Debug)]
pub struct RangeGuard<'a> {
    ranges: &'a Ranges,
    held: Held,
}

impl Ranges {
    /// Waits until `range` is free, and holds it.
    pub async fn hold(&self, range: Range<usize>, exclusive: bool) -> RangeGuard<'_> {
        let wanted = Held { range, exclusive };
        loop {
            if self.try_hold(&wanted) {
                return RangeGuard { ranges: self, held: wanted };
            }
            let listener = self.released.listen();
            if self.try_hold(&wanted) {
                return RangeGuard { ranges: self, held: wanted };
            }
            listener.await;
        }
    }

    fn try_hold(&self, wanted: &Held) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let conflict = |other: &Held| {
            (other.exclusive || wanted.exclusive)
                && other.range.start < wanted.range.end
                && wanted.range.start < other.range.end
        };
        if held.iter().any(conflict) {
            return false;
        }
        held.push(wanted.clone());
        true
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let mut held = self.ranges.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = held.iter().position(|other| *other == self.held) {
            held.swap_remove(index);
        }
        drop(held);
        self.ranges.released.notify(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn readers_share_and_writers_exclude() {
        let ranges = Ranges::default();
        let first = ranges.hold(0..4, false).now_or_never().expect("free");
        let second = ranges.hold(2..6, false).now_or_never().expect("shared");
        assert!(ranges.hold(3..4, true).now_or_never().is_none());
        assert!(ranges.hold(6..8, true).now_or_never().is_some());
        drop(first);
        assert!(ranges.hold(3..4, true).now_or_never().is_none());
        drop(second);
        assert!(ranges.hold(3..4, true).now_or_never().is_some());
    }
}
