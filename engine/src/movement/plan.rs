//! The least that must move, given the disks of a membership and what they hold. The plan itself is
//! made in `space/balance.rs`.

use crate::{
    catalog::on_disks,
    movement::Movement,
    planted::{self, Bug},
    space::{
        balance::{Load, Plan, Role, TooSmall},
        mirror_sets::{MirrorCount, mirrors_wanted},
    },
};
use plinth_format::{
    DiskNumber, Layout,
    membership::{DiskState, MemberDisk, Membership},
};
use std::collections::BTreeMap;

impl Movement {
    /// The least that must move, given the membership in force.
    pub(crate) fn plan_moves(&self) -> Result<Plan, TooSmall> {
        self.plan_for(&self.voters.current())
    }

    /// The same, if the membership were this one.
    pub(crate) fn plan_for(&self, membership: &Membership) -> Result<Plan, TooSmall> {
        let sets = self.planned_sets(membership);
        let loads = self.loads(membership, &sets);
        let placement = self.placement();
        let are_partners = |one: DiskNumber, other: DiskNumber| {
            placement.partners(one).any(|partner| partner == other)
        };
        Plan::new(&loads, sets, are_partners)
    }

    /// The sets of disks that extents are on, with the number of extents on each.
    fn planned_sets(&self, membership: &Membership) -> Vec<(Vec<DiskNumber>, u64)> {
        let mut sets: BTreeMap<Vec<DiskNumber>, u64> = BTreeMap::new();
        for (mut set, own, count) in self.mirror_sets.wishes() {
            // A mirror that a file has beyond what the disks allow is dropped from the disk that it
            // leaves, and moves nowhere.
            let wanted = if own == MirrorCount::AsGroup {
                set.len()
            } else {
                mirrors_wanted(own, membership)
            };
            while set.len() > wanted
                && let Some(place) = set
                    .iter()
                    .position(|disk| membership.disk(*disk).is_none_or(|disk| disk.leaving))
            {
                set.remove(place);
            }
            *sets.entry(set).or_default() += count;
        }
        sets.into_iter().collect()
    }

    /// The load of each disk with data: what it holds and can hold.
    fn loads(&self, membership: &Membership, sets: &[(Vec<DiskNumber>, u64)]) -> Vec<Load> {
        let mut held: BTreeMap<DiskNumber, u64> = BTreeMap::new();
        for (set, count) in sets {
            set.iter().for_each(|disk| *held.entry(*disk).or_default() += count);
        }
        let mut fixed: BTreeMap<DiskNumber, u32> = BTreeMap::new();
        on_disks::units(membership)
            .iter()
            .for_each(|(disk, _)| *fixed.entry(*disk).or_default() += 1);
        // AUs that are kept for a mirror that the catalog lacks: no extent gets them.
        let kept = |space: &crate::space::Space, disk| space.unowned(disk) - space.available(disk);
        {
            let space = self.space();
            space.disks().for_each(|disk| *fixed.entry(disk).or_default() += kept(&space, disk));
        }
        let units = |disk: &MemberDisk| {
            let Ok(layout) = Layout::new(disk.size, self.au_size) else { return 0 };
            // While it is resized, the AUs that both layouts have.
            let target = disk.target.filter(|_| !planted::has(Bug::ShrinkNotCounted));
            let target =
                target.and_then(|target| Layout::new(target, self.au_size).ok()).unwrap_or(layout);
            u32::try_from(layout.data_units().filter(|au| target.is_data(*au)).count())
                .unwrap_or(u32::MAX)
        };
        membership
            .disks
            .iter()
            .filter(|disk| !disk.quorum)
            .map(|disk| Load {
                disk: disk.number,
                failure_group: disk.failure_group.clone(),
                units: units(disk),
                fixed: fixed.get(&disk.number).copied().unwrap_or(0),
                held: held
                    .get(&disk.number)
                    .map_or(0, |held| u32::try_from(*held).unwrap_or(u32::MAX)),
                role: match disk.state {
                    _ if disk.leaving => Role::Leaves,
                    DiskState::Online => Role::Stays,
                    DiskState::Offline | DiskState::Syncing => Role::Keeps,
                },
            })
            .collect()
    }
}
