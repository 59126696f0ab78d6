//! The engine beside its disks: the same load on raw devices and on a file of a group, in one
//! process, by turns.
//!
//! `plinth-io RAW RAW DISK DISK [-t SECONDS] [-r ROUNDS] [-s MIB] [-c CASE,CASE...] [-o
//! ATTRIBUTE=VALUE]...`
//!
//! Block devices of equal size and kind, all of which are overwritten. Of four, two stay raw and
//! two become a group of NORMAL redundancy; of two, one stays raw and one becomes a group of
//! EXTERNAL redundancy. Each case is a block size, a kind and a depth:
//!
//! - raw: one thread, one io_uring, `O_DIRECT`. A write is one on each device, of the same place,
//!   and has ended when all have.
//! - engine: the same thread, through `Session`, on a file of MIB whose blocks were all written
//!   before. Reads are compared with checksums; writes go to both disks, with checksums.
//!
//! Before anything is measured both have been written whole, and read back.
//!
//! Rounds alternate. The table gives the medians of I/Os per second and of the processor time of
//! this process for each I/O. With `-c -` another program decides: each line of standard input is a
//! case, run for a round when it comes, and answered with two lines, `raw RATE CPU LATENCY` and
//! `engine RATE CPU LATENCY`, each when it has ended. `engine CASE` is the engine alone, `unchecked
//! CASE` the engine that compares no checksums. `used CASE` is all three of reads whose bytes the
//! program then looks at.

mod engine;
mod load;
mod raw;

use load::{Outcome, Use};
use plinth_workload::class::Class;
use std::{env, io, process::ExitCode, time::Duration};

/// The command line.
struct Options {
    devices: Vec<String>,
    time: Duration,
    rounds: usize,
    size: u64,
    /// None if they come on standard input.
    cases: Option<Vec<Class>>,
    attributes: Vec<(String, String)>,
}

/// A number of a round.
type Of = fn(&Outcome) -> f64;

const USAGE: &str =
    "plinth-io {RAW DISK | RAW RAW DISK DISK} [-t SECONDS] [-r ROUNDS] [-s MIB] [-c CASE,CASE... | -c -] [-o ATTRIBUTE=VALUE]...
a CASE is KIND:BYTES:DEPTH, its KIND one of randread, randwrite, read, write, sync; with -c - cases are lines of standard input";

fn options() -> Result<Options, String> {
    let mut options = Options {
        devices: Vec::new(),
        time: Duration::from_secs(3),
        rounds: 5,
        size: 1024,
        cases: None,
        attributes: Vec::new(),
    };
    let mut cases = "randread:8192:1,randread:8192:32,randwrite:8192:1,randwrite:8192:32,read:1048576:4,write:1048576:4,sync:2048:1,sync:5120:1".to_owned();
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            options.devices.push(word);
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{word} {value}: {error}"));
        match word.as_str() {
            "-t" => options.time = Duration::from_secs(number()?),
            "-r" => options.rounds = usize::try_from(number()?).unwrap_or(1).max(1),
            "-s" => options.size = number()?.max(8),
            "-c" => cases = value,
            "-o" => match value.split_once('=') {
                Some((name, value)) => options.attributes.push((name.to_owned(), value.to_owned())),
                None => return Err(format!("-o {value}: ATTRIBUTE=VALUE is expected")),
            },
            _ => return Err(format!("{word} is no option\n{USAGE}")),
        }
    }
    options.size <<= 20;
    if cases != "-" {
        options.cases = Some(cases.split(',').map(Class::parse).collect::<Result<_, _>>()?);
    }
    if matches!(options.devices.len(), 2 | 4) { Ok(options) } else { Err(USAGE.to_owned()) }
}

fn run() -> Result<(), String> {
    let options = options()?;
    let (raw, disks) = options.devices.split_at(options.devices.len() / 2);
    let raw = raw::Devices::open(raw, options.size).map_err(|error| error.to_string())?;
    let engine = engine::File::create(disks, options.size, &options.attributes)?;
    match &options.cases {
        Some(cases) => table(&options, cases, &raw, &engine)?,
        None => answer(&options, &raw, &engine)?,
    }
    engine.close()
}

fn answer(options: &Options, raw: &raw::Devices, engine: &engine::File) -> Result<(), String> {
    // The program that decides begins when both are filled.
    println!("ready");
    for (seed, line) in io::stdin().lines().enumerate() {
        let line = line.map_err(|error| error.to_string())?;
        let (who, case) = line.split_once(' ').unwrap_or(("all", &line));
        let (case, seed) = (Class::parse(case)?, seed as u64);
        let tell = |name: &str, Outcome { rate, cpu, wait }| {
            println!("{name} {rate:.1} {cpu:.2} {wait:.2}")
        };
        let of_raw = |of_bytes| {
            raw.run(&case, options.time, seed, of_bytes).map_err(|error| error.to_string())
        };
        match who {
            "unchecked" => {
                tell(who, engine.run_unchecked(&case, options.time, seed, Use::Nothing)?)
            }
            "engine" => tell(who, engine.run(&case, options.time, seed, Use::Nothing)?),
            "used" => {
                tell("raw", of_raw(Use::AddUp)?);
                tell("engine", engine.run(&case, options.time, seed, Use::AddUp)?);
                tell("unchecked", engine.run_unchecked(&case, options.time, seed, Use::AddUp)?);
            }
            _ => {
                tell("raw", of_raw(Use::Nothing)?);
                tell("engine", engine.run(&case, options.time, seed, Use::Nothing)?);
            }
        }
    }
    Ok(())
}

fn table(
    options: &Options,
    cases: &[Class],
    raw: &raw::Devices,
    engine: &engine::File,
) -> Result<(), String> {
    println!(
        "| case | raw, 1/s | engine, 1/s | ratio | raw, us of CPU | engine, us of CPU | raw, us | engine, us |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for case in cases {
        let (mut of_raw, mut of_engine) = (Vec::new(), Vec::new());
        for round in 0..options.rounds {
            let seed = round as u64;
            of_raw.push(
                raw.run(case, options.time, seed, Use::Nothing)
                    .map_err(|error| error.to_string())?,
            );
            of_engine.push(engine.run(case, options.time, seed, Use::Nothing)?);
        }
        let median = |outcomes: &[Outcome], of: Of| {
            let mut values: Vec<f64> = outcomes.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (rate, cpu, wait): (Of, Of, Of) =
            (|outcome| outcome.rate, |outcome| outcome.cpu, |outcome| outcome.wait);
        let ratios = of_raw.iter().zip(&of_engine).map(|(raw, engine)| engine.rate / raw.rate);
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        println!(
            "| {case} | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} | {:.1} | {:.1} |",
            median(&of_raw, rate),
            median(&of_engine, rate),
            ratios[ratios.len() / 2],
            median(&of_raw, cpu),
            median(&of_engine, cpu),
            median(&of_raw, wait),
            median(&of_engine, wait),
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plinth-io: {error}");
            ExitCode::FAILURE
        }
    }
}
