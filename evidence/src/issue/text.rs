//! Results as text: a table of the classes, and histograms as a database shows its wait events.

use super::{Interval, Outcome};
use crate::{
    buckets::Buckets,
    draw::{
        columns::{First, aligned},
        units::grouped,
    },
    model::Class,
    run::{ClassRun, Loop, Run},
};
use std::fmt::Write;

const MIB: f64 = (1 << 20) as f64;

/// A duration of nanoseconds for people.
#[must_use]
pub fn duration(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e4 => format!("{:.2} us", n / 1e3),
        n if n < 1e6 => format!("{:.0} us", n / 1e3),
        n if n < 1e7 => format!("{:.2} ms", n / 1e6),
        n if n < 1e9 => format!("{:.0} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// A number of a second for people.
fn rate(number: f64) -> String {
    if number < 1000.0 { format!("{number:.2}") } else { format!("{number:.0}") }
}

/// The table of a run: a row for each class. `wanted` are the rates that were asked for. Classes
/// are called by their own names or by their sorts.
#[must_use]
pub fn table(run: &Run, wanted: &[f64], by_name: bool) -> String {
    let mut rows = vec![
        [
            "class",
            "requests",
            "wanted/s",
            "got/s",
            "MiB/s",
            "mean",
            "p50",
            "p99",
            "p99.9",
            "max",
            "deviation",
            "errors",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let seconds = run.seconds.max(f64::MIN_POSITIVE);
    for (number, class) in run.classes.iter().enumerate() {
        let wanted = wanted.get(number).copied().filter(|wanted| *wanted > 0.0);
        let latency = &class.latency;
        let at = |share| latency.percentile(share).map_or("-".to_owned(), |n| duration(n as f64));
        let max = latency.moments.map_or("-".to_owned(), |moments| duration(moments.max as f64));
        rows.push(vec![
            title(class, by_name).to_owned(),
            class.requests.to_string(),
            wanted.map_or("-".to_owned(), rate),
            rate(class.requests as f64 / seconds),
            rate(class.bytes as f64 / MIB / seconds),
            class.mean().map_or("-".to_owned(), duration),
            at(0.5),
            at(0.99),
            at(0.999),
            max,
            latency.deviation().map_or("-".to_owned(), duration),
            class.errors.to_string(),
        ]);
    }
    aligned(&rows, First::Left)
}

fn title(class: &ClassRun, by_name: bool) -> &str {
    match class.class {
        Some(of) if !by_name => of.title(),
        _ => &class.name,
    }
}

/// All of a run: how it was issued, the table, a histogram for each class, the notes.
#[must_use]
pub fn report(outcome: &Outcome) -> String {
    let run = &outcome.run;
    let mut text = heading(run);
    text += &table(run, &outcome.wanted, false);
    for class in &run.classes {
        text.push('\n');
        text += &histogram(title(class, false), &class.latency);
    }
    text += &notes(run);
    text
}

/// One line: label, time, open or closed.
#[must_use]
pub fn heading(run: &Run) -> String {
    let issued = match run.issued {
        Loop::Open => "open loop (latency from the intended start)",
        Loop::Closed => "closed loop (latency from the start)",
        Loop::Unknown => "issued in an unknown way",
    };
    format!("{}: {:.1} s, {issued}, {}\n\n", run.label, run.seconds, run.targets.join(", "))
}

#[must_use]
pub fn notes(run: &Run) -> String {
    let mut text = String::new();
    for note in &run.notes {
        text += if text.is_empty() { "\n" } else { "" };
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Requests of a histogram in powers of two of a microsecond, all from 1 us to the largest that has
/// any. A request counts for the bucket that its histogram's border lies in.
#[must_use]
pub fn powers_of_two(buckets: &Buckets) -> Vec<(u64, u64)> {
    let mut counts = vec![0_u64];
    for (border, count) in buckets.counts() {
        // The border of the histogram is 1 % above the values: those just below a power of two
        // stay there.
        let inside = (*border as f64 / 1.005) as u64;
        let micros = inside.div_ceil(1000).max(1);
        let power = micros.next_power_of_two().trailing_zeros() as usize;
        if counts.len() <= power {
            counts.resize(power + 1, 0);
        }
        counts[power] = counts[power].saturating_add(*count);
    }
    counts.into_iter().enumerate().map(|(power, count)| (1 << power.min(63), count)).collect()
}

/// A histogram in the form of a database's view of wait events, with percentages.
#[must_use]
pub fn histogram(event: &str, buckets: &Buckets) -> String {
    let mut text = format!(
        "{:<30} {:>15} {:>10} {:>7} {:>7} {}\n{} {} {} {} {} {}\n",
        "EVENT",
        "WAIT_TIME_MICRO",
        "WAIT_COUNT",
        "PCT",
        "UP_TO",
        "WAIT_TIME_FORMAT",
        "-".repeat(30),
        "-".repeat(15),
        "-".repeat(10),
        "-".repeat(7),
        "-".repeat(7),
        "-".repeat(30)
    );
    let all = buckets.requests().max(1) as f64;
    let mut below = 0;
    for (micros, count) in powers_of_two(buckets) {
        below += count;
        let _ = writeln!(
            text,
            "{event:<30} {micros:>15} {count:>10} {:>7.2} {:>7.2} {}",
            count as f64 * 100.0 / all,
            below as f64 * 100.0 / all,
            format_of(micros)
        );
    }
    text
}

/// `1 microsecond`, `2 milliseconds`, as databases write it: 65,536 us is 65 milliseconds.
fn format_of(micros: u64) -> String {
    let (number, unit) = match micros {
        n if n < 1 << 10 => (n, "microsecond"),
        n if n < 1 << 20 => (n / 1000, "millisecond"),
        n if n < 1 << 26 => (n / 1_000_000, "second"),
        n => (n / 60_000_000, "minute"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

/// One line for each class of a second: for a person who watches.
#[must_use]
pub fn live(classes: &[&str], interval: &Interval) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, tally) in classes.iter().zip(&interval.tallies) {
        lines.push(format!(
            "{:>7.0} s  {name:<12} {:>8}/s {:>8} MiB/s  mean {:>8}  p99 {:>8}  max {:>8}",
            interval.at,
            tally.requests,
            rate(tally.bytes as f64 / MIB),
            duration(tally.mean()),
            duration(tally.percentile(0.99) as f64),
            duration(tally.max() as f64),
        ));
    }
    lines
}

/// The I/O profile as a database's report has it.
#[must_use]
pub fn profile(run: &Run) -> String {
    let seconds = run.seconds.max(f64::MIN_POSITIVE);
    let is_read = |class: &ClassRun| class.class.is_some_and(Class::reads);
    let is_redo = |class: &ClassRun| class.class == Some(Class::LogWrite);
    let sum = |is: &dyn Fn(&ClassRun) -> bool, of: fn(&ClassRun) -> u64| -> f64 {
        run.classes.iter().filter(|class| is(class)).map(|class| of(class) as f64).sum::<f64>()
            / seconds
    };
    let row = |name: &str, read: f64, write: f64| {
        let [all, read, write] = [read + write, read, write].map(thousands);
        format!("{name:>26} {all:>18} {read:>15} {write:>15}\n")
    };
    let is_write = |class: &ClassRun| !is_read(class);
    let is_data = |class: &ClassRun| !is_read(class) && !is_redo(class);
    let requests = |class: &ClassRun| class.requests;
    let bytes = |class: &ClassRun| class.bytes;
    let mut text =
        "IO Profile                  Read+Write/Second     Read/Second    Write/Second\n\
         ~~~~~~~~~~                  ----------------- --------------- ---------------\n"
            .to_owned();
    let reads = sum(&is_read, requests);
    text += &row("Total Requests:", reads, sum(&is_write, requests));
    text += &row("Database Requests:", reads, sum(&is_data, requests));
    text += &row("Optimized Requests:", 0.0, 0.0);
    text += &row("Redo Requests:", 0.0, sum(&is_redo, requests));
    text += &row("Total (MB):", sum(&is_read, bytes) / MIB, sum(&is_write, bytes) / MIB);
    text
}

/// One decimal, with commas between thousands.
fn thousands(number: f64) -> String {
    let text = format!("{number:.1}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, "0"));
    format!("{}.{part}", grouped(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_all_powers_of_two_from_a_microsecond() {
        let buckets = Buckets::new([(900, 1), (1_000, 1), (400_000, 6), (1_024_000, 2)]);
        let counts = powers_of_two(&buckets);
        assert_eq!(counts.len(), 11);
        assert_eq!((counts[0], counts[9], counts[10]), ((1, 2), (512, 6), (1024, 2)));
        let text = histogram("db file sequential read", &buckets);
        let wanted = "db file sequential read                    512          6   60.00   80.00 \
                      512 microseconds";
        assert_eq!(text.lines().nth(11), Some(wanted));
        assert!(text.ends_with("1 millisecond\n"), "{text}");
        assert_eq!(powers_of_two(&Buckets::default()), [(1, 0)]);
    }

    #[test]
    fn borders_are_named_as_databases_do() {
        for (micros, name) in [
            (1, "1 microsecond"),
            (512, "512 microseconds"),
            (1 << 10, "1 millisecond"),
            (1 << 16, "65 milliseconds"),
            (1 << 19, "524 milliseconds"),
            (1 << 20, "1 second"),
            (1 << 22, "4 seconds"),
        ] {
            assert_eq!(format_of(micros), name);
        }
    }

    #[test]
    fn durations_and_thousands_are_short() {
        assert_eq!(duration(12_345.0), "12 us");
        assert_eq!(duration(1_234_567.0), "1.23 ms");
        assert_eq!(thousands(232_431.04), "232,431.0");
        assert_eq!(thousands(1_000_000.0), "1,000,000.0");
        assert_eq!(thousands(0.26), "0.3");
    }
}
