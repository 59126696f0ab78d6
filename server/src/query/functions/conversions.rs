//! Conversions between numbers, texts and times: TO_CHAR, TO_NUMBER, CAST.

use super::{
    Functions, LONG, Result, as_real, decimals,
    intervals::Interval,
    need_time, number,
    numbers::{self, Marks, Number},
    refused, text, text_by, time, times, value, whole,
};
use crate::sql::rules::Rules;
use rusqlite::{functions::Context, types::Value};

pub(super) fn create(functions: &Functions<'_>) -> Result<()> {
    create_to_char(functions)?;
    create_casts(functions)?;
    for (name, arguments) in [("to_number", 1), ("to_number", 2), ("to_number", 3)] {
        functions.define(name, arguments, |context| to_number(context, 0))?;
    }
    for (name, arguments) in [("to_number_or", 2), ("to_number_or", 3), ("to_number_or", 4)] {
        functions.define(&format!("plinth_{name}"), arguments, |context| {
            // The first argument is the result if the conversion fails.
            to_number(context, 1).or_else(|_| context.get(0))
        })?;
    }
    for name in ["to_binary_double", "to_binary_float"] {
        functions.define(name, 1, |context| to_number(context, 0))?;
    }
    functions
        .define("plinth_number", 1, |context| Ok(number(context, 0)?.map_or(Value::Null, value)))?;
    functions.define("plinth_int", 1, |context| {
        Ok(match number(context, 0)? {
            Some(Number::Real(real)) if real.abs() >= 9.3e18 => {
                return Err(refused("this is too large for an integer"));
            }
            Some(Number::Real(real)) => Value::Integer(real.round() as i64),
            Some(Number::Whole(whole)) => Value::Integer(whole),
            None => Value::Null,
        })
    })
}

fn create_to_char(functions: &Functions<'_>) -> Result<()> {
    for name in ["to_char", "to_nchar", "to_clob"] {
        functions.define_by_rules(name, 1, |context, rules| {
            Ok(text_by(context, 0, rules).map_or(Value::Null, Value::Text))
        })?;
    }
    for arguments in [2, 3] {
        functions.define("to_char", arguments, to_char)?;
        functions.define("to_nchar", arguments, to_char)?;
    }
    Ok(())
}

fn create_casts(functions: &Functions<'_>) -> Result<()> {
    functions.define("plinth_decimal", 3, |context| {
        let (precision, scale) = (whole(context, 1)?, whole(context, 2)?);
        let (Some(number), Some(precision), Some(scale)) = (number(context, 0)?, precision, scale)
        else {
            return Ok(Value::Null);
        };
        let rounded = decimals::nearest(number, scale);
        let most = 10_f64.powi(i32::try_from(precision - scale).unwrap_or(i32::MAX));
        if as_real(rounded).abs() >= most {
            let shown = decimals::text(number, Rules::PostgreSql);
            return Err(refused(format!(
                "{shown} has more digits than NUMBER({precision},{scale})"
            )));
        }
        Ok(value(rounded))
    })?;
    functions.define_by_rules("plinth_char", 3, |context, rules| {
        let (of, length, pads) =
            (text_by(context, 0, rules), whole(context, 1)?, whole(context, 2)?);
        let length = length.and_then(|length| usize::try_from(length).ok());
        let (Some(of), Some(length)) = (of, length.filter(|length| *length <= LONG)) else {
            return Ok(Value::Null);
        };
        let cut: String = of.chars().take(length).collect();
        Ok(Value::Text(if pads == Some(1) { format!("{cut:length$}") } else { cut }))
    })?;
    functions.define_by_rules("plinth_cast_date", 1, |context, rules| {
        Ok(need_time(context, 0)?.map_or(Value::Null, |time| {
            // A DATE of Oracle's has a time of day.
            let is_whole = rules == Rules::Oracle;
            Value::Text(if is_whole { time.in_second().text() } else { time.date_text() })
        }))
    })?;
    functions.define("plinth_interval", 1, |context| {
        let Some(of) = text(context, 0) else { return Ok(Value::Null) };
        if let Ok(Some(days)) = number(context, 0) {
            return Ok(value(days));
        }
        match Interval::parse(&of) {
            Some(Interval { months: 0, micros }) => {
                let micros = Number::Whole(micros);
                let day = Number::Whole(times::DAY);
                decimals::computed(micros, decimals::Operator::Over, day).map(value)
            }
            Some(Interval { months, .. }) => Ok(Value::Text(Interval::text(months))),
            None => Err(refused(format!("'{of}' is no interval of days, or of months"))),
        }
    })
}

/// `TO_NUMBER(text [, model [, marks]])`, from the argument at `from`.
fn to_number(context: &Context<'_>, from: usize) -> Result<Value> {
    if context.len() == from + 1 {
        return Ok(number(context, from)?.map_or(Value::Null, value));
    }
    let (Some(of), Some(model)) = (text(context, from), text(context, from + 1)) else {
        return Ok(Value::Null);
    };
    let marks = marks(context, from + 2)?;
    numbers::read_with(&of, Some(&model), &marks).map(value).map_err(refused)
}

fn marks(context: &Context<'_>, at: usize) -> Result<Marks> {
    text(context, at).map_or_else(|| Ok(Marks::default()), |text| Marks::of(&text).map_err(refused))
}

/// `TO_CHAR(time or number, model [, settings])`
fn to_char(context: &Context<'_>) -> Result<Value> {
    let (Some(of), Some(model)) = (text(context, 0), text(context, 1)) else {
        return Ok(Value::Null);
    };
    let written = match time(context, 0) {
        Some(time) => {
            super::dates::in_english(context, 2)?;
            time.written(&model)
        }
        None => match number(context, 0) {
            Ok(Some(number)) => numbers::written(number, &model, &marks(context, 2)?),
            _ => Err(format!("'{of}' is neither a time nor a number")),
        },
    };
    written.map(Value::Text).map_err(refused)
}
