//! `plinth load distance`.

use super::{Failure, signals};
use crate::distance::{
    Measured, Target, VERSION, amounts,
    fit::{Estimate, Fit, fit},
    measure::{Goal, measure, round_trip},
    quantile,
    table::{self, Costs, Table},
    target::Region,
};
use crate::draw::columns::{First, aligned};
use clap::Args;
use serde::Serialize;
use std::{fs, io::Write, path::PathBuf, sync::atomic::Ordering};

/// Nanoseconds of a millisecond.
const MS: f64 = 1e6;
/// Sizes of log writes unless others are asked for.
const SIZES: [u64; 6] = [2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
const SIZES_MIN: usize = 4;
const SIZES_MAX: usize = 32;
const FILE_MAX: u64 = 64 << 20;
/// No protocol needs more round trips for one write.
const ROUND_TRIPS_MAX: f64 = 4.0;

/// Measure a log write and compute what distance costs.
///
/// Writes to each target one after the other, each durable before the next, at several sizes;
/// fits overhead, slope and, with a remote target, the number of round trips; and prints how long
/// a log write takes over distance: local, mirrored by the host, replicated by the array.
#[derive(Debug, Clone, Args)]
pub struct Distance {
    /// Devices, files or directories: the local copy, then others that are as near.
    pub targets: Vec<PathBuf>,
    /// A target at a distance. Needs --rtt.
    #[arg(long, value_name = "TARGET")]
    pub remote: Vec<PathBuf>,
    /// The round-trip time of each --remote, in its order: 0.5ms, or tcp:HOST:PORT to measure it.
    #[arg(long, value_name = "TIME")]
    pub rtt: Vec<String>,
    /// Sizes of the writes: four or more.
    #[arg(long, value_delimiter = ',', value_name = "SIZE,...", value_parser = amounts::size)]
    pub sizes: Vec<u64>,
    /// Writes of each size to each target.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(5..=100_000))]
    pub writes: u32,
    /// Distances of the table.
    #[arg(long, value_delimiter = ',', value_name = "KM,...", value_parser = amounts::kilometres,
          default_value = "2.5,10,20,50,100,150")]
    pub km: Vec<f64>,
    /// Size of the table's write; the smallest one that was measured if it is left out.
    #[arg(long, value_name = "SIZE", value_parser = amounts::size)]
    pub at: Option<u64>,
    /// A write that an array replicated, as measured at a distance: 1.77ms@2.5.
    #[arg(long, value_name = "TIME@KM", value_parser = amounts::at_distance)]
    pub array: Option<(f64, f64)>,
    /// Points of a local write instead of a measurement: 2k:0.66ms,5k:0.74ms.
    #[arg(long, value_name = "SIZE:TIME,...", value_parser = amounts::points,
          conflicts_with_all = ["targets", "remote", "from"])]
    pub points: Option<Target>,
    /// The table of "Log file write time and the physics of distance", and the right one.
    #[arg(long, conflicts_with_all = ["targets", "remote", "from", "points", "at", "array"])]
    pub article: bool,
    /// The file that an earlier run wrote with --json, instead of a measurement.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["targets", "remote"])]
    pub from: Option<PathBuf>,
    /// Write to files and devices although there is something on them.
    #[arg(long)]
    pub force_overwrite: bool,
    /// Measurements, fits and table as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The printed results.
#[derive(Debug, Serialize)]
struct Report {
    measured: Measured,
    fits: Vec<FitReport>,
    table: Table,
    notes: Vec<String>,
    #[serde(skip)]
    is_interrupted: bool,
}

#[derive(Debug, Serialize)]
struct FitReport {
    targets: Vec<String>,
    overhead_ms: Number,
    slope_ms_per_kib: Number,
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trips: Option<Number>,
    residual_ms: f64,
    residual_max_ms: f64,
    residual_max_at: String,
}

#[derive(Debug, Serialize)]
struct Number {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<(f64, f64)>,
}

impl Number {
    fn of(estimate: Estimate, unit: f64) -> Self {
        let interval = estimate.interval.map(|(low, high)| (low * unit, high * unit));
        Self { value: estimate.value * unit, interval }
    }

    fn text(&self, digits: usize) -> String {
        let Self { value, interval } = self;
        match interval {
            Some((low, high)) => format!("{value:.digits$} ({low:.digits$} to {high:.digits$})"),
            None => format!("{value:.digits$}"),
        }
    }
}

impl Distance {
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let report = self.report()?;
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &report)
                .map_err(|error| Failure::from(std::io::Error::from(error)))?;
            writeln!(out)?;
        } else {
            report.print(out)?;
        }
        if report.is_interrupted {
            out.flush()?;
            return Err(Failure::midway("interrupted: the results are those so far"));
        }
        Ok(())
    }

    fn report(&self) -> Result<Report, Failure> {
        let mut notes = Vec::new();
        let (measured, is_interrupted) = self.measured(&mut notes)?;
        let (near, far): (Vec<&Target>, Vec<&Target>) =
            measured.targets.iter().partition(|target| target.rtt <= 0.0);
        let Some((local, copies)) = near.split_first() else {
            return Err(Failure::usage("there is no local target: name one beside --remote"));
        };
        let joint: Vec<&Target> = [*local].into_iter().chain(far.iter().copied()).collect();
        let whole = fit(&joint).map_err(Failure::usage)?;
        let mut fits = vec![report_of(&joint, &whole)];
        let mut slowest = None::<Fit>;
        let smallest = local.cells.first().map_or(2048, |cell| cell.size);
        let size = self.at.unwrap_or(smallest);
        for copy in copies {
            let found = fit(&[copy]).map_err(Failure::usage)?;
            fits.push(report_of(&[copy], &found));
            if slowest.as_ref().is_none_or(|slowest| slowest.at(size) < found.at(size)) {
                slowest = Some(found);
            }
        }
        for target in &far {
            let found = fit(&[*target]).map_err(Failure::usage)?;
            note_slope(target, &whole, &found, &mut notes);
        }
        let costs = self.costs(&whole, slowest.as_ref(), &far, size, &mut notes);
        note_range(local, size, &mut notes);
        note_spread(local, &mut notes);
        let mut km = self.km.clone();
        km.sort_unstable_by(f64::total_cmp);
        km.dedup();
        let table = if self.article {
            table::article(&km, costs)
        } else if self.points.is_some() {
            table::checked(size, &km, costs)
        } else {
            table::table(size, &km, costs)
        };
        Ok(Report { measured, fits, table, notes, is_interrupted })
    }

    /// And whether a signal has ended the measurement early.
    fn measured(&self, notes: &mut Vec<String>) -> Result<(Measured, bool), Failure> {
        let given = if self.article {
            notes.push("The article adds the overhead to a write that has it already.".to_owned());
            Some(amounts::points("2k:0.66ms,5k:0.74ms").map_err(Failure::usage)?)
        } else {
            self.points.clone()
        };
        if let Some(target) = given {
            return Ok((Measured { version: VERSION, targets: vec![target] }, false));
        }
        if let Some(path) = &self.from {
            let failed = |error: String| Failure::usage(format!("{}: {error}", path.display()));
            let found = fs::metadata(path).map_err(|error| failed(error.to_string()))?;
            if !found.is_file() || found.len() > FILE_MAX {
                return Err(failed("it is no file of measurements, which has up to 64 MiB".into()));
            }
            let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
            let measured = Measured::from_json(&text).map_err(failed)?;
            return Ok((measured, false));
        }
        self.measure(notes)
    }

    fn measure(&self, notes: &mut Vec<String>) -> Result<(Measured, bool), Failure> {
        if self.targets.is_empty() {
            return Err(Failure::usage(
                "name a device, a file or a directory to measure, or give --points, --from or --article",
            ));
        }
        if self.remote.len() != self.rtt.len() {
            return Err(Failure::usage(format!(
                "{} --remote and {} --rtt: each remote target needs its round-trip time",
                self.remote.len(),
                self.rtt.len()
            )));
        }
        let is_stopped = signals::stopped()?;
        let rtts: Vec<f64> = self
            .rtt
            .iter()
            .map(|rtt| round_trip(rtt))
            .collect::<Result<_, _>>()
            .map_err(Failure::usage)?;
        let targets = self.targets.iter().map(|path| (path, 0.0));
        let mut regions = Vec::new();
        for (path, rtt) in targets.chain(self.remote.iter().zip(rtts)) {
            let region = Region::open(path, self.force_overwrite).map_err(Failure::usage)?;
            regions.push((path, region, rtt));
        }
        let sector = regions.iter().map(|(_, region, _)| region.sector).max().unwrap_or(512);
        let sizes = self.fitting_sizes(sector, notes)?;
        let goals: Vec<Goal<'_>> = regions
            .iter()
            .map(|(path, region, rtt)| Goal { name: path.display().to_string(), region, rtt: *rtt })
            .collect();
        let is_over = || is_stopped.load(Ordering::Relaxed);
        let measured = measure(&goals, &sizes, self.writes as usize, &is_over);
        let measured = measured.map_err(Failure::midway)?;
        if is_over() {
            notes.push("Interrupted: these are the rounds so far.".to_owned());
        }
        Ok((measured, is_over()))
    }

    /// Ascending, each once, and such that all targets take them.
    fn fitting_sizes(&self, sector: u64, notes: &mut Vec<String>) -> Result<Vec<u64>, Failure> {
        let mut sizes = if self.sizes.is_empty() { SIZES.to_vec() } else { self.sizes.clone() };
        sizes.sort_unstable();
        sizes.dedup();
        if let Some(size) = sizes.iter().copied().find(|size| !size.is_multiple_of(sector)) {
            if !self.sizes.is_empty() {
                return Err(Failure::usage(format!(
                    "a write of {size} bytes: sectors of a target have {sector} bytes: give multiples"
                )));
            }
            notes.push(format!(
                "No writes below {sector} bytes: that is the size of a sector of a target."
            ));
            sizes.retain(|size| size.is_multiple_of(sector));
        }
        if !(SIZES_MIN..=SIZES_MAX).contains(&sizes.len()) {
            return Err(Failure::usage(format!(
                "--sizes has {} different ones: give {SIZES_MIN} to {SIZES_MAX}",
                sizes.len()
            )));
        }
        Ok(sizes)
    }

    fn costs(
        &self,
        whole: &Fit,
        slowest: Option<&Fit>,
        far: &[&Target],
        size: u64,
        notes: &mut Vec<String>,
    ) -> Costs {
        let local = whole.at(size);
        let near = slowest.map_or(local, |fit| fit.at(size)).max(local);
        let rtt = far.iter().map(|target| target.rtt).fold(0.0, f64::max);
        let (copy, round_trips) = match whole.round_trips.map(|trips| trips.value) {
            None if self.article => (near, 1.0),
            None => {
                notes
                    .push("Host mirror: one round trip is taken for granted (no --remote).".into());
                (near, 1.0)
            }
            Some(trips) if trips > ROUND_TRIPS_MAX => {
                let beside = (trips - table::TWO) * rtt;
                notes.push(format!(
                    "{trips:.1} round trips: more than any protocol makes for a write. Two are taken \
                     for the distance. The other {:.3} ms are work at the other end, at any distance.",
                    beside / MS
                ));
                (near + beside, table::TWO)
            }
            Some(trips) => {
                notes.push(meaning(trips));
                (near, trips.max(0.0))
            }
        };
        let array = match self.array.or(self.article.then_some((1.77 * MS, 2.5))) {
            Some((took, km)) => (took - table::TWO * km * crate::distance::RTT_OF_KM).max(0.0),
            None => {
                notes.push(
                    "Array replication: two round trips and no work of the array, which is the \
                     least; give --array TIME@KM of a measured one."
                        .to_owned(),
                );
                local
            }
        };
        Costs { local, copy, round_trips, array, overhead: whole.overhead.value }
    }
}

fn meaning(trips: f64) -> String {
    let text = if trips < 0.5 {
        "less than one round trip: the write is answered before it has been there and back, or \
         the round-trip time is too long"
    } else if trips < 1.5 {
        "one round trip: the answer to the write says that it is durable"
    } else if trips < 2.5 {
        "two round trips: a flush follows the write, or the other end asks for the data first"
    } else {
        "more than two round trips: some of it is work at the other end"
    };
    format!("{trips:.2}: {text}.")
}

fn report_of(targets: &[&Target], fit: &Fit) -> FitReport {
    let (residual_max, target, size) = &fit.residual_max;
    FitReport {
        targets: targets.iter().map(|target| target.name.clone()).collect(),
        overhead_ms: Number::of(fit.overhead, 1.0 / MS),
        slope_ms_per_kib: Number::of(fit.slope, 1024.0 / MS),
        round_trips: fit.round_trips.map(|trips| Number::of(trips, 1.0)),
        residual_ms: fit.residual / MS,
        residual_max_ms: residual_max / MS,
        residual_max_at: format!("{target}, {size} bytes"),
    }
}

/// If bytes cost more at the far end, it is more than round trips.
fn note_slope(target: &Target, whole: &Fit, own: &Fit, notes: &mut Vec<String>) {
    let Some((low, high)) = own.slope.interval else { return };
    let per_kib = |slope: f64| slope * 1024.0 / MS;
    if whole.slope.interval.is_some_and(|(from, to)| to < low || high < from) {
        notes.push(format!(
            "{}: {:.4} ms for a KiB, and {:.4} in the fit of all: the size matters differently \
             there, so its round trips are right for these sizes only.",
            target.name,
            per_kib(own.slope.value),
            per_kib(whole.slope.value)
        ));
    }
}

fn note_range(local: &Target, size: u64, notes: &mut Vec<String>) {
    let (Some(first), Some(last)) = (local.cells.first(), local.cells.last()) else { return };
    if !(first.size..=last.size).contains(&size) {
        notes.push(format!("{size} bytes were not measured: beyond the sizes it is a guess."));
    }
    if local.cells.len() < SIZES_MIN {
        notes.push(format!(
            "{} sizes: the fit leaves nothing to judge it by; measure four or more.",
            local.cells.len()
        ));
    }
}

/// The slower of two equal copies is above the median of one.
fn note_spread(local: &Target, notes: &mut Vec<String>) {
    let Some(cell) = local.cells.first().filter(|cell| cell.rounds.len() > 1) else { return };
    let mut rounds = cell.rounds.clone();
    rounds.sort_unstable_by(f64::total_cmp);
    let (low, high) = (quantile(&rounds, 0.1), quantile(&rounds, 0.9));
    if high > low * 1.25 {
        notes.push(format!(
            "{}: medians of rounds of {} bytes go from {:.3} to {:.3} ms: it was busy with \
             something else; repeat it.",
            local.name,
            cell.size,
            low / MS,
            high / MS
        ));
    }
}

impl Report {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        self.print_cells(out)?;
        for fit in &self.fits {
            writeln!(out, "Fit of {}:", fit.targets.join(", "))?;
            writeln!(out, "  overhead     {} ms", fit.overhead_ms.text(3))?;
            let per_second = 1.0 / 1024.0 / (fit.slope_ms_per_kib.value / 1e3);
            let slope = fit.slope_ms_per_kib.text(4);
            if per_second > 0.0 && per_second.is_finite() {
                writeln!(out, "  slope        {slope} ms/KiB: {per_second:.0} MiB/s")?;
            } else {
                writeln!(out, "  slope        {slope} ms/KiB")?;
            }
            if let Some(trips) = &fit.round_trips {
                writeln!(out, "  round trips  {}", trips.text(2))?;
            }
            writeln!(
                out,
                "  residual     {:.4} ms, at most {:+.4} ms ({})",
                fit.residual_ms, fit.residual_max_ms, fit.residual_max_at
            )?;
        }
        let whole = self.fits.first();
        if whole.is_some_and(|fit| fit.overhead_ms.interval.is_some()) {
            let is_given = self
                .measured
                .targets
                .iter()
                .all(|target| target.cells.iter().all(|cell| cell.rounds.is_empty()));
            let meant = if is_given {
                "as far as the rounding of the points leaves it open"
            } else {
                "with 95 % confidence"
            };
            writeln!(out, "In parentheses: {meant}.")?;
        }
        writeln!(out, "\nA log write of {} bytes over distance, in ms:", self.table.size)?;
        write!(out, "{}", self.table.text())?;
        if !self.notes.is_empty() {
            writeln!(out)?;
        }
        for note in &self.notes {
            writeln!(out, "{note}")?;
        }
        Ok(())
    }

    fn print_cells(&self, out: &mut dyn Write) -> Result<(), Failure> {
        for target in &self.measured.targets {
            let rtt = if target.rtt > 0.0 {
                format!(", RTT {:.3} ms", target.rtt / MS)
            } else {
                String::new()
            };
            writeln!(out, "{}{rtt}: log writes in ms", target.name)?;
            let titles = ["bytes", "writes", "median", "p25", "p75", "p99"];
            let mut lines = vec![titles.map(str::to_owned).to_vec()];
            for cell in &target.cells {
                let mut line = vec![cell.size.to_string(), cell.writes.to_string()];
                let times = [cell.median, cell.p25, cell.p75, cell.p99];
                line.extend(times.map(|time| format!("{:.3}", time / MS)));
                lines.push(line);
            }
            writeln!(out, "{}", aligned(&lines, First::Right))?;
        }
        Ok(())
    }
}
