//! The plan of a history: the groups, their clients, the faults. Made by a seed, written as text,
//! cut down.
//!
//! ```text
//!   seed 42
//!   operations 600
//!   limits small
//!   failures midway
//!   some late
//!   group NORMAL au 1 sectors 512/4096 disks A:60 B:72 clients mixed:17 log:99
//!   fault power-cut group 0 draw 1234 after 80
//!   fault disk-fails group 0 draw 4321 after 12 while moving
//! ```
//!
//! `after`: operations of all clients between the fault before and this one; 0 is at once.
//! Everything else about a fault, such as which disk it meets, follows from its `draw`; the
//! operations of a client, from its number; the order of events, from `seed`.

use crate::coverage::{self, State};
use plinth_engine::{testing::Numbers, world::Sectors};
use plinth_format::{Redundancy, layout::MIB};
use plinth_workload::{
    profile::{self, Profile},
    random::weighted,
};
use std::{fmt, str::FromStr};

/// A disk group as it is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    pub redundancy: Redundancy,
    /// Bytes.
    pub au_size: u64,
    pub sectors: Sectors,
    /// Failure group, one of quorum if it begins with Q, and bytes of each disk.
    pub disks: Vec<(String, u64)>,
    /// Each with its profile, and the number from which all its operations follow.
    pub clients: Vec<(&'static Profile, u64)>,
}

impl Shape {
    /// The failure groups that hold data.
    pub fn data_groups(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .disks
            .iter()
            .map(|(name, _)| name)
            .filter(|name| !name.starts_with('Q'))
            .cloned()
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// All failure groups.
    pub fn failure_groups(&self) -> Vec<String> {
        let mut names: Vec<String> = self.disks.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    fn drawn(numbers: &mut Numbers, clients_max: u64) -> Self {
        // From one disk to twelve.
        let (redundancy, groups) = match numbers.below(20) {
            0 => (Redundancy::External, "A"),
            1 => (Redundancy::External, "A A"),
            // Some without a mirror of the catalog: their flushes are those of data alone.
            2 if numbers.below(2) == 0 => (Redundancy::External, "A A A A A A"),
            2 => (Redundancy::External, "A A A"),
            3..6 => (Redundancy::Normal, "A B"),
            // Disks without a vote, and without a mirror of the catalog.
            6..8 => (Redundancy::Normal, "A A B B"),
            8 => (Redundancy::Normal, "A A A A B B B B"),
            9 => (Redundancy::Normal, "A B C"),
            10 => (Redundancy::Normal, "A A B B C C"),
            11 | 12 => (Redundancy::Normal, "A B Q"),
            13 => (Redundancy::Normal, "A B C D E F"),
            14 => (Redundancy::Normal, "A A A B B C"),
            15 | 16 => (Redundancy::High, "A B C"),
            17 => (Redundancy::High, "A A B C Q1 Q2"),
            18 => (Redundancy::High, "A B C D E"),
            _ if numbers.below(2) == 0 => (Redundancy::Normal, "A A A A B B B B C C C C"),
            _ => (Redundancy::High, "A A B B C C D"),
        };
        let (logical, physical) = [(512, 512), (512, 4096), (4096, 4096)][index(numbers, 3)];
        let au = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 4, 4, 4, 8, 16, 64][index(numbers, 20)]
            * MIB;
        let least = (48 * MIB).max(au * 24);
        let even = numbers.below(2) == 0;
        let size = least + numbers.below(60) * MIB.max(au / 4);
        let disk = |name: &str, numbers: &mut Numbers| {
            let more = if even { 0 } else { numbers.below(30) * au };
            (name.to_owned(), size + more)
        };
        let disks = groups.split(' ').map(|name| disk(name, numbers)).collect();
        let count = 1 + numbers.below(clients_max);
        let lazy = numbers.below(5) == 0;
        let profile = |numbers: &mut Numbers| {
            let busy = profile::BUSY[index(numbers, profile::BUSY.len())];
            if lazy { &profile::LAZY } else { busy }
        };
        let clients = (0..count).map(|_| (profile(numbers), numbers.draw() >> 32)).collect();
        Self { redundancy, au_size: au, sectors: Sectors { logical, physical }, disks, clients }
    }
}

fn index(numbers: &mut Numbers, length: usize) -> usize {
    usize::try_from(numbers.below(length as u64)).expect("small")
}

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident $name:literal $weight:literal,)*) => {
        /// A fault, or a statement that a group is given. `docs/faults.md` says what must hold.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $($(#[$doc])* $fault,)*
        }

        impl Fault {
            /// All, and how often each is drawn.
            pub const ALL: &[(Self, &str, u64)] = &[$((Self::$fault, $name, $weight),)*];
        }
    };
}

faults! {
    /// The engine dies at one of its next steps.
    EngineKilled "engine-killed" 5,
    /// The engine dies, and its successors die in their mounts.
    KilledAgain "killed-again" 3,
    /// The host loses power, and everything not flushed, sector by sector.
    PowerCut "power-cut" 8,
    /// The same, and again while the group is mounted.
    PowerCutAgain "power-cut-again" 6,
    /// The engine does not run for minutes.
    Frozen "frozen" 2,
    /// Another engine tries to mount the group.
    SecondEngine "second-engine" 2,
    /// The wall clock jumps.
    ClockJumps "clock-jumps" 1,
    /// Every request is sent twice for a while.
    SentTwice "sent-twice" 2,
    /// All I/O of a failure group fails.
    GroupFails "group-fails" 3,
    /// No I/O of a failure group ends.
    GroupHangs "group-hangs" 3,
    /// One disk fails.
    DiskFails "disk-fails" 2,
    /// A faulty disk is healed, and brought ONLINE.
    Return "return" 4,
    /// One read fails, or some.
    ReadFails "read-fails" 1,
    /// One write fails, or some, or all of some blocks.
    WriteFails "write-fails" 4,
    /// One flush fails, and loses what it covered.
    FlushFails "flush-fails" 2,
    /// A disk takes longer.
    DiskSlow "disk-slow" 3,
    /// Blocks cannot be read until they are written.
    LatentSectors "latent-sectors" 2,
    /// The thin pool behind a disk has no more space.
    ThinFull "thin-full" 2,
    /// Blocks become noise.
    Rot "rot" 3,
    /// A write is acknowledged and not done.
    LostWrite "lost-write" 2,
    /// A write goes to another place.
    MisdirectedWrite "misdirected-write" 2,
    /// A read comes from another place.
    MisdirectedRead "misdirected-read" 1,
    /// Blocks are as they were a while ago.
    StaleSectors "stale-sectors" 2,
    /// A block and its checksums are as they were before the last write of it.
    LostPair "lost-pair" 2,
    /// A disk comes back with yesterday's bytes.
    OldImage "old-image" 5,
    /// A disk is found at another path, or at two.
    NewPath "new-path" 1,
    /// A copy of a disk is shown beside it.
    CloneShown "clone-shown" 2,
    /// A disk is shorter for a while.
    Shrunk "shrunk" 1,
    /// A disk has foreign data for a while.
    Blank "blank" 1,
    /// An operator takes a failure group offline.
    OperatorOffline "operator-offline" 2,
    /// The group is dismounted and mounted.
    Dismount "dismount" 2,
    /// The same by force, while clients work.
    DismountForce "dismount-force" 2,
    /// Only some disks are visible at a mount.
    Subset "subset" 4,
    /// Halves of the group are visible in turns.
    Halves "halves" 3,
    /// Headers, memberships, logs and catalog pages are overwritten with bytes that look right.
    HostileBytes "hostile-bytes" 2,
    /// The engine ends, and the first and the last MiB of all disks are overwritten.
    EndsOverwritten "ends-overwritten" 4,
    /// The engine's own metadata is overwritten, on disks of a mounted group.
    MetadataOverwritten "metadata-overwritten" 4,
    /// The group is dropped and created anew.
    DropAndCreate "drop-and-create" 1,
    /// The group is filled to the last AU, and the files removed.
    Full "full" 5,
    /// The engine dies while a check repairs.
    KilledInRepair "killed-in-repair" 2,
    /// Disks are added, or dropped, or both.
    DisksAddedDropped "disks-exchanged" 6,
    /// The group gets another redundancy.
    RedundancyConverted "redundancy-converted" 5,
    /// Disks get other sizes.
    DisksResized "disks-resized" 0,
    /// Everything is read and compared.
    Scrubbed "scrubbed" 0,
    /// A rebalance evens out, or moves what lies at the end of disks to their beginning.
    Compacted "compacted" 0,
    /// A rebalance is paused, and goes on.
    MovementPaused "movement-paused" 0,
    /// All free space is given back, by discards or zeros.
    Reclaimed "reclaimed" 0,
}

impl Fault {
    /// Faults that replace a drawn one, now and then: statements that move data, or read all of it.
    pub const ORDERS: [Self; 5] = [
        Self::DisksResized,
        Self::Scrubbed,
        Self::Compacted,
        Self::MovementPaused,
        Self::Reclaimed,
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(fault, ..)| *fault == self).expect("all are there").1
    }

    /// The fault of this name.
    ///
    /// # Errors
    /// Lists the names that there are.
    pub fn named(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.iter().map(|(_, name, _)| *name).collect::<Vec<_>>().join(", ");
        let found = Self::ALL.iter().find(|(_, known, _)| *known == name);
        found
            .map(|(fault, ..)| *fault)
            .ok_or_else(|| format!("there is no fault {name}; there are {}", names()))
    }

    fn drawn(numbers: &mut Numbers) -> Self {
        let weights = Self::ALL.iter().map(|(_, _, weight)| *weight);
        Self::ALL[weighted(weights, |limit| numbers.below(limit))].0
    }
}

/// One fault of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub fault: Fault,
    /// The group that it meets.
    pub group: usize,
    /// Decides the rest.
    pub draw: u64,
    /// Operations of all clients before it.
    pub after: u64,
    /// The state that the group is to have when the fault comes, if the plan does not leave that to
    /// the steps before.
    pub state: Option<State>,
}

/// See the module's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    /// Operations of all clients, at least.
    pub operations: u64,
    /// Whether the engines keep little in memory (the engine's `limits.rs`).
    pub has_small_limits: bool,
    /// Whether faults strike in the middle of an operation: writes that land in part, flushes that
    /// take long, words for a successor that are not stored.
    pub fails_midway: bool,
    /// Whether some I/O takes so long that all I/O that begins meanwhile overtakes it.
    pub has_stragglers: bool,
    pub groups: Vec<Shape>,
    pub steps: Vec<Step>,
}

/// How plans are made of seeds.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// Operations of all clients, at least.
    pub operations: u64,
    /// A fault that must happen in each.
    pub fault: Option<Fault>,
}

impl Recipe {
    pub fn plan(self, seed: u64) -> Plan {
        let mut plan = Plan::of_seed(seed, self.operations);
        if let Some(fault) = self.fault {
            plan.aim_at(fault);
        }
        plan
    }
}

/// One of this many steps is to meet its group in a state that is drawn, too.
const AIMED: u64 = 3;

impl Plan {
    /// The plan of a seed.
    pub fn of_seed(seed: u64, operations: u64) -> Self {
        let mut numbers = Numbers::new(seed ^ 0x706c_616e);
        let count = [1, 1, 1, 1, 1, 1, 2, 2, 2, 3][index(&mut numbers, 10)];
        let groups: Vec<Shape> =
            (0..count).map(|_| Shape::drawn(&mut numbers, 4 / count as u64 + 1)).collect();
        let faults = 4 + numbers.below(6);
        let share = operations / (faults + 1);
        let mut last = Fault::ClockJumps;
        let step = |_| {
            // A state that does not last is met by the next fault at once.
            let at_once = match last {
                Fault::Return
                | Fault::Full
                | Fault::DisksAddedDropped
                | Fault::RedundancyConverted => numbers.below(4) > 0,
                _ => numbers.below(3) == 0,
            };
            let after = if at_once { 0 } else { share / 2 + numbers.below(share.max(1)) };
            last = Fault::drawn(&mut numbers);
            Step {
                fault: last,
                group: index(&mut numbers, count),
                draw: numbers.draw() >> 16,
                after,
                state: None,
            }
        };
        let mut steps: Vec<Step> = (0..faults).map(step).collect();
        if numbers.below(6) == 0 {
            // Full from the beginning: each AU that is freed is allocated at once.
            steps.insert(
                0,
                Step {
                    fault: Fault::Full,
                    group: index(&mut numbers, count),
                    draw: 0,
                    after: 40,
                    state: None,
                },
            );
        }
        let mut plan = Self {
            seed,
            operations,
            has_small_limits: false,
            fails_midway: false,
            has_stragglers: false,
            groups,
            steps,
        };
        plan.widen();
        plan
    }

    /// The plan may have small limits, faults that strike midway, stragglers, wild clients, and
    /// steps of [`Fault::ORDERS`] or with a state.
    fn widen(&mut self) {
        let numbers = &mut Numbers::new(self.seed ^ 0x7769_6465);
        self.has_small_limits = numbers.below(3) == 0;
        self.fails_midway = numbers.below(2) == 0;
        for (profile, _) in self.groups.iter_mut().flat_map(|group| &mut group.clients) {
            if numbers.below(3) == 0 {
                *profile = &profile::WILD;
            }
        }
        for step in &mut self.steps {
            if numbers.below(6) == 0 {
                step.fault = Fault::ORDERS[index(numbers, Fault::ORDERS.len())];
            }
            if numbers.below(AIMED) == 0 {
                let states = coverage::allowed(step.fault);
                step.state = Some(states[index(numbers, states.len())]);
            }
        }
        self.has_stragglers = numbers.below(3) == 0;
    }

    /// Two of its faults are this one, and meet a group with mirrors where there is one.
    fn aim_at(&mut self, fault: Fault) {
        let mirrored = |group: &usize| self.groups[*group].redundancy != Redundancy::External;
        let group = (0..self.groups.len()).find(mirrored).unwrap_or_default();
        let count = self.steps.len() as u64;
        for place in [self.seed % count, self.seed / count % count] {
            let step = &mut self.steps[usize::try_from(place).expect("below the count")];
            (step.fault, step.group) = (fault, group);
            step.state = step.state.filter(|state| coverage::allowed(fault).contains(state));
        }
    }

    /// Plans with one thing less, the boldest first: candidates for a shorter history that fails as
    /// well.
    pub fn lesser(&self) -> Vec<Self> {
        let mut plans = Vec::new();
        let mut with = |change: &dyn Fn(&mut Self)| {
            let mut plan = self.clone();
            change(&mut plan);
            if plan != *self {
                plans.push(plan);
            }
        };
        let half = self.steps.len() / 2;
        with(&|plan| plan.steps.truncate(half));
        with(&|plan| drop(plan.steps.drain(..half)));
        for group in (0..self.groups.len()).filter(|_| self.groups.len() > 1) {
            with(&|plan| {
                plan.groups.remove(group);
                plan.steps.retain(|step| step.group != group);
                plan.steps
                    .iter_mut()
                    .filter(|step| step.group > group)
                    .for_each(|step| step.group -= 1);
            });
        }
        for step in (0..self.steps.len()).rev() {
            with(&|plan| _ = plan.steps.remove(step));
        }
        for (number, group) in
            self.groups.iter().enumerate().filter(|(_, group)| group.clients.len() > 1)
        {
            for client in 0..group.clients.len() {
                with(&|plan| _ = plan.groups[number].clients.remove(client));
            }
        }
        with(&|plan| plan.operations /= 2);
        with(&|plan| plan.has_small_limits = false);
        with(&|plan| plan.fails_midway = false);
        with(&|plan| plan.has_stragglers = false);
        for step in 0..self.steps.len() {
            with(&|plan| plan.steps[step].after /= 2);
            with(&|plan| plan.steps[step].state = None);
        }
        plans
    }

    /// The size of the plan.
    pub fn size(&self) -> u64 {
        let clients: usize = self.groups.iter().map(|group| group.clients.len()).sum();
        let waits: u64 = self.steps.iter().map(|step| step.after).sum();
        self.operations
            + waits
            + 100 * (self.steps.len() + clients) as u64
            + self.steps.iter().filter(|step| step.state.is_some()).count() as u64
            + u64::from(self.has_small_limits)
            + u64::from(self.fails_midway)
            + u64::from(self.has_stragglers)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = REDUNDANCY
            .iter()
            .find(|(redundancy, _)| *redundancy == self.redundancy)
            .expect("three")
            .1;
        let Sectors { logical, physical } = self.sectors;
        write!(f, "group {name} au {} sectors {logical}/{physical} disks", self.au_size / MIB)?;
        for (group, size) in &self.disks {
            write!(f, " {group}:{}", size / MIB)?;
        }
        write!(f, " clients")?;
        for (profile, number) in &self.clients {
            write!(f, " {}:{number}", profile.name)?;
        }
        Ok(())
    }
}

const REDUNDANCY: [(Redundancy, &str); 3] = [
    (Redundancy::External, "EXTERNAL"),
    (Redundancy::Normal, "NORMAL"),
    (Redundancy::High, "HIGH"),
];

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}\noperations {}", self.seed, self.operations)?;
        if self.has_small_limits {
            writeln!(f, "limits small")?;
        }
        if self.fails_midway {
            writeln!(f, "failures midway")?;
        }
        if self.has_stragglers {
            writeln!(f, "some late")?;
        }
        for group in &self.groups {
            writeln!(f, "{group}")?;
        }
        for Step { fault, group, draw, after, state } in &self.steps {
            write!(f, "fault {} group {group} draw {draw} after {after}", fault.name())?;
            match state {
                Some(state) => writeln!(f, " while {}", state.name())?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = Self {
            seed: 0,
            operations: 600,
            has_small_limits: false,
            fails_midway: false,
            has_stragglers: false,
            groups: Vec::new(),
            steps: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let read = match words.as_slice() {
                [] => Some(()),
                ["seed", seed] => seed.parse().ok().map(|seed| plan.seed = seed),
                ["operations", count] => count.parse().ok().map(|count| plan.operations = count),
                ["limits", "small"] => {
                    plan.has_small_limits = true;
                    Some(())
                }
                ["failures", "midway"] => {
                    plan.fails_midway = true;
                    Some(())
                }
                ["some", "late"] => {
                    plan.has_stragglers = true;
                    Some(())
                }
                ["group", rest @ ..] => shape(rest).map(|shape| plan.groups.push(shape)),
                ["fault", rest @ ..] => step(rest).map(|step| plan.steps.push(step)),
                _ => None,
            };
            read.ok_or_else(|| {
                format!("line {}: {line:?} is not what a history is made of", number + 1)
            })?;
        }
        if plan.groups.is_empty() {
            return Err("a history needs a group".to_owned());
        }
        if plan.steps.iter().any(|step| step.group >= plan.groups.len()) {
            return Err(format!(
                "a fault meets a group that is not there: there are {}",
                plan.groups.len()
            ));
        }
        Ok(plan)
    }
}

fn shape(words: &[&str]) -> Option<Shape> {
    let [name, "au", au, "sectors", sectors, "disks", rest @ ..] = words else { return None };
    let redundancy = REDUNDANCY.iter().find(|(_, known)| known == name)?.0;
    let (logical, physical) = sectors.split_once('/')?;
    let sectors = Sectors { logical: logical.parse().ok()?, physical: physical.parse().ok()? };
    let clients_at = rest.iter().position(|word| *word == "clients")?;
    let disk = |word: &&str| {
        let (group, size) = word.split_once(':')?;
        Some((group.to_owned(), size.parse::<u64>().ok()?.checked_mul(MIB)?))
    };
    let client = |word: &&str| {
        let (name, number) = word.split_once(':')?;
        Some((profile::named(name)?, number.parse().ok()?))
    };
    let disks: Vec<(String, u64)> = rest[..clients_at].iter().map(disk).collect::<Option<_>>()?;
    let clients: Vec<(&'static Profile, u64)> =
        rest[clients_at + 1..].iter().map(client).collect::<Option<_>>()?;
    let au_size = au.parse::<u64>().ok()?.checked_mul(MIB)?;
    let good = !disks.is_empty() && !clients.is_empty() && au_size.is_power_of_two();
    good.then_some(Shape { redundancy, au_size, sectors, disks, clients })
}

fn step(words: &[&str]) -> Option<Step> {
    let [name, "group", group, "draw", draw, "after", after, rest @ ..] = words else {
        return None;
    };
    let fault = Fault::ALL.iter().find(|(_, known, _)| known == name)?.0;
    let state = match rest {
        [] => None,
        ["while", state] => Some(State::ALL.into_iter().find(|known| known.name() == *state)?),
        _ => return None,
    };
    Some(Step {
        fault,
        group: group.parse().ok()?,
        draw: draw.parse().ok()?,
        after: after.parse().ok()?,
        state,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_what_its_text_says() {
        for seed in 0..400 {
            let plan = Recipe { operations: 600, fault: None }.plan(seed);
            assert_eq!(plan.to_string().parse(), Ok(plan), "seed {seed}");
        }
    }

    #[test]
    fn a_plan_that_is_aimed_has_the_fault() {
        for seed in 0..50 {
            let plan = Recipe { operations: 600, fault: Some(Fault::LostPair) }.plan(seed);
            assert!(plan.steps.iter().any(|step| step.fault == Fault::LostPair), "{plan}");
            let is_met = |step: &Step| plan.groups[step.group].redundancy != Redundancy::External;
            let is_mirrored =
                plan.groups.iter().any(|group| group.redundancy != Redundancy::External);
            let aimed = plan.steps.iter().filter(|step| step.fault == Fault::LostPair);
            assert!(!is_mirrored || aimed.into_iter().any(is_met), "{plan}");
        }
        assert_eq!(Recipe { operations: 600, fault: None }.plan(7), Plan::of_seed(7, 600));
        assert!(Fault::named("lost-pears").expect_err("no such fault").contains("lost-pair"));
    }

    #[test]
    fn an_invalid_plan_is_refused_with_its_line() {
        let bad = "seed 1\ngroup NORMAL au 1 sectors 512/512 disks A:60 clients mixed:1\nfault sunshine group 0";
        assert!(bad.parse::<Plan>().expect_err("no such fault").starts_with("line 3"));
        assert!("seed 1".parse::<Plan>().is_err());
    }

    #[test]
    fn lesser_plans_are_less() {
        let plan = Plan::of_seed(3, 600);
        assert!(plan.lesser().iter().all(|lesser| lesser.size() < plan.size()));
    }
}
