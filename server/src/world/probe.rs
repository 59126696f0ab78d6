//! Looking at devices of which nobody knows whether they answer: by a process that may hang instead of ours.
//!
//! Whoever opens or reads a device that hangs is stuck in the kernel, and no signal ends it. An engine must not be that: it would
//! not be gone when it is killed. So whatever matches the discovery string is looked at by a small process, a *looker*: this
//! program again, as `plinth look`. It opens, reads, recognises and claims disks for us, a thread for each, so that one that hangs
//! hides no other. Of a disk that is claimed we get the descriptor (R1: the lock belongs to what is open, not to who opened it).
//! From then on its I/O is ours.
//!
//! ```text
//!   ours:     Looker --Ask--> socket --> looker: a thread for each disk, which does what is asked one after the other
//!             thread "looker" <--Answer-- socket <--
//! ```
//!
//! A looker is started for each look at disks, but the instance keeps its own, which it asks often, as long as all answer: to start one takes
//! as long as all the rest (24 disks, a debug build on a busy host: 150 ms or 60). It ends when nobody has it, or one of its disks, any
//! more: it sees the end of its socket. If a thread of it hangs then, what is left of it waits in the kernel for its device and holds that open for reading, nothing else.
//! While it is not known to have ended ([`Hanging`]), nobody looks at that device again: path and identity are remembered, and whoever
//! asks is told at once that it hangs, and since when. An answer that comes late ends that.
//!
//! A program that is not `plinth` (tests, the engine as a library) has no such command; there the looker is threads of its own process.

use super::{
    disk::{self, About, Medium},
    occupant,
    patience::{PATIENCE, no_answer},
};
use crate::frames::Frames;
use plinth_engine::{
    buffer::Buffer,
    completion::{Completer, Done},
};
use rustix::fd::{AsFd, OwnedFd};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::unix::{fs::FileExt, net::UnixStream, process::CommandExt},
    process::{Child, Command, ExitCode, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// The command that is a looker.
pub const COMMAND: &str = "look";

/// What is read of a disk in one message, at most.
const PART: usize = 1 << 20;
/// A disk has answered when this much of its beginning was read, or refused.
const FIRST: usize = 4096;

/// Set by programs that have [`COMMAND`].
static HAS_COMMAND: OnceLock<()> = OnceLock::new();

/// Says that this program has [`COMMAND`].
pub fn has_command() {
    let _ = HAS_COMMAND.set(());
}

/// A request to a looker. `disk` is a number that we give.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Ask {
    /// Which paths does a pattern match?
    Expand {
        call: u64,
        pattern: String,
    },
    /// Open and read its beginning, unless it is one of those that are known to hang.
    Open {
        call: u64,
        disk: u64,
        path: String,
        hanging: Vec<Medium>,
    },
    Read {
        call: u64,
        disk: u64,
        offset: u64,
        length: usize,
    },
    Occupant {
        call: u64,
        disk: u64,
    },
    Claim {
        call: u64,
        disk: u64,
    },
    /// Nobody wants it any more.
    Close {
        disk: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Paths(Vec<String>),
    /// What the path leads to. The answer to `Open` follows, or does not.
    Is(Medium),
    Opened(About),
    /// It is one of those that hang.
    Hangs,
    /// The body is what was read from `at` on, counted from the beginning of the request.
    Part {
        at: usize,
        is_last: bool,
    },
    Occupant(Option<String>),
    /// With its descriptor.
    Claimed,
    Failed(Failure),
}

/// An `io::Error` on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Failure {
    kind: String,
    text: String,
    /// It cannot be a disk.
    is_no_disk: bool,
}

/// Kinds that somebody asks for. Others are `Other`.
const KINDS: [io::ErrorKind; 10] = [
    io::ErrorKind::NotFound,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::WouldBlock,
    io::ErrorKind::ResourceBusy,
    io::ErrorKind::ReadOnlyFilesystem,
    io::ErrorKind::TimedOut,
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::Unsupported,
    io::ErrorKind::BrokenPipe,
];

impl Failure {
    fn of(error: &io::Error) -> Self {
        let is_no_disk = error.get_ref().is_some_and(|inner| inner.is::<disk::NotADisk>());
        Self { kind: format!("{:?}", error.kind()), text: error.to_string(), is_no_disk }
    }

    fn error(self) -> io::Error {
        if self.is_no_disk {
            return io::Error::other(disk::NotADisk(self.text));
        }
        let kind = KINDS.into_iter().find(|kind| format!("{kind:?}") == self.kind).unwrap_or(io::ErrorKind::Other);
        io::Error::new(kind, self.text)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Reply {
    call: u64,
    answer: Answer,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is done with the answers to a call.
enum Pending {
    Paths(Box<dyn FnOnce(io::Result<Vec<String>>) + Send>),
    /// Called with each answer; `false`: no more will come.
    Open(Box<dyn FnMut(Opening) -> bool + Send>),
    Read(Completer, Buffer),
    Occupant(mpsc::Sender<io::Result<Option<String>>>),
    Claim(mpsc::Sender<io::Result<OwnedFd>>),
}

/// What is heard of a disk that is being opened.
pub(super) enum Opening {
    Is(Medium),
    Ended(io::Result<About>),
    /// It was one of those that hang.
    Hangs,
}

/// A process that looks at disks.
pub(super) struct Looker(Arc<Shared>);

struct Shared {
    frames: Frames,
    /// One message after the other.
    sending: Mutex<()>,
    pending: Mutex<BTreeMap<u64, Pending>>,
    next: AtomicU64,
    has_ended: AtomicBool,
}

impl Looker {
    /// Whether it can still be asked.
    pub(super) fn is_there(&self) -> bool {
        !self.0.has_ended.load(Ordering::Acquire)
    }

    /// Starts one.
    ///
    /// # Errors
    /// If there is no process, or thread, to be had.
    pub(super) fn start() -> io::Result<Arc<Self>> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = match HAS_COMMAND.get() {
            Some(()) => Some(spawn(theirs)?),
            None => {
                thread::Builder::new().name("looking".into()).spawn(move || serve(Frames::ungreeted(theirs)))?;
                None
            }
        };
        let shared = Arc::new(Shared {
            frames: Frames::ungreeted(ours),
            sending: Mutex::default(),
            pending: Mutex::default(),
            next: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        });
        let hearing = Arc::clone(&shared);
        thread::Builder::new().name("looker".into()).spawn(move || hearing.hear(child))?;
        Ok(Arc::new(Self(shared)))
    }

    /// Asks which paths a pattern matches; `then` is called with the answer, on another thread.
    pub(super) fn expand(&self, pattern: &str, then: impl FnOnce(io::Result<Vec<String>>) + Send + 'static) {
        let pattern = pattern.to_owned();
        self.0.ask(Pending::Paths(Box::new(then)), |call| Ask::Expand { call, pattern });
    }

    /// Has a disk opened; `then` is called with what is heard of it, until it says `false`, on another thread.
    pub(super) fn open(
        self: &Arc<Self>,
        path: &str,
        hanging: Vec<Medium>,
        then: impl FnMut(Opening) -> bool + Send + 'static,
    ) -> Looked {
        let (path, disk) = (path.to_owned(), self.0.next.fetch_add(1, Ordering::Relaxed));
        let looked = Looked { looker: Arc::clone(self), disk };
        self.0.ask(Pending::Open(Box::new(then)), |call| Ask::Open { call, disk, path, hanging });
        looked
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        // The other side sees the end, and ends; then so does our thread.
        let _ = self.0.frames.stream().shutdown(std::net::Shutdown::Write);
    }
}

/// This program again, which speaks through its standard input.
fn spawn(theirs: UnixStream) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("plinth")
        .arg(COMMAND)
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
}

impl Shared {
    fn ask(&self, pending: Pending, ask: impl FnOnce(u64) -> Ask) {
        let call = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.pending).insert(call, pending);
        if let Err(error) = self.send(&ask(call)) {
            let pending = lock(&self.pending).remove(&call);
            pending.into_iter().for_each(|pending| pending.fail(&error));
        }
    }

    fn send(&self, ask: &Ask) -> io::Result<()> {
        let _one = lock(&self.sending);
        self.frames.send(ask, &[], None)
    }

    fn hear(&self, child: Option<Child>) {
        while let Ok(Some(reply)) = self.frames.receive::<Reply>() {
            let Some(pending) = lock(&self.pending).remove(&reply.head.call) else { continue };
            if let Some(pending) = pending.answer(reply.head.answer, &reply.body, reply.descriptor) {
                lock(&self.pending).insert(reply.head.call, pending);
            }
        }
        self.has_ended.store(true, Ordering::Release);
        // After this nobody can be asked: a send fails.
        let _ = self.frames.stream().shutdown(std::net::Shutdown::Both);
        let error = io::Error::new(io::ErrorKind::BrokenPipe, "the process that looked at it has ended");
        std::mem::take(&mut *lock(&self.pending)).into_values().for_each(|pending| pending.fail(&error));
        if let Some(mut child) = child {
            // It may hang on its way out; then so does this thread.
            let _ = child.wait();
        }
    }
}

impl Pending {
    fn fail(self, error: &io::Error) {
        let error = || Failure::of(error).error();
        match self {
            Self::Paths(then) => then(Err(error())),
            Self::Open(mut then) => _ = then(Opening::Ended(Err(error()))),
            Self::Read(completer, buffer) => completer.finish(Done { result: Err(error()), buffer: Some(buffer) }),
            Self::Occupant(tell) => drop(tell.send(Err(error()))),
            Self::Claim(tell) => drop(tell.send(Err(error()))),
        }
    }

    /// Itself, if more answers will come.
    fn answer(self, answer: Answer, body: &[u8], descriptor: Option<OwnedFd>) -> Option<Self> {
        let strange = || io::Error::other("the process that looks at disks gives a strange answer");
        match (self, answer) {
            (pending, Answer::Failed(failure)) => pending.fail(&failure.error()),
            (Self::Paths(then), Answer::Paths(paths)) => then(Ok(paths)),
            (Self::Open(mut then), answer) => {
                let opening = match answer {
                    Answer::Is(medium) => Opening::Is(medium),
                    Answer::Opened(about) => Opening::Ended(Ok(about)),
                    Answer::Hangs => Opening::Hangs,
                    _ => Opening::Ended(Err(strange())),
                };
                return then(opening).then_some(Self::Open(then));
            }
            (Self::Read(completer, mut buffer), Answer::Part { at, is_last }) => {
                match buffer.get_mut(at..).and_then(|rest| rest.get_mut(..body.len())) {
                    Some(place) => place.copy_from_slice(body),
                    None => {
                        completer.finish(Done { result: Err(strange()), buffer: Some(buffer) });
                        return None;
                    }
                }
                if !is_last {
                    return Some(Self::Read(completer, buffer));
                }
                completer.finish(Done { result: Ok(()), buffer: Some(buffer) });
            }
            (Self::Occupant(tell), Answer::Occupant(occupant)) => drop(tell.send(Ok(occupant))),
            (Self::Claim(tell), Answer::Claimed) => drop(tell.send(descriptor.ok_or_else(strange))),
            (pending, _) => pending.fail(&strange()),
        }
        None
    }
}

/// A disk that a looker has open, or tries to open.
pub(super) struct Looked {
    looker: Arc<Looker>,
    disk: u64,
}

impl Looked {
    pub(super) fn read(&self, offset: u64, buffer: Buffer, completer: Completer) {
        let (disk, length) = (self.disk, buffer.len());
        self.looker.0.ask(Pending::Read(completer, buffer), |call| Ask::Read { call, disk, offset, length });
    }

    pub(super) fn occupant(&self) -> io::Result<Option<String>> {
        let (tell, told) = mpsc::channel();
        let disk = self.disk;
        self.looker.0.ask(Pending::Occupant(tell), |call| Ask::Occupant { call, disk });
        told.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(no_answer(PATIENCE)))
    }

    /// The disk, opened for writing and locked.
    pub(super) fn claim(&self) -> io::Result<File> {
        let (tell, told) = mpsc::channel();
        let disk = self.disk;
        self.looker.0.ask(Pending::Claim(tell), |call| Ask::Claim { call, disk });
        told.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(no_answer(PATIENCE))).map(File::from)
    }
}

impl Drop for Looked {
    fn drop(&mut self) {
        let _ = self.looker.0.send(&Ask::Close { disk: self.disk });
    }
}

/// Runs a looker: `plinth look`, with a socket as its standard input.
#[must_use]
pub fn run() -> ExitCode {
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    // It is to be the first that the kernel ends for want of memory, not one of the last, as the engine that started it.
    let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    serve(Frames::ungreeted(UnixStream::from(socket)));
    // Threads that hang are not waited for.
    std::process::exit(0)
}

/// The other end: does what is asked until nobody asks any more.
fn serve(frames: Frames) {
    let replies = Arc::new(Replies { frames, sending: Mutex::default() });
    let mut disks: BTreeMap<u64, mpsc::Sender<Ask>> = BTreeMap::new();
    while let Ok(Some(received)) = replies.frames.receive::<Ask>() {
        let ask = received.head;
        let (call, disk) = match &ask {
            Ask::Expand { call, pattern } => {
                let (call, pattern, replies) = (*call, pattern.clone(), Arc::clone(&replies));
                let expand = {
                    let replies = Arc::clone(&replies);
                    move || replies.send(call, Answer::Paths(super::discover::expand(&pattern)), &[], None)
                };
                if let Err(error) = thread::Builder::new().name("expand".into()).spawn(expand) {
                    replies.fail(call, &error);
                }
                continue;
            }
            Ask::Close { disk } => {
                disks.remove(disk);
                continue;
            }
            Ask::Open { call, disk, .. } => {
                let (asks, todo) = mpsc::channel();
                let replies = Arc::clone(&replies);
                let work = {
                    let replies = Arc::clone(&replies);
                    move || look_at(&replies, &todo)
                };
                match thread::Builder::new().name("disk".into()).stack_size(256 << 10).spawn(work) {
                    Ok(_) => drop(disks.insert(*disk, asks)),
                    Err(error) => {
                        replies.fail(*call, &error);
                        continue;
                    }
                }
                (*call, *disk)
            }
            Ask::Read { call, disk, .. } | Ask::Occupant { call, disk } | Ask::Claim { call, disk } => (*call, *disk),
        };
        if disks.get(&disk).is_none_or(|asks| asks.send(ask).is_err()) {
            replies.fail(call, &io::Error::other("it is not open"));
        }
    }
}

struct Replies {
    frames: Frames,
    sending: Mutex<()>,
}

impl Replies {
    /// Whoever is gone needs no answer.
    fn send(&self, call: u64, answer: Answer, body: &[u8], descriptor: Option<&File>) {
        let _one = lock(&self.sending);
        let _ = self.frames.send(&Reply { call, answer }, body, descriptor.map(AsFd::as_fd));
    }

    fn fail(&self, call: u64, error: &io::Error) {
        self.send(call, Answer::Failed(Failure::of(error)), &[], None);
    }
}

/// A disk that a looker has open.
struct Open {
    file: File,
    about: About,
    path: String,
}

/// One disk's thread.
fn look_at(replies: &Replies, todo: &mpsc::Receiver<Ask>) {
    let mut open: Option<Open> = None;
    for ask in todo {
        match (ask, open.as_ref()) {
            (Ask::Open { call, path, hanging, .. }, _) => open = open_to_look(replies, call, path, &hanging),
            (Ask::Read { call, offset, length, .. }, Some(disk)) => read(replies, call, disk, offset, length),
            (Ask::Occupant { call, .. }, Some(Open { file, about, .. })) => {
                let occupant = occupant::of_file(about.medium, file, about.size, about.sectors());
                replies.send(call, Answer::Occupant(occupant), &[], None);
            }
            (Ask::Claim { call, .. }, Some(Open { file, about, path })) => {
                match disk::open_and_lock(file, path, about.medium, about.direct) {
                    Ok(claimed) => replies.send(call, Answer::Claimed, &[], Some(&claimed)),
                    Err(error) => replies.fail(call, &error),
                }
            }
            (Ask::Read { call, .. } | Ask::Occupant { call, .. } | Ask::Claim { call, .. }, None) => {
                replies.fail(call, &io::Error::other("it is not open"));
            }
            (Ask::Expand { .. } | Ask::Close { .. }, _) => {}
        }
    }
}

fn open_to_look(replies: &Replies, call: u64, path: String, hanging: &[Medium]) -> Option<Open> {
    let opened = disk::medium_of(&path).and_then(|medium| {
        replies.send(call, Answer::Is(medium), &[], None);
        if hanging.contains(&medium) {
            return Ok(None);
        }
        let (file, about) = disk::open_to_look(&path, medium)?;
        // Whether it can be read is for whoever reads it. Whether it answers is what is asked here.
        let _ = file.read_at(&mut Buffer::zeroed(FIRST), 0);
        Ok(Some((file, about)))
    });
    match opened {
        Ok(Some((file, about))) => {
            replies.send(call, Answer::Opened(about.clone()), &[], None);
            return Some(Open { file, about, path });
        }
        Ok(None) => replies.send(call, Answer::Hangs, &[], None),
        Err(error) => replies.fail(call, &error),
    }
    None
}

fn read(replies: &Replies, call: u64, disk: &Open, offset: u64, length: usize) {
    let mut at = 0;
    loop {
        let part = PART.min(length - at);
        let mut buffer = Buffer::zeroed(part);
        if let Err(error) = disk.file.read_exact_at(&mut buffer, offset + at as u64) {
            return replies.fail(call, &error);
        }
        let is_last = at + part == length;
        replies.send(call, Answer::Part { at, is_last }, &buffer, None);
        if is_last {
            return;
        }
        at += part;
    }
}

/// Devices that were asked, and have not answered.
#[derive(Default)]
pub(super) struct Hanging(Mutex<BTreeMap<String, Hung>>);

struct Hung {
    since: Instant,
    /// What its path leads to, if at least that could be learnt.
    medium: Option<Medium>,
    /// Whoever else looks for it, told when it has answered.
    waiting: Vec<Box<dyn FnOnce() + Send>>,
}

/// What is known of a device that does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silent {
    pub path: String,
    pub since: Duration,
}

impl Hanging {
    /// Takes note of a device that is asked. It is forgotten by [`Self::answered`].
    pub(super) fn asked(&self, path: &str) {
        let hung = Hung { since: Instant::now(), medium: None, waiting: Vec::new() };
        lock(&self.0).insert(path.to_owned(), hung);
    }

    pub(super) fn is(&self, path: &str, medium: Medium) {
        if let Some(hung) = lock(&self.0).get_mut(path) {
            hung.medium = Some(medium);
        }
    }

    pub(super) fn answered(&self, path: &str) {
        let hung = lock(&self.0).remove(path);
        hung.into_iter().flat_map(|hung| hung.waiting).for_each(|tell| tell());
    }

    /// Since when the device at a path has not answered, and what it is. If it answers, `then` is called; not if `None` is returned.
    pub(super) fn wait(&self, path: &str, then: impl FnOnce() + Send + 'static) -> Option<(Instant, Option<Medium>)> {
        let mut all = lock(&self.0);
        let hung = all.get_mut(path)?;
        hung.waiting.push(Box::new(then));
        Some((hung.since, hung.medium))
    }

    /// What a path that does not answer leads to, if that could be learnt.
    pub(super) fn medium(&self, path: &str) -> Option<Medium> {
        lock(&self.0).get(path).and_then(|hung| hung.medium)
    }

    /// What hangs for longer than `patience`, and is known by more than its path.
    pub(super) fn media(&self, patience: Duration) -> Vec<Medium> {
        lock(&self.0).values().filter(|hung| hung.since.elapsed() >= patience).filter_map(|hung| hung.medium).collect()
    }

    /// All that do not answer for so long.
    pub(super) fn list(&self, patience: Duration) -> Vec<Silent> {
        let all = lock(&self.0);
        let silent = all.iter().map(|(path, hung)| Silent { path: path.clone(), since: hung.since.elapsed() });
        silent.filter(|silent| silent.since >= patience).collect()
    }
}
