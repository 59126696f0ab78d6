//! A mirror moves, is made or is removed (`mover.rs`), and something else happens between two of
//! the steps.

use super::*;
use crate::{
    disk::disk_errors::Trouble,
    extent::{self, data::Data},
    space::AuState,
};
use futures::FutureExt;
use plinth_format::{Au, Block, DiskNumber, layout::MEMBERSHIP_SLOT};
use std::{
    cell::RefCell,
    ops::Range,
    pin::{Pin, pin},
    sync::{atomic::Ordering, mpsc},
};
use tokio::sync::OwnedSemaphorePermit;

impl Lab {
    /// From now on reads and writes hang in those AUs of a disk that are not allocated.
    fn hang_where_nobody_is(&self, disk: usize) {
        let member = self.member(disk);
        let layout = member.layout();
        let space = self.group().space.lock();
        let units =
            layout.data_units().filter(|au| space.state(member.number, *au) != Some(AuState::Used));
        let places: Vec<Range<u64>> = units.map(|au| place(&layout, au)).collect();
        self.disks[disk].faults(|faults| faults.hang_in = places);
    }

    /// Polls `future` until `ready` returns true, which must be before the future ends.
    fn go_on_until<F: Future>(&self, what: &str, future: Pin<&mut F>, ready: impl Fn() -> bool) {
        let future = RefCell::new(future);
        self.wait_for(what, || {
            assert!(
                future.borrow_mut().as_mut().now_or_never().is_none(),
                "it has ended before: {what}"
            );
            ready()
        });
    }

    /// Polls `future` until `ready` returns true. Returns the future's result if it ends first.
    fn go_on_or_end<F: Future>(
        &self,
        what: &str,
        future: Pin<&mut F>,
        ready: impl Fn() -> bool,
    ) -> Option<F::Output> {
        let (future, end) = (RefCell::new(future), RefCell::new(None));
        self.wait_for(what, || {
            *end.borrow_mut() = future.borrow_mut().as_mut().now_or_never();
            end.borrow().is_some() || ready()
        });
        end.into_inner()
    }

    /// Polls a move to a disk until all is copied. The move does no further step as long as the
    /// permit is held.
    fn copy_all<F: Future>(&self, disk: usize, mut moving: Pin<&mut F>) -> OwnedSemaphorePermit {
        self.group().rebalance.set_copy_permits(1);
        let permits = self.group().rebalance.copy_permits().expect("it is open");
        self.hang_where_nobody_is(disk);
        self.go_on_until("the copy", moving.as_mut(), || self.disks[disk].hung() > 0);
        let mut permit = pin!(permits.acquire_owned());
        assert!(permit.as_mut().now_or_never().is_none(), "the copy has it");
        self.disks[disk].answer();
        loop {
            assert!(moving.as_mut().now_or_never().is_none(), "it asks for a permit once more");
            if let Some(permit) = permit.as_mut().now_or_never() {
                return permit.expect("it stays open");
            }
            std::thread::yield_now();
        }
    }
}

/// Where an AU is on its disk.
fn place(layout: &plinth_format::Layout, au: Au) -> Range<u64> {
    layout.au_bytes(au, 1)
}

/// A block cannot be read on the only disk that has it, and can be read later. COMPACT does not
/// move its extent.
#[test]
fn compact_leaves_an_extent_of_which_a_block_cannot_be_read() {
    let (lab, node, plain) = Lab::with_a_plain_disk();
    let extent = lab.extent_alone_on(plain, node);
    let (member, mirror) = (lab.member(plain), extent.mirrors()[0]);
    let bytes = lab.read(node, extent.number * MIB, 1 << 20);
    let bad = Data::offset(&member, mirror, Block(40));
    lab.disks[plain].faults(|faults| faults.bad.push(bad..bad + 4096));
    let moved =
        block_on(lab.group().move_mirror(&extent, mirror.disk, &member, Some(Au(u32::MAX))));
    lab.disks[plain].heal();
    let found = lab.try_read(node, extent.number * MIB, 1 << 20);
    assert!(found.is_ok_and(|found| found == bytes), "{moved:?}");
}

/// A move has copied everything when another caller's flush of the target fails, and the target
/// loses what was copied. The move's own flush, which succeeds, does not make that good: the mirror
/// stays where it is.
#[test]
fn a_mirror_does_not_move_to_a_disk_that_lost_the_copy_with_a_flush() {
    let (lab, node, plain) = Lab::with_a_plain_disk();
    lab.allow_silence();
    let source = (0..5).find(|disk| *disk != plain).expect("five");
    let extent = lab.extent_alone_on(source, node);
    let bytes = lab.read(node, extent.number * MIB, 1 << 20);
    lab.close_regions();
    let (group, to) = (lab.group(), lab.member(plain));
    let mut moving = pin!(group.move_mirror(&extent, lab.member(source).number, &to, None));
    let permit = lab.copy_all(plain, moving.as_mut());
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    assert!(!block_on(to.flush()).is_ok());
    drop(permit);
    let moved = block_on(moving);
    lab.disks[plain].forget_given_up();
    let found = lab.try_read(node, extent.number * MIB, 1 << 20);
    assert!(found.is_ok_and(|found| found == bytes), "{moved:?}");
}

/// A region is closed when a move in it has copied everything and not changed the row yet: the
/// checksums are at the new place all the same.
#[test]
fn checksums_move_with_a_mirror_although_its_region_was_closed_meanwhile() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    lab.close_regions();
    let extent = lab.extents_on(&[0, 1]).remove(0);
    let (group, to) = (lab.group(), lab.member(2));
    let mut moving = pin!(group.move_mirror(&extent, DiskNumber(0), &to, None));
    let permit = lab.copy_all(2, moving.as_mut());
    lab.close_regions();
    drop(permit);
    assert_eq!(block_on(moving).expect("it moves"), Some(MIB));
    lab.close_regions();
    lab.check();
}

/// A reader has read the row of an extent. Then the extent gets one mirror more and is dropped from
/// memory. When the reader loads the extent by its old row it gets all mirrors, and later writes go
/// to all of them.
#[test]
fn an_extent_loaded_by_an_old_row_has_all_its_mirrors() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    lab.dismount();
    lab.mount();
    let group = lab.group();
    let extent = lab.extents_on(&[0, 1]).remove(0);
    let (id, at) = (extent.id, extent.number * MIB);
    let look = group.extents.snapshot();
    let row = block_on(group.catalog.read(move |connection| Ok(extent::load(connection, id)?)));
    let row = row.expect("it is read").expect("it is there");
    assert_eq!(block_on(group.add_mirror(&extent, &lab.member(2))).expect("it is made"), Some(MIB));
    drop(extent);
    lab.close_regions();
    group.extents.trim();
    let extent = look.get_or_insert(row).expect("it is alive");
    lab.write(lab.find("table"), at, &pattern(2, 8192));
    let mirrors = extent.mirrors().len();
    drop((extent, look));
    lab.dismount();
    lab.mount();
    lab.check();
    assert_eq!(mirrors, 3);
}

/// The copy of a move is overdue on a disk that cannot be spared. The target AU is not given to
/// another owner until the copy has ended.
#[test]
fn the_target_of_an_overdue_copy_stays_allocated_until_the_copy_ends() {
    let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 12 << 20));
    lab.sync(node);
    let extent = lab.extents_on(&[0, 1]).remove(0);
    lab.offline(1);
    lab.hang_where_nobody_is(2);
    let (group, to) = (lab.group(), lab.member(2));
    let mut moving = pin!(group.move_mirror(&extent, DiskNumber(1), &to, None));
    lab.go_on_until("the copy", moving.as_mut(), || lab.disks[2].hung() > 0);
    let target = extent.target().expect("it is on its way");
    let refused = || {
        let disk_errors = to.counters.disk_errors.all();
        disk_errors
            .iter()
            .find(|(trouble, _)| *trouble == Trouble::Refused)
            .map_or(0, |(_, seen)| seen.count)
    };
    // A copy that goes on waiting asks again whether the disk can go offline now.
    let end = lab.go_on_or_end("a second refusal", moving.as_mut(), || refused() > 1);
    assert_eq!(lab.state(2), DiskState::Online);
    assert_eq!(
        group.space().state(target.disk, target.au),
        Some(AuState::Used),
        "a later write there may be lost"
    );
    assert!(end.is_none());
    lab.disks[2].heal();
    assert_eq!(block_on(moving).expect("it moves"), Some(MIB));
    assert!(lab.read(node, 0, 12 << 20) == pattern(1, 12 << 20));
    lab.check();
}

/// A dismount begins while a move's copy is overdue on a disk that cannot be spared. The dismount
/// may fail, so the target AU is given to no other extent before the copy has ended. The dismount
/// ends when the disk answers; a dismount with FORCE does not wait for that.
#[test]
fn the_target_of_an_overdue_copy_stays_allocated_during_a_dismount() {
    for force in [false, true] {
        let mut lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C"]);
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, 12 << 20));
        lab.sync(node);
        let extent = lab.extents_on(&[0, 1]).remove(0);
        lab.offline(1);
        lab.hang_where_nobody_is(2);
        let (group, to) = (Arc::clone(lab.group()), lab.member(2));
        let mut moving = pin!(group.move_mirror(&extent, DiskNumber(1), &to, None));
        lab.go_on_until("the copy", moving.as_mut(), || lab.disks[2].hung() > 0);
        let target = extent.target().expect("it is on its way");
        let refused = || {
            let disk_errors = to.counters.disk_errors.all();
            disk_errors
                .iter()
                .find(|(trouble, _)| *trouble == Trouble::Refused)
                .map_or(0, |(_, seen)| seen.count)
        };
        lab.go_on_until("a refusal", moving.as_mut(), || refused() > 0);
        let ending = Arc::clone(&group);
        let ending = std::thread::spawn(move || block_on(ending.dismount(force)));
        let end = if force {
            lab.go_on_or_end("the end of the group", moving.as_mut(), || ending.is_finished())
        } else {
            lab.go_on_until("the dismount", moving.as_mut(), || group.is_stopping());
            let before = refused();
            let end =
                lab.go_on_or_end("another refusal", moving.as_mut(), || refused() > before + 1);
            assert_eq!(
                group.space().state(target.disk, target.au),
                Some(AuState::Used),
                "a later write there may be lost"
            );
            assert!(end.is_none() && !ending.is_finished());
            lab.disks[2].heal();
            end
        };
        // Whether the mirror has moved does not matter here.
        let _ = end.unwrap_or_else(|| block_on(moving));
        lab.wait_for("the end of the group", || ending.is_finished());
        ending.join().expect("no panic").expect("it ends");
        lab.disks[2].heal();
        lab.mount();
        lab.online_all();
        assert!(lab.read(lab.find("table"), 0, 12 << 20) == pattern(1, 12 << 20));
        lab.check();
    }
}

/// A move fails while a client's write to the new place is in flight: the AU is not freed until
/// that write has ended.
#[test]
fn the_target_of_a_failed_move_is_freed_after_the_last_write_to_it_has_ended() {
    let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 12 << 20));
    lab.sync(node);
    let extent = lab.extents_on(&[0, 1]).remove(0);
    // So that the target disk cannot be spared.
    lab.offline(1);
    let (group, to) = (lab.group(), lab.member(2));
    let mut moving = pin!(group.move_mirror(&extent, DiskNumber(1), &to, None));
    let permit = lab.copy_all(2, moving.as_mut());
    let target = extent.target().expect("it is on its way");
    let Range { start, end } = place(&to.layout(), target.au);
    let middle = start + MIB / 2;
    lab.disks[2].faults(|faults| {
        faults.hang_in.push(start..middle);
        faults.worn.push(middle..end);
    });
    let (session, at) = (lab.session(), extent.number * MIB);
    let writer =
        std::thread::spawn(move || block_on(session.write(node, at, &pattern(2, 8192), false)));
    lab.wait_for("the write", || lab.disks[2].hung() > 0);
    // A write that fails on the target ends the move.
    lab.write(node, at + MIB / 2, &pattern(3, 8192));
    drop(permit);
    let end =
        lab.go_on_or_end("the end of the move", moving.as_mut(), || extent.ranges.waiting() > 0);
    assert_eq!(
        group.space().state(target.disk, target.au),
        Some(AuState::Used),
        "a later write there may be lost"
    );
    lab.disks[2].heal();
    writer.join().expect("no panic").expect("it is written");
    assert!(end.is_none());
    assert_eq!(block_on(moving).expect("it stays where it was"), None);
    assert_eq!(lab.read(node, at, 8192), pattern(2, 8192));
    lab.check();
}

/// A copy to a mirror has looked up its place, and the mirror moves before the copy begins. Another
/// extent has the AU by then: nothing is copied there.
#[test]
fn nothing_is_copied_to_the_old_place_of_a_moved_mirror() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    let (extent, other) = (lab.extents_on(&[0, 1]).remove(0), lab.extents_on(&[0, 2]).remove(0));
    let (group, [_, second, third]) = (lab.group(), [0, 1, 2].map(|disk| lab.member(disk)));
    let old = extent
        .mirrors()
        .into_iter()
        .find(|mirror| mirror.disk == second.number)
        .expect("it has one there");
    assert_eq!(
        block_on(group.move_mirror(&extent, second.number, &third, None)).expect("it moves"),
        Some(MIB)
    );
    lab.wait_for("its old place", || group.space().state(old.disk, old.au) == Some(AuState::Free));
    let moved = block_on(group.move_mirror(&other, third.number, &second, Some(old.au.next())));
    assert_eq!(moved.expect("it moves"), Some(MIB));
    assert!(other.mirrors().contains(&old));
    let copied =
        block_on(group.copy_marked(&extent, &second, old, None, || true)).expect("it ends");
    lab.check();
    assert_eq!(copied.bytes, 0);
}

/// A mirror is to be removed, and before that begins the disk of the mirror that stays goes
/// offline: the mirror is not removed.
#[test]
fn a_mirror_is_not_removed_when_the_other_one_has_gone_offline() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    let extent = lab.extents_on(&[0, 1]).remove(0);
    lab.close_regions();
    let (group, world) = (lab.group(), lab.world());
    let log = block_on(group.activity.hold_log(&*world)).expect("no write of it takes long");
    let mut taking = pin!(group.remove_mirror(&extent, DiskNumber(0)));
    lab.go_on_until("the way into its region", taking.as_mut(), || group.activity.has(extent.id));
    block_on(group.voters.take_offline(&[DiskNumber(1)])).expect("the other mirror is there");
    drop(log);
    let is_taken = block_on(taking).expect("it is known");
    assert!(lab.read(node, 0, 6 << 20) == pattern(1, 6 << 20));
    assert!(!is_taken);
    lab.check();
}

/// A disk is to go offline, which is decided but not recorded yet, when the other mirror of one of
/// its extents is to be removed. The removal waits for the record, and then does not happen.
#[test]
fn a_mirror_is_not_removed_while_the_disk_of_the_other_one_goes_offline() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    let extent = lab.extents_on(&[0, 1]).remove(0);
    let records =
        lab.member(2).areas().iter().flat_map(|area| area.memberships).collect::<Vec<_>>();
    let places = records.into_iter().map(|at| at..at + MEMBERSHIP_SLOT as u64).collect();
    lab.disks[2].faults(|faults| faults.hang_in = places);
    let (group, voters) = (lab.group(), Arc::clone(&lab.group().voters));
    let going = std::thread::spawn(move || block_on(voters.take_offline(&[DiskNumber(1)])));
    lab.wait_for("the record", || lab.disks[2].hung() > 0);
    // Its region is open when the mirror is to be removed.
    lab.write(node, extent.number * MIB, &pattern(2, 8192));
    let mut taking = pin!(group.remove_mirror(&extent, DiskNumber(0)));
    let is_alone = || group.mirror_sets.counts().iter().any(|(set, _)| *set == [DiskNumber(1)]);
    let end = lab.go_on_or_end("the count of the single mirror", taking.as_mut(), is_alone);
    // All changes of the catalog that were to be made are made.
    block_on(group.catalog.release(true, |_| Ok(()))).expect("it is there");
    lab.disks[2].heal();
    going.join().expect("no panic").expect("the other mirror was there");
    let is_taken = end.unwrap_or_else(|| block_on(taking)).expect("it is known");
    assert_eq!(lab.read(node, extent.number * MIB, 8192), pattern(2, 8192));
    assert!(!is_taken);
    lab.check();
}

/// A client's write where an extent has no data yet goes to the old mirrors only, and is in flight
/// when one of them begins to move. The move waits for the write, and copies it too.
#[test]
fn a_move_waits_for_a_write_that_began_before_it() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    let reserve = Allocate::Reserve { keep_size: false };
    block_on(lab.session().allocate(node, 0, 6 * MIB, reserve, false)).expect("there is room");
    let extent = lab.extents_on(&[0, 1]).remove(0);
    let (group, to) = (lab.group(), lab.member(2));
    let stays =
        extent.mirrors().into_iter().find(|mirror| mirror.disk.0 == 1).expect("it has one there");
    let hanging = place(&lab.member(1).layout(), stays.au);
    lab.disks[1].faults(|faults| faults.hang_in.push(hanging));
    let (session, at) = (lab.session(), extent.number * MIB);
    let writer =
        std::thread::spawn(move || block_on(session.write(node, at, &pattern(1, 65_536), false)));
    lab.wait_for("the write", || lab.disks[1].hung() > 0);
    let mut moving = pin!(group.move_mirror(&extent, DiskNumber(0), &to, None));
    let end =
        lab.go_on_or_end("the wait for the write", moving.as_mut(), || extent.ranges.waiting() > 0);
    lab.disks[1].heal();
    writer.join().expect("no panic").expect("it is written");
    let moved = end.unwrap_or_else(|| block_on(moving)).expect("it moves");
    lab.disks[1].faults(|faults| faults.fail_reads = true);
    let found = lab.try_read(node, at, 65_536);
    assert!(
        found.is_ok_and(|found| found == pattern(1, 65_536)),
        "the new mirror lacks an acknowledged write"
    );
    assert_eq!(moved, Some(65_536));
    lab.disks[1].heal();
    lab.check();
}

/// A mirror has moved, durably, and a write that began before is in flight to its old place: the AU
/// is not freed until that write has ended.
#[test]
fn the_old_place_of_a_moved_mirror_is_freed_after_the_last_write_to_it_has_ended() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    let extent = lab.extents_on(&[0, 1]).remove(0);
    let (group, to) = (lab.group(), lab.member(2));
    // So long that the disk does not count as silent: the code that frees the place would wait no
    // longer for a silent disk.
    group.deadline.store(10_000, Ordering::Relaxed);
    let old =
        extent.mirrors().into_iter().find(|mirror| mirror.disk.0 == 0).expect("it has one there");
    let mut moving = pin!(group.move_mirror(&extent, DiskNumber(0), &to, None));
    let permit = lab.copy_all(2, moving.as_mut());
    let hanging = place(&lab.member(0).layout(), old.au);
    lab.disks[0].faults(|faults| faults.hang_in.push(hanging));
    let (session, at) = (lab.session(), extent.number * MIB);
    let writer =
        std::thread::spawn(move || block_on(session.write(node, at, &pattern(2, 8192), false)));
    lab.wait_for("the write", || lab.disks[0].hung() > 0);
    drop(permit);
    assert_eq!(block_on(moving).expect("it moves"), Some(MIB));
    let state = || group.space().state(old.disk, old.au);
    for _ in 0..2 {
        block_on(group.reclaim(true)).expect("the catalog answers");
        assert_eq!(state(), Some(AuState::Reclaimable), "a later write there may be lost");
    }
    lab.disks[0].heal();
    writer.join().expect("no panic").expect("it is written");
    lab.wait_for("its old place", || state() != Some(AuState::Reclaimable));
    assert_eq!(lab.read(node, at, 8192), pattern(2, 8192));
    lab.check();
}

/// A client writes while the commit of a move is in flight, and the engine is killed before the
/// disks have it: the mirror is where it was, and has what was acknowledged.
#[test]
fn the_old_place_is_written_until_the_move_is_durable() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    // The checksums of the old bytes are on the disks.
    lab.close_regions();
    let extent = lab.extents_on(&[0, 1]).remove(0);
    let (group, to, at) = (Arc::clone(lab.group()), lab.member(2), extent.number * MIB);
    // The catalog carries out no job until the channel is closed.
    let (go_on, waits) = mpsc::channel::<()>();
    let mut busy = pin!(group.catalog.release(false, move |_| {
        let _ = waits.recv();
        Ok(())
    }));
    assert!(busy.as_mut().now_or_never().is_none());
    let counted = || {
        let sets = group.mirror_sets.counts();
        sets.into_iter()
            .find(|(set, _)| *set == [DiskNumber(1), DiskNumber(2)])
            .map_or(0, |(_, count)| count)
    };
    let before = counted();
    let mut moving = pin!(group.move_mirror(&extent, DiskNumber(0), &to, None));
    lab.go_on_until("its turn", moving.as_mut(), || counted() > before);
    // The next commit reaches no disk.
    let logs: Vec<_> =
        (0..3).map(|disk| (lab.disks[disk].clone(), lab.runs_of(CatalogFile::Wal, disk))).collect();
    let mut hanging = pin!(group.catalog.release(false, move |_| {
        logs.into_iter().for_each(|(disk, log)| disk.faults(|faults| faults.hang_writes = log));
        Ok(())
    }));
    assert!(hanging.as_mut().now_or_never().is_none());
    drop(go_on);
    let has_moved = || extent.mirrors().iter().any(|mirror| mirror.disk.0 == 2);
    lab.go_on_until("the commit", moving.as_mut(), || {
        has_moved() && lab.disks.iter().any(|disk| disk.hung() > 0)
    });
    lab.write(node, at, &pattern(2, 8192));
    lab.kill();
    lab.disks.iter().for_each(MemoryDisk::fail_hung);
    lab.disks.iter().for_each(MemoryDisk::heal);
    lab.mount();
    assert!(
        lab.read(lab.find("table"), at, 8192) == pattern(2, 8192),
        "an acknowledged write is not at the old place"
    );
    let now = lab.extents_on(&[0, 1]).into_iter().any(|other| other.id == extent.id);
    assert!(now, "the commit was on no disk");
    lab.check();
}
