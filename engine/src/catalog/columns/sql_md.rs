//! `docs/sql.md` matches the views: its tables have the columns of the declarations, with the same
//! types and meanings.

use super::{Column, Type, View, all};
use std::collections::BTreeMap;

const TEXT: &str = include_str!("../../../../docs/sql.md");

/// The views whose columns are those of another one, and the sentence by which the document refers
/// to that.
const AS_ANOTHER: [(&str, &str, &str); 4] = [
    ("v$asm_operation_ended", "v$asm_operation", "The columns are those of `v$asm_operation`"),
    ("v$system_parameter", "v$parameter", "The columns are those of `v$parameter`"),
    ("x$ksppsv", "x$ksppcv", "The columns are those of `x$ksppcv`"),
    ("v$system_parameter2", "v$parameter2", "The columns are those of `v$parameter2`"),
];

/// Names, types and meanings of columns.
type Columns = Vec<(String, String, String)>;

/// The sections whose headings are views: the columns in their tables, and their text.
fn documented() -> BTreeMap<String, (Columns, String)> {
    let mut views: BTreeMap<String, (Columns, String)> = BTreeMap::new();
    let mut view = None;
    for line in TEXT.lines() {
        if line.starts_with('#') {
            let heading = line.strip_prefix("### ");
            view = heading.filter(|name| {
                ["v$", "x$", "product_"].iter().any(|prefix| name.starts_with(prefix))
            });
        }
        let Some(view) = view else { continue };
        let (columns, text) = views.entry(view.to_owned()).or_default();
        text.push_str(line);
        text.push('\n');
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [names, kind, meaning] = cells[..] else { continue };
        if !["int8", "float8", "text", "timestamp"].contains(&kind) {
            continue;
        }
        // A row of the table may be about several columns.
        for name in names.split(", ") {
            let name = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            let name = name.unwrap_or_else(|| panic!("a column in: {line}"));
            columns.push((name.to_owned(), kind.to_owned(), meaning.to_owned()));
        }
    }
    views
}

fn declared(view: &View) -> Columns {
    let kind = |kind| match kind {
        Type::Integer => "int8",
        Type::Real => "float8",
        Type::Text => "text",
        Type::Time => "timestamp",
    };
    let text = |column: &Column| {
        (column.name.to_owned(), kind(column.kind).to_owned(), column.meaning.to_owned())
    };
    view.columns.iter().map(text).collect()
}

#[test]
fn the_document_has_each_column_of_each_view_as_it_is_declared_and_no_other() {
    let mut documented = documented();
    for view in all().filter(|view| !view.is_without_rows()) {
        let Some((columns, text)) = documented.remove(view.name) else {
            panic!("docs/sql.md has no heading for {}", view.name)
        };
        if let Some((_, other, says)) = AS_ANOTHER.iter().find(|(name, ..)| *name == view.name) {
            assert!(text.contains(says), "{}: {text}", view.name);
            let other = all().find(|another| another.name == *other).expect("a view");
            assert_eq!(declared(view), declared(other), "{}", view.name);
            continue;
        }
        let declared = declared(view);
        assert_eq!(columns.len(), declared.len(), "{}: {columns:?}", view.name);
        for (here, there) in columns.iter().zip(&declared) {
            assert_eq!(here, there, "{}", view.name);
        }
    }
    assert!(documented.is_empty(), "no such views: {:?}", documented.keys());
}

/// Views without rows have a line each: `| view | columns | why |`, without `con_id`.
#[test]
fn the_document_lists_the_columns_of_the_views_without_rows() {
    let names = |cell: &str| -> Vec<String> {
        cell.split(", ").map(|name| name.trim().trim_matches('`').to_owned()).collect()
    };
    for view in all().filter(|view| view.is_without_rows()) {
        let start = format!("| `{}` |", view.name);
        let line = TEXT.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("docs/sql.md has no line for {}", view.name));
        let mut columns = names(line.split('|').nth(2).unwrap_or_default());
        columns.push("con_id".to_owned());
        let declared: Vec<&str> = view.columns.iter().map(|column| column.name).collect();
        assert_eq!(columns, declared, "{}", view.name);
    }
}
