//! A result as CSV, after `SET MARKUP CSV ON`: a line of column names, and a line for each row.
//!
//! Texts are in double quotes, which are doubled within, unless QUOTE is OFF; numbers and NULL are
//! not. Neither FORMAT nor the width of the page has a meaning here.

use super::{
    numbers::{Number, whole},
    settings::Csv,
};
use crate::query::Table;
use plinth_engine::admin::Value;

/// The lines; the names of the columns only if there shall be headings.
pub(super) fn lines(table: &Table, headings: Option<&[String]>, csv: Csv) -> Vec<String> {
    let quoted = |text: &str| match csv.quotes {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let between = csv.delimiter.to_string();
    let mut lines = Vec::with_capacity(table.rows.len() + 1);
    if let Some(names) = headings {
        lines.push(names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(&between));
    }
    for row in &table.rows {
        let fields = row.iter().map(|value| match value {
            Value::Null => String::new(),
            Value::Text(text) => quoted(text),
            Value::Blob(bytes) => {
                quoted(&bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>())
            }
            number => Number::of(number).map_or_else(String::new, whole),
        });
        lines.push(fields.collect::<Vec<_>>().join(&between));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Column, views::Type};

    #[test]
    fn texts_are_quoted_and_numbers_are_not() {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        let table = Table {
            columns: vec![column("name", Type::Text), column("mb", Type::Real)],
            rows: vec![
                vec![Value::Text("a \"b\", c".to_owned()), Value::Real(0.5)],
                vec![Value::Null, Value::Null],
            ],
        };
        let names = ["NAME".to_owned(), "MB".to_owned()];
        let csv = Csv { delimiter: ',', quotes: true };
        let expected = ["\"NAME\",\"MB\"", "\"a \"\"b\"\", c\",.5", ","];
        assert_eq!(lines(&table, Some(&names), csv), expected);
        let plain = Csv { delimiter: ';', quotes: false };
        assert_eq!(lines(&table, None, plain), ["a \"b\", c;.5", ";"]);
    }
}
