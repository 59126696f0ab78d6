//! The mount decision: from the records on the discovered disks to one membership and a verdict on
//! each disk; and which disks vote.
//!
//! Pure: the mount reads the disks, calls this, and acts on the result. The steps, in order; the
//! first that fails refuses the mount:
//!
//! ```text
//!   step  question                                               refusal
//!   1     is any member discovered, and of one group only?      NoDisks, TwoGroups
//!   2     two devices with one disk id: one device with two     (neither is used: the disk counts
//!         paths counts once, two devices not at all              as absent, and a warning names
//!                                                                 the paths)
//!   3     which discovered membership has the highest           NoMembership
//!         generation?
//!   4     several ids there: does exactly one stand alone?      TwoHistories
//!   5     does a disk outside the winner's lineage carry one    TwoHistories (FORCE: the winner
//!         that stands alone?                                     goes on)
//!   6     are more than half of the winner's voters             NoQuorum (FORCE: one current disk
//!         witnesses?                                             is enough)
//!   7     is any ONLINE disk current, and a whole mirror of     NothingCurrent, CatalogMissing
//!         each catalog file on such disks?                       (FORCE: disks whose stamps cannot
//!                                                                 be read count, if the others do
//!                                                                 not suffice)
//!   8     did the redundancy cover the disks that were ONLINE   OutOfReach (FORCE: the discovered
//!         and are not current, with those that were offline?     disks are mounted)
//! ```
//!
//! The *lineage* of a membership is itself and its ancestors. A membership *stands alone* if the
//! discovered disks whose newest it is are more than half of the voters that it names. A *witness*
//! is a discovered voter whose newest membership is on the winner's lineage and whose content is no
//! old image: it could have a newer membership, had there been one.
//!
//! The verdict on each disk of the winning membership, and the *case* of the mount, are tables of
//! facts: in docs/format.md, section 8, and in `mount_decision/cases.rs`.
//!
//! So a disk that returns is stamped before it is recorded as SYNCING, and SYNCING disks are
//! stamped with the ONLINE ones.
//!
//! # Why no acknowledged membership is ever missed (R3)
//!
//! A membership is *in force* once at least half of its parent's voters hold it; only then are
//! writes acknowledged under it. Recording must keep these rules (a test below searches histories
//! for a mount that misses a membership, and finds one as soon as one of the first three is
//! broken):
//!
//!   1. Two consecutive memberships differ by one voter at most: one joins or one leaves
//!      ([`voter_steps`]). Otherwise a majority of the new voters and one of the old need not
//!      overlap, and a record that was begun but never came in force would split the group.
//!   2. The next membership is begun only when this one is in force. If it cannot be brought in
//!      force, writes wait.
//!   3. The first successor that a mount records changes no vote, and counts as in force only when
//!      *more* than half of the winner's voters hold it ([`may_mount`]). A membership that an
//!      earlier engine began and never brought in force may be on a disk that is missing; with an
//!      even number of voters, half of them or one vote less would let that one mount beside ours.
//!      FORCE waives it: the operator answers for missing disks.
//!   4. A disk that votes keeps its membership slots readable; one whose slots are unreadable is no
//!      witness.
//!   5. Bytes in a slot that are no valid record are wiped, durably, before a record is written
//!      there. Two records that were begun in the same generation may differ in their first sectors
//!      only: a torn one must not be made whole by the next.
//!
//! Then: a mount that picks M has witnesses from more than half of M's voters. If a child of M is
//! in force, at least half of M's voters hold it or something newer; so one witness does, and M was
//! not the newest discovered. And a sibling on M's lineage that was begun finds no majority that
//! the first record after it did not reach.

mod cases;

pub use cases::{Case, DiskVerdict};

use crate::{
    disk::identify::ProbeResult,
    planted::{self, Bug},
};
use cases::{Current, Devices, DiskFacts, Facts, Groups as FoundGroups, Held, Newest, Stamped};
use plinth_format::{
    DiskId, DiskNumber, GroupId, MembershipId, Redundancy,
    header::Status,
    membership::{ANCESTORS_MAX, CatalogFile, DiskState, MemberDisk, Membership},
    stamp::Stamp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The result: how a mount goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// [`Case::Mount`] or [`Case::Forced`].
    pub case: Case,
    pub group: GroupId,
    pub membership: Membership,
    /// The newest stamp that counts: the next one to write is one higher.
    pub stamp: u64,
    /// Whether all disks that the mount uses hold it. A crash while it was being written left it on
    /// some, and a next one would leave the others two behind, as if they were old images: first
    /// all must hold this one.
    pub stamped: bool,
    /// In the order of `membership.disks`.
    pub disks: Vec<Verdict>,
    /// Probe results (by index) of the group's disks that the membership does not name: dropped, or
    /// of another history.
    pub strangers: Vec<usize>,
    /// Witnesses that do not hold the winning membership itself: it, or the first successor, must
    /// be written to them too.
    pub complete_on: Vec<DiskNumber>,
    /// For the alert log.
    pub warnings: Vec<Warning>,
}

/// A sentence for the alert log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The disk's name, if the sentence says that the disk is missing.
    pub missing: Option<String>,
    pub text: String,
}

impl From<String> for Warning {
    fn from(text: String) -> Self {
        Self { missing: None, text }
    }
}

/// The verdict on one disk of the membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    pub number: DiskNumber,
    pub verdict: DiskVerdict,
    /// Index of the probe result to use; `None` for absent disks and duplicates.
    pub probe_result: Option<usize>,
}

impl DiskVerdict {
    /// Nothing on the disk counts: when it is used again, all of it is copied to it.
    #[must_use]
    pub fn copy_whole(self) -> bool {
        matches!(self, Self::CopyWhole | Self::LosingBranch | Self::OldImage)
    }

    /// It is missing, or cannot be told from a copy of it: nothing counts against the disk.
    #[must_use]
    pub fn is_away(self) -> bool {
        matches!(self, Self::Absent | Self::Duplicate)
    }
}

/// A voter that a mount misses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub name: String,
    pub failure_group: String,
    /// Where it was found, and why it does not count.
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

/// The reason why a group is not mounted. `Display` says what and which; [`Refusal::remedy`] what
/// to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("disk group {group}: no member disk was found")]
    NoDisks { group: String },
    #[error("disk group {group}: two groups have this name: {}", Groups(.groups))]
    TwoGroups { group: String, groups: Vec<(GroupId, Vec<String>)> },
    #[error("disk group {group}: none of the visible disks holds a readable membership{}", Unreadable(.paths, .duplicates))]
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
    #[error("disk group {group}: no visible ONLINE disk is current; missing: {}", List(.missing))]
    NothingCurrent {
        group: String,
        missing: Vec<Missing>,
        duplicates: Vec<Vec<String>>,
        force_helps: bool,
    },
    #[error("disk group {group}: more disks are missing than its redundancy covers: {}", List(.missing))]
    OutOfReach { group: String, missing: Vec<Missing>, duplicates: Vec<Vec<String>> },
    #[error("disk group {group}: no visible current disk holds AU {at} of the catalog; missing: {}", List(.missing))]
    CatalogMissing {
        group: String,
        at: u32,
        missing: Vec<Missing>,
        duplicates: Vec<Vec<String>>,
        force_helps: bool,
    },
}

impl Refusal {
    /// The row of the table of mounts.
    #[must_use]
    pub fn case(&self) -> Case {
        match self {
            Self::NoDisks { .. } => Case::NoDisks,
            Self::TwoGroups { .. } => Case::TwoGroups,
            Self::NoMembership { .. } => Case::NoMembership,
            Self::TwoHistories { force_helps: false, .. } => Case::Fork,
            Self::TwoHistories { .. } => Case::TwoHistories,
            Self::NoQuorum { .. } => Case::NoQuorum,
            Self::NothingCurrent { .. } => Case::NothingCurrent,
            Self::CatalogMissing { .. } => Case::CatalogMissing,
            Self::OutOfReach { .. } => Case::OutOfReach,
        }
    }

    /// The remedy for the operator.
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
                text += &format!(
                    "; {} are copies of one disk: remove all but the true one",
                    paths.join(" and ")
                );
            }
            if !duplicates.is_empty() {
                text += ", or narrow ASM_DISKSTRING to the disks that are meant; `plinth renamedg` gives copies of all disks a name of their own";
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
            Self::NoMembership { paths, duplicates, .. } if paths.is_empty() && !duplicates.is_empty() => {
                "hide the copies from this host, or narrow ASM_DISKSTRING to the disks that are meant, and mount again; `plinth renamedg` gives \
                 copies of all disks a name of their own"
                    .to_owned()
            }
            Self::NoMembership { duplicates, .. } => {
                attach(&[], duplicates) + "; the visible disks never voted or their membership slots are damaged"
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
                    text += "; FORCE does not help, as no visible disk is current";
                }
                text
            }
            Self::OutOfReach { group, missing, duplicates } => {
                let text = attach(missing, duplicates);
                format!("{text}; {} mounts what is there: reading what only they have gives errors", force(group))
            }
            Self::NothingCurrent { group, missing, duplicates, force_helps }
            | Self::CatalogMissing { group, missing, duplicates, force_helps, .. } => {
                let text = attach(missing, duplicates);
                if *force_helps {
                    format!(
                        "{text}; {} uses disks whose stamps cannot be read: if one is an old image, its files are as old",
                        force(group)
                    )
                } else {
                    text + "; FORCE does not help, as no visible disk can be read from"
                }
            }
        }
    }
}

/// Decides how, and whether, the group that all `probe_results` belong to is mounted.
///
/// `probe_results` are the discovered devices whose headers name the group `group`.
///
/// # Errors
/// The refusal of the first step that fails.
pub fn choose(
    group: &str,
    probe_results: &[ProbeResult],
    force: bool,
) -> Result<Decision, Refusal> {
    let mut groups: BTreeMap<GroupId, Vec<String>> = BTreeMap::new();
    for probe_result in probe_results.iter().filter(|probe_result| is_member(probe_result, group)) {
        groups.entry(probe_result.header.group).or_default().push(probe_result.path.clone());
    }
    let found = match groups.len() {
        0 => FoundGroups::None,
        1 => FoundGroups::One,
        _ => FoundGroups::Several,
    };
    let discovered = Discovered::new(group, probe_results);
    let candidates = discovered.candidates();
    let mut view =
        discovered.winner(&candidates).map(|winner| Winner::new(&discovered, winner, false));
    // With the disks whose stamps cannot be read, if the others are not enough.
    let needs = |view: &Winner<'_>| view.current_disks() != Current::Enough;
    let wide = view
        .as_ref()
        .filter(|view| needs(view))
        .map(|view| Winner::new(&discovered, view.winner, true));
    let wide = wide
        .filter(|wide| view.as_ref().is_some_and(|view| wide.current.len() > view.current.len()));
    let force_helps = [&view, &wide].iter().any(|view| {
        view.as_ref()
            .is_some_and(|view| matches!(view.current_disks(), Current::TooFew | Current::Enough))
    });
    let is_wide = force && wide.is_some();
    if is_wide {
        view = wide;
    }
    let newest = match (&view, candidates.is_empty()) {
        (Some(_), _) => Newest::One,
        (None, true) => Newest::None,
        (None, false) => Newest::Split,
    };
    let case = cases::decide(Facts {
        groups: found,
        newest,
        another: view.as_ref().is_some_and(|view| !view.others.is_empty()),
        majority: view.as_ref().is_some_and(Winner::has_majority),
        current: match view.as_ref().map_or(Current::Nothing, |view| view.current_disks()) {
            // It is enough because of FORCE.
            Current::Enough if is_wide => Current::TooFew,
            current => current,
        },
        force,
    });
    if let Some(refusal) = refusal_without_winner(case, group, &groups, &discovered, &candidates) {
        return Err(refusal);
    }
    let view = view.expect("the other cases have a newest membership");
    match refusal_of_winner(case, group, &view, force_helps, &discovered) {
        Some(refusal) => Err(refusal),
        None => {
            let id = groups.into_keys().next().expect("members of one group are discovered");
            Ok(view.decision(id, case))
        }
    }
}

/// The refusals of steps 1 to 4: there is no membership to go on with.
fn refusal_without_winner(
    case: Case,
    group: &str,
    groups: &BTreeMap<GroupId, Vec<String>>,
    discovered: &Discovered<'_>,
    candidates: &[&Membership],
) -> Option<Refusal> {
    let group = group.to_owned();
    Some(match case {
        Case::NoDisks => Refusal::NoDisks { group },
        Case::TwoGroups => {
            Refusal::TwoGroups { group, groups: groups.clone().into_iter().collect() }
        }
        Case::NoMembership => Refusal::NoMembership {
            group,
            paths: discovered.paths(),
            duplicates: discovered.duplicates(),
        },
        Case::Fork => Refusal::TwoHistories {
            group,
            histories: candidates.iter().map(|membership| discovered.history(membership)).collect(),
            force_helps: false,
        },
        _ => return None,
    })
}

/// The refusals of steps 5 to 8.
fn refusal_of_winner(
    case: Case,
    group: &str,
    winner: &Winner<'_>,
    force_helps: bool,
    discovered: &Discovered<'_>,
) -> Option<Refusal> {
    let group = group.to_owned();
    let duplicates = discovered.duplicates();
    Some(match case {
        Case::TwoHistories => {
            Refusal::TwoHistories { group, histories: winner.histories(), force_helps: true }
        }
        Case::NoQuorum => Refusal::NoQuorum {
            group,
            have: winner.witnesses.len(),
            need: winner.voters / 2 + 1,
            voters: winner.voters,
            missing: winner.missing.clone(),
            duplicates,
            force_helps,
        },
        Case::OutOfReach => {
            Refusal::OutOfReach { group, missing: winner.out_of_reach(), duplicates }
        }
        Case::NothingCurrent => Refusal::NothingCurrent {
            group,
            missing: winner.out_of_reach(),
            duplicates,
            force_helps,
        },
        Case::CatalogMissing => Refusal::CatalogMissing {
            group,
            at: winner.hole.unwrap_or_default(),
            missing: winner.out_of_reach(),
            duplicates,
            force_helps,
        },
        _ => return None,
    })
}

fn is_member(probe_result: &ProbeResult, group: &str) -> bool {
    probe_result.header.group_name == group && probe_result.header.status == Status::Member
}

/// A disk's newest membership.
fn newest(probe_result: &ProbeResult) -> Option<&Membership> {
    probe_result.memberships.iter().max_by_key(|membership| (membership.generation, membership.id))
}

/// The place where one of the catalog's files ends on current disks, for its longest mirror, if
/// none is whole there. A mirror with a missing part is struck, and does not count.
fn catalog_hole(winner: &Membership, current: &BTreeSet<DiskNumber>) -> Option<u32> {
    [CatalogFile::Database, CatalogFile::Wal].into_iter().find_map(|file| {
        let runs = || winner.catalog.iter().filter(move |run| run.file == file);
        let mirrors: BTreeSet<u8> = runs().map(|run| run.mirror).collect();
        let ends = mirrors.into_iter().map(|mirror| {
            let missing = runs().filter(|run| run.mirror == mirror && !current.contains(&run.disk));
            missing.map(|run| run.at).min()
        });
        // `None` is a whole mirror.
        let ends: Option<Vec<u32>> = ends.collect();
        ends.and_then(|ends| ends.into_iter().max())
    })
}

/// A membership and its ancestors.
struct Lineage<'a> {
    head: &'a Membership,
    ids: BTreeSet<MembershipId>,
}

impl<'a> Lineage<'a> {
    fn new(head: &'a Membership) -> Self {
        Self { head, ids: head.ancestors.iter().copied().chain([head.id]).collect() }
    }

    fn has(&self, id: MembershipId) -> bool {
        self.ids.contains(&id)
    }

    /// Whether an ancestor of this generation would be too old to be listed.
    fn is_beyond(&self, generation: u64) -> bool {
        let oldest = self.head.generation.saturating_sub(self.head.ancestors.len() as u64);
        generation < oldest && self.head.ancestors.len() >= ANCESTORS_MAX
    }

    fn held(&self, probe_result: &ProbeResult) -> Held {
        match newest(probe_result) {
            None => Held::Nothing,
            Some(newest) if newest.id == self.head.id => Held::Newest,
            Some(newest) if self.has(newest.id) || self.is_beyond(newest.generation) => {
                Held::Ancestor
            }
            Some(_) => Held::Other,
        }
    }

    /// `expected`: the stamp that the disk, or one after it, should have.
    fn step(&self, probe_result: &ProbeResult, expected: u64) -> Stamped {
        match newest_stamp(probe_result) {
            None => Stamped::Nothing,
            Some(stamp) if !self.has(stamp.membership) => Stamped::Other,
            Some(stamp) if stamp.counter.saturating_add(1) >= expected => Stamped::InStep,
            Some(_) => Stamped::Behind,
        }
    }
}

/// The verdict on a disk that returns to a mounted group, by the table of disks.
#[must_use]
pub fn returning(
    probe_result: &ProbeResult,
    disk: &MemberDisk,
    membership: &Membership,
) -> DiskVerdict {
    let line = Lineage::new(membership);
    cases::verdict(DiskFacts {
        devices: Devices::One,
        marked: disk.copy_whole,
        membership: line.held(probe_result),
        stamp: line.step(probe_result, disk.stamp),
        state: disk.state,
        needed: false,
    })
}

/// The membership that a mount goes on with, and the discovered disks compared with it.
struct Winner<'a> {
    discovered: &'a Discovered<'a>,
    winner: &'a Membership,
    /// Step 5: other memberships that stand alone, and are not given up.
    others: Vec<History>,
    stamp: u64,
    disks: Vec<(DiskFacts, Verdict)>,
    voters: usize,
    witnesses: BTreeSet<DiskNumber>,
    missing: Vec<Missing>,
    /// ONLINE disks with data that are current.
    current: BTreeSet<DiskNumber>,
    hole: Option<u32>,
}

impl<'a> Winner<'a> {
    /// `needed`: disks are used although their stamps cannot be read.
    fn new(discovered: &'a Discovered<'a>, winner: &'a Membership, needed: bool) -> Self {
        let line = Lineage::new(winner);
        let mut others: Vec<History> = Vec::new();
        for (index, newest) in discovered.newest() {
            let known = others.iter().any(|history| history.id == newest.id);
            let id = discovered.probe_results[index].header.disk;
            let given_up = winner.disks.iter().any(|disk| disk.id == id && disk.copy_whole);
            if !known && !given_up && !line.has(newest.id) && discovered.stands_alone(newest) {
                others.push(discovered.history(newest));
            }
        }
        others.sort_by_key(|history| std::cmp::Reverse((history.generation, history.id)));
        let stamp = discovered.newest_stamp(winner, &line);
        let disks: Vec<_> = winner
            .disks
            .iter()
            .map(|disk| {
                let facts = discovered.facts(disk, &line, stamp, needed);
                let probe_result = discovered.disks.get(&disk.id).copied().flatten();
                (
                    facts,
                    Verdict { number: disk.number, verdict: cases::verdict(facts), probe_result },
                )
            })
            .collect();
        let mut electors = winner;
        if planted::has(Bug::OldVotersCounted) {
            let all =
                discovered.probe_results.iter().flat_map(|probe_result| &probe_result.memberships);
            let older = all.filter(|older| older.generation < winner.generation);
            electors = older.max_by_key(|older| older.generation).unwrap_or(winner);
        }
        let (mut witnesses, mut missing) = (BTreeSet::new(), Vec::new());
        for (disk, (facts, verdict)) in
            electors.disks.iter().zip(&disks).filter(|(disk, _)| disk.votes)
        {
            if cases::is_witness(*facts) {
                witnesses.insert(disk.number);
            } else {
                let why = discovered.why_no_witness(*verdict);
                missing.push(Missing {
                    name: disk.name.clone(),
                    failure_group: disk.failure_group.clone(),
                    why,
                });
            }
        }
        let is_current = |(disk, (_, verdict)): &(&MemberDisk, &(DiskFacts, Verdict))| {
            disk.state == DiskState::Online
                && verdict.verdict == DiskVerdict::Current
                && !disk.quorum
        };
        let current: BTreeSet<DiskNumber> = winner
            .disks
            .iter()
            .zip(&disks)
            .filter(is_current)
            .map(|(disk, _)| disk.number)
            .collect();
        let hole = catalog_hole(winner, &current);
        let voters = electors.voters().count();
        Self { discovered, winner, others, stamp, disks, voters, witnesses, missing, current, hole }
    }

    fn has_majority(&self) -> bool {
        let twice = if planted::has(Bug::VoterCountedTwice) { 2 } else { 1 };
        may_mount(self.voters, twice * self.witnesses.len())
    }

    fn current_disks(&self) -> Current {
        match (self.current.is_empty(), self.hole) {
            (true, _) => Current::Nothing,
            (false, Some(_)) => Current::WithoutCatalog,
            (false, None) if self.is_covered() => Current::Enough,
            (false, None) => Current::TooFew,
        }
    }

    /// Step 8: every extent has a mirror on a current disk, as far as can be known without the
    /// catalog: no disk that was ONLINE is missing, or the missing ones are in fewer failure groups
    /// than there are mirrors.
    fn is_covered(&self) -> bool {
        let away = |was_online: bool| -> BTreeSet<&str> {
            let disks = self
                .winner
                .disks
                .iter()
                .filter(|disk| !disk.quorum && !self.current.contains(&disk.number));
            let counts = disks.filter(|disk| !was_online || disk.state == DiskState::Online);
            counts.map(|disk| disk.failure_group.as_str()).collect()
        };
        away(true).is_empty() || away(false).len() < self.winner.redundancy.mirrors()
    }

    /// The winner's, and the others.
    fn histories(&self) -> Vec<History> {
        [self.discovered.history(self.winner)]
            .into_iter()
            .chain(self.others.iter().cloned())
            .collect()
    }

    /// ONLINE disks that cannot be read.
    fn out_of_reach(&self) -> Vec<Missing> {
        let online = |(disk, _): &(&MemberDisk, _)| disk.state == DiskState::Online && !disk.quorum;
        let lost = self.winner.disks.iter().zip(&self.disks).filter(online);
        lost.filter(|(_, (_, verdict))| verdict.verdict != DiskVerdict::Current)
            .map(|(disk, (_, verdict))| Missing {
                name: disk.name.clone(),
                failure_group: disk.failure_group.clone(),
                why: self.discovered.why(*verdict),
            })
            .collect()
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings: Vec<Warning> =
            self.discovered.warnings.iter().cloned().map(Warning::from).collect();
        if !self.others.is_empty() {
            let text = format!("MOUNT FORCE gives up a history: {}", Histories(&self.histories()));
            warnings.push(text.into());
        }
        let disks = self.winner.disks.iter().zip(&self.disks);
        warnings.extend(
            disks.filter_map(|(disk, (_, verdict))| self.discovered.warning(disk, *verdict)),
        );
        let unstamped = |(_, (facts, verdict)): &(&MemberDisk, &(DiskFacts, Verdict))| {
            facts.stamp == Stamped::Nothing && verdict.verdict == DiskVerdict::Current
        };
        warnings.extend(self.winner.disks.iter().zip(&self.disks).filter(unstamped).map(|(disk, (_, verdict))| {
            let path = verdict.probe_result.map_or("", |index| self.discovered.probe_results[index].path.as_str());
            format!(
                "MOUNT FORCE uses disk {} ({path}), whose stamp cannot be read: if it is an old image, its files are as old",
                disk.name
            )
            .into()
        }));
        if self.current_disks() == Current::TooFew {
            let missing = self.out_of_reach();
            let text = "MOUNT FORCE with more disks missing than the redundancy covers";
            warnings.push(format!("{text}: {}", List(&missing)).into());
        }
        if !self.has_majority() {
            let (have, voters, missing) = (self.witnesses.len(), self.voters, List(&self.missing));
            let text = format!("MOUNT FORCE with {have} of {voters} voters; missing: {missing}");
            warnings.push(text.into());
        }
        warnings
    }

    fn decision(&self, group: GroupId, case: Case) -> Decision {
        let incomplete = |(facts, verdict): &&(DiskFacts, Verdict)| {
            self.witnesses.contains(&verdict.number) && facts.membership != Held::Newest
        };
        let named: BTreeSet<DiskId> = self.winner.disks.iter().map(|disk| disk.id).collect();
        let probe_results = self.discovered.probe_results;
        let is_stranger = |index: &usize| {
            is_member(&probe_results[*index], self.discovered.group)
                && !named.contains(&probe_results[*index].header.disk)
        };
        let is_used =
            |(disk, (_, verdict)): &(&MemberDisk, &(DiskFacts, Verdict))| match verdict.verdict {
                DiskVerdict::Current => true,
                DiskVerdict::Stale => disk.state == DiskState::Syncing,
                _ => false,
            };
        let has_newest = |index: usize| {
            newest_stamp(&probe_results[index]).is_some_and(|own| own.counter == self.stamp)
        };
        let used = self.winner.disks.iter().zip(&self.disks).filter(is_used);
        let stamped =
            used.into_iter().all(|(_, (_, verdict))| verdict.probe_result.is_some_and(has_newest));
        Decision {
            case,
            group,
            membership: self.winner.clone(),
            stamp: self.stamp,
            stamped,
            disks: self.disks.iter().map(|(_, verdict)| *verdict).collect(),
            strangers: (0..probe_results.len()).filter(is_stranger).collect(),
            complete_on: self
                .disks
                .iter()
                .filter(incomplete)
                .map(|(_, verdict)| verdict.number)
                .collect(),
            warnings: self.warnings(),
        }
    }
}

/// The discovered devices, sorted by disk: step 2.
struct Discovered<'a> {
    group: &'a str,
    probe_results: &'a [ProbeResult],
    /// The probe result to use for each disk; `None` if two devices carry its id.
    disks: BTreeMap<DiskId, Option<usize>>,
    warnings: Vec<String>,
}

impl<'a> Discovered<'a> {
    fn new(group: &'a str, probe_results: &'a [ProbeResult]) -> Self {
        let mut by_disk: BTreeMap<DiskId, Vec<usize>> = BTreeMap::new();
        for (index, probe_result) in probe_results
            .iter()
            .enumerate()
            .filter(|(_, probe_result)| is_member(probe_result, group))
        {
            by_disk.entry(probe_result.header.disk).or_default().push(index);
        }
        let mut warnings = Vec::new();
        let mut disks = BTreeMap::new();
        for (disk, indices) in by_disk {
            let first = &probe_results[indices[0]];
            let one_device =
                indices.iter().all(|index| probe_results[*index].identity == first.identity);
            if !one_device {
                let paths: Vec<&str> =
                    indices.iter().map(|index| probe_results[*index].path.as_str()).collect();
                warnings.push(format!(
                    "disk {} is on two devices, {}; neither is used until all but one are removed",
                    first.header.name,
                    paths.join(" and ")
                ));
            }
            let is_usable = one_device || planted::has(Bug::CloneAccepted);
            disks.insert(disk, is_usable.then_some(indices[0]));
        }
        Self { group, probe_results, disks, warnings }
    }

    /// The newest membership of each usable disk that has one.
    fn newest(&self) -> impl Iterator<Item = (usize, &'a Membership)> + '_ {
        self.disks
            .values()
            .flatten()
            .filter_map(|index| Some((*index, newest(&self.probe_results[*index])?)))
    }

    /// The paths of the devices that share an id, for each such id.
    fn duplicates(&self) -> Vec<Vec<String>> {
        let on_two = self.disks.iter().filter(|(_, index)| index.is_none()).map(|(disk, _)| *disk);
        on_two.map(|disk| self.paths_of(disk)).collect()
    }

    fn paths_of(&self, disk: DiskId) -> Vec<String> {
        let same = |probe_result: &&ProbeResult| {
            is_member(probe_result, self.group) && probe_result.header.disk == disk
        };
        self.probe_results
            .iter()
            .filter(same)
            .map(|probe_result| probe_result.path.clone())
            .collect()
    }

    fn history(&self, membership: &Membership) -> History {
        let of_it = || {
            self.newest().filter(|(_, newest)| newest.id == membership.id).map(|(index, _)| index)
        };
        let votes = |index: &usize| {
            membership.voters().any(|voter| voter.id == self.probe_results[*index].header.disk)
        };
        History {
            id: membership.id,
            generation: membership.generation,
            paths: of_it().map(|index| self.probe_results[index].path.clone()).collect(),
            holders: of_it().filter(votes).count(),
            voters: membership.voters().count(),
        }
    }

    fn stands_alone(&self, membership: &Membership) -> bool {
        let history = self.history(membership);
        may_mount(history.voters, history.holders)
    }

    /// Sorted by path, since disk ids are random.
    fn paths(&self) -> Vec<String> {
        let paths: BTreeSet<&String> =
            self.disks.values().flatten().map(|index| &self.probe_results[*index].path).collect();
        paths.into_iter().cloned().collect()
    }

    /// Step 3: the discovered memberships of the highest generation.
    fn candidates(&self) -> Vec<&'a Membership> {
        let highest = self.newest().map(|(_, newest)| newest.generation).max();
        let found: BTreeMap<MembershipId, &Membership> = self
            .newest()
            .filter(|(_, newest)| Some(newest.generation) == highest)
            .map(|(_, m)| (m.id, m))
            .collect();
        found.into_values().collect()
    }

    /// Step 4: the membership to go on with, if there is one.
    fn winner(&self, candidates: &[&'a Membership]) -> Option<&'a Membership> {
        if let [only] = candidates {
            return Some(only);
        }
        let mut alone =
            candidates.iter().copied().filter(|membership| self.stands_alone(membership));
        // The others never came in force: no warning names them as a history.
        let winner = alone.next()?;
        alone.next().is_none().then_some(winner)
    }

    /// The facts for the table of disks.
    fn facts(&self, disk: &MemberDisk, line: &Lineage<'_>, newest: u64, needed: bool) -> DiskFacts {
        let probe_result = self.disks.get(&disk.id).copied();
        let devices = match probe_result {
            None => Devices::None,
            Some(None) => Devices::Several,
            Some(Some(_)) => Devices::One,
        };
        let expected = if disk.state == DiskState::Offline { disk.stamp } else { newest };
        let seen = probe_result.flatten().map(|index| &self.probe_results[index]);
        DiskFacts {
            devices,
            marked: disk.copy_whole,
            membership: seen.map_or(Held::Nothing, |probe_result| line.held(probe_result)),
            stamp: seen.map_or(Stamped::Behind, |probe_result| line.step(probe_result, expected)),
            state: disk.state,
            needed,
        }
    }

    fn newest_stamp(&self, winner: &Membership, line: &Lineage<'_>) -> u64 {
        let counts = |disk: &&MemberDisk| !disk.copy_whole && disk.state != DiskState::Offline;
        let seen = winner.disks.iter().filter(counts).filter_map(|disk| {
            let probe_result = &self.probe_results[self.disks.get(&disk.id).copied().flatten()?];
            let on_line = line.held(probe_result) != Held::Other
                && line.step(probe_result, 0) != Stamped::Other;
            on_line.then(|| newest_stamp(probe_result))?
        });
        seen.map(|stamp| stamp.counter).max().unwrap_or(0).max(winner.stamp)
    }

    fn why_no_witness(&self, verdict: Verdict) -> String {
        match (verdict.verdict, verdict.probe_result) {
            (DiskVerdict::Current | DiskVerdict::Stale, Some(index)) => {
                format!("{} holds no readable membership", self.probe_results[index].path)
            }
            _ => self.why(verdict),
        }
    }

    fn why(&self, verdict: Verdict) -> String {
        let path = verdict.probe_result.map_or("", |index| self.probe_results[index].path.as_str());
        match verdict.verdict {
            DiskVerdict::Absent => "not found".to_owned(),
            DiskVerdict::Duplicate => "on two devices".to_owned(),
            DiskVerdict::CopyWhole => format!("{path} is to be copied whole"),
            DiskVerdict::LosingBranch => format!("{path} belongs to another history"),
            DiskVerdict::OldImage => format!("{path} is an old image"),
            DiskVerdict::Stale => format!("{path} is not up to date"),
            DiskVerdict::Current => format!("{path} is current"),
        }
    }

    /// The warning about a disk, if there is one.
    fn warning(&self, disk: &MemberDisk, verdict: Verdict) -> Option<Warning> {
        let name = &disk.name;
        let fails = &disk.failure_group;
        let path = verdict.probe_result.map_or("", |index| self.probe_results[index].path.as_str());
        let text = match verdict.verdict {
            DiskVerdict::Absent if disk.state != DiskState::Offline => {
                let text = format!(
                    "disk {name} (failure group {fails}) is missing; when it is found, it comes ONLINE by itself, unless auto_online.enabled is false"
                );
                return Some(Warning { missing: Some(name.clone()), text });
            }
            DiskVerdict::LosingBranch => {
                format!(
                    "disk {name} ({path}) belongs to another history of the group; it is copied whole"
                )
            }
            DiskVerdict::OldImage => {
                format!("disk {name} ({path}) is an old image; it is copied whole")
            }
            _ => return None,
        };
        Some(text.into())
    }
}

fn newest_stamp(probe_result: &ProbeResult) -> Option<Stamp> {
    probe_result.stamps.iter().copied().max_by_key(|stamp| stamp.counter)
}

/// Whether a membership that `holders` of the `previous` voters hold is in force (R3): at least
/// half, and one. The first that a mount records needs [`may_mount`] instead.
#[must_use]
pub fn may_record(previous: usize, holders: usize) -> bool {
    holders > 0 && holders * 2 >= previous
}

/// Whether `witnesses` of a membership's `voters` let it be mounted (R3): more than half.
#[must_use]
pub fn may_mount(voters: usize, witnesses: usize) -> bool {
    witnesses * 2 > voters
}

/// The most voters.
pub const VOTERS_MAX: usize = 5;

/// Which disks should vote: one in each of up to five failure groups.
///
/// Only ONLINE disks vote, and of those that are being dropped none, unless no other is left. A
/// failure group that votes goes on voting, with the disk that does; further ones join in this
/// order: quorum failure groups, then by name. Two failure groups have two voters: if one is lost
/// the other goes on (at least half), and neither mounts without the other before that is recorded.
/// An even number is not made odd: that costs nothing, since at least half is enough to go on. In
/// EXTERNAL redundancy the same holds.
#[must_use]
pub fn voters(disks: &[MemberDisk], _redundancy: Redundancy) -> BTreeSet<DiskNumber> {
    let mut groups: BTreeMap<&str, &MemberDisk> = BTreeMap::new();
    let may_vote = |disk: &&MemberDisk| disk.state == DiskState::Online && !disk.copy_whole;
    let all_leave = disks.iter().filter(may_vote).all(|disk| disk.leaving);
    for disk in disks.iter().filter(may_vote).filter(|disk| all_leave || !disk.leaving) {
        let best = groups.entry(disk.failure_group.as_str()).or_insert(disk);
        if (!disk.votes, disk.number) < (!best.votes, best.number) {
            *best = disk;
        }
    }
    let mut chosen: Vec<_> = groups.into_iter().collect();
    chosen.sort_by_key(|(name, disk)| (!disk.votes, !disk.quorum, *name));
    chosen.into_iter().take(VOTERS_MAX).map(|(_, disk)| disk.number).collect()
}

/// The sets of voters to record one after the other to come from `now` to `wanted`: each differs
/// from the one before it by one voter, and is recorded only when the one before it is in force.
/// `failed` ones leave first, but the last voter not before another has joined; then the new ones
/// join; then the healthy ones that are not wanted leave. One always stays.
#[must_use]
pub fn voter_steps(
    now: &BTreeSet<DiskNumber>,
    wanted: &BTreeSet<DiskNumber>,
    failed: &BTreeSet<DiskNumber>,
) -> Vec<BTreeSet<DiskNumber>> {
    let mut set = now.clone();
    let mut steps = Vec::new();
    let mut last = None;
    for gone in now.intersection(failed) {
        if set.len() == 1 {
            last = Some(gone);
            break;
        }
        set.remove(gone);
        steps.push(set.clone());
    }
    for new in wanted.difference(now).filter(|new| !failed.contains(new)) {
        set.insert(*new);
        steps.push(set.clone());
    }
    if let Some(gone) = last.filter(|_| set.len() > 1) {
        set.remove(gone);
        steps.push(set.clone());
    }
    for surplus in now.difference(wanted).filter(|surplus| !failed.contains(surplus)) {
        if set.len() > 1 {
            set.remove(surplus);
            steps.push(set.clone());
        }
    }
    steps
}

/// The membership that follows `parent`, with `change` made to it.
///
/// # Panics
/// If `change` alters more than one vote ([`voter_steps`]), or leaves no voter.
#[must_use]
pub fn successor(
    parent: &Membership,
    id: MembershipId,
    change: impl FnOnce(&mut Membership),
) -> Membership {
    let mut child = parent.clone();
    change(&mut child);
    child.generation = parent.generation + 1;
    child.id = id;
    child.ancestors = std::iter::once(parent.id)
        .chain(parent.ancestors.iter().copied())
        .take(ANCESTORS_MAX)
        .collect();
    let voters =
        |membership: &Membership| membership.voters().map(|disk| disk.id).collect::<BTreeSet<_>>();
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

/// Disks without a readable membership, and those that are on several devices.
struct Unreadable<'a>(&'a [String], &'a [Vec<String>]);

impl fmt::Display for Unreadable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(paths, duplicates) = self;
        if !paths.is_empty() || duplicates.is_empty() {
            write!(f, " ({})", paths.join(", "))?;
        }
        if !duplicates.is_empty() {
            let pairs: Vec<String> = duplicates.iter().map(|paths| paths.join(" and ")).collect();
            let each = if paths.is_empty() {
                "each disk is on several devices"
            } else {
                "others are on several devices"
            };
            let text = "and nothing is noted on this host of which were used";
            write!(f, ": {each}, {text}: {}", pairs.join("; "))?;
        }
        Ok(())
    }
}

struct Histories<'a>(&'a [History]);

impl fmt::Display for Histories<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, history) in self.0.iter().enumerate() {
            let History { id, generation, paths, holders, voters } = history;
            let separator = if index > 0 { "; " } else { "" };
            let paths = paths.join(", ");
            write!(
                f,
                "{separator}generation {generation} (id {id}) on {paths}, {holders} of its {voters} voters"
            )?;
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
