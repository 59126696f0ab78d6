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

/// The only disk hangs for longer than the timeout: a sync waits for it and returns no error (R2).
#[test]
fn a_sync_waits_for_the_only_disk() {
    let lab = Lab::new(Redundancy::External, 64 * MIB, &["A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.disks[0].faults(|faults| faults.hang = true);
    let session = lab.session();
    let syncer = std::thread::spawn(move || block_on(session.sync(node, true)));
    std::thread::sleep(Duration::from_millis(1800));
    lab.disks[0].heal();
    syncer.join().expect("no panic").expect("it waited");
}

/// Writers are active when the group is dismounted: acknowledged bytes read back, and all writers
/// end.
#[test]
fn a_dismount_during_writes_keeps_acknowledged_bytes() {
    for redundancy in [Redundancy::External, Redundancy::Normal] {
        let groups: &[&str] = if redundancy == Redundancy::External { &["A"] } else { &["A", "B"] };
        let mut lab = Lab::new(redundancy, 64 * MIB, groups);
        for round in 0..4 {
            let name = format!("table{round}");
            let node = lab.create_file(&name);
            lab.write(node, 0, &[0; 1_000_000]);
            lab.sync(node);
            let writers: Vec<_> = (0..3_u64)
                .map(|writer| {
                    let session = lab.session();
                    std::thread::spawn(move || {
                        let mut last = 0;
                        for count in 1..=255_u8 {
                            if block_on(session.write(
                                node,
                                writer * 300_000,
                                &[count; 250_000],
                                false,
                            ))
                            .is_err()
                            {
                                return (last, true);
                            }
                            last = count;
                        }
                        (last, false)
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(20));
            let group = lab.group.take().expect("mounted");
            if block_on(group.dismount(false)).is_err() {
                block_on(group.dismount(true)).expect("it ends by force");
            }
            drop(group);
            let ends: Vec<_> =
                writers.into_iter().map(|writer| writer.join().expect("no panic")).collect();
            lab.mount();
            let node = lab.find(&name);
            for (writer, (last, torn)) in (0..).zip(ends) {
                let bytes = lab.read(node, writer * 300_000, 250_000);
                let next = last.wrapping_add(u8::from(torn));
                assert!(
                    bytes.iter().all(|byte| *byte == last || *byte == next),
                    "{redundancy}: {last} is lost"
                );
            }
            lab.check();
        }
    }
}
