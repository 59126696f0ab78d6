//! The descriptors of our mounts, by which they outlive engines.
//!
//! A mount lives while a descriptor of its `/dev/fuse` is open. Its engine has one, the instance a
//! duplicate. So
//!
//! ```text
//!   engine dies               the next one gets a duplicate of the instance's
//!   instance dies             the next one asks the engine for a duplicate of its own
//!   both die                  the service manager's store has one (systemd.rs); without it the mount is dead, and made again
//! ```
//!
//! With the descriptor goes the connection's id, by which the group knows what was done for it. It
//! is made here, at random, when the mount is made, and noted in `instance.json`, by which a
//! descriptor that comes out of the store is known.

use super::{Instance, systemd};
use plinth_engine::api::ConnectionId;
use plinth_host::lock;
use rustix::fd::{AsFd, OwnedFd};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Mutex,
};

/// A mount's descriptor.
#[derive(Debug)]
pub(super) struct Device {
    pub connection: ConnectionId,
    pub descriptor: OwnedFd,
}

impl Device {
    fn duplicate(&self) -> io::Result<Self> {
        Ok(Self { connection: self.connection, descriptor: self.descriptor.try_clone()? })
    }
}

/// Those of all mounts, by mount point.
#[derive(Debug, Default)]
pub(super) struct Devices(Mutex<BTreeMap<PathBuf, Device>>);

/// An id that no other mount has.
pub(super) fn new_connection() -> io::Result<ConnectionId> {
    let mut bytes = [0; 8];
    loop {
        rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
        match u64::from_ne_bytes(bytes) {
            0 => {}
            id => return Ok(ConnectionId(id)),
        }
    }
}

/// What the store calls a descriptor.
fn name_of(connection: ConnectionId) -> String {
    format!("fuse-{:016x}", connection.0)
}

fn connection_of(name: &str) -> Option<ConnectionId> {
    let id = u64::from_str_radix(name.strip_prefix("fuse-")?, 16).ok()?;
    (name == name_of(ConnectionId(id))).then_some(ConnectionId(id))
}

impl Devices {
    /// Takes descriptors from the store, those of known mounts; the rest is closed, and with it
    /// mounts that no group knows.
    pub fn from_store(
        stored: Vec<(String, OwnedFd)>,
        known: &BTreeMap<PathBuf, ConnectionId>,
    ) -> Self {
        let mut devices = BTreeMap::new();
        for (name, descriptor) in stored {
            let connection = connection_of(&name);
            let mount_point = known.iter().find(|(_, known)| connection == Some(**known));
            match (mount_point, connection) {
                (Some((mount_point, _)), Some(connection)) => {
                    devices.insert(mount_point.clone(), Device { connection, descriptor });
                }
                _ => systemd::remove(&name),
            }
        }
        Self(Mutex::new(devices))
    }

    pub fn insert(&self, mount_point: PathBuf, device: Device) {
        systemd::store(&name_of(device.connection), device.descriptor.as_fd());
        lock(&self.0).insert(mount_point, device);
    }

    /// With the last descriptor of its device a mount is dead for good. Whether there was one.
    pub fn remove(&self, mount_point: &Path) -> bool {
        let removed = lock(&self.0).remove(mount_point);
        removed.inspect(|device| systemd::remove(&name_of(device.connection))).is_some()
    }

    /// A duplicate.
    pub fn get(&self, mount_point: &Path) -> Option<Device> {
        lock(&self.0).get(mount_point).and_then(|device| device.duplicate().ok())
    }
}

impl Instance {
    /// The connections of a group whose devices are held: what its next engine takes over.
    pub(super) fn connections(&self, group: &str) -> Vec<ConnectionId> {
        let mount_points = self.mount_points(group);
        mount_points
            .keys()
            .filter_map(|mount_point| Some(self.devices.get(mount_point)?.connection))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_from_the_store_are_known_by_their_names() {
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("/dev/null"));
        let (one, other) = (new_connection().expect("random"), new_connection().expect("random"));
        assert_ne!(one, other);
        let known = BTreeMap::from([(PathBuf::from("/mnt/a"), one)]);
        let stored =
            [name_of(one), name_of(other), "fuse-1".into(), "stored".into(), String::new()];
        let devices = Devices::from_store(stored.map(|name| (name, null())).into(), &known);
        assert_eq!(lock(&devices.0).len(), 1);
        assert_eq!(devices.get(Path::new("/mnt/a")).map(|device| device.connection), Some(one));
        assert!(devices.remove(Path::new("/mnt/a")) && !devices.remove(Path::new("/mnt/a")));
    }
}
