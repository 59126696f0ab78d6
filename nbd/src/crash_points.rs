//! Crash points, for tests: a thread that serves a client stops at one of the steps at which a kill
//! could find it, and does nothing more.
//!
//! A stopped thread keeps what it had until the test releases it: then it unwinds, so that a test
//! with a thousand crashes does not hold all of their memory at the same time.

use std::{
    cell::RefCell,
    panic::resume_unwind,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

/// Threads that have stopped, until they are released.
#[derive(Default)]
pub(crate) struct CrashedThreads {
    are_released: Mutex<bool>,
    released: Condvar,
}

impl CrashedThreads {
    pub(crate) fn release(&self) {
        *self.are_released.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.released.notify_all();
    }

    fn park(&self) -> ! {
        let mut are_released = self.are_released.lock().unwrap_or_else(PoisonError::into_inner);
        while !*are_released {
            are_released = self.released.wait(are_released).unwrap_or_else(PoisonError::into_inner);
        }
        drop(are_released);
        resume_unwind(Box::new("stopped"))
    }
}

/// When a thread stops.
pub(crate) struct Plan {
    /// After this many steps; `None`: never.
    pub(crate) steps: Option<u64>,
    pub(crate) crashed: Arc<CrashedThreads>,
    /// Is called when the thread stops.
    pub(crate) stopped: Box<dyn FnOnce()>,
}

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

/// Sets the plan of this thread.
pub(crate) fn plan(plan: Plan) {
    PLAN.with_borrow_mut(|now| *now = Some(plan));
}

pub(crate) fn step() {
    let stops = PLAN.with_borrow_mut(|plan| {
        let steps = plan.as_mut()?.steps.as_mut()?;
        *steps = steps.checked_sub(1)?;
        if *steps == 0 { plan.take() } else { None }
    });
    if let Some(plan) = stops {
        (plan.stopped)();
        plan.crashed.park();
    }
}
