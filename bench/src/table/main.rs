//! The tables and the picture of `bench/data-path.sh`, from the lines that it measures.
//!
//! `plinth-table [-o FILE.svg] <LINES`
//!
//! `figures.rs` describes a line. To standard output, in Markdown: a table for each case, the
//! system calls where they were counted, and one table of promises beside figures. Cases that were
//! not measured are left out.

mod figures;
mod picture;
mod subjects;

use figures::{Figures, Load};
use std::{
    env,
    fmt::{self, Write},
    fs,
    io::{self, Read},
    process::ExitCode,
    thread,
};
use subjects::{COMPARISONS, SUBJECTS, SYSTEMS, Subject};

/// A number as far as it means something: 123456, 1234, 12.3.
fn short(number: f64) -> String {
    if number >= 1000.0 { format!("{number:.0}") } else { format!("{number:.1}") }
}

fn cell(number: Option<f64>, tell: impl Fn(f64) -> String) -> String {
    number.map_or_else(String::new, tell)
}

/// A table for each load, and one for databases.
fn cases(text: &mut String, figures: &Figures) -> fmt::Result {
    for case in figures.cases() {
        if let Some(load) = Load::parse(case) {
            let rate = if load.in_mib() { "MiB/s" } else { "per second" };
            let scale = if load.in_mib() { load.block as f64 / f64::from(1 << 20) } else { 1.0 };
            writeln!(text, "### {load}\n")?;
            rows(text, figures, case, &SUBJECTS, rate, scale)?;
        } else if let Some(title) = picture::transaction(case) {
            writeln!(text, "### {title}\n")?;
            rows(text, figures, case, &SYSTEMS, "per second", 1.0)?;
        }
    }
    Ok(())
}

fn rows(
    text: &mut String,
    figures: &Figures,
    case: &str,
    subjects: &[Subject],
    rate: &str,
    scale: f64,
) -> fmt::Result {
    writeln!(text, "| | {rate} | of the reference | latency, us | CPU, us each |")?;
    writeln!(text, "| --- | ---: | ---: | ---: | ---: |")?;
    for subject in subjects {
        let median = |of| figures.median(case, subject.key, of);
        let Some(own) = median(|round| Some(round.rate)) else { continue };
        let ratio =
            figures.ratio((case, subject.key), (case, subject.reference)).map(|ratio| ratio.median);
        writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            subject.name,
            short(own * scale),
            cell(ratio, |ratio| format!("{ratio:.2}")),
            cell(median(|round| round.latency), short),
            cell(median(|round| round.cpu), short),
        )?;
    }
    writeln!(text)
}

/// The lines of `syscalls:CASE`, system calls for each I/O, as sentences.
fn calls(text: &mut String, figures: &Figures) -> fmt::Result {
    for case in figures.cases() {
        let Some(load) = case.strip_prefix("syscalls:").and_then(Load::parse) else { continue };
        writeln!(text, "System calls of the process that does the I/O, for each of the {load}:\n")?;
        for subject in &SUBJECTS {
            if let Some(calls) = figures.median(case, subject.key, |round| Some(round.rate)) {
                writeln!(text, "- {}: {calls:.2}", subject.name)?;
            }
        }
        writeln!(text)?;
    }
    Ok(())
}

fn comparisons(text: &mut String, figures: &Figures, processors: usize) -> fmt::Result {
    writeln!(text, "### What is aimed at, and what was measured\n")?;
    writeln!(text, "| | beside | target | measured | single rounds | met |")?;
    writeln!(text, "| --- | --- | ---: | ---: | ---: | --- |")?;
    for comparison in &COMPARISONS {
        let Some(verdict) = comparison.judge(figures, processors) else { continue };
        let places = if verdict.unit.is_empty() { 2 } else { 1 };
        let (measured, unit) = (verdict.measured, verdict.unit);
        writeln!(
            text,
            "| {} | {} | {} | {:.places$}{unit} | {:.places$} to {:.places$} | {} |",
            comparison.what,
            verdict.against,
            verdict.target,
            measured.median,
            measured.low,
            measured.high,
            verdict.met.map_or("", |met| if met { "yes" } else { "no" }),
        )?;
    }
    Ok(())
}

fn tables(figures: &Figures, processors: usize) -> Result<String, fmt::Error> {
    let mut text = String::new();
    cases(&mut text, figures)?;
    calls(&mut text, figures)?;
    comparisons(&mut text, figures, processors)?;
    Ok(text)
}

fn run() -> Result<(), String> {
    let words: Vec<String> = env::args().skip(1).collect();
    let picture = match &words[..] {
        [] => None,
        [option, path] if option == "-o" => Some(path),
        _ => return Err("usage: plinth-table [-o FILE.svg] <LINES".to_owned()),
    };
    let mut lines = String::new();
    io::stdin().read_to_string(&mut lines).map_err(|error| format!("standard input: {error}"))?;
    let figures = Figures::parse(&lines)?;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    print!("{}", tables(&figures, processors).map_err(|error| error.to_string())?);
    if let Some(path) = picture {
        let drawn = picture::draw(&figures).map_err(|error| error.to_string())?;
        fs::write(path, drawn).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plinth-table: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rounds of reads of 1 MiB, and the tables made of them.
    #[test]
    fn lines_become_tables() {
        let lines = "read:1048576:4 raw 1 1000 20 4000\nread:1048576:4 raw 2 2000 20 2000\n\
                     read:1048576:4 nbdkit 1 500 40 8000\nread:1048576:4 nbdkit 2 1000 40 4000\n\
                     read:1048576:4 normal-nbd 1 650 - 6000\nread:1048576:4 normal-nbd 2 1250 - 3000\n\
                     syscalls:randread:8192:32 normal 1 0.25 - -";
        let text =
            tables(&Figures::parse(&lines.replace(' ', "\t")).expect("lines"), 2).expect("text");
        for line in [
            "### 1 MiB sequential reads, 4 at a time",
            "| | MiB/s | of the reference | latency, us | CPU, us each |",
            "| raw device | 1500 | 1.00 | 3000 | 20.0 |",
            "| NBD: nbdkit, cached | 750.0 | 0.50 | 6000 | 40.0 |",
            "| NBD: Plinth NORMAL | 950.0 | 0.64 | 4500 |  |",
            "- library: Plinth NORMAL: 0.25",
            "| NBD, NORMAL: 1 MiB reads | NBD: nbdkit, cached | at least 1.20 | 1.27 | 1.25 to 1.30 | yes |",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("btrfs"), "it was not measured");
    }
}
