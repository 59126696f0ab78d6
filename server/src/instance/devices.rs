//! The descriptors of our mounts, by which they outlive engines.
//!
//! A mount lives while a descriptor of its `/dev/fuse` is open. Its engine has one, the instance a
//! duplicate. So
//!
//! ```text
//!   engine dies      the next one gets a duplicate of the instance's
//!   instance dies    the next one asks the engine for a duplicate of its own
//!   both die         the service manager's store has one (systemd.rs); without it the mount is
//!                    dead, and is made again
//! ```
//!
//! Each descriptor is kept with the id of its connection. Under this id the group records which
//! requests of the mount it has carried out. The id is made here, at random, when the mount is
//! made, and is also in its name in the store. `instance.json` has it: from there the instance
//! knows the mount of a descriptor that the store returns.

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

/// The descriptors of all mounts, by mount point.
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

/// The name under which the store has a mount's descriptor.
fn name_of(connection: ConnectionId) -> String {
    format!("fuse-{:016x}", connection.0)
}

fn connection_of(name: &str) -> Option<ConnectionId> {
    let id = u64::from_str_radix(name.strip_prefix("fuse-")?, 16).ok()?;
    (name == name_of(ConnectionId(id))).then_some(ConnectionId(id))
}

impl Devices {
    /// Takes the descriptors of known mounts from those that the store returned. It closes all
    /// others, which ends mounts that no group knows.
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

    /// Closes a mount's descriptor, and returns whether there was one. A mount of which the last
    /// descriptor is closed is dead for good.
    pub fn remove(&self, mount_point: &Path) -> bool {
        let removed = lock(&self.0).remove(mount_point);
        removed.inspect(|device| systemd::remove(&name_of(device.connection))).is_some()
    }

    /// A duplicate of a mount's descriptor.
    pub fn get(&self, mount_point: &Path) -> Option<Device> {
        lock(&self.0).get(mount_point).and_then(|device| device.duplicate().ok())
    }
}

impl Instance {
    /// The connections of a group whose descriptors the instance holds: its next engine takes them
    /// over.
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
