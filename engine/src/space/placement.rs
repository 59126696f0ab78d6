//! Placement: which disks hold the mirrors of a new extent, and how much still fits.
//!
//! Pure: its input is the disks of the membership, and it does no I/O. Rebuilt when the membership
//! changes.
//!
//! Which disks can take a mirror:
//!
//! - ONLINE and SYNCING disks (*serving*), in any failure group, while at least as many failure
//!   groups have one as an extent has mirrors. Then no extent is created with less protection than
//!   the group can give.
//! - Otherwise each serving failure group takes one, and the others go to OFFLINE disks of the
//!   other failure groups: the AU is taken, and the caller marks the region as stale for that disk,
//!   so that its return heals the extent. Without this an extent written today would stay
//!   under-protected for ever.
//! - At least one mirror is on an ONLINE disk, since only these are read.
//!
//! How they are chosen, for extent n of a file:
//!
//!   1. The first mirror follows a *schedule*, from a start that the file's seed gives: it contains
//!      every serving disk in proportion to its size, evenly spread, and a failure group has at
//!      most 1/mirrors of the entries. So consecutive extents are on different disks. Every other
//!      extent skips a disk that is clearly fuller (in percent) than the emptiest one.
//!   2. The other mirrors go to the emptiest (in percent) of the first one's partners, in other
//!      failure groups; equal ones in turn. This keeps disks, and failure groups as far as the
//!      bound below allows, equally full in percent.
//!   3. If partners are full, to any disk in other failure groups: a slightly higher risk at a
//!      double failure is better than to refuse a write while `statfs` shows space.
//!
//! # How much fits
//!
//! With f(i) AUs free in failure group i, K extents of m mirrors fit exactly if sum min(f(i), K) >=
//! m K: two mirrors never share a failure group, so group i gives at most K. (For two mirrors this
//! is min(total / 2, total - largest).) And each extent needs an ONLINE disk: K is at most the
//! number of AUs free on these. [`Placement::allocatable`] is the largest such K, and it is exact,
//! not an estimate, because a choice is only made if it leaves K - 1: of the *tight* failure
//! groups, those with f(i) >= K, at most sum min(f(i), K) - m K may be left out, and at most 1 +
//! (all of them - K) ONLINE AUs may be taken.
//!
//! Invariants:
//!
//!   1. Two mirrors of an extent never share a failure group.
//!   2. `choose` refuses only if `allocatable` is 0, and lowers `allocatable` by one at most.

use crate::{
    planted::{self, Bug},
    space::Space,
};
use plinth_format::{
    Au, DiskNumber, Redundancy,
    membership::{DiskState, Membership},
};
use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

/// The most partners of a disk, unless a failure group has too few disks for all others to have a
/// partner there.
pub const PARTNERS_MAX: usize = 8;

/// The most entries of a disk in the schedule: the resolution of sizes.
const PLACES_MAX: u64 = 64;

/// A disk is clearly fuller than another by this fraction of its size: 1/50 is 2 %.
const FULLER: u64 = 50;

/// A disk as placement sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDisk {
    pub number: DiskNumber,
    pub failure_group: String,
    /// AUs that hold data or could.
    pub units: u32,
    pub state: DiskState,
}

/// Placements by the number of mirrors.
pub type Placements = BTreeMap<usize, Arc<Placement>>;

/// One mirror of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mirror {
    pub disk: DiskNumber,
    pub au: Au,
}

/// No AUs are free for another extent. Pending ones may become free: see [`Space::any_pending`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no space left in the disk group")]
pub struct NoSpace;

/// The numbers of `v$asm_diskgroup`, in AUs, of the data disks that stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usable {
    /// With AUs that are reserved for a shrink.
    pub total: u64,
    /// Before mirroring; without pending ones and those that are kept for the catalog.
    pub free: u64,
    /// The AUs that must stay free so that every extent gets all its mirrors again after the worst
    /// failure for which that is possible: the size of the largest failure group (NORMAL), of the
    /// two largest (HIGH). If too few failure groups would remain (two in NORMAL, three in HIGH) no
    /// reserve helps, and it is 0 (ASM asks for one all the same); with four in HIGH it is that for
    /// one.
    pub required_mirror_free: u64,
    /// How many extents really fit.
    pub writable: u64,
    pub mirrors: u64,
}

impl Usable {
    /// (free - required) / mirrors in bytes, negative if a failure could not be healed; but no more
    /// than really fits. The formula is not rounded to AUs, so that it can be computed from the
    /// other columns of the view.
    #[must_use]
    pub fn usable_file(&self, au_size: u64) -> i64 {
        let bytes = |units: u64| i64::try_from(units * au_size).expect("fewer than 2^63 bytes");
        let mirrors = i64::try_from(self.mirrors).expect("at most three");
        let by_formula = (bytes(self.free) - bytes(self.required_mirror_free)).div_euclid(mirrors);
        by_formula.min(bytes(self.writable))
    }
}

/// The disks of a group and their partners.
#[derive(Debug)]
pub struct Placement {
    redundancy: Redundancy,
    /// Ascending by number; `group` is an index into the failure groups.
    disks: Vec<Place>,
    groups: usize,
    /// Indices of disks, in the order of first mirrors.
    schedule: Vec<usize>,
}

#[derive(Debug)]
struct Place {
    number: DiskNumber,
    group: usize,
    units: u32,
    state: DiskState,
    /// Indices of disks, ascending.
    partners: Vec<usize>,
}

impl Place {
    fn serves(&self) -> bool {
        self.state != DiskState::Offline
    }
}

/// A disk that could take a mirror.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    disk: usize,
    group: usize,
    class: Class,
    units: u32,
    used: u32,
    turn: u64,
}

/// The properties of a candidate that decide how much fits afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    /// In a failure group that serves.
    serving: bool,
    online: bool,
    tight: bool,
    /// Its failure group has free AUs on ONLINE and on SYNCING disks.
    mixed: bool,
}

/// The free AUs, and the bound that follows.
struct Room {
    /// Mirrors on failure groups that serve; the others go to the other groups.
    serving: usize,
    mirrors: usize,
    /// For each failure group: whether it serves, and the free AUs on disks that can take a mirror.
    groups: Vec<(bool, u64)>,
    /// The free AUs of each failure group on ONLINE disks.
    online_of: Vec<u64>,
    /// Free AUs on ONLINE disks.
    online: u64,
    /// How many extents fit.
    extents: u64,
}

impl Placement {
    /// # Panics
    /// If two disks have one number.
    #[must_use]
    pub fn new(redundancy: Redundancy, disks: &[DataDisk]) -> Self {
        let mut names: BTreeMap<&str, usize> =
            disks.iter().map(|disk| (disk.failure_group.as_str(), 0)).collect();
        for (index, group) in names.values_mut().enumerate() {
            *group = index;
        }
        let mut places: Vec<Place> = disks
            .iter()
            .map(|disk| Place {
                number: disk.number,
                group: names[disk.failure_group.as_str()],
                units: disk.units,
                state: disk.state,
                partners: Vec::new(),
            })
            .collect();
        places.sort_by_key(|place| place.number);
        assert!(
            places.windows(2).all(|two| two[0].number < two[1].number),
            "two disks with one number"
        );
        let groups = names.len();
        for (place, partners) in partners(&places, groups).into_iter().enumerate() {
            places[place].partners = partners;
        }
        let schedule = schedule(&places, groups, redundancy.mirrors());
        Self { redundancy, disks: places, groups, schedule }
    }

    /// The placement of extents with this many mirrors, on a membership's data disks that stay.
    /// `space` knows their AUs.
    #[must_use]
    pub fn of(membership: &Membership, mirrors: usize, space: &Space) -> Self {
        let data = membership.disks.iter().filter(|disk| !disk.quorum && !disk.leaving);
        let disks: Vec<DataDisk> = data
            .map(|disk| DataDisk {
                number: disk.number,
                failure_group: disk.failure_group.clone(),
                units: space.total(disk.number),
                state: disk.state,
            })
            .collect();
        let redundancy = match mirrors {
            1 => Redundancy::External,
            2 => Redundancy::Normal,
            _ => Redundancy::High,
        };
        Self::new(redundancy, &disks)
    }

    /// Mirrors of an extent.
    #[must_use]
    pub fn mirrors(&self) -> usize {
        self.redundancy.mirrors()
    }

    /// The partners of a disk, ascending: always mutual, always in other failure groups.
    pub fn partners(&self, disk: DiskNumber) -> impl Iterator<Item = DiskNumber> + '_ {
        let place = self.disks.iter().find(|place| place.number == disk);
        place
            .into_iter()
            .flat_map(|place| place.partners.iter().map(|partner| self.disks[*partner].number))
    }

    /// Allocates the AUs of a new extent: number `extent` of the file with this seed. The first
    /// mirror is on a serving disk, those on OFFLINE disks come last.
    ///
    /// # Errors
    /// If no further extent fits.
    pub fn choose(
        &self,
        seed: u64,
        extent: u64,
        space: &mut Space,
    ) -> Result<Vec<Mirror>, NoSpace> {
        let room = self.room(&|disk| space.free(disk));
        if room.extents == 0 {
            return Err(NoSpace);
        }
        let turn = mix(seed).wrapping_add(extent);
        let candidates: Vec<Candidate> = (0..self.disks.len())
            .filter_map(|disk| room.candidate(self, space, disk, turn))
            .collect();
        let firsts = self.firsts(&candidates, turn);
        let mut others: Vec<&Candidate> = candidates.iter().collect();
        others.sort_by(|a, b| a.emptier(b));
        let chosen = [true, false].into_iter().find_map(|partners_only| {
            firsts.iter().find_map(|first| {
                let partners = &self.disks[first.disk].partners;
                let partners_only = partners_only && !planted::has(Bug::MirrorsShareGroup);
                let allowed = |other: &&&Candidate| {
                    !partners_only || partners.binary_search(&other.disk).is_ok()
                };
                let others: Vec<&Candidate> = others.iter().filter(allowed).copied().collect();
                let mut set = vec![*first];
                room.complete(&mut set, &others).then_some(set)
            })
        });
        let mut set = chosen.expect("invariant 2: a set of disks exists as long as an extent fits");
        set[1..].sort_by_key(|candidate| !candidate.class.serving);
        let take = |candidate: &Candidate| {
            let disk = self.disks[candidate.disk].number;
            Mirror { disk, au: space.allocate_on(disk).expect("it was free a moment ago") }
        };
        Ok(set.into_iter().map(take).collect())
    }

    /// The disks for the first mirror, best first: in the order of the schedule from this entry on,
    /// each once.
    fn firsts<'c>(&self, candidates: &'c [Candidate], turn: u64) -> Vec<&'c Candidate> {
        let find =
            |disk: usize| candidates.binary_search_by_key(&disk, |candidate| candidate.disk).ok();
        let places = self.schedule.len().max(1);
        let start = usize::try_from(turn % places as u64).expect("an index");
        let mut seen = vec![false; self.disks.len()];
        let mut firsts = Vec::new();
        for step in 0..self.schedule.len() {
            let disk = self.schedule[(start + step) % places];
            if !std::mem::replace(&mut seen[disk], true)
                && let Some(index) = find(disk)
            {
                firsts.push(&candidates[index]);
            }
        }
        // Every other extent skips a disk that is clearly fuller than the emptiest of its kind.
        if let Some(first) = firsts.first().copied()
            && mix(turn) & 1 == 0
        {
            let alike =
                |other: &(usize, &&Candidate)| self.mirrors() == 1 || other.1.group == first.group;
            let emptiest = firsts.iter().enumerate().filter(alike).min_by(|a, b| a.1.emptier(b.1));
            if let Some((index, emptiest)) = emptiest
                && first.clearly_fuller(emptiest)
            {
                firsts.swap(0, index);
            }
        }
        firsts
    }

    /// The disk for one more mirror of an extent whose mirrors are on disks `mirrors`, among those
    /// that `is_apart` from them: ONLINE, the one with most of these among its partners, and of
    /// several the emptiest. `None`: none has room.
    #[must_use]
    pub fn next_to(
        &self,
        mirrors: &[DiskNumber],
        is_apart: impl Fn(DiskNumber) -> bool,
        space: &Space,
    ) -> Option<DiskNumber> {
        let partnered = |place: &Place| {
            place
                .partners
                .iter()
                .filter(|partner| mirrors.contains(&self.disks[**partner].number))
                .count()
        };
        let used = |place: &Place| {
            (u64::from(place.units - space.free(place.number).min(place.units)) << 32)
                / u64::from(place.units.max(1))
        };
        let open = self.disks.iter().filter(|place| {
            place.state == DiskState::Online
                && space.free(place.number) > 0
                && is_apart(place.number)
        });
        open.min_by_key(|place| (std::cmp::Reverse(partnered(place)), used(place)))
            .map(|place| place.number)
    }

    /// How many more extents can be allocated, exactly.
    #[must_use]
    pub fn allocatable(&self, space: &Space) -> u64 {
        self.room(&|disk| space.available(disk)).extents
    }

    /// How many extents could be allocated if all disks were empty.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        let units = |number: DiskNumber| {
            self.disks.iter().find(|disk| disk.number == number).map_or(0, |disk| disk.units)
        };
        self.room(&units).extents
    }

    /// The numbers that operators know from ASM.
    #[must_use]
    pub fn usable(&self, space: &Space) -> Usable {
        let mirrors = self.mirrors();
        let mut sizes = vec![0; self.groups];
        let (mut total, mut free) = (0, 0);
        for disk in &self.disks {
            sizes[disk.group] += u64::from(disk.units);
            let given_up = space.capacity(disk.number) - space.total(disk.number);
            total += u64::from(disk.units + given_up);
            free += u64::from(space.available(disk.number));
        }
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let healable = (mirrors - 1).min(self.groups.saturating_sub(mirrors));
        let required_mirror_free = sizes.iter().take(healable).sum();
        Usable {
            total,
            free,
            required_mirror_free,
            writable: self.allocatable(space),
            mirrors: mirrors as u64,
        }
    }

    /// The bound, with `free` AUs on each disk.
    fn room(&self, free: &dyn Fn(DiskNumber) -> u32) -> Room {
        let mirrors = self.mirrors();
        let mut groups = vec![(false, 0); self.groups];
        for disk in self.disks.iter().filter(|disk| disk.serves()) {
            groups[disk.group].0 = true;
        }
        let serving = groups.iter().filter(|group| group.0).count().min(mirrors);
        let mut online_of = vec![0; self.groups];
        for disk in &self.disks {
            let free = u64::from(free(disk.number));
            if groups[disk.group].0 == disk.serves() {
                groups[disk.group].1 += free;
            }
            if disk.state == DiskState::Online {
                online_of[disk.group] += free;
            }
        }
        let online = online_of.iter().sum();
        let mut room = Room { serving, mirrors, groups, online_of, online, extents: 0 };
        // As K grows, the answer whether K extents fit changes once, from yes to no.
        let (mut fit, mut too_many) = (0, online + 1);
        while too_many - fit > 1 {
            let middle = fit + (too_many - fit) / 2;
            if room.slack(true, middle).is_some() && room.slack(false, middle).is_some() {
                fit = middle;
            } else {
                too_many = middle;
            }
        }
        room.extents = fit;
        room
    }
}

impl Room {
    /// Mirrors of each extent on this kind of failure groups.
    fn wanted(&self, serving: bool) -> usize {
        if serving { self.serving } else { self.mirrors - self.serving }
    }

    /// The AUs of this kind of failure groups beyond those that `extents` need.
    fn slack(&self, serving: bool, extents: u64) -> Option<u64> {
        let have: u64 = self
            .groups
            .iter()
            .filter(|group| group.0 == serving)
            .map(|group| group.1.min(extents))
            .sum();
        have.checked_sub(extents * self.wanted(serving) as u64)
    }

    fn candidate(
        &self,
        placement: &Placement,
        space: &Space,
        disk: usize,
        turn: u64,
    ) -> Option<Candidate> {
        let place = &placement.disks[disk];
        let (serving, free) = self.groups[place.group];
        let free_here = space.free(place.number);
        if free_here == 0 || serving != place.serves() || self.wanted(serving) == 0 {
            return None;
        }
        let class = Class {
            serving,
            online: place.state == DiskState::Online,
            tight: free >= self.extents,
            mixed: (1..free).contains(&self.online_of[place.group]),
        };
        let turn = mix(turn ^ u64::from(place.number.0) << 32);
        let used = place.units.saturating_sub(free_here);
        Some(Candidate { disk, group: place.group, class, units: place.units.max(1), used, turn })
    }

    /// Completes a set of disks from `others`, best first, so that all other extents still fit.
    /// Depth first; since the disks of a class are alike, only the best of each is tried.
    fn complete<'c>(&self, set: &mut Vec<&'c Candidate>, others: &[&'c Candidate]) -> bool {
        if set.len() == self.mirrors {
            return self.leaves_the_rest(set);
        }
        let mut tried = Vec::new();
        for candidate in others {
            let kind =
                set.iter().filter(|member| member.class.serving == candidate.class.serving).count();
            let fits = kind < self.wanted(candidate.class.serving)
                && set.iter().all(|member| {
                    member.group != candidate.group
                        || (planted::has(Bug::MirrorsShareGroup) && member.disk != candidate.disk)
                })
                && !tried.contains(&candidate.class);
            if !fits {
                continue;
            }
            tried.push(candidate.class);
            set.push(candidate);
            if self.complete(set, others) {
                return true;
            }
            set.pop();
        }
        false
    }

    /// Whether one extent less fits after this one: see "How much fits".
    fn leaves_the_rest(&self, set: &[&Candidate]) -> bool {
        let online = set.iter().filter(|member| member.class.online).count() as u64;
        online >= 1
            && online <= 1 + (self.online - self.extents)
            && [true, false].into_iter().all(|serving| {
                let tight = self
                    .groups
                    .iter()
                    .filter(|group| group.0 == serving && group.1 >= self.extents)
                    .count();
                let chosen = set
                    .iter()
                    .filter(|member| member.class.serving == serving && member.class.tight)
                    .count();
                self.slack(serving, self.extents)
                    .is_some_and(|slack| (tight - chosen) as u64 <= slack)
            })
    }
}

impl Candidate {
    /// Orders by percent used, then in turn.
    fn emptier(&self, other: &Self) -> Ordering {
        let here = u64::from(self.used) * u64::from(other.units);
        let there = u64::from(other.used) * u64::from(self.units);
        (here, self.turn, self.disk).cmp(&(there, other.turn, other.disk))
    }

    fn clearly_fuller(&self, other: &Self) -> bool {
        let units = u64::from(self.units) * u64::from(other.units);
        let here = u64::from(self.used) * u64::from(other.units);
        here > u64::from(other.used) * u64::from(self.units) + units / FULLER
    }
}

/// The partners of each disk. If no disk has more than [`PARTNERS_MAX`] disks outside its failure
/// group, these are its partners. Otherwise in rounds: each disk in turn gets one more partner, in
/// the failure group where it has the fewest for that group's size, and there the disk that has the
/// fewest for its size. At the end a disk that has none in as many failure groups as it could gets
/// them beyond the limit: a failure group of one disk mirrors with all others.
fn partners(disks: &[Place], groups: usize) -> Vec<Vec<usize>> {
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); disks.len()];
    let mut members = vec![0; groups];
    let mut size = vec![0; groups];
    for disk in disks {
        members[disk.group] += 1;
        size[disk.group] += u64::from(disk.units.max(1));
    }
    let outside = |disk: &Place| disks.len() - members[disk.group];
    if disks.iter().all(|disk| outside(disk) <= PARTNERS_MAX) {
        for (index, partners) in of.iter_mut().enumerate() {
            partners
                .extend((0..disks.len()).filter(|other| disks[*other].group != disks[index].group));
        }
        return of;
    }
    // How many partners each disk has in each failure group.
    let mut reach = vec![vec![0_u64; groups]; disks.len()];
    let best = |of: &[Vec<usize>],
                reach: &[Vec<u64>],
                index: usize,
                limit: usize,
                new_groups_only: bool| {
        let disk = &disks[index];
        let free = |other: &usize| {
            let there = &disks[*other];
            there.group != disk.group
                && of[*other].len() < limit
                && !of[index].contains(other)
                && !(new_groups_only && reach[index][there.group] > 0)
        };
        // Compared as fractions, scaled to integers; the last component spreads equal ones.
        let rank = |other: &usize| {
            let there = &disks[*other];
            let by_group = (reach[index][there.group] << 40) / size[there.group];
            let by_disk = ((of[*other].len() as u64) << 40) / u64::from(there.units.max(1));
            (by_group, by_disk, mix((index.min(*other) as u64) << 32 | index.max(*other) as u64))
        };
        (0..disks.len()).filter(free).min_by_key(rank)
    };
    let join = |of: &mut Vec<Vec<usize>>, reach: &mut Vec<Vec<u64>>, a: usize, b: usize| {
        of[a].push(b);
        of[b].push(a);
        reach[a][disks[b].group] += 1;
        reach[b][disks[a].group] += 1;
    };
    for round in 1..=PARTNERS_MAX {
        // Each round begins at another disk, since the last ones have the least choice; and first
        // pairs disks that still lack a partner.
        for step in 0..disks.len() {
            let index = (step + round * disks.len() / PARTNERS_MAX) % disks.len();
            if of[index].len() >= round {
                continue;
            }
            let limits = [round, PARTNERS_MAX];
            if let Some(other) =
                limits.into_iter().find_map(|limit| best(&of, &reach, index, limit, false))
            {
                join(&mut of, &mut reach, index, other);
            }
        }
    }
    for index in 0..disks.len() {
        while reach[index].iter().filter(|reached| **reached > 0).count() < 2.min(groups - 1) {
            let Some(other) = best(&of, &reach, index, usize::MAX, true) else { break };
            join(&mut of, &mut reach, index, other);
        }
    }
    of.iter_mut().for_each(|partners| partners.sort_unstable());
    of
}

/// The order of first mirrors over the serving disks: each in proportion to its size, evenly
/// spread.
fn schedule(disks: &[Place], groups: usize, mirrors: usize) -> Vec<usize> {
    // Round the failure groups, so that neighbours are in different ones.
    let mut by_group: Vec<Vec<usize>> = vec![Vec::new(); groups];
    for (index, disk) in
        disks.iter().enumerate().filter(|(_, disk)| disk.serves() && disk.units > 0)
    {
        by_group[disk.group].push(index);
    }
    let mut order = Vec::new();
    for rank in 0..by_group.iter().map(Vec::len).max().unwrap_or(0) {
        order.extend(by_group.iter().filter_map(|group| group.get(rank)));
    }
    // A failure group's share is at most 1/mirrors: larger ones are cut, largest first.
    let mut shares: Vec<u64> = by_group
        .iter()
        .map(|group| group.iter().map(|disk| u64::from(disks[*disk].units)).sum())
        .collect();
    let sizes = shares.clone();
    let mut largest: Vec<usize> = (0..groups).collect();
    largest.sort_by_key(|group| std::cmp::Reverse(sizes[*group]));
    for (cut, group) in largest.iter().enumerate().take(mirrors - 1) {
        let rest: u64 = largest[cut + 1..].iter().map(|other| sizes[*other]).sum();
        let left = (mirrors - cut - 1) as u64;
        if rest > 0 && shares[*group] * left > rest {
            shares[*group] = rest / left;
        } else {
            break;
        }
    }
    // Two cut in HIGH: the largest is cut to the real share of the others.
    if let [first, second, others @ ..] = largest.as_slice()
        && mirrors == 3
    {
        let rest: u64 = shares[*second] + others.iter().map(|other| shares[*other]).sum::<u64>();
        shares[*first] = shares[*first].min((rest / 2).max(1));
    }
    let weight = |disk: usize| {
        let group = disks[disk].group;
        u128::from(disks[disk].units) * u128::from(shares[group]) / u128::from(sizes[group].max(1))
    };
    let greatest = order.iter().map(|disk| weight(*disk)).max().unwrap_or(0).max(1);
    let count = |disk: &usize| (weight(*disk) * u128::from(PLACES_MAX)).div_ceil(greatest).max(1);
    let places: Vec<u64> =
        order.iter().map(|disk| u64::try_from(count(disk)).expect("PLACES_MAX at most")).collect();
    let divisor = places.iter().copied().fold(0, gcd).max(1);
    // Entry k of p is at (k + its rank's offset) / p of the round.
    let mut round: Vec<(u64, u64, usize)> = Vec::new();
    for (rank, disk) in order.iter().enumerate() {
        let count = places[rank] / divisor;
        let steps = order.len() as u64;
        round.extend((0..count).map(|k| ((k * steps + rank as u64), count * steps, *disk)));
    }
    round.sort_by(|a, b| {
        (u128::from(a.0) * u128::from(b.1), a.2).cmp(&(u128::from(b.0) * u128::from(a.1), b.2))
    });
    round.into_iter().map(|(_, _, disk)| disk).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Spreads neighbouring numbers over all of `u64` (splitmix64's finalizer).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
