//! `kfed`: the records on a disk, read, found and repaired by hand.
//!
//! It works without an instance, on a device or an image by its path, whatever state the disk's
//! group is in. `read` and `find` open the disk read-only. The others change nothing but headers:
//!
//!   1. Claim the disk, as an engine does: refused while an engine has it.
//!   2. Decide which blocks are written, and print it. Without `--yes` this is all.
//!   3. Store what these blocks hold now in a file, durably (`before_image.rs`).
//!   4. Write the blocks, one after the other, each flushed before the next, and read them back.
//!
//! A crash in 4 leaves some of the blocks as they were: the same command goes on, and
//! `kfed repair --undo FILE` takes back what was written.

mod before_image;
mod find;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod merge;
mod read;
mod rebuild;
mod repair;
mod undrop;

use super::{
    Result,
    context::{Context, Run},
};
use clap::{Args, Subcommand};

/// Read, find and repair the records on a disk by hand.
#[derive(Debug, Args)]
pub(super) struct Kfed {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Read(read::Read),
    Find(find::Find),
    Repair(repair::Repair),
    Merge(merge::Merge),
    Undrop(undrop::Undrop),
}

impl Run for Kfed {
    fn run(&self, context: &mut Context) -> Result<()> {
        match &self.what {
            What::Read(read) => read.run(context),
            What::Find(find) => find.run(context),
            What::Repair(repair) => repair.run(context),
            What::Merge(merge) => merge.run(context),
            What::Undrop(undrop) => undrop.run(context),
        }
    }
}
