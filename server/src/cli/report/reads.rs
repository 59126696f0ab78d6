//! Which mirror was read, and why: `v$asm_read_policy`, and the preferred failure groups.

use super::{
    Limits,
    facts::{Facts, Question, Row},
    figures::{cell, cells, count, is_known, per_cent, table},
};
use plinth_evidence::draw::{
    Cell, Page, Table,
    bars::{Stack, stacked},
    units,
};

pub(super) const QUESTIONS: &[Question] = &[Question {
    view: "v$asm_read_policy",
    is_of_engine: true,
    sql: "SELECT * FROM v$asm_read_policy WHERE group_number = {group}
          ORDER BY failgroup, disk_number",
}];

/// Columns of the view, and each reason in words.
const REASONS: [(&str, &str, &str); 6] = [
    ("preferred_reads", "preferred", "its failure group is preferred"),
    ("faster_reads", "faster", "the other mirror was expected to be slower"),
    ("equal_reads", "equal", "the mirrors were expected to be equally fast"),
    ("only_reads", "only one", "no other mirror could be read"),
    ("retry_reads", "retry", "another mirror failed, was damaged or did not answer"),
    ("exploration_reads", "exploration", "to measure a disk that is not read because it is slow"),
];

const BARS_MAX: usize = 24;
/// How fast the engine takes a disk to be, for reads up to a size.
const SPEEDS: [&str; 4] = ["read_micro_16k", "read_micro_64k", "read_micro_256k", "read_micro_1m"];

fn reads(disk: &Row<'_>) -> [u64; 6] {
    REASONS.map(|(column, _, _)| disk.count(column))
}

pub(super) fn draw(facts: &Facts, page: &mut Page, limits: Limits) {
    page.section("Which mirror was read, and why");
    page.paragraph(&preference(facts));
    if !is_known(facts, page, "v$asm_read_policy") {
        return;
    }
    let disks: Vec<Row<'_>> = facts.rows("v$asm_read_policy").collect();
    let all: u64 = disks.iter().map(|disk| reads(disk).iter().sum::<u64>()).sum();
    if all == 0 {
        page.paragraph("No program has read since the mount.");
        return;
    }
    page.list(&reasons(&disks, all));
    let head = ["disk", "failure group", "is preferred", "reads", "share"]
        .into_iter()
        .chain(REASONS.map(|(_, name, _)| name));
    let row = |disk: &Row<'_>| -> Vec<Cell> {
        let (by_reason, mut row) = (reads(disk), Vec::new());
        let sum = by_reason.iter().sum();
        row.extend([disk.text("name"), disk.text("failgroup"), disk.text("preferred_read")]);
        row.extend([count(sum), per_cent(sum, all)]);
        row.extend(by_reason.map(count));
        cells(row)
    };
    let names: Vec<String> = disks
        .iter()
        .map(|disk| format!("{} / {}", disk.text("failgroup"), disk.text("name")))
        .collect();
    let drawn: Vec<Stack<'_>> = disks
        .iter()
        .zip(&names)
        .take(BARS_MAX)
        .map(|(disk, label)| {
            let by_reason = reads(disk);
            let sum = by_reason.iter().sum();
            let values = by_reason.map(|number| number as f64).to_vec();
            Stack { label, values, text: format!("{} ({})", count(sum), per_cent(sum, all)) }
        })
        .collect();
    let mut numbers = Table::new(head);
    disks.iter().take(limits.rows).for_each(|disk| {
        numbers.row(row(disk));
    });
    let about = "Reads of each disk, by the reason for which it was read";
    let parts = REASONS.map(|(_, name, _)| name);
    page.chart(&stacked("reads", "Reads by reason", about, &parts, &drawn), &numbers);
    if disks.len() > BARS_MAX {
        page.paragraph(&format!("The chart has {BARS_MAX} of {} disks.", disks.len()));
    }
    let speed = |disk: &Row<'_>| {
        let speeds = SPEEDS.map(|column| match disk.is_null(column) {
            true => "-".to_owned(),
            false => units::latency(disk.real(column) * 1e3),
        });
        cells([disk.text("name"), disk.text("failgroup")].into_iter().chain(speeds))
    };
    let head = ["disk", "failure group", "up to 16 KiB", "up to 64 KiB", "up to 256 KiB", "longer"];
    let rows = disks.iter().map(speed).collect();
    table(page, "How long a read takes at present, as the engine expects it", &head, rows, limits);
}

/// The preferred failure groups.
fn preference(facts: &Facts) -> String {
    let parameter = facts
        .rows("v$parameter")
        .find(|row| row.text("name") == "asm_preferred_read_failure_groups");
    let value = parameter.map(|row| row.text("value")).unwrap_or_default();
    if value.is_empty() {
        return "No failure group is preferred: reads go to the mirror that is expected to be \
                faster, and to each in turn where they are about equal."
            .to_owned();
    }
    let preferred: Vec<String> = facts
        .rows("v$asm_disk_stat")
        .filter(|disk| disk.text("preferred_read") == "Y")
        .map(|disk| disk.text("failgroup"))
        .collect();
    let mut names = preferred;
    names.sort();
    names.dedup();
    let here = match names.len() {
        0 => "none of this group".to_owned(),
        _ => names.join(", "),
    };
    format!("asm_preferred_read_failure_groups is {}: preferred here are {here}.", cell(&value))
}

/// A sentence for each reason for which something was read.
fn reasons(disks: &[Row<'_>], all: u64) -> Vec<String> {
    let sentence = |(column, name, why): (&str, &str, &str)| {
        let number: u64 = disks.iter().map(|disk| disk.count(column)).sum();
        let share = per_cent(number, all);
        (number > 0).then(|| format!("{name}: {} reads, {share}: {why}", count(number)))
    };
    REASONS.into_iter().filter_map(sentence).collect()
}
