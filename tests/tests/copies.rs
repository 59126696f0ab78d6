//! Copies of all disks of a group, as an array's snapshot shows them to its host; and disks that
//! are late.

use plinth_tests::{Instance, MIB, wait_for};
use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

const DISKS: [&str; 2] = ["f0d0", "f1d0"];

fn store(path: &Path, byte: u8) {
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(path).expect("open");
    file.write_all_at(&vec![byte; 300_000], 0).expect("write");
    file.sync_all().expect("sync");
}

fn holds(path: &Path, byte: u8) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes == vec![byte; 300_000])
}

/// Copies every disk, beside it, and says where.
fn copy_all(instance: &Instance) -> Vec<PathBuf> {
    let copy = |name: &&str| {
        let path = instance.disk(&format!("copy.{name}"));
        fs::copy(instance.disk(name), &path).expect("a copy");
        path
    };
    DISKS.iter().map(copy).collect()
}

fn group(instance: &Instance) -> PathBuf {
    instance.create_group("data", "NORMAL", &[&[200 * MIB], &[200 * MIB]], "");
    instance.mount("data")
}

/// The engine dies, and an upgrade comes, while copies of all disks are visible: the group goes on
/// with its own, and the log names the copies.
#[test]
fn a_group_goes_on_with_its_own_disks_beside_copies_of_all() {
    let mut instance = Instance::new();
    let point = group(&instance);
    store(&point.join("table"), 1);
    let copies = copy_all(&instance);
    let before: Vec<_> = copies.iter().map(|copy| fs::read(copy).expect("read")).collect();
    store(&point.join("table"), 2);
    instance.kill_engine("data");
    let point = instance.mount_again("data");
    assert!(holds(&point.join("table"), 2));
    assert!(
        instance
            .alert_log()
            .contains("copy.f0d0 is a copy of disk DATA_0000 and is not used: this host uses")
    );
    instance.plinth(["upgrade", "data"]).ok();
    assert!(holds(&point.join("table"), 2));
    // Both die, and the instance comes back.
    instance.kill_engine("data");
    instance.kill_instance();
    instance.start();
    let point = instance.mount_again("data");
    assert!(holds(&point.join("table"), 2));
    // An operator dismounts it and mounts it again.
    instance.unmount(&point);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    instance.sql("ALTER DISKGROUP data MOUNT");
    assert!(holds(&instance.mount("data").join("table"), 2));
    assert_eq!(instance.offline_disks("data"), 0.0);
    assert!(
        copies.iter().zip(&before).all(|(copy, before)| fs::read(copy).expect("read") == *before),
        "a copy was written"
    );
}

/// A host on which nothing is noted: an upgrade is refused before the engine lets go, a mount names
/// both sets, and `renamedg` makes the copies a second group, beside the other.
#[test]
fn copies_get_a_name_of_their_own() {
    let instance = Instance::new();
    let point = group(&instance);
    store(&point.join("table"), 1);
    let copies = copy_all(&instance);
    store(&point.join("table"), 2);
    let engine = instance.engine("data");
    for entry in fs::read_dir(instance.dir()).expect("listed").flatten() {
        if entry.file_name().to_string_lossy().starts_with("disks.") {
            fs::remove_file(entry.path()).expect("removed");
        }
    }
    let refused = instance.plinth(["upgrade", "data"]);
    assert!(refused.code == Some(1) && refused.err.contains("stays with engine"), "{refused:?}");
    assert!(instance.engine("data") == engine && holds(&point.join("table"), 2));
    instance.unmount(&point);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let refusal = instance.refused("ALTER DISKGROUP data MOUNT");
    for name in DISKS {
        let pair = format!(
            "{} and {}",
            instance.disk(&format!("copy.{name}")).display(),
            instance.disk(name).display()
        );
        assert!(refusal.contains(&pair), "{refusal}");
    }
    assert!(refusal.contains("plinth renamedg"), "{refusal}");

    let plan = instance.path("plan");
    let words = |more: &[&str]| {
        let mut words =
            vec!["renamedg".to_owned(), "dgname=data".to_owned(), "newdgname=copy".to_owned()];
        words.push(format!("config={}", plan.display()));
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words
    };
    let string = format!("asm_diskstring={}", instance.disk("copy.*").display());
    let both = format!("asm_diskstring={}", instance.disk("*").display());
    assert_eq!(
        instance.plinth(words(&[&both])).code,
        Some(1),
        "disks and copies are not told apart"
    );
    instance.plinth(words(&[&string, "check=true"])).ok();
    assert!(!plan.exists());
    instance.plinth(words(&[&string, "phase=one"])).ok();
    assert_eq!(instance.plinth(words(&[&string, "phase=one"])).code, Some(1), "there is a plan");
    let hidden = instance.path("hidden");
    fs::rename(&copies[1], &hidden).expect("hidden");
    let before = fs::read(&copies[0]).expect("read");
    assert_eq!(instance.plinth(words(&[&string, "phase=two"])).code, Some(1), "one is missing");
    assert!(fs::read(&copies[0]).expect("read") == before, "all, or none");
    fs::rename(&hidden, &copies[1]).expect("shown");
    let done = instance.plinth(words(&[&string, "phase=two", "verbose=true"]));
    assert!(
        done.code == Some(0) && done.out.contains("2 disks are of disk group COPY now"),
        "{done:?}"
    );
    assert!(!plan.exists());

    instance.sql("ALTER DISKGROUP data MOUNT");
    instance.sql("ALTER DISKGROUP copy MOUNT");
    let (point, copy) = (instance.mount("data"), instance.mount("copy"));
    assert!(holds(&point.join("table"), 2) && holds(&copy.join("table"), 1));
    store(&copy.join("table"), 3);
    assert!(holds(&point.join("table"), 2));
    instance.check("data");
    instance.check("copy");
    let refused = instance.plinth(["renamedg", "dgname=copy", "newdgname=third", &string]);
    assert!(refused.code == Some(1) && refused.err.contains("is in use"), "{refused:?}");
}

/// A disk appears when the instance has started already: the start waits for it, and it is ONLINE.
/// One that stays away for longer comes back by itself.
#[test]
fn a_disk_that_is_late_is_online_all_the_same() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[200 * MIB], &[200 * MIB], &[200 * MIB]], "");
    let hidden = instance.path("hidden");
    let stop = |instance: &mut Instance| {
        instance.plinth(["shutdown"]).ok();
        instance.stopped();
        fs::rename(instance.disk("f1d0"), &hidden).expect("hidden");
        instance.start();
    };
    stop(&mut instance);
    wait_for("the start to wait", || {
        instance.alert_log().contains("waits up to 10 s for missing disks: DATA_0001")
    });
    fs::rename(&hidden, instance.disk("f1d0")).expect("shown");
    wait_for("the disk", || instance.alert_log().contains("all disks were found after"));
    let all_online = |instance: &Instance| {
        let select =
            "SELECT COUNT(*) FROM v$asm_disk WHERE group_number > 0 AND mode_status = 'ONLINE'";
        wait_for("all disks to be ONLINE", || instance.number(select) == 3.0);
    };
    all_online(&instance);
    assert!(!instance.alert_log().contains("resync begins"), "it was there in time");

    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'mount_wait' = '0'");
    stop(&mut instance);
    wait_for("the mount", || {
        instance.alert_log().contains("disk group mounted, 3 disks; offline: DATA_0001")
    });
    fs::rename(&hidden, instance.disk("f1d0")).expect("shown");
    all_online(&instance);
    assert!(instance.alert_log().contains("is back: resync begins"));
    instance.check("data");
}
