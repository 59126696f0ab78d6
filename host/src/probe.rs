//! Probing devices that may hang: another process opens and reads them, and may hang instead of
//! this one.
//!
//! A thread that opens or reads a device that hangs is stuck in the kernel, and no signal ends it.
//! That must not happen to an engine: it would not be gone when it is killed. So all paths that
//! match the discovery string are probed by a small process, a *looker*: this program again, as
//! `plinth look`. It opens, reads, recognises and claims disks on our behalf, with a thread for
//! each, so that one that hangs hides no other. When a disk is claimed it sends us the descriptor
//! (R1: the lock belongs to the open file description, not to the process that opened it). From
//! then on this process does its I/O.
//!
//! ```text
//!   ours:     Looker --Ask--> socket --> looker: a thread for each disk, one request at a time
//!             thread "looker" <--Answer-- socket <--
//! ```
//!
//! A looker is started for each discovery. The instance discovers often and keeps its looker as
//! long as all devices answer: the start takes about as long as the rest of a discovery (24 disks,
//! a debug build on a busy host: 150 ms with it, 60 without). A looker ends when nothing refers to
//! it or to one of its disks any more: its socket is closed. If one of its threads hangs then, the
//! rest of the process waits in the kernel for the device and holds it open for reading, nothing
//! else. Such a device is not probed again before it has answered (`hanging.rs`).
//!
//! A program that is not `plinth` (tests, the engine as a library) has no such command; there the
//! looker is a set of threads of its own process.

use super::{
    disk::{self, About, Medium},
    labelled, signature,
    timeout::{DISK_TIMEOUT, no_answer},
    waiting::{self, Waited},
};
use crate::{
    ipc::{Frames, TooLong},
    lock,
};
use plinth_engine::{
    completion::{Completer, Done},
    sync::buffer::Buffer,
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
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// The command that runs a looker.
pub const COMMAND: &str = "look";

/// The largest part of a disk that one message carries.
const PART: usize = 1 << 20;
/// A disk has answered when this much of its beginning has been read, or the read has failed.
const FIRST: usize = 4096;

/// Set by programs that have [`COMMAND`].
static HAS_COMMAND: OnceLock<()> = OnceLock::new();

/// Declares that this program has [`COMMAND`].
pub fn has_command() {
    let _ = HAS_COMMAND.set(());
}

/// A request to a looker. `disk` is a number that the requester chooses.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Ask {
    /// Return the paths that match a pattern.
    Expand {
        call: u64,
        pattern: String,
    },
    /// Open and read its beginning, unless it is one of the devices that are known to hang.
    Open {
        call: u64,
        disk: u64,
        path: String,
        /// Whether to read its label.
        wants_label: bool,
        hanging: Vec<Medium>,
    },
    Read {
        call: u64,
        disk: u64,
        offset: u64,
        length: usize,
    },
    InUseBy {
        call: u64,
        disk: u64,
    },
    Claim {
        call: u64,
        disk: u64,
    },
    /// The requester has dropped the disk.
    Close {
        disk: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Paths(Vec<String>),
    /// The device or file that the path leads to. The answer to `Open` may follow, or never come.
    Is(Medium),
    Opened(About),
    /// It is one of the devices that are known to hang.
    Hangs,
    /// The body has the bytes from `at` on, counted from the start of the requested range.
    Part {
        at: usize,
        is_last: bool,
    },
    InUseBy(Option<String>),
    /// Comes with the disk's descriptor.
    Claimed,
    Failed(Failure),
}

/// An `io::Error` as part of a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Failure {
    kind: String,
    /// The operating system's error number, if the error has one.
    errno: Option<i32>,
    text: String,
    /// It cannot be a disk.
    is_no_disk: bool,
}

/// Kinds that callers distinguish. Others become `Other`.
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
        Self {
            kind: format!("{:?}", error.kind()),
            errno: error.raw_os_error(),
            text: error.to_string(),
            is_no_disk,
        }
    }

    fn error(self) -> io::Error {
        if self.is_no_disk {
            return io::Error::other(disk::NotADisk(self.text));
        }
        if let Some(errno) = self.errno {
            return io::Error::from_raw_os_error(errno);
        }
        let kind = KINDS
            .into_iter()
            .find(|kind| format!("{kind:?}") == self.kind)
            .unwrap_or(io::ErrorKind::Other);
        io::Error::new(kind, self.text)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Reply {
    call: u64,
    answer: Answer,
}

/// How the answers to a call are used.
enum Pending {
    Paths(Box<dyn FnOnce(io::Result<Vec<String>>) + Send>),
    /// Called with each answer; returns `false` when it expects no more.
    Open(Box<dyn FnMut(Opening) -> bool + Send>),
    Read(Completer, Buffer),
    InUseBy(mpsc::Sender<io::Result<Option<String>>>),
    Claim(mpsc::Sender<io::Result<OwnedFd>>),
}

/// A looker's report on a disk that is being opened.
pub(super) enum Opening {
    Is(Medium),
    Ended(io::Result<About>),
    /// It was one of the devices that are known to hang.
    Hangs,
}

/// The requester's end of a process that probes disks.
pub(super) struct Looker(Arc<Shared>);

struct Shared {
    frames: Frames,
    /// Held while a message is sent.
    sending: Mutex<()>,
    pending: Mutex<BTreeMap<u64, Pending>>,
    next: AtomicU64,
    has_ended: AtomicBool,
    /// Notified by each request, and at the end.
    asked: Condvar,
    /// Counts while a caller waits for an answer.
    waited: Arc<Waited>,
}

impl Looker {
    /// How long devices have kept callers of this looker waiting.
    pub(super) fn waited(&self) -> &Arc<Waited> {
        &self.0.waited
    }

    /// Whether it still accepts requests.
    pub(super) fn is_there(&self) -> bool {
        !self.0.has_ended.load(Ordering::Acquire)
    }

    /// Starts a looker.
    ///
    /// # Errors
    /// If no process, or thread, can be started.
    pub(super) fn start() -> io::Result<Arc<Self>> {
        let (ours, theirs) = UnixStream::pair()?;
        if HAS_COMMAND.get().is_none() {
            thread::Builder::new()
                .name("looking".into())
                .spawn(move || serve(Frames::ungreeted(theirs)))?;
            return Self::of(ours, None, None);
        }
        let child = spawn(theirs)?;
        let pid = child.id();
        Self::of(ours, Some(child), Some(pid))
    }

    /// `pid`: the process whose threads probe, if it is another one.
    fn of(ours: UnixStream, child: Option<Child>, pid: Option<u32>) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            frames: Frames::ungreeted(ours),
            sending: Mutex::default(),
            pending: Mutex::default(),
            next: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            asked: Condvar::new(),
            waited: Arc::default(),
        });
        let (hearing, counting) = (Arc::clone(&shared), Arc::clone(&shared));
        // From here on, dropping this ends the other side, and all threads started so far.
        let looker = Arc::new(Self(shared));
        thread::Builder::new().name("looker".into()).spawn(move || hearing.hear(child))?;
        thread::Builder::new()
            .name("waiting".into())
            .stack_size(64 << 10)
            .spawn(move || counting.count(pid))?;
        Ok(looker)
    }

    /// Requests the paths that match a pattern; `then` is called with the answer, on another
    /// thread.
    pub(super) fn expand(
        &self,
        pattern: &str,
        then: impl FnOnce(io::Result<Vec<String>>) + Send + 'static,
    ) {
        let pattern = pattern.to_owned();
        self.0.ask(Pending::Paths(Box::new(then)), |call| Ask::Expand { call, pattern });
    }

    /// Has a disk opened; `then` is called on another thread with each report, until it returns
    /// `false`.
    pub(super) fn open(
        self: &Arc<Self>,
        path: &str,
        wants_label: bool,
        hanging: Vec<Medium>,
        then: impl FnMut(Opening) -> bool + Send + 'static,
    ) -> Looked {
        let (path, disk) = (path.to_owned(), self.0.next.fetch_add(1, Ordering::Relaxed));
        let looked = Looked { looker: Arc::clone(self), disk };
        self.0.ask(Pending::Open(Box::new(then)), |call| Ask::Open {
            call,
            disk,
            path,
            wants_label,
            hanging,
        });
        looked
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        // The other side sees the end of its input and ends; then this side's thread ends, too.
        let _ = self.0.frames.stream().shutdown(std::net::Shutdown::Write);
    }
}

/// Starts this program as a looker, with the socket as its standard input.
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
        self.asked.notify_all();
        if let Err(error) = self.send(&ask(call)) {
            let pending = lock(&self.pending).remove(&call);
            pending.into_iter().for_each(|pending| pending.fail(&error));
        }
    }

    fn send(&self, ask: &Ask) -> io::Result<()> {
        let _one = lock(&self.sending);
        self.frames.send(ask, &[], None)
    }

    /// Counts the time in which callers wait. `pid`: of the looker, if it is another process.
    fn count(&self, pid: Option<u32>) {
        let has_ended = || self.has_ended.load(Ordering::Acquire);
        let mut began = Duration::ZERO;
        loop {
            let mut pending = lock(&self.pending);
            if pending.is_empty() {
                while pending.is_empty() && !has_ended() {
                    pending = self.asked.wait(pending).unwrap_or_else(PoisonError::into_inner);
                }
                began = self.waited.time();
            }
            drop(pending);
            if has_ended() {
                return;
            }
            let tick = Waited::tick(self.waited.since(began));
            thread::sleep(tick);
            if !lock(&self.pending).is_empty() {
                let is_heard = rustix::io::ioctl_fionread(self.frames.stream())
                    .is_ok_and(|unread| unread == 0);
                self.waited.count(tick, is_heard && pid.is_none_or(waiting::all_wait));
            }
        }
    }

    fn hear(&self, child: Option<Child>) {
        while let Ok(Some(reply)) = self.frames.receive::<Reply>() {
            let Some(pending) = lock(&self.pending).remove(&reply.head.call) else { continue };
            if let Some(pending) =
                pending.answer(reply.head.answer, &reply.body, reply.descriptors.into_iter().next())
            {
                lock(&self.pending).insert(reply.head.call, pending);
            }
        }
        self.has_ended.store(true, Ordering::Release);
        // From here on sending a request fails.
        let _ = self.frames.stream().shutdown(std::net::Shutdown::Both);
        let error =
            io::Error::new(io::ErrorKind::BrokenPipe, "the process that looked at it has ended");
        let pending = std::mem::take(&mut *lock(&self.pending));
        self.asked.notify_all();
        pending.into_values().for_each(|pending| pending.fail(&error));
        if let Some(mut child) = child {
            // The process may hang while it ends; then so does this thread.
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
            Self::Read(completer, buffer) => {
                completer.finish(Done { result: Err(error()), buffer: Some(buffer) })
            }
            Self::InUseBy(tell) => drop(tell.send(Err(error()))),
            Self::Claim(tell) => drop(tell.send(Err(error()))),
        }
    }

    /// Handles an answer. Returns itself if more answers will come.
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
            (Self::InUseBy(tell), Answer::InUseBy(in_use_by)) => drop(tell.send(Ok(in_use_by))),
            (Self::Claim(tell), Answer::Claimed) => drop(tell.send(descriptor.ok_or_else(strange))),
            (pending, _) => pending.fail(&strange()),
        }
        None
    }
}

/// A disk that a looker has open, or is opening.
pub(super) struct Looked {
    looker: Arc<Looker>,
    disk: u64,
}

impl Looked {
    pub(super) fn read(&self, offset: u64, buffer: Buffer, completer: Completer) {
        let (disk, length) = (self.disk, buffer.len());
        self.looker.0.ask(Pending::Read(completer, buffer), |call| Ask::Read {
            call,
            disk,
            offset,
            length,
        });
    }

    pub(super) fn in_use_by(&self) -> io::Result<Option<String>> {
        let disk = self.disk;
        self.ask(Pending::InUseBy, |call| Ask::InUseBy { call, disk })
    }

    /// Has the disk opened for writing and locked.
    pub(super) fn claim(&self) -> io::Result<File> {
        let disk = self.disk;
        self.ask(Pending::Claim, |call| Ask::Claim { call, disk }).map(File::from)
    }

    /// Sends a request, and waits for the answer.
    fn ask<T>(
        &self,
        pending: impl FnOnce(mpsc::Sender<io::Result<T>>) -> Pending,
        ask: impl FnOnce(u64) -> Ask,
    ) -> io::Result<T> {
        let (tell, told) = mpsc::channel();
        let waited = self.looker.waited();
        let from = waited.time();
        self.looker.0.ask(pending(tell), ask);
        loop {
            match told.recv_timeout(waiting::TICK) {
                Ok(answer) => return answer,
                Err(mpsc::RecvTimeoutError::Timeout) if waited.since(from) < DISK_TIMEOUT => {}
                Err(_) => return Err(no_answer(DISK_TIMEOUT)),
            }
        }
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
    // A caller waits for each answer: after a panic the process must end, so that the caller gets
    // an error.
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        std::process::abort();
    }));
    serve(Frames::ungreeted(UnixStream::from(socket)));
    // Does not wait for threads that hang.
    std::process::exit(0)
}

/// The looker's side: carries out requests until the socket is closed.
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
                    move || {
                        replies.send(
                            call,
                            Answer::Paths(super::discover::expand(&pattern)),
                            &[],
                            None,
                        )
                    }
                };
                if thread::Builder::new().name("expand".into()).spawn(expand).is_err() {
                    return replies.end();
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
                    Err(_) => return replies.end(),
                }
                (*call, *disk)
            }
            Ask::Read { call, disk, .. }
            | Ask::InUseBy { call, disk }
            | Ask::Claim { call, disk } => (*call, *disk),
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
    /// Ignores errors: a requester that is gone needs no answer.
    fn send(&self, call: u64, answer: Answer, body: &[u8], descriptor: Option<&File>) {
        let _one = lock(&self.sending);
        let sent = self.frames.send(&Reply { call, answer }, body, descriptor.map(AsFd::as_fd));
        if let Err(error) = sent
            && TooLong::of(&error).is_some()
        {
            let answer = Answer::Failed(Failure::of(&error));
            let _ = self.frames.send(&Reply { call, answer }, &[], None);
        }
    }

    /// Ends the connection because no thread can be started: the requester must not blame the
    /// devices.
    fn end(&self) {
        let _ = self.frames.stream().shutdown(std::net::Shutdown::Both);
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

/// The thread of one disk.
fn look_at(replies: &Replies, todo: &mpsc::Receiver<Ask>) {
    let mut open: Option<Open> = None;
    for ask in todo {
        match (ask, open.as_ref()) {
            (Ask::Open { call, path, wants_label, hanging, .. }, _) => {
                open = open_to_look(replies, call, path, wants_label, &hanging)
            }
            (Ask::Read { call, offset, length, .. }, Some(disk)) => {
                read(replies, call, disk, offset, length)
            }
            (Ask::InUseBy { call, .. }, Some(Open { file, about, .. })) => {
                let in_use_by = signature::of_file(about.medium, file, about.size, about.sectors());
                replies.send(call, Answer::InUseBy(in_use_by), &[], None);
            }
            (Ask::Claim { call, .. }, Some(Open { file, about, path })) => {
                match disk::open_and_lock(file, path, about.medium, about.direct) {
                    Ok(claimed) => replies.send(call, Answer::Claimed, &[], Some(&claimed)),
                    Err(error) => replies.fail(call, &error),
                }
            }
            (
                Ask::Read { call, .. } | Ask::InUseBy { call, .. } | Ask::Claim { call, .. },
                None,
            ) => {
                replies.fail(call, &io::Error::other("it is not open"));
            }
            (Ask::Expand { .. } | Ask::Close { .. }, _) => {}
        }
    }
}

fn open_to_look(
    replies: &Replies,
    call: u64,
    path: String,
    wants_label: bool,
    hanging: &[Medium],
) -> Option<Open> {
    let opened = disk::medium_of(&path).and_then(|medium| {
        replies.send(call, Answer::Is(medium), &[], None);
        if hanging.contains(&medium) {
            return Ok(None);
        }
        let (file, mut about) = disk::open_to_look(&path, medium)?;
        // The caller judges read errors when it reads. This only finds out whether the device
        // answers.
        let _ = file.read_at(&mut Buffer::zeroed(FIRST), 0);
        if wants_label {
            about.label = labelled::label_of(&file, &about).map(|label| label.to_string());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A process, killed at the end of the test.
    struct Running(Child);

    impl Running {
        fn start(program: &str, arguments: &[&str]) -> Self {
            Self(Command::new(program).args(arguments).spawn().expect("it starts"))
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// The error number, by which callers recognise that a device is gone, is preserved.
    #[test]
    fn an_error_arrives_as_it_was() {
        let sent = |error: &io::Error| {
            let text = serde_json::to_string(&Failure::of(error)).expect("it is written");
            serde_json::from_str::<Failure>(&text).expect("it is read").error()
        };
        assert_eq!(sent(&io::Error::from_raw_os_error(6)).raw_os_error(), Some(6));
        let told = sent(&io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "/disk is read-only"));
        assert_eq!(
            (told.kind(), told.to_string().as_str()),
            (io::ErrorKind::ReadOnlyFilesystem, "/disk is read-only")
        );
        assert!(
            sent(&io::Error::other(disk::NotADisk("/x".into())))
                .get_ref()
                .is_some_and(|it| it.is::<disk::NotADisk>())
        );
    }

    /// A looker that ends does not count as a disk that fails: the discovery is known to be void.
    #[test]
    fn a_looker_that_ends_breaks_the_look() {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let looker = Looker::of(ours, None, None).expect("a looker");
        let ends = thread::spawn(move || {
            // A request was sent to the looker.
            let _ = Frames::ungreeted(theirs).receive::<Ask>();
        });
        let (hanging, count) = (Arc::default(), crate::discover::Count::default());
        let mut found = Vec::new();
        let mut hear = |sign: plinth_engine::world::Sign| found.extend(sign.found());
        let timeout = (Duration::from_secs(1000), &count);
        let engine = crate::IoEngine::Threads;
        crate::discover::look(
            (&["/nowhere".to_owned()], &[]),
            engine,
            looker,
            &hanging,
            timeout,
            &mut hear,
        );
        ends.join().expect("no panic");
        assert!(plinth_engine::world::Progress::is_broken(&count));
        assert!(found.iter().all(|one| one.disk.is_err()), "{found:?}");
        assert!(hanging.list(Duration::ZERO).is_empty());
    }

    /// The same silence from a process that waits, and from one that could go on and has not got a
    /// processor. Ticks are counted in both cases, a tenth in the second.
    #[test]
    fn a_looker_that_gets_no_processor_is_no_disk_that_hangs() {
        let silent = |running: &Running| {
            let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
            let looker = Looker::of(ours, None, Some(running.0.id())).expect("a looker");
            let looked = looker.open("/nowhere", false, Vec::new(), |_| true);
            while looker.waited().time() == Duration::ZERO {
                thread::sleep(Duration::from_millis(5));
            }
            drop((looked, theirs));
            looker.waited().time()
        };
        let busy = Running::start("sh", &["-c", "while :; do :; done"]);
        assert_eq!(silent(&busy), waiting::TICK / 10);
        let waits = Running::start("sleep", &["1000"]);
        while !waiting::all_wait(waits.0.id()) {
            thread::yield_now();
        }
        assert_eq!(silent(&waits), waiting::TICK);
    }
}
