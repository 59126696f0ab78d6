//! "IOStat by Function": how many requests the log writer made, and how many bytes.
//!
//! `redo writes` is no number of requests: with two or three members of a log group there are two
//! or three requests for each. This table counts them.

use super::super::{
    numbers::{Notation, Number},
    tables::{Document, Table},
};

/// Writes of the log writer.
#[derive(Debug, Clone, Copy)]
pub(in crate::import) struct LogWriter {
    /// A second.
    pub requests: Number,
    /// Bytes in all.
    pub data: Option<Number>,
    /// Bytes a second.
    pub rate: Option<Number>,
}

impl LogWriter {
    pub fn read(document: &Document, notation: Notation) -> Option<Self> {
        document
            .tables
            .iter()
            .find_map(|table| Self::of_instance(table, notation))
            .or_else(|| document.tables.iter().find_map(|table| Self::of_global(table, notation)))
    }

    /// One row of each function; columns of reads, then of writes: data, requests and data a
    /// second.
    fn of_instance(table: &Table, notation: Notation) -> Option<Self> {
        let first = table.head().first()?;
        let is_summary = first == "Function Name" || first == "Function";
        let writes = (0..table.columns()).find(|at| {
            let name = table.column_name(*at);
            name.starts_with("writes:") || name.starts_with("write:")
        });
        // Statspack has the words in a line of dashes: then it is the place.
        let writes = writes.or_else(|| table.column_with("volume").map(|_| 4))?;
        if !is_summary || table.columns() < writes + 3 {
            return None;
        }
        let is_detail = table.column_with("small").is_some();
        let row = table.rows.iter().find(|row| row.first().is_some_and(|name| name == "LGWR"))?;
        let cell = |at: usize| row.get(at).map(String::as_str);
        // "0M" of 0 requests, and blank, is nothing.
        let requests = cell(writes + 1).and_then(|cell| notation.requests_rate(cell))?;
        (!is_detail).then_some(Self {
            requests,
            data: cell(writes).and_then(|cell| notation.data(cell)),
            rate: cell(writes + 2).and_then(|cell| notation.data(cell)),
        })
    }

    /// One row of each instance, and their sum; columns of functions, in groups.
    fn of_global(table: &Table, notation: Notation) -> Option<Self> {
        let column = |words: [&str; 2]| {
            (0..table.columns()).find(|at| {
                let name = table.column_name(*at);
                name.contains("lgwr") && words.iter().all(|word| name.contains(word))
            })
        };
        let first = table.head().first()?;
        if first != "I#" {
            return None;
        }
        let requests = column(["write", "req"])?;
        let data = column(["write", "mb"]);
        let number = |row: &[String], at: usize| notation.count(row.get(at)?);
        let is_sum = |row: &&Vec<String>| row.first().is_some_and(|name| name.starts_with("Sum"));
        let of = |at: usize| {
            if let Some(row) = table.rows.iter().find(is_sum) {
                return number(row, at);
            }
            let is_instance =
                |row: &&Vec<String>| row.first().is_some_and(|name| name.parse::<u32>().is_ok());
            let numbers = table.rows.iter().filter(is_instance).map(|row| number(row, at));
            numbers.reduce(super::statistics::sum).flatten()
        };
        let megabytes = |number: Number| Number {
            value: number.value * 1_048_576.0,
            step: number.step * 1_048_576.0,
        };
        Some(Self { requests: of(requests)?, data: None, rate: data.and_then(of).map(megabytes) })
    }
}

impl Notation {
    /// Requests a second: with decimals, and from 10,000 on with a letter.
    fn requests_rate(self, cell: &str) -> Option<Number> {
        self.count(cell).or_else(|| self.requests(cell))
    }
}
