//! Bytes on a disk that look right: fields of a record are changed at random, and its checksum is
//! made valid again or not.
//!
//! An engine that reads them returns an error or not, but does not crash, hang, or take more memory
//! than there is.

use crate::disk::SimDisk;
use plinth_engine::{
    api::ROOT, files::session::Session, group::Group, testing::Numbers, world::World,
};
use plinth_format::{
    Au, BLOCK_SIZE, DiskId, DiskNumber, checksum,
    envelope::{self, Envelope},
    layout::{ACTIVITY_SLOT, FIRST_AREA, HEADER_PLACE, MEMBERSHIP_SLOT, RecordArea},
    membership::{CatalogFile, CatalogRun, Membership},
    page,
};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// The first bytes of a record, in which most of its fields are.
const FIELDS: u64 = 700;

/// Changes a record or page on a disk. The change, in words.
pub fn tamper(disk: &SimDisk, numbers: &mut Numbers) -> String {
    let copies = disk
        .header()
        .map_or_else(|| vec![HEADER_PLACE], |header| header.layout.header_places().to_vec());
    let areas = areas(disk);
    let one_of = |count: usize, numbers: &mut Numbers| {
        usize::try_from(numbers.below(count as u64)).expect("small")
    };
    let two = one_of(2, numbers);
    let copy = copies[one_of(copies.len(), numbers)];
    let area = areas[one_of(areas.len(), numbers)];
    let (what, place, length) = match numbers.below(5) {
        0 => ("a header", copy, BLOCK_SIZE),
        1 => ("a stamp", area.stamps[two], BLOCK_SIZE),
        2 => ("an activity log", area.activity[two], ACTIVITY_SLOT),
        3 => ("a membership", area.memberships[two], MEMBERSHIP_SLOT),
        _ => return tamper_with_page(disk, numbers),
    };
    let mut record = disk.peek(place, length);
    let noise = numbers.below(8) == 0;
    if noise {
        numbers.fill(&mut record);
    } else {
        change_fields(&mut record, FIELDS.min(length as u64), numbers);
    }
    let sealed = !noise && numbers.below(6) > 0;
    if sealed {
        let stored = u32::from_le_bytes(record[envelope::LENGTH].try_into().expect("four bytes"));
        let length =
            usize::try_from(stored).expect("64-bit").clamp(envelope::ENVELOPE_SIZE, record.len());
        record[envelope::CHECKSUM].fill(0);
        let sum = checksum::crc32c(&record[..length]);
        record[envelope::CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    }
    disk.corrupt(place, &record);
    format!("{what} at {place} is {}", if sealed { "changed and sealed" } else { "overwritten" })
}

/// Overwrites records of some kinds with zeros or noise, all copies or some. The change, in words.
pub fn overwrite(disk: &SimDisk, numbers: &mut Numbers) -> Option<String> {
    let header = disk.header()?;
    let areas = areas(disk);
    let places = |of: fn(&RecordArea) -> [u64; 2]| areas.iter().flat_map(of).collect::<Vec<u64>>();
    let kinds: [(&str, Vec<u64>, usize); 4] = [
        ("headers", header.layout.header_places().to_vec(), BLOCK_SIZE),
        ("stamps", places(|area| area.stamps), BLOCK_SIZE),
        ("activity logs", places(|area| area.activity), ACTIVITY_SLOT),
        ("memberships", places(|area| area.memberships), MEMBERSHIP_SLOT),
    ];
    let mut told = Vec::new();
    for (what, places, length) in kinds {
        if numbers.below(2) == 0 {
            continue;
        }
        let (all, noise) = (numbers.below(3) > 0, numbers.below(2) == 0);
        for place in places {
            if all || numbers.below(2) == 0 {
                let mut bytes = vec![0; length];
                if noise {
                    numbers.fill(&mut bytes);
                }
                disk.corrupt(place, &bytes);
                told.push(format!("{what} at {place}"));
            }
        }
    }
    (!told.is_empty()).then(|| format!("{} are overwritten", told.join(", ")))
}

fn change_fields(bytes: &mut [u8], within: u64, numbers: &mut Numbers) {
    for _ in 0..1 + numbers.below(4) {
        let width = [1, 2, 4, 8][usize::try_from(numbers.below(4)).expect("small")];
        let slots = within / width as u64;
        let at = usize::try_from(numbers.below(slots)).expect("small") * width;
        let value = match numbers.below(6) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => u64::MAX >> 1,
            4 => numbers.below(5000),
            _ => numbers.draw(),
        };
        bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

/// The record areas of a disk.
pub fn areas(disk: &SimDisk) -> Vec<RecordArea> {
    disk.header().map_or_else(|| vec![FIRST_AREA], |header| header.record_areas())
}

/// The memberships on a disk.
fn memberships_on(disk: &SimDisk) -> impl Iterator<Item = (Envelope, Membership)> {
    areas(disk)
        .into_iter()
        .flat_map(|area| area.memberships)
        .filter_map(|place| Membership::decode(&disk.peek(place, MEMBERSHIP_SLOT), place).ok())
}

/// The number of the disk that has this membership, as the membership says.
fn own_number(envelope: &Envelope, membership: &Membership) -> Option<DiskNumber> {
    let own = membership.disks.iter().find(|known| known.id == envelope.disk)?;
    Some(own.number)
}

/// The bytes that a group uses of each of its disks, as the newest membership on them says: after
/// a resize the header has other places.
pub fn sizes(disks: &[SimDisk]) -> BTreeMap<DiskId, u64> {
    let all = disks.iter().flat_map(memberships_on).map(|(_, membership)| membership);
    let newest = all.max_by_key(|membership| membership.generation);
    let entries = newest.into_iter().flat_map(|membership| membership.disks);
    entries.map(|entry| (entry.id, entry.size)).collect()
}

/// The catalog's runs on a disk, as a membership on it says, and the AU size. `None`: there is no
/// membership.
fn catalog_on(disk: &SimDisk) -> Option<(Vec<CatalogRun>, u64)> {
    memberships_on(disk).find_map(|(envelope, membership)| {
        let number = own_number(&envelope, &membership)?;
        let runs = membership.catalog.iter().filter(|run| run.disk == number).copied().collect();
        Some((runs, membership.au_size))
    })
}

/// Where the catalog's database begins on a disk, as the membership on it says: its first pages.
pub fn pages(disk: &SimDisk) -> Option<Range<u64>> {
    let (runs, au_size) = catalog_on(disk)?;
    let first = runs.iter().find(|run| run.file == CatalogFile::Database && run.at == 0)?.first;
    let first = u64::from(first.0) * au_size;
    Some(first..first + (256 * BLOCK_SIZE as u64).min(au_size))
}

/// Where the catalog lies on a disk, as the membership on it says.
pub fn catalog_places(disk: &SimDisk) -> Vec<Range<u64>> {
    let Some((runs, au_size)) = catalog_on(disk) else { return Vec::new() };
    let place = |run: &CatalogRun| {
        u64::from(run.first.0) * au_size..u64::from(run.first.0 + run.count) * au_size
    };
    runs.iter().map(place).collect()
}

/// Where the checksum of a block of data is, by the offset of the block.
pub fn sums_of(disk: &SimDisk, offset: u64) -> Option<u64> {
    // Not every disk has a membership. All have a header.
    let layout = disk.header()?.layout;
    let au =
        u32::try_from(offset / layout.au_size()).ok().map(Au).filter(|au| layout.is_data(*au))?;
    Some(layout.sums_of(au).0 + offset % layout.au_size() / BLOCK_SIZE as u64 * 4)
}

/// A page of the catalog, as the membership on this disk says where it lies.
fn tamper_with_page(disk: &SimDisk, numbers: &mut Numbers) -> String {
    for (envelope, membership) in memberships_on(disk) {
        let Some(number) = own_number(&envelope, &membership) else { continue };
        let runs: Vec<_> = membership
            .catalog
            .iter()
            .filter(|run| run.disk == number && run.file == CatalogFile::Database)
            .collect();
        if runs.is_empty() {
            continue;
        }
        let run = runs[usize::try_from(numbers.below(runs.len() as u64)).expect("small")];
        // The first pages are those in use.
        let within = numbers.below(60);
        let offset = u64::from(run.first.0) * membership.au_size + within * BLOCK_SIZE as u64;
        let file_page = u64::from(run.at) * membership.au_size / BLOCK_SIZE as u64 + within + 1;
        // The membership may have been changed before.
        let Ok(file_page) = u32::try_from(file_page) else { continue };
        let mut block = disk.peek(offset, BLOCK_SIZE);
        change_fields(&mut block, if numbers.below(2) == 0 { 120 } else { 4080 }, numbers);
        let write = if numbers.below(2) == 0 { numbers.draw() } else { u64::MAX };
        page::seal(&mut block, file_page, write);
        disk.corrupt(offset, &block);
        return format!("page {file_page} of the catalog is changed and sealed");
    }
    "nothing, as no membership says where the catalog is".to_owned()
}

/// Mounts the group as it is and reads all of it. The result, in words.
pub async fn look(world: Arc<dyn World>, name: &str) -> String {
    let _ = Group::survey(&world).await;
    let group = match Group::mount(world, name, false).await {
        Ok(group) => group,
        Err(error) => return format!("mount: {error}"),
    };
    let session = Session::new(Arc::clone(&group), None);
    let mut told = Vec::new();
    let mut cookie = 0;
    for _ in 0..100 {
        match session.read_directory(ROOT, cookie, 64).await {
            Ok(entries) if entries.is_empty() => break,
            Ok(entries) => {
                for entry in entries {
                    cookie = entry.cookie;
                    let mut bytes = vec![0; 256 << 10];
                    if let Err(error) = session.read(entry.node, 0, &mut bytes).await {
                        told.push(format!("read: {error}"));
                    }
                }
            }
            Err(error) => {
                told.push(format!("listing: {error}"));
                break;
            }
        }
    }
    if let Err(error) = group.query("SELECT count(*) FROM v$asm_file").await {
        told.push(format!("query: {error}"));
    }
    match group.check(true).await {
        Ok(report) => told.push(format!("{} problems", report.problems.len())),
        Err(error) => told.push(format!("check: {error}")),
    }
    match group.dismount(true).await {
        Ok(()) => {}
        Err(error) => told.push(format!("dismount: {error}")),
    }
    told.truncate(4);
    told.join("; ")
}
