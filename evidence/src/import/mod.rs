//! Reads reports of databases and systems, and makes models of them.
//!
//! ```text
//!   bytes     decode.rs       unpacked, as UTF-8
//!   text      plain.rs        without what mail and pages put around it
//!   text      recognise.rs    which kind of file: by content, never by name
//!             html_tables.rs, text_tables.rs    Oracle's reports as tables
//!   tables    report/         header, statistics, I/O by function, waits
//!   totals    split.rs        classes of I/O
//!             postgres.rs, mysql.rs, iostat.rs, fio.rs, vdbench.rs, pgbench.rs
//! ```
//!
//! Invariants:
//!
//! 1. No bytes make it panic, and memory is bounded by a few times [`decode::SIZE_MAX`].
//! 2. A figure that is not there, cannot be read or contradicts another is named, never guessed
//!    silently. Without requests and bytes there is no model, but an error.

pub(crate) mod decode;
mod fio;
mod html_tables;
mod iostat;
mod mysql;
mod numbers;
mod pgbench;
mod plain;
mod postgres;
mod recognise;
mod report;
mod samples;
pub(crate) mod split;
mod tables;
mod text_tables;
mod vdbench;

use crate::{
    model::{Model, text as model_text},
    run::{ClassRun, Loop, Run, VERSION},
};
use recognise::Kind;
use std::fmt;

/// Why a file is no model: one sentence that names the remedy. Its subject is the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportError {
    text: String,
}

impl ImportError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    fn of(mut self, name: &str) -> Self {
        if !name.is_empty() {
            self.text = format!("{name} {}", self.text);
        }
        self
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ImportError {}

/// Of what a file does not say.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Seconds that counters are for, or that lie between two samples.
    pub interval: Option<f64>,
    /// A name for the model.
    pub name: Option<String>,
}

/// A file: its name and its bytes.
pub type File<'a> = (&'a str, &'a [u8]);

/// Makes a model of a file.
///
/// # Errors
/// See [`ImportError`].
pub fn read_model(bytes: &[u8], name: &str) -> Result<Model, ImportError> {
    let mut models = read_models(&[(name, bytes)], &Options::default())?;
    models.pop().ok_or_else(|| ImportError::new("holds nothing").of(name))
}

/// Makes models of files. Samples of one database's counters (PostgreSQL, MySQL) make one model
/// together; each other file makes its own.
///
/// # Errors
/// See [`ImportError`].
pub fn read_models(files: &[File<'_>], options: &Options) -> Result<Vec<Model>, ImportError> {
    let mut models = Vec::new();
    let (mut postgres, mut mysql) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let (text, kind) = recognised(bytes).map_err(|error| error.of(name))?;
        match kind {
            Kind::Postgres => postgres.push((*name, text)),
            Kind::Mysql => mysql.push((*name, text)),
            kind => {
                let model = model_of(&text, kind, options).and_then(checked);
                models.push(named(model.map_err(|error| error.of(name))?, name, options));
            }
        }
    }
    type Reader = fn(&[&str], &Options) -> Result<Model, ImportError>;
    let readers: [(Vec<(&str, String)>, Reader); 2] =
        [(postgres, postgres::read), (mysql, mysql::read)];
    for (samples, read) in readers {
        if samples.is_empty() {
            continue;
        }
        let names = samples.iter().map(|sample| sample.0).collect::<Vec<_>>().join(", ");
        let texts: Vec<&str> = samples.iter().map(|sample| sample.1.as_str()).collect();
        let model = read(&texts, options).and_then(checked).map_err(|error| error.of(&names))?;
        models.push(named(model, &names, options));
    }
    Ok(models)
}

fn recognised(bytes: &[u8]) -> Result<(String, Kind), ImportError> {
    let (text, is_cut) = decode::text(bytes)?;
    let text = plain::text(text);
    let kind = recognise::kind(&text)?;
    // Of a packed file that is cut, the last line is too: what reads it takes that into account.
    let text = if is_cut { text.trim_end().to_owned() } else { text };
    Ok((text, kind))
}

/// Requests a second, or bytes by a million: more than any storage does.
const RATE_MAX: f64 = 1e12;

/// Bytes of a request on average: more than any database asks for.
const REQUEST_MAX: f64 = 67_108_864.0;

/// A model whose figures can be.
fn checked(model: Model) -> Result<Model, ImportError> {
    let totals = model.totals;
    let pairs =
        [("reads", totals.reads, totals.read_bytes), ("writes", totals.writes, totals.write_bytes)];
    for (what, requests, bytes) in pairs {
        let is_figure =
            (0.0..RATE_MAX).contains(&requests) && (0.0..RATE_MAX * 1e6).contains(&bytes);
        if !is_figure {
            return Err(ImportError::new(format!(
                "has {requests:e} {what} of {bytes:e} bytes a second, which no storage \
                 does: it is damaged"
            )));
        }
        if bytes > requests * REQUEST_MAX {
            return Err(ImportError::new(format!(
                "has {what} of {:.0} bytes each, which no database does: it is damaged",
                bytes / requests
            )));
        }
        if (requests > 0.0) != (bytes > 0.0) {
            return Err(ImportError::new(format!(
                "has {what} without bytes, or bytes without {what}: it is damaged"
            )));
        }
    }
    if model.streams.is_empty() {
        return Err(ImportError::new(
            "has no I/O at all in its time: take a report of a busy time",
        ));
    }
    Ok(model)
}

fn named(mut model: Model, file: &str, options: &Options) -> Model {
    file.clone_into(&mut model.file);
    if let Some(name) = &options.name {
        name.clone_into(&mut model.name);
    }
    if model.name.is_empty() {
        model.name = "load".to_owned();
    }
    model
}

fn model_of(text: &str, kind: Kind, options: &Options) -> Result<Model, ImportError> {
    match kind {
        Kind::AwrHtml => report::Report::read(&html_tables::read(text), "AWR", "HTML")?.model(),
        Kind::AwrText => report::Report::read(&text_tables::read(text), "AWR", "text")?.model(),
        Kind::Statspack => report::Report::read(&text_tables::read(text), "Statspack", "")?.model(),
        Kind::Iostat => iostat::model(text, options),
        Kind::IostatJson => iostat::model_of_json(text, options),
        Kind::FioJson => fio::model(text),
        Kind::FioJob => fio::model_of_job(text),
        Kind::VdbenchFlatfile => vdbench::model_of_flatfile(text),
        Kind::VdbenchTotals => vdbench::model_of_totals(text),
        Kind::VdbenchParameters => vdbench::model_of_parameters(text),
        Kind::Model => model_text::parse(text).map_err(ImportError::new),
        Kind::VdbenchHistogram | Kind::Pgbench | Kind::Run => Err(ImportError::new(
            "has latencies, but not which I/O made them: compare it with plinth load compare",
        )),
        Kind::Postgres => postgres::read(&[text], options),
        Kind::Mysql => mysql::read(&[text], options),
    }
}

/// Makes a run of a file: of one that plinth wrote, or of another program's result.
///
/// # Errors
/// See [`ImportError`].
pub fn read_run(bytes: &[u8], name: &str) -> Result<Run, ImportError> {
    run(bytes, name).map_err(|error| error.of(name))
}

fn run(bytes: &[u8], name: &str) -> Result<Run, ImportError> {
    let (text, kind) = recognised(bytes)?;
    let file = name.rsplit('/').next().unwrap_or(name);
    let mut run = match kind {
        Kind::Run => Run::from_json(&text).map_err(ImportError::new)?,
        Kind::FioJson => fio::run(&text)?,
        Kind::VdbenchFlatfile => vdbench::run_of_flatfile(&text)?,
        Kind::VdbenchTotals => vdbench::run_of_totals(&text)?,
        Kind::VdbenchHistogram => vdbench::run_of_histogram(&text)?,
        Kind::Pgbench => pgbench::run(&text)?,
        Kind::Iostat => iostat::run(&text)?,
        Kind::IostatJson => iostat::run_of_json(&text)?,
        Kind::Model | Kind::FioJob | Kind::VdbenchParameters => {
            return Err(ImportError::new(
                "is a load to be issued, not a result: run it with plinth load run",
            ));
        }
        kind => run_of_model(&checked(model_of(&text, kind, &Options::default())?)?),
    };
    if run.label.is_empty() {
        file.clone_into(&mut run.label);
    }
    Ok(run)
}

/// What a database's report measured, as a run: the classes with their waits.
fn run_of_model(model: &Model) -> Run {
    let seconds = if model.elapsed > 0.0 { model.elapsed } else { 1.0 };
    let classes = model.streams.iter().map(|stream| {
        let waits =
            model.waits.iter().find(|waits| Some(&waits.event) == stream.latency_from.as_ref());
        ClassRun {
            name: stream.class.name().to_owned(),
            class: Some(stream.class),
            requests: (stream.rate * seconds).round() as u64,
            bytes: (stream.rate * seconds * stream.mean()).round() as u64,
            errors: 0,
            latency: waits.map(|waits| waits.buckets.clone()).unwrap_or_default(),
            mean: stream.latency,
            line: Vec::new(),
        }
    });
    let mut notes = model.warnings.clone();
    notes.extend(model.streams.iter().filter_map(|stream| {
        Some(format!("{}: latencies are those of {}", stream.class, stream.latency_from.as_ref()?))
    }));
    Run {
        version: VERSION,
        label: model.name.clone(),
        source: model.source.clone(),
        targets: vec![model.name.clone()],
        began: None,
        seconds,
        issued: Loop::Unknown,
        classes: classes.collect(),
        notes,
    }
}
