//! Devices that accept I/O and never answer when a group is mounted: a device of no group, a member
//! that can be spared, and one that cannot.

use super::*;
use crate::{admin::Code, disk::disk_io::IoResult, space::AuState, sync::buffer::Buffer};
use plinth_format::{
    BLOCK_SIZE,
    membership::{CatalogRun, Membership},
};
use std::sync::atomic::Ordering;

/// A device that belongs to no group hangs. Mounts, and disks that return, do not wait for it, and
/// no disk goes OFFLINE.
#[test]
fn a_hanging_device_of_no_group_blocks_no_mount() {
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
    block_on(lab.group().offline(Selection::Disks(vec!["DATA_0001".into()]), None))
        .expect("it can be spared");
    lab.online_all();
    lab.wait_for("its return", || lab.state(1) == DiskState::Online);
    assert_eq!(lab.read(lab.find("table"), 0, 300_000), pattern(1, 300_000));
    stranger.heal();
    lab.check();
}

/// A copy of a disk answers before the disk, and is not taken for it: no disk counts as missing as
/// long as a device that has not answered may be it.
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
        // Longer than a mount waits for devices that it does not need.
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

/// A mirror of the catalog could not be built, as its disk hangs. The write may still land there,
/// so the place is not given out before it has ended.
#[test]
fn the_place_of_a_hanging_write_is_not_given_out() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let group = lab.group();
    let member = Arc::clone(group.members.values().nth(1).expect("two"));
    let au = group.space().allocate_reserved(member.number).expect("there is room");
    lab.disks[1].faults(|faults| faults.hang = true);
    let written = member.start_write(member.layout().au_offset(au), Buffer::zeroed(4096).share());
    assert!(matches!(block_on(written.result()), IoResult::Overdue));
    group.store.give_back(member.number, &[au]);
    assert_eq!(group.space().state(member.number, au), Some(AuState::Used));
    lab.disks[1].heal();
    lab.create_file("table");
    lab.check();
    lab.wait_for("its place", || group.space().state(member.number, au) != Some(AuState::Used));
}

/// A disk is slow to write to the catalog's log, and that mirror of the log is struck meanwhile.
/// Its place is not given out before the write has ended.
#[test]
fn the_place_of_a_struck_log_mirror_is_not_given_out_during_a_write() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let group = lab.group();
    // The disk does not count as hanging during this test.
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
        let mut units = runs.iter().flat_map(CatalogRun::aus);
        units.all(|au| space.state(number, au) == Some(AuState::Used))
    };
    let before = are_used();
    lab.disks[2].heal();
    maker.join().expect("no panic").expect("it is made");
    assert!(before, "the place was free during the write");
    lab.wait_for("its place", || !are_used());
    lab.check();
}

impl Lab {
    /// Kills the engine and mounts again while the voters cannot say what was being written: all
    /// but disk `last` have lost their activity logs, and that one answers after its deadline. The
    /// mount waits for it.
    fn kill_and_mount_when_a_log_is_late(&mut self, last: usize) {
        let logs: Vec<_> = (0..=last).map(|disk| self.places_of_logs(disk)).collect();
        assert!(
            (0..=last).all(|disk| self.votes(disk)) && self.disks.len() == last + 1,
            "they all vote"
        );
        self.kill();
        for (disk, logs) in self.disks.iter().zip(logs) {
            disk.fail_hung();
            disk.heal();
            disk.faults(|faults| {
                if disk.path() == self.disks[last].path() {
                    faults.hang_in = logs;
                } else {
                    // Unreadable until they are written again.
                    faults.latent = logs
                        .into_iter()
                        .map(|log| log.start..log.start + BLOCK_SIZE as u64)
                        .collect();
                }
            });
        }
        let late = self.disks[last].clone();
        let answers = std::thread::spawn(move || {
            while late.hung() == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
            // Longer than a disk may take to answer at a mount.
            std::thread::sleep(Duration::from_secs(9));
            late.answer();
        });
        self.mount();
        answers.join().expect("no panic");
    }
}

/// A write had reached one mirror and not the other when the engine was killed, and the activity
/// log that says so is on a slow disk. The mount waits for it, and the mirrors are made equal.
#[test]
fn mirrors_are_compared_although_the_activity_log_answers_late() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    // The checksums of the old bytes are on the disks.
    lab.close_regions();
    let extent = lab.extents_on(&[0, 1]).remove(0);
    let at = extent.number * MIB;
    let places: Vec<_> = (0..2)
        .map(|disk| {
            let here =
                extent.mirrors().into_iter().find(|mirror| usize::from(mirror.disk.0) == disk);
            lab.member(disk).layout().au_offset(here.expect("it has one there").au)
        })
        .collect();
    let old = lab.disks[0].peek(places[0], 8192);
    lab.disks[1].faults(|faults| faults.hang_writes.push(places[1]..places[1] + 8192));
    let session = lab.session();
    let writer =
        std::thread::spawn(move || block_on(session.write(node, at, &pattern(2, 8192), false)));
    lab.wait_for("one mirror", || {
        lab.disks[1].hung() > 0 && lab.disks[0].peek(places[0], 8192) != old
    });
    drop(extent);
    lab.kill_and_mount_when_a_log_is_late(2);
    drop(writer);
    let node = lab.find("table");
    let found = lab.read(node, at, 8192);
    assert!(found == pattern(2, 8192) || found == old);
    lab.check();
    assert!((0..2).all(|disk| lab.disks[disk].peek(places[disk], 8192) == found), "they are equal");
    assert!((0..3).all(|disk| lab.state(disk) == DiskState::Online));
}

/// The same with EXTERNAL redundancy: bytes that are newer than their checksums are read, and not
/// taken for rot.
#[test]
fn bytes_newer_than_their_checksums_are_read_although_the_log_answers_late() {
    let mut lab = Lab::new(Redundancy::External, 64 * MIB, &["A", "B", "C"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    // The checksums of the old bytes are on the disks.
    lab.close_regions();
    lab.write(node, 0, &pattern(2, 6 << 20));
    lab.kill_and_mount_when_a_log_is_late(2);
    assert!(lab.read(lab.find("table"), 0, 6 << 20) == pattern(2, 6 << 20));
    assert!(!lab.told("no good mirror"));
    lab.check();
}

/// Only one disk knows what was being written when the engine was killed, and it never answers: the
/// mount is refused, and the error names that disk.
#[test]
fn a_mount_without_the_log_of_a_silent_disk_is_refused() {
    let mut lab = Lab::new(Redundancy::External, 64 * MIB, &["A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.sync(node);
    lab.close_regions();
    lab.write(node, 0, &pattern(2, 300_000));
    let logs = lab.places_of_logs(0);
    lab.kill();
    lab.disks[0].faults(|faults| faults.hang_in = logs);
    let refused = lab.try_mount(false).expect_err("no log says what was being written");
    let reason = "what was being written is on DATA_0000, which does not answer";
    assert!(refused.code == Code::Io && refused.to_string().contains(reason), "{refused}");
    lab.disks[0].heal();
    lab.mount();
    assert_eq!(lab.read(lab.find("table"), 0, 300_000), pattern(2, 300_000));
    lab.check();
}
