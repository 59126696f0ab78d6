//! Disks that fail too often: the errors counted of each, and when it goes offline for them.
//!
//! A read that fails, or returns bytes that do not match their checksum, is served by another
//! mirror and repaired by rewriting. That is right for a sector, and wrong for a disk that goes on
//! failing: its content cannot be relied on. So the group examines each disk every second:
//!
//! ```text
//!   too many reads failed in disk_error_time, or all fail        --> OFFLINE where R5 allows it,
//!                                                                    else an ALARM
//!   too many did not match their checksums in disk_error_time    --> the same
//!   ... and a disk of another failure group had failures too     --> an ALARM: data wrong there
//!                                                                    may be right here only
//! ```
//!
//! Reads of a scrub, a check or a repair are not counted, except where all reads fail: they look
//! for errors, and repair them.
//!
//! A disk that cannot be read is no current mirror (R5), although the membership says ONLINE:
//!
//! - while no read of it succeeds, it does not count as a mirror when another disk is to go offline
//!   for an error;
//! - before an operator's OFFLINE, the disks that are to carry the group are tested: each place
//!   where a read failed and no later one succeeded, and the disk's first block. A place that still
//!   cannot be read is a reason to refuse.
//!
//! The same task compares how fast the disks are (`slow.rs`). Errors are rare and slow already, so
//! that the lock costs nothing. A successful read costs one relaxed load.

use crate::{disk::counters::IoClient, sync::lock::Mutex};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// After this many failed reads with none successful between them, the disk cannot be read.
const IN_A_ROW: u64 = 16;
/// The most AUs with an unreadable place; one place is kept of each.
const PLACES_MAX: usize = 1024;
/// The highest limit that an attribute can set: as many times are kept.
pub const LIMIT_MAX: usize = 1000;
/// A kind of error that has a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Read,
    Checksum,
}

/// How many errors are too many; 0: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub reads: usize,
    pub checksums: usize,
    /// Errors within this time count.
    pub time: Duration,
}

/// The reason why a disk should go offline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany {
    pub failure: Failure,
    pub count: usize,
    /// The time in which they were; `None`: they are consecutive.
    pub time: Option<Duration>,
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, attribute) = match self.failure {
            Failure::Read => ("reads failed", "disk_error_limit"),
            Failure::Checksum => {
                ("reads brought bytes that do not match their checksum", "disk_checksum_limit")
            }
        };
        match self.time {
            Some(time) => write!(
                f,
                "{} {what} within {} s (attribute {attribute})",
                self.count,
                time.as_secs()
            ),
            None => write!(
                f,
                "the last {} {what}, and none ended well (attribute {attribute})",
                self.count
            ),
        }
    }
}

/// Times of the last errors, by the monotonic clock.
#[derive(Debug, Default)]
struct Times(VecDeque<Duration>);

impl Times {
    fn note(&mut self, now: Duration) {
        if self.0.len() == LIMIT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(now);
    }

    fn since(&self, begin: Duration) -> usize {
        self.0.iter().rev().take_while(|time| **time >= begin).count()
    }
}

#[derive(Debug, Default)]
struct Recent {
    reads: Times,
    checksums: Times,
    /// By AU, the last place in it where a read failed and nothing was read or repaired since:
    /// offset and length.
    unread: BTreeMap<u64, (u64, usize)>,
}

/// The recent errors of one disk. See the module's description.
#[derive(Debug, Default)]
pub struct Health {
    recent: Mutex<Recent>,
    /// Failed reads since the last successful one.
    in_a_row: AtomicU64,
    /// The operator was alerted that it should go offline and cannot be spared.
    pub(crate) has_alarmed: AtomicBool,
}

impl Health {
    /// Called for a successful read.
    pub fn note_read(&self) {
        if self.in_a_row.load(Relaxed) != 0 {
            self.in_a_row.store(0, Relaxed);
        }
    }

    /// Called for a failed read of `length` bytes at `offset`, of a disk with AUs of `au_size`.
    /// `is_again`: it was a part of another failed read.
    pub fn note_failed_read(
        &self,
        now: Duration,
        client: IoClient,
        (offset, length): (u64, usize),
        au_size: u64,
        is_again: bool,
    ) {
        let mut recent = self.recent.lock();
        let au = offset / au_size;
        if recent.unread.len() < PLACES_MAX || recent.unread.contains_key(&au) {
            recent.unread.insert(au, (offset, length));
        }
        if is_again {
            return;
        }
        self.in_a_row.fetch_add(1, Relaxed);
        if client != IoClient::Checks {
            recent.reads.note(now);
        }
    }

    /// Called when bytes that a program read did not match their checksum.
    pub fn note_mismatch(&self, now: Duration) {
        self.recent.lock().checksums.note(now);
    }

    /// Called when a place can be read again, or is not needed any more.
    pub fn note_mended(&self, (offset, length): (u64, usize)) {
        let mut recent = self.recent.lock();
        recent.unread.retain(|_, (at, bytes)| {
            *at + *bytes as u64 <= offset || offset + length as u64 <= *at
        });
    }

    /// Places where a read failed, and nothing was read or repaired since.
    #[must_use]
    pub fn unread(&self) -> Vec<(u64, usize)> {
        self.recent.lock().unread.values().copied().collect()
    }

    /// Whether it cannot be read, as far as is known: it is no current mirror.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.in_a_row.load(Relaxed) >= IN_A_ROW
    }

    /// Whether some of it cannot be read.
    #[must_use]
    pub fn has_unread(&self) -> bool {
        self.is_unreadable() || !self.recent.lock().unread.is_empty()
    }

    /// Called when another disk takes its place, or it was away: nothing is known of it.
    pub fn forget(&self) {
        *self.recent.lock() = Recent::default();
        self.in_a_row.store(0, Relaxed);
        self.has_alarmed.store(false, Relaxed);
    }

    /// Whether anything failed within the time of the limits.
    #[must_use]
    pub fn has_failed(&self, now: Duration, limits: &Limits) -> bool {
        let recent = self.recent.lock();
        let begin = now.saturating_sub(limits.time);
        recent.reads.since(begin) + recent.checksums.since(begin) > 0
    }

    /// Whether it fails too often.
    #[must_use]
    pub fn judge(&self, now: Duration, limits: &Limits) -> Option<TooMany> {
        let recent = self.recent.lock();
        let begin = now.saturating_sub(limits.time);
        let counts = [
            (Failure::Read, recent.reads.since(begin), limits.reads),
            (Failure::Checksum, recent.checksums.since(begin), limits.checksums),
        ];
        let many = counts.into_iter().find(|(_, count, limit)| *limit > 0 && count >= limit);
        let many =
            many.map(|(failure, count, _)| TooMany { failure, count, time: Some(limits.time) });
        many.or_else(|| {
            let count = usize::try_from(self.in_a_row.load(Relaxed)).unwrap_or(usize::MAX);
            let all_fail = limits.reads > 0 && count >= limits.reads.max(IN_A_ROW as usize);
            all_fail.then_some(TooMany { failure: Failure::Read, count, time: None })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { reads: 20, checksums: 100, time: Duration::from_secs(3600) };
    const AU: u64 = 1 << 20;

    fn fail(health: &Health, second: u64, client: IoClient) {
        health.note_failed_read(
            Duration::from_secs(second),
            client,
            (second * 4096, 4096),
            AU,
            false,
        );
    }

    #[test]
    fn as_many_failures_as_the_limit_within_its_time_are_too_many() {
        let health = Health::default();
        for second in 0..19 {
            fail(&health, second, IoClient::Files);
            health.note_read();
        }
        assert_eq!(health.judge(Duration::from_secs(20), &LIMITS), None);
        fail(&health, 3605, IoClient::Files);
        health.note_read();
        assert_eq!(
            health.judge(Duration::from_secs(3605), &LIMITS),
            None,
            "the first are too long ago"
        );
        for second in 3606..3612 {
            fail(&health, second, IoClient::Files);
            fail(&health, second, IoClient::Files);
            health.note_read();
        }
        let many =
            health.judge(Duration::from_secs(3612), &LIMITS).expect("7 + 13 within the hour");
        assert_eq!((many.failure, many.time), (Failure::Read, Some(LIMITS.time)));
        assert_eq!(
            health.judge(Duration::from_secs(3612), &Limits { reads: 0, ..LIMITS }),
            None,
            "nobody asked for it"
        );
        health.forget();
        assert_eq!(health.judge(Duration::from_secs(3612), &LIMITS), None);
    }

    #[test]
    fn failures_of_a_scrub_count_only_where_nothing_can_be_read() {
        let health = Health::default();
        for second in 0..100 {
            fail(&health, second, IoClient::Checks);
            if second % 10 == 0 {
                health.note_read();
            }
        }
        assert_eq!(health.judge(Duration::from_secs(100), &LIMITS), None);
        (100..120).for_each(|second| fail(&health, second, IoClient::Checks));
        assert!(
            health.judge(Duration::from_secs(120), &LIMITS).is_some_and(|many| many.time.is_none())
        );
        assert!(health.is_unreadable());
        health.note_read();
        assert!(!health.is_unreadable() && health.has_unread());
    }

    #[test]
    fn checksums_have_their_own_limit() {
        let health = Health::default();
        (0..99).for_each(|second| health.note_mismatch(Duration::from_secs(second)));
        assert_eq!(health.judge(Duration::from_secs(99), &LIMITS), None);
        health.note_mismatch(Duration::from_secs(99));
        let many = health.judge(Duration::from_secs(99), &LIMITS).expect("100");
        assert_eq!((many.failure, many.count), (Failure::Checksum, 100));
        assert!(!health.has_unread());
    }

    #[test]
    fn a_place_is_unread_until_it_is_repaired() {
        let health = Health::default();
        let now = Duration::from_secs(1);
        health.note_failed_read(now, IoClient::Files, (3 * AU + 8192, 8192), AU, false);
        health.note_failed_read(now, IoClient::Checks, (3 * AU + 12288, 4096), AU, true);
        health.note_read();
        health.note_mended((3 * AU + 8192, 4096));
        assert_eq!(
            health.unread(),
            [(3 * AU + 12288, 4096)],
            "the place that was found last, and it is another one"
        );
        health.note_mended((3 * AU + 12288, 4096));
        assert!(!health.has_unread());
    }
}
