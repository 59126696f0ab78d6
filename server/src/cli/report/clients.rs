//! The programs that use the group, and the directories on which it is mounted.

use super::{
    Limits,
    facts::{Facts, Question, Row},
    figures::{cell, cells, count, is_known, mib, table},
};
use plinth_evidence::draw::Page;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        view: "v$asm_client",
        is_of_engine: true,
        sql: "SELECT * FROM v$asm_client WHERE group_number = {group} ORDER BY client_type, pid",
    },
    Question {
        view: "v$asm_filesystem",
        is_of_engine: true,
        sql: "SELECT fs_name, state, total_size, total_free FROM v$asm_filesystem
              WHERE group_number = {group} ORDER BY fs_name",
    },
];

pub(super) fn draw(facts: &Facts, page: &mut Page, limits: Limits) {
    page.section("Clients");
    if is_known(facts, page, "v$asm_client") {
        let client = |row: Row<'_>| {
            cells([
                cell(&row.text("instance_name")),
                row.text("client_type"),
                cell(&row.text("db_name")),
                cell(&row.text("software_version")),
                cell(&row.text("pid")),
                cell(&row.text("mount_point")),
                count(row.count("open_files")),
            ])
        };
        let rows: Vec<_> = facts.rows("v$asm_client").map(client).collect();
        if rows.is_empty() {
            page.paragraph("Nothing uses the group.");
        }
        let head = ["client", "type", "database", "version", "process", "directory", "open files"];
        table(page, "Clients of the group", &head, rows, limits);
    }
    if is_known(facts, page, "v$asm_filesystem") {
        let mounted = |row: Row<'_>| {
            cells([
                cell(&row.text("fs_name")),
                row.text("state"),
                mib(row.integer("total_size")),
                mib(row.integer("total_free")),
            ])
        };
        let rows = facts.rows("v$asm_filesystem").map(mounted).collect();
        let head = ["directory", "state", "size", "free"];
        table(page, "Directories on which it is mounted", &head, rows, limits);
    }
}
