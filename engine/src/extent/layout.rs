//! Where a file's bytes are: its extents, or its slot in a shared extent.
//!
//! The layout is read-locked by reads and writes of the file, and write-locked by what
//! changes it: allocation, promotion, truncation, holes (`files/allocation.rs`).

use crate::{
    extent::{Extent, Mirror, failed_flush::Unsynced, log_detector::LogDetector},
    planted::{self, Bug},
    space::{extent_id::ExtentId, stripes::Stripes},
    sync::{rwlock::AsyncRwLock, transfer::Source},
};
use plinth_format::{Piece, layout::PIECE_SIZE};
use smallvec::SmallVec;
use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Largest file, in bytes: offsets are signed 64 bit, and ends are rounded up to AUs.
pub const FILE_SIZE_MAX: u64 = (1 << 62) - 1;

/// A slot of a shared extent.
#[derive(Debug, Clone)]
pub struct Slot {
    pub extent: Arc<Extent>,
    /// Its piece.
    pub piece: Piece,
}

/// Where a file's bytes are.
#[derive(Debug, Default)]
pub struct Layout {
    pub loaded: bool,
    pub slot: Option<Slot>,
    /// By number; a missing one is a hole.
    pub extents: BTreeMap<u64, Arc<Extent>>,
    /// In chunks over several extents.
    pub fine: bool,
}

/// A file's data, as the data path sees it.
#[derive(Debug, Default)]
pub struct FileData {
    pub layout: AsyncRwLock<Layout>,
    /// Between the file's end and the end of its last piece there are zeros. Not so where a write
    /// has failed: its bytes may be there, and its size not. After a mount that is unknown.
    tail_is_clean: AtomicBool,
    /// A commit of its marks or places failed with the catalog: the next mount finds what was, or
    /// what was to be.
    uncertain_pieces: AtomicBool,
    pub unsynced: Unsynced,
    pub log_detector: LogDetector,
}

impl FileData {
    /// Behind the file's end are zeros now.
    pub fn clean_tail(&self) {
        self.tail_is_clean.store(true, Ordering::Release);
    }

    /// A write beyond the file's end failed.
    pub fn mark_tail_dirty(&self) {
        self.tail_is_clean.store(false, Ordering::Release);
    }

    pub fn has_clean_tail(&self) -> bool {
        self.tail_is_clean.load(Ordering::Acquire) || planted::has(Bug::TailBelievedClean)
    }

    /// A commit of its marks or places has failed with the catalog.
    pub fn set_uncertain(&self) {
        self.uncertain_pieces.store(true, Ordering::Release);
    }

    /// Whether writes to it now may be missing after the next mount, and whether a hole may be
    /// none. The caller holds the range of blocks that it writes, or has read: a task that failed
    /// held it until it had noted that here.
    pub fn is_uncertain(&self) -> bool {
        self.uncertain_pieces.load(Ordering::Acquire)
    }
}

/// What a commit freed: AUs may be reused when it is durable and their I/O has ended (R8).
#[derive(Debug, Default)]
pub struct Freed {
    pub extents: Vec<Arc<Extent>>,
    /// Places that mirrors of extents have left.
    pub left: Vec<(Arc<Extent>, Mirror)>,
    pub slots: Vec<FreedSlot>,
}

/// A file that has, or had, a slot.
pub trait SlotOwner: fmt::Debug + Send + Sync {
    fn node(&self) -> u64;
    fn data(&self) -> &FileData;
}

/// A slot that a commit freed.
#[derive(Debug)]
pub struct FreedSlot {
    /// The shared extent.
    pub extent: ExtentId,
    pub piece: Piece,
    /// The file that is removed: it may still be read or written. `None`: it is not.
    pub of: Option<Arc<dyn SlotOwner>>,
}

impl FreedSlot {
    /// Takes it from the file. False: the file is being read or written now.
    pub fn is_left(&self) -> bool {
        let Some(owner) = &self.of else { return true };
        let Some(mut layout) = owner.data().layout.try_write() else { return false };
        if let Some(slot) = &mut layout.slot {
            // Later readers and writers find a tombstone, as of a deleted extent.
            let tombstone = Extent::new(slot.extent.id, owner.node(), 0, &slot.extent.mirrors());
            tombstone.set_tombstone();
            slot.extent = Arc::new(tombstone);
        }
        true
    }
}

/// A part of a request that lies in one extent.
#[derive(Debug, Clone)]
pub struct ExtentPart {
    pub extent: Option<Arc<Extent>>,
    /// Bytes of the extent.
    pub inside: Range<u64>,
    /// Bytes of the request: the first, and where the file is striped those that follow.
    pub range: Range<usize>,
    pub more: Vec<Range<usize>>,
}

impl ExtentPart {
    /// Bytes of the request, in the order in which the extent has them.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        std::iter::once(self.range.clone()).chain(self.more.iter().cloned())
    }

    /// The bytes of a request that go into the extent.
    #[must_use]
    pub fn gather<'a>(&self, bytes: &Source<'a>) -> Source<'a> {
        if self.more.is_empty() {
            return bytes.part(self.range.clone());
        }
        let mut gathered = Vec::with_capacity(self.ranges().map(|range| range.len()).sum());
        self.ranges().for_each(|range| gathered.extend_from_slice(&bytes[range]));
        Source::Bytes(Cow::Owned(gathered))
    }
}

/// The parts of a request: hardly ever more than two.
pub type Parts = SmallVec<[ExtentPart; 2]>;

impl Layout {
    /// How the file is cut into extents.
    #[must_use]
    pub fn stripes(&self, au_size: u64) -> Stripes {
        Stripes::new(self.fine, au_size)
    }

    /// Cuts bytes `offset .. offset + length` of the file along its extents; each extent has one
    /// part at most.
    #[must_use]
    pub fn parts(&self, offset: u64, length: usize, au_size: u64) -> Parts {
        let mut parts = Parts::new();
        let end = offset.saturating_add(length as u64);
        let mut from = offset;
        if let Some(slot) = &self.slot
            && offset < PIECE_SIZE.min(end)
        {
            let base = slot.piece.offset();
            from = end.min(PIECE_SIZE);
            let range = 0..usize::try_from(from - offset).expect("64 KiB at most");
            let inside = base + offset..base + from;
            parts.push(ExtentPart {
                extent: Some(Arc::clone(&slot.extent)),
                inside,
                range,
                more: Vec::new(),
            });
        }
        let stripes = self.stripes(au_size);
        for (number, inside) in stripes.touched(from, end) {
            let index = |at: u64| usize::try_from(at - offset).expect("inside the request");
            let mut ranges = stripes
                .in_file(number, inside.clone())
                .map(|range| index(range.start)..index(range.end));
            let Some(range) = ranges.next() else { continue };
            parts.push(ExtentPart {
                extent: self.extents.get(&number).cloned(),
                inside,
                range,
                more: ranges.collect(),
            });
        }
        parts
    }

    /// The extent that has all of a range of the file, and where there; `None`: several have it, or
    /// none.
    #[must_use]
    pub fn within_one(
        &self,
        offset: u64,
        length: usize,
        au_size: u64,
    ) -> Option<(&Arc<Extent>, Range<u64>)> {
        let length = length as u64;
        // Behind the end of a file any offset may be asked for, and nothing is there.
        let end = offset.checked_add(length).filter(|end| length > 0 && *end <= FILE_SIZE_MAX)?;
        let (extent, at, most) = match &self.slot {
            Some(slot) => (&slot.extent, slot.piece.offset() + offset, PIECE_SIZE),
            None => {
                let (number, at, most) = self.stripes(au_size).locate(offset);
                (self.extents.get(&number)?, at, most)
            }
        };
        (end <= most).then(|| (extent, at..at + length))
    }

    /// Whether all of `offset .. end` can be written without allocating.
    #[must_use]
    pub fn covers(&self, offset: u64, end: u64, au_size: u64) -> bool {
        if self.slot.is_some() {
            return end <= PIECE_SIZE;
        }
        self.stripes(au_size)
            .touched(offset, end)
            .all(|(number, _)| self.extents.contains_key(&number))
    }

    /// Space taken, in 512-byte units, before mirroring.
    #[must_use]
    pub fn blocks(&self, au_size: u64) -> u64 {
        let slot = if self.slot.is_some() { PIECE_SIZE } else { 0 };
        (slot + self.extents.len() as u64 * au_size) / 512
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller that asks for the one extent with all of a range gets the same as one that asks for
    /// all parts.
    #[test]
    fn a_range_within_one_extent_has_one_part() {
        const AU: u64 = 1 << 20;
        let extent = |number| Arc::new(Extent::new(ExtentId(number + 1), 7, number, &[]));
        let coarse = || Layout {
            extents: [0, 1, 3].map(|number| (number, extent(number))).into(),
            ..Layout::default()
        };
        let slot =
            Layout { slot: Some(Slot { extent: extent(9), piece: Piece(3) }), ..Layout::default() };
        let edges = [0, 4096, PIECE_SIZE, 2 * PIECE_SIZE, AU, 2 * AU, 3 * AU, 8 * AU, 12 * AU];
        let near = |edge: u64| {
            [edge.saturating_sub(4096), edge.saturating_sub(1), edge, edge + 1, edge + 8192]
        };
        let (mut within, mut not) = (0, 0);
        for layout in [coarse(), Layout { fine: true, ..coarse() }, slot] {
            for offset in edges.into_iter().flat_map(near) {
                for length in [0, 1, 4096, 8192, 65536, 1 << 20, 1 << 21] {
                    let found = layout.within_one(offset, length, AU);
                    match (&layout.parts(offset, length, AU)[..], found) {
                        (
                            [ExtentPart { extent: Some(extent), inside, more, .. }],
                            Some((other, there)),
                        ) => {
                            assert!(
                                Arc::ptr_eq(extent, other) && *inside == there && more.is_empty()
                            );
                            within += 1;
                        }
                        ([ExtentPart { extent: Some(_), more, .. }], None) if more.is_empty() => {
                            panic!("{length} bytes at {offset} are within one extent")
                        }
                        (parts, found) => {
                            assert!(
                                found.is_none(),
                                "{length} bytes at {offset}: {} parts",
                                parts.len()
                            );
                            not += 1;
                        }
                    }
                }
            }
        }
        assert!(within > 50 && not > 50, "{within}, {not}");
        assert!(
            coarse().within_one(u64::MAX - 4, 4, AU).is_none()
                && coarse().within_one(1, usize::MAX, AU).is_none()
        );
    }
}
