//! Table `counter`: the next numbers, and single values.

use super::Result;
use rusqlite::{Connection, OptionalExtension, params};

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    /// The next file number.
    Node,
    /// The next cookie of a directory entry.
    Cookie,
    /// The token of the mount whose kept sizes count (`files/sizes.rs`).
    SizesToken,
}

impl Counter {
    fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Cookie => "cookie",
            Self::SizesToken => "sizes",
        }
    }
}

/// Changes a row, so that SQLite has something to sync (`writer.rs`).
pub(in crate::catalog) const NEXT_DURABLE_POINT: &str =
    "UPDATE counter SET value = value + 1 WHERE name = 'durable points'";

/// Takes the next number.
pub(crate) fn next(connection: &Connection, counter: Counter) -> Result<u64> {
    let sql = "UPDATE counter SET value = value + 1 WHERE name = ?1 RETURNING value - 1";
    connection
        .prepare_cached(sql)?
        .query_row([counter.name()], |row| row.get::<_, i64>(0))
        .map(i64::cast_unsigned)
}

/// The value now; `None` if there is no such row.
pub(crate) fn value(connection: &Connection, counter: Counter) -> Result<Option<u64>> {
    let sql = "SELECT value FROM counter WHERE name = ?1";
    let value = connection
        .prepare_cached(sql)?
        .query_row([counter.name()], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(value.map(i64::cast_unsigned))
}

/// Sets a value.
pub(crate) fn set(connection: &Connection, counter: Counter, value: u64) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO counter (name, value) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute(params![counter.name(), value.cast_signed()])?;
    Ok(())
}
