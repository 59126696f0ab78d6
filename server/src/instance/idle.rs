//! People's statements stay out of the way of everything else on the host.
//!
//!   - A statement runs at usual priority for its first [`PROMPT`] of processor time, so that a host under load answers
//!     the short ones; what takes longer goes on at idle priority (`SCHED_IDLE`), in what nobody else wants.
//!   - At most all processors but one work on statements that take longer; others wait for their turn. So a short one
//!     never waits for a long one.
//!
//! An idle thread that holds a lock can keep one that is not from going on. What runs here holds none of the instance's:
//! rows were fetched before. Between two statements SQLite shares its counters of memory and the allocator is common;
//! both are held for some instructions only.
//!
//! The thread is one of its own: only root may raise a priority again.

use super::query::Cancel;
use rustix::time::{ClockId, clock_gettime};
use std::{
    num::NonZeroUsize,
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Processor time at usual priority: longer than almost every query over the views takes.
const PROMPT: Duration = Duration::from_millis(100);
/// How often who waits for a turn looks whether its client still does.
const LOOK: Duration = Duration::from_millis(50);

static WORKING: Mutex<usize> = Mutex::new(0);
static DONE: Condvar = Condvar::new();

/// A turn, which ends when it is dropped.
struct Turn;

impl Turn {
    /// Waits for one; `None`: nobody wants it any more.
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

/// Runs something in a thread of its own; `None`: there is none to be had.
pub fn run<T: Send>(what: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("query".into()).spawn_scoped(scope, what).ok()?;
        // A panic goes on where it would have gone.
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Watches how long the thread has worked; to be asked now and then.
pub struct Pace {
    cancel: Cancel,
    is_idle: bool,
    /// Held until it is dropped.
    _turn: Option<Turn>,
}

impl Pace {
    pub fn new(cancel: &Cancel) -> Self {
        Self { cancel: cancel.clone(), is_idle: false, _turn: None }
    }

    /// Goes to idle priority when it is time, and waits for a turn, unless nobody waits for the result any more.
    pub fn look(&mut self) {
        if self.is_idle {
            return;
        }
        let worked = clock_gettime(ClockId::ThreadCPUTime);
        let worked = Duration::new(worked.tv_sec.unsigned_abs(), u32::try_from(worked.tv_nsec).unwrap_or(0));
        if worked > PROMPT {
            self.is_idle = true;
            crate::process::become_idle();
            self._turn = Turn::take(&self.cancel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_cancelled_does_not_wait() {
        let cancel = Cancel::default();
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let turns: Vec<_> = (1..processors.max(2)).map(|_| Turn::take(&cancel)).collect();
        assert!(turns.iter().all(Option::is_some));
        let late = cancel.clone();
        let waiting = thread::spawn(move || Turn::take(&late).is_none());
        cancel.cancel();
        assert!(waiting.join().expect("no panic"));
        // A short one needs no turn.
        assert_eq!(run(|| 7), Some(7));
        drop(turns);
        assert!(Turn::take(&Cancel::default()).is_some());
    }
}
