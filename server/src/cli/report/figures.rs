//! Numbers and names as the page has them. Counters are whole, digit by digit, so that they can be
//! compared with the views; latencies have three digits that count.

use super::{Limits, facts::Facts};
use plinth_evidence::draw::{Cell, Page, Table, text::shortened, units};

/// Of a text in a cell.
const CELL_CHARACTERS_MAX: usize = 100;

/// Whole, with a comma after each three digits: `1,234,567`.
pub(super) fn count(number: u64) -> String {
    units::grouped(&number.to_string())
}

/// The same of a number that may be negative.
pub(super) fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", count(number.unsigned_abs()))
}

/// `1,234 MiB`.
pub(super) fn mib(number: i64) -> String {
    format!("{} MiB", signed(number))
}

/// The mean of a number of requests that took these seconds in total; `-` of none.
pub(super) fn mean(seconds: f64, number: u64) -> String {
    if number == 0 { "-".to_owned() } else { units::latency(seconds * 1e9 / number as f64) }
}

/// A share; `-` of nothing.
pub(super) fn per_cent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

/// Text from a view for a cell: a long one without its middle, none as a dash.
pub(super) fn cell(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { shortened(text, CELL_CHARACTERS_MAX) }
}

/// A time of a view, `2026-11-29 15:46:01.123456`, to the second.
pub(super) fn time(text: &str) -> String {
    cell(text.split('.').next().unwrap_or_default())
}

/// Nanoseconds since 1970 as the views write times.
pub(super) fn moment(nanos: i64) -> String {
    crate::alert::rfc3339(nanos).chars().take(19).collect::<String>().replace('T', " ")
}

/// Puts the sentence on the page that something of a view could not be asked. Returns whether it
/// was asked.
pub(super) fn is_known(facts: &Facts, page: &mut Page, view: &str) -> bool {
    match facts.get(view) {
        Ok(_) => true,
        Err(reason) => {
            page.paragraph(&format!("{view} could not be asked: {reason}."));
            false
        }
    }
}

/// A table with as many rows as there may be, and below it how many were left out.
pub(super) fn table(
    page: &mut Page,
    caption: &str,
    head: &[&str],
    rows: Vec<Vec<Cell>>,
    limits: Limits,
) {
    let left_out = rows.len().saturating_sub(limits.rows);
    let mut table = Table::new(head.iter().copied());
    for row in rows.into_iter().take(limits.rows) {
        table.row(row);
    }
    if table.is_empty() {
        return;
    }
    page.table(caption, &table);
    if left_out > 0 {
        let rows = plinth_engine::words::counted(left_out as u64, "row");
        page.paragraph(&format!("Left out of this table, to keep the page small: {rows}."));
    }
}

/// Cells of texts.
pub(super) fn cells(texts: impl IntoIterator<Item = String>) -> Vec<Cell> {
    texts.into_iter().map(Cell::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_whole_and_have_commas() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(signed(-1_234), "-1,234");
        assert_eq!(signed(i64::MIN), "-9,223,372,036,854,775,808");
    }

    #[test]
    fn a_mean_of_nothing_is_a_dash() {
        assert_eq!(mean(0.5, 0), "-");
        assert_eq!(mean(0.5, 1_000), "500 us");
        assert_eq!(per_cent(1, 0), "-");
        assert_eq!(per_cent(1, 8), "12.5 %");
    }

    #[test]
    fn times_are_cut_to_seconds() {
        assert_eq!(time("2026-11-29 15:46:01.123456"), "2026-11-29 15:46:01");
        assert_eq!(time(""), "-");
        assert_eq!(moment(0), "1970-01-01 00:00:00");
    }
}
