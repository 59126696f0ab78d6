//! Runs beside each other: the first is what the others are compared with.
//!
//!   1. The classes of each run are gathered by name, those of one name added up: [`gather`].
//!   2. Of each class and run the [`Measure`]s are taken, and their change against the first run.
//!   3. The same figures become a text table, JSON, and a page with charts.
//!
//! Invariants:
//!
//! 1. Text, JSON and page show the figures of one [`Comparison`]: none computes its own.
//! 2. A figure that a run does not have is absent, never 0; one that is a bound says so.

mod gather;
mod json;
mod measure;
mod page;
mod pictures;
mod table;
mod timeline;

pub use measure::{Figure, Is, Measure};
pub use page::page;
pub use table::text;

use crate::{draw::Chart, run::Run};
use gather::Gathered;

/// Runs on one page.
pub const RUNS_MAX: usize = 10;

/// Prices, and the percentile at which latency is looked at with them.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    /// One for all runs, or one of each.
    pub amounts: Vec<f64>,
    /// Above 0, below 1.
    pub percentile: f64,
}

/// The price of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    pub run: usize,
    pub price: f64,
    /// Of all classes.
    pub rate: f64,
    /// Price per request a second.
    pub per_request: f64,
    pub latency: Figure,
    /// The classes that the latency is of; empty if it is of all requests.
    pub of: Vec<String>,
}

/// One class of all runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// `random-read`, `all`.
    pub name: String,
    pub title: String,
    /// One of each run; None if the run does not have the class.
    pub rows: Vec<Option<Row>>,
}

/// One class of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub errors: u64,
    /// As [`Measure::ALL`] has them.
    pub figures: [Option<Figure>; Measure::ALL.len()],
    /// Against the first run, in per cent.
    pub changes: [Option<f64>; Measure::ALL.len()],
    gathered: Gathered,
}

impl Row {
    #[must_use]
    pub fn figure(&self, measure: Measure) -> Option<Figure> {
        self.figures[measure as usize]
    }

    #[must_use]
    pub fn change(&self, measure: Measure) -> Option<f64> {
        self.changes[measure as usize]
    }
}

/// See above.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub runs: Vec<Head>,
    /// All requests first, if the runs have several classes.
    pub classes: Vec<Class>,
    pub percentile: f64,
    pub costs: Vec<Cost>,
    /// Of what a reader should beware.
    pub warnings: Vec<String>,
}

/// A run without its classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// No two are alike.
    pub label: String,
    /// At most 14 characters, for charts; no two are alike.
    pub short: String,
    pub run: Run,
}

impl Comparison {
    #[must_use]
    pub fn new(runs: &[Run], price: Option<&Price>) -> Self {
        let runs = &runs[..runs.len().min(RUNS_MAX)];
        let mut by_class = gather::classes(runs);
        if by_class.len() > 1 {
            by_class.insert(0, gather::all(runs));
        }
        let classes: Vec<Class> = by_class
            .into_iter()
            .map(|(name, title, of_runs)| Class { name, title, rows: rows(runs, of_runs) })
            .collect();
        let heads = heads(runs);
        let costs = price.map_or_else(Vec::new, |price| costs(runs, &classes, price));
        let mut warnings = warnings(&heads, &classes);
        if price.is_some() {
            for (index, head) in heads.iter().enumerate() {
                if !costs.iter().any(|cost| cost.run == index) {
                    warnings.push(format!(
                        "{}: without a price per request, as it has no rate or no histogram of \
                         latencies",
                        head.label
                    ));
                }
            }
        }
        let percentile = price.map_or(0.99, |price| price.percentile);
        Self { runs: heads, classes, percentile, costs, warnings }
    }

    /// The measures that any run has for a class.
    fn measures(class: &Class) -> Vec<Measure> {
        let is_known = |measure: &Measure| {
            class.rows.iter().flatten().any(|row| row.figure(*measure).is_some())
        };
        Measure::ALL.into_iter().filter(is_known).collect()
    }

    /// All charts, each with a name of its own: for files.
    #[must_use]
    pub fn charts(&self) -> Vec<Chart> {
        pictures::all(self).into_iter().map(|picture| picture.chart).collect()
    }

    /// The figures as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        json::text(self)
    }

    /// In one sentence for each run but the first: by how much it differs.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let first = self.runs.first().map_or("", |head| head.label.as_str());
        let mut findings = Vec::new();
        for (index, head) in self.runs.iter().enumerate().skip(1) {
            let mut said = Vec::new();
            for (place, class) in self.classes.iter().enumerate() {
                let Some(row) = class.rows.get(index).and_then(Option::as_ref) else { continue };
                let mut say = |measure: Measure| {
                    if let Some(change) = row.change(measure) {
                        let (name, change) = (measure.words(), crate::draw::units::change(change));
                        said.push(format!("{name} of {} {change}", class.title));
                    }
                };
                if place == 0 {
                    say(Measure::Rate);
                    say(Measure::Bytes);
                }
                say(Measure::Mean);
            }
            if !said.is_empty() {
                findings.push(format!("{} against {first}: {}.", head.label, said.join(", ")));
            }
        }
        findings
    }
}

fn rows(runs: &[Run], gathered: Vec<Option<Gathered>>) -> Vec<Option<Row>> {
    let mut rows: Vec<Option<Row>> = Vec::new();
    for (run, gathered) in runs.iter().zip(gathered) {
        rows.push(gathered.map(|gathered| {
            let figures = Measure::ALL.map(|measure| measure.of(&gathered, run.seconds));
            let first = rows.first().and_then(Option::as_ref);
            let changes = Measure::ALL.map(|measure| {
                let before = first?.figure(measure)?;
                figures[measure as usize]?.change_against(before)
            });
            Row { errors: gathered.errors, figures, changes, gathered }
        }));
    }
    rows
}

/// Labels that differ: a name that came before gets a number.
fn heads(runs: &[Run]) -> Vec<Head> {
    let mut heads: Vec<Head> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let wanted = match run.label.trim() {
            "" => format!("run {}", index + 1),
            label => crate::draw::text::shortened(label, 40),
        };
        let mut label = wanted.clone();
        let mut number = 2;
        while heads.iter().any(|head| head.label == label) {
            label = format!("{wanted} ({number})");
            number += 1;
        }
        let mut short = crate::draw::text::shortened(&label, 14);
        if heads.iter().any(|head| head.short == short) {
            let number = index + 1;
            short = format!("{number} {}", crate::draw::text::shortened(&label, 11));
        }
        let run = Run { classes: Vec::new(), ..run.clone() };
        heads.push(Head { label, short, run });
    }
    heads
}

fn costs(runs: &[Run], classes: &[Class], price: &Price) -> Vec<Cost> {
    let mut costs = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let of_run = |class: &Class| -> Option<(String, Figure)> {
            let row = class.rows.get(index)?.as_ref()?;
            let latency = measure::percentile(&row.gathered.latency, price.percentile)?;
            Some((class.title.clone(), latency))
        };
        // Of all requests if all are known, else of the class that has the most of those known.
        let whole = classes.first().and_then(of_run).map(|found| (Vec::new(), found.1));
        let found = whole.or_else(|| {
            let requests = |class: &&Class| {
                class.rows.get(index).and_then(Option::as_ref).map(|row| row.gathered.requests)
            };
            let known = classes.iter().filter(|class| of_run(class).is_some());
            let (title, latency) = of_run(known.max_by_key(requests)?)?;
            Some((vec![title], latency))
        });
        let amount = price.amounts.get(index).or(price.amounts.first());
        let (Some((of, latency)), Some(price)) = (found, amount) else { continue };
        let rate = run.rate();
        if rate > 0.0 {
            let per_request = price / rate;
            costs.push(Cost { run: index, price: *price, rate, per_request, latency, of });
        }
    }
    costs
}

fn warnings(heads: &[Head], classes: &[Class]) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(first) = heads.first() {
        for head in &heads[1..] {
            if head.run.issued != first.run.issued {
                warnings.push(format!(
                    "{} was issued {}, {} {}: their latencies do not measure the same",
                    first.label,
                    json::issued(first.run.issued),
                    head.label,
                    json::issued(head.run.issued)
                ));
            }
            let (one, other) = (first.run.seconds, head.run.seconds);
            if one > 0.0 && other > 0.0 && (one / other > 2.0 || other / one > 2.0) {
                let told = crate::draw::units::duration;
                warnings.push(format!(
                    "{} took {}, {} {}: rare requests show in the longer one only",
                    first.label,
                    told(one),
                    head.label,
                    told(other)
                ));
            }
        }
    }
    for class in classes.iter().filter(|class| class.name != gather::ALL) {
        for (head, row) in heads.iter().zip(&class.rows) {
            match row {
                None => warnings.push(format!("{} has no {}", head.label, class.title)),
                Some(row) if row.errors > 0 => warnings.push(format!(
                    "{}: {} requests of {} failed",
                    head.label, row.errors, class.title
                )),
                Some(_) => {}
            }
        }
    }
    warnings
}
