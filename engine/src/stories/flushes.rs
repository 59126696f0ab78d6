//! What a sync has acknowledged is durable. A flush fails on a disk that cannot be spared: what it left in doubt is never reported as durable (R9).

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

    /// Writes twice: when regions open for the first writing, the activity log's flushes cover some of it.
    fn write_twice(&self, node: Node, bytes: &[u8]) {
        self.write(node, 0, &pattern(99, bytes.len()));
        self.write(node, 0, bytes);
    }

    /// Writes to a disk what it has.
    pub(super) fn give_something_to_flush(&self, disk: usize) {
        let member = self.member(disk);
        let place = member.layout().au_offset(1);
        let same = Buffer::copy_of(&self.disks[disk].peek(place, 4096)).share();
        assert!(block_on(member.start_write(place, same).settle()).is_ok());
    }

    /// Whether the membership names the boot of this host: what is pending counts if the engine dies now.
    fn trusts_pending(&self) -> bool {
        self.group().voters.current().boot == self.world.boot_id()
    }

    /// All pieces of 64 KiB are as written or zeros.
    fn assert_no_stranger(&self, node: Node, written: &[u8]) {
        let found = self.read(node, 0, written.len());
        for (index, (found, written)) in
            found.chunks(64 << 10).zip(written.chunks(64 << 10)).enumerate()
        {
            assert!(
                found == written || found.iter().all(|byte| *byte == 0),
                "piece {index} is a stranger's"
            );
        }
    }
}

const LENGTH: usize = 8 << 20;

/// A disk has failed a write and is taken offline. The record of that reaches the other disk while a flush of somebody
/// else is under way there, and is lost when that fails. It is read back, and the next flush works; but it does not
/// count before it is written anew: after a loss of power the first disk would be taken for current, or the other one
/// for one of another history.
#[test]
fn a_record_that_somebody_elses_flush_has_lost_is_written_again() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.allow_silence();
    lab.dismount();
    // Nobody else writes records, or flushes.
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
    assert_eq!(lab.state(0), DiskState::Offline, "what was written without it is acknowledged");
}

/// Five disks without mirrors; the one that has nothing of the catalog loses a flush. Each file with writes that no
/// good flush had covered hears of it once, whoever's sync it was; then what a sync acknowledges is there again.
#[test]
fn every_file_in_doubt_hears_of_a_failed_flush() {
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
    // Programs that go on write again what they were told is lost.
    lab.write(first, 0, &pattern(2, LENGTH));
    lab.write(other, 0, &pattern(3, LENGTH));
    // These do not; but what they read is what a sync acknowledges.
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

/// A disk gives up what it was to flush and does not even show it any more. The file's syncs fail until it is
/// written again; nobody ever reads what lay there before.
#[test]
fn what_a_failed_flush_lost_is_an_error_until_it_is_overwritten() {
    let mut lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let plain = lab.plain_disk();
    let node = lab.create_file("table");
    lab.write_twice(node, &pattern(1, LENGTH));
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    lab.try_sync(node).expect_err("it may be lost");
    lab.disks[plain].forget_given_up();
    for _ in 0..3 {
        lab.try_sync(node).expect_err("it is lost");
        lab.try_read(node, 0, LENGTH).expect_err("no other bytes are read");
    }
    lab.write(node, 0, &pattern(2, LENGTH));
    lab.sync(node);
    lab.cut_power(3);
    lab.mount();
    assert_eq!(lab.read(lab.find("table"), 0, LENGTH), pattern(2, LENGTH));
}

/// What a failed flush left in doubt is written again, by the file's sync or by the caretaker, and a second flush loses that, too. The file's pieces stay
/// doubted although others' syncs have ended well in between: when a sync of the file says that all is durable, it is.
#[test]
fn what_is_written_again_is_doubted_until_a_flush_was_good() {
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
            // It, or the one that looks after the group.
            let _ = block_on(group.resolve_uncertain());
            lab.wait_for("the second failure", || group.failed_flushes.count() > 1);
            group.failed_flushes.leave_to_story(true);
        } else {
            lab.try_sync(node).expect_err("what was written again may be lost");
        }
        lab.disks[plain].faults(|faults| faults.flushes_lost = 0);
        // A record of the voters may have failed meanwhile, of which a sync has to hear.
        assert!((0..5).any(|_| lab.try_sync(node).is_ok()), "it is written again");
        lab.disks[plain].forget_given_up();
        drop(group);
        lab.cut_power(3);
        lab.mount();
        assert!(
            lab.read(lab.find("table"), 0, LENGTH) == pattern(1, LENGTH),
            "a flush that failed is made good"
        );
        lab.check();
    }
}

/// A small file that was never synced grows out of its slot, and what it was to grow for fails. A flush loses the copy: the file's next sync fails.
#[test]
fn a_copy_out_of_a_slot_that_a_flush_lost_is_in_doubt() {
    let lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let (plain, group) = (lab.plain_disk(), lab.group());
    group.failed_flushes.leave_to_story(true);
    let small: Vec<Node> =
        (0..20).map(|number| lab.create_file(&format!("small{number}"))).collect();
    small.iter().for_each(|node| lab.write(*node, 0, &pattern(1, 60_000)));
    // What they have in their slots is durable.
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
    lab.try_sync(node).expect_err("nobody knows that it is there");
    lab.sync(node);
    lab.disks[plain].forget_given_up();
    assert!(lab.read(node, 0, 60_000) == pattern(1, 60_000), "what was synced is lost");
}

/// The engine is killed when a flush has failed, and the disk shows nothing any more of what it was to flush: a mount
/// on the same boot does not take it for written. Later the caretaker has written it again, and nothing is missing.
#[test]
fn a_kill_after_a_failed_flush_shows_no_strangers_bytes() {
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

/// The disk that lost a flush has the only copy of the catalog, with commits not yet flushed: the catalog says nothing is
/// durable any more, and the next mount takes what the log can prove.
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

/// The catalog writes, a disk of its goes and comes back, and the catalog writes again: what a flush that failed for somebody else may have lost since
/// is not made good by the catalog's own.
#[test]
fn a_disk_that_came_back_is_not_taken_for_what_it_was_before() {
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

/// Checksum blocks were written before a flush that failed: the region stays open until they are written and flushed again.
#[test]
fn a_region_is_not_closed_by_a_second_flush() {
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

/// While the checksum blocks of a region are written before it closes, somebody else's flush fails: all of them are written and flushed again.
#[test]
fn a_flush_that_fails_beside_a_release_repeats_it() {
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
        group.note_failed_flush(members[0], "somebody else's");
        assert!(closer.join().expect("no panic").expect("they are closed"));
    });
    assert_eq!(sums() - before, 48);
}

/// The only disk is silent, a sync waits for it (R2), and then the flush fails after all: no other flush makes that good.
#[test]
fn a_late_flush_that_fails_is_heard() {
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

/// Recovery after a kill has made the mirrors of an extent equal, and the flush fails on a disk that cannot be spared: the extent is compared again. Else
/// its region would be closed with checksums from before what was written last, and one mirror that rots later would be the end of it.
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
    // As of a write that was under way, and had come to one disk.
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

/// Recovery after a kill has copied a block to a mirror, and its disk, which cannot be spared, loses that with a flush. The extent is compared again, and
/// the block copied again: the disk shows it, and does not have it.
#[test]
fn what_recovery_copied_and_a_flush_lost_is_copied_again() {
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
    // As of a write that was under way, and had come to one disk.
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

/// Recovery after a kill copies two blocks to a mirror. Between them somebody else's flush fails on its disk, which cannot be spared, and loses the first.
/// Recovery's own flush works, and the first is copied again for it: the disk shows it, and does not have it.
#[test]
fn what_recovery_copied_and_anothers_flush_lost_is_copied_again() {
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
    // As of writes that were under way, and had come to one disk.
    let next = place + 8 * 4096;
    [place, next].into_iter().for_each(|at| lab.disks[disk].corrupt(at, &pattern(7, 4096)));
    lab.disks[disk].faults(|faults| faults.hang_writes.push(next..next + 4096));
    lab.mount();
    lab.wait_for("the second copy", || lab.disks[disk].hung() > 0);
    assert!(lab.disks[disk].peek(place, 4096) == right, "the first comes before it");
    lab.disks[disk].faults(|faults| faults.flushes_lost = 1);
    block_on(lab.group().flush_disks()).expect_err("what it is to flush may be lost");
    lab.disks[disk].heal();
    lab.wait_for("the end of recovery", || lab.told("recovery ended"));
    lab.disks[disk].forget_given_up();
    assert!(lab.disks[disk].peek(place, 4096) == right, "a flush that failed is made good");
    lab.check();
}

/// A write beyond a file's end fails half way: its bytes are there, and its size is not. When the file is to grow zeros are written over them, and a flush
/// loses those. The next time the disk shows zeros, and does not have them: they are written again, before the file has its new size.
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
    // Its first extent is there, and its second is not.
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
    assert!(tail.iter().all(|byte| *byte == 0), "what was never acknowledged is in the file");
    lab.check();
}

/// A mirror is to be taken. Of the one that stays a block has rotted; it is mended, and its disk, which cannot be spared, loses that with a flush. When the
/// mirror is to be taken again, what the disk shows is not what it has: the mirror that is taken has the only right copy.
#[test]
fn a_mirror_is_not_taken_for_one_that_was_mended_and_lost_it_with_a_flush() {
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
    // Its region is open.
    let at = usize::try_from(extent.number * MIB + MIB / 2).expect("small");
    lab.write(node, at as u64, &bytes[at..at + 4096]);
    lab.sync(node);
    lab.disks[disk].corrupt(place, &pattern(7, 4096));
    lab.disks[disk].faults(|faults| faults.flushes_lost = u32::MAX);
    block_on(group.remove_mirror(&extent, goes.disk)).expect_err("what was mended may be lost");
    lab.disks[disk].faults(|faults| faults.flushes_lost = 0);
    let is_taken = block_on(group.remove_mirror(&extent, goes.disk));
    // The host takes its memory for something else.
    lab.disks[disk].forget_given_up();
    assert!(lab.read(node, 0, bytes.len()) == bytes, "{is_taken:?}");
}

/// A hole is punched whose edges are inside of blocks: their bytes are overwritten with zeros. The hole is synced. After a loss of power it is there.
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

/// A sync has flushed the disks and waits for the catalog. A write to the same file begins and ends meanwhile. The next sync flushes it: it survives
/// a loss of power.
#[test]
fn a_write_that_ends_while_a_sync_is_under_way_is_flushed_by_the_next() {
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
    assert!(
        lab.read(lab.find("table"), at + 4096, bytes.len()) == bytes,
        "what was synced is lost"
    );
}

/// A write is on the disk, and its commit waits for the catalog, when a flush loses it. Then a sync of the file begins, which waits for the same commit: the
/// write is acknowledged before the sync is, and is not the sync's. The next sync fails.
#[test]
fn a_write_that_a_flush_lost_before_a_sync_began_is_in_doubt_when_it_ends_under_the_sync() {
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
    assert!(lab.read(node, at, bytes.len()) == bytes, "what was synced is lost");
}

/// A flush of all disks is under way when a file is written for the first time since the mount. The flush of the disk that has the write fails, and the
/// write is lost. The file's next sync fails.
#[test]
fn the_first_write_to_a_file_is_in_doubt_if_a_flush_under_way_fails() {
    let (mut lab, node, plain) = Lab::with_a_plain_disk();
    let at = lab.extent_alone_on(plain, node).number * MIB;
    lab.dismount();
    lab.mount();
    let (group, member) = (lab.group(), lab.member(plain));
    // What `flush_disks` does.
    group.failed_flushes.begin_flush();
    lab.write(lab.find("table"), at, &pattern(2, 65_536));
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    assert!(!block_on(member.flush()).is_ok());
    group.note_failed_flush(&member, "it failed");
    lab.try_sync(lab.find("table")).expect_err("the write is lost");
}

/// A flush that was lost and the group is dismounted: it ends in good order, and says what is in doubt.
#[test]
fn a_dismount_says_what_is_in_doubt() {
    let mut lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
    let plain = lab.plain_disk();
    let [first, other] = ["first", "other"].map(|name| lab.create_file(name));
    for node in [first, other, first, other] {
        lab.write(node, 0, &pattern(1, LENGTH));
    }
    lab.disks[plain].faults(|faults| faults.flushes_lost = 1);
    lab.try_sync(first).expect_err("it may be lost");
    block_on(lab.session().sync_all()).expect_err("the other file has not heard of it");
    lab.try_sync(other).expect_err("nor is it told to somebody else only");
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

/// A sector that cannot be read until it is written: a read finds the other mirror, the block is rewritten behind the reader's
/// back, and that mirror will do alone again.
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
        // The read may have been the other mirror's turn; a check with repair reads both.
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

/// Files leave memory where there are too many. One that was overwritten stays until a sync has told what became of that: its next sync owes an
/// error for a flush that failed.
#[test]
fn a_file_in_doubt_stays_in_memory() {
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
    lab.wait_for("the end of a file that nobody needs", || {
        files.let_some_go();
        files.all().iter().all(|file| file.node != quiet)
    });
    lab.try_sync(table).expect_err("what was written to it may be lost, too");
    lab.sync(table);
}

/// A group without mirrors whose engine was killed: a file that was written and not synced, and a disk with a part of it that neither votes nor has
/// anything of the catalog.
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

/// The engine is killed, and its heir cannot have a disk flush what that was given: it does not take it for written.
#[test]
fn a_mount_flushes_what_it_takes_for_written() {
    let (mut lab, plain) = killed_without_a_sync();
    lab.disks[plain].faults(|faults| faults.flushes_lost = u32::MAX);
    let refused = lab.try_mount(false).expect_err("what is on the disk may be lost");
    assert_eq!(refused.code, Code::Io, "{refused}");
}

/// The same, where some flushes fail and those after them do not: what the first was to make durable is lost all the same. Neither is a stranger's
/// bytes read where it was, nor does a sync tell a program that went on over the kill that it is durable.
#[test]
fn a_flush_that_fails_at_a_mount_is_not_made_good_by_another() {
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
