//! `amdu`: what the disks of a group hold, without mounting it.
//!
//! It works on any of a group's disks, or on a directory with dumps of them, whatever state the
//! group is in, and writes to no disk (`engine/src/group/offline/mod.rs`). What is missing, damaged
//! or may be old is always said, and the exit code tells: 0, everything is whole; 2, something is
//! missing, damaged or old; 3, everything is there, and some of it could not be verified; 1,
//! nothing was done.

mod compare;
mod dump;
mod dump_file;
mod extract;
mod list;
mod locate;
mod open;
mod report;

use super::{
    Result,
    context::{Context, Headings, Run, bare},
};
use crate::sql_error::SqlError;
use clap::Args;
pub(super) use dump_file::DumpedDisk;
use open::Opened;
use std::path::PathBuf;

/// Read the disks of a disk group that is not mounted: files, metadata, damage.
///
/// Exits with 0: everything is whole, 2: something is missing, damaged or old, 3: something could
/// not be verified, 1: refused.
#[derive(Debug, Args)]
pub(super) struct Amdu {
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    headings: Headings,
    /// Which one, if the disks are of several disk groups.
    #[arg(long)]
    group: Option<String>,
    /// The directory into which files are extracted; it is made.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Only what is at this offset of the file.
    #[arg(long, requires = "file")]
    offset: Option<String>,
    /// Disks, images, patterns, or directories with dumps.
    #[arg(required = true)]
    disks: Vec<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct What {
    /// List disks and files.
    #[arg(long)]
    list: bool,
    /// Copy a file, a directory, or ALL out of the group.
    #[arg(long, value_name = "FILE", requires = "output")]
    extract: Option<String>,
    /// Copy the catalog to a file, which sqlite3 opens.
    #[arg(long, value_name = "FILE")]
    extract_catalog: Option<PathBuf>,
    /// Copy the metadata of the disks into a directory, which amdu and kfed take as disks.
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
    /// Say for each disk what is there and what is damaged.
    #[arg(long)]
    report: bool,
    /// Compare the mirrors of all files.
    #[arg(long)]
    compare: bool,
    /// Say which file has its bytes at an offset of a disk.
    #[arg(long, value_name = "DISK:OFFSET")]
    block: Option<String>,
    /// Say where the bytes of a file are.
    #[arg(long, value_name = "NAME")]
    file: Option<String>,
}

/// Exit codes.
const INCOMPLETE: u8 = 2;
const UNVERIFIED: u8 = 3;

impl Run for Amdu {
    fn run(&self, context: &mut Context) -> Result<()> {
        let opened = Opened::open(&self.disks)?;
        let group = self.group.as_deref().map(|group| bare(group).to_uppercase());
        if self.what.report {
            return report::report(context, &opened, group.as_deref(), self.headings);
        }
        let at = opened.choose(group.as_deref())?;
        if let Some(directory) = &self.what.dump {
            return dump::dump(context, &opened, at, directory);
        }
        opened.disks_that_could_not_be_read(at);
        if let Some(file) = &self.what.extract_catalog {
            return extract::catalog(context, &opened, at, file);
        }
        let copy = open::Copy::of(&opened, at)?;
        let contents = copy.contents(&opened, at)?;
        if let Some(wanted) = &self.what.extract {
            let missing = || SqlError::new("22023", "--output DIR is missing");
            let output = self.output.as_deref().ok_or_else(missing)?;
            return extract::extract(context, &opened, at, &contents, (wanted, output));
        }
        if self.what.compare {
            return compare::compare(context, &opened.groups[at], &contents, self.headings);
        }
        if let Some(place) = &self.what.block {
            return locate::block(context, &opened.groups[at], &contents, place, self.headings);
        }
        if let Some(name) = &self.what.file {
            let offset = self.offset.as_deref();
            let group = &opened.groups[at];
            return locate::file(context, group, &contents, (name, offset), self.headings);
        }
        list::list(context, &opened.groups[at], &contents, self.headings)
    }
}
