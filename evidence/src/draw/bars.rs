//! Bars: of one value each, and stacked ones of parts.
//!
//! Above each bar stand its name and its value, so that neither long names nor short bars leave
//! room for guesses, and no axis is needed.

use super::chart::{Anchor, Chart, SERIES_MAX, WIDTH};
use super::text::shortened;

const LEFT: f64 = 0.0;
const RIGHT: f64 = WIDTH;
/// From bar to bar.
const STEP: f64 = 38.0;
const THICK: f64 = 9.0;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar<'a> {
    pub label: &'a str,
    /// Its colour.
    pub index: usize,
    pub value: f64,
    /// The value with its unit, and what is said with it: `173,142/s`, `-25.5 %`.
    pub text: String,
    pub note: String,
}

/// Bars below each other, from one zero.
#[must_use]
pub fn bars(name: &str, title: &str, about: &str, bars: &[Bar<'_>]) -> Chart {
    let mut chart = Chart::new(name, title, about, STEP * bars.len() as f64 + 6.0);
    let largest = bars.iter().map(|bar| bar.value).filter(|v| v.is_finite()).fold(0.0, f64::max);
    for (index, bar) in bars.iter().enumerate() {
        let top = STEP * index as f64;
        let share = if largest > 0.0 { bar.value / largest } else { 0.0 };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        chart.push(&format!("<g class=\"s{}\">", bar.index % SERIES_MAX));
        chart.text("i", (LEFT, top + 16.0), Anchor::Start, &shortened(bar.label, 26));
        chart.rectangle("track", (LEFT, top + 22.0), (RIGHT - LEFT, THICK));
        chart.rectangle("f", (LEFT, top + 22.0), ((RIGHT - LEFT) * share, THICK));
        chart.push("</g>");
        // A place of its own for each, so that values and changes stand in columns.
        let edge = if bars.iter().any(|bar| !bar.note.is_empty()) { RIGHT - 80.0 } else { RIGHT };
        chart.text("n", (edge, top + 16.0), Anchor::End, &bar.text);
        if !bar.note.is_empty() {
            chart.text("", (RIGHT, top + 16.0), Anchor::End, &bar.note);
        }
    }
    chart
}

/// A bar of parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack<'a> {
    pub label: &'a str,
    /// In the order of the parts' names.
    pub values: Vec<f64>,
    /// The whole, with its unit.
    pub text: String,
}

/// Stacked bars from one zero. `parts` names the parts; they are told apart by their order and
/// their number as well as by colour.
#[must_use]
pub fn stacked(
    name: &str,
    title: &str,
    about: &str,
    parts: &[&str],
    stacks: &[Stack<'_>],
) -> Chart {
    let keys = key_places(parts);
    let head = keys.last().map_or(0.0, |key| key.1 + 10.0);
    let height = head + (STEP + 16.0) * stacks.len() as f64;
    let mut chart = Chart::new(name, title, about, height);
    for (index, (part, (x, y))) in parts.iter().zip(&keys).enumerate() {
        chart.push(&format!("<g class=\"s{}\">", index % SERIES_MAX));
        chart.rectangle("f", (*x, y - 10.0), (12.0, 12.0));
        let name = format!("{} {}", index + 1, shortened(part, 32));
        chart.text("n", (x + 17.0, y + 0.5), Anchor::Start, &name);
        chart.push("</g>");
    }
    let whole =
        |stack: &Stack<'_>| stack.values.iter().filter(|v| v.is_finite() && **v > 0.0).sum::<f64>();
    let largest = stacks.iter().map(whole).fold(0.0, f64::max);
    for (row, stack) in stacks.iter().enumerate() {
        let top = head + (STEP + 16.0) * row as f64;
        chart.text("n i", (LEFT, top + 16.0), Anchor::Start, &shortened(stack.label, 30));
        chart.text("n", (RIGHT, top + 16.0), Anchor::End, &stack.text);
        chart.rectangle("track", (LEFT, top + 22.0), (RIGHT - LEFT, THICK));
        let mut at = LEFT;
        for (index, value) in stack.values.iter().enumerate() {
            let share = if largest > 0.0 && value.is_finite() { value / largest } else { 0.0 };
            let wide = (RIGHT - LEFT) * share.clamp(0.0, 1.0);
            if wide <= 0.0 {
                continue;
            }
            chart.push(&format!("<g class=\"s{}\">", index % SERIES_MAX));
            // A gap of one unit parts neighbours of like colour.
            chart.rectangle("f", (at, top + 22.0), ((wide - 1.0).max(0.5), THICK));
            chart.push("</g>");
            if wide >= 12.0 {
                let middle = at + wide / 2.0;
                chart.text("", (middle, top + 46.0), Anchor::Middle, &(index + 1).to_string());
            }
            at += wide;
        }
    }
    chart
}

/// Where the keys of the parts stand: as many in a line as fit.
fn key_places(parts: &[&str]) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (LEFT, 16.0);
    let mut places = Vec::new();
    for part in parts {
        let wide = 52.0 + 9.0 * part.chars().count().min(32) as f64;
        if x > LEFT && x + wide > RIGHT {
            x = LEFT;
            y += 22.0;
        }
        places.push((x, y));
        x += wide;
    }
    places
}
