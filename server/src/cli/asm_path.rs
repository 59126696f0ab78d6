//! Places in disk groups, as `asmcmd` writes them: `+`, `+DATA`, `+DATA/db/users.dbf`.
//!
//! A name that is written otherwise than it is kept is found all the same (`engine/find.rs`). Names
//! that are made keep the case in which they were written. `+DATA.259.1234` is a file by its number
//! and incarnation. `*` and `%` stand for any run of characters, in every part. `.` and `..` are
//! resolved here, before the engine gets a path.

use super::{
    Result,
    context::{Context, asmcmd, no_group},
};
use crate::{
    engine::{client::Client, protocol::FileInfo},
    sql_error::SqlError,
};
use plinth_engine::{admin::Value, api::Kind};
use std::fmt;

/// A place: `+` above all groups, a group's root, or below it. Nothing need exist there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct AsmPath {
    /// Upper case.
    pub group: Option<String>,
    /// None without a group.
    pub parts: Vec<String>,
}

impl fmt::Display for AsmPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{}", self.group.as_deref().unwrap_or_default())?;
        match &self.parts[..] {
            [number] if is_number(number) => write!(f, "{number}"),
            parts => parts.iter().try_for_each(|part| write!(f, "/{part}")),
        }
    }
}

impl AsmPath {
    /// The place that `text` means if this place is the current directory.
    pub(super) fn join(&self, text: &str) -> Self {
        let mut place = if text.starts_with('+') { Self::default() } else { self.clone() };
        for part in text.strip_prefix('+').unwrap_or(text).split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    if place.parts.pop().is_none() {
                        place.group = None;
                    }
                }
                part if place.group.is_none() => {
                    let (group, number) = part.split_at(part.find('.').unwrap_or(part.len()));
                    place.group = Some(group.to_uppercase());
                    place.parts.extend(Some(number.to_owned()).filter(|number| !number.is_empty()));
                }
                part => place.parts.push(part.to_owned()),
            }
        }
        place
    }

    pub(super) fn child(&self, name: &str) -> Self {
        let mut child = self.clone();
        child.parts.push(name.to_owned());
        child
    }

    /// The directory it is in, and its name there.
    pub(super) fn split(&self) -> Option<(Self, &str)> {
        let (name, directory) = self.parts.split_last()?;
        Some((Self { group: self.group.clone(), parts: directory.to_vec() }, name))
    }

    /// The path within the group.
    pub(super) fn inside(&self) -> String {
        self.parts.join("/")
    }

    /// The group's name; there must be one.
    pub(super) fn group(&self) -> Result<&str> {
        self.group.as_deref().ok_or_else(|| {
            SqlError::new("22023", "+ is above all disk groups")
                .hint("write +GROUP/path, as in +DATA/pg/base")
        })
    }

    pub(super) fn has_wildcards(&self) -> bool {
        self.group.iter().chain(&self.parts).any(|part| is_pattern(part))
    }
}

/// A file or directory that exists.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub place: AsmPath,
    pub info: FileInfo,
}

impl Found {
    pub(super) fn is_directory(&self) -> bool {
        self.info.kind == Kind::Directory
    }
}

/// `.259.1234`, a file by its number and incarnation: `+DATA.259.1234`.
fn is_number(part: &str) -> bool {
    part.starts_with('.')
        && part.contains(|char: char| char.is_ascii_digit())
        && part.chars().all(|char| char == '.' || char.is_ascii_digit())
}

/// Whether the system gave this name: it ends in two numbers, as no alias may.
pub(super) fn is_system_name(path: &str) -> bool {
    let mut parts = path.rsplit('.');
    let is_number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    is_number(parts.next()) && is_number(parts.next())
}

pub(super) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '%'])
}

/// Whether a name matches a pattern with `*` and `%`, without regard to case.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let (mut at, mut here) = (0, 0);
    // Where the last wildcard was, and up to where it has eaten.
    let mut last: Option<(usize, usize)> = None;
    while let Some(char) = name.get(here) {
        match pattern.get(at) {
            Some('*' | '%') => {
                last = Some((at, here));
                at += 1;
            }
            Some(wanted) if wanted == char => {
                at += 1;
                here += 1;
            }
            _ => match &mut last {
                Some((wildcard, eaten)) => {
                    *eaten += 1;
                    at = *wildcard + 1;
                    here = *eaten;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|char| matches!(char, '*' | '%'))
}

/// The refusal of a name that is nowhere.
pub(super) fn no_entry(name: &str, directory: &AsmPath) -> SqlError {
    asmcmd(8002, format!("entry '{name}' does not exist in directory '{directory}/'"))
}

fn no_directory(place: &AsmPath) -> SqlError {
    asmcmd(8006, format!("entry '{place}' does not refer to a valid directory"))
}

/// The file or directory at a place in a group, under its real name.
pub(super) fn find(engine: &Client, place: &AsmPath) -> Result<Found> {
    let (parts, info, missing) = engine.find(&place.inside())?;
    let Some(name) = missing.first() else {
        return Ok(Found { place: AsmPath { group: place.group.clone(), parts }, info });
    };
    // A name that is a file's number and incarnation is no entry of a directory.
    if let [number] = &place.parts[..]
        && is_number(number)
        && let Ok(info) = engine.look(number)
    {
        return Ok(Found { place: place.clone(), info });
    }
    let deepest = AsmPath { group: place.group.clone(), parts };
    Err(if info.kind == Kind::Directory {
        no_entry(name, &deepest)
    } else {
        no_directory(&deepest)
    })
}

/// The place for a new name: its directory exists, and is named by its real name.
pub(super) fn new_name(engine: &Client, place: &AsmPath) -> Result<AsmPath> {
    let Some((directory, name)) = place.split() else {
        return Err(SqlError::new("22023", format!("{place} is a disk group")));
    };
    let directory = find(engine, &directory)?;
    if directory.is_directory() {
        Ok(directory.place.child(name))
    } else {
        Err(no_directory(&directory.place))
    }
}

/// The directory at a place.
pub(super) fn directory(engine: &Client, place: &AsmPath) -> Result<Found> {
    let found = find(engine, place)?;
    if found.is_directory() { Ok(found) } else { Err(no_directory(&found.place)) }
}

/// The entries of a directory, in the order of names.
pub(super) fn entries(engine: &Client, directory: &AsmPath) -> Result<Vec<Found>> {
    let mut entries = engine.list(&directory.inside())?;
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries
        .into_iter()
        .map(|entry| Found { place: directory.child(&entry.name), info: entry.info })
        .collect())
}

/// The names of mounted groups that a pattern matches.
pub(super) fn groups(context: &Context, pattern: &str) -> Result<Vec<String>> {
    let listed = context
        .query("SELECT name FROM v$asm_diskgroup_stat WHERE group_number > 0 ORDER BY name")?;
    let names = listed.rows.into_iter().filter_map(|row| match row.into_iter().next() {
        Some(Value::Text(name)) => Some(name),
        _ => None,
    });
    Ok(names.filter(|name| matches(pattern, name)).collect())
}

/// All that a pattern matches, in the order of names; at least one.
pub(super) fn expand(context: &Context, pattern: &AsmPath) -> Result<Vec<Found>> {
    let name = pattern.group()?;
    let named = if is_pattern(name) { groups(context, name)? } else { vec![name.to_owned()] };
    let mut all = Vec::new();
    for group in &named {
        let engine = context.engine(group)?;
        let root = AsmPath { group: Some(group.clone()), parts: Vec::new() };
        let mut level = vec![Found { info: engine.look("")?, place: root }];
        for part in &pattern.parts {
            let mut next = Vec::new();
            for found in level.iter().filter(|found| found.is_directory()) {
                if is_pattern(part) {
                    let within = entries(&engine, &found.place)?;
                    next.extend(within.into_iter().filter(|found| {
                        found.place.parts.last().is_some_and(|name| matches(part, name))
                    }));
                } else {
                    match find(&engine, &found.place.child(part)) {
                        Ok(found) => next.push(found),
                        Err(_) if level.len() > 1 || pattern.has_wildcards() => {}
                        Err(refusal) => return Err(refusal),
                    }
                }
            }
            if level.iter().all(|found| !found.is_directory())
                && let Some(file) = level.first()
                && level.len() == 1
            {
                return Err(no_directory(&file.place));
            }
            level = next;
        }
        all.append(&mut level);
    }
    match pattern.split() {
        _ if !all.is_empty() => Ok(all),
        Some((directory, name)) => Err(no_entry(name, &directory)),
        None => Err(no_group(name)),
    }
}

/// The only file or directory that a pattern matches.
pub(super) fn expand_one(context: &Context, pattern: &AsmPath) -> Result<Found> {
    let mut found = expand(context, pattern)?.into_iter();
    match (found.next(), found.next()) {
        (Some(found), None) => Ok(found),
        _ => Err(SqlError::new("22023", format!("{pattern} matches more than one entry"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_joined() {
        let root = AsmPath::default();
        let db = root.join("+data/Db");
        assert_eq!(db.to_string(), "+DATA/Db");
        assert_eq!(db.join("x/./y").to_string(), "+DATA/Db/x/y");
        assert_eq!(db.join("../x").to_string(), "+DATA/x");
        assert_eq!(db.join("../..").to_string(), "+");
        assert_eq!(db.join("../../../..").to_string(), "+");
        assert_eq!(db.join("+fra/").to_string(), "+FRA");
        assert_eq!(root.join("fra/x").to_string(), "+FRA/x");
        assert_eq!(db.join("").to_string(), "+DATA/Db");
        assert_eq!(db.join("+data.259.1235").inside(), ".259.1235");
        assert_eq!(db.join("+data.259.1235").to_string(), "+DATA.259.1235");
        assert_eq!(
            db.split().map(|(directory, name)| (directory.to_string(), name)),
            Some(("+DATA".into(), "Db"))
        );
        assert!(root.join("+data").split().is_none());
    }

    #[test]
    fn patterns_match_runs_in_any_case() {
        for (pattern, name) in [
            ("*", ""),
            ("%", "x"),
            ("U*S", "users"),
            ("*.dbf", "a.b.DBF"),
            ("a*b*c", "aXbXbc"),
            ("é*", "Éa"),
            ("a%%", "a"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "x"), ("a", "ab"), ("*.dbf", "dbf"), ("a*b", "aXbX"), ("ab", "a")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn names_of_the_system_end_in_two_numbers() {
        assert!(is_system_name("db/users.259.1235"));
        for path in ["users.dbf", "users.259", "a.b.259", ".1.", ""] {
            assert!(!is_system_name(path), "{path}");
        }
    }
}
