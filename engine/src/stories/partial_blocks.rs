//! Writes of less than a block: the rest of their blocks is read once for several writes, not for
//! each.

use super::*;
use crate::extent::data::Data;
use plinth_format::Block;

const PART: usize = 2048;

/// The old contents that a log overwrites are rotten on one disk: no rotten bytes are written
/// again, and the rest of the block of the last write is right on both disks.
#[test]
fn the_rest_of_a_partly_written_block_is_checked() {
    for rotten in 0..2 {
        let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B"]);
        let node = lab.create_file("log");
        let mut expected = pattern(1, 128 << 10);
        lab.write(node, 0, &expected);
        lab.sync(node);
        for extent in block_on(lab.group().some_alive(0)).expect("read").expect("some").0 {
            let mirrors = extent.mirrors();
            let mirror = mirrors
                .into_iter()
                .find(|mirror| usize::from(mirror.disk.0) == rotten)
                .expect("a mirror");
            for block in 0..16 {
                let offset = Data::offset(&lab.group().members[&mirror.disk], mirror, Block(block));
                lab.disks[rotten].corrupt(offset, &[0xbd; 4096]);
            }
        }
        let log = pattern(2, 62 << 10);
        for at in (0..log.len()).step_by(PART) {
            lab.write(node, at as u64, &log[at..at + PART]);
        }
        expected[..log.len()].copy_from_slice(&log);
        assert_eq!(lab.read(node, 0, expected.len()), expected);
        lab.disks[1 - rotten].faults(|faults| faults.fail_reads = true);
        assert_eq!(lab.read(node, 0, expected.len()), expected, "disk {rotten} alone");
    }
}
