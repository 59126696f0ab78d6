//! Runs sources on threads until their time is over, and collects what they measure.

use super::{
    IssueError, Observer,
    collect::{Collector, Messages},
    engine::{Clock, Engine, Slots, make_timers_exact},
    lanes::Limits,
    nbd::Client,
    pool::{Blocking, Pool, Way, Ways},
    recorder::{Recorder, Tally},
    ring::Ring,
    steady,
    target::{Access, Target},
    worker::{Data, Ending, Lag, Source, Worker},
};
use std::{
    fs::File,
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// How often the main thread looks after the others.
const LOOK: Duration = Duration::from_millis(50);
/// How long requests that are late may come behind the end, in nanoseconds.
const DRAIN: u64 = 10_000_000_000;
/// Most threads of one worker that transfer by calls that block.
const WAYS_MAX: usize = 64;
/// Most connections of one worker to an export: servers limit them.
const CONNECTIONS_MAX: usize = 16;

/// How long a run measures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    Seconds(f64),
    /// Until the target is steady, by [`steady`]: rounds of that many seconds, at most that many.
    UntilSteady {
        round: f64,
        rounds_max: u32,
    },
}

/// A thread's source and the sizes of its slots.
pub struct Part<'a> {
    pub source: Box<dyn Source + Send + 'a>,
    /// Of each class: how many slots, of how many bytes.
    pub slots: Vec<(usize, usize)>,
}

/// All that a run needs beside its sources.
pub struct Drive<'a> {
    pub targets: &'a [Target],
    pub data: Data,
    pub limits: Arc<Limits>,
    pub length: Length,
    /// Seconds before measuring begins.
    pub ramp: f64,
    /// By what a target is steady: a value of a class in a round of that many seconds.
    pub steady_by: fn(&Tally, f64) -> f64,
    /// Whether io_uring is not even tried.
    pub without_ring: bool,
}

/// The measurements of a run.
pub struct Measured {
    pub recorder: Recorder,
    pub failed: Messages,
    pub wrong: Messages,
    pub lag: Lag,
    pub unissued: u64,
    /// The largest share of the time that a thread was on a processor.
    pub busy: f64,
    pub is_interrupted: bool,
    /// Rounds that it took; None: it was not asked for.
    pub steady: Option<Result<u32, u32>>,
    pub engine: &'static str,
}

impl Drive<'_> {
    /// # Errors
    /// If threads or their engines fail.
    pub fn run(
        &self,
        parts: Vec<Part<'_>>,
        classes: usize,
        observer: &mut dyn Observer,
    ) -> Result<Measured, IssueError> {
        let begin = nanoseconds(self.ramp);
        let round = match self.length {
            Length::Seconds(seconds) => {
                let end = begin.saturating_add(nanoseconds(seconds));
                self.limits.set(end, end.saturating_add(DRAIN));
                None
            }
            Length::UntilSteady { round, .. } => Some((round.round() as u64).max(1)),
        };
        let collector = Collector::new(parts.len(), classes, begin, round);
        let host = Host::new(self.targets, self.without_ring)?;
        let left = AtomicUsize::new(parts.len());
        let mut steady = None;
        let mut is_interrupted = false;
        observer.begins();
        let clock = Clock::start();
        let endings = thread::scope(|scope| {
            let work = |(number, part): (usize, Part<'_>)| {
                make_timers_exact();
                let (began, used) = (clock.now(), processor_time());
                let ended = self.work(&host, &collector, number, part, clock).map(|ending| {
                    let used = processor_time().saturating_sub(used);
                    (ending, used as f64 / clock.now().saturating_sub(began).max(1) as f64)
                });
                collector.leave(number);
                left.fetch_sub(1, Ordering::AcqRel);
                ended
            };
            let mut threads = Vec::new();
            for part in parts.into_iter().enumerate() {
                let name = format!("load-{}", part.0);
                let thread = thread::Builder::new().name(name);
                threads.push(thread.spawn_scoped(scope, move || work(part)));
            }
            while left.load(Ordering::Acquire) > 0 {
                thread::sleep(LOOK);
                if !is_interrupted && observer.is_stopped() {
                    is_interrupted = true;
                    self.limits.set(clock.now(), clock.now());
                }
                collector.ended().iter().for_each(|interval| observer.interval(interval));
                if steady.is_none() {
                    steady = self.look_for_steady(&collector);
                }
            }
            collect_endings(threads)
        })?;
        let busy = endings.iter().map(|(_, busy)| *busy).fold(0.0, f64::max);
        let endings: Vec<Ending> = endings.into_iter().map(|(ending, _)| ending).collect();
        let last = endings.iter().map(|ending| ending.last).max().unwrap_or(0);
        let planned = self.limits.end().min(last.max(begin));
        let (recorder, failed, wrong) = collector.result(last.max(planned));
        Ok(Measured {
            recorder,
            failed,
            wrong,
            lag: endings.iter().fold(Lag::default(), |sum, ending| Lag {
                count: sum.count + ending.lag.count,
                sum: sum.sum + ending.lag.sum,
                max: sum.max.max(ending.lag.max),
            }),
            unissued: endings.iter().map(|ending| ending.unissued).sum(),
            busy,
            is_interrupted,
            steady,
            engine: host.name(),
        })
    }

    fn look_for_steady(&self, collector: &Collector) -> Option<Result<u32, u32>> {
        let Length::UntilSteady { rounds_max, .. } = self.length else { return None };
        let (ended, values) = collector.rounds(self.steady_by);
        let is_steady = values.iter().all(|values| steady::is_steady(values));
        let found = match ended {
            ended if is_steady => Ok(ended),
            ended if ended >= rounds_max => Err(ended),
            _ => return None,
        };
        self.limits.set(0, 0);
        Some(found)
    }

    fn work(
        &self,
        host: &Host<'_>,
        collector: &Collector,
        number: usize,
        mut part: Part<'_>,
        clock: Clock,
    ) -> io::Result<Ending> {
        let mut slots = Slots::default();
        let ranges: Vec<Range<usize>> =
            part.slots.iter().map(|(count, size)| slots.add(*count, *size)).collect();
        let begin = nanoseconds(self.ramp);
        if let Some(ring) = host.ring(&slots, clock) {
            return run(ring?, self, collector, number, begin, &ranges, &mut *part.source);
        }
        let most = if host.files.is_some() { WAYS_MAX } else { CONNECTIONS_MAX };
        let pool = Pool::new(host.ways(slots.buffers.len().min(most))?, &slots, clock)?;
        run(pool, self, collector, number, begin, &ranges, &mut *part.source)
    }
}

fn run<E: Engine>(
    engine: E,
    drive: &Drive<'_>,
    collector: &Collector,
    number: usize,
    begin: u64,
    ranges: &[Range<usize>],
    source: &mut dyn Source,
) -> io::Result<Ending> {
    Worker::new(engine, collector, drive.data.clone(), number, begin, ranges).run(source)
}

/// How a thread has ended, and for which share of its time it was on a processor.
type Ended = io::Result<(Ending, f64)>;
type Thread<'scope> = io::Result<thread::ScopedJoinHandle<'scope, Ended>>;

/// Nanoseconds that this thread was on a processor.
fn processor_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn collect_endings(threads: Vec<Thread<'_>>) -> Result<Vec<(Ending, f64)>, IssueError> {
    let mut endings = Vec::new();
    for thread in threads {
        let joined = thread.map_err(IssueError::Threads)?.join();
        let ended = joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        endings.push(ended.map_err(IssueError::Threads)?);
    }
    Ok(endings)
}

/// The ways to the targets.
struct Host<'a> {
    targets: &'a [Target],
    /// All targets, if all are files.
    files: Option<Arc<Vec<File>>>,
    has_ring: bool,
}

impl<'a> Host<'a> {
    fn new(targets: &'a [Target], without_ring: bool) -> Result<Self, IssueError> {
        let files: Result<Option<Vec<File>>, io::Error> = targets
            .iter()
            .map(|target| match &target.access {
                Access::File(file) => file.try_clone().map(Some),
                Access::Nbd(_) => Ok(None),
            })
            .collect();
        let files = files.map_err(IssueError::Threads)?.map(Arc::new);
        let mut probe = Slots::default();
        probe.add(1, 4096);
        let has_ring = !without_ring
            && files
                .as_ref()
                .is_some_and(|files| Ring::new(Arc::clone(files), probe, Clock::start()).is_ok());
        Ok(Self { targets, files, has_ring })
    }

    fn name(&self) -> &'static str {
        match (self.has_ring, &self.files) {
            (true, _) => "io_uring",
            (false, Some(_)) => "threads with preadv2 and pwritev2: io_uring is refused here",
            (false, None) => "a connection for each request in flight",
        }
    }

    fn ring(&self, slots: &Slots, clock: Clock) -> Option<io::Result<Ring>> {
        let files = self.files.as_ref().filter(|_| self.has_ring)?;
        Some(Ring::new(Arc::clone(files), slots.clone(), clock))
    }

    fn ways(&self, count: usize) -> io::Result<Vec<Box<dyn Blocking>>> {
        (0..count.max(1)).map(|_| self.way()).collect()
    }

    fn way(&self) -> io::Result<Box<dyn Blocking>> {
        let mut ways = Vec::new();
        for target in self.targets {
            ways.push(match &target.access {
                Access::File(file) => Way::File(file.try_clone()?),
                Access::Nbd(address) => Way::Nbd(Box::new(Client::connect(address)?)),
            });
        }
        Ok(Box::new(Ways(ways)))
    }
}

/// Nanoseconds of seconds.
#[must_use]
pub fn nanoseconds(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9) as u64
}
