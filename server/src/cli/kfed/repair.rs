//! `kfed repair`: header copies that are missing or damaged, rewritten from a good one; and what
//! `kfed` wrote, taken back.
//!
//! The copy that counts is the one by which a mount goes (`engine/src/disk/identify/copies.rs`), or
//! the one at a place that the operator names: `kfed find` shows those that no mount looks for. If
//! a disk has no copy left, its header is made again (`rebuild.rs`).

use super::{
    super::{
        Result,
        context::{Context, Run},
        dump::parse_offset,
        raw_disk::{RawDisk, failed, world},
    },
    before_image::{Change, DiskChanges, apply, undo},
    rebuild::rebuilt,
};
use crate::sql_error::SqlError;
use clap::Args;
use plinth_engine::{
    admin::{AdminError, Code},
    disk::identify::{Case, examine_header},
};
use plinth_format::{BLOCK_SIZE, header::DiskHeader};
use std::path::PathBuf;

/// Rewrite header copies that are missing or damaged.
///
/// The former content of the blocks is stored in a file first. Without --yes nothing is written,
/// and what would be written is printed.
#[derive(Debug, Args)]
pub(super) struct Repair {
    #[arg(required_unless_present = "undo")]
    disk: Option<PathBuf>,
    /// The offset of the copy that is right, as kfed find prints it; otherwise the newest one.
    #[arg(long, value_name = "OFFSET")]
    from: Option<String>,
    /// No copy is left: make the header again from the memberships on this disk and on these other
    /// disks of its group.
    #[arg(long, value_name = "DISK", num_args = 0.., conflicts_with = "from")]
    rebuild: Option<Vec<PathBuf>>,
    /// Which disk of the group it is, if no record on it says that.
    #[arg(long, requires = "rebuild")]
    name: Option<String>,
    /// Write.
    #[arg(long)]
    yes: bool,
    /// Where to store what the blocks hold now.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Put back what such a file has.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["disk", "from", "rebuild", "yes", "save"])]
    undo: Option<PathBuf>,
}

impl Run for Repair {
    fn run(&self, context: &mut Context) -> Result<()> {
        if let Some(file) = &self.undo {
            context.say(undo(file)?);
            return Ok(());
        }
        let Some(path) = &self.disk else { return Ok(()) };
        let disk = RawDisk::open(path)?;
        if self.yes {
            disk.claim()?;
        }
        let header = match (&self.from, &self.rebuild) {
            (Some(place), _) => copy_at(&disk, place)?,
            (None, Some(others)) => {
                let name = self.name.as_ref().map(|name| name.to_uppercase());
                let rebuilt = rebuilt(&disk, others, name.as_deref())?;
                rebuilt.remarks.iter().for_each(|remark| context.say(remark));
                rebuilt.header
            }
            (None, None) => newest(&disk)?,
        };
        let changes = header_changes(&disk, &header)?;
        if changes.is_empty() {
            context.say(format!("{}: every copy of the header is right", disk.path));
            return Ok(());
        }
        let places: Vec<_> = changes.iter().map(|change| change.offset.to_string()).collect();
        let text = format!(
            "{}: header of disk {} of disk group {}, at offset {}",
            disk.path,
            header.name,
            header.group_name,
            places.join(", ")
        );
        if !self.yes {
            context.say(format!("{text}: would be written; --yes writes it"));
            return Ok(());
        }
        let all = [DiskChanges { disk, changes }];
        let saved = apply(context, "repair", self.save.as_deref(), &all)?;
        context.say(format!("{text}: written"));
        context.say(format!("what was there before is in {}", saved.display()));
        Ok(())
    }
}

/// The blocks that differ from the header's copies.
///
/// # Errors
/// If the disk is smaller than the header says.
pub(super) fn header_changes(disk: &RawDisk, header: &DiskHeader) -> Result<Vec<Change>> {
    let needed = header.layout.size();
    if disk.size() < needed {
        let text = format!(
            "{} has {} bytes, and disk {} needs {needed}: it has shrunk, or this is another disk's \
             header",
            disk.path,
            disk.size(),
            header.name
        );
        return Err(AdminError::new(Code::Invalid, text).into());
    }
    let changes = header.layout.header_places().into_iter().filter_map(|place| {
        let after = Box::new(header.encode(place));
        let is_there = disk.read(place, BLOCK_SIZE).is_ok_and(|bytes| bytes == after[..]);
        (!is_there).then_some(Change { offset: place, after })
    });
    Ok(changes.collect())
}

/// The copy by which a mount goes.
pub(super) fn newest(disk: &RawDisk) -> Result<DiskHeader> {
    let (case, header) = plinth_host::block_on(examine_header(&world()?, &*disk.disk));
    let refuse = |text: &str| {
        SqlError::from(AdminError::new(Code::Invalid, format!("{}: {text}", disk.path)).hint(
            "kfed find shows all copies that there are, and kfed repair --from OFFSET takes \
                     one of them; kfed repair DISK --rebuild OTHER ... makes the header again, with \
                     other disks of its group",
        ))
    };
    match (case, header) {
        (Case::Contested, _) => {
            Err(refuse("its header copies are of several disks, and nothing says which it is"))
        }
        (_, Some(header)) => Ok(header.best),
        (_, None) => Err(refuse("no copy of a header is where one belongs")),
    }
}

fn copy_at(disk: &RawDisk, place: &str) -> Result<DiskHeader> {
    let refuse = |text: String| {
        SqlError::from(AdminError::new(Code::Invalid, text).hint("kfed find shows the copies"))
    };
    let offset =
        parse_offset(place).ok_or_else(|| refuse(format!("'{place}' is no offset in bytes")))?;
    let block = disk.read(offset, BLOCK_SIZE).map_err(|error| failed(&disk.path, &error))?;
    DiskHeader::decode(&block, offset)
        .map_err(|error| refuse(format!("{}: no header copy at {offset}: {error}", disk.path)))
}
