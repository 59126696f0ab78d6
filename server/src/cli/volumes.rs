//! `volcreate` and the others: volumes of a disk group.

use super::{
    Result,
    context::{
        Context, Headings, Run, checked_name, checked_word, group_name, like_or_all, quoted,
    },
    lists::only_name,
    templates::{Redundancy, Region, clause},
};
use crate::{
    query::Table,
    sql_error::{SqlError, state},
};
use clap::Args;
use plinth_engine::admin::{AdminError, Code};

fn statement(context: &Context, group: &str, rest: &str) -> Result<()> {
    context.statement(&format!("ALTER DISKGROUP {} {rest}", group_name(group)?))
}

fn volume(name: &str) -> Result<String> {
    checked_name(name, "a volume")
}

/// The refusal for a volume that is not there, in the engine's words.
fn no_volume(group: Option<&str>, name: &str) -> SqlError {
    let name = name.to_uppercase();
    let text = match group.map(group_name) {
        Some(Ok(group)) => format!("disk group {group} has no volume {name}"),
        _ => format!("no disk group has a volume {name}"),
    };
    AdminError::new(Code::NoSuchVolume, text).hint("volinfo --all lists them").into()
}

/// Make a volume.
#[derive(Debug, Args)]
pub(super) struct Volcreate {
    #[arg(short = 'G', value_name = "GROUP")]
    group: String,
    /// As in 10G.
    #[arg(short, value_name = "SIZE")]
    size: String,
    /// Stripes side by side, 1 to 8.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=8))]
    column: Option<u8>,
    /// Of a stripe, 4K to 1M.
    #[arg(long, value_name = "SIZE")]
    width: Option<String>,
    #[arg(long, value_name = "REDUNDANCY")]
    redundancy: Option<Redundancy>,
    /// As asmcmd has it: all of a volume is cold here.
    #[arg(long, value_name = "REGION", hide = true)]
    primary: Option<Region>,
    #[arg(long, value_name = "REGION", hide = true)]
    secondary: Option<Region>,
    volume: String,
}

impl Run for Volcreate {
    fn run(&self, context: &mut Context) -> Result<()> {
        if let Some(flag) = [(self.primary, "--primary hot"), (self.secondary, "--secondary hot")]
            .into_iter()
            .find_map(|(region, flag)| matches!(region, Some(Region::Hot)).then_some(flag))
        {
            let text = format!("{flag}: no region of a disk is hotter than another");
            return Err(SqlError::new(state::NOT_SUPPORTED, text).hint("leave it out, or say cold"));
        }
        let mut rest = format!(
            "ADD VOLUME {} SIZE {}",
            volume(&self.volume)?,
            checked_word(&self.size, "size")?
        );
        if let Some(redundancy) = self.redundancy {
            rest.push_str(&format!(" {}", redundancy.word()));
        }
        if let Some(width) = &self.width {
            rest.push_str(&format!(" STRIPE_WIDTH {}", checked_word(width, "size")?));
        }
        if let Some(columns) = self.column {
            rest.push_str(&format!(" STRIPE_COLUMNS {columns}"));
        }
        statement(context, &self.group, &rest)
    }
}

/// Remove a volume, and what is on it.
#[derive(Debug, Args)]
pub(super) struct Voldelete {
    #[arg(short = 'G', value_name = "GROUP")]
    group: String,
    volume: String,
}

impl Run for Voldelete {
    fn run(&self, context: &mut Context) -> Result<()> {
        statement(context, &self.group, &format!("DROP VOLUME {}", volume(&self.volume)?))
    }
}

/// Give a volume another size.
#[derive(Debug, Args)]
pub(super) struct Volresize {
    #[arg(short = 'G', value_name = "GROUP")]
    group: String,
    /// As in 10G.
    #[arg(short, value_name = "SIZE")]
    size: String,
    /// Also a smaller one, without asking.
    #[arg(short)]
    force: bool,
    volume: String,
}

impl Run for Volresize {
    fn run(&self, context: &mut Context) -> Result<()> {
        let (name, size) = (volume(&self.volume)?, checked_word(&self.size, "size")?);
        // The question is for a volume that is there.
        let number = context.group_number(&group_name(&self.group)?)?;
        let found = context.query(&format!(
            "SELECT 1 FROM v$asm_volume WHERE group_number = {number} AND upper(volume_name) = {}",
            quoted(&name)
        ))?;
        if found.rows.is_empty() {
            return Err(no_volume(Some(&self.group), &name));
        }
        if !self.force
            && !context.sure(&format!(
                "What lies behind {size} of volume {name} may be lost. Are you sure?"
            ))?
        {
            return Ok(());
        }
        statement(context, &self.group, &format!("RESIZE VOLUME {name} SIZE {size}"))
    }
}

/// Note what a volume is for.
#[derive(Debug, Args)]
pub(super) struct Volset {
    #[arg(short = 'G', value_name = "GROUP")]
    group: String,
    #[arg(long, value_name = "TEXT")]
    usagestring: Option<String>,
    #[arg(long, value_name = "PATH")]
    mountpath: Option<String>,
    volume: String,
}

impl Run for Volset {
    fn run(&self, context: &mut Context) -> Result<()> {
        let usage = clause("USAGE", self.usagestring.as_deref());
        let path = clause("MOUNTPATH", self.mountpath.as_deref());
        if usage.is_empty() && path.is_empty() {
            return Err(SqlError::new(state::SYNTAX, "nothing to change")
                .hint("--usagestring or --mountpath say what"));
        }
        statement(
            context,
            &self.group,
            &format!("MODIFY VOLUME {}{path}{usage}", volume(&self.volume)?),
        )
    }
}

/// Arguments that select volumes: one, all of a group, or all.
#[derive(Debug, Args)]
struct Which {
    #[arg(short = 'G', value_name = "GROUP", required_unless_present = "all")]
    group: Option<String>,
    /// All volumes, of the group if one is said.
    #[arg(short, long, conflicts_with = "volume", required_unless_present = "volume")]
    all: bool,
    volume: Option<String>,
}

impl Which {
    fn switch(&self, context: &Context, verb: &str) -> Result<()> {
        let group = self.group.as_deref().map_or_else(|| Ok("ALL".to_owned()), group_name)?;
        let volume = self.volume.as_deref().map_or_else(|| Ok("ALL".to_owned()), volume)?;
        context.statement(&format!("ALTER DISKGROUP {group} {verb} VOLUME {volume}"))
    }

    fn condition(&self, context: &Context) -> Result<String> {
        let mut conditions = vec!["1".to_owned()];
        if let Some(group) = &self.group {
            conditions
                .push(format!("v.group_number = {}", context.group_number(&group_name(group)?)?));
        }
        if let Some(volume) = &self.volume {
            conditions.push(format!("upper(v.volume_name) = {}", quoted(&volume.to_uppercase())));
        }
        Ok(conditions.join(" AND "))
    }
}

/// Let volumes be used.
#[derive(Debug, Args)]
pub(super) struct Volenable {
    #[command(flatten)]
    which: Which,
}

impl Run for Volenable {
    fn run(&self, context: &mut Context) -> Result<()> {
        self.which.switch(context, "ENABLE")
    }
}

/// Let volumes not be used any more.
#[derive(Debug, Args)]
pub(super) struct Voldisable {
    #[command(flatten)]
    which: Which,
}

impl Run for Voldisable {
    fn run(&self, context: &mut Context) -> Result<()> {
        self.which.switch(context, "DISABLE")
    }
}

/// Say what there is to say of volumes.
#[derive(Debug, Args)]
pub(super) struct Volinfo {
    #[command(flatten)]
    which: Which,
    /// As asmcmd has it: refused, a volume has no device.
    #[arg(long = "show_diskgroup", value_name = "DEVICE", hide = true, value_parser = no_device)]
    show_diskgroup: Option<String>,
    #[arg(long = "show_volume", value_name = "DEVICE", hide = true, value_parser = no_device)]
    show_volume: Option<String>,
}

/// The parser's refusal, before it misses other arguments.
fn no_device(_: &str) -> std::result::Result<String, String> {
    Err("no volume has a device; volinfo --all lists volumes, nbd exports them".to_owned())
}

/// The description of each volume, line by line, as `asmcmd` prints it.
fn described(table: &Table) -> String {
    let mut text = String::new();
    let mut last = None;
    for row in &table.rows {
        for (column, value) in table.columns.iter().zip(row) {
            let value = super::table::text(value);
            if column.name == "Diskgroup Name" {
                if last.as_ref() != Some(&value) {
                    text.push_str(&format!("Diskgroup Name: {value}\n\n"));
                    last = Some(value);
                }
            } else {
                text.push_str(&format!("\t {}: {value}\n", column.name));
            }
        }
        text.push('\n');
    }
    text
}

impl Run for Volinfo {
    fn run(&self, context: &mut Context) -> Result<()> {
        let found = context.query(&format!(
            "SELECT g.name AS \"Diskgroup Name\", v.volume_name AS \"Volume Name\",
                v.volume_device AS \"Volume Device\", v.state AS \"State\", v.size_mb AS \"Size (MB)\",
                v.resize_unit_mb AS \"Resize Unit (MB)\", v.redundancy AS \"Redundancy\",
                v.stripe_columns AS \"Stripe Columns\", v.stripe_width_k AS \"Stripe Width (K)\",
                v.usage AS \"Usage\", v.mountpath AS \"Mountpath\"
             FROM v$asm_volume v JOIN v$asm_diskgroup_stat g ON g.group_number = v.group_number
             WHERE {} ORDER BY g.name, v.volume_name",
            self.which.condition(context)?
        ))?;
        if let Some(name) = self.which.volume.as_deref().filter(|_| found.rows.is_empty()) {
            return Err(no_volume(self.which.group.as_deref(), name));
        }
        if context.json {
            context.show(&found, Headings::default());
        } else if found.rows.is_empty() {
            context.say("no volumes found");
        } else {
            super::print(&described(&found));
        }
        Ok(())
    }
}

/// Count the I/O of volumes.
#[derive(Debug, Args)]
pub(super) struct Volstat {
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    #[command(flatten)]
    headings: Headings,
    volume: Option<String>,
}

impl Run for Volstat {
    fn run(&self, context: &mut Context) -> Result<()> {
        let group = match &self.group {
            Some(group) => {
                format!("v.group_number = {}", context.group_number(&group_name(group)?)?)
            }
            None => "1".to_owned(),
        };
        let listed = context.query(&format!(
            "SELECT g.name AS DISKGROUP, v.volume_name AS VOLUME_NAME, v.reads AS READS,
                v.bytes_read AS BYTES_READ, v.read_time AS READ_TIME, v.read_errs AS READ_ERRS,
                v.writes AS WRITES, v.bytes_written AS BYTES_WRITTEN, v.write_time AS WRITE_TIME,
                v.write_errs AS WRITE_ERRS
             FROM v$asm_volume_stat v JOIN v$asm_diskgroup_stat g ON g.group_number = v.group_number
             WHERE {group} AND {} ORDER BY g.name, v.volume_name",
            like_or_all("v.volume_name", self.volume.as_deref())
        ))?;
        if let Some(name) = only_name(self.volume.as_deref()).filter(|_| listed.rows.is_empty()) {
            return Err(no_volume(self.group.as_deref(), name));
        }
        context.show(&listed, self.headings);
        Ok(())
    }
}
