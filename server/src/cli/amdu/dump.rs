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
    let (mut bytes, mut unreadable, mut count) = (0, 0, 0_u64);
    for disk in &group.disks {
        let Some(found) = &disk.found else { continue };
        let path = directory.join(format!("{}.dump", disk.member.name));
        let ranges = ranges(group, disk.member.number, found);
        let written = write(&opened.world, found, &ranges, &path);
        let written = written.map_err(|error| {
            // Half a dump is none.
            let _ = fs::remove_file(&path);
            AdminError::new(Code::Io, format!("{}: {error}", path.display()))
        })?;
        bytes += written.bytes;
        unreadable += written.unreadable;
        count += 1;
    }
    let size = crate::text::bytes_pretty(i64::try_from(bytes).unwrap_or(i64::MAX));
    let missing = group.disks.len() as u64 - count;
    context.say(format!(
        "{}: metadata of {}, {size}; {} missing",
        directory.display(),
        counted(count, "disk"),
        counted(missing, "disk")
    ));
    if unreadable > 0 {
        context.say(format!("{unreadable} bytes could not be read, and are not in it"));
    }
    context.status = if unreadable > 0 || missing > 0 { INCOMPLETE } else { 0 };
    Ok(())
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
