//! A cache of the blocks that were partially written last, and of blocks behind them: a log needs
//! them for its next write.
//!
//! A log often writes less than a block: 512 bytes, 2 KiB. A block has to be whole on the disks, so
//! the parts of its first and last block that a write leaves as they are would have to be read each
//! time. This cache has them: the last block of a write that ended inside of it, and, where writes
//! follow one another, some blocks behind, read along with the one that had to be.
//!
//! Front ends that write blocks take them out of the cache, while they hold their range, and put in
//! what they know before they release it. Other writers of blocks (a move, a repair) write what the
//! blocks hold already. So the cache has what the disks have; and a block of it is used only if its
//! checksum agrees.
//!
//! It is direct-mapped: a few entries, found by the extent's number; of two extents that map to one
//! entry the later one stays. A writer of whole blocks finds without a lock that nothing is cached
//! of its extent; if something is, it drops all of it, so that it takes the lock once and not each
//! time.

use crate::{
    limits::Limit,
    planted::{self, Bug},
    space::extent_id::ExtentId,
    sync::lock::Mutex,
};
use plinth_format::{BLOCK_SIZE, Block};
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Extents of which something is kept: 2 MiB for a group, at most.
const ENTRIES: usize = 64;
/// How many of the places are used.
const ENTRIES_USED: Limit = Limit::new(ENTRIES, 2);
/// Blocks kept of one extent, and read at once when one of them has to be: 32 KiB, which takes a
/// disk hardly longer.
pub const RUN: usize = 8;

#[derive(Debug, Default)]
struct KeptBlocks {
    extent: ExtentId,
    /// Where the last write that ended here did so, in the extent.
    end: u64,
    /// The first block of the run.
    first: Block,
    /// Which blocks of the run are here: bit 0 is the first.
    present: u8,
    /// Written since the last [`PartialBlocks::trim`].
    used: bool,
    /// Room for a whole run, once there was one.
    bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Entry {
    /// The extent of which blocks are here, 0: none. To be looked at without the lock.
    extent: AtomicU64,
    kept: Mutex<KeptBlocks>,
}

/// The cache. See the module's description.
#[derive(Debug)]
pub struct PartialBlocks([Entry; ENTRIES]);

impl Default for PartialBlocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Entry::default()))
    }
}

/// Blocks that were taken out: the first and the last block that are going to be written.
#[derive(Debug, Default)]
pub struct Taken {
    first: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
    /// A write ended there before.
    end: Option<u64>,
}

impl Taken {
    /// The first block's bytes, if they were here; of a single one it is `last` that is asked for
    /// its end.
    pub fn first(&self) -> Option<&[u8]> {
        self.first.as_deref()
    }

    pub fn last(&self) -> Option<&[u8]> {
        self.last.as_deref()
    }

    /// Whether a write from there on follows the one before.
    pub fn is_followed_at(&self, start: u64) -> bool {
        self.end == Some(start)
    }
}

impl KeptBlocks {
    /// Where in the run a block is.
    fn index(&self, block: Block) -> Option<usize> {
        block.0.checked_sub(self.first.0).filter(|index| *index < RUN)
    }

    fn get(&self, block: Block) -> Option<Vec<u8>> {
        let index = self.index(block).filter(|index| self.present & 1 << index != 0)?;
        Some(self.bytes[index * BLOCK_SIZE..(index + 1) * BLOCK_SIZE].to_vec())
    }

    /// A run begins at `first`, and has nothing yet.
    fn begin(&mut self, first: Block) {
        (self.first, self.present) = (first, 0);
        self.bytes.resize(RUN * BLOCK_SIZE, 0);
    }

    fn put(&mut self, index: usize, bytes: &[u8]) {
        self.bytes[index * BLOCK_SIZE..(index + 1) * BLOCK_SIZE].copy_from_slice(bytes);
        self.present |= 1 << index;
    }
}

impl PartialBlocks {
    fn entry(&self, extent: ExtentId) -> &Entry {
        &self.0[(extent.0 % ENTRIES_USED.get() as u64) as usize]
    }

    /// Takes out the blocks that are going to be written, whose range is held exclusively.
    pub fn take(&self, extent: ExtentId, blocks: &Range<usize>) -> Taken {
        let entry = self.entry(extent);
        let mut kept = entry.kept.lock();
        if kept.extent != extent {
            return Taken::default();
        }
        let taken = Taken {
            first: kept.get(Block(blocks.start)),
            last: kept.get(Block(blocks.end - 1)),
            end: Some(kept.end),
        };
        for index in 0..RUN {
            if blocks.contains(&(kept.first.0 + index)) {
                kept.present &= !(1 << index);
            }
        }
        if kept.present == 0 {
            entry.extent.store(0, Relaxed);
        }
        taken
    }

    /// Drops all blocks of an extent of which whole blocks are going to be written, whose range is
    /// held exclusively.
    pub fn forget(&self, extent: ExtentId) {
        let entry = self.entry(extent);
        if entry.extent.load(Relaxed) != extent.0 || planted::has(Bug::PartBlockKept) {
            return;
        }
        let mut kept = entry.kept.lock();
        if kept.extent == extent {
            kept.present = 0;
            entry.extent.store(0, Relaxed);
        }
    }

    /// Keeps blocks that were read along behind `block`, which is not kept, as the disks have them.
    /// Their range is held exclusively.
    pub fn keep_along(&self, extent: ExtentId, block: Block, bytes: &[u8]) {
        self.change(extent, true, |kept| {
            kept.begin(block);
            (1..RUN)
                .zip(bytes.chunks_exact(BLOCK_SIZE))
                .for_each(|(index, bytes)| kept.put(index, bytes));
        });
    }

    /// A write of blocks from `first` on is on the disks; the client's bytes ended in the extent at
    /// `end`. Their range is held exclusively.
    pub fn written(&self, extent: ExtentId, first: Block, bytes: &[u8], end: u64) {
        let block = Block(usize::try_from(end / BLOCK_SIZE as u64).expect("inside an extent"));
        let ends_inside = !end.is_multiple_of(BLOCK_SIZE as u64);
        self.change(extent, ends_inside, |kept| {
            kept.end = end;
            if ends_inside {
                let at = (block.0 - first.0) * BLOCK_SIZE;
                let index =
                    kept.index(block).filter(|_| !kept.bytes.is_empty()).unwrap_or_else(|| {
                        kept.begin(block);
                        0
                    });
                kept.put(index, &bytes[at..at + BLOCK_SIZE]);
            }
        });
    }

    /// Drops extents that were not written since the last call.
    pub fn trim(&self) {
        for entry in &self.0 {
            let mut kept = entry.kept.lock();
            if !std::mem::take(&mut kept.used) && !kept.bytes.is_empty() {
                *kept = KeptBlocks::default();
                entry.extent.store(0, Relaxed);
            }
        }
    }

    /// Changes what is kept of an extent. Where another one has its place it gets that if it
    /// `needs` to, and nothing changes otherwise.
    fn change(&self, extent: ExtentId, needs: bool, change: impl FnOnce(&mut KeptBlocks)) {
        let entry = self.entry(extent);
        let mut kept = entry.kept.lock();
        if kept.extent != extent {
            if !needs {
                return;
            }
            (kept.extent, kept.end, kept.present) = (extent, 0, 0);
        }
        change(&mut kept);
        kept.used = true;
        entry.extent.store(if kept.present == 0 { 0 } else { extent.0 }, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = BLOCK_SIZE as u64;

    /// The first byte of each of some blocks, as far as they are kept.
    fn taken(blocks: &PartialBlocks, extent: u64, range: Range<usize>) -> Vec<Option<u8>> {
        range
            .map(|block| {
                blocks.take(ExtentId(extent), &(block..block + 1)).first().map(|bytes| bytes[0])
            })
            .collect()
    }

    fn is_seen(blocks: &PartialBlocks, extent: u64) -> bool {
        blocks.entry(ExtentId(extent)).extent.load(Relaxed) == extent
    }

    #[test]
    fn the_last_block_of_a_write_is_kept_until_it_is_written() {
        let blocks = PartialBlocks::default();
        assert_eq!(taken(&blocks, 7, 0..2), [None, None]);
        let end = 2 * BLOCK + 100;
        blocks.written(ExtentId(7), Block(1), &[[1; BLOCK_SIZE], [2; BLOCK_SIZE]].concat(), end);
        let nothing = blocks.take(ExtentId(7), &(0..1));
        assert!(
            nothing.is_followed_at(end)
                && !nothing.is_followed_at(end + 1)
                && nothing.first().is_none()
        );
        let both = blocks.take(ExtentId(7), &(1..3));
        assert_eq!((both.first(), both.last()), (None, Some(&[2; BLOCK_SIZE][..])));
        assert_eq!(taken(&blocks, 7, 2..3), [None], "it was taken away");
        blocks.written(ExtentId(7), Block(2), &[3; BLOCK_SIZE], 3 * BLOCK);
        assert_eq!(taken(&blocks, 7, 2..4), [None, None], "a whole block is not kept");
        assert!(blocks.take(ExtentId(7), &(0..1)).is_followed_at(3 * BLOCK));
        // The first write to a piece completes it: zeros are behind its last block, and not cached.
        blocks.written(ExtentId(7), Block(16), &[4; 16 * BLOCK_SIZE], 18 * BLOCK + 1);
        assert_eq!(taken(&blocks, 7, 16..32).iter().flatten().count(), 1);
    }

    #[test]
    fn blocks_read_along_are_there_one_by_one() {
        let blocks = PartialBlocks::default();
        let along: Vec<u8> = (1..RUN as u8).flat_map(|block| [block; BLOCK_SIZE]).collect();
        blocks.keep_along(ExtentId(7), Block(10), &along);
        blocks.written(ExtentId(7), Block(10), &[9; BLOCK_SIZE], 10 * BLOCK + 2048);
        let kept = blocks.take(ExtentId(7), &(10..12));
        assert_eq!(
            (kept.first().map(|bytes| bytes[0]), kept.last().map(|bytes| bytes[0])),
            (Some(9), Some(1))
        );
        blocks.written(ExtentId(7), Block(10), &[8; 2 * BLOCK_SIZE], 11 * BLOCK + 1);
        let expected: Vec<_> =
            [None, Some(8)].into_iter().chain((2..RUN as u8).map(Some)).chain([None]).collect();
        assert_eq!(taken(&blocks, 7, 10..11 + RUN), expected);
        // A write elsewhere begins another run.
        blocks.keep_along(ExtentId(7), Block(10), &along);
        blocks.written(ExtentId(7), Block(40), &[5; BLOCK_SIZE], 40 * BLOCK + 1);
        assert_eq!(taken(&blocks, 7, 10..10 + RUN), [None; RUN]);
        assert_eq!(taken(&blocks, 7, 40..41), [Some(5)]);
    }

    /// A writer of whole blocks need not take the lock where nothing is cached.
    #[test]
    fn writing_whole_blocks_drops_all_of_an_extent() {
        let blocks = PartialBlocks::default();
        blocks.written(ExtentId(7), Block(0), &[1; BLOCK_SIZE], 4096);
        assert!(!is_seen(&blocks, 7), "whole blocks are not kept");
        blocks.written(ExtentId(7), Block(0), &[1; BLOCK_SIZE], 100);
        assert!(is_seen(&blocks, 7));
        blocks.forget(ExtentId(8));
        blocks.forget(ExtentId(7));
        assert!(!is_seen(&blocks, 7));
        assert_eq!(taken(&blocks, 7, 0..1), [None]);
        blocks.written(ExtentId(7), Block(0), &[1; BLOCK_SIZE], 100);
        drop(blocks.take(ExtentId(7), &(0..1)));
        assert!(!is_seen(&blocks, 7), "the only one was taken away");
    }

    #[test]
    fn entries_not_written_since_are_trimmed() {
        let blocks = PartialBlocks::default();
        blocks.written(ExtentId(7), Block(0), &[1; BLOCK_SIZE], 100);
        blocks.trim();
        assert_eq!(taken(&blocks, 7, 0..1), [Some(1)]);
        blocks.written(ExtentId(7), Block(0), &[1; BLOCK_SIZE], 200);
        blocks.trim();
        blocks.trim();
        assert!(
            !is_seen(&blocks, 7) && blocks.entry(ExtentId(7)).kept.lock().bytes.capacity() == 0
        );
        assert!(!blocks.take(ExtentId(7), &(0..1)).is_followed_at(200));
    }

    #[test]
    fn of_two_extents_in_one_entry_the_later_one_stays() {
        let blocks = PartialBlocks::default();
        let other = 7 + ENTRIES as u64;
        blocks.written(ExtentId(7), Block(1), &[1; BLOCK_SIZE], BLOCK + 1);
        blocks.written(ExtentId(other), Block(1), &[2; BLOCK_SIZE], BLOCK + 2);
        assert_eq!(taken(&blocks, 7, 1..2), [None]);
        assert!(!blocks.take(ExtentId(7), &(0..1)).is_followed_at(BLOCK + 1));
        assert_eq!(taken(&blocks, other, 1..2), [Some(2)]);
    }
}
