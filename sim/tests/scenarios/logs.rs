//! The decision which write-ahead log of the catalog counts.

use super::*;
use plinth_format::membership::CatalogFile;
use sim::scenario::pattern;

const FRAME: usize = 24 + 4096;

/// The place of the log on a disk, and its bytes.
fn log(world: &World, disk: usize) -> (u64, Vec<u8>) {
    let (place, length) =
        world.catalog_place(disk, CatalogFile::Wal).expect("it has a mirror of the log");
    (place, world.peek(disk, place, length))
}

fn salt(log: &[u8]) -> u32 {
    u32::from_be_bytes(log[16..20].try_into().expect("four bytes"))
}

/// The frames of the log that begins a file, by their salts.
fn frames(log: &[u8]) -> usize {
    let frames = log[32..].chunks_exact(FRAME);
    frames.take_while(|frame| frame[8..16] == log[16..24] && frame[..4] != [0; 4]).count()
}

fn files(world: &mut World, names: std::ops::Range<u64>) {
    for name in names {
        world.store(&format!("file{name}"), &pattern(name, 5_000));
    }
}

/// EMPTY: after a dismount there is no log, and nothing is replayed.
#[test]
fn a_dismount_leaves_no_log() {
    for seed in seeds() {
        let mut world = pair(seed);
        files(&mut world, 0..5);
        world.dismount();
        world.mount();
        assert!(!world.told("replayed"), "seed {seed}");
        world.ends_well();
    }
}

/// AGREED: the engine is killed. Every mirror has the log, and every name is there.
#[test]
fn a_killed_engines_log_is_replayed() {
    for seed in seeds() {
        let mut world = pair(seed);
        files(&mut world, 0..20);
        world.kill();
        assert_eq!(log(&world, 0).1[..32], log(&world, 1).1[..32], "seed {seed}");
        world.mount();
        world.is_told("of the catalog replayed");
        world.ends_well();
    }
}

/// LONGEST: on one mirror the log ends early, in a torn frame or before it. The other has the rest,
/// and nothing durable is missing, not even if that other disk is lost right after the mount.
#[test]
fn the_longest_log_counts() {
    for seed in seeds() {
        for short in 0..2 {
            let mut world = pair(seed);
            files(&mut world, 0..20);
            world.kill();
            let (place, bytes) = log(&world, short);
            let cut = usize::try_from(seed).expect("small") * frames(&bytes) / 10;
            let at = place + 32 + (cut * FRAME) as u64 + 100;
            world.corrupt(short, at, &pattern(seed, 1000));
            world.mount();
            world.fail(1 - short);
            world.verify();
            world.heal(1 - short);
            world.ends_well();
        }
    }
}

/// LONGEST: one mirror of the log cannot be read, or its header is gone. The other has all.
#[test]
fn one_log_is_enough() {
    for seed in seeds() {
        let lost = usize::try_from(seed % 2).expect("small");
        let mut world = pair(seed);
        files(&mut world, 0..20);
        world.kill();
        let (place, _) = log(&world, lost);
        if seed % 4 < 2 {
            world.spoil(lost, place);
        } else {
            world.corrupt(lost, place, &[0; 4096]);
        }
        world.mount();
        world.ends_well();
    }
}

/// LONGEST: the power goes while names are made, and each mirror keeps any of its last writes.
/// Every synced file is there.
#[test]
fn a_power_cut_leaves_a_prefix_of_the_log() {
    for seed in 0..seeds().end * 3 {
        let mut world = pair(seed);
        files(&mut world, 0..10);
        for name in ["x", "y", "z"] {
            world.create_file(name);
            world.write(name, 0, b"not synced");
        }
        world.cut_power();
        world.mount();
        world.ends_well();
    }
}

/// YOUNGEST: the log was begun anew, and one mirror has the log before it, whole and longer, as if
/// all later writes were lost. The short one is younger than all of that.
#[test]
fn a_log_begun_anew_beats_a_longer_one() {
    for seed in 0..4 {
        let mut world = pair(seed);
        let (mut name, mut before) = (0, log(&world, 1).1);
        loop {
            files(&mut world, name..name + 1);
            name += 1;
            let now = log(&world, 1).1;
            if salt(&now) == salt(&before).wrapping_add(1) {
                break;
            }
            before = now;
            assert!(name < 2000, "the log is never begun anew");
        }
        files(&mut world, name..name + 3);
        world.kill();
        let (place, now) = log(&world, 1);
        assert!(frames(&before) > frames(&now), "seed {seed}");
        let stale = usize::try_from(seed % 2).expect("small");
        let place = if stale == 1 { place } else { log(&world, 0).0 };
        world.corrupt(stale, place, &before);
        world.mount();
        world.ends_well();
    }
}

/// UNRELATED: one mirror has a log of an earlier mount. It is shorter than the changes since, and
/// does not count.
#[test]
fn a_log_of_an_earlier_mount_does_not_count() {
    for seed in seeds() {
        let mut world = pair(seed);
        files(&mut world, 0..2);
        let (place, before) = log(&world, 1);
        world.dismount();
        world.mount();
        files(&mut world, 2..30);
        world.kill();
        assert!(frames(&before) < frames(&log(&world, 1).1), "seed {seed}");
        world.corrupt(1, place, &before);
        world.mount();
        world.ends_well();
    }
}
