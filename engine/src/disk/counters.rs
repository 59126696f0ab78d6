//! What is counted of a disk since the mount: `v$asm_disk`, `v$asm_disk_iostat`, `v$asm_disk_histogram`.
//!
//! Who starts an I/O says what it is for ([`DiskIo::of`](crate::disk::disk_io::DiskIo::of)); what nobody says is for files. Counting is a relaxed
//! addition for each number, without a lock: a disk's totals are sums over its clients, and cost nothing beside.

use crate::disk::{disk_errors::DiskErrors, timings::Timings};
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Counts since the group was mounted.
#[derive(Debug, Default)]
pub struct Counters {
    clients: [ClientCounters; IoClient::ALL.len()],
    pub read_errors: AtomicU64,
    pub write_errors: AtomicU64,
    pub read_timeouts: AtomicU64,
    pub write_timeouts: AtomicU64,
    /// Blocks that were rewritten from another mirror.
    pub repaired: AtomicU64,
    /// Records of the engine's own, and checksum blocks, that were not what it had written, and were written again.
    pub metadata_repaired: AtomicU64,
    /// Blocks that did not match their checksum.
    pub mismatches: AtomicU64,
    /// How long I/O took that ended well, by its class.
    timings: [Timings; IoClass::ALL.len()],
    /// What went wrong.
    pub disk_errors: DiskErrors,
}

impl Counters {
    /// What was done for one client.
    #[must_use]
    pub fn of(&self, client: IoClient) -> &ClientCounters {
        &self.clients[client as usize]
    }

    /// Reads that ended well, and their bytes.
    #[must_use]
    pub fn reads(&self) -> (u64, u64) {
        Self::sum(self.clients.iter().map(|client| &client.reads))
    }

    /// Writes that ended well, and their bytes.
    #[must_use]
    pub fn writes(&self) -> (u64, u64) {
        Self::sum(self.clients.iter().map(|client| &client.writes))
    }

    fn sum<'a>(tallies: impl Iterator<Item = &'a Tally>) -> (u64, u64) {
        let load = |number: &AtomicU64| number.load(Relaxed);
        tallies.fold((0, 0), |(count, bytes), tally| {
            (count + load(&tally.count), bytes + load(&tally.bytes))
        })
    }

    /// How long I/O of a class took that ended well.
    #[must_use]
    pub fn timings(&self, class: IoClass) -> &Timings {
        &self.timings[class as usize]
    }
}

/// What an I/O does; names it in errors and counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoClass {
    Read,
    Write,
    Flush,
    Discard,
}

impl IoClass {
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Flush, Self::Discard];
}

impl fmt::Display for IoClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "READ",
            Self::Write => "WRITE",
            Self::Flush => "FLUSH",
            Self::Discard => "DISCARD",
        })
    }
}

/// What an I/O is for, as the view says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IoClient {
    /// What front ends read and write.
    #[default]
    Files,
    /// The catalog's pages and log.
    Catalog,
    /// Headers, stamps, memberships, the activity log; and questions whether the disk answers.
    Records,
    /// The checksum zone.
    Checksums,
    /// Mirrors that are copied: resync, rebalance.
    Copies,
    /// Blocks that are compared and mended, by readers, after a crash, or by CHECK.
    Checks,
    /// Reads that find out how fast a disk is.
    Exploration,
}

impl IoClient {
    pub const ALL: [Self; 7] = [
        Self::Files,
        Self::Catalog,
        Self::Records,
        Self::Checksums,
        Self::Copies,
        Self::Checks,
        Self::Exploration,
    ];
}

impl fmt::Display for IoClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "FILES",
            Self::Catalog => "CATALOG",
            Self::Records => "RECORDS",
            Self::Checksums => "CHECKSUMS",
            Self::Copies => "COPIES",
            Self::Checks => "CHECKS",
            Self::Exploration => "EXPLORATION",
        })
    }
}

/// Reads, or writes, of one client.
#[derive(Debug, Default)]
pub struct Tally {
    /// That ended well.
    pub count: AtomicU64,
    pub bytes: AtomicU64,
    pub errors: AtomicU64,
    pub timeouts: AtomicU64,
    /// Nanoseconds.
    time: AtomicU64,
}

impl Tally {
    /// One ended well.
    pub fn add(&self, bytes: u64, took: Duration) {
        self.count.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.time.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    #[must_use]
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.time.load(Relaxed))
    }
}

/// What one client did.
#[derive(Debug, Default)]
pub struct ClientCounters {
    pub reads: Tally,
    /// Errors and timeouts of flushes and discards are among those of writes.
    pub writes: Tally,
}
