//! One history: a group, clients that use it as databases do, and misfortune, all by one seed.
//!
//! ```text
//!   shape of the group -> create, mount -> clients ............................ -> heal, verify, check
//!                                              | fault | fault | fault | ...
//!                           the engine dies, the power goes: mount again, verify
//! ```
//!
//! Clients are tasks of the engine's process, as the workers of a front end are: they die with it, in the middle of
//! whatever they do. What they did is in their [`Model`]s.

use crate::{
    client::{Client, Plan},
    disk::SimDisk,
    executor::{Core, Executor, Stuck, lock},
    world::{Host, ProcessWorld},
};
use plinth_engine::{
    admin::{AdminError, Code, Selection},
    group::Group,
    session::Session,
    testing::new_group,
    world::{Sectors, World},
};
use plinth_format::{Redundancy, layout::MIB, membership::DiskState};
use std::{
    collections::BTreeMap,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

/// What a history is made of.
#[derive(Debug, Clone)]
pub struct Settings {
    pub seed: u64,
    /// Tell the story as it happens.
    pub tell: bool,
    /// Operations of all clients together, about.
    pub operations: u64,
    /// Only so many faults; `None`: as the seed decides.
    pub faults: Option<usize>,
}

impl Settings {
    pub fn of_seed(seed: u64) -> Self {
        Self { seed, tell: false, operations: 600, faults: None }
    }
}

/// How a history ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Equal for equal histories.
    pub hash: u64,
    pub operations: u64,
    pub faults: BTreeMap<&'static str, u64>,
    /// What went wrong, if something did.
    pub failure: Option<String>,
    /// The last lines of the story.
    pub story: Vec<String>,
    /// Simulated time.
    pub lasted: Duration,
    pub steps: u64,
}

/// A failure of what the engine promises, in words.
pub type Failure = String;

/// Runs one history to its end. Must not run beside another in the same process: SQLite's generator of numbers is shared.
pub fn run(settings: &Settings) -> Outcome {
    let mut executor = Executor::new(settings.seed, settings.tell);
    let core = Arc::clone(executor.core());
    let counts = Arc::new(Counts::default());
    let story = Story::new(&core, settings, &counts);
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| executor.run(story.tell())));
    let failure = match ended {
        Ok(Ok(Ok(()))) => None,
        Ok(Ok(Err(failure))) => Some(failure),
        Ok(Err(Stuck::Deadlock)) => Some("nothing can happen any more, and somebody still waits".to_owned()),
        Ok(Err(Stuck::Endless)) => Some("it goes on and on".to_owned()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(format!("panic: {}", text.unwrap_or_default()))
        }
    };
    let outcome = Outcome {
        hash: core.hash(),
        operations: *lock(&counts.operations),
        faults: lock(&counts.faults).clone(),
        story: core.story(),
        lasted: core.now(),
        steps: core.steps(),
        failure,
    };
    if outcome.failure.is_some() {
        // What is left may be in any state.
        std::mem::forget(executor);
    }
    outcome
}

/// How much happened.
#[derive(Debug, Default)]
pub struct Counts {
    pub operations: Mutex<u64>,
    pub faults: Mutex<BTreeMap<&'static str, u64>>,
}

/// A failure group that is not well, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ill {
    /// Its I/O fails or hangs.
    Away,
    /// It is back, and not yet as good as the others.
    Returning,
}

struct Story {
    core: Arc<Core>,
    host: Arc<Host>,
    counts: Arc<Counts>,
    redundancy: Redundancy,
    groups: Vec<String>,
    disks: Vec<SimDisk>,
    sectors: Sectors,
    clients: Vec<Arc<Client>>,
    faults: u64,
    world: Arc<ProcessWorld>,
    group: Option<Arc<Group>>,
    ill: BTreeMap<String, Ill>,
    /// Some block was damaged behind everybody's back, and nobody has looked since.
    rot: bool,
}

/// Virtual time that anything may take, before it counts as never.
const PATIENCE: Duration = Duration::from_secs(1800);

impl Story {
    fn new(core: &Arc<Core>, settings: &Settings, counts: &Arc<Counts>) -> Self {
        let host = Host::new(core);
        let (redundancy, groups) = match core.below(10) {
            0 => (Redundancy::External, vec!["A"]),
            1 => (Redundancy::External, vec!["A", "B"]),
            2..5 => (Redundancy::Normal, vec!["A", "B"]),
            5 => (Redundancy::Normal, vec!["A", "A", "B", "B"]),
            6 => (Redundancy::Normal, vec!["A", "B", "C"]),
            7 => (Redundancy::Normal, vec!["A", "B", "Q"]),
            8 => (Redundancy::High, vec!["A", "B", "C"]),
            _ => (Redundancy::High, vec!["A", "A", "B", "C", "Q1", "Q2"]),
        };
        let (logical, physical) =
            [(512, 512), (512, 4096), (4096, 4096)][usize::try_from(core.below(3)).expect("small")];
        let sectors = Sectors { logical, physical };
        let size = (40 + core.below(60)) * MIB;
        let disks: Vec<SimDisk> =
            (0..groups.len()).map(|number| SimDisk::new(core, &format!("/disk{number}"), size, sectors)).collect();
        disks.iter().for_each(|disk| host.add_disk(disk.clone()));
        let count = 1 + core.below(4);
        let plan = Plan { operations: settings.operations / count };
        let clients = (0..count).map(|number| Client::new(core, number, plan, counts)).collect();
        let faults = settings.faults.map_or_else(|| 3 + core.below(7), |faults| faults as u64);
        let world = host.process();
        let groups = groups.into_iter().map(str::to_owned).collect();
        Self {
            core: Arc::clone(core),
            host,
            counts: Arc::clone(counts),
            redundancy,
            groups,
            disks,
            sectors,
            clients,
            faults,
            world,
            group: None,
            ill: BTreeMap::new(),
            rot: false,
        }
    }

    fn world(&self) -> Arc<dyn World> {
        Arc::clone(&self.world) as Arc<dyn World>
    }

    fn group(&self) -> &Arc<Group> {
        self.group.as_ref().expect("mounted")
    }

    fn say(&self, line: impl FnOnce() -> String) {
        self.core.tell(line);
    }

    async fn pause(&self, longest: Duration) {
        let nanos = u64::try_from(longest.as_nanos()).expect("short");
        let pause = Duration::from_nanos(self.core.below(nanos.max(1)));
        self.core.sleep(pause).await;
    }

    async fn tell(mut self) -> Result<(), Failure> {
        self.say(|| {
            format!(
                "{:?} of {} on {} disks of {} MiB, sectors {}/{}; {} clients, {} faults",
                self.redundancy,
                self.groups.join(" "),
                self.disks.len(),
                self.disks[0].size() / MIB,
                self.sectors.logical,
                self.sectors.physical,
                self.clients.len(),
                self.faults
            )
        });
        self.create().await?;
        self.mount().await?;
        self.start_clients();
        for _ in 0..self.faults {
            self.pause(Duration::from_millis(80)).await;
            if self.is_idle() {
                break;
            }
            self.misfortune().await?;
        }
        self.until("the clients end", |story| story.is_idle()).await?;
        if self.rot {
            self.repair().await?;
        }
        self.recover_all().await?;
        self.verify().await?;
        self.check().await?;
        self.dismount().await?;
        self.world = self.host.process();
        self.mount().await?;
        self.verify_after_mount().await?;
        self.check().await?;
        self.dismount().await
    }

    fn is_idle(&self) -> bool {
        self.clients.iter().all(|client| client.is_done())
    }

    /// Waits until something is so.
    async fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) -> Result<(), Failure> {
        let end = self.core.now() + PATIENCE;
        loop {
            if let Some(failure) = self.clients.iter().find_map(|client| client.failure()) {
                return Err(failure);
            }
            if is_so(self) {
                return Ok(());
            }
            if self.core.now() > end {
                return Err(format!("{what}: not within {} s", PATIENCE.as_secs()));
            }
            self.core.sleep(Duration::from_millis(20)).await;
        }
    }

    /// Runs a task as part of the engine's process. `None`: the process died first.
    async fn inside<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        let (sender, receiver) = futures::channel::oneshot::channel();
        let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            let _ = sender.send(task.await);
        });
        self.core.spawn(self.world.process(), task);
        let late = self.core.sleep(PATIENCE);
        match futures::future::select(receiver, late).await {
            futures::future::Either::Left((result, _)) => Ok(result.ok()),
            futures::future::Either::Right(_) => {
                Err(format!("an operation did not end within {} s", PATIENCE.as_secs()))
            }
        }
    }

    async fn create(&mut self) -> Result<(), Failure> {
        let disks = self.disks.iter().map(SimDisk::path).zip(self.groups.iter().map(String::as_str));
        let new = new_group(self.redundancy, MIB, disks);
        let world = self.world();
        let made = self.inside(async move { Group::create(&world, new).await }).await?;
        made.ok_or("killed")?.map_err(|error| format!("create: {}", words(&error)))
    }

    /// Mounts the group in a process; dies and mounts again if the story wants it so.
    async fn mount(&mut self) -> Result<(), Failure> {
        loop {
            let world = self.world();
            if self.core.one_in(12) {
                let steps = self.core.below(1500);
                self.core.fuse(self.world.process(), Some(steps));
            }
            let mounted = self.inside(async move { Group::mount(world, "DATA", false).await }).await?;
            match mounted {
                Some(Ok(group)) if !self.core.is_dead(self.world.process()) => {
                    self.core.fuse(self.world.process(), None);
                    self.group = Some(group);
                    return Ok(());
                }
                Some(Err(error)) if error.code == Code::HeldElsewhere => {
                    self.say(|| format!("mount: {}", words(&error)));
                    self.core.sleep(Duration::from_millis(50)).await;
                }
                // With two voters and one of them away or failing, nobody can tell who carried on: the message says so.
                Some(Err(error)) if !self.ill.is_empty() && self.redundancy != Redundancy::High => {
                    self.say(|| format!("mount: {}", words(&error)));
                    self.count("no quorum at mount");
                    self.disks.iter().for_each(SimDisk::heal);
                    self.core.sleep(Duration::from_secs(1)).await;
                }
                Some(Err(error)) => return Err(format!("mount: {}", words(&error))),
                _ => {
                    self.say(|| "the engine died while it mounted".to_owned());
                    self.count("killed in mount");
                    self.world = self.host.process();
                }
            }
        }
    }

    fn start_clients(&self) {
        for client in &self.clients {
            let session = Session::new(Arc::clone(self.group()), None);
            self.core.spawn(self.world.process(), Box::pin(Arc::clone(client).live(session)));
        }
    }

    fn count(&self, fault: &'static str) {
        *lock(&self.counts.faults).entry(fault).or_default() += 1;
    }

    /// How many failure groups may be ill at the same time.
    fn budget(&self) -> usize {
        self.redundancy.mirrors() - 1
    }

    async fn misfortune(&mut self) -> Result<(), Failure> {
        if self.rot {
            // Not promised: a silent fault in a region that is active at a crash. It is found and repaired first.
            return self.repair().await;
        }
        match self.core.below(12) {
            0 | 1 => self.kill_engine().await,
            2 | 3 => self.cut_power().await,
            4 | 5 => self.lose_group().await,
            6 => self.hiccup().await,
            7 => self.bring_back().await,
            8 => self.rot().await,
            9 => self.take_offline().await,
            10 => self.leave_and_return().await,
            _ => {
                let by = i64::try_from(self.core.below(7200)).expect("small") - 3600;
                self.say(|| format!("the clock jumps by {by} s"));
                self.count("clock jumps");
                self.host.move_clock(by * 1_000_000_000);
                Ok(())
            }
        }
    }

    async fn kill_engine(&mut self) -> Result<(), Failure> {
        let process = self.world.process();
        self.core.fuse(process, Some(self.core.below(400)));
        let core = Arc::clone(&self.core);
        let mut tries = 0;
        self.until("the engine's death", move |_| {
            tries += 1;
            if tries > 50 {
                core.kill(process);
            }
            core.is_dead(process)
        })
        .await?;
        self.say(|| "the engine is killed".to_owned());
        self.count("engine killed");
        self.group = None;
        self.clients.iter().for_each(|client| client.model().engine_died());
        self.world = self.host.process();
        self.mount().await?;
        self.verify_after_mount().await?;
        self.start_clients();
        Ok(())
    }

    async fn cut_power(&mut self) -> Result<(), Failure> {
        self.core.kill(self.world.process());
        self.disks.iter().for_each(SimDisk::cut_power);
        self.host.reboot();
        self.say(|| "the power is cut".to_owned());
        self.count("power cut");
        self.group = None;
        self.clients.iter().for_each(|client| client.model().power_cut());
        // The processes are buried before the next one begins.
        self.core.sleep(Duration::from_secs(1)).await;
        self.world = self.host.process();
        self.mount().await?;
        self.verify_after_mount().await?;
        self.start_clients();
        Ok(())
    }

    /// The failure groups that hold data.
    fn data_groups(&self) -> Vec<String> {
        let mut names: Vec<String> = self.groups.iter().filter(|name| !name.starts_with('Q')).cloned().collect();
        names.dedup();
        names
    }

    fn disks_of(&self, group: &str) -> Vec<SimDisk> {
        self.disks.iter().zip(&self.groups).filter(|(_, name)| *name == group).map(|(disk, _)| disk.clone()).collect()
    }

    /// A failure group goes away: its I/O fails, or hangs.
    async fn lose_group(&mut self) -> Result<(), Failure> {
        if !self.ill.is_empty() {
            // With HIGH a second may go, but one after the other: the first has been noticed.
            self.core.sleep(Duration::from_secs(5)).await;
        }
        if self.ill.len() >= self.budget() || self.ill.values().any(|ill| *ill == Ill::Returning) {
            return self.bring_back().await;
        }
        let well: Vec<String> = self.data_groups().into_iter().filter(|name| !self.ill.contains_key(name)).collect();
        let name = well[usize::try_from(self.core.below(well.len() as u64)).expect("small")].clone();
        let hangs = self.core.one_in(3);
        self.say(|| format!("failure group {name} {}", if hangs { "hangs" } else { "fails" }));
        self.count(if hangs { "failure group hangs" } else { "failure group fails" });
        for disk in self.disks_of(&name) {
            disk.faults(|faults| if hangs { faults.hang = true } else { faults.gone = true });
        }
        self.ill.insert(name, Ill::Away);
        self.pause(Duration::from_millis(100)).await;
        Ok(())
    }

    /// What is ill gets well, and is brought back.
    async fn bring_back(&mut self) -> Result<(), Failure> {
        if self.ill.is_empty() {
            return self.hiccup().await;
        }
        self.recover_all().await
    }

    async fn recover_all(&mut self) -> Result<(), Failure> {
        self.disks.iter().for_each(SimDisk::heal);
        if !self.ill.is_empty() {
            self.say(|| "all failure groups are well again".to_owned());
            self.count("brought back");
        }
        let end = self.core.now() + PATIENCE;
        loop {
            if let Some(failure) = self.clients.iter().find_map(|client| client.failure()) {
                return Err(failure);
            }
            let group = Arc::clone(self.group());
            let online = self
                .inside(async move {
                    let away = group.members().iter().any(|(_, state)| *state == DiskState::Offline);
                    if away {
                        group.online(Selection::All).await.map(|()| false)
                    } else {
                        let busy = group.operations().iter().any(|operation| operation.state == "RUN");
                        Ok(!busy && group.members().iter().all(|(_, state)| *state == DiskState::Online))
                    }
                })
                .await?;
            match online {
                Some(Ok(true)) => break,
                Some(Ok(false)) => {}
                Some(Err(error)) => self.say(|| format!("online: {}", words(&error))),
                None => return Err("the engine died by itself".to_owned()),
            }
            if self.core.now() > end {
                return Err("not all disks are online again".to_owned());
            }
            self.core.sleep(Duration::from_millis(500)).await;
        }
        self.ill.clear();
        Ok(())
    }

    /// Something small: one I/O fails, a sector goes bad, a disk is slow for a while. One failure group at a time.
    async fn hiccup(&mut self) -> Result<(), Failure> {
        let groups = self.data_groups();
        if !self.ill.is_empty() || self.redundancy == Redundancy::External {
            return Ok(());
        }
        let name = groups[usize::try_from(self.core.below(groups.len() as u64)).expect("small")].clone();
        let disks = self.disks_of(&name);
        let disk = &disks[usize::try_from(self.core.below(disks.len() as u64)).expect("small")];
        let what = match self.core.below(4) {
            0 => {
                disk.faults(|faults| faults.failing_reads = 1);
                "read fails"
            }
            1 => {
                disk.faults(|faults| faults.failing_writes = 1);
                "write fails"
            }
            2 => {
                disk.faults(|faults| faults.failing_flushes = 1);
                "flush fails"
            }
            _ => {
                let slow = Duration::from_millis(self.core.below(300));
                disk.faults(|faults| faults.slow = slow);
                "disk is slow"
            }
        };
        self.say(|| format!("{}: a {what}", disk.path()));
        self.count(what);
        self.ill.insert(name, Ill::Returning);
        Ok(())
    }

    /// Bits rot on one disk: blocks are overwritten with noise, anywhere behind its first mebibyte.
    async fn rot(&mut self) -> Result<(), Failure> {
        if !self.ill.is_empty() || self.redundancy == Redundancy::External {
            return self.bring_back().await;
        }
        let groups = self.data_groups();
        let name = &groups[usize::try_from(self.core.below(groups.len() as u64)).expect("small")];
        let disks = self.disks_of(name);
        let disk = &disks[usize::try_from(self.core.below(disks.len() as u64)).expect("small")];
        let count = 1 + self.core.below(300);
        self.say(|| format!("{count} blocks of {} rot", disk.path()));
        self.count("rot");
        for _ in 0..count {
            let block = 256 + self.core.below(disk.size() / 4096 - 256);
            let mut noise = [0; 4096];
            self.core.fill(&mut noise);
            disk.corrupt(block * 4096, &noise);
        }
        self.rot = true;
        Ok(())
    }

    /// The operator has everything checked and repaired.
    async fn repair(&mut self) -> Result<(), Failure> {
        let group = Arc::clone(self.group());
        self.say(|| "the operator checks and repairs".to_owned());
        let report = self.inside(async move { group.check(true).await }).await?.ok_or("the engine died by itself")?;
        let report = report.map_err(|error| format!("check with repair: {}", words(&error)))?;
        let left: Vec<_> = report.problems.iter().filter(|problem| !problem.repaired).collect();
        if let Some(problem) = left.first() {
            return Err(format!(
                "check with repair: {} of {} problems stay, such as {}",
                left.len(),
                report.problems.len(),
                problem.text
            ));
        }
        self.rot = false;
        Ok(())
    }

    /// The operator takes a failure group offline.
    async fn take_offline(&mut self) -> Result<(), Failure> {
        if self.ill.len() >= self.budget() || self.ill.values().any(|ill| *ill == Ill::Returning) {
            return self.bring_back().await;
        }
        if !self.ill.is_empty() {
            self.core.sleep(Duration::from_secs(5)).await;
        }
        let well: Vec<String> = self.data_groups().into_iter().filter(|name| !self.ill.contains_key(name)).collect();
        let name = well[usize::try_from(self.core.below(well.len() as u64)).expect("small")].clone();
        self.say(|| format!("the operator takes failure group {name} offline"));
        self.count("offline by the operator");
        let (group, names) = (Arc::clone(self.group()), vec![name.clone()]);
        let ended = self.inside(async move { group.offline(Selection::FailureGroups(names)).await }).await?;
        match ended.ok_or("the engine died by itself")? {
            Ok(()) => {
                self.ill.insert(name, Ill::Away);
            }
            Err(error) => self.say(|| format!("offline: {}", words(&error))),
        }
        Ok(())
    }

    /// The group is dismounted while clients work, in good order or by force, and mounted again.
    async fn leave_and_return(&mut self) -> Result<(), Failure> {
        // Clients are sent away in the middle of what they do, as by a kill.
        let force = self.core.one_in(3);
        self.say(|| format!("the group is dismounted{}", if force { " by force" } else { "" }));
        self.count(if force { "dismount by force" } else { "dismount" });
        let process = self.world.process();
        self.clients.iter().for_each(|client| client.stop(true));
        if !force {
            self.until("the clients pause", |story| story.clients.iter().all(|client| client.is_paused())).await?;
        }
        let group = self.group.take().expect("mounted");
        let ended =
            self.inside(async move { group.dismount(force).await }).await?.ok_or("the engine died by itself")?;
        ended.map_err(|error| format!("dismount: {}", words(&error)))?;
        self.core.kill(process);
        self.core.sleep(Duration::from_secs(1)).await;
        self.clients.iter().for_each(|client| {
            client.stop(false);
            client.model().engine_died();
        });
        self.world = self.host.process();
        self.mount().await?;
        self.verify_after_mount().await?;
        self.start_clients();
        Ok(())
    }

    /// All that the clients did is there, as they left it.
    async fn verify(&mut self) -> Result<(), Failure> {
        self.verify_with(false).await
    }

    async fn verify_after_mount(&mut self) -> Result<(), Failure> {
        self.verify_with(true).await
    }

    async fn verify_with(&mut self, after_mount: bool) -> Result<(), Failure> {
        for client in self.clients.clone() {
            let session = Session::new(Arc::clone(self.group()), None);
            let verified = self.inside(async move { client.verify(&session, after_mount).await }).await?;
            verified.ok_or("the engine died by itself")??;
        }
        Ok(())
    }

    /// Everything is as it should be, on every disk.
    async fn check(&mut self) -> Result<(), Failure> {
        let group = Arc::clone(self.group());
        let report = self.inside(async move { group.check(false).await }).await?.ok_or("the engine died by itself")?;
        let report = report.map_err(|error| format!("check: {}", words(&error)))?;
        let problems: Vec<String> = report.problems.iter().map(|problem| problem.text.clone()).collect();
        if problems.is_empty() { Ok(()) } else { Err(format!("check: {}", problems.join("; "))) }
    }

    async fn dismount(&mut self) -> Result<(), Failure> {
        let group = self.group.take().expect("mounted");
        let ended =
            self.inside(async move { group.dismount(false).await }).await?.ok_or("the engine died by itself")?;
        ended.map_err(|error| format!("dismount: {}", words(&error)))?;
        // The process ends with it.
        self.core.kill(self.world.process());
        self.core.sleep(Duration::from_secs(1)).await;
        Ok(())
    }
}

fn words(error: &AdminError) -> String {
    match &error.hint {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}
