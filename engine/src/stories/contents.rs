//! File contents while disks fail, hang and rot, where a test reaches into the engine.

use super::*;

/// As above, but a program punches a hole there before the file grows, and does not sync that: the
/// new size may become durable before the zeros do.
#[test]
fn bytes_punched_after_a_power_cut_do_not_come_back_when_the_file_grows() {
    let mut met = 0;
    for seed in 0..6 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D", "E", "F"]);
        let names: Vec<String> = (0..8).map(|number| format!("table{number}")).collect();
        for name in &names {
            let node = lab.create_file(name);
            lab.write(node, 0, &pattern(1, 100_000));
            block_on(
                lab.session().change(node, Changes { size: Some(5_000), ..Changes::default() }),
            )
            .expect("cut");
            lab.sync(node);
        }
        names.iter().for_each(|name| lab.write(lab.find(name), 5_000, &pattern(2, 40_000)));
        lab.cut_power(seed);
        lab.mount();
        // The sync flushes the disks: the bytes that the power cut left there are durable.
        let other = lab.create_file("other");
        lab.write(other, 0, &pattern(4, 100_000));
        lab.sync(other);
        let size = |lab: &Lab, name: &str| {
            block_on(lab.session().attributes(lab.find(name))).expect("it is there").size
        };
        let short: Vec<&String> = names.iter().filter(|name| size(&lab, name) == 5_000).collect();
        for name in &short {
            let node = lab.find(name);
            block_on(lab.session().allocate(node, 5_000, 50_000, Allocate::PunchHole, false))
                .expect("punched");
            lab.write(node, 5_000, &pattern(3, 3_000));
        }
        // The caretaker does this once a second.
        block_on(lab.group().files.store_times(&lab.group().catalog)).expect("sizes are stored");
        block_on(lab.session().sync_directory(ROOT)).expect("synced");
        lab.cut_power(seed + 100);
        lab.mount();
        for name in short.iter().filter(|name| size(&lab, name) == 8_000) {
            met += 1;
            let tail = lab.read(lab.find(name), 5_000, 3_000);
            let right =
                tail.iter().zip(pattern(3, 3_000)).all(|(byte, new)| *byte == 0 || *byte == new);
            assert!(right, "seed {seed}, {name}");
        }
        lab.check();
    }
    assert!(met > 5, "{met}");
}

/// All disks of a failure group hang: their timeouts run at the same time and do not add up.
#[test]
fn a_hanging_failure_group_is_one_wait() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "A", "A", "B", "B", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6_000_000));
    for disk in 3..6 {
        lab.disks[disk].faults(|faults| faults.hang = true);
    }
    let began = lab.world.monotonic();
    for round in 0..10 {
        lab.write(node, round * 600_000, &pattern(2, 600_000));
        lab.sync(node);
    }
    // The disk timeout is 1 s, and the three must not add up.
    let waited = lab.world.monotonic().saturating_sub(began);
    let timeouts: Vec<_> = lab
        .world
        .events()
        .iter()
        .filter(|event| event.text.contains("is offline"))
        .cloned()
        .collect();
    assert_eq!(timeouts.len(), 3, "{timeouts:?}");
    assert!((3..6).all(|disk| lab.state(disk) == DiskState::Offline), "after {waited:?}");
    assert_eq!(lab.read(node, 5_400_000, 600_000), pattern(2, 600_000));
    lab.disks.iter().for_each(MemoryDisk::heal);
    lab.online_all();
    lab.check();
}

/// One bad sector on one mirror: the read returns good data, the block is rewritten, and the disk
/// stays online.
#[test]
fn a_bad_sector_is_healed_from_the_other_mirror() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    let bytes = pattern(1, 500_000);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    for disk in &lab.disks {
        let at =
            (0..64 * MIB).step_by(4096).find(|at| disk.peek(*at, 4096) == bytes[81_920..86_016]);
        let at = at.expect("every mirror has the block");
        disk.faults(|faults| faults.bad.push(at..at + 512));
        assert_eq!(lab.read(node, 0, bytes.len()), bytes);
        assert_eq!(lab.read(node, 0, bytes.len()), bytes);
        disk.heal();
    }
    assert!((0..2).all(|disk| lab.state(disk) == DiskState::Online));
    lab.check();
}

/// The engine is killed while an unlinked small file is still open. The next engine frees the
/// file's slot before it has compared the mirrors of the shared extent. It compares them all the
/// same: afterwards any one mirror is enough.
#[test]
fn recovery_compares_a_shared_extent_although_a_slot_in_it_was_freed() {
    let mut lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B"]);
    // Large enough to keep the comparison busy with other extents.
    let large = lab.create_file("large");
    lab.write(large, 0, &pattern(1, 24 << 20));
    let kept = lab.create_file("kept");
    lab.write(kept, 0, &pattern(2, 9000));
    let gone = lab.create_file("gone");
    lab.session().remember(gone, 1);
    lab.write(gone, 0, &pattern(3, 9000));
    block_on(lab.session().unlink(ROOT, b"gone")).expect("its name goes");
    lab.kill();
    lab.mount();
    lab.wait_for("the recovery", || lab.told("recovery ended"));
    lab.disks[1].faults(|faults| (faults.fail_reads, faults.fail_writes) = (true, true));
    assert_eq!(lab.read(lab.find("kept"), 0, 9000), pattern(2, 9000));
    lab.disks[1].heal();
    lab.create_file("another");
    lab.check();
}

/// Blocks are corrupt on the only current mirror while the other disk is resynced: the blocks
/// around them are copied.
#[test]
fn a_resync_copies_the_blocks_around_a_lost_block() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    block_on(lab.group().offline(Selection::FailureGroups(vec!["B".to_owned()]), None))
        .expect("it may go");
    let bytes = pattern(1, 1_000_000);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    let place = (0..64 * MIB)
        .step_by(4096)
        .find(|at| lab.disks[0].peek(*at, 4096) == bytes[40 * 4096..41 * 4096]);
    lab.disks[0].corrupt(place.expect("the block is on the disk"), &[0xa5; 4096]);
    lab.online_all();
    lab.disks[0].faults(|faults| (faults.fail_reads, faults.fail_writes) = (true, true));
    assert_eq!(lab.read(node, 0, 40 * 4096), &bytes[..40 * 4096]);
    assert_eq!(lab.read(node, 41 * 4096, 800_000), &bytes[41 * 4096..][..800_000]);
    assert!(lab.try_read(node, 40 * 4096, 4096).is_err(), "a read of the lost block fails");
}

/// All header copies but one are zeroed: the group mounts, the copies are repaired, and an event
/// says so.
#[test]
fn one_header_copy_is_enough_for_a_mount() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let places = lab.group().members.values().next().expect("a disk").layout().header_places();
    lab.dismount();
    for lost in 0..places.len() {
        for (index, place) in places.into_iter().enumerate() {
            if index != lost {
                lab.disks[0].corrupt(place, &[0; 4096]);
            }
        }
        lab.mount();
        assert!(lab.told("repaired the header copy"));
        lab.check();
        lab.dismount();
    }
}

/// Overwriting synced data is one write of each mirror and no commit, although the kernel asks for
/// the set-user-ID bits to be cleared: there are none. If there is one, the write clears it.
#[test]
fn overwriting_needs_no_commit() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let session = lab.session();
    let node = lab.create_file("wal");
    lab.write(node, 0, &pattern(1, 256 << 10));
    lab.sync(node);
    let catalog = &lab.group().catalog;
    let counts = || lab.disks.iter().map(|disk| disk.counts().writes).collect::<Vec<_>>();
    // The caretaker stores times now and then, so one undisturbed try of five is enough.
    let quiet = (0..5).any(|_| {
        let (committed, written) = (catalog.committed(), counts());
        for turn in 0..10 {
            // The kernel sets this flag for a program without privileges.
            block_on(session.write(node, turn * 8192, &pattern(turn, 8192), true))
                .expect("it is written");
            block_on(session.sync(node, true)).expect("it is durable");
        }
        catalog.committed() == committed
            && counts().iter().zip(&written).all(|(now, then)| now - then == 10)
    });
    assert!(quiet, "a write is one write of each mirror, and no commit");
    // With a bit to clear, the write changes the mode.
    block_on(session.change(node, Changes { mode: Some(0o4755), ..Changes::default() }))
        .expect("the mode is set");
    block_on(session.write(node, 0, b"x", true)).expect("it is written");
    assert_eq!(block_on(session.attributes(node)).expect("it is there").mode & 0o7777, 0o755);
}

/// The caretaker has written a file's times to the catalog, not durably, when a sync comes: they
/// are durable when it returns.
#[test]
fn a_sync_waits_for_times_that_are_being_stored() {
    for seed in 0..6 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let node = lab.create_file("table");
        lab.write(node, 0, b"before");
        block_on(lab.session().sync(node, false)).expect("it is durable");
        lab.write(node, 0, b"after!");
        let modified = block_on(lab.session().attributes(node)).expect("it is there").modified;
        block_on(lab.group().files.store_times(&lab.group().catalog)).expect("they are stored");
        let stored = lab.group().catalog.committed();
        block_on(lab.session().sync(node, false)).expect("it is durable");
        // The catalog must report it, too: that the flush of the data covered the catalog's log is
        // luck.
        assert!(lab.group().catalog.durable() >= stored);
        lab.cut_power(seed);
        lab.mount();
        let found =
            block_on(lab.session().attributes(lab.find("table"))).expect("it is there").modified;
        assert_eq!(found, modified, "seed {seed}");
    }
}
