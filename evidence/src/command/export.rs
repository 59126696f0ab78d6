//! `plinth load export`.

use super::Failure;
use clap::Args;
use std::io::Write;

/// Write a model as files of VDBench and fio, or read them back.
#[derive(Debug, Clone, Args)]
pub struct Export {}

impl Export {
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let _ = out;
        Err(Failure::usage("not yet"))
    }
}
