//! What front ends are lent of the thread that calls them: it runs what the group is asked for, and waits for clients beside its disks.

use crate::world::{self, PollTime, block_on_polling};
use plinth_fuse::Runner;
use plinth_nbd::export::{Waiting, Waits};
use std::{future::Future, os::fd::OwnedFd, pin::Pin, sync::Arc, time::Duration};

pub(super) struct ThisThread(pub Arc<PollTime>);

fn readable(descriptor: &Arc<OwnedFd>) -> Option<Waiting> {
    Some(Box::pin(world::readable(descriptor)?))
}

impl Waits for ThisThread {
    fn readable(&self, socket: &Arc<OwnedFd>) -> Option<Waiting> {
        readable(socket)
    }

    fn sleep(&self, time: Duration) -> Waiting {
        Box::pin(world::sleep(time))
    }
}

impl Runner for ThisThread {
    fn block_on(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        block_on_polling(&self.0, task);
    }

    fn readable(&self, device: &Arc<OwnedFd>) -> Option<Waiting> {
        readable(device)
    }
}
