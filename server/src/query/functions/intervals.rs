//! Intervals: of days, which are numbers here, and of months.
//!
//! ```text
//!   INTERVAL '2' HOUR, '1 day 02:00'::interval, NUMTODSINTERVAL(2, 'HOUR')     a number of days
//!   INTERVAL '1-2' YEAR TO MONTH, NUMTOYMINTERVAL(14, 'MONTH')                 '+000000001-02'
//! ```
//!
//! Months have no length, so an interval of months is a text in the form in which Oracle shows it.

use super::times::{DAY, seconds_of};

/// What a text or a literal says: one of the two is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub months: i64,
    pub micros: i64,
}

/// The fields of an interval of days, each with its microseconds.
const FIELDS: [(&str, i64); 4] =
    [("DAY", DAY), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000)];

impl Interval {
    /// The interval of a literal with its fields: `'1 02:30' DAY TO MINUTE`, `'3' MONTH`.
    #[must_use]
    pub fn of_fields(text: &str, from: &str, to: Option<&str>) -> Option<Self> {
        let text = text.trim();
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let to = to.unwrap_or(from);
        let signed = |interval: Self| if is_negative { interval.negative() } else { interval };
        if ["YEAR", "MONTH"].iter().any(|field| from.eq_ignore_ascii_case(field)) {
            let is_year = from.eq_ignore_ascii_case("YEAR");
            let months = match text.split_once('-') {
                Some((years, months)) if is_year && to.eq_ignore_ascii_case("MONTH") => {
                    let months = number(months).filter(|months| *months < 12)?;
                    number(years)?.checked_mul(12)?.checked_add(months)?
                }
                _ if is_year => number(text)?.checked_mul(12)?,
                _ => number(text)?,
            };
            return Some(signed(Self { months, micros: 0 }));
        }
        let place =
            |name: &str| FIELDS.iter().position(|(field, _)| name.eq_ignore_ascii_case(field));
        let fields = FIELDS.get(place(from)?..=place(to)?)?;
        let parts: Vec<&str> = text.split([' ', ':']).filter(|part| !part.is_empty()).collect();
        if parts.len() != fields.len() {
            return None;
        }
        let mut micros = 0_i64;
        for (part, (_, unit)) in parts.into_iter().zip(fields) {
            micros = micros.checked_add(amount(part, *unit)?)?;
        }
        Some(signed(Self { months: 0, micros }))
    }

    /// The interval of a text: `1 day 02:00`, `2 hours`, `1 month`, `10 06:30:00`. `None` if it is
    /// none, or has months and days.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut sum = Self { months: 0, micros: 0 };
        let mut words = text.split_whitespace().peekable();
        words.peek()?;
        while let Some(word) = words.next() {
            if word.contains(':') {
                sum = sum.plus(clock(word)?)?;
                continue;
            }
            let next = match words.peek() {
                Some(unit) if !unit.contains(':') => words.next()?,
                // Days before a time.
                _ => "day",
            };
            let unit = next.trim_end_matches(['s', 'S']).to_ascii_lowercase();
            sum = sum.plus(match unit.as_str() {
                "year" | "yr" | "y" => Self { months: number(word)?.checked_mul(12)?, micros: 0 },
                "month" | "mon" => Self { months: number(word)?, micros: 0 },
                _ => Self { months: 0, micros: amount(word, seconds_of(next)? * 1_000_000)? },
            })?;
        }
        (sum.months == 0 || sum.micros == 0).then_some(sum)
    }

    /// The months of an interval in the form of [`Self::text`].
    #[must_use]
    pub fn months_of(text: &str) -> Option<i64> {
        let unsigned = text.strip_prefix(['+', '-']).filter(|rest| rest.len() == 12)?;
        let (years, months) = unsigned.split_once('-')?;
        let total = number(years)? * 12 + number(months)?;
        Some(if text.starts_with('-') { -total } else { total })
    }

    /// An interval of months as Oracle shows it: `+000000001-02`.
    #[must_use]
    pub fn text(months: i64) -> String {
        let sign = if months < 0 { '-' } else { '+' };
        let months = months.unsigned_abs();
        format!("{sign}{:09}-{:02}", months / 12, months % 12)
    }

    fn negative(self) -> Self {
        Self { months: -self.months, micros: -self.micros }
    }

    fn plus(self, other: Self) -> Option<Self> {
        Some(Self {
            months: self.months.checked_add(other.months)?,
            micros: self.micros.checked_add(other.micros)?,
        })
    }
}

/// `02:30:00`
fn clock(text: &str) -> Option<Interval> {
    let to = if text.matches(':').count() == 2 { "SECOND" } else { "MINUTE" };
    Interval::of_fields(text, "HOUR", Some(to))
}

fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.abs() < 1_000_000_000)
}

/// A number of units, perhaps with a fraction, in microseconds.
fn amount(text: &str, unit: i64) -> Option<i64> {
    if let Some(whole) = number(text) {
        return whole.checked_mul(unit);
    }
    let real = text.parse::<f64>().ok()? * unit as f64;
    (real.abs() < 9e18).then_some(real.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = DAY / 24;

    #[test]
    fn intervals_are_read() {
        let of = |months, micros| Some(Interval { months, micros });
        for (text, from, to, interval) in [
            ("2", "HOUR", None, of(0, 2 * HOUR)),
            ("1 02:30", "DAY", Some("MINUTE"), of(0, DAY + 2 * HOUR + HOUR / 2)),
            ("-00:30:00.5", "hour", Some("second"), of(0, -HOUR / 2 - 500_000)),
            ("1-2", "YEAR", Some("MONTH"), of(14, 0)),
            ("3", "MONTH", None, of(3, 0)),
            ("2", "YEAR", None, of(24, 0)),
            ("1-13", "YEAR", Some("MONTH"), None),
            ("1", "DAY", Some("SECOND"), None),
            ("x", "DAY", None, None),
        ] {
            assert_eq!(Interval::of_fields(text, from, to), interval, "{text} {from}");
        }
        for (text, interval) in [
            ("1 day 02:00", of(0, DAY + 2 * HOUR)),
            ("2 hours 30 minutes", of(0, 2 * HOUR + HOUR / 2)),
            ("1 year 2 months", of(14, 0)),
            ("10 06:00:00", of(0, 10 * DAY + 6 * HOUR)),
            ("1 month 2 days", None),
            ("", None),
            ("5 parsecs", None),
        ] {
            assert_eq!(Interval::parse(text), interval, "{text}");
        }
        for months in [14, -1, 0] {
            assert_eq!(Interval::months_of(&Interval::text(months)), Some(months));
        }
        assert_eq!(Interval::months_of("2026-03-07 15"), None);
    }
}
