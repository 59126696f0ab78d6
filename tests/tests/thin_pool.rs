//! Disks whose space comes from somewhere that can be full: `ENOSPC` of a thin device. Writes wait
//! or fail, nothing acknowledged is lost, the message names the pool, and everything goes on by
//! itself when there is room.

use plinth_tests::{Blocks, GIB, Instance, MIB, wait_for};
use std::{
    fs,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    thread,
};

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

/// Bytes that a sparse file takes in its file system.
fn taken(file: &Path) -> u64 {
    fs::metadata(file).expect("it is there").blocks() * 512
}

/// Makes a file of a template, and gives it `length` bytes by `fallocate`.
fn allocate(instance: &Instance, template: &str, name: &str, length: u64) -> std::io::Result<()> {
    let source = instance.path("empty");
    fs::write(&source, "").expect("an empty file");
    let target = format!("+DATA({template})/{name}");
    instance.plinth(["cp".as_ref(), source.as_os_str(), target.as_ref()]).ok();
    let path = instance.path("mnt/DATA").join(name);
    let file = fs::File::options().write(true).open(path).expect("it was made");
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length)?;
    file.sync_all()
}

/// What a file is given costs nothing on the device, unless its template is PREFORMATTED: then it
/// has all of its space at once, on every mirror, and keeps it when its disk is dropped.
#[test]
fn preformatted_files_have_their_space_at_once() {
    let mut instance = Instance::new();
    let names = ["f0d0", "f1d0", "f2d0"];
    let disks: Vec<_> = names.map(|name| instance.add_loop_disk(name, GIB, 512)).into();
    let files = names.map(|name| instance.path("parts").join(name));
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    instance.sql("ALTER DISKGROUP data ADD TEMPLATE full_size ATTRIBUTES (PREFORMATTED)");
    let both = || taken(&files[0]) + taken(&files[1]);
    let length = 64 * MIB;
    let before = both();
    allocate(&instance, "datafile", "sparse", length).expect("there is room");
    let sparse = both() - before;
    assert!(sparse < 8 * MIB, "{sparse} bytes for a file without data");
    allocate(&instance, "full_size", "full", length).expect("there is room");
    let full = both() - before - sparse;
    assert!((2 * length..2 * length + 16 * MIB).contains(&full), "{full} bytes on two mirrors");
    // A file that grows by writing has its AUs as a whole.
    let before = both();
    let grown = fs::File::options().write(true).open(mount.join("full")).expect("it is there");
    grown.write_all_at(b"x", length).expect("there is room");
    grown.sync_all().expect("it is durable");
    assert!(both() - before >= 2 * 4 * MIB, "an AU of 4 MiB on two mirrors");
    // An explicit hole gives space back, and fallocate fills it again.
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    let before = both();
    rustix::fs::fallocate(&grown, hole, 0, 32 * MIB).expect("a hole");
    wait_for("the space of the hole", || both() + 2 * 31 * MIB < before);
    let flags = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(&grown, flags, 0, 32 * MIB).expect("there is room");
    grown.sync_all().expect("it is durable");
    assert!(both() + 4 * MIB >= before, "{} of {before} bytes", both());
    let bytes = fs::read(mount.join("full")).expect("it is read");
    assert!(bytes.len() as u64 == length + 1 && bytes[..length as usize].iter().all(|b| *b == 0));
    // A disk that comes for another gets the zeros, too.
    let statement = format!(
        "ALTER DISKGROUP data ADD FAILGROUP f2 DISK '{}' DROP DISK data_0001 REBALANCE WAIT",
        disks[2].display()
    );
    instance.sql(&statement);
    assert!(taken(&files[2]) >= length, "{} bytes", taken(&files[2]));
    instance.check("DATA");
}

/// A pool that is full is found when a PREFORMATTED file is made, with nothing half done.
#[test]
fn a_full_pool_is_found_when_a_preformatted_file_is_made() {
    let mut instance = Instance::new();
    instance.add_pool("pool0", POOL);
    instance.add_disk_in("pool0", "f0d0", GIB);
    instance.create_group("data", "EXTERNAL", &[&[GIB]], "'disk_full_wait' = '1'");
    let mount = instance.mount("DATA");
    instance.sql("ALTER DISKGROUP data ALTER TEMPLATE datafile ATTRIBUTES (PREFORMATTED)");
    let free = || instance.number("SELECT free_mb FROM v$asm_diskgroup");
    allocate(&instance, "datafile", "first", 32 * MIB).expect("there is room");
    let before = free();
    let error = allocate(&instance, "datafile", "second", POOL).expect_err("it is too large");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    let second = fs::metadata(mount.join("second")).expect("the file itself was made before");
    assert_eq!((second.len(), second.blocks()), (0, 0), "nothing is half done");
    wait_for("its AUs to be free", || free() >= before - 4.0);
    // Its space goes back to the pool, so that a smaller file fits.
    let file = instance.pool("pool0").path().join("f0d0");
    wait_for("its space to go back", || taken(&file) < POOL / 2);
    allocate(&instance, "datafile", "third", 32 * MIB).expect("there is room");
    instance.check("DATA");
}

/// A dropped disk keeps what it had, unless the operator says RECLAIM: then its space goes back to
/// where it came from, and it is known as a former disk all the same.
#[test]
fn a_dropped_disk_gives_its_space_back_if_the_operator_says_so() {
    let mut instance = Instance::new();
    let names = ["f0d0", "f0d1", "f0d2"];
    for name in names {
        instance.add_loop_disk(name, GIB, 512);
    }
    let files = names.map(|name| instance.path("parts").join(name));
    instance.create_group("data", "EXTERNAL", &[&[GIB, GIB, GIB]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 6, 60_000);
    let before = files.each_ref().map(|file| taken(file));
    assert!(before.iter().all(|bytes| *bytes > 60 * MIB), "{before:?}");
    instance.sql("ALTER DISKGROUP data DROP DISK data_0001 REBALANCE WAIT");
    let refused = instance.refused("ALTER DISKGROUP data DROP DISK data_0002 FORCE RECLAIM");
    assert!(refused.contains("RECLAIM"), "{refused}");
    instance.sql("ALTER DISKGROUP data DROP DISK data_0002 RECLAIM REBALANCE WAIT");
    wait_for("the line", || {
        instance.alert_log().lines().any(|line| {
            line.contains("of disk DATA_0002") && line.contains("were discarded: it can be removed")
        })
    });
    let after = files.each_ref().map(|file| taken(file));
    assert!(after[1] > 60 * MIB, "without the word nothing is discarded: {after:?}");
    assert!(after[2] < 16 * MIB, "headers and records stay: {after:?}");
    for name in ["f0d1", "f0d2"] {
        let row = instance.disk_row(&instance.disk(name));
        assert_eq!(row["header_status"], "FORMER", "{row:?}");
    }
    blocks.must_read_right();
    instance.check("DATA");
}
