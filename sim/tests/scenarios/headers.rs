//! The decision which header copy counts.

use super::*;
use plinth_engine::admin::HeaderStatus;
use plinth_format::{
    DiskId, GroupId,
    layout::{HEADER_COPIES, MIB},
};
use sim::scenario::{DISK_SIZE, pattern};

/// The damage of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Zeros,
    Noise,
    Behind,
    /// Another disk's, with a higher sequence.
    Foreign,
}

fn spoil(world: &mut World, disk: usize, copy: usize, wrong: Wrong) {
    let place = world.header_places(disk)[copy];
    let mut header = world.header(disk, place);
    match wrong {
        Wrong::Zeros => return world.corrupt(disk, place, &[0; 4096]),
        Wrong::Noise => return world.corrupt(disk, place, &pattern(world.seed, 4096)),
        Wrong::Behind => header.sequence -= 1,
        Wrong::Foreign => {
            (header.group, header.disk, header.sequence) =
                (GroupId([9; 16]), DiskId([9; 16]), header.sequence + 7);
            header.group_name = "OTHER".to_owned();
        }
    }
    world.put_header(disk, place, &header);
}

/// ALL-RIGHT: nothing is repaired or reported.
#[test]
fn right_copies_are_silent() {
    for seed in seeds() {
        let mut world = pair(seed);
        world.store("table", b"contents");
        world.dismount();
        world.mount();
        assert!(!world.told("header"), "seed {seed}");
        world.ends_well();
    }
}

/// FIRST-HOLDS, MIDDLE-HOLDS, LAST-HOLDS, SPARE-HOLDS: whichever copies are zeros, noise or of an
/// earlier writing, one is enough; the others are rewritten, which is reported.
#[test]
fn one_right_copy_is_enough() {
    for (seed, wrong) in (0..).zip([Wrong::Zeros, Wrong::Noise, Wrong::Behind]) {
        let mut world = pair(seed);
        world.store("table", b"contents");
        for spoilt in 1..(1_usize << HEADER_COPIES) - 1 {
            world.dismount();
            for copy in (0..HEADER_COPIES).filter(|copy| spoilt & (1 << copy) != 0) {
                spoil(&mut world, 1, copy, wrong);
            }
            world.mount();
            world.is_told("repaired the header copy of disk DATA_0001 (/disk1) at offset");
            world.verify();
            world.check();
        }
        world.ends_well();
    }
}

/// A stray `dd` put another disk's copy, with a higher sequence, over one of ours. The others name
/// the disk; the stray one is overwritten.
#[test]
fn a_foreign_copy_does_not_outvote_the_others() {
    for copy in 0..HEADER_COPIES {
        let mut world = pair(copy as u64);
        world.store("table", b"contents");
        world.dismount();
        spoil(&mut world, 0, copy, Wrong::Foreign);
        world.mount();
        world.is_told("repaired the header copy of disk DATA_0000 (/disk0) at offset");
        world.ends_well();
    }
}

/// FIRST-HOLDS: two of the others are lost, one is foreign. The first copy names the disk.
#[test]
fn the_first_copy_decides_between_two() {
    for seed in seeds() {
        let mut world = pair(seed);
        world.store("table", b"contents");
        world.dismount();
        let foreign = 1 + usize::try_from(seed % 3).expect("small");
        (1..HEADER_COPIES)
            .filter(|copy| *copy != foreign)
            .for_each(|copy| spoil(&mut world, 0, copy, Wrong::Zeros));
        spoil(&mut world, 0, foreign, Wrong::Foreign);
        world.mount();
        world.is_told("repaired the header copy");
        world.ends_well();
    }
}

/// CONTESTED: the first copy and the spare one are lost, and the other two are of two disks.
/// Neither is guessed: the disk is absent, no group takes it without FORCE, and the reason is
/// reported.
#[test]
fn copies_of_two_disks_belong_to_no_group() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", b"contents");
        world.dismount();
        spoil(&mut world, 2, 0, Wrong::Zeros);
        spoil(&mut world, 2, 3, Wrong::Zeros);
        spoil(&mut world, 2, 1, Wrong::Foreign);
        let seen = world.survey();
        assert_eq!(seen[2].header, HeaderStatus::Unknown, "seed {seed}");
        assert!(
            seen[2].remark.as_ref().is_some_and(|remark| remark.contains("of several disks")),
            "seed {seed}"
        );
        world.mount();
        world.is_told("disk DATA_0002 (failure group C) is missing");
        world.write("table", 0, b"meanwhile");
        world.dismount();
        world.create(Redundancy::External, &[2]).expect_err("it may belong to a group");
        world.present(&[1, 2]);
        assert!(
            world.refused(false).contains("its header copies are of several disks"),
            "seed {seed}"
        );
        world.present(&[0, 1]);
        world.mount();
        world.verify();
    }
}

/// NO-HEADER: all are lost. The disk is of no group, and the group goes on without it if the others
/// suffice.
#[test]
fn without_a_header_a_disk_is_absent() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", b"contents");
        world.dismount();
        (0..HEADER_COPIES).for_each(|copy| spoil(&mut world, 1, copy, Wrong::Noise));
        assert_eq!(world.survey()[1].header, HeaderStatus::Candidate, "seed {seed}");
        world.mount();
        world.is_told("disk DATA_0001 (failure group B) is missing");
        world.verify();
        world.check();
    }
}

/// SHRUNK: the device came back smaller. It is not used, whichever copies can still be read; with
/// its old size it is.
#[test]
fn a_disk_that_shrank_is_not_used() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(seed, 3_000_000));
        world.dismount();
        if seed % 2 == 1 {
            spoil(&mut world, 1, 0, Wrong::Zeros);
        }
        world.disk(1).set_size(DISK_SIZE / 4 * 3);
        world.mount();
        world.is_told(
            "/disk1 has shrunk: 31457280 bytes, disk DATA_0001 needs 41943040; it is not used",
        );
        world.write("table", 0, b"meanwhile");
        world.try_online().expect_err("it is still too small");
        world.disk(1).set_size(DISK_SIZE);
        world.ends_well();
    }
}

/// A device has grown. Its copies are where the disk's own size puts them: the first one says so,
/// or the spare one.
#[test]
fn a_device_that_grew_is_known_by_its_own_size() {
    for seed in seeds() {
        let mut world = pair(seed);
        world.store("table", b"contents");
        world.dismount();
        world.disk(0).set_size(DISK_SIZE * 2);
        world.mount();
        assert!(!world.told("header"), "seed {seed}");
        world.dismount();
        world.corrupt(0, 0, &[0; 4096]);
        world.mount();
        world.is_told("repaired the header copy of disk DATA_0000 (/disk0) at offset 0");
        world.ends_well();
        assert_eq!(world.disk(0).size(), 80 * MIB);
    }
}
