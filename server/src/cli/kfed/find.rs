//! `kfed find`: headers, label records and other records anywhere on a disk.
//!
//! Every block is read, so neither the AU size nor the disk's former size need be known. With
//! `--step 512` copies are found that are not where a block begins: those of an image that was
//! copied with a shift, or of a disk whose partition table was changed. Such a copy says for which
//! offset it was written.

use super::super::{
    Result,
    context::{Context, Headings, Run},
    raw_disk::RawDisk,
    table::Cells,
};
use crate::{
    query::{Column, Table, views::Type},
    sql_error::SqlError,
};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use plinth_engine::admin::{HeaderStatus, Value};
use plinth_format::{
    BLOCK_SIZE, FormatError,
    activity::ActivityLog,
    envelope::Envelope,
    header::DiskHeader,
    label::LabelRecord,
    layout::{ACTIVITY_SLOT, MEMBERSHIP_SLOT, MIB},
    membership::Membership,
    stamp::Stamp,
};
use std::{
    io::{self, IsTerminal},
    path::PathBuf,
};

/// Find headers, label records and their copies anywhere on a disk.
///
/// The AU size need not be known: every block is read. Exits with 1 if there is none.
#[derive(Debug, Args)]
pub(super) struct Find {
    #[command(flatten)]
    headings: Headings,
    disk: PathBuf,
    /// Find stamps, memberships and activity logs, too.
    #[arg(long)]
    all: bool,
    /// The distance in bytes of the places that are looked at: 512 finds copies that were shifted.
    #[arg(long, default_value = "4096", value_parser = ["4096", "512"])]
    step: String,
}

/// A record that was found.
#[derive(Debug)]
pub(super) struct Record {
    pub place: u64,
    pub kind: &'static str,
    pub header: Option<DiskHeader>,
    pub label: Option<LabelRecord>,
    pub sequence: Option<u64>,
    pub envelope: Option<Envelope>,
    pub state: String,
}

impl Run for Find {
    fn run(&self, context: &mut Context) -> Result<()> {
        let disk = RawDisk::open(&self.disk)?;
        let step = if self.step == "512" { 512 } else { BLOCK_SIZE };
        let found = find(&disk, step, self.all);
        let (found, unreadable) = (found.records, found.unreadable);
        let text = |value: Option<String>| value.map_or(Value::Null, Value::Text);
        let number = |value: u64| Value::Integer(i64::try_from(value).unwrap_or(i64::MAX));
        let rows = found.iter().map(|record| {
            let header = record.header.as_ref();
            let label = record.label.as_ref();
            let named = header.and_then(|header| header.label.as_ref());
            let named = named.or(label.map(|record| &record.label));
            let free = label.map(|_| HeaderStatus::Provisioned.to_string());
            vec![
                number(record.place),
                Value::Text(record.kind.to_owned()),
                record.sequence.map_or(Value::Null, number),
                text(header.map(|header| header.group_name.clone())),
                text(header.map(|header| header.name.clone())),
                text(named.map(ToString::to_string)),
                text(header.map(|header| header.status.to_string()).or(free)),
                text(record.envelope.map(|envelope| envelope.disk.to_string())),
                Value::Text(record.state.clone()),
            ]
        });
        let columns = [
            ("Offset", Type::Integer),
            ("Record", Type::Text),
            ("Sequence", Type::Integer),
            ("Group", Type::Text),
            ("Disk", Type::Text),
            ("Label", Type::Text),
            ("Status", Type::Text),
            ("Disk_Id", Type::Text),
            ("State", Type::Text),
        ];
        let columns = columns
            .map(|(name, kind)| Column { name: name.to_owned(), kind })
            .into_iter()
            .collect();
        let cells = Cells { phrases: &["Record"], ..Cells::default() };
        context.show_cells(&Table { columns, rows: rows.collect() }, self.headings, cells);
        if unreadable > 0 {
            let text = format!("{} MiB around blocks that cannot be read\n", unreadable / MIB);
            super::super::warn(&format!("{}: {text}", disk.path));
        }
        if found.is_empty() {
            let text = format!("{}: no record of a disk group was found", disk.path);
            let hint = "--step 512 finds copies that were shifted; --all finds other records";
            return Err(SqlError::new("22023", text).hint(hint));
        }
        Ok(())
    }
}

pub(super) struct Found {
    pub records: Vec<Record>,
    /// Bytes in which a block could not be read.
    pub unreadable: u64,
}

/// Reads the whole disk.
pub(super) fn find(disk: &RawDisk, step: usize, all: bool) -> Found {
    let mut found = Found { records: Vec::new(), unreadable: 0 };
    let bar = bar(disk.size());
    let mut start = 0;
    while start < disk.size() {
        // A record may begin in the last block of a window.
        match disk.read(start, MIB as usize + BLOCK_SIZE) {
            Ok(window) => window_records(disk, start, &window, step, all, &mut found.records),
            Err(_) => {
                found.unreadable += MIB;
                for place in (start..start + MIB).step_by(BLOCK_SIZE) {
                    if let Ok(block) = disk.read(place, BLOCK_SIZE) {
                        window_records(disk, place, &block, BLOCK_SIZE, all, &mut found.records);
                    }
                }
            }
        }
        start += MIB;
        bar.set_position(start.min(disk.size()));
    }
    bar.finish_and_clear();
    found
}

/// Bytes read so far, if the standard error is a terminal.
fn bar(size: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {eta} left");
    ProgressBar::new(size).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn window_records(
    disk: &RawDisk,
    start: u64,
    window: &[u8],
    step: usize,
    all: bool,
    found: &mut Vec<Record>,
) {
    let end = window.len().min(MIB as usize);
    for at in (0..end).step_by(step) {
        let Some(bytes) = window.get(at..(at + BLOCK_SIZE).min(window.len())) else { continue };
        let place = start + at as u64;
        if let Some(record) = header(bytes, place).or_else(|| label(bytes, place)) {
            found.push(record);
        } else if all && let Some(record) = other(disk, bytes, place) {
            found.push(record);
        }
    }
}

fn header(bytes: &[u8], place: u64) -> Option<Record> {
    let decoded = DiskHeader::decode(bytes, place);
    let state = match &decoded {
        Ok(_) => "right".to_owned(),
        Err(FormatError::Magic { .. }) => return None,
        Err(error) => error.to_string(),
    };
    let header = match decoded {
        // A whole copy that was moved: its fields can be told.
        Err(FormatError::Place { found, .. }) => DiskHeader::decode(bytes, found).ok(),
        decoded => decoded.ok(),
    };
    let envelope = header.as_ref().map(|it| Envelope { group: it.group, disk: it.disk, place });
    let sequence = header.as_ref().map(|header| header.sequence);
    Some(Record { place, kind: "header", header, label: None, sequence, envelope, state })
}

fn label(bytes: &[u8], place: u64) -> Option<Record> {
    let decoded = LabelRecord::decode(bytes, place);
    let state = match &decoded {
        Ok(_) => "right".to_owned(),
        Err(FormatError::Magic { .. }) => return None,
        Err(error) => error.to_string(),
    };
    let label = match decoded {
        // As a header that was moved.
        Err(FormatError::Place { found, .. }) => LabelRecord::decode(bytes, found).ok(),
        decoded => decoded.ok(),
    };
    let (header, sequence, envelope) = (None, None, None);
    Some(Record { place, kind: "label record", header, label, sequence, envelope, state })
}

/// A stamp, a membership or an activity log.
fn other(disk: &RawDisk, bytes: &[u8], place: u64) -> Option<Record> {
    let decoded = match Stamp::decode(bytes, place) {
        Err(FormatError::Magic { .. }) => None,
        decoded => Some(("stamp", decoded.map(|(envelope, it)| (envelope, it.counter)))),
    };
    let decoded = decoded.or_else(|| {
        let kind = match (ActivityLog::decode(bytes, place), Membership::decode(bytes, place)) {
            (Err(FormatError::Magic { .. }), Err(FormatError::Magic { .. })) => return None,
            (Err(FormatError::Magic { .. }), _) => "membership",
            _ => "activity log",
        };
        let length = if kind == "membership" { MEMBERSHIP_SLOT } else { ACTIVITY_SLOT };
        let bytes = disk.read(place, length).ok()?;
        Some(match kind {
            "membership" => {
                let read = Membership::decode(&bytes, place);
                (kind, read.map(|(envelope, it)| (envelope, it.generation)))
            }
            _ => {
                let read = ActivityLog::decode(&bytes, place);
                (kind, read.map(|(envelope, it)| (envelope, it.sequence)))
            }
        })
    });
    let (kind, decoded) = decoded?;
    let state = match &decoded {
        Ok(_) => "right".to_owned(),
        Err(error) => error.to_string(),
    };
    let (envelope, sequence) = decoded.ok().unzip();
    Some(Record { place, kind, header: None, label: None, sequence, envelope, state })
}
