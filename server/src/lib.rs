//! The plinth binary's parts: real disks and rings, processes, SQL.

pub mod world;
