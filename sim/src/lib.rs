//! A simulator that tries to make the engine lose data. One seed is one history.
//!
//! ```text
//!   main        the command line      farm       many histories, in processes of their own
//!   plan        what a history is made of, by a seed or from a file      shrink     less of it that fails as well
//!   history     the story: the groups of a host, from their creation to the last look at them
//!   misfortune  what goes wrong       sight      what a mount finds          hostile    bytes that look right
//!   coverage    what met what         aim        the state in which a step is to meet a group
//!   tenant      a disk group: its disks, engine, clients
//!   client      what a database does  style      how often it does what      model      what a reader may see
//!   scenario    stories, in the words of the field: sim/tests/scenarios
//!   world       the host, as a process sees it
//!   disk        a disk that takes its time, and does wrong
//!   executor    one thread, virtual time, every task by a draw
//!   planted     mistakes made on purpose, which must be found
//! ```

pub mod add_drop;
mod aim;
pub mod client;
pub mod coverage;
pub mod disk;
pub mod executor;
mod faults;
pub mod history;
mod hostile;
pub mod model;
pub mod operations;
pub mod plan;
pub mod planted;
pub mod runner;
pub mod scenario;
pub mod shrink;
pub mod sim_group;
mod visibility;
pub mod world;
