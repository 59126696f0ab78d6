//! Writing and syncing files.
//!
//! A write:
//!
//!   1. The layout gets what it lacks (`allocation.rs`), with zeros in it if the file is
//!      PREFORMATTED (`preformat.rs`).
//!   2. Each part enters its region and holds its blocks. A piece that holds no data yet is
//!      completed with zeros; a block written in part is read first.
//!   3. All mirrors are written (`blocks.rs`).
//!   4. If pieces were marked, one catalog commit stores the marks. If the file only grew, its size
//!      is kept where a kill does not reach it, and the catalog gets it later (`files/sizes.rs`).
//!   5. The blocks are released, and the caller gets its answer.
//!
//! The rare paths of a write (regions that open, disks that fail, commits) are boxed, as those of
//! reads (`file_read.rs`).
//!
//! A crash of the engine after 5 loses nothing: the bytes are on the disks and the commit
//! is in the catalog. A loss of power before the next `sync` may lose both, never one by
//! a stranger's bytes: marks of step 4 are `pending` (`extent.rs`).
//!
//! A sync flushes the disks, then commits, durably, that the pending pieces it found before the
//! flush are written (R9). Where all that was written since the last good flush was written durably
//! (`log_detector.rs`), there is no flush: only the catalog's commits are made durable.

use crate::{
    api::{Allocate, Attributes, Changes, Seek, types::FileType, without_set_id},
    catalog::tables,
    disk::counters::IoClient,
    error::FileError,
    extent::{
        self, Extent, State,
        activity::Active,
        blocks::{FirstMirror, blocks_of},
        failed_flush::Pending,
        layout::{ExtentPart, FILE_SIZE_MAX, Freed, FreedSlot, Layout},
        partial_blocks::RUN,
    },
    files::{
        File,
        allocation::{must_be_there, set_blocks},
        file_system::FileSystem,
    },
    planted::{self, Bug},
    space::extent_id::ExtentId,
    sync::{
        bits::Bits,
        buffer::{Buffer, Slice},
        ranges::RangeGuard,
        transfer::Source,
    },
};
use plinth_format::{BLOCK_SIZE, Block, Piece, checksum, layout::PIECE_SIZE};
use smallvec::SmallVec;
use std::{future::poll_fn, ops::Range, sync::Arc, time::Duration};

/// How a sync treats writes that a failed flush left uncertain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UncertainWrites {
    /// It fails, once.
    FailOnce,
    /// It fails, and so does the file's next sync.
    FailAgain,
    /// It does what it can, and does not fail.
    Ignore,
}

/// Pieces of a file that `which` names.
fn pieces_of(layout: &Layout, which: impl Fn(&State) -> Bits) -> Pending {
    let slot = layout.slot.iter().map(|slot| (&slot.extent, Some(slot.piece)));
    let own = layout.extents.values().map(|extent| (extent, None));
    slot.chain(own)
        .filter_map(|(extent, piece)| {
            let mut pieces: Vec<Piece> = which(&extent.state()).iter().collect();
            pieces.retain(|other| piece.is_none_or(|piece| piece == *other));
            (!pieces.is_empty()).then(|| (Arc::clone(extent), pieces))
        })
        .collect()
}

type Result<T> = std::result::Result<T, FileError>;

/// One part of a write: its bytes in whole blocks, and what it holds until its marks are committed.
struct Ready<'a> {
    active: Active<'a>,
    _range: RangeGuard<'a>,
    extent: Arc<Extent>,
    first_block: Block,
    buffer: Slice,
    /// Where the bytes of the caller end in the extent.
    end: u64,
    /// Pieces that get their first data.
    fresh: Vec<Piece>,
}

/// Whether they are whole blocks.
fn is_whole(bytes: &Range<u64>) -> bool {
    let block = BLOCK_SIZE as u64;
    bytes.start.is_multiple_of(block) && bytes.end.is_multiple_of(block)
}

/// Whether there is data at `at` of a file with `size` bytes, and up to where it is so at least.
fn has_data(layout: &Layout, at: u64, size: u64, au_size: u64) -> (bool, u64) {
    if let Some(slot) = &layout.slot {
        return if at < PIECE_SIZE {
            (slot.extent.has_piece(slot.piece), PIECE_SIZE)
        } else {
            (false, size)
        };
    }
    let stripes = layout.stripes(au_size);
    let (number, inside, chunk_end) = stripes.locate(at);
    match layout.extents.get(&number) {
        Some(extent) => (extent.has_piece(Piece::at(inside)), (at / PIECE_SIZE + 1) * PIECE_SIZE),
        None if !planted::has(Bug::FineHole)
            && layout.extents.range(stripes.set_of(at)).next().is_some() =>
        {
            (false, chunk_end)
        }
        None => {
            let next = layout.extents.range(number..).next();
            (false, next.map_or(size, |(number, _)| stripes.set_start(*number)))
        }
    }
}

/// The parts of a file that become a hole.
#[derive(Default)]
struct Dropped {
    /// Pieces that lose their marks.
    cleared: Pending,
    /// Extents that lie in the range as a whole, and the slot of a file that is cut to nothing.
    freed: Freed,
    /// Bytes of pieces that lie in the range in part, and hold data.
    edges: Vec<(Arc<Extent>, Range<u64>)>,
}

impl Dropped {
    /// The parts of a file that become a hole when `range` does. `takes_slot`: its slot is freed,
    /// if it has one.
    fn plan(layout: &Layout, range: Range<u64>, au_size: u64, takes_slot: bool) -> Self {
        let mut dropped = Self::default();
        if let Some(slot) = &layout.slot
            && range.start < PIECE_SIZE
        {
            let base = slot.piece.offset();
            let inside = base + range.start..base + range.end.min(PIECE_SIZE);
            dropped.add_part(&slot.extent, inside);
        }
        let stripes = layout.stripes(au_size);
        for (number, extent) in layout.extents.range(stripes.around(range.start, range.end)) {
            let inside = stripes.inside(*number, range.start, range.end);
            if inside.is_empty() {
                continue;
            }
            if inside.start == 0 && inside.end == au_size {
                dropped.freed.extents.push(Arc::clone(extent));
            } else {
                dropped.add_part(extent, inside);
            }
        }
        let slot = layout.slot.as_ref().filter(|_| takes_slot);
        let slot =
            slot.map(|slot| FreedSlot { extent: slot.extent.id, piece: slot.piece, of: None });
        dropped.freed.slots.extend(slot);
        dropped
    }

    /// A part of an extent, that of a slot even if it is a whole piece.
    fn add_part(&mut self, extent: &Arc<Extent>, inside: Range<u64>) {
        let mut pieces = Vec::new();
        let pieces_in = Piece::at(inside.start).0..=Piece::at(inside.end - 1).0;
        for piece in pieces_in.map(Piece) {
            if !extent.has_piece(piece) {
                continue;
            }
            let bounds = piece.offset()..piece.next().offset();
            if inside.start <= bounds.start && bounds.end <= inside.end {
                pieces.push(piece);
            } else {
                let edge = inside.start.max(bounds.start)..inside.end.min(bounds.end);
                self.edges.push((Arc::clone(extent), edge));
            }
        }
        if !pieces.is_empty() {
            self.cleared.push((Arc::clone(extent), pieces));
        }
    }

    /// Whether nothing is to be committed.
    fn is_empty(&self) -> bool {
        self.cleared.is_empty() && self.freed.extents.is_empty() && self.freed.slots.is_empty()
    }
}

impl FileSystem {
    /// Writes all of `bytes` at `offset`, `now` by the monotonic clock. `durably`: a sync follows
    /// at once.
    pub(crate) async fn write_file(
        &self,
        now: Duration,
        file: &Arc<File>,
        offset: u64,
        bytes: &Source<'_>,
        kill_set_id: bool,
        durably: bool,
    ) -> Result<()> {
        let end = offset
            .checked_add(bytes.len() as u64)
            .filter(|end| *end <= FILE_SIZE_MAX)
            .ok_or(FileError::TooLarge)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let began = self.failed_flushes.flush_epoch();
        // The kernel sets this with every write of an unprivileged program; hardly ever is there a
        // bit to clear.
        let kill_set_id = kill_set_id && without_set_id(file.mode()) != file.mode();
        'steady: {
            if kill_set_id {
                break 'steady;
            }
            let Some(layout) = file.data.layout.try_read().filter(|layout| layout.loaded) else {
                break 'steady;
            };
            let Some((extent, inside)) = layout.within_one(offset, bytes.len(), self.au_size)
            else {
                break 'steady;
            };
            if end > file.sure() || !is_whole(&inside) {
                break 'steady;
            }
            let Some(_range) = self.hold_steady(extent, &inside, true) else { break 'steady };
            if file.data.is_uncertain() {
                break 'steady;
            }
            let Some(active) = self.enter_open(now, extent) else { break 'steady };
            self.partial_blocks.forget(extent.id);
            let durably = file.data.log_detector.write() || durably;
            let data = bytes.for_disks().unwrap_or_else(|| Buffer::copy_of(bytes).share());
            let first = Block(blocks_of(&inside).start);
            let mut sent = self.send(extent, first, &data, durably, &active);
            drop(data);
            poll_fn(|context| sent.poll(context)).await;
            let written =
                if self.have_all(&sent) { Ok(()) } else { Box::pin(self.finish_write(sent)).await };
            if written.is_err() || !durably {
                file.data.unsynced.note(began, self.failed_flushes.flush_epoch());
            }
            file.touch(self.world.now());
            return written;
        }
        Box::pin(self.write_parts(file, offset, bytes, (kill_set_id, durably), began)).await
    }

    /// Any write.
    async fn write_parts(
        &self,
        file: &Arc<File>,
        offset: u64,
        bytes: &Source<'_>,
        (kill_set_id, durably): (bool, bool),
        began: u64,
    ) -> Result<()> {
        let end = offset + bytes.len() as u64;
        let layout = loop {
            let layout = file.data.layout.read().await;
            let grows = end > file.sure();
            if layout.loaded
                && layout.covers(offset, end, self.au_size)
                && (!grows || file.data.has_clean_tail())
            {
                break layout;
            }
            drop(layout);
            let mut layout = file.data.layout.write().await;
            let added = Box::pin(self.prepare(file, &mut layout, offset, end)).await?;
            if grows {
                Box::pin(self.clean_tail(file, &layout)).await?;
            }
            drop(layout);
            if file.is_preformatted() {
                Box::pin(self.preformat_allocated(file, 0..0, &added)).await?;
            }
        };
        let parts = layout.parts(offset, bytes.len(), self.au_size);
        let _room = self.activity.room_for(parts.len()).await;
        let mut ready: SmallVec<[Ready<'_>; 2]> = SmallVec::with_capacity(parts.len());
        for part in &parts {
            let extent =
                part.extent.as_ref().ok_or(FileError::Invalid("a hole after its allocation"))?;
            ready.push(self.ready_part(extent, part.inside.clone(), &part.gather(bytes)).await?);
        }
        self.must_not_be_uncertain(file)?;
        let marks: Vec<_> = ready
            .iter()
            .filter(|part| !part.fresh.is_empty())
            .map(|part| (Arc::clone(&part.extent), part.fresh.clone()))
            .collect();
        // To be acknowledged, the file must have this size even after a kill; until now it may be
        // only in a commit of another write that is in progress.
        let grows = end > file.sure();
        let durably = file.data.log_detector.write() || durably;
        let is_steady = marks.is_empty() && !grows && !kill_set_id;
        let recognised = (offset == 0 && !is_steady).then(|| file.recognised(bytes)).flatten();
        let only_grows = grows && marks.is_empty() && !kill_set_id && recognised.is_none();
        if is_steady || (only_grows && self.files.sizes().has_room(file)) {
            let written = self.write_ready(&ready, durably).await;
            if written.is_err() || !durably {
                file.data.unsynced.note(began, self.failed_flushes.flush_epoch());
            }
            if written.is_err() && grows && !planted::has(Bug::TailNotSoiled) {
                file.data.mark_tail_dirty();
            }
            if written.is_err() || !grows || self.files.sizes().grow(file, end) {
                file.touch(self.world.now());
                return written;
            }
        }
        let now_written = Box::pin(self.write_and_commit(
            file,
            &ready,
            marks,
            (end, kill_set_id, recognised),
            began,
        ))
        .await;
        if now_written.is_err() && grows {
            file.data.mark_tail_dirty();
        }
        now_written
    }

    /// Writes what is ready, and commits that the file holds it: marks, size, mode, type.
    async fn write_and_commit(
        &self,
        file: &Arc<File>,
        ready: &[Ready<'_>],
        marks: Vec<(Arc<Extent>, Vec<Piece>)>,
        (end, kill_set_id, recognised): (u64, bool, Option<FileType>),
        began: u64,
    ) -> Result<()> {
        let now = self.world.now();
        // A mark must not be seen before its data is on the disks: an earlier owner's bytes may lie
        // there. A size may: the bytes that it newly covers are zeros until the data comes, and a
        // read of them waits for the range.
        let size_only = marks.is_empty();
        // If the write fails, the places of its fresh pieces are holes again, and are discarded.
        let places: Vec<_> =
            marks.iter().map(|(extent, pieces)| (extent.id, pieces.clone())).collect();
        let let_go = |_: &FileError| {
            places
                .iter()
                .for_each(|(extent, pieces)| self.discards.note(*extent, pieces.iter().copied()));
        };
        if !size_only {
            self.write_ready(ready, false).await.inspect_err(let_go)?;
        }
        let owner = Arc::clone(file);
        let commit = self.catalog.write(false, move |connection| {
            // The slot of a file that was removed goes to another small file, which takes it to be
            // empty.
            must_be_there(connection, &owner)?;
            for (extent, pieces) in &marks {
                extent::change_marks(connection, extent, |_, pending| {
                    pieces.iter().for_each(|piece| pending.add(*piece));
                })?;
            }
            let mode = owner.attributes().mode;
            let mode = if kill_set_id { without_set_id(mode) } else { mode };
            let recognised = match recognised {
                Some(recognised) => {
                    tables::file::set_recognised_type(connection, owner.node, recognised)?
                        .then_some(recognised)
                }
                None => None,
            };
            grow(connection, &owner, end, mode, now)?;
            if recognised.is_some() {
                owner.attributes().file_type = recognised;
            }
            Ok(())
        });
        let ((), commit) = if size_only {
            let (data, commit) = futures::join!(self.write_ready(ready, false), commit);
            data?;
            commit?
        } else {
            commit.await.inspect_err(|_| self.note_uncertain(file)).inspect_err(let_go)?
        };
        file.committed(commit);
        file.record_durable_size(end);
        file.data.unsynced.note(began, self.failed_flushes.flush_epoch());
        Ok(())
    }

    /// Writes parts that are ready, all at once.
    async fn write_ready(&self, parts: &[Ready<'_>], durably: bool) -> Result<()> {
        let write = async |part: &Ready<'_>| {
            self.write_blocks(
                &part.extent,
                part.first_block,
                part.buffer.clone(),
                durably,
                &part.active,
            )
            .await?;
            self.partial_blocks.written(part.extent.id, part.first_block, &part.buffer, part.end);
            Ok(())
        };
        match parts {
            [one] => write(one).await,
            // All of them to their ends: no range may be released while I/O is in flight in it.
            parts => futures::future::join_all(parts.iter().map(write)).await.into_iter().collect(),
        }
    }

    /// Writes bytes into one extent on all mirrors; marks are the caller's to commit.
    async fn write_part(
        &self,
        extent: &Arc<Extent>,
        inside: Range<u64>,
        bytes: &Source<'_>,
    ) -> Result<()> {
        self.write_ready(&[self.ready_part(extent, inside, bytes).await?], false).await
    }

    /// Makes bytes ready to be written into one extent; marks are the caller's to commit.
    async fn ready_part<'a>(
        &'a self,
        extent: &'a Arc<Extent>,
        inside: Range<u64>,
        bytes: &Source<'_>,
    ) -> Result<Ready<'a>> {
        self.recover_extent(extent).await?;
        let (first, last) = (Piece::at(inside.start), Piece::at(inside.end - 1));
        let (range, blocks, marked) = loop {
            let marked = (extent.has_piece(first), extent.has_piece(last));
            let mut blocks = blocks_of(&inside);
            if !marked.0 && !planted::has(Bug::PieceNotCompleted) {
                blocks.start = first.blocks().start;
            }
            if !marked.1 && !planted::has(Bug::PieceNotCompleted) {
                blocks.end = last.blocks().end;
            }
            let range = self.hold(extent, blocks.clone(), true).await;
            // Another writer may have completed a piece meanwhile: its zeros are not ours to write.
            if marked == (extent.has_piece(first), extent.has_piece(last)) {
                break (range, blocks, marked);
            }
        };
        if extent.is_tombstone() {
            // Its file was removed, and its AUs may be another's already.
            return Err(self.given_up(extent));
        }
        let active = self.activate(extent).await?;
        let start = blocks.start * BLOCK_SIZE;
        let skip = usize::try_from(inside.start).expect("inside an extent") - start;
        let fresh =
            (first.0..=last.0).map(Piece).filter(|piece| !extent.has_piece(*piece)).collect();
        let (first_block, end) = (Block(blocks.start), inside.end);
        let taken = self.partial_blocks.take(extent.id, &blocks);
        let as_it_is =
            if bytes.len() == blocks.len() * BLOCK_SIZE { bytes.for_disks() } else { None };
        if let Some(buffer) = as_it_is {
            return Ok(Ready {
                active,
                _range: range,
                extent: Arc::clone(extent),
                first_block,
                buffer,
                end,
                fresh,
            });
        }
        let mut buffer = Buffer::unfilled(blocks.len() * BLOCK_SIZE);
        let tail = skip + bytes.len();
        buffer[..skip].fill(0);
        buffer[tail..].fill(0);
        if marked.0 && skip > 0 && !planted::has(Bug::BlockNotCompleted) {
            let into = &mut buffer[..BLOCK_SIZE];
            self.old_block(extent, first_block, taken.first(), false, &active, into).await?;
        }
        if marked.1 && tail < buffer.len() && !(marked.0 && skip > 0 && blocks.len() == 1) {
            let is_followed = taken.is_followed_at(inside.start);
            let at = buffer.len() - BLOCK_SIZE;
            self.old_block(
                extent,
                Block(blocks.end - 1),
                taken.last(),
                is_followed,
                &active,
                &mut buffer[at..],
            )
            .await?;
        }
        buffer[skip..tail].copy_from_slice(bytes);
        Ok(Ready {
            active,
            _range: range,
            extent: Arc::clone(extent),
            first_block,
            buffer: buffer.share(),
            end,
            fresh,
        })
    }

    /// Puts into `into` what is in a block that a write leaves something of, and whose range the
    /// caller holds exclusively: as it was `kept`, or read. With `along`, those behind it are read
    /// too, and kept for the writes that follow.
    async fn old_block(
        &self,
        extent: &Arc<Extent>,
        block: Block,
        kept: Option<&[u8]>,
        along: bool,
        active: &Active<'_>,
        into: &mut [u8],
    ) -> Result<()> {
        self.load_sums(extent).await?;
        if let Some(kept) = kept {
            let sum = extent.sums().as_ref().and_then(|sums| sums.of(block.range()).next());
            if sum == Some(checksum::of_block(kept)) || planted::has(Bug::PartBlockKept) {
                into.copy_from_slice(kept);
                return Ok(());
            }
        }
        // As far as there is data, and no one else holds the blocks.
        let piece_end = block.piece().blocks().end;
        let behind = block.0 + 1..piece_end.min(block.0 + RUN);
        if along
            && !behind.is_empty()
            && let Some(_range) = extent.ranges.try_hold(behind.clone(), true)
            && let Ok(Some(read)) = self
                .try_read(extent, block.0..behind.end, IoClient::Files, FirstMirror::Policy)
                .await
        {
            if read.wrong {
                self.repairs.add(extent, block.0..behind.end);
            }
            let (first, behind) = read.buffer.split_at(BLOCK_SIZE);
            self.partial_blocks.keep_along(extent.id, block, behind);
            into.copy_from_slice(first);
            return Ok(());
        }
        into.copy_from_slice(&self.read_held(extent, block, active).await?);
        Ok(())
    }

    /// Reads one block whose range the caller holds exclusively.
    async fn read_held(
        &self,
        extent: &Extent,
        block: Block,
        active: &Active<'_>,
    ) -> Result<Buffer> {
        self.load_sums(extent).await?;
        match self.try_read(extent, block.range(), IoClient::Files, FirstMirror::Policy).await? {
            Some(read) if !read.wrong => Ok(read.buffer),
            _ => Box::pin(self.repair(extent, block.range(), active)).await,
        }
    }

    /// Makes bytes zeros that are not, without a mark of their own. Whether they are stored: zeros
    /// that were there may not be durable.
    pub(crate) async fn zero_part(&self, part: &ExtentPart) -> Result<bool> {
        let Some(extent) = part.extent.as_ref().filter(|_| !part.inside.is_empty()) else {
            return Ok(false);
        };
        if !extent.has_piece(Piece::at(part.inside.start)) {
            return Ok(false);
        }
        // After a flush that failed a disk may show zeros that it has lost.
        let may_be_lost = self.failed_flushes.count() > 0 && !planted::has(Bug::ShownZerosBelieved);
        let dirty = may_be_lost
            || match self.read_part(part).await {
                Ok(found) => found.slices().flatten().any(|byte| *byte != 0),
                // It is overwritten anyway.
                Err(FileError::ExtentLost { .. }) => true,
                Err(error) => return Err(error),
            };
        if dirty {
            let length =
                usize::try_from(part.inside.end - part.inside.start).expect("inside an extent");
            self.write_part(
                extent,
                part.inside.clone(),
                &Source::Shared(Buffer::zeroed(length).share()),
            )
            .await?;
        }
        Ok(true)
    }

    /// Copies a slot's bytes into piece 0 of another extent. False: the slot holds nothing.
    pub(crate) async fn copy_piece(
        &self,
        slot: &crate::extent::layout::Slot,
        to: &Arc<Extent>,
    ) -> Result<bool> {
        if !slot.extent.has_piece(slot.piece) {
            return Ok(false);
        }
        self.recover_extent(&slot.extent).await?;
        let Some(buffer) = self.read_checked(&slot.extent, slot.piece.blocks()).await? else {
            return Ok(false);
        };
        self.write_part(to, 0..PIECE_SIZE, &Source::Shared(buffer.share())).await?;
        Ok(true)
    }

    /// Makes what was written and acknowledged durable.
    pub(crate) async fn sync_file(&self, file: &Arc<File>, data_only: bool) -> Result<()> {
        file.data.log_detector.sync();
        self.sync_as(file, data_only, UncertainWrites::FailOnce).await?;
        self.failed_flushes.take_lost(file.node).map_or(Ok(()), Err)
    }

    /// Whether some of it stays uncertain.
    async fn sync_as(
        &self,
        file: &Arc<File>,
        data_only: bool,
        uncertain_writes: UncertainWrites,
    ) -> Result<bool> {
        // Held to the end: a hole punched and filled again between the flush and the
        // commit would be marked written by data that was not flushed.
        let layout = self.loaded_layout(file).await?;
        let span = file.data.unsynced.take_over();
        let mut failures = self.failed_flushes.count();
        let mut again = self.write_uncertain(&layout, uncertain_writes).await?;
        let mut pending = pieces_of(&layout, State::flushable);
        let early = planted::has(Bug::WrittenBeforeFlush);
        // Durable writes were not noted.
        let has_nothing_to_flush = pending.is_empty()
            && again.is_empty()
            && self.failed_flushes.covers_all(&file.data.unsynced);
        let flushed = if early || has_nothing_to_flush { Ok(()) } else { self.flush_disks().await };
        let uncertain = self.uncertain(
            &file.data.unsynced,
            span,
            || pieces_of(&layout, |state| state.pending.clone()),
            uncertain_writes == UncertainWrites::FailOnce,
        );
        let uncertain_pieces = uncertain.is_some();
        match (flushed, uncertain) {
            (Ok(()), None) => {}
            // All pending pieces are uncertain now.
            (Ok(()), Some(_)) if uncertain_writes == UncertainWrites::Ignore => pending.clear(),
            (Err(error), _) | (Ok(()), Some(error)) => return Err(error),
        }
        let mut is_flushed = !uncertain_pieces && self.trust_again(&again, failures);
        while !is_flushed {
            failures = self.failed_flushes.count();
            again = self.write_uncertain(&layout, uncertain_writes).await?;
            self.flush_disks().await?;
            is_flushed = self.trust_again(&again, failures);
        }
        pending.append(&mut again);
        let has_times = (!data_only && file.has_times()) || file.has_grown();
        if pending.is_empty() && !has_times {
            // A flush of the disks makes earlier commits durable, too, of whatever file: a name
            // that was changed before a sync is as durable as the file. So it is without a flush,
            // too.
            let commit =
                if has_nothing_to_flush { self.catalog.committed() } else { file.last_commit() };
            self.catalog.make_durable(commit).await?;
        } else {
            let timed = has_times.then(|| Arc::clone(file)).into_iter().collect();
            let store = move |connection: &rusqlite::Connection| mark_written(connection, &pending);
            self.files.store_with(&self.catalog, true, timed, store).await?;
        }
        if early {
            self.flush_disks().await?;
        }
        if !uncertain_pieces {
            self.answered(&file.data.unsynced, span);
        }
        Ok(uncertain_pieces)
    }

    /// Writes the uncertain pieces of a file again, and returns those that were written.
    async fn write_uncertain(
        &self,
        layout: &Layout,
        uncertain_writes: UncertainWrites,
    ) -> Result<Pending> {
        let mut again = Pending::new();
        if self.failed_flushes.count() == 0 {
            return Ok(again);
        }
        for (extent, pieces) in pieces_of(layout, |state| state.uncertain.clone()) {
            match Box::pin(self.write_again(&extent, &pieces)).await {
                // It is lost, and stays pending; the rest need not.
                Err(FileError::ExtentLost { .. })
                    if uncertain_writes == UncertainWrites::Ignore => {}
                written => again.push((extent, written?)),
            }
        }
        Ok(again)
    }

    /// Files whose next sync may have something to do or to report.
    fn unsynced_files(&self) -> Vec<Arc<File>> {
        let mut files = self.files.all();
        files.retain(|file| !self.files.is_idle(file));
        files
    }

    /// Makes everything acknowledged durable. A file that owes its next sync an error goes on owing
    /// it.
    pub(crate) async fn sync_everything(&self) -> Result<()> {
        self.files.store_times(&self.catalog).await?;
        let mut owed = None;
        for file in self.unsynced_files() {
            if let Err(error) = self.sync_as(&file, true, UncertainWrites::FailAgain).await {
                owed = Some(error);
            }
        }
        self.flush_disks().await?;
        self.catalog.durable_point().await?;
        owed.map_or(Ok(()), Err)
    }

    /// As [`Self::sync_everything`], before a dismount, after which no sync comes: how many files
    /// stay uncertain.
    pub(crate) async fn sync_at_end(&self) -> Result<usize> {
        self.files.store_times(&self.catalog).await?;
        let mut uncertain_pieces = 0;
        for file in self.unsynced_files() {
            uncertain_pieces +=
                usize::from(self.sync_as(&file, true, UncertainWrites::Ignore).await?);
        }
        self.flush_disks().await?;
        self.catalog.durable_point().await?;
        Ok(uncertain_pieces)
    }

    /// Sets a file's size. Bytes that come into being read as zeros.
    pub(crate) async fn resize(&self, file: &Arc<File>, changes: &Changes) -> Result<()> {
        let Some(size) = changes.size else { return Ok(()) };
        if size > FILE_SIZE_MAX {
            return Err(FileError::TooLarge);
        }
        let mut layout = file.data.layout.write().await;
        self.load_layout(file, &mut layout).await?;
        self.store_size(file).await?;
        let began = self.failed_flushes.flush_epoch();
        let old = file.attributes().size;
        if size < old {
            self.drop_range(file, &mut layout, size, u64::MAX, Some(size)).await?;
            file.data.unsynced.note(began, self.failed_flushes.flush_epoch());
        } else if size > old {
            self.clean_tail(file, &layout).await?;
        }
        let now = self.world.now();
        let owner = Arc::clone(file);
        let job = move |connection: &rusqlite::Connection| {
            let mode = owner.attributes().mode;
            set_size(connection, &owner, size, mode, now)
        };
        // Files can be truncated while the catalog is full.
        let cut = size <= old;
        let ((), commit) = if cut {
            self.catalog.release(false, job).await?
        } else {
            self.catalog.write(false, job).await?
        };
        file.committed(commit);
        file.record_durable_size(size);
        Ok(())
    }

    /// Stores in the catalog the size to which a file has grown. No write of it may be in progress.
    async fn store_size(&self, file: &Arc<File>) -> Result<()> {
        if !file.has_grown() || planted::has(Bug::GrowthBelieved) {
            return Ok(());
        }
        self.files.store_with(&self.catalog, false, vec![Arc::clone(file)], |_| Ok(())).await?;
        // Cut now, it would be as long as before after a kill.
        if file.has_grown() { Err(FileError::SizeKept(file.node)) } else { Ok(()) }
    }

    /// `fallocate`.
    pub(crate) async fn allocate_file(
        &self,
        file: &Arc<File>,
        offset: u64,
        length: u64,
        mode: Allocate,
        kill_set_id: bool,
    ) -> Result<()> {
        let end = offset
            .checked_add(length)
            .filter(|end| *end <= FILE_SIZE_MAX)
            .ok_or(FileError::TooLarge)?;
        if length == 0 {
            return Err(FileError::Invalid("length 0"));
        }
        let mut layout = file.data.layout.write().await;
        self.load_layout(file, &mut layout).await?;
        let began = self.failed_flushes.flush_epoch();
        if !matches!(mode, Allocate::Reserve { .. }) {
            self.drop_range(file, &mut layout, offset, end, None).await?;
        }
        let keep_size = match mode {
            Allocate::Reserve { keep_size } | Allocate::ZeroRange { keep_size } => {
                let added = self.prepare(file, &mut layout, offset, end).await?;
                if file.is_preformatted() {
                    drop(layout);
                    self.preformat_allocated(file, offset..end, &added).await?;
                    layout = file.data.layout.write().await;
                    self.load_layout(file, &mut layout).await?;
                }
                keep_size
            }
            Allocate::PunchHole => true,
        };
        if !keep_size && end > file.attributes().size {
            self.clean_tail(file, &layout).await?;
        }
        let now = self.world.now();
        let owner = Arc::clone(file);
        let job = move |connection: &rusqlite::Connection| {
            let (size, mode) = {
                let attributes = owner.attributes();
                (attributes.size, attributes.mode)
            };
            let size = if keep_size { size } else { size.max(end) };
            let mode = if kill_set_id { without_set_id(mode) } else { mode };
            set_size(connection, &owner, size, mode, now)
        };
        // Holes can be punched while the catalog is full.
        let punches = mode == Allocate::PunchHole;
        let ((), commit) = if punches {
            self.catalog.release(false, job).await?
        } else {
            self.catalog.write(false, job).await?
        };
        if !planted::has(Bug::EdgesNotNoted) {
            file.data.unsynced.note(began, self.failed_flushes.flush_epoch());
        }
        file.committed(commit);
        if !keep_size {
            file.record_durable_size(end);
        }
        Ok(())
    }

    /// Writes zeros to extents that were just added, and to a range of the file. If that fails, the
    /// extents are given back.
    async fn preformat_allocated(
        &self,
        file: &Arc<File>,
        range: Range<u64>,
        added: &[u64],
    ) -> Result<()> {
        let formatted = async {
            self.preformat_extents(file, added).await?;
            self.preformat_range(file, range).await
        };
        let Err(error) = formatted.await else { return Ok(()) };
        let mut layout = file.data.layout.write().await;
        self.load_layout(file, &mut layout).await?;
        // Another request may have written in the others meanwhile.
        let (stripes, size) = (layout.stripes(self.au_size), file.size());
        let behind_end = |number: &u64| stripes.inside(*number, 0, size).is_empty();
        let added = added.iter().filter(|number| behind_end(number));
        let extents = added.filter_map(|number| layout.extents.get(number).cloned()).collect();
        let freed = Freed { extents, ..Freed::default() };
        let dropped = Dropped { freed, ..Dropped::default() };
        if !dropped.is_empty() {
            self.commit_dropped(file, &mut layout, dropped, None).await?;
        }
        Err(error)
    }

    /// Makes `start .. end` of a file a hole. `cut`: the file ends at `start`.
    ///
    ///   1. Plan: which pieces and extents lie in the range as a whole, and which bytes at its
    ///      edges do not ([`Dropped`]).
    ///   2. Write zeros over the bytes at the edges.
    ///   3. Commit: pieces lose their marks, extents are deleted, a file that is cut to nothing
    ///      loses its slot.
    ///   4. Bring the layout up to date; places are free when the commit is durable.
    async fn drop_range(
        &self,
        file: &Arc<File>,
        layout: &mut Layout,
        start: u64,
        end: u64,
        cut: Option<u64>,
    ) -> Result<()> {
        let dropped = Dropped::plan(layout, start..end, self.au_size, cut == Some(0));
        for (extent, inside) in dropped.edges.iter().filter(|_| !planted::has(Bug::TailLeft)) {
            let length = usize::try_from(inside.end - inside.start).expect("64 KiB at most");
            let zeros = Buffer::zeroed(length).share();
            self.write_part(extent, inside.clone(), &Source::Shared(zeros)).await?;
        }
        if dropped.is_empty() {
            return Ok(());
        }
        self.commit_dropped(file, layout, dropped, cut).await
    }

    /// Steps 3 and 4 of [`Self::drop_range`].
    async fn commit_dropped(
        &self,
        file: &Arc<File>,
        layout: &mut Layout,
        dropped: Dropped,
        cut: Option<u64>,
    ) -> Result<()> {
        let Dropped { cleared, freed, .. } = dropped;
        let has_slot_freed = !freed.slots.is_empty();
        let units = (layout.extents.len() - freed.extents.len()) as u64 * self.au_size;
        let slot_size = if layout.slot.is_some() && !has_slot_freed { PIECE_SIZE } else { 0 };
        let blocks = (units + slot_size) / 512;
        let now = self.world.now();
        let (owner, gone, extents) =
            (Arc::clone(file), freed.extents.clone(), Arc::clone(&self.extents));
        let _release = self.freeing.begin();
        let holes: Vec<(ExtentId, Vec<Piece>)> =
            cleared.iter().map(|(extent, pieces)| (extent.id, pieces.clone())).collect();
        let job = move |connection: &rusqlite::Connection| {
            for (extent, pieces) in &cleared {
                extent::change_marks(connection, extent, |written, pending| {
                    for piece in pieces {
                        written.remove(*piece);
                        pending.remove(*piece);
                    }
                })?;
            }
            let deleted = extent::delete(connection, &gone)?;
            if let Some(size) = cut {
                let mode = owner.attributes().mode;
                set_size(connection, &owner, size, mode, now)?;
            }
            if has_slot_freed {
                tables::slot::clear(connection, owner.node)?;
            }
            set_blocks(connection, &owner, blocks)?;
            deleted.remove_from(&extents);
            Ok(())
        };
        let committed = self.catalog.release(false, job).await;
        let ((), commit) = committed.inspect_err(|_| self.note_uncertain(file))?;
        file.committed(commit);
        for extent in &freed.extents {
            layout.extents.remove(&extent.number);
        }
        if has_slot_freed {
            layout.slot = None;
        }
        holes.into_iter().for_each(|(extent, pieces)| self.discards.note(extent, pieces));
        self.note_freed(commit, freed);
        Ok(())
    }

    /// `lseek` with `SEEK_DATA` or `SEEK_HOLE`.
    pub(crate) async fn seek_file(&self, file: &Arc<File>, offset: u64, what: Seek) -> Result<u64> {
        let mut layout = file.data.layout.write().await;
        self.load_layout(file, &mut layout).await?;
        self.must_not_be_uncertain(file)?;
        let size = file.attributes().size;
        if offset >= size {
            return Err(FileError::NoData);
        }
        let mut at = offset;
        while at < size {
            let (data, next) = has_data(&layout, at, size, self.au_size);
            if data == (what == Seek::Data) {
                return Ok(at);
            }
            at = next.max(at + 1);
        }
        if what == Seek::Hole { Ok(size) } else { Err(FileError::NoData) }
    }

    /// Where a part of a file has data and where holes: lengths from `offset` on, `most` at most,
    /// to the end of the part or of the file.
    pub(crate) async fn map_file(
        &self,
        file: &Arc<File>,
        offset: u64,
        length: u64,
        most: usize,
    ) -> Result<Vec<(u64, bool)>> {
        let layout = self.loaded_layout(file).await?;
        self.must_not_be_uncertain(file)?;
        let size = file.attributes().size;
        let end = offset.saturating_add(length).min(size);
        let mut ranges: Vec<(u64, bool)> = Vec::new();
        let mut at = offset;
        while at < end {
            let (data, next) = has_data(&layout, at, size, self.au_size);
            let next = next.clamp(at + 1, end);
            let is_full = ranges.len() == most;
            match ranges.last_mut() {
                Some(last) if last.1 == data => last.0 += next - at,
                _ if is_full => break,
                _ => ranges.push((next - at, data)),
            }
            at = next;
        }
        Ok(ranges)
    }
}

/// Sets size, mode and times in a file's row, then in memory. No write of the file may be in
/// progress.
fn set_size(
    connection: &rusqlite::Connection,
    file: &File,
    size: u64,
    mode: u32,
    now: i64,
) -> Result<()> {
    set_row(connection, file, size, mode, now, |attributes| {
        attributes.size = size;
        file.record_truncation(size);
    })
}

/// The same for a file that is at least `end` long; another writer may make it longer meanwhile.
fn grow(
    connection: &rusqlite::Connection,
    file: &File,
    end: u64,
    mode: u32,
    now: i64,
) -> Result<()> {
    let size = file.size().max(end);
    set_row(connection, file, size, mode, now, |attributes| {
        attributes.size = attributes.size.max(size)
    })
}

/// Sets a file's row, then in memory the same, but for the size, which `resized` sets there.
fn set_row(
    connection: &rusqlite::Connection,
    file: &File,
    size: u64,
    mode: u32,
    now: i64,
    resized: impl FnOnce(&mut Attributes),
) -> Result<()> {
    tables::file::set_size_and_mode(connection, file.node, size, mode, now)?;
    let mut attributes = file.attributes();
    resized(&mut attributes);
    attributes.mode = mode;
    attributes.modified = now;
    attributes.changed = now;
    Ok(())
}

/// Pieces whose data was flushed are written.
fn mark_written(
    connection: &rusqlite::Connection,
    pending: &[(Arc<Extent>, Vec<Piece>)],
) -> Result<()> {
    for (extent, pieces) in pending {
        if extent.is_tombstone() {
            continue;
        }
        extent::change_marks(connection, extent, |written, pending| {
            for piece in pieces {
                // A hole punched meanwhile took the mark.
                if pending.has(*piece) {
                    pending.remove(*piece);
                    written.add(*piece);
                }
            }
        })?;
    }
    Ok(())
}
