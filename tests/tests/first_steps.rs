//! The first ten minutes of a newcomer.

use plinth_tests::{GIB, Instance, MIB, shell};
use std::{fs, path::Path};

/// Four disks in two failure groups become a group; its files are files; files written before a
/// dismount are there after the next mount.
#[test]
fn a_group_is_made_mounted_and_used() {
    for io in ["uring", "threads"] {
        let instance = Instance::with_io(io);
        instance.create_group(
            "data",
            "NORMAL",
            &[&[256 * MIB, 256 * MIB], &[256 * MIB, 256 * MIB]],
            "",
        );
        assert_eq!(
            instance.text("SELECT state FROM v$asm_diskgroup WHERE name = 'DATA'"),
            "MOUNTED"
        );
        assert_eq!(instance.text("SELECT type FROM v$asm_diskgroup"), "NORMAL");
        let mount = instance.mount("DATA");
        shell(
            r#"cd "$1"; mkdir -p a/b; echo hello > a/b/c; ln a/b/c hard; ln -s a/b/c soft
               dd if=/dev/zero of=big bs=1M count=20 status=none; mv big a/large; rm hard; sync"#,
        )
        .arg(&mount)
        .ok();
        instance.unmount(&mount);
        instance.sql("ALTER DISKGROUP data DISMOUNT");
        assert_eq!(
            instance.text("SELECT state FROM v$asm_diskgroup WHERE name = 'DATA'"),
            "DISMOUNTED"
        );
        instance.sql("ALTER DISKGROUP data MOUNT");
        let mount = instance.mount("DATA");
        assert_eq!(fs::read_to_string(mount.join("soft")).expect("read"), "hello\n");
        assert_eq!(fs::metadata(mount.join("a/large")).expect("stat").len(), 20 * MIB);
        assert!(!mount.join("hard").exists());
        instance.check("DATA");
    }
}

/// An external group of one disk is enough to begin with, and mirrors nothing.
#[test]
fn an_external_group_of_one_disk() {
    let instance = Instance::new();
    instance.create_group("solo", "EXTERNAL", &[&[256 * MIB]], "");
    assert_eq!(instance.text("SELECT type FROM v$asm_diskgroup"), "EXTERN");
    let mount = instance.mount("SOLO");
    fs::write(mount.join("x"), vec![7; 3 << 20]).expect("write");
    assert_eq!(fs::read(mount.join("x")).expect("read"), vec![7; 3 << 20]);
}

/// A group is dropped: refused while it holds files, until the statement includes them; its disks
/// are then free.
#[test]
fn a_group_is_dropped() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    fs::write(mount.join("precious"), "x").expect("write");
    instance.unmount(&mount);
    let said = instance.refused("DROP DISKGROUP data");
    assert!(said.contains("INCLUDING CONTENTS"), "{said}");
    // Files that an engine leaves for the next one, and its output, go with the group.
    let left = || {
        let entries = fs::read_dir(instance.dir()).expect("the instance's directory");
        let names = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        names
            .filter(|name| {
                name.contains("DATA") || name.starts_with("kept.") || name.starts_with("disks.")
            })
            .collect::<Vec<_>>()
    };
    assert!(!left().is_empty());
    instance.sql("DROP DISKGROUP data INCLUDING CONTENTS");
    assert_eq!(left(), <[&str; 0]>::default());
    assert_eq!(instance.number("SELECT COUNT(*) FROM v$asm_diskgroup"), 0.0);
    let row = instance.disk_row(&instance.disk("f0d0"));
    assert_eq!(row["header_status"], "FORMER", "{row:?}");
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
}

/// Plain psql works: it lists the views, and its answers have the usual form.
#[test]
fn psql_lists_the_views() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let psql = |sql: &str| shell(r#"psql -X -h "$1" -c "$2""#).arg(instance.dir()).arg(sql).ok();
    let views = psql("\\dv");
    for view in ["diskgroup", "disk", "file", "alias", "operation", "attribute"] {
        assert!(
            views.contains(&format!("v$asm_{view}")),
            "\\dv does not show v$asm_{view}:\n{views}"
        );
        psql(&format!("SELECT * FROM v$asm_{view}"));
    }
    let disks =
        psql("SELECT name, failgroup, mode_status, header_status FROM v$asm_disk ORDER BY name");
    assert!(
        disks.contains("DATA_0000") && disks.contains("ONLINE") && disks.contains("MEMBER"),
        "{disks}"
    );
    // Every way to write a join finds the same.
    for from in [
        "v$asm_disk d, v$asm_diskgroup g WHERE d.group_number = g.group_number",
        "v$asm_disk d JOIN v$asm_diskgroup g ON d.group_number = g.group_number",
        "v$asm_disk JOIN v$asm_diskgroup USING (group_number)",
        "v$asm_disk LEFT JOIN v$asm_diskgroup USING (group_number, sector_size) WHERE type = 'NORMAL'",
        "V$ASM_DISK_STAT join \"v$asm_diskgroup_stat\" using (group_number)",
        "v$asm_disk d NATURAL JOIN (SELECT group_number, sector_size FROM v$asm_diskgroup) g",
    ] {
        assert_eq!(instance.text(&format!("SELECT count(*) FROM {from}")), "2", "{from}");
    }
    let said =
        shell(r#"psql -X -h "$1" -c 'SELECT name FRM v$asm_disk'"#).arg(instance.dir()).finish();
    assert!(said.err.contains("LINE 1:") && said.err.contains('^'), "no place in: {said}");
}

/// The command line prints the rows of the views, as tables and as JSON.
#[test]
fn the_command_line_shows_and_copies() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    fs::create_dir(mount.join("dir")).expect("mkdir");
    fs::write(mount.join("dir/file"), "through the mount").expect("write");
    for command in ["lsdg", "lsdsk", "lsop"] {
        instance.plinth([command]).ok();
        let json = instance.plinth([command, "--json"]).ok();
        serde_json::from_str::<serde_json::Value>(&json)
            .unwrap_or_else(|error| panic!("{command}: {error}: {json}"));
    }
    assert!(instance.plinth(["lsdg"]).ok().contains("DATA"));
    assert!(instance.plinth(["ls", "+DATA/dir"]).ok().contains("file"));
    assert!(instance.plinth(["ls", "-ls", "+DATA/dir"]).ok().contains("17"));
    let local = instance.path("local");
    let copy = |from: &Path, to: &Path| {
        instance.plinth(["cp".as_ref(), from.as_os_str(), to.as_os_str()]).ok();
    };
    copy("+DATA/dir/file".as_ref(), &local);
    assert_eq!(fs::read_to_string(&local).expect("read"), "through the mount");
    fs::write(&local, "through the command line").expect("write");
    copy(&local, "+DATA/dir/second".as_ref());
    assert_eq!(
        fs::read_to_string(mount.join("dir/second")).expect("read"),
        "through the command line"
    );
    for disk in ["f0d0", "f1d0"] {
        let text = instance.plinth(["dump".as_ref(), instance.disk(disk).as_os_str()]).ok();
        assert!(text.contains("DATA") && text.contains("F0") | text.contains("F1"), "{text}");
    }
}

/// A change through one way of access is visible through the other at once: names and bytes are not
/// cached.
#[test]
fn changes_of_the_command_line_are_seen_by_the_mount() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    fs::write(mount.join("file"), "before").expect("write");
    assert_eq!(fs::read_to_string(mount.join("file")).expect("read"), "before");
    let local = instance.path("local");
    fs::write(&local, "after, and longer").expect("write");
    instance.plinth(["cp".as_ref(), local.as_os_str(), "+DATA/file".as_ref()]).ok();
    assert_eq!(fs::read_to_string(mount.join("file")).expect("read"), "after, and longer");
    assert!(!mount.join("new").exists());
    instance.plinth(["cp".as_ref(), local.as_os_str(), "+DATA/new".as_ref()]).ok();
    assert!(mount.join("new").exists());
}

/// An instance stopped in good order and started again mounts the groups that were mounted.
#[test]
fn a_shut_down_instance_comes_back() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    fs::write(mount.join("file"), "kept").expect("write");
    // Another may start at once, although this one has much memory to give back.
    let large = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r WHERE x < 1500000) SELECT x, hex(zeroblob(30)) FROM r";
    shell(r#"psql -X -h "$1" -c "$2" -o /dev/null"#).arg(instance.dir()).arg(large).ok();
    instance.plinth(["shutdown"]).ok();
    let next = shell(r#"timeout 2 "$1" serve --dir "$2" 2>&1 || true"#)
        .arg(plinth_tests::binary())
        .arg(instance.dir())
        .ok();
    assert!(next.contains("ready"), "{next}");
    instance.stopped();
    instance.start();
    instance.plinth(["shutdown"]).ok();
    instance.stopped();
    assert!(instance.engine("DATA").is_none(), "an engine outlived the shutdown");
    instance.start();
    assert_eq!(instance.text("SELECT state FROM v$asm_diskgroup WHERE name = 'DATA'"), "MOUNTED");
    let mount = instance.mount_again("DATA");
    assert_eq!(fs::read_to_string(mount.join("file")).expect("read"), "kept");
}
