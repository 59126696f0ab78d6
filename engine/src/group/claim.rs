//! Claiming the disks of a group, for a mount and for DROP DISKGROUP FORCE.
//!
//!   1. Look at every discovered disk whose header names the group. A disk that has shrunk is not
//!      used (`set_shrunk_aside`), nor is a device that is a copy by the notes of this host
//!      (`originals.rs`).
//!   2. Claim each device once; a second path to it needs no claim. If another engine holds it, or
//!      its last I/O, the claim waits a while, and then fails as a whole (R1). Read the records of
//!      each claimed disk again: until then another engine may have written (`claim_each`).
//!   3. Another device with the id of a disk that was not claimed is a copy, and is not used
//!      (`leave_copies_out`).
//!
//! A disk that cannot be used for another reason than R1 counts as missing.

use crate::{
    admin::{AdminError, Code},
    disk::{
        identify::{self, ProbeResult},
        look::{self, Seen, Silent},
        originals,
    },
    membership::arrival::{self, look_for_members},
    planted::{self, Bug},
    world::{Disk, Identity, World, is_held},
};
use plinth_format::header::DiskHeader;
use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

type Result<T> = std::result::Result<T, AdminError>;

/// How long a mount waits for disks that another engine, or its last I/O, holds.
const CLAIM_WAIT: Duration = Duration::from_secs(5);

/// The claimed disks of a group, and their records.
pub(crate) struct Claimed {
    pub probe_results: Vec<ProbeResult>,
    pub disks: Vec<Arc<dyn Disk>>,
    pub unusable: Vec<Unusable>,
    /// Sentences about copies of disks, which are not used.
    copies: Vec<String>,
    /// Devices that do not answer, of whatever group.
    pub silent: Vec<Silent>,
}

/// A disk of the group that cannot be used: it counts as missing.
pub(crate) struct Unusable {
    pub name: String,
    pub why: String,
}

impl Claimed {
    /// A sentence for each discovered disk that is not used, and for each device that does not
    /// answer.
    pub fn reasons(&self) -> impl Iterator<Item = String> + '_ {
        let unusable = self.unusable.iter().map(|disk| disk.why.clone());
        unusable.chain(self.copies.iter().cloned()).chain(self.silent.iter().map(Silent::sentence))
    }
}

/// A device that was not claimed.
struct NotClaimed {
    identity: Identity,
    header: DiskHeader,
    error: io::Error,
}

/// Claims the discovered disks of a group.
///
/// # Errors
/// If another engine holds one of them, or its last I/O (R1); if the process that looks for disks
/// has ended.
pub(crate) async fn claim_members(world: &Arc<dyn World>, name: &str) -> Result<Claimed> {
    let looked = look_for_members(world.as_ref(), name).await?;
    let (found, unusable) = set_shrunk_aside(looked.seen);
    let (found, copies) = originals::set_aside(&**world, found).await;
    let mut claimed = Claimed {
        probe_results: Vec::new(),
        disks: Vec::new(),
        unusable,
        copies,
        silent: looked.silent,
    };
    let lost = claim_each(world, name, found, &mut claimed).await?;
    leave_copies_out(&mut claimed, &lost);
    claimed.unusable.extend(lost.into_iter().map(|NotClaimed { header, error, .. }| {
        let why = format!("disk {} is not used: {error}", header.name);
        Unusable { name: header.name, why }
    }));
    Ok(claimed)
}

/// Step 1: separates disks that have shrunk from those that can be claimed.
fn set_shrunk_aside(
    seen: Vec<Seen<arrival::Member>>,
) -> (Vec<originals::Candidate>, Vec<Unusable>) {
    let (mut found, mut unusable) = (Vec::new(), Vec::new());
    for Seen { found: one, disk, what: (header, _) } in seen {
        let is_whole = header.case != identify::Case::Shrunk;
        let header = header.best;
        if is_whole {
            found.push((one, disk, header));
            continue;
        }
        let (path, size, needed) = (&one.path, disk.size(), header.layout.size());
        let why = format!(
            "{path} has shrunk: {size} bytes, disk {} needs {needed}; it is not used",
            header.name
        );
        unusable.push(Unusable { name: header.name, why });
    }
    (found, unusable)
}

/// Step 2: claims the disks, and looks at each again. Returns the devices that were not claimed.
async fn claim_each(
    world: &Arc<dyn World>,
    name: &str,
    found: Vec<originals::Candidate>,
    claimed: &mut Claimed,
) -> Result<Vec<NotClaimed>> {
    // By device: whether it is claimed, or why it cannot be.
    let mut tried: BTreeMap<Identity, (DiskHeader, Option<io::Error>)> = BTreeMap::new();
    let mut waited = Duration::ZERO;
    for (one, disk, header) in found {
        // A second path to a device cannot be claimed as well, and need not be; but it may be the
        // one that works.
        if !matches!(tried.get(&one.identity), Some((_, None))) {
            let trouble = claim(world, name, &header, &*disk, &mut waited).await?;
            let is_new = !tried.contains_key(&one.identity);
            let has_failed = trouble.is_some();
            if is_new || !has_failed {
                tried.insert(one.identity.clone(), (header.clone(), trouble));
            }
            if has_failed {
                continue;
            }
        }
        match identify::read_header(&**world, &*disk).await {
            Some(header) => {
                claimed
                    .probe_results
                    .push(identify::probe(&**world, &one, &*disk, header.best).await);
                claimed.disks.push(disk);
            }
            None => {
                let why = format!(
                    "disk {} is not used: {} could be read, and now it cannot",
                    header.name, one.path
                );
                claimed.unusable.push(Unusable { name: header.name, why });
            }
        }
    }
    let lost = tried.into_iter().filter_map(|(identity, (header, trouble))| {
        Some(NotClaimed { identity, header, error: trouble? })
    });
    Ok(lost.collect())
}

/// Step 3: another device with the id of a disk that was not claimed is a copy.
fn leave_copies_out(claimed: &mut Claimed, lost: &[NotClaimed]) {
    let is_copy = |probe_result: &ProbeResult| {
        lost.iter().any(|lost| {
            lost.header.disk == probe_result.header.disk && lost.identity != probe_result.identity
        })
    };
    for at in (0..claimed.probe_results.len())
        .rev()
        .filter(|at| is_copy(&claimed.probe_results[*at]))
        .collect::<Vec<_>>()
    {
        let probe_result = claimed.probe_results.remove(at);
        claimed.disks.remove(at);
        let why = format!(
            "{} carries the id of disk {} as well; it is not used",
            probe_result.path, probe_result.header.name
        );
        claimed.unusable.push(Unusable { name: probe_result.header.name, why });
    }
}

/// Claims a disk. A disk that is held is waited for, [`CLAIM_WAIT`] for all disks together. Returns
/// why it cannot be claimed otherwise.
async fn claim(
    world: &Arc<dyn World>,
    group: &str,
    header: &DiskHeader,
    disk: &dyn Disk,
    waited: &mut Duration,
) -> Result<Option<io::Error>> {
    const STEP: Duration = Duration::from_millis(20);
    while let Err(error) = disk.claim() {
        if planted::has(Bug::ClaimIgnored) {
            break;
        }
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Err(look::broken());
        }
        if !is_held(&error) {
            return Ok(Some(error));
        }
        if *waited >= CLAIM_WAIT {
            let holder = disk.holder().map_or_else(String::new, |holder| format!(": {holder}"));
            let text = format!("disk group {group}, disk {}: {error}{holder}", header.name);
            return Err(AdminError::new(Code::HeldElsewhere, text).hint(
                "the group is mounted already, or I/O of an engine that died is still in flight; try again when it has ended",
            ));
        }
        world.sleep(STEP).await;
        *waited += STEP;
    }
    Ok(None)
}
