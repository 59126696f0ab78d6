//! Making a disk group, and the header copies of its disks.
//!
//! Create:
//!
//!   1. Check the request and every disk; claim the disks (R1).
//!   2. Give the catalog its first AUs; wipe the system areas, old header copies with them.
//!   3. Record the first membership; write the catalog; stamp the disks.
//!   4. Write the headers, each copy flushed before the next.
//!
//! The headers come last: a crash before leaves disks that are still candidates.

use crate::{
    admin::{AdminError, Code, HeaderStatus, NewDisk, NewGroup},
    catalog::{
        Catalog, CatalogError,
        attributes::{self, Attributes},
        on_disks::{self, DiskStore},
    },
    disk::{
        counters::IoClient,
        identify::{self, survey_one},
        look::find_paths,
        member::{self, Member},
        members::Members,
    },
    group::Group,
    membership::{choose, voters::Voters},
    planted::{self, Bug},
    space::{Space, mirror_sets::MirrorSets},
    sync::{buffer::Buffer, lock::Mutex},
    world::{Disk, Found, World, is_held},
};
use plinth_format::{
    BLOCK_SIZE, DiskId, DiskNumber, FormatError, GroupId, Layout, MembershipId,
    header::{DiskHeader, Status},
    is_name,
    layout::{MIB, au_sizes},
    membership::{CatalogFile, DiskState, MemberDisk, Membership},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicU64},
};

type Result<T> = std::result::Result<T, AdminError>;

/// Bytes that the catalog's log gets, and its database begins with.
const WAL_SIZE: u64 = 16 * MIB;
const DATABASE_SIZE: u64 = 8 * MIB;

fn new_id(world: &Arc<dyn World>) -> [u8; 16] {
    let mut id = [0; 16];
    world.random(&mut id);
    id
}

/// A disk that `CREATE` or `ADD` takes.
pub(crate) struct Taken {
    pub disk: Arc<dyn Disk>,
    pub entry: MemberDisk,
    pub layout: Layout,
}

/// What a statement takes disks for.
pub(crate) struct Wanted<'a> {
    pub group: &'a str,
    pub au_size: u64,
    pub disks: &'a [NewDisk],
    /// Their numbers, in this order.
    pub numbers: Vec<DiskNumber>,
    /// A group that is mounted: its header on a disk that is none of its members is of nobody.
    pub of: Option<(GroupId, &'a Membership)>,
}

/// Whether names can be names.
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

/// Checks one disk, and how it would be cut.
async fn check_disk(
    world: &Arc<dyn World>,
    new: &Wanted<'_>,
    wanted: &NewDisk,
    found: &[Found],
) -> Result<(Arc<dyn Disk>, Layout)> {
    let path = &wanted.path;
    let Some(one) = found.iter().find(|one| one.path == *path) else {
        return Err(AdminError::new(Code::UnknownDisk, format!("disk {path} is not among the disks in sight"))
            .hint("ASM_DISKSTRING must match it; V$ASM_DISK shows what is in sight"));
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
    // An `ADD` that was cut short, or a disk that was dropped while it was away.
    let is_nobodys = header.as_ref().is_some_and(|header| {
        new.of.is_some_and(|(group, membership)| {
            header.group == group && membership.disks.iter().all(|disk| disk.id != header.disk)
        })
    });
    let in_use = |text: String, hint: &str| Err(AdminError::new(Code::DiskInUse, text).hint(hint));
    match survey.header {
        HeaderStatus::Member if !wanted.force && !is_nobodys => {
            if let Some(refusal) = header.as_ref().and_then(|header| own_member(new, path, header)) {
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
            return in_use(format!("disk {path}: {remark}"), "add FORCE to take the disk and lose what is on it");
        }
        _ => {}
    }
    let layout = check_size(&*disk, wanted.size, disk.size(), new.au_size)?;
    Ok((disk, layout))
}

/// The refusal of a device that is a disk of the very group that it would be taken for.
fn own_member(new: &Wanted<'_>, path: &str, header: &DiskHeader) -> Option<AdminError> {
    let (_, membership) = new.of.filter(|(group, _)| *group == header.group)?;
    let own = membership.disks.iter().find(|disk| disk.id == header.disk)?;
    let (name, group) = (&own.name, new.group);
    let text = format!("disk {path} is disk {name} of disk group {group} itself");
    let hint = match own.state {
        DiskState::Offline => format!("name another device; or ALTER DISKGROUP {group} ONLINE DISK {name}"),
        _ => "name another device".to_owned(),
    };
    Some(AdminError::new(Code::DiskInUse, text).hint(hint))
}

/// How a device that has so many bytes is cut, if `wanted` of them are used: all, if nobody says how many.
pub(crate) fn check_size(disk: &dyn Disk, wanted: Option<u64>, has: u64, au_size: u64) -> Result<Layout> {
    let path = disk.path();
    let size = wanted.unwrap_or(has);
    if size > has {
        let text = format!("disk {path} has {has} bytes, SIZE says {size}");
        return Err(AdminError::new(Code::DiskTooSmall, text).hint("give a smaller SIZE, or none"));
    }
    Layout::of_whole_units(size, au_size).map_err(|error| match error {
        FormatError::Field { field: "AU size", value } => {
            AdminError::new(Code::Invalid, format!("AU size {value} is not a power of two from 1M to 64M"))
        }
        _ => {
            let least = Layout::smallest(au_size);
            AdminError::new(Code::DiskTooSmall, format!("disk {path} is too small: {} MB", size / MIB)).hint(format!(
                "with an AU size of {} MB a disk needs {} MB",
                au_size / MIB,
                least.div_ceil(MIB)
            ))
        }
    })
}

/// The refusal of a statement that needs a disk which nobody holds, and which cannot be claimed all the same.
pub(crate) fn unusable(disk: &str, error: &std::io::Error) -> AdminError {
    AdminError::new(Code::CannotOpen, format!("{disk} cannot be used: {error}"))
        .hint("check the device and its permissions")
}

/// Makes a group and leaves it dismounted.
pub(crate) async fn create(world: &Arc<dyn World>, new: NewGroup) -> Result<()> {
    check_names(&new.name, &new.disks)?;
    let found = find_paths(&**world).await?;
    for one in &found {
        if let Ok(disk) = &one.disk
            && let Some(header) = identify::read_header(&**world, &**disk).await
            && header.best.status == Status::Member
            && header.best.group_name == new.name
            && !new.disks.iter().any(|disk| disk.path == one.path && disk.force)
        {
            let text = format!("disk group {} exists: disk {} belongs to it", new.name, one.path);
            return Err(AdminError::new(Code::GroupExists, text).hint("choose another name, or drop that disk group"));
        }
    }
    let numbers = (0..=u16::MAX).take(new.disks.len()).map(DiskNumber).collect();
    let wanted = Wanted { group: &new.name, au_size: new.au_size, disks: &new.disks, numbers, of: None };
    let taken = take_disks(world, &wanted, &found).await?;
    check_shape(&new, &taken)?;
    let group = GroupId(new_id(world));
    let mut membership = first_membership(world, &new, &taken);
    let layouts: BTreeMap<_, _> = taken.iter().map(|disk| (disk.entry.number, disk.layout)).collect();
    let mut space = Space::new();
    taken.iter().filter(|disk| !disk.entry.quorum).for_each(|disk| space.add_disk(disk.entry.number, disk.layout));
    place_catalog(&new, &mut membership, &mut space)?;
    for disk in &taken {
        wipe_system_area(&*disk.disk, disk.layout).await?;
    }
    let members: Members = taken
        .iter()
        .map(|disk| {
            let layout = layouts[&disk.entry.number];
            Arc::new(Member::new(&disk.entry, layout, Some(Arc::clone(&disk.disk)), world))
        })
        .collect();
    let members = Arc::new(members);
    let deadline = Arc::new(AtomicU64::new(Attributes::default().disk_timeout_ticks));
    member::watch(world, &members, &deadline, &member::Watch::new(&new.name));
    let voters = Arc::new(Voters::new(
        Arc::clone(world),
        group,
        Arc::clone(&members),
        Arc::new(MirrorSets::default()),
        membership.clone(),
        0,
        true,
    ));
    let targets: BTreeSet<_> = membership.voters().map(|disk| disk.number).collect();
    let failed = voters.write_everywhere(&membership, &targets).await;
    if let Some((disk, reason)) = failed.into_iter().next() {
        let name = membership.disk(disk).map_or_else(String::new, |disk| disk.name.clone());
        return Err(AdminError::new(Code::Io, format!("disk {name}: {reason}")).hint("replace the disk"));
    }
    let space = Arc::new(Mutex::new(space));
    let store = DiskStore::new(Arc::clone(world), Arc::clone(&members), Arc::clone(&voters), space, new.au_size);
    store.space_is_known();
    let catalog = Catalog::create(world, Arc::new(store)).await.map_err(|error| catalog_trouble(&new.name, &error))?;
    let attributes = initial_attributes(&new, taken[0].disk.sectors().logical);
    crate::files::make_root(&catalog, world.now()).await.map_err(|error| AdminError::new(Code::Io, error))?;
    let stored = catalog
        .write(true, move |connection| {
            for (name, value, fixed) in attributes {
                if fixed {
                    attributes::store_fixed(connection, &name, &value)?;
                } else {
                    attributes::store(connection, &name, &value)?;
                }
            }
            Ok(())
        })
        .await;
    stored.map_err(|error| AdminError::new(Code::Io, error))?;
    catalog.close().await.map_err(|error| AdminError::new(Code::Io, error))?;
    voters.restamp(true).await;
    let final_membership = voters.current();
    for member in members.values() {
        let created = membership.created;
        let header = header_of(group, &final_membership, member, created, Status::Member, 1);
        write_header(member, &header, &header.layout.header_places())
            .await
            .map_err(|reason| AdminError::new(Code::Io, format!("disk {}: {reason}", member.name())))?;
    }
    for member in members.values() {
        member.release();
    }
    Ok(())
}

/// Checks disks and claims them.
///
/// # Errors
/// The first that cannot be taken, and why.
pub(crate) async fn take_disks(world: &Arc<dyn World>, new: &Wanted<'_>, found: &[Found]) -> Result<Vec<Taken>> {
    let mut taken: Vec<Taken> = Vec::new();
    let mut identities = BTreeMap::new();
    for (index, wanted) in new.disks.iter().enumerate() {
        let (disk, layout) = check_disk(world, new, wanted, found).await?;
        let identity = found.iter().find(|one| one.path == wanted.path).map(|one| one.identity.clone());
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
        if let Some(first) = taken.first()
            && first.disk.sectors().logical != disk.sectors().logical
        {
            let text = format!(
                "disk {} has sectors of {} bytes, disk {} of {}",
                wanted.path,
                disk.sectors().logical,
                first.disk.path(),
                first.disk.sectors().logical
            );
            return Err(AdminError::new(Code::DiskMismatch, text)
                .hint("all disks of a group have one sector size; make two groups"));
        }
        let entry = MemberDisk {
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
        };
        taken.push(Taken { disk, entry, layout });
    }
    for one in &taken {
        if let Err(error) = one.disk.claim() {
            let path = one.disk.path();
            if !is_held(&error) {
                return Err(unusable(&format!("disk {path}"), &error));
            }
            let header = identify::read_header(&**world, &*one.disk).await;
            let header = header.filter(|header| header.best.status == Status::Member);
            if let Some(refusal) = header.as_ref().and_then(|header| own_member(new, path, &header.best)) {
                return Err(refusal);
            }
            return Err(match header {
                Some(header) => {
                    let group = header.best.group_name;
                    let text = format!("disk {path} is in use: it belongs to disk group {group}, which is mounted");
                    AdminError::new(Code::DiskInUse, text)
                        .hint(format!("use another disk, or drop disk group {group} first ({error})"))
                }
                None => AdminError::new(Code::DiskInUse, format!("disk {path} is in use: {error}"))
                    .hint("end the program that holds it, or use another disk"),
            });
        }
    }
    Ok(taken)
}

/// What `V$ASM_ATTRIBUTE` shows of a new group: name, value, and whether it is fixed.
fn initial_attributes(new: &NewGroup, sector: u32) -> Vec<(String, String, bool)> {
    let given = |name: &str| new.attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    let settable = attributes::SETTABLE
        .iter()
        .map(|(name, default)| ((*name).to_owned(), given(name).unwrap_or_else(|| (*default).to_owned()), false));
    let fixed = [("au_size", new.au_size.to_string()), ("sector_size", sector.to_string())]
        .map(|(name, value)| (name.to_owned(), value, true));
    settable.chain(fixed).collect()
}

/// `GROUP_0000`, with a long group name cut.
pub(crate) fn default_name(group: &str, number: DiskNumber) -> String {
    let cut = group.len().min(plinth_format::NAME_MAX - 5);
    format!("{}_{:04}", &group[..cut], number.0)
}

/// The default name of a disk with the next number, from its own on, that no disk's name has: somebody may have given it to another disk.
fn free_name(new: &Wanted<'_>, number: DiskNumber, taken: &[Taken]) -> String {
    let members = new.of.iter().flat_map(|(_, membership)| &membership.disks);
    let names: BTreeSet<&str> = members
        .filter(|disk| !new.numbers.contains(&disk.number))
        .map(|disk| disk.name.as_str())
        .chain(new.disks.iter().filter_map(|disk| disk.name.as_deref()))
        .chain(taken.iter().map(|one| one.entry.name.as_str()))
        .collect();
    let numbers = (number.0..=u16::MAX).chain(0..number.0).map(DiskNumber);
    let mut free = numbers.map(|number| default_name(new.group, number)).filter(|name| !names.contains(name.as_str()));
    free.next().unwrap_or_else(|| default_name(new.group, number))
}

fn check_shape(new: &NewGroup, taken: &[Taken]) -> Result<()> {
    let Some(first) = taken.first() else {
        return Err(AdminError::new(Code::Invalid, "a disk group needs a disk"));
    };
    if let Some((_, value)) = new.attributes.iter().find(|(name, _)| name == "sector_size") {
        let wanted = match value.to_ascii_lowercase().as_str() {
            "512" => 512,
            "4096" | "4k" => 4096,
            _ => return Err(AdminError::new(Code::Invalid, format!("sector size '{value}' is not 512 or 4096"))),
        };
        if wanted != first.disk.sectors().logical {
            let text = format!(
                "disk {} has sectors of {} bytes, sector_size says {wanted}",
                first.disk.path(),
                first.disk.sectors().logical
            );
            return Err(AdminError::new(Code::DiskMismatch, text).hint("leave sector_size out, or take other disks"));
        }
    }
    let groups: BTreeSet<_> =
        taken.iter().filter(|disk| !disk.entry.quorum).map(|disk| disk.entry.failure_group.as_str()).collect();
    let needed = new.redundancy.mirrors();
    if groups.len() < needed {
        let text =
            format!("{} redundancy needs {needed} failure groups with data, {} given", new.redundancy, groups.len());
        return Err(AdminError::new(Code::NotEnoughFailureGroups, text).hint("name more failure groups"));
    }
    check_mixture(taken.iter().map(|disk| &disk.entry))
}

/// Whether no failure group has both quorum disks and others.
pub(crate) fn check_mixture<'a>(disks: impl Iterator<Item = &'a MemberDisk> + Clone) -> Result<()> {
    let mixed = disks.clone().find(|disk| {
        disks.clone().any(|other| other.failure_group == disk.failure_group && other.quorum != disk.quorum)
    });
    let Some(disk) = mixed else { return Ok(()) };
    let text = format!("failure group {} is both QUORUM and not", disk.failure_group);
    Err(AdminError::new(Code::Invalid, text))
}

/// What CREATE says of how long starts wait, which is in the membership as well.
fn given_mount_wait(new: &NewGroup) -> Option<u8> {
    let given = new.attributes.iter().find(|(name, _)| name == "mount_wait");
    given.and_then(|(_, value)| value.parse().ok())
}

fn first_membership(world: &Arc<dyn World>, new: &NewGroup, taken: &[Taken]) -> Membership {
    let mut membership = Membership {
        generation: 1,
        id: MembershipId(new_id(world)),
        created: world.now(),
        au_size: new.au_size,
        stamp: 0,
        redundancy: new.redundancy,
        wanted: new.redundancy,
        mounted: false,
        boot: world.boot_id(),
        mount_wait: given_mount_wait(new),
        group_name: new.name.clone(),
        ancestors: Vec::new(),
        disks: taken.iter().map(|disk| disk.entry.clone()).collect(),
        catalog: Vec::new(),
    };
    let voters = choose::voters(&membership.disks, membership.redundancy);
    for disk in &mut membership.disks {
        disk.votes = voters.contains(&disk.number);
    }
    membership
}

/// Gives the catalog its first AUs.
fn place_catalog(new: &NewGroup, membership: &mut Membership, space: &mut Space) -> Result<()> {
    for (file, size) in [(CatalogFile::Wal, WAL_SIZE), (CatalogFile::Database, DATABASE_SIZE)] {
        // On a small disk, no more than a sixteenth of it.
        let smallest = membership.disks.iter().filter(|disk| !disk.quorum).map(|disk| space.total(disk.number)).min();
        let units = u32::try_from(size.div_ceil(new.au_size)).unwrap_or(1).min(smallest.unwrap_or(0) / 16).max(1);
        let mut used = BTreeSet::new();
        while let Some(disk) = on_disks::next_disk(membership, used.len(), &used, |disk| space.free(disk) > units) {
            let mut aus: Vec<_> = (0..units).filter_map(|_| space.allocate_on(disk)).collect();
            aus.sort_unstable();
            let mirror = u8::try_from(used.len()).expect("three at most");
            membership.catalog.extend(on_disks::runs_of(file, mirror, disk, 0, &aus));
            used.insert(disk);
        }
        if used.is_empty() {
            return Err(AdminError::new(Code::NoSpace, "no disk has room for the catalog"));
        }
    }
    Ok(())
}

pub(crate) async fn wipe_system_area(disk: &dyn Disk, layout: Layout) -> Result<()> {
    let zeros = Buffer::zeroed(MIB as usize).share();
    let mut writes = vec![(0, zeros.clone())];
    // Also the copies that an earlier group with another layout left: while the new first copy is damaged, they would be found.
    let mut places = layout.header_places().to_vec();
    // A smaller AU than the new one ends in its first AU.
    places.extend(au_sizes().take_while(|au_size| *au_size < layout.au_size()));
    places.extend(identify::old_places(disk).await);
    writes.extend(layout.middle_area().slots().map(|(place, length)| (place, zeros.part(0..length))));
    writes.extend(places.into_iter().filter(|place| *place != 0).map(|place| (place, zeros.part(0..BLOCK_SIZE))));
    for (offset, data) in writes {
        let done = disk.submit(crate::world::Io::Write { offset, data, durably: false }).await;
        done.result.map_err(|error| {
            AdminError::new(Code::Io, format!("disk {}: writing at {offset}: {error}", disk.path()))
                .hint("replace the disk")
        })?;
    }
    let done = disk.submit(crate::world::Io::Flush).await;
    done.result.map_err(|error| AdminError::new(Code::Io, format!("disk {}: flushing: {error}", disk.path())))
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
        let written = member.start_write(*place, block).of(IoClient::Records).settle().await;
        if planted::has(Bug::HeadersTogether) && Some(place) != places.last() {
            continue;
        }
        for settled in [written, member.flush().await] {
            if !settled.is_ok() {
                return Err(settled.reason());
            }
        }
        member.check_kept_since(broken)?;
    }
    Ok(())
}

pub(crate) fn catalog_trouble(group: &str, error: &CatalogError) -> AdminError {
    let code = match error {
        CatalogError::Store(_) | CatalogError::LogHidden => Code::Io,
        _ => Code::Damaged,
    };
    let refused = AdminError::new(code, format!("disk group {group}: {error}"));
    if let CatalogError::LogHidden = error {
        return refused.hint(format!(
            "attach the disks that are missing, or make them readable; ALTER DISKGROUP {group} MOUNT FORCE does without \
             those commits, and what was synced with them may be lost"
        ));
    }
    refused.hint("plinth check shows more; if no good mirror is left, restore the group from a backup")
}

impl Group {
    /// Marks the headers of all disks as of a former member: they can be taken again.
    pub(crate) async fn retire_headers(&self) -> std::result::Result<(), String> {
        for member in self.members.values() {
            let Some(disk) = member.disk() else { continue };
            self.retire(member, &*disk).await?;
        }
        Ok(())
    }
}
