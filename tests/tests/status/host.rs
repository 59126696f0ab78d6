//! The host: the write filter, devices that do not answer, disks with strange names, several
//! instances, and users who may not ask.

use super::{finding, first_line, gone, in_time, mended, seen, status, text};
use plinth_tests::{FilterPins, Finished, Instance, MIB, Row, shell, wait_for};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const SIZE: u64 = 256 * MIB;

/// A program that holds a device open for writing.
struct Writer(Child);

impl Writer {
    fn of(device: &Path) -> Self {
        let script = r#"exec 3<>"$1"; exec sleep 1000"#;
        let mut command = Command::new("sh");
        let child = command.args(["-c", script, "sh"]).arg(device).stdin(Stdio::null()).spawn();
        let child = child.expect("started");
        wait_for("the program", || {
            fs::read_to_string(format!("/proc/{}/comm", child.id()))
                .is_ok_and(|name| name == "sleep\n")
        });
        Self(child)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn members_that_others_can_write_are_seen() {
    let pins = FilterPins::new();
    let mut instance = pins.instance();
    let [first, _] = ["f0d0", "f1d0"].map(|disk| instance.add_loop_disk(disk, SIZE, 512));
    instance.create_group("data", "NORMAL", &[&[SIZE], &[SIZE]], "");
    let shown = first.display().to_string();
    instance.sql("ALTER SYSTEM FILTER LOAD");
    gone(&instance, "FILTER", "");
    instance.sql("ALTER SYSTEM FILTER DISABLE");
    mended(&instance, "FILTER", "", "WARNING");
    instance.sql(&format!("ALTER SYSTEM FILTER DISABLE DISK '{shown}'"));
    mended(&instance, "FILTER", &shown, "NOTE");

    instance.sql("ALTER SYSTEM FILTER UNLOAD");
    let writer = Writer::of(&first);
    instance.sql("ALTER SYSTEM FILTER LOAD");
    assert_eq!(seen(&instance, "FILTER", &shown, "WARNING"), "", "that program has to end");
    let found = finding(&status(&instance).1, "FILTER", &shown).expect("it stays");
    let named = format!("process {} (sleep)", writer.0.id());
    assert!(text(&found, "detail").contains(&named), "{found:?}");
    drop(writer);
    gone(&instance, "FILTER", "");

    // The next instance cannot load it.
    instance.kill_instance();
    pins.unmount();
    instance.start();
    seen(&instance, "FILTER", "", "WARNING");
    pins.mount();
    mended(&instance, "FILTER", "", "WARNING");
    instance.sql("ALTER SYSTEM FILTER UNLOAD");
}

/// A disk of no group hangs; then one of a group that no program uses.
pub(super) fn a_device_that_does_not_answer_is_seen() {
    let mut instance = Instance::new();
    let member = instance.add_fault_disk("f0d0", SIZE);
    instance.create_group("data", "NORMAL", &[&[SIZE], &[SIZE]], "");
    let stranger = instance.add_fault_disk("stranger", SIZE);
    let shown = stranger.display().to_string();
    seen(&instance, "UNUSED DISK", &shown, "NOTE");
    let began = Instant::now();
    instance.faulty("stranger").hang();
    in_time(&instance, began, &[("DEVICE SILENT", &shown)]);
    assert_eq!(seen(&instance, "DEVICE SILENT", &shown, "WARNING"), "");
    instance.faulty("stranger").heal();
    gone(&instance, "DEVICE SILENT", "");
    gone(&instance, "DISCOVERY", "");
    seen(&instance, "UNUSED DISK", &shown, "NOTE");

    let began = Instant::now();
    instance.faulty("f0d0").hang();
    let path = member.display().to_string();
    in_time(&instance, began, &[("DEVICE SILENT", &path), ("DISK OFFLINE", "DATA_0000")]);
    instance.faulty("f0d0").heal();
    gone(&instance, "DEVICE SILENT", "");
}

/// The command for alarms fails, and is repaired.
pub(super) fn alarms_that_do_not_arrive_are_seen() {
    let mut instance = Instance::new();
    let command = instance.path("page");
    instance.kill_instance();
    instance.start_with(&[&format!("--alarm-command={}", command.display())]);
    let way = format!("command {}", command.display());
    seen(&instance, "ALARM", &way, "WARNING");
    fs::write(&command, "#!/bin/sh\ncat > /dev/null\n").expect("written");
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).expect("it is ours");
    mended(&instance, "ALARM", &way, "WARNING");
}

/// A disk answers so slowly that looking for disks takes too long.
pub(super) fn a_discovery_that_takes_too_long_is_seen() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[SIZE], &[SIZE]], "");
    instance.add_slow_disk("sluggish", SIZE);
    instance.slow("sluggish").delay(Duration::from_millis(2500));
    assert_eq!(seen(&instance, "DISCOVERY", "", "WARNING"), "");
    // It is not known whether there are others.
    assert_eq!(finding(&status(&instance).1, "UNUSED DISK", ""), None);
    instance.slow("sluggish").delay(Duration::ZERO);
    gone(&instance, "DISCOVERY", "");
    seen(&instance, "UNUSED DISK", "", "NOTE");
}

/// Names that a terminal, a plugin's reader or SQL could take for something else.
const STRANGE: [&str; 6] = [
    "any*of[them]?",
    "it's a 'disk'",
    r#"a "disk"; DROP DISKGROUP data"#,
    "a|b=1",
    "two\nlines",
    "\u{1b}[2Jcleared\u{7}",
];

/// Each strange name is shown in one line, and the statement in JSON and in the view adds that very
/// disk.
#[test]
fn statements_about_disks_with_strange_names_are_right() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[SIZE], &[SIZE]], "");
    for name in STRANGE {
        let path = instance.add_disk(name, SIZE).display().to_string();
        let found = finding(&status(&instance).1, "UNUSED DISK", &path);
        let found = found.unwrap_or_else(|| panic!("{path:?} is not seen"));
        let remedy = text(&found, "remedy");
        assert!(remedy.starts_with("ALTER DISKGROUP DATA ADD FAILGROUP F"), "{remedy:?}");
        let said = instance.plinth(["status"]);
        let is_plain = |char: char| char == '\n' || !char.is_control();
        assert!(said.out.chars().all(is_plain), "{said:?}");
        assert_eq!(said.out.matches('|').count(), 1, "{said}");
        let below: Vec<&str> = said.out.lines().skip_while(|line| *line != "This host").collect();
        assert_eq!(below.len(), 3, "{said}");
        let can_be_shown =
            !name.contains('|') && name.chars().all(is_plain) && !name.contains('\n');
        assert_eq!(below[2].trim() == remedy, can_be_shown, "{said}");
        assert_eq!(below[2].contains("plinth --json status"), !can_be_shown, "{said}");
        instance.sql(remedy);
        gone(&instance, "UNUSED DISK", "");
        instance.wait_until_whole("DATA");
    }
    let disks = "SELECT COUNT(*) FROM v$asm_disk WHERE group_number <> 0";
    assert_eq!(instance.number(disks) as usize, 2 + STRANGE.len());
}

/// The words of a row, without figures that change by themselves.
fn says(row: &Row, group: &str) -> [String; 5] {
    [group, "severity", "kind", "subject", "remedy"].map(|column| row[column].to_string())
}

/// The screen, JSON and the view are the same rows, for several groups, and for one.
#[test]
fn the_screen_json_and_the_view_say_the_same() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[SIZE, SIZE], &[SIZE]], "");
    let path = instance.add_disk("backup", SIZE).display().to_string();
    instance.sql(&format!("CREATE DISKGROUP fra EXTERNAL REDUNDANCY DISK '{path}'"));
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0000");
    instance.add_disk("spare", SIZE);
    // A disk that is OFFLINE ceases to vote a little later.
    let mut rows = Vec::new();
    wait_for("the same rows", || {
        rows = status(&instance).1;
        let in_json: BTreeSet<_> = rows.iter().map(|row| says(row, "group")).collect();
        let view = instance.query("SELECT * FROM v$asm_health");
        let in_view: BTreeSet<_> = view.iter().map(|row| says(row, "group_name")).collect();
        in_json == in_view
    });
    let screen = instance.plinth(["status"]);
    assert_eq!(screen.code, Some(1), "{screen}");
    for row in rows.iter().filter(|row| text(row, "severity") != "OK") {
        let subject = format!(" {}", text(row, "subject"));
        let case = format!("{}{}: {}", text(row, "kind"), subject.trim_end(), text(row, "detail"));
        let line = format!("  {:<16}{case}\n", text(row, "severity"));
        assert!(screen.out.contains(&line), "{line}: {screen}");
        assert!(screen.out.contains(text(row, "remedy")), "{row:?}: {screen}");
    }
    for (group, code) in [("data", 1), ("fra", 1), ("+DATA", 1)] {
        let one = json(&instance.plinth(["--json", "status", group]));
        let name = group.trim_start_matches('+').to_uppercase();
        let of_it = |row: &&Row| text(row, "group") == name;
        assert_eq!(one["exit_code"], code);
        assert_eq!(one["rows"].as_array().map(Vec::len), Some(rows.iter().filter(of_it).count()));
    }
}

/// The command's answer, which is valid JSON and has its exit code.
#[track_caller]
fn json(said: &Finished) -> serde_json::Value {
    let all: serde_json::Value =
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(all["exit_code"], said.code.expect("an exit code"), "{said}");
    for key in ["status", "summary"] {
        assert!(all[key].as_str().is_some_and(|text| !text.is_empty()), "{said}");
    }
    all
}

/// Two instances see the same disks, and one has the group.
#[test]
fn a_group_of_another_instance_is_seen() {
    let [first, second] = [Instance::new(), Instance::new()];
    first.create_group("data", "NORMAL", &[&[SIZE], &[SIZE]], "");
    let disks = format!("{}/*", first.path("disks").display());
    second.sql(&format!("ALTER SYSTEM SET asm_diskstring = '{disks}'"));
    assert_eq!(seen(&second, "NOT MOUNTED", "", "NOTE"), "");
    assert_eq!([status(&first).0, status(&second).0], [0, 0]);
    first.sql("ALTER DISKGROUP data DISMOUNT");
    seen(&first, "NOT MOUNTED", "", "WARNING");
    mended(&second, "NOT MOUNTED", "", "WARNING");
    assert_eq!(seen(&first, "NOT MOUNTED", "", "NOTE"), "");
    assert_eq!([status(&first).0, status(&second).0], [0, 0]);
    second.sql("ALTER DISKGROUP data DISMOUNT");
}

/// A user who may not ask, one who may look, no such group, an instance that hangs, and one that is
/// dead: each has an exit code, a sentence, and JSON.
pub(super) fn an_answer_that_cannot_be_had_is_unknown() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[SIZE], &[SIZE]], "");
    let program = instance.path("plinth");
    fs::copy(instance.program(), &program).expect("copied to where each user can run it");
    let by_another_user = |arguments: &str| {
        let script = format!(
            r#"setpriv --reuid 65534 --regid 65534 --clear-groups "$1" --dir "$2" {arguments}"#
        );
        shell(&script).arg(&program).arg(instance.dir()).finish()
    };
    let refused = by_another_user("status");
    assert_eq!(refused.code, Some(3), "{refused}");
    assert!(first_line(&refused).starts_with("PLINTH UNKNOWN: "), "{refused}");
    assert_eq!(refused.out.lines().count(), 1, "{refused}");
    let refused = json(&by_another_user("--json status"));
    assert_eq!([&refused["status"], &refused["rows"]], [&"UNKNOWN".into(), &serde_json::json!([])]);
    assert_eq!(json(&instance.plinth(["--json", "status", "none"]))["status"], "UNKNOWN");

    let signal = |pid: i32, signal| {
        let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("a signal");
    };
    signal(instance.pid(), rustix::process::Signal::STOP);
    let hangs = instance.plinth(["--json", "status"]);
    signal(instance.pid(), rustix::process::Signal::CONT);
    assert_eq!(json(&hangs)["status"], "UNKNOWN");

    instance.kill_instance();
    assert_eq!(json(&instance.plinth(["--json", "status"]))["status"], "UNKNOWN");
    let group = shell("id -gn nobody").ok();
    instance.start_with(&["--look-group", group.trim()]);
    let looks = shell(
        r#"setpriv --reuid nobody --regid "$3" --clear-groups "$1" --dir "$2" --json status"#,
    );
    let looks = looks.arg(&program).arg(instance.dir()).arg(group.trim()).finish();
    assert_eq!((&json(&looks)["status"], looks.code), (&"OK".into(), Some(0)), "{looks}");
}
