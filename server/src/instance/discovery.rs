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
    path::{Path, PathBuf},
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
    io: IoChoice,
    /// The directory of notes.
    state: PathBuf,
    alert: Alert,
    /// Devices of which the alert log says that they do not answer.
    told: Mutex<BTreeSet<String>>,
}

impl Discovery {
    pub(super) fn new(
        io: IoChoice,
        diskstring: &str,
        state: &Path,
        alert: Alert,
    ) -> io::Result<Self> {
        let world = RealWorld::new(io, |_| {})?;
        world.set_diskstring(diskstring).map_err(io::Error::other)?;
        world.note_in(state);
        world.keep_looker();
        let state = state.to_owned();
        Ok(Self { world: Arc::new(world), io, state, alert, told: Mutex::default() })
    }

    pub(super) fn set_diskstring(&self, diskstring: &str) -> Result<(), AdminError> {
        self.world
            .set_diskstring(diskstring)
            .map_err(|error: BadDiskstring| AdminError::new(Code::Invalid, error))
    }

    /// The devices whose labels are read, as patterns; empty: all block devices.
    #[must_use]
    pub fn label_scan(&self) -> String {
        self.world.label_scan()
    }

    pub(super) fn set_label_scan(&self, scan: &str) -> Result<(), AdminError> {
        self.world.set_label_scan(scan).map_err(|error| AdminError::new(Code::Invalid, error))
    }

    /// A world in which another discovery string holds.
    pub(super) fn world_of(&self, diskstring: &str) -> Result<Arc<dyn World>, AdminError> {
        let world = RealWorld::new(self.io, |_| {})
            .map_err(|error| AdminError::new(Code::Io, format!("looking for disks: {error}")))?;
        world
            .set_diskstring(diskstring)
            .map_err(|error: BadDiskstring| AdminError::new(Code::Invalid, error))?;
        world.note_in(&self.state);
        Ok(Arc::new(world))
    }

    /// Every disk that another discovery string shows.
    ///
    /// # Errors
    /// As [`Self::survey`].
    pub(super) fn survey_of(&self, diskstring: &str) -> Result<Vec<Survey>, AdminError> {
        let world = self.world_of(diskstring)?;
        self.in_time(async move { Group::survey(&world).await })
    }

    /// Every disk that the discovery string shows.
    ///
    /// # Errors
    /// If it takes too long, or its thread ends without a result.
    pub fn survey(&self) -> Result<Vec<Survey>, AdminError> {
        let world: Arc<dyn World> = self.world.clone();
        let seen = self.in_time(async move { Group::survey(&world).await });
        self.tell_silent();
        seen
    }

    /// Devices that have not answered for `timeout`, and for how many seconds.
    pub(super) fn silent(&self, timeout: Duration) -> Vec<(String, u64)> {
        let silent = self.world.silent(timeout).into_iter();
        silent.map(|silent| (silent.path, silent.since.as_secs())).collect()
    }

    /// Runs a task that looks at disks, which may hang, on a thread of its own.
    pub(super) fn in_time<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, AdminError>> + Send + 'static,
    ) -> Result<T, AdminError> {
        let (tell, told) = mpsc::channel();
        let surveying = thread::Builder::new()
            .name("survey".into())
            .spawn(move || drop(tell.send(block_on(task))));
        if let Err(error) = surveying {
            return Err(AdminError::new(Code::Io, format!("looking for disks: {error}")));
        }
        told.recv_timeout(DISCOVERY_TIMEOUT).unwrap_or_else(|error| {
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
