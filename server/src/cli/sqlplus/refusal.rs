//! Refusals of the client, and the words in which a report says what a statement did.
//!
//! SQL*Plus numbers its own refusals: `SP2-0158: unknown SET option "foo"`. Those that are the same
//! here keep the number. A refusal has a cause, because `WHENEVER SQLERROR` is about statements,
//! `WHENEVER OSERROR` about files, and neither is about a client command that is wrong.
//!
//! Every statement that did not run is a refusal with the cause `Statement`, even if the server was
//! never asked: a variable without a value, a block of PL/SQL, a blank line in the middle.

use crate::sql_error::SqlError;
use std::fmt;

/// The kind of thing that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A client command.
    Command,
    /// A statement.
    Statement,
    /// A file or a program.
    System,
}

#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub cause: Cause,
    /// Boxed, because a refusal is rare and results are moved often.
    pub error: Box<SqlError>,
    /// The message says already which line it is about.
    pub names_line: bool,
}

impl Refusal {
    pub(super) fn of(cause: Cause, error: SqlError) -> Self {
        Self { cause, error: Box::new(error), names_line: false }
    }

    pub(super) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.error.hint = Some(hint.to_string());
        self
    }

    /// The same refusal, whose message says which line it is about.
    pub(super) fn with_line(mut self) -> Self {
        self.names_line = true;
        self
    }

    /// The same refusal, of a statement.
    pub(super) fn of_statement(mut self) -> Self {
        self.cause = Cause::Statement;
        self
    }
}

/// The state of refusals that the server has no part in: PostgreSQL's invalid parameter value.
const STATE: &str = "22023";

/// A client command that is wrong, under SQL*Plus's number.
pub(super) fn invalid(number: u16, text: impl fmt::Display) -> Refusal {
    Refusal::of(Cause::Command, SqlError::new(STATE, format!("SP2-{number:04}: {text}")))
}

/// A client command that is wrong, in a way for which SQL*Plus has no number.
pub(super) fn wrong(text: impl fmt::Display) -> Refusal {
    Refusal::of(Cause::Command, SqlError::new(STATE, text))
}

/// A file that cannot be used, under SQL*Plus's number.
pub(super) fn system(number: u16, text: impl fmt::Display) -> Refusal {
    Refusal::of(Cause::System, SqlError::new(STATE, format!("SP2-{number:04}: {text}")))
}

/// A client command that is known and not there.
pub(super) fn not_here(name: &str, why: &str) -> Refusal {
    let text = format!("{name} is not supported: {why}");
    Refusal::of(Cause::Command, SqlError::new(STATE, text))
}

/// Oracle's number of a refusal. Scripts look for `ORA-`, so a refusal that Oracle does not have
/// gets the number that Oracle leaves to applications.
pub(super) fn oracle_number(error: &SqlError) -> u32 {
    /// The first of the numbers of applications.
    const OURS: u32 = 20000;
    let detail = error.detail.as_deref().unwrap_or_default();
    let digits = detail.split_once("ORA-").map(|(_, number)| number);
    let digits = digits.map(|text| text.trim_end_matches(|char: char| !char.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(OURS)
}

/// The message as SQL*Plus prints it, with Oracle's number before it and the remedy below.
pub(super) fn message(error: &SqlError) -> String {
    let numbered = ["SP2-", "ORA-", "ASMCMD-"].iter().any(|name| error.message.starts_with(name));
    let number = oracle_number(error);
    let name = if numbered { String::new() } else { format!("ORA-{number:05}: ") };
    let hint = error.hint.as_deref().map(|hint| format!("  {hint}\n")).unwrap_or_default();
    format!("{name}{}\n{hint}", error.message)
}

/// The refusal of a statement, below the line of the statement and a star under the place.
pub(super) fn report(error: &SqlError, statement: &str) -> String {
    let at = error.at.unwrap_or(0).min(statement.chars().count());
    let before: Vec<char> = statement.chars().take(at).collect();
    let number = before.iter().filter(|char| **char == '\n').count();
    let column = before.iter().rev().take_while(|char| **char != '\n').count();
    let line = statement.lines().nth(number).unwrap_or_default();
    let indent: String =
        line.chars().take(column).map(|char| if char == '\t' { '\t' } else { ' ' }).collect();
    format!("{line}\n{indent}*\nERROR at line {}:\n{}\n\n", number + 1, message(error))
}

/// What SQL*Plus says when a statement without rows is done, by the server's command tag.
pub(super) fn acknowledgement(tag: &str) -> String {
    let (verb, what) = tag.split_once(' ').unwrap_or((tag, ""));
    let done = match verb {
        "CREATE" => "created",
        "ALTER" => "altered",
        "DROP" => "dropped",
        _ => "",
    };
    let what = match what {
        "ROLE" => "User".to_owned(),
        other => {
            let mut letters = other.chars();
            let first = letters.next().map(String::from).unwrap_or_default();
            format!("{first}{}", letters.as_str().to_lowercase())
        }
    };
    match verb {
        "SET" | "RESET" => "Session altered.".to_owned(),
        "COMMIT" => "Commit complete.".to_owned(),
        "ROLLBACK" => "Rollback complete.".to_owned(),
        "SAVEPOINT" => "Savepoint created.".to_owned(),
        _ if done.is_empty() || what.is_empty() => "Statement processed.".to_owned(),
        _ => format!("{what} {done}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql_error::state;

    #[test]
    fn a_refusal_has_the_line_and_a_star_under_the_place() {
        let error = SqlError::new("42P01", "no view x").at(14);
        let expected = "from x\n     *\nERROR at line 2:\nORA-00942: no view x\n\n\n";
        assert_eq!(report(&error, "select a\nfrom x"), expected);
        let elsewhere = SqlError::new("22023", "so it is").hint("do that");
        let expected = "select\n*\nERROR at line 1:\nORA-20000: so it is\n  do that\n\n\n";
        assert_eq!(report(&elsewhere, "select\na"), expected);
        // A place behind the end does no harm.
        assert!(report(&error.at(999), "ab").starts_with("ab\n  *\n"));
    }

    #[test]
    fn numbers_are_oracles_where_it_has_one() {
        assert_eq!(oracle_number(&SqlError::new(state::SYNTAX, "x")), 900);
        assert_eq!(oracle_number(&SqlError::new("22023", "x")), 20000);
        assert_eq!(
            message(&invalid(158, "unknown SET option \"x\"").error),
            "SP2-0158: unknown SET option \"x\"\n"
        );
    }

    #[test]
    fn statements_are_acknowledged_as_sqlplus_does() {
        for (tag, said) in [
            ("ALTER DISKGROUP", "Diskgroup altered."),
            ("CREATE DISKGROUP", "Diskgroup created."),
            ("DROP DISKGROUP", "Diskgroup dropped."),
            ("ALTER SYSTEM", "System altered."),
            ("ALTER SESSION", "Session altered."),
            ("CREATE ROLE", "User created."),
            ("SET", "Session altered."),
            ("COMMIT", "Commit complete."),
            ("BEGIN", "Statement processed."),
            ("DISCARD ALL", "Statement processed."),
        ] {
            assert_eq!(acknowledgement(tag), said, "{tag}");
        }
    }
}
