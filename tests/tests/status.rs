//! `plinth status` and `v$asm_health`: each finding is made true, seen in the text, in JSON, in the
//! view and in the exit code, mended by the very statement that it names, and seen to go.

use plinth_tests::{Finished, Instance, MIB, Row, shell, wait_for};
use rustix::process::Signal;
use std::{
    fs,
    io::Write,
    thread,
    time::{Duration, Instant},
};

/// Monitoring waits this long for a plugin.
const PATIENCE: Duration = Duration::from_secs(10);

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
    let mut last = Vec::new();
    wait_for(&format!("no {kind} {subject}"), || {
        last = status(instance).1;
        finding(&last, kind, subject).is_none()
    });
}

/// Carries out what a finding names.
#[track_caller]
fn carry_out(instance: &Instance, remedy: &str) {
    assert!(!remedy.is_empty(), "it names no statement");
    match remedy.starts_with("kill ") {
        true => drop(shell(remedy).ok()),
        false => drop(instance.sql(remedy)),
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

/// Disks and failure groups of a mirrored group.
#[test]
fn each_finding_of_a_mirrored_group_is_mended_by_the_statement_that_it_names() {
    let instance = Instance::new();
    let size = 256 * MIB;
    instance.create_group("data", "NORMAL", &[&[size, size], &[size, size], &[size]], "");
    let said = instance.plinth(["status"]);
    assert_eq!(said.code, Some(0), "{said}");
    assert!(first_line(&said).starts_with("PLINTH OK: 1 disk group | 'DATA_used'="), "{said}");
    for part in ["F0              may go", "free  ", "can be written safely", "reads  ", "writes  "]
    {
        assert!(said.out.contains(part), "{part}: {said}");
    }
    let mount = instance.mount("DATA");
    fs::write(mount.join("table"), vec![7; 64 << 20]).expect("written");

    // Disks that no group uses.
    instance.add_disk("spare", size);
    seen(&instance, "UNUSED DISK", "", "NOTE");
    mended(&instance, "SINGLE DISK", "F2", "NOTE");
    gone(&instance, "UNUSED DISK", "");
    instance.wait_until_whole("DATA");
    instance.add_disk("spare2", size);
    mended(&instance, "UNUSED DISK", "", "NOTE");
    instance.wait_until_whole("DATA");

    // One disk is away; then it cannot be found, and another takes its place.
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0000");
    mended(&instance, "DISK OFFLINE", "DATA_0000", "WARNING");
    instance.wait_until_whole("DATA");
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0001");
    fs::remove_file(instance.disk("f0d1")).expect("the disk is taken out");
    instance.add_disk("spare3", size);
    let remedy = mended(&instance, "DISK OFFLINE", "DATA_0001", "WARNING");
    assert!(remedy.contains("REPLACE DISK DATA_0001 WITH"), "{remedy}");
    instance.wait_until_whole("DATA");

    // A failure group is away: each of the findings brings it back.
    for (kind, subject) in [
        ("DISK OFFLINE", "F0"),
        ("MISSING MIRRORS", ""),
        ("MISSING VOTER", ""),
        ("FAILURE GROUP", "F1"),
    ] {
        instance.sql("ALTER DISKGROUP data OFFLINE DISKS IN FAILGROUP f0");
        fs::write(mount.join("meanwhile"), vec![8; 1 << 20]).expect("written");
        mended(&instance, kind, subject, "WARNING");
        instance.wait_until_whole("DATA");
        // Votes come back a little later than the disks.
        wait_for("all to be well", || status(&instance).0 == 0);
    }

    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'what_if.delay.f1' = '1ms' FORCE");
    mended(&instance, "DELAY", "F1", "WARNING");

    instance.sql("ALTER SYSTEM SET asm_preferred_read_failure_groups = 'DATA.F2, DATA.F1'");
    instance.sql("ALTER DISKGROUP data DROP DISKS IN FAILGROUP f2");
    let remedy = mended(&instance, "PREFERRED", "DATA.F2", "WARNING");
    assert!(remedy.ends_with("= 'DATA.F1'"), "{remedy}");

    // The group is older than a minute by then, or soon will be.
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'scrub_reminder' = '1m'");
    mended(&instance, "SCRUB", "", "WARNING");
    instance.check("DATA");
}

/// Ways in which a group is mounted, and not mounted.
#[test]
fn how_a_group_is_mounted_is_seen() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    mended(&instance, "NOT MOUNTED", "", "WARNING");
    instance.sql("ALTER DISKGROUP data DISMOUNT; ALTER DISKGROUP data MOUNT RESTRICTED");
    mended(&instance, "GROUP", "", "WARNING");
    instance.sql("ALTER DISKGROUP data DISMOUNT; ALTER DISKGROUP data MOUNT FORCE");
    mended(&instance, "FORCED", "", "WARNING");
    let said = instance.plinth(["status", "+data"]);
    assert_eq!(said.code, Some(0), "{said}");
    // Two failure groups, each of which may go.
    let text = "what is left mounts by FORCE only";
    assert_eq!(said.out.matches(text).count(), 2, "{said}");

    let said = instance.plinth(["status", "nothing"]);
    assert_eq!(said.code, Some(3), "{said}");
    assert!(
        first_line(&said).starts_with("PLINTH UNKNOWN: there is no disk group NOTHING"),
        "{said}"
    );
    instance.kill_instance();
    let said = instance.plinth(["status"]);
    assert_eq!(said.code, Some(3), "{said}");
    assert!(first_line(&said).starts_with("PLINTH UNKNOWN: "), "{said}");
    instance.start();
}

/// A group without mirrors on a file: it fills up, gets a disk, and becomes a mirrored one.
#[test]
fn a_group_without_mirrors_is_led_to_mirrors() {
    let instance = Instance::new();
    instance.create_group("fra", "EXTERNAL", &[&[256 * MIB]], "");
    let remedy = seen(&instance, "UNMIRRORED", "", "WARNING");
    assert_eq!(remedy, "", "one disk cannot mirror");
    let mount = instance.mount("FRA");
    fs::write(mount.join("backup"), vec![9; 64 << 20]).expect("written");
    let used = instance.number("SELECT value FROM v$asm_health WHERE kind = 'GROUP'");
    assert!(used > 10.0, "{used}");
    instance.sql(&format!("ALTER DISKGROUP fra SET ATTRIBUTE 'space_warning' = '{used:.0}'"));
    instance.add_disk("spare", 512 * MIB);
    mended(&instance, "SPACE", "", "WARNING");
    instance.wait_until_whole("FRA");
    mended(&instance, "UNMIRRORED", "", "WARNING");
    assert_eq!(instance.text("SELECT type FROM v$asm_diskgroup"), "NORMAL");
}

/// A disk that hangs, one with errors, an engine that is stopped, and one that is dead: each is
/// shown before monitoring gives up.
#[test]
fn a_hung_disk_and_a_dead_engine_are_shown_in_time() {
    let mut instance = Instance::new();
    instance.add_fault_disk("f0d0", 256 * MIB);
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "'disk_timeout' = '2'");
    let mount = instance.mount("DATA");
    fs::write(mount.join("table"), vec![1; 1 << 20]).expect("written");

    let in_time = |kind: &str, subject: &str, severity: &str| {
        let mut said = None;
        wait_for(kind, || {
            let began = Instant::now();
            let (_, rows) = status(&instance);
            assert!(began.elapsed() < PATIENCE, "an answer took {:?}", began.elapsed());
            said = finding(&rows, kind, subject);
            said.is_some()
        });
        assert_eq!(text(&said.expect("it was found"), "severity"), severity);
    };

    instance.faulty("f0d0").hang();
    let path = mount.join("table");
    let writing = thread::spawn(move || {
        let mut file = fs::File::options().write(true).open(path).expect("open");
        file.write_all(&[2; 8192]).and_then(|()| file.sync_all()).expect("written to the other");
    });
    in_time("DISK OFFLINE", "DATA_0000", "WARNING");
    writing.join().expect("the writer");
    instance.faulty("f0d0").heal();
    wait_for("the end of what hung", || {
        instance.text("SELECT state FROM v$asm_disk_stat WHERE name = 'DATA_0000'") != "HUNG"
    });
    mended(&instance, "DISK OFFLINE", "DATA_0000", "WARNING");
    instance.wait_until_whole("DATA");

    instance.faulty("f0d0").fail();
    fs::write(mount.join("table"), vec![3; 1 << 20]).expect("written to the other");
    seen(&instance, "DISK OFFLINE", "DATA_0000", "WARNING");
    instance.faulty("f0d0").heal();
    mended(&instance, "DISK OFFLINE", "DATA_0000", "WARNING");
    instance.wait_until_whole("DATA");
    mended(&instance, "DISK ERRORS", "DATA_0000", "WARNING");

    instance.signal_engine("DATA", Signal::STOP);
    in_time("ENGINE SILENT", "", "CRITICAL");
    mended(&instance, "ENGINE SILENT", "", "CRITICAL");

    // No engine can mount the group while its disks are away.
    let aside = |name: &str| instance.path("parts").join(format!("aside-{name}"));
    for name in ["f0d0", "f1d0"] {
        fs::rename(instance.disk(name), aside(name)).expect("taken away");
    }
    instance.kill_engine("DATA");
    in_time("NO ENGINE", "", "CRITICAL");
    let remedy = seen(&instance, "NO ENGINE", "", "CRITICAL");
    for name in ["f0d0", "f1d0"] {
        fs::rename(aside(name), instance.disk(name)).expect("brought back");
    }
    // It may have been mounted by itself meanwhile.
    let _ = instance.plinth(["sql", "-c", &remedy]);
    gone(&instance, "NO ENGINE", "");
    assert_eq!(instance.text("SELECT state FROM v$asm_diskgroup"), "MOUNTED");
    assert_eq!(remedy, "ALTER DISKGROUP DATA MOUNT");
}

/// A thin pool without room: writes wait, and go on when there is some.
#[test]
fn a_full_pool_is_seen() {
    let mut instance = Instance::new();
    instance.add_pool("pool0", 200 * MIB);
    instance.add_loop_disk_in("pool0", "f0d0", 1 << 30);
    instance.create_group("data", "EXTERNAL", &[&[1 << 30]], "'disk_full_wait' = '600'");
    let mount = instance.mount("DATA");
    instance.pool("pool0").fill();
    let path = mount.join("table");
    let writing = thread::spawn(move || fs::write(path, vec![5; 64 << 20]).expect("written"));
    let remedy = seen(&instance, "DISK FULL", "DATA_0000", "CRITICAL");
    assert_eq!(remedy, "", "no statement makes room there");
    instance.pool("pool0").make_room();
    writing.join().expect("the writer");
    gone(&instance, "DISK FULL", "DATA_0000");
}
