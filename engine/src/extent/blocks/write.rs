//! Writing blocks of one extent on all its mirrors.
//!
//!   1. Send them to all writable mirrors at once, from one buffer, and to the place that a mirror
//!      moves to.
//!   2. Each write ends, or its disk's deadline comes.
//!   3. If no current mirror has them, silent ones are waited for (R2), and those without room
//!      (`disk/full.rs`) for `disk_full_wait`; if there is none, the caller gets an error.
//!   4. A mirror that failed goes offline, on record (R4), unless some extent would keep no current
//!      mirror (R5).
//!   5. Remember their checksums, and wait until what an offline disk misses is on record, before
//!      the caller is answered.
//!
//! Nearly always all mirrors have them after 2. Then there is nothing to wait for, and the future
//! of the write is small (`file_read.rs`).

use super::BLOCKS_PER_PIECE;
use crate::{
    disk::{
        disk_io::{DiskIo, IoResult},
        member::Member,
        members::MIRRORS_MAX,
    },
    error::FileError,
    extent::{Extent, Mirror, activity::Active, data::Data},
    membership::voters::Refusal,
    planted::{self, Bug},
    sync::buffer::Slice,
};
use plinth_format::{BLOCK_SIZE, Block, checksum::of_block};
use smallvec::SmallVec;
use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

type Result<T> = std::result::Result<T, FileError>;

/// Blocks on their way to every mirror.
pub(crate) struct Sent<'a> {
    extent: &'a Extent,
    first: Block,
    sums: SmallVec<[u32; BLOCKS_PER_PIECE]>,
    /// The mirrors, and behind them the place that one moves to.
    copies: SmallVec<[Copy<'a>; MIRRORS_MAX]>,
    mirrors: usize,
}

/// One copy of them.
struct Copy<'a> {
    mirror: Mirror,
    member: &'a Arc<Member>,
    disk_io: DiskIo<'a>,
    end: End,
}

/// How it stands.
enum End {
    UnderWay,
    Good,
    /// The deadline has come, and it goes on: the disk is silent, or has no room.
    Silent,
    Bad(Box<IoResult>),
}

impl From<IoResult> for End {
    fn from(ended: IoResult) -> Self {
        if ended.is_ok() { Self::Good } else { Self::Bad(Box::new(ended)) }
    }
}

impl Sent<'_> {
    /// Waits until each has ended or is silent.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut is_under_way = false;
        for copy in self.copies.iter_mut().filter(|copy| matches!(copy.end, End::UnderWay)) {
            match copy.disk_io.poll_in_time(context) {
                Poll::Ready(ended) => copy.end = ended.map_or(End::Silent, End::from),
                Poll::Pending => is_under_way = true,
            }
        }
        if is_under_way { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Waits for the first of those that are silent. False: none is.
    async fn wait_for_silent(&mut self) -> bool {
        let silent = self.copies.iter_mut().filter(|copy| matches!(copy.end, End::Silent));
        let waits: Vec<_> = silent
            .map(|copy| Box::pin(async { copy.end = copy.disk_io.wait().await.into() }))
            .collect();
        let is_any = !waits.is_empty();
        if is_any {
            futures::future::select_all(waits).await;
        }
        is_any
    }

    /// Whether a current mirror has them.
    fn is_kept(&self) -> bool {
        self.copies[..self.mirrors]
            .iter()
            .any(|copy| copy.member.is_readable() && matches!(copy.end, End::Good))
    }
}

impl Data {
    /// Writes blocks to every mirror and remembers their checksums. The blocks' range is held
    /// exclusively. `durably`: they need no flush.
    pub(crate) async fn write_blocks(
        &self,
        extent: &Extent,
        first: Block,
        data: Slice,
        durably: bool,
        active: &Active<'_>,
    ) -> Result<()> {
        let mut sent = self.send(extent, first, &data, durably, active);
        if extent.has_sums() {
            poll_fn(|context| sent.poll(context)).await;
        } else {
            // Those of all other blocks are read meanwhile: the region is active, so what they say
            // of these blocks counts for nothing.
            let both = futures::future::join(
                poll_fn(|context| sent.poll(context)),
                self.load_sums(extent),
            );
            let ((), loaded) = Box::pin(both).await;
            loaded?;
        }
        if self.have_all(&sent) { Ok(()) } else { Box::pin(self.finish_write(sent)).await }
    }

    /// Sends blocks to every mirror.
    pub(crate) fn send<'a>(
        &'a self,
        extent: &'a Extent,
        first: Block,
        data: &Slice,
        durably: bool,
        _active: &Active<'_>,
    ) -> Sent<'a> {
        let sums = data.chunks_exact(BLOCK_SIZE).map(of_block).collect();
        let now = self.world.monotonic();
        let (mirrors, target) = extent.places();
        let mut copies = SmallVec::new();
        let mut send = |(mirror, member): (Mirror, &'a Arc<Member>)| {
            if member.is_writable() {
                let (offset, data) = (Self::offset(member, mirror, first), data.clone());
                let disk_io = member.start_write_at(now, offset, data, durably);
                // Only the first is waited for: a mistake that the simulator is to find.
                let end = if planted::has(Bug::AcknowledgedEarly) && !copies.is_empty() {
                    End::Good
                } else {
                    End::UnderWay
                };
                copies.push(Copy { mirror, member, disk_io, end });
            }
            copies.len()
        };
        let mirrors = self.members_of(mirrors).map(&mut send).last().unwrap_or(0);
        let target = target.filter(|_| !planted::has(Bug::GuestNotWritten));
        let target = target.and_then(|target| Some((target, self.members.get(&target.disk)?)));
        target.map(send);
        Sent { extent, first, sums, copies, mirrors }
    }

    /// Remembers the checksums of blocks that every mirror has. False: not every one, or there is
    /// something else to wait for.
    pub(crate) fn have_all(&self, sent: &Sent<'_>) -> bool {
        let Sent { extent, first, sums, copies, .. } = sent;
        let is_simple = copies.iter().all(|copy| matches!(copy.end, End::Good))
            && sent.is_kept()
            && self.mirrors(extent).all(|(_, member)| member.has_durable_marks());
        if is_simple {
            extent.set_sums(*first, sums);
        }
        is_simple
    }

    /// Goes on where not every mirror has them: steps 3 to 5.
    pub(crate) async fn finish_write(&self, mut sent: Sent<'_>) -> Result<()> {
        let limit = self.attributes().disk_full_wait;
        sent.copies.iter_mut().for_each(|copy| copy.disk_io.limit_room(limit));
        while !sent.is_kept() {
            // Step 3. No current mirror has them. While one is silent, wait (R2); else all have
            // failed.
            if !sent.wait_for_silent().await {
                return Err(self.write_failed(sent));
            }
        }
        let Sent { extent, first, sums, copies, .. } = sent;
        if let Err(error) = self.expel_failed(extent, copies).await {
            let is_kept = planted::has(Bug::SumsKept) && matches!(error, FileError::Refused { .. });
            if !is_kept {
                extent.forget_sums(first, sums.len());
            }
            return Err(error);
        }
        // Step 5. The misses of an offline disk must be on record before the caller is answered
        // (R4).
        extent.set_sums(first, &sums);
        for (_, member) in self.mirrors(extent) {
            self.wait_for_marks(member).await?;
        }
        Ok(())
    }

    /// No current mirror has the blocks, and none will: the error of the caller.
    fn write_failed(&self, sent: Sent<'_>) -> FileError {
        let Sent { extent, first, sums, copies, .. } = sent;
        extent.forget_sums(first, sums.len());
        let tried = copies.len();
        let failure = copies
            .into_iter()
            .find_map(|copy| if let End::Bad(end) = copy.end { Some(*end) } else { None });
        match failure {
            Some(IoResult::Failed(error)) => FileError::Disk(error),
            _ => self.lost(extent, tried),
        }
    }

    /// Step 4: takes the disks offline whose copies failed or are overdue. A disk that must stay in
    /// service is waited for.
    async fn expel_failed(
        &self,
        extent: &Extent,
        copies: impl IntoIterator<Item = Copy<'_>>,
    ) -> Result<()> {
        let mut refused = None;
        for mut copy in copies {
            let Some((failure, expelled)) = self.expel_copy(&mut copy).await? else { continue };
            match expelled {
                Ok(()) => {}
                // The move to this disk cannot go on; nothing else follows from that.
                Err(Refusal::WouldLoseData) if extent.cancel_target(copy.mirror) => {}
                Err(refusal) => {
                    match self.not_expelled(copy.member, &failure, refusal) {
                        FileError::Dismounted => return Err(FileError::Dismounted),
                        error => refused = Some(error),
                    }
                    if planted::has(Bug::FailureOverSilence) {
                        break;
                    }
                    // The other copies are waited for all the same: the caller may write something
                    // else there next.
                }
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Expels the disk of one copy. `None`: the copy is good, perhaps only now. Else why it is not,
    /// and what the voters answered.
    async fn expel_copy(
        &self,
        Copy { member, disk_io, end, .. }: &mut Copy<'_>,
    ) -> Result<Option<(String, std::result::Result<(), Refusal>)>> {
        let mut is_silent = matches!(end, End::Silent);
        let mut failure = match end {
            End::Good => return Ok(None),
            End::Bad(end) => end.reason(),
            End::Silent | End::UnderWay => disk_io.delay(),
        };
        if planted::has(Bug::AcknowledgedBeforeMembership) {
            self.expel_in_background(member, failure);
            return Ok(None);
        }
        loop {
            let expelled = self.voters.expel(member.number, &failure, false).await;
            if !is_silent || matches!(expelled, Ok(()) | Err(Refusal::Closing)) {
                return Ok(Some((failure, expelled)));
            }
            // The disk cannot be spared, or not yet, so it is waited for: a later write of these
            // blocks must not land before this one. Disks that were silent with it may answer
            // meanwhile, and then it is spared.
            match disk_io.wait_a_while(&*self.world).await {
                Some(end) if end.is_ok() => return Ok(None),
                Some(end) => (is_silent, failure) = (false, end.reason()),
                None if self.voters.is_closing() => return Err(FileError::Dismounted),
                None => {}
            }
        }
    }
}
