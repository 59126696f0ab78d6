//! Mirrors that move: rebalances, conversions, resizes, disks that come, go and return; scrubs.

pub(crate) mod absent;
pub(crate) mod convert;
pub(crate) mod disks;
pub(crate) mod explain;
pub(crate) mod mover;
pub(crate) mod progress;
pub(crate) mod rebalance;
pub(crate) mod rename;
pub(crate) mod repair_time;
pub(crate) mod replace;
pub(crate) mod resize;
pub(crate) mod resync;
