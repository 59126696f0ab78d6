//! Tables of the shell as `awk` reads them: every row has as many words as every other, each at its
//! place, whatever state the thing is in that the row is about.
//!
//! Columns that `asmcmd` leaves blank for every disk without sites, labels and a library are blank
//! here, too, so that the words of a row are where scripts for `asmcmd` count them.

use plinth_tests::{Instance, MIB, binary, shell};
use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command},
};

/// Words in each row of what a command prints.
type Row = Vec<String>;

/// The words of the heading, and those of each row; there is one at least.
#[track_caller]
fn table(instance: &Instance, command: &str) -> (Row, Vec<Row>) {
    let said = instance.plinth(command.split(' ')).ok();
    let mut rows: Vec<Row> =
        said.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
    assert!(rows.len() > 1, "{command}: no rows:\n{said}");
    let heading = rows.remove(0);
    (heading, rows)
}

/// A program with a blank in its name that has a file open; ended when it is dropped.
struct Program(Child);

impl Program {
    fn with_open(instance: &Instance, file: &std::path::Path) -> Self {
        let path = instance.path("my program");
        let sleep = shell("command -v sleep").ok();
        fs::copy(sleep.trim(), &path).expect("a copy of sleep");
        let open = File::open(file).expect("a file");
        Self(Command::new(path).arg("1000").stdin(open).spawn().expect("it starts"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// DATA has a disk that is offline and gone, a quorum disk, files, volumes and users, and is
/// mounted on a directory; AWAY is not mounted; WIDE waits with a rebalance. One disk is a
/// candidate and one a FORMER member.
fn many_states() -> (Instance, PathBuf) {
    let instance = Instance::new();
    let [a, b, q, w, x, d, former, _free] = ["a", "b", "q", "w", "x", "d", "former", "free"]
        .map(|name| instance.add_disk(name, 256 * MIB).display().to_string());
    for statement in [
        format!(
            "CREATE DISKGROUP data NORMAL REDUNDANCY FAILGROUP s1 DISK '{a}' FAILGROUP s2 DISK '{b}'
             QUORUM FAILGROUP q DISK '{q}' ATTRIBUTE ('au_size' = '1M')"
        ),
        format!("CREATE DISKGROUP wide EXTERNAL REDUNDANCY DISK '{w}'"),
        format!("ALTER DISKGROUP wide ADD DISK '{x}' REBALANCE POWER 0"),
        format!("CREATE DISKGROUP away EXTERNAL REDUNDANCY DISK '{d}'"),
        "ALTER DISKGROUP away DISMOUNT".to_owned(),
        format!("CREATE DISKGROUP gone EXTERNAL REDUNDANCY DISK '{former}'"),
        "DROP DISKGROUP gone".to_owned(),
        "ALTER DISKGROUP data ADD USER 'root'".to_owned(),
        "ALTER DISKGROUP data ADD USERGROUP 'root' WITH MEMBER 'root'".to_owned(),
        "ALTER DISKGROUP data ADD VOLUME vol1 SIZE 16M".to_owned(),
        "CREATE USER viewer PASSWORD 'not a secret' ROLE LOOK".to_owned(),
    ] {
        instance.sql(&statement);
    }
    let mount = instance.mount("DATA");
    fs::create_dir(mount.join("db")).expect("mkdir");
    fs::write(mount.join("db/file"), vec![7; 3 << 20]).expect("write");
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0001");
    fs::remove_file(&b).expect("the disk is gone");
    (instance, mount)
}

/// Every table, with many states in it: each row has the words that its heading promises.
#[test]
fn every_row_has_as_many_words_as_every_other() {
    let (instance, mount) = many_states();
    let _program = Program::with_open(&instance, &mount.join("db/file"));
    let scan = format!("lsdsk -I -kp {}", instance.path("disks/*").display());
    // A command, the words of its heading and those of each row.
    for (command, heading, words) in [
        ("lsdg", 14, 14),
        ("lsdg -g", 15, 15),
        ("ls -l +", 14, 14),
        ("lsdsk", 1, 1),
        ("lsdsk -k", 17, 10),
        ("lsdsk -kg", 18, 11),
        ("lsdsk -k --candidate", 17, 10),
        ("lsdsk -p", 8, 8),
        ("lsdsk -t", 4, 4),
        ("lsdsk --statistics", 10, 10),
        ("lsdsk -kptg --statistics", 37, 30),
        (&scan, 8, 8),
        ("lsod", 4, 5),
        ("lsof", 3, 3),
        ("lsct", 6, 6),
        ("lsct -g data", 7, 7),
        ("lsop", 9, 9),
        ("lsattr", 1, 1),
        ("lsattr -l", 2, 2),
        ("lsattr -lm", 5, 5),
        ("iostat", 4, 4),
        ("iostat -et", 8, 8),
        ("iostat -et --io --region", 12, 12),
        ("volstat", 10, 10),
        ("lspwusr", 4, 4),
        ("lstmpl -l -G data data%", 9, 9),
        ("lsusr", 3, 3),
        ("lsusr -a", 4, 4),
        ("lsgrp", 3, 3),
        ("lsgrp -a", 4, 4),
        ("groups data root", 1, 1),
        ("du +data", 2, 2),
        ("ls -l +data/db", 6, 8),
        ("ls -s +data/db", 5, 5),
        ("ls --permission +data/db", 4, 4),
        ("mapextent +data/db/file 0", 3, 3),
    ] {
        let (found, rows) = table(&instance, command);
        assert_eq!(found.len(), heading, "{command}: {found:?}");
        for row in rows {
            assert_eq!(row.len(), words, "{command}: {row:?}");
        }
    }
}

/// The words are at the places at which scripts for `asmcmd` look for them.
#[test]
fn words_are_where_scripts_count_them() {
    let (instance, mount) = many_states();
    let (_, rows) = table(&instance, "lsdg");
    let names: Vec<&str> = rows.iter().map(|row| &*row[13]).collect();
    assert_eq!(names, ["AWAY/", "DATA/", "WIDE/"], "{rows:?}");
    assert_eq!(rows[0][..3], ["DISMOUNTED", "-", "N"]);
    let (_, rows) = table(&instance, "lsdsk -k -G data");
    for (row, (name, group, kind)) in rows.iter().zip([
        ("DATA_0000", "S1", "REGULAR"),
        ("DATA_0001", "S2", "REGULAR"),
        ("DATA_0002", "Q", "QUORUM"),
    ]) {
        assert_eq!(row[3..5], [name, group], "{row:?}");
        assert_eq!(row[5..9], [&*"0".repeat(32), kind, "System", "UNKNOWN"], "{row:?}");
    }
    assert_eq!(rows[1][9], "-", "a disk that is gone has no path");
    let (_, rows) = table(&instance, "lsdsk -t -G data");
    let date = |word: &str| {
        let parts: Vec<&str> = word.split('-').collect();
        parts.iter().map(|part| part.len()).collect::<Vec<_>>() == [2, 3, 2]
            && parts[1].bytes().all(|byte| byte.is_ascii_uppercase())
    };
    assert!(rows.iter().all(|row| date(&row[0]) && date(&row[1])), "{rows:?}");
    // A file of another year has as many words as one of today.
    File::options()
        .write(true)
        .open(mount.join("db/file"))
        .and_then(|file| {
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000))
        })
        .expect("a time");
    fs::create_dir(mount.join("db/inner")).expect("mkdir");
    fs::write(mount.join("db/today"), "x").expect("write");
    let (heading, rows) = table(&instance, "ls -l +data/db");
    assert_eq!(heading, ["Type", "Redund", "Striped", "Time", "Sys", "Name"]);
    let of = |name: &str| {
        rows.iter().find(|row| row.last().is_some_and(|last| last == name)).expect("a row")
    };
    assert_eq!(of("file")[3..], ["SEP", "09", "2001", "N", "file"]);
    assert_eq!(of("today").len(), of("file").len());
    assert_eq!(*of("inner/"), ["N", "inner/"]);
}

/// Quorum disks have a size, and a disk that was dropped has no name any more: in the view, in the
/// list, and in the list without an instance.
#[test]
fn quorum_disks_have_a_size_and_former_disks_no_name() {
    let (instance, _mount) = many_states();
    let of = |column: &str| {
        instance.number(&format!("SELECT {column} FROM v$asm_disk WHERE failgroup_type = 'QUORUM'"))
    };
    assert_eq!((of("os_mb"), of("cold_used_mb")), (256.0, 0.0));
    let (total, free) = (of("total_mb"), of("free_mb"));
    assert!(total > 240.0 && total < 256.0 && free == total, "{total} MiB, free {free}");
    // The group's own figures are those of its data.
    let whole = "SELECT total_mb FROM v$asm_diskgroup WHERE name = 'DATA'";
    assert!(instance.number(whole) < 512.0);
    let former = instance.disk_row(&instance.disk("former"));
    assert_eq!(former["header_status"], "FORMER");
    for column in ["name", "failgroup", "label"] {
        assert!(former[column].is_null(), "{column}: {former:?}");
    }
    assert_eq!(former["reads"], former["write_errs"]);
    for command in ["lsdsk -k".to_owned(), format!("lsdsk -I -k {}", instance.disk("*").display())]
    {
        let (heading, rows) = table(&instance, &command);
        let name = heading.iter().position(|word| word == "Name").expect("a column");
        let path = instance.disk("former").display().to_string();
        let row = rows.iter().find(|row| row.last() == Some(&path)).expect("a row");
        assert_eq!(row[name..name + 2], ["-", "-"], "{command}");
    }
}

/// A volume that is not there is named, by every command that is given one, and the exit code is 1.
#[test]
fn missing_volumes_are_refused_by_name() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    assert_eq!(instance.plinth(["volinfo", "--all"]).ok(), "no volumes found\n");
    instance.plinth(["volcreate", "-G", "data", "-s", "16M", "--primary", "cold", "there"]).ok();
    for command in [
        "volinfo -G data",
        "volstat -G data",
        "voldelete -G data",
        "volenable -G data",
        "voldisable -G data",
        "volresize -G data -s 32M",
        "volresize -f -G data -s 32M",
        "volset -G data --usagestring x",
    ] {
        let said = instance.plinth(command.split(' ').chain(["nosuch"]));
        assert_eq!(said.code, Some(1), "{command}: {said}");
        assert!(said.refused().contains("NOSUCH"), "{command}");
    }
    for command in ["volinfo --all", "volinfo -a", "volinfo -G data -a", "volinfo -G data --all"] {
        let said = instance.plinth(command.split(' ')).ok();
        assert!(said.contains("Diskgroup Name: DATA\n\n\t Volume Name: THERE\n"), "{said}");
    }
    for (command, flag, code) in [
        ("volcreate -G data -s 16M --secondary hot v", "--secondary hot", 1),
        ("volinfo --show_volume /dev/asm/there-1", "--show_volume", 2),
    ] {
        let said = instance.plinth(command.split(' '));
        assert_eq!(said.code, Some(code), "{said}");
        assert!(said.refused().contains(flag), "{command}");
    }
}

/// Commands about clusters, parameter files and passwords say what is so, or do the work, or are
/// refused.
#[test]
fn commands_about_the_instance_say_what_is_so() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let ok = |command: &str| instance.plinth(command.split(' ')).ok();
    let version = ok("showversion").trim().to_owned();
    let version = version.rsplit(' ').next().expect("a version");
    assert_eq!(ok("showversion --active"), format!("Plinth version : {version}\n"));
    assert_eq!(
        ok("showversion --softwarepatch"),
        format!("Plinth version      : {version}\nSoftware patchlevel : 0\n")
    );
    assert_eq!(ok("showclustermode"), "ASM cluster : Flex mode disabled\n");
    assert_eq!(ok("showclusterstate"), "Normal\n");
    assert!(ok("showpatches").contains("List of Patches") && ok("showpatches -l").contains("[0]"));
    let file = ok("spget").trim().to_owned();
    assert_eq!(ok("pwget --asm").trim(), file);
    let settings = fs::read_to_string(&file).expect("the file is there");
    assert!(settings.contains("diskstring"), "{settings}");
    let copy = instance.path("copy").display().to_string();
    ok(&format!("spbackup {file} {copy}"));
    assert_eq!(fs::read_to_string(&copy).expect("copied"), settings);
    ok(&format!("spcopy {file} +data/spfile"));
    let back = instance.path("back").display().to_string();
    ok(&format!("cp +data/spfile {back}"));
    assert_eq!(fs::read_to_string(&back).expect("copied"), settings);
    ok(&format!("spset {file}"));
    for refused in [
        "spset /elsewhere/instance.json".to_owned(),
        format!("spmove {file} {copy}"),
        format!("spcopy -u {file} {copy}2"),
        format!("spbackup {file} {copy}"),
        format!("spbackup /etc/hosts {copy}2"),
        "pwset --asm +data/orapwasm".to_owned(),
        "pwget --dbuniquename orcl".to_owned(),
        "cp --target ASM +data/spfile /tmp/x".to_owned(),
        "cp --service_name orcl +data/spfile /tmp/x".to_owned(),
    ] {
        let said = instance.plinth(refused.split(' '));
        assert_eq!(said.code, Some(1), "{refused}: {said}");
        said.refused();
    }
    assert!(!instance.path("copy2").exists());
    assert_eq!(ok("lspwusr"), "Username  sysdba  sysoper  sysasm\n");
    instance.sql("CREATE USER night PASSWORD 'not a secret' ROLE OPERATE");
    let (_, rows) = table(&instance, "lspwusr");
    assert_eq!(rows, [["NIGHT", "FALSE", "TRUE", "FALSE"]]);
    let engine = instance.engine("DATA").expect("it runs").to_string();
    let (_, rows) = table(&instance, "lsod -G data");
    let disks = ["f0d0", "f1d0"].map(|name| instance.disk(name).display().to_string());
    for (row, disk) in rows.iter().zip(&disks) {
        assert_eq!((&row[0], &row[3], &row[4]), (&"1".to_owned(), &engine, disk), "{row:?}");
    }
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(ok("lsod --process LGWR -H"), "");
    // Nothing moves: the heading alone, as of asmcmd.
    assert_eq!(ok("lsop").lines().count(), 1);
}

/// Unknown commands are refused as in the shell; commands that only `asmcmd` has are refused with
/// what is used instead; wrong flags are something else.
#[test]
fn unknown_commands_and_flags_of_asmcmd() {
    let instance = Instance::new();
    instance.create_group("data", "EXTERNAL", &[&[256 * MIB]], "");
    let link = instance.path("asmcmd");
    std::os::unix::fs::symlink(binary(), &link).expect("link");
    let run = |program: &std::path::Path, words: &str| {
        let script = format!("exec \"$1\" {words}");
        shell(&script).arg(program).env("PLINTH_DIR", instance.dir()).finish()
    };
    for program in [binary(), link.clone()] {
        let said = run(&program, "nonsense +data");
        assert_eq!(said.code, Some(1), "{said}");
        assert!(said.err.starts_with("ASMCMD-8022: unknown command 'nonsense' specified\n"));
        let said = run(&program, "afd_refresh");
        assert_eq!(said.code, Some(1), "{said}");
        assert!(
            said.err.contains("'afd_refresh'") && said.err.contains("labels are read"),
            "{said}"
        );
        assert_eq!(run(&program, "lsdg --nonsense").code, Some(2));
    }
    let version = env!("CARGO_PKG_VERSION");
    for flag in ["-V", "--version"] {
        assert_eq!(run(&link, flag).ok(), format!("asmcmd version {version}\n"));
        assert_eq!(run(&binary(), flag).ok(), format!("plinth {version}\n"));
    }
    for flags in [
        "-a sysasm",
        "--privilege SYSDBA",
        "--nocp",
        "-v errors",
        "--discover",
        "--inst +ASM",
        "--inst +asm1 -p",
    ] {
        assert_eq!(run(&link, &format!("{flags} ls +")).ok(), "DATA/\n", "{flags}");
    }
    for (flags, why) in [("--inst +ASM2 ls +", "+ASM"), ("-v loud ls +", "loud")] {
        let said = run(&link, flags);
        assert_eq!(said.code, Some(2), "{said}");
        assert!(said.err.contains(why), "{said}");
    }
    // Deprecated flags that scripts still have.
    assert_eq!(run(&link, "ls -ltr +data").ok(), "");
    assert_eq!(run(&link, "ls -a +").ok(), "DATA/\n");
}
