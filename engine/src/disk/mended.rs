//! What the engine has written again on a disk, to make it equal to others, until that is durable (R9).
//!
//! Other mirrors have the right bytes, so no file is in doubt for it. But who compares the mirrors again finds them equal, in the disk's cache, and
//! after a flush that failed that says nothing. So the places are kept:
//!
//!   - A good flush that began after they were written, with no failed one in between, and they are forgotten.
//!   - A flush that failed since they were written, and they are *in doubt*: who compares writes them again, whatever the disk shows.

use crate::sync::lock::Mutex;
use std::{collections::BTreeMap, ops::Range};

/// Blocks of one disk, by byte offset.
#[derive(Debug, Default)]
pub struct Mended(Mutex<BTreeMap<u64, Written>>);

/// How a block was written again.
#[derive(Debug, Clone, Copy)]
struct Written {
    /// How many writes to the disk had ended when this one had.
    count: u64,
    /// How many of its flushes had failed before it began.
    broken: u64,
}

impl Mended {
    /// A block was written again: `count` writes have ended, and `broken` flushes had failed before this one began.
    pub fn note(&self, place: u64, count: u64, broken: u64) {
        self.0.lock().insert(place, Written { count, broken });
    }

    /// Whether a block of these bytes may not be on the disk although the disk shows it, when `broken` flushes have failed.
    pub fn are_uncertain(&self, bytes: Range<u64>, broken: u64) -> bool {
        self.0.lock().range(bytes).any(|(_, written)| written.broken < broken)
    }

    /// Another disk is in its place, or the same one without what it missed.
    pub fn forget(&self) {
        self.0.lock().clear();
    }

    /// A flush was good that began when `count` writes had ended and `broken` flushes had failed.
    pub fn are_flushed(&self, count: u64, broken: u64) {
        self.0.lock().retain(|_, written| written.count > count || written.broken < broken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_flush_leaves_them_in_doubt_until_they_are_written_again() {
        let mended = Mended::default();
        mended.note(4096, 7, 0);
        assert!(!mended.are_uncertain(0..8192, 0));
        // One that began before it had ended covers nothing of it.
        mended.are_flushed(6, 0);
        assert!(mended.are_uncertain(0..8192, 1));
        mended.are_flushed(9, 1);
        assert!(mended.are_uncertain(0..8192, 1), "the good flush is a later one");
        mended.note(4096, 10, 1);
        assert!(!mended.are_uncertain(0..8192, 1));
        mended.are_flushed(10, 1);
        assert!(!mended.are_uncertain(0..8192, 2), "it is durable");
    }
}
