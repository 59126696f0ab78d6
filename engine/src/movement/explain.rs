//! `EXPLAIN WORK`: the plan of a statement, row by row, before anything moves.
//!
//! The plan is the one that the statement itself would make (`balance.rs`), so the rows add up to
//! what it counts as its work. A row is one way that mirrors take: from a disk to a disk, how many,
//! in which pass, and why. Where the disk is chosen only during the movement (a conversion takes
//! whatever has room) the row names none.
//!
//! The duration is derived from a measurement: the rate of the last rebalance since the mount, and
//! its power. Less power than that is taken to be slower in proportion, more to be as fast. Without
//! a measurement there is none.

use crate::{
    admin::{Estimate, PlannedPass, PlannedStep, Rate},
    movement::Movement,
    space::balance::Plan,
};
use plinth_format::{
    DiskNumber,
    membership::{DiskState, MemberDisk},
};
use std::collections::BTreeMap;

/// The changes of a statement that are reasons for moves.
#[derive(Debug, Default)]
pub(crate) struct Changes<'a> {
    /// Disks that come.
    pub new: &'a [MemberDisk],
    /// Disks that go, and whether they are gone already.
    pub leaving: BTreeMap<DiskNumber, bool>,
    /// Disks that get another size, and how many mirrors are in the way of that.
    pub resized: BTreeMap<DiskNumber, u64>,
}

impl Movement {
    /// The rows of a plan, and their sum.
    pub(crate) fn explain(&self, plan: &Plan, changes: &Changes<'_>) -> Estimate {
        let membership = self.voters.current();
        let entries: BTreeMap<DiskNumber, &MemberDisk> =
            membership.disks.iter().chain(changes.new).map(|disk| (disk.number, disk)).collect();
        let name = |disk: DiskNumber| entries.get(&disk).map(|entry| entry.name.clone());
        let is_new = |disk: DiskNumber| changes.new.iter().any(|entry| entry.number == disk);
        let mut steps = Vec::new();
        let mut from_disk: BTreeMap<DiskNumber, u64> = BTreeMap::new();
        for (from, to, mirrors) in plan.routes() {
            *from_disk.entry(from).or_default() += mirrors;
            let entry = entries.get(&from);
            let leaves = changes.leaving.get(&from).copied();
            let is_gone = leaves == Some(true)
                || entry.is_some_and(|entry| entry.state == DiskState::Offline);
            let leaves = leaves.is_some() || entry.is_some_and(|entry| entry.leaving);
            let (pass, why) = if leaves && is_gone {
                (
                    PlannedPass::Restore,
                    "the disk it was on is gone: it is copied from another mirror",
                )
            } else if leaves {
                (PlannedPass::Balance, "the disk it is on is dropped")
            } else if is_new(to) {
                (PlannedPass::Balance, "the disk it goes to is new")
            } else if changes.resized.contains_key(&from) || changes.resized.contains_key(&to) {
                (PlannedPass::Resize, "a disk gets another size")
            } else {
                (PlannedPass::Balance, "disks become equally full")
            };
            steps.push(PlannedStep {
                pass,
                from: name(from),
                to: name(to),
                mirrors,
                why: why.to_owned(),
            });
        }
        for (disk, in_the_way) in &changes.resized {
            let mirrors = in_the_way.saturating_sub(from_disk.get(disk).copied().unwrap_or(0));
            if mirrors > 0 {
                let why = "it lies in AUs that the disk gives up, and moves within it".to_owned();
                steps.push(PlannedStep {
                    pass: PlannedPass::Resize,
                    from: name(*disk),
                    to: name(*disk),
                    mirrors,
                    why,
                });
            }
        }
        // Lost mirrors come first, as they do when the plan is carried out.
        steps.sort_by_key(|step| step.pass != PlannedPass::Restore);
        let in_the_way: u64 = changes.resized.values().sum();
        self.estimate_of(steps, plan.least().max(in_the_way))
    }

    /// An estimate of these steps.
    pub(crate) fn estimate_of(&self, steps: Vec<PlannedStep>, least: u64) -> Estimate {
        let work = steps.iter().map(|step| step.mirrors).sum();
        let last = self.rebalance.operation(self.world.monotonic());
        let rate = last
            .filter(|last| last.rate > 0)
            .map(|last| Rate { per_minute: last.rate, power: last.power });
        Estimate { work, least, au_size: self.au_size, steps, rate }
    }
}

impl Rate {
    /// Whole minutes that `mirrors` mirrors take with a power, or with that of the measurement.
    /// `None`: it is a pause.
    #[must_use]
    pub fn minutes(&self, mirrors: u64, power: Option<u32>) -> Option<u64> {
        let measured = u64::from(self.power.max(1));
        let power = u64::from(power.unwrap_or(self.power.max(1))).min(measured);
        let per_minute = self.per_minute.saturating_mul(power);
        (per_minute > 0).then(|| mirrors.saturating_mul(measured).div_ceil(per_minute))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half the power takes twice as long, more power than was measured promises nothing, and a
    /// pause has no end.
    #[test]
    fn minutes_follow_what_was_measured() {
        let rate = Rate { per_minute: 100, power: 8 };
        assert_eq!(rate.minutes(1000, None), Some(10));
        assert_eq!(rate.minutes(1001, Some(8)), Some(11));
        assert_eq!(rate.minutes(1000, Some(4)), Some(20));
        assert_eq!(rate.minutes(1000, Some(1024)), Some(10));
        assert_eq!(rate.minutes(1000, Some(0)), None);
        assert_eq!(Rate { per_minute: 100, power: 0 }.minutes(100, Some(3)), Some(1));
    }
}
