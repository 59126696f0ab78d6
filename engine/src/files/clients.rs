//! The clients of a group, as reported by the process that runs its front ends.

use crate::{catalog::live_stats::LiveClient, sync::lock::Mutex};
use std::fmt;

type Ask = dyn Fn() -> Vec<LiveClient> + Send + Sync;

/// Reports the clients of the group: the process that runs its front ends.
#[derive(Default)]
pub struct Clients(Mutex<Option<Box<Ask>>>);

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clients")
    }
}

impl Clients {
    /// From now on `ask` returns the clients of the group.
    pub fn set(&self, ask: impl Fn() -> Vec<LiveClient> + Send + Sync + 'static) {
        *self.0.lock() = Some(Box::new(ask));
    }

    /// The clients now, if they are known.
    pub fn all(&self) -> Vec<LiveClient> {
        let clients = self.0.lock();
        clients.as_ref().map_or_else(Vec::new, |ask| ask())
    }
}
