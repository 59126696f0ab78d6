//! `plinth load compare`.

use super::{Failure, write_file};
use crate::{
    buckets::Buckets,
    compare::{self, Comparison, Price, RUNS_MAX},
    import,
    run::Run,
};
use clap::Args;
use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
};

/// Of a file that is read: a run of eight hours of all classes has 25 MB.
const FILE_BYTES_MAX: u64 = 1 << 28;

/// Compare runs in a table and on one page.
///
/// Runs are files of `plinth load run`, results of fio, VDBench, iostat and pgbench, and reports
/// of databases. The first is the one that the others are compared with.
#[derive(Debug, Clone, Args)]
pub struct Compare {
    /// Two to ten runs.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Write one page with tables and charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// Write each chart as a file.
    #[arg(long, value_name = "DIRECTORY")]
    svg: Option<PathBuf>,
    /// The price of the storage: one for all runs, or one of each, with commas between.
    #[arg(long, value_name = "PRICE", value_delimiter = ',')]
    price: Vec<f64>,
    /// The percentile of the latency to look at with the price.
    #[arg(long, value_name = "PERCENTILE", default_value = "p99", requires = "price",
          value_parser = percentile)]
    at: f64,
    /// The title of the page.
    #[arg(long)]
    title: Option<String>,
}

impl Compare {
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if !(2..=RUNS_MAX).contains(&self.runs.len()) {
            let count = self.runs.len();
            return Err(Failure::usage(format!("{count} runs: name two to {RUNS_MAX} files")));
        }
        let price = self.price()?;
        let runs = self.runs.iter().map(|path| read(path)).collect::<Result<Vec<Run>, _>>()?;
        let comparison = Comparison::new(&runs, price.as_ref());
        let inputs: Vec<&PathBuf> = self.runs.iter().collect();
        if let Some(path) = &self.html {
            let title = self.title.clone().unwrap_or_else(|| {
                let labels: Vec<&str> =
                    comparison.runs.iter().map(|head| head.label.as_str()).collect();
                crate::draw::text::shortened(&labels.join(", "), 120)
            });
            write_file(path, &inputs, &compare::page(&comparison, &title))?;
        }
        if let Some(directory) = &self.svg {
            fs::create_dir_all(directory)
                .map_err(|error| Failure::usage(format!("{}: {error}", directory.display())))?;
            for chart in comparison.charts() {
                let path = directory.join(format!("{}.svg", chart.name));
                write_file(&path, &inputs, &chart.standalone())?;
            }
        }
        let text = if self.json { comparison.to_json() } else { compare::text(&comparison) };
        Ok(out.write_all(text.as_bytes())?)
    }

    fn price(&self) -> Result<Option<Price>, Failure> {
        let amounts = self.price.clone();
        if amounts.is_empty() {
            return Ok(None);
        }
        if amounts.len() != 1 && amounts.len() != self.runs.len() {
            return Err(Failure::usage(format!(
                "{} prices for {} runs: give one for all, or one of each",
                amounts.len(),
                self.runs.len()
            )));
        }
        match amounts.iter().find(|price| !(price.is_finite() && **price > 0.0)) {
            Some(price) => Err(Failure::usage(format!("--price {price}: give one above 0"))),
            None => Ok(Some(Price { amounts, percentile: self.at })),
        }
    }
}

/// Reads a run of our own, or of another program.
///
/// # Errors
/// The file cannot be read, or is no run.
pub fn read(path: &Path) -> Result<Run, Failure> {
    let failed = |text: String| Failure::usage(format!("{}: {text}", path.display()));
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let taken = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    taken.map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let most = FILE_BYTES_MAX >> 20;
        return Err(failed(format!("it is larger than {most} MiB: take a shorter run")));
    }
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    let is_json = bytes.trim_ascii_start().starts_with(b"{");
    // The fields that every run of ours has, and other programs' results do not.
    let is_ours = is_json
        && [&b"\"version\""[..], b"\"issued\"", b"\"classes\""]
            .iter()
            .all(|field| bytes.windows(field.len()).any(|found| found == *field));
    let mut run = if is_ours {
        let text = std::str::from_utf8(&bytes).map_err(|error| failed(error.to_string()))?;
        Run::from_json(text).map_err(failed)?
    } else {
        import::read_run(&bytes, &name).map_err(|error| failed(error.to_string()))?
    };
    if run.label.trim().is_empty() {
        run.label = name;
    }
    for class in &mut run.classes {
        // Borders in order, whatever the file had.
        let latency = std::mem::take(&mut class.latency);
        class.latency = Buckets::new(latency.counts().iter().copied());
        class.latency.is_open = latency.is_open;
        class.latency.moments = latency.moments;
        class.line.sort_by(|one, next| one.at.total_cmp(&next.at));
    }
    Ok(run)
}

/// `p99`, `p99.9`, `99.9` as a share.
fn percentile(text: &str) -> Result<f64, String> {
    let number = text.strip_prefix('p').unwrap_or(text);
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && number < 100.0 => Ok(number / 100.0),
        _ => Err("write it as p99 or p99.9".to_owned()),
    }
}
