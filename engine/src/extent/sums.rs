//! The checksums of an extent in memory.
//!
//! They are read and written block by block under the block's range (`ranges.rs`): readers share
//! it, a writer has it exclusively. So no lock is needed, only that the next holder sees what was
//! written, which the range's own instructions ensure. The same goes for `fresh`.
//!
//! They are loaded by the first task that needs them, and dropped by a task that holds all of the
//! extent's range (`group.rs`).

use crate::sync::lock::Mutex;
use plinth_format::{Block, DiskNumber, checksum::UNKNOWN};
use smallvec::SmallVec;
use std::{
    iter,
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
};

/// The zones to which a release has written them all: the extent's moves until then, and disks,
/// with how often each had gone offline. While these are the same, the zones have what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zones {
    pub moves: u64,
    pub disks: SmallVec<[(DiskNumber, u64); 3]>,
}

/// One stored checksum per block. See the module's description.
#[derive(Debug)]
pub struct Sums {
    sums: Box<[AtomicU32]>,
    /// Blocks whose checksum was computed from their bytes, not loaded from a zone, since that was
    /// last written.
    fresh: Box<[AtomicU64]>,
    zones: Mutex<Option<Zones>>,
    /// See [`Self::are_agreed`].
    agreed: AtomicBool,
    /// Some zone keeps what it had of some blocks (`disputes.rs`).
    keep_own: AtomicBool,
}

impl Sums {
    #[must_use]
    pub fn new(sums: impl IntoIterator<Item = u32>) -> Self {
        let sums: Box<[_]> = sums.into_iter().map(AtomicU32::new).collect();
        let words = sums.len().div_ceil(64);
        Self {
            sums,
            fresh: (0..words).map(|_| AtomicU64::new(0)).collect(),
            zones: Mutex::default(),
            agreed: AtomicBool::new(false),
            keep_own: AtomicBool::new(false),
        }
    }

    /// The checksums of `blocks` blocks, all unknown.
    #[must_use]
    pub fn unknown(blocks: usize) -> Self {
        Self::new(iter::repeat_n(UNKNOWN, blocks))
    }

    /// Of some blocks, in their order.
    ///
    /// # Panics
    /// If the extent is not so long.
    pub fn of(&self, blocks: Range<usize>) -> impl Iterator<Item = u32> + '_ {
        self.sums[blocks].iter().map(|sum| sum.load(Relaxed))
    }

    /// Of all blocks.
    pub fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.of(0..self.sums.len())
    }

    #[must_use]
    pub fn is_fresh(&self, block: Block) -> bool {
        self.fresh[block.0 / 64].load(Relaxed) & 1 << (block.0 % 64) != 0
    }

    /// Remembers that of a block, which was computed from its bytes.
    pub(super) fn set(&self, block: Block, sum: u32) {
        self.sums[block.0].store(sum, Relaxed);
        self.fresh[block.0 / 64].fetch_or(1 << (block.0 % 64), Relaxed);
    }

    /// Remembers the checksum of a block that was not written since the zones were.
    pub(super) fn prefer(&self, block: Block, sum: u32) {
        self.sums[block.0].store(sum, Relaxed);
    }

    /// Those of these blocks that are known are right, whatever zones have.
    pub(super) fn mark_proved(&self, blocks: Range<usize>) {
        for block in blocks {
            if self.sums[block].load(Relaxed) != UNKNOWN {
                self.fresh[block / 64].fetch_or(1 << (block % 64), Relaxed);
            }
        }
    }

    /// Whether the zones of all mirrors had the same when they were last looked at, or written.
    #[must_use]
    pub fn are_agreed(&self) -> bool {
        self.agreed.load(Relaxed)
    }

    /// They are written: to all alike, or some zones `keep_own`.
    pub fn set_agreed(&self, agreed: bool, keep_own: bool) {
        self.agreed.store(agreed, Relaxed);
        self.keep_own.store(keep_own, Relaxed);
    }

    #[must_use]
    pub(super) fn zones_keep_own(&self) -> bool {
        self.keep_own.load(Relaxed)
    }

    /// The zone has them all: none is newer.
    pub(super) fn mark_stored(&self) {
        self.fresh.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// They were written there.
    pub(super) fn note_stored_in(&self, zones: Option<Zones>) {
        *self.zones.lock() = zones;
    }

    /// Whether the zone of a disk has all that are not fresh, because they were written there: the
    /// extent has moved so often, and the disk gone offline so often.
    #[must_use]
    pub fn are_in(&self, moves: u64, disk: DiskNumber, losses: u64) -> bool {
        let zones = self.zones.lock();
        zones
            .as_ref()
            .is_some_and(|zones| zones.moves == moves && zones.disks.contains(&(disk, losses)))
    }

    /// Whether some zone has them, because they were written there.
    #[must_use]
    pub fn has_zones(&self) -> bool {
        self.zones.lock().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_that_was_set_is_fresh_until_it_is_stored() {
        let sums = Sums::new(0..200);
        assert!((0..200).map(Block).all(|block| !sums.is_fresh(block)));
        for block in [0, 63, 64, 199].map(Block) {
            sums.set(block, 7);
        }
        assert_eq!(sums.of(62..66).collect::<Vec<_>>(), [62, 7, 7, 65]);
        assert_eq!(
            (0..200).filter(|block| sums.is_fresh(Block(*block))).collect::<Vec<_>>(),
            [0, 63, 64, 199]
        );
        sums.mark_stored();
        assert!((0..200).map(Block).all(|block| !sums.is_fresh(block)));
        assert_eq!(sums.all().last(), Some(7));
        assert!(Sums::unknown(3).all().eq([UNKNOWN; 3]));
    }
}
