//! The client's commands, by name and shortest abbreviation; and to which kind the first word of a
//! line belongs: a client command, a statement for the server, or a block of PL/SQL.
//!
//! A client command ends with its line, a statement with `;` or `/`, a block with a line that is
//! `/`. So the first word decides how far the text goes, and a word in the wrong table would join a
//! command with the statement below it, or cut a statement in two:
//!
//!   - A word of `COMMANDS` is a client command, unless the words behind it say otherwise: `SET x =
//!     1` and `START TRANSACTION` are statements.
//!   - A word of `STATEMENTS` begins a statement. The table has every word with which a statement
//!     of Oracle, PostgreSQL or SQLite begins, so that one that the server refuses is refused
//!     whole.
//!   - Any other word is a mistake, and so is the rest of its line, and nothing else.

use super::{scan::tokens, settings::is_shown};
use crate::sql::sqlplus::abbreviates;

/// A client command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Accept,
    Append,
    Break,
    Btitle,
    Change,
    Clear,
    Column,
    Compute,
    Connect,
    Define,
    /// DEL, of a line of the buffer.
    Del,
    Describe,
    Disconnect,
    Document,
    Edit,
    Execute,
    /// Also QUIT.
    Exit,
    Get,
    Help,
    Host,
    Input,
    List,
    Pause,
    Print,
    Prompt,
    Remark,
    Repfooter,
    Repheader,
    Run,
    Save,
    Set,
    Show,
    Spool,
    Start,
    Store,
    /// `@`
    At,
    /// `@@`
    AtAt,
    Timing,
    Ttitle,
    Undefine,
    Variable,
    Whenever,
    /// One that is known and not there: why.
    Refused(&'static str),
}

use Command::Refused;

const INSTANCE: &str =
    "the instance is started with 'plinth serve' and ended with 'plinth shutdown'";
const DATABASE: &str = "disk groups have no redo log of their own that could be applied";

/// Name, letters that its shortest abbreviation has, command.
const COMMANDS: &[(&str, usize, Command)] = &[
    ("@", 1, Command::At),
    ("ACCEPT", 3, Command::Accept),
    ("APPEND", 1, Command::Append),
    ("ARCHIVE", 7, Refused(DATABASE)),
    ("ATTRIBUTE", 4, Refused("there are no object types")),
    ("BREAK", 3, Command::Break),
    ("BTITLE", 3, Command::Btitle),
    ("CHANGE", 1, Command::Change),
    ("CLEAR", 2, Command::Clear),
    ("COLUMN", 3, Command::Column),
    ("COMPUTE", 4, Command::Compute),
    ("CONNECT", 4, Command::Connect),
    ("COPY", 4, Refused("it copies tables between databases; 'plinth cp' copies files")),
    ("DEFINE", 3, Command::Define),
    ("DEL", 3, Command::Del),
    ("DESCRIBE", 4, Command::Describe),
    ("DISCONNECT", 4, Command::Disconnect),
    ("DOCUMENT", 3, Command::Document),
    ("EDIT", 2, Command::Edit),
    ("EXECUTE", 4, Command::Execute),
    ("EXIT", 4, Command::Exit),
    ("GET", 3, Command::Get),
    ("HELP", 4, Command::Help),
    ("HISTORY", 4, Refused("the arrow keys go through earlier statements")),
    ("HOST", 2, Command::Host),
    ("INPUT", 1, Command::Input),
    ("LIST", 1, Command::List),
    ("LOADFILE", 8, Refused("views can only be read")),
    ("ORADEBUG", 8, Refused("it looks into processes of Oracle")),
    ("PASSWORD", 5, Refused("write ALTER USER name PASSWORD 'password'")),
    ("PAUSE", 3, Command::Pause),
    ("PRINT", 3, Command::Print),
    ("PROMPT", 3, Command::Prompt),
    ("QUIT", 4, Command::Exit),
    ("RECOVER", 7, Refused(DATABASE)),
    ("REMARK", 3, Command::Remark),
    ("REPFOOTER", 4, Command::Repfooter),
    ("REPHEADER", 4, Command::Repheader),
    ("RUN", 1, Command::Run),
    ("SAVE", 3, Command::Save),
    ("SET", 3, Command::Set),
    ("SHOW", 3, Command::Show),
    ("SHUTDOWN", 8, Refused(INSTANCE)),
    ("SPOOL", 3, Command::Spool),
    ("START", 3, Command::Start),
    ("STARTUP", 7, Refused(INSTANCE)),
    ("STORE", 3, Command::Store),
    ("TIMING", 4, Command::Timing),
    ("TTITLE", 3, Command::Ttitle),
    ("UNDEFINE", 5, Command::Undefine),
    ("VARIABLE", 3, Command::Variable),
    ("WHENEVER", 3, Command::Whenever),
    ("XQUERY", 6, Refused("there are no XML tables")),
    ("OERR", 4, Refused("docs/sql.md lists the errors")),
    ("PING", 4, Refused("SELECT 1 shows whether the instance answers")),
    ("CONFIG", 6, Refused("settings are SET in a script")),
    ("?", 1, Command::Help),
];

/// The first words of statements.
const STATEMENTS: &[&str] = &[
    "ABORT",
    "ADMINISTER",
    "ALTER",
    "ANALYZE",
    "ASSOCIATE",
    "ATTACH",
    "AUDIT",
    "BEGIN",
    "CALL",
    "CHECKPOINT",
    "CLOSE",
    "CLUSTER",
    "COMMENT",
    "COMMIT",
    "COPY",
    "CREATE",
    "DEALLOCATE",
    "DECLARE",
    "DELETE",
    "DETACH",
    "DISASSOCIATE",
    "DISCARD",
    "DO",
    "DROP",
    "END",
    "EXPLAIN",
    "FETCH",
    "FLASHBACK",
    "GRANT",
    "IMPORT",
    "INSERT",
    "LISTEN",
    "LOAD",
    "LOCK",
    "MERGE",
    "MOVE",
    "NOAUDIT",
    "NOTIFY",
    "PRAGMA",
    "PREPARE",
    "PURGE",
    "REASSIGN",
    "REFRESH",
    "REINDEX",
    "RELEASE",
    "RENAME",
    "REPLACE",
    "RESET",
    "REVOKE",
    "ROLLBACK",
    "SAVEPOINT",
    "SECURITY",
    "SELECT",
    "TABLE",
    "TRUNCATE",
    "UNLISTEN",
    "UPDATE",
    "UPSERT",
    "VACUUM",
    "VALUES",
    "WITH",
];

/// The kind of text that a line begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    Client(Command),
    /// Up to a terminator.
    Statement,
    /// A statement that ends with its line.
    ShortStatement,
    /// PL/SQL up to a `/`.
    Block,
    /// The words up to here can still become a statement or a block.
    Undecided,
    Unknown,
}

/// The command of this name or abbreviation.
pub(super) fn find(word: &str) -> Option<Command> {
    COMMANDS
        .iter()
        .find(|(name, least, _)| abbreviates(word, name, *least))
        .map(|(_, _, command)| *command)
}

/// All commands that are refused, by name.
#[cfg(test)]
pub(super) fn refused_names() -> impl Iterator<Item = &'static str> {
    COMMANDS
        .iter()
        .filter(|(_, _, command)| matches!(command, Refused(_)))
        .map(|(name, _, _)| *name)
}

/// All commands that are carried out, by name.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS
        .iter()
        .filter(|(_, _, command)| !matches!(command, Refused(_)))
        .map(|(name, _, _)| *name)
}

/// The first word of a line, and what stands behind it. `@`, `!` and `?` need no blank.
pub(super) fn split(line: &str) -> (&str, &str) {
    let end = match line.chars().next() {
        Some('@' | '!' | '?') => 1,
        _ => line
            .find(|char: char| !(char.is_alphanumeric() || matches!(char, '_' | '$')))
            .unwrap_or(line.len()),
    };
    line.split_at(end)
}

/// The kind of text that a line begins. The line does not begin with a blank or a comment.
pub(super) fn begins(line: &str, is_sqlplus: bool) -> Begins {
    if line.starts_with("<<") {
        return Begins::Block;
    }
    if line.starts_with('(') {
        return Begins::Statement;
    }
    if line.starts_with("@@") {
        return Begins::Client(Command::AtAt);
    }
    if line.starts_with('!') {
        return Begins::Client(Command::Host);
    }
    let (word, rest) = split(line);
    let behind =
        rest.split(|char: char| char.is_whitespace() || char == ';').find(|w| !w.is_empty());
    let is = |words: &[&str]| {
        behind.is_some_and(|next| words.iter().any(|word| word.eq_ignore_ascii_case(next)))
    };
    match find(word) {
        Some(Command::Set) => set(rest),
        Some(Command::Start) if is(&["TRANSACTION"]) => Begins::Statement,
        Some(Command::Show) if !is_shown(behind.unwrap_or_default(), is_sqlplus) => {
            Begins::ShortStatement
        }
        // PostgreSQL's COPY has the table first.
        Some(Refused(_)) if word.eq_ignore_ascii_case("COPY") && !is(&["FROM", "TO"]) => {
            Begins::Statement
        }
        Some(command) => Begins::Client(command),
        None if STATEMENTS.iter().any(|known| known.eq_ignore_ascii_case(word)) => is_block(line),
        None => Begins::Unknown,
    }
}

/// Whether SET is the client's, or sets a parameter of the session: `SET name {= | TO} value`, and
/// the forms of the standard.
fn set(rest: &str) -> Begins {
    /// Settings whose value may be `=` itself.
    const MARKS: [(&str, usize); 8] = [
        ("UNDERLINE", 3),
        ("COLSEP", 6),
        ("CONCAT", 3),
        ("DEFINE", 3),
        ("ESCAPE", 3),
        ("HEADSEP", 5),
        ("NULL", 4),
        ("RECSEPCHAR", 7),
    ];
    let spaced = rest.replace('=', " = ");
    let mut words = spaced.split_whitespace();
    let (Some(first), second) = (words.next(), words.next()) else {
        return Begins::Client(Command::Set);
    };
    let is = |word: Option<&str>, keyword: &str| {
        word.is_some_and(|word| word.trim_end_matches(';').eq_ignore_ascii_case(keyword))
    };
    let is_assigned = |sign: Option<&str>, value: Option<&str>| {
        (is(sign, "=") || is(sign, "TO")) && value.is_some_and(|value| !value.starts_with(';'))
    };
    if is(Some(first), "SESSION") || is(Some(first), "LOCAL") {
        let is_assigned = is_assigned(words.next(), words.next());
        return if is_assigned { Begins::Statement } else { Begins::ShortStatement };
    }
    let standard = ["TRANSACTION", "ROLE", "CONSTRAINT", "CONSTRAINTS", "NAMES"];
    let is_standard = standard.iter().any(|word| is(Some(first), word));
    if is_standard || is(Some(first), "TIME") && is(second, "ZONE") {
        return Begins::ShortStatement;
    }
    let takes_marks = MARKS.iter().any(|(name, least)| abbreviates(first, name, *least));
    if !takes_marks && is_assigned(second, words.next()) {
        return Begins::Statement;
    }
    Begins::Client(Command::Set)
}

/// Whether the text is a block of PL/SQL, as far as can be seen from the words that are there.
pub(super) fn is_block(text: &str) -> Begins {
    /// Words between CREATE and what is created.
    const BETWEEN: &[&str] =
        &["OR", "REPLACE", "AND", "RESOLVE", "COMPILE", "EDITIONABLE", "NONEDITIONABLE"];
    const PROGRAMS: [&str; 7] =
        ["PROCEDURE", "FUNCTION", "TRIGGER", "PACKAGE", "TYPE", "LIBRARY", "JAVA"];
    /// Behind PostgreSQL's and SQLite's BEGIN.
    const TRANSACTION: [&str; 10] = [
        ";",
        "TRANSACTION",
        "WORK",
        "ISOLATION",
        "READ",
        "NOT",
        "DEFERRABLE",
        "DEFERRED",
        "IMMEDIATE",
        "EXCLUSIVE",
    ];
    let words: Vec<String> = tokens(text).iter().map(|word| word.to_ascii_uppercase()).collect();
    let mut words = words.iter().map(String::as_str);
    match words.next() {
        Some("DECLARE" | "<") => Begins::Block,
        Some("BEGIN") => match words.next() {
            None => Begins::Undecided,
            Some(next) if TRANSACTION.contains(&next) => Begins::Statement,
            Some(_) => Begins::Block,
        },
        Some("CREATE") => match words.find(|word| !BETWEEN.contains(word)) {
            None => Begins::Undecided,
            Some(next) if PROGRAMS.contains(&next) => Begins::Block,
            Some(_) => Begins::Statement,
        },
        Some("WITH") => match (words.next(), words.next()) {
            (None, _) | (Some("FUNCTION" | "PROCEDURE"), None) => Begins::Undecided,
            (Some("FUNCTION" | "PROCEDURE"), Some("AS" | "(")) => Begins::Statement,
            (Some("FUNCTION" | "PROCEDURE"), Some(_)) => Begins::Block,
            _ => Begins::Statement,
        },
        _ => Begins::Statement,
    }
}

/// Whether a command takes the rest of its line as it stands, semicolons too.
pub(super) fn takes_all(command: Command) -> bool {
    matches!(
        command,
        Command::Prompt
            | Command::Remark
            | Command::Host
            | Command::Execute
            | Command::Append
            | Command::Change
            | Command::Input
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_abbreviated_as_in_sqlplus() {
        for (word, command) in [
            ("col", Command::Column),
            ("COLU", Command::Column),
            ("bre", Command::Break),
            ("comp", Command::Compute),
            ("tti", Command::Ttitle),
            ("bti", Command::Btitle),
            ("pro", Command::Prompt),
            ("spo", Command::Spool),
            ("def", Command::Define),
            ("undef", Command::Undefine),
            ("var", Command::Variable),
            ("acc", Command::Accept),
            ("desc", Command::Describe),
            ("sta", Command::Start),
            ("conn", Command::Connect),
            ("ho", Command::Host),
            ("whenever", Command::Whenever),
            ("cl", Command::Clear),
            ("rem", Command::Remark),
            ("sho", Command::Show),
            ("exec", Command::Execute),
            ("quit", Command::Exit),
            ("l", Command::List),
            ("r", Command::Run),
        ] {
            assert_eq!(find(word), Some(command), "{word}");
        }
        for word in ["co", "select", "delete", "commit", "listen", "lock", "insert", "close"] {
            assert!(find(word).is_none(), "{word}");
        }
    }

    #[test]
    fn no_word_is_a_command_and_a_statement() {
        for word in STATEMENTS {
            assert!(*word == "COPY" || find(word).is_none(), "{word}");
        }
        for (at, (name, least, _)) in COMMANDS.iter().enumerate() {
            for (other, shortest, _) in COMMANDS.iter().skip(at + 1) {
                let both = (*least.max(shortest)..=name.len())
                    .filter_map(|length| name.get(..length))
                    .any(|word| {
                        abbreviates(word, name, *least) && abbreviates(word, other, *shortest)
                    });
                assert!(!both, "{name} and {other} have an abbreviation in common");
            }
        }
    }

    #[test]
    fn the_first_words_decide_what_a_line_is() {
        use Begins::{Block, Client, ShortStatement, Statement, Undecided, Unknown};
        for (line, begins_what) in [
            ("select 1", Statement),
            ("(select 1)", Statement),
            ("set lines 200", Client(Command::Set)),
            ("SET NOSUCH 1", Client(Command::Set)),
            ("set", Client(Command::Set)),
            ("set und =", Client(Command::Set)),
            ("set colsep = pages 0", Client(Command::Set)),
            ("set timezone = 'UTC'", Statement),
            ("set a.b='x'", Statement),
            ("set x to y;", Statement),
            ("set x =", Client(Command::Set)),
            ("set x to;", Client(Command::Set)),
            ("set session x = y", Statement),
            ("set local x to y", Statement),
            ("set time on", Client(Command::Set)),
            ("set time zone 'UTC'", ShortStatement),
            ("set transaction read only;", ShortStatement),
            ("set role none", ShortStatement),
            ("start transaction", Statement),
            ("start file", Client(Command::Start)),
            ("show lines", Client(Command::Show)),
            ("show asm_diskstring;", ShortStatement),
            ("show parameter disk", ShortStatement),
            ("copy t to stdout", Statement),
            ("@file", Client(Command::At)),
            ("@@file", Client(Command::AtAt)),
            ("!ls", Client(Command::Host)),
            ("exit;", Client(Command::Exit)),
            ("begin", Undecided),
            ("begin;", Statement),
            ("begin transaction", Statement),
            ("BEGIN null; end;", Block),
            ("declare", Block),
            ("<<here>>", Block),
            ("create diskgroup x", Statement),
            ("create or replace", Undecided),
            ("create or replace package body x", Block),
            ("create editionable trigger t", Block),
            ("with x as (select 1)", Statement),
            ("with function f return number", Block),
            ("with function as (select 1)", Statement),
            ("foo bar", Unknown),
            ("1", Unknown),
        ] {
            assert_eq!(begins(line, true), begins_what, "{line}");
        }
        assert_eq!(begins("show all", true), Client(Command::Show));
        assert_eq!(begins("show all", false), ShortStatement);
    }
}
