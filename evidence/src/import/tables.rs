//! A report as its tables, whether it came as HTML or as text.

/// A table of a report.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// The heading above it.
    pub title: String,
    /// The page's own words for it.
    pub summary: String,
    /// The text between the heading and it.
    pub before: String,
    /// The lines of its head, the most specific last.
    pub heads: Vec<Vec<String>>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The last line of the head.
    pub fn head(&self) -> &[String] {
        self.heads.last().map_or(&[], Vec::as_slice)
    }

    /// A column's name with all lines of the head, in lower case.
    pub fn column_name(&self, column: usize) -> String {
        let mut words: Vec<&str> = Vec::new();
        for line in &self.heads {
            if let Some(word) = line.get(column)
                && !word.is_empty()
                && words.last() != Some(&word.as_str())
            {
                words.push(word);
            }
        }
        words.join(" ").to_lowercase()
    }

    /// The number of columns of the head.
    pub fn columns(&self) -> usize {
        self.head().len()
    }

    /// The first column whose last line of the head is this, in any case.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.head().iter().position(|cell| cell.eq_ignore_ascii_case(name))
    }

    /// The first column whose name contains this (in lower case).
    pub fn column_with(&self, part: &str) -> Option<usize> {
        (0..self.columns()).find(|column| self.column_name(*column).contains(part))
    }

    /// Title and summary in lower case.
    pub fn about(&self) -> String {
        format!("{} | {}", self.title, self.summary).to_lowercase()
    }
}

/// A report.
#[derive(Debug, Clone, Default)]
pub(super) struct Document {
    pub tables: Vec<Table>,
    /// Headings of the first order: `WORKLOAD REPOSITORY report for`.
    pub headings: Vec<String>,
    /// Labels and what stands behind them: `Elapsed:`.
    pub labels: Vec<(String, String)>,
    /// Reports as text in a page, outside of its tables.
    pub texts: usize,
    /// It has its end.
    pub is_whole: bool,
}

impl Document {
    /// The value behind a label, such as `Std Block Size:`, in a text or in a table's next cell.
    pub fn label(&self, label: &str) -> Option<&str> {
        let in_text = self.labels.iter().find(|pair| pair.0.eq_ignore_ascii_case(label));
        if let Some((_, value)) = in_text {
            return Some(value);
        }
        let rows = self.tables.iter().flat_map(|table| table.rows.iter().chain(&table.heads));
        for row in rows {
            let at = row.iter().take(6).position(|cell| cell.eq_ignore_ascii_case(label));
            let value = at.and_then(|at| row.iter().skip(at + 1).find(|cell| !cell.is_empty()));
            if let Some(value) = value {
                return Some(value);
            }
        }
        None
    }
}
