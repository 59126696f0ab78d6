//! Multipath maps, which are used, and their paths, which are not.
//!
//! A disk of a storage network has a device for each path to it, and a device-mapper device, the
//! *map*, over all of them. I/O on one of the paths works until that path fails. The kernel lists
//! the map among the holders of each path; the uuid of a map begins with `mpath-`, that of a
//! partition of one with `partN-mpath-`.

use super::disk::Medium;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The path of the map that a device is a path of.
pub(super) fn map_over(medium: Medium) -> Option<String> {
    let device = PathBuf::from(medium.sysfs()?);
    map_among_holders(&device)
}

/// `device`: a directory of sysfs. Of a partition the whole device may be held.
fn map_among_holders(device: &Path) -> Option<String> {
    let is_partition = device.join("partition").exists();
    // sysfs resolves a link before "..".
    let whole = is_partition.then(|| device.join(".."));
    [Some(device.to_owned()), whole].into_iter().flatten().find_map(|device| {
        let holders = fs::read_dir(device.join("holders")).ok()?;
        let mut names: Vec<String> =
            holders.flatten().filter_map(|it| map_name(&it.path())).collect();
        names.sort();
        names.into_iter().next()
    })
}

/// The path of a device-mapper device, if it is a map.
fn map_name(holder: &Path) -> Option<String> {
    let read = |leaf: &str| fs::read_to_string(holder.join("dm").join(leaf)).ok();
    let uuid = read("uuid")?;
    let of_partition = uuid.strip_prefix("part").and_then(|rest| rest.split_once('-'));
    let is_map = uuid.starts_with("mpath-")
        || of_partition.is_some_and(|(_, rest)| rest.starts_with("mpath-"));
    is_map.then(|| format!("/dev/mapper/{}", read("name").unwrap_or_default().trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device in a directory like sysfs, held by device-mapper devices of these uuids.
    fn held_by(directory: &Path, uuids: &[&str]) {
        fs::create_dir_all(directory.join("holders")).expect("a directory");
        for (number, uuid) in uuids.iter().enumerate() {
            let dm = directory.join(format!("holders/dm-{number}/dm"));
            fs::create_dir_all(&dm).expect("a directory");
            fs::write(dm.join("uuid"), format!("{uuid}\n")).expect("a file");
            fs::write(dm.join("name"), format!("name{number}\n")).expect("a file");
        }
    }

    #[test]
    fn a_path_is_told_by_the_map_that_holds_it() {
        let root = tempfile::tempdir().expect("a directory");
        for (case, uuids, map) in [
            ("free", &[][..], None),
            ("volume", &["LVM-abc"][..], None),
            ("path", &["LVM-abc", "mpath-3600"][..], Some("/dev/mapper/name1")),
            ("partition", &["part1-mpath-3600"][..], Some("/dev/mapper/name0")),
            ("odd", &["part", "parting-mpath"][..], None),
        ] {
            let device = root.path().join(case);
            held_by(&device, uuids);
            assert_eq!(map_among_holders(&device).as_deref(), map, "{case}");
        }
    }

    /// A partition of a path is none to use either.
    #[test]
    fn a_partition_of_a_path_is_told_by_its_whole_device() {
        let root = tempfile::tempdir().expect("a directory");
        let whole = root.path().join("sda");
        held_by(&whole, &["mpath-3600"]);
        let partition = whole.join("sda1");
        held_by(&partition, &[]);
        fs::write(partition.join("partition"), "1\n").expect("a file");
        assert_eq!(map_among_holders(&partition).as_deref(), Some("/dev/mapper/name0"));
    }
}
