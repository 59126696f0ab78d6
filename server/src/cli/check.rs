//! `check` and `chkdg`: is a disk group what it should be?

use super::{
    Result, complain,
    context::{Context, Run, bare, group_name},
    print, table,
};
use crate::{
    refusal::Refusal,
    world::{IoChoice, RealWorld},
};
use clap::Args;
use plinth_engine::{
    admin::{AdminError, Code, Report},
    group::Group,
    world::World,
};
use std::{path::Path, sync::Arc};

/// Check a disk group, or the disks of one that is not mounted.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Repair what can be repaired.
    #[arg(long)]
    repair: bool,
    /// A mounted disk group; or paths of all disks of one.
    #[arg(required = true)]
    what: Vec<String>,
}

impl Run for Check {
    fn run(&self, context: &mut Context) -> Result<()> {
        let report = match &self.what[..] {
            [group] if !bare(group).contains('/') && !Path::new(group).exists() => mounted(context, group, self.repair),
            disks => check_disks(disks, self.repair),
        };
        tell(context, report, self.repair)
    }
}

/// Check a mounted disk group.
#[derive(Debug, Args)]
pub(super) struct Chkdg {
    /// Repair what can be repaired.
    #[arg(long)]
    repair: bool,
    group: String,
}

impl Run for Chkdg {
    fn run(&self, context: &mut Context) -> Result<()> {
        let report = mounted(context, &self.group, self.repair);
        tell(context, report, self.repair)
    }
}

fn mounted(context: &Context, group: &str, repair: bool) -> Result<Report> {
    context.instance()?.check(&group_name(group)?, repair)
}

/// Exits with 0: clean, 1: all repaired, 2: something is left, or it could not be checked, 3: mirrors are missing.
fn tell(context: &mut Context, report: Result<Report>, repair: bool) -> Result<()> {
    let report = match report {
        Ok(report) => report,
        Err(refusal) => {
            complain(&refusal);
            context.status = 2;
            return Ok(());
        }
    };
    let repaired = report.problems.iter().filter(|problem| problem.repaired).count();
    let left = report.problems.len() - repaired;
    if context.json {
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| Refusal::new(crate::refusal::state::INTERNAL, error))?;
        print(&format!("{text}\n"));
    } else {
        let mut text = String::new();
        for remark in &report.remarks {
            text.push_str(&format!("note: {remark}\n"));
        }
        for missing in &report.missing {
            text.push_str(&format!("missing mirrors: {missing}\n"));
        }
        for problem in &report.problems {
            text.push_str(&format!("{}{}\n", problem.text, if problem.repaired { " (repaired)" } else { "" }));
        }
        text.push_str(&format!(
            "{} extents checked, {} read: {}\n",
            report.extents_checked,
            table::bytes_pretty(i64::try_from(report.bytes_read).unwrap_or(i64::MAX)),
            match (repaired, left) {
                (0, 0) if report.missing.is_empty() => "clean".to_owned(),
                (0, 0) => "nothing is wrong, but mirrors are missing: bring the disks ONLINE, or drop them where others have room".to_owned(),
                (_, 0) => format!("{repaired} problems, all repaired"),
                (0, _) if !repair => format!("{left} problems; --repair repairs what can be repaired"),
                _ => format!("{repaired} problems repaired, {left} left; restore the files that are named from a backup"),
            }
        ));
        print(&text);
    }
    context.status = match (repaired, left) {
        (_, 1..) => 2,
        _ if !report.missing.is_empty() => 3,
        (1.., 0) => 1,
        (0, 0) => 0,
    };
    Ok(())
}

/// Checks the disks of a group that no engine uses.
fn check_disks(disks: &[String], repair: bool) -> Result<Report> {
    let choice = IoChoice::from_environment().map_err(|error| Refusal::new("22023", error))?;
    let world = RealWorld::new(choice, |event| eprintln!("{event}"))
        .map_err(|error| Refusal::new(crate::refusal::state::INTERNAL, error))?;
    let escaped: Vec<String> = disks.iter().map(|disk| glob::Pattern::escape(disk)).collect();
    world.set_diskstring(&escaped.join(",")).map_err(|error| Refusal::new("22023", error))?;
    for disk in disks {
        world
            .open(disk)
            .map_err(|error| Refusal::from(AdminError::new(Code::CannotOpen, format!("disk {disk}: {error}"))))?;
    }
    let world: Arc<dyn World> = Arc::new(world);
    crate::world::block_on(Group::check_files(&world, repair)).map_err(Refusal::from)
}
