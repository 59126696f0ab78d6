//! Table `xattr`: extended attributes of files.

use super::Result;
use crate::api::Node;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;

/// All attributes of a file, by name.
pub(crate) fn load(connection: &Connection, node: Node) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut select = connection.prepare_cached("SELECT name, value FROM xattr WHERE node = ?1")?;
    let rows = select.query_map([node.cast_signed()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Sets one attribute.
pub(crate) fn set(connection: &Connection, node: Node, name: &[u8], value: &[u8]) -> Result<()> {
    let sql = "INSERT INTO xattr (node, name, value) VALUES (?1, ?2, ?3) \
               ON CONFLICT DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute(params![node.cast_signed(), name, value])?;
    Ok(())
}

/// Deletes one attribute. False: there was none.
pub(crate) fn delete(connection: &Connection, node: Node, name: &[u8]) -> Result<bool> {
    let sql = "DELETE FROM xattr WHERE node = ?1 AND name = ?2";
    Ok(connection.prepare_cached(sql)?.execute(params![node.cast_signed(), name])? > 0)
}

/// Deletes all attributes of a file.
pub(crate) fn delete_all(connection: &Connection, node: Node) -> Result<()> {
    connection
        .prepare_cached("DELETE FROM xattr WHERE node = ?1")?
        .execute([node.cast_signed()])?;
    Ok(())
}
