//! Table `reply`: what was done for requests that may be sent again (`files/reply_cache.rs`).

use super::{Result, unsigned};
use crate::api::{ConnectionId, Node};
use rusqlite::{Connection, params};

/// The result of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyRow {
    pub connection: ConnectionId,
    pub slot: u32,
    /// The kernel's number for the request.
    pub request: u64,
    /// The file that was made, or got a name.
    pub node: Option<Node>,
    /// Of two rows the one with the higher number was begun later.
    pub sequence: u64,
}

/// All rows, in the order of their sequence.
pub(crate) fn load(connection: &Connection) -> Result<Vec<ReplyRow>> {
    let mut select = connection
        .prepare("SELECT connection, slot, request, node, sequence FROM reply ORDER BY sequence")?;
    let rows = select.query_map([], |row| {
        let node = row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned);
        Ok(ReplyRow {
            connection: ConnectionId(unsigned(row, 0)?),
            slot: row.get(1)?,
            request: unsigned(row, 2)?,
            node,
            sequence: unsigned(row, 4)?,
        })
    })?;
    rows.collect()
}

/// Writes a row, over the one that was in its slot.
pub(crate) fn put(connection: &Connection, row: &ReplyRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO reply (connection, slot, request, node, sequence) VALUES (?1, ?2, ?3, ?4, ?5)";
    connection.prepare_cached(sql)?.execute(params![
        row.connection.0.cast_signed(),
        row.slot,
        row.request.cast_signed(),
        row.node.map(Node::cast_signed),
        row.sequence.cast_signed()
    ])?;
    Ok(())
}

/// Deletes the rows of some slots.
pub(crate) fn delete(connection: &Connection, slots: &[(ConnectionId, u32)]) -> Result<()> {
    let mut delete =
        connection.prepare_cached("DELETE FROM reply WHERE connection = ?1 AND slot = ?2")?;
    for (connection, slot) in slots {
        delete.execute(params![connection.0.cast_signed(), slot])?;
    }
    Ok(())
}

/// Deletes the rows of a connection.
pub(crate) fn delete_of(sqlite: &Connection, connection: ConnectionId) -> Result<()> {
    let sql = "DELETE FROM reply WHERE connection = ?1";
    sqlite.prepare_cached(sql)?.execute([connection.0.cast_signed()])?;
    Ok(())
}
