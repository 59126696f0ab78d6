//! `plinth load model`.

use super::{Failure, write_file};
use crate::{
    import::{self, Options},
    model::{self, Totals, text},
};
use clap::Args;
use serde_json::{Value, json};
use std::{fs, io::Read, io::Write, path::Path, path::PathBuf};

const MIB: f64 = 1_048_576.0;

/// Read reports and make a model of the load.
///
/// AWR, Statspack, pg_stat_io with pg_stat_wal, SHOW GLOBAL STATUS, iostat -x, results and job
/// files of fio and VDBench. Which it is, is told by the content.
#[derive(Debug, Clone, Args)]
pub struct Model {
    /// Reports. Two samples of one database's counters make one model.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Write the model to this file ("-": to standard output, instead of the table).
    #[arg(long, short)]
    pub output: Option<PathBuf>,
    /// Print the model as JSON.
    #[arg(long)]
    pub json: bool,
    /// Seconds that the counters are for, or that lie between two samples, where files do not say.
    #[arg(long, value_name = "SECONDS")]
    pub interval: Option<f64>,
    /// The model's name.
    #[arg(long)]
    pub name: Option<String>,
}

impl Model {
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.interval.is_some_and(|seconds| !(seconds > 0.0 && seconds.is_finite())) {
            return Err(Failure::usage("--interval: give seconds above 0"));
        }
        let mut contents = Vec::new();
        for file in &self.files {
            contents.push((file.display().to_string(), read(file)?));
        }
        let files: Vec<(&str, &[u8])> =
            contents.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        let options = Options { interval: self.interval, name: self.name.clone() };
        let models = import::read_models(&files, &options)
            .map_err(|error| Failure::usage(error.to_string()))?;
        let is_text = self.output.as_deref() == Some(Path::new("-"));
        if let Some(output) = &self.output {
            let [model] = models.as_slice() else {
                return Err(Failure::usage(format!(
                    "--output: {} models, and one file for them; give one report at a time",
                    models.len()
                )));
            };
            if is_text {
                out.write_all(text::print(model).as_bytes())?;
            } else {
                let inputs: Vec<&PathBuf> = self.files.iter().collect();
                write_file(output, &inputs, &text::print(model))?;
            }
        }
        if self.json {
            let values: Vec<Value> = models.iter().map(as_json).collect();
            let value = match values.as_slice() {
                [value] => value.clone(),
                _ => Value::Array(values),
            };
            writeln!(out, "{value:#}")?;
        } else if !is_text {
            for (at, model) in models.iter().enumerate() {
                if at > 0 {
                    writeln!(out)?;
                }
                write!(out, "{}", table(model))?;
            }
        }
        Ok(())
    }
}

/// A file, no more of it than is read.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("{}: {error}", file.display()));
    let limit = import::decode::SIZE_MAX as u64 + 1;
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin().take(limit).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        fs::File::open(file)
            .map_err(failed)?
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
    }
    Ok(bytes)
}

/// The model of a file: its own text, or a report that makes one.
pub(super) fn read_model(file: &Path) -> Result<model::Model, Failure> {
    import::read_model(&read(file)?, &file.display().to_string())
        .map_err(|error| Failure::usage(error.to_string()))
}

fn totals_json(totals: Totals) -> Value {
    json!({
        "reads": totals.reads, "read_bytes": totals.read_bytes,
        "writes": totals.writes, "write_bytes": totals.write_bytes,
    })
}

pub(super) fn as_json(model: &model::Model) -> Value {
    let classes = model.streams.iter().map(|stream| {
        json!({
            "class": stream.class.name(), "requests_per_second": stream.rate,
            "size": stream.mean(), "issued_size": stream.size,
            "bytes_per_second": stream.rate * stream.mean(),
            "latency_ns": stream.latency, "latency_from": stream.latency_from,
        })
    });
    let waits = model.waits.iter().map(|waits| {
        json!({
            "event": waits.event, "mean_ns": waits.mean, "is_open": waits.buckets.is_open,
            "buckets": waits.buckets.counts(),
        })
    });
    json!({
        "name": model.name, "source": model.source, "file": model.file,
        "block_size": model.block_size, "elapsed_seconds": model.elapsed,
        "classes": classes.collect::<Vec<_>>(), "totals": totals_json(model.totals),
        "sums": totals_json(model.sums()), "residual": totals_json(model.residual),
        "assumed": model.assumed, "missing": model.missing, "warnings": model.warnings,
        "waits": waits.collect::<Vec<_>>(),
    })
}

fn table(model: &model::Model) -> String {
    let mut lines = vec![title(model)];
    lines.push(format!(
        "{:<14} {:>12} {:>12} {:>11} {:>11}  {}",
        "class", "requests/s", "bytes", "MiB/s", "latency", "of"
    ));
    for stream in &model.streams {
        let sizes = stream.sizes();
        let mix = match sizes.as_slice() {
            [(low, _), (high, _)] => format!(" (mix of {low} and {high})"),
            _ => String::new(),
        };
        lines.push(format!(
            "{:<14} {:>12} {:>12} {:>11} {:>11}  {}{mix}",
            stream.class.title(),
            rate(stream.rate),
            format!("{:.0}", stream.mean()),
            rate(stream.rate * stream.mean() / MIB),
            stream.latency.map_or_else(|| "-".to_owned(), time),
            stream.latency_from.as_deref().unwrap_or("-"),
        ));
    }
    let (sums, totals, left) = (model.sums(), model.totals, model.residual);
    for (what, of, report, left) in [
        (
            "reads",
            (sums.reads, sums.read_bytes),
            (totals.reads, totals.read_bytes),
            (left.reads, left.read_bytes),
        ),
        (
            "writes",
            (sums.writes, sums.write_bytes),
            (totals.writes, totals.write_bytes),
            (left.writes, left.write_bytes),
        ),
    ] {
        lines.push(format!(
            "all {what:<10} {:>12} {:>12} {:>11}  report {} and {} MiB/s, residual {} and {} MiB/s",
            rate(of.0),
            "",
            rate(of.1 / MIB),
            rate(report.0),
            rate(report.1 / MIB),
            rate(left.0),
            rate(left.1 / MIB),
        ));
    }
    for (what, list) in
        [("assumed", &model.assumed), ("missing", &model.missing), ("beware", &model.warnings)]
    {
        lines.extend(list.iter().map(|text| format!("{what}: {text}")));
    }
    lines.iter().map(|line| format!("{}\n", plain(line))).collect()
}

fn title(model: &model::Model) -> String {
    let elapsed = if model.elapsed > 0.0 {
        format!("averages over {:.1} s", model.elapsed)
    } else {
        "averages over an unknown time".to_owned()
    };
    let block =
        model.block_size.map_or_else(String::new, |size| format!(", blocks of {size} bytes"));
    format!("{}: {}, {elapsed}{block}", model.name, model.source)
}

/// Names come from files: nothing of them reaches a terminal but letters.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn rate(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{number:.1}"),
        size if size >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns >= 1e9 => format!("{:.2} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.1} us", ns / 1e3),
    }
}
