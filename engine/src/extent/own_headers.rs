//! Headers of the group's own disks: what they must say, and how they get it.
//!
//! A task that writes one holds `renaming`, or is the mount, or has a disk that is no member yet:
//! so a header that is just being written is not taken for wrong.

use crate::{
    disk::{
        counters::IoClient,
        disk_io::IoResult,
        headers::{header_of, put_header, repaired_header, replace_header, write_header},
        identify::{self, Search},
        member::Member,
    },
    event::Severity,
    extent::data::Data,
    planted::{self, Bug},
    world::Disk,
};
use plinth_format::{
    BLOCK_SIZE,
    header::{DiskHeader, Status},
    layout::HEADER_PLACE,
};
use std::sync::Arc;

impl Data {
    /// The header that a disk's copies show, and the places of those that are wrong. `None`: they
    /// show no header, or another disk's.
    ///
    /// # Errors
    /// If the disk does not answer in time.
    pub(crate) async fn own_header(
        &self,
        member: &Member,
        disk: &dyn Disk,
    ) -> Result<Option<(DiskHeader, Vec<u64>)>, String> {
        let first = read_copy(member, HEADER_PLACE).await?;
        let mut search = Search::new(first, member.layout().header_places().to_vec());
        while let Some(place) = search.next() {
            let copy = read_copy(member, place).await?;
            search.found(place, copy);
        }
        let (_, found) = search.end(disk.size());
        let is_own = |header: &DiskHeader| {
            (header.group, header.disk, header.status) == (self.id, member.id(), Status::Member)
        };
        Ok(found.filter(|header| is_own(&header.best)).map(|header| (header.best, header.wrong)))
    }

    /// The header that a disk must have, where it has none: there is no sequence to go on from.
    pub(crate) fn header_from_memory(&self, member: &Member) -> DiskHeader {
        header_of(self.id, &self.voters.current(), member, self.created, Status::Member, 1)
    }

    /// What a header has wrong of its disk: its name, its label, its size, its form or the group's
    /// redundancy. While it is resized both sizes are right.
    pub(crate) fn outdated(&self, member: &Member, header: &DiskHeader) -> Option<String> {
        if *header.name != *member.name() {
            return Some(format!("calls it {}", header.name));
        }
        if header.label != member.label() {
            let label = header.label.as_ref().map_or("no label", |label| label.as_str());
            return Some(format!("says that it has {label}"));
        }
        if !header.has_prefix {
            return Some("has the form of an earlier version".to_owned());
        }
        if header.redundancy != self.redundancy() {
            return Some(format!("says that the group is of {} redundancy", header.redundancy));
        }
        if !header.middle_area {
            return Some("says that its records are in one place only".to_owned());
        }
        let size = header.layout.size();
        let target = self.voters.current().disk(member.number).and_then(|entry| entry.target);
        let is_right = size == member.layout().size() || Some(size) == target;
        (!is_right).then(|| format!("says that {size} bytes of it are used"))
    }

    /// Rewrites the header copies of a disk that are missing, damaged or older; all of them if a
    /// crash kept its new name from them, if its records are in the first area only, if they have
    /// the form of an earlier version, or if no copy is the disk's any more.
    pub(crate) async fn repair_header(
        &self,
        member: &Arc<Member>,
    ) -> std::result::Result<(), String> {
        let Some(disk) = member.disk() else { return Ok(()) };
        let Some((best, wrong)) = self.own_header(member, &*disk).await? else {
            let header = self.header_from_memory(member);
            return put_header(member, &header, &header.layout.header_places()).await;
        };
        let is_outdated = self.outdated(member, &best).is_some();
        if wrong.is_empty() && !is_outdated {
            return Ok(());
        }
        if is_outdated || planted::has(Bug::HeadersTogether) {
            let mut renewed = best.clone();
            if is_outdated {
                (renewed.name, renewed.layout) = (member.name().to_string(), member.layout());
                renewed.redundancy = self.redundancy();
                (renewed.middle_area, renewed.has_prefix) = (true, true);
                renewed.label = member.label();
            }
            let places = renewed.layout.header_places();
            return replace_header(member, &best, renewed, &places).await;
        }
        write_header(member, &best, &wrong).await?;
        let text = repaired_header(&member.name(), &member.path(), &wrong);
        self.tell(Severity::Warning, Some(member.number), text);
        Ok(())
    }

    /// Writes into headers what the membership says. The next mount does it where it cannot be done
    /// now.
    pub(crate) async fn renew_headers(&self) {
        for member in self.members.values().filter(|member| member.is_writable()) {
            self.renew_header(member).await;
        }
    }

    /// As [`Self::renew_headers`], for a disk that has just become a member: its header was written
    /// before, and the group may have changed meanwhile.
    pub(crate) async fn renew_header_of_new(&self, member: &Arc<Member>) {
        let _nobody_compares = self.renaming.lock().await;
        self.renew_header(member).await;
    }

    /// As [`Self::renew_headers`], for one disk.
    pub(crate) async fn renew_header(&self, member: &Arc<Member>) {
        if let Err(reason) = self.repair_header(member).await {
            let text = format!("header of disk {}: {reason}", member.name());
            self.tell(Severity::Warning, Some(member.number), text);
        }
    }

    /// Writes a header that says FORMER.
    pub(crate) async fn retire(
        &self,
        member: &Member,
        disk: &dyn Disk,
    ) -> std::result::Result<(), String> {
        let header = identify::read_header(&*self.world, disk).await;
        let sequence = header.map_or(1, |header| header.best.sequence + 1);
        let header = header_of(
            self.id,
            &self.voters.current(),
            member,
            self.created,
            Status::Former,
            sequence,
        );
        write_header(member, &header, &header.layout.header_places()).await
    }
}

/// A header copy, if there is one at a place.
pub(crate) async fn read_copy(member: &Member, place: u64) -> Result<Option<DiskHeader>, String> {
    match member.start_read(place, BLOCK_SIZE).of(IoClient::Records).result().await {
        IoResult::Ok(Some(block)) => Ok(DiskHeader::decode(&block, place).ok()),
        IoResult::Overdue => Err(IoResult::Overdue.reason()),
        _ => Ok(None),
    }
}
