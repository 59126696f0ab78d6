//! Table `file`: every file, directory, link and special file. The columns of a file's slot:
//! [`slot`](super::slot).

use super::{Result, unsigned};
use crate::{
    api::{Attributes, Kind, Node, ROOT, types::FileType},
    world::Timestamp,
};
use rusqlite::{Connection, Error, OptionalExtension, Row, params};
use std::collections::BTreeSet;

/// The columns that make [`Attributes`].
const COLUMNS: &str = "number, generation, kind, mode, links, uid, gid, rdev, size, blocks, accessed, modified, \
                       changed, created, type, mirrors, fine, preformatted";
/// Regular files that have a name and are no volumes.
const OWNED: &str = "kind = 32768 AND links > 0 AND coalesce(type, '') <> 'ASMVOL'";

fn attributes_of(row: &Row<'_>) -> Result<Attributes> {
    let kind: u32 = row.get(2)?;
    let unknown = || Error::IntegralValueOutOfRange(2, i64::from(kind));
    Ok(Attributes {
        node: unsigned(row, 0)?,
        generation: unsigned(row, 1)?,
        kind: Kind::of_mode(kind).filter(|_| kind != 0).ok_or_else(unknown)?,
        mode: row.get(3)?,
        links: row.get(4)?,
        uid: row.get(5)?,
        gid: row.get(6)?,
        rdev: row.get(7)?,
        size: unsigned(row, 8)?,
        blocks: unsigned(row, 9)?,
        accessed: row.get(10)?,
        modified: row.get(11)?,
        changed: row.get(12)?,
        created: row.get(13)?,
        file_type: row.get::<_, Option<String>>(14)?.and_then(|word| FileType::of_word(&word)),
        mirrors: row.get(15)?,
        fine: row.get(16)?,
        preformatted: row.get(17)?,
    })
}

/// A file.
pub(crate) fn load(connection: &Connection, node: Node) -> Result<Option<Attributes>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM file WHERE number = ?1"))?
        .query_row([node.cast_signed()], attributes_of)
        .optional()
}

/// Whether there is such a file.
pub(crate) fn exists(connection: &Connection, node: Node) -> Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM file WHERE number = ?1)")?
        .query_row([node.cast_signed()], |row| row.get(0))
}

/// Files without names.
pub(crate) fn orphans(connection: &Connection) -> Result<BTreeSet<Node>> {
    let mut select = connection.prepare("SELECT number FROM file WHERE links = 0")?;
    let nodes = select.query_map([], |row| unsigned(row, 0))?;
    nodes.collect()
}

/// Regular files with names, but for volumes, that a user or a user group owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    User(u32),
    Group(u32),
}

/// See [`Owner`].
pub(crate) fn owned_by(connection: &Connection, owner: Owner) -> Result<Vec<Node>> {
    let (column, number) = match owner {
        Owner::User(number) => ("uid", number),
        Owner::Group(number) => ("gid", number),
    };
    let sql = format!("SELECT number FROM file WHERE {column} = ?1 AND {OWNED}");
    let mut select = connection.prepare_cached(&sql)?;
    let rows = select.query_map([number], |row| unsigned(row, 0))?;
    rows.collect()
}

/// The permission bits of a file that is there.
pub(crate) fn mode(connection: &Connection, node: Node) -> Result<u32> {
    connection
        .prepare_cached("SELECT mode FROM file WHERE number = ?1")?
        .query_row([node.cast_signed()], |row| row.get(0))
}

/// Whether the type of a file was given when it was made, so that names do not change it. `None`:
/// there is no such file.
pub(crate) fn has_given_type(connection: &Connection, node: Node) -> Result<Option<bool>> {
    connection
        .prepare_cached("SELECT said FROM file WHERE number = ?1")?
        .query_row([node.cast_signed()], |row| row.get(0))
        .optional()
}

/// Where a symbolic link points. `None`: there is no such file, or it is none.
pub(crate) fn link_target(connection: &Connection, node: Node) -> Result<Option<Vec<u8>>> {
    let target = connection
        .prepare_cached("SELECT target FROM file WHERE number = ?1")?
        .query_row([node.cast_signed()], |row| row.get::<_, Option<Vec<u8>>>(0))
        .optional()?;
    Ok(target.flatten())
}

/// Adds a file, as it was created just now. `has_given_type`: see [`has_given_type`].
pub(crate) fn insert(
    connection: &Connection,
    new: &Attributes,
    target: Option<&[u8]>,
    has_given_type: bool,
) -> Result<()> {
    let sql = "INSERT INTO file (number, generation, kind, mode, links, uid, gid, rdev, size, durable_size, \
               accessed, modified, changed, created, target, type, said, mirrors, fine, preformatted) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?10, ?10, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
    connection.prepare_cached(sql)?.execute(params![
        new.node.cast_signed(),
        new.generation.cast_signed(),
        new.kind as u32,
        new.mode,
        new.links,
        new.uid,
        new.gid,
        new.rdev,
        new.size.cast_signed(),
        new.created,
        target,
        new.file_type.map(FileType::word),
        has_given_type,
        new.mirrors,
        new.fine,
        new.preformatted,
    ])?;
    Ok(())
}

/// Adds the root directory, empty, mode 0755, root's.
pub(crate) fn insert_root(connection: &Connection, size: u64, now: Timestamp) -> Result<()> {
    let sql = "INSERT INTO file (number, generation, kind, mode, links, uid, gid, size, accessed, modified, changed, \
               created) VALUES (?1, 1, ?2, 493, 2, 0, 0, ?3, ?4, ?4, ?4, ?4)";
    connection.prepare_cached(sql)?.execute(params![
        ROOT.cast_signed(),
        Kind::Directory as u32,
        size.cast_signed(),
        now
    ])?;
    Ok(())
}

/// Sets mode, links, owner and times: what changes of names and owners change.
pub(crate) fn set_owner_and_times(connection: &Connection, file: &Attributes) -> Result<()> {
    let sql = "UPDATE file SET mode = ?2, links = ?3, uid = ?4, gid = ?5, accessed = ?6, modified = ?7, changed = ?8 \
               WHERE number = ?1";
    connection.prepare_cached(sql)?.execute(params![
        file.node.cast_signed(),
        file.mode,
        file.links,
        file.uid,
        file.gid,
        file.accessed,
        file.modified,
        file.changed
    ])?;
    Ok(())
}

/// Sets size, mode, and the times of a change of its bytes.
pub(crate) fn set_size_and_mode(
    connection: &Connection,
    node: Node,
    size: u64,
    mode: u32,
    now: Timestamp,
) -> Result<()> {
    connection
        .prepare_cached(
            "UPDATE file SET size = ?2, mode = ?3, modified = ?4, changed = ?4 WHERE number = ?1",
        )?
        .execute(params![node.cast_signed(), size.cast_signed(), mode, now])?;
    Ok(())
}

/// Times and size of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimesAndSize {
    pub accessed: Timestamp,
    pub modified: Timestamp,
    pub changed: Timestamp,
    /// Bytes.
    pub size: u64,
}

/// Sets times and size.
pub(crate) fn set_times_and_size(
    connection: &Connection,
    node: Node,
    new: &TimesAndSize,
) -> Result<()> {
    let sql =
        "UPDATE file SET accessed = ?2, modified = ?3, changed = ?4, size = ?5 WHERE number = ?1";
    connection.prepare_cached(sql)?.execute(params![
        node.cast_signed(),
        new.accessed,
        new.modified,
        new.changed,
        new.size.cast_signed()
    ])?;
    Ok(())
}

/// Sets the time of the last change of its attributes.
pub(crate) fn set_changed(connection: &Connection, node: Node, now: Timestamp) -> Result<()> {
    connection
        .prepare_cached("UPDATE file SET changed = ?2 WHERE number = ?1")?
        .execute(params![node.cast_signed(), now])?;
    Ok(())
}

/// Makes files as large as given, where they are smaller: how many were.
pub(crate) fn grow(
    connection: &Connection,
    sizes: impl Iterator<Item = (Node, u64)>,
) -> Result<usize> {
    let sql = "UPDATE file SET size = ?2 WHERE number = ?1 AND size < ?2";
    let mut update = connection.prepare_cached(sql)?;
    let mut grown = 0;
    for (node, size) in sizes {
        grown += update.execute([node.cast_signed(), size.cast_signed()])?;
    }
    Ok(grown)
}

/// Sets the space that a file takes, in units of 512 bytes. False: there is no such file.
pub(crate) fn set_blocks(connection: &Connection, node: Node, blocks: u64) -> Result<bool> {
    let changed = connection
        .prepare_cached("UPDATE file SET blocks = ?2 WHERE number = ?1")?
        .execute(params![node.cast_signed(), blocks.cast_signed()])?;
    Ok(changed > 0)
}

/// Sets the type.
pub(crate) fn set_type(
    connection: &Connection,
    node: Node,
    file_type: Option<FileType>,
) -> Result<()> {
    let sql = "UPDATE file SET type = ?2 WHERE number = ?1";
    let word = file_type.map(FileType::word);
    connection.prepare_cached(sql)?.execute(params![node.cast_signed(), word])?;
    Ok(())
}

/// Sets the type that was recognised, if it is OTHER and was not given. False: it is not changed.
pub(crate) fn set_recognised_type(
    connection: &Connection,
    node: Node,
    file_type: FileType,
) -> Result<bool> {
    let sql = "UPDATE file SET type = ?2 WHERE number = ?1 AND said = 0 AND type = ?3";
    let changed = connection.prepare_cached(sql)?.execute(params![
        node.cast_signed(),
        file_type.word(),
        FileType::Other.word()
    ])?;
    Ok(changed > 0)
}

/// Sets the type of a volume's file.
pub(crate) fn set_volume_type(connection: &Connection, node: Node) -> Result<()> {
    connection
        .execute("UPDATE file SET type = 'ASMVOL' WHERE number = ?1", [node.cast_signed()])?;
    Ok(())
}

/// Deletes a file.
pub(crate) fn delete(connection: &Connection, node: Node) -> Result<()> {
    connection
        .prepare_cached("DELETE FROM file WHERE number = ?1")?
        .execute([node.cast_signed()])?;
    Ok(())
}
