//! What administrators do beside disks: estimate a movement first, scrub, give rights, make
//! volumes, mount for themselves alone.

use plinth_tests::{
    Blocks, GIB, Instance, MIB, Postgres, bytes, header_places, noise, overwrite, scaled, shell,
    wait_for,
};
use std::{
    fs,
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    path::Path,
};

fn group_of_two(instance: &Instance) {
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "'au_size' = '1M'");
}

/// Reads a file as another user of the host. Whether that succeeded.
fn can_read(user: &str, file: &Path) -> bool {
    let script = "setpriv --reuid \"$1\" --regid \"$1\" --clear-groups cat \"$2\" > /dev/null";
    shell(script).arg(user).arg(file).finish().code == Some(0)
}

/// Rot is put on the raw disks, where no database has read since. A scrub finds it while the group
/// is used and reports it; with REPAIR it is repaired on the disk, and databases never meet it.
#[test]
fn a_scrub_finds_and_mends_rot() {
    let instance = Instance::new();
    group_of_two(&instance);
    let mount = instance.mount("DATA");
    let file = Blocks::new(mount.join("file"), 1, 3000);
    instance.quiesce("DATA");
    let disks = ["f0d0", "f1d0"].map(|name| instance.disk(name));
    let found: Vec<_> = disks.iter().map(|disk| file.find(disk)).collect();
    let struck: Vec<_> =
        (0..3000).step_by(500).map(|index| (index, usize::from(index % 1000 == 0))).collect();
    for (index, disk) in &struck {
        noise(&disks[*disk], found[*disk][index], 4096);
    }
    let right = || {
        let is_right = |(index, disk): &&(u64, usize)| {
            bytes(&disks[*disk], found[*disk][index], 4096) == file.block(*index)
        };
        struck.iter().filter(is_right).count()
    };
    let said = instance.refused("ALTER DISKGROUP data SCRUB POWER HIGH WAIT");
    assert!(said.contains("6 problems not repaired") && said.contains("f0d0"), "{said}");
    assert_eq!(right(), 0, "nothing was said of repairs");
    let operation = "SELECT operation || ' ' || pass || ' ' || state FROM v$asm_operation WHERE pass = 'SCRUBBING'";
    let ended = operation.replace("v$asm_operation", "v$asm_operation_ended");
    assert_eq!(instance.text(&ended), "SCRUB SCRUBBING DONE");
    assert_eq!(instance.number("SELECT count(*) FROM v$asm_operation"), 0.0);
    assert_eq!(
        instance.number("SELECT sofar = est_work AND sofar > 10 FROM v$asm_operation_ended WHERE pass = 'SCRUBBING'"),
        1.0
    );
    assert!(instance.alert_log().contains("6 problems found, 0 repaired, 6 left"));
    let said = instance.plinth(["sql", "-c", "ALTER DISKGROUP data SCRUB REPAIR POWER MAX WAIT"]);
    assert!(
        said.code == Some(0) && format!("{said}").contains("6 problems repaired, 0 left"),
        "{said}"
    );
    assert_eq!(right(), struck.len());
    // Paced, in the background, and ended by its session.
    instance.sql("ALTER DISKGROUP data SCRUB POWER LOW");
    assert!(instance.refused("ALTER DISKGROUP data SCRUB").contains("is being scrubbed"));
    instance.sql("ALTER DISKGROUP data SCRUB STOP");
    wait_for("the scrub to end", || instance.number("SELECT count(*) FROM v$asm_operation") == 0.0);
    file.must_read_right();
    instance.check("DATA");
}

/// A disk has lost a file of 48 MiB, and its path is so long that the report of all blocks is
/// longer than a message between our processes: the check has a verdict, and reports the first of
/// them.
#[test]
fn a_check_of_a_disk_that_lost_much_has_a_verdict() {
    const BLOCKS: u64 = 12_288;
    let instance = Instance::new();
    let folder =
        (0..4).fold(instance.path("deep"), |path, at| path.join(at.to_string().repeat(240)));
    fs::create_dir_all(&folder).expect("a folder");
    let disks = ["one", "two"].map(|name| folder.join(name));
    for disk in &disks {
        fs::File::create(disk).and_then(|file| file.set_len(256 * MIB)).expect("a disk");
    }
    instance.sql(&format!("ALTER SYSTEM SET asm_diskstring = '{}/*'", folder.display()));
    let [one, two] = disks.each_ref().map(|disk| disk.display());
    instance.sql(&format!(
        "CREATE DISKGROUP data NORMAL REDUNDANCY FAILGROUP a DISK '{one}' FAILGROUP b DISK '{two}'"
    ));
    let mount = instance.mount("DATA");
    let file = Blocks::new(mount.join("file"), 1, BLOCKS);
    instance.quiesce("DATA");
    let raw = fs::OpenOptions::new().write(true).open(&disks[1]).expect("a disk");
    for offset in file.find(&disks[1]).values() {
        raw.write_all_at(&[0; 4096], *offset).expect("written");
    }
    raw.sync_all().expect("synced");
    for repair in [false, true] {
        let said = instance.plinth(if repair {
            vec!["check", "--repair", "DATA"]
        } else {
            vec!["check", "DATA"]
        });
        let text = said.to_string();
        let verdict = if repair {
            format!("{BLOCKS} problems, all repaired")
        } else {
            format!("{BLOCKS} problems; --repair")
        };
        assert!(
            said.code == Some(if repair { 1 } else { 2 }) && text.contains(&verdict),
            "{text:.2000}"
        );
        assert!(
            text.contains("and 11288 problems more")
                && text.contains("do not match their checksum"),
            "{text:.2000}"
        );
    }
    instance.check("DATA");
    file.must_read_right();
}

/// An answer that is longer than a message is refused, and the next is given on the same
/// connection.
#[test]
fn a_value_that_is_too_long_for_a_message_is_refused() {
    let instance = Instance::new();
    let long = "SELECT replace(hex(zeroblob(4800000)), '00', 'xx') AS long";
    let said = instance.refused(long);
    assert!(said.contains("too long") && said.contains("8388608"), "{said:.500}");
    let said = instance.plinth(["sql", "-c", &format!("{long}; SELECT 1")]);
    assert!(said.to_string().contains("ask for less at once"), "{said:.500}");
}

/// `plinth scrub` is for a timer: it prints nothing while nothing is wrong, and the exit code tells
/// what was. In SQL all groups are scrubbed by one statement. A check leaves its verdict in the
/// alert log.
#[test]
fn scrubs_say_nothing_while_nothing_is_wrong() {
    let instance = Instance::new();
    group_of_two(&instance);
    let mount = instance.mount("DATA");
    let file = Blocks::new(mount.join("file"), 1, 300);
    instance.quiesce("DATA");
    let silent = |arguments: &[&str]| {
        let said = instance.plinth([&["scrub"], arguments].concat());
        assert!(said.code == Some(0) && said.out.is_empty() && said.err.is_empty(), "{said}");
    };
    silent(&["--power", "high"]);
    silent(&["--repair", "--power", "max", "data"]);
    let disk = instance.disk("f0d0");
    let place = file.find(&disk)[&100];
    noise(&disk, place, 4096);
    let said = instance.plinth(["scrub", "--power", "high"]);
    assert!(said.code == Some(2) && said.to_string().contains("disk group DATA:"), "{said}");
    assert!(said.to_string().contains("f0d0") && said.to_string().contains("1 problem"), "{said}");
    let said = instance.plinth(["scrub", "--power", "high", "--repair"]);
    assert!(said.code == Some(1) && said.to_string().contains("1 problem, all repaired"), "{said}");
    assert_eq!(bytes(&disk, place, 4096), file.block(100));
    silent(&["--power", "high"]);
    let said = instance.plinth(["scrub", "nothing"]);
    assert!(said.code == Some(2) && said.to_string().contains("not mounted"), "{said}");
    instance.sql("ALTER DISKGROUP ALL SCRUB REPAIR POWER HIGH WAIT");
    instance.check("DATA");
    assert!(instance.alert_log().contains("check ended: "), "{}", instance.alert_log());
}

/// The parts of a group come back from the text, including its volumes and the owners of its
/// directories. The text is not overwritten without a flag.
#[test]
fn volumes_and_owners_of_directories_are_in_a_backup() {
    let instance = Instance::new();
    group_of_two(&instance);
    let mount = instance.mount("DATA");
    fs::create_dir_all(mount.join("pg/base")).expect("directories");
    std::os::unix::fs::chown(mount.join("pg"), Some(1234), Some(2345)).expect("an owner");
    fs::set_permissions(mount.join("pg"), fs::Permissions::from_mode(0o2750)).expect("a mode");
    instance.sql("ALTER DISKGROUP data ADD VOLUME v1 SIZE 16M STRIPE_WIDTH 64K STRIPE_COLUMNS 2");
    instance
        .sql("ALTER DISKGROUP data MODIFY VOLUME v1 USAGE 'a file system' MOUNTPATH '/somewhere'");
    instance.sql("ALTER DISKGROUP data DISABLE VOLUME v1");
    let volume = "SELECT size_mb || ' ' || stripe_width_k || ' ' || stripe_columns || ' ' || state || ' ' || usage || ' ' || mountpath
        FROM v$asm_volume WHERE volume_name = 'V1'";
    let before = instance.text(volume);
    let file = instance.path("backup.json");
    let file = file.to_str().expect("a path");
    instance.plinth(["md_backup", file, "-G", "data"]).ok();
    let written = fs::read_to_string(file).expect("it is written");
    let said = instance.plinth(["md_backup", file, "-G", "data"]);
    assert!(said.code == Some(1) && said.to_string().contains("is there already"), "{said}");
    instance.plinth(["md_backup", "-f", file, "-G", "data"]).ok();
    assert_eq!(fs::read_to_string(file).expect("it is written"), written);
    instance.unmount(&mount);
    instance.sql("DROP DISKGROUP data INCLUDING CONTENTS");
    instance.plinth(["md_restore", file, "--full"]).ok();
    let mount = instance.mount("DATA");
    let owner = |name: &str| {
        let metadata = fs::metadata(mount.join(name)).expect("it is there");
        (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
    };
    assert_eq!(owner("pg"), (1234, 2345, 0o2750));
    assert_eq!(instance.text(volume), before);
    instance.check("DATA");
}

/// A scrub of the whole group reads the metadata as well: a header copy that is gone is found and
/// repaired.
#[test]
fn a_scrub_reads_metadata_too() {
    let instance = Instance::new();
    group_of_two(&instance);
    let disk = instance.disk("f1d0");
    let place = header_places(&disk)[1];
    overwrite(&disk, place, &[0; 4096]);
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'scrub_metadata.enabled' = 'false'");
    instance.sql("ALTER DISKGROUP data SCRUB POWER HIGH WAIT");
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'scrub_metadata.enabled' = 'true'");
    // Unless the engine has looked before.
    if instance.number("SELECT SUM(metadata_repaired) FROM v$asm_disk") == 0.0 {
        let said = instance.plinth(["sql", "-c", "ALTER DISKGROUP data SCRUB POWER HIGH WAIT"]);
        let is_told =
            said.to_string().contains("header copy") && said.to_string().contains("1 problem");
        assert!(
            is_told || instance.number("SELECT SUM(metadata_repaired) FROM v$asm_disk") > 0.0,
            "{said}"
        );
    }
    instance.sql("ALTER DISKGROUP data SCRUB REPAIR POWER HIGH WAIT");
    assert_eq!(bytes(&disk, place, 8), b"PLINTHDK");
    instance.check("DATA");
}

/// A database works while everything is read, again and again, and may be repaired: it notices
/// nothing, and none of its data is taken for rot.
#[test]
fn a_scrub_under_pgbench() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let postgres = Postgres::new(&mount, "pg");
    postgres.fill(2);
    let bench = postgres.bench(4, scaled(12, 60));
    for power in ["MAX", "AUTO", "HIGH"] {
        instance.sql(&format!("ALTER DISKGROUP data SCRUB REPAIR POWER {power} WAIT"));
    }
    instance.sql("ALTER DISKGROUP data SCRUB POWER LOW");
    bench.finish().must_not_have_noticed();
    instance.sql("ALTER DISKGROUP data SCRUB STOP");
    assert!(!instance.alert_log().contains("WARNING DATA: scrub"), "{}", instance.alert_log());
    postgres.verify();
    postgres.stop_and_verify_pages();
    instance.check("DATA");
}

/// CHECK of a file and of a disk reads these.
#[test]
fn a_check_looks_at_what_it_is_told() {
    let instance = Instance::new();
    group_of_two(&instance);
    let mount = instance.mount("DATA");
    let file = Blocks::new(mount.join("file"), 1, 1000);
    let _other = Blocks::new(mount.join("other"), 2, 1000);
    instance.quiesce("DATA");
    let disk = instance.disk("f1d0");
    noise(&disk, file.find(&disk)[&7], 4096);
    instance.sql("ALTER DISKGROUP data CHECK FILE '+DATA/other'");
    let said = instance.refused("ALTER DISKGROUP data CHECK FILE '+DATA/file', 'other'");
    assert!(said.contains("1 problem not repaired"), "{said}");
    assert!(
        instance.refused("ALTER DISKGROUP data CHECK FILE 'none'").contains("has no file 'none'")
    );
    assert!(
        instance.refused("ALTER DISKGROUP data CHECK DISK data_0000").contains("1 problem"),
        "its other mirror is read too"
    );
    instance.sql("ALTER DISKGROUP data CHECK DISKS IN FAILGROUP f1 REPAIR");
    instance.check("DATA");
}

/// Owners and permissions that statements set apply to programs on the mount, even after the engine
/// was killed; and those that `chmod` and `chown` set are in the views.
#[test]
fn permissions_are_seen_through_the_mount() {
    let instance = Instance::new();
    group_of_two(&instance);
    let mount = instance.mount("DATA");
    let file = mount.join("secret");
    fs::write(&file, "secret").expect("written");
    shell("chmod 755 \"$1\"").arg(&mount).ok();
    shell("chmod 644 \"$1\"").arg(&file).ok();
    let refused = instance
        .refused("ALTER DISKGROUP data SET OWNERSHIP OWNER='nobody' FOR FILE '+DATA/secret'");
    assert!(refused.contains("has no user nobody"), "{refused}");
    assert!(
        instance
            .refused("ALTER DISKGROUP data ADD USER 'no such user'")
            .contains("this host has no user")
    );
    instance.sql("ALTER DISKGROUP data ADD USER 'nobody', 'daemon'");
    instance.sql("ALTER DISKGROUP data SET OWNERSHIP OWNER='nobody' FOR FILE '+DATA/secret'");
    instance.sql("ALTER DISKGROUP data SET PERMISSION OWNER=READ ONLY, GROUP=NONE, OTHER=NONE FOR FILE '+DATA/secret'");
    let (nobody, daemon) = (65534, 1);
    let as_set = || {
        let seen = fs::metadata(&file).expect("it is there");
        assert_eq!((seen.mode() & 0o7777, seen.uid()), (0o400, nobody));
        assert!(can_read("65534", &file), "its owner may read it");
        assert!(!can_read("1", &file), "others may not");
    };
    as_set();
    instance.kill_engine("DATA");
    instance.mount_again("DATA");
    as_set();
    let owner = "SELECT u.os_name || ' ' || f.permissions FROM v$asm_file f, v$asm_user u
                 WHERE u.user_number = f.user_number AND u.group_number = f.group_number AND f.bytes = 6";
    assert_eq!(instance.text(owner), "nobody r--------");
    shell("chown 1 \"$1\"; chmod 660 \"$1\"").arg(&file).ok();
    assert_eq!(instance.text(owner), "daemon rw-rw----");
    assert!(instance.refused("ALTER DISKGROUP data DROP USER 'daemon'").contains("owns 1 file"));
    instance.sql("ALTER DISKGROUP data DROP USER 'nobody'");
    instance.sql("ALTER DISKGROUP data REPLACE USER 'daemon' WITH 'nobody'");
    assert_eq!(fs::metadata(&file).expect("it is there").uid(), nobody);
    // A user group is a group of the host, with the members that it has there.
    let refused =
        instance.refused("ALTER DISKGROUP data ADD USERGROUP 'daemon' WITH MEMBER 'nobody'");
    assert!(refused.contains("usermod -aG daemon nobody"), "{refused}");
    instance.sql("ALTER DISKGROUP data ADD USER 'daemon'");
    instance.sql("ALTER DISKGROUP data ADD USERGROUP 'daemon' WITH MEMBER 'daemon'");
    instance.sql("ALTER DISKGROUP data SET OWNERSHIP GROUP='daemon' FOR FILE 'secret'");
    assert_eq!(fs::metadata(&file).expect("it is there").gid(), daemon);
    assert!(can_read("1", &file), "the user group may read it");
    // New files get no more permissions than access control lets them have.
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'access_control.enabled' = 'true'");
    fs::write(mount.join("masked"), "x").expect("written");
    assert_eq!(fs::metadata(mount.join("masked")).expect("it is there").mode() & 0o777, 0o600);
    instance.sql("ALTER DISKGROUP data DROP USER 'nobody' CASCADE");
    assert!(!file.exists());
    instance.check("DATA");
}

/// A volume is there with its space after the engine was killed; it is a file that no other program
/// can grow over.
#[test]
fn volumes_survive_a_kill() {
    let instance = Instance::new();
    group_of_two(&instance);
    let mount = instance.mount("DATA");
    instance
        .sql("ALTER DISKGROUP data ADD VOLUME vol1 SIZE 50M STRIPE_WIDTH 128K STRIPE_COLUMNS 4");
    instance.sql("ALTER DISKGROUP data MODIFY VOLUME vol1 USAGE 'ext4' MOUNTPATH '/oracle'");
    instance.sql("ALTER DISKGROUP data DISABLE VOLUME ALL");
    let volume = mount.join(".volumes/VOL1");
    let file = fs::File::options().write(true).open(&volume).expect("opened");
    file.write_all_at(b"contents", 50 * MIB - 8).expect("the last bytes of it");
    assert!(file.write_all_at(b"more", 50 * MIB).is_err(), "nothing is behind them");
    assert!(file.set_len(0).is_err(), "it keeps its size");
    file.sync_all().expect("synced");
    drop(file);
    let must_read = || {
        let bytes = fs::read(&volume).expect("read");
        assert!(bytes.ends_with(b"contents") && bytes.len() as u64 == 50 * MIB);
    };
    instance.kill_engine("DATA");
    instance.mount_again("DATA");
    must_read();
    let row = "SELECT volume_name || ' ' || size_mb || ' ' || state || ' ' || usage || ' ' || mountpath || ' ' || redundancy \
               || ' ' || resize_unit_mb FROM v$asm_volume";
    assert_eq!(instance.text(row), "VOL1 50 DISABLED ext4 /oracle MIRROR 1");
    let kind =
        "SELECT f.type FROM v$asm_file f JOIN v$asm_volume v ON v.file_number = f.file_number";
    assert_eq!(instance.text(kind), "ASMVOL");
    let refused = instance.refused("ALTER DISKGROUP data ADD VOLUME vol2 SIZE 5G");
    assert!(refused.contains("has no room for a volume of 5120 MiB"), "{refused}");
    assert!(
        instance
            .refused("ALTER DISKGROUP data RESIZE VOLUME none SIZE 1G")
            .contains("has no volume NONE")
    );
    must_read();
    instance.sql("ALTER DISKGROUP data RESIZE VOLUME vol1 SIZE 60M");
    assert_eq!(instance.number("SELECT size_mb FROM v$asm_volume"), 60.0);
    instance.sql("ALTER DISKGROUP ALL ENABLE VOLUME vol1");
    assert_eq!(instance.text("SELECT state FROM v$asm_volume"), "ENABLED");
    assert_eq!(fs::metadata(&volume).expect("it is there").len(), 60 * MIB);
    instance.sql("ALTER DISKGROUP data DROP VOLUME vol1");
    assert_eq!(instance.number("SELECT count(*) FROM v$asm_volume"), 0.0);
    instance.check("DATA");
}

/// A plan shows which mirrors would go where and why, row by row; and adds up.
#[test]
fn a_plan_is_shown() {
    let instance = Instance::new();
    group_of_two(&instance);
    let mount = instance.mount("DATA");
    let _blocks = Blocks::new(mount.join("file"), 1, 5000);
    let new = instance.add_disk("new", 256 * MIB).display().to_string();
    let statement = format!(
        "ALTER DISKGROUP data ADD FAILGROUP f2 DISK '{new}' NAME fresh DROP DISK data_0001"
    );
    let rows = instance.query(&format!("EXPLAIN WORK SET STATEMENT_ID = 'swap' FOR {statement}"));
    let (total, steps) = rows.split_last().expect("a row at least");
    assert_eq!(total["pass"], "TOTAL");
    let aus = |row: &plinth_tests::Row| row["aus"].as_u64().expect("a number");
    assert!(aus(total) > 0 && aus(total) == steps.iter().map(aus).sum::<u64>(), "{rows:?}");
    let all = steps.iter().all(|row| row["from_disk"] == "DATA_0001" && row["to_disk"] == "FRESH");
    assert!(all && steps[0]["why"] == "the disk it is on is dropped", "{rows:?}");
    assert!(total["est_minutes"].is_null(), "nothing was measured yet");
    assert_eq!(
        instance.number("SELECT est_work FROM v$asm_estimate WHERE statement_id = 'swap'"),
        aus(total) as f64
    );
    assert_eq!(
        instance.number("SELECT count(*) FROM v$asm_disk WHERE group_number = 1"),
        2.0,
        "nothing is changed"
    );
    // The same over the wire: columns first, then the rows, as for a query.
    let psql = shell("psql -X -A -t -h \"$1\" -c \"$2\"")
        .arg(instance.dir())
        .arg(format!("EXPLAIN WORK FOR {statement}"))
        .ok();
    assert!(psql.contains("|BALANCE|DATA_0001|FRESH|") && psql.contains("|TOTAL|"), "{psql}");
    instance.sql(&format!("{statement} REBALANCE WAIT"));
    let refused = instance.refused("EXPLAIN WORK FOR ALTER DISKGROUP data DROP DISK fresh");
    assert!(refused.contains("failure groups"), "{refused}");
    let rows =
        instance.query("EXPLAIN WORK FOR ALTER DISKGROUP data CONVERT REDUNDANCY TO EXTERNAL");
    assert_eq!(rows.len(), 1, "taking mirrors moves nothing: {rows:?}");
    let why = rows[0]["why"].as_str().expect("words");
    assert!(why.contains("the last rebalance moved"), "{why}");
}

/// A group mounted RESTRICTED takes no directory, even after its engine was killed, until it is
/// mounted anew.
#[test]
fn a_restricted_group_is_mounted_on_no_directory() {
    let instance = Instance::new();
    group_of_two(&instance);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    instance.sql("ALTER DISKGROUP data MOUNT RESTRICTED");
    let state = || instance.text("SELECT state FROM v$asm_diskgroup");
    assert_eq!(state(), "RESTRICTED");
    let point = instance.path("mnt").join("DATA");
    fs::create_dir_all(&point).expect("a directory");
    let mount = || instance.plinth(["mount".as_ref(), "DATA".as_ref(), point.as_os_str()]);
    assert!(format!("{}", mount()).contains("mounted RESTRICTED"), "{}", mount());
    let before = instance.engine("DATA");
    instance.kill_engine("DATA");
    wait_for("the next engine", || {
        instance.engine("DATA").is_some_and(|engine| Some(engine) != before)
            && state() == "RESTRICTED"
    });
    assert_ne!(mount().code, Some(0));
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    instance.sql("ALTER DISKGROUP data MOUNT");
    assert_eq!(state(), "MOUNTED");
    instance.mount("DATA");
}

/// A group that lost more than it can bear is given up, and its disks are free. A group that is in
/// use is not given up.
#[test]
fn a_group_that_cannot_be_mounted_is_dropped_by_force() {
    let instance = Instance::new();
    group_of_two(&instance);
    let mount = instance.mount("DATA");
    let _blocks = Blocks::new(mount.join("file"), 1, 10);
    let drop = "DROP DISKGROUP data FORCE INCLUDING CONTENTS";
    assert!(instance.refused(drop).contains("cannot be mounted; DATA is"));
    let other = Instance::new();
    other.sql(&format!(
        "ALTER SYSTEM SET asm_diskstring = '{}/*'",
        instance.path("disks").display()
    ));
    let held = other.refused(drop);
    assert!(held.contains("is held by another engine"), "{held}");
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    fs::rename(instance.disk("f1d0"), instance.path("away")).expect("hide a disk");
    instance.refused("ALTER DISKGROUP data MOUNT");
    instance.sql(drop);
    assert_eq!(instance.disk_row(&instance.disk("f0d0"))["header_status"], "FORMER");
    assert_eq!(instance.number("SELECT count(*) FROM v$asm_diskgroup"), 0.0);
    assert!(instance.refused(drop).contains("no disk of a disk group DATA was found"));
    fs::rename(instance.path("away"), instance.disk("f1d0")).expect("bring it back");
    assert_eq!(
        instance.disk_row(&instance.disk("f1d0"))["header_status"],
        "MEMBER",
        "it was missing"
    );
    instance.sql(drop);
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
}

/// Every attribute is shown, whether it was set or not; one that cannot be set says why.
#[test]
fn attributes_are_shown_and_say_why_not() {
    let instance = Instance::new();
    group_of_two(&instance);
    let value = |name: &str| {
        instance.text(&format!(
            "SELECT value || ' ' || read_only FROM v$asm_attribute WHERE name = '{name}'"
        ))
    };
    assert_eq!(value("phys_meta_replicated"), "true Y");
    assert_eq!(value("logical_sector_size"), "512 Y");
    assert_eq!(value("access_control.umask"), "066 N");
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'ACCESS_CONTROL.UMASK' = '026'");
    assert_eq!(value("access_control.umask"), "026 N");
    assert_eq!(instance.number("SELECT count(*) - count(DISTINCT name) FROM v$asm_attribute"), 0.0);
    for (name, value, says) in [
        ("content.check", "false", "is verified against its checksums"),
        ("cell.smart_scan_capable", "true", "about Exadata"),
        ("phys_meta_replicated", "false", "read-only"),
        ("access_control.umask", "077", "each 0, 2 or 6"),
        ("nonsense", "1", "there is no attribute"),
    ] {
        let refused =
            instance.refused(&format!("ALTER DISKGROUP data SET ATTRIBUTE '{name}' = '{value}'"));
        assert!(refused.contains(says), "{name}: {refused}");
    }
}
