//! Functions that SQLite lacks, or defines otherwise: those of Oracle and PostgreSQL that database
//! administrators use.
//!
//! Times are texts, as in the views; numbers are integers or reals. An argument that cannot be
//! converted is an error. NULL in, NULL out, unless the function is about NULL.

mod numbers;
mod times;

use numbers::Number;
use rusqlite::{
    Connection, Error,
    functions::{Context, FunctionFlags},
    types::{Value, ValueRef},
};
pub use times::Time;

type Result<T> = rusqlite::Result<T>;

/// The longest text, in characters, that a function may build from a shorter one: LPAD to a
/// gigabyte is refused before it is tried.
const LONG: usize = 1 << 20;
const FLAGS: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_DETERMINISTIC);

fn refused(text: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::UserFunctionError(text.into())
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
    Ok(number(context, at)?.map(|number| match number {
        Number::Whole(whole) => whole as f64,
        Number::Real(real) => real,
    }))
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

fn need_time(context: &Context<'_>, at: usize) -> Result<Option<Time>> {
    match text(context, at) {
        None => Ok(None),
        Some(text) => match time(context, at) {
            Some(time) => Ok(Some(time)),
            None => Err(refused(format!("'{text}' is no time; TO_DATE makes one of it"))),
        },
    }
}

fn value(number: Number) -> Value {
    match number {
        Number::Whole(whole) => Value::Integer(whole),
        Number::Real(real) => Value::Real(real),
    }
}

fn made(time: Option<Time>) -> Result<Option<String>> {
    time.map(|time| Some(time.text()))
        .ok_or_else(|| refused("this time is outside of the years 1 to 9999"))
}

fn cut(text: String) -> Result<String> {
    if text.len() > LONG { Err(refused("a text of more than a MiB")) } else { Ok(text) }
}

/// Registers the functions with a connection.
pub fn create(connection: &Connection, user: &str) -> Result<()> {
    create_of_statement(connection, user)?;
    create_about_null(connection)?;
    create_about_times(connection)?;
    create_about_numbers(connection)?;
    create_about_texts(connection)?;
    create_about_parts(connection)?;
    create_about_patterns(connection)
}

/// Registers one function, whose result is a value of any type.
fn define(
    connection: &Connection,
    name: &str,
    arguments: i32,
    function: fn(&Context<'_>) -> Result<Value>,
) -> Result<()> {
    connection.create_scalar_function(name, arguments, FLAGS, function)
}

/// The functions for the time of the statement and for its user.
fn create_of_statement(connection: &Connection, user: &str) -> Result<()> {
    // The time is that of the statement, the same for all of its rows.
    let now = Time::now();
    for name in ["sysdate", "now", "localtimestamp"] {
        connection.create_scalar_function(name, 0, FLAGS, move |_| Ok(now.text()))?;
    }
    connection.create_scalar_function("systimestamp", 0, FLAGS, move |_| Ok(now.exact_text()))?;
    let user = user.to_owned();
    connection.create_scalar_function("user", 0, FLAGS, move |_| Ok(user.clone()))?;
    Ok(())
}

/// `NVL`, `DECODE`, `GREATEST` ...
fn create_about_null(connection: &Connection) -> Result<()> {
    define(connection, "nvl", 2, |context| match context.get::<Value>(0)? {
        Value::Null => context.get(1),
        first => Ok(first),
    })?;
    define(connection, "nvl2", 3, |context| {
        context.get(if context.get::<Value>(0)? == Value::Null { 2 } else { 1 })
    })?;
    define(connection, "decode", -1, decode)?;
    define(connection, "greatest", -1, |context| extreme(context, std::cmp::Ordering::Greater))?;
    define(connection, "least", -1, |context| extreme(context, std::cmp::Ordering::Less))?;
    Ok(())
}

/// Conversions to and from text, and arithmetic with times.
fn create_about_times(connection: &Connection) -> Result<()> {
    define(connection, "to_char", 1, |context| {
        Ok(text(context, 0).map_or(Value::Null, Value::Text))
    })?;
    define(connection, "to_char", 2, to_char)?;
    for name in ["to_date", "to_timestamp"] {
        define(connection, name, 1, |context| made_of(need_time(context, 0)?))?;
        define(connection, name, 2, |context| match (text(context, 0), text(context, 1)) {
            (Some(text), Some(model)) => made_of(Some(Time::read(&text, &model).map_err(refused)?)),
            _ => Ok(Value::Null),
        })?;
    }
    define(connection, "add_months", 2, |context| {
        match (need_time(context, 0)?, whole(context, 1)?) {
            (Some(time), Some(months)) => {
                Ok(Value::Text(made(time.plus_months(months))?.unwrap_or_default()))
            }
            _ => Ok(Value::Null),
        }
    })?;
    define(connection, "last_day", 1, |context| match need_time(context, 0)? {
        Some(time) => Ok(Value::Text(made(time.last_of_month())?.unwrap_or_default())),
        None => Ok(Value::Null),
    })?;
    define(connection, "plinth_plus", 2, |context| plus(context, 1.0))?;
    define(connection, "plinth_minus", 2, |context| {
        match (need_time(context, 0), time(context, 1)) {
            (Ok(Some(time)), Some(other)) => Ok(Value::Real(time.minus(other))),
            _ => plus(context, -1.0),
        }
    })?;
    define(connection, "plinth_date", 1, |context| {
        Ok(need_time(context, 0)?
            .map_or(Value::Null, |time| Value::Text(time.text().chars().take(10).collect())))
    })?;
    Ok(())
}

/// Conversions and arithmetic.
fn create_about_numbers(connection: &Connection) -> Result<()> {
    define(connection, "to_number", 1, |context| {
        Ok(number(context, 0)?.map_or(Value::Null, value))
    })?;
    define(connection, "to_number", 2, |context| match (text(context, 0), text(context, 1)) {
        (Some(text), Some(model)) => numbers::read(&text, Some(&model)).map(value).map_err(refused),
        _ => Ok(Value::Null),
    })?;
    define(connection, "plinth_number", 1, |context| {
        Ok(real(context, 0)?.map_or(Value::Null, Value::Real))
    })?;
    define(connection, "plinth_int", 1, |context| {
        Ok(match number(context, 0)? {
            Some(Number::Real(real)) if real.abs() >= 9.3e18 => {
                return Err(refused("this is too large for an integer"));
            }
            Some(Number::Real(real)) => Value::Integer(real.round() as i64),
            Some(Number::Whole(whole)) => Value::Integer(whole),
            None => Value::Null,
        })
    })?;
    define(connection, "mod", 2, modulo)?;
    for name in ["power", "pow"] {
        define(connection, name, 2, |context| {
            Ok(real(context, 0)?
                .zip(real(context, 1)?)
                .map_or(Value::Null, |(base, to)| Value::Real(base.powf(to))))
        })?;
    }
    define(connection, "floor", 1, |context| rounded(context, f64::floor))?;
    define(connection, "ceil", 1, |context| rounded(context, f64::ceil))?;
    define(connection, "ceiling", 1, |context| rounded(context, f64::ceil))?;
    for (name, places) in [("trunc", 1), ("trunc", 2), ("round", 1), ("round", 2)] {
        define(connection, name, places, if name == "trunc" { truncate } else { round })?;
    }
    define(connection, "sqrt", 1, |context| one(context, f64::sqrt))?;
    define(connection, "exp", 1, |context| one(context, f64::exp))?;
    define(connection, "ln", 1, |context| one(context, f64::ln))?;
    define(connection, "log", 2, |context| {
        Ok(real(context, 0)?
            .zip(real(context, 1)?)
            .map_or(Value::Null, |(base, of)| Value::Real(of.log(base))))
    })?;
    Ok(())
}

/// Functions that change the letters of a text.
fn create_about_texts(connection: &Connection) -> Result<()> {
    define(connection, "lpad", 2, |context| pad(context, true))?;
    define(connection, "lpad", 3, |context| pad(context, true))?;
    define(connection, "rpad", 2, |context| pad(context, false))?;
    define(connection, "rpad", 3, |context| pad(context, false))?;
    define(connection, "initcap", 1, |context| {
        let mut within = false;
        let capital = |text: String| {
            let letters = text.chars().flat_map(|letter| {
                let follows = std::mem::replace(&mut within, letter.is_alphanumeric());
                if follows {
                    letter.to_lowercase().collect::<Vec<_>>()
                } else {
                    letter.to_uppercase().collect()
                }
            });
            letters.collect::<String>()
        };
        Ok(text(context, 0).map(capital).map_or(Value::Null, Value::Text))
    })?;
    define(connection, "translate", 3, |context| {
        let (Some(of), Some(from), Some(to)) =
            (text(context, 0), text(context, 1), text(context, 2))
        else {
            return Ok(Value::Null);
        };
        let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
        let one = |letter: char| match from.iter().position(|other| *other == letter) {
            Some(at) => to.get(at).copied(),
            None => Some(letter),
        };
        Ok(Value::Text(of.chars().filter_map(one).collect()))
    })?;
    Ok(())
}

/// Functions for parts of texts and single characters, and formatting for people.
fn create_about_parts(connection: &Connection) -> Result<()> {
    define(connection, "instr", 3, instr)?;
    define(connection, "instr", 4, instr)?;
    for name in ["strpos", "instr"] {
        define(connection, name, 2, instr)?;
    }
    define(connection, "split_part", 3, |context| {
        let (Some(of), Some(by), Some(part)) =
            (text(context, 0), text(context, 1), whole(context, 2)?)
        else {
            return Ok(Value::Null);
        };
        let parts: Vec<&str> =
            if by.is_empty() { vec![&of] } else { of.split(by.as_str()).collect() };
        let at = match part {
            0 => return Err(refused("the parts of SPLIT_PART are counted from 1")),
            1.. => usize::try_from(part - 1).ok(),
            _ => usize::try_from(-part).ok().and_then(|from_end| parts.len().checked_sub(from_end)),
        };
        Ok(Value::Text(at.and_then(|at| parts.get(at)).copied().unwrap_or_default().to_owned()))
    })?;
    define(connection, "left", 2, |context| side(context, true))?;
    define(connection, "right", 2, |context| side(context, false))?;
    define(connection, "chr", 1, |context| {
        let letter =
            whole(context, 0)?.map(|number| u32::try_from(number).ok().and_then(char::from_u32));
        match letter {
            None => Ok(Value::Null),
            Some(Some(letter)) if letter != '\0' => Ok(Value::Text(letter.to_string())),
            Some(_) => Err(refused("there is no character with this number")),
        }
    })?;
    define(connection, "reverse", 1, |context| {
        Ok(text(context, 0).map_or(Value::Null, |text| Value::Text(text.chars().rev().collect())))
    })?;
    define(connection, "pg_size_pretty", 1, |context| {
        Ok(whole(context, 0)?
            .map_or(Value::Null, |bytes| Value::Text(crate::text::bytes_pretty(bytes))))
    })?;
    define(connection, "quote_ident", 1, |context| {
        Ok(text(context, 0).map_or(Value::Null, Value::Text))
    })?;
    define(connection, "quote_literal", 1, |context| {
        Ok(text(context, 0)
            .map_or(Value::Null, |text| Value::Text(format!("'{}'", text.replace('\'', "''")))))
    })?;
    Ok(())
}

/// `LIKE`, `ILIKE` and regular expressions.
fn create_about_patterns(connection: &Connection) -> Result<()> {
    // LIKE distinguishes upper from lower case, as with Oracle and PostgreSQL; ILIKE, which is
    // MATCH here, does not.
    for (name, folds) in [("like", false), ("match", true)] {
        for arguments in [2, 3] {
            connection.create_scalar_function(name, arguments, FLAGS, move |context| {
                like(context, folds)
            })?;
        }
    }
    for (name, arguments) in [("regexp", 2), ("regexp_like", 2), ("regexp_like", 3)] {
        connection.create_scalar_function(name, arguments, FLAGS, move |context| {
            // `text REGEXP pattern` passes the pattern first.
            let (of, pattern) = if name == "regexp" { (1, 0) } else { (0, 1) };
            let (Some(of), Some(pattern)) = (text(context, of), text(context, pattern)) else {
                return Ok(None);
            };
            Ok(Some(
                regex(&pattern, text(context, 2).as_deref().unwrap_or_default())?.is_match(&of),
            ))
        })?;
    }
    define(connection, "regexp_substr", 2, |context| {
        let (Some(of), Some(pattern)) = (text(context, 0), text(context, 1)) else {
            return Ok(Value::Null);
        };
        Ok(regex(&pattern, "")?
            .find(&of)
            .map_or(Value::Null, |found| Value::Text(found.as_str().to_owned())))
    })?;
    define(connection, "regexp_count", 2, |context| {
        let (Some(of), Some(pattern)) = (text(context, 0), text(context, 1)) else {
            return Ok(Value::Null);
        };
        Ok(Value::Integer(
            i64::try_from(regex(&pattern, "")?.find_iter(&of).count()).unwrap_or(i64::MAX),
        ))
    })?;
    for arguments in [2, 3] {
        define(connection, "regexp_replace", arguments, |context| {
            let (Some(of), Some(pattern)) = (text(context, 0), text(context, 1)) else {
                return Ok(Value::Null);
            };
            // \1 of Oracle and PostgreSQL is ${1} here.
            let by = text(context, 2).unwrap_or_default().replace('$', "$$");
            let by = regex(r"\\(\d)", "")?.replace_all(&by, "$${$1}").into_owned();
            Ok(Value::Text(cut(regex(&pattern, "")?.replace_all(&of, by).into_owned())?))
        })?;
    }
    Ok(())
}

fn made_of(time: Option<Time>) -> Result<Value> {
    Ok(time.map_or(Value::Null, |time| Value::Text(time.text())))
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

/// `GREATEST` and `LEAST`: NULL if an argument is.
fn extreme(context: &Context<'_>, wanted: std::cmp::Ordering) -> Result<Value> {
    let mut found: Option<Value> = None;
    for at in 0..context.len() {
        let next: Value = context.get(at)?;
        if next == Value::Null {
            return Ok(Value::Null);
        }
        let order = found.as_ref().map(|found| compare(&next, found));
        if order.is_none_or(|order| order == wanted) {
            found = Some(next);
        }
    }
    found.ok_or_else(|| refused("GREATEST and LEAST take at least one value"))
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

/// `TO_CHAR(time or number, model)`
fn to_char(context: &Context<'_>) -> Result<Value> {
    let (Some(of), Some(model)) = (text(context, 0), text(context, 1)) else {
        return Ok(Value::Null);
    };
    let written = match time(context, 0) {
        Some(time) => time.written(&model),
        None => match number(context, 0) {
            Ok(Some(number)) => numbers::written(number, &model),
            _ => Err(format!("'{of}' is neither a time nor a number")),
        },
    };
    written.map(Value::Text).map_err(refused)
}

/// Adds days to a time, or two numbers.
fn plus(context: &Context<'_>, sign: f64) -> Result<Value> {
    match (time(context, 0), time(context, 1)) {
        (Some(time), None) => {
            let Some(days) = real(context, 1)? else { return Ok(Value::Null) };
            Ok(Value::Text(made(time.plus_days(days * sign))?.unwrap_or_default()))
        }
        (None, Some(time)) if sign > 0.0 => {
            let Some(days) = real(context, 0)? else { return Ok(Value::Null) };
            Ok(Value::Text(made(time.plus_days(days))?.unwrap_or_default()))
        }
        _ => Ok(real(context, 0)?
            .zip(real(context, 1)?)
            .map_or(Value::Null, |(a, b)| Value::Real(a + sign * b))),
    }
}

fn modulo(context: &Context<'_>) -> Result<Value> {
    Ok(match (number(context, 0)?, number(context, 1)?) {
        // MOD(x, 0) is x, as in Oracle.
        (Some(of), Some(Number::Whole(0))) => value(of),
        (Some(Number::Whole(of)), Some(Number::Whole(by))) => {
            Value::Integer(of.checked_rem(by).unwrap_or(0))
        }
        (Some(of), Some(by)) => {
            // POWER(2, 24) is computed as a real, and an integer is expected.
            let exact = |number: Number| match number {
                Number::Whole(whole) => Some(whole),
                Number::Real(real) => {
                    (real.fract() == 0.0 && real.abs() < 9e15).then_some(real as i64)
                }
            };
            let inexact = |number: Number| match number {
                Number::Whole(whole) => whole as f64,
                Number::Real(real) => real,
            };
            match (exact(of), exact(by)) {
                (Some(of), Some(by)) if by != 0 => Value::Integer(of.checked_rem(by).unwrap_or(0)),
                (_, Some(0)) => value(of),
                _ => Value::Real(inexact(of) % inexact(by)),
            }
        }
        _ => Value::Null,
    })
}

fn rounded(context: &Context<'_>, by: fn(f64) -> f64) -> Result<Value> {
    Ok(match number(context, 0)? {
        None => Value::Null,
        Some(Number::Real(real)) => Value::Real(by(real)),
        Some(whole) => value(whole),
    })
}

fn one(context: &Context<'_>, of: fn(f64) -> f64) -> Result<Value> {
    Ok(real(context, 0)?
        .map(of)
        .filter(|result| result.is_finite())
        .map_or(Value::Null, Value::Real))
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
    at_places(context, f64::trunc)
}

/// `ROUND(number [, places])`; of a time, to the nearest day.
fn round(context: &Context<'_>) -> Result<Value> {
    if let Some(time) = time(context, 0) {
        let nearest = time.plus(times::DAY / 2).and_then(|time| time.truncated("DD"));
        return Ok(Value::Text(made(nearest)?.unwrap_or_default()));
    }
    at_places(context, f64::round)
}

fn at_places(context: &Context<'_>, by: fn(f64) -> f64) -> Result<Value> {
    let places = if context.len() > 1 { whole(context, 1)? } else { Some(0) };
    let (Some(number), Some(places)) = (number(context, 0)?, places) else {
        return Ok(Value::Null);
    };
    let real = match number {
        Number::Whole(whole) if places >= 0 => return Ok(Value::Integer(whole)),
        Number::Whole(whole) => whole as f64,
        Number::Real(real) => real,
    };
    let places = i32::try_from(places.clamp(-30, 30)).unwrap_or(0);
    let scaled = real * 10_f64.powi(places);
    if !scaled.is_finite() {
        return Ok(Value::Real(real));
    }
    // 1.005 * 100 is 100.49999999999999: round to the decimal that a person sees.
    let nearest = (scaled * 1e6).round() / 1e6;
    let cut = by(if (nearest - scaled).abs() < scaled.abs() * 1e-12 { nearest } else { scaled });
    // Divided by a whole number, the result is the double nearest to the decimal.
    Ok(Value::Real(if places > 0 { cut / 10_f64.powi(places) } else { cut * 10_f64.powi(-places) }))
}

fn pad(context: &Context<'_>, in_front: bool) -> Result<Value> {
    let (Some(of), Some(width)) = (text(context, 0), whole(context, 1)?) else {
        return Ok(Value::Null);
    };
    let fill = if context.len() > 2 { text(context, 2) } else { Some(" ".to_owned()) };
    let Some(fill) = fill.filter(|fill| !fill.is_empty()) else { return Ok(Value::Null) };
    let width = usize::try_from(width).unwrap_or(0);
    if width > LONG {
        return Err(refused("a text of more than a MiB"));
    }
    let length = of.chars().count();
    if width <= length {
        return Ok(Value::Text(of.chars().take(width).collect()));
    }
    let filling: String = fill.chars().cycle().take(width - length).collect();
    Ok(Value::Text(if in_front { format!("{filling}{of}") } else { format!("{of}{filling}") }))
}

/// `INSTR(of, what [, from [, which]])`: the position, counted from 1; a negative `from` counts
/// from the end.
fn instr(context: &Context<'_>) -> Result<Value> {
    let (Some(of), Some(what)) = (text(context, 0), text(context, 1)) else {
        return Ok(Value::Null);
    };
    let from = if context.len() > 2 { whole(context, 2)? } else { Some(1) };
    let which = if context.len() > 3 { whole(context, 3)? } else { Some(1) };
    let (Some(from), Some(which)) = (from, which) else { return Ok(Value::Null) };
    if which < 1 {
        return Err(refused("the occurrences of INSTR are counted from 1"));
    }
    if what.is_empty() || from == 0 {
        return Ok(Value::Integer(0));
    }
    // Positions, in characters, of all occurrences, overlapping ones too.
    let mut found =
        of.char_indices().enumerate().filter(|(_, (byte, _))| of[*byte..].starts_with(&what));
    let length = i64::try_from(of.chars().count()).unwrap_or(i64::MAX);
    let place = |(at, _): (usize, (usize, char))| i64::try_from(at).unwrap_or(i64::MAX - 1) + 1;
    let skipped = usize::try_from(which - 1).unwrap_or(usize::MAX);
    let at = if from > 0 {
        found.map(place).filter(|place| *place >= from).nth(skipped)
    } else {
        let last = length.saturating_add(from).saturating_add(1);
        let places: Vec<i64> = found.by_ref().map(place).filter(|place| *place <= last).collect();
        places.into_iter().rev().nth(skipped)
    };
    Ok(Value::Integer(at.unwrap_or(0)))
}

/// `LEFT(text, n)` and `RIGHT(text, n)`; for a negative `n`, all but `-n` characters of the other
/// side.
fn side(context: &Context<'_>, left: bool) -> Result<Value> {
    let (Some(of), Some(count)) = (text(context, 0), whole(context, 1)?) else {
        return Ok(Value::Null);
    };
    let length = of.chars().count();
    let count = match usize::try_from(count) {
        Ok(count) => count.min(length),
        Err(_) => {
            length.saturating_sub(usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX))
        }
    };
    let skipped = if left { 0 } else { length - count };
    Ok(Value::Text(of.chars().skip(skipped).take(count).collect()))
}

/// `text LIKE pattern [ESCAPE letter]`, for which SQLite passes the pattern first.
fn like(context: &Context<'_>, folds: bool) -> Result<Option<bool>> {
    let (Some(pattern), Some(of)) = (text(context, 0), text(context, 1)) else { return Ok(None) };
    // A backslash by default, as in PostgreSQL: psql's completion of names relies on it.
    let escape = if context.len() > 2 { text(context, 2) } else { Some("\\".to_owned()) };
    let mut letters = escape.iter().flat_map(|escape| escape.chars());
    let (escape, more) = (letters.next(), letters.next());
    if more.is_some() {
        return Err(refused("ESCAPE is one character"));
    }
    let fold = |text: String| if folds { text.to_lowercase() } else { text };
    Ok(Some(matches_like(&fold(of), &fold(pattern), escape)))
}

#[derive(Clone, Copy, PartialEq)]
enum Wild {
    Any,
    One,
    Is(char),
}

fn matches_like(text: &str, pattern: &str, escape: Option<char>) -> bool {
    let mut wilds = Vec::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        wilds.push(match letter {
            letter if Some(letter) == escape => Wild::Is(letters.next().unwrap_or(letter)),
            '%' => Wild::Any,
            '_' => Wild::One,
            letter => Wild::Is(letter),
        });
    }
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut next) = (0, 0);
    // Positions of the last `%`, and of the end of the text that it matches so far.
    let mut back: Option<(usize, usize)> = None;
    while at < text.len() {
        match (wilds.get(next), text.get(at)) {
            (Some(Wild::Any), _) => {
                back = Some((next, at));
                next += 1;
            }
            (Some(Wild::One), _) => (at, next) = (at + 1, next + 1),
            (Some(Wild::Is(wanted)), Some(found)) if wanted == found => {
                (at, next) = (at + 1, next + 1)
            }
            _ => match &mut back {
                Some((any, taken)) => {
                    *taken += 1;
                    (at, next) = (*taken, *any + 1);
                }
                None => return false,
            },
        }
    }
    wilds.get(next..).unwrap_or_default().iter().all(|wild| *wild == Wild::Any)
}

thread_local! {
    /// The last pattern: a statement uses the same one for row after row.
    static LAST: std::cell::RefCell<Option<(String, regex::Regex)>> = const { std::cell::RefCell::new(None) };
}

fn regex(pattern: &str, flags: &str) -> Result<regex::Regex> {
    let key = format!("{flags} {pattern}");
    let known = LAST.with_borrow(|last| {
        last.as_ref().filter(|(known, _)| *known == key).map(|(_, regex)| regex.clone())
    });
    if let Some(regex) = known {
        return Ok(regex);
    }
    let regex = regex::RegexBuilder::new(pattern)
        .case_insensitive(flags.contains('i'))
        .multi_line(flags.contains('m'))
        .dot_matches_new_line(flags.contains('n'))
        .size_limit(1 << 20)
        .build()
        .map_err(|error| refused(Box::new(error)))?;
    LAST.set(Some((key, regex.clone())));
    Ok(regex)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        create(&connection, "scott").expect("functions");
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
            ("nvl(greatest(1, NULL), 'null')", "null"),
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
            (
                "trunc(12.789, 1) || ' ' || trunc(-12.7) || ' ' || trunc(1234, -2)",
                "12.7 -12.0 1200.0",
            ),
            (
                "round(1.005, 2) || ' ' || round(2.5) || ' ' || round(1234, -2) || ' ' || round(7)",
                "1.01 3.0 1200.0 7",
            ),
            ("trunc('2026-03-07 15:04:09')", "2026-03-07 00:00:00"),
            ("trunc('2026-03-07 15:04:09', 'MM')", "2026-03-01 00:00:00"),
            ("floor(-1.5) || ceil(1.2) || floor(3)", "-2.02.03"),
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
            ("regexp_replace('a1b22', '([0-9]+)', '<\\1>')", "a<1>b<22>"),
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
