//! `sim --seed 42`, `sim --seeds 0..1000`, `sim --minutes 30`, `sim --replay FILE`.

use clap::Parser;
use sim::{
    history::{OPERATIONS, Outcome, run},
    plan::{Fault, Plan, Recipe},
    runner::{self, Orders, Total},
    shrink::shrink,
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Tries to make the engine lose data. Without arguments: ten minutes of new histories.
#[derive(Parser)]
struct Arguments {
    /// One history.
    #[arg(long)]
    seed: Option<u64>,
    /// Many: FIRST..END.
    #[arg(long)]
    seeds: Option<String>,
    /// As many as can be run in MINUTES minutes, beginning with a seed from the clock.
    #[arg(long)]
    minutes: Option<f64>,
    /// The history that a file describes, such as one that was kept when it failed.
    #[arg(long)]
    replay: Option<PathBuf>,
    /// Tell the story as it happens.
    #[arg(long)]
    tell: bool,
    /// Workers at a time; as many as there are processors if not given.
    #[arg(long)]
    jobs: Option<usize>,
    /// Operations of one history, at least.
    #[arg(long, default_value_t = OPERATIONS)]
    operations: u64,
    /// This fault happens in each history of a seed.
    #[arg(long, value_name = "NAME", value_parser = Fault::named)]
    fault: Option<Fault>,
    /// Seconds to spend on making a history that failed shorter; 0: it is left as it is.
    #[arg(long, default_value_t = 60)]
    shrink: u64,
    /// Where histories that failed are kept.
    #[arg(long, default_value = "sim-failures")]
    keep: PathBuf,
    /// Write the trace hash of each history of many to this file.
    #[arg(long)]
    hashes: Option<PathBuf>,
    /// A worker of another run: prints a line for each history.
    #[arg(long, hide = true)]
    worker: bool,
    #[command(flatten)]
    planted: sim::planted::Arguments,
}

impl Arguments {
    fn recipe(&self) -> Recipe {
        Recipe { operations: self.operations, fault: self.fault }
    }
}

/// Memory that a worker may have, in bytes: it limits what a hostile disk can make the engine take.
const MEMORY_MAX: u64 = 8 << 30;
/// Failures that are made shorter after a long run.
const SHRUNK_MAX: usize = 3;

fn range(text: &str) -> Option<(u64, u64)> {
    let (first, end) = text.split_once("..")?;
    Some((first.parse().ok()?, end.parse().ok()?))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let jobs = arguments
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    if let Some(ended) = arguments.planted.run(jobs, arguments.recipe()) {
        return ended;
    }
    match go(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}

/// Whether there was no failure.
fn go(arguments: &Arguments) -> Result<bool, String> {
    let plan = match (&arguments.replay, arguments.seed) {
        (Some(path), _) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            Some(text.parse::<Plan>().map_err(|error| format!("{}: {error}", path.display()))?)
        }
        (None, seed) => seed.map(|seed| arguments.recipe().plan(seed)),
    };
    if arguments.worker {
        limit_memory();
        keep_memory();
        if let Some(plan) = plan {
            let outcome = runner::in_time(|| run(&plan, false));
            println!("{}\n{}", runner::line(plan.seed, &outcome), outcome.story.join("\n"));
        } else if let Some((first, end)) = arguments.seeds.as_deref().and_then(range) {
            runner::work(first, end, arguments.recipe());
        }
        return Ok(true);
    }
    if let Some(plan) = plan {
        return one(arguments, &plan);
    }
    let (first, end, minutes) = match &arguments.seeds {
        Some(text) => {
            let (first, end) =
                range(text).ok_or_else(|| format!("--seeds {text}: FIRST..END is meant"))?;
            (first, end, arguments.minutes)
        }
        None => {
            let since =
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            (since * 1000, u64::MAX, Some(arguments.minutes.unwrap_or(10.0)))
        }
    };
    let jobs = arguments
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let orders = Orders {
        recipe: arguments.recipe(),
        jobs,
        time: minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0)),
        hashes: arguments.hashes.clone(),
    };
    match minutes {
        Some(minutes) => println!("seeds {first}.., for {minutes} minutes"),
        None => println!("seeds {first}..{end}"),
    }
    let total = runner::run_all(first, end, &orders).map_err(|error| error.to_string())?;
    report(&total);
    for (seed, failure) in total.failures.iter().take(SHRUNK_MAX) {
        println!("\nseed {seed}: {failure}");
        let kept = keep(arguments, &arguments.recipe().plan(*seed))?;
        println!(
            "its last events:\n{}",
            runner::last_events(&kept).map_err(|error| error.to_string())?
        );
    }
    Ok(total.failures.is_empty())
}

fn one(arguments: &Arguments, plan: &Plan) -> Result<bool, String> {
    println!("seed {}", plan.seed);
    let outcome = run(plan, arguments.tell);
    tell(plan.seed, &outcome);
    let Some(failure) = &outcome.failure else { return Ok(true) };
    if !arguments.tell {
        println!("{}", outcome.story.join("\n"));
    }
    println!("FAILED: {failure}");
    keep(arguments, plan)?;
    Ok(false)
}

fn tell(seed: u64, outcome: &Outcome) {
    let faults = outcome.coverage.by_fault();
    let faults: Vec<String> =
        faults.iter().map(|(fault, count)| format!("{count} {fault}")).collect();
    println!(
        "seed {seed}: {:016x}, {} operations, {} steps in {:.1} s of its time; {}",
        outcome.hash,
        outcome.operations,
        outcome.steps,
        outcome.lasted.as_secs_f64(),
        faults.join(", ")
    );
}

fn report(total: &Total) {
    let histories = total.histories.max(1) as f64;
    println!(
        "{} histories, {:.0} a minute; {:.0} operations and {:.1} faults in each",
        total.histories,
        histories / total.took.as_secs_f64() * 60.0,
        total.operations as f64 / histories,
        total.coverage.faults() as f64 / histories
    );
    let missing = total.coverage.missing();
    let rest = if missing.is_empty() {
        "none is missing".to_owned()
    } else {
        format!("never: {}", missing.join(", "))
    };
    println!("{} pairs of fault and state were met; {rest}", total.coverage.count());
    let (taken, all) = total.coverage.branches();
    let missing = total.coverage.branches_missing();
    let rest = if missing.is_empty() {
        "none is missing".to_owned()
    } else {
        format!("never: {}", missing.join(", "))
    };
    println!("{taken} of {all} marked branches of the engine were taken; {rest}");
    for (seed, failure) in &total.failures {
        println!("FAILED seed {seed}: {failure}");
    }
}

/// Makes a history that failed shorter and keeps it in a file.
fn keep(arguments: &Arguments, plan: &Plan) -> Result<PathBuf, String> {
    let name = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(&arguments.keep).map_err(|error| name(&arguments.keep, error))?;
    let path = arguments.keep.join(format!("seed-{}.history", plan.seed));
    let scratch = arguments.keep.join(format!("seed-{}.try", plan.seed));
    let time = Duration::from_secs(arguments.shrink);
    let fails = |plan: &Plan| runner::fails(plan, &scratch).ok().flatten();
    let (shorter, failure) = shrink(plan.clone(), time, fails);
    let _ = std::fs::remove_file(&scratch);
    std::fs::write(&path, shorter.to_string()).map_err(|error| name(&path, error))?;
    if let Some(failure) = failure {
        println!("shorter, it fails too: {failure}\n{}", shorter.to_string().trim_end());
    }
    println!("kept; again with: sim --replay {}", path.display());
    Ok(path)
}

fn limit_memory() {
    let limit = libc::rlimit { rlim_cur: MEMORY_MAX, rlim_max: MEMORY_MAX };
    // SAFETY: setrlimit reads a struct that outlives the call.
    #[allow(unsafe_code)]
    unsafe {
        libc::setrlimit(libc::RLIMIT_AS, &raw const limit);
    }
}

/// Buffers come and go all the time: a worker keeps them, instead of giving them back and clearing
/// them again.
fn keep_memory() {
    const KEPT: libc::c_int = 1 << 30;
    // SAFETY: mallopt takes two numbers, before other threads run.
    #[allow(unsafe_code)]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
    }
}
