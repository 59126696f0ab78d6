//! Values as the protocol carries them: as text and as PostgreSQL's binary forms, in and out.

use super::arrays;
use crate::{
    query::{Time, number_of_client, views::Type},
    sql_error::{SqlError, state},
};
use bytes::{BufMut, BytesMut};
use plinth_engine::admin::Value;

/// Numbers of types, as in `pg_type`.
pub(super) mod oid {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const CHAR: u32 = 18;
    pub const NAME: u32 = 19;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT4: u32 = 23;
    pub const TEXT: u32 = 25;
    pub const OID: u32 = 26;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const UNKNOWN: u32 = 705;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const DATE: u32 = 1082;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const NUMERIC: u32 = 1700;
}

/// A type's number and size.
pub(super) fn type_number(kind: Type) -> (u32, i16) {
    match kind {
        Type::Integer => (oid::INT8, 8),
        Type::Real => (oid::FLOAT8, 8),
        Type::Text => (oid::TEXT, -1),
        Type::Time => (oid::TIMESTAMP, 8),
        Type::Truth => (oid::BOOL, 1),
        Type::Letter => (oid::CHAR, 1),
    }
}

/// The type of a parameter that is reported to the client: the declared or the inferred one; text
/// if there is none.
pub(super) fn told(number: Option<u32>) -> u32 {
    number.filter(|number| *number != 0).unwrap_or(oid::TEXT)
}

/// The format of a column or parameter: no format means text, and a single one holds for all.
pub(super) fn format_of(formats: &[i16], at: usize) -> i16 {
    match formats {
        [one] => *one,
        formats => formats.get(at).copied().unwrap_or(0),
    }
}

/// A parameter's value.
pub(super) fn parameter(bytes: &[u8], number: u32, binary: bool) -> Result<Value, SqlError> {
    let bad = || SqlError::new(state::BAD_VALUE, "a parameter is not what its type says");
    if !binary {
        let text = std::str::from_utf8(bytes).map_err(|_| bad())?;
        let not = |what: &str| {
            SqlError::new(state::BAD_VALUE, format!("a parameter is no {what}: \"{text}\""))
        };
        return Ok(match number {
            oid::INT2 | oid::INT4 | oid::INT8 | oid::OID => {
                Value::Integer(text.trim().parse().map_err(|_| not("integer"))?)
            }
            oid::FLOAT4 | oid::FLOAT8 => {
                Value::Real(text.trim().parse().map_err(|_| not("number"))?)
            }
            // An integer is kept as an integer, so that nothing is rounded.
            oid::NUMERIC => number_of_client(text.trim())
                .map_err(|why| SqlError::new(state::BAD_VALUE, format!("a parameter: {why}")))?,
            oid::BOOL => match text.trim().to_ascii_lowercase().as_str() {
                "t" | "true" | "on" | "yes" | "y" | "1" => Value::Integer(1),
                "f" | "false" | "off" | "no" | "n" | "0" => Value::Integer(0),
                _ => return Err(not("boolean")),
            },
            oid::TIMESTAMP | oid::TIMESTAMPTZ => {
                let time = Time::of_client(text).ok_or_else(|| {
                    not("time").hint("write YYYY-MM-DD HH:MI:SS, or TO_DATE($1::text, model)")
                })?;
                Value::Text(time.text())
            }
            _ => Value::Text(text.to_owned()),
        });
    }
    Ok(match (number, bytes) {
        (oid::BOOL, [value]) => Value::Integer(i64::from(*value != 0)),
        (oid::INT2, bytes) => {
            Value::Integer(i64::from(i16::from_be_bytes(bytes.try_into().map_err(|_| bad())?)))
        }
        (oid::INT4, bytes) => {
            Value::Integer(i64::from(i32::from_be_bytes(bytes.try_into().map_err(|_| bad())?)))
        }
        (oid::OID, bytes) => {
            Value::Integer(i64::from(u32::from_be_bytes(bytes.try_into().map_err(|_| bad())?)))
        }
        (oid::INT8, bytes) => {
            Value::Integer(i64::from_be_bytes(bytes.try_into().map_err(|_| bad())?))
        }
        (oid::FLOAT4, bytes) => {
            Value::Real(f64::from(f32::from_be_bytes(bytes.try_into().map_err(|_| bad())?)))
        }
        (oid::FLOAT8, bytes) => {
            Value::Real(f64::from_be_bytes(bytes.try_into().map_err(|_| bad())?))
        }
        (oid::NUMERIC, bytes) => number_of_client(&numeric(bytes).ok_or_else(bad)?)
            .map_err(|why| SqlError::new(state::BAD_VALUE, format!("a parameter: {why}")))?,
        (oid::DATE, bytes) => {
            let days = i64::from(i32::from_be_bytes(bytes.try_into().map_err(|_| bad())?));
            let micros = days.checked_mul(86_400_000_000);
            let time = micros.and_then(Time::of_epoch).ok_or_else(bad)?;
            Value::Text(time.text().chars().take(10).collect())
        }
        (oid::TIMESTAMP | oid::TIMESTAMPTZ, bytes) => {
            let micros = i64::from_be_bytes(bytes.try_into().map_err(|_| bad())?);
            Value::Text(Time::of_epoch(micros).ok_or_else(bad)?.text())
        }
        (oid::BYTEA, bytes) => Value::Blob(bytes.to_vec()),
        (number, bytes) if arrays::is_array(number) => arrays::text_of(bytes)?,
        (
            0 | oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::CHAR | oid::UNKNOWN,
            bytes,
        ) => Value::Text(String::from_utf8(bytes.to_vec()).map_err(|_| bad())?),
        _ => {
            return Err(SqlError::new(
                state::NOT_SUPPORTED,
                format!("a binary parameter of type {number}"),
            )
            .hint("send it as text, or CAST it in the client"));
        }
    })
}

/// Decodes PostgreSQL's decimal numbers, digits to the base 10000 with the weight of the first: as
/// a text of decimal digits.
fn numeric(bytes: &[u8]) -> Option<String> {
    /// More digits than any number has that is not refused.
    const WEIGHT_MAX: i16 = 100;
    let mut words = bytes.chunks_exact(2).map(|word| i16::from_be_bytes([word[0], word[1]]));
    let (count, weight, sign, _scale) =
        (words.next()?, words.next()?, words.next()?, words.next()?);
    let digits: Vec<i16> = words.collect();
    if digits.len() != usize::try_from(count).ok()?
        || !bytes.len().is_multiple_of(2)
        || !(-WEIGHT_MAX..=WEIGHT_MAX).contains(&weight)
        || digits.iter().any(|digit| !(0..10_000).contains(digit))
    {
        return None;
    }
    let digit = |place: i16| {
        let at = usize::try_from(weight - place).ok();
        at.and_then(|at| digits.get(at)).copied().unwrap_or(0)
    };
    let mut text = match sign {
        0 => String::new(),
        0x4000 => String::from("-"),
        _ => return None,
    };
    for place in (0..=weight.max(0)).rev() {
        text.push_str(&format!("{:04}", digit(place)));
    }
    let last = weight.saturating_sub(count).saturating_add(1);
    if last < 0 {
        text.push('.');
        (last..0).rev().for_each(|place| text.push_str(&format!("{:04}", digit(place))));
    }
    Some(text)
}

/// A value's text, as PostgreSQL writes it.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) if number.is_infinite() => {
            if *number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
        }
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => {
            use std::fmt::Write as _;
            bytes.iter().fold(String::from("\\x"), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
        }
    }
}

/// Appends a value with its length.
pub(super) fn put(
    out: &mut BytesMut,
    value: &Value,
    kind: Type,
    binary: bool,
) -> Result<(), SqlError> {
    let mut put = |bytes: &[u8]| {
        let length = i32::try_from(bytes.len())
            .map_err(|_| SqlError::new(state::TOO_COMPLEX, "a value is too long"))?;
        out.put_i32(length);
        out.put_slice(bytes);
        Ok(())
    };
    match (value, kind) {
        (Value::Null, _) => {
            out.put_i32(-1);
            Ok(())
        }
        (value, Type::Text | Type::Letter) => put(text_of(value).as_bytes()),
        (value, _) if !binary => put(text_of(value).as_bytes()),
        (Value::Text(text), Type::Time) if Time::parse(text).is_some() => {
            let micros = Time::parse(text).map_or(0, Time::since_epoch);
            put(&micros.to_be_bytes())
        }
        (Value::Text(truth), Type::Truth) => put(&[u8::from(truth == "t")]),
        (Value::Integer(number), Type::Integer) => put(&number.to_be_bytes()),
        (Value::Integer(number), Type::Real) => put(&(*number as f64).to_be_bytes()),
        (Value::Real(number), Type::Real) => put(&number.to_be_bytes()),
        (Value::Real(number), Type::Integer) if number.fract() == 0.0 && number.abs() < 9e18 => {
            put(&(*number as i64).to_be_bytes())
        }
        _ => Err(SqlError::new(
            state::BAD_VALUE,
            "a value is not of the type that its column was said to have",
        )
        .hint("CAST the column, or use text results")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_parameters_are_what_clients_mean() {
        for (number, bytes, value) in [
            (oid::INT2, &[0xff, 0xfe][..], Value::Integer(-2)),
            (oid::INT8, &[0, 0, 0, 0, 0, 0, 1, 0], Value::Integer(256)),
            (oid::FLOAT8, &1.5_f64.to_be_bytes(), Value::Real(1.5)),
            // 12345.678, negative
            (
                oid::NUMERIC,
                &[0, 3, 0, 1, 0x40, 0, 0, 3, 0, 1, 9, 41, 26, 124],
                Value::Real(-12345.678),
            ),
            // 9007199254740993, which no real is.
            (
                oid::NUMERIC,
                &[0, 4, 0, 3, 0, 0, 0, 0, 0x23, 0x2F, 0x07, 0xC8, 0x15, 0x62, 0x03, 0xE1],
                Value::Integer(9_007_199_254_740_993),
            ),
            (oid::DATE, &[0, 0, 0, 31], Value::Text("2000-02-01".into())),
            (
                oid::TIMESTAMP,
                &1_000_000_i64.to_be_bytes(),
                Value::Text("2000-01-01 00:00:01".into()),
            ),
            (
                oid::TIMESTAMP,
                &(-500_000_i64).to_be_bytes(),
                Value::Text("1999-12-31 23:59:59.5".into()),
            ),
        ] {
            assert_eq!(parameter(bytes, number, true).expect("a value"), value);
        }
    }

    /// Times are compared as texts, so whatever form a driver sends becomes the form of the views,
    /// in UTC.
    #[test]
    fn times_of_clients_are_times_of_the_views() {
        for (text, expected) in [
            ("2026-03-07 15:04:09", "2026-03-07 15:04:09"),
            ("2026-03-07", "2026-03-07 00:00:00"),
            ("2026-03-07T15:04:09.000+00:00", "2026-03-07 15:04:09"),
            ("2026-03-07T15:04:09.25Z", "2026-03-07 15:04:09.25"),
            ("2026-03-07 01:04:09+02", "2026-03-06 23:04:09"),
            ("2026-03-07 15:04:09-03:30", "2026-03-07 18:34:09"),
            ("2026-03-07 15:04:09 +05:30", "2026-03-07 09:34:09"),
        ] {
            for number in [oid::TIMESTAMP, oid::TIMESTAMPTZ] {
                let found = parameter(text.as_bytes(), number, false).expect(text);
                assert_eq!(found, Value::Text(expected.into()), "{text}");
            }
        }
        for nonsense in ["yesterday", "07-MAR-26", "infinity", "2026-03-07 15:04:09+99"] {
            let error = parameter(nonsense.as_bytes(), oid::TIMESTAMP, false).expect_err(nonsense);
            assert!(error.message.contains(nonsense) && error.hint.is_some(), "{error}");
        }
    }

    /// Text results are the text of the view; binary ones are microseconds since 2000.
    #[test]
    fn times_are_sent_as_timestamps() {
        assert_eq!(type_number(Type::Time), (oid::TIMESTAMP, 8));
        let sent = |text: &str, binary| {
            let mut out = BytesMut::new();
            put(&mut out, &Value::Text(text.into()), Type::Time, binary).map(|()| out.to_vec())
        };
        let text = sent("2026-03-07 15:04:09", false).expect("text");
        assert_eq!(text[4..], *b"2026-03-07 15:04:09");
        for (text, micros) in [
            ("2000-01-01 00:00:01", 1_000_000_i64),
            ("1999-12-31 23:59:59.5", -500_000),
            ("2000-02-01", 31 * 86_400_000_000),
            ("9999-12-31 23:59:59.999999", 252_455_615_999_999_999),
            ("0001-01-01 00:00:00", -63_082_281_600_000_000),
        ] {
            let bytes = sent(text, true).expect(text);
            assert_eq!(bytes[..4], 8_i32.to_be_bytes(), "{text}");
            assert_eq!(bytes[4..], micros.to_be_bytes(), "{text}");
        }
        assert!(sent("soon", true).is_err());
        let mut out = BytesMut::new();
        put(&mut out, &Value::Null, Type::Time, true).expect("NULL");
        assert_eq!(out[..], (-1_i32).to_be_bytes());
    }

    #[test]
    fn no_bytes_are_read_that_are_not_there() {
        for number in 0..2000 {
            for length in 0..20 {
                let _ = parameter(&vec![0x7f; length], number, true);
                let _ = parameter(&vec![0xff; length], number, true);
                let _ = parameter(&vec![b'9'; length], number, false);
            }
        }
    }
}
