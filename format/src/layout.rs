//! Places on a disk, computed from its size and its AU size alone.

use crate::{Au, BLOCK_SIZE, FormatError, checksum};
use std::{collections::BTreeSet, ops::Range};

pub const MIB: u64 = 1 << 20;

/// The first copy of the header: byte offset.
pub const HEADER_PLACE: u64 = 0;

/// The places of a disk's records: byte offsets, two slots of each kind.
///
/// Partition tools, boot loaders and file systems write into the first and the last MiB of a
/// device. So a disk has two areas, one in its first MiB and one in its middle, and each record is
/// kept in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordArea {
    pub stamps: [u64; 2],
    pub activity: [u64; 2],
    pub memberships: [u64; 2],
}

/// The area in the first MiB.
pub const FIRST_AREA: RecordArea = RecordArea {
    stamps: [4 << 10, 8 << 10],
    activity: [64 << 10, 128 << 10],
    memberships: [256 << 10, 512 << 10],
};

impl RecordArea {
    /// The slots of all kinds: byte offset and bytes of each.
    pub fn slots(&self) -> impl Iterator<Item = (u64, usize)> + use<> {
        let stamps = self.stamps.map(|place| (place, BLOCK_SIZE));
        let activity = self.activity.map(|place| (place, ACTIVITY_SLOT));
        let memberships = self.memberships.map(|place| (place, MEMBERSHIP_SLOT));
        stamps.into_iter().chain(activity).chain(memberships)
    }

    /// Whether any slot overlaps the `length` bytes from offset `place` on.
    #[must_use]
    pub fn has_any_of(&self, place: u64, length: usize) -> bool {
        self.slots()
            .any(|(slot, bytes)| slot < place + length as u64 && place < slot + bytes as u64)
    }

    /// Whether a slot of one area and a slot of the other have bytes in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        other.slots().any(|(place, length)| self.has_any_of(place, length))
    }
}

/// Bytes of a slot.
pub const ACTIVITY_SLOT: usize = 64 << 10;
pub const MEMBERSHIP_SLOT: usize = 256 << 10;

/// A piece: the unit of written maps, and the size of a fragment, in bytes.
pub const PIECE_SIZE: u64 = 64 << 10;

/// Number of blocks in a piece.
pub const BLOCKS_PER_PIECE: usize = PIECE_SIZE as usize / BLOCK_SIZE;

/// The fewest data AUs of a disk: room for the catalog and something to store.
pub const DATA_UNITS_MIN: u32 = 8;

/// The layout of one disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the disk that the group uses.
    size: u64,
    au_size: u64,
    au_count: u32,
    zone_units: u32,
}

impl Layout {
    /// The layout of a disk of `size` bytes; only whole 4 KiB blocks are used.
    ///
    /// # Errors
    /// If the AU size is not one of 1, 2, 4 ... 64 MiB, or the disk is too small or too large.
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

    /// Number of AUs of the disk, usable or not.
    #[must_use]
    pub fn au_count(&self) -> u32 {
        self.au_count
    }

    /// Number of 4 KiB blocks in an AU.
    #[must_use]
    pub fn blocks_per_au(&self) -> usize {
        usize::try_from(self.au_size).expect("64 MiB at most") / BLOCK_SIZE
    }

    /// Number of pieces in an AU.
    #[must_use]
    pub fn pieces_per_au(&self) -> usize {
        usize::try_from(self.au_size / PIECE_SIZE).expect("1024 at most")
    }

    /// The places of the header: first block, middle, end, and the block after the first AU, which
    /// would hold the checksums of that AU.
    #[must_use]
    pub fn header_places(&self) -> [u64; HEADER_COPIES] {
        let [middle, end] = middle_and_end(self.size);
        [HEADER_PLACE, middle, end, self.au_size]
    }

    /// The record area in the AU that holds the middle copy of the header.
    ///
    /// A set is a slot of each kind. As many of the two sets as fit are between the beginning of
    /// the AU and the header copy, the others behind the copy.
    #[must_use]
    pub fn middle_area(&self) -> RecordArea {
        const SET: u64 = (MEMBERSHIP_SLOT + ACTIVITY_SLOT + BLOCK_SIZE) as u64;
        const _: () =
            assert!(3 * SET + BLOCK_SIZE as u64 <= MIB, "two sets fit, wherever the copy is");
        let [header, _] = middle_and_end(self.size);
        let begin = header / self.au_size * self.au_size;
        let before = (header - begin) / SET;
        let set = |index: u64| match index < before {
            true => begin + index * SET,
            false => header + BLOCK_SIZE as u64 + (index - before) * SET,
        };
        let sets = [set(0), set(1)];
        RecordArea {
            memberships: sets,
            activity: sets.map(|set| set + MEMBERSHIP_SLOT as u64),
            stamps: sets.map(|set| set + (MEMBERSHIP_SLOT + ACTIVITY_SLOT) as u64),
        }
    }

    /// The largest layout that uses whole AUs of `size` bytes: it has no data in the last MiB of
    /// the device.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_whole_units(size: u64, au_size: u64) -> Result<Self, FormatError> {
        if au_size == 0 {
            return Self::new(size, au_size);
        }
        Self::new(size / au_size * au_size, au_size)
    }

    /// Byte offset of an AU.
    #[must_use]
    pub fn au_offset(&self, au: Au) -> u64 {
        u64::from(au.0) * self.au_size
    }

    /// The bytes of `count` AUs from `first` on.
    #[must_use]
    pub fn au_bytes(&self, first: Au, count: u32) -> Range<u64> {
        let begin = self.au_offset(first);
        begin..begin + u64::from(count) * self.au_size
    }

    /// The checksums of an AU: byte offset and bytes.
    #[must_use]
    pub fn sums_of(&self, au: Au) -> (u64, usize) {
        let length = Self::sums_size(self.au_size);
        (self.au_size + u64::from(au.0) * length, usize::try_from(length).expect("64 KiB at most"))
    }

    /// Whether an AU holds data: it is not the system area, a checksum zone or a header copy.
    #[must_use]
    pub fn is_data(&self, au: Au) -> bool {
        let holds_header = |place: &u64| place / self.au_size == u64::from(au.0);
        au.0 > self.zone_units
            && au.0 < self.au_count
            && !self.header_places().iter().any(holds_header)
    }

    /// Whether all of `first .. first + count` hold data.
    #[must_use]
    pub fn is_data_run(&self, first: Au, count: u32) -> bool {
        let first = first.0;
        let Some(end) = first.checked_add(count) else { return false };
        let holds_header =
            |place: &u64| (u64::from(first)..u64::from(end)).contains(&(place / self.au_size));
        first > self.zone_units
            && end <= self.au_count
            && !self.header_places().iter().any(holds_header)
    }

    /// The number of AUs that hold data.
    #[must_use]
    pub fn data_unit_count(&self) -> u32 {
        let data = self.zone_units + 1..self.au_count;
        let of_header = |place: u64| u32::try_from(place / self.au_size).ok();
        let headers: BTreeSet<u32> = self
            .header_places()
            .into_iter()
            .filter_map(of_header)
            .filter(|au| data.contains(au))
            .collect();
        // A layout has eight of them at least.
        data.len() as u32 - headers.len() as u32
    }

    /// The bytes of a device of `size` bytes that hold no data: the system area, the checksum zone,
    /// header copies, and what is behind the last AU.
    #[must_use]
    pub fn metadata(&self, size: u64) -> Vec<Range<u64>> {
        let data = u64::from(self.zone_units + 1) * self.au_size;
        let end = u64::from(self.au_count) * self.au_size;
        let of_header = |place: u64| place / self.au_size * self.au_size;
        let headers: BTreeSet<u64> = self.header_places().map(of_header).into();
        let inside = headers.range(data..end).map(|offset| *offset..offset + self.au_size);
        let behind = std::iter::once(end..size.max(end));
        std::iter::once(0..data).chain(inside).chain(behind).collect()
    }

    /// The AUs that hold data, ascending.
    pub fn data_units(&self) -> impl Iterator<Item = Au> + use<> {
        let layout = *self;
        (layout.zone_units + 1..layout.au_count).map(Au).filter(move |au| layout.is_data(*au))
    }
}

/// Copies of the header.
pub const HEADER_COPIES: usize = 4;

/// The places of the middle and the last header copy of a disk of `size` bytes.
fn middle_and_end(size: u64) -> [u64; 2] {
    let block = BLOCK_SIZE as u64;
    let blocks = size / block;
    [blocks / 2 * block, blocks.saturating_sub(1) * block]
}

/// AU sizes, in bytes, ascending.
pub fn au_sizes() -> impl Iterator<Item = u64> {
    (0..7).map(|shift| MIB << shift)
}

/// Places where header copies may be on a device of `size` bytes that is used whole, for any AU
/// size: those after the first AU first, in the order of AU sizes, then middles and ends.
#[must_use]
pub fn likely_header_places(size: u64) -> Vec<u64> {
    let whole = au_sizes().map(|au_size| size / au_size * au_size);
    let sizes: BTreeSet<u64> = whole.chain([size]).filter(|size| *size > 0).collect();
    let places: BTreeSet<u64> = sizes.into_iter().flat_map(middle_and_end).collect();
    let block = BLOCK_SIZE as u64;
    let fits = |place: &u64| place.checked_add(block).is_some_and(|end| end <= size);
    let mut all: Vec<u64> = au_sizes().collect();
    all.extend(
        places
            .into_iter()
            .filter(|place| *place != HEADER_PLACE && !au_sizes().any(|au_size| au_size == *place)),
    );
    all.retain(fits);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        for au_size in [MIB, 4 * MIB, 64 * MIB] {
            for size in [
                Layout::smallest(au_size),
                100 * au_size,
                100 * au_size + 4096,
                5001 * au_size + 12345,
            ] {
                let layout = Layout::new(size, au_size).expect("large enough");
                assert_eq!(layout.data_unit_count() as usize, layout.data_units().count());
                let (last_sums, length) = layout.sums_of(Au(layout.au_count() - 1));
                let first_data = layout.data_units().next().expect("there are data AUs");
                assert!(last_sums + length as u64 <= layout.au_offset(first_data));
                for au in layout.data_units() {
                    let data = layout.au_offset(au)..layout.au_offset(au) + au_size;
                    assert!(data.end <= layout.size());
                    assert!(layout.header_places().iter().all(|place| !data.contains(place)));
                    assert!(layout.middle_area().slots().all(|(place, _)| !data.contains(&place)));
                }
            }
        }
    }

    /// Wherever in its AU the middle copy of the header is, the records around it overlap neither
    /// the copy, nor each other, nor another AU.
    #[test]
    fn the_middle_area_fits_beside_the_header_copy() {
        for au_size in [MIB, 4 * MIB, 64 * MIB] {
            for extra in (0..2 * au_size / 4096).step_by(if au_size == MIB { 1 } else { 61 }) {
                let layout =
                    Layout::new(100 * au_size + extra * 4096, au_size).expect("large enough");
                let middle = layout.header_places()[1];
                let begin = middle / au_size * au_size;
                let mut places: Vec<(u64, usize)> =
                    layout.middle_area().slots().chain([(middle, BLOCK_SIZE)]).collect();
                places.sort_unstable();
                assert!(places[0].0 >= begin, "{layout:?}");
                let ends = places.iter().map(|(place, length)| place + *length as u64);
                let next = places.iter().skip(1).map(|(place, _)| *place).chain([begin + au_size]);
                assert!(ends.zip(next).all(|(end, next)| end <= next), "{layout:?}: {places:?}");
                assert!(places.iter().all(|(place, _)| place % 4096 == 0));
            }
        }
    }

    /// If whole AUs of a device are used, no AU has data in its first or last MiB.
    #[test]
    fn the_ends_of_a_device_hold_no_data() {
        for au_size in au_sizes() {
            for size in [
                Layout::smallest(au_size),
                100 * au_size + 4096,
                100 * au_size + MIB / 2,
                101 * au_size - 4096,
            ] {
                let layout = Layout::of_whole_units(size, au_size).expect("large enough");
                let ends = [0..MIB, (size - MIB)..size];
                let is_at_an_end =
                    |from: u64, to: u64| ends.iter().any(|end| from < end.end && end.start < to);
                assert!(
                    !layout
                        .data_units()
                        .any(|au| is_at_an_end(layout.au_offset(au), layout.au_offset(au.next())))
                );
                assert!(
                    !layout
                        .middle_area()
                        .slots()
                        .any(|(place, bytes)| is_at_an_end(place, place + bytes as u64))
                );
                assert!(
                    layout
                        .header_places()
                        .iter()
                        .filter(|place| !is_at_an_end(**place, **place + 4096))
                        .count()
                        >= 2
                );
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
