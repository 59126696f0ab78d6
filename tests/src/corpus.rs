//! The scripts of `tests/corpus`: their heads, their pieces, and the values in their output that
//! cannot be the same twice.
//!
//! A script is a file `NAME.sql` or `NAME.sh` in a folder of its kind; `NAME.out` beside it has its
//! output and its exit code. It begins with a comment that says what it is for. Comments below
//! that, up to the first other line, are for the tests:
//!
//!   usage: COMMAND       how it is run, in its folder; else `sqlplus -S / as sysasm @NAME`
//!   mask: HEADING, ...   columns of tables whose values differ each time
//!   mask: /PATTERN/      texts that differ: the groups of the pattern, or all of it
//!   refused: CODE, ...   the errors that it must print; every other error is a failure
//!   fault: TEXT          why it does not print the expected output yet
//!
//! Scripts are written so that a simple reader can cut them: a client command is a line, continued
//! by a `-` at its end; a statement begins a line and ends with `;` at the end of a line, or with a
//! line that is `/`. A comment never ends with `;`.

use crate::{Instance, MIB, binary};
use regex::{Captures, Regex};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A script and the lines in its head that are for the tests.
#[derive(Debug, Clone)]
pub struct Script {
    /// Its folder and name: `space/groups`.
    pub name: String,
    pub path: PathBuf,
    pub text: String,
    /// The bash command that runs it.
    pub usage: String,
    masks: Vec<Mask>,
    /// The errors that it must print.
    pub refused: Vec<String>,
    /// Why it does not print the expected output, if that is known. The output was not recorded
    /// but written.
    pub fault: Option<String>,
}

#[derive(Debug, Clone)]
enum Mask {
    /// The column with this heading.
    Column(String),
    Pattern(Regex),
}

/// A part of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Lines that are empty or a comment.
    Comment(String),
    /// A client command, with the lines that continue it.
    Command(String),
    /// A statement, without its terminator.
    Statement(String, Terminator),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminator {
    /// `;` at the end of the last line.
    Semicolon,
    /// A line that is `/`.
    Slash,
    /// The end of the text.
    None,
}

/// Words with which statements of the corpus begin.
const STATEMENTS: [&str; 6] = ["SELECT", "WITH", "ALTER", "CREATE", "DROP", "EXPLAIN"];

/// The folder of the corpus.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// All scripts, in the order of their names.
///
/// # Panics
/// If one cannot be read, or does not say what it is for.
#[must_use]
pub fn scripts() -> Vec<Script> {
    let entries = |path: &Path| -> Vec<PathBuf> {
        let listed =
            fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut paths: Vec<_> = listed.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    };
    let is_script =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "sql" || end == "sh");
    let folders = entries(&folder()).into_iter().filter(|path| path.is_dir());
    folders
        .flat_map(|path| entries(&path))
        .filter(is_script)
        .map(|path| Script::read(&path))
        .collect()
}

impl Script {
    fn read(path: &Path) -> Self {
        let text =
            fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let kind = path.parent().and_then(Path::file_name).expect("a folder").to_string_lossy();
        let mut script = Self {
            name: format!("{kind}/{stem}"),
            path: path.to_owned(),
            usage: format!("sqlplus -S / as sysasm @{stem}"),
            masks: Vec::new(),
            refused: Vec::new(),
            fault: None,
            text,
        };
        let head: Vec<String> = script
            .text
            .lines()
            .filter(|line| !line.starts_with("#!"))
            .map_while(|line| line.strip_prefix("--").or_else(|| line.strip_prefix('#')))
            .map(|line| line.trim().to_owned())
            .collect();
        assert!(!head.is_empty(), "{}: it does not say what it is for", script.name);
        for line in &head[1..] {
            script.take(line);
        }
        script
    }

    fn take(&mut self, line: &str) {
        let list = |words: &str| words.split(',').map(|word| word.trim().to_owned()).collect();
        if let Some(usage) = line.strip_prefix("usage: ") {
            usage.clone_into(&mut self.usage);
        } else if let Some(codes) = line.strip_prefix("refused: ") {
            self.refused = list(codes);
        } else if let Some(fault) = line.strip_prefix("fault: ") {
            self.fault = Some(fault.to_owned());
        } else if let Some(masks) = line.strip_prefix("mask: ") {
            match masks.strip_prefix('/').and_then(|pattern| pattern.strip_suffix('/')) {
                Some(pattern) => {
                    let pattern = Regex::new(&format!("(?m){pattern}"));
                    let pattern = pattern.unwrap_or_else(|error| panic!("{}: {error}", self.name));
                    self.masks.push(Mask::Pattern(pattern));
                }
                None => {
                    let columns: Vec<String> = list(masks);
                    self.masks.extend(columns.into_iter().map(Mask::Column));
                }
            }
        }
    }

    /// Where its expected output is.
    #[must_use]
    pub fn expected(&self) -> PathBuf {
        self.path.with_extension("out")
    }

    /// Its output without the values that this script says differ each time.
    #[must_use]
    pub fn steady(&self, said: &str) -> String {
        let mut said = said.to_owned();
        let mut columns = Vec::new();
        for mask in &self.masks {
            match mask {
                Mask::Column(name) => columns.push(name.as_str()),
                Mask::Pattern(pattern) => said = masked(&said, pattern),
            }
        }
        if columns.is_empty() { said } else { without_columns(&said, &columns) }
    }

    /// Its client commands and statements, if it is one for SQL*Plus.
    #[must_use]
    pub fn pieces(&self) -> Vec<Piece> {
        if self.path.extension().is_some_and(|end| end == "sql") {
            pieces(&self.text)
        } else {
            Vec::new()
        }
    }
}

/// Cuts a text as the corpus is written; see the top of this file.
#[must_use]
pub fn pieces(text: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    let mut in_comment = false;
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if in_comment || trimmed.starts_with("/*") {
            in_comment = !trimmed.contains("*/");
            found.push(Piece::Comment(line.to_owned()));
            continue;
        }
        let word: String = trimmed
            .chars()
            .take_while(char::is_ascii_alphabetic)
            .collect::<String>()
            .to_uppercase();
        let is_comment = trimmed.is_empty()
            || trimmed.starts_with("--")
            || ["REM", "REMARK"].contains(&word.as_str());
        if is_comment {
            found.push(Piece::Comment(line.to_owned()));
        } else if STATEMENTS.contains(&word.as_str()) || trimmed.starts_with('(') {
            let mut statement = String::new();
            let mut line = Some(line);
            let mut terminator = Terminator::None;
            while let Some(next) = line {
                if next.trim() == "/" {
                    terminator = Terminator::Slash;
                    break;
                }
                if !statement.is_empty() {
                    statement.push('\n');
                }
                if let Some(last) = next.trim_end().strip_suffix(';') {
                    statement.push_str(last);
                    terminator = Terminator::Semicolon;
                    break;
                }
                statement.push_str(next);
                line = lines.next();
            }
            found.push(Piece::Statement(statement, terminator));
        } else {
            let mut command = line.to_owned();
            while command.trim_end().ends_with('-') && lines.peek().is_some() {
                command.push('\n');
                command.push_str(lines.next().unwrap_or_default());
            }
            found.push(Piece::Command(command));
        }
    }
    found
}

/// `#` in place of the groups of a pattern, or of all of it if it has none.
fn masked(said: &str, pattern: &Regex) -> String {
    pattern
        .replace_all(said, |found: &Captures<'_>| {
            let all = found.get(0).expect("the whole match");
            let groups: Vec<_> = found.iter().skip(1).flatten().collect();
            if groups.is_empty() {
                return "#".to_owned();
            }
            let mut text = String::new();
            let mut at = all.start();
            for group in groups {
                text.push_str(&said[at..group.start()]);
                text.push('#');
                at = group.end();
            }
            text.push_str(&said[at..all.end()]);
            text
        })
        .into_owned()
}

/// `#` in place of each value under these headings. A table is a line of dashes below its
/// headings; a line of dashes within a table, under sums, has no other places than that one.
fn without_columns(said: &str, names: &[&str]) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let mut out = Vec::new();
    // Of the present table: where its columns are, and which of them are masked.
    let mut table: Vec<(usize, usize)> = Vec::new();
    let mut hidden: Vec<(usize, usize)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let places = dashes(line);
        if !places.is_empty() {
            if places.iter().any(|place| !table.contains(place)) {
                let is_hidden = |place: &&(usize, usize)| {
                    names.contains(&heading(&lines[..at], **place).as_str())
                };
                hidden = places.iter().filter(is_hidden).copied().collect();
                table = places;
            }
            out.push((*line).to_owned());
            continue;
        }
        let mut characters: Vec<char> = line.chars().collect();
        for (start, end) in &hidden {
            let end = (*end).min(characters.len());
            if *start >= end || characters[*start..end].iter().all(|letter| *letter == ' ') {
                continue;
            }
            // The headings of the next page.
            let text: String = characters[*start..end].iter().collect();
            if names.iter().any(|name| name.split(' ').any(|word| word == text.trim())) {
                continue;
            }
            characters[*start..end].fill(' ');
            characters[end - 1] = '#';
        }
        out.push(characters.into_iter().collect::<String>().trim_end().to_owned());
    }
    out.join("\n") + "\n"
}

/// The places of a line that is nothing but dashes and blanks.
fn dashes(line: &str) -> Vec<(usize, usize)> {
    if line.is_empty() || line.chars().any(|character| character != '-' && character != ' ') {
        return Vec::new();
    }
    let mut places = Vec::new();
    let mut start = None;
    for (at, character) in line.chars().chain([' ']).enumerate() {
        match (start, character) {
            (None, '-') => start = Some(at),
            (Some(begin), ' ') => {
                places.push((begin, at));
                start = None;
            }
            _ => {}
        }
    }
    places
}

/// The heading above a place, of one or several lines.
fn heading(above: &[&str], (start, end): (usize, usize)) -> String {
    let lines = above.iter().rev().take_while(|line| !line.is_empty());
    let mut words: Vec<String> = lines
        .map(|line| {
            line.chars().skip(start).take(end - start).collect::<String>().trim().to_owned()
        })
        .filter(|word| !word.is_empty())
        .collect();
    words.reverse();
    words.join(" ")
}

/// The parts of the outputs of all scripts that cannot be the same twice.
#[must_use]
pub fn common(said: &str, instance: &Instance) -> String {
    let home = instance.path("");
    let home = home.to_str().expect("a path in words").trim_end_matches('/');
    let mut said = said.replace(home, "/TEST");
    for (pattern, by) in [
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "YYYY-MM-DD HH:MM:SS"),
        (r"\.\d+\.\d{9,10}\b", ".NUMBER.INCARNATION"),
        (r"\b[0-9a-f]{32}\b", "an-id"),
        (r"\d+(\.\d+)? [KM]iB read", "N read"),
        (r"\d+ extents? checked", "N extents checked"),
        (r"(?m)[ \t]+$", ""),
    ] {
        said = Regex::new(pattern).expect("a pattern").replace_all(&said, by).into_owned();
    }
    said
}

/// An instance with the disk groups of the corpus, and the clients under their usual names in
/// `bin`.
///
/// | group | | |
/// | --- | --- | --- |
/// | DATA | NORMAL | three failure groups with two disks each; a database's files, a volume |
/// | FRA | EXTERNAL | two disks; archived logs and a backup |
/// | ARCH | HIGH | three failure groups with a disk each; a dump |
/// | OLD | NORMAL | two disks, of which one is offline |
/// | LAB | NORMAL | two failure groups with two disks each; scripts change it, and undo that |
///
/// Beside them are a disk that never belonged to a group, and one that LAB has given back.
///
/// # Panics
/// If a statement is refused.
#[must_use]
pub fn instance() -> Instance {
    let instance = Instance::new();
    let disk = |name: &str, megabytes: u64| {
        format!("'{}'", instance.add_disk(name, megabytes * MIB).display())
    };
    let named = |path: String, name: &str| format!("{path} NAME {name}");
    let pair = |group: &str, one: &str, other: &str, megabytes: u64| {
        let one = named(disk(&format!("{group}_{one}"), megabytes), &format!("{group}_{one}"));
        let other =
            named(disk(&format!("{group}_{other}"), megabytes), &format!("{group}_{other}"));
        format!("{one}, {other}")
    };
    instance.sql(&format!(
        "CREATE DISKGROUP data NORMAL REDUNDANCY
           FAILGROUP shelf1 DISK {} FAILGROUP shelf2 DISK {} FAILGROUP shelf3 DISK {}
           ATTRIBUTE 'au_size' = '1M', 'disk_repair_time' = '8h', 'compatible.rdbms' = '19.0'",
        pair("data", "a1", "a2", 256),
        pair("data", "b1", "b2", 256),
        pair("data", "c1", "c2", 256)
    ));
    let (fra1, fra2) = (disk("fra1", 512), disk("fra2", 512));
    instance.sql(&format!("CREATE DISKGROUP fra EXTERNAL REDUNDANCY DISK {fra1}, {fra2}"));
    instance.sql(&format!(
        "CREATE DISKGROUP arch HIGH REDUNDANCY
           FAILGROUP h1 DISK {} FAILGROUP h2 DISK {} FAILGROUP h3 DISK {}
           ATTRIBUTE 'au_size' = '1M'",
        named(disk("arch_h1", 128), "arch_h1"),
        named(disk("arch_h2", 128), "arch_h2"),
        named(disk("arch_h3", 128), "arch_h3")
    ));
    instance.sql(&format!(
        "CREATE DISKGROUP old NORMAL REDUNDANCY
           FAILGROUP left_fg DISK {} FAILGROUP right_fg DISK {}
           ATTRIBUTE 'au_size' = '1M', 'auto_online.enabled' = 'false'",
        named(disk("old_l", 128), "old_l"),
        named(disk("old_r", 128), "old_r")
    ));
    let former = disk("former", 128);
    instance.sql(&format!(
        "CREATE DISKGROUP lab NORMAL REDUNDANCY
           FAILGROUP east DISK {}, {former} NAME lab_5 FAILGROUP west DISK {}
           ATTRIBUTE 'au_size' = '1M'",
        pair("lab", "1", "2", 128),
        pair("lab", "3", "4", 128)
    ));
    instance.add_disk("spare", 192 * MIB);
    fill(&instance);
    instance.sql("ALTER DISKGROUP lab DROP DISK lab_5 REBALANCE WAIT");
    instance.sql("ALTER DISKGROUP old OFFLINE DISK old_r DROP AFTER 100 H");
    let bin = instance.path("bin");
    fs::create_dir(&bin).expect("a folder for the clients");
    for name in ["plinth", "sqlplus", "asmcmd"] {
        std::os::unix::fs::symlink(binary(), bin.join(name)).expect("link");
    }
    instance
}

/// Files, aliases, templates, users and a volume.
fn fill(instance: &Instance) {
    for folder in ["+DATA/oradata", "+FRA/archive", "+FRA/empty", "+ARCH/dump"] {
        instance.plinth(["mkdir", folder]).ok();
    }
    let copy = |name: &str, bytes: usize, to: &str| {
        let from = instance.path(name);
        fs::write(&from, vec![b'a' + (bytes % 23) as u8; bytes]).expect("written");
        instance.plinth(["cp".as_ref(), from.as_os_str(), to.as_ref()]).ok();
    };
    copy("users01.dbf", 3_000_000, "+DATA(datafile)/oradata/users01.dbf");
    copy("system01.dbf", 8 << 20, "+DATA/oradata/system01.dbf");
    copy("redo01.log", 4 << 20, "+DATA/oradata/redo01.log");
    copy("control01.ctl", 400_000, "+DATA(controlfile)/oradata/control01.ctl");
    copy("spfileorcl.ora", 1536, "+DATA(parameterfile)/spfileorcl.ora");
    copy("1_17_100200300.dbf", 6 << 20, "+FRA/archive/1_17_100200300.dbf");
    copy("1_18_100200300.dbf", 2 << 20, "+FRA/archive/1_18_100200300.dbf");
    copy("full.bkp", 12 << 20, "+FRA/full.bkp");
    copy("exp.dmp", 5 << 20, "+ARCH/dump/exp.dmp");
    copy("redo02.log", 3 << 20, "+ARCH/redo02.log");
    copy("lab.dbf", 2 << 20, "+LAB/lab.dbf");
    for statement in [
        "ALTER DISKGROUP data ADD TEMPLATE fast ATTRIBUTES (MIRROR FINE)",
        "ALTER DISKGROUP data ADD USER 'root'",
        "ALTER DISKGROUP data ADD VOLUME vol1 SIZE 16M",
        "ALTER DISKGROUP data MODIFY VOLUME vol1 USAGE 'xfs'",
        "CREATE USER scott PASSWORD 'a tiger' OPERATE",
    ] {
        instance.sql(statement);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_terminators() {
        let text = "-- what for
SET LINES 100 -
  PAGES 0
select ';' -- it; is
 from dual;

SELECT 1
/
PROMPT x;
ALTER y";
        let command = |text: &str| Piece::Command(text.to_owned());
        let statement = |text: &str, end| Piece::Statement(text.to_owned(), end);
        let expected = [
            Piece::Comment("-- what for".to_owned()),
            command("SET LINES 100 -\n  PAGES 0"),
            statement("select ';' -- it; is\n from dual", Terminator::Semicolon),
            Piece::Comment(String::new()),
            statement("SELECT 1", Terminator::Slash),
            command("PROMPT x;"),
            statement("ALTER y", Terminator::None),
        ];
        assert_eq!(pieces(text), expected);
    }

    #[test]
    fn only_named_columns_are_masked() {
        let table = "
Name   Free  Used
         MB
------ ---- -----
DATA     12  10.0
       ----
sum     120

Other
-----
   12
";
        let expected =
            table.replace("DATA     12", "DATA      #").replace("    120\n", "      #\n");
        assert_eq!(without_columns(table, &["Free MB"]), expected);
    }

    #[test]
    fn groups_of_a_pattern_are_masked() {
        let pattern = Regex::new(r"(?m)^free (\d+) of (\d+)$").expect("a pattern");
        assert_eq!(masked("free 1 of 20\nused 3\n", &pattern), "free # of #\nused 3\n");
        assert_eq!(masked("a 12", &Regex::new(r"\d+").expect("a pattern")), "a #");
    }
}
