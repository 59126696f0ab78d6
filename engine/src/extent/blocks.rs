//! Reading and writing blocks of one extent on all its mirrors.
//!
//! Writing: all writable mirrors at once, from one buffer; acknowledged when every one has it
//! (`blocks/write.rs`).
//!
//! Reading: one online mirror, checked block by block (`blocks/read.rs`). Blocks that do not match,
//! or cannot be read, are looked up on the other mirrors and rewritten (`blocks/compare.rs`). Which
//! mirror is right, block by block, is a table: `blocks/cases.rs`, and docs/format.md, section 8.
//! In short:
//!
//! ```text
//!   known in memory, some mirror matches    that one is right
//!   a mirror matches what some zone stores  that one is right (only while memory came from a zone)
//!   two differ, each matches its own zone   neither is overwritten; an ALARM (`disputes.rs`)
//!   all mirrors are equal (two or more)     they are right, the checksum block was bad
//!   not known, mirrors differ               after a crash or a failed write: the lowest mirror
//!                                           (either is legal)
//!   otherwise                               lost: an error, never other bytes
//! ```
//!
//! After a crash ("reconcile") equal mirrors come first: in an active region the zone is older than
//! the data.
//!
//! Callers hold the blocks' range, exclusively where they write, and have entered the region where
//! they write.

pub(crate) mod cases;
mod compare;
mod read;
mod seen;
mod write;
mod zones;

pub(crate) use read::{FirstMirror, MirrorAnswer, PendingRead};
pub(crate) use seen::{Known, Patience};

use crate::{
    disk::member::Member,
    error::FileError,
    extent::{Extent, Mirror, Mirrors, data::Data},
    sync::buffer::Buffer,
};
pub use plinth_format::layout::BLOCKS_PER_PIECE;
use plinth_format::{BLOCK_SIZE, Block, envelope::Envelope, lost};
use std::{ops::Range, sync::Arc};

/// Blocks read and compared at once: 1 MiB.
const STEP: usize = 256;

fn bytes_of(blocks: usize) -> usize {
    blocks * BLOCK_SIZE
}

impl Data {
    /// An extent's mirrors with their disks, in order. Mirrors that a damaged catalog puts where no
    /// data lies are left out.
    pub(crate) fn mirrors<'a>(
        &'a self,
        extent: &Extent,
    ) -> impl Iterator<Item = (Mirror, &'a Arc<Member>)> + use<'a> {
        self.members_of(extent.mirrors())
    }

    fn members_of(&self, mirrors: Mirrors) -> impl Iterator<Item = (Mirror, &Arc<Member>)> {
        let known = mirrors
            .into_iter()
            .filter_map(|mirror| self.members.get(&mirror.disk).map(|member| (mirror, member)));
        known.filter(|(mirror, member)| member.layout().is_data(mirror.au))
    }

    pub(crate) fn offset(member: &Member, mirror: Mirror, block: Block) -> u64 {
        member.layout().au_offset(mirror.au) + block.offset()
    }

    fn envelope_at(&self, member: &Member, place: u64) -> Envelope {
        let (group, disk) = member.origin().unwrap_or_else(|| (self.id, member.id()));
        Envelope { group, disk, place }
    }

    /// The bytes that a mirror gets for a block that could be read on no other: never what it had
    /// before.
    pub(crate) fn lost_block(&self, member: &Member, place: u64) -> Buffer {
        Buffer::copy_of(&lost::mark(self.envelope_at(member, place)))
    }

    /// Whether some mirror can be read of a block, whatever it has.
    pub(crate) async fn is_shown(&self, extent: &Extent, block: Block) -> Result<bool, FileError> {
        let seen = self.see(extent.mirrors(), &block.range(), Patience::UntilEnd).await?;
        Ok(seen.images.iter().any(|image| image[0].is_some()))
    }

    pub(crate) fn lost(&self, extent: &Extent, tried: usize) -> FileError {
        FileError::ExtentLost { file: extent.file, extent: extent.number, tried }
    }
}

pub(crate) fn blocks_of(bytes: &Range<u64>) -> Range<usize> {
    let block = BLOCK_SIZE as u64;
    let index = |offset: u64| usize::try_from(offset).expect("inside an extent");
    index(bytes.start / block)..index(bytes.end.div_ceil(block))
}
