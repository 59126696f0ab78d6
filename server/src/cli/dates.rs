//! Times as `asmcmd` prints them, in UTC. They are for people and for `awk`: JSON has times as the
//! views have them.
//!
//! A file's time is three words in every row, wherever it is from: `NOV 26 08:41:57` in this year,
//! `NOV 26     2024` in another. A disk's is one word, `26-NOV-25`.

use crate::alert::rfc3339;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

/// Year, month in letters, and day of `2025-11-26`.
fn parts(date: &str) -> Option<(&str, &'static str, &str)> {
    let (year, rest) = date.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let month = month.parse::<usize>().ok()?.checked_sub(1)?;
    Some((year, MONTHS.get(month)?, day))
}

/// A file's time; nanoseconds since 1970.
pub(super) fn of_file(nanos: i64, now: i64) -> String {
    let (time, this) = (rfc3339(nanos), rfc3339(now));
    let Some((date, clock)) = time.split_once('T') else { return time };
    let Some((year, month, day)) = parts(date) else { return time };
    if this.split('-').next() == Some(year) {
        let clock: String = clock.chars().take(8).collect();
        format!("{month} {day} {clock}")
    } else {
        format!("{month} {day} {year:>8}")
    }
}

/// A disk's time, as the views have it: `2025-11-26 08:41:57`.
pub(super) fn of_disk(time: &str) -> Option<String> {
    let (year, month, day) = parts(time.split(' ').next()?)?;
    let short = year.get(year.len().checked_sub(2)?..)?;
    Some(format!("{day}-{month}-{short}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-18 11:06:40.
    const NOW: i64 = 1_795_000_000_123_456_789;
    const DAY: i64 = 86_400 * 1_000_000_000;

    #[test]
    fn a_time_of_a_file_is_three_words_in_every_year() {
        assert_eq!(of_file(NOW, NOW), "NOV 18 11:06:40");
        assert_eq!(of_file(NOW - 321 * DAY, NOW), "JAN 01 11:06:40");
        assert_eq!(of_file(NOW - 322 * DAY, NOW), "DEC 31     2025");
        assert_eq!(of_file(NOW + 44 * DAY, NOW), "JAN 01     2027");
        assert_eq!(of_file(0, NOW), "JAN 01     1970");
        for nanos in [NOW, NOW - 322 * DAY, i64::MAX, -1] {
            assert_eq!(of_file(nanos, NOW).split_whitespace().count(), 3, "{nanos}");
        }
    }

    #[test]
    fn a_time_of_a_disk_is_one_word() {
        assert_eq!(of_disk("2025-11-06 08:41:57").as_deref(), Some("06-NOV-25"));
        for wrong in ["", "2025", "2025-13-01 00:00:00", "5-1-1"] {
            assert_eq!(of_disk(wrong), None, "{wrong}");
        }
    }
}
