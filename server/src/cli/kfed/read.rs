//! `kfed read`: one block of a disk, with the names, values and meanings of its fields.
//!
//! Which record a block holds is told by its own bytes, so a record is shown wherever it is. Blocks
//! of files and checksums have no such bytes: for these the layout in the disk's header says which
//! AU they are of.

use super::super::{
    Result,
    context::{Context, Run},
    dump::{areas, header_places, parse_offset},
    print,
    raw_disk::{RawDisk, failed},
    record_text::{self, Line, Lines},
};
use crate::sql_error::SqlError;
use clap::{Args, ValueEnum};
use plinth_format::{
    Au, BLOCK_SIZE, FormatError,
    activity::ActivityLog,
    checksum,
    header::DiskHeader,
    label::LabelRecord,
    layout::{ACTIVITY_SLOT, Layout, MEMBERSHIP_SLOT},
    lost::LOST_MAGIC,
    membership::{CatalogRun, Membership},
    page,
    stamp::Stamp,
};
use std::{fmt::Write, path::PathBuf};

/// Print one block of a disk, with the meaning of its fields.
///
/// Without a block: the first copy of the header. `kfed merge` takes the text of a header back.
#[derive(Debug, Args)]
pub(super) struct Read {
    disk: PathBuf,
    /// The number of a block of 4 KiB, counted from the beginning of the disk, or of the AU.
    block: Option<u64>,
    /// The AU in which blocks are counted.
    #[arg(long)]
    au: Option<u32>,
    /// Where it is, in bytes; 512K and 0x1000 work too.
    #[arg(long, conflicts_with_all = ["block", "au"], value_parser = offset)]
    offset: Option<u64>,
    /// Every copy of a record.
    #[arg(long, conflicts_with_all = ["block", "au", "offset"])]
    structure: Option<Structure>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Structure {
    Header,
    Stamp,
    Activity,
    Membership,
    Label,
}

fn offset(written: &str) -> std::result::Result<u64, String> {
    parse_offset(written).ok_or_else(|| "bytes, as 4096, 512K or 0x1000".to_owned())
}

impl Run for Read {
    fn run(&self, _: &mut Context) -> Result<()> {
        let disk = RawDisk::open(&self.disk)?;
        let mut out = String::new();
        for place in self.places(&disk)? {
            block(&disk, place, &mut out)?;
        }
        print(&out);
        Ok(())
    }
}

impl Read {
    fn places(&self, disk: &RawDisk) -> Result<Vec<u64>> {
        let areas = || areas(disk).into_iter();
        let place = match (self.structure, self.offset, self.au) {
            (Some(Structure::Header), ..) => return Ok(header_places(disk)),
            (Some(Structure::Stamp), ..) => {
                return Ok(areas().flat_map(|area| area.stamps).collect());
            }
            (Some(Structure::Activity), ..) => {
                return Ok(areas().flat_map(|area| area.activity).collect());
            }
            (Some(Structure::Membership), ..) => {
                return Ok(areas().flat_map(|area| area.memberships).collect());
            }
            (Some(Structure::Label), ..) => return Ok(LabelRecord::places(disk.size())),
            (None, Some(offset), _) => Some(offset - offset % BLOCK_SIZE as u64),
            (None, None, Some(au)) => {
                let layout = layout(disk).ok_or_else(|| {
                    let text =
                        format!("{} has no valid header, which tells the AU size", disk.path);
                    SqlError::new("22023", text).hint("use --offset; kfed find finds other copies")
                })?;
                let blocks = self.block.unwrap_or(0).checked_mul(BLOCK_SIZE as u64);
                blocks.and_then(|blocks| layout.au_offset(Au(au)).checked_add(blocks))
            }
            (None, None, None) => self.block.unwrap_or(0).checked_mul(BLOCK_SIZE as u64),
        };
        match place {
            Some(place) if place < disk.size() => Ok(vec![place]),
            _ => {
                let text = format!("{} ends at {}", disk.path, disk.size());
                Err(SqlError::new("22023", text).hint("kfed read DISK --offset OFFSET"))
            }
        }
    }
}

/// The layout in the newest header.
fn layout(disk: &RawDisk) -> Option<Layout> {
    let newest = header_places(disk)
        .into_iter()
        .filter_map(|place| DiskHeader::decode(&disk.read(place, BLOCK_SIZE).ok()?, place).ok());
    newest.max_by_key(|header| header.sequence).map(|header| header.layout)
}

/// A record that may be at a place: its name, and its lines; an error if it is damaged.
type Record = (&'static str, std::result::Result<Lines, FormatError>);

/// The record at the beginning of `bytes`, read at `place`, if they begin as one does.
fn record(bytes: &[u8], place: u64) -> Option<Record> {
    let slot = |length: usize| bytes.get(..length).unwrap_or(bytes);
    let tries: [Record; 5] = [
        ("header", DiskHeader::decode(slot(BLOCK_SIZE), place).map(|it| record_text::header(&it))),
        (
            "label record",
            LabelRecord::decode(slot(BLOCK_SIZE), place).map(|it| record_text::label(&it)),
        ),
        ("stamp", Stamp::decode(slot(BLOCK_SIZE), place).map(|it| record_text::stamp(&it))),
        (
            "activity log",
            ActivityLog::decode(slot(ACTIVITY_SLOT), place).map(|it| record_text::activity(&it)),
        ),
        (
            "membership",
            Membership::decode(slot(MEMBERSHIP_SLOT), place).map(|it| record_text::membership(&it)),
        ),
    ];
    tries.into_iter().find(|(_, decoded)| !matches!(decoded, Err(FormatError::Magic { .. })))
}

pub(super) fn block(disk: &RawDisk, place: u64, out: &mut String) -> Result<()> {
    let bytes = disk.read(place, MEMBERSHIP_SLOT).or_else(|_| disk.read(place, BLOCK_SIZE));
    let bytes = bytes.map_err(|error| failed(&disk.path, &error))?;
    let first = bytes.get(..BLOCK_SIZE).unwrap_or(&bytes);
    match record(&bytes, place) {
        Some((name, Ok(lines))) => {
            let _ = writeln!(out, "# {name} at {place} of {}", disk.path);
            show(&lines, out);
        }
        Some((name, Err(error))) => {
            let _ = writeln!(out, "# damaged {name} at {place} of {}: {error}", disk.path);
            out.push_str(&record_text::rows(place, first));
        }
        None => {
            let about = about(disk, place, first);
            let _ = writeln!(out, "# {about}, at {place} of {}", disk.path);
            out.push_str(&record_text::rows(place, first));
        }
    }
    Ok(())
}

/// Fields as `kfed merge` takes them back: what follows two blanks and a # is for people.
fn show(lines: &Lines, out: &mut String) {
    for line in &lines.0 {
        let _ = match line {
            Line::Field { name, value, meaning } => {
                writeln!(out, "{name:<16} = {value:<34}  # {meaning}")
            }
            Line::Item(text) => writeln!(out, "#   {text}"),
        };
    }
}

/// The newest membership on the disk.
fn newest_membership(disk: &RawDisk) -> Option<Membership> {
    let slots = areas(disk).into_iter().flat_map(|area| area.memberships);
    let all = slots.filter_map(|place| {
        let bytes = disk.read(place, MEMBERSHIP_SLOT).ok()?;
        Membership::decode(&bytes, place).ok().map(|(_, membership)| membership)
    });
    all.max_by_key(|membership| membership.generation)
}

/// The use of a block that is no record, by the disk's layout.
fn about(disk: &RawDisk, place: u64, bytes: &[u8]) -> String {
    if bytes.starts_with(LOST_MAGIC) {
        return "mark of a lost block: no mirror could be read when the disk returned".to_owned();
    }
    let Some(layout) = layout(disk) else {
        return "a block of a disk without a valid header".to_owned();
    };
    let Some(au) = u32::try_from(place / layout.au_size()).ok().map(Au) else {
        return "beyond the AUs of the disk".to_owned();
    };
    if au.0 >= layout.au_count() {
        return "behind the last AU".to_owned();
    }
    if !layout.is_data(au) {
        let (first, length) = layout.sums_of(Au(0));
        let (last, _) = layout.sums_of(Au(layout.au_count()));
        if (first + length as u64..last).contains(&place) {
            let owner = (place - layout.au_size()) / length as u64;
            return format!("checksums of AU {owner}, four bytes for each block; 0: not known");
        }
        return format!("AU {au}, which holds no data: no record here");
    }
    let number = disk_number(disk);
    let runs = newest_membership(disk).map(|membership| membership.catalog).unwrap_or_default();
    let holds = |run: &&CatalogRun| Some(run.disk) == number && run.aus().any(|one| one == au);
    match runs.iter().find(holds) {
        Some(run) => catalog_block(run, &layout, place, bytes),
        None => format!("AU {au}, data of a file: {}", verdict(disk, &layout, au, place, bytes)),
    }
}

fn disk_number(disk: &RawDisk) -> Option<plinth_format::DiskNumber> {
    header_places(disk).into_iter().find_map(|place| {
        Some(DiskHeader::decode(&disk.read(place, BLOCK_SIZE).ok()?, place).ok()?.number)
    })
}

/// A block of one of the catalog's files.
fn catalog_block(run: &CatalogRun, layout: &Layout, place: u64, bytes: &[u8]) -> String {
    let inside = place - layout.au_offset(run.first) + u64::from(run.at) * layout.au_size();
    if run.file == plinth_format::membership::CatalogFile::Wal {
        return format!("catalog, mirror {} of its log, from byte {inside} on", run.mirror);
    }
    let number = u32::try_from(inside / BLOCK_SIZE as u64 + 1).unwrap_or(u32::MAX);
    let state = match page::written(bytes, number) {
        Some(write) => format!("right, written as number {write}"),
        None => "its checksum is wrong, or it was never written".to_owned(),
    };
    format!("catalog, mirror {} of page {number}: {state}", run.mirror)
}

/// Whether a block of a file is what its checksum says.
fn verdict(disk: &RawDisk, layout: &Layout, au: Au, place: u64, bytes: &[u8]) -> String {
    let (sums, _) = layout.sums_of(au);
    let at = sums + (place - layout.au_offset(au)) / BLOCK_SIZE as u64 * 4;
    let sector = at - at % BLOCK_SIZE as u64;
    let stored = disk.read(sector, BLOCK_SIZE).ok().and_then(|block| {
        let at = usize::try_from(at - sector).ok()?;
        Some(u32::from_le_bytes(block.get(at..at + 4)?.try_into().ok()?))
    });
    let computed = checksum::of_block(bytes);
    match stored {
        None => "its checksum cannot be read".to_owned(),
        Some(checksum::UNKNOWN) => format!("checksum not known, it is {computed:08x}"),
        Some(stored) if stored == computed => format!("checksum {stored:08x} is right"),
        Some(stored) => format!("checksum is {computed:08x}, stored is {stored:08x}: WRONG"),
    }
}
