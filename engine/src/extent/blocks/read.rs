//! Reading blocks of one extent from one of its mirrors, checked.
//!
//! Front ends read the mirror that `read_policy.rs` chooses, others take the mirrors in turn. It
//! nearly always has the right bytes: that path is short, and its future is small (`file_read.rs`).
//! Where the read fails, is overdue, or has other bytes than the checksums say, the other mirrors
//! are read one after the other, in a boxed future. A mirror that is only silent is waited for when
//! no other has the bytes (R2).

use super::{STEP, bytes_of};
use crate::{
    disk::{
        counters::IoClient,
        disk_io::{DiskIo, IoResult},
        member::{LOOK_AGAIN, Member},
        members::MIRRORS_MAX,
        read_policy::{self, ReadGauge, Reading},
    },
    error::FileError,
    extent::{Extent, Mirror, data::Data},
    planted::{self, Bug},
    sync::buffer::Buffer,
};
use futures::future::{self, Either};
use plinth_format::{
    BLOCK_SIZE, Block,
    checksum::{UNKNOWN, of_block},
};
use smallvec::SmallVec;
use std::{
    future::poll_fn,
    ops::Range,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

/// Bytes that match their checksums.
#[derive(Debug)]
pub struct Read {
    pub buffer: Buffer,
    /// Another mirror failed or had other bytes: it is to be repaired.
    pub wrong: bool,
}

/// Which mirror is read first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstMirror {
    /// As `read_policy.rs` chooses: front ends wait for it.
    Policy,
    /// Each takes its turn.
    RoundRobin,
}

/// A read, and its client.
struct BlockRead<'a> {
    extent: &'a Extent,
    blocks: Range<usize>,
    client: IoClient,
    first: FirstMirror,
    /// Which mirror's turn it is.
    turn: usize,
}

/// The mirrors that may be asked.
struct Candidates<'a> {
    all: SmallVec<[(Mirror, &'a Arc<Member>); MIRRORS_MAX]>,
    /// The gauges of those that were not read yet.
    untried: [Option<&'a ReadGauge>; MIRRORS_MAX],
}

/// One of them, asked.
struct Attempt<'a> {
    mirror: Mirror,
    member: &'a Arc<Member>,
    disk_io: DiskIo<'a>,
    /// Until it has ended.
    reading: Option<Reading<'a>>,
}

/// A read whose first mirror was sent its I/O. No more than is needed again: it is part of every
/// read in flight.
pub(crate) struct PendingRead<'a> {
    read: BlockRead<'a>,
    attempt: Attempt<'a>,
}

/// The result of reading one mirror.
pub(crate) enum MirrorAnswer {
    Good(Buffer),
    /// It failed.
    Wrong,
    /// Its bytes are not known to be right.
    Unproved,
    /// It has other bytes than the checksum in memory says.
    Refuted,
    /// The flight goes on.
    Silence,
}

/// The verdict of checksums on bytes, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Good,
    /// The checksum of some block is not known.
    Unproved,
    /// The checksum of some block is another one.
    Refuted,
}

impl Candidates<'_> {
    /// One of them was asked.
    fn remove(&mut self, member: &Arc<Member>) {
        let all = self.all.iter().zip(&mut self.untried);
        all.filter(|((_, other), _)| Arc::ptr_eq(other, member))
            .for_each(|(_, untried)| *untried = None);
    }
}

impl PendingRead<'_> {
    /// The result of the first mirror, or that it is silent.
    pub(crate) fn poll_answer(
        &mut self,
        group: &Data,
        context: &mut Context<'_>,
    ) -> Poll<MirrorAnswer> {
        self.attempt
            .disk_io
            .poll_in_time(context)
            .map(|ended| group.answer(&self.read, &mut self.attempt, ended))
    }
}

impl Data {
    /// Reads blocks, checked. `None`: no mirror has them right as they are; [`Self::repair`] must
    /// look.
    pub(crate) async fn try_read(
        &self,
        extent: &Extent,
        blocks: Range<usize>,
        client: IoClient,
        first: FirstMirror,
    ) -> Result<Option<Read>, FileError> {
        let now = self.world.monotonic();
        let Some(mut asked) = self.begin_read(now, extent, blocks, client, first) else {
            return Err(self.lost(extent, 0));
        };
        match poll_fn(|context| asked.poll_answer(self, context)).await {
            MirrorAnswer::Good(buffer) => Ok(Some(Read { buffer, wrong: false })),
            answer => Box::pin(self.ask_others(asked, answer)).await,
        }
    }

    /// Reads the first mirror, `now` by the monotonic clock. `None`: there is none.
    pub(crate) fn begin_read<'a>(
        &'a self,
        now: Duration,
        extent: &'a Extent,
        blocks: Range<usize>,
        client: IoClient,
        first: FirstMirror,
    ) -> Option<PendingRead<'a>> {
        // Neighbouring megabytes alternate between mirrors, so that all disks read; and each pass
        // takes the next.
        let turn = (extent.id.0 as usize)
            .wrapping_add(blocks.start / STEP)
            .wrapping_add(extent.pass(Block(blocks.start)));
        let read = BlockRead { extent, blocks, client, first, turn };
        let attempt = self.ask(now, &read, &mut self.candidates(extent))?;
        Some(PendingRead { read, attempt })
    }

    fn candidates(&self, extent: &Extent) -> Candidates<'_> {
        let all: SmallVec<[_; MIRRORS_MAX]> =
            self.mirrors(extent).filter(|(_, member)| member.is_readable()).collect();
        let untried = std::array::from_fn(|index| all.get(index).map(|(_, member)| &member.gauge));
        Candidates { all, untried }
    }

    /// Asks the next mirror. `None`: all were asked.
    fn ask<'a>(
        &'a self,
        now: Duration,
        read: &BlockRead<'_>,
        candidates: &mut Candidates<'a>,
    ) -> Option<Attempt<'a>> {
        let all = &candidates.all;
        let left = &mut candidates.untried[..all.len()];
        let (start, length) = (Block(read.blocks.start), bytes_of(read.blocks.len()));
        let (index, reading) = match read.first {
            FirstMirror::RoundRobin => {
                let mut turns = (0..all.len()).map(|step| read.turn.wrapping_add(step) % all.len());
                (turns.find(|index| left[*index].is_some())?, None)
            }
            FirstMirror::Policy => {
                let choice = read_policy::choose(left, read.turn, length, now)?;
                if let Some(other) = choice.explore {
                    let (mirror, member) = all[other];
                    self.latency_prober.send(
                        &member.gauge,
                        Self::offset(member, mirror, start),
                        length,
                    );
                }
                (
                    choice.index,
                    left[choice.index].map(|gauge| gauge.begin(length, now, choice.reason)),
                )
            }
        };
        left[index] = None;
        let (mirror, member) = all[index];
        let disk_io =
            member.start_read_at(now, Self::offset(member, mirror, start), length).of(read.client);
        Some(Attempt { mirror, member, disk_io, reading })
    }

    /// Judges what a mirror returned.
    fn answer(
        &self,
        read: &BlockRead<'_>,
        attempt: &mut Attempt<'_>,
        ended: Option<IoResult>,
    ) -> MirrorAnswer {
        let Attempt { disk_io, reading, .. } = attempt;
        *reading = reading
            .take()
            .and_then(|one| one.record(ended.as_ref(), disk_io.took(), self.world.as_ref()));
        let buffer = match ended {
            Some(IoResult::Ok(Some(buffer))) => buffer,
            Some(_) => return MirrorAnswer::Wrong,
            None => return MirrorAnswer::Silence,
        };
        let BlockRead { extent, blocks, .. } = read;
        match self.judge(extent, blocks, &buffer) {
            Verdict::Good => MirrorAnswer::Good(buffer),
            Verdict::Unproved => MirrorAnswer::Unproved,
            Verdict::Refuted => MirrorAnswer::Refuted,
        }
    }

    /// Notes that a mirror has other bytes than another one, which match the checksum that is
    /// known.
    pub(super) fn note_mismatch(
        &self,
        extent: &Extent,
        blocks: &Range<usize>,
        mirror: Mirror,
        member: &Member,
    ) {
        let place =
            (Self::offset(member, mirror, Block(blocks.start)), bytes_of(blocks.len()) as u64);
        member.note_mismatch(place, extent.place_of(mirror));
    }

    /// Goes on when the first mirror did not have the bytes.
    pub(crate) async fn ask_others<'a>(
        &'a self,
        asked: PendingRead<'a>,
        mut answer: MirrorAnswer,
    ) -> Result<Option<Read>, FileError> {
        let PendingRead { read, mut attempt } = asked;
        let mut candidates = self.candidates(read.extent);
        candidates.remove(attempt.member);
        let (mut silent, mut wrong, mut unproved) = (Vec::new(), false, false);
        // A mirror whose bytes match no checksum is at fault only if another mirror's bytes match:
        // else the checksum may be wrong.
        let mut refuted: SmallVec<[_; MIRRORS_MAX]> = SmallVec::new();
        let buffer = loop {
            match answer {
                MirrorAnswer::Good(buffer) => break Some(buffer),
                MirrorAnswer::Wrong => wrong = true,
                MirrorAnswer::Unproved => (wrong, unproved) = (true, true),
                MirrorAnswer::Refuted => {
                    wrong = true;
                    refuted.push((attempt.mirror, attempt.member));
                }
                MirrorAnswer::Silence => silent.push(attempt),
            }
            let Some(next) = self.ask(self.world.monotonic(), &read, &mut candidates) else {
                break None;
            };
            attempt = next;
            let ended = attempt.disk_io.result_in_time().await;
            answer = self.answer(&read, &mut attempt, ended);
        };
        if buffer.is_some() && !self.is_disputed(read.extent, &read.blocks) {
            for (mirror, member) in refuted {
                self.note_mismatch(read.extent, &read.blocks, mirror, member);
            }
        }
        let Some(buffer) = buffer else {
            // Bytes that are not known to be right may be right: comparing all mirrors decides
            // that.
            return if unproved {
                Ok(None)
            } else {
                self.wait_for_silent(&read, silent, wrong).await
            };
        };
        for attempt in &silent {
            self.expel_in_background(attempt.member, IoResult::Overdue.reason());
        }
        Ok(Some(Read { buffer, wrong }))
    }

    /// No other mirror has it right: waits for the first silent one that has (R2). None of them is
    /// expelled for that.
    async fn wait_for_silent(
        &self,
        read: &BlockRead<'_>,
        mut silent: Vec<Attempt<'_>>,
        mut wrong: bool,
    ) -> Result<Option<Read>, FileError> {
        while !silent.is_empty() {
            let ends = silent.iter_mut().map(|attempt| Box::pin(attempt.disk_io.wait()));
            let ended = match future::select(future::select_all(ends), self.world.sleep(LOOK_AGAIN))
                .await
            {
                Either::Left(((end, index, _), _)) => Some((end, index)),
                Either::Right(_) => None,
            };
            if let Some((end, index)) = ended {
                let mut attempt = silent.swap_remove(index);
                match self.answer(read, &mut attempt, Some(end)) {
                    MirrorAnswer::Good(buffer) => return Ok(Some(Read { buffer, wrong })),
                    _ => wrong = true,
                }
            }
            if self.voters.is_closing() {
                return Err(FileError::Dismounted);
            }
            // A disk that went offline meanwhile may never answer.
            silent.retain(|attempt| attempt.member.is_readable() || planted::has(Bug::GoneAwaited));
        }
        Ok(None)
    }

    /// Judges bytes by the checksums in memory.
    fn judge(&self, extent: &Extent, blocks: &Range<usize>, buffer: &[u8]) -> Verdict {
        if self.unchecked.load(Ordering::Relaxed) {
            return Verdict::Good;
        }
        let sums = extent.sums();
        let Some(sums) = &*sums else { return Verdict::Unproved };
        let verdicts =
            buffer.chunks_exact(BLOCK_SIZE).zip(sums.of(blocks.clone())).map(|(block, sum)| {
                match sum {
                    UNKNOWN if planted::has(Bug::UnknownTrusted) => Verdict::Good,
                    UNKNOWN => Verdict::Unproved,
                    sum if sum == of_block(block) => Verdict::Good,
                    _ => Verdict::Refuted,
                }
            });
        verdicts.max().unwrap_or(Verdict::Good)
    }
}
