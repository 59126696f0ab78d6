//! Shared by the programs that drive the engine as a library.

pub mod group;
