//! Which disks count: the decision at a mount, and the records that the voters keep.

pub(crate) mod arrival;
pub mod mount_decision;
pub(crate) mod voters;
pub(crate) mod wrong_metadata;
