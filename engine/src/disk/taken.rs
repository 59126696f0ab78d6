//! Disks that a statement takes: CREATE, ADD, REPLACE. The checks, the claim, and the areas that
//! are wiped before the disks are used.
//!
//! Nothing here writes to a disk but [`wipe_system_area`], which is called after all disks of the
//! statement are claimed (R1).

use crate::{
    admin::{AdminError, Code, HeaderStatus, NewDisk},
    disk::identify::{self, survey_one},
    sync::buffer::Buffer,
    world::{Disk, Found, Identity, Io, World, is_held},
};
use plinth_format::{
    BLOCK_SIZE, DiskId, DiskNumber, FormatError, GroupId, Label, Layout,
    header::{DiskHeader, Status},
    is_name,
    label::LabelRecord,
    layout::{HEADER_PLACE, MIB, au_sizes},
    membership::{DiskState, MemberDisk, Membership},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

type Result<T> = std::result::Result<T, AdminError>;

/// The farthest copy of a Btrfs superblock.
const BTRFS_LAST_COPY: u64 = 256 << 30;

/// A disk that `CREATE` or `ADD` takes.
pub(crate) struct Taken {
    pub disk: Arc<dyn Disk>,
    pub entry: MemberDisk,
    pub layout: Layout,
    /// The label that the device has: its header in the group gets it.
    pub label: Option<Label>,
}

/// The disks that a statement takes, and the group that takes them.
pub(crate) struct Wanted<'a> {
    pub group: &'a str,
    pub au_size: u64,
    pub disks: &'a [NewDisk],
    /// Their numbers, in this order.
    pub numbers: Vec<DiskNumber>,
    /// A mounted group: a disk with its header that is none of its members is free.
    pub of: Option<(GroupId, &'a Membership)>,
}

/// Checks that all names are valid.
pub(crate) fn check_names(group: &str, disks: &[NewDisk]) -> Result<()> {
    check_name("disk group", group)?;
    for disk in disks {
        disk.name.as_deref().map_or(Ok(()), |name| check_name("disk", name))?;
        disk.failure_group.as_deref().map_or(Ok(()), |name| check_name("failure group", name))?;
    }
    Ok(())
}

pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if is_name(name) {
        return Ok(());
    }
    Err(AdminError::new(Code::Invalid, format!("{name:?} cannot name a {what}"))
        .hint("a name begins with a letter and has up to 30 letters, digits, _, $ or #"))
}

/// Checks one disk, and returns the layout that it would get.
async fn check_disk(
    world: &Arc<dyn World>,
    new: &Wanted<'_>,
    wanted: &NewDisk,
    found: &[Found],
) -> Result<(Arc<dyn Disk>, Layout, Option<Label>)> {
    let path = &wanted.path;
    check_one_device(path, found)?;
    let Some(one) = found.iter().find(|one| one.path == *path) else {
        return Err(AdminError::new(Code::UnknownDisk, format!("disk {path} was not found"))
            .hint("ASM_DISKSTRING must match it; V$ASM_DISK shows the visible disks"));
    };
    let disk = one.disk.clone().map_err(|error| {
        AdminError::new(Code::CannotOpen, format!("disk {path} cannot be opened: {error}"))
            .hint("check the device and its permissions")
    })?;
    let (survey, header) = survey_one(world, one).await;
    if let Some(user) = disk.user() {
        return Err(AdminError::new(Code::DiskInUse, format!("disk {path} is in use: {user}"))
            .hint("end what uses it, or use another disk; FORCE does not help"));
    }
    // Left by an `ADD` that was cut short, or dropped while it was offline.
    let is_nobodys = header.as_ref().is_some_and(|header| {
        new.of.is_some_and(|(group, membership)| {
            header.group == group && membership.disks.iter().all(|disk| disk.id != header.disk)
        })
    });
    let in_use = |text: String, hint: &str| Err(AdminError::new(Code::DiskInUse, text).hint(hint));
    match survey.header {
        HeaderStatus::Member if !wanted.force && !is_nobodys => {
            if let Some(refusal) = header.as_ref().and_then(|header| own_member(new, path, header))
            {
                return Err(refusal);
            }
            let group = header.map_or_else(String::new, |header| header.group_name);
            return in_use(
                format!("disk {path} belongs to disk group {group}"),
                "drop that disk group, or add FORCE to take the disk and lose what is on it",
            );
        }
        HeaderStatus::Foreign if !wanted.force => {
            let occupant = survey.remark.unwrap_or_default();
            return in_use(
                format!("disk {path} is in use: {occupant}"),
                "wipe it (wipefs -a), or add FORCE to take the disk and lose what is on it",
            );
        }
        HeaderStatus::Incompatible | HeaderStatus::Unknown if !wanted.force => {
            let remark = survey.remark.unwrap_or_default();
            return in_use(
                format!("disk {path}: {remark}"),
                "add FORCE to take the disk and lose what is on it",
            );
        }
        _ => {}
    }
    let layout = check_size(&*disk, wanted.size, disk.size(), new.au_size)?;
    let label = survey.label.as_deref().and_then(Label::new);
    Ok((disk, layout, label))
}

/// Refuses a path that leads to several devices: a label that two of them have.
fn check_one_device(path: &str, found: &[Found]) -> Result<()> {
    let mut devices: BTreeMap<&Identity, String> = BTreeMap::new();
    for one in found.iter().filter(|one| one.path == path) {
        let device = one.disk.as_ref().map_or_else(|_| path.to_owned(), |disk| disk.device());
        devices.entry(&one.identity).or_insert(device);
    }
    if devices.len() < 2 {
        return Ok(());
    }
    let devices: Vec<String> = devices.into_values().collect();
    let text = format!("{path} is the label of {}", devices.join(" and of "));
    Err(AdminError::new(Code::DuplicateDisk, text).hint(format!(
        "say which is meant: ALTER SYSTEM LABEL SET another label TO '{}' RENAME",
        devices[0]
    )))
}

/// The error for a device that is already a disk of the same group.
fn own_member(new: &Wanted<'_>, path: &str, header: &DiskHeader) -> Option<AdminError> {
    let (_, membership) = new.of.filter(|(group, _)| *group == header.group)?;
    let own = membership.disks.iter().find(|disk| disk.id == header.disk)?;
    let (name, group) = (&own.name, new.group);
    let text = format!("disk {path} is disk {name} of disk group {group} itself");
    let hint = match own.state {
        DiskState::Offline => {
            format!("name another device; or ALTER DISKGROUP {group} ONLINE DISK {name}")
        }
        _ => "name another device".to_owned(),
    };
    Some(AdminError::new(Code::DiskInUse, text).hint(hint))
}

/// The layout of a device of `has` bytes, if `wanted` of them are used; all of them by default.
pub(crate) fn check_size(
    disk: &dyn Disk,
    wanted: Option<u64>,
    has: u64,
    au_size: u64,
) -> Result<Layout> {
    let path = disk.path();
    let size = wanted.unwrap_or(has);
    if size > has {
        let text = format!("disk {path} has {has} bytes, SIZE says {size}");
        return Err(AdminError::new(Code::DiskTooSmall, text).hint("give a smaller SIZE, or none"));
    }
    Layout::of_whole_units(size, au_size).map_err(|error| match error {
        FormatError::Field { field: "AU size", value } => AdminError::new(
            Code::Invalid,
            format!("AU size {value} is not a power of two from 1M to 64M"),
        ),
        _ => {
            let least = Layout::smallest(au_size);
            AdminError::new(
                Code::DiskTooSmall,
                format!("disk {path} is too small: {} MB", size / MIB),
            )
            .hint(format!(
                "with an AU size of {} MB a disk needs {} MB",
                au_size / MIB,
                least.div_ceil(MIB)
            ))
        }
    })
}

/// The error for a disk that is not held by another program and still cannot be claimed.
pub(crate) fn unusable(disk: &str, error: &std::io::Error) -> AdminError {
    AdminError::new(Code::CannotOpen, format!("{disk} cannot be used: {error}"))
        .hint("check the device and its permissions")
}

/// Checks disks and claims them.
///
/// # Errors
/// If a disk cannot be taken: the first one, and why.
pub(crate) async fn take_disks(
    world: &Arc<dyn World>,
    new: &Wanted<'_>,
    found: &[Found],
) -> Result<Vec<Taken>> {
    let mut taken: Vec<Taken> = Vec::new();
    let mut identities = BTreeMap::new();
    for (index, wanted) in new.disks.iter().enumerate() {
        let (disk, layout, label) = check_disk(world, new, wanted, found).await?;
        let identity =
            found.iter().find(|one| one.path == wanted.path).map(|one| one.identity.clone());
        if let Some(other) = identities.insert(identity, wanted.path.clone()) {
            let text = format!("{} and {other} are one device", wanted.path);
            return Err(AdminError::new(Code::DuplicateDisk, text).hint("name each device once"));
        }
        let too_many = || AdminError::new(Code::Invalid, "too many disks");
        let number = new.numbers.get(index).copied().ok_or_else(too_many)?;
        let name = wanted.name.clone().unwrap_or_else(|| free_name(new, number, &taken));
        if taken.iter().any(|other| other.entry.name == name) {
            return Err(AdminError::new(Code::Invalid, format!("two disks are named {name}")));
        }
        if let Some(first) = taken.first() {
            check_sectors(&*first.disk, &*disk)?;
        }
        let entry = new_member(world, wanted, number, name, layout);
        taken.push(Taken { disk, entry, layout, label });
    }
    for one in &taken {
        claim(world, new, &*one.disk).await?;
    }
    Ok(taken)
}

/// Checks that a disk has the sector size of the first one.
fn check_sectors(first: &dyn Disk, disk: &dyn Disk) -> Result<()> {
    if first.sectors().logical == disk.sectors().logical {
        return Ok(());
    }
    let text = format!(
        "disk {} has sectors of {} bytes, disk {} of {}",
        disk.path(),
        disk.sectors().logical,
        first.path(),
        first.sectors().logical
    );
    Err(AdminError::new(Code::DiskMismatch, text)
        .hint("all disks of a group have one sector size; make two groups"))
}

/// The entry of a new disk in the membership.
fn new_member(
    world: &Arc<dyn World>,
    wanted: &NewDisk,
    number: DiskNumber,
    name: String,
    layout: Layout,
) -> MemberDisk {
    MemberDisk {
        id: DiskId(new_id(world)),
        number,
        state: DiskState::Online,
        votes: false,
        quorum: wanted.quorum,
        copy_whole: false,
        by_operator: false,
        absent: false,
        leaving: false,
        size: layout.size(),
        target: None,
        stamp: 0,
        since: 0,
        joined: world.now(),
        failure_group: wanted.failure_group.clone().unwrap_or_else(|| name.clone()),
        name,
    }
}

/// Claims a disk; a refusal names the disk group or the program that holds it.
async fn claim(world: &Arc<dyn World>, new: &Wanted<'_>, disk: &dyn Disk) -> Result<()> {
    let Err(error) = disk.claim() else { return Ok(()) };
    let path = disk.path();
    if !is_held(&error) {
        return Err(unusable(&format!("disk {path}"), &error));
    }
    let header = identify::read_header(&**world, disk).await;
    let header = header.filter(|header| header.best.status == Status::Member);
    if let Some(refusal) = header.as_ref().and_then(|header| own_member(new, path, &header.best)) {
        return Err(refusal);
    }
    Err(match header {
        Some(header) => {
            let group = header.best.group_name;
            let text = format!(
                "disk {path} is in use: it belongs to disk group {group}, which is mounted"
            );
            AdminError::new(Code::DiskInUse, text)
                .hint(format!("use another disk, or drop disk group {group} first ({error})"))
        }
        None => AdminError::new(Code::DiskInUse, format!("disk {path} is in use: {error}"))
            .hint("end the program that holds it, or use another disk"),
    })
}

/// `GROUP_0000`, with a long group name cut.
pub(crate) fn default_name(group: &str, number: DiskNumber) -> String {
    let cut = group.len().min(plinth_format::NAME_MAX - 5);
    format!("{}_{:04}", &group[..cut], number.0)
}

/// The default name for the first number, from the disk's own on, whose default name no disk has:
/// it may have been given to another disk.
fn free_name(new: &Wanted<'_>, number: DiskNumber, taken: &[Taken]) -> String {
    let members = new.of.iter().flat_map(|(_, membership)| &membership.disks);
    let names: BTreeSet<&str> = members
        .filter(|disk| !new.numbers.contains(&disk.number))
        .map(|disk| disk.name.as_str())
        .chain(new.disks.iter().filter_map(|disk| disk.name.as_deref()))
        .chain(taken.iter().map(|one| one.entry.name.as_str()))
        .collect();
    let numbers = (number.0..=u16::MAX).chain(0..number.0).map(DiskNumber);
    let mut free = numbers
        .map(|number| default_name(new.group, number))
        .filter(|name| !names.contains(name.as_str()));
    free.next().unwrap_or_else(|| default_name(new.group, number))
}

/// Checks that no failure group has both quorum disks and others.
pub(crate) fn check_mixture<'a>(disks: impl Iterator<Item = &'a MemberDisk> + Clone) -> Result<()> {
    let mixed = disks.clone().find(|disk| {
        disks
            .clone()
            .any(|other| other.failure_group == disk.failure_group && other.quorum != disk.quorum)
    });
    let Some(disk) = mixed else { return Ok(()) };
    let text = format!("failure group {} is both QUORUM and not", disk.failure_group);
    Err(AdminError::new(Code::Invalid, text))
}

/// Prepares a disk for a group: nothing that an earlier use left is found on it, by Plinth or by
/// other programs. Only a label stays, in the first block, until the header is written there: a
/// crash before that leaves the disk labelled.
pub(crate) async fn wipe_system_area(taken: &Taken, layout: Layout, now: i64) -> Result<()> {
    let disk = &*taken.disk;
    let mut areas = former_uses(disk).await;
    areas.extend(layout.middle_area().slots());
    areas.extend(layout.header_places().map(|place| (place, BLOCK_SIZE)));
    if let Some(label) = &taken.label {
        keep_label(disk, label, now).await?;
        areas.retain(|area| *area != (HEADER_PLACE, BLOCK_SIZE));
        for (place, length) in areas.iter_mut().filter(|(place, _)| *place == HEADER_PLACE) {
            *place += BLOCK_SIZE as u64;
            *length -= BLOCK_SIZE;
        }
    }
    wipe(disk, areas).await
}

/// The label of a disk is in the first block, if it was only in a header or another copy before.
async fn keep_label(disk: &dyn Disk, label: &Label, now: i64) -> Result<()> {
    let buffer = Buffer::zeroed(BLOCK_SIZE);
    let first = disk.submit(Io::Read { offset: HEADER_PLACE, buffer }).await.buffer;
    let present = first.and_then(|block| LabelRecord::decode(&block, HEADER_PLACE).ok());
    if present.is_some_and(|record| record.label == *label) {
        return Ok(());
    }
    let record = LabelRecord { label: label.clone(), when: now, by: String::new() };
    let data = Buffer::copy_of(&record.encode(HEADER_PLACE)).share();
    for io in [Io::Write { offset: HEADER_PLACE, data, durably: false }, Io::Flush] {
        disk.submit(io).await.result.map_err(|error| {
            let text = format!("disk {}: writing its label: {error}", disk.path());
            AdminError::new(Code::Io, text).hint("replace the disk")
        })?;
    }
    Ok(())
}

/// The places and lengths of what earlier uses may have left on a device: header copies, label
/// records, and the signatures of other programs. These are in the first and the last MiB, except
/// for copies of LUKS headers, of superblocks of Btrfs and of VMFS, which begin at a power of two.
pub(crate) async fn former_uses(disk: &dyn Disk) -> Vec<(u64, usize)> {
    let size = disk.size();
    let ends = [0, size.saturating_sub(MIB)].map(|place| (place, size.min(MIB) as usize));
    let block = |place| (place, BLOCK_SIZE);
    // Includes copies that an earlier group with another layout left: they would be found if the
    // new first copy were damaged. An AU smaller than the disk's ends in its first AU.
    let mut areas: Vec<_> = au_sizes().chain([BTRFS_LAST_COPY]).map(block).collect();
    areas.extend(LabelRecord::places(size).into_iter().map(block));
    areas.extend(identify::old_places(disk).await.into_iter().map(block));
    areas.retain(|(place, length)| place + *length as u64 <= size);
    areas.extend(ends);
    areas
}

/// Writes zeros, durably.
pub(crate) async fn wipe(disk: &dyn Disk, areas: Vec<(u64, usize)>) -> Result<()> {
    let zeros = Buffer::zeroed(MIB as usize).share();
    for (offset, length) in areas {
        let data = zeros.part(0..length);
        let done = disk.submit(Io::Write { offset, data, durably: false }).await;
        done.result.map_err(|error| {
            AdminError::new(Code::Io, format!("disk {}: writing at {offset}: {error}", disk.path()))
                .hint("replace the disk")
        })?;
    }
    let done = disk.submit(Io::Flush).await;
    done.result.map_err(|error| {
        AdminError::new(Code::Io, format!("disk {}: flushing: {error}", disk.path()))
    })
}

pub(crate) fn new_id(world: &Arc<dyn World>) -> [u8; 16] {
    let mut id = [0; 16];
    world.random(&mut id);
    id
}
