//! Rebalance: passes over all extents until every disk holds its share, and those that leave nothing.
//!
//! A pass plans from what is there (`balance.rs`), looks at the extents in the order of their ids, and moves what the plan says
//! (`mover.rs`), so many at a time as the *power* says. What was begun by statements is not kept as a list of moves: who leaves is
//! in the membership, that a rebalance is under way is in the catalog, and a pass that was cut short is begun again from what is
//! there then. So a statement that comes while one runs changes the goal, and what has moved and would go on is moved once; and a
//! crash repeats no more than what was on its way.
//!
//! First comes what restores: mirrors on disks that leave and cannot be read, of the extents with fewest others before the rest. Then
//! extents get as many mirrors as are wanted (`convert.rs`).
//!
//! What is in AUs that a disk is to give up (`resize.rs`) moves in passes of its own, which look at nothing else: to where the plan sends
//! something from that disk, and else to other AUs of it.
//!
//! Where it is asked for, or a disk rotates, what lies beyond the AUs that a disk would need if it had no gaps moves into these at last: it is
//! *compact* then.
//!
//! When no pass finds anything to move, the disks that leave are let go: their catalog mirrors move, what they held is free and read by
//! nobody, a membership without them is recorded, and their headers say FORMER. Then they can be pulled.
//!
//! A rebalance ends: each pass moves something, or finds out that nothing can be moved, and says why; and when what is left is of files that came and
//! went meanwhile, that is enough.

use crate::{
    admin::{AdminError, Code, Operation, Order, Phases},
    catalog::{attributes, on_disks},
    disk::member::Member,
    error::FileError,
    event::Severity,
    extent::Extent,
    movement::{Movement, progress::Progress, resize::Resized},
    planted::{self, Bug},
    reached::{self, Mark},
    space::{
        balance::{Load, Move, Plan, Role, TooSmall},
        mirror_sets::mirrors_wanted,
    },
    sync::lock::{AsyncMutex, Mutex, MutexGuard},
};
use futures::{
    channel::oneshot,
    future::{self, Either},
};
use plinth_format::{
    DiskNumber, Layout,
    membership::{DiskState, MemberDisk, Membership},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

/// The highest power: mirrors on their way at once.
pub const POWER_MAX: u32 = 1024;
/// The power of a statement that names none.
pub const POWER_DEFAULT: u32 = 8;

/// Of so many mirrors that move one copies at least, or as many as there are disks.
const COPIES: usize = 8;

/// Mirrors that one task moves at once: their checksums are verified by one processor. And tasks, at most.
const MOVES_PER_TASK: usize = 8;
const TASKS_MAX: usize = 32;

/// What is left of all mirrors when they are even enough: one in so many.
const EVEN_ENOUGH: u64 = 100;
/// Passes after which it is enough in any case, if nobody leaves.
const PASSES_MAX: u32 = 8;
/// Passes that move nothing of what they should, before it is said that it cannot be moved.
const TRIES: u32 = 4;
/// How long somebody may still hold what a disk that leaves has, before that is looked at again; and how often.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSES: u32 = 600;
/// How often it is looked at again whether the catalog has found room elsewhere.
const PAUSES_FOR_ROOM: u32 = 20;

/// What operators want, and how far it is.
#[derive(Debug, Default)]
pub struct Rebalance {
    orders: Mutex<Orders>,
    /// Held by who gives an order: what it does not say is as it was, and both are stored before they hold.
    ordering: AsyncMutex<()>,
    /// So many of the mirrors that are on their way copy at the same time: what is read is written while the processor's cache still
    /// has it, and no disk is asked for more than it is good for.
    gate: Mutex<Option<Arc<Semaphore>>>,
}

#[derive(Debug, Clone, Default)]
struct Orders {
    power: u32,
    phases: Phases,
    /// Grows with each statement: a pass that was begun for an earlier one ends.
    asked: u64,
    /// A task makes passes.
    is_running: bool,
    /// In mirrors.
    progress: Option<Progress>,
    /// The same of what has a name of its own: `REBUILD`, `COMPACT`, in the order in which they began.
    stages: Vec<(&'static str, Progress)>,
}

impl Orders {
    /// The stages that run have come to an end.
    fn leave_stages(&mut self, state: &'static str) {
        let running = self.stages.iter_mut().filter(|(_, progress)| progress.state == "RUN");
        running.for_each(|(_, progress)| progress.state = state);
    }
}

impl Rebalance {
    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock()
    }

    /// How often something was asked for.
    #[cfg(test)]
    pub(crate) fn asked(&self) -> u64 {
        self.lock().asked
    }

    /// What copies wait for.
    pub fn gate(&self) -> Option<Arc<Semaphore>> {
        self.gate.lock().clone()
    }

    pub(crate) fn open_gate(&self, copies: usize) {
        *self.gate.lock() = Some(Arc::new(Semaphore::new(copies)));
    }

    fn progress(&self, change: impl FnOnce(&mut Progress)) {
        if let Some(progress) = &mut self.lock().progress {
            change(progress);
        }
    }

    /// A stage begins, or goes on, with so many mirrors to do; `None`, what has no name of its own.
    fn enter(&self, stage: Option<&'static str>, now: Duration, work: u64) {
        let mut orders = self.lock();
        orders.leave_stages("DONE");
        let Some(stage) = stage else { return };
        if !orders.stages.iter().any(|(name, _)| *name == stage) {
            orders.stages.push((stage, Progress::begin(now)));
        }
        for (_, progress) in orders.stages.iter_mut().filter(|(name, _)| *name == stage) {
            progress.state = "RUN";
            progress.work = progress.so_far + work;
        }
    }

    /// One mirror more is where it should be.
    fn advance(&self, now: Duration, bytes: u64) {
        let mut orders = self.lock();
        let orders = &mut *orders;
        let stages = orders
            .stages
            .iter_mut()
            .map(|(_, progress)| progress)
            .filter(|progress| progress.state == "RUN");
        orders.progress.iter_mut().chain(stages).for_each(|progress| progress.advance(now, bytes));
    }

    /// What `V$ASM_OPERATION` shows of parts of it.
    pub fn stages(&self, now: Duration) -> Vec<Operation> {
        let orders = self.lock();
        orders
            .stages
            .iter()
            .map(|(stage, progress)| progress.operation(stage, orders.power, now))
            .collect()
    }

    /// The order for one that shall do what it did before, or begin: where it is paused it stays so.
    fn as_before(&self) -> Order {
        let orders = self.lock();
        Order { power: orders.is_running.then_some(orders.power), phases: None }
    }

    /// Whether one has stopped, with something left to do.
    pub fn has_stopped(&self) -> bool {
        let orders = self.lock();
        !orders.is_running
            && orders.progress.as_ref().is_some_and(|progress| progress.state == "ERRS")
    }

    /// What `V$ASM_OPERATION` shows of it.
    pub fn operation(&self, now: Duration) -> Option<Operation> {
        let orders = self.lock();
        let mut operation = orders.progress.as_ref()?.operation("REBALANCE", orders.power, now);
        if orders.power == 0 && operation.state == "RUN" {
            "WAIT".clone_into(&mut operation.state);
        }
        Some(operation)
    }
}

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
    /// Why one did not move: the last reason.
    trouble: Mutex<Option<FileError>>,
}

/// What a pass is for.
enum Focus {
    /// Only mirrors on these disks, which leave and cannot be read, of extents that have no more than so many others that can.
    Restore { lost: Vec<DiskNumber>, left: usize },
    /// Only how many mirrors each extent has.
    Convert,
    /// What the plan says.
    Balance,
    /// Only what is in barred AUs.
    Barred,
    /// On these disks, what is in this AU or behind it goes before it.
    Compact(BTreeMap<DiskNumber, u32>),
}

/// What is done with one mirror of an extent.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// It goes from a disk to a disk, perhaps the same one; there before an AU, if one is given.
    Move { from: DiskNumber, to: DiskNumber, before: Option<u32> },
    /// It is made, wherever there is room.
    Add,
    /// It is taken, wherever there is most in use.
    Remove,
}

/// An extent, and what is done with its mirrors.
type Steps = (Arc<Extent>, Vec<Step>);

impl Focus {
    fn name(&self) -> &'static str {
        match self {
            Self::Restore { .. } => "restore",
            Self::Convert => "convert",
            Self::Balance => "balance",
            Self::Barred => "resize",
            Self::Compact(_) => "compact",
        }
    }

    /// What ASM calls a pass that does this, where that is none of `REBALANCE`.
    fn stage(&self) -> Option<&'static str> {
        match self {
            Self::Restore { .. } => Some("REBUILD"),
            Self::Compact(_) => Some("COMPACT"),
            Self::Convert { .. } | Self::Balance | Self::Barred => None,
        }
    }
}

/// Why no pass can go on.
enum Stuck {
    /// The group is being dismounted: the next mount goes on.
    Stopping,
    Because(String),
}

impl From<FileError> for Stuck {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Dismounted => Self::Stopping,
            other => Self::Because(other.to_string()),
        }
    }
}

impl From<TooSmall> for Stuck {
    fn from(error: TooSmall) -> Self {
        Self::Because(error.to_string())
    }
}

impl Movement {
    /// Begins a rebalance, or gives the one under way another goal or power. Without a power it keeps the one it has; one that is paused goes on
    /// with the default.
    ///
    /// # Errors
    /// If the catalog does not take that it is under way.
    pub async fn rebalance(self: &Arc<Self>, order: impl Into<Order>) -> Result<(), AdminError> {
        let order = order.into();
        let _one_at_a_time = match planted::has(Bug::OrdersSideBySide) {
            true => None,
            false => Some(self.rebalance.ordering.lock().await),
        };
        self.rebalance_in_turn(order).await
    }

    /// As [`Self::rebalance`]: the one under way does what it did before, or one begins. Where it is paused it stays
    /// so.
    ///
    /// # Errors
    /// If the catalog does not take that it is under way.
    pub(crate) async fn rebalance_as_before(self: &Arc<Self>) -> Result<(), AdminError> {
        let _one_at_a_time = self.rebalance.ordering.lock().await;
        self.rebalance_in_turn(self.rebalance.as_before()).await
    }

    async fn rebalance_in_turn(
        self: &Arc<Self>,
        Order { power, phases }: Order,
    ) -> Result<(), AdminError> {
        let now = {
            let orders = self.rebalance.lock();
            let power =
                if orders.is_running && orders.power > 0 { orders.power } else { POWER_DEFAULT };
            (power, if orders.is_running { orders.phases } else { Phases::default() })
        };
        let (power, phases) = (power.unwrap_or(now.0), phases.unwrap_or(now.1));
        // Before the catalog says so: who ends one that was asked for earlier must see it.
        self.rebalance.lock().asked += 1;
        let begun = Some((power, phases));
        let stored = self
            .catalog
            .release(true, move |connection| attributes::store_rebalance(connection, begun));
        stored.await.map_err(|error| AdminError::new(Code::Io, error))?;
        self.resume_rebalance(power, phases);
        Ok(())
    }

    /// As [`Self::rebalance`], where the catalog says already that one is under way.
    pub(crate) fn resume_rebalance(self: &Arc<Self>, power: u32, phases: Phases) {
        {
            let mut orders = self.rebalance.lock();
            orders.power = power.min(POWER_MAX);
            orders.phases = phases;
            orders.asked += 1;
            if std::mem::replace(&mut orders.is_running, true) {
                return;
            }
            orders.progress = Some(Progress::begin(self.world.monotonic()));
            orders.stages.clear();
        }
        let group = Arc::clone(self);
        self.world.spawn("rebalance", Box::pin(async move { group.rebalance_to_the_end().await }));
    }

    async fn rebalance_to_the_end(self: &Arc<Self>) {
        self.tell(Severity::Note, None, "rebalance begins".to_owned());
        loop {
            let asked = self.rebalance.lock().asked;
            let ended = self.make_passes().await;
            if matches!(ended, Err(Stuck::Stopping))
                && !self.is_stopping()
                && !self.voters.is_closing()
            {
                // The dismount that it ended for has failed.
                self.world.sleep(PAUSE).await;
                continue;
            }
            let mut orders = self.rebalance.lock();
            let is_late = orders.asked != asked && !planted::has(Bug::LateStatementLost);
            if is_late && !matches!(ended, Err(Stuck::Stopping)) {
                continue;
            }
            orders.is_running = false;
            orders.leave_stages(if matches!(ended, Err(Stuck::Stopping)) {
                "WAIT"
            } else {
                "DONE"
            });
            let Some(progress) = &mut orders.progress else { return };
            let text = match &ended {
                Ok(()) => {
                    progress.state = "DONE";
                    format!(
                        "rebalance ended: {} mirrors moved, {} bytes copied",
                        progress.so_far, progress.bytes
                    )
                }
                Err(Stuck::Stopping) => {
                    progress.state = "WAIT";
                    "rebalance pauses: the disk group is being dismounted".to_owned()
                }
                Err(Stuck::Because(reason)) => {
                    progress.state = "ERRS";
                    reached::at(Mark::RebalanceStuck);
                    progress.error = Some(reason.clone());
                    format!(
                        "rebalance stops: {reason}. ALTER DISKGROUP {} REBALANCE goes on",
                        self.name
                    )
                }
            };
            drop(orders);
            let severity = if matches!(ended, Err(Stuck::Because(_))) {
                Severity::Alarm
            } else {
                Severity::Note
            };
            self.tell(severity, None, text);
            return;
        }
    }

    async fn make_passes(self: &Arc<Self>) -> Result<(), Stuck> {
        let (mut in_vain, mut pauses, mut passes, mut turns) = (0, 0, 0, 0);
        let mut last_asked = 0;
        let mut compacted = None;
        loop {
            if self.is_stopping() {
                return Err(Stuck::Stopping);
            }
            let Orders { power, asked, phases, .. } = self.rebalance.lock().clone();
            if power == 0 {
                // Nothing moves, and how much would is told.
                if let Ok(plan) = self.plan_moves() {
                    let work = self.work_of(
                        &plan,
                        self.reserved_mirrors(),
                        self.mirrors_to_convert(),
                        phases,
                    );
                    self.rebalance.progress(|progress| progress.work = progress.so_far + work);
                }
                self.world.sleep(PAUSE).await;
                continue;
            }
            if std::mem::replace(&mut last_asked, asked) != asked {
                (in_vain, passes, turns) = (0, 0, 0);
            }
            let (reserved_for_shrink, odd) = (self.reserved_mirrors(), self.mirrors_to_convert());
            if odd == 0 {
                self.finish_conversion().await?;
            }
            let waits = match if reserved_for_shrink == 0 {
                self.finish_resizes().await?
            } else {
                Resized::Nothing
            } {
                Resized::Nothing => false,
                // What is even is another question now.
                Resized::Done => {
                    passes = 0;
                    continue;
                }
                Resized::Waits => true,
            };
            let plan = match self.plan_moves() {
                // To take mirrors may be the remedy.
                Err(_) if odd > 0 && in_vain == 0 => Plan::none(),
                // A disk that grows adds room: it does not stop for want of it.
                Err(_) if turns < TRIES && self.turn_to_stages().await? => {
                    turns += 1;
                    continue;
                }
                plan => plan?,
            };
            // Where nothing of that can move, others have to make room for it.
            let makes_room = reserved_for_shrink + odd > 0 && in_vain % 2 == 1 && plan.work() > 0;
            let work = match makes_room {
                true => odd + plan.work().max(reserved_for_shrink),
                false => self.work_of(&plan, reserved_for_shrink, odd, phases),
            };
            self.rebalance.progress(|progress| progress.work = progress.so_far + work);
            if work > 0 && (reserved_for_shrink + odd > 0 || !self.is_even_enough(work, passes)) {
                let focus = match self.most_exposed() {
                    Some(focus) if in_vain == 0 => focus,
                    _ if makes_room => Focus::Balance,
                    _ if odd > 0 => Focus::Convert,
                    _ if reserved_for_shrink > 0 => Focus::Barred,
                    _ => Focus::Balance,
                };
                let text = format!(
                    "rebalance, pass {} ({}): {work} mirrors to move",
                    passes + 1,
                    focus.name()
                );
                self.tell(Severity::Note, None, text);
                let lost = if let Focus::Restore { lost, .. } = &focus {
                    self.mirrors_on(lost)
                } else {
                    0
                };
                self.rebalance.enter(focus.stage(), self.world.monotonic(), lost);
                let (moved, trouble) = self.carry_out(plan, focus, asked, power).await?;
                passes += 1;
                // That there is room now says nothing yet.
                in_vain = if moved == 0 || makes_room { in_vain + 1 } else { 0 };
                if makes_room && moved > 0 {
                    reached::at(Mark::RoomMade);
                }
                if in_vain >= TRIES && moved == 0 {
                    self.let_go_of_leaving().await?;
                    let reason = trouble.map(|error| error.to_string());
                    let reason = reason.or_else(|| (odd > 0).then(|| self.why_not_converted()));
                    let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                    return Err(Stuck::Because(format!(
                        "{work} mirrors should move, and none can{why}"
                    )));
                }
                if moved == 0 {
                    // A file that is being made is in the plan, and not among the extents.
                    self.world.sleep(PAUSE).await;
                }
            } else if waits {
                pauses += 1;
                if pauses == PAUSES {
                    let why = match self.store.in_the_way().and_then(|disk| self.members.get(&disk))
                    {
                        Some(member) => format!(
                            "the catalog has a mirror where disk {} is to give up space, and there is no room for it elsewhere: add a \
                             disk, or remove files",
                            member.name()
                        ),
                        None => "what is in the way of a resize stays in use".to_owned(),
                    };
                    return Err(Stuck::Because(why));
                }
                self.world.sleep(PAUSE).await;
            } else if self.let_go_of_leaving().await? {
                // Last of all: where there is no room for that, all else is done.
                if self.begin_stage().await? {
                    (passes, pauses) = (0, 0);
                    continue;
                }
                if compacted != Some(asked) {
                    compacted = Some(asked);
                    self.make_compact(plan, phases, asked, power).await?;
                    continue;
                }
                self.end_rebalance(asked).await?;
                return Ok(());
            } else if pauses >= PAUSES_FOR_ROOM
                && let Some(disk) = self.disk_of_the_catalog()
            {
                return Err(Stuck::Because(format!(
                    "the catalog has a mirror on disk {disk} that is being dropped, and there is no room for it in another \
                     failure group: add a disk, or remove files"
                )));
            } else if pauses == PAUSES {
                return Err(Stuck::Because(
                    "what is on a disk that is being dropped stays in use".to_owned(),
                ));
            } else {
                pauses += 1;
                self.world.sleep(PAUSE).await;
            }
        }
    }

    /// How many mirrors have to move, be made or be taken.
    fn work_of(&self, plan: &Plan, reserved_for_shrink: u64, odd: u64, phases: Phases) -> u64 {
        // What has to leave where it is counts for what has to go anyway.
        let balances =
            phases.balance || self.voters.current().disks.iter().any(|disk| disk.leaving);
        odd + if balances { plan.work().max(reserved_for_shrink) } else { reserved_for_shrink }
    }

    /// A disk that leaves and has a mirror of the catalog that can go nowhere else.
    fn disk_of_the_catalog(&self) -> Option<String> {
        let membership = self.voters.current();
        let needed =
            membership.disks.iter().find(|disk| disk.leaving && self.store.needs(disk.number));
        needed.map(|disk| disk.name.clone())
    }

    /// Whether what is left to move is of files that came and went during the passes before: there would never be an end of that.
    fn is_even_enough(&self, work: u64, passes: u32) -> bool {
        let membership = self.voters.current();
        let mut leaving = membership.disks.iter().filter(|disk| disk.leaving);
        if passes < 2 || leaving.any(|disk| self.mirror_sets.has(disk.number)) {
            return false;
        }
        let held: u64 =
            self.mirror_sets.counts().iter().map(|(set, count)| set.len() as u64 * count).sum();
        work * EVEN_ENOUGH <= held || passes >= PASSES_MAX
    }

    /// Nothing is under way any more, unless somebody has asked for more meanwhile.
    pub(crate) async fn end_rebalance(&self, asked: u64) -> Result<(), FileError> {
        let rebalance = Arc::clone(&self.rebalance);
        let end = move |connection: &rusqlite::Connection| {
            let is_over = rebalance.lock().asked == asked || planted::has(Bug::NoteErased);
            if is_over { attributes::store_rebalance(connection, None) } else { Ok(()) }
        };
        self.catalog.release(true, end).await.map(|_| ())
    }

    /// The group is not dismounted after all: a rebalance that paused for that goes on.
    pub(crate) fn rebalance_again(self: &Arc<Self>) {
        let paused = {
            let orders = self.rebalance.lock();
            let paused = !orders.is_running
                && orders.progress.as_ref().is_some_and(|progress| progress.state == "WAIT");
            paused.then_some((orders.power, orders.phases))
        };
        if let Some((power, phases)) = paused.filter(|_| !planted::has(Bug::RebalanceNotAgain)) {
            self.resume_rebalance(power, phases);
        }
    }

    /// The least that must move, given who leaves and who is there.
    pub(crate) fn plan_moves(&self) -> Result<Plan, TooSmall> {
        self.plan_for(&self.voters.current())
    }

    /// The same, if the membership were this one.
    pub(crate) fn plan_for(&self, membership: &Membership) -> Result<Plan, TooSmall> {
        let mut sets: BTreeMap<Vec<DiskNumber>, u64> = BTreeMap::new();
        for (mut set, own, count) in self.mirror_sets.wishes() {
            // What a file has beyond what can be goes where it leaves, and nowhere else.
            let wanted = if own == 0 { set.len() } else { mirrors_wanted(own, membership) };
            while set.len() > wanted
                && let Some(place) = set
                    .iter()
                    .position(|disk| membership.disk(*disk).is_none_or(|disk| disk.leaving))
            {
                set.remove(place);
            }
            *sets.entry(set).or_default() += count;
        }
        let sets: Vec<(Vec<DiskNumber>, u64)> = sets.into_iter().collect();
        let mut held: BTreeMap<DiskNumber, u64> = BTreeMap::new();
        for (set, count) in &sets {
            set.iter().for_each(|disk| *held.entry(*disk).or_default() += count);
        }
        let mut fixed: BTreeMap<DiskNumber, u32> = BTreeMap::new();
        on_disks::units(membership)
            .iter()
            .for_each(|(disk, _)| *fixed.entry(*disk).or_default() += 1);
        // What is kept for a mirror that the catalog lacks no extent gets.
        let kept = |space: &crate::space::Space, disk| space.unowned(disk) - space.available(disk);
        {
            let space = self.space();
            space.disks().for_each(|disk| *fixed.entry(disk).or_default() += kept(&space, disk));
        }
        let units = |disk: &MemberDisk| {
            let Ok(layout) = Layout::new(disk.size, self.au_size) else { return 0 };
            // While it is resized, what both layouts have.
            let target = disk.target.filter(|_| !planted::has(Bug::ShrinkNotCounted));
            let target =
                target.and_then(|target| Layout::new(target, self.au_size).ok()).unwrap_or(layout);
            u32::try_from(layout.data_units().filter(|au| target.is_data(*au)).count())
                .unwrap_or(u32::MAX)
        };
        let loads: Vec<Load> = membership
            .disks
            .iter()
            .filter(|disk| !disk.quorum)
            .map(|disk| Load {
                disk: disk.number,
                failure_group: disk.failure_group.clone(),
                units: units(disk),
                fixed: fixed.get(&disk.number).copied().unwrap_or(0),
                held: held
                    .get(&disk.number)
                    .map_or(0, |held| u32::try_from(*held).unwrap_or(u32::MAX)),
                role: match disk.state {
                    _ if disk.leaving => Role::Leaves,
                    DiskState::Online => Role::Stays,
                    DiskState::Offline | DiskState::Syncing => Role::Keeps,
                },
            })
            .collect();
        let placement = self.placement();
        let are_partners = |one: DiskNumber, other: DiskNumber| {
            placement.partners(one).any(|partner| partner == other)
        };
        Plan::new(&loads, sets, are_partners)
    }

    /// One pass. Returns how many mirrors were moved, and why one was not.
    async fn carry_out(
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
        self.rebalance.open_gate(disks.max(power / COPIES).min(power));
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
        // Places that mirrors have left become free beside that, and make room for what comes. It is never given up half way.
        let discards = async {
            while let Either::Left(_) = future::select(self.world.sleep(PAUSE), &mut end).await {
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

    /// Moves what a pass says, so many at once, until there is nothing more.
    async fn make_moves(&self, pass: &Pass, at_once: usize) {
        let moves = (0..at_once).map(|_| async {
            while let Some(made) = self.make_next_move(pass).await {
                match made {
                    Ok(count) => _ = pass.moved.fetch_add(count, Ordering::Relaxed),
                    // The others go on; what did not move is planned again.
                    Err(error) => {
                        *pass.trouble.lock() = Some(error);
                    }
                }
            }
        });
        future::join_all(moves).await;
    }

    /// Moves what of the next extent moves. What is on its way goes on while it is looked for: that holds pieces for which others wait.
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

    /// The next extent of a pass of which something moves; from where to where.
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

    /// Which mirrors of an extent move from where to where in this pass.
    fn steps_of(&self, scan: &mut Scan, extent: &Extent) -> Vec<Step> {
        let disks: Vec<DiskNumber> = extent.disks().collect();
        let step = |one: &Move| Step::Move { from: disks[one.mirror], to: one.to, before: None };
        let within = |(disk, before)| Step::Move { from: disk, to: disk, before };
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
            Focus::Barred => {
                let reserved_for_shrink: Vec<DiskNumber> = {
                    let space = self.space();
                    let mirrors = extent.mirrors().into_iter();
                    mirrors
                        .filter(|one| space.is_reserved_for_shrink(one.disk, one.au))
                        .map(|one| one.disk)
                        .collect()
                };
                if reserved_for_shrink.is_empty() {
                    return Vec::new();
                }
                let mut steps: Vec<Step> =
                    scan.plan.next_from(&disks, &reserved_for_shrink).iter().map(step).collect();
                let goes =
                    |step: &Step, disk| matches!(step, Step::Move { from, .. } if *from == disk);
                let stay = reserved_for_shrink
                    .into_iter()
                    .filter(|disk| !steps.iter().any(|step| goes(step, *disk)));
                let stay: Vec<_> = stay.map(|disk| within((disk, None))).collect();
                steps.extend(stay);
                steps
            }
            Focus::Compact(limits) => {
                let limit = |disk: DiskNumber| limits.get(&disk).copied();
                let behind = extent
                    .mirrors()
                    .into_iter()
                    .filter(|one| limit(one.disk).is_some_and(|limit| one.au >= limit));
                behind.map(|one| within((one.disk, limit(one.disk)))).collect()
            }
        }
    }

    /// Fills the gaps of disks with what lies at their ends.
    async fn make_compact(
        self: &Arc<Self>,
        plan: Plan,
        phases: Phases,
        asked: u64,
        power: u32,
    ) -> Result<(), FileError> {
        let membership = self.voters.current();
        let is_wanted = |member: &Member| {
            phases.compact.unwrap_or_else(|| member.disk().is_some_and(|disk| disk.rotates()))
                && member.is_readable()
        };
        let mut limits = BTreeMap::new();
        let mut work = 0;
        for disk in membership.disks.iter().filter(|disk| !disk.quorum) {
            if !self.members.get(&disk.number).is_some_and(|member| is_wanted(member)) {
                continue;
            }
            let (limit, behind) = self.space().compact_end(disk.number);
            limits.insert(disk.number, limit);
            work += u64::from(behind);
        }
        if work == 0 {
            return Ok(());
        }
        self.rebalance.progress(|progress| progress.work = progress.so_far + work);
        self.tell(
            Severity::Note,
            None,
            format!("rebalance, compact: {work} mirrors at most to move"),
        );
        let focus = Focus::Compact(limits);
        reached::at(Mark::Compacted);
        self.rebalance.enter(focus.stage(), self.world.monotonic(), work);
        let (moved, trouble) = self.carry_out(plan, focus, asked, power).await?;
        self.rebalance.enter(None, self.world.monotonic(), 0);
        if let Some(error) = trouble {
            self.tell(
                Severity::Note,
                None,
                format!("rebalance, compact: {moved} mirrors moved, not all: {error}"),
            );
        }
        Ok(())
    }

    /// Mirrors of extents on disks.
    fn mirrors_on(&self, disks: &[DiskNumber]) -> u64 {
        let sets = self.mirror_sets.counts();
        sets.iter()
            .map(|(set, count)| {
                set.iter().filter(|disk| disks.contains(disk)).count() as u64 * count
            })
            .sum()
    }

    /// Mirrors of extents in AUs that a disk is to give up, and can.
    fn reserved_mirrors(&self) -> u64 {
        let membership = self.voters.current();
        let catalog = on_disks::units(&membership);
        let space = self.space();
        let of = |disk: DiskNumber| {
            let fixed = catalog
                .iter()
                .filter(|(on, au)| *on == disk && space.is_reserved_for_shrink(disk, *au))
                .count() as u64;
            u64::from(space.reserved_in_use(disk)).saturating_sub(fixed)
        };
        self.resizing().into_iter().map(of).sum()
    }

    /// How many of these disks can be read.
    fn readable(&self, disks: &[DiskNumber]) -> usize {
        disks
            .iter()
            .filter(|disk| self.members.get(disk).is_some_and(|member| member.is_readable()))
            .count()
    }

    /// The pass for those mirrors on disks that leave and cannot be read whose extents have fewest others. `None`: there are none.
    fn most_exposed(&self) -> Option<Focus> {
        let membership = self.voters.current();
        let is_lost = |disk: &&MemberDisk| disk.leaving && self.readable(&[disk.number]) == 0;
        let lost: Vec<DiskNumber> =
            membership.disks.iter().filter(is_lost).map(|disk| disk.number).collect();
        let sets = self.mirror_sets.wishes();
        // One that has more than are wanted loses that one instead.
        let exposed = sets.iter().filter(|(set, own, _)| {
            let kept = set.iter().filter(|disk| !lost.contains(disk)).count();
            kept < set.len() && kept < mirrors_wanted(*own, &membership)
        });
        let left = exposed.map(|(set, ..)| self.readable(set)).min()?;
        Some(Focus::Restore { lost, left })
    }

    /// Does what is to be done with the mirrors of one extent, one after the other. Returns with how many.
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
