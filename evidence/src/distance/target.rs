//! Where log writes go to: a region of a device, of a file, or of a file made in a directory.
//!
//! ```text
//!   directory       a file is made in it, and removed
//!   file            made and removed if it is not there; if it is empty it is filled, and emptied
//!   device          from 1 MiB on; zeros before and after
//!   anything else   with `force` only, and then it stays overwritten
//! ```
//!
//! The region is written once before anything is measured: a log has its blocks already.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// How much is written to, at most.
pub const REGION: u64 = 32 << 20;
/// Where it begins in a device.
const DEVICE_BEGIN: u64 = 1 << 20;
/// At once, before and after.
const CHUNK: usize = 1 << 20;
/// Memory, offsets and lengths of direct I/O are multiples of it on every device.
pub const ALIGNED: usize = 4096;

/// See above.
#[derive(Debug)]
pub struct Region {
    path: PathBuf,
    file: File,
    pub begin: u64,
    pub length: u64,
    /// What direct I/O needs lengths to be a multiple of.
    pub sector: u64,
    after: After,
}

/// To be done when all is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Remove,
    Empty,
    Zero,
    Nothing,
}

/// Bytes whose address is a multiple of [`ALIGNED`].
#[derive(Debug)]
pub struct Aligned {
    bytes: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Aligned {
    #[must_use]
    pub fn new(length: usize) -> Self {
        let bytes = vec![0; length + ALIGNED];
        let begin = bytes.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        Self { bytes, begin, length }
    }

    #[must_use]
    pub fn get(&self) -> &[u8] {
        &self.bytes[self.begin..self.begin + self.length]
    }

    pub fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..self.begin + self.length]
    }
}

impl Region {
    /// Opens it and writes it once.
    ///
    /// # Errors
    /// In one sentence: what is there, or what failed.
    pub fn open(path: &Path, force: bool) -> Result<Self, String> {
        let failed = |doing: &str, error: &io::Error| cannot(path, doing, error);
        let found = match fs::metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed("look at it", &error)),
        };
        let is_device = found.as_ref().is_some_and(is_block_device);
        if is_device || found.as_ref().is_some_and(fs::Metadata::is_file) {
            refuse_overwrite(path, force)?;
        }
        let (path, after) = match &found {
            None => (path.to_owned(), After::Remove),
            Some(found) if found.is_dir() => {
                let name = format!("plinth-distance-{}.tmp", std::process::id());
                (path.join(name), After::Remove)
            }
            Some(found) if found.is_file() && found.len() == 0 => (path.to_owned(), After::Empty),
            Some(_) if is_device && !force => (path.to_owned(), After::Zero),
            Some(found) if is_device || found.is_file() => (path.to_owned(), After::Nothing),
            Some(_) => {
                return Err(format!(
                    "{}: it is no block device, file or directory",
                    path.display()
                ));
            }
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(after == After::Remove);
        // A device that is mounted, or in use otherwise, cannot be opened so.
        let exclusive = if is_device { libc::O_EXCL } else { 0 };
        // Not rustix's DSYNC, which is O_SYNC: with that each write has to make the file's times
        // durable, too, and a file system needs some round trips more.
        options.custom_flags(libc::O_DIRECT | libc::O_DSYNC | exclusive);
        let file = options.open(&path).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput if after == After::Remove => {
                // It was made before direct I/O was refused.
                let _ = fs::remove_file(&path);
                no_direct(&path)
            }
            ErrorKind::InvalidInput => no_direct(&path),
            ErrorKind::ResourceBusy => format!(
                "{}: it is in use (mounted, or part of something else): take another one",
                path.display()
            ),
            _ => cannot(&path, "open it", &error),
        })?;
        let mut region = Self { path, file, begin: 0, length: REGION, sector: 512, after };
        region.prepare(is_device, found.map_or(0, |found| found.len()))?;
        Ok(region)
    }

    fn prepare(&mut self, is_device: bool, file_length: u64) -> Result<(), String> {
        if is_device {
            let length = length(&self.file)
                .map_err(|error| cannot(&self.path, "find out how large it is", &error))?;
            if length < 2 * DEVICE_BEGIN {
                return Err(format!("{}: it is smaller than 2 MiB", self.path.display()));
            }
            self.begin = DEVICE_BEGIN;
            self.length = (length - DEVICE_BEGIN).min(REGION) / DEVICE_BEGIN * DEVICE_BEGIN;
            let sector = rustix::fs::ioctl_blksszget(&self.file)
                .map_err(|error| cannot(&self.path, "ask for its sector size", &error.into()))?;
            self.sector = u64::from(sector);
        } else if self.after == After::Nothing {
            self.length = (file_length.min(REGION)) / CHUNK as u64 * CHUNK as u64;
            if self.length == 0 {
                return Err(format!("{}: it is smaller than 1 MiB", self.path.display()));
            }
        }
        let filled = self.fill(0xa5);
        filled.map_err(|error| cannot(&self.path, "write to it", &error))?;
        if !is_device {
            let mut block = Aligned::new(ALIGNED);
            block.get_mut().fill(0x5a);
            self.sector = match self.write(&block.get()[..512], 0) {
                Ok(()) => 512,
                Err(_) => ALIGNED as u64,
            };
        }
        Ok(())
    }

    fn fill(&self, byte: u8) -> io::Result<()> {
        let mut chunk = Aligned::new(CHUNK);
        chunk.get_mut().fill(byte);
        let mut at = 0;
        while at < self.length {
            self.file.write_all_at(chunk.get(), self.begin + at)?;
            at += CHUNK as u64;
        }
        Ok(())
    }

    /// One log write. It is durable afterwards.
    ///
    /// # Errors
    /// The device's.
    pub fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let written = self.file.write_at(bytes, self.begin + at)?;
        if written == bytes.len() {
            Ok(())
        } else {
            Err(io::Error::other(format!("{written} of {} bytes written", bytes.len())))
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let ended = match self.after {
            After::Remove => fs::remove_file(&self.path),
            After::Empty => self.file.set_len(0),
            After::Zero => self.fill(0),
            After::Nothing => Ok(()),
        };
        if let Err(error) = ended {
            eprintln!("plinth load: {}", cannot(&self.path, "leave it as it was", &error));
        }
    }
}

fn cannot(path: &Path, doing: &str, error: &io::Error) -> String {
    format!("{}: cannot {doing}: {error}", path.display())
}

fn no_direct(path: &Path) -> String {
    format!("{}: its file system has no direct I/O: take a file on another one", path.display())
}

fn is_block_device(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    found.file_type().is_block_device()
}

fn length(file: &File) -> io::Result<u64> {
    use std::io::{Seek as _, SeekFrom};
    let mut file = file;
    file.seek(SeekFrom::End(0))
}

/// Refuses a file that is not empty, and a device on which there is anything where it would be
/// written to, or before.
///
/// # Errors
/// In one sentence: what is there.
pub fn refuse_overwrite(path: &Path, force: bool) -> Result<(), String> {
    if force {
        return Ok(());
    }
    let remedy = "take another target, or give --force-overwrite if it may be lost";
    let found = fs::metadata(path).map_err(|error| cannot(path, "look at it", &error))?;
    if !is_block_device(&found) {
        if found.len() == 0 {
            return Ok(());
        }
        return Err(format!("{}: it has {} bytes: {remedy}", path.display(), found.len()));
    }
    let file = File::open(path).map_err(|error| cannot(path, "open it", &error))?;
    let end = length(&file).map_err(|error| cannot(path, "find out how large it is", &error))?;
    let mut bytes = vec![0; CHUNK];
    let mut at = 0;
    while at < end.min(DEVICE_BEGIN + REGION) {
        let wanted = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        let part = bytes.get_mut(..wanted).unwrap_or_default();
        file.read_exact_at(part, at).map_err(|error| cannot(path, "read it", &error))?;
        if let Some(first) = part.iter().position(|byte| *byte != 0) {
            let at = at + first as u64;
            return Err(format!("{}: there is something at byte {at}: {remedy}", path.display()));
        }
        at += CHUNK as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_bytes_is_refused_without_force() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("redo");
        fs::write(&path, b"redo").expect("written");
        let error = Region::open(&path, false).expect_err("it has bytes");
        assert!(error.contains("4 bytes") && error.contains("--force-overwrite"), "{error}");
        assert_eq!(fs::read(&path).expect("read"), b"redo");
        let error = Region::open(&path, true).expect_err("it is too small");
        assert!(error.contains("smaller than 1 MiB"), "{error}");
    }

    /// Where there is no direct I/O there is nothing to measure, and nothing is left either.
    #[test]
    fn nothing_is_left_of_a_measurement() {
        let directory = tempfile::tempdir().expect("a directory");
        let empty = directory.path().join("empty");
        fs::write(&empty, b"").expect("written");
        for path in [directory.path().to_owned(), directory.path().join("new"), empty.clone()] {
            match Region::open(&path, false) {
                Ok(region) => assert_eq!(region.length, REGION),
                Err(error) => assert!(error.contains("no direct I/O"), "{error}"),
            }
        }
        assert_eq!(fs::metadata(&empty).expect("still there").len(), 0);
        assert_eq!(fs::read_dir(directory.path()).expect("read").count(), 1);
    }

    #[test]
    fn memory_is_aligned() {
        let bytes = Aligned::new(512);
        assert_eq!(bytes.get().len(), 512);
        assert_eq!(bytes.get().as_ptr() as usize % ALIGNED, 0);
    }
}
