//! The thread with a log that the test writes, and scripts in place of commands.

use super::*;
use std::{fs, os::unix::fs::PermissionsExt};

struct Home {
    directory: tempfile::TempDir,
    paths: Paths,
    alert: Alert,
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let paths = Paths::new(directory.path(), None);
        let alert = Alert::new(paths.alert(), false);
        Self { directory, paths, alert }
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\ncd {}\n{text}\n", self.directory.path().display()))
            .expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        path
    }

    fn command(&self, text: &str) -> Settings {
        let command = self.script("command", text).display().to_string();
        Settings { command: vec![command], ..Settings::default() }
    }

    fn start(&self, settings: &Settings) -> Alarms {
        Alarms::start(settings, &self.paths, &self.alert)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    fn alarm(&self, text: &str) {
        self.alert.line(Severity::Alarm, "DATA", text);
        self.alert.flush();
    }

    /// Waits until a file has this text.
    #[track_caller]
    fn wait_for(&self, name: &str, text: &str) {
        let began = Instant::now();
        while !self.read(name).contains(text) {
            assert!(began.elapsed() < Duration::from_secs(120), "{name}: {}", self.read(name));
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn the_first_alarm_is_sent_and_a_warning_if_it_is_wanted() {
    let home = Home::new();
    home.alarm("an alarm before the start");
    let settings = home.command("cat >> out");
    let alarms = home.start(&settings);
    home.alert.line(Severity::Warning, "DATA", "a warning");
    home.alarm("the first alarm");
    home.wait_for("out", "ALARM DATA: the first alarm");
    alarms.end();
    let alarms = home.start(&Settings { severity: Severity::Warning, ..settings });
    home.alert.line(Severity::Warning, "DATA", "another warning");
    home.alert.line(Severity::Note, "DATA", "a note");
    home.alarm("the second alarm");
    home.wait_for("out", "the second alarm");
    alarms.end();
    let said = home.read("out");
    let texts: Vec<&str> =
        said.lines().filter_map(|line| Some(line.split_once("DATA: ")?.1)).collect();
    assert_eq!(texts, ["the first alarm", "another warning", "the second alarm"]);
}

#[test]
fn alarms_of_a_time_without_instance_are_sent_at_the_next_start() {
    let home = Home::new();
    let settings = home.command("cat >> out");
    home.start(&settings).end();
    home.alarm("nothing ran");
    let alarms = home.start(&settings);
    home.wait_for("out", "nothing ran");
    alarms.end();
    // Switched off, and on again.
    home.start(&Settings::default()).end();
    home.alarm("nothing was to be sent");
    let alarms = home.start(&settings);
    home.alarm("it is on again");
    home.wait_for("out", "it is on again");
    alarms.end();
    assert!(!home.read("out").contains("nothing was to be sent"));
}

#[test]
fn a_failure_is_one_warning_and_no_alarm() {
    let home = Home::new();
    let settings = Settings {
        severity: Severity::Warning,
        ..home.command("echo x >> runs; if [ -e good ]; then exit 0; fi; echo no route >&2; exit 1")
    };
    let alarms = home.start(&settings);
    home.alarm("disk A is offline");
    home.wait_for("alert.log", "it ended with exit status 1: no route. Alarms do not arrive");
    home.alarm("disk B is offline");
    home.wait_for("runs", "x\nx\n");
    assert!(alarms.test("a test").expect("tried")[0].1.is_some());
    fs::write(home.directory.path().join("good"), "").expect("written");
    assert_eq!(alarms.test("a test").expect("tried")[0].1, None);
    home.wait_for("alert.log", "it works again");
    alarms.end();
    let log = home.read("alert.log");
    assert_eq!(log.matches("WARNING alarm: command ").count(), 1, "{log}");
    assert_eq!(home.read("runs").lines().count(), 4);
}

#[test]
fn a_burst_is_few_messages_that_count_all() {
    let home = Home::new();
    let alarms = home.start(&home.command("cat >> out; echo count $PLINTH_COUNT >> out"));
    for number in 0..1000 {
        home.alert.line(Severity::Alarm, "DATA", &format!("disk D_{number} is offline"));
    }
    home.alarm("the last one");
    let counted = || -> u64 {
        let out = home.read("out");
        let counts =
            out.lines().filter_map(|line| line.strip_prefix("count ")?.parse::<u64>().ok());
        counts.sum()
    };
    let began = Instant::now();
    while counted() < 1001 {
        assert!(began.elapsed() < Duration::from_secs(120), "{}", home.read("out"));
        thread::sleep(Duration::from_millis(10));
    }
    alarms.end();
    assert_eq!(counted(), 1001);
    assert!(home.read("out").matches("count ").count() <= limiter::MESSAGES as usize);
}

#[test]
fn a_mail_goes_out_although_the_command_hangs() {
    let home = Home::new();
    let sendmail = home.script("sendmail", "echo \"$@\" > arguments; cat > mail");
    let settings = Settings {
        mail: addresses("dba@example.org").expect("an address"),
        sendmail,
        timeout: Duration::from_secs(1),
        ..home.command("exec sleep 1000")
    };
    let alarms = home.start(&settings);
    home.alarm("disk A is offline");
    home.wait_for("mail", "ALARM DATA: disk A is offline\n");
    assert_eq!(home.read("arguments"), "-t\n");
    home.wait_for("alert.log", "it had not ended after 1 s, and was ended");
    home.alarm("disk B is offline");
    home.wait_for("mail", "ALARM DATA: disk B is offline\n");
    alarms.end();
}

#[test]
fn a_program_that_is_not_there_is_reported_at_the_start() {
    let home = Home::new();
    let settings = Settings { command: vec!["/nowhere".to_owned()], ..Settings::default() };
    let alarms = home.start(&settings);
    home.wait_for("alert.log", "WARNING alarm: command /nowhere: it cannot be run: No such file");
    let tried = alarms.test("a test").expect("tried");
    assert!(tried[0].1.as_ref().is_some_and(|reason| reason.contains("No such file")));
    alarms.end();
    let nothing = home.start(&Settings::default());
    assert!(nothing.test("a test").is_err_and(|reason| reason.contains("set alarm-command")));
}
