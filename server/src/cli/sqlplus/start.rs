//! The command line of `sqlplus`, as SQL*Plus has it:
//!
//! ```text
//!   sqlplus [-S] [-L] [-M "CSV ON"] [-R n] [/ | /nolog | user/password] [AS SYSASM]
//!           [@script arguments]
//! ```
//!
//! Without `/nolog` it connects to the instance that PLINTH_DIR names. Behind a script the standard
//! input is read, too, as SQL*Plus does.

use super::{Input, Look, Start, client::check_logon};
use crate::{cli::Result, sql_error::SqlError};

/// The task that the command line gives `sqlplus`.
#[derive(Debug)]
pub(in super::super) enum Asked {
    Version,
    Help,
    Run { start: Start, connects: bool },
}

/// The state of a wrong word: PostgreSQL's invalid parameter value.
const STATE: &str = "22023";

pub(in super::super) const HELP: &str = "\
sqlplus [-S] [-L] [-M \"CSV ON\" | -M \"HTML ON\"] [-R 1|2|3] [-V] [/ | /nolog] [AS SYSASM] [@script [argument ...]]

  -S  silent: no greeting, no prompts, no echo
  -L  log on once (it is never tried again)
  -M  as SET MARKUP
  -R  restrict: 1 no HOST, 2 no SPOOL either, 3 no scripts either
  -V  the version

PLINTH_DIR says where the instance's sockets are. docs/sql.md lists the commands.
";

/// Reads the words of the command line, without the program's name.
///
/// # Errors
/// At the first word that is wrong.
pub(in super::super) fn read(words: impl Iterator<Item = String>) -> Result<Asked> {
    let mut words = words.peekable();
    let mut start = Start {
        is_sqlplus: true,
        silent: false,
        look: Look::Report,
        inputs: Vec::new(),
        defines: Vec::new(),
        stops: false,
        restricted: 0,
        markup: None,
    };
    while let Some(word) = words.next_if(|word| word.starts_with('-') && word.len() > 1) {
        let value = |word: Option<String>| {
            word.ok_or_else(|| SqlError::new(STATE, "an option of sqlplus has no value").hint(HELP))
        };
        match word.to_ascii_uppercase().as_str() {
            "-S" | "-SILENT" => start.silent = true,
            "-L" | "-LOGON" | "-F" | "-FAST" | "-NOLOGINTIME" | "-AC" => {}
            "-C" | "-COMPATIBILITY" => drop(value(words.next())?),
            "-M" | "-MARKUP" => start.markup = Some(value(words.next())?),
            "-R" | "-RESTRICT" => {
                let level = value(words.next())?;
                start.restricted =
                    level.parse().ok().filter(|level| (1..=3).contains(level)).ok_or_else(
                        || SqlError::new(STATE, format!("-R takes 1, 2 or 3, not {level}")),
                    )?;
            }
            "-V" | "-VERSION" => return Ok(Asked::Version),
            "-H" | "-HELP" | "--HELP" => return Ok(Asked::Help),
            "--VERSION" => return Ok(Asked::Version),
            _ => {
                return Err(
                    SqlError::new(STATE, format!("sqlplus has no option {word}")).hint(HELP)
                );
            }
        }
    }
    // All words before the script are the logon: `/ as sysasm`, in one word or in three.
    let mut logon = Vec::new();
    while let Some(word) = words.next_if(|word| !word.starts_with('@')) {
        logon.push(word);
    }
    let logon = logon.join(" ");
    let connects = !logon.trim().eq_ignore_ascii_case("/nolog");
    if connects && !logon.trim().is_empty() {
        check_logon(&logon).map_err(|refusal| *refusal.error)?;
    }
    if let Some(script) = words.next() {
        start.inputs.push(script_of(&script, words)?);
    }
    start.inputs.push(Input::Standard);
    Ok(Asked::Run { start, connects })
}

/// The script that a word like `@script` names, with its arguments.
///
/// # Errors
/// If it names none.
pub(in super::super) fn script_of(
    word: &str,
    mut words: impl Iterator<Item = String>,
) -> Result<Input> {
    let name = word.trim_start_matches('@');
    let name = if name.is_empty() { words.next().unwrap_or_default() } else { name.to_owned() };
    if name.is_empty() || !word.starts_with('@') {
        return Err(SqlError::new(STATE, format!("{word:?} is no script"))
            .hint("@script runs one; -c 'statement' runs a statement"));
    }
    Ok(Input::Script(name, words.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Asked> {
        read(shlex::split(line).expect("words").into_iter())
    }

    #[track_caller]
    fn run(line: &str) -> (Start, bool) {
        match words(line) {
            Ok(Asked::Run { start, connects }) => (start, connects),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_that_of_sqlplus() {
        let (start, connects) = run("-S / as sysasm @a/b.sql 1 'x y'");
        assert!(start.silent && connects);
        let script = Input::Script("a/b.sql".to_owned(), vec!["1".to_owned(), "x y".to_owned()]);
        assert_eq!(start.inputs, [script, Input::Standard]);
        let (start, connects) = run("-s -l \"/ as sysasm\"");
        assert!(start.silent && connects && start.inputs == [Input::Standard]);
        assert!(!run("/nolog").1 && run("").1);
        let (start, _) = run("-M 'CSV ON' -R 2 / @x");
        assert_eq!((start.markup.as_deref(), start.restricted), (Some("CSV ON"), 2));
        assert!(matches!(words("-V"), Ok(Asked::Version)));
        for wrong in ["-X", "scott/tiger", "-R 9", "-M", "/ as nobody", "/ @"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }
}
