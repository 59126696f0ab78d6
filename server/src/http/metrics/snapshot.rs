//! The readings for one text, and what follows from them.

use crate::{engine::protocol::EngineFigures, http::connections::ConnectionCounts};
use plinth_engine::{
    admin::{Operation, OperationPass, OperationState},
    views::figures::{DiskFigures, Figures},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// All readings.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub host: String,
    /// When it was read: nanoseconds since 1970.
    pub read: i64,
    /// When the instance started: nanoseconds since 1970.
    pub began: i64,
    pub sessions: u64,
    /// The instance's own lines in the alert log: notes, warnings, alarms.
    pub events: [u64; 3],
    pub connections: ConnectionCounts,
    /// The groups that shall be mounted.
    pub groups: BTreeMap<String, GroupSnapshot>,
}

/// The readings of one group.
#[derive(Debug, Clone, Default)]
pub struct GroupSnapshot {
    /// The engine answered.
    pub is_up: bool,
    /// Of `engine`.
    pub age: Option<Duration>,
    pub restarts: u64,
    /// `None`: never read yet.
    pub engine: Option<Arc<EngineFigures>>,
}

/// The operations of one pass together: each disk has a resync of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassFigures {
    /// There is one, and it has not ended.
    pub is_running: bool,
    /// The last one ended with an error.
    pub has_failed: bool,
    pub done: u64,
    pub work: u64,
    pub bytes: u64,
    /// The time for the rest at the rate of the last half minute.
    pub seconds_left: Option<u64>,
}

impl GroupSnapshot {
    /// The disks. A name that comes twice is shown once: a series that comes twice would spoil all
    /// of the text.
    pub fn disks(&self) -> impl Iterator<Item = &DiskFigures> {
        let mut names = BTreeSet::new();
        let disks = self.engine.iter().flat_map(|engine| &engine.group.disks);
        disks.filter(move |disk| names.insert(&disk.name))
    }

    /// The state, as `v$asm_diskgroup` has it.
    pub fn state(&self) -> &str {
        match &self.engine {
            Some(engine) if self.is_up => &engine.group.state,
            _ => "BROKEN",
        }
    }
}

/// How far apart the fullest and the emptiest disk are, of those that are to be equally full: a
/// part of 1.
#[must_use]
pub fn imbalance(figures: &Figures) -> f64 {
    let is_meant = |disk: &&DiskFigures| {
        let stays = !["DROPPING", "FORCING"].contains(&disk.state.as_str());
        !disk.is_quorum && disk.mode == "ONLINE" && stays && disk.total > 0
    };
    let used = |disk: &DiskFigures| disk.total.saturating_sub(disk.free) as f64 / disk.total as f64;
    let used = figures.disks.iter().filter(is_meant).map(used);
    let (least, most) =
        used.fold((f64::MAX, f64::MIN), |(least, most), used| (least.min(used), most.max(used)));
    (most - least).max(0.0)
}

/// The operations of a pass together.
#[must_use]
pub fn pass(operations: &[Operation], pass: OperationPass) -> PassFigures {
    let of_pass = operations.iter().filter(|operation| operation.pass == pass);
    let mut figures = PassFigures::default();
    for Operation { state, so_far, work, rate, bytes, .. } in of_pass {
        let is_running = matches!(state, OperationState::Run | OperationState::Wait);
        figures.is_running |= is_running;
        figures.has_failed |= *state == OperationState::Errs;
        figures.done = figures.done.saturating_add(*so_far);
        figures.work = figures.work.saturating_add(*work);
        figures.bytes = figures.bytes.saturating_add(*bytes);
        if is_running && *rate > 0 {
            let left = work.saturating_sub(*so_far).saturating_mul(60).div_ceil(*rate);
            figures.seconds_left = figures.seconds_left.max(Some(left));
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, free: u64) -> DiskFigures {
        let (mode, state) = ("ONLINE".to_owned(), "NORMAL".to_owned());
        DiskFigures { name: name.to_owned(), total: 100, free, mode, state, ..Default::default() }
    }

    #[test]
    fn only_disks_that_are_to_be_equally_full_are_compared() {
        let quorum = DiskFigures { is_quorum: true, ..disk("Q", 100) };
        let leaving = DiskFigures { state: "DROPPING".into(), ..disk("L", 100) };
        let away = DiskFigures { mode: "OFFLINE".into(), ..disk("A", 0) };
        let disks = vec![disk("A", 50), disk("B", 25), disk("C", 40), quorum, leaving, away];
        let imbalance_of = |disks| imbalance(&Figures { disks, ..Figures::default() });
        assert_eq!(imbalance_of(disks), 0.25);
        assert_eq!(imbalance_of(vec![disk("A", 50)]), 0.0);
        assert_eq!(imbalance_of(Vec::new()), 0.0);
    }

    #[test]
    fn resyncs_of_several_disks_are_one_pass() {
        let resync = |state, so_far, rate| Operation {
            pass: OperationPass::Resync,
            state,
            power: 1,
            so_far,
            work: 100,
            rate,
            bytes: 7,
            error: None,
        };
        let all = [
            resync(OperationState::Run, 40, 30),
            resync(OperationState::Run, 90, 60),
            resync(OperationState::Errs, 10, 1),
        ];
        let found = pass(&all, OperationPass::Resync);
        assert_eq!((found.done, found.work, found.bytes), (140, 300, 21));
        assert!(found.is_running && found.has_failed);
        assert_eq!(found.seconds_left, Some(120));
        assert_eq!(pass(&all, OperationPass::Scrubbing), PassFigures::default());
    }
}
