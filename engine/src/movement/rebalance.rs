//! Rebalance: passes over all extents until every disk holds its share, and every goal is reached.
//!
//! Statements record goals and wake the loop (`orders.rs`, `goals.rs`). No list of moves is kept:
//! the goals are in the membership and in the catalog, and a pass that was cut short is begun again
//! from what is there then. So a statement that comes while the loop runs changes the goal, and
//! what has moved and would move on is moved once; and a crash repeats no more than the moves that
//! were in flight.
//!
//! One round of the loop:
//!
//!   1. Look how many mirrors are left for each goal, and finish those goals that have none and
//!      need not wait for others.
//!   2. Plan the least that must move (`plan.rs`).
//!   3. If something is left that must move, or is not even enough, make a pass (`passes.rs`): to
//!      restore first, then for the first goal with something left. Where nothing of that can move,
//!      for lack of room, every other pass moves what the plan says instead.
//!   4. Else finish the remaining goals, in order. One that waits for something is looked at again
//!      after a pause.
//!   5. Fill the gaps of disks, once for each order, and remove the record that a rebalance is in
//!      flight.
//!
//! A rebalance ends: each pass moves something, or finds out that nothing can be moved, and says
//! why; and what is left of files that came and went meanwhile is even enough.

use crate::{
    admin::OperationState,
    error::FileError,
    event::Severity,
    movement::{
        Movement,
        goals::{Finished, Goal, Left},
        orders::Orders,
        passes::Focus,
    },
    planted::{self, Bug},
    reached::{self, Mark},
    space::balance::{Plan, TooSmall},
};
use plinth_format::DiskNumber;
use std::{sync::Arc, time::Duration};

/// The disks are even enough when one mirror in this many is left to move.
const EVEN_ENOUGH: u64 = 100;
/// Passes after which they are even enough in any case, if no disk leaves.
const PASSES_MAX: u32 = 8;
/// Passes that move nothing of what they should, before the rebalance stops with an error.
const TRIES: u32 = 4;
/// Between two looks at something that is still in use.
const PAUSE: Duration = Duration::from_millis(100);

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

/// How often the loop has tried, so that it ends.
#[derive(Debug, Default)]
struct Tries {
    /// The order that these are for.
    asked: u64,
    passes: u32,
    /// Passes one after the other that moved nothing, or only made room.
    in_vain: u32,
    /// How often a goal was turned into one that adds room.
    turns: u32,
    /// Rounds that only waited.
    pauses: u32,
    /// The order whose gaps were filled.
    compacted: Option<u64>,
}

impl Tries {
    /// Another order has tries of its own.
    fn begin(&mut self, asked: u64) {
        if std::mem::replace(&mut self.asked, asked) != asked {
            (self.in_vain, self.passes, self.turns) = (0, 0, 0);
        }
    }

    /// A pass has ended.
    fn passed(&mut self, moved: u64, makes_room: bool) {
        self.passes += 1;
        // Room that was made may still be of no use.
        self.in_vain = if moved == 0 || makes_room { self.in_vain + 1 } else { 0 };
    }
}

/// The result of a round of the loop.
enum Next {
    Pass(NextPass),
    /// Something has changed: another round.
    Again,
    Pause,
    End,
}

/// A pass that is to be made.
struct NextPass {
    plan: Plan,
    focus: Focus,
    left: Left,
    /// It makes room for goals of which nothing can move.
    makes_room: bool,
}

impl Movement {
    /// Starts the loop in a task of its own.
    pub(super) fn start_rebalance(self: &Arc<Self>) {
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
            if self.note_end(asked, &ended) {
                return;
            }
        }
    }

    /// Shows how the loop ended. False: another order came at the last moment, so it goes on.
    fn note_end(&self, asked: u64, ended: &Result<(), Stuck>) -> bool {
        let mut orders = self.rebalance.lock();
        let is_late = orders.asked != asked && !planted::has(Bug::LateStatementLost);
        if is_late && !matches!(ended, Err(Stuck::Stopping)) {
            return false;
        }
        orders.is_running = false;
        orders.leave_stages(if matches!(ended, Err(Stuck::Stopping)) {
            OperationState::Wait
        } else {
            OperationState::Done
        });
        let Some(progress) = &mut orders.progress else { return true };
        let text = match ended {
            Ok(()) => {
                progress.state = OperationState::Done;
                format!(
                    "rebalance ended: {} mirrors moved, {} bytes copied",
                    progress.so_far, progress.bytes
                )
            }
            Err(Stuck::Stopping) => {
                progress.state = OperationState::Wait;
                "rebalance pauses: the disk group is being dismounted".to_owned()
            }
            Err(Stuck::Because(reason)) => {
                progress.state = OperationState::Errs;
                reached::at(Mark::RebalanceStuck);
                progress.error = Some(reason.clone());
                format!(
                    "rebalance stops: {reason}. ALTER DISKGROUP {} REBALANCE goes on",
                    self.name
                )
            }
        };
        drop(orders);
        let severity =
            if matches!(ended, Err(Stuck::Because(_))) { Severity::Alarm } else { Severity::Note };
        self.tell(severity, None, text);
        true
    }

    async fn make_passes(self: &Arc<Self>) -> Result<(), Stuck> {
        let mut tries = Tries::default();
        loop {
            if self.is_stopping() {
                return Err(Stuck::Stopping);
            }
            let order = self.rebalance.lock().clone();
            if order.power == 0 {
                self.show_work(&order);
                self.world.sleep(PAUSE).await;
                continue;
            }
            tries.begin(order.asked);
            match self.next_round(&order, &mut tries).await? {
                Next::Pass(pass) => self.make_pass(pass, &order, &mut tries).await?,
                Next::Again => {}
                Next::Pause => self.world.sleep(PAUSE).await,
                Next::End => return Ok(()),
            }
        }
    }

    /// It is paused: nothing moves, but how much would is shown.
    fn show_work(&self, order: &Orders) {
        if let Ok(plan) = self.plan_moves() {
            let mut left = self.left();
            left.balance = if self.is_balance_wanted(order.phases) { plan.work() } else { 0 };
            let work = left.work();
            self.rebalance.progress(|progress| progress.work = progress.so_far + work);
        }
    }

    /// Steps 1 to 5, but for the pass itself.
    async fn next_round(
        self: &Arc<Self>,
        order: &Orders,
        tries: &mut Tries,
    ) -> Result<Next, Stuck> {
        let mut left = self.left();
        let mut waiting = None;
        for goal in Goal::WHILE_OTHERS_MOVE.into_iter().filter(|goal| left.of(*goal) == 0) {
            match self.finish(goal).await? {
                Finished::Done => {}
                Finished::Changed => {
                    tries.passes = 0;
                    return Ok(Next::Again);
                }
                Finished::Waits => waiting = Some(goal),
            }
        }
        let plan = match self.plan_moves() {
            Err(_) if left.may_free() && tries.in_vain == 0 => Plan::none(),
            Err(_) if tries.turns < TRIES && self.add_room().await? => {
                tries.turns += 1;
                return Ok(Next::Again);
            }
            plan => plan?,
        };
        let makes_room = left.required() > 0 && tries.in_vain % 2 == 1 && plan.work() > 0;
        let is_wanted = makes_room || self.is_balance_wanted(order.phases);
        left.balance = if is_wanted { plan.work() } else { 0 };
        let work = left.work();
        self.rebalance.progress(|progress| progress.work = progress.so_far + work);
        if work > 0 && (left.required() > 0 || !self.is_even_enough(work, tries.passes)) {
            let focus = match self.most_exposed() {
                Some(focus) if tries.in_vain == 0 => focus,
                _ if makes_room => Goal::Balance.focus(),
                _ => left.first().focus(),
            };
            return Ok(Next::Pass(NextPass { plan, focus, left, makes_room }));
        }
        if let Some(goal) = waiting {
            return self.pause_for(goal, tries);
        }
        self.finish_rest(plan, order, tries).await
    }

    /// Steps 4 and 5.
    async fn finish_rest(
        self: &Arc<Self>,
        plan: Plan,
        order: &Orders,
        tries: &mut Tries,
    ) -> Result<Next, Stuck> {
        for goal in Goal::AFTER_ALL_PASSES {
            match self.finish(goal).await? {
                Finished::Done => {}
                Finished::Changed => {
                    (tries.passes, tries.pauses) = (0, 0);
                    return Ok(Next::Again);
                }
                Finished::Waits => return self.pause_for(goal, tries),
            }
        }
        if tries.compacted != Some(order.asked) {
            tries.compacted = Some(order.asked);
            self.make_compact(plan, order).await?;
            return Ok(Next::Again);
        }
        self.end_rebalance(order.asked).await?;
        Ok(Next::End)
    }

    fn pause_for(&self, goal: Goal, tries: &mut Tries) -> Result<Next, Stuck> {
        if let Some(why) = self.why_given_up(goal, tries.pauses) {
            return Err(Stuck::Because(why));
        }
        tries.pauses += 1;
        Ok(Next::Pause)
    }

    async fn make_pass(
        self: &Arc<Self>,
        NextPass { plan, focus, left, makes_room }: NextPass,
        order: &Orders,
        tries: &mut Tries,
    ) -> Result<(), Stuck> {
        let work = left.work();
        let text = format!(
            "rebalance, pass {} ({}): {work} mirrors to move",
            tries.passes + 1,
            focus.name()
        );
        self.tell(Severity::Note, None, text);
        let lost = self.mirrors_on(focus.lost());
        self.rebalance.enter(focus.stage(), self.world.monotonic(), lost);
        let (moved, trouble) = self.carry_out(plan, focus, order.asked, order.power).await?;
        tries.passed(moved, makes_room);
        if makes_room && moved > 0 {
            reached::at(Mark::RoomMade);
        }
        if moved > 0 {
            return Ok(());
        }
        if tries.in_vain >= TRIES {
            // A disk that leaves and holds nothing any more goes all the same.
            self.finish(Goal::Drop).await?;
            let reason = trouble.map(|error| error.to_string());
            let reason = reason.or_else(|| self.why_not(&left));
            let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            return Err(Stuck::Because(format!("{work} mirrors should move, and none can{why}")));
        }
        // A file that is being made is in the plan, and not among the extents.
        self.world.sleep(PAUSE).await;
        Ok(())
    }

    /// Whether no pass is worth it any more: mirrors of files that came and went during the passes
    /// before would be left for ever.
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

    /// Step 5: fills the gaps of disks with what lies at their ends.
    async fn make_compact(self: &Arc<Self>, plan: Plan, order: &Orders) -> Result<(), FileError> {
        let Some((focus, work)) = self.gaps(order.phases) else { return Ok(()) };
        self.rebalance.progress(|progress| progress.work = progress.so_far + work);
        self.tell(
            Severity::Note,
            None,
            format!("rebalance, compact: {work} mirrors at most to move"),
        );
        reached::at(Mark::Compacted);
        self.rebalance.enter(focus.stage(), self.world.monotonic(), work);
        let (moved, trouble) = self.carry_out(plan, focus, order.asked, order.power).await?;
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

    /// Mirrors of extents on these disks.
    fn mirrors_on(&self, disks: &[DiskNumber]) -> u64 {
        let sets = self.mirror_sets.counts();
        sets.iter()
            .map(|(set, count)| {
                set.iter().filter(|disk| disks.contains(disk)).count() as u64 * count
            })
            .sum()
    }
}
