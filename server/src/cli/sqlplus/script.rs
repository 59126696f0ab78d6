//! The loop: take the next item, carry it out, until the input ends or the script does.

use super::{
    Input, Interpreter, Line,
    binds::assignments,
    commands::Command,
    date::Date,
    output::Refused,
    reader::{Item, Rules},
    refusal::{Cause, Refusal, invalid, not_here, wrong},
    source::Source,
    variables::{Marks, Wanted, substitute},
};
use crate::sql_error::{SqlError, state};

impl Interpreter<'_> {
    /// Runs everything; the exit code of the program.
    pub(in super::super) fn run(&mut self) -> u8 {
        if self.prints_document {
            let document = self.settings.html.document();
            self.world.print(&document);
        }
        self.begin_profile();
        while self.leave.is_none() {
            match self.next() {
                Some(item) => self.carry_out(item),
                None => break,
            }
        }
        self.end_spool();
        if self.prints_document {
            self.world.print(super::html::DOCUMENT_END);
        }
        self.leave.unwrap_or(u8::from(self.failed))
    }

    /// The next item of the input.
    fn next(&mut self) -> Option<Item> {
        loop {
            let (is_standard, is_within) = match self.sources.top() {
                Some(source) => (source.is_standard(), source.reader.is_within()),
                None => match self.sources.next_input()? {
                    Input::Text(text) => {
                        self.sources.push(Source::text(&text));
                        continue;
                    }
                    Input::Standard => {
                        self.sources.push_standard();
                        continue;
                    }
                    Input::Script(name, arguments) => {
                        self.start(&name, &arguments, false, 0);
                        if self.leave.is_some() {
                            return None;
                        }
                        continue;
                    }
                },
            };
            let is_typed = is_standard && self.world.is_terminal();
            let rest = self.sources.top().and_then(|source| source.rest.take());
            let line = match rest {
                Some(rest) => rest,
                None => match self.next_line(is_standard, is_within) {
                    Line::Text(line) => line,
                    Line::Interrupted => {
                        if let Some(source) = self.sources.top() {
                            source.reader.clear();
                        }
                        continue;
                    }
                    Line::End => {
                        // At a terminal the end of the input drops an open statement, as Ctrl-C
                        // does.
                        let item = self.sources.top().and_then(|source| source.reader.end());
                        match item.filter(|_| !is_typed) {
                            // The source stays until the item is done: messages name it.
                            Some(item) => return Some(item),
                            None => {
                                self.refuse_broken();
                                self.sources.pop();
                            }
                        }
                        if self.leave.is_some() {
                            return None;
                        }
                        continue;
                    }
                },
            };
            let rules = self.rules();
            let Some(source) = self.sources.top() else { continue };
            let number = source.number;
            let (item, behind) = source.reader.feed(&line, number, &rules);
            source.rest = behind;
            if item.is_some() {
                return item;
            }
        }
    }

    fn next_line(&mut self, is_standard: bool, is_within: bool) -> Line {
        let is_typed = is_standard && self.world.is_terminal();
        let echoes = self.settings.echo && !self.silent && !is_typed;
        let prompt = if is_typed || echoes { self.prompt(is_within) } else { String::new() };
        let line = if is_standard {
            match self.world.read(&prompt) {
                Ok(line) => line,
                Err(error) => {
                    let text = format!("reading the standard input: {error}");
                    let error = SqlError::new(state::INTERNAL, text);
                    self.refuse(Refusal::of(Cause::System, error), 0, None);
                    Line::End
                }
            }
        } else {
            self.sources.top().and_then(Source::next_line).map_or(Line::End, Line::Text)
        };
        if let (Line::Text(text), Some(source)) = (&line, self.sources.top()) {
            source.number += 1;
            if echoes {
                self.say(&format!("{prompt}{text}\n"));
            }
        }
        line
    }

    fn prompt(&mut self, is_within: bool) -> String {
        if self.silent {
            return String::new();
        }
        if is_within {
            return match self.sources.top().and_then(|source| source.reader.lines()) {
                _ if !self.is_sqlplus => "     -> ".to_owned(),
                Some(lines) => format!("{lines:>3}  "),
                None => self.settings.sqlcontinue.clone(),
            };
        }
        let prompt = self.expanded_prompt();
        if self.settings.time {
            return format!("{} {prompt}", Date::of(self.world.now()).time());
        }
        prompt
    }

    /// SQLPROMPT with its variables: `_USER'@'_CONNECT_IDENTIFIER> `.
    fn expanded_prompt(&self) -> String {
        let mut out = String::new();
        for (number, part) in self.settings.sqlprompt.split('\'').enumerate() {
            if number % 2 == 1 {
                out.push_str(part);
                continue;
            }
            let is_name = |char: char| char.is_alphanumeric() || char == '_';
            let mut rest = part;
            while let Some(first) = rest.chars().next() {
                let length = match rest.find(|char| !is_name(char)) {
                    Some(0) => first.len_utf8(),
                    Some(length) => length,
                    None => rest.len(),
                };
                let (word, behind) = rest.split_at(length);
                let value = Some(word).filter(|word| word.starts_with('_'));
                out.push_str(value.and_then(|word| self.variables.get(word)).unwrap_or(word));
                rest = behind;
            }
        }
        out
    }

    fn rules(&self) -> Rules {
        Rules {
            terminator: self.settings.sqlterminator,
            blank_lines: self.settings.sqlblanklines,
            define: self.settings.define,
            is_sqlplus: self.is_sqlplus,
        }
    }

    pub(super) fn marks(&self) -> Marks {
        let settings = &self.settings;
        Marks { define: settings.define, concat: settings.concat, escape: settings.escape }
    }

    fn carry_out(&mut self, item: Item) {
        if self.loses_broken(&item) {
            self.refuse_broken();
            if self.leave.is_some() {
                return;
            }
        }
        match item {
            Item::Command { command: Command::Remark, .. } => {}
            Item::Command { command: Command::Refused(why), word, line, .. } => {
                self.refuse(not_here(&word.to_uppercase(), why), line, None);
            }
            Item::Command { command, word, rest, line } => match self.substituted(&rest, line) {
                Ok(rest) => self.command(command, &word, &rest, line),
                Err(refusal) => self.refuse(refusal, line, None),
            },
            Item::Statement { text, line } => {
                self.buffer.set(&text);
                if self.sources.depth() == 0 {
                    self.world.remember(&text);
                }
                self.statement(&text, line);
            }
            Item::Block { text, line, last, is_ended } => {
                // A statement in the buffer is not the last one any more.
                self.buffer.clear();
                match within_block(&text) {
                    Some(assignments) if is_ended => {
                        let done = self
                            .substituted(assignments, line)
                            .and_then(|assignments| self.execute(&assignments, line));
                        if let Err(refusal) = done {
                            self.refuse(refusal.of_statement(), line, None);
                        }
                    }
                    _ => self.refuse_block(&text, line, last, is_ended),
                }
            }
            Item::Again { line } if self.is_sqlplus => self.again(line),
            Item::Again { .. } => {}
            Item::Kept { text } => self.buffer.set(&text),
            Item::Broken { text, line } => {
                self.buffer.set(&text);
                self.broken = Some(line);
            }
            Item::Dangling { word, line } => {
                let text = format!("{} continues with - into a statement", word.to_uppercase());
                let refusal = wrong(text).hint("the statement stands on its own and is run");
                self.refuse(refusal, line, None);
            }
            Item::Variable { text, line } => self.expand(&text, line),
            Item::Backslash { text, .. } if text.trim_end_matches(';') == "\\q" => {
                self.exit(&super::whenever::Code::Plain);
            }
            Item::Backslash { text, line } => {
                let word = text.split_whitespace().next().unwrap_or_default();
                let refusal = wrong(format!("{word} is a command of psql, and is not here"));
                self.refuse(refusal.hint("DESCRIBE name lists the columns of a view"), line, None);
            }
            Item::Unknown { text, line } => match self.buffer.number(&text) {
                Some(Ok(said)) => self.say(&said),
                Some(Err(refusal)) => self.refuse(refusal, line, None),
                None => self.refuse(unknown(&text), line, None),
            },
            Item::OpenDocument { line } => {
                let refusal = wrong("DOCUMENT has no end: a line that begins with #");
                self.refuse(refusal, line, None);
            }
            Item::OpenComment { line } => {
                self.refuse(wrong("a comment has no end: */"), line, None);
            }
        }
    }

    /// Whether behind this item nothing can run the statement that a blank line ended. Client
    /// commands leave it in the buffer, up to the `/`; what is no command is its other half.
    fn loses_broken(&self, item: &Item) -> bool {
        self.broken.is_some()
            && match item {
                Item::Again { .. } | Item::Variable { .. } => false,
                Item::Command { command, .. } => *command == Command::Exit,
                _ => true,
            }
    }

    /// Refuses the statement that a blank line ended, and forgets it: a part of a statement is
    /// never run.
    fn refuse_broken(&mut self) {
        let Some(line) = self.broken.take() else { return };
        self.buffer.clear();
        let text = format!(
            "the statement at line {line} was not run: a blank line ends it, and no / runs it"
        );
        let refusal = wrong(text).hint("SET SQLBLANKLINES ON keeps blank lines in statements");
        self.refuse(refusal.of_statement().with_line(), line, None);
    }

    /// The rest of a client command with its variables replaced.
    fn substituted(&mut self, rest: &str, line: usize) -> Result<String, Refusal> {
        let marks = self.marks();
        let found = substitute(rest, marks, false, |wanted| self.value(wanted, line))?;
        Ok(found.unwrap_or_else(|| rest.to_owned()))
    }

    /// The value of a variable in a text that begins at `line`.
    pub(super) fn value(&mut self, wanted: Wanted<'_>, line: usize) -> Result<String, Refusal> {
        if let Some(value) = self.variables.get(wanted.name) {
            return Ok(value.to_owned());
        }
        let name = wanted.name;
        let question = format!("Enter value for {}: ", name.to_lowercase());
        let Some(answer) = self.answered(&question, false) else {
            let line = line + wanted.line;
            let text =
                format!("&{name} in line {line} has no value, and there is no terminal to ask at");
            let remedy = if name.chars().all(|char| char.is_ascii_digit()) {
                format!("give the script {name} arguments")
            } else {
                format!(
                    "DEFINE {name} = value before it, or SET DEFINE OFF if no variable is meant"
                )
            };
            return Err(wrong(text).hint(remedy).with_line());
        };
        if wanted.keep {
            self.variables.set(name, answer.clone());
        }
        Ok(answer)
    }

    /// A line that begins with a variable is read again with the value.
    fn expand(&mut self, text: &str, line: usize) {
        match self.substituted(text, line) {
            Ok(expanded) => {
                let begins =
                    self.settings.define.is_some_and(|define| expanded.starts_with(define));
                if begins {
                    self.refuse(unknown(&expanded), line, None);
                } else if let Some(source) = self.sources.top() {
                    source.rest = Some(expanded);
                }
            }
            Err(refusal) => self.refuse(refusal.of_statement(), line, None),
        }
    }

    fn refuse_block(&mut self, text: &str, line: usize, last: usize, is_ended: bool) {
        let end = if is_ended { "" } else { ", the end of the input, because no line is / alone" };
        let message =
            format!("PL/SQL is not carried out: the block from line {line} to line {last}{end}");
        let error = SqlError::new(state::NOT_SUPPORTED, message)
            .hint("statements and commands of SQL*Plus are carried out");
        let refused = Refused { text, line };
        self.refuse(Refusal::of(Cause::Statement, error).with_line(), line, Some(refused));
    }
}

/// The inside of a block that does nothing but give values to bind variables, as EXECUTE does:
/// `BEGIN :a := 1; :b := 'x'; END;`
fn within_block(text: &str) -> Option<&str> {
    let (begin, rest) = text.trim().split_at_checked("BEGIN".len())?;
    let rest = rest.trim_end().strip_suffix(';')?.trim_end();
    let (inner, end) = rest.split_at_checked(rest.len().checked_sub("END".len())?)?;
    let is_block = begin.eq_ignore_ascii_case("BEGIN") && end.eq_ignore_ascii_case("END");
    (is_block && inner.ends_with([';', ' ', '\t', '\n']) && assignments(inner).is_some())
        .then_some(inner)
}

fn unknown(text: &str) -> Refusal {
    let word = text.split_whitespace().next().unwrap_or_default();
    if word == text.trim() {
        return invalid(42, format!("unknown command \"{text}\" - rest of line ignored."));
    }
    let start: String = text.chars().take(10).collect();
    invalid(734, format!("unknown command beginning \"{start}...\" - rest of line ignored."))
}
