//! The facts of a group, as its engine shows them in the views.
//!
//! Only views that the engine fills from memory are read: a group with many files answers as fast
//! as a small one. Files that lack mirrors are looked up when there are some, and only a few.

use super::{
    super::Result,
    backing::{self, Backing},
    history::{Latency, Sample},
};
use crate::engine::client::Client;
use plinth_engine::admin::Value;
use std::collections::BTreeMap;

/// The views that are read, with the columns.
const ASKED: [(&str, &[&str]); 7] = [
    ("v$asm_diskgroup", &["type", "state"]),
    (
        "v$asm_disk",
        &[
            "name",
            "failgroup",
            "failgroup_type",
            "mode_status",
            "state",
            "path",
            "os_mb",
            "what_if",
        ],
    ),
    (
        "v$asm_failgroup",
        &[
            "name",
            "failgroup_type",
            "disks",
            "online_disks",
            "may_go",
            "lost_extents",
            "reason",
            "mounts_without",
        ],
    ),
    (
        "v$asm_protection",
        &[
            "voters",
            "voters_wanted",
            "voters_reached",
            "writes_wait",
            "short_extents",
            "mirrors_left",
            "used_percent",
            "space_level",
            "catalog_left",
            "scrub_time",
            "scrub_age",
            "scrub_due",
            "forced",
        ],
    ),
    (
        "v$asm_space",
        &[
            "free_bytes",
            "writable_bytes",
            "reserve_bytes",
            "safe_bytes",
            "bound_by",
            "restorable",
            "note",
        ],
    ),
    ("v$asm_operation", &["pass", "state", "sofar", "est_work", "est_minutes", "error_code"]),
    ("v$asm_error", &["name", "kind", "count", "last_time", "last_text"]),
];

/// Columns of files that lack mirrors, the most exposed first.
const SHORT_FILES: &[&str] = &["name", "files"];
const OF_SHORT_FILES: &str = "SELECT name, count(*) OVER () FROM v$asm_missing_mirror ORDER BY mirrors_left, file_number LIMIT 3";

/// A row, whose values are found by the names of their columns.
#[derive(Debug, Clone)]
pub(super) struct Row {
    columns: &'static [&'static str],
    values: Vec<Value>,
}

impl Row {
    fn new(columns: &'static [&'static str], values: Vec<Value>) -> Self {
        Self { columns, values }
    }

    /// A row of one of the views that are read.
    #[cfg(test)]
    pub(super) fn of(view: &str, values: Vec<Value>) -> Self {
        let (_, columns) = ASKED.iter().find(|(asked, _)| *asked == view).expect("it is read");
        Self::new(columns, values)
    }

    fn value(&self, column: &str) -> &Value {
        let at = self.columns.iter().position(|name| *name == column);
        let at = at.unwrap_or_else(|| panic!("{column} is none of {:?}", self.columns));
        self.values.get(at).unwrap_or(&Value::Null)
    }

    /// A text; empty if there is none.
    pub(super) fn text(&self, column: &str) -> &str {
        self.maybe_text(column).unwrap_or_default()
    }

    pub(super) fn maybe_text(&self, column: &str) -> Option<&str> {
        match self.value(column) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn maybe_number(&self, column: &str) -> Option<u64> {
        match self.value(column) {
            Value::Integer(number) => Some(u64::try_from(*number).unwrap_or(0)),
            Value::Real(number) => Some(*number as u64),
            _ => None,
        }
    }

    /// A number; 0 if there is none.
    pub(super) fn number(&self, column: &str) -> u64 {
        self.maybe_number(column).unwrap_or(0)
    }

    /// Whether a column says `Y`.
    pub(super) fn is(&self, column: &str) -> bool {
        self.text(column) == "Y"
    }
}

/// Everything that the rules of a group need.
#[derive(Debug, Default)]
pub(super) struct GroupFacts {
    rows: BTreeMap<&'static str, Vec<Row>>,
    /// The names of some files that lack mirrors, and how many there are.
    pub short_files: (Vec<String>, u64),
    /// Of a group in EXTERNAL redundancy: what its disks are, by name.
    pub backings: Vec<(String, Backing)>,
    pub sample: Sample,
    pub latency: Option<Latency>,
}

impl GroupFacts {
    /// Asks an engine.
    ///
    /// # Errors
    /// If it refuses, ends, or does not answer for long.
    pub(super) fn ask(engine: &Client) -> Result<Self> {
        let mut rows = BTreeMap::new();
        for (view, columns) in ASKED {
            let sql = format!("SELECT {} FROM {view}", columns.join(", "));
            let found = engine.rows(&sql)?;
            rows.insert(view, found.into_iter().map(|values| Row::new(columns, values)).collect());
        }
        let sample = Sample::ask(engine)?;
        let mut facts = Self { rows, sample, ..Self::default() };
        if facts.redundancy() == "EXTERN" {
            facts.backings = facts.look_below();
        }
        if facts.protection().is_some_and(|row| row.number("short_extents") > 0) {
            // It reads the extents of the catalog. Without it the extents are counted all the same.
            for values in engine.rows(OF_SHORT_FILES).unwrap_or_default() {
                let row = Row::new(SHORT_FILES, values);
                let name = row.maybe_text("name").unwrap_or("a file without a name");
                facts.short_files.0.push(name.to_owned());
                facts.short_files.1 = row.number("files");
            }
        }
        Ok(facts)
    }

    /// The backing of each disk. One that hangs is not looked at: its path may hang, too.
    fn look_below(&self) -> Vec<(String, Backing)> {
        let disks = self.rows("v$asm_disk").iter();
        let answers = |disk: &&Row| disk.text("state") != "HUNG" && !disk.text("path").is_empty();
        disks
            .filter(answers)
            .map(|disk| (disk.text("name").to_owned(), backing::of(disk.text("path"))))
            .collect()
    }

    /// Nothing but counters.
    pub(super) fn of_counters(sample: Sample) -> Self {
        Self { sample, ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn of(rows: Vec<(&'static str, Vec<Row>)>) -> Self {
        Self { rows: rows.into_iter().collect(), ..Self::default() }
    }

    pub(super) fn rows(&self, view: &str) -> &[Row] {
        self.rows.get(view).map_or(&[], Vec::as_slice)
    }

    pub(super) fn group(&self) -> Option<&Row> {
        self.rows("v$asm_diskgroup").first()
    }

    pub(super) fn protection(&self) -> Option<&Row> {
        self.rows("v$asm_protection").first()
    }

    /// `EXTERN`, `NORMAL`, `HIGH`.
    pub(super) fn redundancy(&self) -> &str {
        self.group().map_or("", |row| row.text("type"))
    }

    /// Whether some disk is not ONLINE.
    pub(super) fn is_degraded(&self) -> bool {
        self.rows("v$asm_disk").iter().any(|disk| disk.text("mode_status") != "ONLINE")
    }

    /// For a finding that a scrub mends: what to add to its detail, and the statement, if no scrub
    /// is running.
    pub(super) fn scrub_of(&self, group: &str) -> (&'static str, Option<String>) {
        let is_scrub = |row: &Row| {
            row.text("pass") == "SCRUBBING" && matches!(row.text("state"), "RUN" | "WAIT")
        };
        if self.rows("v$asm_operation").iter().any(is_scrub) {
            return (". A scrub is running", None);
        }
        ("", Some(format!("ALTER DISKGROUP {group} SCRUB REPAIR")))
    }

    pub(super) fn failure_group(&self, name: &str) -> Option<&Row> {
        self.rows("v$asm_failgroup").iter().find(|row| row.text("name") == name)
    }
}
