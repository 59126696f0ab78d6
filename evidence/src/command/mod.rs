//! The commands of `plinth load`.
//!
//! Each writes its results to `out`, and what is said beside them to standard error. The exit code
//! is 0, 1 if something was found or failed midway, 2 if the arguments or a file are wrong.

mod compare;
mod distance;
mod export;
mod model;
mod run;
mod signals;
mod slob;

use clap::Subcommand;
use std::{fmt, io, io::Write, process::ExitCode};

/// Measure, model and compare the load on storage.
#[derive(Debug, Clone, Subcommand)]
pub enum Load {
    Model(model::Model),
    Export(export::Export),
    Run(run::Run),
    Slob(slob::Slob),
    Compare(compare::Compare),
    Distance(Box<distance::Distance>),
}

impl Load {
    /// Runs the command and says on standard error why it failed.
    pub fn run(&self, out: &mut dyn Write) -> ExitCode {
        let ended = match self {
            Self::Model(command) => command.run(out),
            Self::Export(command) => command.run(out),
            Self::Run(command) => command.run(out),
            Self::Slob(command) => command.run(out),
            Self::Compare(command) => command.run(out),
            Self::Distance(command) => command.run(out),
        };
        let ended = ended.and_then(|()| out.flush().map_err(Failure::from));
        match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                if !failure.text.is_empty() {
                    eprintln!("plinth load: {failure}");
                }
                ExitCode::from(failure.code)
            }
        }
    }
}

/// Why a command failed, in one sentence that names the remedy.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub text: String,
}

impl Failure {
    /// The arguments or a file are wrong.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { code: 2, text: text.into() }
    }

    /// It failed midway.
    pub fn midway(text: impl Into<String>) -> Self {
        Self { code: 1, text: text.into() }
    }
}

impl From<io::Error> for Failure {
    /// Of the output: a reader that has gone, such as `head`, is no failure to speak of.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self { code: 0, text: String::new() }
        } else {
            Self::midway(format!("standard output: {error}"))
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
