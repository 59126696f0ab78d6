//! `pg_stat_io`, and `pg_stat_wal` beside it (PostgreSQL 16 to 18).
//!
//! To 17, requests are of `op_bytes` each; from 18 on there are bytes, and the log is an object of
//! `pg_stat_io`. Counters grow from `stats_reset` on: two samples, or one and for how long.
//!
//! Invariants:
//!
//! 1. A blank cell does not apply to its row: it is none, and adds nothing.
//! 2. A counter that has fallen between two samples was reset: then there is no model.

use super::{
    ImportError, Options,
    samples::{self, Sheet},
    split,
};
use crate::model::{Class, Model, Totals};
use std::collections::BTreeMap;

const PAGE: f64 = 8192.0;
const TIMES: [&str; 8] = [
    "now",
    "sampled_at",
    "sample_time",
    "ts",
    "time",
    "current_timestamp",
    "clock_timestamp",
    "collected_at",
];

/// Requests, bytes and milliseconds of one class and direction.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    requests: f64,
    bytes: f64,
    time: f64,
}

pub(super) fn read(texts: &[&str], options: &Options) -> Result<Model, ImportError> {
    let mut io = Vec::new();
    let mut wal = Vec::new();
    for text in texts {
        for sheet in samples::sheets(text, is_head) {
            if sheet.column("backend_type").is_some() {
                io.extend(by_sample(&sheet));
            } else {
                wal.extend(sheet.rows.iter().map(|row| Sheet {
                    head: sheet.head.clone(),
                    rows: vec![row.clone()],
                    odd: 0,
                }));
            }
        }
    }
    let Some(last) = io.last() else {
        return Err(ImportError::new(
            "has no rows of pg_stat_io: give SELECT * FROM pg_stat_io as CSV or as psql prints it",
        ));
    };
    if last.column("reads").is_none() || last.column("writes").is_none() {
        return Err(ImportError::new(
            "has no columns reads and writes: give SELECT * FROM pg_stat_io",
        ));
    }
    let first = (io.len() > 1).then(|| &io[0]);
    let mut model = Model {
        source: "pg_stat_io".to_owned(),
        block_size: Some(PAGE as u64),
        ..Model::default()
    };
    let watched =
        texts.iter().find_map(|text| every(text)).map(|every| every * (io.len() as f64 - 1.0));
    model.elapsed = elapsed(first, last, watched, options)?;
    say_what_is_missing(&io, texts, &mut model);
    let mut sums = sums(last);
    if let Some(first) = first {
        check_resets(first, last)?;
        subtract(&mut sums, &self::sums(first))?;
    }
    let has_log = last.rows.iter().any(|row| last.cell(row, "object") == Some("wal"));
    if !has_log {
        add_wal(&mut sums, &wal, &mut model)?;
    }
    fill(&mut model, &sums);
    model.assumed.push("contexts bulkread, bulkwrite, vacuum and init are sequential".to_owned());
    if last.column("read_bytes").is_none() {
        model
            .assumed
            .push("a request is of op_bytes: PostgreSQL may have joined several".to_owned());
    }
    model.warnings.push(
        "reads may have come from the page cache of the system: fewer may have reached the disks"
            .to_owned(),
    );
    if model.streams.iter().all(|stream| stream.latency.is_none()) {
        model.missing.push("latencies: track_io_timing was off".to_owned());
    }
    if model.elapsed > 7200.0 {
        model.warnings.push(format!(
            "averages over {:.1} h: peaks are averaged away",
            model.elapsed / 3600.0
        ));
    }
    Ok(model)
}

/// Columns, rows and ends of lines.
fn say_what_is_missing(io: &[Sheet], texts: &[&str], model: &mut Model) {
    let Some(last) = io.last() else { return };
    for name in ["object", "context", "extends"] {
        if last.column(name).is_none() {
            model.missing.push(format!("column {name}"));
        }
    }
    if last.column("op_bytes").is_none() && last.column("read_bytes").is_none() {
        model.missing.push("column op_bytes".to_owned());
        model.assumed.push(format!("a request is of {PAGE} bytes"));
    }
    for kind in ["checkpointer", "client backend"] {
        let has = |sheet: &Sheet| {
            sheet.rows.iter().any(|row| sheet.cell(row, "backend_type") == Some(kind))
        };
        if !io.iter().all(has) {
            model.missing.push(format!("rows of {kind}: the file may be cut, or filtered"));
        }
    }
    let odd: usize = io.iter().map(|sheet| sheet.odd).sum();
    if odd > 0 {
        model.warnings.push(format!(
            "{odd} lines have not as many cells as the head, and are left out: the file is cut or \
             damaged"
        ));
    }
    if texts.iter().any(|text| !text.ends_with('\n')) {
        model.warnings.push("the last line has no end: it may be cut".to_owned());
    }
}

/// Counters that were reset between two samples may have grown all the same.
fn check_resets(first: &Sheet, last: &Sheet) -> Result<(), ImportError> {
    let reset = |sheet: &Sheet| {
        let row = sheet.rows.first()?;
        sheet.cell(row, "stats_reset").and_then(samples::seconds)
    };
    match (reset(first), reset(last)) {
        (Some(first), Some(last)) if first != last => Err(ImportError::new(
            "has two samples of which stats_reset differs: the counters were reset between; take \
             two anew",
        )),
        _ => Ok(()),
    }
}

/// Samples below one head: where a row comes again, another sample begins.
fn by_sample(sheet: &Sheet) -> Vec<Sheet> {
    let mut samples: Vec<Sheet> = Vec::new();
    let mut seen: BTreeMap<[&str; 3], usize> = BTreeMap::new();
    for row in &sheet.rows {
        let cell = |name: &str| sheet.cell(row, name).unwrap_or_default();
        let count =
            seen.entry([cell("backend_type"), cell("object"), cell("context")]).or_default();
        if samples.len() <= *count {
            samples.push(Sheet { head: sheet.head.clone(), ..Sheet::default() });
        }
        if let Some(sample) = samples.get_mut(*count) {
            sample.rows.push(row.clone());
        }
        *count += 1;
    }
    if let Some(last) = samples.last_mut() {
        last.odd = sheet.odd;
    }
    samples
}

fn is_head(cells: &[String]) -> bool {
    let has = |name: &str| cells.iter().any(|cell| cell.eq_ignore_ascii_case(name));
    (has("backend_type") && has("context")) || (has("wal_records") && has("wal_bytes"))
}

/// Seconds between the samples of psql's `\watch`: `(every 10s)`.
fn every(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once("(every ")?;
    rest.split_once("s)")?.0.trim().parse::<f64>().ok().filter(|every| *every > 0.0)
}

fn elapsed(
    first: Option<&Sheet>,
    last: &Sheet,
    watched: Option<f64>,
    options: &Options,
) -> Result<f64, ImportError> {
    let cell = |sheet: &Sheet, names: &[&str]| {
        let row = sheet.rows.first()?;
        names.iter().find_map(|name| samples::seconds(sheet.cell(row, name)?))
    };
    let end = cell(last, &TIMES);
    let begin = match first {
        Some(first) => cell(first, &TIMES),
        None => cell(last, &["stats_reset"]),
    };
    let by_time = begin.zip(end).map(|(begin, end)| end - begin);
    options.interval.or(by_time).or(watched).filter(|seconds| *seconds > 0.0).ok_or_else(|| {
        ImportError::new(if first.is_some() {
            "has two samples, and not how far they are apart: give --interval SECONDS, or a column \
             now() AS now"
        } else {
            "has one sample, and not for how long it has counted: give a second sample, or \
             --interval SECONDS since stats_reset"
        })
    })
}

type Sums = BTreeMap<(Class, bool), Sum>;

fn sums(sheet: &Sheet) -> Sums {
    let mut sums = Sums::new();
    for row in &sheet.rows {
        let object = sheet.cell(row, "object").unwrap_or("relation");
        let context = sheet.cell(row, "context").unwrap_or("normal");
        let (read, write) = match (object, context) {
            ("wal", _) => (Class::LargeRead, Class::LogWrite),
            (_, "normal") => (Class::RandomRead, Class::RandomWrite),
            _ => (Class::LargeRead, Class::LargeWrite),
        };
        let page = sheet.number(row, "op_bytes").filter(|size| *size > 0.0).unwrap_or(PAGE);
        for (class, requests, bytes, time) in [
            (read, "reads", "read_bytes", "read_time"),
            (write, "writes", "write_bytes", "write_time"),
            (write, "extends", "extend_bytes", "extend_time"),
        ] {
            let Some(requests) = sheet.number(row, requests) else { continue };
            let sum = sums.entry((class, class.reads())).or_default();
            sum.requests += requests;
            sum.bytes += sheet.number(row, bytes).unwrap_or(requests * page);
            sum.time += sheet.number(row, time).unwrap_or(0.0);
        }
    }
    sums
}

fn subtract(sums: &mut Sums, before: &Sums) -> Result<(), ImportError> {
    for (key, before) in before {
        let sum = sums.entry(*key).or_default();
        sum.requests -= before.requests;
        sum.bytes -= before.bytes;
        sum.time = (sum.time - before.time).max(0.0);
        if sum.requests < 0.0 || sum.bytes < 0.0 {
            return Err(ImportError::new(
                "has counters that fall from the first sample to the second: they were reset \
                 between, or the samples are in the wrong order",
            ));
        }
    }
    Ok(())
}

/// The log, of a release that has it in its own view.
fn add_wal(sums: &mut Sums, wal: &[Sheet], model: &mut Model) -> Result<(), ImportError> {
    let of = |sheet: &Sheet| {
        let row = sheet.rows.first()?;
        Some(Sum {
            requests: sheet.number(row, "wal_write")?,
            bytes: sheet.number(row, "wal_bytes")?,
            time: sheet.number(row, "wal_write_time").unwrap_or(0.0),
        })
    };
    let Some(last) = wal.last().and_then(of) else {
        model.missing.push("the log: give pg_stat_wal beside pg_stat_io".to_owned());
        return Ok(());
    };
    let key = (Class::LogWrite, false);
    let mut of_log = Sums::from([(key, last)]);
    if wal.len() > 1
        && let Some(first) = wal.first().and_then(of)
    {
        subtract(&mut of_log, &Sums::from([(key, first)]))?;
    }
    model.assumed.push("the log writes wal_bytes: whole pages may be more".to_owned());
    sums.append(&mut of_log);
    Ok(())
}

fn fill(model: &mut Model, sums: &Sums) {
    for ((class, is_read), sum) in sums {
        if sum.requests <= 0.0 {
            continue;
        }
        let (requests, bytes) = (sum.requests / model.elapsed, sum.bytes / model.elapsed);
        let totals = Totals {
            reads: if *is_read { requests } else { 0.0 },
            read_bytes: if *is_read { bytes } else { 0.0 },
            writes: if *is_read { 0.0 } else { requests },
            write_bytes: if *is_read { 0.0 } else { bytes },
        };
        model.totals = model.totals.plus(totals);
        let part = split::one(*class, requests, bytes, class.title(), &mut model.assumed);
        if let Some(mut stream) = part.stream() {
            if sum.time > 0.0 {
                stream.latency = Some(sum.time / sum.requests * 1e6);
                stream.latency_from =
                    Some(if *is_read { "read_time" } else { "write_time" }.to_owned());
            }
            model.streams.push(stream);
        }
    }
    model.residual = model.totals.minus(model.sums());
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::{import::Options, model::Class};

    const FIRST: &str = "\
backend_type,object,context,reads,read_time,writes,write_time,extends,extend_time,op_bytes,hits,now
client backend,relation,normal,1000,500,10,1,5,0,8192,1,2026-05-01 12:00:00+00
client backend,relation,bulkread,0,0,,,,,8192,1,2026-05-01 12:00:00+00
checkpointer,relation,normal,,,100,10,,,8192,,2026-05-01 12:00:00+00
";
    const SECOND: &str = "\
backend_type,object,context,reads,read_time,writes,write_time,extends,extend_time,op_bytes,hits,now
client backend,relation,normal,3000,1500,20,2,15,0,8192,1,2026-05-01 12:00:10+00
client backend,relation,bulkread,640,64,,,,,8192,1,2026-05-01 12:00:10+00
checkpointer,relation,normal,,,300,30,,,8192,,2026-05-01 12:00:10+00
";
    const WAL: &str = "\
 wal_records | wal_fpi | wal_bytes | wal_buffers_full | wal_write | wal_sync
-------------+---------+-----------+------------------+-----------+---------
          10 |       0 |   1000000 |                0 |       100 |      90
(1 row)
";

    #[test]
    fn two_samples_make_rates() {
        let model = read(&[FIRST, SECOND], &Options::default()).expect("a model");
        assert_eq!(model.elapsed, 10.0);
        let random = model.stream(Class::RandomRead).expect("random reads");
        assert_eq!((random.rate, random.size), (200.0, 8192));
        assert_eq!(random.latency, Some(500_000.0));
        let write = model.stream(Class::RandomWrite).expect("random writes");
        assert!((write.rate - 22.0).abs() < 1e-9, "writes, extends, those of the checkpointer");
        assert!(model.missing.iter().any(|text| text.contains("pg_stat_wal")), "{model:?}");
        assert_eq!(model.residual, crate::model::Totals::default());
    }

    #[test]
    fn the_log_of_a_release_to_17_is_in_its_own_view() {
        let options = Options { interval: Some(10.0), name: None };
        let model = read(&[SECOND, WAL], &options).expect("a model");
        let log = model.stream(Class::LogWrite).expect("the log");
        assert_eq!(log.rate, 10.0);
        assert!((log.mean() - 10_000.0).abs() < 10.0);
    }

    #[test]
    fn one_sample_without_interval_asks_for_it() {
        let text = SECOND.replace(",now\n", "\n").replace(",2026-05-01 12:00:10+00", "");
        let error = read(&[&text], &Options::default()).expect_err("no interval");
        assert!(error.to_string().contains("--interval"), "{error}");
    }

    #[test]
    fn counters_that_fall_are_refused() {
        let error = read(&[SECOND, FIRST], &Options { interval: Some(1.0), name: None });
        assert!(error.is_err());
    }

    #[test]
    fn release_18_has_bytes_and_the_log_as_an_object() {
        let text = "\
backend_type|object|context|reads|read_bytes|writes|write_bytes|extends|extend_bytes
io worker|relation|normal|100|1638400|||  |
client backend|wal|normal|||50|819200||
";
        let options = Options { interval: Some(10.0), name: None };
        let model = read(&[text], &options).expect("a model");
        assert_eq!(model.stream(Class::RandomRead).expect("reads").size, 16384);
        assert_eq!(model.stream(Class::LogWrite).expect("log").size, 16384);
    }
}
