//! Counters, histograms and places at the moment: gathered only for a statement that names their
//! views.

use crate::{
    catalog::{
        Live,
        live::{Row, live_row},
        live_stats::{LiveClient, LiveSpace, NamedViews},
    },
    check::Upkeep,
    disk::{
        counters::{IoClass, IoClient, Tally},
        member::Member,
        read_policy::ReadReason,
        timings::Bucket,
    },
    extent::thin::DiskThin,
    files::file_stats::FileClass,
    space::{
        mirror_sets::{MirrorCount, mirrors_wanted},
        placement::Placement,
        safe_capacity,
    },
    world::Timestamp,
};
use plinth_format::{
    Au, DiskNumber, Redundancy,
    membership::{CatalogFile, DiskState},
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// The duration in whole microseconds.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn signed(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// The clocks with which times of the monotonic clock are converted to wall-clock time.
struct Clocks {
    wall: Timestamp,
    monotonic: Duration,
}

impl Clocks {
    /// When a value was last counted in a bucket, in nanoseconds since 1970.
    fn last(&self, bucket: &Bucket) -> Option<i64> {
        let ago = |last| signed(self.monotonic.saturating_sub(last));
        bucket.last.map(|last| self.wall.saturating_sub(ago(last)))
    }
}

fn row_of_space(space: LiveSpace) -> Row {
    let [unprot, mirror, high] = space.by_mirrors;
    live_row! {
        total: space.total,
        free: space.free,
        catalog: space.catalog,
        files: space.files,
        pending: space.pending,
        writable: space.writable,
        safe: space.safe,
        bound_by: space.bound_by,
        restorable: space.restorable,
        unprot: unprot,
        mirror: mirror,
        high: high,
        remark: space.remark,
    }
}

fn row_of_thin(thin: DiskThin) -> Row {
    live_row! {
        disk: thin.disk.0,
        capable: if thin.limits.is_some() { "Y" } else { "N" },
        means: thin.limits.map_or("NONE", |limits| limits.means.word()),
        granularity: thin.limits.map(|limits| limits.granularity),
        alignment: thin.limits.map(|limits| limits.alignment),
        maximum: thin.limits.map(|limits| limits.request_max()),
        allocated: thin.allocated,
        waiting: thin.waiting,
        in_flight: thin.in_flight,
        returned: thin.returned,
        not_returnable: thin.not_returnable,
        reason: thin.reason,
        age: thin.age.as_secs(),
        failures: thin.failures,
    }
}

fn row_of_client(client: LiveClient) -> Row {
    live_row! {
        instance: client.instance,
        database: client.database,
        software: client.software,
        kind: client.kind,
        pid: client.pid,
        mount_point: client.mount_point,
        open_files: client.open_files,
    }
}

impl Upkeep {
    /// Adds the rows of the views that a statement names.
    pub(crate) fn add_stats(&self, live: &mut Live, sql: &str) {
        let wanted = NamedViews::in_statement(sql);
        let clocks = Clocks { wall: self.world.now(), monotonic: self.world.monotonic() };
        if wanted.disk_times {
            live.add("live_disk_time", self.disk_times(&clocks));
        }
        if wanted.file_times || wanted.file_counts {
            self.add_files(live, &clocks, wanted.file_times);
        }
        if wanted.disk_clients {
            live.add("live_disk_client", self.disk_clients());
        }
        if wanted.read_policy {
            live.add("live_read_policy", self.read_policy());
        }
        if wanted.thin {
            live.add("live_thin", self.thin().into_iter().map(row_of_thin));
        }
        if wanted.disk_errors {
            live.add("live_trouble", self.disk_errors());
        }
        if wanted.units {
            self.add_units(live);
        }
        if wanted.partners {
            live.add("live_partner", self.partners());
        }
        if wanted.space {
            live.add("live_space", [row_of_space(self.safe_space())]);
        }
        if wanted.failure_groups {
            live.add("live_failgroup", self.failure_groups());
        }
        if wanted.protection {
            live.add("live_protection", [self.protection()]);
        }
        if wanted.clients {
            live.add("live_client", self.clients.all().into_iter().map(row_of_client));
        }
    }

    fn disk_times(&self, clocks: &Clocks) -> Vec<Row> {
        let of_class = |number: DiskNumber, class: IoClass, buckets: Vec<Bucket>| {
            buckets.into_iter().map(move |bucket| {
                live_row! {
                    disk: number.0,
                    class: class.to_string(),
                    below: bucket.below,
                    count: bucket.count,
                    last: clocks.last(&bucket),
                }
            })
        };
        let of_member = |member: &Arc<Member>| {
            let times = IoClass::ALL.map(|class| {
                of_class(member.number, class, member.counters.timings(class).buckets())
                    .collect::<Vec<_>>()
            });
            times.into_iter().flatten()
        };
        self.members.values().flat_map(of_member).collect()
    }

    fn disk_clients(&self) -> Vec<Row> {
        let numbers = |tally: &Tally| {
            let load = |number: &AtomicU64| number.load(Relaxed);
            let Tally { count, bytes, errors, timeouts, .. } = tally;
            (load(count), load(errors), load(timeouts), micros(tally.time()), load(bytes))
        };
        let of_member = |member: &Arc<Member>| {
            let row = |client: IoClient| {
                let counters = member.counters.of(client);
                let (reads, writes) = (numbers(&counters.reads), numbers(&counters.writes));
                live_row! {
                    disk: member.number.0,
                    client: client.to_string(),
                    reads: reads.0,
                    read_errors: reads.1,
                    read_timeouts: reads.2,
                    read_time: reads.3,
                    bytes_read: reads.4,
                    writes: writes.0,
                    write_errors: writes.1,
                    write_timeouts: writes.2,
                    write_time: writes.3,
                    bytes_written: writes.4,
                }
            };
            IoClient::ALL.map(row)
        };
        self.members.values().flat_map(of_member).collect()
    }

    fn read_policy(&self) -> Vec<Row> {
        let of_member = |member: &Arc<Member>| {
            let count = |reason| member.gauge.count(reason);
            let [micro_16k, micro_64k, micro_256k, micro_1m] =
                member.gauge.estimates().map(|time| time.map(micros));
            live_row! {
                disk: member.number.0,
                preferred: count(ReadReason::Preferred),
                faster: count(ReadReason::Faster),
                equal: count(ReadReason::Equal),
                only: count(ReadReason::Only),
                retry: count(ReadReason::Retry),
                exploration: count(ReadReason::Exploration),
                micro_16k: micro_16k,
                micro_64k: micro_64k,
                micro_256k: micro_256k,
                micro_1m: micro_1m,
            }
        };
        self.members.values().map(of_member).collect()
    }

    fn add_files(&self, live: &mut Live, clocks: &Clocks, with_times: bool) {
        let (mut files, mut times) = (Vec::new(), Vec::new());
        for counts in self.file_stats.all() {
            let number = |class: FileClass| counts.classes[class as usize].0;
            let time = |class: FileClass| micros(counts.classes[class as usize].1);
            files.push(live_row! {
                number: counts.node,
                small_reads: number(FileClass::SmallRead),
                large_reads: number(FileClass::LargeRead),
                small_writes: number(FileClass::SmallWrite),
                large_writes: number(FileClass::LargeWrite),
                syncs: number(FileClass::Sync),
                bytes_read: counts.bytes_read,
                bytes_written: counts.bytes_written,
                read_time: time(FileClass::SmallRead) + time(FileClass::LargeRead),
                write_time: time(FileClass::SmallWrite) + time(FileClass::LargeWrite),
                sync_time: time(FileClass::Sync),
            });
            for class in FileClass::ALL.into_iter().filter(|_| with_times) {
                let buckets = counts.classes[class as usize].2.iter();
                times.extend(buckets.map(|bucket| {
                    live_row! {
                        file: counts.node,
                        class: class.to_string(),
                        below: bucket.below,
                        count: bucket.count,
                        last: clocks.last(bucket),
                    }
                }));
            }
        }
        live.add("live_file", files);
        live.add("live_file_time", times);
    }

    fn disk_errors(&self) -> Vec<Row> {
        let of_member = |member: &Arc<Member>| {
            let disk = member.number.0;
            member.counters.disk_errors.all().into_iter().map(move |(kind, seen)| {
                live_row! {
                    disk: disk,
                    kind: kind.to_string(),
                    count: seen.count,
                    first: seen.first,
                    last: seen.last,
                    offset: seen.place.map(|(offset, _)| offset),
                    length: seen.place.map(|(_, length)| length),
                    text: seen.text,
                }
            })
        };
        self.members.values().flat_map(of_member).collect()
    }

    /// Adds the structures at fixed places, and the catalog.
    fn add_units(&self, live: &mut Live) {
        let membership = self.voters.current();
        for member in self.members.values().filter(|member| !member.quorum) {
            let (layout, disk) = (member.layout(), u32::from(member.number.0));
            live.add("live_unit_count", [live_row! { disk: disk, count: layout.au_count() }]);
            let holds_header = |au: Au| {
                let holds = |place: &u64| place / layout.au_size() == u64::from(au.0);
                // The copy after the first AU is in the checksum zone.
                layout.header_places().iter().take(3).position(holds)
            };
            let first_data = layout.data_units().next().unwrap_or(Au(layout.au_count()));
            let fixed = Au(0).run(layout.au_count()).take_while(|au| *au < first_data);
            let headers = layout
                .header_places()
                .map(|place| Au(u32::try_from(place / layout.au_size()).unwrap_or(u32::MAX)));
            let mut units: BTreeMap<Au, (&'static str, u32)> = BTreeMap::new();
            for au in fixed.chain(headers).filter(|au| au.0 < layout.au_count()) {
                let unit = match (au, holds_header(au)) {
                    (Au(0), _) => ("SYSTEM", 0),
                    (_, Some(copy)) => ("HEADER", u32::try_from(copy).unwrap_or(0)),
                    (au, None) => ("CHECKSUMS", au.0 - 1),
                };
                units.insert(au, unit);
            }
            for run in membership.catalog.iter().filter(|run| run.disk == member.number) {
                let what = match run.file {
                    CatalogFile::Database => "CATALOG",
                    CatalogFile::Wal => "LOG",
                };
                units.extend(run.aus().zip(run.at..).map(|(au, at)| (au, (what, at))));
            }
            let row = |(au, (what, number)): (Au, (&'static str, u32))| {
                live_row! { disk: disk, au: au.0, what: what, number: number }
            };
            live.add("live_unit", units.into_iter().map(row));
        }
    }

    fn partners(&self) -> Vec<Row> {
        let placement = self.placement();
        let serves =
            |disk: DiskNumber| self.members.get(&disk).is_some_and(|member| member.is_writable());
        let of = |disk: DiskNumber| {
            let partner = move |partner: DiskNumber| {
                live_row! {
                    disk: disk.0,
                    partner: partner.0,
                    active: serves(disk) && serves(partner),
                }
            };
            placement.partners(disk).map(partner).collect::<Vec<_>>()
        };
        self.members
            .values()
            .filter(|member| !member.quorum)
            .flat_map(|member| of(member.number))
            .collect()
    }

    /// How much can still be written, in total and so that the loss of any failure group can be
    /// repaired.
    pub(crate) fn safe_space(&self) -> LiveSpace {
        let membership = self.voters.current();
        let mut catalog: BTreeMap<DiskNumber, u64> = BTreeMap::new();
        membership
            .catalog
            .iter()
            .for_each(|run| *catalog.entry(run.disk).or_default() += u64::from(run.count));
        // An extent of a file with more mirrors than the others counts as its number of mirrors.
        let wanted = |(_, own, count): (Vec<DiskNumber>, MirrorCount, u64)| {
            mirrors_wanted(own, &membership) as u64 * count
        };
        let mirrors: u64 = self.mirror_sets.wishes().into_iter().map(wanted).sum();
        let extents = mirrors.div_ceil(membership.wanted.mirrors() as u64);
        let space = self.space();
        let writable_with = |wanted: Redundancy| {
            Placement::of(&membership, wanted.mirrors(), &space).allocatable(&space) * self.au_size
        };
        let by_mirrors =
            [Redundancy::External, Redundancy::Normal, Redundancy::High].map(writable_with);
        let placement = Placement::of(&membership, membership.wanted.mirrors(), &space);
        let writable = placement.allocatable(&space);
        let mut groups: BTreeMap<&str, safe_capacity::Room> = BTreeMap::new();
        let mut sums = LiveSpace::default();
        for disk in membership.disks.iter().filter(|disk| !disk.quorum) {
            let of_catalog = catalog.get(&disk.number).copied().unwrap_or(0);
            sums.total += u64::from(space.capacity(disk.number)) * self.au_size;
            let available = u64::from(space.available(disk.number));
            let kept = u64::from(space.unowned(disk.number)) - available;
            sums.free += available * self.au_size;
            sums.catalog += (of_catalog + kept) * self.au_size;
            sums.pending +=
                u64::from(space.used(disk.number) - space.held(disk.number)) * self.au_size;
            sums.files +=
                u64::from(space.held(disk.number)).saturating_sub(of_catalog) * self.au_size;
            if disk.state == DiskState::Offline || disk.leaving {
                continue;
            }
            let room = groups.entry(&disk.failure_group).or_default();
            room.units += u64::from(space.total(disk.number)).saturating_sub(of_catalog);
            room.catalog += of_catalog;
        }
        drop(space);
        let names: Vec<&str> = groups.keys().copied().collect();
        let rooms: Vec<safe_capacity::Room> = groups.into_values().collect();
        let mirrors = membership.wanted.mirrors();
        let restorable = mirrors > 1 && rooms.len() > mirrors;
        let (safe, bound_by) = if restorable {
            safe_capacity::safe_extents(mirrors as u64, extents, writable, self.au_size, &rooms)
        } else {
            (writable, None)
        };
        let remark = match (mirrors, restorable) {
            (1, _) => Some("nothing is mirrored: what is on a disk is lost with it".to_owned()),
            (_, false) => Some(format!(
                "{} failure groups serve: with one less, {mirrors} mirrors have no place; add a failure group",
                rooms.len()
            )),
            _ => None,
        };
        LiveSpace {
            writable: writable * self.au_size,
            safe: safe * self.au_size,
            bound_by: bound_by.map(|index| names[index].to_owned()),
            restorable,
            by_mirrors,
            remark,
            ..sums
        }
    }
}
