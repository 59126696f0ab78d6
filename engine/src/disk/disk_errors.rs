//! Errors of a disk since the mount, or since it replaced another one, by kind: `v$asm_error`.
//!
//! For each kind: the count, the time of the first and the last error, and the place and text of
//! the last. Errors are rare and slow already, so that the lock costs nothing. The alert log has
//! all of them.

use crate::sync::lock::Mutex;
use crate::world::Timestamp;
use std::{collections::BTreeMap, fmt};

/// A kind of error, as the view names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    ReadFailed,
    WriteFailed,
    FlushFailed,
    DiscardFailed,
    /// A write found no room in the thin pool or file system below (`full.rs`).
    NoRoom,
    ReadTimeout,
    /// Of a write, a flush or a discard.
    WriteTimeout,
    /// It succeeded, after more than a second.
    Slow,
    /// Its latency is many times that of the other disks.
    Slower,
    /// Bytes did not match their checksum.
    Checksum,
    /// Bytes were rewritten from another mirror.
    Repaired,
    /// They were rewritten, and cannot be read back.
    NotRepaired,
    /// The engine's own metadata was not as the engine had written it, and was rewritten.
    Metadata,
    /// It failed on a disk that cannot be spared: the client got the error.
    Refused,
    /// The disk went offline.
    Offline,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadFailed => "READ FAILED",
            Self::WriteFailed => "WRITE FAILED",
            Self::FlushFailed => "FLUSH FAILED",
            Self::DiscardFailed => "DISCARD FAILED",
            Self::NoRoom => "NO ROOM",
            Self::ReadTimeout => "READ TIMEOUT",
            Self::WriteTimeout => "WRITE TIMEOUT",
            Self::Slow => "SLOW",
            Self::Slower => "SLOWER",
            Self::Checksum => "CHECKSUM",
            Self::Repaired => "REPAIRED",
            Self::NotRepaired => "NOT REPAIRED",
            Self::Metadata => "METADATA",
            Self::Refused => "REFUSED",
            Self::Offline => "OFFLINE",
        })
    }
}

/// The errors of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub count: u64,
    pub first: Timestamp,
    pub last: Timestamp,
    /// The last place: byte offset and length; `None` if it was not in one place.
    pub place: Option<(u64, u64)>,
    /// The last text.
    pub text: String,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct DiskErrors(Mutex<BTreeMap<Trouble, Seen>>);

impl DiskErrors {
    /// Counts an error.
    pub fn note(&self, trouble: Trouble, now: Timestamp, place: Option<(u64, u64)>, text: String) {
        let mut all = self.0.lock();
        let seen = all.entry(trouble).or_insert(Seen {
            count: 0,
            first: now,
            last: now,
            place,
            text: String::new(),
        });
        (seen.count, seen.last, seen.place, seen.text) = (seen.count + 1, now, place, text);
    }

    /// Another device takes the disk's place: it has had none.
    pub fn forget(&self) {
        self.0.lock().clear();
    }

    /// The errors of each kind that there was.
    #[must_use]
    pub fn all(&self) -> Vec<(Trouble, Seen)> {
        let all = self.0.lock();
        all.iter().map(|(trouble, seen)| (*trouble, seen.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_shown_and_all_are_counted() {
        let disk_errors = DiskErrors::default();
        disk_errors.note(Trouble::Checksum, 5, Some((4096, 4096)), "one".to_owned());
        disk_errors.note(Trouble::Checksum, 8, Some((8192, 4096)), "two".to_owned());
        let seen =
            Seen { count: 2, first: 5, last: 8, place: Some((8192, 4096)), text: "two".to_owned() };
        assert_eq!(disk_errors.all(), [(Trouble::Checksum, seen)]);
    }
}
