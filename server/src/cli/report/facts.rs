//! The answers of the views, and why some do not answer.
//!
//! A question is a query of one view. Its answer is rows, or the reason why there are none: the
//! group is not mounted, no engine answers, the statement was refused. An engine that takes seconds
//! to refuse one question is not asked the next ones, so that a page of an engine that hangs is
//! made within a minute or two.

use super::alert_log::{self, Log};
use crate::cli::{Result, context::Context};
use crate::query::Table;
use crate::sql_error::{SqlError, state};
use plinth_engine::admin::Value;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// An engine that took longer to refuse an answer is not asked again.
const PATIENCE: Duration = Duration::from_secs(5);

/// The group as it was found.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub name: String,
    /// None: it is not mounted.
    pub number: Option<i64>,
    pub state: String,
}

/// A question to a view.
#[derive(Debug)]
pub(super) struct Question {
    /// The view, by which the answer is found.
    pub view: &'static str,
    /// Whether engines have the rows. Then the group has to be mounted.
    pub is_of_engine: bool,
    /// `{group}` stands for the group's number, `{name}` for its name as a string of SQL, `{files}`
    /// for the numbers of the files that `v$asm_file_iostat` has answered with.
    pub sql: &'static str,
}

/// Rows, or why there are none.
pub(super) type Answer = std::result::Result<Rows, String>;

#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    columns: &'a [String],
    values: &'a [Value],
}

impl From<Table> for Rows {
    fn from(table: Table) -> Self {
        let columns = table.columns.into_iter().map(|column| column.name).collect();
        Self { columns, rows: table.rows }
    }
}

impl Rows {
    pub(super) fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|values| Row { columns: &self.columns, values })
    }

    pub(super) fn first(&self) -> Option<Row<'_>> {
        self.iter().next()
    }
}

impl Row<'_> {
    fn value(&self, column: &str) -> Option<&Value> {
        let place = self.columns.iter().position(|name| name.eq_ignore_ascii_case(column))?;
        self.values.get(place)
    }

    pub(super) fn is_null(&self, column: &str) -> bool {
        matches!(self.value(column), None | Some(Value::Null))
    }

    /// Empty where there is none.
    pub(super) fn text(&self, column: &str) -> String {
        match self.value(column) {
            Some(Value::Text(text)) => text.clone(),
            Some(Value::Integer(number)) => number.to_string(),
            Some(Value::Real(number)) => number.to_string(),
            Some(Value::Blob(_) | Value::Null) | None => String::new(),
        }
    }

    /// 0 where there is none.
    pub(super) fn integer(&self, column: &str) -> i64 {
        match self.value(column) {
            Some(Value::Integer(number)) => *number,
            Some(Value::Real(number)) => *number as i64,
            _ => 0,
        }
    }

    /// A counter: 0 where there is none, and never below.
    pub(super) fn count(&self, column: &str) -> u64 {
        u64::try_from(self.integer(column)).unwrap_or(0)
    }

    /// 0 where there is none.
    pub(super) fn real(&self, column: &str) -> f64 {
        match self.value(column) {
            Some(Value::Integer(number)) => *number as f64,
            Some(Value::Real(number)) => *number,
            _ => 0.0,
        }
    }
}

/// Everything that the page is made of.
#[derive(Debug)]
pub(super) struct Facts {
    pub group: Group,
    /// Nanoseconds since 1970.
    pub now: i64,
    pub log: std::result::Result<Log, String>,
    answers: BTreeMap<&'static str, Answer>,
    /// Why the engine is not asked any more.
    silence: Option<String>,
}

impl Facts {
    pub(super) fn new(group: Group, now: i64) -> Self {
        let log = Err("it was not read".to_owned());
        Self { group, now, log, answers: BTreeMap::new(), silence: None }
    }

    /// Asks a question, and keeps the answer.
    pub(super) fn ask(&mut self, context: &Context, question: &Question) {
        let answer = self.answer(context, question);
        self.answers.insert(question.view, answer);
    }

    fn answer(&mut self, context: &Context, question: &Question) -> Answer {
        let Group { name, number, state } = &self.group;
        let number = match (number, question.is_of_engine) {
            (Some(number), _) => *number,
            (None, false) => 0,
            (None, true) => return Err(format!("disk group {name} is {state}")),
        };
        if let (Some(silence), true) = (&self.silence, question.is_of_engine) {
            return Err(silence.clone());
        }
        let sql = question
            .sql
            .replace("{group}", &number.to_string())
            .replace("{files}", &self.files())
            .replace("{name}", &crate::cli::context::quoted(name));
        let began = Instant::now();
        let answer = query(context, name, &sql).map(Rows::from).map_err(|error| error.message);
        if let (Err(reason), true) = (&answer, question.is_of_engine)
            && began.elapsed() > PATIENCE
        {
            self.silence = Some(reason.clone());
        }
        answer
    }

    /// For a condition: the numbers of the files with the most I/O.
    fn files(&self) -> String {
        let Ok(files) = self.get("v$asm_file_iostat") else { return "0".to_owned() };
        let numbers: Vec<String> =
            files.iter().map(|row| row.integer("file_number").to_string()).collect();
        if numbers.is_empty() { "0".to_owned() } else { numbers.join(", ") }
    }

    /// Reads the alert log in the directory that `v$diag_info` names.
    pub(super) fn read_alert_log(&mut self) {
        self.log = match self.get("v$diag_info") {
            Ok(rows) => match rows.first() {
                Some(row) => alert_log::read(&row.text("value"), &self.group.name, self.now),
                None => Err("v$diag_info does not say where it is".to_owned()),
            },
            Err(reason) => Err(reason.clone()),
        };
    }

    /// The answer to the question about a view.
    pub(super) fn get(&self, view: &str) -> std::result::Result<&Rows, &String> {
        static NONE: Rows = Rows { columns: Vec::new(), rows: Vec::new() };
        self.answers.get(view).map_or(Ok(&NONE), |answer| answer.as_ref())
    }

    /// The rows of a view; none if it could not be asked.
    pub(super) fn rows(&self, view: &str) -> impl Iterator<Item = Row<'_>> {
        self.get(view).into_iter().flat_map(Rows::iter)
    }

    /// A sentence for each reason for which something could not be asked.
    pub(super) fn absent(&self) -> Vec<String> {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (view, answer) in &self.answers {
            if let Err(reason) = answer {
                reasons.entry(reason).or_default().push(view);
            }
        }
        let mut sentences: Vec<String> = reasons
            .into_iter()
            .map(|(reason, views)| format!("{} could not be asked: {reason}", views.join(", ")))
            .collect();
        if let Err(reason) = &self.log {
            sentences.push(format!("the alert log could not be read: {reason}"));
        }
        sentences
    }

    #[cfg(test)]
    pub(super) fn put(&mut self, view: &'static str, answer: Answer) {
        self.answers.insert(view, answer);
    }
}

/// Runs a query. A notice that nothing of the group is shown is a refusal here.
fn query(context: &Context, group: &str, sql: &str) -> Result<Table> {
    let (mut found, mut silence) = (None, None);
    let about = format!("nothing of disk group {group} is shown: ");
    context.instance()?.sql(sql, |given| {
        silence = given
            .notices
            .iter()
            .find_map(|notice| Some(notice.text.strip_prefix(&about)?.to_owned()));
        found = given.table;
    })?;
    if let Some(silence) = silence {
        return Err(SqlError::new("55000", silence));
    }
    found.ok_or_else(|| SqlError::new(state::INTERNAL, "a query without a result"))
}

#[cfg(test)]
pub(super) fn rows(columns: &[&str], rows: Vec<Vec<Value>>) -> Rows {
    Rows { columns: columns.iter().map(|name| (*name).to_owned()).collect(), rows }
}
