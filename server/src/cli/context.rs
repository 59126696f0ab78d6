//! The context of every command of the shell: where the instance is, the current directory, and how
//! to print.
//!
//! A table is printed under headings, as `asmcmd` does, or as an array of objects with `--json`. A
//! line that only reports success is left out of JSON, so that the output is JSON and nothing else.

use super::{
    Result,
    asm_path::AsmPath,
    print,
    table::{self, Cells},
    warn,
};
use crate::{
    engine,
    instance::control::Client,
    paths::Paths,
    query::Table,
    sql_error::{SqlError, state},
};
use clap::Args;
use plinth_engine::admin::{AdminError, Code, Value};
use plinth_format::is_name;
use signal_hook::consts::SIGINT;
use std::{
    fmt,
    io::{self, BufRead, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The exit code of a program that SIGINT has ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// A command that the shell and `plinth` both have.
pub(super) trait Run {
    /// # Errors
    /// If it was not carried out, or not completely.
    fn run(&self, context: &mut Context) -> Result<()>;
}

/// Tables without their headings.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(super) struct Headings {
    /// Print no headings.
    #[arg(short = 'H', long)]
    suppressheader: bool,
}

impl Headings {
    /// For lists of names, which have none.
    pub(super) fn none() -> Self {
        Self { suppressheader: true }
    }
}

#[derive(Debug)]
pub(super) struct Context {
    pub paths: Paths,
    /// The current directory, which `cd` changes.
    pub here: AsmPath,
    pub json: bool,
    /// The program's exit code if nothing is refused.
    pub status: u8,
    /// `exit` was entered.
    pub leave: bool,
    /// Ctrl-C was pressed: the running command is to end.
    pub interrupted: Arc<AtomicBool>,
}

/// A refusal under the number that `asmcmd` has for it.
pub(super) fn asmcmd(number: u16, text: impl fmt::Display) -> SqlError {
    SqlError::new("22023", format!("ASMCMD-{number}: {text}"))
}

pub(super) use crate::text::quoted;

/// A condition for a pattern with `*`, `%` and `?`, in any case.
pub(super) fn like(column: &str, pattern: &str) -> String {
    let pattern =
        pattern.replace('\\', "\\\\").replace('_', "\\_").replace('*', "%").replace('?', "_");
    format!("{column} ILIKE {} ESCAPE '\\'", quoted(&pattern))
}

/// As [`like`]; without a pattern a condition that is always true.
pub(super) fn like_or_all(column: &str, pattern: Option<&str>) -> String {
    pattern.map_or_else(|| "1".to_owned(), |pattern| like(column, pattern))
}

/// A group's name without the signs that users write around it: `data`, `+DATA`, `DATA/`.
pub(super) fn bare(written: &str) -> &str {
    written.trim_start_matches('+').trim_end_matches('/')
}

/// A group's name as users write it: `data`, `+DATA`, `DATA/`. The result can be put into a
/// statement.
pub(super) fn group_name(written: &str) -> Result<String> {
    let name = bare(written);
    match name.strip_suffix(';') {
        // As in SQL.
        Some(alone) if is_name(&alone.to_uppercase()) => {
            Err(no_group(name).hint("a command of the shell has no ; at its end"))
        }
        _ => checked_name(name, "a disk group"),
    }
}

/// The refusal for a group that does not exist or is not mounted.
pub(super) fn no_group(name: &str) -> SqlError {
    asmcmd(8001, format!("diskgroup '{}' does not exist or is not mounted", name.to_uppercase()))
}

/// A connection to the engine of a mounted group. Between an engine's death and its successor it
/// waits for the successor.
///
/// # Errors
/// If there is no such group, it is not mounted, or no engine could mount it for a while.
pub(super) fn engine_in_service(paths: &Paths, group: &str) -> Result<engine::client::Client> {
    let is_absent = |error: &AdminError| error.code == Code::NotMounted;
    let connect = || engine::client::Client::connect(paths, group);
    let found = match connect() {
        Err(error) if is_absent(&error) => {
            // Without an instance no engine is started again.
            if let Ok(instance) = Client::connect(paths) {
                instance.await_engine(group)?;
            }
            connect()
        }
        found => found,
    };
    found.map_err(|error| match error.code {
        Code::NotMounted => {
            SqlError { code: Some(error.code), ..no_group(group).hint(format!("mount {group}")) }
        }
        _ => error.into(),
    })
}

/// Checks that a name can be put into a statement without quotes; returns it in upper case.
pub(super) fn checked_name(written: &str, what: &str) -> Result<String> {
    let name = written.to_uppercase();
    if is_name(&name) {
        return Ok(name);
    }
    Err(SqlError::new("22023", format!("{written:?} cannot be the name of {what}"))
        .hint("a letter, then letters, digits, _, $, #; 30 in all"))
}

/// Checks a word that a statement takes without quotes: a size, a number with a unit.
pub(super) fn checked_word(written: &str, what: &str) -> Result<String> {
    if !written.is_empty() && written.chars().all(|char| char.is_ascii_alphanumeric()) {
        return Ok(written.to_owned());
    }
    Err(SqlError::new("22023", format!("{written:?} is no {what}")))
}

impl Context {
    pub(super) fn new(paths: Paths, json: bool) -> Self {
        Self {
            paths,
            here: AsmPath::default(),
            json,
            status: 0,
            leave: false,
            interrupted: Arc::default(),
        }
    }

    /// The path that a text means in the current directory.
    pub(super) fn place(&self, text: &str) -> AsmPath {
        self.here.join(text)
    }

    /// The engine of a mounted group.
    pub(super) fn engine(&self, group: &str) -> Result<engine::client::Client> {
        engine_in_service(&self.paths, group)
    }

    /// The instance.
    pub(super) fn instance(&self) -> Result<Client> {
        Client::connect(&self.paths)
    }

    /// Runs one query.
    pub(super) fn query(&self, sql: &str) -> Result<Table> {
        query(&self.paths, sql)
    }

    /// Runs a statement; its notices are printed.
    pub(super) fn statement(&self, sql: &str) -> Result<()> {
        self.instance()?.sql(sql, |given| {
            for notice in given.notices {
                warn(&format!("{}\n", notice.text));
            }
        })
    }

    /// The number of a mounted group.
    pub(super) fn group_number(&self, group: &str) -> Result<i64> {
        let found = self.query(&format!(
            "SELECT group_number FROM v$asm_diskgroup_stat WHERE name = {} AND group_number > 0",
            quoted(group)
        ))?;
        match found.rows.first().and_then(|row| row.first()) {
            Some(Value::Integer(number)) => Ok(*number),
            _ => Err(no_group(group)),
        }
    }

    /// Prints a table in the requested format.
    pub(super) fn show(&self, table: &Table, headings: Headings) {
        self.show_cells(table, headings, Cells::default());
    }

    /// The same, of a table with cells that are not one word.
    pub(super) fn show_cells(&self, table: &Table, headings: Headings, cells: Cells) {
        print(&if self.json {
            table::json(table)
        } else {
            table::plain(table, !headings.suppressheader, cells)
        });
    }

    /// Runs a query and prints its result.
    pub(super) fn show_query(&self, sql: &str, headings: Headings) -> Result<()> {
        let listed = self.query(sql)?;
        self.show(&listed, headings);
        Ok(())
    }

    /// Prints what was done, unless the output is JSON.
    pub(super) fn say(&self, text: impl fmt::Display) {
        if !self.json {
            print(&format!("{}\n", crate::text::clean(&text.to_string())));
        }
    }

    /// Asks the user whether to go on; refused without a terminal.
    pub(super) fn sure(&self, question: &str) -> Result<bool> {
        if !io::stdin().is_terminal() {
            return Err(SqlError::new(
                "22023",
                format!("{question} There is no terminal to ask at"),
            )
            .hint("-f does it without asking"));
        }
        print(&format!("{question} (y/n) "));
        let mut answer = String::new();
        io::stdin()
            .lock()
            .read_line(&mut answer)
            .map_err(|error| SqlError::new(state::INTERNAL, format!("the terminal: {error}")))?;
        let _ = io::stdout().flush();
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// From now on Ctrl-C ends a command that looks at `interrupted`; pressed again before that, it
    /// ends the program. While a line is edited the editor handles the key.
    pub(super) fn heed_interrupts(&self) -> Result<()> {
        static HEEDED: AtomicBool = AtomicBool::new(false);
        if HEEDED.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let flag = &self.interrupted;
        let registered =
            signal_hook::flag::register_conditional_shutdown(SIGINT, INTERRUPTED, Arc::clone(flag))
                .and_then(|_| signal_hook::flag::register(SIGINT, Arc::clone(flag)));
        registered
            .map(drop)
            .map_err(|error| SqlError::new(state::INTERNAL, format!("signals: {error}")))
    }

    /// Whether the command shall end: for commands that go on until they are interrupted.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Runs a future of the engine's code in this process.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        plinth_host::block_on(future)
    }
}

/// Runs one query.
pub(super) fn query(paths: &Paths, sql: &str) -> Result<Table> {
    let mut found = None;
    Client::connect(paths)?.sql(sql, |given| {
        for notice in given.notices {
            warn(&format!("plinth: {}\n", notice.text));
        }
        found = given.table;
    })?;
    found.ok_or_else(|| SqlError::new(state::INTERNAL, "a query without a result"))
}
