//! Creating a disk group.
//!
//!   1. Check the request and every disk; claim the disks (R1) (`claim_disks`).
//!   2. Give the catalog its first AUs; wipe the system areas, and old header copies with them
//!      (`prepare_disks`).
//!   3. Record the first membership (`write_membership`); write the catalog (`write_catalog`);
//!      stamp the disks.
//!   4. Write the headers, each copy flushed before the next (`write_headers`).
//!
//! The headers come last: a crash before leaves disks that are still candidates.

use crate::{
    admin::{AdminError, Code, NewGroup},
    catalog::{
        Catalog, CatalogError,
        attributes::{self, Attributes},
        on_disks::{self, DiskStore},
    },
    disk::{
        headers::{header_of, write_header},
        identify,
        look::find_paths,
        member::{self, Member},
        members::Members,
        taken::{Taken, Wanted, check_mixture, check_names, new_id, take_disks, wipe_system_area},
    },
    membership::{mount_decision, voters::Voters},
    space::{Space, mirror_sets::MirrorSets},
    sync::lock::Mutex,
    world::World,
};
use plinth_format::{
    DiskNumber, GroupId, MembershipId,
    header::Status,
    layout::MIB,
    membership::{CatalogFile, Membership},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicU64},
};

type Result<T> = std::result::Result<T, AdminError>;

/// Bytes of the catalog's log, and of its database at first.
const WAL_SIZE: u64 = 16 * MIB;
const DATABASE_SIZE: u64 = 8 * MIB;

/// Creates a group and leaves it dismounted.
pub(crate) async fn create(world: &Arc<dyn World>, new: NewGroup) -> Result<()> {
    let taken = claim_disks(world, &new).await?;
    let group = GroupId(new_id(world));
    let mut membership = first_membership(world, &new, &taken);
    let space = prepare_disks(&new, &mut membership, &taken).await?;
    let records = write_membership(world, &new, group, &membership, &taken).await?;
    write_catalog(world, &new, &records, space, taken[0].disk.sectors().logical).await?;
    records.voters.restamp(true).await;
    write_headers(group, membership.created, &records).await?;
    for member in records.members.values() {
        member.release();
    }
    Ok(())
}

/// Step 1.
async fn claim_disks(world: &Arc<dyn World>, new: &NewGroup) -> Result<Vec<Taken>> {
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
            return Err(AdminError::new(Code::GroupExists, text)
                .hint("choose another name, or drop that disk group"));
        }
    }
    let numbers = (0..=u16::MAX).take(new.disks.len()).map(DiskNumber).collect();
    let wanted =
        Wanted { group: &new.name, au_size: new.au_size, disks: &new.disks, numbers, of: None };
    let taken = take_disks(world, &wanted, &found).await?;
    check_shape(new, &taken)?;
    Ok(taken)
}

/// Step 2. Returns the space, in which the catalog's AUs are in use.
async fn prepare_disks(
    new: &NewGroup,
    membership: &mut Membership,
    taken: &[Taken],
) -> Result<Space> {
    let mut space = Space::new();
    taken
        .iter()
        .filter(|disk| !disk.entry.quorum)
        .for_each(|disk| space.add_disk(disk.entry.number, disk.layout));
    place_catalog(new, membership, &mut space)?;
    for disk in taken {
        wipe_system_area(disk, disk.layout, membership.created).await?;
    }
    Ok(space)
}

/// The members of a new group, and the voters that hold its membership.
struct Records {
    members: Arc<Members>,
    voters: Arc<Voters>,
}

/// Step 3: the membership.
async fn write_membership(
    world: &Arc<dyn World>,
    new: &NewGroup,
    group: GroupId,
    membership: &Membership,
    taken: &[Taken],
) -> Result<Records> {
    let members: Members = taken
        .iter()
        .map(|taken| {
            let disk = Some(Arc::clone(&taken.disk));
            let member = Member::new(&taken.entry, taken.layout, disk, world);
            member.set_label(taken.label.clone());
            Arc::new(member)
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
    let failed = voters.write_everywhere(membership, &targets).await;
    if let Some((disk, reason)) = failed.into_iter().next() {
        let name = membership.disk(disk).map_or_else(String::new, |disk| disk.name.clone());
        return Err(
            AdminError::new(Code::Io, format!("disk {name}: {reason}")).hint("replace the disk")
        );
    }
    Ok(Records { members, voters })
}

/// Step 3: the catalog, with the attributes. `sector`: bytes of a disk's logical sectors.
async fn write_catalog(
    world: &Arc<dyn World>,
    new: &NewGroup,
    records: &Records,
    space: Space,
    sector: u32,
) -> Result<()> {
    let store = DiskStore::new(
        Arc::clone(world),
        Arc::clone(&records.members),
        Arc::clone(&records.voters),
        Arc::new(Mutex::new(space)),
        new.au_size,
    );
    store.note_space_known();
    let catalog = Catalog::create(world, Arc::new(store))
        .await
        .map_err(|error| catalog_trouble(&new.name, &error))?;
    let attributes = initial_attributes(new, sector);
    crate::files::make_root(&catalog, world.now()).await?;
    catalog
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
        .await?;
    catalog.close().await?;
    Ok(())
}

/// Step 4.
async fn write_headers(group: GroupId, created: i64, records: &Records) -> Result<()> {
    let membership = records.voters.current();
    for member in records.members.values() {
        let header = header_of(group, &membership, member, created, Status::Member, 1);
        write_header(member, &header, &header.layout.header_places()).await.map_err(|reason| {
            AdminError::new(Code::Io, format!("disk {}: {reason}", member.name()))
        })?;
    }
    Ok(())
}

/// The attributes of a new group as `V$ASM_ATTRIBUTE` shows them: name, value, and whether it is
/// fixed.
fn initial_attributes(new: &NewGroup, sector: u32) -> Vec<(String, String, bool)> {
    let given = |name: &str| {
        new.attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
    };
    let settable = attributes::SETTABLE.iter().map(|(name, default)| {
        ((*name).to_owned(), given(name).unwrap_or_else(|| (*default).to_owned()), false)
    });
    let fixed = [("au_size", new.au_size.to_string()), ("sector_size", sector.to_string())]
        .map(|(name, value)| (name.to_owned(), value, true));
    settable.chain(fixed).collect()
}

fn check_shape(new: &NewGroup, taken: &[Taken]) -> Result<()> {
    let Some(first) = taken.first() else {
        return Err(AdminError::new(Code::Invalid, "a disk group needs a disk"));
    };
    if let Some((_, value)) = new.attributes.iter().find(|(name, _)| name == "sector_size") {
        let wanted = match value.to_ascii_lowercase().as_str() {
            "512" => 512,
            "4096" | "4k" => 4096,
            _ => {
                return Err(AdminError::new(
                    Code::Invalid,
                    format!("sector size '{value}' is not 512 or 4096"),
                ));
            }
        };
        if wanted != first.disk.sectors().logical {
            let text = format!(
                "disk {} has sectors of {} bytes, sector_size says {wanted}",
                first.disk.path(),
                first.disk.sectors().logical
            );
            return Err(AdminError::new(Code::DiskMismatch, text)
                .hint("leave sector_size out, or take other disks"));
        }
    }
    let groups: BTreeSet<_> = taken
        .iter()
        .filter(|disk| !disk.entry.quorum)
        .map(|disk| disk.entry.failure_group.as_str())
        .collect();
    let needed = new.redundancy.mirrors();
    if groups.len() < needed {
        let text = format!(
            "{} redundancy needs {needed} failure groups with data, {} given",
            new.redundancy,
            groups.len()
        );
        return Err(
            AdminError::new(Code::NotEnoughFailureGroups, text).hint("name more failure groups")
        );
    }
    check_mixture(taken.iter().map(|disk| &disk.entry))
}

/// The time for which starts wait, if CREATE sets it; it is in the membership as well.
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
    let voters = mount_decision::voters(&membership.disks, membership.redundancy);
    for disk in &mut membership.disks {
        disk.votes = voters.contains(&disk.number);
    }
    membership
}

/// Gives the catalog its first AUs.
fn place_catalog(new: &NewGroup, membership: &mut Membership, space: &mut Space) -> Result<()> {
    for (file, size) in [(CatalogFile::Wal, WAL_SIZE), (CatalogFile::Database, DATABASE_SIZE)] {
        // On a small disk, no more than a sixteenth of it.
        let smallest = membership
            .disks
            .iter()
            .filter(|disk| !disk.quorum)
            .map(|disk| space.total(disk.number))
            .min();
        let units = u32::try_from(size.div_ceil(new.au_size))
            .unwrap_or(1)
            .min(smallest.unwrap_or(0) / 16)
            .max(1);
        let mut used = BTreeSet::new();
        while let Some(disk) =
            on_disks::next_disk(membership, used.len(), &used, |disk| space.free(disk) > units)
        {
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
    refused
        .hint("plinth check shows more; if no good mirror is left, restore the group from a backup")
}
