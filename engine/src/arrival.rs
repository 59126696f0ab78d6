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
    attributes::MOUNT_WAIT,
    choose::{self, Sighting, Standing},
    event::{Event, Severity},
    group::Group,
    identify, originals,
    world::World,
};
use plinth_format::membership::DiskState;
use std::{sync::Arc, time::Duration};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// What the disks in sight say of a group. Nothing is claimed, and nothing written.
pub(crate) async fn look(world: &Arc<dyn World>, name: &str) -> Vec<Sighting> {
    let found = world.discover().await;
    let looks = found.into_iter().map(|one| async move {
        let disk = one.disk.clone().ok()?;
        let header = identify::read_header(&**world, &*disk).await?;
        let is_its = header.best.group_name == name && header.case != identify::Case::Shrunk;
        is_its.then_some((one, disk, header.best))
    });
    let candidates = futures::future::join_all(looks).await.into_iter().flatten().collect();
    let (own, _) = originals::set_aside(&**world, candidates).await;
    let sights = own.iter().map(|(one, disk, header)| identify::sight(&**world, one, &**disk, header.clone()));
    futures::future::join_all(sights).await
}

/// The disks that a mount would take OFFLINE as they are not in sight, and for how long a start waits for them. `None`: it cannot be mounted.
fn missing(name: &str, sightings: &[Sighting]) -> Option<(Vec<String>, Duration)> {
    let decision = choose::choose(name, sightings, false).ok()?;
    let is_absent = |verdict: &&choose::Verdict| verdict.standing == Standing::Absent;
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

impl Group {
    /// Whether the group could be mounted by what the disks in sight say: whoever is about to dismount it, for another engine to mount it, asks
    /// before. Nothing is claimed, and nothing written.
    ///
    /// # Errors
    /// Why not.
    pub async fn rehearse(world: &Arc<dyn World>, name: &str) -> Result<(), AdminError> {
        for rehearsal in 1.. {
            match choose::choose(name, &look(world, name).await, false) {
                Ok(_) => break,
                Err(refusal) if rehearsal >= REHEARSALS => {
                    return Err(AdminError::new(Code::NoQuorum, &refusal).hint(refusal.remedy()));
                }
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
            let Some((missing, patience)) = missing(name, &look(world, name).await) else { return };
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
}
