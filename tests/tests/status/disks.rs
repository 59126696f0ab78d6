//! Disks that hang, are slow, lose writes, or fail while they get what they missed.

use super::{carry_out, finding, gone, in_time, mended, seen, status, text};
use plinth_tests::{Blocks, Instance, MIB, noise, wait_for};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const SIZE: u64 = 256 * MIB;
const BLOCK: usize = 4096;

/// Ends a loop of another thread, even when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The only disk hangs: what needs it waits, and no statement helps.
#[test]
fn a_disk_that_hangs_and_cannot_be_spared_is_seen() {
    let mut instance = Instance::new();
    instance.add_fault_disk("f0d0", SIZE);
    instance.create_group("data", "EXTERNAL", &[&[SIZE]], "");
    let path = instance.mount("DATA").join("table");
    let began = Instant::now();
    instance.faulty("f0d0").hang();
    let writing = thread::spawn(move || fs::write(path, vec![1; 1 << 20]));
    let shown = instance.disk("f0d0").display().to_string();
    in_time(&instance, began, &[("DISK HUNG", "DATA_0000"), ("DEVICE SILENT", &shown)]);
    assert_eq!(seen(&instance, "DISK HUNG", "DATA_0000", "CRITICAL"), "");
    instance.faulty("f0d0").heal();
    gone(&instance, "DISK HUNG", "DATA_0000");
    writing.join().expect("the writer").expect("written in the end");
    instance.check("DATA");
}

/// All disks hang, as if their path did. No statement that takes one of them out is named.
pub(super) fn disks_that_hang_together_are_seen() {
    let mut instance = Instance::new();
    for disk in ["f0d0", "f1d0"] {
        instance.add_fault_disk(disk, SIZE);
    }
    instance.create_group("data", "NORMAL", &[&[SIZE], &[SIZE]], "'disk_timeout' = '2'");
    let path = instance.mount("DATA").join("table");
    for disk in ["f0d0", "f1d0"] {
        instance.faulty(disk).hang();
    }
    let writing = thread::spawn(move || fs::write(path, vec![1; 1 << 20]));
    for disk in ["DATA_0000", "DATA_0001"] {
        let mut remedies = Vec::new();
        wait_for("both are hung", || {
            let rows = status(&instance).1;
            let found = ["DATA_0000", "DATA_0001"].map(|disk| finding(&rows, "DISK HUNG", disk));
            remedies = found.iter().flatten().map(|row| text(row, "remedy").to_owned()).collect();
            found.iter().all(Option::is_some)
        });
        assert_eq!(remedies, ["", ""]);
        seen(&instance, "DISK HUNG", disk, "CRITICAL");
    }
    for disk in ["f0d0", "f1d0"] {
        instance.faulty(disk).heal();
    }
    writing.join().expect("the writer").expect("written in the end");
    // One may have gone OFFLINE when the other had answered first.
    gone(&instance, "DISK HUNG", "");
    instance.sql("ALTER DISKGROUP data ONLINE ALL");
    instance.wait_until_whole("DATA");
    instance.check("DATA");
}

/// A disk gets what it missed, slowly, and fails meanwhile.
#[test]
fn a_disk_that_comes_back_and_an_operation_that_fails_are_seen() {
    let mut instance = Instance::new();
    instance.add_fault_disk("f0d0", SIZE);
    instance.create_group("data", "NORMAL", &[&[SIZE], &[SIZE]], "");
    let mount = instance.mount("DATA");
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0000");
    fs::write(mount.join("table"), vec![1; 160 << 20]).expect("written");
    File::open(mount.join("table")).and_then(|file| file.sync_all()).expect("synced");
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'what_if.delay.f1' = '100ms' FORCE");
    instance.sql("ALTER DISKGROUP data ONLINE DISK data_0000 NOWAIT");
    assert_eq!(seen(&instance, "DISK SYNCING", "DATA_0000", "WARNING"), "");
    let runs = status(&instance).1;
    let runs = runs.iter().find(|row| text(row, "kind") == "OPERATION").expect("it runs");
    assert_eq!([text(runs, "subject"), text(runs, "severity")], ["RESYNC", "OK"], "{runs:?}");
    instance.faulty("f0d0").fail();
    seen(&instance, "OPERATION", "RESYNC", "WARNING");
    gone(&instance, "DISK SYNCING", "DATA_0000");
    instance.faulty("f0d0").heal();
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'what_if.delay.f1' = '0'");
    mended(&instance, "OPERATION", "RESYNC", "WARNING");
    gone(&instance, "DISK OFFLINE", "DATA_0000");
    instance.wait_until_whole("DATA");
    instance.check("DATA");
}

/// Reads blocks here and there, past the kernel's cache, until it shall end.
fn read_here_and_there(path: &Path, count: u64, is_over: &AtomicBool) -> io::Result<()> {
    let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path)?;
    let mut room = vec![0; 2 * BLOCK];
    let skip = room.as_ptr().align_offset(BLOCK);
    let mut block = 0;
    while !is_over.load(Ordering::Relaxed) {
        file.read_exact_at(&mut room[skip..skip + BLOCK], block * BLOCK as u64)?;
        block = (block + 1009) % count;
    }
    Ok(())
}

/// One disk is far slower than the others.
pub(super) fn a_slow_disk_is_seen() {
    let mut instance = Instance::new();
    instance.add_slow_disk("f1d0", SIZE);
    instance.create_group("data", "NORMAL", &[&[SIZE], &[SIZE], &[SIZE]], "");
    let table = instance.mount("DATA").join("table");
    let blocks = Blocks::new(table.clone(), 1, 48 * MIB / BLOCK as u64);
    // Otherwise reads would avoid it.
    instance.sql("ALTER SYSTEM SET asm_preferred_read_failure_groups = 'DATA.F1'");
    instance.slow("f1d0").delay(Duration::from_millis(200));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&is_over);
        let readers =
            [(); 2].map(|()| scope.spawn(|| read_here_and_there(&table, blocks.count(), &is_over)));
        let remedy = seen(&instance, "DISK SLOW", "DATA_0001", "WARNING");
        assert_eq!(remedy, "ALTER DISKGROUP DATA OFFLINE DISK DATA_0001");
        carry_out(&instance, &remedy);
        // Nothing waits for it any more.
        let (_, rows) = status(&instance);
        assert_eq!(finding(&rows, "DISK SLOW", ""), None);
        assert!(finding(&rows, "DISK OFFLINE", "DATA_0001").is_some(), "{rows:?}");
        drop(ends);
        for reader in readers {
            reader.join().expect("a reader").expect("it can be read");
        }
    });
    instance.slow("f1d0").delay(Duration::ZERO);
    mended(&instance, "DISK OFFLINE", "DATA_0001", "WARNING");
    instance.wait_until_whole("DATA");
    blocks.must_read_right();
}

/// A disk acknowledges a write and loses it: what was repaired there cannot be read back.
#[test]
fn a_block_that_cannot_be_repaired_is_seen() {
    let mut instance = Instance::new();
    instance.add_slow_disk("f0d0", SIZE);
    instance.create_group("data", "NORMAL", &[&[SIZE], &[SIZE]], "");
    let table = instance.mount("DATA").join("table");
    let blocks = Blocks::new(table, 1, 16);
    let disk = instance.slow("f0d0");
    let place = blocks.find(disk.data())[&7];
    noise(disk.data(), place, BLOCK);
    disk.lose_writes_at(place);
    // It says that something is left.
    let _ = instance.plinth(["sql", "-c", "ALTER DISKGROUP data SCRUB REPAIR WAIT"]);
    let not_repaired = || {
        let rows = status(&instance).1;
        let is_it = |row: &&plinth_tests::Row| {
            text(row, "kind") == "DISK ERRORS" && text(row, "detail").contains("Replace the disk")
        };
        rows.iter().find(is_it).cloned()
    };
    let found = not_repaired().expect("it is seen");
    assert_eq!([text(&found, "severity"), text(&found, "remedy")], ["WARNING", ""]);
    assert_eq!(text(&found, "subject"), "DATA_0000");
    instance.add_disk("spare", SIZE);
    let remedy = not_repaired().map(|row| text(&row, "remedy").to_owned()).expect("it stays");
    assert!(remedy.contains("REPLACE DISK DATA_0000 WITH"), "{remedy}");
    carry_out(&instance, &remedy);
    gone(&instance, "DISK ERRORS", "");
    instance.wait_until_whole("DATA");
    assert_eq!(status(&instance).0, 0);
    instance.check("DATA");
    blocks.must_read_right();
}
