//! A chart: an SVG that scales, for a page or for a file of its own, and the colours of both.
//!
//! A chart is 520 units wide and its text 13 high, so that two stand beside each other on a wide
//! screen; on a narrow one, where a unit is less than a pixel, the text is 16 high. Margins leave
//! room for that.
//!
//! On a page colours are variables that the page sets for light and dark. A file of its own has
//! them spelled out, as word processors know no variables.

use super::text::escaped;
use std::fmt::Write;

/// In units.
pub const WIDTH: f64 = 520.0;

/// Runs, or parts of a stacked bar, that can be told apart.
pub const SERIES_MAX: usize = 10;

/// Name, light, dark. `s0` to `s4` colour series: each five of them are used twice, with other
/// dashes and markers. Contrast to the ground is at least 4.5, also for people who are blind to
/// red or to green.
pub const COLOURS: [(&str, &str, &str); 10] = [
    ("ground", "#ffffff", "#15181c"),
    ("ink", "#1b1f24", "#e8eaed"),
    ("soft", "#5a626c", "#a3acb7"),
    ("grid", "#e2e5e9", "#2c3239"),
    ("panel", "#f5f6f8", "#1d2126"),
    ("s0", "#3a424c", "#d5dae0"),
    ("s1", "#0a62a8", "#6fb5f5"),
    ("s2", "#b3420a", "#ff9c6b"),
    ("s3", "#00725a", "#4fcfa4"),
    ("s4", "#8b3f92", "#e0a3e6"),
];

const DASHES: [&str; SERIES_MAX] =
    ["none", "7 3", "2 3", "10 3 2 3", "5 2", "1 2", "12 4", "4 4", "8 2 2 2 2 2", "3 1"];

/// An SVG under construction, then done.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The stem of a file's name.
    pub name: String,
    pub title: String,
    /// For people who do not see it: one sentence that says what it shows.
    pub about: String,
    pub height: f64,
    body: String,
}

/// Where a text begins, relative to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Chart {
    #[must_use]
    pub fn new(name: &str, title: &str, about: &str, height: f64) -> Self {
        Self {
            name: super::text::slug(name),
            title: title.to_owned(),
            about: about.to_owned(),
            height,
            body: String::new(),
        }
    }

    /// Adds markup that this room has made.
    pub(super) fn push(&mut self, markup: &str) {
        self.body.push_str(markup);
        self.body.push('\n');
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x1, y1, x2, y2) = (unit(from.0), unit(from.1), unit(to.0), unit(to.1));
        self.push(&format!(r#"<path class="{class}" d="M{x1} {y1}L{x2} {y2}"/>"#));
    }

    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " m",
            Anchor::End => " e",
        };
        let (x, y, text) = (unit(at.0), unit(at.1), escaped(text));
        let class = format!("{class}{anchor}");
        let class = match class.trim_start() {
            "" => String::new(),
            class => format!(r#" class="{class}""#),
        };
        self.push(&format!(r#"<text{class} x="{x}" y="{y}">{text}</text>"#));
    }

    pub(super) fn rectangle(&mut self, class: &str, at: (f64, f64), size: (f64, f64)) {
        let (x, y, width, height) = (unit(at.0), unit(at.1), unit(size.0), unit(size.1));
        self.push(&format!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"/>"#
        ));
    }

    /// As part of a page.
    #[must_use]
    pub fn inline(&self) -> String {
        let (title, about) = (escaped(&self.title), escaped(&self.about));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\">\
             <title>{title}</title><desc>{about}</desc>\n{}</svg>",
            unit(WIDTH),
            unit(self.height),
            self.body
        )
    }

    /// As a file of its own, with its title above it.
    #[must_use]
    pub fn standalone(&self) -> String {
        /// Around the chart, and of the title.
        const EDGE: f64 = 12.0;
        const HEAD: f64 = 36.0;
        let (title, about) = (escaped(&self.title), escaped(&self.about));
        let (left, top) = (unit(-EDGE), unit(-HEAD));
        let (width, height) = (unit(WIDTH + 2.0 * EDGE), unit(self.height + HEAD + EDGE));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{left} {top} {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\">\n\
             <title>{title}</title>\n<desc>{about}</desc>\n\
             <style>\n{}@media (prefers-color-scheme:dark){{\n{}}}\n</style>\n\
             <rect class=\"ground\" x=\"{left}\" y=\"{top}\" width=\"{width}\" \
             height=\"{height}\"/>\n<text class=\"h\" x=\"0\" y=\"-13\">{title}</text>\n{}</svg>\n",
            style(|name| colour(name, false).to_owned()),
            style(|name| colour(name, true).to_owned()),
            self.body
        )
    }
}

fn colour(name: &str, is_dark: bool) -> &'static str {
    let found = COLOURS.iter().find(|colour| colour.0 == name);
    found.map_or("currentColor", |colour| if is_dark { colour.2 } else { colour.1 })
}

/// Rules for the classes that charts use, with colours by name.
#[must_use]
pub(super) fn style(colour: impl Fn(&str) -> String) -> String {
    let (ground, ink, soft, grid) =
        (colour("ground"), colour("ink"), colour("soft"), colour("grid"));
    let mut out = format!(
        "svg text{{font:13px system-ui,\"Segoe UI\",Roboto,\"Liberation Sans\",Arial,sans-serif;\
         fill:{soft};font-variant-numeric:tabular-nums}}\n\
         svg .m{{text-anchor:middle}}svg .e{{text-anchor:end}}\n\
         svg .n{{fill:{ink}}}svg .h{{fill:{ink};font-size:15px;font-weight:600}}\n\
         svg .i{{font-weight:600}}\n\
         svg .ground{{fill:{ground}}}\n\
         svg .grid{{stroke:{grid};stroke-width:1;fill:none}}\n\
         svg .axis{{stroke:{soft};stroke-width:1;fill:none}}\n\
         svg .track{{fill:{grid}}}\n\
         svg .l{{fill:none;stroke-width:1.8;stroke-linejoin:round}}\n\
         svg .t{{fill:none;stroke-width:1;stroke-linejoin:round}}\n\
         svg .k{{stroke-width:1.4}}svg .o{{stroke-width:1.4;fill:{ground}}}\n\
         svg .band{{stroke:none;fill-opacity:.22}}\n"
    );
    for (index, dash) in DASHES.iter().enumerate() {
        let colour = colour(series(index));
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "svg .s{index} .l,svg .s{index} .t,svg .s{index} .k,svg .s{index} .o{{stroke:{colour}}}\
             svg .s{index} .l{{stroke-dasharray:{dash}}}\
             svg .s{index} .k,svg .s{index} .f,svg .s{index} .band,svg .s{index} .i,\
             svg .s{index} .p{{fill:{colour}}}"
        );
    }
    out
}

/// The colour of a series.
fn series(index: usize) -> &'static str {
    ["s0", "s1", "s2", "s3", "s4"][index % 5]
}

/// The sign of a series at each of these points, 7 units wide: the second five are hollow.
#[must_use]
pub(super) fn markers(index: usize, places: &[(f64, f64)]) -> String {
    let index = index % SERIES_MAX;
    let class = if index < 5 { "k" } else { "o" };
    let shape = match index % 5 {
        0 => "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
        1 => "m-3-3h6v6h-6z",
        2 => "m0-3.8l3.6 6.4h-7.2z",
        3 => "m0-4l4 4l-4 4l-4-4z",
        _ => "m0 3.8l-3.6-6.4h7.2z",
    };
    let path: String =
        places.iter().map(|(x, y)| format!("M{} {}{shape}", unit(*x), unit(*y))).collect();
    format!(r#"<path class="{class}" d="{path}"/>"#)
}

/// A polyline's `d`, in tenths of a unit, each point relative to the one before.
#[must_use]
pub(super) fn polyline(points: &[(f64, f64)]) -> String {
    let mut out = String::new();
    let mut before = (0_i64, 0_i64);
    for (index, (x, y)) in points.iter().enumerate() {
        let here = (tenths(*x), tenths(*y));
        if index == 0 {
            let _ = write!(out, "M{} {}l", tenth(here.0), tenth(here.1));
        } else {
            let (x, y) = (here.0 - before.0, here.1 - before.1);
            if x == 0 && y == 0 {
                continue;
            }
            if x >= 0 && !out.ends_with('l') {
                out.push(' ');
            }
            out.push_str(&tenth(x));
            if y >= 0 {
                out.push(' ');
            }
            out.push_str(&tenth(y));
        }
        before = here;
    }
    if out.ends_with('l') {
        out.push_str("0 0");
    }
    out
}

fn tenths(value: f64) -> i64 {
    (value * 10.0).round().clamp(-1e6, 1e6) as i64
}

fn tenth(tenths: i64) -> String {
    let sign = if tenths < 0 { "-" } else { "" };
    let (whole, rest) = (tenths.unsigned_abs() / 10, tenths.unsigned_abs() % 10);
    match (whole, rest) {
        (_, 0) => format!("{sign}{whole}"),
        (0, _) => format!("{sign}.{rest}"),
        _ => format!("{sign}{whole}.{rest}"),
    }
}

/// A coordinate with at most one place after the point.
#[must_use]
pub(super) fn unit(value: f64) -> String {
    tenth(tenths(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of `#rrggbb`, as WCAG 2 defines it.
    fn luminance(colour: &str) -> f64 {
        let channel = |from: usize| {
            let byte = u8::from_str_radix(&colour[from..from + 2], 16).expect("hexadecimal");
            let share = f64::from(byte) / 255.0;
            if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_and_series_stand_out_from_the_ground_in_light_and_dark() {
        for name in ["ink", "soft", "s0", "s1", "s2", "s3", "s4"] {
            for is_dark in [false, true] {
                for ground in ["ground", "panel"] {
                    let found = contrast(colour(name, is_dark), colour(ground, is_dark));
                    assert!(found >= 4.5, "{name} on {ground}, dark {is_dark}: {found:.2}");
                }
            }
        }
    }

    #[test]
    fn series_differ_in_dashes_and_markers() {
        let signs: std::collections::BTreeSet<String> =
            (0..SERIES_MAX).map(|index| markers(index, &[(0.0, 0.0)])).collect();
        let dashes: std::collections::BTreeSet<&str> = DASHES.into_iter().collect();
        assert_eq!((signs.len(), dashes.len()), (SERIES_MAX, SERIES_MAX));
    }

    #[test]
    fn a_polyline_is_short_and_does_not_drift() {
        assert_eq!(polyline(&[(1.0, 2.0), (2.04, 1.5), (3.08, 1.5)]), "M1 2l1-.5 1.1 0");
        assert_eq!(polyline(&[(1.0, 2.0)]), "M1 2l0 0");
        assert_eq!(unit(f64::NAN), "0");
    }
}
