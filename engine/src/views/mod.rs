//! Rows of the views that tell of the moment.

pub(crate) mod live;
pub(crate) mod live_stats;
pub(crate) mod query;
pub mod rows;
