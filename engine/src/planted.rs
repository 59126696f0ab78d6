//! Mistakes on order: what the simulator is tried with.
//!
//! A net that has caught nothing may be a good engine, or a bad net. So each of these mistakes stands at the place where
//! somebody could make it, as `if planted::has(..)`, and the simulator has to find it (`sim --planted`).
//!
//! Only with the feature `testing`: without it [`has`] is false at compile time. They are planted for the whole process.

use crate::named::named;
#[cfg(feature = "testing")]
use std::sync::atomic::{AtomicU64, Ordering};

named! {
    /// A mistake.
    Bug {
        AcknowledgedEarly "acknowledged-before-second-mirror"
            "a write is acknowledged when its first mirror has it"
        AcknowledgedBeforeMembership "acknowledged-before-membership"
            "a write is acknowledged while the membership without its failed mirror is still being recorded (R4)"
        MembershipOnOneVoter "membership-on-one-voter"
            "a membership counts as in force when one voter was given it, not half of them (R3)"
        OldVotersCounted "majority-of-old-voters"
            "a mount counts its majority over the voters of an older membership than the newest in sight (R3)"
        VoterCountedTwice "voter-counted-twice"
            "a mount counts both slots of a voter as votes (R3)"
        RightPairOverwritten "right-pair-overwritten"
            "of two mirrors that differ, each right by its own checksum, one is copied over the other"
        CloneAccepted "clone-accepted"
            "of two devices with one disk id the first is used"
        OldImageAccepted "old-image-accepted"
            "a disk that is several stamps behind counts as current"
        ClaimIgnored "recovery-at-process-exit"
            "a mount goes on although I/O of the engine before it holds a disk (R1)"
        DeadlineRunsOn "deadline-while-stopped"
            "the deadline of an I/O counts time in which the engine did not run (R2)"
        HeadersTogether "headers-together"
            "the copies of a header are all rewritten, with one flush after the last"
        OwnMetadataNotLookedAt "own-metadata-not-looked-at"
            "nobody looks at headers, stamps, memberships and activity logs while the group is mounted"
        DataBeforeRegion "data-before-region"
            "data is written while the activity log that lists its region is on its way"
        CrashedRegionsForgotten "crashed-regions-not-compared"
            "mirrors in regions that were active at a crash are not compared"
        ReleasedBeforeSums "region-released-before-checksums"
            "a region leaves the activity log before its checksums are written (R10)"
        SumsBeforeData "checksums-before-data"
            "checksums are written before the data that they are of is durable on all mirrors (R10)"
        ReleasedBeforeFlush "region-released-before-flush"
            "a region leaves the activity log between its checksums and their flush (R10)"
        StaleMarkLate "stale-mark-after-write"
            "what an offline disk misses is marked stale when the region closes, not before it is written (R4)"
        ResyncFromWrongSide "resync-from-wrong-side"
            "a resync copies from the disk that returns to one that is current (R4)"
        ResyncOvertakesWriter "resync-overtakes-writer"
            "a resync does not wait for writes that began without the disk that returns"
        FailedFlushRetried "failed-flush-retried"
            "a flush that failed is tried again, and its success is believed (R9)"
        WrittenBeforeFlush "written-before-flush"
            "a sync commits pieces as written, then flushes their data (R9)"
        RecoveryNotFlushed "recovery-not-flushed"
            "what recovery copies is read before it is durable"
        PendingBelieved "pending-believed-after-reboot"
            "pending pieces count as written after a loss of power"
        GrowthForgotten "growth-forgotten"
            "a mount after a kill does not take over the sizes that were kept for the catalog"
        GrowthBelieved "growth-believed-after-cut"
            "the size that was kept of a file is not let go before the file is cut"
        PieceNotCompleted "piece-not-completed"
            "the first write to a piece does not complete it with zeros"
        BlockNotCompleted "part-block-not-completed"
            "what a write leaves of its first block is not read before"
        PartBlockKept "part-block-kept"
            "a block that was written in part is completed as it was then, although it was overwritten since"
        TailLeft "truncate-leaves-tail"
            "a file that is cut keeps the bytes behind its end in its last piece"
        UnknownTrusted "unknown-checksum-trusted"
            "a block whose checksum is not known is read from any mirror as it is"
        UnitReusedEarly "au-reused-before-durable"
            "an AU is reused when the commit that freed it is made, not when it is durable (R8)"
        SlotReusedEarly "slot-reused-before-durable"
            "a fragment's slot is reused when its file is promoted, not when that is durable (R8)"
        ReaderNotWaitedFor "reader-not-waited-for"
            "an AU is reused while I/O for its earlier owner is in flight (R8)"
        DiscardBehindReuse "discard-behind-reuse"
            "an AU is free while its discard is under way (R8)"
        DoubtfulPlaceFreed "doubtful-place-freed"
            "the AUs of a row whose commit failed with the catalog are free at once, and writes to its file go on"
        HoleDiscardedEarly "hole-discarded-before-durable"
            "a hole is discarded when it was punched, not when that is durable (R8)"
        HoleDiscardedUnheld "hole-discarded-while-written"
            "a hole is discarded although somebody has written there meanwhile"
        FragmentNotFlushed "fragment-lost-on-promotion"
            "a synced fragment is promoted by a commit that does not wait for the copy to be flushed"
        MirrorsShareGroup "mirrors-share-failure-group"
            "placement compares disks where it should compare failure groups"
        LogNotSynced "wal-not-synced"
            "the catalog's log is written, not flushed, when SQLite syncs it (R7)"
        FirstLogBelieved "first-wal-believed"
            "after a crash the catalog's log is taken from its first mirror, not from the longest (R6)"
        CatalogMirrorKept "catalog-mirror-not-struck"
            "the catalog's mirror on a disk that goes offline stays in the membership (R6)"
        SyncingStampKept "stamp-of-syncing-kept"
            "a disk that goes while it is SYNCING keeps the stamp of when it had gone before"
        GuestNotWritten "moving-mirror-not-written"
            "a write while a mirror moves does not go to where it moves"
        MoveOvertakesWriter "move-overtakes-writer"
            "a move does not wait for writes that began before it"
        MoveNotFlushed "move-not-flushed"
            "the row names a mirror's new place before what was copied there is flushed"
        OldPlaceLeft "old-place-left-early"
            "the place that a mirror leaves is not written any more while the commit may still be lost"
        MirrorTakenUnread "mirror-taken-unread"
            "a mirror is taken although nobody has looked whether those that stay are good"
        MovedPlaceReused "old-place-reused-early"
            "the place that a mirror has left is free while I/O on it is in flight (R8)"
        MoveSkipsBehindStep "move-skips-behind-step"
            "a mirror that moves is copied without the piece behind each full step"
        MovedMirrorCounted "moved-mirror-counted-twice"
            "an extent of which a mirror has moved still counts on its old disks as well (R5)"
        BarredUnitTaken "barred-au-taken"
            "AUs that a disk is to give up are allocated"
        RecordsNotCopied "records-not-copied"
            "a header names a new record area before that has what the first one holds"
        LeftAreaWritten "left-area-written"
            "records go on to be written to an area that no header names any more"
        ResyncEndsAfterBatch "resync-ends-after-batch"
            "a resync takes a whole run off the stale marks when the first batch of it is copied (R4)"
        SyncingWithoutSums "syncing-without-checksums"
            "a region that is released leaves a SYNCING disk without its checksums (R10)"
        RegionsAwaitEachOther "regions-await-each-other"
            "who writes in several regions waits inside of one for the next, however many do that"
        RegionTakenFromWriter "region-taken-from-writer"
            "a region leaves the activity log while a write in it is under way (R10)"
        DirtySumsDropped "dirty-checksums-dropped"
            "checksums that no zone has yet are dropped when there are too many in memory (R10)"
        StainedNotNoted "stained-extent-not-noted"
            "where many extents are noted for discards, one more is neither noted nor swept"
        HoleInUseForgotten "hole-in-use-forgotten"
            "a hole in which somebody writes or reads when it is to be discarded is not looked at again"
        LaterGrowthNotKept "later-growth-not-kept"
            "of a file that grows on before the catalog has its size only the first size is kept for a successor"
        TailBelievedClean "tail-believed-clean"
            "a file that grows after a crash shows what a write that came to no good end left behind its end"
        FailedCatalogMirrorKept "failed-catalog-mirror-kept"
            "a mirror of the catalog that failed a write stays in the membership (R6)"
        LogEmptiedEarly "log-emptied-early"
            "recovery empties the catalog's log before the pages that it replayed are durable (R7)"
        OverlapInOneStep "overlapping-areas-in-one-step"
            "a header names a record area that overlaps the one before, without one that names neither between them"
        CrashedRegionsNotStale "crashed-regions-not-stale"
            "what a disk that is away missed in regions that were active at a crash is not marked stale (R4)"
        KilledNotFlushed "killed-not-flushed"
            "a mount after a kill believes pending pieces before it has flushed the disks (R9)"
        GrownLetGo "kept-size-let-go-early"
            "the size that was kept of a file is let go when a commit has an earlier one"
        WordsStay "words-of-predecessor-stay"
            "a mount leaves the sizes that its predecessor kept where they are, and counts them as its own"
        CatalogCopyNotFlushed "catalog-copy-not-flushed"
            "a mirror of the catalog is listed before it is flushed (R6)"
        NeededMirrorStruck "needed-mirror-struck"
            "a mirror of the catalog that is in the way is given up though no other can be read"
        NewPlaceFreedEarly "new-place-freed-early"
            "the place to which a mirror did not move is free while somebody writes there (R8)"
        StainsLostInCut "stains-lost-in-cut"
            "a disk that gets another size forgets which of its free AUs are to be discarded"
        HungCatalogFreed "hung-place-freed"
            "AUs that the catalog does not need are free while an overdue write to them is under way (R8)"
        SilentPartnerCounts "silent-partner-counts"
            "a silent disk goes offline although those that have its mirrors are silent, too (R2)"
        VoteHoldsUpChange "vote-holds-up-change"
            "a change of the membership is refused because a disk that is to vote next does not take the activity log"
        UnseenOverwritten "unseen-overwritten"
            "what a silent mirror has is written over although nobody has seen it"
        OverdueMendLeft "overdue-mend-left"
            "what mends a block is not waited for while it may still land on what is written next"
        OnlyGoodLetGo "only-good-mirror-let-go"
            "a disk goes offline because it is silent about a block that it alone has right"
        JoiningForGood "joining-for-good"
            "a disk that was to vote and did not take the activity log is waited for by whoever writes the log"
        SilenceOverFailure "silence-over-failure"
            "a disk that fails a write stays as long as it is silent, too, and the other mirror has been"
        FailureOverSilence "failure-over-silence"
            "a write that fails on one mirror ends while another one, which is silent, may still get it"
        SilentLogForNone "silent-log-for-none"
            "a mount takes a voter that does not answer for one without an activity log"
        ReturningBlockMarkedLost "returning-block-marked-lost"
            "what a disk that returns has right, and can be read on no other any more, is replaced by a mark"
        UnseenForgotten "unseen-forgotten"
            "an extent counts as compared after a crash although one of its mirrors did not answer"
        CopyLeftAtDismount "copy-left-at-dismount"
            "a copy whose write is overdue is given up when a dismount begins, and its place is free before it has landed"
        SilentMirrorTakenForBad "silent-mirror-taken-for-bad"
            "a mirror that is only silent is taken for one that cannot be read, where it alone has what is right (R2)"
        OverdueCopyLeft "overdue-copy-left"
            "a copy whose write is overdue is given up while it may still land on what is written next"
        StayNotLookedAgain "stay-not-looked-at-again"
            "a mirror is taken without another look, at its turn, whether one that stays is current"
        MovedSumsUnproved "moved-checksums-not-written"
            "what moves does not count as proved when its row changes: its checksums may stay unwritten in the new place"
        MoveVotersNotSettled "moved-before-voters-settled"
            "a move does not wait for what was decided before its mirrors counted (R5)"
        GuestNotMended "mended-guest-missed"
            "what is made equal on the mirrors of an extent that moves is not written to its guest"
        MadeMirrorForgotten "made-mirror-forgotten"
            "who has read the row of an extent before it got a mirror may bring it in without that"
        CopyToLeftPlace "copy-to-left-place"
            "a copy goes on into an AU that its extent has left meanwhile"
        UnreadLeftBehind "unread-left-behind"
            "a move leaves a place of which a block cannot be read now, and could be later"
        MarksLockedMeanwhile "marks-locked-meanwhile"
            "what disks miss is locked while the catalog reads pages: who wants to write waits with his thread"
        LateStatementLost "late-statement-lost"
            "a statement that comes while a rebalance ends is not seen to"
        PendingIgnoredAtDrop "pending-not-counted-at-drop"
            "a disk is let go although what was freed there is not free durably"
        WipeNotWaited "wipe-not-waited-for"
            "the overdue wipe of an old header copy is not waited for, and its AU is used"
        ReplacedStaleLate "replaced-stale-after-admission"
            "a device that takes the place of another is recorded before all of it is stale"
        CopiedBeforeRecovery "copied-before-recovery"
            "a resync copies extents that were not compared yet"
        ReturnUnsettled "return-before-stale-marks"
            "a disk returns before what it misses is recorded"
        SyncingNotStale "active-regions-not-stale-for-syncing"
            "what was being written at a crash is not stale on a disk that was SYNCING (R4)"
        SuspectForgotten "suspect-forgotten-on-error"
            "an extent whose comparison failed counts as compared"
        StuckExtentFreed "stuck-extent-freed"
            "the AUs of an extent that is gone are free although somebody has been stuck in them for long"
        HolePunchedAgain "hole-punched-again-discarded"
            "a hole is discarded although it had data meanwhile, and may have that again after a loss of power"
        UnsyncedFileForgotten "unsynced-file-forgotten"
            "a file is forgotten that has writes which were not synced"
        SnapshotLookedLate "look-begins-after-snapshot"
            "who loads extents looks out for those that go only from when their rows are read"
        CatalogWriteUncounted "catalog-write-not-counted"
            "AUs that the catalog gives up are free while something is written to them"
        FlushCountsTooMuch "flush-counts-what-came-after"
            "a write that ended while a flush was on its way counts as flushed by that"
        PageCachedLate "page-cached-over-a-write"
            "a page of the catalog that was read before a write is kept after that"
        FailedStampCounts "failed-stamp-counts"
            "the next stamp is a higher one although not every disk took this one"
        MoveForgetsFlush "move-forgets-broken-flush"
            "a move ends although a flush of the disk that it goes to has failed since it began"
        UnreadableMovedByChoice "unreadable-moved-by-choice"
            "COMPACT moves an extent of which some cannot be read now"
        LoweredLate "redundancy-lowered-late"
            "a conversion to fewer mirrors lowers the redundancy on record when it is done"
        NoteErased "rebalance-note-erased"
            "a rebalance that ends takes itself off the record although another statement has come"
        StayNotFlushed "staying-mirror-not-flushed"
            "a mirror is taken before what was mended on those that stay is flushed"
        ShrinkNotCounted "shrink-not-counted"
            "what fits is counted by the sizes that disks have, not by those that they are to have"
        UnitMiscopied "barred-unit-miscopied"
            "an AU of the catalog that is in the way of a resize gets a copy of the first AU of its run"
        MarksRemoved "marks-removed-after-loss"
            "a batch of a resync takes its marks off although the disk has gone again"
        SmallReplacement "replacement-smaller-than-target"
            "a device may take a disk's place that has too few bytes for the size that the disk is to have"
        HistoryKept "history-kept"
            "a disk that is copied whole keeps the memberships of a history that was given up"
        BehindForgotten "behind-forgotten"
            "a voter that did not take a membership is not given it later"
        LastNotSuspect "last-of-region-not-suspect"
            "a region is closed although its last extent was not compared after a crash"
        SumsKept "sums-kept-after-refusal"
            "the checksums of before stay when a write was refused half way"
        AnsweredForGood "answered-for-good"
            "a sync counts writes as answered for that ended while it was under way"
        UnderFlush "under-flush-not-doubted"
            "a write that begins while a flush is under way that fails is not in doubt"
        EdgesNotNoted "punched-edges-not-noted"
            "the edges of a hole count as durable without a flush"
        CutNotSeen "cut-not-seen-by-store"
            "the size that was kept of a file is let go by a commit from before the file was cut"
        FineHole "fine-hole-too-long"
            "in a FINE file the hole at a missing extent reaches to the next one"
        SharedHigh "high-file-in-slot"
            "a small file that asks for more mirrors than the group has gets a slot of a shared extent"
        OthersFlush "catalog-flush-of-others"
            "a flush that failed for somebody else is made good by the catalog's own"
        DiscardedSoon "all-discarded-too-soon"
            "a dismount says that all is discarded although something freed is not free yet"
        TailNotSoiled "tail-not-soiled"
            "what a failed write leaves behind a file's end is shown when the file grows"
    }
}

/// The mistakes that are planted, a bit each.
#[cfg(feature = "testing")]
static PLANTED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

#[cfg(feature = "testing")]
const _: () = assert!(Bug::ALL.len() <= 192, "there is a bit for each");

/// Plants mistakes in this process, and no others.
#[cfg(feature = "testing")]
pub fn plant(bugs: &[Bug]) {
    for (index, word) in PLANTED.iter().enumerate() {
        let here = bugs.iter().filter(|bug| **bug as usize / 64 == index);
        word.store(here.fold(0, |bits, bug| bits | 1 << (*bug as usize % 64)), Ordering::Relaxed);
    }
}

/// The mistakes that are planted.
#[cfg(feature = "testing")]
#[must_use]
pub fn planted() -> Vec<Bug> {
    Bug::ALL.iter().copied().filter(|bug| has(*bug)).collect()
}

/// Whether this mistake is to be made.
#[cfg(feature = "testing")]
#[must_use]
pub fn has(bug: Bug) -> bool {
    #[cfg(test)]
    if of_tests() == Some(bug) {
        return true;
    }
    PLANTED[bug as usize / 64].load(Ordering::Relaxed) & 1 << (bug as usize % 64) != 0
}

/// The engine's own tests are tried with the mistake that `PLINTH_PLANTED` names.
#[cfg(all(test, feature = "testing"))]
fn of_tests() -> Option<Bug> {
    static BUG: std::sync::LazyLock<Option<Bug>> = std::sync::LazyLock::new(|| {
        let name = std::env::var("PLINTH_PLANTED").ok()?;
        Bug::ALL.iter().copied().find(|bug| bug.name() == name)
    });
    *BUG
}

/// Whether this mistake is to be made: no.
#[cfg(not(feature = "testing"))]
#[must_use]
pub const fn has(_: Bug) -> bool {
    false
}
