//! Looking for disks, and how long to wait for those that do not answer.
//!
//! Any device that matches the discovery string may hang, and most are none of a group's business. So each is examined as soon as it
//! has answered, beside the others, and whoever looks says after each what it still needs:
//!
//! ```text
//!   needs           waits at most
//!   nothing         GRACE: what answers within it is heard in any case, so that a copy of a disk that was found is seen, too
//!   something       SPARED: a disk is missing that can be done without
//!   what it misses  PATIENCE: without that it cannot go on
//! ```
//!
//! Time counts from the beginning of the look, for all devices together: it takes no longer where several hang. Those that have not
//! answered then are named ([`Looked::silent`]): one of them may be what is missing, and nobody can know.
//!
//! A disk that answers too late for a mount is one that is missing; it is OFFLINE then, and comes back as any other.

use crate::{
    identify::{self, Header},
    world::{Disk, Found, Identity, Sign, Task, World},
};
use futures::{
    StreamExt,
    future::{Either, select},
    stream::FuturesUnordered,
};
use plinth_format::{DiskId, GroupId};
use std::{collections::BTreeSet, io::ErrorKind, sync::Arc, time::Duration};

/// Healthy disks answer within milliseconds; on a host that is very busy, in some hundred.
const GRACE: Duration = Duration::from_secs(1);
/// As long as a disk of a mounted group may be silent by default before it is taken offline.
const SPARED: Duration = Duration::from_secs(5);
/// Longer than the kernel's own retries on a path that comes back; short of the 30 s after which programs that wait for a group that
/// is mounted again get an error.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a look still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    Nothing,
    /// Something that it can do without.
    Something,
    /// Something that it cannot do without.
    WhatItMisses,
}

impl Needs {
    fn patience(self) -> Duration {
        match self {
            Self::Nothing => GRACE,
            Self::Something => SPARED,
            Self::WhatItMisses => PATIENCE,
        }
    }
}

/// A device that answered, and what was made of it.
pub(crate) struct Seen<T> {
    pub found: Found,
    pub disk: Arc<dyn Disk>,
    pub what: T,
}

/// A device that does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Silent {
    pub path: String,
    pub why: String,
}

/// The end of a look. All in the order of paths.
pub(crate) struct Looked<T> {
    pub seen: Vec<Seen<T>>,
    /// What cannot be opened, and why. Those that are silent are among them.
    pub failed: Vec<Found>,
    pub silent: Vec<Silent>,
}

impl Silent {
    pub fn sentence(&self) -> String {
        format!("{} does not answer: {}", self.path, self.why)
    }
}

/// What comes next in a look.
enum Next<T> {
    Sign(Option<Sign>),
    Examined(Option<(Found, Arc<dyn Disk>, Option<T>)>),
    Late,
}

/// Looks at every device in sight. `examine` says what one is, or that it is of no interest; `needs` is asked when some have answered.
pub(crate) async fn look<'a, T: Send + 'a>(
    world: &'a dyn World,
    examine: impl Fn(Found, Arc<dyn Disk>) -> Task<'a, Option<T>>,
    needs: impl Fn(&[Seen<T>], &[Found]) -> Needs,
) -> Looked<T> {
    let began = world.monotonic();
    let mut signs = world.look().fuse();
    type Examined<T> = (Found, Arc<dyn Disk>, Option<T>);
    let mut examining: FuturesUnordered<Task<'a, Examined<T>>> = FuturesUnordered::new();
    let (mut seen, mut failed) = (Vec::new(), Vec::new());
    // What is looked at or examined.
    let mut waiting = BTreeSet::new();
    let mut is_over = false;
    while !is_over || !examining.is_empty() {
        let passed = world.monotonic().saturating_sub(began);
        let patience = if passed < GRACE { GRACE } else { needs(&seen, &failed).patience() };
        let left = patience.saturating_sub(passed);
        if left.is_zero() {
            break;
        }
        let sign = std::pin::pin!(async { if is_over { std::future::pending().await } else { signs.next().await } });
        let examined = std::pin::pin!(async {
            if examining.is_empty() { std::future::pending().await } else { examining.next().await }
        });
        let next = match select(select(sign, examined), world.sleep(left)).await {
            Either::Left((Either::Left((sign, _)), _)) => Next::Sign(sign),
            Either::Left((Either::Right((examined, _)), _)) => Next::Examined(examined),
            Either::Right(_) => Next::Late,
        };
        match next {
            Next::Sign(None) => is_over = true,
            Next::Sign(Some(Sign::Begun(path))) => _ = waiting.insert(path),
            Next::Sign(Some(Sign::NoDisk(path))) => _ = waiting.remove(&path),
            Next::Sign(Some(Sign::Answered(found))) => match found.disk.clone() {
                Ok(disk) => {
                    waiting.insert(found.path.clone());
                    let what = examine(found.clone(), Arc::clone(&disk));
                    examining.push(Box::pin(async { (found, disk, what.await) }));
                }
                Err(_) => {
                    waiting.remove(&found.path);
                    failed.push(found);
                }
            },
            Next::Examined(Some((found, disk, what))) => {
                waiting.remove(&found.path);
                seen.extend(what.map(|what| Seen { found, disk, what }));
            }
            Next::Examined(None) | Next::Late => {}
        }
    }
    drop(examining);
    let waited = world.monotonic().saturating_sub(began).as_secs().max(1);
    failed.extend(waiting.into_iter().map(|path| {
        let error = std::io::Error::new(ErrorKind::TimedOut, format!("no answer within {waited} s: the device hangs"));
        Found { identity: Identity(format!("path:{path}")), path, disk: Err(Arc::new(error)) }
    }));
    seen.sort_by(|one, other| one.found.path.cmp(&other.found.path));
    failed.sort_by(|one, other| one.path.cmp(&other.path));
    let silent = failed.iter().filter_map(|found| match &found.disk {
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            Some(Silent { path: found.path.clone(), why: error.to_string() })
        }
        _ => None,
    });
    Looked { silent: silent.collect(), seen, failed }
}

/// Devices whose headers say that they are this disk of a group. Two that are no two paths to one: neither is to be used.
pub(crate) async fn find_disk(world: &dyn World, group: GroupId, disk: DiskId) -> Looked<Header> {
    let examine = |_: Found, one: Arc<dyn Disk>| -> Task<'_, Option<Header>> {
        Box::pin(async move {
            let header = identify::read_header(world, &*one).await?;
            (header.best.disk == disk && header.best.group == group).then_some(header)
        })
    };
    let needs = |seen: &[Seen<Header>], _: &[Found]| if seen.is_empty() { Needs::WhatItMisses } else { Needs::Nothing };
    look(world, examine, needs).await
}

/// All devices in sight. Those that are named are waited for.
pub(crate) async fn find_paths(world: &dyn World, named: &BTreeSet<&str>) -> Vec<Found> {
    let examine = |_: Found, _: Arc<dyn Disk>| -> Task<'_, Option<()>> { Box::pin(async { Some(()) }) };
    let needs = |seen: &[Seen<()>], failed: &[Found]| {
        let heard = || seen.iter().map(|one| &one.found).chain(failed);
        let is_heard = |path: &&str| heard().any(|found| found.path == **path);
        if named.iter().all(is_heard) { Needs::Nothing } else { Needs::WhatItMisses }
    };
    let looked = look(world, examine, needs).await;
    let mut found: Vec<Found> = looked.seen.into_iter().map(|one| one.found).chain(looked.failed).collect();
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}
