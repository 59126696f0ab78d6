//! A disk whose space comes from a thin pool, or a file system, that is full.
//!
//! A write that needs new space there fails with `ENOSPC`. Reads succeed, and so do writes to
//! places that have their space. Such a write says nothing about the disk, and room may come: from
//! a discard, from the operator, from a pool that grows by itself. So it waits:
//!
//! ```text
//!   ENOSPC            the write is tried again every RETRY          disk_io.rs
//!   disk_timeout      the disk goes OFFLINE where R5 allows it,     membership/voters.rs
//!                     and comes back by itself                      movement/absent.rs
//!   cannot be spared  the write waits on:
//!                       of a program: until disk_full_wait, then    extent/blocks/write.rs
//!                         the program gets ENOSPC
//!                       of the engine itself: until there is room   catalog/on_disks.rs
//! ```
//!
//! A disk that lacks room does not go for a mirror that lacks room too, or whose space comes from
//! the same pool and is next to lack it. So where all are full, none goes OFFLINE.
//!
//! The times count from the first write that found no room. They end when such a write gets
//! through, or when none has lacked room for [`FORGET`]. A group looks at its disks every second,
//! and tells the operator when a shortage begins and when it ends (`extent/disk_health.rs`).

use crate::{
    sync::lock::Mutex,
    world::{Disk, SpaceFrom},
};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Between two attempts of a write. Short for a person who has made room, and long for a device.
pub const RETRY: Duration = Duration::from_millis(500);
/// A shortage is over if no write has lacked room for this time.
const FORGET: Duration = Duration::from_secs(60);

/// A time in which writes to a disk find no room.
#[derive(Debug, Clone)]
struct Shortage {
    since: Duration,
    /// The last time that a write found none.
    last: Duration,
}

/// A change that the operator is to be told of.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    Full(Arc<SpaceFrom>),
    Over,
}

/// Whether a disk lacks room. See the module's description.
#[derive(Default)]
pub struct Room {
    shortage: Mutex<Option<Shortage>>,
    /// Where the disk's space comes from, once that was asked.
    from: Mutex<Option<Arc<SpaceFrom>>>,
    /// A hint: there is one.
    is_short: AtomicBool,
    is_told: AtomicBool,
    /// The disk went OFFLINE for it, and has not been ONLINE since.
    was_reason: AtomicBool,
    /// How long it may last before the disk goes OFFLINE: milliseconds.
    patience_ms: AtomicU64,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Room {:?}", *self.shortage.lock())
    }
}

impl Room {
    /// A write has found none. Returns for how long that has been so, and where it should be made.
    pub fn note_none(&self, now: Duration, disk: Option<&dyn Disk>) -> (Duration, Arc<SpaceFrom>) {
        let from = self.ask_pool(disk);
        let mut shortage = self.shortage.lock();
        let shortage = shortage.get_or_insert(Shortage { since: now, last: now });
        shortage.last = now;
        self.is_short.store(true, Relaxed);
        (now.saturating_sub(shortage.since), from)
    }

    /// Where the disk's space comes from. Waits a little at most, and only the first time.
    pub fn ask_pool(&self, disk: Option<&dyn Disk>) -> Arc<SpaceFrom> {
        let known = self.from.lock().clone();
        // Not under the lock: it reads what the system says of the device.
        let asked = known.unwrap_or_else(|| {
            Arc::new(match disk {
                Some(disk) => disk.space_from(),
                None => SpaceFrom { words: "the storage below it".to_owned(), pool: None },
            })
        });
        Arc::clone(self.from.lock().get_or_insert(asked))
    }

    /// Whether both disks are known to take their space from one pool.
    #[must_use]
    pub fn shares_pool_with(&self, other: &Self) -> bool {
        let pool = |room: &Self| room.from.lock().as_ref().and_then(|from| from.pool.clone());
        pool(self).is_some_and(|mine| pool(other) == Some(mine))
    }

    /// A write that had found none got through, or nothing is known of the disk any more.
    pub fn end(&self) {
        *self.shortage.lock() = None;
        // By the next time the disk may have moved.
        *self.from.lock() = None;
        self.is_short.store(false, Relaxed);
    }

    /// The disk has another state.
    pub fn forget(&self) {
        self.end();
        self.is_told.store(false, Relaxed);
        self.was_reason.store(false, Relaxed);
    }

    /// Whether writes find none at present.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.is_short.load(Relaxed)
    }

    /// Once a second: a change since the last call.
    pub fn change(&self, now: Duration) -> Option<Change> {
        let is_old = |shortage: &Shortage| now.saturating_sub(shortage.last) > FORGET;
        if self.shortage.lock().as_ref().is_some_and(is_old) {
            self.end();
        }
        let is_short = self.shortage.lock().is_some();
        let from = self.from.lock().clone().filter(|_| is_short);
        let was_told = self.is_told.swap(from.is_some(), Relaxed);
        match from {
            Some(from) => (!was_told).then_some(Change::Full(from)),
            None => was_told.then_some(Change::Over),
        }
    }

    /// The disk went OFFLINE for it.
    pub fn note_reason(&self) {
        self.was_reason.store(true, Relaxed);
    }

    #[must_use]
    pub fn was_reason(&self) -> bool {
        self.was_reason.load(Relaxed)
    }

    /// Sets how long a write waits for room before its disk goes OFFLINE.
    pub fn set_patience(&self, milliseconds: u64) {
        self.patience_ms.store(milliseconds, Relaxed);
    }

    #[must_use]
    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_told_once_and_ends_when_a_write_gets_through() {
        let room = Room::default();
        let second = Duration::from_secs;
        assert!(room.change(second(1)).is_none() && !room.is_short());
        assert_eq!(room.note_none(second(2), None).0, second(0));
        assert_eq!(room.note_none(second(7), None).0, second(5), "since the first");
        assert!(matches!(room.change(second(7)), Some(Change::Full(_))));
        assert_eq!(room.change(second(8)), None, "it was told");
        room.end();
        assert_eq!(room.note_none(second(9), None).0, second(0), "another shortage");
        assert_eq!(room.change(second(9)), None, "for the operator it is the same");
        room.end();
        assert_eq!(room.change(second(10)), Some(Change::Over));
        assert_eq!(room.change(second(11)), None);
    }

    #[test]
    fn a_shortage_that_no_write_meets_any_more_is_forgotten() {
        let room = Room::default();
        room.note_none(Duration::from_secs(1), None);
        assert!(room.change(Duration::from_secs(61)).is_some() && room.is_short());
        assert_eq!(room.change(Duration::from_secs(62)), Some(Change::Over));
        assert!(!room.is_short());
    }
}
