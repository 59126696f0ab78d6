//! Discovery of disks for the instance: `Group::survey`.
//!
//! A survey may meet a device that hangs. It does not wait long for that, and shows it as one that
//! does not answer; the alert log has a line when it begins to hang, and when it answers again. The
//! survey runs on a thread of its own, and its caller waits for a limited time.

use crate::alert::Alert;
use plinth_engine::{
    admin::{AdminError, Code, Survey},
    event::Severity,
    group::Group,
    world::World,
};
use plinth_host::lock;
use plinth_host::{BadDiskstring, IoChoice, RealWorld, block_on};
use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

/// How long a survey may take. The survey itself ends when devices have kept it waiting for too
/// long; on a very busy host that takes ten times as long by the clock.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(150);

/// A device that has not answered for this long is reported in the alert log.
const SILENT: Duration = Duration::from_secs(4);

/// The instance's access to disks, for discovery only.
pub struct Discovery {
    world: Arc<RealWorld>,
    alert: Alert,
    /// Devices of which the alert log says that they do not answer.
    told: Mutex<BTreeSet<String>>,
}

impl Discovery {
    pub(super) fn new(io: IoChoice, diskstring: &str, alert: Alert) -> io::Result<Self> {
        let world = RealWorld::new(io, |_| {})?;
        world.set_diskstring(diskstring).map_err(io::Error::other)?;
        world.keep_looker();
        Ok(Self { world: Arc::new(world), alert, told: Mutex::default() })
    }

    pub(super) fn set_diskstring(&self, diskstring: &str) -> Result<(), AdminError> {
        self.world
            .set_diskstring(diskstring)
            .map_err(|error: BadDiskstring| AdminError::new(Code::Invalid, error))
    }

    /// Every disk that the discovery string shows.
    ///
    /// # Errors
    /// If it takes too long, or its thread ends without a result.
    pub fn survey(&self) -> Result<Vec<Survey>, AdminError> {
        let world: Arc<dyn World> = self.world.clone();
        let (tell, told) = mpsc::channel();
        let surveying = thread::Builder::new()
            .name("survey".into())
            .spawn(move || drop(tell.send(block_on(Group::survey(&world)))));
        if let Err(error) = surveying {
            return Err(AdminError::new(Code::Io, format!("looking for disks: {error}")));
        }
        let seen = told.recv_timeout(DISCOVERY_TIMEOUT);
        self.tell_silent();
        seen.unwrap_or_else(|error| {
            Err(match error {
                mpsc::RecvTimeoutError::Timeout => AdminError::new(Code::Io, "looking for disks takes too long")
                    .hint("the alert log names disks that hang, if any do: take them out of asm_diskstring"),
                mpsc::RecvTimeoutError::Disconnected => AdminError::new(Code::Io, "looking for disks failed"),
            })
        })
    }

    /// Reports in the alert log the devices that have begun to hang, and those that answer again.
    fn tell_silent(&self) {
        let silent: BTreeSet<String> =
            self.world.silent(SILENT).into_iter().map(|silent| silent.path).collect();
        let mut told = lock(&self.told);
        for path in silent.difference(&told) {
            let text = format!(
                "{path} does not answer: the device hangs. It is not asked again before it has answered"
            );
            self.alert.line(Severity::Warning, "instance", &text);
        }
        for path in told.difference(&silent) {
            self.alert.line(Severity::Note, "instance", &format!("{path} answers again"));
        }
        *told = silent;
    }
}
