//! What the views show that is not in the catalog: states and counters of the moment.
//!
//! A query's connection has a small temporary table for each; they are filled
//! before the query runs.

use super::live_stats::LiveStats;
use crate::{
    admin::{HeaderStatus, Operation},
    words::sql_words,
};
use plinth_format::membership::DiskState;
use rusqlite::{Connection, params};

sql_words! {
    /// `V$ASM_DISKGROUP.STATE`, of a group that this engine has.
    #[derive(Default)]
    pub enum GroupState {
        #[default]
        Mounted = "MOUNTED",
        /// For administrators alone.
        Restricted = "RESTRICTED",
    }
}

sql_words! {
    /// `V$ASM_DISK.MOUNT_STATUS`, of a member.
    #[derive(Default)]
    pub enum MountStatus {
        #[default]
        Cached = "CACHED",
        /// The engine has no device for it.
        Missing = "MISSING",
    }
}

sql_words! {
    /// `V$ASM_DISK.MODE_STATUS`: whether it is read and written.
    #[derive(Default)]
    pub enum ModeStatus {
        #[default]
        Online = "ONLINE",
        Offline = "OFFLINE",
        /// It gets what it missed.
        Syncing = "SYNCING",
    }
}

impl From<DiskState> for ModeStatus {
    fn from(state: DiskState) -> Self {
        match state {
            DiskState::Online => Self::Online,
            DiskState::Offline => Self::Offline,
            DiskState::Syncing => Self::Syncing,
        }
    }
}

sql_words! {
    /// `V$ASM_DISK.STATE`: whether it stays in the group, and answers.
    #[derive(Default)]
    pub enum DiskStatus {
        #[default]
        Normal = "NORMAL",
        Hung = "HUNG",
        Dropping = "DROPPING",
        /// It is dropped although it is offline.
        Forcing = "FORCING",
    }
}

/// The group: one row of `live_group`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveGroup {
    /// As the instance numbers groups.
    pub number: i64,
    pub name: String,
    pub logical_sector: u32,
    pub sector: u32,
    /// Bytes.
    pub au_size: u64,
    pub state: GroupState,
    /// `EXTERN`, `NORMAL`, `HIGH`.
    pub redundancy: String,
    /// Bytes, before mirroring.
    pub total: u64,
    pub free: u64,
    pub required_mirror_free: u64,
    /// Bytes, after mirroring; negative when redundancy could not be restored.
    pub usable: i64,
    pub offline_disks: u32,
}

/// A disk: one row of `live_disk`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveDisk {
    pub number: u32,
    pub mount_status: MountStatus,
    pub header_status: HeaderStatus,
    pub mode_status: ModeStatus,
    pub state: DiskStatus,
    /// Bytes.
    pub os_size: u64,
    pub total: u64,
    pub free: u64,
    pub name: String,
    pub failure_group: String,
    pub quorum: bool,
    pub path: String,
    pub id: String,
    /// Nanoseconds since 1970.
    pub created: i64,
    pub mounted: i64,
    /// Seconds until it is dropped; 0 if it is online.
    pub repair_timer: u64,
    pub reads: u64,
    pub writes: u64,
    pub read_errors: u64,
    pub write_errors: u64,
    pub read_timeouts: u64,
    pub write_timeouts: u64,
    /// Microseconds.
    pub read_time: u64,
    pub write_time: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Blocks found bad and rewritten from another mirror.
    pub blocks_repaired: u64,
    /// Records of the engine's own that were found overwritten and written again.
    pub metadata_repaired: u64,
    pub votes: bool,
    pub sector: u32,
    pub logical_sector: u32,
    pub can_discard: bool,
    /// Of its id.
    pub hash: u32,
    /// `Y`, `N`, `U`.
    pub preferred: String,
}

/// The part of the views that is not in the catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    pub group: LiveGroup,
    pub disks: Vec<LiveDisk>,
    /// Rows of `live_operation`.
    pub operations: Vec<Operation>,
    /// Rows of `live_move_wait`: microseconds at most, and how many.
    pub move_waits: Vec<(u64, u64)>,
    pub stats: LiveStats,
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Fills `live_disk`.
fn fill_disks(connection: &Connection, disks: &[LiveDisk]) -> rusqlite::Result<()> {
    let values = ["?"; 34].join(",");
    let insert = format!("INSERT INTO temp.live_disk VALUES ({values})");
    for disk in disks {
        connection.prepare_cached(&insert)?.execute(params![
            disk.number,
            disk.mount_status.word(),
            disk.header_status.word(),
            disk.mode_status.word(),
            disk.state.word(),
            signed(disk.os_size),
            signed(disk.total),
            signed(disk.free),
            disk.name,
            disk.failure_group,
            disk.quorum,
            disk.path,
            disk.id,
            disk.created,
            disk.mounted,
            signed(disk.repair_timer),
            signed(disk.reads),
            signed(disk.writes),
            signed(disk.read_errors),
            signed(disk.write_errors),
            signed(disk.read_timeouts),
            signed(disk.write_timeouts),
            signed(disk.read_time),
            signed(disk.write_time),
            signed(disk.bytes_read),
            signed(disk.bytes_written),
            signed(disk.blocks_repaired),
            signed(disk.metadata_repaired),
            disk.votes,
            disk.sector,
            disk.logical_sector,
            disk.can_discard,
            disk.hash,
            disk.preferred,
        ])?;
    }
    Ok(())
}

impl Live {
    /// Fills the temporary tables.
    pub(super) fn fill(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch(
            "DELETE FROM temp.live_group; DELETE FROM temp.live_disk; DELETE FROM temp.live_operation;
             DELETE FROM temp.live_move_wait;",
        )?;
        let group = &self.group;
        connection
            .prepare_cached("INSERT INTO temp.live_group VALUES (?,?,?,?,?,?,?,?,?,?,?,?)")?
            .execute(params![
                group.number,
                group.name,
                group.logical_sector,
                group.sector,
                signed(group.au_size),
                group.state.word(),
                group.redundancy,
                signed(group.total),
                signed(group.free),
                signed(group.required_mirror_free),
                group.usable,
                group.offline_disks,
            ])?;
        fill_disks(connection, &self.disks)?;
        for operation in &self.operations {
            connection
                .prepare_cached("INSERT INTO temp.live_operation VALUES (?,?,?,?,?,?,?,?)")?
                .execute(params![
                    operation.pass.word(),
                    operation.state.word(),
                    operation.power,
                    signed(operation.so_far),
                    signed(operation.work),
                    signed(operation.rate),
                    signed(operation.bytes),
                    operation.error,
                ])?;
        }
        for (micros, count) in &self.move_waits {
            let mut insert =
                connection.prepare_cached("INSERT INTO temp.live_move_wait VALUES (?,?)")?;
            insert.execute(params![signed(*micros), signed(*count)])?;
        }
        self.stats.fill(connection)
    }
}
