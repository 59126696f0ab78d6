//! The mount decision: from what the disks in sight say of themselves to one membership and a verdict on each disk; and who votes.
//!
//! Pure: whoever mounts reads the disks, asks here, and carries it out. The steps, in order; the first that fails
//! refuses the mount:
//!
//! ```text
//!   step  question                                                            refusal
//!   1     is any member in sight, and of one group only?                      NoDisks, TwoGroups
//!   2     two devices with one disk id: one device reached by two paths        (neither is used: the disk counts as absent,
//!         counts once, two devices not at all                                  with a warning that names the paths)
//!   3     which membership has the highest generation in sight?               NoMembership
//!   4     several ids there: does exactly one stand alone?                     TwoHistories
//!   5     does a disk off the winner's line carry one that stands alone?       TwoHistories (FORCE: the winner goes on)
//!   6     are more than half of the winner's voters witnesses?                NoQuorum (FORCE: one current disk is enough)
//!   7     is any ONLINE disk current, and every AU of the catalog on one?      NothingCurrent, CatalogMissing
//! ```
//!
//! The *line* of a membership is itself and its ancestors. A membership *stands alone* if the disks in sight whose
//! newest it is are more than half of the voters it names. A *witness* is a voter in sight whose newest membership is on
//! the winner's line and whose content is no old image: one that could have seen a newer membership, had there been one.
//!
//! What is said of each disk of the winning membership; the first row that fits:
//!
//! ```text
//!   standing        when                                                               what the mount does
//!   Absent          not in sight                                                       offline, if it was not
//!   Duplicate       two devices carry its id                                           offline, if it was not
//!   CopyWhole       the membership says so                                             copy whole
//!   LosingBranch    its newest membership, or the one its newest stamp names, is off   copy whole
//!                   the winner's line
//!   OldImage        more than one stamp behind: an ONLINE or SYNCING disk the newest,  copy whole
//!                   an OFFLINE disk the stamp at which it went offline
//!   Stale           OFFLINE or SYNCING in the membership                               copy its stale regions
//!   Current         otherwise                                                          use it
//! ```
//!
//! So a disk that returns is stamped before it is recorded as SYNCING, and SYNCING disks are stamped with the ONLINE ones.
//!
//! # Why no acknowledged membership is ever missed (R3)
//!
//! Say a membership is *in force* once at least half of its parent's voters hold it; only then is anything acknowledged under it.
//! What recording must keep to (a test below searches histories for a mount that misses one, and finds it as soon as
//! one of the first three is broken):
//!
//!   1. Two consecutive memberships differ by one voter at most: one joins or one leaves ([`voter_steps`]). Otherwise a majority of
//!      the new voters and one of the old need not overlap, and a record that was begun but never came in force would split the group.
//!   2. The next membership is begun only when this one is in force. If it cannot be brought in force, writes wait.
//!   3. The first successor that a mount records changes no vote, and counts as in force only when *more* than half of the
//!      winner's voters hold it ([`may_mount`]). What an earlier engine began and never brought in force may lie on a disk out of
//!      sight; with an even number of voters, half of them or one vote less would let that one mount beside ours.
//!      FORCE waives it: the operator answers for what is out of sight.
//!   4. A disk that votes keeps its membership slots readable; one whose slots are unreadable is no witness.
//!
//! Then: a mount that picks M has witnesses from more than half of M's voters. If a child of M is in force, at least half of M's voters
//! hold it or something newer; so one witness does, and M was not the newest in sight. And a sibling of M's line that was begun
//! finds no majority that the first record after it did not reach.

use crate::world::Identity;
use plinth_format::{
    DiskId, DiskNumber, GroupId, MembershipId, Redundancy,
    header::{DiskHeader, Status},
    membership::{ANCESTORS_MAX, CatalogFile, DiskState, MemberDisk, Membership},
    stamp::Stamp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// What one device says of itself.
#[derive(Debug, Clone)]
pub struct Sighting {
    pub path: String,
    pub identity: Identity,
    /// The best of the three copies.
    pub header: DiskHeader,
    /// The valid ones of the two slots, in any order.
    pub stamps: Vec<Stamp>,
    /// The valid ones of the two slots, in any order.
    pub memberships: Vec<Membership>,
}

/// How a mount goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub group: GroupId,
    pub membership: Membership,
    /// The newest stamp that counts: the next to write is one higher.
    pub stamp: u64,
    /// In the order of `membership.disks`.
    pub disks: Vec<Verdict>,
    /// Sightings (by index) of the group's disks that the membership does not name: dropped, or of another history.
    pub strangers: Vec<usize>,
    /// Witnesses that do not hold the winning membership itself: it, or the first successor, is to be written to them too.
    pub complete_on: Vec<DiskNumber>,
    /// Sentences for the alert log.
    pub warnings: Vec<String>,
}

/// What is said of one disk of the membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    pub number: DiskNumber,
    pub standing: Standing,
    /// Index of the sighting to use; `None` for absent disks and duplicates.
    pub sighting: Option<usize>,
}

/// See the table at the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Absent,
    Duplicate,
    CopyWhole,
    LosingBranch,
    OldImage,
    Stale,
    Current,
}

impl Standing {
    /// Nothing on the disk counts: when it is used again, all of it is copied to it.
    #[must_use]
    pub fn copy_whole(self) -> bool {
        matches!(self, Self::CopyWhole | Self::LosingBranch | Self::OldImage)
    }
}

/// A voter that a mount misses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub name: String,
    pub failure_group: String,
    /// Where it was seen, and why it does not count.
    pub why: String,
}

/// One of two histories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    pub id: MembershipId,
    pub generation: u64,
    /// The disks whose newest membership it is.
    pub paths: Vec<String>,
    /// How many of its voters these are, and how many it has.
    pub holders: usize,
    pub voters: usize,
}

/// Why a group is not mounted. `Display` says what and which; [`Refusal::remedy`] what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("disk group {group}: no member disk is in sight")]
    NoDisks { group: String },
    #[error("disk group {group}: two groups have this name: {}", Groups(.groups))]
    TwoGroups { group: String, groups: Vec<(GroupId, Vec<String>)> },
    #[error("disk group {group}: none of the disks in sight holds a readable membership ({})", .paths.join(", "))]
    NoMembership { group: String, paths: Vec<String>, duplicates: Vec<Vec<String>> },
    #[error("disk group {group} has gone on in two histories: {}", Histories(.histories))]
    TwoHistories {
        group: String,
        histories: Vec<History>,
        /// FORCE goes on with the first and copies the disks of the others whole.
        force_helps: bool,
    },
    #[error("disk group {group}: {have} of {voters} voters can be counted on, {need} are needed; missing: {}", List(.missing))]
    NoQuorum {
        group: String,
        have: usize,
        need: usize,
        voters: usize,
        missing: Vec<Missing>,
        duplicates: Vec<Vec<String>>,
        force_helps: bool,
    },
    #[error("disk group {group}: no ONLINE disk in sight is current; missing: {}", List(.missing))]
    NothingCurrent { group: String, missing: Vec<Missing>, duplicates: Vec<Vec<String>> },
    #[error("disk group {group}: no current disk in sight holds AU {at} of the catalog; missing: {}", List(.missing))]
    CatalogMissing { group: String, at: u32, missing: Vec<Missing>, duplicates: Vec<Vec<String>> },
}

impl Refusal {
    /// What the operator can do.
    #[must_use]
    pub fn remedy(&self) -> String {
        let force = |group: &str| format!("ALTER DISKGROUP {group} MOUNT FORCE");
        let attach = |missing: &[Missing], duplicates: &[Vec<String>]| {
            let names: Vec<&str> = missing.iter().map(|missing| missing.name.as_str()).collect();
            let mut text = if names.is_empty() {
                "attach the missing disks".to_owned()
            } else {
                format!("attach disk {} and mount again", names.join(", "))
            };
            for paths in duplicates {
                text += &format!("; {} are copies of one disk: remove all but the true one", paths.join(" and "));
            }
            text
        };
        match self {
            Self::NoDisks { group } => {
                format!("attach the disks of {group}, or correct ASM_DISKSTRING so that it matches them")
            }
            Self::TwoGroups { .. } => {
                "narrow ASM_DISKSTRING to the disks of the group that is meant, or detach those of the other".to_owned()
            }
            Self::NoMembership { duplicates, .. } => {
                attach(&[], duplicates) + "; the disks in sight never voted or their membership slots are damaged"
            }
            Self::TwoHistories { group, histories, force_helps } => {
                let mut text = "detach the disks of the history to give up and mount again; when they return they are \
                                copied whole from the other, and what was written only there is lost"
                    .to_owned();
                if *force_helps && let Some(first) = histories.first() {
                    text += &format!(
                        "; {} goes on with generation {} and gives up the rest",
                        force(group),
                        first.generation
                    );
                }
                text
            }
            Self::NoQuorum { group, missing, duplicates, force_helps, .. } => {
                let mut text = attach(missing, duplicates);
                if *force_helps {
                    text += &format!(
                        "; if they are lost for good, {}: what only they had is then lost, and they are copied whole when they return",
                        force(group)
                    );
                } else {
                    text += "; FORCE does not help, as no disk in sight is current";
                }
                text
            }
            Self::NothingCurrent { missing, duplicates, .. } | Self::CatalogMissing { missing, duplicates, .. } => {
                attach(missing, duplicates) + "; FORCE does not help, as nothing in sight can be read from"
            }
        }
    }
}

/// Decides how, and whether, the group that all `sightings` belong to is mounted.
///
/// `sightings` are the devices in sight whose headers name the group `group`.
///
/// # Errors
/// The refusal of the first step that fails.
pub fn choose(group: &str, sightings: &[Sighting], force: bool) -> Result<Decision, Refusal> {
    // Step 1.
    let mut groups: BTreeMap<GroupId, Vec<String>> = BTreeMap::new();
    for sighting in sightings.iter().filter(|sighting| is_member(sighting, group)) {
        groups.entry(sighting.header.group).or_default().push(sighting.path.clone());
    }
    let Some(id) = groups.keys().next().copied() else {
        return Err(Refusal::NoDisks { group: group.to_owned() });
    };
    if groups.len() > 1 {
        return Err(Refusal::TwoGroups { group: group.to_owned(), groups: groups.into_iter().collect() });
    }
    let sight = Sight::new(group, sightings);

    // Steps 3 and 4.
    let winner = sight.winner()?;
    // Step 5.
    let line = Line::new(winner);
    let mut histories: Vec<History> = Vec::new();
    for (index, newest) in sight.newest() {
        let known = histories.iter().any(|history| history.id == newest.id);
        let given_up = winner.disks.iter().any(|disk| disk.id == sightings[index].header.disk && disk.copy_whole);
        if !known && !given_up && !line.has(newest.id) && sight.stands_alone(newest) {
            histories.push(sight.history(newest));
        }
    }
    let mut warnings = sight.warnings.clone();
    if !histories.is_empty() {
        histories.sort_by_key(|history| std::cmp::Reverse((history.generation, history.id)));
        histories.insert(0, sight.history(winner));
        if !force {
            return Err(Refusal::TwoHistories { group: group.to_owned(), histories, force_helps: true });
        }
        warnings.push(format!("MOUNT FORCE gives up a history: {}", Histories(&histories)));
    }

    // The verdicts.
    let stamp = sight.newest_stamp(winner, &line);
    let disks: Vec<Verdict> = winner.disks.iter().map(|disk| sight.verdict(disk, &line, stamp)).collect();
    for (disk, verdict) in winner.disks.iter().zip(&disks) {
        warnings.extend(sight.warning(disk, *verdict));
    }

    // Step 6.
    let voters = winner.voters().count();
    let mut witnesses = BTreeSet::new();
    let mut missing = Vec::new();
    for (disk, verdict) in winner.disks.iter().zip(&disks) {
        match sight.testimony(*verdict) {
            Ok(()) if disk.votes => _ = witnesses.insert(disk.number),
            Err(why) if disk.votes => {
                missing.push(Missing { name: disk.name.clone(), failure_group: disk.failure_group.clone(), why });
            }
            _ => (),
        }
    }
    let usable = |(disk, verdict): &(&MemberDisk, &Verdict)| {
        disk.state == DiskState::Online && verdict.standing == Standing::Current && !disk.quorum
    };
    let current: BTreeSet<DiskNumber> =
        winner.disks.iter().zip(&disks).filter(usable).map(|(disk, _)| disk.number).collect();
    if !may_mount(voters, witnesses.len()) {
        if !force {
            return Err(Refusal::NoQuorum {
                group: group.to_owned(),
                have: witnesses.len(),
                need: voters / 2 + 1,
                voters,
                missing,
                duplicates: sight.duplicates(),
                force_helps: !current.is_empty() && catalog_hole(winner, &current).is_none(),
            });
        }
        warnings.push(format!("MOUNT FORCE with {} of {voters} voters; missing: {}", witnesses.len(), List(&missing)));
    }

    // Step 7.
    let out_of_reach = || {
        let lost = winner.disks.iter().zip(&disks).filter(|(disk, _)| disk.state == DiskState::Online && !disk.quorum);
        lost.filter_map(|(disk, verdict)| {
            let why = match verdict.standing {
                Standing::Current => return None,
                _ => sight.why(*verdict),
            };
            Some(Missing { name: disk.name.clone(), failure_group: disk.failure_group.clone(), why })
        })
        .collect()
    };
    if current.is_empty() {
        return Err(Refusal::NothingCurrent {
            group: group.to_owned(),
            missing: out_of_reach(),
            duplicates: sight.duplicates(),
        });
    }
    if let Some(at) = catalog_hole(winner, &current) {
        return Err(Refusal::CatalogMissing {
            group: group.to_owned(),
            at,
            missing: out_of_reach(),
            duplicates: sight.duplicates(),
        });
    }

    let holds = |verdict: &&Verdict| {
        let newest = verdict.sighting.and_then(|index| newest(&sightings[index]));
        newest.is_some_and(|newest| newest.id == winner.id)
    };
    let complete_on = disks
        .iter()
        .filter(|verdict| witnesses.contains(&verdict.number) && !holds(verdict))
        .map(|v| v.number)
        .collect();
    let named: BTreeSet<DiskId> = winner.disks.iter().map(|disk| disk.id).collect();
    let strangers = (0..sightings.len())
        .filter(|index| is_member(&sightings[*index], group) && !named.contains(&sightings[*index].header.disk))
        .collect();
    Ok(Decision { group: id, membership: winner.clone(), stamp, disks, strangers, complete_on, warnings })
}

fn is_member(sighting: &Sighting, group: &str) -> bool {
    sighting.header.group_name == group && sighting.header.status == Status::Member
}

/// A disk's newest membership.
fn newest(sighting: &Sighting) -> Option<&Membership> {
    sighting.memberships.iter().max_by_key(|membership| (membership.generation, membership.id))
}

/// The first AU of one of the catalog's files that no current disk holds.
fn catalog_hole(winner: &Membership, current: &BTreeSet<DiskNumber>) -> Option<u32> {
    [CatalogFile::Database, CatalogFile::Wal].into_iter().find_map(|file| {
        let runs = || winner.catalog.iter().filter(move |run| run.file == file);
        let mut held: Vec<_> =
            runs().filter(|run| current.contains(&run.disk)).map(|run| (run.at, run.count)).collect();
        held.sort_unstable();
        let covered =
            |at: u32| held.iter().fold(at, |at, (from, count)| if *from <= at { at.max(from + count) } else { at });
        runs().find_map(|run| {
            let reached = covered(run.at);
            (reached < run.at + run.count).then_some(reached)
        })
    })
}

/// A membership and its ancestors.
struct Line<'a> {
    head: &'a Membership,
    ids: BTreeSet<MembershipId>,
}

impl<'a> Line<'a> {
    fn new(head: &'a Membership) -> Self {
        Self { head, ids: head.ancestors.iter().copied().chain([head.id]).collect() }
    }

    fn has(&self, id: MembershipId) -> bool {
        self.ids.contains(&id)
    }

    /// Whether an ancestor of this generation would not be listed any more.
    fn is_beyond(&self, generation: u64) -> bool {
        let oldest = self.head.generation.saturating_sub(self.head.ancestors.len() as u64);
        generation < oldest && self.head.ancestors.len() >= ANCESTORS_MAX
    }
}

/// The devices in sight, sorted by disk: step 2.
struct Sight<'a> {
    group: &'a str,
    sightings: &'a [Sighting],
    /// The sighting to use of each disk; `None` where two devices carry its id.
    disks: BTreeMap<DiskId, Option<usize>>,
    warnings: Vec<String>,
}

impl<'a> Sight<'a> {
    fn new(group: &'a str, sightings: &'a [Sighting]) -> Self {
        let mut by_disk: BTreeMap<DiskId, Vec<usize>> = BTreeMap::new();
        for (index, sighting) in sightings.iter().enumerate().filter(|(_, sighting)| is_member(sighting, group)) {
            by_disk.entry(sighting.header.disk).or_default().push(index);
        }
        let mut warnings = Vec::new();
        let mut disks = BTreeMap::new();
        for (disk, indices) in by_disk {
            let first = &sightings[indices[0]];
            let one_device = indices.iter().all(|index| sightings[*index].identity == first.identity);
            if !one_device {
                let paths: Vec<&str> = indices.iter().map(|index| sightings[*index].path.as_str()).collect();
                warnings.push(format!(
                    "disk {} is on two devices, {}; neither is used until all but one are removed",
                    first.header.name,
                    paths.join(" and ")
                ));
            }
            disks.insert(disk, one_device.then_some(indices[0]));
        }
        Self { group, sightings, disks, warnings }
    }

    /// The newest membership of each usable disk that has one.
    fn newest(&self) -> impl Iterator<Item = (usize, &'a Membership)> + '_ {
        self.disks.values().flatten().filter_map(|index| Some((*index, newest(&self.sightings[*index])?)))
    }

    /// The paths of the devices that carry each id that is on several.
    fn duplicates(&self) -> Vec<Vec<String>> {
        let on_two = self.disks.iter().filter(|(_, index)| index.is_none()).map(|(disk, _)| *disk);
        on_two.map(|disk| self.paths_of(disk)).collect()
    }

    fn paths_of(&self, disk: DiskId) -> Vec<String> {
        let same = |sighting: &&Sighting| is_member(sighting, self.group) && sighting.header.disk == disk;
        self.sightings.iter().filter(same).map(|sighting| sighting.path.clone()).collect()
    }

    fn history(&self, membership: &Membership) -> History {
        let of_it = || self.newest().filter(|(_, newest)| newest.id == membership.id).map(|(index, _)| index);
        let votes = |index: &usize| membership.voters().any(|voter| voter.id == self.sightings[*index].header.disk);
        History {
            id: membership.id,
            generation: membership.generation,
            paths: of_it().map(|index| self.sightings[index].path.clone()).collect(),
            holders: of_it().filter(votes).count(),
            voters: membership.voters().count(),
        }
    }

    fn stands_alone(&self, membership: &Membership) -> bool {
        let history = self.history(membership);
        may_mount(history.voters, history.holders)
    }

    /// Steps 3 and 4: the membership to go on with.
    fn winner(&self) -> Result<&'a Membership, Refusal> {
        let Some(generation) = self.newest().map(|(_, newest)| newest.generation).max() else {
            let paths = self.disks.values().flatten().map(|index| self.sightings[*index].path.clone()).collect();
            return Err(Refusal::NoMembership { group: self.group.to_owned(), paths, duplicates: self.duplicates() });
        };
        let candidates: BTreeMap<MembershipId, &Membership> =
            self.newest().filter(|(_, newest)| newest.generation == generation).map(|(_, m)| (m.id, m)).collect();
        if candidates.len() == 1 {
            let winner = candidates.into_values().next().expect("there is one");
            return Ok(winner);
        }
        let alone: Vec<&Membership> = candidates.values().copied().filter(|m| self.stands_alone(m)).collect();
        match alone[..] {
            // The others never came in force: they are no history to be warned of.
            [winner] => Ok(winner),
            _ => Err(Refusal::TwoHistories {
                group: self.group.to_owned(),
                histories: candidates.values().map(|membership| self.history(membership)).collect(),
                force_helps: false,
            }),
        }
    }

    /// Whether a sighting's newest membership and stamp are on the line.
    fn on_line(&self, index: usize, line: &Line<'_>) -> bool {
        let membership = newest(&self.sightings[index])
            .is_none_or(|newest| line.has(newest.id) || line.is_beyond(newest.generation));
        membership && newest_stamp(&self.sightings[index]).is_none_or(|stamp| line.has(stamp.membership))
    }

    fn newest_stamp(&self, winner: &Membership, line: &Line<'_>) -> u64 {
        let counts = |disk: &&MemberDisk| !disk.copy_whole && disk.state != DiskState::Offline;
        let seen = winner.disks.iter().filter(counts).filter_map(|disk| {
            let index = self.disks.get(&disk.id).copied().flatten()?;
            self.on_line(index, line).then(|| newest_stamp(&self.sightings[index]))?
        });
        seen.map(|stamp| stamp.counter).max().unwrap_or(0).max(winner.stamp)
    }

    /// The table of standings.
    fn verdict(&self, disk: &MemberDisk, line: &Line<'_>, newest: u64) -> Verdict {
        let sighting = self.disks.get(&disk.id).copied();
        let counter = |index: usize| newest_stamp(&self.sightings[index]).map_or(0, |stamp| stamp.counter);
        let standing = match sighting {
            None => Standing::Absent,
            Some(None) => Standing::Duplicate,
            Some(Some(_)) if disk.copy_whole => Standing::CopyWhole,
            Some(Some(index)) => {
                let offline = disk.state == DiskState::Offline;
                let expected = if offline { disk.stamp } else { newest };
                if !self.on_line(index, line) {
                    Standing::LosingBranch
                } else if counter(index).saturating_add(1) < expected {
                    Standing::OldImage
                } else if disk.state == DiskState::Online {
                    Standing::Current
                } else {
                    Standing::Stale
                }
            }
        };
        Verdict { number: disk.number, standing, sighting: sighting.flatten() }
    }

    /// Whether a voter is a witness, or why not.
    fn testimony(&self, verdict: Verdict) -> Result<(), String> {
        match (verdict.standing, verdict.sighting) {
            (Standing::Current | Standing::Stale, Some(index)) => {
                let sighting = &self.sightings[index];
                match newest(sighting) {
                    Some(_) => Ok(()),
                    None => Err(format!("{} holds no readable membership", sighting.path)),
                }
            }
            _ => Err(self.why(verdict)),
        }
    }

    fn why(&self, verdict: Verdict) -> String {
        let path = verdict.sighting.map_or("", |index| self.sightings[index].path.as_str());
        match verdict.standing {
            Standing::Absent => "not in sight".to_owned(),
            Standing::Duplicate => "on two devices".to_owned(),
            Standing::CopyWhole => format!("{path} is to be copied whole"),
            Standing::LosingBranch => format!("{path} belongs to another history"),
            Standing::OldImage => format!("{path} is an old image"),
            Standing::Stale => format!("{path} is not up to date"),
            Standing::Current => format!("{path} is current"),
        }
    }

    /// What an operator should hear of a disk.
    fn warning(&self, disk: &MemberDisk, verdict: Verdict) -> Option<String> {
        let name = &disk.name;
        let fails = &disk.failure_group;
        let path = verdict.sighting.map_or("", |index| self.sightings[index].path.as_str());
        Some(match verdict.standing {
            Standing::Absent if disk.state != DiskState::Offline => {
                format!("disk {name} (failure group {fails}) is not in sight; attach it and bring it ONLINE")
            }
            Standing::LosingBranch => {
                format!("disk {name} ({path}) belongs to another history of the group; it is copied whole")
            }
            Standing::OldImage => format!("disk {name} ({path}) is an old image; it is copied whole"),
            _ => return None,
        })
    }
}

fn newest_stamp(sighting: &Sighting) -> Option<Stamp> {
    sighting.stamps.iter().copied().max_by_key(|stamp| stamp.counter)
}

/// Whether a membership that `holders` of the `previous` voters hold is in force (R3): at least half, and one. The first
/// that a mount records needs [`may_mount`] instead.
#[must_use]
pub fn may_record(previous: usize, holders: usize) -> bool {
    holders > 0 && holders * 2 >= previous
}

/// Whether `witnesses` of a membership's `voters` let it be mounted (R3): more than half.
#[must_use]
pub fn may_mount(voters: usize, witnesses: usize) -> bool {
    witnesses * 2 > voters
}

/// Voters at most.
pub const VOTERS_MAX: usize = 5;

/// Which disks should vote: one in each of up to five failure groups.
///
/// Only ONLINE disks vote. A failure group that votes goes on voting, with the disk that does; further ones
/// join in this order: quorum failure groups, then by name. Two failure groups have two voters: one of them lost, the other
/// goes on (at least half), and neither mounts without the other before that is recorded. An even number is not made odd: it
/// costs nothing, as at least half is enough to go on. In EXTERNAL redundancy the same holds.
#[must_use]
pub fn voters(disks: &[MemberDisk], _redundancy: Redundancy) -> BTreeSet<DiskNumber> {
    let mut groups: BTreeMap<&str, &MemberDisk> = BTreeMap::new();
    for disk in disks.iter().filter(|disk| disk.state == DiskState::Online && !disk.copy_whole) {
        let best = groups.entry(disk.failure_group.as_str()).or_insert(disk);
        if (!disk.votes, disk.number) < (!best.votes, best.number) {
            *best = disk;
        }
    }
    let mut chosen: Vec<_> = groups.into_iter().collect();
    chosen.sort_by_key(|(name, disk)| (!disk.votes, !disk.quorum, *name));
    chosen.into_iter().take(VOTERS_MAX).map(|(_, disk)| disk.number).collect()
}

/// The sets of voters to record one after the other to come from `now` to `wanted`: each differs from the one before it by
/// one voter, and is recorded only when the one before it is in force. `failed` ones leave first; then the new ones
/// join; then the healthy ones that are not wanted leave.
#[must_use]
pub fn voter_steps(
    now: &BTreeSet<DiskNumber>,
    wanted: &BTreeSet<DiskNumber>,
    failed: &BTreeSet<DiskNumber>,
) -> Vec<BTreeSet<DiskNumber>> {
    let mut set = now.clone();
    let mut steps = Vec::new();
    for gone in now.intersection(failed) {
        set.remove(gone);
        steps.push(set.clone());
    }
    for new in wanted.difference(now).filter(|new| !failed.contains(new)) {
        set.insert(*new);
        steps.push(set.clone());
    }
    for surplus in now.difference(wanted).filter(|surplus| !failed.contains(surplus)) {
        set.remove(surplus);
        steps.push(set.clone());
    }
    steps
}

/// The membership that follows `parent`, with `change` made to it.
///
/// # Panics
/// If `change` alters more than one vote ([`voter_steps`]), or leaves no voter.
#[must_use]
pub fn successor(parent: &Membership, id: MembershipId, change: impl FnOnce(&mut Membership)) -> Membership {
    let mut child = parent.clone();
    change(&mut child);
    child.generation = parent.generation + 1;
    child.id = id;
    child.ancestors = std::iter::once(parent.id).chain(parent.ancestors.iter().copied()).take(ANCESTORS_MAX).collect();
    let voters = |membership: &Membership| membership.voters().map(|disk| disk.id).collect::<BTreeSet<_>>();
    let changed = voters(parent).symmetric_difference(&voters(&child)).count();
    assert!(changed <= 1, "{changed} votes changed in one membership");
    assert!(child.voters().next().is_some(), "a membership without voters");
    child
}

struct List<'a>(&'a [Missing]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Missing { name, failure_group, why }) in self.0.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{name} (failure group {failure_group}: {why})")?;
        }
        if self.0.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

struct Histories<'a>(&'a [History]);

impl fmt::Display for Histories<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, history) in self.0.iter().enumerate() {
            let History { id, generation, paths, holders, voters } = history;
            let separator = if index > 0 { "; " } else { "" };
            let paths = paths.join(", ");
            write!(f, "{separator}generation {generation} (id {id}) on {paths}, {holders} of its {voters} voters")?;
        }
        Ok(())
    }
}

struct Groups<'a>(&'a [(GroupId, Vec<String>)]);

impl fmt::Display for Groups<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (id, paths)) in self.0.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(f, "{separator}{id} on {}", paths.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
