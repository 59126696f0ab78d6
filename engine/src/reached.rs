//! Marks at branches that are rarely taken, so that the simulator shows which it has never taken.
//!
//! A test that has found nothing may never have taken the branch where the error is. So each of
//! these marks stands at a branch on which an error would cost data, as `reached::at(..)`, and the
//! simulator counts how often histories took it.
//!
//! Only with the feature `testing`: without it [`at`] does nothing.

use crate::sync::named::named;
#[cfg(feature = "testing")]
use std::sync::atomic::{AtomicU64, Ordering};

named! {
    /// A branch.
    Mark {
        RegionTaken "region-taken" "a region is closed because its slot in the activity log is needed"
        RegionGrown "region-grown" "regions get larger because many are opened"
        ReleaseRepeated "release-repeated" "the checksums of a release are written again, as a flush failed meanwhile"
        RewriteRepeated "rewrite-repeated" "what recovery copied is copied again, as a flush failed meanwhile"
        GuestTurnedAway "guest-turned-away" "a mirror that moves stays where it is, as a write failed in its new place"
        MoveNotMade "move-not-made" "a mirror was copied, and its row is left as it was"
        BlockLostInCopy "block-lost-in-copy" "a block that no mirror has is marked lost in a copy"
        HoleMet "hole-met" "a request that waited for data finds a hole"
        ReadElsewhere "read-elsewhere" "a read that went wrong is answered by another mirror"
        ReadRepaired "read-repaired" "a read that no mirror could answer compares all of them"
        PairsInDispute "pairs-in-dispute" "two mirrors differ, and each is right by its own checksum"
        SilentMirrorNeeded "silent-mirror-needed" "no other mirror is known to be right: one that is silent is waited for"
        LowestTaken "lowest-taken" "of mirrors of which nothing is known the lowest is taken"
        ChecksumRefuted "checksum-refuted" "mirrors prove a checksum wrong"
        ZoneKept "zone-kept" "a checksum block keeps what it has of blocks that were not written"
        DoubtWritten "doubt-written" "what a failed flush may have lost is written again"
        HeaderWrittenAgain "header-written-again" "a header that another program has overwritten is written again"
        RecordWrittenAgain "record-written-again" "a record that another program has overwritten is written again"
        ZoneWrittenAgain "zone-written-again" "a checksum block that another program has overwritten is written again"
        DiscardLate "discard-late" "a discard takes longer than its disk may be silent"
        DiscardRefused "discard-refused" "a disk that failed a discard is asked again"
        DiscardMetWriter "discard-met-writer" "a hole is not discarded, as I/O is in flight there"
        DiscardMetLoss "discard-met-loss" "a hole is not discarded, as marks were lost meanwhile"
        SweepFromNote "sweep-from-note" "so much is to be discarded that a sweep finds it"
        SlotGrown "slot-grown" "a small file grows out of its slot"
        SharedExtentGone "shared-extent-gone" "the last small file of an extent goes"
        SizeKept "size-kept" "a size is kept for the successor"
        SizeWithoutRoom "size-without-room" "no more sizes can be kept"
        SizeRestored "size-restored" "a mount finds a size that was kept"
        MirrorMade "mirror-made" "an extent gets one mirror more"
        MirrorTaken "mirror-taken" "an extent gets one mirror less"
        MirrorNotTaken "mirror-not-taken" "a mirror is not taken, as it may be the only good one"
        RoomMade "room-made" "mirrors move to make room for others"
        RebalanceStuck "rebalance-stuck" "a rebalance ends with an error"
        ResizeFinished "resize-finished" "a disk has its new size"
        GrownInStages "grown-in-stages" "a disk grows where nothing is free"
        Compacted "compacted" "what lies at the end of a disk moves to its beginning"
        ResyncPaused "resync-paused" "a resync pauses as the group is dismounted"
        RecoveredOnDemand "recovered-on-demand" "a request that needs an extent does not wait until recovery comes to it"
        SpaceAwaited "space-awaited" "a request that finds no space waits for what is being freed"
        StuckExtent "stuck-extent" "an extent is not free yet, as I/O of its earlier owner does not end"
        CatalogRebuilt "catalog-rebuilt" "a mirror of the catalog is built"
        PageMended "page-mended" "a page of the catalog is read from another mirror"
    }
}

/// Counts that this branch was taken.
#[inline]
pub fn at(mark: Mark) {
    #[cfg(feature = "testing")]
    COUNTS[mark as usize].fetch_add(1, Ordering::Relaxed);
    #[cfg(not(feature = "testing"))]
    let _ = mark;
}

#[cfg(feature = "testing")]
static COUNTS: [AtomicU64; Mark::ALL.len()] = [const { AtomicU64::new(0) }; Mark::ALL.len()];

/// How often each branch was taken since the last call.
#[cfg(feature = "testing")]
#[must_use]
pub fn take() -> Vec<(Mark, u64)> {
    let taken =
        Mark::ALL.iter().map(|mark| (*mark, COUNTS[*mark as usize].swap(0, Ordering::Relaxed)));
    taken.filter(|(_, count)| *count > 0).collect()
}
