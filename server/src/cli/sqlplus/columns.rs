//! COLUMN: how a column of results is headed and printed, by its name.
//!
//! An attribute stays until it is changed or cleared, for every result that has a column of this
//! name. Names are compared without their case, and without blanks: a column without a name is
//! called as its expression is written, `nvl( a, 0 )` or `NVL(a,0)`.

use super::{
    numbers::Model,
    refusal::{Refusal, invalid, wrong},
    words::{Word, Words},
};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Justify {
    Left,
    Center,
    Right,
}

/// How a text is cut that is wider than its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrap {
    Wrapped,
    Words,
    Truncated,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    /// `A30`
    Width(usize),
    Number(Model),
}

/// The attributes of one column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    pub alias: Option<String>,
    pub format: Option<Format>,
    pub heading: Option<String>,
    pub justify: Option<Justify>,
    pub new_value: Option<String>,
    pub old_value: Option<String>,
    pub noprint: bool,
    pub null: Option<String>,
    pub wrap: Option<Wrap>,
    pub fold_before: bool,
    pub fold_after: bool,
    /// Whether the characters of HTML are written as entities.
    pub entmap: Option<bool>,
    /// `OFF`: kept, and not used.
    pub off: bool,
}

/// A name as it is compared, and as an expression is headed.
pub(super) fn key(name: &str) -> String {
    name.chars().filter(|char| !char.is_whitespace()).collect::<String>().to_uppercase()
}

#[derive(Debug, Clone, Default)]
pub(super) struct Columns(BTreeMap<String, Attributes>);

/// The widest column.
const WIDTH_MAX: usize = 32_767;

impl Columns {
    /// Carries out COLUMN; returns what it prints.
    ///
    /// # Errors
    /// At the first clause that is wrong; the column stays as it was.
    pub(super) fn column(&mut self, rest: &str) -> Result<String, Refusal> {
        let mut words = Words::new(rest);
        let Some(name) = words.option()? else {
            return Ok(self.0.keys().map(|name| self.list(name)).collect());
        };
        let name = key(&name.text);
        let mut attributes = self.0.get(&name).cloned().unwrap_or_default();
        // Other clauses of the same command count more than those that LIKE copies.
        if let Some(other) = like(words.clone())? {
            let Some(like) = self.0.get(&other) else {
                return Err(invalid(46, format!("COLUMN '{other}' not defined")));
            };
            attributes = like.clone();
        }
        let mut count = 0;
        while let Some(word) = words.option()? {
            count += 1;
            if word.is("CLEAR", 3) {
                attributes = Attributes::default();
            } else if word.is("LIKE", 4) {
                value("LIKE", &mut words)?;
            } else {
                attributes.clause(&word, &mut words)?;
            }
        }
        if count == 0 {
            if !self.0.contains_key(&name) {
                return Err(invalid(46, format!("COLUMN '{name}' not defined")));
            }
            return Ok(self.list(&name));
        }
        if attributes == Attributes::default() {
            self.0.remove(&name);
        } else {
            self.0.insert(name, attributes);
        }
        Ok(String::new())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The attributes of a result's column, unless there are none or they are OFF.
    pub(super) fn of(&self, name: &str) -> Option<&Attributes> {
        self.0.get(&key(name)).filter(|attributes| !attributes.off)
    }

    /// Whether a column of a result is the one that BREAK or COMPUTE name.
    pub(super) fn is_named(&self, column: &str, name: &str) -> bool {
        let alias = self.of(column).and_then(|attributes| attributes.alias.as_deref());
        let same = |one: &str| key(one) == key(name);
        same(column) || alias.is_some_and(same)
    }

    fn list(&self, name: &str) -> String {
        let Some(attributes) = self.0.get(name) else { return String::new() };
        let state = if attributes.off { "OFF" } else { "ON" };
        let mut lines = format!("COLUMN   {name} {state}\n");
        let mut line = |word: &str, value: &str| lines.push_str(&format!("{word:<8} {value}\n"));
        if let Some(alias) = &attributes.alias {
            line("ALIAS", alias);
        }
        if let Some(heading) = &attributes.heading {
            line("HEADING", &format!("'{heading}'"));
        }
        match &attributes.format {
            Some(Format::Width(width)) => line("FORMAT", &format!("A{width}")),
            Some(Format::Number(model)) => line("FORMAT", model.text()),
            None => {}
        }
        for (word, variable) in
            [("NEW_VALUE", &attributes.new_value), ("OLD_VALUE", &attributes.old_value)]
        {
            if let Some(variable) = variable {
                line(word, variable);
            }
        }
        if attributes.noprint {
            line("NOPRINT", "");
        }
        if let Some(null) = &attributes.null {
            line("NULL", &format!("'{null}'"));
        }
        match attributes.wrap {
            Some(Wrap::Wrapped) => line("WRAPPED", ""),
            Some(Wrap::Words) => line("WORD_WRAPPED", ""),
            Some(Wrap::Truncated) => line("TRUNCATED", ""),
            None => {}
        }
        lines.lines().map(|line| format!("{}\n", line.trim_end())).collect::<String>() + "\n"
    }
}

impl Attributes {
    fn clause(&mut self, word: &Word, words: &mut Words<'_>) -> Result<(), Refusal> {
        let is = |keyword: &str, least: usize| word.is(keyword, least);
        match () {
            () if is("ALIAS", 3) => self.alias = Some(value("ALIAS", words)?),
            () if is("ENTMAP", 3) => self.entmap = Some(entmap(&value("ENTMAP", words)?)?),
            () if is("FOLD_AFTER", 6) => self.fold_after = true,
            () if is("FOLD_BEFORE", 6) => self.fold_before = true,
            () if is("FORMAT", 3) => self.format = Some(format(&value("FORMAT", words)?)?),
            () if is("HEADING", 3) => self.heading = Some(value("HEADING", words)?),
            () if is("JUSTIFY", 3) => self.justify = Some(justify(&value("JUSTIFY", words)?)?),
            () if is("NEWLINE", 4) => self.fold_before = true,
            () if is("NEW_VALUE", 5) => self.new_value = Some(variable("NEW_VALUE", words)?),
            () if is("OLD_VALUE", 5) => self.old_value = Some(variable("OLD_VALUE", words)?),
            () if is("NOPRINT", 4) => self.noprint = true,
            () if is("PRINT", 3) => self.noprint = false,
            () if is("NULL", 3) => self.null = Some(value("NULL", words)?),
            () if is("ON", 2) => self.off = false,
            () if is("OFF", 3) => self.off = true,
            () if is("WRAPPED", 3) => self.wrap = Some(Wrap::Wrapped),
            () if is("WORD_WRAPPED", 3) => self.wrap = Some(Wrap::Words),
            () if is("TRUNCATED", 3) => self.wrap = Some(Wrap::Truncated),
            () => return Err(invalid(158, format!("unknown COLUMN option \"{}\"", word.text))),
        }
        Ok(())
    }
}

/// The column that LIKE names, if it is among the clauses.
fn like(mut words: Words<'_>) -> Result<Option<String>, Refusal> {
    let mut others = Attributes::default();
    while let Some(word) = words.option()? {
        if word.is("LIKE", 4) {
            return value("LIKE", &mut words).map(|name| Some(key(&name)));
        }
        if !word.is("CLEAR", 3) {
            others.clause(&word, &mut words)?;
        }
    }
    Ok(None)
}

fn value(clause: &str, words: &mut Words<'_>) -> Result<String, Refusal> {
    words
        .value()?
        .map(|word| word.text)
        .ok_or_else(|| wrong(format!("COLUMN ... {clause} has no value")))
}

fn entmap(word: &str) -> Result<bool, Refusal> {
    match word.to_ascii_uppercase().as_str() {
        "ON" => Ok(true),
        "OFF" => Ok(false),
        _ => Err(wrong(format!("COLUMN ... ENTMAP takes ON or OFF, not {word}"))),
    }
}

fn variable(clause: &str, words: &mut Words<'_>) -> Result<String, Refusal> {
    Ok(value(clause, words)?.to_uppercase())
}

fn justify(word: &str) -> Result<Justify, Refusal> {
    match word.to_ascii_uppercase().as_str() {
        "LEFT" | "L" => Ok(Justify::Left),
        "CENTER" | "CENTRE" | "C" => Ok(Justify::Center),
        "RIGHT" | "R" => Ok(Justify::Right),
        _ => Err(wrong(format!("COLUMN ... JUSTIFY takes LEFT, CENTER or RIGHT, not {word}"))),
    }
}

fn format(text: &str) -> Result<Format, Refusal> {
    let illegal = || invalid(246, format!("Illegal FORMAT string \"{text}\""));
    if let Some(width) = text.strip_prefix(['a', 'A']) {
        let width = width.parse().ok().filter(|width| (1..=WIDTH_MAX).contains(width));
        return width.map(Format::Width).ok_or_else(illegal);
    }
    Model::parse(text).map(Format::Number).ok_or_else(illegal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_stay_until_they_are_cleared() {
        let mut columns = Columns::default();
        columns.column("Name FORMAT a30 HEAD 'Disk|name' JUS c").expect("attributes");
        columns.column("name NEW_VALUE last NOPRINT NULL '-' WORD_WRAP").expect("attributes");
        let name = columns.of("NAME").expect("attributes");
        assert_eq!(name.format, Some(Format::Width(30)));
        assert_eq!(name.heading.as_deref(), Some("Disk|name"));
        assert_eq!((name.justify, name.wrap), (Some(Justify::Center), Some(Wrap::Words)));
        assert_eq!((name.new_value.as_deref(), name.noprint), (Some("LAST"), true));
        assert_eq!(name.null.as_deref(), Some("-"));
        columns.column("other LIKE name PRINT").expect("attributes");
        assert!(columns.of("other").is_some_and(|other| !other.noprint && other.wrap.is_some()));
        columns.column("third FORMAT a5 LIKE name").expect("attributes");
        let third = columns.of("third").expect("attributes");
        assert_eq!((&third.format, third.noprint), (&Some(Format::Width(5)), true));
        columns.column("name OFF").expect("off");
        assert!(columns.of("name").is_none());
        columns.column("name ON").expect("on");
        assert!(columns.of("name").is_some());
        columns.column("name CLEAR").expect("cleared");
        assert!(columns.of("name").is_none());
        columns.column("NVL(a,0) FORMAT 999").expect("attributes");
        assert!(columns.of("nvl( a,\n 0 )").is_some());
    }

    #[test]
    fn what_is_wrong_is_refused_and_changes_nothing() {
        let mut columns = Columns::default();
        columns.column("a FORMAT 999").expect("attributes");
        for (line, why) in [
            ("a FORMAT a0", "SP2-0246: Illegal FORMAT string \"a0\""),
            ("a HEADING x FORMAT 9z", "SP2-0246: Illegal FORMAT string \"9z\""),
            ("a FOO", "SP2-0158: unknown COLUMN option \"FOO\""),
            ("a FORMAT", "COLUMN ... FORMAT has no value"),
            ("a LIKE b", "SP2-0046: COLUMN 'B' not defined"),
            ("b", "SP2-0046: COLUMN 'B' not defined"),
            ("a JUSTIFY x", "COLUMN ... JUSTIFY takes LEFT, CENTER or RIGHT, not x"),
        ] {
            assert_eq!(columns.column(line).expect_err(line).error.message, why, "{line}");
        }
        assert_eq!(columns.column("a").expect("listed"), "COLUMN   A ON\nFORMAT   999\n\n");
    }
}
