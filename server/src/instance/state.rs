//! What an instance remembers: where to look for disks, what to mount at start and under which
//! numbers, where to listen, and which users may log in with a password.
//!
//! `instance.json` is replaced whole (written beside, synced, renamed), so that a crash leaves the
//! old one or the new.

use super::{filter::Wanted, passwords::Passwords, preferred::Preferred};
use crate::{engine::exports::Export, http_address::HttpAddress, tls::Network};
use plinth_engine::api::ConnectionId;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// The default discovery string: whole disks and the devices of device mapper. Partitions are not
/// among them; nor are files, which are named where they are used.
pub const DEFAULT_DISKSTRING: &str = "/dev/sd*,/dev/vd*,/dev/xvd*,/dev/nvme*n*,/dev/mapper/*";

/// The contents of `instance.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub diskstring: String,
    #[serde(default)]
    pub groups: BTreeMap<String, GroupState>,
    /// Where to listen beside the unix socket.
    #[serde(default)]
    pub network: Option<Network>,
    /// Where to listen for HTTP.
    #[serde(default)]
    pub http: Option<HttpAddress>,
    #[serde(default)]
    pub passwords: Passwords,
    /// The failure groups that reads prefer.
    #[serde(default)]
    pub preferred: Preferred,
    /// `asm_power_limit`, if it was set.
    #[serde(default)]
    pub power_limit: Option<u32>,
    /// The operator's wish about the write filter; `None`: there shall be none.
    #[serde(default)]
    pub filter: Option<Wanted>,
    /// The comments of parameters that were set with one.
    #[serde(default)]
    pub comments: BTreeMap<String, String>,
}

/// The remembered state of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupState {
    /// `GROUP_NUMBER` in the views, from 1. Kept while the group exists.
    pub number: u32,
    /// To be mounted at start, and again when its engine dies.
    pub mounted: bool,
    /// Mounted RESTRICTED: for administrators only.
    #[serde(default)]
    pub restricted: bool,
    /// Directories to mount it on, and the options.
    #[serde(default)]
    pub mount_points: BTreeMap<PathBuf, String>,
    /// The connections of the present mounts on these directories, or of the last ones.
    #[serde(default)]
    pub connections: BTreeMap<PathBuf, ConnectionId>,
    /// Files that are served to NBD clients.
    #[serde(default)]
    pub exports: Vec<Export>,
}

impl GroupState {
    /// Adds an export in place of one with the same name at the same address.
    pub fn add_export(&mut self, export: Export) {
        self.exports
            .retain(|other| other.name != export.name || !other.at.is_same_place(&export.at));
        self.exports.push(export);
    }
}

impl State {
    /// # Errors
    /// If there is a file and it cannot be read or understood: its contents are not guessed, and it
    /// is not overwritten.
    pub fn load(path: &Path) -> io::Result<Option<Self>> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "{}: {error}; repair it, or move it away to start without groups",
                        path.display()
                    ),
                )
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        }
    }

    /// # Errors
    /// If it cannot be made durable; then the old file is still there.
    pub fn store(&self, path: &Path) -> io::Result<()> {
        let place =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let beside = path.with_extension("json.new");
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        text.push(b'\n');
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&beside)
            .map_err(place)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(place)?;
        fs::rename(&beside, path).map_err(place)?;
        if let Some(directory) = path.parent() {
            File::open(directory).and_then(|directory| directory.sync_all()).map_err(place)?;
        }
        Ok(())
    }

    /// The group's entry, with a number of its own: the lowest that is free.
    pub fn group(&mut self, name: &str) -> &mut GroupState {
        if !self.groups.contains_key(name) {
            let free =
                (1..).find(|number| self.groups.values().all(|group| group.number != *number));
            let new = GroupState { number: free.unwrap_or(u32::MAX), ..GroupState::default() };
            self.groups.insert(name.to_owned(), new);
        }
        self.groups.entry(name.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_loaded_and_nonsense_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("instance.json");
        assert!(State::load(&path).expect("none yet").is_none());
        let mut state = State {
            diskstring: "/x/*".into(),
            groups: BTreeMap::new(),
            network: None,
            http: None,
            passwords: Passwords::default(),
            preferred: "DATA.FG1".parse().expect("a list"),
            power_limit: Some(4),
            filter: Some(Wanted { enabled: true, ..Wanted::default() }),
            comments: [("asm_power_limit".to_owned(), "at night".to_owned())].into(),
        };
        state.group("DATA").mounted = true;
        state.group("FRA").mount_points.insert("/fra".into(), "ro".into());
        state.groups.remove("DATA");
        assert_eq!(state.group("NEW").number, 1);
        assert_eq!(state.group("FRA").number, 2);
        state.store(&path).expect("stored");
        assert_eq!(State::load(&path).expect("loaded"), Some(state));
        fs::write(&path, "{").expect("written");
        assert!(State::load(&path).expect_err("refused").to_string().contains("move it away"));
    }
}
