//! Arrays as parameters: `name = ANY($1)`. Queries see them as texts, `{a,"b c"}`; drivers that ask
//! for the type of a parameter send them in PostgreSQL's binary form, and only if they are told
//! that it is an array.

use super::values::{self, oid};
use crate::{
    query::{infer_types, views::Type},
    sql::tokens::{Kind, Token},
    sql_error::{SqlError, state},
};
use plinth_engine::admin::Value;
use std::collections::BTreeMap;

/// Types of elements with their names in a cast, and that of their arrays.
const TYPES: [(u32, &[&str], u32); 16] = [
    (oid::BOOL, &["bool", "boolean"], 1000),
    (oid::CHAR, &[], 1002),
    (oid::NAME, &["name"], 1003),
    (oid::INT2, &["int2", "smallint"], 1005),
    (oid::INT4, &["int4", "int", "integer"], 1007),
    (oid::TEXT, &["text"], 1009),
    (oid::BPCHAR, &["char", "character", "bpchar"], 1014),
    (oid::VARCHAR, &["varchar"], 1015),
    (oid::INT8, &["int8", "bigint"], 1016),
    (oid::FLOAT4, &["float4", "real"], 1021),
    (oid::FLOAT8, &["float8", "double", "float"], 1022),
    (oid::OID, &["oid"], 1028),
    (oid::TIMESTAMP, &["timestamp"], 1115),
    (oid::DATE, &["date"], 1182),
    (oid::TIMESTAMPTZ, &["timestamptz"], 1185),
    (oid::NUMERIC, &["numeric", "decimal"], 1231),
];

/// `text[]`.
const TEXTS: u32 = 1009;

pub(super) fn is_array(number: u32) -> bool {
    TYPES.iter().any(|(_, _, array)| *array == number)
}

/// The parameters that are arrays, by their place: `$1` is 0. Their elements have the type of what
/// they are compared with.
pub(super) fn in_query(tokens: &[Token]) -> BTreeMap<usize, u32> {
    let mut found = BTreeMap::new();
    // `x = ANY($1)` compares as `x = $1` does.
    let mut plain: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut rest = tokens;
    while let [first, behind @ ..] = rest {
        if let [open, parameter, close, ..] = behind
            && (first.is("ANY") || first.is("ALL") || first.is("SOME"))
            && open.is_symbol("(")
            && (close.is_symbol(")") || close.is_symbol("::"))
            && let Some(place) = place(parameter)
        {
            let cast = behind.get(2..).unwrap_or_default();
            found.insert(place, cast_to(cast).unwrap_or(0));
            plain.push(parameter.clone());
            rest = behind.get(if close.is_symbol(")") { 3 } else { 2 }..).unwrap_or_default();
        } else {
            plain.push(first.clone());
            rest = behind;
        }
    }
    if found.is_empty() {
        return found;
    }
    let kinds = infer_types::of_parameters(&plain);
    for (place, number) in found.iter_mut().filter(|(_, number)| **number == 0) {
        let kind = kinds.get(*place).copied().flatten().unwrap_or(Type::Text);
        let element = values::type_number(kind).0;
        let array = TYPES.iter().find(|(one, ..)| *one == element);
        *number = array.map_or(TEXTS, |(_, _, array)| *array);
    }
    found
}

/// The array that a cast names: `::text[]`, `::pg_catalog.oid[]`.
fn cast_to(tokens: &[Token]) -> Option<u32> {
    let [cast, rest @ ..] = tokens else { return None };
    let name = match rest {
        [schema, dot, name, ..] if schema.is("pg_catalog") && dot.is_symbol(".") => name,
        [name, ..] => name,
        [] => return None,
    };
    let is_called = |names: &[&str]| names.iter().any(|one| name.is(one));
    let found =
        TYPES.iter().filter(|_| cast.is_symbol("::")).find(|(_, names, _)| is_called(names));
    found.map(|(_, _, array)| *array)
}

fn place(token: &Token) -> Option<usize> {
    let Kind::Symbol(symbol) = &token.kind else { return None };
    symbol.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

fn short() -> SqlError {
    SqlError::new(state::BAD_VALUE, "a parameter is not what its type says")
}

/// Takes the next word.
fn word(rest: &mut &[u8]) -> Result<i32, SqlError> {
    let (word, behind) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    *rest = behind;
    Ok(i32::from_be_bytes(*word))
}

/// An array in binary form, as the text that queries see.
pub(super) fn text_of(bytes: &[u8]) -> Result<Value, SqlError> {
    let mut rest = bytes;
    let (dimensions, _has_nulls) = (word(&mut rest)?, word(&mut rest)?);
    let element = word(&mut rest)?.cast_unsigned();
    if dimensions == 0 {
        return Ok(Value::Text("{}".to_owned()));
    }
    if dimensions != 1 {
        let text = format!("an array of {dimensions} dimensions as a parameter");
        return Err(SqlError::new(state::NOT_SUPPORTED, text).hint("send a list"));
    }
    if is_array(element) {
        return Err(short());
    }
    let (count, _first) = (word(&mut rest)?, word(&mut rest)?);
    let mut elements = Vec::new();
    for _ in 0..count {
        let Ok(length) = usize::try_from(word(&mut rest)?) else {
            elements.push("NULL".to_owned());
            continue;
        };
        let (bytes, behind) = rest.split_at_checked(length).ok_or_else(short)?;
        rest = behind;
        elements.push(match values::parameter(bytes, element, true)? {
            Value::Text(text) => {
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            other => values::text_of(&other),
        });
    }
    Ok(Value::Text(format!("{{{}}}", elements.join(","))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Query;

    #[test]
    fn arrays_are_told_from_single_values() {
        let query = "SELECT 1 FROM v$asm_disk WHERE name = ANY($1) AND disk_number = ANY($2) AND path = $3 \
                     AND mount_date <> ALL($4) AND name = ANY($5::text[]) AND group_number = ANY($6::pg_catalog.oid[])";
        let tokens = Query::new(query).expect("a query").tokens;
        let expected = [(0, 1009), (1, 1016), (3, 1115), (4, 1009), (5, 1028)];
        assert_eq!(in_query(&tokens), BTreeMap::from(expected));
    }

    /// Dimensions, whether there are NULLs, the elements' type, length and first place; elements.
    fn array(dimensions: i32, element: u32, elements: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut word = |word: i32| bytes.extend(word.to_be_bytes());
        [dimensions, 1, element.cast_signed()].into_iter().for_each(&mut word);
        [elements.len() as i32, 1].into_iter().for_each(&mut word);
        for element in elements {
            bytes.extend(element.map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
            bytes.extend(element.unwrap_or_default());
        }
        bytes
    }

    #[test]
    fn a_binary_array_is_a_text_for_queries() {
        let text = |bytes: &[u8]| text_of(bytes).map_err(|error| error.message);
        let names = array(1, oid::TEXT, &[Some(b"DATA"), None, Some(b"x, \"y\\")]);
        assert_eq!(text(&names), Ok(Value::Text(r#"{"DATA",NULL,"x, \"y\\"}"#.to_owned())));
        let numbers = array(1, oid::INT8, &[Some(&7_i64.to_be_bytes()), Some(&[0xff; 8])]);
        assert_eq!(text(&numbers), Ok(Value::Text("{7,-1}".to_owned())));
        assert_eq!(text(&array(0, oid::INT8, &[])), Ok(Value::Text("{}".to_owned())));
        assert!(text(&array(2, oid::INT8, &[])).is_err());
        // However it is cut, it is refused and nothing is read that is not there.
        for length in 0..names.len() {
            assert!(text_of(&names[..length]).is_err(), "{length} bytes");
        }
        assert!(text_of(&array(1, oid::INT8, &[Some(b"short")])).is_err());
    }
}
