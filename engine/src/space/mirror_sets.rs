//! The distinct sets of disks that hold the mirrors of extents. They answer at once and without the
//! catalog whether a disk may go offline (R5), and how many mirrors these extents should have.
//!
//! There are few distinct sets, because a disk has few partners; there may be millions of extents.

use crate::sync::lock::Mutex;
use plinth_format::{DiskNumber, Redundancy, membership::Membership};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

/// How many mirrors a file asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MirrorCount {
    /// As many as the group's redundancy says.
    #[default]
    AsGroup,
    Own(u8),
}

impl MirrorCount {
    /// From a column of the catalog, which has 0 for `AsGroup`.
    #[must_use]
    pub fn from_column(own: u8) -> Self {
        if own == 0 { Self::AsGroup } else { Self::Own(own) }
    }

    #[must_use]
    pub fn to_column(self) -> u8 {
        match self {
            Self::AsGroup => 0,
            Self::Own(own) => own,
        }
    }
}

/// How many mirrors an extent should have in a group, by `membership.wanted`, if its file asks for
/// `own`. Only a NORMAL group has files with different redundancies, and none
/// with fewer mirrors than the group's. With fewer failure groups than a file wants mirrors, as
/// many mirrors as there are groups: the replacement of a lost failure group must not wait for one
/// file.
#[must_use]
pub fn mirrors_wanted(own: MirrorCount, membership: &Membership) -> usize {
    let least = membership.wanted.mirrors();
    let own = usize::from(own.to_column());
    if membership.wanted != Redundancy::Normal || own <= least {
        return least;
    }
    own.min(failure_groups(membership)).clamp(least, 3)
}

/// Number of failure groups that hold data, and stay.
#[must_use]
pub fn failure_groups(membership: &Membership) -> usize {
    let stay = membership.disks.iter().filter(|disk| !disk.quorum && !disk.leaving);
    stay.map(|disk| &disk.failure_group).collect::<BTreeSet<_>>().len()
}

/// Number of extents on each set of disks, by the redundancy that their files ask for.
#[derive(Debug, Default)]
pub struct MirrorSets {
    sets: Mutex<BTreeMap<(Vec<DiskNumber>, MirrorCount), u64>>,
    /// All extents of the catalog were added.
    known: AtomicBool,
}

impl MirrorSets {
    fn key(
        disks: impl Iterator<Item = DiskNumber>,
        own: MirrorCount,
    ) -> (Vec<DiskNumber>, MirrorCount) {
        let mut key: Vec<_> = disks.collect();
        key.sort_unstable();
        (key, own)
    }

    /// Called when all extents were added.
    pub fn complete(&self) {
        self.known.store(true, Ordering::Release);
    }

    /// Whether all extents were added: a mount does not know them before it has opened the catalog.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.known.load(Ordering::Acquire)
    }

    /// Number of extents on each set of disks.
    #[must_use]
    pub fn counts(&self) -> Vec<(Vec<DiskNumber>, u64)> {
        let mut counts: BTreeMap<Vec<DiskNumber>, u64> = BTreeMap::new();
        for (set, _, count) in self.wishes() {
            *counts.entry(set).or_default() += count;
        }
        counts.into_iter().collect()
    }

    /// The same, by the redundancy that their files ask for.
    #[must_use]
    pub fn wishes(&self) -> Vec<(Vec<DiskNumber>, MirrorCount, u64)> {
        let sets = self.sets.lock();
        sets.iter().map(|((set, own), count)| (set.clone(), *own, *count)).collect()
    }

    /// Number of extents.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sets.lock().values().sum()
    }

    /// The most mirrors that any extent should have.
    #[must_use]
    pub fn most_wanted(&self, membership: &Membership) -> usize {
        let sets = self.sets.lock();
        let most = sets.keys().map(|(_, own)| mirrors_wanted(*own, membership)).max();
        most.unwrap_or(0).max(membership.wanted.mirrors())
    }

    /// Whether some extent has a mirror on a disk.
    #[must_use]
    pub fn has(&self, disk: DiskNumber) -> bool {
        self.sets.lock().keys().any(|(set, _)| set.contains(&disk))
    }

    /// Adds an extent with mirrors on `disks`, of a file that asks for `own` mirrors.
    pub fn add(&self, disks: impl Iterator<Item = DiskNumber>, own: MirrorCount) {
        *self.sets.lock().entry(Self::key(disks, own)).or_default() += 1;
    }

    /// Removes one.
    pub fn remove(&self, disks: impl Iterator<Item = DiskNumber>, own: MirrorCount) {
        let mut sets = self.sets.lock();
        let key = Self::key(disks, own);
        if let Some(count) = sets.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                sets.remove(&key);
            }
        }
    }

    /// Number of extents that have current mirrors on disks that `leaves` holds for, and on no
    /// others.
    #[must_use]
    pub fn only_on(
        &self,
        leaves: impl Fn(DiskNumber) -> bool,
        is_current: impl Fn(DiskNumber) -> bool,
    ) -> u64 {
        let sets = self.sets.lock();
        let are_lost = |set: &[DiskNumber]| {
            let mut current = set.iter().filter(|disk| is_current(**disk)).peekable();
            current.peek().is_some() && current.all(|disk| leaves(*disk))
        };
        sets.iter().filter(|((set, _), _)| are_lost(set)).map(|(_, count)| count).sum()
    }

    /// Number of extents with fewer current mirrors than they should have, by the number that is
    /// left.
    #[must_use]
    pub fn lacking(
        &self,
        should_have: impl Fn(MirrorCount) -> usize,
        is_current: impl Fn(DiskNumber) -> bool,
    ) -> BTreeMap<usize, u64> {
        let mut lacking = BTreeMap::new();
        for ((set, own), extents) in &*self.sets.lock() {
            let left = set.iter().filter(|disk| is_current(**disk)).count();
            if left < should_have(*own) {
                *lacking.entry(left).or_default() += extents;
            }
        }
        lacking
    }

    /// Number of extents with fewer current mirrors than their files ask for, or than the group's
    /// redundancy says, and how many mirrors the worst of them has.
    #[must_use]
    pub fn short(
        &self,
        redundancy: Redundancy,
        is_current: impl Fn(DiskNumber) -> bool,
    ) -> (u64, Option<usize>) {
        let should_have = |own: MirrorCount| {
            let own = if redundancy == Redundancy::Normal { own.to_column() } else { 0 };
            redundancy.mirrors().max(usize::from(own))
        };
        let lacking = self.lacking(should_have, is_current);
        (lacking.values().sum(), lacking.keys().next().copied())
    }

    /// Whether every extent with a mirror on `leaving` keeps one on a disk that `is_current`.
    #[must_use]
    pub fn can_spare(&self, leaving: DiskNumber, is_current: impl Fn(DiskNumber) -> bool) -> bool {
        let sets = self.sets.lock();
        sets.keys()
            .filter(|(set, _)| set.contains(&leaving))
            .all(|(set, _)| set.iter().any(|disk| *disk != leaving && is_current(*disk)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_without_enough_current_mirrors_are_counted() {
        let sets = MirrorSets::default();
        let disks = |numbers: &[u16]| numbers.iter().copied().map(DiskNumber).collect::<Vec<_>>();
        let own = MirrorCount::Own(3);
        for (set, own) in [
            (&[0, 1][..], MirrorCount::AsGroup),
            (&[0, 2], MirrorCount::AsGroup),
            (&[0, 2], own),
            (&[0, 1, 2], own),
        ] {
            sets.add(disks(set).into_iter(), own);
        }
        let all = |_| true;
        let but = |away: u16| move |disk: DiskNumber| disk.0 != away;
        assert_eq!(sets.short(Redundancy::Normal, all), (1, Some(2)), "a file that asks for more");
        assert_eq!(sets.short(Redundancy::Normal, but(2)), (3, Some(1)));
        assert_eq!(sets.short(Redundancy::External, but(0)), (0, None));
        assert_eq!(sets.only_on(|disk| disk.0 == 0, all), 0);
        assert_eq!(sets.only_on(|disk| disk.0 == 0, but(2)), 2);
        assert_eq!(sets.only_on(|disk| disk.0 == 2, but(2)), 0, "it holds nothing that counts");
        assert_eq!(sets.only_on(|_| true, all), 4);
    }
}
