//! The command line: one program, `plinth`, is the instance, the engines, and the client of both.
//!
//! `plinth COMMAND` carries out one command, `plinth` alone is a shell that takes the same commands
//! (`commands.rs` has the table). Results go to the standard output, everything else to the
//! standard error. A command that fails exits with 1 (`check` with 2), and says what can be done
//! about it. So does a word that is no command; a wrong flag or argument exits with 2.

mod about;
mod absent;
mod access;
mod alarm;
mod alarm_settings;
mod amdu;
mod asm_path;
mod backup;
mod check;
mod commands;
mod complete;
mod configuration;
mod context;
mod copying;
mod cp;
mod dates;
mod disks;
mod dump;
mod extents;
mod files;
mod filter;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod groups;
mod interactive;
mod iostat;
mod kfed;
mod labels;
mod lists;
mod load;
mod ls;
mod lsod;
mod lsof;
mod manual;
mod mounts;
mod names;
mod nbd;
mod network;
mod raw_disk;
mod reclaim;
mod record_text;
mod renamedg;
mod report;
mod settings;
mod setup;
mod sql;
mod sqlplus;
mod start;
mod status;
mod stores;
pub mod table;
mod templates;
mod top;
mod upgrade;
mod volumes;
mod watch;
mod xml;

use crate::{
    engine,
    instance::control::Client,
    paths::{DEFAULT_DIR, Paths},
    serve,
    sql_error::SqlError,
    stdio::{print, warn},
    text,
};
use clap::{
    Parser, Subcommand, ValueEnum,
    builder::{OsStringValueParser, TypedValueParser},
    error::{ContextKind, ContextValue, ErrorKind},
};
use commands::Verb;
use context::{Context, Run};
use interactive::Manner;
use plinth_fuse::mount;
use plinth_host::{IoChoice, probe};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

type Result<T> = std::result::Result<T, SqlError>;

/// A path that may be empty: an empty environment variable counts as not set.
fn directory() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Automatic storage management for databases: disk groups that stripe and mirror, operated in SQL.
/// Without a command: a shell.
#[derive(Debug, Parser)]
#[command(name = "plinth", version, disable_help_subcommand = true)]
struct Arguments {
    /// Where the instance's sockets are [default: /run/plinth].
    #[arg(long, global = true, env = "PLINTH_DIR", value_name = "DIR", value_parser = directory())]
    dir: Option<PathBuf>,
    /// Print results as JSON.
    #[arg(long, global = true)]
    json: bool,
    /// In the shell, say in the prompt where it stands.
    #[arg(short)]
    prompt: bool,
    /// In the shell, print each line before it is carried out: a transcript.
    #[arg(long)]
    echo: bool,
    /// As asmcmd has it. Here the user who runs it decides what is allowed.
    #[arg(short = 'a', long, value_name = "ROLE", ignore_case = true)]
    privilege: Option<Privilege>,
    /// As asmcmd has it: nothing is kept between commands here either.
    #[arg(long, hide = true)]
    nocp: bool,
    /// As asmcmd has it: messages are the same at every level.
    #[arg(short = 'v', value_name = "LEVEL", hide = true)]
    messages: Option<Messages>,
    /// As asmcmd has it: the instance is always on this host.
    #[arg(long, hide = true)]
    discover: bool,
    /// As asmcmd has it: there is one instance, +ASM.
    #[arg(long, value_name = "NAME", hide = true, value_parser = the_instance)]
    inst: Option<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The role with which `asmcmd` connects.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Privilege {
    Sysasm,
    Sysdba,
}

/// How much `asmcmd` says.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Messages {
    Errors,
    Warnings,
    Normal,
    Info,
    Debug,
}

/// Accepts the names that `asmcmd` gives to an instance that is alone, or the first.
fn the_instance(name: &str) -> std::result::Result<String, String> {
    if matches!(&*name.to_uppercase(), "+ASM" | "+ASM1") {
        return Ok(name.to_owned());
    }
    Err("there is one instance on a host, +ASM; --dir says where its sockets are".to_owned())
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(start::Serve),
    Setup(setup::Setup),
    /// Dismount everything, end the engines and the instance.
    Shutdown {
        /// Although files are open.
        #[arg(long)]
        force: bool,
    },
    /// Show what is on a disk, as text.
    Dump {
        disk: PathBuf,
        /// header, stamp, activity, membership, 'au N' or 'block OFFSET'.
        #[arg(value_name = "WHERE")]
        place: Vec<String>,
    },
    /// Print what makes another shell complete our commands.
    Completions {
        shell: clap_complete::Shell,
    },
    /// Print the manual page: plinth man > plinth.1.
    Man,
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
        /// Another engine of the group is going to hand over.
        #[arg(long)]
        successor: bool,
    },
    /// Look at disks for another process of ours, which asks by the standard input.
    #[command(hide = true, name = probe::COMMAND)]
    Look,
    #[command(flatten)]
    Verb(Verb),
}

/// Runs the program with the arguments it was given.
#[must_use]
pub fn main() -> ExitCode {
    probe::has_command();
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(&program)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let result = match name.as_str() {
        "sqlplus" => sql::sqlplus(arguments),
        mount if mount == format!("mount.{}", mount::TYPE) => mounts::helper(arguments),
        _ => Arguments::try_parse().map_or_else(|error| answer(&error, &name), run),
    };
    match result {
        Ok(code) => code,
        Err(refusal) => {
            complain(&refusal);
            ExitCode::FAILURE
        }
    }
}

/// The parser's answer if there is nothing to carry out. `program`: the name by which it was
/// called.
fn answer(error: &clap::Error, program: &str) -> Result<ExitCode> {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => {
            Err(interactive::unknown(word))
        }
        (ErrorKind::DisplayVersion, _) if program == "asmcmd" => {
            print(&format!("asmcmd version {}\n", env!("CARGO_PKG_VERSION")));
            Ok(ExitCode::SUCCESS)
        }
        _ => error.exit(),
    }
}

/// Prints a refusal to the standard error.
fn complain(refusal: &SqlError) {
    warn(&refusal_text(refusal));
}

/// A refusal as it is printed.
fn refusal_text(refusal: &SqlError) -> String {
    // Refusals that `asmcmd` and SQL*Plus have too are printed as these print them.
    let theirs = ["ASMCMD-", "SP2-"].iter().any(|name| refusal.message.starts_with(name));
    let name = if theirs { "" } else { "plinth: " };
    let mut all = format!("{name}{}\n", refusal.message);
    if let Some(detail) = &refusal.detail {
        all.push_str(&format!("  ({detail})\n"));
    }
    if let Some(hint) = &refusal.hint {
        all.push_str(&format!("  {hint}\n"));
    }
    // A path or a name in it may be from anywhere.
    all.lines().map(|line| text::clean(line) + "\n").collect()
}

/// Runs an instance until it ends.
fn serve(arguments: start::Serve, dir: Option<PathBuf>) -> ExitCode {
    match arguments.options(dir) {
        Ok(options) => serve::serve(options),
        Err(refusal) => {
            complain(&refusal);
            // As for a wrong flag. A service manager does not try again.
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    let given = arguments.dir.filter(|dir| !dir.as_os_str().is_empty());
    let dir = given.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIR));
    let dir = std::path::absolute(&dir)
        .map_err(|error| SqlError::new("22023", format!("{}: {error}", dir.display())))?;
    let paths = Paths::new(&dir, None);
    let mut context = Context::new(paths.clone(), arguments.json);
    let Some(command) = arguments.command else {
        let manner = Manner { prompt_place: arguments.prompt, echo: arguments.echo };
        return interactive::run(&mut context, manner);
    };
    match command {
        Command::Engine { state, group, diskstring, io, successor } => {
            let paths = Paths::new(&dir, Some(&state));
            return Ok(engine::run(engine::Options {
                paths,
                group,
                diskstring,
                io,
                is_successor: successor,
            }));
        }
        Command::Serve(own) => return Ok(serve(own, given)),
        Command::Setup(own) => own.run(&mut context)?,
        Command::Look => return Ok(probe::run()),
        Command::Shutdown { force } => Client::connect(&paths)?.shut_down(force)?,
        Command::Dump { disk, place } => dump::dump(&disk, &place)?,
        Command::Completions { shell } => manual::completions(shell),
        Command::Man => manual::page()?,
        Command::Verb(verb) => verb.run(&mut context)?,
    }
    Ok(ExitCode::from(context.status))
}
