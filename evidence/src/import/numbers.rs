//! Numbers as reports print them.
//!
//! ```text
//!   55,301,220   1.936982535373E+13   .0   1.E+03     plain
//!   1843.1K   2.1M                                    requests: powers of 1000
//!   48.9G   .307219   5.147M                          data: powers of 1024, without a letter MB
//!   620.73us   1.52ms   52.86 s   .00ns               times
//!   1.234,56   55.301.220   55 301 220   55'301'220   other countries
//! ```
//!
//! Invariants:
//!
//! 1. A cell that is no number, such as `######` or `N/A`, is none: never 0.
//! 2. `1.234` is read by the notation of the whole report, which [`Notation::of`] tells from the
//!    cells that can be read in one way only.
//! 3. A number knows how far it was rounded.

/// The character between the whole and the fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Notation {
    /// `1,234.56`
    #[default]
    Point,
    /// `1.234,56`
    Comma,
}

/// A number, and the unit of its last printed digit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Number {
    pub value: f64,
    pub step: f64,
}

impl Number {
    /// By how much the printed number may be wrong, as a share of itself.
    pub fn error(self) -> f64 {
        if self.value == 0.0 { f64::INFINITY } else { (self.step / 2.0 / self.value).abs() }
    }

    fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, step: self.step * factor }
    }
}

impl Notation {
    /// The notation of all these cells. None if some are clearly of one and some of the other.
    pub fn of<'a>(cells: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let (mut points, mut commas) = (0_u64, 0_u64);
        for cell in cells {
            match Self::clear(cell) {
                Some(Self::Point) => points += 1,
                Some(Self::Comma) => commas += 1,
                None => {}
            }
        }
        match (points, commas) {
            (_, 0) => Some(Self::Point),
            (0, _) => Some(Self::Comma),
            // One cell that was edited by hand is no notation.
            (points, commas) if points > commas.saturating_mul(20) => Some(Self::Point),
            (points, commas) if commas > points.saturating_mul(20) => Some(Self::Comma),
            _ => None,
        }
    }

    /// The notation in which alone this is a number.
    fn clear(cell: &str) -> Option<Self> {
        let is_point = Self::Point.parse(cell).is_some();
        let is_comma = Self::Comma.parse(cell).is_some();
        match (is_point, is_comma) {
            (true, false) => Some(Self::Point),
            (false, true) => Some(Self::Comma),
            _ => None,
        }
    }

    fn marks(self) -> (char, char) {
        match self {
            Self::Point => ('.', ','),
            Self::Comma => (',', '.'),
        }
    }

    /// A plain number.
    pub fn parse(self, cell: &str) -> Option<Number> {
        let cell = cell.trim();
        // Longer than any number of a report.
        if cell.is_empty() || cell.len() > 64 {
            return None;
        }
        let (decimal, group) = self.marks();
        let (mantissa, exponent) = match cell.find(['E', 'e']) {
            Some(at) => (cell.get(..at)?, cell.get(at + 1..)?.parse::<i32>().ok()?),
            None => (cell, 0),
        };
        let (sign, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", mantissa),
        };
        let (whole, fraction) = match mantissa.split_once(decimal) {
            Some((whole, fraction)) => (whole, fraction),
            None => (mantissa, ""),
        };
        let whole = ungrouped(whole, group)?;
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        if !(-300..=300).contains(&exponent) {
            return None;
        }
        let value: f64 = format!("{sign}{whole}.{fraction}0e{exponent}").parse().ok()?;
        let places = i32::try_from(fraction.len()).ok()?;
        value
            .is_finite()
            .then(|| Number { value, step: 10_f64.powi(exponent.saturating_sub(places)) })
    }

    /// A number that counts: not negative.
    pub fn count(self, cell: &str) -> Option<Number> {
        self.parse(cell).filter(|number| number.value >= 0.0)
    }

    /// `1843.1K`: powers of 1000. Without a letter a count is whole: `118.6` has lost its letter.
    pub fn requests(self, cell: &str) -> Option<Number> {
        let cell = cell.trim();
        match letter(cell) {
            Some((number, power)) => Some(self.count(number)?.times(1000_f64.powi(power))),
            None => self.count(cell).filter(|number| number.value.fract() == 0.0),
        }
    }

    /// `48.9G`: powers of 1024, in bytes. Without a letter it is MB.
    pub fn data(self, cell: &str) -> Option<Number> {
        let cell = cell.trim();
        match letter(cell) {
            Some((number, power)) => Some(self.count(number)?.times(1024_f64.powi(power))),
            None => Some(self.count(cell)?.times(1024_f64.powi(2))),
        }
    }

    /// `1.52ms`, in nanoseconds; a number without unit is in units of `plain` nanoseconds.
    pub fn time(self, cell: &str, plain: Option<f64>) -> Option<Number> {
        let cell = cell.trim();
        let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];
        for (unit, factor) in units {
            if let Some(number) = cell.strip_suffix(unit) {
                return Some(self.count(number.trim_end())?.times(factor));
            }
        }
        Some(self.count(cell)?.times(plain?))
    }
}

/// The number before a letter, and the power of that letter.
fn letter(cell: &str) -> Option<(&str, i32)> {
    [('K', 1), ('M', 2), ('G', 3), ('T', 4), ('P', 5), ('k', 1)]
        .into_iter()
        .find_map(|(letter, power)| Some((cell.strip_suffix(letter)?.trim_end(), power)))
}

/// Digits without what groups them by three. None if they are grouped in another way.
fn ungrouped(whole: &str, group: char) -> Option<String> {
    let is_mark =
        |c: char| c == group || matches!(c, ' ' | '\u{a0}' | '\u{202f}' | '\'' | '\u{2019}');
    if !whole.contains(is_mark) {
        return whole.bytes().all(|byte| byte.is_ascii_digit()).then(|| whole.to_owned());
    }
    let mut digits = String::new();
    for (place, part) in whole.split(is_mark).enumerate() {
        let is_right = if place == 0 { (1..=3).contains(&part.len()) } else { part.len() == 3 };
        if !is_right || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.push_str(part);
    }
    Some(digits)
}

#[cfg(test)]
mod tests {
    use super::Notation::{self, Comma, Point};

    fn value(number: Option<super::Number>) -> Option<f64> {
        number.map(|number| number.value)
    }

    #[test]
    fn plain_numbers_are_read_as_reports_print_them() {
        assert_eq!(value(Point.parse("55,301,220")), Some(55_301_220.0));
        assert_eq!(value(Point.parse("1.936982535373E+13")), Some(1.936982535373e13));
        assert_eq!(value(Point.parse("1.E+03")), Some(1000.0));
        assert_eq!(value(Point.parse(".013140")), Some(0.01314));
        assert_eq!(value(Point.parse("-3")), Some(-3.0));
        assert_eq!(value(Comma.parse("1.234,56")), Some(1234.56));
        assert_eq!(value(Point.parse("55 301 220")), Some(55_301_220.0));
        for none in [
            "", " ", "######", "N/A", "NaN", "inf", "1.2.3", "1,23", "12,3456", "-", ".", "0x1",
            "1e9999",
        ] {
            assert_eq!(Point.parse(none), None, "{none:?}");
        }
        assert_eq!(Point.count("-3"), None);
    }

    #[test]
    fn letters_are_powers_of_1000_for_requests_and_of_1024_for_data() {
        assert_eq!(value(Point.requests("1843.1K")), Some(1_843_100.0));
        assert_eq!(value(Point.requests("1448")), Some(1448.0));
        assert_eq!(Point.requests("118.6"), None, "the letter is cut off");
        assert_eq!(value(Point.data("2M")), Some(2.0 * 1048576.0));
        assert_eq!(value(Point.data(".5")), Some(524288.0));
        assert_eq!(value(Point.time("620.73us", None)), Some(620_730.0));
        assert_eq!(value(Point.time("52.86 s", None)), Some(52.86e9));
        assert_eq!(value(Point.time("4.5", Some(1e6))), Some(4.5e6));
        assert_eq!(Point.time("4.1", None), None);
    }

    #[test]
    fn the_notation_of_a_report_is_that_of_its_clear_cells() {
        assert_eq!(Notation::of(["1.234", "2,5", "1.234.567"]), Some(Comma));
        assert_eq!(Notation::of(["1,234", "2.5", "1,234,567"]), Some(Point));
        assert_eq!(Notation::of(["1,234", "7"]), Some(Point));
        assert_eq!(Notation::of(["1,234.5", "1.234,5"]), None);
    }

    #[test]
    fn a_number_knows_how_far_it_was_rounded() {
        let number = Point.parse("2.69087766E+09").expect("a number");
        assert_eq!(number.step, 10.0);
        assert_eq!(Point.parse("0.0").map(super::Number::error), Some(f64::INFINITY));
    }
}
