//! Table `entry`: the names of files, each in its directory. `.` and `..` are not stored.

use super::{Result, counter, counter::Counter, kind, unsigned};
use crate::api::{Entry, Kind, Node};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// A directory, and a name in it.
pub(crate) type Name = (Node, Vec<u8>);

fn name_of_row(row: &Row<'_>) -> Result<Name> {
    Ok((unsigned(row, 0)?, row.get(1)?))
}

/// The file that a name leads to.
pub(crate) fn find(
    connection: &Connection,
    parent: Node,
    name: &[u8],
) -> Result<Option<(Node, Kind)>> {
    connection
        .prepare_cached("SELECT node, kind FROM entry WHERE parent = ?1 AND name = ?2")?
        .query_row(params![parent.cast_signed(), name], |row| {
            Ok((unsigned(row, 0)?, kind(row, 1)?))
        })
        .optional()
}

/// Names in a directory that are `text` in any case, two at most.
pub(crate) fn find_in_any_case(
    connection: &Connection,
    parent: Node,
    text: &str,
) -> Result<Vec<Vec<u8>>> {
    let sql = "SELECT name FROM entry WHERE parent = ?1 AND CAST(name AS TEXT) = ?2 COLLATE NOCASE LIMIT 2";
    let mut select = connection.prepare_cached(sql)?;
    let rows = select.query_map(params![parent.cast_signed(), text], |row| row.get(0))?;
    rows.collect()
}

/// Adds a name, with the next cookie.
pub(crate) fn insert(
    connection: &Connection,
    parent: Node,
    name: &[u8],
    node: Node,
    kind: Kind,
) -> Result<()> {
    let cookie = counter::next(connection, Counter::Cookie)?;
    connection
        .prepare_cached(
            "INSERT INTO entry (parent, name, node, kind, cookie) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            parent.cast_signed(),
            name,
            node.cast_signed(),
            kind as u32,
            cookie.cast_signed()
        ])?;
    Ok(())
}

/// Lets a name mean another file; its cookie stays.
pub(crate) fn point(
    connection: &Connection,
    parent: Node,
    name: &[u8],
    node: Node,
    kind: Kind,
) -> Result<()> {
    connection
        .prepare_cached("UPDATE entry SET node = ?3, kind = ?4 WHERE parent = ?1 AND name = ?2")?
        .execute(params![parent.cast_signed(), name, node.cast_signed(), kind as u32])?;
    Ok(())
}

/// Removes a name.
pub(crate) fn delete(connection: &Connection, parent: Node, name: &[u8]) -> Result<()> {
    connection
        .prepare_cached("DELETE FROM entry WHERE parent = ?1 AND name = ?2")?
        .execute(params![parent.cast_signed(), name])?;
    Ok(())
}

/// Records that the system made a name.
pub(crate) fn mark_system(connection: &Connection, parent: Node, name: &[u8]) -> Result<()> {
    connection
        .prepare_cached("UPDATE entry SET system = 1 WHERE parent = ?1 AND name = ?2")?
        .execute(params![parent.cast_signed(), name])?;
    Ok(())
}

/// Whether the system made a name.
pub(crate) fn is_system(connection: &Connection, parent: Node, name: &[u8]) -> Result<bool> {
    let system = connection
        .prepare_cached("SELECT system FROM entry WHERE parent = ?1 AND name = ?2")?
        .query_row(params![parent.cast_signed(), name], |row| row.get::<_, bool>(0))
        .optional()?;
    Ok(system == Some(true))
}

/// Whether a directory holds no name.
pub(crate) fn is_empty(connection: &Connection, directory: Node) -> Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM entry WHERE parent = ?1 LIMIT 1")?
        .exists([directory.cast_signed()])
        .map(|any| !any)
}

/// The directory that holds a directory.
pub(crate) fn parent_of(connection: &Connection, directory: Node) -> Result<Option<Node>> {
    connection
        .prepare_cached("SELECT parent FROM entry WHERE node = ?1")?
        .query_row([directory.cast_signed()], |row| unsigned(row, 0))
        .optional()
}

const NAMES: &str = "SELECT parent, name FROM entry WHERE node = ?1";

/// All names of a file.
pub(crate) fn names_of(connection: &Connection, node: Node) -> Result<Vec<Name>> {
    let mut select = connection.prepare_cached(NAMES)?;
    let rows = select.query_map([node.cast_signed()], name_of_row)?;
    rows.collect()
}

/// One name of a file: that of a directory, which has no other.
pub(crate) fn name_of(connection: &Connection, node: Node) -> Result<Option<Name>> {
    connection.prepare_cached(NAMES)?.query_row([node.cast_signed()], name_of_row).optional()
}

/// One name of a file: one that the system made, if there is one.
pub(crate) fn system_name_first(connection: &Connection, node: Node) -> Result<Option<Name>> {
    let sql = "SELECT parent, name FROM entry WHERE node = ?1 ORDER BY system DESC LIMIT 1";
    connection.prepare_cached(sql)?.query_row([node.cast_signed()], name_of_row).optional()
}

/// The name of a directory, and whether the system made it.
pub(crate) fn name_and_system(connection: &Connection, directory: Node) -> Result<(Name, bool)> {
    connection
        .prepare_cached("SELECT parent, name, system FROM entry WHERE node = ?1")?
        .query_row([directory.cast_signed()], |row| Ok((name_of_row(row)?, row.get(2)?)))
}

/// A name in a directory that is being removed.
pub(crate) struct Child {
    pub name: Vec<u8>,
    pub node: Node,
    pub is_directory: bool,
}

/// Names in a directory, `most` of them at most.
pub(crate) fn children(
    connection: &Connection,
    directory: Node,
    most: usize,
) -> Result<Vec<Child>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let mut select = connection
        .prepare_cached("SELECT name, node, kind FROM entry WHERE parent = ?1 LIMIT ?2")?;
    let rows = select.query_map(params![directory.cast_signed(), most], |row| {
        Ok(Child {
            name: row.get(0)?,
            node: unsigned(row, 1)?,
            is_directory: row.get::<_, u32>(2)? == Kind::Directory as u32,
        })
    })?;
    rows.collect()
}

/// Up to `count` entries of a directory behind `cookie`, in the order in which they were made.
pub(crate) fn list(
    connection: &Connection,
    directory: Node,
    cookie: u64,
    count: usize,
) -> Result<Vec<Entry>> {
    let sql = "SELECT name, node, kind, cookie FROM entry WHERE parent = ?1 AND cookie > ?2 \
               ORDER BY cookie LIMIT ?3";
    let mut select = connection.prepare_cached(sql)?;
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let cookie = i64::try_from(cookie).unwrap_or(i64::MAX);
    let entry = |row: &Row<'_>| {
        Ok(Entry {
            name: row.get(0)?,
            node: unsigned(row, 1)?,
            kind: kind(row, 2)?,
            cookie: unsigned(row, 3)?,
        })
    };
    let rows = select.query_map(params![directory.cast_signed(), cookie, count], entry)?;
    rows.collect()
}

/// How many files have names, and how many directories there are besides the root. A file with
/// several names is one.
pub(crate) fn count(connection: &Connection) -> Result<(i64, i64)> {
    let sql = "SELECT count(DISTINCT iif(kind = 16384, NULL, node)), count(iif(kind = 16384, 1, NULL)) FROM entry";
    connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
}
