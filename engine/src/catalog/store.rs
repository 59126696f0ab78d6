//! The storage of the catalog's two files: the operations on the disks that the catalog needs.
//!
//! The database and its write-ahead log are two byte ranges, each in one to three mirrors on disks
//! of different failure groups. Their places are in the membership (R6), so that nothing here needs
//! the catalog.
//!
//! Everything is synchronous: the catalog calls from threads of its own, and the
//! implementation waits by [`World::wait`](crate::world::World::wait).
//!
//! An implementation must guarantee:
//!
//!   1. Offsets and lengths are multiples of 4 KiB, and every range lies below the capacity.
//!   2. A write returns when every current mirror has it. A mirror that could not be written is
//!      removed from the list, recorded, before the write returns `Ok`.
//!   3. A flush covers both files, and every write that had returned before. A disk that cannot be
//!      flushed loses its mirrors, recorded, before the flush returns `Ok`.
//!   4. Nothing here allocates for, or waits for, a commit of the catalog.

use crate::sync::buffer::{Buffer, Slice};
pub use plinth_format::membership::CatalogFile;

/// Why an operation of the catalog's storage failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("no space left in the disk group to let the catalog grow")]
    NoSpace,
    #[error(
        "no good mirror of {length} bytes at {offset} of the catalog's {file} ({tried} tried); restore the catalog"
    )]
    NoGoodMirror { file: FileName, offset: u64, length: usize, tried: usize },
    #[error("the catalog's {file}: {doing} {length} bytes at {offset}: {reason}")]
    Failed { file: FileName, doing: &'static str, offset: u64, length: usize, reason: String },
    /// The group is closed or closing.
    #[error("the catalog's storage stopped: {0}")]
    Stopped(String),
}

/// A catalog file's name in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileName(pub CatalogFile);

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            CatalogFile::Database => "database",
            CatalogFile::Wal => "log",
        })
    }
}

/// The catalog's mirrored storage. See the module's description.
pub trait Store: Send + Sync {
    /// Bytes allocated to a file.
    fn capacity(&self, file: CatalogFile) -> u64;

    /// Bytes by which files shrink: a capacity that is left is a multiple of them.
    fn unit(&self) -> u64;

    /// The current mirrors, in a stable order.
    fn mirrors(&self, file: CatalogFile) -> Vec<u8>;

    /// A number that is higher than in any earlier engine on the same disks.
    fn epoch(&self) -> u64;

    /// Reads from every mirror, takes the newest copy by `age`, which returns `None` for a damaged
    /// one, and repairs the mirrors that have other bytes: a mirror may have lost a write without
    /// an error.
    ///
    /// # Errors
    /// `NoGoodMirror` if no copy is good.
    fn read(
        &self,
        file: CatalogFile,
        offset: u64,
        length: usize,
        age: &dyn Fn(&[u8]) -> Option<u64>,
    ) -> Result<Buffer, StoreError>;

    /// Reads from one mirror, without a check.
    ///
    /// # Errors
    /// If the mirror cannot be read or is not current.
    fn read_mirror(
        &self,
        file: CatalogFile,
        mirror: u8,
        offset: u64,
        length: usize,
    ) -> Result<Buffer, StoreError>;

    /// Reads from several places, each of one mirror with an offset and a length, without a check,
    /// all at once. `None` if a place could not be read; a caller that needs it reads it by
    /// [`Store::read`].
    fn read_many(&self, file: CatalogFile, places: &[(u8, u64, usize)]) -> Vec<Option<Buffer>> {
        places
            .iter()
            .map(|(mirror, offset, length)| self.read_mirror(file, *mirror, *offset, *length).ok())
            .collect()
    }

    /// Writes to every current mirror.
    ///
    /// # Errors
    /// If no current mirror has the bytes, or a lost mirror could not be recorded.
    fn write(&self, file: CatalogFile, offset: u64, data: Slice) -> Result<(), StoreError>;

    /// Writes several runs, in any order, to every current mirror.
    ///
    /// # Errors
    /// As [`Store::write`].
    fn write_many(&self, file: CatalogFile, runs: Vec<(u64, Slice)>) -> Result<(), StoreError> {
        runs.into_iter().try_for_each(|(offset, data)| self.write(file, offset, data))
    }

    /// Writes to one mirror: recovery makes mirrors equal before any other use of them.
    ///
    /// # Errors
    /// As [`Store::write`]; a mirror that was removed from the list meanwhile is not an error.
    fn write_mirror(
        &self,
        file: CatalogFile,
        mirror: u8,
        offset: u64,
        data: Slice,
    ) -> Result<(), StoreError>;

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    /// If no current mirror could be flushed, or a lost mirror could not be recorded.
    fn flush(&self) -> Result<(), StoreError>;

    /// Gives a file at least `capacity` bytes, recorded. The content of the new bytes is undefined.
    ///
    /// # Errors
    /// `NoSpace`, or as [`Store::write`].
    fn grow(&self, file: CatalogFile, capacity: u64) -> Result<(), StoreError>;

    /// Gives back what a file has beyond `capacity` bytes, rounded up, recorded.
    ///
    /// # Errors
    /// If that could not be recorded.
    fn shrink(&self, file: CatalogFile, capacity: u64) -> Result<(), StoreError>;
}
