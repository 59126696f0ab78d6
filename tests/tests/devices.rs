//! Block devices, their sectors, and their contents before.

use plinth_tests::{Blocks, Instance, MIB, shell};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Groups on loop devices with sectors of 512 and of 4096 bytes, through both I/O engines.
#[test]
fn loop_devices_of_both_sector_sizes() {
    for (sector, io) in [(512, "uring"), (4096, "uring"), (512, "threads"), (4096, "threads")] {
        let mut instance = Instance::with_io(io);
        for disk in ["f0d0", "f1d0"] {
            instance.add_loop_disk(disk, 256 * MIB, sector);
        }
        instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
        assert_eq!(
            instance.number("SELECT logical_sector_size FROM v$asm_diskgroup"),
            f64::from(sector)
        );
        let mount = instance.mount("DATA");
        let blocks = Blocks::new(mount.join("file"), 1, 3_000);
        // Writes that begin and end anywhere.
        let file = fs::File::create(mount.join("odd")).expect("create");
        for offset in [1_u64, 511, 512, 4095, 4097, 65_535, 1_000_003] {
            file.write_all_at(&[9; 777], offset).expect("write");
        }
        file.sync_all().expect("sync");
        drop(file);
        instance.quiesce("DATA");
        blocks.must_read_right();
        let bytes = fs::read(mount.join("odd")).expect("read");
        assert!(
            bytes[1..778].iter().all(|byte| *byte == 9) && bytes[0] == 0 && bytes[500_000] == 0
        );
        instance.check("DATA");
    }
}

/// Links to devices change places under a mounted group, and get another link beside them. Views,
/// commands and lines name each disk by a path that leads to it now, and each disk once.
#[test]
fn a_disk_is_named_by_where_it_is_now() {
    let mut instance = Instance::new();
    for disk in ["f0d0", "f1d0", "f2d0"] {
        instance.add_loop_disk(disk, 256 * MIB, 512);
    }
    let size = &[256 * MIB][..];
    instance.create_group("data", "NORMAL", &[size, size, size], "");
    let leads =
        |path: &str| fs::canonicalize(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let places = || -> BTreeMap<String, PathBuf> {
        let rows = instance.query("SELECT name, path FROM v$asm_disk WHERE group_number = 1");
        let word = |row: &serde_json::Value| row.as_str().expect("text").to_owned();
        rows.iter().map(|row| (word(&row["name"]), leads(&word(&row["path"])))).collect()
    };
    let before = places();
    assert_eq!(before.values().collect::<BTreeSet<_>>().len(), 3);
    let rename =
        |from: &str, to: &str| fs::rename(instance.disk(from), instance.disk(to)).expect("rename");
    // As when devices get other names after a path failed: each link leads to another disk.
    rename("f0d0", "away");
    rename("f1d0", "f0d0");
    rename("away", "f1d0");
    assert_eq!(places(), before);
    rename("f2d0", "moved");
    assert_eq!(places(), before);
    std::os::unix::fs::symlink(&before["DATA_0002"], instance.disk("also")).expect("a second link");
    assert_eq!(places(), before);
    assert_eq!(instance.number("SELECT count(*) FROM v$asm_disk"), 3.0);
    let listed = instance.plinth(["lsdsk", "--suppressheader"]).ok();
    let listed: BTreeSet<PathBuf> = listed.lines().map(|line| leads(line.trim())).collect();
    assert_eq!(listed, before.values().cloned().collect());
    instance.sql("ALTER DISKGROUP data DROP DISK data_0001 REBALANCE WAIT");
    let log = instance.alert_log();
    let line =
        log.lines().find(|line| line.contains("disk DATA_0001 (") && line.contains("is dropped"));
    let line = line.unwrap_or_else(|| panic!("no line says that it is dropped:\n{log}"));
    let path = line
        .split_once("DATA_0001 (")
        .and_then(|(_, rest)| rest.split_once(')'))
        .expect("a path")
        .0;
    assert_eq!(leads(path), before["DATA_0001"], "the disk that may be pulled: {line}");
    instance.check("DATA");
}

/// Disks of different sector sizes do not go into one group, and the reason is given.
#[test]
fn a_mix_of_sector_sizes_is_refused() {
    let mut instance = Instance::new();
    let one = instance.add_loop_disk("small", 256 * MIB, 512);
    let other = instance.add_loop_disk("large", 256 * MIB, 4096);
    let said = instance.refused(&format!(
        "CREATE DISKGROUP data NORMAL REDUNDANCY FAILGROUP a DISK '{}' FAILGROUP b DISK '{}'",
        one.display(),
        other.display()
    ));
    assert!(said.contains("sector") && said.contains("512") && said.contains("4096"), "{said}");
    assert_eq!(instance.number("SELECT COUNT(*) FROM v$asm_diskgroup"), 0.0);
}

/// On disks that were full of noise, bytes that were never written read as zeros: sparse parts,
/// punched holes, reserved space, the range behind a truncate, the rest of a block, and the slots
/// and AUs of files that are gone.
#[test]
fn unwritten_ranges_read_as_zeros() {
    let instance = Instance::new();
    for disk in ["f0d0", "f1d0"] {
        let path = instance.add_disk(disk, 192 * MIB);
        shell(r#"dd if=/dev/urandom of="$1" bs=1M count=192 conv=notrunc status=none"#)
            .arg(path)
            .ok();
    }
    instance.create_group("data", "NORMAL", &[&[192 * MIB], &[192 * MIB]], "'au_size' = '1M'");
    let mount = instance.mount("DATA");
    let zero = |path: &Path, from: usize, to: usize| {
        let bytes = fs::read(path).expect("read");
        let bad = (from..to).find(|at| bytes[*at] != 0);
        assert_eq!(bad, None, "{}: byte {bad:?} is not zero", path.display());
    };
    let file = |name: &str| fs::File::create_new(mount.join(name)).expect("create");

    let sparse = file("sparse");
    sparse.set_len(10 << 20).expect("grow");
    sparse.write_all_at(b"island", 5_000_000).expect("write");
    sparse.sync_all().expect("sync");
    zero(&mount.join("sparse"), 0, 5_000_000);
    zero(&mount.join("sparse"), 5_000_006, 10 << 20);

    let reserved = file("reserved");
    reserved.set_len(0).expect("empty");
    shell(r#"fallocate -l 8M "$1""#).arg(mount.join("reserved")).ok();
    reserved.write_all_at(b"x", 3_333_333).expect("write");
    zero(&mount.join("reserved"), 0, 3_333_333);
    zero(&mount.join("reserved"), 3_333_334, 8 << 20);

    let mut punched = file("punched");
    punched.write_all(&vec![0xff; 6 << 20]).expect("write");
    punched.sync_all().expect("sync");
    shell(r#"fallocate --punch-hole --offset 100000 --length 4000000 "$1""#)
        .arg(mount.join("punched"))
        .ok();
    zero(&mount.join("punched"), 100_000, 4_100_000);
    punched.write_all_at(b"y", 2_000_000).expect("write");
    zero(&mount.join("punched"), 100_000, 2_000_000);
    zero(&mount.join("punched"), 2_000_001, 4_100_000);

    let mut cut = file("cut");
    cut.write_all(&vec![0xff; 3 << 20]).expect("write");
    cut.set_len(1_000_001).expect("shrink");
    cut.set_len(3 << 20).expect("grow");
    zero(&mount.join("cut"), 1_000_001, 3 << 20);

    for round in 0..3 {
        for number in 0..40 {
            let mut file = file(&format!("old.{round}.{number}"));
            file.write_all(&vec![0xff; if number % 4 == 0 { 2 << 20 } else { 60_000 }])
                .expect("write");
        }
        for number in 0..40 {
            fs::remove_file(mount.join(format!("old.{round}.{number}"))).expect("remove");
        }
        for number in 0..40 {
            let file = file(&format!("new.{round}.{number}"));
            file.set_len(1 << 19).expect("grow");
            file.write_all_at(b"z", 30_000).expect("write");
            zero(&mount.join(format!("new.{round}.{number}")), 0, 30_000);
            zero(&mount.join(format!("new.{round}.{number}")), 30_001, 1 << 19);
        }
        for number in 0..40 {
            fs::remove_file(mount.join(format!("new.{round}.{number}"))).expect("remove");
        }
    }
    drop((sparse, reserved, punched, cut));
    instance.quiesce("DATA");
    zero(&mount.join("sparse"), 0, 5_000_000);
    zero(&mount.join("reserved"), 0, 3_333_333);
    zero(&mount.join("punched"), 100_000, 2_000_000);
    zero(&mount.join("cut"), 1_000_001, 3 << 20);
    instance.check("DATA");
}

/// `SEEK_DATA` and `SEEK_HOLE` find written and unwritten ranges; a copy by `cp --sparse=auto`
/// stays sparse.
#[test]
fn holes_are_found() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let file = fs::File::create(mount.join("sparse")).expect("create");
    file.set_len(64 << 20).expect("grow");
    file.write_all_at(&[1; 4096], 20 << 20).expect("write");
    file.sync_all().expect("sync");
    let seek = |from| rustix::fs::seek(&file, from).expect("seek");
    let data = seek(rustix::fs::SeekFrom::Data(0));
    assert!((1 << 20..=20 << 20).contains(&data), "data at {data}");
    let hole = seek(rustix::fs::SeekFrom::Hole(20 << 20));
    assert!(((20 << 20) + 4096..30 << 20).contains(&hole), "hole at {hole}");
    shell(r#"cp "$1" "$2"; cmp "$1" "$2"; [ "$(stat -c %b "$2")" -lt 32768 ]"#)
        .arg(mount.join("sparse"))
        .arg(mount.join("copy"))
        .ok();
}
