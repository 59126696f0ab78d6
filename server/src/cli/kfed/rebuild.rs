//! `kfed repair --rebuild`: the header of a disk that has no copy of it left, made again.
//!
//! A membership says everything of its disks that a header says, but for the label. So the newest
//! membership is taken that is on the disk itself or on the other disks of its group which the
//! operator names. Which of its disks this one is say the disk's own records: each has the id of
//! the disk that it was written to. Where no record is left either, the operator says it; the next
//! mount finds no stamp on the disk, leaves it offline, and ONLINE copies it whole.

use super::{
    super::{
        Result,
        raw_disk::{RawDisk, world},
    },
    repair::newest,
    undrop::{newest_membership, one_group},
};
use crate::sql_error::SqlError;
use plinth_engine::{
    admin::{AdminError, Code},
    disk::identify::examine_header,
};
use plinth_format::{
    BLOCK_SIZE, DiskId, GroupId, Layout,
    activity::ActivityLog,
    envelope::Envelope,
    header::{DiskHeader, Status},
    layout::{ACTIVITY_SLOT, FIRST_AREA, MEMBERSHIP_SLOT, au_sizes},
    membership::{MemberDisk, Membership},
    stamp::Stamp,
};
use std::{collections::BTreeSet, path::PathBuf};

fn refuse(text: String, hint: &str) -> SqlError {
    SqlError::from(AdminError::new(Code::Invalid, text).hint(hint))
}

/// A header, and what it cannot have, in sentences.
pub(super) struct Rebuilt {
    pub header: DiskHeader,
    pub remarks: Vec<String>,
}

/// The header of a disk, from the memberships on it and on other disks of its group. `name`: which
/// disk it is, if no record on it says that.
///
/// # Errors
/// If a copy is left, or too little is known.
pub(super) fn rebuilt(disk: &RawDisk, others: &[PathBuf], name: Option<&str>) -> Result<Rebuilt> {
    if let (_, Some(header)) = plinth_host::block_on(examine_header(&world()?, &*disk.disk)) {
        let text = format!("{} has a header, of disk {}", disk.path, header.best.name);
        return Err(refuse(text, "kfed repair DISK rewrites its other copies"));
    }
    let mut fellows = Vec::new();
    for path in others {
        let other = RawDisk::open(path)?;
        let header = newest(&other)?;
        fellows.push((other, header));
    }
    one_group(&fellows)?;
    let theirs = match fellows.first() {
        Some((_, header)) => Some((header.group, newest_membership(&fellows)?)),
        None => None,
    };
    let left = Left::on(disk, theirs.as_ref().map(|(_, membership)| membership));
    let (group, membership) = left.newest_membership(theirs).ok_or_else(|| {
        let text = format!("{}: no membership is left on it", disk.path);
        refuse(text, "name other disks of its group behind --rebuild")
    })?;
    let id = left.whose(disk, group, &membership, name)?;
    let Some(member) = membership.disks.iter().find(|member| member.id == id) else {
        let text = format!("{} is no disk of disk group {}", disk.path, membership.group_name);
        return Err(refuse(text, "its records are of a disk that was dropped from the group"));
    };
    if let Some((twin, _)) = fellows.iter().find(|(_, header)| header.disk == id) {
        let text = format!("disk {} is {}, which has its header", member.name, twin.path);
        return Err(refuse(text, "two devices cannot be one disk of a group"));
    }
    let header = header_of(disk, group, &membership, member, &fellows)?;
    let mut remarks = Vec::new();
    if fellows.iter().any(|(_, header)| header.label.is_some()) {
        remarks.push(format!("the label of disk {} is not known, and is left out", member.name));
    }
    if fellows.iter().any(|(_, header)| header.origin.is_some()) {
        let text = "the group was renamed: blocks of the disk that were lost before that may be \
                    taken for data; ALTER DISKGROUP ... CHECK reports those whose mirrors differ";
        remarks.push(text.to_owned());
    }
    Ok(Rebuilt { header, remarks })
}

/// The valid records on a disk that has no header.
struct Left {
    /// The ids of groups and disks that they were written for.
    ids: BTreeSet<(GroupId, DiskId)>,
    memberships: Vec<(GroupId, Membership)>,
}

impl Left {
    /// They are looked for in the first area, and in the middle areas of a disk of any AU size and
    /// of the disks that a membership names.
    fn on(disk: &RawDisk, membership: Option<&Membership>) -> Self {
        let whole = au_sizes().map(|au_size| (disk.size(), au_size));
        let named = membership.into_iter().flat_map(|membership| {
            membership.disks.iter().map(|member| (member.size, membership.au_size))
        });
        let areas = whole
            .filter_map(|(size, au_size)| Layout::of_whole_units(size, au_size).ok())
            .chain(named.filter_map(|(size, au_size)| Layout::new(size, au_size).ok()))
            .map(|layout| layout.middle_area())
            .chain([FIRST_AREA]);
        let mut left = Self { ids: BTreeSet::new(), memberships: Vec::new() };
        for area in areas {
            let read = |place: u64, length| disk.read(place, length).unwrap_or_default();
            let stamps = area.stamps.map(|place| {
                Stamp::decode(&read(place, BLOCK_SIZE), place).map(|(envelope, _)| envelope)
            });
            let activity = area.activity.map(|place| {
                ActivityLog::decode(&read(place, ACTIVITY_SLOT), place)
                    .map(|(envelope, _)| envelope)
            });
            let records = stamps.into_iter().chain(activity).flatten();
            left.ids.extend(records.map(|envelope: Envelope| (envelope.group, envelope.disk)));
            for place in area.memberships {
                let bytes = read(place, MEMBERSHIP_SLOT);
                if let Ok((envelope, membership)) = Membership::decode(&bytes, place) {
                    left.ids.insert((envelope.group, envelope.disk));
                    left.memberships.push((envelope.group, membership));
                }
            }
        }
        left
    }

    /// The newest membership, of the records and of the other disks' one: of their group, if there
    /// are other disks.
    fn newest_membership(
        &self,
        theirs: Option<(GroupId, Membership)>,
    ) -> Option<(GroupId, Membership)> {
        let group = theirs.as_ref().map(|(group, _)| *group);
        let own =
            self.memberships.iter().filter(|(own, _)| group.is_none_or(|group| group == *own));
        own.cloned().chain(theirs).max_by_key(|(_, membership)| membership.generation)
    }

    /// The disk of the group that a device was.
    fn whose(
        &self,
        disk: &RawDisk,
        group: GroupId,
        membership: &Membership,
        name: Option<&str>,
    ) -> Result<DiskId> {
        let path = &disk.path;
        let named = match name {
            None => None,
            Some(name) => {
                let named = membership.disks.iter().find(|member| member.name == name);
                Some(named.map(|member| member.id).ok_or_else(|| {
                    let names: Vec<_> =
                        membership.disks.iter().map(|member| member.name.as_str()).collect();
                    let text = format!("disk group {} has no disk {name}", membership.group_name);
                    refuse(text, &format!("its disks are {}", names.join(", ")))
                })?)
            }
        };
        let own: Vec<DiskId> =
            self.ids.iter().filter(|(of, _)| *of == group).map(|(_, disk)| *disk).collect();
        match (own.as_slice(), named) {
            ([], None) => Err(refuse(
                format!("{path}: no record is left on it that says which disk it is"),
                "say it with --name DISK; the disk that amdu --report calls missing",
            )),
            ([], Some(named)) => Ok(named),
            ([own], named) if named.is_none_or(|named| named == *own) => Ok(*own),
            ([own], _) => Err(refuse(
                format!("{path}: the records on it are of disk id {own}, which is another disk"),
                "leave --name out",
            )),
            (several, Some(named)) if several.contains(&named) => Ok(named),
            _ => Err(refuse(
                format!("{path}: the records on it are of several disks"),
                "say which one it is with --name DISK",
            )),
        }
    }
}

/// The header of a member, as the group would write it.
fn header_of(
    disk: &RawDisk,
    group: GroupId,
    membership: &Membership,
    member: &MemberDisk,
    fellows: &[(RawDisk, DiskHeader)],
) -> Result<DiskHeader> {
    let layout = Layout::new(member.size, membership.au_size)
        .map_err(|error| refuse(format!("disk {}: {error}", member.name), "kfed find"))?;
    let sectors = disk.disk.sectors();
    let theirs = fellows.first().map(|(_, header)| header);
    Ok(DiskHeader {
        group,
        disk: member.id,
        // Where an earlier layout left copies, they are older.
        sequence: membership.generation,
        created: membership.created,
        layout,
        logical_sector: sectors.logical,
        physical_sector: sectors.physical,
        number: member.number,
        status: theirs.map_or(Status::Member, |header| header.status),
        redundancy: membership.redundancy,
        quorum: member.quorum,
        middle_area: theirs.is_none_or(|header| header.middle_area),
        group_name: membership.group_name.clone(),
        name: member.name.clone(),
        failure_group: member.failure_group.clone(),
        origin: None,
        label: None,
        has_prefix: true,
    })
}
