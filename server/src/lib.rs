//! The `plinth` binary: real disks and rings, engine and instance processes, SQL, the command line.

pub mod alert;
pub mod cli;
pub mod engine;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod instance;
pub mod paths;
mod process;
pub mod sql;
pub mod sql_error;
mod users;
