//! A start waits a little for disks that are late.
//!
//! After a boot, disks appear one after the other: iSCSI logs in, an array's paths come up, a service attaches images. An instance that
//! starts meanwhile may see too few of them for the mount: then it tries again, until there are enough. Or it sees enough, and not all:
//! then the mount would take the rest OFFLINE, and all that is written until they are back would have to be copied. So a start looks before
//! it mounts, and waits while a disk that was ONLINE or SYNCING is not in sight: as long as the group's attribute `mount_wait` says, which
//! is in the membership, as the catalog cannot be read before the mount. It ends at once when all are there.
//!
//! Only a start by the instance waits, after a boot or an engine's death. An operator who says MOUNT has looked at what there is.

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

/// Seconds for which a start waits for missing disks, if nothing is said: what an array's paths or an iSCSI login take.
pub const MOUNT_WAIT: u64 = 10;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// What a mount that has seen these disks of a group still needs. Nothing, if all disks of the group are there, those that are OFFLINE too, by
/// the devices that this host used: then no other can tell of another history, or be the disk of which one of these is a copy.
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

/// What a disk of a group says: its header, and its records.
pub(crate) type Member = (Header, ProbeResult);

/// Looks for the disks of a group. Nothing is claimed, and nothing written.
///
/// # Errors
/// If whoever looked has ended.
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

/// What each disk of a group that is in sight says, without copies of disks and disks that have shrunk.
///
/// # Errors
/// If whoever looked has ended.
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

/// The disks that a mount would take OFFLINE as they are not in sight, and for how long a start waits for them. `None`: it cannot be mounted.
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

/// Looks at the disks of a mounted group before it is said that it could not be mounted: their records may be written meanwhile.
const REHEARSALS: u32 = 5;

/// Whether the group could be mounted by what the disks in sight say: whoever is about to dismount it, for another engine to mount it, asks
/// before. Nothing is claimed, and nothing written.
///
/// # Errors
/// Why not.
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

/// Waits for disks of the group that are missing, if it could be mounted without them; but no longer than its attribute says.
pub async fn await_disks(world: &Arc<dyn World>, name: &str) {
    let tell = |text: String| {
        world.event(Event { group: name.to_owned(), severity: Severity::Note, disk: None, text });
    };
    let began = world.monotonic();
    let mut told = false;
    loop {
        // Where that cannot be told the mount says why.
        let Ok(probe_results) = discovered(world, name).await else { return };
        let Some((missing, patience)) = missing(name, &probe_results) else { return };
        let waited = world.monotonic().saturating_sub(began);
        if missing.is_empty() {
            if told {
                tell(format!("all disks are in sight after {} s", waited.as_secs()));
            }
            return;
        }
        if waited >= patience {
            return;
        }
        if !told {
            told = true;
            let (seconds, disks) = (patience.as_secs(), missing.join(", "));
            tell(format!("waits up to {seconds} s for disks that are not in sight: {disks}"));
        }
        world.sleep(LOOK.min(patience - waited)).await;
    }
}
