//! Devices that take I/O and never answer, when a group is mounted: a stranger's, a member that can be spared, one that cannot.

use super::*;
use crate::{admin::Code, buffer::Buffer, flight::Settled, space::AuState};
use plinth_format::membership::Membership;
use std::sync::atomic::Ordering;

/// A device of nobody's hangs. Mounts and returns of disks do not wait for it, and nothing goes OFFLINE.
#[test]
fn a_stranger_that_hangs_is_in_nobodys_way() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.sync(node);
    let stranger = MemoryDisk::noisy("/a-stranger", 64 * MIB, 512, 4096, 99);
    stranger.faults(|faults| faults.hang = true);
    lab.world.attach(&stranger);
    lab.kill();
    lab.mount();
    assert!((0..3).all(|disk| lab.state(disk) == DiskState::Online));
    assert!(lab.told("/a-stranger does not answer"));
    block_on(lab.group().offline(Selection::Disks(vec!["DATA_0001".into()]), None)).expect("it can be spared");
    lab.online_all();
    lab.wait_for("its return", || lab.state(1) == DiskState::Online);
    assert_eq!(lab.read(lab.find("table"), 0, 300_000), pattern(1, 300_000));
    stranger.heal();
    lab.check();
}

/// A copy of a disk is faster than the disk: it is not taken for it. Nothing is missed as long as a device that has not answered may be it.
#[test]
fn a_copy_that_answers_first_is_not_taken_for_the_disk() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.sync(node);
    lab.dismount();
    let copy = lab.disks[1].twin_at("/copy");
    lab.world.attach(&copy);
    let late = lab.disks[1].clone();
    late.faults(|faults| faults.hang = true);
    let answers = std::thread::spawn(move || {
        // Longer than what is needed by nobody is waited for.
        std::thread::sleep(Duration::from_secs(3));
        late.heal();
    });
    lab.mount();
    answers.join().expect("no panic");
    assert!((0..3).all(|disk| lab.state(disk) == DiskState::Online));
    assert_eq!(lab.group().members.values().nth(1).expect("a disk").path(), "/disk1");
    assert!(lab.told("/copy is a copy of disk DATA_0001"));
    lab.check();
}

/// A disk of the group hangs and can be spared: the mount does without it, names it, and it comes back by itself when it answers.
#[test]
fn a_member_that_hangs_at_a_mount_is_missing() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.sync(node);
    lab.kill();
    lab.disks[1].faults(|faults| faults.hang = true);
    lab.mount();
    assert_eq!(lab.state(1), DiskState::Offline);
    assert!(lab.told("/disk1 does not answer"));
    assert_eq!(lab.read(lab.find("table"), 0, 300_000), pattern(1, 300_000));
    lab.disks[1].heal();
    lab.wait_for("its return", || lab.state(1) == DiskState::Online);
    lab.check();
}

/// One that is needed refuses the mount, which says what hangs.
#[test]
fn a_group_that_needs_a_disk_that_hangs_is_refused() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.dismount();
    lab.disks[1].faults(|faults| faults.hang = true);
    let refused = lab.try_mount(false).expect_err("one of two voters");
    assert_eq!(refused.code, Code::NoQuorum, "{refused}");
    assert!(refused.to_string().contains("/disk1 does not answer"), "{refused}");
    lab.disks[1].heal();
    lab.mount();
    lab.check();
}

/// A mirror of the catalog could not be built, as its disk hangs: what was written there may land yet, so nobody gets the place before.
#[test]
fn what_was_written_on_a_disk_that_hangs_lands_in_nobodys_place() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let group = lab.group();
    let member = Arc::clone(group.members.values().nth(1).expect("two"));
    let au = group.space().allocate_reserved(member.number).expect("there is room");
    lab.disks[1].faults(|faults| faults.hang = true);
    let written = member.start_write(member.layout().au_offset(au), Buffer::zeroed(4096).share());
    assert!(matches!(block_on(written.settle()), Settled::Overdue));
    group.store.give_back(member.number, &[au]);
    assert_eq!(group.space().state(member.number, au), Some(AuState::Used));
    lab.disks[1].heal();
    lab.create_file("table");
    lab.check();
    lab.wait_for("its place", || group.space().state(member.number, au) != Some(AuState::Used));
}

/// A disk takes its time over a write to the catalog's log, and meanwhile that mirror of the log is struck: its place is nobody else's before the
/// write has ended.
#[test]
fn what_the_catalog_still_writes_lands_in_nobodys_place() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let group = lab.group();
    // For as long as this takes the disk is not silent.
    group.deadline.store(10_000, Ordering::Relaxed);
    let number = group.members.values().nth(2).expect("three").number;
    let mut runs = group.voters.current().catalog.clone();
    runs.retain(|run| (run.file, run.disk) == (CatalogFile::Wal, number));
    assert!(!runs.is_empty());
    let log = lab.runs_of(CatalogFile::Wal, 2);
    lab.disks[2].faults(|faults| faults.hang_writes = log);
    let session = lab.session();
    let maker = std::thread::spawn(move || {
        block_on(session.create(ROOT, b"table", NewFile::Regular, 0o644, ROOT_CALLER)).map(|_| ())
    });
    lab.wait_for("a write to the log", || lab.disks[2].hung() > 0);
    let strike = |next: &mut Membership| {
        next.catalog.retain(|run| !runs.contains(run));
        Ok(true)
    };
    block_on(group.voters.change(strike)).expect("it is recorded");
    group.store.free_struck();
    let are_used = || {
        let space = group.space();
        let mut units = runs.iter().flat_map(|run| run.first..run.first + run.count);
        units.all(|au| space.state(number, au) == Some(AuState::Used))
    };
    let before = are_used();
    lab.disks[2].heal();
    maker.join().expect("no panic").expect("it is made");
    assert!(before, "somebody else could have been given what was written to");
    lab.wait_for("its place", || !are_used());
    lab.check();
}
