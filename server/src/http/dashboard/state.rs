//! The state that the page shows, as JSON: `/api/state`, and each event of `/api/events`.
//!
//! Counters are those of the engines since their mount: the page makes rates, and latencies over a
//! time, of the difference between two states. `docs/operating.md` does not list the fields: they
//! are for the page of the same program, and may change with it.

use super::{
    super::metrics::snapshot::{GroupSnapshot, Snapshot},
    FilesOfGroups, Findings, Lines,
};
use crate::instance::{Preferred, health::Finding};
use plinth_engine::{
    admin::{Operation, OperationState},
    views::figures::{DiskFigures, Figures, Latencies},
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// An engine that has not answered for this long is shown as silent: a busy host may keep one from
/// answering within [`super::super::readings::WAIT_MAX`] now and then.
const SILENT: Duration = Duration::from_secs(3);

/// The readings of the other threads.
pub(super) struct Sources<'a> {
    /// `None`: not to be known at this moment.
    pub preferred: Option<Preferred>,
    pub findings: &'a Findings,
    pub lines: &'a Lines,
    pub files: &'a FilesOfGroups,
}

/// The requests of one file since the mount.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FileRow {
    pub name: String,
    pub reads: f64,
    pub writes: f64,
    pub syncs: f64,
    pub bytes_read: f64,
    pub bytes_written: f64,
    /// That reads, writes and syncs took.
    pub seconds: [f64; 3],
}

#[derive(Serialize)]
struct State<'a> {
    version: &'static str,
    host: &'a str,
    /// When the figures were read, and when the instance began: milliseconds since 1970.
    now: i64,
    began: i64,
    sessions: u64,
    groups: Vec<Group<'a>>,
    /// `None`: not read yet.
    findings: Option<Aged<Vec<Row>>>,
    alert: Option<Aged<Vec<String>>>,
}

/// Something, and how many milliseconds ago it was read.
#[derive(Serialize)]
struct Aged<T> {
    age: u64,
    rows: T,
}

/// A row of `v$asm_health`.
#[derive(Serialize)]
struct Row {
    group: Option<String>,
    severity: &'static str,
    kind: &'static str,
    subject: Option<String>,
    detail: String,
    remedy: Option<String>,
}

#[derive(Serialize)]
struct Group<'a> {
    name: &'a str,
    /// Its engine has answered lately.
    up: bool,
    /// Of the figures, in milliseconds; `None`: there are none yet.
    age: Option<u64>,
    restarts: u64,
    state: &'a str,
    #[serde(flatten)]
    figures: Option<GroupFigures<'a>>,
    /// The failure groups that reads prefer.
    preferred: Option<BTreeSet<String>>,
    files: Option<Aged<Vec<FileRow>>>,
}

#[derive(Serialize)]
struct GroupFigures<'a> {
    redundancy: &'a str,
    total: u64,
    free: u64,
    writable: u64,
    safe: u64,
    extents: u64,
    /// Extents that lack mirrors, by the number that is left.
    lacking: &'a BTreeMap<u32, u64>,
    operations: Vec<Running<'a>>,
    /// When all of it was last scrubbed, in milliseconds since 1970; 0: never.
    scrubbed: Option<i64>,
    requests: BTreeMap<&'a str, Histogram<'a>>,
    bytes_read: u64,
    bytes_written: u64,
    disks: Vec<Disk<'a>>,
}

#[derive(Serialize)]
struct Running<'a> {
    pass: String,
    state: &'static str,
    power: u32,
    done: u64,
    work: u64,
    bytes: u64,
    /// The time that the rest takes at the present rate, in seconds.
    left: Option<u64>,
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct Histogram<'a> {
    /// How many took less than 2^index microseconds, and not less than half of it.
    counts: &'a [u64],
    nanos: u64,
}

#[derive(Serialize)]
struct Disk<'a> {
    name: &'a str,
    failure_group: &'a str,
    quorum: bool,
    votes: bool,
    mode: &'a str,
    state: &'a str,
    total: u64,
    free: u64,
    /// Seconds until it is dropped.
    repair: u64,
    /// Milliseconds for which it has not answered.
    hung: u64,
    in_flight: u64,
    /// Of all purposes.
    reads: u64,
    writes: u64,
    bytes_read: u64,
    bytes_written: u64,
    errors: u64,
    latencies: BTreeMap<&'a str, Histogram<'a>>,
    reasons: BTreeMap<&'a str, u64>,
}

fn millis(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

impl From<&Finding> for Row {
    fn from(found: &Finding) -> Self {
        Self {
            group: found.group.as_ref().map(|(_, name)| name.clone()),
            severity: found.severity.word(),
            kind: found.kind.word(),
            subject: found.subject.clone(),
            detail: found.detail.clone(),
            remedy: found.remedy.clone(),
        }
    }
}

impl<'a> From<&'a Latencies> for Histogram<'a> {
    fn from(latencies: &'a Latencies) -> Self {
        let Latencies { counts, nanos } = latencies;
        let used = counts.iter().rposition(|count| *count > 0).map_or(0, |at| at + 1);
        Self { counts: counts.get(..used).unwrap_or_default(), nanos: *nanos }
    }
}

fn histograms(all: &[(String, Latencies)]) -> BTreeMap<&str, Histogram<'_>> {
    all.iter().map(|(class, latencies)| (class.as_str(), latencies.into())).collect()
}

impl<'a> From<&'a Operation> for Running<'a> {
    fn from(operation: &'a Operation) -> Self {
        let Operation { pass, state, power, so_far, work, rate, bytes, error } = operation;
        let rest = work.saturating_sub(*so_far).saturating_mul(60);
        let runs = *state == OperationState::Run && *rate > 0;
        Self {
            pass: pass.to_string(),
            state: state.word(),
            power: *power,
            done: *so_far,
            work: *work,
            bytes: *bytes,
            left: runs.then(|| rest.div_ceil(*rate)),
            error: error.as_deref(),
        }
    }
}

impl<'a> From<&'a DiskFigures> for Disk<'a> {
    fn from(disk: &'a DiskFigures) -> Self {
        let sum = |of: fn(&plinth_engine::views::figures::PurposeFigures) -> u64| {
            disk.purposes.iter().map(of).fold(0, u64::saturating_add)
        };
        let errors = [disk.read_errors, disk.write_errors, disk.read_timeouts, disk.write_timeouts];
        let reasons = disk.read_reasons.iter().filter(|(_, count)| *count > 0);
        Self {
            name: &disk.name,
            failure_group: &disk.failure_group,
            quorum: disk.is_quorum,
            votes: disk.votes,
            mode: &disk.mode,
            state: &disk.state,
            total: disk.total,
            free: disk.free,
            repair: disk.repair_seconds,
            hung: disk.hung_ms,
            in_flight: disk.reads_in_flight,
            reads: sum(|purpose| purpose.reads),
            writes: sum(|purpose| purpose.writes),
            bytes_read: sum(|purpose| purpose.bytes_read),
            bytes_written: sum(|purpose| purpose.bytes_written),
            errors: errors.into_iter().fold(0, u64::saturating_add),
            latencies: histograms(&disk.latencies),
            reasons: reasons.map(|(reason, count)| (reason.as_str(), *count)).collect(),
        }
    }
}

impl<'a> GroupFigures<'a> {
    fn of(group: &'a GroupSnapshot, figures: &'a Figures) -> Self {
        Self {
            redundancy: &figures.redundancy,
            total: figures.total,
            free: figures.free,
            writable: figures.writable,
            safe: figures.safe,
            extents: figures.extents,
            lacking: &figures.extents_lacking,
            operations: figures.operations.iter().map(Into::into).collect(),
            scrubbed: figures.scrub.ended.map(|nanos| nanos / 1_000_000),
            requests: histograms(&figures.requests),
            bytes_read: figures.bytes_read,
            bytes_written: figures.bytes_written,
            disks: group.disks().map(Into::into).collect(),
        }
    }
}

/// The state as one line of JSON.
pub(super) fn write(snapshot: &Snapshot, sources: &Sources<'_>) -> String {
    let state = State {
        version: env!("CARGO_PKG_VERSION"),
        host: &snapshot.host,
        now: snapshot.read / 1_000_000,
        began: snapshot.began / 1_000_000,
        sessions: snapshot.sessions,
        groups: snapshot.groups.iter().map(|(name, group)| shown(name, group, sources)).collect(),
        findings: sources.findings.last().map(|(age, findings)| Aged {
            age: millis(age),
            rows: findings.iter().map(Row::from).collect(),
        }),
        alert: sources
            .lines
            .last()
            .map(|(age, lines)| Aged { age: millis(age), rows: lines.to_vec() }),
    };
    // Its keys are texts and its numbers finite or null, so this does not fail.
    serde_json::to_string(&state).unwrap_or_default()
}

fn shown<'a>(name: &'a str, group: &'a GroupSnapshot, sources: &Sources<'_>) -> Group<'a> {
    let files = sources.files.get(name).and_then(|source| source.last());
    let up = group.is_up || group.age.is_some_and(|age| age < SILENT);
    let engine = group.engine.as_ref().filter(|_| up);
    Group {
        name,
        up,
        age: group.age.map(millis),
        restarts: group.restarts,
        state: engine.map_or("BROKEN", |engine| &engine.group.state),
        figures: group.engine.as_ref().map(|engine| GroupFigures::of(group, &engine.group)),
        preferred: sources.preferred.as_ref().map(|preferred| preferred.of(name)),
        files: files.map(|(age, rows)| Aged { age: millis(age), rows: rows.to_vec() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::protocol::EngineFigures, http::dashboard::viewers::Source};
    use plinth_engine::admin::OperationPass;
    use std::sync::Arc;

    fn snapshot(disks: usize) -> Snapshot {
        let latencies =
            |counts: &[u64]| Latencies { counts: counts.to_vec(), nanos: 12_345_678_901 };
        let disk = |number: usize| DiskFigures {
            name: format!("<b>D{number}</b>"),
            latencies: ["READ", "WRITE", "FLUSH", "DISCARD"]
                .map(|class| (class.to_owned(), latencies(&[1_000_000; 24])))
                .into(),
            read_reasons: vec![("EQUAL".to_owned(), 7), ("RETRY".to_owned(), 0)],
            read_errors: 2,
            write_timeouts: 1,
            ..DiskFigures::default()
        };
        let operation = Operation {
            pass: OperationPass::Rebalance,
            state: OperationState::Run,
            power: 4,
            so_far: 10,
            work: 130,
            rate: 60,
            bytes: 5,
            error: None,
        };
        let figures = Figures {
            disks: (0..disks).map(disk).collect(),
            operations: vec![operation],
            requests: vec![("SYNC".to_owned(), latencies(&[0, 3, 0, 0]))],
            ..Figures::default()
        };
        let group = GroupSnapshot {
            is_up: false,
            age: Some(Duration::from_secs(7)),
            engine: Some(Arc::new(EngineFigures { group: figures, ..EngineFigures::default() })),
            ..GroupSnapshot::default()
        };
        let groups = [("DATA".to_owned(), group), ("NEW".to_owned(), GroupSnapshot::default())];
        Snapshot { host: "h\n\"".to_owned(), groups: groups.into(), ..Snapshot::default() }
    }

    fn written(snapshot: &Snapshot) -> String {
        let row = FileRow {
            name: "/a\n</script>".to_owned(),
            reads: 1.0,
            writes: 0.0,
            syncs: 0.0,
            bytes_read: 8.0,
            bytes_written: 0.0,
            seconds: [f64::NAN, 0.0, 0.0],
        };
        let files = [("DATA".to_owned(), Arc::new(Source::of(vec![row])))].into();
        let sources = Sources {
            preferred: None,
            findings: &Source::of(Vec::new()),
            lines: &Source::of(Arc::new(vec!["a line".to_owned()])),
            files: &files,
        };
        write(snapshot, &sources)
    }

    #[test]
    fn the_state_is_one_line_with_the_last_figures_of_an_engine_that_is_gone() {
        let text = written(&snapshot(2));
        assert!(!text.contains('\n'), "an event ends at a line break");
        let state: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let data = &state["groups"][0];
        assert_eq!((&data["up"], &data["age"]), (&false.into(), &7000.into()));
        assert_eq!(data["state"], "BROKEN");
        assert_eq!(data["disks"].as_array().map(Vec::len), Some(2));
        assert_eq!(data["disks"][1]["name"], "<b>D1</b>");
        assert_eq!(data["disks"][1]["errors"], 3);
        assert_eq!(data["disks"][1]["reasons"], serde_json::json!({ "EQUAL": 7 }));
        assert_eq!(data["operations"][0]["left"], 120);
        assert_eq!(data["requests"]["SYNC"]["counts"], serde_json::json!([0, 3]));
        assert_eq!(data["files"]["rows"][0]["name"], "/a\n</script>");
        assert_eq!(state["alert"]["rows"][0], "a line");
        let new = &state["groups"][1];
        assert!(new["disks"].is_null() && new["age"].is_null() && new["files"].is_null());
    }

    /// A client holds it, and a network carries it each second.
    #[test]
    fn a_state_of_a_hundred_disks_is_small() {
        let text = written(&snapshot(100));
        assert!(text.len() < 200_000, "{} bytes", text.len());
    }
}
