//! Bind variables: VARIABLE makes them, EXECUTE gives them values, PRINT shows them.
//!
//! The server gets no parameters: `:name` in a statement, outside of strings and comments, is
//! replaced by the value as a literal. `::` is a cast and no variable.

use super::{
    numbers::{Number, whole},
    refusal::{Cause, Refusal, invalid, wrong},
    scan::{Part, Scan, is_word},
};
use crate::sql_error::SqlError;
use plinth_engine::admin::Value;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    /// At most this number of characters.
    Text(usize),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bind {
    pub kind: Kind,
    /// As VARIABLE lists it.
    written: String,
    pub value: Value,
}

/// All bind variables, by name in upper case.
#[derive(Debug, Clone, Default)]
pub(super) struct Binds(BTreeMap<String, Bind>);

/// The longest text.
const TEXT_MAX: usize = 1 << 20;

impl Binds {
    pub(super) fn get(&self, name: &str) -> Option<&Bind> {
        self.0.get(&name.to_uppercase())
    }

    /// The names of all of them.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Carries out VARIABLE; returns what it prints, and the variable and its first value where
    /// there is one, which the server computes.
    ///
    /// # Errors
    /// If there is no such type.
    pub(super) fn variable(
        &mut self,
        rest: &str,
    ) -> Result<(String, Option<(String, String)>), Refusal> {
        let rest = rest.trim();
        let (declared, value) = match rest.split_once('=') {
            Some((declared, value)) => (declared.trim_end_matches(':').trim(), Some(value.trim())),
            None => (rest, None),
        };
        let (name, kind) = declared.split_once(char::is_whitespace).unwrap_or((declared, ""));
        let name = name.to_uppercase();
        if !kind.trim().is_empty() {
            let bind = declare(kind.trim())?;
            super::variables::checked(&name)?;
            self.0.insert(name.clone(), bind);
        } else if value.is_none() {
            return self.list(&name).map(|listed| (listed, None));
        } else if !self.0.contains_key(&name) {
            return Err(undeclared(&name));
        }
        Ok((String::new(), value.map(|value| (name, value.to_owned()))))
    }

    fn list(&self, name: &str) -> Result<String, Refusal> {
        let line = |(name, bind): (&String, &Bind)| {
            format!("variable   {}\ndatatype   {}\n\n", name.to_lowercase(), bind.written)
        };
        if name.is_empty() {
            return Ok(self.0.iter().map(line).collect());
        }
        self.0.get_key_value(name).map(line).ok_or_else(|| undeclared(name))
    }

    /// Gives a variable its value.
    ///
    /// # Errors
    /// If there is no such variable, or it cannot have the value.
    pub(super) fn assign(&mut self, name: &str, value: Value) -> Result<(), Refusal> {
        let bind = self.0.get_mut(&name.to_uppercase()).ok_or_else(|| undeclared(name))?;
        let refused = |why: &str| {
            let text = format!("ORA-06502: the value of :{} {why}", name.to_uppercase());
            Refusal::of(Cause::Statement, SqlError::new("22003", text))
        };
        let text = |value: Value| match value {
            Value::Text(text) => text,
            other => Number::of(&other).map_or_else(String::new, whole),
        };
        bind.value = match (bind.kind, value) {
            (_, Value::Null) => Value::Null,
            (_, Value::Blob(_)) => return Err(refused("is neither a number nor a text")),
            (Kind::Number, number @ (Value::Integer(_) | Value::Real(_))) => number,
            (Kind::Number, Value::Text(text)) => {
                let text = text.trim();
                let number = text.parse().map(Value::Integer);
                let number = number.or_else(|_| text.parse::<f64>().map(Value::Real));
                number.map_err(|_| refused("is no number"))?
            }
            (Kind::Text(longest), value) => {
                let text = text(value);
                if text.chars().count() > longest {
                    return Err(refused(&format!("has more than {longest} characters")));
                }
                Value::Text(text)
            }
        };
        Ok(())
    }

    /// The statement with its variables replaced by their values. A name that is not declared is
    /// refused, if the caller says so; otherwise it stays.
    ///
    /// # Errors
    /// If a name is not declared.
    pub(super) fn replace(&self, statement: &str, strict: bool) -> Result<String, Refusal> {
        if self.0.is_empty() && !strict || !statement.contains(':') {
            return Ok(statement.to_owned());
        }
        // Where a variable is, and its end.
        let mut places: Vec<(usize, usize)> = Vec::new();
        // The character just before, and where it ends: marks of strings and comments are between.
        let (mut before, mut before_ends) = (' ', 0);
        Scan::default().find(statement, |part, rest| {
            let at = statement.len() - rest.len();
            let first = rest.chars().next().unwrap_or(' ');
            if before_ends != at {
                before = ' ';
            }
            if part == Part::Plain && first == ':' && before != ':' {
                let name = rest.get(1..).unwrap_or_default();
                let length = name.find(|char| !is_word(char)).unwrap_or(name.len());
                let begins = |char: char| char.is_alphabetic() || char == '_';
                if name.starts_with(begins) && !is_word(before) {
                    places.push((at, at + 1 + length));
                }
            }
            (before, before_ends) = (first, at + first.len_utf8());
            false
        });
        let mut out = String::with_capacity(statement.len());
        let mut end = 0;
        for (start, behind) in places {
            let name = statement.get(start + 1..behind).unwrap_or_default();
            let Some(bind) = self.get(name) else {
                if strict {
                    return Err(undeclared(name).of_statement());
                }
                continue;
            };
            out.push_str(statement.get(end..start).unwrap_or_default());
            out.push_str(&literal(&bind.value));
            end = behind;
        }
        out.push_str(statement.get(end..).unwrap_or_default());
        Ok(out)
    }
}

fn undeclared(name: &str) -> Refusal {
    let name = name.to_uppercase();
    invalid(552, format!("Bind variable \"{name}\" not declared."))
        .hint(format!("VARIABLE {} NUMBER declares it", name.to_lowercase()))
}

/// A value as SQL.
fn literal(value: &Value) -> String {
    match value {
        Value::Null | Value::Blob(_) => "NULL".to_owned(),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        number => {
            let text = Number::of(number).map_or_else(String::new, whole);
            // Behind a minus another one would begin a comment.
            if text.starts_with('-') { format!("({text})") } else { text }
        }
    }
}

/// The variable that VARIABLE declares with this type.
fn declare(written: &str) -> Result<Bind, Refusal> {
    let compact: String = written.chars().filter(|char| !char.is_whitespace()).collect();
    let upper = compact.to_ascii_uppercase();
    let (name, length) = match upper.split_once('(') {
        Some((name, length)) => (name, length.strip_suffix(')').unwrap_or_default()),
        None => (upper.as_str(), ""),
    };
    let length = length.trim_end_matches("CHAR").trim_end_matches("BYTE");
    let longest = match length {
        "" => None,
        digits => {
            Some(digits.parse().map_err(|_| wrong(format!("{written} is no type of a variable")))?)
        }
    };
    let kind = match name {
        "NUMBER" | "BINARY_FLOAT" | "BINARY_DOUBLE" => Kind::Number,
        "CHAR" | "NCHAR" => Kind::Text(longest.unwrap_or(1)),
        "VARCHAR2" | "NVARCHAR2" | "VARCHAR" => Kind::Text(longest.unwrap_or(4000)),
        "CLOB" | "NCLOB" => Kind::Text(TEXT_MAX),
        _ => {
            return Err(wrong(format!("there are no variables of type {written}"))
                .hint("NUMBER, CHAR(n), VARCHAR2(n), CLOB"));
        }
    };
    Ok(Bind { kind, written: upper, value: Value::Null })
}

/// The assignments of EXECUTE, name and expression; `None` if it is anything else.
pub(super) fn assignments(rest: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut rest = rest.trim();
    while !rest.is_empty() {
        let end = Scan::default()
            .find(rest, |part, rest| part == Part::Plain && rest.starts_with(';'))
            .unwrap_or(rest.len());
        let (one, behind) = rest.split_at(end);
        rest = behind.trim_start_matches(';').trim_start();
        let (name, expression) = one.strip_prefix(':')?.split_once(":=")?;
        let (name, expression) = (name.trim(), expression.trim());
        super::variables::checked(name).ok()?;
        if expression.is_empty() {
            return None;
        }
        found.push((name.to_owned(), expression.to_owned()));
    }
    (!found.is_empty()).then_some(found)
}

/// The value of an expression that is a literal already.
pub(super) fn constant(expression: &str) -> Option<Value> {
    if expression.eq_ignore_ascii_case("NULL") {
        return Some(Value::Null);
    }
    if let Ok(number) = expression.parse() {
        return Some(Value::Integer(number));
    }
    let inner = expression.strip_prefix('\'')?.strip_suffix('\'')?;
    let unescaped = inner.replace("''", "\0");
    (!unescaped.contains('\'')).then(|| Value::Text(unescaped.replace('\0', "'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binds() -> Binds {
        let mut binds = Binds::default();
        for (line, value) in [
            ("n number", Value::Integer(-5)),
            ("t varchar2(10)", Value::Text("it's".to_owned())),
            ("none CHAR", Value::Null),
        ] {
            binds.variable(line).expect(line);
            let name = line.split(' ').next().unwrap_or_default();
            binds.assign(name, value).expect(line);
        }
        binds
    }

    #[test]
    fn names_are_replaced_by_literals() {
        let binds = binds();
        for (statement, expected) in [
            ("select :n, :T,:none", "select (-5), 'it''s',NULL"),
            ("select 1-:n", "select 1-(-5)"),
            ("select ':n' -- :n\n, ':t' \":t\"", "select ':n' -- :n\n, ':t' \":t\""),
            ("select '1'::text, :t::text", "select '1'::text, 'it''s'::text"),
            ("select /*c*/:n", "select /*c*/(-5)"),
            ("select to_char(x, 'HH24:MI')", "select to_char(x, 'HH24:MI')"),
        ] {
            assert_eq!(binds.replace(statement, true).expect(statement), expected);
        }
        let refusal = binds.replace("select :x", true).expect_err("x");
        assert_eq!(refusal.error.message, "SP2-0552: Bind variable \"X\" not declared.");
        assert_eq!(binds.replace("select :x", false).expect("left"), "select :x");
    }

    #[test]
    fn values_must_fit() {
        let mut binds = binds();
        assert!(binds.assign("t", Value::Text("12345678901".to_owned())).is_err());
        assert!(binds.assign("n", Value::Text("x".to_owned())).is_err());
        binds.assign("n", Value::Text(" 12 ".to_owned())).expect("a number");
        assert_eq!(binds.get("N").map(|bind| &bind.value), Some(&Value::Integer(12)));
        binds.assign("t", Value::Integer(7)).expect("a text");
        assert_eq!(binds.get("t").map(|bind| &bind.value), Some(&Value::Text("7".to_owned())));
        for line in ["x refcursor", "x char(a)", "a.b number", "nosuch"] {
            assert!(binds.variable(line).is_err(), "{line}");
        }
        let (listed, _) = binds.variable("t").expect("listed");
        assert_eq!(listed, "variable   t\ndatatype   VARCHAR2(10)\n\n");
        let (_, value) = binds.variable("m number = 5").expect("declared");
        assert_eq!(value, Some(("M".to_owned(), "5".to_owned())));
    }

    #[test]
    fn assignments_are_told_from_calls() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(assignments(":a := 1"), Some(vec![pair("a", "1")]));
        assert_eq!(
            assignments(":a:='x;y'; :b := :a || 'z';"),
            Some(vec![pair("a", "'x;y'"), pair("b", ":a || 'z'")])
        );
        for call in ["dbms_output.put_line('x')", ":a := 1; drop_all()", ":a :=", "", "a := 1"] {
            assert_eq!(assignments(call), None, "{call}");
        }
        assert_eq!(constant("'it''s'"), Some(Value::Text("it's".to_owned())));
        assert_eq!((constant("5"), constant("null")), (Some(Value::Integer(5)), Some(Value::Null)));
        assert_eq!((constant("'a' || 'b'"), constant("1 + 1")), (None, None));
    }
}
