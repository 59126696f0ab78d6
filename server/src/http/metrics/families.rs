//! The metrics: each family named, explained and typed once. `docs/metrics.md` has the same list,
//! and a test compares the two.
//!
//! Rules:
//!
//!   1. Names and units are Prometheus's: bytes, seconds, `_total` for what only grows.
//!   2. Labels are of few values: group, disk, failure group, and words of the views in lower case
//!      (`SMALL READ` is `small_read`). Never a file's name, number, or path.
//!   3. Every family is there from the first text on, with or without samples.
//!   4. Counters are those of the engine: they begin anew when it does.

use super::{
    sheet::{self, Labels, Sheet},
    snapshot::{GroupSnapshot, Snapshot, imbalance, pass},
};
use crate::engine::protocol::EngineFigures;
use plinth_engine::{
    admin::OperationPass,
    views::figures::{DiskFigures, Figures, Latencies},
};
use prometheus_client::registry::Unit;
use std::{borrow::Cow, fmt};

const BYTES: Option<&Unit> = Some(&Unit::Bytes);
const SECONDS: Option<&Unit> = Some(&Unit::Seconds);
const SEVERITIES: [&str; 3] = ["note", "warning", "alarm"];
const MODES: [&str; 3] = ["ONLINE", "SYNCING", "OFFLINE"];
const PASSES: [OperationPass; 8] = [
    OperationPass::Recovery,
    OperationPass::Resync,
    OperationPass::Rebalance,
    OperationPass::Rebuild,
    OperationPass::Compact,
    OperationPass::Scrubbing,
    OperationPass::Reclaim,
    OperationPass::Checking,
];

type Result = std::result::Result<(), fmt::Error>;
/// A figure of something.
type Of<T, F = f64> = fn(&T) -> F;

/// A word of a view as a label's value.
fn word(word: &str) -> Cow<'static, str> {
    Cow::Owned(word.to_ascii_lowercase().replace(' ', "_"))
}

/// The text of a snapshot, in OpenMetrics.
#[must_use]
pub fn write(snapshot: Snapshot) -> String {
    let written = sheet::write(move |sheet| {
        instance(sheet, &snapshot)?;
        engines(sheet, &snapshot)?;
        let groups = Groups::of(&snapshot);
        space(sheet, &groups)?;
        redundancy(sheet, &groups)?;
        catalog_and_scrub(sheet, &groups)?;
        operations(sheet, &groups)?;
        requests(sheet, &groups)?;
        let disks = groups.disks();
        states_of_disks(sheet, &disks)?;
        counters_of_disks(sheet, &disks)?;
        errors_of_disks(sheet, &disks)?;
        thin(sheet, &disks)
    });
    // Writing into memory does not fail.
    written.unwrap_or_default()
}

/// The groups that have figures, and these.
struct Groups<'a>(Vec<(&'a str, &'a GroupSnapshot, &'a EngineFigures)>);

impl<'a> Groups<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let groups = snapshot.groups.iter();
        Self(
            groups
                .filter_map(|(name, group)| Some((name.as_str(), group, &**group.engine.as_ref()?)))
                .collect(),
        )
    }

    /// A number for each group.
    fn each(&self, value: impl Fn(&Figures) -> f64) -> impl Iterator<Item = (Labels<'a>, f64)> {
        self.0.iter().map(move |(name, _, engine)| (of_group(name), value(&engine.group)))
    }

    /// A counter for each group.
    fn count(&self, value: impl Fn(&Figures) -> u64) -> impl Iterator<Item = (Labels<'a>, u64)> {
        self.0.iter().map(move |(name, _, engine)| (of_group(name), value(&engine.group)))
    }

    fn disks(&self) -> Disks<'a> {
        let of_group = |(name, group, _): &(&'a str, &'a GroupSnapshot, _)| {
            let name = *name;
            group.disks().map(move |disk| (name, disk)).collect::<Vec<_>>()
        };
        Disks(self.0.iter().flat_map(of_group).collect())
    }
}

/// Disks, each with its group.
struct Disks<'a>(Vec<(&'a str, &'a DiskFigures)>);

impl<'a> Disks<'a> {
    fn each(&self, value: impl Fn(&DiskFigures) -> f64) -> impl Iterator<Item = (Labels<'a>, f64)> {
        self.0.iter().map(move |(group, disk)| (of_disk(group, disk), value(disk)))
    }

    fn count(
        &self,
        value: impl Fn(&DiskFigures) -> u64,
    ) -> impl Iterator<Item = (Labels<'a>, u64)> {
        self.0.iter().map(move |(group, disk)| (of_disk(group, disk), value(disk)))
    }

    /// Counters of each disk by one more label.
    fn by(
        &self,
        label: &'static str,
        values: impl Fn(&DiskFigures) -> Vec<(Cow<'static, str>, u64)>,
    ) -> impl Iterator<Item = (Labels<'a>, u64)> {
        self.0.iter().flat_map(move |(group, disk)| {
            let of_disk = move |(value, count)| (of_disk(group, disk).and(label, value), count);
            values(disk).into_iter().map(of_disk).collect::<Vec<_>>()
        })
    }
}

fn of_group(name: &str) -> Labels<'_> {
    vec![("group", name.into())]
}

fn of_disk<'a>(group: &'a str, disk: &'a DiskFigures) -> Labels<'a> {
    let (name, failure_group) = (disk.name.as_str(), disk.failure_group.as_str());
    vec![("group", group.into()), ("disk", name.into()), ("failgroup", failure_group.into())]
}

/// One more label.
trait And<'a> {
    fn and(self, name: &'static str, value: impl Into<Cow<'a, str>>) -> Self;
}

impl<'a> And<'a> for Labels<'a> {
    fn and(mut self, name: &'static str, value: impl Into<Cow<'a, str>>) -> Self {
        self.push((name, value.into()));
        self
    }
}

fn instance(sheet: &mut Sheet<'_>, snapshot: &Snapshot) -> Result {
    let version = env!("CARGO_PKG_VERSION");
    let build = vec![("version", version.into()), ("host", snapshot.host.as_str().into())];
    sheet.info("plinth_build", "The version of the instance, and its host.", [build])?;
    let one = |value: f64| [(Vec::new(), value)];
    sheet.gauge(
        "plinth_instance_start_time",
        SECONDS,
        "When the instance started, since 1970.",
        one(snapshot.began as f64 / 1e9),
    )?;
    let events = SEVERITIES.iter().zip(snapshot.events);
    sheet.counter(
        "plinth_instance_events",
        None,
        "Lines of the instance itself in the alert log, by severity.",
        events.map(|(severity, count)| (vec![("severity", (*severity).into())], count)),
    )?;
    sheet.gauge("plinth_sql_sessions", None, "SQL sessions.", one(snapshot.sessions as f64))?;
    let connections = snapshot.connections;
    sheet.gauge(
        "plinth_http_connections",
        None,
        "Connections of HTTP clients.",
        one(connections.open as f64),
    )?;
    sheet.counter(
        "plinth_http_connections_cut",
        None,
        "Connections of HTTP clients that were ended for a limit.",
        [(Vec::new(), connections.cut)],
    )?;
    sheet.counter(
        "plinth_http_requests",
        None,
        "Requests of HTTP clients.",
        [(Vec::new(), connections.requests)],
    )
}

fn engines(sheet: &mut Sheet<'_>, snapshot: &Snapshot) -> Result {
    let groups = || snapshot.groups.iter();
    sheet.gauge(
        "plinth_engine_up",
        None,
        "1: the engine answers and has mounted its group. 0: it does not, and all other figures of the group are the last ones.",
        groups().map(|(name, group)| (of_group(name), f64::from(u8::from(group.is_up)))),
    )?;
    sheet.gauge(
        "plinth_engine_figures_age",
        SECONDS,
        "How old the figures of the group are.",
        groups().filter_map(|(name, group)| Some((of_group(name), group.age?.as_secs_f64()))),
    )?;
    sheet.counter(
        "plinth_engine_restarts",
        None,
        "Engines of the group that ended unasked since the instance started.",
        groups().map(|(name, group)| (of_group(name), group.restarts)),
    )?;
    sheet.gauge(
        "plinth_diskgroup_state",
        None,
        "1 for the state that the group is in: mounted, restricted, broken.",
        groups().map(|(name, group)| (of_group(name).and("state", word(group.state())), 1.0)),
    )?;
    let engines =
        || groups().filter_map(|(name, group)| Some((name.as_str(), &**group.engine.as_ref()?)));
    sheet.counter(
        "plinth_engine_events",
        None,
        "Lines of the engine in the alert log, by severity.",
        engines().flat_map(|(name, engine)| {
            let of_severity = move |(severity, count): (&&'static str, u64)| {
                (of_group(name).and("severity", *severity), count)
            };
            SEVERITIES.iter().zip(engine.events).map(of_severity)
        }),
    )?;
    sheet.gauge(
        "plinth_clients",
        None,
        "Mounts (fuse) and connections (nbd) that the engine serves.",
        engines().flat_map(|(name, engine)| {
            [("fuse", engine.mounts), ("nbd", engine.nbd_clients)]
                .map(|(frontend, count)| (of_group(name).and("frontend", frontend), count as f64))
        }),
    )?;
    sheet.gauge(
        "plinth_nbd_exports",
        None,
        "Files that are exported to NBD clients.",
        engines().map(|(name, engine)| (of_group(name), engine.nbd_exports as f64)),
    )
}

fn space(sheet: &mut Sheet<'_>, groups: &Groups<'_>) -> Result {
    let of_bytes: [(&str, &str, Of<Figures>); 6] = [
        ("size", "Space of the disks for data, before mirroring.", |group| group.total as f64),
        ("free", "Free space, before mirroring.", |group| group.free as f64),
        (
            "required_mirror_free",
            "Space that must be free to restore redundancy after the worst failure, before mirroring.",
            |group| group.required_mirror_free as f64,
        ),
        (
            "usable_file",
            "Space for files, after mirroring and that reserve; may be negative.",
            |group| group.usable as f64,
        ),
        ("writable", "All that files can still be given, after mirroring.", |group| {
            group.writable as f64
        }),
        (
            "safe",
            "Bytes that files can be given so that redundancy can still be restored.",
            |group| group.safe as f64,
        ),
    ];
    for (name, help, value) in of_bytes {
        let name = format!("plinth_diskgroup_{name}");
        sheet.gauge(&name, BYTES, help, groups.each(value))?;
    }
    sheet.gauge(
        "plinth_diskgroup_imbalance_ratio",
        None,
        "How far apart the fullest and the emptiest disk are, as a part of 1.",
        groups.each(imbalance),
    )
}

fn redundancy(sheet: &mut Sheet<'_>, groups: &Groups<'_>) -> Result {
    sheet.info(
        "plinth_diskgroup",
        "The redundancy of the group: extern, normal, high.",
        groups.0.iter().map(|(name, _, engine)| {
            of_group(name).and("redundancy", word(&engine.group.redundancy))
        }),
    )?;
    let in_mode = |group: &GroupSnapshot, mode: &str| {
        group.disks().filter(|disk| disk.mode == mode).count() as f64
    };
    sheet.gauge(
        "plinth_diskgroup_disks",
        None,
        "Disks of the group, by mode.",
        groups.0.iter().flat_map(|(name, group, _)| {
            MODES.map(|mode| (of_group(name).and("mode", word(mode)), in_mode(group, mode)))
        }),
    )?;
    let votes = |disk: &&DiskFigures| disk.votes;
    sheet.gauge(
        "plinth_diskgroup_voters",
        None,
        "Disks that vote on the membership of the group.",
        groups.each(|group| group.disks.iter().filter(votes).count() as f64),
    )?;
    sheet.gauge(
        "plinth_diskgroup_extents",
        None,
        "Extents of the files.",
        groups.each(|group| group.extents as f64),
    )?;
    let lacking =
        |group: &Figures, left: u32| group.extents_lacking.get(&left).copied().unwrap_or(0) as f64;
    sheet.gauge(
        "plinth_diskgroup_extents_lacking_mirrors",
        None,
        "Extents with fewer mirrors on online disks than they should have, by the mirrors that are left.",
        groups.0.iter().flat_map(|(name, _, engine)| {
            [(0, "0"), (1, "1"), (2, "2")].map(|(left, word)| {
                (of_group(name).and("mirrors_left", word), lacking(&engine.group, left))
            })
        }),
    )
}

fn catalog_and_scrub(sheet: &mut Sheet<'_>, groups: &Groups<'_>) -> Result {
    let of_catalog: [(&str, Option<&Unit>, &str, Of<Figures>); 5] = [
        ("catalog", BYTES, "One mirror of the catalog.", |group| group.catalog.bytes as f64),
        ("catalog_log", BYTES, "One mirror of the catalog's log.", |group| {
            group.catalog.log_bytes as f64
        }),
        ("catalog_runs", None, "Pieces that the catalog's mirrors consist of.", |group| {
            group.catalog.runs as f64
        }),
        ("catalog_runs_limit", None, "The most pieces that they can consist of.", |group| {
            group.catalog.runs_max as f64
        }),
        ("catalog_cannot_grow", None, "1: no disk has room for more of the catalog.", |group| {
            f64::from(u8::from(group.catalog.shortage.is_some()))
        }),
    ];
    for (name, unit, help, value) in of_catalog {
        sheet.gauge(&format!("plinth_diskgroup_{name}"), unit, help, groups.each(value))?;
    }
    sheet.gauge(
        "plinth_scrub_last_end_timestamp",
        SECONDS,
        "When all of the group was last scrubbed, since 1970; 0: never.",
        groups.0.iter().filter_map(|(name, _, engine)| {
            Some((of_group(name), engine.group.scrub.ended? as f64 / 1e9))
        }),
    )?;
    sheet.gauge(
        "plinth_scrub_findings",
        None,
        "Wrong blocks that the scrub that runs, or the last one since the mount, has found.",
        groups.each(|group| group.scrub.found as f64),
    )?;
    sheet.gauge(
        "plinth_scrub_findings_repaired",
        None,
        "How many of these it has repaired.",
        groups.each(|group| group.scrub.repaired as f64),
    )
}

fn operations(sheet: &mut Sheet<'_>, groups: &Groups<'_>) -> Result {
    let all: Vec<_> = groups
        .0
        .iter()
        .flat_map(|(name, _, engine)| {
            PASSES.map(|of| {
                let labels = of_group(name).and("operation", word(of.word()));
                (labels, pass(&engine.group.operations, of))
            })
        })
        .collect();
    let flag = |value: bool| f64::from(u8::from(value));
    let each = |value: fn(&super::snapshot::PassFigures) -> f64| {
        all.iter().map(move |(labels, pass)| (labels.clone(), value(pass)))
    };
    sheet.gauge(
        "plinth_operation_running",
        None,
        "1: the operation runs, or waits to go on.",
        all.iter().map(|(labels, pass)| (labels.clone(), flag(pass.is_running))),
    )?;
    sheet.gauge(
        "plinth_operation_failed",
        None,
        "1: the last operation of this kind ended with an error.",
        all.iter().map(|(labels, pass)| (labels.clone(), flag(pass.has_failed))),
    )?;
    sheet.gauge(
        "plinth_operation_work_units",
        None,
        "How much there is to do for the operation: extents, mirrors or AUs.",
        each(|pass| pass.work as f64),
    )?;
    sheet.gauge(
        "plinth_operation_done_units",
        None,
        "How much of that is done.",
        each(|pass| pass.done as f64),
    )?;
    sheet.gauge(
        "plinth_operation_copied",
        BYTES,
        "Bytes that the operation has copied, read or given back.",
        each(|pass| pass.bytes as f64),
    )?;
    sheet.gauge(
        "plinth_operation_remaining",
        SECONDS,
        "How long the rest of a running operation takes, at its rate of the last half minute.",
        all.iter().filter_map(|(labels, pass)| Some((labels.clone(), pass.seconds_left? as f64))),
    )
}

fn requests(sheet: &mut Sheet<'_>, groups: &Groups<'_>) -> Result {
    sheet.histogram(
        "plinth_request_duration",
        "How long requests of front ends took, by class.",
        groups.0.iter().flat_map(|(name, _, engine)| {
            let of_class = move |(class, latencies): &'_ (String, Latencies)| {
                (of_group(name).and("class", word(class)), latencies.clone())
            };
            engine.group.requests.iter().map(of_class)
        }),
    )?;
    let discards = groups.0.iter().map(|(name, _, engine)| {
        let of_disks = engine.group.disks.iter().flat_map(|disk| &disk.latencies);
        let of_disks = of_disks.filter(|(class, _)| class == "DISCARD");
        (of_group(name), of_disks.map(|(_, latencies)| latencies).fold(Latencies::default(), sum))
    });
    sheet.histogram(
        "plinth_discard_duration",
        "How long discards took on the devices, of all disks of the group.",
        discards,
    )?;
    sheet.counter(
        "plinth_request_read",
        BYTES,
        "Bytes that front ends have read.",
        groups.count(|group| group.bytes_read),
    )?;
    sheet.counter(
        "plinth_request_written",
        BYTES,
        "Bytes that front ends have written.",
        groups.count(|group| group.bytes_written),
    )?;
    sheet.counter(
        "plinth_move_waits",
        None,
        "How often front ends waited for extents that were being moved.",
        groups.count(|group| group.move_waits),
    )
}

fn sum(mut all: Latencies, one: &Latencies) -> Latencies {
    all.counts.resize(all.counts.len().max(one.counts.len()), 0);
    all.counts.iter_mut().zip(&one.counts).for_each(|(all, one)| *all = all.saturating_add(*one));
    all.nanos = all.nanos.saturating_add(one.nanos);
    all
}

fn states_of_disks(sheet: &mut Sheet<'_>, disks: &Disks<'_>) -> Result {
    let facts = |word: fn(&DiskFigures) -> &str, label: &'static str| {
        disks.0.iter().map(move |(group, disk)| {
            (of_disk(group, disk).and(label, self::word(word(disk))), 1.0)
        })
    };
    sheet.info(
        "plinth_disk",
        "The type of the disk: regular, quorum.",
        facts(|disk| if disk.is_quorum { "QUORUM" } else { "REGULAR" }, "type")
            .map(|(labels, _)| labels),
    )?;
    sheet.gauge(
        "plinth_disk_mode",
        None,
        "1 for the mode that the disk is in: online, syncing, offline.",
        facts(|disk| &disk.mode, "mode"),
    )?;
    sheet.gauge(
        "plinth_disk_state",
        None,
        "1 for the state that the disk is in: normal, hung, full, delayed, dropping, forcing.",
        facts(|disk| &disk.state, "state"),
    )?;
    let numbers: [(&str, Option<&Unit>, &str, Of<DiskFigures>); 7] = [
        ("device", BYTES, "The size of the device; 0 while it is missing.", |disk| {
            disk.size as f64
        }),
        ("size", BYTES, "The part that is used for data.", |disk| disk.total as f64),
        ("free", BYTES, "The bytes of that that files can still be given.", |disk| {
            disk.free as f64
        }),
        ("voter", None, "1: the disk votes on the membership of its group.", |disk| {
            f64::from(u8::from(disk.votes))
        }),
        ("repair_timer", SECONDS, "Until the disk is dropped, while it is offline.", |disk| {
            disk.repair_seconds as f64
        }),
        ("hung", SECONDS, "For how long the disk has not answered; 0: it answers.", |disk| {
            disk.hung_ms as f64 / 1e3
        }),
        ("reads_in_flight", None, "Reads of front ends that have not ended.", |disk| {
            disk.reads_in_flight as f64
        }),
    ];
    for (name, unit, help, value) in numbers {
        sheet.gauge(&format!("plinth_disk_{name}"), unit, help, disks.each(value))?;
    }
    Ok(())
}

fn counters_of_disks(sheet: &mut Sheet<'_>, disks: &Disks<'_>) -> Result {
    type OfPurpose = fn(&plinth_engine::views::figures::PurposeFigures) -> u64;
    let counters: [(&str, Option<&Unit>, &str, OfPurpose); 4] = [
        ("reads", None, "Reads that succeeded, by purpose.", |of| of.reads),
        ("writes", None, "Writes that succeeded, by purpose.", |of| of.writes),
        ("read", BYTES, "Bytes of these reads.", |of| of.bytes_read),
        ("written", BYTES, "Bytes of these writes.", |of| of.bytes_written),
    ];
    for (name, unit, help, value) in counters {
        let by_purpose = disks.by("purpose", move |disk| {
            disk.purposes.iter().map(|of| (word(&of.purpose), value(of))).collect()
        });
        sheet.counter(&format!("plinth_disk_{name}"), unit, help, by_purpose)?;
    }
    sheet.histogram(
        "plinth_disk_io_duration",
        "How long I/O took on the device, by operation: read, write, flush.",
        disks.0.iter().flat_map(|(group, disk)| {
            let shown = disk.latencies.iter().filter(|(class, _)| class != "DISCARD");
            shown.map(|(class, latencies)| {
                (of_disk(group, disk).and("operation", word(class)), latencies.clone())
            })
        }),
    )?;
    sheet.counter(
        "plinth_disk_read_choices",
        None,
        "Reads of front ends by the reason for the choice of the disk.",
        disks.by("reason", |disk| {
            disk.read_reasons.iter().map(|(reason, count)| (word(reason), *count)).collect()
        }),
    )
}

fn errors_of_disks(sheet: &mut Sheet<'_>, disks: &Disks<'_>) -> Result {
    let two = |read, write| vec![("read".into(), read), ("write".into(), write)];
    sheet.counter(
        "plinth_disk_errors",
        None,
        "I/O that failed, by operation; flushes and discards count as writes.",
        disks.by("operation", move |disk| two(disk.read_errors, disk.write_errors)),
    )?;
    sheet.counter(
        "plinth_disk_timeouts",
        None,
        "I/O without an answer in time, by operation.",
        disks.by("operation", move |disk| two(disk.read_timeouts, disk.write_timeouts)),
    )?;
    sheet.counter(
        "plinth_disk_events",
        None,
        "Troubles of the disk, by the kinds of v$asm_error that were seen.",
        disks.by("kind", |disk| {
            disk.errors.iter().map(|(kind, count)| (word(kind), *count)).collect()
        }),
    )?;
    sheet.counter(
        "plinth_disk_repaired_blocks",
        None,
        "Blocks of 4 KiB that were rewritten from another mirror.",
        disks.count(|disk| disk.blocks_repaired),
    )?;
    sheet.counter(
        "plinth_disk_repaired_metadata",
        None,
        "Records of the engine itself that were wrong and were rewritten.",
        disks.count(|disk| disk.metadata_repaired),
    )
}

fn thin(sheet: &mut Sheet<'_>, disks: &Disks<'_>) -> Result {
    let gauges: [(&str, &str, Of<DiskFigures, u64>); 4] = [
        ("allocated", "Bytes that a thin device holds of the group.", |disk| disk.thin.allocated),
        ("waiting", "Bytes that are free and will be given back to the device.", |disk| {
            disk.thin.waiting
        }),
        ("in_flight", "Bytes that are being given back.", |disk| disk.thin.in_flight),
        ("not_returnable", "Bytes that are free and cannot be given back now.", |disk| {
            disk.thin.not_returnable
        }),
    ];
    for (name, help, value) in gauges {
        let name = format!("plinth_disk_thin_{name}");
        sheet.gauge(&name, BYTES, help, disks.each(move |disk| value(disk) as f64))?;
    }
    sheet.counter(
        "plinth_disk_thin_returned",
        BYTES,
        "Bytes that were given back to the device.",
        disks.count(|disk| disk.thin.returned),
    )?;
    sheet.counter(
        "plinth_disk_thin_failures",
        None,
        "Discards that failed.",
        disks.count(|disk| disk.thin.failures),
    )
}
