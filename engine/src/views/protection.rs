//! How well the group is protected now: rows for `v$asm_failgroup` and `v$asm_protection`.
//!
//! Everything is in memory, so that these views answer at once however large the group is: the
//! extents are counted by sets of disks (`space/mirror_sets.rs`), not read from the catalog.

use crate::{
    catalog::live::{Row, live_row},
    check::Upkeep,
    membership::voters::Loss,
};
use plinth_format::membership::{DiskState, MemberDisk};
use std::collections::BTreeMap;

impl Upkeep {
    /// The rows of `live_failgroup`.
    pub(crate) fn failure_groups(&self) -> Vec<Row> {
        let membership = self.voters.current();
        let mut groups: BTreeMap<&str, Vec<&MemberDisk>> = BTreeMap::new();
        for disk in &membership.disks {
            groups.entry(&disk.failure_group).or_default().push(disk);
        }
        let row = |(name, disks): (&str, Vec<&MemberDisk>)| {
            let loss: Loss = self.voters.loss_of(&membership, name);
            let count = |is: &dyn Fn(&MemberDisk) -> bool| {
                disks.iter().filter(|disk| is(disk)).count() as u64
            };
            live_row! {
                name: name,
                quorum: disks.iter().all(|disk| disk.quorum),
                disks: disks.len() as u64,
                online: count(&|disk| disk.state == DiskState::Online),
                voting: count(&|disk| disk.votes),
                may_go: loss.may_be(),
                lost_extents: loss.lost_extents,
                mounts: loss.mounts(),
                reason: loss.why_not(),
            }
        };
        groups.into_iter().map(row).collect()
    }

    /// The row of `live_protection`.
    pub(crate) fn protection(&self) -> Row {
        let membership = self.voters.current();
        let quorum = self.voters.quorum(&membership);
        let (short, left) = self.voters.short_extents(&membership);
        let due = self.due();
        live_row! {
            voters: quorum.voters as u64,
            voters_wanted: quorum.wanted as u64,
            voters_reached: quorum.reached as u64,
            waits: self.voters.is_waiting(),
            short_extents: short,
            mirrors_left: left.map(|left| left as u64),
            used_percent: due.used_percent,
            space_level: due.space,
            scrub_age: due.scrub_age,
            scrub_due: due.is_scrub_due,
            catalog_left: self.catalog.shortage(),
            forced: self.was_forced(),
            created: self.created,
        }
    }
}
