//! Which disks count: the decision at a mount, and the records on the voters.

pub(crate) mod arrival;
pub mod mount_decision;
pub(crate) mod voters;
pub(crate) mod wrong_metadata;
