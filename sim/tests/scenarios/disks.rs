//! The decision whether a disk is trusted.

use super::*;
use plinth_format::membership::DiskState;
use sim::scenario::pattern;
use std::time::Duration;

/// CURRENT: all disks are there, none has missed anything.
#[test]
fn disks_in_step_are_used() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(seed, 500_000));
        world.cut_power();
        world.mount();
        assert!((0..3).all(|disk| world.state(disk) == DiskState::Online), "seed {seed}");
        world.ends_well();
    }
}

/// ABSENT, then STALE: a disk is missing at a mount; when it is back only changes are copied.
#[test]
fn an_absent_disk_comes_back_and_misses_little() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(1, 8_000_000));
        world.dismount();
        world.present(&[0, 2]);
        world.mount();
        world.is_told("disk DATA_0001 (failure group B) is missing; when it is found, it comes ONLINE by itself");
        world.write("table", 5_000_000, &pattern(2, 100_000));
        world.give_back(1);
        world.online();
        assert!(!world.told("copied whole"), "seed {seed}");
        let copied: u64 = world.operations().iter().map(|one| one.bytes).sum();
        assert!(copied <= 3 << 20, "seed {seed}: {copied} bytes copied");
        world.ends_well();
    }
}

/// STALE: a disk is lost under writes, and its engine dies; the next one copies the writes that the
/// disk missed.
#[test]
fn a_stale_disk_is_copied_what_it_missed() {
    for seed in seeds() {
        let mut world = pair(seed);
        world.store("table", &pattern(1, 3_000_000));
        world.fail(1);
        world.write("table", 1_000_000, &pattern(2, 200_000));
        world.sync("table");
        world.kill();
        world.heal(1);
        world.mount();
        assert_eq!(world.state(1), DiskState::Offline, "seed {seed}");
        world.verify();
        world.online();
        world.fail(0);
        world.verify();
        world.heal(0);
        world.ends_well();
    }
}

/// STALE: the engine dies in the middle of a resync. A SYNCING disk is never read, and the resync
/// goes on.
#[test]
fn a_syncing_disk_is_not_read() {
    for seed in seeds() {
        let mut world = pair(seed);
        world.store("table", &pattern(1, 6_000_000));
        world.fail(1);
        world.write("table", 0, &pattern(2, 6_000_000));
        world.sync("table");
        world.heal(1);
        world.until("a resync", |world| world.try_online().is_ok());
        world.wait(Duration::from_millis(seed * 3));
        world.kill();
        world.mount();
        world.verify();
        world.ends_well();
    }
}

/// DUPLICATE: a clone of a disk appears, as array snapshots do. Neither device is used, nor
/// written; when one is gone the other is used.
#[test]
fn a_disk_with_a_clone_is_not_used() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(1, 500_000));
        world.dismount();
        let clone = world.disk(1).clone_as("/clone");
        world.attach("/clone", clone.clone());
        world.forget_notes();
        let before = [world.disk(1).image(), clone.image()];
        world.mount();
        world.is_told("on two devices");
        world.write("table", 0, b"meanwhile");
        world.try_online().expect_err("it is unknown which one it is");
        let after = [world.disk(1).image(), clone.image()];
        assert!(
            after.iter().zip(&before).all(|(now, then)| now.changed_since(then).is_empty()),
            "seed {seed}"
        );
        world.detach("/clone");
        world.ends_well();
    }
}

/// Copies of all disks appear, as array snapshots do, before an engine dies or after the group was
/// dismounted. It goes on with the devices that it used, and the copies are named and left alone.
#[test]
fn copies_of_all_disks_are_left_alone() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(1, 500_000));
        let is_killed = seed % 2 == 0;
        if !is_killed {
            world.dismount();
        }
        let copies: Vec<_> =
            (0..3).map(|disk| world.disk(disk).clone_as(&format!("/copy{disk}"))).collect();
        (0..3).for_each(|disk| world.attach(&format!("/copy{disk}"), copies[disk].clone()));
        let before: Vec<_> = copies.iter().map(|copy| copy.image()).collect();
        if is_killed {
            world.write("table", 0, b"behind the copy");
            world.kill();
        }
        world.mount();
        assert!((0..3).all(|disk| world.state(disk) == DiskState::Online), "seed {seed}");
        for disk in 0..3 {
            let text = format!(
                "/copy{disk} is a copy of disk DATA_000{disk} and is not used: this host uses /disk{disk}"
            );
            world.is_told(&text);
        }
        world.write("table", 4096, b"meanwhile");
        world.verify();
        let changed = copies
            .iter()
            .zip(&before)
            .any(|(now, then)| !now.image().changed_since(then).is_empty());
        assert!(!changed, "seed {seed}: a copy was written");
        world.ends_well();
    }
}

/// The same on a host that has noted nothing: neither set is used, nor written, and the refusal
/// names both and the remedy.
#[test]
fn copies_of_all_disks_are_as_good_as_the_disks_where_nothing_is_noted() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(1, 500_000));
        world.dismount();
        let copies: Vec<_> =
            (0..3).map(|disk| world.disk(disk).clone_as(&format!("/copy{disk}"))).collect();
        (0..3).for_each(|disk| world.attach(&format!("/copy{disk}"), copies[disk].clone()));
        world.forget_notes();
        let before: Vec<_> = (0..3).map(|disk| world.disk(disk).image()).collect();
        for force in [false, true] {
            let refusal = world.refused(force);
            for disk in 0..3 {
                assert!(
                    refusal.contains(&format!("/copy{disk} and /disk{disk}")),
                    "seed {seed}: {refusal}"
                );
            }
            assert!(refusal.contains("plinth renamedg"), "seed {seed}: {refusal}");
        }
        for disk in 0..3 {
            let unchanged = [world.disk(disk).image(), copies[disk].image()];
            assert!(
                unchanged.iter().all(|now| now.changed_since(&before[disk]).is_empty()),
                "seed {seed}"
            );
        }
        (0..3).for_each(|disk| world.detach(&format!("/copy{disk}")));
        world.mount();
        world.ends_well();
    }
}

/// One disk is missing but a copy of it is visible, beside copies of the others: it is not mixed
/// into the group, and the disk comes back by itself.
#[test]
fn a_copy_does_not_stand_in_for_a_disk_that_is_away() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(1, 500_000));
        world.dismount();
        let copies: Vec<_> =
            (0..3).map(|disk| world.disk(disk).clone_as(&format!("/copy{disk}"))).collect();
        (0..3).for_each(|disk| world.attach(&format!("/copy{disk}"), copies[disk].clone()));
        world.detach("/disk1");
        let before = copies[1].image();
        world.mount();
        assert_eq!(world.state(1), DiskState::Offline, "seed {seed}");
        world.write("table", 4096, b"meanwhile");
        world.try_online().expect_err("only its copy is there");
        world.give_back(1);
        world.until("its return", |world| world.state(1) == DiskState::Online);
        assert!(copies[1].image().changed_since(&before).is_empty(), "seed {seed}");
        world.ends_well();
    }
}

/// A disk fails under the group, an older copy of it appears, and the disk answers again: the disk
/// comes ONLINE, with all that was written before and since, and the copy is not written.
#[test]
fn a_disk_comes_back_beside_its_copy() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(1, 500_000));
        let copy = world.disk(1).clone_as("/copy1");
        world.write("table", 4096, b"behind the copy");
        world.fail(1);
        world.write("table", 0, &pattern(2, 400_000));
        world.sync("table");
        world.until("its loss", |world| world.state(1) == DiskState::Offline);
        let before = copy.image();
        world.attach("/copy1", copy.clone());
        world.heal(1);
        world.online();
        assert_eq!(world.state(1), DiskState::Online, "seed {seed}");
        world.write("table", 8192, b"meanwhile");
        world.verify();
        assert!(
            copy.image().changed_since(&before).is_empty(),
            "seed {seed}: the copy was written"
        );
        world.ends_well();
    }
}

/// Two paths to one device are one device, and paths may change.
#[test]
fn two_paths_are_one_device() {
    for seed in seeds() {
        let mut world = pair(seed);
        world.store("table", b"contents");
        world.dismount();
        let same = world.disk(1).clone();
        world.attach("/another/path", same.clone());
        world.mount();
        assert!(!world.told("two devices"), "seed {seed}");
        world.dismount();
        world.detach("/disk1");
        world.mount();
        world.verify();
        world.check();
        world.attach("/disk1", same);
        world.detach("/another/path");
        world.dismount();
        world.mount();
        world.ends_well();
    }
}

/// OLD-IMAGE: one disk is put back as it was minutes ago. Its stamp shows that: it is copied whole,
/// and nothing of it is read.
#[test]
fn an_old_image_is_copied_whole() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(1, 2_000_000));
        let old = world.disk(2).image();
        world.wait(Duration::from_secs(200));
        world.write("table", 0, &pattern(2, 2_000_000));
        world.sync("table");
        world.dismount();
        world.disk(2).set_image(old);
        world.mount();
        world.is_told("disk DATA_0002 (/disk2) is an old image; it is copied whole");
        world.verify();
        world.online();
        world.fail(0);
        world.verify();
        world.heal(0);
        world.ends_well();
    }
}

/// OLD-IMAGE: a disk is exchanged for its old image while it is offline.
#[test]
fn an_old_image_that_returns_is_copied_whole() {
    for seed in seeds() {
        let mut world = pair(seed);
        world.store("table", &pattern(1, 2_000_000));
        let old = world.disk(1).image();
        world.wait(Duration::from_secs(200));
        world.write("table", 0, &pattern(2, 2_000_000));
        world.offline("B");
        world.disk(1).set_image(old);
        world.online();
        world.is_told("is copied whole: it is an old image");
        world.fail(0);
        world.verify();
        world.heal(0);
        world.ends_well();
    }
}

/// OLD-IMAGE: a disk without a stamp that can be read is as good as an old one.
#[test]
fn a_disk_without_a_stamp_is_copied_whole() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(1, 500_000));
        world.dismount();
        world.corrupt_records(0, |area| area.stamps, &pattern(seed, 4096));
        world.mount();
        world.is_told("is an old image; it is copied whole");
        world.ends_well();
    }
}

/// CURRENT, and no witness: a voter whose membership slots are noise has its data, and does not
/// count for a mount.
#[test]
fn a_voter_without_a_membership_is_no_witness() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(1, 500_000));
        world.dismount();
        world.corrupt_records(0, |area| area.memberships, &pattern(seed, 4096));
        world.present(&[0, 1]);
        assert!(
            world.refused(false).contains("/disk0 holds no readable membership"),
            "seed {seed}"
        );
        world.present(&[0, 1, 2]);
        world.mount();
        assert_eq!(world.state(0), DiskState::Online, "seed {seed}");
        world.ends_well();
    }
}

/// LOSING-BRANCH, then COPY-WHOLE: one half was forced to go on, then the other is. Writes of the
/// loser are never read, and the copy goes on after a crash.
#[test]
fn a_losing_branch_is_copied_whole() {
    for seed in seeds() {
        let mut world = pair(seed);
        world.store("table", &pattern(1, 1_000_000));
        world.dismount();
        let before = world.images();
        world.present(&[1]);
        world.try_mount(true).expect("by force");
        world.write("table", 0, &pattern(7, 1_000_000));
        world.sync("table");
        world.dismount();
        world.disk(0).set_image(before[0].clone());
        world.present(&[0]);
        world.try_mount(true).expect("by force");
        // The first half goes on for longer.
        world.write("table", 0, &pattern(2, 1_000_000));
        world.sync("table");
        world.dismount();
        world.mount();
        world.give_back(1);
        world.until("its return", |world| world.try_online().is_ok());
        world.is_told("copied whole: it went on in another history");
        world.wait(Duration::from_millis(seed * 2));
        world.kill();
        world.mount();
        world.verify();
        world.online();
        world.fail(0);
        world.verify();
        world.heal(0);
        world.ends_well();
    }
}

/// A voter that stopped voting long ago still has a membership from then. When it returns only the
/// changes since are copied.
#[test]
fn a_membership_older_than_all_ancestors_is_no_other_history() {
    let mut world = World::new(1).disks(&["A", "B", "C"]).group(Redundancy::Normal);
    world.store("table", &pattern(1, 4_000_000));
    let first = world.membership(2).expect("it votes").generation;
    let places: Vec<u64> = world.areas(2).iter().flat_map(|area| area.memberships).collect();
    let slots: Vec<_> = places.iter().map(|place| world.peek(2, *place, 64 << 10)).collect();
    while world.newest_membership().generation < first + 300 {
        world.offline("B");
        world.online();
    }
    world.offline("C");
    // The state of a disk that has not voted since.
    places.into_iter().zip(&slots).for_each(|(place, slot)| world.corrupt(2, place, slot));
    world.write("table", 0, &pattern(2, 100_000));
    world.online();
    assert!(!world.told("copied whole"));
    world.ends_well();
}
