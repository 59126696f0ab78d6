//! The bytes that the mirrors of blocks have and the checksums that their zones have, looked at
//! together; and how long a silent disk is waited for.
//!
//! ```text
//!   all answer                                  decide by what they have
//!   another one matches memory, block by block  the silent one is not needed, nor overwritten:
//!                                               it is mended later, or after a crash compared
//!   the others are wrong or unreadable          the silent one is waited for, and not expelled
//!   otherwise (nothing is known, or rivals)     the silent one is waited for, or expelled where
//!                                               it can be spared
//! ```

use super::{
    bytes_of,
    cases::{Case, Evidence, Reason},
};
use crate::{
    disk::{
        counters::IoClient,
        disk_io::{DiskIo, IoResult},
        member::Member,
    },
    error::FileError,
    extent::data::Data,
    extent::{Extent, Mirror, Mirrors},
    planted::{self, Bug},
};
use plinth_format::{
    BLOCK_SIZE, Block,
    checksum::{UNKNOWN, of_block},
    lost,
};
use std::{ops::Range, sync::Arc};

/// How long mirrors are waited for that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as a disk may be silent: the others may be enough.
    Deadline,
    /// Until the disk has answered, or is expelled (R2).
    UntilExpelled,
    /// Until it has answered, for blocks that no other mirror has right: this caller does not expel
    /// the disk. Another may.
    UntilEnd,
}

/// The blocks of a mirror; `None` where they cannot be read.
pub(crate) type Blocks = Vec<Option<Box<[u8]>>>;

/// The blocks of all mirrors.
pub(super) struct Seen<'a> {
    pub candidates: Vec<(Mirror, &'a Arc<Member>)>,
    pub images: Vec<Blocks>,
    /// And what its zone says.
    zones: Vec<Option<Box<[u32]>>>,
    /// Which of them did not answer in time, or were expelled for that.
    pub are_silent: Vec<bool>,
    patience: Patience,
}

impl Seen<'_> {
    /// No block of any mirror could be read.
    pub fn shows_nothing(&self) -> bool {
        self.images.iter().all(|image| image.iter().all(Option::is_none))
    }

    /// Some may still have something else than the others.
    pub fn is_partial(&self) -> bool {
        self.patience == Patience::Deadline && self.are_silent.contains(&true)
    }

    /// Those that were silent.
    pub fn silent(&self) -> impl Iterator<Item = &Arc<Member>> {
        let all = self.candidates.iter().zip(&self.are_silent);
        all.filter(|(_, is_silent)| **is_silent).map(|((_, member), _)| *member)
    }

    /// How long the silent mirrors are to be waited for. That depends on whether the others have
    /// all of the `blocks` blocks right.
    pub fn patience_for(&self, reason: Reason, known: &Known, blocks: usize) -> Patience {
        let all = || (0..blocks).map(|index| self.evidence(index, reason, known));
        if all().all(|evidence| evidence.suffices()) {
            Patience::Deadline
        } else if all().any(|evidence| matches!(evidence.judge().0, Case::Lost | Case::Unreadable))
        {
            // R5 does not know of one block: if this disk is expelled, what it alone has is lost.
            if planted::has(Bug::OnlyGoodLetGo) {
                Patience::UntilExpelled
            } else {
                Patience::UntilEnd
            }
        } else {
            Patience::UntilExpelled
        }
    }

    /// The evidence for one of the blocks.
    pub fn evidence(&self, index: usize, reason: Reason, known: &Known) -> Evidence<'_> {
        known.evidence(
            index,
            reason,
            self.images.iter().map(|image| image[index].as_deref()).collect(),
            &self.zones,
        )
    }
}

/// What memory knows of blocks: their checksums, and whether each was made by a write since the
/// zones were.
pub(crate) struct Known {
    /// The first of the blocks, in its extent.
    first: Block,
    sums: Vec<u32>,
    fresh: Vec<bool>,
}

impl Known {
    pub fn of(extent: &Extent, blocks: &Range<usize>) -> Self {
        let sums = extent.sums();
        let is_fresh = |block| sums.as_ref().is_some_and(|sums| sums.is_fresh(Block(block)));
        let of_blocks =
            sums.as_ref().map_or_else(Vec::new, |sums| sums.of(blocks.clone()).collect());
        Self {
            first: Block(blocks.start),
            sums: of_blocks,
            fresh: blocks.clone().map(is_fresh).collect(),
        }
    }

    /// Whether checksums of the extent were in memory at all.
    pub fn is_loaded(&self) -> bool {
        !self.sums.is_empty()
    }

    /// The checksum of one of the blocks.
    pub fn sum(&self, index: usize) -> u32 {
        self.sums.get(index).copied().unwrap_or(UNKNOWN)
    }

    /// The evidence for one of the blocks: the bytes that mirrors have, and the zone of each of
    /// them.
    pub fn evidence<'a>(
        &self,
        index: usize,
        reason: Reason,
        mirrors: Vec<Option<&'a [u8]>>,
        zones: &[Option<Box<[u32]>>],
    ) -> Evidence<'a> {
        let stored = |zone: &Option<Box<[u32]>>| {
            zone.as_ref().map_or(UNKNOWN, |zone| zone[self.first.plus(index).0])
        };
        let (known, fresh) = (self.sum(index), self.fresh[index]);
        Evidence { reason, mirrors, known, fresh, stored: zones.iter().map(stored).collect() }
    }
}

impl Data {
    /// Reads blocks, and the zones beside them, on all mirrors on ONLINE disks.
    pub(super) async fn see(
        &self,
        mirrors: Mirrors,
        blocks: &Range<usize>,
        patience: Patience,
    ) -> Result<Seen<'_>, FileError> {
        let candidates =
            self.members_of(mirrors).filter(|(_, member)| member.is_readable()).collect();
        let (images, zones, are_silent) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = Seen { candidates, images, zones, are_silent, patience };
        for (mirror, member) in seen.candidates.clone() {
            if patience == Patience::Deadline && member.is_hung() {
                // I/O sent to a silent disk stays in flight. Each comparison would add to it.
                seen.are_silent.push(true);
                seen.images.push(vec![None; blocks.len()]);
                seen.zones.push(None);
                continue;
            }
            let image = self.read_image(member, mirror, blocks.clone(), patience).await?;
            let zone = self.await_io(member, Self::start_zone(member, mirror), patience).await?;
            seen.are_silent.push(image.is_none() || matches!(zone, IoResult::Overdue));
            seen.images.push(image.unwrap_or_else(|| vec![None; blocks.len()]));
            seen.zones.push(self.zone_in(zone));
        }
        Ok(seen)
    }

    /// Whether a disk that is ONLINE may have a block right which a copy could not read: it fails
    /// to read it, or can read it by now. A mark of a lost block is not right, nor a block that
    /// does not match its checksum.
    pub(crate) async fn is_unread(&self, extent: &Extent, block: Block) -> Result<bool, FileError> {
        let known = Known::of(extent, &block.range()).sum(0);
        for (mirror, member) in self.mirrors(extent).filter(|(_, member)| member.is_readable()) {
            let image = self.read_all(member, mirror, block.range(), Patience::UntilEnd).await?;
            let Some(bytes) = image.and_then(|mut blocks| blocks.remove(0)) else {
                return Ok(true);
            };
            let is_mark = lost::is_mark(
                &bytes,
                self.envelope_at(member, Self::offset(member, mirror, block)),
            );
            if !is_mark && (known == UNKNOWN || of_block(&bytes) == known) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// One mirror's blocks as they are, `None` where they cannot be read. `None` of all: the disk
    /// is silent, or was expelled for that.
    async fn read_all(
        &self,
        member: &Arc<Member>,
        mirror: Mirror,
        blocks: Range<usize>,
        patience: Patience,
    ) -> Result<Option<Blocks>, FileError> {
        let whole = member
            .start_read(Self::offset(member, mirror, Block(blocks.start)), bytes_of(blocks.len()));
        match self.await_io(member, whole.of(IoClient::Checks), patience).await? {
            IoResult::Ok(Some(buffer)) => {
                Ok(Some(buffer.chunks_exact(BLOCK_SIZE).map(|block| Some(block.into())).collect()))
            }
            IoResult::Overdue => Ok(None),
            _ => {
                let mut image = Vec::with_capacity(blocks.len());
                for block in blocks {
                    let one = member
                        .start_read(Self::offset(member, mirror, Block(block)), BLOCK_SIZE)
                        .of(IoClient::Checks);
                    image.push(match self.await_io(member, one.again(), patience).await? {
                        IoResult::Ok(Some(buffer)) => Some(Box::from(&*buffer)),
                        IoResult::Overdue => return Ok(None),
                        _ => None,
                    });
                }
                Ok(Some(image))
            }
        }
    }

    /// Waits for an I/O, as long as `patience` says. Overdue: it has not ended, or the disk was
    /// expelled for that.
    pub(crate) async fn await_io(
        &self,
        member: &Arc<Member>,
        mut disk_io: DiskIo<'_>,
        patience: Patience,
    ) -> Result<IoResult, FileError> {
        let end = match (disk_io.result_in_time().await, patience) {
            (None, Patience::UntilExpelled) => self.end_or_expel(member, &mut disk_io).await?,
            (None, Patience::UntilEnd) => self.end_unless_gone(member, &mut disk_io).await?,
            (end, _) => end,
        };
        Ok(end.unwrap_or(IoResult::Overdue))
    }

    /// Waits for an overdue I/O on a disk that cannot be spared (R2). `None`: it can, and is
    /// expelled.
    ///
    /// # Errors
    /// When the group is dismounted: a read ends when that begins. A write is waited for until all
    /// disks are released: its place must not get another owner before the write has landed.
    pub(crate) async fn end_or_expel(
        &self,
        member: &Arc<Member>,
        disk_io: &mut DiskIo<'_>,
    ) -> Result<Option<IoResult>, FileError> {
        loop {
            let may_land = !disk_io.is_read() && !planted::has(Bug::CopyLeftAtDismount);
            let ends = if may_land { self.voters.is_closing() } else { self.is_stopping() };
            match self.expel_because(member, &disk_io.delay()).await {
                Ok(()) => return Ok(None),
                Err(FileError::Refused { .. }) if ends => return Err(FileError::Dismounted),
                // Others that were silent with it may answer meanwhile: then it is spared.
                Err(FileError::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
            if let Some(end) = disk_io.wait_a_while(&*self.world).await {
                return Ok(Some(end));
            }
        }
    }

    /// Waits for a read that is overdue. `None`: the disk has gone, for another reason.
    async fn end_unless_gone(
        &self,
        member: &Member,
        disk_io: &mut DiskIo<'_>,
    ) -> Result<Option<IoResult>, FileError> {
        while member.is_readable() {
            if self.is_stopping() {
                return Err(FileError::Dismounted);
            }
            if let Some(end) = disk_io.wait_a_while(&*self.world).await {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// One mirror's blocks, `None` where they cannot be read, or a resync found nothing to copy.
    pub(crate) async fn read_image(
        &self,
        member: &Arc<Member>,
        mirror: Mirror,
        blocks: Range<usize>,
        patience: Patience,
    ) -> Result<Option<Blocks>, FileError> {
        let first = Block(blocks.start);
        let Some(mut image) = self.read_all(member, mirror, blocks, patience).await? else {
            return Ok(None);
        };
        for (index, block) in image.iter_mut().enumerate() {
            let here = self.envelope_at(member, Self::offset(member, mirror, first.plus(index)));
            *block = block.take().filter(|bytes| !lost::is_mark(bytes, here));
        }
        Ok(Some(image))
    }
}
