//! One history: disk groups on a host, clients that use them as databases do, and faults, all by
//! one plan.
//!
//! ```text
//!   create, mount, clients work --- fault --- fault --- ... --- make whole, check, dismount,
//!                                     |                         mount, look, check
//!            the engine dies, the power goes: mount again, clients look at everything and go on
//! ```

use crate::{
    coverage::Coverage,
    disk::SimDisk,
    executor::{Behaviour, Core, Executor, Fuse, Stuck},
    plan::Plan,
    sim_group::SimGroup,
    world::Host,
};
use plinth_engine::limits;
use plinth_workload::lock;
use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    time::Duration,
};

/// How a history ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Equal for equal histories.
    pub hash: u64,
    pub operations: u64,
    pub coverage: Coverage,
    /// The failure, if there was one.
    pub failure: Option<String>,
    /// The last lines of the story.
    pub story: Vec<String>,
    /// Simulated time.
    pub lasted: Duration,
    pub steps: u64,
}

/// A failure of what the engine promises, in words.
pub type Failure = String;

/// Operations of a history if the command line does not say.
pub const OPERATIONS: u64 = 600;

/// Runs one history to its end, printing the story as it happens or not. Must not run beside
/// another in the same process: SQLite's generator of numbers is shared.
pub fn run(plan: &Plan, tell: bool) -> Outcome {
    limits::be_small(plan.has_small_limits);
    let mut executor = Executor::new(plan.seed, tell);
    let core = Arc::clone(executor.core());
    core.set_behaviour(Behaviour {
        fails_midway: plan.fails_midway,
        has_stragglers: plan.has_stragglers,
    });
    let counts = Arc::new(Counts::default());
    let story = Story::new(&core, plan, &counts);
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| executor.run(story.tell())));
    let failure = match ended {
        Ok(Ok(Ok(()))) => None,
        Ok(Ok(Err(failure))) => Some(failure),
        Ok(Err(Stuck::Deadlock)) => {
            Some("deadlock: no task is ready, and no alarm is set".to_owned())
        }
        Ok(Err(Stuck::Endless)) => {
            Some("it did not end within the greatest number of steps".to_owned())
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(format!("panic: {}", text.unwrap_or_default()))
        }
    };
    let mut coverage = lock(&counts.coverage).clone();
    coverage.add_branches();
    let outcome = Outcome {
        hash: core.hash(),
        operations: *lock(&counts.operations),
        coverage,
        story: core.story(),
        lasted: core.now(),
        steps: core.steps(),
        failure,
    };
    if outcome.failure.is_some() {
        // The executor may be in any state.
        std::mem::forget(executor);
    }
    outcome
}

/// How much happened.
#[derive(Debug, Default)]
pub struct Counts {
    pub operations: Mutex<u64>,
    pub coverage: Mutex<Coverage>,
}

/// How an engine ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Killed,
    PowerCut,
    Dismounted,
    Forced,
}

/// All groups of the host. See the module's description.
pub struct Story {
    pub core: Arc<Core>,
    pub host: Arc<Host>,
    pub counts: Arc<Counts>,
    pub plan: Plan,
    pub sim_groups: Vec<SimGroup>,
}

const NAMES: [&str; 3] = ["DATA", "FRA", "RECO"];
/// Virtual time without an operation after which the next fault comes anyway: all clients may be
/// waiting for it.
const STALLED: Duration = Duration::from_secs(3);
/// Virtual time after which the engine has noticed a disk that fails or hangs: more than the disk
/// timeout.
const NOTICE: Duration = Duration::from_secs(8);
/// Virtual time in which an idle engine ends all its background work.
const REST: Duration = Duration::from_secs(30);

impl Story {
    fn new(core: &Arc<Core>, plan: &Plan, counts: &Arc<Counts>) -> Self {
        let host = Host::new(core);
        let sim_groups = plan
            .groups
            .iter()
            .zip(NAMES)
            .map(|(shape, name)| SimGroup::new(core, &host, name, shape))
            .collect();
        Self {
            core: Arc::clone(core),
            host,
            counts: Arc::clone(counts),
            plan: plan.clone(),
            sim_groups,
        }
    }

    async fn tell(mut self) -> Result<(), Failure> {
        for line in self.plan.to_string().lines() {
            self.core.tell(|| line.to_owned());
        }
        for sim_group in &mut self.sim_groups {
            sim_group.create().await?;
            sim_group.mount().await?;
        }
        for step in self.plan.steps.clone() {
            self.work(step.after).await?;
            self.inject_step(&step).await?;
            self.look().await?;
        }
        let left = self.plan.operations.saturating_sub(self.done());
        self.work(left).await?;
        for sim_group in &mut self.sim_groups {
            sim_group.make_whole().await?;
        }
        self.work(20).await?;
        for index in 0..self.sim_groups.len() {
            self.finish(index).await?;
        }
        *lock(&self.counts.operations) = self.done();
        Ok(())
    }

    fn done(&self) -> u64 {
        self.sim_groups.iter().map(SimGroup::done).sum()
    }

    /// Lets clients do `operations` operations, or as many as they can.
    pub async fn work(&mut self, operations: u64) -> Result<(), Failure> {
        let goal = self.done() + operations;
        self.sim_groups.iter().for_each(|sim_group| sim_group.allow(operations));
        let mut last = (self.done(), self.core.now());
        while self.done() < goal {
            self.look().await?;
            self.core.sleep(Duration::from_micros(500)).await;
            let now = self.core.now();
            if self.done() != last.0 {
                last = (self.done(), now);
            } else if now - last.1 > STALLED {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits until the engine has noticed a disk that fails.
    pub async fn notice(&self) {
        self.sim_groups.iter().for_each(|sim_group| sim_group.allow(15));
        self.core.sleep(NOTICE).await;
    }

    /// Fails if a client or an engine has seen anything wrong.
    pub async fn look(&mut self) -> Result<(), Failure> {
        for sim_group in &mut self.sim_groups {
            sim_group.failure()?;
            Box::pin(sim_group.replace_if_stopped()).await?;
            sim_group.note_redundancy();
        }
        *lock(&self.counts.operations) = self.done();
        Ok(())
    }

    /// Ends the engine of a group at a moment: all engines, if the power is cut. [`Story::up`]
    /// mounts the groups again.
    pub async fn down(&mut self, index: usize, end: End, moment: Fuse) -> Result<(), Failure> {
        match end {
            End::Killed => self.sim_groups[index].kill(moment).await,
            End::Dismounted => self.sim_groups[index].dismount(false).await,
            End::Forced => self.sim_groups[index].dismount(true).await,
            End::PowerCut => {
                let core = Arc::clone(&self.core);
                let processes: Vec<_> = self.sim_groups.iter().map(SimGroup::process).collect();
                let disks: Vec<_> =
                    self.sim_groups.iter().flat_map(|sim_group| sim_group.disks.clone()).collect();
                let cut = move || {
                    processes.iter().for_each(|process| core.kill(*process));
                    disks.iter().for_each(SimDisk::cut_power);
                };
                let process = self.sim_groups[index].process();
                if self.core.is_dead(process) {
                    cut();
                } else {
                    self.core.at_death(process, cut);
                    self.sim_groups[index].die(moment).await?;
                }
                self.sim_groups.iter_mut().for_each(|sim_group| sim_group.ended(true));
                self.host.reboot();
                self.core.tell(|| "the power is cut".to_owned());
                // The processes are cleared away before the next one begins.
                self.core.sleep(Duration::from_secs(1)).await;
                Ok(())
            }
        }
    }

    /// Mounts every group that is not mounted.
    pub async fn up(&mut self) -> Result<(), Failure> {
        for sim_group in self.sim_groups.iter_mut().filter(|sim_group| sim_group.group.is_none()) {
            sim_group.mount().await?;
        }
        Ok(())
    }

    /// The end of a group's history: all files are there and the group is in order, before and
    /// after a mount.
    async fn finish(&mut self, index: usize) -> Result<(), Failure> {
        let sim_group = &mut self.sim_groups[index];
        sim_group.pause_clients().await?;
        sim_group.verify().await?;
        self.core.sleep(REST).await;
        sim_group.check().await?;
        sim_group.check_lent().await?;
        let worked = self.core.tasks(sim_group.process());
        sim_group.dismount(false).await?;
        sim_group.mount().await?;
        sim_group.until_looked().await?;
        sim_group.pause_clients().await?;
        sim_group.check().await?;
        self.core.sleep(REST).await;
        sim_group.check_lent().await?;
        let fresh = self.core.tasks(sim_group.process());
        if worked > fresh {
            return Err(format!(
                "{}: {worked} tasks were left of {fresh} after all work had ended",
                sim_group.name
            ));
        }
        sim_group.dismount(false).await
    }
}
