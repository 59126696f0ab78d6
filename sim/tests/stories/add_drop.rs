//! Disks are added, dropped and replaced while the group is used.

use super::*;
use plinth_engine::admin::{Departure, Exchange, NewDisk, Replacement, Resize};
use plinth_format::header::Status;

impl Lab {
    pub fn wanted(&self, add: &[(&str, &str)], drop: &[&str], force: bool) -> Exchange {
        let new = |(path, group): &(&str, &str)| NewDisk {
            path: (*path).to_owned(),
            name: None,
            failure_group: (self.redundancy() != Redundancy::External).then(|| (*group).to_owned()),
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

    pub fn exchange(
        &self,
        add: &[(&str, &str)],
        drop: &[&str],
        force: bool,
    ) -> Result<(), plinth_engine::admin::AdminError> {
        block_on(self.group().exchange(self.wanted(add, drop, force), Some(4)))
    }

    pub fn rebalance(&self) -> plinth_engine::admin::Operation {
        self.group()
            .operations()
            .into_iter()
            .find(|one| one.pass == OperationPass::Rebalance)
            .expect("it began")
    }

    /// Waits until mirrors have begun to move.
    fn wait_for_moves(&self) {
        self.wait_for("the first moves", || self.rebalance().so_far > 0);
    }

    pub fn wait_for_the_end(&self) {
        self.wait_for("the end of the rebalance", || self.rebalance().state != OperationState::Run);
    }

    pub fn rebalanced(&self) -> u64 {
        self.wait_for_the_end();
        let end = self.rebalance();
        assert_eq!((end.state, &end.error), (OperationState::Done, &None));
        end.so_far
    }
}

/// The mirrors of a dropped disk move. Then the disk belongs to no group, and its header says
/// FORMER.
#[test]
fn a_disk_can_be_dropped_while_files_are_written() {
    let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 40 << 20));
    (0..50).for_each(|number| {
        lab.write(lab.create_file(&format!("small{number}")), 0, &pattern(number, 5000))
    });
    lab.sync(node);
    let held = lab.held();
    lab.exchange(&[], &["DATA_0001"], false).expect("it leaves");
    let session = lab.session();
    let writer = lab.begin(async move {
        for round in 0..40 {
            session
                .write(node, round << 20, &pattern(100 + round, 1 << 20), false)
                .await
                .expect("it is written");
        }
        session.sync(node, true).await.expect("it is synced");
    });
    let moved = lab.rebalanced();
    lab.end(writer);
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
    // It can come back as a new disk, with another number.
    lab.exchange(&[("/disk1", "B")], &[], false).expect("it is a candidate");
    lab.rebalanced();
    assert_eq!(lab.held().len(), 5);
    lab.check();
}

/// One statement replaces four disks by four others: each mirror moves once.
#[test]
fn an_exchange_of_all_disks_moves_each_mirror_once() {
    for redundancy in [Redundancy::External, Redundancy::Normal, Redundancy::High] {
        let lab = Lab::new(redundancy, 96 * MIB, &["A", "B", "C", "D"]);
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
        (0..4).for_each(|disk| lab.detach(&format!("/disk{disk}")));
        assert!(lab.read(node, 0, 30 << 20) == pattern(1, 30 << 20));
        lab.check();
        lab.kill();
        lab.mount();
        assert!(lab.read(lab.find("table"), 0, 30 << 20) == pattern(1, 30 << 20));
        lab.check();
    }
}

/// A lost disk is dropped by force: its data is copied from the other mirrors, and every file has
/// all its mirrors again.
#[test]
fn a_lost_disk_dropped_by_force_leaves_every_file_fully_mirrored() {
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
    lab.disk(0).faults(|faults| faults.failing_reads = EVERY);
    assert!(lab.read(node, 0, 20 << 20) == pattern(2, 20 << 20));
}

/// A disk that is offline for longer than its repair time is dropped automatically, where enough
/// failure groups remain.
#[test]
fn a_disk_offline_for_longer_than_the_repair_time_is_dropped() {
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
        lab.disk(0).faults(|faults| faults.failing_reads = EVERY);
        assert!(lab.read(node, 0, 20 << 20) == pattern(1, 20 << 20));
    }
}

/// OFFLINE with DROP AFTER sets how long this absence of a disk may last. The next absence may last
/// for the group's repair time again.
#[test]
fn drop_after_holds_for_one_absence_of_a_disk() {
    let lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B", "C", "D"]);
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
            plinth_engine::admin::Value::Integer(seconds) => seconds,
            ref other => panic!("{other:?}"),
        }
    };
    // The last statement counts, also after a crash.
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
    assert!(timer(&lab) > 7200, "the group's repair time holds: {}", timer(&lab));
    lab.disk(1).heal();
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

/// A latency target that is easily met slows nothing down for long, one that cannot be met does not
/// stop the rebalance, and the target can be removed during the rebalance.
#[test]
fn a_latency_target_never_stops_a_rebalance() {
    for (target, then) in [("10s", None), ("50us", None), ("50us", Some("none"))] {
        let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
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
        let writer = lab.begin(async move {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                session.write(node, 0, &pattern(1, 65536), false).await.expect("it is written");
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
        lab.end(writer);
        assert!(lab.read(node, 0, size) == pattern(1, size));
        lab.check();
    }
}

/// The files fit on the disks that stay, and the catalog's mirror does not: the disk is not dropped
/// until there is room.
#[test]
fn a_disk_with_a_catalog_mirror_leaves_only_when_the_mirror_fits_elsewhere() {
    let lab = Lab::new(Redundancy::Normal, 80 * MIB, &["A", "B"]);
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

/// A disk that is being made larger is replaced. A device that is too small for the new size is
/// refused.
#[test]
fn a_replacement_must_have_the_size_that_the_resize_asked_for() {
    let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C"]);
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

/// Another disk fails and comes back while a disk is dropped: its data is read from the other
/// mirrors, and the drop completes.
#[test]
fn a_drop_completes_although_another_disk_fails_and_returns() {
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
    lab.disk(2).heal();
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
    lab.disk(1).faults(|faults| faults.failing_reads = EVERY);
    assert!(lab.read(node, 0, 60 << 20) == pattern(2, 60 << 20));
}

/// The group becomes full while a disk is dropped: the drop stops with a reason, loses nothing, and
/// continues when there is room.
#[test]
fn a_drop_stops_in_a_full_group_and_continues_when_there_is_room() {
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
        plinth_engine::api::Allocate::Reserve { keep_size: false },
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

/// A paused rebalance continues with the next REBALANCE statement, with or without a power. A drop
/// that is taken back, or a disk that comes back, does not end the pause.
#[test]
fn a_paused_rebalance_continues_with_the_next_rebalance_statement() {
    let lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B", "C"]);
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
    lab.wait(Duration::from_millis(300));
    assert_eq!(moved(), (OperationState::Wait, 0));
    block_on(lab.group().rebalance(None)).expect("it goes on");
    assert!(lab.rebalanced() > 0);
    assert!(lab.held().iter().all(|held| *held > 0), "{:?}", lab.held());
    lab.check();
}
