//! Blocks that the engine has rewritten on a disk to make them equal to other mirrors, until the
//! rewrite is durable (R9).
//!
//! Other mirrors have the right bytes, so no file is at risk. But the next comparison of the
//! mirrors finds them equal, in the disk's cache, and after a failed flush that proves nothing. So
//! the places are kept:
//!
//! - After a successful flush that began after the rewrite, with no failed one in between, they are
//!   forgotten.
//! - After a flush that failed since the rewrite, they are *uncertain*: the next comparison
//!   rewrites them, whatever the disk returns.

use crate::sync::lock::Mutex;
use std::{collections::BTreeMap, ops::Range};

/// Blocks of one disk, by byte offset.
#[derive(Debug, Default)]
pub struct Mended(Mutex<BTreeMap<u64, Written>>);

/// The state of the disk when a block was rewritten.
#[derive(Debug, Clone, Copy)]
struct Written {
    /// Writes to the disk that had ended when this one had.
    count: u64,
    /// Flushes of it that had failed before this one began.
    broken: u64,
}

impl Mended {
    /// Records a rewritten block: `count` writes have ended, and `broken` flushes had failed before
    /// this one began.
    pub fn note(&self, place: u64, count: u64, broken: u64) {
        self.0.lock().insert(place, Written { count, broken });
    }

    /// Whether a block of these bytes may not be on the disk although the disk returns it, when
    /// `broken` flushes have failed.
    pub fn are_uncertain(&self, bytes: Range<u64>, broken: u64) -> bool {
        self.0.lock().range(bytes).any(|(_, written)| written.broken < broken)
    }

    /// Called when another disk takes its place, or the same one without the writes that it missed.
    pub fn forget(&self) {
        self.0.lock().clear();
    }

    /// Called after a successful flush that began when `count` writes had ended and `broken`
    /// flushes had failed.
    pub fn are_flushed(&self, count: u64, broken: u64) {
        self.0.lock().retain(|_, written| written.count > count || written.broken < broken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_flush_leaves_blocks_uncertain_until_they_are_rewritten() {
        let mended = Mended::default();
        mended.note(4096, 7, 0);
        assert!(!mended.are_uncertain(0..8192, 0));
        // A flush that began before the rewrite had ended covers nothing of it.
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
