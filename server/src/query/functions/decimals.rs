//! Arithmetic with decimals: `0.1 + 0.2` is `0.3`, as with NUMBER and `numeric`.
//!
//! SQLite has integers and binary reals. Here a real stands for the shortest decimal that reads
//! back as this real, and `+`, `-`, `*`, `/` and SUM compute with those decimals. A result is the
//! real nearest to the exact one, so it is exact up to 15 digits, and mostly up to 17.
//!
//! An operand with more than [`EXACT`] digits was rounded before, as a third is. Digits that it
//! adds behind the 15th are noise: a result is rounded to 15 digits then. So `1 / 3 * 3` is `1`.
//!
//! Numbers beyond the range of [`Decimal`], 28 digits, are added and multiplied as reals.
//!
//! Integers never lose digits: a sum, difference or product of integers that has more of them than
//! 64 bits and a real hold is an error.

use super::{
    Functions, Result, number,
    numbers::{self, Number},
    refused, value,
};
use crate::sql::rules::Rules;
use rusqlite::{
    functions::{Aggregate, Context, WindowAggregate},
    types::Value,
};
use rust_decimal::{Decimal, RoundingStrategy};

/// Digits that every real keeps.
const EXACT: u32 = numbers::EXACT as u32;

/// The digits of a decimal's mantissa.
fn digits(decimal: Decimal) -> u32 {
    decimal.normalize().mantissa().unsigned_abs().checked_ilog10().map_or(0, |log| log + 1)
}

/// The decimal that a number stands for; `None` if it is out of range.
fn decimal(number: Number) -> Option<Decimal> {
    match number {
        Number::Whole(whole) => Some(Decimal::from(whole)),
        // Without an exponent it could be very long.
        Number::Real(real) if real.is_finite() => {
            Decimal::from_scientific(&format!("{real:e}")).ok()
        }
        Number::Real(_) => None,
    }
}

/// The number for a decimal: an integer if it is one.
fn of(decimal: Decimal) -> Number {
    let decimal = decimal.normalize();
    if decimal.scale() == 0
        && let Ok(whole) = i64::try_from(decimal.mantissa())
    {
        return Number::Whole(whole);
    }
    // By its text: the real nearest to the decimal.
    decimal.to_string().parse().map_or(Number::Real(f64::NAN), Number::Real)
}

/// Whether a number has digits that may be noise; integers have none.
fn is_noisy(number: Number, exact: Decimal) -> bool {
    matches!(number, Number::Real(_)) && digits(exact) > EXACT
}

/// Without the digits behind the 15th.
fn rounded(result: Decimal) -> Decimal {
    if digits(result) <= EXACT {
        return result;
    }
    result.round_sf_with_strategy(EXACT, RoundingStrategy::MidpointAwayFromZero).unwrap_or(result)
}

/// A real without the noise of a binary computation: 15 digits.
pub(super) fn clean(real: f64) -> f64 {
    match decimal(Number::Real(real)) {
        Some(exact) if digits(exact) > EXACT => as_real(of(rounded(exact))),
        _ => real,
    }
}

pub(super) fn as_real(number: Number) -> f64 {
    match number {
        Number::Whole(whole) => whole as f64,
        Number::Real(real) => real,
    }
}

/// The operators.
#[derive(Clone, Copy)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
}

/// `a operator b`.
///
/// # Errors
/// At a division by zero.
pub(super) fn computed(a: Number, operator: Operator, b: Number) -> Result<Number> {
    use Number::{Real, Whole};
    if matches!(operator, Operator::Over | Operator::Modulo) && as_real(b) == 0.0 {
        return Err(refused("division by zero"));
    }
    let whole = match (a, operator, b) {
        (Whole(a), Operator::Plus, Whole(b)) => return integer(i128::from(a) + i128::from(b)),
        (Whole(a), Operator::Minus, Whole(b)) => return integer(i128::from(a) - i128::from(b)),
        (Whole(a), Operator::Times, Whole(b)) => return integer(i128::from(a) * i128::from(b)),
        (Whole(a), Operator::Over, Whole(b)) if a.checked_rem(b) == Some(0) => a.checked_div(b),
        (Whole(a), Operator::Modulo, Whole(b)) => Some(a.checked_rem(b).unwrap_or(0)),
        _ => None,
    };
    if let Some(whole) = whole {
        return Ok(Whole(whole));
    }
    if let Some(real) = scaled(a, operator, b) {
        return Ok(Real(real));
    }
    let exact = decimal(a).zip(decimal(b)).and_then(|(exact_a, exact_b)| {
        let result = match operator {
            Operator::Plus => exact_a.checked_add(exact_b),
            Operator::Minus => exact_a.checked_sub(exact_b),
            Operator::Times => exact_a.checked_mul(exact_b),
            Operator::Over => exact_a.checked_div(exact_b),
            Operator::Modulo => exact_a.checked_rem(exact_b),
        };
        let noisy = is_noisy(a, exact_a) || is_noisy(b, exact_b);
        result.map(|result| if noisy { rounded(result) } else { result })
    });
    if let Some(exact) = exact.filter(|exact| !exact.is_zero() || is_zero(a, operator, b)) {
        let result = of(exact);
        // Of an integer that is added, no digit is lost.
        let adds = matches!(operator, Operator::Plus | Operator::Minus);
        let has_integer = matches!(a, Whole(_)) || matches!(b, Whole(_));
        if adds && has_integer && as_real(result).abs() >= INTEGERS_OF_REALS {
            let off = decimal(result).and_then(|result| result.checked_sub(exact));
            if off.is_none_or(|off| off.abs() >= Decimal::new(5, 1)) {
                return Err(refused(numbers::too_many_digits(&exact.to_string())));
            }
        }
        return Ok(result);
    }
    let (a, b) = (as_real(a), as_real(b));
    Ok(Real(match operator {
        Operator::Plus => a + b,
        Operator::Minus => a - b,
        Operator::Times => a * b,
        Operator::Over => a / b,
        Operator::Modulo => a % b,
    }))
}

/// Up to here each integer is a real.
const INTEGERS_OF_REALS: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

/// An integer that was computed.
///
/// # Errors
/// If it would lose digits.
fn integer(exact: i128) -> Result<Number> {
    if let Ok(whole) = i64::try_from(exact) {
        return Ok(Number::Whole(whole));
    }
    let (digits, real) = (exact.to_string(), exact as f64);
    if numbers::keeps_digits(&digits, real) {
        return Ok(Number::Real(real));
    }
    Err(refused(numbers::too_many_digits(&digits)))
}

/// A quotient that a processor computes as exactly as decimals would: of integers that reals hold,
/// or by a power of two. Most quotients are of this kind: bytes to MiB.
fn scaled(a: Number, operator: Operator, b: Number) -> Option<f64> {
    let is_held = |whole: i64| whole.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS;
    match (a, operator, b) {
        (Number::Whole(a), Operator::Over, Number::Whole(b)) if is_held(a) && is_held(b) => {
            Some(a as f64 / b as f64)
        }
        (Number::Real(a), Operator::Over, Number::Whole(b)) if b > 0 && b.count_ones() == 1 => {
            Some(a / b as f64).filter(|quotient| quotient.is_normal())
        }
        _ => None,
    }
}

/// Whether the exact result is zero; otherwise a decimal of zero was too small for 28 places.
fn is_zero(a: Number, operator: Operator, b: Number) -> bool {
    match operator {
        Operator::Plus | Operator::Minus | Operator::Modulo => true,
        Operator::Times => as_real(a) == 0.0 || as_real(b) == 0.0,
        Operator::Over => as_real(a) == 0.0,
    }
}

/// NULL if an operand is.
fn operation(context: &Context<'_>, operator: Operator) -> Result<Value> {
    match (number(context, 0)?, number(context, 1)?) {
        (Some(a), Some(b)) => computed(a, operator, b).map(value),
        _ => Ok(Value::Null),
    }
}

/// `TRUNC(number, places)`
pub(super) fn truncated(number: Number, places: i64) -> Number {
    at_places(number, places, RoundingStrategy::ToZero)
}

/// `ROUND(number, places)`: halves go away from zero.
pub(super) fn nearest(number: Number, places: i64) -> Number {
    at_places(number, places, RoundingStrategy::MidpointAwayFromZero)
}

fn at_places(number: Number, places: i64, strategy: RoundingStrategy) -> Number {
    let Some(exact) = decimal(number) else { return number };
    if let Ok(places) = u32::try_from(places.min(28)) {
        return of(exact.round_dp_with_strategy(places, strategy));
    }
    let unit = u32::try_from(-places).ok().and_then(|zeros| 10_i64.checked_pow(zeros));
    // A number is far smaller than such a unit.
    let Some(unit) = unit.map(Decimal::from) else { return Number::Whole(0) };
    let units = exact.checked_div(unit).map(|units| units.round_dp_with_strategy(0, strategy));
    units.and_then(|units| units.checked_mul(unit)).map_or(number, of)
}

/// A sum so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Total {
    sum: Decimal,
    /// The part that is out of the range of decimals.
    beyond: f64,
    count: i64,
    /// Whether a term was rounded before.
    is_rounded: bool,
}

impl Total {
    pub(super) fn add(&mut self, term: Number, sign: i64) {
        self.count += sign;
        let exact = decimal(term);
        self.is_rounded |= exact.is_none_or(|exact| is_noisy(term, exact));
        let signed = exact.map(|exact| if sign < 0 { -exact } else { exact });
        match signed.and_then(|term| self.sum.checked_add(term)) {
            Some(sum) => self.sum = sum,
            None => self.beyond += as_real(term) * sign as f64,
        }
    }

    fn sum(&self) -> Result<Number> {
        let (sum, beyond) = (of(self.sum), self.beyond);
        let exact = self.sum.normalize();
        if beyond == 0.0 && !self.is_rounded && exact.scale() == 0 {
            return integer(exact.mantissa());
        }
        Ok(match sum {
            sum if beyond != 0.0 => Number::Real(as_real(sum) + beyond),
            Number::Real(real) if self.is_rounded => Number::Real(clean(real)),
            sum => sum,
        })
    }
}

/// SUM or AVG.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    pub(super) is_average: bool,
}

impl Sum {
    pub(super) fn result(self, total: Option<&Total>) -> Result<Value> {
        match total.filter(|total| total.count > 0) {
            None => Ok(Value::Null),
            Some(total) if self.is_average => {
                computed(total.sum()?, Operator::Over, Number::Whole(total.count)).map(value)
            }
            Some(total) => total.sum().map(value),
        }
    }
}

impl Aggregate<Total, Value> for Sum {
    fn init(&self, _: &mut Context<'_>) -> Result<Total> {
        Ok(Total::default())
    }

    fn step(&self, context: &mut Context<'_>, total: &mut Total) -> Result<()> {
        if let Some(term) = number(context, 0)? {
            total.add(term, 1);
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, total: Option<Total>) -> Result<Value> {
        self.result(total.as_ref())
    }
}

impl WindowAggregate<Total, Value> for Sum {
    fn value(&self, total: Option<&mut Total>) -> Result<Value> {
        self.result(total.as_deref())
    }

    fn inverse(&self, context: &mut Context<'_>, total: &mut Total) -> Result<()> {
        if let Some(term) = number(context, 0)? {
            total.add(term, -1);
        }
        Ok(())
    }
}

pub(super) fn create(functions: &Functions<'_>) -> Result<()> {
    functions.define("plinth_times", 2, |context| operation(context, Operator::Times))?;
    functions.define("plinth_over", 2, |context| operation(context, Operator::Over))?;
    functions.define("plinth_modulo", 2, |context| operation(context, Operator::Modulo))?;
    functions.define("plinth_clean", 1, |context| {
        Ok(match number(context, 0)? {
            Some(Number::Real(real)) => value(Number::Real(clean(real))),
            other => other.map_or(Value::Null, value),
        })
    })?;
    for (name, is_average) in [("plinth_sum", false), ("plinth_avg", true)] {
        functions.connection.create_window_function(name, 1, super::FLAGS, Sum { is_average })?;
    }
    Ok(())
}

/// A number as text, by these rules: Oracle has no zero before the point.
pub(super) fn text(number: Number, rules: Rules) -> String {
    let text = match number {
        Number::Whole(whole) => whole.to_string(),
        Number::Real(real) => real.to_string(),
    };
    match (rules, text.strip_prefix("0."), text.strip_prefix("-0.")) {
        (Rules::Oracle, Some(places), _) => format!(".{places}"),
        (Rules::Oracle, _, Some(places)) => format!("-.{places}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Number {
        super::super::numbers::read(text, None).expect(text)
    }

    #[test]
    fn decimals_are_exact() {
        use Operator::{Minus, Modulo, Over, Plus, Times};
        for (a, operator, b, result) in [
            ("0.1", Plus, "0.2", "0.3"),
            ("12.2", Plus, "0.012", "12.212"),
            ("1.1", Times, "1.1", "1.21"),
            ("1000000000.123456", Minus, "1000000000", "0.123456"),
            ("7", Over, "2", "3.5"),
            ("6", Over, "3", "2"),
            ("12345678901", Over, "1024", "12056327.0517578125"),
            ("0.1", Over, "4", "0.025"),
            ("0.1", Over, "3", "0.03333333333333333"),
            ("0.7", Times, "10", "7"),
            ("1", Over, "3", "0.3333333333333333"),
            ("0.3333333333333333", Times, "3", "1"),
            // 2.8 seconds of a day, and back.
            ("0.00003240740740740741", Times, "86400", "2.8"),
            ("7.5", Modulo, "2", "1.5"),
            ("-7", Modulo, "3", "-1"),
            ("5000000000000000000", Plus, "5000000000000000000", "10000000000000000000"),
            ("10000000000", Times, "100000000000", "1000000000000000000000"),
            ("9223372036854775807", Minus, "1", "9223372036854775806"),
            ("1e300", Times, "2", "2e300"),
            ("1e-20", Times, "1e-20", "1e-40"),
            ("1e-30", Plus, "1", "1"),
        ] {
            let found = computed(numbers(a), operator, numbers(b)).expect(a);
            let expected: Number = result
                .parse()
                .map_or_else(|_| Number::Real(result.parse().expect(result)), Number::Whole);
            assert_eq!(as_real(found), as_real(expected), "{a} {b}");
            assert_eq!(value(found), value(of_same_kind(found, expected)), "{a} {b}");
        }
        // Integers lose no digits.
        for (a, operator, b) in [
            ("9223372036854775807", Plus, "1"),
            ("-9223372036854775807", Minus, "10"),
            ("9223372036854775807", Times, "3"),
            ("123456789012345678", Plus, "0.5"),
        ] {
            assert!(computed(numbers(a), operator, numbers(b)).is_err(), "{a} {b}");
        }
        assert!(computed(numbers("1"), Over, numbers("0")).is_err());
        assert!(computed(numbers("1"), Modulo, numbers("0.0")).is_err());
    }

    /// Reads of integers beyond 64 bits are reals.
    fn of_same_kind(found: Number, expected: Number) -> Number {
        match (found, expected) {
            (Number::Real(_), Number::Whole(whole)) => Number::Real(whole as f64),
            (_, expected) => expected,
        }
    }

    #[test]
    fn sums_are_exact_in_any_order() {
        let terms: Vec<Number> = (1..=1000).map(|n| Number::Real(f64::from(n) / 1000.0)).collect();
        let mut total = Total::default();
        terms.iter().for_each(|term| total.add(*term, 1));
        assert_eq!(total.sum().ok(), Some(Number::Real(500.5)));
        terms.iter().skip(1).for_each(|term| total.add(*term, -1));
        assert_eq!(total.sum().ok(), Some(Number::Real(0.001)));
        let mut thirds = Total::default();
        (0..3).for_each(|_| thirds.add(Number::Real(1.0 / 3.0), 1));
        assert_eq!(thirds.sum().ok().map(as_real), Some(1.0));
        let mut many = Total::default();
        (0..3).for_each(|_| many.add(Number::Whole(i64::MAX), 1));
        assert!(many.sum().is_err());
    }

    #[test]
    fn numbers_have_the_text_of_their_rules() {
        for (number, oracle, postgresql) in [
            (Number::Real(0.5), ".5", "0.5"),
            (Number::Real(-0.25), "-.25", "-0.25"),
            (Number::Real(10.5), "10.5", "10.5"),
            (Number::Real(2.0), "2", "2"),
            (Number::Whole(0), "0", "0"),
        ] {
            assert_eq!(text(number, Rules::Oracle), oracle);
            assert_eq!(text(number, Rules::PostgreSql), postgresql);
        }
    }
}
