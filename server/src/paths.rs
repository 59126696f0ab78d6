//! Paths of all files of an instance.
//!
//! ```text
//!   DIR  .s.PGSQL.5432        psql -h DIR            0600, or wider if others may look
//!        control.sock         our own commands       as the former
//!        plinth.pid           held locked by the instance
//!        engine.NAME.sock     one engine             0600
//!        next.NAME.sock       its successor, before it takes over
//!        engine.NAME.pid      held locked by the engine
//!        engine.NAME.log      the output of its process
//!        nbd.NAME.sock        its exports            0600, or wider if others may use them
//!        kept.ID              what an engine keeps for the next one
//!   STATE  instance.json      what to mount at start
//!          alert.log          what happened
//!          alarm.place        up to where alarms of it were sent
//!          disks.ID           which devices a group's disks are
//! ```

use std::path::{Path, PathBuf};

/// The default of DIR.
pub const DEFAULT_DIR: &str = "/run/plinth";
/// STATE if DIR is [`DEFAULT_DIR`], which is emptied by a boot.
const DEFAULT_STATE: &str = "/var/lib/plinth";

/// The paths of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    dir: PathBuf,
    state: PathBuf,
}

impl Paths {
    #[must_use]
    pub fn new(dir: &Path, state: Option<&Path>) -> Self {
        let state = match state {
            Some(state) => state,
            None if dir == Path::new(DEFAULT_DIR) => Path::new(DEFAULT_STATE),
            None => dir,
        };
        Self { dir: dir.to_owned(), state: state.to_owned() }
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    #[must_use]
    pub fn postgres(&self) -> PathBuf {
        self.dir.join(".s.PGSQL.5432")
    }

    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.dir.join("control.sock")
    }

    #[must_use]
    pub fn pid(&self) -> PathBuf {
        self.dir.join("plinth.pid")
    }

    #[must_use]
    pub fn instance(&self) -> PathBuf {
        self.state.join("instance.json")
    }

    #[must_use]
    pub fn alert(&self) -> PathBuf {
        self.state.join("alert.log")
    }

    /// How far `alert.log` was read for alarms.
    #[must_use]
    pub fn alarm_place(&self) -> PathBuf {
        self.state.join("alarm.place")
    }

    #[must_use]
    pub fn engine(&self, group: &str) -> PathBuf {
        self.dir.join(format!("engine.{group}.sock"))
    }

    /// The socket of a successor, which waits for the end of the running engine.
    #[must_use]
    pub fn successor(&self, group: &str) -> PathBuf {
        self.dir.join(format!("next.{group}.sock"))
    }

    /// The default socket for NBD clients of a group's exports.
    #[must_use]
    pub fn nbd(&self, group: &str) -> PathBuf {
        self.dir.join(format!("nbd.{group}.sock"))
    }

    #[must_use]
    pub fn engine_pid(&self, group: &str) -> PathBuf {
        self.dir.join(format!("engine.{group}.pid"))
    }

    #[must_use]
    pub fn engine_log(&self, group: &str) -> PathBuf {
        self.dir.join(format!("engine.{group}.log"))
    }
}
