//! A result as HTML, after `SET MARKUP HTML ON`: each page is a table, each column of a row a cell.
//!
//! The parts are those of the report in text (titles, headings, rows, sums at breaks), and so is
//! the order. Other lines that the script prints end with `<br>`. With `ENTMAP ON` the characters
//! that HTML uses itself are written as entities; `COLUMN ... ENTMAP` decides about one column.
//! With `SPOOL ON` a spool file is a whole document, with the texts of HEAD and BODY. With
//! `HTML ON` on the command line the standard output is one.

/// The clauses of MARKUP HTML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Html {
    pub on: bool,
    pub entmap: bool,
    /// The attributes of tables.
    pub table: String,
    /// The text within `<head>`, and the attributes of `<body>`.
    pub head: String,
    pub body: String,
    /// A spool file is a whole document.
    pub spool: bool,
}

impl Default for Html {
    fn default() -> Self {
        Self {
            on: false,
            entmap: true,
            table: "border='1' width='90%' align='center' summary='Script output'".to_owned(),
            head: "<title>SQL*Plus Report</title>".to_owned(),
            body: String::new(),
            spool: false,
        }
    }
}

/// A cell of a row.
pub(super) struct Cell {
    /// Its text, with line ends.
    pub text: String,
    pub is_number: bool,
    /// The characters of HTML are written as entities.
    pub maps: bool,
}

impl Html {
    /// The lines above the rows of a table.
    pub(super) fn begin(&self) -> Vec<String> {
        vec!["<p>".to_owned(), tag("table", &self.table)]
    }

    /// The lines below the rows of a table.
    pub(super) fn end() -> Vec<String> {
        vec!["</table>".to_owned(), "<p>".to_owned()]
    }

    /// Lines that stand in no table, as HTML shows them.
    pub(super) fn lines(&self, text: &str) -> String {
        let mapped = if self.entmap { escaped(text) } else { text.to_owned() };
        mapped.replace('\n', "<br>\n")
    }

    /// The start of a document.
    pub(super) fn document(&self) -> String {
        let (head, body) = (&self.head, tag("body", &self.body));
        format!(
            "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n{head}\n</head>\n{body}\n"
        )
    }
}

/// The end of a document.
pub(super) const DOCUMENT_END: &str = "</body>\n</html>\n";

/// The lines of a row of headings.
pub(super) fn headings(cells: &[Cell]) -> Vec<String> {
    row("th scope=\"col\"", "th", cells)
}

/// The lines of a row of values.
pub(super) fn values(cells: &[Cell]) -> Vec<String> {
    row("td", "td", cells)
}

fn row(open: &str, close: &str, cells: &[Cell]) -> Vec<String> {
    let mut lines = vec!["<tr>".to_owned()];
    for cell in cells {
        let is_right = cell.is_number && close == "td";
        lines.push(format!("<{open}{}>", if is_right { " align=\"right\"" } else { "" }));
        let text = cell.text.trim_end();
        let text = if cell.maps { escaped(text) } else { text.to_owned() };
        // An empty cell would have no border.
        let is_empty = text.trim().is_empty();
        lines.push(if is_empty { "&nbsp;".to_owned() } else { text.replace('\n', "<br>\n") });
        lines.push(format!("</{close}>"));
    }
    lines.push("</tr>".to_owned());
    lines
}

fn tag(name: &str, attributes: &str) -> String {
    let attributes = attributes.trim();
    let between = if attributes.is_empty() { "" } else { " " };
    format!("<{name}{between}{attributes}>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_and_numbers_stand_on_the_right() {
        let cell = |text: &str, is_number, maps| Cell { text: text.to_owned(), is_number, maps };
        let cells = [cell("a<b & \"c\"", false, true), cell("  5", true, true)];
        assert_eq!(
            values(&cells).join(""),
            "<tr><td>a&lt;b &amp; &quot;c&quot;</td><td align=\"right\">  5</td></tr>"
        );
        let cells = [cell("<b>x</b>", false, false), cell(" ", false, true)];
        assert_eq!(
            headings(&cells).join(""),
            "<tr><th scope=\"col\"><b>x</b></th><th scope=\"col\">&nbsp;</th></tr>"
        );
    }

    #[test]
    fn lines_outside_of_tables_end_with_a_break() {
        let html = Html::default();
        assert_eq!(html.lines("a > b\n\n"), "a &gt; b<br>\n<br>\n");
        assert_eq!(Html { entmap: false, ..html }.lines("<h1>a</h1>\n"), "<h1>a</h1><br>\n");
        let html = Html { body: "bgcolor='white'".to_owned(), ..Html::default() };
        assert!(html.document().contains("\n</head>\n<body bgcolor='white'>\n"));
    }
}
