//! A catalog that was copied from the disks of a group that is not mounted: an SQLite database of
//! its own, read without the engine's threads and caches.

use super::{CatalogError, SCHEMA_VERSION, salvage, tables};
use crate::api::{Attributes, Node};
use plinth_format::{Au, DiskNumber, Piece};
use rusqlite::{Connection, config::DbConfig, params};
use std::collections::BTreeMap;

pub use salvage::Salvaged;

type Result<T> = rusqlite::Result<T>;

/// A copied catalog.
pub struct CopiedTables(Connection);

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedName {
    pub parent: Node,
    pub name: Vec<u8>,
    pub node: Node,
}

/// The extent that an AU of a disk holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub extent: u64,
    /// 0: the extent is shared by small files.
    pub file: Node,
    /// The extent's place in its file.
    pub number: u64,
}

impl CopiedTables {
    /// The tables of a copy without damaged pages. `None`: it is of an earlier version, and can be
    /// read as a damaged one is.
    ///
    /// # Errors
    /// If it is of a later version, or SQLite's.
    pub fn new(connection: Connection) -> std::result::Result<Option<Self>, CatalogError> {
        // The schema is from the disks, which may hold any bytes.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match version {
            SCHEMA_VERSION => Ok(Some(Self(connection))),
            found if found > SCHEMA_VERSION => Err(CatalogError::Newer { found }),
            _ => Ok(None),
        }
    }

    /// The tables of a copy of which pages are damaged: the rows of the others, in a new database.
    ///
    /// # Errors
    /// SQLite's, about the new database.
    pub fn salvage(
        new: Connection,
        page: &dyn Fn(u32) -> Option<Vec<u8>>,
        pages: u32,
    ) -> std::result::Result<(Self, Salvaged), CatalogError> {
        let salvaged = salvage::salvage(&new, page, pages)?;
        Ok((Self(new), salvaged))
    }

    /// Every name.
    ///
    /// # Errors
    /// SQLite's.
    pub fn names(&self) -> Result<Vec<CopiedName>> {
        let mut select = self.0.prepare("SELECT parent, name, node FROM entry")?;
        let rows = select.query_map([], |row| {
            Ok(CopiedName {
                parent: row.get::<_, i64>(0)?.cast_unsigned(),
                name: row.get(1)?,
                node: row.get::<_, i64>(2)?.cast_unsigned(),
            })
        })?;
        rows.collect()
    }

    /// The number of every file.
    ///
    /// # Errors
    /// SQLite's.
    pub fn nodes(&self) -> Result<Vec<Node>> {
        let mut select = self.0.prepare("SELECT number FROM file ORDER BY number")?;
        let rows = select.query_map([], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))?;
        rows.collect()
    }

    /// # Errors
    /// SQLite's.
    pub fn file(&self, node: Node) -> Result<Option<Attributes>> {
        tables::file::load(&self.0, node)
    }

    /// # Errors
    /// SQLite's.
    pub fn link_target(&self, node: Node) -> Result<Option<Vec<u8>>> {
        tables::file::link_target(&self.0, node)
    }

    /// The extents of a file, or the shared one in which it has a slot.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn extents(
        &self,
        node: Node,
    ) -> Result<(Vec<tables::extent::ExtentRow>, Option<Piece>)> {
        match tables::slot::of(&self.0, node)? {
            Some((extent, piece)) => {
                Ok((tables::extent::load(&self.0, extent)?.into_iter().collect(), Some(piece)))
            }
            None => Ok((tables::extent::of_file(&self.0, node)?, None)),
        }
    }

    /// Runs of extents of which a disk may lack writes: first and count.
    ///
    /// # Errors
    /// SQLite's.
    pub fn stale(&self) -> Result<BTreeMap<DiskNumber, Vec<(u64, u64)>>> {
        let mut all: BTreeMap<DiskNumber, Vec<(u64, u64)>> = BTreeMap::new();
        for (disk, run) in tables::stale::load(&self.0)? {
            all.entry(disk).or_default().push((run.first, run.count));
        }
        Ok(all)
    }

    /// The extents with a mirror in an AU: one at most, unless the catalog is damaged.
    ///
    /// # Errors
    /// SQLite's.
    pub fn holders(&self, disk: DiskNumber, au: Au) -> Result<Vec<Holder>> {
        let sql = "SELECT id, file, number FROM extent \
                   WHERE (d0 = ?1 AND a0 = ?2) OR (d1 = ?1 AND a1 = ?2) OR (d2 = ?1 AND a2 = ?2)";
        let mut select = self.0.prepare_cached(sql)?;
        let rows = select.query_map(params![disk.0, au.0], |row| {
            let number = |column| Result::Ok(row.get::<_, i64>(column)?.cast_unsigned());
            Ok(Holder { extent: number(0)?, file: number(1)?, number: number(2)? })
        })?;
        rows.collect()
    }

    /// The file with a slot in a shared extent.
    ///
    /// # Errors
    /// SQLite's.
    pub fn in_slot(&self, extent: u64, piece: Piece) -> Result<Vec<Node>> {
        let sql = "SELECT number FROM file WHERE shared_extent = ?1 AND slot = ?2";
        let mut select = self.0.prepare_cached(sql)?;
        let piece = i64::try_from(piece.0).unwrap_or(i64::MAX);
        let rows = select.query_map(params![extent.cast_signed(), piece], |row| {
            Ok(row.get::<_, i64>(0)?.cast_unsigned())
        })?;
        rows.collect()
    }
}
