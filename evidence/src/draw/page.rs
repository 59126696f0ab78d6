//! The frame of a page: sections, paragraphs, tables, charts with their tables.
//!
//! The page is one file. Its head forbids every request and every script, so a report can be
//! opened where it was found. Tables that are wider than the screen scroll in boxes of their own;
//! the tables of charts are folded until they are asked for, and are all printed.

use super::{
    chart::{COLOURS, Chart, style},
    text::escaped,
};
use std::fmt::Write;

/// A cell of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    text: String,
    note: String,
}

impl Cell {
    /// Said with less weight, below the text: `-25.5 %`.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), note: String::new() }
    }
}

/// A table: the first cell of each row names the row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    #[must_use]
    pub fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row. Cells that the head does not name are left out, missing ones are empty.
    pub fn row<T: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = T>) -> &mut Self {
        let mut cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.head.len(), Cell::default());
        self.rows.push(cells);
        self
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Columns of figures stand right.
    fn is_figures(&self, column: usize) -> bool {
        let is_figure = |cell: &Cell| {
            let first = cell.text.trim_start_matches(['-', '+', '~', '≤', '>', ' ']).chars().next();
            first.is_none_or(|first| first.is_ascii_digit())
        };
        column > 0 && self.rows.iter().filter_map(|row| row.get(column)).all(is_figure)
    }

    fn markup(&self, caption: &str) -> String {
        let caption = escaped(caption);
        let mut out = format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table>\n\
             <caption>{caption}</caption>\n<thead><tr>"
        );
        // Figures, which stand right, are most cells: they need no class.
        let class = |column| if self.is_figures(column) { "" } else { " class=\"t\"" };
        for (column, name) in self.head.iter().enumerate() {
            let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(column), escaped(name));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let text = escaped(&cell.text);
                let note = match cell.note.as_str() {
                    "" => String::new(),
                    note => format!("<span>{}</span>", escaped(note)),
                };
                // Writing to a string does not fail.
                let _ = match column {
                    0 => write!(out, "<th scope=\"row\">{text}{note}</th>"),
                    _ => write!(out, "<td{}>{text}{note}</td>", class(column)),
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table></div>\n");
        out
    }
}

/// A page under construction.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    title: String,
    body: String,
    /// Whether a section, a grid of charts is open.
    is_in_section: bool,
    is_in_grid: bool,
}

impl Page {
    #[must_use]
    pub fn new(title: &str) -> Self {
        let body = format!("<header><h1>{}</h1></header>\n<main>\n", escaped(title));
        let title = title.to_owned();
        Self { title, body, is_in_section: false, is_in_grid: false }
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) -> &mut Self {
        self.end_section();
        self.is_in_section = true;
        self.add(&format!("<section>\n<h2>{}</h2>\n", escaped(title)))
    }

    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.add(&format!("<p>{}</p>\n", escaped(text)))
    }

    /// Points of a list. None makes no list.
    pub fn list<T: AsRef<str>>(&mut self, items: &[T]) -> &mut Self {
        if items.is_empty() {
            return self;
        }
        let items: String =
            items.iter().map(|item| format!("<li>{}</li>\n", escaped(item.as_ref()))).collect();
        self.add(&format!("<ul>\n{items}</ul>\n"))
    }

    /// Lines as they are, such as a log's.
    pub fn lines<T: AsRef<str>>(&mut self, caption: &str, lines: &[T]) -> &mut Self {
        let text: Vec<String> = lines.iter().map(|line| escaped(line.as_ref())).collect();
        let caption = escaped(caption);
        self.add(&format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\
             <pre>{}</pre></div>\n",
            text.join("\n")
        ))
    }

    pub fn table(&mut self, caption: &str, table: &Table) -> &mut Self {
        self.add(&table.markup(caption))
    }

    /// A chart, and the table of what it shows. Charts that follow each other stand beside each
    /// other where there is room.
    pub fn chart(&mut self, chart: &Chart, table: &Table) -> &mut Self {
        if !self.is_in_grid {
            self.body.push_str("<div class=\"charts\">\n");
            self.is_in_grid = true;
        }
        let _ = write!(
            self.body,
            "<figure>\n<figcaption>{}</figcaption>\n{}\n<details><summary>The numbers</summary>\n\
             {}</details>\n</figure>\n",
            escaped(&chart.title),
            chart.inline(),
            table.markup(&chart.title)
        );
        self
    }

    /// The page as HTML.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.end_section();
        let title = escaped(&self.title);
        format!(
            "<!DOCTYPE html>\n\
             <html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
             <meta charset=\"utf-8\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <meta name=\"color-scheme\" content=\"light dark\"/>\n\
             <title>{title}</title>\n<style>\n{}</style>\n</head>\n<body>\n{}</main>\n\
             </body>\n</html>\n",
            page_style(),
            self.body
        )
    }

    fn add(&mut self, markup: &str) -> &mut Self {
        self.end_grid();
        self.body.push_str(markup);
        self
    }

    fn end_grid(&mut self) {
        if std::mem::take(&mut self.is_in_grid) {
            self.body.push_str("</div>\n");
        }
    }

    fn end_section(&mut self) {
        self.end_grid();
        if std::mem::take(&mut self.is_in_section) {
            self.body.push_str("</section>\n");
        }
    }
}

fn page_style() -> String {
    let light: String =
        COLOURS.iter().map(|colour| format!("--{}:{};", colour.0, colour.1)).collect();
    let dark: String =
        COLOURS.iter().map(|colour| format!("--{}:{};", colour.0, colour.2)).collect();
    format!(
        ":root{{color-scheme:light dark;{light}}}\n\
         @media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{}{}",
        style(|name| format!("var(--{name})")),
        include_str!("page.css")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::bars::{Stack, stacked};

    #[test]
    fn a_page_of_all_its_parts_is_well_formed_and_charts_share_a_grid() {
        let mut table = Table::new(["disk", "used", "state"]);
        table.row(["<b>", "12 %", "online"]).row(["DATA_0001", "3 %"]);
        let stack = Stack { label: "a&b", values: vec![f64::NAN, -1.0, 3.0], text: String::new() };
        let chart = stacked("space", "Space <1>", "about", &["a", "b", "c"], &[stack]);
        let mut page = Page::new("Group DATA & more");
        page.paragraph("before any section").section("Space").chart(&chart, &table);
        page.chart(&chart, &table).table("disks", &table).list(&["one", "two"]);
        page.section("Alert log").lines("the last day", &["a <b>", "c\u{1b}[m"]);
        let page = page.finish();
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let parsed = roxmltree::Document::parse_with_options(&page, options);
        let document = parsed.unwrap_or_else(|error| panic!("{error}\n{page}"));
        let count = |name: &str| {
            document.descendants().filter(|node| node.tag_name().name() == name).count()
        };
        assert_eq!((count("section"), count("figure"), count("table")), (2, 2, 3));
        assert_eq!(page.matches("<div class=\"charts\">").count(), 1);
        assert!(page.contains("a &lt;b&gt;\nc\\u{1b}[m"));
    }

    #[test]
    fn columns_of_figures_stand_right_and_others_left() {
        let mut table = Table::new(["run", "p99", "state"]);
        table.row(["a", "≤ 4 ms", "online"]).row(["b", "> 1.02 s", "3 of 4"]);
        assert!(table.is_figures(1) && !table.is_figures(0) && !table.is_figures(2));
    }
}
