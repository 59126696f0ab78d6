//! `status`: is all well? One screen of `v$asm_health`, and an exit code for Nagios and Icinga.
//!
//! ```text
//!   PLINTH WARNING: DATA: DISK OFFLINE DATA_0001 | 'DATA_used'=43%;;;0;100 ...
//!
//!   DATA: MOUNTED, NORMAL redundancy, 2 disks in 2 failure groups
//!     F0              may not go: ...
//!     free            ...
//!     WARNING         DISK OFFLINE DATA_0001: the disk is OFFLINE
//!                     ALTER DISKGROUP DATA ONLINE DISK DATA_0001
//! ```
//!
//! The first line is the summary, with performance data behind the bar. No other line has a bar: a
//! plugin's reader would take what follows for performance data, too.
//!
//! The instance asks engines and disks without waiting for those that hang. This command waits for
//! the instance for a limited time only: an instance that hangs is UNKNOWN, as one that does not
//! run.

use super::{
    Result,
    context::{Context, Run, bare, query},
    print,
};
use crate::{query::Table, text::clean};
use clap::Args;
use plinth_engine::admin::Value;
use serde_json::{Map, json};
use std::{collections::BTreeMap, sync::mpsc, thread, time::Duration};

/// How long the instance may take: longer than an answer of its own takes at most, and shorter than
/// the ten seconds for which monitoring waits by default.
const PATIENCE: Duration = Duration::from_secs(9);
/// Most findings that the first line names.
const NAMED_MAX: usize = 3;
/// Columns of the screen before the text.
const INDENT: usize = 16;

/// Say whether all is well, and which statement mends what is not.
///
/// The exit code is 0 if all is well, 1 if something is degraded, 2 if it is critical, 3 if it is
/// not known: as Nagios has it.
#[derive(Debug, Args)]
pub(super) struct Status {
    /// This group alone.
    group: Option<String>,
}

impl Status {
    /// Of one group.
    pub(super) fn of(group: &str) -> Self {
        Self { group: Some(group.to_owned()) }
    }
}

/// How it is, by Nagios's exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Ok,
    Warning,
    Critical,
    Unknown,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }

    fn of(severity: &str) -> Self {
        match severity {
            "CRITICAL" => Self::Critical,
            "WARNING" => Self::Warning,
            _ => Self::Ok,
        }
    }

    fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }
}

/// A row of the view.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    group: Option<String>,
    severity: String,
    kind: String,
    subject: Option<String>,
    detail: String,
    remedy: Option<String>,
    value: Option<f64>,
    unit: Option<String>,
}

const ROWS: &str =
    "SELECT group_name, severity, kind, subject, detail, remedy, value, unit FROM v$asm_health";

impl Line {
    fn of(row: &[Value]) -> Option<Self> {
        let [group, severity, kind, subject, detail, remedy, value, unit] = row else {
            return None;
        };
        let text = |value: &Value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        };
        Some(Self {
            group: text(group),
            severity: text(severity)?,
            kind: text(kind)?,
            subject: text(subject),
            detail: text(detail)?,
            remedy: text(remedy),
            value: match value {
                Value::Real(value) => Some(*value),
                Value::Integer(value) => Some(*value as f64),
                _ => None,
            },
            unit: text(unit),
        })
    }

    fn state(&self) -> State {
        State::of(&self.severity)
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "group": self.group,
            "severity": self.severity,
            "kind": self.kind,
            "subject": self.subject,
            "detail": self.detail,
            "remedy": self.remedy,
            "value": self.value,
            "unit": self.unit,
        })
    }

    /// The finding in a few words.
    fn short(&self) -> String {
        let group = self.group.as_ref().map_or_else(String::new, |group| format!("{group}: "));
        let subject =
            self.subject.as_ref().map_or_else(String::new, |subject| format!(" {subject}"));
        format!("{group}{}{subject}", self.kind)
    }

    /// Its name in front of a fact.
    fn label(&self) -> String {
        let subject = || self.subject.clone().unwrap_or_default();
        match &*self.kind {
            "FREE SPACE" => "free".to_owned(),
            "READ LATENCY" => "reads".to_owned(),
            "WRITE LATENCY" => "writes".to_owned(),
            "FAILURE GROUP" | "OPERATION" => subject(),
            kind => kind.to_owned(),
        }
    }

    fn screen(&self) -> String {
        if self.severity == "OK" {
            return format!("  {:<INDENT$}{}\n", self.label(), self.detail);
        }
        let subject =
            self.subject.as_ref().map_or_else(String::new, |subject| format!(" {subject}"));
        let mut text =
            format!("  {:<INDENT$}{}{subject}: {}\n", self.severity, self.kind, self.detail);
        if let Some(remedy) = &self.remedy {
            text += &format!("  {:<INDENT$}{remedy}\n", "");
        }
        text
    }

    /// Its performance data, if it has some.
    fn performance(&self) -> Option<String> {
        let (group, value) = (self.group.as_ref()?, self.value?);
        let (what, value) = match &*self.kind {
            "GROUP" => ("used", format!("{value:.0}%;;;0;100")),
            "FREE SPACE" => ("safe", format!("{value:.0}B;;;0")),
            "READ LATENCY" => ("read", format!("{value:.0}us;;;0")),
            "WRITE LATENCY" => ("write", format!("{value:.0}us;;;0")),
            _ => return None,
        };
        Some(format!("'{group}_{what}'={value}"))
    }
}

/// The whole answer.
struct Answer {
    state: State,
    summary: String,
    lines: Vec<Line>,
}

impl Answer {
    fn unknown(why: String) -> Self {
        Self { state: State::Unknown, summary: why, lines: Vec::new() }
    }

    fn of(table: &Table, group: Option<&str>) -> Self {
        let lines = table.rows.iter().filter_map(|row| Line::of(row));
        let lines: Vec<Line> = match group {
            Some(name) => lines.filter(|line| line.group.as_deref() == Some(name)).collect(),
            None => lines.collect(),
        };
        if let Some(name) = group.filter(|_| lines.is_empty()) {
            return Self::unknown(format!(
                "there is no disk group {name}: it is not mounted, and discovery shows no disk of it"
            ));
        }
        let state = lines.iter().map(Line::state).max().unwrap_or(State::Ok);
        let mut worst: Vec<&Line> = lines.iter().filter(|line| line.state() > State::Ok).collect();
        // Of equally grave ones those that are the cause of others come first.
        let is_cause = |line: &Line| line.kind.contains("ENGINE") || line.kind.starts_with("DISK");
        worst.sort_by_key(|line| (std::cmp::Reverse(line.state()), !is_cause(line)));
        let summary = if worst.is_empty() {
            match groups_of(&lines).into_iter().flatten().count() {
                0 => "no disk group".to_owned(),
                1 => "1 disk group".to_owned(),
                count => format!("{count} disk groups"),
            }
        } else {
            let mut named: Vec<String> =
                worst.iter().take(NAMED_MAX).map(|line| line.short()).collect();
            let more = worst.len().saturating_sub(NAMED_MAX);
            if more > 0 {
                named.push(format!("and {more} more"));
            }
            named.join("; ")
        };
        Self { state, summary, lines }
    }

    fn json(&self) -> String {
        let mut all = Map::new();
        all.insert("status".into(), self.state.word().into());
        all.insert("exit_code".into(), self.state.exit_code().into());
        all.insert("summary".into(), self.summary.clone().into());
        all.insert("rows".into(), self.lines.iter().map(Line::json).collect());
        format!("{:#}\n", serde_json::Value::Object(all))
    }

    fn screen(&self) -> String {
        let without_bars = |text: &str| {
            text.lines().map(|line| clean(&line.replace('|', "/")) + "\n").collect::<String>()
        };
        let head = without_bars(&format!("PLINTH {}: {}", self.state.word(), self.summary));
        let performance: Vec<String> = self.lines.iter().filter_map(Line::performance).collect();
        let mut text = head.trim_end().to_owned();
        if !performance.is_empty() {
            text += &format!(" | {}", performance.join(" "));
        }
        text.push('\n');
        for group in groups_of(&self.lines) {
            let of_it = || self.lines.iter().filter(|line| line.group == group);
            let is_head = |line: &&Line| line.kind == "GROUP";
            let detail = of_it().find(is_head).map_or(String::new(), |line| line.detail.clone());
            let title = match &group {
                Some(name) if detail.is_empty() => name.clone(),
                Some(name) => format!("{name}: {detail}"),
                None => "This host".to_owned(),
            };
            let mut part = format!("{title}\n");
            let shown = of_it().filter(|line| !(is_head(line) && line.severity == "OK"));
            part.extend(shown.map(Line::screen));
            text += &format!("\n{}", without_bars(&part));
        }
        text
    }
}

/// The groups, by name, and then `None` if there are lines about no group.
fn groups_of(lines: &[Line]) -> Vec<Option<String>> {
    let mut groups: BTreeMap<(bool, &str), Option<String>> = BTreeMap::new();
    for line in lines {
        let name = line.group.as_deref();
        groups.insert((name.is_none(), name.unwrap_or_default()), line.group.clone());
    }
    groups.into_values().collect()
}

impl Run for Status {
    fn run(&self, context: &mut Context) -> Result<()> {
        let (tell, told) = mpsc::channel();
        let paths = context.paths.clone();
        let asking = thread::Builder::new()
            .name("status".into())
            .spawn(move || drop(tell.send(query(&paths, ROWS))));
        let group = self.group.as_deref().map(|group| bare(group).to_uppercase());
        let answer = match asking {
            Err(error) => Answer::unknown(format!("the instance cannot be asked: {error}")),
            Ok(_) => match told.recv_timeout(PATIENCE) {
                Ok(Ok(table)) => Answer::of(&table, group.as_deref()),
                Ok(Err(refusal)) => {
                    let hint = refusal.hint.map_or_else(String::new, |hint| format!(". {hint}"));
                    Answer::unknown(format!("{}{hint}", refusal.message))
                }
                Err(_) => Answer::unknown(format!(
                    "the instance has not answered for {} s",
                    PATIENCE.as_secs()
                )),
            },
        };
        print(&if context.json { answer.json() } else { answer.screen() });
        context.status = answer.state.exit_code();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(
        group: Option<&str>,
        severity: &str,
        kind: &str,
        subject: &str,
        detail: &str,
    ) -> Vec<Value> {
        let text = |text: &str| Value::Text(text.to_owned());
        let remedy = if severity == "OK" { Value::Null } else { text("MEND IT") };
        vec![
            group.map_or(Value::Null, text),
            text(severity),
            text(kind),
            if subject.is_empty() { Value::Null } else { text(subject) },
            text(detail),
            remedy,
            Value::Real(43.0),
            text("PERCENT"),
        ]
    }

    fn table(rows: Vec<Vec<Value>>) -> Table {
        Table { columns: Vec::new(), rows }
    }

    #[test]
    fn the_first_line_is_fit_for_nagios() {
        let mut rows = vec![
            row(Some("DATA"), "OK", "GROUP", "", "MOUNTED"),
            row(Some("DATA"), "WARNING", "DISK OFFLINE", "DATA_0001", "a|b"),
            row(None, "NOTE", "UNUSED DISK", "/x|y", "a disk\u{7}"),
        ];
        let answer = Answer::of(&table(rows.clone()), None);
        let screen = answer.screen();
        let first = screen.lines().next().expect("a line");
        assert_eq!(first, "PLINTH WARNING: DATA: DISK OFFLINE DATA_0001 | 'DATA_used'=43%;;;0;100");
        assert!(screen.lines().skip(1).all(|line| !line.contains('|')), "{screen}");
        assert!(!screen.contains('\u{7}') && screen.contains("MEND IT"), "{screen}");
        assert_eq!(answer.state.exit_code(), 1);
        for _ in 0..3 {
            rows.push(row(Some("FRA"), "CRITICAL", "NO ENGINE", "", "none"));
        }
        let answer = Answer::of(&table(rows.clone()), None);
        assert_eq!(answer.state, State::Critical);
        assert!(answer.summary.starts_with("FRA: NO ENGINE"), "the worst comes first");
        assert!(answer.summary.ends_with("and 1 more"), "{}", answer.summary);
        let data = Answer::of(&table(rows.clone()), Some("DATA"));
        assert_eq!((data.state, data.lines.len()), (State::Warning, 2));
        assert_eq!(Answer::of(&table(rows), Some("NONE")).state, State::Unknown);
        assert_eq!(Answer::of(&table(Vec::new()), None).summary, "no disk group");
    }

    #[test]
    fn a_note_is_no_trouble() {
        let answer =
            Answer::of(&table(vec![row(None, "NOTE", "UNUSED DISK", "/x", "a disk")]), None);
        assert_eq!((answer.state, answer.summary.as_str()), (State::Ok, "no disk group"));
        let json: serde_json::Value = serde_json::from_str(&answer.json()).expect("JSON");
        assert_eq!(
            (&json["exit_code"], &json["rows"][0]["kind"]),
            (&0.into(), &"UNUSED DISK".into())
        );
    }
}
