//! Alarms reach a person: a disk fails, and the command and sendmail of the operator have the line.

use plinth_tests::{Instance, MIB, Manager, shell, wait_for};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};

/// A program of the operator. It has the variable `OUT`: the test's own directory.
fn script(instance: &Instance, name: &str, text: &str) -> PathBuf {
    let path = instance.path(name);
    let out = instance.path("").display().to_string();
    fs::write(&path, format!("#!/bin/sh\nOUT={out}\n{text}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
    path
}

/// Starts the instance again with these options of `serve`.
fn restart(instance: &mut Instance, options: &[String]) {
    instance.kill_instance();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    instance.start_with(&options);
}

fn lines(instance: &Instance, name: &str, words: &str) -> usize {
    instance.read(name).lines().filter(|line| line.contains(words)).count()
}

/// The command writes down its input, what it knows from its environment, and its descriptors.
const NOTE: &str = r#"
cat >> "$OUT/lines"
printf '%s|%s|%s|%s\n' "$PLINTH_SEVERITY" "$PLINTH_GROUP" "$PLINTH_HOST" "$PLINTH_TEXT" \
    >> "$OUT/facts"
(exec >> "$OUT/descriptors"; exec ls -l /proc/self/fd)
plinth=$1
"$plinth" status > "$OUT/status" 2>&1
"#;

/// An engine writes the ALARM about its disk. The command of the instance has it, with the facts,
/// and with none of the descriptors that the instance holds for mounts; sendmail has a mail. The
/// next instance sends the line about a disk that failed while no instance ran.
#[test]
fn a_disk_fails_and_the_operator_is_told_also_by_the_next_instance() {
    let manager = Manager::new();
    let mut instance = Instance::under(&manager);
    let command = script(&instance, "page", NOTE);
    let sendmail = script(&instance, "sendmail", r#"echo "$@" > "$OUT/flags"; cat >> "$OUT/mail""#);
    let options = [
        format!("--alarm-command={}", command.display()),
        format!("--alarm-command={}", instance.program().display()),
        "--alarm-mail=dba@example.org".to_owned(),
        format!("--alarm-sendmail={}", sendmail.display()),
    ];
    let size = 256 * MIB;
    for disk in ["f1d0", "f2d0"] {
        instance.add_fault_disk(disk, size);
    }
    instance.create_group("data", "HIGH", &[&[size][..]; 5], "");
    let mount = instance.mount("DATA");
    restart(&mut instance, &options);
    instance.mount_again("DATA");

    let said = instance.plinth(["alarm", "test"]).ok();
    assert_eq!(said.matches(": sent\n").count(), 2, "{said}");
    assert_eq!(lines(&instance, "lines", "ALARM instance: this is a test"), 1);
    assert!(instance.read("mail").contains("plinth TEST instance: this is a test"));

    instance.faulty("f1d0").fail();
    let much = vec![7; 32 * MIB as usize];
    fs::write(mount.join("x"), &much).expect("the group goes on");
    wait_for("the command to have the line", || {
        lines(&instance, "lines", "disk DATA_0001 in failure group F1 is offline") == 1
    });
    wait_for("the mail", || {
        lines(&instance, "mail", "Subject: ") > 1
            && lines(&instance, "mail", "ALARM DATA: disk DATA_0001 in failure group F1") > 0
    });
    assert_eq!(instance.read("flags"), "-t\n");
    let mails = lines(&instance, "mail", "Subject: ");
    assert_eq!(lines(&instance, "mail", "To: dba@example.org"), mails);
    let host = String::from_utf8(Command::new("uname").arg("-n").output().expect("uname").stdout);
    let facts = format!("ALARM|DATA|{}|disk DATA_0001 in ", host.expect("words").trim());
    wait_for("the facts", || lines(&instance, "facts", &facts) > 0);
    wait_for("the status", || instance.read("status").contains("DISK OFFLINE"));
    let open = instance.read("descriptors");
    for name in ["/dev/fuse", ".sock", "socket:", "alert.log", "io_uring", "plinth.pid"] {
        assert!(!open.contains(name), "{name}: {open}");
    }

    instance.kill_instance();
    instance.faulty("f2d0").fail();
    fs::write(mount.join("y"), &much).expect("the engine goes on");
    wait_for("the line of the engine", || {
        instance.alert_log().contains("disk DATA_0002 in failure group F2 is offline")
    });
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    instance.start_with(&options);
    wait_for("the next instance to send it", || {
        lines(&instance, "lines", "disk DATA_0002 in failure group F2 is offline") == 1
    });
    for disk in ["f1d0", "f2d0"] {
        instance.faulty(disk).heal();
    }
}

/// Whatever the command does, statements are answered, one warning names the failure, and alarms go
/// on when it has been repaired.
#[test]
fn a_command_that_hangs_or_fails_is_one_warning_and_holds_up_nothing() {
    let mut instance = Instance::new();
    let command = script(
        &instance,
        "page",
        r#"cat >> "$OUT/lines"
           if [ -e "$OUT/good" ]; then exit 0; fi
           trap '' TERM
           sleep 1000 & echo $! $$ >> "$OUT/pids"
           wait; sleep 1000"#,
    );
    let options =
        [format!("--alarm-command={}", command.display()), "--alarm-timeout=1s".to_owned()];
    restart(&mut instance, &options);
    let said = instance.plinth(["alarm", "test"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.err.contains("it had not ended after 1 s, and was ended"), "{said}");
    for pid in instance.read("pids").split_whitespace() {
        wait_for("the command and what it has started to be gone", || {
            fs::read(format!("/proc/{pid}/cmdline")).map_or(true, |line| line.is_empty())
        });
    }
    instance.plinth(["alarm", "test"]).refused();
    let failed = "WARNING alarm: command ";
    assert_eq!(instance.alert_log().matches(failed).count(), 1, "{}", instance.alert_log());
    fs::write(instance.path("good"), "").expect("written");
    instance.plinth(["alarm", "test"]).ok();
    wait_for("the note", || instance.alert_log().contains("it works again"));
    assert_eq!(lines(&instance, "lines", "this is a test"), 3);

    restart(&mut instance, &[]);
    let refused = instance.plinth(["alarm", "test"]).refused();
    assert!(refused.contains("set alarm-command or alarm-mail"), "{refused}");
}

/// An engine that is killed again and again writes one ALARM after the other. The operator gets the
/// first at once and no other of its kind.
#[test]
fn a_burst_of_alarms_is_one_message() {
    let mut instance = Instance::new();
    let command = script(&instance, "page", r#"cat >> "$OUT/lines""#);
    let size = 256 * MIB;
    instance.create_group("data", "NORMAL", &[&[size], &[size]], "");
    restart(&mut instance, &[format!("--alarm-command={}", command.display())]);
    let alarms = |instance: &Instance| lines(instance, "run/alert.log", " ALARM DATA: its engine ");
    while alarms(&instance) < 4 {
        let pid = instance.engine("DATA").expect("an engine");
        shell("kill -9 \"$1\"").arg(pid.to_string()).ok();
        wait_for("the next engine", || {
            instance.engine("DATA").is_some_and(|next| next != pid)
                && instance.try_query("SELECT 1 FROM v$asm_file").is_some()
        });
    }
    wait_for("the first of them", || lines(&instance, "lines", "ALARM DATA: its engine") == 1);
    // A test comes after all that was written before it.
    instance.plinth(["alarm", "test"]).ok();
    wait_for("the test", || lines(&instance, "lines", "this is a test") == 1);
    assert_eq!(
        lines(&instance, "lines", "ALARM DATA: its engine"),
        1,
        "{}",
        instance.read("lines")
    );
}
