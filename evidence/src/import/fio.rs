//! fio: its JSON result, with or without all bins (`json+`), and its job files.
//!
//! Invariants:
//!
//! 1. A bin's key is the middle of what the bin holds; the histogram has its upper border.
//! 2. Without bins the histogram is drawn through the percentiles, and a note says so.

use super::{ImportError, split};
use crate::{
    buckets::{Buckets, Moments},
    model::{Class, Model, Totals},
    run::{ClassRun, Loop, Run, VERSION},
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const JOBS_MAX: usize = 4096;
const LARGE: f64 = 65_536.0;

/// One direction of a job.
struct Measured {
    name: String,
    class: Class,
    requests: f64,
    bytes: f64,
    seconds: f64,
    errors: u64,
    latency: Buckets,
    mean: Option<f64>,
    is_estimated: bool,
}

fn parsed(text: &str) -> Result<Value, ImportError> {
    // With --status-interval there is one object after the other: the last is of the whole run.
    let mark = text.find("\"fio version\"").unwrap_or(text.len());
    let before = text.get(..mark).unwrap_or(text);
    let mut body = before.rfind('{').and_then(|at| text.get(at..)).unwrap_or(text);
    let mut last = None;
    loop {
        let mut values = serde_json::Deserializer::from_str(body).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => last = Some(value),
            Some(Err(error)) if last.is_none() => {
                return Err(ImportError::new(format!(
                    "is no whole JSON ({error}): it may be cut; let fio write it with \
                     --output=FILE"
                )));
            }
            _ => break,
        }
        let rest = body.get(values.byte_offset()..).unwrap_or_default();
        // Between them, fio may write to people.
        let next = rest.find("\n{").map(|at| at + 1).or_else(|| rest.find('{'));
        let Some(next) = next.and_then(|at| rest.get(at..)) else { break };
        let near = next.as_bytes().get(..next.len().min(200)).unwrap_or_default();
        if !String::from_utf8_lossy(near).contains("\"fio version\"") {
            break;
        }
        body = next;
    }
    last.ok_or_else(|| ImportError::new("is empty"))
}

fn results(value: &Value) -> Result<Vec<Measured>, ImportError> {
    let jobs = value.get("jobs").and_then(Value::as_array).ok_or_else(|| {
        ImportError::new("has no jobs: it is no result of fio --output-format=json")
    })?;
    let global = value.get("global options").and_then(Value::as_object);
    let mut results = Vec::new();
    for job in jobs.iter().take(JOBS_MAX) {
        let own = job.get("job options").and_then(Value::as_object);
        let option = |name: &str| {
            let of = |options: Option<&Map<String, Value>>| {
                options?.get(name)?.as_str().map(str::to_owned)
            };
            of(own).or_else(|| of(global))
        };
        let name = job.get("jobname").and_then(Value::as_str).unwrap_or("job");
        let directions = ["read", "write"].map(|direction| (direction, job.get(direction)));
        let is_used = |of: Option<&Value>| number(of, "total_ios").is_some_and(|count| count > 0.0);
        let both = directions.iter().all(|(_, of)| is_used(*of));
        for (direction, of) in directions {
            if !is_used(of) {
                continue;
            }
            let requests = number(of, "total_ios").unwrap_or(0.0);
            let bytes = bytes(of);
            let (latency, mean, is_estimated) = latency(of);
            let is_read = direction == "read";
            results.push(Measured {
                name: if both { format!("{name} {direction}") } else { name.to_owned() },
                class: class(name, is_read, bytes / requests, &option),
                requests,
                bytes,
                seconds: number(of, "runtime").unwrap_or(0.0) / 1000.0,
                errors: job
                    .get("error")
                    .and_then(Value::as_u64)
                    .map_or(0, |error| u64::from(error > 0)),
                latency,
                mean,
                is_estimated,
            });
        }
    }
    if results.is_empty() {
        return Err(ImportError::new("has no job that has read or written anything"));
    }
    Ok(results)
}

fn number(of: Option<&Value>, key: &str) -> Option<f64> {
    of?.get(key)?.as_f64().filter(|number| *number >= 0.0)
}

/// To release 2, `io_bytes` counted KiB.
fn bytes(of: Option<&Value>) -> f64 {
    let bytes = number(of, "io_bytes").unwrap_or(0.0);
    let by_rate = number(of, "bw").zip(number(of, "runtime")).map(|(bw, ms)| bw * ms * 1.024);
    let is_kib = of.is_some_and(|of| of.get("io_kbytes").is_none())
        && by_rate.is_some_and(|by_rate| bytes > 0.0 && by_rate / bytes > 100.0);
    if is_kib { bytes * 1024.0 } else { bytes }
}

fn class(name: &str, is_read: bool, size: f64, option: &dyn Fn(&str) -> Option<String>) -> Class {
    if let Some(class) = class_of_name(name).filter(|class| class.reads() == is_read) {
        return class;
    }
    let rw = option("rw").or_else(|| option("readwrite")).unwrap_or_default();
    let is_random = rw.starts_with("rand");
    let is_set = |name: &str| option(name).is_some_and(|value| value != "0" && value != "none");
    let is_durable = ["sync", "fsync", "fdatasync"].iter().any(|name| is_set(name));
    match (is_read, is_random) {
        (true, true) if size < LARGE * 2.0 => Class::RandomRead,
        (true, false) if size < LARGE => Class::RandomRead,
        (true, _) => Class::LargeRead,
        (false, false) if is_durable => Class::LogWrite,
        (false, true) if size < LARGE * 2.0 => Class::RandomWrite,
        (false, false) if size < LARGE => Class::RandomWrite,
        (false, _) => Class::LargeWrite,
    }
}

/// The class that a job or a workload is named after.
pub(super) fn class_of_name(name: &str) -> Option<Class> {
    let name = name.to_lowercase().replace(['_', ' '], "-");
    Class::ALL.into_iter().find(|class| name.contains(class.name()))
}

/// Histogram, mean, and whether the histogram is an estimate.
fn latency(of: Option<&Value>) -> (Buckets, Option<f64>, bool) {
    let kinds = [("lat_ns", 1.0), ("clat_ns", 1.0), ("lat", 1000.0), ("clat", 1000.0)];
    let found = |key: &str| {
        kinds.iter().find_map(|(kind, unit)| {
            let of = of?.get(kind)?;
            of.get(key)?.as_object().filter(|map| !map.is_empty()).map(|map| (of, map, *unit))
        })
    };
    let mean = kinds.iter().find_map(|(kind, unit)| {
        let mean = number(of?.get(kind), "mean")?;
        (mean > 0.0).then_some(mean * unit)
    });
    if let Some((kind, bins, unit)) = found("bins") {
        let pairs = bins.iter().filter_map(|(middle, count)| {
            let middle = (middle.parse::<u64>().ok()? as f64 * unit) as u64;
            Some((upper(middle), count.as_u64()?))
        });
        let mut buckets = Buckets::new(pairs);
        buckets.moments = moments(kind, unit, buckets.requests());
        let mean = buckets.mean().or(mean);
        return (buckets, mean, false);
    }
    if let Some((kind, percentiles, unit)) = found("percentile") {
        let requests = number(of, "total_ios").unwrap_or(0.0);
        let buckets = of_percentiles(percentiles, unit, requests, number(Some(kind), "max"));
        return (buckets, mean, true);
    }
    (Buckets::default(), mean, false)
}

fn moments(kind: &Value, unit: f64, requests: u64) -> Option<Moments> {
    let of = |key: &str| number(Some(kind), key).map(|value| value * unit);
    let (mean, deviation) = (of("mean")?, of("stddev").unwrap_or(0.0));
    let count = requests as f64;
    Some(Moments {
        sum: mean * count,
        sum_of_squares: (deviation * deviation + mean * mean) * count,
        min: of("min")? as u64,
        max: of("max")? as u64,
    })
}

/// The upper border of the bin of this middle: fio keeps six bits of a value.
fn upper(middle: u64) -> u64 {
    const KEPT: u32 = 6;
    let bits = u64::BITS - middle.leading_zeros();
    if bits <= KEPT + 1 {
        return middle;
    }
    let width = 1_u64 << (bits - 1 - KEPT);
    (middle & !(width - 1)).saturating_add(width - 1)
}

fn of_percentiles(
    percentiles: &Map<String, Value>,
    unit: f64,
    requests: f64,
    max: Option<f64>,
) -> Buckets {
    let mut points: Vec<(f64, u64)> = percentiles
        .iter()
        .filter_map(|(share, value)| {
            let share = share.parse::<f64>().ok().filter(|share| (0.0..=100.0).contains(share))?;
            Some((share / 100.0, (value.as_f64()? * unit) as u64))
        })
        .collect();
    if let Some(max) = max {
        points.push((1.0, (max * unit) as u64));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut seen = 0.0;
    let mut pairs = Vec::new();
    for (share, border) in points {
        let upto = (share * requests).round();
        pairs.push((border, (upto - seen).max(0.0) as u64));
        seen = upto.max(seen);
    }
    Buckets::new(pairs)
}

fn source(value: &Value) -> String {
    let version = value.get("fio version").and_then(Value::as_str).unwrap_or("fio");
    version.replace("fio-", "fio ")
}

pub(super) fn run(text: &str) -> Result<Run, ImportError> {
    let value = parsed(text)?;
    let results = results(&value)?;
    let seconds = results.iter().map(|result| result.seconds).fold(0.0, f64::max);
    let mut notes =
        vec!["fio counts latency from submission: a stall is seen by few requests".to_owned()];
    if results.iter().any(|result| result.is_estimated) {
        notes.push(
            "histograms are drawn through fio's percentiles: --output-format=json+ has all bins"
                .to_owned(),
        );
    }
    let classes = results.into_iter().map(|result| ClassRun {
        name: result.name,
        class: Some(result.class),
        requests: result.requests as u64,
        bytes: result.bytes as u64,
        errors: result.errors,
        latency: result.latency,
        mean: result.mean,
        line: Vec::new(),
    });
    let option = |name: &str| value.get("global options")?.get(name)?.as_str().map(str::to_owned);
    Ok(Run {
        version: VERSION,
        label: String::new(),
        source: source(&value),
        targets: option("filename").into_iter().collect(),
        began: None,
        seconds,
        issued: Loop::Closed,
        classes: classes.collect(),
        notes,
    })
}

pub(super) fn model(text: &str) -> Result<Model, ImportError> {
    let value = parsed(text)?;
    let results = results(&value)?;
    let mut model = Model { source: source(&value), ..Model::default() };
    let mut sums: BTreeMap<Class, (f64, f64, f64)> = BTreeMap::new();
    for result in &results {
        if result.seconds <= 0.0 {
            return Err(ImportError::new(format!("has job {} without a run time", result.name)));
        }
        model.elapsed = model.elapsed.max(result.seconds);
        let sum = sums.entry(result.class).or_default();
        sum.0 += result.requests / result.seconds;
        sum.1 += result.bytes / result.seconds;
        sum.2 += result.mean.unwrap_or(0.0) * result.requests / result.seconds;
    }
    model.assumed.push("classes by the jobs' names, patterns and sizes".to_owned());
    fill(&mut model, &sums, "fio");
    Ok(model)
}

/// Streams and totals of classes: requests and bytes a second, and nanoseconds of all requests.
pub(super) fn fill(model: &mut Model, sums: &BTreeMap<Class, (f64, f64, f64)>, from: &str) {
    for (class, (requests, bytes, time)) in sums {
        if *requests <= 0.0 {
            continue;
        }
        let read = if class.reads() { (*requests, *bytes) } else { (0.0, 0.0) };
        let write = if class.reads() { (0.0, 0.0) } else { (*requests, *bytes) };
        model.totals = model.totals.plus(Totals {
            reads: read.0,
            read_bytes: read.1,
            writes: write.0,
            write_bytes: write.1,
        });
        let part = split::one(*class, *requests, *bytes, class.title(), &mut model.assumed);
        if let Some(mut stream) = part.stream() {
            if *time > 0.0 {
                stream.latency = Some(time / requests);
                stream.latency_from = Some(from.to_owned());
            }
            model.streams.push(stream);
        }
    }
    model.residual = model.totals.minus(model.sums());
}

/// A job file: each section a job, with what `[global]` has.
pub(super) fn model_of_job(text: &str) -> Result<Model, ImportError> {
    let mut global = BTreeMap::new();
    let mut jobs: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    let mut in_global = false;
    for line in text.lines().take(100_000) {
        let line = line.trim();
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            in_global = name == "global";
            if !in_global {
                jobs.push((name.to_owned(), global.clone()));
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "1"));
        let pair = (key.trim().to_owned(), value.trim().to_owned());
        if in_global {
            global.extend([pair]);
        } else if let Some((_, options)) = jobs.last_mut() {
            options.extend([pair]);
        }
    }
    let mut sums: BTreeMap<Class, (f64, f64, f64)> = BTreeMap::new();
    for (name, options) in jobs.iter().take(JOBS_MAX) {
        add_job(name, options, &mut sums)?;
    }
    if sums.is_empty() {
        return Err(ImportError::new("has no job: give a section with rw= and rate_iops="));
    }
    let mut model = Model { source: "fio job file".to_owned(), ..Model::default() };
    fill(&mut model, &sums, "fio");
    Ok(model)
}

fn add_job(
    name: &str,
    options: &BTreeMap<String, String>,
    sums: &mut BTreeMap<Class, (f64, f64, f64)>,
) -> Result<(), ImportError> {
    let get = |key: &str| options.get(key).map(String::as_str);
    let rw = get("rw").or_else(|| get("readwrite")).unwrap_or("read");
    let jobs = get("numjobs").and_then(|jobs| jobs.parse::<f64>().ok()).unwrap_or(1.0);
    let mean =
        mean_size(get("bssplit"), get("bs").or_else(|| get("blocksize"))).ok_or_else(|| {
            ImportError::new(format!("has in job {name} a size that is none: give bs=8k"))
        })?;
    // Of reads, writes and trims; or one for all.
    let of_direction = |list: &str, at: usize| {
        let parts: Vec<&str> = list.split(',').map(str::trim).collect();
        parts.get(at).or_else(|| parts.first()).and_then(|part| size(part))
    };
    let is_mixed = rw.contains("rw");
    for (at, is_read) in [(0, true), (1, false)] {
        let has = is_mixed
            || rw.trim_start_matches("rand").starts_with(if is_read { "read" } else { "write" });
        if !has {
            continue;
        }
        let rate = match (get("rate_iops"), get("rate")) {
            (Some(list), _) => of_direction(list, at),
            (None, Some(list)) => of_direction(list, at).map(|bytes| bytes / mean),
            (None, None) => None,
        };
        let rate = rate.filter(|rate| *rate > 0.0).ok_or_else(|| {
            ImportError::new(format!(
                "has job {name} without a rate: a model needs rate_iops= for each job"
            ))
        })?;
        let option = |key: &str| options.get(key).cloned();
        let class = class(name, is_read, mean, &option);
        let sum = sums.entry(class).or_default();
        sum.0 += rate * jobs;
        sum.1 += rate * jobs * mean;
    }
    Ok(())
}

/// The mean of `7680/54:8192/46`, or of `bs`.
fn mean_size(split: Option<&str>, bs: Option<&str>) -> Option<f64> {
    let Some(split) = split else {
        let first = bs.unwrap_or("4k").split(',').next()?;
        return size(first).filter(|size| *size > 0.0);
    };
    let (mut sum, mut shares) = (0.0, 0.0);
    for part in split.split(',').next()?.split(':') {
        let (bytes, share) = part.split_once('/')?;
        let share = share.trim().parse::<f64>().ok().filter(|share| *share >= 0.0)?;
        sum += size(bytes)? * share;
        shares += share;
    }
    (shares > 0.0 && sum > 0.0).then(|| sum / shares)
}

/// `8k`, `1m`, `8192`: powers of 1024.
pub(super) fn size(text: &str) -> Option<f64> {
    let text = text.trim().to_lowercase();
    let text = text.strip_suffix("ib").or_else(|| text.strip_suffix('b')).unwrap_or(&text);
    let (digits, power) = [('k', 1), ('m', 2), ('g', 3), ('t', 4)]
        .into_iter()
        .find_map(|(letter, power)| Some((text.strip_suffix(letter)?, power)))
        .unwrap_or((text, 0));
    let number = digits.trim().parse::<f64>().ok()?;
    (number.is_finite() && number >= 0.0).then(|| number * 1024_f64.powi(power))
}

#[cfg(test)]
mod tests {
    use super::{model, model_of_job, run, upper};
    use crate::model::Class;

    const RESULT: &str = r#"fio: a warning
{"fio version": "fio-3.33", "global options": {"filename": "/dev/x"},
 "jobs": [{"jobname": "random-read", "job options": {"rw": "randread", "bs": "8k"}, "error": 0,
  "read": {"io_bytes": 8192000, "io_kbytes": 8000, "total_ios": 1000, "runtime": 10000, "bw": 800,
   "lat_ns": {"min": 100000, "max": 900000, "mean": 200000.0, "stddev": 50000.0},
   "clat_ns": {"min": 90000, "max": 890000, "mean": 190000.0, "stddev": 50000.0,
    "percentile": {"50.000000": 180000, "99.000000": 500000},
    "bins": {"181248": 900, "880640": 100}}},
  "write": {"io_bytes": 0, "total_ios": 0, "runtime": 0}}]}"#;

    #[test]
    fn bins_become_buckets_with_upper_borders() {
        let run = run(RESULT).expect("a run");
        let class = &run.classes[0];
        assert_eq!((class.class, class.requests), (Some(Class::RandomRead), 1000));
        assert_eq!(class.latency.requests(), 1000);
        assert_eq!(class.latency.mean(), Some(190_000.0));
        // 181248 is the middle of 180224 to 182271.
        assert_eq!(class.latency.counts()[0].0, 182_271);
        assert_eq!(upper(100), 100);
    }

    #[test]
    fn without_bins_the_percentiles_are_drawn_through() {
        let text = RESULT.replace("\"bins\": {\"181248\": 900, \"880640\": 100}", "\"x\": 1");
        let run = run(&text).expect("a run");
        let latency = &run.classes[0].latency;
        assert_eq!(latency.requests(), 1000);
        assert_eq!(latency.percentile(0.99), Some(500_000));
        assert!(run.notes.iter().any(|note| note.contains("json+")));
    }

    #[test]
    fn a_result_is_a_model() {
        let model = model(RESULT).expect("a model");
        let stream = model.stream(Class::RandomRead).expect("reads");
        assert_eq!((stream.rate, stream.size), (100.0, 8192));
    }

    #[test]
    fn a_job_file_is_a_model_if_it_has_rates() {
        let text = "[global]\nbs=8k\n[log-write]\nrw=write\nsync=1\nrate_iops=50\nnumjobs=2\n\
                    bssplit=7680/50:8192/50\n";
        let model = model_of_job(text).expect("a model");
        let log = model.stream(Class::LogWrite).expect("the log");
        assert_eq!((log.rate, log.mean()), (100.0, 7936.0));
        let error = model_of_job("[a]\nrw=read\n").expect_err("no rate");
        assert!(error.to_string().contains("rate_iops"), "{error}");
    }
}
