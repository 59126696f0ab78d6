//! The world as one process of the simulated host sees it.

use crate::{
    disk::SimDisk,
    executor::{self, Core, ProcessId},
};
use plinth_engine::{
    event::{Event, Severity},
    testing::Words,
    world::{Found, Identity, SurvivingWords, Task, Timestamp, World},
};
use plinth_workload::lock;
use std::{
    collections::BTreeMap,
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
    time::Duration,
};

/// The host: its disks, its clock, its boot.
pub struct Host {
    core: Arc<Core>,
    /// By path, as discovery shows them.
    disks: Mutex<BTreeMap<String, SimDisk>>,
    boot: Mutex<[u8; 16]>,
    /// By name. After a reboot they hold what they held: an engine must not trust them.
    surviving_words: Mutex<BTreeMap<String, Arc<Words>>>,
    notes: Mutex<BTreeMap<String, String>>,
    clock: AtomicI64,
    processes: AtomicU32,
    /// The alert logs of all processes.
    events: Mutex<Vec<Event>>,
}

/// One of [`WORDS_FAIL`] words that a process stores for its successor fails, in histories whose
/// faults strike midway: there is no memory for it.
const WORDS_FAIL: u64 = 300;

/// The words of a process.
struct Kept {
    words: Arc<Words>,
    host: Arc<Host>,
    process: ProcessId,
}

impl SurvivingWords for Kept {
    fn words(&self) -> io::Result<Vec<u64>> {
        self.words.words()
    }

    fn store(&self, at: usize, word: u64) -> io::Result<()> {
        let core = &self.host.core;
        if !core.keeps_word(self.process) || core.fails_midway() && core.one_in(WORDS_FAIL) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.words.store(at, word)
    }
}

/// Wall clock at the beginning of every history: a day in 2026, in nanoseconds.
const BEGINNING: Timestamp = 1_790_000_000_000_000_000;

impl Host {
    pub fn new(core: &Arc<Core>) -> Arc<Self> {
        let host = Self {
            core: Arc::clone(core),
            disks: Mutex::default(),
            boot: Mutex::default(),
            surviving_words: Mutex::default(),
            notes: Mutex::default(),
            clock: AtomicI64::new(0),
            processes: AtomicU32::new(1),
            events: Mutex::default(),
        };
        host.reboot();
        Arc::new(host)
    }

    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Shows a disk at a path.
    pub fn attach(&self, path: &str, disk: SimDisk) {
        lock(&self.disks).insert(path.to_owned(), disk);
    }

    /// Stops showing anything at a path.
    pub fn detach(&self, path: &str) {
        lock(&self.disks).remove(path);
    }

    /// Stops showing a disk: it may have been shown at several paths.
    pub fn detach_all(&self, disk: &SimDisk) {
        lock(&self.disks).retain(|_, shown| shown.label() != disk.label());
    }

    /// Shows the disk of one path at another one.
    pub fn rename(&self, from: &str, to: &str) {
        let mut disks = lock(&self.disks);
        if let Some(disk) = disks.remove(from) {
            disks.insert(to.to_owned(), disk);
        }
    }

    /// Whether anything is shown at a path.
    pub fn has(&self, path: &str) -> bool {
        lock(&self.disks).contains_key(path)
    }

    /// A new boot id.
    pub fn reboot(&self) {
        let mut boot = [0; 16];
        self.core.fill(&mut boot);
        *lock(&self.boot) = boot;
    }

    /// Forgets all notes, as a host that has never seen the disks.
    pub fn forget_notes(&self) {
        lock(&self.notes).clear();
    }

    /// The wall clock.
    pub fn now(&self) -> Timestamp {
        let since = i64::try_from(self.core.now().as_nanos()).expect("histories are short");
        BEGINNING + since + self.shift()
    }

    /// How far the wall clock was moved, in nanoseconds.
    pub fn shift(&self) -> i64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Moves the wall clock, in nanoseconds.
    pub fn move_clock(&self, by: i64) {
        self.clock.fetch_add(by, Ordering::Relaxed);
    }

    /// The lines of the alert logs so far.
    pub fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        lock(&self.events)
    }

    /// A new process, and its view of the world.
    pub fn process(self: &Arc<Self>) -> Arc<ProcessWorld> {
        let process = self.processes.fetch_add(1, Ordering::Relaxed);
        Arc::new(ProcessWorld { host: Arc::clone(self), process, keeps: true })
    }

    /// A new process that does not share the words and notes of others.
    pub fn stranger(self: &Arc<Self>) -> Arc<ProcessWorld> {
        let process = self.processes.fetch_add(1, Ordering::Relaxed);
        Arc::new(ProcessWorld { host: Arc::clone(self), process, keeps: false })
    }
}

/// One process's view of the host.
pub struct ProcessWorld {
    host: Arc<Host>,
    process: ProcessId,
    keeps: bool,
}

impl ProcessWorld {
    pub fn process(&self) -> ProcessId {
        self.process
    }
}

impl World for ProcessWorld {
    fn now(&self) -> Timestamp {
        self.host.now()
    }

    fn monotonic(&self) -> Duration {
        self.host.core.now()
    }

    fn sleep(&self, duration: Duration) -> Task<'static, ()> {
        Box::pin(self.host.core.sleep(duration))
    }

    fn random(&self, bytes: &mut [u8]) {
        self.host.core.fill(bytes);
    }

    fn boot_id(&self) -> [u8; 16] {
        *lock(&self.host.boot)
    }

    fn surviving_words(
        &self,
        name: &str,
        words: usize,
    ) -> io::Result<Option<Arc<dyn SurvivingWords>>> {
        if !self.keeps {
            return Ok(None);
        }
        // Few, so that histories reach the point where there is no room.
        let new = || Arc::new(Words::new(words.min(16)));
        let words =
            Arc::clone(lock(&self.host.surviving_words).entry(name.to_owned()).or_insert_with(new));
        Ok(Some(Arc::new(Kept { words, host: Arc::clone(&self.host), process: self.process })))
    }

    fn recall(&self, name: &str) -> io::Result<Option<String>> {
        Ok(lock(&self.host.notes).get(name).cloned().filter(|_| self.keeps))
    }

    fn memorise(&self, name: &str, text: &str) -> io::Result<()> {
        if self.keeps {
            lock(&self.host.notes).insert(name.to_owned(), text.to_owned());
        }
        Ok(())
    }

    fn spawn(&self, _: &str, task: Task<'static, ()>) {
        self.host.core.spawn(self.process, task);
    }

    fn spawn_synchronous(&self, _: &str, code: Box<dyn FnOnce() + Send>) {
        self.host.core.spawn_code(self.process, code);
    }

    fn wait(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        executor::wait(task);
    }

    fn discover(&self) -> Task<'static, Vec<Found>> {
        let process = self.process;
        let found = |(path, disk): (&String, &SimDisk)| Found {
            path: path.clone(),
            identity: Identity(disk.label().to_owned()),
            disk: Ok(disk.open(path, process)),
        };
        let found: Vec<Found> = lock(&self.host.disks).iter().map(found).collect();
        Box::pin(async move { found })
    }

    fn event(&self, event: Event) {
        if self.host.core.is_dead(self.process) {
            return;
        }
        let sign = if event.severity == Severity::Alarm { '!' } else { ' ' };
        self.host.core.tell(|| format!("  {sign}{event}"));
        lock(&self.host.events).push(event);
    }
}
