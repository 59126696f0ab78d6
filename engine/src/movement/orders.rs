//! Rebalance orders: what operators want of a rebalance, and how far it is.
//!
//! A statement that needs mirrors to move records its goal first (`goals.rs`: the membership says
//! which disks leave, their target sizes, the wanted redundancy). Then it calls
//! [`Movement::pursue_goals`]:
//!
//!   1. Store in the catalog that a rebalance is in flight, with its power and phases. A mount that
//!      finds this goes on with it.
//!   2. Wake the loop: the one that runs sees that `asked` has grown and plans anew; where none
//!      runs, one is started.
//!
//! The loop (`rebalance.rs`) is known here only as the function that starts it, so that a statement
//! depends on its order, and not on what carries it out.

use crate::{
    admin::{AdminError, Operation, OperationPass, OperationState, Order, Phases},
    catalog::attributes,
    error::FileError,
    movement::{Movement, progress::Progress},
    planted::{self, Bug},
    sync::lock::{AsyncMutex, Mutex, MutexGuard},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

/// The highest power: mirrors that move at once.
pub const POWER_MAX: u32 = 1024;
/// The power of a statement that names none, unless the operator has set another one.
pub const POWER_DEFAULT: u32 = 8;

/// The order that holds, and the state of its rebalance.
#[derive(Debug)]
pub struct Rebalance {
    orders: Mutex<Orders>,
    /// Held while an order is given: what it leaves open stays as it was, and both are stored
    /// before they take effect.
    ordering: AsyncMutex<()>,
    /// Limits how many of the moving mirrors copy at the same time: the bytes are written while the
    /// processor's cache still has them, and no disk gets more I/O than it can serve.
    copy_permits: Mutex<Option<Arc<Semaphore>>>,
    /// The power of an order that names none: `asm_power_limit`. 0: such a rebalance waits.
    power_default: AtomicU32,
    /// Starts the loop in a task of its own.
    start: fn(&Arc<Movement>),
}

/// The order that holds, and the progress of its rebalance.
#[derive(Debug, Clone, Default)]
pub(super) struct Orders {
    pub(super) power: u32,
    pub(super) phases: Phases,
    /// Grows with each statement: a pass that was begun for an earlier one ends.
    pub(super) asked: u64,
    /// A task makes passes.
    pub(super) is_running: bool,
    /// In mirrors.
    pub(super) progress: Option<Progress>,
    /// The progress of each stage with a name of its own, `REBUILD` and `COMPACT`, in the order in
    /// which they began.
    stages: Vec<(OperationPass, Progress)>,
}

impl Orders {
    /// The running stages have ended, in this state.
    pub(super) fn leave_stages(&mut self, state: OperationState) {
        let running =
            self.stages.iter_mut().filter(|(_, progress)| progress.state == OperationState::Run);
        running.for_each(|(_, progress)| progress.state = state);
    }
}

impl Rebalance {
    pub(crate) fn new(start: fn(&Arc<Movement>)) -> Self {
        Self {
            orders: Mutex::default(),
            ordering: AsyncMutex::new(()),
            copy_permits: Mutex::default(),
            power_default: AtomicU32::new(POWER_DEFAULT),
            start,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock()
    }

    /// How many orders were given.
    #[cfg(test)]
    pub(crate) fn asked(&self) -> u64 {
        self.lock().asked
    }

    /// The permits that copies wait for. `None`: no pass has begun since the mount.
    pub fn copy_permits(&self) -> Option<Arc<Semaphore>> {
        self.copy_permits.lock().clone()
    }

    pub(crate) fn set_copy_permits(&self, copies: usize) {
        *self.copy_permits.lock() = Some(Arc::new(Semaphore::new(copies)));
    }

    pub(super) fn progress(&self, change: impl FnOnce(&mut Progress)) {
        if let Some(progress) = &mut self.lock().progress {
            change(progress);
        }
    }

    /// A stage begins, or goes on, with `work` mirrors to do. `None`: a stage without a name of its
    /// own.
    pub(super) fn enter(&self, stage: Option<OperationPass>, now: Duration, work: u64) {
        let mut orders = self.lock();
        orders.leave_stages(OperationState::Done);
        let Some(stage) = stage else { return };
        if !orders.stages.iter().any(|(name, _)| *name == stage) {
            orders.stages.push((stage, Progress::begin(now)));
        }
        for (_, progress) in orders.stages.iter_mut().filter(|(name, _)| *name == stage) {
            progress.state = OperationState::Run;
            progress.work = progress.so_far + work;
        }
    }

    /// One mirror more is where it should be.
    pub(super) fn advance(&self, now: Duration, bytes: u64) {
        let mut orders = self.lock();
        let orders = &mut *orders;
        let stages = orders
            .stages
            .iter_mut()
            .map(|(_, progress)| progress)
            .filter(|progress| progress.state == OperationState::Run);
        orders.progress.iter_mut().chain(stages).for_each(|progress| progress.advance(now, bytes));
    }

    /// The rows that `V$ASM_OPERATION` shows of its stages.
    pub fn stages(&self, now: Duration) -> Vec<Operation> {
        let orders = self.lock();
        orders
            .stages
            .iter()
            .map(|(stage, progress)| progress.operation(*stage, orders.power, now))
            .collect()
    }

    /// The order to do what the last one said, or to begin. A paused rebalance stays paused.
    fn as_before(&self) -> Order {
        let orders = self.lock();
        Order { power: orders.is_running.then_some(orders.power), phases: None }
    }

    /// Whether a rebalance has stopped with something left to do.
    pub fn has_stopped(&self) -> bool {
        let orders = self.lock();
        !orders.is_running
            && orders
                .progress
                .as_ref()
                .is_some_and(|progress| progress.state == OperationState::Errs)
    }

    /// The row that `V$ASM_OPERATION` shows of it.
    pub fn operation(&self, now: Duration) -> Option<Operation> {
        let orders = self.lock();
        let mut operation =
            orders.progress.as_ref()?.operation(OperationPass::Rebalance, orders.power, now);
        if orders.power == 0 && operation.state == OperationState::Run {
            operation.state = OperationState::Wait;
        }
        Some(operation)
    }
}

impl Movement {
    /// Sets the power of orders that name none, from now on.
    pub fn set_power_default(&self, power: u32) {
        self.rebalance.power_default.store(power.min(POWER_MAX), Ordering::Relaxed);
    }

    /// `REBALANCE`: begins a rebalance, or gives the running one another goal or power. Without a
    /// power it keeps the one it has; a paused one goes on with the default.
    ///
    /// # Errors
    /// If the catalog does not take that it is in flight.
    pub async fn rebalance(self: &Arc<Self>, order: impl Into<Order>) -> Result<(), AdminError> {
        self.pursue_goals(order.into()).await
    }

    /// A goal was recorded, or the order changes: stores that a rebalance is in flight, and wakes
    /// the loop.
    ///
    /// # Errors
    /// If the catalog does not take that it is in flight.
    pub(super) async fn pursue_goals(self: &Arc<Self>, order: Order) -> Result<(), AdminError> {
        let _one_at_a_time = match planted::has(Bug::OrdersSideBySide) {
            true => None,
            false => Some(self.rebalance.ordering.lock().await),
        };
        self.give_order(order).await
    }

    /// As [`Self::pursue_goals`], with the order that holds. A paused rebalance stays paused.
    ///
    /// # Errors
    /// If the catalog does not take that it is in flight.
    pub(super) async fn pursue_goals_as_before(self: &Arc<Self>) -> Result<(), AdminError> {
        let _one_at_a_time = self.rebalance.ordering.lock().await;
        self.give_order(self.rebalance.as_before()).await
    }

    /// For a caller that holds `ordering`.
    async fn give_order(
        self: &Arc<Self>,
        Order { power, phases }: Order,
    ) -> Result<(), AdminError> {
        let now = {
            let orders = self.rebalance.lock();
            let power = if orders.is_running && orders.power > 0 {
                orders.power
            } else {
                self.rebalance.power_default.load(Ordering::Relaxed)
            };
            (power, if orders.is_running { orders.phases } else { Phases::default() })
        };
        let (power, phases) = (power.unwrap_or(now.0), phases.unwrap_or(now.1));
        // Before the catalog says so: the end of an earlier rebalance must see it, and keep the
        // record.
        self.rebalance.lock().asked += 1;
        let begun = Some((power, phases));
        let stored = self
            .catalog
            .release(true, move |connection| attributes::store_rebalance(connection, begun));
        stored.await?;
        self.resume_rebalance(power, phases);
        Ok(())
    }

    /// As [`Self::rebalance`], where the catalog says already that one is in flight.
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
        (self.rebalance.start)(self);
    }

    /// Removes the record that a rebalance is in flight, unless another order came meanwhile.
    pub(crate) async fn end_rebalance(&self, asked: u64) -> Result<(), FileError> {
        let rebalance = Arc::clone(&self.rebalance);
        let end = move |connection: &rusqlite::Connection| {
            let is_over = rebalance.lock().asked == asked || planted::has(Bug::NoteErased);
            if is_over { attributes::store_rebalance(connection, None) } else { Ok(()) }
        };
        self.catalog.release(true, end).await.map(|_| ())
    }

    /// A dismount has failed: a rebalance that paused for it goes on.
    pub(crate) fn rebalance_again(self: &Arc<Self>) {
        let paused = {
            let orders = self.rebalance.lock();
            let paused = !orders.is_running
                && orders
                    .progress
                    .as_ref()
                    .is_some_and(|progress| progress.state == OperationState::Wait);
            paused.then_some((orders.power, orders.phases))
        };
        if let Some((power, phases)) = paused.filter(|_| !planted::has(Bug::RebalanceNotAgain)) {
            self.resume_rebalance(power, phases);
        }
    }
}
