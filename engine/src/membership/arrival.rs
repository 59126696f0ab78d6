//! At start, the instance waits a little for disks that appear late.
//!
//! After a boot, disks appear one after the other: iSCSI logs in, an array's paths come up, a
//! service attaches images. An instance that starts at that time may see too few of them for the
//! mount: then it tries again, until there are enough. Or it sees enough, and not all: then the
//! mount would take the others OFFLINE, and everything written until they are back would have to be
//! copied. So a start checks before it mounts, and waits while a disk that was ONLINE or SYNCING is
//! missing: for as long as the group's attribute `mount_wait` says. The attribute is in the
//! membership, since the catalog cannot be read before the mount. The wait ends at once when all
//! disks are there.
//!
//! Only a start by the instance waits, after a boot or an engine's death. An operator who gives
//! MOUNT has seen which disks are there.

use crate::{
    admin::{AdminError, Code},
    disk::{
        identify::{self, Header, ProbeResult},
        look::{Looked, Needs, Seen, look},
        originals::{self, Originals},
    },
    event::{Event, Severity},
    membership::mount_decision::{self, DiskVerdict},
    world::{Disk, Found, Task, World},
};
use plinth_format::{
    header::Status,
    membership::{DiskState, MemberDisk},
};
use std::{sync::Arc, time::Duration};

/// Seconds for which a start waits for missing disks, by default: the time of an array's paths or
/// an iSCSI login.
pub const MOUNT_WAIT: u64 = 10;
/// The time between two checks.
const LOOK: Duration = Duration::from_millis(250);

/// Whether a mount that has discovered these disks of a group needs any other. No, if all disks of
/// the group are there, even those that are OFFLINE, on the devices that this host used: then no
/// other device can have another history, or be the disk of which one of these is a copy.
fn needs(world: &dyn World, name: &str, probe_results: &[ProbeResult]) -> Needs {
    let Ok(decision) = mount_decision::choose(name, probe_results, false) else {
        return Needs::Something;
    };
    let originals = Originals::recall(world, decision.group);
    let is_there = |disk: &MemberDisk| {
        probe_results
            .iter()
            .any(|one| one.header.disk == disk.id && originals.is_original(disk.id, &one.identity))
    };
    if decision.membership.disks.iter().all(is_there) { Needs::Nothing } else { Needs::Something }
}

/// A disk of a group: its header, and its records.
pub(crate) type Member = (Header, ProbeResult);

/// Discovers the disks of a group. Nothing is claimed, and nothing written.
///
/// # Errors
/// If the process that looks for disks has ended.
pub(crate) async fn look_for_members(
    world: &dyn World,
    name: &str,
) -> Result<Looked<Member>, AdminError> {
    let examine = |one: Found, disk: Arc<dyn Disk>| -> Task<'_, Option<Member>> {
        Box::pin(async move {
            let header = identify::await_header(&*disk).await?;
            if header.best.status != Status::Member || header.best.group_name != name {
                return None;
            }
            let probe_result = identify::await_probe(&one, &*disk, header.best.clone()).await;
            Some((header, probe_result))
        })
    };
    let of_mount = |seen: &[Seen<Member>]| {
        let whole = seen
            .iter()
            .map(|one| &one.what)
            .filter(|(header, _)| header.case != identify::Case::Shrunk);
        needs(world, name, &whole.map(|(_, probe_result)| probe_result.clone()).collect::<Vec<_>>())
    };
    look(world, examine, of_mount).await.whole()
}

/// The records of each discovered disk of a group, without copies of disks and disks that have
/// shrunk.
///
/// # Errors
/// If the process that looks for disks has ended.
pub(crate) async fn discovered(
    world: &Arc<dyn World>,
    name: &str,
) -> Result<Vec<ProbeResult>, AdminError> {
    let seen = look_for_members(&**world, name).await?.seen;
    let whole = seen.into_iter().filter(|one| one.what.0.case != identify::Case::Shrunk);
    let (candidates, probe_results): (Vec<_>, Vec<_>) = whole
        .map(|Seen { found, disk, what: (header, probe_result) }| {
            ((found, disk, header.best), probe_result)
        })
        .unzip();
    let (own, _) = originals::set_aside(&**world, candidates).await;
    Ok(probe_results
        .into_iter()
        .filter(|probe_result| own.iter().any(|(one, ..)| one.path == probe_result.path))
        .collect())
}

/// The missing disks that a mount would take OFFLINE, and for how long a start waits for them.
/// `None`: the group cannot be mounted.
fn missing(name: &str, probe_results: &[ProbeResult]) -> Option<(Vec<String>, Duration)> {
    let decision = mount_decision::choose(name, probe_results, false).ok()?;
    let is_absent = |verdict: &&mount_decision::Verdict| verdict.verdict == DiskVerdict::Absent;
    let missing = decision.disks.iter().filter(is_absent).filter_map(|verdict| {
        let disk = decision.membership.disk(verdict.number)?;
        let served = disk.state != DiskState::Offline;
        served.then(|| format!("{} (failure group {})", disk.name, disk.failure_group))
    });
    let seconds = decision.membership.mount_wait.map_or(MOUNT_WAIT, u64::from);
    Some((missing.collect(), Duration::from_secs(seconds)))
}

/// Attempts before a mounted group counts as one that could not be mounted: its records may be
/// written at the same time.
const REHEARSALS: u32 = 5;

/// Whether the group could be mounted by the records on the discovered disks. Called before a
/// dismount that lets another engine mount it. Nothing is claimed, and nothing written.
///
/// # Errors
/// The reason why it could not be mounted.
pub async fn rehearse(world: &Arc<dyn World>, name: &str) -> Result<(), AdminError> {
    for rehearsal in 1.. {
        let seen = discovered(world, name).await.and_then(|probe_results| {
            mount_decision::choose(name, &probe_results, false)
                .map_err(|refusal| AdminError::new(Code::NoQuorum, &refusal).hint(refusal.remedy()))
        });
        match seen {
            Ok(_) => break,
            Err(refusal) if rehearsal >= REHEARSALS => return Err(refusal),
            Err(_) => world.sleep(LOOK).await,
        }
    }
    Ok(())
}

/// Waits for missing disks of the group, if it could be mounted without them; but no longer than
/// its attribute says.
pub async fn await_disks(world: &Arc<dyn World>, name: &str) {
    let tell = |text: String| {
        world.event(Event { group: name.to_owned(), severity: Severity::Note, disk: None, text });
    };
    let began = world.monotonic();
    let mut told = false;
    loop {
        // If that cannot be told the mount reports why.
        let Ok(probe_results) = discovered(world, name).await else { return };
        let Some((missing, patience)) = missing(name, &probe_results) else { return };
        let waited = world.monotonic().saturating_sub(began);
        if missing.is_empty() {
            if told {
                tell(format!("all disks were found after {} s", waited.as_secs()));
            }
            return;
        }
        if waited >= patience {
            return;
        }
        if !told {
            told = true;
            let (seconds, disks) = (patience.as_secs(), missing.join(", "));
            tell(format!("waits up to {seconds} s for missing disks: {disks}"));
        }
        world.sleep(LOOK.min(patience - waited)).await;
    }
}
