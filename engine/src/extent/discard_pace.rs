//! How much is discarded at once, and how long a rest is after it.
//!
//! A discard may stop a device for its time: reads and writes wait behind it. So while front ends
//! or the catalog use the disks, a round is followed by a rest of some hundred times its length:
//! of 300 requests one meets a discard, and the 99th percentile hardly changes, however long the
//! device takes. Where `rebalance.latency_target` is set, that number is not fixed: it is halved
//! while the 99th percentile is well below the target, and doubled when it is near. The rest is
//! also so long that not more than `discard.pace` is discarded: devices that answer at once may do
//! the work later.
//!
//! How much at once: as little as a device does quickly, or as it does for the same price. Sizes
//! are powers of two. A larger one is tried while rounds are quick, or if it is not known to take
//! half as long again; a smaller one is gone back to if rounds are slow and it does take less.
//! There are devices whose discards take a fixed time, and others that take it per byte.

use super::throttle::Strain;
use crate::catalog::attributes::DiscardPace;
use std::time::Duration;

/// A round that is quicker is followed by a larger one; one that is slower, by a smaller one.
const QUICK: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(50);

/// How many times as long as a round the rest behind it is, while the disks are used. Little in
/// simulation, where there is little time.
pub const RESTS: u32 = if cfg!(any(test, feature = "testing")) { 1 } else { 300 };
/// With a latency target: at least a part of that, and at most a multiple.
const RESTS_PART: u32 = 16;
const RESTS_TIMES: u32 = 4;

const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_secs(300);

/// The known time of a longer round shrinks by this part with each round, so that it is tried
/// again.
const FORGOTTEN: u32 = 32;

/// A round of discards.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    pub took: Duration,
    /// Of the disk of which most was discarded.
    pub bytes: u64,
    /// Whether front ends or the catalog have used the disks.
    pub is_used: bool,
}

#[derive(Debug)]
pub struct Pace {
    /// The present size, as a power of two; the largest, in AUs.
    size: usize,
    units_max: u32,
    /// How long the last round of each size took.
    times: Vec<Option<Duration>>,
    rests_first: u32,
    rests: u32,
}

impl Pace {
    /// Up to `bytes_max` at once.
    pub fn new(au_size: u64, bytes_max: u64, rests: u32) -> Self {
        let units_max = u32::try_from(bytes_max / au_size).unwrap_or(u32::MAX).max(1);
        let times = vec![None; units_max.ilog2() as usize + 1];
        Self { size: 0, units_max, times, rests_first: rests, rests }
    }

    /// AUs to discard at once, at most.
    pub fn units(&self) -> u32 {
        1_u32.checked_shl(u32::try_from(self.size).unwrap_or(u32::MAX)).unwrap_or(self.units_max)
    }

    /// A round has ended: how long the rest behind it is.
    pub fn rest_after(
        &mut self,
        round: Round,
        strain: Option<Strain>,
        pace: DiscardPace,
    ) -> Duration {
        self.resize(round.took);
        self.rests = match strain {
            Some(Strain::High) => (self.rests * 2).min(self.rests_first * RESTS_TIMES),
            Some(Strain::Middle) => self.rests,
            Some(Strain::Low) => (self.rests / 2).max(self.rests_first / RESTS_PART).max(1),
            None => self.rests_first,
        };
        match pace {
            DiscardPace::PerSecond(bytes) if round.is_used => {
                let long = Duration::from_secs_f64(round.bytes as f64 / bytes.max(1) as f64);
                round.took.saturating_mul(self.rests).max(long).clamp(REST_MIN, REST_MAX)
            }
            _ => REST_MIN,
        }
    }

    /// A round took so long: the size of the next one.
    fn resize(&mut self, took: Duration) {
        self.times[self.size] = Some(took);
        let half = self.size.checked_sub(1).and_then(|half| self.times[half]);
        let costs = |more: Duration, less: Duration| more > less + less / 2;
        if took > SLOW && half.is_some_and(|half| costs(took, half)) {
            self.size -= 1;
            return;
        }
        let Some(double) = self.times.get_mut(self.size + 1) else { return };
        if took < QUICK || !double.is_some_and(|double| costs(double, took)) {
            self.size += 1;
        } else if let Some(time) = double {
            *time -= *time / FORGOTTEN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const FREE: DiscardPace = DiscardPace::PerSecond(u64::MAX);

    fn pace(au: u64) -> Pace {
        Pace::new(au * MIB, 64 * MIB, 300)
    }

    fn used(took: Duration) -> Round {
        Round { took, bytes: 0, is_used: true }
    }

    /// Rounds on a device that needs `took` for a number of bytes. Returns the sizes of the last
    /// ones.
    fn settled(pace: &mut Pace, au: u64, took: impl Fn(u64) -> Duration) -> Vec<u64> {
        let round = |pace: &mut Pace| {
            let bytes = u64::from(pace.units()) * au * MIB;
            pace.rest_after(used(took(bytes)), None, FREE);
            bytes
        };
        (0..20).for_each(|_| _ = round(pace));
        (0..64).map(|_| round(pace)).collect()
    }

    #[test]
    fn a_device_whose_discards_take_a_fixed_time_gets_large_ones() {
        for millis in [1, 20, 50, 1000] {
            let sizes = settled(&mut pace(4), 4, |_| Duration::from_millis(millis));
            assert!(sizes.iter().all(|size| *size == 64 * MIB), "{millis} ms: {sizes:?}");
        }
    }

    /// Only now and then it is tried whether that is still so.
    #[test]
    fn a_device_that_takes_time_for_each_byte_gets_small_ones() {
        let sizes = settled(&mut pace(4), 4, |bytes| Duration::from_millis(10 * bytes / MIB));
        let small = sizes.iter().filter(|size| **size == 4 * MIB).count();
        assert!((50..64).contains(&small), "{sizes:?}");
        assert!(sizes.iter().all(|size| *size <= 8 * MIB), "{sizes:?}");
    }

    #[test]
    fn an_au_is_the_least() {
        assert_eq!(settled(&mut pace(64), 64, |_| Duration::from_secs(1)), [64 * MIB; 64]);
        assert_eq!(pace(48).units(), 1);
    }

    #[test]
    fn the_slower_the_disk_the_longer_the_rest() {
        let mut pace = pace(4);
        for took in [Duration::from_micros(100), Duration::from_millis(20), Duration::from_secs(1)]
        {
            assert_eq!(pace.rest_after(used(took), None, FREE), took * 300);
            let idle = Round { is_used: false, ..used(took) };
            assert_eq!(pace.rest_after(idle, None, FREE), REST_MIN);
            assert_eq!(pace.rest_after(used(took), None, DiscardPace::Unpaced), REST_MIN);
        }
        assert_eq!(pace.rest_after(used(Duration::from_secs(1000)), None, FREE), REST_MAX);
    }

    #[test]
    fn a_second_has_no_more_bytes_than_the_attribute_says() {
        let round = Round { took: Duration::ZERO, bytes: 64 * MIB, is_used: true };
        let rest = pace(4).rest_after(round, None, DiscardPace::PerSecond(32 * MIB));
        assert_eq!(rest, Duration::from_secs(2));
    }

    /// With a latency target rests are as long as that needs, within limits.
    #[test]
    fn rests_follow_the_latency_of_clients() {
        let mut pace = pace(4);
        let took = Duration::from_millis(1);
        let mut after = |strain| pace.rest_after(used(took), strain, FREE);
        assert_eq!(after(Some(Strain::High)), took * 600);
        assert_eq!(after(Some(Strain::High)), took * 1200);
        assert_eq!(after(Some(Strain::High)), took * 1200);
        assert_eq!(after(Some(Strain::Middle)), took * 1200);
        assert_eq!(after(Some(Strain::Low)), took * 600);
        (0..10).for_each(|_| _ = after(Some(Strain::Low)));
        assert_eq!(after(Some(Strain::Low)), took * 18);
        assert_eq!(after(None), took * 300, "the target was taken back");
    }
}
