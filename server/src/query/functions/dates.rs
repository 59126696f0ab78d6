//! Functions of times: arithmetic, parts, conversions from text, time zones.

use super::{
    FLAGS, Functions, Result,
    decimals::{Operator, computed},
    intervals::Interval,
    number,
    numbers::Number,
    real, refused, text, time,
    times::{self, DAY, Time, zone_minutes},
    value, whole,
};
use crate::sql::rules::Rules;
use rusqlite::{
    functions::Context,
    types::{Value, ValueRef},
};

/// The zones of NEW_TIME, in half hours ahead of UTC.
const ZONES: [(&str, i64); 17] = [
    ("AST", -8),
    ("ADT", -6),
    ("BST", -22),
    ("BDT", -20),
    ("CST", -12),
    ("CDT", -10),
    ("EST", -10),
    ("EDT", -8),
    ("GMT", 0),
    ("HST", -20),
    ("HDT", -18),
    ("MST", -14),
    ("MDT", -12),
    ("NST", -7),
    ("PST", -16),
    ("PDT", -14),
    ("YST", -18),
];

pub(super) fn create(functions: &Functions<'_>) -> Result<()> {
    create_from_text(functions)?;
    create_intervals(functions)?;
    create_parts(functions)?;
    create_zones(functions)?;
    functions
        .define_by_rules("plinth_plus", 2, |context, rules| plus(context, rules, Operator::Plus))?;
    functions.define_by_rules("plinth_minus", 2, |context, rules| {
        match (need_time(context, 0), time(context, 1)) {
            (Ok(Some(time)), Some(other)) => {
                let micros = Number::Whole(time.micros_since(other));
                computed(micros, Operator::Over, Number::Whole(DAY)).map(value)
            }
            _ => plus(context, rules, Operator::Minus),
        }
    })
}

pub(super) fn need_time(context: &Context<'_>, at: usize) -> Result<Option<Time>> {
    match text(context, at) {
        None => Ok(None),
        Some(text) => match Time::understood(&text).or_else(|| Time::of_client(&text)) {
            Some(time) => Ok(Some(time)),
            None => Err(refused(format!("'{text}' is no time; TO_DATE makes one of it"))),
        },
    }
}

pub(super) fn made_of(time: Option<Time>) -> Result<Value> {
    Ok(time.map_or(Value::Null, |time| Value::Text(time.text())))
}

/// A time that was computed.
fn made(time: Option<Time>) -> Result<Value> {
    time.map(|time| Value::Text(time.text()))
        .ok_or_else(|| refused("this time is outside of the years 1 to 9999"))
}

/// Refuses a language other than English in an argument, `NLS_DATE_LANGUAGE = American`.
pub(super) fn in_english(context: &Context<'_>, at: usize) -> Result<()> {
    let Some(settings) = text(context, at) else { return Ok(()) };
    let (name, language) = settings.split_once('=').unwrap_or((&settings, ""));
    let language = language.trim().trim_matches(['\'', '"']);
    let is_known = name.trim().eq_ignore_ascii_case("NLS_DATE_LANGUAGE")
        && ["AMERICAN", "ENGLISH"].iter().any(|known| language.eq_ignore_ascii_case(known));
    if is_known {
        return Ok(());
    }
    Err(refused(format!(
        "'{settings}': months and days have English names here, as in NLS_DATE_LANGUAGE = AMERICAN"
    )))
}

/// A text as a time, by a model in the next argument if there is one.
fn read(context: &Context<'_>, from: usize) -> Result<Value> {
    if context.len() == from + 1 {
        return made_of(need_time(context, from)?);
    }
    in_english(context, from + 2)?;
    match (text(context, from), text(context, from + 1)) {
        (Some(text), Some(model)) => made_of(Some(Time::read(&text, &model).map_err(refused)?)),
        _ => Ok(Value::Null),
    }
}

fn create_from_text(functions: &Functions<'_>) -> Result<()> {
    for arguments in [1, 2, 3] {
        for name in ["to_date", "to_timestamp_tz"] {
            functions.define(name, arguments, |context| read(context, 0))?;
        }
        functions.define_by_rules("to_timestamp", arguments, |context, rules| {
            // PostgreSQL's counts seconds since 1970.
            match number(context, 0) {
                Ok(Some(seconds)) if context.len() == 1 && rules == Rules::PostgreSql => {
                    let micros = computed(seconds, Operator::Times, Number::Whole(1_000_000))?;
                    let epoch = Time::of(1970, 1, 1);
                    made(epoch.and_then(|epoch| epoch.plus(super::as_real(micros).round() as i64)))
                }
                _ => read(context, 0),
            }
        })?;
    }
    for arguments in [2, 3, 4] {
        functions.define("plinth_to_date_or", arguments, |context| {
            // The first argument is the result if the conversion fails.
            read(context, 1).or_else(|_| context.get(0))
        })?;
    }
    functions.define("plinth_time", 1, |context| made_of(need_time(context, 0)?))?;
    functions.define("plinth_date", 1, |context| {
        Ok(need_time(context, 0)?.map_or(Value::Null, |time| Value::Text(time.date_text())))
    })
}

fn create_intervals(functions: &Functions<'_>) -> Result<()> {
    functions.define("numtodsinterval", 2, |context| {
        let (Some(number), Some(unit)) = (number(context, 0)?, text(context, 1)) else {
            return Ok(Value::Null);
        };
        let Some(seconds) = times::seconds_of(&unit) else {
            return Err(refused(format!("'{unit}' is no unit; DAY, HOUR, MINUTE and SECOND are")));
        };
        let total = computed(number, Operator::Times, Number::Whole(seconds))?;
        computed(total, Operator::Over, Number::Whole(86_400)).map(value)
    })?;
    functions.define("numtoyminterval", 2, |context| {
        let (Some(number), Some(unit)) = (real(context, 0)?, text(context, 1)) else {
            return Ok(Value::Null);
        };
        let months = match unit.trim().to_ascii_uppercase().as_str() {
            "YEAR" => number * 12.0,
            "MONTH" => number,
            _ => return Err(refused(format!("'{unit}' is no unit; YEAR and MONTH are"))),
        };
        Ok(Value::Text(Interval::text(months.round() as i64)))
    })?;
    functions.define("to_yminterval", 1, |context| {
        let Some(of) = text(context, 0) else { return Ok(Value::Null) };
        match Interval::of_fields(&of, "YEAR", Some("MONTH")) {
            Some(Interval { months, .. }) => Ok(Value::Text(Interval::text(months))),
            None => {
                Err(refused(format!("'{of}' is no interval of years and months, such as '1-2'")))
            }
        }
    })?;
    functions.define("to_dsinterval", 1, |context| {
        let Some(of) = text(context, 0) else { return Ok(Value::Null) };
        match Interval::of_fields(&of, "DAY", Some("SECOND")) {
            Some(Interval { micros, .. }) => {
                computed(Number::Whole(micros), Operator::Over, Number::Whole(DAY)).map(value)
            }
            None => Err(refused(format!("'{of}' is no interval of days, such as '1 06:30:00'"))),
        }
    })
}

fn create_parts(functions: &Functions<'_>) -> Result<()> {
    functions.define("add_months", 2, |context| {
        match (need_time(context, 0)?, whole(context, 1)?) {
            (Some(time), Some(months)) => made(time.plus_months(months)),
            _ => Ok(Value::Null),
        }
    })?;
    functions.define("plinth_extract", 2, |context| {
        let Some(field) = text(context, 0) else { return Ok(Value::Null) };
        if let ValueRef::Integer(_) | ValueRef::Real(_) = context.get_raw(1) {
            return of_days(&field, real(context, 1)?.unwrap_or(0.0));
        }
        let Some(time) = need_time(context, 1)? else { return Ok(Value::Null) };
        time.field(&field).map(value).ok_or_else(|| refused(format!("a time has no {field}")))
    })?;
    functions.define("months_between", 2, |context| {
        let (Some(a), Some(b)) = (need_time(context, 0)?, need_time(context, 1)?) else {
            return Ok(Value::Null);
        };
        computed(Number::Whole(a.days31_since(b)), Operator::Over, Number::Whole(31 * DAY))
            .map(value)
    })?;
    functions.define("last_day", 1, |context| match need_time(context, 0)? {
        Some(time) => made(time.last_of_month()),
        None => Ok(Value::Null),
    })?;
    functions.define("next_day", 2, |context| {
        let (Some(time), Some(day)) = (need_time(context, 0)?, text(context, 1)) else {
            return Ok(Value::Null);
        };
        let next = time.next_day(&day);
        made(Some(next.ok_or_else(|| refused(format!("'{day}' is no day of the week")))?))
    })?;
    functions.define("date_trunc", 2, |context| {
        let (Some(unit), Some(time)) = (text(context, 0), need_time(context, 1)?) else {
            return Ok(Value::Null);
        };
        made_of(Some(match unit.trim().to_ascii_lowercase().as_str() {
            "second" => time.in_second(),
            "day" => time.truncated("DD").unwrap_or(time),
            "week" => time.truncated("IW").unwrap_or(time),
            "quarter" => time.truncated("Q").unwrap_or(time),
            "century" => time.truncated("CC").unwrap_or(time),
            unit => time
                .truncated(unit)
                .ok_or_else(|| refused(format!("a time is not cut to '{unit}'")))?,
        }))
    })
}

fn create_zones(functions: &Functions<'_>) -> Result<()> {
    for name in ["dbtimezone", "sessiontimezone"] {
        functions.connection.create_scalar_function(name, 0, FLAGS, |_| Ok("+00:00"))?;
    }
    functions.define("tz_offset", 1, |context| {
        let Some(zone) = text(context, 0) else { return Ok(Value::Null) };
        let minutes = zone_minutes(&zone).map_err(refused)?;
        let (sign, ahead) = if minutes < 0 { ('-', -minutes) } else { ('+', minutes) };
        Ok(Value::Text(format!("{sign}{:02}:{:02}", ahead / 60, ahead % 60)))
    })?;
    // Times are in UTC: a time of another zone becomes one of UTC.
    functions.define("from_tz", 2, |context| {
        let (Some(time), Some(zone)) = (need_time(context, 0)?, text(context, 1)) else {
            return Ok(Value::Null);
        };
        made(time.plus(-zone_minutes(&zone).map_err(refused)? * 60_000_000))
    })?;
    functions.define("sys_extract_utc", 1, |context| made_of(need_time(context, 0)?))?;
    // `t AT TIME ZONE zone`: the time that a clock there shows.
    functions.define("plinth_at_zone", 2, |context| {
        let (Some(time), Some(zone)) = (need_time(context, 0)?, text(context, 1)) else {
            return Ok(Value::Null);
        };
        made(time.plus(zone_minutes(&zone).map_err(refused)? * 60_000_000))
    })?;
    functions.define("new_time", 3, |context| {
        let (Some(time), Some(from), Some(to)) =
            (need_time(context, 0)?, text(context, 1), text(context, 2))
        else {
            return Ok(Value::Null);
        };
        let zone = |name: &str| {
            let found = ZONES.iter().find(|(zone, _)| zone.eq_ignore_ascii_case(name.trim()));
            found.map(|(_, ahead)| *ahead).ok_or_else(|| {
                refused(format!("'{name}' is no zone of NEW_TIME, as GMT, EST and PDT are"))
            })
        };
        made(time.plus((zone(&to)? - zone(&from)?) * 1_800_000_000))
    })
}

/// A part of an interval, which is a number of days.
fn of_days(field: &str, days: f64) -> Result<Value> {
    let micros = (days * DAY as f64).round() as i64;
    let second = Number::Whole(micros % 60_000_000);
    Ok(match field.to_ascii_uppercase().as_str() {
        "DAY" => Value::Integer(micros / DAY),
        "HOUR" => Value::Integer(micros / 3_600_000_000 % 24),
        "MINUTE" => Value::Integer(micros / 60_000_000 % 60),
        "SECOND" => value(computed(second, Operator::Over, Number::Whole(1_000_000))?),
        "EPOCH" => {
            value(computed(Number::Whole(micros), Operator::Over, Number::Whole(1_000_000))?)
        }
        _ => return Err(refused(format!("an interval of days has no {field}"))),
    })
}

/// Adds days or months to a time, or subtracts them; the same with two numbers.
fn plus(context: &Context<'_>, rules: Rules, operator: Operator) -> Result<Value> {
    let is_minus = matches!(operator, Operator::Minus);
    let later = |time: Time, by: usize| {
        let months = match context.get_raw(by) {
            ValueRef::Text(text) => std::str::from_utf8(text).ok().and_then(Interval::months_of),
            _ => None,
        };
        if let Some(months) = months {
            let months = if is_minus { -months } else { months };
            // In Oracle there is no 30th of February; in PostgreSQL it is the last day.
            let found = time.months_later(months, rules == Rules::PostgreSql);
            return made_of(Some(found.ok_or_else(|| {
                refused(format!("{months} months from {} there is no such day", time.date_text()))
            })?));
        }
        let Some(days) = real(context, by)? else { return Ok(Value::Null) };
        // Of a time without a fraction of a second, the result has none.
        let later = time.plus_days(if is_minus { -days } else { days });
        made(if time.has_fraction() { later } else { later.and_then(Time::to_second) })
    };
    match (time(context, 0), time(context, 1)) {
        (Some(time), None) => later(time, 1),
        (None, Some(time)) if !is_minus => later(time, 0),
        _ => match (number(context, 0)?, number(context, 1)?) {
            (Some(a), Some(b)) => computed(a, operator, b).map(value),
            _ => Ok(Value::Null),
        },
    }
}
