//! Which version of each block must be on the targets, and whether it is.
//!
//! A write takes the next version, and a table has the version of each block that was acknowledged.
//! Versions begin with the time of the run's begin in nanoseconds: those of a later run with the
//! same seed are larger.
//!
//! Invariants:
//!
//! 1. Of a block no two writes are in flight: a bit in the table holds it. So the version that was
//!    acknowledged last is the one on the target.
//! 2. A read begins when no write of its blocks is in flight. So a version from before its begin
//!    that is not the acknowledged one is wrong, and one from after it is right.
//! 3. A block that this run has not written may hold anything, unless it was filled: but a sector
//!    of this seed must be at its place and whole.
//! 4. A write that failed leaves its blocks unknown.

use super::stamp::{Content, SECTOR, Stamp};
use std::{
    fmt,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

const IN_FLIGHT: u64 = 1;
/// No version: what is there is not known.
const UNKNOWN: u64 = 0;

/// A block that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub target: usize,
    pub offset: u64,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A block of another place.
    Place { target: usize, offset: u64 },
    /// Older than acknowledged.
    Old { versions_behind: u64 },
    /// From no write of this run.
    Future,
    /// Some sectors are of the version that was acknowledged, others are not.
    Torn,
    /// It begins as it was written and goes on otherwise.
    Damaged,
    /// Nothing that was ever written with this seed.
    Foreign,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: ", self.offset)?;
        match &self.what {
            What::Place { target, offset } => {
                write!(f, "it holds the block of byte {offset} of target {}", target + 1)
            }
            What::Old { versions_behind } => write!(
                f,
                "an older version than acknowledged ({versions_behind} writes behind): a write was \
                 lost"
            ),
            What::Future => f.write_str("a version that this run has not written"),
            What::Torn => f.write_str("it is torn: some sectors are of another write"),
            What::Damaged => f.write_str("it is damaged behind its first bytes"),
            What::Foreign => f.write_str("it is not what was written there"),
        }
    }
}

/// See above.
pub struct Versions {
    stamp: Stamp,
    /// Bytes of a block.
    grain: u64,
    /// Of each target, of each block: version, shifted by the bit of [`IN_FLIGHT`].
    tables: Vec<Vec<AtomicU64>>,
    next: AtomicU64,
    first: u64,
}

impl Versions {
    /// `grain` divides all sizes and offsets. `begin` is the time in nanoseconds since 1970.
    #[must_use]
    pub fn new(stamp: Stamp, grain: u64, sizes: &[u64], begin: u64) -> Self {
        let table =
            |size: &u64| (0..size.div_ceil(grain)).map(|_| AtomicU64::new(UNKNOWN)).collect();
        let tables = sizes.iter().map(table).collect();
        // A bit is for writes in flight.
        let first = begin & (u64::MAX >> 2);
        Self { stamp, grain, tables, next: AtomicU64::new(first), first }
    }

    /// Bytes that the table needs.
    #[must_use]
    pub fn memory(grain: u64, sizes: &[u64]) -> u64 {
        sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(size.div_ceil(grain) * 8))
    }

    /// The version of a write.
    pub fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn blocks(&self, target: usize, offset: u64, length: u64) -> &[AtomicU64] {
        let range = (offset / self.grain) as usize..(offset + length).div_ceil(self.grain) as usize;
        &self.tables[target][range]
    }

    /// Holds the blocks for a write; false if one of them is being written.
    pub fn begin_write(&self, target: usize, offset: u64, length: u64) -> bool {
        let blocks = self.blocks(target, offset, length);
        for (number, block) in blocks.iter().enumerate() {
            if block.fetch_or(IN_FLIGHT, Ordering::AcqRel) & IN_FLIGHT != 0 {
                for held in &blocks[..number] {
                    held.fetch_and(!IN_FLIGHT, Ordering::AcqRel);
                }
                return false;
            }
        }
        true
    }

    /// A write has ended. `version` is None if it failed.
    pub fn end_write(&self, target: usize, offset: u64, length: u64, version: Option<u64>) {
        let value = version.map_or(UNKNOWN, |version| version << 1);
        for block in self.blocks(target, offset, length) {
            block.store(value, Ordering::Release);
        }
    }

    /// For [`Versions::check`]; None if one of the blocks is being written.
    pub fn begin_read(&self, target: usize, offset: u64, length: u64) -> Option<u64> {
        let next = self.next.load(Ordering::Acquire);
        let blocks = self.blocks(target, offset, length);
        let is_quiet = blocks.iter().all(|block| block.load(Ordering::Acquire) & IN_FLIGHT == 0);
        is_quiet.then_some(next)
    }

    /// Verifies the bytes of a read that began with `began`.
    ///
    /// # Errors
    /// The first block that is wrong.
    pub fn check(&self, target: usize, offset: u64, bytes: &[u8], began: u64) -> Result<(), Wrong> {
        let blocks = self.blocks(target, offset, bytes.len() as u64);
        for (number, (block, bytes)) in
            blocks.iter().zip(bytes.chunks(self.grain as usize)).enumerate()
        {
            let offset = offset + number as u64 * self.grain;
            let word = block.load(Ordering::Acquire);
            self.check_block(target, offset, bytes, word, began).map_err(|what| Wrong {
                target,
                offset,
                what,
            })?;
        }
        Ok(())
    }

    fn check_block(
        &self,
        target: usize,
        offset: u64,
        bytes: &[u8],
        word: u64,
        began: u64,
    ) -> Result<(), What> {
        let acknowledged = word >> 1;
        // Invariant 2: it was written while the read was in flight.
        let is_moving = word & IN_FLIGHT != 0 || acknowledged >= began;
        let (mut right, mut other, mut oldest) = (0, 0, u64::MAX);
        let (mut least, mut most) = (u64::MAX, 0);
        for (number, sector) in bytes.chunks(SECTOR).enumerate() {
            let place = Stamp::place(target, offset + (number * SECTOR) as u64);
            match self.stamp.read(sector) {
                Content::Whole { place: found, version } if found == place => {
                    (least, most) = (least.min(version), most.max(version));
                    let is_right = version == acknowledged || (is_moving && version >= began);
                    if is_right {
                        right += 1;
                    } else {
                        other += 1;
                        oldest = oldest.min(version);
                    }
                }
                Content::Whole { place: found, .. } | Content::Damaged { place: found, .. }
                    if found != place =>
                {
                    let (target, offset) = Stamp::of_place(found);
                    return Err(What::Place { target, offset });
                }
                Content::Whole { .. } | Content::Damaged { .. } => return Err(What::Damaged),
                // Beside the first write of a block, any content from before is right.
                Content::Foreign if acknowledged == UNKNOWN || is_moving => {}
                Content::Foreign if right > 0 => return Err(What::Torn),
                Content::Foreign => return Err(What::Foreign),
            }
        }
        if is_moving {
            return Ok(());
        }
        if acknowledged == UNKNOWN {
            // A run before may have ended in the middle of a write; this one has not.
            return if most >= self.first && most >= began { Err(What::Future) } else { Ok(()) };
        }
        match (right, other) {
            (_, 0) => Ok(()),
            (0, _) if most > acknowledged => Err(What::Future),
            (0, _) if least == most => {
                let behind = acknowledged.saturating_sub(oldest);
                Err(What::Old { versions_behind: behind })
            }
            _ => Err(What::Torn),
        }
    }

    /// All bytes of a target in this range were written with that version.
    pub fn filled(&self, target: usize, range: Range<u64>, version: u64) {
        self.end_write(target, range.start, range.end - range.start, Some(version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 20;
    const BLOCK: u64 = 8192;

    /// A disk in memory.
    struct Disk {
        versions: Versions,
        bytes: Vec<u8>,
    }

    impl Disk {
        fn new() -> Self {
            let versions = Versions::new(Stamp::new(42), 4096, &[SIZE], 1 << 60);
            Self { versions, bytes: vec![0; SIZE as usize] }
        }

        fn written(&self, block: u64) -> (Vec<u8>, u64) {
            let version = self.versions.next();
            assert!(self.versions.begin_write(0, block * BLOCK, BLOCK));
            let mut bytes = vec![0; BLOCK as usize];
            self.versions.stamp.fill(&mut bytes, 0, block * BLOCK, version);
            (bytes, version)
        }

        fn put(&mut self, block: u64, bytes: &[u8]) {
            self.bytes[(block * BLOCK) as usize..][..bytes.len()].copy_from_slice(bytes);
        }

        fn write(&mut self, block: u64) {
            let (bytes, version) = self.written(block);
            self.put(block, &bytes);
            self.versions.end_write(0, block * BLOCK, BLOCK, Some(version));
        }

        fn read(&self, block: u64) -> Result<(), What> {
            let began = self.versions.begin_read(0, block * BLOCK, BLOCK).expect("no write");
            let bytes = &self.bytes[(block * BLOCK) as usize..][..BLOCK as usize];
            self.versions.check(0, block * BLOCK, bytes, began).map_err(|wrong| wrong.what)
        }
    }

    #[test]
    fn what_was_written_is_right_and_what_was_not_may_be_anything() {
        let mut disk = Disk::new();
        assert_eq!(disk.read(5), Ok(()));
        disk.write(3);
        disk.write(3);
        disk.write(4);
        assert_eq!((disk.read(3), disk.read(4), disk.read(5)), (Ok(()), Ok(()), Ok(())));
    }

    #[test]
    fn a_lost_write_is_an_old_version() {
        let mut disk = Disk::new();
        disk.write(3);
        let (_, version) = disk.written(3);
        disk.versions.end_write(0, 3 * BLOCK, BLOCK, Some(version));
        assert_eq!(disk.read(3), Err(What::Old { versions_behind: 1 }));
    }

    #[test]
    fn swapped_blocks_are_at_a_wrong_place_even_if_never_written_by_this_run() {
        let mut disk = Disk::new();
        disk.write(3);
        disk.write(4);
        let (three, four) = (disk.bytes[24576..32768].to_vec(), disk.bytes[32768..40960].to_vec());
        disk.put(3, &four);
        disk.put(4, &three);
        assert_eq!(disk.read(3), Err(What::Place { target: 0, offset: 32768 }));
        assert_eq!(disk.read(4), Err(What::Place { target: 0, offset: 24576 }));
        disk.put(9, &three);
        assert_eq!(disk.read(9), Err(What::Place { target: 0, offset: 24576 }));
    }

    #[test]
    fn a_torn_write_is_seen_in_every_sector() {
        for sectors in 1..8 {
            let mut disk = Disk::new();
            disk.write(3);
            let (bytes, version) = disk.written(3);
            disk.put(3, &bytes[..sectors * SECTOR]);
            disk.versions.end_write(0, 3 * BLOCK, BLOCK, Some(version));
            assert_eq!(disk.read(3), Err(What::Torn), "{sectors} sectors");
        }
    }

    #[test]
    fn zeros_and_flipped_bits_are_seen_where_something_was_written() {
        let mut disk = Disk::new();
        disk.write(3);
        disk.bytes[24576 + 700] ^= 4;
        assert_eq!(disk.read(3), Err(What::Damaged));
        disk.put(3, &[0; BLOCK as usize]);
        assert_eq!(disk.read(3), Err(What::Foreign));
    }

    #[test]
    fn a_read_beside_a_write_may_find_either_version_but_no_older_one() {
        let mut disk = Disk::new();
        disk.write(3);
        let before = disk.bytes.clone();
        let began = disk.versions.begin_read(0, 3 * BLOCK, BLOCK).expect("no write");
        disk.write(3);
        for bytes in [&before, &disk.bytes] {
            let bytes = &bytes[24576..32768];
            assert_eq!(disk.versions.check(0, 3 * BLOCK, bytes, began), Ok(()));
        }
        let after = disk.versions.begin_read(0, 3 * BLOCK, BLOCK).expect("no write");
        let found = disk.versions.check(0, 3 * BLOCK, &before[24576..32768], after);
        assert_eq!(found.map_err(|wrong| wrong.what), Err(What::Old { versions_behind: 1 }));
    }

    #[test]
    fn a_read_beside_the_first_write_may_find_anything_from_before() {
        let mut disk = Disk::new();
        let before = disk.bytes[24576..32768].to_vec();
        let began = disk.versions.begin_read(0, 3 * BLOCK, BLOCK).expect("no write");
        disk.write(3);
        assert_eq!(disk.versions.check(0, 3 * BLOCK, &before, began), Ok(()));
        let after = disk.versions.begin_read(0, 3 * BLOCK, BLOCK).expect("no write");
        assert!(disk.versions.check(0, 3 * BLOCK, &before, after).is_err());
    }

    #[test]
    fn no_two_writes_of_a_block_are_in_flight() {
        let disk = Disk::new();
        assert!(disk.versions.begin_write(0, 8192, 8192));
        assert!(!disk.versions.begin_write(0, 4096, 8192));
        assert!(disk.versions.begin_read(0, 12288, 4096).is_none());
        // The refused write holds nothing.
        assert!(disk.versions.begin_write(0, 4096, 4096));
        disk.versions.end_write(0, 8192, 8192, None);
        assert!(disk.versions.begin_write(0, 8192, 4096));
    }
}
