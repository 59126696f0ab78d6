//! What a script prints, and where: results to the standard output, refusals there as well in
//! SQL*Plus's layout and to the standard error otherwise, and all of it to the spool file, too.
//!
//! SET TERMOUT OFF silences scripts, not what comes from the terminal or a pipe. A refusal is never
//! silenced: it then goes to the standard error.

use super::{
    Interpreter, Look,
    date::Date,
    layout::Sheet,
    refusal::{self, Cause, Refusal, oracle_number, system},
    settings::Feedback,
    source::Place,
    whenever::{self, Code, Then},
};
use crate::{cli, cli::table, query::Table, sql_error::SqlError};
use std::borrow::Cow;

/// A statement that was refused: its text, and where it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused<'a> {
    pub text: &'a str,
    pub line: usize,
}

impl Interpreter<'_> {
    /// Whether the output of the script that runs is silenced.
    fn is_silenced(&self) -> bool {
        !self.settings.termout && self.sources.depth() > 0
    }

    /// Prints a text.
    pub(super) fn say(&mut self, text: &str) {
        let text = self.marked_up(text);
        self.say_as_it_is(&text);
    }

    fn say_as_it_is(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if !self.is_silenced() {
            self.world.print(text);
        }
        self.spool_text(text);
    }

    /// A text that is no result, as HTML if results are.
    fn marked_up<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.settings.html {
            html if html.on && self.look == Look::Report => Cow::Owned(html.lines(text)),
            _ => Cow::Borrowed(text),
        }
    }

    /// Prints lines of a result, without the blanks at their ends or filled up with blanks. Lines
    /// of CSV and HTML are as long as they are: the blanks at their ends belong to values.
    pub(super) fn say_lines(&mut self, lines: &[String]) {
        let width = self.settings.linesize;
        let is_text = self.settings.csv.is_none() && !self.settings.html.on;
        let written = |trims: bool| -> String {
            let line = |line: &String| match trims {
                _ if !is_text => format!("{line}\n"),
                true => format!("{}\n", line.trim_end_matches(' ')),
                false => format!("{line:<width$}\n"),
            };
            lines.iter().map(line).collect()
        };
        if !self.is_silenced() {
            let text = written(self.settings.trimout);
            self.world.print(&text);
        }
        if self.spool.is_some() {
            let text = written(self.settings.trimspool);
            self.spool_text(&text);
        }
    }

    /// Prints what is not a part of a result: notices of the server.
    pub(super) fn note(&mut self, text: &str) {
        self.world.complain(text);
        let text = self.marked_up(text);
        self.spool_text(&text);
    }

    /// Ends the file that gets all output, if there is one.
    pub(super) fn end_spool(&mut self) {
        if std::mem::take(&mut self.spools_document) {
            self.spool_text(super::html::DOCUMENT_END);
        }
        self.spool = None;
        self.world.end_spool();
    }

    pub(super) fn spool_text(&mut self, text: &str) {
        let Some(name) = self.spool.clone() else { return };
        if let Err(error) = self.world.write_spool(text) {
            self.spool = None;
            self.world.end_spool();
            let refusal = system(308, format!("cannot write SPOOL file \"{name}\": {error}"));
            self.refuse(refusal.hint("nothing more is spooled"), 0, None);
        }
    }

    /// From now on results have SQL*Plus's layout.
    pub(super) fn report_from_now_on(&mut self) {
        if let Look::Psql { only_rows, .. } = self.look {
            if only_rows {
                self.settings.heading = false;
                self.settings.pagesize = 0;
                self.settings.feedback = Feedback::Off;
            }
            self.look = Look::Report;
        }
    }

    /// Prints a refusal, counts it, and does what WHENEVER says.
    pub(super) fn refuse(&mut self, refusal: Refusal, line: usize, refused: Option<Refused<'_>>) {
        let Refusal { cause, mut error, names_line } = refusal;
        let place = self.sources.place(line, self.world.is_terminal());
        let is_report = self.look == Look::Report;
        // A report shows the statement, and so does a caret.
        let is_shown = cause == Cause::Statement && is_report && refused.is_some();
        let has_caret = cause == Cause::Statement && error.at.is_some();
        let is_located = line > 0
            && !is_shown
            && (matches!(place, Place::Script(..)) || !(names_line || has_caret));
        match &place {
            Place::Script(name, line) if is_located => {
                error.message = format!("{} ({name}, line {line})", error.message);
            }
            Place::Line(line) if is_located && (!self.stops || cause != Cause::Statement) => {
                error.message = format!("{} (line {line})", error.message);
            }
            _ => {}
        }
        let text = match refused {
            Some(Refused { text, .. }) if is_report => refusal::report(&error, text),
            Some(refused) => {
                let first = if place == Place::Terminal { 1 } else { refused.line };
                let caret = error.at.and_then(|at| caret(refused.text, at, first));
                format!("{}{}", cli::refusal_text(&error), caret.unwrap_or_default())
            }
            None if is_report => refusal::message(&error),
            None => cli::refusal_text(&error),
        };
        let text = self.marked_up(&text);
        if is_report && !self.is_silenced() {
            self.world.print(&text);
        } else {
            self.world.complain(&text);
        }
        if self.spool.is_some() {
            self.spool_text(&text);
        }
        let is_seen = self.world.is_terminal() && self.sources.is_of_standard();
        self.failed |= !is_seen;
        self.follow(cause, &error);
    }

    fn follow(&mut self, cause: Cause, error: &SqlError) {
        let then = match cause {
            Cause::Statement => {
                self.sqlcode = oracle_number(error);
                self.whenever.sql_error.clone()
            }
            Cause::System => self.whenever.os_error.clone(),
            Cause::Command => Then::Continue,
        };
        match then {
            Then::Exit(Code::Plain) => self.leave = Some(1),
            Then::Exit(code) => self.exit(&code),
            Then::Continue if self.stops => self.leave = Some(1),
            Then::Continue => {}
        }
    }

    /// Ends the script with a code.
    pub(super) fn exit(&mut self, code: &Code) {
        let number = match code {
            Code::Plain => i64::from(self.failed),
            Code::Number(number) => *number,
            Code::LastRefusal => self.sqlcode.into(),
            Code::Variable(name) => {
                let value = self.variables.get(name).and_then(|text| text.trim().parse().ok());
                self.numeric(name, value)
            }
            Code::Bind(name) => {
                let value =
                    self.binds.get(name).and_then(|bind| table::text(&bind.value).parse().ok());
                self.numeric(name, value)
            }
        };
        self.leave = Some(whenever::code(number));
    }

    /// The code in a variable; without one the script ends as one that was refused.
    fn numeric(&mut self, name: &str, value: Option<i64>) -> i64 {
        if value.is_none() {
            let text = format!("SP2-0584: EXIT variable \"{name}\" was non-numeric\n");
            self.note(&text);
        }
        value.unwrap_or(1)
    }

    /// Prints a result. `statement` says which of its names are in double quotes.
    pub(super) fn show(&mut self, table: &Table, statement: &str) {
        match self.look.clone() {
            Look::Json => self.say(&table::json(table)),
            Look::Psql { only_rows, unaligned: None } => self.say(&table::ruled(table, !only_rows)),
            Look::Psql { only_rows, unaligned: Some(between) } => {
                self.say(&table::unaligned(table, &between, !only_rows));
            }
            Look::Report => {
                if self.settings.feedback != Feedback::Only {
                    let lines = self.drawn(table, statement);
                    self.say_lines(&lines);
                }
                self.say(&rows(table.rows.len(), self.settings.feedback));
            }
        }
        super::layout::keep_values(table, &self.columns, &mut self.variables);
    }

    /// The lines of a result in SQL*Plus's layout.
    pub(super) fn drawn(&self, table: &Table, statement: &str) -> Vec<String> {
        let headings: Vec<String> =
            table.columns.iter().map(|column| heading(&column.name, statement)).collect();
        if let Some(csv) = self.settings.csv {
            if table.rows.is_empty() {
                return Vec::new();
            }
            let shows = self.settings.heading && self.settings.pagesize > 0;
            // HEADSEP has no meaning in CSV.
            let own = |name: &str| self.columns.of(name).and_then(|one| one.heading.clone());
            let headings: Vec<String> = table
                .columns
                .iter()
                .zip(headings)
                .map(|(column, heading)| own(&column.name).unwrap_or(heading))
                .collect();
            let lines = super::csv::lines(table, shows.then_some(&headings), csv);
            return if shows { [vec![String::new()], lines].concat() } else { lines };
        }
        let (user, date) = (self.world.user(), Date::of(self.world.now()).title());
        let sheet = Sheet {
            settings: &self.settings,
            columns: &self.columns,
            breaks: &self.breaks,
            titles: &self.titles,
            user: &user,
            date: &date,
        };
        sheet.lines(table, &headings, &self.variables)
    }
}

/// A column's name as a heading: in upper case, and that of an expression without its blanks and
/// line ends; unless the statement has it in double quotes.
fn heading(name: &str, statement: &str) -> String {
    let is_quoted = statement.contains(&format!("\"{}\"", name.replace('"', "\"\"")));
    if is_quoted { name.to_owned() } else { super::columns::key(name) }
}

/// The line below a result.
fn rows(count: usize, feedback: Feedback) -> String {
    let from = match feedback {
        Feedback::Off => return String::new(),
        Feedback::Only => 0,
        Feedback::From(from) => from,
    };
    match count {
        0 => "\nno rows selected\n\n".to_owned(),
        1 if from <= 1 => "\n1 row selected.\n\n".to_owned(),
        count if count >= from => format!("\n{count} rows selected.\n\n"),
        _ => "\n".to_owned(),
    }
}

/// The line with character `at`, and a caret below it; the text begins at line `first`.
pub(super) fn caret(text: &str, at: usize, first: usize) -> Option<String> {
    let characters: Vec<char> = text.chars().collect();
    if at > characters.len() {
        return None;
    }
    let start =
        characters.iter().take(at).rposition(|char| *char == '\n').map_or(0, |newline| newline + 1);
    let line: String = characters.iter().skip(start).take_while(|char| **char != '\n').collect();
    let number = characters.iter().take(at).filter(|char| **char == '\n').count() + first;
    let prefix = format!("LINE {number}: ");
    // Tabs stay tabs, so that the caret stands below its character.
    let indent: String =
        line.chars().take(at - start).map(|char| if char == '\t' { '\t' } else { ' ' }).collect();
    Some(format!("{prefix}{line}\n{}{indent}^\n", " ".repeat(prefix.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_below_the_place() {
        let place = |text: &str, at| caret(text, at, 1);
        assert_eq!(place("select x", 7).as_deref(), Some("LINE 1: select x\n               ^\n"));
        assert_eq!(place("a\n\tbé c\nd", 6).as_deref(), Some("LINE 2: \tbé c\n        \t   ^\n"));
        assert_eq!(place("a", 1).as_deref(), Some("LINE 1: a\n         ^\n"));
        assert_eq!(place("a", 2), None);
        assert_eq!(caret("a\nb", 2, 10).as_deref(), Some("LINE 11: b\n         ^\n"));
    }

    #[test]
    fn the_number_of_rows_is_said_from_a_number_on() {
        let six = Feedback::From(6);
        assert_eq!(rows(0, six), "\nno rows selected\n\n");
        assert_eq!(
            (rows(5, six).as_str(), rows(6, six).as_str()),
            ("\n", "\n6 rows selected.\n\n")
        );
        assert_eq!(rows(1, Feedback::From(1)), "\n1 row selected.\n\n");
        assert_eq!(rows(7, Feedback::Off), "");
        assert_eq!(rows(2, Feedback::Only), "\n2 rows selected.\n\n");
    }

    #[test]
    fn names_in_double_quotes_keep_their_case() {
        assert_eq!(heading("Free", "select x as \"Free\""), "Free");
        assert_eq!(heading("Free", "select x as Free"), "FREE");
        assert_eq!(heading("Free MB", "select x as \"Free MB\""), "Free MB");
    }

    #[test]
    fn an_expression_is_headed_without_its_blanks() {
        assert_eq!(heading("nvl( 5 ,\n\t6 )", "select nvl( 5 ,\n\t6 )"), "NVL(5,6)");
        assert_eq!(heading("'Hello World'", "select 'Hello World'"), "'HELLOWORLD'");
    }
}
