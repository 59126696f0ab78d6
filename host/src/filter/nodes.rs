//! The nodes through which a block device can be written: its own, those of its partitions and of
//! the disk that it is a partition of, the paths under a multipath map, and the generic SCSI and
//! NVMe nodes of the same disk.
//!
//! Everything is read from sysfs, so a node elsewhere with the same numbers is the same
//! device. Devices under another map than a multipath's are left alone: a physical volume
//! of LVM belongs to all of its logical volumes.

use super::program::{BLOCK, CHARACTER};
use crate::disk::{self, Medium};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// A device node, by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    pub major: u32,
    pub minor: u32,
    /// A character device; else a block device.
    pub is_character: bool,
}

impl Node {
    /// The node of a block device.
    #[must_use]
    pub fn block(major: u32, minor: u32) -> Self {
        Self { major, minor, is_character: false }
    }

    /// The block device that a path leads to, if it leads to one.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        match disk::medium_of(path) {
            Ok(Medium::Block { major, minor }) => Some(Self::block(major, minor)),
            Ok(Medium::File { .. }) | Err(_) => None,
        }
    }

    pub(super) fn kind(self) -> u32 {
        if self.is_character { CHARACTER } else { BLOCK }
    }

    fn directory(self, sysfs: &Path) -> Option<PathBuf> {
        let Self { major, minor, .. } = self;
        fs::canonicalize(sysfs.join(format!("dev/block/{major}:{minor}"))).ok()
    }

    /// Its name in /dev, or its numbers.
    #[must_use]
    pub fn name(self) -> String {
        let Self { major, minor, is_character } = self;
        let kind = if is_character { "char" } else { "block" };
        fs::read_to_string(format!("/sys/dev/{kind}/{major}:{minor}/uevent"))
            .ok()
            .and_then(|event| {
                let name = event.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
                Some(format!("/dev/{name}"))
            })
            .unwrap_or_else(|| format!("{kind} device {major}:{minor}"))
    }
}

/// The number that the kernel gives to each device that appears, and to each new medium of a
/// device. `None` if there is no such device now.
pub(super) fn sequence(sysfs: &Path, node: Node) -> Option<u64> {
    let directory = node.directory(sysfs)?;
    ["diskseq", "../diskseq"]
        .iter()
        .find_map(|leaf| fs::read_to_string(directory.join(leaf)).ok()?.trim().parse().ok())
}

/// All nodes through which the block device can be written; the first is its own.
pub(super) fn of_device(sysfs: &Path, device: Node) -> Vec<Node> {
    let mut nodes = vec![device];
    let mut seen = BTreeSet::from([device]);
    let mut add = |node: Node| {
        if seen.insert(node) {
            nodes.push(node);
        }
    };
    let Some(directory) = device.directory(sysfs) else { return nodes };
    let mut disks = vec![directory.clone()];
    if is_multipath(&directory) {
        disks
            .extend(entries(&directory.join("slaves")).filter_map(|path| path.canonicalize().ok()));
    }
    for disk in disks {
        let whole = match disk.join("partition").exists() {
            true => disk.parent().map(Path::to_path_buf),
            false => {
                entries(&disk)
                    .filter(|path| path.join("partition").exists())
                    .filter_map(|path| numbers(&path, false))
                    .for_each(&mut add);
                Some(disk.clone())
            }
        };
        let Some(whole) = whole else { continue };
        [&disk, &whole].into_iter().filter_map(|disk| numbers(disk, false)).for_each(&mut add);
        generic(sysfs, &whole).into_iter().for_each(&mut add);
    }
    nodes
}

fn is_multipath(directory: &Path) -> bool {
    fs::read_to_string(directory.join("dm/uuid")).is_ok_and(|id| id.starts_with("mpath-"))
}

/// The generic nodes of a whole disk.
fn generic(sysfs: &Path, disk: &Path) -> Vec<Node> {
    let scsi = ["device/scsi_generic", "device/bsg"]
        .into_iter()
        .flat_map(|class| entries(&disk.join(class)))
        .collect::<Vec<_>>();
    let name = disk.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let nvme =
        name.strip_prefix("nvme").map(|rest| sysfs.join(format!("class/nvme-generic/ng{rest}")));
    scsi.into_iter().chain(nvme).filter_map(|path| numbers(&path, true)).collect()
}

fn numbers(directory: &Path, is_character: bool) -> Option<Node> {
    let text = fs::read_to_string(directory.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(Node { major: major.parse().ok()?, minor: minor.parse().ok()?, is_character })
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A tree as in sysfs: directories of devices, with their numbers, and links by number.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            fs::create_dir_all(directory.path().join("dev/block")).expect("a directory");
            Self(directory)
        }

        fn device(&self, path: &str, numbers: &str) -> PathBuf {
            let directory = self.0.path().join(path);
            fs::create_dir_all(&directory).expect("a directory");
            fs::write(directory.join("dev"), format!("{numbers}\n")).expect("a file");
            let link = self.0.path().join("dev/block").join(numbers);
            let _ = symlink(&directory, link);
            directory
        }

        fn nodes(&self, major: u32, minor: u32) -> Vec<String> {
            let nodes = of_device(self.0.path(), Node::block(major, minor));
            let mut names: Vec<String> = nodes
                .into_iter()
                .map(|node| {
                    format!(
                        "{}{}:{}",
                        if node.is_character { "c" } else { "" },
                        node.major,
                        node.minor
                    )
                })
                .collect();
            names.sort();
            names
        }
    }

    #[test]
    fn a_disk_and_its_partitions_are_one() {
        let tree = Tree::new();
        let disk = tree.device("block/sda", "8:0");
        fs::write(disk.join("diskseq"), "17\n").expect("a file");
        for (name, numbers) in [("sda1", "8:1"), ("sda2", "8:2")] {
            let partition = tree.device(&format!("block/sda/{name}"), numbers);
            fs::write(partition.join("partition"), "1\n").expect("a file");
        }
        tree.device("block/sda/device/scsi_generic/sg0", "21:0");
        tree.device("block/sda/device/bsg/0:0:0:0", "247:3");
        assert_eq!(tree.nodes(8, 0), ["8:0", "8:1", "8:2", "c21:0", "c247:3"]);
        // The other partition is not the member's affair.
        assert_eq!(tree.nodes(8, 2), ["8:0", "8:2", "c21:0", "c247:3"]);
        assert_eq!(sequence(tree.0.path(), Node::block(8, 2)), Some(17));
        assert_eq!(sequence(tree.0.path(), Node::block(8, 16)), None);
    }

    #[test]
    fn a_multipath_map_has_its_paths() {
        let tree = Tree::new();
        let map = tree.device("block/dm-0", "253:0");
        for (name, numbers) in [("sdb", "8:16"), ("sdc", "8:32")] {
            let path = tree.device(&format!("block/{name}"), numbers);
            fs::create_dir_all(map.join("slaves")).expect("a directory");
            symlink(path, map.join("slaves").join(name)).expect("a link");
        }
        fs::create_dir_all(map.join("dm")).expect("a directory");
        fs::write(map.join("dm/uuid"), "LVM-abc\n").expect("a file");
        assert_eq!(tree.nodes(253, 0), ["253:0"]);
        fs::write(map.join("dm/uuid"), "mpath-3600\n").expect("a file");
        assert_eq!(tree.nodes(253, 0), ["253:0", "8:16", "8:32"]);
    }

    #[test]
    fn an_nvme_namespace_has_a_generic_node() {
        let tree = Tree::new();
        tree.device("block/nvme0n1", "259:0");
        tree.device("class/nvme-generic/ng0n1", "244:0");
        assert_eq!(tree.nodes(259, 0), ["259:0", "c244:0"]);
    }
}
