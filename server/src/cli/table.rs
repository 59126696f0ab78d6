//! Values and tables as text, and as JSON for programs.

use crate::query::{Table, views::Type};
use comfy_table::{CellAlignment, ContentLineStyle, LineStyle, Table as Drawn, TableStyle};
use plinth_engine::admin::Value;
use serde_json::{Map, Number};

/// A value as text; nothing for NULL.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => crate::text::clean(text),
        Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// The lines that `psql` draws.
const PSQL: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction('|'))
    .header_separator(LineStyle::none().fill('-').junction('+'))
    .content_lines(ContentLineStyle::none().junction('|'));

/// Columns under headings, as `asmcmd` prints them, or without headings.
#[must_use]
pub fn plain(table: &Table, headings: bool) -> String {
    let mut drawn = Drawn::new();
    drawn.load_style(comfy_table::presets::NOTHING);
    if headings {
        drawn.set_header(table.columns.iter().map(|column| &column.name));
    }
    for row in &table.rows {
        drawn.add_row(row.iter().map(text));
    }
    for (at, column) in table.columns.iter().enumerate() {
        if let Some(drawn) = drawn.column_mut(at) {
            drawn.set_padding((0, 2));
            if column.kind != Type::Text {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    let mut text: String = drawn.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if table.rows.is_empty() {
        text.clear();
    }
    text
}

/// A result as `psql` draws it.
#[must_use]
pub fn ruled(table: &Table) -> String {
    let mut drawn = Drawn::new();
    drawn.load_style(PSQL);
    drawn.set_header(table.columns.iter().map(|column| &column.name));
    for row in &table.rows {
        drawn.add_row(row.iter().map(text));
    }
    for (at, column) in table.columns.iter().enumerate() {
        if column.kind != Type::Text
            && let Some(drawn) = drawn.column_mut(at)
        {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: String = drawn.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    let count = table.rows.len();
    format!("{lines}({count} row{})\n", if count == 1 { "" } else { "s" })
}

/// A result as an array of objects.
#[must_use]
pub fn objects(table: &Table) -> serde_json::Value {
    let object = |row: &Vec<Value>| {
        let pairs = table.columns.iter().zip(row).map(|(column, value)| {
            let value = match value {
                Value::Null => serde_json::Value::Null,
                Value::Integer(number) => (*number).into(),
                Value::Real(number) => {
                    Number::from_f64(*number).map_or(serde_json::Value::Null, Into::into)
                }
                Value::Text(text) => text.clone().into(),
                value @ Value::Blob(_) => text(value).into(),
            };
            (column.name.clone(), value)
        });
        serde_json::Value::Object(pairs.collect::<Map<_, _>>())
    };
    table.rows.iter().map(object).collect()
}

/// The result as text in JSON.
#[must_use]
pub fn json(table: &Table) -> String {
    format!("{:#}\n", objects(table))
}
