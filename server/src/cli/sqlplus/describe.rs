//! DESCRIBE: the columns of a view, with the types of a query that has none of its rows.

use super::{
    Interpreter, Look,
    refusal::{Cause, Refusal, invalid, wrong},
    words::Words,
};
use crate::{
    query::{Column, Table, views::Type},
    sql_error::SqlError,
};
use plinth_engine::admin::Value;

impl Interpreter<'_> {
    /// # Errors
    /// If there is no such view.
    pub(super) fn describe(&mut self, rest: &str) -> Result<(), Refusal> {
        let mut words = Words::new(rest);
        let Some(name) = words.option()? else {
            return Err(wrong("DESCRIBE has no name of a view"));
        };
        // In double quotes it may be a keyword of the server, too. Names are lower case there.
        let written = name.text.to_lowercase();
        let view = if written.contains('.') { written.clone() } else { format!("\"{written}\"") };
        let is_name = |char: char| char.is_alphanumeric() || matches!(char, '_' | '$' | '#' | '.');
        if !name.text.chars().all(is_name) || words.option()?.is_some() {
            return Err(wrong(format!("DESCRIBE takes the name of a view, and {rest} is none")));
        }
        if !self.server.is_connected() {
            return Err(invalid(640, "Not connected").hint("CONNECT / AS SYSASM"));
        }
        let mut columns: Option<Vec<Column>> = None;
        let query = format!("SELECT * FROM {view} WHERE 1 = 0");
        let result = self.server.run(&query, &mut |given| {
            columns = given.table.map(|table| table.columns);
        });
        if let Err(error) = result {
            // The place is one in a query that the user has not written.
            let error = SqlError { at: None, ..error };
            let error = if error.state == "42P01" {
                let message = format!("ORA-04043: object {written} does not exist");
                SqlError { message, ..error }
            } else {
                error
            };
            return Err(Refusal::of(Cause::Statement, error));
        }
        self.columns_of(&columns.unwrap_or_default());
        Ok(())
    }

    fn columns_of(&mut self, columns: &[Column]) {
        if self.look != Look::Report {
            let text = |name: &str| Column { name: name.to_owned(), kind: Type::Text };
            let row = |column: &Column| {
                [column.name.as_str(), "", oracle_type(column.kind)]
                    .map(|text| Value::Text(text.to_owned()))
                    .to_vec()
            };
            let table = Table {
                columns: ["Name", "Null?", "Type"].map(text).to_vec(),
                rows: columns.iter().map(row).collect(),
            };
            self.show(&table, "");
            return;
        }
        // SQL*Plus's widths: half of the line for the name, 8 for NULL, the rest for the type.
        let width = self.settings.linesize.clamp(40, 200);
        let name = width / 2 + 1;
        let kind = width.saturating_sub(name + 8 + 3);
        let mut lines = vec![
            format!(" {:<name$} {:<8} {}", "Name", "Null?", "Type"),
            format!(" {} {} {}", "-".repeat(name), "-".repeat(8), "-".repeat(kind)),
        ];
        for column in columns {
            let upper = column.name.to_uppercase();
            lines.push(format!(" {upper:<name$} {:<8} {}", "", oracle_type(column.kind)));
        }
        lines.push(String::new());
        self.say_lines(&lines);
    }
}

/// Oracle's type with the same values.
fn oracle_type(kind: Type) -> &'static str {
    match kind {
        Type::Integer | Type::Real => "NUMBER",
        Type::Time => "TIMESTAMP",
        Type::Text | Type::Truth | Type::Letter => "VARCHAR2",
    }
}
