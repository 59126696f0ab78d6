//! A bpf file system of a test's own, so that it has a write filter of its own beside any others.

use crate::{Instance, binary, need_root, shell};
use std::{fs, path::Path};

/// A bpf file system. Without its mount, everything that is pinned in it is gone.
pub struct FilterPins(tempfile::TempDir);

impl FilterPins {
    /// # Panics
    /// Without root, or where the kernel has no such file system.
    #[must_use]
    pub fn new() -> Self {
        need_root();
        let pins = Self(tempfile::tempdir().expect("a directory"));
        pins.mount();
        pins
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// An instance whose filter is kept here.
    #[must_use]
    pub fn instance(&self) -> Instance {
        let place = self.path().to_str().expect("UTF-8");
        Instance::of(binary(), &[("PLINTH_FILTER_DIR", place)])
    }

    /// # Panics
    /// If it is refused.
    pub fn mount(&self) {
        shell(r#"mount -t bpf bpf "$1""#).arg(self.path()).ok();
    }

    /// # Panics
    /// If it is refused.
    pub fn unmount(&self) {
        shell(r#"umount "$1""#).arg(self.path()).ok();
    }

    /// Whether nothing is pinned. The kernel's own files are there always.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn are_gone(&self) -> bool {
        let entries = fs::read_dir(self.path()).expect("it can be read").flatten();
        entries.filter(|entry| entry.path().extension().is_none_or(|end| end != "debug")).count()
            == 0
    }
}

impl Default for FilterPins {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for FilterPins {
    fn drop(&mut self) {
        let _ = shell(r#"umount -l "$1""#).arg(self.path()).finish();
    }
}
