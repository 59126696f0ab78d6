//! Runs with the figures that articles printed, and long ones made up.

#![allow(dead_code)] // Each test takes its part.

use clap::Parser;
use plinth_evidence::{
    buckets::{Buckets, Moments},
    command::Load,
    model::Class,
    run::{ClassRun, Loop, Point, Run, VERSION},
};
use std::path::{Path, PathBuf};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    load: Load,
}

pub fn run(label: &str, source: &str, seconds: f64, classes: Vec<ClassRun>) -> Run {
    Run {
        version: VERSION,
        label: label.to_owned(),
        source: source.to_owned(),
        targets: Vec::new(),
        began: None,
        seconds,
        issued: Loop::Unknown,
        classes,
        notes: Vec::new(),
    }
}

pub fn class(class: Class, requests: u64, bytes: u64) -> ClassRun {
    ClassRun {
        name: class.name().to_owned(),
        class: Some(class),
        requests,
        bytes,
        errors: 0,
        latency: Buckets::default(),
        mean: None,
        line: Vec::new(),
    }
}

/// `db file sequential read` with the two sites in turn, then from the far one, then from the near
/// one: the counts up to 256, 512, 1024 ... us, of no known duration.
pub fn preferred_reads() -> Vec<Run> {
    let sites = [
        ("both sites", vec![538, 5461, 2383, 123, 148, 682, 3777, 1977, 454, 68, 6]),
        ("remote site", vec![0, 5425, 6165, 150, 89, 630, 3598, 1903, 353, 36, 0, 1]),
        ("local site", vec![1165, 9465, 519, 184, 227, 705, 3350, 1743, 402, 42, 1]),
    ];
    let of_site = |(label, counts): (&str, Vec<u64>)| {
        let mut read = class(Class::RandomRead, counts.iter().sum(), 0);
        read.latency = Buckets::new((0..).map(|power| 256_000 << power).zip(counts));
        run(label, "v$event_histogram_micro", 0.0, vec![read])
    };
    sites.into_iter().map(of_site).collect()
}

/// Eight hours without a hypervisor and with two: requests and MB a second of reads and writes,
/// the mean of the reads in us, and the per cent of the waits up to 1, 2, 4 ... 32 ms, 1 s, above.
pub fn bake_off() -> Vec<Run> {
    const SECONDS: f64 = 28_800.0;
    let profiles = [
        (
            "bare metal",
            [194_452.3, 1519.2, 37_978.7, 320.4],
            438.0,
            [98.7, 1.3, 0.01, 0.01, 0.01, 0.01, 0.0, 0.0],
        ),
        (
            "VMware ESX",
            [145_066.8, 1133.4, 28_075.0, 236.7],
            596.0,
            [92.2, 6.7, 1.1, 0.01, 0.01, 0.01, 0.0, 0.0],
        ),
        (
            "Oracle VM",
            [134_592.9, 1051.6, 25_970.9, 221.9],
            607.0,
            [95.6, 4.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01],
        ),
    ];
    profiles
        .into_iter()
        .map(|(label, [reads, read_mb, writes, write_mb], mean, waits)| {
            let of = |kind, rate: f64, mb: f64| {
                let bytes = mb * SECONDS * f64::from(1 << 20);
                class(kind, (rate * SECONDS).round() as u64, bytes.round() as u64)
            };
            let mut read = of(Class::RandomRead, reads, read_mb);
            read.mean = Some(mean * 1e3);
            let ms = [1, 2, 4, 8, 16, 32, 1024, 2048].map(|ms: u64| ms * 1_000_000);
            let counts = waits.map(|per_cent| (per_cent * 1e6_f64).round() as u64);
            read.latency = Buckets::new(ms.into_iter().zip(counts));
            read.latency.is_open = waits[7] > 0.0;
            let write = of(Class::RandomWrite, writes, write_mb);
            run(label, "AWR 11.2.0.4", SECONDS, vec![read, write])
        })
        .collect()
}

/// A run of our own with a point a second. `ragged` is the height of its waves, 0 to 1.
pub fn long(label: &str, seconds: usize, kinds: &[Class], rate: f64, ragged: f64) -> Run {
    let of_class = |(place, kind): (usize, &Class)| {
        let mut random = 88_172_645_463_325_252_u64 ^ (place as u64) << 20 ^ seconds as u64;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut made = class(*kind, 0, 0);
        let mut sums = Moments { min: u64::MAX, ..Moments::default() };
        let mut counts = Vec::new();
        for at in 0..seconds {
            let wave = 1.0 + ragged * 0.5 * (at as f64 / 97.0).sin() + ragged * (next() - 0.5);
            let requests = (rate * wave).max(0.0) as u64;
            let mut mean = 4e5 * (1.0 + place as f64) / wave.max(0.1);
            if ragged > 0.3 && at % 7001 == 7000 {
                mean *= 40.0;
            }
            let deviation = mean * (0.1 + ragged / 2.0);
            let bytes = requests * 8192;
            let (at, p99, max) = (at as f64, mean + 3.0 * deviation, mean + 9.0 * deviation);
            made.line.push(Point { at, length: 1.0, requests, bytes, mean, deviation, p99, max });
            made.requests += requests;
            made.bytes += bytes;
            sums.sum += mean * requests as f64;
            sums.sum_of_squares += (mean * mean + deviation * deviation) * requests as f64;
            sums.max = sums.max.max(max as u64);
            sums.min = sums.min.min(mean as u64);
            // Borders 1 % apart, as our recorder has them; a tail that falls off.
            for share in [0.5_f64, 0.3, 0.15, 0.04, 0.009, 0.001] {
                let value = mean * (0.6 + 0.3 / share.sqrt() * (0.5 + next()) * 0.3);
                let border = 1.01_f64.powf((value.ln() / 1.01_f64.ln()).ceil()).ceil() as u64;
                counts.push((border, (share * requests as f64) as u64));
            }
        }
        made.latency = Buckets::new(counts);
        made.latency.moments = Some(sums);
        made
    };
    let classes = kinds.iter().enumerate().map(of_class).collect();
    let mut made = run(label, "plinth load run", seconds as f64, classes);
    made.issued = Loop::Open;
    made.began = Some(1_796_000_000);
    made
}

/// Writes runs as files and gives their paths.
pub fn files(directory: &Path, runs: &[Run]) -> Vec<PathBuf> {
    let write = |(index, run): (usize, &Run)| {
        let path = directory.join(format!("run-{index}.json"));
        std::fs::write(&path, run.to_json()).expect("the directory is ours");
        path
    };
    runs.iter().enumerate().map(write).collect()
}

/// The exit code and the output of `plinth load compare`.
pub fn compare(files: &[PathBuf], options: &[&str]) -> (std::process::ExitCode, String) {
    let words = ["load", "compare"].into_iter().map(Into::into);
    let files = files.iter().map(|path| path.clone().into_os_string());
    let options = options.iter().map(Into::into);
    let arguments: Vec<std::ffi::OsString> = words.chain(files).chain(options).collect();
    let mut out = Vec::new();
    let code = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments.load.run(&mut out),
        Err(error) => std::process::ExitCode::from(error.exit_code() as u8),
    };
    (code, String::from_utf8(out).expect("text"))
}

/// The page of these runs.
pub fn page(runs: &[Run], options: &[&str]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("page.html");
    let name = path.to_str().expect("a name of ours").to_owned();
    let options: Vec<&str> = options.iter().copied().chain(["--html", &name]).collect();
    let (code, out) = compare(&files(directory.path(), runs), &options);
    assert_eq!(code, std::process::ExitCode::SUCCESS, "{out}");
    std::fs::read_to_string(path).expect("the page")
}
