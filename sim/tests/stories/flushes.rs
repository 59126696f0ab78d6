//! Bytes that a sync has acknowledged are durable. When a flush fails on a disk that cannot be
//! spared, the writes that it left uncertain are never reported as durable (R9).

use super::*;
use plinth_format::membership::MemberDisk;

/// A group with EXTERNAL redundancy whose engine was killed. It has a file that was written and not
/// synced. Returns the index of a disk with a part of the file that neither votes nor has anything
/// of the catalog.
fn killed_without_a_sync() -> (Lab, usize) {
    let lab = Lab::new(Redundancy::External, 64 * MIB, &["A", "B", "C", "D", "E", "F", "G"]);
    let node = lab.create_file("table");
    block_on(
        lab.session().change(node, Changes { size: Some(UNSYNCED as u64), ..Changes::default() }),
    )
    .expect("sized");
    lab.sync(node);
    lab.write(node, 0, &pattern(1, UNSYNCED));
    let membership = lab.world().newest_membership();
    let is_plain = |disk: &MemberDisk| {
        !disk.votes && membership.catalog.iter().all(|run| run.disk != disk.number)
    };
    let plain = membership.disks.iter().position(is_plain).expect("five vote");
    lab.kill();
    (lab, plain)
}

const UNSYNCED: usize = 14 << 20;

/// The engine is killed, and the next engine cannot have a disk flush its unflushed writes: it does
/// not take them for written.
#[test]
fn a_mount_is_refused_when_a_flush_of_unflushed_writes_fails() {
    let (lab, plain) = killed_without_a_sync();
    lab.disk(plain).faults(|faults| faults.failing_flushes = u32::MAX);
    let refused = lab.try_mount(false).expect_err("unflushed writes may be lost");
    assert_eq!(refused.code, Code::Io, "{refused}");
}
