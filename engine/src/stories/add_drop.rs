//! Disks are added, dropped and replaced while the group is used.

use super::*;
use crate::{
    admin::{Departure, Exchange, NewDisk, Renaming, Replacement, Work},
    catalog::attributes,
    disk::identify,
    extent::{Extent, Mirror, data::Data},
    space::balance::Plan,
    world::Task,
};
use plinth_format::{Block, DiskNumber, header::Status};
use std::{cell::RefCell, sync::mpsc};

impl Lab {
    /// Attaches another disk that belongs to no group, and returns its path.
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
        let drop = drop.iter().map(|name| Departure {
            which: Selection::Disks(vec![(*name).to_owned()]),
            force,
            reclaim: false,
        });
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

    /// Takes the caretaker's next task about disks whose repair time is over, which the test held
    /// back.
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

    /// Whether no rebalance has begun since the mount, or the last one is done.
    pub(super) fn nothing_moves(&self) -> bool {
        self.group()
            .operations()
            .iter()
            .all(|one| one.pass != OperationPass::Rebalance || one.state == OperationState::Done)
    }

    /// Waits for the end of a rebalance that the mount continues, if there is one.
    pub(super) fn rebalanced_if_begun(&self) {
        if self.group().operations().iter().any(|one| one.pass == OperationPass::Rebalance) {
            self.rebalanced();
        }
    }

    /// Waits for the end of a rebalance for about a second at most: the host may die before that.
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

    /// The number of mirrors on each disk, in the order of disk numbers.
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

/// A fifth disk gets a fifth of the mirrors, and no other mirror moves.
#[test]
fn an_added_disk_gets_its_share_and_nothing_else_moves() {
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

/// A disk was given the name that the next disk would get by default: that disk takes the next free
/// number.
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

/// The engine is killed, or the power is cut, again and again during an exchange of disks. Each
/// mount continues it, and nothing is lost.
#[test]
fn an_exchange_of_disks_survives_kills_and_power_cuts() {
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

/// A disk's repair time is over, and another statement runs before the forced drop: the disk comes
/// back, changes its name with another disk, or comes back and goes offline again. Neither it nor
/// the disk that has its name now is dropped.
#[test]
fn a_disk_that_came_back_is_not_dropped_for_its_earlier_absence() {
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

/// A disk comes back. Before the record of its DROP AFTER is removed, it is taken offline with
/// another DROP AFTER. The new time holds, now and after a kill.
#[test]
fn the_drop_after_of_a_new_offline_replaces_the_last_one() {
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
    assert!(said(&lab).is_empty(), "there is no new DROP AFTER");
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

/// Exchanges that cannot be carried out change nothing.
#[test]
fn refused_exchanges_change_nothing() {
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

fn replacement(disk: &str, path: &str) -> Replacement {
    Replacement { disk: disk.to_owned(), path: path.to_owned(), force: false }
}

/// A disk is gone for good, and another device takes over its number, its name and its data. The
/// old disk no longer belongs to the group.
#[test]
fn a_replacement_takes_over_number_name_and_data() {
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
        assert!(!lab.member(1).counters.disk_errors.all().is_empty(), "it was silent");
        replace(&lab, &path).expect("it takes its place");
        assert_eq!(lab.member(1).counters.disk_errors.all(), [], "they were the old one's");
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

/// How the resync of a REPLACE is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Kill,
    Power,
    DismountForce,
    /// The new device fails.
    Failure,
}

/// The resync of a REPLACE is interrupted when a part is copied. It continues by itself with the
/// rest; after a failure of the new device, an operator's ONLINE continues it likewise.
#[test]
fn an_interrupted_replacement_continues_where_it_stopped() {
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
        // The resync waits for this holder of an extent in the middle.
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
        // Copied extents are in active regions for a while, and would be compared again after a
        // crash.
        while block_on(lab.group().close_idle(true)).expect("regions close") {}
        let before = lab.world.events().len();
        match cut {
            Cut::Kill => lab.kill(),
            Cut::Power => {
                // All commits are durable then.
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
        // The extent copied last may share a region with the next one, which is active at the
        // interruption: it is copied again.
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

/// The disk that mirrors move to is lost. Moved extents have their other mirror, and the rest stays
/// where it is. The disk is dropped by force or comes back; either way every file has all its
/// mirrors again.
#[test]
fn the_loss_of_a_rebalance_target_loses_no_data() {
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

/// A mirror moves to a disk that fails a write to it, and that cannot be spared because of its
/// other extents. The write succeeds without that disk, and the mirror stays where it was.
#[test]
fn a_move_is_given_up_when_a_write_fails_on_a_target_that_must_stay() {
    let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 60 << 20));
    lab.sync(node);
    let group = lab.group();
    let extents =
        block_on(group.some_alive(0)).expect("the catalog is read").expect("there are some").0;
    let on = |extent: &Extent| extent.disks().map(|disk| usize::from(disk.0)).collect::<Vec<_>>();
    // Without the second disk the third one cannot be spared.
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

/// A write to the only mirror fails, and succeeds at the target that this mirror moves to. The
/// bytes that are read after that must be the bytes at the target.
#[test]
fn a_move_target_equals_the_bytes_read_after_a_failed_write() {
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
    // Copies the extent as a move does.
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
        "the target has other bytes than were read"
    );
    moves.remove_target(Mirror { disk: DiskNumber(1), au });
    group.space().cancel(DiskNumber(1), au);
    lab.check();
}

/// Two disks are lost: extents with one mirror left get another before extents with two, and all of
/// them before the disks are balanced.
#[test]
fn extents_with_the_fewest_mirrors_are_rebuilt_first() {
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
    // The number of extents by their count of mirrors on lost disks, and of extents with a mirror
    // on the new disk and none on a lost one.
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
        // One extent is moving, and is counted twice while its row changes.
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

/// A read of a piece that a move copies waits, and is counted. A read that waits for another holder
/// is not counted.
#[test]
fn only_waits_for_moving_extents_are_counted() {
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
    let counts = || group.move_waits.counts().iter().map(|(_, count)| count).sum::<u64>();
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

/// Random groups, files and exchanges: no more moves than was estimated, every disk ends with its
/// share, and nothing is lost.
#[test]
fn random_exchanges_balance_the_disks_and_lose_nothing() {
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
            // The catalog may have no room elsewhere: then the disk stays, and the error says so.
            let catalog =
                end.error.as_ref().is_some_and(|error| error.contains("the catalog has a mirror"));
            assert!(end.state == OperationState::Done || catalog, "seed {seed}: {end:?}");
            // The estimate does not know where the catalog goes, and that changes which balance is
            // even.
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

/// A file on a leaving disk is removed while a read of it is in flight: the disk is dropped when
/// the read has ended.
#[test]
fn a_leaving_disk_stays_while_a_freed_extent_on_it_is_read() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    let group = lab.group();
    let is_there = |extent: &&Arc<Extent>| extent.disks().any(|disk| disk == DiskNumber(2));
    let extents = group.extents.all();
    let extent = extents.iter().find(is_there).expect("every disk has some");
    let reader = extent.ranges.try_hold(0..1, false).expect("no writer holds it");
    // The rebalance is paused: nothing moves.
    block_on(group.exchange(lab.wanted(&[], &["DATA_0002"], false), Some(0))).expect("it leaves");
    block_on(lab.session().unlink(ROOT, b"table")).expect("it is removed");
    lab.wait_for("its end", || extents.iter().all(|extent| extent.is_tombstone()));
    assert!(
        !block_on(group.dismiss_leaving()).expect("it is recorded"),
        "a reader holds an extent there"
    );
    assert_eq!(lab.status(2), Status::Member);
    drop(reader);
    lab.wait_for("its end", || block_on(group.dismiss_leaving()).expect("it is recorded"));
    assert_eq!(lab.status(2), Status::Former);
    block_on(group.rebalance(None)).expect("it goes on");
    lab.rebalanced();
    lab.check();
}

/// A device replaces a disk, and the catalog cannot record that all of it is stale. The device does
/// not become a member, so its old bytes are never read as the disk's data.
#[test]
fn a_replacement_is_no_member_before_all_of_it_is_recorded_as_stale() {
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

/// A rebalance has looked for work for the last time, and records its end in the catalog. It must
/// carry out a statement that arrives then, as no other task will.
#[test]
fn a_statement_that_arrives_while_a_rebalance_ends_is_carried_out() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.wait_until_all_is_discarded();
    let (group, catalog) = (lab.group(), Arc::clone(&lab.group().catalog));
    lab.world.hold_back("rebalance");
    let ask = || block_on(group.rebalance(Some(4))).expect("it is recorded");
    ask();
    let mut task = lab.world.take_task("rebalance").expect("it begins");
    // The catalog's other jobs wait for this one.
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

/// A rebalance records its end in the catalog after a statement that asks for more work was
/// recorded there. That record stays, or the next mount would not continue the work.
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

/// A disk with EXTERNAL redundancy is dropped while it fails to read a block. It stays with that
/// block, and the rebalance reports the file. When the disk can read again, all moves, and nothing
/// is lost.
#[test]
fn a_leaving_disk_stays_while_it_fails_to_read_a_block() {
    let mut lab = Lab::new(Redundancy::External, 96 * MIB, &["A", "A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 8 << 20));
    lab.sync(node);
    lab.close_regions();
    let extent = lab.extents_on(&[0]).remove(0);
    let member = lab.member(0);
    let bad = Data::offset(&member, extent.mirrors().into_iter().next().expect("one"), Block(5));
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

/// A block that is lost for good does not keep its disk from leaving: the block's mark moves, and
/// reads of it still fail.
#[test]
fn the_mark_of_a_lost_block_moves_with_its_extent() {
    let lab = Lab::new(Redundancy::External, 96 * MIB, &["A", "A", "A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 8 << 20));
    lab.sync(node);
    lab.close_regions();
    let extent = lab.extents_on(&[0]).remove(0);
    let (at, member) = (extent.number * MIB, lab.member(0));
    let place = Data::offset(&member, extent.mirrors().into_iter().next().expect("one"), Block(5));
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

/// A rebalance pauses for a dismount. The dismount fails, as a disk that cannot be spared fails to
/// write its checksums. The group stays mounted, and the rebalance continues.
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

/// A copy could not read a block, and the disk can a moment later: the block may be good, and is
/// not given up. A rotten block is.
#[test]
fn a_block_that_a_retry_may_read_is_not_given_up() {
    let lab = Lab::new(Redundancy::External, 96 * MIB, &["A", "A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 8 << 20));
    lab.sync(node);
    let extent = lab.extents_on(&[0]).remove(0);
    let place = Data::offset(&lab.member(0), extent.mirrors()[0], Block(5));
    let may_be_right =
        || block_on(lab.group().is_unread(&extent, Block(5))).expect("it is looked at");
    lab.disks[0].faults(|faults| faults.bad.push(place..place + 512));
    assert!(may_be_right());
    lab.disks[0].heal();
    assert!(may_be_right());
    lab.disks[0].corrupt(place, &pattern(7, 4096));
    assert!(!may_be_right());
}
