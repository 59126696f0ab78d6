//! One disk group on the simulated host: its disks, its engine, its clients, and its present
//! faults.
//!
//! Clients are tasks of the engine's process, as the workers of a front end are: they die with it,
//! in the middle of their operations. Their operations are recorded in their
//! [`Model`](crate::model::Model)s. After a mount each client first looks at everything.
//!
//! Only faults that a group survives are injected: the number of *faulty* failure groups stays
//! below the number of mirrors. Where a fault may cause errors (its last mirror fails) the group
//! *tolerates errors*: errors may reach clients, wrong bytes never.

mod life;
mod operator;

use crate::{
    client::{Client, Expectations},
    coverage::State,
    disk::SimDisk,
    executor::{Core, Fuse, ProcessId},
    history::Failure,
    plan::Shape,
    world::{Host, ProcessWorld},
};
use life::MOUNT_WAIT;
use plinth_engine::{
    admin::{AdminError, NewDisk, OperationPass, OperationState},
    files::session::Session,
    group::Group,
    testing::Image,
};
use plinth_format::{Redundancy, membership::DiskState};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Virtual time after which an operation counts as one that never ends.
pub const PATIENCE: Duration = Duration::from_secs(1800);

/// Why a failure group cannot be counted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Its I/O fails or hangs, or its disks are missing.
    Unavailable,
    /// One of its I/Os failed: it may be offline or not.
    Uncertain,
}

/// Undoes a change of a device.
pub enum Undo {
    /// A device to be detached from this path.
    Detach(String),
    /// The medium that belongs there.
    Image(SimDisk, Image),
    Size(SimDisk, u64),
    /// The device is shown again, at its path by then.
    Attach(SimDisk),
}

/// See the module's description.
pub struct SimGroup {
    pub core: Arc<Core>,
    pub host: Arc<Host>,
    pub name: &'static str,
    pub shape: Shape,
    /// The members, as far as the simulator knows; `shape.disks`, `paths` and `names` go with them.
    pub disks: Vec<SimDisk>,
    paths: Vec<String>,
    /// Their names in the engine.
    names: Vec<String>,
    /// How many disks there ever were.
    devices: usize,
    pub clients: Vec<Arc<Client>>,
    pub expectations: Arc<Expectations>,
    pub world: Arc<ProcessWorld>,
    pub group: Option<Arc<Group>>,
    pub faulty: BTreeMap<String, Condition>,
    /// Bytes were changed without an error, and no check has run since.
    pub silent: bool,
    /// The engine's own metadata was overwritten, or a disk has not kept it, and the engine may not
    /// have noticed yet.
    pub overwritten: bool,
    /// A flush failed on a disk that cannot be spared: bytes that were not synced may be as after a
    /// loss of power.
    pub lossy: bool,
    /// Engines that ended because their catalog had stopped, since the group was last whole.
    stops: u32,
    /// A rebalance had ended with an error and was started again.
    goes_on: bool,
    /// A disk may have lost writes that a failed flush covered, and may still be read.
    pub forgetful: bool,
    /// I/O has failed: a disk may be expelled for that as soon as it can be spared, long after it
    /// is healed.
    pub has_failed: bool,
    /// A file that belongs to no client takes all space.
    pub full: bool,
    /// More disks are missing than may be lost.
    pub beyond: bool,
    pub undo: Vec<Undo>,
    /// Mounts that die: how often, and after how many steps at most.
    pub dying_mounts: u64,
    /// Its engine is idle, and is to die so.
    pub dies_idle: bool,
    /// It is mounted by force.
    force: bool,
    /// A mount that dies loses the power too, see the story.
    pub lives: u64,
    /// Blocks that did not match their checksum since the mount, for a known reason.
    explained: AtomicU64,
    /// Records of the engine's own that it rewrote since the mount, for a known reason.
    rewritten: AtomicU64,
}

/// Virtual time after which the engine has reacted to errors: its caretaker, which may be the first
/// to learn of a failed flush, runs once a second.
pub const ERRORS_ARRIVE: Duration = Duration::from_secs(3);

/// Virtual time in which an idle engine closes its regions.
const IDLE_LASTS: Duration = Duration::from_secs(5);

/// The engine's next step.
pub const AT_ONCE: Fuse = Fuse::Steps(0);

/// The default names of the disks of a new group.
fn default_names(group: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{group}_{number:04}")).collect()
}

impl SimGroup {
    pub fn new(core: &Arc<Core>, host: &Arc<Host>, name: &'static str, shape: &Shape) -> Self {
        let device = |(number, (_, size)): (usize, &(String, u64))| {
            SimDisk::new(core, &format!("{name}-{number}"), *size, shape.sectors)
        };
        let disks: Vec<SimDisk> = shape.disks.iter().enumerate().map(device).collect();
        let paths: Vec<String> =
            disks.iter().map(|disk| format!("/dev/{}", disk.label())).collect();
        for (disk, path) in disks.iter().zip(&paths) {
            host.attach(path, disk.clone());
        }
        let expectations = Arc::new(Expectations::default());
        let clients = shape.clients.iter().zip(0..);
        let clients = clients
            .map(|(profile, number)| {
                Client::new((core, host), name, number, *profile, &expectations)
            })
            .collect();
        Self {
            core: Arc::clone(core),
            host: Arc::clone(host),
            name,
            shape: shape.clone(),
            names: default_names(name, disks.len()),
            devices: disks.len(),
            disks,
            paths,
            clients,
            expectations,
            world: host.process(),
            group: None,
            faulty: BTreeMap::new(),
            silent: false,
            overwritten: false,
            lossy: false,
            stops: 0,
            goes_on: false,
            forgetful: false,
            has_failed: false,
            full: false,
            beyond: false,
            undo: Vec::new(),
            dying_mounts: 0,
            dies_idle: false,
            force: false,
            lives: 0,
            explained: AtomicU64::new(0),
            rewritten: AtomicU64::new(0),
        }
    }

    pub fn group(&self) -> &Arc<Group> {
        self.group.as_ref().expect("mounted")
    }

    pub fn process(&self) -> ProcessId {
        self.world.process()
    }

    pub fn is_external(&self) -> bool {
        self.shape.redundancy == Redundancy::External
    }

    pub fn say(&self, line: impl FnOnce() -> String) {
        self.core.tell(|| format!("{}: {}", self.name, line()));
    }

    /// Takes over the redundancy that the engine reports.
    pub fn note_redundancy(&mut self) {
        if let Some(group) = &self.group {
            self.shape.redundancy = group.redundancy();
        }
    }

    /// Whether a conversion to another redundancy loses nothing: the mirror that is removed may be
    /// the only good one, where no check has found that yet.
    pub fn may_convert(&self) -> bool {
        let is_strange =
            self.silent || self.lossy || self.forgetful || self.beyond || !self.undo.is_empty();
        !is_strange && !self.faulty.values().any(|faulty| *faulty == Condition::Uncertain)
    }

    /// How many failure groups may be faulty at the same time.
    pub fn budget(&self) -> usize {
        self.shape.redundancy.mirrors() - 1
    }

    /// Failure groups that cannot be relied on: the faulty ones, and those that have disks which
    /// the engine does not use.
    pub fn count_faulty(&self) -> usize {
        let mut faulty: BTreeSet<&str> = self.faulty.keys().map(String::as_str).collect();
        if let Some(group) = &self.group {
            let is_away = |disk: &SimDisk| {
                self.state_of(group, disk).is_some_and(|state| state != DiskState::Online)
            };
            let disks = self.disks.iter().zip(&self.shape.disks);
            faulty.extend(
                disks.filter(|(disk, _)| is_away(disk)).map(|(_, (name, _))| name.as_str()),
            );
        }
        faulty.len()
    }

    pub fn disks_of(&self, group: &str) -> Vec<SimDisk> {
        let disks = self.disks.iter().zip(&self.shape.disks);
        disks.filter(|(_, (name, _))| name == group).map(|(disk, _)| disk.clone()).collect()
    }

    /// A disk's index among the group's.
    pub fn index_of(&self, disk: &SimDisk) -> usize {
        self.disks.iter().position(|known| known.label() == disk.label()).expect("one of ours")
    }

    pub fn path_of(&self, disk: &SimDisk) -> String {
        self.paths[self.index_of(disk)].clone()
    }

    /// The engine's state of a disk. `None`: it is no member.
    pub fn state_of(&self, group: &Group, disk: &SimDisk) -> Option<DiskState> {
        let name = &self.names[self.index_of(disk)];
        group.members().into_iter().find(|(known, _)| known == name).map(|(_, state)| state)
    }

    /// Whether it is one of the group's, as far as the simulator knows.
    pub fn is_member(&self, disk: &SimDisk) -> bool {
        self.disks.iter().any(|known| known.label() == disk.label())
    }

    /// Whether the engine uses a disk.
    pub fn serves(&self, group: &Group, disk: &SimDisk) -> bool {
        self.state_of(group, disk).is_some_and(|state| state != DiskState::Offline)
    }

    /// Another device on the host, to become a member of a failure group under a name.
    pub fn new_disk(&mut self, failure_group: &str, size: u64) -> NewDisk {
        let number = self.devices;
        self.devices += 1;
        let disk =
            SimDisk::new(&self.core, &format!("{}-{number}", self.name), size, self.shape.sectors);
        let (path, name) = (format!("/dev/{}", disk.label()), format!("{}_X{number}", self.name));
        self.host.attach(&path, disk.clone());
        self.disks.push(disk);
        self.paths.push(path.clone());
        self.names.push(name.clone());
        self.shape.disks.push((failure_group.to_owned(), size));
        NewDisk {
            path,
            name: Some(name),
            failure_group: Some(failure_group.to_owned()),
            quorum: false,
            size: None,
            force: false,
        }
    }

    /// A disk's name.
    pub fn name_of(&self, disk: &SimDisk) -> &str {
        &self.names[self.index_of(disk)]
    }

    /// The newest disk has taken another one's place, and its name.
    pub fn has_replaced(&mut self, old: usize, name: String) {
        self.names[old] = format!("{name}, replaced");
        *self.names.last_mut().expect("it was made") = name;
    }

    /// Forgets disks that are no members any more, or never became members.
    pub fn part_with_former(&mut self) {
        let Some(group) = self.group.clone() else { return };
        let members = group.members();
        for index in (0..self.disks.len()).rev() {
            if members.iter().any(|(name, _)| *name == self.names[index]) {
                continue;
            }
            let disk = self.disks.remove(index);
            self.host.detach_all(&disk);
            self.paths.remove(index);
            self.names.remove(index);
            let (failure_group, _) = self.shape.disks.remove(index);
            self.say(|| format!("{} is no member any more", disk.label()));
            if self.shape.disks.iter().all(|(name, _)| *name != failure_group) {
                self.faulty.remove(&failure_group);
            }
            self.undo.retain(|undo| match undo {
                Undo::Detach(_) => true,
                Undo::Image(of, _) | Undo::Size(of, _) | Undo::Attach(of) => {
                    of.label() != disk.label()
                }
            });
        }
    }

    /// Whether half of the voters are in a failure group.
    pub fn is_half(&self, failure_group: &str) -> bool {
        let voting = self.group().voting();
        let names = self.names.iter().zip(&self.shape.disks);
        let of_it = names
            .filter(|(name, (group, _))| group == failure_group && voting.contains(name))
            .count();
        2 * of_it >= voting.len()
    }

    /// Shows a disk at another path from now on.
    pub fn move_to(&mut self, disk: &SimDisk, path: &str) {
        let index = self.index_of(disk);
        self.host.rename(&self.paths[index], path);
        self.paths[index] = path.to_owned();
    }

    /// The state of the group.
    pub fn state(&self) -> State {
        let Some(group) = &self.group else { return State::Degraded };
        let operations = group.operations();
        let runs = |pass: OperationPass| {
            operations
                .iter()
                .any(|operation| operation.pass == pass && operation.state == OperationState::Run)
        };
        let members = group.members();
        if runs(OperationPass::Resync)
            || members.iter().any(|(_, state)| *state == DiskState::Syncing)
        {
            State::Returning
        } else if runs(OperationPass::Recovery) {
            State::Recovering
        } else if !self.faulty.is_empty()
            || members.iter().any(|(_, state)| *state != DiskState::Online)
        {
            State::Degraded
        } else if runs(OperationPass::Rebalance) {
            State::Moving
        } else if self.full {
            State::Full
        } else {
            State::Whole
        }
    }

    /// Whether the engine uses no faulty disk: disks that it uses have to be right.
    pub fn has_noticed(&self) -> bool {
        let Some(group) = &self.group else { return false };
        let serves = |disk: &SimDisk| self.serves(group, disk);
        self.faulty.iter().all(|(name, faulty)| {
            *faulty == Condition::Unavailable && !self.disks_of(name).iter().any(serves)
        })
    }

    /// Operations of its clients so far.
    pub fn done(&self) -> u64 {
        self.expectations.done.load(Ordering::Relaxed)
    }

    /// Lets its clients do this many operations more.
    pub fn allow(&self, operations: u64) {
        self.expectations.allowed.fetch_max(self.done() + operations, Ordering::Relaxed);
    }

    /// Lets its clients do nothing more than look at everything.
    pub fn rest(&self) {
        self.expectations.allowed.store(self.done(), Ordering::Relaxed);
    }

    /// Waits until every client has looked at everything since the mount.
    pub async fn until_looked(&self) -> Result<(), Failure> {
        let looked = |sim_group: &Self| {
            sim_group.clients.iter().all(|client| !client.model().is_unverified())
        };
        self.until("a look at everything", looked).await
    }

    /// The first failure of a client.
    pub fn failure(&self) -> Result<(), Failure> {
        if let Some(offence) = self.core.offence() {
            return Err(offence);
        }
        match self.clients.iter().find_map(|client| client.failure()) {
            Some(failure) => Err(format!("{}: {failure}", self.name)),
            None => self.explain(),
        }
    }

    /// A mismatch on a disk must have a reason: repairs must not hide the engine's own mistakes.
    fn explain(&self) -> Result<(), Failure> {
        let Some(group) = &self.group else { return Ok(()) };
        let mismatches = group.mismatches();
        let is_strange = self.silent
            || self.lossy
            || self.forgetful
            || self.expectations.tolerates_errors.load(Ordering::Relaxed);
        if is_strange || self.undo.iter().any(|undo| matches!(undo, Undo::Image(..))) {
            self.explained.store(mismatches, Ordering::Relaxed);
        }
        let repaired = group.metadata_repaired();
        if is_strange || self.overwritten || !self.faulty.is_empty() || !self.undo.is_empty() {
            self.rewritten.store(repaired, Ordering::Relaxed);
        }
        self.rewritten.fetch_min(repaired, Ordering::Relaxed);
        if repaired > self.rewritten.load(Ordering::Relaxed) {
            return Err(format!(
                "{}: the engine has written its own metadata again, for no reason",
                self.name
            ));
        }
        // A disk that was dropped takes its count along.
        self.explained.fetch_min(mismatches, Ordering::Relaxed);
        match mismatches - self.explained.load(Ordering::Relaxed) {
            0 => Ok(()),
            count => Err(format!(
                "{}: {count} blocks do not match their checksum, for no reason",
                self.name
            )),
        }
    }

    /// Waits until a condition holds.
    pub async fn until(
        &self,
        what: &str,
        mut is_so: impl FnMut(&Self) -> bool,
    ) -> Result<(), Failure> {
        let end = self.core.now() + PATIENCE;
        loop {
            self.failure()?;
            if is_so(self) {
                return Ok(());
            }
            if self.core.now() > end {
                return Err(format!("{}: {what}: not within {} s", self.name, PATIENCE.as_secs()));
            }
            self.core.sleep(Duration::from_millis(20)).await;
        }
    }

    /// Runs a task as part of the engine's process. `None`: the process died first.
    pub async fn inside<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        if !self.expectations.tolerates_errors.load(Ordering::Relaxed) {
            return inside(&self.core, self.process(), task).await;
        }
        // More disks may be missing than the group can do without: then the statement waits until
        // they are healed.
        let waited = self.heal_after(MOUNT_WAIT);
        let ended = inside(&self.core, self.process(), task).await;
        waited.store(false, Ordering::Relaxed);
        ended
    }

    /// Gives the engine a statement, which it may refuse, or die during.
    pub async fn order(
        &self,
        statement: impl Future<Output = Result<(), AdminError>> + Send + 'static,
    ) -> Result<(), Failure> {
        if let Some(Err(error)) = self.inside(statement).await? {
            self.say(|| format!("refused: {}", words(&error)));
        }
        Ok(())
    }

    /// Clients look at everything, and go on.
    pub fn start_clients(&self) {
        self.expectations.pause.store(false, Ordering::Relaxed);
        for client in &self.clients {
            let session = Session::new(Arc::clone(self.group()), None);
            self.core.spawn(self.process(), Box::pin(Arc::clone(client).live(session)));
        }
    }

    /// Clients end their operations, and begin no more.
    pub async fn pause_clients(&mut self) -> Result<(), Failure> {
        self.expectations.pause.store(true, Ordering::Relaxed);
        // If two disks fail that cannot both be spared, writes wait until one is healed.
        let tolerates_errors = self.expectations.tolerates_errors.load(Ordering::Relaxed);
        let waited = self.heal_after(if tolerates_errors { MOUNT_WAIT } else { PATIENCE * 2 });
        let paused = self
            .until("the clients pause", |sim_group| {
                sim_group.clients.iter().all(|client| client.is_idle())
            })
            .await;
        waited.store(false, Ordering::Relaxed);
        paused
    }
}

/// Runs a task as part of a process. `None`: the process died first.
pub async fn inside<T: Send + 'static>(
    core: &Arc<Core>,
    process: ProcessId,
    task: impl Future<Output = T> + Send + 'static,
) -> Result<Option<T>, Failure> {
    let (sender, receiver) = futures::channel::oneshot::channel();
    let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        let _ = sender.send(task.await);
    });
    core.spawn(process, task);
    match futures::future::select(receiver, core.sleep(PATIENCE)).await {
        futures::future::Either::Left((result, _)) => Ok(result.ok()),
        futures::future::Either::Right(_) => {
            Err(format!("an operation did not end within {} s", PATIENCE.as_secs()))
        }
    }
}

pub fn words(error: &AdminError) -> String {
    match &error.hint {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}
