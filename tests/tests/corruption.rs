//! Bytes that change on their own: in files, in headers, in memberships.

use plinth_tests::{
    Blocks, GIB, Instance, MIB, bytes, header_places, noise, overwrite, scaled, shell, wait_for,
};

/// The sum of a counter of `v$asm_disk` over all disks.
fn counted(instance: &Instance, column: &str) -> f64 {
    instance.number(&format!("SELECT SUM({column}) FROM v$asm_disk"))
}

/// Every block of a file loses one of its mirrors to noise, now on this disk, now on that, while
/// the group is in use. Reads return the right bytes and repair the mirrors that they meet, a view
/// counts it, the alert log names the disk, and a check repairs the rest.
#[test]
fn noise_on_any_mirror_is_mended() {
    let instance = Instance::new();
    // If one failure group were read more than the other, its disks would go offline before the rot
    // of the others is seen.
    let attributes = "'au_size' = '1M', 'disk_checksum_limit' = '0'";
    instance.create_group(
        "data",
        "NORMAL",
        &[&[256 * MIB, 256 * MIB], &[256 * MIB, 256 * MIB]],
        attributes,
    );
    let mount = instance.mount("DATA");
    let file = Blocks::new(mount.join("file"), 1, scaled(3_000, 10_000));
    let small = Blocks::new(mount.join("small"), 2, 2);
    instance.quiesce("DATA");
    let disks = ["f0d0", "f0d1", "f1d0", "f1d1"].map(|name| instance.disk(name));
    let mut struck = Vec::new();
    for blocks in [&file, &small] {
        let found: Vec<_> = disks.iter().map(|disk| blocks.find(disk)).collect();
        for index in 0..blocks.count() {
            let mirrors: Vec<_> =
                (0..disks.len()).filter(|disk| found[*disk].contains_key(&index)).collect();
            assert_eq!(mirrors.len(), 2, "block {index} has its mirrors on disks {mirrors:?}");
            let disk = mirrors[usize::try_from(index % 2).expect("0 or 1")];
            let place = found[disk][&index];
            noise(&disks[disk], place, 4096);
            struck.push((blocks, index, disk, place));
        }
    }
    let before = counted(&instance, "blocks_repaired");
    file.must_read_right();
    small.must_read_right();
    wait_for("a view to count what was mended", || counted(&instance, "blocks_repaired") > before);
    let log = instance.alert_log();
    assert!(
        (0..4).any(|disk| log.contains(&format!("DATA_000{disk}"))),
        "the alert log names no disk:\n{log}"
    );
    let mended = || {
        struck
            .iter()
            .filter(|(blocks, index, disk, place)| {
                bytes(&disks[*disk], *place, 4096) == blocks.block(*index)
            })
            .count()
    };
    wait_for("what was read to be mended", || mended() > 0);
    let repaired = instance.plinth(["check", "--repair", "DATA"]);
    assert!(matches!(repaired.code, Some(0 | 1)), "{repaired}");
    assert_eq!(mended(), struck.len(), "mirrors are left unmended");
    instance.check("DATA");
}

/// Each of the three copies of each disk's header is wiped, one per mount. The group mounts
/// and the copy is back.
#[test]
fn any_header_copy_is_mended() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 3, 100);
    instance.unmount(&mount);
    for copy in 0..4 {
        instance.sql("ALTER DISKGROUP data DISMOUNT");
        for name in ["f0d0", "f1d0"] {
            let disk = instance.disk(name);
            let place = header_places(&disk)[copy];
            assert!(bytes(&disk, place, 8) == b"PLINTHDK", "no header at {place} of {name}");
            overwrite(&disk, place, &[0; 4096]);
        }
        instance.sql("ALTER DISKGROUP data MOUNT");
        for name in ["f0d0", "f1d0"] {
            let disk = instance.disk(name);
            assert!(
                bytes(&disk, header_places(&disk)[copy], 8) == b"PLINTHDK",
                "copy {copy} of {name} is not back"
            );
        }
        assert_eq!(instance.offline_disks("DATA"), 0.0);
    }
    assert!(instance.alert_log().contains("header"), "the alert log does not speak of the headers");
    instance.mount("DATA");
    blocks.must_read_right();
    instance.check("DATA");
}

/// `dd` writes zeros and noise over headers, stamps, memberships and activity logs of both disks
/// while they are used. The engine writes them again and reports it; after its death, and after a
/// dismount, the group mounts without FORCE, with all its disks.
#[test]
fn metadata_overwritten_under_a_mounted_group_is_written_again() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 12, 200);
    let disks = ["f0d0", "f1d0"].map(|name| instance.disk(name));
    let dd = |from: &str, disk: usize, place: u64, length: u64| {
        let command =
            "dd if=\"$1\" of=\"$2\" bs=4096 seek=\"$3\" count=\"$4\" conv=notrunc status=none";
        let (seek, count) = ((place / 4096).to_string(), (length / 4096).to_string());
        shell(command).arg(from).arg(&disks[disk]).arg(seek).arg(count).ok();
    };
    let headers = |disk: usize| {
        let places = header_places(&disks[disk]);
        places.into_iter().all(|place| bytes(&disks[disk], place, 8) == b"PLINTHDK")
    };
    let lines =
        || instance.alert_log().lines().filter(|line| line.contains("It is written again")).count();
    for (round, [one, other]) in [[0, 1], [1, 0]].into_iter().enumerate() {
        let before = lines();
        header_places(&disks[one]).into_iter().for_each(|place| dd("/dev/zero", one, place, 4096));
        dd("/dev/zero", other, 4096, 8192);
        dd("/dev/urandom", other, 256 << 10, 768 << 10);
        dd("/dev/urandom", one, 64 << 10, 128 << 10);
        wait_for("the engine to look", || {
            lines() >= before + 2 && instance.plinth(["check", "DATA"]).code == Some(0)
        });
        assert!(headers(one), "no header is back on {}", disks[one].display());
        instance.check("DATA");
        if round == 0 {
            let first = instance.engine("DATA");
            instance.kill_engine("DATA");
            wait_for("the next engine to have mounted it", || {
                instance.engine("DATA").is_some_and(|engine| Some(engine) != first)
                    && instance.text("SELECT state FROM v$asm_diskgroup") == "MOUNTED"
            });
            blocks.must_read_right();
        } else {
            instance.unmount(&mount);
            instance.sql("ALTER DISKGROUP data DISMOUNT");
            instance.sql("ALTER DISKGROUP data MOUNT");
            instance.mount("DATA");
            blocks.must_read_right();
        }
        assert_eq!(instance.offline_disks("DATA"), 0.0);
        instance.check("DATA");
    }
}

/// One of three voters is lost while the group is dismounted: it mounts, and the disk is offline.
#[test]
fn one_voter_of_three_lost_mounts() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 4, 500);
    instance.unmount(&mount);
    for name in ["f0d0", "f1d0", "f2d0"] {
        instance.sql("ALTER DISKGROUP data DISMOUNT");
        std::fs::rename(instance.disk(name), instance.path("away")).expect("hide a disk");
        instance.sql("ALTER DISKGROUP data MOUNT");
        assert_eq!(instance.offline_disks("DATA"), 1.0, "without {name}");
        let mount = instance.mount("DATA");
        blocks.must_read_right();
        instance.unmount(&mount);
        std::fs::rename(instance.path("away"), instance.disk(name)).expect("bring it back");
        instance.sql("ALTER DISKGROUP data ONLINE ALL");
        instance.wait_until_whole("DATA");
    }
    instance.check("DATA");
}

/// One half carries on without the other. The stale half alone is refused, and the message has the
/// remedy; the half that carried on mounts, even after a restart; together the stale one catches
/// up.
#[test]
fn a_stale_half_is_refused_and_the_other_mounts() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let _before = Blocks::new(mount.join("before"), 5, 100);
    instance.sql("ALTER DISKGROUP data OFFLINE DISKS IN FAILGROUP f1");
    let after = Blocks::new(mount.join("after"), 6, 100);
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    std::fs::rename(instance.disk("f0d0"), instance.path("away")).expect("hide");
    let said = instance.refused("ALTER DISKGROUP data MOUNT");
    assert!(said.contains("attach disk DATA_0000"), "no remedy in: {said}");
    let said = instance.refused("ALTER DISKGROUP data MOUNT FORCE");
    assert!(said.contains("DATA_0000"), "no remedy in: {said}");
    std::fs::rename(instance.path("away"), instance.disk("f0d0")).expect("bring back");
    std::fs::rename(instance.disk("f1d0"), instance.path("away")).expect("hide");
    instance.sql("ALTER DISKGROUP data MOUNT");
    instance.plinth(["shutdown"]).ok();
    instance.stopped();
    instance.start();
    if instance.text("SELECT state FROM v$asm_diskgroup") != "MOUNTED" {
        instance.sql("ALTER DISKGROUP data MOUNT");
    }
    instance.mount("DATA");
    after.must_read_right();
    std::fs::rename(instance.path("away"), instance.disk("f1d0")).expect("bring back");
    instance.sql("ALTER DISKGROUP data ONLINE ALL");
    instance.wait_until_whole("DATA");
    assert_eq!(after.find(&instance.disk("f1d0")).len(), 100);
    instance.check("DATA");
}

/// Both halves carried on, each told by an operator to go without the other. They never count
/// together: one history is taken, and the other half's disk is copied whole.
#[test]
fn two_histories_are_not_mixed() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let alone = |hidden: &str, seed: u64| {
        std::fs::rename(instance.disk(hidden), instance.path("away")).expect("hide");
        instance.sql("ALTER DISKGROUP data MOUNT FORCE");
        let mount = instance.mount("DATA");
        let blocks = Blocks::new(mount.join(format!("alone{seed}")), seed, 200);
        instance.unmount(&mount);
        instance.sql("ALTER DISKGROUP data DISMOUNT");
        std::fs::rename(instance.path("away"), instance.disk(hidden)).expect("bring back");
        blocks
    };
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let first = alone("f1d0", 7);
    let second = alone("f0d0", 8);
    let said = instance.refused("ALTER DISKGROUP data MOUNT");
    assert!(said.contains("two histories") && said.contains("detach"), "{said}");
    // The remedy in the message: the half that is given up is detached, and copied whole when it
    // returns.
    std::fs::rename(instance.disk("f0d0"), instance.path("away")).expect("hide");
    instance.sql("ALTER DISKGROUP data MOUNT");
    std::fs::rename(instance.path("away"), instance.disk("f0d0")).expect("bring back");
    instance.sql("ALTER DISKGROUP data ONLINE ALL");
    instance.wait_until_whole("DATA");
    let mount = instance.mount("DATA");
    let there: Vec<_> =
        std::fs::read_dir(&mount).expect("list").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(there, ["alone8"], "two histories in one group");
    drop(first);
    let survivor = second;
    survivor.must_read_right();
    for disk in ["f0d0", "f1d0"] {
        assert_eq!(survivor.find(&instance.disk(disk)).len(), 200, "on {disk}");
    }
    instance.check("DATA");
}

/// Noise over a whole AU of a disk here and there, catalog and all: a group with two good
/// mirrors elsewhere mounts, reads right, and is whole after a repair.
#[test]
fn noise_in_the_catalog_is_survived() {
    let instance = Instance::new();
    let shape: &[&[u64]] = &[&[256 * MIB], &[256 * MIB], &[256 * MIB]];
    instance.create_group("data", "NORMAL", shape, "'au_size' = '1M'");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 9, 2_000);
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    // All of one disk but its system area and its checksum zone.
    let disk = instance.disk("f1d0");
    for au in 2..256 - 1 {
        if au != 128 {
            noise(&disk, au * MIB, 64 << 10);
        }
    }
    instance.sql("ALTER DISKGROUP data MOUNT");
    let mount = instance.mount("DATA");
    blocks.must_read_right();
    let repaired = instance.plinth(["check", "--repair", "DATA"]);
    assert!(matches!(repaired.code, Some(0 | 1)), "{repaired}");
    instance.check("DATA");
    blocks.must_read_right();
    instance.unmount(&mount);
}

/// `check` on the plain disk files of a dismounted group looks and does not touch; with `--repair`
/// it does; killed in the middle it does no harm.
#[test]
fn check_works_on_files_of_a_dismounted_group() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 10, 20_000);
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let disks = [instance.disk("f0d0"), instance.disk("f1d0")];
    let check = |repair: bool| {
        let mut arguments = vec!["check".into()];
        if repair {
            arguments.push("--repair".into());
        }
        arguments.extend(disks.iter().map(|disk| disk.clone().into_os_string()));
        instance.plinth(arguments)
    };
    check(false).ok();
    let (index, place) = blocks.find(&disks[1]).into_iter().nth(77).expect("blocks on the disk");
    noise(&disks[1], place, 4096);
    assert_eq!(
        check(false).code,
        Some(2),
        "a bad mirror was not reported, or was repaired unasked"
    );
    assert_ne!(bytes(&disks[1], place, 4096), blocks.block(index));
    for _ in 0..scaled(3, 20) {
        plinth_tests::shell(r#"timeout -s KILL 0.2 "$1" check --repair "$2" "$3""#)
            .arg(plinth_tests::binary())
            .arg(&disks[0])
            .arg(&disks[1])
            .finish();
    }
    let repaired = check(true);
    assert!(matches!(repaired.code, Some(0 | 1)), "{repaired}");
    assert_eq!(bytes(&disks[1], place, 4096), blocks.block(index));
    check(false).ok();
    instance.sql("ALTER DISKGROUP data MOUNT");
    instance.mount("DATA");
    blocks.must_read_right();
}
