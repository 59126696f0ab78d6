//! The front ends' runner: the calling thread runs the engine's futures, and waits for clients
//! beside its disks.

use plinth_frontend::{Runner, Waiting};
use plinth_host::{PollTime, block_on_polling};
use std::{future::Future, os::fd::OwnedFd, pin::Pin, sync::Arc, time::Duration};

pub(super) struct ThisThread(pub Arc<PollTime>);

impl Runner for ThisThread {
    fn block_on(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        block_on_polling(&self.0, task);
    }

    fn readable(&self, descriptor: &Arc<OwnedFd>) -> Option<Waiting> {
        Some(Box::pin(plinth_host::readable(descriptor)?))
    }

    fn sleep(&self, time: Duration) -> Waiting {
        Box::pin(plinth_host::sleep(time))
    }
}
