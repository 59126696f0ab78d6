//! `upgrade`: moves disk groups to engines of the program that is installed now, while they are
//! used.

use super::{
    Result,
    context::{Context, Run, group_name},
    print,
};
use clap::Args;

/// Have a new engine, of the program that is installed now, take disk groups over while they are
/// used.
#[derive(Debug, Args)]
pub(super) struct Upgrade {
    /// Disk groups.
    #[arg(value_name = "GROUP", required = true)]
    groups: Vec<String>,
}

impl Run for Upgrade {
    fn run(&self, context: &mut Context) -> Result<()> {
        for group in &self.groups {
            let group = group_name(group)?;
            let told = context.instance()?.upgrade(&group)?;
            print(&format!("{group}: {told}\n"));
        }
        Ok(())
    }
}
