//! Table `volume`.

use super::Result;
use crate::api::Node;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeSet;

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeRow {
    pub number: i64,
    pub name: String,
    /// `None`: it is not made yet.
    pub file: Option<Node>,
}

fn of_row(row: &Row<'_>) -> Result<VolumeRow> {
    let file: Option<i64> = row.get(2)?;
    Ok(VolumeRow { number: row.get(0)?, name: row.get(1)?, file: file.map(i64::cast_unsigned) })
}

/// A volume, by its name.
pub(crate) fn find(connection: &Connection, name: &str) -> Result<Option<VolumeRow>> {
    let sql = "SELECT number, name, file FROM volume WHERE name = ?1";
    connection.prepare_cached(sql)?.query_row([name], of_row).optional()
}

/// Volumes that are not complete, or whose file has no name any more.
pub(crate) fn incomplete(connection: &Connection) -> Result<Vec<VolumeRow>> {
    let sql = "SELECT v.number, v.name, v.file FROM volume v LEFT JOIN file f ON f.number = v.file AND f.links > 0 \
               WHERE NOT v.complete OR f.number IS NULL";
    let mut select = connection.prepare(sql)?;
    let rows = select.query_map([], of_row)?;
    rows.collect()
}

/// The files of complete volumes.
pub(crate) fn files(connection: &Connection) -> Result<BTreeSet<Node>> {
    let mut select = connection.prepare("SELECT file FROM volume WHERE complete")?;
    let rows = select.query_map([], |row| row.get::<_, i64>(0))?;
    rows.map(|node| node.map(i64::cast_unsigned)).collect()
}

/// Adds a volume that is not complete, with the next number, and returns that. `stripe_width` in
/// bytes.
pub(crate) fn insert(
    connection: &Connection,
    name: &str,
    stripe_width: u64,
    stripe_columns: u64,
) -> Result<i64> {
    let sql = "INSERT INTO volume (number, name, stripe_width, stripe_columns) \
               SELECT coalesce(max(number), 0) + 1, ?1, ?2, ?3 FROM volume RETURNING number";
    let values = params![name, stripe_width.cast_signed(), stripe_columns.cast_signed()];
    connection.query_row(sql, values, |row| row.get(0))
}

/// Gives a volume its file.
pub(crate) fn set_file(connection: &Connection, number: i64, file: Node) -> Result<()> {
    connection.execute(
        "UPDATE volume SET file = ?2 WHERE number = ?1",
        params![number, file.cast_signed()],
    )?;
    Ok(())
}

/// A change of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VolumeUpdate {
    /// `None`: as it was.
    Usage {
        mount_path: Option<String>,
        usage: Option<String>,
    },
    Enabled(bool),
    /// It is made, or it is going to be dropped.
    Complete(bool),
}

/// Changes a volume.
pub(crate) fn update(connection: &Connection, number: i64, update: &VolumeUpdate) -> Result<()> {
    match update {
        VolumeUpdate::Usage { mount_path, usage } => {
            let sql = "UPDATE volume SET mount_path = coalesce(?2, mount_path), usage = coalesce(?3, usage) \
                       WHERE number = ?1";
            connection.execute(sql, params![number, mount_path, usage])?;
        }
        VolumeUpdate::Enabled(enabled) => {
            let sql = "UPDATE volume SET enabled = ?2 WHERE number = ?1";
            connection.execute(sql, params![number, enabled])?;
        }
        VolumeUpdate::Complete(complete) => {
            let sql = "UPDATE volume SET complete = ?2 WHERE number = ?1";
            connection.execute(sql, params![number, complete])?;
        }
    }
    Ok(())
}

/// Enables or disables all volumes.
pub(crate) fn enable_all(connection: &Connection, enabled: bool) -> Result<()> {
    connection.execute("UPDATE volume SET enabled = ?1", [enabled])?;
    Ok(())
}

/// Deletes a volume.
pub(crate) fn delete(connection: &Connection, number: i64) -> Result<()> {
    connection.execute("DELETE FROM volume WHERE number = ?1", [number])?;
    Ok(())
}
