//! Fills a statement's tables: from engines, and with rows that only the instance has.

use super::{
    Cancel, Estimated, Source,
    fetched::{Fetched, Origin},
    plan::Planned,
    scheduling::Pace,
    views::{COMPOUND, GROUP, View},
};
use crate::{alert::rfc3339, sql_error::SqlError};
use plinth_engine::{
    admin::{AdminError, Code, HeaderStatus, Survey, Value},
    catalog::rows::decode_rows,
    disk::identify::LABEL_PATH,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicUsize, Ordering},
};

type Result<T> = std::result::Result<T, SqlError>;

/// Most rows fetched for one statement, and most bytes.
const ROWS_MAX: usize = 20_000_000;
const BYTES_MAX: usize = 1 << 30;
/// Columns that engines do not have.
pub(super) const OURS: [&str; 1] = ["remark"];

/// Fills the tables of one statement.
pub(super) struct Fetching<'a> {
    pub source: &'a dyn Source,
    pub groups: &'a BTreeMap<String, u32>,
    pub survey: &'a [Survey],
    pub cancel: &'a Cancel,
    pub pace: &'a mut Pace,
    pub notices: &'a mut Vec<String>,
    pub taken: &'a Taken,
}

/// Bytes fetched for a statement so far.
#[derive(Default)]
pub(super) struct Taken {
    rows: AtomicUsize,
    bytes: AtomicUsize,
}

/// Whether an error means that no engine answers for a group: there is none, or it has ended or
/// hangs.
fn is_absence(code: Code) -> bool {
    matches!(code, Code::NotMounted | Code::Io)
}

impl Taken {
    /// False if that exceeds the limits.
    fn add(&self, rows: usize, bytes: usize) -> bool {
        let rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        rows <= ROWS_MAX && bytes <= BYTES_MAX
    }
}

impl Fetching<'_> {
    /// Fetches the columns `wanted` of a view.
    pub(super) fn view(&mut self, view: &View, wanted: &BTreeSet<&str>) -> Result<Fetched> {
        match view.name {
            "v$asm_estimate" => Ok(self.estimates(view)),
            "v$pwfile_users" => Ok(of_instance(view, &self.source.password_users())),
            "v$asm_health" => Ok(of_groups(view, &self.source.instance_rows(view))),
            _ if view.is_of_instance => Ok(of_instance(view, &self.source.instance_rows(view))),
            "v$asm_disk" => self.disks(view, wanted),
            "v$asm_diskgroup" => self.groups(view, wanted),
            _ => {
                let sent = sent(wanted);
                let mut fetched = Fetched::new(sent.len().max(1), origins(view, &sent));
                self.each(
                    &select(&sent, view),
                    |_| true,
                    is_absence,
                    |group, rows, bytes| fetched.add(group, rows, bytes),
                )?;
                Ok(fetched)
            }
        }
    }

    /// Fetches the rows of a planned table.
    pub(super) fn planned(
        &mut self,
        planned: &Planned,
        wanted: &BTreeSet<String>,
    ) -> Result<Fetched> {
        let (sql, width, origins) = planned.ask(wanted);
        let mut fetched = Fetched::new(width, origins);
        let is_meant = |group| planned.concerns(group);
        self.each(&sql, is_meant, is_absence, |group, rows, bytes| {
            fetched.add(group, rows, bytes)
        })?;
        Ok(fetched)
    }

    /// Queries each group for which `is_meant` holds. Returns those that no engine answers for; a
    /// notice names them, because their rows are missing, like those of a group that is not
    /// mounted. If an engine refuses, or begins to answer and does not finish, the statement fails:
    /// the rows of the other groups would look like a complete answer.
    fn each(
        &mut self,
        sql: &str,
        is_meant: impl Fn(u32) -> bool,
        is_silence: impl Fn(Code) -> bool,
        mut add: impl FnMut(u32, usize, Vec<u8>) -> Option<()>,
    ) -> Result<Vec<(String, u32)>> {
        let mut silent = Vec::new();
        for (group, number) in self.groups {
            if self.cancel.is_cancelled() {
                return Err(SqlError::canceled());
            }
            if !is_meant(*number) {
                continue;
            }
            let (taken, pace) = (self.taken, &mut *self.pace);
            pace.look();
            let cancel = self.cancel;
            let mut began = false;
            let result = self.source.query(group, sql, &mut |rows, bytes| {
                began = true;
                if !taken.add(rows, bytes.len()) {
                    let text = format!(
                        "the statement reads more than {ROWS_MAX} rows, or {} MiB, of the views it names",
                        BYTES_MAX >> 20
                    );
                    return Err(AdminError::new(Code::NotSupported, text).hint("add a condition that names fewer"));
                }
                if cancel.is_cancelled() {
                    return Err(AdminError::new(Code::Busy, "cancelled"));
                }
                pace.look();
                add(*number, rows, bytes).ok_or_else(|| AdminError::new(Code::Damaged, "its rows make no sense"))
            });
            if let Err(error) = result {
                if self.cancel.is_cancelled() {
                    return Err(SqlError::canceled());
                }
                if began || !is_silence(error.code) {
                    let text = format!("disk group {group}: {}", error.message);
                    return Err(AdminError { message: text, ..error }.into());
                }
                self.notices.push(format!("nothing of disk group {group} is shown: {error}"));
                silent.push((group.clone(), *number));
            }
        }
        Ok(silent)
    }

    /// Like `each`, for views with few rows, which are decoded here.
    fn each_row(
        &mut self,
        view: &View,
        sent: &[&str],
        is_silence: impl Fn(Code) -> bool,
    ) -> Result<(Rows, Vec<(String, u32)>)> {
        let mut found = Vec::new();
        let silent = self.each(
            &select(sent, view),
            |_| true,
            is_silence,
            |group, rows, bytes| {
                found.extend(decode_rows(rows, &bytes)?.into_iter().map(|row| (group, row)));
                Some(())
            },
        )?;
        Ok((found, silent))
    }

    fn estimates(&self, view: &View) -> Fetched {
        let columns: Vec<&str> = view.columns.iter().map(|(column, _)| *column).collect();
        let mut fetched = Fetched::new(columns.len(), origins(view, &columns));
        for Estimated { group, id, when, estimate } in self.source.estimates() {
            let row = [
                Value::Null,
                Value::Text(id),
                Value::Text(rfc3339(when).chars().take(19).collect::<String>().replace('T', " ")),
                number(estimate.work),
                Value::Integer(0),
                number(estimate.least),
                number(estimate.work.saturating_mul(estimate.au_size)),
            ];
            fetched.add_row(self.groups.get(&group).copied().unwrap_or(0), &row);
        }
        fetched
    }

    /// Disks of mounted groups, then discovered disks of no mounted group.
    fn disks(&mut self, view: &View, wanted: &BTreeSet<&str>) -> Result<Fetched> {
        let mut sent = sent(wanted);
        let mut place = |name: &'static str| {
            sent.iter().position(|column| *column == name).unwrap_or_else(|| {
                sent.push(name);
                sent.len() - 1
            })
        };
        let (path, name) = (place("path"), place("name"));
        let (mut rows, _) = self.each_row(view, &sent, is_absence)?;
        let text = |row: &[Value], at: usize| match row.get(at) {
            Some(Value::Text(text)) => text.clone(),
            _ => String::new(),
        };
        // A disk of a mounted group is shown once, by a path that discovery shows and that leads to
        // it now, whichever path its engine has. So is a disk that its group runs without and that
        // is discovered again.
        let mut shown = BTreeSet::new();
        for (number, row) in &mut rows {
            let (number, own, known) = (*number, text(&row[..], path), text(&row[..], name));
            let is_it = |disk: &Survey| {
                let group = disk.group.as_ref().and_then(|group| self.groups.get(group).copied());
                disk.header == HeaderStatus::Member
                    && group == Some(number)
                    && disk.name.as_ref() == Some(&known)
            };
            let at_own = |disk: &Survey| !own.is_empty() && disk.is_at(&own);
            // Looks for the path at which the engine has the disk. A header identifies the disk as
            // well, but a copy of the disk has the same header.
            let by_path = self.survey.iter().position(at_own);
            let Some(at) = by_path.or_else(|| self.survey.iter().position(is_it)) else { continue };
            shown.insert(at);
            // The engine may have found it by another path before.
            if !self.survey[at].is_at(&own) || self.survey[at].path.starts_with(LABEL_PATH) {
                row[path] = Value::Text(self.survey[at].path.clone());
            }
        }
        let mut columns = sent.clone();
        columns.extend(OURS);
        let mut fetched = Fetched::new(columns.len(), origins(view, &columns));
        for (group, mut row) in rows {
            row.resize(columns.len(), Value::Null);
            fetched.add_row(group, &row);
        }
        let strangers = self.survey.iter().enumerate().filter(|(at, _)| !shown.contains(at));
        for (at, (_, disk)) in strangers.enumerate() {
            let disk = disk.without_former_names();
            let row: Vec<Value> =
                columns.iter().map(|column| of_no_group(&disk, at, column)).collect();
            fetched.add_row(0, &row);
        }
        let by_label = self.survey.iter().filter(|disk| disk.path.starts_with(LABEL_PATH));
        let other_paths =
            by_label.flat_map(|disk| disk.aliases.iter().map(move |path| (disk, path)));
        for (at, (disk, path)) in other_paths.enumerate() {
            let disk = passed_over(disk, path);
            let at = self.survey.len() + at;
            let row: Vec<Value> =
                columns.iter().map(|column| of_no_group(&disk, at, column)).collect();
            fetched.add_row(0, &row);
        }
        Ok(fetched)
    }

    /// Mounted groups, groups that should be mounted and do not answer, and groups of discovered
    /// disks.
    fn groups(&mut self, view: &View, wanted: &BTreeSet<&str>) -> Result<Fetched> {
        let sent = sent(wanted);
        // A group whose engine refuses has a row with that state.
        let (rows, silent) = self.each_row(view, &sent, |_| true)?;
        let mut fetched = Fetched::new(sent.len().max(1), origins(view, &sent));
        rows.iter().for_each(|(group, row)| fetched.add_row(*group, row));
        let mut add = |name: &str, number: u32, state: &str| {
            let column = |column: &&str| match *column {
                "name" => Value::Text(name.to_owned()),
                "state" => Value::Text(state.to_owned()),
                "voting_files" => Value::Text("N".to_owned()),
                "type" | "compatibility" | "database_compatibility" | "what_if" => Value::Null,
                _ => Value::Integer(0),
            };
            let mut row: Vec<Value> = sent.iter().map(column).collect();
            row.resize(sent.len().max(1), Value::Null);
            fetched.add_row(number, &row);
        };
        silent.iter().for_each(|(name, number)| add(name, *number, "BROKEN"));
        let members = self.survey.iter().filter(|disk| disk.header == HeaderStatus::Member);
        let mut seen: BTreeMap<(&String, &Option<String>), bool> = BTreeMap::new();
        for disk in members {
            if let Some(group) = &disk.group {
                *seen.entry((group, &disk.group_id)).or_default() |= disk.is_held;
            }
        }
        let ours = |group: &String| self.groups.contains_key(group);
        for ((group, _), is_held) in seen.into_iter().filter(|((group, _), _)| !ours(group)) {
            add(group, 0, if is_held { "ELSEWHERE" } else { "DISMOUNTED" });
        }
        Ok(fetched)
    }
}

type Rows = Vec<(u32, Vec<Value>)>;

/// Rows that have the values of all columns of a view.
fn of_instance(view: &View, rows: &[Vec<Value>]) -> Fetched {
    let columns: Vec<&str> = view.columns.iter().map(|(column, _)| *column).collect();
    let mut fetched = Fetched::new(columns.len(), origins(view, &columns));
    rows.iter().for_each(|row| fetched.add_row(0, row));
    fetched
}

/// The same, of a view whose first column is the group's number.
fn of_groups(view: &View, rows: &[Vec<Value>]) -> Fetched {
    let columns: Vec<&str> = view.columns.iter().map(|(column, _)| *column).collect();
    let mut fetched = Fetched::new(columns.len(), origins(view, &columns));
    for row in rows {
        let group = match row.first() {
            Some(Value::Integer(number)) => u32::try_from(*number).unwrap_or(0),
            _ => 0,
        };
        fetched.add_row(group, row);
    }
    fetched
}

fn number(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The columns of `wanted` that engines are queried for.
fn sent<'a>(wanted: &BTreeSet<&'a str>) -> Vec<&'a str> {
    wanted
        .iter()
        .filter(|column| !GROUP.contains(column) && !OURS.contains(column))
        .copied()
        .collect()
}

fn select(sent: &[&str], view: &View) -> String {
    let columns = if sent.is_empty() { "NULL".to_owned() } else { sent.join(", ") };
    format!("SELECT {columns} FROM {}", relation(view, &columns))
}

/// The relation to read for a view, if `text` has all columns that the statement reads: for some
/// views engines have a shorter relation with few of the columns.
pub(super) fn relation(view: &View, text: &str) -> &'static str {
    const SHORT: [(&str, &str, &[&str]); 2] =
        [("v$asm_file", "file_types", &["type"]), ("v$asm_alias", "entries", &[])];
    let is_enough = |columns: &[&str]| {
        let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let is_other = |word: &str| {
            view.columns
                .iter()
                .any(|(column, _)| !columns.contains(column) && column.eq_ignore_ascii_case(word))
        };
        !words.any(is_other)
    };
    let short =
        SHORT.into_iter().find(|(name, _, columns)| *name == view.name && is_enough(columns));
    short.map_or(view.name, |(_, relation, _)| relation)
}

/// The origins of a view's columns, if these are sent.
fn origins(view: &View, sent: &[&str]) -> Vec<Origin> {
    let names: Vec<&str> = view.columns.iter().map(|(name, _)| *name).collect();
    origins_of(&names, sent)
}

/// Like `origins`, for any columns.
pub(super) fn origins_of(names: &[&str], sent: &[&str]) -> Vec<Origin> {
    let origin = |name: &&str| match sent.iter().position(|column| column == name) {
        _ if GROUP.contains(name) => Origin::Group,
        Some(at) if COMPOUND.contains(name) => Origin::Compound(at),
        Some(at) => Origin::Sent(at),
        None => Origin::Nothing,
    };
    names.iter().map(origin).collect()
}

/// Whether a column of `v$asm_disk` counts I/O: `reads`, `cold_bytes_written`, ...
fn is_counter(column: &str) -> bool {
    let plain = column.trim_start_matches("hot_").trim_start_matches("cold_");
    matches!(
        plain,
        "reads"
            | "writes"
            | "read_errs"
            | "write_errs"
            | "read_timeout"
            | "write_timeout"
            | "bytes_read"
            | "bytes_written"
    )
}

/// The row of another path of a disk that is taken by its label.
fn passed_over(disk: &Survey, path: &str) -> Survey {
    Survey {
        path: path.to_owned(),
        aliases: Vec::new(),
        header: HeaderStatus::Ignored,
        group: None,
        group_id: None,
        name: None,
        failure_group: None,
        number: None,
        remark: Some(format!("the device of {}, which is used instead", disk.path)),
        ..disk.clone()
    }
}

/// The value of a column of `v$asm_disk` for a disk of no mounted group.
fn of_no_group(disk: &Survey, at: usize, column: &str) -> Value {
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
    let word = |word: &str| Value::Text(word.to_owned());
    match column {
        "disk_number" | "compound_index" => number(at as u64),
        "mount_status" => word(match disk.header {
            HeaderStatus::Conflict | HeaderStatus::Unknown | HeaderStatus::Ignored => "IGNORED",
            _ => "CLOSED",
        }),
        "header_status" => Value::Text(disk.header.to_string()),
        "mode_status" => word("ONLINE"),
        "state" => word("NORMAL"),
        "redundancy" => word("UNKNOWN"),
        "library" => word("System"),
        "os_mb" => number(disk.size >> 20),
        "total_mb" | "free_mb" | "hot_used_mb" | "cold_used_mb" | "con_id" | "incarnation"
        | "repair_timer" | "blocks_repaired" | "metadata_repaired" => Value::Integer(0),
        // Nothing was read or written for a group.
        "read_time" | "write_time" => Value::Real(0.0),
        _ if is_counter(column) => Value::Integer(0),
        "name" => text(&disk.name),
        "failgroup" => text(&disk.failure_group),
        "path" => Value::Text(disk.path.clone()),
        "label" => text(&disk.label),
        "sector_size" => number(u64::from(disk.physical_sector)),
        "logical_sector_size" => number(u64::from(disk.logical_sector)),
        "failgroup_type" => word(if disk.quorum { "QUORUM" } else { "REGULAR" }),
        "thin_provision_capable" => word(if disk.can_discard { "Y" } else { "N" }),
        "data_integrity_capable" => word("N"),
        "site_guid" => Value::Text("0".repeat(32)),
        "preferred_read" => word("U"),
        "voting_file" => word("N"),
        "remark" => text(&disk.remark),
        _ => Value::Null,
    }
}
