//! Formats and parses numbers by Oracle's format models: `999,999,990.99`, `FM`, `S`, `MI`, `PR`,
//! `$`, `X`, `EEEE`.

/// A parsed model.
#[derive(Debug, Default)]
struct Model {
    /// Before the decimal point, from the left: digits and commas.
    whole: Vec<char>,
    /// Digits after the decimal point.
    fraction: Vec<char>,
    has_point: bool,
    exact: bool,
    dollar: bool,
    sign: Sign,
    scientific: bool,
    /// `XXXX`: hexadecimal, the number of digits, and whether they are lower case.
    hex: Option<(usize, bool)>,
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
            match first {
                _ if rest.starts_with("FM") => (model.exact, taken) = (true, 2),
                'S' if at_start => model.sign = Sign::Leading,
                'S' if rest.len() == 1 => model.sign = Sign::Trailing,
                _ if rest == "MI" => (model.sign, taken) = (Sign::TrailingMinus, 2),
                _ if rest == "PR" => (model.sign, taken) = (Sign::Angle, 2),
                _ if rest.starts_with("EEEE") => (model.scientific, taken) = (true, 4),
                '$' => model.dollar = true,
                'L' | 'C' => {}
                'X' if model.whole.is_empty() && !model.has_point => {
                    let count = rest.bytes().take_while(|byte| *byte == b'X').count();
                    model.hex = Some((count, text.contains('x')));
                    taken = count;
                }
                '0' if rest.starts_with("0X") => {}
                '9' | '0' if model.has_point => model.fraction.push(first),
                '9' | '0' => model.whole.push(first),
                ',' | 'G' if !model.has_point => model.whole.push(','),
                '.' | 'D' if !model.has_point => model.has_point = true,
                'B' => {}
                _ => return Err(refused(rest)),
            }
            at_start = at_start && matches!(first, 'F' | 'S') && model.whole.is_empty();
            if model.whole.len() > DIGITS_MAX || model.fraction.len() > DIGITS_MAX {
                return Err(format!("the format '{text}' is too long"));
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        if model.whole.is_empty() && model.fraction.is_empty() && model.hex.is_none() {
            return Err(refused(text));
        }
        Ok(model)
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
pub fn written(number: Number, model: &str) -> Result<String, String> {
    let model = Model::parse(model)?;
    if let Some((digits, lower)) = model.hex {
        return Ok(hexadecimal(number, &model, digits, lower));
    }
    let width = model.whole.len() + model.fraction.len() + usize::from(model.has_point) + 1;
    let places = model.fraction.len();
    let (negative, digits) = match number {
        Number::Real(real) if !real.is_finite() => return Ok(overflow(width)),
        Number::Real(real) if model.scientific => (real < 0.0, format!("{:.places$e}", real.abs())),
        Number::Whole(whole) if model.scientific => {
            (whole < 0, format!("{:.places$e}", (whole as f64).abs()))
        }
        Number::Whole(whole) => (whole < 0, with_places(&whole.unsigned_abs().to_string(), places)),
        Number::Real(real) => (real < 0.0, format!("{:.places$}", real.abs())),
    };
    if model.scientific {
        let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
        let (sign, exponent) =
            exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        return Ok(signed(
            &model,
            negative,
            &format!("{mantissa}E{sign}{exponent:0>2}"),
            width + 4,
        ));
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let negative = negative && digits.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let whole = if whole == "0" { "" } else { whole };
    let slots = model.whole.iter().filter(|slot| **slot != ',').count();
    if whole.len() > slots {
        return Ok(overflow(width + usize::from(model.dollar)));
    }
    let (mut out, mut padding) = whole_part(&model, whole, slots);
    if model.has_point {
        let fraction = fraction_part(&model, fraction);
        // A zero before the point is shown if the model has one, or if there is no other digit.
        if out.is_empty() && fraction.bytes().all(|byte| byte == b'0') && !model.whole.is_empty() {
            out.push('0');
            padding = padding.saturating_sub(1);
        }
        out.push('.');
        out.push_str(&fraction);
    }
    if model.dollar {
        out.insert(0, '$');
    }
    Ok(signed(&model, negative, &out, out.len() + padding + 1))
}

fn overflow(width: usize) -> String {
    "#".repeat(width)
}

fn hexadecimal(number: Number, model: &Model, digits: usize, lower: bool) -> String {
    let whole = match number {
        Number::Whole(whole) => whole,
        Number::Real(real) => real.round() as i64,
    };
    let text = if lower { format!("{whole:x}") } else { format!("{whole:X}") };
    match text {
        _ if whole < 0 => overflow(digits + 1),
        text if text.len() > digits => overflow(digits + 1),
        text if model.exact => text,
        text => format!("{text:>width$}", width = digits + 1),
    }
}

/// The digits before the point, with the model's commas and zeros, and the number of blanks before
/// them.
fn whole_part(model: &Model, whole: &str, slots: usize) -> (String, usize) {
    let first_zero = model.whole.iter().position(|slot| *slot == '0').unwrap_or(usize::MAX);
    let mut out = String::new();
    let mut left = slots;
    let mut begun = false;
    let mut padding = 0_usize;
    for (at, slot) in model.whole.iter().enumerate() {
        if *slot == ',' {
            if begun {
                out.push(',')
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
    if !begun && !model.has_point {
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
    let refused = || format!("'{text}' is no number");
    let mut digits = text.trim().to_owned();
    if let Some(model) = model {
        let model = Model::parse(model)?;
        if model.hex.is_some() {
            return i64::from_str_radix(&digits, 16).map(Number::Whole).map_err(|_| refused());
        }
        digits.retain(|character| character != ',' && character != '$');
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
    digits.parse().ok().filter(|real: &f64| real.is_finite()).map(Number::Real).ok_or_else(refused)
}

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
            (1234.0, "9.99EEEE", " 1.23E+03"),
            (1e6, "999G999G999", "   1,000,000"),
        ] {
            assert_eq!(
                written(Number::Real(number), model).as_deref(),
                Ok(text),
                "{number} {model}"
            );
            if number.fract() == 0.0 {
                assert_eq!(
                    written(Number::Whole(number as i64), model).as_deref(),
                    Ok(text),
                    "{number} {model}"
                );
            }
        }
        assert_eq!(
            written(Number::Whole(i64::MAX), "FM9G999G999G999G999G999G999").as_deref(),
            Ok("9,223,372,036,854,775,807")
        );
        for nonsense in ["", "abc", "9.9.9", "FM", &"9".repeat(1000)] {
            assert!(written(Number::Whole(1), nonsense).is_err(), "{nonsense}");
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
        ] {
            assert_eq!(read(text, model), Ok(number), "{text}");
        }
        for nonsense in ["", "x", "1 2", "inf", "nan", "--1", "1e999"] {
            assert!(read(nonsense, None).is_err(), "{nonsense}");
        }
    }
}
