//! How long I/O takes: by class and failure group on the devices, by class as programs see it, by
//! purpose, and the files with the most I/O.
//!
//! Histograms have powers of two in microseconds; a percentile is the upper border of its bucket.
//! The mean of reads and writes follows from the disks' own counters; of flushes and discards there
//! are only buckets, so their mean is an estimate (`~`).

use super::{
    Limits,
    facts::{Facts, Question, Row},
    figures::{cell, cells, count, is_known, mean, table},
};
use plinth_evidence::{
    buckets::Buckets,
    draw::{
        Page, Table,
        chart::SERIES_MAX,
        plot::{Powers, histogram},
        units,
    },
};
use std::collections::BTreeMap;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        view: "v$asm_disk_histogram",
        is_of_engine: true,
        sql: "SELECT disk_number, io_class, wait_time_micro, wait_count
              FROM v$asm_disk_histogram WHERE group_number = {group}",
    },
    Question {
        view: "v$asm_file_histogram",
        is_of_engine: true,
        sql: "SELECT io_class, wait_time_micro, sum(wait_count) AS wait_count
              FROM v$asm_file_histogram WHERE group_number = {group}
              GROUP BY io_class, wait_time_micro",
    },
    Question {
        view: "v$asm_disk_iostat",
        is_of_engine: true,
        sql: "SELECT failgroup, io_client, sum(reads) AS reads, sum(writes) AS writes,
                sum(bytes_read) AS bytes_read, sum(bytes_written) AS bytes_written,
                sum(read_time) AS read_time, sum(write_time) AS write_time
              FROM v$asm_disk_iostat WHERE group_number = {group}
              GROUP BY failgroup, io_client ORDER BY failgroup, io_client",
    },
    Question {
        view: "v$asm_file_iostat",
        is_of_engine: true,
        sql: "SELECT * FROM v$asm_file_iostat WHERE group_number = {group}
              ORDER BY bytes_read + bytes_written DESC LIMIT 15",
    },
    Question {
        view: "v$asm_alias",
        is_of_engine: true,
        sql: "SELECT file_number, name FROM v$asm_alias
              WHERE group_number = {group} AND file_number IN ({files})",
    },
];

/// A histogram under a name: requests by the upper border of the bucket, in microseconds.
type Lines = BTreeMap<String, BTreeMap<u64, u64>>;

pub(super) fn draw(facts: &Facts, page: &mut Page, limits: Limits) {
    page.section("Latencies");
    if is_known(facts, page, "v$asm_disk_histogram") {
        of_disks(facts, page, limits);
    }
    if is_known(facts, page, "v$asm_file_histogram") {
        of_programs(facts, page, limits);
    }
    if is_known(facts, page, "v$asm_disk_iostat") {
        by_purpose(facts, page, limits);
    }
    if is_known(facts, page, "v$asm_file_iostat") {
        files(facts, page, limits);
    }
}

/// One chart for each class, with a line for each failure group.
fn of_disks(facts: &Facts, page: &mut Page, limits: Limits) {
    let failgroups: BTreeMap<i64, String> = facts
        .rows("v$asm_disk_stat")
        .map(|disk| (disk.integer("disk_number"), disk.text("failgroup")))
        .collect();
    let mut classes: BTreeMap<String, Lines> = BTreeMap::new();
    for row in facts.rows("v$asm_disk_histogram") {
        let failgroup = match failgroups.get(&row.integer("disk_number")) {
            Some(name) => name.clone(),
            None => format!("disk {}", row.integer("disk_number")),
        };
        let lines = classes.entry(row.text("io_class")).or_default();
        add(lines.entry(failgroup).or_default(), &row);
    }
    page.paragraph(
        "How long I/O took on the devices that succeeded, since the mount: from its submission to \
         its end.",
    );
    let mut rows = Vec::new();
    for class in in_order(&classes, &["READ", "WRITE", "FLUSH", "DISCARD"]) {
        let lines = &classes[&class];
        for (failgroup, counts) in lines {
            let exact = mean_of(facts, failgroup, &class);
            rows.push(cells(summary(&class, Some(failgroup), counts, exact)));
        }
        let title = format!("{class} by failure group");
        chart(page, &title, lines, limits);
    }
    let head = ["class", "failure group", "I/Os", "mean", "p50", "p99", "p99.9", "longest"];
    table(page, "Latencies on the devices", &head, rows, limits);
}

/// The mean of a failure group's reads or writes, by the counters of its disks.
fn mean_of(facts: &Facts, failgroup: &str, class: &str) -> Option<String> {
    let (number, time) = match class {
        "READ" => ("reads", "read_time"),
        "WRITE" => ("writes", "write_time"),
        _ => return None,
    };
    let mut sums = (0.0, 0);
    for disk in facts.rows("v$asm_disk_stat").filter(|disk| disk.text("failgroup") == failgroup) {
        sums = (sums.0 + disk.real(time), sums.1 + disk.count(number));
    }
    (sums.1 > 0).then(|| mean(sums.0, sums.1))
}

/// One chart with a line for each class.
fn of_programs(facts: &Facts, page: &mut Page, limits: Limits) {
    let mut lines = Lines::new();
    for row in facts.rows("v$asm_file_histogram") {
        add(lines.entry(row.text("io_class")).or_default(), &row);
    }
    if lines.is_empty() {
        page.paragraph("No program has read or written a file since the mount.");
        return;
    }
    page.paragraph(
        "How long requests of programs took, with everything that they waited for. Small ones are \
         up to 64 KiB.",
    );
    chart(page, "Requests of programs", &lines, limits);
    let rows = lines.iter().map(|(class, counts)| cells(summary(class, None, counts, None)));
    let head = ["class", "requests", "mean", "p50", "p99", "p99.9", "longest"];
    table(page, "Latencies of programs", &head, rows.collect(), limits);
}

fn add(counts: &mut BTreeMap<u64, u64>, row: &Row<'_>) {
    let bucket = counts.entry(row.count("wait_time_micro").max(1)).or_default();
    *bucket = bucket.saturating_add(row.count("wait_count"));
}

/// The classes there are, the known ones first.
fn in_order(classes: &BTreeMap<String, Lines>, known: &[&str]) -> Vec<String> {
    let rank = |class: &str| known.iter().position(|name| *name == class).unwrap_or(known.len());
    let mut names: Vec<String> = classes.keys().cloned().collect();
    names.sort_by_key(|class| rank(class));
    names
}

/// Class, failure group, requests, mean and percentiles.
fn summary(
    class: &str,
    failgroup: Option<&str>,
    counts: &BTreeMap<u64, u64>,
    exact: Option<String>,
) -> Vec<String> {
    let buckets =
        Buckets::new(counts.iter().map(|(micro, count)| (micro.saturating_mul(1000), *count)));
    let border = |share: f64| match buckets.percentile(share) {
        Some(nanos) => format!("≤ {}", units::latency(nanos as f64)),
        None => "-".to_owned(),
    };
    let estimate = || {
        buckets.mean().map_or_else(|| "-".to_owned(), |mean| format!("~{}", units::latency(mean)))
    };
    let mut row = vec![class.to_owned()];
    row.extend(failgroup.map(str::to_owned));
    row.extend([count(buckets.requests()), exact.unwrap_or_else(estimate)]);
    row.extend([0.5, 0.99, 0.999, 1.0].map(border));
    row
}

/// A histogram on logarithmic axes, and its buckets as a table.
fn chart(page: &mut Page, title: &str, lines: &Lines, limits: Limits) {
    let mut drawn: Vec<(&String, &BTreeMap<u64, u64>)> = lines.iter().collect();
    if drawn.len() > SERIES_MAX {
        // Those with the most requests, in the order of their names.
        drawn.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.values().sum::<u64>()));
        drawn.truncate(SERIES_MAX);
        drawn.sort();
    }
    let mut series: Vec<Powers<'_>> = Vec::new();
    for (index, (label, counts)) in drawn.iter().enumerate() {
        let last = counts.keys().last().map_or(0, |micro| micro.ilog2() as usize);
        let mut requests = vec![0; last + 1];
        for (micro, count) in *counts {
            requests[micro.ilog2() as usize] = *count;
        }
        series.push(Powers { label, index, requests });
    }
    let about = "Requests by latency, both axes logarithmic, each bucket twice as long as the last";
    let mut table =
        Table::new(["took less than"].into_iter().chain(series.iter().map(|one| one.label)));
    // Buckets that hold something.
    let held = drawn.iter().flat_map(|(_, counts)| counts.iter()).filter(|(_, count)| **count > 0);
    let mut borders: Vec<u64> = held.map(|(micro, _)| *micro).collect();
    borders.sort_unstable();
    borders.dedup();
    for micro in borders.into_iter().take(limits.rows) {
        let counts =
            drawn.iter().map(|(_, counts)| count(counts.get(&micro).copied().unwrap_or(0)));
        table.row([format!("{} us", count(micro))].into_iter().chain(counts));
    }
    page.chart(&histogram(title, title, about, &series), &table);
    if lines.len() > SERIES_MAX {
        page.paragraph(&format!(
            "The chart has the {SERIES_MAX} of {} failure groups with the most I/O.",
            lines.len()
        ));
    }
}

/// The columns of [`traffic`].
const TRAFFIC: [&str; 6] =
    ["reads", "mean read", "bytes read", "writes", "mean write", "bytes written"];

/// Requests, bytes and mean latencies of a view's row.
fn traffic(row: &Row<'_>, reads: u64, writes: u64) -> [String; 6] {
    [
        count(reads),
        mean(row.real("read_time"), reads),
        count(row.count("bytes_read")),
        count(writes),
        mean(row.real("write_time"), writes),
        count(row.count("bytes_written")),
    ]
}

fn by_purpose(facts: &Facts, page: &mut Page, limits: Limits) {
    let row = |row: Row<'_>| {
        let names = [row.text("io_client"), row.text("failgroup")];
        let traffic = traffic(&row, row.count("reads"), row.count("writes"));
        cells(names.into_iter().chain(traffic))
    };
    let is_used = |row: &Row<'_>| row.count("reads") + row.count("writes") > 0;
    let rows = facts.rows("v$asm_disk_iostat").filter(is_used).map(row).collect();
    let head = [&["purpose", "failure group"][..], &TRAFFIC].concat();
    table(page, "I/O by purpose", &head, rows, limits);
}

fn files(facts: &Facts, page: &mut Page, limits: Limits) {
    let mut names: BTreeMap<i64, String> = BTreeMap::new();
    for row in facts.rows("v$asm_alias") {
        names.entry(row.integer("file_number")).or_insert_with(|| row.text("name"));
    }
    let row = |row: Row<'_>| {
        let file = row.integer("file_number");
        let name = match (file, names.get(&file)) {
            (0, _) => "others, and removed ones".to_owned(),
            (_, Some(name)) => cell(name),
            (_, None) => "-".to_owned(),
        };
        let reads = row.count("small_reads") + row.count("large_reads");
        let writes = row.count("small_writes") + row.count("large_writes");
        let syncs = row.count("syncs");
        let syncs = [count(syncs), mean(row.real("sync_time"), syncs)];
        let traffic = traffic(&row, reads, writes);
        cells([name, file.to_string()].into_iter().chain(traffic).chain(syncs))
    };
    let is_used = |row: &Row<'_>| row.count("bytes_read") + row.count("bytes_written") > 0;
    let rows = facts.rows("v$asm_file_iostat").filter(is_used).map(row).collect();
    let head = [&["file", "number"][..], &TRAFFIC, &["syncs", "mean sync"]].concat();
    table(page, "Files with the most I/O", &head, rows, limits);
}
