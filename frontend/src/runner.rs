//! How a front end's thread runs the engine's futures.

use plinth_engine::world::run_for_value;
use std::{future::Future, os::fd::OwnedFd, pin::Pin, sync::Arc, time::Duration};

/// A wait, as a future of its own.
pub type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs futures on the threads of a process.
pub trait Runner: Send + Sync {
    /// Runs a future to its end on the calling thread.
    fn block_on(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>);

    /// Waits until the descriptor has something to read; it may end early without a reason. To be
    /// awaited inside a future that this thread runs with [`Self::block_on`]. `None`: this thread
    /// cannot wait for a descriptor and its disks at the same time.
    fn readable(&self, descriptor: &Arc<OwnedFd>) -> Option<Waiting>;

    /// Waits for a time. To be awaited as [`Self::readable`].
    fn sleep(&self, time: Duration) -> Waiting;
}

/// Runs a future on the calling thread, for its value.
pub fn run<T: Send>(runner: &(impl Runner + ?Sized), task: impl Future<Output = T> + Send) -> T {
    run_for_value(|task| runner.block_on(task), task)
}
