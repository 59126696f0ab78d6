//! What a disk says of itself: its header, stamps and memberships.
//!
//! Reads only. Any bytes may be there.

use crate::{
    buffer::Buffer,
    choose::Sighting,
    world::{Disk, Found, Io, World},
};
use futures::future::Either;
use plinth_format::{
    BLOCK_SIZE, FormatError,
    header::{DiskHeader, HEADER_MAGIC},
    layout::{self, HEADER_PLACE, MEMBERSHIP_PLACES, MEMBERSHIP_SLOT, STAMP_PLACES},
    membership::Membership,
    stamp::Stamp,
};
use std::time::Duration;

/// The header of a disk, from its three copies.
#[derive(Debug, Clone)]
pub struct Header {
    /// The valid copy with the highest sequence.
    pub best: DiskHeader,
    /// Places whose copy is missing, damaged or older.
    pub wrong: Vec<u64>,
}

/// How long a disk may take to answer before it counts as unreadable: a hung disk must not
/// hang discovery, nor the mount of the group it belongs to.
const PATIENCE: Duration = Duration::from_secs(10);

/// What `task` finds, unless it takes too long.
async fn in_time<T>(world: &dyn World, task: impl Future<Output = Option<T>>) -> Option<T> {
    match futures::future::select(std::pin::pin!(task), world.sleep(PATIENCE)).await {
        Either::Left((found, _)) => found,
        Either::Right(_) => None,
    }
}

/// Reads bytes; `None` if that fails.
async fn read(disk: &dyn Disk, offset: u64, length: usize) -> Option<Buffer> {
    let end = offset.checked_add(length as u64)?;
    if end > disk.size() {
        return None;
    }
    let done = disk.submit(Io::Read { offset, buffer: Buffer::zeroed(length) }).await;
    done.result.ok()?;
    done.buffer
}

/// Reads the header. `None` if no copy is valid, or the disk does not answer.
pub async fn read_header(world: &dyn World, disk: &dyn Disk) -> Option<Header> {
    in_time(world, find_header(disk)).await
}

async fn find_header(disk: &dyn Disk) -> Option<Header> {
    let first = read_copy(disk, HEADER_PLACE).await;
    let mut copies = vec![(HEADER_PLACE, first.clone())];
    // The first copy is written first and never lost by itself: if it is valid, it says where the others are. What stands
    // elsewhere is a leftover of a layout that the disk had before, or a file's bytes. Without it, the others are looked for
    // where they would be if the whole device is used; each of them says where its fellows are.
    let mut places = match &first {
        Some(header) => header.layout.header_places().to_vec(),
        None => layout::header_places(disk.size()).to_vec(),
    };
    let mut index = 0;
    while index < places.len() {
        let place = places[index];
        index += 1;
        if copies.iter().any(|(other, _)| *other == place) {
            continue;
        }
        let copy = read_copy(disk, place).await.filter(|copy| copy.layout.header_places().contains(&place));
        if let (Some(header), None) = (&copy, &first) {
            places.extend(header.layout.header_places());
        }
        copies.push((place, copy));
    }
    let best = copies.iter().filter_map(|(_, copy)| copy.clone()).max_by_key(|header| header.sequence)?;
    let wrong = best
        .layout
        .header_places()
        .into_iter()
        .filter(|place| !copies.iter().any(|(other, copy)| other == place && copy.as_ref() == Some(&best)))
        .collect();
    Some(Header { best, wrong })
}

async fn read_copy(disk: &dyn Disk, place: u64) -> Option<DiskHeader> {
    read(disk, place, BLOCK_SIZE).await.and_then(|block| DiskHeader::decode(&block, place).ok())
}

/// Places where copies of headers stand that a new layout of the disk does not overwrite: of the whole device, and of
/// the parts of it that were used before.
pub async fn old_places(disk: &dyn Disk) -> Vec<u64> {
    let mut places = layout::header_places(disk.size()).to_vec();
    let mut old = Vec::new();
    let mut index = 0;
    while index < places.len() {
        if let Some(header) = read_copy(disk, places[index]).await {
            old.push(places[index]);
            let own = header.layout.header_places();
            places.extend(own.into_iter().filter(|place| !places.contains(place)).collect::<Vec<_>>());
        }
        index += 1;
    }
    old
}

/// Why no copy of the header is valid, in words, if the disk looks like one of ours.
pub async fn header_trouble(world: &dyn World, disk: &dyn Disk) -> Option<FormatError> {
    in_time(world, find_trouble(disk)).await
}

async fn find_trouble(disk: &dyn Disk) -> Option<FormatError> {
    for place in layout::header_places(disk.size()) {
        let Some(block) = read(disk, place, BLOCK_SIZE).await else { continue };
        if block.starts_with(HEADER_MAGIC) {
            return DiskHeader::decode(&block, place).err();
        }
    }
    None
}

/// All that the mount decision wants to know of a disk whose header is valid.
pub async fn sight(world: &dyn World, found: &Found, disk: &dyn Disk, header: DiskHeader) -> Sighting {
    let records = in_time(world, async { Some(read_records(disk, &header).await) }).await;
    let (stamps, memberships) = records.unwrap_or_default();
    Sighting { path: found.path.clone(), identity: found.identity.clone(), header, stamps, memberships }
}

async fn read_records(disk: &dyn Disk, header: &DiskHeader) -> (Vec<Stamp>, Vec<Membership>) {
    let mut stamps = Vec::new();
    for place in STAMP_PLACES {
        if let Some(block) = read(disk, place, BLOCK_SIZE).await
            && let Ok((envelope, stamp)) = Stamp::decode(&block, place)
            && envelope.expect(header.group, header.disk).is_ok()
        {
            stamps.push(stamp);
        }
    }
    let mut memberships = Vec::new();
    for place in MEMBERSHIP_PLACES {
        if let Some(bytes) = read(disk, place, MEMBERSHIP_SLOT).await
            && let Ok((envelope, membership)) = Membership::decode(&bytes, place)
            && envelope.expect(header.group, header.disk).is_ok()
        {
            memberships.push(membership);
        }
    }
    (stamps, memberships)
}
