//! `plinth load run`.

use super::{Failure, check_output, model, signals, write_file};
use crate::issue::{
    Closed, Interval, IssueError, Length, Observer, Outcome, Plan, ROUND, ROUNDS_MAX,
    arrival::Arrivals, measure, text,
};
use clap::{Args, ValueEnum};
use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Issue the load of a model to targets, and measure it.
///
/// Each class is issued on its own, at the rate of the model, whether the targets keep up or not:
/// latency counts from the time at which a request was due. A target is a block device, a file, a
/// directory (a file is made in it, filled, and removed), or an NBD export. Several targets take
/// turns.
#[derive(Debug, Clone, Args)]
pub struct Run {
    /// The model's file, of `plinth load model`.
    model: PathBuf,
    /// Devices, files, directories, nbd://HOST:PORT/EXPORT, nbd+unix:///EXPORT?socket=PATH.
    #[arg(required = true)]
    targets: Vec<String>,
    /// How long to measure, such as 60, 10m, 8h.
    #[arg(long, value_parser = seconds, default_value = "60", conflicts_with = "until_steady")]
    seconds: f64,
    /// Measure until the targets are steady by SNIA's rule: five rounds within 20 % of their mean,
    /// without a slope above 10 %.
    #[arg(long)]
    until_steady: bool,
    /// How long a round is.
    #[arg(long, value_parser = seconds, default_value_t = ROUND, requires = "until_steady")]
    round: f64,
    /// Times the rates of the model.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// How long to issue the load before measuring begins.
    #[arg(long, value_parser = seconds, default_value = "0")]
    ramp: f64,
    /// Begin a request when one has ended; latency counts from there.
    #[arg(long)]
    closed: bool,
    /// With --closed: as many requests as the targets do, whatever the rates of the model.
    #[arg(long, requires = "closed")]
    unpaced: bool,
    /// Most requests in flight of each class (1 with --closed unless said, else by their size).
    #[arg(long)]
    depth: Option<usize>,
    /// How the times of requests are spread.
    #[arg(long, value_enum, default_value = "spread")]
    arrivals: Gaps,
    /// Write all of the targets once before.
    #[arg(long)]
    fill: bool,
    /// Verify the bytes of all reads: place, version, and that no write is torn.
    #[arg(long)]
    verify: bool,
    /// Threads that issue; by the rate unless said.
    #[arg(long)]
    threads: Option<usize>,
    /// The size of files to make, such as 10G, and the most of other targets that is used.
    #[arg(long, value_parser = bytes)]
    size: Option<u64>,
    /// Write to targets that carry something.
    #[arg(long)]
    force_overwrite: bool,
    /// Of places, times and data.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The name of the run in tables and pictures.
    #[arg(long)]
    label: Option<String>,
    /// Keep the run for `plinth load compare`.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Print the run as JSON.
    #[arg(long)]
    json: bool,
    /// Issue by threads with calls that block.
    #[arg(long, hide = true)]
    without_io_uring: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Gaps {
    /// One at a random time of each period of 1 / rate.
    Spread,
    /// With random gaps, as of many independent sessions: with bursts.
    Poisson,
    /// With equal gaps.
    Even,
}

impl From<Gaps> for Arrivals {
    fn from(gaps: Gaps) -> Self {
        match gaps {
            Gaps::Spread => Self::Spread,
            Gaps::Poisson => Self::Poisson,
            Gaps::Even => Self::Even,
        }
    }
}

impl Run {
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let streams = model::read_model(&self.model)?.streams;
        let closed =
            self.closed.then(|| Closed { depth: self.depth.unwrap_or(1), is_paced: !self.unpaced });
        let length = if self.until_steady {
            Length::UntilSteady { round: self.round, rounds_max: ROUNDS_MAX }
        } else {
            Length::Seconds(self.seconds)
        };
        let name = self.model.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let plan = Plan {
            scale: self.scale,
            length,
            ramp: self.ramp,
            arrivals: self.arrivals.into(),
            closed,
            depth: self.depth,
            threads: self.threads,
            size: self.size,
            force_overwrite: self.force_overwrite,
            fill: self.fill,
            verify: self.verify,
            seed: self.seed,
            label: self.label.clone().or(name).unwrap_or_else(|| "run".to_owned()),
            without_ring: self.without_io_uring,
            streams,
        };
        let classes = plan.streams.iter().filter(|stream| stream.rate > 0.0);
        let titles = classes.map(|stream| stream.class.title().to_owned()).collect();
        self.output.as_deref().map_or(Ok(()), check_output)?;
        let outcome = measure(&plan, &self.targets, &mut Screen::new(titles)?)?;
        keep(&outcome, self.output.as_deref(), self.json, out, || text::report(&outcome))?;
        judge(&outcome)
    }
}

/// Writes the run to its file and to the output.
pub(super) fn keep(
    outcome: &Outcome,
    file: Option<&Path>,
    is_json: bool,
    out: &mut dyn Write,
    report: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if let Some(path) = file {
        // Hours of measuring are not to be lost with a wrong name.
        if let Err(failure) = write_file(path, &[], &outcome.run.to_json()) {
            out.write_all(report().as_bytes())?;
            return Err(Failure::midway(failure.text));
        }
    }
    if is_json {
        writeln!(out, "{}", outcome.run.to_json())?;
    } else {
        out.write_all(report().as_bytes())?;
    }
    out.flush()?;
    Ok(())
}

/// # Errors
/// If the run has found something wrong, or was not what was wanted.
pub(super) fn judge(outcome: &Outcome) -> Result<(), Failure> {
    let Outcome { wrong, errors, .. } = outcome;
    if *wrong > 0 {
        return Err(Failure::midway(format!(
            "{wrong} blocks were read and were not as they must be: see the notes of the results"
        )));
    }
    if *errors > 0 {
        return Err(Failure::midway(format!("{errors} requests failed: see the notes")));
    }
    if outcome.is_interrupted {
        return Err(Failure::midway("interrupted: the results are those so far"));
    }
    if outcome.is_steady == Some(false) {
        return Err(Failure::midway(
            "the targets did not become steady: let them run longer, with a larger --round",
        ));
    }
    Ok(())
}

impl From<IssueError> for Failure {
    fn from(error: IssueError) -> Self {
        let text = error.to_string();
        if error.is_usage() { Self::usage(text) } else { Self::midway(text) }
    }
}

/// Shows a run on standard error while it goes on: a line for each class on a terminal, one now and
/// then elsewhere. Ends it at a signal; at the second one the program ends at once.
pub(super) struct Screen<'a> {
    /// Called when the load begins.
    pub begins: Option<&'a mut dyn FnMut()>,
    classes: Vec<String>,
    is_terminal: bool,
    /// Lines that stand there and are written over.
    lines: usize,
    is_stopped: Arc<AtomicBool>,
}

/// Seconds between lines where there is no terminal.
const SELDOM: u64 = 60;

impl Screen<'_> {
    pub(super) fn new(classes: Vec<String>) -> Result<Self, Failure> {
        let is_stopped = signals::stopped()?;
        let is_terminal = std::io::stderr().is_terminal();
        Ok(Self { begins: None, classes, is_terminal, lines: 0, is_stopped })
    }
}

impl Observer for Screen<'_> {
    fn begins(&mut self) {
        if let Some(begins) = &mut self.begins {
            begins();
        }
    }

    fn interval(&mut self, interval: &Interval) {
        let is_due = self.is_terminal || (interval.at as u64).is_multiple_of(SELDOM);
        if !is_due {
            return;
        }
        let names: Vec<&str> = self.classes.iter().map(String::as_str).collect();
        let lines = text::live(&names, interval);
        if self.is_terminal && self.lines > 0 {
            eprint!("\x1b[{}A", self.lines);
        }
        let clear = if self.is_terminal { "\x1b[K" } else { "" };
        lines.iter().for_each(|line| eprintln!("{line}{clear}"));
        self.lines = lines.len();
    }

    fn say(&mut self, text: &str) {
        eprintln!("plinth load: {text}");
        self.lines = 0;
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

/// A time: `90`, `90s`, `10m`, `8h`.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        _ => (text, 1.0),
    };
    let number: f64 = digits.parse().map_err(|_| "a time is 90, 90s, 10m or 8h".to_owned())?;
    Duration::try_from_secs_f64(number * unit).map_err(|error| error.to_string())?;
    Ok(number * unit)
}

/// A number of bytes: `8192`, `10M`, `4GiB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "a size is a number with K, M, G or T behind it, such as 10G".to_owned();
    let upper = text.trim().to_ascii_uppercase();
    let short = upper.trim_end_matches('B').trim_end_matches('I');
    let (digits, shift) = match short.char_indices().next_back() {
        Some((at, unit)) if unit.is_ascii_alphabetic() => {
            let power = "KMGT".find(unit).ok_or_else(wrong)?;
            (&short[..at], 10 * (power as u32 + 1))
        }
        _ => (short, 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}
