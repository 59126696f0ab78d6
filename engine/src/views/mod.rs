//! Rows of the views that show the present state.

pub mod figures;
pub(crate) mod live;
pub(crate) mod live_stats;
pub(crate) mod missing_mirrors;
pub(crate) mod protection;
pub(crate) mod query;
