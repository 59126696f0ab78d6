//! Where the space of a thin disk comes from: in words for the operator who is to make room there,
//! and by a name of the pool that tells which disks share it.
//!
//! ```text
//!   a file                       the file system that has it, by its mount point
//!   a loop device                the file system of its file
//!   a device-mapper device       the thin pool among the devices below it, by its name; else those
//!                                devices
//!   anything else                the device: the array has the pool
//! ```
//!
//! A file system is named by its device number, which is the same through all of its mounts. The
//! pool in an array has no name here.
//!
//! All of it is read from sysfs and the list of mounts: the device itself is not touched.

use super::disk::Medium;
use plinth_engine::world::SpaceFrom;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Devices below devices are followed to this depth.
const DEPTH: usize = 8;

/// The place that the space of a disk at `path` comes from.
pub(super) fn describe(path: &str, medium: Medium) -> SpaceFrom {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    match medium.sysfs() {
        Some(device) => of_device(Path::new(&device), path, &mounts),
        None => {
            let file = fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
            of_file(&file, &mounts)
        }
    }
}

fn of_file(file: &Path, mounts: &str) -> SpaceFrom {
    let file_name = file.display();
    match mount_of(file, mounts) {
        Some(Mount { point, source, device }) => SpaceFrom {
            words: format!("the file system at {point} ({source}), which has the file {file_name}"),
            pool: Some(format!("file system {device}")),
        },
        None => SpaceFrom { words: format!("the file system of {file_name}"), pool: None },
    }
}

/// `device`: its directory in sysfs. Of a partition the whole device counts.
fn of_device(device: &Path, path: &str, mounts: &str) -> SpaceFrom {
    let read = |leaf: &str| {
        let text = fs::read_to_string(device.join(leaf)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    // sysfs resolves a link before "..".
    if read("partition").is_some() {
        return of_device(&device.join(".."), path, mounts);
    }
    if let Some(file) = read("loop/backing_file") {
        return of_file(Path::new(&file), mounts);
    }
    let Some(name) = read("dm/name") else {
        return SpaceFrom { words: format!("the storage below {path}"), pool: None };
    };
    match pool_below(device, DEPTH) {
        Some(pool) => SpaceFrom {
            words: format!("the thin pool {pool} of the device-mapper device {name}"),
            pool: Some(format!("thin pool {pool}")),
        },
        None => SpaceFrom {
            words: format!("{}, below the device-mapper device {name}", slaves(device).join(", ")),
            pool: None,
        },
    }
}

/// The name of the thin pool that a device-mapper device is in: LVM marks it in its uuid.
fn pool_below(device: &Path, depth: usize) -> Option<String> {
    let names = slaves(device);
    names.iter().find_map(|slave| {
        let slave = device.join("slaves").join(slave);
        let read = |leaf: &str| fs::read_to_string(slave.join("dm").join(leaf)).ok();
        let uuid = read("uuid").unwrap_or_default();
        let is_pool = ["-tpool", "-pool", "-vpool"].iter().any(|end| uuid.trim().ends_with(end));
        match is_pool {
            true => read("name").map(|name| name.trim().to_owned()),
            false => depth.checked_sub(1).and_then(|depth| pool_below(&slave, depth)),
        }
    })
}

/// The devices right below one, as the kernel names them.
fn slaves(device: &Path) -> Vec<String> {
    let entries = fs::read_dir(device.join("slaves")).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

struct Mount {
    point: String,
    source: String,
    /// The number of the file system's device, `major:minor`.
    device: String,
}

/// The mount of the file system that has a file, by a list of mounts as in `/proc/self/mountinfo`.
/// Of two at one place the later one covers the earlier.
fn mount_of(file: &Path, mounts: &str) -> Option<Mount> {
    let parse = |line: &str| {
        let (mount, source) = line.split_once(" - ")?;
        let mut words = mount.split(' ').skip(2);
        let device = words.next()?.to_owned();
        let point = unescape(words.nth(1)?);
        let source = unescape(source.split(' ').nth(1)?);
        file.starts_with(&point).then_some(Mount { point, source, device })
    };
    mounts.lines().filter_map(parse).max_by_key(|mount| mount.point.len())
}

/// A name in the list of mounts: blanks and backslashes are `\ooo`, octal.
fn unescape(name: &str) -> String {
    let mut parts = name.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) => text.extend([char::from(code)].into_iter().chain(part[3..].chars())),
            None => text.extend(['\\'].into_iter().chain(part.chars())),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
        40 22 0:36 / /srv rw shared:2 - tmpfs none rw\n\
        41 40 7:3 / /srv/thin\\040pool rw - xfs /dev/loop3 rw\n";

    /// A directory like that of a device in sysfs.
    fn device(directory: &Path, leaves: &[(&str, &str)]) -> PathBuf {
        for (leaf, text) in leaves {
            let leaf = directory.join(leaf);
            fs::create_dir_all(leaf.parent().expect("it is in a directory")).expect("a directory");
            fs::write(leaf, format!("{text}\n")).expect("a file");
        }
        directory.to_owned()
    }

    fn scratch(name: &str) -> PathBuf {
        let name = format!("plinth-space-from-{}-{name}", std::process::id());
        std::env::temp_dir().join(name)
    }

    #[test]
    fn a_file_is_in_the_innermost_file_system() {
        let told = of_file(Path::new("/srv/thin pool/d1"), MOUNTS);
        assert_eq!(
            told.words,
            "the file system at /srv/thin pool (/dev/loop3), which has the file /srv/thin pool/d1"
        );
        assert_eq!(told.pool.as_deref(), Some("file system 7:3"));
        let is_in = |file: &str| mount_of(Path::new(file), MOUNTS).expect("it is somewhere").point;
        assert_eq!((is_in("/srv/d1"), is_in("/srv2/d1")), ("/srv".to_owned(), "/".to_owned()));
    }

    #[test]
    fn the_space_of_a_loop_device_and_its_partitions_is_that_of_its_file() {
        let root = scratch("loop");
        let whole = device(&root, &[("loop/backing_file", "/srv/d1")]);
        let partition = device(&root.join("loop0p1"), &[("partition", "1")]);
        for device in [whole, partition] {
            let told = of_device(&device, "/dev/loop0", MOUNTS);
            assert!(told.words.starts_with("the file system at /srv (none)"), "{told:?}");
        }
        fs::remove_dir_all(root).expect("it was made");
    }

    #[test]
    fn the_thin_pool_is_found_below_other_devices() {
        let root = scratch("dm");
        let crypt = device(&root, &[("dm/name", "crypt0"), ("dm/uuid", "CRYPT-LUKS2-1")]);
        let thin = [("dm/name", "vg-thin"), ("dm/uuid", "LVM-1")];
        let thin = device(&root.join("slaves/dm-3"), &thin);
        let told = of_device(&crypt, "/dev/x", MOUNTS);
        assert!(told.words.starts_with("dm-3, below") && told.pool.is_none(), "{told:?}");
        let pool = [("dm/name", "vg-pool-tpool"), ("dm/uuid", "LVM-2-tpool")];
        device(&thin.join("slaves/dm-2"), &pool);
        let told = of_device(&crypt, "/dev/x", MOUNTS);
        assert_eq!(told.words, "the thin pool vg-pool-tpool of the device-mapper device crypt0");
        assert_eq!(told.pool.as_deref(), Some("thin pool vg-pool-tpool"));
        let array = device(&root.join("sdx"), &[("size", "1")]);
        let told = of_device(&array, "/dev/sdx", MOUNTS);
        assert_eq!((told.words.as_str(), told.pool), ("the storage below /dev/sdx", None));
        fs::remove_dir_all(root).expect("it was made");
    }
}
