//! The decision which mirror of a block is read.

use super::*;
use sim::scenario::pattern;
use std::time::Duration;

const BLOCK: usize = 4096;

/// The place of a block in its file, in bytes.
fn at(block: u64) -> u64 {
    block * BLOCK as u64
}
/// How often a file is read until each of its mirrors was.
const READS: usize = 200;

/// A file whose region is closed: its checksums are in the zones of all disks.
fn settled(seed: u64) -> (World, Vec<u8>) {
    let mut world = pair(seed);
    let bytes = pattern(seed + 100, 600_000);
    world.store("table", &bytes);
    world.wait(Duration::from_secs(30));
    (world, bytes)
}

fn block(bytes: &[u8], number: usize) -> &[u8] {
    &bytes[number * BLOCK..(number + 1) * BLOCK]
}

/// BY-MEMORY on a read: one mirror is noise, or cannot be read. The other is read, the bad one
/// rewritten, counted and reported.
#[test]
fn a_bad_mirror_is_rewritten_from_the_good_one() {
    for seed in seeds() {
        let (mut world, bytes) = settled(seed);
        for disk in 0..2 {
            let places = [3, 70].map(|number| world.place_of(disk, block(&bytes, number)));
            world.corrupt(disk, places[0], &pattern(seed, BLOCK));
            world.spoil(disk, places[1]);
            // The policy chooses the mirror that is read: now and then it looks at the other one.
            let is_repaired = |world: &mut World| {
                world.peek(disk, places[0], BLOCK) == block(&bytes, 3)
                    && world.told("repaired 4 KiB")
            };
            for _ in 0..READS {
                world.verify();
                if is_repaired(&mut world) {
                    break;
                }
            }
            world.until("the repair", is_repaired);
        }
        world.ends_well();
    }
}

/// LOST: both mirrors are noise. An error, never other bytes; the rest of the file is read, and the
/// group serves on.
#[test]
fn a_block_that_is_lost_is_an_error() {
    for seed in seeds() {
        let (mut world, bytes) = settled(seed);
        for disk in 0..2 {
            let place = world.place_of(disk, block(&bytes, 9));
            world.corrupt(disk, place, &pattern(seed + disk as u64, BLOCK));
        }
        let lost = world.try_read("table", at(9), BLOCK).expect_err("it is lost");
        assert!(lost.to_string().contains("no good mirror of extent 0"), "seed {seed}: {lost}");
        world.is_told("restore it from a backup");
        assert_eq!(world.read("table", 0, 9 * BLOCK), bytes[..9 * BLOCK], "seed {seed}");
        assert_eq!(
            world.read("table", at(10), 90 * BLOCK),
            bytes[10 * BLOCK..100 * BLOCK],
            "seed {seed}"
        );
        world.write("table", at(9), block(&bytes, 9));
        world.ends_well();
    }
}

/// UNREADABLE: no mirror of a block can be read. An error, until it is written again.
#[test]
fn a_block_that_cannot_be_read_anywhere_is_an_error() {
    for seed in seeds() {
        let (mut world, bytes) = settled(seed);
        for disk in 0..2 {
            let place = world.place_of(disk, block(&bytes, 5));
            world.spoil(disk, place);
        }
        let lost = world.try_read("table", at(5), BLOCK).expect_err("it cannot be read");
        assert!(lost.to_string().contains("no good mirror of extent 0"), "seed {seed}: {lost}");
        world.write("table", at(5), block(&bytes, 5));
        world.ends_well();
    }
}

/// BAD-CHECKSUM: both mirrors are equal and both checksum blocks are wrong. The mirrors prove them
/// wrong, and they are rewritten.
#[test]
fn equal_mirrors_prove_a_checksum_wrong() {
    for seed in seeds() {
        let (mut world, bytes) = settled(seed);
        world.dismount();
        for disk in 0..2 {
            let place = world.place_of(disk, block(&bytes, 20));
            let sum = world.sum_place(disk, place);
            world.corrupt(disk, sum, &pattern(seed + disk as u64, 4));
        }
        world.mount();
        world.verify();
        world.wait(Duration::from_secs(30));
        world.ends_well();
    }
}

/// BY-ZONE on a read: the first checksum block is wrong, and so is one mirror. The other mirror
/// matches the other zone.
#[test]
fn one_right_checksum_block_is_enough() {
    for seed in seeds() {
        for [sum, data] in [[0, 0], [0, 1], [1, 0], [1, 1]] {
            let (mut world, bytes) = settled(seed);
            world.dismount();
            let place = world.place_of(sum, block(&bytes, 20));
            let place = world.sum_place(sum, place);
            world.corrupt(sum, place, &pattern(seed, 4));
            let place = world.place_of(data, block(&bytes, 20));
            world.corrupt(data, place, &pattern(seed, BLOCK));
            world.mount();
            world.verify();
            world.wait(Duration::from_secs(30));
            let report = world.report(true);
            assert!(report.is_good(), "seed {seed}: {:?}", report.problems);
            world.ends_well();
        }
    }
}

/// UNCHECKED: no checksum block can be read. Mirrors that agree are taken as they are, which is
/// reported.
#[test]
fn without_checksums_mirrors_prove_each_other() {
    for seed in seeds() {
        let (mut world, bytes) = settled(seed);
        world.dismount();
        for disk in 0..2 {
            let place = world.place_of(disk, block(&bytes, 20));
            let sum = world.sum_place(disk, place);
            world.spoil(disk, sum);
        }
        world.mount();
        world.verify();
        world.is_told("bytes on which its mirrors agree are taken as they are");
        world.until("new checksum blocks", |world| {
            world.wait(Duration::from_secs(20));
            world.report(true).problems.is_empty()
        });
        world.ends_well();
    }
}

/// EQUAL after a crash: the engine is killed when all mirrors had everything. They are compared,
/// nothing is copied, and all of it is there.
#[test]
fn acknowledged_writes_survive_a_kill() {
    for seed in seeds() {
        let (mut world, _) = settled(seed);
        world.write("table", 100_000, &pattern(1, 200_000));
        world.kill();
        world.mount();
        world.recover();
        world.until("its end", |world| world.told("recovery ended"));
        world.is_told(" 0 bytes copied");
        world.ends_well();
    }
}

/// BY-MEMORY and BY-ZONE after a crash: in a region that was active one mirror's block is bad, and
/// the checksums of the bytes that were there before still match it. The mirror that matches is
/// taken, whichever checksum block is wrong.
#[test]
fn after_a_crash_what_matches_its_checksum_is_taken() {
    for seed in seeds() {
        for [sum, data] in [[0, 0], [0, 1], [1, 0], [1, 1]] {
            let (mut world, bytes) = settled(seed);
            world.write("table", 0, &pattern(1, BLOCK));
            world.kill();
            let place = world.place_of(sum, block(&bytes, 20));
            let place = world.sum_place(sum, place);
            world.corrupt(sum, place, &pattern(seed, 4));
            let place = world.place_of(data, block(&bytes, 20));
            world.corrupt(data, place, &pattern(seed, BLOCK));
            world.mount();
            world.recover();
            world.ends_well();
        }
    }
}

/// LOWEST after a crash: the power goes while a block is overwritten. Mirrors may have it old, new
/// or torn; each sector reads old or new, and the same from then on, whichever disk serves it.
#[test]
fn writes_in_flight_are_old_or_new() {
    for seed in 0..seeds().end * 3 {
        let (mut world, bytes) = settled(seed);
        let new = pattern(1, 100_000);
        let _writing = world.begin_write("table", 50_000, &new);
        world.wait(Duration::from_micros(50 + seed * 20));
        world.cut_power();
        world.mount();
        let found = world.read("table", 0, bytes.len());
        for at in (0..bytes.len()).step_by(512) {
            let sector = at..(at + 512).min(bytes.len());
            let is_new =
                |at: usize| found[at] == *new.get(at.wrapping_sub(50_000)).unwrap_or(&bytes[at]);
            let is_old = found[sector.clone()] == bytes[sector.clone()];
            assert!(
                is_old || sector.into_iter().all(is_new),
                "seed {seed}: neither old nor new at {at}"
            );
        }
        world.recover();
        for disk in 0..2 {
            world.fail(disk);
            assert_eq!(world.read("table", 0, bytes.len()), found, "seed {seed}");
            world.heal(disk);
            world.online();
        }
        world.ends_well();
    }
}

/// LOWEST on a read: a write failed on every mirror, so the checksum is unknown, and mirrors may
/// differ. Each sector reads old or new, and the same from then on.
#[test]
fn after_a_write_that_failed_mirrors_are_made_equal() {
    for seed in seeds() {
        let (mut world, bytes) = settled(seed);
        let new = pattern(1, 8 * BLOCK);
        world.offline("B");
        // From now on the region is active, and the next write is one write of the disk.
        world.write("table", at(100), &bytes[100 * BLOCK..101 * BLOCK]);
        world.disk(0).faults(|faults| faults.failing_writes = 1);
        world.try_write("table", 0, &new).expect_err("the only mirror does not take it");
        let found = world.read("table", 0, bytes.len());
        assert_eq!(found[8 * BLOCK..], bytes[8 * BLOCK..], "seed {seed}");
        for at in (0..8 * BLOCK).step_by(512) {
            let sector = at..at + 512;
            let known = [&bytes[sector.clone()], &new[sector.clone()]];
            assert!(known.contains(&&found[sector]), "seed {seed}: neither old nor new at {at}");
        }
        world.ends_well();
        assert_eq!(world.read("table", 0, bytes.len()), found, "seed {seed}");
    }
}

/// Mirrors on disks that are OFFLINE or SYNCING, and stale ones, are not read: with the only
/// current one gone there is no answer.
#[test]
fn a_stale_mirror_is_never_read() {
    for seed in seeds() {
        let (mut world, bytes) = settled(seed);
        world.offline("B");
        world.write("table", 0, &pattern(1, BLOCK));
        let place = world.place_of(0, &pattern(1, BLOCK));
        world.spoil(0, place);
        world.try_read("table", 0, BLOCK).expect_err("the other mirror is old");
        assert_eq!(world.read("table", at(1), BLOCK), block(&bytes, 1), "seed {seed}");
        world.write("table", 0, &pattern(1, BLOCK));
        world.ends_well();
    }
}
