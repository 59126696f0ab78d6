//! From lines to what they say: client commands, statements, blocks of PL/SQL.
//!
//! ```text
//!   Between --a command whose line ends with - --> Command --its last line--> Between
//!      |  --a statement--------> Statement --; or / ------------------------> Between
//!      |  --PL/SQL-------------> Statement (a block) --/ alone--------------> Between
//!      |  --/*-----------------> Comment --*/ ------------------------------> Between
//!      |  --DOCUMENT-----------> Document --#-------------------------------> Between
//! ```
//!
//! Invariants:
//!
//!   1. Each character of the input belongs to one item, to a comment, or to blanks between items:
//!      nothing is lost, and nothing belongs to two.
//!   2. A client command never goes beyond its line, or the lines that it continues on with a `-`,
//!      and never into a statement; a statement never begins before the item before it has ended.
//!
//! A line can hold several items. `feed` stops behind the first, and gives the rest of the line
//! back, because what the item does may change how the rest is read.

use super::{
    commands::{Begins, Command, begins, find, is_block, split, takes_all},
    scan::{Part, Scan},
    words::separator,
};

/// One thing that lines say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A client command, and the word that it begins with.
    Command {
        command: Command,
        word: String,
        rest: String,
        line: usize,
    },
    Statement {
        text: String,
        line: usize,
    },
    /// PL/SQL, from one line to another; whether a `/` ended it.
    Block {
        text: String,
        line: usize,
        last: usize,
        is_ended: bool,
    },
    /// `/` where there is no statement to end.
    Again {
        line: usize,
    },
    /// A statement that a `.` ended: it is kept and not run.
    Kept {
        text: String,
    },
    /// A statement that a blank line ended: it is kept, and a `/` runs it.
    Broken {
        text: String,
        line: usize,
    },
    /// A client command with a `-` at its end, and a statement on the next line.
    Dangling {
        word: String,
        line: usize,
    },
    /// A line that begins with a variable: which command it is depends on its value.
    Variable {
        text: String,
        line: usize,
    },
    /// `\q`, and psql's other commands.
    Backslash {
        text: String,
        line: usize,
    },
    Unknown {
        text: String,
        line: usize,
    },
    /// DOCUMENT without its end.
    OpenDocument {
        line: usize,
    },
    /// A comment without its end.
    OpenComment {
        line: usize,
    },
}

/// Whether a line that would continue a client command is a statement.
fn begins_statement(line: &str) -> bool {
    let (word, _) = split(line.trim_start());
    let words = ["ALTER", "CREATE", "DROP", "EXPLAIN", "SELECT", "VALUES", "WITH"];
    words.iter().any(|first| first.eq_ignore_ascii_case(word))
}

/// The settings that say how lines are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub terminator: Option<char>,
    pub blank_lines: bool,
    pub define: Option<char>,
    pub is_sqlplus: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Between,
    Comment {
        scan: Scan,
        line: usize,
    },
    Document {
        line: usize,
    },
    Command {
        command: Command,
        word: String,
        rest: String,
        line: usize,
    },
    Statement(Gathered),
}

/// A statement, as far as it has been read.
#[derive(Debug, Default)]
struct Gathered {
    text: String,
    line: usize,
    last: usize,
    scan: Scan,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Statement,
    Block,
    /// Its words do not yet say which of the two it is.
    Undecided,
}

#[derive(Debug, Default)]
pub(super) struct Reader {
    state: State,
}

/// The first item of a line, if it has ended one, and what stands behind it.
pub(super) type Fed = (Option<Item>, Option<String>);

impl Reader {
    /// Whether the next line continues something.
    pub(super) fn is_within(&self) -> bool {
        !matches!(self.state, State::Between)
    }

    /// The number of the line that comes next in a statement, for the prompt; `None` where no
    /// statement has begun.
    pub(super) fn lines(&self) -> Option<usize> {
        match &self.state {
            State::Statement(gathered) => Some(gathered.text.matches('\n').count() + 1),
            _ => None,
        }
    }

    /// Forgets what has been read of an item.
    pub(super) fn clear(&mut self) {
        self.state = State::Between;
    }

    /// Reads one line, or the rest of one.
    pub(super) fn feed(&mut self, line: &str, number: usize, rules: &Rules) -> Fed {
        match std::mem::take(&mut self.state) {
            State::Between => self.begin(line, number, rules),
            State::Comment { mut scan, line: first } => {
                match scan.find(line, |part, _| part == Part::Plain) {
                    Some(at) => self.begin(line.get(at..).unwrap_or_default(), number, rules),
                    None => {
                        scan.end_line();
                        if !scan.is_plain() {
                            self.state = State::Comment { scan, line: first };
                        }
                        (None, None)
                    }
                }
            }
            State::Document { .. } if line.trim_start().starts_with('#') => (None, None),
            document @ State::Document { .. } => {
                self.state = document;
                (None, None)
            }
            State::Command { word, line: first, .. } if begins_statement(line) => {
                (Some(Item::Dangling { word, line: first }), Some(line.to_owned()))
            }
            State::Command { command, word, rest: mut before, line: first } => {
                if !before.ends_with(char::is_whitespace) {
                    before.push(' ');
                }
                before.push_str(line.trim_start());
                self.command(command, word, &before, first)
            }
            State::Statement(gathered) => self.gather(gathered, line, number, rules),
        }
    }

    /// The item that the end of the input ends.
    pub(super) fn end(&mut self) -> Option<Item> {
        match std::mem::take(&mut self.state) {
            State::Between => None,
            State::Comment { line, .. } => Some(Item::OpenComment { line }),
            State::Document { line } => Some(Item::OpenDocument { line }),
            State::Command { command, word, rest, line } => {
                let rest = rest.trim().trim_end_matches(';').trim_end().to_owned();
                Some(Item::Command { command, word, rest, line })
            }
            State::Statement(Gathered { text, line, last, kind: Kind::Block, .. }) => {
                Some(Item::Block { text, line, last, is_ended: false })
            }
            State::Statement(gathered) => Some(gathered.statement()),
        }
    }

    /// Reads a line that continues nothing.
    fn begin(&mut self, line: &str, number: usize, rules: &Rules) -> Fed {
        let Some(rest) = self.skip(line, number, rules) else { return (None, None) };
        let word = rest.trim_end();
        if word == "/" {
            return (Some(Item::Again { line: number }), None);
        }
        if rest.starts_with('\\') {
            return (Some(Item::Backslash { text: word.to_owned(), line: number }), None);
        }
        if rules.define.is_some_and(|define| rest.starts_with(define)) {
            return (Some(Item::Variable { text: rest.to_owned(), line: number }), None);
        }
        match begins(rest, rules.is_sqlplus) {
            Begins::Client(Command::Document) => {
                self.state = State::Document { line: number };
                (None, None)
            }
            Begins::Client(command) => {
                let (word, behind) = match command {
                    Command::AtAt => rest.split_at(2),
                    _ => split(rest),
                };
                self.command(command, word.to_owned(), behind, number)
            }
            kind @ (Begins::Statement | Begins::Block | Begins::Undecided) => {
                let kind = match kind {
                    Begins::Block => Kind::Block,
                    Begins::Undecided => Kind::Undecided,
                    _ => Kind::Statement,
                };
                let gathered = Gathered { line: number, kind, ..Gathered::default() };
                self.add(gathered, rest, number, rules)
            }
            Begins::Unknown if rules.is_sqlplus => {
                let (one, rest) = self.short(rest, rules);
                (Some(Item::Unknown { text: one, line: number }), rest)
            }
            Begins::Unknown | Begins::ShortStatement => {
                let (one, rest) = self.short(rest, rules);
                (Some(Item::Statement { text: one, line: number }), rest)
            }
        }
    }

    /// The line without blanks, comments and terminators at its start; `None` if there is nothing
    /// else.
    fn skip<'a>(&mut self, line: &'a str, number: usize, rules: &Rules) -> Option<&'a str> {
        let mut rest = line.trim_start();
        loop {
            if rest.is_empty() || rest.starts_with("--") {
                return None;
            }
            if rest.starts_with("/*") {
                let mut scan = Scan::default();
                let Some(at) = scan.find(rest, |part, _| part == Part::Plain) else {
                    if !scan.is_plain() {
                        self.state = State::Comment { scan, line: number };
                    }
                    return None;
                };
                rest = rest.get(at..).unwrap_or_default().trim_start();
                continue;
            }
            match rules.terminator.and_then(|terminator| rest.strip_prefix(terminator)) {
                Some(behind) => rest = behind.trim_start(),
                None => return Some(rest),
            }
        }
    }

    /// A statement that ends with its line, and what stands behind its terminator.
    fn short(&self, line: &str, rules: &Rules) -> (String, Option<String>) {
        let end = rules.terminator.and_then(|terminator| {
            Scan::default()
                .find(line, |part, rest| part == Part::Plain && rest.starts_with(terminator))
        });
        let (one, behind) = line.split_at(end.unwrap_or(line.len()));
        (one.trim_end().to_owned(), behind_terminator(behind, rules))
    }

    /// A client command, unless its line says that it continues.
    fn command(&mut self, command: Command, word: String, rest: &str, line: usize) -> Fed {
        let written = rest.trim_end();
        // A ruler of dashes is no sign that the command continues; nor is anything in a remark, so
        // that it can hide no statement.
        // A dash behind a `;` belongs to what follows the command.
        let cut = if takes_all(command) { None } else { separator(rest) };
        let continues =
            written.strip_suffix('-').filter(|before| !before.ends_with('-') && cut.is_none());
        if let Some(before) = continues.filter(|_| command != Command::Remark) {
            self.state = State::Command { command, word, rest: before.to_owned(), line };
            return (None, None);
        }
        let (one, behind) = rest.split_at(cut.unwrap_or(rest.len()));
        let one = match command {
            // These keep the blanks at the start of their text.
            Command::Prompt | Command::Input => {
                one.strip_prefix([' ', '\t']).unwrap_or(one).trim_end()
            }
            // Two semicolons append one.
            Command::Append => {
                let one = one.strip_prefix([' ', '\t']).unwrap_or(one).trim_end();
                one.strip_suffix(';').unwrap_or(one)
            }
            Command::Change => one.trim_start(),
            Command::Host => one.trim(),
            _ => one.trim().trim_end_matches(';').trim_end(),
        };
        let behind = behind.trim_start_matches(';').trim_start();
        let behind = (!behind.is_empty()).then(|| behind.to_owned());
        (Some(Item::Command { command, word, rest: one.to_owned(), line }), behind)
    }

    /// A further line of a statement.
    fn gather(&mut self, gathered: Gathered, line: &str, number: usize, rules: &Rules) -> Fed {
        let word = line.trim();
        let is_plain = gathered.scan.is_plain();
        if gathered.kind == Kind::Block {
            if word == "/" || word == "." {
                let Gathered { text, line, .. } = gathered;
                return (Some(Item::Block { text, line, last: number, is_ended: true }), None);
            }
            return self.add(gathered, line, number, rules);
        }
        if word == "/" && is_plain {
            return (Some(gathered.statement()), None);
        }
        if rules.is_sqlplus && gathered.kind == Kind::Statement {
            if word == "." && is_plain {
                return (Some(Item::Kept { text: gathered.text.trim().to_owned() }), None);
            }
            if word.is_empty() && !rules.blank_lines && !gathered.scan.is_comment() {
                let Gathered { text, line, .. } = gathered;
                return (Some(Item::Broken { text: text.trim_end().to_owned(), line }), None);
            }
            // SQL*Plus's prefix: a client command in the middle of a statement.
            if let Some(inner) = line.strip_prefix('#').filter(|_| is_plain) {
                let (word, rest) = split(inner.trim());
                let found = find(word);
                self.state = State::Statement(gathered);
                return match found {
                    Some(command) => {
                        let (word, rest) = (word.to_owned(), rest.trim().to_owned());
                        (Some(Item::Command { command, word, rest, line: number }), None)
                    }
                    None => {
                        (Some(Item::Unknown { text: inner.trim().to_owned(), line: number }), None)
                    }
                };
            }
        }
        self.add(gathered, line, number, rules)
    }

    /// Adds a line to a statement, up to its terminator.
    fn add(&mut self, mut gathered: Gathered, line: &str, number: usize, rules: &Rules) -> Fed {
        gathered.last = number;
        if gathered.kind == Kind::Undecided {
            gathered.kind = match is_block(&format!("{}{line}", gathered.text)) {
                Begins::Block => Kind::Block,
                Begins::Undecided => Kind::Undecided,
                _ => Kind::Statement,
            };
        }
        if gathered.kind != Kind::Block
            && let Some(terminator) = rules.terminator
            && let Some(at) = gathered
                .scan
                .find(line, |part, rest| part == Part::Plain && rest.starts_with(terminator))
        {
            let (one, behind) = line.split_at(at);
            gathered.text.push_str(one);
            return (Some(gathered.statement()), behind_terminator(behind, rules));
        }
        if rules.terminator.is_none() {
            gathered.scan.find(line, |_, _| false);
        }
        gathered.scan.end_line();
        gathered.text.push_str(line);
        gathered.text.push('\n');
        self.state = State::Statement(gathered);
        (None, None)
    }
}

impl Gathered {
    fn statement(self) -> Item {
        Item::Statement { text: self.text.trim_end().to_owned(), line: self.line }
    }
}

/// The text behind a terminator, if it is anything but blanks.
fn behind_terminator(behind: &str, rules: &Rules) -> Option<String> {
    let behind = rules.terminator.and_then(|terminator| behind.strip_prefix(terminator))?;
    (!behind.trim().is_empty()).then(|| behind.to_owned())
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
