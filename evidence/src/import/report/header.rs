//! Whose report it is, and of how long.

use super::super::{
    numbers::Notation,
    tables::{Document, Table},
};

/// See above.
#[derive(Debug, Clone, Default)]
pub(in crate::import) struct Header {
    pub name: Option<String>,
    pub instance: Option<String>,
    pub release: Option<String>,
    /// Seconds, from minutes with two decimals.
    pub elapsed: Option<f64>,
    pub block_size: Option<f64>,
    /// Begin and end.
    pub snapshots: Option<(u64, u64)>,
    /// Of how many instances it has the sum.
    pub is_global: bool,
    pub is_container: bool,
    pub is_pluggable: bool,
}

/// How many reports a file holds.
pub(super) fn count(document: &Document) -> usize {
    let is_head = |table: &&Table| {
        let has = |name: &str| table.column(name).is_some();
        (has("DB Name") && has("DB Id")) || (has("Database") && has("DB Id"))
    };
    let heads = document.tables.iter().filter(is_head).count();
    let titles = document.headings.iter().filter(|title| {
        let title = title.to_lowercase();
        title.contains("workload repository") || title.starts_with("statspack report")
    });
    // Before a report, a session of SQL*Plus lists databases too.
    let reports = match titles.count() {
        0 => heads,
        titles => titles,
    };
    reports + document.texts
}

impl Header {
    pub fn read(document: &Document, notation: Notation) -> Self {
        let first = |names: &[&str]| {
            let tables = document.tables.iter().take(12);
            tables.filter_map(|table| cell(table, names)).find(|cell| !cell.is_empty())
        };
        let title = document.headings.first().map(|title| title.to_lowercase()).unwrap_or_default();
        let mut header = Self {
            name: first(&["DB Name", "Database"]),
            instance: first(&["Instance"]),
            release: first(&["Release"]),
            is_global: title.contains("(rac"),
            is_pluggable: title.contains("pdb report"),
            is_container: first(&["CDB"]).is_some_and(|cell| cell.eq_ignore_ascii_case("yes")),
            ..Self::default()
        };
        header.elapsed = document.label("Elapsed:").and_then(|text| minutes(text, notation));
        header.block_size = document
            .label("Std Block Size:")
            .and_then(|text| notation.count(text).or_else(|| notation.data(text)))
            .map(|number| number.value)
            .or_else(|| parameter(document, notation));
        header.snapshots = snapshots(document);
        header.read_global(document, notation);
        header.block_size = header
            .block_size
            .filter(|size| (2048.0..=65_536.0).contains(size) && size % 512.0 == 0.0);
        header
    }

    /// The summary of a report of several instances.
    fn read_global(&mut self, document: &Document, notation: Notation) {
        let is_summary = |table: &&Table| {
            table.column_with("block size").is_some() && table.column_with("elapsed").is_some()
        };
        let Some(table) = document.tables.iter().find(is_summary) else { return };
        let Some(row) = table.rows.first() else { return };
        let number = |part: &str| {
            let cell = row.get(table.column_with(part)?)?;
            notation.count(cell).or_else(|| notation.data(cell)).map(|number| number.value)
        };
        self.is_global = true;
        self.block_size = self.block_size.or_else(|| number("block size"));
        self.elapsed = self.elapsed.or_else(|| number("elapsed").map(|minutes| minutes * 60.0));
        let name = table.column("Name").or_else(|| table.column_with("name"));
        self.name = self.name.take().or_else(|| name.and_then(|at| row.get(at).cloned()));
    }
}

/// The cell below one of these heads, in the first row.
fn cell(table: &Table, names: &[&str]) -> Option<String> {
    let column = names.iter().find_map(|name| table.column(name))?;
    // Statistics and waits have such columns too, but not in their heads alone.
    let is_header = table.rows.len() <= 4 && table.column("Total").is_none();
    if !is_header {
        return None;
    }
    table.rows.first()?.get(column).cloned()
}

/// `60.22 (mins)`, in seconds.
fn minutes(text: &str, notation: Notation) -> Option<f64> {
    let number = text.split_whitespace().next()?;
    let minutes = notation.count(number)?.value;
    (minutes > 0.0).then_some(minutes * 60.0)
}

fn parameter(document: &Document, notation: Notation) -> Option<f64> {
    let tables = document.tables.iter().filter(|table| table.column("Parameter Name").is_some());
    let mut rows = tables.flat_map(|table| &table.rows);
    let row = rows.find(|row| row.first().is_some_and(|name| name == "db_block_size"))?;
    Some(notation.count(row.get(1)?)?.value)
}

fn snapshots(document: &Document) -> Option<(u64, u64)> {
    let number = |label: &str| {
        document.label(label)?.split_whitespace().next()?.replace(',', "").parse::<u64>().ok()
    };
    let (begin, end) = (number("Begin Snap:")?, number("End Snap:")?);
    (begin < end).then_some((begin, end))
}
