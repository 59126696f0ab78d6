//! Detects files that are written as a log is: a little, then a sync, and again.
//!
//! Such writes are made durable one by one, through the disk's cache: one trip to the disks, of
//! these bytes and no others. The sync that follows finds nothing to flush. A write and a flush,
//! one after the other, are twice the trips, and the flush waits for other clients' writes as well;
//! on a disk that can write through its cache (FUA) the cache is not emptied at all.
//!
//! A wrong guess costs a disk a write through its cache that was not needed, and is given up at the
//! next sync.

use std::sync::atomic::{AtomicU32, Ordering};

/// After this many such syncs, one after the other, the next is expected to be like them.
const ENOUGH: u32 = 3;
/// A log is written at most this many times before it is synced.
const WRITES_MAX: u32 = 2;

/// The writes before a file's last syncs. See the module's description.
#[derive(Debug, Default)]
pub struct LogDetector {
    /// Writes since the last sync, counted to where they are too many.
    writes: AtomicU32,
    /// Syncs, one after the other, that followed few writes.
    syncs: AtomicU32,
}

impl LogDetector {
    /// A write begins: whether a sync is expected to follow soon.
    pub fn write(&self) -> bool {
        let before = self.writes.load(Ordering::Relaxed);
        if before > WRITES_MAX {
            return false;
        }
        // Two that begin at the same time may count as one: it is a guess.
        self.writes.store(before + 1, Ordering::Relaxed);
        before < WRITES_MAX && self.syncs.load(Ordering::Relaxed) >= ENOUGH
    }

    /// A sync begins.
    pub fn sync(&self) {
        match self.writes.swap(0, Ordering::Relaxed) {
            0 => {}
            1..=WRITES_MAX if self.syncs.load(Ordering::Relaxed) < ENOUGH => {
                self.syncs.fetch_add(1, Ordering::Relaxed);
            }
            1..=WRITES_MAX => {}
            _ => self.syncs.store(0, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a write, of `writes` before a sync, is expected to be followed by one.
    fn round(log_detector: &LogDetector, writes: usize) -> Vec<bool> {
        let expected = (0..writes).map(|_| log_detector.write()).collect();
        log_detector.sync();
        expected
    }

    #[test]
    fn a_log_is_detected_by_its_syncs() {
        let log_detector = LogDetector::default();
        for _ in 0..3 {
            assert_eq!(round(&log_detector, 1), [false]);
        }
        assert_eq!(round(&log_detector, 1), [true]);
        assert_eq!(round(&log_detector, 2), [true, true]);
        assert_eq!(round(&log_detector, 0), []);
        assert_eq!(round(&log_detector, 1), [true]);
    }

    #[test]
    fn many_writes_before_a_sync_end_the_guess() {
        let log_detector = LogDetector::default();
        for _ in 0..3 {
            round(&log_detector, 1);
        }
        assert_eq!(round(&log_detector, 5), [true, true, false, false, false]);
        assert_eq!(round(&log_detector, 1), [false]);
        round(&log_detector, 2);
        round(&log_detector, 1);
        assert_eq!(round(&log_detector, 1), [true]);
        (0..1000).for_each(|_| _ = log_detector.write());
        assert_eq!(round(&log_detector, 1), [false], "many without a sync, and one more");
    }
}
