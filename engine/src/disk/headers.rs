//! Headers of disks, and the record areas that they name.
//!
//! Everything that a mount needs also stands outside the first and the last MiB of a device, where
//! partition tools, boot loaders and file systems write. So records (stamps, memberships, activity
//! logs) are kept in two areas of a disk: in its first MiB, and in the AU of the middle header copy
//! ([`Layout::middle_area`](plinth_format::Layout::middle_area)). The header says whether the
//! second is used (`DiskHeader::middle_area`), and by its layout where it is. A header that names
//! another middle area than the header before it is written in these steps:
//!
//!   1. Wipe the slots of the new area, and flush: with an earlier layout a file's bytes may have
//!      been there.
//!   2. Write every record to the new area too, from now on.
//!   3. Copy the records of the first area to it.
//!   4. Write the copies of the header, one after the other.
//!   5. Write records to the first area and the one that the header names, and nowhere else.
//!
//! Two middle areas may overlap, if both are in the same AU: then the second cannot exist beside
//! the first. So such a disk first gets a header, at the places of the former one, that names its
//! first area only ([`replace_header`]).
//!
//! A crash before 4 leaves a header that does not name the new area, so it is not read. A crash in
//! 4 leaves copies that name the former area and copies that name the new one: both areas have
//! every record.
//!
//! After 5 the space of the former area may be given to a file, or is part of the new area. So
//! [`put_header`] returns only when no write to the former area is in flight any more.
//!
//! Disks of earlier versions have one area. Their headers are renewed in these steps at the next
//! mount or return (`Group::repair_header`).

use crate::{
    disk::{counters::IoClient, disk_io::IoResult, member::Member},
    planted::{self, Bug},
    sync::buffer::Buffer,
};
use plinth_format::{
    BLOCK_SIZE, GroupId,
    activity::ActivityLog,
    envelope::Envelope,
    header::{DiskHeader, Status},
    layout::{ACTIVITY_SLOT, FIRST_AREA, MEMBERSHIP_SLOT, RecordArea},
    membership::Membership,
    stamp::Stamp,
};

/// Writes the header that comes after `best`, which may name another middle area, to `places`.
///
/// # Errors
/// As [`put_header`].
pub(crate) async fn replace_header(
    member: &Member,
    best: &DiskHeader,
    next: DiskHeader,
    places: &[u64],
) -> Result<(), String> {
    keep_to_areas(member, best).await;
    let mut sequence = best.sequence + 1;
    let [old, new] =
        [best, &next].map(|header| header.middle_area.then(|| header.layout.middle_area()));
    let overlap = old.zip(new).is_some_and(|(old, new)| old != new && old.overlaps(&new));
    if overlap && !planted::has(Bug::OverlapInOneStep) {
        let without = DiskHeader { sequence, middle_area: false, ..best.clone() };
        put_header(member, &without, &best.layout.header_places()).await?;
        sequence += 1;
    }
    put_header(member, &DiskHeader { sequence, ..next }, places).await
}

/// From now on the disk's records are written to the areas that its header names, and nowhere else.
/// They may have been written to one more, if an earlier attempt to give the disk another header
/// failed half way; the space of that area may be given to a file.
pub(crate) async fn keep_to_areas(member: &Member, header: &DiskHeader) {
    let areas = header.record_areas();
    if *member.areas() != areas {
        member.set_areas(areas);
        member.wait_for_records().await;
    }
}

/// Writes a header to `places`, after the record areas that it names have all records. The new
/// areas overlap none of the present ones.
///
/// # Errors
/// Why the disk did not take it. Then records go to the areas of both headers.
pub(crate) async fn put_header(
    member: &Member,
    header: &DiskHeader,
    places: &[u64],
) -> Result<(), String> {
    let (wanted, before) = (header.record_areas(), member.areas());
    let new: Vec<RecordArea> =
        wanted.iter().copied().filter(|area| !before.contains(area)).collect();
    let broken = member.broken();
    for area in &new {
        for (place, length) in area.slots() {
            write(member, place, vec![0; length]).await?;
        }
    }
    if !new.is_empty() {
        flush(member, broken).await?;
        member.add_areas(&new);
    }
    for area in new.iter().filter(|_| !planted::has(Bug::RecordsNotCopied)) {
        copy_records(member, area).await?;
    }
    write_header(member, header, places).await?;
    if !planted::has(Bug::LeftAreaWritten) {
        member.set_areas(wanted);
    }
    member.wait_for_records().await;
    Ok(())
}

/// Step 3. A task that writes a record at the same time, to both areas, waits until one slot is
/// copied, not longer.
async fn copy_records(member: &Member, to: &RecordArea) -> Result<(), String> {
    let broken = member.broken();
    for slot in [0, 1] {
        let copies = [
            (FIRST_AREA.stamps[slot], to.stamps[slot], BLOCK_SIZE),
            (FIRST_AREA.activity[slot], to.activity[slot], ACTIVITY_SLOT),
            (FIRST_AREA.memberships[slot], to.memberships[slot], MEMBERSHIP_SLOT),
        ];
        for (from, to, length) in copies {
            let _recording = member.record().await;
            let found = read(member, from, length).await?;
            if let Some(record) = found.as_deref().and_then(|bytes| moved(member, bytes, from, to))
            {
                write(member, to, record).await?;
            }
        }
    }
    flush(member, broken).await
}

/// The record in `bytes`, read at `from`, encoded for `to`. `None`: there is no record of this
/// disk.
fn moved(member: &Member, bytes: &[u8], from: u64, to: u64) -> Option<Vec<u8>> {
    let is_ours = |envelope: &Envelope| envelope.disk == member.id();
    let at = |envelope: Envelope| Envelope { place: to, ..envelope };
    if let Ok((envelope, stamp)) = Stamp::decode(bytes, from) {
        return is_ours(&envelope).then(|| stamp.encode(at(envelope)).to_vec());
    }
    if let Ok((envelope, log)) = ActivityLog::decode(bytes, from) {
        return is_ours(&envelope).then(|| log.encode(at(envelope)));
    }
    let (envelope, membership) = Membership::decode(bytes, from).ok()?;
    is_ours(&envelope).then(|| membership.encode(at(envelope)))
}

/// The bytes there; `None` if they cannot be read, since an unreadable record counts as none. An
/// error if the disk is only silent.
async fn read(member: &Member, place: u64, length: usize) -> Result<Option<Vec<u8>>, String> {
    match member.start_read(place, length).of(IoClient::Records).result().await {
        IoResult::Ok(bytes) => Ok(bytes.map(|bytes| bytes.to_vec())),
        IoResult::Failed(_) => Ok(None),
        IoResult::Overdue => Err(IoResult::Overdue.reason()),
    }
}

async fn write(member: &Member, place: u64, bytes: Vec<u8>) -> Result<(), String> {
    let bytes = Buffer::copy_of(&bytes).share();
    let ended = member.start_write(place, bytes).of(IoClient::Records).result().await;
    if ended.is_ok() { Ok(()) } else { Err(ended.reason()) }
}

/// Makes the writes durable that were made since `broken` flushes had failed.
async fn flush(member: &Member, broken: u64) -> Result<(), String> {
    member.flush().await.into_result()?;
    member.check_kept_since(broken)
}

pub(crate) fn header_of(
    group: GroupId,
    membership: &Membership,
    member: &Member,
    created: i64,
    status: Status,
    sequence: u64,
) -> DiskHeader {
    let sectors = member.disk().map(|disk| disk.sectors());
    DiskHeader {
        group,
        disk: member.id(),
        sequence,
        created,
        layout: member.layout(),
        logical_sector: sectors.map_or(512, |sectors| sectors.logical),
        physical_sector: sectors.map_or(512, |sectors| sectors.physical),
        number: member.number,
        status,
        redundancy: membership.redundancy,
        quorum: member.quorum,
        middle_area: true,
        group_name: membership.group_name.clone(),
        name: member.name().to_string(),
        failure_group: member.failure_group.clone(),
        origin: member.origin(),
        label: member.label(),
        has_prefix: true,
    }
}

/// Writes header copies, one after the other, each flushed before the next.
pub(crate) async fn write_header(
    member: &Member,
    header: &DiskHeader,
    places: &[u64],
) -> std::result::Result<(), String> {
    for place in places {
        let broken = member.broken();
        let block = Buffer::copy_of(&header.encode(*place)).share();
        let written = member.start_write(*place, block).of(IoClient::Records).result().await;
        if planted::has(Bug::HeadersTogether) && Some(place) != places.last() {
            continue;
        }
        for ended in [written, member.flush().await] {
            if !ended.is_ok() {
                return Err(ended.reason());
            }
        }
        member.check_kept_since(broken)?;
    }
    Ok(())
}

/// The alert log's text about rewritten header copies.
pub(crate) fn repaired_header(disk: &str, path: &str, places: &[u64]) -> String {
    let places: Vec<_> = places.iter().map(u64::to_string).collect();
    format!("repaired the header copy of disk {disk} ({path}) at offset {}", places.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        testing::{MemoryDisk, TestWorld, block_on},
        world::World,
    };
    use futures::FutureExt;
    use plinth_format::{
        DiskId, DiskNumber, GroupId, Layout, Redundancy, header::Status, layout::MIB,
    };
    use std::{pin::pin, sync::Arc};

    fn header() -> DiskHeader {
        DiskHeader {
            group: GroupId([2; 16]),
            disk: DiskId([1; 16]),
            sequence: 1,
            created: 0,
            layout: Layout::new(64 * MIB, MIB).expect("large enough"),
            logical_sector: 512,
            physical_sector: 4096,
            number: DiskNumber(0),
            status: Status::Member,
            redundancy: Redundancy::Normal,
            quorum: false,
            middle_area: true,
            group_name: "DATA".to_owned(),
            name: "D".to_owned(),
            failure_group: "A".to_owned(),
            origin: None,
            label: None,
            has_prefix: true,
        }
    }

    /// Another task's flush is in flight while a header is written, and fails. It may have lost a
    /// copy of the header, or the wiped slots of its new area. The next flush succeeds and does not
    /// bring them back.
    #[test]
    fn a_header_is_not_durable_if_another_tasks_flush_fails() {
        for has_middle_area in [true, false] {
            let disk = MemoryDisk::new("/disk", 64 * MIB, 512, 4096);
            let world: Arc<dyn World> = TestWorld::new();
            let header = header();
            let places = header.layout.header_places();
            let member = Member::stranger(&header, disk.open(), &world);
            if !has_middle_area {
                member.set_areas(vec![FIRST_AREA]);
            }
            assert!(
                block_on(member.start_write(8 * MIB, Buffer::zeroed(4096).share()).result())
                    .is_ok()
            );
            disk.faults(|faults| faults.hang = true);
            let mut flush = pin!(member.flush());
            assert!(flush.as_mut().now_or_never().is_none());
            disk.faults(|faults| faults.hang = false);
            let mut put = pin!(put_header(&member, &header, &places));
            assert!(put.as_mut().now_or_never().is_none(), "it flushes when it is its turn");
            disk.faults(|faults| faults.flushes_lost = 1);
            disk.answer();
            assert!(!block_on(flush).is_ok());
            block_on(put).expect_err("it may be lost");
            block_on(put_header(&member, &header, &places)).expect("it is written anew");
        }
    }
}
