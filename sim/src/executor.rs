//! One thread that runs every task of every process, in an order that the seed decides.
//!
//! ```text
//!   spawn ----> tasks --wake--> ready --a draw--> polled or resumed: one step
//!                 ^               ^
//!   no task is ready: the clock jumps to the next alarm, which wakes a task or runs something
//! ```
//!
//! A task is a future, or synchronous code (the catalog) on its own stack, which yields whenever it
//! waits: so the end of a process can fall between any two of SQLite's calls of its file system.
//!
//! A process ends by [`Core::kill`], or after a number of its steps ([`Core::fuse`]). Its futures
//! are dropped. Its synchronous code cannot be dropped, because SQLite's frames are on its stack:
//! it stays suspended, with everything that it holds.
//!
//! Everything that could differ from run to run is drawn from [`Core::draw`]. The trace hash covers
//! each step and each line of the story, so equal hashes mean equal histories.

// synchronous code yields through a pointer to its coroutine; SQLite's generator is seeded
#![allow(unsafe_code)]

use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};
use plinth_engine::{testing::Numbers, world::Task};
use plinth_workload::lock;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// A process of the simulated host. 0 is the history itself.
pub type ProcessId = u32;

/// The process of the history, which is none of the host.
pub const OUTSIDE: ProcessId = 0;

/// A history that has not ended after this many steps never will.
const STEPS_MAX: u64 = 20_000_000;

/// Stack of synchronous code, in bytes: SQLite and the engine need a fraction.
const STACK: usize = 1 << 20;

type TaskId = u64;

enum Alarm {
    Wake(Waker),
    Do(Box<dyn FnOnce() + Send>),
}

enum New {
    Task(Task<'static, ()>),
    Code(Box<dyn FnOnce() + Send>),
}

#[derive(Default)]
struct Process {
    dead: bool,
    fuse: Option<Fuse>,
    /// Runs at the moment of its death.
    at_death: Option<Box<dyn FnOnce() + Send>>,
    /// Frozen: its tasks do not run.
    frozen: bool,
    /// Tasks that became ready while it was frozen.
    parked: Vec<TaskId>,
    /// Tasks that have not ended.
    tasks: u64,
}

struct State {
    /// Nanoseconds since the beginning.
    now: u64,
    numbers: Numbers,
    ready: Vec<TaskId>,
    alarms: BTreeMap<(u64, u64), Alarm>,
    new: Vec<(TaskId, ProcessId, New)>,
    processes: BTreeMap<ProcessId, Process>,
    died: Vec<ProcessId>,
    count: u64,
    steps: u64,
    hash: u64,
    story: std::collections::VecDeque<String>,
    tell: bool,
    disks: Behaviour,
    /// The first forbidden operation of an engine, whatever its result.
    offence: Option<String>,
    /// Forbidden operations are not counted for now.
    anything_goes: bool,
}

/// The behaviour of disks all through a history.
#[derive(Debug, Clone, Copy, Default)]
pub struct Behaviour {
    /// Faults strike in the middle of an operation.
    pub fails_midway: bool,
    /// Some I/O takes a thousand times as long as the rest.
    pub has_stragglers: bool,
}

/// Shared by the executor and the worlds of its processes.
pub struct Core(Mutex<State>);

/// Lines of the story that are kept.
const STORY_MAX: usize = 400;

impl Core {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// A number that the seed decides.
    pub fn draw(&self) -> u64 {
        self.state().numbers.draw()
    }

    /// A number below `limit`, which must not be 0.
    pub fn below(&self, limit: u64) -> u64 {
        self.draw() % limit
    }

    /// True once in `times`.
    pub fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn fill(&self, bytes: &mut [u8]) {
        self.state().numbers.fill(bytes);
    }

    /// Time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.state().now)
    }

    /// Tasks polled so far.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Whether faults strike in the middle of an operation.
    pub fn fails_midway(&self) -> bool {
        self.state().disks.fails_midway
    }

    /// Whether some I/O takes a thousand times as long as the rest.
    pub fn has_stragglers(&self) -> bool {
        self.state().disks.has_stragglers
    }

    /// Reports a forbidden operation of an engine. The first one counts.
    pub fn offend(&self, what: impl FnOnce() -> String) {
        let mut state = self.state();
        if !state.anything_goes {
            state.offence.get_or_insert_with(what);
        }
    }

    /// Forbidden operations are not counted from now on, or are again: an engine that has read
    /// hostile bytes may do what they say.
    pub fn let_anything_go(&self, anything_goes: bool) {
        self.state().anything_goes = anything_goes;
    }

    /// The first report to [`Core::offend`].
    pub fn offence(&self) -> Option<String> {
        self.state().offence.clone()
    }

    /// Decides the behaviour of disks from now on.
    pub fn set_behaviour(&self, disks: Behaviour) {
        self.state().disks = disks;
    }

    /// A number that stands for everything that has happened.
    pub fn hash(&self) -> u64 {
        self.state().hash
    }

    /// Makes `fact` part of the trace hash.
    pub fn note(&self, fact: u64) {
        let mut state = self.state();
        state.hash = mixed(state.hash, fact);
    }

    /// A line of the story, which is also part of the trace hash.
    pub fn tell(&self, line: impl FnOnce() -> String) {
        let line = line();
        let mut state = self.state();
        for chunk in line.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            state.hash = mixed(state.hash, u64::from_le_bytes(word));
        }
        let line = format!("{:>12.6} {line}", state.now as f64 / 1e9);
        if state.tell {
            eprintln!("{line}");
        }
        if state.story.len() == STORY_MAX {
            state.story.pop_front();
        }
        state.story.push_back(line);
    }

    /// The last lines of the story.
    pub fn story(&self) -> Vec<String> {
        self.state().story.iter().cloned().collect()
    }

    /// Spawns a task. Tasks of a dead process do not run.
    pub fn spawn(&self, process: ProcessId, task: Task<'static, ()>) {
        self.start(process, New::Task(task));
    }

    /// Runs synchronous code beside the tasks.
    pub fn spawn_code(&self, process: ProcessId, code: Box<dyn FnOnce() + Send>) {
        self.start(process, New::Code(code));
    }

    fn start(&self, process: ProcessId, new: New) {
        let refused = {
            let mut state = self.state();
            if state.processes.entry(process).or_default().dead {
                Some(new)
            } else {
                state.count += 1;
                let id = state.count;
                state.processes.entry(process).or_default().tasks += 1;
                state.new.push((id, process, new));
                state.ready.push(id);
                None
            }
        };
        // Dropped without the lock: its destructor may call the core.
        drop(refused);
    }

    /// Runs `what` after a while.
    pub fn after(&self, delay: Duration, what: impl FnOnce() + Send + 'static) {
        self.set_alarm(delay, Alarm::Do(Box::new(what)));
    }

    fn set_alarm(&self, delay: Duration, alarm: Alarm) {
        let mut state = self.state();
        state.count += 1;
        let when = state.now.saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
        let key = (when, state.count);
        state.alarms.insert(key, alarm);
    }

    /// A future that ends after a while.
    pub fn sleep(self: &Arc<Self>, delay: Duration) -> Sleep {
        let until =
            self.state().now.saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
        Sleep { core: Arc::clone(self), until, set: false }
    }

    pub fn is_dead(&self, process: ProcessId) -> bool {
        self.state().processes.get(&process).is_some_and(|process| process.dead)
    }

    /// Ends a process now: before its next step.
    pub fn kill(&self, process: ProcessId) {
        let mut state = self.state();
        kill(&mut state, process);
    }

    /// Stops a process as `SIGSTOP` does: its I/O goes on, its clock too, its tasks do not.
    pub fn freeze(&self, process: ProcessId) {
        self.state().processes.entry(process).or_default().frozen = true;
    }

    /// Lets a frozen process go on.
    pub fn thaw(&self, process: ProcessId) {
        let mut state = self.state();
        let entry = state.processes.entry(process).or_default();
        entry.frozen = false;
        let parked = std::mem::take(&mut entry.parked);
        for id in parked {
            if !state.ready.contains(&id) {
                state.ready.push(id);
            }
        }
    }

    /// Tasks of a process that have not ended.
    pub fn tasks(&self, process: ProcessId) -> u64 {
        self.state().processes.get(&process).map_or(0, |process| process.tasks)
    }

    /// Ends a process later; `None`: never.
    pub fn fuse(&self, process: ProcessId, fuse: Option<Fuse>) {
        self.state().processes.entry(process).or_default().fuse = fuse;
    }

    /// Runs `what` at the moment at which a living process dies: nothing else happens between.
    pub fn at_death(&self, process: ProcessId, what: impl FnOnce() + Send + 'static) {
        self.state().processes.entry(process).or_default().at_death = Some(Box::new(what));
    }

    /// A process has begun an I/O, or one of its I/Os has ended.
    pub fn io(&self, process: ProcessId, touch: Touch) {
        let mut state = self.state();
        let entry = state.processes.entry(process).or_default();
        let burnt = match &mut entry.fuse {
            Some(Fuse::Ios(left)) => burns_down(left),
            Some(Fuse::Changes(left)) => touch != Touch::Nothing && burns_down(left),
            Some(Fuse::Headers(left)) => touch == Touch::Header && burns_down(left),
            Some(Fuse::Discards(left)) => {
                matches!(touch, Touch::Hole | Touch::Discard) && burns_down(left)
            }
            Some(Fuse::Holes(left)) => touch == Touch::Hole && burns_down(left),
            Some(Fuse::Sums(left)) => touch == Touch::Sums && burns_down(left),
            _ => false,
        };
        if burnt {
            kill(&mut state, process);
        }
    }

    /// Whether a process can store a word for its successor: it may die before it has.
    pub fn keeps_word(&self, process: ProcessId) -> bool {
        let mut state = self.state();
        let entry = state.processes.entry(process).or_default();
        if let Some(Fuse::Words(left)) = &mut entry.fuse
            && burns_down(left)
        {
            kill(&mut state, process);
        }
        !state.processes.get(&process).is_some_and(|process| process.dead)
    }
}

/// The event after which a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fuse {
    /// This many of its steps.
    Steps(u64),
    /// This many beginnings and ends of its I/O.
    Ios(u64),
    /// This many beginnings and ends of writes, flushes and discards.
    Changes(u64),
    /// This many beginnings and ends of writes of a header's copy.
    Headers(u64),
    /// This many beginnings and ends of discards.
    Discards(u64),
    /// Those of holes alone.
    Holes(u64),
    /// This many beginnings and ends of writes in the checksum zones.
    Sums(u64),
    /// This many words that it stores for its successor.
    Words(u64),
}

/// The kind of change that an I/O makes to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    Nothing,
    /// A copy of its header is written.
    Header,
    /// Checksums are written.
    Sums,
    /// A hole in an extent is discarded.
    Hole,
    /// Anything else.
    Discard,
    Something,
}

/// Whether that was the last.
fn burns_down(left: &mut u64) -> bool {
    let last = *left == 0;
    *left = left.saturating_sub(1);
    last
}

fn kill(state: &mut State, process: ProcessId) {
    let entry = state.processes.entry(process).or_default();
    if !entry.dead {
        entry.dead = true;
        entry.fuse = None;
        state.died.push(process);
    }
}

fn mixed(hash: u64, fact: u64) -> u64 {
    (hash.rotate_left(5) ^ fact).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// Waits for a time.
pub struct Sleep {
    core: Arc<Core>,
    until: u64,
    set: bool,
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let now = self.core.state().now;
        if now >= self.until {
            return Poll::Ready(());
        }
        if !self.set {
            self.set = true;
            let delay = Duration::from_nanos(self.until - now);
            self.core.set_alarm(delay, Alarm::Wake(context.waker().clone()));
        }
        Poll::Pending
    }
}

struct TaskWaker {
    id: TaskId,
    core: Arc<Core>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.core.state();
        if !state.ready.contains(&self.id) {
            state.ready.push(self.id);
        }
    }
}

/// The waker of [`Executor::run_here`].
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Yield = Yielder<(), ()>;

thread_local! {
    /// The coroutine that runs now, and its waker.
    static CURRENT: Cell<*const Yield> = const { Cell::new(std::ptr::null()) };
    static WAKER: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

struct Fiber {
    coroutine: Coroutine<(), (), (), DefaultStack>,
    /// Set at its first step.
    yielder: Rc<Cell<*const Yield>>,
}

impl Fiber {
    fn new(code: Box<dyn FnOnce() + Send>) -> Self {
        let yielder = Rc::new(Cell::new(std::ptr::null()));
        let place = Rc::clone(&yielder);
        let stack = DefaultStack::new(STACK).expect("memory for a stack");
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yield, ()| {
            place.set(yielder);
            CURRENT.set(yielder);
            code();
        });
        Self { coroutine, yielder }
    }

    /// Whether it has ended.
    fn resume(&mut self, waker: Waker) -> bool {
        CURRENT.set(self.yielder.get());
        let outer = WAKER.replace(Some(waker));
        let result = self.coroutine.resume(());
        WAKER.replace(outer);
        CURRENT.set(std::ptr::null());
        matches!(result, CoroutineResult::Return(()))
    }

    /// Leaves it suspended: its stack cannot be unwound.
    fn abandon(self) {
        if !self.coroutine.done() {
            std::mem::forget(self.coroutine);
        }
    }
}

/// Waits for a task from inside synchronous code.
///
/// # Panics
/// If it is not called by synchronous code that was passed to [`Core::spawn_code`].
pub fn wait(mut task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
    loop {
        let waker = WAKER
            .with_borrow(|waker| waker.clone())
            .expect("only synchronous code waits like this");
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            return;
        }
        let yielder = CURRENT.get();
        // SAFETY: `Fiber::resume` sets it to the coroutine that it resumes, which is the one this
        // runs on; it lives on that coroutine's stack.
        unsafe { (*yielder).suspend(()) };
    }
}

enum Body {
    Future(Task<'static, ()>),
    Fiber(Box<Fiber>),
}

/// Runs the tasks. See the module's description.
pub struct Executor {
    core: Arc<Core>,
    bodies: BTreeMap<TaskId, (ProcessId, Body)>,
}

/// Why a history did not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stuck {
    /// No task is ready, and no alarm is set.
    Deadlock,
    /// It did not end within the greatest number of steps.
    Endless,
}

impl Executor {
    pub fn new(seed: u64, tell: bool) -> Self {
        seed_sqlite(seed);
        let state = State {
            now: 0,
            numbers: Numbers::new(seed),
            ready: Vec::new(),
            alarms: BTreeMap::new(),
            new: Vec::new(),
            processes: BTreeMap::new(),
            died: Vec::new(),
            count: 0,
            steps: 0,
            hash: mixed(0, seed),
            story: std::collections::VecDeque::new(),
            tell,
            disks: Behaviour::default(),
            offence: None,
            anything_goes: false,
        };
        Self { core: Arc::new(Core(Mutex::new(state))), bodies: BTreeMap::new() }
    }

    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Runs everything until `main` has ended.
    ///
    /// # Errors
    /// If it never will.
    pub fn run<T: Send + 'static>(
        &mut self,
        main: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Stuck> {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        self.core.spawn(OUTSIDE, Box::pin(async move { *lock(&place) = Some(main.await) }));
        loop {
            if let Some(value) = lock(&result).take() {
                return Ok(value);
            }
            self.turn()?;
        }
    }

    /// Runs everything until `main` has ended, which belongs to no process and may borrow from its
    /// caller: it is polled as soon as it is woken. `None`: `process` died first.
    ///
    /// # Errors
    /// If it never will.
    pub fn run_here<T>(
        &mut self,
        process: ProcessId,
        main: impl Future<Output = T>,
    ) -> Result<Option<T>, Stuck> {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut main = std::pin::pin!(main);
        loop {
            if woken.0.swap(false, Ordering::Relaxed)
                && let Poll::Ready(value) = main.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Ok(Some(value));
            }
            if self.core.is_dead(process) {
                return Ok(None);
            }
            self.turn()?;
        }
    }

    /// Runs the next step of a task that is ready; if there is none, the clock jumps to the next
    /// alarm.
    fn turn(&mut self) -> Result<(), Stuck> {
        self.bury();
        self.take_new();
        let next = {
            let mut state = self.core.state();
            if state.ready.is_empty() {
                None
            } else {
                let count = state.ready.len() as u64;
                let index = usize::try_from(state.numbers.draw() % count).expect("small");
                Some(state.ready.swap_remove(index))
            }
        };
        match next {
            Some(id) => self.step(id),
            None => self.advance(),
        }
    }

    fn take_new(&mut self) {
        let new = std::mem::take(&mut self.core.state().new);
        for (id, process, new) in new {
            let body = match new {
                New::Task(task) => Body::Future(task),
                New::Code(code) => Body::Fiber(Box::new(Fiber::new(code))),
            };
            self.bodies.insert(id, (process, body));
        }
    }

    fn waker(&self, id: TaskId) -> Waker {
        Waker::from(Arc::new(TaskWaker { id, core: Arc::clone(&self.core) }))
    }

    fn step(&mut self, id: TaskId) -> Result<(), Stuck> {
        let Some((process, mut body)) = self.bodies.remove(&id) else { return Ok(()) };
        {
            let mut state = self.core.state();
            state.steps += 1;
            if state.steps > STEPS_MAX {
                return Err(Stuck::Endless);
            }
            let entry = state.processes.entry(process).or_default();
            if entry.frozen && !entry.dead {
                if !entry.parked.contains(&id) {
                    entry.parked.push(id);
                }
                drop(state);
                self.bodies.insert(id, (process, body));
                return Ok(());
            }
            let now = state.now;
            state.hash = mixed(mixed(state.hash, id), now);
            let entry = state.processes.entry(process).or_default();
            if let Some(Fuse::Steps(left)) = &mut entry.fuse
                && burns_down(left)
            {
                kill(&mut state, process);
                drop(state);
                self.bodies.insert(id, (process, body));
                return Ok(());
            }
        }
        let waker = self.waker(id);
        let ended = match &mut body {
            Body::Future(task) => task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready(),
            Body::Fiber(fiber) => fiber.resume(waker),
        };
        if ended {
            let mut state = self.core.state();
            let entry = state.processes.entry(process).or_default();
            entry.tasks = entry.tasks.saturating_sub(1);
        } else {
            self.bodies.insert(id, (process, body));
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<(), Stuck> {
        let alarm = {
            let mut state = self.core.state();
            let ((when, _), alarm) = state.alarms.pop_first().ok_or(Stuck::Deadlock)?;
            state.now = state.now.max(when);
            alarm
        };
        match alarm {
            Alarm::Wake(waker) => waker.wake(),
            Alarm::Do(what) => what(),
        }
        Ok(())
    }

    /// Ends the tasks of processes that died.
    fn bury(&mut self) {
        loop {
            let (process, what) = {
                let mut state = self.core.state();
                let Some(process) = state.died.pop() else { return };
                (process, state.processes.entry(process).or_default().at_death.take())
            };
            if let Some(what) = what {
                what();
            }
            self.take_new();
            let ids: Vec<TaskId> = self
                .bodies
                .iter()
                .filter(|(_, (owner, _))| *owner == process)
                .map(|(id, _)| *id)
                .collect();
            let mut fibers = Vec::new();
            for id in ids {
                match self.bodies.remove(&id) {
                    Some((_, Body::Future(task))) => drop(task),
                    Some((_, Body::Fiber(fiber))) => fibers.push(fiber),
                    None => {}
                }
            }
            for fiber in fibers {
                fiber.abandon();
            }
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        let all: Vec<ProcessId> = self.core.state().processes.keys().copied().collect();
        for process in all {
            self.core.kill(process);
        }
        self.bury();
        // Alarms hold the core, which holds them.
        let alarms = std::mem::take(&mut self.core.state().alarms);
        drop(alarms);
    }
}

/// SQLite's generator of numbers is shared by the whole process: it is seeded anew for each
/// history.
fn seed_sqlite(seed: u64) {
    let word = i32::from_ne_bytes(seed.to_ne_bytes()[..4].try_into().expect("four bytes")) | 1;
    // SAFETY: a control of SQLite that takes an int and a connection or null; no connection is at
    // work.
    unsafe {
        rusqlite::ffi::sqlite3_test_control(
            rusqlite::ffi::SQLITE_TESTCTRL_PRNG_SEED,
            std::ffi::c_int::from(word),
            std::ptr::null_mut::<rusqlite::ffi::sqlite3>(),
        );
    }
}
