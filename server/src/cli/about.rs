//! `showversion`, `showpatches`, `showclustermode`, `showclusterstate`: what the instance is, in
//! the lines that `asmcmd` prints of it.
//!
//! There is one instance and no cluster, and a version has no patches of its own.

use super::{
    Result,
    context::{Context, Headings, Run},
    settings::{setting, tell},
};
use crate::query::{Column, Table, views::Type};
use clap::Args;

/// Say the version of the instance.
#[derive(Debug, Args)]
pub(super) struct Showversion {
    /// The version in use: that of the instance, as without a flag.
    #[arg(long)]
    active: bool,
    /// With the patches of the program that is installed: there are none.
    #[arg(long)]
    softwarepatch: bool,
    /// With the patches of the release: there are none.
    #[arg(long)]
    releasepatch: bool,
}

impl Run for Showversion {
    fn run(&self, context: &mut Context) -> Result<()> {
        let mut pairs = vec![("Plinth version", setting(context, "plinth.version")?)];
        if self.softwarepatch {
            pairs.push(("Software patchlevel", "0".to_owned()));
        }
        if self.releasepatch {
            pairs.push(("Release patchlevel", "0".to_owned()));
        }
        tell(context, &pairs, " : ");
        Ok(())
    }
}

/// List the patches of the instance's program: there are none.
#[derive(Debug, Args)]
pub(super) struct Showpatches {
    /// With the patch level, as a sentence.
    #[arg(short)]
    level: bool,
    /// With the version that they would be of.
    #[arg(short = 'V')]
    version: bool,
}

impl Run for Showpatches {
    fn run(&self, context: &mut Context) -> Result<()> {
        let version = setting(context, "plinth.version")?;
        if context.json {
            let columns = vec![Column { name: "Patch".to_owned(), kind: Type::Text }];
            context.show(&Table { columns, rows: Vec::new() }, Headings::default());
            return Ok(());
        }
        if self.version {
            context.say(format!("Plinth version : {version}"));
        }
        if self.level {
            context.say(format!(
                "Plinth release patch level is [0] and no patches have been applied on the local node. \
                 The release patch string is [{version}]."
            ));
            return Ok(());
        }
        let lines = ["-".repeat(15), "List of Patches".to_owned(), "=".repeat(15)];
        lines.iter().for_each(|line| context.say(line));
        Ok(())
    }
}

/// Say whether the instance is one of a cluster: it never is.
#[derive(Debug, Args)]
pub(super) struct Showclustermode {}

impl Run for Showclustermode {
    fn run(&self, context: &mut Context) -> Result<()> {
        drop(context.instance()?);
        tell(context, &[("ASM cluster", "Flex mode disabled".to_owned())], " : ");
        Ok(())
    }
}

/// Say whether instances are being upgraded one after the other: there is one, so it is Normal.
#[derive(Debug, Args)]
pub(super) struct Showclusterstate {}

impl Run for Showclusterstate {
    fn run(&self, context: &mut Context) -> Result<()> {
        drop(context.instance()?);
        if context.json {
            tell(context, &[("State", "Normal".to_owned())], "");
        } else {
            context.say("Normal");
        }
        Ok(())
    }
}
