//! The shell: `plinth` without a command.
//!
//! A line is split into words as by a POSIX shell, and the words are one command of the table. On a
//! terminal there are a prompt, history (`~/.plinth_shell_history`) and completion. Otherwise lines
//! are read from the standard input until it ends; after a refused line the next one is still
//! carried out, and the program exits with 1 in the end.

use super::{
    Arguments, Result, absent,
    commands::Verb,
    complain, complete,
    context::{Context, Run, asmcmd},
    print,
};
use crate::sql_error::{SqlError, state};
use clap::{Command, CommandFactory, Parser, error::ErrorKind};
use rustyline::{Editor, error::ReadlineError, history::DefaultHistory};
use std::{
    io::{self, BufRead, IsTerminal},
    path::PathBuf,
    process::ExitCode,
    sync::atomic::Ordering,
};

/// Lines of history that are kept.
const HISTORY: usize = 1000;

/// A line of the shell.
#[derive(Debug, Parser)]
#[command(name = "plinth", no_binary_name = true, disable_help_subcommand = true)]
struct Line {
    /// Print results as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

/// How the shell prints its prompt and its lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// The prompt shows the current directory.
    pub prompt_place: bool,
    /// Each line is printed, after the prompt, before it is carried out.
    pub echo: bool,
}

/// The table of commands, for help and completion.
pub(super) fn commands() -> Command {
    let mut commands = Line::command();
    commands.build();
    commands
}

/// The text that `COMMAND --help` prints, for commands of the shell and for those of the program
/// only.
pub(super) fn help_of(name: &str) -> Result<String> {
    let help = |parsed: clap::error::Error| {
        (parsed.kind() == ErrorKind::DisplayHelp).then(|| parsed.to_string())
    };
    let of_shell = Line::try_parse_from([name, "--help"]).err().and_then(help);
    let is_shown = |command: &Command| !command.is_hide_set();
    let program = || Arguments::command().find_subcommand(name).is_some_and(is_shown);
    let found = of_shell.or_else(|| {
        let parsed = program().then(|| Arguments::try_parse_from(["plinth", name, "--help"]).err());
        parsed.flatten().and_then(help)
    });
    found.ok_or_else(|| unknown(name))
}

/// The refusal of a command that does not exist.
pub(super) fn unknown(name: &str) -> SqlError {
    asmcmd(8022, format!("unknown command '{name}' specified"))
        .hint(absent::instead(name).unwrap_or("'help' lists the commands"))
}

fn prompt(context: &Context, manner: Manner) -> String {
    if manner.prompt_place {
        format!("ASMCMD [{}] > ", crate::text::clean(&context.here.to_string()))
    } else {
        "ASMCMD> ".to_owned()
    }
}

/// Carries out one line.
fn carry_out(context: &mut Context, line: &str) -> Result<()> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(());
    }
    let words = shlex::split(line)
        .ok_or_else(|| SqlError::new(state::SYNTAX, "a quotation mark has no second one"))?;
    let parsed = match Line::try_parse_from(&words) {
        Ok(parsed) => parsed,
        Err(error) => return refused(&error, &words),
    };
    let json = context.json;
    context.json |= parsed.json;
    let result = parsed.verb.run(context);
    context.json = json;
    result
}

/// The parser's answer: prints help if that was requested, or refuses the words.
fn refused(error: &clap::Error, words: &[String]) -> Result<()> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print(&error.to_string());
            Ok(())
        }
        ErrorKind::InvalidSubcommand => Err(unknown(words.first().map_or("", String::as_str))),
        _ => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            Err(SqlError::new(state::SYNTAX, text.trim_end()))
        }
    }
}

pub(super) fn run(context: &mut Context, manner: Manner) -> Result<ExitCode> {
    // Without an instance the shell is refused at once, not at the first command.
    drop(context.instance()?);
    if io::stdin().is_terminal() { interact(context, manner) } else { follow(context, manner) }
}

fn follow(context: &mut Context, manner: Manner) -> Result<ExitCode> {
    let mut failed = false;
    let mut line = String::new();
    while !context.leave {
        line.clear();
        let count = io::stdin().lock().read_line(&mut line);
        let count = count.map_err(|error| {
            SqlError::new(state::INTERNAL, format!("reading commands: {error}"))
        })?;
        if count == 0 {
            break;
        }
        if manner.echo {
            print(&format!("{}{}\n", prompt(context, manner), line.trim_end()));
        }
        failed |= told(carry_out(context, &line)) || context.status != 0;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether a line was refused; then its error is printed.
fn told(result: Result<()>) -> bool {
    result.inspect_err(complain).is_err()
}

fn interact(context: &mut Context, manner: Manner) -> Result<ExitCode> {
    let broken =
        |error: ReadlineError| SqlError::new(state::INTERNAL, format!("the terminal: {error}"));
    let config = rustyline::Config::builder()
        .max_history_size(HISTORY)
        .map_err(broken)?
        .auto_add_history(true)
        .completion_type(rustyline::CompletionType::List)
        .build();
    context.heed_interrupts()?;
    let mut editor: Editor<complete::Completer, DefaultHistory> =
        Editor::with_config(config).map_err(broken)?;
    let history =
        std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".plinth_shell_history"));
    if let Some(history) = &history {
        let _ = editor.load_history(history);
    }
    let mut status = ExitCode::SUCCESS;
    while !context.leave {
        editor.set_helper(Some(complete::Completer::new(context)));
        let line = match editor.readline(&prompt(context, manner)) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(broken(error)),
        };
        context.status = 0;
        context.interrupted.store(false, Ordering::Relaxed);
        let failed = told(carry_out(context, &line)) || context.status != 0;
        status = if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    if let Some(history) = &history {
        let _ = editor.save_history(history);
    }
    Ok(status)
}
