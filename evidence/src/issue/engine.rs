//! The host as a worker sees it: it transfers, waits, and tells the time.
//!
//! Three are there: io_uring ([`super::ring`]), threads with calls that block ([`super::pool`]),
//! and a fake with a clock of its own for tests.

use std::{
    io,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// A transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Io {
    /// Whose buffer is used.
    pub slot: usize,
    pub target: usize,
    pub offset: u64,
    pub length: usize,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    /// It ends when it is durable.
    DurableWrite,
}

/// A transfer has ended.
#[derive(Debug)]
pub struct Ended {
    pub slot: usize,
    /// Bytes.
    pub result: io::Result<usize>,
}

/// How [`Engine::go`] waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// For a transfer, but not after that time.
    Until(u64),
}

/// See above. Times are nanoseconds since the begin of the run, the same for all workers.
pub trait Engine {
    fn now(&self) -> u64;

    /// The buffer of a slot that is in no transfer.
    fn buffer(&mut self, slot: usize) -> &mut [u8];

    /// Begins a transfer, at the latest with the next call of [`Engine::go`].
    ///
    /// # Errors
    /// If the engine fails, not if the transfer does.
    fn push(&mut self, io: Io) -> io::Result<()>;

    /// Begins all that was pushed, and waits. Adds those that have ended to the list.
    ///
    /// # Errors
    /// If the engine fails, not if a transfer does.
    fn go(&mut self, wait: Wait, ended: &mut Vec<Ended>) -> io::Result<()>;
}

/// The clock of a run.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    #[must_use]
    pub fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Time from now until then.
    #[must_use]
    pub fn until(&self, then: u64) -> Duration {
        Duration::from_nanos(then.saturating_sub(self.now()))
    }
}

/// The sizes of a worker's slots, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    /// Begin and length of each slot's buffer in the worker's memory.
    pub buffers: Vec<(usize, usize)>,
}

impl Slots {
    /// Adds slots of a size, and returns their numbers.
    pub fn add(&mut self, count: usize, size: usize) -> std::ops::Range<usize> {
        let first = self.buffers.len();
        for _ in 0..count {
            let begin = self.bytes();
            // Direct I/O needs aligned memory.
            self.buffers.push((begin, size.next_multiple_of(4096)));
        }
        first..self.buffers.len()
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffers.last().map_or(0, |(begin, length)| begin + length)
    }
}

/// Makes timers of this thread end on time: the kernel may let them be 50 us late otherwise.
pub fn make_timers_exact() {
    static IS_SAID: OnceLock<()> = OnceLock::new();
    let slack = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    if let Err(error) = slack {
        IS_SAID.get_or_init(|| eprintln!("plinth load: timers may be 50 us late: {error}"));
    }
}
