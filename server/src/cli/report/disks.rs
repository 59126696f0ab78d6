//! The disks: their states, how fast they answer, their errors, where they are. Those with trouble
//! come first, so that they are on the page of a group with many disks.

use super::{
    Limits,
    facts::{Facts, Question, Row},
    figures::{cell, cells, count, is_known, mean, signed, table},
};
use plinth_evidence::draw::Page;

pub(super) const QUESTIONS: &[Question] = &[Question {
    view: "v$asm_disk_stat",
    is_of_engine: true,
    sql: "SELECT disk_number, name, failgroup, failgroup_type, mount_status, mode_status, state,
            path, label, os_mb, total_mb, free_mb, cold_used_mb, mount_date, repair_timer, reads,
            writes, read_errs, write_errs, read_timeout, write_timeout, read_time, write_time,
            bytes_read, bytes_written, preferred_read, voting_file, blocks_repaired,
            metadata_repaired
          FROM v$asm_disk_stat WHERE group_number = {group} ORDER BY failgroup, disk_number",
}];

const ERRORS: [&str; 4] = ["read_errs", "write_errs", "read_timeout", "write_timeout"];

/// Whether a disk is not as it should be.
fn has_trouble(disk: &Row<'_>) -> bool {
    disk.text("mode_status") != "ONLINE"
        || disk.text("state") != "NORMAL"
        || ERRORS.iter().any(|column| disk.count(column) > 0)
}

pub(super) fn draw(facts: &Facts, page: &mut Page, limits: Limits) {
    page.section("Disks");
    if !is_known(facts, page, "v$asm_disk_stat") {
        return;
    }
    let mut disks: Vec<Row<'_>> = facts.rows("v$asm_disk_stat").collect();
    disks.sort_by_key(|disk| !has_trouble(disk));
    let states = |disk: &Row<'_>| {
        cells([
            disk.text("name"),
            disk.text("failgroup"),
            disk.text("mode_status"),
            disk.text("state"),
            disk.text("failgroup_type"),
            disk.text("voting_file"),
            signed(disk.integer("os_mb")),
            repair_timer(disk),
            cell(&disk.text("label")),
            cell(&disk.text("path")),
        ])
    };
    let head = [
        "disk",
        "failure group",
        "mode",
        "state",
        "type",
        "votes",
        "device MiB",
        "dropped in",
        "label",
        "path",
    ];
    table(page, "States and places", &head, disks.iter().map(states).collect(), limits);
    let counters = |disk: &Row<'_>| {
        let number = |column: &str| count(disk.count(column));
        cells([
            disk.text("name"),
            number("reads"),
            mean(disk.real("read_time"), disk.count("reads")),
            number("writes"),
            mean(disk.real("write_time"), disk.count("writes")),
            number("bytes_read"),
            number("bytes_written"),
            number("read_errs"),
            number("write_errs"),
            number("read_timeout"),
            number("write_timeout"),
            number("blocks_repaired"),
            number("metadata_repaired"),
        ])
    };
    let head = [
        "disk",
        "reads",
        "mean read",
        "writes",
        "mean write",
        "bytes read",
        "bytes written",
        "read errors",
        "write errors",
        "read timeouts",
        "write timeouts",
        "blocks repaired",
        "metadata repaired",
    ];
    let rows = disks.iter().map(counters).collect();
    table(page, "I/O and errors since the mount", &head, rows, limits);
}

/// How long an OFFLINE disk is still kept.
fn repair_timer(disk: &Row<'_>) -> String {
    match disk.integer("repair_timer") {
        seconds if seconds > 0 => plinth_evidence::draw::units::duration(seconds as f64),
        _ => "-".to_owned(),
    }
}
