//! Dismounts: regular ones, by force, with I/O in flight, and without threads left behind.

use super::*;

impl Lab {
    fn wait_for_silence(&self) {
        self.wait_for("the end of all threads", || self.world.running() == 0);
    }
}

/// All threads of a group end with its dismount.
#[test]
fn no_thread_outlives_its_group() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.dismount();
    lab.wait_for_silence();
    lab.mount();
    let group = lab.group.take().expect("mounted");
    block_on(group.dismount(true)).expect("it ends by force");
    drop(group);
    lab.wait_for_silence();
}

/// The only disk takes no writes any more: a forced dismount ends, and so does the waiting writer.
#[test]
fn a_forced_dismount_ends_although_the_disk_takes_no_writes() {
    for hang in [false, true] {
        let mut lab = Lab::new(Redundancy::External, 64 * MIB, &["A"]);
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, 300_000));
        lab.disks[0].faults(|faults| {
            faults.fail_writes = !hang;
            faults.hang = hang;
        });
        let session = lab.session();
        let writer = std::thread::spawn(move || {
            block_on(session.write(node, 9 * MIB, &[7; 300_000], false))
        });
        std::thread::sleep(Duration::from_millis(200));
        let group = lab.group.take().expect("mounted");
        let ending = std::thread::spawn(move || block_on(group.dismount(true)));
        lab.wait_for("the forced dismount", || ending.is_finished());
        ending.join().expect("no panic").expect("it ends by force");
        lab.disks[0].heal();
        lab.wait_for("the writer's end", || writer.is_finished());
        assert!(writer.join().expect("no panic").is_err());
        lab.wait_for_silence();
        lab.mount();
        assert_eq!(lab.read(lab.find("table"), 0, 300_000), pattern(1, 300_000));
    }
}
