//! Rows of the views that tell of the moment.

pub(crate) mod live;
pub(crate) mod live_stats;
pub(crate) mod missing_mirrors;
pub(crate) mod query;
