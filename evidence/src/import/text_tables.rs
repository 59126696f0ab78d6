//! The tables of a report in text: columns under a ruler of dashes.
//!
//! ```text
//!   Wait Event Histogram              DB/Inst: ORDB/ordb1  Snaps: 2-3     title
//!   -> Ordered by Event (idle events last)                                remark
//!                              Total                    head: any number of lines
//!   Event                      Waits  <1ms  <2ms
//!   -------------------------- ----- ----- -----                          ruler
//!   db file sequential read       70  47.1                      rows; a cell may be blank
//!                             ------------------                          end
//! ```
//!
//! A page that ends within a table repeats title, head and ruler: then it is two tables of one
//! title. The lines of SQL texts are no tables, whatever they quote: from the title of such a
//! section to the next title of the same report nothing is read.
//!
//! Invariants:
//!
//! 1. A row is cut at the ruler's columns, not at words; where a number stands across a border it
//!    is read by words from the right, and if that fails too its cells are unknown.
//! 2. The last line of a file without its end is left out: its last number may be half a number.

use super::tables::{Document, Table};
use std::ops::Range;

/// Lines of a head.
const HEAD_MAX: usize = 6;
const ROWS_MAX: usize = 200_000;
const COLUMNS_MAX: usize = 64;
/// Characters of a line. Longer ones are no lines of a report.
const LINE_MAX: usize = 2_000;
/// The text in place of a cell that cannot be read.
const UNKNOWN: &str = "#";
/// Labels whose value stands behind them.
const LABELS: [&str; 4] = ["Std Block Size:", "Elapsed:", "Begin Snap:", "End Snap:"];

/// Reads all tables of a text.
pub(super) fn read(text: &str) -> Document {
    let mut reader = Reader { document: Document::default(), ..Reader::default() };
    reader.document.is_whole = text.contains("End of Report");
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_none();
        if is_last && !reader.document.is_whole && !text.ends_with('\n') {
            break;
        }
        reader.line(line);
    }
    reader.end_table();
    reader.document
}

#[derive(Default)]
struct Reader {
    document: Document,
    /// Of the section.
    title: String,
    /// `DB/Inst: ORDB/ordb1 Snaps: 2-3`, as the first title has it.
    mark: Option<String>,
    is_sql: bool,
    /// Lines since the last blank one, title, remark or ruler: they may be a head.
    before: Vec<String>,
    open: Option<(Table, Vec<Range<usize>>)>,
    rows: usize,
    /// Within a profile: lines of a label and three numbers.
    profile: Option<Table>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let line = expanded(line);
        let line = line.trim_end();
        if let Some((title, mark)) = title(line) {
            self.start_section(title, mark);
            return;
        }
        if self.is_sql {
            return;
        }
        let words = line.trim_start();
        if words.is_empty() {
            self.end_profile();
            let is_long = self.open.as_ref().is_some_and(|open| is_list(&open.0));
            if !is_long {
                self.end_table();
            }
            self.before.clear();
            return;
        }
        if words.starts_with("WORKLOAD REPOSITORY") || words.starts_with("STATSPACK report") {
            self.document.headings.push(words.to_owned());
        }
        if words.starts_with("->") {
            self.end_table();
            self.before.clear();
            return;
        }
        if self.profile_line(line) {
            return;
        }
        self.labels(line);
        match ruler(line) {
            Some(columns) if columns.len() > 1 => {
                // Few lines between two rulers are the rest of a head.
                let is_head = self.open.as_ref().is_some_and(|open| open.0.rows.len() <= 3);
                let between = std::mem::take(&mut self.before);
                self.end_table();
                if is_head || self.before.is_empty() {
                    self.before = between;
                }
                self.start_table(columns);
            }
            // The end of a table, or a line within a head.
            Some(_) => self.end_table(),
            None => self.row(line),
        }
    }

    fn start_section(&mut self, title: &str, mark: String) {
        let is_same = self.mark.as_ref().is_none_or(|first| *first == mark);
        if self.is_sql && !is_same {
            // Quoted by a SQL text.
            return;
        }
        self.end_table();
        self.end_profile();
        self.before.clear();
        let lower = title.to_lowercase();
        self.is_sql = lower.starts_with("sql ordered") || lower.contains("sql text");
        self.title = title.to_owned();
        if self.mark.is_none() {
            self.mark = Some(mark);
        }
    }

    fn start_table(&mut self, columns: Vec<Range<usize>>) {
        let from = self.before.len().saturating_sub(HEAD_MAX);
        let heads = self.before.drain(..).skip(from).map(|line| head(&line, &columns)).collect();
        let table = Table { title: self.title.clone(), heads, ..Table::default() };
        self.open = Some((table, columns));
    }

    fn row(&mut self, line: &str) {
        if self.before.len() > 64 {
            self.before.clear();
        }
        self.before.push(line.to_owned());
        if let Some((table, columns)) = &mut self.open
            && self.rows < ROWS_MAX
        {
            self.rows += 1;
            table.rows.push(cells(line, columns));
        }
    }

    fn end_table(&mut self) {
        if let Some((table, _)) = self.open.take() {
            self.document.tables.push(table);
            self.before.clear();
        }
    }

    fn labels(&mut self, line: &str) {
        for label in LABELS {
            let Some((_, value)) = line.split_once(label) else { continue };
            let value = value.trim_start().split("  ").next().unwrap_or_default();
            if !value.is_empty() {
                self.document.labels.push((label.to_owned(), value.to_owned()));
            }
        }
    }

    /// `Total Requests:   3.5   2.5   1.0` below the head of an I/O profile.
    fn profile_line(&mut self, line: &str) -> bool {
        let words = line.trim_start();
        if words.starts_with("IO Profile") && words.contains("Read/Second") {
            self.end_table();
            let head = ["", "Read+Write Per Second", "Read per Second", "Write Per Second"];
            self.profile = Some(Table {
                title: "IO Profile".to_owned(),
                heads: vec![head.map(str::to_owned).to_vec()],
                ..Table::default()
            });
            return true;
        }
        let Some(table) = &mut self.profile else { return false };
        if let Some((label, values)) = line.split_once(':') {
            let values = values.split_whitespace().map(str::to_owned);
            let label = format!("{}:", label.trim());
            table.rows.push(std::iter::once(label).chain(values).take(COLUMNS_MAX).collect());
        }
        true
    }

    fn end_profile(&mut self) {
        if let Some(table) = self.profile.take() {
            self.document.tables.push(table);
        }
    }
}

/// Whether a blank line within it is no end.
fn is_list(table: &Table) -> bool {
    table.head().first().is_some_and(|name| name == "Statistic" || name == "Event")
}

/// Title and mark of a line that begins a section.
fn title(line: &str) -> Option<(&str, String)> {
    let at = line.find("DB/Inst:").or_else(|| line.find(" for DB:"))?;
    let mark = line.get(at..)?;
    if !mark.contains("Snap") {
        return None;
    }
    let mark = mark.split_whitespace().collect::<Vec<_>>().join(" ");
    Some((line.get(..at)?.trim(), mark))
}

/// The columns of a ruler, in characters.
fn ruler(line: &str) -> Option<Vec<Range<usize>>> {
    if !line.bytes().all(|byte| matches!(byte, b'-' | b'~' | b' ')) {
        return None;
    }
    let mut columns: Vec<Range<usize>> = Vec::new();
    for (at, _) in line.bytes().enumerate().filter(|(_, byte)| *byte != b' ') {
        match columns.last_mut() {
            Some(last) if last.end == at => last.end = at + 1,
            _ => columns.push(at..at + 1),
        }
        if columns.len() > COLUMNS_MAX {
            return None;
        }
    }
    // `--` alone is a remark.
    let is_ruler = columns.iter().any(|column| column.len() > 2);
    is_ruler.then_some(columns)
}

/// The words of a line of a head, each at the column that it covers most of.
fn head(line: &str, columns: &[Range<usize>]) -> Vec<String> {
    let mut cells = vec![String::new(); columns.len()];
    let mut place = 0;
    for word in line.split(' ') {
        let length = word.chars().count();
        let (from, to) = (place, place + length);
        place = to + 1;
        if length == 0 || word.bytes().all(|byte| matches!(byte, b'-' | b'~')) {
            continue;
        }
        let covered =
            |column: &Range<usize>| to.min(column.end).saturating_sub(from.max(column.start));
        let best = (0..columns.len())
            .filter(|at| columns.get(*at).is_some_and(|column| covered(column) > 0))
            .max_by_key(|at| columns.get(*at).map_or(0, covered));
        if let Some(cell) = best.and_then(|best| cells.get_mut(best)) {
            if !cell.is_empty() {
                cell.push(' ');
            }
            cell.push_str(word);
        }
    }
    cells
}

/// The cells of a row.
fn cells(line: &str, columns: &[Range<usize>]) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    let between =
        |from: usize, to: usize| letters.get(from.min(letters.len())..to.min(letters.len()));
    let is_blank = |at: usize| letters.get(at).is_none_or(|letter| *letter == ' ');
    let mut is_across = false;
    let mut cells = Vec::with_capacity(columns.len());
    for (place, column) in columns.iter().enumerate() {
        let next = columns.get(place + 1).map(|next| next.start);
        let end = if next.is_some() { column.end } else { letters.len().max(column.end) };
        let text: String = between(column.start, end).unwrap_or_default().iter().collect();
        cells.push(text.trim().to_owned());
        if let Some(next) = next {
            is_across |= (column.end..next).any(|at| !is_blank(at));
        }
    }
    // Before the first column.
    let first = columns.first().map_or(0, |column| column.start);
    is_across |= (0..first).any(|at| !is_blank(at));
    if is_across { by_words(line, columns.len()) } else { cells }
}

/// The cells of a row that does not keep to its columns: a name, and a number for each other
/// column. If that is not so, all but the name is unknown.
fn by_words(line: &str, columns: usize) -> Vec<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let values = columns.saturating_sub(1);
    let names = words.len().saturating_sub(values);
    let is_value = |word: &&str| {
        word.bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b'-' | b'+' | b'E'))
    };
    let (name, rest) = words.split_at(names);
    // A name that ends in a number may hold a value: then which is which cannot be told.
    let is_clear = rest.len() == values
        && rest.iter().all(is_value)
        && name.last().is_some_and(|word| !is_value(word));
    let mut cells = vec![name.join(" ")];
    if is_clear {
        cells.extend(rest.iter().map(|word| (*word).to_owned()));
    } else {
        cells = vec![
            words.iter().take_while(|word| !is_value(word)).copied().collect::<Vec<_>>().join(" "),
        ];
        cells.resize(columns, UNKNOWN.to_owned());
    }
    cells
}

/// A line with spaces instead of tabs, without a form feed.
fn expanded(line: &str) -> String {
    let mut text = String::with_capacity(line.len().min(LINE_MAX));
    let mut place = 0_usize;
    for letter in line.chars().take(LINE_MAX) {
        match letter {
            '\t' => {
                let to = (place / 8 + 1) * 8;
                text.extend(std::iter::repeat_n(' ', to - place));
                place = to;
            }
            '\u{c}' | '\r' => {}
            '\u{a0}' => {
                text.push(' ');
                place += 1;
            }
            letter => {
                text.push(letter);
                place += 1;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::read;

    const REPORT: &str = "\
Other Instance Activity Stats                 DB/Inst: ORDB/ordb1  Snaps: 2-3
-> Ordered by statistic name

Statistic                                     Total     per Second     per Trans
-------------------------------- ------------------ -------------- -------------
physical read total multi block                   0            0.0           0.0
redo synch time overhead (usec)       1,530,442,697      423,591.6  52,773,886.1
a number that is too large for its col 12,345,678,901,234,567,890 1.0 2.0
                          ------------------------------------------------------

SQL ordered by Reads                          DB/Inst: ORDB/ordb1  Snaps: 2-3
Statistic                                     Total     per Second     per Trans
-------------------------------- ------------------ -------------- -------------
redo writes                               7,777,777        7,777.7           7.7
x                                             DB/Inst: OTHER/other  Snaps: 7-7
Statistic                                     Total
-------------------------------- ------------------
redo writes                               7,777,777

Wait Event Histogram                          DB/Inst: ORDB/ordb1  Snaps: 2-3
                                                    % of Waits
                                 -----------------------------------------------
                           Total
Event                      Waits  <1ms  <2ms
-------------------------- ----- ----- -----
ADR block file read           15        13.3
";

    #[test]
    fn rows_are_cut_at_the_columns_of_the_ruler() {
        let document = read(REPORT);
        assert_eq!(document.tables.len(), 2, "the SQL text is no table: {document:?}");
        let table = &document.tables[0];
        assert_eq!(table.title, "Other Instance Activity Stats");
        assert_eq!(table.head(), ["Statistic", "Total", "per Second", "per Trans"]);
        assert_eq!(table.rows[0][0], "physical read total multi block");
        assert_eq!(table.rows[1][1], "1,530,442,697");
        assert_eq!(table.rows[2][1], "12,345,678,901,234,567,890");
        let histogram = &document.tables[1];
        assert_eq!(histogram.head(), ["Event", "Waits", "<1ms", "<2ms"]);
        assert_eq!(histogram.column_name(1), "total waits");
        assert_eq!(histogram.rows[0], ["ADR block file read", "15", "", "13.3"]);
    }

    #[test]
    fn the_last_line_of_a_cut_report_is_left_out() {
        let cut = REPORT.trim_end();
        let document = read(cut);
        assert!(document.tables[1].rows.is_empty(), "{document:?}");
    }
}
