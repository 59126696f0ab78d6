//! Disks whose space comes from somewhere that can be full: `ENOSPC` of a thin device. Writes wait
//! or fail, nothing acknowledged is lost, the message names the pool, and everything goes on by
//! itself when there is room.

use plinth_tests::{Blocks, GIB, Instance, MIB, wait_for};
use std::{fs, os::unix::fs::FileExt, thread};

/// The bytes that a pool's files take, and a filler on top of them.
const POOL: u64 = 200 * MIB;

fn states(instance: &Instance) -> Vec<String> {
    let rows = instance.query("SELECT state FROM v$asm_disk ORDER BY disk_number");
    rows.iter().map(|row| row["state"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Loop devices over sparse files, as thin devices are: both pools are full, and every write waits
/// until there is room. No disk goes OFFLINE for that, and reads go on.
#[test]
fn writes_wait_while_all_pools_are_full() {
    let mut instance = Instance::new();
    for (pool, disk) in [("pool0", "f0d0"), ("pool1", "f1d0")] {
        instance.add_pool(pool, POOL);
        instance.add_loop_disk_in(pool, disk, GIB);
    }
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "'disk_full_wait' = '600'");
    let mount = instance.mount("DATA");
    let before = Blocks::new(mount.join("before"), 1, 4_000);
    let engine = instance.engine("DATA");
    ["pool0", "pool1"].iter().for_each(|pool| instance.pool(pool).fill());
    let path = mount.join("during");
    let writer = thread::spawn(move || Blocks::new(path, 2, 8_000));
    wait_for("both disks full", || states(&instance) == ["FULL", "FULL"]);
    let mount_of = |pool: &str| instance.pool(pool).path().display().to_string();
    wait_for("the alarms", || {
        let log = instance.alert_log();
        ["pool0", "pool1"].iter().all(|pool| {
            log.lines().any(|line| {
                line.contains("ALARM")
                    && line.contains(&format!("in the file system at {}", mount_of(pool)))
            })
        })
    });
    before.must_read_right();
    assert!(!writer.is_finished(), "written where there is no room");
    assert_eq!(instance.offline_disks("DATA"), 0.0);
    ["pool0", "pool1"].iter().for_each(|pool| instance.pool(pool).make_room());
    let during = writer.join().expect("the write goes on");
    wait_for("the end of it", || states(&instance) == ["NORMAL", "NORMAL"]);
    wait_for("the line", || instance.alert_log().contains("writes find room again"));
    for blocks in [&before, &during] {
        blocks.must_read_right();
    }
    assert_eq!(instance.engine("DATA"), engine, "the group was never without its engine");
    assert_eq!(instance.offline_disks("DATA"), 0.0);
    let kinds = instance.query("SELECT DISTINCT kind FROM v$asm_error WHERE kind = 'NO ROOM'");
    assert_eq!(kinds.len(), 1, "the view has it, too");
    instance.check("DATA");
}

/// Only one mirror's pool is full: the group goes on with the other, and the disk comes back by
/// itself when there is room.
#[test]
fn a_full_disk_that_can_be_spared_comes_back_by_itself() {
    let mut instance = Instance::new();
    instance.add_pool("pool1", POOL);
    instance.add_loop_disk_in("pool1", "f1d0", GIB);
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let before = Blocks::new(mount.join("before"), 3, 4_000);
    instance.pool("pool1").fill();
    let during = Blocks::new(mount.join("during"), 4, 8_000);
    assert_eq!(instance.offline_disks("DATA"), 1.0);
    let log = instance.alert_log();
    let line = log.lines().find(|line| line.contains("is offline")).expect("it is told");
    let pool = instance.pool("pool1").path().display().to_string();
    assert!(line.contains("DATA_0001") && line.contains(&pool), "{line}");
    // It is tried while there is still no room: that costs nothing but its going OFFLINE again.
    wait_for("an attempt in vain", || instance.alert_log().matches("is offline").count() > 1);
    instance.pool("pool1").make_room();
    wait_for("the disk to come back", || instance.offline_disks("DATA") == 0.0);
    instance.wait_until_whole("DATA");
    for blocks in [&before, &during] {
        blocks.must_read_right();
        let file = instance.pool("pool1").path().join("f1d0");
        assert_eq!(blocks.find(&file).len() as u64, blocks.count());
    }
    instance.check("DATA");
}

/// A group without mirrors on a file: after `disk_full_wait` the program gets `ENOSPC`, as from any
/// full file system. The group stays mounted, and the program's next try finds room.
#[test]
fn without_mirrors_a_program_gets_enospc_in_the_end() {
    let mut instance = Instance::new();
    instance.add_pool("pool0", POOL);
    instance.add_disk_in("pool0", "f0d0", GIB);
    instance.create_group("data", "EXTERNAL", &[&[GIB]], "'disk_full_wait' = '1'");
    let mount = instance.mount("DATA");
    let before = Blocks::new(mount.join("before"), 5, 4_000);
    let engine = instance.engine("DATA");
    instance.pool("pool0").fill();
    let file = fs::File::create(mount.join("table")).expect("a name has room in the catalog");
    let page = vec![7; MIB as usize];
    let mut acknowledged = 0;
    let error = loop {
        match file.write_all_at(&page, acknowledged * MIB) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < POOL / MIB, "the pool is not full");
    };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    before.must_read_right();
    let pool = instance.pool("pool0").path().display().to_string();
    let text = instance.text("SELECT last_text FROM v$asm_error WHERE kind = 'NO ROOM'");
    assert!(text.contains(&format!("the file system at {pool}")), "{text}");
    assert!(text.contains("make room there"), "{text}");
    instance.pool("pool0").make_room();
    file.write_all_at(&page, acknowledged * MIB).expect("there is room");
    file.sync_all().expect("it is durable");
    let table = fs::read(mount.join("table")).expect("it can be read");
    assert_eq!(table.len() as u64, (acknowledged + 1) * MIB);
    assert!(table.iter().all(|byte| *byte == 7));
    before.must_read_right();
    assert_eq!(instance.engine("DATA"), engine, "the group was never without its engine");
    instance.check("DATA");
}
