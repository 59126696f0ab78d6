//! Space: small files, uneven disks, and none left.

use plinth_tests::{Blocks, GIB, Instance, MIB, Postgres, wait_for};
use std::{fs, io::Write, path::Path};

/// Bytes that the view says can still be stored.
fn usable(instance: &Instance) -> f64 {
    instance.number("SELECT usable_file_mb FROM v$asm_diskgroup") * MIB as f64
}

/// Bytes that `statfs` says can still be stored.
fn available(mount: &Path) -> f64 {
    let space = rustix::fs::statvfs(mount).expect("statfs");
    space.f_bavail as f64 * space.f_frsize as f64
}

/// Writes bytes that are not zeros until it is full; returns the bytes that were stored.
fn write_until_full(path: &Path) -> u64 {
    let mut file = fs::File::create(path).expect("create");
    let chunk = vec![0xa5; 1 << 20];
    let mut stored = 0;
    loop {
        match file.write(&chunk) {
            Ok(length) => stored += length as u64,
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
            Err(error) => panic!("{}: {error} instead of ENOSPC", path.display()),
        }
    }
    file.sync_all().expect("what was accepted can be made durable");
    stored
}

/// A thousand files of 8 KiB, such as a database begins with, take 64 KiB and its mirror each, not
/// a thousand AUs.
#[test]
fn a_thousand_small_files_share_extents() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let free = || instance.number("SELECT free_mb FROM v$asm_diskgroup");
    let before = free();
    for number in 0..1_000 {
        fs::write(mount.join(format!("small.{number}")), [7; 8192]).expect("write");
    }
    let used = before - free();
    // One shared extent begun and not full, with its mirror.
    let limit = 1_000.0 * 2.0 * 64.0 / 1024.0 + 8.0;
    assert!(used <= limit, "a thousand files of 8 KiB took {used} MB, {limit} would do");
    let space = instance.number("SELECT MAX(space) FROM v$asm_file WHERE bytes = 8192");
    assert!(space <= 2.0 * 65_536.0, "a file of 8 KiB takes {space} bytes");
    for number in 0..1_000 {
        assert_eq!(fs::read(mount.join(format!("small.{number}"))).expect("read"), [7; 8192]);
        fs::remove_file(mount.join(format!("small.{number}"))).expect("remove");
    }
    wait_for("the space to be free again", || before - free() <= 16.0);
}

/// A small file that grows leaves its slot, and keeps its bytes.
#[test]
fn a_small_file_grows_out_of_its_slot() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    for number in 0..20_u8 {
        fs::write(mount.join(format!("small.{number}")), vec![number; 10_000]).expect("write");
    }
    for number in (0..20_u8).step_by(2) {
        let mut file = fs::File::options()
            .append(true)
            .open(mount.join(format!("small.{number}")))
            .expect("open");
        file.write_all(&vec![number; 300_000]).expect("grow");
        file.sync_all().expect("sync");
    }
    for number in 0..20_u8 {
        let length = if number % 2 == 0 { 310_000 } else { 10_000 };
        assert_eq!(
            fs::read(mount.join(format!("small.{number}"))).expect("read"),
            vec![number; length]
        );
    }
    instance.check("DATA");
}

/// Disks that differ 4:1 in each failure group fill evenly in percent.
#[test]
fn uneven_disks_fill_evenly() {
    let instance = Instance::new();
    let shape: &[&[u64]] = &[&[GIB, 256 * MIB], &[256 * MIB, GIB]];
    instance.create_group("data", "NORMAL", shape, "'au_size' = '1M'");
    let mount = instance.mount("DATA");
    for number in 0..4_u64 {
        let _ = Blocks::new(mount.join(format!("file.{number}")), number, 38_400);
        let rows = instance
            .query("SELECT name, failgroup, total_mb, free_mb FROM v$asm_disk ORDER BY name");
        let full = |disk: usize| {
            let field = |name: &str| rows[disk][name].as_f64().expect("a number");
            100.0 * (field("total_mb") - field("free_mb")) / field("total_mb")
        };
        for (one, other) in [(0, 1), (2, 3)] {
            let apart = (full(one) - full(other)).abs();
            assert!(
                apart <= 4.0,
                "after {} files: {:.1} % and {:.1} % full",
                number + 1,
                full(one),
                full(other)
            );
        }
    }
}

/// A group is filled to the last AU. Writers get the error at the write, the database on it
/// survives, freed space can be written again, and at every step the view and `statfs` say how much
/// can really be stored.
#[test]
fn a_full_group_says_so_and_recovers() {
    let instance = Instance::new();
    instance.create_group(
        "data",
        "NORMAL",
        &[&[384 * MIB, 384 * MIB], &[384 * MIB, 384 * MIB]],
        "",
    );
    let mount = instance.mount("DATA");
    let postgres = Postgres::new(&mount, "pg");
    postgres.psql("CREATE TABLE t AS SELECT generate_series(1, 100000) AS n");
    // An AU begun on each disk, the catalog's growth, and space that files get in advance.
    let slack = 40.0 * MIB as f64;
    let near = |what: &str, one: f64, other: f64| {
        let mb = |bytes: f64| bytes / MIB as f64;
        assert!((one - other).abs() <= slack, "{what}: {:.0} MB and {:.0} MB", mb(one), mb(other));
    };
    near("usable_file_mb and statfs at first", usable(&instance), available(&mount));
    let promised = usable(&instance);
    let stored = write_until_full(&mount.join("fill"));
    near("what was promised, what was stored", promised, stored as f64);
    near("full", usable(&instance), 0.0);
    near("statfs when full", available(&mount), 0.0);
    let said = postgres.try_psql("INSERT INTO t SELECT generate_series(1, 20000000)");
    assert!(said.err.contains("No space left"), "{said}");
    assert_eq!(postgres.psql("SELECT count(*) FROM t"), "100000");
    assert!(write_until_full(&mount.join("more")) <= 40 * MIB);
    fs::remove_file(mount.join("more")).expect("remove while full");
    fs::remove_file(mount.join("fill")).expect("remove while full");
    wait_for("the space to be usable again", || usable(&instance) + slack > promised);
    let again = write_until_full(&mount.join("again"));
    near("stored first, stored again", stored as f64, again as f64);
    fs::File::options()
        .write(true)
        .open(mount.join("again"))
        .and_then(|file| file.set_len(MIB))
        .expect("truncate while full");
    postgres.psql("INSERT INTO t SELECT generate_series(1, 100000)");
    postgres.stop_and_verify_pages();
    instance.check("DATA");
}

/// One failure group is smaller than the other: both can hold what is promised.
#[test]
fn uneven_failure_groups_promise_what_they_can_keep() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[512 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let promised = available(&mount);
    assert!(promised <= 256.0 * MIB as f64, "{promised} bytes cannot be mirrored");
    let stored = write_until_full(&mount.join("fill")) as f64;
    assert!(stored + 24.0 * MIB as f64 >= promised, "promised {promised}, stored {stored}");
}

/// Blocks that a disk's file really takes, in bytes.
fn taken(disk: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(disk).expect("the disk").blocks() * 512
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let step = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..length).map(step).collect()
}

/// Disks that are files give back freed space, however it is freed: parts of extents, too; when the
/// engine dies at once; when the attribute that wants it is switched on later.
#[test]
fn freed_space_goes_back_to_thin_disks() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let paths: Vec<_> = instance.query("SELECT path FROM v$asm_disk ORDER BY name");
    let disks: Vec<_> = paths
        .iter()
        .map(|row| Path::new(row["path"].as_str().expect("a path")).to_owned())
        .collect();
    let now = || disks.iter().map(|disk| taken(disk)).collect::<Vec<_>>();
    let fell = |what: &str, before: &[u64], bytes: u64| {
        wait_for(what, || now().iter().zip(before).all(|(now, before)| now + bytes <= *before));
    };
    // Every other one of many small files.
    let small = |number: u32| mount.join(format!("small.{number}"));
    for number in 0..1_000 {
        fs::write(small(number), noise(number.into(), 8192)).expect("write");
    }
    rustix::fs::syncfs(fs::File::open(&mount).expect("the mount")).expect("sync");
    let before = now();
    (0..1_000).step_by(2).for_each(|number| fs::remove_file(small(number)).expect("remove"));
    fell("the slots to go back", &before, 400 * 64 * 1024);
    // Every other MiB.
    let table = mount.join("table");
    let bytes = noise(7, 64 << 20);
    fs::write(&table, &bytes).expect("write");
    let file = fs::File::options().read(true).write(true).open(&table).expect("open");
    file.sync_all().expect("sync");
    let before = now();
    for hole in (0..64).step_by(2) {
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, flags, hole * MIB, MIB).expect("punch");
    }
    fell("the holes to go back", &before, 30 * MIB);
    // The engine dies as soon as a file is removed.
    let before = now();
    fs::write(mount.join("gone"), noise(8, 64 << 20)).expect("write");
    fs::File::open(mount.join("gone")).and_then(|file| file.sync_all()).expect("sync");
    fs::remove_file(mount.join("gone")).expect("remove");
    instance.kill_engine("DATA");
    wait_for("what a dead engine freed to go back", || {
        now().iter().zip(&before).all(|(now, before)| *now <= before + 8 * MIB)
    });
    // The attribute is off for a while.
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'thin_provisioned' = 'false'");
    let before = now();
    fs::write(mount.join("gone"), noise(9, 64 << 20)).expect("write");
    fs::File::open(mount.join("gone")).and_then(|file| file.sync_all()).expect("sync");
    fs::remove_file(mount.join("gone")).expect("remove");
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'thin_provisioned' = 'true'");
    wait_for("what was freed before to go back", || {
        now().iter().zip(&before).all(|(now, before)| *now <= before + 8 * MIB)
    });
    let read = fs::read(&table).expect("read");
    for (number, piece) in read.chunks(1 << 20).enumerate() {
        let expected = &bytes[number << 20..(number + 1) << 20];
        assert!(
            if number % 2 == 0 { piece.iter().all(|byte| *byte == 0) } else { piece == expected },
            "MiB {number}"
        );
    }
    for number in (1..1_000).step_by(2) {
        assert_eq!(fs::read(small(number)).expect("read"), noise(number.into(), 8192));
    }
    instance.check("DATA");
}

/// A large file is removed and made again at once, over and over: there is always room for it.
#[test]
fn space_of_removed_files_is_free_at_once() {
    let instance = Instance::new();
    let shape: &[&[u64]] = &[&[24 * GIB, 24 * GIB], &[24 * GIB, 24 * GIB]];
    instance.create_group("data", "NORMAL", shape, "");
    let mount = instance.mount("DATA");
    for round in 0..30 {
        let path = mount.join("large");
        let file = fs::File::create(&path).expect("create");
        let flags = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&file, flags, 0, 30 * GIB)
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        drop(file);
        fs::remove_file(&path).expect("remove");
    }
    instance.check("DATA");
}
