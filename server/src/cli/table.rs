//! Values and tables as text, and as JSON for programs.
//!
//! Scripts count the words of a line, as `awk` does. So every row of a table has as many words as
//! its heading: a cell without a value is `-`, and a blank inside a cell is `\040`, as in
//! /proc/mounts. Excepted are the last column, which may have blanks, and what a command says of
//! its columns ([`Cells`]) because `asmcmd` prints them so.

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

/// The columns of a table whose cells are not one word each.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cells {
    /// Empty where there is no value.
    pub empty: &'static [&'static str],
    /// Several words, always as many.
    pub phrases: &'static [&'static str],
}

impl Cells {
    /// The text of a cell.
    fn text(self, value: &Value, name: &str, is_last: bool) -> String {
        let text = text(value);
        if text.is_empty() {
            let may_be_empty = self.empty.contains(&name);
            return if may_be_empty { text } else { "-".to_owned() };
        }
        if is_last || self.phrases.contains(&name) || !text.contains(' ') {
            return text;
        }
        text.replace('\\', "\\134").replace(' ', "\\040")
    }
}

/// Columns under headings, as `asmcmd` prints them, or without headings.
#[must_use]
pub fn plain(table: &Table, headings: bool, cells: Cells) -> String {
    let mut drawn = Drawn::new();
    drawn.load_style(comfy_table::presets::NOTHING);
    if headings {
        drawn.set_header(table.columns.iter().map(|column| &column.name));
    }
    let last = table.columns.len().saturating_sub(1);
    for row in &table.rows {
        let named = table.columns.iter().zip(row).enumerate();
        drawn.add_row(
            named.map(|(at, (column, value))| cells.text(value, &column.name, at == last)),
        );
    }
    for (at, column) in table.columns.iter().enumerate() {
        if let Some(drawn) = drawn.column_mut(at) {
            drawn.set_padding((0, 2));
            if !matches!(column.kind, Type::Text | Type::Time) {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    if table.rows.is_empty() && !headings {
        return String::new();
    }
    drawn.lines().map(|line| format!("{}\n", line.trim_end())).collect()
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

    fn table(rows: &[[&str; 3]]) -> Table {
        let column = |name: &str| Column { name: name.to_owned(), kind: Type::Text };
        let value = |text: &&str| {
            if text.is_empty() { Value::Null } else { Value::Text((*text).to_owned()) }
        };
        Table {
            columns: ["One", "Two", "Path"].map(column).to_vec(),
            rows: rows.iter().map(|row| row.iter().map(value).collect()).collect(),
        }
    }

    /// The words of each line.
    fn words(text: &str) -> Vec<Vec<&str>> {
        text.lines().map(|line| line.split_whitespace().collect()).collect()
    }

    #[test]
    fn every_cell_is_one_word_but_in_the_last_column() {
        let shown = plain(&table(&[["", "a b\\c", "/x y"]]), true, Cells::default());
        assert_eq!(
            words(&shown),
            [vec!["One", "Two", "Path"], vec!["-", "a\\040b\\134c", "/x", "y"]]
        );
        let cells = Cells { empty: &["One"], phrases: &["Two"] };
        let shown = plain(&table(&[["", "a b", ""]]), false, cells);
        assert_eq!(words(&shown), [["a", "b", "-"]]);
    }

    #[test]
    fn a_table_without_rows_is_its_heading() {
        assert_eq!(words(&plain(&table(&[]), true, Cells::default())), [["One", "Two", "Path"]]);
        assert_eq!(plain(&table(&[]), false, Cells::default()), "");
    }
}
