//! What went wrong on a disk since the mount: `v$asm_error`.
//!
//! Of each kind it is kept how often, when first and last, and where and with which words last. What is noted here is rare and
//! slow already, so that a lock is nothing. The whole story is in the alert log.

use crate::sync::lock::Mutex;
use crate::world::Timestamp;
use std::{collections::BTreeMap, fmt};

/// A kind of trouble, as the view says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    ReadFailed,
    WriteFailed,
    FlushFailed,
    DiscardFailed,
    ReadTimeout,
    /// Of a write, a flush or a discard.
    WriteTimeout,
    /// It ended well, after more than a second.
    Slow,
    /// It takes many times as long as the other disks.
    Slower,
    /// Bytes did not match their checksum.
    Checksum,
    /// Bytes were rewritten from another mirror.
    Repaired,
    /// They were rewritten, and cannot be read back.
    NotRepaired,
    /// The engine's own metadata was not what it had written there, and was written again.
    Metadata,
    /// It failed, and could not be spared: who asked got the error.
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

/// All that is known of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub count: u64,
    pub first: Timestamp,
    pub last: Timestamp,
    /// Where on the disk, last: byte offset and bytes; `None` if it was not in one place.
    pub place: Option<(u64, u64)>,
    /// In words, last.
    pub text: String,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct DiskErrors(Mutex<BTreeMap<Trouble, Seen>>);

impl DiskErrors {
    /// It happened again.
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

    /// Of each kind that there was.
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
    fn the_last_one_is_told_and_all_are_counted() {
        let disk_errors = DiskErrors::default();
        disk_errors.note(Trouble::Checksum, 5, Some((4096, 4096)), "one".to_owned());
        disk_errors.note(Trouble::Checksum, 8, Some((8192, 4096)), "two".to_owned());
        let seen =
            Seen { count: 2, first: 5, last: 8, place: Some((8192, 4096)), text: "two".to_owned() };
        assert_eq!(disk_errors.all(), [(Trouble::Checksum, seen)]);
    }
}
