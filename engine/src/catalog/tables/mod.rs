//! The operations of the catalog: what the rest of the engine asks of its tables, one module per
//! table.
//!
//! The SQL of the engine is here, beside the schema, and in the parts of the catalog that run it; a
//! test (`rooms.rs`) fails where a statement stands elsewhere. A caller names an operation and
//! passes numbers, names and rows, and gets rows back: what it does to its own memory is its own
//! business. So an operation could be carried out by another host.
//!
//! Each function runs its statements at once, in the transaction of the connection that it is
//! given: a job of the writer ([`Catalog::write`](super::Catalog::write)) or a snapshot of a reader
//! ([`Catalog::read`](super::Catalog::read)). Statements that are run often are prepared once per
//! connection. Where no error is described, an operation fails as SQLite does.

pub(crate) mod access;
pub(crate) mod attribute;
pub(crate) mod counter;
pub(crate) mod entry;
pub(crate) mod extent;
pub(crate) mod file;
pub(crate) mod missing_mirror;
pub(crate) mod reply;
pub(crate) mod rules;
pub(crate) mod slot;
pub(crate) mod stale;
pub(crate) mod template;
pub(crate) mod volume;
pub(crate) mod xattr;

use crate::api::Kind;
use rusqlite::{Error, Row};

/// The result of an operation.
pub(crate) type Result<T> = rusqlite::Result<T>;

/// A number that the catalog keeps as SQLite's signed integer, bit by bit.
fn unsigned(row: &Row<'_>, column: usize) -> Result<u64> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

/// The kind of a file, from its `S_IFMT` bits.
fn kind(row: &Row<'_>, column: usize) -> Result<Kind> {
    let bits: u32 = row.get(column)?;
    let unknown = Error::IntegralValueOutOfRange(column, i64::from(bits));
    Kind::of_mode(bits).ok_or(unknown)
}
