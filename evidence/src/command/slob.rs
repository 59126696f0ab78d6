//! `plinth load slob`.

use super::Failure;
use clap::Args;
use std::io::Write;

/// Issue a database's random I/O with SLOB's parameters.
#[derive(Debug, Clone, Args)]
pub struct Slob {}

impl Slob {
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let _ = out;
        Err(Failure::usage("not yet"))
    }
}
