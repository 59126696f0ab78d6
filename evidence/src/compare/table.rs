//! The comparison as text: a table for each class, below each run how it changed.

use super::{Comparison, Measure};
use crate::draw::{columns, text::visible, units};
use std::fmt::Write;

/// Of a run's name.
const LABEL_CHARACTERS_MAX: usize = 32;

/// The comparison for a terminal.
#[must_use]
pub fn text(comparison: &Comparison) -> String {
    let mut out = String::new();
    for class in &comparison.classes {
        let measures = Comparison::measures(class);
        let titles = measures.iter().map(|measure| measure.title().to_owned());
        let mut lines = vec![line(&class.title, titles)];
        for (index, (head, row)) in comparison.runs.iter().zip(&class.rows).enumerate() {
            let Some(row) = row else { continue };
            let figures = measures.iter().map(|measure| {
                row.figure(*measure).map_or_else(|| "-".to_owned(), |f| measure.shown(f))
            });
            lines.push(line(&head.label, figures));
            let is_changed = measures.iter().any(|measure| row.change(*measure).is_some());
            if index > 0 && is_changed {
                let changes = measures
                    .iter()
                    .map(|measure| row.change(*measure).map_or_else(String::new, units::change));
                lines.push(line("", changes));
            }
        }
        out.push_str(&aligned(&lines));
        out.push('\n');
    }
    if !comparison.costs.is_empty() {
        out.push_str(&aligned(&costs(comparison)));
        out.push('\n');
    }
    for warning in &comparison.warnings {
        let _ = writeln!(out, "beware: {}", visible(warning));
    }
    for head in &comparison.runs {
        for note in &head.run.notes {
            let _ = writeln!(out, "{}: {}", visible(&head.label), visible(note));
        }
    }
    // Only what the tables use.
    let signs: [&[char]; 3] = [&['≤', '~', '>'], &[], &[]];
    let words = ["", Measure::Deviation.title(), Measure::Raggedness.title()];
    for (line, (signs, word)) in LEGEND.iter().zip(signs.iter().zip(words)) {
        let is_used = if word.is_empty() { out.contains(*signs) } else { out.contains(word) };
        if is_used {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

/// How to read the figures.
pub(super) const LEGEND: [&str; 3] = [
    "Changes are against the first run. ≤ is the upper border of a bucket, > the lower one of an \
     open bucket, ~ an estimate from the middles of buckets.",
    "Deviation is the standard deviation of the latencies.",
    "Raggedness is the standard deviation by the mean of the rate of the intervals, plus that of \
     their mean latencies: 0 % is a straight line.",
];

/// A row's head and cells.
pub(super) fn costs(comparison: &Comparison) -> Vec<Vec<String>> {
    let percentile = percentile_name(comparison.percentile);
    let mut lines = vec![vec![
        "run".to_owned(),
        "price".to_owned(),
        "requests/s".to_owned(),
        "per request/s".to_owned(),
        format!("at {percentile}"),
        "of".to_owned(),
    ]];
    for cost in &comparison.costs {
        let label = comparison.runs.get(cost.run).map_or("", |head| head.label.as_str());
        lines.push(vec![
            label.to_owned(),
            units::amount(cost.price),
            units::amount(cost.rate),
            units::amount(cost.per_request),
            Measure::P99.shown(cost.latency),
            if cost.of.is_empty() { "all requests".to_owned() } else { cost.of.join(", ") },
        ]);
    }
    lines
}

/// `p99`, `p99.9`.
pub(super) fn percentile_name(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn line(head: &str, cells: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(head.to_owned()).chain(cells).collect()
}

/// The first column stands left, the others right.
fn aligned(lines: &[Vec<String>]) -> String {
    let lines: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let cells = line.iter().enumerate();
            cells
                .map(|(column, cell)| match column {
                    0 => visible(&crate::draw::text::shortened(cell, LABEL_CHARACTERS_MAX)),
                    _ => visible(cell),
                })
                .collect()
        })
        .collect();
    columns::aligned(&lines, columns::First::Left)
}
