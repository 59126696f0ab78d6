//! Where a file's bytes are: its extents, or its slot in a shared extent.
//!
//! A file that fits into a piece (64 KiB) lives in one slot of a shared extent, an
//! ordinary extent that belongs to file 0. The first write that goes further
//! promotes it: an extent of its own is allocated, the slot's bytes are copied,
//! and one commit switches over. A crash before that commit leaves the slot in
//! charge and an extent that the commit never named, so its AUs are free again. Bytes that were
//! synced are flushed in their new place before that commit, and written there from the first.
//!
//! A commit that fails with the catalog may be on the disks all the same: only the next mount finds out. What it names stays taken until
//! then (`unallocate_refused`), and a file whose places or marks it changed is neither written nor read where it shows a hole (`note_doubt`).
//!
//! The layout is read-locked by reads and writes of the file, and write-locked by what
//! changes it: allocation, promotion, truncation, holes.

use crate::{
    error::FileError,
    extent::{
        self, Extent, Extents, Mirror,
        doubt::{Doubt, Unsynced},
        habit::Habit,
        reclaim::{ALLOCATED_AT_ONCE, Freeing},
    },
    files::{self, File, file_io::FILE_SIZE_MAX, file_stats::FileStats},
    group::Group,
    planted::{self, Bug},
    reached::{self, Mark},
    space::{coming::Release, stripes::Stripes},
    sync::{
        latch::{Latch, ReadGuard},
        transfer::Source,
    },
};
use plinth_format::layout::PIECE_SIZE;
use rusqlite::{Connection, OptionalExtension, params};
use smallvec::SmallVec;
use std::{
    borrow::Cow,
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// A slot of a shared extent.
#[derive(Debug, Clone)]
pub struct Slot {
    pub extent: Arc<Extent>,
    /// Its piece.
    pub piece: usize,
}

/// Where a file's bytes are.
#[derive(Debug, Default)]
pub struct Layout {
    pub loaded: bool,
    pub slot: Option<Slot>,
    /// By number; what is missing is a hole.
    pub extents: BTreeMap<u64, Arc<Extent>>,
    /// In chunks over several extents.
    pub fine: bool,
}

/// A file's data, as the data path sees it.
#[derive(Debug, Default)]
pub struct FileData {
    pub layout: Latch<Layout>,
    /// Between the file's end and the end of its last piece there are zeros. Not so where a write did not come to a good
    /// end: its bytes may be there, and its size not. Nobody knows after a mount.
    tail_is_clean: AtomicBool,
    /// A commit of its marks or places failed with the catalog: the next mount finds what was, or what was to be.
    in_doubt: AtomicBool,
    pub unsynced: Unsynced,
    pub habit: Habit,
}

impl FileData {
    /// A write beyond the file's end failed.
    pub fn soil_tail(&self) {
        self.tail_is_clean.store(false, Ordering::Release);
    }

    pub fn has_clean_tail(&self) -> bool {
        self.tail_is_clean.load(Ordering::Acquire) || planted::has(Bug::TailBelievedClean)
    }

    /// Whether what is written to it now may be missing after the next mount, and what seems to be a hole may be none. To be asked by who has the
    /// range of blocks that he writes, or has read: whoever failed had it until he said so here.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Acquire)
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

/// A slot that a commit freed.
#[derive(Debug)]
pub struct FreedSlot {
    /// The shared extent's id.
    pub extent: u64,
    pub piece: usize,
    /// The file that is removed: somebody may still be reading or writing it. `None`: nobody is.
    pub of: Option<Arc<File>>,
}

impl FreedSlot {
    /// Takes it from the file. False: somebody reads or writes the file now.
    pub fn is_left(&self) -> bool {
        let Some(file) = &self.of else { return true };
        let Some(mut layout) = file.data.layout.try_write() else { return false };
        if let Some(slot) = &mut layout.slot {
            // Whoever comes later finds what an extent that was deleted has.
            let grave = Extent::new(slot.extent.id, file.node, 0, &slot.extent.mirrors());
            grave.bury();
            slot.extent = Arc::new(grave);
        }
        true
    }
}

/// A part of a request that lies in one extent.
#[derive(Debug, Clone)]
pub struct Part {
    pub extent: Option<Arc<Extent>>,
    /// Bytes of the extent.
    pub inside: Range<u64>,
    /// Bytes of the request: the first, and where the file is striped those that follow.
    pub range: Range<usize>,
    pub more: Vec<Range<usize>>,
}

impl Part {
    /// Bytes of the request, in the order in which the extent has them.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        std::iter::once(self.range.clone()).chain(self.more.iter().cloned())
    }

    /// What of a request's bytes goes into the extent.
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
pub type Parts = SmallVec<[Part; 2]>;

/// What the files ask of the data path.
pub struct Releaser {
    pub extents: Arc<Extents>,
    pub freeing: Arc<Freeing>,
    pub doubt: Arc<Doubt>,
    pub stats: Arc<FileStats>,
}

impl files::Data for Releaser {
    fn release(
        &self,
        connection: &Connection,
        node: u64,
        file: Option<Arc<File>>,
    ) -> Result<files::Released, FileError> {
        let release = self.freeing.begin();
        let (freed, done) = release_some(connection, &self.extents, node, file)?;
        let freeing = Arc::clone(&self.freeing);
        if done {
            self.stats.forget(node);
        }
        let then = move |commit| {
            freeing.note(commit, freed);
            drop(release);
        };
        Ok(files::Released { done, then: Box::new(then) })
    }

    fn begin_release(&self) -> Option<Release> {
        Some(self.freeing.begin())
    }

    fn is_idle(&self, file: &File) -> bool {
        if !self.doubt.is_settled(&file.data.unsynced) && !planted::has(Bug::UnsyncedFileForgotten) {
            return false;
        }
        let Some(layout) = file.data.layout.try_read() else { return false };
        let slot = layout.slot.iter().map(|slot| &slot.extent);
        slot.chain(layout.extents.values()).all(|extent| extent.state().pending.is_empty())
    }
}

impl Layout {
    /// How the file is cut into extents.
    #[must_use]
    pub fn stripes(&self, au_size: u64) -> Stripes {
        Stripes::new(self.fine, au_size)
    }

    /// Cuts bytes `offset .. offset + length` of the file along its extents; each extent has one part at most.
    #[must_use]
    pub fn parts(&self, offset: u64, length: usize, au_size: u64) -> Parts {
        let mut parts = Parts::new();
        let end = offset.saturating_add(length as u64);
        let mut from = offset;
        if let Some(slot) = &self.slot
            && offset < PIECE_SIZE.min(end)
        {
            let base = slot.piece as u64 * PIECE_SIZE;
            from = end.min(PIECE_SIZE);
            let range = 0..usize::try_from(from - offset).expect("64 KiB at most");
            let inside = base + offset..base + from;
            parts.push(Part { extent: Some(Arc::clone(&slot.extent)), inside, range, more: Vec::new() });
        }
        let stripes = self.stripes(au_size);
        for (number, inside) in stripes.touched(from, end) {
            let index = |at: u64| usize::try_from(at - offset).expect("inside the request");
            let mut ranges = stripes.in_file(number, inside.clone()).map(|range| index(range.start)..index(range.end));
            let Some(range) = ranges.next() else { continue };
            parts.push(Part { extent: self.extents.get(&number).cloned(), inside, range, more: ranges.collect() });
        }
        parts
    }

    /// The extent that has all of a range of the file, and where there; `None`: several have it, or none.
    #[must_use]
    pub fn within_one(&self, offset: u64, length: usize, au_size: u64) -> Option<(&Arc<Extent>, Range<u64>)> {
        let length = length as u64;
        // Behind the end of a file any offset may be asked for, and nothing is there.
        let end = offset.checked_add(length).filter(|end| length > 0 && *end <= FILE_SIZE_MAX)?;
        let (extent, at, most) = match &self.slot {
            Some(slot) => (&slot.extent, slot.piece as u64 * PIECE_SIZE + offset, PIECE_SIZE),
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
        self.stripes(au_size).touched(offset, end).all(|(number, _)| self.extents.contains_key(&number))
    }

    /// Space taken, in 512-byte units, before mirroring.
    #[must_use]
    pub fn blocks(&self, au_size: u64) -> u64 {
        let slot = if self.slot.is_some() { PIECE_SIZE } else { 0 };
        (slot + self.extents.len() as u64 * au_size) / 512
    }
}

/// Extents that are looked at, one after the other, come from the catalog so many at a time.
const AT_ONCE: i64 = 256;

/// Extents deleted in one job: more would hold up the other jobs. Few in tests, whose files are small.
const RELEASE_MAX: usize = if cfg!(any(test, feature = "testing")) { 3 } else { 512 };

/// Deletes extents of a file, and at last its slot, inside a job. False: there are more.
fn release_some(
    connection: &Connection,
    extents: &Extents,
    node: u64,
    file: Option<Arc<File>>,
) -> rusqlite::Result<(Freed, bool)> {
    let mut freed = Freed::default();
    {
        let mut select =
            connection.prepare_cached(&format!("SELECT {} FROM extent WHERE file = ?1 LIMIT ?2", extent::COLUMNS))?;
        let mut rows = select.query(params![node.cast_signed(), RELEASE_MAX as i64])?;
        while let Some(row) = rows.next()? {
            freed.extents.push(extents.intern(extent::from_row(row)?));
        }
    }
    for extent in &freed.extents {
        connection.prepare_cached("DELETE FROM extent WHERE id = ?1")?.execute([extent.id.cast_signed()])?;
    }
    let done = freed.extents.len() < RELEASE_MAX;
    if done && let Some((id, piece)) = slot_of(connection, node)? {
        clear_slot(connection, extents, id, piece)?;
        freed.slots.push(FreedSlot { extent: id, piece, of: file });
    }
    for extent in &freed.extents {
        extent.bury();
        extents.remove(extent.id);
    }
    Ok((freed, done))
}

/// The slot that a file's row names.
fn slot_of(connection: &Connection, node: u64) -> rusqlite::Result<Option<(u64, usize)>> {
    let slot: Option<(Option<i64>, Option<i64>)> = connection
        .prepare_cached("SELECT shared_extent, slot FROM file WHERE number = ?1")?
        .query_row([node.cast_signed()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(slot.and_then(|(extent, piece)| Some((extent?.cast_unsigned(), usize::try_from(piece?).ok()?))))
}

/// Takes the marks off a slot whose file goes.
fn clear_slot(connection: &Connection, extents: &Extents, id: u64, piece: usize) -> rusqlite::Result<()> {
    let Some(shared) = find(connection, extents, id)? else { return Ok(()) };
    extent::change_marks(connection, &shared, |written, pending| {
        written.remove(piece);
        pending.remove(piece);
    })
}

/// The extent with an id, in memory, if it is alive. For jobs: on the writer's thread extents begin and end.
pub(crate) fn find(connection: &Connection, extents: &Extents, id: u64) -> rusqlite::Result<Option<Arc<Extent>>> {
    match extents.get(id) {
        Some(extent) => Ok(Some(extent)),
        None => Ok(extent::load(connection, id)?.map(|extent| extents.intern(extent))),
    }
}

impl Group {
    /// A commit of a file's marks or places failed. If it was the catalog that failed, nobody knows whether they are what they were, or what they
    /// were to be, as they are in memory: nothing that is written there is acknowledged any more, and no hole read as zeros.
    pub(crate) fn note_doubt(&self, file: &File) {
        if self.catalog.failure().is_some() {
            file.data.in_doubt.store(true, Ordering::Release);
        }
    }

    /// An error if what is written to a file now may be missing after the next mount, or a hole of it be none.
    pub(crate) fn must_not_be_in_doubt(&self, file: &File) -> Result<(), FileError> {
        if !file.data.is_in_doubt() || planted::has(Bug::DoubtfulPlaceFreed) {
            return Ok(());
        }
        Err(self.catalog.failure().map_or(FileError::Dismounted, FileError::CatalogStopped))
    }

    /// The error for a read or write in an extent that a job has deleted. If the catalog stopped in that commit, the extent may be there after the
    /// next mount; otherwise its file was cut or removed.
    pub(crate) fn given_up(&self, extent: &Extent) -> FileError {
        self.catalog.failure().map_or(FileError::Stale(extent.file), FileError::CatalogStopped)
    }

    /// A file's layout, shared, for who only reads it.
    pub(crate) async fn loaded_layout<'a>(&self, file: &'a Arc<File>) -> Result<ReadGuard<'a, Layout>, FileError> {
        loop {
            let layout = file.data.layout.read().await;
            if layout.loaded {
                return Ok(layout);
            }
            drop(layout);
            Box::pin(self.load_layout(file, &mut *file.data.layout.write().await)).await?;
        }
    }

    /// Loads a file's layout, unless it is in memory.
    pub(crate) async fn load_layout(&self, file: &Arc<File>, layout: &mut Layout) -> Result<(), FileError> {
        if layout.loaded {
            return Ok(());
        }
        let node = file.node;
        let look = self.extents.look();
        let (rows, slot) = self
            .catalog
            .read(move |connection| {
                let mut select = connection.prepare_cached(&format!(
                    "SELECT {} FROM extent WHERE file = ?1 ORDER BY number",
                    extent::COLUMNS
                ))?;
                let rows: Vec<Extent> =
                    select.query_map([node.cast_signed()], extent::from_row)?.collect::<rusqlite::Result<_>>()?;
                let slot = match slot_of(connection, node)? {
                    Some((id, piece)) => extent::load(connection, id)?.map(|extent| (extent, piece)),
                    None => None,
                };
                Ok((rows, slot))
            })
            .await?;
        let look = if planted::has(Bug::SnapshotLookedLate) {
            drop(look);
            self.extents.look()
        } else {
            look
        };
        // Who did not remember the file may come too late.
        let known = |extent| look.intern(extent).ok_or(FileError::Stale(node));
        let extents = rows.into_iter().map(|extent| Ok((extent.number, known(extent)?)));
        let extents = extents.collect::<Result<_, FileError>>()?;
        layout.slot = match slot {
            Some((extent, piece)) => Some(Slot { extent: known(extent)?, piece }),
            None => None,
        };
        layout.extents = extents;
        layout.fine = file.attributes().fine;
        layout.loaded = true;
        Ok(())
    }

    /// Some of the extents that are alive, in the order of their ids, from `from` on; and where the next begin. `None`: there are none.
    pub(crate) async fn some_alive(&self, from: u64) -> Result<Option<(Vec<Arc<Extent>>, u64)>, FileError> {
        let ids: Vec<u64> = self
            .catalog
            .read(move |connection| {
                let mut select =
                    connection.prepare_cached("SELECT id FROM extent WHERE id >= ?1 ORDER BY id LIMIT ?2")?;
                let rows = select.query_map(params![from.cast_signed(), AT_ONCE], |row| row.get::<_, i64>(0))?;
                Ok(rows.map(|id| id.map(i64::cast_unsigned)).collect::<rusqlite::Result<_>>()?)
            })
            .await?;
        let Some(last) = ids.last().copied() else { return Ok(None) };
        Ok(Some((self.alive(ids).await?, last + 1)))
    }

    /// The extents with these ids that are alive, in memory. Whoever found the ids in a snapshot comes here: an extent may
    /// have been deleted since, and its AUs may be another's. Deleting is the writer's, and so is this.
    pub(crate) async fn alive(&self, ids: Vec<u64>) -> Result<Vec<Arc<Extent>>, FileError> {
        let extents = Arc::clone(&self.extents);
        let look = move |connection: &Connection| {
            let mut alive = Vec::with_capacity(ids.len());
            for id in ids {
                alive.extend(find(connection, &extents, id)?);
            }
            Ok(alive)
        };
        self.catalog.release(false, look).await.map(|(alive, _)| alive)
    }

    /// Gives the file what it needs so that `offset .. end` can be written.
    pub(crate) async fn prepare(
        &self,
        file: &Arc<File>,
        layout: &mut Layout,
        offset: u64,
        end: u64,
    ) -> Result<(), FileError> {
        self.load_layout(file, layout).await?;
        if layout.covers(offset, end, self.au_size) {
            return Ok(());
        }
        // Shared extents have the group's redundancy.
        let may_share = file.mirrors() == 0 || planted::has(Bug::SharedHigh);
        if may_share && layout.slot.is_none() && layout.extents.is_empty() && end <= PIECE_SIZE {
            return self.take_slot(file, layout).await;
        }
        if layout.slot.is_some() {
            self.promote(file, layout).await?;
        }
        // A request can be large (`fallocate`): first a look whether it fits at all, so that one that does not leaves
        // nothing behind; then a commit's worth at a time.
        let stripes = layout.stripes(self.au_size);
        let around = layout.extents.range(stripes.around(offset, end));
        let there = around.filter(|(number, _)| !stripes.inside(**number, offset, end).is_empty()).count() as u64;
        self.make_room(file.mirrors(), stripes.count(offset, end) - there).await?;
        let numbers = stripes.touched(offset, end).map(|(number, _)| number);
        let missing: Vec<u64> = numbers.filter(|number| !layout.extents.contains_key(number)).collect();
        for numbers in missing.chunks(ALLOCATED_AT_ONCE) {
            self.add_extents(file, layout, numbers).await?;
        }
        Ok(())
    }

    /// Before a file grows: what lies behind its end in its last piece becomes zeros.
    pub(crate) async fn clean_tail(&self, file: &Arc<File>, layout: &Layout) -> Result<(), FileError> {
        if file.data.has_clean_tail() {
            return Ok(());
        }
        let size = file.attributes().size;
        let length = usize::try_from(size.next_multiple_of(PIECE_SIZE) - size).expect("64 KiB at most");
        loop {
            let failures = self.doubt.count();
            let mut any = false;
            for part in layout.parts(size, length, self.au_size) {
                any |= self.zero_part(&part).await?;
            }
            if !any {
                break;
            }
            // Before the new size, or a loss of power could leave that and take the zeros back: also those that were there.
            self.flush_disks().await?;
            // Another task's flush may have failed meanwhile, and lost the zeros.
            if self.doubt.count() == failures || planted::has(Bug::ShownZerosBelieved) {
                break;
            }
        }
        file.data.tail_is_clean.store(true, Ordering::Release);
        Ok(())
    }

    /// Allocates extents at places of the file that are holes.
    async fn add_extents(&self, file: &Arc<File>, layout: &mut Layout, numbers: &[u64]) -> Result<(), FileError> {
        let _in_hand = self.take_in_hand();
        let own = file.mirrors();
        let places = self.allocate(file.node, own, numbers).await?;
        let first = self.next_extent_ids(places.len() as u64);
        let fresh: Vec<Arc<Extent>> = places
            .into_iter()
            .zip(numbers)
            .zip(first..)
            .map(|((mirrors, number), id)| Arc::new(Extent::new(id, file.node, *number, &mirrors).asking_for(own)))
            .collect();
        let blocks = layout.blocks(self.au_size) + fresh.len() as u64 * self.au_size / 512;
        let rows = fresh.clone();
        let (owner, extents) = (Arc::clone(file), Arc::clone(&self.extents));
        let written = self
            .catalog
            .write(false, move |connection| {
                for extent in &rows {
                    extent::insert(connection, extent)?;
                }
                set_blocks(connection, &owner, blocks)?;
                rows.iter().for_each(|extent| extents.adopt(extent));
                Ok(())
            })
            .await;
        if let Err(error) = written {
            for extent in &fresh {
                self.unallocate_refused(&extent.mirrors(), extent.own);
            }
            return Err(error);
        }
        for extent in fresh {
            self.note_places(&extent);
            layout.extents.insert(extent.number, extent);
        }
        Ok(())
    }

    /// Gives a small file a slot.
    async fn take_slot(&self, file: &Arc<File>, layout: &mut Layout) -> Result<(), FileError> {
        let (id, piece) = loop {
            if let Some(slot) = self.slots().take() {
                break slot;
            }
            if let Err(error) = self.add_shared_extent().await {
                // One may have become free while it was waited for a whole extent.
                break self.slots().take().ok_or(error)?;
            }
        };
        let (owner, extents) = (Arc::clone(file), Arc::clone(&self.extents));
        let written = self
            .catalog
            .write(false, move |connection| {
                connection
                    .prepare_cached("UPDATE file SET shared_extent = ?2, slot = ?3 WHERE number = ?1")?
                    .execute(params![owner.node.cast_signed(), id.cast_signed(), piece as i64])?;
                set_blocks(connection, &owner, PIECE_SIZE / 512)?;
                find(connection, &extents, id).map_err(FileError::from)
            })
            .await;
        match written {
            Ok((Some(extent), _)) => {
                layout.slot = Some(Slot { extent, piece });
                Ok(())
            }
            Ok((None, _)) => Err(FileError::Invalid("the shared extent is gone")),
            Err(error) => {
                self.slots().give_back(id, piece);
                Err(error)
            }
        }
    }

    async fn add_shared_extent(&self) -> Result<(), FileError> {
        let id = self.next_extent_ids(1);
        let _in_hand = self.take_in_hand();
        let mirrors = self.allocate(0, 0, &[id]).await?.pop().ok_or(FileError::NoSpace)?;
        let extent = Arc::new(Extent::new(id, 0, id, &mirrors));
        let (row, extents) = (Arc::clone(&extent), Arc::clone(&self.extents));
        let insert = move |connection: &Connection| {
            extent::insert(connection, &row)?;
            extents.adopt(&row);
            Ok(())
        };
        if let Err(error) = self.catalog.write(false, insert).await {
            self.unallocate_refused(&extent.mirrors(), 0);
            return Err(error);
        }
        self.note_places(&extent);
        self.slots().add_extent(id);
        Ok(())
    }

    /// Copies what a slot holds, with `durably` so that no loss of power undoes it. False: it holds nothing.
    async fn copy_slot(&self, slot: &Slot, to: &Arc<Extent>, durably: bool) -> Result<bool, FileError> {
        loop {
            let failures = self.doubt.count();
            let held = self.copy_piece(slot, to).await?;
            if !held || !durably {
                return Ok(held);
            }
            self.flush_disks().await?;
            if self.doubt.count() == failures {
                return Ok(true);
            }
        }
    }

    /// Moves a file from its slot to an extent of its own.
    async fn promote(&self, file: &Arc<File>, layout: &mut Layout) -> Result<(), FileError> {
        let Some(slot) = layout.slot.clone() else { return Ok(()) };
        let _promoting = self.promoting.read().await;
        let _in_hand = self.take_in_hand();
        let mirrors = self.allocate(file.node, 0, &[0]).await?.pop().ok_or(FileError::NoSpace)?;
        let id = self.next_extent_ids(1);
        let fresh = Arc::new(Extent::new(id, file.node, 0, &mirrors));
        // What was synced must not become less than that: a commit that is durable before the copy is would lose it.
        let was_written = slot.extent.state().written.has(slot.piece);
        let durably = was_written && !planted::has(Bug::FragmentNotFlushed);
        let began = self.doubt.era();
        // What is read in the slot may have to be mended first, in a region of its own.
        let _room = self.activity.room_for(2).await;
        let copy = async {
            // Until it can be found in memory its region must not close: its checksums would be left out.
            let active = self.activate(&fresh).await?;
            Ok((self.copy_slot(&slot, &fresh, durably).await?, active))
        };
        let (held, _active) = match copy.await {
            Ok(copied) => copied,
            Err(error) => {
                if !planted::has(Bug::PromotionLeaks) {
                    self.unallocate(&fresh.mirrors(), 0);
                }
                return Err(error);
            }
        };
        let (row, owner, extents) = (Arc::clone(&fresh), Arc::clone(file), Arc::clone(&self.extents));
        let (old, piece, blocks) = (slot.extent.id, slot.piece, self.au_size / 512);
        let written =
            self.catalog
                .write(false, move |connection| {
                    // The slot of a file that was removed may be another file's.
                    must_be_there(connection, &owner)?;
                    extent::insert(connection, &row)?;
                    if held {
                        extent::change_marks(connection, &row, |written, pending| {
                            if was_written { written.add(0) } else { pending.add(0) }
                        })?;
                    }
                    clear_slot(connection, &extents, old, piece)?;
                    connection
                        .prepare_cached("UPDATE file SET shared_extent = NULL, slot = NULL WHERE number = ?1")?
                        .execute([owner.node.cast_signed()])?;
                    set_blocks(connection, &owner, blocks)?;
                    extents.adopt(&row);
                    Ok(())
                })
                .await;
        match written {
            Ok(((), commit)) => {
                if held && !durably && !planted::has(Bug::PromotionNotNoted) {
                    // Whoever wants it grown may yet fail, and not note anything: the copy must be flushed all the same.
                    file.data.unsynced.note(began, self.doubt.era());
                }
                self.note_places(&fresh);
                reached::at(Mark::SlotGrown);
                layout.extents.insert(0, fresh);
                layout.slot = None;
                if planted::has(Bug::SlotReusedEarly) {
                    self.slots().give_back(old, piece);
                    return Ok(());
                }
                self.note_freed(
                    commit,
                    Freed { slots: vec![FreedSlot { extent: old, piece, of: None }], ..Freed::default() },
                );
                Ok(())
            }
            Err(error) => {
                self.note_doubt(file);
                self.unallocate_refused(&fresh.mirrors(), 0);
                Err(error)
            }
        }
    }
}

/// Inside a job that gives a file something: it was not removed meanwhile.
pub(crate) fn must_be_there(connection: &Connection, file: &File) -> Result<(), FileError> {
    let select = "SELECT EXISTS (SELECT 1 FROM file WHERE number = ?1)";
    let is_there = connection.prepare_cached(select)?.query_row([file.node.cast_signed()], |row| row.get(0))?;
    if is_there { Ok(()) } else { Err(FileError::Stale(file.node)) }
}

/// Sets how much space a file takes, in its row and in memory. A file that was removed meanwhile gets none: nothing would ever free it.
pub(crate) fn set_blocks(connection: &Connection, file: &File, blocks: u64) -> Result<(), FileError> {
    let is_there = connection
        .prepare_cached("UPDATE file SET blocks = ?2 WHERE number = ?1")?
        .execute(params![file.node.cast_signed(), blocks.cast_signed()])?;
    if is_there == 0 {
        return Err(FileError::Stale(file.node));
    }
    file.attributes().blocks = blocks;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who asks for the one extent that has all of a range hears the same as who asks for all parts.
    #[test]
    fn what_lies_within_one_extent_is_its_only_part() {
        const AU: u64 = 1 << 20;
        let extent = |number| Arc::new(Extent::new(number + 1, 7, number, &[]));
        let coarse =
            || Layout { extents: [0, 1, 3].map(|number| (number, extent(number))).into(), ..Layout::default() };
        let slot = Layout { slot: Some(Slot { extent: extent(9), piece: 3 }), ..Layout::default() };
        let edges = [0, 4096, PIECE_SIZE, 2 * PIECE_SIZE, AU, 2 * AU, 3 * AU, 8 * AU, 12 * AU];
        let near = |edge: u64| [edge.saturating_sub(4096), edge.saturating_sub(1), edge, edge + 1, edge + 8192];
        let (mut within, mut not) = (0, 0);
        for layout in [coarse(), Layout { fine: true, ..coarse() }, slot] {
            for offset in edges.into_iter().flat_map(near) {
                for length in [0, 1, 4096, 8192, 65536, 1 << 20, 1 << 21] {
                    let found = layout.within_one(offset, length, AU);
                    match (&layout.parts(offset, length, AU)[..], found) {
                        ([Part { extent: Some(extent), inside, more, .. }], Some((other, there))) => {
                            assert!(Arc::ptr_eq(extent, other) && *inside == there && more.is_empty());
                            within += 1;
                        }
                        ([Part { extent: Some(_), more, .. }], None) if more.is_empty() => {
                            panic!("{length} bytes at {offset} are within one extent")
                        }
                        (parts, found) => {
                            assert!(found.is_none(), "{length} bytes at {offset}: {} parts", parts.len());
                            not += 1;
                        }
                    }
                }
            }
        }
        assert!(within > 50 && not > 50, "{within}, {not}");
        assert!(coarse().within_one(u64::MAX - 4, 4, AU).is_none() && coarse().within_one(1, usize::MAX, AU).is_none());
    }
}
