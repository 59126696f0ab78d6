//! VDBench: its results (`flatfile.html`, `totals.html`, `summary.html`, `histogram/*`), and its
//! parameter files.

mod parameters;

use super::{ImportError, fio::fill, numbers::Notation};
use crate::{
    buckets::Buckets,
    model::{Class, Model},
    run::{ClassRun, Loop, Point, Run, VERSION},
};
use std::collections::BTreeMap;

pub(super) use parameters::model as model_of_parameters;

const MS: f64 = 1e6;
const LARGE: f64 = 131_072.0;
const ROWS_MAX: usize = 1_000_000;

/// One interval, or the average of a run.
#[derive(Debug, Clone, Default)]
struct Row {
    run: String,
    is_average: bool,
    /// First and last interval of an average.
    span: Option<(f64, f64)>,
    rate: f64,
    bytes: f64,
    /// 0 to 1.
    reads: f64,
    /// Milliseconds.
    response: f64,
    read_response: Option<f64>,
    write_response: Option<f64>,
    deviation: f64,
    max: f64,
    /// 0 is sequential.
    seek: Option<f64>,
}

fn number(word: Option<&&str>) -> Option<f64> {
    Some(Notation::Point.count(word?)?.value)
}

/// `avg_2-31`: the intervals.
fn span(word: &str) -> Option<(f64, f64)> {
    let (from, to) = word.strip_prefix("avg_")?.split_once('-')?;
    let (from, to) = (from.parse::<f64>().ok()?, to.parse::<f64>().ok()?);
    (from <= to).then_some((from, to))
}

fn flatfile(text: &str) -> Vec<Row> {
    let mut head: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if lines.peek().is_none() && !text.ends_with('\n') {
            break;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.contains(&"tod") && words.contains(&"rate") && words.contains(&"Interval") {
            head = words;
            continue;
        }
        if head.is_empty() || words.len() != head.len() || rows.len() >= ROWS_MAX {
            continue;
        }
        let word = |name: &str| words.get(head.iter().position(|cell| *cell == name)?);
        let of = |name: &str| number(word(name));
        let row = || {
            let interval = word("Interval")?;
            Some(Row {
                run: word("Run")?.to_string(),
                is_average: interval.starts_with("avg"),
                span: span(interval),
                rate: of("rate")?,
                bytes: of("bytes/io")?,
                reads: (of("read%")? / 100.0).min(1.0),
                response: of("resp")?,
                read_response: of("read_resp"),
                write_response: of("write_resp"),
                deviation: of("resp_std").unwrap_or(0.0),
                max: of("resp_max").unwrap_or(0.0),
                seek: of("seekpct"),
            })
        };
        rows.extend(row());
    }
    rows
}

/// Lines of `totals.html` and `summary.html`: interval, rate, MB/s, bytes, read %, response.
fn totals(text: &str) -> Vec<Row> {
    let mut run = String::new();
    let mut rows = Vec::new();
    for line in text.lines() {
        let plain = without_tags(line);
        if let Some((_, rest)) = plain.split_once("Starting RD=") {
            run = rest.split(';').next().unwrap_or("").trim().to_owned();
            continue;
        }
        let words: Vec<&str> = plain.split_whitespace().collect();
        let is_interval = |word: &&str| {
            word.starts_with("avg_")
                || (!word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()))
        };
        let Some(at) = words.iter().take(2).position(is_interval) else { continue };
        let of = |place: usize| number(words.get(at + place));
        let row = || {
            let interval = words.get(at)?;
            Some(Row {
                run: run.clone(),
                is_average: interval.starts_with("avg_"),
                span: span(interval),
                rate: of(1)?,
                bytes: of(3)?,
                reads: (of(4)? / 100.0).min(1.0),
                response: of(5)?,
                read_response: of(6),
                write_response: of(7),
                max: of(8).unwrap_or(0.0),
                ..Row::default()
            })
        };
        if rows.len() < ROWS_MAX {
            rows.extend(row());
        }
    }
    rows
}

fn without_tags(line: &str) -> String {
    let mut is_tag = false;
    line.chars()
        .take(4000)
        .filter(|letter| {
            match letter {
                '<' => is_tag = true,
                '>' => {
                    is_tag = false;
                    return false;
                }
                _ => {}
            }
            !is_tag
        })
        .collect()
}

pub(super) fn model_of_flatfile(text: &str) -> Result<Model, ImportError> {
    model_of_rows(&flatfile(text))
}

pub(super) fn model_of_totals(text: &str) -> Result<Model, ImportError> {
    model_of_rows(&totals(text))
}

pub(super) fn run_of_flatfile(text: &str) -> Result<Run, ImportError> {
    run_of_rows(flatfile(text))
}

pub(super) fn run_of_totals(text: &str) -> Result<Run, ImportError> {
    run_of_rows(totals(text))
}

fn empty() -> ImportError {
    ImportError::new("has no interval whose figures can be read: was the run stopped at once?")
}

fn model_of_rows(rows: &[Row]) -> Result<Model, ImportError> {
    let last = rows.iter().rev().find(|row| row.is_average).or(rows.last()).ok_or_else(empty)?;
    let mut model = Model { source: "VDBench".to_owned(), ..Model::default() };
    let runs = rows.iter().filter(|row| row.is_average).count();
    if runs > 1 {
        model.warnings.push(format!("{runs} runs in it: the model is of the last, {}", last.run));
    }
    if !last.is_average {
        model
            .warnings
            .push("the run has no average: it is cut, and one interval counts".to_owned());
    }
    model.name.clone_from(&last.run);
    model.elapsed = last.span.map_or(0.0, |(from, to)| to - from + 1.0);
    model.assumed.push("intervals of one second; reads and writes are of one size".to_owned());
    let is_large = last.bytes >= LARGE || last.seek == Some(0.0);
    let classes = if is_large {
        [Class::LargeRead, Class::LargeWrite]
    } else {
        [Class::RandomRead, Class::RandomWrite]
    };
    let mut sums: BTreeMap<Class, (f64, f64, f64)> = BTreeMap::new();
    for (class, share, response) in [
        (classes[0], last.reads, last.read_response),
        (classes[1], 1.0 - last.reads, last.write_response),
    ] {
        let rate = last.rate * share;
        if rate > 0.0 {
            let response = response.unwrap_or(last.response) * MS;
            sums.insert(class, (rate, rate * last.bytes, rate * response));
        }
    }
    if sums.is_empty() {
        return Err(empty());
    }
    fill(&mut model, &sums, "VDBench");
    Ok(model)
}

fn run_of_rows(mut rows: Vec<Row>) -> Result<Run, ImportError> {
    let last = rows.last().ok_or_else(empty)?.run.clone();
    let runs = rows.iter().filter(|row| row.is_average).count();
    rows.retain(|row| row.run == last);
    let average = rows.iter().rev().find(|row| row.is_average).cloned();
    rows.retain(|row| !row.is_average);
    // A file of totals has averages only.
    let mut seconds = 1.0;
    if let Some(average) = average.filter(|_| rows.is_empty()) {
        seconds = average.span.map_or(1.0, |(from, to)| to - from + 1.0);
        rows.push(average);
    }
    let class = |name: &str, is_read: bool| {
        let line: Vec<Point> = rows
            .iter()
            .enumerate()
            .map(|(at, row)| {
                let share = if is_read { row.reads } else { 1.0 - row.reads };
                let response = if is_read { row.read_response } else { row.write_response };
                let requests = row.rate * share * seconds;
                Point {
                    at: at as f64 * seconds,
                    length: seconds,
                    requests: requests.round() as u64,
                    bytes: (requests * row.bytes).round() as u64,
                    mean: response.unwrap_or(row.response) * MS,
                    deviation: row.deviation * MS,
                    p99: 0.0,
                    max: row.max * MS,
                }
            })
            .collect();
        let requests: u64 = line.iter().fold(0, |sum, point| sum.saturating_add(point.requests));
        let time: f64 = line.iter().map(|point| point.mean * point.requests as f64).sum();
        ClassRun {
            name: name.to_owned(),
            class: None,
            requests,
            bytes: line.iter().fold(0, |sum, point| sum.saturating_add(point.bytes)),
            errors: 0,
            latency: Buckets::default(),
            mean: (requests > 0).then(|| time / requests as f64),
            line,
        }
    };
    let classes = [class("read", true), class("write", false)];
    let classes: Vec<ClassRun> = classes.into_iter().filter(|class| class.requests > 0).collect();
    if classes.is_empty() {
        return Err(empty());
    }
    let mut notes = vec!["VDBench's intervals are taken to be of one second".to_owned()];
    if runs > 1 {
        notes.push(format!("{runs} runs in it: this is the last, {last}"));
    }
    Ok(Run {
        version: VERSION,
        label: last,
        source: "VDBench".to_owned(),
        targets: Vec::new(),
        began: None,
        seconds: seconds * rows.len() as f64,
        issued: Loop::Unknown,
        classes,
        notes,
    })
}

/// A histogram: `0.020 < 0.040  1234  12.3 ...`, in milliseconds, one or several after each other.
pub(super) fn run_of_histogram(text: &str) -> Result<Run, ImportError> {
    /// Name, borders with counts, and whether the last has no border.
    type Class = (String, Vec<(u64, u64)>, bool);
    let mut classes: Vec<Class> = Vec::new();
    let mut name = String::new();
    for line in text.lines().take(ROWS_MAX) {
        let plain = line.replace('<', " ");
        let words: Vec<&str> = plain.split_whitespace().collect();
        if words.first().is_some_and(|word| word.starts_with("min(ms)")) {
            classes.push((std::mem::take(&mut name), Vec::new(), false));
            continue;
        }
        let (Some(from), Some(count)) = (number(words.first()), words.get(2)) else {
            if !words.is_empty() {
                name = words.join(" ").chars().take(60).collect();
            }
            continue;
        };
        let Some(count) = Notation::Point.count(count).map(|count| count.value as u64) else {
            continue;
        };
        let Some((_, pairs, is_open)) = classes.last_mut() else { continue };
        match number(words.get(1)) {
            Some(to) => pairs.push(((to * MS).round() as u64, count)),
            None => {
                pairs.push(((from * 2.0 * MS) as u64, count));
                *is_open |= count > 0;
            }
        }
    }
    let classes: Vec<ClassRun> = classes
        .into_iter()
        .filter(|class| class.1.iter().any(|pair| pair.1 > 0))
        .map(|(name, pairs, is_open)| {
            let mut latency = Buckets::new(pairs);
            latency.is_open = is_open;
            ClassRun {
                name: if name.is_empty() { "all".to_owned() } else { name },
                class: None,
                requests: latency.requests(),
                bytes: 0,
                errors: 0,
                latency,
                mean: None,
                line: Vec::new(),
            }
        })
        .collect();
    if classes.is_empty() {
        return Err(ImportError::new("has no histogram with requests"));
    }
    Ok(Run {
        version: VERSION,
        label: String::new(),
        source: "VDBench".to_owned(),
        targets: Vec::new(),
        began: None,
        seconds: 0.0,
        issued: Loop::Unknown,
        classes,
        notes: vec!["a histogram has no rates and no sizes".to_owned()],
    })
}

#[cfg(test)]
mod tests {
    use super::{model_of_flatfile, model_of_totals, run_of_flatfile, run_of_histogram};
    use crate::import::numbers::Notation;
    use crate::model::Class;

    const FLAT: &str = include_str!("../../../tests/generator/flatfile.txt");

    #[test]
    fn a_flatfile_is_a_model_and_a_run() {
        let model = model_of_flatfile(FLAT).expect("a model");
        let reads = model.stream(Class::RandomRead).expect("reads");
        assert_eq!((reads.rate, reads.size, reads.latency), (700.0, 8192, Some(400_000.0)));
        let run = run_of_flatfile(FLAT).expect("a run");
        assert_eq!(run.classes[0].line.len(), 2);
        assert_eq!(run.classes[0].requests, 630 + 700);
    }

    #[test]
    fn totals_are_a_model() {
        let text = "Starting RD=rd1; I/O rate: 1000; elapsed=3\n\
                    interval i/o MB/sec bytes read resp\n\
                    avg_2-3      996.00     0.97    1024   0.00 0.007 0.000 0.007 0.086\n";
        let model = model_of_totals(text).expect("a model");
        assert_eq!(model.elapsed, 2.0);
        assert_eq!(model.stream(Class::RandomWrite).expect("writes").rate, 996.0);
        assert!(Notation::Point.parse("avg_2-3").is_none());
    }

    #[test]
    fn a_histogram_is_a_run() {
        let text = "Reads:\nmin(ms) < max(ms)   count\n0.000 < 0.020 10 1.0\n\
                    0.020 < 0.040 90 9.0\n2000 < max 1 0\n";
        let run = run_of_histogram(text).expect("a run");
        assert_eq!(run.classes[0].latency.counts()[..2], [(20_000, 10), (40_000, 90)]);
        assert!(run.classes[0].latency.is_open);
    }
}
