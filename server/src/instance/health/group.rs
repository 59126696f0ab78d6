//! The rules for a group whose engine answers: its state, what it can lose, its free space, its
//! latency, what runs, and what is not as it should be. Those about single disks are in `disks.rs`.

use super::{
    Finding,
    Kind::{self, Catalog, Delay, Forced, FreeSpace, MissingMirrors, MissingVoter, Scrub, Space},
    Severity::{Critical, Ok, Warning},
    Unit, disks,
    facts::{GroupFacts, Row},
    history::{Class, Latency},
    host::HostFacts,
    quoted, size, span,
};
use crate::query::Time;
use plinth_engine::words::counted;

/// With fewer bytes left than this the catalog is about to refuse new files.
const CATALOG_SCANT: u64 = 256 << 10;

/// All rows of a group.
pub(super) fn findings(group: &str, facts: &GroupFacts, host: &HostFacts) -> Vec<Finding> {
    let mut all = vec![state(group, facts)];
    all.extend(facts.rows("v$asm_failgroup").iter().map(|row| loss(group, facts, row)));
    all.extend(facts.rows("v$asm_space").first().map(|row| free_space(facts, row)));
    all.extend(facts.latency.iter().flat_map(latencies));
    all.extend(facts.rows("v$asm_operation").iter().filter_map(|row| operation(group, row)));
    if let Some(row) = facts.protection() {
        all.extend(protection(group, facts, row, host));
    }
    all.extend(delays(group, facts));
    all.extend(disks::findings(group, facts, host));
    all
}

fn state(group: &str, facts: &GroupFacts) -> Finding {
    let word = facts.group().map_or("", |row| row.text("state"));
    let redundancy = match facts.redundancy() {
        "EXTERN" => "EXTERNAL",
        other => other,
    };
    let (count, groups) = (facts.rows("v$asm_disk").len(), facts.rows("v$asm_failgroup").len());
    let of = if redundancy == "EXTERNAL" {
        String::new()
    } else {
        format!(" in {}", counted(groups as u64, "failure group"))
    };
    let detail = format!("{word}, {redundancy} redundancy, {}{of}", counted(count as u64, "disk"));
    let used = facts.protection().map_or(0, |row| row.number("used_percent"));
    let finding = Finding::new(Ok, Kind::Group, detail).measuring(used as f64, Unit::Percent);
    if word != "RESTRICTED" {
        return finding;
    }
    let remedy = format!("ALTER DISKGROUP {group} DISMOUNT; ALTER DISKGROUP {group} MOUNT");
    Finding { severity: Warning, ..finding }.mended_by(remedy)
}

/// The statement that brings mirrors back.
fn restore(group: &str, facts: &GroupFacts) -> String {
    match facts.is_degraded() {
        true => format!("ALTER DISKGROUP {group} ONLINE ALL"),
        false => format!("ALTER DISKGROUP {group} REBALANCE"),
    }
}

/// Whether a failure group may go now.
fn loss(group: &str, facts: &GroupFacts, row: &Row) -> Finding {
    let (disks, online) = (row.number("disks"), row.number("online_disks"));
    let away = match (online, disks) {
        (0, _) => ". It is away already",
        (online, disks) if online < disks => ". A part of it is away already",
        _ => "",
    };
    let finding = |severity, detail: String| {
        Finding::new(severity, Kind::FailureGroup, detail)
            .on(row.text("name"))
            .measuring(row.number("lost_extents") as f64, Unit::Extents)
    };
    if row.is("may_go") {
        let both = if row.is("mounts_without") || online == 0 {
            ""
        } else {
            "; if the host goes down at the same moment, what is left mounts by FORCE only"
        };
        return finding(Ok, format!("may go{both}{away}"));
    }
    let reason = row.text("reason");
    // In EXTERNAL no disk may go, by the choice of the operator.
    if facts.redundancy() == "EXTERN" {
        return finding(Ok, format!("may not go: {reason}{away}"));
    }
    finding(Warning, format!("may not go: {reason}{away}")).mended_by(restore(group, facts))
}

/// How much can be written, and how that comes about.
fn free_space(facts: &GroupFacts, row: &Row) -> Finding {
    let bytes = |column: &str| row.number(column) as f64;
    let mirrors = match facts.redundancy() {
        "EXTERN" => 1.0,
        "HIGH" => 3.0,
        _ => 2.0,
    };
    let (free, writable, safe) =
        (bytes("free_bytes"), bytes("writable_bytes"), bytes("safe_bytes"));
    let mut how = format!("{} free", size(free));
    if mirrors > 1.0 {
        how += &format!(" / {mirrors} mirrors = {}", size(free / mirrors));
    }
    // Less than a hundredth is rounding, to whole AUs in each failure group.
    if writable < free / mirrors * 0.99 {
        how += &format!(
            ", of which {} fit because failure groups differ in free space",
            size(writable)
        );
    }
    if row.is("restorable") {
        let of = row
            .maybe_text("bound_by")
            .map_or_else(|| "a failure group".to_owned(), |name| format!("failure group {name}"));
        how += &format!(", less {} that repair the loss of {of}", size(bytes("reserve_bytes")));
    } else {
        how += ", with nothing kept for the loss of a failure group";
        if let Some(note) = row.maybe_text("note") {
            how += &format!(" ({note})");
        }
    }
    let detail = format!("{} can be written safely: {how}", size(safe));
    Finding::new(Ok, FreeSpace, detail).measuring(safe, Unit::Bytes)
}

fn latencies(latency: &Latency) -> [Finding; 2] {
    let over = match latency.over {
        Some(over) => format!("in the last {}", span(over.as_secs())),
        None => "since the mount".to_owned(),
    };
    let of = |kind, what: &str, class: Class| {
        let p99 = class
            .p99_below
            .map(|below| {
                format!(
                    "; of all {what}s on the disks 99 of 100 took less than {}",
                    micros(below as f64)
                )
            })
            .unwrap_or_default();
        let detail = match class.count {
            0 => format!("no {what} of a file {over}{p99}"),
            count => format!(
                "{} on average for {} of files {over}{p99}",
                micros(class.mean_micros),
                counted(count, what)
            ),
        };
        let finding = Finding::new(Ok, kind, detail);
        match class.count {
            0 => finding,
            _ => finding.measuring(class.mean_micros, Unit::Microseconds),
        }
    };
    [of(Kind::ReadLatency, "read", latency.reads), of(Kind::WriteLatency, "write", latency.writes)]
}

fn micros(micros: f64) -> String {
    match micros {
        ..1000.0 => format!("{micros:.0} us"),
        ..1e6 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}

/// An operation that runs, waits or failed.
fn operation(group: &str, row: &Row) -> Option<Finding> {
    let pass = row.text("pass");
    let (done, work) = (row.number("sofar"), row.number("est_work"));
    let percent = if work > 0 { done as f64 * 100.0 / work as f64 } else { 0.0 };
    let state = row.text("state");
    if state == "ERRS" {
        let why = row.text("error_code");
        let remedy = match pass {
            "RESYNC" => Some(format!("ALTER DISKGROUP {group} ONLINE ALL")),
            "REBALANCE" => Some(format!("ALTER DISKGROUP {group} REBALANCE")),
            "SCRUBBING" => Some(format!("ALTER DISKGROUP {group} SCRUB REPAIR")),
            "RECLAIM" => Some(format!("ALTER DISKGROUP {group} RECLAIM")),
            _ => None,
        };
        let failed = Finding::new(Warning, Kind::Operation, format!("failed: {why}")).on(pass);
        return Some(failed.maybe_mended_by(remedy));
    }
    if state == "DONE" {
        return None;
    }
    let end = match row.maybe_number("est_minutes") {
        _ if state == "WAIT" => ", waits".to_owned(),
        Some(minutes) => {
            let then = i64::try_from(minutes.saturating_mul(60_000_000_000)).unwrap_or(i64::MAX);
            let at = Time::of_unix(crate::alert::now().saturating_add(then)).in_second().text();
            format!(", ends in about {}, at {at} UTC", span(minutes.saturating_mul(60).max(60)))
        }
        None => String::new(),
    };
    let detail = format!("{done} of {work} done{end}");
    Some(Finding::new(Ok, Kind::Operation, detail).on(pass).measuring(percent, Unit::Percent))
}

/// Findings about the group as a whole.
fn protection(group: &str, facts: &GroupFacts, row: &Row, host: &HostFacts) -> Vec<Finding> {
    let mut all = Vec::new();
    if row.is("writes_wait") {
        let detail = format!(
            "{} of {} voters can be written, and writes wait until half of them can. Bring the disks back: they are tried every second, and writes go on by themselves. If they are lost for good: DISMOUNT FORCE, then MOUNT FORCE",
            row.number("voters_reached"),
            row.number("voters")
        );
        // No statement: each that changes a disk waits for the voters, too.
        all.push(Finding::new(Critical, Kind::WritesWait, detail));
    }
    all.extend(missing_mirrors(group, facts, row));
    let (voters, wanted) = (row.number("voters"), row.number("voters_wanted"));
    let reached = row.number("voters_reached");
    if reached < wanted {
        let detail = format!(
            "{} {}, and {reached} can be written; with every disk ONLINE {wanted} would vote",
            counted(voters, "disk"),
            if voters == 1 { "votes" } else { "vote" }
        );
        all.push(
            Finding::new(Warning, MissingVoter, detail)
                .mended_by(format!("ALTER DISKGROUP {group} ONLINE ALL")),
        );
    }
    all.extend(space(group, facts, row, host));
    if let Some(left) = row.maybe_number("catalog_left") {
        let severity = if left < CATALOG_SCANT { Critical } else { Warning };
        let detail = format!(
            "the catalog has {} left and cannot grow: no disk has room for it. When they are used up no file can be made. Add disks, or remove files",
            size(left as f64)
        );
        all.push(
            Finding::new(severity, Catalog, detail)
                .maybe_mended_by(disks::addition(group, facts, host.spares()))
                .measuring(left as f64, Unit::Bytes),
        );
    }
    if row.is("scrub_due") {
        let age = row.number("scrub_age");
        let detail = match row.maybe_text("scrub_time") {
            Some(time) => format!("the group was last scrubbed {} ago, at {time} UTC", span(age)),
            None => format!("the group was never scrubbed, and was made {} ago", span(age)),
        };
        let (running, scrub) = facts.scrub_of(group);
        let detail =
            format!("{detail}: what has rotted since is found only when it is read{running}");
        all.push(
            Finding::new(Warning, Scrub, detail)
                .maybe_mended_by(scrub)
                .measuring(age as f64, Unit::Seconds),
        );
    }
    if row.is("forced") {
        let detail = "the present mount was by FORCE: free space is not given back, and what a disk that was not seen had alone is lost";
        let remedy = format!("ALTER DISKGROUP {group} DISMOUNT; ALTER DISKGROUP {group} MOUNT");
        all.push(Finding::new(Warning, Forced, detail).mended_by(remedy));
    }
    all
}

fn missing_mirrors(group: &str, facts: &GroupFacts, row: &Row) -> Option<Finding> {
    let short = row.number("short_extents");
    if short == 0 {
        return None;
    }
    let left = row.number("mirrors_left");
    let (names, files) = &facts.short_files;
    let which = match names.len() as u64 {
        0 => String::new(),
        named if named == *files => format!(", of {}", names.join(", ")),
        _ => format!(", of {files} files such as {}", names.join(", ")),
    };
    let severity = if left == 0 { Critical } else { Warning };
    let worst = match left {
        0 => "the worst of them cannot be read".to_owned(),
        left => format!("the worst of them has {left}"),
    };
    let detail = format!(
        "{}{which}, have fewer mirrors than they should, and {worst}. v$asm_missing_mirror has the files",
        counted(short, "extent")
    );
    Some(
        Finding::new(severity, MissingMirrors, detail)
            .mended_by(restore(group, facts))
            .measuring(short as f64, Unit::Extents),
    )
}

fn space(group: &str, facts: &GroupFacts, row: &Row, host: &HostFacts) -> Option<Finding> {
    let used = row.number("used_percent");
    let (severity, how) = match row.text("space_level") {
        "WARNING" => (Warning, format!("is {used} % full, which is above space_warning")),
        "CRITICAL" => (Critical, format!("is {used} % full, which is above space_critical")),
        "FULL" => (Critical, "is full: nothing more can be allocated".to_owned()),
        _ => return None,
    };
    let detail = format!("the group {how}. Add disks, or remove files");
    Some(
        Finding::new(severity, Space, detail)
            .maybe_mended_by(disks::addition(group, facts, host.spares()))
            .measuring(used as f64, Unit::Percent),
    )
}

/// Failure groups whose I/O is delayed.
fn delays(group: &str, facts: &GroupFacts) -> Vec<Finding> {
    let mut delayed: Vec<(&str, &str)> = facts
        .rows("v$asm_disk")
        .iter()
        .filter_map(|disk| Some((disk.text("failgroup"), disk.maybe_text("what_if")?)))
        .collect();
    delayed.sort_unstable();
    delayed.dedup();
    let finding = |(name, by): (&str, &str)| {
        let attribute = quoted(&format!("what_if.delay.{name}"));
        Finding::new(Warning, Delay, format!("its I/O is delayed by {by}"))
            .on(name)
            .mended_by(format!("ALTER DISKGROUP {group} SET ATTRIBUTE {attribute} = '0'"))
    };
    delayed.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::facts::Row, *};
    use plinth_engine::admin::Value;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    /// A group of which everything is wrong that its engine can say of it as a whole.
    #[test]
    fn each_thing_that_a_group_lacks_is_a_finding_of_its_own() {
        let number = Value::Integer;
        let wrong = vec![
            number(3),
            number(3),
            number(1),
            text("Y"),
            number(7),
            number(0),
            number(99),
            text("CRITICAL"),
            number(1000),
            Value::Null,
            number(864_000),
            text("Y"),
            text("Y"),
        ];
        let view = "v$asm_protection";
        let facts = GroupFacts::of(vec![(view, vec![Row::of(view, wrong.clone())])]);
        let all = findings("DATA", &facts, &HostFacts::default());
        for (kind, severity) in [
            (Kind::WritesWait, Critical),
            (MissingMirrors, Critical),
            (MissingVoter, Warning),
            (Space, Critical),
            (Catalog, Critical),
            (Scrub, Warning),
            (Forced, Warning),
        ] {
            let found: Vec<_> = all.iter().filter(|one| one.kind == kind).collect();
            assert_eq!(found.len(), 1, "{kind:?}");
            assert_eq!(found[0].severity, severity, "{kind:?}");
        }
        let scrub = all.iter().find(|one| one.kind == Scrub).expect("a finding");
        assert!(scrub.detail.contains("never scrubbed, and was made 10 days ago"), "{scrub:?}");
        assert_eq!(scrub.remedy.as_deref(), Some("ALTER DISKGROUP DATA SCRUB REPAIR"));

        let runs = ["SCRUBBING", "RUN"].map(text).into_iter();
        let runs = runs.chain([number(1), number(2), number(0), Value::Null]).collect();
        let operation = "v$asm_operation";
        let facts = GroupFacts::of(vec![
            (view, vec![Row::of(view, wrong)]),
            (operation, vec![Row::of(operation, runs)]),
        ]);
        let all = findings("DATA", &facts, &HostFacts::default());
        let scrub = all.iter().find(|one| one.kind == Scrub).expect("a finding");
        assert!(scrub.detail.ends_with("read. A scrub is running"), "{scrub:?}");
        assert_eq!(scrub.remedy, None);
    }

    #[test]
    fn free_space_is_told_with_its_origin() {
        let (gib, number) = (1_i64 << 30, Value::Integer);
        let row = |free: i64, writable: i64, safe: i64, restorable: &str| {
            let note = if restorable == "Y" { Value::Null } else { text("two are too few") };
            let values = vec![
                number(free),
                number(writable),
                number(writable - safe),
                number(safe),
                text("SHELF1"),
                text(restorable),
                note,
            ];
            Row::of("v$asm_space", values)
        };
        let facts = GroupFacts::default();
        let even = free_space(&facts, &row(6 * gib, 3 * gib, 2 * gib, "Y"));
        assert_eq!(
            even.detail,
            "2 GiB can be written safely: 6 GiB free / 2 mirrors = 3 GiB, less 1 GiB that repair the loss of failure group SHELF1"
        );
        assert_eq!(even.value, Some((2.0 * gib as f64, Unit::Bytes)));
        let uneven = free_space(&facts, &row(6 * gib, 2 * gib, 2 * gib, "N"));
        assert!(uneven.detail.contains("of which 2 GiB fit"), "{uneven:?}");
        assert!(uneven.detail.contains("(two are too few)"), "{uneven:?}");
    }

    #[test]
    fn an_operation_says_when_it_ends_or_why_it_failed() {
        let row = |state: &str, minutes: Value, error: Value| {
            let (done, work) = (Value::Integer(50), Value::Integer(200));
            let values = vec![text("REBALANCE"), text(state), done, work, minutes, error];
            Row::of("v$asm_operation", values)
        };
        let runs = operation("DATA", &row("RUN", Value::Integer(3), Value::Null)).expect("it runs");
        assert!(
            runs.detail.starts_with("50 of 200 done, ends in about 3 minutes, at "),
            "{runs:?}"
        );
        assert_eq!(runs.value, Some((25.0, Unit::Percent)));
        let failed =
            operation("DATA", &row("ERRS", Value::Null, text("no room"))).expect("it is told");
        assert_eq!((failed.severity, failed.detail.as_str()), (Warning, "failed: no room"));
        assert_eq!(failed.remedy.as_deref(), Some("ALTER DISKGROUP DATA REBALANCE"));
        assert_eq!(operation("DATA", &row("DONE", Value::Null, Value::Null)), None);
    }
}
