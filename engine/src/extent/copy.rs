//! Copying what an extent holds to one more disk: to one that has missed writes, or to where a
//! mirror moves.
//!
//! The disk is written with the others from before the copy begins, so that a piece, once copied,
//! stays right. Each piece is held while it is copied, read from a current mirror, and checked:
//! rotten blocks are not copied.

use crate::{
    disk::{counters::IoClient, disk_io::IoResult, member::Member},
    error::FileError,
    event::Severity,
    extent::data::Data,
    extent::{
        Extent, Mirror,
        activity::Active,
        blocks::{BLOCKS_PER_PIECE, FirstMirror, Patience},
    },
    planted::{self, Bug},
    reached::{self, Mark},
    sync::buffer::Slice,
};
use plinth_format::{
    BLOCK_SIZE, Block,
    checksum::{UNKNOWN, of_block},
};
use std::{ops::Range, sync::Arc};
use tokio::sync::Semaphore;

/// The result of a copy.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Copied {
    pub bytes: u64,
    /// Some of it could not be read on any mirror, and is marked so.
    pub lost: bool,
    /// Of that, there is some that a disk failed to read, and may be able to read later.
    pub unread: bool,
}

/// Pieces copied at once: 1 MiB.
const STEP: usize = 16;

impl Data {
    /// Copies every piece of an extent that holds data to its AU on a disk, while `goes_on`, a step
    /// for each permit of `gate`.
    pub(crate) async fn copy_marked(
        &self,
        extent: &Extent,
        member: &Arc<Member>,
        mirror: Mirror,
        gate: Option<&Semaphore>,
        goes_on: impl Fn() -> bool,
    ) -> Result<Copied, FileError> {
        let mut copied = Copied::default();
        let mut piece = 0;
        let pieces = self.blocks_per_au() / BLOCKS_PER_PIECE;
        while goes_on() {
            let _permit = match gate {
                Some(gate) => gate.acquire().await.ok(),
                None => None,
            };
            let Some((_held, run)) = extent.hold_data(piece..pieces, STEP, true).await else {
                break;
            };
            let here = self.copy_pieces(extent, member, mirror, run.clone()).await?;
            copied.bytes += here.bytes;
            copied.lost |= here.lost;
            copied.unread |= here.unread;
            let skips = planted::has(Bug::MoveSkipsBehindStep) && gate.is_some();
            piece = run.end + usize::from(skips);
        }
        Ok(copied)
    }

    /// The caller holds them.
    async fn copy_pieces(
        &self,
        extent: &Extent,
        member: &Arc<Member>,
        mirror: Mirror,
        pieces: Range<usize>,
    ) -> Result<Copied, FileError> {
        let blocks = pieces.start * BLOCKS_PER_PIECE..pieces.end * BLOCKS_PER_PIECE;
        // It may have been deleted or moved, and the AU be another's.
        if extent.is_tombstone() || !extent.is_at(mirror) && !planted::has(Bug::CopyToLeftPlace) {
            return Ok(Copied::default());
        }
        let active = self.activate(extent).await?;
        self.load_sums(extent).await?;
        if let Some(bytes) =
            self.copy_blocks(extent, member, mirror, blocks.clone(), &active).await?
        {
            return Ok(Copied { bytes, ..Copied::default() });
        }
        // The file has lost some of it on every mirror. The disk must not stay away for that, nor
        // miss the rest.
        let mut copied = Copied::default();
        for block in blocks.map(Block) {
            let bytes =
                match self.copy_blocks(extent, member, mirror, block.range(), &active).await? {
                    Some(bytes) => Some(bytes),
                    None => self.bring_back(extent, member, mirror, block).await?,
                };
            copied.lost |= bytes.is_none();
            copied.unread |= bytes.is_none() && self.is_unread(extent, block).await?;
            copied.bytes += match bytes {
                Some(bytes) => bytes,
                None => self.mark_lost(extent, member, mirror, block).await?,
            };
        }
        Ok(copied)
    }

    /// A block that no mirror can be read of, and that the disk has as memory knows it: all mirrors
    /// get it from there. Returns bytes; `None`: the disk has something else, or a mirror has it.
    /// Where a returning disk differs from what can be read, its block is old, whatever a checksum
    /// says that may be old, too.
    async fn bring_back(
        &self,
        extent: &Extent,
        member: &Arc<Member>,
        mirror: Mirror,
        block: Block,
    ) -> Result<Option<u64>, FileError> {
        let known = extent
            .sums()
            .as_ref()
            .map(|sums| (sums.of(block.range()).next(), sums.is_fresh(block)));
        let Some((Some(known), is_fresh)) = known.filter(|(sum, _)| *sum != Some(UNKNOWN)) else {
            return Ok(None);
        };
        if planted::has(Bug::ReturningBlockMarkedLost)
            || !is_fresh && self.is_shown(extent, block).await?
        {
            return Ok(None);
        }
        let ask = || {
            member.start_read(Self::offset(member, mirror, block), BLOCK_SIZE).of(IoClient::Copies)
        };
        let mut found = self.await_io(member, ask(), Patience::UntilExpelled).await?;
        if matches!(found, IoResult::Failed(_)) {
            found = self.await_io(member, ask().again(), Patience::UntilExpelled).await?;
        }
        let bytes = match found {
            IoResult::Ok(Some(bytes)) if of_block(&bytes) == known => bytes.share(),
            _ => return Ok(None),
        };
        self.mend_from(extent, block, bytes).await?;
        let text = format!(
            "4 KiB that no other mirror had are right on disk {} ({}), and are copied from there: {}",
            member.name(),
            member.path(),
            extent.place_of(mirror)
        );
        self.tell(Severity::Warning, Some(mirror.disk), text);
        Ok(Some(BLOCK_SIZE as u64))
    }

    /// Replaces the disk's block where it is lost on every mirror: the disk's bytes are old, and
    /// must not be taken for right.
    async fn mark_lost(
        &self,
        extent: &Extent,
        member: &Arc<Member>,
        mirror: Mirror,
        block: Block,
    ) -> Result<u64, FileError> {
        reached::at(Mark::BlockLostInCopy);
        let offset = Self::offset(member, mirror, block);
        self.write_copy(extent, member, offset, self.lost_block(member, offset).share()).await
    }

    /// Copies blocks whose range is held. `None`: some of them are lost, and nothing was copied.
    async fn copy_blocks(
        &self,
        extent: &Extent,
        member: &Arc<Member>,
        mirror: Mirror,
        blocks: Range<usize>,
        active: &Active<'_>,
    ) -> Result<Option<u64>, FileError> {
        let buffer = match self
            .try_read(extent, blocks.clone(), IoClient::Copies, FirstMirror::RoundRobin)
            .await?
        {
            Some(read) => {
                if !self.is_disputed(extent, &blocks) {
                    extent.mark_proved(blocks.clone());
                }
                read.buffer
            }
            None => match self.repair(extent, blocks.clone(), active).await {
                Ok(buffer) => buffer,
                Err(FileError::ExtentLost { .. }) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        let offset = Self::offset(member, mirror, Block(blocks.start));
        if planted::has(Bug::ResyncFromWrongSide)
            && let IoResult::Ok(Some(old)) = member.start_read(offset, buffer.len()).result().await
        {
            return self
                .write_blocks(extent, Block(blocks.start), old.share(), false, active)
                .await
                .map(|()| Some(0));
        }
        self.write_copy(extent, member, offset, buffer.share()).await.map(Some)
    }

    /// Writes what the disk lacks. Returns bytes: none, if the disk went offline instead.
    pub(crate) async fn write_copy(
        &self,
        extent: &Extent,
        member: &Arc<Member>,
        offset: u64,
        data: Slice,
    ) -> Result<u64, FileError> {
        let bytes = data.len() as u64;
        let mut disk_io = member.start_write(offset, data).of(IoClient::Copies);
        // A disk that must stay in service is waited for: a later write of these blocks must not
        // land before this copy.
        let end = match disk_io.result_in_time().await {
            None if !planted::has(Bug::OverdueCopyLeft) => {
                self.end_or_expel(member, &mut disk_io).await?
            }
            end => Some(end.unwrap_or(IoResult::Overdue)),
        };
        match end {
            Some(ended) if ended.is_ok() => {}
            Some(ended) => return self.expel(member, &ended).await.map(|()| 0),
            None => return Ok(0),
        }
        // The disk's checksum block is written when the region closes.
        extent.mark_dirty();
        Ok(bytes)
    }
}
