//! The parts of a front end that do not depend on its protocol.
//!
//! A front end turns a protocol (FUSE, NBD) into calls of the engine's `Session`. This crate has:
//!
//! ```text
//!   runner.rs    Runner        runs the engine's futures on the calling thread, and waits for
//!                              descriptors beside the thread's disk I/O
//!   block.rs     BlockDevice   a file as a block device; many requests in flight on one thread
//!   exports.rs   Exports       block devices by name; OfferedFiles: files of a group
//!   workers.rs   Workers       worker threads, one of which reads (leader/follower)
//! ```
//!
//! Layers: format < engine < frontend < fuse, nbd < server. Nothing here knows a protocol's bytes.
//!
//! Cost: nothing here allocates memory, takes a lock or calls through a table for a single request,
//! except what a protocol asks for: one call of [`BlockDevice::multiplex`] serves requests for as
//! long as they come, and a worker that keeps the reader role takes no lock.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod block;
pub mod exports;
mod file_device;
pub mod runner;
pub mod workers;

pub use block::{BlockDevice, Completed, IN_FLIGHT_MAX, InlineRequest, RequestSource};
pub use exports::{Exports, NotOpened, Offer, OfferedFiles};
pub use runner::{Runner, Waiting, run};
pub use workers::{Duty, Workers};
