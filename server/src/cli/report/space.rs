//! Space: of the group, of its disks by failure group, and what thin devices got back.
//!
//! The bar of a disk is its device: used, free, and not usable, which is what the group does not
//! use of the device, and the free space of disks that files cannot be given space on now (not
//! ONLINE, being dropped, quorum).

use super::{
    Limits,
    facts::{Facts, Question, Row},
    figures::{cell, cells, count, is_known, mib, signed, table},
};
use plinth_evidence::draw::{
    Page, Table,
    bars::{Bar, Stack, bars, stacked},
};
use std::collections::BTreeMap;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        view: "v$asm_diskgroup_stat",
        is_of_engine: true,
        sql: "SELECT type, state, sector_size, logical_sector_size, allocation_unit_size, total_mb,
                free_mb, cold_used_mb, required_mirror_free_mb, usable_file_mb, offline_disks
              FROM v$asm_diskgroup_stat WHERE group_number = {group}",
    },
    Question {
        view: "v$asm_space",
        is_of_engine: true,
        sql: "SELECT * FROM v$asm_space WHERE group_number = {group}",
    },
    Question {
        view: "v$asm_disk_thin",
        is_of_engine: true,
        sql: "SELECT * FROM v$asm_disk_thin WHERE group_number = {group} ORDER BY disk_number",
    },
];

/// With more disks than this, a bar is a failure group.
const BARS_MAX: usize = 24;
const PARTS: [&str; 3] = ["used", "free", "not usable"];

pub(super) fn draw(facts: &Facts, page: &mut Page, limits: Limits) {
    page.section("Space");
    if is_known(facts, page, "v$asm_diskgroup_stat") {
        group(facts, page);
    }
    // Beside the chart before it.
    by_disk(facts, page, limits);
    if is_known(facts, page, "v$asm_space") {
        safe(facts, page);
    }
    if is_known(facts, page, "v$asm_disk_thin") {
        thin(facts, page, limits);
    }
}

fn group(facts: &Facts, page: &mut Page) {
    let Some(group) = facts.rows("v$asm_diskgroup_stat").next() else { return };
    let figures = [
        ("total, before mirroring", "total_mb"),
        ("used, before mirroring", "cold_used_mb"),
        ("free, before mirroring", "free_mb"),
        ("required mirror free", "required_mirror_free_mb"),
        ("usable, after mirroring", "usable_file_mb"),
    ];
    let mut table = Table::new(["space", "MiB"]);
    let mut all = Vec::new();
    for (label, column) in figures {
        let value = group.integer(column);
        table.row([label.to_owned(), signed(value)]);
        let (value, text) = (value as f64, mib(value));
        all.push(Bar { label, index: 0, value, text, note: String::new() });
    }
    let about = "Total, used and free space, the reserve to restore redundancy, and what is usable";
    page.chart(&bars("group", "Space of the group", about, &all), &table);
}

fn safe(facts: &Facts, page: &mut Page) {
    let Some(space) = facts.rows("v$asm_space").next() else { return };
    let size = |column: &str| crate::text::bytes_pretty(space.integer(column));
    let bound = match space.text("bound_by") {
        none if none.is_empty() => String::new(),
        failgroup => format!(" The loss of failure group {failgroup} sets this limit."),
    };
    let safely = match &*space.text("restorable") {
        "N" => " No loss of a failure group can be restored elsewhere, so no reserve is kept."
            .to_owned(),
        _ => format!(
            " Safe are {}: after the loss of any failure group every file gets all its mirrors \
             again.{bound}",
            size("safe_bytes")
        ),
    };
    page.paragraph(&format!("{} can be written, after mirroring.{safely}", size("writable_bytes")));
    let note = space.text("note");
    if !note.is_empty() {
        page.paragraph(&format!("Note: {note}."));
    }
}

/// Used, free and not usable space of a disk, in MiB.
pub(super) fn parts(disk: &Row<'_>) -> [i64; 3] {
    let (total, free) = (disk.integer("total_mb"), disk.integer("free_mb"));
    let device = disk.integer("os_mb").max(total);
    let used = disk.integer("cold_used_mb").clamp(0, device);
    let takes_files = disk.text("mode_status") == "ONLINE"
        && disk.text("failgroup_type") == "REGULAR"
        && !matches!(&*disk.text("state"), "DROPPING" | "FORCING");
    let free = if takes_files { free.clamp(0, device - used) } else { 0 };
    [used, free, device - used - free]
}

fn by_disk(facts: &Facts, page: &mut Page, limits: Limits) {
    let mut disks: Vec<(String, String, [i64; 3])> = facts
        .rows("v$asm_disk_stat")
        .map(|disk| (disk.text("failgroup"), disk.text("name"), parts(&disk)))
        .collect();
    if disks.is_empty() {
        return;
    }
    disks.sort();
    let mut stacks: Vec<(String, [i64; 3])> = disks
        .iter()
        .map(|(failgroup, name, parts)| (format!("{failgroup} / {name}"), *parts))
        .collect();
    let mut title = "Disks by failure group";
    if stacks.len() > BARS_MAX {
        let mut sums: BTreeMap<&str, [i64; 3]> = BTreeMap::new();
        for (failgroup, _, parts) in &disks {
            let sum = sums.entry(failgroup).or_default();
            sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
        stacks = sums.into_iter().map(|(name, sum)| (name.to_owned(), sum)).collect();
        title = "Failure groups";
    }
    // The table has as many as the page has room for, the chart as many as can be read.
    let mut table = Table::new(["failure group / disk", "used MiB", "free MiB", "not usable MiB"]);
    for (label, parts) in stacks.iter().take(limits.rows) {
        table.row([cell(label)].into_iter().chain(parts.map(signed)));
    }
    let drawn: Vec<Stack<'_>> = stacks
        .iter()
        .take(BARS_MAX)
        .map(|(label, parts)| Stack {
            label,
            values: parts.map(|part| part as f64).to_vec(),
            text: mib(parts.iter().sum()),
        })
        .collect();
    let about = "Used, free and not usable space of each device";
    page.chart(&stacked("disks", title, about, &PARTS, &drawn), &table);
    if stacks.len() > BARS_MAX {
        page.paragraph(&format!("The chart has {BARS_MAX} of {} failure groups.", stacks.len()));
    }
}

fn thin(facts: &Facts, page: &mut Page, limits: Limits) {
    let row = |disk: Row<'_>| {
        let size = |column: &str| count(disk.count(column) >> 20);
        cells([
            disk.text("name"),
            disk.text("means"),
            size("allocated"),
            size("waiting"),
            size("returned"),
            size("not_returnable"),
            count(disk.count("failures")),
            cell(&disk.text("reason")),
        ])
    };
    let rows = facts.rows("v$asm_disk_thin").map(row).collect();
    let head = [
        "disk",
        "gives back by",
        "allocated MiB",
        "waiting MiB",
        "returned MiB",
        "not returnable MiB",
        "failures",
        "reason",
    ];
    table(page, "Space given back to thin devices", &head, rows, limits);
}
