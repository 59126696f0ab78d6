//! `mkdg`, `chdg`, `dropdg`: make, change and drop disk groups.

use super::{
    Result,
    context::{Context, Run, group_name},
    watch::Watch,
    xml,
};
use crate::sql_error::SqlError;
use clap::Args;
use std::{borrow::Cow, fs};

/// The XML of an argument: it is the XML, or names a file.
fn text(argument: &str) -> Result<Cow<'_, str>> {
    if argument.trim_start().starts_with('<') {
        return Ok(Cow::Borrowed(argument));
    }
    match fs::read_to_string(argument) {
        Ok(text) => Ok(Cow::Owned(text)),
        Err(error) => Err(SqlError::new("58030", format!("{argument}: {error}"))),
    }
}

/// Make a disk group, from XML.
#[derive(Debug, Args)]
pub(super) struct Mkdg {
    /// A file, or the XML itself: <dg name="data" redundancy="normal"> ... </dg>.
    xml: String,
}

impl Run for Mkdg {
    fn run(&self, context: &mut Context) -> Result<()> {
        context.statement(&xml::make(&text(&self.xml)?)?)
    }
}

/// Change a disk group, from XML.
#[derive(Debug, Args)]
pub(super) struct Chdg {
    /// A file, or the XML itself: <chdg name="data" power="3"> ... </chdg>.
    xml: String,
}

impl Run for Chdg {
    fn run(&self, context: &mut Context) -> Result<()> {
        let statements = xml::change(&text(&self.xml)?)?;
        let _watch = Watch::begin(&context.paths);
        statements.iter().try_for_each(|statement| context.statement(statement))
    }
}

/// Drop a disk group.
#[derive(Debug, Args)]
pub(super) struct Dropdg {
    /// With all files in it.
    #[arg(short)]
    recursive: bool,
    /// One that cannot be mounted; its files are lost.
    #[arg(short, requires = "recursive")]
    force: bool,
    group: String,
}

impl Run for Dropdg {
    fn run(&self, context: &mut Context) -> Result<()> {
        let group = group_name(&self.group)?;
        let force = if self.force { " FORCE" } else { "" };
        let contents = if self.recursive { " INCLUDING CONTENTS" } else { "" };
        context.statement(&format!("DROP DISKGROUP {group}{force}{contents}"))
    }
}
