//! Making, mounting and ending a disk group.
//!
//! Mount:
//!
//!   1. Look at every disk in sight; claim those whose header names the group (R1); look again.
//!   2. Decide (`choose.rs`); refuse, or complete the membership that won.
//!   3. Record a successor: mounted, disks that are absent or not current offline.
//!   4. Repair header copies, one after the other.
//!   5. Open the catalog; it replays its log if the last stop was unclean.
//!   6. Pending pieces: if only the process died, the disks are flushed and they are written; if
//!      power was lost, they hold nothing. Either is made durable before the new boot id is
//!      recorded, or a second crash would judge them by the wrong one.
//!   7. Every region of the activity log is stale for every disk that is not online, durably;
//!      the extents in them are suspect.
//!   8. Serve. Recovery and resync go on in the background.
//!
//! A crash anywhere in it is an unclean stop like any other: the activity log and the
//! boot id stay as they were until their consequences are durable.
//!
//! Create writes the headers last: a crash before leaves disks that are still candidates.

use crate::{
    activity::Activity,
    admin::{AdminError, Code, HeaderStatus, NewDisk, NewGroup, Survey},
    attributes::{self, Attributes},
    buffer::Buffer,
    catalog::{Catalog, CatalogError, store::CatalogFile},
    choose::{self, Decision, Sighting, Standing},
    event::{Event, Severity},
    extent::Extents,
    extents::Releaser,
    files::Files,
    group::{Group, Parts},
    identify,
    member::{self, Member, Settled},
    mirror_sets::MirrorSets,
    reclaim::Freeing,
    recovery::Suspects,
    slots::Slots,
    space::Space,
    stale::{self, EVERYTHING, Runs},
    store::{self, DiskStore},
    voters::{Members, Voters, find},
    world::{Disk, Found, World},
};
use plinth_format::{
    BLOCK_SIZE, DiskId, DiskNumber, FormatError, GroupId, Layout, MembershipId,
    activity::{ActivityLog, Region},
    header::{DiskHeader, Status},
    is_name,
    layout::{ACTIVITY_PLACES, ACTIVITY_SLOT, MIB},
    membership::{DiskState, MemberDisk, Membership},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

type Result<T> = std::result::Result<T, AdminError>;

/// Bytes that the catalog's log gets, and its database begins with.
const WAL_SIZE: u64 = 16 * MIB;
const DATABASE_SIZE: u64 = 8 * MIB;
/// How long a mount waits for disks that another engine, or its last I/O, holds.
const CLAIM_WAIT: Duration = Duration::from_secs(5);

fn new_id(world: &Arc<dyn World>) -> [u8; 16] {
    let mut id = [0; 16];
    world.random(&mut id);
    id
}

/// Looks at one match of the discovery string.
async fn survey_one(world: &Arc<dyn World>, found: &Found) -> (Survey, Option<DiskHeader>) {
    let mut survey = Survey {
        path: found.path.clone(),
        header: HeaderStatus::Unknown,
        group: None,
        group_id: None,
        name: None,
        failure_group: None,
        number: None,
        quorum: false,
        size: 0,
        logical_sector: 0,
        physical_sector: 0,
        can_discard: false,
        remark: None,
    };
    let disk = match &found.disk {
        Ok(disk) => disk,
        Err(error) => {
            survey.remark = Some(format!("cannot be opened: {error}"));
            return (survey, None);
        }
    };
    survey.size = disk.size();
    survey.logical_sector = disk.sectors().logical;
    survey.physical_sector = disk.sectors().physical;
    survey.can_discard = disk.can_discard();
    if let Some(header) = identify::read_header(&**world, &**disk).await {
        let header = header.best;
        survey.header = match header.status {
            Status::Member => HeaderStatus::Member,
            Status::Former => HeaderStatus::Former,
        };
        survey.group = Some(header.group_name.clone());
        survey.group_id = Some(header.group.to_string());
        survey.name = Some(header.name.clone());
        survey.failure_group = Some(header.failure_group.clone());
        survey.number = Some(header.number.0);
        survey.quorum = header.quorum;
        return (survey, Some(header));
    }
    match identify::header_trouble(&**world, &**disk).await {
        Some(error @ FormatError::Version { .. }) => {
            survey.header = HeaderStatus::Incompatible;
            survey.remark = Some(error.to_string());
        }
        Some(error) => survey.remark = Some(format!("its header is damaged: {error}")),
        None => match disk.occupant() {
            Some(occupant) => {
                survey.header = HeaderStatus::Foreign;
                survey.remark = Some(occupant);
            }
            None => survey.header = HeaderStatus::Candidate,
        },
    }
    (survey, None)
}

/// Looks at every disk that discovery shows, without mounting anything.
pub(crate) async fn survey(world: &Arc<dyn World>) -> Vec<Survey> {
    let found = world.discover().await;
    // Together: a disk that does not answer holds up the answer once, not once each.
    let mut seen = futures::future::join_all(found.iter().map(|one| survey_one(world, one))).await;
    // Two devices with one disk id: neither is to be trusted until one is gone.
    for index in 0..seen.len() {
        let Some(header) = &seen[index].1 else { continue };
        let twins: Vec<String> = (0..seen.len())
            .filter(|other| found[*other].identity != found[index].identity)
            .filter(|other| seen[*other].1.as_ref().is_some_and(|twin| twin.disk == header.disk))
            .map(|other| found[other].path.clone())
            .collect();
        if !twins.is_empty() && header.status == Status::Member {
            seen[index].0.header = HeaderStatus::Conflict;
            seen[index].0.remark = Some(format!("{} carries the same disk id", twins.join(", ")));
        }
    }
    seen.into_iter().map(|(survey, _)| survey).collect()
}

/// A disk that `CREATE` takes.
struct Taken {
    disk: Arc<dyn Disk>,
    entry: MemberDisk,
    layout: Layout,
}

fn check_names(new: &NewGroup) -> Result<()> {
    let bad = |what: &str, name: &str| {
        AdminError::new(Code::Invalid, format!("{name:?} cannot name a {what}"))
            .hint("a name begins with a letter and has up to 30 letters, digits, _, $ or #")
    };
    if !is_name(&new.name) {
        return Err(bad("disk group", &new.name));
    }
    for disk in &new.disks {
        if let Some(name) = disk.name.as_deref().filter(|name| !is_name(name)) {
            return Err(bad("disk", name));
        }
        if let Some(name) = disk.failure_group.as_deref().filter(|name| !is_name(name)) {
            return Err(bad("failure group", name));
        }
    }
    Ok(())
}

/// Checks one disk of a new group, and how it would be cut.
async fn check_disk(
    world: &Arc<dyn World>,
    new: &NewGroup,
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
    let in_use = |text: String, hint: &str| Err(AdminError::new(Code::DiskInUse, text).hint(hint));
    match survey.header {
        HeaderStatus::Member if !wanted.force => {
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
    let size = wanted.size.unwrap_or(disk.size());
    if size > disk.size() {
        let text = format!("disk {path} has {} bytes, SIZE says {size}", disk.size());
        return Err(AdminError::new(Code::DiskTooSmall, text).hint("give a smaller SIZE, or none"));
    }
    let layout =
        Layout::new(size, new.au_size).map_err(|error| match error {
            FormatError::Field { field: "AU size", value } => {
                AdminError::new(Code::Invalid, format!("AU size {value} is not a power of two from 1M to 64M"))
            }
            _ => {
                let least = Layout::smallest(new.au_size);
                AdminError::new(Code::DiskTooSmall, format!("disk {path} is too small: {} MB", size / MIB)).hint(
                    format!("with an AU size of {} MB a disk needs {} MB", new.au_size / MIB, least.div_ceil(MIB)),
                )
            }
        })?;
    Ok((disk, layout))
}

/// Makes a group and leaves it dismounted.
pub(crate) async fn create(world: &Arc<dyn World>, new: NewGroup) -> Result<()> {
    check_names(&new)?;
    let found = world.discover().await;
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
    let taken = take_disks(world, &new, &found).await?;
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
            (disk.entry.number, Arc::new(Member::new(&disk.entry, layout, Some(Arc::clone(&disk.disk)))))
        })
        .collect();
    let members = Arc::new(members);
    member::watch(world, &members, &Arc::new(AtomicU64::new(Attributes::default().disk_timeout_ticks)));
    let voters = Arc::new(Voters::new(
        Arc::clone(world),
        group,
        Arc::clone(&members),
        Arc::new(MirrorSets::default()),
        membership.clone(),
        0,
    ));
    let targets: BTreeSet<_> = membership.voters().map(|disk| disk.number).collect();
    let failed = voters.write_everywhere(&membership, &targets).await;
    if let Some((disk, reason)) = failed.into_iter().next() {
        let name = membership.disk(disk).map_or_else(String::new, |disk| disk.name.clone());
        return Err(AdminError::new(Code::Io, format!("disk {name}: {reason}")).hint("replace the disk"));
    }
    let space = Arc::new(Mutex::new(space));
    let store = DiskStore::new(Arc::clone(world), Arc::clone(&members), Arc::clone(&voters), space, new.au_size);
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
            .map_err(|reason| AdminError::new(Code::Io, format!("disk {}: {reason}", member.name)))?;
    }
    for member in members.values() {
        member.release();
    }
    Ok(())
}

async fn take_disks(world: &Arc<dyn World>, new: &NewGroup, found: &[Found]) -> Result<Vec<Taken>> {
    let mut taken: Vec<Taken> = Vec::new();
    let mut identities = BTreeMap::new();
    for (index, wanted) in new.disks.iter().enumerate() {
        let (disk, layout) = check_disk(world, new, wanted, found).await?;
        let identity = found.iter().find(|one| one.path == wanted.path).map(|one| one.identity.clone());
        if let Some(other) = identities.insert(identity, wanted.path.clone()) {
            let text = format!("{} and {other} are one device", wanted.path);
            return Err(AdminError::new(Code::DuplicateDisk, text).hint("name each device once"));
        }
        let number = u16::try_from(index).map_err(|_| AdminError::new(Code::Invalid, "too many disks"))?;
        let name = wanted.name.clone().unwrap_or_else(|| default_name(&new.name, index));
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
            number: DiskNumber(number),
            state: DiskState::Online,
            votes: false,
            quorum: wanted.quorum,
            copy_whole: false,
            by_operator: false,
            size: layout.size(),
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
            let header = identify::read_header(&**world, &*one.disk).await;
            return Err(match header.filter(|header| header.best.status == Status::Member) {
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
fn default_name(group: &str, index: usize) -> String {
    let cut = group.len().min(plinth_format::NAME_MAX - 5);
    format!("{}_{index:04}", &group[..cut])
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
    let mixed = taken.iter().find(|disk| {
        taken.iter().any(|other| {
            other.entry.failure_group == disk.entry.failure_group && other.entry.quorum != disk.entry.quorum
        })
    });
    if let Some(disk) = mixed {
        let text = format!("failure group {} is both QUORUM and not", disk.entry.failure_group);
        return Err(AdminError::new(Code::Invalid, text));
    }
    Ok(())
}

fn first_membership(world: &Arc<dyn World>, new: &NewGroup, taken: &[Taken]) -> Membership {
    let mut membership = Membership {
        generation: 1,
        id: MembershipId(new_id(world)),
        created: world.now(),
        au_size: new.au_size,
        stamp: 0,
        redundancy: new.redundancy,
        mounted: false,
        boot: world.boot_id(),
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
        let mut used = Vec::new();
        while let Some(disk) = store::next_disk(membership, &used, |disk| space.free(disk) > units) {
            let mut aus: Vec<_> = (0..units).filter_map(|_| space.allocate_on(disk)).collect();
            aus.sort_unstable();
            let mirror = u8::try_from(used.len()).expect("three at most");
            membership.catalog.extend(store::runs_of(file, mirror, disk, 0, &aus));
            used.push(disk);
        }
        if used.is_empty() {
            return Err(AdminError::new(Code::NoSpace, "no disk has room for the catalog"));
        }
    }
    Ok(())
}

async fn wipe_system_area(disk: &dyn Disk, layout: Layout) -> Result<()> {
    let zeros = Buffer::zeroed(MIB as usize).share();
    let mut writes = vec![(0, zeros.clone())];
    // Also the copies that an earlier group with another layout left: while the new first copy is damaged, they would be found.
    let mut places = layout.header_places().to_vec();
    places.extend(identify::old_places(disk).await);
    writes.extend(places.into_iter().filter(|place| *place != 0).map(|place| (place, zeros.part(0..BLOCK_SIZE))));
    for (offset, data) in writes {
        let done = disk.submit(crate::world::Io::Write { offset, data }).await;
        done.result.map_err(|error| {
            AdminError::new(Code::Io, format!("disk {}: writing at {offset}: {error}", disk.path()))
                .hint("replace the disk")
        })?;
    }
    let done = disk.submit(crate::world::Io::Flush).await;
    done.result.map_err(|error| AdminError::new(Code::Io, format!("disk {}: flushing: {error}", disk.path())))
}

fn header_of(
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
        disk: member.id,
        sequence,
        created,
        layout: member.layout,
        logical_sector: sectors.map_or(512, |sectors| sectors.logical),
        physical_sector: sectors.map_or(512, |sectors| sectors.physical),
        number: member.number,
        status,
        redundancy: membership.redundancy,
        quorum: member.quorum,
        group_name: membership.group_name.clone(),
        name: member.name.clone(),
        failure_group: member.failure_group.clone(),
    }
}

/// Writes header copies, one after the other, each flushed before the next.
async fn write_header(member: &Member, header: &DiskHeader, places: &[u64]) -> std::result::Result<(), String> {
    for place in places {
        let block = Buffer::copy_of(&header.encode(*place)).share();
        for settled in [member.start_write(*place, block).settle().await, member.flush().await] {
            if !settled.is_ok() {
                return Err(settled.reason());
            }
        }
    }
    Ok(())
}

fn catalog_trouble(group: &str, error: &CatalogError) -> AdminError {
    let code = match error {
        CatalogError::Store(_) => Code::Io,
        _ => Code::Damaged,
    };
    AdminError::new(code, format!("disk group {group}: {error}"))
        .hint("plinth check shows more; if no good mirror is left, restore the group from a backup")
}

/// The disks of a group, claimed, and what they say.
struct Claimed {
    sightings: Vec<Sighting>,
    disks: Vec<Arc<dyn Disk>>,
    /// Sentences on disks that are smaller than they were: such a disk is not used, as if it were not in sight.
    shrunk: Vec<String>,
}

/// Steps 1 of a mount.
async fn claim_members(world: &Arc<dyn World>, name: &str) -> Result<Claimed> {
    let mut waited = Duration::ZERO;
    let (mut found, mut shrunk) = (Vec::new(), Vec::new());
    for one in world.discover().await {
        let Ok(disk) = one.disk.clone() else { continue };
        if let Some(header) = identify::read_header(&**world, &*disk).await
            && header.best.status == Status::Member
            && header.best.group_name == name
        {
            let needed = header.best.layout.size();
            if disk.size() < needed {
                let (path, disk_name, size) = (&one.path, &header.best.name, disk.size());
                shrunk
                    .push(format!("{path} has shrunk: {size} bytes, disk {disk_name} needs {needed}; it is not used"));
                continue;
            }
            found.push((one, disk));
        }
    }
    let mut seen = BTreeSet::new();
    let mut claimed = Claimed { sightings: Vec::new(), disks: Vec::new(), shrunk };
    for (one, disk) in found {
        // A second path to a device cannot be claimed as well, and need not be.
        if seen.insert(one.identity.clone()) {
            while let Err(error) = disk.claim() {
                let held = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ResourceBusy);
                if !held || waited >= CLAIM_WAIT {
                    let text = format!("disk {} of disk group {name} is held by another engine: {error}", one.path);
                    return Err(AdminError::new(Code::HeldElsewhere, text).hint(
                        "the group is mounted already, or I/O of an engine that died is still under way; try again when it has ended",
                    ));
                }
                let step = Duration::from_millis(20);
                world.sleep(step).await;
                waited += step;
            }
        }
        if let Some(header) = identify::read_header(&**world, &*disk).await {
            claimed.sightings.push(identify::sight(&**world, &one, &*disk, header.best).await);
            claimed.disks.push(disk);
        }
    }
    Ok(claimed)
}

/// What is said of header copies that were rewritten.
pub(crate) fn repaired_header(disk: &str, path: &str, places: &[u64]) -> String {
    let places: Vec<_> = places.iter().map(u64::to_string).collect();
    format!("repaired the header copy of disk {disk} ({path}) at offset {}", places.join(", "))
}

/// Sentences on disks in sight that may be of any group, as their headers cannot be used: one of them may be what a mount misses.
async fn unusable_disks(world: &Arc<dyn World>) -> Vec<String> {
    let unusable = |disk: &Survey| matches!(disk.header, HeaderStatus::Incompatible | HeaderStatus::Unknown);
    let seen = survey(world).await;
    let sentence = |disk: &Survey| {
        format!("{} is in sight and {}: {}", disk.path, disk.header, disk.remark.as_deref().unwrap_or("no header"))
    };
    seen.iter().filter(|disk| unusable(disk)).map(sentence).collect()
}

/// The newest activity log on the voters.
async fn read_activity(membership: &Membership, members: &Members) -> ActivityLog {
    let mut newest = ActivityLog { sequence: 0, membership: membership.id, boot: membership.boot, regions: Vec::new() };
    for voter in membership.voters() {
        let Some(member) = members.get(&voter.number) else { continue };
        for place in ACTIVITY_PLACES {
            if let Settled::Ok(Some(bytes)) = member.start_read(place, ACTIVITY_SLOT).settle().await
                && let Ok((envelope, log)) = ActivityLog::decode(&bytes, place)
                && envelope.disk == member.id
                && log.sequence > newest.sequence
            {
                newest = log;
            }
        }
    }
    // No extent has such an id: a checksum can be forged, and sums must not overflow.
    newest.regions.retain(|region| region.first < EVERYTHING - u64::from(u32::MAX));
    newest
}

/// What a group is mounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For front ends.
    Serve,
    /// To be checked and dismounted: disks that are not online stay as they are.
    Check,
}

/// Mounts a group.
pub(crate) async fn mount(world: Arc<dyn World>, name: &str, force: bool, purpose: Purpose) -> Result<Arc<Group>> {
    let mut opened = None;
    mount_disks(world, name, force, purpose, &mut opened).await.map_err(|error| match opened {
        Some(store) => store.explain(error),
        None => error,
    })
}

/// The steps of a mount; `opened` is the catalog's storage, once there is one.
async fn mount_disks(
    world: Arc<dyn World>,
    name: &str,
    force: bool,
    purpose: Purpose,
    opened: &mut Option<Arc<DiskStore>>,
) -> Result<Arc<Group>> {
    let claimed = claim_members(&world, name).await?;
    let refused = choose::choose(name, &claimed.sightings, force);
    let unusable = if refused.is_err() { unusable_disks(&world).await } else { Vec::new() };
    let decision = refused.map_err(|refusal| {
        let code = match refusal {
            choose::Refusal::NoDisks { .. } => Code::NoGroup,
            choose::Refusal::NoQuorum { .. } | choose::Refusal::TwoHistories { .. } => Code::NoQuorum,
            choose::Refusal::TwoGroups { .. } => Code::DuplicateDisk,
            _ => Code::WouldLoseData,
        };
        let mut text = refusal.to_string();
        claimed.shrunk.iter().for_each(|shrunk| text += &format!("; {shrunk}"));
        unusable.iter().for_each(|disk| text += &format!("; {disk}"));
        AdminError::new(code, text).hint(refusal.remedy())
    })?;
    let tell = |severity, disk, text: String| {
        world.event(Event { group: name.to_owned(), severity, disk, text });
    };
    for warning in claimed.shrunk.iter().chain(&decision.warnings) {
        tell(Severity::Warning, None, warning.clone());
    }
    let found = decision.membership.clone();
    let members = Arc::new(make_members(&decision, &claimed)?);
    let was_mounted = found.mounted;
    let deadline = Arc::new(AtomicU64::new(Attributes::default().disk_timeout_ticks));
    member::watch(&world, &members, &deadline);
    let log = read_activity(&found, &members).await;

    let mirror_sets = Arc::new(MirrorSets::default());
    let voters = Arc::new(Voters::new(
        Arc::clone(&world),
        decision.group,
        Arc::clone(&members),
        Arc::clone(&mirror_sets),
        found.clone(),
        decision.stamp,
    ));
    let failed = |error: &dyn std::fmt::Display| AdminError::new(Code::Io, format!("disk group {name}: {error}"));
    voters.forced(force);
    voters.announce_log(&log);
    record_mount(&world, &voters, &decision).await.map_err(|refusal| failed(&refusal))?;
    voters.forced(false);
    // A disk that is offline in the membership was only opened to hear of it.
    members.values().filter(|member| !member.is_writable()).for_each(|member| member.release());

    let mut space = Space::new();
    for member in members.values().filter(|member| !member.quorum) {
        space.add_disk(member.number, member.layout);
    }
    for (disk, au) in store::units(&voters.current()) {
        space
            .mark_used(disk, au)
            .map_err(|error| AdminError::new(Code::Damaged, format!("the membership: {error}")))?;
    }
    let space = Arc::new(Mutex::new(space));
    let store = Arc::new(DiskStore::new(
        Arc::clone(&world),
        Arc::clone(&members),
        Arc::clone(&voters),
        Arc::clone(&space),
        found.au_size,
    ));
    *opened = Some(Arc::clone(&store));
    let (catalog, recovery) = Catalog::open(&world, Arc::clone(&store) as Arc<dyn crate::catalog::store::Store>)
        .await
        .map_err(|error| catalog_trouble(name, &error))?;
    if was_mounted {
        tell(
            Severity::Warning,
            None,
            format!(
                "the last stop was unclean; {} active regions; {} commits of the catalog replayed",
                log.regions.len(),
                recovery.commits
            ),
        );
    }
    // Step 6.
    if was_mounted {
        let kept_power = found.boot == world.boot_id();
        if kept_power {
            // What the disks were given is in them; now it is durable, too.
            for member in members.values().filter(|member| member.is_writable()) {
                let settled = member.flush_all().await;
                if !settled.is_ok() {
                    let reason = format!("at mount: {}", settled.reason());
                    voters.expel(member.number, &reason, false).await.map_err(|refusal| failed(&refusal))?;
                }
            }
        }
        let settle = move |connection: &rusqlite::Connection| crate::extent::settle_pending(connection, kept_power);
        catalog.write(true, settle).await.map_err(|error| failed(&error))?;
    }
    let regions = if was_mounted { log.regions.clone() } else { Vec::new() };
    let whole: Vec<_> =
        decision.disks.iter().filter(|verdict| verdict.standing.copy_whole()).map(|verdict| verdict.number).collect();
    let stale = note_stale(&catalog, &voters.current(), &regions, &whole).await.map_err(|error| failed(&error))?;
    let boot = world.boot_id();
    voters
        .change(move |next| {
            next.boot = boot;
            Ok(true)
        })
        .await
        .map_err(|refusal| failed(&refusal))?;

    let scan = scan_extents(&catalog, &regions).await.map_err(|error| failed(&error))?;
    let slots = build_space(&scan, &space, &mirror_sets, found.au_size, &|text| tell(Severity::Alarm, None, text));
    let next_extent =
        scan.next_extent.max(regions.iter().map(|region| region.first + u64::from(region.count)).max().unwrap_or(1));
    let activity = Activity::new(&regions, log.sequence, world.monotonic());
    let attributes = catalog.read(attributes::load).await.map_err(|error| failed(&error))?;
    deadline.store(attributes.disk_timeout_ticks, Ordering::Relaxed);
    let suspects = Arc::new(Suspects::new(scan.suspects));
    let extents = Arc::new(Extents::default());
    let freeing = Arc::new(Freeing::new(Arc::clone(&space), Arc::clone(&mirror_sets)));
    let releaser = Releaser { extents: Arc::clone(&extents), freeing: Arc::clone(&freeing) };
    let files = Files::open(Arc::clone(&world), Arc::clone(&catalog), Arc::new(releaser))
        .await
        .map_err(|error| failed(&error))?;
    let group = Group::assemble(Parts {
        id: decision.group,
        name: name.to_owned(),
        redundancy: found.redundancy,
        au_size: found.au_size,
        created: found.created,
        mounted: world.now(),
        members,
        mirror_sets,
        voters,
        store,
        catalog: Arc::clone(&catalog),
        space,
        slots,
        activity,
        extents,
        files,
        freeing,
        stale: Arc::new(Mutex::new(stale)),
        suspects,
        next_extent,
        attributes,
        deadline,
        world,
    });
    group.start(&decision, purpose).await;
    Ok(group)
}

fn make_members(decision: &Decision, claimed: &Claimed) -> Result<Members> {
    let mut members = Members::new();
    for entry in &decision.membership.disks {
        let verdict = decision.disks.iter().find(|verdict| verdict.number == entry.number);
        let sighting = verdict.and_then(|verdict| verdict.sighting);
        let serves = verdict.is_some_and(|verdict| {
            matches!(verdict.standing, Standing::Current)
                || (verdict.standing == Standing::Stale && entry.state == DiskState::Syncing)
        });
        let serves = serves || decision.complete_on.contains(&entry.number);
        let disk = sighting.filter(|_| serves).map(|index| Arc::clone(&claimed.disks[index]));
        let layout = Layout::new(entry.size, decision.membership.au_size)
            .map_err(|error| AdminError::new(Code::Damaged, format!("disk {}: {error}", entry.name)))?;
        members.insert(entry.number, Arc::new(Member::new(entry, layout, disk)));
    }
    Ok(members)
}

/// Step 3: mounted, and what is not current is offline.
async fn record_mount(
    world: &Arc<dyn World>,
    voters: &Arc<Voters>,
    decision: &Decision,
) -> std::result::Result<(), crate::voters::Refusal> {
    let now = world.now();
    let (stamp, disks) = (decision.stamp, decision.disks.clone());
    voters
        .change(move |next| {
            next.mounted = true;
            for verdict in &disks {
                let Some(entry) = find(next, verdict.number) else { continue };
                let serves = match verdict.standing {
                    Standing::Current => true,
                    Standing::Stale => entry.state == DiskState::Syncing,
                    _ => false,
                };
                if !serves && entry.state != DiskState::Offline {
                    if entry.state == DiskState::Online {
                        entry.stamp = stamp;
                    }
                    entry.state = DiskState::Offline;
                    entry.since = now;
                }
                entry.copy_whole |= verdict.standing.copy_whole();
            }
            Ok(true)
        })
        .await
        .map(|_| ())
}

/// Step 7: what disks that are not online miss.
async fn note_stale(
    catalog: &Arc<Catalog>,
    membership: &Membership,
    regions: &[Region],
    whole: &[DiskNumber],
) -> std::result::Result<stale::Stale, crate::error::FileError> {
    let behind: Vec<_> = membership
        .disks
        .iter()
        .filter(|disk| disk.state != DiskState::Online && !disk.quorum)
        .map(|disk| disk.number)
        .collect();
    let mut known = catalog.read(|connection| Ok(stale::load(connection)?)).await?;
    let before = known.clone();
    for disk in &behind {
        let runs: &mut Runs = known.entry(*disk).or_default();
        for region in regions {
            runs.add(region.first, region.count.into());
        }
        if whole.contains(disk) {
            runs.add(0, EVERYTHING);
        }
    }
    known.retain(|disk, _| behind.contains(disk));
    if known == before {
        return Ok(known);
    }
    let rows = known.clone();
    catalog
        .write(true, move |connection| {
            connection.execute("DELETE FROM stale", [])?;
            for (disk, runs) in &rows {
                stale::replace(connection, *disk, runs)?;
            }
            Ok(())
        })
        .await?;
    Ok(known)
}

/// What the catalog says about every extent.
struct Scan {
    mirrors: Vec<Vec<crate::placement::Mirror>>,
    shared: Vec<u64>,
    slots: Vec<(u64, usize)>,
    next_extent: u64,
    suspects: BTreeSet<u64>,
}

async fn scan_extents(
    catalog: &Arc<Catalog>,
    regions: &[Region],
) -> std::result::Result<Scan, crate::error::FileError> {
    let mut runs = Runs::default();
    regions.iter().for_each(|region| {
        runs.add(region.first, region.count.into());
    });
    catalog
        .read(move |connection| {
            let mut scan = Scan {
                mirrors: Vec::new(),
                shared: Vec::new(),
                slots: Vec::new(),
                next_extent: 1,
                suspects: BTreeSet::new(),
            };
            let mut select =
                connection.prepare(&format!("SELECT {} FROM extent ORDER BY id", crate::extent::COLUMNS))?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                let extent = crate::extent::from_row(row)?;
                if extent.file == 0 {
                    scan.shared.push(extent.id);
                }
                if runs.has(extent.id) {
                    scan.suspects.insert(extent.id);
                }
                scan.next_extent = scan.next_extent.max(extent.id + 1);
                scan.mirrors.push(extent.mirrors);
            }
            let mut select =
                connection.prepare("SELECT shared_extent, slot FROM file WHERE shared_extent IS NOT NULL")?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                let (id, piece): (i64, i64) = (row.get(0)?, row.get(1)?);
                scan.slots.push((id.cast_unsigned(), usize::try_from(piece).unwrap_or(usize::MAX)));
            }
            Ok(scan)
        })
        .await
}

/// Marks what the catalog uses. Damage is told, not fatal: the rest of the group serves.
fn build_space(
    scan: &Scan,
    space: &Arc<Mutex<Space>>,
    mirror_sets: &MirrorSets,
    au_size: u64,
    alarm: &dyn Fn(String),
) -> Slots {
    let mut space = space.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for mirrors in &scan.mirrors {
        mirror_sets.add(mirrors.iter().map(|mirror| mirror.disk));
        for mirror in mirrors {
            if let Err(error) = space.mark_used(mirror.disk, mirror.au) {
                alarm(format!("catalog: {error}"));
            }
        }
    }
    let per_extent = usize::try_from(au_size / plinth_format::layout::PIECE_SIZE).unwrap_or(1);
    let mut slots = Slots::new(per_extent);
    scan.shared.iter().for_each(|id| slots.add_extent(*id));
    for (id, piece) in &scan.slots {
        if !slots.mark_used(*id, *piece) {
            alarm(format!("catalog: slot {piece} of shared extent {id} is used twice or does not exist; run CHECK"));
        }
    }
    slots
}

impl Group {
    /// Rewrites the header copies of a disk that are missing, damaged or older.
    pub(crate) async fn repair_header(&self, member: &Arc<Member>) -> std::result::Result<(), String> {
        let Some(disk) = member.disk() else { return Ok(()) };
        let Some(header) = identify::read_header(&*self.world, &*disk).await else {
            return Err("no copy of its header is valid".to_owned());
        };
        if header.wrong.is_empty() {
            return Ok(());
        }
        write_header(member, &header.best, &header.wrong).await?;
        let text = repaired_header(&member.name, &member.path(), &header.wrong);
        self.tell(Severity::Warning, Some(member.number), text);
        Ok(())
    }

    /// Marks the headers of all disks as of a former member: they can be taken again.
    pub(crate) async fn retire_headers(&self) -> std::result::Result<(), String> {
        let membership = self.voters.current();
        for member in self.members.values() {
            let Some(disk) = member.disk() else { continue };
            let sequence =
                identify::read_header(&*self.world, &*disk).await.map_or(1, |header| header.best.sequence + 1);
            let header = header_of(self.id, &membership, member, self.created, Status::Former, sequence);
            write_header(member, &header, &header.layout.header_places()).await?;
        }
        Ok(())
    }
}
