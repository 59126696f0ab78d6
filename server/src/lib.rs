//! The `plinth` binary: real disks and rings, engine and instance processes, SQL, the command line.

pub mod alert;
pub mod cli;
pub mod engine;
pub mod frames;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod instance;
mod manners;
pub mod paths;
mod process;
pub mod refusal;
pub mod sql;
mod users;
pub mod world;
