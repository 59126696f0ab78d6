//! `plinth status` and `v$asm_health`: each finding is made true, seen in the text, in JSON, in the
//! view and in the exit code, mended by the very statement that it names, and seen to go.

mod disks;
mod groups;
mod host;

use plinth_tests::{Finished, Instance, Row, limited, shell, wait_for};
use std::{
    thread,
    time::{Duration, Instant},
};

/// Monitoring waits this long for a plugin. A disk that hangs and an engine that is dead are shown
/// by then.
const PATIENCE: Duration = Duration::from_secs(10);
/// A finding that is there for longer than this stays: a hang, not a measurement.
const GONE_MAX: Duration = Duration::from_secs(120);

fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row[column].as_str().unwrap_or_default()
}

/// The command's answer in JSON: its exit code and rows.
fn status(instance: &Instance) -> (i32, Vec<Row>) {
    let said = instance.plinth(["--json", "status"]);
    let all: serde_json::Value =
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said}"));
    let code = said.code.expect("an exit code");
    assert_eq!(all["exit_code"], code);
    let rows = all["rows"].as_array().expect("rows").iter();
    let row = |row: &serde_json::Value| {
        let row = row.as_object().expect("a row");
        row.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    (code, rows.map(row).collect())
}

/// The finding of this kind, on this subject if one is named.
fn finding(rows: &[Row], kind: &str, subject: &str) -> Option<Row> {
    let is_it = |row: &&Row| {
        text(row, "kind") == kind
            && text(row, "severity") != "OK"
            && (subject.is_empty() || text(row, "subject") == subject)
    };
    rows.iter().find(is_it).cloned()
}

/// Waits for a finding, and sees it everywhere. Returns its remedy; empty if there is none.
#[track_caller]
fn seen(instance: &Instance, kind: &str, subject: &str, severity: &str) -> String {
    let mut found = None;
    wait_for(&format!("{kind} {subject}"), || {
        let (code, rows) = status(instance);
        found = finding(&rows, kind, subject).map(|row| (code, row));
        found.is_some()
    });
    let (code, row) = found.expect("it was found");
    assert_eq!(text(&row, "severity"), severity, "{row:?}");
    let least = match severity {
        "CRITICAL" => 2,
        "WARNING" => 1,
        _ => 0,
    };
    assert!(code >= least, "exit code {code} for {row:?}");
    let remedy = text(&row, "remedy");
    let Finished { out, code, .. } = instance.plinth(["status"]);
    assert!(code.is_some_and(|code| (least..3).contains(&code)), "exit code {code:?}: {out}");
    let line = format!("{severity:<16}{kind}");
    assert!(out.contains(&line) && out.contains(remedy), "{line}, {remedy}: {out}");
    let in_view = instance.query(&format!(
        "SELECT remedy FROM v$asm_health WHERE kind = '{kind}' AND severity = '{severity}'"
    ));
    assert!(in_view.iter().any(|row| text(row, "remedy") == remedy), "{remedy}: {in_view:?}");
    remedy.to_owned()
}

/// Waits until a finding is gone.
#[track_caller]
fn gone(instance: &Instance, kind: &str, subject: &str) {
    let deadline = Instant::now() + GONE_MAX;
    while let Some(found) = finding(&status(instance).1, kind, subject) {
        assert!(Instant::now() < deadline, "it stays: {found:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Carries out what a finding names.
#[track_caller]
fn carry_out(instance: &Instance, remedy: &str) {
    assert!(!remedy.is_empty(), "it names no statement");
    match remedy.split_once(' ') {
        Some(("kill", _)) => drop(shell(remedy).ok()),
        Some(("plinth", arguments)) => drop(instance.plinth(arguments.split(' ')).ok()),
        _ => drop(instance.sql(remedy)),
    }
}

/// Sees a finding, follows it, and sees it go.
#[track_caller]
fn mended(instance: &Instance, kind: &str, subject: &str, severity: &str) -> String {
    let remedy = seen(instance, kind, subject, severity);
    carry_out(instance, &remedy);
    gone(instance, kind, subject);
    remedy
}

/// The first line, for a plugin.
fn first_line(said: &Finished) -> &str {
    said.out.lines().next().unwrap_or_default()
}

/// Waits for one of several findings, each a kind and a subject, of a case that began at
/// `began`. It has to be shown in time.
#[track_caller]
fn in_time(instance: &Instance, began: Instant, kinds: &[(&str, &str)]) {
    wait_for("a finding", || {
        let rows = status(instance).1;
        kinds.iter().any(|(kind, subject)| finding(&rows, kind, subject).is_some())
    });
    limited(&format!("{kinds:?}"), began.elapsed(), PATIENCE);
}

/// Stories that mostly wait run side by side.
#[test]
fn findings_that_take_a_minute_are_seen() {
    let stories: [(&str, fn()); 9] = [
        ("a group that was never scrubbed", groups::a_group_that_was_never_scrubbed_is_seen),
        ("a slow disk", disks::a_slow_disk_is_seen),
        ("a hung disk and a dead engine", groups::a_hung_disk_and_a_dead_engine_are_shown_in_time),
        ("disks that hang together", disks::disks_that_hang_together_are_seen),
        ("a device that does not answer", host::a_device_that_does_not_answer_is_seen),
        ("alarms that do not arrive", host::alarms_that_do_not_arrive_are_seen),
        ("a discovery that takes too long", host::a_discovery_that_takes_too_long_is_seen),
        ("members that others can write", host::members_that_others_can_write_are_seen),
        ("no answer", host::an_answer_that_cannot_be_had_is_unknown),
    ];
    let told = stories.map(|(name, story)| {
        let begun = thread::Builder::new().name(name.to_owned()).spawn(story);
        (name, begun.expect("a thread"))
    });
    let failed: Vec<&str> =
        told.into_iter().filter_map(|(name, told)| told.join().err().map(|_| name)).collect();
    assert!(failed.is_empty(), "these failed: {failed:?}");
}
