//! `afd_label`, `afd_unlabel`, `afd_lslbl`, `afd_lsdsk`, `afd_scan`, `afd_di`, `afd_dsget`,
//! `afd_dsset`: labels of disks.
//!
//! Lists are made by looking at the disks, without the instance: their user must be allowed to read
//! the devices.

use super::{
    Result,
    context::{Context, Headings, Run, asmcmd, quoted},
    settings::setting,
    table::Cells,
};
use crate::{
    query::{Column, Table, views::Type},
    sql_error::{SqlError, state},
};
use clap::{Args, ValueEnum};
use plinth_engine::{
    admin::{HeaderStatus, Survey, Value},
    disk::identify::LABEL_PATH,
    group::Group,
    world::World,
};
use plinth_host::{IoChoice, RealWorld, filter};
use std::{collections::BTreeMap, sync::Arc};

/// Give a disk a label, by which it is found.
#[derive(Debug, Args)]
pub(super) struct AfdLabel {
    label: String,
    path: String,
    /// Take the disk even if something else is on it: that is lost.
    #[arg(long)]
    init: bool,
    /// Give another label to a disk that has one.
    #[arg(long)]
    rename: bool,
    /// Label a disk that belongs to a mounted disk group.
    #[arg(long)]
    migrate: bool,
}

/// Take a disk's label away.
#[derive(Debug, Args)]
pub(super) struct AfdUnlabel {
    /// The label, or the path of the device.
    disk: String,
    /// As asmcmd has it; here it changes nothing.
    #[arg(long, hide = true)]
    init: bool,
}

/// List labels.
#[derive(Debug, Args)]
pub(super) struct AfdLslbl {
    /// Devices to look at: * and % are wildcards.
    path: Option<String>,
}

/// List disks that have labels.
#[derive(Debug, Args)]
pub(super) struct AfdLsdsk {
    /// Also list devices that are not used, and say why each one is used or not.
    #[arg(long)]
    why: bool,
}

/// Look for labels, and say what is wrong with them.
#[derive(Debug, Args)]
pub(super) struct AfdScan {
    /// Patterns of the devices to look at, with commas between: * and % are wildcards. Without any,
    /// the devices are those of afd_dsget.
    patterns: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DataIntegrity {
    Query,
    Enable,
    Disable,
}

/// Say whether devices verify checksums of the host (T10-PI).
#[derive(Debug, Args)]
pub(super) struct AfdDi {
    what: DataIntegrity,
    #[arg(hide = true)]
    path: Option<String>,
}

/// Say which devices' labels are read.
#[derive(Debug, Args)]
pub(super) struct AfdDsget {}

/// Say which devices' labels shall be read; nothing: those of all block devices.
#[derive(Debug, Args)]
pub(super) struct AfdDsset {
    /// Patterns, with commas between.
    diskstring: String,
}

/// A failure under ASM's number, with its cause.
fn failed(number: u16, operation: &str, cause: SqlError) -> SqlError {
    let text = format!("ASM disk label {operation} operation failed.\n{}", cause.message);
    SqlError { message: asmcmd(number, text).message, at: None, ..cause }
}

impl Run for AfdLabel {
    fn run(&self, context: &mut Context) -> Result<()> {
        let words = [(self.rename, " RENAME"), (self.migrate, " MIGRATE"), (self.init, " FORCE")];
        let words: String =
            words.into_iter().filter_map(|(is_given, word)| is_given.then_some(word)).collect();
        let (label, path) = (quoted(&self.label), quoted(&self.path));
        context
            .statement(&format!("ALTER SYSTEM LABEL SET {label} TO {path}{words}"))
            .map_err(|cause| failed(9513, "set", cause))
    }
}

impl Run for AfdUnlabel {
    fn run(&self, context: &mut Context) -> Result<()> {
        context
            .statement(&format!("ALTER SYSTEM LABEL CLEAR {}", quoted(&self.disk)))
            .map_err(|cause| failed(9514, "clear", cause))
    }
}

impl Run for AfdScan {
    fn run(&self, context: &mut Context) -> Result<()> {
        let patterns = self.patterns.as_deref().map(|patterns| patterns.replace('%', "*"));
        let patterns = patterns.map_or_else(String::new, |patterns| quoted(&patterns));
        context
            .statement(&format!("ALTER SYSTEM LABEL SCAN {patterns}"))
            .map_err(|cause| SqlError { at: None, ..cause })
    }
}

impl Run for AfdDi {
    fn run(&self, context: &mut Context) -> Result<()> {
        match self.what {
            DataIntegrity::Query => {
                context.say("Data integrity is DISABLED");
                Ok(())
            }
            DataIntegrity::Disable => Ok(()),
            DataIntegrity::Enable => {
                Err(SqlError::new(state::NOT_SUPPORTED, "data integrity (T10-PI) is not used")
                    .hint("every 4 KiB of a disk group has a checksum, which every read verifies"))
            }
        }
    }
}

impl Run for AfdDsget {
    fn run(&self, context: &mut Context) -> Result<()> {
        let value = setting(context, "afd_diskstring")?;
        context.say(format!("AFD discovery string: {value}"));
        Ok(())
    }
}

impl Run for AfdDsset {
    fn run(&self, context: &mut Context) -> Result<()> {
        let patterns: Vec<String> =
            self.diskstring.split(',').map(|pattern| quoted(pattern.trim())).collect();
        context.statement(&format!("ALTER SYSTEM SET afd_diskstring = {}", patterns.join(", ")))
    }
}

/// Whether other programs' writes to a device are refused.
fn filtering(device: &str) -> &'static str {
    if filter::protects(device) { "ENABLED" } else { "DISABLED" }
}

/// The disks that a scan for labels shows, and the devices that it passes over.
fn scan(context: &Context) -> Result<Vec<Survey>> {
    let choice = IoChoice::from_environment().map_err(|error| SqlError::new("22023", error))?;
    let world =
        RealWorld::new(choice, |_| {}).map_err(|error| SqlError::new(state::INTERNAL, error))?;
    world.note_in(context.paths.state());
    world
        .set_diskstring(&format!("{LABEL_PATH}*"))
        .map_err(|error| SqlError::new("22023", error))?;
    let world: Arc<dyn World> = Arc::new(world);
    let mut seen = context.wait(Group::survey(&world))?;
    seen.sort_by(|one, other| (&one.label, &one.device).cmp(&(&other.label, &other.device)));
    Ok(seen)
}

fn is_used(disk: &Survey) -> bool {
    !matches!(disk.header, HeaderStatus::Ignored | HeaderStatus::Conflict)
}

/// Prints a table as `asmcmd` rules it; as JSON, one object for each row.
fn show(context: &Context, middle: &str, rows: Vec<[String; 3]>) {
    if context.json {
        let names = ["Label", middle, "Path"];
        let rows = rows.into_iter().map(|row| row.map(Value::Text).to_vec()).collect();
        return context.show(&texts(&names, rows), Headings::default());
    }
    context.say("-".repeat(80));
    context.say(format!("{:<25} {middle:<11} Path", "Label"));
    context.say("=".repeat(80));
    for [label, middle, path] in rows {
        context.say(format!("{label:<25} {middle:>9}   {path}"));
    }
}

fn texts(names: &[&str], rows: Vec<Vec<Value>>) -> Table {
    let column = |name: &&str| Column { name: (*name).to_owned(), kind: Type::Text };
    Table { columns: names.iter().map(column).collect(), rows }
}

impl Run for AfdLsdsk {
    fn run(&self, context: &mut Context) -> Result<()> {
        let seen = scan(context)?;
        if !self.why {
            let rows = seen.into_iter().filter(is_used).map(|disk| {
                let filtering = filtering(&disk.device).to_owned();
                [disk.label.unwrap_or_default(), filtering, disk.device]
            });
            show(context, "Filtering", rows.collect());
            return Ok(());
        }
        let rows = seen.iter().map(|disk| {
            let used = if is_used(disk) { "Y" } else { "N" };
            let why = disk.remark.clone().unwrap_or_else(|| match &disk.group {
                Some(group) => format!("{} of disk group {group}", disk.header),
                None => disk.header.to_string(),
            });
            let label = disk.label.clone().unwrap_or_default();
            [label, used.to_owned(), disk.device.clone(), why].map(Value::Text).to_vec()
        });
        let table = texts(&["Label", "Used", "Path", "Why"], rows.collect());
        let cells = Cells { empty: &["Label"], phrases: &["Why"] };
        context.show_cells(&table, Headings::default(), cells);
        Ok(())
    }
}

impl Run for AfdLslbl {
    fn run(&self, context: &mut Context) -> Result<()> {
        let wanted = self.path.as_deref().map(|path| path.replace('%', "*"));
        let pattern = wanted.map(|path| glob::Pattern::new(&path)).transpose();
        let pattern = pattern.map_err(|error| SqlError::new("22023", error))?;
        let seen = scan(context)?;
        let mut count: BTreeMap<Option<String>, usize> = BTreeMap::new();
        let labelled: Vec<&Survey> = seen.iter().filter(|disk| disk.label.is_some()).collect();
        labelled.iter().for_each(|disk| *count.entry(disk.label.clone()).or_default() += 1);
        let is_wanted =
            |disk: &&Survey| pattern.as_ref().is_none_or(|pattern| pattern.matches(&disk.device));
        let rows = labelled.into_iter().filter(is_wanted).map(|disk| {
            let is_duplicate = count.get(&disk.label).is_some_and(|count| *count > 1);
            let duplicate = if is_duplicate { "YES" } else { "" };
            [disk.label.clone().unwrap_or_default(), duplicate.to_owned(), disk.device.clone()]
        });
        show(context, "Duplicate", rows.collect());
        Ok(())
    }
}
