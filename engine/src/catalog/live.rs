//! The content of the views that is not in the catalog: the present states and counters.
//!
//! A query's connection has a temporary table for each kind of row (`columns/tables.rs`); they are
//! filled, by the names of their columns, before the query runs.

use super::columns;
use crate::words::sql_words;
use plinth_format::membership::DiskState;
use rusqlite::{Connection, params_from_iter, types::Value};
use std::collections::BTreeMap;

sql_words! {
    /// `V$ASM_DISKGROUP.STATE`, of a group that this engine has mounted.
    #[derive(Default)]
    pub enum GroupState {
        #[default]
        Mounted = "MOUNTED",
        /// Only administrators may use it.
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
        /// It is getting the writes that it missed.
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
    /// `V$ASM_DISK.STATE`: whether it stays in the group and responds.
    #[derive(Default)]
    pub enum DiskStatus {
        #[default]
        Normal = "NORMAL",
        Hung = "HUNG",
        /// Writes find no room in the thin pool or file system below it.
        Full = "FULL",
        /// Its I/O is delayed, as if it were farther away: `what_if.delay`.
        Delayed = "DELAYED",
        Dropping = "DROPPING",
        /// It is being dropped while it is OFFLINE.
        Forcing = "FORCING",
    }
}

/// One row of a live table: its columns, by name.
pub type Row = Vec<(&'static str, Value)>;

/// A value of a live table's column.
pub trait IntoLive {
    fn into_live(self) -> Value;
}

macro_rules! into_live {
    ($($from:ty => |$value:ident| $into:expr;)+) => {
        $(impl IntoLive for $from {
            fn into_live(self) -> Value {
                let $value = self;
                $into
            }
        })+
    };
}

into_live! {
    u64 => |value| Value::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    i64 => |value| Value::Integer(value);
    u32 => |value| Value::Integer(value.into());
    u16 => |value| Value::Integer(value.into());
    bool => |value| Value::Integer(value.into());
    String => |value| Value::Text(value);
    &str => |value| Value::Text(value.to_owned());
}

impl<T: IntoLive> IntoLive for Option<T> {
    fn into_live(self) -> Value {
        self.map_or(Value::Null, IntoLive::into_live)
    }
}

/// A row of a live table: `live_row! { number: 1, name: "DATA" }`.
macro_rules! live_row {
    ($($name:ident: $value:expr),+ $(,)?) => {
        vec![$((stringify!($name), $crate::catalog::live::IntoLive::into_live($value)),)+]
    };
}
pub(crate) use live_row;

/// The content of the views that is not in the catalog: rows by the names of live tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Live(BTreeMap<&'static str, Vec<Row>>);

impl Live {
    /// Adds rows to a table.
    pub fn add(&mut self, table: &'static str, rows: impl IntoIterator<Item = Row>) {
        self.0.entry(table).or_default().extend(rows);
    }

    /// The tables that have rows.
    #[cfg(test)]
    pub(crate) fn tables(&self) -> &BTreeMap<&'static str, Vec<Row>> {
        &self.0
    }

    /// Fills the temporary tables.
    pub(super) fn fill(&self, connection: &Connection) -> rusqlite::Result<()> {
        for table in columns::live_tables() {
            connection.prepare_cached(&format!("DELETE FROM temp.{table}"))?.execute([])?;
            let rows = self.0.get(table).map_or(&[][..], Vec::as_slice);
            let Some(first) = rows.first() else { continue };
            let names = first.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let marks = vec!["?"; first.len()].join(", ");
            let insert = format!("INSERT INTO temp.{table} ({names}) VALUES ({marks})");
            let mut insert = connection.prepare_cached(&insert)?;
            for row in rows {
                insert.execute(params_from_iter(row.iter().map(|(_, value)| value)))?;
            }
        }
        Ok(())
    }
}
