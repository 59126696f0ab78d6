//! Balance: how many mirrors each disk should hold, and which mirror moves where to get there.
//!
//! Pure: its input are counts of AUs and the disks of one extent at a time, in any order, and it
//! does no I/O. It has no state that a crash could lose: after a crash the plan is made again from
//! the present placement, and mirrors that were moved are where they should be.
//!
//! # When disks are even
//!
//! Every disk that stays is filled to one level, in percent of its size, the catalog's AUs
//! included. No failure group holds more mirrors than there are extents, since two mirrors of an
//! extent never share one: a group that has reached this limit gets no more, and the level of the
//! others rises on. So the *shares* are the levels of water in connected vessels, of which some
//! have a lid. A disk that leaves has share 0; one that is OFFLINE keeps its mirrors.
//!
//! # The least that can be moved
//!
//! The mirrors beyond a disk's share must leave it, and one AU is copied for each. So no plan that
//! ends even moves fewer than the sum of max(0, held - share) over the disks ([`Plan::least`]). A
//! share is a fraction; the AUs that rounding down leaves over go to disks that have them already,
//! so that this sum is the least for any rounding.
//!
//! With hardly more failure groups than mirrors it may take more: all surplus mirrors of a disk may
//! be mirrored in the failure group that lacks some, and a mirror that goes to a third disk sends
//! another one on. How many such *detours* are needed is a linear program over all sets of disks
//! that extents may end on; the tests solve it, and compare the plan with its optimum.
//!
//! # The moves
//!
//! Extents with mirrors on the same disks are alike, and there are few such sets of disks
//! (`mirror_sets.rs`). The [`Plan`] says how many extents of each set go to which other set. First
//! directly, from disks that have too many to disks that lack some, in proportion to both. Surplus
//! that finds no direct move takes the cheapest path: a mirror that was to go to a disk goes
//! elsewhere and makes room there (costs nothing), or another mirror moves on from there (a
//! detour). At last the plan is improved: changes in a cycle, after which each disk has as many as
//! before and a move is saved.
//!
//! Then the extents are read one after the other, and of each set every k-th moves, with k such
//! that the last extent of the set is the last to move: consecutive extents of a file do not all
//! move from one disk to another.
//!
//! Invariants:
//!
//!   1. Two mirrors of an extent are never in one failure group.
//!   2. A plan moves each mirror of an extent once at most, and moves as many as [`Plan::work`]
//!      says.

use plinth_format::DiskNumber;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The role of a disk in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is filled to the level.
    Stays,
    /// All its mirrors go elsewhere.
    Leaves,
    /// It cannot be written: it keeps its mirrors.
    Keeps,
}

/// A disk with its load. All counts in AUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    pub disk: DiskNumber,
    pub failure_group: String,
    /// AUs that hold data or could.
    pub units: u32,
    /// AUs that no plan moves: the catalog's.
    pub fixed: u32,
    /// Mirrors of extents.
    pub held: u32,
    pub role: Role,
}

/// The disks that stay have no room for all mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{missing} AUs too few on the disks that stay")]
pub struct TooSmall {
    pub missing: u64,
}

/// A move of one mirror of an extent to another disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Index of the mirror.
    pub mirror: usize,
    pub to: DiskNumber,
}

/// The plan of all moves: see "The moves".
#[derive(Debug)]
pub struct Plan {
    disks: Disks,
    sets: BTreeMap<Set, Outcomes>,
    least: u64,
}

/// Indices of disks, ascending; in a set that another one becomes, at the positions of the disks
/// that they replace.
type Set = Vec<usize>;

/// The target sets of the extents on one set of disks.
#[derive(Debug)]
struct Outcomes {
    count: u64,
    /// The number of extents for each target set; together all of them.
    to: BTreeMap<Set, Outcome>,
    seen: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Outcome {
    planned: u64,
    done: u64,
}

#[derive(Debug)]
struct Disks {
    /// Ascending by number.
    all: Vec<Standing>,
    index: BTreeMap<DiskNumber, usize>,
    /// Pairs of partners.
    partners: Vec<BTreeSet<usize>>,
}

#[derive(Debug)]
struct Standing {
    number: DiskNumber,
    group: usize,
    role: Role,
    share: u64,
    held: u64,
}

impl Standing {
    fn surplus(&self) -> u64 {
        if self.role == Role::Keeps { 0 } else { self.held.saturating_sub(self.share) }
    }

    fn lacks(&self) -> u64 {
        if self.role == Role::Stays { self.share.saturating_sub(self.held) } else { 0 }
    }
}

impl Disks {
    /// Whether the mirror at one position of a set may be on another disk instead.
    fn may_go(&self, set: &[usize], place: usize, to: usize) -> bool {
        self.all[to].role == Role::Stays
            && set[place] != to
            && set
                .iter()
                .enumerate()
                .all(|(other, disk)| other == place || self.all[*disk].group != self.all[to].group)
    }

    /// How many of the others in a set are partners of a disk.
    fn partnered(&self, set: &[usize], place: usize, to: usize) -> usize {
        set.iter()
            .enumerate()
            .filter(|(other, disk)| *other != place && self.partners[to].contains(disk))
            .count()
    }

    fn surplus(&self) -> u64 {
        self.all.iter().map(Standing::surplus).sum()
    }
}

impl Plan {
    /// A plan without moves.
    #[must_use]
    pub fn none() -> Self {
        let disks = Disks { all: Vec::new(), index: BTreeMap::new(), partners: Vec::new() };
        Self { disks, sets: BTreeMap::new(), least: 0 }
    }

    /// A plan for the number of extents on each set of disks. `are_partners` says whether two disks
    /// should mirror each other.
    ///
    /// # Errors
    /// If the mirrors do not fit on the disks that stay.
    pub fn new(
        loads: &[Load],
        sets: impl IntoIterator<Item = (Vec<DiskNumber>, u64)>,
        are_partners: impl Fn(DiskNumber, DiskNumber) -> bool,
    ) -> Result<Self, TooSmall> {
        let sets: Vec<(Vec<DiskNumber>, u64)> = sets.into_iter().collect();
        let extents = sets.iter().map(|(_, count)| count).sum();
        let mut loads: Vec<&Load> = loads.iter().collect();
        loads.sort_by_key(|load| load.disk);
        let names: BTreeSet<&str> = loads.iter().map(|load| load.failure_group.as_str()).collect();
        let names: BTreeMap<&str, usize> = names.into_iter().zip(0..).collect();
        let groups: Vec<usize> =
            loads.iter().map(|load| names[load.failure_group.as_str()]).collect();
        let shares = shares(extents, &loads, &groups, names.len())?;
        let standing = |((load, group), share): ((&&Load, usize), u32)| Standing {
            number: load.disk,
            group,
            role: load.role,
            share: share.into(),
            held: load.held.into(),
        };
        let all: Vec<Standing> = loads.iter().zip(groups).zip(shares).map(standing).collect();
        let index: BTreeMap<DiskNumber, usize> =
            all.iter().map(|disk| disk.number).zip(0..).collect();
        let partners = all
            .iter()
            .map(|disk| {
                (0..all.len())
                    .filter(|other| are_partners(disk.number, all[*other].number))
                    .collect()
            })
            .collect();
        let disks = Disks { all, index, partners };
        let known = |(set, count): (Vec<DiskNumber>, u64)| {
            let mut set: Set =
                set.iter().map(|disk| disks.index.get(disk).copied()).collect::<Option<_>>()?;
            set.sort_unstable();
            let to = BTreeMap::from([(set.clone(), Outcome { planned: count, done: 0 })]);
            Some((set, Outcomes { count, to, seen: 0 }))
        };
        let sets = sets.into_iter().filter_map(known).collect();
        let least = disks.surplus();
        let mut plan = Self { disks, sets, least };
        plan.send_directly();
        while plan.send_round() {}
        plan.improve();
        Ok(plan)
    }

    /// The least that must be moved, in AUs: see "The least that can be moved".
    #[must_use]
    pub fn least(&self) -> u64 {
        self.least
    }

    /// AUs that the plan moves.
    #[must_use]
    pub fn work(&self) -> u64 {
        let moves = |from: &Set, to: &Set| {
            from.iter().zip(to).filter(|(from, to)| from != to).count() as u64
        };
        self.sets
            .iter()
            .flat_map(|(from, of)| {
                of.to.iter().map(move |(to, count)| moves(from, to) * count.planned)
            })
            .sum()
    }

    /// The number of mirrors that go from each disk to each other one; [`Self::work`] is their sum.
    #[must_use]
    pub fn routes(&self) -> Vec<(DiskNumber, DiskNumber, u64)> {
        let mut ways: BTreeMap<(DiskNumber, DiskNumber), u64> = BTreeMap::new();
        for (set, of) in &self.sets {
            for (to, outcome) in
                of.to.iter().filter(|(to, outcome)| *to != set && outcome.planned > 0)
            {
                for Move { mirror, to } in self.moves(set, set, to) {
                    *ways.entry((self.disks.all[set[mirror]].number, to)).or_default() +=
                        outcome.planned;
                }
            }
        }
        ways.into_iter().map(|((from, to), count)| (from, to, count)).collect()
    }

    /// AUs that should move, and for which there is no move.
    #[must_use]
    pub fn stuck(&self) -> u64 {
        self.disks.surplus()
    }

    /// The share of a disk, in mirrors.
    #[must_use]
    pub fn share(&self, disk: DiskNumber) -> Option<u64> {
        self.disks.index.get(&disk).map(|index| self.disks.all[*index].share)
    }

    /// The moves of an extent, given the disks of its mirrors. Each can be made by itself, before
    /// or after the others, without two mirrors in one failure group.
    pub fn next(&mut self, mirrors: &[DiskNumber]) -> Vec<Move> {
        let index = |disk: &DiskNumber| self.disks.index.get(disk).copied();
        let Some(on) = mirrors.iter().map(index).collect::<Option<Set>>() else {
            return Vec::new();
        };
        let mut set = on.clone();
        set.sort_unstable();
        let Some(of) = self.sets.get_mut(&set) else { return Vec::new() };
        of.seen += 1;
        let (seen, count) = (i128::from(of.seen), i128::from(of.count));
        // The target set that is furthest behind its part of the extents seen so far.
        let behind = |outcome: &Outcome| {
            i128::from(outcome.planned) * seen - i128::from(outcome.done) * count
        };
        let open = of.to.iter_mut().filter(|(_, outcome)| outcome.done < outcome.planned);
        let Some((to, outcome)) = open.max_by_key(|(_, outcome)| behind(outcome)) else {
            return Vec::new();
        };
        outcome.done += 1;
        let to = to.clone();
        self.moves(&on, &set, &to)
    }

    /// The same for an extent that must leave its AU on some of its disks, `from`: a planned move
    /// away from one of these comes first, and at once.
    pub fn next_from(&mut self, mirrors: &[DiskNumber], from: &[DiskNumber]) -> Vec<Move> {
        let index = |disk: &DiskNumber| self.disks.index.get(disk).copied();
        let Some(on) = mirrors.iter().map(index).collect::<Option<Set>>() else {
            return Vec::new();
        };
        let from: Set = from.iter().filter_map(index).collect();
        let mut set = on.clone();
        set.sort_unstable();
        let Some(of) = self.sets.get_mut(&set) else { return Vec::new() };
        let leaves = |to: &Set| from.iter().filter(|disk| !to.contains(disk)).count();
        let open = of
            .to
            .iter_mut()
            .filter(|(to, outcome)| outcome.done < outcome.planned && leaves(to) > 0);
        let left = |outcome: &Outcome| outcome.planned - outcome.done;
        let Some((to, outcome)) = open.max_by_key(|(to, outcome)| (leaves(to), left(outcome)))
        else {
            return Vec::new();
        };
        outcome.done += 1;
        let to = to.clone();
        self.moves(&on, &set, &to)
    }

    /// The moves that turn one set of an extent's disks into another.
    fn moves(&self, on: &Set, set: &Set, to: &Set) -> Vec<Move> {
        let mut coming: Vec<usize> =
            to.iter().copied().filter(|disk| !set.contains(disk)).collect();
        // A mirror that stays in its failure group comes first, and replaces the mirror there; the
        // others are all alike.
        let group = |disk: usize| self.disks.all[disk].group;
        let mut leaving: Vec<usize> =
            set.iter().copied().filter(|disk| !to.contains(disk)).collect();
        leaving.sort_by_key(|from| !coming.iter().any(|to| group(*to) == group(*from)));
        let moves = leaving.into_iter().map(|from| {
            let beside = coming.iter().position(|to| group(*to) == group(from)).unwrap_or(0);
            Move {
                mirror: on.iter().position(|disk| *disk == from).expect("one of the set"),
                to: self.disks.all[coming.remove(beside)].number,
            }
        });
        moves.collect()
    }

    /// Lets some of the extents that go from `set` to `becomes` become `next` instead.
    fn send(&mut self, set: &Set, becomes: &Set, next: Set, count: u64) {
        let Some(of) = self.sets.get_mut(set) else { return };
        if let Some(outcome) = of.to.get_mut(becomes) {
            outcome.planned -= count;
            if outcome.planned == 0 {
                of.to.remove(becomes);
            }
        }
        next.iter().for_each(|disk| self.disks.all[*disk].held += count);
        becomes.iter().for_each(|disk| self.disks.all[*disk].held -= count);
        of.to.entry(next).or_default().planned += count;
    }

    /// Plans moves from disks with too many mirrors to disks that lack some.
    fn send_directly(&mut self) {
        let first: Vec<(u64, u64, u64)> = self
            .disks
            .all
            .iter()
            .map(|disk| (disk.surplus(), disk.held.max(1), disk.lacks().max(1)))
            .collect();
        let sets: Vec<(Set, u64)> =
            self.sets.iter().map(|(set, of)| (set.clone(), of.count)).collect();
        let mut sent: BTreeMap<(&Set, usize), u64> = BTreeMap::new();
        // In rounds, so that one disk's first choice does not take the only choice of another.
        for round in 1..=ROUNDS {
            for (set, count) in &sets {
                for (place, from) in set.iter().enumerate() {
                    let (surplus, held, _) = first[*from];
                    let fair =
                        (u128::from(*count) * u128::from(surplus)).div_ceil(u128::from(held));
                    let fair = u64::try_from(fair).unwrap_or(*count);
                    let so_far = sent.entry((set, place)).or_default();
                    let upto =
                        if round == ROUNDS { *count } else { (fair * round).div_ceil(ROUNDS) };
                    let mut left =
                        upto.saturating_sub(*so_far).min(self.disks.all[*from].surplus());
                    while left > 0 {
                        let Some((becomes, to, most)) = self.direct(set, place, &first) else {
                            break;
                        };
                        let count = left.min(most);
                        let mut next = becomes.clone();
                        next[place] = to;
                        self.send(set, &becomes, next, count);
                        *so_far += count;
                        left -= count;
                    }
                }
            }
        }
    }

    /// For extents of a set, as planned now: a disk that lacks mirrors and may take the one at this
    /// position, and for how many.
    fn direct(
        &self,
        set: &Set,
        place: usize,
        first: &[(u64, u64, u64)],
    ) -> Option<(Set, usize, u64)> {
        let disks = &self.disks;
        let waiting = self.sets[set].to.iter().filter(|(becomes, _)| becomes[place] == set[place]);
        let choices = waiting.flat_map(|(becomes, outcome)| {
            let open = (0..disks.all.len())
                .filter(move |to| disks.all[*to].lacks() > 0 && disks.may_go(becomes, place, *to));
            open.map(move |to| (becomes, outcome.planned, to))
        });
        let need = |to: usize| (u128::from(disks.all[to].lacks()) << 32) / u128::from(first[to].2);
        let (becomes, planned, to) = choices.max_by_key(|(becomes, planned, to)| {
            (disks.partnered(becomes, place, *to), need(*to), *planned, std::cmp::Reverse(*to))
        })?;
        Some((becomes.clone(), to, planned.min(disks.all[to].lacks().div_ceil(4))))
    }

    /// Finds the cheapest path for surplus mirrors to a disk that lacks some. False: there is none.
    fn send_round(&mut self) -> bool {
        let all = &self.disks.all;
        let Some(start) = (0..all.len()).find(|disk| all[*disk].surplus() > 0) else {
            return false;
        };
        let mut came: BTreeMap<usize, Hop> = BTreeMap::new();
        let mut queue = VecDeque::from([(start, None)]);
        let mut done: BTreeSet<usize> = BTreeSet::new();
        let mut goal = None;
        // Edges without cost go to the front of the queue.
        while let Some((here, hop)) = queue.pop_front() {
            if !done.insert(here) {
                continue;
            }
            if let Some(hop) = hop {
                came.insert(here, hop);
            }
            if all[here].lacks() > 0 {
                goal = Some(here);
                break;
            }
            for (set, of) in &self.sets {
                for becomes in of.to.keys() {
                    let Some(place) = becomes.iter().position(|disk| *disk == here) else {
                        continue;
                    };
                    for (to, next) in self.ways(set, becomes, place) {
                        if done.contains(&to) {
                            continue;
                        }
                        let costs = moves(set, &next) > moves(set, becomes);
                        let hop = Some(Hop {
                            set: set.clone(),
                            becomes: becomes.clone(),
                            next,
                            from: here,
                        });
                        if costs { queue.push_back((to, hop)) } else { queue.push_front((to, hop)) }
                    }
                }
            }
        }
        let Some(goal) = goal else { return false };
        let mut path = Vec::new();
        let mut at = goal;
        while at != start {
            let hop = came[&at].clone();
            at = hop.from;
            path.push(hop);
        }
        let most = self.disks.all[start].surplus().min(self.disks.all[goal].lacks());
        self.take(path, most)
    }

    /// Makes the hops of a path, for as many mirrors as all of them can. False: for none.
    fn take(&mut self, path: Vec<Hop>, most: u64) -> bool {
        let planned = |hop: &Hop| self.sets[&hop.set].to[&hop.becomes].planned;
        let most = path.iter().map(planned).min().unwrap_or(0).min(most);
        // Two hops may be of the same extents.
        let distinct: BTreeSet<_> = path.iter().map(|hop| (&hop.set, &hop.becomes)).collect();
        let count = if distinct.len() == path.len() { most } else { most.min(1) };
        for hop in path {
            let outcomes = &self.sets[&hop.set].to;
            if outcomes.get(&hop.becomes).is_some_and(|outcome| outcome.planned >= count) {
                self.send(&hop.set, &hop.becomes, hop.next, count);
            }
        }
        count > 0
    }

    /// Improves the plan while it can be made cheaper: cycles of hops that leave each disk its
    /// count and save a move. Skipped if there are so
    /// large numbers of disks and sets that it would take longer than it saves.
    fn improve(&mut self) {
        if self.sets.len() * self.disks.all.len() > IMPROVED_MAX {
            return;
        }
        for _ in 0..CIRCLES_MAX {
            let Some(circle) = self.find_circle() else { return };
            let before = self.work();
            if !self.take(circle, u64::MAX) || self.work() >= before {
                return;
            }
        }
    }

    /// Bellman and Ford's algorithm, from all disks at once.
    fn find_circle(&self) -> Option<Vec<Hop>> {
        if self.work() == self.least {
            return None;
        }
        let count = self.disks.all.len();
        let mut arcs: BTreeMap<(usize, usize), (i64, Hop)> = BTreeMap::new();
        for (set, of) in &self.sets {
            for becomes in of.to.keys() {
                for (place, from) in becomes.iter().enumerate() {
                    for (to, next) in self.ways(set, becomes, place) {
                        let cost =
                            moves(set, &next).cast_signed() - moves(set, becomes).cast_signed();
                        if arcs.get(&(*from, to)).is_none_or(|(best, _)| cost < *best) {
                            let hop = Hop {
                                set: set.clone(),
                                becomes: becomes.clone(),
                                next,
                                from: *from,
                            };
                            arcs.insert((*from, to), (cost, hop));
                        }
                    }
                }
            }
        }
        let mut cost = vec![0_i64; count];
        let mut came: Vec<Option<usize>> = vec![None; count];
        let mut last = None;
        for _ in 0..=count {
            last = None;
            for ((from, to), (price, _)) in &arcs {
                if cost[*from] + price < cost[*to] {
                    cost[*to] = cost[*from] + price;
                    came[*to] = Some(*from);
                    last = Some(*to);
                }
            }
            last?;
        }
        // A disk that still became cheaper is behind a cycle.
        let mut at = last?;
        for _ in 0..count {
            at = came[at]?;
        }
        let (first, mut circle) = (at, Vec::new());
        loop {
            let from = came[at]?;
            circle.push(arcs[&(from, at)].1.clone());
            at = from;
            if at == first {
                return Some(circle);
            }
        }
    }

    /// The ways in which a set that is to become `becomes` can have one mirror less at one
    /// position, and the disk that has one more then.
    fn ways(&self, set: &Set, becomes: &Set, place: usize) -> Vec<(usize, Set)> {
        let disks = &self.disks;
        let mut ways = Vec::new();
        for to in (0..disks.all.len()).filter(|to| disks.may_go(becomes, place, *to)) {
            let mut next = becomes.clone();
            next[place] = to;
            ways.push((to, next));
        }
        // In exchange for another mirror of the extent, which stays.
        for other in
            (0..set.len()).filter(|other| *other != place && becomes[*other] != set[*other])
        {
            let mut next = becomes.clone();
            (next[place], next[other]) = (becomes[other], set[other]);
            let groups: BTreeSet<usize> = next.iter().map(|disk| disks.all[*disk].group).collect();
            if disks.all[set[other]].role != Role::Leaves && groups.len() == next.len() {
                ways.push((set[other], next));
            }
        }
        ways
    }
}

/// Number of mirrors that move when a set becomes another.
fn moves(set: &Set, becomes: &Set) -> u64 {
    set.iter().zip(becomes).filter(|(from, to)| from != to).count() as u64
}

/// Extents on `set` that were to become `becomes` are to become `next`: one mirror less on the disk
/// `from`.
#[derive(Debug, Clone)]
struct Hop {
    set: Set,
    becomes: Set,
    next: Set,
    from: usize,
}

/// The largest product of sets and disks for which a plan is improved.
const IMPROVED_MAX: usize = 200_000;

/// The most cycles: each saves at least one move.
const CIRCLES_MAX: usize = 10_000;

/// Rounds in which direct moves are planned.
const ROUNDS: u64 = 8;

/// The unit of a level: 2^40 is a full disk. A step adds less than one AU to any disk.
const FULL: u64 = 1 << 40;

/// The shares of disks: see "When disks are even".
fn shares(cap: u64, loads: &[&Load], groups: &[usize], count: usize) -> Result<Vec<u32>, TooSmall> {
    let total: u64 = loads.iter().map(|load| u64::from(load.held)).sum();
    let at = |load: &Load, level: u64| -> u32 {
        match load.role {
            Role::Leaves => 0,
            Role::Keeps => load.held,
            Role::Stays => {
                let water = (u128::from(load.units) * u128::from(level)) >> 40;
                u32::try_from(water).unwrap_or(u32::MAX).saturating_sub(load.fixed)
            }
        }
    };
    let in_group = |group: usize, level: u64| -> u64 {
        let members = loads.iter().zip(groups).filter(|(_, of)| **of == group);
        members.map(|(load, _)| u64::from(at(load, level))).sum()
    };
    let capped =
        |level: u64| -> u64 { (0..count).map(|group| in_group(group, level).min(cap)).sum() };
    let highest = |fits: &dyn Fn(u64) -> bool| {
        let (mut low, mut high) = (0, FULL + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    };
    let most = capped(FULL);
    if most < total {
        return Err(TooSmall { missing: total - most });
    }
    let level = highest(&|level| capped(level) <= total);
    let levels: Vec<u64> = (0..count)
        .map(|group| level.min(highest(&|level| in_group(group, level) <= cap)))
        .collect();
    let mut shares: Vec<u32> =
        loads.iter().zip(groups).map(|(load, group)| at(load, levels[*group])).collect();
    let mut of_group = vec![0; count];
    for (share, group) in shares.iter().zip(groups) {
        of_group[*group] += u64::from(*share);
    }
    // The AUs left over by rounding: to disks that have them already, then to those furthest below
    // the level.
    let mut rest = total.saturating_sub(of_group.iter().sum());
    let below = |index: usize| {
        let load = loads[index];
        (u128::from(load.units) * u128::from(levels[groups[index]])) & u128::from(FULL - 1)
    };
    while rest > 0 {
        let mut order: Vec<usize> = (0..loads.len())
            .filter(|index| {
                let load = loads[*index];
                load.role == Role::Stays
                    && shares[*index] < load.units.saturating_sub(load.fixed)
                    && of_group[groups[*index]] < cap
            })
            .collect();
        order.sort_by_key(|index| {
            (loads[*index].held <= shares[*index], std::cmp::Reverse(below(*index)), *index)
        });
        let before = rest;
        for index in order {
            if rest > 0 && of_group[groups[index]] < cap {
                shares[index] += 1;
                of_group[groups[index]] += 1;
                rest -= 1;
            }
        }
        if rest == before {
            return Err(TooSmall { missing: rest });
        }
    }
    Ok(shares)
}

#[cfg(test)]
mod tests;
