//! A model and its options as threads, lanes and slots, and what they measured as a run.

use super::{
    IssueError, Observer,
    arrival::{Arrivals, Schedule},
    drive::{Drive, Length, Measured, Part},
    engine::Kind,
    fill::{self, Fill},
    lanes::{Lane, Lanes, Limits, Pace, Sizes},
    place::{Areas, Places, alignment},
    recorder::Tally,
    stamp::Stamp,
    target::{Opening, Target},
    verify::Versions,
    worker::Data,
};
use crate::{
    model::{Class, Stream},
    run::{ClassRun, Loop, Run, VERSION},
};
use std::{
    num::NonZero,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

/// Requests a second that a thread issues without effort.
const RATE_OF_THREAD: f64 = 100_000.0;
/// Most requests in flight of a class on a thread, and the memory for them.
const DEPTH_MAX: usize = 256;
const MEMORY_OF_CLASS: usize = 32 << 20;
const DEPTH_MIN: usize = 4;
/// Most threads, and the largest depth that may be asked for.
const THREADS_MAX: usize = 256;
const DEPTH_ASKED_MAX: usize = 4096;
/// Bytes of a request.
const SIZE_MAX: u64 = 16 << 20;
/// Most memory for versions of blocks.
const VERSIONS_MAX: u64 = 4 << 30;
/// Lateness that is worth a note: a tenth of a millisecond in the mean.
const LAG_NOTED: f64 = 100_000.0;
/// The share of the time for which a thread that issues may be on a processor without a note.
const BUSY_NOTED: f64 = 0.95;

/// The next request is begun when one has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// Requests in flight of each class, on all threads together.
    pub depth: usize,
    /// Whether the model's rates are kept as an upper limit.
    pub is_paced: bool,
}

/// The load to be issued, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// At most one of a class; those of rate 0 are left out.
    pub streams: Vec<Stream>,
    /// Times the rates.
    pub scale: f64,
    pub length: Length,
    /// Seconds before measuring begins.
    pub ramp: f64,
    pub arrivals: Arrivals,
    /// None: open.
    pub closed: Option<Closed>,
    /// Most requests in flight of a class on each thread, in an open loop; None: by their size.
    pub depth: Option<usize>,
    /// None: by the rate.
    pub threads: Option<usize>,
    /// Bytes of files to make, and the most of other targets that is used.
    pub size: Option<u64>,
    pub force_overwrite: bool,
    /// Fill targets before.
    pub fill: bool,
    /// Verify the bytes that are read.
    pub verify: bool,
    pub seed: u64,
    pub label: String,
    /// Do not use io_uring.
    pub without_ring: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            streams: Vec::new(),
            scale: 1.0,
            length: Length::Seconds(60.0),
            ramp: 0.0,
            arrivals: Arrivals::default(),
            closed: None,
            depth: None,
            threads: None,
            size: None,
            force_overwrite: false,
            fill: false,
            verify: false,
            seed: 1,
            label: "run".to_owned(),
            without_ring: false,
        }
    }
}

/// A run, and what is not in its file.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub run: Run,
    /// Requests a second that were wanted of each class; 0: as many as possible.
    pub wanted: Vec<f64>,
    /// Blocks that were not as they must be.
    pub wrong: u64,
    pub errors: u64,
    pub is_interrupted: bool,
    /// Whether it became steady, if that was asked for.
    pub is_steady: Option<bool>,
}

/// Issues a plan to targets.
///
/// # Errors
/// If plan or targets are refused, or the machinery fails.
pub fn run(
    plan: &Plan,
    targets: &[String],
    observer: &mut dyn Observer,
) -> Result<Run, IssueError> {
    measure(plan, targets, observer).map(|outcome| outcome.run)
}

/// As [`run`], with more about how it went.
///
/// # Errors
/// See [`run`].
pub fn measure(
    plan: &Plan,
    targets: &[String],
    observer: &mut dyn Observer,
) -> Result<Outcome, IssueError> {
    plan.check()?;
    let opened = open(plan, targets)?;
    let mut notes: Vec<String> = opened.iter().flat_map(|target| target.notes.clone()).collect();
    let sector = opened.iter().map(|target| target.sector).max().unwrap_or(512);
    let streams = plan.streams(sector, &mut notes);
    let areas = plan.areas(&streams, &opened)?;
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let data = plan.data(&streams, &opened, began.as_nanos() as u64)?;
    notes.iter().for_each(|note| observer.say(note));
    if !fill_targets(plan, &opened, &data, observer)? {
        return Err(IssueError::Interrupted);
    }
    let threads = plan.threads_of(&streams);
    let limits = Arc::new(Limits::default());
    let parts = (0..threads)
        .map(|thread| plan.part((&streams, sector), &areas, (thread, threads), &limits, &data))
        .collect();
    let drive = Drive {
        targets: &opened,
        data: Data { version: data.version + 1, ..data },
        limits,
        length: plan.length,
        ramp: plan.ramp,
        steady_by: if plan.closed.is_some() { rate } else { latency },
        without_ring: plan.without_ring,
    };
    let measured = drive.run(parts, streams.len(), observer)?;
    Ok(plan.outcome(&streams, &opened, began.as_secs(), measured, notes))
}

fn rate(tally: &Tally, seconds: f64) -> f64 {
    tally.requests as f64 / seconds.max(f64::MIN_POSITIVE)
}

fn latency(tally: &Tally, _: f64) -> f64 {
    tally.mean()
}

/// Opens targets: each once.
pub(super) fn open(plan: &Plan, targets: &[String]) -> Result<Vec<Target>, IssueError> {
    if targets.is_empty() {
        return Err(IssueError::Plan("no target is named".to_owned()));
    }
    for (number, name) in targets.iter().enumerate() {
        if targets[..number].contains(name) && !std::path::Path::new(name).is_dir() {
            return Err(IssueError::Plan(format!("{name} is named twice")));
        }
    }
    let writes = plan.fill || plan.streams.iter().any(|stream| !stream.class.reads());
    let opening = Opening { writes, size: plan.size, force_overwrite: plan.force_overwrite };
    targets.iter().map(|name| Target::open(name, opening)).collect()
}

/// Fills new files, and all targets if that is wanted. False: it was interrupted.
pub(super) fn fill_targets(
    plan: &Plan,
    targets: &[Target],
    data: &Data,
    observer: &mut dyn Observer,
) -> Result<bool, IssueError> {
    let wanted = targets.iter().enumerate().filter(|(_, target)| plan.fill || target.is_new);
    let wanted: Vec<(usize, u64)> = wanted.map(|(number, target)| (number, target.size)).collect();
    if wanted.is_empty() {
        return Ok(true);
    }
    let bytes: u64 = wanted.iter().map(|(_, size)| size).sum();
    observer.say(&format!("filling {} MiB", bytes >> 20));
    let is_stopped = Arc::new(AtomicBool::new(false));
    let source = Fill::new(wanted.clone(), data.version, Arc::clone(&is_stopped));
    let part = Part { source: Box::new(source), slots: vec![(fill::DEPTH, fill::SIZE as usize)] };
    let drive = Drive {
        targets,
        // Tickets are versions here, and no other source writes.
        data: Data { versions: None, ..data.clone() },
        limits: Arc::new(Limits::default()),
        length: Length::Seconds(f64::MAX),
        ramp: 0.0,
        steady_by: rate,
        without_ring: plan.without_ring,
    };
    let mut watch = Watch { observer, is_stopped };
    let measured = drive.run(vec![part], 1, &mut watch)?;
    if let Some(text) = measured.failed.first.first() {
        let text = format!("filling failed: {text}");
        return Err(IssueError::Threads(std::io::Error::other(text)));
    }
    for target in targets {
        target.sync().map_err(|source| IssueError::Io {
            name: target.name.clone(),
            doing: "sync",
            source,
        })?;
    }
    if let Some(versions) = &data.versions {
        for (number, size) in wanted {
            versions.filled(number, 0..size, data.version);
        }
    }
    Ok(!measured.is_interrupted)
}

/// Ends the filling when the run is to end.
struct Watch<'a> {
    observer: &'a mut dyn Observer,
    is_stopped: Arc<AtomicBool>,
}

impl Observer for Watch<'_> {
    fn is_stopped(&self) -> bool {
        let is_stopped = self.observer.is_stopped();
        self.is_stopped.fetch_or(is_stopped, Ordering::Relaxed);
        is_stopped
    }
}

impl Plan {
    fn check(&self) -> Result<(), IssueError> {
        let wrong = |text: String| Err(IssueError::Plan(text));
        let is_time = |seconds: f64| (0.0..=1e8).contains(&seconds);
        let rates: f64 = self.streams.iter().map(|stream| stream.rate).sum();
        if !(rates > 0.0 && rates.is_finite()) {
            return wrong("the model has no class with a rate above 0".to_owned());
        }
        for stream in &self.streams {
            if stream.rate < 0.0 || stream.size == 0 || stream.size > SIZE_MAX {
                return wrong(format!(
                    "{}: {} requests a second of {} bytes cannot be issued: sizes go from 512 \
                     bytes to 16 MiB",
                    stream.class, stream.rate, stream.size
                ));
            }
        }
        if !(self.scale > 0.0 && self.scale.is_finite()) {
            return wrong(format!("--scale {}: it must be above 0", self.scale));
        }
        let seconds = match self.length {
            Length::Seconds(seconds) => seconds,
            Length::UntilSteady { round, .. } => round,
        };
        if !is_time(seconds) || seconds == 0.0 || !is_time(self.ramp) {
            return wrong("times must be above 0 and below three years".to_owned());
        }
        if self.threads.is_some_and(|threads| !(1..=THREADS_MAX).contains(&threads)) {
            return wrong(format!("--threads goes from 1 to {THREADS_MAX}"));
        }
        let depth = self.closed.map(|closed| closed.depth).or(self.depth);
        if depth.is_some_and(|depth| !(1..=DEPTH_ASKED_MAX).contains(&depth)) {
            return wrong(format!("--depth goes from 1 to {DEPTH_ASKED_MAX}"));
        }
        Ok(())
    }

    /// The streams as they are issued: scaled, in whole sectors. The size is the largest of the
    /// stream's, the mean is kept where a mix of two sizes has it.
    fn streams(&self, sector: u64, notes: &mut Vec<String>) -> Vec<Stream> {
        let mut streams = Vec::new();
        for stream in self.streams.iter().filter(|stream| stream.rate > 0.0) {
            let (mean, unit) = (stream.mean(), sector as f64);
            let size = (mean / unit).ceil().max(1.0) as u64 * sector;
            let mean_size = (mean > unit && (mean as u64) < size).then_some(mean);
            if mean < unit {
                notes.push(format!(
                    "{}: {size} bytes instead of {mean:.0}, for sectors of {sector} bytes",
                    stream.class
                ));
            }
            let rate = stream.rate * self.scale;
            streams.push(Stream { rate, size, mean_size, ..stream.clone() });
        }
        streams
    }

    /// Of each stream the area on each target.
    fn areas(
        &self,
        streams: &[Stream],
        targets: &[Target],
    ) -> Result<Vec<Vec<Range<u64>>>, IssueError> {
        let has_log = streams.iter().any(|stream| stream.class == Class::LogWrite);
        let has_data = streams.iter().any(|stream| stream.class != Class::LogWrite);
        let mut all = Vec::new();
        for stream in streams {
            let mut areas = Vec::new();
            for target in targets {
                let split = Areas::of(target.size, has_log, has_data);
                let area = if stream.class == Class::LogWrite { split.log } else { split.data };
                // Verified requests keep out of each other's way.
                let needed = stream.size * if self.verify { 8 } else { 1 };
                if area.end.saturating_sub(area.start) < needed + alignment(stream.size) {
                    return Err(IssueError::Target {
                        name: target.name.clone(),
                        what: format!(
                            "it has {} bytes, too few for requests of {} bytes",
                            target.size, stream.size
                        ),
                    });
                }
                areas.push(area);
            }
            all.push(areas);
        }
        Ok(all)
    }

    pub(super) fn data(
        &self,
        streams: &[Stream],
        targets: &[Target],
        version: u64,
    ) -> Result<Data, IssueError> {
        let stamp = Stamp::new(self.seed);
        if !self.verify {
            return Ok(Data { stamp, version, versions: None });
        }
        let grain_of = |stream: &Stream| match stream.mean_size {
            None => alignment(stream.size),
            Some(_) => 512,
        };
        let grain = streams.iter().map(grain_of).min().unwrap_or(512).min(4096);
        let sizes: Vec<u64> = targets.iter().map(|target| target.size).collect();
        let memory = Versions::memory(grain, &sizes);
        if memory > VERSIONS_MAX {
            return Err(IssueError::Plan(format!(
                "--verify would need {} MiB for the versions of all blocks: use less of the \
                 targets, with --size",
                memory >> 20
            )));
        }
        let versions = Some(Arc::new(Versions::new(stamp.clone(), grain, &sizes, version)));
        Ok(Data { stamp, version, versions })
    }

    fn threads_of(&self, streams: &[Stream]) -> usize {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let rate: f64 = streams.iter().map(|stream| stream.rate).sum();
        let wanted =
            if self.closed.is_some() { 1 } else { (rate / RATE_OF_THREAD).ceil() as usize };
        self.threads.unwrap_or(wanted.clamp(1, processors))
    }

    /// Most requests in flight of a stream on a thread; 0: it is not on this thread.
    fn depth_of(&self, stream: &Stream, (thread, threads): (usize, usize)) -> usize {
        if stream.class == Class::LogWrite {
            return usize::from(thread == 0);
        }
        if let Some(closed) = self.closed {
            return closed.depth / threads + usize::from(thread < closed.depth % threads);
        }
        let by_size = (MEMORY_OF_CLASS / stream.size as usize).clamp(DEPTH_MIN, DEPTH_MAX);
        self.depth.unwrap_or(by_size)
    }

    /// The lanes of a thread.
    fn part<'a>(
        &self,
        (streams, sector): (&[Stream], u64),
        areas: &[Vec<Range<u64>>],
        (thread, threads): (usize, usize),
        limits: &Arc<Limits>,
        data: &Data,
    ) -> Part<'a> {
        let mut lanes = Vec::new();
        let mut slots = Vec::new();
        for (class, (stream, areas)) in streams.iter().zip(areas).enumerate() {
            let depth = self.depth_of(stream, (thread, threads));
            slots.push((depth, stream.size as usize));
            if depth == 0 {
                continue;
            }
            let is_log = stream.class == Class::LogWrite;
            let seed = self.seed.wrapping_add((class as u64) << 16);
            let of = if is_log { (0, 1) } else { (thread, threads) };
            let schedule = Schedule::new(self.arrivals, stream.rate, of.0, of.1, seed);
            let pace = match self.closed {
                None => Pace::Open(schedule),
                Some(closed) if closed.is_paced => Pace::Closed(schedule),
                Some(_) => Pace::Unpaced,
            };
            let kind = match stream.class {
                Class::LogWrite => Kind::DurableWrite,
                class if class.reads() => Kind::Read,
                _ => Kind::Write,
            };
            let places = Places::new(stream.class, stream.size, areas.clone(), thread, seed);
            let rate = stream.rate / of.1 as f64;
            let sizes = Sizes::of_mean(stream.mean(), stream.size as usize, sector as usize);
            lanes.push(Lane::new(class, sizes, kind, places, pace, depth, rate));
        }
        let source = Lanes::new(lanes, Arc::clone(limits), data.versions.clone());
        Part { source: Box::new(source), slots }
    }

    fn outcome(
        &self,
        streams: &[Stream],
        targets: &[Target],
        began: u64,
        measured: Measured,
        mut notes: Vec<String>,
    ) -> Outcome {
        let is_closed = self.closed.is_some();
        if is_closed {
            notes.push(
                "closed loop: a stall of a target hides the requests that would have come meanwhile"
                    .to_owned(),
            );
        }
        add_notes(&measured, "give more --threads", &mut notes);
        let recorder = &measured.recorder;
        let class = |(number, stream): (usize, &Stream)| {
            let total = recorder.total(number);
            ClassRun {
                name: stream.class.name().to_owned(),
                class: Some(stream.class),
                requests: total.requests,
                bytes: total.bytes,
                errors: total.errors,
                latency: total.buckets(),
                mean: None,
                line: recorder.line(number),
            }
        };
        let classes: Vec<ClassRun> = streams.iter().enumerate().map(class).collect();
        let is_paced = self.closed.is_none_or(|closed| closed.is_paced);
        let errors = measured.failed.count;
        Outcome {
            wanted: streams.iter().map(|s| if is_paced { s.rate } else { 0.0 }).collect(),
            wrong: measured.wrong.count,
            errors,
            is_interrupted: measured.is_interrupted,
            is_steady: measured.steady.map(|steady| steady.is_ok()),
            run: Run {
                version: VERSION,
                label: self.label.clone(),
                source: "plinth load run".to_owned(),
                targets: targets.iter().map(|target| target.name.clone()).collect(),
                began: Some(began),
                seconds: recorder.seconds(),
                issued: if is_closed { Loop::Closed } else { Loop::Open },
                classes,
                notes,
            },
        }
    }
}

/// Notes for a reader of the results: how they came about. `remedy` is for threads that are busy.
pub(super) fn add_notes(measured: &Measured, remedy: &str, notes: &mut Vec<String>) {
    if measured.engine != "io_uring" {
        notes.push(format!("issued by {}", measured.engine));
    }
    if measured.is_interrupted {
        notes.push("interrupted: these are the results so far".to_owned());
    }
    match measured.steady {
        Some(Ok(rounds)) => notes
            .push(format!("steady after {rounds} rounds; these are the results of the last five")),
        Some(Err(rounds)) => notes.push(format!(
            "not steady after {rounds} rounds; these are the results of the last five"
        )),
        None => {}
    }
    if measured.unissued > 0 {
        notes.push(format!(
            "{} requests were due and were never issued: the load is more than the targets do",
            measured.unissued
        ));
    }
    if measured.busy > BUSY_NOTED {
        notes.push(format!(
            "a thread of the generator was busy for {:.0} % of the time: this host is the limit, \
             not the targets; {remedy}",
            measured.busy * 100.0
        ));
    }
    let lag = measured.lag;
    let mean = lag.sum as f64 / lag.count.max(1) as f64;
    if mean > LAG_NOTED {
        notes.push(format!(
            "this host's timers were late by {:.0} us in the mean (at most {:.0}), which is not \
             in the latencies: its processors are busy",
            mean / 1e3,
            lag.max as f64 / 1e3
        ));
    }
    let sorts = [
        ("requests failed", &measured.failed),
        ("blocks were read and were not as they must be", &measured.wrong),
    ];
    for (sort, messages) in sorts {
        if messages.count > 0 {
            notes.push(format!("{} {sort}: {}", messages.count, messages.first.join("; ")));
        }
    }
}
