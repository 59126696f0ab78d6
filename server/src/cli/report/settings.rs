//! Attributes of the group and parameters of the instance that are not the default.
//!
//! The defaults of attributes are those of this program. An attribute that has none, such as the
//! AU size, is shown by the head of the page.

use super::{
    Limits,
    facts::{Facts, Question},
    figures::{cell, cells, is_known, table},
};
use plinth_engine::catalog::attributes::SETTABLE;
use plinth_evidence::draw::Page;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        view: "v$asm_attribute",
        is_of_engine: true,
        sql: "SELECT name, value FROM v$asm_attribute WHERE group_number = {group} ORDER BY name",
    },
    Question {
        view: "v$parameter",
        is_of_engine: false,
        sql: "SELECT name, value, default_value FROM v$parameter
              WHERE isdefault = 'FALSE' OR name = 'asm_preferred_read_failure_groups'
              ORDER BY name",
    },
];

pub(super) fn draw(facts: &Facts, page: &mut Page, limits: Limits) {
    page.section("Settings");
    if is_known(facts, page, "v$asm_attribute") {
        let changed = changed(facts);
        if changed.is_empty() {
            page.paragraph("All attributes of the group have their defaults.");
        }
        let head = ["attribute", "value", "default"];
        let rows = changed.into_iter().map(cells).collect();
        table(page, "Attributes that are not the default", &head, rows, limits);
    }
    if is_known(facts, page, "v$parameter") {
        let rows = facts
            .rows("v$parameter")
            .filter(|row| row.text("value") != row.text("default_value"))
            .map(|row| {
                cells(["name", "value", "default_value"].map(|column| cell(&row.text(column))))
            })
            .collect();
        let head = ["parameter", "value", "default"];
        table(page, "Parameters of the instance that are set", &head, rows, limits);
    }
}

/// Name, value and default of each attribute whose value is another.
fn changed(facts: &Facts) -> Vec<[String; 3]> {
    let mut changed = Vec::new();
    for row in facts.rows("v$asm_attribute") {
        let (name, value) = (row.text("name"), row.text("value"));
        let known = SETTABLE.iter().find(|(known, _)| *known == name);
        if let Some((_, default)) = known
            && !value.eq_ignore_ascii_case(default)
        {
            changed.push([name, cell(&value), (*default).to_owned()]);
        }
    }
    changed
}
