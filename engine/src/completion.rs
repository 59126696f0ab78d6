//! One I/O under way: who submitted it can wait for it, or stop waiting.
//!
//! A disk returns a [`Completion`] from `submit` and keeps the [`Completer`]. The
//! I/O owns its memory until the device is done, whoever has stopped waiting (R2:
//! a hung disk keeps its buffer, not its caller).
//!
//! ```text
//!   pending --finish--> done        --await--> Done, with the buffer
//!      |
//!      +--expire--> overdue --overdue().await--> Overdue; still pending, may be awaited again
//! ```
//!
//! A completion is awaited on the thread that submitted it: a real disk's ring is
//! driven by that thread alone.

use crate::{
    buffer::Buffer,
    pooled::{Pooled, Reuse, Spare},
    world::World,
};
use std::{
    cell::RefCell,
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
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

#[derive(Default)]
struct State {
    done: Option<Done>,
    /// It has ended, whether or not anybody took `done`.
    ended: bool,
    overdue: bool,
    waker: Option<Waker>,
    change: Option<Change>,
    timer: Timer,
}

impl State {
    fn wake_by(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }
}

/// How long the I/O takes, whoever waits for it, and whenever.
#[derive(Default)]
enum Timer {
    #[default]
    Off,
    Runs {
        clock: Arc<dyn World>,
        began: Duration,
    },
    Stopped(Took),
}

/// When an I/O ended, by the monotonic clock, and how long it took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Took {
    pub at: Duration,
    pub time: Duration,
}

impl Timer {
    fn stop(&mut self) {
        if let Self::Runs { clock, began } = self {
            let at = clock.monotonic();
            *self = Self::Stopped(Took { at, time: at.saturating_sub(*began) });
        }
    }
}

/// What is made of the end of an I/O before anybody sees it.
type Change = Box<dyn FnOnce(Done) -> Done + Send>;

#[derive(Default)]
struct Shared(Mutex<State>);

thread_local! {
    static SPARE: Spare<Shared> = RefCell::default();
}

impl Reuse for Shared {
    fn spare() -> &'static LocalKey<Spare<Self>> {
        &SPARE
    }

    fn clear(&mut self) {
        *self.0.get_mut().unwrap_or_else(PoisonError::into_inner) = State::default();
    }
}

#[derive(Clone)]
struct Slot(Pooled<Shared>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for one I/O. See the module's description.
pub struct Completion(Slot);

/// Ends one I/O; kept by the disk.
pub struct Completer(Slot);

/// Declares one I/O overdue; kept by whoever watches deadlines.
#[derive(Clone)]
pub struct Expiry(Slot);

/// A completion and the means to end it.
#[must_use]
pub fn completion() -> (Completion, Completer) {
    let slot = Slot(Pooled::new(|_| ()));
    (Completion(slot.clone()), Completer(slot))
}

impl Completion {
    /// A completion that has already ended.
    #[must_use]
    pub fn ready(done: Done) -> Self {
        let (completion, completer) = completion();
        completer.finish(done);
        completion
    }

    /// The same I/O, with its end changed by `change` before anybody sees it.
    ///
    /// # Panics
    /// If it was called before.
    #[must_use]
    pub fn map(self, change: impl FnOnce(Done) -> Done + Send + 'static) -> Self {
        let mut state = self.0.lock();
        assert!(state.change.is_none(), "one change for one I/O");
        match state.done.take() {
            Some(done) => {
                drop(state);
                let done = change(done);
                self.0.lock().done = Some(done);
            }
            None => {
                state.change = Some(Box::new(change));
                drop(state);
            }
        }
        self
    }

    /// Measures how long the I/O takes, which was submitted at `began`.
    pub fn measure(&self, clock: &Arc<dyn World>, began: Duration) {
        let mut state = self.0.lock();
        state.timer = Timer::Runs { clock: Arc::clone(clock), began };
        if state.ended {
            state.timer.stop();
        }
    }

    /// How long it took, if it has ended and was measured.
    #[must_use]
    pub fn took(&self) -> Option<Took> {
        match &self.0.lock().timer {
            Timer::Stopped(took) => Some(*took),
            _ => None,
        }
    }

    /// A handle by which this I/O can be declared overdue.
    #[must_use]
    pub fn expiry(&self) -> Expiry {
        Expiry(self.0.clone())
    }

    /// Waits until the I/O has ended (`Some`) or was declared overdue (`None`).
    /// After `None` the I/O goes on, and the completion can be awaited again.
    pub async fn or_overdue(&mut self) -> Option<Done> {
        std::future::poll_fn(|context| self.poll_or_overdue(context)).await
    }

    /// [`Self::or_overdue`], polled.
    pub fn poll_or_overdue(&mut self, context: &mut Context<'_>) -> Poll<Option<Done>> {
        let mut state = self.0.lock();
        if let Some(done) = state.done.take() {
            return Poll::Ready(Some(done));
        }
        if state.overdue && !state.ended {
            return Poll::Ready(None);
        }
        state.wake_by(context.waker());
        Poll::Pending
    }
}

impl Future for Completion {
    type Output = Done;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Done> {
        let mut state = self.0.lock();
        match state.done.take() {
            Some(done) => Poll::Ready(done),
            None => {
                state.wake_by(context.waker());
                Poll::Pending
            }
        }
    }
}

impl Completer {
    /// Ends the I/O and wakes who waits for it.
    pub fn finish(self, mut done: Done) {
        let waker = loop {
            let mut state = self.0.lock();
            match state.change.take() {
                // It may be long, and must not hold up who asks whether the I/O is over.
                Some(change) => {
                    drop(state);
                    done = change(done);
                }
                None => {
                    state.done = Some(done);
                    state.ended = true;
                    state.timer.stop();
                    break state.waker.take();
                }
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Expiry {
    /// Declares the I/O overdue, unless it has ended.
    pub fn expire(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.overdue = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the I/O has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        // A disk that drops its completer has given the I/O up for good.
        self.0.lock().ended || self.0.0.is_alone()
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
