//! Substitution variables: `&name` and `&&name` in a text are replaced by the value of the
//! variable.
//!
//! A name is letters, digits, `_`, `$` and `#`; the concat character (`.`) behind it ends it and is
//! taken away: `&file..log`. A value comes from DEFINE, ACCEPT, NEW_VALUE of a column, or, for `&1`
//! `&2` ..., from the arguments of the script. Where there is none, the user is asked, and without
//! a terminal the text is refused: it is never sent with the `&` in it. `&&name` keeps the answer.
//!
//! `&` stays as it is behind the escape character, before anything but a name, in comments of
//! statements, and after SET DEFINE OFF. Strings are no exception: `'&name'` is replaced.

use super::{
    refusal::{Refusal, invalid, wrong},
    scan::{Part, Scan},
};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    pub text: String,
    pub is_number: bool,
}

/// All variables, by name in upper case.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables(BTreeMap<String, Variable>);

/// The longest value: with it a statement is already too long for the server.
const VALUE_MAX: usize = 1 << 20;

impl Variables {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&name.to_uppercase()).map(|variable| variable.text.as_str())
    }

    pub(super) fn set(&mut self, name: &str, text: impl Into<String>) {
        let variable = Variable { text: text.into(), is_number: false };
        self.0.insert(name.to_uppercase(), variable);
    }

    pub(super) fn set_number(&mut self, name: &str, text: impl Into<String>) {
        let variable = Variable { text: text.into(), is_number: true };
        self.0.insert(name.to_uppercase(), variable);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(&name.to_uppercase());
    }

    /// Carries out DEFINE; returns what it prints.
    ///
    /// # Errors
    /// If the name is none, or has no value.
    pub(super) fn define(&mut self, rest: &str) -> Result<String, Refusal> {
        let rest = rest.trim();
        let Some((name, value)) = rest.split_once('=') else {
            return if rest.is_empty() {
                Ok(self.0.iter().map(|(name, value)| line(name, value)).collect())
            } else {
                let name = checked(rest)?.to_uppercase();
                let found = self.0.get(&name).map(|value| line(&name, value));
                found.ok_or_else(|| {
                    invalid(135, format!("symbol {} is UNDEFINED", rest.to_lowercase()))
                })
            };
        };
        let name = checked(name.trim())?;
        let value = value.trim();
        if value.is_empty() {
            return Err(invalid(137, "DEFINE requires a value following equal sign"));
        }
        let value = unquoted(value)?;
        if value.len() > VALUE_MAX {
            return Err(wrong(format!("the value of {name} has more than {VALUE_MAX} bytes")));
        }
        self.set(name, value);
        Ok(String::new())
    }
}

/// A value of DEFINE: in quotation marks, or as it stands.
fn unquoted(text: &str) -> Result<String, Refusal> {
    let Some(mark) = text.chars().next().filter(|char| matches!(char, '\'' | '"')) else {
        return Ok(text.to_owned());
    };
    let inner = text.get(1..).unwrap_or_default();
    match inner.strip_suffix(mark) {
        Some(inner) => Ok(inner.replace(&format!("{mark}{mark}"), &mark.to_string())),
        None => Err(wrong(format!("a quotation mark has no second one: {text}"))),
    }
}

/// The name of a variable.
pub(super) fn checked(name: &str) -> Result<&str, Refusal> {
    if !name.is_empty() && name.chars().all(is_name) {
        return Ok(name);
    }
    Err(wrong(format!("{name:?} is no name of a variable")))
}

fn line(name: &str, variable: &Variable) -> String {
    if variable.is_number {
        return format!("DEFINE {name:<15} = {:>10} (NUMBER)\n", variable.text);
    }
    format!("DEFINE {name:<15} = \"{}\" (CHAR)\n", variable.text)
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$' | '#')
}

/// The characters that have a meaning in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    pub define: Option<char>,
    pub concat: Option<char>,
    pub escape: Option<char>,
}

/// A variable in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted<'a> {
    pub name: &'a str,
    /// `&&`: the answer is kept.
    pub keep: bool,
    /// The line of the text, counted from 0.
    pub line: usize,
}

/// The text with its variables replaced; `None` if there are none in it. In a statement, comments
/// stay as they are.
///
/// # Errors
/// If `value` has none for a variable.
pub(super) fn substitute(
    text: &str,
    marks: Marks,
    is_statement: bool,
    mut value: impl FnMut(Wanted<'_>) -> Result<String, Refusal>,
) -> Result<Option<String>, Refusal> {
    let Some(define) = marks.define.filter(|define| text.contains(*define)) else {
        return Ok(None);
    };
    let comments = if is_statement { comments(text) } else { Vec::new() };
    let mut out = String::with_capacity(text.len());
    let mut changed = false;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(next) = rest.chars().next() else { break };
        let escaped = marks.escape.is_some_and(|escape| {
            rest.strip_prefix(escape).is_some_and(|rest| rest.starts_with(define))
        });
        if escaped {
            out.push(define);
            at += next.len_utf8() + define.len_utf8();
            changed = true;
            continue;
        }
        let is_comment = || comments.iter().any(|(start, end)| (*start..*end).contains(&at));
        let found = (next == define && !is_comment()).then(|| name_of(rest, define)).flatten();
        let Some((name, keep, length)) = found else {
            out.push(next);
            at += next.len_utf8();
            continue;
        };
        let line = text.get(..at).unwrap_or_default().matches('\n').count();
        out.push_str(&value(Wanted { name, keep, line })?);
        changed = true;
        at += length;
        let behind = text.get(at..).unwrap_or_default();
        if let Some(concat) = marks.concat.filter(|concat| behind.starts_with(*concat)) {
            at += concat.len_utf8();
        }
    }
    Ok(changed.then_some(out))
}

/// The name behind the mark, whether there are two marks, and the length of it all.
fn name_of(rest: &str, define: char) -> Option<(&str, bool, usize)> {
    let one = rest.strip_prefix(define)?;
    let two = one.strip_prefix(define);
    let inner = two.unwrap_or(one);
    let length = inner.find(|char| !is_name(char)).unwrap_or(inner.len());
    let name = inner.get(..length)?;
    let is_named = name.starts_with(|char: char| char.is_alphanumeric() || char == '_');
    is_named.then(|| (name, two.is_some(), rest.len() - inner.len() + length))
}

/// Where the comments of a statement are.
fn comments(text: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    Scan::default().find(text, |part, rest| {
        let at = text.len() - rest.len();
        let end = at + rest.chars().next().map_or(1, char::len_utf8);
        if part == Part::Comment {
            match found.last_mut() {
                Some((_, last)) if *last == at => *last = end,
                _ => found.push((at, end)),
            }
        }
        false
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Marks = Marks { define: Some('&'), concat: Some('.'), escape: Some('\\') };

    fn replaced(text: &str, marks: Marks) -> String {
        let found = substitute(text, marks, true, |wanted| {
            let keep = if wanted.keep { "+" } else { "" };
            Ok(format!("<{}{keep}>", wanted.name))
        });
        found.expect(text).unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn variables_are_found_in_a_text() {
        for (text, expected) in [
            ("&a b", "<a> b"),
            ("'&a' \"&b\"", "'<a>' \"<b>\""),
            ("&&a", "<a+>"),
            ("&a.b &a..b &a...", "<a>b <a>.b <a>.."),
            ("&1 &12.3", "<1> <12>3"),
            ("&_x &a_b$c#", "<_x> <a_b$c#>"),
            ("a & b && c &; &' &", "a & b && c &; &' &"),
            ("\\&a \\b", "&a \\b"),
            ("select 1 -- &a\n, &b /* &c */ &d", "select 1 -- &a\n, <b> /* &c */ <d>"),
            ("é&a", "é<a>"),
        ] {
            assert_eq!(replaced(text, MARKS), expected, "{text}");
        }
        assert_eq!(replaced("&a ^b", Marks { define: Some('^'), ..MARKS }), "&a <b>");
        assert_eq!(replaced("&a.b", Marks { concat: None, ..MARKS }), "<a>.b");
        assert_eq!(replaced("\\&a", Marks { escape: None, ..MARKS }), "\\<a>");
        assert_eq!(replaced("&a", Marks { define: None, ..MARKS }), "&a");
        let refused = substitute("a\n&b", MARKS, true, |wanted| {
            assert_eq!(wanted.line, 1);
            Err(wrong("no"))
        });
        assert!(refused.is_err());
    }

    #[test]
    fn variables_are_defined_and_shown() {
        let mut variables = Variables::default();
        variables.define("a = one two").expect("defined");
        variables.define("B='it''s'").expect("defined");
        variables.set_number("n", "5");
        assert_eq!((variables.get("A"), variables.get("b")), (Some("one two"), Some("it's")));
        assert_eq!(
            variables.define("a").expect("shown"),
            "DEFINE A               = \"one two\" (CHAR)\n"
        );
        assert_eq!(
            variables.define("n").expect("shown"),
            "DEFINE N               =          5 (NUMBER)\n"
        );
        for line in ["x", "a =", "a b = c", "= c", "a = 'x"] {
            assert!(variables.define(line).is_err(), "{line}");
        }
        variables.define("e = ''").expect("an empty value is one");
        assert_eq!(variables.get("e"), Some(""));
        variables.remove("A");
        assert_eq!(variables.get("a"), None);
    }
}
