//! Names and bytes of files of a group that is not mounted.
//!
//! Each block of 4 KiB is read from one mirror, and the checksums of the mirrors say which. Fewer
//! cases can occur than in a mounted group (`extent/blocks/cases.rs`), because nothing is known
//! that the disks do not have; and where a mount would return an error, or a caller could not know
//! that the bytes are old, the range gets a [`Trouble`]. A mirror is *current* if its disk is
//! ONLINE and holds the newest stamp, and no stale run names the extent. The rows are tried from
//! above:
//!
//! ```text
//!   current mirrors                                       read               trouble
//!   a block matches what some current zone stores         that one           none
//!   in flight: none matches                               the first          Unverified
//!   no zone has a checksum                                the first          Unverified
//!   two or more, all equal: the checksums are wrong       the first          none
//!   none matches                                          (zeros)            Damaged
//!   none can be read; a block of an old mirror matches
//!     its own zone, or that has none                      that one           Old
//!   none can be read; a disk with a mirror is there       (zeros)            Damaged
//!   no disk with a mirror is there                        (zeros)            Missing
//! ```

use super::{FoundDisk, OfflineGroup, read};
use crate::{
    api::{Attributes, Kind, Node, ROOT},
    catalog::{
        copied::{CopiedTables, Holder},
        tables::extent::ExtentRow,
    },
    space::{placement::Mirror, stripes::Stripes},
    world::World,
};
use plinth_format::{
    Au, BLOCK_SIZE, Block, DiskNumber, Layout, Piece, checksum, envelope::Envelope,
    layout::PIECE_SIZE, lost,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    ops::Range,
};

/// Directories in directories: more is a loop in a damaged catalog.
const DEPTH_MAX: usize = 1000;
/// Pieces of one read.
const RUN: usize = 16;

/// Why bytes of a file are not what was written last, or may not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// They are right as far as can be told, but nothing confirms it: they were being written when
    /// the group was last used, or there is no checksum.
    Unverified,
    /// They are from a disk that missed writes.
    Old,
    /// The catalog does not say where they are: it is damaged. There may have been none.
    Unlisted,
    /// No mirror on the disks that are there can be read, or has the right checksum.
    Damaged,
    /// No disk with a mirror is there.
    Missing,
}

impl Trouble {
    /// Whether the bytes that are returned are those of the file.
    #[must_use]
    pub fn has_bytes(self) -> bool {
        matches!(self, Self::Unverified | Self::Old)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unverified => "not verified",
            Self::Old => "old",
            Self::Unlisted => "not in the catalog",
            Self::Damaged => "damaged",
            Self::Missing => "missing",
        })
    }
}

/// A range of a file that is in trouble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TroubledRange {
    pub range: Range<u64>,
    pub trouble: Trouble,
    /// The disks with the mirrors.
    pub disks: Vec<DiskNumber>,
}

/// A file with its names.
#[derive(Debug, Clone)]
pub struct ListedFile {
    pub node: Node,
    pub attributes: Attributes,
    /// Paths from the root, without a slash before them.
    pub paths: Vec<Vec<u8>>,
}

/// One mirror of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub disk: DiskNumber,
    pub au: Au,
    /// Its offset on the disk.
    pub offset: u64,
}

/// The mirrors of one extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentPlaces {
    /// The extent's place in the file.
    pub number: u64,
    /// A range of the file of which bytes are in the extent, and where that range begins in it.
    pub range: Range<u64>,
    pub inside: u64,
    pub mirrors: Vec<Place>,
}

/// A difference of mirrors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where the block is in the file.
    pub offset: u64,
    /// Each mirror, and its verdict.
    pub mirrors: Vec<(Place, Copy)>,
}

/// One mirror of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copy {
    Right,
    /// There is no checksum to confirm it.
    Unverified,
    Wrong,
    Unreadable,
    Missing,
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Right => "matches its checksum",
            Self::Unverified => "has no checksum",
            Self::Wrong => "does not match its checksum",
            Self::Unreadable => "cannot be read",
            Self::Missing => "is not there",
        })
    }
}

type Result<T> = std::result::Result<T, rusqlite::Error>;

/// The files of a group that is not mounted.
pub struct Contents<'a> {
    world: &'a dyn World,
    group: &'a OfflineGroup,
    tables: CopiedTables,
    stale: BTreeMap<DiskNumber, Vec<(u64, u64)>>,
    /// Pieces that were written and perhaps not flushed count: the host has not lost its memory.
    pending_counts: bool,
    /// Rows may be missing.
    is_damaged: bool,
}

/// A block on one mirror.
struct Candidate {
    bytes: Option<Vec<u8>>,
    /// Its checksum in its own zone.
    stored: u32,
    current: bool,
    /// Its disk is there.
    present: bool,
}

/// The block to take and its trouble: the table above.
fn decide(candidates: &[Candidate], active: bool) -> (Option<usize>, Option<Trouble>) {
    let readable = |current: bool| {
        let of_kind = move |(_, one): &(usize, &Candidate)| one.current == current;
        candidates
            .iter()
            .enumerate()
            .filter(of_kind)
            .filter_map(|(at, one)| Some((at, one.bytes.as_deref()?, one.stored)))
    };
    let sums: BTreeSet<u32> = readable(true)
        .map(|(_, _, stored)| stored)
        .filter(|stored| *stored != checksum::UNKNOWN)
        .collect();
    let own = readable(true).find(|(_, bytes, stored)| checksum::of_block(bytes) == *stored);
    let others = || readable(true).find(|(_, bytes, _)| sums.contains(&checksum::of_block(bytes)));
    if let Some((at, ..)) = own.or_else(others) {
        return (Some(at), None);
    }
    if let Some((first, bytes, _)) = readable(true).next() {
        if active || sums.is_empty() {
            return (Some(first), Some(Trouble::Unverified));
        }
        let is_equal = readable(true).all(|(_, other, _)| other == bytes);
        return match is_equal && readable(true).count() > 1 {
            true => (Some(first), None),
            false => (None, Some(Trouble::Damaged)),
        };
    }
    let is_right = |(_, bytes, stored): &(usize, &[u8], u32)| {
        *stored == checksum::UNKNOWN || checksum::of_block(bytes) == *stored
    };
    match readable(false).find(is_right) {
        Some((at, ..)) => (Some(at), Some(Trouble::Old)),
        None if candidates.iter().any(|one| one.present) => (None, Some(Trouble::Damaged)),
        None => (None, Some(Trouble::Missing)),
    }
}

impl<'a> Contents<'a> {
    /// `is_damaged`: rows of the catalog may be missing.
    ///
    /// # Errors
    /// SQLite's.
    pub fn new(
        world: &'a dyn World,
        group: &'a OfflineGroup,
        tables: CopiedTables,
        is_damaged: bool,
    ) -> Result<Self> {
        let stale = tables.stale()?;
        let membership = &group.membership;
        let pending_counts = membership.mounted && membership.boot == world.boot_id();
        Ok(Self { world, group, tables, stale, pending_counts, is_damaged })
    }

    /// Every file and directory, in the order of their paths. One without a name, or in a directory
    /// that the catalog has lost, is in `lost+found`.
    ///
    /// # Errors
    /// SQLite's.
    pub fn list(&self) -> Result<Vec<ListedFile>> {
        let mut names: BTreeMap<Node, Vec<(Node, Vec<u8>)>> = BTreeMap::new();
        for name in self.tables.names()? {
            names.entry(name.node).or_default().push((name.parent, name.name));
        }
        let mut listed = Vec::new();
        for node in self.tables.nodes()?.into_iter().filter(|node| *node != ROOT) {
            let Some(attributes) = self.tables.file(node)? else { continue };
            let lost = || [b"lost+found/", node.to_string().as_bytes()].concat();
            let own = names.get(&node).map(Vec::as_slice).unwrap_or_default();
            let mut paths: Vec<Vec<u8>> = own
                .iter()
                .map(|(parent, name)| path_of(&names, *parent, name).unwrap_or_else(lost))
                .collect();
            if paths.is_empty() {
                // A file that was deleted while a program had it open is none.
                if attributes.links == 0 || attributes.kind == Kind::Directory {
                    continue;
                }
                paths.push(lost());
            }
            listed.push(ListedFile { node, attributes, paths });
        }
        listed.sort_by(|one, other| one.paths.cmp(&other.paths));
        Ok(listed)
    }

    /// # Errors
    /// SQLite's.
    pub fn link_target(&self, node: Node) -> Result<Option<Vec<u8>>> {
        self.tables.link_target(node)
    }

    fn stripes(&self, attributes: &Attributes) -> Stripes {
        Stripes::new(attributes.fine, self.group.membership.au_size)
    }

    fn layout(&self, disk: DiskNumber) -> Option<(&FoundDisk, Layout)> {
        let found = self.group.disk(disk)?.found.as_ref()?;
        Some((found, found.header.best.layout))
    }

    fn is_current(&self, disk: DiskNumber, extent: u64) -> bool {
        let is_stale = self.stale.get(&disk).is_some_and(|runs| {
            runs.iter()
                .any(|(first, count)| extent.checked_sub(*first).is_some_and(|at| at < *count))
        });
        !is_stale && self.group.disk(disk).is_some_and(super::OfflineDisk::is_current)
    }

    fn has_data(&self, row: &ExtentRow, piece: Piece) -> bool {
        row.marks.written.has(piece) || self.pending_counts && row.marks.pending.has(piece)
    }

    /// The extents of a file that may hold data of it.
    fn rows(&self, file: &Attributes) -> Result<(Vec<ExtentRow>, Option<Piece>)> {
        self.tables.extents(file.node)
    }

    /// Whether a file lies elsewhere than in an earlier copy of the catalog: bytes that were read
    /// meanwhile, from where it was, may be those of another file.
    ///
    /// # Errors
    /// SQLite's.
    pub fn has_moved(&self, earlier: &Contents<'_>, node: Node) -> Result<bool> {
        let places = |of: &Contents<'_>| {
            let (rows, slot) = of.tables.extents(node)?;
            let rows = rows.into_iter().map(|row| row.extent).collect::<Vec<_>>();
            Result::Ok((rows, slot))
        };
        Ok(places(self)? != places(earlier)?)
    }

    /// The worst trouble of a file, as far as it can be told without reading it.
    ///
    /// # Errors
    /// SQLite's.
    pub fn survey(&self, file: &Attributes) -> Result<Option<Trouble>> {
        let (rows, slot) = self.rows(file)?;
        let pieces = usize::try_from(self.group.membership.au_size / PIECE_SIZE).unwrap_or(0);
        let mut worst = self.unlisted(file, &rows, slot).map(|range| range.trouble);
        for row in &rows {
            let mut all = (0..pieces).map(Piece).filter(|piece| slot.is_none_or(|it| it == *piece));
            if !all.any(|piece| self.has_data(row, piece)) {
                continue;
            }
            let mirrors =
                || row.extent.mirrors.iter().filter(|mirror| self.layout(mirror.disk).is_some());
            let trouble = if mirrors().any(|mirror| self.is_current(mirror.disk, row.extent.id)) {
                continue;
            } else if mirrors().next().is_some() {
                Trouble::Old
            } else {
                Trouble::Missing
            };
            worst = worst.max(Some(trouble));
        }
        Ok(worst)
    }

    /// The part of a file for which a damaged catalog has no extent.
    fn unlisted(
        &self,
        file: &Attributes,
        rows: &[ExtentRow],
        slot: Option<Piece>,
    ) -> Option<TroubledRange> {
        if !self.is_damaged || file.size == 0 {
            return None;
        }
        let stripes = self.stripes(file);
        let missing = match slot {
            Some(_) if rows.is_empty() => Some(0..file.size),
            Some(_) => None,
            None => {
                let known: BTreeSet<u64> = rows.iter().map(|row| row.extent.number).collect();
                let mut touched =
                    stripes.touched(0, file.size).filter(|(number, _)| !known.contains(number));
                let (number, inside) = touched.next()?;
                stripes.in_file(number, inside).next()
            }
        };
        Some(TroubledRange { range: missing?, trouble: Trouble::Unlisted, disks: Vec::new() })
    }

    /// Passes the data of a file, piece by piece, in the order of its extents; what is not passed
    /// is a hole. Returns the ranges that are in trouble, in the file's order.
    ///
    /// # Errors
    /// SQLite's, or those of `put`.
    pub fn read(
        &self,
        file: &Attributes,
        put: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> std::result::Result<Vec<TroubledRange>, ReadError> {
        let (rows, slot) = self.rows(file)?;
        let stripes = self.stripes(file);
        let mut troubles: Vec<TroubledRange> =
            self.unlisted(file, &rows, slot).into_iter().collect();
        for row in &rows {
            let disks: Vec<DiskNumber> = row.extent.mirrors.iter().map(|one| one.disk).collect();
            for (range, inside) in self.data_of(file, &stripes, row, slot) {
                let first = usize::try_from(inside / BLOCK_SIZE as u64).unwrap_or(usize::MAX);
                let length = usize::try_from(range.end - range.start).unwrap_or(0);
                let blocks = self.read_blocks(row, first, length.div_ceil(BLOCK_SIZE));
                let mut bytes = Vec::with_capacity(length);
                for (at, (block, trouble)) in blocks.into_iter().enumerate() {
                    let start = range.start + (at * BLOCK_SIZE) as u64;
                    if let Some(trouble) = trouble {
                        let end = (start + BLOCK_SIZE as u64).min(range.end);
                        note(
                            &mut troubles,
                            TroubledRange { range: start..end, trouble, disks: disks.clone() },
                        );
                    }
                    bytes.extend_from_slice(&block.unwrap_or_else(|| vec![0; BLOCK_SIZE]));
                }
                bytes.truncate(length);
                put(range.start, &bytes)?;
            }
        }
        troubles.sort_by_key(|trouble| trouble.range.start);
        Ok(troubles)
    }

    /// The ranges of the file that an extent holds data of, and where each begins in the extent.
    fn data_of(
        &self,
        file: &Attributes,
        stripes: &Stripes,
        row: &ExtentRow,
        slot: Option<Piece>,
    ) -> Vec<(Range<u64>, u64)> {
        if let Some(piece) = slot {
            let length = file.size.min(PIECE_SIZE);
            let has_data = self.has_data(row, piece) && length > 0;
            return has_data
                .then(|| (0..length, piece.0 as u64 * PIECE_SIZE))
                .into_iter()
                .collect();
        }
        let inside = stripes.inside(row.extent.number, 0, file.size);
        let mut ranges: Vec<(Range<u64>, u64)> = Vec::new();
        let mut at = inside.start;
        while at < inside.end {
            let end = (at + PIECE_SIZE).min(inside.end);
            let piece = Piece(usize::try_from(at / PIECE_SIZE).unwrap_or(usize::MAX));
            if self.has_data(row, piece)
                && let Some(range) = stripes.in_file(row.extent.number, at..end).next()
            {
                match ranges.last_mut() {
                    Some((last, begin))
                        if last.end == range.start
                            && *begin + (last.end - last.start) == at
                            && last.end - last.start < RUN as u64 * PIECE_SIZE =>
                    {
                        last.end = range.end
                    }
                    _ => ranges.push((range, at)),
                }
            }
            at = end;
        }
        ranges
    }

    /// Blocks of an extent, each with its bytes unless there are none, and its trouble.
    fn read_blocks(
        &self,
        row: &ExtentRow,
        first: usize,
        count: usize,
    ) -> Vec<(Option<Vec<u8>>, Option<Trouble>)> {
        let active = self.group.is_active(row.extent.id);
        let mut columns: Vec<Vec<Candidate>> = Vec::new();
        let by_currency = [true, false].map(|current| {
            let is_so = move |it: &&Mirror| self.is_current(it.disk, row.extent.id) == current;
            row.extent.mirrors.iter().filter(is_so).map(move |mirror| (mirror, current))
        });
        let mut decided: Vec<(Option<usize>, Option<Trouble>)> =
            vec![(None, Some(Trouble::Missing)); count];
        for (mirror, current) in by_currency.into_iter().flatten() {
            columns.push(self.load((mirror.disk, mirror.au), current, first, count));
            // The next mirror is read only if this one is not enough.
            for (at, one) in decided.iter_mut().enumerate().filter(|(_, one)| one.1.is_some()) {
                let candidates: Vec<Candidate> = columns
                    .iter()
                    .filter_map(|column| {
                        let Candidate { bytes, stored, current, present } = column.get(at)?;
                        Some(Candidate {
                            bytes: bytes.clone(),
                            stored: *stored,
                            current: *current,
                            present: *present,
                        })
                    })
                    .collect();
                *one = decide(&candidates, active);
            }
            if decided.iter().all(|(_, trouble)| trouble.is_none()) {
                break;
            }
        }
        let block = |(at, (mirror, trouble)): (usize, (Option<usize>, Option<Trouble>))| {
            let bytes =
                mirror.and_then(|mirror| columns.get_mut(mirror)?.get_mut(at)?.bytes.take());
            (bytes, trouble)
        };
        decided.into_iter().enumerate().map(block).collect()
    }

    /// Blocks of one mirror.
    fn load(
        &self,
        (disk, au): (DiskNumber, Au),
        current: bool,
        first: usize,
        count: usize,
    ) -> Vec<Candidate> {
        let absent = |present| {
            let none = || Candidate { bytes: None, stored: checksum::UNKNOWN, current, present };
            (0..count).map(|_| none()).collect()
        };
        let Some((found, layout)) = self.layout(disk) else { return absent(false) };
        if au.0 >= layout.au_count() || first + count > layout.blocks_per_au() {
            return absent(true);
        }
        let header = &found.header.best;
        let (group, id) = header.origin.unwrap_or((header.group, header.disk));
        let start = layout.au_offset(au) + (first * BLOCK_SIZE) as u64;
        let (sums_at, sums_length) = layout.sums_of(au);
        let sums = read(self.world, &*found.disk, sums_at, sums_length).ok();
        let whole = read(self.world, &*found.disk, start, count * BLOCK_SIZE).ok();
        let block = |at: usize| {
            let place = start + (at * BLOCK_SIZE) as u64;
            let bytes = match &whole {
                Some(whole) => {
                    whole.get(at * BLOCK_SIZE..(at + 1) * BLOCK_SIZE).map(<[u8]>::to_vec)
                }
                None => {
                    read(self.world, &*found.disk, place, BLOCK_SIZE).ok().map(|it| it.to_vec())
                }
            };
            let is_lost = |bytes: &[u8]| {
                [(group, id), (header.group, header.disk)]
                    .into_iter()
                    .any(|(group, disk)| lost::is_mark(bytes, Envelope { group, disk, place }))
            };
            let bytes = bytes.filter(|bytes| !is_lost(bytes));
            let stored = sums.as_ref().and_then(|sums| {
                let at = Block(first + at).0 * checksum::STORED_SIZE;
                Some(u32::from_le_bytes(sums.get(at..at + 4)?.try_into().ok()?))
            });
            Candidate { bytes, stored: stored.unwrap_or(checksum::UNKNOWN), current, present: true }
        };
        (0..count).map(block).collect()
    }

    /// Where the extents of a file are, in the order of the file.
    ///
    /// # Errors
    /// SQLite's.
    pub fn places(&self, file: &Attributes) -> Result<Vec<ExtentPlaces>> {
        let (rows, slot) = self.rows(file)?;
        let stripes = self.stripes(file);
        let mut all = Vec::new();
        for row in &rows {
            let place = |mirror: &Mirror| {
                let offset = u64::from(mirror.au.0) * self.group.membership.au_size;
                Place { disk: mirror.disk, au: mirror.au, offset }
            };
            let mirrors: Vec<Place> = row.extent.mirrors.iter().map(place).collect();
            let number = row.extent.number;
            if let Some(piece) = slot {
                let (range, inside) = (0..file.size, piece.0 as u64 * PIECE_SIZE);
                all.push(ExtentPlaces { number, range, inside, mirrors });
                continue;
            }
            let whole = 0..self.group.membership.au_size;
            let mut inside = 0;
            for range in stripes.in_file(number, whole) {
                let length = range.end - range.start;
                all.push(ExtentPlaces { number, range, inside, mirrors: mirrors.clone() });
                inside += length;
            }
        }
        all.sort_by_key(|extent| extent.range.start);
        Ok(all)
    }

    /// The files that have bytes at an offset of an AU, and where in each.
    ///
    /// # Errors
    /// SQLite's.
    pub fn holders(
        &self,
        disk: DiskNumber,
        au: Au,
        inside: u64,
    ) -> Result<Vec<(Holder, Node, Option<u64>)>> {
        let mut found = Vec::new();
        for holder in self.tables.holders(disk, au)? {
            let piece = Piece(usize::try_from(inside / PIECE_SIZE).unwrap_or(usize::MAX));
            if holder.file == 0 {
                for node in self.tables.in_slot(holder.extent, piece)? {
                    found.push((holder.clone(), node, Some(inside % PIECE_SIZE)));
                }
                continue;
            }
            let file = self.tables.file(holder.file)?;
            let offset = file.and_then(|file| {
                self.stripes(&file).in_file(holder.number, inside..inside + 1).next()
            });
            found.push((holder.clone(), holder.file, offset.map(|range| range.start)));
        }
        Ok(found)
    }

    /// Compares all mirrors of a file's data.
    ///
    /// # Errors
    /// SQLite's.
    pub fn compare(&self, file: &Attributes, tell: &mut dyn FnMut(Difference)) -> Result<u64> {
        let (rows, slot) = self.rows(file)?;
        let stripes = self.stripes(file);
        let mut compared = 0;
        for row in &rows {
            for (range, inside) in self.data_of(file, &stripes, row, slot) {
                let first = usize::try_from(inside / BLOCK_SIZE as u64).unwrap_or(usize::MAX);
                let length = usize::try_from(range.end - range.start).unwrap_or(0);
                let count = length.div_ceil(BLOCK_SIZE);
                let columns: Vec<(Place, Vec<Candidate>)> = row
                    .extent
                    .mirrors
                    .iter()
                    .map(|mirror| {
                        let offset = u64::from(mirror.au.0) * self.group.membership.au_size;
                        let place = Place { disk: mirror.disk, au: mirror.au, offset };
                        let current = self.is_current(mirror.disk, row.extent.id);
                        (place, self.load((mirror.disk, mirror.au), current, first, count))
                    })
                    .collect();
                compared += length as u64;
                for at in 0..count {
                    let block = (at * BLOCK_SIZE) as u64;
                    let mirrors: Vec<(Place, Copy, Option<&[u8]>)> = columns
                        .iter()
                        .filter_map(|(place, column)| {
                            let one = column.get(at)?;
                            let offset = place.offset + inside + block;
                            let place = Place { offset, ..*place };
                            Some((place, copy_of(one), one.bytes.as_deref()))
                        })
                        .collect();
                    let mut present = mirrors.iter().filter_map(|(_, _, bytes)| *bytes);
                    let one = present.next();
                    let differ = present.any(|other| Some(other) != one);
                    let is_bad = |copy: &Copy| matches!(copy, Copy::Wrong | Copy::Unreadable);
                    if differ || mirrors.iter().any(|(_, copy, _)| is_bad(copy)) {
                        let mirrors = mirrors.into_iter().map(|(place, copy, _)| (place, copy));
                        tell(Difference {
                            offset: range.start + block,
                            mirrors: mirrors.collect(),
                        });
                    }
                }
            }
        }
        Ok(compared)
    }
}

fn copy_of(candidate: &Candidate) -> Copy {
    match &candidate.bytes {
        None if candidate.present => Copy::Unreadable,
        None => Copy::Missing,
        Some(_) if candidate.stored == checksum::UNKNOWN => Copy::Unverified,
        Some(bytes) if checksum::of_block(bytes) == candidate.stored => Copy::Right,
        Some(_) => Copy::Wrong,
    }
}

/// Why a file could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the copied catalog: {0}")]
    Catalog(#[from] rusqlite::Error),
    #[error("{0}")]
    Put(#[from] io::Error),
}

/// Adds a range; adjacent ranges of one kind are one.
fn note(troubles: &mut Vec<TroubledRange>, new: TroubledRange) {
    match troubles.last_mut() {
        Some(last)
            if last.trouble == new.trouble
                && last.disks == new.disks
                && last.range.end == new.range.start =>
        {
            last.range.end = new.range.end;
        }
        _ => troubles.push(new),
    }
}

/// Whether a name can be one of a file: a damaged catalog may have others.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
}

/// The path of a name, if its directories lead to the root.
fn path_of(
    names: &BTreeMap<Node, Vec<(Node, Vec<u8>)>>,
    mut parent: Node,
    name: &[u8],
) -> Option<Vec<u8>> {
    let mut parts = vec![name];
    while parent != ROOT {
        let (above, name) = names.get(&parent)?.first()?;
        parts.push(name);
        parent = *above;
        if parts.len() > DEPTH_MAX {
            return None;
        }
    }
    if !parts.iter().all(|part| is_name(part)) {
        return None;
    }
    parts.reverse();
    Some(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(fill: u8, stored: Option<u8>, current: bool) -> Candidate {
        let stored =
            stored.map_or(checksum::UNKNOWN, |fill| checksum::of_block(&[fill; BLOCK_SIZE]));
        Candidate { bytes: Some(vec![fill; BLOCK_SIZE]), stored, current, present: true }
    }

    fn gone(current: bool, present: bool) -> Candidate {
        Candidate { bytes: None, stored: checksum::UNKNOWN, current, present }
    }

    /// Each row of the table at the top.
    #[test]
    fn the_mirror_that_is_right_is_taken() {
        use Trouble::*;
        for (candidates, active, expected) in [
            (vec![block(1, Some(1), true), block(2, Some(1), true)], false, (Some(0), None)),
            (vec![block(2, Some(1), true), block(1, Some(1), true)], false, (Some(1), None)),
            (vec![block(1, Some(2), true), block(2, None, true)], false, (Some(1), None)),
            (
                vec![block(1, Some(3), true), block(2, Some(4), true)],
                true,
                (Some(0), Some(Unverified)),
            ),
            (vec![block(1, None, true)], false, (Some(0), Some(Unverified))),
            (vec![block(1, Some(3), true), block(1, Some(3), true)], false, (Some(0), None)),
            (vec![block(1, Some(3), true)], false, (None, Some(Damaged))),
            (vec![block(1, Some(3), true), block(2, Some(2), false)], false, (None, Some(Damaged))),
            (vec![gone(true, true), block(2, Some(2), false)], false, (Some(1), Some(Old))),
            (vec![gone(true, false), block(2, Some(3), false)], false, (None, Some(Damaged))),
            (vec![gone(true, true), gone(false, false)], false, (None, Some(Damaged))),
            (vec![gone(true, false), gone(false, false)], false, (None, Some(Missing))),
            (vec![], false, (None, Some(Missing))),
        ] {
            assert_eq!(decide(&candidates, active), expected);
        }
    }
}
