//! One disk group on the simulated host: its disks, its engine, its clients, and what is wrong with it at the moment.
//!
//! Clients are tasks of the engine's process, as the workers of a front end are: they die with it, in the middle of
//! whatever they do. What they did is in their [`Model`](crate::model::Model)s. The first thing that they do after a
//! mount is to look at everything.
//!
//! What a group survives is kept to by counting failure groups that are *ill*: as many as there are mirrors, less one.
//! What it need not survive without errors (its last mirror fails) makes it *lenient*: errors may reach clients, wrong
//! bytes never.

use crate::{
    client::{Client, Mood},
    coverage::State,
    disk::SimDisk,
    executor::{Core, Fuse, ProcessId},
    history::Failure,
    plan::Shape,
    world::{Host, ProcessWorld},
};
use plinth_engine::{
    admin::{AdminError, Code, Report, Selection},
    api::{Allocate, Caller, NewFile, ROOT, SetXattr},
    error::FileError,
    group::Group,
    session::Session,
    testing::{Image, new_group},
    world::World,
};
use plinth_format::{Redundancy, layout::MIB, membership::DiskState};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Virtual time that anything may take, before it counts as never.
pub const PATIENCE: Duration = Duration::from_secs(1800);

/// How a failure group is ill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ill {
    /// It does not do what it is asked, or is out of sight.
    Away,
    /// Something small happened: it may be offline or not.
    Doubtful,
}

/// What puts a device right again.
pub enum Undo {
    /// Nothing is shown at this path any more.
    Detach(String),
    /// The medium that belongs there.
    Image(SimDisk, Image),
    Size(SimDisk, u64),
    /// The device is shown again, at the path that it has by then.
    Attach(SimDisk),
}

/// See the module's description.
pub struct Tenant {
    pub core: Arc<Core>,
    pub host: Arc<Host>,
    pub name: &'static str,
    pub shape: Shape,
    /// Those that are members, as far as anybody knows; `shape.disks`, `paths` and `names` go with them.
    pub disks: Vec<SimDisk>,
    paths: Vec<String>,
    /// What the engine calls them.
    names: Vec<String>,
    /// How many disks there ever were.
    devices: usize,
    pub clients: Vec<Arc<Client>>,
    pub mood: Arc<Mood>,
    pub world: Arc<ProcessWorld>,
    pub group: Option<Arc<Group>>,
    pub ill: BTreeMap<String, Ill>,
    /// Bytes changed behind everybody's back, and nobody has looked since.
    pub silent: bool,
    /// A flush failed on a disk that had to stay: what was not synced may be as after a loss of power.
    pub lossy: bool,
    /// Engines that ended because their catalog had stopped, since all was well.
    stops: u32,
    /// A disk may have lost what a failed flush covered, and may still be read.
    pub forgetful: bool,
    /// A file of no client takes all space.
    pub full: bool,
    /// More is out of sight than may be lost.
    pub beyond: bool,
    pub undo: Vec<Undo>,
    /// Mounts that die: how often, and after how many steps at most.
    pub dying_mounts: u64,
    /// Nobody asks its engine for anything, and it is to die in that.
    pub lull: bool,
    /// It is mounted by force.
    force: bool,
    /// A mount that dies loses the power too, see the story.
    pub lives: u64,
    /// Blocks that did not match their checksum since the mount, for a reason.
    explained: AtomicU64,
}

/// Virtual time that a mount may wait for disks before somebody sees to them.
const MOUNT_WAIT: Duration = Duration::from_secs(120);

/// Engines that are replaced because their catalog has stopped, before somebody looks for the reason.
const STOPS_MAX: u32 = 5;

/// Virtual time after which the engine has dealt with what has failed: its caretaker, that may be the first to hear of a
/// flush, looks once a second.
pub const ERRORS_ARRIVE: Duration = Duration::from_secs(3);

/// Virtual time in which an engine that nobody asks for anything closes its regions.
const LULL_LASTS: Duration = Duration::from_secs(5);

/// The engine's next step.
pub const AT_ONCE: Fuse = Fuse::Steps(0);

const FILLER: &[u8] = b"filler";

/// What disks of a new group are called.
fn default_names(group: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{group}_{number:04}")).collect()
}

/// Values of 60 kB that the catalog gets at once: more than it has space for, if AUs are small.
const SWELLING: u32 = 160;

/// The errors of a mount for want of disks.
fn for_want_of_disks(code: Code) -> bool {
    matches!(code, Code::NoQuorum | Code::NoGroup | Code::WouldLoseData | Code::DuplicateDisk | Code::Io)
}

impl Tenant {
    pub fn new(core: &Arc<Core>, host: &Arc<Host>, name: &'static str, shape: &Shape) -> Self {
        let device = |(number, (_, size)): (usize, &(String, u64))| {
            SimDisk::new(core, &format!("{name}-{number}"), *size, shape.sectors)
        };
        let disks: Vec<SimDisk> = shape.disks.iter().enumerate().map(device).collect();
        let paths: Vec<String> = disks.iter().map(|disk| format!("/dev/{}", disk.label())).collect();
        for (disk, path) in disks.iter().zip(&paths) {
            host.attach(path, disk.clone());
        }
        let mood = Arc::new(Mood::default());
        let clients = shape.clients.iter().zip(0..);
        let clients = clients.map(|((style, seed), number)| Client::new(core, number, *style, *seed, &mood)).collect();
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
            mood,
            world: host.process(),
            group: None,
            ill: BTreeMap::new(),
            silent: false,
            lossy: false,
            stops: 0,
            forgetful: false,
            full: false,
            beyond: false,
            undo: Vec::new(),
            dying_mounts: 0,
            lull: false,
            force: false,
            lives: 0,
            explained: AtomicU64::new(0),
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

    /// How many failure groups may be ill at the same time.
    pub fn budget(&self) -> usize {
        self.shape.redundancy.mirrors() - 1
    }

    /// Failure groups that cannot be counted on: those that are ill, and those that the engine has found to be.
    pub fn count_ill(&self) -> usize {
        let mut ill: BTreeSet<&str> = self.ill.keys().map(String::as_str).collect();
        if let Some(group) = &self.group {
            let is_away = |disk: &SimDisk| self.standing(group, disk).is_some_and(|state| state != DiskState::Online);
            let disks = self.disks.iter().zip(&self.shape.disks);
            ill.extend(disks.filter(|(disk, _)| is_away(disk)).map(|(_, (name, _))| name.as_str()));
        }
        ill.len()
    }

    pub fn disks_of(&self, group: &str) -> Vec<SimDisk> {
        let disks = self.disks.iter().zip(&self.shape.disks);
        disks.filter(|(_, (name, _))| name == group).map(|(disk, _)| disk.clone()).collect()
    }

    /// A disk's place among the group's.
    pub fn index_of(&self, disk: &SimDisk) -> usize {
        self.disks.iter().position(|known| known.label() == disk.label()).expect("one of ours")
    }

    pub fn path_of(&self, disk: &SimDisk) -> String {
        self.paths[self.index_of(disk)].clone()
    }

    /// What the engine says of a disk. `None`: it is no member.
    pub fn standing(&self, group: &Group, disk: &SimDisk) -> Option<DiskState> {
        let name = &self.names[self.index_of(disk)];
        group.members().into_iter().find(|(known, _)| known == name).map(|(_, state)| state)
    }

    /// Whether it is one of the group's, as far as anybody knows.
    pub fn is_member(&self, disk: &SimDisk) -> bool {
        self.disks.iter().any(|known| known.label() == disk.label())
    }

    /// Whether the engine uses a disk.
    pub fn serves(&self, group: &Group, disk: &SimDisk) -> bool {
        self.standing(group, disk).is_some_and(|state| state != DiskState::Offline)
    }

    /// Another device on the host, to be a member of a failure group under a name.
    pub fn new_device(&mut self, failure_group: &str, size: u64) -> (String, String) {
        let number = self.devices;
        self.devices += 1;
        let disk = SimDisk::new(&self.core, &format!("{}-{number}", self.name), size, self.shape.sectors);
        let (path, name) = (format!("/dev/{}", disk.label()), format!("{}_X{number}", self.name));
        self.host.attach(&path, disk.clone());
        self.disks.push(disk);
        self.paths.push(path.clone());
        self.names.push(name.clone());
        self.shape.disks.push((failure_group.to_owned(), size));
        (path, name)
    }

    /// A disk's name.
    pub fn name_of(&self, disk: &SimDisk) -> &str {
        &self.names[self.index_of(disk)]
    }

    /// Takes leave of disks that are no members any more, or never became it.
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
                self.ill.remove(&failure_group);
            }
            self.undo.retain(|undo| match undo {
                Undo::Detach(_) => true,
                Undo::Image(of, _) | Undo::Size(of, _) | Undo::Attach(of) => of.label() != disk.label(),
            });
        }
    }

    /// Shows a disk at another path from now on.
    pub fn move_to(&mut self, disk: &SimDisk, path: &str) {
        let index = self.index_of(disk);
        self.host.rename(&self.paths[index], path);
        self.paths[index] = path.to_owned();
    }

    /// How the group is.
    pub fn state(&self) -> State {
        let Some(group) = &self.group else { return State::Degraded };
        let operations = group.operations();
        let runs = |pass: &str| operations.iter().any(|operation| operation.pass == pass && operation.state == "RUN");
        let members = group.members();
        if runs("RESYNC") || members.iter().any(|(_, state)| *state == DiskState::Syncing) {
            State::Returning
        } else if runs("RECOVERY") {
            State::Recovering
        } else if !self.ill.is_empty() || members.iter().any(|(_, state)| *state != DiskState::Online) {
            State::Degraded
        } else if runs("REBALANCE") {
            State::Moving
        } else if self.full {
            State::Full
        } else {
            State::Whole
        }
    }

    /// Whether the engine counts on no disk that is ill: what it counts on has to be right.
    pub fn has_noticed(&self) -> bool {
        let Some(group) = &self.group else { return false };
        let serves = |disk: &SimDisk| self.serves(group, disk);
        self.ill.iter().all(|(name, ill)| *ill == Ill::Away && !self.disks_of(name).iter().any(serves))
    }

    /// Operations of its clients so far.
    pub fn done(&self) -> u64 {
        self.mood.done.load(Ordering::Relaxed)
    }

    /// Lets its clients do so many operations more.
    pub fn allow(&self, operations: u64) {
        self.mood.allowed.fetch_max(self.done() + operations, Ordering::Relaxed);
    }

    /// Lets its clients do nothing more, but look at what they have not looked at.
    pub fn rest(&self) {
        self.mood.allowed.store(self.done(), Ordering::Relaxed);
    }

    /// Waits until every client has looked at everything since the mount.
    pub async fn until_looked(&self) -> Result<(), Failure> {
        let looked = |tenant: &Self| tenant.clients.iter().all(|client| !client.model().is_unverified());
        self.until("a look at everything", looked).await
    }

    /// The first failure of a client.
    pub fn failure(&self) -> Result<(), Failure> {
        match self.clients.iter().find_map(|client| client.failure()) {
            Some(failure) => Err(format!("{}: {failure}", self.name)),
            None => self.explain(),
        }
    }

    /// Something is wrong on a disk only for a reason: repairs must not hide what the engine itself did wrong.
    fn explain(&self) -> Result<(), Failure> {
        let Some(group) = &self.group else { return Ok(()) };
        let mismatches = group.mismatches();
        let is_strange = self.silent || self.lossy || self.forgetful || self.mood.lenient.load(Ordering::Relaxed);
        if is_strange || self.undo.iter().any(|undo| matches!(undo, Undo::Image(..))) {
            self.explained.store(mismatches, Ordering::Relaxed);
        }
        // A disk that was dropped takes its count along.
        self.explained.fetch_min(mismatches, Ordering::Relaxed);
        match mismatches - self.explained.load(Ordering::Relaxed) {
            0 => Ok(()),
            count => Err(format!("{}: {count} blocks do not match their checksum, for no reason", self.name)),
        }
    }

    /// Waits until something is so.
    pub async fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) -> Result<(), Failure> {
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
        if !self.mood.lenient.load(Ordering::Relaxed) {
            return inside(&self.core, self.process(), task).await;
        }
        // More may be away than can be done without: then it waits for somebody to see to the disks.
        let waited = self.heal_after(MOUNT_WAIT);
        let ended = inside(&self.core, self.process(), task).await;
        waited.store(false, Ordering::Relaxed);
        ended
    }

    pub async fn create(&mut self) -> Result<(), Failure> {
        self.world = self.host.process();
        self.names = default_names(self.name, self.disks.len());
        let groups = self.shape.disks.iter().map(|(name, _)| name.as_str());
        let mut new =
            new_group(self.shape.redundancy, self.shape.au_size, self.paths.iter().map(String::as_str).zip(groups));
        new.name = self.name.to_owned();
        for (disk, (_, size)) in new.disks.iter_mut().zip(&self.shape.disks) {
            disk.size = Some(*size);
        }
        let world = Arc::clone(&self.world) as Arc<dyn World>;
        let made = self.inside(async move { Group::create(&world, new).await }).await?;
        made.ok_or("killed")?.map_err(|error| format!("{}: create: {}", self.name, words(&error)))?;
        self.core.kill(self.process());
        Ok(())
    }

    /// Mounts the group in a process of its own, which may die several times over it. Whether it could be mounted.
    ///
    /// # Errors
    /// If it is refused for another reason than missing disks.
    pub async fn try_mount(&mut self) -> Result<bool, Failure> {
        let end = self.core.now() + PATIENCE;
        loop {
            self.world = self.host.process();
            let world = Arc::clone(&self.world) as Arc<dyn World>;
            if self.dying_mounts > 0 {
                self.dying_mounts -= 1;
                self.core.fuse(self.process(), Some(self.moment_of_mount()));
            }
            let (name, force) = (self.name, self.force);
            let waited = self.heal_after(if self.ill.is_empty() { PATIENCE * 2 } else { MOUNT_WAIT });
            let mounted = self.inside(async move { Group::mount(world, name, force).await }).await?;
            waited.store(false, Ordering::Relaxed);
            match mounted {
                Some(Ok(group)) if !self.core.is_dead(self.process()) => {
                    self.core.fuse(self.process(), None);
                    self.group = Some(group);
                    self.part_with_former();
                    self.lives += 1;
                    self.explained.store(0, Ordering::Relaxed);
                    return Ok(true);
                }
                Some(Err(error)) if error.code == Code::HeldElsewhere && self.core.now() < end => {
                    self.say(|| format!("mount: {}", words(&error)));
                    self.core.kill(self.process());
                    self.core.sleep(Duration::from_millis(50)).await;
                }
                Some(Err(error)) if for_want_of_disks(error.code) => {
                    self.say(|| format!("mount: {}", words(&error)));
                    self.core.kill(self.process());
                    return Ok(false);
                }
                Some(Err(error)) => return Err(format!("{}: mount: {}", self.name, words(&error))),
                _ => self.say(|| "the engine died while it mounted".to_owned()),
            }
        }
    }

    /// A moment in a mount.
    pub fn moment_of_mount(&self) -> Fuse {
        match self.core.below(2) {
            0 => Fuse::Steps(self.core.below(2500)),
            _ => Fuse::Changes(self.core.below(1 << self.core.below(9))),
        }
    }

    /// A mount may have to wait for a voter that does not do what it should: somebody sees to it, unless told that there is
    /// no need.
    fn heal_after(&self, wait: Duration) -> Arc<AtomicBool> {
        let needed = Arc::new(AtomicBool::new(true));
        let (asked, disks) = (Arc::clone(&needed), self.disks.clone());
        self.core.after(wait, move || {
            if asked.load(Ordering::Relaxed) {
                disks.iter().for_each(SimDisk::heal);
            }
        });
        needed
    }

    /// Mounts the group, with everything healed if it must be. Then clients go on.
    pub async fn mount(&mut self) -> Result<(), Failure> {
        if !self.try_mount().await? {
            // With two voters and one of them away or failing, nobody can tell who carried on: the message says so.
            if self.ill.is_empty() && self.undo.is_empty() {
                return Err(format!("{}: not mounted, and nothing is wrong with it", self.name));
            }
            self.put_right();
            self.core.sleep(Duration::from_secs(1)).await;
            if !self.try_mount().await? {
                return Err(format!("{}: not mounted, and all is well again", self.name));
            }
        }
        self.start_clients();
        Ok(())
    }

    /// As [`Self::mount`], by force.
    pub async fn mount_by_force(&mut self) -> Result<(), Failure> {
        self.say(|| "it is mounted by force".to_owned());
        self.force = true;
        let mounted = self.mount().await;
        self.force = false;
        mounted
    }

    /// Clients look at everything, and go on.
    pub fn start_clients(&self) {
        self.mood.pause.store(false, Ordering::Relaxed);
        for client in &self.clients {
            let session = Session::new(Arc::clone(self.group()), None);
            self.core.spawn(self.process(), Box::pin(Arc::clone(client).live(session)));
        }
    }

    /// Clients end what they do, and do nothing more.
    pub async fn pause_clients(&mut self) -> Result<(), Failure> {
        self.mood.pause.store(true, Ordering::Relaxed);
        // Where two disks fail that cannot both be spared, writes wait for somebody to mend one.
        let is_lenient = self.mood.lenient.load(Ordering::Relaxed);
        let waited = self.heal_after(if is_lenient { MOUNT_WAIT } else { PATIENCE * 2 });
        let paused =
            self.until("the clients pause", |tenant| tenant.clients.iter().all(|client| client.is_idle())).await;
        waited.store(false, Ordering::Relaxed);
        paused
    }

    /// All disks do again what they should, and are where they were.
    pub fn put_right(&mut self) {
        for undo in std::mem::take(&mut self.undo).into_iter().rev() {
            match undo {
                Undo::Detach(path) => self.host.detach(&path),
                Undo::Image(disk, image) => disk.set_image(image),
                Undo::Size(disk, size) => disk.set_size(size),
                Undo::Attach(disk) => {
                    // It may have got another path meanwhile.
                    let path = self.path_of(&disk);
                    self.host.attach(&path, disk);
                }
            }
        }
        self.disks.iter().for_each(SimDisk::heal);
    }

    /// What its engine's end means for clients.
    pub fn ended(&mut self, power: bool) {
        if let Some(group) = self.group.take() {
            self.keep_caches(&group);
        }
        self.lull = false;
        self.mood.burst.store(false, Ordering::Relaxed);
        self.mood.churn.store(false, Ordering::Relaxed);
        for client in &self.clients {
            if power {
                client.model().power_cut();
            } else {
                client.model().engine_died(self.lossy);
            }
        }
        self.lossy = false;
    }

    /// Where the engine has not recorded that a disk fails, the disk has lost nothing.
    fn keep_caches(&self, group: &Group) {
        self.disks.iter().filter(|disk| self.serves(group, disk)).for_each(SimDisk::keep_cache);
    }

    /// The engine is killed.
    pub async fn kill(&mut self, moment: Fuse) -> Result<(), Failure> {
        self.die(moment).await?;
        self.say(|| "the engine is killed".to_owned());
        self.ended(false);
        Ok(())
    }

    /// The engine dies at a moment that comes soon.
    pub async fn die(&mut self, moment: Fuse) -> Result<(), Failure> {
        let process = self.process();
        let (patience, moment) = match moment {
            // Clients that rest take steps, too.
            Fuse::Steps(count) if self.lull => (LULL_LASTS, Fuse::Ios(count / 4)),
            moment if self.lull => (LULL_LASTS, moment),
            moment => {
                self.allow(20);
                (Duration::from_secs(1), moment)
            }
        };
        self.core.fuse(process, Some(moment));
        let (core, end) = (Arc::clone(&self.core), self.core.now() + patience);
        self.until("the engine's death", move |_| {
            if core.now() > end {
                core.kill(process);
            }
            core.is_dead(process)
        })
        .await
    }

    /// Dismounts the group; clients pause before, or are sent away.
    pub async fn dismount(&mut self, force: bool) -> Result<(), Failure> {
        self.say(|| format!("the group is dismounted{}", if force { " by force" } else { "" }));
        if force {
            self.mood.pause.store(true, Ordering::Relaxed);
        } else {
            self.pause_clients().await?;
        }
        let group = self.group.take().expect("mounted");
        let engine = Arc::clone(&group);
        // Now and then it does not come to the end of it.
        if self.core.one_in(4) {
            let ios = self.core.below(1 << self.core.below(7));
            self.core.fuse(self.process(), Some(Fuse::Ios(ios)));
        }
        let ended = self.inside(async move { engine.dismount(force).await }).await?;
        if ended.is_none() {
            self.say(|| "the engine is killed in that".to_owned());
        }
        let is_clean = !force && matches!(ended, Some(Ok(())));
        if let Some(Err(error)) = ended {
            if !self.mood.lenient.load(Ordering::Relaxed) && self.ill.is_empty() {
                return Err(format!("{}: dismount: {}", self.name, words(&error)));
            }
            self.say(|| format!("dismount: {}", words(&error)));
        }
        self.core.kill(self.process());
        self.core.sleep(Duration::from_secs(1)).await;
        self.failure()?;
        self.keep_caches(&group);
        if is_clean && !self.lossy && !self.mood.lenient.load(Ordering::Relaxed) && self.core.one_in(2) {
            self.say(|| "its disks lose power after that".to_owned());
            self.disks.iter().for_each(SimDisk::cut_power);
        }
        self.ended(false);
        Ok(())
    }

    /// An engine whose catalog has stopped says so and ends; then another one takes over.
    pub async fn replace_if_stopped(&mut self) -> Result<(), Failure> {
        let Some(group) = self.group.clone().filter(|group| group.failure().is_some()) else { return Ok(()) };
        if !self.mood.lenient.load(Ordering::Relaxed) && !self.lossy {
            return Err(format!("{}: the catalog stopped: {}", self.name, group.failure().unwrap_or_default()));
        }
        self.say(|| "the engine ends, because its catalog has stopped".to_owned());
        self.inside(async move { group.last_words().await }).await?;
        self.lossy = true;
        if self.forgetful {
            // What a mount would lose by a flush that fails, another engine wrote: not promised.
            self.disks.iter().for_each(|disk| disk.faults(|faults| faults.failing_flushes = 0));
        }
        self.kill(AT_ONCE).await?;
        self.stops += 1;
        if self.stops > STOPS_MAX {
            self.say(|| "somebody sees to the disk under the catalog".to_owned());
            self.disks.iter().for_each(SimDisk::heal);
        }
        self.mount().await
    }

    /// Nothing is wrong with the group any more, and all its disks are ONLINE.
    pub async fn make_whole(&mut self) -> Result<(), Failure> {
        if self.silent {
            self.repair().await?;
        }
        self.replace_if_stopped().await?;
        let was_lenient = self.mood.lenient.load(Ordering::Relaxed);
        if !self.ill.is_empty() || !self.undo.is_empty() {
            self.say(|| "all disks are well again".to_owned());
        }
        self.heal_all().await;
        self.mood.twice.store(false, Ordering::Relaxed);
        if was_lenient {
            // What is in doubt is settled by a mount.
            self.lossy = true;
            self.kill(AT_ONCE).await?;
            self.beyond = false;
            self.mood.restores.store(true, Ordering::Relaxed);
            self.mount().await?;
            self.until_looked().await?;
        }
        self.bring_online().await?;
        self.failure()?;
        if was_lenient {
            // A resync has met what was lost, and marked it.
            self.mood.be_strict();
        }
        self.ill.clear();
        self.stops = 0;
        self.beyond = false;
        Ok(())
    }

    /// All disks do again what they should. An error that is under way belongs to what was wrong before.
    pub async fn heal_all(&mut self) {
        let is_slow = self.disks.iter().any(|disk| disk.faults(|faults| !faults.slow.is_zero()));
        self.put_right();
        if is_slow || !self.ill.is_empty() {
            self.core.sleep(ERRORS_ARRIVE).await;
        }
    }

    /// Brings all disks ONLINE, and waits for it.
    pub async fn bring_online(&mut self) -> Result<(), Failure> {
        let end = self.core.now() + PATIENCE;
        loop {
            self.failure()?;
            self.part_with_former();
            match self.ask_online().await? {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => self.say(|| format!("online: {}", words(&error))),
            }
            if self.core.now() > end {
                return Err(format!("{}: not all disks are online again", self.name));
            }
            self.core.sleep(Duration::from_millis(500)).await;
        }
    }

    /// Says ONLINE ALL where a disk is offline. Whether all are ONLINE.
    pub async fn ask_online(&mut self) -> Result<Result<bool, AdminError>, Failure> {
        let group = Arc::clone(self.group());
        let online = self.inside(async move {
            let away = group.members().iter().any(|(_, state)| *state == DiskState::Offline);
            let stuck = group.operations().iter().any(|one| one.pass == "REBALANCE" && one.state == "ERRS");
            if stuck && !away {
                // What is left on a disk that leaves finds no place: it stays after all.
                return group.undrop().await.map(|()| false);
            }
            if away {
                group.online(Selection::All).await.map(|()| false)
            } else {
                let busy = group.operations().iter().any(|operation| operation.state == "RUN");
                Ok(!busy && group.members().iter().all(|(_, state)| *state == DiskState::Online))
            }
        });
        Ok(online.await?.ok_or("the engine died by itself")?)
    }

    /// The operator has everything checked and repaired.
    pub async fn repair(&mut self) -> Result<(), Failure> {
        self.say(|| "the operator checks and repairs".to_owned());
        for disk in &self.disks {
            // What was told to go astray and found no I/O to do it with will not any more.
            disk.faults(|faults| {
                faults.lost_writes = 0;
                faults.misdirected_writes = 0;
                faults.misdirected_reads = 0;
            });
        }
        let had_noticed = self.has_noticed();
        let mut report = self.report(true).await?;
        if report.problems.iter().any(|problem| !problem.repaired) && !had_noticed {
            // A disk that fails was met by the check first, and is offline now.
            report = self.report(true).await?;
        }
        let left: Vec<_> = report.problems.iter().filter(|problem| !problem.repaired).collect();
        if let Some(problem) = left.first() {
            return Err(format!(
                "{}: check with repair: {} of {} problems stay, such as {}",
                self.name,
                left.len(),
                report.problems.len(),
                problem.text
            ));
        }
        self.failure()?;
        self.silent = false;
        Ok(())
    }

    /// Everything is as it should be, on every disk in sight.
    pub async fn check(&self) -> Result<(), Failure> {
        if self.core.one_in(2) {
            // Nobody needs to stop working for that.
            self.allow(60);
        }
        let report = self.report(false).await?;
        let problems: Vec<&str> = report.problems.iter().map(|problem| problem.text.as_str()).take(5).collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(format!("{}: check: {} problems: {}", self.name, report.problems.len(), problems.join("; ")))
        }
    }

    async fn report(&self, repair: bool) -> Result<Report, Failure> {
        let group = Arc::clone(self.group());
        let ended = self.inside(async move { group.check(repair).await }).await?.ok_or("the engine died by itself")?;
        ended.map_err(|error| format!("{}: check: {}", self.name, words(&error)))
    }

    /// All that the clients did is there, as they left it. They must be idle.
    pub async fn verify(&self) -> Result<(), Failure> {
        for client in self.clients.clone() {
            let session = Session::new(Arc::clone(self.group()), None);
            let verified = self.inside(async move { client.verify(&session).await }).await?;
            let verified = verified.ok_or("the engine died by itself")?;
            verified.map_err(|failure| format!("{}: {failure}", self.name))?;
        }
        Ok(())
    }

    /// A file takes all the space that is left.
    pub async fn fill(&mut self) -> Result<(), Failure> {
        let session = Session::new(Arc::clone(self.group()), None);
        let au_size = self.shape.au_size;
        self.full = true;
        let filled = self.inside(async move {
            let made = session.create(ROOT, FILLER, NewFile::Regular, 0o644, Caller { uid: 0, gid: 0 }).await;
            let node = match made {
                Ok(attributes) => attributes.node,
                // It was filled before.
                Err(FileError::NoSpace | FileError::Exists) => return Ok(()),
                Err(error) => return Err(error),
            };
            let (mut at, mut step) = (0, 64 * au_size.max(MIB));
            while step >= au_size {
                match session.allocate(node, at, step, Allocate::Reserve { keep_size: false }, false).await {
                    Ok(()) => at += step,
                    Err(FileError::NoSpace) => step /= 2,
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        match filled.await?.ok_or("the engine died by itself")? {
            Ok(()) => Ok(()),
            Err(error) if !self.ill.is_empty() => {
                self.say(|| format!("filling: {error}"));
                Ok(())
            }
            Err(error) => Err(format!("{}: filling: {error}", self.name)),
        }
    }

    /// The catalog takes all the space that it has, and would take more.
    pub async fn swell(&mut self) -> Result<(), Failure> {
        let session = Session::new(Arc::clone(self.group()), None);
        let swollen = self.inside(async move {
            let node = session.lookup(ROOT, FILLER).await?.node;
            for number in 0..SWELLING {
                let name = format!("user.{number}");
                session.set_xattr(node, name.as_bytes(), &[0x5a; 60_000], SetXattr::Any).await?;
            }
            Ok::<_, FileError>(())
        });
        match swollen.await?.ok_or("the engine died by itself")? {
            Ok(()) | Err(FileError::NoSpace | FileError::NotFound) => Ok(()),
            Err(error) if !self.ill.is_empty() => {
                self.say(|| format!("swelling: {error}"));
                Ok(())
            }
            Err(error) => Err(format!("{}: swelling: {error}", self.name)),
        }
    }

    /// The file that took all space is removed.
    pub async fn make_room(&mut self) -> Result<(), Failure> {
        let session = Session::new(Arc::clone(self.group()), None);
        let removed = self.inside(async move { session.unlink(ROOT, FILLER).await }).await?;
        match removed.ok_or("the engine died by itself")? {
            Ok(()) | Err(FileError::NotFound) => {
                self.full = false;
                Ok(())
            }
            Err(error) => Err(format!("{}: making room: {error}", self.name)),
        }
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
        futures::future::Either::Right(_) => Err(format!("an operation did not end within {} s", PATIENCE.as_secs())),
    }
}

pub fn words(error: &AdminError) -> String {
    match &error.hint {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}
