//! Blocks that were written in part lately, and those behind them: what a log needs for its next write.
//!
//! A log is often written in less than blocks: 512 bytes, 2 KiB. A block has to be whole on the disks, so what a write leaves of its
//! first and last block is needed, and would have to be read each time. Here is what it was: the last block of a write that ended
//! inside of it, and, where writes follow one another, some blocks behind, read along with the one that had to be.
//!
//! Whoever writes blocks takes what is here of them away, while he holds their range, and puts in what he knows before he lets go. So what is
//! here is what the disks have. Besides, nobody believes it if the checksum says otherwise.
//!
//! It is a place for each of a few extents, found by their number; of two that meet in one place the later one stays.

use crate::{
    buffer::{Buffer, Slice},
    lock::{Mutex, MutexGuard},
    planted::{self, Bug},
};
use plinth_format::BLOCK_SIZE;
use smallvec::SmallVec;
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Extents of which something is kept.
const PLACES: usize = 64;
/// Blocks read along with one that is needed: 32 KiB with it, which takes a disk hardly longer.
pub const ALONG: usize = 7;

type Blocks = SmallVec<[(usize, Slice); 2]>;

#[derive(Debug, Default)]
struct Kept {
    extent: u64,
    /// Where the last write ended, in the extent.
    end: u64,
    /// At most [`ALONG`] and one more.
    blocks: Blocks,
}

#[derive(Debug, Default)]
struct Place {
    /// The extent, 0: none. To be looked at without the lock.
    extent: AtomicU64,
    kept: Mutex<Kept>,
}

/// What is kept. See the module's description.
#[derive(Debug)]
pub struct PartBlocks([Place; PLACES]);

impl Default for PartBlocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Place::default()))
    }
}

/// What was taken away.
#[derive(Debug, Default)]
pub struct Taken {
    blocks: Blocks,
    /// A write ended there before.
    end: Option<u64>,
}

impl Taken {
    /// A block's bytes, if they are here.
    pub fn block(&self, block: usize) -> Option<&[u8]> {
        self.blocks.iter().find(|(kept, _)| *kept == block).map(|(_, bytes)| &bytes[..])
    }

    /// Whether a write from there on follows the one before.
    pub fn is_followed_at(&self, start: u64) -> bool {
        self.end == Some(start)
    }
}

impl PartBlocks {
    fn place(&self, extent: u64) -> &Place {
        &self.0[(extent % PLACES as u64) as usize]
    }

    /// Takes away what is kept of blocks that are going to be written, whose range is held exclusively.
    pub fn take(&self, extent: u64, blocks: &Range<usize>) -> Taken {
        let place = self.place(extent);
        if place.extent.load(Relaxed) != extent {
            return Taken::default();
        }
        let mut kept = place.kept.lock();
        if kept.extent != extent {
            return Taken::default();
        }
        let (taken, left) = kept.blocks.drain(..).partition(|(block, _)| blocks.contains(block));
        kept.blocks = left;
        Taken { blocks: taken, end: Some(kept.end) }
    }

    /// The same, for who writes whole blocks.
    pub fn forget(&self, extent: u64, blocks: &Range<usize>) {
        if self.place(extent).extent.load(Relaxed) == extent && !planted::has(Bug::PartBlockKept) {
            self.take(extent, blocks);
        }
    }

    /// Keeps blocks as the disks have them, from `first` on. Their range is held exclusively.
    pub fn keep(&self, extent: u64, first: usize, bytes: &Slice) {
        let mut kept = self.of(extent);
        for (block, start) in (first..).zip((0..bytes.len()).step_by(BLOCK_SIZE)) {
            kept.blocks.retain(|(other, _)| *other != block);
            if kept.blocks.len() > ALONG {
                kept.blocks.remove(0);
            }
            kept.blocks.push((block, bytes.part(start..start + BLOCK_SIZE)));
        }
    }

    /// A write of blocks from `first` on is on the disks; what was asked for ended in the extent at `end`. Their range is held exclusively.
    pub fn written(&self, extent: u64, first: usize, bytes: &[u8], end: u64) {
        let block = usize::try_from(end / BLOCK_SIZE as u64).expect("inside an extent");
        let rest = bytes.get((block - first) * BLOCK_SIZE..).unwrap_or_default();
        if rest.is_empty() && self.place(extent).extent.load(Relaxed) != extent {
            // Whole blocks in an extent of which nothing is kept.
            return;
        }
        self.of(extent).end = end;
        if !rest.is_empty() {
            // In memory of its own, so that of a large write nothing else is kept.
            let rest = &rest[..rest.len().min((ALONG + 1) * BLOCK_SIZE)];
            self.keep(extent, block, &Buffer::copy_of(rest).share());
        }
    }

    /// The place of an extent, which nobody else has from now on.
    fn of(&self, extent: u64) -> MutexGuard<'_, Kept> {
        let place = self.place(extent);
        let mut kept = place.kept.lock();
        if kept.extent != extent {
            *kept = Kept { extent, ..Kept::default() };
            place.extent.store(extent, Relaxed);
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8) -> Slice {
        Buffer::copy_of(&[byte; BLOCK_SIZE]).share()
    }

    fn taken(blocks: &PartBlocks, extent: u64, range: Range<usize>) -> Vec<Option<u8>> {
        let taken = blocks.take(extent, &range);
        range.map(|block| taken.block(block).map(|bytes| bytes[0])).collect()
    }

    #[test]
    fn the_last_block_of_a_write_is_kept_until_it_is_written() {
        let blocks = PartBlocks::default();
        assert_eq!(taken(&blocks, 7, 0..2), [None, None]);
        let end = 2 * BLOCK_SIZE as u64 + 100;
        blocks.written(7, 1, &[1; 2 * BLOCK_SIZE], end);
        assert!(blocks.take(7, &(0..1)).is_followed_at(end));
        assert!(!blocks.take(7, &(0..1)).is_followed_at(end + 1));
        assert_eq!(taken(&blocks, 7, 1..4), [None, Some(1), None]);
        assert_eq!(taken(&blocks, 7, 2..3), [None], "it was taken away");
        blocks.written(7, 2, &[1; BLOCK_SIZE], 3 * BLOCK_SIZE as u64);
        assert_eq!(taken(&blocks, 7, 2..4), [None, None], "a whole block is not kept");
    }

    /// The first write to a piece completes it.
    #[test]
    fn what_was_written_behind_the_last_block_is_kept_with_it() {
        let blocks = PartBlocks::default();
        let piece: Vec<u8> = (0..16).flat_map(|block| [block; BLOCK_SIZE]).collect();
        blocks.written(7, 32, &piece, 34 * BLOCK_SIZE as u64);
        let kept = taken(&blocks, 7, 32..48);
        assert_eq!(kept.iter().flatten().copied().collect::<Vec<_>>(), (2..=2 + ALONG as u8).collect::<Vec<_>>());
        assert_eq!(kept[2], Some(2));
    }

    #[test]
    fn blocks_read_along_are_there_one_by_one() {
        let blocks = PartBlocks::default();
        blocks.keep(7, 10, &Buffer::copy_of(&[[2; BLOCK_SIZE], [3; BLOCK_SIZE], [4; BLOCK_SIZE]].concat()).share());
        blocks.forget(7, &(11..12));
        blocks.forget(8, &(10..13));
        assert_eq!(taken(&blocks, 7, 10..13), [Some(2), None, Some(4)]);
        for number in 0..20 {
            blocks.keep(7, number, &block(number as u8));
        }
        let kept = taken(&blocks, 7, 0..20);
        assert_eq!(kept.iter().flatten().count(), ALONG + 1, "and no more of them");
        assert_eq!(kept[19], Some(19));
    }

    #[test]
    fn of_two_extents_in_one_place_the_later_one_stays() {
        let blocks = PartBlocks::default();
        let other = 7 + PLACES as u64;
        blocks.keep(7, 1, &block(1));
        blocks.keep(other, 1, &block(2));
        assert_eq!(taken(&blocks, 7, 1..2), [None]);
        assert_eq!(taken(&blocks, other, 1..2), [Some(2)]);
        assert!(!blocks.take(7, &(0..1)).is_followed_at(0));
    }
}
