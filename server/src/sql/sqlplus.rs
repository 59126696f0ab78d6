//! Scripts for SQL*Plus, as DBAs publish them, with its own commands between the statements: `SET
//! LINESIZE 200`, `COLUMN name FORMAT a30`, `PROMPT ...`, a `/` alone on its line.
//!
//! These commands are not SQL and end with their line. Commands that only set the layout of results
//! are blanked out, so that every position in the text stays the same; the `/` ends a statement as
//! a semicolon does. Nothing within a statement, a string or a comment is changed, except that `/`.

use std::borrow::Cow;

/// Commands that have no meaning here.
const COMMANDS: [&str; 36] = [
    "ACCEPT",
    "BREAK",
    "BRE",
    "BTITLE",
    "BTI",
    "CLEAR",
    "CL",
    "COLUMN",
    "COL",
    "COMPUTE",
    "COMP",
    "DEFINE",
    "DEF",
    "EXIT",
    "HOST",
    "PAUSE",
    "PRINT",
    "PROMPT",
    "PRO",
    "QUIT",
    "REM",
    "REMARK",
    "REPFOOTER",
    "REPHEADER",
    "SPOOL",
    "SPO",
    "STORE",
    "TIMING",
    "TTITLE",
    "TTI",
    "UNDEFINE",
    "UNDEF",
    "VARIABLE",
    "VAR",
    "WHENEVER",
    "WHE",
];
/// The settings of SET that only SQL*Plus has.
const SETTINGS: [&str; 46] = [
    "ARRAYSIZE",
    "AUTOTRACE",
    "AUTOT",
    "COLSEP",
    "DEFINE",
    "DEF",
    "ECHO",
    "ESCAPE",
    "FEED",
    "FEEDBACK",
    "HEAD",
    "HEADING",
    "HEADSEP",
    "LIN",
    "LINES",
    "LINESIZE",
    "LONG",
    "LONGCHUNKSIZE",
    "MARKUP",
    "NEWPAGE",
    "NUM",
    "NUMFORMAT",
    "NUMWIDTH",
    "PAGES",
    "PAGESIZE",
    "RECSEP",
    "SERVEROUTPUT",
    "SHOWMODE",
    "SPACE",
    "SQLBLANKLINES",
    "SQLPROMPT",
    "TAB",
    "TERM",
    "TERMOUT",
    "TIMI",
    "TIMING",
    "TRIM",
    "TRIMOUT",
    "TRIMS",
    "TRIMSPOOL",
    "UND",
    "UNDERLINE",
    "VER",
    "VERIFY",
    "WRA",
    "WRAP",
];

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

/// The text with SQL*Plus's commands blanked out; its length is the same.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.lines().any(|line| line.trim() == "/" || is_command(line)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut state = State::Between;
    let mut continues = false;
    for line in text.split_inclusive('\n') {
        let blank = match state {
            _ if continues => true,
            State::Between => is_command(line),
            _ => false,
        };
        if blank {
            // A command whose line ends with a dash continues on the next line.
            continues = line.trim_end().ends_with('-');
            out.extend(line.chars().map(|character| if character == '\n' { '\n' } else { ' ' }));
        } else if matches!(state, State::Between | State::Within) && line.trim() == "/" {
            out.push_str(&line.replace('/', ";"));
            state = State::Between;
        } else {
            out.push_str(line);
            state = after(line, state);
        }
    }
    Cow::Owned(out)
}

fn is_command(line: &str) -> bool {
    let mut words =
        line.split_whitespace().map(|word| word.trim_end_matches(';').to_ascii_uppercase());
    let Some(first) = words.next() else { return false };
    COMMANDS.contains(&first.as_str())
        || first == "SET"
            && words.next().is_some_and(|setting| SETTINGS.contains(&setting.as_str()))
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
            // Within a statement, a string or a comment there are no commands of SQL*Plus.
            ("SELECT\ncol\nFROM x", "SELECT\ncol\nFROM x"),
            ("SELECT '\nprompt\n/\n'", "SELECT '\nprompt\n/\n'"),
            ("/* a\n/\nrem b */ SELECT 1\n/", "/* a\n/\nrem b */ SELECT 1\n;"),
            (
                "-- it's\nREM x\nSELECT 1;\nclear columns",
                "-- it's\n     \nSELECT 1;\n             ",
            ),
        ] {
            assert_eq!(plain(text), expected, "{text}");
            assert_eq!(plain(text).chars().count(), text.chars().count());
        }
    }
}
