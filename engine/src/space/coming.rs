//! Space that is about to become free, and how a request that finds none waits for it.
//!
//! Between the decision to remove a file and the moment when its space can be allocated there are
//! catalog jobs, a durable commit and I/O in flight. A request must not get `NoSpace` in between.
//! So:
//!
//!   1. A task that is going to free something announces it first ([`Coming::begin`]), and drops
//!      the announcement when the commit that freed it is recorded (`reclaim.rs`). From then on the
//!      space is pending there.
//!   2. Each time something has become free a count grows ([`Coming::note_freed`]). A request reads
//!      the count, tries, and if it got nothing waits until the count has changed, as long as
//!      something is coming.
//!   3. While a request waits ([`Coming::wait`]), no discard takes free AUs (`discards.rs`): those
//!      in flight end, and then the request sees all that is free, once. Otherwise a request for
//!      more than there is would wait as long as anything is left to discard.
//!
//! Invariant: space that a job frees is always either announced here, or pending in `reclaim.rs`,
//! or free.

use event_listener::{Event, EventListener};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

/// Something that clients have released and that is freed as soon as other clients release it too.
pub trait Parting: Send + Sync {
    /// For how much longer a request waits for that. `None`: there is nothing to wait for.
    fn parting(&self) -> Option<Duration>;
}

/// Space that is about to become free.
#[derive(Debug, Default)]
pub struct Coming {
    under_way: AtomicU64,
    freed: AtomicU64,
    waiting: AtomicU64,
    changed: Event,
}

/// While it exists, something is about to be freed.
#[derive(Debug)]
pub struct Release(Arc<Coming>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, SeqCst);
        self.0.changed.notify(usize::MAX);
    }
}

/// While it exists, a request waits for space.
#[derive(Debug)]
pub struct Waiting(Arc<Coming>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

impl Coming {
    /// A request waits for space from now on.
    #[must_use]
    pub fn wait(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, SeqCst);
        Waiting(Arc::clone(self))
    }

    /// Whether a request waits for space.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.waiting.load(SeqCst) > 0
    }

    /// Announces that something is going to be freed.
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

    /// Called when something has become free.
    pub fn note_freed(&self) {
        self.freed.fetch_add(1, SeqCst);
        self.changed.notify(usize::MAX);
    }

    /// Changes whenever something has become free.
    #[must_use]
    pub fn freed(&self) -> u64 {
        self.freed.load(SeqCst)
    }

    /// A listener for every change from now on.
    #[must_use]
    pub fn listen(&self) -> EventListener {
        self.changed.listen()
    }
}
