//! How a record is written to a disk: to a slot in each of its areas, durably, and read back.
//!
//! Records are stamps, memberships and activity logs. Each kind has two slots in each record area
//! of a disk (`headers.rs`), and successive records take turns. Writing one to a disk:
//!
//!   1. Hold the disk's `record` lock, so that its areas do not change unnoticed.
//!   2. A membership slot that holds bytes and no valid record is wiped first, durably.
//!   3. Write the record to all areas at once, and flush; an activity log is made durable by its
//!      write alone.
//!   4. Read it back: a disk may acknowledge a write and lose it. Retry once.
//!   5. If an area was added meanwhile, write it there too.
//!
//! A crash at any step leaves the other slot's record. A disk that keeps the record in one area
//! only has it (`Copies::One`), and that is reported; a wiped slot must be wiped in all areas.

use super::Voters;
use crate::{
    disk::{
        counters::IoClient,
        disk_io::{self, DiskIo, IoResult},
        member::Member,
    },
    event::Severity,
    sync::buffer::{Buffer, Slice},
};
use plinth_format::{
    DiskNumber,
    activity::ActivityLog,
    envelope::Envelope,
    layout::{MEMBERSHIP_SLOT, RecordArea},
    membership::Membership,
    stamp::Stamp,
};
use std::collections::{BTreeMap, BTreeSet};

/// How many areas of a disk must hold a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// A record: the best of all areas counts.
    One,
    /// A wiped slot: an old record left in any area would count.
    All,
}

impl Voters {
    /// Writes a stamp with this counter to disks; returns those that did not take it.
    pub(super) async fn put_stamp(
        &self,
        disks: &BTreeSet<DiskNumber>,
        counter: u64,
        clean: bool,
    ) -> BTreeMap<DiskNumber, String> {
        let stamp =
            Stamp { counter, written: self.world.now(), membership: self.current().id, clean };
        let slot = usize::from(counter % 2 == 1);
        let record = |member: &Member, place| {
            Some(stamp.encode(Envelope { group: self.group, disk: member.id(), place }).to_vec())
        };
        self.write_records(disks, |area| area.stamps[slot], false, Copies::One, record).await
    }

    /// Writes a log to disks; returns those that failed and why.
    pub(crate) async fn write_log(
        &self,
        log: &ActivityLog,
        targets: &BTreeSet<DiskNumber>,
    ) -> BTreeMap<DiskNumber, String> {
        let slot = usize::from(log.sequence % 2 == 1);
        let record = |member: &Member, place| {
            Some(log.encode(Envelope { group: self.group, disk: member.id(), place }))
        };
        self.write_records(targets, |area| area.activity[slot], true, Copies::One, record).await
    }

    /// Writes a membership to the targets; returns those that failed and why.
    pub(crate) async fn write_everywhere(
        &self,
        next: &Membership,
        targets: &BTreeSet<DiskNumber>,
    ) -> BTreeMap<DiskNumber, String> {
        let slot = usize::from(next.generation % 2 == 1);
        let place = |area: &RecordArea| area.memberships[slot];
        let unwiped = self.wipe_torn(slot, targets).await;
        let record = |member: &Member, place| {
            let is_left_out = unwiped.contains_key(&(member.number, place));
            (!is_left_out)
                .then(|| next.encode(Envelope { group: self.group, disk: member.id(), place }))
        };
        let failed = self.write_records(targets, place, false, Copies::One, record).await;
        for ((disk, place), reason) in unwiped {
            if let Some(member) = self.members.get(&disk).filter(|_| !failed.contains_key(&disk)) {
                self.tell_of_lost_copies(member, &[(place, reason)]);
            }
        }
        failed
    }

    /// Wipes a slot in all areas of each target; returns those that failed and why.
    pub(super) async fn wipe(
        &self,
        targets: &BTreeSet<DiskNumber>,
        place: impl Fn(&RecordArea) -> u64,
        length: usize,
    ) -> BTreeMap<DiskNumber, String> {
        self.write_records(targets, place, false, Copies::All, |_, _| Some(vec![0; length])).await
    }

    /// Wipes a membership slot of a target that holds bytes and no valid record: a write that was
    /// cut short has left some sectors of a record there. If the next write to the slot were cut
    /// short too, the sectors of both could make up a whole record that was never written
    /// (`mount_decision.rs`, rule 5). A record in the same slot of the disk's other area is not
    /// touched, since it may be the newest that there is. Returns the places that cannot be wiped,
    /// and why.
    async fn wipe_torn(
        &self,
        slot: usize,
        targets: &BTreeSet<DiskNumber>,
    ) -> BTreeMap<(DiskNumber, u64), String> {
        let members = targets
            .iter()
            .filter_map(|disk| self.members.get(disk))
            .filter(|member| !member.is_hung());
        let wipes = members.map(|member| async move {
            let _recording = member.record().await;
            let mut unwiped = Vec::new();
            for place in member.areas().iter().map(|area| area.memberships[slot]) {
                let slot =
                    member.start_read(place, MEMBERSHIP_SLOT).of(IoClient::Records).result().await;
                let IoResult::Ok(Some(bytes)) = slot else { continue };
                if Membership::decode(&bytes, place).is_err() && bytes.iter().any(|byte| *byte != 0)
                {
                    let zeros = Buffer::zeroed(MEMBERSHIP_SLOT).share();
                    let failed =
                        self.write_record(member, &[(place, zeros)], false, Copies::All).await;
                    unwiped.extend(failed.map(|reason| ((member.number, place), reason)));
                }
            }
            unwiped
        });
        futures::future::join_all(wipes).await.into_iter().flatten().collect()
    }

    /// Writes a record to each target, in all its areas, flushes and reads it back; returns those
    /// that failed and why. `place` is the record's place in an area. `in_one_trip`: the record is
    /// made durable by its write; earlier writes are not flushed. `how`: how many areas must hold
    /// it. Nothing is written in a place that has no `record`.
    pub(crate) async fn write_records(
        &self,
        targets: &BTreeSet<DiskNumber>,
        place: impl Fn(&RecordArea) -> u64,
        in_one_trip: bool,
        how: Copies,
        record: impl Fn(&Member, u64) -> Option<Vec<u8>>,
    ) -> BTreeMap<DiskNumber, String> {
        let mut failed = BTreeMap::new();
        let members: Vec<_> = targets.iter().filter_map(|disk| self.members.get(disk)).collect();
        let writes = members.iter().map(|member| async {
            let _recording = member.record().await;
            let mut areas = member.areas();
            loop {
                if member.is_hung() {
                    return Some(disk_io::GIVEN_UP.to_owned());
                }
                let copies: Vec<(u64, Slice)> = areas
                    .iter()
                    .map(&place)
                    .filter_map(|place| {
                        Some((place, Buffer::copy_of(&record(member, place)?).share()))
                    })
                    .collect();
                if copies.is_empty() {
                    return Some("what is left of another record cannot be wiped".to_owned());
                }
                if let Some(reason) = self.write_record(member, &copies, in_one_trip, how).await {
                    return Some(reason);
                }
                // Another area may have been added meanwhile. The task that copied the first area
                // to it may have done so before this record was there (`headers.rs`, step 3).
                let now = member.areas();
                if now.iter().all(|area| areas.contains(area)) {
                    return None;
                }
                areas = now;
            }
        });
        let results = futures::future::join_all(writes).await;
        for (member, result) in members.iter().zip(results) {
            if let Some(reason) = result {
                failed.insert(member.number, reason);
            }
        }
        failed
    }

    /// Writes a record to some areas of a disk. Returns why that failed, if it did.
    async fn write_record(
        &self,
        member: &Member,
        copies: &[(u64, Slice)],
        in_one_trip: bool,
        how: Copies,
    ) -> Option<String> {
        // A record is read back: a disk may acknowledge a write and lose it.
        let mut lost = Vec::new();
        for _ in 0..2 {
            match write_copies(member, copies, in_one_trip).await {
                Ok(places) => lost = places,
                Err(reason) => return Some(reason),
            }
            if lost.is_empty() {
                return None;
            }
        }
        let is_held = |(place, _): &(u64, Slice)| !lost.iter().any(|(other, _)| other == place);
        if how == Copies::One && copies.iter().any(is_held) {
            self.tell_of_lost_copies(member, &lost);
            return None;
        }
        lost.into_iter().next().map(|(_, reason)| reason)
    }

    /// A disk has a record in one of its areas only. Reported once for each place.
    fn tell_of_lost_copies(&self, member: &Member, lost: &[(u64, String)]) {
        for (place, reason) in lost {
            if self.lost_copies.lock().insert((member.number, *place)) {
                let (disk, path) = (member.name(), member.path());
                let text = format!(
                    "disk {disk} ({path}) keeps one copy of its records only, without that at {place}: {reason}"
                );
                self.tell(Severity::Warning, Some(member.number), text);
            }
        }
    }
}

/// Writes the copies of a record concurrently, makes them durable, and reads them back. Returns the
/// places that do not hold the record, and why. Overdue I/O is a failure of the disk, as is a
/// failed flush, even in a durable write or begun by another task: it may have lost the record
/// although that is read back (R9).
async fn write_copies(
    member: &Member,
    copies: &[(u64, Slice)],
    in_one_trip: bool,
) -> Result<Vec<(u64, String)>, String> {
    let mut lost = Vec::new();
    let broken = member.broken();
    let writes = copies.iter().map(|(place, bytes)| match in_one_trip {
        true => member.start_durable_write(*place, bytes.clone()).of(IoClient::Records),
        false => member.start_write(*place, bytes.clone()).of(IoClient::Records),
    });
    let writes: Vec<_> = writes.collect();
    let written = futures::future::join_all(writes.into_iter().map(DiskIo::result)).await;
    for ((place, _), ended) in copies.iter().zip(written) {
        match ended {
            IoResult::Failed(error) if !in_one_trip => lost.push((*place, error.to_string())),
            ended => drop(ended.into_result()?),
        }
    }
    if !in_one_trip {
        member.flush().await.into_result()?;
    }
    member.check_kept_since(broken)?;
    let reads = copies
        .iter()
        .map(|(place, bytes)| member.start_read(*place, bytes.len()).of(IoClient::Records));
    let reads: Vec<_> = reads.collect();
    let found = futures::future::join_all(reads.into_iter().map(DiskIo::result)).await;
    for ((place, bytes), ended) in copies.iter().zip(found) {
        match ended {
            IoResult::Failed(error) => lost.push((*place, error.to_string())),
            ended => {
                if ended.into_result()?.is_none_or(|found| found[..] != bytes[..]) {
                    lost.push((*place, format!("what was written at {place} is not there")));
                }
            }
        }
    }
    Ok(lost)
}
