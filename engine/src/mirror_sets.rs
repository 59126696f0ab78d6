//! Which sets of disks hold the mirrors of some extent: what decides, at once and
//! without the catalog, whether a disk may go offline (R5).
//!
//! There are few distinct sets, because a disk has few partners; there may be
//! millions of extents.

use plinth_format::DiskNumber;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// How many extents have their mirrors on each set of disks.
#[derive(Debug, Default)]
pub struct MirrorSets {
    sets: Mutex<BTreeMap<Vec<DiskNumber>, u64>>,
    /// The catalog has been asked for all extents.
    known: AtomicBool,
}

impl MirrorSets {
    fn key(disks: impl Iterator<Item = DiskNumber>) -> Vec<DiskNumber> {
        let mut key: Vec<_> = disks.collect();
        key.sort_unstable();
        key
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
        let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.iter().map(|(set, count)| (set.clone(), *count)).collect()
    }

    /// Whether some extent has a mirror on a disk.
    #[must_use]
    pub fn has(&self, disk: DiskNumber) -> bool {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner).keys().any(|set| set.contains(&disk))
    }

    /// One more extent has its mirrors on `disks`.
    pub fn add(&self, disks: impl Iterator<Item = DiskNumber>) {
        *self.sets.lock().unwrap_or_else(PoisonError::into_inner).entry(Self::key(disks)).or_default() += 1;
    }

    /// One extent less.
    pub fn remove(&self, disks: impl Iterator<Item = DiskNumber>) {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Self::key(disks);
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
        let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.keys()
            .filter(|set| set.contains(&leaving))
            .all(|set| set.iter().any(|disk| *disk != leaving && is_current(*disk)))
    }
}
