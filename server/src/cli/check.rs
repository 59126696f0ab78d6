//! `check`, `chkdg` and `scrub`: is a disk group what it should be?

use super::{
    Result, complain,
    context::{Context, Run, bare, group_name},
    print,
    watch::{Bars, Watch},
};
use crate::sql_error::SqlError;
use clap::Args;
use plinth_engine::{
    admin::{AdminError, Code, Operation, Report, ScrubOrder, ScrubPower, Value},
    group::{Group, check_files::See},
    words::counted,
    world::World,
};
use plinth_host::{IoChoice, RealWorld, pattern_of};
use std::{
    io::{self, IsTerminal},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

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
            [group] if !bare(group).contains('/') && !Path::new(group).exists() => {
                mounted(context, group, self.repair)
            }
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
    let _watch = Watch::begin(&context.paths);
    context.instance()?.check(&group_name(group)?, repair)
}

/// Read everything of disk groups against its checksums, while they are used.
///
/// Says nothing if nothing is wrong: for a timer. Exits as check does.
#[derive(Debug, Args)]
pub(super) struct Scrub {
    /// Repair what can be repaired.
    #[arg(long)]
    repair: bool,
    /// How much of the disks' time it takes.
    #[arg(long, value_parser = ["auto", "low", "high", "max"], default_value = "auto")]
    power: String,
    /// Say what was read although nothing is wrong.
    #[arg(short, long)]
    verbose: bool,
    /// All that are mounted, if none is named.
    #[arg(value_name = "GROUP")]
    groups: Vec<String>,
}

impl Run for Scrub {
    fn run(&self, context: &mut Context) -> Result<()> {
        let power = match &*self.power {
            "low" => ScrubPower::Low,
            "high" => ScrubPower::High,
            "max" => ScrubPower::Max,
            _ => ScrubPower::Auto,
        };
        let order = ScrubOrder { repair: self.repair, power, ..ScrubOrder::default() };
        let mut groups =
            self.groups.iter().map(|group| group_name(group)).collect::<Result<Vec<_>>>()?;
        if groups.is_empty() {
            let mounted = context.query(
                "SELECT name FROM v$asm_diskgroup_stat WHERE state = 'MOUNTED' ORDER BY name",
            )?;
            groups.extend(mounted.rows.iter().filter_map(|row| match row.first() {
                Some(Value::Text(name)) => Some(name.clone()),
                _ => None,
            }));
        }
        let mut worst = 0;
        for group in groups {
            let report = {
                let _watch = Watch::begin(&context.paths);
                context.instance()?.scrub(&group, order.clone())
            };
            let is_clean = report.as_ref().is_ok_and(|report| report.problems.found() == 0);
            if self.verbose || !is_clean {
                if !context.json {
                    print(&format!("disk group {group}:\n"));
                }
                tell(context, report, self.repair)?;
                worst = worst.max(context.status);
            }
        }
        context.status = worst;
        Ok(())
    }
}

/// Exits with 0: clean, 1: all repaired, 2: something is left, or it could not be checked, 3:
/// mirrors are missing.
fn tell(context: &mut Context, report: Result<Report>, repair: bool) -> Result<()> {
    let report = match report {
        Ok(report) => report,
        Err(refusal) => {
            complain(&refusal);
            context.status = 2;
            return Ok(());
        }
    };
    let (repaired, left) = (report.problems.repaired(), report.problems.left());
    if context.json {
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| SqlError::new(crate::sql_error::state::INTERNAL, error))?;
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
            text.push_str(&format!(
                "{}{}\n",
                problem.text,
                if problem.repaired { " (repaired)" } else { "" }
            ));
        }
        if report.problems.untold() > 0 {
            text.push_str(&format!("and {} more\n", counted(report.problems.untold(), "problem")));
        }
        text.push_str(&format!(
            "{} checked, {} read: {}\n",
            counted(report.extents_checked, "extent"),
            crate::text::bytes_pretty(i64::try_from(report.bytes_read).unwrap_or(i64::MAX)),
            match (repaired, left) {
                (0, 0) if report.missing.is_empty() => "clean".to_owned(),
                (0, 0) => "nothing is wrong, but mirrors are missing: bring the disks ONLINE, or drop them where others have room".to_owned(),
                (_, 0) => format!("{}, all repaired", counted(repaired, "problem")),
                (0, _) if !repair => format!("{}; --repair repairs what can be repaired", counted(left, "problem")),
                _ => format!(
                    "{} repaired, {left} left; restore the files that are named from a backup",
                    counted(repaired, "problem")
                ),
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
    let choice = IoChoice::from_environment().map_err(|error| SqlError::new("22023", error))?;
    let world = RealWorld::new(choice, |event| crate::stdio::warn(&format!("{event}\n")))
        .map_err(|error| SqlError::new(crate::sql_error::state::INTERNAL, error))?;
    let escaped: Vec<String> = disks.iter().map(|disk| pattern_of(disk)).collect();
    world.set_diskstring(&escaped.join(",")).map_err(|error| SqlError::new("22023", error))?;
    for disk in disks {
        world.open(disk).map_err(|error| {
            SqlError::from(AdminError::new(Code::CannotOpen, format!("disk {disk}: {error}")))
        })?;
    }
    let world: Arc<dyn World> = Arc::new(world);
    let bars = Mutex::new(Bars::default());
    let see = |group: &str, operation: &Operation| {
        let what = format!("{group} {}", operation.pass);
        bars.lock().unwrap_or_else(PoisonError::into_inner).show(
            &what,
            operation.so_far,
            operation.work,
            operation.rate,
        );
    };
    let see: See<'_> = if io::stderr().is_terminal() { Some(&see) } else { None };
    let checked = plinth_host::block_on(Group::check_files_watched(&world, repair, see))
        .map_err(SqlError::from);
    bars.into_inner().unwrap_or_else(PoisonError::into_inner).clear();
    checked
}
