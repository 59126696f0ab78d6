//! Checksum blocks that cannot be read.

use super::*;
use crate::{catalog::tables, extent::Extent};
use std::sync::atomic::Ordering;

impl Lab {
    /// Writes a file, closes its region and mounts again, so that no checksum is in memory. Returns
    /// the file's bytes, the offset of its first extent's checksum block on each disk, and the disk
    /// whose block is read first.
    fn file_with_cold_sums(&mut self, name: &str) -> (Vec<u8>, Vec<u64>, usize) {
        let node = self.create_file(name);
        let bytes = pattern(1, 500_000);
        self.write(node, 0, &bytes);
        self.sync(node);
        self.dismount();
        self.mount();
        let group = self.group();
        let node = self.find(name);
        let extents = group.catalog.read(move |connection| {
            let mut rows = tables::extent::of_file(connection, node)?;
            Ok(Extent::from(rows.remove(0)))
        });
        let extent = block_on(extents).expect("the extent's row");
        let zone = |mirror: &crate::extent::Mirror| {
            group.members[&mirror.disk].layout().sums_of(mirror.au).0
        };
        let mut mirrors = extent.mirrors().to_vec();
        let first = mirrors[crate::extent::data::Data::first_zone(&extent, mirrors.len())].disk;
        mirrors.sort_by_key(|mirror| mirror.disk);
        (bytes, mirrors.iter().map(zone).collect(), usize::from(first.0))
    }

    fn zones_lost(&self) -> u64 {
        self.group().zones_lost.load(Ordering::Relaxed)
    }
}

/// One mirror's checksum block cannot be read until it is rewritten. The other mirror's is used,
/// and the bad one is rewritten.
#[test]
fn one_checksum_block_is_enough() {
    for disk in 0..2 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let (bytes, zones, first) = lab.file_with_cold_sums("table");
        lab.disks[disk].faults(|faults| faults.latent.push(zones[disk]..zones[disk] + 512));
        let node = lab.find("table");
        assert_eq!(lab.read(node, 0, bytes.len()), bytes);
        assert_eq!(lab.zones_lost(), 0);
        if disk == first {
            lab.wait_for("the rewriting", || {
                block_on(lab.group().close_idle(true)).is_ok()
                    && readable(&lab.disks[disk], zones[disk])
            });
        }
        // The checksums still find a rotten block.
        let at = (0..64 * MIB)
            .step_by(4096)
            .find(|at| lab.disks[1].peek(*at, 4096) == bytes[4096..8192]);
        lab.disks[1].corrupt(at.expect("the block is there"), &[9; 4096]);
        lab.disks[0].faults(|faults| faults.fail_reads = true);
        assert!(lab.try_read(node, 0, bytes.len()).is_err(), "rotten bytes are not returned");
    }
}

fn readable(disk: &MemoryDisk, offset: u64) -> bool {
    let buffer = crate::sync::buffer::Buffer::zeroed(4096);
    block_on(disk.open().submit(crate::world::Io::Read { offset, buffer })).result.is_ok()
}

/// No mirror's checksum block can be read. Bytes on which the mirrors agree are read, the loss is
/// reported and counted once, and all checksums are computed and written again.
#[test]
fn without_checksum_blocks_bytes_equal_on_all_mirrors_are_read() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let (bytes, zones, _) = lab.file_with_cold_sums("table");
    for (disk, zone) in lab.disks.iter().zip(&zones) {
        disk.faults(|faults| faults.latent.push(*zone..zone + 512));
    }
    let node = lab.find("table");
    for _ in 0..3 {
        assert_eq!(lab.read(node, 0, bytes.len()), bytes);
    }
    assert_eq!(lab.zones_lost(), 1);
    let told = lab
        .world
        .events()
        .iter()
        .filter(|event| event.text.contains("no checksums of extent 0"))
        .count();
    assert_eq!(told, 1);
    lab.wait_for("the rewriting", || {
        block_on(lab.group().close_idle(true)).is_ok()
            && (0..2).all(|disk| readable(&lab.disks[disk], zones[disk]))
            && block_on(lab.group().check(false)).expect("the check runs").problems.is_empty()
    });
}

/// The only disk hangs when the checksums are needed. The read waits for them, and does not return
/// rotten bytes unchecked.
#[test]
fn a_read_waits_for_the_checksums_of_a_hanging_disk() {
    let mut lab = Lab::new(Redundancy::External, 64 * MIB, &["A"]);
    let (bytes, ..) = lab.file_with_cold_sums("table");
    let at =
        (0..64 * MIB).step_by(4096).find(|at| lab.disks[0].peek(*at, 4096) == bytes[4096..8192]);
    lab.disks[0].corrupt(at.expect("the block is there"), &[9; 4096]);
    let node = lab.find("table");
    lab.disks[0].faults(|faults| faults.hang = true);
    let session = lab.session();
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; 8192];
        block_on(session.read(node, 0, &mut bytes)).map(|_| bytes)
    });
    // All disks that are there hang, so none is late compared with the others: the read waits
    // longer than the deadline.
    lab.wait_for("the deadline", || {
        lab.world.events().iter().any(|event| event.text.starts_with("no disk answers"))
    });
    lab.disks[0].heal();
    reader.join().expect("no panic").expect_err("the block is rotten");
    assert_eq!(lab.zones_lost(), 0);
}

/// A disk that cannot be spared hangs on the write of a checksum block, and the write fails in the
/// end. The region is not closed before the block is written.
#[test]
fn a_checksum_block_whose_write_hung_and_failed_is_written_again() {
    let (mut lab, node, plain) = Lab::with_a_plain_disk();
    lab.close_regions();
    let extent = lab.extent_alone_on(plain, node);
    let at = extent.number * MIB;
    lab.write(node, at, &pattern(2, 8192));
    lab.sync(node);
    let (zone, length) = lab.member(plain).layout().sums_of(extent.mirrors()[0].au);
    lab.disks[plain].faults(|faults| faults.hang_in.push(zone..zone + length as u64));
    let group = Arc::clone(lab.group());
    let closing = std::thread::spawn(move || block_on(group.close_idle(true)));
    // The watchdog may hold the disk for hung before the task that writes has looked: its write has
    // to be overdue, or it fails in time and is another story.
    let member = lab.member(plain);
    let is_overdue = || member.counters.write_timeouts.load(Ordering::Relaxed) > 0;
    lab.wait_for("the checksums", || lab.disks[plain].hung() > 0 && is_overdue());
    lab.disks[plain].fail_hung();
    lab.wait_for("the end, or another try", || {
        closing.is_finished() || lab.disks[plain].hung() > 0
    });
    lab.disks[plain].heal();
    closing.join().expect("no panic").expect("the region is closed");
    lab.close_regions();
    lab.kill();
    lab.mount();
    assert_eq!(lab.read(lab.find("table"), at, 8192), pattern(2, 8192));
    lab.check();
}
