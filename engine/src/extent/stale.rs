//! Stale marks: which runs of extents a disk has missed.
//!
//! A mark is durable in the catalog before the write that the disk misses is
//! acknowledged. This is its copy in memory, so that a run already marked costs nothing.

use crate::{
    catalog::tables::{self, stale::StaleRun},
    planted::{self, Bug},
    space::extent_id::ExtentId,
    sync::lock::Mutex,
};
use plinth_format::DiskNumber;
use rusqlite::Connection;
use std::collections::BTreeMap;

/// Past the last extent id.
pub const EVERYTHING: u64 = tables::extent::IDS_END;

/// Runs of extent ids, merged where they touch: start to end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs(BTreeMap<u64, u64>);

impl Runs {
    /// Adds `first .. first + count`; false if it was covered already.
    pub fn add(&mut self, first: u64, count: u64) -> bool {
        let (mut start, mut end) =
            (first.min(EVERYTHING), first.saturating_add(count).min(EVERYTHING));
        if start == end {
            return false;
        }
        if self.0.range(..=start).next_back().is_some_and(|(_, covered)| *covered >= end) {
            return false;
        }
        if let Some((&before, &until)) = self.0.range(..=start).next_back()
            && until >= start
        {
            start = before;
            end = end.max(until);
        }
        while let Some((&after, &until)) = self.0.range(start..).next()
            && after <= end
        {
            self.0.remove(&after);
            end = end.max(until);
        }
        self.0.insert(start, end);
        true
    }

    /// Removes everything below `end`.
    pub fn remove_below(&mut self, end: u64) {
        let rest = self.0.split_off(&end);
        if let Some((_, &until)) = self.0.iter().next_back()
            && until > end
        {
            self.0 = rest;
            self.0.insert(end, until);
        } else {
            self.0 = rest;
        }
    }

    #[must_use]
    pub fn has(&self, ExtentId(id): ExtentId) -> bool {
        self.0.range(..=id).next_back().is_some_and(|(_, end)| *end > id)
    }

    /// The first run at or after `from`, cut to begin there.
    #[must_use]
    pub fn next(&self, from: u64) -> Option<(u64, u64)> {
        if self.has(ExtentId(from)) {
            let (_, end) = self.0.range(..=from).next_back()?;
            return Some((from, *end));
        }
        self.0.range(from..).next().map(|(start, end)| (*start, *end))
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(start, end)| (*start, *end))
    }
}

/// The stale runs of every disk.
pub type Stale = BTreeMap<DiskNumber, Runs>;

/// Reads all marks.
///
/// # Errors
/// The catalog's.
pub fn load(connection: &Connection) -> rusqlite::Result<Stale> {
    let mut stale = Stale::new();
    for (disk, run) in tables::stale::load(connection)? {
        stale.entry(disk).or_default().add(run.first, run.count);
    }
    Ok(stale)
}

/// Replaces a disk's marks.
///
/// # Errors
/// The catalog's.
pub fn replace(connection: &Connection, disk: DiskNumber, runs: &Runs) -> rusqlite::Result<()> {
    let runs = runs.iter().map(|(start, end)| StaleRun { first: start, count: end - start });
    tables::stale::replace(connection, disk, runs)
}

/// Changes a disk's marks, in the catalog and then in memory. Only jobs of the catalog change them:
/// one at a time.
///
/// # Errors
/// The catalog's.
pub fn change(
    connection: &Connection,
    stale: &Mutex<Stale>,
    disk: DiskNumber,
    change: impl FnOnce(&mut Runs),
) -> rusqlite::Result<()> {
    let mut runs = stale.lock().get(&disk).cloned().unwrap_or_default();
    change(&mut runs);
    let locked = planted::has(Bug::MarksLockedMeanwhile).then(|| stale.lock());
    // It may have to read pages. Writers that open a region look at the marks meanwhile.
    replace(connection, disk, &runs)?;
    drop(locked);
    stale.lock().insert(disk, runs);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_merge_and_are_taken_from_the_front() {
        let mut runs = Runs::default();
        assert!(runs.add(10, 5));
        assert!(runs.add(20, 5));
        assert!(!runs.add(11, 2));
        assert!(runs.add(14, 7));
        assert_eq!(runs.iter().collect::<Vec<_>>(), [(10, 25)]);
        assert!(runs.has(ExtentId(24)) && !runs.has(ExtentId(25)) && !runs.has(ExtentId(9)));
        runs.remove_below(12);
        assert_eq!(runs.next(0), Some((12, 25)));
        assert_eq!(runs.next(13), Some((13, 25)));
        runs.remove_below(25);
        assert_eq!(runs.next(0), None);
        assert!(runs.add(0, u64::MAX));
        assert_eq!(runs.next(7), Some((7, EVERYTHING)));
        // Ids that no extent has.
        let mut runs = Runs::default();
        assert!(!runs.add(u64::MAX, 5) && !runs.add(EVERYTHING, 1) && !runs.add(3, 0));
        assert_eq!(runs.next(0), None);
    }
}
