//! Disks that return after they were offline or missing, and their resyncs.

use super::*;
use std::collections::BTreeSet;

/// A group of two halves that were mounted by force, each without the other. It is mounted with the
/// second half. The first, which has the longer history, is found and loses: it is to be copied
/// whole.
fn with_a_losing_half() -> Lab {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 200_000));
    lab.sync(node);
    lab.dismount();
    lab.detach("/disk1");
    for round in 0..6 {
        lab.try_mount(true).expect("it is forced");
        for part in 0..3 {
            lab.write(lab.find("table"), part * 5 * MIB, &pattern(50 + round, 200_000));
        }
        lab.dismount();
    }
    lab.detach("/disk0");
    lab.attach(&lab.disk(1));
    lab.try_mount(true).expect("it is forced");
    lab.write(lab.find("table"), 0, &pattern(2, 200_000));
    lab.attach(&lab.disk(0));
    lab
}

/// The half that lost after a forced mount had the longer history: its records do not count once it
/// has been copied.
#[test]
fn the_longer_history_of_a_losing_half_does_not_count_once_it_is_copied() {
    let lab = with_a_losing_half();
    lab.online_all();
    lab.kill();
    lab.mount();
    assert!(lab.told("; 1 active region;"), "the log of the winner counts");
    assert_eq!(lab.read(lab.find("table"), 0, 200_000), pattern(2, 200_000));
    lab.online_all();
    lab.check();
}

/// The same with four failure groups, where the last one to return gets only one record before the
/// engine is killed.
#[test]
fn the_last_disk_of_a_losing_half_does_not_bring_its_history_back() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D"]);
    let node = lab.create_file("table");
    lab.write(node, 0, b"both");
    lab.sync(node);
    lab.dismount();
    lab.detach("/disk0");
    lab.detach("/disk1");
    for _ in 0..8 {
        if lab.try_mount(true).is_err() {
            // The catalog has no mirror there: then there is no such history.
            return;
        }
        lab.dismount();
    }
    lab.detach("/disk2");
    lab.detach("/disk3");
    lab.attach(&lab.disk(0));
    lab.attach(&lab.disk(1));
    lab.try_mount(true).expect("it is forced");
    let kept = lab.create_file("kept");
    lab.write(kept, 0, b"kept");
    lab.attach(&lab.disk(2));
    lab.attach(&lab.disk(3));
    lab.online_all();
    lab.kill();
    lab.mount();
    assert_eq!(lab.read(lab.find("kept"), 0, 10), b"kept");
}

/// A disk has its mirror of the catalog from the moment when it is online: the other disk may fail
/// at once.
#[test]
fn a_disk_comes_online_with_the_catalog() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.offline(1);
    lab.write(node, 0, &pattern(2, 300_000));
    lab.online(1);
    lab.wait_for("the disk", || {
        lab.world().newest_membership().disks[1].state == DiskState::Online
    });
    // The voters have it before the engine goes by it, and it is the engine that the writes ask.
    lab.wait_for("the engine", || lab.state(1) == DiskState::Online);
    let membership = lab.world().newest_membership();
    for file in
        [plinth_engine::catalog::CatalogFile::Database, plinth_engine::catalog::CatalogFile::Wal]
    {
        let runs = membership.catalog.iter().filter(|run| run.file == file);
        assert!(
            runs.clone().any(|run| run.disk == membership.disks[1].number),
            "{file:?}: {runs:?}"
        );
    }
    lab.silence(0);
    lab.write(node, 0, &pattern(3, 300_000));
    lab.sync(node);
    assert_eq!(lab.read(node, 0, 300_000), pattern(3, 300_000));
    lab.disk(0).heal();
    lab.online_all();
    lab.check();
}

/// While one failure group was alone, two of its disks got mirrors of the catalog. When the others
/// are back, each failure group has one.
#[test]
fn the_catalog_spreads_again_when_failure_groups_return() {
    let lab = Lab::new(Redundancy::High, 64 * MIB, &["A", "A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    for disk in [0, 2, 3] {
        lab.offline(disk);
    }
    for disk in [0, 2, 3] {
        lab.online(disk);
        lab.wait_for("the resync", || lab.state(disk) == DiskState::Online);
    }
    lab.wait_for("the end of the resyncs", || {
        lab.group().operations().iter().all(|work| work.state != OperationState::Run)
    });
    let membership = lab.world().newest_membership();
    for file in
        [plinth_engine::catalog::CatalogFile::Database, plinth_engine::catalog::CatalogFile::Wal]
    {
        let runs = membership.catalog.iter().filter(|run| run.file == file);
        let on: BTreeSet<_> = runs
            .filter_map(|run| membership.disk(run.disk))
            .map(|disk| &disk.failure_group)
            .collect();
        assert_eq!(on.len(), 3, "{file:?}: {:?}", membership.catalog);
    }
    lab.check();
    for lost in [&[0, 1][..], &[2]] {
        lost.iter().for_each(|disk| lab.silence(*disk));
        lab.write(node, 0, &pattern(2, 300_000));
        lab.sync(node);
    }
    assert_eq!(lab.read(node, 0, 300_000), pattern(2, 300_000));
    lab.disks().iter().for_each(SimDisk::heal);
    lab.online_all();
    lab.check();
    lab.dismount();
}

/// A quorum disk has nothing to copy when it comes back, and that raises no alarm either.
#[test]
fn a_quorum_disk_that_comes_back_raises_no_alarm() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "Q"]);
    lab.offline(2);
    lab.online(2);
    lab.wait_for("its return", || lab.told("disk DATA_0002 is online"));
    assert_eq!(lab.state(2), DiskState::Online);
    assert!(!lab.told("ended"));
}

/// A disk fails that no client reads or writes. A check finds that, and with REPAIR takes the disk
/// offline.
#[test]
fn a_check_with_repair_takes_a_failing_disk_offline() {
    let lab = Lab::new(Redundancy::High, 64 * MIB, &["A", "B", "C", "D"]);
    lab.disk(3).faults(|faults| faults.failing_reads = EVERY);
    let report = block_on(lab.group().check(false)).expect("the check runs");
    assert!(
        report
            .problems
            .iter()
            .any(|problem| problem.text.contains("no copy of its header is valid"))
    );
    assert_eq!(lab.state(3), DiskState::Online);
    let report = block_on(lab.group().check(true)).expect("the check runs");
    assert!(report.problems.iter().all(|problem| problem.repaired), "{:?}", report.problems);
    assert_eq!(lab.state(3), DiskState::Offline);
    lab.check();
}

/// Disks that were only absent, and starts that wait for late ones: `absent.rs`, `arrival.rs`.
impl Lab {
    fn online_again(&self, disk: usize) {
        self.wait_for("its return", || self.state(disk) == DiskState::Online);
    }

    /// Removes a disk's device while it is used.
    fn pull(&self, disk: usize, node: Node, seed: u64) {
        self.silence(disk);
        self.detach(self.disk(disk).label());
        self.write(node, 0, &pattern(seed, 300_000));
        self.wait_for("the loss", || self.state(disk) == DiskState::Offline);
    }

    fn plug(&self, disk: usize) {
        self.disk(disk).heal();
        self.attach(&self.disk(disk));
    }
}

/// A disk stays absent when its engine dies: the next engine brings it online.
#[test]
fn an_absent_disk_comes_online_by_itself_under_the_next_engine() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.pull(1, node, 2);
    lab.wait_for("the look", || lab.entry(1).absent);
    lab.kill();
    lab.mount();
    assert!(lab.entry(1).absent && lab.state(1) == DiskState::Offline);
    lab.plug(1);
    lab.online_again(1);
    assert_eq!(lab.read(lab.find("table"), 0, 300_000), pattern(2, 300_000));
    lab.check();
}

/// A device is removed while the group is used, comes back, and does both once more: then it must
/// stay for a while before the disk comes online.
#[test]
fn a_disk_that_vanishes_comes_online_by_itself_later_each_time() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.pull(1, node, 1);
    lab.wait_for("the look", || {
        lab.told("disk DATA_0001 is gone from /disk1; it comes ONLINE by itself")
    });
    lab.plug(1);
    lab.online_again(1);
    lab.pull(1, node, 2);
    lab.wait_for("the look", || lab.entry(1).absent);
    lab.plug(1);
    lab.wait_for("the warning", || {
        lab.told("has come and gone once within a day: it comes ONLINE when it has stayed for 30 s")
    });
    assert_eq!(lab.state(1), DiskState::Offline);
    lab.wait(Duration::from_secs(31));
    lab.online_again(1);
    assert_eq!(lab.read(node, 0, 300_000), pattern(2, 300_000));
    lab.check();
}
