//! pgbench's log of transactions (`pgbench -l`): one line each.
//!
//! ```text
//!   client  number  latency_us  script  seconds  microseconds  [lag_us]  [retries]
//! ```
//!
//! With `--rate`, latency counts from the time that was planned, and the lag is a column.

use super::ImportError;
use crate::{
    buckets::{Buckets, Moments},
    run::{ClassRun, Loop, Point, Run, VERSION},
};
use std::collections::BTreeMap;

/// Seconds of a time line.
const POINTS_MAX: usize = 100_000;

struct Line {
    /// Nanoseconds; None if it was skipped.
    latency: Option<u64>,
    /// Seconds since 1970.
    at: u64,
    has_lag: bool,
    is_failed: bool,
}

fn line(text: &str) -> Option<Line> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if !(6..=8).contains(&words.len()) {
        return None;
    }
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let (_, _, _, at, micros) = (number(0)?, number(1)?, number(3)?, number(4)?, number(5)?);
    // Plausible times only: other logs are made of numbers too.
    if !(1_000_000_000..20_000_000_000).contains(&at) || micros >= 1_000_000 {
        return None;
    }
    let latency = words.get(2)?;
    let is_failed = *latency == "failed" || *latency == "serialization" || *latency == "deadlock";
    let latency = match *latency {
        "skipped" | "failed" | "serialization" | "deadlock" => None,
        latency => Some(latency.parse::<f64>().ok().filter(|l| *l >= 0.0)?),
    };
    let latency = latency.map(|micros| (micros * 1000.0) as u64);
    Some(Line { latency, at, has_lag: words.len() > 6, is_failed })
}

/// Whether these are lines of such a log.
pub(super) fn is_log(lines: &[&str]) -> bool {
    let mut used = lines.iter().filter(|line| !line.trim().is_empty()).take(5).peekable();
    used.peek().is_some() && used.all(|text| line(text).is_some())
}

#[derive(Default)]
struct Second {
    requests: u64,
    sum: f64,
    squares: f64,
    max: u64,
}

/// A border three digits exact, at or above the value.
fn border(value: u64) -> u64 {
    let mut unit = 1_u64;
    while value / unit >= 1000 {
        unit = unit.saturating_mul(10);
    }
    value.div_ceil(unit).saturating_mul(unit)
}

pub(super) fn run(text: &str) -> Result<Run, ImportError> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut seconds: BTreeMap<u64, Second> = BTreeMap::new();
    let mut moments = Moments { min: u64::MAX, ..Moments::default() };
    let (mut skipped, mut errors, mut has_lag) = (0_u64, 0_u64, false);
    for text in text.lines() {
        let Some(line) = line(text) else { continue };
        has_lag |= line.has_lag;
        let Some(latency) = line.latency else {
            if line.is_failed {
                errors += 1
            } else {
                skipped += 1
            }
            continue;
        };
        *counts.entry(border(latency)).or_default() += 1;
        let value = latency as f64;
        moments.sum += value;
        moments.sum_of_squares += value * value;
        moments.min = moments.min.min(latency);
        moments.max = moments.max.max(latency);
        if seconds.len() < POINTS_MAX || seconds.contains_key(&line.at) {
            let second = seconds.entry(line.at).or_default();
            second.requests += 1;
            second.sum += value;
            second.squares += value * value;
            second.max = second.max.max(latency);
        }
    }
    let (Some((begin, _)), Some((end, _))) = (seconds.first_key_value(), seconds.last_key_value())
    else {
        return Err(ImportError::new(
            "has no transaction that ended: was pgbench stopped at once?",
        ));
    };
    let (begin, end) = (*begin, *end);
    let mut latency = Buckets::new(counts);
    latency.moments = Some(moments);
    let line = seconds.iter().map(|(at, second)| {
        let count = second.requests as f64;
        let mean = second.sum / count;
        Point {
            at: (at - begin) as f64,
            length: 1.0,
            requests: second.requests,
            bytes: 0,
            mean,
            deviation: (second.squares / count - mean * mean).max(0.0).sqrt(),
            p99: 0.0,
            max: second.max as f64,
        }
    });
    let class = ClassRun {
        name: "transactions".to_owned(),
        class: None,
        requests: latency.requests(),
        bytes: 0,
        errors,
        latency,
        mean: None,
        line: line.collect(),
    };
    let mut notes = vec!["transactions, not I/O: one does many requests, or none".to_owned()];
    if skipped > 0 {
        notes.push(format!("{skipped} transactions were skipped, because they came too late"));
    }
    Ok(Run {
        version: VERSION,
        label: String::new(),
        source: "pgbench".to_owned(),
        targets: Vec::new(),
        began: Some(begin),
        seconds: (end - begin + 1) as f64,
        issued: if has_lag { Loop::Open } else { Loop::Closed },
        classes: vec![class],
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::{border, is_log, run};

    #[test]
    fn a_log_of_transactions_is_a_run() {
        let text = "0 199 2241 0 1700000000 175835\n0 200 2465 0 1700000000 178298\n\
                    1 7 skipped 0 1700000001 1\n0 201 100000 0 1700000002 5\n";
        assert!(is_log(&text.lines().collect::<Vec<_>>()));
        let run = run(text).expect("a run");
        let class = &run.classes[0];
        assert_eq!((class.requests, run.seconds), (3, 3.0));
        assert_eq!(class.latency.percentile(1.0), Some(100_000_000));
        assert_eq!(class.line.len(), 2);
        assert!(run.notes.iter().any(|note| note.starts_with("1 transactions were skipped")));
    }

    #[test]
    fn a_border_has_three_digits_and_is_not_below_its_value() {
        assert_eq!(border(999), 999);
        assert_eq!(border(2_241_000), 2_250_000);
        assert!(border(u64::MAX) >= u64::MAX / 1000 * 999);
    }
}
