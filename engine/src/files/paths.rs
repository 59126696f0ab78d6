//! Names as DBAs write them, and what they mean.
//!
//! ```text
//!   +DATA/dir/users01.dbf                  a path
//!   +DATA/DB/DATAFILE/users.259.1234       the same: a name that the system made
//!   +DATA.259.1234                         a file by its number and incarnation
//!   +DATA  +DATA(template)  +DATA(template)/dir/alias     of a new file: the system makes its name
//! ```
//!
//! In SQL and in the shell names are the same in any case, and are kept as they were written.
//! Programs that use a mount know no such rule, so a directory may hold names that differ in case
//! only: the one that is written exactly so is meant, and where there is none and several others,
//! the name is ambiguous and refused.

use super::{Files, Result};
use crate::{
    admin::{AdminError, Code},
    api::{Kind, NAME_MAX, Node, ROOT},
    catalog::tables::entry,
    error::FileError,
};
use rusqlite::Connection;

/// The part of a path behind the group's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// Directories and at last the name; the root has none.
    Path(Vec<Vec<u8>>),
    Number {
        node: Node,
        incarnation: u64,
    },
    /// With a template; the alias is a path.
    New {
        template: String,
        alias: Option<Vec<Vec<u8>>>,
    },
}

/// A path as the directories have it.
#[derive(Debug, Clone)]
pub struct Spelled {
    /// Those that exist as they are spelled there, the rest as it was written.
    pub parts: Vec<Vec<u8>>,
    /// The last part as it was written.
    pub last: Vec<u8>,
    /// The file or directory, if all of it exists.
    pub found: Option<(Node, Kind)>,
}

fn invalid(text: &str, why: &str) -> AdminError {
    AdminError::new(Code::Invalid, format!("'{text}' is not a name in a disk group: {why}"))
        .hint("write +GROUP/directory/file")
}

/// The two numbers at the end of a name such as `users.259.1234`.
#[must_use]
pub fn number_pair(name: &str) -> Option<(u64, u64)> {
    let (rest, second) = name.rsplit_once('.')?;
    let (_, first) = rest.rsplit_once('.')?;
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    Some((number(first)?, number(second)?))
}

fn parts_of(text: &str, path: &str) -> std::result::Result<Vec<Vec<u8>>, AdminError> {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    for part in &parts {
        if *part == ".." || part.contains('\0') {
            return Err(invalid(text, "'..' and zero bytes are not followed"));
        }
        if part.len() > NAME_MAX {
            return Err(invalid(
                text,
                &format!("a part of it has {} bytes, at most {NAME_MAX} may be", part.len()),
            ));
        }
    }
    Ok(parts.into_iter().map(|part| part.as_bytes().to_vec()).collect())
}

/// Reads a name in the group.
///
/// # Errors
/// If it is none, or in another group.
pub fn parse(text: &str, group: &str) -> std::result::Result<Form, AdminError> {
    let rest = text.strip_prefix('+').ok_or_else(|| invalid(text, "it does not begin with '+'"))?;
    let end = rest.find(['/', '.', '(']).unwrap_or(rest.len());
    let (named, rest) = rest.split_at(end);
    if !named.eq_ignore_ascii_case(group) {
        let text =
            format!("'{text}' is in another disk group than {group}, of which the statement is");
        return Err(AdminError::new(Code::Invalid, text).hint(format!("write +{group}/...")));
    }
    behind_group(text, rest)
}

/// Reads what stands behind the group's name: `/dir/file`, `.259.1234`, `(template)/alias`. Without
/// a slash at its beginning it is a path from the root, too.
///
/// # Errors
/// If it is none.
pub fn behind_group(text: &str, rest: &str) -> std::result::Result<Form, AdminError> {
    if let Some(rest) = rest.strip_prefix('(') {
        let (template, rest) =
            rest.split_once(')').ok_or_else(|| invalid(text, "its ')' is missing"))?;
        let alias = match rest.strip_prefix('/') {
            Some(path) => Some(parts_of(text, path)?).filter(|parts| !parts.is_empty()),
            None if rest.is_empty() => None,
            None => return Err(invalid(text, "behind ')' comes '/' and an alias, or nothing")),
        };
        return Ok(Form::New { template: template.trim().to_uppercase(), alias });
    }
    // `.259.1234`; a path may begin with a dot, too.
    let is_number = rest.starts_with('.') && !rest.contains('/') && rest.matches('.').count() == 2;
    if is_number && let Some((node, incarnation)) = number_pair(rest) {
        return Ok(Form::Number { node, incarnation });
    }
    Ok(Form::Path(parts_of(text, rest)?))
}

/// A path as it is written.
#[must_use]
pub fn written(group: &str, parts: &[Vec<u8>]) -> String {
    parts
        .iter()
        .fold(format!("+{group}"), |path, part| format!("{path}/{}", String::from_utf8_lossy(part)))
}

/// The file that an exact path leads to. For jobs.
pub(super) fn exactly(connection: &Connection, parts: &[Vec<u8>]) -> Result<Option<(Node, Kind)>> {
    let mut at = (ROOT, Kind::Directory);
    for part in parts {
        if at.1 != Kind::Directory {
            return Ok(None);
        }
        match entry::find(connection, at.0, part)? {
            Some(found) => at = found,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// How a directory spells a name: exactly so, or else in the only other way.
fn spell_one(
    connection: &Connection,
    parent: Node,
    name: &[u8],
) -> Result<Option<(Vec<u8>, Node, Kind)>> {
    if let Some((node, kind)) = entry::find(connection, parent, name)? {
        return Ok(Some((name.to_vec(), node, kind)));
    }
    let Ok(text) = std::str::from_utf8(name) else { return Ok(None) };
    let alike = entry::find_in_any_case(connection, parent, text)?;
    match &alike[..] {
        [] => Ok(None),
        [one] => {
            Ok(entry::find(connection, parent, one)?.map(|(node, kind)| (one.clone(), node, kind)))
        }
        [one, other, ..] => {
            let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
            let error = AdminError::new(
                Code::Invalid,
                format!("'{text}' is ambiguous: there are '{one}' and '{other}'"),
            )
            .hint("write it exactly as it is");
            Err(FileError::Order(Box::new(error)))
        }
    }
}

impl Files {
    /// Finds paths in any case. In a snapshot: a large directory is scanned, and no change must
    /// wait for that.
    ///
    /// # Errors
    /// If one is ambiguous.
    pub async fn spell(&self, paths: Vec<Vec<Vec<u8>>>) -> Result<Vec<Spelled>> {
        let look = move |connection: &Connection| {
            let one = |path: &Vec<Vec<u8>>| {
                let mut parts = Vec::new();
                let mut at = Some((ROOT, Kind::Directory));
                for part in path {
                    let found = match at {
                        Some((node, Kind::Directory)) => spell_one(connection, node, part)?,
                        _ => None,
                    };
                    at = found.as_ref().map(|(_, node, kind)| (*node, *kind));
                    parts.push(found.map_or_else(|| part.clone(), |(name, ..)| name));
                }
                Ok(Spelled { parts, last: path.last().cloned().unwrap_or_default(), found: at })
            };
            paths.iter().map(one).collect::<Result<Vec<_>>>()
        };
        self.catalog.read(look).await
    }

    /// The file that a name leads to, in any case.
    ///
    /// # Errors
    /// If it is ambiguous, or a new file's place.
    pub async fn resolve(&self, form: Form) -> Result<Option<Node>> {
        match form {
            Form::Path(parts) => {
                let spelled = self.spell(vec![parts]).await?.pop();
                Ok(spelled.and_then(|path| path.found).map(|(node, _)| node))
            }
            Form::Number { node, incarnation } => Ok(self.numbered(node, incarnation).await.ok()),
            Form::New { .. } => Err(FileError::Invalid("a new file's place, and no file")),
        }
    }

    /// The file with a number, if it has this incarnation.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn numbered(&self, node: Node, incarnation: u64) -> Result<Node> {
        let file = self.get(node).await.map_err(|_| FileError::NotFound)?;
        let found = file.kind != Kind::Directory && file.generation == incarnation;
        if found { Ok(node) } else { Err(FileError::NotFound) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn path(parts: &[&str]) -> Form {
        Form::Path(parts.iter().map(|part| part.as_bytes().to_vec()).collect())
    }

    #[test]
    fn paths_are_parsed() {
        let cases = [
            ("+DATA", path(&[])),
            ("+data/", path(&[])),
            ("+DATA/dir/users01.dbf", path(&["dir", "users01.dbf"])),
            ("+DATA/DB/DATAFILE/users.259.1234", path(&["DB", "DATAFILE", "users.259.1234"])),
            ("+DATA.259.1234", Form::Number { node: 259, incarnation: 1234 }),
            ("+DATA(MyTemplate)", Form::New { template: "MYTEMPLATE".into(), alias: None }),
            (
                "+DATA(t)/a/b",
                Form::New { template: "T".into(), alias: Some(vec![b"a".to_vec(), b"b".to_vec()]) },
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text, "DATA").unwrap(), expected, "{text}");
        }
        for text in
            ["DATA/x", "+FRA/x", "+DATA/../x", "+DATA(t", "+DATA(t)x", "+DATA/a\0b", "", "+"]
        {
            assert_eq!(parse(text, "DATA").unwrap_err().code, Code::Invalid, "{text:?}");
        }
    }

    #[test]
    fn number_pairs_are_recognised() {
        assert_eq!(number_pair("users.259.1234"), Some((259, 1234)));
        for name in ["users.259", "users", "users.a.1", "users.1.b", "1.2"] {
            assert_eq!(number_pair(name), None, "{name}");
        }
    }
}
