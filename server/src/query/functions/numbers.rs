//! Formats and parses numbers by Oracle's format models: `999,999,990.99`, `FM`, `S`, `MI`, `PR`,
//! `$`, `L`, `B`, `V`, `X`, `RN`, `TM`, `EEEE`.

use super::{decimals, spelled};

/// A parsed model.
#[derive(Debug, Default)]
struct Model {
    /// Before the decimal point, from the left: digits, commas, and `G`.
    whole: Vec<char>,
    /// Digits after the decimal point.
    fraction: Vec<char>,
    /// The element for the decimal point: `.` or `D`.
    point: Option<char>,
    exact: bool,
    dollar: bool,
    /// `L`, `C` or `U`: a currency, in a place of its own.
    currency: Option<char>,
    /// `B`: zero is blank.
    is_zero_blank: bool,
    /// `V`: the number of digits after it, by which the number is shifted.
    shift: Option<usize>,
    sign: Sign,
    scientific: bool,
    special: Option<Special>,
}

/// Models that are not about decimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Special {
    /// `0XXX`: hexadecimal, the number of digits, whether zeros fill them, and whether letters are
    /// lower case.
    Hexadecimal { digits: usize, fills: bool, lower: bool },
    /// `RN`, and whether it is lower case.
    Roman(bool),
    /// `TM`, and whether it is scientific.
    Minimal(bool),
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// A minus or a blank before the number.
    #[default]
    Before,
    /// `S` at the start: always a sign.
    Leading,
    /// `S` at the end.
    Trailing,
    /// `MI` at the end: a minus or a blank.
    TrailingMinus,
    /// `PR`: in `< >`.
    Angle,
}

/// More digits than numbers have.
const DIGITS_MAX: usize = 64;

impl Model {
    fn parse(text: &str) -> Result<Self, String> {
        let mut model = Self::default();
        let upper = text.to_uppercase();
        let mut rest = upper.as_str();
        let mut at_start = true;
        let refused =
            |rest: &str| format!("'{rest}' in the format '{text}' means nothing for a number");
        while let Some(first) = rest.chars().next() {
            let mut taken = first.len_utf8();
            let zeros = rest.bytes().take_while(|byte| *byte == b'0').count();
            let is_new = model.whole.is_empty() && model.point.is_none();
            match first {
                _ if rest.starts_with("FM") => (model.exact, taken) = (true, 2),
                'S' if at_start => model.sign = Sign::Leading,
                'S' if rest.len() == 1 => model.sign = Sign::Trailing,
                _ if rest == "MI" => (model.sign, taken) = (Sign::TrailingMinus, 2),
                _ if rest == "PR" => (model.sign, taken) = (Sign::Angle, 2),
                _ if rest == "RN" && is_new => {
                    (model.special, taken) = (Some(Special::Roman(text.contains('r'))), 2);
                }
                _ if ["TM", "TM9", "TME"].contains(&rest) && is_new => {
                    model.special = Some(Special::Minimal(rest == "TME"));
                    taken = rest.len();
                }
                _ if rest.starts_with("EEEE") => (model.scientific, taken) = (true, 4),
                '$' => model.dollar = true,
                'L' | 'C' | 'U' => model.currency = Some(first),
                'X' | '0'
                    if is_new && rest.get(zeros..).is_some_and(|rest| rest.starts_with('X')) =>
                {
                    let digits = rest.bytes().take_while(|byte| b"0X".contains(byte)).count();
                    let lower = text.contains('x');
                    model.special = Some(Special::Hexadecimal { digits, fills: zeros > 0, lower });
                    taken = digits;
                }
                '9' | '0' if model.point.is_some() => model.fraction.push(first),
                '9' | '0' => {
                    model.whole.push(first);
                    model.shift = model.shift.map(|digits| digits + 1);
                }
                ',' | 'G' if model.point.is_none() => model.whole.push(first),
                '.' | 'D' if model.point.is_none() && model.shift.is_none() => {
                    model.point = Some(first);
                }
                'V' if model.point.is_none() && model.shift.is_none() => model.shift = Some(0),
                'B' => model.is_zero_blank = true,
                _ => return Err(refused(rest)),
            }
            at_start = at_start && matches!(first, 'F' | 'S') && model.whole.is_empty();
            if model.whole.len() > DIGITS_MAX || model.fraction.len() > DIGITS_MAX {
                return Err(format!("the format '{text}' is too long"));
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        if model.whole.is_empty() && model.fraction.is_empty() && model.special.is_none() {
            return Err(refused(text));
        }
        Ok(model)
    }
}

/// How a session writes numbers, where a model leaves it open: `D`, `G`, `L`, `C`, `U`.
#[derive(Debug, Clone)]
pub struct Marks {
    point: char,
    group: char,
    currency: String,
    iso_currency: String,
}

impl Default for Marks {
    fn default() -> Self {
        let (currency, iso_currency) = ("$".to_owned(), "USD".to_owned());
        Self { point: '.', group: ',', currency, iso_currency }
    }
}

impl Marks {
    /// Those of `NLS_NUMERIC_CHARACTERS = ',.' NLS_CURRENCY = 'EUR'`.
    ///
    /// # Errors
    /// At another setting.
    pub fn of(settings: &str) -> Result<Self, String> {
        let refused = || {
            format!("'{settings}' is not understood; NLS_NUMERIC_CHARACTERS = ',.' is, for example")
        };
        let mut marks = Self::default();
        let mut rest = settings.trim();
        while !rest.is_empty() {
            let (name, behind) = rest.split_once('=').ok_or_else(refused)?;
            let behind = behind.trim_start();
            let (value, behind) = match behind.strip_prefix('\'') {
                Some(quoted) => quoted.split_once('\'').ok_or_else(refused)?,
                None => behind.split_once(' ').unwrap_or((behind, "")),
            };
            match name.trim().to_ascii_uppercase().as_str() {
                "NLS_NUMERIC_CHARACTERS" => {
                    let marked: Vec<char> = value.chars().collect();
                    let [point, group] = marked[..] else { return Err(refused()) };
                    (marks.point, marks.group) = (point, group);
                }
                "NLS_CURRENCY" | "NLS_DUAL_CURRENCY" => value.clone_into(&mut marks.currency),
                "NLS_ISO_CURRENCY" => {}
                _ => return Err(refused()),
            }
            rest = behind.trim_start();
        }
        Ok(marks)
    }

    fn currency(&self, element: char) -> (&str, usize) {
        // The width that Oracle keeps for it.
        if element == 'C' { (&self.iso_currency, 7) } else { (&self.currency, 10) }
    }
}

/// A number: integers are not rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    Whole(i64),
    Real(f64),
}

/// Formats a number by a model; `####` if it does not fit, as in Oracle.
///
/// # Errors
/// If the model is invalid.
pub fn written(number: Number, model: &str, marks: &Marks) -> Result<String, String> {
    let model = Model::parse(model)?;
    if let Some(special) = model.special {
        return Ok(specially(number, special, model.exact));
    }
    let width = model.whole.len() + model.fraction.len() + usize::from(model.point.is_some()) + 1;
    let places = model.fraction.len();
    let number = match model.shift {
        None => number,
        Some(digits) => {
            let by = Number::Real(10_f64.powi(i32::try_from(digits).unwrap_or(i32::MAX)));
            let shifted = decimals::computed(number, decimals::Operator::Times, by);
            decimals::nearest(shifted.map_err(|error| error.to_string())?, 0)
        }
    };
    if model.scientific {
        return Ok(scientific(number, &model, width + 4));
    }
    // Decimals are rounded as such: 1.005 to 1.01.
    let places_asked = i64::try_from(places).unwrap_or(i64::MAX);
    let (negative, digits) = match decimals::nearest(number, places_asked) {
        Number::Real(real) if !real.is_finite() => return Ok(overflow(width)),
        Number::Whole(whole) => (whole < 0, with_places(&whole.unsigned_abs().to_string(), places)),
        Number::Real(real) => (real < 0.0, format!("{:.places$}", real.abs())),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let is_zero = !digits.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let negative = negative && !is_zero;
    if is_zero && model.is_zero_blank {
        return Ok(" ".repeat(if model.exact { 0 } else { width }));
    }
    let whole = if whole == "0" { "" } else { whole };
    let slots = model.whole.iter().filter(|slot| !is_comma(**slot)).count();
    if whole.len() > slots {
        return Ok(overflow(width + usize::from(model.dollar)));
    }
    let (mut out, mut padding) = if model.is_zero_blank && whole.is_empty() {
        (String::new(), model.whole.len())
    } else {
        whole_part(&model, whole, slots, marks)
    };
    if let Some(point) = model.point {
        let fraction = fraction_part(&model, fraction);
        // A zero before the point is shown if the model has one, or if there is no other digit.
        if out.is_empty() && fraction.bytes().all(|byte| byte == b'0') && !model.whole.is_empty() {
            out.push('0');
            padding = padding.saturating_sub(1);
        }
        out.push(if point == 'D' { marks.point } else { point });
        out.push_str(&fraction);
    }
    if model.dollar {
        out.insert(0, '$');
    }
    let mut width = out.chars().count() + padding + 1;
    if let Some(element) = model.currency {
        let (currency, places) = marks.currency(element);
        out.insert_str(0, currency);
        width += places;
    }
    Ok(signed(&model, negative, &out, width))
}

fn is_comma(slot: char) -> bool {
    matches!(slot, ',' | 'G')
}

fn overflow(width: usize) -> String {
    "#".repeat(width)
}

/// `9.99EEEE`
fn scientific(number: Number, model: &Model, width: usize) -> String {
    let places = model.fraction.len();
    let real = decimals::as_real(number);
    if !real.is_finite() {
        return overflow(width);
    }
    let digits = format!("{:.places$e}", real.abs());
    signed(model, real < 0.0, &with_exponent(&digits), width)
}

/// `1.5e3` as `1.5E+03`.
fn with_exponent(digits: &str) -> String {
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((digits, "0"));
    let (sign, exponent) =
        exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{mantissa}E{sign}{exponent:0>2}")
}

/// Hexadecimal, Roman, or as short as can be.
fn specially(number: Number, special: Special, exact: bool) -> String {
    let whole = match number {
        Number::Whole(whole) => whole,
        Number::Real(real) => real.round() as i64,
    };
    let (text, width) = match special {
        Special::Minimal(is_scientific) => {
            let text = match number {
                _ if is_scientific => with_exponent(&format!("{:e}", decimals::as_real(number))),
                Number::Whole(whole) => whole.to_string(),
                Number::Real(_) => decimals::text(number, crate::sql::rules::Rules::Oracle),
            };
            return text;
        }
        Special::Hexadecimal { digits, fills, lower } => {
            let zeros = if fills { digits } else { 0 };
            let text =
                if lower { format!("{whole:0zeros$x}") } else { format!("{whole:0zeros$X}") };
            (Some(text).filter(|text| whole >= 0 && text.len() <= digits), digits + 1)
        }
        Special::Roman(lower) => {
            let text = u64::try_from(whole).ok().and_then(spelled::roman);
            (text.map(|text| if lower { text.to_lowercase() } else { text }), 15)
        }
    };
    match text {
        None => overflow(width),
        Some(text) if exact => text,
        Some(text) => format!("{text:>width$}"),
    }
}

/// The digits before the point, with the model's commas and zeros, and the number of blanks before
/// them.
fn whole_part(model: &Model, whole: &str, slots: usize, marks: &Marks) -> (String, usize) {
    let first_zero = model.whole.iter().position(|slot| *slot == '0').unwrap_or(usize::MAX);
    let mut out = String::new();
    let mut left = slots;
    let mut begun = false;
    let mut padding = 0_usize;
    for (at, slot) in model.whole.iter().enumerate() {
        if is_comma(*slot) {
            if begun {
                out.push(if *slot == 'G' { marks.group } else { *slot });
            } else {
                padding += 1
            }
            continue;
        }
        if left <= whole.len() {
            out.push_str(whole.get(whole.len() - left..=whole.len() - left).unwrap_or_default());
            begun = true;
        } else if at >= first_zero {
            out.push('0');
            begun = true;
        } else {
            padding += 1;
        }
        left -= 1;
    }
    if !begun && model.point.is_none() {
        out.push('0');
        padding = padding.saturating_sub(1);
    }
    (out, padding)
}

/// The digits after the point.
fn fraction_part(model: &Model, fraction: &str) -> String {
    let mut fraction = fraction.to_owned();
    if model.exact {
        // Trailing zeros for which the model has 9 are dropped.
        let kept = model.fraction.iter().rposition(|slot| *slot == '0').map_or(0, |at| at + 1);
        while fraction.len() > kept && fraction.ends_with('0') {
            fraction.pop();
        }
    }
    fraction
}

fn signed(model: &Model, negative: bool, digits: &str, width: usize) -> String {
    let text = match (model.sign, negative) {
        (Sign::Before, true) => format!("-{digits}"),
        (Sign::Before, false) => digits.to_owned(),
        (Sign::Leading, negative) => format!("{}{digits}", if negative { '-' } else { '+' }),
        (Sign::Trailing, negative) => format!("{digits}{}", if negative { '-' } else { '+' }),
        (Sign::TrailingMinus, true) => format!("{digits}-"),
        (Sign::TrailingMinus, false) if model.exact => digits.to_owned(),
        (Sign::TrailingMinus, false) => format!("{digits} "),
        (Sign::Angle, true) => format!("<{digits}>"),
        (Sign::Angle, false) if model.exact => digits.to_owned(),
        (Sign::Angle, false) => format!(" {digits} "),
    };
    let width = width + usize::from(model.sign == Sign::Angle);
    if model.exact { text } else { format!("{text:>width$}") }
}

fn with_places(whole: &str, places: usize) -> String {
    if places == 0 { whole.to_owned() } else { format!("{whole}.{}", "0".repeat(places)) }
}

/// Parses a number; with a model, the characters that the model adds are skipped.
///
/// # Errors
/// If it is not a number.
pub fn read(text: &str, model: Option<&str>) -> Result<Number, String> {
    read_with(text, model, &Marks::default())
}

/// As [`read`], with these marks for what a model leaves open.
///
/// # Errors
/// As [`read`].
pub fn read_with(text: &str, model: Option<&str>, marks: &Marks) -> Result<Number, String> {
    let refused = || format!("'{text}' is no number");
    let mut digits = text.trim().to_owned();
    if let Some(model) = model {
        let model = Model::parse(model)?;
        match model.special {
            Some(Special::Hexadecimal { .. }) => {
                return i64::from_str_radix(&digits, 16).map(Number::Whole).map_err(|_| refused());
            }
            Some(Special::Roman(_)) => return Err("a Roman numeral cannot be read".to_owned()),
            _ => {}
        }
        if let Some(element) = model.currency {
            digits = digits.replacen(marks.currency(element).0, "", 1);
        }
        let groups = if model.whole.contains(&'G') { marks.group } else { ',' };
        digits.retain(|character| character != groups && (character != '$' || !model.dollar));
        if model.point == Some('D') {
            digits = digits.replace(marks.point, ".");
        }
        if let Some(inside) = digits.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
            digits = format!("-{inside}");
        }
        if let Some(before) = digits.strip_suffix('-') {
            digits = format!("-{before}");
        }
        digits = digits.trim_end_matches('+').trim().to_owned();
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) {
        return Err(refused());
    }
    if let Ok(whole) = digits.parse() {
        return Ok(Number::Whole(whole));
    }
    let real = digits.parse().ok().filter(|real: &f64| real.is_finite()).ok_or_else(refused)?;
    if keeps_digits(&digits, real) { Ok(Number::Real(real)) } else { Err(too_many_digits(text)) }
}

/// Digits that every real keeps.
pub const EXACT: usize = 15;

/// Whether a real has all the digits of the text that it was read from.
#[must_use]
pub fn keeps_digits(text: &str, real: f64) -> bool {
    let significant = |text: &str| {
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        digits.trim_start_matches('0').trim_end_matches('0').to_owned()
    };
    let digits = significant(text);
    digits.len() <= EXACT || digits == significant(&format!("{real:e}"))
}

/// Why a number is refused that would lose digits.
#[must_use]
pub fn too_many_digits(number: &str) -> String {
    format!("{number} has {TOO_MANY_DIGITS}: integers 18, decimals {EXACT}")
}

/// The words by which such refusals are known.
pub const TOO_MANY_DIGITS: &str = "more digits than numbers have here";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_by_models() {
        for (number, model, text) in [
            (1234567.891, "999,999,990.99", "   1,234,567.89"),
            (0.0, "999,999,990.99", "           0.00"),
            (0.5, "999,999,990.99", "           0.50"),
            (-1234.5, "999,999,990.99", "      -1,234.50"),
            (0.5, "999.99", "    .50"),
            (0.0, "999.99", "   0.00"),
            (12.0, "999", "  12"),
            (0.0, "999", "   0"),
            (12.0, "FM999", "12"),
            (12.0, "00000", " 00012"),
            (1234.0, "999", "####"),
            (12.5, "FM990.999", "12.5"),
            (12.0, "FM990.99", "12."),
            (12.0, "FM990.09", "12.0"),
            (5.0, "$9,999.99", "     $5.00"),
            (5.0, "S999", "  +5"),
            (-5.0, "999S", "  5-"),
            (-5.0, "999MI", "  5-"),
            (-5.0, "999PR", "  <5>"),
            (255.0, "XXXX", "   FF"),
            (255.0, "fmxxxx", "ff"),
            (255.0, "fm0xxx", "00ff"),
            (255.0, "000X", " 00FF"),
            (70000.0, "XXXX", "#####"),
            (1.005, "9.99", " 1.01"),
            (0.125, "FM0.00", "0.13"),
            (2026.0, "RN", "         MMXXVI"),
            (4.0, "FMrn", "iv"),
            (4000.0, "RN", "###############"),
            (0.0, "B999", "    "),
            (0.0, "FMB999", ""),
            (0.5, "B990.9", "    .5"),
            (12.0, "99V999", " 12000"),
            (12.34, "FM99V9", "123"),
            (0.5, "TM9", ".5"),
            (1234.0, "TME", "1.234E+03"),
            (5.0, "FML999", "$5"),
            (5.0, "L999", "            $5"),
            (-5.0, "FMC99MI", "USD5-"),
            (1234.0, "9.99EEEE", " 1.23E+03"),
            (1e6, "999G999G999", "   1,000,000"),
        ] {
            assert_eq!(
                written(Number::Real(number), model, &Marks::default()).as_deref(),
                Ok(text),
                "{number} {model}"
            );
            if number.fract() == 0.0 {
                assert_eq!(
                    written(Number::Whole(number as i64), model, &Marks::default()).as_deref(),
                    Ok(text),
                    "{number} {model}"
                );
            }
        }
        assert_eq!(
            written(Number::Whole(i64::MAX), "FM9G999G999G999G999G999G999", &Marks::default())
                .as_deref(),
            Ok("9,223,372,036,854,775,807")
        );
        for nonsense in ["", "abc", "9.9.9", "FM", &"9".repeat(1000)] {
            assert!(written(Number::Whole(1), nonsense, &Marks::default()).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn marks_are_those_of_the_session() {
        let marks = Marks::of("NLS_NUMERIC_CHARACTERS = ',.' NLS_CURRENCY='EUR '").expect("marks");
        let text = |model: &str| written(Number::Real(1234.5), model, &marks);
        assert_eq!(text("FM9G999D00").as_deref(), Ok("1.234,50"));
        assert_eq!(text("FML9,999.0").as_deref(), Ok("EUR 1,234.5"));
        assert_eq!(read_with("1.234,5", Some("9G999D9"), &marks), Ok(Number::Real(1234.5)));
        for nonsense in ["x", "NLS_SORT=BINARY", "NLS_NUMERIC_CHARACTERS=','"] {
            assert!(Marks::of(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn numbers_are_read() {
        for (text, model, number) in [
            ("12", None, Number::Whole(12)),
            (" -1.5 ", None, Number::Real(-1.5)),
            ("1e3", None, Number::Real(1000.0)),
            ("1,234.50", Some("9,999.99"), Number::Real(1234.5)),
            ("<5>", Some("999PR"), Number::Whole(-5)),
            ("$7", Some("$99"), Number::Whole(7)),
            ("ff", Some("XX"), Number::Whole(255)),
            ("$1,234", Some("L9G999"), Number::Whole(1234)),
        ] {
            assert_eq!(read(text, model), Ok(number), "{text}");
        }
        // Digits are never lost: a number has all of them, or is refused.
        assert_eq!(read("100000000000000000000", None), Ok(Number::Real(1e20)));
        assert_eq!(read("0.3333333333333333", None), Ok(Number::Real(1.0 / 3.0)));
        for many in ["123456789012345678901", "9223372036854775809", "0.12345678901234567890"] {
            let refusal = read(many, None).expect_err(many);
            assert!(refusal.contains(many) && refusal.contains("digits"), "{refusal}");
        }
        for nonsense in ["", "x", "1 2", "inf", "nan", "--1", "1e999"] {
            assert!(read(nonsense, None).is_err(), "{nonsense}");
        }
    }
}
