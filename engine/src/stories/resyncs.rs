//! Disks that return after they were offline or missing, and their resyncs.

use super::*;
use crate::{
    catalog::Store,
    disk::{disk_errors::Trouble, disk_io::IoResult},
    extent::data::Data,
    movement::absent::Question,
    testing::Faults,
};
use futures::FutureExt;
use plinth_format::{
    Block, Piece,
    layout::MEMBERSHIP_SLOT,
    membership::{MemberDisk, Membership},
};
use std::{pin::pin, sync::atomic::Ordering};

impl Lab {
    pub(super) fn offline(&self, disk: usize) {
        let name = self
            .group()
            .members
            .values()
            .nth(disk)
            .expect("there is such a disk")
            .name()
            .to_string();
        // Waits until the places of all mirrors are known, and the catalog has all of its mirrors.
        let goes =
            || block_on(self.group().offline(Selection::Disks(vec![name.clone()]), None)).is_ok();
        self.wait_for("a disk that can be spared", goes);
    }

    fn online(&self, disk: usize) {
        let name = self
            .group()
            .members
            .values()
            .nth(disk)
            .expect("there is such a disk")
            .name()
            .to_string();
        block_on(self.group().online(Selection::Disks(vec![name]))).expect("its resync begins");
    }
}

/// A disk has got all that it missed, and fails when it is to be recorded as ONLINE. The resync has
/// failed, and nothing says that the disk is back.
#[test]
fn a_disk_that_fails_as_it_comes_online_is_not_reported_as_online() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 4 << 20));
    lab.sync(node);
    lab.offline(0);
    lab.write(node, 0, &pattern(2, 4 << 20));
    lab.sync(node);
    lab.world.hold_back("resync");
    lab.online(0);
    let resync = lab.world.take_task("resync").expect("it begins");
    let areas = lab.member(0).areas();
    let records = areas.iter().flat_map(|area| area.memberships);
    let records = records.map(|place| place..place + MEMBERSHIP_SLOT as u64);
    lab.disks[0].faults(|faults| faults.worn.extend(records));
    block_on(resync);
    assert_eq!(lab.state(0), DiskState::Offline);
    assert!(!lab.told("DATA_0000 is online"));
    let operations = lab.group().operations();
    let failed =
        operations.iter().find(|one| one.pass == OperationPass::Resync).expect("it is shown");
    assert_eq!(failed.state, OperationState::Errs, "{failed:?}");
    lab.disks[0].heal();
    lab.online(0);
    block_on(lab.world.take_task("resync").expect("it begins again"));
    assert_eq!(lab.state(0), DiskState::Online);
    assert!(lab.told("DATA_0000 is online"));
    lab.check();
}

/// A group of two halves that were mounted by force, each without the other. It is mounted with the
/// second half. The first, which has the longer history, is found and loses: it is to be copied
/// whole.
fn with_a_losing_half() -> Lab {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 200_000));
    lab.sync(node);
    lab.dismount();
    lab.world.detach("/disk1");
    for round in 0..6 {
        lab.try_mount(true).expect("it is forced");
        for part in 0..3 {
            lab.write(lab.find("table"), part * 5 * MIB, &pattern(50 + round, 200_000));
        }
        lab.dismount();
    }
    lab.world.detach("/disk0");
    lab.world.attach(&lab.disks[1]);
    lab.try_mount(true).expect("it is forced");
    lab.write(lab.find("table"), 0, &pattern(2, 200_000));
    lab.world.attach(&lab.disks[0]);
    lab
}

/// The engine is killed while a half that lost after a forced mount is copied. Its own history does
/// not count any more: the next mount succeeds.
#[test]
fn the_history_of_a_losing_half_does_not_count_while_it_is_copied() {
    let mut met = 0;
    let mut wrong = Vec::new();
    for changes in (11..40).step_by(3) {
        let mut lab = with_a_losing_half();
        let fuse = lab.light_fuse(changes);
        let group = Arc::clone(lab.group());
        // It may never end.
        std::thread::spawn(move || drop(block_on(group.online(Selection::All))));
        lab.wait_for("the kill", || fuse.is_blown() || lab.state(0) == DiskState::Online);
        lab.kill();
        lab.no_fuse();
        // Until that line is logged, it is not on record that this half lost.
        if !lab.told("is back: resync begins") {
            continue;
        }
        met += 1;
        match lab.try_mount(false) {
            Err(error) => wrong.push(format!("{changes} changes: {error}")),
            Ok(()) => assert_eq!(
                lab.read(lab.find("table"), 0, 200_000),
                pattern(2, 200_000),
                "{changes} changes"
            ),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(met > 0, "each kill came too early");
}

/// A resync hangs, its disk goes offline and comes back: the old resync must not report progress
/// for the new one.
#[test]
fn an_overtaken_resync_does_not_remove_marks_of_the_next_one() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let first = lab.create_file("first");
    lab.write(first, 0, &pattern(1, 200_000));
    let filler = lab.create_file("filler");
    lab.write(filler, 0, &vec![1; 12 * MIB as usize]);
    let second = lab.create_file("second");
    lab.write(second, 0, &pattern(2, 200_000));
    let extent = |node: Node| {
        lab.group().extents.all().into_iter().find(|extent| extent.file == node).expect("there")
    };
    // Regions that are active when the disk goes offline are one run of marks, and the story needs
    // two.
    while block_on(lab.group().close_idle(true)).expect("closed") {}
    lab.offline(1);
    lab.write(first, 0, &pattern(3, 200_000));
    lab.write(second, 0, &pattern(4, 200_000));
    let (early, late) = (extent(first), extent(second));
    let hold_late = block_on(late.ranges.hold(0..256, true));
    lab.online(1);
    let number = lab.group().members.values().nth(1).expect("there").number;
    lab.wait_for("the first run", || {
        let stale = lab.group().stale.lock();
        stale.get(&number).is_some_and(|runs| !runs.has(early.id) && runs.has(late.id))
    });
    lab.offline(1);
    lab.write(first, 0, &pattern(5, 200_000));
    let hold_early = block_on(early.ranges.hold(0..256, true));
    lab.online(1);
    drop(hold_late);
    std::thread::sleep(Duration::from_millis(500));
    assert_ne!(lab.state(1), DiskState::Online, "the first file is not copied");
    drop(hold_early);
    lab.wait_for("the resync", || lab.state(1) == DiskState::Online);
    lab.silence(0);
    assert_eq!(lab.read(first, 0, 200_000), pattern(5, 200_000));
    assert_eq!(lab.read(second, 0, 200_000), pattern(4, 200_000));
}

/// A resync has copied a batch, and the disk goes offline before the batch is removed from the
/// stale marks. A client writes to the same extent. The marks stay, and the disk gets that write
/// when it returns.
#[test]
fn marks_stay_when_a_disk_goes_offline_after_a_batch_was_copied() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 3 << 20));
    lab.sync(node);
    let extent = lab
        .extents_on(&[0, 1])
        .into_iter()
        .find(|extent| extent.file == node)
        .expect("it has some");
    let (group, member) = (lab.group(), lab.member(1));
    let mirror = extent
        .mirrors()
        .into_iter()
        .find(|mirror| mirror.disk == member.number)
        .expect("it has one there");
    let place = Data::offset(&member, mirror, Block(0));
    lab.offline(1);
    lab.write(node, 0, &pattern(2, 3 << 20));
    lab.sync(node);
    lab.disks[1].faults(|faults| faults.hang_in.push(place..place + MIB));
    lab.online(1);
    lab.wait_for("the copy", || lab.disks[1].hung() > 0);
    let (go_on, busy) = lab.keep_catalog_busy();
    lab.disks[1].answer();
    lab.wait_for("the end of the batch", || group.catalog.jobs_waiting() > 0);
    block_on(group.voters.take_offline(&[member.number])).expect("it goes");
    let session = lab.session();
    let at = extent.number * MIB;
    let writer =
        std::thread::spawn(move || block_on(session.write(node, at, &pattern(3, 60_000), false)));
    lab.wait_for("the write", || writer.is_finished());
    drop(go_on);
    block_on(busy).expect("it goes on");
    writer.join().expect("no panic").expect("it is written");
    lab.wait_for("the end of the resync", || lab.told("resync of disk"));
    lab.online_all();
    lab.silence(0);
    assert_eq!(lab.read(node, at, 60_000), pattern(3, 60_000));
}

/// A resync has copied a batch, and another caller's flush on that disk fails: the copy is lost,
/// although the disk still returns it, and the next flush succeeds. The batch is copied again:
/// later that disk, alone, returns what it had missed.
#[test]
fn a_batch_that_a_failed_flush_of_another_caller_lost_is_copied_again() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 200_000));
    lab.sync(node);
    lab.dismount();
    // No other task flushes.
    ["caretaker", "stamp"].into_iter().for_each(|name| lab.world.hold_back(name));
    lab.mount();
    let node = lab.find("table");
    lab.read(node, 0, 1);
    let extent = lab
        .extents_on(&[0, 1])
        .into_iter()
        .find(|extent| extent.file == node)
        .expect("it has some");
    let member = lab.member(1);
    let mirror = extent
        .mirrors()
        .into_iter()
        .find(|mirror| mirror.disk == member.number)
        .expect("it has one there");
    let place = Data::offset(&member, mirror, Block(0));
    lab.offline(1);
    lab.write(node, 0, &pattern(2, 200_000));
    lab.sync(node);
    lab.close_regions();
    lab.disks[1].faults(|faults| faults.hang_in.push(place..place + MIB));
    lab.online(1);
    lab.wait_for("the copy", || lab.disks[1].hung() > 0);
    lab.give_something_to_flush(1);
    lab.disks[1].faults(|faults| faults.hang = true);
    let mut flush = pin!(member.flush());
    assert!(flush.as_mut().now_or_never().is_none());
    // The copy ends first, then the flush.
    lab.disks[1].faults(|faults| faults.flushes_lost = 1);
    lab.disks[1].answer();
    assert!(!block_on(flush).is_ok());
    lab.wait_for("the resync", || lab.state(1) == DiskState::Online);
    lab.disks[1].forget_given_up();
    lab.silence(0);
    assert_eq!(lab.read(node, 0, 200_000), pattern(2, 200_000));
}

/// A write began while a disk was offline and ends after its resync has passed the extent: the disk
/// must have the write.
#[test]
fn a_write_in_flight_when_a_disk_returns_is_on_that_disk() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    block_on(lab.session().allocate(node, 0, MIB, Allocate::Reserve { keep_size: false }, false))
        .expect("allocated");
    let extent =
        lab.group().extents.all().into_iter().find(|extent| extent.file == node).expect("there");
    lab.offline(1);
    // The steps of a writer between its I/O and its commit.
    let group = Arc::clone(lab.group());
    let held = block_on(async {
        let range = extent.ranges.hold(0..16, true).await;
        let active = group.activate(&extent).await.expect("active");
        group.load_sums(&extent).await.expect("loaded");
        let data = crate::sync::buffer::Buffer::copy_of(&pattern(1, 65_536)).share();
        group.write_blocks(&extent, Block(0), data, false, &active).await.expect("written");
        (range, active)
    });
    lab.online(1);
    lab.wait_for("the resync", || extent.ranges.waiting() > 0 || lab.state(1) == DiskState::Online);
    let row = Arc::clone(&extent);
    block_on(group.catalog.write(false, move |connection| {
        Ok(crate::extent::change_marks(connection, &row, |_, pending| pending.add(Piece(0)))?)
    }))
    .expect("marked");
    drop(held);
    lab.wait_for("the resync", || lab.state(1) == DiskState::Online);
    lab.silence(0);
    assert_eq!(lab.read(node, 0, 65_536), pattern(1, 65_536));
}

/// A disk fails, and ONLINE is run before it is on record which writes the disk misses. ONLINE
/// waits for the record, and the disk gets those writes.
#[test]
fn online_waits_until_the_marks_of_a_failed_disk_are_recorded() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 200_000));
    lab.sync(node);
    let group = lab.group();
    let extent = group
        .extents
        .all()
        .into_iter()
        .find(|extent| extent.file == node)
        .expect("it is in memory");
    let member = lab.member(1);
    let mirror = extent
        .mirrors()
        .into_iter()
        .find(|mirror| mirror.disk == member.number)
        .expect("it has one there");
    let place = member.layout().au_offset(mirror.au);
    // The catalog carries out no job until the channel is closed.
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let mut busy = pin!(group.catalog.release(false, move |_| {
        let _ = waits.recv();
        Ok(())
    }));
    assert!(busy.as_mut().now_or_never().is_none());
    lab.disks[1].faults(|faults| faults.worn.push(place..place + MIB));
    let session = lab.session();
    let writer =
        std::thread::spawn(move || block_on(session.write(node, 0, &pattern(2, 200_000), false)));
    lab.wait_for("the loss", || lab.told("is offline: writing"));
    lab.disks[1].heal();
    let mut returns = pin!(group.online(Selection::All));
    // Disks in memory answer at once: the future comes as far as it can.
    let has_ended = (0..1000).any(|_| returns.as_mut().now_or_never().is_some());
    let state = lab.state(1);
    drop(go_on);
    block_on(busy).expect("it goes on");
    writer.join().expect("no panic").expect("it is written");
    assert!(
        !has_ended && state == DiskState::Offline,
        "it was back before its marks were recorded"
    );
    block_on(returns).expect("its resync begins");
    lab.online_all();
    lab.silence(0);
    assert_eq!(lab.read(node, 0, 200_000), pattern(2, 200_000));
}

/// The power fails during a resync. The disk that returns loses data that was written a moment
/// before in an extent that had no marks, while the other disk keeps it. So the next resync copies
/// that extent, too.
#[test]
fn writes_in_flight_at_a_power_failure_are_copied_to_a_returning_disk() {
    // The first disk keeps all that was not flushed, the other one nothing.
    let end = |seed: u64, disk: u64| Numbers::new(seed * 1000 + disk).below(4);
    let seed = (0..).find(|seed| end(*seed, 0) == 0 && end(*seed, 1) == 1).expect("one in 16");
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let [table, filler, other] = ["table", "filler", "other"].map(|name| lab.create_file(name));
    for (node, length) in [(table, 200_000), (filler, 12 << 20), (other, 200_000)] {
        lab.write(node, 0, &pattern(1, length));
        lab.sync(node);
    }
    lab.close_regions();
    lab.offline(1);
    lab.write(other, 0, &pattern(3, 200_000));
    let extent = lab
        .group()
        .extents
        .all()
        .into_iter()
        .find(|extent| extent.file == other)
        .expect("it is in memory");
    let held = block_on(extent.ranges.hold(0..256, true));
    lab.online(1);
    assert_eq!(lab.state(1), DiskState::Syncing);
    lab.write(table, 0, &pattern(2, 200_000));
    lab.cut_power(seed);
    drop(held);
    lab.mount();
    lab.online_all();
    lab.silence(0);
    assert_eq!(lab.read(lab.find("table"), 0, 200_000), pattern(2, 200_000));
}

/// The engine was killed, and a disk comes back before all regions that were active then were
/// compared: an extent is compared before it is copied. The checksums on the disks are older than
/// its data, so a copy without the comparison would take all of it for lost.
#[test]
fn extents_that_were_active_at_a_kill_are_compared_before_they_are_copied() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 12 << 20));
    lab.sync(node);
    lab.close_regions();
    lab.offline(1);
    let bytes = pattern(2, 12 << 20);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    // Recovery reaches this extent first, and hangs there.
    let first = lab.extents_on(&[0, 2]).remove(0);
    let last = lab.extents_on(&[1, 2]).pop().expect("every two disks have some");
    assert!(first.id < last.id);
    let at = last.number * MIB;
    let mirror =
        first.mirrors().into_iter().find(|mirror| mirror.disk.0 == 0).expect("it has one there");
    let place = lab.member(0).layout().au_offset(mirror.au);
    lab.kill();
    lab.disks[0].faults(|faults| faults.hang_in.push(place..place + MIB));
    lab.mount();
    lab.wait_for("recovery", || lab.disks[0].hung() > 0);
    lab.online(1);
    lab.wait_for("the resync", || lab.state(1) == DiskState::Online);
    lab.disks[2].faults(|faults| faults.fail_reads = true);
    let found = lab.read(lab.find("table"), at, 1 << 20);
    assert!(found == bytes[usize::try_from(at).expect("small")..][..1 << 20]);
    lab.disks.iter().for_each(MemoryDisk::heal);
    lab.wait_for("the end of recovery", || lab.told("recovery ended"));
    lab.check();
}

/// A disk is replaced by an image of it from before many writes: the disk is copied whole, and
/// never read before.
#[test]
fn a_disk_replaced_by_an_old_image_is_copied_whole() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 3_000_000));
    lab.sync(node);
    lab.dismount();
    let old = lab.disks[1].twin();
    for round in 0..3 {
        lab.mount();
        lab.write(lab.find("table"), 0, &pattern(2 + round, 3_000_000));
        lab.dismount();
    }
    lab.disks[1] = old;
    lab.world.attach(&lab.disks[1]);
    lab.mount();
    assert_eq!(lab.state(1), DiskState::Offline);
    assert_eq!(lab.read(lab.find("table"), 0, 3_000_000), pattern(4, 3_000_000));
    lab.online_all();
    lab.check();
    lab.silence(0);
    assert_eq!(lab.read(lab.find("table"), 0, 3_000_000), pattern(4, 3_000_000));
}

/// A disk is replaced by an image from when it was OFFLINE, after a part of its resync: the image
/// does not have the data that was copied then.
#[test]
fn a_disk_replaced_by_an_old_image_after_half_a_resync_is_copied_whole() {
    let length = 100 << 20;
    let mut lab = Lab::new(Redundancy::Normal, 192 * MIB, &["A", "B"]);
    lab.create_file("table");
    let missed = |lab: &Lab| {
        let stale = lab.group().stale.lock();
        stale
            .values()
            .flat_map(crate::extent::stale::Runs::iter)
            .map(|(start, end)| end - start)
            .sum::<u64>()
    };
    let old = (1..).find_map(|round| {
        lab.offline(1);
        let old = lab.disks[1].twin();
        let node = lab.find("table");
        lab.write(node, 0, &pattern(round, length));
        lab.sync(node);
        let all = missed(&lab);
        lab.online(1);
        while missed(&lab) == all {
            std::thread::yield_now();
        }
        // It stays SYNCING, with the rest to be copied.
        lab.dismount();
        lab.world.detach("/disk1");
        lab.mount();
        if missed(&lab) > 0 {
            return Some((old, round));
        }
        lab.world.attach(&lab.disks[1]);
        lab.online_all();
        None
    });
    let (old, round) = old.expect("a dismount comes in between");
    (0..3).for_each(|_| block_on(lab.group().voters.restamp(false)));
    lab.disks[1] = old;
    lab.world.attach(&lab.disks[1]);
    lab.online_all();
    assert!(lab.told("is copied whole: it is an old image"));
    lab.silence(0);
    assert!(lab.read(lab.find("table"), 0, length) == pattern(round, length), "old bytes are read");
    lab.disks[0].heal();
    lab.online_all();
    lab.check();
}

/// A group is dismounted while a disk is copied: that raises no alarm, and the next mount goes on
/// with the copy.
#[test]
fn a_resync_goes_on_after_a_dismount() {
    let mut lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.offline(1);
    lab.write(node, 0, &pattern(1, 40 << 20));
    lab.online(1);
    lab.dismount();
    lab.wait_for("the end of all threads", || lab.world.running() == 0);
    assert!(lab.told("pauses"), "the resync was over before the dismount");
    assert!(!lab.told("resync of disk DATA_0001 ended"));
    lab.mount();
    lab.wait_for("the resync", || lab.state(1) == DiskState::Online);
    lab.silence(0);
    assert_eq!(lab.read(lab.find("table"), 0, 40 << 20), pattern(1, 40 << 20));
}

/// The only disk does not take the activity log: writers wait, one alarm names the disk, and a note
/// says when they go on.
#[test]
fn writers_that_wait_for_the_activity_log_are_reported() {
    let lab = Lab::new(Redundancy::External, 64 * MIB, &["A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    block_on(lab.session().sync(node, false)).expect("it is durable");
    while block_on(lab.group().close_idle(true)).expect("regions close") {}
    lab.disks[0].faults(|faults| faults.fail_writes = true);
    let session = lab.session();
    let writer =
        std::thread::spawn(move || block_on(session.write(node, 0, &pattern(2, 300_000), false)));
    let alarms = || {
        lab.world
            .events()
            .iter()
            .filter(|event| event.text.contains("does not take the activity log"))
            .count()
    };
    lab.wait_for("the alarm", || alarms() > 0);
    let failed = || {
        lab.group()
            .members
            .values()
            .map(|one| one.counters.write_errors.load(std::sync::atomic::Ordering::Relaxed))
            .sum::<u64>()
    };
    lab.wait_for("more tries", || failed() >= 3);
    assert_eq!(alarms(), 1);
    assert!(!writer.is_finished());
    lab.disks[0].heal();
    writer.join().expect("no panic").expect("the write goes on");
    assert!(lab.told("writes go on: the activity log"));
    assert_eq!(lab.read(node, 0, 300_000), pattern(2, 300_000));
}

/// A block cannot be read on the only current mirror, in a region that was active at a crash, while
/// the disk with the old bytes returns. Reads fail and never return the old bytes, whatever happens
/// next; and they return the right bytes once these can be read again.
#[test]
fn an_unreadable_block_is_never_read_from_a_returning_disk_with_old_bytes() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 200_000));
    lab.sync(node);
    // The checksums of the old bytes are on both disks.
    lab.dismount();
    lab.mount();
    lab.offline(0);
    let node = lab.find("table");
    lab.write(node, 65536, &pattern(2, 8192));
    lab.sync(node);
    let bad = {
        let extents = lab.group().extents.all();
        let extent = extents.iter().find(|extent| extent.file == node).expect("it is in memory");
        let member = lab.group().members.values().nth(1).expect("two disks");
        let mirror = extent
            .mirrors()
            .into_iter()
            .find(|mirror| mirror.disk == member.number)
            .expect("it has a mirror there");
        let place = member.layout().au_offset(mirror.au) + 65536;
        place..place + 8192
    };
    lab.kill();
    lab.disks[1].faults(|faults| faults.bad.push(bad));
    lab.mount();
    assert!(
        lab.try_read(lab.find("table"), 65536, 8192).is_err(),
        "its only mirror cannot be read"
    );
    lab.online_all();
    for _ in 0..3 {
        assert!(
            lab.try_read(lab.find("table"), 65536, 8192).is_err(),
            "the disk that returned has old bytes"
        );
        assert_eq!(lab.read(lab.find("table"), 0, 65536), pattern(1, 200_000)[..65536]);
        // In an active region checksums do not count.
        lab.write(lab.find("table"), 0, &pattern(1, 200_000)[..4096]);
        lab.kill();
        lab.mount();
    }
    lab.disks[1].faults(|faults| faults.bad.clear());
    for _ in 0..3 {
        assert_eq!(lab.read(lab.find("table"), 65536, 8192), pattern(2, 8192));
    }
    block_on(lab.group().check(true)).expect("the check runs");
    lab.check();
    assert_eq!(lab.read(lab.find("table"), 65536, 8192), pattern(2, 8192));
}

/// Files take all space while a disk is offline. When it is back, the other disks can go offline:
/// the catalog has its mirror again.
#[test]
fn a_disk_that_returns_to_a_full_group_gets_its_mirror_of_the_catalog() {
    for seed in 0..4 {
        let mut lab = Lab::new(Redundancy::Normal, 48 * MIB, &["A", "B", "B"]);
        lab.offline(0);
        if seed % 2 == 1 {
            lab.kill();
            lab.mount();
        }
        for number in 0..2000 {
            let name = format!("file{number}");
            let made = block_on(lab.session().create(
                ROOT,
                name.as_bytes(),
                NewFile::Regular,
                0o644,
                ROOT_CALLER,
            ));
            let Ok(made) = made else { break };
            if block_on(lab.session().write(made.node, 0, &pattern(number, 300_000), false))
                .is_err()
            {
                break;
            }
        }
        assert_eq!(lab.group().placement().allocatable(&lab.group().space.lock()), 0, "it is full");
        lab.online_all();
        let others = Selection::FailureGroups(vec!["B".to_owned()]);
        block_on(lab.group().offline(others, None)).expect("failure group A has everything");
        let node = lab.find("file0");
        lab.write(node, 0, &pattern(7, 4096));
        lab.sync(node);
        assert_eq!(lab.read(node, 0, 4096), pattern(7, 4096));
    }
}

/// Disks that were only absent, and starts that wait for late ones: `absent.rs`, `arrival.rs`.
impl Lab {
    fn entry(&self, disk: usize) -> MemberDisk {
        self.group().voters.current().disks[disk].clone()
    }

    /// The disks that the caretaker would look for now, and why.
    fn questions(&self) -> Vec<Question> {
        self.group().questions().into_iter().map(|(_, question)| question).collect()
    }

    fn online_again(&self, disk: usize) {
        self.wait_for("its return", || self.state(disk) == DiskState::Online);
    }

    fn online_again_by_statement(&self, disk: usize) {
        self.online(disk);
        self.online_again(disk);
    }

    fn plug(&self, disk: usize) {
        self.disks[disk].heal();
        self.world.attach(&self.disks[disk]);
    }
}

/// A disk is missing at a mount. When it is found again it comes online by itself, and gets what it
/// missed; but not while the attribute forbids that.
#[test]
fn a_disk_that_was_missing_at_a_mount_comes_online_by_itself() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    block_on(lab.group().set_attribute("auto_online.enabled", "false")).expect("it is set");
    lab.dismount();
    lab.world.detach("/disk1");
    lab.mount();
    assert!(lab.entry(1).absent && lab.state(1) == DiskState::Offline);
    let node = lab.find("table");
    lab.write(node, 0, &pattern(2, 300_000));
    lab.plug(1);
    assert!(lab.questions().is_empty(), "the engine does not look for it");
    block_on(lab.group().set_attribute("auto_online.enabled", "true")).expect("it is set");
    lab.online_again(1);
    assert!(!lab.entry(1).absent);
    lab.wait_for("rest", || {
        lab.group().operations().iter().all(|one| one.state != OperationState::Run)
    });
    lab.silence(0);
    assert_eq!(lab.read(node, 0, 300_000), pattern(2, 300_000));
    lab.disks[0].heal();
    lab.check();
}

/// A disk that is present and fails, and one that an operator took offline, stay OFFLINE until a
/// statement brings them online.
#[test]
fn a_disk_taken_offline_by_errors_or_an_operator_stays_offline() {
    let mut lab = Lab::new(Redundancy::High, 64 * MIB, &["A", "B", "C", "D", "E"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.silence(1);
    lab.wait_for("the loss", || {
        lab.write(node, 0, &pattern(2, 300_000));
        let _ = block_on(lab.group().check(true));
        lab.state(1) == DiskState::Offline
    });
    // The engine looks for the disk a few times, and no more.
    lab.wait_for("the looks", || {
        lab.world.advance(Duration::from_secs(3));
        lab.questions().is_empty()
    });
    lab.offline(2);
    lab.plug(1);
    assert!(lab.questions().is_empty() && !lab.entry(1).absent);
    lab.dismount();
    lab.world.detach("/disk2");
    lab.mount();
    assert!(lab.entry(2).by_operator && !lab.entry(2).absent && !lab.entry(1).absent);
    lab.plug(2);
    assert!(lab.questions().is_empty());
    lab.online_all();
    lab.dismount();
    lab.world.detach("/disk3");
    lab.mount();
    assert!(lab.entry(3).absent);
    // The operator takes this one offline, too.
    block_on(lab.group().offline(Selection::Disks(vec!["DATA_0003".to_owned()]), None))
        .expect("it is away already");
    assert!(lab.entry(3).by_operator && !lab.entry(3).absent);
    lab.plug(3);
    assert!(lab.questions().is_empty());
    lab.online_all();
    lab.check();
}

/// An absent disk is replaced by an old image of it: the engine does not overwrite that without a
/// statement.
#[test]
fn an_old_image_does_not_come_online_by_itself() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.dismount();
    let old = lab.disks[1].twin();
    for round in 0..3 {
        lab.mount();
        lab.write(lab.find("table"), 0, &pattern(2 + round, 300_000));
        lab.dismount();
    }
    lab.world.detach("/disk1");
    lab.mount();
    lab.disks[1] = old;
    lab.plug(1);
    lab.wait_for("the refusal", || {
        lab.told(
            "disk DATA_0001 is visible again, but does not come ONLINE by itself: /disk1 would be",
        )
    });
    assert_eq!(lab.state(1), DiskState::Offline);
    lab.online_all();
    assert!(lab.told("is copied whole: it is an old image"));
    lab.check();
}

/// A start waits for a disk that is late, and mounts with all disks. The group's attribute says how
/// long.
#[test]
fn a_start_waits_for_a_disk_that_is_late() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.dismount();
    lab.world.detach("/disk1");
    let start = |lab: &Lab| {
        let world = lab.world();
        std::thread::spawn(move || block_on(Group::await_disks(&world, "DATA")))
    };
    let waiting = start(&lab);
    lab.wait_for("the note", || {
        lab.told("waits up to 10 s for missing disks: DATA_0001 (failure group B)")
    });
    lab.plug(1);
    waiting.join().expect("no panic");
    assert!(lab.told("all disks were found"));
    lab.mount();
    assert_eq!(lab.state(1), DiskState::Online);

    // The disk does not come.
    block_on(lab.group().set_attribute("mount_wait", "200")).expect("it is set");
    lab.kill();
    lab.world.detach("/disk1");
    let waiting = start(&lab);
    lab.wait_for("the note", || lab.told("waits up to 200 s for missing disks"));
    lab.world.advance(Duration::from_secs(200));
    waiting.join().expect("no panic");
    lab.mount();
    lab.plug(1);
    lab.online_again(1);

    // There is no wait if the attribute is 0, or for a disk that was offline before.
    let notes =
        || lab.world.events().iter().filter(|event| event.text.contains("waits up to")).count();
    let before = notes();
    lab.offline(1);
    lab.world.detach("/disk1");
    block_on(Group::await_disks(&lab.world(), "DATA"));
    lab.plug(1);
    lab.online_again_by_statement(1);
    block_on(lab.group().set_attribute("mount_wait", "0")).expect("it is set");
    lab.world.detach("/disk2");
    block_on(Group::await_disks(&lab.world(), "DATA"));
    assert_eq!(notes(), before);
}

/// In the alert log, an operator's OFFLINE is a note; a disk's failure is an alarm.
#[test]
fn an_offline_by_an_operator_raises_no_alarm() {
    let lab = Lab::new(Redundancy::High, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.offline(1);
    lab.silence(2);
    lab.wait_for("the loss", || {
        lab.write(node, 0, &pattern(2, 300_000));
        lab.state(2) == DiskState::Offline
    });
    let told = |disk: &str| {
        let text = format!("disk {disk} in failure group");
        let severities = lab
            .world
            .events()
            .into_iter()
            .filter(|event| event.text.contains(&text) && event.text.contains("is offline"));
        severities.map(|event| event.severity).collect::<Vec<_>>()
    };
    assert_eq!(told("DATA_0001"), [crate::event::Severity::Note]);
    assert_eq!(told("DATA_0002"), [crate::event::Severity::Alarm]);
}

/// A disk that is read-only when the group is mounted counts as missing, and the reason is
/// reported. The group is mounted without it where that is possible, even after a kill, and the
/// disk comes back when it can be written.
#[test]
fn a_disk_that_is_read_only_at_a_mount_counts_as_missing() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 3_000_000));
    lab.sync(node);
    lab.dismount();
    lab.disks[1].faults(|faults| faults.read_only = true);
    lab.mount();
    assert_eq!(lab.state(1), DiskState::Offline);
    assert!(lab.told("disk DATA_0001 is not used: /disk1 is read-only"));
    let node = lab.find("table");
    lab.write(node, 0, &pattern(2, 3_000_000));
    lab.sync(node);
    // It is offline already when its engine dies.
    lab.kill();
    lab.mount();
    assert!(lab.read(lab.find("table"), 0, 3_000_000) == pattern(2, 3_000_000));
    lab.disks[1].faults(|faults| faults.read_only = false);
    lab.online_all();
    lab.check();
}

/// Where the disk is needed, the mount's error gives the reason why it is not used, and FORCE
/// mounts without it.
#[test]
fn the_error_of_a_mount_names_a_read_only_disk_that_is_needed() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.sync(node);
    lab.dismount();
    lab.disks[1].faults(|faults| faults.read_only = true);
    let refused = lab.try_mount(false).expect_err("one of two voters");
    assert!(refused.code == crate::admin::Code::NoQuorum, "{refused}");
    assert!(
        refused.to_string().contains("disk DATA_0001 is not used: /disk1 is read-only"),
        "{refused}"
    );
    lab.try_mount(true).expect("it is forced");
    assert!(lab.read(lab.find("table"), 0, 300_000) == pattern(1, 300_000));
}

/// A disk that was ONLINE cannot be claimed at a mount, for any reason except that another process
/// holds it: it counts as missing, and is reported with the reason. The same holds when it is
/// OFFLINE already. A disk that another process holds makes the mount fail.
#[test]
fn a_disk_that_cannot_be_claimed_counts_as_missing() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 200_000));
    lab.sync(node);
    lab.dismount();
    for kind in [
        std::io::ErrorKind::ReadOnlyFilesystem,
        std::io::ErrorKind::PermissionDenied,
        std::io::ErrorKind::Other,
    ] {
        lab.disks[2].faults(|faults| faults.claim = Some(kind));
        for _ in 0..2 {
            lab.mount();
            assert!(lab.told("is not used"), "{kind}");
            assert!(!lab.told("is missing"), "{kind}");
            assert_eq!(lab.read(lab.find("table"), 0, 200_000), pattern(1, 200_000));
            lab.kill();
        }
        lab.disks[2].faults(|faults| faults.claim = None);
        lab.mount();
        lab.online_all();
        lab.check();
        lab.dismount();
    }
    lab.disks[2].faults(|faults| faults.claim = Some(std::io::ErrorKind::WouldBlock));
    let error = lab.try_mount(true).expect_err("another process holds it");
    assert_eq!(error.code, Code::HeldElsewhere, "{error}");
    lab.disks[2].faults(|faults| faults.claim = None);
    lab.mount();
    lab.check();
}

/// A disk that cannot be spared takes no stamps for a while, and another one takes them all: the
/// first is not taken for an old image at the next mount.
#[test]
fn a_disk_that_takes_no_stamps_is_not_taken_for_an_old_image() {
    let mut lab = Lab::new(Redundancy::External, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    let member = Arc::clone(lab.group().members.values().nth(1).expect("two"));
    let stamps = member
        .areas()
        .iter()
        .flat_map(|area| area.stamps)
        .map(|place| place..place + 4096)
        .collect();
    lab.disks[1].faults(|faults| faults.worn = stamps);
    (0..3).for_each(|_| block_on(lab.group().voters.restamp(false)));
    assert_eq!(lab.state(1), DiskState::Online, "some extents are only there");
    lab.kill();
    lab.disks[1].heal();
    lab.mount();
    assert_eq!([lab.state(0), lab.state(1)], [DiskState::Online; 2]);
    assert!(lab.read(lab.find("table"), 0, 6 << 20) == pattern(1, 6 << 20));
    lab.check();
}

/// A mirror of the catalog's database is built on a disk that does not vote, and no other task
/// flushes it. As soon as the mirror is listed the power may fail, and the mirror must be complete
/// without any other.
#[test]
fn a_new_mirror_of_the_catalog_survives_a_loss_of_power() {
    for seed in 0..3 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D", "E", "F", "G"]);
        block_on(lab.group().set_attribute("thin_provisioned", "false")).expect("it is set");
        lab.create_file("table");
        let group = lab.group();
        let membership = group.voters.current();
        let runs = |lab: &Lab, disk: usize| lab.runs_of(CatalogFile::Database, disk);
        let old: Vec<usize> = (0..7).filter(|disk| !runs(&lab, *disk).is_empty()).collect();
        assert_eq!(old.len(), 3);
        let plain = (0..7)
            .find(|disk| !membership.disks[*disk].votes && !old.contains(disk))
            .expect("five vote");
        // There is room on this one only.
        for member in
            group.members.values().filter(|member| member.number != membership.disks[plain].number)
        {
            while group.space().allocate_reserved(member.number).is_some() {}
        }
        let struck = membership.disks[old[0]].number;
        let strike = |next: &mut Membership| {
            next.catalog.retain(|run| (run.file, run.disk) != (CatalogFile::Database, struck));
            Ok(true)
        };
        block_on(group.voters.change(strike)).expect("it is recorded");
        // The stamp that follows each change of the membership does not flush it either.
        group.deadline.store(10_000, Ordering::Relaxed);
        let member = Arc::clone(group.members.values().nth(plain).expect("seven"));
        let stamps = member
            .areas()
            .iter()
            .flat_map(|area| area.stamps)
            .map(|place| place..place + 4096)
            .collect();
        lab.disks[plain].faults(|faults| faults.hang_writes = stamps);
        let builder = Arc::clone(group);
        // The thread waits for a disk that does not answer any more.
        drop(std::thread::spawn(move || block_on(builder.rebuild_catalog())));
        lab.wait_for("the new mirror", || !runs(&lab, plain).is_empty());
        let lost: Vec<_> = old[1..].iter().map(|disk| (*disk, runs(&lab, *disk))).collect();
        lab.cut_power(seed);
        lab.disks[plain].heal();
        for (disk, runs) in lost {
            for run in runs {
                let length = usize::try_from(run.end - run.start).expect("small");
                lab.disks[disk].corrupt(run.start, &pattern(run.start, length));
            }
        }
        lab.mount();
        lab.find("table");
        block_on(lab.group().check(true)).expect("the check runs");
        lab.check();
    }
}

/// Five disks, of which one is to vote next and cannot be spared, and a file on all of them.
/// `wears` gets the places of the activity log on that disk and sets its faults.
fn with_one_that_is_to_vote(
    wears: impl FnOnce(&mut Faults, Vec<std::ops::Range<u64>>),
) -> (Lab, Node) {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "B", "C", "D"]);
    // One disk of a failure group has the data, and the other one the vote.
    lab.offline(1);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 40 << 20));
    lab.sync(node);
    lab.online_all();
    lab.offline(2);
    lab.online_all();
    lab.close_regions();
    assert!(lab.votes(1) && !lab.votes(2));
    // Extents on these two disks now have no other mirror.
    lab.offline(3);
    let logs = lab.places_of_logs(2);
    lab.disks[2].faults(|faults| wears(faults, logs));
    lab.offline(1);
    assert!(!lab.votes(1) && !lab.votes(2));
    (lab, node)
}

/// A disk is to vote, does not take the activity log, and cannot be spared. Other disks go offline
/// and come back all the same: the vote stays where it is.
#[test]
fn a_disk_comes_back_while_another_one_cannot_vote() {
    let (lab, node) = with_one_that_is_to_vote(|faults, logs| faults.worn = logs);
    block_on(lab.group().online(Selection::Disks(vec!["DATA_0001".into()])))
        .expect("it comes back");
    lab.wait_for("its return", || lab.state(1) == DiskState::Online);
    assert_eq!(lab.state(2), DiskState::Online);
    lab.disks[2].heal();
    lab.online_all();
    assert_eq!(lab.read(node, 0, 40 << 20), pattern(1, 40 << 20));
    lab.check();
}

/// A disk that is to vote takes all preparing writes, but does not keep the activity log itself: it
/// does not vote, so later writes of the log do without it.
#[test]
fn writers_do_not_wait_for_a_disk_that_could_not_become_a_voter() {
    let (lab, node) = with_one_that_is_to_vote(|faults, logs| faults.lost_when_durable = logs);
    // Its region is not open.
    let session = lab.session();
    let writer =
        std::thread::spawn(move || block_on(session.write(node, 0, &pattern(2, 300_000), false)));
    let waits = || lab.told("does not take the activity log");
    lab.wait_for("the write, or a wait for the disk", || writer.is_finished() || waits());
    let has_waited = waits();
    lab.disks[2].heal();
    writer.join().expect("no panic").expect("it is written");
    assert!(!has_waited, "the disk does not vote");
    assert_eq!(lab.state(2), DiskState::Online);
    lab.online_all();
    assert_eq!(lab.read(node, 0, 300_000), pattern(2, 300_000));
    lab.check();
}

/// The catalog has to grow, and then to shrink, while a disk that is to vote does not take the
/// activity log and cannot be spared: both succeed without that vote.
#[test]
fn the_catalog_grows_while_a_disk_cannot_vote() {
    let (lab, node) = with_one_that_is_to_vote(|faults, logs| faults.worn = logs);
    let (store, member) = (Arc::clone(&lab.group().store), lab.member(2));
    let size = store.capacity(CatalogFile::Database);
    let resize = move |_: &rusqlite::Connection| {
        let grown = store
            .grow(CatalogFile::Database, size + MIB)
            .map(|()| store.capacity(CatalogFile::Database));
        let shrunk = store
            .shrink(CatalogFile::Database, size)
            .map(|()| store.capacity(CatalogFile::Database));
        Ok((grown, shrunk))
    };
    // On the catalog's own thread, as when the engine resizes it by itself.
    let catalog = Arc::clone(&lab.group().catalog);
    let resizing = std::thread::spawn(move || block_on(catalog.release(false, resize)));
    // A resize that cannot go on tries to write to the disk again and again.
    let refused = || member.counters.write_errors.load(Ordering::Relaxed);
    let before = refused();
    lab.wait_for("the end, or many refusals", || {
        resizing.is_finished() || refused() > before + 100
    });
    let goes_on = resizing.is_finished();
    lab.disks[2].heal();
    let ((grown, shrunk), _) = resizing.join().expect("no panic").expect("the catalog goes on");
    assert!(grown.expect("there is room") > size);
    assert_eq!(shrunk.expect("it is recorded"), size);
    assert!(goes_on && lab.group().failure().is_none());
    assert_eq!(lab.state(2), DiskState::Online);
    lab.online_all();
    assert_eq!(lab.read(node, 0, 40 << 20), pattern(1, 40 << 20));
    lab.check();
}

/// I/O in flight on a disk that is taken OFFLINE is given up, and is no timeout of the disk.
#[test]
fn a_disk_that_the_operator_takes_offline_has_no_timeouts() {
    let lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B", "C"]);
    let member = lab.member(1);
    // Where there is nothing.
    let place = 90 * MIB;
    lab.disks[1].faults(|faults| faults.hang_in.push(place..place + 1));
    let read = member.start_read(place, plinth_format::BLOCK_SIZE);
    lab.offline(1);
    assert!(matches!(block_on(read.result()), IoResult::Overdue));
    assert_eq!(member.counters.read_timeouts.load(Ordering::Relaxed), 0);
    let kinds: Vec<_> = member.counters.disk_errors.all().into_iter().map(|one| one.0).collect();
    assert_eq!(kinds, [Trouble::Offline]);
    lab.disks[1].heal();
    lab.online_all();
    lab.check();
}
