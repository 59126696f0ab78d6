//! PostgreSQL's arrays, `{a,"b c"}`: here they are texts, and these functions build and split them.

use crate::query::mentions::Registry;
use rusqlite::{
    functions::{Aggregate, Context, FunctionFlags},
    types::Value,
};

/// The elements of an array.
pub(super) fn elements(list: &str) -> Vec<String> {
    let inside =
        list.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(list);
    let (mut found, mut element, mut quoted, mut escaped) =
        (Vec::new(), String::new(), false, false);
    for character in inside.chars() {
        match character {
            _ if escaped => {
                element.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            ',' if !quoted => found.push(std::mem::take(&mut element)),
            _ => element.push(character),
        }
    }
    if !inside.is_empty() {
        found.push(element);
    }
    found
}

/// A value, written as an element of an array.
fn element(value: &Value) -> String {
    match value {
        Value::Null | Value::Blob(_) => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => {
            let is_plain = !text.is_empty()
                && !text.eq_ignore_ascii_case("null")
                && !text
                    .contains(|letter: char| letter.is_whitespace() || r#"{}",\"#.contains(letter));
            if is_plain {
                text.clone()
            } else {
                format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
            }
        }
    }
}

fn list(values: impl IntoIterator<Item = Value>) -> String {
    let elements: Vec<String> = values.into_iter().map(|value| element(&value)).collect();
    format!("{{{}}}", elements.join(","))
}

/// `array_agg`.
struct Gather;

impl Aggregate<Vec<Value>, Option<String>> for Gather {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Vec<Value>> {
        Ok(Vec::new())
    }

    fn step(&self, context: &mut Context<'_>, gathered: &mut Vec<Value>) -> rusqlite::Result<()> {
        gathered.push(context.get(0)?);
        Ok(())
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        gathered: Option<Vec<Value>>,
    ) -> rusqlite::Result<Option<String>> {
        Ok(gathered.map(list))
    }
}

/// The number of elements of an array; `None` if the value is not an array, or empty.
fn length(context: &Context<'_>) -> rusqlite::Result<Option<i64>> {
    let count = context.get::<Option<String>>(0)?.map_or(0, |list| elements(&list).len());
    Ok(i64::try_from(count).ok().filter(|count| *count > 0))
}

pub(super) fn create(connection: Registry<'_>) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8;
    // The subqueries used with this function return at most one row here.
    connection.create_scalar_function("pg_array", 1, flags, |context| {
        Ok(context
            .get::<Option<String>>(0)?
            .map_or_else(|| "{}".to_owned(), |one| list([Value::Text(one)])))
    })?;
    connection.create_scalar_function("pg_list", -1, flags, |context| {
        Ok(list(
            (0..context.len())
                .map(|at| context.get(at))
                .collect::<rusqlite::Result<Vec<Value>>>()?,
        ))
    })?;
    connection.create_aggregate_function("array_agg", 1, flags, Gather)?;
    connection.create_scalar_function("pg_any", 2, flags, |context| {
        let (of, list): (Value, Option<String>) = (context.get(0)?, context.get(1)?);
        let of = match of {
            Value::Null => return Ok(None),
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Text(text) => text,
            Value::Blob(_) => return Ok(Some(false)),
        };
        Ok(list.map(|list| elements(&list).contains(&of)))
    })?;
    // For arrays in the catalog, which are empty here.
    for count in [2, 3] {
        connection
            .create_scalar_function("generate_subscripts", count, flags, |_| Ok(None::<i64>))?;
    }
    for (name, count) in [("array_length", 2), ("array_upper", 2), ("cardinality", 1)] {
        connection.create_scalar_function(name, count, flags, length)?;
    }
    connection.create_scalar_function("array_lower", 2, flags, |context| {
        Ok(length(context)?.map(|_| 1))
    })?;
    connection.create_scalar_function("array_position", 2, flags, |context| {
        let (list, of): (Option<String>, Value) = (context.get(0)?, context.get(1)?);
        let of = match of {
            Value::Text(text) => text,
            other => element(&other),
        };
        let place = list.and_then(|list| elements(&list).iter().position(|element| *element == of));
        Ok(place.and_then(|place| i64::try_from(place + 1).ok()))
    })?;
    connection.create_scalar_function("array_to_string", 2, flags, |context| {
        let (list, between): (Option<String>, Option<String>) = (context.get(0)?, context.get(1)?);
        Ok(list.zip(between).map(|(list, between)| elements(&list).join(&between)))
    })?;
    connection.create_scalar_function("string_to_array", 2, flags, |context| {
        let (text, between): (Option<String>, Option<String>) = (context.get(0)?, context.get(1)?);
        Ok(text.zip(between).map(|(text, between)| match between.as_str() {
            "" => list([Value::Text(text)]),
            between => list(
                text.split(between)
                    .filter(|_| !text.is_empty())
                    .map(|one| Value::Text(one.to_owned())),
            ),
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_apart_and_put_together() {
        for (written, apart) in [
            (r#"{a,"b, c","d\"e"}"#, &["a", "b, c", "d\"e"][..]),
            ("{}", &[]),
            ("{1,2}", &["1", "2"]),
            (r#"{""}"#, &[""]),
        ] {
            assert_eq!(elements(written), apart);
            assert_eq!(list(apart.iter().map(|one| Value::Text((*one).to_owned()))), written);
        }
    }
}
