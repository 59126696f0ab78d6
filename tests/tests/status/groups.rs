//! Groups: what they lack, how they are mounted, and engines that do not answer.

use super::{first_line, gone, in_time, mended, seen, status};
use plinth_tests::{Instance, MIB, shell, wait_for};
use rustix::process::Signal;
use std::{fs, io::Write, os::unix::fs::symlink, path::Path, thread, time::Instant};

/// Disks and failure groups of a mirrored group.
#[test]
fn each_finding_of_a_mirrored_group_is_mended_by_the_statement_that_it_names() {
    let instance = Instance::new();
    let size = 256 * MIB;
    instance.create_group("data", "NORMAL", &[&[size, size], &[size, size], &[size]], "");
    let said = instance.plinth(["status"]);
    assert_eq!(said.code, Some(0), "{said}");
    assert!(first_line(&said).starts_with("PLINTH OK: 1 disk group | 'DATA_used'="), "{said}");
    for part in ["F0              may go", "free  ", "can be written safely", "reads  ", "writes  "]
    {
        assert!(said.out.contains(part), "{part}: {said}");
    }
    let mount = instance.mount("DATA");
    fs::write(mount.join("table"), vec![7; 64 << 20]).expect("written");

    // Disks that no group uses.
    instance.add_disk("spare", size);
    seen(&instance, "UNUSED DISK", "", "NOTE");
    mended(&instance, "SINGLE DISK", "F2", "NOTE");
    gone(&instance, "UNUSED DISK", "");
    instance.wait_until_whole("DATA");
    instance.add_disk("spare2", size);
    mended(&instance, "UNUSED DISK", "", "NOTE");
    instance.wait_until_whole("DATA");

    // One disk is away; then it cannot be found, and another takes its place.
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0000");
    mended(&instance, "DISK OFFLINE", "DATA_0000", "WARNING");
    instance.wait_until_whole("DATA");
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0001");
    fs::remove_file(instance.disk("f0d1")).expect("the disk is taken out");
    instance.add_disk("spare3", size);
    let remedy = mended(&instance, "DISK OFFLINE", "DATA_0001", "WARNING");
    assert!(remedy.contains("REPLACE DISK DATA_0001 WITH"), "{remedy}");
    instance.wait_until_whole("DATA");

    // A failure group is away: each of the findings brings it back.
    for (kind, subject) in [
        ("DISK OFFLINE", "F0"),
        ("MISSING MIRRORS", ""),
        ("MISSING VOTER", ""),
        ("FAILURE GROUP", "F1"),
    ] {
        instance.sql("ALTER DISKGROUP data OFFLINE DISKS IN FAILGROUP f0");
        fs::write(mount.join("meanwhile"), vec![8; 1 << 20]).expect("written");
        mended(&instance, kind, subject, "WARNING");
        instance.wait_until_whole("DATA");
        // Votes come back a little later than the disks.
        wait_for("all to be well", || status(&instance).0 == 0);
    }

    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'what_if.delay.f1' = '1ms' FORCE");
    mended(&instance, "DELAY", "F1", "WARNING");

    instance.sql("ALTER SYSTEM SET asm_preferred_read_failure_groups = 'DATA.F2, DATA.F1'");
    instance.sql("ALTER DISKGROUP data DROP DISKS IN FAILGROUP f2");
    let remedy = mended(&instance, "PREFERRED", "DATA.F2", "WARNING");
    assert!(remedy.ends_with("= 'DATA.F1'"), "{remedy}");
    instance.check("DATA");
}

/// A minute after it was made, no scrub has read the group.
pub(super) fn a_group_that_was_never_scrubbed_is_seen() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'scrub_reminder' = '1m'");
    assert_eq!(status(&instance).0, 0);
    mended(&instance, "SCRUB", "", "WARNING");
}

/// Ways in which a group is mounted, and not mounted.
#[test]
fn how_a_group_is_mounted_is_seen() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    mended(&instance, "NOT MOUNTED", "", "WARNING");
    instance.sql("ALTER DISKGROUP data DISMOUNT; ALTER DISKGROUP data MOUNT RESTRICTED");
    mended(&instance, "GROUP", "", "WARNING");
    instance.sql("ALTER DISKGROUP data DISMOUNT; ALTER DISKGROUP data MOUNT FORCE");
    mended(&instance, "FORCED", "", "WARNING");
    let said = instance.plinth(["status", "+data"]);
    assert_eq!(said.code, Some(0), "{said}");
    // Two failure groups, each of which may go.
    let text = "what is left mounts by FORCE only";
    assert_eq!(said.out.matches(text).count(), 2, "{said}");

    let said = instance.plinth(["status", "nothing"]);
    assert_eq!(said.code, Some(3), "{said}");
    assert!(
        first_line(&said).starts_with("PLINTH UNKNOWN: there is no disk group NOTHING"),
        "{said}"
    );
    instance.kill_instance();
    let said = instance.plinth(["status"]);
    assert_eq!(said.code, Some(3), "{said}");
    assert!(first_line(&said).starts_with("PLINTH UNKNOWN: "), "{said}");
    instance.start();
}

/// Two failure groups are not found and the others are mounted by force: both mirrors of some
/// extents are away.
#[test]
fn extents_without_any_mirror_are_seen() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB][..]; 4], "");
    let bytes = vec![7; 64 << 20];
    fs::write(instance.mount("DATA").join("table"), &bytes).expect("written");
    instance.sql("ALTER DISKGROUP data DISMOUNT FORCE");
    let away = ["f0d0", "f1d0"];
    let take = |name: &&str| fs::rename(instance.disk(name), instance.path(name));
    away.iter().try_for_each(take).expect("they are taken out");
    instance.sql("ALTER DISKGROUP data MOUNT FORCE");
    seen(&instance, "MISSING MIRRORS", "", "CRITICAL");
    let put = |name: &&str| fs::rename(instance.path(name), instance.disk(name));
    away.iter().try_for_each(put).expect("they are put back");
    mended(&instance, "MISSING MIRRORS", "", "CRITICAL");
    instance.wait_until_whole("DATA");
    instance.check("DATA");
    assert!(fs::read(instance.mount("DATA").join("table")).expect("read") == bytes);
}

/// A group without mirrors on a file: it fills up, gets a disk, and becomes a mirrored one.
#[test]
fn a_group_without_mirrors_is_led_to_mirrors() {
    let instance = Instance::new();
    instance.create_group("fra", "EXTERNAL", &[&[256 * MIB]], "");
    let remedy = seen(&instance, "UNMIRRORED", "", "WARNING");
    assert_eq!(remedy, "", "one disk cannot mirror");
    let mount = instance.mount("FRA");
    fs::write(mount.join("backup"), vec![9; 64 << 20]).expect("written");
    let used = instance.number("SELECT value FROM v$asm_health WHERE kind = 'GROUP'");
    assert!(used > 10.0, "{used}");
    instance.sql(&format!("ALTER DISKGROUP fra SET ATTRIBUTE 'space_warning' = '{used:.0}'"));
    instance.add_disk("spare", 512 * MIB);
    mended(&instance, "SPACE", "", "WARNING");
    instance.wait_until_whole("FRA");
    mended(&instance, "UNMIRRORED", "", "WARNING");
    assert_eq!(instance.text("SELECT type FROM v$asm_diskgroup"), "NORMAL");
}

/// A disk that hangs, one with errors, an engine that is stopped, and one that is dead: each is
/// shown before monitoring gives up.
pub(super) fn a_hung_disk_and_a_dead_engine_are_shown_in_time() {
    let mut instance = Instance::new();
    instance.add_fault_disk("f0d0", 256 * MIB);
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    fs::write(mount.join("table"), vec![1; 1 << 20]).expect("written");

    let began = Instant::now();
    instance.faulty("f0d0").hang();
    let path = mount.join("table");
    let writing = thread::spawn(move || {
        let mut file = fs::File::options().write(true).open(path).expect("open");
        file.write_all(&[2; 8192]).and_then(|()| file.sync_all()).expect("written to the other");
    });
    let path_of_it = instance.disk("f0d0").display().to_string();
    let kinds = ["DISK HUNG", "DISK OFFLINE"].map(|kind| (kind, "DATA_0000"));
    in_time(&instance, began, &[kinds[0], kinds[1], ("DEVICE SILENT", &path_of_it)]);
    seen(&instance, "DISK OFFLINE", "DATA_0000", "WARNING");
    writing.join().expect("the writer");
    instance.faulty("f0d0").heal();
    wait_for("the end of what hung", || {
        instance.text("SELECT state FROM v$asm_disk_stat WHERE name = 'DATA_0000'") != "HUNG"
    });
    mended(&instance, "DISK OFFLINE", "DATA_0000", "WARNING");
    instance.wait_until_whole("DATA");

    instance.faulty("f0d0").fail();
    fs::write(mount.join("table"), vec![3; 1 << 20]).expect("written to the other");
    seen(&instance, "DISK OFFLINE", "DATA_0000", "WARNING");
    instance.faulty("f0d0").heal();
    mended(&instance, "DISK OFFLINE", "DATA_0000", "WARNING");
    instance.wait_until_whole("DATA");
    mended(&instance, "DISK ERRORS", "DATA_0000", "WARNING");

    let began = Instant::now();
    instance.signal_engine("DATA", Signal::STOP);
    in_time(&instance, began, &[("ENGINE SILENT", "")]);
    mended(&instance, "ENGINE SILENT", "", "CRITICAL");

    // No engine can mount the group while its disks are away.
    let aside = |name: &str| instance.path("parts").join(format!("aside-{name}"));
    for name in ["f0d0", "f1d0"] {
        fs::rename(instance.disk(name), aside(name)).expect("taken away");
    }
    let began = Instant::now();
    instance.kill_engine("DATA");
    in_time(&instance, began, &[("NO ENGINE", "")]);
    let remedy = seen(&instance, "NO ENGINE", "", "CRITICAL");
    for name in ["f0d0", "f1d0"] {
        fs::rename(aside(name), instance.disk(name)).expect("brought back");
    }
    // It may have been mounted by itself meanwhile.
    let _ = instance.plinth(["sql", "-c", &remedy]);
    gone(&instance, "NO ENGINE", "");
    assert_eq!(instance.text("SELECT state FROM v$asm_diskgroup"), "MOUNTED");
    assert_eq!(remedy, "ALTER DISKGROUP DATA MOUNT");
}

/// A thin pool without room: writes wait, and go on when there is some.
#[test]
fn a_full_pool_is_seen() {
    let mut instance = Instance::new();
    instance.add_pool("pool0", 200 * MIB);
    instance.add_loop_disk_in("pool0", "f0d0", 1 << 30);
    instance.create_group("data", "EXTERNAL", &[&[1 << 30]], "'disk_full_wait' = '600'");
    let mount = instance.mount("DATA");
    instance.pool("pool0").fill();
    let path = mount.join("table");
    let writing = thread::spawn(move || fs::write(path, vec![5; 64 << 20]).expect("written"));
    let remedy = seen(&instance, "DISK FULL", "DATA_0000", "CRITICAL");
    assert_eq!(remedy, "", "no statement makes room there");
    instance.pool("pool0").make_room();
    writing.join().expect("the writer");
    gone(&instance, "DISK FULL", "DATA_0000");
}

/// The group is full, and links fill what the catalog has. Disks help, and so does removing.
#[test]
fn a_catalog_near_its_limit_is_seen() {
    let instance = Instance::new();
    let size = 64 * MIB;
    instance.create_group("data", "NORMAL", &[&[size], &[size]], "");
    let mount = instance.mount("DATA");
    let fill = |name: &str| {
        let mut file = fs::File::create(mount.join(name)).expect("a file");
        let megabyte = vec![1; 1 << 20];
        let written = (0..4 * size / MIB).take_while(|_| file.write_all(&megabyte).is_ok());
        assert!(written.count() as u64 <= 2 * size / MIB, "the group is not full");
        let _ = file.sync_all();
    };
    // Each has a page of the catalog.
    let link = |number: u32| symlink("x".repeat(4000), mount.join(format!("link{number}")));
    let is_short = || {
        let left = instance.query("SELECT catalog_left FROM v$asm_protection");
        left.iter().any(|row| !row["catalog_left"].is_null())
    };
    fill("table");
    let mut links = 0..20_000;
    while !is_short() {
        links.by_ref().take(20).for_each(|number| link(number).expect("the catalog has room"));
    }
    seen(&instance, "SPACE", "", "CRITICAL");
    assert_eq!(seen(&instance, "CATALOG", "", "WARNING"), "", "there is no disk");
    instance.add_disk("spare0", size);
    instance.add_disk("spare1", size);
    let remedy = mended(&instance, "CATALOG", "", "WARNING");
    assert!(remedy.contains("FAILGROUP F0") && remedy.contains("FAILGROUP F1"), "{remedy}");
    gone(&instance, "SPACE", "");
    instance.wait_until_whole("DATA");

    fill("table2");
    let made: Vec<u32> = links.take_while(|number| link(*number).is_ok()).collect();
    seen(&instance, "CATALOG", "", "CRITICAL");
    let left = "SELECT value FROM v$asm_health WHERE kind = 'CATALOG'";
    assert!(instance.number(left) < 4096.0, "a link was refused although there is room for it");
    for number in made {
        fs::remove_file(mount.join(format!("link{number}"))).expect("removed");
    }
    gone(&instance, "CATALOG", "");
    instance.check("DATA");
}

/// Two of three failure groups fail at once: writes wait until they are back.
#[test]
fn writes_that_wait_for_voters_are_seen() {
    let mut instance = Instance::new();
    let size = 256 * MIB;
    for disk in ["f0d0", "f1d0"] {
        instance.add_fault_disk(disk, size);
    }
    instance.create_group("data", "NORMAL", &[&[size], &[size], &[size]], "");
    let path = instance.mount("DATA").join("table");
    fs::write(&path, vec![1; 16 << 20]).expect("written");
    for disk in ["f0d0", "f1d0"] {
        instance.faulty(disk).fail();
    }
    let writing = thread::spawn(move || {
        // It may get an error: two mirrors have failed.
        let _ = fs::write(path, vec![2; 16 << 20]);
    });
    assert_eq!(seen(&instance, "WRITES WAIT", "", "CRITICAL"), "");
    for disk in ["f0d0", "f1d0"] {
        instance.faulty(disk).heal();
    }
    gone(&instance, "WRITES WAIT", "");
    writing.join().expect("the writer");
    instance.sql("ALTER DISKGROUP data ONLINE ALL");
    instance.wait_until_whole("DATA");
    instance.check("DATA");
}

/// A program with another name for a column of a view that the instance needs.
fn of_another_version(program: &Path) -> Vec<u8> {
    let mut bytes = fs::read(program).expect("the program");
    let (column, other) = (b"voters_reached", b"voters_touched");
    let places = bytes.windows(column.len()).enumerate().filter(|(_, part)| *part == column);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "the program has no such column");
    for at in places {
        bytes[at..at + other.len()].copy_from_slice(other);
    }
    bytes
}

/// The program is replaced, and an engine of the one before goes on.
#[test]
fn an_engine_of_another_version_is_seen() {
    let home = tempfile::tempdir().expect("a directory");
    let program = home.path().join("plinth");
    let install = |bytes: &[u8]| {
        let next = home.path().join("next");
        fs::write(&next, bytes).expect("written");
        shell(r#"chmod 755 "$1" && mv "$1" "$2""#).arg(&next).arg(&program).ok();
    };
    install(&of_another_version(&plinth_tests::binary()));
    let mut instance = Instance::of(program.clone(), &[]);
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    assert_eq!(status(&instance).0, 0, "the other version is well by itself");
    let engine = instance.engine("DATA");
    instance.kill_instance();
    install(&fs::read(plinth_tests::binary()).expect("the program"));
    instance.start();
    assert_eq!(instance.engine("DATA"), engine, "it goes on");
    let remedy = mended(&instance, "ENGINE REFUSES", "", "WARNING");
    assert_eq!(remedy, "plinth upgrade DATA");
    assert_ne!(instance.engine("DATA"), engine);
    assert_eq!(status(&instance).0, 0);
}
