//! Comparing the mirrors of blocks, and rewriting those that are wrong.
//!
//!   1. Read the blocks on all mirrors, and the zones beside them. A silent mirror that the
//!      decision needs is waited for (`seen.rs`).
//!   2. Judge each block by the table (`cases.rs`): which bytes are right; whether it is lost, or
//!      in dispute.
//!   3. Rewrite it on each mirror that shows something else; after a repair, read it back.
//!   4. Write it to the place that a mirror moves to.
//!   5. Flush, where mirrors differed and either was legal: once a reader has seen a choice, a loss
//!      of power must not undo it.
//!   6. Remember the checksums of what is right.
//!   7. Report checksum blocks that are wrong, disputes, and lost blocks.
//!
//! A crash after 3 leaves mirrors that the region's entry in the activity log has compared again.

use super::{
    BLOCKS_PER_PIECE, Known, Patience, STEP, bytes_of,
    cases::{Case, Evidence, Reason},
    seen::Seen,
};
use crate::{
    disk::{counters::IoClient, disk_errors::Trouble, disk_io::IoResult, member::Member},
    error::FileError,
    event::Severity,
    extent::{Extent, Mirror, Mirrors, activity::Active, data::Data, disputes::Image},
    planted::{self, Bug},
    reached::{self, Mark},
    sync::buffer::{Buffer, Slice},
};
use plinth_format::{
    BLOCK_SIZE, Block,
    checksum::{UNKNOWN, of_block},
};
use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

/// The result of comparing blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Compared {
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

/// The verdict on blocks (step 2).
struct Judged {
    /// Zeros where a block is lost.
    bytes: Slice,
    /// `None`: it is lost.
    sums: Vec<Option<u32>>,
    /// In dispute: none of them is overwritten.
    rivals: Vec<usize>,
    /// Of some block either mirror was legal.
    guessed: bool,
    /// Of each mirror, blocks that are right although its zone says otherwise.
    bad_zones: Vec<usize>,
}

impl Judged {
    fn of(seen: &Seen<'_>, known: &Known, reason: Reason, blocks: usize) -> Self {
        let mut bytes = Buffer::zeroed(bytes_of(blocks));
        let mut sums = Vec::with_capacity(blocks);
        let mut bad_zones = vec![0; seen.candidates.len()];
        let (mut rivals, mut guessed) = (Vec::new(), false);
        for index in 0..blocks {
            let evidence = seen.evidence(index, reason, known);
            let (case, right) = evidence.judge();
            guessed |= case == Case::Lowest;
            match case {
                Case::Rivals => {
                    reached::at(Mark::PairsInDispute);
                    rivals.push(index);
                }
                Case::Lowest => reached::at(Mark::LowestTaken),
                Case::BadChecksum => reached::at(Mark::ChecksumRefuted),
                _ => {}
            }
            if reason == Reason::Repair {
                count_bad_zones(&evidence, case, right, &mut bad_zones);
            }
            if let Some(right) = right {
                bytes[bytes_of(index)..bytes_of(index + 1)].copy_from_slice(right);
            }
            sums.push(right.map(of_block));
        }
        Self { bytes: bytes.share(), sums, rivals, guessed, bad_zones }
    }

    /// The right bytes of one of the blocks.
    fn part(&self, index: usize) -> Slice {
        self.bytes.part(bytes_of(index)..bytes_of(index + 1))
    }

    fn is_lost(&self) -> bool {
        self.sums.iter().any(Option::is_none)
    }

    /// The checksums of blocks that are right on all mirrors now.
    fn agreed(&self) -> Vec<Option<u32>> {
        let sums = self.sums.iter().enumerate();
        sums.map(|(index, sum)| sum.filter(|_| !self.rivals.contains(&index))).collect()
    }
}

/// Counts the mirrors whose zone is wrong for a block that is right.
fn count_bad_zones(
    evidence: &Evidence<'_>,
    case: Case,
    right: Option<&[u8]>,
    bad_zones: &mut [usize],
) {
    let (Case::ByMemory | Case::ByZone | Case::BadChecksum, Some(right), false) =
        (case, right, evidence.fresh)
    else {
        return;
    };
    let sum = of_block(right);
    for ((bad, image), stored) in bad_zones.iter_mut().zip(&evidence.mirrors).zip(&evidence.stored)
    {
        *bad += usize::from(*image == Some(right) && *stored != sum && *stored != UNKNOWN);
    }
}

/// The rewrites of wrong blocks (step 3).
#[derive(Default)]
struct Rewrites<'a> {
    /// Bytes, summed over mirrors.
    copied: u64,
    /// Blocks that stay wrong.
    left: u64,
    /// Of those, blocks on a disk that did not answer.
    unseen: u64,
    made: Vec<Rewritten<'a>>,
}

impl Data {
    /// Finds the right bytes of blocks among all mirrors, and rewrites the wrong ones.
    pub(crate) async fn repair(
        &self,
        extent: &Extent,
        blocks: Range<usize>,
        active: &Active<'_>,
    ) -> Result<Buffer, FileError> {
        Ok(self.compare(extent, blocks, Reason::Repair, active).await?.0)
    }

    /// As [`Self::repair`]. Returns whether all mirrors are right now.
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
            while pieces.peek() == Some(&last.next())
                && (last.0 + 1 - first.0) * BLOCKS_PER_PIECE < STEP
            {
                last = last.next();
                pieces.next();
            }
            let blocks = first.blocks().start..last.blocks().end;
            match self.compare(extent, blocks.clone(), Reason::Crash, active).await {
                Ok((_, compared)) => {
                    total.bytes += compared.bytes;
                    total.copied += compared.copied;
                    total.unseen += compared.unseen;
                }
                // A reader of these blocks gets the error; the rest of the extent must not wait.
                Err(FileError::ExtentLost { .. }) => total.bytes += bytes_of(blocks.len()) as u64,
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    /// Steps 1 to 7.
    async fn compare(
        &self,
        extent: &Extent,
        blocks: Range<usize>,
        reason: Reason,
        _active: &Active<'_>,
    ) -> Result<(Buffer, Compared), FileError> {
        self.load_sums(extent).await?;
        let first = Block(blocks.start);
        let (mirrors, target) = extent.places();
        let (seen, known) = self.see_enough(extent, mirrors, &blocks, reason).await?;
        if seen.shows_nothing() {
            if reason == Reason::Crash {
                extent.forget_sums(first, blocks.len());
            }
            return Err(self.lost(extent, seen.candidates.len()));
        }
        let judged = Judged::of(&seen, &known, reason, blocks.len());
        let Rewrites { copied, mut left, unseen, made } =
            self.rewrite_wrong(extent, first, reason, &seen, &judged).await?;
        if target.is_some() && !planted::has(Bug::GuestNotMended) {
            // Its copy may have what no mirror took.
            self.write_to_target(extent, target, first, &judged.agreed(), &judged.bytes).await?;
        }
        if copied > 0
            && (reason == Reason::Crash || judged.guessed)
            && !planted::has(Bug::RecoveryNotFlushed)
        {
            left += self.flush_rewritten(extent, first, &judged.bytes, made).await?;
        }
        self.remember_sums(extent, first, reason, &seen, &judged);
        self.tell_bad_zones(extent, &seen.candidates, &judged.bad_zones);
        if !seen.is_partial() {
            let shown: Vec<Image<'_>> = seen
                .images
                .iter()
                .map(|image| image.iter().map(Option::as_deref).collect())
                .collect();
            self.note_disputes(extent, blocks.clone(), &judged.rivals, &seen.candidates, &shown);
        }
        if judged.is_lost() {
            return Err(self.tell_lost(extent, &blocks, &seen, &judged));
        }
        let buffer = Buffer::copy_of(&judged.bytes);
        Ok((buffer, Compared { bytes: bytes_of(blocks.len()) as u64, copied, left, unseen }))
    }

    /// Step 1. Returns what memory knows of the blocks as well.
    async fn see_enough(
        &self,
        extent: &Extent,
        mirrors: Mirrors,
        blocks: &Range<usize>,
        reason: Reason,
    ) -> Result<(Seen<'_>, Known), FileError> {
        let seen = self.see(mirrors, blocks, Patience::Deadline).await?;
        let known = Known::of(extent, blocks);
        if !seen.is_partial() {
            return Ok((seen, known));
        }
        let patience = seen.patience_for(reason, &known, blocks.len());
        if patience == Patience::Deadline {
            seen.silent()
                .for_each(|member| self.expel_in_background(member, IoResult::Overdue.reason()));
            return Ok((seen, known));
        }
        reached::at(Mark::SilentMirrorNeeded);
        Ok((self.see(mirrors, blocks, patience).await?, known))
    }

    /// Step 3.
    async fn rewrite_wrong<'a>(
        &self,
        extent: &Extent,
        first: Block,
        reason: Reason,
        seen: &Seen<'a>,
        judged: &Judged,
    ) -> Result<Rewrites<'a>, FileError> {
        let mut done = Rewrites::default();
        let shown = seen.candidates.iter().zip(&seen.images).zip(&seen.are_silent);
        for (((mirror, member), image), is_silent) in shown {
            for (index, sum) in judged.sums.iter().enumerate() {
                let part = judged.part(index);
                let (block, offset) =
                    (first.plus(index), Self::offset(member, *mirror, first.plus(index)));
                let is_shown = image[index].as_deref() == Some(&part[..]);
                let is_there = is_shown && !member.is_mend_uncertain(offset, BLOCK_SIZE as u64);
                if sum.is_none() || is_there || judged.rivals.contains(&index) {
                    continue;
                }
                if (*is_silent || member.is_hung()) && !planted::has(Bug::UnseenOverwritten) {
                    // A mirror that could not be compared is not overwritten: it may have data that
                    // matches its own checksum, and be the right one. Nor does a read that has its
                    // bytes wait for a silent disk.
                    let later = self.mend_later(extent, member, block);
                    (done.left, done.unseen) = (done.left + later, done.unseen + later);
                    continue;
                }
                done.copied += BLOCK_SIZE as u64;
                if !self.rewrite(member, offset, part.clone()).await? {
                    done.left += self.mend_later(extent, member, block);
                    continue;
                }
                done.made.push(Rewritten { member, offset, index });
                if reason == Reason::Repair {
                    done.left += self
                        .verify_rewrite(extent, (*mirror, member), block, &part, is_shown)
                        .await;
                }
            }
        }
        Ok(done)
    }

    /// Reads a rewritten block back, and reports what came of it. `is_shown`: the disk had shown it
    /// before, but may have lost it in a flush. Returns how many blocks stay wrong.
    async fn verify_rewrite(
        &self,
        extent: &Extent,
        (mirror, member): (Mirror, &Arc<Member>),
        block: Block,
        part: &[u8],
        is_shown: bool,
    ) -> u64 {
        let offset = Self::offset(member, mirror, block);
        let Some(reads_back) = self.reads_back(member, offset, part).await else {
            return self.mend_later(extent, member, block);
        };
        if reads_back && is_shown {
            return 0;
        }
        let place = extent.place_of(mirror);
        let text = if reads_back {
            member.counters.repaired.fetch_add(1, Ordering::Relaxed);
            format!(
                "repaired 4 KiB at offset {offset} of disk {} ({}): {place}",
                member.name(),
                member.path()
            )
        } else {
            format!(
                "4 KiB at offset {offset} of disk {} ({}) were rewritten from another mirror, and cannot be read back: {place}",
                member.name(),
                member.path()
            )
        };
        let trouble = if reads_back { Trouble::Repaired } else { Trouble::NotRepaired };
        member.note(trouble, Some((offset, BLOCK_SIZE as u64)), place);
        self.tell(Severity::Warning, Some(mirror.disk), text);
        u64::from(!reads_back)
    }

    /// Step 4: the place that a mirror moved to when mirrors were compared gets what they have now.
    /// It may have a copy of the wrong bytes, or a write that failed on all mirrors.
    async fn write_to_target(
        &self,
        extent: &Extent,
        target: Option<Mirror>,
        first: Block,
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
            // An overdue write is waited for: if the mirror does not move after all, its AU goes to
            // another extent, and the write would land there.
            match self
                .write_copy(extent, member, Self::offset(member, target, first.plus(index)), part)
                .await
            {
                Ok(_) => {}
                Err(FileError::Refused { .. }) => _ = extent.cancel_target(target),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Step 5: flushes until what was rewritten is durable. Returns how many blocks stay wrong.
    async fn flush_rewritten(
        &self,
        extent: &Extent,
        first: Block,
        data: &Slice,
        mut rewritten: Vec<Rewritten<'_>>,
    ) -> Result<u64, FileError> {
        let mut left = 0;
        loop {
            self.flush_disks().await?;
            // Another task's flush may have failed since the rewrite and lost some blocks. Our own
            // flush does not restore them.
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
                    left += self.mend_later(extent, member, first.plus(index));
                }
            }
        }
    }

    /// Step 6.
    fn remember_sums(
        &self,
        extent: &Extent,
        first: Block,
        reason: Reason,
        seen: &Seen<'_>,
        judged: &Judged,
    ) {
        for (index, sum) in judged.sums.iter().enumerate() {
            match sum {
                Some(sum) if judged.rivals.contains(&index) => {
                    extent.prefer_sum(first.plus(index), *sum)
                }
                // Memory has it already, and a mirror that was not seen may differ.
                Some(_) if seen.is_partial() => {}
                Some(sum) => extent.set_sums(first.plus(index), &[*sum]),
                // The zone may be older than the block that could not be read.
                None if reason == Reason::Crash => extent.forget_sums(first.plus(index), 1),
                None => {}
            }
        }
    }

    /// Step 7, where data is right and a disk's checksum block is not: that is written again when
    /// the region closes.
    fn tell_bad_zones(
        &self,
        extent: &Extent,
        candidates: &[(Mirror, &Arc<Member>)],
        bad: &[usize],
    ) {
        if bad.iter().any(|count| *count > 0) {
            extent.mark_zones_wrong();
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

    /// Step 7, where blocks are lost: the caller's error.
    fn tell_lost(
        &self,
        extent: &Extent,
        blocks: &Range<usize>,
        seen: &Seen<'_>,
        judged: &Judged,
    ) -> FileError {
        for ((mirror, member), image) in seen.candidates.iter().zip(&seen.images) {
            let refuted = judged
                .sums
                .iter()
                .zip(image)
                .filter(|(sum, bytes)| sum.is_none() && bytes.is_some())
                .count();
            if refuted > 0 {
                self.note_mismatch(extent, blocks, *mirror, member);
            }
        }
        let error = self.lost(extent, seen.candidates.len());
        self.tell(Severity::Alarm, None, error.to_string());
        error
    }

    /// A block of a mirror stays as it is for now. Returns how many these are: none, where the disk
    /// has gone.
    fn mend_later(&self, extent: &Extent, member: &Member, block: Block) -> u64 {
        if !member.is_writable() {
            return 0;
        }
        if let Some(extent) = self.extents.get(extent.id) {
            self.repairs.add_later(&extent, block);
        }
        1
    }

    /// Rewrites a block of one mirror; false if the disk went offline instead. A disk that must
    /// stay in service is waited for: a later write of the block must not land before this one.
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
            Patience::UntilExpelled
        };
        let ended = self.await_io(member, disk_io, patience).await?;
        if ended.is_ok() {
            member.note_mended(offset, broken);
            return Ok(true);
        }
        match self.expel(member, &ended).await {
            Ok(()) => Ok(false),
            // The caller has the right bytes; that this mirror stays wrong is known.
            Err(FileError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a disk shows what was just written to it: until then nothing is repaired. `None`: it
    /// does not answer.
    async fn reads_back(&self, member: &Member, offset: u64, part: &[u8]) -> Option<bool> {
        let found =
            member.start_read(offset, part.len()).of(IoClient::Checks).again().result().await;
        let is_there = match found {
            IoResult::Ok(Some(found)) => found[..] == part[..],
            IoResult::Overdue => return None,
            _ => false,
        };
        if is_there {
            member.health.note_mended((offset, part.len()));
        }
        Some(is_there)
    }

    /// Gives all mirrors on ONLINE disks, and the place that one moves to, a block that none of
    /// them has. Its checksum in memory stays.
    pub(crate) async fn mend_from(
        &self,
        extent: &Extent,
        block: Block,
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
}
