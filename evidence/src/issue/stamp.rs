//! The bytes of a block: not to be compressed or deduplicated, and each says its place.
//!
//! ```text
//!   sector of 512 bytes:  check 8 | place 8 | version 8 | bytes that follow from these and a seed
//! ```
//!
//! Place and version are masked by the check, and the check is a hash of seed, place and version:
//! so the first bytes look as random as the others. The others are a stretch of a small table of
//! random bytes, changed by a key that follows from the check: no two sectors have eight bytes in
//! common, and one costs little more than to copy it. As all of a sector follows from its first 24
//! bytes, all of it is verified.
//!
//! The place is the number of the sector on its target, and the target's number in the upper bits.

use plinth_workload::random::Random;

pub const SECTOR: usize = 512;
/// Words of a sector.
const WORDS: usize = SECTOR / 8;
/// Words of the check, the place, the version.
const HEAD: usize = 3;
/// Words of the table: small enough for the processor's first cache.
const TABLE: usize = 2048;
/// Above the number of a sector in a place.
const TARGET_SHIFT: u32 = 48;

/// Makes and reads the sectors of one seed.
#[derive(Debug, Clone)]
pub struct Stamp {
    seed: u64,
    table: Vec<u64>,
}

/// The content of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// All of it is as it was written.
    Whole { place: u64, version: u64 },
    /// It begins as one that was written, and goes on otherwise.
    Damaged { place: u64, version: u64 },
    /// No sector of this seed.
    Foreign,
}

impl Stamp {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self { seed: random.number(), table: (0..TABLE + WORDS).map(|_| random.number()).collect() }
    }

    /// The place of a byte of a target.
    #[must_use]
    pub fn place(target: usize, offset: u64) -> u64 {
        (target as u64) << TARGET_SHIFT | (offset / SECTOR as u64)
    }

    /// Target and byte of a place.
    #[must_use]
    pub fn of_place(place: u64) -> (usize, u64) {
        let sector = place & ((1 << TARGET_SHIFT) - 1);
        ((place >> TARGET_SHIFT) as usize, sector.saturating_mul(SECTOR as u64))
    }

    /// Fills whole sectors that begin at a byte of a target.
    pub fn fill(&self, bytes: &mut [u8], target: usize, offset: u64, version: u64) {
        let place = Self::place(target, offset);
        for (number, sector) in bytes.chunks_exact_mut(SECTOR).enumerate() {
            self.fill_sector(sector, place + number as u64, version);
        }
    }

    fn fill_sector(&self, sector: &mut [u8], place: u64, version: u64) {
        let check = self.check(place, version);
        let head = [check, place ^ self.mask(check, 1), version ^ self.mask(check, 2)];
        let (key, table) = self.body(check);
        for (word, (bytes, random)) in sector.chunks_exact_mut(8).zip(table).enumerate() {
            let value = if word < HEAD { head[word] } else { random ^ key };
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Reads a sector.
    #[must_use]
    pub fn read(&self, sector: &[u8]) -> Content {
        let Some((head, _)) = sector.split_at_checked(HEAD * 8) else { return Content::Foreign };
        let word = |number: usize| {
            let bytes = head.chunks_exact(8).nth(number).and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let check = word(0);
        let (place, version) = (word(1) ^ self.mask(check, 1), word(2) ^ self.mask(check, 2));
        if check != self.check(place, version) {
            return Content::Foreign;
        }
        let (key, table) = self.body(check);
        let mut pairs = sector.chunks_exact(8).zip(table).skip(HEAD);
        let is_whole = sector.len() == SECTOR
            && pairs.all(|(bytes, random)| bytes == (random ^ key).to_le_bytes());
        if is_whole {
            Content::Whole { place, version }
        } else {
            Content::Damaged { place, version }
        }
    }

    fn check(&self, place: u64, version: u64) -> u64 {
        mix(mix(self.seed ^ place).wrapping_add(version))
    }

    fn mask(&self, check: u64, number: u64) -> u64 {
        mix(check.wrapping_add(self.seed).wrapping_add(number))
    }

    /// The key of a sector's other bytes, and the stretch of the table.
    fn body(&self, check: u64) -> (u64, &[u64]) {
        let key = mix(check ^ 0x6a09_e667_f3bc_c908);
        let begin = (key % TABLE as u64) as usize;
        (key, &self.table[begin..begin + WORDS])
    }
}

/// The finaliser of SplitMix64: each bit of the result depends on each of the number.
fn mix(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashSet, io::Write};

    fn block(seed: u64, place: u64, version: u64) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        Stamp::new(seed).fill(&mut bytes, 1, place * 8192, version);
        bytes
    }

    #[test]
    fn a_sector_says_its_place_and_version() {
        let bytes = block(1, 3, 7);
        for (number, sector) in bytes.chunks(SECTOR).enumerate() {
            let place = Stamp::place(1, 3 * 8192 + number as u64 * 512);
            assert_eq!(Stamp::new(1).read(sector), Content::Whole { place, version: 7 });
            assert_eq!(Stamp::of_place(place), (1, 3 * 8192 + number as u64 * 512));
            assert_eq!(Stamp::new(2).read(sector), Content::Foreign);
        }
    }

    #[test]
    fn every_changed_byte_is_seen() {
        let stamp = Stamp::new(1);
        let sector = &block(1, 3, 7)[..SECTOR];
        for at in 0..SECTOR {
            let mut changed = sector.to_vec();
            changed[at] ^= 1;
            let is_whole = matches!(stamp.read(&changed), Content::Whole { .. });
            assert!(!is_whole, "byte {at}");
        }
        for length in [0, 1, 23, 24, 511] {
            assert!(!matches!(stamp.read(&sector[..length]), Content::Whole { .. }), "{length}");
        }
    }

    #[test]
    fn blocks_cannot_be_compressed_and_no_eight_bytes_come_twice() {
        let mut all = Vec::new();
        for place in 0..128 {
            all.extend(block(9, place, place % 3));
        }
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&all).expect("into memory");
        let packed = encoder.finish().expect("into memory").len();
        assert!(packed >= all.len(), "{packed} of {}", all.len());
        let words: HashSet<&[u8]> = all.chunks(8).collect();
        assert_eq!(words.len(), all.len() / 8);
    }
}
