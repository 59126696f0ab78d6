//! `sql`: statements from an argument, from a pipe, or from a terminal.
//!
//! A statement ends with `;` at the end of a line, or with a line that is `/`, as in SQL*Plus. `\q`
//! ends the shell. Ctrl-C cancels the running statement; pressed twice, it ends the program. An
//! error shows the line and a caret under the place.

use super::{
    Result, complain,
    context::{Context, Run},
    print, table,
    watch::Watch,
};
use crate::{
    instance::control::{Client, Given},
    paths::Paths,
    sql::{TEXT_MAX, sqlplus::plain},
    sql_error::{SqlError, state},
};
use clap::Args;
use rustyline::{DefaultEditor, error::ReadlineError};
use std::{
    io::{self, IsTerminal, Read},
    path::PathBuf,
    sync::{
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// Lines of history that are kept.
const HISTORY: usize = 1000;

/// How often a running statement looks whether Ctrl-C was pressed.
const SLICE: Duration = Duration::from_millis(50);

/// Run SQL statements, or a shell for them.
#[derive(Debug, Args)]
pub(super) struct Sql {
    /// The statements; given several times one after the other, until one is refused. Without them,
    /// they are read from the standard input.
    #[arg(short, long, value_name = "STATEMENTS")]
    command: Vec<String>,
}

impl Run for Sql {
    fn run(&self, context: &mut Context) -> Result<()> {
        let client = context.instance()?;
        let read;
        let texts = match &self.command[..] {
            [] if io::stdin().is_terminal() => return interact(client, context),
            [] => {
                let mut text = String::new();
                io::stdin().take(TEXT_MAX as u64 + 1).read_to_string(&mut text).map_err(
                    |error| SqlError::new(state::INTERNAL, format!("reading statements: {error}")),
                )?;
                read = [text];
                &read[..]
            }
            texts => texts,
        };
        for text in texts {
            if let Err(refusal) = carry_out(&client, &context.paths, text, context.json) {
                fail(&refusal, text);
                context.status = 1;
                break;
            }
        }
        Ok(())
    }
}

/// Runs statements, with a progress bar while it waits for one that moves data.
fn carry_out(client: &Client, paths: &Paths, text: &str, json: bool) -> Result<()> {
    let watch = || watches(text).then(|| Watch::begin(paths));
    let mut watching = watch();
    client.sql(text, |given| {
        // The bar is removed before something else is printed.
        drop(watching.take());
        show(&given, json);
        watching = watch();
    })
}

/// Whether statements may take long: they move data, and return when that is done.
fn watches(text: &str) -> bool {
    text.split(|char: char| !char.is_ascii_alphanumeric())
        .any(|word| ["WAIT", "DROP"].iter().any(|long| word.eq_ignore_ascii_case(long)))
}

fn show(given: &Given, json: bool) {
    for notice in &given.notices {
        let severity = if notice.warning { "WARNING" } else { "NOTICE" };
        eprintln!("{severity}: {}", notice.text);
    }
    match &given.table {
        Some(found) if json => print(&table::json(found)),
        Some(found) => print(&table::ruled(found)),
        None if json || given.tag.is_empty() => {}
        None => print(&format!("{}\n", given.tag)),
    }
}

fn fail(refusal: &SqlError, text: &str) {
    complain(refusal);
    if let Some(place) = refusal.at.and_then(|at| caret(text, at)) {
        eprint!("{place}");
    }
}

/// The line with character `at`, and a caret below it.
fn caret(text: &str, at: usize) -> Option<String> {
    let characters: Vec<char> = text.chars().collect();
    if at > characters.len() {
        return None;
    }
    let start =
        characters.iter().take(at).rposition(|char| *char == '\n').map_or(0, |newline| newline + 1);
    let line: String = characters.iter().skip(start).take_while(|char| **char != '\n').collect();
    let number = characters.iter().take(at).filter(|char| **char == '\n').count() + 1;
    let prefix = format!("LINE {number}: ");
    // Tabs stay tabs, so that the caret stands below its character.
    let indent: String =
        line.chars().take(at - start).map(|char| if char == '\t' { '\t' } else { ' ' }).collect();
    Some(format!("{prefix}{line}\n{}{indent}^\n", " ".repeat(prefix.len())))
}

/// As [`carry_out`]; Ctrl-C cancels. After that the connection cannot be used any more.
fn carry_out_or_cancel(client: &Client, context: &Context, text: &str) -> Result<()> {
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
        let result = carry_out(client, &context.paths, text, context.json);
        drop(end);
        result
    })
}

fn interact(mut client: Client, context: &Context) -> Result<()> {
    context.heed_interrupts()?;
    let paths = &context.paths;
    let broken =
        |error: ReadlineError| SqlError::new(state::INTERNAL, format!("the terminal: {error}"));
    let config = rustyline::Config::builder()
        .max_history_size(HISTORY)
        .map_err(broken)?
        .auto_add_history(false)
        .build();
    let mut editor = DefaultEditor::with_config(config).map_err(broken)?;
    let history = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".plinth_history"));
    if let Some(history) = &history {
        let _ = editor.load_history(history);
    }
    print(
        "SQL over disk groups; \\q leaves, SHOW ALL and SELECT * FROM v$asm_diskgroup; are a start.\n",
    );
    let mut text = String::new();
    loop {
        let line = match editor.readline(if text.is_empty() { "plinth> " } else { "     -> " }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(broken(error)),
        };
        let word = line.trim();
        if text.is_empty() && matches!(word, "\\q" | "exit" | "quit" | "exit;" | "quit;") {
            break;
        }
        if text.is_empty() && word.is_empty() {
            continue;
        }
        // As from a pipe: `/` does not run the last statement again.
        if word == "/" && text.is_empty() {
            continue;
        }
        text.push_str(&line);
        text.push('\n');
        // In a string or a comment a / is part of it.
        let is_run = word == "/" && plain(&text).is_ok_and(|text| text.trim_end().ends_with(';'));
        if !word.ends_with(';') && !is_run {
            continue;
        }
        let statement = text.trim_end().to_owned();
        text.clear();
        let _ = editor.add_history_entry(statement.replace('\n', " "));
        let result = carry_out_or_cancel(&client, context, &statement);
        let is_lost = result.as_ref().is_err_and(|refusal| refusal.state.starts_with("08"));
        if let Err(refusal) = result {
            fail(&refusal, &statement);
        }
        if is_lost || context.is_interrupted() {
            match Client::connect(paths) {
                Ok(again) => client = again,
                Err(refusal) => complain(&refusal),
            }
        }
    }
    if let Some(history) = &history {
        let _ = editor.save_history(history);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_below_the_place() {
        assert_eq!(caret("select x", 7).as_deref(), Some("LINE 1: select x\n               ^\n"));
        assert_eq!(caret("a\n\tbé c\nd", 6).as_deref(), Some("LINE 2: \tbé c\n        \t   ^\n"));
        assert_eq!(caret("a", 1).as_deref(), Some("LINE 1: a\n         ^\n"));
        assert_eq!(caret("a", 2), None);
    }
}
