//! Table `extent`: AU-sized pieces of files, each in one to three mirrors, and the marks of what
//! they hold.

use super::{Result, unsigned};
use crate::{
    api::Node,
    space::{mirror_sets::MirrorCount, mirrors::Mirrors, placement::Mirror},
    sync::bits::Bits,
};
use plinth_format::{Au, DiskNumber, Piece};
use rusqlite::{CachedStatement, Connection, Error, OptionalExtension, Params, Row, params};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// Extent ids are SQLite integers: this is past the last.
pub(crate) const IDS_END: u64 = i64::MAX as u64;

/// The columns of an [`ExtentRow`].
const COLUMNS: &str = "id, file, number, d0, a0, d1, a1, d2, a2, mirrors, written, pending";

/// An extent without its marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewExtent {
    pub id: u64,
    /// The file it belongs to; 0 for a shared extent.
    pub file: Node,
    /// Its place in the file; the id for a shared extent.
    pub number: u64,
    pub mirrors: Mirrors,
    /// Mirrors that its file asks for; 0: as the group.
    pub own: MirrorCount,
}

/// Which pieces of an extent hold data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MarksRow {
    /// Pieces whose data was flushed before the mark was committed.
    pub written: Bits,
    /// Pieces whose data was written but perhaps not flushed.
    pub pending: Bits,
}

impl MarksRow {
    /// Of the first `pieces` pieces, those that hold no data.
    pub(crate) fn holes(&self, pieces: usize) -> impl Iterator<Item = Piece> {
        (0..pieces)
            .map(Piece)
            .filter(|piece| !self.written.has(*piece) && !self.pending.has(*piece))
    }
}

/// An extent with its marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExtentRow {
    pub extent: NewExtent,
    pub marks: MarksRow,
}

fn of_row(row: &Row<'_>) -> Result<ExtentRow> {
    let mut mirrors = Mirrors::new(&[]);
    for column in [3, 5, 7] {
        let disk: Option<u16> = row.get(column)?;
        let au: Option<u32> = row.get(column + 1)?;
        if let (Some(disk), Some(au)) = (disk, au) {
            mirrors.push(Mirror { disk: DiskNumber(disk), au: Au(au) });
        }
    }
    // No extent has an id so high that sums of ids overflow.
    let id = positive(row, 0)?;
    if id >= IDS_END - u64::from(u32::MAX) {
        return Err(Error::IntegralValueOutOfRange(0, id.cast_signed()));
    }
    let extent = NewExtent {
        id,
        file: positive(row, 1)?,
        number: positive(row, 2)?,
        mirrors,
        own: MirrorCount::from_column(row.get(9)?),
    };
    let bits = |column| {
        Result::Ok(Bits::from_bytes(row.get_ref(column)?.as_blob_or_null()?.unwrap_or_default()))
    };
    Ok(ExtentRow { extent, marks: MarksRow { written: bits(10)?, pending: bits(11)? } })
}

fn positive(row: &Row<'_>, column: usize) -> Result<u64> {
    let value = row.get::<_, i64>(column)?;
    u64::try_from(value).map_err(|_| Error::IntegralValueOutOfRange(column, value))
}

fn rows(mut select: CachedStatement<'_>, values: impl Params) -> Result<Vec<ExtentRow>> {
    select.query_map(values, of_row)?.collect()
}

/// One extent.
pub(crate) fn load(connection: &Connection, id: u64) -> Result<Option<ExtentRow>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM extent WHERE id = ?1"))?
        .query_row([id.cast_signed()], of_row)
        .optional()
}

/// Passes every extent, in the order of ids.
pub(crate) fn each(connection: &Connection, mut pass: impl FnMut(ExtentRow)) -> Result<()> {
    let mut select = connection.prepare(&format!("SELECT {COLUMNS} FROM extent ORDER BY id"))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        pass(of_row(row)?);
    }
    Ok(())
}

/// Extents with ids from `from` on, in ascending order, `most` of them at most.
pub(crate) fn some_from(connection: &Connection, from: u64, most: usize) -> Result<Vec<ExtentRow>> {
    let sql = format!("SELECT {COLUMNS} FROM extent WHERE id >= ?1 ORDER BY id LIMIT ?2");
    rows(connection.prepare_cached(&sql)?, params![from.cast_signed(), most as i64])
}

/// The extents of a file, in the order of their numbers.
pub(crate) fn of_file(connection: &Connection, file: Node) -> Result<Vec<ExtentRow>> {
    let sql = format!("SELECT {COLUMNS} FROM extent WHERE file = ?1 ORDER BY number");
    rows(connection.prepare_cached(&sql)?, [file.cast_signed()])
}

/// Extents of a file, `most` of them at most.
pub(crate) fn some_of_file(
    connection: &Connection,
    file: Node,
    most: usize,
) -> Result<Vec<ExtentRow>> {
    let sql = format!("SELECT {COLUMNS} FROM extent WHERE file = ?1 LIMIT ?2");
    rows(connection.prepare_cached(&sql)?, params![file.cast_signed(), most as i64])
}

/// Ids of a file's extents, and of the shared extent that it lies in.
pub(crate) fn ids_of_file(connection: &Connection, file: Node) -> Result<Vec<u64>> {
    let mut select = connection.prepare_cached(
        "SELECT id FROM extent WHERE file = ?1 \
         UNION SELECT shared_extent FROM file WHERE number = ?1 AND shared_extent IS NOT NULL",
    )?;
    let rows = select.query_map([file.cast_signed()], |row| unsigned(row, 0))?;
    rows.collect()
}

/// Ids from `from` on, in ascending order, `most` of them at most.
pub(crate) fn ids_from(connection: &Connection, from: u64, most: i64) -> Result<Vec<u64>> {
    let mut select =
        connection.prepare_cached("SELECT id FROM extent WHERE id >= ?1 ORDER BY id LIMIT ?2")?;
    let rows = select.query_map(params![from.cast_signed(), most], |row| unsigned(row, 0))?;
    rows.collect()
}

/// How many extents there are with ids from `from` on.
pub(crate) fn count_from(connection: &Connection, from: u64) -> Result<u64> {
    connection
        .prepare_cached("SELECT count(*) FROM extent WHERE id >= ?1")?
        .query_row([from.cast_signed()], |row| unsigned(row, 0))
}

/// How many of them have a mirror on one of the disks.
pub(crate) fn count_on_disks_from(
    connection: &Connection,
    disks: &[DiskNumber],
    from: u64,
) -> Result<u64> {
    let list: Vec<String> = disks.iter().map(|disk| disk.0.to_string()).collect();
    let list = list.join(",");
    let sql = format!(
        "SELECT count(*) FROM extent WHERE id >= ?1 AND (d0 IN ({list}) OR d1 IN ({list}) OR d2 IN ({list}))"
    );
    connection.query_row(&sql, params![from.cast_signed()], |row| unsigned(row, 0))
}

/// Extents with ids in a range and a mirror on a disk, in ascending order, `most` of them at most.
pub(crate) fn on_disk(
    connection: &Connection,
    disk: DiskNumber,
    ids: Range<u64>,
    most: usize,
) -> Result<Vec<ExtentRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM extent WHERE id >= ?1 AND id < ?2 AND ?3 IN (d0, d1, d2) ORDER BY id LIMIT ?4"
    );
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let end = ids.end.min(IDS_END).cast_signed();
    rows(connection.prepare_cached(&sql)?, params![ids.start.cast_signed(), end, disk.0, most])
}

/// How many extents have ids in one of the ranges and a mirror on a disk.
pub(crate) fn count_on_disk(
    connection: &Connection,
    disk: DiskNumber,
    ranges: &[Range<u64>],
) -> Result<u64> {
    let mut select = connection.prepare_cached(
        "SELECT count(*) FROM extent WHERE id >= ?1 AND id < ?2 AND ?3 IN (d0, d1, d2)",
    )?;
    let mut count = 0;
    for ids in ranges {
        let values = params![ids.start.cast_signed(), ids.end.cast_signed(), disk.0];
        count += select.query_row(values, |row| unsigned(row, 0))?;
    }
    Ok(count)
}

/// How many AUs of each disk belong to extents.
pub(crate) fn count_aus(connection: &Connection) -> Result<BTreeMap<DiskNumber, u64>> {
    let mut aus = BTreeMap::new();
    for column in ["d0", "d1", "d2"] {
        let sql = format!(
            "SELECT {column}, count(*) FROM extent WHERE {column} IS NOT NULL GROUP BY {column}"
        );
        let mut select = connection.prepare(&sql)?;
        let rows = select.query_map([], |row| Ok((row.get::<_, u16>(0)?, unsigned(row, 1)?)))?;
        for row in rows {
            let (disk, count) = row?;
            *aus.entry(DiskNumber(disk)).or_default() += count;
        }
    }
    Ok(aus)
}

/// Marks of extents with ids from `from` on, in ascending order, `most` of them at most. A value
/// that cannot be read counts as no marks.
pub(crate) fn marks_from(
    connection: &Connection,
    from: u64,
    most: i64,
) -> Result<Vec<(u64, MarksRow)>> {
    let sql = "SELECT id, written, pending FROM extent WHERE id >= ?1 ORDER BY id LIMIT ?2";
    let mut select = connection.prepare_cached(sql)?;
    let rows = select.query_map(params![from.cast_signed(), most], |row| {
        let bits = |column| {
            let blob = row.get_ref(column)?.as_blob_or_null().ok().flatten();
            Result::Ok(Bits::from_bytes(blob.unwrap_or_default()))
        };
        Ok((unsigned(row, 0)?, MarksRow { written: bits(1)?, pending: bits(2)? }))
    })?;
    rows.collect()
}

/// Extents with pending pieces.
pub(crate) fn with_pending(connection: &Connection) -> Result<Vec<ExtentRow>> {
    let sql = format!("SELECT {COLUMNS} FROM extent WHERE pending IS NOT NULL");
    let mut select = connection.prepare(&sql)?;
    select.query_map([], of_row)?.collect()
}

/// Files with pending pieces.
pub(crate) fn files_with_pending(connection: &Connection) -> Result<BTreeSet<Node>> {
    let sql = "SELECT file FROM extent WHERE pending IS NOT NULL AND file <> 0
        UNION SELECT number FROM file WHERE shared_extent IN (SELECT id FROM extent WHERE pending IS NOT NULL)";
    let mut select = connection.prepare(sql)?;
    let files = select.query_map([], |row| unsigned(row, 0))?;
    files.collect()
}

/// Takes the marks off all pending pieces.
pub(crate) fn clear_pending(connection: &Connection) -> Result<()> {
    connection.execute("UPDATE extent SET pending = NULL WHERE pending IS NOT NULL", [])?;
    Ok(())
}

/// Adds an extent that holds nothing.
pub(crate) fn insert(connection: &Connection, new: &NewExtent) -> Result<()> {
    let disk = |index: usize| new.mirrors.get(index).map(|mirror| mirror.disk.0);
    let au = |index: usize| new.mirrors.get(index).map(|mirror| mirror.au.0);
    connection
        .prepare_cached(&format!(
            "INSERT INTO extent({COLUMNS}) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,NULL,NULL)"
        ))?
        .execute(params![
            new.id.cast_signed(),
            new.file.cast_signed(),
            new.number.cast_signed(),
            disk(0),
            au(0),
            disk(1),
            au(1),
            disk(2),
            au(2),
            new.own.to_column(),
        ])?;
    Ok(())
}

/// Sets where an extent's mirrors are.
pub(crate) fn set_mirrors(connection: &Connection, id: u64, mirrors: &[Mirror]) -> Result<()> {
    let disk = |index: usize| mirrors.get(index).map(|mirror| mirror.disk.0);
    let au = |index: usize| mirrors.get(index).map(|mirror| mirror.au.0);
    connection
        .prepare_cached(
            "UPDATE extent SET d0 = ?2, a0 = ?3, d1 = ?4, a1 = ?5, d2 = ?6, a2 = ?7 WHERE id = ?1",
        )?
        .execute(params![id.cast_signed(), disk(0), au(0), disk(1), au(1), disk(2), au(2)])?;
    Ok(())
}

/// Sets which pieces of an extent hold data.
pub(crate) fn mark(connection: &Connection, id: u64, marks: &MarksRow) -> Result<()> {
    let blob = |bits: &Bits| (!bits.is_empty()).then(|| bits.as_bytes().to_vec());
    connection
        .prepare_cached("UPDATE extent SET written = ?2, pending = ?3 WHERE id = ?1")?
        .execute(params![id.cast_signed(), blob(&marks.written), blob(&marks.pending)])?;
    Ok(())
}

/// Deletes an extent.
pub(crate) fn delete(connection: &Connection, id: u64) -> Result<()> {
    connection.prepare_cached("DELETE FROM extent WHERE id = ?1")?.execute([id.cast_signed()])?;
    Ok(())
}

/// An empty table of extents, for tests that need no other.
#[cfg(test)]
pub(crate) fn create_table(connection: &Connection) {
    let columns = COLUMNS.replace("id,", "id INTEGER PRIMARY KEY,");
    connection.execute_batch(&format!("CREATE TABLE extent({columns})")).expect("a table");
}
