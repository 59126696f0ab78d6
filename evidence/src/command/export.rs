//! `plinth load export`.

use super::{Failure, model, write_file};
use crate::{export, model::text};
use clap::Args;
use std::{io::Write, path::PathBuf};

/// Write a model as files of VDBench and fio, or read them back.
#[derive(Debug, Clone, Args)]
pub struct Export {
    /// The model, or a report that one is made of.
    #[arg(required_unless_present = "from")]
    pub model: Option<PathBuf>,
    /// Write a parameter file of VDBench.
    #[arg(long, value_name = "FILE")]
    pub vdbench: Option<PathBuf>,
    /// Write a job file of fio.
    #[arg(long, value_name = "FILE")]
    pub fio: Option<PathBuf>,
    /// Read a parameter file of VDBench or a job file of fio, and print its model.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "vdbench", "fio"])]
    pub from: Option<PathBuf>,
    /// Seconds that the files run.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub seconds: u64,
}

impl Export {
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let file = self.from.as_ref().or(self.model.as_ref());
        let file = file.ok_or_else(|| Failure::usage("give a model, or --from FILE"))?;
        let model = model::read_model(file)?;
        if self.from.is_some() {
            out.write_all(text::print(&model).as_bytes())?;
            return Ok(());
        }
        if self.vdbench.is_none() && self.fio.is_none() {
            return Err(Failure::usage("give --vdbench FILE, --fio FILE, or both"));
        }
        let write = |to: &PathBuf, text: String| write_file(to, &[file], &text);
        if let Some(file) = &self.vdbench {
            write(file, export::vdbench(&model, self.seconds))?;
            writeln!(out, "run it with: vdbench -f {} lun=TARGET size=SIZE", file.display())?;
        }
        if let Some(file) = &self.fio {
            write(file, export::fio(&model, self.seconds))?;
            writeln!(
                out,
                "run it with: TARGET=/dev/... fio --output-format=json+ --output=RESULT {}",
                file.display()
            )?;
        }
        Ok(())
    }
}
