//! The wait events of I/O: their mean, and their histogram.
//!
//! A histogram is spread over tables. To 11.2 there is one in milliseconds, and one for each of two
//! or three ranges above; from 12.2 on one up to 512 us and one for each range below and above.
//! Percentages are of all waits everywhere. The first column of a range holds all that is below
//! that range, and its last all that is above: both are dropped where another table says more.
//!
//! Invariants:
//!
//! 1. A mean is the one that is printed most exactly: the average with its unit, the average in
//!    whole milliseconds, or the total time by the number of waits.
//! 2. An event of which a cell cannot be read has no histogram.

use super::super::{
    numbers::{Notation, Number},
    tables::{Document, Table},
};
use crate::buckets::Buckets;
use std::collections::BTreeMap;

/// Those that a model or a run takes, in the order in which they are told.
pub(super) const EVENTS: [&str; 10] = [
    "db file sequential read",
    "db file scattered read",
    "db file parallel read",
    "direct path read",
    "direct path read temp",
    "db file parallel write",
    "direct path write",
    "direct path write temp",
    "log file parallel write",
    "log file sync",
];

/// See above.
#[derive(Debug, Clone, Default)]
pub(in crate::import) struct Event {
    pub name: &'static str,
    foreground: Option<Mean>,
    background: Option<Mean>,
    all: Option<Mean>,
    /// Empty if there is none.
    pub buckets: Buckets,
}

#[derive(Debug, Clone, Copy)]
struct Mean {
    /// Nanoseconds.
    value: f64,
    error: f64,
    waits: f64,
}

impl Event {
    /// Nanoseconds: of the processes that users wait for, if they do this.
    pub fn mean(&self) -> Option<f64> {
        Some(self.best()?.value)
    }

    /// How often it was waited for.
    pub fn waits(&self) -> f64 {
        self.best().map_or(self.buckets.requests() as f64, |mean| mean.waits)
    }

    fn best(&self) -> Option<Mean> {
        let is_most = |mean: &Mean| {
            self.background.is_none_or(|background| background.waits <= mean.waits * 20.0)
        };
        self.foreground.filter(is_most).or(self.background).or(self.all)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Who {
    Foreground,
    Background,
    All,
}

/// Whether a table has wait events with their times.
pub(super) fn is_events(table: &Table) -> bool {
    event_column(table).is_some() && waits_column(table).is_some() && !is_histogram(table)
}

fn event_column(table: &Table) -> Option<usize> {
    let names = ["Event", "Wait Event", "Event Name"];
    names.iter().find_map(|name| table.column(name)).filter(|at| *at <= 2)
}

fn waits_column(table: &Table) -> Option<usize> {
    (0..table.columns()).find(|at| table.column_name(*at).split(' ').next_back() == Some("waits"))
}

fn is_histogram(table: &Table) -> bool {
    let bounds = table.head().iter().filter(|name| name.starts_with(['<', '>']));
    event_column(table).is_some() && bounds.count() >= 4
}

pub(super) fn read(document: &Document, notation: Notation) -> Vec<Event> {
    let mut events: Vec<Event> =
        EVENTS.iter().map(|name| Event { name, ..Event::default() }).collect();
    for table in document.tables.iter().filter(|table| is_events(table)) {
        read_means(table, notation, &mut events);
    }
    let tables: Vec<&Table> = document.tables.iter().filter(|table| is_histogram(table)).collect();
    let is_micro = tables.iter().any(|table| table.head().iter().any(|name| name.ends_with("us")));
    for event in &mut events {
        event.buckets = histogram(&tables, event.name, is_micro, notation).unwrap_or_default();
    }
    events.retain(|event| event.best().is_some() || !event.buckets.is_empty());
    events
}

fn read_means(table: &Table, notation: Notation, events: &mut [Event]) {
    let (Some(name), Some(waits)) = (event_column(table), waits_column(table)) else { return };
    let about = format!("{} {}", table.about(), table.before.to_lowercase());
    let who = match () {
        () if about.contains("foreground") => Who::Foreground,
        () if about.contains("background") => Who::Background,
        () => Who::All,
    };
    let column =
        |is: &dyn Fn(&str) -> bool| (0..table.columns()).find(|at| is(&table.column_name(*at)));
    let average = column(&|name| name.contains("avg") && !name.contains("sess"));
    let plain = average.and_then(|at| table.column_name(at).contains("ms)").then_some(1e6));
    let time = column(&|name| {
        name.contains("time (s") || name.contains("time(s") || name.contains("total(s")
    });
    let instance = table.column("I#");
    for row in &table.rows {
        // Of several instances there is a sum.
        if instance.is_some_and(|at| row.get(at).is_none_or(|cell| !cell.starts_with('*'))) {
            continue;
        }
        let Some(cell) = row.get(name) else { continue };
        let Some(event) = events.iter_mut().find(|event| is_name(cell, event.name)) else {
            continue;
        };
        let cell = |at: Option<usize>| row.get(at?).map(String::as_str);
        let Some(waits) = cell(Some(waits)).and_then(|cell| notation.requests(cell)) else {
            continue;
        };
        let average = cell(average).and_then(|cell| notation.time(cell, plain));
        let time = cell(time).and_then(|cell| notation.time(cell, Some(1e9)));
        let Some(mean) = mean(waits, average, time) else { continue };
        let place = match who {
            Who::Foreground => &mut event.foreground,
            Who::Background => &mut event.background,
            Who::All => &mut event.all,
        };
        if place.is_none_or(|before| mean.error < before.error) {
            *place = Some(mean);
        }
    }
}

/// Names are cut to 26 letters at least.
fn is_name(cell: &str, name: &str) -> bool {
    cell.eq_ignore_ascii_case(name)
}

fn mean(waits: Number, average: Option<Number>, time: Option<Number>) -> Option<Mean> {
    if waits.value <= 0.0 {
        return None;
    }
    let of_time = time.map(|time| Mean {
        value: time.value / waits.value,
        error: time.error() + waits.error(),
        waits: waits.value,
    });
    let of_average = average.map(|average| Mean {
        value: average.value,
        error: average.error(),
        waits: waits.value,
    });
    // Of less than half a digit nothing is known.
    of_time
        .into_iter()
        .chain(of_average)
        .filter(|mean| mean.error <= 0.5)
        .min_by(|a, b| a.error.total_cmp(&b.error))
}

/// The upper border of a column in nanoseconds, exclusive or inclusive; None if it has none.
fn border(name: &str, is_micro: bool) -> Option<u64> {
    let text = name.strip_prefix('<')?.trim_start_matches('=').trim();
    let ms: u64 = if is_micro { 1_024_000 } else { 1_000_000 };
    let units =
        [("us", 1000), ("ms", ms), ("s", 1024 * ms), ("m", 65_536 * ms), ("h", 60 * 65_536 * ms)];
    let (digits, unit) =
        units.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)))?;
    match digits.split_once('/') {
        Some((over, under)) => {
            let (over, under) =
                (over.trim().parse::<u64>().ok()?, under.trim().parse::<u64>().ok()?);
            unit.checked_mul(over)?.checked_div(under)
        }
        None => unit.checked_mul(digits.trim().parse().ok()?),
    }
}

fn histogram(tables: &[&Table], name: &str, is_micro: bool, notation: Notation) -> Option<Buckets> {
    let mut shares: BTreeMap<u64, f64> = BTreeMap::new();
    let mut waits = None;
    let (mut last, mut open) = (0, 0.0);
    for table in tables {
        let Some(row) = event_row(table, name) else { continue };
        let columns = (0..table.columns())
            .filter(|at| table.head().get(*at).is_some_and(|name| name.starts_with(['<', '>'])));
        let share = |at: usize| match row.get(at).map(String::as_str) {
            None | Some("") => Some(0.0),
            Some(cell) => notation.count(cell).map(|number| number.value),
        };
        let head = |at: usize| table.head().get(at).map_or("", String::as_str);
        let borders: Vec<(Option<u64>, f64)> = columns
            .map(|at| Some((border(head(at), is_micro), share(at)?)))
            .collect::<Option<_>>()?;
        if shares.is_empty() {
            let at = event_column(table)? + 1;
            waits = row.get(at).and_then(|cell| notation.requests(cell));
        }
        let has_below = |border: u64, shares: &BTreeMap<u64, f64>| {
            shares.keys().next().is_some_and(|first| *first <= border)
        };
        for (place, (border, share)) in borders.iter().enumerate() {
            let Some(border) = *border else { continue };
            // All that is below the range of this table.
            if place == 0 && has_below(border, &shares) {
                continue;
            }
            shares.insert(border, *share);
        }
        let end = borders.iter().filter_map(|border| border.0).max()?;
        if end >= last {
            last = end;
            open = borders.iter().filter(|border| border.0.is_none()).map(|border| border.1).sum();
        }
    }
    let waits = waits?.value;
    let sum: f64 = shares.values().sum::<f64>() + open;
    if sum <= 0.0 || waits <= 0.0 {
        return None;
    }
    let count = |share: f64| (waits * share / sum).round() as u64;
    let mut pairs: Vec<(u64, u64)> =
        shares.iter().map(|(border, share)| (*border, count(*share))).collect();
    let beyond = count(open);
    pairs.push((last.saturating_mul(2), beyond));
    let mut buckets = Buckets::new(pairs);
    buckets.is_open = beyond > 0;
    Some(buckets)
}

fn event_row<'a>(table: &'a Table, name: &str) -> Option<&'a Vec<String>> {
    let column = event_column(table)?;
    table.rows.iter().find(|row| row.get(column).is_some_and(|cell| is_name(cell, name)))
}

#[cfg(test)]
mod tests {
    use super::border;

    #[test]
    fn borders_are_powers_of_two_of_the_unit_that_the_release_counts_in() {
        assert_eq!(border("<1ms", false), Some(1_000_000));
        assert_eq!(border("<=1s", false), Some(1_024_000_000));
        assert_eq!(border("<1/8s", false), Some(128_000_000));
        assert_eq!(border("<1ms", true), Some(1_024_000));
        assert_eq!(border("< 1m", true), Some(65_536 * 1_024_000));
        assert_eq!(border(">=2s", true), None);
        assert_eq!(border("<1/0s", true), None);
    }
}
