//! Figures of a group for monitoring systems: counters, sizes and states, read once a second at
//! most.
//!
//! They are the facts that the views show, without SQL: a reading takes no thread of the catalog,
//! which the long statement of a user may occupy, and waits for no disk. So it answers while a disk
//! hangs. Only what is in memory is read: locks that no task holds during I/O, and atomics.
//!
//! Files are counted together: their number and their names have no bound.

use crate::{
    admin::Operation,
    catalog::{GroupState, ModeStatus},
    check::Upkeep,
    disk::{
        counters::{IoClass, IoClient},
        member::{Member, TICK_MS},
        read_policy::ReadReason,
        timings::Timings,
    },
    extent::thin::DiskThin,
    files::file_stats::FileClass,
    space::mirror_sets::mirrors_wanted,
    views::live::status_of,
};
use plinth_format::{
    DiskNumber,
    membership::{CatalogFile, DiskState, Membership, RUNS_MAX},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed, time::Duration};

/// A histogram of latencies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// How many took less than 2^index microseconds, and not less than half of it; up to the last
    /// that is not zero.
    pub counts: Vec<u64>,
    /// Their sum, in nanoseconds.
    pub nanos: u64,
}

/// Reads from a disk, and writes to it, of one purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurposeFigures {
    /// As `io_client` in `v$asm_disk_iostat`.
    pub purpose: String,
    pub reads: u64,
    pub writes: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

/// The thin space of a disk, in bytes: `v$asm_disk_thin`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThinFigures {
    pub allocated: u64,
    pub waiting: u64,
    pub in_flight: u64,
    pub returned: u64,
    pub not_returnable: u64,
    /// Discards that failed.
    pub failures: u64,
}

/// One disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskFigures {
    pub name: String,
    pub failure_group: String,
    pub is_quorum: bool,
    /// As `mode_status` and `state` in `v$asm_disk`.
    pub mode: String,
    pub state: String,
    pub votes: bool,
    /// Bytes: of the device, for data, and free.
    pub size: u64,
    pub total: u64,
    pub free: u64,
    /// Seconds until it is dropped, while it is OFFLINE.
    pub repair_seconds: u64,
    /// For how long it has not answered, in milliseconds; 0: it answers.
    pub hung_ms: u64,
    /// Reads of front ends that have not ended.
    pub reads_in_flight: u64,
    pub purposes: Vec<PurposeFigures>,
    pub read_errors: u64,
    pub write_errors: u64,
    pub read_timeouts: u64,
    pub write_timeouts: u64,
    pub blocks_repaired: u64,
    pub metadata_repaired: u64,
    /// As in `v$asm_disk_histogram`: the class, and the latencies.
    pub latencies: Vec<(String, Latencies)>,
    /// As in `v$asm_error`: the kind, and how often.
    pub errors: Vec<(String, u64)>,
    /// As in `v$asm_read_policy`: the reason, and how often.
    pub read_reasons: Vec<(String, u64)>,
    pub thin: ThinFigures,
}

/// The catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogFigures {
    /// Bytes of one mirror of the database, and of its log.
    pub bytes: u64,
    pub log_bytes: u64,
    /// Runs of AUs that the membership lists, and how many it can.
    pub runs: u64,
    pub runs_max: u64,
    /// Bytes that are left, while it cannot grow.
    pub shortage: Option<u64>,
}

/// The scrub that runs, or the last one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubFigures {
    /// When all of the group was last scrubbed, in nanoseconds since 1970; 0: never. `None`: not
    /// read yet.
    pub ended: Option<i64>,
    pub found: u64,
    pub repaired: u64,
}

/// A group at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// As in `v$asm_diskgroup`.
    pub state: String,
    pub redundancy: String,
    /// Bytes, before mirroring.
    pub total: u64,
    pub free: u64,
    pub required_mirror_free: u64,
    /// Bytes of files; may be negative.
    pub usable: i64,
    /// As in `v$asm_space`.
    pub writable: u64,
    pub safe: u64,
    pub disks: Vec<DiskFigures>,
    /// Extents in all, and those that have fewer mirrors on ONLINE disks than they should, by the
    /// number that is left.
    pub extents: u64,
    pub extents_lacking: BTreeMap<u32, u64>,
    pub operations: Vec<Operation>,
    pub scrub: ScrubFigures,
    pub catalog: CatalogFigures,
    /// Requests of front ends by class, as in `v$asm_file_histogram`, of all files together.
    pub requests: Vec<(String, Latencies)>,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// How often front ends waited for extents that were being moved.
    pub move_waits: u64,
}

impl From<&Timings> for Latencies {
    fn from(timings: &Timings) -> Self {
        Self {
            counts: timings.buckets().iter().map(|bucket| bucket.count).collect(),
            nanos: nanos(timings.total()),
        }
    }
}

impl From<DiskThin> for ThinFigures {
    fn from(thin: DiskThin) -> Self {
        let DiskThin { allocated, waiting, in_flight, returned, not_returnable, failures, .. } =
            thin;
        Self { allocated, waiting, in_flight, returned, not_returnable, failures }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn purposes_of(member: &Member) -> Vec<PurposeFigures> {
    let of = |client: IoClient| {
        let counters = member.counters.of(client);
        PurposeFigures {
            purpose: client.to_string(),
            reads: counters.reads.count.load(Relaxed),
            writes: counters.writes.count.load(Relaxed),
            bytes_read: counters.reads.bytes.load(Relaxed),
            bytes_written: counters.writes.bytes.load(Relaxed),
        }
    };
    IoClient::ALL.map(of).into()
}

fn read_reasons_of(member: &Member) -> Vec<(String, u64)> {
    [
        ("PREFERRED", ReadReason::Preferred),
        ("FASTER", ReadReason::Faster),
        ("EQUAL", ReadReason::Equal),
        ("ONLY", ReadReason::Only),
        ("RETRY", ReadReason::Retry),
        ("EXPLORATION", ReadReason::Exploration),
    ]
    .map(|(word, reason)| (word.to_owned(), member.gauge.count(reason)))
    .into()
}

fn catalog_of(membership: &Membership, au_size: u64, shortage: Option<u64>) -> CatalogFigures {
    let bytes = |file: CatalogFile| {
        // Its mirrors are equally long, but for one that is being built.
        let mut mirrors: BTreeMap<u8, u64> = BTreeMap::new();
        for run in membership.catalog.iter().filter(|run| run.file == file) {
            *mirrors.entry(run.mirror).or_default() += u64::from(run.count) * au_size;
        }
        mirrors.into_values().max().unwrap_or(0)
    };
    CatalogFigures {
        bytes: bytes(CatalogFile::Database),
        log_bytes: bytes(CatalogFile::Wal),
        runs: membership.catalog.len() as u64,
        runs_max: RUNS_MAX as u64,
        shortage,
    }
}

impl Upkeep {
    /// The figures now. See the module's description.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let membership = self.voters.current();
        let mut figures = Figures {
            state: if self.is_restricted() { GroupState::Restricted } else { GroupState::Mounted }
                .word()
                .to_owned(),
            redundancy: self.redundancy().to_string(),
            operations: self.list_operations(),
            catalog: catalog_of(&membership, self.au_size, self.catalog.shortage()),
            move_waits: self.move_waits.counts().iter().map(|(_, count)| count).sum(),
            ..Figures::default()
        };
        self.add_space(&mut figures);
        self.add_disks(&membership, &mut figures);
        self.add_extents(&membership, &mut figures);
        let scrubbed = self.scrubbed();
        figures.scrub = ScrubFigures {
            ended: self.last_scrubbed(),
            found: scrubbed.problems.found(),
            repaired: scrubbed.problems.repaired(),
        };
        let requests = self.file_stats.totals();
        (figures.bytes_read, figures.bytes_written) = (requests.bytes_read, requests.bytes_written);
        let of_class = |class: FileClass| {
            let (_, total, buckets) = &requests.classes[class as usize];
            let counts = buckets.iter().map(|bucket| bucket.count).collect();
            (class.to_string(), Latencies { counts, nanos: nanos(*total) })
        };
        figures.requests = FileClass::ALL.map(of_class).into();
        figures
    }

    fn add_space(&self, figures: &mut Figures) {
        let au = self.au_size;
        let placement = self.placement();
        let usable = placement.usable(&self.space());
        figures.total = usable.total * au;
        figures.free = usable.free * au;
        figures.required_mirror_free = usable.required_mirror_free * au;
        figures.usable = usable.usable_file(au);
        let safe = self.safe_space();
        (figures.writable, figures.safe) = (safe.writable, safe.safe);
    }

    fn add_disks(&self, membership: &Membership, figures: &mut Figures) {
        let mut thin: BTreeMap<DiskNumber, DiskThin> =
            self.thin().into_iter().map(|thin| (thin.disk, thin)).collect();
        for member in self.members.values() {
            let mut disk = self.figures_of(member, membership);
            disk.thin = thin.remove(&member.number).map_or_else(ThinFigures::default, Into::into);
            figures.disks.push(disk);
        }
    }

    fn figures_of(&self, member: &Member, membership: &Membership) -> DiskFigures {
        let entry = membership.disk(member.number);
        let counters = &member.counters;
        let (total, free) = self.room_of(member);
        let is_offline = member.state() == DiskState::Offline;
        let latencies = IoClass::ALL
            .map(|class| (class.to_string(), Latencies::from(counters.timings(class))))
            .into();
        let errors = counters.disk_errors.all().into_iter();
        DiskFigures {
            name: member.name().to_string(),
            failure_group: member.failure_group.clone(),
            is_quorum: member.quorum,
            mode: ModeStatus::from(member.state()).word().to_owned(),
            state: status_of(member, entry.is_some_and(|entry| entry.leaving)).word().to_owned(),
            votes: entry.is_some_and(|entry| entry.votes),
            size: member.disk().map_or(0, |disk| disk.size()),
            total,
            free,
            repair_seconds: if is_offline { self.repair_time_left(member) } else { 0 },
            hung_ms: member.hung_for().saturating_mul(TICK_MS),
            reads_in_flight: member.gauge.reads(),
            purposes: purposes_of(member),
            read_errors: counters.read_errors.load(Relaxed),
            write_errors: counters.write_errors.load(Relaxed),
            read_timeouts: counters.read_timeouts.load(Relaxed),
            write_timeouts: counters.write_timeouts.load(Relaxed),
            blocks_repaired: counters.repaired.load(Relaxed),
            metadata_repaired: counters.metadata_repaired.load(Relaxed),
            latencies,
            errors: errors.map(|(kind, seen)| (kind.to_string(), seen.count)).collect(),
            read_reasons: read_reasons_of(member),
            thin: ThinFigures::default(),
        }
    }

    fn add_extents(&self, membership: &Membership, figures: &mut Figures) {
        let is_current = |disk: &DiskNumber| {
            self.members.get(disk).is_some_and(|member| member.state() == DiskState::Online)
        };
        for (disks, own, count) in self.mirror_sets.wishes() {
            figures.extents += count;
            let left = disks.iter().filter(|disk| is_current(disk)).count();
            if left < mirrors_wanted(own, membership) {
                let left = u32::try_from(left).unwrap_or(u32::MAX);
                *figures.extents_lacking.entry(left).or_default() += count;
            }
        }
    }
}
