//! Starting an instance on its directory, and ending it.

use super::{
    Instance, Looking,
    connections::Connections,
    devices::Devices,
    discovery::Discovery,
    launch::Children,
    passwords::Passwords,
    preferred::Preferred,
    state::{DEFAULT_DISKSTRING, State},
    systemd,
};
use crate::{
    alarm::{self, Alarms},
    alert::Alert,
    http_address::HttpAddress,
    paths::Paths,
    process,
    tls::Network,
};
use plinth_engine::event::Severity;
use plinth_host::{IoChoice, lock};
use rustix::{fd::OwnedFd, fs::Mode};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder},
    io,
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown},
        net::UnixListener,
    },
    path::Path,
    sync::{Arc, Mutex, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

/// How long the service manager is not told that the instance is ready while a group is not
/// mounted: for as long as programs wait on the mounts of an engine that died. Less than the 90 s
/// that systemd gives a unit.
const MOUNTED_WAIT: Duration = Duration::from_secs(30);

/// The options with which an instance is started.
#[derive(Debug, Clone)]
pub struct Options {
    pub paths: Paths,
    /// Replaces the remembered discovery string.
    pub diskstring: Option<String>,
    pub looking: Looking,
    /// Where to listen beside the unix socket; `Some(None)`: nowhere. Replaces the remembered
    /// address.
    pub network: Option<Option<Network>>,
    /// Where to listen for HTTP, in the same way.
    pub http: Option<Option<HttpAddress>>,
    /// Whom alarms reach, and how.
    pub alarm: alarm::Settings,
    pub io: IoChoice,
}

/// An instance that has adopted its engines, and the sockets on which it is to listen.
pub struct Started {
    pub instance: Arc<Instance>,
    /// Held by the only instance of a directory, until its process ends.
    pub lock: fs::File,
    /// `.s.PGSQL.5432`
    pub postgres: UnixListener,
    /// `control.sock`
    pub control: UnixListener,
    /// Where to listen beside the unix sockets.
    pub network: Option<Network>,
    /// Whether the operator gave the network at this start.
    pub is_new_network: bool,
    /// Where to listen for HTTP.
    pub http: Option<HttpAddress>,
    pub is_new_http: bool,
}

/// Locks the directory, reads the remembered state, makes the sockets, adopts the engines that run.
/// `stored`: descriptors that systemd has kept since the last instance.
///
/// # Errors
/// If another instance serves the directory, or an error of the operating system.
pub fn start(options: Options, stored: Vec<(String, OwnedFd)>) -> io::Result<Started> {
    let paths = options.paths;
    own_directories(&paths, options.looking)?;
    let Some(lock) = process::only_one(&paths.pid())? else {
        let pid = fs::read_to_string(paths.pid()).unwrap_or_default();
        return Err(io::Error::other(format!(
            "another instance (pid {}) serves {}; end it, or choose another --dir",
            pid.trim(),
            paths.dir().display()
        )));
    };
    let (is_new_network, is_new_http) = (options.network.is_some(), options.http.is_some());
    let loaded = State::load(&paths.instance())?;
    let state = remembered(loaded.clone(), options.diskstring, options.network, options.http)?;
    let (network, http) = (state.network.clone(), state.http.clone());
    let alert = Alert::new(paths.alert(), true);
    let alarms = Alarms::start(&options.alarm, &paths, &alert);
    let discovery = Discovery::new(options.io, &state.diskstring, paths.state(), alert.clone())?;
    if loaded.as_ref() != Some(&state) {
        state.store(&paths.instance())?;
    }
    let known = state.groups.values().flat_map(|group| group.connections.clone()).collect();
    let (nbd, stored) = Connections::from_store(stored);
    let devices = Devices::from_store(stored, &known);
    let instance = Arc::new(Instance {
        paths,
        io: options.io,
        looking: options.looking,
        alert,
        alarms,
        discovery,
        state: Mutex::new(state),
        locks: Mutex::default(),
        supervised: Mutex::new(BTreeSet::new()),
        unserved: Mutex::default(),
        exporting: Mutex::new(BTreeSet::new()),
        devices,
        nbd,
        children: Children::default(),
        launched: Mutex::default(),
        handed_over: Mutex::default(),
        restarts: Mutex::default(),
        estimates: Mutex::default(),
        preferring: Mutex::default(),
        changed: Mutex::default(),
        filter: Mutex::default(),
        sessions: Arc::default(),
        asking: super::health::Asking::default(),
        began: crate::alert::now(),
        ending: AtomicBool::new(false),
    });
    let postgres = listen(&instance.paths.postgres(), options.looking)?;
    let control = listen(&instance.paths.control(), options.looking)?;
    instance.alert.line(
        Severity::Note,
        "instance",
        &format!("plinth {} starts, pid {}", env!("CARGO_PKG_VERSION"), std::process::id()),
    );
    for group in instance.groups().into_keys() {
        instance.adopt(&group);
    }
    Ok(Started { instance, lock, postgres, control, network, is_new_network, http, is_new_http })
}

/// Makes the directories of the instance. From here on its new files can be read by its user only.
fn own_directories(paths: &Paths, looking: Looking) -> io::Result<()> {
    let mode = match looking {
        Looking::Nobody => 0o700,
        Looking::Group(_) => 0o710,
        Looking::Everybody => 0o711,
    };
    own_directory(paths.dir(), mode, looking)?;
    if paths.state() != paths.dir() {
        own_directory(paths.state(), 0o700, Looking::Nobody)?;
    }
    rustix::process::umask(Mode::from_raw_mode(0o077));
    Ok(())
}

/// The remembered state, with the options of this start in place of the remembered ones.
fn remembered(
    loaded: Option<State>,
    diskstring: Option<String>,
    network: Option<Option<Network>>,
    http: Option<Option<HttpAddress>>,
) -> io::Result<State> {
    let mut state = loaded.unwrap_or_else(|| State {
        diskstring: DEFAULT_DISKSTRING.into(),
        groups: BTreeMap::new(),
        network: None,
        http: None,
        passwords: Passwords::default(),
        preferred: Preferred::default(),
        power_limit: None,
        filter: None,
        comments: BTreeMap::new(),
    });
    if let Some(diskstring) = diskstring {
        state.diskstring = diskstring;
    }
    if let Some(network) = network {
        network.iter().try_for_each(Network::check)?;
        state.network = network;
    }
    if let Some(http) = http {
        http.iter().try_for_each(HttpAddress::check)?;
        state.http = http;
    }
    if state.passwords.secret.is_empty() {
        state.passwords.secret =
            crate::scram::new_secret().ok_or_else(|| io::Error::other("no random bytes"))?;
    }
    Ok(state)
}

/// Makes a directory, or makes sure that no other user can put sockets into the one that is there.
fn own_directory(path: &Path, mode: u32, looking: Looking) -> io::Result<()> {
    let place =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) => return Err(place(error)),
    }
    let found = fs::symlink_metadata(path).map_err(place)?;
    let refused = |why: &str| {
        Err(io::Error::other(format!(
            "{}: {why}; make it a directory of the user who runs the instance, with mode {mode:04o}",
            path.display()
        )))
    };
    if !found.is_dir() {
        return refused("is no directory");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return refused("belongs to another user");
    }
    if found.mode() & 0o022 != 0 {
        return refused("others may write there");
    }
    if looking != Looking::Nobody || found.mode() & 0o777 == 0o700 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(place)?;
    }
    if let Looking::Group(group) = looking {
        chown(path, None, Some(group)).map_err(place)?;
    }
    Ok(())
}

/// A socket to which only permitted users can connect. The instance's lock is held: a socket that
/// is there is a dead instance's.
fn listen(path: &Path, looking: Looking) -> io::Result<UnixListener> {
    let place =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(place(error)),
    }
    // The umask makes it 0700 at first.
    let listener = UnixListener::bind(path).map_err(place)?;
    let mode = match looking {
        Looking::Nobody => 0o600,
        Looking::Group(group) => {
            chown(path, None, Some(group)).map_err(place)?;
            0o660
        }
        Looking::Everybody => 0o666,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(place)?;
    Ok(listener)
}

impl Instance {
    /// Notifies the service manager that the instance is ready when the groups are mounted that
    /// shall be, or after [`MOUNTED_WAIT`]: units that are ordered after it find their files. The
    /// sockets answer meanwhile.
    pub(crate) fn tell_manager_when_mounted(self: &Arc<Self>) {
        if self.are_mounted() {
            return systemd::ready();
        }
        let (began, instance) = (Instant::now(), Arc::clone(self));
        let telling = move || {
            while !instance.are_mounted() && began.elapsed() < MOUNTED_WAIT {
                thread::sleep(Duration::from_millis(20));
            }
            systemd::ready();
        };
        if thread::Builder::new().name("ready".into()).spawn(telling).is_err() {
            systemd::ready();
        }
    }

    /// Whether each group that shall be mounted is served, or given up.
    fn are_mounted(&self) -> bool {
        let unserved: Vec<String> = lock(&self.unserved).keys().cloned().collect();
        let supervised = lock(&self.supervised);
        !unserved.iter().any(|group| supervised.contains(group))
    }

    /// Ends the process with this exit status. Engines go on.
    pub(crate) fn leave(&self, status: i32) -> ! {
        let _ = fs::remove_file(self.paths.postgres());
        let _ = fs::remove_file(self.paths.control());
        self.alert.line(Severity::Note, "instance", "ends; engines that run go on");
        self.alert.flush();
        self.alarms.end();
        std::process::exit(status)
    }
}
