//! `sql`, and the program under the name `sqlplus`: statements and scripts of SQL*Plus, from
//! arguments, files, a pipe or a terminal.
//!
//! The interpreter is `sqlplus/`. Here is what it stands on: the connection to the instance, with a
//! progress bar while it waits for a statement that moves data, and the terminal, files and other
//! programs. On a terminal Ctrl-C cancels the running statement; pressed twice, it ends the
//! program.

use super::{
    Result, complain,
    context::{Context, Run},
    print,
    sqlplus::{
        Input, Interpreter, Line, Look, Server, Spool, Start, World,
        start::{self, Asked},
    },
    warn,
    watch::Watch,
};
use crate::{
    alert,
    instance::control::{Client, Given},
    paths::{DEFAULT_DIR, Paths},
    sql_error::{SqlError, state},
    users,
};
use clap::Args;
use rustyline::{DefaultEditor, error::ReadlineError};
use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, BufRead, IsTerminal, Read, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::{
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// Lines of history that are kept.
const HISTORY: usize = 1000;

/// How often a running statement looks whether Ctrl-C was pressed.
const SLICE: Duration = Duration::from_millis(50);

/// The longest script, in bytes. One that is longer is no script.
const SCRIPT_MAX: u64 = 64 << 20;

/// Run SQL statements and SQL*Plus scripts, or a shell for them.
#[derive(Debug, Args)]
pub(super) struct Sql {
    /// The statements; given several times one after the other, until one is refused. Without them
    /// and without a script, they are read from the standard input.
    #[arg(short, long, value_name = "STATEMENTS")]
    command: Vec<String>,
    /// Print neither a greeting nor prompts.
    #[arg(short = 'S', long)]
    silent: bool,
    /// Print rows only: no headings, no number of rows.
    #[arg(short, long)]
    tuples_only: bool,
    /// Do not align columns.
    #[arg(short = 'A', long)]
    no_align: bool,
    /// The text between columns that are not aligned.
    #[arg(short = 'F', long, value_name = "TEXT", default_value = "|")]
    field_separator: String,
    /// Give a substitution variable a value; may be given several times.
    #[arg(short = 'v', long = "define", value_name = "NAME=VALUE")]
    define: Vec<String>,
    /// A script of SQL*Plus, as @FILE, and its arguments &1, &2 ...
    #[arg(value_name = "@FILE", trailing_var_arg = true)]
    script: Vec<String>,
}

impl Run for Sql {
    fn run(&self, context: &mut Context) -> Result<()> {
        let start = match self.start(context) {
            Ok(start) => start,
            Err(refusal) => {
                complain(&refusal);
                context.status = 2;
                return Ok(());
            }
        };
        let greeting = "SQL over disk groups; \\q leaves, SHOW ALL and SELECT * FROM v$asm_diskgroup; are a start.\n";
        context.status = carry_out(start, context, true, greeting)?;
        Ok(())
    }
}

impl Sql {
    fn start(&self, context: &Context) -> Result<Start> {
        let mut inputs: Vec<Input> = self.command.iter().cloned().map(Input::Text).collect();
        let mut words = self.script.iter().cloned();
        if let Some(script) = words.next() {
            inputs.push(start::script_of(&script, words)?);
        }
        if inputs.is_empty() {
            inputs.push(Input::Standard);
        }
        let define = |text: &String| {
            text.split_once('=')
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .ok_or_else(|| SqlError::new("22023", format!("-v takes name=value, not {text}")))
        };
        let unaligned = self.no_align.then(|| self.field_separator.clone());
        Ok(Start {
            is_sqlplus: false,
            silent: self.silent,
            look: if context.json {
                Look::Json
            } else {
                Look::Psql { only_rows: self.tuples_only, unaligned }
            },
            inputs,
            defines: self.define.iter().map(define).collect::<Result<_>>()?,
            stops: !self.command.is_empty(),
            restricted: 0,
            markup: None,
        })
    }
}

/// The program under the name `sqlplus`.
pub(super) fn sqlplus(words: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let version =
        concat!("Plinth ", env!("CARGO_PKG_VERSION"), ", with the commands of SQL*Plus\n");
    let (start, connects) = match start::read(words) {
        Ok(Asked::Run { start, connects }) => (start, connects),
        Ok(asked) => {
            print(if matches!(asked, Asked::Help) { start::HELP } else { version });
            return Ok(ExitCode::SUCCESS);
        }
        Err(refusal) => {
            complain(&refusal);
            return Ok(ExitCode::from(2));
        }
    };
    let dir = std::env::var_os("PLINTH_DIR").filter(|dir| !dir.is_empty());
    let dir = dir.map_or_else(|| PathBuf::from(DEFAULT_DIR), PathBuf::from);
    let dir = std::path::absolute(&dir)
        .map_err(|error| SqlError::new("22023", format!("{}: {error}", dir.display())))?;
    let context = Context::new(Paths::new(&dir, None), false);
    carry_out(start, &context, connects, version).map(ExitCode::from)
}

/// Runs everything; the exit code.
fn carry_out(start: Start, context: &Context, connects: bool, greeting: &str) -> Result<u8> {
    let mut server = Instance { context, client: None, is_lost: false, can_cancel: false };
    if connects {
        server.connect()?;
    }
    let reads = start.inputs.contains(&Input::Standard);
    let mut world = Host::new(reads, start.is_sqlplus)?;
    // A statement of -c ends with the program, as that of any other command.
    let is_typed = world.is_terminal() && !start.stops;
    if is_typed {
        context.heed_interrupts()?;
        server.can_cancel = true;
    }
    if is_typed && reads && !start.silent {
        print(greeting);
    }
    let code = Interpreter::new(start, &mut server, &mut world)?.run();
    world.save_history();
    Ok(code)
}

/// The connection to the instance.
struct Instance<'a> {
    context: &'a Context,
    client: Option<Client>,
    /// The connection has ended by itself; the next statement makes another one.
    is_lost: bool,
    /// Ctrl-C is heeded.
    can_cancel: bool,
}

impl Server for Instance<'_> {
    fn run(&mut self, statement: &str, given: &mut dyn FnMut(Given)) -> Result<()> {
        if self.is_lost {
            self.connect()?;
        }
        let Some(client) = &self.client else {
            return Err(SqlError::new("08003", "not connected"));
        };
        let paths = &self.context.paths;
        let result = if self.can_cancel {
            run_or_cancel(client, self.context, statement, given)
        } else {
            run(client, paths, statement, given)
        };
        let is_gone = result.as_ref().is_err_and(|refusal| refusal.state.starts_with("08"));
        // A connection on which a statement was cancelled cannot be used any more.
        self.is_lost = is_gone || self.can_cancel && self.context.is_interrupted();
        result
    }

    fn connect(&mut self) -> Result<()> {
        self.client = Some(self.context.instance()?);
        self.is_lost = false;
        Ok(())
    }

    fn disconnect(&mut self) {
        self.client = None;
        self.is_lost = false;
    }

    fn is_connected(&self) -> bool {
        self.client.is_some()
    }
}

/// Runs a statement, with a progress bar while it waits for one that moves data.
fn run(
    client: &Client,
    paths: &Paths,
    statement: &str,
    given: &mut dyn FnMut(Given),
) -> Result<()> {
    let watch = || watches(statement).then(|| Watch::begin(paths));
    let mut watching = watch();
    client.sql(statement, |answer| {
        // The bar is removed before something else is printed.
        drop(watching.take());
        given(answer);
        watching = watch();
    })
}

/// Whether a statement may take long: it moves data, and returns when that is done.
fn watches(text: &str) -> bool {
    text.split(|char: char| !char.is_ascii_alphanumeric())
        .any(|word| ["WAIT", "DROP"].iter().any(|long| word.eq_ignore_ascii_case(long)))
}

/// As [`run`]; Ctrl-C cancels.
pub(super) fn run_or_cancel(
    client: &Client,
    context: &Context,
    statement: &str,
    given: &mut dyn FnMut(Given),
) -> Result<()> {
    context.interrupted.store(false, Ordering::Relaxed);
    thread::scope(|scope| {
        let (end, ended) = mpsc::channel::<()>();
        let watch = move || {
            while ended.recv_timeout(SLICE) == Err(RecvTimeoutError::Timeout) {
                if context.is_interrupted() {
                    client.cancel();
                    return;
                }
            }
        };
        let watching = thread::Builder::new().name("cancel".into()).spawn_scoped(scope, watch);
        watching.map_err(|error| SqlError::new(state::INTERNAL, error))?;
        let result = run(client, &context.paths, statement, given);
        drop(end);
        result
    })
}

/// Files, the terminal, other programs.
struct Host {
    /// The editor of lines, if a user types them.
    editor: Option<DefaultEditor>,
    history: Option<PathBuf>,
    is_terminal: bool,
    spool: Option<File>,
    began: Instant,
}

fn broken(error: ReadlineError) -> SqlError {
    SqlError::new(state::INTERNAL, format!("the terminal: {error}"))
}

impl Host {
    fn new(reads: bool, is_sqlplus: bool) -> Result<Self> {
        let is_terminal = io::stdin().is_terminal();
        let name = if is_sqlplus { ".sqlplus_history" } else { ".plinth_history" };
        let history = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(name));
        let mut new =
            Self { editor: None, history, is_terminal, spool: None, began: Instant::now() };
        if is_terminal && reads {
            let config = rustyline::Config::builder()
                .max_history_size(HISTORY)
                .map_err(broken)?
                .auto_add_history(false)
                .build();
            let mut editor = DefaultEditor::with_config(config).map_err(broken)?;
            if let Some(history) = &new.history {
                let _ = editor.load_history(history);
            }
            new.editor = Some(editor);
        }
        Ok(new)
    }

    fn save_history(&mut self) {
        if let (Some(editor), Some(history)) = (&mut self.editor, &self.history) {
            let _ = editor.save_history(history);
        }
    }
}

/// A line of the standard input without its end; `None` at the end of the input.
fn line_of_input() -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let line = String::from_utf8_lossy(&bytes);
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(Some(line.strip_suffix('\r').unwrap_or(line).to_owned()))
}

impl World for Host {
    fn print(&mut self, text: &str) {
        print(text);
    }

    fn complain(&mut self, text: &str) {
        warn(text);
    }

    fn read(&mut self, prompt: &str) -> io::Result<Line> {
        let Some(editor) = &mut self.editor else {
            return Ok(line_of_input()?.map_or(Line::End, Line::Text));
        };
        match editor.readline(prompt) {
            Ok(line) => Ok(Line::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn ask(&mut self, question: &str, is_hidden: bool) -> Option<String> {
        if self.is_terminal {
            print(question);
        }
        if self.is_terminal && is_hidden {
            let answer = hidden_line();
            print("\n");
            return answer;
        }
        line_of_input().ok().flatten()
    }

    fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    fn remember(&mut self, statement: &str) {
        if let Some(editor) = &mut self.editor {
            let _ = editor.add_history_entry(format!("{};", statement.replace('\n', " ")));
        }
    }

    fn script(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(SCRIPT_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > SCRIPT_MAX {
            return Err(io::Error::other(format!("it has more than {SCRIPT_MAX} bytes")));
        }
        Ok(bytes)
    }

    fn spool(&mut self, path: &Path, how: Spool) -> io::Result<()> {
        self.spool = Some(opened(path, how)?);
        Ok(())
    }

    fn write(&mut self, path: &Path, text: &str, how: Spool) -> io::Result<()> {
        opened(path, how)?.write_all(text.as_bytes())
    }

    fn write_spool(&mut self, text: &str) -> io::Result<()> {
        match &mut self.spool {
            Some(file) => file.write_all(text.as_bytes()),
            None => Ok(()),
        }
    }

    fn end_spool(&mut self) {
        self.spool = None;
    }

    fn shell(&mut self, command: &str) -> io::Result<i32> {
        // The lines of a script that stand in the standard input are not the command's.
        let input = if self.is_terminal { Stdio::inherit() } else { Stdio::null() };
        let status = Command::new("/bin/sh").args(["-c", command]).stdin(input).status()?;
        let by_signal = status.signal().map(|signal| 128 + signal);
        Ok(status.code().or(by_signal).unwrap_or(1))
    }

    fn environment(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn user(&self) -> String {
        users::name(rustix::process::geteuid().as_raw())
    }

    fn now(&self) -> i64 {
        alert::now()
    }

    fn clock(&self) -> Duration {
        self.began.elapsed()
    }
}

fn opened(path: &Path, how: Spool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    match how {
        Spool::Create => options.create_new(true),
        Spool::Replace => options.create(true).truncate(true),
        Spool::Append => options.create(true).append(true),
    };
    options.open(path)
}

/// A line that the terminal does not show; `None` after Ctrl-C or Ctrl-D.
fn hidden_line() -> Option<String> {
    /// Shows again what is typed.
    struct Shown;
    impl Drop for Shown {
        fn drop(&mut self) {
            let _ = crossterm::terminal::disable_raw_mode();
        }
    }
    crossterm::terminal::enable_raw_mode().ok()?;
    let _shown = Shown;
    let mut line = Vec::new();
    for byte in io::stdin().lock().bytes() {
        match byte.ok()? {
            b'\r' | b'\n' => break,
            3 | 4 => return None,
            8 | 127 => drop(line.pop()),
            byte => line.push(byte),
        }
    }
    Some(String::from_utf8_lossy(&line).into_owned())
}
