//! A service manager that keeps descriptors, as systemd does for `FileDescriptorStoreMax`.

use plinth_workload::lock;
use rustix::{
    fd::{AsRawFd, OwnedFd},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};
use std::{
    collections::BTreeMap,
    io::IoSliceMut,
    mem::MaybeUninit,
    os::unix::net::UnixDatagram,
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

type Store = Arc<Mutex<BTreeMap<String, OwnedFd>>>;

/// Listens as long as it lives, and keeps the descriptors that it is sent.
pub struct Manager {
    home: tempfile::TempDir,
    store: Store,
}

impl Manager {
    /// # Panics
    /// If there can be no socket.
    #[must_use]
    pub fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let socket = UnixDatagram::bind(home.path().join("notify")).expect("a socket");
        let store = Store::default();
        let ours = Arc::downgrade(&store);
        thread::spawn(move || {
            loop {
                let mut text = [0; 512];
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = RecvAncillaryBuffer::new(&mut space);
                let mut slices = [IoSliceMut::new(&mut text)];
                let Ok(received) =
                    recvmsg(&socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)
                else {
                    return;
                };
                let descriptor = control.drain().find_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
                    _ => None,
                });
                let text = String::from_utf8_lossy(&text[..received.bytes]).into_owned();
                let name = text
                    .lines()
                    .find_map(|line| line.strip_prefix("FDNAME="))
                    .unwrap_or("stored")
                    .to_owned();
                let Some(store) = ours.upgrade() else { return };
                let mut store = lock(&store);
                match descriptor {
                    Some(descriptor) if text.contains("FDSTORE=1") => {
                        drop(store.insert(name, descriptor))
                    }
                    _ if text.contains("FDSTOREREMOVE=1") => drop(store.remove(&name)),
                    _ => {}
                }
            }
        });
        Self { home, store }
    }

    fn socket(&self) -> PathBuf {
        self.home.path().join("notify")
    }

    /// The names of the descriptors that it keeps.
    #[must_use]
    pub fn stored(&self) -> Vec<String> {
        lock(&self.store).keys().cloned().collect()
    }

    /// The command that starts a program with all kept descriptors: a shell gives them the numbers
    /// that they must have.
    pub(crate) fn wrap(&self) -> Starter {
        Starter { socket: self.socket(), store: Arc::clone(&self.store) }
    }
}

impl Default for Manager {
    fn default() -> Self {
        Self::new()
    }
}

/// Starts programs as the manager would.
pub(crate) struct Starter {
    socket: PathBuf,
    store: Store,
}

impl Starter {
    /// The command that runs `program`, and the descriptors that must stay open until it runs.
    pub fn command(&self, program: &std::path::Path) -> (Command, Vec<OwnedFd>) {
        let store = lock(&self.store);
        let names: Vec<_> = store.keys().cloned().collect();
        // Without "close on exec": the shell gets them, and moves them.
        let kept: Vec<OwnedFd> =
            store.values().map(|kept| rustix::io::dup(kept).expect("a descriptor")).collect();
        let moves: String =
            kept.iter().zip(3..).map(|(from, to)| format!(" {to}<&{}", from.as_raw_fd())).collect();
        let closes: String = kept
            .iter()
            .map(AsRawFd::as_raw_fd)
            .filter(|number| *number >= 3 + i32::try_from(kept.len()).expect("few"))
            .map(|number| format!(" {number}<&-"))
            .collect();
        let script = format!("exec{moves}{closes}; export LISTEN_PID=$$; exec \"$@\"");
        let mut command = Command::new("bash");
        command.arg("-c").arg(script).arg("bash").arg(program);
        command.env("NOTIFY_SOCKET", &self.socket);
        command.env("LISTEN_FDS", kept.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        (command, kept)
    }
}
