//! What the loss of a failure group would leave, and how many disks vote: the facts of
//! `v$asm_failgroup` and `v$asm_protection`.
//!
//! The rules are those by which one disk may go (`may_go`), asked for all disks of a failure group
//! at once, and for a loss without a warning:
//!
//!   1. R5: each extent that has a current mirror keeps one. A disk counts if it is ONLINE, can be
//!      read, and answers.
//!   2. R5 for the catalog: one whole mirror of each of its files stays.
//!   3. R3: at least half of the voters can record the loss. Until they have, writes wait.
//!
//! If the host goes down together with the failure group, no successor of the membership has been
//! recorded: the next mount then needs more than half of the present voters.

use super::{Voters, is_whole, is_writable};
use crate::{disk::member::Member, membership::mount_decision};
use plinth_format::{
    DiskNumber,
    membership::{CatalogFile, DiskState, MemberDisk, Membership},
};

/// The consequences of losing a failure group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    /// Extents that would keep no current mirror.
    pub(crate) lost_extents: u64,
    pub(crate) keeps_catalog: bool,
    pub(crate) voters: usize,
    /// Voters that would be left, and can be written.
    pub(crate) voters_left: usize,
}

/// How many disks vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quorum {
    pub(crate) voters: usize,
    /// Voters if every disk were ONLINE.
    pub(crate) wanted: usize,
    /// Voters that can be written, and hold the membership in force.
    pub(crate) reached: usize,
}

impl Loss {
    /// Whether writes go on without the failure group.
    pub(crate) fn has_quorum(self) -> bool {
        mount_decision::may_record(self.voters, self.voters_left)
    }

    pub(crate) fn may_be(self) -> bool {
        self.lost_extents == 0 && self.keeps_catalog && self.has_quorum()
    }

    /// Whether the group can be mounted if the host goes down together with the failure group.
    pub(crate) fn mounts(self) -> bool {
        self.lost_extents == 0
            && self.keeps_catalog
            && mount_decision::may_mount(self.voters, self.voters_left)
    }

    /// Why it may not be lost.
    pub(crate) fn why_not(self) -> Option<String> {
        let mut reasons = Vec::new();
        match self.lost_extents {
            0 => {}
            1 => reasons.push("1 extent would keep no current mirror".to_owned()),
            count => reasons.push(format!("{count} extents would keep no current mirror")),
        }
        if !self.keeps_catalog {
            reasons.push("the catalog would keep no whole mirror".to_owned());
        }
        if !self.has_quorum() {
            let (left, voters) = (self.voters_left, self.voters);
            reasons.push(format!(
                "{left} of {voters} voters would be left, and writes need half of them"
            ));
        }
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

/// Whether a disk has data that can be read now.
fn is_sound(member: &Member) -> bool {
    !member.health.is_unreadable() && !member.is_hung() && !member.is_silent()
}

impl Voters {
    fn is_current(&self, membership: &Membership, number: DiskNumber) -> bool {
        membership.disk(number).is_some_and(|disk| disk.state == DiskState::Online)
            && self.members.get(&number).is_some_and(|member| is_sound(member))
    }

    /// The consequences of losing a failure group now.
    pub(crate) fn loss_of(&self, membership: &Membership, failure_group: &str) -> Loss {
        let leaves = |number: DiskNumber| {
            membership.disk(number).is_some_and(|disk| disk.failure_group == failure_group)
        };
        let is_current = |number| self.is_current(membership, number);
        let keeps = |file: CatalogFile| {
            let mut runs = membership.catalog.iter().filter(|run| run.file == file);
            let stays = |disk| !leaves(disk) && is_current(disk);
            membership.catalog.is_empty()
                || runs.any(|run| is_whole(membership, file, run.mirror, None, stays))
        };
        let left = |disk: &&MemberDisk| !leaves(disk.number) && self.is_reached(membership, disk);
        Loss {
            lost_extents: self.mirror_sets.only_on(leaves, is_current),
            keeps_catalog: keeps(CatalogFile::Database) && keeps(CatalogFile::Wal),
            voters: membership.voters().count(),
            voters_left: membership.voters().filter(left).count(),
        }
    }

    fn is_reached(&self, membership: &Membership, voter: &MemberDisk) -> bool {
        is_writable(membership, voter.number)
            && self.members.get(&voter.number).is_some_and(|member| is_sound(member))
            && !self.behind().contains(&voter.number)
    }

    /// How many disks vote, and how many should.
    pub(crate) fn quorum(&self, membership: &Membership) -> Quorum {
        let mut whole = membership.disks.clone();
        for disk in &mut whole {
            (disk.state, disk.copy_whole) = (DiskState::Online, false);
        }
        Quorum {
            voters: membership.voters().count(),
            wanted: mount_decision::voters(&whole, membership.redundancy).len(),
            reached: membership.voters().filter(|disk| self.is_reached(membership, disk)).count(),
        }
    }

    /// Extents with fewer current mirrors than they should have, and how many the worst has.
    pub(crate) fn short_extents(&self, membership: &Membership) -> (u64, Option<usize>) {
        self.mirror_sets.short(membership.redundancy, |disk| self.is_current(membership, disk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_are_those_of_the_rules() {
        let fine = Loss { lost_extents: 0, keeps_catalog: true, voters: 2, voters_left: 1 };
        assert!(fine.may_be() && fine.why_not().is_none());
        assert!(!fine.mounts(), "more than half is needed after the host went down, too");
        assert!(Loss { voters: 3, voters_left: 2, ..fine }.mounts());
        let bad = Loss { lost_extents: 1, keeps_catalog: false, voters: 3, voters_left: 1 };
        assert!(!bad.may_be() && !bad.mounts());
        let why = bad.why_not().expect("there are reasons");
        for part in ["1 extent would", "the catalog would", "1 of 3 voters"] {
            assert!(why.contains(part), "{why}");
        }
    }
}
