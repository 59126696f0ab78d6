//! Disks that are added and dropped while the group is used.

use super::*;
use crate::{
    admin::{Departure, Exchange, NewDisk, Renaming, Replacement, Resize, Work},
    catalog::attributes,
    disk::identify,
    extent::{Extent, Mirror, data::Data},
    space::balance::Plan,
    world::Task,
};
use plinth_format::{DiskNumber, header::Status};
use std::{cell::RefCell, sync::mpsc};

impl Lab {
    /// Another disk in sight, of nobody.
    pub(super) fn spare(&mut self, size: u64) -> String {
        let number = self.disks.len();
        let disk = MemoryDisk::noisy(&format!("/disk{number}"), size, 512, 4096, number as u64 + 1);
        self.world.attach(&disk);
        self.disks.push(disk);
        format!("/disk{number}")
    }

    pub(super) fn wanted(&self, add: &[(&str, &str)], drop: &[&str], force: bool) -> Exchange {
        let new = |(path, group): &(&str, &str)| NewDisk {
            path: (*path).to_owned(),
            name: None,
            failure_group: (self.redundancy != Redundancy::External).then(|| (*group).to_owned()),
            quorum: false,
            size: None,
            force: false,
        };
        let drop = drop
            .iter()
            .map(|name| Departure { which: Selection::Disks(vec![(*name).to_owned()]), force });
        Exchange { add: add.iter().map(new).collect(), drop: drop.collect() }
    }

    pub(super) fn exchange(
        &self,
        add: &[(&str, &str)],
        drop: &[&str],
        force: bool,
    ) -> Result<(), crate::admin::AdminError> {
        block_on(self.group().exchange(self.wanted(add, drop, force), Some(4)))
    }

    /// Takes the caretaker's next task about disks that were waited for, which was held back.
    fn take_repair_time(&self) -> Task<'static, ()> {
        let task = RefCell::new(None);
        self.wait_for("the end of its time", || {
            *task.borrow_mut() = self.world.take_task("repair time");
            task.borrow().is_some()
        });
        task.into_inner().expect("it has begun")
    }

    pub(super) fn rebalance(&self) -> crate::admin::Operation {
        self.group()
            .operations()
            .into_iter()
            .find(|one| one.pass == OperationPass::Rebalance)
            .expect("it began")
    }

    /// No rebalance has begun since the mount, or it is done.
    pub(super) fn nothing_moves(&self) -> bool {
        self.group()
            .operations()
            .iter()
            .all(|one| one.pass != OperationPass::Rebalance || one.state == OperationState::Done)
    }

    /// Waits for a rebalance that the mount goes on with, if there is one.
    pub(super) fn rebalanced_if_begun(&self) {
        if self.group().operations().iter().any(|one| one.pass == OperationPass::Rebalance) {
            self.rebalanced();
        }
    }

    /// Waits for the end of a rebalance, but not for ever: the host may come to its end first.
    pub(super) fn wait_a_while(&self) {
        let running = || self.rebalance().state == OperationState::Run;
        let _ = (0..200)
            .find(|_| !running() || (std::thread::sleep(Duration::from_millis(5)), false).1);
    }

    /// Waits until mirrors have begun to move.
    fn wait_for_moves(&self) {
        self.wait_for("the first moves", || self.rebalance().so_far > 0);
    }

    pub(super) fn wait_for_the_end(&self) {
        self.wait_for("the end of the rebalance", || self.rebalance().state != OperationState::Run);
    }

    pub(super) fn rebalanced(&self) -> u64 {
        self.wait_for_the_end();
        let end = self.rebalance();
        assert_eq!((end.state, &end.error), (OperationState::Done, &None));
        end.so_far
    }

    fn plan(&self) -> Plan {
        self.group().plan_moves().expect("it fits")
    }

    /// Mirrors on each disk, by number.
    pub(super) fn held(&self) -> Vec<u64> {
        let counts = self.group().mirror_sets.counts();
        let on = |member: &std::sync::Arc<crate::disk::member::Member>| {
            counts
                .iter()
                .filter(|(set, _)| set.contains(&member.number))
                .map(|(_, count)| count)
                .sum()
        };
        self.group().members.values().map(on).collect()
    }

    pub(super) fn status(&self, disk: usize) -> Status {
        let header = block_on(identify::read_header(&*self.world(), &*self.disks[disk].open()));
        header.expect("it has a header").best.status
    }
}

/// A fifth disk gets a fifth of the mirrors, and nothing else moves.
#[test]
fn a_disk_is_added() {
    let mut lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C", "D"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 50 << 20));
    lab.sync(node);
    let before: u64 = lab.held().iter().sum();
    let path = lab.spare(128 * MIB);
    lab.exchange(&[(&path, "E")], &[], false).expect("it is added");
    let moved = lab.rebalanced();
    let held = lab.held();
    assert_eq!((held.len(), held.iter().sum::<u64>()), (5, before));
    assert_eq!(moved, held[4], "only to the new disk");
    assert!(
        held.iter().max().expect("five") - held.iter().min().expect("five") <= 2 + 24,
        "{held:?}"
    );
    assert_eq!(lab.plan().work(), 0);
    assert!(lab.read(node, 0, 50 << 20) == pattern(1, 50 << 20));
    lab.check();
    lab.dismount();
    lab.mount();
    assert_eq!(lab.held(), held);
    assert!(lab.read(lab.find("table"), 0, 50 << 20) == pattern(1, 50 << 20));
    lab.check();
}

/// Somebody gave a disk the name that the next one would have: that one takes the next free number.
#[test]
fn a_default_name_is_one_that_no_disk_has() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let paths = [lab.spare(64 * MIB), lab.spare(64 * MIB), lab.spare(64 * MIB)];
    let mut wanted = lab.wanted(&[(&paths[0], "C"), (&paths[1], "D")], &[], false);
    wanted.add[0].name = Some("DATA_0003".to_owned());
    block_on(lab.group().exchange(wanted, Some(4))).expect("they are added");
    lab.exchange(&[(&paths[2], "E")], &[], false).expect("it is added");
    lab.rebalanced();
    let names: Vec<_> =
        lab.group().members.values().map(|member| member.name().to_string()).collect();
    assert_eq!(names, ["DATA_0000", "DATA_0001", "DATA_0003", "DATA_0004", "DATA_0005"]);
    lab.check();
}

/// What a dropped disk held moves, and nothing else; then it is nobody's, and its header says so.
#[test]
fn a_disk_is_dropped_while_files_are_written() {
    let mut lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 40 << 20));
    (0..50).for_each(|number| {
        lab.write(lab.create_file(&format!("small{number}")), 0, &pattern(number, 5000))
    });
    lab.sync(node);
    let held = lab.held();
    lab.exchange(&[], &["DATA_0001"], false).expect("it leaves");
    let session = lab.session();
    let writer = std::thread::spawn(move || {
        for round in 0..40 {
            block_on(session.write(node, round << 20, &pattern(100 + round, 1 << 20), false))
                .expect("it is written");
        }
        block_on(session.sync(node, true)).expect("it is synced");
    });
    let moved = lab.rebalanced();
    writer.join().expect("no panic");
    assert!(moved >= held[1], "{moved} {held:?}");
    assert_eq!(lab.held().len(), 4);
    assert_eq!(lab.status(1), Status::Former);
    assert!(lab.told("disk DATA_0001 (/disk1) is dropped"));
    for round in 0..40 {
        assert!(lab.read(node, round << 20, 1 << 20) == pattern(100 + round, 1 << 20));
    }
    (0..50).for_each(|number| {
        assert_eq!(lab.read(lab.find(&format!("small{number}")), 0, 9999), pattern(number, 5000))
    });
    lab.check();
    lab.kill();
    lab.mount();
    assert_eq!(lab.held().len(), 4);
    for round in 0..40 {
        assert!(lab.read(lab.find("table"), round << 20, 1 << 20) == pattern(100 + round, 1 << 20));
    }
    lab.check();
    // It can come back as a new one, with another number.
    lab.exchange(&[("/disk1", "B")], &[], false).expect("it is a candidate");
    lab.rebalanced();
    assert_eq!(lab.held().len(), 5);
    lab.check();
}

/// Four disks give way to four others in one statement: each mirror moves once.
#[test]
fn all_disks_are_exchanged() {
    for redundancy in [Redundancy::External, Redundancy::Normal, Redundancy::High] {
        let mut lab = Lab::new(redundancy, 96 * MIB, &["A", "B", "C", "D"]);
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, 30 << 20));
        lab.sync(node);
        let all: u64 = lab.held().iter().sum();
        let paths: Vec<String> = (0..4).map(|_| lab.spare(96 * MIB)).collect();
        let add: Vec<(&str, &str)> =
            paths.iter().map(String::as_str).zip(["E", "F", "G", "H"]).collect();
        lab.exchange(&add, &["DATA_0000", "DATA_0001", "DATA_0002", "DATA_0003"], false)
            .expect("they are exchanged");
        assert_eq!(lab.rebalanced(), all, "{redundancy}");
        assert!((0..4).all(|disk| lab.status(disk) == Status::Former));
        (0..4).for_each(|disk| lab.world.detach(&format!("/disk{disk}")));
        assert!(lab.read(node, 0, 30 << 20) == pattern(1, 30 << 20));
        lab.check();
        lab.kill();
        lab.mount();
        assert!(lab.read(lab.find("table"), 0, 30 << 20) == pattern(1, 30 << 20));
        lab.check();
    }
}

/// The engine is killed, or the power goes, again and again while disks come and go; each mount goes on, and nothing is lost.
#[test]
fn killed_while_disks_come_and_go() {
    let mut lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 24 << 20));
    lab.sync(node);
    let path = lab.spare(96 * MIB);
    lab.exchange(&[(&path, "D")], &["DATA_0000"], false).expect("they are exchanged");
    for kill in 0..200 {
        let fuse = lab.light_fuse(20 + kill * 7);
        lab.wait_for("a kill or the end", || fuse.is_blown() || lab.nothing_moves());
        if !fuse.is_blown() {
            break;
        }
        if kill % 2 == 0 {
            lab.kill();
        } else {
            lab.cut_power(kill);
        }
        lab.no_fuse();
        lab.mount();
        assert!(lab.read(lab.find("table"), 0, 24 << 20) == pattern(1, 24 << 20));
    }
    assert_eq!(lab.held().len(), 3);
    assert_eq!(lab.status(0), Status::Former);
    lab.check();
}

/// A disk that is gone is dropped by force: what it had is copied from the other mirrors, and every file has all of them again.
#[test]
fn a_lost_disk_is_dropped() {
    let lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 20 << 20));
    lab.sync(node);
    lab.silence(2);
    lab.write(node, 0, &pattern(2, 20 << 20));
    lab.sync(node);
    lab.wait_for("the loss", || lab.state(2) == DiskState::Offline);
    let refused = lab.exchange(&[], &["DATA_0002"], false).expect_err("it is away");
    assert_eq!(refused.code, Code::WouldLoseData);
    lab.exchange(&[], &["DATA_0002"], true).expect("it is dropped by force");
    lab.rebalanced();
    assert_eq!(lab.held().len(), 2);
    lab.check();
    lab.disks[0].faults(|faults| faults.fail_reads = true);
    assert!(lab.read(node, 0, 20 << 20) == pattern(2, 20 << 20));
}

/// A disk that stays away for longer than its repair time is dropped by itself, where that can be.
#[test]
fn a_disk_is_away_for_too_long() {
    for groups in [&["A", "B", "C"][..], &["A", "B"]] {
        let lab = Lab::new(Redundancy::Normal, 96 * MIB, groups);
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, 20 << 20));
        lab.sync(node);
        for name in ["disk_repair_time", "failgroup_repair_time"] {
            block_on(lab.group().set_attribute(name, "0.02m")).expect("it is set");
        }
        block_on(lab.group().offline(Selection::Disks(vec!["DATA_0001".to_owned()]), None))
            .expect("it can be spared");
        if groups.len() == 2 {
            lab.wait_for("the alarm", || {
                lab.told("cannot be dropped: NORMAL redundancy needs 2 failure groups")
            });
            assert_eq!(lab.held().len(), 2);
            continue;
        }
        lab.wait_for("the drop", || lab.held().len() == 2);
        assert!(
            lab.told("disk DATA_0001 was offline for longer than the repair time, and is dropped")
        );
        lab.check();
        lab.disks[0].faults(|faults| faults.fail_reads = true);
        assert!(lab.read(node, 0, 20 << 20) == pattern(1, 20 << 20));
    }
}

/// A disk is overdue, and another statement runs: before it is dropped by force it comes back, gets another name, or
/// comes back and goes away again. It stays, and so does the disk that has its name now.
#[test]
fn a_disk_that_came_back_is_not_dropped_for_its_absence() {
    let group_of_three = || {
        let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
        lab.world.hold_back("repair time");
        let overdue = Selection::Disks(vec!["DATA_0001".to_owned()]);
        block_on(lab.group().offline(overdue, Some(0))).expect("it can be spared");
        let task = lab.take_repair_time();
        (lab, task)
    };
    let returned = |_: &Lab| {};
    let renamed = |lab: &Lab| {
        let pairs = [("DATA_0001", "DATA_0002"), ("DATA_0002", "DATA_0001")];
        let pairs = pairs.map(|(old, new)| (old.to_owned(), new.to_owned())).to_vec();
        block_on(lab.group().rename(&Renaming::Disks(pairs))).expect("they change names");
    };
    let away_again = |lab: &Lab| lab.offline(1);
    for (case, then) in [
        ("returned", &returned as &dyn Fn(&Lab)),
        ("renamed", &renamed),
        ("away again", &away_again),
    ] {
        let (lab, task) = group_of_three();
        lab.online_all();
        then(&lab);
        block_on(task);
        let membership = lab.group().voters.current();
        assert!(membership.disks.iter().all(|disk| !disk.leaving), "{case}");
        let states = [0, 1, 2].map(|disk| lab.state(disk));
        let second = if case == "away again" { DiskState::Offline } else { DiskState::Online };
        assert_eq!(states, [DiskState::Online, second, DiskState::Online], "{case}");
        assert!(!lab.told("was offline for longer than the repair time"), "{case}");
    }
    let (lab, task) = group_of_three();
    block_on(task);
    lab.wait_for("the drop", || lab.held().len() == 2);
}

/// A disk comes back. Before it is off the record how long it was waited for, it is taken offline with another time:
/// that one holds, now and after a kill.
#[test]
fn what_was_said_of_a_new_absence_outlives_the_last_one() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.world.hold_back("repair time");
    let offline = |lab: &Lab, drop_after| {
        let which = Selection::Disks(vec!["DATA_0001".to_owned()]);
        block_on(lab.group().offline(which, drop_after)).expect("it can be spared");
    };
    let said = |lab: &Lab| {
        let said = lab.group().drop_after.lock();
        said.values().map(|said| said.seconds).collect::<Vec<_>>()
    };
    offline(&lab, Some(1800));
    lab.online_all();
    block_on(lab.take_repair_time());
    assert!(said(&lab).is_empty(), "nothing new was said");
    offline(&lab, Some(3600));
    lab.online_all();
    let late = lab.take_repair_time();
    offline(&lab, Some(7200));
    block_on(late);
    assert_eq!(said(&lab), [7200]);
    lab.kill();
    lab.mount();
    assert_eq!(said(&lab), [7200]);
}

/// OFFLINE says itself for how long a disk is waited for; this time, and not when it is away again.
#[test]
fn a_disk_is_waited_for_as_long_as_was_said() {
    let mut lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B", "C", "D"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 10 << 20));
    lab.sync(node);
    let offline = |lab: &Lab, disk: &str, drop_after| {
        let which = Selection::Disks(vec![disk.to_owned()]);
        block_on(lab.group().offline(which, drop_after)).expect("it can be spared");
    };
    let timer = |lab: &Lab| {
        let rows = block_on(
            lab.group().query("SELECT repair_timer FROM v$asm_disk WHERE name = 'DATA_0001'"),
        );
        match rows.expect("it is asked").rows[0][0] {
            crate::admin::Value::Integer(seconds) => seconds,
            ref other => panic!("{other:?}"),
        }
    };
    // The last statement counts, and a crash changes nothing in that.
    offline(&lab, "DATA_0001", Some(7200));
    offline(&lab, "DATA_0001", Some(3600));
    lab.kill();
    lab.mount();
    assert!((3000..=3600).contains(&timer(&lab)), "{}", timer(&lab));
    lab.online_all();
    assert_eq!(timer(&lab), 0);
    lab.silence(1);
    lab.write(lab.find("table"), 0, &pattern(2, 10 << 20));
    lab.wait_for("the loss", || lab.state(1) == DiskState::Offline);
    assert!(timer(&lab) > 7200, "as long as any: {}", timer(&lab));
    lab.disks[1].heal();
    lab.online_all();
    offline(&lab, "DATA_0002", Some(3600));
    offline(&lab, "DATA_0002", None);
    lab.online_all();
    offline(&lab, "DATA_0003", Some(0));
    lab.wait_for("the drop", || lab.held().len() == 3);
    lab.rebalanced();
    assert!(lab.told("disk DATA_0003 was offline for longer than the repair time, and is dropped"));
    lab.check();
}

/// A promise that is easily kept slows nothing down for long, one that cannot be kept does not stop the rebalance; and it can be
/// taken back meanwhile.
#[test]
fn a_rebalance_with_a_latency_target() {
    for (target, then) in [("10s", None), ("50us", None), ("50us", Some("none"))] {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
        let node = lab.create_file("table");
        let size = if then.is_some() { 24 << 20 } else { 6 << 20 };
        lab.write(node, 0, &pattern(1, size));
        lab.sync(node);
        let set =
            |value: &str| block_on(lab.group().set_attribute("rebalance.latency_target", value));
        set(target).expect("it is one");
        assert!(set("fast").is_err());
        let session = lab.session();
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let writer = std::thread::spawn(move || {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                block_on(session.write(node, 0, &pattern(1, 65536), false)).expect("it is written");
            }
        });
        let path = lab.spare(64 * MIB);
        lab.exchange(&[(&path, "D")], &[], false).expect("it is added");
        if let Some(value) = then {
            lab.wait_for_moves();
            block_on(lab.group().set_attribute("rebalance.latency_target", value))
                .expect("it is none");
        }
        assert!(lab.rebalanced() > 0);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().expect("no panic");
        assert!(lab.read(node, 0, size) == pattern(1, size));
        lab.check();
    }
}

/// Requests that cannot be carried out change nothing.
#[test]
fn refusals() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let code =
        |result: Result<(), crate::admin::AdminError>| result.expect_err("it is refused").code;
    assert_eq!(
        code(lab.exchange(&[], &["DATA_0000", "DATA_0001"], false)),
        Code::NotEnoughFailureGroups
    );
    assert_eq!(code(lab.exchange(&[], &["NOBODY"], false)), Code::NoSuchDisk);
    assert_eq!(code(lab.exchange(&[("/disk1", "X")], &[], false)), Code::DiskInUse);
    assert_eq!(code(lab.exchange(&[("/nowhere", "X")], &[], false)), Code::UnknownDisk);
    let path = lab.spare(5 * MIB);
    assert_eq!(code(lab.exchange(&[(&path, "X")], &[], false)), Code::DiskTooSmall);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 45 << 20));
    let path = lab.spare(40 * MIB);
    let refused = lab
        .exchange(&[(&path, "D")], &["DATA_0001", "DATA_0002"], false)
        .expect_err("it does not fit");
    assert_eq!(refused.code, Code::NoSpace, "{refused}");
    assert!(
        block_on(identify::read_header(&*lab.world(), &*lab.disks[4].open())).is_none(),
        "nothing was written"
    );
    assert_eq!(lab.held().len(), 3);
    lab.check();
}

/// What files have fits on the disks that stay, and the catalog's mirror besides does not: the disk is not let go. It goes when there
/// is room.
#[test]
fn a_disk_with_the_catalog_needs_room_elsewhere() {
    let mut lab = Lab::new(Redundancy::Normal, 80 * MIB, &["A", "B"]);
    let small = lab.spare(40 * MIB);
    lab.exchange(&[(&small, "A")], &[], false).expect("it is added");
    lab.rebalanced();
    let (keep, other) = (lab.create_file("keep"), lab.create_file("other"));
    lab.write(keep, 0, &pattern(1, 4 << 20));
    lab.write(other, 0, &pattern(2, 25 << 20));
    lab.sync(other);
    lab.exchange(&[], &["DATA_0000"], false).expect("the files fit");
    lab.wait_for_the_end();
    let reason = lab.rebalance().error.expect("it cannot go");
    assert!(reason.contains("AUs too few on the disks that stay"), "{reason}");
    assert_eq!((lab.held().len(), lab.status(0)), (3, Status::Member));
    block_on(lab.session().unlink(ROOT, b"other")).expect("it is removed");
    block_on(lab.group().rebalance(None)).expect("it goes on");
    lab.rebalanced();
    assert_eq!((lab.held().len(), lab.status(0)), (2, Status::Former));
    lab.kill();
    lab.mount();
    assert!(lab.read(lab.find("keep"), 0, 4 << 20) == pattern(1, 4 << 20));
    lab.check();
}

fn replacement(disk: &str, path: &str) -> Replacement {
    Replacement { disk: disk.to_owned(), path: path.to_owned(), force: false }
}

/// A disk is gone for good, and another takes its place: its number, its name, and all that it had. The old one is a stranger.
#[test]
fn a_disk_is_replaced() {
    for end in 0..3 {
        let mut lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B", "C"]);
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, 20 << 20));
        lab.sync(node);
        let path = lab.spare(128 * MIB);
        let replace = |lab: &Lab, path: &str| {
            block_on(lab.group().replace(&[replacement("DATA_0001", path)]))
        };
        assert_eq!(replace(&lab, &path).expect_err("it is there").code, Code::Invalid);
        lab.silence(1);
        lab.write(node, 0, &pattern(2, 20 << 20));
        lab.sync(node);
        lab.wait_for("the loss", || lab.state(1) == DiskState::Offline);
        let little = lab.spare(48 * MIB);
        assert_eq!(replace(&lab, &little).expect_err("it is too small").code, Code::DiskTooSmall);
        assert_eq!(replace(&lab, "/disk2").expect_err("it is a member").code, Code::DiskInUse);
        assert_eq!(lab.state(1), DiskState::Offline);
        replace(&lab, &path).expect("it takes its place");
        match end {
            0 => {}
            1 => lab.kill(),
            _ => lab.cut_power(7),
        }
        if end > 0 {
            lab.mount();
        }
        lab.disks[1].heal();
        lab.wait_for("the resync", || {
            lab.group().members().iter().all(|(_, state)| *state == DiskState::Online)
        });
        let members = lab.group().members();
        assert_eq!(members[1], ("DATA_0001".to_owned(), DiskState::Online));
        assert!(
            lab.group()
                .members
                .get(&plinth_format::DiskNumber(1))
                .is_some_and(|member| member.path() == path)
        );
        lab.check();
        lab.dismount();
        lab.mount();
        assert_eq!(lab.status(1), Status::Former, "the old one");
        let disks = [0, 2];
        disks
            .iter()
            .for_each(|disk| lab.disks[*disk].faults(|faults| faults.fail_reads = *disk == 0));
        assert!(lab.read(lab.find("table"), 0, 20 << 20) == pattern(2, 20 << 20));
    }
}

/// A disk is being made larger when another device takes its place. A device that is too small for the new size is refused.
#[test]
fn a_replacement_is_as_large_as_the_disk_is_to_be() {
    let mut lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C"]);
    lab.resize(None, Some(96 * MIB)).expect("it is possible");
    lab.rebalanced();
    block_on(lab.group().rebalance(Some(0))).expect("it waits");
    let which = Selection::Disks(vec!["DATA_0001".to_owned()]);
    block_on(lab.group().resize_disks(&[Resize { which, size: Some(128 * MIB) }], Some(0)))
        .expect("it is possible");
    lab.offline(1);
    let path = lab.spare(100 * MIB);
    let replaced = block_on(lab.group().replace(&[replacement("DATA_0001", &path)]));
    assert_eq!(replaced.expect_err("it is too small").code, Code::DiskTooSmall);
}

/// How what a REPLACE began is cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Kill,
    Power,
    DismountForce,
    /// The new device fails.
    Failure,
}

/// A REPLACE is cut short when a part is copied. It goes on by itself with the rest, as an operator's ONLINE after the new device failed does.
#[test]
fn a_replacement_that_is_cut_short_goes_on_where_it_was() {
    for cut in [Cut::Kill, Cut::Power, Cut::DismountForce, Cut::Failure] {
        let mut lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B", "C"]);
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, 30 << 20));
        lab.sync(node);
        lab.silence(1);
        lab.write(node, 0, &pattern(2, 30 << 20));
        lab.sync(node);
        lab.wait_for("the loss", || lab.state(1) == DiskState::Offline);
        while block_on(lab.group().close_idle(true)).expect("regions close") {}
        let number = plinth_format::DiskNumber(1);
        let mut there: Vec<_> = lab.group().extents.all();
        there.retain(|extent| extent.mirrors().into_iter().any(|mirror| mirror.disk == number));
        there.sort_by_key(|extent| extent.id);
        let (all, late) = (there.len() as u64, std::sync::Arc::clone(&there[there.len() / 2]));
        assert!(all > 12, "{all} extents are enough for two batches and more");
        // The resync waits for somebody who works with an extent in the middle.
        let hold = block_on(late.ranges.hold(0..256, true));
        let path = lab.spare(96 * MIB);
        block_on(lab.group().replace(&[replacement("DATA_0001", &path)]))
            .expect("it takes its place");
        let copied = || {
            lab.group()
                .stale
                .lock()
                .get(&number)
                .is_some_and(|runs| !runs.has(there[4].id) && runs.has(late.id))
        };
        lab.wait_for("a part of the resync", copied);
        drop(there);
        // What is copied is an active region for a while, and would be compared again after a crash.
        while block_on(lab.group().close_idle(true)).expect("regions close") {}
        let before = lab.world.events().len();
        match cut {
            Cut::Kill => lab.kill(),
            Cut::Power => {
                // What is committed is durable then.
                block_on(lab.group().catalog.release(true, |_| Ok(()))).expect("it is durable");
                lab.cut_power(7);
            }
            Cut::DismountForce => {
                let group = lab.group.take().expect("mounted");
                block_on(group.dismount(true)).expect("it is dismounted");
            }
            Cut::Failure => lab.silence(3),
        }
        drop(hold);
        if cut == Cut::Failure {
            lab.wait_for("the failure", || lab.state(1) == DiskState::Offline);
            lab.disks[3].heal();
            block_on(lab.group().online(Selection::All)).expect("the new one is found");
        } else {
            lab.mount();
        }
        lab.wait_for("the resync", || lab.state(1) == DiskState::Online);
        let resync = lab
            .group()
            .operations()
            .into_iter()
            .find(|one| one.pass == OperationPass::Resync)
            .expect("it is shown");
        // What was copied last may share a region with what is copied next, which is active when it is cut short: that is copied again.
        assert!(
            resync.work > 0 && resync.work < all,
            "{cut:?}: {} of {all} extents once more",
            resync.work
        );
        let said = lab.world.events().split_off(before);
        assert!(!said.iter().any(|event| event.text.contains("copied whole")), "{cut:?}: {said:?}");
        assert!(cut == Cut::Failure || lab.told("disk DATA_0001: its resync goes on"), "{cut:?}");
        lab.check();
        lab.disks[0].faults(|faults| faults.fail_reads = true);
        assert!(lab.read(lab.find("table"), 0, 30 << 20) == pattern(2, 30 << 20), "{cut:?}");
    }
}

/// The disk that mirrors move to is lost: what has moved has its other mirror, and the rest stays where it is. It is dropped by force, or comes
/// back; either way every file has all its mirrors again.
#[test]
fn the_target_of_a_rebalance_is_lost() {
    for returns in [false, true] {
        let mut lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C"]);
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, 60 << 20));
        lab.sync(node);
        let path = lab.spare(128 * MIB);
        lab.exchange(&[(&path, "D")], &[], false).expect("it is added");
        lab.wait_for_moves();
        lab.silence(3);
        lab.write(node, 0, &pattern(2, 60 << 20));
        lab.sync(node);
        lab.wait_for("the loss", || lab.state(3) == DiskState::Offline);
        lab.wait_for_the_end();
        assert!(lab.read(node, 0, 60 << 20) == pattern(2, 60 << 20));
        lab.disks[3].heal();
        if returns {
            lab.online_all();
            block_on(lab.group().rebalance(None)).expect("it goes on");
            lab.rebalanced();
            assert_eq!((lab.held().len(), lab.plan().work()), (4, 0));
        } else {
            lab.exchange(&[], &["DATA_0003"], true).expect("it is dropped by force");
            lab.rebalanced();
            assert_eq!(lab.held().len(), 3);
        }
        lab.check();
        lab.dismount();
        lab.mount();
        lab.disks[0].faults(|faults| faults.fail_reads = true);
        assert!(lab.read(lab.find("table"), 0, 60 << 20) == pattern(2, 60 << 20));
    }
}

/// A mirror is on its way to a disk that fails what is written there meanwhile, and that cannot be spared for what else it has: the write is good
/// without it, and the mirror stays where it was.
#[test]
fn a_guest_is_turned_away_where_its_disk_stays() {
    let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 60 << 20));
    lab.sync(node);
    let group = lab.group();
    let extents =
        block_on(group.some_alive(0)).expect("the catalog is read").expect("there are some").0;
    let on = |extent: &Extent| extent.disks().map(|disk| usize::from(disk.0)).collect::<Vec<_>>();
    // Without the second disk the third cannot be spared.
    let moves = extents
        .iter()
        .find(|extent| on(extent) == [0, 1] || on(extent) == [1, 0])
        .expect("there is one");
    block_on(group.offline(Selection::Disks(vec!["DATA_0001".to_owned()]), None)).expect("it goes");
    let third = DiskNumber(2);
    let au = group.space().allocate_on(third).expect("there is room");
    assert!(moves.add_target(Mirror { disk: third, au }));
    lab.disks[2].faults(|faults| faults.fail_writes = true);
    let at = moves.number * MIB;
    lab.write(node, at, &pattern(2, 100_000));
    assert_eq!(lab.read(node, at, 100_000), pattern(2, 100_000));
    assert_eq!(moves.places().1, None);
    assert_eq!(lab.state(2), DiskState::Online);
    lab.disks[2].heal();
    group.space().cancel(third, au);
    lab.online_all();
    lab.check();
    assert_eq!(lab.read(node, at, 100_000), pattern(2, 100_000));
}

/// A write to the only mirror fails, and lands where that mirror is on its way to. What is read after that is what will be read there.
#[test]
fn a_guest_is_what_was_read_of_a_write_that_failed() {
    let lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 20 << 20));
    lab.sync(node);
    let group = lab.group();
    let extents =
        block_on(group.some_alive(0)).expect("the catalog is read").expect("there are some").0;
    let moves = extents
        .iter()
        .find(|extent| extent.disks().any(|disk| disk == DiskNumber(0)))
        .expect("there is one");
    let au = group.space().allocate_on(DiskNumber(1)).expect("there is room");
    assert!(moves.add_target(Mirror { disk: DiskNumber(1), au }));
    let at = moves.number * MIB;
    // As a move copies it.
    lab.write(node, at, &pattern(2, 1 << 20));
    lab.disks[0].faults(|faults| faults.fail_writes = true);
    assert!(block_on(lab.session().write(node, at, &pattern(3, 8192), false)).is_err());
    lab.disks[0].heal();
    let read = lab.read(node, at, 8192);
    assert_eq!(read, pattern(2, 1 << 20)[..8192]);
    let member = group.members.get(&DiskNumber(1)).expect("it is there");
    let there = lab.disks[1].peek(member.layout().au_offset(au), 8192);
    assert!(
        moves.places().1.is_none() || there == read,
        "another thing than was read would move in"
    );
    moves.remove_target(Mirror { disk: DiskNumber(1), au });
    group.space().cancel(DiskNumber(1), au);
    lab.check();
}

/// Another disk dies, and comes back, while one is dropped: what it had is read from the other mirrors, and the drop comes to its end.
#[test]
fn a_disk_dies_and_returns_during_a_rebalance() {
    let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C", "D"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 60 << 20));
    lab.sync(node);
    lab.exchange(&[], &["DATA_0000"], false).expect("it leaves");
    lab.wait_for_moves();
    lab.silence(2);
    lab.write(node, 0, &pattern(2, 60 << 20));
    lab.sync(node);
    lab.wait_for("the loss", || {
        lab.group()
            .members()
            .iter()
            .any(|(name, state)| name == "DATA_0002" && *state == DiskState::Offline)
    });
    lab.disks[2].heal();
    block_on(lab.group().online(Selection::All)).expect("it comes back");
    lab.wait_for("the end", || {
        lab.status(0) == Status::Former
            && lab.group().members().iter().all(|(_, state)| *state == DiskState::Online)
    });
    lab.wait_for("rest", || {
        lab.group().operations().iter().all(|one| one.state == OperationState::Done)
    });
    assert_eq!(lab.held().len(), 3);
    lab.check();
    lab.disks[1].faults(|faults| faults.fail_reads = true);
    assert!(lab.read(node, 0, 60 << 20) == pattern(2, 60 << 20));
}

/// The group is filled while a disk is dropped: the drop stops, says why, loses nothing, and goes on when there is room.
#[test]
fn a_group_is_filled_during_a_rebalance() {
    let lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B", "C"]);
    let (node, filler) = (lab.create_file("table"), lab.create_file("filler"));
    lab.write(node, 0, &pattern(1, 50 << 20));
    lab.sync(node);
    lab.exchange(&[], &["DATA_0002"], false).expect("it fits");
    let session = lab.session();
    let mut size = 0;
    while block_on(session.allocate(
        filler,
        size,
        1 << 20,
        crate::api::Allocate::Reserve { keep_size: false },
        false,
    ))
    .is_ok()
    {
        size += 1 << 20;
    }
    lab.wait_for_the_end();
    if lab.rebalance().state == OperationState::Errs {
        assert!(lab.rebalance().error.expect("a reason").contains("too few"));
        assert_eq!((lab.held().len(), lab.status(2)), (3, Status::Member));
    }
    assert!(lab.read(node, 0, 50 << 20) == pattern(1, 50 << 20));
    block_on(session.unlink(ROOT, b"filler")).expect("it is removed");
    block_on(lab.group().rebalance(None)).expect("it goes on");
    lab.wait_for("the drop", || lab.status(2) == Status::Former);
    lab.check();
    assert!(lab.read(node, 0, 50 << 20) == pattern(1, 50 << 20));
}

/// Two disks are lost: what has one mirror left gets another before what has two, and all of that before disks are made even.
#[test]
fn the_most_exposed_come_first() {
    let mut lab = Lab::new(Redundancy::High, 96 * MIB, &["A", "B", "C", "D", "E", "F"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 60 << 20));
    lab.sync(node);
    for disk in [1, 4] {
        lab.silence(disk);
        lab.write(node, 0, &pattern(1, 30 << 20));
        lab.sync(node);
        lab.wait_for("its end", || lab.state(disk) == DiskState::Offline);
    }
    let path = lab.spare(96 * MIB);
    // Extents with so many mirrors on disks that are lost, and mirrors on the new disk of extents that have none there.
    let counts = || {
        let mut lost = [0; 3];
        let mut even = 0;
        for (set, count) in lab.group().mirror_sets.counts() {
            let gone = set.iter().filter(|disk| [1, 4].contains(&disk.0)).count();
            lost[gone] += count;
            even += if gone == 0 && set.iter().any(|disk| disk.0 == 6) { count } else { 0 };
        }
        (lost, even)
    };
    let ([_, one, two], _) = counts();
    assert!(one > 10 && two > 5, "{one} {two}");
    block_on(
        lab.group()
            .exchange(lab.wanted(&[(&path, "G")], &["DATA_0001", "DATA_0004"], true), Some(1)),
    )
    .expect("they go");
    let seen = std::cell::Cell::new(0);
    lab.wait_for("the end of what is exposed", || {
        let ([_, one_now, two_now], even) = counts();
        // One extent is on its way, and is counted twice while its row changes.
        if two_now > 1 {
            seen.set(seen.get() + 1);
            assert!(
                one_now + 2 >= one,
                "{two_now} had one mirror left when one of {one} with two had got its third"
            );
        }
        one_now + two_now == 0 || (seen.get() > 0 && even > 200)
    });
    lab.rebalanced();
    lab.disks.remove(4);
    lab.disks.remove(1);
    lab.check();
    assert!(lab.told("(restore)") && lab.read(node, 0, 60 << 20) == pattern(1, 60 << 20));
}

/// What is paused goes on with the next statement, whether it says a power or not; a drop that is taken back, or a disk that is back, does not end
/// the pause.
#[test]
fn a_pause_ends_with_the_next_statement() {
    let mut lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 30 << 20));
    let path = lab.spare(96 * MIB);
    let add = lab.wanted(&[(&path, "D")], &["DATA_0000"], false);
    block_on(lab.group().exchange(add, Some(0))).expect("they are exchanged");
    let moved = || (lab.rebalance().state, lab.rebalance().so_far);
    assert_eq!(moved(), (OperationState::Wait, 0));
    lab.wait_for("how much would move", || lab.rebalance().work > 0);
    block_on(lab.group().undrop()).expect("it stays");
    block_on(lab.group().offline(Selection::Disks(vec!["DATA_0001".to_owned()]), None))
        .expect("it can go");
    lab.online_all();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(moved(), (OperationState::Wait, 0));
    block_on(lab.group().rebalance(None)).expect("it goes on");
    assert!(lab.rebalanced() > 0);
    assert!(lab.held().iter().all(|held| *held > 0), "{:?}", lab.held());
    lab.check();
}

/// Who comes upon a piece that is being copied waits for it, and is counted; who waits for somebody else is not.
#[test]
fn waits_for_extents_on_the_move_are_counted() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 1 << 20));
    lab.sync(node);
    let group = lab.group();
    let extent = group
        .extents
        .all()
        .into_iter()
        .find(|extent| extent.file == node && extent.number == 0)
        .expect("it has one");
    let counts = || group.live().move_waits.iter().map(|(_, count)| count).sum::<u64>();
    let wait = || {
        let held = block_on(extent.ranges.hold(0..256, true));
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| lab.read(node, 0, 4096));
            lab.wait_for("a reader that waits", || extent.ranges.waiting() > 0);
            drop(held);
            assert!(reading.join().expect("no panic") == pattern(1, 4096));
        });
    };
    wait();
    assert_eq!(counts(), 0);
    let away = group
        .members
        .values()
        .find(|member| extent.disks().all(|disk| disk != member.number))
        .expect("a third");
    let au = group.space().allocate_on(away.number).expect("there is room");
    let target = crate::extent::Mirror { disk: away.number, au };
    assert!(extent.add_target(target));
    wait();
    extent.remove_target(target);
    group.space().cancel(away.number, au);
    assert_eq!(counts(), 1);
}

/// Groups, files and exchanges of all kinds: what moves is what was estimated, it ends with every disk at its share, and nothing is lost.
#[test]
fn random_exchanges() {
    let (mut made, mut refused) = (0, 0);
    for seed in 0..24 {
        let mut numbers = Numbers::new(seed);
        let redundancy =
            [Redundancy::External, Redundancy::Normal, Redundancy::High][numbers.below(3) as usize];
        let count = redundancy.mirrors() as u64 + numbers.below(3);
        let names = ["A", "B", "C", "D", "E", "F"];
        let mut groups: Vec<&str> = names[..count as usize].to_vec();
        (0..numbers.below(3)).for_each(|_| groups.push(names[numbers.below(count) as usize]));
        let mut lab = Lab::new(redundancy, 48 * MIB, &groups);
        let mut files = Vec::new();
        for number in 0..3 + numbers.below(10) {
            let name = format!("file{number}");
            let length = 1 + numbers.below(if number % 2 == 0 { 6 << 20 } else { 40_000 }) as usize;
            let node = lab.create_file(&name);
            if block_on(lab.session().write(node, 0, &pattern(number, length), false)).is_ok() {
                files.push((name, number, length));
            }
        }
        for _ in 0..2 {
            let add: Vec<(String, &str)> = (0..numbers.below(3))
                .map(|_| {
                    (lab.spare((32 + 8 * numbers.below(9)) * MIB), names[numbers.below(6) as usize])
                })
                .collect();
            let add: Vec<(&str, &str)> =
                add.iter().map(|(path, group)| (path.as_str(), *group)).collect();
            let drop: Vec<String> =
                lab.names().into_iter().filter(|_| numbers.below(4) == 0).collect();
            let drop: Vec<&str> = drop.iter().map(String::as_str).collect();
            let estimate =
                block_on(lab.group().estimate(&Work::Exchange(lab.wanted(&add, &drop, false))));
            let done = lab.exchange(&add, &drop, false);
            assert_eq!(done.is_ok(), estimate.is_ok(), "seed {seed}: {estimate:?} {done:?}");
            let Ok(estimate) = estimate else {
                refused += 1;
                continue;
            };
            made += 1;
            lab.wait_for_the_end();
            let end = lab.rebalance();
            // The catalog may have no room elsewhere: then the disk stays, and it is said.
            let catalog =
                end.error.as_ref().is_some_and(|error| error.contains("the catalog has a mirror"));
            assert!(end.state == OperationState::Done || catalog, "seed {seed}: {end:?}");
            // What is even is another question when the catalog has gone where nobody knew that it would.
            let catalog_units =
                crate::catalog::on_disks::units(&lab.group().voters.current()).len() as u64;
            let most = estimate.work + catalog_units;
            assert!(
                end.so_far <= most,
                "seed {seed}: {} moved, {estimate:?}, {catalog_units}",
                end.so_far
            );
            assert!(lab.plan().work() == 0 || catalog, "seed {seed}");
            lab.check();
        }
        lab.kill();
        lab.mount();
        for (name, number, length) in files {
            assert!(lab.read(lab.find(&name), 0, length) == pattern(number, length), "seed {seed}");
        }
        lab.check();
    }
    assert!(made > 20 && refused > 2, "{made} were made, {refused} refused");
}

/// A file is removed on a disk that leaves, and somebody still reads it: the disk is let go when he has ended.
#[test]
fn a_disk_stays_while_what_was_freed_there_is_read() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    let group = lab.group();
    let is_there = |extent: &&Arc<Extent>| extent.disks().any(|disk| disk == DiskNumber(2));
    let extents = group.extents.all();
    let extent = extents.iter().find(is_there).expect("every disk has some");
    let reader = extent.ranges.try_hold(0..1, false).expect("nobody writes");
    // Nothing moves.
    block_on(group.exchange(lab.wanted(&[], &["DATA_0002"], false), Some(0))).expect("it leaves");
    block_on(lab.session().unlink(ROOT, b"table")).expect("it is removed");
    lab.wait_for("its end", || extents.iter().all(|extent| extent.is_tombstone()));
    assert!(!block_on(group.dismiss_leaving()).expect("it is recorded"), "somebody reads there");
    assert_eq!(lab.status(2), Status::Member);
    drop(reader);
    lab.wait_for("its end", || block_on(group.dismiss_leaving()).expect("it is recorded"));
    assert_eq!(lab.status(2), Status::Former);
    block_on(group.rebalance(None)).expect("it goes on");
    lab.rebalanced();
    lab.check();
}

/// A device takes the place of a disk, and the catalog cannot record that all of it is stale: it is no member, so that nobody ever takes what it holds
/// for what the disk had.
#[test]
fn no_device_takes_a_place_before_all_of_it_is_stale() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    block_on(lab.group().offline(Selection::Disks(vec!["DATA_0001".to_owned()]), None))
        .expect("it can be spared");
    let path = lab.spare(64 * MIB);
    lab.world.detach("/disk1");
    let log = lab.runs_of(CatalogFile::Wal, 0);
    lab.disks[0].faults(|faults| faults.worn = log);
    block_on(lab.group().replace(&[replacement("DATA_0001", &path)]))
        .expect_err("the catalog takes nothing");
    lab.kill();
    lab.disks[0].heal();
    lab.mount();
    assert_eq!(lab.state(1), DiskState::Offline);
    block_on(lab.group().replace(&[replacement("DATA_0001", &path)])).expect("it takes its place");
    lab.wait_for("its resync", || lab.state(1) == DiskState::Online);
    lab.disks[0].faults(|faults| faults.fail_reads = true);
    assert!(lab.read(lab.find("table"), 0, 6 << 20) == pattern(1, 6 << 20));
    lab.disks[0].heal();
    lab.check();
}

/// A rebalance has looked for the last time whether something is to be moved, and has the catalog say that it has ended. A statement that comes then is
/// seen to by nobody else.
#[test]
fn a_statement_that_comes_while_a_rebalance_ends_is_seen_to() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.wait_until_all_is_discarded();
    let (group, catalog) = (lab.group(), Arc::clone(&lab.group().catalog));
    lab.world.hold_back("rebalance");
    let ask = || block_on(group.rebalance(Some(4))).expect("it is recorded");
    ask();
    let mut task = lab.world.take_task("rebalance").expect("it begins");
    // Jobs of the catalog wait for this one.
    let (begun, begins) = mpsc::channel();
    let (ends, end) = mpsc::channel::<()>();
    let job = move |_: &rusqlite::Connection| {
        let _ = begun.send(());
        let _ = end.recv();
        Ok(())
    };
    let slow = std::thread::spawn(move || block_on(catalog.release(false, job)).map(|_| ()));
    begins.recv().expect("it runs");
    assert!(run_until(task.as_mut(), || group.catalog.jobs_waiting() > 0).is_none());
    drop(ends);
    slow.join().expect("no panic").expect("the catalog answers");
    ask();
    block_on(task);
    let under_way =
        block_on(group.catalog.read(attributes::load_rebalance)).expect("the catalog answers");
    assert!(under_way.is_none() && lab.nothing_moves(), "{under_way:?}");
}

/// A rebalance ends in the catalog after a statement that asks for more was recorded there. The record stays: without it the next mount would not go on
/// with what was asked for.
#[test]
fn a_rebalance_that_ends_leaves_the_record_of_a_later_statement() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let group = lab.group();
    lab.world.hold_back("rebalance");
    let ask = || block_on(group.rebalance(Some(4))).expect("it is recorded");
    let is_recorded = || {
        block_on(group.catalog.read(attributes::load_rebalance))
            .expect("the catalog answers")
            .is_some()
    };
    ask();
    let asked = group.rebalance.asked();
    ask();
    block_on(group.end_rebalance(asked)).expect("the catalog answers");
    assert!(is_recorded());
    let asked = group.rebalance.asked();
    block_on(group.end_rebalance(asked)).expect("the catalog answers");
    assert!(!is_recorded());
}

/// A disk without a partner is dropped while it fails to read a block. It stays, with that block, and the rebalance says which file it is; when the
/// disk can read again all moves, and nothing is lost.
#[test]
fn a_disk_stays_while_it_fails_to_read_a_block() {
    let mut lab = Lab::new(Redundancy::External, 96 * MIB, &["A", "A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 8 << 20));
    lab.sync(node);
    lab.close_regions();
    let extent = lab.extents_on(&[0]).remove(0);
    let member = lab.member(0);
    let bad = Data::offset(&member, extent.mirrors().into_iter().next().expect("one"), 5);
    drop((member, extent));
    lab.disks[0].faults(|faults| faults.bad.push(bad..bad + 512));
    lab.exchange(&[], &["DATA_0000"], false).expect("it begins");
    lab.wait_for_the_end();
    let end = lab.rebalance();
    assert_eq!(end.state, OperationState::Errs);
    let error = end.error.expect("it has one");
    assert!(error.contains("has blocks that no disk can read"), "{error}");
    assert_ne!(lab.status(0), Status::Former);
    assert_eq!(lab.held()[0], 1, "all else has moved");
    lab.disks[0].heal();
    block_on(lab.group().rebalance(Some(4))).expect("it begins again");
    lab.rebalanced();
    assert_eq!(lab.status(0), Status::Former);
    lab.world.detach("/disk0");
    assert!(lab.read(node, 0, 8 << 20) == pattern(1, 8 << 20));
    lab.check();
    lab.kill();
    lab.mount();
    assert!(lab.read(lab.find("table"), 0, 8 << 20) == pattern(1, 8 << 20));
    lab.check();
}

/// What was lost on a disk for good is no reason to stay: its mark moves, and reads of it still fail.
#[test]
fn a_mark_of_what_was_lost_moves() {
    let lab = Lab::new(Redundancy::External, 96 * MIB, &["A", "A", "A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 8 << 20));
    lab.sync(node);
    lab.close_regions();
    let extent = lab.extents_on(&[0]).remove(0);
    let (at, member) = (extent.number * MIB, lab.member(0));
    let place = Data::offset(&member, extent.mirrors().into_iter().next().expect("one"), 5);
    let mark = lab.group().lost_block(&member, place);
    drop((member, extent));
    lab.disks[0].corrupt(place, &mark);
    lab.exchange(&[], &["DATA_0000"], false).expect("it begins");
    lab.rebalanced();
    assert_eq!(lab.status(0), Status::Former);
    lab.try_read(node, at + 5 * 4096, 4096).expect_err("it is lost");
    assert!(
        lab.read(node, at + 6 * 4096, 4096)
            == pattern(1, 8 << 20)[(at as usize + 6 * 4096)..][..4096]
    );
}

/// A rebalance pauses for a dismount, and that fails, as a disk that cannot be spared does not take its checksums: the group stays mounted, and the rebalance goes on.
#[test]
fn a_rebalance_goes_on_after_a_dismount_that_fails() {
    let (lab, node, plain) = Lab::with_a_plain_disk();
    lab.allow_silence();
    let extent = lab.extent_alone_on(plain, node);
    lab.close_regions();
    lab.write(node, extent.number * MIB, &pattern(2, 8192));
    lab.sync(node);
    lab.world.hold_back("rebalance");
    block_on(lab.group().rebalance(Some(4))).expect("it begins");
    let rebalance = lab.world.take_task("rebalance").expect("it begins");
    let (zone, length) = lab.member(plain).layout().sums_of(extent.mirrors()[0].au);
    lab.disks[plain].faults(|faults| faults.hang_in.push(zone..zone + length as u64));
    let group = Arc::clone(lab.group());
    let dismounting = std::thread::spawn(move || block_on(group.dismount(false)));
    lab.wait_for("the checksums", || lab.group().is_stopping() && lab.disks[plain].hung() > 0);
    block_on(rebalance);
    assert_eq!(lab.rebalance().state, OperationState::Wait);
    lab.disks[plain].faults(|faults| faults.worn.push(zone..zone + length as u64));
    lab.disks[plain].answer();
    dismounting.join().expect("no panic").expect_err("its checksums cannot be written");
    lab.disks[plain].heal();
    block_on(lab.world.take_task("rebalance").expect("it goes on"));
    assert!(lab.nothing_moves());
    lab.check();
}

/// A copy could not read a block, and the disk can a moment later: the block may be right there, and is not given up. One that has rotted is.
#[test]
fn what_can_be_read_a_moment_later_is_not_lost() {
    let lab = Lab::new(Redundancy::External, 96 * MIB, &["A", "A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 8 << 20));
    lab.sync(node);
    let extent = lab.extents_on(&[0]).remove(0);
    let place = Data::offset(&lab.member(0), extent.mirrors()[0], 5);
    let may_be_right = || block_on(lab.group().is_unread(&extent, 5)).expect("it is looked at");
    lab.disks[0].faults(|faults| faults.bad.push(place..place + 512));
    assert!(may_be_right());
    lab.disks[0].heal();
    assert!(may_be_right());
    lab.disks[0].corrupt(place, &pattern(7, 4096));
    assert!(!may_be_right());
}
