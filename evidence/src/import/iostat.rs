//! `iostat -x`: its old columns (`avgrq-sz`), its new ones (`rareq-sz`), and its JSON.
//!
//! Invariants:
//!
//! 1. A device that lies on another, such as `dm-0` on `sda`, is not added to it. Which lies on
//!    which is not in the file: logical ones (dm, md, loop) count only if there are no others.
//! 2. The first of several reports is since the start of the system, and is left out.
//! 3. Random and sequential cannot be told apart: one class each way.

use super::{ImportError, Options, numbers::Notation, split};
use crate::{
    buckets::Buckets,
    model::{Class, Model, Totals},
    run::{ClassRun, Loop, Point, Run, VERSION},
};
use serde_json::Value;
use std::collections::BTreeMap;

const KIB: f64 = 1024.0;
const SECTOR: f64 = 512.0;
const REPORTS_MAX: usize = 200_000;
/// How far the bytes of a direction may be rounded before the mean size of both counts more.
const ERROR_MAX: f64 = 0.05;

/// Requests and bytes of a device, a second.
#[derive(Debug, Clone, Copy, Default)]
struct Activity {
    reads: f64,
    read_bytes: f64,
    /// Milliseconds of all of them.
    read_time: f64,
    writes: f64,
    write_bytes: f64,
    write_time: f64,
    /// The sizes of the file are too coarse: both directions have one mean size.
    is_coarse: bool,
}

type Report = BTreeMap<String, Activity>;

/// The reports of a file.
#[derive(Default)]
struct Reports {
    all: Vec<Report>,
    host: String,
    /// Seconds that the reports that count are for, where the file has points of time.
    elapsed: Option<f64>,
    warnings: Vec<String>,
}

pub(super) fn model(text: &str, options: &Options) -> Result<Model, ImportError> {
    of_reports(&reports(text)?, options)
}

pub(super) fn model_of_json(text: &str, options: &Options) -> Result<Model, ImportError> {
    of_reports(&json_reports(text)?, options)
}

pub(super) fn run(text: &str) -> Result<Run, ImportError> {
    let reports = reports(text)?;
    run_of_reports(&reports.all, reports.host)
}

pub(super) fn run_of_json(text: &str) -> Result<Run, ImportError> {
    let reports = json_reports(text)?;
    run_of_reports(&reports.all, reports.host)
}

/// `Linux 6.1.0 (host) ...`
fn host(text: &str) -> String {
    let line = text.lines().find(|line| line.contains('('));
    let inner = line.and_then(|line| line.split_once('(')?.1.split_once(')'));
    inner.map(|(host, _)| host.to_owned()).unwrap_or_default()
}

fn reports(text: &str) -> Result<Reports, ImportError> {
    let cells = text.lines().flat_map(|line| line.split_whitespace().skip(1).take(24));
    let notation = Notation::of(cells).unwrap_or_default();
    let mut reports = Reports { host: host(text), ..Reports::default() };
    let mut head: Option<Vec<&str>> = None;
    let mut times = Vec::new();
    let (mut is_indented, mut odd) = (false, 0_usize);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        // Half a line at the end has half a number.
        if lines.peek().is_none() && !text.ends_with('\n') {
            break;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first() else {
            head = None;
            continue;
        };
        if first.trim_end_matches(':') == "Device" {
            if reports.all.len() >= REPORTS_MAX {
                break;
            }
            is_indented = line.starts_with(' ');
            head = Some(words);
            reports.all.push(Report::new());
            continue;
        }
        let Some(head) = &head else {
            times.extend(point_of_time(line));
            continue;
        };
        // A group (-g) is the sum of its devices, and indented.
        if line.starts_with(' ') && !is_indented {
            continue;
        }
        let number = |name: &str| {
            let at = head.iter().position(|cell| *cell == name)?;
            notation.count(words.get(at)?).map(|number| (number.value, number.step))
        };
        let activity = if words.len() == head.len() { activity(number) } else { None };
        match (activity, reports.all.last_mut()) {
            (Some(activity), Some(report)) => {
                report.insert((*first).to_owned(), activity);
            }
            _ => odd += 1,
        }
    }
    if odd > 0 {
        reports.warnings.push(format!("{odd} lines of devices cannot be read, and are left out"));
    }
    drop_cut(&mut reports, text);
    reports.all.retain(|report| !report.is_empty());
    if reports.all.is_empty() {
        return Err(ImportError::new(
            "has no device whose figures can be read: it needs r/s, w/s and the sizes of iostat -x",
        ));
    }
    reports.elapsed = between(&times, reports.all.len());
    Ok(reports)
}

/// From the first report, which does not count, to the last.
fn between(times: &[f64], reports: usize) -> Option<f64> {
    let seconds = times.get(reports.checked_sub(1)?)? - times.first()?;
    // Past midnight.
    let seconds = if seconds < 0.0 { seconds + 86_400.0 } else { seconds };
    (seconds > 0.0).then_some(seconds)
}

/// Leaves out the last report if its end is missing, and with it some of its devices.
fn drop_cut(reports: &mut Reports, text: &str) {
    let has_end = text.trim_end_matches('\r').ends_with("\n\n")
        || text.ends_with("\n\r\n")
        || text.ends_with("\n \n");
    let count = reports.all.len();
    let before = count.checked_sub(2).and_then(|at| reports.all.get(at)).map(Report::len);
    let last = reports.all.last().map(Report::len);
    if !has_end && before > last && last.is_some() {
        reports.all.pop();
        reports.warnings.push(
            "the last report is cut: some devices are missing, and it is left out".to_owned(),
        );
    }
}

/// `11/29/2026 04:08:11 PM`, `2026-11-29T16:08:11+0000` (-t): seconds of the day.
fn point_of_time(line: &str) -> Option<f64> {
    let line = line.trim();
    if !line.starts_with(|c: char| c.is_ascii_digit()) || line.len() > 40 {
        return None;
    }
    let clock = line.split(['T', ' ', '\t']).find(|word| word.contains(':'))?;
    let mut parts = clock
        .split(['+', '-', 'Z'])
        .next()?
        .splitn(3, ':')
        .map(|part| part.parse::<f64>().ok().filter(|number| (0.0..61.0).contains(number)));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let hour = match line.rsplit(' ').next() {
        Some("PM" | "pm") if hour < 12.0 => hour + 12.0,
        Some("AM" | "am") if hour == 12.0 => 0.0,
        _ => hour,
    };
    Some(hour * 3600.0 + minute * 60.0 + second)
}

fn json_reports(text: &str) -> Result<Reports, ImportError> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        ImportError::new(format!("is no whole JSON ({error}): it may be cut; write it anew"))
    })?;
    let host = value.pointer("/sysstat/hosts/0");
    let name = host.and_then(|host| host.get("nodename")?.as_str()).unwrap_or_default().to_owned();
    let statistics = host.and_then(|host| host.get("statistics")?.as_array());
    let mut reports = Reports { host: name, ..Reports::default() };
    let mut times = Vec::new();
    for statistic in statistics.into_iter().flatten().take(REPORTS_MAX) {
        let mut report = Report::new();
        for disk in statistic.get("disk").and_then(Value::as_array).into_iter().flatten() {
            let number = |name: &str| {
                let number = disk.get(name)?.as_f64().filter(|number| *number >= 0.0)?;
                Some((number, 0.01))
            };
            let device = disk.get("disk_device").and_then(Value::as_str);
            if let Some((device, activity)) = device.zip(activity(number)) {
                report.insert(device.to_owned(), activity);
            }
        }
        if !report.is_empty() {
            reports.all.push(report);
            times
                .extend(statistic.get("timestamp").and_then(Value::as_str).and_then(point_of_time));
        }
    }
    if reports.all.is_empty() {
        return Err(ImportError::new("has no devices with r/s and w/s: run iostat -x -o JSON"));
    }
    reports.elapsed = between(&times, reports.all.len());
    Ok(reports)
}

/// From columns, each with the unit of its last digit.
fn activity(number: impl Fn(&str) -> Option<(f64, f64)>) -> Option<Activity> {
    let (reads, writes) = (number("r/s")?, number("w/s")?);
    let scaled =
        |name: &str, factor: f64| number(name).map(|(value, step)| (value * factor, step * factor));
    let mean = number("avgrq-sz").map(|(sectors, _)| sectors * SECTOR);
    let mean = mean.or_else(|| number("areq-sz").map(|(size, _)| size * KIB));
    let bytes = |requests: (f64, f64), letter: char| {
        let rate = scaled(&format!("{letter}kB/s"), KIB)
            .or_else(|| scaled(&format!("{letter}MB/s"), KIB * KIB))
            .or_else(|| scaled(&format!("{letter}sec/s"), SECTOR));
        let size = scaled(&format!("{letter}areq-sz"), KIB);
        let error = |(value, step): (f64, f64)| {
            if value > 0.0 { step / 2.0 / value } else { f64::INFINITY }
        };
        if requests.0 == 0.0 {
            return Some((0.0, 0.0));
        }
        let by_size = size.map(|size| (requests.0 * size.0, error(size)));
        let by_rate = rate.map(|rate| (rate.0, error(rate)));
        by_size.into_iter().chain(by_rate).min_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (mut read_bytes, mut write_bytes) = (bytes(reads, 'r')?, bytes(writes, 'w')?);
    let is_coarse = read_bytes.1.max(write_bytes.1) > ERROR_MAX && mean.is_some();
    if let Some(mean) = mean.filter(|_| is_coarse) {
        read_bytes.0 = reads.0 * mean;
        write_bytes.0 = writes.0 * mean;
    }
    let wait = |name: &str| number(name).or_else(|| number("await")).map_or(0.0, |wait| wait.0);
    Some(Activity {
        reads: reads.0,
        read_bytes: read_bytes.0,
        read_time: reads.0 * wait("r_await"),
        writes: writes.0,
        write_bytes: write_bytes.0,
        write_time: writes.0 * wait("w_await"),
        is_coarse,
    })
}

/// The devices that lie on no other.
fn lowest(reports: &[Report]) -> Vec<String> {
    let mut names: Vec<String> = reports.iter().flat_map(|report| report.keys().cloned()).collect();
    names.sort();
    names.dedup();
    let is_logical = |name: &String| {
        [
            "dm-", "md", "loop", "drbd", "zram", "ram", "sr", "fd", "bcache", "zd", "nbd", "asm",
            "mpath", "emcpower",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
            || name.contains('/')
            || name.contains("-")
    };
    let is_partition =
        |name: &String| is_path(name) || names.iter().any(|whole| is_partition_of(name, whole));
    let is_busy = |name: &&String| {
        reports.iter().filter_map(|report| report.get(*name)).any(|a| a.reads + a.writes > 0.0)
    };
    let whole: Vec<String> = names.iter().filter(|name| !is_partition(name)).cloned().collect();
    let physical: Vec<String> = whole.iter().filter(|name| !is_logical(name)).cloned().collect();
    if physical.iter().any(|name| is_busy(&name)) { physical } else { whole }
}

/// `sda1` of `sda`, `nvme0n1p1` of `nvme0n1`.
fn is_partition_of(name: &str, whole: &str) -> bool {
    let Some(rest) = name.strip_prefix(whole) else { return false };
    let digits = match rest.strip_prefix('p') {
        Some(digits) => digits,
        // `sda11` is no partition of `sda1`.
        None if whole.ends_with(|c: char| c.is_ascii_digit()) => return false,
        None => rest,
    };
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// `nvme0c1n1`, one of the paths to `nvme0n1`.
fn is_path(name: &str) -> bool {
    let Some((controller, rest)) = name.strip_prefix("nvme").and_then(|rest| rest.split_once('c'))
    else {
        return false;
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_digits(controller) && rest.split_once('n').is_some_and(|(a, b)| is_digits(a) && is_digits(b))
}

fn summed(report: &Report, devices: &[String]) -> Activity {
    let mut sum = Activity::default();
    for activity in devices.iter().filter_map(|device| report.get(device)) {
        sum.reads += activity.reads;
        sum.read_bytes += activity.read_bytes;
        sum.read_time += activity.read_time;
        sum.writes += activity.writes;
        sum.write_bytes += activity.write_bytes;
        sum.write_time += activity.write_time;
        sum.is_coarse |= activity.is_coarse;
    }
    sum
}

/// Those that count: without the one since the start of the system.
fn counted(reports: &[Report]) -> &[Report] {
    if reports.len() > 1 { reports.get(1..).unwrap_or(reports) } else { reports }
}

fn of_reports(found: &Reports, options: &Options) -> Result<Model, ImportError> {
    let mut model = Model {
        name: found.host.clone(),
        source: "iostat".to_owned(),
        warnings: found.warnings.clone(),
        ..Model::default()
    };
    let reports = found.all.as_slice();
    let counted = counted(reports);
    let devices = lowest(counted);
    let count = counted.len() as f64;
    let mut sum = Activity::default();
    for report in counted {
        let of = summed(report, &devices);
        sum.reads += of.reads / count;
        sum.read_bytes += of.read_bytes / count;
        sum.read_time += of.read_time / count;
        sum.writes += of.writes / count;
        sum.write_bytes += of.write_bytes / count;
        sum.write_time += of.write_time / count;
        sum.is_coarse |= of.is_coarse;
    }
    if reports.len() > 1 {
        model
            .assumed
            .push("the first report is since the start of the system, and left out".to_owned());
    } else {
        model.warnings.push(
            "one report only: averages since the start of the system; run iostat -x 10 for a while"
                .to_owned(),
        );
    }
    match options.interval.map(|interval| interval * count).or(found.elapsed) {
        Some(elapsed) => model.elapsed = elapsed,
        None => model.missing.push("the interval between reports: give --interval".to_owned()),
    }
    model.assumed.push(format!("I/O of {}: others lie on these", devices.join(", ")));
    model.warnings.push(
        "random and sequential cannot be told apart: one class of reads, one of writes".to_owned(),
    );
    if sum.is_coarse {
        model
            .missing
            .push("sizes of reads and of writes: MB with two decimals are too coarse".to_owned());
        model.assumed.push("reads and writes have the mean size of both".to_owned());
    }
    model.totals = Totals {
        reads: sum.reads,
        read_bytes: sum.read_bytes,
        writes: sum.writes,
        write_bytes: sum.write_bytes,
    };
    for (class, requests, bytes, time, from) in [
        (Class::RandomRead, sum.reads, sum.read_bytes, sum.read_time, "r_await"),
        (Class::RandomWrite, sum.writes, sum.write_bytes, sum.write_time, "w_await"),
    ] {
        if requests <= 0.0 {
            continue;
        }
        let part = split::one(class, requests, bytes, class.title(), &mut model.assumed);
        if let Some(mut stream) = part.stream() {
            if time > 0.0 {
                stream.latency = Some(time / requests * 1e6);
                stream.latency_from = Some(from.to_owned());
            }
            model.streams.push(stream);
        }
    }
    model.residual = model.totals.minus(model.sums());
    Ok(model)
}

fn run_of_reports(reports: &[Report], host: String) -> Result<Run, ImportError> {
    let counted = counted(reports);
    let devices = lowest(counted);
    let classes = ["read", "write"].map(|name| {
        let line: Vec<Point> = counted
            .iter()
            .enumerate()
            .map(|(at, report)| {
                let of = summed(report, &devices);
                let (requests, bytes, time) = if name == "read" {
                    (of.reads, of.read_bytes, of.read_time)
                } else {
                    (of.writes, of.write_bytes, of.write_time)
                };
                let mean = if requests > 0.0 { time / requests * 1e6 } else { 0.0 };
                Point {
                    at: at as f64,
                    length: 1.0,
                    requests: requests.round() as u64,
                    bytes: bytes.round() as u64,
                    mean,
                    deviation: 0.0,
                    p99: 0.0,
                    max: 0.0,
                }
            })
            .collect();
        let requests: u64 = line.iter().map(|point| point.requests).sum();
        let time: f64 = line.iter().map(|point| point.mean * point.requests as f64).sum();
        ClassRun {
            name: name.to_owned(),
            class: None,
            requests,
            bytes: line.iter().map(|point| point.bytes).sum(),
            errors: 0,
            latency: Buckets::default(),
            mean: (requests > 0).then(|| time / requests as f64),
            line,
        }
    });
    Ok(Run {
        version: VERSION,
        label: host,
        source: "iostat".to_owned(),
        targets: devices,
        began: None,
        seconds: counted.len() as f64,
        issued: Loop::Unknown,
        classes: classes.into_iter().filter(|class| class.requests > 0).collect(),
        notes: vec![
            "iostat does not tell its interval: each report counts as one second".to_owned(),
            "iostat has means only: no histograms, no percentiles".to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::model;
    use crate::{import::Options, model::Class};

    const OLD: &str = include_str!("../../tests/generator/iostat-old.txt");

    #[test]
    fn a_device_that_lies_on_another_is_not_added() {
        let model = model(OLD, &Options::default()).expect("a model");
        let reads = model.stream(Class::RandomRead).expect("reads");
        assert!((reads.rate - 0.13).abs() < 1e-9);
        assert!((reads.mean() / 1024.0 - 40.5).abs() < 0.1, "{reads:?}");
        assert_eq!(reads.latency, Some(530_000.0));
    }

    #[test]
    fn megabytes_with_two_decimals_have_no_sizes_and_it_is_said_so() {
        let text = OLD
            .replace("rkB/s", "rMB/s")
            .replace("wkB/s", "wMB/s")
            .replace("5.27", "0.01")
            .replace("1.10", "0.00");
        let model = model(&text, &Options::default()).expect("a model");
        let reads = model.stream(Class::RandomRead).expect("reads");
        assert!((reads.mean() / 1024.0 - 26.3).abs() < 0.1, "{reads:?}");
        assert!(model.missing.iter().any(|text| text.contains("coarse")));
    }

    #[test]
    fn a_decimal_comma_is_a_decimal_point() {
        let model = model(&OLD.replace('.', ","), &Options::default()).expect("a model");
        assert!((model.totals.reads - 0.13).abs() < 1e-9);
    }
}
