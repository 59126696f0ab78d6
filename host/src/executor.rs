//! Runs a future on the calling thread: [`block_on`].
//!
//! Each thread has a driver: a ring for its disk I/O (made when it first submits any), its timers,
//! and a parker with which other threads wake it. One turn:
//!
//! ```text
//!   poll --pending--> woken meanwhile? --yes--> submit, do not wait ----------+
//!     ^                    | no                                              |
//!     |       I/O in flight: submit, and wait in the ring;                    |
//!     |       none: park the thread                                           |
//!     |                    |                                                  v
//!     +--------------------+--<-- wake what has ended: I/O, then due timers <--+
//! ```
//!
//! The states of a parker, and which thread changes them:
//!
//! ```text
//!   RUNNING --owner--> PARKED | IN_RING --owner, the wait being over--> RUNNING
//!      |                     |
//!      +-------waker---------+--> WOKEN --owner--> RUNNING
//! ```
//!
//! A waker that finds PARKED unparks the thread; one that finds IN_RING writes to the event
//! descriptor, of which a read is in the ring.
//!
//! Invariants:
//!
//!   1. The future is polled after every wake-up; a wake-up between two polls is never lost, and
//!      a superfluous one does no harm.
//!   2. A nested `block_on` may take a wake-up that was meant for the outer one, so at its end it
//!      wakes the outer one.
//!   3. When the outermost `block_on` returns, or the thread ends, no I/O is left in the ring: I/O
//!      still in flight then belongs to the reaper.

use super::{
    busy_poll::{Habits, Kind, PollTime, SEATS},
    op::Op,
    reaper,
    ring::{Ring, Wait},
    socket_poll::Watch,
};
use rustix::event::{EventfdFlags, eventfd};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    io,
    os::fd::OwnedFd,
    pin::{Pin, pin},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

const RUNNING: u8 = 0;
const WOKEN: u8 = 1;
const PARKED: u8 = 2;
const IN_RING: u8 = 3;

struct Parker {
    state: AtomicU8,
    thread: Thread,
    bell: OnceLock<Arc<OwnedFd>>,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match self.state.swap(WOKEN, Ordering::AcqRel) {
            PARKED => self.thread.unpark(),
            IN_RING => self.ring_bell(),
            _ => {}
        }
    }
}

impl Parker {
    fn ring_bell(&self) {
        let bell = self.bell.get().expect("a thread is in its ring only after it made one");
        // It can fail only if the counter is at its limit, and then it is not zero anyway.
        let _ = rustix::io::write(&**bell, &1u64.to_ne_bytes());
    }

    /// Announces that the owner is about to wait. `false` if it was woken: then it must not wait.
    fn park(&self, how: u8) -> bool {
        self.state.compare_exchange(RUNNING, how, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The owner has stopped waiting. A wake-up that came meanwhile is kept; a wake-up by the owner
    /// itself from now on, for I/O that has ended, need not write to the descriptor.
    fn unpark(&self, how: u8) {
        let _ = self.state.compare_exchange(how, RUNNING, Ordering::AcqRel, Ordering::Acquire);
    }
}

enum RingState {
    None,
    Ready(Box<Ring>),
    /// No ring could be made; this thread uses the disks' pools.
    Refused,
}

struct Driver {
    parker: Arc<Parker>,
    waker: Waker,
    depth: Cell<usize>,
    ring: RefCell<RingState>,
    timers: RefCell<BTreeMap<(Instant, u64), Waker>>,
    /// Set on a thread that serves clients.
    poll_time: RefCell<Option<Arc<PollTime>>>,
    habits: Habits,
}

thread_local! {
    static DRIVER: Driver = Driver::new();
}

/// Runs a future to its end on this thread. May be nested.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    DRIVER.with(|driver| {
        let _entered = Entered::new(driver);
        let mut context = Context::from_waker(&driver.waker);
        loop {
            // This poll sees the cause of every wake-up before it.
            driver.parker.state.swap(RUNNING, Ordering::AcqRel);
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return value;
            }
            driver.turn();
        }
    })
}

/// Like `block_on`, for a thread that serves clients: it may poll before it sleeps.
pub fn block_on_polling<T>(time: &Arc<PollTime>, future: impl Future<Output = T>) -> T {
    let before = DRIVER.with(|driver| driver.poll_time.replace(Some(Arc::clone(time))));
    let value = block_on(future);
    DRIVER.with(|driver| driver.poll_time.replace(before));
    value
}

/// A future that ends when `duration` is over. Runs inside [`block_on`] only.
#[must_use]
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now(), duration, Duration::ZERO)
}

/// How late a thread may wake up that the kernel was to wake: timer slack, 50 us, and the way from
/// sleep to the processor.
const WAKE_UP_LATE: Duration = Duration::from_micros(120);

/// The same, exact to some microseconds: it polls at its end instead of sleeping, and other futures
/// of the thread go on meanwhile.
#[must_use]
pub fn sleep_precisely(duration: Duration) -> Sleep {
    sleep_until(Instant::now(), duration, WAKE_UP_LATE.min(duration))
}

fn sleep_until(now: Instant, duration: Duration, early: Duration) -> Sleep {
    const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let duration = duration.min(FOREVER);
    Sleep {
        deadline: now + duration,
        wake_at: now + duration.saturating_sub(early),
        id: NEXT.fetch_add(1, Ordering::Relaxed),
        registered: false,
    }
}

/// See [`sleep`].
#[derive(Debug)]
pub struct Sleep {
    deadline: Instant,
    /// The time of its timer. From then until the deadline it is polled again and again.
    wake_at: Instant,
    id: u64,
    registered: bool,
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if now >= self.deadline {
            return Poll::Ready(());
        }
        if now >= self.wake_at {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.registered = true;
        let key = (self.wake_at, self.id);
        DRIVER.with(|driver| driver.timers.borrow_mut().insert(key, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.registered {
            // If it is dropped on another thread than the one that polled it, that thread gets a
            // superfluous wake-up.
            let key = (self.wake_at, self.id);
            let waker = DRIVER.try_with(|driver| driver.timers.borrow_mut().remove(&key));
            drop(waker);
        }
    }
}

/// Starts a watch on this thread's ring. `false` if the thread has no ring, or no room in it.
pub(super) fn watch(watch: Watch) -> bool {
    DRIVER
        .try_with(|driver| driver.with_ring(|ring| ring.watch(watch)))
        .ok()
        .flatten()
        .unwrap_or(false)
}

/// Starts an operation on this thread's ring. Returns the operation if the thread has none.
pub(super) fn submit(op: Op) -> Result<(), Op> {
    let mut op = Some(op);
    // A thread that is ending has no driver any more; then the operation is returned, too.
    let _ = DRIVER.try_with(|driver| {
        driver.with_ring(|ring| op.take().into_iter().for_each(|op| ring.start(op)))
    });
    op.map_or(Ok(()), Err)
}

/// Marks this thread as one that serves clients.
#[cfg(test)]
pub(super) fn look_first(time: &Arc<PollTime>) {
    DRIVER.with(|driver| driver.poll_time.replace(Some(Arc::clone(time))));
}

/// Gives this thread a ring of a given size.
#[cfg(test)]
pub(super) fn use_ring_of(submissions: u32, completions: u32) {
    DRIVER.with(|driver| {
        driver.new_ring().expect("io_uring");
        let bell = Arc::clone(driver.parker.bell.get().expect("made with the ring"));
        let ring = Ring::with_sizes(bell, submissions, completions).expect("io_uring");
        *driver.ring.borrow_mut() = RingState::Ready(Box::new(ring));
    });
}

impl Driver {
    fn new() -> Self {
        let parker = Arc::new(Parker {
            state: AtomicU8::new(RUNNING),
            thread: thread::current(),
            bell: OnceLock::new(),
        });
        Self {
            waker: Waker::from(Arc::clone(&parker)),
            parker,
            depth: Cell::new(0),
            ring: RefCell::new(RingState::None),
            timers: RefCell::default(),
            poll_time: RefCell::default(),
            habits: Habits::default(),
        }
    }

    /// Uses this thread's ring, if it has one or can have one.
    fn with_ring<T>(&self, what: impl FnOnce(&mut Ring) -> T) -> Option<T> {
        let mut state = self.ring.borrow_mut();
        if matches!(*state, RingState::None) {
            *state = self.new_ring().map_or(RingState::Refused, RingState::Ready);
        }
        if let RingState::Ready(ring) = &mut *state { Some(what(ring)) } else { None }
    }

    fn new_ring(&self) -> io::Result<Box<Ring>> {
        reaper::start()?;
        let bell = match self.parker.bell.get() {
            Some(bell) => Arc::clone(bell),
            None => {
                let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
                Arc::clone(self.parker.bell.get_or_init(|| bell))
            }
        };
        Ok(Box::new(Ring::new(bell)?))
    }

    /// Waits until there may be a reason to poll again; see the diagram above.
    fn turn(&self) {
        let wait = self.until_next_timer();
        let mut state = self.ring.borrow_mut();
        match &mut *state {
            RingState::Ready(ring) if !ring.is_idle() => {
                let wait = match self.look(ring, wait) {
                    Some(true) => Wait::No,
                    Some(false) => self.until_next_timer(),
                    None => wait,
                };
                let wait =
                    if wait != Wait::No && self.parker.park(IN_RING) { wait } else { Wait::No };
                ring.enter(wait);
                drop(state);
                self.parker.unpark(IN_RING);
            }
            _ => {
                drop(state);
                if wait != Wait::No && self.parker.park(PARKED) {
                    match wait {
                        Wait::AtMost(time) => thread::park_timeout(time),
                        Wait::Forever | Wait::No => thread::park(),
                    }
                    self.parker.unpark(PARKED);
                }
            }
        }
        self.finish_ended();
        self.fire_timers();
    }

    fn until_next_timer(&self) -> Wait {
        match self.timers.borrow().first_key_value() {
            None => Wait::Forever,
            Some(((deadline, _), _)) => match deadline.saturating_duration_since(Instant::now()) {
                Duration::ZERO => Wait::No,
                time => Wait::AtMost(time),
            },
        }
    }

    /// Polls for a while for the end of an I/O or a wake-up by another thread. Returns whether
    /// there was one; `None` if it does not poll.
    fn look(&self, ring: &mut Ring, wait: Wait) -> Option<bool> {
        let poll_time = self.poll_time.borrow();
        let time = poll_time.as_ref().map_or(Duration::ZERO, |time| time.get());
        let time = match wait {
            Wait::No => return None,
            Wait::Forever => time,
            Wait::AtMost(most) => time.min(most),
        };
        if time.is_zero() {
            return None;
        }
        let kind = if ring.has_operations() { Kind::Disks } else { Kind::Clients };
        let look = self.habits.begin(kind, &SEATS)?;
        ring.enter(Wait::No);
        Some(
            look.until(time, || {
                ring.has_ended() || self.parker.state.load(Ordering::Relaxed) == WOKEN
            }),
        )
    }

    /// Wakes the waiters of I/O that has ended. The ring is not borrowed meanwhile: a waker runs
    /// the caller's code.
    fn finish_ended(&self) {
        let mut now = None;
        loop {
            let ended = match &mut *self.ring.borrow_mut() {
                RingState::Ready(ring) => ring.reap(),
                RingState::None | RingState::Refused => None,
            };
            match ended {
                // Operations that are found to have ended together get the same end time.
                Some(ended) => ended.tell_at(Some(*now.get_or_insert_with(super::monotonic))),
                None => return,
            }
        }
    }

    fn fire_timers(&self) {
        if self.timers.borrow().is_empty() {
            return;
        }
        let now = Instant::now();
        loop {
            let waker = {
                let mut timers = self.timers.borrow_mut();
                match timers.first_entry() {
                    Some(entry) if entry.key().0 <= now => entry.remove(),
                    _ => return,
                }
            };
            waker.wake();
        }
    }

    /// Leaves no I/O in the ring (invariant 3).
    fn leave_ring(&self) {
        let RingState::Ready(mut ring) = self.ring.replace(RingState::None) else { return };
        if !ring.is_idle() {
            ring.end_watches();
        }
        if ring.is_idle() {
            self.ring.replace(RingState::Ready(ring));
            return;
        }
        // Submits all that the kernel accepts, and removes the wake-up read, so that it does not
        // swallow a wake-up of the next ring. I/O that ends meanwhile is completed.
        if ring.is_armed() {
            self.parker.ring_bell();
        }
        while ring.is_armed() || !ring.is_submitted() {
            ring.enter(Wait::No);
            if ring.is_armed() {
                ring.enter(Wait::Forever);
            }
            while let Some(ended) = ring.reap() {
                ended.tell();
            }
        }
        if ring.is_idle() {
            self.ring.replace(RingState::Ready(ring));
        } else {
            reaper::adopt(*ring);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.leave_ring();
    }
}

/// One `block_on` that runs on this thread.
struct Entered<'a>(&'a Driver);

impl<'a> Entered<'a> {
    fn new(driver: &'a Driver) -> Self {
        driver.depth.set(driver.depth.get() + 1);
        Self(driver)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let depth = self.0.depth.get() - 1;
        self.0.depth.set(depth);
        if depth > 0 {
            self.0.parker.state.store(WOKEN, Ordering::Release); // invariant 2
        } else {
            self.0.leave_ring();
        }
    }
}
