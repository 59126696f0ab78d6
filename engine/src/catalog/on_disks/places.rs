//! Where mirrors of the catalog are, and where the next one should be, according to a membership.

use crate::catalog::store::CatalogFile;
use plinth_format::{
    Au, DiskNumber,
    membership::{CatalogRun, DiskState, MemberDisk, Membership, RUNS_MAX},
};
use std::collections::BTreeSet;

/// The number of mirrors of the catalog, if there are enough disks.
pub(super) const MIRRORS: usize = 3;

/// The runs of those mirrors of a file for which `is_wanted` holds.
fn runs_where(
    membership: &Membership,
    file: CatalogFile,
    is_wanted: impl Fn(u8) -> bool,
) -> impl Iterator<Item = &CatalogRun> {
    membership.catalog.iter().filter(move |run| run.file == file && is_wanted(run.mirror))
}

/// Whether mirrors of the catalog may go to a disk.
pub(super) fn takes_mirrors(disk: &MemberDisk) -> bool {
    disk.state == DiskState::Online && !disk.quorum && !disk.leaving
}

/// Whether all disks of a mirror are ONLINE, and there is room for it in the list.
pub(super) fn can_list(membership: &Membership, runs: &[CatalogRun]) -> bool {
    membership.catalog.len() + runs.len() <= RUNS_MAX
        && runs.iter().all(|run| {
            membership.disk(run.disk).is_some_and(|disk| disk.state == DiskState::Online)
        })
}

/// Those of the new runs whose mirrors are listed.
pub(super) fn growing(membership: &Membership, runs: &[CatalogRun]) -> Vec<CatalogRun> {
    let is_there = |new: &&CatalogRun| {
        membership
            .catalog
            .iter()
            .any(|run| (run.file, run.mirror) == (new.file, new.mirror) && run.at < new.at)
    };
    runs.iter().filter(is_there).copied().collect()
}

/// Disks on which a mirror with its start on `home` can have a part, given the disks of all other
/// mirrors: no single loss may affect two mirrors.
pub(super) fn neighbours<'a>(
    membership: &'a Membership,
    home: DiskNumber,
    others: &'a BTreeSet<DiskNumber>,
) -> impl Iterator<Item = DiskNumber> + 'a {
    let group = |disk: &DiskNumber| membership.disk(*disk).map(|disk| disk.failure_group.as_str());
    let groups: BTreeSet<&str> = others.iter().filter_map(group).collect();
    let own = group(&home);
    let is_apart = move |disk: &&MemberDisk| {
        let name = disk.failure_group.as_str();
        !others.contains(&disk.number) && (own == Some(name) || !groups.contains(name))
    };
    let open =
        membership.disks.iter().filter(move |disk| takes_mirrors(disk) && disk.number != home);
    open.filter(is_apart).map(|disk| disk.number)
}

/// The number of AUs of a mirror.
pub(super) fn units_of(membership: &Membership, file: CatalogFile, mirror: u8) -> u32 {
    runs_where(membership, file, |one| one == mirror).map(|run| run.count).sum()
}

/// The disks on which a mirror has a part.
pub(super) fn disks_of(
    membership: &Membership,
    file: CatalogFile,
    mirror: u8,
) -> BTreeSet<DiskNumber> {
    runs_where(membership, file, |one| one == mirror).map(|run| run.disk).collect()
}

/// The disks on which other mirrors have a part.
pub(super) fn disks_of_others(
    membership: &Membership,
    file: CatalogFile,
    mirror: u8,
) -> BTreeSet<DiskNumber> {
    runs_where(membership, file, |one| one != mirror).map(|run| run.disk).collect()
}

fn groups_of<'a>(membership: &'a Membership, disks: &BTreeSet<DiskNumber>) -> BTreeSet<&'a str> {
    disks
        .iter()
        .filter_map(|disk| membership.disk(*disk))
        .map(|disk| disk.failure_group.as_str())
        .collect()
}

/// Disks that could take a whole mirror, given those on which others have a part.
fn open_disks<'a>(
    membership: &'a Membership,
    others: &'a BTreeSet<DiskNumber>,
    has_room: impl Fn(DiskNumber) -> bool + 'a,
) -> impl Iterator<Item = &'a MemberDisk> {
    let open = membership
        .disks
        .iter()
        .filter(|disk| takes_mirrors(disk) && !others.contains(&disk.number));
    open.filter(move |disk| has_room(disk.number))
}

/// The disk on which the next mirror of the catalog should be, given those on which others have a
/// part: ONLINE, in a failure group without one.
fn disk_apart(
    membership: &Membership,
    others: &BTreeSet<DiskNumber>,
    has_room: impl Fn(DiskNumber) -> bool,
) -> Option<DiskNumber> {
    let groups = groups_of(membership, others);
    let is_apart = |disk: &&MemberDisk| !groups.contains(disk.failure_group.as_str());
    open_disks(membership, others, has_room).find(is_apart).map(|disk| disk.number)
}

/// Like `disk_apart`; or any other disk if there are fewer than two other mirrors (`mirrors`).
pub(crate) fn next_disk(
    membership: &Membership,
    mirrors: usize,
    others: &BTreeSet<DiskNumber>,
    has_room: impl Fn(DiskNumber) -> bool,
) -> Option<DiskNumber> {
    if mirrors >= MIRRORS {
        return None;
    }
    let any = || {
        open_disks(membership, others, &has_room)
            .next()
            .filter(|_| mirrors < 2)
            .map(|disk| disk.number)
    };
    disk_apart(membership, others, &has_room).or_else(any)
}

/// Where the next mirror of one of the catalog's files should be: [`next_disk`]. If none is to be
/// added, it replaces one that shares a disk or a failure group with another, if there is a place
/// separate from all others; or one that has to leave its place.
pub(super) fn next_mirror(
    membership: &Membership,
    file: CatalogFile,
    leaving: &BTreeSet<u8>,
    has_room: impl Fn(u8, DiskNumber) -> bool,
) -> Option<(u8, DiskNumber)> {
    let mirrors: BTreeSet<u8> =
        runs_where(membership, file, |_| true).map(|run| run.mirror).collect();
    let others = |mirror: u8| disks_of_others(membership, file, mirror);
    let place = |mirror: u8| {
        let besides = mirrors.iter().filter(|other| **other != mirror).count();
        next_disk(membership, besides, &others(mirror), |disk| has_room(mirror, disk))
            .map(|disk| (mirror, disk))
    };
    let place_apart = |mirror: u8| {
        disk_apart(membership, &others(mirror), |disk| has_room(mirror, disk))
            .map(|disk| (mirror, disk))
    };
    let shares = |mirror: &u8| {
        let own = groups_of(membership, &disks_of(membership, file, *mirror));
        !own.is_disjoint(&groups_of(membership, &others(*mirror)))
    };
    let free = (0..3).find(|mirror| !mirrors.contains(mirror));
    // Of two that share, the later one is replaced, if possible. If there is no disk for one of
    // them there may be one for the next.
    let spares = || {
        mirrors.iter().rev().filter(|mirror| shares(mirror)).find_map(|mirror| place_apart(*mirror))
    };
    free.and_then(place)
        .or_else(spares)
        .or_else(|| leaving.iter().find_map(|mirror| place(*mirror)))
}

/// Whether a mirror is superfluous, given the places of the mirrors that stay: there would be no
/// place for it even if every disk had room.
pub(super) fn is_too_many(membership: &Membership, file: CatalogFile, mirror: u8) -> bool {
    let stays = |disk: &DiskNumber| membership.disk(*disk).is_some_and(takes_mirrors);
    let others: BTreeSet<u8> = runs_where(membership, file, |one| one != mirror)
        .map(|run| run.mirror)
        .filter(|other| disks_of(membership, file, *other).iter().all(stays))
        .collect();
    let on = others.iter().flat_map(|other| disks_of(membership, file, *other)).collect();
    !others.is_empty() && next_disk(membership, others.len(), &on, |_| true).is_none()
}

/// Lists new mirrors, each instead of the old one with its number.
pub(super) fn list(membership: &mut Membership, runs: &[CatalogRun]) {
    let is_replaced =
        |old: &CatalogRun| runs.iter().any(|new| (new.file, new.mirror) == (old.file, old.mirror));
    membership.catalog.retain(|run| !is_replaced(run));
    membership.catalog.extend(runs.iter().copied());
}

/// The runs of the mirror that `run` belongs to, with one AU at another place on its disk. `None`
/// if the mirror does not have the AU any more.
pub(super) fn moved(
    membership: &Membership,
    run: CatalogRun,
    old: Au,
    new: Au,
) -> Option<Vec<CatalogRun>> {
    let is_of_it = |one: &&CatalogRun| (one.file, one.mirror) == (run.file, run.mirror);
    let mut has_moved = false;
    let mut runs = Vec::new();
    for one in membership.catalog.iter().filter(is_of_it) {
        let mut aus: Vec<Au> = one.aus().collect();
        if let Some(au) = aus.iter_mut().find(|au| one.disk == run.disk && **au == old) {
            (*au, has_moved) = (new, true);
        }
        runs.extend(runs_of(one.file, one.mirror, one.disk, one.at, &aus));
    }
    has_moved.then_some(runs)
}

/// Removes a file's AUs from the `keep`th on from the list. Returns whether there were any.
pub(super) fn cut(membership: &mut Membership, file: CatalogFile, keep: u32) -> bool {
    let before = membership.catalog.clone();
    membership.catalog.retain(|run| run.file != file || run.at < keep);
    for run in membership.catalog.iter_mut().filter(|run| run.file == file) {
        run.count = run.count.min(keep - run.at);
    }
    membership.catalog != before
}

/// Ascending AUs of a disk as runs that hold a file from its AU `at` on.
pub(crate) fn runs_of(
    file: CatalogFile,
    mirror: u8,
    disk: DiskNumber,
    at: u32,
    aus: &[Au],
) -> Vec<CatalogRun> {
    let mut runs: Vec<CatalogRun> = Vec::new();
    for (at, au) in (at..).zip(aus) {
        match runs.last_mut() {
            Some(run) if run.first.0 + run.count == au.0 => run.count += 1,
            _ => runs.push(CatalogRun { file, mirror, at, count: 1, disk, first: *au }),
        }
    }
    runs
}
