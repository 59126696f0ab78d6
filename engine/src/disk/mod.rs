//! One disk: its I/O and deadlines, counters and errors, discovery, and its header.

pub(crate) mod counters;
pub(crate) mod disk_errors;
pub(crate) mod disk_io;
pub(crate) mod full;
pub(crate) mod headers;
pub(crate) mod health;
pub mod identify;
pub mod labels;
pub(crate) mod look;
pub(crate) mod member;
pub(crate) mod members;
pub(crate) mod mended;
pub(crate) mod originals;
pub(crate) mod outstanding;
pub mod overlay;
pub(crate) mod read_policy;
pub(crate) mod slow;
pub(crate) mod taken;
pub(crate) mod timings;
