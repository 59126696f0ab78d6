//! A simulator that tries to make the engine lose data. One seed is one history.
//!
//! ```text
//!   main       seeds, processes of their own, reports
//!   history    the story: a group, its clients, its misfortunes
//!   client     what a database does        model    what a reader may see
//!   world      the host, as a process sees it
//!   disk       a disk that takes its time, and does wrong
//!   executor   one thread, virtual time, every task by a draw
//! ```

pub mod client;
pub mod disk;
pub mod executor;
pub mod history;
pub mod model;
pub mod world;
