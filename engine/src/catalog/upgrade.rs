//! Converts catalogs of earlier versions when they are opened.
//!
//! All steps from the version found are one job: one commit, durable before the catalog is used in
//! any other way. A crash before it leaves a catalog of the earlier version, which the next mount
//! converts; a crash after it leaves one of this version. The commit is small, a few pages, and
//! like a commit that releases space it may use the last free pages.
//!
//! A step may add tables, and columns with a default, and nothing else: rows stay as they are, so
//! that a catalog of a million files is ready at once. Indexes over existing rows may need more
//! room than the catalog has, and it can grow only when the group's space is known: they are made
//! at the end of the mount, or of the next one if this one is interrupted. Without them everything
//! works, only slower. The result is the same as that of `schema.sql`; a test compares the two.

use super::SCHEMA_VERSION;
use crate::error::FileError;
use rusqlite::Connection;

/// The step from version `index + 1` to the next one.
const STEPS: [&str; 3] =
    [include_str!("upgrade/2.sql"), include_str!("upgrade/3.sql"), include_str!("upgrade/4.sql")];

const _: () = assert!(STEPS.len() as i64 + 1 == SCHEMA_VERSION);

/// Whether this is an earlier version that can be converted.
pub(super) fn is_earlier(version: i64) -> bool {
    (1..SCHEMA_VERSION).contains(&version)
}

/// The job that converts the catalog.
pub(super) fn to_current(connection: &Connection) -> Result<(), FileError> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let first = usize::try_from(found - 1).unwrap_or(STEPS.len());
    for step in STEPS.iter().skip(first) {
        connection.execute_batch(step)?;
    }
    connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    Ok(())
}

/// Whether an index is missing.
pub(super) fn lacks_indexes(connection: &Connection) -> Result<bool, FileError> {
    let sql = "SELECT count(*) = 0 FROM sqlite_schema WHERE name = 'file_type'";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// Makes the missing indexes.
pub(super) fn make_indexes(connection: &Connection) -> Result<(), FileError> {
    Ok(connection.execute_batch(include_str!("upgrade/indexes.sql"))?)
}
