//! Where things are on a disk, from its size and its AU size alone.

use crate::{BLOCK_SIZE, FormatError, checksum};

pub const MIB: u64 = 1 << 20;

/// Offsets in the system area, in bytes.
pub const HEADER_PLACE: u64 = 0;
pub const STAMP_PLACES: [u64; 2] = [4 << 10, 8 << 10];
pub const ACTIVITY_PLACES: [u64; 2] = [64 << 10, 128 << 10];
pub const MEMBERSHIP_PLACES: [u64; 2] = [256 << 10, 512 << 10];

/// Bytes of a slot.
pub const ACTIVITY_SLOT: usize = 64 << 10;
pub const MEMBERSHIP_SLOT: usize = 256 << 10;

/// A piece: the unit of written maps, and the size of a fragment, in bytes.
pub const PIECE_SIZE: u64 = 64 << 10;

/// The fewest data AUs a disk may have: the catalog's start and something to store.
pub const DATA_UNITS_MIN: u32 = 8;

/// How one disk is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the disk that the group uses.
    size: u64,
    au_size: u64,
    au_count: u32,
    zone_units: u32,
}

impl Layout {
    /// The layout of a disk of `size` bytes, of which only whole 4 KiB blocks are used.
    ///
    /// # Errors
    /// If the AU size is none of 1, 2, 4 ... 64 MiB, or the disk is too small or too large.
    pub fn new(size: u64, au_size: u64) -> Result<Self, FormatError> {
        if !au_size.is_power_of_two() || !(MIB..=64 * MIB).contains(&au_size) {
            return Err(FormatError::Field { field: "AU size", value: au_size });
        }
        let size = size & !(BLOCK_SIZE as u64 - 1);
        let too_small = FormatError::Field { field: "disk size", value: size };
        let au_count = u32::try_from(size / au_size).map_err(|_| too_small.clone())?;
        let zone_units = (u64::from(au_count) * Self::sums_size(au_size)).div_ceil(au_size);
        let zone_units = u32::try_from(zone_units).map_err(|_| too_small.clone())?;
        let layout = Self { size, au_size, au_count, zone_units };
        if layout.data_units().take(DATA_UNITS_MIN as usize).count() < DATA_UNITS_MIN as usize {
            return Err(too_small);
        }
        Ok(layout)
    }

    /// The smallest disk that can be used with this AU size, in bytes.
    #[must_use]
    pub fn smallest(au_size: u64) -> u64 {
        // System AU, one zone AU, and at most two that hold header copies.
        au_size * (u64::from(DATA_UNITS_MIN) + 4)
    }

    fn sums_size(au_size: u64) -> u64 {
        (au_size / (BLOCK_SIZE / checksum::STORED_SIZE) as u64).max(BLOCK_SIZE as u64)
    }

    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    #[must_use]
    pub fn au_size(&self) -> u64 {
        self.au_size
    }

    /// AUs of the disk, usable or not.
    #[must_use]
    pub fn au_count(&self) -> u32 {
        self.au_count
    }

    /// 4 KiB blocks in an AU.
    #[must_use]
    pub fn blocks_per_au(&self) -> usize {
        usize::try_from(self.au_size).expect("64 MiB at most") / BLOCK_SIZE
    }

    /// Pieces in an AU.
    #[must_use]
    pub fn pieces_per_au(&self) -> usize {
        usize::try_from(self.au_size / PIECE_SIZE).expect("1024 at most")
    }

    /// The three places of the header: first block, middle, end.
    #[must_use]
    pub fn header_places(&self) -> [u64; 3] {
        header_places(self.size)
    }

    /// Byte offset of an AU.
    #[must_use]
    pub fn au_offset(&self, au: u32) -> u64 {
        u64::from(au) * self.au_size
    }

    /// Where the checksums of an AU are: byte offset and bytes.
    #[must_use]
    pub fn sums_of(&self, au: u32) -> (u64, usize) {
        let length = Self::sums_size(self.au_size);
        (self.au_size + u64::from(au) * length, usize::try_from(length).expect("64 KiB at most"))
    }

    /// Whether an AU holds data: neither system area, checksum zone nor a header copy.
    #[must_use]
    pub fn is_data(&self, au: u32) -> bool {
        let holds_header = |place: &u64| place / self.au_size == u64::from(au);
        au > self.zone_units && au < self.au_count && !self.header_places().iter().any(holds_header)
    }

    /// Whether all of `first .. first + count` hold data.
    #[must_use]
    pub fn is_data_run(&self, first: u32, count: u32) -> bool {
        let Some(end) = first.checked_add(count) else { return false };
        let holds_header = |place: &u64| (u64::from(first)..u64::from(end)).contains(&(place / self.au_size));
        first > self.zone_units && end <= self.au_count && !self.header_places().iter().any(holds_header)
    }

    /// The AUs that hold data, ascending.
    pub fn data_units(&self) -> impl Iterator<Item = u32> + use<> {
        let layout = *self;
        (layout.zone_units + 1..layout.au_count).filter(move |au| layout.is_data(*au))
    }
}

/// The three places of the header on a disk of `size` bytes, whatever its AU size.
#[must_use]
pub fn header_places(size: u64) -> [u64; 3] {
    let block = BLOCK_SIZE as u64;
    let blocks = size / block;
    [HEADER_PLACE, blocks / 2 * block, blocks.saturating_sub(1) * block]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        for au_size in [MIB, 4 * MIB, 64 * MIB] {
            for size in [Layout::smallest(au_size), 100 * au_size, 100 * au_size + 4096, 5001 * au_size + 12345] {
                let layout = Layout::new(size, au_size).expect("large enough");
                let (last_sums, length) = layout.sums_of(layout.au_count() - 1);
                let first_data = layout.data_units().next().expect("there are data AUs");
                assert!(last_sums + length as u64 <= layout.au_offset(first_data));
                for au in layout.data_units() {
                    let data = layout.au_offset(au)..layout.au_offset(au) + au_size;
                    assert!(data.end <= layout.size());
                    assert!(layout.header_places().iter().all(|place| !data.contains(place)));
                }
            }
        }
    }

    #[test]
    fn refuses_what_cannot_be_cut() {
        assert!(Layout::new(100 * MIB, 3 * MIB).is_err());
        assert!(Layout::new(100 * MIB, 128 * MIB).is_err());
        assert!(Layout::new(4 * MIB, MIB).is_err());
        assert!(Layout::new(0, MIB).is_err());
        assert!(Layout::new(u64::MAX, MIB).is_err());
    }
}
