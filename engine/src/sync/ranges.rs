//! Locks on ranges of blocks of one extent.
//!
//! Two writes of the same block must reach all mirrors in one order, and a read that is checked
//! against a checksum must not overlap a write. Ranges are blocks of one extent; readers share,
//! writers exclude. A waiter is not overtaken by a later one that conflicts with it: readers that
//! never stop would starve a writer.
//!
//! Each block has four bits: its number of readers, or 15 for a writer. The bits of sixteen blocks
//! are one word. Where the range is free and has no waiters, taking it is one atomic instruction
//! for each of its words (`waiters.rs`).
//!
//! Invariant: a task that takes several words takes them in order. When it meets a word that is not
//! free, it gives back those that it has. Only one waiter at a time tries; any other task that
//! gives words back notifies the waiters.

use crate::sync::waiters::{Waiters, Want};
use std::{
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

/// Blocks of one word.
const PER_WORD: usize = 16;
/// Words that are allocated at once: those of 1 MiB.
const PER_CHUNK: usize = 16;
/// Chunks beyond the first, for the largest AU: 64 MiB.
const MORE: usize = 63;

/// The lowest bit of each block.
const LOWEST: u64 = 0x1111_1111_1111_1111;

type Chunk = Box<[AtomicU64; PER_CHUNK]>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    range: Range<usize>,
    exclusive: bool,
}

impl Want for Wanted {
    fn conflicts(&self, other: &Self) -> bool {
        (other.exclusive || self.exclusive)
            && other.range.start < self.range.end
            && self.range.start < other.range.end
    }
}

impl Wanted {
    /// Each word of the range, with the lowest bits of the range's blocks in it.
    fn words(&self) -> impl Iterator<Item = (usize, u64)> + use<> {
        let Range { start, end } = self.range.clone();
        let end_word = if start < end { end.div_ceil(PER_WORD) } else { 0 };
        (start / PER_WORD..end_word).map(move |word| {
            let first = word * PER_WORD;
            let (from, to) = (start.max(first) - first, end.min(first + PER_WORD) - first);
            let blocks = (u64::MAX >> (64 - 4 * (to - from))) << (4 * from);
            (word, LOWEST & blocks)
        })
    }
}

/// The range locks of one extent.
#[derive(Debug, Default)]
pub struct Ranges {
    first: OnceLock<Chunk>,
    more: OnceLock<Box<[OnceLock<Chunk>; MORE]>>,
    waiters: Waiters<Wanted>,
}

/// A locked range; released when dropped.
#[derive(Debug)]
pub struct RangeGuard<'a> {
    ranges: &'a Ranges,
    held: Wanted,
}

/// The result of an attempt to take a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    All,
    /// Another task holds some of it.
    Nothing,
    /// The same, but some words were held for a moment.
    GivenBack,
}

/// The word after some of its blocks are taken; `None`: they cannot be taken.
fn taken(word: u64, lowest: u64, exclusive: bool) -> Option<u64> {
    let all = lowest * 0xf;
    if exclusive {
        return (word & all == 0).then_some(word | all);
    }
    // 15 is a writer; 14 readers of one block are the most there can be.
    let is_full = (word >> 1) & (word >> 2) & (word >> 3) & lowest;
    (is_full == 0).then(|| word + lowest)
}

impl Ranges {
    fn word(&self, index: usize) -> &AtomicU64 {
        let make = || Box::new([const { AtomicU64::new(0) }; PER_CHUNK]);
        let chunk = match (index / PER_CHUNK).checked_sub(1) {
            None => self.first.get_or_init(make),
            Some(other) => {
                let more = self.more.get_or_init(|| Box::new([const { OnceLock::new() }; MORE]));
                more[other].get_or_init(make)
            }
        };
        &chunk[index % PER_CHUNK]
    }

    /// Takes a range, even if others wait for it.
    fn take(&self, wanted: &Wanted) -> Taken {
        for (index, lowest) in wanted.words() {
            let update = |word| taken(word, lowest, wanted.exclusive);
            if self.word(index).fetch_update(SeqCst, SeqCst, update).is_err() {
                let before = index * PER_WORD;
                if wanted.range.start >= before {
                    return Taken::Nothing;
                }
                self.empty(&Wanted {
                    range: wanted.range.start..before,
                    exclusive: wanted.exclusive,
                });
                return Taken::GivenBack;
            }
        }
        Taken::All
    }

    fn empty(&self, held: &Wanted) {
        for (index, lowest) in held.words() {
            if held.exclusive {
                self.word(index).fetch_and(!(lowest * 0xf), SeqCst);
            } else {
                self.word(index).fetch_sub(lowest, SeqCst);
            }
        }
    }

    /// Takes a range, unless another task holds it or waits for it.
    fn take_if_free(&self, wanted: &Wanted) -> bool {
        if self.waiters.are_ahead_of(wanted) {
            return false;
        }
        let taken = self.take(wanted);
        if taken == Taken::GivenBack {
            // A waiter may have met the words that were held for a moment. (Only one waiter tries
            // at a time.)
            self.waiters.tell();
        }
        taken == Taken::All
    }

    /// Locks `range` if it is free.
    pub fn try_hold(&self, range: Range<usize>, exclusive: bool) -> Option<RangeGuard<'_>> {
        let wanted = Wanted { range, exclusive };
        // The guard is made only after the range is taken, since dropping a guard releases it.
        self.take_if_free(&wanted).then(|| RangeGuard { ranges: self, held: wanted })
    }

    /// Waits until `range` is free, and locks it.
    pub async fn hold(&self, range: Range<usize>, exclusive: bool) -> RangeGuard<'_> {
        let wanted = Wanted { range, exclusive };
        if !self.take_if_free(&wanted) {
            // Boxed, so that the future of an uncontended acquire is small.
            Box::pin(self.waiters.wait(&wanted, || self.take(&wanted) == Taken::All)).await;
        }
        RangeGuard { ranges: self, held: wanted }
    }

    /// Number of waiters.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.waiters.count()
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        self.ranges.empty(&self.held);
        self.ranges.waiters.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_failed_attempt_releases_nothing_of_another_task() {
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

    #[test]
    fn ranges_begin_and_end_anywhere() {
        let ranges = Ranges::default();
        for (start, end) in [
            (0, 1),
            (15, 16),
            (15, 17),
            (3, 250),
            (255, 258),
            (0, 16_384),
            (16_383, 16_384),
            (5, 5),
        ] {
            let held = ranges.try_hold(start..end, true).expect("free");
            for block in [start, start + 1, (start + end) / 2, end - 1]
                .into_iter()
                .filter(|block| *block < 16_384)
            {
                let inside = (start..end).contains(&block);
                assert_eq!(
                    ranges.try_hold(block..block + 1, false).is_none(),
                    inside,
                    "{block} of {start}..{end}"
                );
            }
            for block in [start.checked_sub(1), Some(end)]
                .into_iter()
                .flatten()
                .filter(|block| *block < 16_384)
            {
                assert!(
                    ranges.try_hold(block..block + 1, true).is_some(),
                    "{block} beside {start}..{end}"
                );
            }
            drop(held);
            assert!(ranges.try_hold(0..16_384, true).is_some());
        }
    }

    /// A failed attempt leaves nothing locked, wherever it failed.
    #[test]
    fn a_failed_attempt_gives_back_the_words_it_took() {
        let ranges = Ranges::default();
        let held = ranges.try_hold(100..101, true).expect("free");
        assert!(
            ranges.try_hold(0..200, true).is_none() && ranges.try_hold(0..200, false).is_none()
        );
        assert!(
            ranges.try_hold(0..100, true).is_some() && ranges.try_hold(101..200, true).is_some()
        );
        drop(held);
        assert!(ranges.try_hold(0..200, true).is_some());
    }

    /// A waiter wakes neither itself nor the other waiters.
    #[test]
    fn a_failed_attempt_of_a_waiter_wakes_no_other() {
        let ranges = Ranges::default();
        let held = ranges.try_hold(100..101, true).expect("free");
        let mut wide = Box::pin(ranges.hold(0..200, true));
        let mut other = Box::pin(ranges.hold(50..120, false));
        for _ in 0..3 {
            assert!((&mut wide).now_or_never().is_none() && (&mut other).now_or_never().is_none());
        }
        drop(held);
        drop((&mut wide).now_or_never().expect("it came first"));
        assert!((&mut other).now_or_never().is_some());
    }

    #[test]
    fn readers_that_are_too_many_wait_for_the_others() {
        let ranges = Ranges::default();
        let mut held: Vec<_> =
            (0..14).map(|_| ranges.try_hold(7..9, false).expect("shared")).collect();
        let mut one_more = Box::pin(ranges.hold(8..9, false));
        assert!((&mut one_more).now_or_never().is_none());
        assert!(ranges.try_hold(9..10, true).is_some(), "the next block is nobody's");
        held.pop();
        let last = (&mut one_more).now_or_never().expect("there is room");
        assert!(ranges.try_hold(7..8, true).is_none());
        drop((held, last));
        assert!(ranges.try_hold(0..16, true).is_some());
    }

    /// Threads take ranges at random: a block with a writer has no other user, and no thread waits
    /// for ever.
    #[test]
    fn threads_exclude_each_other() {
        const BLOCKS: usize = 40;
        let ranges = Ranges::default();
        let users: Vec<AtomicU64> = (0..BLOCKS).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..6_u64 {
                let (ranges, users) = (&ranges, &users);
                scope.spawn(move || {
                    let mut random = thread + 1;
                    for _ in 0..4_000 {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let start = (random >> 33) as usize % BLOCKS;
                        let end = (start + 1 + (random >> 50) as usize % 20).min(BLOCKS);
                        let exclusive = (random >> 60) < 6;
                        let one = if exclusive { 1 << 32 } else { 1 };
                        let guard = crate::testing::block_on(ranges.hold(start..end, exclusive));
                        for user in &users[start..end] {
                            let before = user.fetch_add(one, SeqCst);
                            assert!(if exclusive { before == 0 } else { before < 1 << 32 });
                        }
                        if random & 0x700 == 0 {
                            std::thread::yield_now();
                        }
                        users[start..end].iter().for_each(|user| _ = user.fetch_sub(one, SeqCst));
                        drop(guard);
                    }
                });
            }
        });
        assert!(ranges.try_hold(0..BLOCKS, true).is_some());
        assert_eq!(ranges.waiting(), 0);
    }
}
