//! Devices that accept I/O and never answer when a group is mounted: a device of no group, a member
//! that can be spared, and one that cannot.

use super::*;
use plinth_engine::admin::Code;

/// A disk of the group hangs and can be spared: the mount does without it and names it. The disk
/// returns by itself when it answers.
#[test]
fn a_member_that_hangs_at_a_mount_is_offline_until_it_answers() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.sync(node);
    lab.kill();
    lab.disk(1).faults(|faults| faults.hang = true);
    lab.mount();
    assert_eq!(lab.state(1), DiskState::Offline);
    assert!(lab.told("/disk1 does not answer"));
    assert_eq!(lab.read(lab.find("table"), 0, 300_000), pattern(1, 300_000));
    lab.disk(1).heal();
    lab.wait_for("its return", || lab.state(1) == DiskState::Online);
    lab.check();
}

/// A disk that is needed hangs: the mount is refused, and the error names the disk.
#[test]
fn a_mount_that_needs_a_hanging_disk_is_refused() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.dismount();
    lab.disk(1).faults(|faults| faults.hang = true);
    let refused = lab.try_mount(false).expect_err("one of two voters");
    assert_eq!(refused.code, Code::NoQuorum, "{refused}");
    assert!(refused.to_string().contains("/disk1 does not answer"), "{refused}");
    lab.disk(1).heal();
    lab.mount();
    lab.check();
}
