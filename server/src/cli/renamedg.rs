//! `renamedg`: gives copies of all disks of a disk group a name and ids of their own.
//!
//! It takes the words of ASM's `renamedg`: phase one reads the disks and writes a plan, phase two
//! carries the plan out, `both` does both. It works without an instance, on disks that are not in
//! use. The plan stays until it is carried out completely, so that an interrupted run can be
//! resumed.

use super::{
    Result,
    context::{Context, Run, checked_name},
    print,
};
use crate::sql_error::{SqlError, state};
use clap::Args;
use plinth_engine::{
    admin::{AdminError, Code},
    group::{Group, rename_group::RenamingPlan},
    world::World,
};
use plinth_host::{IoChoice, RealWorld, block_on};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The default path of the plan, as in ASM.
const CONFIG: &str = "renamedg_config";

/// Give copies of all disks of a disk group a name and ids of their own.
#[derive(Debug, Args)]
#[command(after_help = "Words, in any order:
  dgname=NAME            the disk group that the disks say they are of
  newdgname=NAME         what it is to be called
  asm_diskstring=STRING  the disks: all copies, and not the disks they are copies of
  phase=one|two|both     make the plan, carry it out, or both [both]
  config=FILE            the plan [renamedg_config]
  check=true             only say whether it could be done
  verbose=true           name each disk")]
pub(super) struct Renamedg {
    /// Words such as dgname=DATA newdgname=COPY.
    #[arg(value_name = "WORD=VALUE", required = true)]
    words: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    One,
    Two,
    Both,
}

/// The options that the words give.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    phase: Phase,
    from: String,
    to: String,
    diskstring: String,
    config: PathBuf,
    check: bool,
    verbose: bool,
}

fn invalid(text: String) -> SqlError {
    SqlError::new("22023", text).hint("plinth renamedg --help")
}

fn is_true(word: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid(format!("{word} is true or false, not '{value}'"))),
    }
}

impl Wanted {
    fn parse(words: &[String]) -> Result<Self> {
        let (mut from, mut to, mut diskstring) = (None, None, None);
        let mut wanted = Self {
            phase: Phase::Both,
            from: String::new(),
            to: String::new(),
            diskstring: String::new(),
            config: CONFIG.into(),
            check: false,
            verbose: false,
        };
        for word in words {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| invalid(format!("'{word}' is no WORD=VALUE such as dgname=DATA")))?;
            match name.trim_start_matches('-').to_ascii_lowercase().as_str() {
                "phase" => {
                    wanted.phase = match value.to_ascii_lowercase().as_str() {
                        "one" => Phase::One,
                        "two" => Phase::Two,
                        "both" => Phase::Both,
                        _ => {
                            return Err(invalid(format!(
                                "phase is one, two or both, not '{value}'"
                            )));
                        }
                    }
                }
                "dgname" => {
                    from = Some(checked_name(value.trim_start_matches('+'), "a disk group")?)
                }
                "newdgname" => {
                    to = Some(checked_name(value.trim_start_matches('+'), "a disk group")?)
                }
                "asm_diskstring" => diskstring = Some(value.to_owned()),
                "config" => wanted.config = value.into(),
                "check" => wanted.check = is_true(name, value)?,
                "verbose" => wanted.verbose = is_true(name, value)?,
                // Accepted without effect: there is never a question, and voters stay voters.
                "confirm" | "keep_voting_files" => {
                    is_true(name, value)?;
                }
                _ => return Err(invalid(format!("there is no word '{name}'"))),
            }
        }
        let needed = |word: &str| invalid(format!("{word}= is missing"));
        wanted.from = from.ok_or_else(|| needed("dgname"))?;
        wanted.to = to.ok_or_else(|| needed("newdgname"))?;
        // There is no default: the instance's discovery string shows the originals of these copies,
        // too.
        wanted.diskstring = diskstring.ok_or_else(|| needed("asm_diskstring"))?;
        Ok(wanted)
    }
}

/// The plan is durable before anything is written to a disk.
fn store(path: &Path, plan: &RenamingPlan) -> Result<()> {
    let written =
        OpenOptions::new().write(true).create_new(true).open(path).and_then(|mut file| {
            file.write_all(plan.text().as_bytes())?;
            file.sync_all()?;
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
        });
    written.map_err(|error| {
        let refusal = AdminError::new(Code::Io, format!("{}: {error}", path.display()));
        SqlError::from(match error.kind() {
            io::ErrorKind::AlreadyExists => refusal.hint(
                "it is the plan of a renamedg that was not carried out whole: go on with phase=two, or remove it if its disks were not touched",
            ),
            _ => refusal.hint("config=FILE puts the plan elsewhere"),
        })
    })
}

fn load(wanted: &Wanted) -> Result<RenamingPlan> {
    let path = wanted.config.display();
    let text = fs::read_to_string(&wanted.config).map_err(|error| {
        let refusal = AdminError::new(Code::Io, format!("{path}: {error}"));
        SqlError::from(refusal.hint("phase=one makes the plan; config=FILE says where it is"))
    })?;
    let plan = RenamingPlan::parse(&text).map_err(|error| {
        let hint = error.hint.clone().unwrap_or_default();
        SqlError::from(AdminError::new(error.code, format!("{path}: {error}")).hint(hint))
    })?;
    if (&plan.from, &plan.to) != (&wanted.from, &wanted.to) {
        let text = format!("{path} is the plan to call {} {}", plan.from, plan.to);
        return Err(SqlError::from(
            AdminError::new(Code::Invalid, text)
                .hint("give the names of the plan, or make another one: phase=one"),
        ));
    }
    Ok(plan)
}

impl Run for Renamedg {
    fn run(&self, _: &mut Context) -> Result<()> {
        let wanted = Wanted::parse(&self.words)?;
        let choice = IoChoice::from_environment().map_err(|error| SqlError::new("22023", error))?;
        let world = RealWorld::new(choice, |event| crate::stdio::warn(&format!("{event}\n")))
            .map_err(|error| SqlError::new(state::INTERNAL, error))?;
        world.set_diskstring(&wanted.diskstring).map_err(|error| SqlError::new("22023", error))?;
        let world: Arc<dyn World> = Arc::new(world);
        let plan = if wanted.phase == Phase::Two {
            load(&wanted)?
        } else {
            let plan = block_on(Group::plan_renaming(&world, &wanted.from, &wanted.to))
                .map_err(SqlError::from)?;
            if !wanted.check {
                store(&wanted.config, &plan)?;
            }
            plan
        };
        if wanted.verbose || wanted.check {
            for disk in plan.disks.iter().filter(|disk| !disk.path.is_empty()) {
                print(&format!(
                    "disk {} ({}): {} to {}\n",
                    disk.name, disk.path, plan.from, plan.to
                ));
            }
        }
        if wanted.check {
            print("nothing is written\n");
            return Ok(());
        }
        if wanted.phase == Phase::One {
            print(&format!("the plan is {}; phase=two carries it out\n", wanted.config.display()));
            return Ok(());
        }
        let told = |text: &str| {
            if wanted.verbose {
                print(&format!("{text}\n"));
            }
        };
        let count =
            block_on(Group::carry_out_renaming(&world, &plan, told)).map_err(SqlError::from)?;
        // From here on the plan would be refused.
        let _ = fs::remove_file(&wanted.config);
        let disks = if count == 1 { "1 disk is".to_owned() } else { format!("{count} disks are") };
        print(&format!(
            "{disks} of disk group {} now; ALTER DISKGROUP {} MOUNT mounts it\n",
            plan.to, plan.to
        ));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Wanted> {
        Wanted::parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_those_of_asm() {
        let wanted = parse(
            "phase=two dgname=+data newdgname=copy asm_diskstring=/x/*,/y/* config=/tmp/plan verbose=TRUE check=false",
        )
        .expect("words");
        assert_eq!(
            (wanted.from.as_str(), wanted.to.as_str(), wanted.phase),
            ("DATA", "COPY", Phase::Two)
        );
        assert_eq!(
            (wanted.diskstring.as_str(), wanted.config.to_str()),
            ("/x/*,/y/*", Some("/tmp/plan"))
        );
        assert!(wanted.verbose && !wanted.check);
        for words in [
            "dgname=DATA newdgname=COPY",
            "dgname=DATA asm_diskstring=/x",
            "newdgname=COPY asm_diskstring=/x",
            "dgname=DATA newdgname=COPY asm_diskstring=/x phase=three",
            "dgname=DATA newdgname=COPY asm_diskstring=/x verbose=1",
            "dgname=DATA newdgname=COPY asm_diskstring=/x size=1",
            "dgname=DATA newdgname=COPY asm_diskstring=/x phase",
            "dgname=DA-TA newdgname=COPY asm_diskstring=/x",
        ] {
            assert!(parse(words).is_err(), "{words}");
        }
    }

    #[test]
    fn a_plan_is_not_written_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("plan");
        fs::write(&path, "another").expect("written");
        let text = "plinth renamedg 1\nfrom DATA 01010101010101010101010101010101\nto COPY 02020202020202020202020202020202\n\
                    generation 3\ndisk 0 03030303030303030303030303030303 04040404040404040404040404040404 DATA_0000 /x/a\n";
        let plan = RenamingPlan::parse(text).expect("a plan");
        assert!(
            store(&path, &plan)
                .expect_err("it is there")
                .hint
                .is_some_and(|hint| hint.contains("phase=two"))
        );
        fs::remove_file(&path).expect("removed");
        store(&path, &plan).expect("stored");
        assert_eq!(fs::read_to_string(&path).expect("read"), text);
        let mut wanted = parse("dgname=DATA newdgname=COPY asm_diskstring=/x").expect("words");
        wanted.config = path;
        assert_eq!(load(&wanted).expect("loaded"), plan);
        wanted.to = "OTHER".to_owned();
        assert!(load(&wanted).is_err());
    }
}
