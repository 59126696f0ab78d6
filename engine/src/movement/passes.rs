//! A pass: one look at all extents, in the order of their ids, that moves what a plan says.
//!
//! Several tasks carry it out together. They share the scan, which finds the next extent of which
//! something moves; the moves themselves (`mover.rs`) go on side by side, as many as the power
//! says. A pass ends early when another order comes or the group is dismounted.

use crate::{
    admin::OperationPass,
    error::FileError,
    extent::Extent,
    movement::Movement,
    space::balance::{Move, Plan},
    sync::lock::{AsyncMutex, Mutex},
};
use futures::{
    channel::oneshot,
    future::{self, Either},
};
use plinth_format::{Au, DiskNumber};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Of this many mirrors that move, one copies at least; or as many as there are disks.
const COPIES: usize = 8;

/// Mirrors that one task moves at once: their checksums are verified by one processor. And tasks,
/// at most.
const MOVES_PER_TASK: usize = 8;
const TASKS_MAX: usize = 32;

/// Between two collections of the AUs that mirrors have left, while a pass runs.
const COLLECT: Duration = Duration::from_millis(100);

/// A pass, as far as it is.
struct Scan {
    plan: Plan,
    asked: u64,
    focus: Focus,
    /// The next id to look at, behind those of the batch.
    from: u64,
    batch: VecDeque<Arc<Extent>>,
}

/// A pass that several tasks carry out together.
struct Pass {
    /// `None`: it cannot go on.
    scan: AsyncMutex<Option<Scan>>,
    asked: u64,
    moved: AtomicU64,
    /// Why a mirror did not move: the last reason.
    trouble: Mutex<Option<FileError>>,
}

/// The mirrors that a pass looks at.
pub(super) enum Focus {
    /// Only mirrors on these disks, which leave and cannot be read, of extents that have at most
    /// `left` others that can.
    Restore { lost: Vec<DiskNumber>, left: usize },
    /// Only how many mirrors each extent has.
    Convert,
    /// Those that the plan names.
    Balance,
    /// Only mirrors in AUs that are reserved for a shrink.
    Reserved,
    /// On these disks, mirrors in this AU or behind it move to an AU before it.
    Compact(BTreeMap<DiskNumber, Au>),
}

/// A step with one mirror of an extent.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// It moves from a disk to a disk, perhaps the same one; there to an AU before `before`, if
    /// that is given.
    Move { from: DiskNumber, to: DiskNumber, before: Option<Au> },
    /// It is made, wherever there is room.
    Add,
    /// It is taken, wherever most is in use.
    Remove,
}

/// An extent, and the steps with its mirrors.
type Steps = (Arc<Extent>, Vec<Step>);

impl Step {
    /// The mirror on a disk moves within it.
    fn within(disk: DiskNumber, before: Option<Au>) -> Self {
        Self::Move { from: disk, to: disk, before }
    }
}

impl Focus {
    /// As messages call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Restore { .. } => "restore",
            Self::Convert => "convert",
            Self::Balance => "balance",
            Self::Reserved => "resize",
            Self::Compact(_) => "compact",
        }
    }

    /// The stage that ASM shows for a pass with this focus, where that is not `REBALANCE`.
    pub fn stage(&self) -> Option<OperationPass> {
        match self {
            Self::Restore { .. } => Some(OperationPass::Rebuild),
            Self::Compact(_) => Some(OperationPass::Compact),
            Self::Convert | Self::Balance | Self::Reserved => None,
        }
    }

    /// The disks whose mirrors it restores.
    pub fn lost(&self) -> &[DiskNumber] {
        if let Self::Restore { lost, .. } = self { lost } else { &[] }
    }
}

impl Movement {
    /// One pass. Returns how many mirrors were moved, and why one was not.
    pub(super) async fn carry_out(
        self: &Arc<Self>,
        plan: Plan,
        focus: Focus,
        asked: u64,
        power: u32,
    ) -> Result<(u64, Option<FileError>), FileError> {
        let scan = Scan { plan, asked, focus, from: 0, batch: VecDeque::new() };
        let pass = Arc::new(Pass {
            scan: AsyncMutex::new(Some(scan)),
            asked,
            moved: AtomicU64::new(0),
            trouble: Mutex::new(None),
        });
        let power = power.max(1) as usize;
        let disks = self.voters.current().disks.iter().filter(|disk| !disk.quorum).count();
        self.rebalance.set_copy_permits(disks.max(power / COPIES).min(power));
        let tasks = power.div_ceil(MOVES_PER_TASK).min(TASKS_MAX);
        let share = |task: usize| power / tasks + usize::from(task < power % tasks);
        let mut others = Vec::new();
        for task in 1..tasks {
            let (sender, receiver) = oneshot::channel();
            others.push(receiver);
            let (group, pass, share) = (Arc::clone(self), Arc::clone(&pass), share(task));
            let moves = async move {
                group.make_moves(&pass, share).await;
                let _ = sender.send(());
            };
            self.world.spawn("rebalance", Box::pin(moves));
        }
        let (ended, mut end) = oneshot::channel::<()>();
        let moves = async {
            self.make_moves(&pass, share(0)).await;
            for other in others {
                let _ = other.await;
            }
            drop(ended);
        };
        // AUs that mirrors have left become free meanwhile, and make room for the next ones. A
        // collection is never cut short.
        let discards = async {
            while let Either::Left(_) = future::select(self.world.sleep(COLLECT), &mut end).await {
                self.reclaim(true).await?;
            }
            Ok::<(), FileError>(())
        };
        let ((), discarded) = future::join(moves, discards).await;
        discarded?;
        self.reclaim(true).await?;
        let trouble = pass.trouble.lock().take();
        match trouble {
            Some(error @ (FileError::Dismounted | FileError::CatalogStopped(_))) => Err(error),
            trouble => Ok((pass.moved.load(Ordering::Relaxed), trouble)),
        }
    }

    /// Makes the moves of a pass, `at_once` at a time, until there are no more.
    async fn make_moves(&self, pass: &Pass, at_once: usize) {
        let moves = (0..at_once).map(|_| async {
            while let Some(made) = self.make_next_move(pass).await {
                match made {
                    Ok(count) => _ = pass.moved.fetch_add(count, Ordering::Relaxed),
                    // The others go on; a mirror that did not move is planned again.
                    Err(error) => {
                        *pass.trouble.lock() = Some(error);
                    }
                }
            }
        });
        future::join_all(moves).await;
    }

    /// Makes the moves of the next extent. Moves in flight go on while it is searched: they hold
    /// pieces that clients wait for.
    async fn make_next_move(&self, pass: &Pass) -> Option<Result<u64, FileError>> {
        let mut scanning = pass.scan.lock().await;
        let (extent, steps) = match self.next_to_move(scanning.as_mut()?).await {
            Ok(found) => found?,
            Err(error) => {
                *scanning = None;
                return Some(Err(error));
            }
        };
        let is_off = || self.is_stopping() || self.rebalance.lock().asked != pass.asked;
        let _moving = self.throttle.admit(&*self.world, is_off).await;
        drop(scanning);
        Some(self.move_mirrors(extent, steps).await)
    }

    /// The next extent of a pass that has a mirror to move, with its steps.
    async fn next_to_move(&self, scan: &mut Scan) -> Result<Option<Steps>, FileError> {
        loop {
            if self.is_stopping() || self.rebalance.lock().asked != scan.asked {
                return Ok(None);
            }
            let Some(extent) = scan.batch.pop_front() else {
                let Some((extents, next)) = self.some_alive(scan.from).await? else {
                    return Ok(None);
                };
                (scan.batch, scan.from) = (extents.into(), next);
                continue;
            };
            let steps = self.steps_of(scan, &extent);
            if !steps.is_empty() {
                return Ok(Some((extent, steps)));
            }
        }
    }

    /// The steps with the mirrors of an extent in this pass.
    fn steps_of(&self, scan: &mut Scan, extent: &Extent) -> Vec<Step> {
        let disks: Vec<DiskNumber> = extent.disks().collect();
        let step = |one: &Move| Step::Move { from: disks[one.mirror], to: one.to, before: None };
        match &scan.focus {
            Focus::Restore { lost, left } => {
                if self.readable(&disks) > *left || disks.iter().all(|disk| !lost.contains(disk)) {
                    return Vec::new();
                }
                scan.plan.next_from(&disks, lost).iter().map(step).collect()
            }
            Focus::Convert => {
                let wanted = self.wanted_for(extent);
                let step = if disks.len() < wanted { Step::Add } else { Step::Remove };
                vec![step; disks.len().abs_diff(wanted)]
            }
            Focus::Balance => scan.plan.next(&disks).iter().map(step).collect(),
            Focus::Reserved => {
                let reserved = self.reserved_of(extent);
                if reserved.is_empty() {
                    return Vec::new();
                }
                let mut steps: Vec<Step> =
                    scan.plan.next_from(&disks, &reserved).iter().map(step).collect();
                let moves =
                    |step: &Step, disk| matches!(step, Step::Move { from, .. } if *from == disk);
                let stay = reserved
                    .into_iter()
                    .filter(|disk| !steps.iter().any(|step| moves(step, *disk)));
                let stay: Vec<_> = stay.map(|disk| Step::within(disk, None)).collect();
                steps.extend(stay);
                steps
            }
            Focus::Compact(limits) => {
                let limit = |disk: DiskNumber| limits.get(&disk).copied();
                let behind = extent
                    .mirrors()
                    .into_iter()
                    .filter(|one| limit(one.disk).is_some_and(|limit| one.au >= limit));
                behind.map(|one| Step::within(one.disk, limit(one.disk))).collect()
            }
        }
    }

    /// The disks on which a mirror of an extent is in an AU that is reserved for a shrink.
    fn reserved_of(&self, extent: &Extent) -> Vec<DiskNumber> {
        let space = self.space();
        let mirrors = extent.mirrors().into_iter();
        mirrors
            .filter(|one| space.is_reserved_for_shrink(one.disk, one.au))
            .map(|one| one.disk)
            .collect()
    }

    /// Carries out the steps with the mirrors of one extent, one after the other. Returns how many
    /// were made.
    async fn move_mirrors(&self, extent: Arc<Extent>, steps: Vec<Step>) -> Result<u64, FileError> {
        let mut moved = 0;
        for step in steps {
            let made = match step {
                Step::Move { from, to, before } => match self.members.get(&to) {
                    Some(to) => self.move_mirror(&extent, from, to, before).await?,
                    None => None,
                },
                Step::Add => self.give_mirror(&extent).await?,
                Step::Remove => self.take_mirror(&extent).await?.then_some(0),
            };
            if let Some(bytes) = made {
                moved += 1;
                let now = self.world.monotonic();
                self.rebalance.advance(now, bytes);
            }
        }
        Ok(moved)
    }
}
