//! The statistics: of each its total, and how many a second.
//!
//! Invariants:
//!
//! 1. How long the report is for is the total of a statistic by its rate, of those whose rate is
//!    printed with most digits. The header's minutes have two decimals.
//! 2. A total and a rate that do not fit that time are no figures: one of them is damaged.
//! 3. A name that was cut is known by its beginning, if the cut kept 28 letters.

use super::super::{
    numbers::{Notation, Number},
    tables::{Document, Table},
};
use std::collections::HashMap;

/// Statistics with the best of the rates, whose median is the time.
const BEST: usize = 9;

/// See above.
#[derive(Debug, Clone, Default)]
pub(in crate::import) struct Statistics {
    values: HashMap<String, Value>,
    /// Seconds.
    pub elapsed: Option<f64>,
    /// Rows that are damaged.
    pub damaged: Vec<String>,
    /// Columns that a table lacks.
    pub columns_missing: Vec<&'static str>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Value {
    total: Option<Number>,
    rate: Option<Number>,
    is_damaged: bool,
}

/// Whether a table has statistics with their totals.
pub(super) fn is_statistics(table: &Table) -> bool {
    name_column(table).is_some()
        && (table.column("Total").is_some()
            || table.column("per Second").is_some()
            || !instances(table).is_empty())
}

fn name_column(table: &Table) -> Option<usize> {
    table.column("Statistic").or_else(|| table.column("Statistic Name")).filter(|at| *at < 2)
}

/// Columns of one instance each: `1`, `Inst 1`, `I#1`.
fn instances(table: &Table) -> Vec<usize> {
    let is_instance = |name: &String| {
        let name = name.to_lowercase();
        let digits = ["instance", "inst", "i#"].iter().find_map(|word| name.strip_prefix(word));
        let digits = digits.unwrap_or(&name).trim();
        !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let head = table.head();
    (0..head.len()).filter(|at| head.get(*at).is_some_and(is_instance)).collect()
}

/// The column that says of which instance a row is.
fn instance_column(table: &Table) -> Option<usize> {
    let names = ["I#", "Inst", "Inst#", "Inst Num", "Instance", "Inst Id"];
    names.iter().find_map(|name| table.column(name))
}

/// Whether it stands for all instances.
fn is_all(cell: &str) -> bool {
    let cell = cell.to_lowercase();
    ["*", "sum", "total", "all"].iter().any(|mark| cell.starts_with(mark))
}

impl Statistics {
    pub fn read(document: &Document, notation: Notation, header: Option<f64>) -> Self {
        let mut statistics = Self::default();
        for table in document.tables.iter().filter(|table| is_statistics(table)) {
            // "per Hour", and "Begin Value", are other tables.
            let has_rate = (0..table.columns()).any(|column| {
                let name = table.column_name(column);
                name.contains("per second") || name.contains("per trans")
            });
            if !has_rate && table.columns() > 2 && instances(table).is_empty() {
                continue;
            }
            statistics.read_table(table, notation);
        }
        statistics.find_elapsed(header);
        statistics.check();
        statistics
    }

    fn read_table(&mut self, table: &Table, notation: Notation) {
        let Some(name) = name_column(table) else { return };
        let total = table.column("Total");
        let rate = table.column("per Second").or_else(|| table.column_with("per second"));
        let columns = instances(table);
        let is_missing = [
            (total.is_none() && columns.is_empty(), "column Total of the statistics"),
            (total.is_some() && rate.is_none(), "column per Second of the statistics"),
        ];
        for (_, column) in is_missing.into_iter().filter(|missing| missing.0) {
            if !self.columns_missing.contains(&column) {
                self.columns_missing.push(column);
            }
        }
        // One row of each instance, and sometimes one of their sum.
        let instance = instance_column(table).filter(|at| *at != name);
        let is_by_row = instance.is_some();
        let is_sum = |row: &Vec<String>| {
            instance.is_some_and(|at| row.get(at).is_some_and(|cell| is_all(cell)))
        };
        let has_sum = table.rows.iter().any(is_sum);
        let mut of_table: HashMap<String, Value> = HashMap::new();
        for row in &table.rows {
            if has_sum && !is_sum(row) {
                continue;
            }
            let Some(name) = row.get(name).filter(|name| !name.is_empty()) else { continue };
            let number = |at: Option<usize>| row.get(at?).and_then(|cell| notation.parse(cell));
            let value = if total.is_some() && rate.is_some() && row.len() != table.columns() {
                // A row that has lost a cell, or got one: which is which cannot be told.
                Value { total: None, rate: None, is_damaged: true }
            } else if total.is_some() || columns.is_empty() {
                Value { total: number(total), rate: number(rate), is_damaged: false }
            } else {
                let parts = columns.iter().map(|at| number(Some(*at)));
                Value { total: parts.reduce(sum).flatten(), rate: None, is_damaged: false }
            };
            match of_table.entry(name.clone()) {
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                std::collections::hash_map::Entry::Occupied(mut entry) if is_by_row => {
                    let before = *entry.get();
                    entry.insert(Value {
                        total: sum(before.total, value.total),
                        rate: sum(before.rate, value.rate),
                        is_damaged: false,
                    });
                }
                // Names that were cut alike, such as `redo synch time overhead count (`.
                std::collections::hash_map::Entry::Occupied(_) => {}
            }
        }
        #[allow(clippy::iter_over_hash_type)] // Into another map: the order makes no difference.
        for (name, value) in of_table {
            self.values.entry(name).or_insert(value);
        }
    }

    fn find_elapsed(&mut self, header: Option<f64>) {
        let mut times: Vec<(f64, f64)> = self
            .values
            .values()
            .filter_map(|value| {
                let (total, rate) = (value.total?, value.rate?);
                (total.value > 0.0 && rate.value > 0.0)
                    .then(|| (rate.error() + total.error(), total.value / rate.value))
            })
            .filter(|(error, _)| *error < 0.01)
            .collect();
        times.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        times.truncate(BEST);
        let best = times.first().copied();
        let mut of_best: Vec<f64> = times.iter().map(|time| time.1).collect();
        of_best.sort_by(f64::total_cmp);
        let median = of_best.get(of_best.len() / 2).copied();
        let near = |time: f64, other: f64| (time / other - 1.0).abs() < 0.02;
        self.elapsed = match (best, median, header) {
            // The best, unless it is alone with its time.
            (Some((_, best)), Some(median), _) if near(best, median) => Some(best),
            (_, Some(median), Some(header)) if near(median, header) => Some(median),
            (_, _, Some(header)) => Some(header),
            (_, median, None) => median,
        };
    }

    /// Finds totals and rates that contradict each other.
    fn check(&mut self) {
        let Some(elapsed) = self.elapsed else { return };
        #[allow(clippy::iter_over_hash_type)] // Sorted below.
        for (name, value) in &mut self.values {
            let (Some(total), Some(rate)) = (value.total, value.rate) else { continue };
            let difference = (total.value / elapsed - rate.value).abs();
            // Rounded, and of instances whose snapshots are not of one moment.
            let allowed = rate.step + total.step / elapsed + rate.value.abs() * 0.02;
            if difference > allowed || total.value < 0.0 {
                value.is_damaged = true;
                self.damaged.push(name.clone());
            }
        }
        self.damaged.sort();
    }

    /// The rate of a statistic: per second.
    pub fn rate(&self, name: &str) -> Option<f64> {
        let value = self.value(name)?;
        if value.is_damaged {
            return None;
        }
        let by_total = value.total.filter(|total| total.value >= 0.0).zip(self.elapsed);
        let rate = by_total.map(|(total, elapsed)| total.value / elapsed);
        rate.or_else(|| value.rate.map(|rate| rate.value)).filter(|rate| *rate >= 0.0)
    }

    /// Of the database: bytes that it read by blocks that it read, if that is a size of blocks.
    pub fn block_size(&self) -> Option<f64> {
        let cached = self.rate("physical reads cache");
        let sum = || Some(cached? + self.rate("physical reads direct")?);
        let blocks = self.rate("physical reads").or_else(sum).filter(|blocks| *blocks > 0.0)?;
        let size = self.rate("physical read bytes")? / blocks;
        let sizes = [2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0];
        sizes.into_iter().find(|known| (size / known - 1.0).abs() < 0.01)
    }

    /// Whether its row is there and contradicts itself, or cannot be read.
    pub fn is_damaged(&self, name: &str) -> bool {
        self.value(name).is_some() && self.rate(name).is_none()
    }

    fn value(&self, name: &str) -> Option<Value> {
        if let Some(value) = self.values.get(name) {
            return Some(*value);
        }
        let shortest = 28.min(name.len());
        (shortest..name.len())
            .rev()
            .find_map(|length| self.values.get(name.get(..length)?.trim_end()))
            .copied()
    }
}

pub(super) fn sum(a: Option<Number>, b: Option<Number>) -> Option<Number> {
    let (a, b) = (a?, b?);
    Some(Number { value: a.value + b.value, step: a.step.max(b.step) })
}
