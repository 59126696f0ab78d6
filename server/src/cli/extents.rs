//! `mapextent` and `mapau`: from an extent of a file to AUs of disks, and back.

use super::{
    Result,
    context::{Context, Headings, Run, asmcmd},
    place,
};
use clap::Args;

/// Say where the mirrors of an extent of a file are.
#[derive(Debug, Args)]
pub(super) struct Mapextent {
    #[command(flatten)]
    headings: Headings,
    file: String,
    /// Counted from 0.
    extent: u32,
}

impl Run for Mapextent {
    fn run(&self, context: &mut Context) -> Result<()> {
        let place = context.place(&self.file);
        let group = place.group()?;
        let found = place::find(&context.engine(group)?, &place)?;
        let listed = context.query(&format!(
            "SELECT disk_kffxp AS Disk_Num, au_kffxp AS AU, size_kffxp AS Extent_Size FROM x$kffxp
             WHERE group_kffxp = {} AND number_kffxp = {} AND xnum_kffxp = {} ORDER BY lxn_kffxp",
            context.group_number(group)?,
            found.info.node,
            self.extent
        ))?;
        if listed.rows.is_empty() {
            return Err(asmcmd(8002, format!("file '{}' has no extent {}", found.place, self.extent)));
        }
        context.show(&listed, self.headings);
        Ok(())
    }
}

/// Say which extent of which file an AU of a disk holds.
#[derive(Debug, Args)]
pub(super) struct Mapau {
    #[command(flatten)]
    headings: Headings,
    /// The number of the disk group.
    group: u32,
    /// The number of the disk.
    disk: u32,
    /// Counted from 0.
    au: u32,
}

impl Run for Mapau {
    fn run(&self, context: &mut Context) -> Result<()> {
        context.show_query(
            &format!(
                "SELECT number_kffxp AS File_Num, pxn_kffxp AS Extent, xnum_kffxp AS Extent_Set FROM x$kffxp
                 WHERE group_kffxp = {} AND disk_kffxp = {} AND au_kffxp = {} ORDER BY number_kffxp, pxn_kffxp",
                self.group, self.disk, self.au
            ),
            self.headings,
        )
    }
}
