//! The `plinth` binary: real disks and rings, engine and instance processes, SQL, the command line.

pub mod refusal;
pub mod sql;
pub mod world;
