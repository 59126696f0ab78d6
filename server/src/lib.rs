//! The `plinth` binary: real disks and rings, engine and instance processes, SQL, the command line.

pub mod alarm;
pub mod alert;
pub mod cli;
pub mod engine;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod http;
pub mod http_address;
pub mod instance;
mod kept;
mod listening;
mod login_failures;
pub mod paths;
pub mod pg;
mod process;
pub mod query;
#[cfg(test)]
mod rooms;
mod scram;
pub mod serve;
pub mod sql;
pub mod sql_error;
mod stdio;
mod text;
pub mod tls;
mod users;
