//! A report of an Oracle database, AWR or Statspack, in whatever form: its header, its statistics,
//! its I/O by function, its waits.
//!
//! Where things are is told by the heads of tables, not by their place: releases have moved,
//! split and renamed them. A table of statistics has "Statistic" and "Total" in its head; which
//! other tables there are makes no difference.

mod header;
mod iostat;
mod model;
mod statistics;
mod waits;

pub(super) use header::Header;
pub(super) use iostat::LogWriter;
pub(super) use statistics::Statistics;
pub(super) use waits::Event;

use super::{
    ImportError,
    numbers::{Notation, Number},
    tables::{Document, Table},
};
use crate::model::Model;

/// See above.
pub(super) struct Report {
    pub header: Header,
    pub statistics: Statistics,
    pub log_writer: Option<LogWriter>,
    pub events: Vec<Event>,
    pub profile: Option<Profile>,
    pub is_whole: bool,
    pub form: &'static str,
    pub program: &'static str,
}

/// Rates of the I/O profile: coarser than the statistics, and all that an extract has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Profile {
    pub reads: Option<Number>,
    pub writes: Option<Number>,
    /// Bytes.
    pub total: Option<Number>,
    pub read_bytes: Option<Number>,
    pub write_bytes: Option<Number>,
    pub redo_writes: Option<Number>,
    pub redo_bytes: Option<Number>,
}

impl Report {
    /// # Errors
    /// If it is several reports, or prints numbers in two ways.
    pub fn read(
        document: &Document,
        program: &'static str,
        form: &'static str,
    ) -> Result<Self, ImportError> {
        let reports = header::count(document);
        if reports > 1 {
            return Err(ImportError::new(format!(
                "holds {reports} reports: give each as a file of its own"
            )));
        }
        let notation = notation(document).ok_or_else(|| {
            ImportError::new(
                "prints some numbers as 1,234.5 and some as 1.234,5: write it anew with one \
                 NLS_NUMERIC_CHARACTERS",
            )
        })?;
        let header = Header::read(document, notation);
        let statistics = Statistics::read(document, notation, header.elapsed);
        Ok(Self {
            log_writer: LogWriter::read(document, notation),
            events: waits::read(document, notation),
            profile: Profile::read(document, notation),
            is_whole: document.is_whole,
            header,
            statistics,
            form,
            program,
        })
    }

    /// # Errors
    /// If it has too little to make a model of.
    pub fn model(&self) -> Result<Model, ImportError> {
        model::make(self)
    }
}

/// The notation of the numbers that matter.
fn notation(document: &Document) -> Option<Notation> {
    let is_counted = |table: &&Table| {
        statistics::is_statistics(table) || waits::is_events(table) || is_profile(table)
    };
    let tables = document.tables.iter().filter(is_counted);
    let cells = tables.flat_map(|table| table.rows.iter().flat_map(|row| row.iter().skip(1)));
    Notation::of(cells.map(String::as_str).filter(|cell| !cell.is_empty()))
}

fn is_profile(table: &Table) -> bool {
    let head = table.head();
    head.len() >= 4
        && head.iter().any(|name| {
            let name = name.to_lowercase();
            name.starts_with("read+write") && name.contains("second")
        })
}

impl Profile {
    fn read(document: &Document, notation: Notation) -> Option<Self> {
        let table = document.tables.iter().find(|table| is_profile(table))?;
        let row = |label: &str| {
            let row = table.rows.iter().find(|row| {
                row.first()
                    .is_some_and(|name| name.trim_end_matches(':').eq_ignore_ascii_case(label))
            })?;
            let cell = |at: usize| row.get(at).and_then(|cell| notation.count(cell));
            Some([cell(1), cell(2), cell(3)])
        };
        const MIB: f64 = 1_048_576.0;
        let bytes = |number: Option<Number>| {
            number.map(|number| Number { value: number.value * MIB, step: number.step * MIB })
        };
        let requests = row("Total Requests")?;
        let total = row("Total (MB)")?;
        let redo = row("Redo Requests");
        let redo_bytes = row("Redo (MB)");
        Some(Self {
            reads: requests[1],
            writes: requests[2],
            total: bytes(total[0]),
            read_bytes: bytes(total[1]),
            write_bytes: bytes(total[2]),
            redo_writes: redo.and_then(|row| row[2]),
            redo_bytes: redo_bytes.and_then(|row| bytes(row[2])),
        })
    }
}
