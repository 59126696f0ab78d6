//! Scheduling of queries: clients' statements do not slow down the other work on the host.
//!
//!   - A session has an allowance of processor time at normal priority ([`Budget`]), so that
//!     occasional statements are answered promptly on a host under load. Longer statements, and
//!     sessions that never pause, go on at idle priority (`SCHED_IDLE`), in processor time that
//!     nothing else wants.
//!   - At most all processors but one work at idle priority; other threads wait for their turn. So
//!     a short statement never waits for a long one.
//!
//! A thread at idle priority that holds a lock can block one at normal priority. Fetching and
//! reading rows here takes no lock of the instance for longer than it takes to copy some lines.
//! Between two statements SQLite shares its counters of memory, and the allocator is common; both
//! are held for some instructions only.
//!
//! Each statement has a thread of its own: only root may raise a priority again.

use super::Cancel;
use plinth_engine::world::BackgroundStage;
use plinth_host::background::{Others, throttle};
use rustix::time::{ClockId, clock_gettime};
use std::{
    num::NonZeroUsize,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The most processor time at normal priority that a session can save up: longer than almost every
/// query over the views takes.
const PROMPT: Duration = Duration::from_millis(100);
/// One part in this many of the elapsed time is added to the allowance: this many sessions that
/// never pause take one processor from others.
const SAVED: u32 = 100;
/// How often a thread that waits for a turn checks whether its statement is cancelled.
const LOOK: Duration = Duration::from_millis(50);

static WORKING: Mutex<usize> = Mutex::new(0);
static DONE: Condvar = Condvar::new();

/// A turn to work at idle priority, which ends when it is dropped.
struct Turn;

impl Turn {
    /// Waits for a turn; `None`: the statement was cancelled.
    fn take(cancel: &Cancel) -> Option<Self> {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let most = processors.saturating_sub(1).max(1);
        let mut working = WORKING.lock().unwrap_or_else(PoisonError::into_inner);
        while *working >= most {
            if cancel.is_cancelled() {
                return None;
            }
            working = DONE.wait_timeout(working, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        *working += 1;
        Some(Self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut working = WORKING.lock().unwrap_or_else(PoisonError::into_inner);
        *working = working.saturating_sub(1);
        drop(working);
        DONE.notify_one();
    }
}

/// Runs a closure in a thread of its own; `None` if no thread can be started.
pub fn run<T: Send>(what: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("query".into()).spawn_scoped(scope, what).ok()?;
        // A panic continues in the caller.
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Calls a closure with each of `items` at the same time: with the first in this thread, at its
/// pace, and with each other one in a thread of its own if one can be started.
pub fn each<I: Sync, T: Send>(
    items: &[I],
    pace: &mut Pace,
    paces: impl Fn() -> Pace + Sync,
    what: &(impl Fn(&I, &mut Pace) -> T + Sync),
) -> Vec<T> {
    let Some((first, others)) = items.split_first() else { return Vec::new() };
    thread::scope(|scope| {
        let beside = |item| {
            let paces = &paces;
            thread::Builder::new()
                .name("query".into())
                .spawn_scoped(scope, move || what(item, &mut paces()))
        };
        let beside: Vec<_> = others.iter().map(|item| (item, beside(item))).collect();
        let mut done = vec![what(first, pace)];
        done.extend(beside.into_iter().map(|(item, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => what(item, pace),
        }));
        done
    })
}

/// The processor time at normal priority that a session has left.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Mutex<Saved>>);

#[derive(Debug)]
struct Saved {
    left: Duration,
    since: Instant,
}

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Saved { left: PROMPT, since: Instant::now() })))
    }
}

impl Budget {
    /// Deducts processor time. False if nothing is left.
    fn spend(&self, used: Duration, now: Instant) -> bool {
        let mut saved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earned = now.saturating_duration_since(saved.since) / SAVED;
        saved.left = saved.left.saturating_add(earned).min(PROMPT).saturating_sub(used);
        saved.since = now;
        !saved.left.is_zero()
    }
}

/// Watches the processor time of the current thread; `look` is called now and then.
pub struct Pace {
    cancel: Cancel,
    budget: Budget,
    /// The thread's processor time at the last call.
    worked: Duration,
    is_idle: bool,
    /// Held until it is dropped.
    turn: Option<Turn>,
}

impl Pace {
    /// For the calling thread, which must be the statement's own.
    pub fn new(cancel: &Cancel, budget: Budget) -> Self {
        Self { cancel: cancel.clone(), budget, worked: Duration::ZERO, is_idle: false, turn: None }
    }

    /// Goes to idle priority once the allowance is used up.
    pub fn look(&mut self) {
        if self.is_idle {
            throttle(Others::Host, BackgroundStage::Running);
            return;
        }
        let worked = clock_gettime(ClockId::ThreadCPUTime);
        let worked =
            Duration::new(worked.tv_sec.unsigned_abs(), u32::try_from(worked.tv_nsec).unwrap_or(0));
        let used = worked.saturating_sub(std::mem::replace(&mut self.worked, worked));
        if !self.budget.spend(used, Instant::now()) {
            self.is_idle = true;
            plinth_host::priority::become_idle();
        }
    }

    /// Like `look`, and then waits for a turn, unless the statement was cancelled. Must not be
    /// called by a thread that waits for other threads of the statement.
    pub fn look_for_turn(&mut self) {
        self.look();
        if self.is_idle && self.turn.is_none() {
            self.turn = Turn::take(&self.cancel);
        }
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        if !self.is_idle {
            self.look();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session that has used up its allowance earns it back with time, and never more.
    #[test]
    fn a_session_saves_up() {
        let budget = Budget::default();
        let began = budget.0.lock().expect("no panic").since;
        assert!(budget.spend(PROMPT / 2, began));
        assert!(!budget.spend(PROMPT / 2, began));
        assert!(!budget.spend(PROMPT / 2, began + PROMPT));
        assert!(budget.spend(Duration::ZERO, began + PROMPT * 2));
        assert!(budget.spend(PROMPT / 2, began + PROMPT * SAVED * 9));
        assert!(!budget.spend(PROMPT / 2, began + PROMPT * SAVED * 9));
    }

    #[test]
    fn a_cancelled_query_does_not_wait_for_a_turn() {
        let cancel = Cancel::default();
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let turns: Vec<_> = (1..processors.max(2)).map(|_| Turn::take(&cancel)).collect();
        assert!(turns.iter().all(Option::is_some));
        let late = cancel.clone();
        let waiting = thread::spawn(move || Turn::take(&late).is_none());
        cancel.cancel();
        assert!(waiting.join().expect("no panic"));
        // A short statement needs no turn.
        assert_eq!(run(|| 7), Some(7));
        drop(turns);
        assert!(Turn::take(&Cancel::default()).is_some());
    }
}
