//! Counters of a disk since the mount: `v$asm_disk`, `v$asm_disk_iostat`, `v$asm_disk_histogram`.
//!
//! The code that starts an I/O names its client ([`DiskIo::of`](crate::disk::disk_io::DiskIo::of));
//! the default is files. Counting is one relaxed addition for each number, without a lock; the
//! totals of a disk are the sums over its clients and cost nothing extra.

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
    /// Records of the engine's own, and checksum blocks, that were not as the engine had written
    /// them, and were rewritten.
    pub metadata_repaired: AtomicU64,
    /// Blocks that did not match their checksum.
    pub mismatches: AtomicU64,
    /// Latencies of successful I/O, by its class.
    timings: [Timings; IoClass::ALL.len()],
    /// Errors by kind.
    pub disk_errors: DiskErrors,
}

impl Counters {
    /// The counters of one client.
    #[must_use]
    pub fn of(&self, client: IoClient) -> &ClientCounters {
        &self.clients[client as usize]
    }

    /// Successful reads, and their bytes.
    #[must_use]
    pub fn reads(&self) -> (u64, u64) {
        Self::sum(self.clients.iter().map(|client| &client.reads))
    }

    /// Successful writes, and their bytes.
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

    /// Latencies of successful I/O of a class.
    #[must_use]
    pub fn timings(&self, class: IoClass) -> &Timings {
        &self.timings[class as usize]
    }
}

/// The kind of an I/O, for errors and counters.
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

/// The purpose of an I/O, as the view names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IoClient {
    /// Reads and writes of front ends.
    #[default]
    Files,
    /// The catalog's pages and log.
    Catalog,
    /// Headers, stamps, memberships, the activity log; and probes whether the disk answers.
    Records,
    /// The checksum zone.
    Checksums,
    /// Mirrors that are copied: resync, rebalance.
    Copies,
    /// Blocks that are compared and repaired, by readers, after a crash, or by CHECK.
    Checks,
    /// Reads that measure how fast a disk is.
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
    /// Successful ones.
    pub count: AtomicU64,
    pub bytes: AtomicU64,
    pub errors: AtomicU64,
    pub timeouts: AtomicU64,
    /// Sum of the latencies, in nanoseconds.
    time: AtomicU64,
}

impl Tally {
    /// Adds a successful one.
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

/// Counters of one client.
#[derive(Debug, Default)]
pub struct ClientCounters {
    pub reads: Tally,
    /// Errors and timeouts of flushes and discards are among those of writes.
    pub writes: Tally,
}
