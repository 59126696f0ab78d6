//! The engine process: one mounted group, its front ends, and the socket by which the instance
//! speaks to it.
//!
//! ```text
//!   instance --starts--> plinth engine: waits --Create--> waits --Mount--> mounted --Dismount-,
//!                                         |                 |                        or Drop  |
//!                                         +-----------------+- no request for a minute,       |
//!                                                              or mounting fails --------> exits
//! ```
//!
//! It is in a session of its own, so that it outlives the instance. Every connection has a thread,
//! so that a long request does not hold up others. The alert log is written here, with or without
//! an instance.

pub mod client;
mod clients;
pub mod exports;
mod files;
mod find;
mod keeping;
mod process;
pub mod protocol;
mod this_thread;

pub use process::{Options, run};
