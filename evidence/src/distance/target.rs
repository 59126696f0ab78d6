//! Where log writes go to: a region of a device, of a file, or of a file made in a directory.
//!
//! ```text
//!   directory      a file without a name is made in it: nothing is left ([`crate::scratch`])
//!   no such file   the same, in its directory
//!   file           if it is empty or has holes only: filled, and made so again
//!   device         from 1 MiB on, if it carries nothing ([`crate::occupied`]); zeroed again
//!   others         with `force` only, and then it stays overwritten
//! ```
//!
//! The region is written once before anything is measured: a log has its blocks already.

use crate::{occupied, scratch};
use rustix::fs::OFlags;
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
    /// Lengths of direct I/O are multiples of it.
    pub sector: u64,
    after: After,
}

/// To be done when all is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// To a file of holes with that length.
    Empty(u64),
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
        let (file, after) = match &found {
            None => (unnamed(path, parent(path))?, After::Nothing),
            Some(found) if found.is_dir() => (unnamed(path, path)?, After::Nothing),
            Some(found) if is_device || found.is_file() => {
                occupied::refuse(path, force)
                    .map_err(|refusal| format!("{}: {refusal}", path.display()))?;
                let file = named(path, is_device)?;
                let after = if is_device && !force {
                    After::Zero
                } else if !is_device && occupied::has_only_holes(&file) {
                    After::Empty(found.len())
                } else {
                    After::Nothing
                };
                (file, after)
            }
            Some(_) => {
                return Err(format!(
                    "{}: it is no block device, file or directory",
                    path.display()
                ));
            }
        };
        let is_made = !found.as_ref().is_some_and(|found| is_device || found.is_file());
        let path = path.to_owned();
        let mut region = Self { path, file, begin: 0, length: REGION, sector: 512, after };
        let is_kept = !is_made && after == After::Nothing;
        region.prepare(is_device, found.filter(|_| is_kept).map(|found| found.len()))?;
        Ok(region)
    }

    /// `kept` is the length of a file that stays as long as it is.
    fn prepare(&mut self, is_device: bool, kept: Option<u64>) -> Result<(), String> {
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
        } else if let Some(length) = kept {
            self.length = (length.min(REGION)) / CHUNK as u64 * CHUNK as u64;
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
            After::Empty(length) => self.file.set_len(0).and_then(|()| self.file.set_len(length)),
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

/// Of a file that is measured: not rustix's DSYNC, which is O_SYNC: with that each write must make
/// the file's times durable, too, and a file system needs some round trips more.
const FLAGS: i32 = libc::O_DIRECT | libc::O_DSYNC;

fn unnamed(path: &Path, directory: &Path) -> Result<File, String> {
    let flags = OFlags::from_bits_retain(FLAGS.cast_unsigned());
    scratch::open(directory, flags).map_err(|error| not_opened(path, &error))
}

fn named(path: &Path, is_device: bool) -> Result<File, String> {
    // A device that is mounted, or in use otherwise, cannot be opened so.
    let exclusive = if is_device { libc::O_EXCL } else { 0 };
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).custom_flags(FLAGS | exclusive).open(path);
    opened.map_err(|error| not_opened(path, &error))
}

fn not_opened(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::InvalidInput => no_direct(path),
        ErrorKind::ResourceBusy => format!(
            "{}: it is in use (mounted, or part of something else): take another one",
            path.display()
        ),
        _ => cannot(path, "open it", error),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
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
        let holes = directory.path().join("holes");
        File::create(&holes).and_then(|file| file.set_len(5 << 20)).expect("written");
        for path in [
            directory.path().to_owned(),
            directory.path().join("new"),
            empty.clone(),
            holes.clone(),
        ] {
            match Region::open(&path, false) {
                Ok(region) => assert_eq!(region.length, REGION),
                Err(error) => assert!(error.contains("no direct I/O"), "{error}"),
            }
        }
        assert_eq!(fs::metadata(&empty).expect("still there").len(), 0);
        assert_eq!(fs::metadata(&holes).expect("still there").len(), 5 << 20);
        assert!(occupied::has_only_holes(&File::open(&holes).expect("it opens")));
        assert_eq!(fs::read_dir(directory.path()).expect("read").count(), 2);
    }

    #[test]
    fn memory_is_aligned() {
        let bytes = Aligned::new(512);
        assert_eq!(bytes.get().len(), 512);
        assert_eq!(bytes.get().as_ptr() as usize % ALIGNED, 0);
    }
}
