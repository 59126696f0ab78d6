//! Bytes that nobody wrote, anywhere on one disk.

use super::*;

/// The checksum zone of one disk, or of all, is noise: a part-written extent reads right all the same.
#[test]
fn noise_in_checksum_blocks() {
    for spoilt in [vec![0], vec![1], vec![0, 1]] {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let node = lab.create_file("table");
        let mut bytes = pattern(1, 3_000_000);
        lab.write(node, 0, &bytes);
        lab.sync(node);
        let places: Vec<_> = lab
            .group()
            .extents
            .all()
            .iter()
            .flat_map(|extent| extent.mirrors.clone())
            .map(|mirror| (mirror.disk, lab.group().members[&mirror.disk].layout.sums_of(mirror.au).0))
            .collect();
        lab.dismount();
        for (disk, place) in places {
            if spoilt.contains(&usize::from(disk.0)) {
                lab.disks[usize::from(disk.0)].corrupt(place, &pattern(place + u64::from(disk.0), 1024));
            }
        }
        lab.mount();
        let node = lab.find("table");
        for extent in 0..3 {
            let at = extent * MIB as usize + 4096;
            lab.write(node, at as u64, &[9; 4096]);
            bytes[at..at + 4096].fill(9);
        }
        assert_eq!(lab.read(node, 0, bytes.len()), bytes, "noise on {spoilt:?}");
        lab.dismount();
        lab.mount();
        assert_eq!(lab.read(lab.find("table"), 0, bytes.len()), bytes, "noise on {spoilt:?}");
        block_on(lab.group().check(true)).expect("the check runs");
        lab.check();
    }
}

/// Every block of one disk becomes noise, a sixth of them at a time, mounted or not.
#[test]
fn noise_in_every_block_of_a_disk() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    let bytes = pattern(1, 5_000_000);
    lab.write(node, 0, &bytes);
    let small = lab.create_file("small");
    lab.write(small, 0, &bytes[..5000]);
    lab.sync(node);
    lab.sync(small);
    for round in 0..12_u64 {
        let mounted = round % 2 == 0;
        let disk = usize::try_from(round / 2 % 3).expect("small");
        if !mounted {
            lab.dismount();
        }
        for block in (round / 2..64 * MIB / 4096).step_by(6) {
            lab.disks[disk].corrupt(block * 4096, &pattern(round << 32 | block, 4096));
        }
        if !mounted {
            lab.mount();
        }
        let (node, small) = (lab.find("table"), lab.find("small"));
        assert_eq!(lab.read(node, 0, bytes.len()), bytes, "round {round}");
        assert_eq!(lab.read(small, 0, 6000), &bytes[..5000], "round {round}");
        lab.write(node, round * 4096, &bytes[usize::try_from(round).expect("small") * 4096..][..4096]);
        lab.online_all();
        let report = block_on(lab.group().check(true)).expect("the check runs");
        assert!(report.is_good(), "round {round}: {:?}", report.problems);
        lab.check();
    }
}

/// Whoever reads often enough meets every mirror: what rotted is found and mended without a check, wherever it is.
#[test]
fn reading_again_meets_every_mirror() {
    for (redundancy, groups) in [(Redundancy::Normal, &["A", "B"][..]), (Redundancy::High, &["A", "B", "C"])] {
        let lab = Lab::new(redundancy, 64 * MIB, groups);
        let table = lab.create_file("table");
        let bytes = pattern(1, 3_000_000);
        lab.write(table, 0, &bytes);
        let small = lab.create_file("small");
        lab.write(small, 0, &bytes[..5000]);
        lab.sync(table);
        lab.sync(small);
        for disk in 0..groups.len() {
            let mut struck = Vec::new();
            for extent in lab.group().extents.all() {
                let mirror = extent.mirrors.iter().find(|mirror| usize::from(mirror.disk.0) == disk).expect("a mirror");
                for piece in extent.state().marked().iter() {
                    let place = lab.group().members[&mirror.disk].layout.au_offset(mirror.au) + piece as u64 * 65536;
                    struck.push((place, lab.disks[disk].peek(place, 4096)));
                    lab.disks[disk].corrupt(place, &pattern(place, 4096));
                }
            }
            assert!(struck.len() > 40, "the files are on every disk");
            for _ in groups {
                for from in (0..bytes.len()).step_by(8192) {
                    assert_eq!(lab.read(table, from as u64, 8192), bytes[from..bytes.len().min(from + 8192)]);
                }
                assert_eq!(lab.read(small, 0, 6000), &bytes[..5000]);
            }
            lab.wait_for("all of it to be mended", || {
                struck.iter().all(|(place, right)| lab.disks[disk].peek(*place, 4096) == *right)
            });
        }
        lab.check();
    }
}
