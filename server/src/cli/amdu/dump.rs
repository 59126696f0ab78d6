//! `amdu --dump`: the metadata of a group's disks in a directory.
//!
//! Headers, records and the catalog, not the checksums and not the files: `amdu` and `kfed` take
//! the directory in place of the disks, on any machine.

use super::{
    super::{Result, context::Context},
    INCOMPLETE,
    dump_file::write,
    open::Opened,
};
use plinth_engine::{
    admin::{AdminError, Code},
    group::offline::{FoundDisk, OfflineGroup},
    words::counted,
};
use plinth_format::{BLOCK_SIZE, DiskNumber, layout::MIB};
use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::Path,
};

pub(super) fn dump(
    context: &mut Context,
    opened: &Opened,
    at: usize,
    directory: &Path,
) -> Result<()> {
    let group = &opened.groups[at];
    DirBuilder::new().mode(0o700).create(directory).map_err(|error| {
        AdminError::new(Code::Io, format!("{}: {error}", directory.display()))
            .hint("--dump names a new directory")
    })?;
    let dumped = dump_disks(opened, group, directory).inspect_err(|_| {
        // Half a dump is none.
        let _ = fs::remove_dir_all(directory);
    })?;
    let size = crate::text::bytes_pretty(i64::try_from(dumped.bytes).unwrap_or(i64::MAX));
    let missing = group.disks.len() as u64 - dumped.disks;
    context.say(format!(
        "{}: metadata of {}, {size}; {} missing",
        directory.display(),
        counted(dumped.disks, "disk"),
        counted(missing, "disk")
    ));
    if dumped.unreadable > 0 {
        context.say(format!("{} bytes could not be read, and are not in it", dumped.unreadable));
    }
    context.status = if dumped.unreadable > 0 || missing > 0 { INCOMPLETE } else { 0 };
    Ok(())
}

/// How much was dumped.
#[derive(Default)]
struct Dumped {
    disks: u64,
    bytes: u64,
    unreadable: u64,
}

fn dump_disks(opened: &Opened, group: &OfflineGroup, directory: &Path) -> Result<Dumped> {
    let mut dumped = Dumped::default();
    for disk in &group.disks {
        let Some(found) = &disk.found else { continue };
        let path = directory.join(format!("{}.dump", disk.member.name));
        let ranges = ranges(group, disk.member.number, found);
        let written = write(&opened.world, found, &ranges, &path);
        let written = written.map_err(|error| {
            AdminError::new(Code::Io, format!("{}: {error}", path.display()))
                .hint("--dump names a new directory, where there is room")
        })?;
        dumped.bytes += written.bytes;
        dumped.unreadable += written.unreadable;
        dumped.disks += 1;
    }
    Ok(dumped)
}

/// The metadata on a disk: offsets and lengths, which do not overlap.
fn ranges(group: &OfflineGroup, number: DiskNumber, found: &FoundDisk) -> BTreeMap<u64, u64> {
    let header = &found.header.best;
    let layout = header.layout;
    // The first MiB has the first header copy and the first area of records.
    let mut all = vec![(0, MIB)];
    all.extend(layout.header_places().map(|place| (place, BLOCK_SIZE as u64)));
    let slots = header.record_areas().into_iter().flat_map(|area| area.slots().collect::<Vec<_>>());
    all.extend(slots.map(|(place, length)| (place, length as u64)));
    let runs = group.membership.catalog.iter().filter(|run| run.disk == number);
    all.extend(runs.flat_map(|run| run.aus()).map(|au| (layout.au_offset(au), layout.au_size())));
    all.sort_unstable();
    let mut ranges: BTreeMap<u64, u64> = BTreeMap::new();
    for (start, length) in all {
        let end = start.saturating_add(length).min(found.disk.size());
        match ranges.last_entry() {
            Some(mut last) if *last.key() + *last.get() >= start => {
                let longer = end.saturating_sub(*last.key()).max(*last.get());
                last.insert(longer);
            }
            _ if end > start => drop(ranges.insert(start, end - start)),
            _ => {}
        }
    }
    ranges
}
