//! `mapextent` and `mapau`: from an extent of a file to AUs of disks, and back.

use super::{
    Result, asm_path,
    context::{Context, Headings, Run, asmcmd, no_group},
};
use crate::sql_error::SqlError;
use clap::Args;
use plinth_engine::admin::Value;

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
        let found = asm_path::find(&context.engine(group)?, &place)?;
        let listed = context.query(&format!(
            "SELECT disk_kffxp AS Disk_Num, au_kffxp AS AU, size_kffxp AS Extent_Size FROM x$kffxp
             WHERE group_kffxp = {} AND number_kffxp = {} AND xnum_kffxp = {} ORDER BY lxn_kffxp",
            context.group_number(group)?,
            found.info.node,
            self.extent
        ))?;
        if listed.rows.is_empty() {
            return Err(asmcmd(
                8002,
                format!("file '{}' has no extent {}", found.place, self.extent),
            ));
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
        let listed = context.query(&format!(
            "SELECT number_kffxp AS File_Num, pxn_kffxp AS Extent, xnum_kffxp AS Extent_Set FROM x$kffxp
             WHERE group_kffxp = {} AND disk_kffxp = {} AND au_kffxp = {} ORDER BY number_kffxp, pxn_kffxp",
            self.group, self.disk, self.au
        ))?;
        if listed.rows.is_empty() {
            self.is_there(context)?;
        }
        context.show(&listed, self.headings);
        Ok(())
    }
}

impl Mapau {
    /// Refuses an AU that does not exist. An AU that holds no extent does exist.
    fn is_there(&self, context: &Context) -> Result<()> {
        let Self { group, disk, au, .. } = self;
        let groups = context.query(&format!(
            "SELECT name, allocation_unit_size FROM v$asm_diskgroup_stat WHERE group_number = {group} AND {group} > 0"
        ))?;
        let Some([Value::Text(name), Value::Integer(unit)]) =
            groups.rows.first().map(Vec::as_slice)
        else {
            return Err(
                no_group(&group.to_string()).hint("the number is group_number in v$asm_diskgroup")
            );
        };
        let disks = context.query(&format!(
            "SELECT name, total_mb FROM v$asm_disk_stat WHERE group_number = {group} AND disk_number = {disk}"
        ))?;
        let Some([Value::Text(disk), Value::Integer(size)]) = disks.rows.first().map(Vec::as_slice)
        else {
            let text = format!("disk group {name} has no disk {disk}");
            return Err(SqlError::new("22023", text).hint("the number is Disk_Num of lsdsk -p"));
        };
        let count = size * (1 << 20) / (*unit).max(1);
        if i64::from(*au) < count {
            return Ok(());
        }
        let text = format!("disk {disk} of disk group {name} has no AU {au}");
        Err(SqlError::new("22023", text).hint(format!("the last one is {}", count - 1)))
    }
}
