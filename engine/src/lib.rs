//! Catalog, space, placement, data path, activity log: all that can lose data.
//!
//! The engine has no clock, thread, socket or file of its own: see [`world`].
//!
//! ```text
//!   session   what front ends call           group     what operators call
//!      |                                        |
//!   files     names and attributes           mount, resync, recovery, check
//!   file_read, file_io   reads; writes, syncs   |
//!      |                                        |
//!   extents   where a file's bytes are       choose    which membership, which disk counts
//!   blocks    blocks on all mirrors          voters    recording memberships and stamps
//!   activity  where writes are under way     store     the catalog on disks
//!      |                                        |
//!   member    one disk: I/O, deadline        catalog   SQLite on the store
//! ```

pub mod admin;
pub mod api;
pub mod catalog;
pub mod check;
pub mod completion;
pub mod disk;
pub mod error;
pub mod event;
pub mod extent;
pub mod files;
pub mod group;
#[cfg(feature = "testing")]
pub mod limits;
#[cfg(not(feature = "testing"))]
mod limits;
pub mod membership;
pub mod movement;
#[cfg(feature = "testing")]
pub mod planted;
#[cfg(not(feature = "testing"))]
mod planted;
#[cfg(feature = "testing")]
pub mod reached;
#[cfg(not(feature = "testing"))]
mod reached;
#[cfg(test)]
mod rooms;
pub mod space;
#[cfg(test)]
mod stories;
pub mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod views;
pub mod words;
pub mod world;
