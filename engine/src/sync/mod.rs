//! What threads and tasks share: locks, queues, range locks, pools, buffers.

pub(crate) mod bits;
pub mod buffer;
pub(crate) mod handoff;
pub(crate) mod latch;
pub mod lock;
pub(crate) mod named;
pub(crate) mod pooled;
pub(crate) mod ranges;
pub mod transfer;
pub(crate) mod turns;
