//! Lines over two axes: a histogram on logarithmic axes, and its sum as a share.
//!
//! Each line is named at its right, with the marker that it has in the chart. Names are pushed
//! apart until they do not cover each other, and a thin line leads to where the curve ends.

use super::{
    chart::{Anchor, Chart, SERIES_MAX, WIDTH, markers, polyline, unit},
    scale::Scale,
    text::shortened,
    units,
};

/// The area between the axes, in units.
const LEFT: f64 = 56.0;
const RIGHT: f64 = WIDTH - 166.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 268.0;
const HEIGHT: f64 = 312.0;
/// Between two names: the height of the larger text.
const LABEL_GAP: f64 = 18.0;
/// Of a name in the right margin.
const LABEL_CHARACTERS_MAX: usize = 14;

/// A histogram: the first bucket holds what took up to `1 us`, each next one up to twice as long.
#[derive(Debug, Clone, PartialEq)]
pub struct Powers<'a> {
    pub label: &'a str,
    /// Its colour, dashes and marker.
    pub index: usize,
    pub requests: Vec<u64>,
}

/// A cumulative distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares<'a> {
    pub label: &'a str,
    pub index: usize,
    /// Nanoseconds, share of the requests (0 to 1) that took at most as long. Ascending.
    pub points: Vec<(f64, f64)>,
}

/// The upper border of a bucket of powers of two, in nanoseconds.
#[must_use]
pub fn border(bucket: usize) -> f64 {
    1e3 * 2_f64.powi(bucket.min(60) as i32)
}

/// Latencies in powers of two against requests, both axes logarithmic.
#[must_use]
pub fn histogram(name: &str, title: &str, about: &str, series: &[Powers<'_>]) -> Chart {
    let mut chart = Chart::new(name, title, about, HEIGHT);
    let held = |wanted: &Powers<'_>| -> Vec<usize> {
        (0..wanted.requests.len()).filter(|bucket| wanted.requests[*bucket] > 0).collect()
    };
    let filled: Vec<usize> = series.iter().flat_map(held).collect();
    let first = filled.iter().min().map_or(0, |first| first.saturating_sub(1));
    let last = filled.iter().max().map_or(6, |last| (*last).max(first + 6));
    let largest = series.iter().flat_map(|one| &one.requests).max().map_or(1, |most| *most);

    let x = Scale::log(border(first) / 2.0, border(last), LEFT, RIGHT);
    // The ground line is below 1, or buckets that hold one request would lie on it.
    let y = Scale::log(0.7, (largest as f64).max(10.0) * 1.3, BOTTOM, TOP);
    frame(&mut chart, &x, &y, units::short, "requests");
    for bucket in first..=last {
        let at = x.place(border(bucket));
        chart.line("axis", (at, BOTTOM), (at, BOTTOM + 3.0));
    }
    let mut labels = Vec::new();
    for one in series {
        // In the middle of its bucket, as a logarithmic axis has it.
        let place = |bucket: usize| {
            let count = one.requests[bucket] as f64;
            (x.place(border(bucket) / 2_f64.sqrt()), y.place(count))
        };
        let held = held(one);
        chart.push(&format!("<g class=\"s{}\">", one.index % SERIES_MAX));
        for stretch in held.chunk_by(|one, next| *next == one + 1) {
            let points: Vec<(f64, f64)> = stretch.iter().map(|bucket| place(*bucket)).collect();
            chart.push(&format!("<path class=\"l\" d=\"{}\"/>", polyline(&points)));
        }
        let all: Vec<(f64, f64)> = held.iter().map(|bucket| place(*bucket)).collect();
        chart.push(&markers(one.index, &all));
        chart.push("</g>");
        if let Some(bucket) = held.last() {
            labels.push(Label { end: Some(place(*bucket)), label: one.label, index: one.index });
        }
    }
    name_lines(&mut chart, labels);
    chart
}

/// Latency, logarithmic, against the share of requests that took at most as long.
#[must_use]
pub fn cumulative(name: &str, title: &str, about: &str, series: &[Shares<'_>]) -> Chart {
    let mut chart = Chart::new(name, title, about, HEIGHT);
    let points = || series.iter().flat_map(|one| &one.points).filter(|point| point.0 > 0.0);
    let least = points().filter(|point| point.1 > 0.0).map(|p| p.0).fold(f64::INFINITY, f64::min);
    let most = points().map(|point| point.0).fold(0.0, f64::max);
    let x = Scale::log((least / 2.0).max(100.0), most, LEFT, RIGHT);
    let y = Scale::exact(0.0, 1.0, BOTTOM, TOP);
    frame(&mut chart, &x, &y, |share| format!("{:.0} %", share * 100.0), "of the requests");
    let mut labels = Vec::new();
    for one in series {
        let mut placed = vec![(LEFT, BOTTOM)];
        for (at, share) in &one.points {
            let here = (x.place(*at), y.place(*share));
            let before = placed[placed.len() - 1];
            if (here.0 - before.0).abs() >= 4.0 || (here.1 - before.1).abs() >= 8.0 {
                // Up to the first bucket there is nothing.
                if placed.len() == 1 {
                    placed.push((x.place(at / 1.3).max(LEFT), BOTTOM));
                }
                placed.push(here);
            }
        }
        let end = one.points.last().map(|point| (x.place(point.0), y.place(point.1)));
        placed.extend(end);
        // To the end of the axis: of an open end it is not known where it rises to 100 %.
        placed.push((RIGHT, end.map_or(BOTTOM, |end| end.1)));
        chart.push(&format!("<g class=\"s{}\">", one.index % SERIES_MAX));
        chart.push(&format!("<path class=\"l\" d=\"{}\"/>", polyline(&placed)));
        let signs = [0.25, 0.5, 0.75].map(|share| y.place(share));
        let signs = signs.iter().filter_map(|y| Some((crossing(&placed, *y)?, *y)));
        chart.push(&markers(one.index, &signs.collect::<Vec<_>>()));
        chart.push("</g>");
        let half = one.points.iter().find(|point| point.1 >= 0.5).map_or(0.0, |point| point.0);
        labels.push((half, Label { end: None, label: one.label, index: one.index }));
    }
    labels.sort_by(|one, next| one.0.total_cmp(&next.0));
    name_lines(&mut chart, labels.into_iter().map(|label| label.1).collect());
    chart
}

/// Where a line that rises (towards smaller y) comes to a height.
fn crossing(points: &[(f64, f64)], y: f64) -> Option<f64> {
    points.windows(2).find(|pair| pair[0].1 > y && pair[1].1 <= y).map(|pair| {
        let share = (pair[0].1 - y) / (pair[0].1 - pair[1].1);
        pair[0].0 + share * (pair[1].0 - pair[0].0)
    })
}

/// Axes, their ticks and names.
fn frame(chart: &mut Chart, x: &Scale, y: &Scale, named: impl Fn(f64) -> String, y_name: &str) {
    for value in y.ticks() {
        let at = y.place(value);
        chart.line("grid", (LEFT, at), (RIGHT, at));
        chart.text("", (LEFT - 6.0, at + 4.5), Anchor::End, &named(value));
    }
    chart.text("n", (0.0, 13.0), Anchor::Start, y_name);
    chart.line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    for value in x.ticks() {
        let at = x.place(value);
        chart.line("axis", (at, BOTTOM), (at, BOTTOM + 6.0));
        chart.text("", (at, BOTTOM + 21.0), Anchor::Middle, &units::tick(value));
    }
    chart.text("n", (RIGHT, BOTTOM + 39.0), Anchor::End, "latency");
}

struct Label<'a> {
    /// Where its line ends, if the name is to lie beside that.
    end: Option<(f64, f64)>,
    label: &'a str,
    index: usize,
}

/// Writes the names of the lines into the right margin.
fn name_lines(chart: &mut Chart, mut labels: Vec<Label<'_>>) {
    let wanted = |label: &Label<'_>| label.end.map_or(TOP, |end| end.1);
    labels.sort_by(|one, next| wanted(one).total_cmp(&wanted(next)));
    let mut places: Vec<f64> = Vec::new();
    for label in &labels {
        let least = places.last().map_or(TOP, |before| before + LABEL_GAP);
        places.push(wanted(label).max(least));
    }
    let mut most = BOTTOM;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - LABEL_GAP;
    }
    let at = RIGHT + 22.0;
    for (label, y) in labels.iter().zip(places) {
        if let Some(end) = label.end {
            let from = (end.0 + 6.0).min(RIGHT);
            let (x1, y1, x2, y2) = (unit(from), unit(end.1), unit(at - 8.0), unit(y));
            chart.push(&format!(r#"<path class="grid" d="M{x1} {y1}L{x2} {y2}"/>"#));
        }
        chart.push(&format!("<g class=\"s{}\">", label.index % SERIES_MAX));
        chart.push(&markers(label.index, &[(at, y)]));
        let name = shortened(label.label, LABEL_CHARACTERS_MAX);
        chart.text("p", (at + 8.0, y + 4.5), Anchor::Start, &name);
        chart.push("</g>");
    }
}
