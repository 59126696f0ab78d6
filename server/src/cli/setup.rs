//! `plinth setup`: from free disks to a mounted disk group, by four questions.
//!
//!   1. Which disks? Those of no group are listed, with their contents as far as they are known.
//!   2. Which of them fail together? Each such set is a failure group.
//!   3. The group's name.
//!   4. The directory for its files.
//!
//! Then it shows the statements and the contents that will be lost, and asks whether to go on.
//! Nothing is written before that. At the end it shows the group's status. A flag answers its
//! question beforehand. Answers are lines of the standard input, a terminal or not; where they end
//! before the questions do, nothing is done.
//!
//! A disk that holds something else is taken only if the operator types the word `lose`, or gives
//! `--force`. The engine refuses disks that another program has in use, whatever was answered.

use super::{
    Result,
    context::{Context, Run, checked_name, quoted},
    print,
    status::Status,
};
use crate::{sql_error::SqlError, text};
use clap::Args;
use plinth_engine::admin::Value;
use std::{
    fs::{self, DirBuilder},
    io::{self, BufRead},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Make a first disk group and mount it: four questions.
#[derive(Debug, Args)]
pub(super) struct Setup {
    /// The disks, or all that are free: paths or numbers of the list, with commas between.
    #[arg(long, value_name = "DISKS")]
    disks: Option<String>,
    /// Disks that fail together, with a / between failure groups: '/dev/sdb /dev/sdc / /dev/sdd
    /// /dev/sde'; or each: every disk is one.
    #[arg(long, value_name = "SETS")]
    failgroups: Option<String>,
    /// The name of the group.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// The directory for the group's files, or none.
    #[arg(long, value_name = "DIRECTORY")]
    mount: Option<String>,
    /// Do not ask whether to go on.
    #[arg(long)]
    yes: bool,
    /// Take disks that hold something else: their contents are lost.
    #[arg(long)]
    force: bool,
}

/// A disk of no group.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Disk {
    path: String,
    mb: i64,
    status: String,
    remark: String,
}

impl Disk {
    fn is_free(&self) -> bool {
        matches!(&*self.status, "CANDIDATE" | "PROVISIONED")
    }
}

/// The work, as it is shown and done.
#[derive(Debug)]
struct Plan {
    /// The disks of each failure group; of the only one if nothing is mirrored.
    sets: Vec<Vec<Disk>>,
    group: String,
    directory: Option<PathBuf>,
}

const DISKS: &str = "SELECT path, os_mb, header_status, remark FROM v$asm_disk \
     WHERE name IS NULL \
     AND header_status IN ('CANDIDATE', 'PROVISIONED', 'FORMER', 'FOREIGN') ORDER BY path";

fn wrong(text: impl std::fmt::Display, remedy: &str) -> SqlError {
    SqlError::new("22023", text).hint(remedy)
}

fn disks(context: &Context) -> Result<Vec<Disk>> {
    let found = context.query(DISKS)?;
    let disks =
        found.rows.into_iter().filter_map(|row| match <[Value; 4]>::try_from(row).ok()? {
            [Value::Text(path), Value::Integer(mb), Value::Text(status), remark]
                if text::clean(&path) == path =>
            {
                let remark = if let Value::Text(remark) = remark { remark } else { String::new() };
                Some(Disk { path, mb, status, remark: text::clean(&remark) })
            }
            _ => None,
        });
    Ok(disks.collect())
}

/// The list, with the numbers by which questions are answered.
fn list(disks: &[Disk]) -> String {
    let mut text = String::new();
    for (number, disk) in (1..).zip(disks) {
        let size = text::bytes_pretty(disk.mb.saturating_mul(1 << 20));
        let contents = if disk.is_free() { "free" } else { "IN USE, or was" };
        text += &format!("{number:>4}  {}  {size}  {contents}", disk.path);
        text += &if disk.remark.is_empty() { "\n".into() } else { format!(": {}\n", disk.remark) };
    }
    text
}

/// The disk that a word names, by its number in the list or its path.
fn named<'a>(disks: &'a [Disk], word: &str) -> Result<&'a Disk> {
    let by_number = || disks.get(word.parse::<usize>().ok()?.checked_sub(1)?);
    disks.iter().find(|disk| disk.path == word).or_else(by_number).ok_or_else(|| {
        wrong(
            format!("{word} is no disk of the list"),
            "give numbers or paths of the list; SELECT path, header_status, remark FROM v$asm_disk",
        )
    })
}

/// The disks of an answer.
fn chosen(disks: &[Disk], answer: &str) -> Result<Vec<Disk>> {
    let free = |disk: &&Disk| disk.is_free();
    let found: Vec<Disk> = if answer.trim().eq_ignore_ascii_case("all") {
        disks.iter().filter(free).cloned().collect()
    } else {
        let words = answer.split([',', ' ']).filter(|word| !word.is_empty());
        words.map(|word| named(disks, word).cloned()).collect::<Result<_>>()?
    };
    let twice =
        found.iter().enumerate().find(|(at, disk)| found.iter().take(*at).any(|d| d == *disk));
    match (found.is_empty(), twice) {
        (true, _) => Err(wrong("no disk is chosen", "name one at least")),
        (_, Some((_, disk))) => {
            Err(wrong(format!("{} is there twice", disk.path), "once is enough"))
        }
        _ => Ok(found),
    }
}

/// The failure groups of an answer, which must have each chosen disk once.
fn sets(listed: &[Disk], chosen: &[Disk], answer: &str) -> Result<Vec<Vec<Disk>>> {
    if answer.trim().eq_ignore_ascii_case("each") {
        return Ok(chosen.iter().map(|disk| vec![disk.clone()]).collect());
    }
    let mut sets = vec![Vec::new()];
    for word in answer.split([',', ' ']).filter(|word| !word.is_empty()) {
        match sets.last_mut() {
            Some(set) if word != "/" => set.push(named(listed, word)?.clone()),
            _ => sets.push(Vec::new()),
        }
    }
    let placed = |disk: &Disk| sets.iter().flatten().filter(|other| *other == disk).count();
    let remedy = "each chosen disk in one failure group, with a / between them: 1 2 / 3 4";
    if let Some(disk) = sets.iter().flatten().find(|disk| !chosen.contains(disk)) {
        return Err(wrong(format!("{} was not chosen", disk.path), remedy));
    }
    if let Some(disk) = chosen.iter().find(|disk| placed(disk) != 1) {
        let times = placed(disk);
        return Err(wrong(format!("{} is in {times} failure groups", disk.path), remedy));
    }
    if sets.iter().any(Vec::is_empty) {
        return Err(wrong("a failure group has no disk", remedy));
    }
    Ok(sets)
}

impl Plan {
    /// The statement that makes the group.
    fn statement(&self) -> String {
        let is_mirrored = self.sets.len() > 1;
        let redundancy = if is_mirrored { "NORMAL" } else { "EXTERNAL" };
        let mut text = format!("CREATE DISKGROUP {} {redundancy} REDUNDANCY", self.group);
        for (number, set) in (1..).zip(&self.sets) {
            if is_mirrored {
                text += &format!("\n  FAILGROUP fg{number}");
            }
            let one = |disk: &Disk| quoted(&disk.path) + if disk.is_free() { "" } else { " FORCE" };
            let disks: Vec<String> = set.iter().map(one).collect();
            text += &format!(" DISK {}", disks.join(", "));
        }
        text
    }

    fn lost(&self) -> impl Iterator<Item = &Disk> {
        self.sets.iter().flatten().filter(|disk| !disk.is_free())
    }

    fn shown(&self) -> String {
        let mut text = format!("\nIt will do this:\n\n{};\n", self.statement());
        if let Some(directory) = &self.directory {
            text += &format!("plinth mount {} {}\n", self.group, directory.display());
        }
        text += match self.sets.len() {
            1 => "\nNothing is mirrored: with one disk its files are lost.\n",
            _ => "\nEvery file has two mirrors: any one failure group can be lost.\n",
        };
        for disk in self.lost() {
            text += &format!(
                "LOST: the contents of {} ({}: {})\n",
                disk.path, disk.status, disk.remark
            );
        }
        if self.lost().next().is_none() {
            text += "No disk of it holds something else.\n";
        }
        text
    }
}

/// Asks one question; an empty answer is the default.
fn ask(question: &str, default: &str) -> Result<String> {
    let shown = if default.is_empty() { String::new() } else { format!(" [{default}]") };
    print(&format!("{question}{shown}: "));
    let mut line = String::new();
    let length = io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| SqlError::new("58030", format!("the answer cannot be read: {error}")))?;
    if length == 0 {
        return Err(wrong(
            "there is no answer, and nothing was done",
            "answer on the standard input, or by flags: plinth setup --help",
        ));
    }
    let line = line.trim();
    Ok(if line.is_empty() { default.to_owned() } else { line.to_owned() })
}

/// A directory on which the group can be mounted: it is not there yet, or is empty.
fn mount_point(path: &str) -> Result<PathBuf> {
    let directory = PathBuf::from(path);
    if !directory.is_absolute() {
        return Err(wrong(format!("{path} is no absolute path"), "such as /data, or none"));
    }
    let is_free = match fs::read_dir(&directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if !is_free {
        let text = format!("{path} is no empty directory: its files would be hidden");
        return Err(wrong(text, "choose another directory, and move what shall be on the group"));
    }
    Ok(directory)
}

/// Makes the directory if it is not there. Programs of other users than root can do nothing in it
/// while the group is not mounted.
fn make_mount_point(directory: &Path) -> io::Result<()> {
    if let Some(parent) = directory.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o000).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

impl Setup {
    fn plan(&self, listed: &[Disk]) -> Result<Plan> {
        let given = |flag: &Option<String>, question: &str, default: &str| match flag {
            Some(answer) => Ok(answer.clone()),
            None => ask(question, default),
        };
        print(&list(listed));
        let chosen =
            chosen(listed, &given(&self.disks, "Disks (numbers), or all that are free", "all")?)?;
        let sets = match &chosen[..] {
            [_] => vec![chosen],
            _ => {
                let question = "Disks that fail together, as a shelf or an array (1 2 / 3 4)";
                sets(listed, &chosen, &given(&self.failgroups, question, "each")?)?
            }
        };
        let group = given(&self.group, "Name of the disk group", "DATA")?;
        let group = checked_name(&group, "a disk group")?;
        let default = format!("/{}", group.to_lowercase());
        let directory = given(&self.mount, "Directory for its files, or none", &default)?;
        let directory = match &*directory {
            "none" => None,
            path => Some(mount_point(path)?),
        };
        Ok(Plan { sets, group, directory })
    }

    /// Whether the operator wants it.
    fn is_agreed(&self, plan: &Plan) -> Result<bool> {
        if plan.lost().next().is_some() && !self.force {
            return Ok(ask("Type lose to lose these contents", "no")? == "lose");
        }
        Ok(self.yes || matches!(&*ask("Go on? (yes or no)", "no")?, "y" | "yes"))
    }
}

impl Run for Setup {
    fn run(&self, context: &mut Context) -> Result<()> {
        let listed = disks(context)?;
        if listed.is_empty() {
            return Err(wrong(
                "there is no disk that a group could be made of",
                "SELECT path, header_status, remark FROM v$asm_disk shows all; the discovery \
                 string says where to look: diskstring in /etc/plinth/plinth.toml",
            ));
        }
        let plan = self.plan(&listed)?;
        print(&plan.shown());
        if !self.is_agreed(&plan)? {
            print("Nothing was done.\n");
            context.status = 1;
            return Ok(());
        }
        context.statement(&plan.statement())?;
        if let Some(directory) = &plan.directory {
            make_mount_point(directory).map_err(|error| {
                wrong(
                    format!("{}: {error}", directory.display()),
                    "the disk group is made; mount it elsewhere: plinth mount GROUP DIRECTORY",
                )
            })?;
            context.instance()?.mount(&plan.group, directory, "")?;
        }
        print("\n");
        Status::of(&plan.group).run(context)?;
        // The group is made, whatever the status says of one that mirrors nothing.
        context.status = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed() -> Vec<Disk> {
        let disk = |path: &str, status: &str| Disk {
            path: path.to_owned(),
            mb: 1024,
            status: status.to_owned(),
            remark: if status == "FOREIGN" { "ext4".to_owned() } else { String::new() },
        };
        vec![
            disk("/dev/a", "CANDIDATE"),
            disk("/dev/b", "PROVISIONED"),
            disk("/dev/c", "FOREIGN"),
            disk("/dev/d", "CANDIDATE"),
        ]
    }

    fn paths(disks: &[Disk]) -> String {
        disks.iter().map(|disk| disk.path.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn disks_are_chosen_by_number_or_path_and_all_are_those_that_are_free() {
        let listed = listed();
        for (answer, expected) in [
            ("all", "/dev/a /dev/b /dev/d"),
            ("1, 3", "/dev/a /dev/c"),
            ("/dev/d 2", "/dev/d /dev/b"),
        ] {
            assert_eq!(paths(&chosen(&listed, answer).expect(answer)), expected);
        }
        for (answer, words) in [
            ("5", "5 is no disk"),
            ("0", "0 is no disk"),
            ("1 /dev/a", "/dev/a is there twice"),
            (" , ", "no disk is chosen"),
            ("99999999999999999999", "is no disk"),
        ] {
            let said = chosen(&listed, answer).expect_err(answer).message;
            assert!(said.contains(words), "{answer}: {said}");
        }
    }

    #[test]
    fn failure_groups_have_each_chosen_disk_once() {
        let listed = listed();
        let all = chosen(&listed, "1 2 4").expect("disks");
        let two = sets(&listed, &all, "1 4 / /dev/b").expect("two");
        assert_eq!(
            two.iter().map(|set| paths(set)).collect::<Vec<_>>(),
            ["/dev/a /dev/d", "/dev/b"]
        );
        assert_eq!(sets(&listed, &all, "each").expect("three").len(), 3);
        for (answer, words) in [
            ("1 2", "/dev/d is in 0 failure groups"),
            ("1 2 / 4 1", "/dev/a is in 2 failure groups"),
            ("1 2 / 3 4", "/dev/c was not chosen"),
            ("1 2 4 /", "a failure group has no disk"),
        ] {
            let said = sets(&listed, &all, answer).expect_err(answer).message;
            assert!(said.contains(words), "{answer}: {said}");
        }
    }

    #[test]
    fn a_mount_point_is_empty_or_not_there_and_is_made_so_that_others_cannot_use_it() {
        use std::os::unix::fs::MetadataExt;
        let home = tempfile::tempdir().expect("a directory");
        let path = |name: &str| home.path().join(name).display().to_string();
        for name in ["", "new/below"] {
            let there = mount_point(&path(name)).expect(name);
            make_mount_point(&there).expect(name);
        }
        let made = fs::metadata(path("new/below")).expect("it is made");
        assert_eq!(made.mode() & 0o777, 0);
        fs::write(home.path().join("file"), "x").expect("written");
        for (path, words) in [
            ("data".to_owned(), "no absolute path"),
            (path(""), "no empty directory"),
            (path("file"), "no empty directory"),
        ] {
            let said = mount_point(&path).expect_err(&path).message;
            assert!(said.contains(words), "{path}: {said}");
        }
    }

    #[test]
    fn the_plan_says_what_is_lost_and_forces_only_those_disks() {
        let listed = listed();
        let plan = |sets: Vec<Vec<Disk>>| Plan { sets, group: "DATA".into(), directory: None };
        let all = chosen(&listed, "1 3").expect("disks");
        let two = plan(sets(&listed, &all, "1 / 3").expect("two"));
        let statement = two.statement();
        let expected = "CREATE DISKGROUP DATA NORMAL REDUNDANCY\n  FAILGROUP fg1 DISK '/dev/a'\n  \
                        FAILGROUP fg2 DISK '/dev/c' FORCE";
        assert_eq!(statement, expected);
        assert!(two.shown().contains("LOST: the contents of /dev/c (FOREIGN: ext4)"));
        assert!(!two.shown().contains("LOST: the contents of /dev/a"));
        let one = plan(vec![chosen(&listed, "1").expect("a disk")]);
        assert_eq!(one.statement(), "CREATE DISKGROUP DATA EXTERNAL REDUNDANCY DISK '/dev/a'");
        assert!(one.shown().contains("Nothing is mirrored"));
    }
}
