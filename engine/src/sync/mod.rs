//! Shared by threads and tasks: locks, queues, range locks, pools, buffers.

pub(crate) mod bits;
pub mod buffer;
pub mod lock;
pub(crate) mod named;
pub(crate) mod oneshot;
pub(crate) mod pool;
pub(crate) mod ranges;
pub(crate) mod rwlock;
pub mod transfer;
pub(crate) mod waiters;
