//! Connections of NBD clients, by which they outlive engines.
//!
//! For each connection its engine has two descriptors: the socket, and the memory in which it notes
//! how far the client has come (`nbd/src/connection_memory.rs`). The instance has duplicates, so
//!
//! ```text
//!   engine dies      the next one gets duplicates of the instance's, before it takes requests of
//!                    new clients
//!   instance dies    the next one gets all of them from the engine
//!   both die         the service manager's store has them (systemd.rs); without it the clients are
//!                    disconnected
//! ```
//!
//! A thread for each engine receives connections that begin and end. The instance waits for it
//! before it gives the next engine the connections: the dead engine's last message may still be on
//! its way. A connection that the instance still has, but that has ended, is recognised by its
//! memory; the engine refuses it.

use super::{Instance, launch::GONE, systemd};
use crate::engine::{client::Client, protocol::ProcessRequest};
use plinth_engine::{
    admin::{AdminError, Code},
    event::Severity,
};
use plinth_host::lock;
use rustix::fd::{AsFd, OwnedFd};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The pause before the next request to an engine that has reported the end of its list, and runs.
const AGAIN: Duration = Duration::from_secs(1);

/// A connection's memory and socket.
#[derive(Debug)]
struct Connection {
    memory: OwnedFd,
    socket: OwnedFd,
}

/// The connections of all groups.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// By group and id.
    kept: Mutex<BTreeMap<(String, u64), Connection>>,
    /// The threads that receive them, by group.
    hearing: Mutex<BTreeMap<String, JoinHandle<()>>>,
}

/// The names under which the store has a connection's memory and its socket. A group's name
/// contains no `-`.
fn names(group: &str, id: u64) -> [String; 2] {
    ["memory", "socket"].map(|what| format!("nbd-{group}-{id:016x}-{what}"))
}

/// The group and the connection that a name in the store stands for, and whether it is the name of
/// the memory; `None`: it is another name.
fn meaning(name: &str) -> Option<(String, u64, bool)> {
    let (group, rest) = name.strip_prefix("nbd-")?.split_once('-')?;
    let id = u64::from_str_radix(rest.split_once('-')?.0, 16).ok()?;
    let which = names(group, id).iter().position(|other| other == name)?;
    Some((group.to_owned(), id, which == 0))
}

impl Connections {
    /// Sorts the descriptors that the store returned: connections, and all others.
    pub fn from_store(stored: Vec<(String, OwnedFd)>) -> (Self, Vec<(String, OwnedFd)>) {
        let mut halves: BTreeMap<_, (Option<OwnedFd>, Option<OwnedFd>)> = BTreeMap::new();
        let mut others = Vec::new();
        for (name, descriptor) in stored {
            match meaning(&name) {
                Some((group, id, true)) => {
                    halves.entry((group, id)).or_default().0 = Some(descriptor)
                }
                Some((group, id, false)) => {
                    halves.entry((group, id)).or_default().1 = Some(descriptor)
                }
                None => others.push((name, descriptor)),
            }
        }
        let mut kept = BTreeMap::new();
        for ((group, id), halves) in halves {
            match halves {
                (Some(memory), Some(socket)) => {
                    _ = kept.insert((group, id), Connection { memory, socket })
                }
                // One of the two is missing: the service manager drops a socket that its client has
                // closed.
                _ => names(&group, id).iter().for_each(|name| systemd::remove(name)),
            }
        }
        (Self { kept: Mutex::new(kept), hearing: Mutex::default() }, others)
    }

    fn insert(&self, group: &str, id: u64, (memory, socket): (OwnedFd, OwnedFd)) {
        let new = lock(&self.kept)
            .insert((group.to_owned(), id), Connection { memory, socket })
            .is_none();
        if let (true, Some(Connection { memory, socket })) =
            (new, lock(&self.kept).get(&(group.to_owned(), id)))
        {
            let [of_memory, of_socket] = names(group, id);
            systemd::store(&of_memory, memory.as_fd());
            systemd::store(&of_socket, socket.as_fd());
        }
    }

    fn remove(&self, group: &str, id: u64) {
        if lock(&self.kept).remove(&(group.to_owned(), id)).is_some() {
            names(group, id).iter().for_each(|name| systemd::remove(name));
        }
    }

    /// Closes the instance's descriptors of all connections of a group. If its engine is dead,
    /// their clients are disconnected.
    pub fn remove_all(&self, group: &str) {
        self.ids(group).into_iter().for_each(|id| self.remove(group, id));
    }

    pub fn has_any(&self, group: &str) -> bool {
        !self.ids(group).is_empty()
    }

    fn ids(&self, group: &str) -> Vec<u64> {
        lock(&self.kept).keys().filter(|(of, _)| of == group).map(|(_, id)| *id).collect()
    }

    /// Duplicates of a connection's descriptors.
    fn get(&self, group: &str, id: u64) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
        let kept = lock(&self.kept);
        let found = kept.get(&(group.to_owned(), id));
        found.map(|found| Ok((found.memory.try_clone()?, found.socket.try_clone()?))).transpose()
    }
}

impl Instance {
    /// Starts the thread that receives the engine's NBD connections, unless it runs already.
    pub(super) fn hear_of_clients(self: &Arc<Self>, group: &str, pid: u32) {
        let mut hearing = lock(&self.nbd.hearing);
        if hearing.get(group).is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let (instance, name) = (Arc::clone(self), group.to_owned());
        let hear = move || {
            // An engine that had to wait too long for this process sends nothing more until the
            // next request.
            let mut wait = Duration::ZERO;
            while let Ok(engine) = instance.engine(&name)
                && engine.status().is_ok_and(|status| status.pid == pid)
            {
                thread::sleep(wait);
                wait = AGAIN;
                let heard = engine.keep(|id, descriptors| match descriptors {
                    Some(descriptors) => instance.nbd.insert(&name, id, descriptors),
                    None => instance.nbd.remove(&name, id),
                });
                if heard.is_err_and(|error| error.code != Code::Io) {
                    // The engine is of a version that does not know this request.
                    return;
                }
            }
        };
        match thread::Builder::new().name("clients".into()).spawn(hear) {
            Ok(thread) => drop(hearing.insert(group.to_owned(), thread)),
            Err(error) => {
                let text = format!("its NBD clients will not outlive its engine: {error}");
                self.alert.line(Severity::Warning, group, &text);
            }
        }
    }

    /// Waits until all messages of an engine that has ended are received, for at most [`GONE`].
    pub(super) fn heard_of_clients(&self, group: &str) {
        let Some(thread) = lock(&self.nbd.hearing).remove(group) else { return };
        let began = Instant::now();
        while !thread.is_finished() && began.elapsed() < GONE {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Hands an engine the NBD connections of the engine before it. The engine has mounted the
    /// group and exports nothing yet. Connections that it has already stay.
    pub(super) fn resume_clients(&self, engine: &Client, group: &str) {
        for id in self.nbd.ids(group) {
            let resumed = match self.nbd.get(group, id) {
                Ok(Some((memory, socket))) => engine.resume(memory.as_fd(), socket.as_fd()),
                Ok(None) => continue,
                Err(error) => Err(AdminError::new(Code::Invalid, error)),
            };
            match resumed {
                Ok(()) => {}
                // The engine has ended: the next one gets a new request.
                Err(error) if error.code == Code::Io => return,
                // The client has left, which the engine had not reported yet.
                Err(error) if error.code == Code::NoSuchFile => self.nbd.remove(group, id),
                Err(error) => {
                    self.nbd.remove(group, id);
                    self.alert.line(Severity::Warning, group, &error.to_string());
                }
            }
        }
    }

    /// All exports are made: the engine disconnects the clients that are left over.
    pub(super) fn clients_are_resumed(engine: &Client) {
        let _ = engine.ask(ProcessRequest::Resumed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_from_the_store_are_known_by_their_names() {
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("/dev/null"));
        let [memory, socket] = names("DATA_1", 7);
        let [half, _] = names("DATA_1", 8);
        let strange =
            ["fuse-0000000000000001", "nbd-DATA-7-memory", "nbd-DATA", ""].map(str::to_owned);
        let stored = [vec![memory, socket, half], strange.to_vec()].concat();
        let (connections, others) =
            Connections::from_store(stored.into_iter().map(|name| (name, null())).collect());
        assert_eq!((connections.ids("DATA_1"), connections.ids("DATA")), (vec![7], vec![]));
        assert_eq!(others.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), strange);
        assert!(connections.get("DATA_1", 7).expect("duplicates").is_some());
        connections.remove_all("DATA_1");
        assert!(!connections.has_any("DATA_1"));
    }
}
