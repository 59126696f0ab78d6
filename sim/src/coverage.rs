//! Which faults met a group in which state.
//!
//! A fault is drawn regardless of the group's state. If that state does not allow the fault,
//! because more would be lost than is promised to survive, the group is made whole first; so the
//! counts are of pairs that were really met.

use crate::plan::Fault;
use plinth_engine::reached::{self, Mark};
use std::{collections::BTreeMap, fmt};

/// The state of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// All disks are ONLINE, no operation runs.
    Whole,
    /// A disk is OFFLINE or faulty.
    Degraded,
    /// A disk is being resynchronised.
    Returning,
    /// After an unclean stop, mirrors are still being compared.
    Recovering,
    /// No AU is free.
    Full,
    /// Mirrors move, because disks were added or dropped.
    Moving,
}

impl State {
    pub const ALL: [Self; 6] =
        [Self::Whole, Self::Degraded, Self::Returning, Self::Recovering, Self::Full, Self::Moving];

    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Degraded => "degraded",
            Self::Returning => "returning",
            Self::Recovering => "recovering",
            Self::Full => "full",
            Self::Moving => "moving",
        }
    }
}

/// The states in which a fault may meet a group: the table of `docs/faults.md`. Whether the
/// redundancy is enough for it is checked besides.
pub fn allowed(fault: Fault) -> &'static [State] {
    use Fault as F;
    use State::{Degraded, Full, Moving, Recovering, Whole};
    match fault {
        F::EngineKilled
        | F::KilledAgain
        | F::PowerCut
        | F::PowerCutAgain
        | F::Frozen
        | F::SecondEngine
        | F::ClockJumps
        | F::SentTwice
        | F::DiskSlow
        | F::NewPath
        | F::Dismount
        | F::DismountForce
        | F::Subset
        | F::Halves
        | F::EndsOverwritten
        | F::MetadataOverwritten
        | F::HostileBytes => &State::ALL,
        // A disk that returns may fail again.
        F::GroupFails | F::GroupHangs | F::DiskFails | F::OperatorOffline => &State::ALL,
        F::Return => &[Degraded],
        F::ReadFails | F::WriteFails | F::FlushFails | F::LatentSectors | F::ThinFull => {
            &[Whole, Degraded, Recovering, Full, Moving]
        }
        // Not promised: a silent fault in a region that was active at a crash.
        F::Rot | F::LostWrite | F::MisdirectedWrite | F::MisdirectedRead | F::StaleSectors => {
            &[Whole, Degraded, Full]
        }
        F::LostPair => &[Whole],
        F::OldImage | F::CloneShown | F::Shrunk | F::Blank => &[Whole, Degraded, Full],
        F::DropAndCreate | F::KilledInRepair => &[Whole, Full],
        F::Full => &[Whole, Degraded, Moving],
        F::DisksAddedDropped
        | F::RedundancyConverted
        | F::DisksResized
        | F::Scrubbed
        | F::Compacted
        | F::Reclaimed
        | F::MovementPaused => &[Whole, Degraded, Recovering, Full, Moving],
    }
}

/// How often each pair was met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    pairs: BTreeMap<(Fault, State), u64>,
    /// Branches of the engine (its `reached.rs`), by their names.
    branches: BTreeMap<&'static str, u64>,
}

/// Stands in the place of a state for a branch that was taken.
const TAKEN: &str = "taken";

impl Coverage {
    pub fn met(&mut self, fault: Fault, state: State) {
        *self.pairs.entry((fault, state)).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (pair, count) in &other.pairs {
            *self.pairs.entry(*pair).or_default() += count;
        }
        for (branch, count) in &other.branches {
            *self.branches.entry(branch).or_default() += count;
        }
    }

    /// Adds the branches that the engine has taken since the last call.
    pub fn add_branches(&mut self) {
        for (mark, count) in reached::take() {
            *self.branches.entry(mark.name()).or_default() += count;
        }
    }

    /// Branches taken, and how many there are.
    pub fn branches(&self) -> (usize, usize) {
        (self.branches.len(), Mark::ALL.len())
    }

    /// Branches that were never taken.
    pub fn branches_missing(&self) -> Vec<&'static str> {
        Mark::ALL
            .iter()
            .map(|mark| mark.name())
            .filter(|name| !self.branches.contains_key(name))
            .collect()
    }

    /// Pairs met.
    pub fn count(&self) -> usize {
        self.pairs.len()
    }

    /// Faults met, whatever the state.
    pub fn faults(&self) -> u64 {
        self.pairs.values().sum()
    }

    /// How often each fault was met.
    pub fn by_fault(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for ((fault, _), count) in &self.pairs {
            *counts.entry(fault.name()).or_default() += count;
        }
        counts
    }

    /// Pairs of the table that were never met.
    pub fn missing(&self) -> Vec<String> {
        let all = Fault::ALL
            .iter()
            .flat_map(|(fault, ..)| allowed(*fault).iter().map(move |state| (*fault, *state)));
        all.filter(|pair| !self.pairs.contains_key(pair))
            .map(|(fault, state)| format!("{} while {}", fault.name(), state.name()))
            .collect()
    }

    /// Parses the output of `Display`.
    pub fn parse(text: &str) -> Self {
        let mut coverage = Self::default();
        for word in text.split_whitespace() {
            let mut parts = word.split(':');
            let (Some(fault), Some(state), Some(count)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if state == TAKEN {
                let mark = Mark::ALL.iter().find(|mark| mark.name() == fault);
                coverage
                    .branches
                    .extend(mark.zip(count.parse().ok()).map(|(mark, count)| (mark.name(), count)));
                continue;
            }
            let fault = Fault::ALL.iter().find(|(_, name, _)| *name == fault);
            let state = State::ALL.into_iter().find(|known| known.name() == state);
            if let (Some((fault, ..)), Some(state), Ok(count)) = (fault, state, count.parse()) {
                coverage.pairs.insert((*fault, state), count);
            }
        }
        coverage
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self
            .pairs
            .iter()
            .map(|((fault, state), count)| format!("{}:{}:{count}", fault.name(), state.name()));
        let branches = self.branches.iter().map(|(name, count)| format!("{name}:{TAKEN}:{count}"));
        f.write_str(&pairs.chain(branches).collect::<Vec<_>>().join(" "))
    }
}
