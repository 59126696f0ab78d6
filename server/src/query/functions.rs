//! Functions that SQLite lacks, or defines otherwise: those of Oracle and PostgreSQL that database
//! administrators use.
//!
//! Times are texts, as in the views; numbers are integers or reals, which stand for decimals
//! ([`decimals`]). An argument that cannot be converted is an error. NULL in, NULL out, unless the
//! function is about NULL. By Oracle's rules an empty text is NULL, so a result that is empty is.

mod aggregates;
mod conversions;
mod dates;
mod decimals;
mod intervals;
mod numbers;
mod patterns;
mod spelled;
mod texts;
mod times;
mod windows;

use super::mentions::Registry;
use crate::sql::rules::Rules;
use dates::{made_of, need_time};
use decimals::{Operator, as_real, clean, computed};
pub use intervals::Interval;
use numbers::Number;
pub use numbers::TOO_MANY_DIGITS;
use rusqlite::{
    Error,
    functions::{Context, FunctionFlags},
    types::{Value, ValueRef},
};
pub use times::{Time, seconds_of};

type Result<T> = rusqlite::Result<T>;

/// The longest text, in characters, that a function may build from a shorter one: LPAD to a
/// gigabyte is refused before it is tried.
const LONG: usize = 1 << 20;
const FLAGS: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_DETERMINISTIC);

fn refused(text: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::UserFunctionError(text.into())
}

/// A function's result by these rules.
fn shown(value: Value, rules: Rules) -> Value {
    match value {
        Value::Text(text) if text.is_empty() && rules == Rules::Oracle => Value::Null,
        value => value,
    }
}

/// An argument as text; `None` if it is NULL or missing.
fn text(context: &Context<'_>, at: usize) -> Option<String> {
    if at >= context.len() {
        return None;
    }
    match context.get_raw(at) {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(text) | ValueRef::Blob(text) => {
            Some(String::from_utf8_lossy(text).into_owned())
        }
    }
}

/// An argument as text by these rules.
fn text_by(context: &Context<'_>, at: usize, rules: Rules) -> Option<String> {
    if at < context.len()
        && let ValueRef::Real(number) = context.get_raw(at)
    {
        return Some(decimals::text(Number::Real(number), rules));
    }
    text(context, at)
}

/// An argument as a number.
fn number(context: &Context<'_>, at: usize) -> Result<Option<Number>> {
    if at >= context.len() {
        return Ok(None);
    }
    match context.get_raw(at) {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(number) => Ok(Some(Number::Whole(number))),
        ValueRef::Real(number) => Ok(Some(Number::Real(number))),
        ValueRef::Text(_) | ValueRef::Blob(_) => {
            let text = text(context, at).unwrap_or_default();
            numbers::read(&text, None).map(Some).map_err(refused)
        }
    }
}

fn real(context: &Context<'_>, at: usize) -> Result<Option<f64>> {
    Ok(number(context, at)?.map(as_real))
}

/// An argument as an integer, truncated.
fn whole(context: &Context<'_>, at: usize) -> Result<Option<i64>> {
    Ok(number(context, at)?.map(|number| match number {
        Number::Whole(whole) => whole,
        Number::Real(real) => real as i64,
    }))
}

/// An argument as a time, if it is one.
fn time(context: &Context<'_>, at: usize) -> Option<Time> {
    match context.get_raw(at) {
        ValueRef::Text(text) => std::str::from_utf8(text).ok().and_then(Time::parse),
        _ => None,
    }
}

fn value(number: Number) -> Value {
    match number {
        Number::Whole(whole) => Value::Integer(whole),
        Number::Real(real) => Value::Real(real),
    }
}

/// Microseconds as seconds, a literal.
#[must_use]
pub fn decimal_seconds(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// The number that a text in a query is converted to, as a literal; `None` if it is none.
#[must_use]
pub fn number_literal(text: &str) -> Option<String> {
    Some(match numbers::read(text, None).ok()? {
        Number::Whole(whole) => whole.to_string(),
        Number::Real(real) => real.to_string(),
    })
}

/// The number that a client sent as a text of digits.
///
/// # Errors
/// If it is none, or has more digits than numbers have.
pub fn number_of_client(text: &str) -> std::result::Result<plinth_engine::admin::Value, String> {
    Ok(match numbers::read(text, None)? {
        Number::Whole(whole) => plinth_engine::admin::Value::Integer(whole),
        Number::Real(real) => plinth_engine::admin::Value::Real(real),
    })
}

/// Why a number in the text of a query is refused, if it is: it would lose digits.
#[must_use]
pub fn lost_digits(literal: &str) -> Option<String> {
    let is_decimal = literal.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let is_long = literal.len() > numbers::EXACT;
    (is_long && is_decimal && literal.parse::<i64>().is_err())
        .then(|| literal.parse::<f64>().ok())
        .flatten()
        .filter(|real| !numbers::keeps_digits(literal, *real))
        .map(|_| numbers::too_many_digits(literal))
}

/// The same for a time.
#[must_use]
pub fn time_literal(text: &str) -> Option<String> {
    Time::understood(text).map(|time| format!("'{}'", time.text()))
}

fn cut(text: String) -> Result<String> {
    if text.len() > LONG { Err(refused("a text of more than a MiB")) } else { Ok(text) }
}

/// Registers the functions with a connection.
pub fn create(connection: Registry<'_>, user: &str, rules: Rules) -> Result<()> {
    let functions = Functions { connection, rules };
    create_of_statement(connection, user)?;
    create_about_null(&functions)?;
    conversions::create(&functions)?;
    dates::create(&functions)?;
    create_about_numbers(&functions)?;
    decimals::create(&functions)?;
    aggregates::create(&functions)?;
    windows::create(&functions)?;
    texts::create(&functions)?;
    patterns::create(&functions)
}

/// The functions of one connection.
struct Functions<'a> {
    connection: Registry<'a>,
    rules: Rules,
}

impl Functions<'_> {
    /// Registers one function, whose result is a value of any type.
    fn define(
        &self,
        name: &str,
        arguments: i32,
        function: fn(&Context<'_>) -> Result<Value>,
    ) -> Result<()> {
        let rules = self.rules;
        self.connection.create_scalar_function(name, arguments, FLAGS, move |context| {
            function(context).map(|value| shown(value, rules))
        })
    }

    /// As [`Self::define`], for a function that does not do the same by all rules.
    fn define_by_rules(
        &self,
        name: &str,
        arguments: i32,
        function: fn(&Context<'_>, Rules) -> Result<Value>,
    ) -> Result<()> {
        let rules = self.rules;
        self.connection.create_scalar_function(name, arguments, FLAGS, move |context| {
            function(context, rules).map(|value| shown(value, rules))
        })
    }
}

/// The functions for the time of the statement and for its user.
fn create_of_statement(connection: Registry<'_>, user: &str) -> Result<()> {
    // The time is that of the statement, the same for all of its rows.
    let now = Time::now();
    let second = now.in_second();
    for name in ["sysdate", "now", "localtimestamp"] {
        connection.create_scalar_function(name, 0, FLAGS, move |_| Ok(second.text()))?;
    }
    connection.create_scalar_function("systimestamp", 0, FLAGS, move |_| Ok(now.text()))?;
    for name in ["systimestamp", "localtimestamp"] {
        connection.create_scalar_function(name, 1, FLAGS, move |context| {
            let digits = whole(context, 0)?.and_then(|digits| u32::try_from(digits).ok());
            digits
                .and_then(|digits| now.with_digits(digits))
                .map(Time::text)
                .ok_or_else(|| refused("the fraction of a second has 0 to 9 digits"))
        })?;
    }
    connection.create_scalar_function("plinth_cycle", 0, FunctionFlags::SQLITE_UTF8, |_| {
        Err::<i64, _>(refused("CONNECT BY goes in a circle; NOCYCLE ends it"))
    })?;
    let user = user.to_owned();
    connection.create_scalar_function("user", 0, FLAGS, move |_| Ok(user.clone()))?;
    Ok(())
}

/// `NVL`, `DECODE`, `GREATEST` ...
fn create_about_null(functions: &Functions<'_>) -> Result<()> {
    functions.define("nvl", 2, |context| match context.get::<Value>(0)? {
        Value::Null => context.get(1),
        first => Ok(first),
    })?;
    functions.define("nvl2", 3, |context| {
        context.get(if context.get::<Value>(0)? == Value::Null { 2 } else { 1 })
    })?;
    functions.define("decode", -1, decode)?;
    functions.define("plinth_match", -1, |context| {
        let of: Value = context.get(0)?;
        for at in 1..context.len() {
            if same(&of, &context.get(at)?) {
                return Ok(Value::Integer(i64::try_from(at).unwrap_or(i64::MAX)));
            }
        }
        Ok(Value::Integer(0))
    })?;
    functions.define_by_rules("greatest", -1, |context, rules| {
        extreme(context, rules, std::cmp::Ordering::Greater)
    })?;
    functions.define_by_rules("least", -1, |context, rules| {
        extreme(context, rules, std::cmp::Ordering::Less)
    })?;
    // There is no NaN here.
    functions.define("nanvl", 2, |context| context.get(0))?;
    functions.define("lnnvl", 1, |context| {
        let is_true = real(context, 0)?.is_some_and(|truth| truth != 0.0);
        Ok(Value::Integer(i64::from(!is_true)))
    })?;
    Ok(())
}

/// Conversions and arithmetic.
fn create_about_numbers(functions: &Functions<'_>) -> Result<()> {
    functions.define("mod", 2, modulo)?;
    functions.define("bitand", 2, |context| {
        let (a, b) = (whole(context, 0)?, whole(context, 1)?);
        Ok(a.zip(b).map_or(Value::Null, |(a, b)| Value::Integer(a & b)))
    })?;
    for name in ["power", "pow"] {
        functions.define(name, 2, |context| {
            Ok(real(context, 0)?
                .zip(real(context, 1)?)
                .map_or(Value::Null, |(base, to)| simplest(base.powf(to))))
        })?;
    }
    functions.define("floor", 1, |context| rounded(context, f64::floor))?;
    functions.define("ceil", 1, |context| rounded(context, f64::ceil))?;
    functions.define("ceiling", 1, |context| rounded(context, f64::ceil))?;
    for (name, places) in [("trunc", 1), ("trunc", 2), ("round", 1), ("round", 2)] {
        functions.define(name, places, if name == "trunc" { truncate } else { round })?;
    }
    functions.define("remainder", 2, remainder)?;
    functions.define("width_bucket", 4, width_bucket)?;
    functions.define("bin_to_num", -1, |context| {
        let mut bits = 0_i64;
        for at in 0..context.len() {
            match whole(context, at)? {
                Some(bit @ (0 | 1)) if bits < 1 << 61 => bits = bits << 1 | bit,
                _ => return Err(refused("BIN_TO_NUM takes at most 62 bits, each 0 or 1")),
            }
        }
        Ok(Value::Integer(bits))
    })?;
    functions.define("sqrt", 1, |context| one(context, f64::sqrt))?;
    functions.define("exp", 1, |context| one(context, f64::exp))?;
    functions.define("sin", 1, |context| one(context, f64::sin))?;
    functions.define("cos", 1, |context| one(context, f64::cos))?;
    functions.define("tan", 1, |context| one(context, f64::tan))?;
    functions.define("asin", 1, |context| one(context, f64::asin))?;
    functions.define("acos", 1, |context| one(context, f64::acos))?;
    functions.define("atan", 1, |context| one(context, f64::atan))?;
    functions.define("sinh", 1, |context| one(context, f64::sinh))?;
    functions.define("cosh", 1, |context| one(context, f64::cosh))?;
    functions.define("tanh", 1, |context| one(context, f64::tanh))?;
    functions.define("atan2", 2, |context| {
        let sides = real(context, 0)?.zip(real(context, 1)?);
        Ok(sides.map_or(Value::Null, |(y, x)| simplest(y.atan2(x))))
    })?;
    functions.define("ln", 1, |context| one(context, f64::ln))?;
    functions.define("log", 2, |context| {
        Ok(real(context, 0)?
            .zip(real(context, 1)?)
            // The logarithm of 1000 is 2.9999999999999996 otherwise.
            .map_or(Value::Null, |(base, of)| simplest(clean(of.log(base)))))
    })?;
    Ok(())
}

/// `DECODE(of, search, result, ..., otherwise)`, in which NULL equals NULL.
fn decode(context: &Context<'_>) -> Result<Value> {
    if context.len() < 3 {
        return Err(refused("DECODE takes a value, then searches and results, then what else"));
    }
    let of: Value = context.get(0)?;
    let mut at = 1;
    while at + 1 < context.len() {
        if same(&of, &context.get(at)?) {
            return context.get(at + 1);
        }
        at += 2;
    }
    if at < context.len() { context.get(at) } else { Ok(Value::Null) }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Integer(a), Value::Real(b)) | (Value::Real(b), Value::Integer(a)) => {
            *a as f64 == *b
        }
        // A number and its digits.
        (Value::Integer(a), Value::Text(b)) | (Value::Text(b), Value::Integer(a)) => {
            b.parse() == Ok(*a)
        }
        _ => a == b,
    }
}

/// `GREATEST` and `LEAST`: all arguments are of the type of the first. By Oracle's rules the result
/// is NULL if an argument is; by PostgreSQL's, such arguments do not count.
fn extreme(context: &Context<'_>, rules: Rules, wanted: std::cmp::Ordering) -> Result<Value> {
    if context.is_empty() {
        return Err(refused("GREATEST and LEAST take at least one value"));
    }
    let mut found: Option<Value> = None;
    for at in 0..context.len() {
        let next = match (context.get(at)?, &found) {
            (Value::Null, _) if rules == Rules::Oracle => return Ok(Value::Null),
            (Value::Null, _) => continue,
            (Value::Text(_), Some(Value::Integer(_) | Value::Real(_))) => {
                number(context, at)?.map_or(Value::Null, value)
            }
            (Value::Text(text), Some(Value::Text(first))) if Time::parse(first).is_some() => {
                Value::Text(Time::understood(&text).map_or(text, Time::text))
            }
            (Value::Integer(_) | Value::Real(_), Some(Value::Text(_))) => {
                text_by(context, at, rules).map_or(Value::Null, Value::Text)
            }
            (next, _) => next,
        };
        let order = found.as_ref().map(|found| compare(&next, found));
        if order.is_none_or(|order| order == wanted) {
            found = Some(next);
        }
    }
    Ok(found.unwrap_or(Value::Null))
}

fn compare(a: &Value, b: &Value) -> std::cmp::Ordering {
    let real = |value: &Value| match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Real(number) => Some(*number),
        _ => None,
    };
    match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        _ => match (real(a), real(b)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            // As SQLite orders them: numbers before texts.
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => std::cmp::Ordering::Equal,
        },
    }
}

/// `MOD(x, 0)` is `x`, as in Oracle.
fn modulo(context: &Context<'_>) -> Result<Value> {
    match (number(context, 0)?, number(context, 1)?) {
        (Some(of), Some(Number::Whole(0))) => Ok(value(of)),
        (Some(of), Some(Number::Real(0.0))) => Ok(value(of)),
        (Some(of), Some(by)) => computed(of, Operator::Modulo, by).map(value),
        _ => Ok(Value::Null),
    }
}

/// `REMAINDER(a, b)`: as MOD, from the multiple of `b` that is nearest to `a`.
fn remainder(context: &Context<'_>) -> Result<Value> {
    let (Some(of), Some(by)) = (number(context, 0)?, number(context, 1)?) else {
        return Ok(Value::Null);
    };
    // The even one of two that are as near.
    let times = Number::Real(as_real(computed(of, Operator::Over, by)?).round_ties_even());
    computed(of, Operator::Minus, computed(by, Operator::Times, times)?).map(value)
}

/// `WIDTH_BUCKET(x, low, high, count)`: the number of the part of a range that `x` is in.
fn width_bucket(context: &Context<'_>) -> Result<Value> {
    let (Some(of), Some(low), Some(high), Some(count)) =
        (real(context, 0)?, real(context, 1)?, real(context, 2)?, whole(context, 3)?)
    else {
        return Ok(Value::Null);
    };
    if count < 1 || low == high {
        return Err(refused("WIDTH_BUCKET takes a number, two different ends, and how many parts"));
    }
    let place = (of - low) / (high - low);
    Ok(Value::Integer(match place {
        _ if place < 0.0 => 0,
        _ if place >= 1.0 => count + 1,
        _ => clean(place * count as f64) as i64 + 1,
    }))
}

/// An integer if the real is one.
fn simplest(real: f64) -> Value {
    if real.fract() == 0.0 && real.abs() < 9e15 {
        Value::Integer(real as i64)
    } else {
        Value::Real(real)
    }
}

fn rounded(context: &Context<'_>, by: fn(f64) -> f64) -> Result<Value> {
    Ok(match number(context, 0)? {
        None => Value::Null,
        Some(Number::Real(real)) => simplest(by(real)),
        Some(whole) => value(whole),
    })
}

fn one(context: &Context<'_>, of: fn(f64) -> f64) -> Result<Value> {
    Ok(real(context, 0)?.map(of).filter(|result| result.is_finite()).map_or(Value::Null, simplest))
}

/// `TRUNC(number [, places])`, `TRUNC(time [, unit])`
fn truncate(context: &Context<'_>) -> Result<Value> {
    if let Some(time) = time(context, 0) {
        let unit = text(context, 1).unwrap_or_else(|| "DD".to_owned());
        let found = time
            .truncated(&unit)
            .ok_or_else(|| refused(format!("a time is not cut to '{unit}'")))?;
        return Ok(Value::Text(found.text()));
    }
    at_places(context, decimals::truncated)
}

/// `ROUND(number [, places])`, `ROUND(time [, unit])`
fn round(context: &Context<'_>) -> Result<Value> {
    if let Some(time) = time(context, 0) {
        let unit = text(context, 1).unwrap_or_else(|| "DD".to_owned());
        return made_of(Some(
            time.rounded(&unit)
                .ok_or_else(|| refused(format!("a time is not rounded to '{unit}'")))?,
        ));
    }
    at_places(context, decimals::nearest)
}

fn at_places(context: &Context<'_>, by: fn(Number, i64) -> Number) -> Result<Value> {
    let places = if context.len() > 1 { whole(context, 1)? } else { Some(0) };
    let (Some(number), Some(places)) = (number(context, 0)?, places) else {
        return Ok(Value::Null);
    };
    Ok(value(by(number, places)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    fn connection() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        create(Registry::whole(&connection), "scott", Rules::PostgreSql).expect("functions");
        connection
    }

    #[test]
    fn functions_do_what_is_expected_of_them() {
        let connection = connection();
        for (expression, expected) in [
            ("nvl(NULL, 'x') || nvl('a', 'b')", "xa"),
            ("nvl2(NULL, 1, 2) + nvl2(0, 10, 20)", "12"),
            ("decode(2, 1, 'one', 2, 'two', 'many')", "two"),
            ("decode(NULL, 1, 'one', NULL, 'none')", "none"),
            ("decode(5, 1, 'one', 'many')", "many"),
            ("nvl(decode(5, 1, 'one'), 'null')", "null"),
            ("greatest(1, 3.5, 2) || least('b', 'a')", "3.5a"),
            ("greatest(1, NULL)", "1"),
            ("to_char(1234.5, '9,990.00')", " 1,234.50"),
            ("to_char('2026-03-07 15:04:09', 'DD-MON-YY HH24:MI')", "07-MAR-26 15:04"),
            ("to_char(7)", "7"),
            ("to_date('07.03.2026', 'DD.MM.YYYY')", "2026-03-07 00:00:00"),
            ("plinth_minus('2026-03-07 12:00:00', '2026-03-06')", "1.5"),
            ("plinth_minus('2026-03-07', 0.5)", "2026-03-06 12:00:00"),
            ("plinth_plus('2026-03-07', 1)", "2026-03-08 00:00:00"),
            ("add_months('2026-01-31', 1)", "2026-02-28 00:00:00"),
            ("last_day('2024-02-01')", "2024-02-29 00:00:00"),
            ("to_number('1,234.5', '9,999.9')", "1234.5"),
            (
                "mod(17, 5) || ' ' || mod(-7, 3) || ' ' || mod(7.5, 2) || ' ' || mod(5, 0)",
                "2 -1 1.5 5",
            ),
            ("mod(33554437, power(2, 24))", "5"),
            ("trunc(12.789, 1) || ' ' || trunc(-12.7) || ' ' || trunc(1234, -2)", "12.7 -12 1200"),
            (
                "round(1.005, 2) || ' ' || round(2.5) || ' ' || round(1234, -2) || ' ' || round(7)",
                "1.01 3 1200 7",
            ),
            ("trunc('2026-03-07 15:04:09')", "2026-03-07 00:00:00"),
            ("trunc('2026-03-07 15:04:09', 'MM')", "2026-03-01 00:00:00"),
            ("floor(-1.5) || ceil(1.2) || floor(3)", "-223"),
            ("lpad('7', 3, '0') || rpad('ab', 5, '.-') || lpad('abc', 2)", "007ab.-.ab"),
            ("initcap('hELLO wORLD of asm_disks')", "Hello World Of Asm_Disks"),
            ("translate('a.b.c', '.b', '/')", "a//c"),
            (
                "instr('banana', 'an') || instr('banana', 'an', 3) || instr('banana', 'a', 1, 3)",
                "246",
            ),
            ("instr('banana', 'a', -1) || instr('banana', 'a', -1, 2) || instr('x', 'y')", "640"),
            (
                "split_part('a/b/c', '/', 2) || split_part('a/b/c', '/', -1) || split_part('a', '/', 9)",
                "bc",
            ),
            ("\"left\"('grün', 3) || \"right\"('grün', 1) || \"left\"('abc', -1)", "grünab"),
            ("'DATA_1' LIKE 'data%'", "0"),
            ("'DATA_1' LIKE 'DATA\\_%' ESCAPE '\\'", "1"),
            ("'DATA1' LIKE 'DATA\\_%' ESCAPE '\\'", "0"),
            ("('DATA1' LIKE 'DATA\\_%') || ('DATA_1' LIKE 'DATA\\_%')", "01"),
            ("'DATA_1' MATCH 'data_1'", "1"),
            ("'abcbd' LIKE '%b_'", "1"),
            ("'x' REGEXP '^X$' || regexp_like('x', '^X$', 'i')", "0"),
            ("regexp_like('x', '^X$', 'i')", "1"),
            ("regexp_replace('a1b22', '([0-9]+)', '<\\1>')", "a<1>b22"),
            ("regexp_substr('+DATA/db', '[^/]+$') || regexp_count('a/b/c', '/')", "db2"),
            ("user()", "scott"),
            ("chr(65) || reverse('abc') || plinth_int('5') || plinth_int(2.5)", "Acba53"),
        ] {
            let found: Value = connection
                .query_row(&format!("SELECT {expression}"), [], |row| row.get(0))
                .expect(expression);
            let found = match found {
                Value::Integer(number) => number.to_string(),
                Value::Real(number) => number.to_string(),
                Value::Text(text) => text,
                other => panic!("{expression}: {other:?}"),
            };
            assert_eq!(found, expected, "{expression}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let connection = connection();
        for expression in [
            "plinth_int('x')",
            "to_number('12a')",
            "to_date('x', 'YYYY')",
            "to_char('x', 'YYYY')",
            "to_char(1, 'nonsense')",
            "lpad('x', 999999999)",
            "regexp_like('x', '(')",
            "regexp_like('x', 'a{1000}{1000}{1000}')",
            "split_part('a', 'b', 0)",
            "trunc('2026-01-01', 'nonsense')",
            "chr(-1)",
            "decode(1)",
            "plinth_minus('2026-01-01', 1e300)",
        ] {
            let found = connection
                .query_row(&format!("SELECT {expression}"), [], |row| row.get::<_, Value>(0));
            assert!(found.is_err(), "{expression}: {found:?}");
        }
    }
}
