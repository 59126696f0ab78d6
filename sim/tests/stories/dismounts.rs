//! Dismounts: regular ones, by force, with I/O in flight, and without threads left behind.

use super::*;

/// The only disk hangs for longer than the timeout: a sync waits for it and returns no error (R2).
#[test]
fn a_sync_waits_for_the_only_disk() {
    let lab = Lab::new(Redundancy::External, 64 * MIB, &["A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.disk(0).faults(|faults| faults.hang = true);
    let session = lab.session();
    let syncer = lab.begin(async move { session.sync(node, true).await });
    lab.wait(Duration::from_millis(1800));
    lab.disk(0).heal();
    lab.end(syncer).expect("it waited");
}

/// Writers are active when the group is dismounted: acknowledged bytes read back, and all writers
/// end.
#[test]
fn a_dismount_during_writes_keeps_acknowledged_bytes() {
    for redundancy in [Redundancy::External, Redundancy::Normal] {
        let groups: &[&str] = if redundancy == Redundancy::External { &["A"] } else { &["A", "B"] };
        let lab = Lab::new(redundancy, 64 * MIB, groups);
        for round in 0..4 {
            let name = format!("table{round}");
            let node = lab.create_file(&name);
            lab.write(node, 0, &[0; 1_000_000]);
            lab.sync(node);
            let writers: Vec<_> = (0..3_u64)
                .map(|writer| {
                    let session = lab.session();
                    lab.begin(async move {
                        let mut last = 0;
                        for count in 1..=255_u8 {
                            if session
                                .write(node, writer * 300_000, &[count; 250_000], false)
                                .await
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
            lab.wait(Duration::from_millis(20));
            let group = lab.group();
            if block_on(group.dismount(false)).is_err() {
                block_on(group.dismount(true)).expect("it ends by force");
            }
            drop(group);
            let ends: Vec<_> = writers.into_iter().map(|writer| lab.end(writer)).collect();
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
