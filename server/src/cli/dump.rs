//! `dump`: the structures on a disk, as text. It shows something for any bytes.

use super::{
    Result, print,
    raw_disk::RawDisk,
    record_text::{self, Line, Lines},
};
use crate::sql_error::SqlError;
use plinth_format::{
    Au, BLOCK_SIZE,
    activity::ActivityLog,
    header::DiskHeader,
    layout::{
        ACTIVITY_SLOT, FIRST_AREA, HEADER_PLACE, Layout, MEMBERSHIP_SLOT, RecordArea,
        likely_header_places,
    },
    membership::Membership,
    stamp::Stamp,
};
use std::{fmt::Write, path::Path};

/// The newest valid header.
fn newest_header(disk: &RawDisk) -> Option<DiskHeader> {
    let copies =
        [HEADER_PLACE].into_iter().chain(likely_header_places(disk.size())).filter_map(|place| {
            disk.read(place, BLOCK_SIZE)
                .ok()
                .and_then(|block| DiskHeader::decode(&block, place).ok())
        });
    copies.max_by_key(|header| header.sequence)
}

/// The places of the header's copies; the first place only, if no copy is valid.
pub(super) fn header_places(disk: &RawDisk) -> Vec<u64> {
    newest_header(disk)
        .map_or_else(|| vec![HEADER_PLACE], |header| header.layout.header_places().to_vec())
}

/// The areas that hold records.
pub(super) fn areas(disk: &RawDisk) -> Vec<RecordArea> {
    newest_header(disk).map_or_else(|| vec![FIRST_AREA], |header| header.record_areas())
}

pub(super) fn dump(path: &Path, place: &[String]) -> Result<()> {
    let disk = RawDisk::open(path)?;
    let words: Vec<&str> = place.iter().map(String::as_str).collect();
    let mut out = String::new();
    match words.as_slice() {
        [] => {
            let _ = writeln!(out, "disk {}: {} bytes", path.display(), disk.size());
            headers(&disk, &mut out);
            stamps(&disk, &mut out);
            activity(&disk, &mut out);
            membership(&disk, &mut out);
        }
        ["header"] => headers(&disk, &mut out),
        ["stamp"] => stamps(&disk, &mut out),
        ["activity"] => activity(&disk, &mut out),
        ["membership"] => membership(&disk, &mut out),
        ["au", number] => {
            let number: u32 = number.parse().map_err(|_| usage())?;
            au(&disk, number, &mut out)?;
        }
        ["block", offset] => {
            block(&disk, parse_offset(offset).ok_or_else(usage)?, &mut out);
        }
        _ => return Err(usage()),
    }
    print(&out);
    Ok(())
}

/// Bytes, as `4096`, `512K` or `0x1000`.
pub(super) fn parse_offset(written: &str) -> Option<u64> {
    match written.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => crate::sql::parser::parse_size(written),
    }
}

fn usage() -> SqlError {
    SqlError::new("22023", "this is no place on a disk")
        .hint("header, stamp, activity, membership, 'au N' or 'block OFFSET' (bytes; 512K and 0x1000 work too)")
}

/// Reads `length` bytes at `place`, decodes them with `decode`, and shows the result.
fn record<T>(
    disk: &RawDisk,
    out: &mut String,
    name: &str,
    (place, length): (u64, usize),
    decode: impl FnOnce(&[u8], u64) -> std::result::Result<T, plinth_format::FormatError>,
    lines: impl FnOnce(&T) -> Lines,
) {
    let _ = writeln!(out, "\n{name} at {place}");
    match disk.read(place, length) {
        Err(error) => drop(writeln!(out, "  cannot be read: {error}")),
        Ok(bytes) if bytes.is_empty() => out.push_str("  beyond the end of the disk\n"),
        Ok(bytes) => match decode(&bytes, place) {
            Ok(record) => show(&lines(&record), out),
            Err(error) => {
                let zero = if bytes.iter().all(|byte| *byte == 0) { " (zeros)" } else { "" };
                let _ = writeln!(out, "  {error}{zero}");
            }
        },
    }
}

fn show(lines: &Lines, out: &mut String) {
    for line in &lines.0 {
        let _ = match line {
            Line::Field { name, value, .. } => writeln!(out, "  {name:<18}{value}"),
            Line::Item(text) => writeln!(out, "    {text}"),
        };
    }
}

fn headers(disk: &RawDisk, out: &mut String) {
    for place in header_places(disk) {
        let place = (place, BLOCK_SIZE);
        record(disk, out, "header", place, DiskHeader::decode, record_text::header);
    }
}

fn stamps(disk: &RawDisk, out: &mut String) {
    for place in areas(disk).iter().flat_map(|area| area.stamps) {
        record(disk, out, "stamp", (place, BLOCK_SIZE), Stamp::decode, record_text::stamp);
    }
}

fn activity(disk: &RawDisk, out: &mut String) {
    for place in areas(disk).iter().flat_map(|area| area.activity) {
        let place = (place, ACTIVITY_SLOT);
        record(disk, out, "activity log", place, ActivityLog::decode, record_text::activity);
    }
}

fn membership(disk: &RawDisk, out: &mut String) {
    for place in areas(disk).iter().flat_map(|area| area.memberships) {
        let place = (place, MEMBERSHIP_SLOT);
        record(disk, out, "membership", place, Membership::decode, record_text::membership);
    }
}

fn au(disk: &RawDisk, number: u32, out: &mut String) -> Result<()> {
    let Some(header) = newest_header(disk) else {
        return Err(SqlError::new(
            "22023",
            format!("{} has no valid header, which tells the AU size", disk.path),
        )
        .hint("use 'block OFFSET'"));
    };
    let layout: Layout = header.layout;
    if number >= layout.au_count() {
        return Err(SqlError::new(
            "22023",
            format!("the disk has AUs 0 to {}", layout.au_count() - 1),
        ));
    }
    let start = layout.au_offset(Au(number));
    let kind = if layout.is_data(Au(number)) {
        "data"
    } else {
        "no data: system area, checksum zone or a header copy"
    };
    let _ = writeln!(out, "AU {number} at {start}, {} bytes, {kind}", layout.au_size());
    let (sums_at, length) = layout.sums_of(Au(number));
    let sums = disk.read(sums_at, length).unwrap_or_default();
    let _ = writeln!(out, "checksums at {sums_at}");
    let mut zeros = 0;
    for (at, block) in (0..layout.blocks_per_au()).enumerate() {
        let offset = start + (block * BLOCK_SIZE) as u64;
        let stored = sums
            .get(at * 4..at * 4 + 4)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(plinth_format::checksum::UNKNOWN, u32::from_le_bytes);
        let Ok(bytes) = disk.read(offset, BLOCK_SIZE) else {
            let _ = writeln!(out, "  {offset:>14}  cannot be read");
            continue;
        };
        if bytes.len() == BLOCK_SIZE && bytes.iter().all(|byte| *byte == 0) && stored == 0 {
            zeros += 1;
            continue;
        }
        let computed =
            if bytes.len() == BLOCK_SIZE { plinth_format::checksum::of_block(&bytes) } else { 0 };
        let verdict = match stored {
            plinth_format::checksum::UNKNOWN => "not known",
            _ if stored == computed => "right",
            _ => "WRONG",
        };
        let _ = writeln!(
            out,
            "  {offset:>14}  stored {stored:08x}, computed {computed:08x}: {verdict}"
        );
    }
    let _ = writeln!(out, "  {zeros} blocks are zeros without a checksum");
    Ok(())
}

fn block(disk: &RawDisk, offset: u64, out: &mut String) {
    let start = offset - offset % BLOCK_SIZE as u64;
    let bytes = match disk.read(start, BLOCK_SIZE) {
        Ok(bytes) => bytes,
        Err(error) => {
            let _ = writeln!(out, "block at {start} cannot be read: {error}");
            return;
        }
    };
    let _ = writeln!(out, "block at {start}, {} bytes", bytes.len());
    if bytes.len() == BLOCK_SIZE {
        let _ = writeln!(out, "CRC-32C {:08x}", plinth_format::crc32c(&bytes));
    }
    out.push_str(&record_text::rows(start, &bytes));
}
