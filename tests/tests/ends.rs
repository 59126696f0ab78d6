//! Both ends of all disks of a stopped group are overwritten: partition tools, swap, volume
//! managers. And groups of earlier versions, whose records stood in the first MiB alone.

use plinth_tests::{Blocks, Instance, MIB, noise, shell, wait_for};
use std::path::{Path, PathBuf};

/// Commands that an operator gives who takes a device for a free one. `$1` is the device.
const TOOLS: [(&str, &str); 8] = [
    ("a GPT", r#"parted -s "$1" mklabel gpt"#),
    (
        "a GPT with partitions",
        r#"printf ',64M,L\n,,S\n' | sfdisk --quiet --no-reread --label gpt "$1""#,
    ),
    ("an MBR", r#"parted -s "$1" mklabel msdos"#),
    ("swap", r#"mkswap --force "$1""#),
    ("a physical volume", r#"pvcreate --force --force --yes "$1""#),
    (
        "a physical volume with two copies of metadata",
        r#"pvcreate --force --force --yes --metadatacopies 2 "$1""#,
    ),
    ("wipefs", r#"wipefs --all --force "$1""#),
    (
        "zeros over both ends",
        r#"dd if=/dev/zero of="$1" bs=512 count=2048 conv=notrunc status=none
        dd if=/dev/zero of="$1" bs=512 count=2048 seek=$(($(blockdev --getsz "$1") - 2048)) conv=notrunc status=none"#,
    ),
];

/// Each tool meets all disks of a group at once, after a dismount and after the engine's death. The
/// group mounts by itself, and every byte is right.
#[test]
fn tools_on_both_ends_of_all_disks_are_survived() {
    for sector in [512, 4096] {
        let mut instance = Instance::new();
        let size = 200 * MIB + 123 * 4096;
        let disks: Vec<PathBuf> =
            ["f0d0", "f1d0"].map(|name| instance.add_loop_disk(name, size, sector)).into();
        instance.create_group("data", "NORMAL", &[&[size], &[size]], "");
        let mount = instance.mount("DATA");
        let file = Blocks::new(mount.join("file"), 1, 10_000);
        let small = Blocks::new(mount.join("small"), 2, 2);
        instance.unmount(&mount);
        for (what, tool) in TOOLS {
            instance.sql("ALTER DISKGROUP data DISMOUNT");
            for disk in &disks {
                let device = disk.canonicalize().expect("a device");
                shell(tool).arg(device).ok();
            }
            instance.sql("ALTER DISKGROUP data MOUNT");
            assert_eq!(instance.offline_disks("DATA"), 0.0, "after {what}");
            instance.mount("DATA");
            file.must_read_right();
            small.must_read_right();
            instance.unmount(&mount);
            instance.check("DATA");
        }
        assert!(!instance.alert_log().contains("old image"), "{}", instance.alert_log());
    }
}

/// A group that an earlier version made, with records in the first MiB alone, and data in the last:
/// it mounts, keeps its files, and survives what the others survive.
#[test]
fn a_group_of_an_earlier_version_gets_a_second_area() {
    let instance = Instance::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/one-area");
    let disks = ["a", "b"].map(|name| instance.disk(name));
    for (name, disk) in ["a.gz", "b.gz"].iter().zip(&disks) {
        shell(r#"gzip -dc "$1" >"$2""#).arg(fixtures.join(name)).arg(disk).ok();
    }
    let dump =
        |disk: &Path| instance.plinth(["dump".as_ref(), disk.as_os_str(), "header".as_ref()]).ok();
    let areas = |disk: &Path, count: u32| {
        dump(disk)
            .lines()
            .any(|line| line.split_whitespace().eq(["record", "areas", &count.to_string()]))
    };
    assert!(disks.iter().all(|disk| areas(disk, 1)), "{}", dump(&disks[0]));
    instance.sql("ALTER DISKGROUP data MOUNT");
    let is_right = || {
        let mount = instance.mount("DATA");
        shell(r#"cd "$1" && sha256sum --quiet --check "$2""#)
            .arg(&mount)
            .arg(fixtures.join("sha256sums"))
            .ok();
        instance.unmount(&mount);
    };
    is_right();
    assert!(disks.iter().all(|disk| areas(disk, 2)), "{}", dump(&disks[0]));
    wait_for("nothing to lie in the last MiB of a disk", || {
        disks.iter().all(|disk| dump(disk).contains(&format!("{} bytes", 24 * MIB)))
    });
    instance.check("DATA");
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    for disk in &disks {
        let size = std::fs::metadata(disk).expect("a disk").len();
        noise(disk, 0, 1 << 20);
        noise(disk, size - MIB, 1 << 20);
    }
    instance.sql("ALTER DISKGROUP data MOUNT");
    is_right();
    instance.check("DATA");
}
