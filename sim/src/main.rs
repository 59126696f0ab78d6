//! `sim --seed 42`, `sim --seeds 0..1000`.

use clap::Parser;
use sim::history::{Outcome, Settings, run};
use std::{
    collections::BTreeMap,
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

/// Tries to make the engine lose data.
#[derive(Parser)]
struct Arguments {
    /// One history.
    #[arg(long)]
    seed: Option<u64>,
    /// Many: FIRST..END.
    #[arg(long)]
    seeds: Option<String>,
    /// Tell the story as it happens.
    #[arg(long)]
    tell: bool,
    /// Processes at a time; as many as there are processors if not given.
    #[arg(long)]
    jobs: Option<usize>,
    /// Operations of one history, about.
    #[arg(long, default_value_t = 600)]
    operations: u64,
    /// Runs the seeds in this process, and prints a line for each.
    #[arg(long, hide = true)]
    worker: bool,
}

/// Histories that one worker runs: what dead processes leave behind is given back when it ends.
const BATCH: u64 = 25;

fn range(text: &str) -> Option<(u64, u64)> {
    let (first, end) = text.split_once("..")?;
    Some((first.parse().ok()?, end.parse().ok()?))
}

fn one(arguments: &Arguments, seed: u64) -> Outcome {
    run(&Settings { tell: arguments.tell, operations: arguments.operations, ..Settings::of_seed(seed) })
}

fn report(seed: u64, outcome: &Outcome) {
    let faults: Vec<String> = outcome.faults.iter().map(|(fault, count)| format!("{count} {fault}")).collect();
    println!(
        "seed {seed}: {:016x}, {} operations, {} steps in {:.1} s of its time; {}",
        outcome.hash,
        outcome.operations,
        outcome.steps,
        outcome.lasted.as_secs_f64(),
        faults.join(", ")
    );
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.seed {
        println!("seed {seed}");
        let outcome = one(&arguments, seed);
        report(seed, &outcome);
        let Some(failure) = &outcome.failure else { return ExitCode::SUCCESS };
        if !arguments.tell {
            println!("{}", outcome.story.join("\n"));
        }
        println!("FAILED: {failure}");
        return ExitCode::FAILURE;
    }
    let Some((first, end)) = arguments.seeds.as_deref().and_then(range) else {
        eprintln!("--seed N, or --seeds FIRST..END");
        return ExitCode::from(2);
    };
    if arguments.worker {
        for seed in first..end {
            let outcome = one(&arguments, seed);
            let failure = outcome.failure.as_deref().unwrap_or("-").replace('\n', " ");
            let faults: u64 = outcome.faults.values().sum();
            println!("{seed}\t{:016x}\t{}\t{faults}\t{failure}", outcome.hash, outcome.operations);
        }
        return ExitCode::SUCCESS;
    }
    many(&arguments, first, end)
}

#[derive(Default)]
struct Total {
    histories: u64,
    operations: u64,
    faults: u64,
    failures: BTreeMap<u64, String>,
}

fn many(arguments: &Arguments, first: u64, end: u64) -> ExitCode {
    let began = Instant::now();
    let jobs = arguments.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let next = std::sync::Mutex::new(first);
    let total = std::sync::Mutex::new(Total::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let from = {
                        let mut next = next.lock().expect("nobody panics");
                        let from = *next;
                        *next = (from + BATCH).min(end);
                        from
                    };
                    if from >= end {
                        return;
                    }
                    batch(arguments, from, (from + BATCH).min(end), &total);
                }
            });
        }
    });
    let total = total.into_inner().expect("nobody panics");
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    println!(
        "{} histories, {:.0} a minute; {:.0} operations and {:.1} faults in each",
        total.histories,
        total.histories as f64 / minutes,
        total.operations as f64 / total.histories.max(1) as f64,
        total.faults as f64 / total.histories.max(1) as f64
    );
    for (seed, failure) in &total.failures {
        println!("FAILED seed {seed}: {failure}");
    }
    if total.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn batch(arguments: &Arguments, first: u64, end: u64, total: &std::sync::Mutex<Total>) {
    let program = std::env::current_exe().expect("this program has a path");
    let mut from = first;
    while from < end {
        let output = Command::new(&program)
            .args(["--worker", "--seeds", &format!("{from}..{end}"), "--operations", &arguments.operations.to_string()])
            .stderr(Stdio::null())
            .output()
            .expect("a worker can be started");
        let mut total = total.lock().expect("nobody panics");
        let mut last = None;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let fields: Vec<&str> = line.splitn(5, '\t').collect();
            let [seed, _, operations, faults, failure] = fields[..] else { continue };
            let Ok(seed) = seed.parse::<u64>() else { continue };
            last = Some(seed);
            total.histories += 1;
            total.operations += operations.parse::<u64>().unwrap_or(0);
            total.faults += faults.parse::<u64>().unwrap_or(0);
            if failure != "-" {
                println!("FAILED seed {seed}: {failure}");
                total.failures.insert(seed, failure.to_owned());
            }
        }
        from = last.map_or(from, |last| last + 1);
        if from < end && !output.status.success() {
            println!("FAILED seed {from}: the worker ended: {}", output.status);
            total.failures.insert(from, format!("the worker ended: {}", output.status));
            from += 1;
        }
    }
}
