//! POSIX semantics of files, tested by programs made for that.

use plinth_tests::{GIB, Instance, MIB, scaled, shell};
use std::path::PathBuf;

/// pjdfstest, fsx, fio and stress-ng find nothing that ext4 does not have.
#[test]
fn the_suites_for_posix_find_nothing() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[2 * GIB], &[2 * GIB]], "");
    let mount = instance.mount("DATA");
    let tools = std::env::var_os("PLINTH_POSIX_TOOLS").map_or_else(
        || {
            plinth_tests::binary()
                .parent()
                .expect("target/debug")
                .parent()
                .expect("target")
                .join("posix")
        },
        PathBuf::from,
    );
    let said = shell(r#"exec bash "$1" "$2" "$3" "$4""#)
        .env("R", &tools)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/posix.sh"))
        .arg(&mount)
        .arg(scaled("3000", "100000"))
        .arg(scaled("1", "10"))
        .finish();
    assert!(said.code == Some(0), "{said}");
    println!("{}", said.out);
    instance.check("DATA");
}

/// Mounted by `mount -t fuse.plinth`, through the helper.
#[test]
fn mount_finds_the_helper() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let point = instance.path("mnt").join("by-mount");
    std::fs::create_dir(&point).expect("mkdir");
    let helper = instance.path("bin");
    std::fs::create_dir(&helper).expect("mkdir");
    std::os::unix::fs::symlink(plinth_tests::binary(), helper.join("mount.fuse.plinth"))
        .expect("link");
    shell(r#""$1/mount.fuse.plinth" DATA "$2" -o rw"#)
        .arg(&helper)
        .arg(&point)
        .env("PLINTH_DIR", instance.dir())
        .ok();
    std::fs::write(point.join("file"), "x").expect("write");
    shell(r#"umount "$1""#).arg(&point).ok();
}

/// A program without privileges that changes a file clears its set-id bits, in whichever way it
/// changes it.
#[test]
fn set_id_bits_go_when_a_file_is_changed() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    for change in [
        "fallocate -l 1M",
        "fallocate -p -l 4096",
        "truncate -s 5",
        "dd if=/dev/zero count=1 conv=notrunc of=",
    ] {
        shell(
            r#"cd "$1"; rm -f tool; printf 'echo hello' >tool; chown nobody tool; chmod 6755 tool
               separator=' '; case "$2" in *=) separator=;; esac
               runuser -u nobody -- sh -c "$2${separator}tool"
               [ "$(stat -c '%a %b %Y %Z' tool | cut -d' ' -f1)" = 755 ] || { stat tool; exit 1; }"#,
        )
        .arg(&mount)
        .arg(change)
        .ok();
    }
}
