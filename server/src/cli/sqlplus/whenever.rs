//! How a script ends: EXIT, and WHENEVER, which says what follows a refusal.
//!
//! Without an EXIT, and with an EXIT that names no code, the program ends with 1 if anything was
//! refused, and with 0 otherwise. A code that is named is obeyed. The system keeps the last eight
//! bits of a code: one that would become 0 by that becomes 1.

use super::{
    refusal::{Refusal, wrong},
    words::Words,
};

/// The code that EXIT names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Code {
    /// None.
    Plain,
    Number(i64),
    /// Oracle's number of the last refusal of a statement.
    LastRefusal,
    /// A variable.
    Variable(String),
    /// A bind variable.
    Bind(String),
}

/// How a script goes on behind a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Then {
    Continue,
    Exit(Code),
}

#[derive(Debug, Clone)]
pub(super) struct Whenever {
    pub sql_error: Then,
    pub os_error: Then,
}

impl Default for Whenever {
    fn default() -> Self {
        Self { sql_error: Then::Continue, os_error: Then::Continue }
    }
}

const WARNING: i64 = 2;

impl Whenever {
    /// Carries out WHENEVER.
    ///
    /// # Errors
    /// If a clause is wrong.
    pub(super) fn set(&mut self, rest: &str) -> Result<(), Refusal> {
        let mut words = Words::new(rest);
        let of_statements = words.take("SQLERROR", 8);
        if !of_statements && !words.take("OSERROR", 7) {
            return Err(wrong("WHENEVER takes SQLERROR or OSERROR"));
        }
        let then = if words.take("CONTINUE", 4) {
            let _ = ["NONE", "COMMIT", "ROLLBACK"].iter().any(|word| words.take(word, word.len()));
            ends(&mut words)?;
            Then::Continue
        } else if words.take("EXIT", 4) {
            Then::Exit(exit(words.rest())?)
        } else {
            return Err(wrong("WHENEVER ... takes EXIT or CONTINUE"));
        };
        if of_statements {
            self.sql_error = then;
        } else {
            self.os_error = then;
        }
        Ok(())
    }
}

/// The code behind EXIT.
///
/// # Errors
/// If the words are not a code.
pub(super) fn exit(rest: &str) -> Result<Code, Refusal> {
    let mut words = Words::new(rest);
    let ends_transaction =
        |words: &mut Words<'_>| words.take("COMMIT", 6) || words.take("ROLLBACK", 8);
    if ends_transaction(&mut words) {
        ends(&mut words)?;
        return Ok(Code::Plain);
    }
    let Some(word) = words.option()? else { return Ok(Code::Plain) };
    let code = match word.text.to_ascii_uppercase().as_str() {
        "SUCCESS" => Code::Number(0),
        "FAILURE" => Code::Number(1),
        "WARNING" => Code::Number(WARNING),
        "SQL.SQLCODE" => Code::LastRefusal,
        text => match (text.parse(), text.strip_prefix(':')) {
            (Ok(number), _) => Code::Number(number),
            (_, Some(name)) => Code::Bind(name.to_owned()),
            _ => Code::Variable(text.to_owned()),
        },
    };
    ends_transaction(&mut words);
    ends(&mut words)?;
    Ok(code)
}

fn ends(words: &mut Words<'_>) -> Result<(), Refusal> {
    match words.option()? {
        None => Ok(()),
        Some(word) => Err(wrong(format!("\"{}\" is one word too many", word.text))),
    }
}

/// A number as the exit code of a program.
pub(super) fn code(number: i64) -> u8 {
    match u8::try_from(number.rem_euclid(256)) {
        Ok(0) if number != 0 => 1,
        Ok(code) => code,
        Err(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_name_their_code() {
        for (rest, expected) in [
            ("", Code::Plain),
            ("COMMIT", Code::Plain),
            ("success", Code::Number(0)),
            ("FAILURE rollback", Code::Number(1)),
            ("WARNING", Code::Number(2)),
            ("7", Code::Number(7)),
            ("-1", Code::Number(-1)),
            ("sql.sqlcode ROLLBACK", Code::LastRefusal),
            (":rc", Code::Bind("RC".to_owned())),
            ("rc", Code::Variable("RC".to_owned())),
        ] {
            assert_eq!(exit(rest).expect(rest), expected, "{rest}");
        }
        assert!(exit("1 2").is_err() && exit("COMMIT 1").is_err());
        assert_eq!([0, 7, 256, 257, -1, 942].map(code), [0, 7, 1, 1, 255, 174]);
    }

    #[test]
    fn whenever_is_about_statements_or_files() {
        let mut whenever = Whenever::default();
        whenever.set("sqlerror exit failure rollback").expect("an action");
        assert_eq!(whenever.sql_error, Then::Exit(Code::Number(1)));
        assert_eq!(whenever.os_error, Then::Continue);
        whenever.set("OSERROR EXIT 9").expect("an action");
        assert_eq!(whenever.os_error, Then::Exit(Code::Number(9)));
        whenever.set("SQLERROR CONTINUE NONE").expect("an action");
        assert_eq!(whenever.sql_error, Then::Continue);
        for rest in ["", "SQLERROR", "FOO EXIT", "SQLERROR STOP", "SQLERROR CONTINUE 5"] {
            assert!(whenever.set(rest).is_err(), "{rest}");
        }
    }
}
