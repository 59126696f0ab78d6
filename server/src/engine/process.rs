//! The process itself: start, mount, serve, end.
//!
//! Mounts and connections of NBD clients outlive the process: the instance holds duplicates of
//! their descriptors and gives them to the next engine. An engine that has to hand over, or to end
//! because of a signal, first answers the requests that it has begun, and dismounts the group in
//! good order, so that the next engine has nothing to recover. The next engine may be waiting
//! already: it gets the lock of the only engine, on a file, when this process is gone with all its
//! threads.
//!
//! When the catalog stops, nothing is made durable any more, and only a mount can find out what is
//! on the disks. So the process logs the reason and ends; the instance starts another.

use super::{
    clients::clients,
    exports::{Export, Exporting},
    files,
    keeping::Keeping,
    protocol::{Answer, EngineFigures, How, NAME, Notice, ProcessRequest, Request, Status},
    this_thread::ThisThread,
};
use crate::{
    alert::Alert,
    paths::Paths,
    process::{self, Peer},
    stdio,
};
use plinth_engine::{
    admin::{AdminError, Code, Command, NewGroup, Outcome, Value},
    api::{ConnectionId, Invalidation, Watcher},
    catalog::rows::{Piece, decode_rows},
    event::Severity,
    files::session::Session,
    group::Group,
    world::World,
};
use plinth_fuse::{End, FrontEnd};
use plinth_host::{
    IoChoice, RealWorld, block_on,
    ipc::{Frames, Received, TooLong},
    priority::lower_priority,
};
use rustix::fd::{AsFd, OwnedFd};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// How long an engine without a group runs without a request.
const IDLE: Duration = Duration::from_secs(60);
/// How long a starting engine waits for the lock of an engine that is ending.
const PARTING: Duration = Duration::from_secs(10);
/// Most connections at one time: the instance's few, and those of `plinth cp`.
const CONNECTIONS_MAX: usize = 64;
/// The exit code of an engine whose catalog has stopped.
const STOPPED: i32 = 3;
/// How often a connection that receives notices is checked for its end.
const LOOK: Duration = Duration::from_secs(1);
/// How long a stopping engine waits until its notice is delivered.
const HEARD: Duration = Duration::from_secs(1);
/// How long requests in flight may take when the mounts are handed over. Requests that are not
/// answered by then are sent again, to the next engine.
const ANSWERED: Duration = Duration::from_secs(2);
/// FUSE worker threads that are kept ready.
const WORKERS: usize = 4;

/// The options that an engine is started with.
#[derive(Debug, Clone)]
pub struct Options {
    pub paths: Paths,
    pub group: String,
    pub diskstring: String,
    pub io: IoChoice,
    /// Another engine of the group runs, and is going to hand over.
    pub is_successor: bool,
}

/// A mount that is served.
struct Served {
    connection: ConnectionId,
    /// A duplicate, for an instance that has lost its own.
    device: OwnedFd,
    front_end: Arc<FrontEnd>,
}

/// Settings of the instance: the failure groups that reads prefer, and the power of a rebalance for
/// which no statement names one; and the group that was last given them. They have a lock of their
/// own, because a mount may hold the group's lock for long, and a change of a setting must not wait
/// for it.
#[derive(Default)]
struct Preferred {
    failure_groups: BTreeSet<String>,
    power: Option<u32>,
    group: Weak<Group>,
}

struct Engine {
    options: Options,
    world: Arc<RealWorld>,
    alert: Alert,
    /// The lock of the only engine; a successor has none before its predecessor is gone.
    sign: Mutex<Option<fs::File>>,
    group: Mutex<Option<Arc<Group>>>,
    preferred: Mutex<Preferred>,
    serving: Mutex<BTreeMap<PathBuf, Served>>,
    exporting: Exporting,
    keeping: Arc<Keeping>,
    watchers: Mutex<Vec<Sender<Notice>>>,
    /// Connections that receive notices.
    watching: AtomicUsize,
    connections: AtomicUsize,
    /// The engine ends in good order: if the catalog stops now, the caller gets that error, and the
    /// engine does not end because of it.
    leaving: AtomicBool,
    /// When the last request came.
    wanted: Mutex<Instant>,
}

/// Plants a bug, which tests have to find.
#[cfg(feature = "planted")]
fn plant_a_mistake() {
    use plinth_engine::planted::{Bug, plant};
    let Ok(name) = std::env::var("PLINTH_PLANTED") else { return };
    let bug = Bug::ALL.iter().find(|bug| bug.name() == name);
    plant(Some(*bug.unwrap_or_else(|| panic!("there is no mistake {name}"))));
}

/// A panic is a bug of ours that left something half done: the engine dies at once, the instance
/// starts another, and that one recovers. If only its thread ended, the threads that depend on that
/// thread would wait for ever.
fn die_of_panics(alert: Alert, group: &str) {
    let group = group.to_owned();
    std::panic::set_hook(Box::new(move |info| {
        let trace = std::backtrace::Backtrace::force_capture();
        stdio::warn(&format!("{info}\n{trace}\n"));
        alert.line(Severity::Alarm, &group, &format!("the engine dies of a bug: {info}"));
        alert.flush();
        std::process::abort();
    }));
}

/// Takes the lock of the only engine. An engine that has dismounted its group answers first and
/// ends after, so it may still hold the lock for a moment.
fn the_only_engine(sign: &Path) -> io::Result<Option<fs::File>> {
    let began = Instant::now();
    loop {
        match process::only_one(sign) {
            Ok(None) if began.elapsed() < PARTING => thread::sleep(Duration::from_millis(1)),
            taken => return taken,
        }
    }
}

/// Runs an engine until it ends.
#[must_use]
pub fn run(options: Options) -> ExitCode {
    process::keep_signals();
    // The name in a list of processes, however the program was started.
    let _ = rustix::thread::set_name(c"plinth");
    // In a session of its own, so that signals of the instance's terminal do not reach it. The call
    // fails if it has one already.
    let _ = rustix::process::setsid();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let group = options.group.clone();
    let sign = if options.is_successor {
        None
    } else {
        match the_only_engine(&options.paths.engine_pid(&group)) {
            Ok(Some(sign)) => Some(sign),
            Ok(None) => {
                stdio::warn(&format!("plinth: another engine of {group} runs\n"));
                return ExitCode::FAILURE;
            }
            Err(error) => {
                let pid = options.paths.engine_pid(&group);
                stdio::warn(&format!("plinth: {}: {error}\n", pid.display()));
                return ExitCode::FAILURE;
            }
        }
    };
    protect();
    process::raise_descriptors();
    #[cfg(feature = "planted")]
    plant_a_mistake();
    let alert = Alert::new(options.paths.alert(), false);
    die_of_panics(alert.clone(), &group);
    let started = Engine::new(options, alert, sign).and_then(|engine| {
        let socket = engine.socket();
        let _ = fs::remove_file(&socket);
        Ok((engine, UnixListener::bind(&socket)?))
    });
    let (engine, listener) = match started {
        Ok(started) => started,
        Err(error) => {
            stdio::warn(&format!("plinth: engine of {group}: {error}\n"));
            return ExitCode::FAILURE;
        }
    };
    let accepting = Arc::clone(&engine);
    if let Err(error) =
        thread::Builder::new().name("accept".into()).spawn(move || accepting.accept(&listener))
    {
        stdio::warn(&format!("plinth: engine of {group}: {error}\n"));
        return ExitCode::FAILURE;
    }
    process::wait_for_end();
    engine.end();
    ExitCode::SUCCESS
}

/// Makes it unlikely that the kernel stops the engine when databases need it. Best effort: the
/// privileges may be missing.
fn protect() {
    // The kernel must not wait for this process's own mounts when it frees memory for this process.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let flags = rustix::mm::MlockAllFlags::CURRENT | rustix::mm::MlockAllFlags::FUTURE;
    let _ = rustix::mm::mlockall(flags | rustix::mm::MlockAllFlags::ONFAULT);
    let _ = fs::write("/proc/self/oom_score_adj", "-900");
    process::share_memory();
}

impl Preferred {
    fn tell(&self) {
        if let Some(group) = self.group.upgrade() {
            group.prefer_reads(&self.failure_groups);
            self.power.into_iter().for_each(|power| group.set_power_default(power));
        }
    }
}

/// Has the kernel forget the cached bytes of every file: the previous engine may have ended before
/// it passed on changes by other front ends. (Names are all invalidated anyway.)
fn forget_bytes(group: &Group, watcher: &dyn Watcher) {
    let Ok(mut pieces) = block_on(group.query_parts("SELECT file_number FROM v$asm_file")) else {
        return;
    };
    while let Some(piece) = block_on(pieces.next()) {
        let Piece::Part { rows, bytes } = piece else { continue };
        let nodes = decode_rows(rows, &bytes).unwrap_or_default().into_iter().filter_map(|row| {
            match row.first() {
                Some(Value::Integer(number)) => Some(number.cast_unsigned()),
                _ => None,
            }
        });
        nodes.for_each(|node| watcher.invalidate(&Invalidation::Node(node)));
    }
}

impl Engine {
    fn new(options: Options, alert: Alert, sign: Option<fs::File>) -> io::Result<Arc<Self>> {
        let events = alert.clone();
        let world = RealWorld::new(options.io, move |event| events.event(&event))?;
        world.set_diskstring(&options.diskstring).map_err(io::Error::other)?;
        world.keep_in(options.paths.dir());
        world.note_in(options.paths.state());
        let keeping = Arc::<Keeping>::default();
        let this_thread = Arc::new(ThisThread(world.poll_time()));
        let exporting =
            Exporting::new(alert.clone(), &options.group, this_thread, Arc::clone(&keeping));
        Ok(Arc::new(Self {
            options,
            world: Arc::new(world),
            alert,
            sign: Mutex::new(sign),
            group: Mutex::default(),
            preferred: Mutex::default(),
            serving: Mutex::default(),
            exporting,
            keeping,
            watchers: Mutex::default(),
            watching: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
            wanted: Mutex::new(Instant::now()),
        }))
    }

    fn sign(&self) -> MutexGuard<'_, Option<fs::File>> {
        self.sign.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of this engine's socket.
    fn socket(&self) -> PathBuf {
        let (paths, group) = (&self.options.paths, &self.options.group);
        if self.sign().is_some() { paths.engine(group) } else { paths.successor(group) }
    }

    /// A successor becomes the group's engine when its predecessor is gone, with all its threads:
    /// from then on the predecessor answers nothing.
    fn succeed(&self) -> Result<(), AdminError> {
        let mut sign = self.sign();
        if sign.is_some() {
            return Ok(());
        }
        let (paths, group) = (&self.options.paths, &self.options.group);
        let failed = |error: &dyn std::fmt::Display| {
            AdminError::new(
                Code::HeldElsewhere,
                format!("the engine of {group} has no successor: {error}"),
            )
        };
        let taken = the_only_engine(&paths.engine_pid(group)).map_err(|error| failed(&error))?;
        let taken = taken.ok_or_else(|| failed(&"it does not end"))?;
        fs::rename(paths.successor(group), paths.engine(group)).map_err(|error| failed(&error))?;
        *sign = Some(taken);
        Ok(())
    }

    fn group(&self) -> MutexGuard<'_, Option<Arc<Group>>> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn preferred(&self) -> MutexGuard<'_, Preferred> {
        self.preferred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serving(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Served>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mounted(&self) -> Result<Arc<Group>, AdminError> {
        let name = &self.options.group;
        self.group().clone().ok_or_else(|| {
            AdminError::new(Code::NotMounted, format!("disk group {name} is not mounted"))
                .hint(format!("ALTER DISKGROUP {name} MOUNT"))
        })
    }

    /// Ends the process because the catalog has stopped: every later request would fail.
    fn stop(&self, reason: &str) {
        if self.leaving.swap(true, Ordering::SeqCst) {
            return;
        }
        let name = &self.options.group;
        let text = format!(
            "the catalog has stopped: {reason}. The engine ends; the next one recovers what the disks have"
        );
        self.alert.line(Severity::Alarm, name, &text);
        self.alert.flush();
        // A mount holds this lock for as long as it takes: if it does, that mount fails by itself,
        // and ends the process.
        let group = self.group.try_lock().ok().and_then(|group| group.clone());
        if let Some(group) = group {
            block_on(group.last_words());
        }
        {
            let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
            for watcher in watchers.drain(..) {
                let _ = watcher.send(Notice::Stopped(reason.to_owned()));
            }
        }
        let began = Instant::now();
        while self.watching.load(Ordering::SeqCst) > 0 && began.elapsed() < HEARD {
            thread::sleep(Duration::from_millis(1));
        }
        self.leave(STOPPED)
    }

    /// Ends the process in good order, on a signal.
    fn end(&self) {
        self.leaving.store(true, Ordering::SeqCst);
        self.exporting.freeze();
        let _ = self.answer_what_has_begun();
        let group = self.group().take();
        if let Some(group) = group {
            let name = &self.options.group;
            match block_on(group.dismount(true)) {
                Ok(()) => {
                    self.alert.line(Severity::Note, name, "dismounted: the engine was told to end")
                }
                Err(error) => {
                    self.alert.line(
                        Severity::Warning,
                        name,
                        &format!("ends without a clean dismount: {error}"),
                    );
                }
            }
        }
        self.leave(0);
    }

    /// Ends the process.
    fn leave(&self, code: i32) -> ! {
        let _ = fs::remove_file(self.socket());
        self.alert.flush();
        std::process::exit(code)
    }

    fn accept(self: &Arc<Self>, listener: &UnixListener) {
        let idle = Arc::clone(self);
        let _ = thread::Builder::new().name("idle".into()).spawn(move || idle.leave_when_idle());
        loop {
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            if !Peer::of(&stream).is_ok_and(|peer| peer.administers()) {
                continue;
            }
            if self.connections.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
                self.connections.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let engine = Arc::clone(self);
            let talking = thread::Builder::new().name("request".into()).spawn(move || {
                if let Ok(frames) = Frames::greet(stream, NAME) {
                    while let Ok(Some(request)) = frames.receive() {
                        let answered = engine.answer(&frames, request).or_else(|error| {
                            match TooLong::of(&error) {
                                Some(long) => {
                                    frames.send(&Answer::Refused(long.refusal()), &[], None)
                                }
                                None => Err(error),
                            }
                        });
                        if answered.is_err() {
                            break;
                        }
                    }
                }
                engine.connections.fetch_sub(1, Ordering::SeqCst);
                if engine.sign().is_none() {
                    // A successor whose client has disconnected: it is not needed any more.
                    engine.leave(0);
                }
            });
            if talking.is_err() {
                self.connections.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Ends an engine without a group and without requests: it is of no use, and may block another
    /// one.
    fn leave_when_idle(&self) {
        loop {
            thread::sleep(Duration::from_secs(5));
            let wanted = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            let idle = wanted.elapsed() > IDLE && self.connections.load(Ordering::SeqCst) == 0;
            if idle && self.group().is_none() {
                self.leave(0);
            }
        }
    }

    fn answer(self: &Arc<Self>, frames: &Frames, request: Received<Request>) -> io::Result<()> {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        match request.head {
            Request::Admin(command) => {
                frames.send(&Answer::from(self.carry_out(command)), &[], None)
            }
            Request::File(wanted) => {
                let answered =
                    self.mounted().and_then(|group| files::answer(group, wanted, &request.body));
                match answered {
                    Ok((answer, body)) => frames.send(&answer, &body, None),
                    Err(error) => frames.send(&Answer::Refused(error), &[], None),
                }
            }
            Request::Process(wanted) => match self.process(frames, wanted, request.descriptors)? {
                Some(answer) => frames.send(&answer, &[], None),
                None => Ok(()),
            },
        }
    }

    fn carry_out(&self, command: Command) -> Result<Outcome, AdminError> {
        let group = self.mounted()?;
        if let Command::Volume(change) = &command {
            self.exporting.refuse_loss(change)?;
        }
        block_on(group.carry_out(command))
    }

    /// The answer, or `None` if it has been sent already.
    fn process(
        self: &Arc<Self>,
        frames: &Frames,
        request: ProcessRequest,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<Option<Answer>> {
        let sent = |()| None;
        let result = match request {
            ProcessRequest::Status => return Ok(Some(Answer::Status(self.status()))),
            ProcessRequest::Create(new) => self.create(frames, new),
            ProcessRequest::Mount { force, restricted, patient, resume } => {
                self.mount_or_leave(frames, force, restricted, patient, &resume)
            }
            ProcessRequest::Rehearse => {
                let world: Arc<dyn World> = self.world.clone();
                block_on(Group::rehearse(&world, &self.options.group))
            }
            ProcessRequest::Dismount { force } => {
                return self.finish(frames, |engine| engine.dismount(force)).map(sent);
            }
            ProcessRequest::Drop { contents } => {
                return self.finish(frames, |engine| engine.drop_group(contents)).map(sent);
            }
            ProcessRequest::DropUnmounted => {
                let dropped = self.drop_unmounted();
                if self.group().is_none() {
                    let code = i32::from(dropped.is_err());
                    self.part(frames, &dropped.into(), code);
                }
                dropped
            }
            ProcessRequest::Scrubbed => {
                let found = self.mounted().map(|group| Outcome::Report(group.scrubbed()));
                return Ok(Some(found.into()));
            }
            ProcessRequest::Operations => {
                let operations = self.mounted().map(|group| group.operations());
                return Ok(Some(operations.map_or_else(Answer::Refused, Answer::Operations)));
            }
            ProcessRequest::Figures => {
                let figures = self.figures().map(|figures| Answer::Figures(Box::new(figures)));
                return Ok(Some(figures.unwrap_or_else(Answer::Refused)));
            }
            ProcessRequest::Query(sql) => return self.query(frames, &sql).map(sent),
            ProcessRequest::SetDiskstring(diskstring) => self
                .world
                .set_diskstring(&diskstring)
                .map_err(|error| AdminError::new(Code::Invalid, error)),
            ProcessRequest::CheckFailureGroups(names) => self.check_failure_groups(&names),
            ProcessRequest::PreferReads(failure_groups) => {
                self.prefer_reads(failure_groups);
                Ok(())
            }
            ProcessRequest::PowerDefault(power) => {
                let mut preferred = self.preferred();
                preferred.power = Some(power);
                preferred.tell();
                Ok(())
            }
            ProcessRequest::Serve { mount_point, connection, how } => {
                self.serve(mount_point, connection, descriptors.into_iter().next(), how)
            }
            ProcessRequest::GiveUp(connection) => {
                self.mounted().and_then(|group| block_on(group.give_up_mount(connection)))
            }
            ProcessRequest::Devices => return self.devices(frames).map(sent),
            ProcessRequest::Keep => return self.keeping.listen(frames).map(sent),
            ProcessRequest::Resume => self.exporting.adopt(descriptors),
            ProcessRequest::Resumed => {
                self.exporting.cut_survivors(|_| true);
                Ok(())
            }
            ProcessRequest::HandOver => return self.hand_over(frames).map(sent),
            ProcessRequest::Export(export) => self.export(&export),
            ProcessRequest::Withdraw { at, name, cut } => self.exporting.withdraw(&at, &name, cut),
            ProcessRequest::Exports => return Ok(Some(Answer::Exports(self.exporting.list()))),
            ProcessRequest::Watch => return self.watch(frames).map(sent),
        };
        Ok(Some(result.into()))
    }

    /// Creates the group. If that fails, the engine ends after its answer.
    fn create(&self, frames: &Frames, new: NewGroup) -> Result<(), AdminError> {
        let world: Arc<dyn World> = self.world.clone();
        let created = block_on(Group::create(&world, new));
        if created.is_err() {
            self.part(frames, &created.into(), 1);
        }
        created
    }

    /// Mounts the group. If that fails, the engine ends after its answer.
    fn mount_or_leave(
        self: &Arc<Self>,
        frames: &Frames,
        force: bool,
        restricted: bool,
        patient: bool,
        resume: &[ConnectionId],
    ) -> Result<(), AdminError> {
        let mounted =
            self.succeed().and_then(|()| self.mount(force, patient, resume)).and_then(|()| {
                if restricted {
                    self.mounted()?.restrict();
                }
                Ok(())
            });
        if mounted.as_ref().is_err_and(|error| error.code != Code::AlreadyMounted) {
            self.part(frames, &mounted.into(), 1);
        }
        mounted
    }

    fn drop_group(&self, contents: bool) -> Result<(), AdminError> {
        self.refuse_if_serving()?;
        self.exporting.refuse_if_any()?;
        block_on(self.mounted()?.drop_group(contents))
    }

    fn check_failure_groups(&self, names: &BTreeSet<String>) -> Result<(), AdminError> {
        let group = self.preferred().group.upgrade();
        group.map_or(Ok(()), |group| group.check_failure_groups(names))
    }

    fn prefer_reads(&self, failure_groups: BTreeSet<String>) {
        let mut preferred = self.preferred();
        preferred.failure_groups = failure_groups;
        preferred.tell();
    }

    /// Carries out a request after which the engine has no group, answers, and ends the process.
    fn finish(
        &self,
        frames: &Frames,
        what: impl FnOnce(&Self) -> Result<(), AdminError>,
    ) -> io::Result<()> {
        let alone = self.leaving.swap(true, Ordering::SeqCst);
        match what(self) {
            Ok(()) => {
                *self.group() = None;
                self.part(frames, &Answer::Done, 0)
            }
            Err(error) => {
                let sent = frames.send(&Answer::Refused(error), &[], None);
                self.leaving.store(alone, Ordering::SeqCst);
                let failure = self.group().as_ref().and_then(|group| group.failure());
                if let Some(reason) = failure {
                    self.stop(&reason);
                }
                sent
            }
        }
    }

    /// Answers, and ends the process, which has no group.
    fn part(&self, frames: &Frames, answer: &Answer, code: i32) -> ! {
        // The socket is removed before the answer: a client that has the answer may start another
        // engine at once.
        let _ = fs::remove_file(self.socket());
        let _ = frames.send(answer, &[], None);
        self.leave(code)
    }

    fn status(&self) -> Status {
        Status {
            pid: std::process::id(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            mounted: self.group().is_some(),
            io: self.world.io_engine_name().to_owned(),
            serving: self.serving().keys().cloned().collect(),
        }
    }

    /// The figures of the group and of this process. The thread has low priority from then on:
    /// those who watch wait for it, and databases do not.
    fn figures(&self) -> Result<EngineFigures, AdminError> {
        lower_priority();
        let group = self.mounted()?.figures();
        let exports = self.exporting.list();
        Ok(EngineFigures {
            mounts: self.serving().len() as u64,
            nbd_exports: exports.len() as u64,
            nbd_clients: exports.iter().map(|(_, clients)| *clients as u64).sum(),
            events: self.alert.counts(),
            group,
        })
    }

    fn mount(
        self: &Arc<Self>,
        force: bool,
        patient: bool,
        resume: &[ConnectionId],
    ) -> Result<(), AdminError> {
        let name = &self.options.group;
        if patient {
            let world: Arc<dyn World> = self.world.clone();
            block_on(Group::await_disks(&world, name));
        }
        let mut group = self.group();
        if group.is_some() {
            return Err(AdminError::new(
                Code::AlreadyMounted,
                format!("disk group {name} is mounted already"),
            ));
        }
        let world: Arc<dyn World> = self.world.clone();
        let mounted = block_on(Group::resume(world, name, force, resume))?;
        let engine = Arc::downgrade(self);
        mounted.when_stopped(move |reason| {
            let (engine, reason) = (engine.clone(), reason.to_owned());
            let stop = move || engine.upgrade().into_iter().for_each(|engine| engine.stop(&reason));
            // Without a thread to run `stop`, the process just exits; the next engine recovers.
            if thread::Builder::new().name("stop".into()).spawn(stop).is_err() {
                std::process::exit(STOPPED);
            }
        });
        let engine = Arc::downgrade(self);
        mounted.set_clients(move || {
            engine.upgrade().map_or_else(Vec::new, |engine| {
                let mut rows = clients(&engine.serving().keys().cloned().collect());
                rows.extend(engine.exporting.clients());
                rows
            })
        });
        {
            let mut preferred = self.preferred();
            preferred.group = Arc::downgrade(&mounted);
            preferred.tell();
        }
        *group = Some(mounted);
        Ok(())
    }

    fn drop_unmounted(&self) -> Result<(), AdminError> {
        let name = &self.options.group;
        let group = self.group();
        if group.is_some() {
            return Err(AdminError::new(
                Code::AlreadyMounted,
                format!("disk group {name} is mounted"),
            )
            .hint(format!("DROP DISKGROUP {name} INCLUDING CONTENTS")));
        }
        let world: Arc<dyn World> = self.world.clone();
        block_on(Group::drop_unmounted(&world, name)).map(drop)
    }

    fn refuse_if_serving(&self) -> Result<(), AdminError> {
        let serving: Vec<String> =
            self.serving().keys().map(|path| path.display().to_string()).collect();
        if serving.is_empty() {
            return Ok(());
        }
        Err(AdminError::new(
            Code::Busy,
            format!("disk group {} is mounted on {}", self.options.group, serving.join(", ")),
        )
        .hint(format!("plinth umount {}", serving.join(" "))))
    }

    fn dismount(&self, force: bool) -> Result<(), AdminError> {
        if !force {
            self.refuse_if_serving()?;
            self.exporting.refuse_if_used()?;
        }
        let group = self.mounted()?;
        self.exporting.stop();
        block_on(group.dismount(force))
    }

    fn query(&self, frames: &Frames, sql: &str) -> io::Result<()> {
        let mut pieces = match self.mounted().and_then(|group| block_on(group.query_parts(sql))) {
            Ok(pieces) => pieces,
            Err(error) => return frames.send(&Answer::Refused(error), &[], None),
        };
        while let Some(piece) = block_on(pieces.next()) {
            match piece {
                Piece::Columns(columns, types) => {
                    frames.send(&Answer::Rows { columns, types }, &[], None)?
                }
                Piece::Part { rows, bytes } => frames.send(&Answer::Part { rows }, &bytes, None)?,
                Piece::Refused(error) => return frames.send(&Answer::Refused(error), &[], None),
            }
        }
        frames.send(&Answer::Done, &[], None)
    }

    /// The group, unless it is mounted RESTRICTED: then front ends do not serve it.
    fn for_everybody(&self) -> Result<Arc<Group>, AdminError> {
        let group = self.mounted()?;
        if group.is_restricted() {
            let name = &self.options.group;
            return Err(AdminError::new(
                Code::Restricted,
                format!("disk group {name} is mounted RESTRICTED"),
            )
            .hint(format!("ALTER DISKGROUP {name} DISMOUNT; ALTER DISKGROUP {name} MOUNT")));
        }
        Ok(group)
    }

    fn export(&self, export: &Export) -> Result<(), AdminError> {
        self.exporting.export(self.for_everybody()?, export)
    }

    fn serve(
        self: &Arc<Self>,
        mount_point: PathBuf,
        connection: ConnectionId,
        device: Option<OwnedFd>,
        how: How,
    ) -> Result<(), AdminError> {
        let group = self.for_everybody()?;
        let device = device.ok_or_else(|| {
            AdminError::new(Code::Invalid, "the request to serve a mount came without its device")
        })?;
        let failed = |error: io::Error| {
            AdminError::new(Code::Io, format!("serving {}: {error}", mount_point.display()))
        };
        let kept = device.try_clone().map_err(failed)?;
        let mut told = None;
        let watched = Arc::clone(&group);
        let session = |watcher: Arc<dyn Watcher>| {
            told = Some(Arc::clone(&watcher));
            Session::of_mount(watched, watcher, connection)
        };
        let this_thread = Arc::new(ThisThread(self.world.poll_time()));
        let front_end = match how {
            How::New => FrontEnd::serve(device, session, this_thread, WORKERS),
            How::TakeOver { .. } => FrontEnd::take_over(device, session, this_thread, WORKERS),
        };
        let front_end = Arc::new(front_end.map_err(failed)?);
        if let (How::TakeOver { is_shared: true }, Some(watcher)) = (how, told) {
            let telling = thread::Builder::new().name("forget".into());
            let _ = telling.spawn(move || forget_bytes(&group, &*watcher));
        }
        let served = Served { connection, device: kept, front_end: Arc::clone(&front_end) };
        self.serving().insert(mount_point.clone(), served);
        let engine = Arc::clone(self);
        let waiting = thread::Builder::new().name("front end".into()).spawn(move || {
            if front_end.join() == End::HandedOver {
                return;
            }
            engine.serving().remove(&mount_point);
            let mut watchers = engine.watchers.lock().unwrap_or_else(PoisonError::into_inner);
            watchers.retain(|watcher| watcher.send(Notice::Unmounted(mount_point.clone())).is_ok());
        });
        waiting
            .map(drop)
            .map_err(|error| AdminError::new(Code::Io, format!("starting a thread: {error}")))
    }

    /// Sends the mounts that are served, with their devices.
    fn devices(&self, frames: &Frames) -> io::Result<()> {
        let all: io::Result<Vec<_>> = {
            let serving = self.serving();
            let duplicate = |(mount_point, served): (&PathBuf, &Served)| {
                Ok((mount_point.clone(), served.connection, served.device.try_clone()?))
            };
            serving.iter().map(duplicate).collect()
        };
        for (mount_point, connection, device) in all? {
            frames.send(&Answer::Device { mount_point, connection }, &[], Some(device.as_fd()))?;
        }
        frames.send(&Answer::Done, &[], None)
    }

    /// Stops taking requests of the mounts. Whether all requests in flight were answered in time.
    fn answer_what_has_begun(&self) -> bool {
        let front_ends: Vec<_> =
            self.serving().values().map(|served| Arc::clone(&served.front_end)).collect();
        let began = Instant::now();
        // All front ends stop first, so that they share one time limit.
        front_ends.iter().for_each(|front_end| _ = front_end.hand_over(Duration::ZERO));
        front_ends
            .iter()
            .all(|front_end| front_end.hand_over(ANSWERED.saturating_sub(began.elapsed())))
    }

    /// Leaves the mounts to another engine. From the first request that is not begun on, the
    /// databases wait. So slow work is done before that, and little is left to be made durable.
    fn hand_over(&self, frames: &Frames) -> io::Result<()> {
        let group = match self.mounted() {
            Ok(group) => group,
            Err(error) => return frames.send(&Answer::Refused(error), &[], None),
        };
        if let Err(error) = block_on(group.flush_for_handover()) {
            let text = format!("disk group {} is not handed over: {error}", self.options.group);
            let error = AdminError::new(error.code, text);
            return frames.send(&Answer::Refused(error), &[], None);
        }
        self.leaving.store(true, Ordering::SeqCst);
        self.exporting.freeze();
        let name = &self.options.group;
        let began = Instant::now();
        if self.answer_what_has_begun() {
            if let Err(error) = block_on(group.dismount(true)) {
                self.alert.line(
                    Severity::Warning,
                    name,
                    &format!("ends without a clean dismount: {error}"),
                );
            }
        } else {
            self.alert.line(
                Severity::Warning,
                name,
                "ends with requests in flight, which the next engine is sent again",
            );
        }
        let took = began.elapsed().as_millis();
        self.alert.line(
            Severity::Note,
            name,
            &format!("engine {} hands over after {took} ms", std::process::id()),
        );
        self.part(frames, &Answer::Done, 0)
    }

    /// Sends notices until either side is gone. The other side is checked only while there is no
    /// notice. The end of the connection shows the watcher that this process ended.
    fn watch(&self, frames: &Frames) -> io::Result<()> {
        let (sender, notices) = channel();
        self.watching.fetch_add(1, Ordering::SeqCst);
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        let told = frames.send(&Answer::Done, &[], None).and_then(|()| {
            loop {
                match notices.recv_timeout(LOOK) {
                    Ok(notice) => frames.send(&Answer::Notice(notice), &[], None)?,
                    Err(RecvTimeoutError::Timeout) if !frames.is_ended() => {}
                    Err(_) => break Ok(()),
                }
            }
        });
        self.watching.fetch_sub(1, Ordering::SeqCst);
        told
    }
}
