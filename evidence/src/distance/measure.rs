//! Log writes, measured: one after the other, each durable before the next begins.
//!
//! A round has a few writes of each size to each target. Every second round goes the other way
//! round, so that a device that gets slower or faster does so for all of them alike; the first one
//! is not counted. Bytes cannot be compressed, and no two blocks are equal.

use super::{
    Cell, Measured, Target, VERSION, amounts, quantile,
    target::{Aligned, Region},
};
use plinth_workload::random::Random;
use std::{
    net::{TcpStream, ToSocketAddrs as _},
    time::{Duration, Instant},
};

/// Writes of a size in one round, at most; rounds, if there are enough writes; and the fewest of a
/// measurement that was interrupted.
const BATCH_MAX: usize = 20;
const ROUNDS: usize = 50;
const ROUNDS_MIN: usize = 5;

/// Connections of which the round-trip time is the median.
const CONNECTIONS: usize = 51;
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(5);

/// A target, and its round-trip time in nanoseconds (0 for a local one).
#[derive(Debug)]
pub struct Goal<'a> {
    pub name: String,
    pub region: &'a Region,
    pub rtt: f64,
}

/// `writes` of each size to each target, or fewer if it is stopped: then the rounds so far.
///
/// # Errors
/// In one sentence: the write that failed, or that it was stopped too early.
pub fn measure(
    goals: &[Goal<'_>],
    sizes: &[u64],
    writes: usize,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Measured, String> {
    let batch = (writes / ROUNDS).clamp(1, BATCH_MAX);
    let rounds = writes.div_ceil(batch);
    let mut order: Vec<(usize, usize)> = Vec::new();
    for size in 0..sizes.len() {
        order.extend((0..goals.len()).map(|goal| (goal, size)));
    }
    let mut samples = vec![Samples::default(); order.len()];
    let mut writers: Vec<Writer<'_>> = goals.iter().map(|goal| Writer::new(goal.region)).collect();
    'rounds: for round in 0..=rounds {
        // A round that has not ended does not count.
        let mut times = vec![Vec::with_capacity(batch); order.len()];
        for step in 0..order.len() {
            let at = if round % 2 == 0 { step } else { order.len() - 1 - step };
            let Some(&(goal, size)) = order.get(at) else { continue };
            let (Some(writer), Some(&size)) = (writers.get_mut(goal), sizes.get(size)) else {
                continue;
            };
            for _ in 0..batch {
                if is_stopped() {
                    break 'rounds;
                }
                if let Some(times) = times.get_mut(at) {
                    times.push(writer.write(size)?);
                }
            }
        }
        if round > 0 {
            samples.iter_mut().zip(times).for_each(|(samples, times)| samples.add(times));
        }
    }
    if samples.iter().any(|samples| samples.rounds.len() < ROUNDS_MIN.min(rounds)) {
        return Err("interrupted before enough was measured".to_owned());
    }
    let mut targets: Vec<Target> = goals
        .iter()
        .map(|goal| Target { name: goal.name.clone(), rtt: goal.rtt, cells: Vec::new() })
        .collect();
    for ((goal, size), samples) in order.into_iter().zip(samples) {
        if let (Some(target), Some(&size)) = (targets.get_mut(goal), sizes.get(size)) {
            target.cells.push(samples.cell(size));
        }
    }
    Ok(Measured { version: VERSION, targets })
}

/// The times of one size and target, in nanoseconds.
#[derive(Debug, Clone, Default)]
struct Samples {
    all: Vec<f64>,
    rounds: Vec<f64>,
}

impl Samples {
    fn add(&mut self, mut took: Vec<f64>) {
        self.all.extend(&took);
        took.sort_unstable_by(f64::total_cmp);
        self.rounds.push(quantile(&took, 0.5));
    }

    fn cell(mut self, size: u64) -> Cell {
        self.all.sort_unstable_by(f64::total_cmp);
        Cell {
            size,
            writes: self.all.len() as u64,
            median: quantile(&self.all, 0.5),
            p25: quantile(&self.all, 0.25),
            p75: quantile(&self.all, 0.75),
            p99: quantile(&self.all, 0.99),
            rounds: self.rounds,
            rounding: 0.0,
        }
    }
}

/// Writes one target's region from begin to end, and again.
struct Writer<'a> {
    region: &'a Region,
    bytes: Aligned,
    random: Random,
    at: u64,
    count: u64,
}

impl<'a> Writer<'a> {
    fn new(region: &'a Region) -> Self {
        Self { region, bytes: Aligned::new(0), random: Random::new(1), at: 0, count: 0 }
    }

    /// Nanoseconds that a write of `size` bytes took.
    fn write(&mut self, size: u64) -> Result<f64, String> {
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        if self.bytes.get().len() < length {
            self.bytes = Aligned::new(length);
            self.random.fill(self.bytes.get_mut());
        }
        let bytes = self.bytes.get_mut().get_mut(..length).unwrap_or_default();
        for block in bytes.chunks_exact_mut(512) {
            self.count += 1;
            for (byte, number) in block.iter_mut().zip(self.count.to_le_bytes()) {
                *byte = number;
            }
        }
        if self.at.saturating_add(size) > self.region.length {
            self.at = 0;
        }
        let began = Instant::now();
        let written = self.region.write(bytes, self.at);
        let took = began.elapsed();
        written.map_err(|error| {
            format!("{}: a log write of {size} bytes failed: {error}", self.region.path().display())
        })?;
        self.at += size;
        Ok(took.as_nanos() as f64)
    }
}

/// `0.5ms`, or `tcp:HOST:PORT`: the time in which a connection is made, which is one round trip.
/// Nanoseconds.
///
/// # Errors
/// In one sentence.
pub fn round_trip(text: &str) -> Result<f64, String> {
    let Some(address) = text.strip_prefix("tcp:") else {
        let rtt = amounts::time(text)?;
        return if rtt > 0.0 {
            Ok(rtt)
        } else {
            Err(format!("the round-trip time '{text}' has to be above 0"))
        };
    };
    let failed = |error: std::io::Error| format!("{address}: cannot connect to it: {error}");
    let to = address
        .to_socket_addrs()
        .map_err(failed)?
        .next()
        .ok_or_else(|| format!("{address}: it has no address"))?;
    let mut took = Vec::new();
    for _ in 0..CONNECTIONS {
        let began = Instant::now();
        let connected = TcpStream::connect_timeout(&to, CONNECTION_TIME_MAX);
        took.push(began.elapsed().as_nanos() as f64);
        connected.map_err(failed)?;
    }
    took.sort_unstable_by(f64::total_cmp);
    Ok(quantile(&took, 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_is_a_time_or_a_connection() {
        assert_eq!(round_trip("0.5ms"), Ok(500_000.0));
        assert!(round_trip("0ms").is_err());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        assert!(round_trip(&format!("tcp:{address}")).expect("connected") > 0.0);
        drop(listener);
        let error = round_trip(&format!("tcp:{address}")).expect_err("it is closed");
        assert!(error.contains(&address.to_string()), "{error}");
    }
}
