//! Bytes that a sync has acknowledged are durable. When a flush fails on a disk that cannot be
//! spared, the writes that it left uncertain are never reported as durable (R9).

use super::*;
use crate::{
    catalog::{CatalogFile, Store},
    disk::counters::IoClient,
    sync::buffer::Buffer,
};
use futures::FutureExt;
use plinth_format::{
    membership::MemberDisk,
    page::{self, PAGE_SIZE},
};
use std::{pin::pin, sync::atomic::Ordering};

impl Lab {
    fn try_sync(&self, node: Node) -> Result<(), FileError> {
        block_on(self.session().sync(node, true))
    }

    /// Writes twice: regions open for the first write, and the activity log's flushes cover some of
    /// it.
    fn write_twice(&self, node: Node, bytes: &[u8]) {
        self.write(node, 0, &pattern(99, bytes.len()));
        self.write(node, 0, bytes);
    }

    /// Writes to a disk the bytes that it has there.
    pub(super) fn give_something_to_flush(&self, disk: usize) {
        let member = self.member(disk);
        let place = member.layout().au_offset(Au(1));
        let same = Buffer::copy_of(&self.disks[disk].peek(place, 4096)).share();
        assert!(block_on(member.start_write(place, same).result()).is_ok());
    }

    /// Whether the membership names this boot of the host: then unflushed writes count as written
    /// if the engine dies now.
    fn trusts_pending(&self) -> bool {
        self.group().voters.current().boot == self.world.boot_id()
    }

    /// Each piece of 64 KiB reads as written or as zeros.
    fn assert_no_stranger(&self, node: Node, written: &[u8]) {
        let found = self.read(node, 0, written.len());
        for (index, (found, written)) in
            found.chunks(64 << 10).zip(written.chunks(64 << 10)).enumerate()
        {
            assert!(
                found == written || found.iter().all(|byte| *byte == 0),
                "piece {index} has other bytes"
            );
        }
    }
}

const LENGTH: usize = 8 << 20;

/// A disk has failed a write and is taken offline. The record of that reaches the other disk while
/// another task's flush is in flight there, and is lost when that flush fails. The record can be
/// read back, and the next flush works, but it does not count before it is written again: after a
/// power cut the first disk would be taken for current, or the other one for a disk of another
/// history.
#[test]
fn a_record_lost_by_another_tasks_flush_is_written_again() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.allow_silence();
    lab.dismount();
    // No other task writes records, or flushes.
    ["caretaker", "stamp"].into_iter().for_each(|name| lab.world.hold_back(name));
    lab.mount();
    let (group, kept) = (lab.group(), lab.member(1));
    let gone = lab.member(0).number;
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 200_000));
    lab.sync(node);
    lab.close_regions();
    lab.give_something_to_flush(1);
    lab.disks[1].faults(|faults| faults.hang = true);
    let mut flush = pin!(kept.flush());
    assert!(flush.as_mut().now_or_never().is_none());
    lab.disks[1].faults(|faults| faults.hang = false);
    lab.disks[0].faults(|faults| faults.fail_writes = true);
    let before = lab.disks[1].counts().writes;
    let voters = Arc::clone(&group.voters);
    let expelled =
        std::thread::spawn(move || block_on(voters.expel(gone, "it failed a write", false)));
    lab.wait_for("the record", || {
        lab.disks[1].counts().writes >= before + kept.areas().len() as u64
    });
    lab.disks[1].faults(|faults| faults.flushes_lost = 1);
    lab.disks[1].answer();
    assert!(!block_on(flush).is_ok());
    expelled.join().expect("no panic").expect("it is recorded");
    lab.disks[0].heal();
    lab.cut_power(7);
    lab.mount();
    assert_eq!(lab.state(0), DiskState::Offline, "writes without it were acknowledged");
}

/// Five disks with EXTERNAL redundancy; the one that has nothing of the catalog loses a flush. Each
/// file with writes since the last good flush gets one error, whichever file's sync the flush was
/// for. After that the bytes that a sync acknowledges are durable again.
#[test]
fn every_file_with_uncertain_writes_gets_an_error_for_a_failed_flush() {
    let mut lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let plain = lab.plain_disk();
    let names = ["first", "other", "fresh", "quiet"];
    let [first, other, fresh, quiet] = names.map(|name| lab.create_file(name));
    for node in [first, other, quiet] {
        lab.write(node, 0, &pattern(1, LENGTH));
        lab.sync(node);
    }
    lab.write(fresh, 0, &pattern(99, LENGTH));
    for (node, seed) in [(first, 2), (other, 3), (fresh, 4)] {
        lab.write(node, 0, &pattern(seed, LENGTH));
    }
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    for node in [first, other, fresh] {
        let error = lab.try_sync(node).expect_err("its writes may be lost");
        assert_eq!(error.errno(), libc::EIO);
        assert!(error.to_string().contains("flush"), "{error}");
    }
    lab.sync(quiet);
    assert_eq!(lab.state(plain), DiskState::Online);
    assert!(lab.told("cannot be spared"));
    // These programs write again the data that was reported as lost.
    lab.write(first, 0, &pattern(2, LENGTH));
    lab.write(other, 0, &pattern(3, LENGTH));
    // This one does not, but the bytes that it reads are the bytes that a sync acknowledges.
    assert_eq!(lab.read(fresh, 0, LENGTH), pattern(4, LENGTH));
    lab.write(fresh, 100, b"hundred");
    for node in [first, other, fresh, quiet] {
        lab.sync(node);
        lab.sync(node);
    }
    block_on(lab.session().sync_all()).expect("nothing is in doubt");
    lab.disks[plain].forget_given_up();
    lab.cut_power(7);
    lab.mount();
    let [first, other, fresh, quiet] = names.map(|name| lab.find(name));
    assert_eq!(lab.read(first, 0, LENGTH), pattern(2, LENGTH));
    assert_eq!(lab.read(other, 0, LENGTH), pattern(3, LENGTH));
    let mut expected = pattern(4, LENGTH);
    expected[100..107].copy_from_slice(b"hundred");
    assert_eq!(lab.read(fresh, 0, LENGTH), expected);
    assert_eq!(lab.read(quiet, 0, LENGTH), pattern(1, LENGTH));
    lab.check();
}

/// A disk loses the bytes that it was to flush, and no longer shows them. The file's syncs fail
/// until it is overwritten, and no read returns the bytes that were there before.
#[test]
fn bytes_lost_by_a_failed_flush_are_an_error_until_they_are_overwritten() {
    let mut lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let plain = lab.plain_disk();
    let node = lab.create_file("table");
    lab.write_twice(node, &pattern(1, LENGTH));
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    lab.try_sync(node).expect_err("it may be lost");
    lab.disks[plain].forget_given_up();
    for _ in 0..3 {
        lab.try_sync(node).expect_err("it is lost");
        lab.try_read(node, 0, LENGTH).expect_err("the old bytes are not returned");
    }
    lab.write(node, 0, &pattern(2, LENGTH));
    lab.sync(node);
    lab.cut_power(3);
    lab.mount();
    assert_eq!(lab.read(lab.find("table"), 0, LENGTH), pattern(2, LENGTH));
}

/// Pieces that a failed flush left uncertain are written again, by the file's sync or by the
/// caretaker, and a second flush loses that, too. They stay uncertain although other files' syncs
/// have succeeded in between: when a sync of the file reports that all is durable, it is.
#[test]
fn pieces_written_again_stay_uncertain_until_a_flush_succeeds() {
    for is_caretaker in [false, true] {
        let mut lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
        let plain = lab.plain_disk();
        let group = Arc::clone(lab.group());
        group.failed_flushes.leave_to_story(true);
        let [node, other] = ["table", "other"].map(|name| lab.create_file(name));
        lab.write_twice(node, &pattern(1, LENGTH));
        lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
        lab.try_sync(node).expect_err("it may be lost");
        lab.write(other, 0, &pattern(2, LENGTH));
        lab.sync(other);
        lab.disks[plain].faults(|faults| faults.flushes_lost = u32::MAX);
        if is_caretaker {
            group.failed_flushes.leave_to_story(false);
            // This call writes them again, or the caretaker.
            let _ = block_on(group.resolve_uncertain());
            lab.wait_for("the second failure", || group.failed_flushes.count() > 1);
            group.failed_flushes.leave_to_story(true);
        } else {
            lab.try_sync(node).expect_err("the second writing may be lost");
        }
        lab.disks[plain].faults(|faults| faults.flushes_lost = 0);
        // A record of the voters may have failed meanwhile, which a sync has to report.
        assert!((0..5).any(|_| lab.try_sync(node).is_ok()), "it is written again");
        lab.disks[plain].forget_given_up();
        drop(group);
        lab.cut_power(3);
        lab.mount();
        assert!(
            lab.read(lab.find("table"), 0, LENGTH) == pattern(1, LENGTH),
            "a failed flush is reported as durable"
        );
        lab.check();
    }
}

/// A small file that was never synced grows out of its slot, and the allocation that it grew for
/// fails. A flush loses the copy: the file's next sync fails.
#[test]
fn a_sync_fails_when_a_flush_lost_the_copy_out_of_a_slot() {
    let lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let (plain, group) = (lab.plain_disk(), lab.group());
    group.failed_flushes.leave_to_story(true);
    let small: Vec<Node> =
        (0..20).map(|number| lab.create_file(&format!("small{number}"))).collect();
    small.iter().for_each(|node| lab.write(*node, 0, &pattern(1, 60_000)));
    // The files' data in the slots is durable.
    block_on(group.flush_disks()).expect("it works");
    let number = lab.member(plain).number.0;
    let grown = small.into_iter().find(|node| {
        let too_much = Allocate::Reserve { keep_size: true };
        let grown = block_on(lab.session().allocate(*node, 0, 1 << 40, too_much, false));
        assert!(matches!(grown, Err(FileError::NoSpace)), "{grown:?}");
        lab.extents_on(&[number]).iter().any(|extent| extent.file == *node)
    });
    let node = grown.expect("one of them comes to lie there");
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    block_on(group.flush_disks()).expect_err("the copy may be lost");
    lab.try_sync(node).expect_err("the copy may be lost");
    lab.sync(node);
    lab.disks[plain].forget_given_up();
    assert!(lab.read(node, 0, 60_000) == pattern(1, 60_000), "synced bytes are lost");
}

/// The engine is killed after a failed flush, and the disk no longer shows the bytes that it was to
/// flush. A mount on the same boot does not take them for written. If the caretaker has written
/// them again before, nothing is missing.
#[test]
fn no_old_bytes_are_read_after_a_failed_flush_and_a_kill() {
    for mended in [false, true] {
        let mut lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
        let plain = lab.plain_disk();
        let [synced, other] = ["synced", "other"].map(|name| lab.create_file(name));
        for seed in [98, 99, 1] {
            lab.write(other, 0, &pattern(seed + 1, LENGTH));
            lab.write(synced, 0, &pattern(seed, LENGTH));
        }
        lab.disks[plain].faults(|faults| faults.flushes_lost = if mended { 1 } else { u32::MAX });
        lab.try_sync(synced).expect_err("it may be lost");
        if mended {
            lab.wait_for("the second writing", || lab.told("written again"));
            assert!(lab.trusts_pending());
        } else {
            lab.wait_for("the distrust", || !lab.trusts_pending());
        }
        lab.disks[plain].forget_given_up();
        lab.kill();
        lab.disks[plain].heal();
        lab.mount();
        assert!(lab.trusts_pending());
        for (name, seed) in [("synced", 1), ("other", 2)] {
            let node = lab.find(name);
            lab.assert_no_stranger(node, &pattern(seed, LENGTH));
            if mended {
                assert_eq!(lab.read(node, 0, LENGTH), pattern(seed, LENGTH));
            }
        }
        lab.check();
    }
}

/// The disk that lost a flush has the only copy of the catalog, with commits not yet flushed. The
/// catalog reports nothing as durable any more, and the next mount takes the commits that the log
/// can prove.
#[test]
fn the_catalog_stops_when_a_flush_under_it_fails() {
    let mut lab = Lab::new(Redundancy::External, 64 * MIB, &["A"]);
    let [kept, node] = ["kept", "table"].map(|name| lab.create_file(name));
    lab.write(kept, 0, &pattern(1, 300_000));
    lab.sync(kept);
    lab.write_twice(node, &pattern(2, 300_000));
    lab.disks[0].faults(|faults| faults.flushes_lost = 1);
    lab.try_sync(node).expect_err("it may be lost");
    let error = block_on(lab.session().sync_directory(ROOT)).expect_err("commits may be lost");
    assert!(matches!(error, FileError::CatalogStopped(_)), "{error}");
    lab.disks[0].forget_given_up();
    lab.kill();
    lab.mount();
    assert_eq!(lab.read(lab.find("kept"), 0, 300_000), pattern(1, 300_000));
    lab.check();
}

/// The catalog writes, one of its disks goes offline and returns, and the catalog writes again.
/// Another task's flush of that disk fails: the catalog's own flush does not make good the loss of
/// its writes.
#[test]
fn the_catalogs_flush_expels_a_returned_disk_that_failed_a_flush() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.create_file("table");
    lab.sync(lab.find("table"));
    let group = lab.group();
    let member = lab.member(1);
    let page = group
        .store
        .read(CatalogFile::Database, 0, PAGE_SIZE, &|page| page::written(page, 1))
        .expect("it is good");
    let page = page.share();
    let write =
        || group.store.write(CatalogFile::Database, 0, page.clone()).expect("there are mirrors");
    write();
    block_on(group.voters.expel(member.number, "it failed", false)).expect("it can be spared");
    lab.online_all();
    write();
    lab.disks[1].faults(|faults| faults.flushes_lost = 1);
    assert!(!block_on(member.flush()).is_ok(), "it fails");
    group.store.flush().expect("the other disk has all");
    assert_eq!(lab.state(1), DiskState::Offline);
}

/// Checksum blocks were written before a flush that failed: the region stays open until they are
/// written and flushed again.
#[test]
fn a_region_is_not_closed_by_a_second_flush_alone() {
    let mut lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let plain = lab.plain_disk();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, LENGTH));
    lab.sync(node);
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    block_on(lab.group().close_idle(true)).expect_err("its checksums may be lost");
    while block_on(lab.group().close_idle(true)).expect("they are written again") {}
    assert!(lab.group().activity.regions().is_empty());
    lab.disks[plain].forget_given_up();
    lab.cut_power(1);
    lab.mount();
    assert_eq!(lab.read(lab.find("table"), 0, LENGTH), pattern(1, LENGTH));
    assert_eq!(
        lab.group()
            .members
            .values()
            .map(|one| one.counters.mismatches.load(Ordering::Relaxed))
            .sum::<u64>(),
        0
    );
    lab.check();
}

/// Another task's flush fails while the checksum blocks of a region are written before it closes:
/// all of them are written and flushed again.
#[test]
fn a_flush_that_fails_during_a_release_repeats_the_release() {
    let lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 24 << 20));
    lab.sync(node);
    while block_on(lab.group().close_idle(true)).expect("they are closed") {}
    let group = lab.group();
    let members: Vec<_> = group.members.values().collect();
    let sums = || {
        let writes =
            members.iter().map(|member| &member.counters.of(IoClient::Checksums).writes.count);
        writes.map(|count| count.load(Ordering::Relaxed)).sum::<u64>()
    };
    (0..24).for_each(|extent| lab.write(node, extent << 20, &pattern(2, 4096)));
    lab.disks
        .iter()
        .for_each(|disk| disk.faults(|faults| faults.slow_writes = Duration::from_millis(50)));
    let before = sums();
    std::thread::scope(|scope| {
        let closer = scope.spawn(|| block_on(group.close_idle(true)));
        lab.wait_for("the first of many", || sums() > before);
        members[0].note_failed_flush();
        group.note_failed_flush(members[0], "another task's flush failed");
        assert!(closer.join().expect("no panic").expect("they are closed"));
    });
    assert_eq!(sums() - before, 48);
}

/// The only disk hangs, a sync waits for it (R2), and then the flush fails after all: no other
/// flush makes that good.
#[test]
fn a_late_flush_that_fails_fails_the_sync() {
    let lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let plain = lab.plain_disk();
    let node = lab.create_file("table");
    lab.write_twice(node, &pattern(1, LENGTH));
    lab.disks[plain].faults(|faults| faults.hang = true);
    let session = lab.session();
    let syncer = std::thread::spawn(move || block_on(session.sync(node, true)));
    let silent = || lab.group().members.values().nth(plain).expect("it is there").is_hung();
    lab.wait_for("the deadline", silent);
    lab.disks[plain].faults(|faults| faults.hang = false);
    lab.disks[plain].fail_hung();
    syncer.join().expect("no panic").expect_err("its flush failed");
}

/// Recovery after a kill has made the mirrors of an extent equal, and the flush fails on a disk
/// that cannot be spared: the extent is compared again. Otherwise its region would be closed with
/// checksums older than the last write, and later rot on one mirror would lose data.
#[test]
fn an_extent_whose_recovery_failed_is_compared_again() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D", "E"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 40 << 20));
    lab.sync(node);
    lab.close_regions();
    let (away, number) = lab.leave_one_that_is_needed();
    let bytes = pattern(2, 40 << 20);
    lab.write(node, 0, &bytes);
    let (extents, _) =
        block_on(lab.group().some_alive(0)).expect("the catalog is read").expect("there are some");
    let mut mirrors = extents.iter().map(|extent| extent.mirrors());
    let is_second = |disks: &[u16]| disks[0] != away && disks[1] == number;
    let mirrors =
        mirrors.find(|all| is_second(&[all[0].disk.0, all[1].disk.0])).expect("there is one");
    let (second, disk) = (mirrors[1], usize::from(number));
    let place = lab.member(disk).layout().au_offset(second.au);
    lab.kill();
    // As a write in flight leaves it that had reached one disk.
    lab.disks[disk].corrupt(place, &pattern(7, 4096));
    lab.disks[disk].faults(|faults| faults.hang_in.push(place..place + 4096));
    lab.mount();
    lab.wait_for("recovery", || lab.disks[disk].hung() > 0);
    lab.disks[disk].faults(|faults| faults.fail_flushes = true);
    lab.disks[disk].answer();
    lab.wait_for("the failure", || lab.told("recovery waits at extent"));
    lab.disks[disk].heal();
    lab.wait_for("the end of recovery", || lab.told("recovery ended"));
    lab.close_regions();
    lab.disks[disk].corrupt(place + 40 * 4096, &pattern(8, 4096));
    assert!(lab.read(lab.find("table"), 0, bytes.len()) == bytes);
    block_on(lab.group().check(true)).expect("the check runs");
    lab.check();
}

/// Recovery after a kill has copied a block to a mirror, and a flush of its disk, which cannot be
/// spared, loses the block. The disk shows the block and does not have it: the extent is compared
/// again, and the block copied again.
#[test]
fn a_block_that_recovery_copied_and_a_flush_lost_is_copied_again() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D", "E"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 40 << 20));
    lab.sync(node);
    lab.close_regions();
    let (away, number) = lab.leave_one_that_is_needed();
    let bytes = pattern(2, 40 << 20);
    lab.write(node, 0, &bytes);
    let (extents, _) =
        block_on(lab.group().some_alive(0)).expect("the catalog is read").expect("there are some");
    let mut mirrors = extents.iter().map(|extent| extent.mirrors());
    let is_second = |disks: &[u16]| disks[0] != away && disks[1] == number;
    let mirrors =
        mirrors.find(|all| is_second(&[all[0].disk.0, all[1].disk.0])).expect("there is one");
    let (second, disk) = (mirrors[1], usize::from(number));
    let place = lab.member(disk).layout().au_offset(second.au);
    lab.kill();
    // As a write in flight leaves it that had reached one disk.
    lab.disks[disk].corrupt(place, &pattern(7, 4096));
    lab.disks[disk].faults(|faults| faults.hang_in.push(place..place + 4096));
    lab.mount();
    lab.wait_for("recovery", || lab.disks[disk].hung() > 0);
    lab.disks[disk].faults(|faults| faults.flushes_lost = u32::MAX);
    lab.disks[disk].answer();
    lab.wait_for("the failure", || lab.told("recovery waits at extent"));
    lab.disks[disk].heal();
    lab.wait_for("the end of recovery", || lab.told("recovery ended"));
    lab.close_regions();
    lab.dismount();
    lab.disks[disk].forget_given_up();
    lab.mount();
    lab.check();
}

/// Recovery after a kill copies two blocks to a mirror. Between them another task's flush fails on
/// its disk, which cannot be spared, and loses the first block. Recovery's own flush works, but the
/// disk shows the first block and does not have it: the block is copied again.
#[test]
fn a_block_that_recovery_copied_and_another_tasks_flush_lost_is_copied_again() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D", "E"]);
    lab.allow_silence();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 40 << 20));
    lab.sync(node);
    lab.close_regions();
    let (away, number) = lab.leave_one_that_is_needed();
    lab.write(node, 0, &pattern(2, 40 << 20));
    let (extents, _) =
        block_on(lab.group().some_alive(0)).expect("the catalog is read").expect("there are some");
    let mut mirrors = extents.iter().map(|extent| extent.mirrors());
    let is_second = |disks: &[u16]| disks[0] != away && disks[1] == number;
    let mirrors =
        mirrors.find(|all| is_second(&[all[0].disk.0, all[1].disk.0])).expect("there is one");
    let (second, disk) = (mirrors[1], usize::from(number));
    let place = lab.member(disk).layout().au_offset(second.au);
    lab.kill();
    let right = lab.disks[disk].peek(place, 4096);
    // As writes in flight leave them that had reached one disk.
    let next = place + 8 * 4096;
    [place, next].into_iter().for_each(|at| lab.disks[disk].corrupt(at, &pattern(7, 4096)));
    lab.disks[disk].faults(|faults| faults.hang_writes.push(next..next + 4096));
    lab.mount();
    lab.wait_for("the second copy", || lab.disks[disk].hung() > 0);
    assert!(lab.disks[disk].peek(place, 4096) == right, "the first comes before it");
    lab.disks[disk].faults(|faults| faults.flushes_lost = 1);
    block_on(lab.group().flush_disks()).expect_err("unflushed bytes may be lost");
    lab.disks[disk].heal();
    lab.wait_for("the end of recovery", || lab.told("recovery ended"));
    lab.disks[disk].forget_given_up();
    assert!(lab.disks[disk].peek(place, 4096) == right, "the block is lost with the failed flush");
    lab.check();
}

/// A write beyond a file's end fails half way: its bytes are there, and its size is not. When the
/// file is to grow, zeros are written over the bytes, and a flush loses the zeros. The next time
/// the disk shows zeros and does not have them: they are written again before the file has its new
/// size.
#[test]
fn zeros_behind_a_files_end_that_a_flush_lost_are_written_again() {
    let mut lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let (plain, group) = (lab.plain_disk(), Arc::clone(lab.group()));
    group.failed_flushes.leave_to_story(true);
    let number = lab.member(plain).number.0;
    let grow = |node: Node| {
        let size = Some(MIB + 70_000);
        block_on(lab.session().change(node, Changes { size, ..Changes::default() }))
    };
    let end = MIB - 60_000;
    let on = |disk: u16, node: Node| {
        let mut extents = lab.extents_on(&[disk]);
        extents.retain(|extent| extent.file == node);
        extents
    };
    // A file whose first extent is on the disk, and whose second is not.
    let found = (0..20).map(|number| format!("table{number}")).find(|name| {
        let node = lab.create_file(name);
        let reserve = Allocate::Reserve { keep_size: true };
        block_on(lab.session().allocate(node, 0, 2 * MIB, reserve, false)).expect("there is room");
        on(number, node).iter().map(|extent| extent.number).eq([0])
    });
    let name = found.expect("one of them is like that");
    let node = lab.find(&name);
    lab.write(node, end - 5_000, &pattern(1, 5_000));
    lab.sync(node);
    let second = (0..5).flat_map(|disk| on(disk, node)).find(|extent| extent.number == 1);
    let mirror = second.expect("it has two").mirrors()[0];
    let (other, place) =
        (usize::from(mirror.disk.0), group.members[&mirror.disk].layout().au_offset(mirror.au));
    lab.disks[other].faults(|faults| faults.worn.push(place..place + MIB));
    block_on(lab.session().write(node, end, &pattern(2, 100_000), false))
        .expect_err("a part of it fails");
    lab.disks[other].heal();
    block_on(group.flush_disks()).expect("it works");
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    grow(node).expect_err("the zeros may be lost");
    grow(node).expect("it works");
    lab.sync(node);
    lab.disks[plain].forget_given_up();
    drop(group);
    lab.cut_power(3);
    lab.mount();
    let tail = lab.read(lab.find(&name), end, 60_000);
    assert!(tail.iter().all(|byte| *byte == 0), "unacknowledged bytes are in the file");
    lab.check();
}

/// A mirror is to be removed. A block of the mirror that stays has rotted; it is repaired, and a
/// flush of its disk, which cannot be spared, loses the repair. When the removal is tried again,
/// the disk shows the repaired block and does not have it: the mirror to be removed has the only
/// good copy.
#[test]
fn a_mirror_is_not_removed_when_a_flush_lost_the_repair_of_the_other() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D", "E"]);
    let node = lab.create_file("table");
    let bytes = pattern(1, 40 << 20);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    lab.close_regions();
    let group = lab.group();
    let (away, number) = lab.leave_one_that_is_needed();
    let other = (0..5).find(|other| *other != away && *other != number).expect("five");
    let extent = lab.extents_on(&[number, other]).remove(0);
    let stays = extent
        .mirrors()
        .into_iter()
        .find(|mirror| mirror.disk.0 == number)
        .expect("it has one there");
    let goes = extent
        .mirrors()
        .into_iter()
        .find(|mirror| mirror.disk.0 == other)
        .expect("it has one there");
    let disk = usize::from(number);
    let place = lab.member(disk).layout().au_offset(stays.au);
    // Opens the extent's region.
    let at = usize::try_from(extent.number * MIB + MIB / 2).expect("small");
    lab.write(node, at as u64, &bytes[at..at + 4096]);
    lab.sync(node);
    lab.disks[disk].corrupt(place, &pattern(7, 4096));
    lab.disks[disk].faults(|faults| faults.flushes_lost = u32::MAX);
    block_on(group.remove_mirror(&extent, goes.disk)).expect_err("the repair may be lost");
    lab.disks[disk].faults(|faults| faults.flushes_lost = 0);
    let is_taken = block_on(group.remove_mirror(&extent, goes.disk));
    // The host uses the memory that showed the block for something else.
    lab.disks[disk].forget_given_up();
    assert!(lab.read(node, 0, bytes.len()) == bytes, "{is_taken:?}");
}

/// A hole with edges inside blocks is punched, so bytes are overwritten with zeros, and synced. It
/// is there after a power cut.
#[test]
fn a_synced_hole_survives_a_loss_of_power() {
    let (mut lab, node, plain) = Lab::with_a_plain_disk();
    let hole = lab.extent_alone_on(plain, node).number * MIB + 512;
    block_on(lab.session().allocate(node, hole, 60_000, Allocate::PunchHole, false))
        .expect("punched");
    lab.sync(node);
    lab.cut_power(3);
    lab.mount();
    let found = lab.read(lab.find("table"), hole, 60_000);
    assert!(found.iter().all(|byte| *byte == 0), "the old bytes are back");
}

/// A sync has flushed the disks and waits for the catalog. A write to the same file begins and ends
/// meanwhile. The next sync flushes that write: it survives a power cut.
#[test]
fn a_write_that_ends_during_a_sync_is_flushed_by_the_next_sync() {
    let (mut lab, node, plain) = Lab::with_a_plain_disk();
    let at = lab.extent_alone_on(plain, node).number * MIB;
    let bytes = pattern(3, 60_000);
    {
        let catalog = Arc::clone(&lab.group().catalog);
        let (go_on, busy) = lab.keep_catalog_busy();
        let before = lab.disks[plain].counts().flushes;
        lab.write(node, at, &pattern(2, 8192));
        let session = lab.session();
        let syncer = std::thread::spawn(move || block_on(session.sync(node, false)));
        lab.wait_for("the sync", || {
            lab.disks[plain].counts().flushes > before && catalog.jobs_waiting() > 0
        });
        lab.write(node, at + 4096, &bytes);
        drop(go_on);
        block_on(busy).expect("the catalog answers");
        syncer.join().expect("no panic").expect("it is durable");
    }
    lab.sync(node);
    lab.cut_power(3);
    lab.mount();
    assert!(lab.read(lab.find("table"), at + 4096, bytes.len()) == bytes, "synced bytes are lost");
}

/// A write is on the disk, and its commit waits for the catalog, when a flush loses it. Then a sync
/// of the file begins, which waits for the same commit. The write is acknowledged before the sync
/// ends, but began before it: that sync or the next one fails.
#[test]
fn a_write_lost_by_a_flush_before_a_sync_began_fails_that_sync_or_the_next() {
    let (lab, node, plain) = Lab::with_a_plain_disk();
    let group = Arc::clone(lab.group());
    group.failed_flushes.leave_to_story(true);
    let at = lab.extent_alone_on(plain, node).number * MIB;
    block_on(lab.session().allocate(node, at, 65_536, Allocate::PunchHole, false))
        .expect("punched");
    lab.sync(node);
    let (go_on, busy) = lab.keep_catalog_busy();
    // The sync has a time to store.
    lab.write(node, at + 65_536, &pattern(2, 4096));
    block_on(group.flush_disks()).expect("it works");
    let bytes = pattern(3, 65_536);
    let before = lab.disks[plain].counts().bytes_written;
    let (session, other, new) = (lab.session(), lab.session(), bytes.clone());
    let writer = std::thread::spawn(move || block_on(session.write(node, at, &new, false)));
    let is_written = || lab.disks[plain].counts().bytes_written >= before + 65_536;
    lab.wait_for("the write", || is_written() && group.catalog.jobs_waiting() > 0);
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    block_on(group.flush_disks()).expect_err("the write is lost");
    let waiting = group.catalog.jobs_waiting();
    let syncer = std::thread::spawn(move || block_on(other.sync(node, false)));
    lab.wait_for("the sync", || group.catalog.jobs_waiting() > waiting || syncer.is_finished());
    drop(go_on);
    block_on(busy).expect("the catalog answers");
    writer.join().expect("no panic").expect("it is written");
    let first = syncer.join().expect("no panic");
    assert!(
        first.is_err() || lab.try_sync(node).is_err(),
        "the write is lost, and two syncs were good"
    );
    lab.sync(node);
    lab.disks[plain].forget_given_up();
    assert!(lab.read(node, at, bytes.len()) == bytes, "synced bytes are lost");
}

/// A file is written for the first time since the mount while a flush of all disks is in flight.
/// The flush of the disk with the write fails, and the write is lost. The file's next sync fails.
#[test]
fn a_sync_fails_when_a_flush_in_flight_lost_the_first_write_to_a_file() {
    let (mut lab, node, plain) = Lab::with_a_plain_disk();
    let at = lab.extent_alone_on(plain, node).number * MIB;
    lab.dismount();
    lab.mount();
    let (group, member) = (lab.group(), lab.member(plain));
    // `flush_disks` begins like this.
    group.failed_flushes.begin_flush();
    lab.write(lab.find("table"), at, &pattern(2, 65_536));
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    assert!(!block_on(member.flush()).is_ok());
    group.note_failed_flush(&member, "it failed");
    lab.try_sync(lab.find("table")).expect_err("the write is lost");
}

/// A flush was lost, and the group is dismounted: the dismount succeeds, and an event says what is
/// uncertain.
#[test]
fn a_dismount_reports_files_with_uncertain_writes() {
    let mut lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let plain = lab.plain_disk();
    let [first, other] = ["first", "other"].map(|name| lab.create_file(name));
    for node in [first, other, first, other] {
        lab.write(node, 0, &pattern(1, LENGTH));
    }
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    lab.try_sync(first).expect_err("it may be lost");
    block_on(lab.session().sync_all()).expect_err("the other file has not reported it");
    lab.try_sync(other).expect_err("its own sync reports it, too");
    lab.write(first, 0, &pattern(2, LENGTH));
    lab.write(other, 0, &pattern(2, LENGTH));
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    lab.try_sync(first).expect_err("it may be lost");
    lab.dismount();
    assert!(lab.told("1 file"));
    lab.disks[plain].forget_given_up();
    lab.mount();
    let found = lab.try_read(lab.find("other"), 0, LENGTH);
    assert!(found.is_err() || found.is_ok_and(|bytes| bytes == pattern(2, LENGTH)));
}

/// A sector cannot be read until it is written. The read uses the other mirror, the block is
/// rewritten in the background, and then that mirror alone is enough again.
#[test]
fn a_latent_sector_is_healed_by_rewriting_it() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    let bytes = pattern(1, 500_000);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    for (index, disk) in lab.disks.iter().enumerate() {
        let at =
            (0..64 * MIB).step_by(4096).find(|at| disk.peek(*at, 4096) == bytes[81_920..86_016]);
        let at = at.expect("every mirror has the block");
        disk.faults(|faults| faults.latent.push(at..at + 512));
        let member = lab.group().members.values().nth(index).expect("it is there");
        assert_eq!(lab.read(node, 0, bytes.len()), bytes);
        // The read may have used the other mirror; a check with repair reads both.
        lab.wait_for("the repair", || {
            block_on(lab.group().check(true)).expect("the check runs");
            member.counters.repaired.load(Ordering::Relaxed) > 0
        });
        disk.faults(|faults| assert_eq!(faults.latent, [], "the rewrite reached it"));
        let other = &lab.disks[1 - index];
        other.faults(|faults| faults.fail_reads = true);
        assert_eq!(lab.read(node, 0, bytes.len()), bytes);
        other.heal();
    }
    assert!((0..2).all(|disk| lab.state(disk) == DiskState::Online));
    lab.check();
}

/// Files leave memory when there are too many. A file that was overwritten stays until a sync has
/// reported the result: its next sync owes an error for a flush that failed.
#[test]
fn a_file_with_an_unreported_failed_flush_stays_in_memory() {
    let lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let plain = lab.plain_disk();
    let [table, other, quiet] = ["table", "other", "quiet"].map(|name| lab.create_file(name));
    for node in [table, other, quiet] {
        lab.write(node, 0, &pattern(1, LENGTH));
        lab.sync(node);
    }
    lab.write(table, 0, &pattern(2, LENGTH));
    lab.write(other, 0, &pattern(2, LENGTH));
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    lab.try_sync(other).expect_err("it may be lost");
    let files = &lab.group().files;
    block_on(files.store_times(&lab.group().catalog)).expect("they are stored");
    lab.wait_for("an unused file to leave memory", || {
        files.let_some_go();
        files.all().iter().all(|file| file.node != quiet)
    });
    lab.try_sync(table).expect_err("its writes may be lost, too");
    lab.sync(table);
}

/// A group with EXTERNAL redundancy whose engine was killed. It has a file that was written and not
/// synced. Returns the index of a disk with a part of the file that neither votes nor has anything
/// of the catalog.
fn killed_without_a_sync() -> (Lab, usize) {
    let mut lab = Lab::new(Redundancy::External, 64 * MIB, &["A", "B", "C", "D", "E", "F", "G"]);
    let node = lab.create_file("table");
    block_on(
        lab.session().change(node, Changes { size: Some(UNSYNCED as u64), ..Changes::default() }),
    )
    .expect("sized");
    lab.sync(node);
    lab.write(node, 0, &pattern(1, UNSYNCED));
    let membership = lab.group().voters.current();
    let is_plain = |disk: &MemberDisk| {
        !disk.votes && membership.catalog.iter().all(|run| run.disk != disk.number)
    };
    let plain = membership.disks.iter().position(is_plain).expect("five vote");
    lab.kill();
    (lab, plain)
}

const UNSYNCED: usize = 14 << 20;

/// As above, but some flushes fail and later ones succeed: the bytes that the first was to make
/// durable are lost all the same. No read returns other bytes there, and no sync of a program that
/// continues after the kill reports them as durable.
#[test]
fn a_flush_that_failed_at_a_mount_is_not_made_good_by_a_later_one() {
    let mut wrong = Vec::new();
    for lost in 1..6 {
        let (mut lab, plain) = killed_without_a_sync();
        lab.disks[plain].faults(|faults| faults.flushes_lost = lost);
        let mounts = (1..9).find(|_| lab.try_mount(false).is_ok()).expect("it mounts at last");
        lab.disks[plain].heal();
        let node = lab.find("table");
        let is_durable = lab.try_sync(node).is_ok();
        lab.disks[plain].forget_given_up();
        for (piece, right) in pattern(1, UNSYNCED).chunks(64 << 10).enumerate() {
            let found = lab.try_read(node, (piece as u64) << 16, right.len());
            let is_wrong = match found {
                Ok(found) => found != right && (is_durable || found.iter().any(|byte| *byte != 0)),
                Err(_) => is_durable,
            };
            if is_wrong {
                let sync =
                    if is_durable { "a sync says that it is durable" } else { "a sync failed" };
                wrong
                    .push(format!("{lost} flushes failed, {mounts} mounts, {sync}: piece {piece}"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
