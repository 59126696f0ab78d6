//! Days as SQL*Plus prints them, in UTC, as all times here.

use crate::alert::rfc3339;

/// A time.
pub(super) struct Date {
    /// `2026-03-07T15:04:09.123Z`
    text: String,
    /// Days since 1970.
    days: i64,
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// The first day of 1970 was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

impl Date {
    /// From nanoseconds since 1970.
    pub(super) fn of(nanos: i64) -> Self {
        Self { text: rfc3339(nanos), days: nanos.div_euclid(86_400_000_000_000) }
    }

    fn part(&self, from: usize, to: usize) -> &str {
        self.text.get(from..to).unwrap_or_default()
    }

    fn month(&self) -> &'static str {
        let month = self.part(5, 7).parse::<usize>().unwrap_or(1);
        MONTHS.get(month.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// `07-MAR-26`
    pub(super) fn oracle(&self) -> String {
        format!("{}-{}-{}", self.part(8, 10), self.month().to_uppercase(), self.part(2, 4))
    }

    /// `Sat Mar 07`, as titles have it.
    pub(super) fn title(&self) -> String {
        let weekday = usize::try_from(self.days.rem_euclid(7)).unwrap_or(0);
        let weekday = WEEKDAYS.get(weekday).copied().unwrap_or_default();
        format!("{weekday} {} {}", self.month(), self.part(8, 10))
    }

    /// `15:04:09`
    pub(super) fn time(&self) -> &str {
        self.part(11, 19)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_its_name_and_its_month() {
        // 2026-03-07T15:04:09Z
        let date = Date::of(1_772_895_849_000_000_000);
        assert_eq!((date.oracle().as_str(), date.title().as_str()), ("07-MAR-26", "Sat Mar 07"));
        assert_eq!(date.time(), "15:04:09");
        assert_eq!(Date::of(0).title(), "Thu Jan 01");
    }
}
