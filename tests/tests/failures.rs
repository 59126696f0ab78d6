//! Failure groups that are lost under a database, and come back.

use plinth_tests::{Blocks, GIB, Instance, MIB, Postgres, scaled, shell, wait_for};
use std::{fs, thread, time::Duration};

/// A NORMAL group whose second failure group is made of disks that can fail.
fn group_with_a_weak_half(attributes: &str) -> Instance {
    let mut instance = Instance::new();
    for disk in ["f1d0", "f1d1"] {
        instance.add_fault_disk(disk, scaled(GIB, 3 * GIB));
    }
    let size = scaled(GIB, 3 * GIB);
    instance.create_group("data", "NORMAL", &[&[size, size], &[size, size]], attributes);
    instance
}

/// pgbench runs; all disks of a failure group are taken away by `take` and given
/// back; pgbench does not notice, and afterwards every mirror is equal.
fn a_failure_group_vanishes(attributes: &str, take: impl Fn(&Instance, &str)) {
    let instance = group_with_a_weak_half(attributes);
    let mount = instance.mount("DATA");
    let postgres = Postgres::new(&mount, "pg");
    postgres.fill(scaled(3, 20));
    let seconds = scaled(24, 60);
    let bench = postgres.bench(8, seconds);
    thread::sleep(Duration::from_secs(4));
    for disk in ["f1d0", "f1d1"] {
        take(&instance, disk);
    }
    wait_for("both disks offline", || instance.offline_disks("DATA") == 2.0);
    thread::sleep(Duration::from_secs(3));
    for disk in ["f1d0", "f1d1"] {
        instance.faulty(disk).heal();
    }
    instance.sql("ALTER DISKGROUP data ONLINE DISKS IN FAILGROUP f1");
    let bench = bench.finish();
    bench.must_not_have_noticed();
    assert!(
        bench.slowest_ms < 10_000,
        "a transaction took {} ms:\n{}",
        bench.slowest_ms,
        bench.report
    );
    instance.wait_until_whole("DATA");
    postgres.verify();
    postgres.stop_and_verify_pages();
    instance.check("DATA");
    let log = instance.alert_log();
    assert!(
        log.contains("DATA_0002") && log.contains("DATA_0003"),
        "the alert log does not name the disks:\n{log}"
    );
}

/// Every I/O of a failure group fails.
#[test]
fn a_failure_group_fails_under_pgbench() {
    a_failure_group_vanishes("", |instance, disk| instance.faulty(disk).fail());
}

/// Every I/O of a failure group hangs: nothing waits longer than the deadline.
#[test]
fn a_failure_group_hangs_under_pgbench() {
    a_failure_group_vanishes("'disk_timeout' = '2'", |instance, disk| instance.faulty(disk).hang());
}

/// An operator takes a failure group offline and brings it back: only blocks written meanwhile are
/// copied.
#[test]
fn a_resync_copies_what_changed() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[512 * MIB], &[512 * MIB]], "");
    let mount = instance.mount("DATA");
    let before = Blocks::new(mount.join("before"), 1, 30_000);
    instance.sql("ALTER DISKGROUP data OFFLINE DISKS IN FAILGROUP f1");
    let during = Blocks::new(mount.join("during"), 2, 2_000);
    assert_eq!(during.find(&instance.disk("f1d0")).len(), 0, "an offline disk was written");
    instance.sql("ALTER DISKGROUP data ONLINE DISKS IN FAILGROUP f1");
    instance.wait_until_whole("DATA");
    for blocks in [&before, &during] {
        blocks.must_read_right();
        for disk in ["f0d0", "f1d0"] {
            assert_eq!(blocks.find(&instance.disk(disk)).len() as u64, blocks.count(), "on {disk}");
        }
    }
    instance.check("DATA");
    // Once whole, either half can carry the group alone.
    instance.sql("ALTER DISKGROUP data OFFLINE DISKS IN FAILGROUP f0");
    before.must_read_right();
    during.must_read_right();
}

/// The last current mirror of something is never taken away: the statement is refused with the
/// reason.
#[test]
fn the_last_mirror_stays_online() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 3, 100);
    instance.sql("ALTER DISKGROUP data OFFLINE DISKS IN FAILGROUP f1");
    Blocks::new(mount.join("second"), 4, 100).must_read_right();
    instance.refused("ALTER DISKGROUP data OFFLINE DISKS IN FAILGROUP f0");
    instance.refused("ALTER DISKGROUP data OFFLINE DISK data_0000");
    blocks.must_read_right();
}

/// A single sector that cannot be read costs nothing but a repair; its disk stays.
#[test]
fn a_disk_that_fails_while_only_read_serves_from_the_other() {
    let instance = group_with_a_weak_half("");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 5, 4_000);
    instance.faulty("f1d0").fail();
    instance.faulty("f1d1").fail();
    blocks.must_read_right();
    instance.sql("ALTER DISKGROUP data OFFLINE DISKS IN FAILGROUP f1");
    let seen = instance.disk_row(&instance.disk("f1d0"));
    assert_eq!(seen["header_status"], "UNKNOWN", "its contents are unknown: {seen:?}");
    instance.faulty("f1d0").heal();
    instance.faulty("f1d1").heal();
    instance.plinth(["sql", "-c", "ALTER DISKGROUP data ONLINE ALL"]);
    instance.wait_until_whole("DATA");
    instance.check("DATA");
}

/// Three failure groups and three mirrors: two of them go, one after the other, and the
/// database is served by the third.
#[test]
fn high_survives_two_failure_groups_one_after_the_other() {
    let mut instance = Instance::new();
    for disk in ["f1d0", "f2d0"] {
        instance.add_fault_disk(disk, GIB);
    }
    instance.create_group("data", "HIGH", &[&[GIB], &[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let postgres = Postgres::new(&mount, "pg");
    postgres.fill(2);
    let bench = postgres.bench(4, scaled(16, 60));
    for (disk, offline) in [("f1d0", 1.0), ("f2d0", 2.0)] {
        thread::sleep(Duration::from_secs(3));
        instance.faulty(disk).fail();
        wait_for("the disk offline", || instance.offline_disks("DATA") == offline);
    }
    bench.finish().must_not_have_noticed();
    assert_eq!(instance.offline_disks("DATA"), 2.0);
    for disk in ["f1d0", "f2d0"] {
        instance.faulty(disk).heal();
    }
    instance.sql("ALTER DISKGROUP data ONLINE ALL");
    instance.wait_until_whole("DATA");
    postgres.verify();
    postgres.stop_and_verify_pages();
    instance.check("DATA");
}

/// Both failure groups go in the same moment: too few voters are left, so writes wait and the
/// remedy is shown. When the disks work again everything goes on, and nothing is lost.
#[test]
fn high_waits_when_two_failure_groups_go_at_once() {
    let mut instance = Instance::new();
    for disk in ["f1d0", "f2d0"] {
        instance.add_fault_disk(disk, 512 * MIB);
    }
    instance.create_group("data", "HIGH", &[&[512 * MIB], &[512 * MIB], &[512 * MIB]], "");
    let mount = instance.mount("DATA");
    let before = Blocks::new(mount.join("before"), 6, 500);
    for disk in ["f1d0", "f2d0"] {
        instance.faulty(disk).fail();
    }
    let path = mount.join("during");
    let writer = thread::spawn(move || Blocks::new(path, 7, 500));
    wait_for("the remedy in the alert log", || instance.alert_log().contains("FORCE"));
    thread::sleep(Duration::from_secs(2));
    assert!(
        !writer.is_finished(),
        "a write was acknowledged that only one of three voters could have kept"
    );
    before.must_read_right();
    for disk in ["f1d0", "f2d0"] {
        instance.faulty(disk).heal();
    }
    let during = writer.join().expect("the write goes on when the disks do");
    instance.plinth(["sql", "-c", "ALTER DISKGROUP data ONLINE ALL"]);
    instance.wait_until_whole("DATA");
    before.must_read_right();
    during.must_read_right();
    instance.check("DATA");
}

/// The same with two quorum disks, which vote but hold no data: three of five voters are left, so
/// it serves on.
#[test]
fn high_with_quorum_disks_serves_on() {
    let mut instance = Instance::new();
    for disk in ["f1d0", "f2d0"] {
        instance.add_fault_disk(disk, 512 * MIB);
    }
    let d0 = instance.add_disk("f0d0", 512 * MIB);
    let (q0, q1) = (instance.add_disk("q0", 128 * MIB), instance.add_disk("q1", 128 * MIB));
    instance.sql(&format!(
        "CREATE DISKGROUP data HIGH REDUNDANCY FAILGROUP f0 DISK '{}' FAILGROUP f1 DISK '{}' FAILGROUP f2 DISK '{}' \
         QUORUM FAILGROUP q0 DISK '{}' QUORUM FAILGROUP q1 DISK '{}'",
        d0.display(),
        instance.disk("f1d0").display(),
        instance.disk("f2d0").display(),
        q0.display(),
        q1.display()
    ));
    let mount = instance.mount("DATA");
    for disk in ["f1d0", "f2d0"] {
        instance.faulty(disk).fail();
    }
    let blocks = Blocks::new(mount.join("file"), 8, 500);
    blocks.must_read_right();
    for quorum in [&q0, &q1] {
        assert_eq!(blocks.find(quorum).len(), 0, "a quorum disk holds data");
    }
    for disk in ["f1d0", "f2d0"] {
        instance.faulty(disk).heal();
    }
    instance.sql("ALTER DISKGROUP data ONLINE ALL");
    instance.wait_until_whole("DATA");
    blocks.must_read_right();
    instance.check("DATA");
    fs::remove_file(mount.join("file")).expect("remove");
}

/// The only disk of a group fails every I/O: the catalog stops, and its engine reports that once
/// and ends. While the disk is bad the group is shown as broken; when it is good again the group is
/// mounted again, with everything that was acknowledged as durable.
#[test]
fn an_engine_whose_catalog_stops_is_replaced() {
    let mut instance = Instance::new();
    instance.add_fault_disk("f0d0", 256 * MIB);
    instance.create_group("data", "EXTERNAL", &[&[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 6, 1_000);
    let first = instance.engine("DATA").expect("an engine runs");
    instance.faulty("f0d0").fail();
    assert!(fs::File::create(mount.join("new")).and_then(|file| file.sync_all()).is_err());
    wait_for("the end of the engine", || instance.engine("DATA") != Some(first));
    let stops = || {
        instance.alert_log().lines().filter(|line| line.contains("the catalog has stopped")).count()
    };
    assert_eq!(stops(), 1, "{}", instance.alert_log());
    wait_for("the next try", || instance.alert_log().contains("cannot be mounted, tried again"));
    assert_eq!(instance.text("SELECT state FROM v$asm_diskgroup"), "BROKEN");
    assert!(instance.plinth(["lsdg"]).ok().contains("BROKEN"));
    instance.faulty("f0d0").heal();
    wait_for("the group to be mounted", || {
        instance.text("SELECT state FROM v$asm_diskgroup") == "MOUNTED"
    });
    instance.mount_again("DATA");
    blocks.must_read_right();
    assert_eq!(stops(), 1, "{}", instance.alert_log());
    instance.check("DATA");
}

/// While a disk is away, files that would not survive the loss of another one are named, small ones
/// and large ones, and a check does not call that clean.
#[test]
fn files_without_all_their_mirrors_are_named() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    fs::create_dir(mount.join("db")).expect("a directory");
    let blocks = Blocks::new(mount.join("db/table"), 1, 5_000);
    fs::write(mount.join("db/small"), [7; 5000]).expect("a small file");
    let lowered = || {
        let rows = instance.query("SELECT redundancy_lowered FROM v$asm_file ORDER BY file_number");
        rows.iter()
            .map(|row| row["redundancy_lowered"].as_str().unwrap_or("").to_owned())
            .collect::<String>()
    };
    let missing =
        || instance.query("SELECT name, mirrors_left FROM v$asm_missing_mirror ORDER BY name");
    assert_eq!((lowered().as_str(), missing().len()), ("NN", 0));
    assert_eq!(instance.plinth(["check", "DATA"]).code, Some(0));
    // Whatever mirror they have on one disk, another one is left; the small one may be on two
    // others.
    for disk in ["data_0000", "data_0001", "data_0002"] {
        instance.sql(&format!("ALTER DISKGROUP data OFFLINE DISK {disk}"));
        let named = missing();
        let table =
            named.iter().find(|row| row["name"] == "/db/table").expect("it is on all disks");
        assert_eq!(table["mirrors_left"], 1);
        assert!(lowered().starts_with('Y'));
        assert_eq!(lowered().matches('Y').count(), named.len());
        let checked = instance.plinth(["check", "DATA"]);
        assert_eq!(checked.code, Some(3), "{}", checked.out);
        assert!(
            checked.out.contains("/db/table (file ") && checked.out.contains(&disk.to_uppercase()),
            "{}",
            checked.out
        );
        instance.sql("ALTER DISKGROUP data ONLINE ALL WAIT");
        assert_eq!((lowered().as_str(), missing().len()), ("NN", 0));
    }
    assert_eq!(instance.plinth(["check", "DATA"]).code, Some(0));
    blocks.must_read_right();
}

/// A member's device is read-only when its group is mounted: it is missing, and named with the
/// reason, even after the engine's death, and comes ONLINE by itself when it can be written. Where
/// it is needed FORCE does without it.
#[test]
fn a_read_only_member_does_not_prevent_a_mount() {
    let mut instance = Instance::new();
    let size = 200 * MIB;
    let disks: Vec<_> =
        ["f0d0", "f1d0", "f2d0"].map(|name| instance.add_loop_disk(name, size, 512)).into();
    instance.create_group("data", "NORMAL", &[&[size], &[size], &[size]], "");
    let mount = instance.mount("DATA");
    let file = Blocks::new(mount.join("file"), 1, 2_000);
    instance.unmount(&mount);
    let writable = |disk: usize, how: &str| {
        shell(r#"blockdev "$1" "$2""#)
            .arg(how)
            .arg(disks[disk].canonicalize().expect("a device"))
            .ok()
    };
    let dismounted = || instance.sql("ALTER DISKGROUP data DISMOUNT");
    dismounted();
    writable(1, "--setro");
    instance.sql("ALTER DISKGROUP data MOUNT");
    assert_eq!(instance.offline_disks("DATA"), 1.0);
    assert!(instance.alert_log().contains("disk DATA_0001 is not used: "), "it is named");
    instance.mount("DATA");
    file.must_read_right();
    instance.replace_engine("DATA");
    file.must_read_right();
    assert_eq!(instance.offline_disks("DATA"), 1.0);
    writable(1, "--setrw");
    wait_for("the disk to come back", || instance.offline_disks("DATA") == 0.0);
    instance.check("DATA");
    instance.unmount(&mount);
    dismounted();
    [1, 2].into_iter().for_each(|disk| drop(writable(disk, "--setro")));
    let refused = instance.refused("ALTER DISKGROUP data MOUNT");
    assert!(
        refused.contains("disk DATA_0001 is not used: ") && refused.contains("is read-only"),
        "{refused}"
    );
    instance.sql("ALTER DISKGROUP data MOUNT FORCE");
    instance.mount("DATA");
    file.must_read_right();
    [1, 2].into_iter().for_each(|disk| drop(writable(disk, "--setrw")));
}
