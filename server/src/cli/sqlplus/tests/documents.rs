//! docs/sql.md says of every command and every setting what is done with it.

use super::super::{commands, settings};
use std::{fs, path::Path};

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sql.md");
    let text = fs::read_to_string(path).expect("the reference of SQL");
    let from = text.find("\n## Scripts of SQL*Plus\n").expect("the section");
    let section = text.get(from..).unwrap_or_default();
    let to = section.find("\n## Queries\n").expect("the next section");
    section.get(..to).unwrap_or_default().to_owned()
}

/// The first words of all that stands in backquotes.
fn words(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let mut words: Vec<&str> = quoted.filter_map(|text| text.split_whitespace().next()).collect();
    words.sort_unstable();
    words.dedup();
    words
}

#[test]
fn every_setting_is_documented() {
    let document = document();
    let from = document.find("| `SET` | |").expect("the table of settings");
    let rows = document.get(from..).unwrap_or_default().lines().skip(2);
    for (row, mut known) in rows.zip(settings::by_kind()) {
        assert!(row.starts_with("| `"), "a row of the table: {row}");
        let names = row.split(" | ").next().unwrap_or_default();
        known.sort_unstable();
        assert_eq!(words(names), known, "{row}");
    }
}

#[test]
fn every_command_is_documented() {
    let document = document();
    let from = document.find("These are refused by name:").expect("the list");
    let list = document.get(from..).unwrap_or_default().split("\n\n").next().unwrap_or_default();
    let mut known: Vec<&str> = commands::refused_names().collect();
    known.sort_unstable();
    assert_eq!(words(list), known);
    let table = document.get(..from).unwrap_or_default();
    for name in commands::names().filter(|name| *name != "?") {
        let is_there = table
            .split('`')
            .skip(1)
            .step_by(2)
            .any(|text| text.trim_start_matches(['{', '[']).starts_with(name));
        assert!(is_there, "{name} is not in the table of commands");
    }
}
