//! The model of a report.

use super::super::{
    numbers::Number,
    split::{self, Flow, Redo},
};
use super::{ImportError, Report};
use crate::model::{Class, Model, Totals, Waits};

const DEFAULT_BLOCK: f64 = 8192.0;
const LOG_BLOCK: f64 = 512.0;
/// Of averages: from here on peaks have gone.
const LONG: f64 = 2.0 * 3600.0;
/// How far a rate that the report has rounded may be off before another is taken.
const ERROR_MAX: f64 = 0.04;
/// From here on it is said how far a figure is rounded.
const ROUNDED: f64 = 0.002;

const READS: &str = "physical read total IO requests";
const LARGE_READS: &str = "physical read total multi block requests";
const READ_BYTES: &str = "physical read total bytes";
const WRITES: &str = "physical write total IO requests";
const LARGE_WRITES: &str = "physical write total multi block requests";
const WRITE_BYTES: &str = "physical write total bytes";

struct Maker<'a> {
    report: &'a Report,
    model: Model,
}

pub(super) fn make(report: &Report) -> Result<Model, ImportError> {
    let release = report.header.release.as_deref().unwrap_or("").trim();
    let source = [report.program, release, report.form];
    let source =
        source.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(" ");
    let model = Model {
        name: report.header.name.clone().filter(|name| !name.is_empty()).unwrap_or_default(),
        source,
        elapsed: report.statistics.elapsed.or(report.header.elapsed).unwrap_or(0.0),
        ..Model::default()
    };
    let mut maker = Maker { report, model };
    if maker.model.name.is_empty() {
        maker.model.name = report.header.instance.clone().unwrap_or_default();
    }
    for column in &report.statistics.columns_missing {
        maker.model.missing.push((*column).to_owned());
    }
    let block = maker.block();
    let (read, write) = maker.flows(block)?;
    let redo = maker.redo();
    let mut assumed = Vec::new();
    let mut parts = split::reads(read, block, &mut assumed);
    parts.extend(split::writes(write, redo, block, &mut assumed));
    let mut model = maker.model;
    model.assumed.append(&mut assumed);
    model.streams = parts.into_iter().filter_map(split::Part::stream).collect();
    model.totals = Totals {
        reads: read.requests,
        read_bytes: read.bytes,
        writes: write.requests,
        write_bytes: write.bytes,
    };
    model.residual = model.totals.minus(model.sums());
    add_latencies(report, &mut model);
    add_warnings(report, &mut model);
    Ok(model)
}

impl Maker<'_> {
    fn block(&mut self) -> f64 {
        match self.report.header.block_size {
            Some(size) => {
                self.model.block_size = Some(size as u64);
                size
            }
            None if self.report.statistics.block_size().is_some() => {
                let size = self.report.statistics.block_size().unwrap_or(DEFAULT_BLOCK);
                self.model.block_size = Some(size as u64);
                self.model.missing.push("block size in the header".to_owned());
                self.model.assumed.push(format!(
                    "a database block is of {size} bytes: bytes read by blocks read"
                ));
                size
            }
            None => {
                self.model.missing.push("block size".to_owned());
                self.model.assumed.push("a database block is of 8192 bytes".to_owned());
                DEFAULT_BLOCK
            }
        }
    }

    /// A statistic a second. If it is not there, says so.
    fn rate(&mut self, name: &str) -> Option<f64> {
        let statistics = &self.report.statistics;
        let rate = statistics.rate(name);
        if statistics.is_damaged(name) {
            let text = format!("{name}: its total and its rate cannot be read, or do not agree");
            self.model.missing.push(text);
        } else if rate.is_none() {
            self.model.missing.push(name.to_owned());
        }
        rate
    }

    /// Reads and writes: by the statistics, and a figure that they do not have by the I/O profile.
    fn flows(&mut self, block: f64) -> Result<(Flow, Flow), ImportError> {
        let statistics = &self.report.statistics;
        let profile = self.report.profile.unwrap_or_default();
        let figures = [
            (READS, profile.reads),
            (READ_BYTES, profile.read_bytes),
            (WRITES, profile.writes),
            (WRITE_BYTES, profile.write_bytes),
        ];
        let lacks = |name: &str| statistics.rate(name).is_none();
        let is_profile = figures.iter().any(|(name, _)| lacks(name));
        let is_total = figures.iter().all(|(name, _)| lacks(name)) && profile.total.is_some();
        for (name, of_profile) in figures {
            let is_bytes = [READ_BYTES, WRITE_BYTES].contains(&name);
            if self.rate(name).is_none() && of_profile.is_none() && !(is_bytes && is_total) {
                return Err(self.nothing());
            }
        }
        let large = (self.rate(LARGE_READS), self.rate(LARGE_WRITES));
        if is_profile {
            self.model.warnings.push(
                "from the I/O profile, whose figures are rounded to 0.1, where the statistics are \
                 missing"
                    .to_owned(),
            );
        }
        let totals = (profile.reads, profile.writes, profile.total);
        let read = (profile.reads, profile.read_bytes);
        let write = (profile.writes, profile.write_bytes);
        let mut read = self.flow((READS, READ_BYTES), read, totals, block);
        let mut write = self.flow((WRITES, WRITE_BYTES), write, totals, block);
        (read.large, write.large) = large;
        // Of both nothing is left: then the block is no figure of the report, but a guess.
        let is_lost = |number: Option<Number>| number.is_none_or(|number| number.value <= 0.0);
        let is_guess = lacks(READ_BYTES) && lacks(WRITE_BYTES) && is_lost(profile.total);
        if is_guess || (is_profile && read.requests + write.requests <= 0.0) {
            return Err(self.nothing());
        }
        Ok((read, write))
    }

    fn nothing(&self) -> ImportError {
        let missing = self.model.missing.iter().map(|name| format!("\"{name}\""));
        let missing = missing.collect::<Vec<_>>().join(", ");
        let profile = if self.report.profile.is_some() {
            "its I/O profile is too coarse"
        } else {
            "it has no I/O profile"
        };
        ImportError::new(format!(
            "has no I/O totals (not there: {missing}), and {profile}: write the whole report \
             anew, with the section \"Instance Activity Stats\""
        ))
    }

    /// One direction. Figures of the I/O profile are named, with how far they are rounded.
    fn flow(
        &mut self,
        (requests_name, bytes_name): (&str, &str),
        (requests, bytes): (Option<Number>, Option<Number>),
        (reads, writes, total): (Option<Number>, Option<Number>, Option<Number>),
        block: f64,
    ) -> Flow {
        let statistics = &self.report.statistics;
        let what = if requests_name == READS { "reads" } else { "writes" };
        let mut take = |of_statistics: Option<f64>, of_profile: Option<Number>, name: &str| {
            of_statistics.unwrap_or_else(|| {
                let number = of_profile.unwrap_or(Number { value: 0.0, step: 0.0 });
                if number.value > 0.0 && number.error() > ROUNDED {
                    self.model.warnings.push(format!(
                        "{name}: up to {:.0} % off, as the I/O profile rounds it",
                        (number.error() * 100.0).ceil()
                    ));
                }
                number.value
            })
        };
        let requests = take(statistics.rate(requests_name), requests, requests_name);
        let rate = statistics.rate(bytes_name);
        if rate.is_none() && bytes.is_none() {
            let all = reads.map_or(0.0, |n| n.value) + writes.map_or(0.0, |n| n.value);
            let mean = total.map_or(0.0, |n| n.value) / all.max(f64::MIN_POSITIVE);
            self.model.assumed.push(format!("{what} are of the mean size of reads and writes"));
            return Flow { requests, large: None, bytes: requests * mean };
        }
        let bytes = take(rate, bytes, bytes_name);
        match (requests > 0.0, bytes > 0.0) {
            // Few requests of the profile are 0.0 MB.
            (true, false) if rate.is_none() => {
                self.model.assumed.push(format!(
                    "{what} are of one block of {block} bytes: the I/O profile rounds their bytes \
                     to nothing"
                ));
                Flow { requests, large: None, bytes: requests * block }
            }
            (false, true) if statistics.rate(requests_name).is_none() => {
                self.model.warnings.push(format!(
                    "{what}: none, for the I/O profile rounds their requests to nothing"
                ));
                Flow::default()
            }
            _ => Flow { requests, large: None, bytes },
        }
    }

    /// Redo: requests as the log writer made them, bytes as its blocks times members.
    fn redo(&mut self) -> Option<Redo> {
        let statistics = &self.report.statistics;
        let profile = self.report.profile;
        let writes = statistics.rate("redo writes");
        let blocks = statistics.rate("redo blocks written").map(|blocks| blocks * LOG_BLOCK);
        let size = statistics
            .rate("redo size")
            .map(|size| size + statistics.rate("redo wastage").unwrap_or(0.0));
        let has_wastage = statistics.rate("redo wastage").is_some();
        let log_writer = self.report.log_writer;
        if blocks.is_none() {
            self.rate("redo blocks written");
            self.assume(match (size.is_some(), has_wastage) {
                (true, true) => "redo is of redo size and redo wastage, without its block heads",
                (true, false) => "redo is of redo size, without wastage and block heads",
                _ => "redo is of the size that other figures leave",
            });
        }
        let payload = blocks.or(size);
        if log_writer.is_none() {
            self.model.missing.push("IOStat by Function: LGWR".to_owned());
        }
        let Some(writes) = writes else {
            self.rate("redo writes");
            let of_profile = || {
                let profile = profile?;
                let requests = profile.redo_writes.filter(|number| number.value > 0.0)?.value;
                let bytes = profile.redo_bytes.map(|number| number.value);
                Some(Redo { requests, bytes: bytes.filter(|bytes| *bytes > 0.0).or(payload) })
            };
            if let Some(redo) = self.redo_of_log_writer(payload) {
                self.assume("redo is as many writes as the log writer makes");
                return Some(redo);
            }
            let redo = of_profile();
            self.assume(if redo.is_some() {
                "redo is as many writes as the I/O profile has"
            } else {
                "redo cannot be told apart: it is among the other writes"
            });
            return redo;
        };
        let members = self.members(writes, payload);
        if members > 1.0 {
            self.assume(&format!("log groups of {members:.0} members"));
        } else if log_writer.is_none() {
            self.assume("log groups of one member: nothing tells how many");
        }
        let exact = log_writer.map(|log| log.requests).filter(|number| number.error() <= ERROR_MAX);
        let requests = match exact {
            // Requests that were split are more than the writes, never less.
            Some(number) if number.value >= writes * 0.5 => number.value,
            _ => writes * members,
        };
        Some(Redo { requests, bytes: payload.map(|bytes| bytes * members) })
    }

    fn assume(&mut self, text: &str) {
        self.model.assumed.push(text.to_owned());
    }

    fn redo_of_log_writer(&mut self, payload: Option<f64>) -> Option<Redo> {
        let log = self.report.log_writer?;
        let bytes = self.log_bytes().or(payload);
        (log.requests.value > 0.0).then_some(Redo { requests: log.requests.value, bytes })
    }

    /// Bytes that the log writer wrote a second, by the figure that is printed more exactly.
    fn log_bytes(&self) -> Option<f64> {
        let log = self.report.log_writer?;
        let data = log.data.filter(|_| self.model.elapsed > 0.0);
        let by_data = data.map(|data| (data.error(), data.value / self.model.elapsed));
        let by_rate = log.rate.map(|rate| (rate.error(), rate.value));
        let best = by_data.into_iter().chain(by_rate).min_by(|a, b| a.0.total_cmp(&b.0))?;
        (best.0 <= 0.25 && best.1 > 0.0).then_some(best.1)
    }

    /// How many members a log group has.
    fn members(&self, writes: f64, payload: Option<f64>) -> f64 {
        let by_bytes = self.log_bytes().zip(payload.filter(|bytes| *bytes > 0.0));
        let by_requests = self.report.log_writer.filter(|log| log.requests.error() <= ERROR_MAX);
        if writes <= 0.0 {
            return 1.0;
        }
        let ratio = by_bytes
            .map(|(all, payload)| all / payload)
            .or_else(|| by_requests.map(|log| log.requests.value / writes))
            .unwrap_or(1.0);
        ratio.round().clamp(1.0, 5.0)
    }
}

/// The latency of each class: of the event that was waited for most.
fn add_latencies(report: &Report, model: &mut Model) {
    let classes: Vec<Class> = model.streams.iter().map(|stream| stream.class).collect();
    for stream in &mut model.streams {
        // One class of all reads, or of all writes, has the events of both.
        let other = match stream.class {
            Class::RandomRead => Some(Class::LargeRead),
            Class::RandomWrite => Some(Class::LargeWrite),
            _ => None,
        };
        let others = other.filter(|class| !classes.contains(class)).map_or(&[][..], events_of);
        let own = events_of(stream.class);
        let events = report
            .events
            .iter()
            .filter(|event| own.contains(&event.name) || others.contains(&event.name));
        let most = events
            .filter(|event| event.mean().is_some())
            .max_by(|a, b| a.waits().total_cmp(&b.waits()));
        if let Some(event) = most {
            stream.latency = event.mean();
            stream.latency_from = Some(event.name.to_owned());
        }
    }
    model.waits = report
        .events
        .iter()
        .map(|event| Waits {
            event: event.name.to_owned(),
            buckets: event.buckets.clone(),
            mean: event.mean(),
        })
        .collect();
    if report.events.is_empty() {
        model.missing.push("wait events: no latencies".to_owned());
    } else if report.events.iter().all(|event| event.buckets.is_empty()) {
        model.missing.push("wait event histograms".to_owned());
    }
}

fn events_of(class: Class) -> &'static [&'static str] {
    match class {
        Class::RandomRead => &["db file sequential read"],
        Class::LargeRead => {
            &["direct path read", "db file scattered read", "direct path read temp"]
        }
        Class::RandomWrite => &["db file parallel write"],
        Class::LargeWrite => &["direct path write", "direct path write temp"],
        Class::LogWrite => &["log file parallel write"],
    }
}

fn add_warnings(report: &Report, model: &mut Model) {
    let mut warn = |text: String| model.warnings.push(text);
    if !report.is_whole && !report.statistics.damaged.is_empty() {
        warn("the report has no end: it is cut".to_owned());
    } else if !report.is_whole {
        warn("the report has no end: it is cut, or an extract".to_owned());
    }
    if !report.statistics.damaged.is_empty() {
        let names = report.statistics.damaged.iter().take(5).cloned().collect::<Vec<_>>();
        warn(format!(
            "{} statistics have a total and a rate that do not agree, such as {}",
            report.statistics.damaged.len(),
            names.join(", ")
        ));
    }
    if report.header.is_global {
        warn("the sum of several instances of a cluster".to_owned());
    }
    if report.header.is_container && !report.header.is_pluggable {
        warn("a container database: the sum of its pluggable ones".to_owned());
    }
    if report.header.is_pluggable {
        warn(
            "one pluggable database: redo, control file and log are those of the container, and \
             may not be in it"
                .to_owned(),
        );
    }
    match model.elapsed {
        elapsed if elapsed <= 0.0 => warn("how long the report is for is not known".to_owned()),
        elapsed if elapsed > LONG => {
            let hours = elapsed / 3600.0;
            let snapshots = report.header.snapshots.map(|(begin, end)| end - begin);
            let over = snapshots
                .filter(|count| *count > 1)
                .map_or_else(String::new, |count| format!(" and {count} snapshots"));
            warn(format!("averages over {hours:.1} h{over}: peaks are averaged away"));
        }
        _ => {}
    }
    if let Some((header, elapsed)) = report.header.elapsed.zip(report.statistics.elapsed)
        && (header / elapsed - 1.0).abs() > 0.02
    {
        warn(format!(
            "the header says {header:.0} s, and the statistics {elapsed:.0} s: the latter count"
        ));
    }
    for event in &report.events {
        let median = event.buckets.percentile(0.5);
        if let Some((mean, median)) = event.mean().zip(median)
            && mean > 5.0 * median as f64
        {
            warn(format!(
                "{}: the mean is {:.2} ms, but half took less than {:.3} ms: a few slow ones \
                     make the mean",
                event.name,
                mean / 1e6,
                median as f64 / 1e6
            ));
        }
    }
}
