//! Where the page goes: a file that did not exist, a regular file that may be replaced, or the
//! standard output.
//!
//! A file is written whole under another name, and then gets its own: a reader sees no half page.
//! Without `--force` the kernel refuses the rename if the name was taken meanwhile. The file can be
//! read by its owner and group only, as the alert log can, whose lines it has.

use crate::{
    cli::Result,
    sql_error::{SqlError, state},
};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

pub(super) enum Output {
    Standard,
    File(Target),
}

/// A file that can be written.
pub(super) struct Target {
    path: PathBuf,
    force: bool,
}

impl Output {
    /// # Errors
    /// If the file exists and may not be replaced, or its directory does not exist.
    pub(super) fn new(file: &str, force: bool) -> Result<Self> {
        if file == "-" {
            return Ok(Self::Standard);
        }
        let target = Target { path: PathBuf::from(file), force };
        target.check()?;
        Ok(Self::File(target))
    }
}

fn bad(text: String) -> SqlError {
    SqlError::new("22023", text)
}

impl Target {
    pub(super) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn check(&self) -> Result<()> {
        let shown = self.shown();
        if self.path.file_name().is_none() {
            return Err(bad(format!("{shown:?} is no name of a file")));
        }
        match fs::symlink_metadata(&self.path) {
            Ok(found) if !found.is_file() => Err(bad(format!("{shown} is no regular file"))
                .hint("name another, or - for the standard output")),
            Ok(_) if !self.force => Err(self.exists()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(&error)),
            _ => {
                let directory = self.directory();
                let is_there = fs::metadata(directory).is_ok_and(|found| found.is_dir());
                let none = || bad(format!("{}: there is no such directory", directory.display()));
                if is_there { Ok(()) } else { Err(none()) }
            }
        }
    }

    fn directory(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    fn exists(&self) -> SqlError {
        bad(format!("{} exists", self.shown())).hint("--force replaces it, -o FILE names another")
    }

    fn failed(&self, error: &io::Error) -> SqlError {
        SqlError::new(state::INTERNAL, format!("{}: {error}", self.shown()))
            .hint("-o FILE names another file")
    }

    /// # Errors
    /// If it cannot be written, or has come to exist meanwhile.
    pub(super) fn write(&self, text: &str) -> Result<()> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        // The whole of a long name would make one that is too long.
        let name: String = name.chars().take(40).collect();
        let part = self.directory().join(format!(".{name}.{}.part", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o640)
            .open(&part)
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            })
            .map_err(|error| self.failed(&error))
            .and_then(|()| self.take_name(&part));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written
    }

    fn take_name(&self, part: &Path) -> Result<()> {
        if self.force {
            return fs::rename(part, &self.path).map_err(|error| self.failed(&error));
        }
        match renameat_with(CWD, part, CWD, &self.path, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(self.exists()),
            // The file system does not know it.
            Err(Errno::INVAL | Errno::NOSYS) => {
                self.check()?;
                fs::rename(part, &self.path).map_err(|error| self.failed(&error))
            }
            Err(error) => Err(self.failed(&error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn target(path: &Path, force: bool) -> Result<Target> {
        match Output::new(path.to_str().expect("words"), force)? {
            Output::File(target) => Ok(target),
            Output::Standard => panic!("a file"),
        }
    }

    #[test]
    fn a_file_is_replaced_with_force_only_and_nothing_is_left_beside_it() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("page.html");
        let first = target(&path, false).expect("it does not exist");
        let late = target(&path, false).expect("it does not exist");
        first.write("one").expect("written");
        assert!(late.write("two").is_err_and(|refusal| refusal.message.contains("exists")));
        assert!(target(&path, false).is_err_and(|refusal| refusal.message.contains("exists")));
        assert_eq!(fs::read_to_string(&path).expect("read"), "one");
        target(&path, true).and_then(|target| target.write("three")).expect("replaced");
        assert_eq!(fs::read_to_string(&path).expect("read"), "three");
        assert_eq!(fs::read_dir(home.path()).expect("a directory").count(), 1);
    }

    #[test]
    fn links_directories_and_devices_are_never_replaced() {
        let home = tempfile::tempdir().expect("a directory");
        let link = home.path().join("link");
        symlink("/dev/null", &link).expect("a link");
        for path in [&link, home.path(), Path::new("/dev/null"), Path::new("/")] {
            assert!(target(path, true).is_err(), "{}", path.display());
        }
        assert!(target(&home.path().join("no/page.html"), false).is_err());
    }
}
