//! One I/O in flight: the caller that submitted it can wait for it, or stop waiting.
//!
//! A disk returns a [`Completion`] from `submit` and keeps the [`Completer`]. The I/O owns its
//! memory until the device is done, even if its caller has stopped waiting (R2: a hung disk keeps
//! its buffer, not its caller).
//!
//! ```text
//!   pending --finish--> done        --await--> Done, with the buffer
//!      |
//!      +--expire--> overdue --overdue().await--> Overdue; still pending, may be awaited again
//! ```
//!
//! A completion may be [`delayed`](Completion::delay): its waiter sees the end later than the disk
//! brought it, as if the disk were farther away. For the watchdog it has ended when the disk says
//! so (a distance is no silence), and its latency has the delay in it.
//!
//! A completion is awaited on the thread that submitted it: a real disk's ring is driven by that
//! thread alone.

use crate::{
    sync::{
        buffer::Buffer,
        oneshot::Oneshot,
        pool::{Pooled, Reuse, Spare},
    },
    world::{Task, World},
};
use futures::task::AtomicWaker;
use std::{
    cell::RefCell,
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release, SeqCst},
        },
    },
    task::{Context, Poll, ready},
    thread::LocalKey,
    time::Duration,
};

/// The end of one I/O.
#[derive(Debug)]
pub struct Done {
    /// `Ok` when every byte was transferred; there are no short transfers.
    pub result: io::Result<()>,
    /// The buffer of a read, filled if `result` is `Ok`. `None` for other I/O.
    pub buffer: Option<Buffer>,
}

/// The state that all handles of an I/O share. No handle waits for another here: each field is set
/// by one of them, at most once, and read by the others.
struct Shared {
    done: Oneshot<Done>,
    overdue: AtomicBool,
    waker: AtomicWaker,
    /// The clock that measures its latency, independent of when it is waited for.
    clock: OnceLock<Arc<dyn World>>,
    /// Nanoseconds.
    began: AtomicU64,
    at: AtomicU64,
    /// [`UNKNOWN`] until it has ended and is measured.
    time: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

/// When an I/O ended, by the monotonic clock, and its latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Took {
    pub at: Duration,
    pub time: Duration,
}

/// A change to the result of an I/O before its waiter sees it.
type Change = Box<dyn FnOnce(Done) -> Done + Send>;

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(UNKNOWN)
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            done: Oneshot::default(),
            overdue: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            clock: OnceLock::new(),
            began: AtomicU64::new(0),
            at: AtomicU64::new(0),
            time: AtomicU64::new(UNKNOWN),
        }
    }
}

impl Shared {
    /// Records its latency, if that is measured and not known yet. `at`: when it ended, if that is
    /// known.
    fn stop(&self, at: Option<Duration>) {
        if let Some(clock) = self.clock.get()
            && self.time.load(Acquire) == UNKNOWN
        {
            let at = at.unwrap_or_else(|| clock.monotonic());
            let began = Duration::from_nanos(self.began.load(Relaxed));
            self.at.store(nanoseconds(at), Relaxed);
            self.time.store(nanoseconds(at.saturating_sub(began)), Release);
        }
    }
}

thread_local! {
    static SPARE: Spare<Shared> = RefCell::default();
}

impl Reuse for Shared {
    fn spare() -> &'static LocalKey<Spare<Self>> {
        &SPARE
    }

    fn clear(&mut self) {
        self.done.clear();
        drop((self.waker.take(), self.clock.take()));
        *self.overdue.get_mut() = false;
        *self.time.get_mut() = UNKNOWN;
    }
}

/// Waits for one I/O. See the module's description.
pub struct Completion {
    shared: Pooled<Shared>,
    change: Option<Change>,
    /// Boxed: that is rare.
    delay: Option<Box<Delay>>,
}

/// By how much later than the disk brought it the waiter sees the end of an I/O.
struct Delay {
    time: Duration,
    world: Arc<dyn World>,
    /// The end that the disk has brought, while it is kept back.
    done: Option<Done>,
    sleep: Option<Task<'static, ()>>,
}

impl Delay {
    /// The disk has brought the end, at `at` if that was measured. A write that has found no room
    /// is tried again, and the next attempt is delayed: not this one, too.
    fn keep_back(&mut self, done: Done, at: Option<Duration>) {
        if done.result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull) {
            self.time = Duration::ZERO;
        }
        let now = self.world.monotonic();
        let left = (at.unwrap_or(now) + self.time).saturating_sub(now);
        self.sleep = (!left.is_zero()).then(|| self.world.sleep_precisely(left));
        self.done = Some(done);
    }

    /// The end, if the disk has brought one and it was kept back for long enough.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Done>> {
        if let Some(sleep) = &mut self.sleep {
            ready!(sleep.as_mut().poll(context));
            self.sleep = None;
        }
        Poll::Ready(self.done.take())
    }
}

/// Ends one I/O; kept by the disk.
pub struct Completer(Pooled<Shared>);

/// Declares one I/O overdue; kept by the watchdog.
#[derive(Clone)]
pub struct Expiry(Pooled<Shared>);

/// A completion and the means to end it.
#[must_use]
pub fn completion() -> (Completion, Completer) {
    let shared: Pooled<Shared> = Pooled::new(|_| ());
    (Completion { shared: shared.clone(), change: None, delay: None }, Completer(shared))
}

impl Completion {
    /// A completion that has already ended.
    #[must_use]
    pub fn ready(done: Done) -> Self {
        let (completion, completer) = completion();
        completer.finish(done);
        completion
    }

    /// The same I/O, with its end changed by `change` before its waiter sees it.
    ///
    /// # Panics
    /// If it was called before.
    #[must_use]
    pub fn map(mut self, change: impl FnOnce(Done) -> Done + Send + 'static) -> Self {
        assert!(self.change.is_none(), "one change for one I/O");
        self.change = Some(Box::new(change));
        self
    }

    /// Its waiter sees its end `time` later than the disk brings it. To be called before it is
    /// waited for.
    pub fn delay(&mut self, world: &Arc<dyn World>, time: Duration) {
        self.delay =
            Some(Box::new(Delay { time, world: Arc::clone(world), done: None, sleep: None }));
    }

    /// Starts to measure the latency of the I/O, which was submitted at `began`. Called before it
    /// is waited for.
    pub fn measure(&self, clock: &Arc<dyn World>, began: Duration) {
        self.shared.began.store(nanoseconds(began), Relaxed);
        if self.shared.clock.set(Arc::clone(clock)).is_ok() && self.shared.done.was_put() {
            // It ended before it was known that it is measured.
            self.shared.stop(None);
        }
    }

    /// Its latency, if it has ended and was measured.
    #[must_use]
    pub fn took(&self) -> Option<Took> {
        let time = self.shared.time.load(Acquire);
        let nanoseconds = |number: &AtomicU64| Duration::from_nanos(number.load(Relaxed));
        let delay = self.delay.as_ref().map_or(Duration::ZERO, |delay| delay.time);
        (time != UNKNOWN).then(|| Took {
            at: nanoseconds(&self.shared.at) + delay,
            time: Duration::from_nanos(time) + delay,
        })
    }

    /// When the disk brought its end, if that was measured.
    fn ended_at(&self) -> Option<Duration> {
        (self.shared.time.load(Acquire) != UNKNOWN)
            .then(|| Duration::from_nanos(self.shared.at.load(Relaxed)))
    }

    /// A handle by which this I/O can be declared overdue.
    #[must_use]
    pub fn expiry(&self) -> Expiry {
        Expiry(self.shared.clone())
    }

    /// The end, if it is there; `Pending` while it is kept back.
    fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<Option<Done>> {
        let mut done = self.shared.done.take();
        let at = self.delay.as_ref().and_then(|_| self.ended_at());
        if let Some(delay) = &mut self.delay {
            if let Some(done) = done.take() {
                delay.keep_back(done, at);
            }
            done = ready!(delay.poll(context));
        }
        Poll::Ready(done.map(|done| match self.change.take() {
            Some(change) => change(done),
            None => done,
        }))
    }

    /// Waits until the I/O has ended (`Some`) or was declared overdue (`None`).
    /// After `None` the I/O goes on, and the completion can be awaited again.
    pub async fn or_overdue(&mut self) -> Option<Done> {
        std::future::poll_fn(|context| self.poll_or_overdue(context)).await
    }

    /// [`Self::or_overdue`], polled.
    pub fn poll_or_overdue(&mut self, context: &mut Context<'_>) -> Poll<Option<Done>> {
        self.poll_until(context, |shared| shared.overdue.load(SeqCst) && !shared.done.was_put())
    }

    /// The result, or `None` once `is_over`; checked again after the waker is registered, since
    /// both may come at any time.
    fn poll_until(
        &mut self,
        context: &mut Context<'_>,
        is_over: impl Fn(&Shared) -> bool,
    ) -> Poll<Option<Done>> {
        for registered in [false, true] {
            if let Some(done) = ready!(self.poll_take(context)) {
                return Poll::Ready(Some(done));
            }
            if is_over(&self.shared) {
                return Poll::Ready(None);
            }
            if !registered {
                self.shared.waker.register(context.waker());
            }
        }
        Poll::Pending
    }
}

impl Future for Completion {
    type Output = Done;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Done> {
        self.poll_until(context, |_| false).map(|done| done.expect("nothing else ends it"))
    }
}

impl Completer {
    /// Ends the I/O and wakes its waiter.
    pub fn finish(self, done: Done) {
        self.finish_at(done, None);
    }

    /// The same, with the time of the world's monotonic clock at which it ended: the clock is read
    /// once for several that are found ended together.
    pub fn finish_at(self, done: Done, at: Option<Duration>) {
        let shared = &self.0;
        shared.stop(at);
        let is_first = shared.done.put(done);
        debug_assert!(is_first, "whoever ends it is gone then");
        // Measuring may have been started in between.
        shared.stop(at);
        shared.waker.wake();
    }
}

impl Expiry {
    /// Declares the I/O overdue, unless it has ended.
    pub fn expire(&self) {
        self.0.overdue.store(true, SeqCst);
        self.0.waker.wake();
    }

    /// Whether the I/O has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        // A disk that drops its completer has given up the I/O for good.
        self.0.done.was_put() || self.0.is_alone()
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completion")
    }
}

impl fmt::Debug for Completer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completer")
    }
}

impl fmt::Debug for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Expiry")
    }
}
