//! What disks there are: `Group::survey`, run in the instance.
//!
//! A survey opens disks and may meet one that hangs, so it runs on a thread of its own, and who wants it waits for a
//! limited time.

use crate::world::{BadDiskstring, IoChoice, RealWorld, block_on};
use plinth_engine::{
    admin::{AdminError, Code, Survey},
    group::Group,
    world::World,
};
use std::{
    io,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

/// How long a survey may take. Longer than the world waits for a disk that hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The way to look at disks.
pub struct Discovery {
    world: Arc<RealWorld>,
}

impl Discovery {
    pub(super) fn new(io: IoChoice, diskstring: &str) -> io::Result<Self> {
        let world = RealWorld::new(io, |_| {})?;
        world.set_diskstring(diskstring).map_err(io::Error::other)?;
        Ok(Self { world: Arc::new(world) })
    }

    pub(super) fn set_diskstring(&self, diskstring: &str) -> Result<(), AdminError> {
        self.world.set_diskstring(diskstring).map_err(|error: BadDiskstring| AdminError::new(Code::Invalid, error))
    }

    /// Every disk that the discovery string shows.
    ///
    /// # Errors
    /// If it takes too long.
    pub fn survey(&self) -> Result<Vec<Survey>, AdminError> {
        let world: Arc<dyn World> = self.world.clone();
        let (tell, told) = mpsc::channel();
        let surveying = thread::Builder::new()
            .name("survey".into())
            .spawn(move || drop(tell.send(block_on(Group::survey(&world)))));
        if let Err(error) = surveying {
            return Err(AdminError::new(Code::Io, format!("looking for disks: {error}")));
        }
        told.recv_timeout(PATIENCE).map_err(|error| match error {
            mpsc::RecvTimeoutError::Timeout => AdminError::new(Code::Io, "looking for disks takes too long: one hangs")
                .hint("take the disk that hangs out of asm_diskstring"),
            mpsc::RecvTimeoutError::Disconnected => AdminError::new(Code::Io, "looking for disks failed"),
        })
    }
}
