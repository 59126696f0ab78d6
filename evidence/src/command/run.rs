//! `plinth load run`.

use super::Failure;
use clap::Args;
use std::io::Write;

/// Issue the load of a model to targets, and measure it.
#[derive(Debug, Clone, Args)]
pub struct Run {}

impl Run {
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let _ = out;
        Err(Failure::usage("not yet"))
    }
}
