//! `load`: the load on storage measured, modelled and compared. It is of the crate
//! `plinth-evidence`, and needs no instance.

use super::{
    Result,
    context::{Context, Run},
};
use clap::Args;
use std::io;

/// Measure, model and compare the load on storage, with or without a disk group.
#[derive(Debug, Args)]
pub(super) struct Load {
    #[command(subcommand)]
    what: plinth_evidence::command::Load,
}

impl Run for Load {
    fn run(&self, context: &mut Context) -> Result<()> {
        // Not locked: a load that runs draws from a thread of its own.
        context.status = self.what.code(&mut io::stdout());
        Ok(())
    }
}
