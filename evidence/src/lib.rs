//! Evidence: the load of a database on storage as a model, the model as a load on any storage, and
//! what was measured as one page that compares.
//!
//! ```text
//!   report of a database    import/    model         classes of I/O: rate, size, latency
//!   model                   export/    files of VDBench and fio, and back
//!   model + target          issue/     run           histograms and time lines
//!   runs                    compare/   table, JSON, one HTML page
//!   targets                 distance/  overhead, slope and round trips of a log write
//!                           draw/      charts as SVG; the frame of a page
//!                           command/   the commands of `plinth load`
//! ```
//!
//! Nothing here needs a disk group: a target is a device, a file, a directory, an NBD export. The
//! rooms share [`model`], [`run`] and [`buckets`], and of those that write to targets
//! the guard against overwriting (`occupied`) and files that leave nothing behind (`scratch`).

pub mod buckets;
pub mod command;
pub mod compare;
pub mod distance;
pub mod draw;
pub mod export;
pub mod import;
pub mod issue;
pub mod model;
mod occupied;
pub mod run;
mod scratch;
