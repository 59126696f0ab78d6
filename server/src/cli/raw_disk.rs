//! A disk, an image or a dump of `amdu` by its path, without an instance: for `dump`, `kfed` and
//! `amdu`.
//!
//! It is opened read-only. Only [`RawDisk::claim`] takes it for writing, as an engine does (R1):
//! with `O_EXCL` on a block device, and with the lock that engines hold.

use super::{Result, amdu::DumpedDisk};
use crate::sql_error::{SqlError, state};
use plinth_engine::{
    admin::{AdminError, Code},
    sync::buffer::Buffer,
    world::{Disk, Io, is_held},
};
use plinth_format::BLOCK_SIZE;
use plinth_host::{IoChoice, RealWorld, block_on};
use std::{io, path::Path, sync::Arc};

pub(super) struct RawDisk {
    pub path: String,
    pub disk: Arc<dyn Disk>,
}

/// The host, for commands that need no instance.
pub(super) fn world() -> Result<RealWorld> {
    let choice = IoChoice::from_environment().map_err(|error| SqlError::new("22023", error))?;
    RealWorld::new(choice, |event| crate::stdio::warn(&format!("{event}\n")))
        .map_err(|error| SqlError::new(state::INTERNAL, error))
}

impl RawDisk {
    /// # Errors
    /// If it cannot be opened, or cannot be a disk.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if DumpedDisk::is_one(path) {
            let disk = DumpedDisk::open(path)?;
            return Ok(Self { path: disk.path().to_owned(), disk: Arc::new(disk) });
        }
        let path = path.to_string_lossy().into_owned();
        let disk = world()?.open(&path).map_err(|error| {
            let reason = error.to_string();
            let is_named = reason.starts_with(&path);
            let text = if is_named { reason } else { format!("{path}: {reason}") };
            AdminError::new(Code::CannotOpen, text).hint("name a block device, or a regular file")
        })?;
        Ok(Self { path, disk })
    }

    pub(super) fn size(&self) -> u64 {
        self.disk.size()
    }

    /// The bytes there; fewer at the end of the disk.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let rest = usize::try_from(self.size().saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = length.min(rest);
        if length == 0 {
            return Ok(Vec::new());
        }
        let read = Io::Read { offset, buffer: Buffer::zeroed(length) };
        let done = block_on(self.disk.submit(read));
        done.result?;
        done.buffer.map(|buffer| buffer.to_vec()).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Takes it for writing.
    ///
    /// # Errors
    /// If an engine or another program has it.
    pub(super) fn claim(&self) -> Result<()> {
        self.disk.claim().map_err(|error| {
            if !is_held(&error) {
                return AdminError::new(Code::CannotOpen, error.to_string()).into();
            }
            let holder =
                self.disk.holder().map_or_else(String::new, |holder| format!(": {holder}"));
            let text = format!("{error}{holder}");
            SqlError::from(
                AdminError::new(Code::HeldElsewhere, text)
                    .hint("dismount its disk group first; nothing was written"),
            )
        })
    }

    /// Writes a block of a claimed disk, and makes it durable.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub(super) fn write_block(&self, offset: u64, block: &[u8; BLOCK_SIZE]) -> io::Result<()> {
        let data = Buffer::copy_of(block).share();
        block_on(self.disk.submit(Io::Write { offset, data, durably: false })).result?;
        block_on(self.disk.submit(Io::Flush)).result
    }
}

/// The refusal of an I/O on a disk.
pub(super) fn failed(path: &str, error: &io::Error) -> SqlError {
    AdminError::new(Code::Io, format!("{path}: {error}")).into()
}
