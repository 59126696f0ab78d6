//! Deaths, for tests: a thread that serves a client stops at one of the steps at which a kill could find it, and does nothing more.
//!
//! What it had stays until its grave is opened: then it unwinds, so that a test with a thousand deaths has not their memory at the same time.

use std::{
    cell::RefCell,
    panic::resume_unwind,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

/// Where dead threads lie.
#[derive(Default)]
pub(crate) struct Grave {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Grave {
    pub(crate) fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    fn lie(&self) -> ! {
        let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_open {
            is_open = self.opened.wait(is_open).unwrap_or_else(PoisonError::into_inner);
        }
        drop(is_open);
        resume_unwind(Box::new("dead"))
    }
}

/// When a thread dies.
pub(crate) struct Plan {
    /// After so many steps, if ever.
    pub(crate) steps: Option<u64>,
    pub(crate) grave: Arc<Grave>,
    /// Hears of the death.
    pub(crate) died: Box<dyn FnOnce()>,
}

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

/// This thread dies so.
pub(crate) fn plan(plan: Plan) {
    PLAN.with_borrow_mut(|now| *now = Some(plan));
}

pub(crate) fn step() {
    let dies = PLAN.with_borrow_mut(|plan| {
        let steps = plan.as_mut()?.steps.as_mut()?;
        *steps = steps.checked_sub(1)?;
        if *steps == 0 { plan.take() } else { None }
    });
    if let Some(plan) = dies {
        (plan.died)();
        plan.grave.lie();
    }
}
