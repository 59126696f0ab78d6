//! The host that an engine runs on: real disks, rings, threads, clocks. Implements
//! `plinth_engine::world`.
//!
//! A program that uses the engine as a library needs the engine and this crate, and no part of the
//! daemon: no SQL, no TLS, no command line.
//!
//! ```text
//!   lib              RealWorld: what the engine is given
//!   executor         block_on: a future, a thread, its ring, its timers
//!   ring             one io_uring
//!   pool             blocking threads of one disk
//!   op               one I/O in flight
//!   reaper           rings whose thread has ended before their I/O
//!   socket_poll      sockets that a thread polls beside its disks
//!   busy_poll        polling before sleeping
//!   disk             open, claim, submit
//!   discover         paths to disks
//!   labelled         disks by their labels
//!   multipath        maps, and their paths
//!   signature        what else is on a disk, and what has it in use
//!   probe            a process that looks at devices which may hang
//!   hanging          devices that have not answered
//!   waiting          how long devices keep a caller waiting
//!   timeout          blocking system calls with a timeout
//!   apart            threads with a file table of their own
//!   filter           no program but the engine can open a member for writing
//!   holder           which process holds a disk's lock
//!   sys              two system calls
//!   crash_surviving  words that survive the process
//!   notes            texts that survive a reboot
//!   background       CPU throttling of background work
//!   priority         the priority of a thread
//!   lock             mutexes without poisoning
//!   ipc              messages between our processes
//! ```
//!
//! Choice of the I/O engine: io_uring where the kernel allows it, else threads. Containers often
//! forbid io_uring, so it is tried once, at the start, and the result is shown to the operator.

mod apart;
pub mod background;
mod busy_poll;
mod crash_surviving;
mod discards;
mod discover;
mod disk;
mod executor;
pub mod filter;
mod hanging;
mod holder;
pub mod ipc;
mod labelled;
mod lock;
mod multipath;
mod notes;
mod op;
mod pool;
pub mod priority;
pub mod probe;
mod reaper;
mod ring;
mod signature;
mod socket_poll;
mod space_from;
mod sys;
#[cfg(test)]
mod tests;
mod timeout;
mod waiting;

pub use busy_poll::PollTime;
pub use discover::{BadDiskstring, one_pattern, pattern_of};
pub use executor::{block_on, block_on_polling, sleep};
pub use lock::lock;
pub use socket_poll::{Readable, readable};

use background::{Others, throttle};
use disk::RealDisk;
use futures::StreamExt;
use plinth_engine::{
    catalog::STATEMENTS,
    event::Event,
    world::{
        BackgroundStage, Disk, Found, Identity, Sign, Signs, SurvivingWords, Task, Timestamp, World,
    },
};
use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    str::FromStr,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The requested I/O engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// io_uring if the kernel allows it, else threads.
    #[default]
    Auto,
    Uring,
    Threads,
}

/// The I/O engine in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoEngine {
    Uring,
    Threads,
}

/// A word that names no I/O engine.
#[derive(Debug, thiserror::Error)]
#[error("unknown I/O engine {0:?}; one of auto, uring, threads")]
pub struct UnknownIoEngine(String);

impl FromStr for IoChoice {
    type Err = UnknownIoEngine;
    fn from_str(word: &str) -> Result<Self, UnknownIoEngine> {
        match word {
            "" | "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "threads" => Ok(Self::Threads),
            other => Err(UnknownIoEngine(other.to_owned())),
        }
    }
}

impl IoChoice {
    /// The choice in the environment: `PLINTH_IO`.
    ///
    /// # Errors
    /// If it names no I/O engine.
    pub fn from_environment() -> Result<Self, UnknownIoEngine> {
        std::env::var("PLINTH_IO").map_or(Ok(Self::Auto), |word| word.parse())
    }

    fn resolve(self) -> io::Result<IoEngine> {
        match (self, ring::probe()) {
            (Self::Threads, _) | (Self::Auto, Err(_)) => Ok(IoEngine::Threads),
            (Self::Auto | Self::Uring, Ok(())) => Ok(IoEngine::Uring),
            (Self::Uring, Err(error)) => Err(io::Error::new(
                error.kind(),
                format!(
                    "io_uring was asked for and is refused: {error}; see /proc/sys/kernel/io_uring_disabled, or use PLINTH_IO=threads"
                ),
            )),
        }
    }
}

/// The note that says which devices' labels are read.
const LABEL_SCAN: &str = "afd_diskstring";

/// An idle process for probing disks.
#[derive(Default)]
struct Kept {
    keeps: bool,
    looker: Option<Arc<probe::Looker>>,
}

/// The host, as an engine sees it.
pub struct RealWorld {
    diskstring: RwLock<String>,
    engine: IoEngine,
    hanging: Arc<hanging::Hanging>,
    /// The process of the last discovery, for callers that discover often.
    looker: Arc<Mutex<Kept>>,
    boot_id: [u8; 16],
    poll_time: Arc<PollTime>,
    /// The directory of words that outlive this process.
    surviving_words: OnceLock<PathBuf>,
    /// The directory of notes that survive a reboot.
    notes: OnceLock<PathBuf>,
    sink: Box<dyn Fn(Event) + Send + Sync>,
}

impl RealWorld {
    /// # Errors
    /// If the requested I/O engine is refused, or the host has no readable boot id.
    pub fn new(choice: IoChoice, sink: impl Fn(Event) + Send + Sync + 'static) -> io::Result<Self> {
        apart::prepare();
        Ok(Self {
            diskstring: RwLock::default(),
            engine: choice.resolve()?,
            hanging: Arc::default(),
            looker: Arc::default(),
            boot_id: boot_id()?,
            poll_time: Arc::default(),
            surviving_words: OnceLock::new(),
            notes: OnceLock::new(),
            sink: Box::new(sink),
        })
    }

    /// Sets the discovery string: patterns, separated by commas.
    ///
    /// # Errors
    /// If one of them is not a pattern; then the old string stays.
    pub fn set_diskstring(&self, diskstring: &str) -> Result<(), BadDiskstring> {
        discover::patterns(diskstring)?;
        diskstring.clone_into(&mut self.diskstring.write().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// Sets the directory in which this engine and its successors keep words for each other.
    /// Without one nothing is kept. Only the first call counts.
    pub fn keep_in(&self, directory: &Path) {
        let _ = self.surviving_words.set(directory.to_owned());
    }

    /// Sets the directory of notes. Without one nothing is noted. Only the first call counts.
    pub fn note_in(&self, directory: &Path) {
        let _ = self.notes.set(directory.to_owned());
    }

    #[must_use]
    pub fn diskstring(&self) -> String {
        self.diskstring.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The devices whose labels are read, as patterns separated by commas; empty: all block
    /// devices.
    #[must_use]
    pub fn label_scan(&self) -> String {
        // Without the note all are scanned.
        self.recall(LABEL_SCAN).ok().flatten().unwrap_or_default()
    }

    /// Sets the devices whose labels are read, here and for all who share the directory of notes.
    ///
    /// # Errors
    /// If the text is no list of patterns, or cannot be stored.
    pub fn set_label_scan(&self, scan: &str) -> io::Result<()> {
        discover::patterns(scan).map_err(io::Error::other)?;
        self.memorise(LABEL_SCAN, scan)
    }

    /// How long threads that serve clients poll before they sleep.
    #[must_use]
    pub fn poll_time(&self) -> Arc<PollTime> {
        Arc::clone(&self.poll_time)
    }

    /// Keeps the probing process after each discovery, because discoveries will be frequent.
    pub fn keep_looker(&self) {
        self.looker.lock().unwrap_or_else(PoisonError::into_inner).keeps = true;
    }

    /// Devices that were probed, and have not answered for this long.
    #[must_use]
    pub fn silent(&self, timeout: Duration) -> Vec<hanging::Silent> {
        let mut silent = self.hanging.list(timeout);
        for one in &mut silent {
            one.path = labelled::device_of(&one.path).0.to_owned();
        }
        silent
    }

    /// The I/O engine in use, in words for the operator.
    #[must_use]
    pub fn io_engine_name(&self) -> &'static str {
        match self.engine {
            IoEngine::Uring => "io_uring",
            IoEngine::Threads => "threads",
        }
    }

    /// Opens one disk by its path, whatever the discovery string says. May hang as long as the
    /// device does.
    ///
    /// # Errors
    /// If the operating system refuses, or this cannot be a disk.
    pub fn open(&self, path: &str) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(RealDisk::open(path, self.engine)?))
    }

    fn start(name: &str, code: impl FnOnce() + Send + 'static) {
        // An engine without one of its threads would wait for it for ever: it is better to end and
        // be restarted.
        if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(code) {
            panic!("cannot start the thread {name:?}: {error}; raise the limit on processes");
        }
    }
}

/// Reports that a discovery failed because no looker could be started.
fn report_failed_looker(patterns: Vec<String>, error: io::Error, hear: &mut dyn FnMut(Sign)) {
    let error = Arc::new(error);
    for path in patterns {
        let identity = Identity(format!("path:{path}"));
        hear(Sign::Answered(Found { path, identity, disk: Err(Arc::clone(&error)) }));
    }
}

/// A monotonic clock with an arbitrary start.
fn monotonic() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn boot_id() -> io::Result<[u8; 16]> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(PATH)
        .map_err(|error| io::Error::new(error.kind(), format!("{PATH}: {error}; mount /proc")))?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    match u128::from_str_radix(&digits, 16) {
        Ok(id) if digits.len() == 32 => Ok(id.to_be_bytes()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{PATH}: {:?} is no boot id", text.trim()),
        )),
    }
}

impl World for RealWorld {
    fn now(&self) -> Timestamp {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => {
                i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos)
            }
        }
    }

    fn monotonic(&self) -> Duration {
        monotonic()
    }

    fn sleep(&self, duration: Duration) -> Task<'static, ()> {
        Box::pin(executor::sleep(duration))
    }

    fn sleep_precisely(&self, duration: Duration) -> Task<'static, ()> {
        Box::pin(executor::sleep_precisely(duration))
    }

    fn random(&self, bytes: &mut [u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::rand::getrandom(&mut *rest, rustix::rand::GetRandomFlags::empty()) {
                Ok(filled) => rest = &mut rest[filled..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("the kernel gives no random bytes: {error}"),
            }
        }
    }

    fn boot_id(&self) -> [u8; 16] {
        self.boot_id
    }

    fn forget_surviving_words(&self, name: &str) {
        if let Some(directory) = self.surviving_words.get() {
            let _ = std::fs::remove_file(directory.join(format!("kept.{name}")));
        }
    }

    fn surviving_words(
        &self,
        name: &str,
        words: usize,
    ) -> io::Result<Option<Arc<dyn SurvivingWords>>> {
        let Some(directory) = self.surviving_words.get() else { return Ok(None) };
        let path = directory.join(format!("kept.{name}"));
        match crash_surviving::WordsFile::open(&path, words) {
            Ok(kept) => Ok(Some(Arc::new(kept))),
            // Without surviving words an engine works, only slower.
            Err(_) if path.symlink_metadata().is_err() => Ok(None),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        }
    }

    fn recall(&self, name: &str) -> io::Result<Option<String>> {
        let Some(directory) = self.notes.get() else { return Ok(None) };
        notes::recall(&directory.join(name))
    }

    fn memorise(&self, name: &str, text: &str) -> io::Result<()> {
        let Some(directory) = self.notes.get() else { return Ok(()) };
        notes::memorise(&directory.join(name), text)
    }

    fn spawn(&self, name: &str, task: Task<'static, ()>) {
        Self::start(name, move || block_on(task));
    }

    fn spawn_synchronous(&self, name: &str, code: Box<dyn FnOnce() + Send>) {
        let steps_back = name == STATEMENTS;
        Self::start(name, move || {
            if steps_back {
                priority::lower_priority();
            }
            code();
        });
    }

    fn wait(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        block_on(task);
    }

    fn discover(&self) -> Task<'static, Vec<Found>> {
        let signs = self.look().heard;
        Box::pin(async move {
            let found = signs.filter_map(|sign| async move { sign.found() });
            let mut found: Vec<Found> = found.collect().await;
            found.sort_by(|one, other| one.path.cmp(&other.path));
            found
        })
    }

    fn look(&self) -> Signs {
        let patterns = discover::patterns(&self.diskstring()).unwrap_or_default();
        let scan = discover::patterns(&self.label_scan()).unwrap_or_default();
        let (engine, hanging, kept) =
            (self.engine, Arc::clone(&self.hanging), Arc::clone(&self.looker));
        let (tell, told) = futures::channel::mpsc::unbounded();
        let progress: Arc<discover::Count> = Arc::default();
        let count = Arc::clone(&progress);
        Self::start("discovery", move || {
            // The caller may have stopped listening; a device that hangs is waited for all the
            // same, so that this is recorded.
            let mut hear = |sign| drop(tell.unbounded_send(sign));
            let last = || kept.lock().unwrap_or_else(PoisonError::into_inner);
            let before = last().looker.take().filter(|looker| looker.is_there());
            let looker = match before.map_or_else(probe::Looker::start, Ok) {
                Ok(looker) => looker,
                Err(error) => {
                    count.fail();
                    let error = io::Error::new(error.kind(), format!("looking for disks: {error}"));
                    return report_failed_looker(patterns, error, &mut hear);
                }
            };
            let timeout = (timeout::DISK_TIMEOUT, &*count);
            let all_answered = discover::look(
                (&patterns, &scan),
                engine,
                Arc::clone(&looker),
                &hanging,
                timeout,
                &mut hear,
            );
            // A looker with a thread that hangs is not kept.
            let mut last = last();
            if all_answered && last.keeps {
                last.looker = Some(looker);
            }
        });
        Signs { heard: Box::pin(told), progress: Some(Box::new(progress)) }
    }

    fn throttle(&self, stage: BackgroundStage) {
        throttle(Others::Front, stage);
    }

    fn set_poll_time(&self, time: Duration) {
        self.poll_time.set(time);
    }

    fn event(&self, event: Event) {
        (self.sink)(event);
    }
}
