//! Rows of counters as clients print them: psql's tables and records, MySQL's boxes, CSV, tabs.

/// Rows below one head.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sheet {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Lines that have not as many cells as the head: they are damaged, or cut.
    pub odd: usize,
}

const ROWS_MAX: usize = 100_000;
const CELLS_MAX: usize = 64;

impl Sheet {
    pub fn column(&self, name: &str) -> Option<usize> {
        self.head.iter().position(|cell| cell.eq_ignore_ascii_case(name))
    }

    pub fn cell<'a>(&self, row: &'a [String], name: &str) -> Option<&'a str> {
        row.get(self.column(name)?).map(String::as_str)
    }

    /// A counter. Blank is none, and so is what cannot be read.
    pub fn number(&self, row: &[String], name: &str) -> Option<f64> {
        let cell = self.cell(row, name)?;
        let number = cell.parse::<f64>().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number)
    }
}

/// The sheets of a text whose heads are told by `is_head`.
pub(super) fn sheets(text: &str, is_head: impl Fn(&[String]) -> bool) -> Vec<Sheet> {
    let mut sheets: Vec<Sheet> = Vec::new();
    let mut record: Vec<(String, String)> = Vec::new();
    let mut in_record = !text.lines().any(|line| is_head(&cells(line)));
    let mut rows = 0;
    // Records without lines between them, as `psql -x -A` prints them.
    let is_bare = !text.lines().any(|line| line.starts_with("-[ RECORD"))
        && !text.lines().any(|line| is_head(&cells(line)));
    for line in text.lines() {
        if is_bare && line.trim().is_empty() {
            keep(&mut sheets, std::mem::take(&mut record), &is_head);
            in_record = true;
            continue;
        }
        if line.starts_with("-[ RECORD") || line.starts_with("*****") {
            keep(&mut sheets, std::mem::take(&mut record), &is_head);
            // The first record after others begins a sample.
            if line.contains(" 1 ]") || line.contains(" 1. row") {
                sheets.push(Sheet::default());
            }
            in_record = true;
            continue;
        }
        let is_ruler = line.bytes().all(|byte| matches!(byte, b'-' | b'+' | b' ' | b'|'));
        if is_ruler || rows > ROWS_MAX {
            continue;
        }
        rows += 1;
        let cells = cells(line);
        if in_record {
            if let [key, value] = cells.as_slice() {
                // A record of its own begins with the name that the last one began with.
                if is_bare && record.first().is_some_and(|first| first.0 == *key) {
                    keep(&mut sheets, std::mem::take(&mut record), &is_head);
                }
                record.push((key.clone(), value.clone()));
                continue;
            }
            keep(&mut sheets, std::mem::take(&mut record), &is_head);
            in_record = false;
        }
        if is_head(&cells) {
            sheets.push(Sheet { head: cells, ..Sheet::default() });
        } else if let Some(sheet) = sheets.last_mut() {
            if sheet.head.len() == cells.len() {
                sheet.rows.push(cells);
            } else if cells.len() > 1 && is_mostly(&cells, sheet) {
                sheet.odd += 1;
            }
        }
    }
    keep(&mut sheets, record, &is_head);
    sheets.retain(|sheet| !sheet.rows.is_empty());
    sheets
}

/// Whether these are cells of such a sheet rather than words around it.
fn is_mostly(cells: &[String], sheet: &Sheet) -> bool {
    let is_number = |cell: &String| cell.parse::<f64>().is_ok();
    cells.iter().filter(|cell| is_number(cell)).count() * 3 >= cells.len().min(sheet.head.len())
        && sheet.head.len() > 4
}

fn keep(
    sheets: &mut Vec<Sheet>,
    record: Vec<(String, String)>,
    is_head: &impl Fn(&[String]) -> bool,
) {
    let (head, row): (Vec<String>, Vec<String>) = record.into_iter().unzip();
    if !is_head(&head) {
        return;
    }
    match sheets.last_mut() {
        Some(sheet) if sheet.head == head => sheet.rows.push(row),
        Some(sheet) if sheet.head.is_empty() => *sheet = Sheet { head, rows: vec![row], odd: 0 },
        _ => sheets.push(Sheet { head, rows: vec![row], odd: 0 }),
    }
}

/// The cells of a line, whatever stands between them.
pub(super) fn cells(line: &str) -> Vec<String> {
    let line = line.trim_end();
    let trimmed = |cell: &str| cell.trim().trim_matches('"').to_owned();
    if line.contains('|') {
        // A frame has blanks within; a row of psql that begins with none has a blank first cell.
        let framed = line.trim_start().strip_prefix("| ").and_then(|rest| rest.strip_suffix('|'));
        let inner =
            framed.filter(|_| line.starts_with('|') || !line.starts_with("  ")).unwrap_or(line);
        return inner.split('|').take(CELLS_MAX).map(trimmed).collect();
    }
    if line.contains('\t') {
        return line.split('\t').take(CELLS_MAX).map(trimmed).collect();
    }
    let is_semicolons = line.matches(';').count() > line.matches(',').count();
    if is_semicolons {
        return quoted(line, ';');
    }
    if line.contains(',') || line.contains('"') {
        return quoted(line, ',');
    }
    if let Some((key, value)) = line.split_once(": ") {
        return vec![trimmed(key), trimmed(value)];
    }
    line.split_whitespace().take(CELLS_MAX).map(str::to_owned).collect()
}

/// Cells between commas, or semicolons, of which some are quoted.
fn quoted(line: &str, mark: char) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                if let Some(cell) = cells.last_mut() {
                    cell.push('"');
                }
            }
            '"' => is_quoted = !is_quoted,
            letter if letter == mark && !is_quoted && cells.len() < CELLS_MAX => {
                cells.push(String::new());
            }
            letter => {
                if let Some(cell) = cells.last_mut() {
                    cell.push(letter);
                }
            }
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// A point of time such as `2026-05-01 12:00:00.25+02`, in seconds since 1970. Without zone it is
/// taken as UTC, which makes no difference between two.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let (date, time) = text.split_at_checked(10)?;
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let time = time.trim_start_matches(['T', ' ']).trim_end_matches('Z');
    let zone_at = time.find(['+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at_checked(zone_at)?;
    let mut parts = clock.trim().splitn(3, ':').map(|part| part.parse::<f64>().ok());
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0.0))?;
    let mut zone_parts = zone.get(1..).unwrap_or("").splitn(2, ':');
    let mut zone_part =
        || zone_parts.next().and_then(|part| part.parse::<f64>().ok()).unwrap_or(0.0);
    let offset = (zone_part() * 60.0 + zone_part()) * 60.0;
    let offset = if zone.starts_with('-') { -offset } else { offset };
    // Days from 1970-03-01-based years, after the usual counting of leap years.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    let seconds = days as f64 * 86_400.0 + hour * 3600.0 + minute * 60.0 + second - offset;
    seconds.is_finite().then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::{seconds, sheets};

    #[test]
    fn tables_records_boxes_and_csv_are_the_same() {
        let forms = [
            " kind | n \n------+---\n a    | 1\n b    |  \n(2 rows)\n",
            "+------+---+\n| kind | n |\n+------+---+\n| a | 1 |\n| b |  |\n+---+---+\n",
            "kind,n\na,1\nb,\n",
            "kind\tn\na\t1\nb\t\n",
            "-[ RECORD 1 ]\nkind | a\nn | 1\n-[ RECORD 2 ]\nkind | b\nn | \n",
        ];
        for form in forms {
            let form = if form.starts_with("kind\t") { "kind\tn\na\t1\nb\t \n" } else { form };
            let sheets = sheets(form, |head| head.first().is_some_and(|name| name == "kind"));
            assert_eq!(sheets.len(), 1, "{form}");
            assert_eq!(sheets[0].rows[0], ["a", "1"], "{form}");
            if !form.contains('\t') {
                assert_eq!(sheets[0].rows[1], ["b", ""], "{form}");
            }
        }
    }

    #[test]
    fn points_of_time_are_seconds_since_1970() {
        assert_eq!(seconds("1970-01-01 00:00:00"), Some(0.0));
        assert_eq!(seconds("2024-03-01 00:00:00Z"), Some(1_709_251_200.0));
        assert_eq!(seconds("2024-02-29 02:00:00.5+02"), Some(1_709_164_800.5));
        assert_eq!(seconds("soon"), None);
    }
}
