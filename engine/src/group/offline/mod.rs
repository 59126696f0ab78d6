//! Reading a group that is not mounted, from whichever of its disks there are; nothing is written
//! and nothing is claimed.
//!
//! A mount refuses where it could return something old or nothing at all. Here that is the point: a
//! broken or dropped group, or half of its disks, is read as far as it can be, and everything that
//! is missing, damaged or may be old is said. The steps:
//!
//!   1. Read header, stamps and memberships of each disk ([`look`]), and decide as MOUNT FORCE does
//!      which membership holds and which disks are current. Where even that refuses, the newest
//!      membership is used, and the refusal is a remark.
//!   2. Copy the catalog (`catalog.rs`): of each page the newest good mirror, then the commits of
//!      the log, by the code of a mount.
//!   3. Read names, files and extents from the copy (`catalog/copied.rs`), and the bytes of files
//!      from the mirror that is right (`contents.rs`).
//!
//! A group that an engine has mounted meanwhile can be read too: its catalog is copied until no
//! checkpoint came between, and blocks that are being written count as not verified.

pub mod catalog;
pub mod contents;

use crate::{
    disk::identify::{self, Case, Header, ProbeResult},
    membership::mount_decision::{self, DiskVerdict},
    sync::buffer::Buffer,
    world::{Disk, Found, Io, World, wait_for},
};
use plinth_format::{
    DiskNumber, GroupId,
    activity::{ActivityLog, Region},
    header::{DiskHeader, Status},
    layout::ACTIVITY_SLOT,
    membership::{DiskState, MemberDisk, Membership},
};
use std::{collections::BTreeMap, io, sync::Arc};

/// The groups of the given disks.
#[derive(Debug, Default)]
pub struct Looked {
    pub groups: Vec<OfflineGroup>,
    /// Disks of no group, or of one without a membership: path and reason.
    pub others: Vec<(String, String)>,
}

/// A group, as its disks describe it.
#[derive(Debug)]
pub struct OfflineGroup {
    pub name: String,
    pub id: GroupId,
    pub membership: Membership,
    /// In the order of the membership.
    pub disks: Vec<OfflineDisk>,
    /// The reasons for which a mount would be refused, and its warnings.
    pub remarks: Vec<String>,
    /// Its disks' headers say FORMER: it was dropped.
    pub is_dropped: bool,
    /// An engine has it now.
    pub is_in_use: bool,
    /// It was not dismounted in good order: mirrors of these extents may differ.
    pub active: Vec<Region>,
}

/// A disk that the membership names.
#[derive(Debug)]
pub struct OfflineDisk {
    pub member: MemberDisk,
    pub verdict: DiskVerdict,
    /// `None`: it is not there.
    pub found: Option<FoundDisk>,
}

#[derive(Debug, Clone)]
pub struct FoundDisk {
    pub path: String,
    pub disk: Arc<dyn Disk>,
    pub header: Header,
    /// The newest stamp on it.
    pub stamp: Option<u64>,
    /// The generation of the newest membership on it.
    pub generation: Option<u64>,
}

impl OfflineDisk {
    /// Whether what it holds is as new as the membership.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.verdict == DiskVerdict::Current && self.member.state == DiskState::Online
    }
}

impl OfflineGroup {
    #[must_use]
    pub fn disk(&self, number: DiskNumber) -> Option<&OfflineDisk> {
        self.disks.iter().find(|disk| disk.member.number == number)
    }

    /// Whether writes to an extent may have been in flight when the group was last used.
    #[must_use]
    pub fn is_active(&self, extent: u64) -> bool {
        self.active.iter().any(|region| {
            extent.checked_sub(region.first).is_some_and(|at| at < u64::from(region.count))
        })
    }
}

/// Reads bytes of a disk.
///
/// # Errors
/// The disk's.
pub fn read(world: &dyn World, disk: &dyn Disk, offset: u64, length: usize) -> io::Result<Buffer> {
    if offset.checked_add(length as u64).is_none_or(|end| end > disk.size()) {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the disk"));
    }
    let read = disk.submit(Io::Read { offset, buffer: Buffer::zeroed(length) });
    let done = wait_for(world, read);
    done.result?;
    done.buffer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// One disk with a header.
struct Member {
    disk: Arc<dyn Disk>,
    header: Header,
    probe: ProbeResult,
    status: Status,
}

/// Step 1.
#[must_use]
pub fn look(world: &dyn World, found: Vec<Found>) -> Looked {
    let mut looked = Looked::default();
    let mut groups: BTreeMap<GroupId, Vec<Member>> = BTreeMap::new();
    for one in found {
        let disk = match &one.disk {
            Ok(disk) => Arc::clone(disk),
            Err(error) => {
                looked.others.push((one.path, format!("cannot be opened: {error}")));
                continue;
            }
        };
        let (case, header) = wait_for(world, identify::examine_header(world, &*disk));
        let Some(header) = header else {
            let why = if case == Case::Contested {
                "its header copies are of several disks; kfed find shows them"
            } else {
                "no header of a disk group; kfed find looks for copies anywhere on it"
            };
            looked.others.push((one.path, why.to_owned()));
            continue;
        };
        let probe = wait_for(world, identify::probe(world, &one, &*disk, header.best.clone()));
        let (group, status) = (header.best.group, header.best.status);
        groups.entry(group).or_default().push(Member { disk, header, probe, status });
    }
    for (id, members) in groups {
        match describe(world, id, members) {
            Ok(group) => looked.groups.push(group),
            Err(others) => looked.others.extend(others),
        }
    }
    looked
}

/// The group of some disks; or why each of them belongs to none that can be read.
fn describe(
    world: &dyn World,
    id: GroupId,
    members: Vec<Member>,
) -> Result<OfflineGroup, Vec<(String, String)>> {
    let memberships = members.iter().flat_map(|member| &member.probe.memberships);
    let newest = memberships.max_by_key(|membership| (membership.generation, membership.id));
    let Some(newest) = newest.cloned() else {
        let why = "no disk of its group that is there has a readable membership, which says where \
                   the catalog is";
        let paths = members.iter().map(|member| member.probe.path.clone());
        return Err(paths.map(|path| (path, why.to_owned())).collect());
    };
    let name = newest.group_name.clone();
    // As before they were dropped.
    let as_member = |header: &DiskHeader| DiskHeader {
        status: Status::Member,
        group_name: name.clone(),
        ..header.clone()
    };
    let probes: Vec<ProbeResult> = members
        .iter()
        .map(|member| ProbeResult {
            header: as_member(&member.probe.header),
            ..member.probe.clone()
        })
        .collect();
    let mut remarks = Vec::new();
    let (membership, verdicts) = match mount_decision::choose(&name, &probes, true) {
        Ok(decision) => {
            remarks.extend(decision.warnings.into_iter().map(|warning| match warning.missing {
                Some(disk) => format!("disk {disk} is missing"),
                None => warning.text,
            }));
            let verdicts = decision.disks.into_iter().map(|disk| (disk.verdict, disk.probe_result));
            (decision.membership, verdicts.collect::<Vec<_>>())
        }
        Err(refusal) => {
            remarks.push(format!("it could not be mounted: {refusal}"));
            let verdicts = newest.disks.iter().map(|disk| judge(disk, &newest, &probes)).collect();
            (newest, verdicts)
        }
    };
    let named =
        |member: &&Member| membership.disks.iter().any(|disk| disk.id == member.header.best.disk);
    let of_group: Vec<&Member> = members.iter().filter(named).collect();
    let is_dropped = of_group.iter().any(|member| member.status == Status::Former);
    let is_in_use = of_group.iter().any(|member| member.disk.was_held());
    for member in members.iter().filter(|member| !named(member)) {
        let (path, disk) = (&member.probe.path, &member.header.best.name);
        remarks.push(format!("{path} was disk {disk} of the group, and is none of it any more"));
    }
    let active = if membership.mounted { active_regions(world, &of_group) } else { Vec::new() };
    let disks = membership.disks.iter().zip(verdicts).map(|(disk, (verdict, index))| {
        let found = index.and_then(|index| members.get(index)).map(|member| FoundDisk {
            path: member.probe.path.clone(),
            disk: Arc::clone(&member.disk),
            header: member.header.clone(),
            stamp: member.probe.stamps.iter().map(|stamp| stamp.counter).max(),
            generation: member.probe.memberships.iter().map(|one| one.generation).max(),
        });
        OfflineDisk { member: disk.clone(), verdict, found }
    });
    let disks = disks.collect();
    Ok(OfflineGroup { name, id, membership, disks, remarks, is_dropped, is_in_use, active })
}

/// The verdict on a disk where no mount would be possible.
fn judge(
    disk: &MemberDisk,
    membership: &Membership,
    probes: &[ProbeResult],
) -> (DiskVerdict, Option<usize>) {
    let mut of_disk = (0..probes.len()).filter(|at| probes[*at].header.disk == disk.id);
    match (of_disk.next(), of_disk.next()) {
        (None, _) => (DiskVerdict::Absent, None),
        (Some(at), Some(other)) if probes[at].identity != probes[other].identity => {
            (DiskVerdict::Duplicate, None)
        }
        (Some(at), _) => (mount_decision::returning(&probes[at], disk, membership), Some(at)),
    }
}

/// The regions of the newest activity log on any of the disks.
fn active_regions(world: &dyn World, members: &[&Member]) -> Vec<Region> {
    let mut newest: Option<ActivityLog> = None;
    for member in members {
        let header = &member.header.best;
        for place in header.record_areas().iter().flat_map(|area| area.activity) {
            let Ok(bytes) = read(world, &*member.disk, place, ACTIVITY_SLOT) else { continue };
            if let Ok((envelope, log)) = ActivityLog::decode(&bytes, place)
                && envelope.expect(header.group, header.disk).is_ok()
                && newest.as_ref().is_none_or(|newest| newest.sequence < log.sequence)
            {
                newest = Some(log);
            }
        }
    }
    newest.map_or_else(Vec::new, |log| log.regions)
}
