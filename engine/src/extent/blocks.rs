//! Reading and writing blocks of one extent on all its mirrors.
//!
//! Writing: all writable mirrors at once, from one buffer; acknowledged when every one has it (`blocks/write.rs`).
//!
//! Reading: one online mirror, checked block by block (`blocks/read.rs`). Bytes that do not match, or cannot be read, are
//! looked up on the other mirrors and rewritten. Which of them is
//! right, block by block, is a table: `blocks/cases.rs`, and docs/format.md, section 8. In short:
//!
//! ```text
//!   known in memory, some mirror matches      that one is right
//!   a mirror matches what some zone stores    that one is right      (only while memory came from a zone)
//!   two differ, each matches its own zone     neither is overwritten, and an ALARM is told (`disputes.rs`)
//!   all mirrors are equal (two or more)       they are right, the checksum block was bad
//!   not known, mirrors differ                 after a crash or a failed write: the lowest mirror (either is legal)
//!   otherwise                                 lost: an error, never other bytes
//! ```
//!
//! After a crash ("reconcile") equal mirrors come first: in an active region the zone
//! is older than the data.
//!
//! Callers hold the blocks' range, exclusively where they write, and have entered the
//! region where they write.

pub(crate) mod cases;
mod read;
mod seen;
mod write;
mod zones;

pub(crate) use read::{Answer, Asked, Order};
use seen::Seen;
pub(crate) use seen::{Known, Patience};

use crate::{
    disk::{counters::IoClient, disk_errors::Trouble, disk_io::Settled, member::Member},
    error::FileError,
    event::Severity,
    extent::data::Data,
    extent::{Extent, Mirror, Mirrors, activity::Active, disputes::Image},
    planted::{self, Bug},
    reached::{self, Mark},
    sync::buffer::{Buffer, Slice},
};
use cases::{Case, Reason};
use plinth_format::{
    BLOCK_SIZE,
    checksum::{UNKNOWN, of_block},
    envelope::Envelope,
    layout::PIECE_SIZE,
    lost,
};
use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

/// Blocks in a piece.
pub const BLOCKS_PER_PIECE: usize = PIECE_SIZE as usize / BLOCK_SIZE;
/// Blocks read and compared at once: 1 MiB.
const STEP: usize = 256;

/// What comparing found and did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compared {
    /// Bytes of file data looked at, mirrors not counted.
    pub bytes: u64,
    /// Bytes rewritten, summed over mirrors.
    pub copied: u64,
    /// Blocks that stay wrong, summed over mirrors on disks that stay.
    pub left: u64,
    /// Of those, blocks whose disk did not answer, so that they could not be compared.
    pub unseen: u64,
}

/// A block that was rewritten on one mirror.
#[derive(Clone, Copy)]
struct Rewritten<'a> {
    member: &'a Arc<Member>,
    offset: u64,
    /// Of those compared.
    index: usize,
}

/// The blocks of a piece.
pub(crate) fn blocks_of_piece(piece: usize) -> Range<usize> {
    piece * BLOCKS_PER_PIECE..(piece + 1) * BLOCKS_PER_PIECE
}

fn bytes_of(blocks: usize) -> usize {
    blocks * BLOCK_SIZE
}

impl Data {
    /// An extent's mirrors with their disks, in order. What a damaged catalog puts where no data lies is none.
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

    pub(crate) fn offset(member: &Member, mirror: Mirror, block: usize) -> u64 {
        member.layout().au_offset(mirror.au) + bytes_of(block) as u64
    }

    /// Finds the right bytes of blocks among all mirrors, and rewrites the wrong ones.
    pub(crate) async fn repair(
        &self,
        extent: &Extent,
        blocks: Range<usize>,
        active: &Active<'_>,
    ) -> Result<Buffer, FileError> {
        Ok(self.compare(extent, blocks, Reason::Repair, active).await?.0)
    }

    /// As [`Self::repair`], for who wants to know whether all mirrors are right now.
    pub(crate) async fn mend(
        &self,
        extent: &Extent,
        blocks: Range<usize>,
        active: &Active<'_>,
    ) -> Result<bool, FileError> {
        Ok(self.compare(extent, blocks, Reason::Repair, active).await?.1.left == 0)
    }

    /// Makes the mirrors of an extent equal after a crash; its whole range is held.
    pub(crate) async fn reconcile(
        &self,
        extent: &Extent,
        active: &Active<'_>,
    ) -> Result<Compared, FileError> {
        let marked = extent.state().marked();
        let mut total = Compared::default();
        let mut pieces = marked.iter().peekable();
        while let Some(first) = pieces.next() {
            let mut last = first;
            while pieces.peek() == Some(&(last + 1)) && (last + 1 - first) * BLOCKS_PER_PIECE < STEP
            {
                last += 1;
                pieces.next();
            }
            let blocks = first * BLOCKS_PER_PIECE..(last + 1) * BLOCKS_PER_PIECE;
            match self.compare(extent, blocks.clone(), Reason::Crash, active).await {
                Ok((_, compared)) => {
                    total.bytes += compared.bytes;
                    total.copied += compared.copied;
                    total.unseen += compared.unseen;
                }
                // Its reader will hear of it; the rest of the extent must not wait.
                Err(FileError::ExtentLost { .. }) => total.bytes += bytes_of(blocks.len()) as u64,
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    async fn compare(
        &self,
        extent: &Extent,
        blocks: Range<usize>,
        reason: Reason,
        _active: &Active<'_>,
    ) -> Result<(Buffer, Compared), FileError> {
        self.load_sums(extent).await?;
        let (mirrors, target) = extent.places();
        let mut seen = self.see(mirrors, &blocks, Patience::Deadline).await?;
        let known = Known::of(extent, &blocks);
        if seen.is_partial() {
            let patience = seen.patience_for(reason, &known, blocks.len());
            if patience == Patience::Deadline {
                seen.silent()
                    .for_each(|member| self.expel_in_background(member, Settled::Overdue.reason()));
            } else {
                reached::at(Mark::SilentMirrorNeeded);
                seen = self.see(mirrors, &blocks, patience).await?;
            }
        }
        let Seen { candidates, images, are_silent, .. } = &seen;
        if images.iter().all(|image| image.iter().all(Option::is_none)) {
            if reason == Reason::Crash {
                extent.forget_sums(blocks.start, blocks.len());
            }
            return Err(self.lost(extent, candidates.len()));
        }
        let mut result = Buffer::zeroed(bytes_of(blocks.len()));
        let mut sums = Vec::with_capacity(blocks.len());
        let (mut lost, mut guessed) = (false, false);
        let mut rivals = Vec::new();
        // Of each mirror, blocks that are right and its zone wrong.
        let mut bad_zones = vec![0; candidates.len()];
        for index in 0..blocks.len() {
            let evidence = seen.evidence(index, reason, &known);
            let (case, winner) = evidence.judge();
            guessed |= case == Case::Lowest;
            match case {
                Case::Rivals => reached::at(Mark::PairsInDispute),
                Case::Lowest => reached::at(Mark::LowestTaken),
                Case::BadChecksum => reached::at(Mark::ChecksumRefuted),
                _ => {}
            }
            if case == Case::Rivals {
                rivals.push(index);
            }
            if let (
                Reason::Repair,
                Case::ByMemory | Case::ByZone | Case::BadChecksum,
                Some(right),
                false,
            ) = (reason, case, winner, evidence.fresh)
            {
                let sum = of_block(right);
                for ((bad, image), stored) in
                    bad_zones.iter_mut().zip(&evidence.mirrors).zip(&evidence.stored)
                {
                    *bad +=
                        usize::from(*image == Some(right) && *stored != sum && *stored != UNKNOWN);
                }
            }
            if let Some(winner) = winner {
                result[bytes_of(index)..bytes_of(index + 1)].copy_from_slice(winner);
                sums.push(Some(of_block(winner)));
            } else {
                lost = true;
                sums.push(None);
            }
        }
        let result = result.share();
        let (mut copied, mut left, mut unseen) = (0, 0, 0);
        let mut rewritten = Vec::new();
        for (((mirror, member), image), is_silent) in candidates.iter().zip(images).zip(are_silent)
        {
            for (index, sum) in sums.iter().enumerate() {
                let part = result.part(bytes_of(index)..bytes_of(index + 1));
                let offset = Self::offset(member, *mirror, blocks.start + index);
                let is_shown = image[index].as_deref() == Some(&part[..]);
                let is_there = is_shown && !member.is_mend_uncertain(offset, BLOCK_SIZE as u64);
                if sum.is_none() || is_there || rivals.contains(&index) {
                    continue;
                }
                if (*is_silent || member.is_hung()) && !planted::has(Bug::UnseenOverwritten) {
                    // A mirror that could not be compared is not overwritten: it may have data that matches its own checksum, and be the
                    // right one. Nor does a read that has its bytes wait for a silent disk.
                    let later = self.mend_later(extent, member, blocks.start + index);
                    (left, unseen) = (left + later, unseen + later);
                    continue;
                }
                copied += BLOCK_SIZE as u64;
                let is_written = self.rewrite(member, offset, part.clone()).await?;
                if !is_written {
                    left += self.mend_later(extent, member, blocks.start + index);
                    continue;
                }
                rewritten.push(Rewritten { member, offset, index });
                let reads_back = if reason == Reason::Repair {
                    self.reads_back(member, offset, &part).await
                } else {
                    Some(true)
                };
                if reads_back.is_none() {
                    left += self.mend_later(extent, member, blocks.start + index);
                    continue;
                }
                if reads_back == Some(false) {
                    let place = extent.place_of(*mirror);
                    let text = format!(
                        "4 KiB at offset {offset} of disk {} ({}) were rewritten from another mirror, and cannot be read back: {place}",
                        member.name(),
                        member.path()
                    );
                    member.note(Trouble::NotRepaired, Some((offset, BLOCK_SIZE as u64)), place);
                    self.tell(Severity::Warning, Some(mirror.disk), text);
                    left += 1;
                    continue;
                }
                if reason == Reason::Repair && !is_shown {
                    member.counters.repaired.fetch_add(1, Ordering::Relaxed);
                    let place = extent.place_of(*mirror);
                    let text = format!(
                        "repaired 4 KiB at offset {offset} of disk {} ({}): {place}",
                        member.name(),
                        member.path()
                    );
                    member.note(Trouble::Repaired, Some((offset, BLOCK_SIZE as u64)), place);
                    self.tell(Severity::Warning, Some(mirror.disk), text);
                }
            }
        }
        if target.is_some() && !planted::has(Bug::GuestNotMended) {
            // It may have what no mirror took.
            let written: Vec<Option<u32>> = sums
                .iter()
                .enumerate()
                .map(|(index, sum)| sum.filter(|_| !rivals.contains(&index)))
                .collect();
            self.write_to_target(extent, target, blocks.start, &written, &result).await?;
        }
        if copied > 0
            && (reason == Reason::Crash || guessed)
            && !planted::has(Bug::RecoveryNotFlushed)
        {
            // What somebody has read stays so: another loss of power must not bring back what the others had.
            left += self.flush_rewritten(extent, blocks.start, &result, rewritten).await?;
        }
        for (index, sum) in sums.iter().enumerate() {
            match sum {
                Some(sum) if rivals.contains(&index) => {
                    extent.prefer_sum(blocks.start + index, *sum)
                }
                // Memory says that already, and who was not seen may differ.
                Some(_) if seen.is_partial() => {}
                Some(sum) => extent.set_sums(blocks.start + index, &[*sum]),
                // The zone may be older than what nobody could read.
                None if reason == Reason::Crash => extent.forget_sums(blocks.start + index, 1),
                None => {}
            }
        }
        self.tell_bad_zones(extent, candidates, &bad_zones);
        if !seen.is_partial() {
            let shown: Vec<Image<'_>> =
                images.iter().map(|image| image.iter().map(Option::as_deref).collect()).collect();
            self.note_disputes(extent, blocks.clone(), &rivals, candidates, &shown);
        }
        if lost {
            for ((mirror, member), image) in candidates.iter().zip(images) {
                let refuted = sums
                    .iter()
                    .zip(image)
                    .filter(|(sum, bytes)| sum.is_none() && bytes.is_some())
                    .count();
                if refuted > 0 {
                    self.note_mismatch(extent, &blocks, *mirror, member);
                }
            }
            let error = self.lost(extent, candidates.len());
            self.tell(Severity::Alarm, None, error.to_string());
            return Err(error);
        }
        let buffer = Buffer::copy_of(&result);
        Ok((buffer, Compared { bytes: bytes_of(blocks.len()) as u64, copied, left, unseen }))
    }

    /// Flushes until what was rewritten is durable. How many blocks stay wrong.
    async fn flush_rewritten(
        &self,
        extent: &Extent,
        first: usize,
        data: &Slice,
        mut rewritten: Vec<Rewritten<'_>>,
    ) -> Result<u64, FileError> {
        let mut left = 0;
        loop {
            self.flush_disks().await?;
            // Another task's flush may have failed since the rewrite and lost some blocks. Our own flush does not restore them.
            let is_lost = |block: &Rewritten<'_>| {
                block.member.is_mend_uncertain(block.offset, BLOCK_SIZE as u64)
            };
            rewritten.retain(|block| block.member.is_writable() && is_lost(block));
            if rewritten.is_empty() || planted::has(Bug::RecoveryFlushBelieved) {
                return Ok(left);
            }
            reached::at(Mark::RewriteRepeated);
            for block in std::mem::take(&mut rewritten) {
                let Rewritten { member, offset, index } = block;
                let part = data.part(bytes_of(index)..bytes_of(index + 1));
                if self.rewrite(member, offset, part).await? {
                    rewritten.push(block);
                } else {
                    left += self.mend_later(extent, member, first + index);
                }
            }
        }
    }

    /// Data is right, and what a disk stores of its checksums is not: that is written again when the region closes.
    fn tell_bad_zones(
        &self,
        extent: &Extent,
        candidates: &[(Mirror, &Arc<Member>)],
        bad: &[usize],
    ) {
        if bad.iter().any(|count| *count > 0) {
            extent.doubt_zones();
        }
        for ((mirror, member), count) in candidates.iter().zip(bad).filter(|(_, count)| **count > 0)
        {
            let (offset, length) = member.layout().sums_of(mirror.au);
            let place = extent.place_of(*mirror);
            let text = format!(
                "disk {} ({}): the checksum block at offset {offset} is wrong for {count} blocks whose data is right, and is written \
                 again: {place}",
                member.name(),
                member.path()
            );
            member.note(
                Trouble::Checksum,
                Some((offset, length as u64)),
                format!("checksum block: {place}"),
            );
            self.tell(Severity::Warning, Some(mirror.disk), text);
        }
    }

    /// The place that a mirror moved to when mirrors were compared gets what they have now: it may have a copy of what was wrong, or a write that
    /// failed on all of them.
    async fn write_to_target(
        &self,
        extent: &Extent,
        target: Option<Mirror>,
        first: usize,
        sums: &[Option<u32>],
        data: &Slice,
    ) -> Result<(), FileError> {
        let Some(target) = target else { return Ok(()) };
        let Some(member) = self.members.get(&target.disk).filter(|member| member.is_writable())
        else {
            return Ok(());
        };
        for index in (0..sums.len()).filter(|index| sums[*index].is_some()) {
            let part = data.part(bytes_of(index)..bytes_of(index + 1));
            // An overdue write is waited for: if the mirror does not move after all, its AU goes to another extent, and the write would land there.
            match self
                .write_copy(extent, member, Self::offset(member, target, first + index), part)
                .await
            {
                Ok(_) => {}
                Err(FileError::Refused { .. }) => _ = extent.turn_away(target),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn envelope_at(&self, member: &Member, place: u64) -> Envelope {
        let (group, disk) = member.origin().unwrap_or_else(|| (self.id, member.id()));
        Envelope { group, disk, place }
    }

    /// What a mirror has where a block could be read on no other: never what it had before.
    pub(crate) fn lost_block(&self, member: &Member, place: u64) -> Buffer {
        Buffer::copy_of(&lost::mark(self.envelope_at(member, place)))
    }

    /// A block of a mirror stays as it is for now. How many: none, where the disk has gone.
    fn mend_later(&self, extent: &Extent, member: &Member, block: usize) -> u64 {
        if !member.is_writable() {
            return 0;
        }
        if let Some(extent) = self.extents.get(extent.id) {
            self.repairs.add_later(&extent, block);
        }
        1
    }

    /// Rewrites a block of one mirror; false if the disk went offline instead. A disk that must stay in service is waited for: a later write of the
    /// block must not land before this one.
    async fn rewrite(
        &self,
        member: &Arc<Member>,
        offset: u64,
        part: Slice,
    ) -> Result<bool, FileError> {
        let broken = member.broken();
        let disk_io = member.start_write(offset, part).of(IoClient::Checks);
        let patience = if planted::has(Bug::OverdueMendLeft) {
            Patience::Deadline
        } else {
            Patience::UntilLetGo
        };
        let settled = self.settle_with(member, disk_io, patience).await?;
        if settled.is_ok() {
            member.note_mended(offset, broken);
            return Ok(true);
        }
        match self.give_up(member, &settled).await {
            Ok(()) => Ok(false),
            // The caller has the right bytes; that this mirror stays wrong is known.
            Err(FileError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a disk has what was just written there: until then nothing is repaired. `None`: it does not answer.
    async fn reads_back(&self, member: &Member, offset: u64, part: &[u8]) -> Option<bool> {
        let found =
            member.start_read(offset, part.len()).of(IoClient::Checks).again().settle().await;
        let is_there = match found {
            Settled::Ok(Some(found)) => found[..] == part[..],
            Settled::Overdue => return None,
            _ => false,
        };
        if is_there {
            member.health.note_mended((offset, part.len()));
        }
        Some(is_there)
    }

    /// Whether some mirror can be read of a block, whatever it has.
    pub(crate) async fn is_shown(&self, extent: &Extent, block: usize) -> Result<bool, FileError> {
        let seen = self.see(extent.mirrors(), &(block..block + 1), Patience::UntilEnd).await?;
        Ok(seen.images.iter().any(|image| image[0].is_some()))
    }

    /// Gives all mirrors on ONLINE disks, and the guest, a block that none of them has. What memory knows of it stays.
    pub(crate) async fn mend_from(
        &self,
        extent: &Extent,
        block: usize,
        bytes: Slice,
    ) -> Result<(), FileError> {
        let (mirrors, target) = extent.places();
        for (mirror, member) in self.members_of(mirrors).filter(|(_, member)| member.is_readable())
        {
            if !self.rewrite(member, Self::offset(member, mirror, block), bytes.clone()).await? {
                self.mend_later(extent, member, block);
            }
        }
        self.write_to_target(extent, target, block, &[Some(of_block(&bytes))], &bytes).await?;
        extent.mark_dirty();
        Ok(())
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

pub(crate) fn piece_of(offset: u64) -> usize {
    usize::try_from(offset / PIECE_SIZE).expect("inside an extent")
}

#[cfg(test)]
mod tests {
    use super::{cases::Evidence, *};

    fn block(byte: u8) -> Vec<u8> {
        vec![byte; BLOCK_SIZE]
    }

    #[test]
    fn every_case_of_the_table() {
        let (good, bad, worse) = (block(1), block(2), block(3));
        let sum = of_block(&good);
        let pick = |choices: &[Option<&[u8]>], known, trusted, stored: &[u32], reason| {
            let (mirrors, stored) = (choices.to_vec(), stored.to_vec());
            Evidence { reason, mirrors, known, fresh: trusted, stored }
                .judge()
                .1
                .map(|bytes| bytes[0])
        };
        use Reason::{Crash, Repair};
        // Known in memory.
        assert_eq!(pick(&[Some(&bad), Some(&good)], sum, true, &[], Repair), Some(1));
        assert_eq!(pick(&[None, Some(&good)], sum, true, &[], Repair), Some(1));
        // One zone was bad, the other is right.
        assert_eq!(pick(&[Some(&bad), Some(&good)], 77, false, &[77, sum], Repair), Some(1));
        // A zone says nothing against memory that is newer.
        assert_eq!(pick(&[Some(&bad), Some(&good)], 77, true, &[77, sum], Repair), None);
        // Both zones bad, mirrors equal.
        assert_eq!(pick(&[Some(&good), Some(&good)], 77, false, &[77, 78], Repair), Some(1));
        // One mirror and a wrong sum: lost, not guessed.
        assert_eq!(pick(&[Some(&bad)], sum, false, &[sum], Repair), None);
        assert_eq!(pick(&[Some(&bad), Some(&worse)], sum, false, &[sum], Repair), None);
        assert_eq!(pick(&[None, None], sum, false, &[sum], Repair), None);
        // After a crash: equal first, then the stored sum, then the lowest.
        assert_eq!(pick(&[Some(&bad), Some(&bad)], sum, false, &[sum], Crash), Some(2));
        assert_eq!(pick(&[Some(&bad), Some(&good)], sum, false, &[sum], Crash), Some(1));
        assert_eq!(pick(&[Some(&bad), Some(&worse)], sum, false, &[sum], Crash), Some(2));
        assert_eq!(pick(&[None, Some(&worse)], sum, false, &[sum], Crash), Some(3));
        // Two that differ, each right by its own zone: what memory has or the lowest, but rather what most have.
        for (reason, known) in
            [(Crash, sum), (Repair, sum), (Repair, UNKNOWN), (Repair, of_block(&bad))]
        {
            let (one, other) = (of_block(&good), of_block(&bad));
            let first = if known == sum { Some(1) } else { Some(2) };
            assert_eq!(
                pick(&[Some(&bad), Some(&good)], known, false, &[other, one], reason),
                first
            );
            assert_eq!(
                pick(
                    &[Some(&bad), Some(&good), Some(&good)],
                    known,
                    false,
                    &[other, one, one],
                    reason
                ),
                Some(1)
            );
        }
    }
}
