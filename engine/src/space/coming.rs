//! What is about to become free, and how a request that finds no space waits for it.
//!
//! Between the moment in which a file is to be removed and the one in which its space can be taken lie jobs, a durable commit and
//! I/O that is under way. A request must not hear of `NoSpace` in between. So:
//!
//!   1. Whoever is going to free something says so first ([`Coming::begin`]), and lets go of what it got when the commit that freed it is
//!      noted (`reclaim.rs`). From then on it is among what is pending there.
//!   2. What has become free is counted ([`Coming::freed`]). A request asks for the count, tries, and if it got nothing waits
//!      until the count is another one, as long as something is coming.
//!
//! Invariant: what a job frees is always either under way here, or pending in `reclaim.rs`, or free.

use event_listener::{Event, EventListener};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

/// Who has let go of something that goes back soon, as soon as others let go of it too.
pub trait Parting: Send + Sync {
    /// For how much longer that is waited for. `None`: for nothing.
    fn parting(&self) -> Option<Duration>;
}

/// What is about to become free.
#[derive(Debug, Default)]
pub struct Coming {
    under_way: AtomicU64,
    freed: AtomicU64,
    changed: Event,
}

/// As long as it lives, something is about to be freed.
#[derive(Debug)]
pub struct Release(Arc<Coming>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, SeqCst);
        self.0.changed.notify(usize::MAX);
    }
}

impl Coming {
    /// Something is going to be freed.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Release {
        self.under_way.fetch_add(1, SeqCst);
        Release(Arc::clone(self))
    }

    /// Whether something is going to be freed.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.under_way.load(SeqCst) > 0
    }

    /// Something has become free.
    pub fn note_freed(&self) {
        self.freed.fetch_add(1, SeqCst);
        self.changed.notify(usize::MAX);
    }

    /// Another number whenever something has become free.
    #[must_use]
    pub fn freed(&self) -> u64 {
        self.freed.load(SeqCst)
    }

    /// Hears of whatever changes from now on.
    #[must_use]
    pub fn listen(&self) -> EventListener {
        self.changed.listen()
    }
}
