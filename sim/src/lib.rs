//! A simulator that tries to make the engine lose data. One seed is one history.
//!
//! ```text
//!   main        the command line
//!   runner      many histories, each in its own process
//!   plan        the plan of a history, by a seed or from a file
//!   shrink      a shorter plan that fails as well
//!   history     the groups of a host, from their creation to the last look at them
//!   faults      injects a fault: one function for each kind
//!   visibility  disks that a mount does not find, or finds changed
//!   hostile     bytes that look right
//!   add_drop    disks added, dropped, replaced; conversions
//!   operations  other statements of an operator
//!   aim         the state in which a step is to meet a group
//!   coverage    the pairs of fault and state that were met
//!   sim_group   a disk group: its disks, engine, clients
//!   client      a program on a group; its profile is one of the crate plinth-workload
//!   model       the states that a reader may see
//!   scenario    stories, in the field's words: sim/tests/stories, sim/tests/scenarios
//!   world       the host, as a process sees it
//!   disk        a disk with a volatile cache, and faults
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
