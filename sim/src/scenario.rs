//! Stories: a host, its disks and a group called DATA, in the field's words.
//!
//! ```text
//!   let mut world = World::new(seed).disks(&["A", "B"]).group(Redundancy::Normal);
//!   world.create_file("redo");
//!   world.write("redo", 0, b"committed");
//!   world.sync("redo");
//!   world.fail(1);                      // every I/O of that disk fails from now on
//!   world.cut_power();
//!   world.mount();
//!   world.verify();                     // every file reads back as it was acknowledged
//!   world.check();                      // every invariant, engine/src/check/mod.rs
//! ```
//!
//! Each verb runs the simulated host until its goal is reached, and panics with the seed and the
//! story if it is not. The world remembers the acknowledged contents of files, and the synced ones:
//! after a loss of power only those are known.

mod records;

pub use records::reseal;

use crate::{
    disk::SimDisk,
    executor::{Core, Executor, Fuse, Sleep, Stuck},
    world::{Host, ProcessWorld},
};
use plinth_engine::{
    admin::{
        AdminError, Code, NewGroup, Operation, OperationPass, OperationState, Report, Selection,
        Survey,
    },
    api::{Caller, Changes, ConnectionId, NewFile, Node, ROOT},
    error::FileError,
    event::Event,
    files::session::Session,
    group::Group,
    testing::{Image, Numbers, new_group},
    world::{
        Sectors, World as _,
        discard_limits::{DiscardLimits, DiscardMeans},
    },
};
use plinth_format::{Redundancy, layout::MIB, membership::DiskState};
use plinth_workload::lock;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt::Display,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// SQLite's generator of numbers belongs to the process, so one world exists at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Virtual time that anything may take, before it counts as never.
const PATIENCE: Duration = Duration::from_secs(600);

/// Bytes of a disk, if the story does not say.
pub const DISK_SIZE: u64 = 40 * MIB;

/// Sectors of a disk, if the story does not say.
pub const SECTORS: Sectors = Sectors { logical: 512, physical: 4096 };

/// Any block can be discarded by itself.
pub const FINE: DiscardLimits = DiscardLimits {
    means: DiscardMeans::Unmap,
    granularity: 4096,
    alignment: 0,
    maximum: u64::MAX,
};

const CALLER: Caller = Caller { uid: 0, gid: 0 };

/// A file of a story: by its name in the root directory, or by its node, as a program that has it
/// open. Bytes that are written by a node are not verified at the end.
#[derive(Debug, Clone)]
pub enum Target {
    Name(String),
    Node(Node),
}

impl From<&str> for Target {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<&String> for Target {
    fn from(name: &String) -> Self {
        Self::Name(name.clone())
    }
}

impl From<Node> for Target {
    fn from(node: Node) -> Self {
        Self::Node(node)
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Node(node) => write!(f, "node {node}"),
        }
    }
}

/// The acknowledged contents of a file, and the synced one.
#[derive(Debug, Clone, Default)]
struct Content {
    now: Vec<u8>,
    synced: Option<Vec<u8>>,
}

/// Unwinds a story whose engine died, as it expects.
struct Died;

/// Something that was begun in the engine's process and is not waited for.
pub struct Begun<T>(Arc<Mutex<Option<T>>>);

impl<T> Begun<T> {
    /// Whether it has ended. It never does if its process ends first.
    pub fn is_finished(&self) -> bool {
        lock(&self.0).is_some()
    }
}

impl<T: Copy> Begun<Result<T, FileError>> {
    /// Whether it has ended, and how.
    pub fn ended(&self) -> Option<Result<T, String>> {
        lock(&self.0).as_ref().map(|ended| ended.as_ref().copied().map_err(ToString::to_string))
    }
}

/// See the module's description.
pub struct World {
    pub seed: u64,
    core: Arc<Core>,
    host: Arc<Host>,
    process: Arc<ProcessWorld>,
    group: Option<Arc<Group>>,
    disks: Vec<SimDisk>,
    failure_groups: Vec<String>,
    redundancy: Redundancy,
    files: BTreeMap<String, Content>,
    /// Names of the files that the story has made, by their nodes.
    names: BTreeMap<Node, String>,
    /// Lines that the alert logs had when the last mount began.
    log_at_mount: usize,
    /// When the process of the next mount dies.
    next_fuse: Option<Fuse>,
    /// The story expects that the engine dies.
    is_doomed: bool,
    /// Last: it ends the tasks of the others.
    executor: Option<Executor>,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}\n{}", self.seed, self.core.story().join("\n"));
            // The executor may be in any state.
            std::mem::forget(self.executor.take());
        }
        // Dead processes leave their stacks behind, and with them the disks.
        self.disks.iter().for_each(|disk| disk.set_image(Image::zeroed()));
    }
}

/// Bytes that name their place.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Numbers::new(seed).fill(&mut bytes);
    bytes
}

/// A refusal with its hint.
pub fn words(error: &AdminError) -> String {
    format!("{error} ({})", error.hint.as_deref().unwrap_or("no hint"))
}

/// The result of a task; `None` if `late` ends first.
async fn before<T>(late: Sleep, task: impl Future<Output = T>) -> Option<T> {
    match futures::future::select(std::pin::pin!(task), late).await {
        futures::future::Either::Left((result, _)) => Some(result),
        futures::future::Either::Right(_) => None,
    }
}

async fn node_of(session: &Session, target: &Target) -> Result<Node, FileError> {
    match target {
        Target::Name(name) => Ok(session.lookup(ROOT, name.as_bytes()).await?.node),
        Target::Node(node) => Ok(*node),
    }
}

impl World {
    /// A host without disks. Only one exists at a time: the next one waits until this one ends.
    pub fn new(seed: u64) -> Self {
        let turn = lock(&TURN);
        let executor = Executor::new(seed, std::env::var_os("PLINTH_TELL").is_some());
        let core = Arc::clone(executor.core());
        let host = Host::new(&core);
        let process = host.process();
        Self {
            seed,
            core,
            host,
            process,
            group: None,
            disks: Vec::new(),
            failure_groups: Vec::new(),
            redundancy: Redundancy::Normal,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            log_at_mount: 0,
            next_fuse: None,
            is_doomed: false,
            executor: Some(executor),
            _turn: turn,
        }
    }

    /// Adds a disk of [`DISK_SIZE`] for each failure group named; those that begin with Q hold no
    /// data.
    #[must_use]
    pub fn disks(self, failure_groups: &[&str]) -> Self {
        self.disks_of(DISK_SIZE, failure_groups)
    }

    /// As [`Self::disks`], with disks of `size` bytes.
    #[must_use]
    pub fn disks_of(mut self, size: u64, failure_groups: &[&str]) -> Self {
        for name in failure_groups {
            self.add_disk(size, SECTORS, name);
        }
        self
    }

    /// Adds a disk of `size` bytes to the host. Returns its number.
    pub fn add_disk(&mut self, size: u64, sectors: Sectors, failure_group: &str) -> usize {
        self.add_disk_honouring(FINE, size, sectors, failure_group)
    }

    /// As [`Self::add_disk`]. If the disk honours discards, then these.
    pub fn add_disk_honouring(
        &mut self,
        limits: DiscardLimits,
        size: u64,
        sectors: Sectors,
        failure_group: &str,
    ) -> usize {
        let path = format!("/disk{}", self.disks.len());
        let disk = SimDisk::new(&self.core, &path, size, sectors).honouring(limits);
        self.host.attach(&path, disk.clone());
        self.disks.push(disk);
        self.failure_groups.push(failure_group.to_owned());
        self.disks.len() - 1
    }

    /// Makes a group of all disks and mounts it.
    #[must_use]
    pub fn group(mut self, redundancy: Redundancy) -> Self {
        self.create_of_all(redundancy);
        self
    }

    /// As [`Self::group`].
    pub fn create_of_all(&mut self, redundancy: Redundancy) {
        let all: Vec<usize> = (0..self.disks.len()).collect();
        self.create(redundancy, &all)
            .unwrap_or_else(|error| self.fail_with("create", words(&error)));
        self.mount();
    }

    /// Makes a group of some disks.
    ///
    /// # Errors
    /// The refusal.
    pub fn create(&mut self, redundancy: Redundancy, disks: &[usize]) -> Result<(), AdminError> {
        let disks =
            disks.iter().map(|disk| (self.disks[*disk].label(), &self.failure_groups[*disk][..]));
        self.create_as(new_group(redundancy, MIB, disks))
    }

    /// Makes a group as a statement describes it.
    ///
    /// # Errors
    /// The refusal.
    pub fn create_as(&mut self, new: NewGroup) -> Result<(), AdminError> {
        self.redundancy = new.redundancy;
        let world = self.process_world();
        self.alive(async move { Group::create(&world, new).await })
    }

    /// The world of the engine's process.
    fn process_world(&self) -> Arc<dyn plinth_engine::world::World> {
        Arc::clone(&self.process) as Arc<dyn plinth_engine::world::World>
    }

    fn fail_with(&self, what: impl Display, why: impl Display) -> ! {
        panic!("seed {}: {what}: {why}", self.seed)
    }

    fn say(&self, line: impl Display) {
        self.core.tell(|| format!("-- {line}"));
    }

    fn drive<T: Send + 'static>(&mut self, task: impl Future<Output = T> + Send + 'static) -> T {
        let ended = self.executor.as_mut().expect("it lives as long as the world").run(task);
        self.unless_stuck(ended)
    }

    /// The result, unless it never comes.
    fn unless_stuck<T>(&self, ended: Result<T, Stuck>) -> T {
        match ended {
            Ok(value) => value,
            Err(Stuck::Deadlock) => {
                self.fail_with("stuck", "deadlock: no task is ready, and no alarm is set")
            }
            Err(Stuck::Endless) => {
                self.fail_with("stuck", "it did not end within the greatest number of steps")
            }
        }
    }

    /// Runs a task in the engine's process. `None`: the process died first.
    fn inside<T: Send + 'static>(
        &mut self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = futures::channel::oneshot::channel();
        let task = async move {
            let _ = sender.send(task.await);
        };
        self.core.spawn(self.process.process(), Box::pin(task));
        let ended = self.drive(before(self.core.sleep(PATIENCE), receiver));
        ended.unwrap_or_else(|| self.took_too_long()).ok()
    }

    fn alive<T: Send + 'static>(&mut self, task: impl Future<Output = T> + Send + 'static) -> T {
        self.inside(task).unwrap_or_else(|| self.died())
    }

    /// Runs something to its end, which may borrow from the story: as the code of a front end that
    /// calls the engine.
    pub fn finish<T>(&mut self, task: impl Future<Output = T>) -> T {
        let (process, task) = (self.process.process(), before(self.core.sleep(PATIENCE), task));
        let executor = self.executor.as_mut().expect("it lives as long as the world");
        let ended = executor.run_here(process, task);
        let ended = self.unless_stuck(ended).unwrap_or_else(|| self.died());
        ended.unwrap_or_else(|| self.took_too_long())
    }

    fn took_too_long(&self) -> ! {
        self.fail_with("an operation", format!("did not end within {PATIENCE:?}"))
    }

    /// The engine's process has died while the story went on.
    fn died(&self) -> ! {
        if self.is_doomed {
            std::panic::resume_unwind(Box::new(Died));
        }
        self.fail_with("the engine", "died by itself")
    }

    /// Runs `work`; the engine's process dies after this many beginnings and ends of changes to
    /// disks, counted from the next mount, and `work` ends there. Returns whether it was cut short.
    pub fn cut_short(world: &RefCell<Self>, changes: u64, work: impl FnOnce()) -> bool {
        let set = |changes: Option<u64>| {
            let mut world = world.borrow_mut();
            (world.next_fuse, world.is_doomed) = (changes.map(Fuse::Changes), changes.is_some());
            let process = world.process.process();
            world.core.fuse(process, None);
        };
        set(Some(changes));
        let ended = std::panic::catch_unwind(AssertUnwindSafe(work));
        set(None);
        match ended {
            Ok(()) => false,
            Err(cause) if cause.is::<Died>() => true,
            Err(cause) => std::panic::resume_unwind(cause),
        }
    }

    /// Begins something in the engine's process, and does not wait for it.
    pub fn begin<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Begun<T> {
        let begun = Arc::new(Mutex::new(None));
        let place = Arc::clone(&begun);
        let task = async move {
            let ended = task.await;
            *lock(&place) = Some(ended);
        };
        self.core.spawn(self.process.process(), Box::pin(task));
        Begun(begun)
    }

    /// Waits for the end of something that was begun.
    pub fn end<T>(&mut self, begun: Begun<T>) -> T {
        self.until("the end of what was begun", |_| begun.is_finished());
        lock(&begun.0).take().expect("it is finished")
    }

    /// Lets time pass.
    pub fn wait(&mut self, time: Duration) {
        let sleep = self.core.sleep(time);
        self.drive(sleep);
    }

    /// Lets time pass until a condition holds.
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let end = self.core.now() + PATIENCE;
        while !is_so(self) {
            if self.core.now() > end {
                self.fail_with(what, format!("not within {PATIENCE:?}"));
            }
            self.step(Duration::from_millis(100));
        }
    }

    /// As [`Self::wait`], for a story that waits for the engine.
    pub fn step(&mut self, time: Duration) {
        if self.core.is_dead(self.process.process()) {
            self.died();
        }
        self.wait(time);
    }

    // The group.

    /// The group, which is mounted.
    pub fn mounted(&self) -> Arc<Group> {
        Arc::clone(self.group.as_ref().expect("it is mounted"))
    }

    pub fn is_mounted(&self) -> bool {
        self.group.is_some()
    }

    /// Mounts the group in a new process.
    ///
    /// # Errors
    /// The refusal.
    pub fn try_mount(&mut self, force: bool) -> Result<(), AdminError> {
        self.mount_for(force, &[])
    }

    /// Mounts the group in a new process, which serves these connections of the one before.
    pub fn resume(&mut self, connections: &[ConnectionId]) {
        if let Err(error) = self.mount_for(false, connections) {
            self.fail_with("resume", words(&error));
        }
    }

    fn mount_for(&mut self, force: bool, connections: &[ConnectionId]) -> Result<(), AdminError> {
        self.end_process();
        self.say(if force { "mount force" } else { "mount" });
        self.log_at_mount = self.host.events().len();
        self.core.fuse(self.process.process(), self.next_fuse.take());
        loop {
            let world = self.process_world();
            let connections = connections.to_vec();
            let mount = async move { Group::resume(world, "DATA", force, &connections[..]).await };
            match self.alive(mount) {
                // I/O of the process before is still in flight.
                Err(error) if error.code == Code::HeldElsewhere => {
                    self.wait(Duration::from_millis(50))
                }
                mounted => {
                    self.group = Some(mounted?);
                    return Ok(());
                }
            }
        }
    }

    pub fn mount(&mut self) {
        if let Err(error) = self.try_mount(false) {
            self.fail_with("mount", words(&error));
        }
    }

    /// Why the group is not mounted, in the operator's words; it must not be.
    pub fn refused(&mut self, force: bool) -> String {
        match self.try_mount(force) {
            Ok(()) => self.fail_with("mount", "it mounts, and must not"),
            Err(error) if error.hint.is_none() => {
                self.fail_with("mount", format!("no remedy: {error}"))
            }
            Err(error) => words(&error),
        }
    }

    /// The host forgets which devices it used.
    pub fn forget_notes(&mut self) {
        self.host.forget_notes();
    }

    /// Dismounts in good order.
    pub fn dismount(&mut self) {
        if let Err(error) = self.try_dismount() {
            self.fail_with("dismount", words(&error));
        }
    }

    /// Dismounts, and ends the process whether that succeeded or not.
    ///
    /// # Errors
    /// The refusal.
    pub fn try_dismount(&mut self) -> Result<(), AdminError> {
        let group = self.group.take().expect("it is mounted");
        let ended = self.alive(async move { group.dismount(false).await });
        self.end_process();
        ended
    }

    fn end_process(&mut self) {
        self.group = None;
        self.core.kill(self.process.process());
        self.process = self.host.process();
        // The dead process is cleared away before the next one begins.
        self.wait(Duration::from_millis(1));
    }

    /// Ends the engine's process with `SIGKILL`.
    pub fn kill(&mut self) {
        self.say("the engine is killed");
        self.end_process();
    }

    /// Cuts the host's power: what was not flushed survives or not, sector by sector.
    pub fn cut_power(&mut self) {
        self.lose_power(SimDisk::cut_power);
    }

    /// As [`Self::cut_power`], with disks whose sectors may tear, those of data too.
    pub fn tear_and_cut_power(&mut self) {
        self.lose_power(SimDisk::tear_and_cut_power);
    }

    fn lose_power(&mut self, cut: impl Fn(&SimDisk)) {
        self.say("the power is cut");
        self.core.kill(self.process.process());
        self.disks.iter().for_each(cut);
        self.host.reboot();
        self.end_process();
        // Bytes written since the last sync may be there or not, as may names.
        self.files.retain(|_, content| content.synced.as_ref() == Some(&content.now));
    }

    /// Stops the engine's process for a while, as `SIGSTOP` does.
    pub fn freeze(&mut self, time: Duration) {
        self.say(format!("the engine is frozen for {time:?}"));
        self.core.freeze(self.process.process());
        self.wait(time);
        self.core.thaw(self.process.process());
    }

    // Disks, by their number.

    pub fn disk(&self, disk: usize) -> &SimDisk {
        &self.disks[disk]
    }

    pub fn redundancy(&self) -> Redundancy {
        self.redundancy
    }

    /// Moves the wall clock.
    pub fn shift_clock(&mut self, by: Duration) {
        self.host.move_clock(i64::try_from(by.as_nanos()).expect("less than 292 years"));
    }

    /// The failure group of each disk.
    pub fn failure_groups(&self) -> &[String] {
        &self.failure_groups
    }

    pub fn disk_count(&self) -> usize {
        self.disks.len()
    }

    /// Every I/O of the disk fails.
    pub fn fail(&mut self, disk: usize) {
        self.say(format!("disk {disk} fails"));
        self.disks[disk].faults(|faults| faults.gone = true);
    }

    /// The disk does not answer.
    pub fn hang(&mut self, disk: usize) {
        self.say(format!("disk {disk} hangs"));
        self.disks[disk].faults(|faults| faults.hang = true);
    }

    pub fn heal(&mut self, disk: usize) {
        self.say(format!("disk {disk} is well again"));
        self.disks[disk].heal();
    }

    /// The disk is removed: its I/O fails, and discovery does not find it.
    pub fn lose(&mut self, disk: usize) {
        self.say(format!("disk {disk} is missing"));
        self.disks[disk].faults(|faults| faults.gone = true);
        self.host.detach(self.disks[disk].label());
    }

    /// The disk is put back.
    pub fn give_back(&mut self, disk: usize) {
        self.say(format!("disk {disk} is back"));
        self.disks[disk].heal();
        self.host.attach(self.disks[disk].label(), self.disks[disk].clone());
    }

    /// Only these disks are visible.
    pub fn present(&mut self, present: &[usize]) {
        for disk in 0..self.disks.len() {
            if present.contains(&disk) { self.give_back(disk) } else { self.lose(disk) }
        }
    }

    /// Shows a device at a path.
    pub fn attach(&mut self, path: &str, device: SimDisk) {
        self.say(format!("{path} appears"));
        self.host.attach(path, device);
    }

    pub fn detach(&mut self, path: &str) {
        self.say(format!("{path} is gone"));
        self.host.detach(path);
    }

    /// The contents of all disks, to be put back with [`Self::restore`].
    pub fn images(&self) -> Vec<Image> {
        self.disks.iter().map(SimDisk::image).collect()
    }

    pub fn restore(&mut self, images: &[Image]) {
        self.disks.iter().zip(images).for_each(|(disk, image)| disk.set_image(image.clone()));
    }

    pub fn state(&self, disk: usize) -> DiskState {
        self.mounted().members()[disk].1
    }

    pub fn survey(&mut self) -> Vec<Survey> {
        let world = self.process_world();
        self.alive(async move { Group::survey(&world).await }).expect("a look that ends")
    }

    /// `OFFLINE DISKS IN FAILURE GROUP`.
    pub fn offline(&mut self, failure_group: &str) {
        let (group, names) = (self.mounted(), vec![failure_group.to_owned()]);
        if let Err(error) =
            self.alive(async move { group.offline(Selection::FailureGroups(names), None).await })
        {
            self.fail_with("offline", words(&error));
        }
    }

    /// `ONLINE ALL`, without waiting for its end.
    ///
    /// # Errors
    /// The refusal.
    pub fn try_online(&mut self) -> Result<(), AdminError> {
        let group = self.mounted();
        self.alive(async move { group.online(Selection::All).await })
    }

    pub fn operations(&self) -> Vec<Operation> {
        self.mounted().operations()
    }

    /// `ONLINE ALL WAIT`: until all disks are ONLINE and no operation runs.
    pub fn online(&mut self) {
        self.until("all disks ONLINE", |world| {
            let group = world.mounted();
            if group.members().iter().any(|(_, state)| *state == DiskState::Offline) {
                // Old I/O may still be in flight.
                let _ = world.try_online();
                return false;
            }
            let busy =
                group.operations().iter().any(|operation| operation.state == OperationState::Run);
            !busy && group.members().iter().all(|(_, state)| *state == DiskState::Online)
        });
    }

    /// Waits until all regions that were active at a crash are compared.
    pub fn recover(&mut self) {
        self.until("the end of recovery", |world| {
            world.operations().iter().all(|one| one.pass != OperationPass::Recovery)
        });
    }

    /// Whether the alert log has had this line since the last mount began.
    pub fn told(&self, text: &str) -> bool {
        let events = self.host.events();
        events[self.log_at_mount..].iter().any(|event| event.to_string().contains(text))
    }

    /// The alert log since the first mount.
    pub fn events(&self) -> Vec<Event> {
        self.host.events().clone()
    }

    /// Asserts that the alert log has had this line since the last mount began.
    pub fn is_told(&self, text: &str) {
        if !self.told(text) {
            self.fail_with("not in the alert log", text);
        }
    }

    // Files.

    /// A session of a program that is not known by its mount.
    pub fn session(&self) -> Session {
        Session::new(self.mounted(), None)
    }

    fn with_file<T: Send + 'static, F: Future<Output = Result<T, FileError>> + Send>(
        &mut self,
        target: Target,
        act: impl FnOnce(Session, Node) -> F + Send + 'static,
    ) -> Result<T, FileError> {
        let session = self.session();
        self.alive(async move { act(session.clone(), node_of(&session, &target).await?).await })
    }

    fn done<T>(&self, what: &str, target: impl Display, ended: Result<T, FileError>) -> T {
        ended.unwrap_or_else(|error| self.fail_with(format_args!("{what} {target}"), error))
    }

    /// The acknowledged contents of a file, if they are verified.
    fn content(&mut self, target: &Target) -> Option<&mut Content> {
        match target {
            Target::Name(name) => self.files.get_mut(name),
            Target::Node(_) => None,
        }
    }

    /// The contents of a file are not known any more.
    pub fn forget(&mut self, target: impl Into<Target>) {
        let name = match target.into() {
            Target::Name(name) => Some(name),
            Target::Node(node) => self.names.get(&node).cloned(),
        };
        if let Some(name) = name {
            self.files.remove(&name);
        }
    }

    /// Makes an empty file in the root directory.
    pub fn create_file(&mut self, name: &str) -> Node {
        let (session, file) = (self.session(), name.to_owned());
        let made = self.alive(async move {
            session.create(ROOT, file.as_bytes(), NewFile::Regular, 0o644, CALLER).await
        });
        let node = self.done("create", name, made).node;
        self.files.insert(name.to_owned(), Content::default());
        self.names.insert(node, name.to_owned());
        node
    }

    /// The node of a file in the root directory.
    pub fn find(&mut self, name: &str) -> Node {
        let found = self.with_file(name.into(), |_, node| async move { Ok(node) });
        self.done("find", name, found)
    }

    /// Returns once the write is acknowledged.
    pub fn write(&mut self, file: impl Into<Target>, offset: u64, bytes: &[u8]) {
        let target = file.into();
        let ended = self.try_write(target.clone(), offset, bytes);
        self.done("write", target, ended);
    }

    /// # Errors
    /// The error that the program gets; then the range has the old bytes or the new ones, and the
    /// file is not verified any more.
    pub fn try_write(
        &mut self,
        file: impl Into<Target>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), FileError> {
        let (target, data) = (file.into(), bytes.to_vec());
        if let Target::Node(node) = target {
            self.forget(node);
        }
        let ended = self.with_file(target.clone(), move |session, node| async move {
            session.write(node, offset, &data, false).await
        });
        if ended.is_err() {
            self.forget(target);
        } else if let Some(content) = self.content(&target) {
            let offset = usize::try_from(offset).expect("a small file");
            let end = offset + bytes.len();
            content.now.resize(content.now.len().max(end), 0);
            content.now[offset..end].copy_from_slice(bytes);
        }
        ended
    }

    /// Begins a write and does not wait for it. The file is not verified any more: the write may
    /// have happened or not.
    pub fn begin_write(
        &mut self,
        file: impl Into<Target>,
        offset: u64,
        bytes: &[u8],
    ) -> Begun<Result<(), FileError>> {
        let (session, target, data) = (self.session(), file.into(), bytes.to_vec());
        self.forget(target.clone());
        self.begin(async move {
            let node = node_of(&session, &target).await?;
            session.write(node, offset, &data, false).await
        })
    }

    pub fn sync(&mut self, file: impl Into<Target>) {
        let target = file.into();
        let ended = self.try_sync(target.clone());
        self.done("sync", target, ended);
    }

    /// # Errors
    /// The error that the program gets.
    pub fn try_sync(&mut self, file: impl Into<Target>) -> Result<(), FileError> {
        let target = file.into();
        let sync = |session: Session, node| async move { session.sync(node, false).await };
        self.with_file(target.clone(), sync)?;
        if let Some(content) = self.content(&target) {
            content.synced = Some(content.now.clone());
        }
        Ok(())
    }

    /// A file with `bytes` in it, synced.
    pub fn store(&mut self, name: &str, bytes: &[u8]) {
        self.create_file(name);
        self.write(name, 0, bytes);
        self.sync(name);
    }

    pub fn read(&mut self, file: impl Into<Target>, offset: u64, length: usize) -> Vec<u8> {
        let target = file.into();
        let read = self.try_read(target.clone(), offset, length);
        self.done("read", target, read)
    }

    /// # Errors
    /// The error that the program gets.
    pub fn try_read(
        &mut self,
        file: impl Into<Target>,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>, FileError> {
        self.with_file(file.into(), move |session, node| async move {
            let mut bytes = vec![0xee; length];
            let count = session.read(node, offset, &mut bytes).await?;
            bytes.truncate(count);
            Ok(bytes)
        })
    }

    pub fn truncate(&mut self, file: impl Into<Target>, size: u64) {
        let target = file.into();
        if let Target::Node(node) = target {
            self.forget(node);
        }
        let changes = Changes { size: Some(size), ..Changes::default() };
        let cut = self.with_file(target.clone(), move |session, node| async move {
            session.change(node, changes).await
        });
        self.done("truncate", &target, cut);
        if let Some(content) = self.content(&target) {
            content.now.resize(usize::try_from(size).expect("a small file"), 0);
        }
    }

    pub fn remove(&mut self, name: &str) {
        let removed = self.try_remove(name);
        self.done("remove", name, removed);
    }

    /// # Errors
    /// The error that the program gets.
    pub fn try_remove(&mut self, name: &str) -> Result<(), FileError> {
        let (session, file) = (self.session(), name.to_owned());
        self.files.remove(name);
        self.alive(async move { session.unlink(ROOT, file.as_bytes()).await })
    }

    /// Every file reads back as it was acknowledged, on every mirror in turn.
    pub fn verify(&mut self) {
        let files: Vec<(String, Vec<u8>)> =
            self.files.iter().map(|(name, file)| (name.clone(), file.now.clone())).collect();
        for (name, expected) in files {
            for _ in 0..self.redundancy.mirrors() {
                let found = self.read(&name, 0, expected.len() + 1);
                if found != expected {
                    let at = found.iter().zip(&expected).position(|(one, other)| one != other);
                    self.fail_with(
                        &name,
                        format!("differs from {at:?} on, of {} bytes", expected.len()),
                    );
                }
            }
        }
    }

    /// Checks everything, and repairs it if asked.
    pub fn report(&mut self, repair: bool) -> Report {
        self.try_check(repair).unwrap_or_else(|error| self.fail_with("check", words(&error)))
    }

    /// # Errors
    /// If the check itself cannot go on.
    pub fn try_check(&mut self, repair: bool) -> Result<Report, AdminError> {
        let group = self.mounted();
        self.alive(async move { group.check(repair).await })
    }

    /// Asserts that every disk that is ONLINE has everything in order.
    pub fn check(&mut self) {
        let problems: Vec<String> =
            self.report(false).problems.into_iter().map(|problem| problem.text).collect();
        if !problems.is_empty() {
            self.fail_with("check", problems.join("; "));
        }
    }

    /// The end of every story: recovered, verified, checked; and again after a dismount and a
    /// mount.
    pub fn ends_well(&mut self) {
        for round in 0..2 {
            if round > 0 {
                self.dismount();
                self.mount();
            }
            self.online();
            self.recover();
            self.verify();
            self.check();
        }
    }

    /// The world of the engine's process.
    pub fn boot(&self) -> [u8; 16] {
        self.process.boot_id()
    }
}
