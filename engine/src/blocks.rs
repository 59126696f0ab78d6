//! Reading and writing blocks of one extent on all its mirrors.
//!
//! Writing: all writable mirrors at once, from one buffer; acknowledged when every one
//! has it. A mirror that fails goes offline first (R4), unless some extent would keep no
//! current mirror (R5): then the error is this caller's. When every mirror is silent,
//! the writer waits (R2).
//!
//! Reading: one online mirror, checked block by block: for front ends the one that `read_policy.rs` chooses, for others each in
//! its turn. Bytes that do not match, or cannot be read, are looked up on the other mirrors and rewritten. Which of them is
//! right, block by block, is a table: `blocks/cases.rs`, and docs/format.md, section 8. In short:
//!
//! ```text
//!   known in memory, some mirror matches      that one is right
//!   a mirror matches what some zone stores    that one is right      (only while memory came from a zone)
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

use crate::{
    activity::Active,
    buffer::{Buffer, Slice},
    counters::IoClient,
    error::FileError,
    event::{Event, Severity},
    extent::{Extent, MIRRORS_MAX, Mirror, Mirrors, Sums},
    group::Group,
    member::{Flight, Member, Settled},
    planted::{self, Bug},
    read_policy::{self, ReadGauge},
    troubles::Trouble,
    voters::Refusal,
};
use cases::{Case, Evidence, Reason};
use plinth_format::{
    BLOCK_SIZE,
    checksum::{UNKNOWN, of_block},
    envelope::Envelope,
    layout::PIECE_SIZE,
    lost,
};
use smallvec::SmallVec;
use std::{
    future::poll_fn,
    ops::Range,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

/// Blocks in a piece.
pub const BLOCKS_PER_PIECE: usize = PIECE_SIZE as usize / BLOCK_SIZE;
/// Blocks read and compared at once: 1 MiB.
const STEP: usize = 256;
/// What is written at once: every mirror, and the place that one moves to.
const TARGETS: usize = MIRRORS_MAX + 1;

/// Bytes that match their checksums.
#[derive(Debug)]
pub struct Read {
    pub buffer: Buffer,
    /// Another mirror failed or had other bytes: it is to be repaired.
    pub wrong: bool,
}

/// Which mirror is read first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As `read_policy.rs` chooses: front ends wait for it.
    Policy,
    /// Each takes its turn.
    Turns,
}

/// What checksums say of bytes, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Good,
    /// The checksum of some block is not known.
    Unproved,
    /// The checksum of some block is another one.
    Refuted,
}

/// What comparing found and did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compared {
    /// Bytes of file data looked at, mirrors not counted.
    pub bytes: u64,
    /// Bytes rewritten, summed over mirrors.
    pub copied: u64,
}

fn bytes_of(blocks: usize) -> usize {
    blocks * BLOCK_SIZE
}

/// How each of some writes stands after its end or its deadline; `None`: it goes on.
async fn settle_all(flights: &mut [Flight<'_>]) -> SmallVec<[Option<Settled>; TARGETS]> {
    let awaited = if planted::has(Bug::AcknowledgedEarly) { 1 } else { flights.len() };
    let mut settled: SmallVec<[Poll<Option<Settled>>; TARGETS]> = flights.iter().map(|_| Poll::Pending).collect();
    settled.iter_mut().skip(awaited).for_each(|end| *end = Poll::Ready(Some(Settled::Ok(None))));
    poll_fn(|context| {
        for (flight, end) in flights.iter_mut().zip(&mut settled).filter(|(_, end)| end.is_pending()) {
            *end = flight.poll_settle(context);
        }
        if settled.iter().any(Poll::is_pending) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let known = |end| if let Poll::Ready(end) = end { end } else { None };
    settled.into_iter().map(known).collect()
}

impl Group {
    /// An extent's mirrors with their disks, in order. What a damaged catalog puts where no data lies is none.
    pub(crate) fn mirrors<'a>(&'a self, extent: &Extent) -> impl Iterator<Item = (Mirror, &'a Arc<Member>)> + use<'a> {
        self.members_of(extent.mirrors())
    }

    fn members_of(&self, mirrors: Mirrors) -> impl Iterator<Item = (Mirror, &Arc<Member>)> {
        let known =
            mirrors.into_iter().filter_map(|mirror| self.members.get(&mirror.disk).map(|member| (mirror, member)));
        known.filter(|(mirror, member)| member.layout().is_data(mirror.au))
    }

    pub(crate) fn offset(member: &Member, mirror: Mirror, block: usize) -> u64 {
        member.layout().au_offset(mirror.au) + bytes_of(block) as u64
    }

    /// Loads the checksums from the zone of a mirror, unless they are in memory.
    pub(crate) async fn load_sums(&self, extent: &Extent) -> Result<(), FileError> {
        extent.last_used.store(self.ticks.load(Ordering::Relaxed), Ordering::Relaxed);
        if extent.has_sums() {
            return Ok(());
        }
        {
            let state = extent.state();
            if extent.has_sums() {
                return Ok(());
            }
            if state.marked().is_empty() {
                extent.set_loaded(&state, Sums::unknown(self.blocks_per_au()));
                return Ok(());
            }
        }
        let (sums, wrong) = loop {
            let moves = extent.moves();
            let read = self.read_any_zone(extent).await;
            // Who reads without its range may have read where another extent's checksums are by now.
            if extent.moves() == moves {
                break read;
            }
        };
        let mut unproved = Vec::new();
        {
            let state = extent.state();
            if extent.has_sums() {
                return Ok(());
            }
            let pieces = 0..self.blocks_per_au() / BLOCKS_PER_PIECE;
            if sums.is_none() {
                self.zones_lost.fetch_add(1, Ordering::Relaxed);
                let mut at = 0;
                while let Some(run) = state.run(at..pieces.end, STEP / BLOCKS_PER_PIECE) {
                    at = run.end;
                    unproved.push(run.start * BLOCKS_PER_PIECE..run.end * BLOCKS_PER_PIECE);
                }
            } else if wrong && let Some(run) = state.run(pieces, 1) {
                unproved.push(run.start * BLOCKS_PER_PIECE..run.start * BLOCKS_PER_PIECE + 1);
            }
            // No zone can be read: nothing is known, and mirrors prove each other.
            extent.set_loaded(&state, sums.unwrap_or_else(|| Sums::unknown(self.blocks_per_au())));
        }
        // A zone that cannot be read is written again when the region closes. A comparison opens it, of one block if
        // another mirror's zone is good, of all to have their checksums if not.
        if let Some(extent) = self.extents.get(extent.id) {
            unproved.into_iter().for_each(|blocks| self.repairs.add(&extent, blocks));
        }
        Ok(())
    }

    /// The mirror whose zone is read first, of so many. Extents differ, so that a disk is not read more than the others; and not by turns, because
    /// mirrors of neighbours may be on disks by turns.
    pub(crate) fn first_zone(extent: &Extent, mirrors: usize) -> usize {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        (extent.id.wrapping_mul(GOLDEN) >> 32) as usize % mirrors.max(1)
    }

    /// The checksums from the first zone of an extent that can be read, and whether another could not be. While none can and
    /// some disk is only silent it is waited for: bytes must not pass unchecked for that (R2).
    async fn read_any_zone(&self, extent: &Extent) -> (Option<Sums>, bool) {
        let (mut silent, mut wrong) = (Vec::new(), false);
        let mut zones: SmallVec<[_; MIRRORS_MAX]> =
            self.mirrors(extent).filter(|(_, member)| member.is_readable()).collect();
        let first = Self::first_zone(extent, zones.len());
        zones.rotate_left(first);
        for (mirror, member) in zones {
            let (offset, length) = member.layout().sums_of(mirror.au);
            let mut flight = member.start_read(offset, length).of(IoClient::Checksums);
            match flight.settle_or_go_on().await {
                Some(Settled::Ok(Some(buffer))) => return (Some(Sums::new(self.sums_in(&buffer))), wrong),
                Some(_) => wrong = true,
                None => silent.push(flight),
            }
        }
        while !silent.is_empty() {
            let waits = silent.iter_mut().map(|flight| Box::pin(flight.wait()));
            let (end, index, _) = futures::future::select_all(waits).await;
            silent.remove(index);
            match end {
                Settled::Ok(Some(buffer)) => return (Some(Sums::new(self.sums_in(&buffer))), wrong),
                _ => wrong = true,
            }
        }
        let text = format!(
            "no checksums of extent {} of file {} can be read: bytes on which its mirrors agree are taken as they are",
            extent.number, extent.file
        );
        self.tell(Severity::Warning, None, text);
        (None, wrong)
    }

    fn sums_in<'a>(&self, zone: &'a [u8]) -> impl Iterator<Item = u32> + use<'a> {
        let (sums, _) = zone.as_chunks();
        sums.iter().map(|sum| u32::from_le_bytes(*sum)).take(self.blocks_per_au())
    }

    /// The stored checksums of one mirror.
    pub(crate) async fn read_zone(&self, member: &Member, mirror: Mirror) -> Option<Box<[u32]>> {
        let (offset, length) = member.layout().sums_of(mirror.au);
        let Settled::Ok(Some(buffer)) = member.start_read(offset, length).of(IoClient::Checksums).settle().await else {
            return None;
        };
        Some(self.sums_in(&buffer).collect())
    }

    /// Reads blocks, checked. `None`: no mirror has them right as they are; [`Self::repair`] must look.
    pub(crate) async fn try_read(
        &self,
        extent: &Extent,
        blocks: Range<usize>,
        client: IoClient,
        order: Order,
    ) -> Result<Option<Read>, FileError> {
        let candidates: SmallVec<[_; MIRRORS_MAX]> =
            self.mirrors(extent).filter(|(_, member)| member.is_readable()).collect();
        if candidates.is_empty() {
            return Err(self.lost(extent, 0));
        }
        // Neighbouring megabytes alternate between mirrors, so that all disks read; and each pass takes the next.
        let turn = (extent.id as usize).wrapping_add(blocks.start / STEP).wrapping_add(extent.pass(blocks.start));
        let mut silent = Vec::new();
        let mut wrong = false;
        let mut read = None;
        let length = bytes_of(blocks.len());
        let gauge = |index: usize| candidates.get(index).map(|(_, member)| &member.gauge);
        let mut untried: [Option<&ReadGauge>; MIRRORS_MAX] = std::array::from_fn(gauge);
        for step in 0..candidates.len() {
            let (index, reading) = match order {
                Order::Turns => ((turn + step) % candidates.len(), None),
                Order::Policy => {
                    let now = self.world.monotonic();
                    let left = &mut untried[..candidates.len()];
                    let Some(choice) = read_policy::choose(left, turn, length, now) else { break };
                    if let Some(other) = choice.explore {
                        let (mirror, member) = candidates[other];
                        self.explorer.send(&member.gauge, Self::offset(member, mirror, blocks.start), length);
                    }
                    let reading = left[choice.index].take().map(|gauge| gauge.begin(length, now, choice.reason));
                    (choice.index, reading)
                }
            };
            let (mirror, member) = candidates[index];
            let start = Self::offset(member, mirror, blocks.start);
            let mut flight = member.start_read(start, length).of(client);
            let settled = flight.settle_or_go_on().await;
            let reading = reading.and_then(|one| one.settle(settled.as_ref(), flight.took(), self.world.as_ref()));
            match settled {
                Some(Settled::Ok(Some(buffer))) => {
                    let verdict = self.judge(extent, &blocks, &buffer);
                    if verdict == Verdict::Good {
                        read = Some(buffer);
                        break;
                    }
                    if verdict == Verdict::Refuted {
                        member.counters.mismatches.fetch_add(1, Ordering::Relaxed);
                        let place = (Self::offset(member, mirror, blocks.start), bytes_of(blocks.len()) as u64);
                        let text = format!("AU {}, extent {} of file {}", mirror.au, extent.number, extent.file);
                        member.note(Trouble::Checksum, Some(place), text);
                    }
                    wrong = true;
                }
                Some(_) => wrong = true,
                None => silent.push((member, flight, reading)),
            }
        }
        if read.is_none() && !wrong && !silent.is_empty() {
            // Every mirror is silent: wait for the first that answers (R2).
            let waits = silent.iter_mut().map(|(_, flight, _)| Box::pin(flight.wait()));
            return match futures::future::select_all(waits).await.0 {
                Settled::Ok(Some(buffer)) if self.judge(extent, &blocks, &buffer) == Verdict::Good => {
                    Ok(Some(Read { buffer, wrong: false }))
                }
                _ => Ok(None),
            };
        }
        for (member, ..) in &silent {
            self.expel_in_background(member, Settled::Overdue.reason());
        }
        Ok(read.map(|buffer| Read { buffer, wrong }))
    }

    /// What the checksums in memory say of bytes.
    fn judge(&self, extent: &Extent, blocks: &Range<usize>, buffer: &[u8]) -> Verdict {
        if self.unchecked.load(Ordering::Relaxed) {
            return Verdict::Good;
        }
        let sums = extent.sums();
        let Some(sums) = &*sums else { return Verdict::Unproved };
        let verdicts = buffer.chunks_exact(BLOCK_SIZE).zip(sums.of(blocks.clone())).map(|(block, sum)| match sum {
            UNKNOWN if planted::has(Bug::UnknownTrusted) => Verdict::Good,
            UNKNOWN => Verdict::Unproved,
            sum if sum == of_block(block) => Verdict::Good,
            _ => Verdict::Refuted,
        });
        verdicts.max().unwrap_or(Verdict::Good)
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

    /// Makes the mirrors of an extent equal after a crash; its whole range is held.
    pub(crate) async fn reconcile(&self, extent: &Extent, active: &Active<'_>) -> Result<Compared, FileError> {
        let marked = extent.state().marked();
        let mut total = Compared::default();
        let mut pieces = marked.iter().peekable();
        while let Some(first) = pieces.next() {
            let mut last = first;
            while pieces.peek() == Some(&(last + 1)) && (last + 1 - first) * BLOCKS_PER_PIECE < STEP {
                last += 1;
                pieces.next();
            }
            let blocks = first * BLOCKS_PER_PIECE..(last + 1) * BLOCKS_PER_PIECE;
            match self.compare(extent, blocks.clone(), Reason::Crash, active).await {
                Ok((_, compared)) => {
                    total.bytes += compared.bytes;
                    total.copied += compared.copied;
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
        let (mirrors, guest) = extent.places();
        let candidates: Vec<_> = self.members_of(mirrors).filter(|(_, member)| member.is_readable()).collect();
        let mut images = Vec::new();
        let mut zones = Vec::new();
        for (mirror, member) in &candidates {
            images.push(self.read_image(member, *mirror, blocks.clone()).await);
            zones.push(self.read_zone(member, *mirror).await);
        }
        if images.iter().all(|image| image.iter().all(Option::is_none)) {
            if reason == Reason::Crash {
                extent.forget_sums(blocks.start, blocks.len());
            }
            return Err(self.lost(extent, candidates.len()));
        }
        let (known, fresh): (Vec<u32>, Vec<bool>) = {
            let sums = extent.sums();
            let is_fresh = |block| sums.as_ref().is_some_and(|sums| sums.is_fresh(block));
            let known = sums.as_ref().map_or_else(Vec::new, |sums| sums.of(blocks.clone()).collect());
            (known, blocks.clone().map(is_fresh).collect())
        };
        let mut result = Buffer::zeroed(bytes_of(blocks.len()));
        let mut sums = Vec::with_capacity(blocks.len());
        let (mut lost, mut guessed) = (false, false);
        for index in 0..blocks.len() {
            let evidence = Evidence {
                reason,
                mirrors: images.iter().map(|image| image[index].as_deref()).collect(),
                known: known.get(index).copied().unwrap_or(UNKNOWN),
                fresh: fresh[index],
                stored: zones.iter().flatten().map(|zone| zone[blocks.start + index]).collect(),
            };
            let (case, winner) = evidence.judge();
            guessed |= case == Case::Lowest;
            if let Some(winner) = winner {
                result[bytes_of(index)..bytes_of(index + 1)].copy_from_slice(winner);
                sums.push(Some(of_block(winner)));
            } else {
                lost = true;
                sums.push(None);
            }
        }
        let result = result.share();
        let mut copied = 0;
        for ((mirror, member), image) in candidates.iter().zip(&images) {
            for (index, sum) in sums.iter().enumerate() {
                let part = result.part(bytes_of(index)..bytes_of(index + 1));
                if sum.is_none() || image[index].as_deref() == Some(&part[..]) {
                    continue;
                }
                let offset = Self::offset(member, *mirror, blocks.start + index);
                copied += BLOCK_SIZE as u64;
                if !self.rewrite(member, offset, part).await? {
                    if member.is_writable()
                        && let Some(extent) = self.extents.get(extent.id)
                    {
                        self.repairs.add_later(&extent, blocks.start + index);
                    }
                    continue;
                }
                if reason == Reason::Repair {
                    member.counters.repaired.fetch_add(1, Ordering::Relaxed);
                    let place = format!("AU {}, extent {} of file {}", mirror.au, extent.number, extent.file);
                    member.note(Trouble::Repaired, Some((offset, BLOCK_SIZE as u64)), place);
                    let text = format!(
                        "repaired 4 KiB at offset {offset} of disk {} ({}): AU {}, extent {} of file {}",
                        member.name(),
                        member.path(),
                        mirror.au,
                        extent.number,
                        extent.file
                    );
                    self.tell(Severity::Warning, Some(mirror.disk), text);
                }
            }
        }
        if copied > 0 {
            self.write_to_guest(extent, guest, blocks.start, &sums, &result).await?;
        }
        if copied > 0 && (reason == Reason::Crash || guessed) && !planted::has(Bug::RecoveryNotFlushed) {
            // What somebody has read stays so: another loss of power must not bring back what the others had.
            self.flush_disks().await?;
        }
        for (index, sum) in sums.iter().enumerate() {
            match sum {
                Some(sum) => extent.set_sums(blocks.start + index, &[*sum]),
                // The zone may be older than what nobody could read.
                None if reason == Reason::Crash => extent.forget_sums(blocks.start + index, 1),
                None => {}
            }
        }
        if lost {
            let error = self.lost(extent, candidates.len());
            self.tell(Severity::Alarm, None, error.to_string());
            return Err(error);
        }
        let buffer = Buffer::copy_of(&result);
        Ok((buffer, Compared { bytes: bytes_of(blocks.len()) as u64, copied }))
    }

    /// Where mirrors were rewritten, the place that one of them moved to when that began may have a copy of what was wrong.
    async fn write_to_guest(
        &self,
        extent: &Extent,
        guest: Option<Mirror>,
        first: usize,
        sums: &[Option<u32>],
        data: &Slice,
    ) -> Result<(), FileError> {
        let Some(guest) = guest else { return Ok(()) };
        let Some(member) = self.members.get(&guest.disk).filter(|member| member.is_writable()) else { return Ok(()) };
        for index in (0..sums.len()).filter(|index| sums[*index].is_some()) {
            let part = data.part(bytes_of(index)..bytes_of(index + 1));
            if !self.rewrite(member, Self::offset(member, guest, first + index), part).await? {
                let _ = extent.turn_away(guest);
            }
        }
        Ok(())
    }

    /// One mirror's blocks, `None` where they cannot be read, or a resync found nothing to copy.
    async fn read_image(&self, member: &Arc<Member>, mirror: Mirror, blocks: Range<usize>) -> Vec<Option<Box<[u8]>>> {
        let first = blocks.start;
        let mut image = self.read_all(member, mirror, blocks).await;
        for (index, block) in image.iter_mut().enumerate() {
            let here = self.envelope_at(member, Self::offset(member, mirror, first + index));
            *block = block.take().filter(|bytes| !lost::is_mark(bytes, here));
        }
        image
    }

    fn envelope_at(&self, member: &Member, place: u64) -> Envelope {
        Envelope { group: self.id, disk: member.id(), place }
    }

    /// What a mirror has where a block could be read on no other: never what it had before.
    pub(crate) fn lost_block(&self, member: &Member, place: u64) -> Buffer {
        Buffer::copy_of(&lost::mark(self.envelope_at(member, place)))
    }

    /// One mirror's blocks as they are, `None` where they cannot be read.
    async fn read_all(&self, member: &Arc<Member>, mirror: Mirror, blocks: Range<usize>) -> Vec<Option<Box<[u8]>>> {
        let whole = member.start_read(Self::offset(member, mirror, blocks.start), bytes_of(blocks.len()));
        match whole.of(IoClient::Checks).settle().await {
            Settled::Ok(Some(buffer)) => buffer.chunks_exact(BLOCK_SIZE).map(|block| Some(block.into())).collect(),
            Settled::Overdue => {
                self.expel_in_background(member, Settled::Overdue.reason());
                vec![None; blocks.len()]
            }
            _ => {
                let mut image = Vec::with_capacity(blocks.len());
                for block in blocks {
                    let one = member.start_read(Self::offset(member, mirror, block), BLOCK_SIZE).of(IoClient::Checks);
                    let one = one.settle().await;
                    image.push(match one {
                        Settled::Ok(Some(buffer)) => Some(Box::from(&*buffer)),
                        _ => None,
                    });
                }
                image
            }
        }
    }

    /// Rewrites a block of one mirror; false if the disk went offline instead.
    async fn rewrite(&self, member: &Arc<Member>, offset: u64, part: Slice) -> Result<bool, FileError> {
        let settled = member.start_write(offset, part).of(IoClient::Checks).settle().await;
        if settled.is_ok() {
            return Ok(true);
        }
        match self.give_up(member, &settled).await {
            Ok(()) => Ok(false),
            // The caller has the right bytes; that this mirror stays wrong is known.
            Err(FileError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes blocks to every mirror and remembers their checksums. The blocks' range is held exclusively. `durably`: they need no flush.
    pub(crate) async fn write_blocks(
        &self,
        extent: &Extent,
        first: usize,
        data: Slice,
        durably: bool,
        _active: &Active<'_>,
    ) -> Result<(), FileError> {
        let sums: SmallVec<[u32; BLOCKS_PER_PIECE]> = data.chunks_exact(BLOCK_SIZE).map(of_block).collect();
        let (mirrors, guest) = extent.places();
        let mut targets: SmallVec<[_; TARGETS]> =
            self.members_of(mirrors).filter(|(_, member)| member.is_writable()).collect();
        let mirrors = targets.len();
        let guest = guest.and_then(|guest| Some((guest, self.members.get(&guest.disk)?)));
        let is_written = |member: &Member| member.is_writable() && !planted::has(Bug::GuestNotWritten);
        targets.extend(guest.filter(|(_, member)| is_written(member)));
        let mut flights: SmallVec<[_; TARGETS]> = targets
            .iter()
            .map(|(mirror, member)| {
                let (offset, data) = (Self::offset(member, *mirror, first), data.clone());
                if durably { member.start_durable_write(offset, data) } else { member.start_write(offset, data) }
            })
            .collect();
        let mut settled = if extent.has_sums() {
            settle_all(&mut flights).await
        } else {
            // Those of all other blocks are read meanwhile: the region is active, so what they say of these blocks counts for nothing.
            let both = futures::future::join(settle_all(&mut flights), self.load_sums(extent));
            let (settled, loaded) = Box::pin(both).await;
            loaded?;
            settled
        };
        loop {
            let has_current = |settled: &[Option<Settled>]| {
                targets[..mirrors]
                    .iter()
                    .zip(settled)
                    .any(|((_, member), settled)| member.is_readable() && settled.as_ref().is_some_and(Settled::is_ok))
            };
            if has_current(&settled) {
                break;
            }
            // No current mirror has it. While one is silent, wait (R2); else it has failed.
            let silent: Vec<_> = settled.iter().enumerate().filter(|(_, one)| one.is_none()).map(|(i, _)| i).collect();
            if silent.is_empty() {
                extent.forget_sums(first, sums.len());
                let failure = settled.into_iter().flatten().find(|one| !one.is_ok());
                return Err(match failure {
                    Some(Settled::Failed(error)) => FileError::Disk(error),
                    _ => self.lost(extent, targets.len()),
                });
            }
            let waits = flights
                .iter_mut()
                .enumerate()
                .filter(|(index, _)| silent.contains(index))
                .map(|(index, flight)| Box::pin(async move { (index, flight.wait().await) }));
            let ((index, end), ..) = futures::future::select_all(waits).await;
            settled[index] = Some(end);
        }
        for (((mirror, member), one), flight) in targets.iter().zip(&mut settled).zip(&mut flights) {
            let mut failure = match one {
                Some(one) if one.is_ok() => continue,
                Some(one) => one.reason(),
                None => Settled::Overdue.reason(),
            };
            if planted::has(Bug::AcknowledgedBeforeMembership) {
                self.expel_in_background(member, failure);
                continue;
            }
            let mut expelled = self.voters.expel(member.number, &failure, false).await;
            if one.is_none() && matches!(expelled, Err(Refusal::WouldLoseData)) {
                // It cannot be spared, so it is waited for: a later write of these blocks must not land before this one.
                let end = flight.wait().await;
                if end.is_ok() {
                    continue;
                }
                failure = end.reason();
                expelled = self.voters.expel(member.number, &failure, false).await;
            }
            match expelled {
                Ok(()) => {}
                // A move that cannot go on, and no more than that.
                Err(Refusal::WouldLoseData) if extent.turn_away(*mirror) => {}
                Err(refusal) => {
                    extent.forget_sums(first, sums.len());
                    return Err(match refusal {
                        Refusal::Closing => FileError::Dismounted,
                        other => {
                            let why = other.to_string();
                            member.note(Trouble::Refused, None, format!("{failure}: {why}"));
                            FileError::Refused { disk: member.name().to_string(), reason: failure, why }
                        }
                    });
                }
            }
        }
        extent.set_sums(first, &sums);
        // What an offline disk misses must be on record before anybody is told (R4).
        for (_, member) in self.mirrors(extent) {
            self.wait_settled(member).await?;
        }
        Ok(())
    }

    /// Makes everything written durable on every writable disk that has something to flush.
    pub(crate) async fn flush_disks(&self) -> Result<(), FileError> {
        let era = self.doubt.begin_flush();
        loop {
            let members: Vec<_> = self.members.values().filter(|member| member.is_writable()).collect();
            let flushes = futures::future::join_all(members.iter().map(|member| member.flush())).await;
            let bad: Vec<_> = members.iter().zip(&flushes).filter(|(_, settled)| !settled.is_ok()).collect();
            let data = members.iter().filter(|member| !member.quorum).count();
            let silent =
                bad.iter().filter(|(member, settled)| !member.quorum && matches!(settled, Settled::Overdue)).count();
            // R2: when every disk is silent it is more likely us than them; nobody is expelled.
            let mut again = silent == data && data > 0;
            for (member, settled) in bad {
                if again {
                    self.wait_while_hung(member).await?;
                } else if matches!(settled, Settled::Overdue) && !self.give_up_or_wait(member, settled).await? {
                    again = true;
                }
            }
            // Whoever began it, here or for the catalog or a record of the voters: no other flush makes up for one that failed.
            for (member, settled) in members.iter().zip(&flushes) {
                let reason = match settled {
                    Settled::Failed(_) => settled.reason(),
                    _ if member.is_broken() => "a flush failed".to_owned(),
                    _ => continue,
                };
                if let Err(error) = self.give_up_because(member, &reason).await {
                    if matches!(error, FileError::Refused { .. }) && member.take_broken() {
                        self.note_failed_flush(member, &reason);
                    }
                    return Err(error);
                }
            }
            if !again {
                break;
            }
        }
        self.doubt.flushed(era);
        for member in self.members.values() {
            self.wait_settled(member).await?;
        }
        Ok(())
    }

    /// As `give_up`, but a silent disk that cannot be spared is waited for (R2). False: try again.
    pub(crate) async fn give_up_or_wait(&self, member: &Arc<Member>, settled: &Settled) -> Result<bool, FileError> {
        match self.give_up(member, settled).await {
            Ok(()) => Ok(true),
            Err(FileError::Refused { .. }) if matches!(settled, Settled::Overdue) => {
                self.wait_while_hung(member).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn wait_while_hung(&self, member: &Member) -> Result<(), FileError> {
        while member.is_hung() {
            if self.is_stopping() {
                return Err(FileError::Dismounted);
            }
            self.world.sleep(Duration::from_millis(50)).await;
        }
        if self.voters.is_closing() {
            // The disks were let go by force: none of them answers any more.
            return Err(FileError::Dismounted);
        }
        Ok(())
    }

    /// Waits until what an offline disk misses is on record; an error if it never will be,
    /// because the catalog has stopped: then nothing may be acknowledged (R4).
    pub(crate) async fn wait_settled(&self, member: &Member) -> Result<(), FileError> {
        if member.wait_settled().await {
            return Ok(());
        }
        Err(self.catalog.failure().map_or(FileError::Dismounted, FileError::CatalogStopped))
    }

    fn lost(&self, extent: &Extent, tried: usize) -> FileError {
        FileError::ExtentLost { file: extent.file, extent: extent.number, tried }
    }

    pub(crate) fn tell(&self, severity: Severity, disk: Option<plinth_format::DiskNumber>, text: String) {
        self.world.event(Event { group: self.name.clone(), severity, disk, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8) -> Vec<u8> {
        vec![byte; BLOCK_SIZE]
    }

    #[test]
    fn zones_are_read_from_all_mirrors_alike_wherever_those_of_neighbours_are() {
        for mirrors in 1..=MIRRORS_MAX {
            // All extents, and every second and third of them: mirrors may be on disks by turns.
            for step in 1..=3 {
                let mut read = vec![0; mirrors];
                for id in (0..3000).map(|id| id * step) {
                    read[Group::first_zone(&Extent::new(id, 1, 0, &[]), mirrors)] += 1;
                }
                let most = 3000 / mirrors + 150;
                assert!(read.iter().all(|reads| *reads <= most), "{mirrors} mirrors, step {step}: {read:?}");
            }
        }
    }

    #[test]
    fn every_case_of_the_table() {
        let (good, bad, worse) = (block(1), block(2), block(3));
        let sum = of_block(&good);
        let pick = |choices: &[Option<&[u8]>], known, trusted, stored: &[u32], reason| {
            let (mirrors, stored) = (choices.to_vec(), stored.to_vec());
            Evidence { reason, mirrors, known, fresh: trusted, stored }.judge().1.map(|bytes| bytes[0])
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
    }
}
