//! Programs that have a device open for writing.
//!
//! The filter is asked when a device is opened, so a descriptor that was there before goes on. They
//! are found through /proc: every descriptor that refers to one of the device numbers, whatever the
//! node was called, and whose access mode is not read-only.

use super::nodes::Node;
use rustix::fs::FileType;
use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path};

/// A process with a descriptor that can write a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    pub process: u32,
    /// The name of its program, as in /proc/PID/comm.
    pub program: String,
    pub node: Node,
}

/// The writers of these nodes, without the processes in `but`.
pub(super) fn of(nodes: &[Node], but: &BTreeSet<u32>) -> Vec<Writer> {
    let mut writers = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(number) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if but.contains(&number) {
            continue;
        }
        let mut found: Vec<Node> = descriptors(&process.path(), nodes);
        found.sort();
        found.dedup();
        let program = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        writers.extend(found.into_iter().map(|node| Writer {
            process: number,
            program: program.trim_end().to_owned(),
            node,
        }));
    }
    writers
}

/// The nodes that a process can write. It may end meanwhile: then it has none.
fn descriptors(process: &Path, nodes: &[Node]) -> Vec<Node> {
    let can_write = |descriptor: &std::ffi::OsStr| {
        let about = fs::read_to_string(process.join("fdinfo").join(descriptor)).unwrap_or_default();
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
        flags
            .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
            .is_some_and(|flags| flags & libc::O_ACCMODE.cast_unsigned() != 0)
    };
    fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let about = fs::metadata(entry.path()).ok()?;
            let is_character = match FileType::from_raw_mode(about.mode()) {
                FileType::BlockDevice => false,
                FileType::CharacterDevice => true,
                _ => return None,
            };
            let (major, minor) = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
            let node = Node { major, minor, is_character };
            (nodes.contains(&node) && can_write(&entry.file_name())).then_some(node)
        })
        .collect()
}
