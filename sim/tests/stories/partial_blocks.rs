//! Writes of less than a block: the rest of their blocks is read once for several writes, not for
//! each.

use super::*;

const PART: usize = 2048;

impl Lab {
    /// Reads of files on all disks.
    fn reads_of_files(&self) -> u64 {
        self.rows("SELECT sum(reads) FROM v$asm_disk_iostat WHERE io_client = 'FILES'")[0][0]
            .parse()
            .expect("a count")
    }
}

/// A log is written in parts of 2 KiB, over an older one and then beyond its end: the old contents
/// are read eight blocks at a time, and the bytes are right, also those that other callers wrote in
/// between.
#[test]
fn a_log_written_in_parts_of_blocks_takes_few_reads() {
    let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B"]);
    let node = lab.create_file("log");
    let mut expected = pattern(1, 256 << 10);
    lab.write(node, 0, &expected);
    lab.sync(node);
    let log = pattern(2, 384 << 10);
    let before = lab.reads_of_files();
    for at in (0..log.len()).step_by(PART) {
        lab.write(node, at as u64, &log[at..at + PART]);
        expected.resize(expected.len().max(at + PART), 0);
        expected[at..at + PART].copy_from_slice(&log[at..at + PART]);
        // Now and then another caller writes the last block or the one after it: whole, or a part.
        let (block, next) = (at & !4095, (at & !4095) + 4096);
        if at % (40 << 10) == 0 && next + 4096 <= expected.len() {
            let other = pattern(at as u64, 4096);
            let (start, bytes) = match (at / (40 << 10)) % 3 {
                0 => (block, &other[..]),
                1 => (next, &other[..]),
                _ => (next + 100, &other[100..200]),
            };
            lab.write(node, start as u64, bytes);
            expected[start..start + bytes.len()].copy_from_slice(bytes);
        }
    }
    let reads = lab.reads_of_files() - before;
    // 192 writes, of which 128 go over 64 old blocks.
    assert!((8..=24).contains(&reads), "{reads} reads");
    assert_eq!(lab.read(node, 0, expected.len()), expected);
    lab.check();
    lab.kill();
    lab.mount();
    assert_eq!(lab.read(lab.find("log"), 0, expected.len()), expected);
}
