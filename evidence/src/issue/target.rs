//! Targets of a run: a block device, a file, a directory, an NBD export.
//!
//! Opening one that is written is refused if it carries anything ([`crate::occupied`]). A file that
//! is made here, or has holes only, is filled before anything is measured: a read of space that was
//! never written costs nothing. One in a directory has no name ([`crate::scratch`]): nothing is
//! left of it, whatever happens. One that was named stays.

use super::{IssueError, nbd};
use crate::{
    occupied::{self, Refusal},
    scratch,
};
use rustix::fs::OFlags;
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsFd,
        unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
    },
    path::Path,
};

/// How targets are opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening {
    /// Whether the load writes.
    pub writes: bool,
    /// Bytes of a file to make, and the most of any other target that is used.
    pub size: Option<u64>,
    pub force_overwrite: bool,
}

/// An open target.
#[derive(Debug)]
pub struct Target {
    pub name: String,
    pub access: Access,
    /// Bytes that are used.
    pub size: u64,
    /// Bytes that are written at once at least.
    pub sector: u64,
    /// Whether all of it must be filled before it is read.
    pub is_new: bool,
    /// For a reader of the results.
    pub notes: Vec<String>,
}

#[derive(Debug)]
pub enum Access {
    File(File),
    Nbd(nbd::Address),
}

impl Target {
    /// # Errors
    /// If there is no such target, or it carries something.
    pub fn open(name: &str, opening: Opening) -> Result<Self, IssueError> {
        if let Some(address) = nbd::Address::parse(name) {
            let address = address.map_err(|what| refused(name, what))?;
            return Self::export(name, address, opening);
        }
        let path = Path::new(name);
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Self::in_directory(path, opening),
            Ok(metadata) if metadata.file_type().is_block_device() => Self::device(path, opening),
            Ok(metadata) if metadata.is_file() => Self::file(path, metadata.len(), opening),
            Ok(_) => Err(refused(name, "it is no block device, file or directory".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::made(path, opening),
            Err(error) => Err(failed(name, "open", error)),
        }
    }

    fn export(name: &str, address: nbd::Address, opening: Opening) -> Result<Self, IssueError> {
        let mut client = nbd::Client::connect(&address).map_err(|e| failed(name, "connect", e))?;
        let size = opening.size.unwrap_or(client.size).min(client.size) & !4095;
        if opening.writes && client.is_read_only {
            return Err(refused(name, "the export is read-only".to_owned()));
        }
        if opening.writes && !opening.force_overwrite {
            let carried = occupied::carried(client.size, |at, bytes| client.read(at, bytes));
            let carried = carried.map_err(|error| failed(name, "read", error))?;
            if let Some(what) = carried {
                return Err(refused(name, Refusal::Carries(what).to_string()));
            }
        }
        Ok(Self::new(name, Access::Nbd(address), size, 512))
    }

    fn in_directory(path: &Path, opening: Opening) -> Result<Self, IssueError> {
        let name = path.display().to_string();
        let missing = "a file is made in a directory: say how large with --size, such as 10G";
        let size = fitting(&name, path, opening.size, missing)?;
        let file =
            scratch::open(path, OFlags::DIRECT).map_err(|error| direct_failed(&name, error))?;
        Self::filled_first(name, file, size)
    }

    /// A new file.
    fn made(path: &Path, opening: Opening) -> Result<Self, IssueError> {
        let name = path.display().to_string();
        let missing = "there is no such file or device: check the name, or make a file with --size";
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let size = fitting(&name, directory.unwrap_or(Path::new(".")), opening.size, missing)?;
        let file = options(true, OFlags::DIRECT).create_new(true).open(path);
        let file = file.map_err(|error| {
            if error.raw_os_error() == Some(libc::EINVAL) {
                // It was made before direct I/O was refused.
                let _ = fs::remove_file(path);
            }
            direct_failed(&name, error)
        })?;
        Self::filled_first(name, file, size)
    }

    /// An empty file that gets its size, and is filled before anything is measured.
    fn filled_first(name: String, file: File, size: u64) -> Result<Self, IssueError> {
        file.set_len(size).map_err(|error| failed(&name, "extend", error))?;
        let sector = sector(&file);
        Ok(Self { is_new: true, ..Self::new(&name, Access::File(file), size, sector) })
    }

    fn file(path: &Path, length: u64, opening: Opening) -> Result<Self, IssueError> {
        let name = path.display().to_string();
        if length == 0 {
            return Err(refused(
                &name,
                "it is empty: remove it, and make it with --size".to_owned(),
            ));
        }
        if opening.writes {
            refuse(&name, path, opening.force_overwrite)?;
        }
        let file = options(opening.writes, OFlags::DIRECT).open(path);
        let file = file.map_err(|error| direct_failed(&name, error))?;
        let sector = sector(&file);
        let size = opening.size.unwrap_or(length).min(length) & !4095;
        if opening.writes && occupied::has_only_holes(&file) {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let size =
                fitting(&name, directory.unwrap_or(Path::new(".")), Some(size), "it is empty")?;
            return Ok(Self { is_new: true, ..Self::new(&name, Access::File(file), size, sector) });
        }
        let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).unwrap_or(length);
        let mut target = Self::new(&name, Access::File(file), size, sector);
        if hole < size {
            target.notes.push(format!(
                "{name} has holes (the first at byte {hole}): their reads measure nothing; fill it \
                 with --fill"
            ));
        }
        Ok(target)
    }

    fn device(path: &Path, opening: Opening) -> Result<Self, IssueError> {
        let name = path.display().to_string();
        let look = File::open(path).map_err(|error| failed(&name, "open", error))?;
        let size = rustix::fs::seek(&look, rustix::fs::SeekFrom::End(0))
            .map_err(|error| failed(&name, "measure", error.into()))?;
        let mut flags = OFlags::DIRECT;
        if opening.writes {
            refuse(&name, path, opening.force_overwrite)?;
            flags |= OFlags::EXCL;
        }
        let file = options(opening.writes, flags).open(path).map_err(|error| {
            if error.raw_os_error() == Some(libc::EBUSY) {
                refused(
                    &name,
                    "another program or driver has it for itself: stop that first".into(),
                )
            } else {
                direct_failed(&name, error)
            }
        })?;
        let sector = sector(&file);
        let used = opening.size.unwrap_or(size).min(size) & !4095;
        let mut target = Self::new(&name, Access::File(file), used, sector);
        if !opening.writes && is_zero(&look, size) {
            target.notes.push(format!(
                "{name} reads as zeros: if it is thin and was never written, its reads measure \
                 nothing; fill it with --fill"
            ));
        }
        Ok(target)
    }

    fn new(name: &str, access: Access, size: u64, sector: u64) -> Self {
        let (name, notes) = (name.to_owned(), Vec::new());
        Self { name, access, size, sector, is_new: false, notes }
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// Those of the target.
    pub fn sync(&self) -> io::Result<()> {
        match &self.access {
            Access::File(file) => file.sync_all(),
            Access::Nbd(address) => nbd::Client::connect(address)?.flush(),
        }
    }
}

fn options(writes: bool, flags: OFlags) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(writes).custom_flags(flags.bits() as i32);
    options
}

/// The least direct transfer: 512 bytes, or 4096.
fn sector(file: &File) -> u64 {
    let mut buffer = super::pool::Buffer::new(512);
    match rustix::io::pread(file.as_fd(), buffer.bytes(), 512) {
        Ok(_) => 512,
        Err(_) => 4096,
    }
}

/// Whether samples from all over it are zeros.
fn is_zero(file: &File, size: u64) -> bool {
    (0..64).all(|number| {
        let mut bytes = [0; 4096];
        let at = (size / 64 * number) & !4095;
        file.read_at(&mut bytes, at).is_ok() && bytes.iter().all(|byte| *byte == 0)
    })
}

fn refuse(name: &str, path: &Path, is_forced: bool) -> Result<(), IssueError> {
    occupied::refuse(path, is_forced).map_err(|refusal| refused(name, refusal.to_string()))
}

/// The size of a file that is to be filled, in whole pages; `missing` is said if none is given.
fn fitting(
    name: &str,
    directory: &Path,
    size: Option<u64>,
    missing: &str,
) -> Result<u64, IssueError> {
    let Some(size) = size.map(|size| size & !4095).filter(|size| *size > 0) else {
        return Err(refused(name, missing.to_owned()));
    };
    let room = rustix::fs::statvfs(directory)
        .map_err(|error| failed(&directory.display().to_string(), "look at", error.into()))?;
    let room = room.f_bavail.saturating_mul(room.f_frsize);
    if size > room {
        return Err(refused(
            name,
            format!("{size} bytes do not fit: {room} are free; take a smaller --size"),
        ));
    }
    Ok(size)
}

fn refused(name: &str, what: String) -> IssueError {
    IssueError::Target { name: name.to_owned(), what }
}

fn failed(name: &str, doing: &'static str, source: io::Error) -> IssueError {
    IssueError::Io { name: name.to_owned(), doing, source }
}

fn direct_failed(name: &str, error: io::Error) -> IssueError {
    if error.raw_os_error() == Some(libc::EINVAL) {
        let what = "its file system has no direct I/O: the page cache would be measured; take \
                    another place";
        return refused(name, what.to_owned());
    }
    failed(name, "open", error)
}
