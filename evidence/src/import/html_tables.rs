//! The tables of an HTML page, as its browser would show them.
//!
//! Cells and rows that were never closed end where the next begins; cells over several rows or
//! columns stand in each of them; a table within a cell is a table of its own. Markup that a page
//! quotes, such as `&lt;table&gt;`, stays text.
//!
//! Invariants:
//!
//! 1. Memory is bounded by [`CELLS_MAX`], however the page is built.
//! 2. Of a table that the end of the file has cut, the last row is left out: its last number may
//!    be half a number.

use super::tables::{Document, Table};
use html5gum::{Token, Tokenizer};

/// Of all tables. A report of 5 MB has 60,000.
const CELLS_MAX: usize = 1_000_000;
/// Characters of a cell. SQL texts are longer, and are not read.
const CELL_LENGTH_MAX: usize = 200;
/// Columns of a table.
const COLUMNS_MAX: usize = 128;
/// Tables within tables.
const DEPTH_MAX: usize = 16;

#[derive(Default)]
struct Open {
    table: Table,
    /// Rows as they are, and whether each is a head: its last cell is one.
    rows: Vec<(bool, Vec<Cell>)>,
    row: Option<(bool, Vec<Cell>)>,
    cell: Option<Cell>,
}

#[derive(Default)]
struct Cell {
    text: String,
    is_head: bool,
    columns: usize,
    rows: usize,
}

/// Reads all tables of a page.
pub(super) fn read(page: &str) -> Document {
    let mut reader = Reader::default();
    for Ok(token) in Tokenizer::new(page) {
        match token {
            Token::StartTag(tag) => {
                let attribute = |name: &str| {
                    tag.attributes
                        .iter()
                        .find(|(key, _)| key.as_slice() == name.as_bytes())
                        .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
                };
                reader.start(tag.name.as_slice(), attribute);
            }
            Token::EndTag(tag) => reader.end(tag.name.as_slice()),
            Token::String(text) => reader.text(&String::from_utf8_lossy(&text)),
            _ => {}
        }
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    document: Document,
    open: Vec<Open>,
    cells: usize,
    /// The heading being read, the last one, and the text since.
    heading: Option<String>,
    last_heading: String,
    between: String,
    is_hidden: bool,
}

impl Reader {
    fn start(&mut self, name: &[u8], attribute: impl Fn(&str) -> Option<String>) {
        match name {
            b"table" if self.open.len() < DEPTH_MAX => {
                let mut table = Table {
                    title: self.last_heading.clone(),
                    before: std::mem::take(&mut self.between),
                    ..Table::default()
                };
                table.summary = shortened(&attribute("summary").unwrap_or_default());
                self.open.push(Open { table, ..Open::default() });
            }
            b"tr" => {
                if let Some(open) = self.open.last_mut() {
                    open.end_row();
                    open.row = Some((true, Vec::new()));
                }
            }
            b"td" | b"th" => self.start_cell(name == b"th", attribute),
            b"h1" | b"h2" | b"h3" | b"h4" => {
                self.heading = Some(String::new());
                self.between.clear();
            }
            b"br" | b"p" | b"li" | b"div" => self.text(" "),
            b"script" | b"style" => self.is_hidden = true,
            _ => {}
        }
    }

    fn start_cell(&mut self, is_head: bool, attribute: impl Fn(&str) -> Option<String>) {
        let is_full = self.cells >= CELLS_MAX;
        let Some(open) = self.open.last_mut() else { return };
        open.end_cell();
        let row = open.row.get_or_insert_with(|| (true, Vec::new()));
        if is_full || row.1.len() >= COLUMNS_MAX {
            return;
        }
        self.cells += 1;
        let span = |name: &str| {
            let digits = attribute(name).and_then(|text| text.trim().parse::<usize>().ok());
            digits.unwrap_or(1).clamp(1, COLUMNS_MAX)
        };
        let (columns, rows) = (span("colspan"), span("rowspan"));
        open.cell = Some(Cell { text: String::new(), is_head, columns, rows });
    }

    fn end(&mut self, name: &[u8]) {
        match name {
            b"table" => {
                if let Some(mut open) = self.open.pop() {
                    open.end_row();
                    self.keep(open);
                }
            }
            b"tr" | b"thead" | b"tbody" => {
                if let Some(open) = self.open.last_mut() {
                    open.end_row();
                }
            }
            b"td" | b"th" => {
                if let Some(open) = self.open.last_mut() {
                    open.end_cell();
                }
            }
            b"h1" | b"h2" | b"h3" | b"h4" => {
                if let Some(heading) = self.heading.take() {
                    self.last_heading = spaced(&heading);
                    if name == b"h1" {
                        self.document.headings.push(self.last_heading.clone());
                    }
                }
            }
            b"script" | b"style" => self.is_hidden = false,
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.is_hidden {
            return;
        }
        if let Some(open) = self.open.last_mut() {
            if let Some(cell) = &mut open.cell {
                push_limited(&mut cell.text, text);
            }
            return;
        }
        match &mut self.heading {
            Some(heading) => push_limited(heading, text),
            None => {
                if text.contains("End of Report") {
                    self.document.is_whole = true;
                }
                // A report as text, before or behind the page.
                if self.document.texts == 0 && text.contains("DB/Inst:") {
                    self.document.texts = 1;
                }
                push_limited(&mut self.between, text);
            }
        }
    }

    fn keep(&mut self, open: Open) {
        let mut table = open.table;
        let heads = open.rows.iter().take_while(|row| row.0).count().min(open.rows.len());
        let grid = grid(open.rows.into_iter().map(|row| row.1));
        let mut grid = grid.into_iter();
        table.heads = grid.by_ref().take(heads).collect();
        table.rows = grid.collect();
        if table.heads.is_empty() && !table.rows.is_empty() {
            // A table without a head: its first row may be one.
            table.heads = table.rows.get(..1).map(<[_]>::to_vec).unwrap_or_default();
        }
        table.before = spaced(&table.before);
        self.document.tables.push(table);
    }

    fn finish(mut self) -> Document {
        // Cut: without the row that was being read.
        while let Some(open) = self.open.pop() {
            self.document.is_whole = false;
            self.keep(open);
        }
        self.document
    }
}

impl Open {
    fn end_cell(&mut self) {
        if let (Some(mut cell), Some((is_head, row))) = (self.cell.take(), self.row.as_mut()) {
            cell.text = spaced(&cell.text);
            // A corner without a name is no head of a column.
            *is_head = cell.is_head;
            row.push(cell);
        }
    }

    fn end_row(&mut self) {
        self.end_cell();
        if let Some((is_head, row)) = self.row.take()
            && !row.is_empty()
        {
            self.rows.push((is_head, row));
        }
    }
}

/// Cells over several rows and columns, in each of them.
fn grid(rows: impl Iterator<Item = Vec<Cell>>) -> Vec<Vec<String>> {
    // Of each column: how many rows more, and the text.
    let mut from_above: Vec<(usize, String)> = Vec::new();
    let mut grid = Vec::new();
    for row in rows {
        let mut line: Vec<String> = Vec::new();
        let mut take_above = |line: &mut Vec<String>| {
            while let Some((left, text)) = from_above.get_mut(line.len()).filter(|cell| cell.0 > 0)
            {
                *left -= 1;
                line.push(text.clone());
            }
        };
        let mut below = Vec::new();
        for cell in row {
            take_above(&mut line);
            for _ in 0..cell.columns {
                if line.len() >= COLUMNS_MAX {
                    break;
                }
                if cell.rows > 1 {
                    below.push((line.len(), cell.rows - 1, cell.text.clone()));
                }
                line.push(cell.text.clone());
            }
        }
        take_above(&mut line);
        for (column, left, text) in below {
            if from_above.len() <= column {
                from_above.resize(column + 1, (0, String::new()));
            }
            if let Some(above) = from_above.get_mut(column) {
                *above = (left, text);
            }
        }
        grid.push(line);
    }
    grid
}

fn push_limited(text: &mut String, more: &str) {
    let left = (CELL_LENGTH_MAX * 4).saturating_sub(text.len());
    if more.len() <= left {
        text.push_str(more);
    } else {
        text.extend(more.chars().take(left / 4));
    }
}

/// Words with one space between them, at most [`CELL_LENGTH_MAX`] characters.
fn spaced(text: &str) -> String {
    let mut words = String::with_capacity(text.len().min(CELL_LENGTH_MAX));
    for word in text.split(|c: char| c.is_whitespace() || c == '\u{a0}') {
        if word.is_empty() || words.len() >= CELL_LENGTH_MAX {
            continue;
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    shortened(&words)
}

fn shortened(text: &str) -> String {
    text.chars().take(CELL_LENGTH_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn rows_and_cells_that_were_never_closed_are_read() {
        let page = "<h3>Stats</h3><table summary='s'><tr><th>Statistic<th>Total\
                    <tr><td>redo writes<td align=right>1,234&nbsp;<tr><td>x<td>&#160;</table>";
        let document = read(page);
        let table = &document.tables[0];
        assert_eq!(table.title, "Stats");
        assert_eq!(table.heads, [["Statistic", "Total"]]);
        assert_eq!(table.rows, [["redo writes", "1,234"], ["x", ""]]);
    }

    #[test]
    fn a_table_that_is_cut_loses_its_last_row() {
        let document = read("<table><tr><th>A<th>B<tr><td>a<td>12<tr><td>b<td>34,5");
        assert_eq!(document.tables[0].rows, [["a", "12"]]);
        assert!(!document.is_whole);
    }

    #[test]
    fn cells_over_rows_and_columns_stand_in_each_of_them() {
        let page = "<table><tr><th rowspan=2>Event<th colspan=2>% of Waits</tr>\
                    <tr><th>&lt;1ms<th>&gt;1ms</tr><tr><td>a<td>1<td>2</table>";
        let table = &read(page).tables[0];
        assert_eq!(table.heads[0], ["Event", "% of Waits", "% of Waits"]);
        assert_eq!(table.heads[1], ["Event", "<1ms", ">1ms"]);
    }

    #[test]
    fn quoted_markup_is_text() {
        let page = "<table><tr><th>SQL Text<tr><td>&lt;table&gt;&lt;tr&gt;&lt;td&gt;7</table>";
        let document = read(page);
        assert_eq!(document.tables.len(), 1);
        assert_eq!(document.tables[0].rows, [["<table><tr><td>7"]]);
    }
}
