//! `plinth load compare`.

use super::Failure;
use clap::Args;
use std::io::Write;

/// Compare runs in a table and on one page.
#[derive(Debug, Clone, Args)]
pub struct Compare {}

impl Compare {
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let _ = out;
        Err(Failure::usage("not yet"))
    }
}
