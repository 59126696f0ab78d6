//! Discovery of disks, and how long it waits for devices that do not answer.
//!
//! Any device that matches the discovery string may hang, and most of them have nothing to do with
//! the group. So each is examined as soon as it has answered, concurrently with the others, and the
//! caller says what it still needs:
//!
//! ```text
//!   needs       waits at most
//!   nothing     GRACE     every disk that it wants is there, and is known to be the right one
//!   something   PATIENCE  any device that has not answered may be a wanted disk, or its twin
//! ```
//!
//! The time counts from the beginning of the discovery, for all devices together: several that hang
//! take no longer than one. It is counted, not measured: if the host is too busy to send the
//! question to a device, that device does not hang ([`Progress`](crate::world::Progress)). Devices
//! that have not answered by then are named ([`Looked::silent`]): one of them may be the missing
//! disk. The next discovery of this process need not wait for them.
//!
//! A disk that answers too late for a mount is missing; it is OFFLINE then, and comes back by
//! itself (`absent.rs`).

use crate::{
    admin::{AdminError, Code},
    world::{Disk, Found, Identity, PassedOver, Sign, Signs, Task, World},
};
use futures::{
    StreamExt,
    future::{Either, select},
    stream::FuturesUnordered,
};
use std::{collections::BTreeSet, io::ErrorKind, sync::Arc, time::Duration};

/// Healthy disks answer within milliseconds; on a very busy host, within some hundred.
const GRACE: Duration = Duration::from_secs(1);
/// Longer than the kernel's own retries on a path that comes back, and than the world waits for a
/// device to be opened, so that the world says which devices hang; less than the 30 s after which
/// programs that wait for a group that is mounted again get an error.
const PATIENCE: Duration = Duration::from_secs(12);
/// How often the caller checks how long the devices have taken.
const TICK: Duration = Duration::from_millis(100);

/// The needs of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Something,
}

/// A device that answered, and the result of examining it.
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

/// The result of a discovery. All lists are in the order of paths.
pub(crate) struct Looked<T> {
    pub seen: Vec<Seen<T>>,
    /// Devices that cannot be opened, and why. The silent ones are among them.
    pub failed: Vec<Found>,
    pub silent: Vec<Silent>,
    pub passed_over: Vec<PassedOver>,
    /// The process that looks for disks has ended: the list is not complete.
    pub is_broken: bool,
}

impl<T> Looked<T> {
    /// # Errors
    /// If the process that looks for disks has ended.
    pub fn whole(self) -> Result<Self, AdminError> {
        if self.is_broken { Err(broken()) } else { Ok(self) }
    }

    /// A sentence for each device that does not answer, each after a semicolon.
    pub fn silence(&self) -> String {
        self.silent.iter().map(|one| format!("; {}", one.sentence())).collect()
    }
}

/// The error of a statement whose discovery ended too early.
pub(crate) fn broken() -> AdminError {
    AdminError::new(Code::Io, "looking for disks failed: the process that looks at them has ended")
        .hint("give the statement again; it may have been ended for want of memory or of threads")
}

impl Silent {
    pub fn sentence(&self) -> String {
        format!("{} does not answer: {}", self.path, self.why)
    }
}

/// The next event of a discovery.
enum Next<T> {
    Sign(Option<Sign>),
    Examined(Option<(Found, Arc<dyn Disk>, Option<T>)>),
    Tick,
}

/// Discovers all devices. `examine` says what one is, or that it is of no interest; `needs` is
/// called when some have answered.
pub(crate) async fn look<'a, T: Send + 'a>(
    world: &'a dyn World,
    examine: impl Fn(Found, Arc<dyn Disk>) -> Task<'a, Option<T>>,
    needs: impl Fn(&[Seen<T>]) -> Needs,
) -> Looked<T> {
    let Signs { heard, progress } = world.look();
    let mut signs = heard.fuse();
    type Examined<T> = (Found, Arc<dyn Disk>, Option<T>);
    let mut examining: FuturesUnordered<Task<'a, Examined<T>>> = FuturesUnordered::new();
    let (mut seen, mut failed, mut passed_over) = (Vec::new(), Vec::new(), Vec::new());
    // Devices that are being opened or examined.
    let mut waiting = BTreeSet::new();
    let mut is_over = false;
    // A tick that comes late counts once.
    let (mut tick, mut ticks) = (world.sleep(TICK), 0);
    let passed =
        |ticks: u32| progress.as_ref().map_or_else(|| TICK * ticks, |progress| progress.waited());
    while !is_over || !examining.is_empty() {
        let sign = std::pin::pin!(async {
            if is_over { std::future::pending().await } else { signs.next().await }
        });
        let examined = std::pin::pin!(async {
            if examining.is_empty() { std::future::pending().await } else { examining.next().await }
        });
        let next = match select(select(sign, examined), &mut tick).await {
            Either::Left((Either::Left((sign, _)), _)) => Next::Sign(sign),
            Either::Left((Either::Right((examined, _)), _)) => Next::Examined(examined),
            Either::Right(_) => Next::Tick,
        };
        match next {
            Next::Sign(None) => is_over = true,
            Next::Sign(Some(Sign::Begun(path))) => _ = waiting.insert(path),
            Next::Sign(Some(Sign::NoDisk(path))) => _ = waiting.remove(&path),
            Next::Sign(Some(Sign::PassedOver(one))) => {
                waiting.remove(&one.path);
                passed_over.push(one);
            }
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
            Next::Examined(None) => {}
            Next::Tick => {
                ticks += 1;
                tick = world.sleep(TICK);
                let now = passed(ticks);
                if now >= PATIENCE || now >= GRACE && needs(&seen) == Needs::Nothing {
                    break;
                }
            }
        }
    }
    drop(examining);
    let waited = passed(ticks);
    failed.extend(waiting.into_iter().map(|path| {
        let hangs = if waited < PATIENCE { "" } else { ": the device hangs" };
        let text = format!("no answer within {} s{hangs}", waited.as_secs().max(1));
        let error = std::io::Error::new(ErrorKind::TimedOut, text);
        Found { identity: Identity(format!("path:{path}")), path, disk: Err(Arc::new(error)) }
    }));
    seen.sort_by(|one, other| one.found.path.cmp(&other.found.path));
    failed.sort_by(|one, other| one.path.cmp(&other.path));
    let is_broken = progress.is_some_and(|progress| progress.is_broken());
    Looked { silent: silent(&failed), seen, failed, passed_over, is_broken }
}

/// Those of the devices that do not answer.
fn silent(failed: &[Found]) -> Vec<Silent> {
    let silent = failed.iter().filter_map(|found| match &found.disk {
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            Some(Silent { path: found.path.clone(), why: error.to_string() })
        }
        _ => None,
    });
    silent.collect()
}

/// All devices that can be discovered.
///
/// # Errors
/// If the process that looks for disks has ended.
pub(crate) async fn find_paths(world: &dyn World) -> Result<Vec<Found>, AdminError> {
    let examine =
        |_: Found, _: Arc<dyn Disk>| -> Task<'_, Option<()>> { Box::pin(async { Some(()) }) };
    let looked = look(world, examine, |_| Needs::Something).await.whole()?;
    let mut found: Vec<Found> =
        looked.seen.into_iter().map(|one| one.found).chain(looked.failed).collect();
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}
