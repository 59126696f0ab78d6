//! Whether a disk mirrors by itself, as far as a host can know: for groups in EXTERNAL redundancy.
//!
//! ```text
//!   a file, a loop device             no
//!   MD                                raid1, 4, 5, 6, 10: yes; others: no
//!   a SATA drive, an NVMe drive       no
//!   a LUN, a virtual disk, a device   unknown: the array, the hypervisor or the volume manager
//!   of device mapper                  knows
//! ```
//!
//! All of it is read from sysfs: the device itself is not touched.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Whether a disk mirrors, with words for what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Backing {
    Mirrored,
    Single(String),
    Unknown(String),
}

/// Models of NVMe drives that a cloud makes out of storage that may be mirrored.
const OF_CLOUDS: [&str; 3] = ["Elastic Block Store", "Google", "Microsoft"];

/// The backing of the disk at `path`.
pub(super) fn of(path: &str) -> Backing {
    let Ok(found) = fs::metadata(path) else {
        return Backing::Unknown("a path that cannot be looked at".to_owned());
    };
    if !found.file_type().is_block_device() {
        return Backing::Single("a file".to_owned());
    }
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    of_device(&PathBuf::from(format!("/sys/dev/block/{major}:{minor}")))
}

/// `device`: its directory in sysfs. Of a partition the whole device counts.
fn of_device(device: &Path) -> Backing {
    let read = |leaf: &str| {
        let text = fs::read_to_string(device.join(leaf)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    if read("partition").is_some() && device.join("../dev").exists() {
        return of_device(&device.join(".."));
    }
    if device.join("loop").exists() {
        return Backing::Single("a loop device over a file".to_owned());
    }
    if let Some(level) = read("md/level") {
        return match level.as_str() {
            "raid1" | "raid4" | "raid5" | "raid6" | "raid10" => Backing::Mirrored,
            level => Backing::Single(format!("an MD device of level {level}")),
        };
    }
    if let Some(uuid) = read("dm/uuid") {
        let what = match uuid.split('-').next() {
            Some("mpath") => "a multipath map of a LUN",
            Some("LVM") => "a logical volume",
            _ => "a device-mapper device",
        };
        return Backing::Unknown(what.to_owned());
    }
    let model = read("device/model").unwrap_or_default();
    if read("device/transport").as_deref() == Some("pcie") {
        let is_of_cloud = OF_CLOUDS.iter().any(|cloud| model.contains(cloud));
        return match is_of_cloud {
            true => Backing::Unknown(format!("a virtual disk, {model}")),
            false => Backing::Single(format!("an NVMe drive, {model}")),
        };
    }
    match read("device/vendor").as_deref() {
        Some("ATA") => Backing::Single(format!("a SATA drive, {model}")),
        Some(vendor) => Backing::Unknown(format!("a LUN or drive, {vendor} {model}")),
        None => Backing::Unknown("a device that tells no model".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_mirror_or_not_is_told() {
        let home = tempfile::tempdir().expect("a directory");
        let device = |name: &str, files: &[(&str, &str)]| {
            let device = home.path().join(name);
            for (leaf, text) in files {
                let path = device.join(leaf);
                fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
                fs::write(path, format!("{text}\n")).expect("a file");
            }
            of_device(&device)
        };
        let is_single = |backing: Backing| matches!(backing, Backing::Single(_));
        assert!(is_single(device("loop0", &[("loop/backing_file", "/x")])));
        assert_eq!(device("md0", &[("md/level", "raid1")]), Backing::Mirrored);
        assert!(is_single(device("md1", &[("md/level", "raid0")])));
        assert!(is_single(device("sda", &[("device/vendor", "ATA"), ("device/model", "X")])));
        let nvme = |model| [("device/transport", "pcie"), ("device/model", model)];
        assert!(is_single(device("nvme0n1", &nvme("Fast 1"))));
        let unknown = |backing: Backing| matches!(backing, Backing::Unknown(_));
        assert!(unknown(device("nvme1n1", &nvme("Amazon Elastic Block Store"))));
        assert!(unknown(device("dm-0", &[("dm/uuid", "mpath-36")])));
        assert!(unknown(device("sdb", &[("device/vendor", "ARRAY"), ("device/model", "LUN")])));
        assert!(unknown(device("vda", &[("device/vendor", "")])));
        assert!(is_single(of(home.path().join("sda/device/model").to_str().expect("text"))));
        assert!(unknown(of("/no/such/path")));
    }
}
