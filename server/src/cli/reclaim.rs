//! `reclaim`: gives back all free space of a disk group, after an estimate.

use super::{
    Result,
    context::{Context, Headings, Run, checked_name, group_name},
    sql::run_or_cancel,
    warn,
};
use crate::sql_error::state;
use clap::Args;

/// Give back to thin devices all space of a disk group that is free and was never given back.
#[derive(Debug, Args)]
pub(super) struct Reclaim {
    /// Only say what the disks hold, and what would go back.
    #[arg(long, conflicts_with_all = ["zero", "power", "stop"])]
    estimate: bool,
    /// Write zeroes instead: for arrays that keep none, and devices that take no discards.
    #[arg(long, conflicts_with = "stop")]
    zero: bool,
    /// How much of the disks' time it takes, 1 to 1024; of one that runs, from now on.
    #[arg(long, conflicts_with = "stop")]
    power: Option<u32>,
    /// End the one that runs.
    #[arg(long)]
    stop: bool,
    /// Only of this disk.
    #[arg(short = 'D', value_name = "DISK", conflicts_with = "stop")]
    disk: Option<String>,
    group: String,
}

impl Run for Reclaim {
    fn run(&self, context: &mut Context) -> Result<()> {
        let group = group_name(&self.group)?;
        if self.stop {
            return context.statement(&format!("ALTER DISKGROUP {group} RECLAIM STOP"));
        }
        let disk = match &self.disk {
            Some(disk) => format!(" DISK {}", checked_name(disk, "a disk")?),
            None => String::new(),
        };
        context.show_query(
            &format!("EXPLAIN WORK FOR ALTER DISKGROUP {group} RECLAIM{disk}"),
            Headings::default(),
        )?;
        if self.estimate {
            return Ok(());
        }
        let zero = if self.zero { " ZERO" } else { "" };
        let power = self.power.map_or_else(String::new, |power| format!(" POWER {power}"));
        let statement = format!("ALTER DISKGROUP {group} RECLAIM{disk}{zero}{power} WAIT");
        // Ctrl-C ends the waiting, and not the operation.
        context.heed_interrupts()?;
        run_or_cancel(&context.instance()?, context, &statement, &mut |given| {
            given.notices.iter().for_each(|notice| warn(&format!("{}\n", notice.text)));
        })
        .map_err(|refusal| match &*refusal.state {
            state::CANCELED => {
                refusal.hint(format!("it goes on: lsop shows it, reclaim --stop {group} ends it"))
            }
            _ => refusal,
        })
    }
}
