//! The shell, `plinth` without a command: its output stands in `tests/transcripts`, line by line.
//!
//! A transcript is a session: a line with the prompt is a command, the lines after it the answer. A
//! test gives the commands to a shell of its own instance and compares its whole output with the
//! transcript; once as a table is printed, once with `--json`. Values that cannot be the same twice
//! are replaced first: times, identities, counters (`VOLATILE`), and the test's directory, which is
//! `/TEST`.
//!
//! `PLINTH_TRANSCRIPTS=write` writes the transcripts anew; then the diff shows what has changed for
//! users.

use plinth_tests::{Finished, Instance, MIB, binary, shell, wait_for};
use plinth_workload::lock;
use regex::Regex;
use std::{
    fs,
    io::{Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// Columns with numbers that differ each time.
const VOLATILE: [&str; 31] = [
    "Free_MB",
    "Usable_file_MB",
    "Incarn",
    "Repair_Timer",
    "Reads",
    "Write",
    "Writes",
    "Cold_Reads",
    "Cold_Writes",
    "Read_time",
    "Read_Time",
    "Write_Time",
    "Bytes_Read",
    "Bytes_Written",
    "Read_MB",
    "Write_MB",
    "Read_ms",
    "Write_ms",
    "EST_WORK",
    "EST_RATE",
    "EST_TIME",
    "SOFAR",
    "Sofar",
    "Power",
    "User_Num",
    "OS_ID",
    "AU",
    "File_Num",
    "bytes_read",
    "extents_checked",
    "Instance_Name",
];

/// AU is the unit of a disk group, and always the same there.
fn is_volatile(heading: &str, headings: &str) -> bool {
    VOLATILE.contains(&heading) && !(heading == "AU" && headings.contains("Logical_Sector"))
}

/// A session without values that cannot be the same twice.
fn steady(said: &str, instance: &Instance) -> String {
    let home = instance.path("");
    let said = said.replace(home.to_str().expect("a path in words").trim_end_matches('/'), "/TEST");
    let said = replaced(&said, r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "YYYY-MM-DD HH:MM:SS");
    let said = replaced(&said, r"\b[A-Z]{3} \d\d \d\d:\d\d:\d\d\b", "MON DD HH:MM:SS");
    let said = replaced(&said, r"\b\d\d-[A-Z]{3}-\d\d\b", "DD-MON-RR");
    // As far behind as the directory's name is long.
    let said = replaced(&said, r"near position \d+", "near position N");
    let said = replaced(&said, r"\.\d+\.\d{10}\b", ".NUMBER.INCARNATION");
    let said = replaced(&said, r#""[0-9a-f]{32}""#, r#""an-id""#);
    // In a table it is as wide as it was, so that columns stay where they are.
    let said = replaced(&said, r"\b[0-9a-f]{32}\b", &format!("{:32}", "an-id"));
    let said = replaced(&said, r"\d+(\.\d+)? [KM]iB read", "N read");
    let said = replaced(&said, r"\d+ extents? checked", "N extents checked");
    // Other tests are about the list of attributes.
    let said = replaced(&said, "attributes are .*", "attributes are ...");
    let names = VOLATILE.join("|");
    // In JSON; AU without a name of a group beside it is a place on a disk.
    let said = replaced(&said, &format!(r#""({names})": "?[0-9.]+"?"#), r##""$1": "#""##);
    let are_headings = Regex::new(r"^ *[A-Z][A-Za-z_]*(  +[A-Z][A-Za-z_]*)+$").expect("a pattern");
    let mut lines: Vec<String> = Vec::new();
    // Those of the table that is being read.
    let mut headings = String::new();
    for line in said.lines() {
        if line.is_empty() || line.starts_with("ASMCMD") || line.starts_with("plinth:") {
            headings.clear();
        } else if headings.is_empty() && are_headings.is_match(line) {
            line.clone_into(&mut headings);
        }
        if headings.is_empty() {
            lines.push(line.to_owned());
        } else {
            lines.push(replaced(&masked(line, &headings), " {2,}", "  "));
        }
    }
    lines.join("\n") + "\n"
}

fn replaced(text: &str, pattern: &str, by: &str) -> String {
    Regex::new(pattern).expect("a pattern").replace_all(text, by).into_owned()
}

/// A line of a table with `#` in place of each number under a volatile heading: numbers end where
/// their heading does.
fn masked(line: &str, headings: &str) -> String {
    if line == headings {
        return line.to_owned();
    }
    let mut bytes: Vec<u8> = line.bytes().collect();
    let mut end = 0;
    for heading in headings.split(' ') {
        end += heading.len();
        if is_volatile(heading, headings) {
            let mut at = end.min(bytes.len());
            while at > 0 && (bytes[at - 1].is_ascii_digit() || bytes[at - 1] == b'.') {
                at -= 1;
                bytes[at] = b' ';
                bytes[end - 1] = b'#';
            }
        }
        end += 1;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn transcript(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts").join(name)
}

/// The commands of a transcript.
fn commands(name: &str) -> Vec<String> {
    let path = transcript(name);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let prompt = Regex::new(r"^ASMCMD \[[^\]]*\] > (.*)$").expect("a pattern");
    text.lines().filter_map(|line| prompt.captures(line).map(|found| found[1].to_owned())).collect()
}

/// Gives lines to a shell.
fn session(instance: &Instance, lines: &str, flags: &str) -> Finished {
    let input = instance.path("session");
    fs::write(&input, lines).expect("write");
    let script = format!("cd \"$3\"; exec \"$1\" -p --echo {flags} < \"$2\" 2>&1");
    shell(&script)
        .arg(binary())
        .arg(&input)
        .arg(instance.path(""))
        .env("PLINTH_DIR", instance.dir())
        .finish()
}

/// Plays a transcript on an instance with four free disks, in both ways.
fn play(name: &str) {
    for (flags, file) in [("", format!("{name}.txt")), ("--json", format!("{name}.json.txt"))] {
        let instance = Instance::new();
        for disk in ["a", "b", "c", "d"] {
            instance.add_disk(disk, 256 * MIB);
        }
        fs::write(instance.path("users01.dbf"), vec![7; 3_000_000]).expect("write");
        fs::write(instance.path("system01.dbf"), vec![9; 70_000]).expect("write");
        let home = instance.path("");
        let home = home.to_str().expect("a path in words").trim_end_matches('/').to_owned();
        let lines: String = commands(&format!("{name}.txt"))
            .iter()
            .map(|line| line.replace("/TEST", &home) + "\n")
            .collect();
        let said = session(&instance, &lines, flags);
        assert!(said.code.is_some_and(|code| code < 2) && !said.out.contains("panicked"), "{said}");
        let found = steady(&said.out, &instance);
        let path = transcript(&file);
        if std::env::var_os("PLINTH_TRANSCRIPTS").is_some_and(|what| what == "write") {
            fs::write(&path, &found).expect("write");
            continue;
        }
        let wanted =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let Some((line, (wanted, found))) = wanted
            .lines()
            .zip(found.lines())
            .enumerate()
            .find(|(_, (wanted, found))| wanted != found)
        {
            panic!(
                "{file}, line {}:\n  wanted {wanted}\n  found  {found}\n\n{}",
                line + 1,
                said.out
            );
        }
        assert_eq!(
            wanted.lines().count(),
            found.lines().count(),
            "{file} ends elsewhere:\n{found}"
        );
    }
}

/// Disk groups are made from XML, changed, listed, checked, mounted, written down and made again.
#[test]
fn disk_groups() {
    play("groups");
}

/// Disks are listed in every way, go away and come back, and are replaced.
#[test]
fn disks() {
    play("disks");
}

/// Files and directories: paths in any case, wildcards, copies in, out and between groups.
#[test]
fn files() {
    play("files");
}

/// Names that the system gives, aliases, templates.
#[test]
fn names() {
    play("names");
}

/// The instance's reports of itself, and its messages for wrong commands.
#[test]
fn instance_and_errors() {
    play("instance");
}

/// The instance, a mounted group DATA, and a file beside it of this many MiB that has no two pieces
/// alike.
fn with_file(megabytes: usize) -> (Instance, PathBuf) {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[1024 * MIB], &[1024 * MIB]], "'au_size' = '1M'");
    let path = instance.path("big");
    let mut bytes = vec![0; megabytes << 20];
    let mut state = 1_u64;
    for word in bytes.chunks_exact_mut(8) {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word.copy_from_slice(&state.to_le_bytes());
    }
    fs::write(&path, bytes).expect("write");
    (instance, path)
}

/// The bytes that a copy found there already.
fn resumed(said: &str) -> u64 {
    let copied: serde_json::Value = serde_json::from_str(said).expect("JSON");
    copied[0]["Resumed"].as_u64().expect("a number")
}

/// The name of a copy that was interrupted, in a folder of the host.
fn part(folder: &Path) -> Option<PathBuf> {
    let names = fs::read_dir(folder).expect("folder").map(|entry| entry.expect("entry").path());
    names.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "part"))
}

/// A copy out of a group is killed in the middle: its name stays with the old bytes, and the same
/// command goes on where it was. Pieces that were spoiled meanwhile are not believed but written
/// again.
#[test]
fn a_copy_out_goes_on_where_it_was() {
    let (instance, big) = with_file(40);
    instance.plinth(["cp".as_ref(), big.as_os_str(), "+DATA/big".as_ref()]).ok();
    let folder = instance.path("out");
    fs::create_dir(&folder).expect("folder");
    let to = folder.join("copy");
    fs::write(&to, "the old bytes").expect("write");
    // The kernel ends a program that writes beyond the limit: here 16 MiB. Four pieces of 4 MiB are
    // written at once, in any order: of those below the limit three may not have been written, and
    // one at least was.
    let said = shell("ulimit -f 32768; exec \"$1\" cp +data/big \"$2\"").arg(binary()).arg(&to);
    let said = said.env("PLINTH_DIR", instance.dir()).finish();
    assert_eq!(said.code, None, "it was to be killed: {said}");
    assert_eq!(fs::read(&to).expect("read"), b"the old bytes");
    let half = part(&folder).expect("what was copied is kept");
    let mut bytes = fs::read(&half).expect("read");
    let original = fs::read(&big).expect("read");
    let pieces = bytes.chunks(4 << 20).zip(original.chunks(4 << 20)).enumerate();
    let written: Vec<usize> =
        pieces.filter_map(|(at, (copied, all))| (copied == all).then_some(at)).collect();
    // The last of them is spoiled.
    let spoiled = *written.last().expect("a whole piece");
    bytes[(spoiled << 22) + 7] ^= 1;
    fs::write(&half, &bytes).expect("write");
    let said = instance
        .plinth(["--json".as_ref(), "cp".as_ref(), "+DATA/BIG".as_ref(), to.as_os_str()])
        .ok();
    let kept = resumed(&said);
    assert_eq!(kept, (written.len() as u64 - 1) << 22, "written were {written:?}");
    assert!(fs::read(&to).expect("read") == original, "the copy differs");
    assert_eq!(part(&folder), None);
}

/// A copy into a group is killed in the middle, at some time or other, until some of it was there:
/// the file keeps its old bytes until the new ones are complete.
#[test]
fn a_copy_into_a_group_goes_on_where_it_was() {
    let (instance, big) = with_file(160);
    let old = instance.path("old");
    fs::write(&old, "the old bytes").expect("write");
    let copy = |from: &Path| {
        instance.plinth(["--json".as_ref(), "cp".as_ref(), from.as_os_str(), "+DATA/copy".as_ref()])
    };
    let back = instance.path("back");
    let bytes = || {
        instance.plinth(["cp".as_ref(), "+DATA/copy".as_ref(), back.as_os_str()]).ok();
        fs::read(&back).expect("read")
    };
    for attempt in 1_u32.. {
        assert!(attempt < 20, "never interrupted in the middle");
        copy(&old).ok();
        let mut command = Command::new(binary());
        command.env("PLINTH_DIR", instance.dir()).args([
            "cp".as_ref(),
            big.as_os_str(),
            "+DATA/copy".as_ref(),
        ]);
        let mut child = command.stdout(Stdio::null()).spawn().expect("plinth cp");
        wait_for("a part of the copy", || {
            child.try_wait().expect("wait").is_some()
                || instance.plinth(["ls", "-s", "+DATA"]).ok().lines().any(|line| {
                    let size =
                        line.split_whitespace().nth(2).and_then(|size| size.parse::<u64>().ok());
                    line.ends_with(".part") && size.is_some_and(|size| size > 8 << 20)
                })
        });
        let killed = child.kill().is_ok() && !child.wait().expect("wait").success();
        if killed && instance.plinth(["ls", "+DATA"]).ok().contains(".part") {
            assert_eq!(bytes(), b"the old bytes");
            assert!(resumed(&copy(&big).ok()) > 0, "it began anew");
            break;
        }
    }
    assert!(bytes() == fs::read(&big).expect("read"), "the copy differs");
    assert_eq!(instance.plinth(["ls", "+DATA"]).ok(), "copy\n");
    instance.check("DATA");
}

/// Many files of all sizes are copied at once, in and out, and are the same.
#[test]
fn a_tree_is_copied_in_and_out() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "'au_size' = '1M'");
    let tree = instance.path("tree");
    fs::create_dir_all(tree.join("sub/empty")).expect("folders");
    let sizes = [0, 1, 4095, 4096, 65_536, 65_537, 1 << 20, 4 << 20, (4 << 20) + 1, 9_000_001];
    for (at, size) in sizes.iter().enumerate() {
        let folder = if at % 2 == 0 { tree.clone() } else { tree.join("sub") };
        let bytes: Vec<u8> = (0..*size).map(|byte: usize| (byte / 3 + at) as u8).collect();
        fs::write(folder.join(format!("file {at}")), bytes).expect("write");
    }
    let copy = |from: &Path, to: &Path| {
        instance.plinth(["cp".as_ref(), "-r".as_ref(), from.as_os_str(), to.as_os_str()]).ok()
    };
    copy(&tree, "+data/".as_ref());
    copy("+DATA/TREE".as_ref(), "+data/second".as_ref());
    let back = instance.path("back");
    copy("+data/second".as_ref(), &back);
    shell("diff -r \"$1\" \"$2\"").arg(&tree).arg(&back).ok();
    instance.check("DATA");
}

/// Called `asmcmd`, with the flags that scripts give to that; and without an instance the shell
/// prints that and ends.
#[test]
fn scripts_for_asmcmd() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let link = instance.path("asmcmd");
    std::os::unix::fs::symlink(binary(), &link).expect("link");
    let run = |script: &str, dir: PathBuf| shell(script).arg(&link).env("PLINTH_DIR", dir).finish();
    assert_eq!(run("\"$1\" --nocp --privilege sysdba ls +", instance.dir()).ok(), "DATA/\n");
    let said = run(
        "echo 'cd +data' | \"$1\" -p && \"$1\" --privilege sysasm lsdg --suppressheader",
        instance.dir(),
    )
    .ok();
    assert!(said.contains("DATA/") && !said.contains("Total_MB"), "{said}");
    let said = run("\"$1\" < /dev/null", instance.path("elsewhere")).refused();
    assert!(said.contains("ASMCMD-8102") && said.contains("plinth serve"), "{said}");
}

/// Where two names differ in case only, the exact one is meant, and another way to write it is
/// refused.
#[test]
fn names_that_differ_in_case_only() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    fs::create_dir(mount.join("Db")).expect("mkdir");
    fs::write(mount.join("Db/Case"), "one").expect("write");
    fs::write(mount.join("Db/case"), "other").expect("write");
    let list = |path: &str| instance.plinth(["ls", "--absolutepath", path]);
    assert_eq!(list("+data/db/Case").ok(), "+DATA/Db/Case\n");
    assert_eq!(list("+data/DB/case").ok(), "+DATA/Db/case\n");
    let said = list("+data/db/CASE").refused();
    assert!(
        said.contains("may be") && said.contains("'Case'") && said.contains("'case'"),
        "{said}"
    );
    assert_eq!(list("+data/db/C*").ok(), "+DATA/Db/Case\n+DATA/Db/case\n");
    let back = instance.path("back");
    instance.plinth(["cp".as_ref(), "+data/DB/case".as_ref(), back.as_os_str()]).ok();
    assert_eq!(fs::read_to_string(&back).expect("read"), "other");
}

/// Files that programs have open are listed with the program; others are not.
#[test]
fn open_files_are_listed() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    fs::create_dir(mount.join("db")).expect("mkdir");
    fs::write(mount.join("db/closed"), "x").expect("write");
    let file = fs::File::create(mount.join("db/open")).expect("create");
    let said = instance.plinth(["lsof", "--json", "-G", "data"]).ok();
    let rows: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(rows.as_array().expect("rows").len(), 1, "{said}");
    assert_eq!(rows[0]["Path"], "+DATA/db/open");
    assert_eq!(rows[0]["Instance_Name"], std::process::id().to_string());
    assert_eq!(instance.plinth(["lsof", "-H", "-C", "1"]).ok(), "");
    drop(file);
    assert_eq!(instance.plinth(["lsof"]).ok(), "DB_Name  Instance_Name  Path\n");
}

/// Commands that await other features are refused as such; no command prints a message that belongs
/// to the server's dialect.
#[test]
fn every_command_speaks_as_the_server_understands() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    fs::write(instance.path("file"), vec![1; 1 << 20]).expect("write");
    let lines = "cp /TEST/file +data/file
        lstmpl -l
        mktmpl -G data --striping fine --redundancy high mine
        chtmpl -G data --redundancy mirror mine
        lstmpl -l -G data m%
        rmtmpl -G data mine
        mkalias +data/file +data/alias
        ls -l +data
        ls -L +data/alias
        rmalias +data/alias
        mkusr data root
        lsusr -a -G data r%
        mkgrp data root root
        grpmod --delete data root root
        grpmod --add data root root
        lsgrp -a -G data
        groups data root
        chown root +data/file
        chown root:root +data/file
        chgrp root +data/file
        chmod 640 +data/file
        chmod g-r,o+r +data/file
        rmgrp data root
        rmusr data root
        rmusr -r data root
        mkusr data root
        rpusr data root daemon
        lspwusr
        lsod -G data
        volcreate -G data -s 16M --column 2 --width 64K --redundancy mirror vol1
        volinfo -G data vol1
        volinfo -a
        volset -G data --usagestring x --mountpath /y vol1
        volenable -G data vol1
        voldisable -a
        volresize -f -G data -s 32M vol1
        volstat -G data
        voldelete -G data vol1
        cp /TEST/file +data/file
        mapextent +data/file 0
        mapau 1 0 20
        lsct data
        lsct -g
        remap data data_0000 0-7
        dropdg -rf data
        mount --restrict data";
    let home = instance.path("");
    let lines =
        lines.replace("/TEST", home.to_str().expect("a path in words").trim_end_matches('/'));
    let said = session(&instance, &lines, "");
    assert_eq!(said.out.matches("ASMCMD [+] > ").count(), lines.lines().count(), "{said}");
    for wrong in ["syntax error", "no such column", "ambiguous", "panicked", "\nUsage:"] {
        assert!(!said.out.contains(wrong), "{wrong}: {said}");
    }
}

/// A program on its own terminal.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    seen: Arc<Mutex<String>>,
    reader: thread::JoinHandle<()>,
    /// Each answer is waited for, behind the one before.
    from: usize,
}

impl Terminal {
    fn new(instance: &Instance, arguments: &str) -> Self {
        let mut command = Command::new("script");
        command.args([
            "-qec",
            &format!("stty rows 40 cols 200; {} {arguments}", binary().display()),
            "/dev/null",
        ]);
        command
            .env("PLINTH_DIR", instance.dir())
            .env("HOME", instance.path(""))
            .env("TERM", "xterm");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("util-linux has script");
        let seen = Arc::new(Mutex::new(String::new()));
        let mut out = child.stdout.take().expect("piped");
        let shared = Arc::clone(&seen);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                lock(&shared).push_str(&text);
            }
        });
        let keys = child.stdin.take().expect("piped");
        Self { child, keys, seen, reader, from: 0 }
    }

    /// Types, and waits for an answer.
    fn step(&mut self, typed: &str, answer: &str) {
        self.keys
            .write_all(typed.as_bytes())
            .and_then(|()| self.keys.flush())
            .expect("the terminal");
        wait_for(answer, || {
            let seen = lock(&self.seen);
            let found = seen.get(self.from..).and_then(|new| new.find(answer));
            self.from += found.map_or(0, |at| at + answer.len());
            found.is_some()
        });
    }

    /// Waits until the program has ended by itself.
    fn ends(mut self) {
        wait_for("the program to end", || self.child.try_wait().expect("wait").is_some());
        self.reader.join().expect("the terminal's reader");
    }
}

/// On a terminal: names are completed with the tab key, the prompt follows, `exit` ends it; lines
/// are remembered.
#[test]
fn a_person_at_a_terminal() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    instance.plinth(["mkdir", "+data/Oradata"]).ok();
    let mut terminal = Terminal::new(&instance, "-p");
    let mut step = |typed: &str, answer: &str| terminal.step(typed, answer);
    step("", "ASMCMD [+] > ");
    step("mkd\t", "mkd");
    step("\x15cd +da\t", "cd +DATA/");
    step("or\t", "cd +DATA/Oradata/");
    step("\r", "ASMCMD [+DATA/Oradata] > ");
    step("volc\t", "volcreate ");
    step("--red\t", "--redundancy ");
    step("\x15help lsa\t", "help lsattr");
    step("\x15pwd\r", "+DATA/Oradata\r\n");
    step("cp /etc/hostn\t", "cp /etc/hostname ");
    step("+da\tora\tblank\\ name\r", "copying /etc/hostname -> +DATA/Oradata/blank name");
    step("", "ASMCMD [+DATA/Oradata] > ");
    step("ls -s bl\t\r", "blank name\r\n");
    step("iostat 1\r", "DATA_0001");
    // Ctrl-C ends the command, not the shell.
    step("\x03", "ASMCMD [+DATA/Oradata] > ");
    step("top 1\r", "plinth top, every 1 s");
    step("", "Read_MB_s");
    step("q", "ASMCMD [+DATA/Oradata] > ");
    step("exit\r", "exit");
    terminal.ends();
    let history = instance.read(".plinth_shell_history");
    assert!(history.contains("cd +DATA/Oradata/") && history.contains("pwd"), "{history}");
}

/// The tab key completes only names of groups for a command that takes a group; and disks, and
/// failure groups.
#[test]
fn names_of_groups_and_disks_are_completed() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let disk = instance.add_disk("other", 256 * MIB);
    instance.sql(&format!("CREATE DISKGROUP away EXTERNAL REDUNDANCY DISK '{}'", disk.display()));
    instance.sql("ALTER DISKGROUP away DISMOUNT");
    let mut terminal = Terminal::new(&instance, "-p");
    terminal.step("", "ASMCMD [+] > ");
    for (typed, completed) in [
        ("chkdg d\t", "chkdg DATA "),
        ("chkdg +d\t", "chkdg +DATA "),
        ("umount \t", "umount DATA "),
        ("mount \t", "mount AWAY "),
        ("mount d\t", "mount DATA "),
        ("lsdg a\t", "lsdg AWAY "),
        ("rebal --power 4 \t", "rebal --power 4 DATA "),
        ("lsdsk -kG \t", "lsdsk -kG DATA "),
        ("offline -G data -D \t", "offline -G data -D DATA_000"),
        ("cd d\t", "cd DATA/"),
    ] {
        terminal.step(&format!("\x15{typed}"), completed);
    }
    terminal.step("\x15exit\r", "exit");
    terminal.ends();
}

/// On a terminal a / alone runs the statement before it, as from a pipe; Ctrl-C cancels a statement
/// that runs, and the next one is carried out.
#[test]
fn sql_at_a_terminal() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mut terminal = Terminal::new(&instance, "sql");
    terminal.step("", "plinth> ");
    terminal.step("SELECT name || '_s' AS found\r", " -> ");
    terminal.step("FROM v$asm_diskgroup\r", " -> ");
    terminal.step("/\r", "DATA_s");
    // In a string it is part of it.
    terminal.step("SELECT 'a\r", " -> ");
    terminal.step("/\r", " -> ");
    terminal.step("' || lower('BC') AS x;\r", "bc");
    terminal.step("", "plinth> ");
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000000) \
                   SELECT count(*) FROM n;\r";
    terminal.step(endless, "FROM n;");
    thread::sleep(Duration::from_millis(500));
    terminal.step("\x03", "cancel");
    terminal.step("", "plinth> ");
    terminal.step("SELECT name || '_t' AS found FROM v$asm_diskgroup;\r", "DATA_t");
    terminal.step("", "plinth> ");
    terminal.step("\\q\r", "\\q");
    terminal.ends();
}

/// At a terminal variables and ACCEPT ask, and a script goes on with the prompt behind it.
#[test]
fn a_user_is_asked_at_a_terminal() {
    let instance = Instance::new();
    let mut terminal = Terminal::new(&instance, "sql");
    terminal.step("", "plinth> ");
    terminal.step("set pages 0 feedback off\r", "plinth> ");
    terminal.step("select '<' || '&what' || '>' from dual;\r", "Enter value for what: ");
    terminal.step("an answer\r", "<an answer>");
    terminal.step("", "plinth> ");
    terminal.step("accept secret prompt 'Say: ' hide\r", "Say: ");
    terminal.step("hidden\r", "plinth> ");
    terminal.step("prompt [&secret]\r", "[hidden]");
    terminal.step("", "plinth> ");
    terminal.step("exit 3\r", "exit 3");
    terminal.ends();
}

/// A group, a disk or an AU that is not there is refused by every list; a / behind a group's name
/// is taken, a ; is not.
#[test]
fn missing_groups_and_disks_are_refused() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for command in ["lsdg", "lsct", "lsop", "lsdsk -G", "lsattr -G", "iostat -G", "lsof -G"] {
        for name in ["nosuch", "data;"] {
            let said = instance.plinth(words(&format!("{command} {name}")));
            assert_eq!(said.code, Some(1), "{command} {name}: {said}");
            let wanted = format!("ASMCMD-8001: diskgroup '{}' does not exist", name.to_uppercase());
            assert!(said.refused().contains(&wanted), "{command} {name}");
        }
        instance.plinth(words(&format!("{command} +data/"))).ok();
    }
    instance.plinth(["lsdg", "no*"]).ok();
    for (line, why) in [
        ("mapau 9 0 0", "diskgroup '9' does not exist"),
        ("mapau 0 0 0", "diskgroup '0' does not exist"),
        ("mapau 1 9 0", "disk group DATA has no disk 9"),
        ("mapau 1 0 1000000", "disk DATA_0000 of disk group DATA has no AU 1000000"),
    ] {
        let said = instance.plinth(words(line));
        assert_eq!(said.code, Some(1), "{line}: {said}");
        assert!(said.refused().contains(why), "{line}");
    }
    instance.plinth(["mapau", "1", "0", "50"]).ok();
    instance.plinth(["chkdg", "data/"]).ok();
    instance.plinth(["check", "DATA/"]).ok();
    instance.plinth(["umount", "DATA/"]).ok();
    instance.plinth(["mount", "data/"]).ok();
    instance.plinth(["umount", "+DATA/"]).ok();
}

/// Without an instance every command gives the same message, with the remedy.
#[test]
fn without_an_instance_every_command_says_so() {
    let instance = Instance::new();
    let elsewhere = instance.path("elsewhere");
    for script in
        ["\"$1\" lsdg", "echo lsdg | \"$1\"", "\"$1\" sql -c 'SELECT 1'", "\"$1\" shutdown"]
    {
        let said = shell(script).arg(binary()).env("PLINTH_DIR", &elsewhere).finish().refused();
        let socket = elsewhere.join("control.sock");
        let wanted = format!(
            "ASMCMD-8102: no connection to the instance: {}: No such file",
            socket.display()
        );
        assert!(said.starts_with(&wanted) && said.contains("plinth serve"), "{script}: {said}");
    }
}

/// The manual page and the completions of other shells name every command that help names, and are
/// valid.
#[test]
fn the_manual_and_the_completions_are_complete() {
    let run = |args: &[&str]| {
        let program = shell("exec \"$@\"").arg(binary());
        args.iter().fold(program, |program, arg| program.arg(arg)).ok()
    };
    let manual = run(&["man"]);
    let help = run(&["--help"]);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .map_while(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 60, "{help}");
    let completions: Vec<String> =
        ["bash", "zsh", "fish"].iter().map(|shell| run(&["completions", shell])).collect();
    for command in commands {
        assert!(manual.contains(&format!(".SS {command}\n")), "plinth.1 has no {command}");
        assert!(run(&["help", command]).contains("Usage: "), "no help of {command}");
        for text in &completions {
            assert!(text.contains(command), "no completion of {command}");
        }
    }
    assert!(
        !manual
            .lines()
            .any(|line| line.starts_with('.') && !line.starts_with("..") && line.len() < 3),
        "{manual}"
    );
    shell("bash -n <<< \"$1\"").arg(&completions[0]).ok();
    // As bash itself would ask.
    let script = "source /dev/stdin <<< \"$1\"; COMP_WORDS=(plinth lsd); COMP_CWORD=1; _plinth plinth lsd plinth; echo ${COMPREPLY[@]}";
    assert_eq!(shell(script).arg(&completions[0]).ok().trim(), "lsdg lsdsk");
}

/// A mount point is relative to the current directory, and may be a link; a name without a slash is
/// a group's, and the message says what else it may be.
#[test]
fn mount_points_are_relative_to_the_current_directory() {
    let instance = Instance::new();
    instance.create_group("data", "EXTERNAL", &[&[256 * MIB]], "");
    let home = instance.path("homes");
    fs::create_dir_all(home.join("inner")).expect("a directory");
    fs::create_dir(home.join("mnt")).expect("a directory");
    std::os::unix::fs::symlink("mnt", home.join("link")).expect("a link");
    let folder = binary().parent().expect("a program is in a folder").display().to_string();
    let search = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let in_home = |script: &str| {
        let script = format!("cd \"$1\" && {script}");
        shell(&script).arg(&home).env("PLINTH_DIR", instance.dir()).env("PATH", &search).finish()
    };
    for (mount, umount) in [
        ("./mnt", "mnt/"),
        ("inner/../mnt", "./link"),
        ("./link", "inner/../link"),
        ("mnt/", "../homes/mnt"),
    ] {
        in_home(&format!("plinth mount data {mount} && mountpoint -q mnt")).ok();
        in_home(&format!("plinth umount {umount} && ! mountpoint -q mnt")).ok();
    }
    let refused = in_home("plinth mount data mnt");
    assert!(
        refused.code == Some(1) && refused.err.contains("plinth mount data ./mnt"),
        "{refused}"
    );
    // A variable that is empty does not count: there is no instance in the default place, and the
    // message says so.
    let asked = shell("plinth lsdg").env("PLINTH_DIR", "").env("PATH", &search).finish();
    assert!(!asked.err.contains("a value is required") && asked.code != Some(2), "{asked}");
}

/// `-c` several times: one after the other, until one is refused.
#[test]
fn statements_are_given_several_times() {
    let instance = Instance::new();
    let all = instance
        .plinth(["sql", "-c", "SELECT 1 AS one", "-c", "SELECT 2 AS two; SELECT 3 AS three"])
        .ok();
    assert!(["one", "two", "three"].iter().all(|name| all.contains(name)), "{all}");
    let some = instance.plinth([
        "sql",
        "-c",
        "SELECT 1 AS one",
        "-c",
        "SELECT nothing FROM nowhere",
        "-c",
        "SELECT 3 AS three",
    ]);
    assert!(
        some.code == Some(1) && some.out.contains("one") && !some.out.contains("three"),
        "{some}"
    );
}

/// A mount becomes read-only and writable again while it is used, by `plinth` and by `mount`, whose
/// helper is called as `mount` calls it; an engine that dies changes nothing, and an instance that
/// comes later makes it again as it was last.
#[test]
fn a_mount_gets_other_options() {
    let mut instance = Instance::new();
    instance.create_group("data", "EXTERNAL", &[&[256 * MIB]], "");
    let mount = instance.mount("DATA");
    fs::write(mount.join("file"), "x").expect("written");
    let told = |options: &str| {
        instance.plinth(["mount", "-o", options, "DATA", mount.to_str().expect("words")])
    };
    let is_writable = || fs::write(mount.join("file"), "y").is_ok();
    let helped = |options: &str| {
        let mut helper = Command::new(binary());
        helper
            .arg0("mount.fuse.plinth")
            .arg("DATA")
            .arg(&mount)
            .arg("-o")
            .arg(options)
            .env("PLINTH_DIR", instance.dir());
        helper.status().expect("the helper runs").success()
    };
    let shown = ",noatime,remount,user_id=0,group_id=0,default_permissions,allow_other";
    for _ in 0..2 {
        told("remount,ro").ok();
        assert!(!is_writable());
        told("remount,rw").ok();
        assert!(is_writable());
        assert!(helped(&format!("ro{shown}")) && !is_writable());
        assert!(helped(&format!("rw{shown}")) && is_writable());
    }
    let open = fs::File::options().write(true).open(mount.join("file")).expect("it is there");
    let refused = told("remount,ro");
    assert!(refused.code == Some(1) && refused.err.contains("is in use by"), "{refused}");
    assert!(is_writable());
    drop(open);
    let elsewhere = instance.plinth(["mount", "-o", "remount,ro", "DATA", "/tmp/"]);
    assert!(
        elsewhere.code == Some(1) && elsewhere.err.contains("nothing is mounted on /tmp"),
        "{elsewhere}"
    );
    told("remount,ro").ok();
    instance.replace_engine("DATA");
    wait_for("the next engine", || fs::read(mount.join("file")).is_ok());
    assert!(!is_writable());
    let printed =
        fs::read_to_string(instance.dir().join("engine.DATA.log")).expect("what engines printed");
    assert!(!printed.contains("NOTE"), "it is no second alert log: {printed}");
    instance.plinth(["shutdown"]).ok();
    instance.stopped();
    instance.start();
    let mount = instance.mount_again("DATA");
    assert!(fs::write(mount.join("file"), "z").is_err(), "it was read-only");
}
