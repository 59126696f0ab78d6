//! Mounting a disk group.
//!
//! Its steps (`mount_disks`):
//!
//!   1. Look at every discovered disk; claim those whose header names the group (R1); look again
//!      (`claim.rs`).
//!   2. Decide (`mount_decision.rs`), or refuse (`decide`).
//!   3. Open the members of the membership that won; read the newest activity log of the voters
//!      (`open_members`).
//!   4. Complete that membership and that log on the voters. Record a successor: mounted, disks
//!      that are absent or not current offline (`record_mount`).
//!   5. Open the catalog; it replays its log if the last stop was unclean (`open_catalog`). It must
//!      not grow before step 8: which AUs are free is known when all extents have been read from
//!      it.
//!   6. Pending pieces, and sizes that were kept for the catalog (`files/sizes.rs`). If only the
//!      process died, the disks are flushed, and the pieces are written. If power was lost, they
//!      hold nothing. Either is made durable before the new boot id is recorded, or a second crash
//!      would judge them by the wrong one (`resolve_pending`).
//!   7. Every region of the activity log is stale for every disk that is not online, durably. Then
//!      record the new boot id (`mark_stale`).
//!   8. Read all extents: their AUs are in use; those in regions of the activity log are suspect
//!      (`read_extents`). Read the attributes (`read_attributes`), and open the files
//!      (`build_group`).
//!   9. Repair header copies, one after the other; then compare the engine's other metadata on the
//!      disks; begin the background tasks, among them recovery and resync (`Group::start`).
//!  10. Serve (`serve`). Recovery and resync continue in the background.
//!
//! A crash anywhere in it is an unclean stop like any other: the activity log and the
//! boot id stay as they were until their consequences are durable.

use crate::{
    admin::{AdminError, Code, HeaderStatus, Phases, Survey},
    api::ConnectionId,
    catalog::{
        Catalog,
        attributes::{self, Attributes, DropAfter},
        on_disks::{self, DiskStore},
        tables::{self, extent::NewExtent},
    },
    check::Upkeep,
    disk::{
        counters::IoClient,
        disk_io::IoResult,
        identify,
        look::Silent,
        member::{self, Member, Watch},
        members::Members,
    },
    error::FileError,
    event::{Event, Severity},
    extent::{
        Extents, Mirrors,
        activity::Activity,
        catalog_mirrors::CatalogMirrors,
        data::Data,
        discards::Discards,
        disk_health,
        disputes::Disputes,
        failed_flush::{FailedFlushes, LOST_BEFORE, NO_BOOT},
        move_waits::MoveWaits,
        partial_blocks::PartialBlocks,
        reclaim::Freeing,
        recovery::Suspects,
        repairs::Repairs,
        stale::{self, EVERYTHING, Runs},
        throttle::Throttle,
    },
    files::{
        Files, allocation::Releaser, file_stats::FileStats, file_system::FileSystem, sizes::Sizes,
    },
    group::{
        Group,
        claim::{Claimed, Unusable, claim_members},
        create::catalog_trouble,
    },
    membership::{
        mount_decision::{self, Decision, DiskVerdict},
        voters::{Refusal, Voters, find},
    },
    movement::Movement,
    planted::{self, Bug},
    space::{
        Space,
        extent_id::ExtentId,
        mirror_sets::{MirrorCount, MirrorSets},
        slots::Slots,
    },
    sync::lock::{AsyncMutex, Mutex},
    words::counted,
    world::World,
};
use futures::future::{self, Either};
use plinth_format::{
    DiskNumber, Layout, Piece,
    activity::{ActivityLog, Region},
    layout::ACTIVITY_SLOT,
    membership::{DiskState, MemberDisk, Membership},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

type Result<T> = std::result::Result<T, AdminError>;

/// How often overdue I/O is waited for at a mount before the mount is refused (a second each).
const SILENCE_PATIENCE: u32 = 30;

/// The purpose of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For front ends.
    Serve,
    /// To be checked and dismounted: disks that are not online stay as they are.
    Check,
}

/// Mounts a group. `connections`: FUSE mounts that it is going to take over.
pub(crate) async fn mount(
    world: Arc<dyn World>,
    name: &str,
    force: bool,
    purpose: Purpose,
    connections: &[ConnectionId],
) -> Result<Arc<Group>> {
    let request = MountRequest { world, name, force, purpose, connections };
    let mut opened = None;
    // Boxed: it is large, and callers would move it.
    let mounted = Box::pin(mount_disks(&request, &mut opened)).await;
    mounted.map_err(|error| match opened {
        Some(store) => store.explain(error),
        None => error,
    })
}

/// The parameters of a mount.
struct MountRequest<'a> {
    world: Arc<dyn World>,
    /// The group's.
    name: &'a str,
    force: bool,
    purpose: Purpose,
    /// FUSE mounts that it is going to take over.
    connections: &'a [ConnectionId],
}

impl MountRequest<'_> {
    fn tell(&self, severity: Severity, disk: Option<DiskNumber>, text: String) {
        self.world.event(Event { group: self.name.to_owned(), severity, disk, text });
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> AdminError {
        AdminError::new(Code::Io, format!("disk group {}: {error}", self.name))
    }

    /// The error of a mount whose catalog cannot be read or written.
    fn unreadable(&self, error: FileError) -> AdminError {
        error.while_doing(format_args!("disk group {}", self.name))
    }
}

/// The steps of a mount; `opened` is the catalog's storage, once there is one.
async fn mount_disks(
    request: &MountRequest<'_>,
    opened: &mut Option<Arc<DiskStore>>,
) -> Result<Arc<Group>> {
    let claimed = claim_members(&request.world, request.name).await?;
    let decision = decide(request, &claimed).await?;
    let disks = open_members(request, &decision, &claimed).await?;
    let members = Arc::clone(&disks.members);
    let mounted = Box::pin(mount_members(request, &decision, &claimed, disks, opened));
    match future::select(mounted, Box::pin(tell_of_full_disks(request, &members))).await {
        Either::Left((mounted, _)) => mounted,
        Either::Right((never, _)) => match never {},
    }
}

/// Until the group looks after its disks itself. Without room a mount waits, as writes do.
async fn tell_of_full_disks(request: &MountRequest<'_>, members: &Members) -> Infallible {
    loop {
        request.world.sleep(disk_health::LOOK).await;
        for (severity, disk, text) in disk_health::full_disks(members, &*request.world) {
            request.tell(severity, Some(disk), text);
        }
    }
}

/// The steps from 4 on.
async fn mount_members(
    request: &MountRequest<'_>,
    decision: &Decision,
    claimed: &Claimed,
    disks: Disks,
    opened: &mut Option<Arc<DiskStore>>,
) -> Result<Arc<Group>> {
    record_mount(request, decision, &disks).await?;
    let catalog = open_catalog(request, decision, &disks, opened).await?;
    let pending = resolve_pending(request, decision, &disks, &catalog).await?;
    let stale = mark_stale(request, decision, &disks, &catalog).await?;
    let extents = read_extents(request, decision, &disks, &catalog).await?;
    let attributes = read_attributes(request, &disks, &catalog).await?;
    let (rebalance, is_all_discarded) = (attributes.rebalance, attributes.is_all_discarded);
    let watch = Arc::clone(&disks.watch);
    let parts = Parts { attributes, extents, stale, pending, catalog, disks };
    let group = build_group(request, decision, parts).await?;
    group
        .start(decision, request.purpose, rebalance, request.connections)
        .await
        .map_err(|error| request.unreadable(error))?;
    if request.purpose == Purpose::Serve {
        serve(request, decision, claimed, &group, is_all_discarded).await;
    }
    watch.serves.store(request.purpose == Purpose::Serve, Ordering::Relaxed);
    Ok(group)
}

/// Step 2: the membership to go on with, and a verdict on each of its disks.
async fn decide(request: &MountRequest<'_>, claimed: &Claimed) -> Result<Decision> {
    let refused = mount_decision::choose(request.name, &claimed.probe_results, request.force);
    let unusable = if refused.is_err() {
        unusable_disks(&request.world, &claimed.silent).await
    } else {
        Vec::new()
    };
    let decision = refused.map_err(|refusal| {
        let code = match refusal.case() {
            mount_decision::Case::NoDisks => Code::NoGroup,
            mount_decision::Case::NoQuorum
            | mount_decision::Case::TwoHistories
            | mount_decision::Case::Fork => Code::NoQuorum,
            mount_decision::Case::TwoGroups => Code::DuplicateDisk,
            _ => Code::WouldLoseData,
        };
        let mut text = refusal.to_string();
        claimed.reasons().for_each(|reason| text += &format!("; {reason}"));
        unusable.iter().for_each(|disk| text += &format!("; {disk}"));
        AdminError::new(code, text).hint(refusal.remedy())
    })?;
    claimed.reasons().for_each(|reason| request.tell(Severity::Warning, None, reason));
    for warning in &decision.warnings {
        let has_reason = |disk: &Unusable| warning.missing.as_ref() == Some(&disk.name);
        if !claimed.unusable.iter().any(has_reason) {
            request.tell(Severity::Warning, None, warning.text.clone());
        }
    }
    Ok(decision)
}

/// Sentences about discovered disks that may be of any group, since their headers cannot be used:
/// one of them may be missing in a mount.
async fn unusable_disks(world: &Arc<dyn World>, silent: &[Silent]) -> Vec<String> {
    let silent: BTreeSet<&String> = silent.iter().map(|one| &one.path).collect();
    let unusable =
        |disk: &Survey| matches!(disk.header, HeaderStatus::Incompatible | HeaderStatus::Unknown);
    // This adds to a refusal, which stands without it, too.
    let seen = identify::survey(world).await.unwrap_or_default();
    let sentence = |disk: &Survey| {
        format!(
            "{} is visible and {}: {}",
            disk.path,
            disk.header,
            disk.remark.as_deref().unwrap_or("no header")
        )
    };
    let answered = seen.iter().filter(|disk| !silent.contains(&disk.path));
    answered.filter(|disk| unusable(disk)).map(sentence).collect()
}

/// The members of the group (step 3).
struct Disks {
    voters: Arc<Voters>,
    mirror_sets: Arc<MirrorSets>,
    /// The newest activity log, and the voters that have it.
    log: ActivityLog,
    log_holders: BTreeSet<DiskNumber>,
    /// The regions that were active when the last engine ended: none, if it dismounted the group.
    active: Vec<Region>,
    watch: Arc<Watch>,
    /// The disk timeout in ticks, shared with the watchdog.
    deadline: Arc<AtomicU64>,
    members: Arc<Members>,
}

/// Step 3: the members, under the watchdog, and the newest activity log.
async fn open_members(
    request: &MountRequest<'_>,
    decision: &Decision,
    claimed: &Claimed,
) -> Result<Disks> {
    let MountRequest { world, name, force, .. } = request;
    let found = &decision.membership;
    let members = Arc::new(make_members(decision, claimed, world)?);
    let deadline = Arc::new(AtomicU64::new(Attributes::default().disk_timeout_ticks));
    let watch = Watch::new(&found.group_name);
    member::watch(world, &members, &deadline, &watch);
    let (log, log_holders) =
        read_activity(world, found, &members, *force).await.map_err(|reason| {
            AdminError::new(Code::Io, format!("disk group {name}: {reason}"))
                .hint("mount it when the disk answers; MOUNT FORCE if it is lost for good")
        })?;
    let active = if found.mounted { log.regions.clone() } else { Vec::new() };
    let mirror_sets = Arc::new(MirrorSets::default());
    let voters = Voters::new(
        Arc::clone(world),
        decision.group,
        Arc::clone(&members),
        Arc::clone(&mirror_sets),
        found.clone(),
        decision.stamp,
        decision.stamped,
    );
    let voters = Arc::new(voters.with_deadline(&deadline));
    Ok(Disks { voters, mirror_sets, log, log_holders, active, watch, deadline, members })
}

fn make_members(decision: &Decision, claimed: &Claimed, world: &Arc<dyn World>) -> Result<Members> {
    let members = Members::new();
    for entry in &decision.membership.disks {
        let verdict = decision.disks.iter().find(|verdict| verdict.number == entry.number);
        let probe_result = verdict.and_then(|verdict| verdict.probe_result);
        let serves = verdict.is_some_and(|verdict| {
            matches!(verdict.verdict, DiskVerdict::Current)
                || (verdict.verdict == DiskVerdict::Stale && entry.state == DiskState::Syncing)
        });
        let serves = serves || decision.complete_on.contains(&entry.number);
        let disk = probe_result.filter(|_| serves).map(|index| Arc::clone(&claimed.disks[index]));
        let layout = Layout::new(entry.size, decision.membership.au_size).map_err(|error| {
            AdminError::new(Code::Damaged, format!("disk {}: {error}", entry.name))
        })?;
        let member = Member::new(entry, layout, disk, world);
        if let Some(index) = probe_result {
            member.set_areas(claimed.probe_results[index].header.record_areas());
        }
        if let Some(header) = probe_result.map(|index| &claimed.probe_results[index].header) {
            member.set_origin(header.origin);
            member.set_label(header.label.clone());
        }
        members.join(Arc::new(member));
    }
    Ok(members)
}

/// The newest activity log on the voters, and the voters that have it. A silent voter is waited
/// for; one of the voters that answer for all of theirs has the newest that counts (R3).
///
/// # Errors
/// If none does, and some do not answer.
async fn read_activity(
    world: &Arc<dyn World>,
    membership: &Membership,
    members: &Members,
    force: bool,
) -> std::result::Result<(ActivityLog, BTreeSet<DiskNumber>), String> {
    let mut newest = ActivityLog {
        sequence: 0,
        membership: membership.id,
        boot: membership.boot,
        regions: Vec::new(),
    };
    let mut holders = BTreeSet::new();
    // Whether it is a log of that disk.
    let mut count = |member: &Member, place: u64, bytes: &[u8]| {
        let Ok((envelope, log)) = ActivityLog::decode(bytes, place) else { return false };
        if envelope.disk != member.id() || log.sequence < newest.sequence.max(1) {
            return envelope.disk == member.id();
        }
        if log.sequence > newest.sequence {
            newest = log;
            holders.clear();
        }
        holders.insert(member.number);
        true
    };
    // A dismounted group had no writes in flight.
    let (mut silent, mut is_seen) = (Vec::new(), !membership.mounted);
    for member in membership.voters().filter_map(|voter| members.get(&voter.number)) {
        let (mut under_way, mut is_whole, mut has_log) = (Vec::new(), true, false);
        for place in member.areas().iter().flat_map(|area| area.activity) {
            let mut disk_io = member.start_read(place, ACTIVITY_SLOT).of(IoClient::Records);
            match disk_io.result_in_time().await {
                Some(IoResult::Ok(Some(bytes))) => has_log |= count(member, place, &bytes),
                Some(_) => is_whole = false,
                None => under_way.push((place, disk_io)),
            }
        }
        is_seen |= is_whole && has_log && under_way.is_empty();
        if !under_way.is_empty() {
            silent.push((member, is_whole, has_log, under_way));
        }
    }
    let (mut unanswered, mut patience) = (Vec::new(), SILENCE_PATIENCE);
    for (member, mut is_whole, mut has_log, under_way) in silent {
        if is_seen || planted::has(Bug::SilentLogForNone) {
            break;
        }
        for (place, mut disk_io) in under_way {
            let mut end = disk_io.wait_a_while(&**world).await;
            while end.is_none() && patience > 0 {
                patience -= 1;
                end = disk_io.wait_a_while(&**world).await;
            }
            match end {
                Some(IoResult::Ok(Some(bytes))) => has_log |= count(member, place, &bytes),
                Some(_) => is_whole = false,
                None => {
                    is_whole = false;
                    unanswered.push(member.name().to_string());
                    break;
                }
            }
        }
        is_seen = is_whole && has_log;
    }
    if !is_seen && !unanswered.is_empty() && !force {
        return Err(format!(
            "what was being written is on {}, which does not answer",
            unanswered.join(", ")
        ));
    }
    // No extent has such an id: a checksum can be forged, and sums must not overflow.
    newest.regions.retain(|region| region.first < EVERYTHING - u64::from(u32::MAX));
    Ok((newest, holders))
}

/// Step 4: completes the membership and the activity log on the voters, and records the mount.
async fn record_mount(
    request: &MountRequest<'_>,
    decision: &Decision,
    disks: &Disks,
) -> Result<()> {
    let Disks { voters, members, log, .. } = disks;
    voters.forced(request.force);
    voters.announce_log(log);
    catch_up(voters, members).await;
    if decision.membership.mounted {
        catch_up_with_log(voters, members, log, &disks.log_holders).await;
    }
    record_successor(&request.world, voters, decision)
        .await
        .map_err(|refusal| request.failed(&refusal))?;
    voters.forced(false);
    if !decision.stamped {
        // That was the former engine's stamp. This mount has its own, as every mount has.
        voters.restamp(false).await;
    }
    // A disk that is offline in the membership was only opened to read its records.
    members.values().filter(|member| !member.is_writable()).for_each(|member| member.release());
    Ok(())
}

/// Writes the membership to voters that did not get it, or lost it to a loss of power: the next one
/// is written over the one before, which may be their only one. A voter that does not take it is
/// handled when the next is recorded.
async fn catch_up(voters: &Voters, members: &Members) {
    let Some((membership, without)) = voters.audit().await else { return };
    let is_there = |disk: &DiskNumber| members.get(disk).is_some_and(|member| member.is_writable());
    let lacking: BTreeSet<DiskNumber> = without.into_iter().filter(is_there).collect();
    if !lacking.is_empty() {
        voters.write_everywhere(&membership, &lacking).await;
    }
}

/// The same for the activity log: the next one is written over the one before, which is the last
/// that was on all of them.
async fn catch_up_with_log(
    voters: &Voters,
    members: &Members,
    log: &ActivityLog,
    holders: &BTreeSet<DiskNumber>,
) {
    if log.sequence == 0 {
        return;
    }
    let current = voters.current();
    let there = current
        .voters()
        .filter(|disk| members.get(&disk.number).is_some_and(|member| member.is_writable()));
    let (having, lacking): (BTreeSet<DiskNumber>, _) =
        there.map(|disk| disk.number).partition(|disk| holders.contains(disk));
    if !lacking.is_empty() {
        voters.write_log(log, &lacking).await;
    }
    // An engine that was killed may have left it in a cache.
    for member in having.iter().filter_map(|disk| members.get(disk)) {
        let _ = member.flush().await;
    }
}

/// Step 4: records the mount; disks that are not current are offline.
async fn record_successor(
    world: &Arc<dyn World>,
    voters: &Arc<Voters>,
    decision: &Decision,
) -> std::result::Result<(), Refusal> {
    let now = world.now();
    let (stamp, disks) = (decision.stamp, decision.disks.clone());
    let is_unforced = decision.case == mount_decision::Case::Mount;
    voters
        .change(move |next| {
            next.mounted = true;
            for verdict in &disks {
                let Some(entry) = find(next, verdict.number) else { continue };
                let serves = match verdict.verdict {
                    DiskVerdict::Current => true,
                    DiskVerdict::Stale => entry.state == DiskState::Syncing,
                    _ => false,
                };
                if !serves && entry.state != DiskState::Offline {
                    if !(planted::has(Bug::SyncingStampKept) && entry.state == DiskState::Syncing) {
                        entry.stamp = stamp;
                    }
                    // A disk that an engine of an earlier version was copying whole comes back by
                    // itself, too.
                    let goes_on = entry.state == DiskState::Syncing && entry.copy_whole;
                    entry.absent = is_unforced && (verdict.verdict.is_away() || goes_on);
                    entry.state = DiskState::Offline;
                    entry.since = now;
                }
                entry.copy_whole |= verdict.verdict.copy_whole();
            }
            Ok(true)
        })
        .await
        .map(|_| ())
}

/// The catalog and its storage (step 5).
struct OpenCatalog {
    catalog: Arc<Catalog>,
    store: Arc<DiskStore>,
    /// Until step 8 only the catalog's AUs are in use in it.
    space: Arc<Mutex<Space>>,
}

/// Step 5: opens the catalog; its log is replayed.
async fn open_catalog(
    request: &MountRequest<'_>,
    decision: &Decision,
    disks: &Disks,
    opened: &mut Option<Arc<DiskStore>>,
) -> Result<OpenCatalog> {
    let MountRequest { world, name, force, .. } = request;
    let space = Arc::new(Mutex::new(space_with_catalog(request, decision, disks)?));
    let store = Arc::new(DiskStore::new(
        Arc::clone(world),
        Arc::clone(&disks.members),
        Arc::clone(&disks.voters),
        Arc::clone(&space),
        decision.membership.au_size,
    ));
    *opened = Some(Arc::clone(&store));
    let (catalog, recovery) =
        Catalog::open(world, Arc::clone(&store) as Arc<dyn crate::catalog::store::Store>, *force)
            .await
            .map_err(|error| catalog_trouble(name, &error))?;
    if decision.membership.mounted {
        let text = format!(
            "the last stop was unclean; {}; {} of the catalog replayed",
            counted(disks.log.regions.len(), "active region"),
            counted(recovery.commits, "commit")
        );
        request.tell(Severity::Warning, None, text);
    }
    Ok(OpenCatalog { catalog, store, space })
}

/// The space of the disks, where only the AUs of the catalog are in use.
fn space_with_catalog(
    request: &MountRequest<'_>,
    decision: &Decision,
    Disks { members, voters, .. }: &Disks,
) -> Result<Space> {
    let mut space = Space::new();
    for member in members.values().filter(|member| !member.quorum) {
        space.add_disk(member.number, member.layout());
        if let Some(target) = voters.current().disk(member.number).and_then(|entry| entry.target) {
            let target = Layout::new(target, decision.membership.au_size);
            let target = target.map_err(|error| request.failed(&error))?;
            space.reserve_for_shrink(member.number, Some(target));
        }
    }
    for (disk, au) in on_disks::units(&voters.current()) {
        space
            .mark_used(disk, au)
            .map_err(|error| AdminError::new(Code::Damaged, format!("the membership: {error}")))?;
    }
    Ok(space)
}

/// The last engine's failed flushes and kept sizes, for this one (step 6).
struct Pending {
    failed_flushes: Arc<FailedFlushes>,
    sizes: Arc<Sizes>,
}

/// Step 6: decides, by the boot id, whether pending pieces and kept sizes count, durably.
async fn resolve_pending(
    request: &MountRequest<'_>,
    decision: &Decision,
    disks: &Disks,
    catalog: &OpenCatalog,
) -> Result<Pending> {
    let found = &decision.membership;
    let mut kept_power = found.mounted
        && (found.boot == request.world.boot_id() || planted::has(Bug::PendingBelieved));
    let mut uncertain = None;
    if kept_power && !planted::has(Bug::KilledNotFlushed) {
        // The disks' data is consistent now; it is durable, too.
        uncertain = flush_what_was_left(&request.world, &disks.voters, &disks.members)
            .await
            .map_err(|refusal| request.failed(&refusal))?;
    }
    if let Some(Uncertain { disk, name, reason }) = &uncertain {
        let text = format!(
            "disk {name} cannot be spared, and a flush of it failed: {reason}. What was written before the last engine ended and was not synced is \
             lost: each file concerned gets an error at its next sync. Replace the disk"
        );
        request.tell(Severity::Alarm, Some(*disk), text);
        kept_power = false;
    }
    let sizes = Arc::new(open_sizes(request, decision)?);
    let restore = {
        let (sizes, survived) =
            (Arc::clone(&sizes), kept_power && !planted::has(Bug::GrowthForgotten));
        move |connection: &rusqlite::Connection| sizes.restore(connection, survived)
    };
    let failed_flushes = Arc::new(FailedFlushes::default());
    if found.mounted {
        let is_lost = uncertain.is_some() || found.boot == NO_BOOT;
        let store = move |connection: &rusqlite::Connection| {
            restore(connection)?;
            let files = if is_lost {
                tables::extent::files_with_pending(connection)?
            } else {
                BTreeSet::new()
            };
            crate::extent::resolve_pending(connection, kept_power).map(|()| files)
        };
        let released = catalog.catalog.release(true, store).await;
        let (files, _) = released.map_err(|error| request.unreadable(error))?;
        match &uncertain {
            Some(Uncertain { name, reason, .. }) => failed_flushes.lose(files, name, reason),
            // A former engine could not make it durable, or a mount that was refused.
            None if found.boot == NO_BOOT => {
                failed_flushes.lose(files, LOST_BEFORE, "the alert log names it")
            }
            None => {}
        }
    } else {
        let released = catalog.catalog.release(false, restore).await;
        released.map_err(|error| request.unreadable(error))?;
    }
    sizes.begun();
    Ok(Pending { failed_flushes, sizes })
}

/// A disk of which a flush failed, and that stays: it is not known which writes are on it.
struct Uncertain {
    disk: DiskNumber,
    name: String,
    reason: String,
}

/// Step 6: makes the former engine's writes durable. A disk that fails to goes offline; one that
/// cannot be spared, and does not fail again, is returned with the reason: no later flush makes up
/// for writes that this one has lost (R9), which are recorded then.
async fn flush_what_was_left(
    world: &Arc<dyn World>,
    voters: &Voters,
    members: &Members,
) -> std::result::Result<Option<Uncertain>, Refusal> {
    let mut uncertain = None;
    for member in members.values().filter(|member| member.is_writable()) {
        let ended = flush_of_predecessor(world, voters, member).await?;
        let Some(ended) = ended else { continue };
        let is_flushed = ended.is_ok();
        if is_flushed && !member.is_broken() {
            continue;
        }
        let reason = if is_flushed { "a flush before that".to_owned() } else { ended.reason() };
        let Err(refusal) = voters.expel(member.number, &format!("at mount: {reason}"), false).await
        else {
            continue;
        };
        let membership = voters.current();
        let is_needed =
            |disk: &MemberDisk| disk.number == member.number && membership.voters().count() < 3;
        if !is_flushed && membership.voters().any(is_needed) {
            // It would take no record of that, either.
            return Err(refusal);
        }
        voters.record_boot(NO_BOOT).await?;
        if !is_flushed {
            return Err(refusal);
        }
        member.take_broken();
        uncertain =
            Some(Uncertain { disk: member.number, name: member.name().to_string(), reason });
    }
    Ok(uncertain)
}

/// Waits for a flush of all former writes to a disk. `None`: the disk went offline for it. A disk
/// that is only slow has lost nothing: it is waited for, since nothing else can be done meanwhile.
async fn flush_of_predecessor(
    world: &Arc<dyn World>,
    voters: &Voters,
    member: &Arc<Member>,
) -> std::result::Result<Option<IoResult>, Refusal> {
    let mut disk_io = member.start_flush_of_all();
    let mut end = disk_io.result_in_time().await;
    for _ in 0..SILENCE_PATIENCE {
        if let Some(ended) = end {
            return Ok(Some(ended));
        }
        let reason = format!("at mount: {}", IoResult::Overdue.reason());
        match voters.expel(member.number, &reason, false).await {
            Ok(()) => return Ok(None),
            Err(Refusal::Answers | Refusal::WouldLoseData) => {
                end = disk_io.wait_a_while(&**world).await
            }
            Err(refusal) => return Err(refusal),
        }
    }
    end.map_or(Err(Refusal::WouldLoseData), |ended| Ok(Some(ended)))
}

/// Opens the sizes that the last engine kept for the catalog.
fn open_sizes(request: &MountRequest<'_>, decision: &Decision) -> Result<Sizes> {
    Sizes::open(&*request.world, decision.group).map_err(|error| {
        let text = format!(
            "disk group {}: what its last engine kept of files that had just grown cannot be read: {error}",
            request.name
        );
        AdminError::new(Code::Io, text)
            .hint("make it readable; without that file, the last second of what was not synced may be missing")
    })
}

/// Step 7: marks the active regions stale on disks that are not online; then records the boot id.
async fn mark_stale(
    request: &MountRequest<'_>,
    decision: &Decision,
    disks: &Disks,
    catalog: &OpenCatalog,
) -> Result<stale::Stale> {
    let whole: Vec<_> = decision
        .disks
        .iter()
        .filter(|verdict| verdict.verdict.copy_whole())
        .map(|verdict| verdict.number)
        .collect();
    let stale = note_stale(&catalog.catalog, &disks.voters.current(), &disks.active, &whole)
        .await
        .map_err(|error| request.unreadable(error))?;
    let boot = request.world.boot_id();
    disks
        .voters
        .change(move |next| {
            next.boot = boot;
            Ok(true)
        })
        .await
        .map_err(|refusal| request.failed(&refusal))?;
    Ok(stale)
}

/// Step 7: marks the regions that are stale on disks that are not online.
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
        let is_passed = planted::has(Bug::SyncingNotStale)
            && membership.disk(*disk).is_some_and(|one| one.state == DiskState::Syncing);
        for region in
            regions.iter().filter(|_| !is_passed && !planted::has(Bug::CrashedRegionsNotStale))
        {
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
        .release(true, move |connection| {
            tables::stale::delete_all(connection)?;
            for (disk, runs) in &rows {
                stale::replace(connection, *disk, runs)?;
            }
            Ok(())
        })
        .await?;
    Ok(known)
}

/// The result of reading all extents (step 8).
struct ReadExtents {
    slots: Slots,
    next_extent: u64,
    suspects: BTreeSet<ExtentId>,
    activity: Activity,
}

/// Step 8: reads all extents; from then on the catalog may grow.
async fn read_extents(
    request: &MountRequest<'_>,
    decision: &Decision,
    disks: &Disks,
    catalog: &OpenCatalog,
) -> Result<ReadExtents> {
    let OpenCatalog { catalog, store, space } = catalog;
    let scan =
        scan_extents(catalog, &disks.active).await.map_err(|error| request.unreadable(error))?;
    let au_size = decision.membership.au_size;
    let slots = build_space(&scan, space, &disks.mirror_sets, au_size, &|text| {
        request.tell(Severity::Alarm, None, text)
    });
    store.note_space_known();
    // AUs that the catalog lost since they were counted.
    store.free_struck();
    let ends = disks.active.iter().map(|region| region.first + u64::from(region.count));
    let next_extent = scan.next_extent.max(ends.max().unwrap_or(1));
    let activity = Activity::new(&disks.active, disks.log.sequence, request.world.monotonic());
    Ok(ReadExtents { slots, next_extent, suspects: scan.suspects, activity })
}

/// The catalog's extents, as the mount needs them.
struct Scan {
    mirrors: Vec<(Mirrors, MirrorCount)>,
    shared: Vec<ExtentId>,
    slots: Vec<(ExtentId, Piece)>,
    next_extent: u64,
    suspects: BTreeSet<ExtentId>,
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
            tables::extent::each(connection, |row| {
                let NewExtent { id, file, mirrors, own, .. } = row.extent;
                if file == 0 {
                    scan.shared.push(ExtentId(id));
                }
                if runs.has(ExtentId(id)) && !planted::has(Bug::CrashedRegionsForgotten) {
                    scan.suspects.insert(ExtentId(id));
                }
                scan.next_extent = scan.next_extent.max(id + 1);
                scan.mirrors.push((mirrors, own));
            })?;
            tables::slot::each(connection, |id, piece| scan.slots.push((ExtentId(id), piece)))?;
            Ok(scan)
        })
        .await
}

/// Marks the AUs that the catalog uses. Damage is reported, not fatal: the rest of the group
/// serves.
fn build_space(
    scan: &Scan,
    space: &Arc<Mutex<Space>>,
    mirror_sets: &MirrorSets,
    au_size: u64,
    alarm: &dyn Fn(String),
) -> Slots {
    let mut space = space.lock();
    for (mirrors, own) in &scan.mirrors {
        mirror_sets.add(mirrors.iter().map(|mirror| mirror.disk), *own);
        for mirror in *mirrors {
            if let Err(error) = space.mark_used(mirror.disk, mirror.au) {
                alarm(format!("catalog: {error}"));
            }
        }
    }
    mirror_sets.complete();
    let per_extent = usize::try_from(au_size / plinth_format::layout::PIECE_SIZE).unwrap_or(1);
    let mut slots = Slots::new(per_extent);
    scan.shared.iter().for_each(|id| slots.add_extent(*id));
    for (id, piece) in &scan.slots {
        if !slots.mark_used(*id, *piece) {
            alarm(format!(
                "catalog: slot {piece} of shared extent {id} is used twice or does not exist; run CHECK"
            ));
        }
    }
    slots
}

/// The attributes, and other values that the catalog keeps in their table (step 8).
struct StoredAttributes {
    attributes: Attributes,
    /// The power and the phases of an interrupted rebalance.
    rebalance: Option<(u32, Phases)>,
    drop_after: BTreeMap<DiskNumber, DropAfter>,
    /// Whether the last engine had discarded all free space.
    is_all_discarded: bool,
}

/// Step 8: reads the attributes.
async fn read_attributes(
    request: &MountRequest<'_>,
    disks: &Disks,
    OpenCatalog { catalog, .. }: &OpenCatalog,
) -> Result<StoredAttributes> {
    let unreadable = |error| request.unreadable(error);
    let load = |connection: &_| {
        let rebalance = attributes::load_rebalance(connection)?;
        Ok((attributes::load(connection)?, rebalance, attributes::load_drop_after(connection)?))
    };
    let (attributes, rebalance, drop_after) = catalog.read(load).await.map_err(unreadable)?;
    let is_all_discarded =
        catalog.read(attributes::load_all_discarded).await.map_err(unreadable)?;
    if is_all_discarded && request.purpose == Purpose::Serve {
        // Durably, before anything is freed.
        let forget = |connection: &_| attributes::store_all_discarded(connection, false);
        catalog.release(true, forget).await.map_err(unreadable)?;
    }
    disks.deadline.store(attributes.disk_timeout_ticks, Ordering::Relaxed);
    if request.purpose == Purpose::Serve {
        disks.members.delay(catalog.read(attributes::what_if::load).await.map_err(unreadable)?);
    }
    Ok(StoredAttributes { attributes, rebalance, drop_after, is_all_discarded })
}

/// The results of steps 3 to 8, of which the group is made.
struct Parts {
    attributes: StoredAttributes,
    extents: ReadExtents,
    stale: stale::Stale,
    pending: Pending,
    catalog: OpenCatalog,
    disks: Disks,
}

/// The files, and what they share with the group's data.
struct OpenFiles {
    files: Arc<Files>,
    extents: Arc<Extents>,
    freeing: Arc<Freeing>,
    file_stats: Arc<FileStats>,
}

/// Step 8: opens the files, and makes the group of these parts.
async fn build_group(
    request: &MountRequest<'_>,
    decision: &Decision,
    parts: Parts,
) -> Result<Arc<Group>> {
    let open_files = open_files(request, &parts).await?;
    let drop_after = parts.attributes.drop_after.clone();
    let deadline = Arc::clone(&parts.disks.deadline);
    let (files, file_stats) = (Arc::clone(&open_files.files), Arc::clone(&open_files.file_stats));
    let data = Arc::new(make_data(request, decision, parts, open_files));
    let file_system = FileSystem::new(data, files, file_stats);
    Ok(Group::new(Upkeep::new(Movement::new(file_system, drop_after)), deadline))
}

async fn open_files(request: &MountRequest<'_>, parts: &Parts) -> Result<OpenFiles> {
    let Parts { catalog: OpenCatalog { catalog, space, .. }, pending, disks, .. } = parts;
    let extents = Arc::new(Extents::default());
    let freeing = Arc::new(Freeing::new(Arc::clone(space), Arc::clone(&disks.mirror_sets)));
    let file_stats = Arc::new(FileStats::default());
    let releaser = Releaser {
        extents: Arc::clone(&extents),
        freeing: Arc::clone(&freeing),
        failed_flushes: Arc::clone(&pending.failed_flushes),
        stats: Arc::clone(&file_stats),
    };
    let (world, sizes) = (Arc::clone(&request.world), Arc::clone(&pending.sizes));
    let files = Files::open(world, Arc::clone(catalog), Arc::new(releaser), sizes)
        .await
        .map_err(|error| request.unreadable(error))?;
    Ok(OpenFiles { files, extents, freeing, file_stats })
}

fn make_data(
    request: &MountRequest<'_>,
    decision: &Decision,
    parts: Parts,
    open_files: OpenFiles,
) -> Data {
    let Parts { attributes: StoredAttributes { attributes, .. }, catalog, disks, .. } = parts;
    let mounted = request.world.now();
    request.world.set_poll_time(attributes.poll_time.unwrap_or_default());
    let throttle = Throttle::default();
    throttle.promise(attributes.latency_target);
    Data {
        id: decision.group,
        name: request.name.to_owned(),
        au_size: decision.membership.au_size,
        created: decision.membership.created,
        mounted,
        members: disks.members,
        mirror_sets: disks.mirror_sets,
        voters: disks.voters,
        store: catalog.store,
        catalog: catalog.catalog,
        activity: parts.extents.activity,
        extents: open_files.extents,
        stale: Arc::new(Mutex::new(parts.stale)),
        speeds: Mutex::default(),
        suspects: Arc::new(Suspects::new(parts.extents.suspects)),
        failed_flushes: parts.pending.failed_flushes,
        space: catalog.space,
        placement: Mutex::new(None),
        slots: Mutex::new(parts.extents.slots),
        freeing: open_files.freeing,
        parting: open_files.files,
        reclaiming: AsyncMutex::new(()),
        discards: Discards::default(),
        renaming: AsyncMutex::new(()),
        looking: AsyncMutex::new(()),
        next_zone: AtomicU64::new(0),
        promoting: tokio::sync::RwLock::new(()),
        next_extent: AtomicU64::new(parts.extents.next_extent),
        ticks: AtomicU64::new(1),
        repairs: Repairs::default(),
        partial_blocks: PartialBlocks::default(),
        catalog_mirrors: CatalogMirrors::default(),
        disputes: Disputes::default(),
        zones_lost: AtomicU64::new(0),
        throttle,
        move_waits: MoveWaits::default(),
        latency_prober: Arc::default(),
        attributes: Mutex::new(attributes),
        unchecked: AtomicBool::new(false),
        stopping: AtomicBool::new(false),
        world: Arc::clone(&request.world),
    }
}

/// Step 10, after [`Group::start`]: tasks that only a group for front ends needs.
async fn serve(
    request: &MountRequest<'_>,
    decision: &Decision,
    claimed: &Claimed,
    group: &Arc<Group>,
    is_all_discarded: bool,
) {
    if let Err(error) = group.catalog.make_indexes().await {
        group.tell(Severity::Warning, None, format!("queries over many files stay slow: {error}"));
    }
    group.retire_strangers(decision, &claimed.probe_results, &claimed.disks).await;
    group.begin_discards(is_all_discarded, !request.force);
    group.resume_reclaim(!request.force).await;
}
