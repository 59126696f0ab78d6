//! Writes that are uncertain after a failed flush (R9).
//!
//! A flush that fails takes its disk offline; what it did not make durable is copied when the disk
//! returns. A disk that cannot be spared (R5: some extent has its only current mirror there) stays,
//! and it is unknown which of the writes since the last good flush it has kept: a later flush that
//! works proves nothing about them. So:
//!
//!   1. Every file with a write that no good flush had covered gets an error at its next sync,
//!      whichever task's flush failed. Time is cut into *epochs*; each flush of the disks begins
//!      one. A write notes the epoch in which it began and the one in which it ended; a failure
//!      notes the last good flush's epoch and its own. Writes that overlap a failure are uncertain.
//!   2. The file's pending pieces then become *uncertain*. An uncertain piece is never marked
//!      written as it is: its bytes are read, checked against the checksums in memory, written
//!      again, and flushed like new ones. It stays uncertain until that flush was good, and none
//!      has failed since the piece was written again. Bytes that are not right any more are lost,
//!      and the file's syncs fail until they are overwritten or punched.
//!   3. The caretaker records a boot id in the membership that is no host's: if the engine dies
//!      now, pending pieces read as zeros, as after a loss of power. Then it writes all pending
//!      pieces again, and when a flush has covered them the boot id is the host's.
//!   4. The catalog has a rule of its own (`store.rs`): a failed flush of one of its disks, with
//!      catalog writes before it that were not flushed, stops it. The log's checksums tell the next
//!      mount how far it got.
//!   5. A checksum block counts as written when a good flush has followed (R10, `activity.rs`).
//!
//! A reader sees what the disk returns, checked against the checksums in memory: the right bytes or
//! an error. Of a write that replaced written bytes only the file is known, not the blocks: after
//! its error, either bytes may be there.
//!
//! A mount after a kill flushes what the engine before it left (`mount.rs`, step 6). Where that
//! fails on a disk that stays, the mount does the same at once: the boot id is no host's, pending
//! pieces hold nothing, and files that had some get an error at their next sync.
//!
//! Not covered: an engine that is killed before step 3 has recorded its boot id, a second at most
//! after the failure. And of a flush that fails at a mount:
//!
//! - Files that had no pending pieces, because only written bytes were overwritten, or because they
//!   only grew, get no error.
//! - The errors are kept in memory: those that no sync has returned when the engine is killed again
//!   are forgotten.
//! - If the mount is refused before its step 6, because the only voter does not take its record,
//!   the next mount does not know of the failure.
//!
//! The cost of a write is some loads, and two stores when the epoch has changed or a sync has
//! begun.

use crate::{
    api::Node,
    disk::{counters::IoClient, member::Member},
    error::FileError,
    event::Severity,
    extent::data::Data,
    extent::{Extent, blocks::FirstMirror},
    limits::Limit,
    planted::{self, Bug},
    reached::{self, Mark},
    sync::lock::{Mutex, MutexGuard},
};
use plinth_format::{BLOCK_SIZE, Block, Piece, checksum::of_block};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Failures remembered one by one; older ones are merged, and a file may get the error of a failure
/// that did not concern it.
const FAILURES_MAX: Limit = Limit::new(64, 2);
/// Parts of a file's writes that syncs have taken over and not answered for, at most. Beyond that
/// the oldest are merged.
const TAKEN_MAX: Limit = Limit::new(16, 2);
/// Rounds of the caretaker between two attempts to write uncertain pieces again.
const TRY_AGAIN: u64 = 30;
/// The boot id that no host has.
pub const NO_BOOT: [u8; 16] = [0; 16];

/// Stands for the disk in a file's error, after a mount that does not know which disk lost its
/// writes.
pub const LOST_BEFORE: &str = "of an earlier mount";

/// A flush that failed on a disk that stayed.
#[derive(Debug, Clone)]
struct Failure {
    /// The epoch of the last good flush before it.
    after: u64,
    /// The epoch in which it was noticed.
    until: u64,
    disk: String,
    reason: String,
}

/// The failures of a group. See the module's description.
#[derive(Debug)]
pub struct FailedFlushes {
    flush_epoch: AtomicU64,
    /// The epoch of the last flush that covered every disk.
    good: AtomicU64,
    failures: Mutex<Vec<Failure>>,
    /// How many there were.
    count: AtomicU64,
    /// How many there were when all pending pieces had been written again, and in which round that
    /// was last tried.
    resolved: AtomicU64,
    tried: AtomicU64,
    /// Files with writes of an earlier engine that a mount could not make durable: each owes an
    /// error.
    lost: Mutex<Option<(BTreeSet<Node>, Failure)>>,
}

impl Default for FailedFlushes {
    fn default() -> Self {
        Self {
            flush_epoch: AtomicU64::new(1),
            good: AtomicU64::new(0),
            failures: Mutex::default(),
            count: AtomicU64::new(0),
            resolved: AtomicU64::new(0),
            tried: AtomicU64::new(0),
            lost: Mutex::default(),
        }
    }
}

/// The epochs of a file's writes that no sync has answered for.
#[derive(Debug)]
pub struct Unsynced {
    /// When the first write began that was noted since the last sync began.
    from: AtomicU64,
    to: AtomicU64,
    /// Locked while a sync takes over the writes it answers for, and while one marks pieces
    /// uncertain.
    taken: Mutex<Taken>,
}

/// Writes that syncs have taken over, and none has answered for. A write that is noted while a sync
/// is in flight does not belong to that sync, however early the write began.
#[derive(Debug, Default)]
pub struct Taken {
    /// How many syncs found something new.
    syncs: u64,
    /// Which of them took it over, and when the first write of it began.
    parts: Vec<(u64, u64)>,
}

impl Default for Unsynced {
    fn default() -> Self {
        Self { from: AtomicU64::new(u64::MAX), to: AtomicU64::new(0), taken: Mutex::default() }
    }
}

/// The epochs that a sync answers for.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// `u64::MAX`: none.
    from: u64,
    to: u64,
    /// How many syncs had found something new when this one had begun.
    syncs: u64,
}

impl Taken {
    fn from(&self) -> u64 {
        self.parts.iter().map(|(_, from)| *from).min().unwrap_or(u64::MAX)
    }

    fn add(&mut self, sync: u64, from: u64) {
        if from == u64::MAX {
            return;
        }
        self.parts.push((sync, from));
        if self.parts.len() > TAKEN_MAX.get() {
            let (sync, from) = self.parts.remove(0);
            let next = &mut self.parts[0];
            *next = (next.0.max(sync), next.1.min(from));
        }
    }
}

impl Unsynced {
    /// A write that began in `began` has ended, its marks are committed, and it will be
    /// acknowledged.
    pub fn note(&self, began: u64, ended: u64) {
        // A sync takes over `from` first and then looks at `to`: if this finds `from` early enough,
        // that sync sees `to` as it is now.
        if self.to.load(Ordering::SeqCst) < ended {
            self.to.fetch_max(ended, Ordering::SeqCst);
        }
        if self.from.load(Ordering::SeqCst) > began {
            self.from.fetch_min(began, Ordering::SeqCst);
        }
    }

    /// Locked by a sync that is about to answer.
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }

    /// A sync begins. Returns the epochs that it answers for.
    pub fn take_over(&self) -> Span {
        let mut taken = self.taken();
        let new = self.from.swap(u64::MAX, Ordering::SeqCst);
        taken.syncs += u64::from(new != u64::MAX);
        let syncs = taken.syncs;
        taken.add(syncs, new);
        Span { from: taken.from(), to: self.to.load(Ordering::SeqCst), syncs }
    }

    /// The epochs that no sync has answered for.
    fn span(&self) -> Span {
        let taken = self.taken();
        let from = self.from.load(Ordering::SeqCst).min(taken.from());
        Span { from, to: self.to.load(Ordering::SeqCst), syncs: taken.syncs }
    }

    /// A sync has answered for a span, up to the epoch `left`. Writes that were noted since it
    /// began stay.
    fn answered(&self, taken: &mut Taken, span: Span, left: u64) {
        taken.parts.retain(|(sync, _)| *sync > span.syncs);
        taken.add(span.syncs, left);
        if planted::has(Bug::AnsweredForGood) {
            self.from.store(u64::MAX, Ordering::SeqCst);
        }
        if planted::has(Bug::BegunEarlyAnswered) && self.from.load(Ordering::SeqCst) != u64::MAX {
            self.from.store(u64::MAX - 1, Ordering::SeqCst);
        }
    }
}

impl FailedFlushes {
    /// The current epoch.
    #[must_use]
    pub fn flush_epoch(&self) -> u64 {
        self.flush_epoch.load(Ordering::Acquire)
    }

    /// A flush of all disks begins: it covers what ended in an earlier epoch.
    pub fn begin_flush(&self) -> u64 {
        self.flush_epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The flush that began with this epoch was good.
    pub fn flushed(&self, flush_epoch: u64) {
        self.good.fetch_max(flush_epoch, Ordering::AcqRel);
    }

    /// The caretaker leaves pending pieces to a story, or looks at them in its next round.
    #[cfg(test)]
    pub(crate) fn leave_to_story(&self, is_left: bool) {
        self.tried.store(if is_left { u64::MAX - TRY_AGAIN } else { 0 }, Ordering::Relaxed);
    }

    /// How many flushes have failed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// A flush failed on a disk that stays. False: that is known already.
    fn note(&self, member: &Member, reason: &str) -> bool {
        let taken = planted::has(Bug::BrokenTakenEarly) && member.take_broken();
        let mut failures = self.failures.lock();
        // A flush that fails from here on is another failure: writes from here on may be covered by
        // it.
        let broken = member.broken();
        if !member.is_broken() && !taken {
            return false;
        }
        // Writes that began before this moment may have been lost by the flush.
        let until = self.flush_epoch.fetch_add(1, Ordering::AcqRel);
        let after = self.good.load(Ordering::Acquire);
        match failures.last_mut() {
            Some(last) if last.after == after => last.until = until,
            _ => failures.push(Failure {
                after,
                until,
                disk: member.name().to_string(),
                reason: reason.to_owned(),
            }),
        }
        if failures.len() > FAILURES_MAX.get() {
            let oldest = failures.remove(0);
            failures[0].after = oldest.after;
        }
        self.count.fetch_add(1, Ordering::AcqRel);
        // Last: a task that finds the disk unbroken before its own flush counts as good must find
        // this failure counted.
        member.knows_broken(broken);
        true
    }

    /// Files have lost what was written to them and not synced before this mount, for a flush of a
    /// disk failed.
    pub fn lose(&self, files: BTreeSet<Node>, disk: &str, reason: &str) {
        let failure =
            Failure { after: 0, until: 0, disk: disk.to_owned(), reason: reason.to_owned() };
        *self.lost.lock() = Some((files, failure)).filter(|(files, _)| !files.is_empty());
    }

    /// The error that a file's sync owes for what was lost at the mount. It is returned once.
    pub fn take_lost(&self, file: Node) -> Option<FileError> {
        let mut lost = self.lost.lock();
        let (files, failure) = lost.as_mut()?;
        files.remove(&file).then(|| error_of(failure))
    }

    fn failure(&self, span: Span) -> Option<Failure> {
        if self.count() == 0 || span.from == u64::MAX {
            return None;
        }
        let failures = self.failures.lock();
        let from = span.from + u64::from(planted::has(Bug::UnderFlush));
        failures.iter().find(|failure| span.to >= failure.after && from <= failure.until).cloned()
    }

    /// Whether a good flush covers all writes of a file, and none is uncertain: it may leave
    /// memory, and has nothing to flush.
    #[must_use]
    pub fn covers_all(&self, unsynced: &Unsynced) -> bool {
        let span = unsynced.span();
        span.from == u64::MAX
            || (span.to < self.good.load(Ordering::Acquire) && self.failure(span).is_none())
    }
}

fn error_of(failure: &Failure) -> FileError {
    FileError::Refused {
        disk: failure.disk.clone(),
        reason: format!(
            "a flush failed, and what was written before it may be lost: {}",
            failure.reason
        ),
        why: "some extent would keep no current mirror".to_owned(),
    }
}

impl Data {
    /// A flush of a disk that stays has failed. Two tasks that find that note it once.
    pub(crate) fn note_failed_flush(&self, member: &Member, reason: &str) {
        if !self.failed_flushes.note(member, reason) {
            return;
        }
        let text = format!(
            "disk {} cannot be spared, and a flush of it failed: {reason}. What was written since the last good flush may be \
             lost: each file concerned gets an error at its next sync. Replace the disk",
            member.name()
        );
        self.tell(Severity::Alarm, Some(member.number), text);
    }

    /// The error that a file's sync owes, if it owes one. Then the pending pieces become uncertain.
    /// `answer`: this sync returns the error.
    pub(crate) fn uncertain(
        &self,
        unsynced: &Unsynced,
        span: Span,
        pending: impl Fn() -> Pending,
        answer: bool,
    ) -> Option<FileError> {
        let failure = self.failed_flushes.failure(span)?;
        let mut taken = unsynced.taken();
        if answer {
            // Nothing of it is durable yet: it stays for a failure that follows before a good
            // flush.
            unsynced.answered(&mut taken, span, self.failed_flushes.flush_epoch());
        }
        // After that: a write that noted itself before it has its marks in memory.
        for (extent, pieces) in pending() {
            let mut state = extent.state();
            pieces.into_iter().for_each(|piece| state.uncertain.add(piece));
        }
        Some(error_of(&failure))
    }

    /// A file's sync has returned success.
    pub(crate) fn answered(&self, unsynced: &Unsynced, span: Span) {
        unsynced.answered(&mut unsynced.taken(), span, u64::MAX);
    }

    /// Writes pending pieces again, so that a flush from now on proves something about them.
    /// Returns which were written: uncertain ones stay so until [`Self::trust_again`].
    pub(crate) async fn write_again(
        &self,
        extent: &Arc<Extent>,
        pieces: &[Piece],
    ) -> Result<Vec<Piece>, FileError> {
        let mut again = Vec::new();
        for piece in pieces {
            let blocks = piece.blocks();
            let first = Block(blocks.start);
            let _range = extent.ranges.hold(blocks.clone(), true).await;
            if extent.is_tombstone() || !extent.state().pending.has(*piece) {
                continue;
            }
            let active = self.activate(extent).await?;
            self.load_sums(extent).await?;
            let buffer = match self
                .try_read(extent, blocks.clone(), IoClient::Files, FirstMirror::RoundRobin)
                .await?
            {
                Some(read) => read.buffer,
                None => self.repair(extent, blocks.clone(), &active).await?,
            };
            let sums: Vec<u32> = buffer.chunks_exact(BLOCK_SIZE).map(of_block).collect();
            let written = self.write_blocks(extent, first, buffer.share(), false, &active).await;
            if written.is_err() {
                // The bytes are the same, on whichever mirrors they have arrived: their checksums
                // are known.
                extent.set_sums(first, &sums);
            }
            written?;
            reached::at(Mark::DoubtWritten);
            if planted::has(Bug::RewriteBelieved) {
                extent.state().uncertain.remove(*piece);
            }
            again.push(*piece);
        }
        Ok(again)
    }

    /// Pieces that were written again since `failures` flushes had failed are flushed: they are no
    /// longer uncertain. False: a flush has failed meanwhile, and may have lost what was written
    /// again.
    pub(crate) fn trust_again(&self, again: &Pending, failures: u64) -> bool {
        again.iter().all(|(extent, pieces)| {
            // With the state locked: a failure is counted before any task marks pieces uncertain
            // for it.
            let mut state = extent.state();
            let is_good = self.failed_flushes.count() == failures;
            pieces.iter().filter(|_| is_good).for_each(|piece| state.uncertain.remove(*piece));
            is_good
        })
    }

    /// Whether a flush has failed, and pending pieces have not been written again since.
    pub(crate) fn is_uncertain(&self) -> bool {
        self.failed_flushes.resolved.load(Ordering::Acquire) < self.failed_flushes.count()
    }

    /// Step 3: sees to it that the next mount takes nothing for written that a failed flush may
    /// have lost.
    pub(crate) async fn distrust_pending(&self) -> Result<(), FileError> {
        if !(self.is_uncertain() || self.store.has_failed_to_flush()) || self.boot() == NO_BOOT {
            return Ok(());
        }
        // A change that cannot be recorded holds up all others: not while a voter does not take it.
        for disk in self.voters.current().voters() {
            if let Some(member) = self.members.get(&disk.number)
                && !member.flush().await.is_ok()
                && self.voters.current().voters().count() < 3
            {
                return Ok(());
            }
        }
        self.record_boot(NO_BOOT).await
    }

    async fn record_boot(&self, boot: [u8; 16]) -> Result<(), FileError> {
        self.voters.record_boot(boot).await.map_err(|refusal| FileError::Refused {
            disk: self.name.clone(),
            reason: refusal.to_string(),
            why: "what may be lost could not be recorded".to_owned(),
        })
    }

    /// Step 3, whole: the caretaker's.
    pub(crate) async fn resolve_uncertain(&self) -> Result<(), FileError> {
        // A failure that was not noticed yet: a record of the voters did not need the flush.
        if self.members.values().any(|member| member.is_writable() && member.is_broken()) {
            let _ = self.flush_disks().await;
        }
        if !self.is_uncertain() {
            return Ok(());
        }
        self.distrust_pending().await?;
        let (round, tried) =
            (self.ticks.load(Ordering::Relaxed), self.failed_flushes.tried.load(Ordering::Relaxed));
        if tried != 0 && round < tried + TRY_AGAIN {
            return Ok(());
        }
        self.failed_flushes.tried.store(round, Ordering::Relaxed);
        let count = self.failed_flushes.count();
        let (mut again, mut lost) = (Pending::new(), None);
        for extent in self.extents.all() {
            let pieces: Vec<Piece> = extent.state().pending.iter().collect();
            match self.write_again(&extent, &pieces).await {
                Ok(written) => again.push((extent, written)),
                Err(error) => lost = Some(error),
            }
        }
        if let Some(error) = lost {
            return Err(error);
        }
        self.flush_disks().await?;
        if !self.trust_again(&again, count) || self.failed_flushes.count() != count {
            return Ok(());
        }
        self.record_boot(self.world.boot_id()).await?;
        self.failed_flushes.resolved.store(count, Ordering::Release);
        self.failed_flushes.tried.store(0, Ordering::Relaxed);
        self.tell(
            Severity::Note,
            None,
            "what a failed flush left in doubt is written again and flushed".to_owned(),
        );
        Ok(())
    }
}

/// Extents with pieces that are pending.
pub(crate) type Pending = Vec<(Arc<Extent>, Vec<Piece>)>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{disk::member::tests::member, testing::MemoryDisk};
    use plinth_format::layout::MIB;

    /// A sync answers for writes that were noted before it began, and for no others, in whatever
    /// order syncs end.
    #[test]
    fn a_sync_answers_for_what_was_noted_before_it_began() {
        let unsynced = Unsynced::default();
        let answer = |span| unsynced.answered(&mut unsynced.taken(), span, u64::MAX);
        unsynced.note(3, 3);
        let first = unsynced.take_over();
        // It began before the first sync.
        unsynced.note(2, 4);
        let second = unsynced.take_over();
        unsynced.note(5, 5);
        assert_eq!([first, second].map(|span| span.from), [3, 2]);
        answer(first);
        assert_eq!(unsynced.span().from, 2, "the second has not answered for it yet");
        answer(second);
        assert_eq!(unsynced.span().from, 5);
        // No sync answers for long.
        let last = (6..100).map(|flush_epoch| {
            unsynced.note(flush_epoch, flush_epoch);
            unsynced.take_over()
        });
        let last = last.last().expect("many");
        assert!(unsynced.taken().parts.len() <= TAKEN_MAX.get());
        answer(second);
        assert_eq!(last.from, 5);
        assert_eq!(unsynced.span().from, 5);
        answer(last);
        assert_eq!(unsynced.span().from, u64::MAX);
    }

    /// A flush fails and is noted, while another thread looks whether one has failed: either the
    /// disk is broken, or the failure is counted.
    #[test]
    fn a_task_that_finds_a_disk_unbroken_finds_its_failures_counted() {
        let (failed_flushes, member) =
            (FailedFlushes::default(), member(&MemoryDisk::new("/disk", 64 * MIB, 512, 4096)));
        std::thread::scope(|scope| {
            let noter = scope.spawn(|| {
                for failures in 1..=50_000 {
                    member.note_failed_flush();
                    assert!(failed_flushes.note(&member, "it failed"));
                    assert!(!failed_flushes.note(&member, "it failed"), "it is noted once");
                    assert_eq!(failed_flushes.count(), failures);
                }
            });
            while !noter.is_finished() {
                let failed = member.broken();
                assert!(
                    member.is_broken() || failed_flushes.count() >= failed,
                    "nobody knows of a flush that failed"
                );
            }
        });
        assert!(failed_flushes.failures.lock().len() <= FAILURES_MAX.get());
    }
}
