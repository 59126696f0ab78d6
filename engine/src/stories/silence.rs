//! Disks that are silent for longer than the disk timeout, as when a storage array fails over: no
//! disk is expelled while no disk with the same data answers (R2), for I/O of files, the catalog,
//! the activity log, memberships and stamps, and for flushes.

use super::*;
use crate::{disk::member::LOOK_AGAIN, membership::voters::Refusal};
use std::sync::atomic::Ordering;

/// A timeout, in ticks, that does not end while a busy machine lets one disk answer after the
/// other.
const LONG: u64 = 1200;

/// Three kinds of files: one that is overwritten in place, one that opens regions of the activity
/// log, and new ones, for the catalog.
struct Work {
    old: Node,
    fresh: Node,
}

/// Makes all disks answer when a story panics, so that no thread waits for them for ever.
pub(super) struct Healed<'a>(pub(super) &'a Lab);

impl Drop for Healed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.disks.iter().for_each(MemoryDisk::heal);
        }
    }
}

impl Lab {
    fn at_work(groups: &[&str], redundancy: Redundancy) -> (Self, Work) {
        let lab = Self::new(redundancy, 128 * MIB, groups);
        let [old, fresh] = ["old", "fresh"].map(|name| lab.create_file(name));
        for node in [old, fresh] {
            lab.write(node, 0, &pattern(1, 4_000_000));
            lab.sync(node);
        }
        (lab, Work { old, fresh })
    }

    /// Seven disks, and the two of them that do not vote.
    fn with_two_that_do_not_vote() -> (Self, Work, [usize; 2]) {
        let (lab, work) = Self::at_work(&["A", "B", "C", "D", "E", "F", "G"], Redundancy::Normal);
        // Every two disks have an extent that no third one has.
        lab.write(work.old, 0, &pattern(1, 60_000_000));
        lab.sync(work.old);
        let membership = lab.group().voters.current();
        let is_voter =
            |disk: &usize| membership.voters().any(|voter| usize::from(voter.number.0) == *disk);
        let others: Vec<_> = (0..7).filter(|disk| !is_voter(disk)).collect();
        let others = others.try_into().expect("five vote");
        (lab, work, others)
    }

    /// Makes these disks hang and does every kind of write that a group does, each on a thread that
    /// waits for its end. `silent` is called while they wait.
    fn work(&self, work: &Work, hang: &[usize], round: u64, silent: impl FnOnce()) {
        self.write(work.old, 2_000_000, &pattern(30 + round, 100_000));
        self.hang(hang);
        std::thread::scope(|scope| {
            let _healed = Healed(self);
            let group = self.group();
            scope.spawn(move || self.sync(work.old));
            scope.spawn(move || self.write(work.old, 300_000, &pattern(10 + round, 200_000)));
            scope.spawn(move || {
                // Beyond the end of the file: space, marks and a commit.
                self.write(
                    work.fresh,
                    4_000_000 + round * 3_000_000,
                    &pattern(20 + round, 3_000_000),
                );
                self.sync(work.fresh);
            });
            scope.spawn(move || self.sync(self.create_file(&format!("new {round}"))));
            scope.spawn(move || self.read(work.old, 1_000_000, 500_000));
            scope.spawn(move || block_on(group.voters.restamp(false)));
            scope.spawn(move || {
                block_on(group.voters.change(|_| Ok(true))).expect("it is recorded")
            });
            silent();
        });
        assert_eq!(self.read(work.old, 300_000, 200_000), pattern(10 + round, 200_000));
        assert_eq!(
            self.read(work.fresh, 4_000_000 + round * 3_000_000, 3_000_000),
            pattern(20 + round, 3_000_000)
        );
        self.find(&format!("new {round}"));
    }

    /// From now on a disk may be silent for long without a timeout.
    fn give_time(&self) {
        self.group().deadline.store(LONG, Ordering::Relaxed);
    }

    /// Sets the timeout back.
    fn give_none(&self) {
        self.group().deadline.store(10, Ordering::Relaxed);
    }

    pub(super) fn states(&self) -> Vec<DiskState> {
        (0..self.disks.len()).map(|disk| self.state(disk)).collect()
    }

    fn hang(&self, disks: &[usize]) {
        disks.iter().for_each(|disk| self.disks[*disk].faults(|faults| faults.hang = true));
    }

    pub(super) fn is_hung(&self, disk: usize) -> bool {
        self.member(disk).is_hung()
    }

    fn alarms(&self) -> usize {
        self.world.events().iter().filter(|event| event.text.starts_with("no disk answers")).count()
    }
}

/// All disks fall silent together for longer than the timeout, and answer again, in any order. No
/// disk goes offline, no data is lost, and the alert log reports what happened.
#[test]
fn no_disk_is_expelled_while_all_disks_are_silent() {
    let cases: [(&[&str], Redundancy); 4] = [
        (&["A", "B"], Redundancy::Normal),
        (&["A", "B", "C"], Redundancy::Normal),
        (&["A", "B", "C"], Redundancy::High),
        (&["A", "A", "B", "B", "Q"], Redundancy::Normal),
    ];
    for (groups, redundancy) in cases {
        let (lab, work) = Lab::at_work(groups, redundancy);
        for round in 0..groups.len() {
            let order = (0..groups.len()).map(|disk| (disk + round) % groups.len());
            let all: Vec<_> = (0..groups.len()).collect();
            lab.work(&work, &all, round as u64, || {
                lab.wait_for("the silence", || lab.alarms() > round);
                for disk in lab.group().figures().disks.iter().filter(|disk| !disk.is_quorum) {
                    assert!(disk.state == "HUNG" && disk.hung_ms > 0, "{groups:?}: {disk:?}");
                }
                lab.give_time();
                order.for_each(|disk| lab.disks[disk].heal());
            });
            lab.give_none();
            assert!(
                lab.states().iter().all(|state| *state == DiskState::Online),
                "{groups:?}, {round}: {:?}",
                lab.states()
            );
        }
        assert!(!lab.told("is offline") && lab.told("disks answer again"), "{groups:?}");
        lab.check();
    }
}

/// All disks are silent, and then all but one answer: that one is expelled, a whole timeout after
/// the others came back.
#[test]
fn a_disk_that_stays_silent_when_others_answer_is_expelled() {
    let groups = ["A", "B", "C"];
    let (lab, work) = Lab::at_work(&groups, Redundancy::Normal);
    for silent in 0..3 {
        lab.work(&work, &[0, 1, 2], silent as u64, || {
            lab.wait_for("the silence", || lab.alarms() > silent);
            lab.give_time();
            (0..3).filter(|disk| *disk != silent).for_each(|disk| lab.disks[disk].heal());
            lab.give_none();
        });
        lab.wait_for("its end", || lab.state(silent) == DiskState::Offline);
        let others = (0..3).filter(|disk| *disk != silent);
        assert!(
            others.into_iter().all(|disk| lab.state(disk) == DiskState::Online),
            "{silent}: {:?}",
            lab.states()
        );
        lab.disks[silent].heal();
        lab.online_all();
    }
    lab.check();
}

/// Two of three failure groups are silent together, as on one array, and the third is not: I/O for
/// extents that only those two have waits for them. When they answer both are as they were.
#[test]
fn two_silent_mirrors_do_not_expel_each_other() {
    let (lab, work) = Lab::at_work(&["A", "B", "C"], Redundancy::Normal);
    for round in 0..3_usize {
        let silent = [round, (round + 1) % 3];
        lab.work(&work, &silent, round as u64, || {
            lab.wait_for("the timeouts", || silent.iter().all(|disk| lab.is_hung(*disk)));
            lab.give_time();
            silent.iter().for_each(|disk| lab.disks[*disk].heal());
        });
        lab.give_none();
        assert!(
            lab.states().iter().all(|state| *state == DiskState::Online),
            "{round}: {:?}",
            lab.states()
        );
    }
    lab.check();
}

/// Two of seven disks, neither of which votes, are silent for many timeouts, and one answers before
/// the other: the other one has a whole timeout from then on.
#[test]
fn the_last_silent_disk_has_a_whole_timeout_after_the_one_before_it_answered() {
    let (lab, work, silent) = Lab::with_two_that_do_not_vote();
    let [first, last] = silent;
    lab.work(&work, &silent, 0, || {
        lab.wait_for("the timeouts", || silent.iter().all(|disk| lab.is_hung(*disk)));
        // Until the time that they got at first is over.
        std::thread::sleep(Duration::from_secs(3));
        lab.give_time();
        lab.disks[first].heal();
        // Threads that waited for the first look after the other now.
        std::thread::sleep(Duration::from_secs(2));
        lab.disks[last].heal();
    });
    assert!(lab.states().iter().all(|state| *state == DiskState::Online), "{:?}", lab.states());
    lab.check();
}

/// Of the same two disks one never answers. The writer goes on without it a timeout after the other
/// has answered, although no other thread asks to expel it.
#[test]
fn a_thread_that_waits_for_a_silent_disk_checks_again_whether_it_can_be_spared() {
    let (lab, work, [first, last]) = Lab::with_two_that_do_not_vote();
    lab.hang(&[first, last]);
    std::thread::scope(|scope| {
        let _healed = Healed(&lab);
        scope.spawn(|| lab.write(work.old, 0, &pattern(2, 60_000_000)));
        lab.wait_for("the timeouts", || [first, last].iter().all(|disk| lab.is_hung(*disk)));
        lab.disks[first].heal();
        lab.wait_for("its end", || lab.state(last) == DiskState::Offline);
    });
    assert_eq!((lab.state(first), lab.state(last)), (DiskState::Online, DiskState::Offline));
    assert!(!lab.told("offline: its metadata"), "a stamp that is written now and then found it");
    assert_eq!(lab.read(work.old, 0, 60_000_000), pattern(2, 60_000_000));
}

/// The same two disks fall silent together, but one gets no request at first: it does not count as
/// a disk that answers because its deadline is not over.
#[test]
fn a_silent_disk_is_not_expelled_because_it_got_its_request_before_another_silent_disk() {
    let (lab, work, [first, last]) = Lab::with_two_that_do_not_vote();
    lab.give_time();
    std::thread::scope(|scope| {
        let _healed = Healed(&lab);
        let write = |extents: std::ops::Range<u64>| {
            for extent in extents {
                let lab = &lab;
                scope.spawn(move || lab.write(work.old, extent * MIB, &pattern(3, 4096)));
            }
        };
        let asked_for = |disk: usize| lab.member(disk).oldest().unwrap_or(0);
        lab.hang(&[first]);
        write(0..30);
        lab.wait_for("its silence", || asked_for(first) > 40);
        lab.hang(&[last]);
        write(30..57);
        lab.wait_for("its silence, too", || asked_for(last) > 10);
        lab.group().deadline.store(asked_for(last) + 10, Ordering::Relaxed);
        lab.wait_for("the first timeout", || lab.is_hung(first));
        lab.wait_for("the other one", || lab.is_hung(last));
        lab.give_time();
        [first, last].iter().for_each(|disk| lab.disks[*disk].heal());
    });
    assert!(lab.states().iter().all(|state| *state == DiskState::Online), "{:?}", lab.states());
    lab.check();
}

/// Two disks have each other's mirrors, and both are silent: neither goes offline for that, because
/// extents that only the two have would have no mirror that answers.
#[test]
fn a_disk_whose_partner_is_silent_is_not_expelled() {
    let (lab, _, silent) = Lab::with_two_that_do_not_vote();
    lab.hang(&silent);
    let members = silent.map(|disk| lab.member(disk));
    members.iter().for_each(|member| drop(member.start_read(0, 4096)));
    lab.wait_for("the timeouts", || silent.iter().all(|disk| lab.is_hung(*disk)));
    for member in &members {
        let end = block_on(lab.group().voters.expel(
            member.number,
            "a read: no answer within the disk timeout",
            false,
        ));
        assert!(matches!(end, Err(Refusal::WouldLoseData)), "{end:?}");
    }
    lab.disks.iter().for_each(MemoryDisk::heal);
    assert!(lab.states().iter().all(|state| *state == DiskState::Online), "{:?}", lab.states());
    lab.check();
}

/// A disk of a group without mirrors fails a read and is then slow to answer the next, as when one
/// path of several fails. Its data does not count as lost for that: the read waits for it.
#[test]
fn a_read_of_data_that_only_a_silent_disk_has_waits_for_it() {
    let lab = Lab::new(Redundancy::External, 64 * MIB, &["A", "B", "C", "D", "E"]);
    let node = lab.create_file("table");
    let bytes = pattern(1, 16 << 20);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    lab.close_regions();
    let disk = lab.plain_disk();
    let extent = lab.extents_on(&[u16::try_from(disk).expect("few")]).remove(0);
    let at = usize::try_from(extent.number * MIB).expect("small");
    // Loads the checksums of the block.
    lab.read(node, at as u64, 8192);
    let place = lab.member(disk).layout().au_offset(extent.mirrors()[0].au);
    lab.disks[disk].faults(|faults| faults.hang_in.push(place..place + 4096));
    std::thread::scope(|scope| {
        let _healed = Healed(&lab);
        scope.spawn(|| assert!(lab.read(node, at as u64, 8192) == bytes[at..at + 8192]));
        let is_silent = || lab.disks[disk].hung() > 0 && lab.is_hung(disk);
        lab.wait_for("the read", is_silent);
        lab.disks[disk].fail_hung();
        lab.wait_for("another look", is_silent);
        // A reader that gives up does so within this time.
        std::thread::sleep(Duration::from_secs(2));
        lab.disks[disk].answer();
    });
    assert!(!lab.told("no good mirror"));
    lab.check();
}

/// One mirror of a block has rotted, and the other one is on a disk that is slow to answer and
/// cannot be spared: a read waits for that disk.
#[test]
fn a_read_waits_for_a_silent_disk_when_the_other_mirror_has_rotted() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D", "E"]);
    let node = lab.create_file("table");
    let bytes = pattern(1, 40 << 20);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    lab.close_regions();
    let (away, number) = lab.leave_one_that_is_needed();
    let other = (0..5).find(|other| *other != away && *other != number).expect("five");
    let extent = lab.extents_on(&[number, other]).remove(0);
    let rotten = extent
        .mirrors()
        .into_iter()
        .find(|mirror| mirror.disk.0 == other)
        .expect("it has one there");
    let place = lab.member(usize::from(other)).layout().au_offset(rotten.au);
    lab.disks[usize::from(other)].corrupt(place, &pattern(7, 4096));
    let good = extent
        .mirrors()
        .into_iter()
        .find(|mirror| mirror.disk.0 == number)
        .expect("it has one there");
    let (silent, at) = (usize::from(number), usize::try_from(extent.number * MIB).expect("small"));
    // Loads its checksums and makes its region active: a silent disk does not take the activity
    // log.
    lab.write(node, at as u64 + 8192, &bytes[at + 8192..at + 12288]);
    let place = lab.member(silent).layout().au_offset(good.au);
    lab.disks[silent].faults(|faults| faults.hang_in.push(place..place + 4096));
    std::thread::scope(|scope| {
        let _healed = Healed(&lab);
        scope.spawn(|| assert!(lab.read(node, at as u64, 4096) == bytes[at..at + 4096]));
        lab.wait_for("the read", || lab.is_hung(silent));
        // A reader that gives up does so within this time.
        std::thread::sleep(Duration::from_secs(2));
        lab.disks[silent].answer();
    });
    assert!(!lab.told("no good mirror"));
    lab.online_all();
    block_on(lab.group().check(true)).expect("the check runs");
    lab.check();
}

/// A disk is silent about one block and fails to write another, and its partner was silent, too, a
/// moment ago, and answers now. A failed write is not silence: the disk goes offline, and the
/// writer gets no error.
#[test]
fn a_disk_that_fails_a_write_goes_although_it_is_silent_too() {
    let (lab, work, both) = Lab::with_two_that_do_not_vote();
    let [failing, partner] = both;
    let numbers = both.map(|disk| lab.member(disk).number.0);
    let extent = lab.extents_on(&numbers).pop().expect("every two disks have some");
    let places = both.map(|disk| {
        let member = lab.member(disk);
        let here = extent.mirrors().into_iter().find(|mirror| mirror.disk == member.number);
        member.layout().au_offset(here.expect("it has one there").au)
    });
    for (disk, place) in both.into_iter().zip(places) {
        let elsewhere = place + MIB / 2;
        lab.disks[disk].faults(|faults| faults.hang_in.push(elsewhere..elsewhere + 4096));
        drop(lab.member(disk).start_read(elsewhere, 4096));
    }
    lab.wait_for("the timeouts", || both.iter().all(|disk| lab.is_hung(*disk)));
    // From now on "a moment ago" lasts for long.
    lab.give_time();
    lab.disks[partner].answer();
    assert!(lab.is_hung(failing) && !lab.is_hung(partner));
    assert_eq!((lab.state(failing), lab.state(partner)), (DiskState::Online, DiskState::Online));
    lab.disks[failing].faults(|faults| faults.worn.push(places[0]..places[0] + 4096));
    lab.write(work.old, extent.number * MIB, &pattern(5, 4096));
    assert_eq!((lab.state(failing), lab.state(partner)), (DiskState::Offline, DiskState::Online));
    lab.disks[failing].heal();
    lab.give_none();
    lab.online_all();
    assert_eq!(lab.read(work.old, extent.number * MIB, 4096), pattern(5, 4096));
    lab.check();
}

/// After a crash one mirror of an extent is on a disk that is slow to answer and cannot be spared.
/// Blocks that are known to be right are read meanwhile, and the extent counts as compared when
/// that disk has answered.
#[test]
fn blocks_that_are_known_to_be_right_are_read_while_recovery_waits_for_a_silent_disk() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D", "E"]);
    let node = lab.create_file("table");
    let bytes = pattern(1, 40 << 20);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    lab.close_regions();
    let (away, number) = lab.leave_one_that_is_needed();
    let other = (0..5).find(|other| *other != away && *other != number).expect("five");
    let extent = lab.extents_on(&[number, other]).remove(0);
    let unseen = extent
        .mirrors()
        .into_iter()
        .find(|mirror| mirror.disk.0 == number)
        .expect("it has one there");
    let (silent, at) = (usize::from(number), usize::try_from(extent.number * MIB).expect("small"));
    let place = lab.member(silent).layout().au_offset(unseen.au);
    // Its region is active, and its checksums on the disks are those from before.
    lab.write(node, at as u64, &bytes[at..at + 4096]);
    lab.kill();
    lab.disks[silent].faults(|faults| faults.hang_in.push(place..place + MIB));
    lab.mount();
    lab.wait_for("its silence", || lab.is_hung(silent));
    assert!(lab.read(lab.find("table"), at as u64, 4096) == bytes[at..at + 4096]);
    assert!(!lab.told("recovery ended"));
    lab.disks[silent].answer();
    lab.wait_for("the end of recovery", || lab.told("recovery ended"));
    lab.check();
}

/// A block has rotted on one disk, and a read of it waits for the other one, which is silent. An
/// operator takes that disk offline: the read ends with an error.
#[test]
fn a_read_does_not_wait_for_a_silent_disk_that_was_taken_offline() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D", "E"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 40 << 20));
    lab.sync(node);
    lab.close_regions();
    let silent = lab.plain_disk();
    let number = u16::try_from(silent).expect("few");
    let other = (0..5)
        .find(|other| *other != number && !lab.extents_on(&[number, *other]).is_empty())
        .expect("one has some");
    let extent = lab.extents_on(&[number, other]).remove(0);
    let at = extent.number * MIB;
    // Loads the checksums of the block.
    lab.read(node, at, 8192);
    let place = |disk: u16| {
        let mirror = extent
            .mirrors()
            .into_iter()
            .find(|mirror| mirror.disk.0 == disk)
            .expect("it has one there");
        lab.member(usize::from(disk)).layout().au_offset(mirror.au)
    };
    lab.disks[usize::from(other)].corrupt(place(other), &pattern(7, 4096));
    lab.disks[silent].faults(|faults| faults.hang_in.push(place(number)..place(number) + 4096));
    std::thread::scope(|scope| {
        let _healed = Healed(&lab);
        let reading = scope.spawn(|| lab.try_read(node, at, 4096));
        lab.wait_for("the read", || lab.is_hung(silent));
        lab.offline(silent);
        lab.wait_for("its end", || reading.is_finished());
        lab.disks[silent].heal();
        reading.join().expect("no panic").expect_err("no other mirror has it right");
    });
    lab.online_all();
    let beside = usize::try_from(at).expect("small") + 4096;
    assert_eq!(lab.read(node, beside as u64, 4096), pattern(1, 40 << 20)[beside..][..4096]);
}

/// Two disks that cannot be spared are silent about the catalog's log. One answers before the
/// other: the other one gets no second write before its first write has ended.
#[test]
fn the_catalog_writes_again_when_every_silent_disk_has_answered() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 40 << 20));
    lab.sync(node);
    let has_log = |disk: &usize| !lab.runs_of(CatalogFile::Wal, *disk).is_empty();
    let without = (0..4).find(|disk| !has_log(disk)).expect("one has no log");
    let with_log: Vec<usize> = (0..4).filter(has_log).collect();
    let (one, other) = (with_log[0], with_log[1]);
    lab.offline(without);
    for disk in [one, other] {
        let log = lab.runs_of(CatalogFile::Wal, disk);
        lab.disks[disk].faults(|faults| faults.hang_in = log);
    }
    std::thread::scope(|scope| {
        let _healed = Healed(&lab);
        scope.spawn(|| lab.create_file("another"));
        lab.wait_for("the timeouts", || [one, other].iter().all(|disk| lab.is_hung(*disk)));
        let under_way = lab.disks[other].hung();
        lab.disks[one].answer();
        // A writer that does not wait for the other disk writes within this time.
        std::thread::sleep(2 * LOOK_AGAIN);
        assert_eq!(
            lab.disks[other].hung(),
            under_way,
            "it was written while a write there was in flight"
        );
        assert!(lab.is_hung(other));
        lab.disks[other].answer();
    });
    lab.find("another");
    assert_eq!((lab.state(one), lab.state(other)), (DiskState::Online, DiskState::Online));
    lab.online_all();
    lab.check();
}
