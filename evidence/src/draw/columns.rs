//! Rows of cells as lines of text with columns of one width, for terminals.

/// Where the first column stands. The others stand right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// It has names.
    Left,
    /// It has numbers.
    Right,
}

/// Lines with two spaces between columns, and none at their ends. Rows may have fewer cells than
/// others. Widths are counted in characters.
#[must_use]
pub fn aligned(rows: &[Vec<String>], first: First) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cell = |(column, (cell, width)): (usize, (&String, &usize))| match (column, first) {
            (0, First::Left) => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        };
        let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(cell).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a", "1"], vec!["\u{fc}bc", "22"], vec!["d"]];
        let rows = rows.map(|row| row.into_iter().map(str::to_owned).collect());
        assert_eq!(aligned(&rows, First::Left), "a     1\n\u{fc}bc  22\nd\n");
        assert_eq!(aligned(&rows, First::Right), "  a   1\n\u{fc}bc  22\n  d\n");
        assert_eq!(aligned(&[], First::Left), "");
    }
}
