//! Table `stale`: runs of extent ids of which a disk may lack writes.

use super::{Result, extent::IDS_END};
use plinth_format::{DiskNumber, activity::Region};
use rusqlite::{Connection, params};

/// A run of extent ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StaleRun {
    pub first: u64,
    pub count: u64,
}

/// All runs of all disks. A row that cannot be a run says at least that the disk misses something:
/// it counts as everything.
pub(crate) fn load(connection: &Connection) -> Result<Vec<(DiskNumber, StaleRun)>> {
    let mut select = connection.prepare("SELECT disk, first, count FROM stale")?;
    let rows = select.query_map([], |row| {
        let (disk, first, count): (u16, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let run = u64::try_from(first).ok().zip(u64::try_from(count).ok());
        let (first, count) = run.unwrap_or((0, IDS_END));
        Ok((DiskNumber(disk), StaleRun { first, count }))
    })?;
    rows.collect()
}

/// Records that each of the disks may lack writes of each of the regions.
pub(crate) fn mark(
    connection: &Connection,
    disks: &[DiskNumber],
    regions: &[Region],
) -> Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO stale(disk, first, count) VALUES (?1, ?2, ?3)
         ON CONFLICT(disk, first) DO UPDATE SET count = max(count, excluded.count)",
    )?;
    for disk in disks {
        for region in regions {
            insert.execute(params![disk.0, region.first.cast_signed(), region.count])?;
        }
    }
    Ok(())
}

/// Replaces the runs of a disk.
pub(crate) fn replace(
    connection: &Connection,
    disk: DiskNumber,
    runs: impl Iterator<Item = StaleRun>,
) -> Result<()> {
    connection.prepare_cached("DELETE FROM stale WHERE disk = ?1")?.execute([disk.0])?;
    let mut insert =
        connection.prepare_cached("INSERT INTO stale(disk, first, count) VALUES (?1, ?2, ?3)")?;
    for run in runs {
        insert.execute(params![disk.0, run.first.cast_signed(), run.count.cast_signed()])?;
    }
    Ok(())
}

/// Deletes the runs of all disks.
pub(crate) fn delete_all(connection: &Connection) -> Result<()> {
    connection.execute("DELETE FROM stale", [])?;
    Ok(())
}
