//! One vocabulary of workloads, for the evidence (`plinth load`), the simulator, the whole-system
//! tests and the benchmarks.
//!
//! A workload is data: a [`class::Class`] is a stream of I/O of one kind, a [`profile::Profile`] is
//! a program as the operations that it does and how often. All that is not data follows from a
//! seed, so that a run can be repeated and its bytes can be verified.
//!
//! ```text
//!   class      kind, sizes, order, syncs, rate, depth of a stream of I/O; a generator of I/Os
//!   profile    operations on files and their weights; files and sizes
//!   pattern    bytes that follow from a number, and their verification after a crash
//!   random     numbers by a seed
//!   lock       locks that ignore poison
//! ```
//!
//! Three programs use it, each with its own source of numbers:
//!
//! 1. The benchmarks (`bench/src/load.rs`) take the I/Os of a class from [`class::Generator`].
//! 2. The tests (`tests/src/loads.rs`) take sizes and patterns; what an operation writes follows
//!    from its number alone, so that it can be computed again after a crash.
//! 3. The simulator (`sim/src/client.rs`) takes profiles, and draws with its own generator: what a
//!    client does next depends on its model of what it has done, and one number more or less would
//!    change every history. So functions that draw are given the draw by their caller
//!    ([`random::weighted`], [`class::Sync::is_due`]).
//!
//! Invariants:
//!
//! 1. Equal seeds give equal numbers, on every host and in every version: histories that failed
//!    once are kept as seeds (`sim/tests/histories`).
//! 2. A weight of zero draws nothing.

pub mod class;
pub mod lock;
pub mod pattern;
pub mod profile;
pub mod random;

pub use lock::lock;
