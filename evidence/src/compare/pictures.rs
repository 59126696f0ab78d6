//! The charts of a comparison, each with its table.

use super::{
    Class, Comparison, Measure, Row, gather, measure::mean_and_deviation, table, timeline,
};
use crate::{
    buckets::Buckets,
    draw::{
        Cell, Chart, Table,
        bars::{Bar, bars},
        panels::{Band, Panel, Slot, panels},
        plot::{Powers, Shares, border, cumulative, histogram},
        units,
    },
    run::Point,
};

/// A chart and what it shows as figures.
pub struct Picture {
    /// The place of its class.
    pub class: usize,
    pub chart: Chart,
    pub table: Table,
}

/// Slots of all time lines together: some 24 bytes each.
const SLOTS_OF_PAGE_MAX: usize = 4_000;

/// Of ten runs of all classes, of which the rest of the page takes more.
const SLOTS_OF_LARGE_PAGE_MAX: usize = 1_600;

/// Time lines of a large page.
const LINES_OF_LARGE_PAGE: usize = 50;

/// Slots of one time line: 400 points.
const SLOTS_MAX: usize = 200;

/// Rows of a time line's table, and of those of a large page.
const STRETCHES: usize = 12;
const STRETCHES_OF_LARGE_PAGE: usize = 6;

/// Buckets of powers of two, from 1 us to 2.4 hours.
const POWERS: usize = 34;

#[must_use]
pub fn all(comparison: &Comparison) -> Vec<Picture> {
    let has_line = |row: &&Row| row.gathered.line.len() > 1;
    let panels: usize = comparison
        .classes
        .iter()
        .filter(|class| class.name != gather::ALL)
        .map(|class| class.rows.iter().flatten().filter(has_line).count() * 2)
        .sum();
    let is_large = panels > LINES_OF_LARGE_PAGE;
    let slots = if is_large { SLOTS_OF_LARGE_PAGE_MAX } else { SLOTS_OF_PAGE_MAX };
    let slots_max = (slots / panels.max(1)).clamp(12, SLOTS_MAX);
    let mut pictures = Vec::new();
    for (place, class) in comparison.classes.iter().enumerate() {
        let of = Of { comparison, class, slots_max, is_large };
        let mut charts = Vec::new();
        if class.name != gather::ALL {
            charts.extend([of.histogram(), of.cumulative(), of.rates(), of.latencies()]);
        }
        // On a large page the table says it.
        if !is_large || class.name == gather::ALL {
            charts.push(of.bars(Measure::Rate, "Requests per second"));
            charts.push(match class.name.as_str() {
                gather::ALL => of.bars(Measure::Bytes, "MiB per second"),
                _ => of.bars(Measure::Mean, "Mean latency"),
            });
        }
        if place == 0 {
            charts.push(costs(comparison));
        }
        let charts = charts.into_iter().flatten();
        pictures.extend(charts.map(|(chart, table)| Picture { class: place, chart, table }));
    }
    let mut names: Vec<String> = Vec::new();
    for picture in &mut pictures {
        if names.contains(&picture.chart.name) {
            picture.chart.name = format!("{}-{}", picture.chart.name, names.len());
        }
        names.push(picture.chart.name.clone());
    }
    pictures
}

/// One class, being drawn.
struct Of<'a> {
    comparison: &'a Comparison,
    class: &'a Class,
    slots_max: usize,
    /// Whether tables have to be short.
    is_large: bool,
}

/// None if the runs do not have what it shows.
type Drawn = Option<(Chart, Table)>;

impl<'a> Of<'a> {
    /// Place, name, short name and figures of the runs that have the class.
    fn runs(&self) -> impl Iterator<Item = (usize, &'a str, &'a str, &'a Row)> + use<'a> {
        let heads = self.comparison.runs.iter().zip(&self.class.rows).enumerate();
        heads.filter_map(|(index, (head, row))| {
            Some((index, head.label.as_str(), head.short.as_str(), row.as_ref()?))
        })
    }

    fn name(&self, kind: &str) -> String {
        format!("{} {kind}", self.class.name)
    }

    fn title(&self, kind: &str) -> String {
        format!("{kind}: {}", self.class.title)
    }

    fn bars(&self, measure: Measure, kind: &str) -> Drawn {
        let mut table = Table::new(["run", measure.title(), "change"]);
        let mut drawn = Vec::new();
        for (index, label, _, row) in self.runs() {
            let Some(figure) = row.figure(measure) else { continue };
            let text = measure.shown(figure);
            let note = match row.change(measure) {
                Some(change) if index > 0 => units::change(change),
                _ => String::new(),
            };
            table.row([label, &text, &note]);
            drawn.push(Bar { label, index, value: figure.value, text, note });
        }
        let about = said(drawn.iter().map(|bar| (bar.label, format!("{} {}", bar.text, bar.note))));
        let chart = bars(&self.name(measure.words()), &self.title(kind), &about, &drawn);
        (!drawn.is_empty()).then_some((chart, table))
    }

    /// The runs whose latencies are known.
    fn known(&self) -> Vec<(usize, &'a str, &'a str, &'a Buckets)> {
        self.runs()
            .map(|(index, label, short, row)| (index, label, short, &row.gathered.latency))
            .filter(|known| !known.3.is_empty())
            .collect()
    }

    fn histogram(&self) -> Drawn {
        let known = self.known();
        let series: Vec<Powers<'_>> = known
            .iter()
            .map(|known| Powers { label: known.2, index: known.0, requests: powers(known.3) })
            .collect();
        let mut table = Table::new(heads("up to", known.iter().map(|known| known.1)));
        let is_held = |bucket: &usize| series.iter().any(|one| one.requests[*bucket] > 0);
        let first = (0..POWERS).find(is_held)?;
        let last = (0..POWERS).rfind(is_held)?;
        for bucket in first..=last {
            let cells = known.iter().zip(&series).map(|(known, one)| {
                let share = known.3.share_up_to(border(bucket) as u64) * 100.0;
                Cell::from(units::amount(one.requests[bucket] as f64))
                    .note(format!("{share:.1} % so far"))
            });
            table.row(std::iter::once(Cell::from(units::tick(border(bucket)))).chain(cells));
        }
        let about = said(known.iter().map(|known| {
            let share = known.3.share_up_to(1_024_000) * 100.0;
            (known.1, format!("{share:.1} % of the requests took at most 1,024 us"))
        }));
        let title = self.title("Requests by latency");
        Some((histogram(&self.name("histogram"), &title, &about, &series), table))
    }

    fn cumulative(&self) -> Drawn {
        const SHARES: [f64; 8] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999];
        let known = self.known();
        let series: Vec<Shares<'_>> = known
            .iter()
            .map(|known| Shares { label: known.2, index: known.0, points: shares(known.3) })
            .collect();
        let mut table = Table::new(heads("percentile", known.iter().map(|known| known.1)));
        for share in SHARES {
            let cells = known.iter().map(|known| {
                let found = super::measure::percentile(known.3, share);
                found.map_or_else(|| "-".to_owned(), |figure| Measure::P50.shown(figure))
            });
            table.row(std::iter::once(table::percentile_name(share)).chain(cells));
        }
        let about = said(known.iter().map(|known| {
            let half = super::measure::percentile(known.3, 0.5);
            let half = half.map_or_else(String::new, |figure| Measure::P50.shown(figure));
            (known.1, format!("half of the requests took {half} or less"))
        }));
        let title = self.title("Share of requests up to a latency");
        let chart = cumulative(&self.name("cumulative"), &title, &about, &series);
        (!known.is_empty()).then_some((chart, table))
    }

    fn rates(&self) -> Drawn {
        let named = |value: f64| format!("{}/s", units::amount(value));
        let drawn: Vec<Panel<'_>> = self
            .lines()
            .map(|(index, label, line)| {
                let values: Vec<f64> =
                    line.iter().map(|point| point.requests as f64 / point.length).collect();
                let (mean, deviation) = mean_and_deviation(&values).unwrap_or_default();
                Panel {
                    label,
                    index,
                    note: format!("{} ± {}", named(mean), units::amount(deviation)),
                    slots: timeline::rates(line, self.slots_max),
                    band: Band::Run { mean, deviation },
                }
            })
            .collect();
        let table = self.stretches(named, timeline::rates);
        let about = said(drawn.iter().map(|panel| (panel.label, panel.note.clone())));
        let title = self.title("Requests per second over time");
        let name = self.name("rate over time");
        (!drawn.is_empty())
            .then(|| (panels(&name, &title, &about, (units::short, false), &drawn), table))
    }

    fn latencies(&self) -> Drawn {
        let drawn: Vec<Panel<'_>> = self
            .lines()
            .map(|(index, label, line)| {
                let whole = timeline::latencies(line, 1);
                let note = whole.first().map_or_else(String::new, |slot| {
                    format!("{} ± {}", units::latency(slot.mean), units::latency(slot.deviation))
                });
                let slots = timeline::latencies(line, self.slots_max);
                Panel { label, index, note, slots, band: Band::EachSlot }
            })
            .filter(|panel| !panel.slots.is_empty())
            .collect();
        let table = self.stretches(units::latency, timeline::latencies);
        let about = said(drawn.iter().map(|panel| (panel.label, panel.note.clone())));
        let name = self.name("latency over time");
        // With peaks far above the rest, the rest would be a line on the ground.
        let slots = || drawn.iter().flat_map(|panel| &panel.slots);
        let most = slots().map(|slot| slot.largest.max(slot.mean + slot.deviation));
        let means = slots().map(|slot| slot.mean).sum::<f64>() / slots().count().max(1) as f64;
        let is_log = most.fold(0.0, f64::max) > 10.0 * means;
        let kind = if is_log { "Latency over time, logarithmic" } else { "Latency over time" };
        let title = self.title(kind);
        (!drawn.is_empty())
            .then(|| (panels(&name, &title, &about, (units::tick, is_log), &drawn), table))
    }

    /// The runs that have a time line.
    fn lines(&self) -> impl Iterator<Item = (usize, &'a str, &'a [Point])> + use<'a> {
        self.runs()
            .map(|(index, label, _, row)| (index, label, row.gathered.line.as_slice()))
            .filter(|line| line.2.len() > 1)
    }

    /// The table of a time line: a row for each stretch, a column for each run.
    fn stretches(
        &self,
        named: impl Fn(f64) -> String,
        slots: impl Fn(&[Point], usize) -> Vec<Slot>,
    ) -> Table {
        let rows = if self.is_large { STRETCHES_OF_LARGE_PAGE } else { STRETCHES };
        let lines: Vec<(&str, Vec<Slot>)> =
            self.lines().map(|(_, label, line)| (label, slots(line, rows))).collect();
        let mut table = Table::new(heads("from", lines.iter().map(|line| line.0)));
        for row in 0..rows {
            let of_row = || lines.iter().map(|line| line.1.get(row));
            let Some(from) = of_row().flatten().map(|slot| slot.from).reduce(f64::min) else {
                break;
            };
            let cells = of_row().map(|slot| match slot {
                Some(slot) if self.is_large => Cell::from(named(slot.mean)),
                Some(slot) if self.is_large => Cell::from(named(slot.mean)),
                Some(slot) => Cell::from(named(slot.mean)).note(format!(
                    "{} to {}",
                    named(slot.least),
                    named(slot.largest)
                )),
                None => Cell::from("-"),
            });
            table.row(std::iter::once(Cell::from(units::duration(from))).chain(cells));
        }
        table
    }
}

fn costs(comparison: &Comparison) -> Drawn {
    let mut lines = table::costs(comparison).into_iter();
    let mut table = Table::new(lines.next()?);
    for line in lines {
        table.row(line);
    }
    let first = comparison.costs.iter().find(|cost| cost.run == 0);
    let drawn: Vec<Bar<'_>> = comparison
        .costs
        .iter()
        .filter_map(|cost| {
            let note = first.filter(|_| cost.run > 0).map_or_else(String::new, |first| {
                units::change((cost.per_request / first.per_request - 1.0) * 100.0)
            });
            Some(Bar {
                label: &comparison.runs.get(cost.run)?.short,
                index: cost.run,
                value: cost.per_request,
                text: format!(
                    "{} at {}",
                    units::amount(cost.per_request),
                    Measure::P99.shown(cost.latency)
                ),
                note,
            })
        })
        .collect();
    let percentile = table::percentile_name(comparison.percentile);
    let title = format!("Price per request a second, and {percentile} of the latency");
    let about = said(drawn.iter().map(|bar| (bar.label, format!("{} {}", bar.text, bar.note))));
    (!drawn.is_empty()).then(|| (bars("price", &title, &about, &drawn), table))
}

fn heads<'a>(first: &str, rest: impl Iterator<Item = &'a str>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(rest.map(str::to_owned)).collect()
}

/// One sentence for people who do not see the chart. They have the table for the rest.
fn said<'a>(parts: impl Iterator<Item = (&'a str, String)>) -> String {
    const SAID_MAX: usize = 4;
    let mut parts: Vec<String> =
        parts.map(|(label, text)| format!("{label}: {}", text.trim_end())).collect();
    let more = parts.len().saturating_sub(SAID_MAX);
    if more > 0 {
        parts.truncate(SAID_MAX);
        parts.push(format!("{more} more in the table"));
    }
    format!("{}.", parts.join("; "))
}

/// The requests by powers of two. A bucket counts where its upper border lies; a border of 1 ms
/// is taken for 1,024 us, as reports of databases call one the other.
pub(super) fn powers(latency: &Buckets) -> Vec<u64> {
    let mut requests = vec![0_u64; POWERS];
    let tolerance = if latency.is_exact() { 1.0 } else { 1.03 };
    let counts = latency.counts();
    let mut before = None;
    for (place, (to, count)) in counts.iter().enumerate() {
        let fits = |bucket: &usize| *to as f64 <= border(*bucket) * tolerance;
        let bucket = if latency.is_open && place + 1 == counts.len() {
            before.map_or(0, |before| before + 1).min(POWERS - 1)
        } else {
            (0..POWERS).find(fits).unwrap_or(POWERS - 1)
        };
        requests[bucket] = requests[bucket].saturating_add(*count);
        before = Some(bucket);
    }
    requests
}

/// Borders and the share up to them. The open end has no border.
fn shares(latency: &Buckets) -> Vec<(f64, f64)> {
    let all = latency.requests() as f64;
    let counts = latency.counts();
    let counts = &counts[..counts.len() - usize::from(latency.is_open && !counts.is_empty())];
    let mut seen = 0.0;
    counts
        .iter()
        .map(|(to, count)| {
            seen += *count as f64;
            (*to as f64, seen / all)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_millisecond_of_a_report_is_a_power_of_two() {
        let mut buckets = Buckets::new([(1_000_000, 10), (2_000_000, 5), (u64::MAX, 1)]);
        buckets.is_open = true;
        let powers = powers(&buckets);
        assert_eq!(&powers[9..14], [0, 10, 5, 1, 0]);
    }
}
