//! Values that are read from files and kept current with them, so that certificates and secrets can
//! be renewed in a running process.
//!
//! The files are looked at before each use and read again when they have changed. If the new ones
//! cannot be used, the old value stays, with a line in the alert log.

use crate::alert::Alert;
use plinth_engine::event::Severity;
use plinth_host::lock;
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Mutex,
    time::SystemTime,
};

/// The time of a file's last change and its inode, which is new if a file was moved into place.
type Stamp = Option<(SystemTime, u64)>;

/// A value, kept current with its files.
pub(crate) struct Kept<T> {
    /// In the alert log.
    name: &'static str,
    files: Vec<PathBuf>,
    read: Mutex<(Vec<Stamp>, T)>,
}

fn stamp(path: &Path) -> Stamp {
    fs::metadata(path).ok().and_then(|found| Some((found.modified().ok()?, found.ino())))
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    files.iter().map(|file| stamp(file)).collect()
}

impl<T: Clone> Kept<T> {
    /// Reads the value, which `load` makes of the files.
    pub(crate) fn new(
        name: &'static str,
        files: Vec<PathBuf>,
        load: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<Self> {
        // Before they are read: a change meanwhile is seen at the next use.
        let stamps = stamps(&files);
        Ok(Self { name, files, read: Mutex::new((stamps, load()?)) })
    }

    /// The current value. If the files have changed, the alert log gets a line, under `whose` name.
    pub(crate) fn now(
        &self,
        load: impl FnOnce() -> io::Result<T>,
        alert: &Alert,
        whose: &str,
    ) -> T {
        let mut read = lock(&self.read);
        let stamps = stamps(&self.files);
        if read.0 != stamps {
            // Logged once for each change.
            read.0 = stamps;
            let name = self.name;
            match load() {
                Ok(value) => {
                    read.1 = value;
                    alert.line(Severity::Note, whose, &format!("{name} was read again"));
                }
                Err(error) => {
                    let text = format!(
                        "{name} has changed and cannot be used, the old one stays: {error}"
                    );
                    alert.line(Severity::Warning, whose, &text);
                }
            }
        }
        read.1.clone()
    }
}
