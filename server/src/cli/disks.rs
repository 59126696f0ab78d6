//! `rebal`, `online`, `offline`, `remap`: statements about the disks of a group.

use super::{
    Result,
    context::{Context, Run, checked_name, group_name},
    watch::Watch,
};
use crate::sql_error::{SqlError, state};
use clap::{ArgGroup, Args};

/// Spread what a disk group holds evenly over its disks, or go on with that, or change its power.
#[derive(Debug, Args)]
pub(super) struct Rebal {
    /// Mirrors that move at once, 0 to 1024; 0 pauses.
    #[arg(long)]
    power: Option<u32>,
    /// Return only when it is done; show how far it is.
    #[arg(short = 'w', long)]
    wait: bool,
    group: String,
}

fn waiting(wait: bool) -> &'static str {
    if wait { " WAIT" } else { " NOWAIT" }
}

fn power_clause(power: Option<u32>) -> String {
    power.map_or_else(String::new, |power| format!(" POWER {power}"))
}

impl Run for Rebal {
    fn run(&self, context: &mut Context) -> Result<()> {
        let group = group_name(&self.group)?;
        let _watch = Watch::begin(&context.paths);
        context.statement(&format!(
            "ALTER DISKGROUP {group} REBALANCE{}{}",
            power_clause(self.power),
            waiting(self.wait)
        ))
    }
}

/// Arguments that select disks of a group.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true)))]
struct Which {
    #[arg(short = 'G', value_name = "GROUP")]
    group: String,
    /// A failure group.
    #[arg(short = 'F', value_name = "FAILGROUP", group = "which")]
    failgroup: Option<String>,
    /// A disk.
    #[arg(short = 'D', value_name = "DISK", group = "which")]
    disk: Option<String>,
}

impl Which {
    fn clause(&self) -> Result<String> {
        match (&self.failgroup, &self.disk) {
            (Some(failgroup), _) => {
                Ok(format!("DISKS IN FAILGROUP {}", checked_name(failgroup, "a failure group")?))
            }
            (None, Some(disk)) => Ok(format!("DISK {}", checked_name(disk, "a disk")?)),
            (None, None) => Ok("ALL".to_owned()),
        }
    }
}

/// Bring disks back: they are copied what they missed.
#[derive(Debug, Args)]
pub(super) struct Online {
    #[command(flatten)]
    which: Which,
    /// All disks of the group that are away.
    #[arg(short = 'a', group = "which")]
    all: bool,
    /// Extents that are copied at once, 1 to 1024.
    #[arg(long)]
    power: Option<u32>,
    /// Return only when the disks have everything.
    #[arg(short = 'w', long)]
    wait: bool,
}

impl Run for Online {
    fn run(&self, context: &mut Context) -> Result<()> {
        let group = group_name(&self.which.group)?;
        let _watch = Watch::begin(&context.paths);
        context.statement(&format!(
            "ALTER DISKGROUP {group} ONLINE {}{}{}",
            self.which.clause()?,
            power_clause(self.power),
            waiting(self.wait)
        ))
    }
}

/// Take disks out of use for a while.
#[derive(Debug, Args)]
pub(super) struct Offline {
    #[command(flatten)]
    which: Which,
    /// How long they are waited for before they are dropped: 30m, 12h; hours if nothing is said.
    #[arg(short = 't', value_name = "TIME")]
    time: Option<String>,
}

/// `30m`, `12h` or `12` as a statement has it.
fn drop_after(time: &str) -> Result<String> {
    let lower = time.to_lowercase();
    let (number, unit) = match lower.strip_suffix('m') {
        Some(number) => (number, "M"),
        None => (lower.strip_suffix('h').unwrap_or(&lower), "H"),
    };
    match number.parse::<u32>() {
        Ok(number) => Ok(format!(" DROP AFTER {number} {unit}")),
        Err(_) => {
            Err(SqlError::new(state::SYNTAX, format!("{time:?} is no time"))
                .hint("as in 30m or 12h"))
        }
    }
}

impl Run for Offline {
    fn run(&self, context: &mut Context) -> Result<()> {
        let group = group_name(&self.which.group)?;
        let after = self.time.as_deref().map_or_else(|| Ok(String::new()), drop_after)?;
        context
            .statement(&format!("ALTER DISKGROUP {group} OFFLINE {}{after}", self.which.clause()?))
    }
}

/// Read a disk and write anew, from the other mirrors, what it cannot read.
#[derive(Debug, Args)]
pub(super) struct Remap {
    group: String,
    disk: String,
    /// Physical blocks, FIRST-LAST: the disk that has them is read whole, and these with it.
    blocks: String,
}

impl Run for Remap {
    fn run(&self, context: &mut Context) -> Result<()> {
        let range = self.blocks.split_once('-').unwrap_or((&self.blocks, &self.blocks));
        match (range.0.parse::<u64>(), range.1.parse::<u64>()) {
            (Ok(first), Ok(last)) if first <= last => {}
            _ => {
                return Err(SqlError::new(
                    state::SYNTAX,
                    format!("{:?} is no range of blocks", self.blocks),
                )
                .hint("as in 5000-5999"));
            }
        }
        let (group, disk) = (group_name(&self.group)?, checked_name(&self.disk, "a disk")?);
        context.statement(&format!("ALTER DISKGROUP {group} SCRUB DISK {disk} REPAIR WAIT"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_hours_unless_they_say_minutes() {
        for (time, clause) in
            [("30m", " DROP AFTER 30 M"), ("12H", " DROP AFTER 12 H"), ("3", " DROP AFTER 3 H")]
        {
            assert_eq!(drop_after(time).ok().as_deref(), Some(clause));
        }
        for time in ["", "m", "1d", "-1"] {
            assert!(drop_after(time).is_err(), "{time}");
        }
    }
}
