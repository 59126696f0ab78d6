//! Which sets of disks hold the mirrors of some extent: what decides, at once and
//! without the catalog, whether a disk may go offline (R5). And how many mirrors these extents should have.
//!
//! There are few distinct sets, because a disk has few partners; there may be
//! millions of extents.

use crate::sync::lock::Mutex;
use plinth_format::{DiskNumber, Redundancy, membership::Membership};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

/// How many mirrors an extent should have in a group, by what is wanted in `membership`, if its file asks for `own` (0: for nothing of its own). Only
/// a NORMAL group has files of more than one redundancy, and none of fewer mirrors than the group's. Where failure groups are
/// fewer than a file asks for mirrors, it makes do with these: what stands in for a lost failure group must not wait for one file.
#[must_use]
pub fn mirrors_wanted(own: u8, membership: &Membership) -> usize {
    let least = membership.wanted.mirrors();
    if membership.wanted != Redundancy::Normal || usize::from(own) <= least {
        return least;
    }
    usize::from(own).min(failure_groups(membership)).clamp(least, 3)
}

/// How many failure groups hold data, and stay.
#[must_use]
pub fn failure_groups(membership: &Membership) -> usize {
    let stay = membership.disks.iter().filter(|disk| !disk.quorum && !disk.leaving);
    stay.map(|disk| &disk.failure_group).collect::<BTreeSet<_>>().len()
}

/// How many extents have their mirrors on each set of disks, by what their files ask for.
#[derive(Debug, Default)]
pub struct MirrorSets {
    sets: Mutex<BTreeMap<(Vec<DiskNumber>, u8), u64>>,
    /// The catalog has been asked for all extents.
    known: AtomicBool,
}

impl MirrorSets {
    fn key(disks: impl Iterator<Item = DiskNumber>, own: u8) -> (Vec<DiskNumber>, u8) {
        let mut key: Vec<_> = disks.collect();
        key.sort_unstable();
        (key, own)
    }

    /// All extents are there.
    pub fn complete(&self) {
        self.known.store(true, Ordering::Release);
    }

    /// Whether all extents are there: a mount does not know them before it has opened the catalog.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.known.load(Ordering::Acquire)
    }

    /// How many extents there are on each set of disks.
    #[must_use]
    pub fn counts(&self) -> Vec<(Vec<DiskNumber>, u64)> {
        let mut counts: BTreeMap<Vec<DiskNumber>, u64> = BTreeMap::new();
        for (set, _, count) in self.wishes() {
            *counts.entry(set).or_default() += count;
        }
        counts.into_iter().collect()
    }

    /// The same, apart by what their files ask for.
    #[must_use]
    pub fn wishes(&self) -> Vec<(Vec<DiskNumber>, u8, u64)> {
        let sets = self.sets.lock();
        sets.iter().map(|((set, own), count)| (set.clone(), *own, *count)).collect()
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

    /// One more extent, of a file that asks for `own` mirrors, has its mirrors on `disks`.
    pub fn add(&self, disks: impl Iterator<Item = DiskNumber>, own: u8) {
        *self.sets.lock().entry(Self::key(disks, own)).or_default() += 1;
    }

    /// One extent less.
    pub fn remove(&self, disks: impl Iterator<Item = DiskNumber>, own: u8) {
        let mut sets = self.sets.lock();
        let key = Self::key(disks, own);
        if let Some(count) = sets.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                sets.remove(&key);
            }
        }
    }

    /// Whether every extent that has a mirror on `leaving` keeps one on a disk that `is_current`.
    #[must_use]
    pub fn can_spare(&self, leaving: DiskNumber, is_current: impl Fn(DiskNumber) -> bool) -> bool {
        let sets = self.sets.lock();
        sets.keys()
            .filter(|(set, _)| set.contains(&leaving))
            .all(|(set, _)| set.iter().any(|disk| *disk != leaving && is_current(*disk)))
    }
}
