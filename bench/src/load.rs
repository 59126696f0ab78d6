//! A round of a benchmark: the use of its bytes, and its figures.
//!
//! A case is a class of I/O (`plinth_workload::class`), such as `randread:8192:32`.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// The use of bytes that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// None: they may stay wherever the kernel put them, in the cache of another processor.
    Nothing,
    /// Each is read once, as a database does that looks into its blocks.
    AddUp,
}

impl Use {
    pub fn take(self, bytes: &[u8]) {
        if self == Self::AddUp {
            let (words, rest) = bytes.as_chunks::<8>();
            let sum =
                words.iter().fold(0_u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
            black_box(rest.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte))));
        }
    }
}

/// The figures of a round.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// I/Os per second.
    pub rate: f64,
    /// Microseconds of this process for each.
    pub cpu: f64,
    /// Microseconds from the start of one to its end, on average.
    pub wait: f64,
}

/// Counts a round.
pub struct Meter {
    began: Instant,
    worked: Duration,
    until: Instant,
}

fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

impl Meter {
    pub fn start(time: Duration) -> Self {
        let began = Instant::now();
        Self { began, worked: worked(), until: began + time }
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    pub fn stop(&self, done: u64, depth: usize) -> Outcome {
        let (elapsed, worked) = (self.began.elapsed(), worked().saturating_sub(self.worked));
        let done = done.max(1) as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / done;
        Outcome {
            rate: done / elapsed.as_secs_f64(),
            cpu: each(worked),
            wait: each(elapsed) * depth as f64,
        }
    }
}
