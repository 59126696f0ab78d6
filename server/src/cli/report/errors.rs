//! Trouble of the disks since the mount, by kind; the last first.

use super::{
    Limits,
    facts::{Facts, Question, Row},
    figures::{cell, cells, count, is_known, table, time},
};
use plinth_evidence::draw::Page;

pub(super) const QUESTIONS: &[Question] = &[Question {
    view: "v$asm_error",
    is_of_engine: true,
    sql: "SELECT * FROM v$asm_error WHERE group_number = {group} ORDER BY last_time DESC",
}];

pub(super) fn draw(facts: &Facts, page: &mut Page, limits: Limits) {
    page.section("Errors");
    if !is_known(facts, page, "v$asm_error") {
        return;
    }
    let row = |row: Row<'_>| {
        let place = |column: &str| {
            if row.is_null(column) { "-".to_owned() } else { count(row.count(column)) }
        };
        cells([
            row.text("name"),
            row.text("kind"),
            count(row.count("count")),
            time(&row.text("first_time")),
            time(&row.text("last_time")),
            place("last_offset"),
            place("last_bytes"),
            cell(&row.text("last_text")),
        ])
    };
    let rows: Vec<_> = facts.rows("v$asm_error").map(row).collect();
    if rows.is_empty() {
        page.paragraph("No disk had trouble since the mount.");
    }
    let head =
        ["disk", "kind", "count", "first", "last", "last offset", "last bytes", "the last one"];
    table(page, "Trouble of the disks since the mount", &head, rows, limits);
}
