//! Hints that name a statement or a command: a refusal has one, it is followed word by word, and
//! then the refused statement succeeds.
//!
//! The last test reads the sources: a new hint is found there, and must be added to the list of
//! those that are followed.

use plinth_tests::{Instance, MIB, header_places, overwrite, shell, wait_for};
use regex::Regex;
use std::{collections::BTreeSet, fs, path::Path};

/// The statements and commands that a text names, each up to where the sentence goes on.
fn named(said: &str) -> Vec<String> {
    let what = Regex::new(
        r"(?:ALTER (?:DISKGROUP|SYSTEM|USER)|DROP DISKGROUP|plinth (?:umount|nbd))\b[^;\n]*",
    )
    .expect("a pattern");
    let end = Regex::new(r": | (?:does|drops|goes|mounts|first|when)\b").expect("a pattern");
    let one = |found: regex::Match<'_>| {
        end.split(found.as_str()).next().unwrap_or_default().trim().to_owned()
    };
    // Behind the hint the statement itself is shown, with the place of the error.
    let hint = said.split("\nLINE 1:").next().unwrap_or_default();
    what.find_iter(hint).map(one).collect()
}

/// Follows a hint.
#[track_caller]
fn follow(instance: &Instance, what: &str) {
    match what.strip_prefix("plinth ") {
        Some(arguments) => {
            shell(&format!(r#""$PROGRAM" {arguments}"#))
                .env("PROGRAM", instance.program())
                .env("PLINTH_DIR", instance.dir())
                .ok();
        }
        None => drop(instance.sql(what)),
    }
}

/// A statement is refused, and the hint names statements.
#[track_caller]
fn hints(instance: &Instance, statement: &str) -> Vec<String> {
    let said = instance.refused(statement);
    let named = named(&said);
    assert!(!named.is_empty(), "{statement}: no hint names a statement: {said}");
    named
}

/// A statement is refused; the last one that its hint names is carried out, and then the statement
/// succeeds.
#[track_caller]
fn helps(instance: &Instance, statement: &str) {
    let named = hints(instance, statement);
    follow(instance, named.last().expect("one at least"));
    instance.sql(statement);
}

fn group(shape: &[&[u64]]) -> Instance {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", shape, "");
    instance
}

const TWO: &[&[u64]] = &[&[256 * MIB], &[256 * MIB]];

/// Mounting, dismounting, dropping, exporting.
#[test]
fn obstacles_that_a_hint_names_are_removed() {
    let instance = group(TWO);
    // Nothing to do but to mount it.
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    helps(&instance, "ALTER DISKGROUP data CHECK");
    // Mounted for administrators alone.
    instance.sql("ALTER DISKGROUP data DISMOUNT; ALTER DISKGROUP data MOUNT RESTRICTED");
    let point = instance.path("mnt").join("data");
    fs::create_dir(&point).expect("mkdir");
    let mount = || instance.plinth(["mount".as_ref(), "data".as_ref(), point.as_os_str()]);
    let said = named(&mount().refused());
    assert_eq!(said.len(), 2, "{said:?}");
    said.iter().for_each(|statement| follow(&instance, statement));
    mount().ok();
    // A directory, and one that is used.
    let file = fs::File::create(point.join("file")).expect("a file");
    drop(file);
    helps(&instance, "DROP DISKGROUP data INCLUDING CONTENTS");
    instance.create_group("data", "NORMAL", TWO, "");
    mount().ok();
    let file = fs::File::create(point.join("file")).expect("a file");
    let forced = hints(&instance, "ALTER DISKGROUP data DISMOUNT");
    follow(&instance, forced.last().expect("one"));
    drop(file);
    assert_eq!(instance.text("SELECT state FROM v$asm_diskgroup"), "DISMOUNTED");
    instance.sql("ALTER DISKGROUP data MOUNT");
    // Files in it, and FORCE that is for something else.
    let contents = hints(&instance, "DROP DISKGROUP data");
    assert_eq!(hints(&instance, "DROP DISKGROUP data FORCE INCLUDING CONTENTS"), contents);
    // An export: of a volume, of a file, of one that is used.
    instance.plinth(["volcreate", "-G", "data", "-s", "16M", "vol1"]).ok();
    instance.plinth(["nbd", "-G", "data", "vol1"]).ok();
    helps(&instance, "ALTER DISKGROUP data DROP VOLUME vol1");
    instance.plinth(["nbd", "+DATA/file", "--name", "it's another"]).ok();
    let ended = hints(&instance, "DROP DISKGROUP data INCLUDING CONTENTS");
    follow(&instance, ended.last().expect("one"));
    assert_eq!(instance.plinth(["nbd", "-H"]).ok(), "");
    let uri = instance.plinth(["nbd", "+DATA/file"]).ok().trim().to_owned();
    let mut client = shell(r#"exec qemu-io -r -f raw -c 'sleep 100000' "$1""#)
        .arg(&uri)
        .into_command()
        .spawn()
        .expect("a client");
    wait_for("the client", || {
        instance.number("SELECT COUNT(*) FROM v$asm_client WHERE client_type = 'NBD'") == 1.0
    });
    let forced = hints(&instance, "ALTER DISKGROUP data DISMOUNT");
    follow(&instance, forced.last().expect("one"));
    let _ = client.kill();
    let _ = client.wait();
    instance.sql("ALTER DISKGROUP data MOUNT");
    follow(&instance, contents.last().expect("one"));
    assert_eq!(instance.text("SELECT COUNT(*) FROM v$asm_diskgroup"), "0");
}

/// Disks that are not visible, and a group whose disks are not all there.
#[test]
fn hints_make_disks_visible() {
    let instance = group(TWO);
    // A disk outside of the discovery string, by its path and by a pattern.
    let outside = instance.path("outside");
    fs::create_dir(&outside).expect("mkdir");
    for name in ["one", "two"] {
        fs::File::create(outside.join(name))
            .and_then(|file| file.set_len(64 * MIB))
            .expect("a disk");
    }
    helps(
        &instance,
        &format!(
            "CREATE DISKGROUP one EXTERNAL REDUNDANCY DISK '{}'",
            outside.join("one").display()
        ),
    );
    helps(
        &instance,
        &format!(
            "CREATE DISKGROUP two EXTERNAL REDUNDANCY DISK '{}'",
            outside.join("tw*").display()
        ),
    );
    // A discovery string that hides a mounted disk.
    let named =
        hints(&instance, &format!("ALTER SYSTEM SET asm_diskstring = '{}/*'", outside.display()));
    let [shows, dismount] = &named[..] else { panic!("{named:?}") };
    assert!(dismount.ends_with("DATA DISMOUNT"), "{dismount}");
    // It names one disk at a time.
    let mut shows = shows.clone();
    for _ in 0..2 {
        let answer = instance.plinth(["sql", "-c", &shows]);
        if answer.code == Some(0) {
            break;
        }
        shows = plinth_hint(&answer.refused());
    }
    instance.sql(&shows);
    // Half of the voters.
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    fs::rename(instance.disk("f1d0"), instance.path("away")).expect("hidden");
    let named = hints(&instance, "ALTER DISKGROUP data MOUNT");
    follow(&instance, named.last().expect("one"));
    assert_eq!(instance.text("SELECT state FROM v$asm_diskgroup WHERE name = 'DATA'"), "MOUNTED");
}

#[track_caller]
fn plinth_hint(said: &str) -> String {
    named(said).first().cloned().unwrap_or_else(|| panic!("no statement: {said}"))
}

/// The failure groups of a group's extents: how many have two mirrors in one.
fn on_one_shelf(instance: &Instance) -> f64 {
    instance.number(
        "SELECT count(*) FROM (SELECT x.number_kffxp, x.xnum_kffxp FROM x$kffxp x, v$asm_disk_stat d
         WHERE x.group_kffxp = d.group_number AND x.disk_kffxp = d.disk_number
         GROUP BY x.number_kffxp, x.xnum_kffxp, d.failgroup HAVING count(*) > 1)",
    )
}

/// A disk that cannot be replaced by the one that is there: the hint puts that into the failure
/// group of the old one, and no extent has both mirrors in one failure group.
#[test]
fn a_dropped_disk_leaves_its_failure_group_to_its_replacement() {
    for size in [256, 200] {
        let instance = group(&[&[256 * MIB, 256 * MIB], &[256 * MIB, 256 * MIB]]);
        let mount = instance.mount("DATA");
        shell(r#"head -c 200M /dev/urandom > "$1/file""#).arg(&mount).ok();
        let spare = instance.add_disk("spare", size * MIB);
        let replace =
            format!("ALTER DISKGROUP data REPLACE DISK data_0001 WITH '{}'", spare.display());
        if size < 256 {
            // It is too small for one.
            instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0001");
        }
        let named = hints(&instance, &replace);
        follow(&instance, named.last().expect("one"));
        wait_for("the rebalance", || {
            instance.number("SELECT count(*) FROM v$asm_disk_stat WHERE name = 'DATA_0001'") == 0.0
                && instance.number("SELECT count(*) FROM v$asm_operation") == 0.0
        });
        let row = instance.disk_row(&spare);
        assert_eq!(
            (&row["failgroup"], &row["mode_status"]),
            (&"F0".into(), &"ONLINE".into()),
            "{row:?}"
        );
        assert!(instance.number("SELECT count(*) FROM x$kffxp") > 50.0, "nothing was looked at");
        assert_eq!(on_one_shelf(&instance), 0.0, "extents with both mirrors in one failure group");
        instance.unmount(&mount);
        instance.check("DATA");
    }
}

/// A disk of the very group that is altered: no hint says to drop that group.
#[test]
fn a_disk_of_the_group_itself_is_known() {
    let instance = group(TWO);
    let add = format!("ALTER DISKGROUP data ADD DISK '{}'", instance.disk("f1d0").display());
    for force in ["", " FORCE"] {
        let said = instance.refused(&format!("{add}{force}"));
        assert!(said.contains("is disk DATA_0001 of disk group DATA itself"), "{said}");
        assert!(
            !said.contains("drop that disk group") && !said.contains("drop disk group"),
            "{said}"
        );
    }
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0001");
    let named = hints(&instance, &add);
    follow(&instance, named.last().expect("one"));
    instance.wait_until_whole("DATA");
    assert_eq!(instance.offline_disks("DATA"), 0.0);
}

/// Missing rights, wrong values, contradictions.
#[test]
fn checks_scrubs_and_roles() {
    let mut instance = group(TWO);
    let port = instance.listen_with_tls();
    let as_viewer = |statement: &str| {
        shell(r#"PGPASSWORD=secret psql -X -v ON_ERROR_STOP=1 "host=127.0.0.1 port=$1 user=viewer sslmode=require" -c "$2""#)
            .arg(port.to_string())
            .arg(statement)
            .finish()
    };
    let online = "ALTER DISKGROUP data ONLINE ALL";
    let said = as_viewer(online).refused();
    follow(&instance, &plinth_hint(&said));
    as_viewer(online).ok();
    // It is the whole group that is not scrubbed any more.
    let named = hints(&instance, "ALTER DISKGROUP data SCRUB DISK data_0000 STOP");
    follow(&instance, named.last().expect("one"));
    // A copy of a header that is gone.
    let disk = instance.disk("f1d0");
    overwrite(&disk, header_places(&disk)[1], &[0; 4096]);
    let answer = instance.plinth(["sql", "-c", "ALTER DISKGROUP data CHECK NOREPAIR"]);
    if answer.code != Some(0) {
        follow(&instance, &plinth_hint(&answer.refused()));
    }
    instance.sql("ALTER DISKGROUP data CHECK NOREPAIR");
}

/// Texts in the sources that name a whole statement or command, for people: the test that follows
/// each, or why there is none.
const FOLLOWED: &[(&str, &str)] = &[
    ("ALTER DISKGROUP {name} MOUNT", "obstacles_that_a_hint_names_are_removed"),
    ("ALTER DISKGROUP {group} MOUNT", "the same, of an engine that is not there"),
    (
        "ALTER DISKGROUP {name} DISMOUNT; ALTER DISKGROUP {name} MOUNT",
        "obstacles_that_a_hint_names_are_removed",
    ),
    (
        "ALTER DISKGROUP {} DISMOUNT FORCE; the next mount recovers",
        "the same statement, in obstacles_that_a_hint_names_are_removed",
    ),
    (
        "end what uses it, or ALTER DISKGROUP {group} DISMOUNT FORCE",
        "obstacles_that_a_hint_names_are_removed",
    ),
    (
        "end what uses it, or ALTER DISKGROUP {} DISMOUNT FORCE",
        "obstacles_that_a_hint_names_are_removed",
    ),
    (
        "DROP DISKGROUP {} INCLUDING CONTENTS drops them too",
        "obstacles_that_a_hint_names_are_removed",
    ),
    ("DROP DISKGROUP {group} INCLUDING CONTENTS", "obstacles_that_a_hint_names_are_removed"),
    (
        "DROP DISKGROUP {name} INCLUDING CONTENTS",
        "the same statement, of an engine that is asked past the instance",
    ),
    ("plinth umount {}", "obstacles_that_a_hint_names_are_removed"),
    ("plinth nbd --stop {meant}", "obstacles_that_a_hint_names_are_removed"),
    ("ALTER SYSTEM SET asm_diskstring = '{diskstring},{wanted}'", "hints_make_disks_visible"),
    ("ALTER SYSTEM SET asm_diskstring = '{diskstring},{}'", "hints_make_disks_visible"),
    (
        "ALTER SYSTEM SET asm_diskstring = '{diskstring},{LABEL_PATH}*'",
        "a_file_gets_a_label_and_a_hint_makes_it_visible, of labels.rs",
    ),
    (
        "ALTER SYSTEM SET asm_diskstring = '{diskstring},{path}' does; or ALTER DISKGROUP {group} DISMOUNT first",
        "hints_make_disks_visible",
    ),
    ("ALTER DISKGROUP {group} MOUNT FORCE", "hints_make_disks_visible"),
    (
        "attach the disks that are missing, or make them readable; ALTER DISKGROUP {group} MOUNT FORCE does without \\ those commits, and what was synced with them may be lost",
        "the same statement, in hints_make_disks_visible",
    ),
    (
        "ALTER DISKGROUP {} ADD {within}DISK '{path}'{force} DROP DISK {}",
        "a_dropped_disk_leaves_its_failure_group_to_its_replacement",
    ),
    (
        "name another device; or ALTER DISKGROUP {group} ONLINE DISK {name}",
        "a_disk_of_the_group_itself_is_known",
    ),
    (
        "if it is what is meant, ALTER DISKGROUP {} ONLINE DISK {}",
        "a line of the alert log only; an_old_image_does_not_come_back_by_itself, a story of the engine",
    ),
    ("an administrator can say: ALTER USER {} ROLE {needed}", "checks_scrubs_and_roles"),
    ("ALTER DISKGROUP {} SCRUB STOP", "checks_scrubs_and_roles"),
    (
        "ALTER DISKGROUP {} SCRUB REPAIR first; V$ASM_ERROR says what failed on {names}",
        "the same statement, in a_scrub_finds_and_mends_rot of admin.rs",
    ),
    (
        "wait for it, or ALTER DISKGROUP {} SCRUB STOP",
        "the same statement, in checks_scrubs_and_roles",
    ),
    ("ALTER DISKGROUP {group} CHECK REPAIR", "checks_scrubs_and_roles"),
    (
        "ALTER DISKGROUP {} RECLAIM STOP ends it",
        "zeroes_are_written_over_what_is_free, of reclaim.rs",
    ),
    (
        "ALTER DISKGROUP {name} RECLAIM POWER n makes it faster, RECLAIM STOP ends it",
        "the same statements, in zeroes_are_written_over_what_is_free of reclaim.rs",
    ),
    (
        "ALTER DISKGROUP {} RECLAIM ZERO writes zeroes instead",
        "the same statement, in zeroes_are_written_over_what_is_free of reclaim.rs",
    ),
    (
        "ALTER DISKGROUP {group} ADD DISK {}",
        "a_group_without_mirrors_is_led_to_mirrors, of status.rs",
    ),
    (
        "ALTER DISKGROUP {group} ADD {}",
        "each_finding_of_a_mirrored_group_is_mended_by_the_statement_that_it_names, of status.rs",
    ),
    (
        "ALTER DISKGROUP {group} ONLINE DISKS IN FAILGROUP {name}",
        "each_finding_of_a_mirrored_group_is_mended_by_the_statement_that_it_names, of status.rs",
    ),
    (
        "ALTER DISKGROUP {group} REPLACE DISK {name} WITH {}",
        "each_finding_of_a_mirrored_group_is_mended_by_the_statement_that_it_names, of status.rs",
    ),
    (
        "ALTER DISKGROUP {group} ONLINE DISK {name}",
        "each_finding_of_a_mirrored_group_is_mended_by_the_statement_that_it_names, of status.rs",
    ),
    (
        "ALTER DISKGROUP {group} OFFLINE DISK {name}",
        "the same statement, given in the tests of status.rs",
    ),
    (
        "ALTER DISKGROUP {group} OFFLINE DISK {name}; ALTER DISKGROUP {group} REPLACE DISK {name} WITH {path}",
        "the same statements, one after the other, in the tests of status.rs",
    ),
    (
        "ALTER DISKGROUP {group} SCRUB REPAIR",
        "each_finding_of_a_mirrored_group_is_mended_by_the_statement_that_it_names, of status.rs",
    ),
    (
        "ALTER DISKGROUP {group} CONVERT REDUNDANCY TO NORMAL REBALANCE WAIT",
        "a_group_without_mirrors_is_led_to_mirrors, of status.rs",
    ),
    (
        "ALTER DISKGROUP {group} DISMOUNT; ALTER DISKGROUP {group} MOUNT",
        "how_a_group_is_mounted_is_seen, of status.rs",
    ),
    (
        "ALTER DISKGROUP {group} ONLINE ALL",
        "each_finding_of_a_mirrored_group_is_mended_by_the_statement_that_it_names, of status.rs",
    ),
    (
        "ALTER DISKGROUP {group} REBALANCE",
        "the same statement, of a rebalance that failed; the tests of add_drop.rs",
    ),
    (
        "ALTER DISKGROUP {group} RECLAIM",
        "the same statement, of a reclaim that failed; the tests of reclaim.rs",
    ),
    (
        "ALTER DISKGROUP {group} SET ATTRIBUTE {attribute} = '0'",
        "each_finding_of_a_mirrored_group_is_mended_by_the_statement_that_it_names, of status.rs",
    ),
    (
        "ALTER SYSTEM SET asm_preferred_read_failure_groups = {}",
        "each_finding_of_a_mirrored_group_is_mended_by_the_statement_that_it_names, of status.rs",
    ),
];

/// Every hint of the product that names a whole statement is followed by a test.
#[test]
fn every_hint_that_names_a_statement_is_followed() {
    fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(folder).expect("sources").flatten() {
            let path = entry.path();
            let name =
                path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if path.is_dir() && !["stories", "testing", "tests"].contains(&name.as_str()) {
                sources(&path, found);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for folder in ["engine/src", "server/src/engine", "server/src/instance", "server/src/sql"] {
        sources(&root.join(folder), &mut files);
    }
    assert!(files.len() > 100);
    // Statements that are written as a pattern have `...` in them.
    let literal = Regex::new(r#""((?:[^"\\]|\\.|\\\n)*)""#).expect("a pattern");
    let names = r"(?:ALTER (?:DISKGROUP|USER) \{|ALTER SYSTEM SET \w+ =|DROP DISKGROUP \{|plinth (?:umount|nbd) )";
    let names = Regex::new(names).expect("a pattern");
    let blank = Regex::new(r"\s+").expect("a pattern");
    // Lines of the alert log report events; the statements that they name are given when the cause
    // is mended.
    let lines = [
        "{error}. ",
        "{reason}",
        "{text}. ",
        "None is started again",
        "writes wait: ",
        "It should be replaced: ",
        "{who} is slow: ",
        "days ago: what has rotted",
    ];
    let is_line = |text: &str| lines.iter().any(|line| text.contains(line));
    let mut seen = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a source");
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: String = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .map(|line| format!("{line}\n"))
            .collect();
        for found in literal.captures_iter(&code) {
            let said = blank.replace_all(&found[1], " ").into_owned();
            if names.is_match(&said) && !is_line(&said) {
                assert!(
                    !said.contains("..."),
                    "{}: a hint that cannot be followed word by word: {said}",
                    file.display()
                );
                seen.insert(said);
            }
        }
    }
    let known: BTreeSet<String> = FOLLOWED.iter().map(|(hint, _)| (*hint).to_owned()).collect();
    let (new, gone): (Vec<_>, Vec<_>) =
        (seen.difference(&known).collect(), known.difference(&seen).collect());
    assert!(
        new.is_empty() && gone.is_empty(),
        "hints that no test follows: {new:#?}\nfollowed, and not there: {gone:#?}"
    );
}
