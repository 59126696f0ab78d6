//! The decision which membership counts, and whether the group mounts.

use super::*;
use plinth_engine::admin::Code;
use plinth_format::membership::{CatalogFile, DiskState};
use sim::scenario::{pattern, words};
use std::time::Duration;

/// MOUNT: after a kill, after a cut, after a dismount.
#[test]
fn a_group_mounts_however_it_ended() {
    for seed in seeds() {
        let mut world = pair(seed);
        world.store("table", &pattern(seed, 1_000_000));
        world.kill();
        world.mount();
        world.verify();
        world.cut_power();
        world.mount();
        world.ends_well();
    }
}

/// MOUNT: a change of membership was begun on one voter and never came into force. It is completed
/// if no disk has gone on without it.
#[test]
fn a_change_that_was_begun_is_completed_or_forgotten() {
    for seed in 0..seeds().end * 3 {
        let mut world = three(seed);
        world.store("table", &pattern(1, 300_000));
        world.fail(2);
        let writing = world.begin_write("table", 0, &pattern(2, 300_000));
        // Somewhere in the change that takes the disk offline.
        world.wait(Duration::from_micros(seed * 150));
        world.kill();
        let was_acknowledged = matches!(writing.ended(), Some(Ok(())));
        world.heal(2);
        world.mount();
        world.online();
        world.recover();
        let found = world.read("table", 0, 300_000);
        assert!(
            found == pattern(2, 300_000) || !was_acknowledged,
            "seed {seed}: an acknowledged write is lost"
        );
        world.ends_well();
    }
}

/// NO-DISKS.
#[test]
fn a_mount_without_visible_disks_is_refused() {
    let mut world = pair(1);
    world.store("table", b"contents");
    world.dismount();
    world.present(&[]);
    assert!(world.refused(true).contains("no member disk was found"));
    world.present(&[0, 1]);
    world.mount();
    world.ends_well();
}

/// TWO-GROUPS: two groups have one name, as when an array is copied and made anew. Nothing is
/// guessed.
#[test]
fn two_groups_of_one_name_are_refused() {
    for seed in seeds() {
        let mut world = World::new(seed).disks(&["A", "B", "A", "B"]);
        world.present(&[2, 3]);
        world.create(Redundancy::Normal, &[2, 3]).expect("made");
        world.present(&[0, 1]);
        world.create(Redundancy::Normal, &[0, 1]).expect("made");
        world.mount();
        world.store("table", b"contents");
        world.dismount();
        world.give_back(2);
        world.give_back(3);
        let refusal = world.try_mount(true).expect_err("which one?");
        assert_eq!(refusal.code, Code::DuplicateDisk, "seed {seed}");
        assert!(
            refusal.message.contains("/disk0, /disk1")
                && refusal.message.contains("/disk2, /disk3"),
            "{refusal}"
        );
        world.present(&[0, 1]);
        world.mount();
        world.ends_well();
    }
}

/// NO-MEMBERSHIP: the slots of all voters are noise.
#[test]
fn without_a_membership_nothing_mounts() {
    let mut world = pair(1);
    world.store("table", b"contents");
    world.dismount();
    let whole = world.images();
    for disk in 0..2 {
        world.corrupt_records(disk, |area| area.memberships, &pattern(7, 4096));
    }
    let refusal = world.refused(true);
    assert!(refusal.contains("holds a readable membership (/disk0, /disk1)"), "{refusal}");
    world.restore(&whole);
    world.mount();
    world.ends_well();
}

/// Each half is forced to go on, from the same moment, for the given number of mounts.
fn split(seed: u64, rounds: [u64; 2]) -> World {
    let mut world = pair(seed);
    world.store("table", b"before");
    world.dismount();
    for (half, rounds) in rounds.into_iter().enumerate() {
        world.present(&[half]);
        for round in 0..rounds {
            world.try_mount(round == 0).expect("by force, once");
            world.write("table", 0, format!("half {half}").as_bytes());
            world.sync("table");
            world.dismount();
        }
    }
    world.forget("table");
    world.present(&[0, 1]);
    world
}

/// FORK: both halves were forced to go on equally far. FORCE does not choose; detaching one half
/// does.
#[test]
fn two_equal_histories_are_refused() {
    for seed in seeds() {
        let mut world = split(seed, [1, 1]);
        let generations = [0, 1].map(|disk| world.membership(disk).expect("it votes").generation);
        assert_eq!(generations[0], generations[1], "seed {seed}");
        let refusal = world.refused(true);
        assert!(
            refusal.contains("has gone on in two histories") && !refusal.contains("MOUNT FORCE"),
            "{refusal}"
        );
        let kept = usize::try_from(seed % 2).expect("small");
        world.present(&[kept]);
        world.mount();
        world.give_back(1 - kept);
        world.online();
        world.is_told("copied whole");
        assert_eq!(world.read("table", 0, 10), format!("half {kept}").as_bytes(), "seed {seed}");
        world.ends_well();
    }
}

/// TWO-HISTORIES, then FORCED: one half went on for longer. FORCE goes on with it, and the other is
/// given up.
#[test]
fn the_longer_of_two_histories_is_taken_by_force_only() {
    for seed in seeds() {
        let winner = usize::try_from(seed % 2).expect("small");
        let mut world = split(seed, if winner == 0 { [3, 1] } else { [1, 3] });
        assert!(
            world.refused(false).contains("MOUNT FORCE goes on with generation"),
            "seed {seed}"
        );
        world.try_mount(true).expect("the operator has decided");
        world.is_told("MOUNT FORCE gives up a history");
        world.is_told("belongs to another history of the group; it is copied whole");
        assert_eq!(world.read("table", 0, 10), format!("half {winner}").as_bytes(), "seed {seed}");
        world.ends_well();
        assert_eq!(world.read("table", 0, 10), format!("half {winner}").as_bytes(), "seed {seed}");
    }
}

/// NO-QUORUM: the stale half alone is refused, and the refusal names the missing disks. With the
/// other it mounts, and has the contents of the other.
#[test]
fn a_stale_half_is_refused() {
    for seed in seeds() {
        let mut world = pair(seed);
        world.store("table", b"old");
        world.fail(1);
        world.write("table", 0, b"new");
        world.kill();
        world.present(&[1]);
        let refusal = world.refused(false);
        assert!(refusal.contains("1 of 2 voters can be counted on, 2 are needed"), "{refusal}");
        assert!(
            refusal.contains("attach disk DATA_0000") && refusal.contains("MOUNT FORCE"),
            "{refusal}"
        );
        world.present(&[0]);
        world.mount();
        world.verify();
        world.give_back(1);
        world.ends_well();
    }
}

/// FORCED: the half that went on is lost for good, and the operator takes the stale one. When the
/// other is found after all it is given up.
#[test]
fn a_stale_half_can_be_forced() {
    for seed in seeds() {
        let mut world = pair(seed);
        world.store("table", b"old");
        world.fail(1);
        world.write("table", 0, b"new");
        world.kill();
        world.present(&[1]);
        world.try_mount(true).expect("by force");
        world.is_told("MOUNT FORCE with 1 of 2 voters");
        world.forget("table");
        assert_eq!(world.read("table", 0, 3), b"old", "seed {seed}");
        world.give_back(0);
        world.online();
        world.is_told("copied whole");
        assert_eq!(world.read("table", 0, 3), b"old", "seed {seed}");
        world.ends_well();
    }
}

/// NOTHING-CURRENT: most voters are there, and none of them has data.
#[test]
fn quorum_disks_alone_do_not_mount() {
    for seed in seeds() {
        let mut world =
            World::new(seed).disks(&["A", "B", "Q1", "Q2", "Q3"]).group(Redundancy::Normal);
        world.store("table", b"contents");
        world.dismount();
        world.present(&[2, 3, 4]);
        for force in [false, true] {
            let refusal = world.refused(force);
            assert!(refusal.contains("no visible ONLINE disk is current"), "{refusal}");
            assert!(refusal.contains("attach disk DATA_0000, DATA_0001"), "{refusal}");
        }
        world.present(&[0, 2, 3, 4]);
        world.mount();
        world.verify();
        world.give_back(1);
        world.ends_well();
    }
}

/// NO-QUORUM and CATALOG-MISSING: the disks that hold the catalog are lost, and FORCE cannot help.
#[test]
fn without_the_catalog_force_does_not_help() {
    for seed in seeds() {
        let mut world =
            World::new(seed).disks(&["A", "B", "C", "D", "E", "F"]).group(Redundancy::External);
        world.store("table", b"contents");
        world.dismount();
        let has_catalog =
            |world: &World, disk: usize| world.catalog_place(disk, CatalogFile::Database).is_some();
        let others: Vec<usize> = (0..6).filter(|disk| !has_catalog(&world, *disk)).collect();
        assert_eq!(others.len(), 3, "three disks hold it");
        world.present(&others);
        let refusal = world.refused(false);
        assert!(
            refusal.contains("voters can be counted on") && refusal.contains("FORCE does not help"),
            "{refusal}"
        );
        let refusal = world.refused(true);
        assert!(refusal.contains("no visible current disk holds AU 0 of the catalog"), "{refusal}");
        world.present(&[0, 1, 2, 3, 4, 5]);
        world.mount();
        world.ends_well();
    }
}

/// A paused engine expels no disk when it wakes: time in which it did not run does not count (R2).
#[test]
fn a_frozen_engine_blames_no_disk() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(seed, 500_000));
        let writing = world.begin_write("table", 0, &pattern(2, 500_000));
        world.wait(Duration::from_micros(seed * 100));
        world.freeze(Duration::from_secs(100));
        world.until("the write", |_| writing.ended().is_some());
        assert!(matches!(writing.ended(), Some(Ok(()))), "seed {seed}");
        assert!((0..3).all(|disk| world.state(disk) == DiskState::Online), "seed {seed}");
        assert_eq!(world.read("table", 0, 500_000), pattern(2, 500_000), "seed {seed}");
        world.ends_well();
    }
}

/// A disk that hangs is offline after its timeout, and back when its old I/O has ended.
#[test]
fn a_hung_disk_is_not_back_before_its_io_has_ended() {
    for seed in seeds() {
        let mut world = pair(seed);
        world.store("table", &pattern(1, 500_000));
        world.hang(1);
        world.write("table", 0, &pattern(2, 500_000));
        world.sync("table");
        assert_eq!(world.state(1), DiskState::Offline, "seed {seed}");
        let refused = world.try_online().err().map(|error| words(&error));
        assert!(refused.is_some(), "seed {seed}: it does not answer");
        world.heal(1);
        world.ends_well();
    }
}
