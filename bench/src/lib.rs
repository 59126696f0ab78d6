//! What the programs that drive the engine as a library have in common.

pub mod group;
