//! `setattr`, `dsget`, `dsset`: settings of a group and of the instance.

use super::{
    Result,
    context::{Context, Headings, Run, group_name, quoted},
    table,
};
use crate::{
    query::{Column, Table, views::Type},
    sql_error::{SqlError, state},
};
use clap::Args;
use plinth_engine::admin::Value;

/// Set an attribute of a disk group.
#[derive(Debug, Args)]
pub(super) struct Setattr {
    #[arg(short = 'G', value_name = "GROUP")]
    group: String,
    name: String,
    value: String,
}

impl Run for Setattr {
    fn run(&self, context: &mut Context) -> Result<()> {
        let group = group_name(&self.group)?;
        let (name, value) = (quoted(&self.name), quoted(&self.value));
        context.statement(&format!("ALTER DISKGROUP {group} SET ATTRIBUTE {name} = {value}"))
    }
}

/// A setting of the instance, as text.
pub(super) fn setting(context: &Context, name: &str) -> Result<String> {
    let found = context.query(&format!("SHOW {name}"))?;
    let value = found.rows.first().and_then(|row| row.first());
    value
        .map(table::text)
        .ok_or_else(|| SqlError::new(state::INTERNAL, format!("{name} has no value")))
}

/// Prints `name:value` lines, or one object in an array.
pub(super) fn tell(context: &Context, pairs: &[(&str, String)], separator: &str) {
    if context.json {
        let column = |name: &str| Column { name: name.to_owned(), kind: Type::Text };
        let columns = pairs.iter().map(|(name, _)| column(name)).collect();
        let rows = vec![pairs.iter().map(|(_, value)| Value::Text(value.clone())).collect()];
        context.show(&Table { columns, rows }, Headings::default());
        return;
    }
    let longest = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let width = if separator.contains(' ') { longest } else { 0 };
    for (name, value) in pairs {
        context.say(format!("{name:width$}{separator}{value}"));
    }
}

/// Say where disks are looked for.
#[derive(Debug, Args)]
pub(super) struct Dsget {
    /// The value in use and the one that is remembered: always the same here.
    #[arg(long, conflicts_with_all = ["profile", "parameter"])]
    normal: bool,
    /// The one that is remembered.
    #[arg(long, conflicts_with = "parameter")]
    profile: bool,
    /// As asmcmd has it: there is no other instance that could differ.
    #[arg(short, requires = "profile", hide = true)]
    force: bool,
    /// The value in use.
    #[arg(long)]
    parameter: bool,
}

impl Run for Dsget {
    fn run(&self, context: &mut Context) -> Result<()> {
        let value = setting(context, "asm_diskstring")?;
        let mut pairs = Vec::new();
        if !self.profile {
            pairs.push(("parameter", value.clone()));
        }
        if !self.parameter {
            pairs.push(("profile", value));
        }
        tell(context, &pairs, ":");
        Ok(())
    }
}

/// Say where disks shall be looked for; at once, and remembered.
#[derive(Debug, Args)]
pub(super) struct Dsset {
    /// As asmcmd has it; here the value in use is the one that is remembered.
    #[arg(long)]
    normal: bool,
    #[arg(long, hide = true, conflicts_with = "normal")]
    profile: bool,
    #[arg(long, hide = true, conflicts_with_all = ["normal", "profile"])]
    parameter: bool,
    #[arg(short, requires = "profile", hide = true)]
    force: bool,
    /// Patterns, with commas between.
    diskstring: String,
}

impl Run for Dsset {
    fn run(&self, context: &mut Context) -> Result<()> {
        let patterns: Vec<String> =
            self.diskstring.split(',').map(|pattern| quoted(pattern.trim())).collect();
        context.statement(&format!("ALTER SYSTEM SET asm_diskstring = {}", patterns.join(", ")))
    }
}
