//! An extent in memory, and its row in the catalog.
//!
//! An extent is one AU on each of one to three disks. Its row says where the mirrors are and which
//! pieces hold data; its checksums come from the checksum zone when they are first needed.
//!
//! A piece is in one of three states:
//!
//! ```text
//!   empty --data written, commit--> pending --flush, durable commit--> written
//!     ^                                |                                  |
//!     +------ hole punched, or (pending only) power lost before the flush-+
//! ```
//!
//! `pending` counts as data as long as the host keeps its memory: a killed engine loses nothing
//! that was acknowledged. After a loss of power it reads as zeros, because it is unknown whether
//! the data or an earlier owner's bytes are there. A failed flush covers nothing, and no later one
//! makes up for it (`failed_flush.rs`).
//!
//! Invariants:
//!
//!   1. The checksums in memory are the truth while the extent's region is active; elsewhere they
//!      are a copy of the zone. They are dropped only when they are not dirty.
//!   2. Marks change only inside catalog jobs, so memory and catalog agree in order. So do mirrors.

pub mod activity;
pub(crate) mod blocks;
pub(crate) mod catalog_mirrors;
mod check_data;
pub(crate) mod copy;
pub mod data;
pub(crate) mod discard_pace;
pub(crate) mod discards;
mod disk_failure;
pub(crate) mod disk_health;
pub(crate) mod disputes;
pub mod failed_flush;
pub(crate) mod latency_probe;
pub(crate) mod layout;
pub mod log_detector;
pub(crate) mod move_waits;
pub(crate) mod own_headers;
pub(crate) mod own_metadata;
pub(crate) mod partial_blocks;
pub(crate) mod preferred;
pub(crate) mod reclaim;
pub(crate) mod recovery;
pub(crate) mod repairs;
pub(crate) mod scope;
pub(crate) mod stale;
pub(crate) mod thin;
pub(crate) mod throttle;

mod marks;
mod places;
mod sums;

use crate::{
    catalog::tables::{
        self,
        extent::{ExtentRow, MarksRow, NewExtent},
    },
    extent::{activity::Gate, blocks::BLOCKS_PER_PIECE},
    planted::{self, Bug},
    reached::{self, Mark},
    space::{extent_id::ExtentId, mirror_sets::MirrorCount},
    sync::{
        bits::Bits,
        lock::{Mutex, MutexGuard},
        ranges::{RangeGuard, Ranges},
    },
};
use arc_swap::{ArcSwapOption, Guard};
use marks::Marks;
pub use places::{Change, Mirror, Mirrors};
use places::{Changed, Placed};
use plinth_format::{Block, DiskNumber, Piece, checksum::UNKNOWN};
use rusqlite::Connection;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut, Range},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
pub use sums::{Sums, Zones};

/// The part of an extent that changes under one lock.
#[derive(Debug, Default)]
pub struct State {
    /// Pieces whose data was flushed before the mark was committed.
    pub written: Bits,
    /// Pieces whose data was written but perhaps not flushed.
    pub pending: Bits,
    /// Pending pieces that a failed flush may have lost: no later flush covers them as they are
    /// (`failed_flush.rs`).
    pub uncertain: Bits,
}

/// An extent. See the module's description.
#[derive(Debug)]
pub struct Extent {
    pub id: ExtentId,
    /// The file it belongs to; 0 for a shared extent.
    pub file: u64,
    /// Its place in the file; the id for a shared extent.
    pub number: u64,
    /// Mirrors that its file asks for.
    pub own: MirrorCount,
    places: Placed,
    pub ranges: Ranges,
    state: Mutex<State>,
    marks: Marks,
    sums: ArcSwapOption<Sums>,
    /// That of its region, when it was last written.
    gate: ArcSwapOption<Gate>,
    /// The zone must be rewritten before the region may be released.
    dirty: AtomicBool,
    /// Its AUs were freed: nothing may be written to them on its behalf.
    tombstones: AtomicBool,
    /// How often pieces of it have lost their marks.
    losses: AtomicU64,
    /// For the sweep that drops checksums: when they were last needed.
    pub last_used: AtomicU64,
    /// How often it was read through, and where the last read began: see [`Self::pass`].
    reads: AtomicU64,
}

/// The lock on an extent's state. The marks are published when it is dropped.
pub struct StateGuard<'a> {
    state: MutexGuard<'a, State>,
    marks: &'a Marks,
    changed: bool,
}

impl Deref for StateGuard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for StateGuard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.changed = true;
        &mut self.state
    }
}

impl Drop for StateGuard<'_> {
    fn drop(&mut self) {
        if self.changed {
            self.marks.set(&self.state);
        }
    }
}

impl Extent {
    #[must_use]
    pub fn new(id: ExtentId, file: u64, number: u64, mirrors: &[Mirror]) -> Self {
        Self {
            id,
            file,
            number,
            own: MirrorCount::AsGroup,
            places: Placed::new(mirrors),
            ranges: Ranges::default(),
            state: Mutex::default(),
            marks: Marks::default(),
            sums: ArcSwapOption::empty(),
            gate: ArcSwapOption::empty(),
            dirty: AtomicBool::new(false),
            tombstones: AtomicBool::new(false),
            losses: AtomicU64::new(0),
            last_used: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        }
    }

    /// The same, of a file that asks for mirrors of its own.
    #[must_use]
    pub fn asking_for(self, own: MirrorCount) -> Self {
        Self { own, ..self }
    }

    /// Counts how often reads went through the extent: a read that does not begin behind the one
    /// before it begins another pass. Each pass takes the next mirror, so that repeated reads of a
    /// block meet its other mirrors, and find what has rotted there.
    pub fn pass(&self, block: Block) -> usize {
        let block = block.0 as u64 & u64::from(u32::MAX);
        let reads = self.reads.load(Ordering::Relaxed);
        let (pass, last) = (reads >> 32, reads & u64::from(u32::MAX));
        // Of two that count at once one may go unnoticed.
        let pass = if block <= last { (pass + 1) & u64::from(u32::MAX) } else { pass };
        self.reads.store(pass << 32 | block, Ordering::Relaxed);
        pass as usize
    }

    /// The state, locked. Changed marks become visible when the lock is released.
    pub fn state(&self) -> StateGuard<'_> {
        StateGuard { state: self.state.lock(), marks: &self.marks, changed: false }
    }

    /// The gate of its region, if that was known before: the region may not be there any more.
    pub(crate) fn gate(&self) -> Guard<Option<Arc<Gate>>> {
        self.gate.load()
    }

    pub(crate) fn set_gate(&self, gate: &Arc<Gate>) {
        self.gate.store(Some(Arc::clone(gate)));
    }

    /// Its checksums, if they are in memory.
    #[must_use]
    pub fn sums(&self) -> Guard<Option<Arc<Sums>>> {
        self.sums.load()
    }

    #[must_use]
    pub fn has_sums(&self) -> bool {
        self.sums().is_some()
    }

    /// Its checksums are loaded. The state is locked, so that no other task loads them.
    pub fn set_loaded(&self, _state: &StateGuard<'_>, sums: Sums) {
        self.sums.store(Some(Arc::new(sums)));
    }

    /// Drops its checksums if they are not dirty. Their whole range is held exclusively. They stay
    /// if `is_needed` says that a task has come to need them.
    pub fn drop_sums(&self, _state: &StateGuard<'_>, is_needed: impl FnOnce() -> bool) {
        let sums = self.sums.swap(None);
        // Called after the swap: a task that came earlier, without holding the range, may have
        // found them.
        if (self.is_dirty() || is_needed()) && !planted::has(Bug::DirtySumsDropped) {
            self.sums.store(sums);
        }
    }

    /// Whether the zone must be rewritten before the region may be released.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::SeqCst)
    }

    /// The zone of some mirror lacks something.
    pub fn mark_dirty(&self) {
        if !self.dirty.load(Ordering::Relaxed) {
            self.dirty.store(true, Ordering::SeqCst);
        }
    }

    /// The zones of all mirrors have every checksum, durably, and none has changed meanwhile.
    /// `zones`: which zones these are, if they were written.
    pub fn mark_sums_stored(&self, zones: impl FnOnce() -> Zones) {
        if let Some(sums) = &*self.sums() {
            sums.mark_stored();
            if self.is_dirty() {
                // A zone that keeps something of its own has not all.
                sums.note_stored_in((!sums.zones_keep_own()).then(zones));
            }
        }
        self.dirty.store(false, Ordering::SeqCst);
    }

    /// The zone of some mirror has not what was written there: that is known until all are written
    /// again.
    pub fn mark_zones_wrong(&self) {
        if let Some(sums) = &*self.sums() {
            sums.note_stored_in(None);
        }
    }

    /// Remembers the checksums of blocks from `first` on, as just written. Their range is held
    /// exclusively.
    pub fn set_sums(&self, first: Block, sums: &[u32]) {
        if let Some(all) = &*self.sums() {
            (first.0..).zip(sums).for_each(|(block, sum)| all.set(Block(block), *sum));
            self.mark_dirty();
        }
    }

    /// Zones have two checksums of a block that was not written since: reads use this one.
    pub fn prefer_sum(&self, block: Block, sum: u32) {
        if let Some(all) = &*self.sums() {
            all.prefer(block, sum);
        }
    }

    /// The checksums of blocks are right, as far as they are known: every zone is to have them.
    pub fn mark_proved(&self, blocks: Range<usize>) {
        if let Some(all) = &*self.sums() {
            all.mark_proved(blocks);
            self.mark_dirty();
        }
    }

    /// The content of the blocks is unknown: a write failed half way. Their range is held
    /// exclusively.
    pub fn forget_sums(&self, first: Block, count: usize) {
        if let Some(all) = &*self.sums() {
            (first.0..first.0 + count).for_each(|block| all.set(Block(block), UNKNOWN));
            self.mark_dirty();
        }
    }

    /// The place of a mirror, in words.
    #[must_use]
    pub fn place_of(&self, mirror: Mirror) -> String {
        format!("AU {}, extent {} of file {}", mirror.au, self.number, self.file)
    }

    /// Where its mirrors are now.
    #[must_use]
    pub fn mirrors(&self) -> Mirrors {
        self.places.look().0
    }

    /// The place that is written with the mirrors and never read: where a mirror moves to, or has
    /// just moved from.
    #[must_use]
    pub fn target(&self) -> Option<Mirror> {
        self.places.look().1
    }

    /// All places that are written: the mirrors, and the target. They are read together: read one
    /// after the other, one could be missing while a mirror moves.
    #[must_use]
    pub fn places(&self) -> (Mirrors, Option<Mirror>) {
        self.places.look()
    }

    /// Grows whenever a mirror has moved.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.places.lock().moves
    }

    /// Begins a move: writes from now on go to this place as well. False: another move is in
    /// flight.
    #[must_use]
    pub fn add_target(&self, target: Mirror) -> bool {
        let mut places = self.places.lock();
        let is_free = places.target.is_none();
        if is_free {
            places.target = Some(target);
            places.arriving = true;
        }
        is_free
    }

    /// The mirrors as they will be after a change. `None`: it cannot be made, see
    /// [`Places::after`].
    #[must_use]
    pub fn after(&self, change: Change) -> Option<Mirrors> {
        self.places.lock().after(change).map(|(next, _)| next)
    }

    /// Makes a change. Returns what was; `None`: it cannot be made, and nothing is changed.
    fn change(&self, change: Change) -> Option<Changed> {
        let mut places = self.places.lock();
        let (next, old) = places.after(change)?;
        let before = (places.mirrors, places.target, places.arriving);
        (places.mirrors, places.target, places.arriving) = (next, old, false);
        places.moves += 1;
        Some(Changed { old, before })
    }

    /// Undoes [`Self::change`] when the row did not take it: every place was written meanwhile.
    fn change_back(&self, changed: &Changed) {
        let mut places = self.places.lock();
        (places.mirrors, places.target, places.arriving) = changed.before;
        places.moves += 1;
    }

    /// Writes that begin from now on no longer go to this place.
    pub fn remove_target(&self, target: Mirror) {
        let mut places = self.places.lock();
        if places.target == Some(target) {
            places.target = None;
        }
    }

    /// Ends a move that cannot go on. False: this is not the target, or the mirror has moved
    /// already.
    #[must_use]
    pub fn cancel_target(&self, target: Mirror) -> bool {
        let mut places = self.places.lock();
        let arrives = places.arriving && places.target == Some(target);
        if arrives {
            reached::at(Mark::GuestTurnedAway);
            places.target = None;
        }
        arrives
    }

    /// Whether something is written there on its behalf.
    #[must_use]
    pub fn is_at(&self, mirror: Mirror) -> bool {
        let (mirrors, target) = self.places.look();
        target == Some(mirror) || mirrors.contains(&mirror)
    }

    /// Its row was deleted: a task that gets a range from now on must write nothing.
    pub fn set_tombstone(&self) {
        self.tombstones.store(true, Ordering::Release);
    }

    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.tombstones.load(Ordering::Acquire)
    }

    /// Whether a piece holds data.
    #[must_use]
    pub fn has_piece(&self, piece: Piece) -> bool {
        self.marks.has(piece)
    }

    /// Of some blocks, those in pieces that hold data, as runs. That stays so as long as the caller
    /// holds the range of these blocks.
    #[must_use]
    pub fn data_in(&self, blocks: &Range<usize>) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let pieces = blocks.start / BLOCKS_PER_PIECE..blocks.end.div_ceil(BLOCKS_PER_PIECE);
        for piece in pieces.map(Piece).filter(|piece| self.has_piece(*piece)) {
            let part = piece.blocks();
            let part = part.start.max(blocks.start)..part.end.min(blocks.end);
            match runs.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => runs.push(part),
            }
        }
        runs
    }

    /// Whether all of these blocks are in pieces that hold data.
    #[must_use]
    pub fn is_data(&self, blocks: &Range<usize>) -> bool {
        (blocks.start / BLOCKS_PER_PIECE..blocks.end.div_ceil(BLOCKS_PER_PIECE))
            .all(|piece| self.has_piece(Piece(piece)))
    }

    /// Holds the blocks of the first run of pieces in `within` that hold data, `most` of them at
    /// most. `None`: no piece does. While the caller waits for the range, data may become a hole,
    /// and a discard may leave any bytes there.
    pub async fn hold_data(
        &self,
        mut within: Range<usize>,
        most: usize,
        exclusive: bool,
    ) -> Option<(RangeGuard<'_>, Range<usize>)> {
        loop {
            let run = self.state().run(within.clone(), most)?;
            let blocks = run.start * BLOCKS_PER_PIECE..run.end * BLOCKS_PER_PIECE;
            let held = self.ranges.hold(blocks.clone(), exclusive).await;
            if self.is_data(&blocks) {
                return Some((held, run));
            }
            reached::at(Mark::HoleMet);
            within.start = run.start;
        }
    }

    /// How often pieces of it have lost their marks, by jobs that may not be durable. It counts
    /// from when the extent came into memory: a caller that compares two values keeps it there.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    pub fn disks(&self) -> impl Iterator<Item = DiskNumber> + use<> {
        self.mirrors().into_iter().map(|mirror| mirror.disk)
    }
}

impl State {
    #[must_use]
    pub fn has(&self, piece: Piece) -> bool {
        self.written.has(piece) || self.pending.has(piece)
    }

    /// Pending pieces that a good flush covers.
    #[must_use]
    pub fn flushable(&self) -> Bits {
        let mut pieces = self.pending.clone();
        self.uncertain.iter().for_each(|piece| pieces.remove(piece));
        pieces
    }

    /// The first run of pieces in `within` that hold data, cut to `most` of them.
    #[must_use]
    pub fn run(&self, within: Range<usize>, most: usize) -> Option<Range<usize>> {
        let first = within.clone().find(|piece| self.has(Piece(*piece)))?;
        let end = (first..within.end.min(first + most))
            .take_while(|piece| self.has(Piece(*piece)))
            .last()?
            + 1;
        Some(first..end)
    }

    /// All pieces that hold data.
    #[must_use]
    pub fn marked(&self) -> Bits {
        let mut marked = self.written.clone();
        marked.add_all(&self.pending);
        marked
    }
}

impl From<ExtentRow> for Extent {
    fn from(row: ExtentRow) -> Self {
        let NewExtent { id, file, number, mirrors, own } = row.extent;
        let extent = Self::new(ExtentId(id), file, number, &mirrors).asking_for(own);
        {
            let mut state = extent.state();
            state.written = row.marks.written;
            state.pending = row.marks.pending;
        }
        extent
    }
}

/// Reads one extent's row.
///
/// # Errors
/// The catalog's.
pub fn load(connection: &Connection, id: ExtentId) -> rusqlite::Result<Option<Extent>> {
    Ok(tables::extent::load(connection, id.0)?.map(Extent::from))
}

/// Writes a new extent's row.
///
/// # Errors
/// The catalog's.
pub fn insert(connection: &Connection, extent: &Extent) -> rusqlite::Result<()> {
    let new = NewExtent {
        id: extent.id.0,
        file: extent.file,
        number: extent.number,
        mirrors: extent.mirrors(),
        own: extent.own,
    };
    tables::extent::insert(connection, &new)
}

/// Extents whose rows a job has deleted. The last act of the job is [`Self::remove_from`].
#[must_use]
#[derive(Debug)]
pub struct Deleted(Vec<Arc<Extent>>);

/// Deletes the rows of extents, inside a job.
///
/// # Errors
/// The catalog's.
pub fn delete<'a>(
    connection: &Connection,
    extents: impl IntoIterator<Item = &'a Arc<Extent>>,
) -> rusqlite::Result<Deleted> {
    let extents: Vec<_> = extents.into_iter().cloned().collect();
    extents.iter().try_for_each(|extent| tables::extent::delete(connection, extent.id.0))?;
    Ok(Deleted(extents))
}

impl Deleted {
    /// Nothing is written to these extents any more, and they are not found in memory.
    pub fn remove_from(self, extents: &Extents) {
        for extent in self.0 {
            extent.set_tombstone();
            extents.remove(extent.id);
        }
    }
}

/// Changes the mirrors of an extent inside a job, and returns the place that is no mirror any more.
/// Memory changes first, because the target may be cancelled at any time before. `None`: it was
/// cancelled, or the change cannot be made, and nothing has changed.
///
/// # Errors
/// The catalog's; nothing has changed.
pub fn change_mirrors(
    connection: &Connection,
    extent: &Extent,
    change: Change,
) -> rusqlite::Result<Option<Option<Mirror>>> {
    let Some(changed) = extent.change(change) else { return Ok(None) };
    tables::extent::set_mirrors(connection, extent.id.0, &extent.mirrors())
        .inspect_err(|_| extent.change_back(&changed))?;
    Ok(Some(changed.old))
}

/// Changes an extent's marks inside a job: the row first, then memory, which stays as
/// it was if the row cannot be written.
///
/// # Errors
/// The catalog's.
pub fn change_marks(
    connection: &Connection,
    extent: &Extent,
    change: impl FnOnce(&mut Bits, &mut Bits),
) -> rusqlite::Result<()> {
    let mut marks = {
        let state = extent.state();
        MarksRow { written: state.written.clone(), pending: state.pending.clone() }
    };
    change(&mut marks.written, &mut marks.pending);
    tables::extent::mark(connection, extent.id.0, &marks)?;
    let MarksRow { written, pending } = marks;
    let mut state = extent.state();
    if state
        .written
        .iter()
        .chain(state.pending.iter())
        .any(|piece| !written.has(piece) && !pending.has(piece))
    {
        extent.losses.fetch_add(1, Ordering::AcqRel);
    }
    let resolved: Vec<Piece> =
        state.uncertain.iter().filter(|piece| !pending.has(*piece)).collect();
    resolved.into_iter().for_each(|piece| state.uncertain.remove(piece));
    state.written = written;
    state.pending = pending;
    Ok(())
}

/// After an unclean stop: pending pieces are written (`kept`) or hold nothing.
///
/// # Errors
/// The catalog's.
pub fn resolve_pending(connection: &Connection, kept: bool) -> Result<(), crate::error::FileError> {
    if !kept {
        return Ok(tables::extent::clear_pending(connection)?);
    }
    let rows = tables::extent::with_pending(connection)?;
    for extent in rows.into_iter().map(Extent::from) {
        change_marks(connection, &extent, |written, pending| {
            written.add_all(pending);
            *pending = Bits::default();
        })?;
    }
    Ok(())
}

/// The extents in memory, by id.
///
/// A deleted extent leaves a tombstone here until no reader can find its row any more. Without it,
/// a reader of rows in a snapshot could put a second extent into memory, whose locks do not exclude
/// the first one's I/O, before the AUs have another owner (R8).
#[derive(Debug, Default)]
pub struct Extents(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    alive: BTreeMap<ExtentId, Arc<Extent>>,
    tombstones: BTreeSet<ExtentId>,
    /// Tombstones that go when no snapshot is open: their commits are durable.
    old: BTreeSet<ExtentId>,
    /// Extents whose row has changed while a snapshot was open: they stay in memory until none is.
    moved: Vec<Arc<Extent>>,
    snapshots: u64,
}

/// A look at rows in a snapshot.
#[derive(Debug)]
pub struct SnapshotReader<'a>(&'a Extents);

impl SnapshotReader<'_> {
    /// The extent in memory for a row of the snapshot. `None`: it was deleted.
    #[must_use]
    pub fn get_or_insert(&self, extent: Extent) -> Option<Arc<Extent>> {
        let mut table = self.0.table();
        let is_tombstone = table.tombstones.contains(&extent.id);
        (!is_tombstone)
            .then(|| Arc::clone(table.alive.entry(extent.id).or_insert_with(|| Arc::new(extent))))
    }
}

impl Drop for SnapshotReader<'_> {
    fn drop(&mut self) {
        let mut table = self.0.table();
        table.snapshots -= 1;
        if table.snapshots == 0 {
            let Table { tombstones, old, moved, .. } = &mut *table;
            old.iter().for_each(|id| _ = tombstones.remove(id));
            old.clear();
            moved.clear();
        }
    }
}

impl Extents {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock()
    }

    /// Begins to look at rows in a snapshot that is not older than now.
    pub fn snapshot(&self) -> SnapshotReader<'_> {
        self.table().snapshots += 1;
        SnapshotReader(self)
    }

    /// Snapshots that open from now on do not find the rows of these extents any more.
    pub fn expire_tombstones(&self, ids: impl Iterator<Item = ExtentId>) {
        let mut table = self.table();
        for id in ids {
            if table.snapshots == 0 {
                table.tombstones.remove(&id);
            } else {
                table.old.insert(id);
            }
        }
    }

    /// A mirror of the extent is elsewhere now, durably. A reader that has read its row before must
    /// find it in memory: else it would insert one with the old place. Until now another task held
    /// it.
    pub fn note_moved(&self, extent: &Arc<Extent>) {
        let mut table = self.table();
        if table.snapshots > 0 {
            table.moved.push(Arc::clone(extent));
        }
    }

    #[must_use]
    pub fn get(&self, id: ExtentId) -> Option<Arc<Extent>> {
        self.table().alive.get(&id).cloned()
    }

    /// The extent in memory with this one's id; this one, if there is none yet.
    pub fn get_or_insert(&self, extent: Extent) -> Arc<Extent> {
        Arc::clone(self.table().alive.entry(extent.id).or_insert_with(|| Arc::new(extent)))
    }

    /// Inserts a new extent: the last act of the job that inserts its row. A reader that found the
    /// row first would put a second extent into memory, with locks and checksums of its own.
    pub fn insert(&self, extent: &Arc<Extent>) {
        self.table().alive.insert(extent.id, Arc::clone(extent));
    }

    /// It is deleted, by a job that may not be committed yet.
    pub fn remove(&self, id: ExtentId) {
        let mut table = self.table();
        table.alive.remove(&id);
        table.tombstones.insert(id);
    }

    /// Those with ids in a run.
    #[must_use]
    pub fn in_run(&self, first: u64, count: u64) -> Vec<Arc<Extent>> {
        self.table()
            .alive
            .range(ExtentId(first)..ExtentId(first.saturating_add(count)))
            .map(|(_, extent)| Arc::clone(extent))
            .collect()
    }

    #[must_use]
    pub fn all(&self) -> Vec<Arc<Extent>> {
        self.table().alive.values().cloned().collect()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.table().alive.len()
    }

    /// Drops extents that no task holds and that are not dirty.
    pub fn trim(&self) {
        self.table().alive.retain(|_, extent| Arc::strong_count(extent) > 1 || extent.is_dirty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plinth_format::Au;

    fn extent() -> Extent {
        Extent::new(ExtentId(7), 300, 0, &[])
    }

    #[test]
    fn a_range_held_after_a_wait_has_data_and_no_hole() {
        use futures::FutureExt;
        let extent = extent();
        [2, 3, 4, 6].map(Piece).into_iter().for_each(|piece| extent.state().written.add(piece));
        let begin = |within, most| {
            let (_held, run) =
                extent.hold_data(within, most, true).now_or_never().expect("free")?;
            Some(run)
        };
        assert_eq!(begin(0..16, 16), Some(2..5));
        assert_eq!(begin(0..16, 2), Some(2..4));
        assert_eq!(begin(7..16, 2), None);
        let blocks =
            |pieces: Range<usize>| pieces.start * BLOCKS_PER_PIECE..pieces.end * BLOCKS_PER_PIECE;
        assert_eq!(
            extent.data_in(&(40..blocks(0..7).end - 3)),
            [40..blocks(2..5).end, blocks(6..7).start..blocks(6..7).end - 3]
        );
        let held = extent.ranges.hold(blocks(3..4), true).now_or_never().expect("free");
        let mut waits = std::pin::pin!(extent.hold_data(0..16, 16, false));
        assert!(waits.as_mut().now_or_never().is_none());
        extent.state().written.remove(Piece(2));
        drop(held);
        let (_held, run) = waits.now_or_never().expect("free").expect("data");
        assert_eq!(run, 3..5);
    }

    /// A write that fails on the new place cancels the target, at any moment: the row must not name
    /// it then.
    #[test]
    fn a_target_cancelled_while_its_row_is_written_is_a_mirror_or_is_not() {
        let at = |disk, au| Mirror { disk: DiskNumber(disk), au: Au(au) };
        let mut connection = Connection::open_in_memory().expect("in memory");
        tables::extent::create_table(&connection);
        let extent = Arc::new(Extent::new(ExtentId(7), 300, 0, &[at(0, 11), at(1, 11)]));
        insert(&connection, &extent).expect("a row");
        let target = at(2, 11);
        assert!(extent.add_target(target));
        let writer = Arc::clone(&extent);
        connection
            .update_hook(Some(move |_, _: &str, _: &str, _| _ = writer.cancel_target(target)))
            .expect("a hook");
        let change = Change::Move { target, from: DiskNumber(1) };
        let old = change_mirrors(&connection, &extent, change)
            .expect("the catalog takes it")
            .expect("it is there");
        let row = load(&connection, ExtentId(7)).expect("read").expect("there");
        assert_eq!(*row.mirrors(), *extent.mirrors());
        assert_eq!(old, Some(at(1, 11)));
        assert_eq!(extent.target(), old, "written until the commit is durable");

        let target = at(3, 11);
        extent.remove_target(at(1, 11));
        assert!(extent.add_target(target));
        connection.execute_batch("ALTER TABLE extent RENAME TO gone").expect("no table");
        let changes = [Change::Move { target, from: DiskNumber(0) }, Change::Add { target }];
        for change in changes {
            assert!(change_mirrors(&connection, &extent, change).is_err());
            assert_eq!(*extent.mirrors(), [at(0, 11), at(2, 11)]);
        }
        assert!(extent.cancel_target(target), "it is a target that arrives, as before");
        assert!(
            change_mirrors(&connection, &extent, Change::Remove { from: DiskNumber(2) }).is_err()
        );
        assert_eq!(
            (extent.mirrors(), extent.target()),
            (Mirrors::new(&[at(0, 11), at(2, 11)]), None)
        );
    }

    #[test]
    fn mirrors_are_added_and_removed_one_at_a_time_and_never_the_last() {
        let at = |disk| Mirror { disk: DiskNumber(disk), au: Au(11) };
        let extent = Extent::new(ExtentId(7), 300, 0, &[at(0), at(1)]);
        assert_eq!(extent.after(Change::Add { target: at(2) }), None, "it is not the target");
        assert!(extent.add_target(at(2)));
        assert_eq!(
            extent.after(Change::Remove { from: DiskNumber(0) }),
            None,
            "another change is under way"
        );
        assert!(
            extent
                .change(Change::Add { target: at(2) })
                .is_some_and(|changed| changed.old.is_none())
        );
        assert_eq!(
            (extent.mirrors(), extent.target()),
            (Mirrors::new(&[at(0), at(1), at(2)]), None)
        );
        assert!(extent.add_target(at(3)));
        assert_eq!(
            extent.after(Change::Add { target: at(3) }),
            None,
            "there are as many as there can be"
        );
        assert!(extent.cancel_target(at(3)));
        for (from, left) in [(1, vec![at(0), at(2)]), (0, vec![at(2)])] {
            let changed =
                extent.change(Change::Remove { from: DiskNumber(from) }).expect("it is there");
            assert_eq!(
                (extent.mirrors().to_vec(), extent.target()),
                (left, changed.old),
                "written until that is durable"
            );
            extent.remove_target(at(from));
        }
        assert_eq!(
            extent.after(Change::Remove { from: DiskNumber(2) }),
            None,
            "it is the last one"
        );
    }

    #[test]
    fn a_deleted_extent_is_not_inserted_from_an_old_snapshot() {
        let extents = Extents::default();
        let first = extents.get_or_insert(extent());
        let before = extents.snapshot();
        extents.remove(ExtentId(7));
        let after = extents.snapshot();
        assert!(before.get_or_insert(extent()).is_none());
        assert!(
            after.get_or_insert(extent()).is_none(),
            "the commit may not be in the snapshot yet"
        );
        extents.expire_tombstones([ExtentId(7)].into_iter());
        drop(after);
        assert!(before.get_or_insert(extent()).is_none(), "its snapshot is as old as it was");
        drop(before);
        assert_eq!((Arc::strong_count(&first), extents.count()), (1, 0));
        assert!(extents.table().tombstones.is_empty(), "no tombstone is kept for ever");
    }

    #[test]
    fn a_reader_of_an_old_snapshot_gets_the_extent_with_its_new_places() {
        let extents = Extents::default();
        let before = extents.snapshot();
        extents.note_moved(&extents.get_or_insert(extent()));
        extents.trim();
        assert_eq!(extents.count(), 1, "somebody may have read its old row");
        drop(before);
        extents.trim();
        assert_eq!(extents.count(), 0);
        extents.note_moved(&extents.get_or_insert(extent()));
        extents.trim();
        assert_eq!(extents.count(), 0, "no snapshot is open");
    }

    #[test]
    fn tombstones_go_at_once_when_no_snapshot_is_open() {
        let extents = Extents::default();
        let looked = extents.snapshot().get_or_insert(extent()).expect("it is alive");
        assert!(Arc::ptr_eq(&looked, &extents.get(ExtentId(7)).expect("in memory")));
        extents.remove(ExtentId(7));
        extents.expire_tombstones([ExtentId(7)].into_iter());
        assert!(extents.table().tombstones.is_empty());
    }
}
