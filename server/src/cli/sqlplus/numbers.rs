//! Numbers as SQL*Plus prints them: in a given width, or by a format model of COLUMN.
//!
//! Without a model a number has as many digits as fit into its width, at most `NUMWIDTH`: `.5` for
//! 0.5, `66.6666667` for two hundred thirds, `1.2346E+10` where the digits before the point do not
//! fit, and `##########` where that does not fit either.
//!
//! All works on decimal digits: a float is the shortest decimal number that reads back as it.

use plinth_engine::admin::Value;

/// A number of a result, or a sum of some.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Integer(i128),
    Real(f64),
}

impl Number {
    /// The number in a value, if it is one.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(Self::Integer((*number).into())),
            Value::Real(number) => Some(Self::Real(*number)),
            _ => None,
        }
    }

    pub(super) fn real(self) -> f64 {
        match self {
            Self::Integer(number) => number as f64,
            Self::Real(number) => number,
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Integer(one), Self::Integer(two)) => match one.checked_add(two) {
                Some(sum) => Self::Integer(sum),
                None => Self::Real(one as f64 + two as f64),
            },
            _ => Self::Real(self.real() + other.real()),
        }
    }
}

/// The decimal digits of a number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Digits {
    negative: bool,
    /// Before the point, without zeros at the front; empty for 0.
    whole: String,
    /// Behind the point, without zeros at the end.
    fraction: String,
}

impl Digits {
    /// `None` for infinity and what is no number.
    fn of(number: Number) -> Option<Self> {
        let text = match number {
            Number::Integer(number) => number.to_string(),
            Number::Real(number) if number.is_finite() => number.to_string(),
            Number::Real(_) => return None,
        };
        let negative = text.starts_with('-');
        let text = text.trim_start_matches('-');
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let whole = whole.trim_start_matches('0').to_owned();
        let fraction = fraction.trim_end_matches('0').to_owned();
        let negative = negative && !(whole.is_empty() && fraction.is_empty());
        Some(Self { negative, whole, fraction })
    }

    /// Rounded to a number of places behind the point, halves away from zero.
    fn rounded(&self, places: usize) -> Self {
        let Some(next) = self.fraction.chars().nth(places) else { return self.clone() };
        let kept: String = self.fraction.chars().take(places).collect();
        let mut digits: Vec<char> = self.whole.chars().chain(kept.chars()).collect();
        if next >= '5' {
            let mut carries = true;
            for digit in digits.iter_mut().rev() {
                if *digit != '9' {
                    *digit =
                        char::from_digit(digit.to_digit(10).unwrap_or(0) + 1, 10).unwrap_or('0');
                    carries = false;
                    break;
                }
                *digit = '0';
            }
            if carries {
                digits.insert(0, '1');
            }
        }
        let point = digits.len() - places;
        let part = |digits: &[char]| digits.iter().collect::<String>();
        let (whole, fraction) = digits.split_at(point);
        let (whole, fraction) = (part(whole), part(fraction));
        let negative = self.negative && digits.iter().any(|digit| *digit != '0');
        Self {
            negative,
            whole: whole.trim_start_matches('0').to_owned(),
            fraction: fraction.trim_end_matches('0').to_owned(),
        }
    }

    /// All digits, and how many of them stand before the point; negative where zeros stand behind
    /// it before the first digit.
    fn scientific(&self) -> (String, isize) {
        if self.whole.is_empty() {
            let digits = self.fraction.trim_start_matches('0');
            let zeros = self.fraction.len() - digits.len();
            return (digits.to_owned(), -zeros.cast_signed());
        }
        (format!("{}{}", self.whole, self.fraction), self.whole.len().cast_signed())
    }

    /// As it is written: `.5`, `-12.25`, `0`.
    fn text(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        match (self.whole.as_str(), self.fraction.as_str()) {
            ("", "") => "0".to_owned(),
            (whole, "") => format!("{sign}{whole}"),
            (whole, fraction) => format!("{sign}{whole}.{fraction}"),
        }
    }

    /// `1.2346E+10` in `width` characters, if that is possible.
    fn exponential(&self, width: usize) -> Option<String> {
        let sign = if self.negative { "-" } else { "" };
        let places = width.checked_sub(sign.len() + 6)?;
        (places > 0).then(|| format!("{sign}{}", self.with_exponent(places)))
    }

    /// `d.dddE+xx` with a number of digits behind the point.
    fn with_exponent(&self, places: usize) -> String {
        let (digits, before) = self.scientific();
        let (first, behind) = digits.split_at(digits.len().min(1));
        let mantissa =
            Self { negative: false, whole: first.to_owned(), fraction: behind.to_owned() };
        let mut rounded = mantissa.rounded(places);
        let mut exponent = if digits.is_empty() { 0 } else { before - 1 };
        // 9.99 becomes 10, which is 1 with a larger exponent.
        if rounded.whole.len() > 1 {
            rounded = Self { whole: "1".to_owned(), fraction: String::new(), ..rounded };
            exponent += 1;
        }
        let whole = if rounded.whole.is_empty() { "0" } else { &rounded.whole };
        let sign = if exponent < 0 { '-' } else { '+' };
        let point = if places > 0 { "." } else { "" };
        let exponent = exponent.unsigned_abs();
        format!("{whole}{point}{:0<places$}E{sign}{exponent:02}", rounded.fraction)
    }
}

/// All digits of a number, however many.
pub(super) fn whole(number: Number) -> String {
    Digits::of(number).map_or_else(|| number.real().to_string(), |digits| digits.text())
}

/// A number in at most `width` characters.
pub(super) fn plain(number: Number, width: usize) -> String {
    let overflow = || "#".repeat(width);
    let Some(digits) = Digits::of(number) else { return overflow() };
    let text = digits.text();
    if text.len() <= width {
        return text;
    }
    let before = usize::from(digits.negative) + digits.whole.len();
    let exponential = digits.exponential(width);
    if before > width {
        return exponential.unwrap_or_else(overflow);
    }
    let places = width.saturating_sub(before + 1);
    // A small number keeps more digits with an exponent.
    let zeros = digits.fraction.bytes().take_while(|byte| *byte == b'0').count();
    let is_small = digits.whole.is_empty();
    let with_exponent = width.saturating_sub(usize::from(digits.negative) + 5);
    if is_small && places.saturating_sub(zeros) < with_exponent {
        return exponential.unwrap_or_else(overflow);
    }
    let rounded = digits.rounded(places).text();
    if rounded.len() > width { exponential.unwrap_or_else(overflow) } else { rounded }
}

/// Where a model puts the sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// A minus or a blank before the number.
    Before,
    /// `S` at the start.
    Leading,
    /// `S` at the end.
    Trailing,
    /// `MI`: a minus or a blank at the end.
    Minus,
    /// `PR`: in `< >`.
    Angle,
}

/// A format model for numbers: `999,990.99`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Model {
    text: String,
    /// `9`, `0` and `,` before the point.
    whole: Vec<char>,
    fraction: usize,
    has_point: bool,
    dollar: bool,
    /// `B`: blanks for zero.
    blank: bool,
    exponent: bool,
    sign: Sign,
}

impl Model {
    /// The model in a text; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let upper = text.to_ascii_uppercase();
        let mut rest = upper.strip_prefix("FM").unwrap_or(&upper);
        let mut model = Self {
            text: text.to_owned(),
            whole: Vec::new(),
            fraction: 0,
            has_point: false,
            dollar: false,
            blank: false,
            exponent: false,
            sign: Sign::Before,
        };
        if let Some(inner) = rest.strip_prefix('S') {
            (model.sign, rest) = (Sign::Leading, inner);
        }
        for (end, sign) in [("MI", Sign::Minus), ("PR", Sign::Angle), ("S", Sign::Trailing)] {
            if let Some(inner) = rest.strip_suffix(end).filter(|_| model.sign == Sign::Before) {
                (model.sign, rest) = (sign, inner);
            }
        }
        if let Some(inner) = rest.strip_suffix("EEEE") {
            (model.exponent, rest) = (true, inner);
        }
        for character in rest.chars() {
            match character {
                '9' | '0' if model.has_point => model.fraction += 1,
                '9' | '0' => model.whole.push(character),
                ',' | 'G' if !model.has_point && !model.whole.is_empty() => model.whole.push(','),
                '.' | 'D' if !model.has_point => model.has_point = true,
                '$' | 'L' => model.dollar = true,
                'B' => model.blank = true,
                _ => return None,
            }
        }
        (model.digits() + model.fraction > 0).then_some(model)
    }

    /// The model as it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn digits(&self) -> usize {
        self.whole.iter().filter(|place| **place != ',').count()
    }

    /// How many characters a number has.
    pub(super) fn width(&self) -> usize {
        let sign = if self.sign == Sign::Angle { 2 } else { 1 };
        let exponent = if self.exponent { 4 } else { 0 };
        self.whole.len()
            + self.fraction
            + usize::from(self.has_point)
            + usize::from(self.dollar)
            + sign
            + exponent
    }

    /// The number by this model, right-aligned in the model's width; `#` if it does not fit.
    pub(super) fn format(&self, number: Number) -> String {
        let width = self.width();
        let Some(digits) = Digits::of(number) else { return "#".repeat(width) };
        let rounded = digits.rounded(self.fraction);
        let body = if self.exponent {
            digits.with_exponent(self.fraction)
        } else if rounded.whole.len() > self.digits() {
            return "#".repeat(width);
        } else {
            self.body(&rounded)
        };
        let is_zero = rounded.whole.is_empty() && rounded.fraction.is_empty();
        if self.blank && is_zero {
            return " ".repeat(width);
        }
        let negative = if self.exponent { digits.negative } else { rounded.negative };
        let dollar = if self.dollar { "$" } else { "" };
        let body = format!("{dollar}{body}");
        let signed = match (self.sign, negative) {
            (Sign::Before, true) | (Sign::Leading, true) => format!("-{body}"),
            (Sign::Before, false) => body,
            (Sign::Leading, false) => format!("+{body}"),
            (Sign::Trailing, true) | (Sign::Minus, true) => format!("{body}-"),
            (Sign::Trailing, false) => format!("{body}+"),
            (Sign::Minus, false) => format!("{body} "),
            (Sign::Angle, true) => format!("<{body}>"),
            (Sign::Angle, false) => format!("{body} "),
        };
        if signed.len() > width { "#".repeat(width) } else { format!("{signed:>width$}") }
    }

    /// The digits in their places.
    fn body(&self, digits: &Digits) -> String {
        let mut out = Vec::new();
        let mut from_right = digits.whole.chars().rev();
        let mut zeros = self.forced_zeros();
        // From the right: a comma only where a digit stands before it.
        let mut commas = 0;
        for place in self.whole.iter().rev() {
            if *place == ',' {
                commas += 1;
                continue;
            }
            let digit = match from_right.next() {
                Some(digit) => digit,
                None if zeros > 0 => '0',
                None => break,
            };
            zeros = zeros.saturating_sub(1);
            out.extend(std::iter::repeat_n(',', std::mem::take(&mut commas)));
            out.push(digit);
        }
        if out.is_empty() && !self.has_point {
            out.push('0');
        }
        let whole: String = out.into_iter().rev().collect();
        let point = if self.has_point { "." } else { "" };
        let places = self.fraction;
        format!("{whole}{point}{:0<places$}", digits.fraction)
    }

    /// How many digits before the point are there in any case.
    fn forced_zeros(&self) -> usize {
        let places: Vec<&char> = self.whole.iter().filter(|place| **place != ',').collect();
        let first = places.iter().position(|place| **place == '0');
        first.map_or(0, |first| places.len() - first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(number: f64, width: usize) -> String {
        plain(Number::Real(number), width)
    }

    #[test]
    fn a_number_without_a_model_has_ten_characters() {
        for (number, printed) in [
            (0.5, ".5"),
            (-0.5, "-.5"),
            (0.0, "0"),
            (200.0 / 3.0, "66.6666667"),
            (1.0 / 3.0, ".333333333"),
            (-1.0 / 3.0, "-.33333333"),
            (0.1 + 0.2, ".3"),
            (12_345_678_901.0, "1.2346E+10"),
            (-12_345_678_901.0, "-1.235E+10"),
            (99_999_999_999.0, "1.0000E+11"),
            (1.0 / 30_000.0, ".000033333"),
            (1.0 / 3_000_000.0, "3.3333E-07"),
            (0.000_001, ".000001"),
            (9_999_999_999.7, "1.0000E+10"),
            (f64::INFINITY, "##########"),
        ] {
            assert_eq!(real(number, 10), printed, "{number}");
        }
        assert_eq!(plain(Number::Integer(1_234_567_890), 10), "1234567890");
        assert_eq!(plain(Number::Integer(-1_234_567_890), 10), "-1.235E+09");
        assert_eq!(plain(Number::Integer(123_456), 5), "#####");
        assert_eq!(plain(Number::Integer(i128::from(i64::MAX)), 20), "9223372036854775807");
    }

    #[test]
    fn models_put_digits_into_places() {
        let format = |model: &str, number: f64| {
            Model::parse(model).unwrap_or_else(|| panic!("{model}")).format(Number::Real(number))
        };
        for (model, number, printed) in [
            ("999", 5.0, "   5"),
            ("999", -5.0, "  -5"),
            ("999", 1234.0, "####"),
            ("999", 0.0, "   0"),
            ("9,999,999", 1234567.0, " 1,234,567"),
            ("9,999,999", 12.0, "        12"),
            ("990.99", 0.5, "   0.50"),
            ("999.99", 0.5, "    .50"),
            ("999.9", 99.95, " 100.0"),
            ("0999", 5.0, " 0005"),
            ("$999.99", 5.0, "   $5.00"),
            ("999MI", -5.0, "  5-"),
            ("999MI", 5.0, "  5 "),
            ("S999", 5.0, "  +5"),
            ("999S", -5.0, "  5-"),
            ("999PR", -5.0, "  <5>"),
            ("B999", 0.0, "    "),
            ("9.99EEEE", 12345.0, " 1.23E+04"),
            ("999G990D0", 1234.5, "   1,234.5"),
            ("999", 999.5, "####"),
            ("99.9", -0.01, "   .0"),
        ] {
            assert_eq!(format(model, number), printed, "{model} {number}");
        }
        for wrong in ["", "a10", "9x", ",", "9.9.9", "EEEE"] {
            assert!(Model::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn sums_that_overflow_become_floats() {
        let most = Number::Integer(i128::MAX);
        assert_eq!(most.plus(most), Number::Real(2.0 * i128::MAX as f64));
        assert_eq!(Number::Integer(1).plus(Number::Real(0.5)), Number::Real(1.5));
    }
}
