//! When requests are due.
//!
//! The times are fixed before the first request: they follow from rate, seed and number, whatever
//! the target does. A request that is due while the target stops is issued late, and counts from
//! the time at which it was due.
//!
//! [`Arrivals::Spread`] is the default: one request at a random time of each period of 1 / rate. It
//! is irregular, so that it never walks in step with anything in the target; and any stretch of
//! time has its number of requests, give or take one, so that counts, rates and the raggedness of a
//! time line are the target's and not the generator's. [`Arrivals::Poisson`] has bursts as many
//! independent sessions have them: it is for the question of how much queueing a peak brings.

use plinth_workload::random::Random;

/// See above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arrivals {
    #[default]
    Spread,
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Even,
}

/// The due times of one class on one of several threads, ascending, in nanoseconds from the begin.
#[derive(Debug, Clone)]
pub struct Schedule {
    arrivals: Arrivals,
    random: Random,
    /// Nanoseconds between requests of all threads.
    period: f64,
    /// The number of the request among those of all threads, as a step of periods.
    number: f64,
    threads: f64,
    /// Of a Poisson process: the time so far.
    elapsed: f64,
}

impl Schedule {
    /// `rate` is that of all threads, and above 0.
    #[must_use]
    pub fn new(arrivals: Arrivals, rate: f64, thread: usize, threads: usize, seed: u64) -> Self {
        let mut random = Random::new(seed ^ (thread as u64) << 32);
        let phase = if arrivals == Arrivals::Even { unit(&mut random) } else { 0.0 };
        Self {
            arrivals,
            random,
            period: 1e9 / rate,
            number: thread as f64 + phase,
            threads: threads as f64,
            elapsed: 0.0,
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let time = match self.arrivals {
            Arrivals::Spread => (self.number + unit(&mut self.random)) * self.period,
            Arrivals::Even => self.number * self.period,
            Arrivals::Poisson => {
                let gap = -(1.0 - unit(&mut self.random)).ln();
                self.elapsed += gap * self.period * self.threads;
                self.elapsed
            }
        };
        self.number += self.threads;
        Some(time as u64)
    }
}

/// From 0 to below 1.
pub fn unit(random: &mut Random) -> f64 {
    (random.number() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: Arrivals, rate: f64, threads: usize, seconds: f64) -> Vec<u64> {
        let end = (seconds * 1e9) as u64;
        let mut times: Vec<u64> = (0..threads)
            .flat_map(|thread| {
                Schedule::new(arrivals, rate, thread, threads, 42).take_while(move |at| *at < end)
            })
            .collect();
        times.sort_unstable();
        times
    }

    #[test]
    fn every_stretch_has_its_number_of_requests_give_or_take_one() {
        for threads in [1, 3] {
            for arrivals in [Arrivals::Spread, Arrivals::Even] {
                let times = times(arrivals, 1_000.0, threads, 60.0);
                for second in 0..60_u64 {
                    let begin = second * 1_000_000_000 + 123_456;
                    let count = times.iter().filter(|at| (begin..begin + 500_000_000).contains(at));
                    let count = count.count();
                    // Threads of equal gaps have phases of their own.
                    assert!((498..=502).contains(&count), "{arrivals:?} {threads}: {count}");
                }
            }
        }
    }

    #[test]
    fn a_poisson_process_has_its_rate_and_the_deviation_of_one() {
        let times = times(Arrivals::Poisson, 1_000.0, 2, 100.0);
        assert!((times.len() as f64 - 100_000.0).abs() < 5.0 * 100_000_f64.sqrt());
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let squares = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
        let variation = (squares / gaps.len() as f64).sqrt() / mean;
        assert!((variation - 1.0).abs() < 0.02, "{variation}");
    }

    #[test]
    fn eight_hours_at_a_fraction_of_a_request_a_second_keep_the_rate() {
        let times = times(Arrivals::Spread, 0.0507, 1, 8.0 * 3600.0);
        assert!((1459..=1461).contains(&times.len()), "{}", times.len());
        assert!(times.is_sorted());
    }
}
