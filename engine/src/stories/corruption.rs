//! Corrupt bytes anywhere on one disk.

use super::*;
use crate::{
    catalog::{CatalogFile, Store},
    extent::{blocks::BLOCKS_PER_PIECE, change_marks},
    sync::buffer::Buffer,
};
use plinth_format::{
    DiskNumber, Piece,
    membership::CatalogRun,
    page::{self, PAGE_SIZE},
};
use std::cell::Cell;

/// The checksum blocks of one disk, or of both, are random bytes: a partly written extent still
/// reads back.
#[test]
fn an_extent_reads_back_although_its_checksum_blocks_are_corrupt() {
    for spoilt in [vec![0], vec![1], vec![0, 1]] {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let node = lab.create_file("table");
        let mut bytes = pattern(1, 3_000_000);
        lab.write(node, 0, &bytes);
        lab.sync(node);
        let places: Vec<_> = lab
            .group()
            .extents
            .all()
            .iter()
            .flat_map(|extent| extent.mirrors())
            .map(|mirror| {
                (mirror.disk, lab.group().members[&mirror.disk].layout().sums_of(mirror.au).0)
            })
            .collect();
        lab.dismount();
        for (disk, place) in places {
            if spoilt.contains(&usize::from(disk.0)) {
                lab.disks[usize::from(disk.0)]
                    .corrupt(place, &pattern(place + u64::from(disk.0), 1024));
            }
        }
        lab.mount();
        let node = lab.find("table");
        for extent in 0..3 {
            let at = extent * MIB as usize + 4096;
            lab.write(node, at as u64, &[9; 4096]);
            bytes[at..at + 4096].fill(9);
        }
        assert_eq!(lab.read(node, 0, bytes.len()), bytes, "noise on {spoilt:?}");
        lab.dismount();
        lab.mount();
        assert_eq!(lab.read(lab.find("table"), 0, bytes.len()), bytes, "noise on {spoilt:?}");
        block_on(lab.group().check(true)).expect("the check runs");
        lab.check();
    }
}

/// A read, a check and a repair wait for locked blocks. Meanwhile the blocks are punched and
/// discarded, and the device returns noise for them. None of the three reports the noise as rot.
#[test]
fn a_hole_punched_during_a_read_is_not_reported_as_rot() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    let mut bytes = pattern(1, 1 << 20);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    let group = Arc::clone(lab.group());
    let extent =
        group.extents.all().into_iter().find(|extent| extent.file == node).expect("in memory");
    let hole = 4 * BLOCKS_PER_PIECE..7 * BLOCKS_PER_PIECE;
    let held = block_on(extent.ranges.hold(hole.clone(), true));
    std::thread::scope(|scope| {
        let read = scope.spawn(|| lab.read(node, 0, 1 << 20));
        let check = scope.spawn(|| block_on(group.check(true)).expect("it ends"));
        let repair = scope.spawn(|| {
            group.repairs.add(&extent, hole.start - 3..hole.end + 5);
            block_on(group.make_repairs());
        });
        lab.wait_for("all of them", || extent.ranges.waiting() == 3);
        let punched = Arc::clone(&extent);
        let punch = group.catalog.write(true, move |connection| {
            change_marks(connection, &punched, |written, _| {
                (4..7).map(Piece).for_each(|piece| written.remove(piece))
            })?;
            Ok(())
        });
        block_on(punch).expect("it is punched");
        for mirror in extent.mirrors() {
            let offset = group.members[&mirror.disk].layout().au_offset(mirror.au) + (4 << 16);
            lab.disks[usize::from(mirror.disk.0)].corrupt(offset, &pattern(offset, 3 << 16));
        }
        drop(held);
        bytes[4 << 16..7 << 16].fill(0);
        assert!(read.join().expect("it is read") == bytes);
        let report = check.join().expect("it is checked");
        assert!(report.is_good(), "{:?}", report.problems);
        repair.join().expect("it is repaired");
    });
    assert_eq!(group.mismatches(), 0);
    assert!(!lab.told("no good mirror") && !lab.told("is not repaired"));
    lab.check();
}

/// Repeated reads reach every mirror that is as fast as the others: rot anywhere is found and
/// repaired without a check.
#[test]
fn repeated_reads_repair_rot_on_every_mirror() {
    for (redundancy, groups) in
        [(Redundancy::Normal, &["A", "B"][..]), (Redundancy::High, &["A", "B", "C"])]
    {
        let lab = Lab::new(redundancy, 64 * MIB, groups);
        let table = lab.create_file("table");
        let bytes = pattern(1, 3_000_000);
        lab.write(table, 0, &bytes);
        let small = lab.create_file("small");
        lab.write(small, 0, &bytes[..5000]);
        lab.sync(table);
        lab.sync(small);
        for disk in 0..groups.len() {
            let mut struck = Vec::new();
            for extent in lab.group().extents.all() {
                let mirror = extent
                    .mirrors()
                    .into_iter()
                    .find(|mirror| usize::from(mirror.disk.0) == disk)
                    .expect("a mirror");
                for piece in extent.state().marked().iter() {
                    let place = lab.group().members[&mirror.disk].layout().au_offset(mirror.au)
                        + piece.offset();
                    struck.push((place, lab.disks[disk].peek(place, 4096)));
                    lab.disks[disk].corrupt(place, &pattern(place, 4096));
                }
            }
            assert!(struck.len() > 40, "the files are on every disk");
            // On a busy host a disk may seem slow for a while, and is not read then.
            lab.wait_for("the repair of all of it", || {
                for _ in groups {
                    for from in (0..bytes.len()).step_by(8192) {
                        assert_eq!(
                            lab.read(table, from as u64, 8192),
                            bytes[from..bytes.len().min(from + 8192)]
                        );
                    }
                    assert_eq!(lab.read(small, 0, 6000), &bytes[..5000]);
                }
                struck.iter().all(|(place, right)| lab.disks[disk].peek(*place, 4096) == *right)
            });
        }
        lab.check();
    }
}

/// A catalog page that is damaged on every mirror is reported with its places: by the mount's
/// refusal, or by the alert log and a check.
#[test]
fn a_catalog_page_lost_on_every_mirror_is_named() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    for number in 0..200 {
        lab.create_file(&format!("file {number}"));
    }
    lab.sync(lab.find("file 1"));
    let runs = lab.group().voters.current().catalog.clone();
    let layout = lab.group().members.values().next().expect("a disk").layout();
    let places = |page: u64| {
        let database = plinth_format::membership::CatalogFile::Database;
        let first = runs.iter().filter(move |run| run.file == database && run.at == 0);
        first
            .map(move |run| (usize::from(run.disk.0), layout.au_offset(run.first) + page * 4096))
            .collect::<Vec<_>>()
    };
    lab.dismount();
    let (mut refused, mut served) = (0, 0);
    for page in 0..12 {
        let kept: Vec<_> =
            places(page).iter().map(|(disk, at)| lab.disks[*disk].peek(*at, 4096)).collect();
        assert!(
            kept.len() == 2 && plinth_format::page::is_good(&kept[0], page as u32 + 1),
            "page {page} is in use"
        );
        places(page)
            .iter()
            .for_each(|(disk, at)| lab.disks[*disk].corrupt(*at, &pattern(page, 4096)));
        let name = format!("page {} is damaged on every mirror (disk DATA_0000", page + 1);
        match lab.try_mount(false) {
            Err(error) => {
                refused += 1;
                assert!(
                    error.message.contains(&name) && error.hint.is_some(),
                    "{error} ({:?})",
                    error.hint
                );
            }
            Ok(()) => {
                served += 1;
                let report = block_on(lab.group().check(false));
                assert!(!report.is_ok_and(|report| report.is_good()), "page {page}");
                assert!(lab.told(&name), "no event names page {page}");
                let group = lab.group.take().expect("mounted");
                let _ = block_on(group.dismount(true));
            }
        }
        places(page)
            .iter()
            .zip(&kept)
            .for_each(|((disk, at), bytes)| lab.disks[*disk].corrupt(*at, bytes));
    }
    assert!(refused > 0 && served > 0, "{refused} refused, {served} served");
    lab.mount();
    lab.check();
}

/// A voter loses its memberships. That does no harm as long as it is noticed: a check reports it,
/// and a check with repair writes another.
#[test]
fn a_check_reports_a_voter_without_its_membership() {
    for disk in 0..3 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
        lab.check();
        let areas = lab.group().members.values().nth(disk).expect("a disk").areas();
        for place in areas.iter().flat_map(|area| area.memberships) {
            lab.disks[disk].corrupt(place, &pattern(place, 4096));
        }
        let problems =
            |repair| block_on(lab.group().check(repair)).expect("the check runs").problems;
        let told = problems(false);
        assert!(
            told.len() == 1 && told[0].text.contains(&format!("disk DATA_000{disk}")),
            "{told:?}"
        );
        assert!(told[0].text.contains("the membership at offset"), "{told:?}");
        assert!(problems(true).iter().all(|problem| problem.repaired));
        lab.check();
        lab.dismount();
    }
}

/// Two mirrors of the catalog in one place would be one mirror: a check reports that.
#[test]
fn a_check_reports_an_au_given_to_the_catalog_twice() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let twice = lab.group().voters.change(|next| {
        let run = next.catalog[0];
        next.catalog.push(run);
        Ok(true)
    });
    block_on(twice).expect("it is recorded");
    let report = block_on(lab.group().check(false)).expect("the check runs");
    assert!(
        report.problems.iter().any(|problem| problem.text.contains("to the catalog twice")),
        "{:?}",
        report.problems
    );
    lab.kill();
}

/// A catalog page is damaged on one disk, which goes offline before the page is rewritten there:
/// the read returns the page.
#[test]
fn a_page_is_read_although_the_disk_with_its_damaged_mirror_goes_offline() {
    // Before the damaged mirror is read again, and after that.
    [1, 2].into_iter().for_each(a_damaged_mirror_goes);
}

fn a_damaged_mirror_goes(after: u32) {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.create_file("table");
    lab.dismount();
    lab.mount();
    let group = lab.group();
    let membership = group.voters.current();
    let has_page = |run: &&CatalogRun| run.file == CatalogFile::Database && run.at == 0;
    let run = membership.catalog.iter().find(has_page).expect("it has mirrors");
    let page = PAGE_SIZE as u64;
    let place = group.members[&run.disk].layout().au_offset(run.first) + page;
    lab.disks[usize::from(run.disk.0)].corrupt(place, &pattern(7, PAGE_SIZE));
    let found = Cell::new(0);
    let age = |bytes: &[u8]| {
        let age = page::written(bytes, 2);
        if age.is_none() && found.replace(found.get() + 1) + 1 == after {
            block_on(group.voters.expel(run.disk, "it failed", false)).expect("it can be spared");
        }
        age
    };
    let read = group
        .store
        .read(CatalogFile::Database, page, PAGE_SIZE, &age)
        .expect("the other mirrors have it");
    assert!(found.get() == after && page::written(&read, 2).is_some());
    assert_eq!(lab.state(run.disk.0.into()), DiskState::Offline);
}

/// A catalog page is damaged on one disk, and no mirror of it can be read any more when it is to be
/// rewritten. The read returns the page, and bytes that may be out of date by then are written
/// nowhere.
#[test]
fn a_page_that_no_mirror_has_any_more_is_not_rewritten() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.create_file("table");
    lab.sync(lab.find("table"));
    let store = &lab.group().store;
    let looks = Cell::new(0);
    let age = |bytes: &[u8]| {
        looks.set(looks.get() + 1);
        // First one mirror is damaged, then all are.
        (looks.get() == 2 || looks.get() == 3).then(|| page::written(bytes, 1)).flatten()
    };
    let before = lab.disks.iter().map(|disk| disk.counts().bytes_written).sum::<u64>();
    let read = store.read(CatalogFile::Database, 0, PAGE_SIZE, &age).expect("two mirrors had it");
    assert!(page::written(&read, 1).is_some() && looks.get() == 6, "{}", looks.get());
    assert_eq!(lab.disks.iter().map(|disk| disk.counts().bytes_written).sum::<u64>(), before);
}

/// One mirror of the catalog's log has rotted, and another mirror is lost. The new mirror gets the
/// bytes that were written, from memory.
#[test]
fn rot_in_the_catalogs_log_does_not_spread() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D"]);
    lab.create_file("table");
    lab.sync(lab.find("table"));
    let group = lab.group();
    let log = |disk: DiskNumber| {
        let membership = group.voters.current();
        let run = membership
            .catalog
            .iter()
            .find(|run| run.file == CatalogFile::Wal && run.disk == disk && run.at == 0)?;
        Some((usize::from(disk.0), group.members[&disk].layout().au_offset(run.first)))
    };
    let disks: Vec<_> = group.members.values().map(|member| member.number).collect();
    let before: Vec<_> = disks.iter().filter_map(|disk| log(*disk)).collect();
    let spare = disks.iter().find(|disk| log(**disk).is_none()).expect("three of four have it");
    let (rotten, place) = before[0];
    let length = usize::try_from(group.catalog.log_bytes()).expect("short") / 4096 * 4096;
    let right = lab.disks[rotten].peek(place, length);
    lab.disks[rotten].corrupt(place + 4096, &pattern(7, 4096));
    let (goes, _) = before[2];
    block_on(group.voters.expel(lab.member(goes).number, "it failed", false))
        .expect("it can be spared");
    lab.wait_for("a new mirror", || log(*spare).is_some());
    let (new, at) = log(*spare).expect("it is there");
    for (disk, at) in [(new, at), (rotten, place)] {
        assert!(lab.disks[disk].peek(at, length) == right, "disk {disk} has rot");
    }
    assert!(lab.told("of the catalog's log is not what was written at 4096; written again"));
}

/// A read finds a catalog page damaged on one disk. Before it is rewritten there, the catalog
/// writes a newer page to all mirrors: the repair does not put the older page over that.
#[test]
fn a_repair_does_not_overwrite_a_newer_catalog_page() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.create_file("table");
    lab.dismount();
    lab.mount();
    let group = lab.group();
    let store = &group.store;
    let (database, page_size) = (CatalogFile::Database, PAGE_SIZE as u64);
    let membership = group.voters.current();
    let run = membership
        .catalog
        .iter()
        .find(|run| run.file == database && run.at == 0)
        .expect("it has mirrors");
    let place = group.members[&run.disk].layout().au_offset(run.first) + page_size;
    let mut newer = lab.disks[usize::from(run.disk.0)].peek(place, PAGE_SIZE);
    lab.disks[usize::from(run.disk.0)].corrupt(place, &pattern(7, PAGE_SIZE));
    let write = page::written(&newer, 2).expect("it was good") + 1;
    page::seal(&mut newer, 2, write);
    let newer = Buffer::copy_of(&newer).share();
    let written = Cell::new(false);
    let age = |bytes: &[u8]| {
        let age = page::written(bytes, 2);
        if age.is_none() && !written.replace(true) {
            store.write(database, page_size, newer.clone()).expect("every mirror takes it");
        }
        age
    };
    let read = store.read(database, page_size, PAGE_SIZE, &age).expect("the other mirrors have it");
    assert!(written.get() && read.len() == PAGE_SIZE);
    for mirror in store.mirrors(database) {
        let found =
            store.read_mirror(database, mirror, page_size, PAGE_SIZE).expect("it can be read");
        assert!(
            found[..] == newer[..],
            "mirror {mirror} is of write {:?}, not {write}",
            page::written(&found, 2)
        );
    }
}
