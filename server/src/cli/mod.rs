//! The command line: one program, `plinth`, for the instance, the engines and everybody who speaks to them.
//!
//! Results go to the standard output, everything else to the standard error. A command that fails exits with 1 (`check`
//! with 2), and says what can be done about it.

mod cp;
mod dump;
mod files;
mod lists;
mod shell;
pub mod table;
mod watch;

use crate::{
    engine,
    instance::{self, Looking, control::Client},
    paths::{DEFAULT_DIR, Paths},
    refusal::Refusal,
    users,
    world::{IoChoice, RealWorld},
};
use clap::{Args, Parser, Subcommand};
use plinth_engine::{
    admin::{AdminError, Code, Report},
    group::Group,
    world::World,
};
use plinth_format::is_name;
use plinth_fuse::mount::{self, MountOptions};
use std::{
    ffi::OsString,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use watch::Watch;

type Result<T> = std::result::Result<T, Refusal>;

/// Automatic storage management for databases: disk groups that stripe and mirror, operated in SQL.
#[derive(Debug, Parser)]
#[command(name = "plinth", version, arg_required_else_help = true)]
struct Arguments {
    /// Where the instance's sockets are.
    #[arg(long, global = true, env = "PLINTH_DIR", default_value = DEFAULT_DIR, value_name = "DIR")]
    dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the instance, in the foreground.
    Serve {
        /// Where instance.json and alert.log are [default: DIR; /var/lib/plinth if DIR is /run/plinth].
        #[arg(long, value_name = "DIR")]
        state: Option<PathBuf>,
        /// Where to look for disks: patterns separated by commas. Remembered.
        #[arg(long, value_name = "PATTERNS")]
        diskstring: Option<String>,
        /// Let the members of this unix group look (SELECT, and nothing else).
        #[arg(long, value_name = "GROUP")]
        look_group: Option<String>,
        /// Let every user of this host look.
        #[arg(long, conflicts_with = "look_group")]
        look_all: bool,
        /// How to do I/O: auto, uring or threads.
        #[arg(long, env = "PLINTH_IO", value_name = "ENGINE")]
        io: Option<IoChoice>,
    },
    /// Dismount everything, end the engines and the instance.
    Shutdown {
        /// Although files are open.
        #[arg(long)]
        force: bool,
    },
    /// Mount a disk group's files on a directory.
    Mount {
        group: String,
        directory: PathBuf,
        /// As for mount(8): ro, nodev, ...
        #[arg(short, long, default_value = "", value_name = "LIST")]
        options: String,
    },
    /// Unmount a directory.
    Umount {
        directory: PathBuf,
        /// Although files are open.
        #[arg(short, long)]
        force: bool,
    },
    /// Run SQL statements, or a shell for them.
    Sql {
        /// The statements; without them, they are read from the standard input.
        #[arg(short, long, value_name = "STATEMENTS")]
        command: Option<String>,
        /// Print results as JSON.
        #[arg(long)]
        json: bool,
    },
    /// List disk groups.
    Lsdg(ListArguments),
    /// List disks.
    Lsdsk {
        /// More about each disk: sizes, names.
        #[arg(short)]
        k: bool,
        /// More about each disk: states.
        #[arg(short)]
        p: bool,
        /// More about each disk: times.
        #[arg(short)]
        t: bool,
        /// More about each disk: I/O.
        #[arg(long)]
        statistics: bool,
        /// Those of one disk group.
        #[arg(short = 'G', value_name = "GROUP")]
        group: Option<String>,
        /// Those that can be taken.
        #[arg(long, conflicts_with = "member")]
        candidate: bool,
        /// Those that belong to a group.
        #[arg(long)]
        member: bool,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Spread what a disk group holds evenly over its disks, or go on with that, or change its power.
    Rebal {
        /// Mirrors that move at once, 0 to 1024; 0 pauses.
        #[arg(long)]
        power: Option<u32>,
        /// Return only when it is done; show how far it is.
        #[arg(short = 'w', long)]
        wait: bool,
        group: String,
    },
    /// List operations that take long.
    Lsop(ListArguments),
    /// List files: plinth ls +DATA/directory.
    Ls {
        /// More about each file.
        #[arg(short)]
        l: bool,
        path: Option<String>,
        #[arg(long)]
        json: bool,
    },
    /// Copy a file: one side is +GROUP/path.
    Cp { from: String, to: String },
    /// Check a disk group, or the disks of one that is not mounted.
    Check {
        /// Repair what can be repaired.
        #[arg(long)]
        repair: bool,
        #[arg(long)]
        json: bool,
        /// A mounted disk group; or paths of all disks of one.
        #[arg(required = true)]
        what: Vec<String>,
    },
    /// Show what is on a disk, as text.
    Dump {
        disk: PathBuf,
        /// header, stamp, activity, membership, 'au N' or 'block OFFSET'.
        #[arg(value_name = "WHERE")]
        place: Vec<String>,
    },
    /// Run the engine of one group (the instance does this).
    #[command(hide = true)]
    Engine {
        #[arg(long)]
        state: PathBuf,
        #[arg(long)]
        group: String,
        #[arg(long)]
        diskstring: String,
        #[arg(long, default_value = "auto")]
        io: IoChoice,
    },
}

#[derive(Debug, Args)]
struct ListArguments {
    /// Print an array of objects.
    #[arg(long)]
    json: bool,
    /// Names or paths: * and ? are wildcards.
    pattern: Option<String>,
}

/// Runs the program with the arguments it was given.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let result = if name == format!("mount.{}", mount::TYPE) { helper(arguments) } else { run(Arguments::parse()) };
    match result {
        Ok(code) => code,
        Err(refusal) => {
            complain(&refusal);
            ExitCode::FAILURE
        }
    }
}

/// Tells a refusal to whoever reads the standard error.
fn complain(refusal: &Refusal) {
    let mut text = format!("plinth: {}\n", refusal.message);
    if let Some(detail) = &refusal.detail {
        text.push_str(&format!("  ({detail})\n"));
    }
    if let Some(hint) = &refusal.hint {
        text.push_str(&format!("  {hint}\n"));
    }
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints a result. A reader that went away (`| head`) is no failure.
fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    let dir = std::path::absolute(&arguments.dir)
        .map_err(|error| Refusal::new("22023", format!("{}: {error}", arguments.dir.display())))?;
    let paths = Paths::new(&dir, None);
    match arguments.command {
        Command::Serve { state, diskstring, look_group, look_all, io } => {
            let looking = match look_group {
                None if look_all => Looking::Everybody,
                None => Looking::Nobody,
                Some(name) => Looking::Group(users::group(&name).ok_or_else(|| {
                    Refusal::new("22023", format!("there is no unix group {name}")).hint("groupadd makes one")
                })?),
            };
            let state = state.map(|state| std::path::absolute(&state).unwrap_or(state));
            return Ok(instance::serve(instance::Options {
                paths: Paths::new(&dir, state.as_deref()),
                diskstring,
                looking,
                io: io.unwrap_or_default(),
            }));
        }
        Command::Engine { state, group, diskstring, io } => {
            let paths = Paths::new(&dir, Some(&state));
            return Ok(engine::run(engine::Options { paths, group, diskstring, io }));
        }
        Command::Shutdown { force } => Client::connect(&paths)?.shut_down(force)?,
        Command::Mount { group, directory, options } => mount_group(&paths, &group, &directory, &options)?,
        Command::Umount { directory, force } => {
            Client::connect(&paths)?.unmount(&std::path::absolute(&directory).unwrap_or(directory), force)?;
        }
        Command::Sql { command, json } => return shell::run(&paths, command.as_deref(), json),
        Command::Lsdg(list) => lists::groups(&paths, list.pattern.as_deref(), list.json)?,
        Command::Rebal { power, wait, group } => rebalance(&paths, &group, power, wait)?,
        Command::Lsop(list) => lists::operations(&paths, list.pattern.as_deref(), list.json)?,
        Command::Lsdsk { k, p, t, statistics, group, candidate, member, list } => {
            let wanted = lists::Disks { k, p, t, statistics, group, candidate, member };
            lists::disks(&paths, &wanted, list.pattern.as_deref(), list.json)?;
        }
        Command::Ls { l, path, json } => files::list(&paths, path.as_deref().unwrap_or("+"), l, json)?,
        Command::Cp { from, to } => cp::copy(&paths, &from, &to)?,
        Command::Check { repair, json, what } => return check(&paths, &what, repair, json),
        Command::Dump { disk, place } => dump::dump(&disk, &place)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn rebalance(paths: &Paths, group: &str, power: Option<u32>, wait: bool) -> Result<()> {
    let group = group.trim_start_matches('+').to_uppercase();
    if !is_name(&group) {
        return Err(Refusal::new("22023", format!("{group:?} cannot be the name of a disk group")));
    }
    let power = power.map_or_else(String::new, |power| format!(" POWER {power}"));
    let wait = if wait { "WAIT" } else { "NOWAIT" };
    let _watch = Watch::begin(paths);
    Client::connect(paths)?.sql(&format!("ALTER DISKGROUP {group} REBALANCE{power} {wait}"), |_| {})
}

fn mount_group(paths: &Paths, group: &str, directory: &Path, options: &str) -> Result<()> {
    // Links are followed here: the instance, which may run elsewhere, gets the real path.
    let real = directory
        .canonicalize()
        .map_err(|error| Refusal::new("22023", format!("mount point {}: {error}", directory.display())))?;
    MountOptions::parse(options).map_err(Refusal::from)?;
    let group = group.trim_start_matches('+').to_uppercase();
    Client::connect(paths)?.mount(&group, &real, options)
}

/// `mount -t fuse.plinth DATA /mnt` calls this program by another name.
fn helper(arguments: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let request = mount::parse_mount_helper_args(arguments).map_err(Refusal::from)?;
    if request.fake {
        return Ok(ExitCode::SUCCESS);
    }
    let dir = std::env::var_os("PLINTH_DIR").map_or_else(|| PathBuf::from(DEFAULT_DIR), PathBuf::from);
    let options = options_text(request.options);
    mount_group(&Paths::new(&dir, None), &request.group, &request.directory, &options)?;
    if request.verbose {
        print(&format!("{} is mounted on {}\n", request.group, request.directory.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The list that `MountOptions::parse` understands.
fn options_text(options: MountOptions) -> String {
    let MountOptions { read_only, no_devices, no_set_id, no_programs, synchronous } = options;
    let words = [
        (read_only, "ro"),
        (no_devices, "nodev"),
        (no_set_id, "nosuid"),
        (no_programs, "noexec"),
        (synchronous, "sync"),
    ];
    words.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect::<Vec<_>>().join(",")
}

/// 0: clean, 1: all repaired, 2: something is left, or it could not be checked, 3: mirrors are missing.
fn check(paths: &Paths, what: &[String], repair: bool, json: bool) -> Result<ExitCode> {
    let report = match what {
        [group] if !group.contains('/') && !Path::new(group).exists() => Client::connect(paths)
            .and_then(|client| client.check(&group.trim_start_matches('+').to_uppercase(), repair)),
        disks => check_disks(disks, repair),
    };
    let report = match report {
        Ok(report) => report,
        Err(refusal) => {
            complain(&refusal);
            return Ok(ExitCode::from(2));
        }
    };
    let repaired = report.problems.iter().filter(|problem| problem.repaired).count();
    let left = report.problems.len() - repaired;
    if json {
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| Refusal::new(crate::refusal::state::INTERNAL, error))?;
        print(&format!("{text}\n"));
    } else {
        let mut text = String::new();
        for remark in &report.remarks {
            text.push_str(&format!("note: {remark}\n"));
        }
        for missing in &report.missing {
            text.push_str(&format!("missing mirrors: {missing}\n"));
        }
        for problem in &report.problems {
            text.push_str(&format!("{}{}\n", problem.text, if problem.repaired { " (repaired)" } else { "" }));
        }
        text.push_str(&format!(
            "{} extents checked, {} read: {}\n",
            report.extents_checked,
            table::bytes_pretty(i64::try_from(report.bytes_read).unwrap_or(i64::MAX)),
            match (repaired, left) {
                (0, 0) if report.missing.is_empty() => "clean".to_owned(),
                (0, 0) => "nothing is wrong, but mirrors are missing: bring the disks ONLINE, or drop them where others have room".to_owned(),
                (_, 0) => format!("{repaired} problems, all repaired"),
                (0, _) if !repair => format!("{left} problems; --repair repairs what can be repaired"),
                _ => format!("{repaired} problems repaired, {left} left; restore what is named from a backup"),
            }
        ));
        print(&text);
    }
    Ok(ExitCode::from(match (repaired, left) {
        (_, 1..) => 2,
        _ if !report.missing.is_empty() => 3,
        (1.., 0) => 1,
        (0, 0) => 0,
    }))
}

/// Checks the disks of a group that no engine uses.
fn check_disks(disks: &[String], repair: bool) -> Result<Report> {
    let choice = IoChoice::from_environment().map_err(|error| Refusal::new("22023", error))?;
    let world = RealWorld::new(choice, |event| eprintln!("{event}"))
        .map_err(|error| Refusal::new(crate::refusal::state::INTERNAL, error))?;
    let escaped: Vec<String> = disks.iter().map(|disk| glob::Pattern::escape(disk)).collect();
    world.set_diskstring(&escaped.join(",")).map_err(|error| Refusal::new("22023", error))?;
    for disk in disks {
        world
            .open(disk)
            .map_err(|error| Refusal::from(AdminError::new(Code::CannotOpen, format!("disk {disk}: {error}"))))?;
    }
    let world: Arc<dyn World> = Arc::new(world);
    crate::world::block_on(Group::check_files(&world, repair)).map_err(Refusal::from)
}
