//! Table `template`: what files made through a template are like.

use super::Result;
use rusqlite::{Connection, OptionalExtension, params};

/// The properties that a template gives a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TemplateRow {
    /// 0: as the group.
    pub mirrors: u8,
    pub fine: bool,
    pub preformatted: bool,
    pub system: bool,
}

/// A template, by its name in upper case.
pub(crate) fn find(connection: &Connection, name: &str) -> Result<Option<TemplateRow>> {
    connection
        .prepare_cached("SELECT mirrors, fine, preformatted, system FROM template WHERE name = ?1")?
        .query_row([name], |row| {
            Ok(TemplateRow {
                mirrors: row.get(0)?,
                fine: row.get(1)?,
                preformatted: row.get(2)?,
                system: row.get(3)?,
            })
        })
        .optional()
}

/// Whether there is such a template.
pub(crate) fn exists(connection: &Connection, name: &str) -> Result<bool> {
    connection.prepare_cached("SELECT 1 FROM template WHERE name = ?1")?.exists([name])
}

/// Adds a template that is not the system's, with the next number.
pub(crate) fn insert(
    connection: &Connection,
    name: &str,
    mirrors: u8,
    (fine, preformatted): (bool, bool),
) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO template (name, number, mirrors, fine, preformatted) \
             VALUES (?1, (SELECT max(number) + 1 FROM template), ?2, ?3, ?4)",
        )?
        .execute(params![name, mirrors, fine, preformatted])?;
    Ok(())
}

/// Changes the properties of a template.
pub(crate) fn update(
    connection: &Connection,
    name: &str,
    mirrors: u8,
    (fine, preformatted): (bool, bool),
) -> Result<()> {
    connection
        .prepare_cached(
            "UPDATE template SET mirrors = ?2, fine = ?3, preformatted = ?4 WHERE name = ?1",
        )?
        .execute(params![name, mirrors, fine, preformatted])?;
    Ok(())
}

/// Deletes a template.
pub(crate) fn delete(connection: &Connection, name: &str) -> Result<()> {
    connection.prepare_cached("DELETE FROM template WHERE name = ?1")?.execute([name])?;
    Ok(())
}
