//! Files get places for their bytes: extents, or a slot in a shared extent; and places are freed
//! when files go.
//!
//! A file that fits into a piece (64 KiB) lives in one slot of a shared extent, an
//! ordinary extent that belongs to file 0. The first write that goes further
//! promotes it: an extent of its own is allocated, the slot's bytes are copied,
//! and one commit switches over. A crash before that commit leaves the slot in
//! charge and an extent that the commit never named, so its AUs are free again. Bytes that were
//! synced are flushed in their new place before that commit, and written there from the first.
//!
//! A commit that fails with the catalog may be on the disks all the same: only the next mount finds
//! out. Places that it names stay taken until then (`unallocate_refused`), and a file whose places
//! or marks it changed is neither written nor read where it shows a hole (`note_uncertain`).

use crate::{
    catalog::{CommitNumber, tables},
    error::FileError,
    extent::{
        self, Extent, Extents,
        failed_flush::FailedFlushes,
        layout::{Freed, FreedSlot, Layout, Slot, SlotOwner},
        reclaim::{ALLOCATED_AT_ONCE, Freeing},
        scope::find,
    },
    files::{self, File, file_stats::FileStats, file_system::FileSystem},
    planted::{self, Bug},
    reached::{self, Mark},
    space::{coming::Release, extent_id::ExtentId, mirror_sets::MirrorCount},
    sync::rwlock::ReadGuard,
};
use plinth_format::{Piece, layout::PIECE_SIZE};
use rusqlite::Connection;
use std::sync::Arc;

/// The operations of the data path that the files need.
pub struct Releaser {
    pub extents: Arc<Extents>,
    pub freeing: Arc<Freeing>,
    pub failed_flushes: Arc<FailedFlushes>,
    pub stats: Arc<FileStats>,
}

impl files::Releasing for Releaser {
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
        if !self.failed_flushes.covers_all(&file.data.unsynced)
            && !planted::has(Bug::UnsyncedFileForgotten)
        {
            return false;
        }
        let Some(layout) = file.data.layout.try_read() else { return false };
        let slot = layout.slot.iter().map(|slot| &slot.extent);
        slot.chain(layout.extents.values()).all(|extent| extent.state().pending.is_empty())
    }
}

/// Extents deleted in one job: more would hold up the other jobs. Few in tests, whose files are
/// small.
const RELEASE_MAX: usize = if cfg!(any(test, feature = "testing")) { 3 } else { 512 };

/// Deletes extents of a file, and at last its slot, inside a job. False: there are more.
fn release_some(
    connection: &Connection,
    extents: &Extents,
    node: u64,
    file: Option<Arc<File>>,
) -> rusqlite::Result<(Freed, bool)> {
    let mut freed = Freed::default();
    for row in tables::extent::some_of_file(connection, node, RELEASE_MAX)? {
        freed.extents.push(extents.get_or_insert(Extent::from(row)));
    }
    let deleted = extent::delete(connection, &freed.extents)?;
    let done = freed.extents.len() < RELEASE_MAX;
    if done && let Some((id, piece)) = tables::slot::of(connection, node)? {
        let id = ExtentId(id);
        clear_slot(connection, extents, id, piece)?;
        freed.slots.push(FreedSlot {
            extent: id,
            piece,
            of: file.map(|file| file as Arc<dyn SlotOwner>),
        });
    }
    deleted.remove_from(extents);
    Ok((freed, done))
}

/// Takes the marks off a slot whose file goes.
fn clear_slot(
    connection: &Connection,
    extents: &Extents,
    id: ExtentId,
    piece: Piece,
) -> rusqlite::Result<()> {
    let Some(shared) = find(connection, extents, id)? else { return Ok(()) };
    extent::change_marks(connection, &shared, |written, pending| {
        written.remove(piece);
        pending.remove(piece);
    })
}

impl FileSystem {
    /// A commit of a file's marks or places failed. If it was the catalog that failed, it is not
    /// known whether the commit is on the disks; memory shows the state after it. From now on no
    /// write there is acknowledged, and no hole is read as zeros.
    pub(crate) fn note_uncertain(&self, file: &File) {
        if self.catalog.failure().is_some() {
            file.data.set_uncertain();
        }
    }

    /// An error if what is written to a file now may be missing after the next mount, or a hole of
    /// it be none.
    pub(crate) fn must_not_be_uncertain(&self, file: &File) -> Result<(), FileError> {
        if !file.data.is_uncertain() || planted::has(Bug::DoubtfulPlaceFreed) {
            return Ok(());
        }
        Err(self.catalog.failure().map_or(FileError::Dismounted, FileError::CatalogStopped))
    }

    /// The error for a read or write in an extent that a job has deleted. If the catalog stopped in
    /// that commit, the extent may be there after the next mount; otherwise its file was cut or
    /// removed.
    pub(crate) fn given_up(&self, extent: &Extent) -> FileError {
        self.catalog.failure().map_or(FileError::Stale(extent.file), FileError::CatalogStopped)
    }

    /// A file's layout, shared, for callers that only read it.
    pub(crate) async fn loaded_layout<'a>(
        &self,
        file: &'a Arc<File>,
    ) -> Result<ReadGuard<'a, Layout>, FileError> {
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
    pub(crate) async fn load_layout(
        &self,
        file: &Arc<File>,
        layout: &mut Layout,
    ) -> Result<(), FileError> {
        if layout.loaded {
            return Ok(());
        }
        let node = file.node;
        let look = self.extents.snapshot();
        let (rows, slot) = self
            .catalog
            .read(move |connection| {
                let rows = tables::extent::of_file(connection, node)?;
                let slot = match tables::slot::of(connection, node)? {
                    Some((id, piece)) => {
                        extent::load(connection, ExtentId(id))?.map(|extent| (extent, piece))
                    }
                    None => None,
                };
                Ok((rows, slot))
            })
            .await?;
        let look = if planted::has(Bug::SnapshotLookedLate) {
            drop(look);
            self.extents.snapshot()
        } else {
            look
        };
        // A caller that holds no reference to the file may come too late.
        let known = |extent| look.get_or_insert(extent).ok_or(FileError::Stale(node));
        let extents =
            rows.into_iter().map(|row| Ok((row.extent.number, known(Extent::from(row))?)));
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

    /// Gives the file what it needs so that `offset .. end` can be written. Returns the extents
    /// that it got.
    pub(crate) async fn prepare(
        &self,
        file: &Arc<File>,
        layout: &mut Layout,
        offset: u64,
        end: u64,
    ) -> Result<Vec<u64>, FileError> {
        self.load_layout(file, layout).await?;
        if layout.covers(offset, end, self.au_size) {
            return Ok(Vec::new());
        }
        // Shared extents have the group's redundancy, and are thin.
        let is_plain = file.mirrors() == MirrorCount::AsGroup || planted::has(Bug::SharedHigh);
        let may_share = is_plain && !file.is_preformatted();
        if may_share && layout.slot.is_none() && layout.extents.is_empty() && end <= PIECE_SIZE {
            self.take_slot(file, layout).await?;
            return Ok(Vec::new());
        }
        if layout.slot.is_some() {
            self.promote(file, layout).await?;
        }
        // A request can be large (`fallocate`): first a look whether it fits at all, so that one
        // that does not leaves nothing behind; then a commit's worth at a time.
        let stripes = layout.stripes(self.au_size);
        let around = layout.extents.range(stripes.around(offset, end));
        let there = around
            .filter(|(number, _)| !stripes.inside(**number, offset, end).is_empty())
            .count() as u64;
        self.make_room(file.mirrors(), stripes.count(offset, end) - there).await?;
        let numbers = stripes.touched(offset, end).map(|(number, _)| number);
        let missing: Vec<u64> =
            numbers.filter(|number| !layout.extents.contains_key(number)).collect();
        for numbers in missing.chunks(ALLOCATED_AT_ONCE) {
            self.add_extents(file, layout, numbers).await?;
        }
        Ok(missing)
    }

    /// Before a file grows: what lies behind its end in its last piece becomes zeros.
    pub(crate) async fn clean_tail(
        &self,
        file: &Arc<File>,
        layout: &Layout,
    ) -> Result<(), FileError> {
        if file.data.has_clean_tail() {
            return Ok(());
        }
        let size = file.attributes().size;
        let length =
            usize::try_from(size.next_multiple_of(PIECE_SIZE) - size).expect("64 KiB at most");
        loop {
            let failures = self.failed_flushes.count();
            let mut any = false;
            for part in layout.parts(size, length, self.au_size) {
                any |= self.zero_part(&part).await?;
            }
            if !any {
                break;
            }
            // Before the new size, or a loss of power could leave that and take the zeros back,
            // even those that were there before.
            self.flush_disks().await?;
            // Another task's flush may have failed meanwhile, and lost the zeros.
            if self.failed_flushes.count() == failures || planted::has(Bug::ShownZerosBelieved) {
                break;
            }
        }
        file.data.clean_tail();
        Ok(())
    }

    /// Allocates extents at places of the file that are holes.
    async fn add_extents(
        &self,
        file: &Arc<File>,
        layout: &mut Layout,
        numbers: &[u64],
    ) -> Result<(), FileError> {
        let _in_hand = self.take_in_hand();
        let own = file.mirrors();
        let places = self.allocate(file.node, own, numbers).await?;
        let first = self.next_extent_ids(places.len() as u64);
        let fresh: Vec<Arc<Extent>> = places
            .into_iter()
            .zip(numbers)
            .zip(first..)
            .map(|((mirrors, number), id)| {
                Arc::new(Extent::new(ExtentId(id), file.node, *number, &mirrors).asking_for(own))
            })
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
                rows.iter().for_each(|extent| extents.insert(extent));
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
                tables::slot::set(connection, owner.node, id.0, piece)?;
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
        let id = ExtentId(self.next_extent_ids(1));
        let _in_hand = self.take_in_hand();
        let mirrors = self
            .allocate(0, MirrorCount::AsGroup, &[id.0])
            .await?
            .pop()
            .ok_or(FileError::NoSpace)?;
        let extent = Arc::new(Extent::new(id, 0, id.0, &mirrors));
        let (row, extents) = (Arc::clone(&extent), Arc::clone(&self.extents));
        let insert = move |connection: &Connection| {
            extent::insert(connection, &row)?;
            extents.insert(&row);
            Ok(())
        };
        if let Err(error) = self.catalog.write(false, insert).await {
            self.unallocate_refused(&extent.mirrors(), MirrorCount::AsGroup);
            return Err(error);
        }
        self.note_places(&extent);
        self.slots().add_extent(id);
        Ok(())
    }

    /// Copies what a slot holds, with `durably` so that no loss of power undoes it. False: it holds
    /// nothing.
    async fn copy_slot(
        &self,
        slot: &Slot,
        to: &Arc<Extent>,
        durably: bool,
    ) -> Result<bool, FileError> {
        loop {
            let failures = self.failed_flushes.count();
            let held = self.copy_piece(slot, to).await?;
            if !held || !durably {
                return Ok(held);
            }
            self.flush_disks().await?;
            if self.failed_flushes.count() == failures {
                return Ok(true);
            }
        }
    }

    /// A slot is free when the commit that cleared it is durable and its I/O has ended.
    fn free_slot(&self, commit: CommitNumber, extent: ExtentId, piece: Piece) {
        if planted::has(Bug::SlotReusedEarly) {
            self.slots().give_back(extent, piece);
            return;
        }
        let slots = vec![FreedSlot { extent, piece, of: None }];
        self.note_freed(commit, Freed { slots, ..Freed::default() });
    }

    /// Moves a file from its slot to an extent of its own.
    async fn promote(&self, file: &Arc<File>, layout: &mut Layout) -> Result<(), FileError> {
        let Some(slot) = layout.slot.clone() else { return Ok(()) };
        let _promoting = self.promoting.read().await;
        let _in_hand = self.take_in_hand();
        let mirrors = self
            .allocate(file.node, MirrorCount::AsGroup, &[0])
            .await?
            .pop()
            .ok_or(FileError::NoSpace)?;
        let id = ExtentId(self.next_extent_ids(1));
        let fresh = Arc::new(Extent::new(id, file.node, 0, &mirrors));
        // Synced data must not become less than that: a commit that is durable before the copy is
        // would lose it.
        let was_written = slot.extent.state().written.has(slot.piece);
        let durably = was_written && !planted::has(Bug::FragmentNotFlushed);
        let began = self.failed_flushes.flush_epoch();
        // Blocks read from the slot may have to be repaired first, in a region of its own.
        let _room = self.activity.room_for(2).await;
        let copy = async {
            // Until it can be found in memory its region must not close: its checksums would be
            // left out.
            let active = self.activate(&fresh).await?;
            Ok((self.copy_slot(&slot, &fresh, durably).await?, active))
        };
        let (held, _active) = match copy.await {
            Ok(copied) => copied,
            Err(error) => {
                if !planted::has(Bug::PromotionLeaks) {
                    self.unallocate(&fresh.mirrors(), MirrorCount::AsGroup);
                }
                return Err(error);
            }
        };
        let (row, owner, extents) =
            (Arc::clone(&fresh), Arc::clone(file), Arc::clone(&self.extents));
        let (old, piece, blocks) = (slot.extent.id, slot.piece, self.au_size / 512);
        let written = self
            .catalog
            .write(false, move |connection| {
                // The slot of a file that was removed may be another file's.
                must_be_there(connection, &owner)?;
                extent::insert(connection, &row)?;
                if held {
                    extent::change_marks(connection, &row, |written, pending| {
                        if was_written { written.add(Piece(0)) } else { pending.add(Piece(0)) }
                    })?;
                }
                clear_slot(connection, &extents, old, piece)?;
                tables::slot::clear(connection, owner.node)?;
                set_blocks(connection, &owner, blocks)?;
                extents.insert(&row);
                Ok(())
            })
            .await;
        match written {
            Ok(((), commit)) => {
                if held && !durably && !planted::has(Bug::PromotionNotNoted) {
                    // The write that needs it promoted may still fail, and note nothing: the copy
                    // must be flushed all the same.
                    file.data.unsynced.note(began, self.failed_flushes.flush_epoch());
                }
                self.note_places(&fresh);
                reached::at(Mark::SlotGrown);
                layout.extents.insert(0, fresh);
                layout.slot = None;
                self.free_slot(commit, old, piece);
                Ok(())
            }
            Err(error) => {
                self.note_uncertain(file);
                self.unallocate_refused(&fresh.mirrors(), MirrorCount::AsGroup);
                Err(error)
            }
        }
    }
}

/// Inside a job that gives a file something: it was not removed meanwhile.
pub(crate) fn must_be_there(connection: &Connection, file: &File) -> Result<(), FileError> {
    if tables::file::exists(connection, file.node)? {
        Ok(())
    } else {
        Err(FileError::Stale(file.node))
    }
}

/// Sets how much space a file takes, in its row and in memory. A file that was removed meanwhile
/// gets none: nothing would ever free it.
pub(crate) fn set_blocks(
    connection: &Connection,
    file: &File,
    blocks: u64,
) -> Result<(), FileError> {
    if !tables::file::set_blocks(connection, file.node, blocks)? {
        return Err(FileError::Stale(file.node));
    }
    file.attributes().blocks = blocks;
    Ok(())
}
