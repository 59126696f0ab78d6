//! `dump`: the structures on a disk, as text. It shows something for any bytes.

use super::{Result, print};
use crate::{alert::rfc3339, sql_error::SqlError};
use plinth_format::{
    Au, BLOCK_SIZE,
    activity::ActivityLog,
    envelope::Envelope,
    header::DiskHeader,
    layout::{
        ACTIVITY_SLOT, FIRST_AREA, HEADER_PLACE, Layout, MEMBERSHIP_SLOT, RecordArea,
        likely_header_places,
    },
    membership::Membership,
    stamp::Stamp,
};
use std::{
    fmt::Write,
    fs::File,
    io::{self, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::Path,
};

/// Lists that are longer are cut.
const SHOWN: usize = 200;

struct Disk<'a> {
    path: &'a Path,
    file: File,
    size: u64,
}

impl Disk<'_> {
    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match self
                .file
                .read_at(bytes.get_mut(filled..).unwrap_or_default(), offset + filled as u64)
            {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// The newest valid header.
    fn header(&self) -> Option<DiskHeader> {
        let copies =
            [HEADER_PLACE].into_iter().chain(likely_header_places(self.size)).filter_map(|place| {
                self.read(place, BLOCK_SIZE)
                    .ok()
                    .and_then(|block| DiskHeader::decode(&block, place).ok())
            });
        copies.max_by_key(|header| header.sequence)
    }

    /// The places of the header's copies; the first place only, if no copy is valid.
    fn header_places(&self) -> Vec<u64> {
        self.header()
            .map_or_else(|| vec![HEADER_PLACE], |header| header.layout.header_places().to_vec())
    }

    /// The areas that hold records.
    fn areas(&self) -> Vec<RecordArea> {
        self.header().map_or_else(|| vec![FIRST_AREA], |header| header.record_areas())
    }
}

pub(super) fn dump(path: &Path, place: &[String]) -> Result<()> {
    let failed = |error: &io::Error| SqlError::new("58030", format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(|error| failed(&error))?;
    let size = file.seek(SeekFrom::End(0)).map_err(|error| failed(&error))?;
    let disk = Disk { path, file, size };
    let words: Vec<&str> = place.iter().map(String::as_str).collect();
    let mut out = String::new();
    match words.as_slice() {
        [] => {
            let _ = writeln!(out, "disk {}: {size} bytes", path.display());
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
            let offset = match offset.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => crate::sql::parser::parse_size(offset),
            };
            block(&disk, offset.ok_or_else(usage)?, &mut out);
        }
        _ => return Err(usage()),
    }
    print(&out);
    Ok(())
}

fn usage() -> SqlError {
    SqlError::new("22023", "this is no place on a disk")
        .hint("header, stamp, activity, membership, 'au N' or 'block OFFSET' (bytes; 512K and 0x1000 work too)")
}

/// Reads `length` bytes at `place`, decodes them with `decode`, and shows the result.
fn record<T>(
    disk: &Disk<'_>,
    out: &mut String,
    name: &str,
    (place, length): (u64, usize),
    decode: impl FnOnce(&[u8], u64) -> std::result::Result<T, plinth_format::FormatError>,
    show: impl FnOnce(&T, &mut String),
) {
    let _ = writeln!(out, "\n{name} at {place}");
    match disk.read(place, length) {
        Err(error) => drop(writeln!(out, "  cannot be read: {error}")),
        Ok(bytes) if bytes.is_empty() => out.push_str("  beyond the end of the disk\n"),
        Ok(bytes) => match decode(&bytes, place) {
            Ok(record) => show(&record, out),
            Err(error) => {
                let zero = if bytes.iter().all(|byte| *byte == 0) { " (zeros)" } else { "" };
                let _ = writeln!(out, "  {error}{zero}");
            }
        },
    }
}

fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "  {name:<18}{value}");
}

fn envelope_lines(out: &mut String, envelope: &Envelope) {
    line(out, "group id", envelope.group);
    line(out, "disk id", envelope.disk);
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn headers(disk: &Disk<'_>, out: &mut String) {
    for place in disk.header_places() {
        record(disk, out, "header", (place, BLOCK_SIZE), DiskHeader::decode, |header, out| {
            line(out, "group", &header.group_name);
            line(out, "group id", header.group);
            line(out, "disk", &header.name);
            line(out, "disk id", header.disk);
            line(out, "disk number", header.number);
            line(out, "failure group", &header.failure_group);
            line(out, "quorum", header.quorum);
            if let Some(label) = &header.label {
                line(out, "label", label);
            }
            line(out, "status", header.status);
            line(out, "redundancy", header.redundancy);
            line(out, "sequence", header.sequence);
            line(out, "created", rfc3339(header.created));
            line(
                out,
                "sectors",
                format_args!(
                    "{} logical, {} physical",
                    header.logical_sector, header.physical_sector
                ),
            );
            line(out, "size", format_args!("{} bytes", header.layout.size()));
            line(out, "AU size", format_args!("{} bytes", header.layout.au_size()));
            line(out, "AUs", header.layout.au_count());
            line(out, "record areas", header.record_areas().len());
        });
    }
}

fn stamps(disk: &Disk<'_>, out: &mut String) {
    for place in disk.areas().iter().flat_map(|area| area.stamps) {
        record(disk, out, "stamp", (place, BLOCK_SIZE), Stamp::decode, |(envelope, stamp), out| {
            envelope_lines(out, envelope);
            line(out, "counter", stamp.counter);
            line(out, "written", rfc3339(stamp.written));
            line(out, "membership", stamp.membership);
            line(out, "clean", stamp.clean);
        });
    }
}

fn activity(disk: &Disk<'_>, out: &mut String) {
    for place in disk.areas().iter().flat_map(|area| area.activity) {
        record(
            disk,
            out,
            "activity log",
            (place, ACTIVITY_SLOT),
            ActivityLog::decode,
            |(envelope, log), out| {
                envelope_lines(out, envelope);
                line(out, "sequence", log.sequence);
                line(out, "membership", log.membership);
                line(out, "boot", hexadecimal(&log.boot));
                line(out, "regions", log.regions.len());
                for region in log.regions.iter().take(SHOWN) {
                    let last =
                        region.first.saturating_add(u64::from(region.count).saturating_sub(1));
                    let _ = writeln!(out, "    extents {} to {last}", region.first);
                }
                more(out, log.regions.len());
            },
        );
    }
}

fn more(out: &mut String, count: usize) {
    if count > SHOWN {
        let _ = writeln!(out, "    and {} more", count - SHOWN);
    }
}

fn membership(disk: &Disk<'_>, out: &mut String) {
    for place in disk.areas().iter().flat_map(|area| area.memberships) {
        record(
            disk,
            out,
            "membership",
            (place, MEMBERSHIP_SLOT),
            Membership::decode,
            |(envelope, members), out| {
                envelope_lines(out, envelope);
                line(out, "group", &members.group_name);
                line(out, "generation", members.generation);
                line(out, "id", members.id);
                line(
                    out,
                    "parent",
                    members.ancestors.first().map_or_else(|| "none".into(), ToString::to_string),
                );
                line(out, "created", rfc3339(members.created));
                line(out, "redundancy", members.redundancy);
                if members.wanted != members.redundancy {
                    line(out, "converted to", members.wanted);
                }
                line(out, "AU size", format_args!("{} bytes", members.au_size));
                line(out, "stamp", members.stamp);
                line(out, "in use", members.mounted);
                line(out, "boot", hexadecimal(&members.boot));
                line(out, "disks", members.disks.len());
                for member in members.disks.iter().take(SHOWN) {
                    let flags = [
                        (member.votes, "votes"),
                        (member.quorum, "quorum"),
                        (member.copy_whole, "copy whole"),
                        (member.by_operator, "by operator"),
                        (member.absent, "absent"),
                        (member.leaving, "being dropped"),
                    ];
                    let flags: Vec<&str> =
                        flags.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
                    let _ = writeln!(
                        out,
                        "    {:>4} {:<10} {} in {}, {} bytes, id {} {}",
                        member.number.0,
                        format!("{:?}", member.state).to_uppercase(),
                        member.name,
                        member.failure_group,
                        member.size,
                        member.id,
                        flags.join(", ")
                    );
                }
                more(out, members.disks.len());
                line(out, "catalog runs", members.catalog.len());
                for run in members.catalog.iter().take(SHOWN) {
                    let _ = writeln!(
                        out,
                        "    {:?} mirror {}: AUs {} to {} on disk {} from its AU {}",
                        run.file,
                        run.mirror,
                        run.at,
                        run.at.saturating_add(run.count).saturating_sub(1),
                        run.disk,
                        run.first
                    );
                }
                more(out, members.catalog.len());
            },
        );
    }
}

fn au(disk: &Disk<'_>, number: u32, out: &mut String) -> Result<()> {
    let Some(header) = disk.header() else {
        return Err(SqlError::new(
            "22023",
            format!("{} has no valid header, which tells the AU size", disk.path.display()),
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

fn block(disk: &Disk<'_>, offset: u64, out: &mut String) {
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
    let mut last: Option<&[u8]> = None;
    let mut repeated = 0;
    for (at, row) in bytes.chunks(16).enumerate() {
        if last == Some(row) {
            repeated += 1;
            continue;
        }
        if repeated > 0 {
            let _ = writeln!(out, "  the same {repeated} more times");
            repeated = 0;
        }
        let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        let text: String = row
            .iter()
            .map(
                |byte| {
                    if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' }
                },
            )
            .collect();
        let _ = writeln!(out, "{:>14}  {:<47}  {text}", start + at as u64 * 16, hex.join(" "));
        last = Some(row);
    }
    if repeated > 0 {
        let _ = writeln!(out, "  the same {repeated} more times");
    }
}
