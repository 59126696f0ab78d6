//! Devices that hang: foreign ones, and a group's own. No operation waits for one that is not
//! needed, and an engine that is killed ends.

use plinth_tests::{Blocks, Instance, MIB, wait_for};
use std::{
    process::{Child, Command},
    thread,
    time::Duration,
};

/// The lines of the alert log and the rows of `v$asm_disk` about a device that hangs.
fn it_is_named(instance: &Instance, name: &str) {
    let path = instance.disk(name);
    let line = format!("{} does not answer", path.display());
    wait_for("the alert log names it", || instance.alert_log().contains(&line));
    let row = instance.disk_row(&path);
    assert_eq!(row["header_status"], "UNKNOWN", "{row:?}");
    assert!(row["remark"].as_str().is_some_and(|remark| remark.contains("hangs")), "{row:?}");
}

/// A disk that belongs to no group hangs, whether it was probed before or not. Engine after engine
/// dies, groups are dismounted and mounted, made and dropped, disks are dropped and added: no
/// operation waits for it for long, and it is named. When it answers it is a disk like any other.
#[test]
fn a_foreign_device_that_hangs_blocks_no_operation() {
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
    wait_for("the alert log says so", || {
        instance.alert_log().contains(&format!("{} answers again", path.display()))
    });
}

/// A disk of a group hangs under a writer, and the engine is killed before it has noticed, or after
/// it went on without that disk. The dead engine's I/O in flight keeps that disk busy and nothing
/// else: the next engine mounts without it, and reports it. When it answers, the blocks that it
/// missed are copied.
#[test]
fn a_member_that_hangs_blocks_only_itself() {
    for noticed in [false, true] {
        let mut instance = Instance::new();
        instance.add_fault_disk("f2d0", 256 * MIB);
        let size = &[256 * MIB][..];
        let timeout = format!("'disk_timeout' = '{}'", if noticed { 2 } else { 60 });
        instance.create_group("data", "NORMAL", &[size, size, size], &timeout);
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
            // Its writes hang there, most likely.
            thread::sleep(Duration::from_millis(300));
        }
        let engine = instance.engine("DATA");
        instance.kill_engine("DATA");
        let during = writer.join().expect("the writer gets no error");
        wait_for("the next engine", || {
            instance.engine("DATA").is_some_and(|next| Some(next) != engine)
        });
        wait_for("it does without the disk", || instance.offline_disks("DATA") == 1.0);
        it_is_named(&instance, "f2d0");
        for blocks in [&before, &during] {
            blocks.must_read_right();
        }
        instance.faulty("f2d0").heal();
        if noticed {
            // A disk that hung under I/O is not taken back by itself.
            wait_for("it can be taken", || {
                instance.plinth(["sql", "-c", "ALTER DISKGROUP data ONLINE DISK data_0002"]).code
                    == Some(0)
            });
        }
        wait_for("it is back", || instance.offline_disks("DATA") == 0.0);
        instance.wait_until_whole("DATA");
        instance.check("DATA");
        for blocks in [&before, &during] {
            blocks.must_read_right();
        }
    }
}

/// Both at once, in a group of two failure groups without one of its disks on record: it is not
/// enough, and the refusal names the disk that hangs.
#[test]
fn a_group_that_needs_a_disk_that_hangs_says_which() {
    let mut instance = Instance::new();
    instance.add_fault_disk("f1d0", 256 * MIB);
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    instance.faulty("f1d0").hang();
    let refused = instance.refused("ALTER DISKGROUP data MOUNT");
    for says in [
        "missing: DATA_0001",
        &format!("{} does not answer", instance.disk("f1d0").display()),
        "hangs",
    ] {
        assert!(refused.contains(says), "{says} is missing: {refused}");
    }
    instance.faulty("f1d0").heal();
    let path = instance.disk("f1d0");
    wait_for("it answers", || instance.disk_row(&path)["header_status"] == "MEMBER");
    instance.sql("ALTER DISKGROUP data MOUNT");
    instance.check("DATA");
}

/// Disks are healthy, and the host has no processor time for the process that probes them: engine
/// after engine dies, and no disk is missing for that.
#[test]
fn a_busy_host_takes_no_disk_offline() {
    let instance = Instance::new();
    let size = &[256 * MIB][..];
    instance.create_group("data", "NORMAL", &[size, size, size], "'disk_timeout' = '300'");
    let mount = instance.mount("DATA");
    let mut written = vec![Blocks::new(mount.join("before"), 1, 100)];
    // Processes that the instance starts have its priority. A process that computes beside it gets
    // 28 times as much of a processor.
    for pid in instance.processes() {
        let done = Command::new("renice")
            .args(["-n", "15", "-p", &pid.to_string()])
            .output()
            .expect("renice");
        assert!(done.status.success(), "{done:?}");
    }
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let _busy: Vec<Busy> = (0..2 * processors).map(|_| Busy::start()).collect();
    for round in 2..5 {
        let engine = instance.engine("DATA");
        instance.kill_engine("DATA");
        written.push(Blocks::new(mount.join(format!("{round}")), round, 100));
        wait_for("the next engine", || {
            instance.engine("DATA").is_some_and(|next| Some(next) != engine)
        });
    }
    written.iter().for_each(Blocks::must_read_right);
    let log = instance.alert_log();
    for never in ["does not answer", "is offline", "is missing", "is not used", "offline: "] {
        assert!(!log.contains(never), "{never}:\n{log}");
    }
}

/// A process that does nothing but compute, until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
