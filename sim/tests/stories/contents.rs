//! File contents after crashes, I/O errors and lost disks.

use super::*;

/// A file reads back at unaligned offsets, and again after a dismount and a mount.
#[test]
fn a_file_reads_back_before_and_after_a_remount() {
    for (redundancy, groups) in [
        (Redundancy::External, &["A"][..]),
        (Redundancy::Normal, &["A", "B"][..]),
        (Redundancy::High, &["A", "B", "C"][..]),
    ] {
        let lab = Lab::new(redundancy, 64 * MIB, groups);
        let node = lab.create_file("base");
        let bytes = pattern(7, 3_000_017);
        lab.write(node, 12_345, &bytes);
        assert_eq!(lab.read(node, 12_345, bytes.len()), bytes);
        assert_eq!(lab.read(node, 0, 12_345), vec![0; 12_345]);
        assert_eq!(lab.read(node, 12_345 + 77_777, 5), &bytes[77_777..77_782]);
        assert_eq!(lab.read(node, 3_000_017 + 12_345, 10), b"");
        lab.sync(node);
        lab.check();
        lab.dismount();
        lab.mount();
        let node = lab.find("base");
        assert_eq!(lab.read(node, 12_345, bytes.len()), bytes);
        lab.check();
        lab.dismount();
    }
}

/// The engine is killed without a sync: every acknowledged write reads back after the next mount.
#[test]
fn a_killed_engine_loses_nothing_that_was_acknowledged() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("wal");
    for round in 0..5 {
        let bytes = pattern(round, 300_000);
        lab.write(node, round * 1_000_000, &bytes);
        lab.kill();
        lab.mount();
        let node = lab.find("wal");
        for before in 0..=round {
            assert_eq!(
                lab.read(node, before * 1_000_000, 300_000),
                pattern(before, 300_000),
                "round {round}"
            );
        }
        lab.check();
    }
}

/// A file is removed after a crash, before recovery comes to the shared extent with the file's
/// slot. Recovery still compares the mirrors of that extent's other slots.
#[test]
fn recovery_compares_a_shared_extent_although_a_file_in_it_was_removed() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    // Recovery begins with this file.
    let large = lab.create_file("large");
    lab.write(large, 0, &pattern(1, 40 << 20));
    let (kept, gone) = (lab.create_file("kept"), lab.create_file("gone"));
    for node in [kept, gone] {
        lab.write(node, 0, &pattern(2, 5_000));
    }
    lab.kill();
    lab.mount();
    block_on(lab.session().unlink(ROOT, b"gone")).expect("removed");
    lab.wait_for("recovery", || lab.told("recovery ended"));
    lab.check();
    assert_eq!(lab.read(lab.find("kept"), 0, 5_000), pattern(2, 5_000));
}

/// After a power cut synced bytes read back. Unsynced bytes read as the old ones, the new ones or
/// zeros, never as bytes of another file.
#[test]
fn a_power_cut_keeps_synced_bytes() {
    for seed in 0..12 {
        let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let node = lab.create_file("table");
        let old = pattern(1, 200_000);
        lab.write(node, 0, &old);
        lab.sync(node);
        block_on(lab.session().sync_directory(ROOT)).expect("synced");
        let new = pattern(2, 100_000);
        lab.write(node, 50_000, &new);
        lab.write(node, 400_000, &new);
        lab.cut_power();
        lab.mount();
        let node = lab.find("table");
        let now = lab.read(node, 0, 500_000);
        assert_eq!(now[..50_000], old[..50_000], "seed {seed}");
        assert_eq!(now[150_000..200_000], old[150_000..], "seed {seed}");
        let sector = |at: usize| {
            let range = at..(at + 512).min(150_000);
            now[range.clone()] == old[range.clone()]
                || now[range.clone()] == new[range.start - 50_000..range.end - 50_000]
        };
        // Begins at the first whole sector of the overwritten range.
        assert!((50_176..149_900).step_by(512).all(sector), "seed {seed}: neither old nor new");
        if now.len() > 400_000 {
            let fresh = &now[400_000..];
            assert!(
                fresh.iter().all(|byte| *byte == 0),
                "seed {seed}: unsynced pieces read as zeros"
            );
        }
        lab.check();
    }
}

/// A synced small file grows out of its slot, then the power is cut: the synced bytes read back.
#[test]
fn a_power_cut_after_a_promotion_keeps_synced_bytes() {
    for seed in 0..20 {
        let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let node = lab.create_file("table");
        let old = pattern(1, 20_000);
        lab.write(node, 0, &old);
        lab.sync(node);
        block_on(lab.session().sync_directory(ROOT)).expect("synced");
        lab.write(node, 70_000, &pattern(2, 8192));
        lab.cut_power();
        lab.mount();
        assert_eq!(lab.read(lab.find("table"), 0, old.len()), old, "seed {seed}");
        lab.check();
    }
}

/// A power cut loses the new size of a file that grew, and leaves bytes beyond the old end on the
/// disks. When the file grows again, they read as zeros.
#[test]
fn bytes_lost_by_a_power_cut_do_not_come_back_when_the_file_grows() {
    for seed in 0..20 {
        let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, 5_000));
        lab.sync(node);
        block_on(lab.session().sync_directory(ROOT)).expect("synced");
        lab.write(node, 5_000, &pattern(2, 40_000));
        lab.cut_power();
        lab.mount();
        let node = lab.find("table");
        let size = block_on(lab.session().attributes(node)).expect("it is there").size;
        if seed % 2 == 0 {
            block_on(
                lab.session().change(node, Changes { size: Some(60_000), ..Changes::default() }),
            )
            .expect("grown");
        } else {
            lab.write(node, 59_990, b"ten bytes.");
        }
        let tail = lab.read(node, size, 59_990 - usize::try_from(size).expect("small"));
        assert!(tail.iter().all(|byte| *byte == 0), "seed {seed}, size {size}");
        lab.check();
    }
}

/// Every I/O of one failure group fails, and the other one goes on. When the first one is back, a
/// resync copies all that it missed.
#[test]
fn a_failure_group_that_failed_is_complete_after_its_resync() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "A", "B", "B"]);
    let node = lab.create_file("table");
    let mut bytes = pattern(1, 6_000_000);
    lab.write(node, 0, &bytes);
    for disk in [2, 3] {
        lab.disk(disk).faults(|faults| {
            faults.failing_reads = EVERY;
            faults.failing_writes = EVERY;
            faults.failing_flushes = EVERY;
        });
    }
    for round in 0..20 {
        let new = pattern(100 + round, 40_000);
        let offset = usize::try_from(round).expect("small") * 290_000;
        lab.write(node, offset as u64, &new);
        bytes[offset..offset + new.len()].copy_from_slice(&new);
    }
    lab.sync(node);
    assert_eq!(lab.read(node, 0, bytes.len()), bytes);
    let other = lab.create_file("made while away");
    lab.write(other, 0, &bytes[..200_000]);
    assert_eq!([lab.state(2), lab.state(3)], [DiskState::Offline; 2]);
    assert!(lab.told("ONLINE DISK"));
    lab.disks().iter().for_each(SimDisk::heal);
    lab.online_all();
    // Now the other failure group fails: the first one must hold all data.
    for disk in [0, 1] {
        lab.disk(disk).faults(|faults| {
            faults.failing_reads = EVERY;
            faults.failing_writes = EVERY;
            faults.failing_flushes = EVERY;
        });
    }
    assert_eq!(lab.read(node, 0, bytes.len()), bytes);
    assert_eq!(lab.read(other, 0, 200_000), &bytes[..200_000]);
    lab.write(node, 5, b"still writing");
    lab.disks().iter().for_each(SimDisk::heal);
    lab.online_all();
    lab.check();
    lab.dismount();
}

/// A disk does not answer. The write waits no longer than the disk timeout, and the disk goes
/// offline.
#[test]
fn a_hanging_disk_goes_offline_and_io_continues() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 100_000));
    lab.disk(1).faults(|faults| faults.hang = true);
    lab.write(node, 0, &pattern(2, 100_000));
    lab.sync(node);
    assert_eq!(lab.state(1), DiskState::Offline);
    assert_eq!(lab.read(node, 0, 100_000), pattern(2, 100_000));
    lab.disk(1).heal();
    lab.online_all();
    lab.disk(0).faults(|faults| faults.hang = true);
    assert_eq!(lab.read(node, 0, 100_000), pattern(2, 100_000));
    lab.disk(0).heal();
}

/// A flush fails once and would succeed on a retry. The disk goes offline all the same, and returns
/// only by a resync.
#[test]
fn a_failed_flush_is_never_retried_into_success() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 500_000));
    lab.disk(1).faults(|faults| faults.failing_flushes = EVERY);
    lab.sync(node);
    lab.disk(1).heal();
    assert_eq!(lab.state(1), DiskState::Offline);
    lab.write(node, 0, &pattern(2, 500_000));
    lab.sync(node);
    assert_eq!(lab.state(1), DiskState::Offline);
    lab.online_all();
    lab.disk(0).faults(|faults| faults.failing_reads = EVERY);
    assert_eq!(lab.read(node, 0, 500_000), pattern(2, 500_000));
}

/// OFFLINE takes all the disks that it names offline, or none of them.
#[test]
fn offline_is_all_or_nothing() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "A", "B", "B"]);
    lab.write(lab.create_file("table"), 0, &pattern(1, 3_000_000));
    let refusal =
        block_on(lab.group().offline(Selection::All, None)).expect_err("nothing would be left");
    assert_eq!(refusal.code, Code::WouldLoseData);
    assert!((0..4).all(|disk| lab.state(disk) == DiskState::Online));
    block_on(lab.group().offline(Selection::FailureGroups(vec!["B".to_owned()]), None))
        .expect("one failure group");
    assert_eq!([lab.state(2), lab.state(3)], [DiskState::Offline; 2]);
    lab.online_all();
    lab.check();
}

/// Blocks of one mirror are corrupted: a read returns good data, and the blocks are repaired and
/// counted.
#[test]
fn a_read_repairs_corrupt_blocks_of_one_mirror() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    let bytes = pattern(1, 2_000_000);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    for _ in 0..2 {
        for disk in &lab.disks() {
            // A third of the blocks that hold some of the file.
            for offset in (0..64 * MIB).step_by(4096) {
                let block = disk.peek(offset, 4096);
                if bytes.windows(4096).step_by(4096).any(|piece| piece == block) && offset % 3 == 0
                {
                    disk.corrupt(offset, &pattern(offset, 4096));
                }
            }
            assert_eq!(lab.read(node, 0, bytes.len()), bytes);
            assert_eq!(lab.read(node, 0, bytes.len()), bytes);
            let report = block_on(lab.group().check(true)).expect("the check runs");
            assert!(report.is_good(), "{:?}", report.problems);
        }
        assert!(lab.told("repaired 4 KiB"));
        lab.check();
        lab.dismount();
        lab.mount();
    }
}

/// One half of the disks is written while the other half is away. A mount of the stale half alone
/// is refused, and the error's hint names the missing disk.
#[test]
fn a_mount_of_the_stale_half_alone_is_refused() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, b"old");
    lab.disk(1).faults(|faults| {
        faults.failing_writes = EVERY;
        faults.failing_reads = EVERY;
        faults.failing_flushes = EVERY;
    });
    lab.write(node, 0, b"new");
    lab.sync(node);
    lab.dismount();
    lab.disk(1).heal();
    lab.detach("/disk0");
    let refusal = lab.try_mount(false).expect_err("the stale half alone");
    assert_eq!(refusal.code, Code::NoQuorum);
    assert!(refusal.hint.is_some_and(|hint| hint.contains("/disk0") || hint.contains("DATA_0000")));
    lab.attach(&lab.disk(0));
    lab.detach("/disk1");
    lab.mount();
    assert_eq!(lab.read(lab.find("table"), 0, 3), b"new");
    lab.dismount();
    lab.attach(&lab.disk(1));
    lab.mount();
    lab.online_all();
    lab.check();
    lab.dismount();
}

/// The current half is destroyed, and the stale half is mounted by force with the data that it has.
/// When the other half is found after all, its history has lost: it is copied whole, and none of
/// its data is read.
#[test]
fn a_stale_half_can_be_mounted_by_force() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, b"old");
    lab.sync(node);
    block_on(lab.session().sync_directory(ROOT)).expect("synced");
    lab.disk(1).faults(|faults| {
        faults.failing_writes = EVERY;
        faults.failing_reads = EVERY;
        faults.failing_flushes = EVERY;
    });
    lab.write(node, 0, b"new");
    lab.dismount();
    lab.disk(1).heal();
    lab.detach("/disk0");
    assert_eq!(lab.try_mount(false).expect_err("refused").code, Code::NoQuorum);
    lab.try_mount(true).expect("forced");
    assert_eq!(lab.read(lab.find("table"), 0, 3), b"old");
    lab.write(lab.find("table"), 0, b"mine");
    lab.dismount();
    lab.mount();
    assert_eq!(lab.read(lab.find("table"), 0, 4), b"mine");
    lab.dismount();
    // Both halves are discovered: two histories. The operator detaches one, mounts the other, and
    // brings the first one back online.
    lab.attach(&lab.disk(0));
    let refusal = lab.try_mount(false).expect_err("two histories");
    assert!(refusal.hint.is_some(), "{refusal}");
    lab.detach("/disk0");
    lab.mount();
    lab.attach(&lab.disk(0));
    lab.online_all();
    assert!(lab.told("copied whole"));
    assert_eq!(lab.read(lab.find("table"), 0, 4), b"mine");
    lab.check();
    lab.dismount();
    lab.mount();
    assert_eq!(lab.state(0), DiskState::Online);
    lab.check();
}

/// Three mirrors: two failure groups may fail one after the other. If both fail at once, writes
/// wait.
#[test]
fn high_redundancy_survives_two_losses() {
    let lab = Lab::new(Redundancy::High, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    let fail = |disk: usize| {
        lab.disk(disk).faults(|faults| {
            faults.failing_reads = EVERY;
            faults.failing_writes = EVERY;
            faults.failing_flushes = EVERY;
        });
    };
    fail(0);
    lab.write(node, 0, &pattern(1, 500_000));
    fail(1);
    lab.write(node, 0, &pattern(2, 500_000));
    lab.sync(node);
    assert_eq!(lab.read(node, 0, 500_000), pattern(2, 500_000));
    lab.disks().iter().for_each(SimDisk::heal);
    lab.online_all();
    lab.check();
    let other = lab.create_file("other");
    lab.write(other, 0, &pattern(9, 500_000));
    // Both at once: one voter of three cannot record the loss.
    fail(0);
    fail(1);
    let session = lab.session();
    let writer =
        lab.begin(async move { session.write(node, 0, &pattern(3, 500_000), false).await });
    lab.wait_for("the alarm", || lab.told("writes wait"));
    assert!(!writer.is_finished());
    assert_eq!(lab.read(other, 0, 500_000), pattern(9, 500_000), "reads go on");
    lab.disks().iter().for_each(SimDisk::heal);
    lab.end(writer).expect("the write goes on");
    assert_eq!(lab.read(node, 0, 500_000), pattern(3, 500_000));
}

/// With two quorum disks writes continue although two failure groups fail at once.
#[test]
fn quorum_disks_let_writes_go_on() {
    let lab = Lab::new(Redundancy::High, 64 * MIB, &["A", "B", "C", "Q1", "Q2"]);
    let node = lab.create_file("table");
    for disk in [0, 1] {
        lab.disk(disk).faults(|faults| {
            faults.failing_reads = EVERY;
            faults.failing_writes = EVERY;
            faults.failing_flushes = EVERY;
        });
    }
    lab.write(node, 0, &pattern(3, 500_000));
    lab.sync(node);
    assert_eq!(lab.read(node, 0, 500_000), pattern(3, 500_000));
    lab.disks().iter().for_each(SimDisk::heal);
    lab.online_all();
    lab.check();
}

/// A thousand small files take a slot each, not an AU each. A file that grows moves out of its
/// slot.
#[test]
fn small_files_share_extents() {
    let lab = Lab::new(Redundancy::Normal, 256 * MIB, &["A", "B"]);
    let before = block_on(lab.session().space()).expect("space").blocks_free;
    let nodes: Vec<_> = (0..1000).map(|index| lab.create_file(&format!("file{index}"))).collect();
    for (node, seed) in nodes.iter().zip(0..) {
        lab.write(*node, 0, &pattern(seed, 8192));
    }
    let after = block_on(lab.session().space()).expect("space").blocks_free;
    assert!((before - after) * 4096 <= 1000 * 65536 + MIB, "{} bytes", (before - after) * 4096);
    for (node, seed) in nodes.iter().zip(0..) {
        assert_eq!(lab.read(*node, 0, 9000), pattern(seed, 8192));
    }
    lab.write(nodes[5], 60_000, &pattern(7, 100_000));
    assert_eq!(lab.read(nodes[5], 0, 8192), pattern(5, 8192));
    assert_eq!(lab.read(nodes[5], 60_000, 100_000), pattern(7, 100_000));
    for index in 0..1000 {
        block_on(lab.session().unlink(ROOT, format!("file{index}").as_bytes())).expect("removed");
    }
    lab.wait_for("the space", || {
        block_on(lab.session().space()).expect("space").blocks_free >= before
    });
    lab.check();
    lab.dismount();
    lab.mount();
    lab.check();
}

/// The group becomes full: the write is refused with NoSpace, and space freed by a truncation can
/// be used at once.
#[test]
fn a_full_group_refuses_writes_until_space_is_freed() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("big");
    let mut at = 0;
    let chunk = pattern(1, MIB as usize);
    let told = loop {
        let free = block_on(lab.session().space()).expect("space").blocks_free;
        match block_on(lab.session().write(node, at, &chunk, false)) {
            Ok(()) => at += MIB,
            Err(FileError::NoSpace) => break free,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(at > 20 * MIB && told * 4096 < 2 * MIB, "{at} written, {told} blocks said to be free");
    lab.sync(node);
    assert_eq!(lab.read(node, at - MIB, MIB as usize), chunk);
    block_on(lab.session().change(node, Changes { size: Some(MIB), ..Changes::default() }))
        .expect("cut");
    lab.write(node, 5 * MIB, &chunk);
    lab.check();
}

/// A file that is written like a log is durable when its sync returns, and that sync asks no disk
/// for a flush. Writes of other files in between are not made durable by it.
#[test]
fn a_log_is_durable_without_a_flush() {
    for seed in 0..10 {
        let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let session = lab.session();
        let (log, other) = (lab.create_file("log"), lab.create_file("other"));
        for node in [log, other] {
            lab.write(node, 0, &pattern(1, 256 << 10));
            lab.sync(node);
        }
        let flushes = || lab.disks().iter().map(|disk| disk.counts().flushes).sum::<u64>();
        let turn = |turn: u64| {
            lab.write(other, turn * 8192, &pattern(50 + turn, 8192));
            lab.write(log, turn * 8192, &pattern(100 + turn, 8192));
            block_on(session.sync(log, true)).expect("it is durable");
        };
        (0..4).for_each(turn);
        // The caretaker flushes now and then, so not every turn is without a flush.
        let quiet = (4..20).filter(|number| {
            let before = flushes();
            turn(*number);
            flushes() == before
        });
        assert!(quiet.count() > 8);
        // A rename before the sync is durable after it, too.
        let (old, new) = ((ROOT, &b"other"[..]), (ROOT, &b"moved"[..]));
        block_on(session.rename(old, new, RenameMode::Replace)).expect("it has another name");
        turn(20);
        drop(session);
        lab.cut_power();
        lab.mount();
        assert_eq!(lab.find("moved"), other, "seed {seed}");
        for turn in 0..21 {
            assert_eq!(lab.read(log, turn * 8192, 8192), pattern(100 + turn, 8192), "seed {seed}");
        }
    }
}

/// An allocation larger than the free space is refused and takes no space. One that fits is made,
/// also if it needs more than one commit.
#[test]
fn an_allocation_that_does_not_fit_leaves_nothing_behind() {
    let lab = Lab::new(Redundancy::Normal, 400 * MIB, &["A", "B"]);
    let session = lab.session();
    let node = lab.create_file("wish");
    let free = || block_on(session.space()).expect("space").blocks_free;
    let before = free();
    assert!(before * 4096 > 300 * MIB, "more than one commit's worth fits");
    let reserve = Allocate::Reserve { keep_size: true };
    // The last length, counted unit by unit, would not fit into this host's memory either.
    for length in [before * 4096 + 8 * MIB, 1 << 40, 1 << 61] {
        let refused = block_on(session.allocate(node, 0, length, reserve, false));
        assert!(matches!(refused, Err(FileError::NoSpace)), "{length} bytes: {refused:?}");
        assert_eq!(free(), before, "{length} bytes");
    }
    block_on(session.allocate(node, 0, 300 * MIB, reserve, false)).expect("fits");
}

/// Holes read as zeros on disks full of random bytes: ranges that were never written, punched, or
/// cut off and grown again.
#[test]
fn holes_read_as_zeros() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let session = lab.session();
    let node = lab.create_file("sparse");
    lab.write(node, 5 * MIB + 100, b"far out");
    assert_eq!(lab.read(node, 0, 1000), vec![0; 1000]);
    assert_eq!(lab.read(node, 5 * MIB, 100), vec![0; 100]);
    assert_eq!(block_on(session.seek(node, 0, Seek::Data)).expect("data"), 5 * MIB);
    assert_eq!(block_on(session.seek(node, 0, Seek::Hole)).expect("hole"), 0);
    let bytes = pattern(1, 3 * MIB as usize);
    lab.write(node, 0, &bytes);
    block_on(session.allocate(node, 1000, 2_000_000, Allocate::PunchHole, false)).expect("punched");
    let mut expected = bytes.clone();
    expected[1000..2_001_000].fill(0);
    assert_eq!(lab.read(node, 0, bytes.len()), expected);
    block_on(session.change(node, Changes { size: Some(700_001), ..Changes::default() }))
        .expect("cut");
    block_on(session.change(node, Changes { size: Some(2 * MIB), ..Changes::default() }))
        .expect("grown");
    expected.truncate(700_001);
    expected.resize(2 * MIB as usize, 0);
    assert_eq!(lab.read(node, 0, 3 * MIB as usize), expected);
    lab.write(node, 2 * MIB, &bytes[..70_000]);
    block_on(session.change(node, Changes { size: Some(2 * MIB + 10), ..Changes::default() }))
        .expect("cut");
    block_on(session.change(node, Changes { size: Some(2 * MIB + 70_000), ..Changes::default() }))
        .expect("grown");
    let tail = lab.read(node, 2 * MIB, 70_000);
    assert_eq!(tail[..10], bytes[..10]);
    assert!(tail[10..].iter().all(|byte| *byte == 0));
    lab.check();
}

/// Random writes, syncs, kills, power cuts, and disks that fail and return, compared with a model
/// of the file.
#[test]
fn a_file_equals_its_model_under_random_failures() {
    for seed in 0..6 {
        let mut numbers = Numbers::new(seed);
        let lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "A", "B", "B"]);
        lab.create_file("table");
        let size = 4 * MIB as usize;
        let mut model = vec![0; size];
        let node = lab.find("table");
        block_on(
            lab.session().change(node, Changes { size: Some(size as u64), ..Changes::default() }),
        )
        .expect("sized");
        for step in 0..60 {
            let node = lab.find("table");
            match numbers.below(14) {
                0..=7 => {
                    let length = 1 + usize::try_from(numbers.below(150_000)).expect("small");
                    let at = usize::try_from(numbers.below((size - length) as u64)).expect("small");
                    let bytes = pattern(numbers.draw(), length);
                    lab.write(node, at as u64, &bytes);
                    model[at..at + length].copy_from_slice(&bytes);
                }
                8 => lab.sync(node),
                9 => {
                    lab.kill();
                    lab.mount();
                }
                10 => {
                    lab.sync(node);
                    lab.cut_power();
                    lab.mount();
                }
                11 => {
                    // One loss at a time: the group does not promise to survive two.
                    lab.online_all();
                    let disk = usize::try_from(numbers.below(4)).expect("small");
                    lab.disk(disk).faults(|faults| faults.failing_writes = EVERY);
                    lab.write(node, 0, &model[..2_000_000]);
                    lab.disk(disk).heal();
                }
                12 => {
                    let length = 1 + usize::try_from(numbers.below(500_000)).expect("small");
                    let at = usize::try_from(numbers.below((size - length) as u64)).expect("small");
                    let punch = block_on(lab.session().allocate(
                        node,
                        at as u64,
                        length as u64,
                        Allocate::PunchHole,
                        false,
                    ));
                    punch.expect("punched");
                    model[at..at + length].fill(0);
                }
                _ => lab.online_all(),
            }
            let node = lab.find("table");
            assert_eq!(lab.read(node, 0, size), model, "seed {seed}, step {step}");
        }
        lab.online_all();
        lab.check();
        lab.dismount();
        lab.mount();
        assert_eq!(lab.read(lab.find("table"), 0, size), model, "seed {seed}");
        lab.check();
    }
}

/// Synced small files grow out of their slots, and the power is cut when that is durable: no synced
/// byte is lost.
#[test]
fn growing_out_of_a_slot_keeps_synced_bytes() {
    for seed in 0..4 {
        let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let nodes: Vec<_> = (0..4).map(|index| lab.create_file(&format!("file{index}"))).collect();
        for (node, seed) in nodes.iter().zip(0..) {
            lab.write(*node, 0, &pattern(seed, 8000));
            lab.sync(*node);
        }
        nodes.iter().for_each(|node| lab.write(*node, 60_000, &pattern(9, 100_000)));
        block_on(lab.session().sync_directory(ROOT)).expect("all commits are durable");
        lab.cut_power();
        lab.mount();
        for index in 0..4 {
            let node = lab.find(&format!("file{index}"));
            assert_eq!(lab.read(node, 0, 8000), pattern(index, 8000), "seed {seed}");
        }
        lab.check();
    }
}

/// Names survive a kill of the engine; a rename replaces its target atomically.
#[test]
fn names_survive_a_kill_of_the_engine() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("new");
    lab.write(node, 0, b"contents");
    lab.create_file("old");
    block_on(lab.session().rename((ROOT, b"new"), (ROOT, b"old"), RenameMode::Replace))
        .expect("renamed");
    lab.kill();
    lab.mount();
    assert_eq!(lab.read(lab.find("old"), 0, 100), b"contents");
    assert!(matches!(block_on(lab.session().lookup(ROOT, b"new")), Err(FileError::NotFound)));
    lab.check();
}

/// Disks with 512-byte sectors, with 512-byte sectors emulated on 4096 bytes, and with 4096-byte
/// sectors.
#[test]
fn a_group_works_on_disks_of_each_sector_size() {
    for (logical, physical) in [(512, 512), (512, 4096), (4096, 4096)] {
        let lab = Lab::with_sectors(Redundancy::Normal, 64 * MIB, &["A", "B"], logical, physical);
        let node = lab.create_file("table");
        lab.write(node, 511, &pattern(1, 77_777));
        assert_eq!(lab.read(node, 511, 77_777), pattern(1, 77_777));
        lab.check();
    }
}
