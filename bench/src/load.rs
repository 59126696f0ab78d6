//! One case of a benchmark, and what came of it.

use std::{
    fmt,
    hint::black_box,
    time::{Duration, Instant},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    RandomRead,
    RandomWrite,
    Read,
    Write,
    /// One write after the other at the end of a log that begins again, each durable before the next.
    Sync,
}

impl Kind {
    const NAMES: [(&str, Self); 5] = [
        ("randread", Self::RandomRead),
        ("randwrite", Self::RandomWrite),
        ("read", Self::Read),
        ("write", Self::Write),
        ("sync", Self::Sync),
    ];

    pub fn reads(self) -> bool {
        matches!(self, Self::RandomRead | Self::Read)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub kind: Kind,
    /// Bytes of one I/O.
    pub block: u64,
    /// I/Os at a time.
    pub depth: usize,
}

impl Case {
    /// `randread:8192:32`
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is no case: KIND:BYTES:DEPTH");
        let words: Vec<&str> = text.split(':').collect();
        let [kind, block, depth] = words[..] else { return Err(wrong()) };
        let (_, kind) = *Kind::NAMES.iter().find(|(name, _)| *name == kind).ok_or_else(wrong)?;
        let (block, depth) =
            (block.parse().map_err(|_| wrong())?, depth.parse().map_err(|_| wrong())?);
        if block == 0 || depth == 0 { Err(wrong()) } else { Ok(Self { kind, block, depth }) }
    }

    /// Where the next I/O goes, in something of `size` bytes; `at` counts I/Os.
    pub fn offset(&self, size: u64, at: u64, state: &mut u64) -> u64 {
        let places = size / self.block;
        let place = match self.kind {
            Kind::RandomRead | Kind::RandomWrite => {
                // SplitMix64.
                *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mut mixed = *state;
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                (mixed ^ (mixed >> 31)) % places
            }
            _ => at % places,
        };
        place * self.block
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) =
            Kind::NAMES.iter().find(|(_, kind)| *kind == self.kind).ok_or(fmt::Error)?;
        write!(f, "{name} {} depth {}", self.block, self.depth)
    }
}

/// What the program does with the bytes that it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It never looks at them: they may stay wherever the kernel put them, in the cache of another processor.
    Nothing,
    /// It reads each of them once, as a database does that wants to know what is in its blocks.
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

/// What a round gave.
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
