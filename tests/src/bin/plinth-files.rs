//! Makes and removes many files, and prints how fast that went: for `bench/files.sh`.
//!
//! `plinth-files make DIRECTORY COUNT JOBS` makes files named as databases name theirs, a thousand
//! in a directory, each by open, write of 8 KiB if its number divides by 64, and close.
//! `plinth-files remove DIRECTORY COUNT JOBS KEEP` removes all but the first KEEP of them. Both
//! print the rate, and percentiles of the time for one file.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

fn path(directory: &Path, number: u64) -> PathBuf {
    let name = match number % 8 {
        0 => format!("arch_1_{number}.arc"),
        1 => format!("{:024X}", (1_u64 << 40) + number),
        2 => format!("redo{number}.log"),
        3 => format!("temp{number}.tmp"),
        4 => format!("backup_{number}.bkp"),
        _ => format!("users{number}.dbf"),
    };
    directory.join(format!("d{:05}", number / 1000)).join(name)
}

fn make(directory: &Path, number: u64) -> io::Result<()> {
    let path = path(directory, number);
    let open = || OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap_or(directory))?;
            open()?
        }
        other => other?,
    };
    if number.is_multiple_of(64) { file.write_all(&[7; 8192]) } else { Ok(()) }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let usage = "plinth-files {make DIRECTORY COUNT JOBS | remove DIRECTORY COUNT JOBS KEEP}";
    let number =
        |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok()).ok_or(usage);
    let (what, directory) =
        (arguments.first().ok_or(usage)?, Path::new(arguments.get(1).ok_or(usage)?));
    let (count, jobs) = (number(2)?, number(3)?.max(1));
    let first = match what.as_str() {
        "make" => 0,
        "remove" => number(4)?,
        _ => return Err(usage.to_owned()),
    };
    let next = AtomicU64::new(first);
    let one = |number| {
        if what == "make" {
            make(directory, number)
        } else {
            fs::remove_file(path(directory, number))
        }
    };
    let work = || -> Result<Vec<Duration>, String> {
        let mut took = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(took);
            }
            let began = Instant::now();
            one(number)
                .map_err(|error| format!("{}: {error}", path(directory, number).display()))?;
            took.push(began.elapsed());
        }
    };
    let began = Instant::now();
    let mut all = thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread died".to_owned())));
        ended.collect::<Result<Vec<_>, _>>().map(|took| took.concat())
    })?;
    let seconds = began.elapsed().as_secs_f64();
    all.sort_unstable();
    let percentile = |part: f64| {
        all.get((all.len() as f64 * part) as usize)
            .or(all.last())
            .map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    println!(
        "{:.0} files/s; ms each: median {:.2}, p99 {:.2}, p99.9 {:.2}, max {:.2}",
        all.len() as f64 / seconds,
        percentile(0.5),
        percentile(0.99),
        percentile(0.999),
        percentile(1.0)
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
