//! The classes of runs by name: those of one name (the jobs of a load generator) are added up.

use crate::{
    buckets::Buckets,
    run::{ClassRun, Point, Run},
};
use std::collections::BTreeMap;

/// The name of all classes together.
pub const ALL: &str = "all";

/// Classes on one page. More are left out: those are jobs, and no classes.
const CLASSES_MAX: usize = 12;

/// One class, or several added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gathered {
    pub requests: u64,
    pub bytes: u64,
    pub errors: u64,
    /// Empty unless the latencies of all parts are known.
    pub latency: Buckets,
    /// None unless the means of all parts are known. Nanoseconds.
    pub mean: Option<f64>,
    /// Whether the mean is that of the values, not of their buckets.
    pub is_mean_exact: bool,
    /// Empty unless all parts have one, of intervals of one length.
    pub line: Vec<Point>,
}

/// Name, title, and the class of each run.
pub type ByRun = (String, String, Vec<Option<Gathered>>);

/// The classes of all runs, in the order in which databases have them, then by name.
#[must_use]
pub fn classes(runs: &[Run]) -> Vec<ByRun> {
    let mut names: BTreeMap<(usize, &str), &str> = BTreeMap::new();
    for class in runs.iter().flat_map(|run| &run.classes) {
        names.insert((place(class), name(class)), title(class));
    }
    let of_run = |run: &Run, wanted: &str| {
        let parts: Vec<&ClassRun> =
            run.classes.iter().filter(|class| name(class) == wanted).collect();
        if parts.is_empty() { None } else { Some(sum(&parts)) }
    };
    names
        .into_iter()
        .take(CLASSES_MAX)
        .map(|((_, name), title)| {
            let title = crate::draw::text::shortened(title, 60);
            (name.to_owned(), title, runs.iter().map(|run| of_run(run, name)).collect())
        })
        .collect()
}

/// All requests of each run.
#[must_use]
pub fn all(runs: &[Run]) -> ByRun {
    let of_run = |run: &Run| {
        let parts: Vec<&ClassRun> = run.classes.iter().collect();
        if parts.is_empty() { None } else { Some(sum(&parts)) }
    };
    (ALL.to_owned(), "all requests".to_owned(), runs.iter().map(of_run).collect())
}

fn name(class: &ClassRun) -> &str {
    class.class.map_or(class.name.as_str(), |known| known.name())
}

fn title(class: &ClassRun) -> &str {
    class.class.map_or(class.name.as_str(), |known| known.title())
}

fn place(class: &ClassRun) -> usize {
    class.class.map_or(usize::MAX, |known| known as usize)
}

fn sum(parts: &[&ClassRun]) -> Gathered {
    let mut sum = Gathered::default();
    for part in parts {
        sum.requests = sum.requests.saturating_add(part.requests);
        sum.bytes = sum.bytes.saturating_add(part.bytes);
        sum.errors = sum.errors.saturating_add(part.errors);
    }
    // A part without requests has no latency to know.
    let issued: Vec<&&ClassRun> = parts.iter().filter(|part| part.requests > 0).collect();
    if issued.iter().all(|part| !part.latency.is_empty()) {
        sum.latency = issued.iter().fold(Buckets::default(), |all, part| all.plus(&part.latency));
    }
    let means: Option<Vec<(f64, f64)>> =
        issued.iter().map(|part| Some((part.mean()?, part.requests as f64))).collect();
    sum.mean = means.filter(|means| !means.is_empty()).map(|means| {
        let requests: f64 = means.iter().map(|mean| mean.1).sum();
        means.iter().map(|mean| mean.0 * mean.1).sum::<f64>() / requests
    });
    sum.is_mean_exact = issued.iter().all(|part| part.latency.is_exact() || part.mean.is_some());
    sum.line = line(&issued);
    sum
}

fn line(parts: &[&&ClassRun]) -> Vec<Point> {
    let usual = |part: &ClassRun| part.line.get(part.line.len() / 2).map(|point| point.length);
    let Some(length) = parts.first().and_then(|part| usual(part)) else { return Vec::new() };
    let is_alike =
        |part: &&ClassRun| usual(part).is_some_and(|other| (other - length).abs() <= length * 0.01);
    if !parts.iter().all(|part| is_alike(part)) {
        return Vec::new();
    }
    // By the middle, in intervals: beginnings may be a little off.
    let mut by_place: BTreeMap<i64, Point> = BTreeMap::new();
    for point in parts.iter().flat_map(|part| &part.line).filter(|point| is_sound(point)) {
        let place = ((point.at + point.length / 2.0) / length).floor() as i64;
        by_place.entry(place).and_modify(|sum| *sum = plus(sum, point)).or_insert(*point);
    }
    by_place.into_values().collect()
}

fn is_sound(point: &Point) -> bool {
    [point.at, point.length, point.mean, point.deviation]
        .iter()
        .all(|value| value.is_finite() && (0.0..1e18).contains(value))
        && point.length > 0.0
}

fn plus(one: &Point, other: &Point) -> Point {
    let (a, b) = (one.requests as f64, other.requests as f64);
    let all = (a + b).max(1.0);
    let mean = (one.mean * a + other.mean * b) / all;
    let square = |point: &Point| point.deviation * point.deviation + point.mean * point.mean;
    let squares = (square(one) * a + square(other) * b) / all;
    Point {
        at: one.at.min(other.at),
        length: one.length.max(other.length),
        requests: one.requests.saturating_add(other.requests),
        bytes: one.bytes.saturating_add(other.bytes),
        mean,
        deviation: (squares - mean * mean).max(0.0).sqrt(),
        // At most the larger one.
        p99: one.p99.max(other.p99),
        max: one.max.max(other.max),
    }
}
