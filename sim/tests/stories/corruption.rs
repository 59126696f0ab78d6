//! Corrupt bytes anywhere on one disk.

use super::*;

/// Disks of which the group uses only a part lose their first header copies. The other copies are
/// found by the size that the membership names, and the group mounts.
#[test]
fn other_header_copies_are_found_on_a_partly_used_disk() {
    let lab = Lab::of_size(Redundancy::Normal, 64 * MIB, &["A", "B"], Some(48 * MIB));
    let node = lab.create_file("table");
    lab.write(node, 0, b"contents");
    lab.dismount();
    for disk in &lab.disks() {
        disk.corrupt(0, &[0; 4096]);
    }
    lab.mount();
    assert_eq!(lab.read(lab.find("table"), 0, 8), b"contents");
    assert!(lab.told("repaired the header copy"));
    lab.check();
}

/// Every block of one disk is overwritten with random bytes, a sixth of them at a time, while the
/// group is mounted or not.
#[test]
fn files_read_back_although_any_block_of_one_disk_is_corrupt() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
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
            lab.disk(disk).corrupt(block * 4096, &pattern(round << 32 | block, 4096));
        }
        if !mounted {
            lab.mount();
        }
        let (node, small) = (lab.find("table"), lab.find("small"));
        assert_eq!(lab.read(node, 0, bytes.len()), bytes, "round {round}");
        assert_eq!(lab.read(small, 0, 6000), &bytes[..5000], "round {round}");
        lab.write(
            node,
            round * 4096,
            &bytes[usize::try_from(round).expect("small") * 4096..][..4096],
        );
        lab.online_all();
        let report = block_on(lab.group().check(true)).expect("the check runs");
        assert!(report.is_good(), "round {round}: {:?}", report.problems);
        lab.check();
    }
}
