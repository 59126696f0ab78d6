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
            if !matches!(column.kind, Type::Text | Type::Time) {
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

/// A result as `psql` draws it; without headings, with neither these nor the number of rows.
#[must_use]
pub fn ruled(table: &Table, headings: bool) -> String {
    let mut drawn = Drawn::new();
    drawn.load_style(PSQL);
    if headings {
        drawn.set_header(table.columns.iter().map(|column| &column.name));
    }
    for row in &table.rows {
        drawn.add_row(row.iter().map(text));
    }
    for (at, column) in table.columns.iter().enumerate() {
        if !matches!(column.kind, Type::Text | Type::Time)
            && let Some(drawn) = drawn.column_mut(at)
        {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: String = drawn.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    match headings {
        true => format!("{lines}{}", footer(table)),
        false if table.rows.is_empty() => String::new(),
        false => lines,
    }
}

/// A result as `psql -A` draws it: no column is aligned, and `between` stands between two.
#[must_use]
pub fn unaligned(table: &Table, between: &str, headings: bool) -> String {
    let line = |fields: Vec<String>| format!("{}\n", fields.join(between));
    let names = || line(table.columns.iter().map(|column| column.name.clone()).collect());
    let rows: String = table.rows.iter().map(|row| line(row.iter().map(text).collect())).collect();
    if headings { format!("{}{rows}{}", names(), footer(table)) } else { rows }
}

fn footer(table: &Table) -> String {
    let count = table.rows.len();
    format!("({count} row{})\n", if count == 1 { "" } else { "s" })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Column;

    #[test]
    fn results_have_headings_and_a_footer_or_neither() {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        let table = Table {
            columns: vec![column("name", Type::Text), column("mb", Type::Integer)],
            rows: vec![
                vec![Value::Text("DATA".to_owned()), Value::Integer(1000)],
                vec![Value::Null, Value::Integer(5)],
            ],
        };
        let whole = " name | mb\n------+------\n DATA | 1000\n      |    5\n(2 rows)\n";
        assert_eq!(ruled(&table, true), whole.replace(" mb\n", "   mb\n"));
        assert_eq!(ruled(&table, false), " DATA | 1000\n      |    5\n");
        assert_eq!(unaligned(&table, "|", true), "name|mb\nDATA|1000\n|5\n(2 rows)\n");
        assert_eq!(unaligned(&table, ";", false), "DATA;1000\n;5\n");
        let none = Table { rows: Vec::new(), ..table };
        assert_eq!((ruled(&none, false), unaligned(&none, "|", false)), Default::default());
    }
}
