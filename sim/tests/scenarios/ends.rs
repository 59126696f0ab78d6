//! Both ends of every disk are overwritten while the group is not mounted, as partition tools, boot
//! loaders and file systems do.

use super::*;
use plinth_engine::testing::Numbers;
use plinth_format::layout::MIB;
use sim::scenario::{DISK_SIZE, pattern};

/// Offsets and lengths, in bytes.
type Ranges = &'static [(u64, u64)];

/// The ranges that tools write, in bytes of a device: the beginning first, then the end, counted
/// back from it.
const TOOLS: [(&str, Ranges, Ranges); 9] = [
    ("parted mklabel gpt", &[(0, 34 * 512)], &[(33 * 512, 33 * 512)]),
    ("parted mklabel msdos", &[(0, 512)], &[]),
    ("mkswap", &[(0, 4096)], &[]),
    ("pvcreate", &[(512, 512), (4096, MIB - 4096)], &[]),
    ("mdadm, metadata 1.2", &[(4096, 4096), (8192, 124 * 1024)], &[]),
    ("mdadm, metadata 0.90", &[], &[(128 * 1024, 64 * 1024)]),
    ("mdadm, metadata 1.0", &[], &[(8192, 4096)]),
    ("grub-install", &[(0, 446), (512, 64 * 1024)], &[]),
    ("dd of a MiB on both ends", &[(0, MIB)], &[(MIB, MIB)]),
];

/// Every tool, with zeros and with noise, on all disks of a group that was dismounted, killed or
/// without power: it mounts by itself, with all its contents.
#[test]
fn tools_over_both_ends_of_all_disks_are_survived() {
    for (index, (tool, begins, ends)) in TOOLS.into_iter().enumerate() {
        for seed in seeds() {
            let mut world = if seed % 2 == 0 { pair(seed) } else { three(seed) };
            world.store("table", &pattern(seed, 3_000_000));
            match seed % 3 {
                0 => world.dismount(),
                1 => world.kill(),
                _ => world.cut_power(),
            }
            let mut numbers = Numbers::new(seed * 100 + index as u64);
            let noise = numbers.below(2) == 0;
            for disk in 0..world.disk_count() {
                let back = ends.iter().map(|(back, length)| (DISK_SIZE - back, *length));
                for (offset, length) in begins.iter().copied().chain(back) {
                    let mut bytes = vec![0; usize::try_from(length).expect("small")];
                    if noise {
                        numbers.fill(&mut bytes);
                    }
                    world.corrupt(disk, offset, &bytes);
                }
            }
            world.mount();
            assert!(!world.told("is an old image"), "{tool}, seed {seed}");
            world.ends_well();
        }
    }
}

/// A disk that is used in part, on a device that is larger, loses the first MiB: its spare header
/// copy says where the rest is.
#[test]
fn a_disk_used_in_part_needs_no_first_copy() {
    for seed in seeds() {
        let mut world = three(seed);
        world.store("table", &pattern(seed, 3_000_000));
        world.dismount();
        for disk in 0..world.disk_count() {
            world.disk(disk).set_size(DISK_SIZE * 3 + 4096 * seed);
            world.corrupt(disk, 0, &pattern(seed, 1 << 20));
        }
        world.mount();
        world.ends_well();
    }
}
