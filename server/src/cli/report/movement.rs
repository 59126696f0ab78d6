//! What moves: operations that run, with the time at which they end at their present rate; how the
//! last ones ended; how long programs waited for moves; files that lack mirrors.

use super::{
    Limits,
    facts::{Facts, Question, Row},
    figures::{cell, cells, count, is_known, mib, moment, per_cent, table},
};
use plinth_evidence::draw::Page;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        view: "v$asm_operation",
        is_of_engine: true,
        sql: "SELECT * FROM v$asm_operation WHERE group_number = {group} ORDER BY operation, pass",
    },
    Question {
        view: "v$asm_operation_ended",
        is_of_engine: true,
        sql: "SELECT * FROM v$asm_operation_ended WHERE group_number = {group}
              ORDER BY operation, pass",
    },
    Question {
        view: "v$asm_move_wait_histogram",
        is_of_engine: true,
        sql: "SELECT wait_time_micro, wait_count FROM v$asm_move_wait_histogram
              WHERE group_number = {group} ORDER BY wait_time_micro",
    },
    Question {
        view: "v$asm_missing_mirror",
        is_of_engine: true,
        sql: "SELECT name, redundancy, extents, mirrors_left FROM v$asm_missing_mirror
              WHERE group_number = {group} ORDER BY mirrors_left, extents DESC LIMIT 1000",
    },
];

const HEAD: [&str; 10] =
    ["operation", "pass", "state", "power", "done", "of", "share", "per minute", "end", "error"];

pub(super) fn draw(facts: &Facts, page: &mut Page, limits: Limits) {
    page.section("Movement");
    if is_known(facts, page, "v$asm_operation") {
        let rows: Vec<_> =
            facts.rows("v$asm_operation").map(|row| cells(operation(&row, facts.now))).collect();
        if rows.is_empty() {
            page.paragraph("Nothing moves: no rebalance, resync, scrub, check or reclaim runs.");
        }
        table(page, "Operations", &HEAD, rows, limits);
    }
    if is_known(facts, page, "v$asm_operation_ended") {
        let ended = |row: Row<'_>| {
            cells([
                row.text("operation"),
                row.text("pass"),
                row.text("state"),
                count(row.count("sofar")),
                count(row.count("est_work")),
                mib(row.integer("bytes") >> 20),
                cell(&row.text("error_code")),
            ])
        };
        let rows = facts.rows("v$asm_operation_ended").map(ended).collect();
        let head = ["operation", "pass", "state", "done", "of", "moved", "error"];
        table(page, "How the last ones ended, since the mount", &head, rows, limits);
    }
    if is_known(facts, page, "v$asm_move_wait_histogram") {
        let wait = |row: Row<'_>| {
            cells([
                format!("{} us", count(row.count("wait_time_micro"))),
                count(row.count("wait_count")),
            ])
        };
        let rows = facts.rows("v$asm_move_wait_histogram").map(wait).collect();
        let caption = "Requests of programs that waited for a mirror that moved";
        table(page, caption, &["waited up to", "requests"], rows, limits);
    }
    if is_known(facts, page, "v$asm_missing_mirror") {
        let file = |row: Row<'_>| {
            cells([
                cell(&row.text("name")),
                row.text("redundancy"),
                count(row.count("extents")),
                count(row.count("mirrors_left")),
            ])
        };
        let rows: Vec<_> = facts.rows("v$asm_missing_mirror").map(file).collect();
        if rows.is_empty() {
            page.paragraph("All files have all their mirrors.");
        }
        let head =
            ["file", "redundancy", "extents that lack mirrors", "mirrors left, of the worst"];
        table(page, "Files that lack mirrors", &head, rows, limits);
    }
}

fn operation(row: &Row<'_>, now: i64) -> Vec<String> {
    let (done, work) = (row.count("sofar"), row.count("est_work"));
    let end = match (&*row.text("state"), row.is_null("est_minutes"), row.integer("est_minutes")) {
        ("RUN", false, minutes) if row.count("est_rate") > 0 => {
            let nanos = minutes.saturating_mul(60_000_000_000);
            format!("about {} UTC, in {minutes} min", moment(now.saturating_add(nanos)))
        }
        ("RUN", _, _) => "not known yet".to_owned(),
        _ => "-".to_owned(),
    };
    vec![
        row.text("operation"),
        row.text("pass"),
        row.text("state"),
        count(row.count("power")),
        count(done),
        count(work),
        per_cent(done, work),
        count(row.count("est_rate")),
        end,
        cell(&row.text("error_code")),
    ]
}
