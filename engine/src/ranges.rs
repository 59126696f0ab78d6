//! Locks on ranges of blocks of one extent.
//!
//! Two writes of the same block must reach all mirrors in one order, and a read that
//! is checked against a checksum must not overlap a write. Ranges are blocks of one
//! extent; readers share, writers exclude. Who waits is not overtaken by who came later and conflicts
//! with it: readers that never stop would starve a writer.

use event_listener::Event;
use std::{
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    range: Range<usize>,
    exclusive: bool,
}

impl Held {
    fn conflicts(&self, other: &Self) -> bool {
        (other.exclusive || self.exclusive) && other.range.start < self.range.end && self.range.start < other.range.end
    }
}

#[derive(Debug, Default)]
struct State {
    held: Vec<Held>,
    /// In the order in which they came.
    waiting: Vec<(u64, Held)>,
    tickets: u64,
}

impl State {
    fn take_if_free(&mut self, wanted: &Held) -> bool {
        let mut in_the_way = self.held.iter().chain(self.waiting.iter().map(|(_, other)| other));
        let is_free = !in_the_way.any(|other| other.conflicts(wanted));
        if is_free {
            self.held.push(wanted.clone());
        }
        is_free
    }
}

/// The locks of one extent.
#[derive(Debug, Default)]
pub struct Ranges {
    state: Mutex<State>,
    released: Event,
}

/// A place in the queue; given up when dropped.
struct Waiting<'a> {
    ranges: &'a Ranges,
    ticket: u64,
}

/// A range held; let go when dropped.
#[derive(Debug)]
pub struct RangeGuard<'a> {
    ranges: &'a Ranges,
    held: Held,
}

impl Ranges {
    /// Holds `range` if it is free.
    pub fn try_hold(&self, range: Range<usize>, exclusive: bool) -> Option<RangeGuard<'_>> {
        let wanted = Held { range, exclusive };
        let is_free = self.lock().take_if_free(&wanted);
        // Not made before it is known: it lets go of what it names when it is dropped.
        is_free.then(|| RangeGuard { ranges: self, held: wanted })
    }

    /// Waits until `range` is free, and holds it.
    pub async fn hold(&self, range: Range<usize>, exclusive: bool) -> RangeGuard<'_> {
        let wanted = Held { range, exclusive };
        let guard = || RangeGuard { ranges: self, held: wanted.clone() };
        let waiting = {
            let mut state = self.lock();
            if state.take_if_free(&wanted) {
                return guard();
            }
            state.tickets += 1;
            let ticket = state.tickets;
            state.waiting.push((ticket, wanted.clone()));
            Waiting { ranges: self, ticket }
        };
        loop {
            let listener = self.released.listen();
            if self.try_enter(waiting.ticket) {
                return guard();
            }
            listener.await;
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_enter(&self, ticket: u64) -> bool {
        let mut state = self.lock();
        let Some(place) = state.waiting.iter().position(|(other, _)| *other == ticket) else { return false };
        let wanted = state.waiting[place].1.clone();
        let earlier = state.waiting[..place].iter().map(|(_, other)| other);
        if state.held.iter().chain(earlier).any(|other| other.conflicts(&wanted)) {
            return false;
        }
        state.waiting.remove(place);
        state.held.push(wanted);
        true
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.ranges.lock();
        let before = state.waiting.len();
        state.waiting.retain(|(ticket, _)| *ticket != self.ticket);
        let gave_up = state.waiting.len() < before;
        drop(state);
        if gave_up {
            self.ranges.released.notify(usize::MAX);
        }
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.ranges.lock();
        if let Some(index) = state.held.iter().position(|other| *other == self.held) {
            state.held.swap_remove(index);
        }
        drop(state);
        self.ranges.released.notify(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn who_does_not_get_a_range_lets_go_of_nothing() {
        let ranges = Ranges::default();
        let held = ranges.try_hold(0..4, true).expect("free");
        for _ in 0..2 {
            assert!(ranges.try_hold(0..4, true).is_none());
        }
        drop(held);
        assert!(ranges.try_hold(0..4, true).is_some());
    }

    #[test]
    fn readers_share_and_writers_exclude() {
        let ranges = Ranges::default();
        let first = ranges.hold(0..4, false).now_or_never().expect("free");
        let second = ranges.hold(2..6, false).now_or_never().expect("shared");
        assert!(ranges.hold(3..4, true).now_or_never().is_none());
        assert!(ranges.hold(6..8, true).now_or_never().is_some());
        drop(first);
        assert!(ranges.hold(3..4, true).now_or_never().is_none());
        let mut writer = Box::pin(ranges.hold(3..4, true));
        assert!((&mut writer).now_or_never().is_none());
        assert!(ranges.hold(3..4, false).now_or_never().is_none(), "the writer came first");
        drop(writer);
        assert!(ranges.hold(3..4, false).now_or_never().is_some());
        drop(second);
        assert!(ranges.hold(3..4, true).now_or_never().is_some());
    }
}
