//! SQL*Plus: scripts of its commands and of statements, as DBAs own them, run as they are.
//!
//! ```text
//!   file, pipe, terminal, -c --lines--> reader --items--> interpreter --one statement--> server
//!                                                            |  ^
//!                              variables, settings, columns, breaks, titles
//!                                                            v
//!                                                  layout --lines--> output, spool
//! ```
//!
//! The interpreter takes one item after the other. A client command it carries out itself; in a
//! statement it replaces variables, and sends it, always one alone. It knows neither sockets nor
//! files: `Server` and `World` are all that it may ask of them, and tests have doubles of both.
//!
//! Invariants:
//!
//!   1. A script does not end with 0 unless all its items were carried out, or passed over because
//!      they could not matter: every other item is a refusal that is printed and counted.
//!   2. No statement is sent with a variable in it that has no value.
//!   3. A refusal of one item does not change what the items behind it are.
//!
//! Under the name `sqlplus` it does everything as SQL*Plus does. As `plinth sql` it has the same
//! commands, but draws results as `psql` until a command about the layout comes, keeps blank lines
//! within statements, and does not run the last statement again at a `/`.

mod binds;
mod breaks;
mod buffer;
mod client;
mod columns;
mod commands;
mod csv;
mod date;
mod describe;
mod files;
mod html;
mod layout;
mod numbers;
mod output;
mod reader;
mod refusal;
mod scan;
mod script;
mod settings;
mod source;
pub(super) mod start;
mod statement;
mod stored;
#[cfg(test)]
mod tests;
mod titles;
mod variables;
mod whenever;
mod words;

use super::Result;
use crate::instance::control::Given;
use binds::Binds;
use breaks::Breaks;
use buffer::Buffer;
use columns::Columns;
use layout::Titles;
use settings::Settings;
use source::Sources;
use std::{io, path::Path, time::Duration};
use variables::Variables;
use whenever::Whenever;

/// The instance.
pub(super) trait Server {
    /// Runs one statement, and hands out what the server gave before it was refused, too.
    ///
    /// # Errors
    /// If it is refused.
    fn run(&mut self, statement: &str, given: &mut dyn FnMut(Given)) -> Result<()>;

    /// # Errors
    /// If there is no instance.
    fn connect(&mut self) -> Result<()>;

    fn disconnect(&mut self);

    fn is_connected(&self) -> bool;
}

/// How a line of the standard input ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    /// Ctrl-C.
    Interrupted,
    End,
}

/// How a file is opened for writing that may be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spool {
    Create,
    Replace,
    Append,
}

/// Files, the terminal, other programs.
pub(super) trait World {
    /// Writes to the standard output. That its reader is gone is no failure.
    fn print(&mut self, text: &str);

    /// Writes to the standard error. That its reader is gone is no failure.
    fn complain(&mut self, text: &str);

    /// The next line of the standard input; on a terminal after this prompt.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&mut self, prompt: &str) -> io::Result<Line>;

    /// An answer from the standard input, on a terminal after this question; `None` at its end.
    fn ask(&mut self, question: &str, is_hidden: bool) -> Option<String>;

    /// Whether a user types the standard input.
    fn is_terminal(&self) -> bool;

    /// Keeps a statement in the history of the terminal.
    fn remember(&mut self, statement: &str);

    /// The bytes of a script.
    ///
    /// # Errors
    /// If it cannot be read.
    fn script(&mut self, path: &Path) -> io::Result<Vec<u8>>;

    /// Opens the file that gets all output, too; one before it is closed.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn spool(&mut self, path: &Path, how: Spool) -> io::Result<()>;

    /// # Errors
    /// If it cannot be written.
    fn write_spool(&mut self, text: &str) -> io::Result<()>;

    fn end_spool(&mut self);

    /// Writes a file at once.
    ///
    /// # Errors
    /// If it cannot be written.
    fn write(&mut self, path: &Path, text: &str, how: Spool) -> io::Result<()>;

    /// Runs a command of the system; its exit code.
    ///
    /// # Errors
    /// If the shell cannot be started.
    fn shell(&mut self, command: &str) -> io::Result<i32>;

    /// A variable of the environment.
    fn environment(&self, name: &str) -> Option<String>;

    fn user(&self) -> String;

    /// Nanoseconds since 1970.
    fn now(&self) -> i64;

    /// A clock for how long things take.
    fn clock(&self) -> Duration;
}

/// How results are drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    /// As psql does: only rows or not, and what stands between columns that are not aligned.
    Psql {
        only_rows: bool,
        unaligned: Option<String>,
    },
    Json,
    /// As SQL*Plus does.
    Report,
}

/// Where lines come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// A text of the command line.
    Text(String),
    /// A script, and its arguments.
    Script(String, Vec<String>),
    /// The standard input.
    Standard,
}

/// The command line, as it was read.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub is_sqlplus: bool,
    /// Neither a greeting nor prompts nor echo.
    pub silent: bool,
    pub look: Look,
    pub inputs: Vec<Input>,
    pub defines: Vec<(String, String)>,
    /// The first refusal ends it.
    pub stops: bool,
    /// SQL*Plus's levels of restriction: 1, HOST; 2, also SPOOL; 3, also START.
    pub restricted: u8,
    /// The clauses of SET MARKUP.
    pub markup: Option<String>,
}

/// A script that is being run.
pub(super) struct Interpreter<'a> {
    server: &'a mut dyn Server,
    world: &'a mut dyn World,
    is_sqlplus: bool,
    silent: bool,
    stops: bool,
    restricted: u8,
    look: Look,
    settings: Settings,
    variables: Variables,
    binds: Binds,
    columns: Columns,
    breaks: Breaks,
    titles: Titles,
    whenever: Whenever,
    sources: Sources,
    /// The last statement, as it was written.
    buffer: Buffer,
    /// The line of the statement in the buffer, if a blank line ended it and nothing has run it.
    broken: Option<usize>,
    /// The file that gets all output, too.
    spool: Option<String>,
    /// It is a document of HTML, which needs an end.
    spools_document: bool,
    /// The standard output is one.
    prints_document: bool,
    /// The numbers of TIMING.
    timers: Vec<(String, Duration)>,
    /// Oracle's number of the last refusal of a statement, or 0.
    sqlcode: u32,
    /// Something was refused that no user at a terminal has seen.
    failed: bool,
    /// The exit code, once the script has ended.
    leave: Option<u8>,
}

impl<'a> Interpreter<'a> {
    /// # Errors
    /// If a clause of `markup` is refused.
    pub(super) fn new(
        start: Start,
        server: &'a mut dyn Server,
        world: &'a mut dyn World,
    ) -> Result<Self> {
        let mut settings = Settings::new(start.is_sqlplus);
        if let Some(markup) = &start.markup {
            let mut words = words::Words::new(markup);
            settings.markup(&mut words).map_err(|refusal| *refusal.error)?;
        }
        let prints_document = settings.html.on;
        let mut new = Self {
            server,
            world,
            is_sqlplus: start.is_sqlplus,
            silent: start.silent,
            stops: start.stops,
            restricted: start.restricted,
            look: start.look,
            settings,
            variables: Variables::default(),
            binds: Binds::default(),
            columns: Columns::default(),
            breaks: Breaks::default(),
            titles: Titles::default(),
            whenever: Whenever::default(),
            sources: Sources::new(start.inputs),
            buffer: Buffer::default(),
            broken: None,
            spool: None,
            spools_document: false,
            prints_document,
            timers: Vec::new(),
            sqlcode: 0,
            failed: false,
            leave: None,
        };
        new.predefine();
        for (name, value) in start.defines {
            new.variables.set(&name, value);
        }
        Ok(new)
    }

    /// The variables that SQL*Plus has from the start.
    fn predefine(&mut self) {
        let editor = self.world.environment("EDITOR").unwrap_or_else(|| "vi".to_owned());
        let today = date::Date::of(self.world.now()).oracle();
        for (name, value) in [
            ("_DATE", today.as_str()),
            ("_CONNECT_IDENTIFIER", "+ASM"),
            ("_EDITOR", &editor),
            ("_O_VERSION", concat!("Plinth ", env!("CARGO_PKG_VERSION"))),
            ("_O_RELEASE", RELEASE),
            ("_SQLPLUS_RELEASE", RELEASE),
            ("_RC", "0"),
        ] {
            self.variables.set(name, value);
        }
        self.connected();
    }

    /// The variables about the connection.
    fn connected(&mut self) {
        let is_connected = self.server.is_connected();
        let user = if is_connected { self.world.user().to_uppercase() } else { String::new() };
        self.variables.set("_USER", user);
        self.variables.set("_PRIVILEGE", if is_connected { "AS SYSASM" } else { "" });
    }
}

/// The release that scripts compare: they run what they have for this one.
const RELEASE: &str = "1900000000";
