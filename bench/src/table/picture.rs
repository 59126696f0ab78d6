//! The ratios as bars: a panel for each case, a bar for each subject, and a line where the
//! reference is.
//!
//! Plain SVG with the reader's own fonts. Colours are of middling brightness and text follows what
//! the reader prefers, so it can be read on light and on dark pages.

use super::{
    figures::{Figures, Load},
    subjects::{SUBJECTS, SYSTEMS, Subject},
};
use std::fmt::{self, Write};

const COLUMNS: usize = 2;
const PANEL: f64 = 470.0; //  width, with what is left free
const LABEL: f64 = 180.0; //  of that, for names
const BAR: f64 = 210.0; //    and for the longest bar; its number stands behind it
const LINE: f64 = 17.0;
const HEAD: f64 = 28.0;

const STYLE: &str =
    "text { font: 12px system-ui, sans-serif; fill: #24292f } .case { font-weight: 600 } .number { font-size: 11px }
.ours { fill: #2f81f7 } .peer { fill: #8b949e } .one { stroke: #d1622b; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }";

struct Panel {
    title: String,
    bars: Vec<(&'static Subject, f64)>,
}

impl Panel {
    fn height(&self) -> f64 {
        HEAD + LINE * self.bars.len() as f64 + 16.0
    }
}

/// The subject's median ratio in a case.
fn bars(
    figures: &Figures,
    case: &str,
    subjects: &'static [Subject],
) -> Vec<(&'static Subject, f64)> {
    let ratio = |subject: &'static Subject| {
        let ratio = figures.ratio((case, subject.key), (case, subject.reference))?;
        Some((subject, ratio.median))
    };
    subjects.iter().filter_map(ratio).collect()
}

fn panels(figures: &Figures) -> Vec<Panel> {
    let mut panels = Vec::new();
    for case in figures.cases() {
        if let Some(load) = Load::parse(case) {
            panels.push(Panel { title: load.to_string(), bars: bars(figures, case, &SUBJECTS) });
        } else if let Some(title) = transaction(case) {
            panels.push(Panel { title: title.to_owned(), bars: bars(figures, case, &SYSTEMS) });
        }
    }
    panels.retain(|panel| !panel.bars.is_empty());
    panels
}

/// The title of a case of pgbench.
pub fn transaction(case: &str) -> Option<&'static str> {
    match case {
        "tpcb" => Some("pgbench TPC-B"),
        "select" => Some("pgbench select-only"),
        _ => None,
    }
}

pub fn draw(figures: &Figures) -> Result<String, fmt::Error> {
    let panels = panels(figures);
    let height: f64 =
        panels.chunks(COLUMNS).map(|row| row.iter().map(Panel::height).fold(0.0, f64::max)).sum();
    let width = PANEL * COLUMNS as f64;
    let mut svg = String::new();
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {}" width="{width}" role="img">"#,
        height + 24.0
    )?;
    writeln!(
        svg,
        "<title>Plinth's data path beside its peers: rates as multiples of the reference's</title>"
    )?;
    writeln!(svg, "<style>{STYLE}</style>")?;
    let mut top = 0.0;
    for row in panels.chunks(COLUMNS) {
        for (column, panel) in row.iter().enumerate() {
            panel_at(&mut svg, panel, PANEL * column as f64, top)?;
        }
        top += row.iter().map(Panel::height).fold(0.0, f64::max);
    }
    writeln!(
        svg,
        r#"<text class="number" x="10" y="{:.0}">Medians of the rounds' ratios; the line is 1.00, the reference. Blue is Plinth, grey are others. What the library did is beside raw devices under the same program.</text>"#,
        top + 12.0
    )?;
    writeln!(svg, "</svg>")?;
    Ok(svg)
}

fn panel_at(svg: &mut String, panel: &Panel, left: f64, top: f64) -> fmt::Result {
    let longest = panel.bars.iter().map(|(_, ratio)| *ratio).fold(1.0, f64::max);
    let long = |ratio: f64| ratio / longest * BAR;
    let zero = left + LABEL;
    writeln!(
        svg,
        r#"<text class="case" x="{:.0}" y="{:.0}">{}</text>"#,
        left + 10.0,
        top + 18.0,
        escaped(&panel.title)
    )?;
    for (at, (subject, ratio)) in panel.bars.iter().enumerate() {
        let y = top + HEAD + LINE * at as f64;
        let class = if subject.ours { "ours" } else { "peer" };
        let base = y + 12.0;
        writeln!(
            svg,
            r#"<text x="{:.0}" y="{base:.0}" text-anchor="end">{}</text>"#,
            zero - 8.0,
            escaped(subject.name)
        )?;
        writeln!(
            svg,
            r#"<rect class="{class}" x="{zero:.0}" y="{:.0}" width="{:.1}" height="12"/>"#,
            y + 2.0,
            long(*ratio)
        )?;
        let behind = zero
            + long(ratio.max(if *ratio < 1.0 && long(1.0 - ratio) < 34.0 { 1.0 } else { 0.0 }))
            + 5.0;
        writeln!(svg, r#"<text class="number" x="{behind:.1}" y="{base:.0}">{ratio:.2}</text>"#)?;
    }
    let (one, end) = (zero + long(1.0), top + HEAD + LINE * panel.bars.len() as f64);
    writeln!(
        svg,
        r#"<line class="one" x1="{one:.1}" y1="{:.0}" x2="{one:.1}" y2="{end:.0}"/>"#,
        top + HEAD
    )?;
    Ok(())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subject_has_a_bar_and_each_panel_one_line() {
        let lines = "randread:8192:1 raw 1 100 - -\nrandread:8192:1 normal-nbd 1 50 - -\nrandread:8192:1 nbdkit 1 200 - -\n\
                     tpcb ext4 1 10 - -\ntpcb plinth 1 9 - -\nsyscalls:randread:8192:32 normal 1 2 - -";
        let figures = Figures::parse(&lines.replace(' ', "\t")).expect("lines");
        let svg = draw(&figures).expect("a string takes everything");
        assert_eq!(svg.matches("<rect ").count(), 5);
        assert_eq!(svg.matches("<line ").count(), 2);
        assert!(
            svg.contains(r#"class="ours" x="180" y="64" width="52.5""#),
            "half of the reference, a quarter of the best: {svg}"
        );
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }
}
