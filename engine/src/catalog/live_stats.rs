//! What the views of `views_stats.sql` show that is not in the catalog: counters, histograms, and
//! what lies in fixed places.
//!
//! As in `live.rs` a query's connection has a temporary table for each. There may be many rows, so
//! only those of the views that a statement names are gathered: [`NamedViews`].

use rusqlite::{Connection, params};

/// Which of these views a statement names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamedViews {
    pub disk_times: bool,
    pub file_times: bool,
    pub file_counts: bool,
    pub disk_errors: bool,
    pub space: bool,
    pub units: bool,
    pub partners: bool,
    pub clients: bool,
    pub disk_clients: bool,
    pub read_policy: bool,
}

impl NamedViews {
    /// By the text of a statement: a name in a comment is enough.
    #[must_use]
    pub fn in_statement(sql: &str) -> Self {
        let sql = sql.to_ascii_lowercase();
        let names = |what: &str| sql.contains(what);
        // There are many files, and most statements ask for nothing that is counted of them.
        let all_columns = sql.match_indices('*').any(|(at, _)| !sql[..at].ends_with('('));
        Self {
            disk_times: names("v$asm_disk_histogram")
                || names("v$asm_diskgroup_histogram")
                || names("v$event_histogram_micro"),
            file_times: names("v$asm_file_histogram") || names("v$event_histogram_micro"),
            file_counts: names("v$asm_file_")
                || names("v$event_histogram_micro")
                || (names("v$asm_file") && (names("cold_") || all_columns)),
            disk_errors: names("v$asm_error"),
            space: names("v$asm_space") || names("v$asm_filesystem"),
            units: names("x$kfdat"),
            disk_clients: names("v$asm_disk_iostat"),
            read_policy: names("v$asm_read_policy"),
            partners: names("x$kfdpartner"),
            clients: names("v$asm_client") || names("v$asm_filesystem"),
        }
    }
}

/// A bucket of a disk's or a file's histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveTime {
    /// The disk's number, or the file's.
    pub of: u64,
    pub class: String,
    /// Microseconds.
    pub below: u64,
    pub count: u64,
    /// Nanoseconds since 1970.
    pub last: Option<i64>,
}

/// I/O of front ends on a file; with number 0, on all other files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveFile {
    pub number: u64,
    pub small_reads: u64,
    pub large_reads: u64,
    pub small_writes: u64,
    pub large_writes: u64,
    pub syncs: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Microseconds.
    pub read_time: u64,
    pub write_time: u64,
    pub sync_time: u64,
}

/// I/O of a disk for one client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveDiskClient {
    pub disk: u32,
    pub client: String,
    /// Of reads and of writes: how many, errors, timeouts, microseconds, bytes.
    pub reads: [u64; 5],
    pub writes: [u64; 5],
}

/// Why reads went to a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveReadPolicy {
    pub disk: u32,
    /// In the order of `ReadReason::ALL`.
    pub counts: [u64; 6],
    /// Microseconds, by class of lengths.
    pub expected: [Option<u64>; 4],
}

/// Errors of one kind on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveTrouble {
    pub disk: u32,
    pub kind: String,
    pub count: u64,
    /// Nanoseconds since 1970.
    pub first: i64,
    pub last: i64,
    /// Byte offset and bytes.
    pub place: Option<(u64, u64)>,
    pub text: String,
}

/// An AU that no file has and no file can get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveUnit {
    pub disk: u32,
    pub au: u32,
    /// `SYSTEM`, `CHECKSUMS`, `HEADER`, `CATALOG`, `LOG`.
    pub what: &'static str,
    /// Which one of its kind.
    pub number: u32,
}

/// A disk's partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivePartner {
    pub disk: u32,
    pub partner: u32,
    /// Both serve.
    pub active: bool,
}

/// How much can be written. Bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveSpace {
    pub total: u64,
    pub free: u64,
    pub catalog: u64,
    pub files: u64,
    pub pending: u64,
    pub writable: u64,
    pub safe: u64,
    /// The failure group whose loss decides that, if one does.
    pub bound_by: Option<String>,
    /// Whether redundancy can be restored after the loss of a failure group.
    pub restorable: bool,
    /// With one, two and three mirrors.
    pub by_mirrors: [u64; 3],
    pub remark: Option<String>,
}

/// A client of the group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveClient {
    pub instance: String,
    pub database: Option<String>,
    pub software: Option<String>,
    pub kind: String,
    pub pid: Option<u32>,
    pub mount_point: Option<String>,
    pub open_files: Option<u64>,
}

/// See the module's description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveStats {
    pub disk_times: Vec<LiveTime>,
    pub disk_clients: Vec<LiveDiskClient>,
    pub read_policy: Vec<LiveReadPolicy>,
    pub file_times: Vec<LiveTime>,
    pub files: Vec<LiveFile>,
    pub disk_errors: Vec<LiveTrouble>,
    pub units: Vec<LiveUnit>,
    /// Of each disk, how many AUs it has.
    pub unit_counts: Vec<(u32, u32)>,
    pub partners: Vec<LivePartner>,
    pub space: Option<LiveSpace>,
    pub clients: Vec<LiveClient>,
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Fills one of the tables anew.
fn fill<T>(
    connection: &Connection,
    table: &str,
    width: usize,
    rows: &[T],
    row: impl Fn(&mut rusqlite::CachedStatement<'_>, &T) -> rusqlite::Result<usize>,
) -> rusqlite::Result<()> {
    connection.prepare_cached(&format!("DELETE FROM temp.{table}"))?.execute([])?;
    if rows.is_empty() {
        return Ok(());
    }
    let marks = vec!["?"; width].join(",");
    let mut insert =
        connection.prepare_cached(&format!("INSERT INTO temp.{table} VALUES ({marks})"))?;
    rows.iter().try_for_each(|one| row(&mut insert, one).map(drop))
}

impl LiveStats {
    /// Fills the temporary tables.
    pub(super) fn fill(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.fill_disks(connection)?;
        self.fill_files(connection)?;
        self.fill_group(connection)
    }

    /// Those of disks, and of reads by disk; the histograms of disks and files.
    fn fill_disks(&self, connection: &Connection) -> rusqlite::Result<()> {
        for (table, times) in
            [("live_disk_time", &self.disk_times), ("live_file_time", &self.file_times)]
        {
            fill(connection, table, 5, times, |insert, time| {
                insert.execute(params![
                    signed(time.of),
                    time.class,
                    signed(time.below),
                    signed(time.count),
                    time.last
                ])
            })?;
        }
        fill(connection, "live_disk_client", 12, &self.disk_clients, |insert, row| {
            let [reads, writes] = [row.reads, row.writes].map(|numbers| numbers.map(signed));
            insert.execute(params![
                row.disk, row.client, reads[0], reads[1], reads[2], reads[3], reads[4], writes[0],
                writes[1], writes[2], writes[3], writes[4],
            ])
        })?;
        fill(connection, "live_read_policy", 11, &self.read_policy, |insert, row| {
            let [preferred, faster, equal, only, retry, exploration] = row.counts.map(signed);
            let [small, medium, large, huge] = row.expected.map(|micros| micros.map(signed));
            insert.execute(params![
                row.disk,
                preferred,
                faster,
                equal,
                only,
                retry,
                exploration,
                small,
                medium,
                large,
                huge,
            ])
        })
    }

    /// Those of files and errors.
    fn fill_files(&self, connection: &Connection) -> rusqlite::Result<()> {
        fill(connection, "live_file", 11, &self.files, |insert, file| {
            insert.execute(params![
                signed(file.number),
                signed(file.small_reads),
                signed(file.large_reads),
                signed(file.small_writes),
                signed(file.large_writes),
                signed(file.syncs),
                signed(file.bytes_read),
                signed(file.bytes_written),
                signed(file.read_time),
                signed(file.write_time),
                signed(file.sync_time),
            ])
        })?;
        fill(connection, "live_trouble", 8, &self.disk_errors, |insert, trouble| {
            insert.execute(params![
                trouble.disk,
                trouble.kind,
                signed(trouble.count),
                trouble.first,
                trouble.last,
                trouble.place.map(|(offset, _)| signed(offset)),
                trouble.place.map(|(_, length)| signed(length)),
                trouble.text,
            ])
        })
    }

    /// Those of AUs, space and clients.
    fn fill_group(&self, connection: &Connection) -> rusqlite::Result<()> {
        fill(connection, "live_unit", 4, &self.units, |insert, unit| {
            insert.execute(params![unit.disk, unit.au, unit.what, unit.number])
        })?;
        fill(connection, "live_unit_count", 2, &self.unit_counts, |insert, (disk, count)| {
            insert.execute(params![disk, count])
        })?;
        fill(connection, "live_partner", 3, &self.partners, |insert, partner| {
            insert.execute(params![partner.disk, partner.partner, partner.active])
        })?;
        fill(connection, "live_space", 13, self.space.as_slice(), |insert, space| {
            insert.execute(params![
                signed(space.total),
                signed(space.free),
                signed(space.catalog),
                signed(space.files),
                signed(space.pending),
                signed(space.writable),
                signed(space.safe),
                space.bound_by,
                space.restorable,
                signed(space.by_mirrors[0]),
                signed(space.by_mirrors[1]),
                signed(space.by_mirrors[2]),
                space.remark,
            ])
        })?;
        fill(connection, "live_client", 7, &self.clients, |insert, client| {
            insert.execute(params![
                client.instance,
                client.database,
                client.software,
                client.kind,
                client.pid,
                client.mount_point,
                client.open_files.map(signed),
            ])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_gathered_only_for_named_views() {
        assert_eq!(NamedViews::in_statement("SELECT path FROM v$asm_disk"), NamedViews::default());
        let wanted = NamedViews::in_statement("SELECT * FROM V$ASM_FILE_HISTOGRAM, x$kfdat");
        assert_eq!(
            wanted,
            NamedViews {
                file_times: true,
                file_counts: true,
                units: true,
                ..NamedViews::default()
            }
        );
        for (sql, wanted) in [
            ("SELECT type, count(*) FROM v$asm_file GROUP BY type", false),
            ("SELECT * FROM v$asm_file", true),
            ("SELECT sum(Cold_Reads) FROM V$ASM_FILE", true),
            ("SELECT f.* FROM v$asm_alias JOIN v$asm_file AS f USING (file_number)", true),
            ("SELECT small_reads FROM v$asm_file_iostat", true),
        ] {
            assert_eq!(NamedViews::in_statement(sql).file_counts, wanted, "{sql}");
        }
    }
}
