//! The slot of a small file: columns `shared_extent` and `slot` of table `file`.

use super::{Result, unsigned};
use crate::api::Node;
use plinth_format::Piece;
use rusqlite::{Connection, OptionalExtension, params};

/// The shared extent of a file and its slot there, which is a piece of that extent.
pub(crate) fn of(connection: &Connection, node: Node) -> Result<Option<(u64, Piece)>> {
    let slot: Option<(Option<i64>, Option<i64>)> = connection
        .prepare_cached("SELECT shared_extent, slot FROM file WHERE number = ?1")?
        .query_row([node.cast_signed()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(slot.and_then(|(extent, piece)| {
        Some((extent?.cast_unsigned(), Piece(usize::try_from(piece?).ok()?)))
    }))
}

/// Gives a file a slot.
pub(crate) fn set(connection: &Connection, node: Node, extent: u64, piece: Piece) -> Result<()> {
    connection
        .prepare_cached("UPDATE file SET shared_extent = ?2, slot = ?3 WHERE number = ?1")?
        .execute(params![node.cast_signed(), extent.cast_signed(), piece.0 as i64])?;
    Ok(())
}

/// Takes the slot from a file.
pub(crate) fn clear(connection: &Connection, node: Node) -> Result<()> {
    connection
        .prepare_cached("UPDATE file SET shared_extent = NULL, slot = NULL WHERE number = ?1")?
        .execute([node.cast_signed()])?;
    Ok(())
}

/// Passes each slot that a file has: the shared extent and the piece. A piece that cannot be one is
/// `usize::MAX`.
pub(crate) fn each(connection: &Connection, mut pass: impl FnMut(u64, Piece)) -> Result<()> {
    let mut select = connection
        .prepare("SELECT shared_extent, slot FROM file WHERE shared_extent IS NOT NULL")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let piece: i64 = row.get(1)?;
        pass(unsigned(row, 0)?, Piece(usize::try_from(piece).unwrap_or(usize::MAX)));
    }
    Ok(())
}
