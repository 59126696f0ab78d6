//! Disks that fail too often, and disks that are far slower than the others.

use super::*;
use crate::{
    admin::{ScrubOrder, Selection},
    extent::data::Data,
};
use plinth_format::Block;
use std::sync::atomic::Ordering;

const LENGTH: usize = 6 << 20;

impl Lab {
    /// The offsets on a disk of the AUs with blocks of files.
    fn data_on(&self, disk: usize) -> Vec<u64> {
        let extents = block_on(self.group().some_alive(0))
            .expect("the catalog is read")
            .expect("there are some")
            .0;
        let mirrors =
            extents.iter().filter(|extent| extent.file != 0).flat_map(|extent| extent.mirrors());
        let here = mirrors.filter(|mirror| usize::from(mirror.disk.0) == disk);
        here.map(|mirror| Data::offset(&self.group().members[&mirror.disk], mirror, Block(0)))
            .collect()
    }

    /// From now on no block of a file can be read on a disk, also after it is rewritten; all other
    /// blocks can.
    fn spoil(&self, disk: usize) {
        let data = self.data_on(disk);
        assert!(data.len() >= 3, "{data:?}");
        self.disks[disk].faults(|faults| faults.bad.extend(data.iter().map(|at| *at..*at + MIB)));
    }

    fn repairs(&self, disk: usize) -> u64 {
        self.group()
            .members
            .values()
            .nth(disk)
            .expect("it is there")
            .counters
            .repaired
            .load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, attribute: &str, value: &str) {
        block_on(self.group().set_attribute(attribute, value)).expect("there is such an attribute");
    }

    fn prefer_first(&self) {
        self.group().prefer_reads(&["A".to_owned()].into_iter().collect());
    }

    fn take_offline(&self, failure_group: &str) -> Result<(), crate::admin::AdminError> {
        block_on(
            self.group().offline(Selection::FailureGroups(vec![failure_group.to_owned()]), None),
        )
    }

    fn count_told(&self, text: &str) -> usize {
        self.world.events().iter().filter(|event| event.text.contains(text)).count()
    }
}

fn with_a_table(groups: &[&str]) -> (Lab, Node, Vec<u8>) {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, groups);
    let node = lab.create_file("table");
    let bytes = pattern(3, LENGTH);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    (lab, node, bytes)
}

/// No block of a file can be read on a disk, and rewriting each from the other mirror does not
/// help. Readers get no error, the disk goes offline, and nothing counts as repaired.
#[test]
fn a_disk_whose_reads_fail_goes_offline() {
    let (lab, node, bytes) = with_a_table(&["A", "B"]);
    lab.spoil(0);
    lab.wait_for("the end of the disk", || {
        assert_eq!(lab.read(node, 0, LENGTH), bytes);
        lab.state(0) == DiskState::Offline
    });
    lab.wait_for("the line", || lab.told("attribute disk_error_limit") && lab.told("REPLACE DISK"));
    assert_eq!((lab.repairs(0), lab.count_told("repaired 4 KiB")), (0, 0));
    assert_eq!(lab.state(1), DiskState::Online);
    assert_eq!(lab.read(node, 0, LENGTH), bytes);
    // As with another device in its place.
    lab.disks[0].heal();
    lab.online_all();
    lab.check();
}

/// A repair counts only when the disk has the bytes. A block that it does not have is counted as
/// NOT REPAIRED, and a scrub reports it as left.
#[test]
fn a_repair_is_read_back_before_it_counts() {
    let (lab, node, bytes) = with_a_table(&["A", "B"]);
    lab.prefer_first();
    let data = lab.data_on(0);
    let (latent, bad) = (data[0], data[1] + 8192);
    lab.disks[0].faults(|faults| {
        faults.latent.push(latent..latent + 512);
        faults.bad.push(bad..bad + 512);
    });
    assert_eq!(lab.read(node, 0, LENGTH), bytes);
    lab.wait_for("the repairs", || {
        lab.repairs(0) == 1 && lab.count_told("cannot be read back") > 0
    });
    assert_eq!(lab.rows("SELECT count FROM v$asm_error WHERE kind = 'REPAIRED'"), [["1"]]);
    let offset = lab.rows("SELECT last_offset FROM v$asm_error WHERE kind = 'NOT REPAIRED'");
    assert_eq!(offset, [[bad.to_string()]]);
    let scrub = ScrubOrder { repair: true, ..ScrubOrder::default() };
    block_on(lab.group().scrub(&scrub)).expect("it begins");
    lab.wait_for("the end of the scrub", || lab.told(" found, "));
    assert!(lab.told("0 repaired, 1 left"), "{:?}", lab.world.events().last());
    assert_eq!(lab.state(0), DiskState::Online, "it is one block");
    lab.disks[0].heal();
    lab.check();
}

/// A disk that cannot be read does not count as a mirror: an operator cannot take the good disk
/// offline until the other one can be read again.
#[test]
fn a_disk_stays_online_while_the_other_mirror_cannot_be_read() {
    let (lab, node, bytes) = with_a_table(&["A", "B"]);
    lab.set("disk_error_limit", "0");
    lab.prefer_first();
    lab.spoil(0);
    assert_eq!(lab.read(node, 0, LENGTH), bytes);
    let error = lab.take_offline("B").expect_err("it has the only mirror that can be read");
    assert_eq!(error.code, Code::WouldLoseData);
    assert!(error.message.contains("not everything on DATA_0000 can be read"), "{error}");
    assert_eq!(lab.state(1), DiskState::Online);
    assert_eq!(lab.read(node, 0, LENGTH), bytes);
    lab.take_offline("A").expect("it is of no use");
    lab.disks[0].heal();
    lab.online_all();
    lab.spoil(0);
    assert_eq!(lab.read(node, 0, LENGTH), bytes);
    // The disk works again: the statement reads it, and nothing else is needed.
    lab.disks[0].heal();
    lab.take_offline("B").expect("the other one can be read");
    assert_eq!(lab.read(node, 0, LENGTH), bytes);
    lab.online_all();
    lab.check();
}

/// A disk that cannot even read its header, and was not read for long, is read before it is left to
/// carry the group alone.
#[test]
fn a_disk_is_read_before_it_carries_the_group_alone() {
    let (lab, node, bytes) = with_a_table(&["A", "B"]);
    lab.disks[0].faults(|faults| faults.bad.push(0..4096));
    lab.take_offline("B").expect_err("its mirror is not there");
    lab.disks[0].heal();
    // A disk that does not keep its header may have gone offline for that.
    lab.online_all();
    lab.take_offline("B").expect("now it is");
    assert_eq!(lab.read(node, 0, LENGTH), bytes);
}

/// A disk fails while the others are offline: it stays online, and one alarm is raised.
#[test]
fn a_failing_disk_that_cannot_be_spared_is_an_alarm() {
    let (lab, node, _) = with_a_table(&["A", "B"]);
    lab.take_offline("B").expect("A has everything");
    lab.spoil(0);
    let alarm = || {
        lab.count_told("and it cannot go offline, because some extent would keep no current mirror")
    };
    let read = || {
        (0..LENGTH as u64).step_by(8192).filter(|at| lab.try_read(node, *at, 8192).is_err()).count()
    };
    lab.wait_for("the alarm", || read() > 0 && alarm() > 0);
    let rounds = lab.group().ticks.load(Ordering::Relaxed);
    lab.wait_for("another look", || {
        read() > 0 && lab.group().ticks.load(Ordering::Relaxed) > rounds + 3
    });
    assert_eq!((lab.state(0), alarm()), (DiskState::Online, 1));
    // With B online the disk would go offline.
    lab.set("disk_error_limit", "0");
    lab.disks[0].heal();
    lab.online_all();
    lab.check();
}

/// Rotten blocks are repaired. A disk with too many of them goes offline.
#[test]
fn a_disk_that_keeps_failing_its_checksums_goes_offline() {
    let (lab, node, bytes) = with_a_table(&["A", "B"]);
    lab.prefer_first();
    lab.set("disk_checksum_limit", "12");
    let rot = |from: u64, count: u64| {
        let data = lab.data_on(0);
        for block in from..from + count {
            lab.disks[0].corrupt(data[0] + block * 8192, &pattern(block, 4096));
        }
        for at in (0..LENGTH as u64).step_by(8192) {
            let offset = usize::try_from(at).expect("small");
            assert_eq!(lab.read(node, at, 8192), bytes[offset..offset + 8192]);
        }
    };
    rot(0, 11);
    lab.wait_for("the repairs", || lab.repairs(0) == 11);
    let rounds = lab.group().ticks.load(Ordering::Relaxed);
    lab.wait_for("another look", || lab.group().ticks.load(Ordering::Relaxed) > rounds + 3);
    assert_eq!(lab.state(0), DiskState::Online);
    rot(20, 1);
    lab.wait_for("the end of the disk", || lab.state(0) == DiskState::Offline);
    let line = "12 reads brought bytes that do not match their checksum within 3600 s (attribute disk_checksum_limit)";
    lab.wait_for("the line", || lab.told(line));
    assert_eq!(lab.state(1), DiskState::Online);
    lab.online_all();
    lab.check();
}

/// Writes take 60 ms on one disk, and some microseconds on its mirror. An event with figures and a
/// view report it. When the attribute `disk_slow_time` is set, the disk goes offline.
#[test]
fn a_disk_far_slower_than_its_mirror_is_reported_and_goes_offline_if_so_configured() {
    let (lab, node, bytes) = with_a_table(&["A", "B"]);
    // Disks in memory are written one after the other: the slow one last.
    let extents = block_on(lab.group().some_alive(0))
        .expect("the catalog is read")
        .expect("there are some")
        .0;
    let first =
        extents.iter().find(|extent| extent.file != 0 && extent.number == 0).expect("it has data");
    let slow = usize::from(first.mirrors().get(1).expect("two").disk.0);
    lab.disks[slow].faults(|faults| faults.slow_writes = Duration::from_millis(60));
    let window = || {
        (0..8).for_each(|at| lab.write(node, at * 8192, &bytes[..8192]));
        block_on(lab.group().compare_speeds());
    };
    lab.wait_for("the warning", || {
        window();
        lab.told("is slow: writes take")
    });
    let rows = lab.rows("SELECT name, last_text FROM v$asm_error WHERE kind = 'SLOWER'");
    assert!(
        rows.len() == 1
            && rows[0][0] == format!("DATA_000{slow}")
            && rows[0][1].contains("ms on the other disks"),
        "{rows:?}"
    );
    assert_eq!(lab.state(slow), DiskState::Online, "disk_slow_time is not set");
    lab.set("disk_slow_time", "30s");
    lab.wait_for("the end of the disk", || {
        window();
        lab.state(slow) == DiskState::Offline
    });
    lab.wait_for("the line", || lab.told("(attribute disk_slow_time)"));
    lab.disks[slow].heal();
    lab.online_all();
    lab.check();
}
