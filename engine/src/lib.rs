//! Catalog, space, placement, data path, activity log: all that can lose data.
pub mod admin;
pub mod api;
pub mod buffer;
pub mod catalog;
pub mod choose;
pub mod completion;
pub mod error;
pub mod event;
pub mod files;
pub mod group;
pub mod space;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod world;
