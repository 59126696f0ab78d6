//! `plinth load distance`.

use super::Failure;
use clap::Args;
use std::io::Write;

/// Measure a log write and compute what distance costs.
#[derive(Debug, Clone, Args)]
pub struct Distance {}

impl Distance {
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let _ = out;
        Err(Failure::usage("not yet"))
    }
}
