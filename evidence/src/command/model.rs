//! `plinth load model`.

use super::Failure;
use clap::Args;
use std::io::Write;

/// Read reports and make a model of the load.
#[derive(Debug, Clone, Args)]
pub struct Model {}

impl Model {
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let _ = out;
        Err(Failure::usage("not yet"))
    }
}
