//! Scripts for SQL*Plus, as DBAs publish them, with its own commands between the statements: `SET
//! LINESIZE 200`, `COLUMN name FORMAT a30`, `PROMPT ...`, a `/` alone on its line.
//!
//! `plinth sql` carries these commands out. Here, in a text that came another way (`psql` sends a
//! line without `;` together with what follows), they are not carried out. Each is told by its
//! first word and ends with its line:
//!
//! - what cannot matter, the layout of results above all, is passed over: its line is blanked out;
//! - what can matter is refused at its place: a file to run, a program, a session to change;
//! - a `SET` that is neither an option of SQL*Plus nor `SET name {= | TO} value` is refused.
//!
//! None is ever joined with what follows, so none can swallow a statement. Positions in the text
//! stay the same. Nothing within a statement, a string or a comment is changed, except that a `/`
//! alone on its line ends a statement, as a semicolon does.

use crate::sql_error::{SqlError, state};
use std::borrow::Cow;

/// A word, and how many of its letters are enough.
pub type Word = (&'static str, usize);

/// Commands without an effect on statements.
const PASSED: [Word; 19] = [
    ("ACCEPT", 3),
    ("BREAK", 3),
    ("BTITLE", 3),
    ("CLEAR", 2),
    ("COLUMN", 3),
    ("COMPUTE", 4),
    ("DEFINE", 3),
    ("PAUSE", 3),
    ("PROMPT", 3),
    ("REMARK", 3),
    ("REPFOOTER", 4),
    ("REPHEADER", 4),
    ("SPOOL", 3),
    ("STORE", 5),
    ("TIMING", 4),
    ("TTITLE", 3),
    ("UNDEFINE", 5),
    ("VARIABLE", 3),
    ("WHENEVER", 3),
];
/// Commands whose work would be missed.
const REFUSED: [Word; 21] = [
    ("ARCHIVE", 7),
    ("CONNECT", 4),
    ("DEL", 3),
    ("DESCRIBE", 4),
    ("DISCONNECT", 4),
    ("EDIT", 2),
    ("GET", 3),
    ("HELP", 4),
    ("HISTORY", 4),
    ("HOST", 2),
    ("LIST", 3),
    ("OERR", 4),
    ("PASSWORD", 5),
    ("PRINT", 3),
    ("RECOVER", 7),
    ("RUN", 3),
    ("SAVE", 3),
    ("SHUTDOWN", 8),
    ("START", 3),
    ("STARTUP", 7),
    ("XQUERY", 6),
];
/// The options of SET; `cli/sqlplus/settings.rs` has what `plinth sql` does with each.
pub const OPTIONS: &[Word] = &[
    ("APPINFO", 4),
    ("ARRAYSIZE", 5),
    ("AUTOCOMMIT", 4),
    ("AUTOPRINT", 5),
    ("AUTORECOVERY", 12),
    ("AUTOTRACE", 5),
    ("BLOCKTERMINATOR", 3),
    ("BUFFER", 3),
    ("CLOSECURSOR", 8),
    ("CMDSEP", 4),
    ("COLINVISIBLE", 7),
    ("COLSEP", 6),
    ("COMPATIBILITY", 3),
    ("CONCAT", 3),
    ("COPYCOMMIT", 5),
    ("COPYTYPECHECK", 13),
    ("CRT", 3),
    ("DEFINE", 3),
    ("DESCRIBE", 4),
    ("DOCUMENT", 3),
    ("ECHO", 4),
    ("EDITFILE", 5),
    ("EMBEDDED", 3),
    ("ERRORLOGGING", 6),
    ("ESCAPE", 3),
    ("ESCCHAR", 4),
    ("EXITCOMMIT", 5),
    ("FEEDBACK", 4),
    ("FLAGGER", 7),
    ("FLUSH", 3),
    ("HEADING", 3),
    ("HEADSEP", 5),
    ("HISTORY", 4),
    ("INSTANCE", 8),
    ("JSONPRINT", 9),
    ("LINESIZE", 3),
    ("LOBOFFSET", 5),
    ("LOBPREFETCH", 6),
    ("LOGSOURCE", 9),
    ("LONG", 4),
    ("LONGCHUNKSIZE", 5),
    ("MARKUP", 4),
    ("MAXDATA", 4),
    ("NEWPAGE", 4),
    ("NULL", 4),
    ("NUMFORMAT", 4),
    ("NUMWIDTH", 3),
    ("PAGESIZE", 4),
    ("PAUSE", 3),
    ("RECSEP", 6),
    ("RECSEPCHAR", 7),
    ("ROWLIMIT", 8),
    ("ROWPREFETCH", 11),
    ("SCAN", 4),
    ("SECUREDCOL", 10),
    ("SERVEROUTPUT", 9),
    ("SHIFTINOUT", 5),
    ("SHOWMODE", 4),
    ("SPACE", 3),
    ("SQLBLANKLINES", 5),
    ("SQLCASE", 4),
    ("SQLCONTINUE", 5),
    ("SQLNUMBER", 4),
    ("SQLPLUSCOMPATIBILITY", 13),
    ("SQLPREFIX", 6),
    ("SQLPROMPT", 4),
    ("SQLTERMINATOR", 4),
    ("STATEMENTCACHE", 10),
    ("SUFFIX", 3),
    ("TAB", 3),
    ("TERMOUT", 4),
    ("TIME", 2),
    ("TIMING", 4),
    ("TRIMOUT", 4),
    ("TRIMSPOOL", 5),
    ("TRUNCATE", 4),
    ("UNDERLINE", 3),
    ("VERIFY", 3),
    ("WRAP", 3),
    ("XMLOPTIMIZATIONCHECK", 6),
    ("XQUERY", 6),
];
/// What PostgreSQL has behind SET beside names of settings.
const OF_POSTGRES: [&str; 10] = [
    "SESSION",
    "LOCAL",
    "TRANSACTION",
    "ROLE",
    "CONSTRAINTS",
    "NAMES",
    "SCHEMA",
    "CATALOG",
    "XML",
    "SEED",
];

/// The kinds of lines before a statement.
enum Line {
    /// The beginning of a statement.
    Sql,
    /// A statement that ends with its line.
    Statement,
    /// A command that is passed over.
    Passed,
    /// EXIT: nothing may follow.
    Exit,
    Refused(SqlError),
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Before a statement's first word.
    Between,
    Within,
    /// In a string or a quoted name, until this character.
    Quoted(char),
    /// In a comment: its depth, and whether it comes before a statement.
    Comment(usize, bool),
}

/// The text without SQL*Plus's commands; its length is the same.
///
/// # Errors
/// At the first command that cannot be passed over.
pub fn plain(text: &str) -> Result<Cow<'_, str>, SqlError> {
    if !text.lines().any(|line| line.trim() == "/" || !matches!(command(line, ""), Line::Sql)) {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut state = State::Between;
    let (mut continues, mut exited, mut at) = (false, None, 0);
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let blanks = |out: &mut String| {
            out.extend(line.chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
        };
        let next = lines.peek().copied().unwrap_or_default();
        let begin = at;
        at += line.chars().count();
        let found = match state {
            _ if continues && begins_statement(line) => Line::Refused(not_carried_out(
                "a line with - at its end",
                "the statement behind it would be a part of it",
            )),
            _ if continues => Line::Passed,
            State::Between => command(line, next),
            _ => Line::Sql,
        };
        match found {
            Line::Passed => {
                continues = is_continued(line);
                blanks(&mut out);
            }
            Line::Exit => {
                exited = exited.or(Some(begin));
                blanks(&mut out);
            }
            Line::Refused(refusal) => return Err(refusal.at(begin + indent(line))),
            Line::Statement => {
                out.push_str(line.strip_suffix('\n').unwrap_or(line));
                if line.ends_with('\n') {
                    out.push(';');
                }
            }
            Line::Sql if matches!(state, State::Between | State::Within) && line.trim() == "/" => {
                out.push_str(&line.replace('/', ";"));
                state = State::Between;
            }
            Line::Sql => {
                state = after(line, state);
                if let (Some(exit), true) = (exited, state != State::Between || !is_blank(line)) {
                    return Err(
                        not_carried_out("EXIT", "what follows it would not be run").at(exit)
                    );
                }
                out.push_str(line);
            }
        }
    }
    Ok(Cow::Owned(out))
}

/// Whether a command continues on the next line: its own ends with a dash. A remark never does, and
/// a ruler of dashes is no such sign.
fn is_continued(line: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default();
    let before = line.trim_end().strip_suffix('-');
    !is_one_of(word, &[("REMARK", 3)]) && before.is_some_and(|before| !before.ends_with('-'))
}

/// Whether a line begins with a word that begins a statement.
fn begins_statement(line: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default();
    let words = ["ALTER", "CREATE", "DROP", "EXPLAIN", "SELECT", "VALUES", "WITH"];
    words.iter().any(|first| first.eq_ignore_ascii_case(word))
}

/// Characters before the first word.
fn indent(line: &str) -> usize {
    line.chars().take_while(|letter| letter.is_whitespace()).count()
}

/// Whether a line holds blanks, semicolons and a comment to its end alone.
fn is_blank(line: &str) -> bool {
    let rest = line.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ';');
    rest.is_empty() || rest.starts_with("--")
}

/// Whether `word` is the keyword, or its first letters, `least` of them or more, in any case.
#[must_use]
pub fn abbreviates(word: &str, keyword: &str, least: usize) -> bool {
    word.len() >= least
        && keyword.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The option of SET that a word is, by its full name.
#[must_use]
pub fn option(word: &str) -> Option<&'static str> {
    OPTIONS.iter().find(|(name, least)| abbreviates(word, name, *least)).map(|(name, _)| *name)
}

fn is_one_of(word: &str, words: &[Word]) -> bool {
    words.iter().any(|(full, least)| abbreviates(word, full, *least))
}

fn not_carried_out(command: &str, why: &str) -> SqlError {
    SqlError::new(
        state::NOT_SUPPORTED,
        format!("{command} is a command of SQL*Plus, which is not carried out here: {why}"),
    )
    .hint("plinth sql runs scripts with such commands")
}

/// The kind of a line that stands before a statement; `next` is the line behind it.
fn command(line: &str, next: &str) -> Line {
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else { return Line::Sql };
    let bare = first.trim_end_matches(';');
    // A statement behind a semicolon on the line of a command would be lost with it.
    let passed = |is_text: bool| match line.split_once(';') {
        Some((_, behind)) if !is_text && !is_blank(behind) => {
            Line::Refused(not_carried_out(&bare.to_uppercase(), "a statement follows on its line"))
        }
        _ => Line::Passed,
    };
    let refused =
        || Line::Refused(not_carried_out(&bare.to_uppercase(), "a script would not do its work"));
    if first.starts_with(['@', '!']) {
        return Line::Refused(not_carried_out(
            &first.chars().take(60).collect::<String>(),
            "a script would not do its work",
        ));
    }
    if bare.eq_ignore_ascii_case("SET") {
        return set(line, next, passed);
    }
    if is_one_of(bare, &[("SHOW", 3)]) {
        let is_alone = words.next().is_none();
        return if is_alone || line.contains(';') { Line::Sql } else { Line::Statement };
    }
    if ["EXIT", "QUIT"].iter().any(|word| bare.eq_ignore_ascii_case(word)) {
        return match passed(false) {
            Line::Passed => Line::Exit,
            refused => refused,
        };
    }
    if is_one_of(bare, &PASSED) {
        return passed(is_one_of(bare, &[("PROMPT", 3), ("REMARK", 3)]));
    }
    let second = words.next().unwrap_or_default();
    let is_statement = is_one_of(bare, &[("START", 5)])
        && second.trim_end_matches(';').eq_ignore_ascii_case("TRANSACTION");
    if is_one_of(bare, &[("CONNECT", 4)]) && second == "/" {
        let rest: Vec<String> =
            words.map(|word| word.trim_end_matches(';').to_ascii_uppercase()).collect();
        let roles = ["SYSASM", "SYSDBA", "SYSOPER"];
        let is_local = match &rest[..] {
            [] => true,
            [r#as, role] => r#as == "AS" && roles.contains(&role.as_str()),
            _ => false,
        };
        return if is_local { passed(false) } else { refused() };
    }
    if is_one_of(bare, &REFUSED) && !is_statement { refused() } else { Line::Sql }
}

/// A line that begins with SET.
fn set(line: &str, next: &str, passed: impl Fn(bool) -> Line) -> Line {
    let rest = line.trim_start().get(3..).unwrap_or_default().trim();
    let is_name = |letter: char| letter.is_alphanumeric() || "_.$\"".contains(letter);
    let (name, behind) = rest.split_at(rest.find(|letter| !is_name(letter)).unwrap_or(rest.len()));
    let begins_value = |text: &str| {
        let text = text.trim_start();
        let word: String = text.chars().take_while(|letter| letter.is_alphanumeric()).collect();
        text.starts_with('=') || word.eq_ignore_ascii_case("TO")
    };
    let word = behind.split_whitespace().next().unwrap_or_default().trim_end_matches(';');
    let is_zone = name.eq_ignore_ascii_case("TIME") && word.eq_ignore_ascii_case("ZONE");
    let is_postgres = OF_POSTGRES.iter().any(|word| name.eq_ignore_ascii_case(word));
    if is_zone || is_postgres || name.is_empty() && behind.is_empty() {
        return Line::Sql;
    }
    if option(name).is_some() {
        return passed(false);
    }
    if begins_value(behind) || behind.trim().is_empty() && begins_value(next) {
        return Line::Sql;
    }
    let what = if name.is_empty() { behind } else { name };
    let message = format!("SET {what} is no setting and no option of SQL*Plus");
    Line::Refused(
        SqlError::new(state::SYNTAX, message)
            .hint("a setting is SET name = value, or SET name TO value"),
    )
}

/// The state at the end of a line.
fn after(line: &str, mut state: State) -> State {
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        state = match (state, character) {
            (State::Between | State::Within, '-') if next == Some('-') => return state,
            (State::Between | State::Within, '/') if next == Some('*') => {
                characters.next();
                State::Comment(1, state == State::Between)
            }
            (State::Between | State::Within, '\'' | '"') => State::Quoted(character),
            (State::Between | State::Within, ';') => State::Between,
            (State::Between, character) if character.is_whitespace() => State::Between,
            (State::Between | State::Within, _) => State::Within,
            (State::Quoted(quote), character) if character == quote => State::Within,
            (State::Comment(1, between), '*') if next == Some('/') => {
                characters.next();
                if between { State::Between } else { State::Within }
            }
            (State::Comment(levels, between), '*') if next == Some('/') => {
                characters.next();
                State::Comment(levels - 1, between)
            }
            (State::Comment(levels, between), '/') if next == Some('*') => {
                characters.next();
                State::Comment(levels + 1, between)
            }
            (state, _) => state,
        };
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlplus_commands_are_blanked_out() {
        for (text, expected) in [
            ("SELECT 1", "SELECT 1"),
            ("set lines 200\nSELECT 1\n/\n", "             \nSELECT 1\n;\n"),
            (
                "PROMPT it's\nCOL a FORMAT -\n  a30\nSELECT 1;",
                "           \n              \n     \nSELECT 1;",
            ),
            ("SET search_path = x;\nSELECT 1", "SET search_path = x;\nSELECT 1"),
            ("SET search_path\n TO x;", "SET search_path\n TO x;"),
            ("set time on\nSELECT 1", "           \nSELECT 1"),
            ("set page 0\nSELECT 1", "          \nSELECT 1"),
            ("SET TIME ZONE 'UTC';", "SET TIME ZONE 'UTC';"),
            ("SHOW timezone\nSELECT 1", "SHOW timezone;SELECT 1"),
            ("START TRANSACTION;", "START TRANSACTION;"),
            ("connect / as sysasm\nSELECT 1", "                   \nSELECT 1"),
            ("SELECT 1;\nexit;\n-- the end\n", "SELECT 1;\n     \n-- the end\n"),
            // Within a statement, a string or a comment there are no commands of SQL*Plus.
            ("SELECT\ncol\nFROM x", "SELECT\ncol\nFROM x"),
            ("SELECT\nset\nFROM x", "SELECT\nset\nFROM x"),
            ("SELECT '\nprompt\n/\n'", "SELECT '\nprompt\n/\n'"),
            ("/* a\n/\nrem b */ SELECT 1\n/", "/* a\n/\nrem b */ SELECT 1\n;"),
            (
                "-- it's\nREM x\nSELECT 1;\nclear columns",
                "-- it's\n     \nSELECT 1;\n             ",
            ),
        ] {
            assert_eq!(plain(text).expect(text), expected, "{text}");
            assert_eq!(plain(text).expect(text).chars().count(), text.chars().count());
        }
    }

    /// Every option, as short as it may be, leaves the statement behind it alone.
    #[test]
    fn no_option_swallows_a_statement() {
        for (word, enough) in OPTIONS {
            for length in *enough..=word.len() {
                for value in ["on", "OFF", "0", "= 5", "'x y'", ""] {
                    let set = format!("Set {} {value}", &word.to_lowercase()[..length]);
                    let text = format!("{set}\nALTER DISKGROUP data DISMOUNT;");
                    let rest = plain(&text).expect(&text);
                    assert_eq!(rest.trim(), "ALTER DISKGROUP data DISMOUNT;", "{text}");
                }
            }
        }
    }

    #[test]
    fn a_dash_at_the_end_of_a_line_swallows_no_statement() {
        let statement = "SELECT 1 FROM dual;";
        for command in ["PROMPT ------", "REM ------", "REM text -", "TTITLE left x --"] {
            let text = format!("{command}\n{statement}");
            assert_eq!(plain(&text).expect(&text).trim(), statement, "{text}");
        }
        for command in ["SET PAGESIZE 50 -", "COLUMN a FORMAT a9 -", "PROMPT a -", "CLEAR BREAKS -"]
        {
            let refusal = plain(&format!("{command}\n{statement}")).expect_err(command);
            assert_eq!(refusal.at, Some(command.len() + 1), "{command}");
        }
    }

    #[test]
    fn what_can_matter_is_refused() {
        for (text, at) in [
            ("@run.sql", 0),
            ("SELECT 1;\n  @@run", 12),
            ("!rm x", 0),
            ("host rm x\nSELECT 1;", 0),
            ("START run\nSELECT 1;", 0),
            ("desc v$asm_disk\nSELECT 1;", 0),
            ("connect scott/tiger\nSELECT 1;", 0),
            ("SELECT 1;\nexit\nSELECT 2;", 10),
            ("set foo bar\nSELECT 1;", 0),
            ("set foo\nSELECT 1;", 0),
            ("set lines 200; SELECT 1;", 0),
            ("col name format a30; SELECT 1;", 0),
        ] {
            let refusal = plain(text).expect_err(text);
            assert_eq!(refusal.at, Some(at), "{text}: {refusal:?}");
            assert!(refusal.hint.is_some(), "{text}");
        }
    }
}
