//! A model as a short text that a person edits: TOML.
//!
//! ```text
//!   name = "ORDB"
//!   elapsed = 3605.7          seconds that the averages are for
//!
//!   [random-read]             a class; without it, none of it
//!   rate = 560.95             requests a second
//!   size = 8192               bytes, or "8K"
//!   latency_us = 21.0
//!
//!   [report]                  the totals of the report, to compare with
//! ```
//!
//! Invariant: what is printed is read back as the same model, up to the sixth digit.

use super::{Class, Model, SIZE_MAX, SIZE_MIN, Stream, Totals, Waits};
use crate::buckets::Buckets;
use serde::Deserialize;
use std::{fmt::Write, ops::Range};
use toml::Spanned;

/// Of a file. A larger one is no model.
const LENGTH_MAX: usize = 1 << 20;
const RATE_MAX: f64 = 1e9;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    name: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    file: String,
    elapsed: Option<Spanned<f64>>,
    block_size: Option<u64>,
    #[serde(default)]
    assumed: Vec<String>,
    #[serde(default)]
    missing: Vec<String>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(rename = "random-read")]
    random_read: Option<Spanned<ClassText>>,
    #[serde(rename = "large-read")]
    large_read: Option<Spanned<ClassText>>,
    #[serde(rename = "random-write")]
    random_write: Option<Spanned<ClassText>>,
    #[serde(rename = "large-write")]
    large_write: Option<Spanned<ClassText>>,
    #[serde(rename = "log-write")]
    log_write: Option<Spanned<ClassText>>,
    report: Option<Report>,
    #[serde(default)]
    waits: Vec<WaitsText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassText {
    rate: Spanned<f64>,
    size: Spanned<Size>,
    latency_us: Option<f64>,
    latency_from: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Size {
    Number(f64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    reads: f64,
    read_bytes: f64,
    writes: f64,
    write_bytes: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitsText {
    event: String,
    mean_us: Option<f64>,
    #[serde(default)]
    is_open: bool,
    #[serde(default)]
    buckets: Vec<(u64, u64)>,
}

/// # Errors
/// One sentence that names the line and the remedy. Its subject is the file.
pub fn parse(text: &str) -> Result<Model, String> {
    if text.len() > LENGTH_MAX {
        return Err("is longer than 1 MiB: it is no model".to_owned());
    }
    let file: File = toml::from_str(text).map_err(|error| {
        let message = error.message().trim().replace('\n', " ");
        match error.span() {
            Some(span) => format!("has in line {}: {message}", line(text, &span)),
            None => format!("is no model: {message}"),
        }
    })?;
    let mut model = Model {
        name: file.name,
        source: file.source,
        file: file.file,
        block_size: file.block_size,
        assumed: file.assumed,
        missing: file.missing,
        warnings: file.warnings,
        ..Model::default()
    };
    if let Some(elapsed) = file.elapsed {
        model.elapsed = *elapsed.get_ref();
        if !(0.0..1e12).contains(&model.elapsed) {
            return Err(format!(
                "has in line {}: elapsed is seconds, 0 if it is not known",
                line(text, &elapsed.span())
            ));
        }
    }
    let classes = [
        (Class::RandomRead, file.random_read),
        (Class::LargeRead, file.large_read),
        (Class::RandomWrite, file.random_write),
        (Class::LargeWrite, file.large_write),
        (Class::LogWrite, file.log_write),
    ];
    for (class, found) in classes {
        if let Some(found) = found {
            model.streams.extend(stream(class, found, text)?);
        }
    }
    if model.streams.is_empty() {
        return Err(
            "has no class: give at least one, such as [random-read] with rate and size".to_owned()
        );
    }
    let sums = model.sums();
    model.totals = file.report.map_or(sums, |report| Totals {
        reads: report.reads,
        read_bytes: report.read_bytes,
        writes: report.writes,
        write_bytes: report.write_bytes,
    });
    // Figures are printed with six digits: what differs less is the same.
    model.residual = rounded(model.totals.minus(sums), model.totals);
    model.waits = file.waits.into_iter().map(waits).collect();
    Ok(model)
}

fn rounded(residual: Totals, totals: Totals) -> Totals {
    let of = |left: f64, all: f64| if left.abs() <= all.abs() * 1e-4 { 0.0 } else { left };
    Totals {
        reads: of(residual.reads, totals.reads),
        read_bytes: of(residual.read_bytes, totals.read_bytes),
        writes: of(residual.writes, totals.writes),
        write_bytes: of(residual.write_bytes, totals.write_bytes),
    }
}

fn waits(found: WaitsText) -> Waits {
    let mut buckets = Buckets::new(found.buckets);
    buckets.is_open = found.is_open;
    Waits { event: found.event, buckets, mean: found.mean_us.map(|mean| mean * 1000.0) }
}

fn stream(class: Class, found: Spanned<ClassText>, text: &str) -> Result<Option<Stream>, String> {
    let found = found.into_inner();
    let rate = *found.rate.get_ref();
    if !(0.0..=RATE_MAX).contains(&rate) {
        return Err(format!(
            "has in line {}: the rate of [{class}] is {rate}; give requests a second, 0 to 1e9",
            line(text, &found.rate.span())
        ));
    }
    let at = line(text, &found.size.span());
    let size = match found.size.get_ref() {
        Size::Number(size) => Some(*size),
        Size::Text(size) => bytes(size),
    };
    let is_size = |size: &f64| (SIZE_MIN as f64..=SIZE_MAX as f64).contains(size);
    let size = size.filter(is_size).ok_or_else(|| {
        format!(
            "has in line {at}: the size of [{class}] is not from 512 bytes to 1 MiB; \
             give 8192, or \"8K\""
        )
    })?;
    if rate == 0.0 {
        return Ok(None);
    }
    let mut stream = Stream::of_mean(class, rate, size);
    stream.latency =
        found.latency_us.filter(|us| us.is_finite() && *us >= 0.0).map(|us| us * 1000.0);
    stream.latency_from = found.latency_from;
    Ok(Some(stream))
}

/// `8K`, `1M`.
fn bytes(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit = |letters: [char; 2]| text.strip_suffix(letters);
    let (digits, factor) = match (unit(['k', 'K']), unit(['m', 'M'])) {
        (Some(digits), _) => (digits, 1024.0),
        (_, Some(digits)) => (digits, 1_048_576.0),
        _ => (text, 1.0),
    };
    digits.trim().parse::<f64>().ok().map(|number| number * factor)
}

fn line(text: &str, span: &Range<usize>) -> usize {
    let before = text.as_bytes().get(..span.start.min(text.len())).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The text of a model.
#[must_use]
pub fn print(model: &Model) -> String {
    let mut text = String::from(
        "# The load of a database on storage. Rates are requests a second, sizes are bytes.\n\
         # Change what is to be different, and leave out a class that is not to run.\n",
    );
    let mut put = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    for (key, value) in [("name", &model.name), ("source", &model.source), ("file", &model.file)] {
        if !value.is_empty() {
            put(format!("{key} = {}", quoted(value)));
        }
    }
    put(format!("elapsed = {}", short(model.elapsed)));
    if let Some(size) = model.block_size {
        put(format!("block_size = {size}"));
    }
    for (key, list) in
        [("assumed", &model.assumed), ("missing", &model.missing), ("warnings", &model.warnings)]
    {
        if !list.is_empty() {
            let lines =
                list.iter().map(|text| format!("\n  {},", quoted(text))).collect::<String>();
            put(format!("{key} = [{lines}\n]"));
        }
    }
    for stream in &model.streams {
        put(format!("\n[{}]", stream.class));
        put(format!("rate = {}", short(stream.rate)));
        put(match stream.mean_size {
            Some(mean) => format!("size = {} # on average", short(mean)),
            None => format!("size = {}", stream.size),
        });
        if let Some(latency) = stream.latency {
            put(format!("latency_us = {}", short(latency / 1000.0)));
        }
        if let Some(from) = &stream.latency_from {
            put(format!("latency_from = {}", quoted(from)));
        }
    }
    let totals = model.totals;
    put("\n[report]".to_owned());
    put(format!("reads = {}", short(totals.reads)));
    put(format!("read_bytes = {}", short(totals.read_bytes)));
    put(format!("writes = {}", short(totals.writes)));
    put(format!("write_bytes = {}", short(totals.write_bytes)));
    print_waits(&mut text, model);
    text
}

fn print_waits(text: &mut String, model: &Model) {
    for waits in &model.waits {
        let _ = write!(text, "\n[[waits]]\nevent = {}\n", quoted(&waits.event));
        if let Some(mean) = waits.mean {
            let _ = writeln!(text, "mean_us = {}", short(mean / 1000.0));
        }
        if !waits.buckets.is_empty() {
            if waits.buckets.is_open {
                text.push_str("is_open = true\n");
            }
            let pairs =
                waits.buckets.counts().iter().map(|(border, count)| format!("[{border}, {count}]"));
            let _ = writeln!(
                text,
                "buckets = [{}] # up to nanoseconds, requests",
                pairs.collect::<Vec<_>>().join(", ")
            );
        }
    }
}

/// Seven digits that count, at least.
fn short(number: f64) -> String {
    let digits = if number == 0.0 { 0 } else { number.abs().log10().floor() as i32 };
    let places = usize::try_from((6 - digits).clamp(1, 12)).unwrap_or(1);
    let text = format!("{number:.places$}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.chars().filter(|c| !c.is_control()).collect()).to_string()
}

#[cfg(test)]
mod tests {
    use super::{parse, print};
    use crate::model::{Class, Model, Stream};
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= a.abs() * 1e-5 + 1e-9
    }

    proptest! {
        #[test]
        fn a_model_that_is_printed_is_read_back(
            rates in proptest::collection::vec((0.0001..1e6_f64, 512.0..1_048_576.0_f64), 5),
            name in ".{0,40}", elapsed in 0.0..1e7_f64,
        ) {
            let streams = Class::ALL.iter().zip(&rates)
                .map(|(class, (rate, size))| Stream::of_mean(*class, *rate, *size)).collect();
            let mut model = Model { name: name.clone(), elapsed, streams, ..Model::default() };
            model.totals = model.sums();
            model.missing.push(name);
            let back = parse(&print(&model)).expect("what is printed can be read");
            prop_assert!(close(model.elapsed, back.elapsed));
            for (a, b) in model.streams.iter().zip(&back.streams) {
                prop_assert_eq!(a.class, b.class);
                prop_assert!(close(a.rate, b.rate) && close(a.mean(), b.mean()));
            }
            prop_assert_eq!(back.residual, crate::model::Totals::default());
        }
    }

    #[test]
    fn an_error_names_the_line_and_the_remedy() {
        for (text, line, words) in [
            ("name = \"a\"\n[random-read]\nrate = -1\nsize = 8192\n", "line 3", "0 to 1e9"),
            ("[random-read]\nrate = 1\nsize = 100\n", "line 3", "512 bytes to 1 MiB"),
            ("[random-read]\nrate = 1\nsize = \"8 KB\"\n", "line 3", "8K"),
            ("[random-read]\nrate = 1\n", "line 1", "size"),
            ("[random-reads]\nrate = 1\n", "line 1", "random-read"),
            ("[random-read]\nrate = nan\nsize = 8192\n", "line 2", "rate"),
            ("rate == 1\n", "line 1", ""),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(line) && error.contains(words), "{text}: {error}");
        }
        assert!(parse("name = \"x\"\n").expect_err("no class").contains("[random-read]"));
    }

    #[test]
    fn a_person_may_write_sizes_with_letters_and_leave_most_out() {
        let model = parse("[log-write]\nrate = 5\nsize = \"4K\"\n").expect("a model");
        assert_eq!(model.streams, [Stream::of_mean(Class::LogWrite, 5.0, 4096.0)]);
    }
}
