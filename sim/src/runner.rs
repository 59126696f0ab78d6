//! Many histories, each in a worker: a process that runs some, one after the other, and prints a
//! line for each.
//!
//! A worker that dies takes one history with it, which counts as failed. Memory that dead engines
//! leave behind is given back when a worker ends.

use crate::{
    coverage::Coverage,
    history::{Outcome, run},
    plan::{Plan, Recipe},
};
use plinth_engine::planted::{Bug, planted};
use plinth_workload::lock;
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

/// Histories that one worker runs.
const BATCH: u64 = 5;

/// Processor time after which a history counts as one that never ends: some hundred times that of
/// the longest.
const SECONDS_MAX: u32 = 120;

/// Real time after which one counts as stuck, on a host where other programs leave it little.
const REAL_SECONDS_MAX: u32 = 1800;

/// Events at the end of a history that failed.
const EVENTS_SHOWN: usize = 40;

/// The settings of workers besides their seeds.
#[derive(Debug, Clone)]
pub struct Orders {
    pub recipe: Recipe,
    pub jobs: usize,
    /// Ends the run early: no more workers are started.
    pub time: Option<Duration>,
    /// Gets a line for each history: its seed and its trace hash.
    pub hashes: Option<PathBuf>,
}

/// The results of all histories.
#[derive(Debug, Default)]
pub struct Total {
    pub histories: u64,
    pub operations: u64,
    pub coverage: Coverage,
    /// By seed.
    pub failures: BTreeMap<u64, String>,
    pub took: Duration,
    hashes: BTreeMap<u64, String>,
}

/// The line that a worker prints for one history.
pub fn line(seed: u64, outcome: &Outcome) -> String {
    let failure = outcome.failure.as_deref().unwrap_or("-").replace(['\n', '\t'], " ");
    format!(
        "{seed}\t{:016x}\t{}\t{}\t{failure}",
        outcome.hash, outcome.operations, outcome.coverage
    )
}

/// The work of a worker: the histories of some seeds.
pub fn work(first: u64, end: u64, recipe: Recipe) {
    for seed in first..end {
        let plan = recipe.plan(seed);
        println!("{}", line(seed, &in_time(|| run(&plan, false))));
    }
}

/// Runs a history that ends the process if it takes too long: a task that never yields never meets
/// a limit of steps.
pub fn in_time<T>(history: impl FnOnce() -> T) -> T {
    alarm(SECONDS_MAX, REAL_SECONDS_MAX);
    let result = history();
    alarm(0, 0);
    result
}

/// Ends the process after this many seconds of processor time, or of real time; 0: not any more.
fn alarm(processor: u32, real: u32) {
    let second = |seconds: u32| libc::timeval { tv_sec: seconds.into(), tv_usec: 0 };
    let timer = libc::itimerval { it_interval: second(0), it_value: second(processor) };
    // SAFETY: `setitimer` reads a struct that outlives the call, `alarm` takes a number; no other
    // code uses the process's alarms.
    #[allow(unsafe_code)]
    unsafe {
        libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut());
        libc::alarm(real);
    }
}

/// Runs the histories of seeds `first..end`.
///
/// # Errors
/// If workers cannot be started, or the hashes cannot be written.
pub fn run_all(first: u64, end: u64, orders: &Orders) -> std::io::Result<Total> {
    let began = Instant::now();
    let next = Mutex::new(first);
    let total = Mutex::new(Total::default());
    let results: Vec<std::io::Result<()>> = std::thread::scope(|scope| {
        let job = || {
            loop {
                let from = {
                    let mut next = lock(&next);
                    let late = orders.time.is_some_and(|time| began.elapsed() >= time);
                    if *next >= end || late {
                        return Ok(());
                    }
                    let from = *next;
                    *next = (from + BATCH).min(end);
                    from
                };
                batch(from, (from + BATCH).min(end), orders, &total)?;
            }
        };
        let jobs: Vec<_> = (0..orders.jobs.max(1)).map(|_| scope.spawn(job)).collect();
        jobs.into_iter().map(|job| job.join().expect("a job does not panic")).collect()
    });
    results.into_iter().collect::<std::io::Result<()>>()?;
    let mut total = lock::into_inner(total);
    total.took = began.elapsed();
    if let Some(path) = &orders.hashes {
        let mut file = std::fs::File::create(path)?;
        for (seed, hash) in &total.hashes {
            writeln!(file, "{seed} {hash}")?;
        }
    }
    Ok(total)
}

fn batch(first: u64, end: u64, orders: &Orders, total: &Mutex<Total>) -> std::io::Result<()> {
    let mut from = first;
    while from < end {
        let (status, text) = histories(from, end, orders.recipe, &planted())?;
        let mut total = lock(total);
        for line in text.lines() {
            let Some((seed, result)) = parse(line) else { continue };
            from = seed + 1;
            total.histories += 1;
            total.operations += result.operations;
            total.coverage.add(&result.coverage);
            total.hashes.insert(seed, result.hash);
            if let Some(failure) = result.failure {
                println!("FAILED seed {seed}: {failure}");
                total.failures.insert(seed, failure);
            }
        }
        if from < end {
            let failure = ended(status);
            println!("FAILED seed {from}: {failure}");
            total.histories += 1;
            total.failures.insert(from, failure);
            from += 1;
        }
    }
    Ok(())
}

struct Result1 {
    hash: String,
    operations: u64,
    coverage: Coverage,
    failure: Option<String>,
}

fn parse(line: &str) -> Option<(u64, Result1)> {
    let fields: Vec<&str> = line.splitn(5, '\t').collect();
    let [seed, hash, operations, coverage, failure] = fields[..] else { return None };
    let result = Result1 {
        hash: hash.to_owned(),
        operations: operations.parse().ok()?,
        coverage: Coverage::parse(coverage),
        failure: (failure != "-").then(|| failure.to_owned()),
    };
    Some((seed.parse().ok()?, result))
}

/// Runs one plan in a worker. How it failed, if it did.
///
/// # Errors
/// If the worker cannot be started, or its plan cannot be written to `scratch`.
pub fn fails(plan: &Plan, scratch: &Path) -> std::io::Result<Option<String>> {
    std::fs::write(scratch, plan.to_string())?;
    let (status, text) = replay(scratch)?;
    Ok(failure_of(status, &text))
}

/// Runs the history of one seed in a worker. How it failed, if it did.
///
/// # Panics
/// If the worker cannot be started.
pub fn history(seed: u64, bugs: &[Bug], recipe: Recipe) -> Option<String> {
    let (status, text) = histories(seed, seed + 1, recipe, bugs).expect("a worker can be started");
    failure_of(status, &text)
}

/// Runs the histories of some seeds in a worker: its exit status, and its output.
fn histories(
    first: u64,
    end: u64,
    recipe: Recipe,
    bugs: &[Bug],
) -> std::io::Result<(ExitStatus, String)> {
    let (seeds, operations) = (format!("{first}..{end}"), recipe.operations.to_string());
    let mut words = vec!["--seeds", &seeds, "--operations", &operations];
    words.extend(recipe.fault.iter().flat_map(|fault| ["--fault", fault.name()]));
    let words: Vec<_> = words.into_iter().map(OsStr::new).collect();
    worker(&words, bugs)
}

/// The failure of the history whose line a worker printed first.
fn failure_of(status: ExitStatus, text: &str) -> Option<String> {
    match text.lines().next().and_then(parse) {
        Some((_, result)) => result.failure,
        None => Some(ended(status)),
    }
}

fn ended(status: ExitStatus) -> String {
    format!("the worker ended: {status}")
}

/// The last events of the history in a file.
///
/// # Errors
/// If the worker cannot be started.
pub fn last_events(file: &Path) -> std::io::Result<String> {
    let (status, text) = replay(file)?;
    let events: Vec<&str> = text.lines().skip(1).collect();
    Ok(match events.len() {
        0 => ended(status),
        count => events[count.saturating_sub(EVENTS_SHOWN)..].join("\n"),
    })
}

/// Runs the history in a file in a worker.
fn replay(file: &Path) -> std::io::Result<(ExitStatus, String)> {
    worker(&[OsStr::new("--replay"), file.as_os_str()], &planted())
}

/// Starts a worker, with mistakes planted or none: its exit status, and its output.
fn worker(orders: &[&OsStr], bugs: &[Bug]) -> std::io::Result<(ExitStatus, String)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--worker").args(orders).args(bugs.iter().flat_map(|bug| ["--bug", bug.name()]));
    let output = command.stderr(Stdio::null()).output()?;
    Ok((output.status, String::from_utf8_lossy(&output.stdout).into_owned()))
}
