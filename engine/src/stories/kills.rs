//! Kills and power cuts between any two I/Os of a mount, a dismount, a workload, a disk loss and
//! a resync.

use super::*;
use crate::testing::Fuse;
use plinth_format::{
    DiskNumber,
    activity::ActivityLog,
    header::Status,
    layout::{ACTIVITY_SLOT, FIRST_AREA, MEMBERSHIP_SLOT},
    membership::Membership,
};
use std::cell::{Cell, RefCell};

/// How the host ends when the fuse has blown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Kill,
    PowerCut,
    Torn,
}

/// Runs `work` on twins of the lab's disks once for each place at which it can be interrupted, and
/// calls `verify` with the disks that are left.
pub(super) fn cut_short(
    lab: &Lab,
    stride: u64,
    work: impl Fn(&mut Lab) + Copy + Send + Sync + 'static,
    verify: impl Fn(&mut Lab, &str),
) {
    cut_short_by(&[End::Kill, End::PowerCut, End::Torn], lab, stride, work, verify);
}

/// The number of places that are tried in one process. Killed engines stay in it: their threads
/// wait for answers that never come.
const PLACES: usize = 40;
/// The environment variable that selects the part of a process: the number of the call in its test,
/// and the number of the part.
const PART: &str = "PLINTH_CUT_SHORT";
/// A process prints this when there are no more parts.
const ALL_TRIED: &str = "every place was tried";

/// A process prints this before the number of each outcome.
const MET: &str = "met outcome ";

thread_local! {
    /// The number of calls of [`cut_short_by`] in this test so far, and whether one is running.
    static CALLS: Cell<(usize, bool)> = const { Cell::new((0, false)) };
    /// The outcomes of this test, in all its processes.
    static OUTCOMES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Records the outcome of a place that was verified.
pub(super) fn met(outcome: usize) {
    OUTCOMES.with_borrow_mut(|all| all.push(outcome));
    println!("{MET}{outcome}");
}

/// After all places: fails the test unless each outcome, from 0 on, occurred more than
/// `more_often_than` times.
pub(super) fn each_was_met(outcomes: usize, more_often_than: usize) {
    if std::env::var_os(PART).is_none() {
        let all = OUTCOMES.take();
        let often = |outcome| all.iter().filter(|met| **met == outcome).count();
        let counts: Vec<_> = (0..outcomes).map(often).collect();
        assert!(counts.iter().all(|count| *count > more_often_than), "{counts:?}");
    }
}

/// As [`cut_short`], with the `ends` taken in turn.
pub(super) fn cut_short_by(
    ends: &[End],
    lab: &Lab,
    stride: u64,
    work: impl Fn(&mut Lab) + Copy + Send + Sync + 'static,
    verify: impl Fn(&mut Lab, &str),
) {
    let (call, is_within) = CALLS.get();
    let test =
        std::thread::current().name().filter(|name| name.contains("::")).map(ToOwned::to_owned);
    let Some(test) = test.filter(|_| !is_within) else {
        try_places(0.., ends, lab, stride, work, verify);
        return;
    };
    CALLS.set((call + 1, true));
    match std::env::var(PART) {
        Ok(part) => {
            let mut numbers = part.split(' ').map(|number| number.parse().expect("a number"));
            if numbers.next() == Some(call) {
                let first = numbers.next().expect("a part") * PLACES;
                if try_places(first..first + PLACES, ends, lab, stride, work, verify) {
                    println!("{ALL_TRIED}");
                }
            }
        }
        Err(_) => {
            let mut parts = 0..;
            while !try_part(&test, call, parts.next().expect("there is always one more")) {}
        }
    }
    CALLS.set((call + 1, false));
}

/// Tries some places in a process of its own. Returns whether those were the last.
fn try_part(test: &str, call: usize, part: usize) -> bool {
    let mut process = std::process::Command::new(std::env::current_exe().expect("this test"));
    let ended =
        process.args([test, "--exact", "--nocapture"]).env(PART, format!("{call} {part}")).output();
    let ended = ended.expect("it can be run again");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success(),
        "part {part}: {said}\n{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let outcomes = said.lines().filter_map(|line| line.strip_prefix(MET)?.parse::<usize>().ok());
    OUTCOMES.with_borrow_mut(|all| all.extend(outcomes));
    said.contains(ALL_TRIED)
}

/// Tries these places. Returns whether the work ended before the last of them.
fn try_places(
    numbers: impl Iterator<Item = usize>,
    ends: &[End],
    lab: &Lab,
    stride: u64,
    work: impl Fn(&mut Lab) + Copy + Send + Sync + 'static,
    verify: impl Fn(&mut Lab, &str),
) -> bool {
    for places in numbers {
        let (changes, end) = (places as u64 * stride, ends[places % ends.len()]);
        let disks: Vec<MemoryDisk> = lab.disks.iter().map(MemoryDisk::twin).collect();
        let fuse = Fuse::new(changes);
        disks.iter().for_each(|disk| disk.put_fuse(&fuse));
        let world = lab.world.successor(&disks);
        let doomed_world = Arc::clone(&world);
        let mut doomed = Lab {
            world,
            disks: disks.clone(),
            group: None,
            redundancy: lab.redundancy,
            groups: lab.groups.clone(),
            used: lab.used,
        };
        let worker = std::thread::spawn(move || work(&mut doomed));
        while !fuse.is_blown() && !worker.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !fuse.is_blown() {
            worker.join().expect("no panic");
            assert!(places > 3, "only {places} places were tried");
            return true;
        }
        // The worker waits for an answer that never comes.
        doomed_world.stop_time();
        let doomed_disks = disks;
        let disks: Vec<_> = doomed_disks.iter().map(MemoryDisk::twin).collect();
        doomed_disks.iter().for_each(MemoryDisk::scrap);
        let world = lab.world.successor(&disks);
        if end != End::Kill {
            world.reboot();
        }
        for (disk, index) in disks.iter().zip(0..) {
            match end {
                End::Kill => {}
                End::PowerCut => disk.cut_power(changes * 10 + index),
                End::Torn => disk.tear_and_cut_power(changes * 10 + index),
            }
        }
        let mut heir = Lab {
            world,
            disks,
            group: None,
            redundancy: lab.redundancy,
            groups: lab.groups.clone(),
            used: lab.used,
        };
        verify(&mut heir, &format!("{end:?} after {changes} changes"));
    }
    false
}

fn verify_table(heir: &mut Lab, place: &str) {
    if let Err(error) = heir.try_mount(false) {
        panic!("{place}: {error} ({:?})", error.hint);
    }
    assert_eq!(heir.read(heir.find("table"), 0, 300_000), pattern(1, 300_000), "{place}");
    heir.online_all();
    heir.check();
    let other = heir.create_file("after");
    heir.write(other, 0, &pattern(9, 100_000));
    heir.dismount();
    heir.mount();
    assert_eq!(heir.read(heir.find("table"), 0, 300_000), pattern(1, 300_000), "{place}");
    assert_eq!(heir.read(heir.find("after"), 0, 100_000), pattern(9, 100_000), "{place}");
    heir.check();
    heir.dismount();
}

pub(super) fn prepared(kill: bool) -> Lab {
    prepared_with(&["A", "B", "C"], kill)
}

fn prepared_with(failure_groups: &[&str], kill: bool) -> Lab {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, failure_groups);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.sync(node);
    block_on(lab.session().sync_directory(ROOT)).expect("synced");
    if kill {
        lab.kill();
    } else {
        lab.dismount();
    }
    lab
}

/// A mount is interrupted, after a dismount and after a kill: the next mount finds the file, and a
/// check finds no problem.
#[test]
fn an_interrupted_mount_loses_nothing() {
    for kill in [false, true] {
        cut_short(&prepared(kill), 3, |doomed| drop(doomed.try_mount(false)), verify_table);
    }
}

/// A mount is interrupted, and so is the next one: whatever stamps that leaves, no disk is taken
/// for an old image of itself.
#[test]
fn all_disks_are_online_after_two_interrupted_mounts() {
    cut_short(
        &prepared(true),
        5,
        |doomed| drop(doomed.try_mount(false)),
        |once, first| {
            cut_short(
                once,
                3,
                |doomed| drop(doomed.try_mount(false)),
                |twice, second| {
                    twice.mount();
                    let mut members = twice.group().members();
                    members.retain(|(_, state)| {
                        *state != plinth_format::membership::DiskState::Online
                    });
                    assert!(members.is_empty(), "{first}, {second}: {members:?}");
                    twice.check();
                    twice.dismount();
                },
            );
        },
    );
}

/// A renaming of disks is interrupted: they have all the old names or all the new ones, and the
/// headers agree after the next mount.
#[test]
fn an_interrupted_renaming_of_disks_is_all_or_nothing() {
    cut_short(
        &prepared(false),
        2,
        |doomed| {
            if doomed.try_mount(false).is_ok() {
                let _ = doomed.rename(&[
                    ("DATA_0000", "DATA_0001"),
                    ("DATA_0001", "DATA_0000"),
                    ("DATA_0002", "LAST"),
                ]);
            }
        },
        |heir, place| {
            heir.mount();
            let names = heir.names();
            let is_new = names == ["DATA_0001", "DATA_0000", "LAST"];
            assert!(
                is_new || names == ["DATA_0000", "DATA_0001", "DATA_0002"],
                "{place}: {names:?}"
            );
            met(usize::from(is_new));
            assert_eq!(heir.header_names(), names, "{place}");
            heir.check();
            heir.dismount();
        },
    );
    each_was_met(2, 2);
}

/// A resize to a smaller size is interrupted: whatever part of it is on record, the next mount does
/// the rest, and finds every header.
#[test]
fn an_interrupted_resize_is_all_or_nothing() {
    let mut lab = Lab::new(Redundancy::Normal, 32 * MIB, &["A", "B", "C"]);
    lab.fill_the_end(6 << 20);
    lab.dismount();
    cut_short(
        &lab,
        5,
        |doomed| {
            if doomed.try_mount(false).is_ok() && doomed.resize(None, Some(20 * MIB)).is_ok() {
                doomed.wait_a_while();
            }
        },
        |heir, place| {
            heir.mount();
            heir.rebalanced_if_begun();
            assert!(heir.group().resizing().is_empty(), "{place}: it does not go on");
            let sizes = heir.sizes();
            let is_new = sizes == [20 * MIB; 3];
            assert!(is_new || sizes == [32 * MIB; 3], "{place}: {sizes:?}");
            met(usize::from(is_new));
            assert!(heir.read(heir.find("table"), 0, 6 << 20) == pattern(2, 6 << 20), "{place}");
            heir.check();
            heir.dismount();
        },
    );
    each_was_met(2, 2);
}

/// The exchange of a disk with a vote, a mirror of the catalog and mirrors of files is interrupted:
/// whatever part of it is on record, the next mount does the rest. The old disk is not needed once
/// its header says FORMER.
#[test]
fn an_interrupted_exchange_of_a_voter_is_all_or_nothing() {
    let mut lab = prepared(false);
    let path = lab.spare(64 * MIB);
    assert_eq!(path, "/disk3");
    cut_short(
        &lab,
        2,
        |doomed| {
            doomed.mount();
            if doomed.exchange(&[("/disk3", "D")], &["DATA_0000"], false).is_ok() {
                doomed.wait_a_while();
            }
        },
        |heir, place| {
            heir.mount();
            heir.rebalanced_if_begun();
            let is_dropped = heir.status(0) == Status::Former;
            met(usize::from(is_dropped));
            let membership = heir.group().voters.current();
            assert_eq!(membership.disk(DiskNumber(0)).is_none(), is_dropped, "{place}");
            assert!(
                membership.disks.len() >= 3 && membership.disks.iter().all(|disk| disk.votes),
                "{place}"
            );
            heir.check();
            heir.dismount();
            if is_dropped {
                heir.world.detach("/disk0");
            }
            heir.mount();
            assert_eq!(heir.read(heir.find("table"), 0, 300_000), pattern(1, 300_000), "{place}");
            heir.check();
            heir.dismount();
        },
    );
    each_was_met(2, 2);
}

/// Writes, a punch, a truncation, a removal and the dismount after them are interrupted.
#[test]
fn an_interrupted_workload_or_dismount_loses_nothing() {
    let work = |doomed: &mut Lab| {
        doomed.mount();
        let node = doomed.create_file("other");
        doomed.write(node, 0, &pattern(2, 30_000));
        doomed.write(node, 0, &pattern(3, 200_000));
        doomed.sync(node);
        block_on(doomed.session().allocate(node, 10_000, 150_000, Allocate::PunchHole, false))
            .expect("punched");
        block_on(doomed.session().change(node, Changes { size: Some(5000), ..Changes::default() }))
            .expect("cut");
        block_on(doomed.session().unlink(ROOT, b"other")).expect("removed");
        doomed.dismount();
    };
    cut_short(&prepared(false), 5, work, verify_table);
}

/// The loss of a disk during writes, and its resync, are interrupted.
#[test]
fn an_interrupted_disk_loss_or_resync_loses_nothing() {
    let work = |doomed: &mut Lab| {
        doomed.mount();
        doomed.disks[1].faults(|faults| faults.fail_writes = true);
        let node = doomed.create_file("other");
        doomed.write(node, 0, &pattern(3, 2_000_000));
        doomed.disks[1].faults(|faults| faults.fail_writes = false);
        doomed.online_all();
        doomed.dismount();
    };
    cut_short(&prepared(false), 5, work, verify_table);
}

/// The voting disk of a failure group fails, another disk of the failure group takes over its vote,
/// and that is interrupted.
#[test]
fn an_interrupted_move_of_a_vote_loses_nothing() {
    let work = |doomed: &mut Lab| {
        doomed.mount();
        doomed.disks[2].faults(|faults| faults.fail_writes = true);
        let node = doomed.create_file("other");
        doomed.write(node, 0, &pattern(3, 300_000));
        doomed.sync(node);
        doomed.disks[2].faults(|faults| faults.fail_writes = false);
        doomed.dismount();
    };
    cut_short(&prepared_with(&["A", "A", "B", "B"], false), 1, work, verify_table);
}

/// One of two voters lost the newest membership and still holds the one before it, in the slot that
/// the next one goes to. A mount that is interrupted there must not leave that voter without a
/// membership.
#[test]
fn an_interrupted_mount_that_found_a_torn_membership_loses_nothing() {
    let lab = prepared_with(&["A", "B"], true);
    let newest = FIRST_AREA.memberships.into_iter().max_by_key(|place| {
        Membership::decode(&lab.disks[1].peek(*place, MEMBERSHIP_SLOT), *place)
            .map_or(0, |(_, found)| found.generation)
    });
    lab.disks[1].corrupt(newest.expect("two slots"), &pattern(5, 4096));
    cut_short_by(&[End::Torn], &lab, 1, |doomed| drop(doomed.try_mount(false)), verify_table);
}

/// An interrupted write of a membership left its first sector on a disk. The next mount writes
/// another membership of that generation, with the same bytes from there on. A power cut that loses
/// the new first sector and keeps the other sectors must not make the earlier membership valid,
/// which no engine used.
#[test]
fn a_torn_membership_is_not_completed_by_the_next_one() {
    const SECTOR: usize = 512;
    let lab = prepared(true);
    let found = |disk: &MemoryDisk, place: u64| {
        Membership::decode(&disk.peek(place, MEMBERSHIP_SLOT), place).ok()
    };
    let generation =
        |disk: &MemoryDisk, place: u64| found(disk, place).map_or(0, |(_, found)| found.generation);
    let disk = &lab.disks[0];
    let place = FIRST_AREA
        .memberships
        .into_iter()
        .min_by_key(|place| generation(disk, *place))
        .expect("two slots");
    let begun = disk.twin();
    let twins = [begun.clone(), lab.disks[1].twin(), lab.disks[2].twin()];
    let mut other = Lab {
        world: lab.world.successor(&twins),
        disks: twins.to_vec(),
        group: None,
        redundancy: lab.redundancy,
        groups: lab.groups.clone(),
        used: lab.used,
    };
    other.mount();
    let lost = found(&begun, place).expect("the first record of a mount").1;
    assert_eq!(
        lost.generation,
        generation(disk, FIRST_AREA.memberships[usize::from(place == FIRST_AREA.memberships[0])])
            + 1
    );
    disk.corrupt(place, &begun.peek(place, SECTOR));
    disk.corrupt(place + SECTOR as u64, &pattern(5, SECTOR));
    assert!(found(disk, place).is_none());
    // A power cut that keeps nothing that was not flushed.
    let all =
        (0..).find(|seed| crate::testing::Numbers::new(*seed).below(4) == 1).expect("one in four");
    cut_short_by(
        &[End::Kill],
        &lab,
        1,
        |doomed| drop(doomed.try_mount(false)),
        |heir, moment| {
            let disk = &heir.disks[0];
            if found(disk, place).is_some() {
                met(0);
            }
            let first = disk.twin();
            first.cut_power(all);
            disk.corrupt(place, &first.peek(place, SECTOR));
            assert!(found(disk, place).is_none_or(|(_, found)| found.id != lost.id), "{moment}");
        },
    );
    each_was_met(1, 3);
}

/// An activity log that lists a region had reached one voter when the engine was killed. The next
/// write there writes the log to all voters: otherwise, without that voter, the next mount would
/// find no region to compare.
#[test]
fn a_log_that_one_voter_has_is_written_to_all() {
    let mut lab = prepared(true);
    let listed = |disk: &MemoryDisk| {
        let logs = FIRST_AREA
            .activity
            .map(|place| ActivityLog::decode(&disk.peek(place, ACTIVITY_SLOT), place));
        let newest = logs.into_iter().flatten().map(|(_, log)| log).max_by_key(|log| log.sequence);
        newest.map_or(0, |log| log.regions.len())
    };
    assert!(lab.disks.iter().all(|disk| listed(disk) > 0));
    for (disk, place) in
        lab.disks[1..].iter().flat_map(|disk| FIRST_AREA.activity.map(|place| (disk, place)))
    {
        disk.corrupt(place, &pattern(5, 4096));
    }
    assert!(lab.disks[1..].iter().all(|disk| listed(disk) == 0));
    lab.mount();
    lab.write(lab.find("table"), 0, &pattern(2, 300_000));
    assert!(lab.disks.iter().all(|disk| listed(disk) > 0));
    lab.check();
}

/// The creation of a group is interrupted: the group mounts, or can be created again.
#[test]
fn an_interrupted_creation_can_be_repeated() {
    let mut lab = prepared(false);
    lab.disks = (0..2)
        .map(|index| MemoryDisk::noisy(&format!("/disk{index}"), 64 * MIB, 512, 4096, index))
        .collect();
    lab.groups.truncate(2);
    cut_short(
        &lab,
        5,
        |doomed| drop(doomed.create(MIB)),
        |heir, place| {
            if heir.try_mount(false).is_err() {
                let made = heir.create(MIB).or_else(|_| heir.create_by_force(MIB));
                made.unwrap_or_else(|error| panic!("{place}: {error}"));
                heir.mount();
            }
            heir.check();
            heir.dismount();
        },
    );
}
