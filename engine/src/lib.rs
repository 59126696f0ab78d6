//! Catalog, space, placement, data path, activity log: all that can lose data.
//!
//! The engine has no clock, thread, socket or file of its own: see [`world`].
//!
//! Its rooms stand one above the other, and none uses one above it (`rooms.rs`). From `extent` on
//! each has an owner that holds the one below and derefs to it:
//!
//! ```text
//!   group        Group       mounting, dismounting, tasks, statements of operators
//!   views                    rows that tell of the moment
//!   check        Upkeep      checks, scrubs, reminders
//!   movement     Movement    mirrors that move; disks that come, go and return
//!   files        FileSystem  names, attributes, reads, writes, syncs; sessions of front ends
//!   extent       Data        bytes on all mirrors, where writes are in flight, recovery, repairs
//!   catalog                  SQLite on the group's own disks
//!   membership               which membership, which disk counts; recording it
//!   space                    what is free, and which disks get a mirror
//!   disk                     one disk: I/O, deadline, header
//!   (words)                  api, admin, error, event, world: what all of them talk in
//!   sync                     locks, buffers
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
