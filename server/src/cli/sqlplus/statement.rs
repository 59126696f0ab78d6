//! Carrying out one statement: variables and bind variables are replaced, the server runs it, and
//! the answer is printed.
//!
//! The text that is sent is one statement. A value of a variable could make two of it; such a text
//! is refused, because SQL*Plus would not run the second one either.

use super::{
    Interpreter, Look,
    output::Refused,
    refusal::{Cause, Refusal, acknowledgement, invalid, wrong},
    scan::{Part, Scan},
    settings::Feedback,
    variables::substitute,
};
use crate::{
    instance::control::Given,
    sql_error::{SqlError, state},
};
use std::time::Duration;

impl Interpreter<'_> {
    /// Runs a statement that begins at a line.
    pub(super) fn statement(&mut self, written: &str, line: usize) {
        match self.prepared(written, line) {
            Ok(text) => self.send(&text, line),
            Err(refusal) => self.refuse(refusal.of_statement(), line, None),
        }
    }

    /// The text as the server gets it.
    fn prepared(&mut self, written: &str, line: usize) -> Result<String, Refusal> {
        if written.contains('\u{fffd}') {
            return Err(wrong("the statement is not written in UTF-8, and was not run")
                .hint("iconv -f LATIN1 -t UTF-8 converts a file"));
        }
        let marks = self.marks();
        let text = match substitute(written, marks, true, |wanted| self.value(wanted, line))? {
            Some(text) => {
                if self.settings.verify {
                    self.say(&old_and_new(written, &text));
                }
                self.single(text)?
            }
            None => written.to_owned(),
        };
        self.binds.replace(&text, self.is_sqlplus)
    }

    /// A text with values in it, without a terminator at its end.
    fn single(&self, text: String) -> Result<String, Refusal> {
        let Some(terminator) = self.settings.sqlterminator else { return Ok(text) };
        let end = Scan::default()
            .find(&text, |part, rest| part == Part::Plain && rest.starts_with(terminator));
        let Some(end) = end else { return Ok(text) };
        let (one, behind) = text.split_at(end);
        let is_blank = |char: char| char == terminator || char.is_whitespace();
        if behind.chars().all(is_blank) {
            return Ok(one.to_owned());
        }
        Err(wrong("the values of its variables make more than one statement of it")
            .hint("a value can have a ; within a string only"))
    }

    /// Runs a statement as it is.
    fn send(&mut self, text: &str, line: usize) {
        if !self.server.is_connected() {
            let refusal = invalid(640, "Not connected").hint("CONNECT / AS SYSASM");
            self.refuse(refusal.of_statement(), line, None);
            return;
        }
        let began = self.world.clock();
        let mut answers = Vec::new();
        let result = self.server.run(text, &mut |given| answers.push(given));
        let took = self.world.clock().saturating_sub(began);
        for given in answers {
            self.answer(&given, text);
        }
        match result {
            Ok(()) => self.sqlcode = 0,
            Err(error) => self.refuse_statement(error, text, line),
        }
        if self.settings.timing && self.leave.is_none() {
            self.say(&format!("Elapsed: {}\n", elapsed(took)));
        }
    }

    fn refuse_statement(&mut self, error: SqlError, text: &str, line: usize) {
        let is_cancelled = error.state == state::CANCELED;
        let refused = Refused { text, line };
        self.refuse(Refusal::of(Cause::Statement, error), line, Some(refused));
        if is_cancelled && self.world.is_terminal() {
            self.sources.end_scripts();
        }
    }

    fn answer(&mut self, given: &Given, statement: &str) {
        for notice in &given.notices {
            let severity = if notice.warning { "WARNING" } else { "NOTICE" };
            self.note(&format!("{severity}: {}\n", notice.text));
        }
        match &given.table {
            Some(table) => self.show(table, statement),
            None if given.tag.is_empty() => {}
            None => self.acknowledge(&given.tag),
        }
    }

    fn acknowledge(&mut self, tag: &str) {
        match self.look {
            Look::Json => {}
            Look::Psql { .. } => self.say(&format!("{tag}\n")),
            Look::Report if self.settings.feedback == Feedback::Off => {}
            Look::Report => self.say(&format!("\n{}\n\n", acknowledgement(tag))),
        }
    }

    /// Runs the last statement again.
    pub(super) fn again(&mut self, line: usize) {
        self.broken = None;
        match self.buffer.text() {
            Some(text) => self.statement(&text, line),
            None => self.refuse(invalid(103, "Nothing in SQL buffer to run."), line, None),
        }
    }
}

/// The lines in which variables were replaced, before and after it.
fn old_and_new(before: &str, after: &str) -> String {
    let lines = before.split('\n').zip(after.split('\n')).enumerate();
    let changed = lines.filter(|(_, (before, after))| before != after);
    let line = |(number, (before, after)): (usize, (&str, &str))| {
        let number = number + 1;
        format!("old {number:>3}: {before}\nnew {number:>3}: {after}\n")
    };
    changed.map(line).collect()
}

/// `00:00:01.25`
pub(super) fn elapsed(took: Duration) -> String {
    let seconds = took.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:02}", seconds % 60, took.subsec_millis() / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_before_and_after() {
        let shown = old_and_new("select 1\nfrom &t\nwhere 1", "select 1\nfrom dual\nwhere 1");
        assert_eq!(shown, "old   2: from &t\nnew   2: from dual\n");
    }

    #[test]
    fn a_time_has_hours_and_hundredths() {
        assert_eq!(elapsed(Duration::from_millis(3_725_259)), "01:02:05.25");
        assert_eq!(elapsed(Duration::ZERO), "00:00:00.00");
    }
}
