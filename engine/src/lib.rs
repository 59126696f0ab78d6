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

mod absent;
mod access;
pub mod activity;
pub mod admin;
pub mod api;
mod arrival;
pub mod attributes;
pub mod balance;
mod bits;
mod blocks;
pub mod buffer;
#[cfg(test)]
mod cases;
pub mod catalog;
mod catalog_mirrors;
mod check;
pub mod check_files;
mod check_missing;
mod check_progress;
mod check_space;
pub mod choose;
mod coming;
pub mod completion;
mod convert;
mod copy;
mod counters;
mod create;
mod discards;
mod disks;
mod disputes;
pub mod doubt;
mod drop_force;
pub mod error;
pub mod event;
mod explain;
mod explore;
mod extent;
mod extents;
mod file_io;
mod file_read;
mod file_stats;
pub mod files;
pub mod findings;
mod flight;
pub mod group;
pub mod habit;
mod handoff;
mod headers;
mod health;
pub mod identify;
mod in_flight;
mod latch;
#[cfg(feature = "testing")]
pub mod limits;
#[cfg(not(feature = "testing"))]
mod limits;
mod live;
mod live_stats;
pub mod lock;
mod look;
mod member;
mod members;
mod mended;
mod mirror_sets;
mod mount;
mod move_waits;
mod mover;
mod named;
mod originals;
pub mod overlay;
mod own_metadata;
mod pace;
mod part;
mod part_blocks;
pub mod placement;
#[cfg(feature = "testing")]
pub mod planted;
#[cfg(not(feature = "testing"))]
mod planted;
mod pooled;
mod preferred;
mod progress;
mod query;
mod ranges;
#[cfg(feature = "testing")]
pub mod reached;
#[cfg(not(feature = "testing"))]
mod reached;
mod read_policy;
mod rebalance;
mod reclaim;
mod recovery;
mod reminders;
mod rename;
pub mod rename_group;
mod repair_time;
mod repairs;
mod replace;
mod resize;
mod resync;
pub mod rows;
mod safe_space;
pub mod scrub;
pub mod session;
mod slots;
mod slow;
pub mod space;
mod stale;
mod store;
#[cfg(test)]
mod stories;
mod stripes;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timings;
pub mod transfer;
mod troubles;
mod turns;
mod volume;
mod voters;
pub mod words;
pub mod world;
