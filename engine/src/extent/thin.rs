//! How much each disk has given back, is still to give back, and cannot give back:
//! `v$asm_disk_thin`.
//!
//! Counted from the states of AUs, and from the pieces that are noted for discards. Holes in AUs
//! that are in use and were discarded count as allocated: which those are only the catalog knows.

use crate::{
    disk::member::Member,
    extent::data::Data,
    world::discard_limits::{DiscardLimits, NoDiscards},
};
use plinth_format::{DiskNumber, layout::PIECE_SIZE};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The thin space of a disk, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskThin {
    pub disk: DiskNumber,
    /// `None`: the device honours no discards, or is not attached.
    pub limits: Option<DiscardLimits>,
    /// AUs in use, and free ones that were not discarded.
    pub allocated: u64,
    pub waiting: u64,
    pub in_flight: u64,
    /// Since the mount.
    pub returned: u64,
    /// Free, and not to be discarded now; `reason` says why.
    pub not_returnable: u64,
    pub reason: Option<String>,
    /// How long there has been something waiting, or in flight.
    pub age: Duration,
    /// Discards that failed since the mount.
    pub failures: u64,
}

/// Why free space of a disk is not discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Reason {
    #[error("a quorum disk holds no files")]
    Quorum,
    #[error("the disk is OFFLINE; what was freed meanwhile is discarded when it is back")]
    Offline,
    #[error(transparent)]
    Device(NoDiscards),
    #[error("attribute thin_provisioned is false")]
    SwitchedOff,
    #[error("the disk is being dropped")]
    Leaving,
    #[error(
        "the group was mounted by FORCE, or its catalog is damaged: free space may hold all that is \
         left of a file; dismount and mount it without FORCE"
    )]
    Doubtful,
    #[error("a discard has failed, see v$asm_error; it is tried again in {0} s")]
    Failed(u64),
    #[error("these bytes share units of the device with data: its granularity is {0} bytes")]
    SharesUnits(u64),
}

impl Data {
    /// The thin space of each disk.
    pub(crate) fn thin(&self) -> Vec<DiskThin> {
        let pieces = self.pieces_waiting();
        let of = |member: &Arc<Member>| {
            self.thin_of(member, pieces.get(&member.number).copied().unwrap_or(0))
        };
        self.members.values().map(of).collect()
    }

    fn thin_of(&self, member: &Member, pieces: u64) -> DiskThin {
        let disk = member.number;
        let limits = member.discard_limits();
        let units = member.layout().au_count();
        let (clean, stained, cut_off) = {
            let space = self.space();
            let (stains, discarding) = (space.stains(disk), space.discarding(disk));
            let stained = stains.saturating_sub(discarding);
            let clean = space.free(disk).saturating_sub(stained);
            let cut_off = limits.map_or(0, |limits| space.cut_off(disk, &limits));
            (clean, u64::from(stained) * self.au_size, cut_off)
        };
        let held = u64::from(units.saturating_sub(clean)) * self.au_size;
        let free = stained + pieces;
        let reason = self.no_discards(member);
        let (waiting, not_returnable) = match reason {
            // These end by themselves.
            None | Some(Reason::Failed(_)) => (free, cut_off),
            Some(_) => (0, free.max(cut_off)),
        };
        let cuts = limits.filter(|_| cut_off > 0);
        let reason = reason.or(cuts.map(|limits| Reason::SharesUnits(limits.granularity)));
        let about = self.discards.about(disk, self.world.monotonic());
        DiskThin {
            disk,
            limits,
            allocated: if member.quorum { 0 } else { held + cut_off },
            waiting,
            in_flight: about.in_flight,
            returned: about.returned,
            not_returnable,
            reason: reason.map(|reason| reason.to_string()),
            age: if waiting + about.in_flight > 0 { about.age } else { Duration::ZERO },
            failures: about.failures,
        }
    }

    /// Why nothing is discarded on a disk now.
    fn no_discards(&self, member: &Member) -> Option<Reason> {
        if member.quorum {
            return Some(Reason::Quorum);
        }
        let Some(disk) = member.disk().filter(|_| member.is_writable()) else {
            return Some(Reason::Offline);
        };
        if let Err(none) = disk.discards() {
            return Some(Reason::Device(none));
        }
        if !self.attributes().discard {
            return Some(Reason::SwitchedOff);
        }
        if self.voters.current().disk(member.number).is_none_or(|disk| disk.leaving) {
            return Some(Reason::Leaving);
        }
        if self.discards.owes_sweep() {
            return Some(Reason::Doubtful);
        }
        let rest = self.discards.rest_of(member.number, self.world.monotonic())?;
        Some(Reason::Failed(rest.as_secs()))
    }

    /// Bytes of pieces that wait on each disk: of extents that are in memory, as those are that
    /// have lost marks not long ago.
    fn pieces_waiting(&self) -> BTreeMap<DiskNumber, u64> {
        let mut waiting = BTreeMap::new();
        for (id, pieces) in self.discards.pieces_waiting() {
            let Some(extent) = self.extents.get(id) else { continue };
            for disk in extent.disks() {
                *waiting.entry(disk).or_default() += pieces as u64 * PIECE_SIZE;
            }
        }
        waiting
    }

    /// A round of the caretaker: since when space waits.
    pub(crate) fn note_waiting(&self) {
        let now = self.world.monotonic();
        let pieces = self.pieces_waiting();
        for member in self.members.values() {
            let disk = member.number;
            let waits = self.space().stains(disk) > 0 || pieces.contains_key(&disk);
            self.discards.note_waiting(disk, waits, now);
        }
    }
}
