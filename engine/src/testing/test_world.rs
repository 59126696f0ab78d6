//! A world of threads: it runs each task on a thread of its own, and waits by parking.

use super::{MemoryDisk, Numbers, block_on, lock};
use crate::{
    event::Event,
    world::{BackgroundStage, Found, Identity, SurvivingWords, Task, Timestamp, World},
};
use std::{
    collections::BTreeMap,
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

#[derive(Default)]
struct Due {
    wakers: BTreeMap<(Instant, u64), Waker>,
    count: u64,
    ended: bool,
}

#[derive(Default)]
struct Alarms {
    due: Mutex<Due>,
    changed: Condvar,
}

impl Alarms {
    fn run(&self) {
        let mut due = lock(&self.due);
        while !due.ended {
            let now = Instant::now();
            while due.wakers.first_key_value().is_some_and(|((when, _), _)| *when <= now) {
                if let Some((_, waker)) = due.wakers.pop_first() {
                    waker.wake();
                }
            }
            let next = due.wakers.first_key_value().map(|((when, _), _)| *when);
            let pause = next.map_or(Duration::from_secs(3600), |when| {
                when.saturating_duration_since(Instant::now())
            });
            due = self.changed.wait_timeout(due, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

struct Sleep {
    alarms: Arc<Alarms>,
    until: Instant,
}

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.until {
            return Poll::Ready(());
        }
        let mut due = lock(&self.alarms.due);
        due.count += 1;
        let key = (self.until, due.count);
        due.wakers.insert(key, context.waker().clone());
        self.alarms.changed.notify_one();
        Poll::Pending
    }
}

/// Words that outlive the process that stores them, as long as any process has them.
pub struct Words(Mutex<Vec<u64>>);

impl Words {
    /// As many words, all 0.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self(Mutex::new(vec![0; count]))
    }
}

impl SurvivingWords for Words {
    fn words(&self) -> io::Result<Vec<u64>> {
        Ok(lock(&self.0).clone())
    }

    fn store(&self, at: usize, word: u64) -> io::Result<()> {
        lock(&self.0)[at] = word;
        Ok(())
    }
}

/// A world of threads, with disks in memory.
pub struct TestWorld {
    start: Instant,
    clock_shift: AtomicI64,
    /// Nanoseconds by which the monotonic clock was moved on.
    advanced: AtomicU64,
    boot: Mutex<[u8; 16]>,
    /// Shared with later processes.
    surviving_words: Arc<Mutex<BTreeMap<String, Arc<Words>>>>,
    notes: Mutex<BTreeMap<String, String>>,
    numbers: Mutex<Numbers>,
    alarms: Arc<Alarms>,
    disks: Mutex<BTreeMap<String, (Identity, MemoryDisk)>>,
    events: Mutex<Vec<Event>>,
    running: Arc<AtomicU64>,
    stages: Mutex<BTreeMap<BackgroundStage, u64>>,
    held_back: Mutex<BTreeMap<String, Vec<Task<'static, ()>>>>,
}

impl TestWorld {
    /// A world without disks whose randomness differs from any other.
    #[must_use]
    pub fn new() -> Arc<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let seed = u64::try_from(now & u128::from(u64::MAX)).expect("masked");
        Self::seeded(
            seed ^ (u64::from(std::process::id()) << 40)
                ^ (COUNT.fetch_add(1, Ordering::Relaxed) << 56),
        )
    }

    /// A world whose randomness follows from `seed`.
    #[must_use]
    pub fn seeded(seed: u64) -> Arc<Self> {
        let alarms = Arc::new(Alarms::default());
        let clock = Arc::clone(&alarms);
        thread::Builder::new()
            .name("alarms".into())
            .spawn(move || clock.run())
            .expect("a thread can start");
        let mut numbers = Numbers::new(seed);
        let mut boot = [0; 16];
        numbers.fill(&mut boot);
        Arc::new(Self {
            start: Instant::now(),
            clock_shift: AtomicI64::new(0),
            advanced: AtomicU64::new(0),
            boot: Mutex::new(boot),
            surviving_words: Arc::default(),
            notes: Mutex::default(),
            numbers: Mutex::new(numbers),
            alarms,
            disks: Mutex::default(),
            events: Mutex::default(),
            running: Arc::default(),
            stages: Mutex::default(),
            held_back: Mutex::default(),
        })
    }

    /// How often code at that stage could have been throttled.
    #[must_use]
    pub fn throttled(&self, stage: BackgroundStage) -> u64 {
        lock(&self.stages).get(&stage).copied().unwrap_or(0)
    }

    /// Makes a disk visible to discovery; its path is its identity.
    pub fn attach(&self, disk: &MemoryDisk) {
        let identity = Identity(disk.path().to_owned());
        lock(&self.disks).insert(disk.path().to_owned(), (identity, disk.clone()));
    }

    /// Hides a disk from discovery. Open handles stay open.
    pub fn detach(&self, path: &str) {
        lock(&self.disks).remove(path);
    }

    /// Another process on the same host, which sees the same disks as `disks`.
    #[must_use]
    pub fn successor(&self, disks: &[MemoryDisk]) -> Arc<Self> {
        let mut world = Self::new();
        Arc::get_mut(&mut world).expect("it is new").surviving_words =
            Arc::clone(&self.surviving_words);
        *lock(&world.boot) = *lock(&self.boot);
        disks.iter().for_each(|disk| world.attach(disk));
        world
    }

    /// Puts it on the same boot of the same host as another world, without the words that the other
    /// one keeps.
    pub fn take_boot_of(&self, other: &Self) {
        *lock(&self.boot) = *lock(&other.boot);
    }

    /// No sleeping thread wakes again: the threads of a killed process stay where they are.
    pub fn stop_time(&self) {
        lock(&self.alarms.due).ended = true;
        self.alarms.changed.notify_one();
    }

    /// Another boot of the host: a new boot id.
    pub fn reboot(&self) {
        lock(&self.numbers).fill(&mut *lock(&self.boot));
    }

    /// Forgets all notes, as a host that has never seen these disks.
    pub fn forget_notes(&self) {
        lock(&self.notes).clear();
    }

    /// Moves the wall clock.
    pub fn shift_clock(&self, by: Duration) {
        let by = i64::try_from(by.as_nanos()).expect("tests live less than 292 years");
        self.clock_shift.fetch_add(by, Ordering::Relaxed);
    }

    /// Moves the monotonic clock on. Sleeping tasks go on sleeping.
    pub fn advance(&self, by: Duration) {
        self.advanced
            .fetch_add(u64::try_from(by.as_nanos()).expect("tests are short"), Ordering::Relaxed);
    }

    /// The events reported so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        lock(&self.events).clone()
    }

    /// From now on tasks of this name are not run: a test takes them by [`Self::take_task`], and
    /// runs them step by step.
    pub fn hold_back(&self, name: &str) {
        lock(&self.held_back).entry(name.to_owned()).or_default();
    }

    /// The first task that was held back and not taken.
    #[must_use]
    pub fn take_task(&self, name: &str) -> Option<Task<'static, ()>> {
        let mut held_back = lock(&self.held_back);
        let tasks = held_back.get_mut(name).filter(|tasks| !tasks.is_empty())?;
        Some(tasks.remove(0))
    }

    /// Tasks and synchronous code that have not ended.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.running.load(Ordering::SeqCst)
    }

    fn start(&self, name: &str, code: impl FnOnce() + Send + 'static) {
        struct Ended(Arc<AtomicU64>);
        impl Drop for Ended {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.running.fetch_add(1, Ordering::SeqCst);
        let ended = Ended(Arc::clone(&self.running));
        let run = move || {
            let _ended = ended;
            code();
        };
        thread::Builder::new().name(name.to_owned()).spawn(run).expect("a thread can start");
    }
}

impl Drop for TestWorld {
    fn drop(&mut self) {
        lock(&self.alarms.due).ended = true;
        self.alarms.changed.notify_one();
    }
}

impl World for TestWorld {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).expect("before the year 2262")
            + self.clock_shift.load(Ordering::Relaxed)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed() + Duration::from_nanos(self.advanced.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> Task<'static, ()> {
        Box::pin(Sleep { alarms: Arc::clone(&self.alarms), until: Instant::now() + duration })
    }

    fn random(&self, bytes: &mut [u8]) {
        lock(&self.numbers).fill(bytes);
    }

    fn boot_id(&self) -> [u8; 16] {
        *lock(&self.boot)
    }

    fn surviving_words(
        &self,
        name: &str,
        words: usize,
    ) -> io::Result<Option<Arc<dyn SurvivingWords>>> {
        // A small number, so that tests reach the limit.
        let new = || Arc::new(Words::new(words.min(108)));
        let kept =
            Arc::clone(lock(&self.surviving_words).entry(name.to_owned()).or_insert_with(new));
        Ok(Some(kept))
    }

    fn recall(&self, name: &str) -> io::Result<Option<String>> {
        Ok(lock(&self.notes).get(name).cloned())
    }

    fn memorise(&self, name: &str, text: &str) -> io::Result<()> {
        lock(&self.notes).insert(name.to_owned(), text.to_owned());
        Ok(())
    }

    fn spawn(&self, name: &str, task: Task<'static, ()>) {
        if let Some(tasks) = lock(&self.held_back).get_mut(name) {
            tasks.push(task);
            return;
        }
        self.start(name, move || block_on(task));
    }

    fn spawn_synchronous(&self, name: &str, code: Box<dyn FnOnce() + Send>) {
        self.start(name, code);
    }

    fn wait(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        block_on(task);
    }

    fn throttle(&self, stage: BackgroundStage) {
        *lock(&self.stages).entry(stage).or_default() += 1;
    }

    fn discover(&self) -> Task<'static, Vec<Found>> {
        let disks = lock(&self.disks);
        let found = |(path, (identity, disk)): (&String, &(Identity, MemoryDisk))| Found {
            path: path.clone(),
            identity: identity.clone(),
            disk: Ok(disk.open()),
        };
        let found: Vec<Found> = disks.iter().map(found).collect();
        Box::pin(async move { found })
    }

    fn event(&self, event: Event) {
        if std::env::var_os("PLINTH_TELL").is_some() {
            eprintln!("{event}");
        }
        lock(&self.events).push(event);
    }
}
