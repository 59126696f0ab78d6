//! Table `attribute`: attributes of the group, and values that the engine keeps under names that
//! begin with `_`.

use super::Result;
use rusqlite::{Connection, OptionalExtension, params};

/// A value, as stored.
pub(crate) fn value(connection: &Connection, name: &str) -> Result<Option<String>> {
    let mut select = connection.prepare_cached("SELECT value FROM attribute WHERE name = ?1")?;
    select.query_row([name], |row| row.get(0)).optional()
}

/// Whether there is such a value.
pub(crate) fn exists(connection: &Connection, name: &str) -> Result<bool> {
    connection.prepare("SELECT 1 FROM attribute WHERE name = ?1")?.exists([name])
}

/// Stores a value that statements can set.
pub(crate) fn set(connection: &Connection, name: &str, value: &str) -> Result<()> {
    let sql = "INSERT INTO attribute(name, value) VALUES (?1, ?2) ON CONFLICT(name) DO UPDATE SET value = ?2";
    connection.prepare_cached(sql)?.execute(params![name, value])?;
    Ok(())
}

/// Stores a value that no statement can set.
pub(crate) fn set_read_only(connection: &Connection, name: &str, value: &str) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO attribute(name, value, read_only) VALUES (?1, ?2, 1)";
    connection.prepare_cached(sql)?.execute(params![name, value])?;
    Ok(())
}

/// Deletes a value.
pub(crate) fn delete(connection: &Connection, name: &str) -> Result<()> {
    connection.prepare_cached("DELETE FROM attribute WHERE name = ?1")?.execute([name])?;
    Ok(())
}

/// Names that begin so, and their values.
pub(crate) fn beginning_with(
    connection: &Connection,
    start: &str,
) -> Result<Vec<(String, String)>> {
    let mut select =
        connection.prepare("SELECT name, value FROM attribute WHERE substr(name, 1, ?1) = ?2")?;
    let rows = select
        .query_map(params![start.len() as i64, start], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Names and values that statements can set.
pub(crate) fn settable(connection: &Connection) -> Result<Vec<(String, String)>> {
    let mut select = connection.prepare("SELECT name, value FROM attribute WHERE NOT read_only")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}
