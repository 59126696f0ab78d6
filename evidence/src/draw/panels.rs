//! Time lines, one below the other over one axis of time and with one measure of height: ten of
//! them over each other could not be read, and beside each other a ragged one shows at once.
//!
//! A line is drawn through the least and the largest value of each slot, so that no peak is lost
//! however long the run was. The band is the mean, give or take the standard deviation: of each
//! slot where its values are known, else of the whole run.

use super::{
    chart::{Anchor, Chart, SERIES_MAX, WIDTH, polyline, unit},
    scale::Scale,
    text::shortened,
    units,
};

const LEFT: f64 = 58.0;
const RIGHT: f64 = WIDTH - 8.0;
/// Of a panel's name and figures, above it.
const HEAD: f64 = 24.0;
/// Below a panel.
const GAP: f64 = 10.0;

/// Intervals of a time line, drawn as one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// Seconds from the run's begin.
    pub from: f64,
    pub to: f64,
    pub mean: f64,
    pub deviation: f64,
    pub least: f64,
    pub largest: f64,
    /// Whether the least value came before the largest.
    pub rises: bool,
}

/// Of how much the band is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Band {
    EachSlot,
    Run { mean: f64, deviation: f64 },
}

/// The time line of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel<'a> {
    pub label: &'a str,
    /// Its colour.
    pub index: usize,
    /// Figures: `mean 438 us, deviation 12.0 us`.
    pub note: String,
    pub slots: Vec<Slot>,
    pub band: Band,
}

/// Draws panels. A logarithmic height is for values whose peaks are far above the rest.
#[must_use]
pub fn panels(
    name: &str,
    title: &str,
    about: &str,
    (named, is_log): (fn(f64) -> String, bool),
    panels: &[Panel<'_>],
) -> Chart {
    let height = if panels.len() <= 3 { 78.0 } else { 52.0 };
    let bottom = (HEAD + height + GAP) * panels.len() as f64;
    let mut chart = Chart::new(name, title, about, bottom + 24.0);
    let slots = || panels.iter().flat_map(|panel| &panel.slots);
    let end = slots().map(|slot| slot.to).fold(0.0, f64::max);
    let most = slots().map(|slot| slot.largest).fold(0.0, f64::max);
    let least = slots().map(|slot| slot.least).filter(|value| *value > 0.0);
    let least = least.fold(f64::INFINITY, f64::min);
    let x = Scale::exact(0.0, end, LEFT, RIGHT);
    for value in x.time_ticks() {
        let at = x.place(value);
        chart.line("grid", (at, HEAD), (at, bottom));
        let anchor = if at > RIGHT - 20.0 { Anchor::End } else { Anchor::Middle };
        chart.text("", (at, bottom + 14.0), anchor, &units::duration(value));
    }
    for (index, panel) in panels.iter().enumerate() {
        let foot = (HEAD + height + GAP) * (index as f64 + 1.0) - GAP;
        let (low, high) = (foot, foot - height);
        let y = if is_log {
            Scale::log(least / 1.3, most, low, high)
        } else {
            Scale::linear(most, low, high)
        };
        let ticks = y.ticks();
        // Of a small panel only the lowest and the highest.
        let every = if ticks.len() > 4 || height < 60.0 { (ticks.len() - 1).max(1) } else { 1 };
        for value in ticks.into_iter().step_by(every) {
            let at = y.place(value);
            chart.line("grid", (LEFT, at), (RIGHT, at));
            chart.text("", (LEFT - 6.0, at + 4.5), Anchor::End, &named(value));
        }
        chart.line("axis", (LEFT, foot), (RIGHT, foot));
        chart.push(&format!("<g class=\"s{}\">", panel.index % SERIES_MAX));
        let name = shortened(panel.label, 24);
        chart.text("i", (LEFT, high - 7.0), Anchor::Start, &name);
        draw(&mut chart, panel, &x, &y);
        chart.push("</g>");
        chart.text("", (RIGHT, high - 7.0), Anchor::End, &panel.note);
    }
    chart
}

fn draw(chart: &mut Chart, panel: &Panel<'_>, x: &Scale, y: &Scale) {
    if let Band::Run { mean, deviation } = panel.band {
        let (upper, lower) = (y.place(mean + deviation), y.place(mean - deviation));
        let until = panel.slots.last().map_or(LEFT, |slot| x.place(slot.to));
        // At least as thick as a thin line: no deviation is also seen.
        let thick = (lower - upper).max(1.0);
        chart.rectangle("band", (LEFT, upper), (until - LEFT, thick));
    }
    let is_next = |one: &Slot, next: &Slot| next.from - one.to <= (one.to - one.from) * 1.5;
    for stretch in panel.slots.chunk_by(is_next) {
        if panel.band == Band::EachSlot {
            let edge = |slot: &Slot, sign: f64| {
                (
                    x.place(f64::midpoint(slot.from, slot.to)),
                    y.place(slot.mean + sign * slot.deviation),
                )
            };
            let upper = stretch.iter().map(|slot| edge(slot, 1.0));
            let lower = stretch.iter().rev().map(|slot| edge(slot, -1.0));
            let points: Vec<(f64, f64)> = upper.chain(lower).collect();
            chart.push(&format!("<path class=\"band\" d=\"{}z\"/>", polyline(&points)));
        }
        let points: Vec<(f64, f64)> = stretch.iter().flat_map(|slot| ends(slot, x, y)).collect();
        chart.push(&format!("<path class=\"t\" d=\"{}\"/>", polyline(&points)));
        if let [slot] = stretch {
            let (at, to) = (x.place(slot.from), x.place(slot.to));
            let (at, width, y) = (unit(at), unit((to - at).max(1.0)), unit(y.place(slot.mean)));
            chart.push(&format!("<path class=\"t\" d=\"M{at} {y}h{width}\"/>"));
        }
    }
}

/// The points of a slot: one if it has one value.
fn ends(slot: &Slot, x: &Scale, y: &Scale) -> Vec<(f64, f64)> {
    let quarter = (slot.to - slot.from) / 4.0;
    if slot.least >= slot.largest {
        return vec![(x.place(slot.from + 2.0 * quarter), y.place(slot.mean))];
    }
    let (one, other) =
        if slot.rises { (slot.least, slot.largest) } else { (slot.largest, slot.least) };
    vec![
        (x.place(slot.from + quarter), y.place(one)),
        (x.place(slot.from + 3.0 * quarter), y.place(other)),
    ]
}
