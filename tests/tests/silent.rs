//! Devices that hang: a stranger's, and a group's own. Nobody waits for one that is not needed, and an engine that is killed is gone.

use plinth_tests::{Blocks, Instance, MIB, wait_for};
use std::{fs, path::PathBuf, process::Command, thread};

/// What the alert log and `v$asm_disk` say of a device that hangs.
fn it_is_named(instance: &Instance, name: &str) {
    let path = instance.disk(name);
    let line = format!("{} does not answer", path.display());
    wait_for("the alert log names it", || instance.alert_log().contains(&line));
    let row = instance.disk_row(&path);
    assert_eq!(row["header_status"], "UNKNOWN", "{row:?}");
    assert!(row["remark"].as_str().is_some_and(|remark| remark.contains("hangs")), "{row:?}");
}

/// A disk that belongs to nobody hangs, whether it was looked at before or not. Engine after engine dies, groups are dismounted and mounted,
/// made and dropped, disks go and come: nobody waits for it for long, and it is named. When it answers it is a disk like any other.
#[test]
fn a_strangers_device_that_hangs_is_in_nobodys_way() {
    let mut instance = Instance::new();
    instance.add_fault_disk("stranger", 64 * MIB);
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let mut written = vec![Blocks::new(mount.join("before"), 1, 100)];
    instance.faulty("stranger").hang();
    for round in 2..5 {
        let before = instance.engine("DATA");
        instance.kill_engine("DATA");
        // Waits for the next engine, and would get an error after 30 s.
        written.push(Blocks::new(mount.join(format!("{round}")), round, 100));
        assert_ne!(instance.engine("DATA"), before);
    }
    it_is_named(&instance, "stranger");
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    instance.sql("ALTER DISKGROUP data MOUNT");
    instance.mount("DATA");
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0001");
    instance.sql("ALTER DISKGROUP data ONLINE DISK data_0001");
    instance.wait_until_whole("DATA");
    let other = instance.add_disk("other", 64 * MIB);
    instance.sql(&format!("CREATE DISKGROUP other EXTERNAL REDUNDANCY DISK '{}'", other.display()));
    instance.sql("DROP DISKGROUP other");
    written.iter().for_each(Blocks::must_read_right);
    instance.check("DATA");
    instance.faulty("stranger").heal();
    let path = instance.disk("stranger");
    wait_for("it is a disk again", || instance.disk_row(&path)["header_status"] == "CANDIDATE");
    wait_for("the alert log says so", || instance.alert_log().contains(&format!("{} answers again", path.display())));
}

/// A disk of a group hangs under a writer, and the engine is killed before it has noticed, or after it did without that disk. What the dead
/// engine has under way there keeps that disk and nothing else: the next engine mounts without it, and says so. When it answers, what it
/// missed is copied.
#[test]
fn a_member_that_hangs_keeps_nothing_but_itself() {
    for noticed in [false, true] {
        let mut instance = Instance::new();
        instance.add_fault_disk("f2d0", 256 * MIB);
        let size = &[256 * MIB][..];
        instance.create_group("data", "NORMAL", &[size, size, size], "'disk_timeout' = '2'");
        let mount = instance.mount("DATA");
        let before = Blocks::new(mount.join("before"), 1, 1000);
        instance.faulty("f2d0").hang();
        let writer = thread::spawn({
            let path = mount.join("during");
            move || Blocks::new(path, 2, 4000)
        });
        if noticed {
            wait_for("it is offline", || instance.offline_disks("DATA") == 1.0);
        } else {
            // Its writes hang there.
            wait_for("the writer has begun", || fs::metadata(mount.join("during")).is_ok());
        }
        let engine = instance.engine("DATA");
        instance.kill_engine("DATA");
        let during = writer.join().expect("the writer gets no error");
        assert_ne!(instance.engine("DATA"), engine);
        assert_eq!(instance.offline_disks("DATA"), 1.0);
        it_is_named(&instance, "f2d0");
        for blocks in [&before, &during] {
            blocks.must_read_right();
        }
        instance.faulty("f2d0").heal();
        wait_for("it can be taken", || {
            instance.plinth(["sql", "-c", "ALTER DISKGROUP data ONLINE DISK data_0002"]).code == Some(0)
        });
        instance.wait_until_whole("DATA");
        instance.check("DATA");
        for blocks in [&before, &during] {
            blocks.must_read_right();
        }
    }
}

/// Both at once, in a group of two failure groups without one of its disks on record: it is not enough, and the refusal names what hangs.
#[test]
fn a_group_that_needs_a_disk_that_hangs_says_which() {
    let mut instance = Instance::new();
    instance.add_fault_disk("f1d0", 256 * MIB);
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    instance.faulty("f1d0").hang();
    let refused = instance.refused("ALTER DISKGROUP data MOUNT");
    for says in ["missing: DATA_0001", &format!("{} does not answer", instance.disk("f1d0").display()), "hangs"] {
        assert!(refused.contains(says), "{says} is missing: {refused}");
    }
    instance.faulty("f1d0").heal();
    let path = instance.disk("f1d0");
    wait_for("it answers", || instance.disk_row(&path)["header_status"] == "MEMBER");
    instance.sql("ALTER DISKGROUP data MOUNT");
    instance.check("DATA");
}

/// A device that is made read-only, and is not when this is dropped: a loop device stays so when its file is gone.
struct ReadOnly(PathBuf);

impl ReadOnly {
    fn set(&self, flag: &str) {
        let done = Command::new("blockdev").arg(flag).arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()), "blockdev {flag} {}", self.0.display());
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = Command::new("blockdev").arg("--setrw").arg(&self.0).status();
    }
}

/// Disks that cannot be written are disks that are missing: named with the reason, and the group is mounted if it is whole without them.
#[test]
fn a_member_that_is_read_only_is_missing() {
    let mut instance = Instance::new();
    let device = instance.add_loop_disk("f2d0", 256 * MIB, 512);
    let read_only = ReadOnly(fs::canonicalize(&device).expect("a device"));
    let size = &[256 * MIB][..];
    instance.create_group("data", "NORMAL", &[size, size, size], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 1, 1000);
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    read_only.set("--setro");
    // ONLINE until now; and then OFFLINE.
    for _ in 0..2 {
        instance.sql("ALTER DISKGROUP data MOUNT");
        assert_eq!(instance.offline_disks("DATA"), 1.0);
        let log = instance.alert_log();
        assert!(log.contains("disk DATA_0002 cannot be used") && log.contains("is read-only"), "{log}");
        assert!(!log.contains("DATA_0002 (failure group f2) is not in sight"), "it is in sight:\n{log}");
        let engine = instance.engine("DATA");
        instance.kill_engine("DATA");
        wait_for("the next engine", || instance.engine("DATA").is_some_and(|next| Some(next) != engine));
        wait_for("it has mounted it", || instance.try_query("SELECT * FROM v$asm_file").is_some());
        instance.sql("ALTER DISKGROUP data DISMOUNT");
    }
    instance.sql("ALTER DISKGROUP data MOUNT");
    let mount = instance.mount("DATA");
    assert!(mount.join("file").exists());
    blocks.must_read_right();
    read_only.set("--setrw");
    instance.sql("ALTER DISKGROUP data ONLINE DISK data_0002");
    instance.wait_until_whole("DATA");
    instance.check("DATA");
}
