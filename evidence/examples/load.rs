//! The commands of `plinth load` without the rest of the program, for quick builds.

use clap::Parser;
use plinth_evidence::command::Load;
use std::{io, process::ExitCode};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    load: Load,
}

fn main() -> ExitCode {
    Arguments::parse().load.run(&mut io::stdout().lock())
}
