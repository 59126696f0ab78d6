//! How long front ends waited for pieces of extents on the move: `v$asm_move_wait_histogram`.
//!
//! A move holds the pieces that it copies, one step of them at a time, and for a moment the whole
//! extent, when it begins. Client I/O that meets these waits. The waits are counted in powers of
//! two of microseconds, as in `v$event_histogram_micro`; I/O that need not wait is not counted, and
//! costs nothing.

use crate::{extent::Extent, extent::data::Data, sync::ranges::RangeGuard};
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// From one microsecond to 36 minutes; longer waits are in the last.
const BUCKETS: usize = 32;

#[derive(Debug)]
pub struct MoveWaits([AtomicU64; BUCKETS]);

impl Default for MoveWaits {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl MoveWaits {
    fn note(&self, waited: Duration) {
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        // The first power of two that is not below it.
        let bucket =
            micros.clamp(1, 1 << (BUCKETS - 1)).next_power_of_two().trailing_zeros() as usize;
        self.0[bucket].fetch_add(1, Relaxed);
    }

    /// Upper bounds in microseconds, each with its number of waits; bounds without waits are left
    /// out.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let counts =
            self.0.iter().enumerate().map(|(bucket, count)| (1 << bucket, count.load(Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

impl Data {
    /// Holds blocks of an extent for a front end.
    pub(crate) async fn hold<'a>(
        &self,
        extent: &'a Extent,
        blocks: Range<usize>,
        exclusive: bool,
    ) -> RangeGuard<'a> {
        if let Some(guard) = extent.ranges.try_hold(blocks.clone(), exclusive) {
            return guard;
        }
        let moves = extent.target().is_some();
        let began = self.world.monotonic();
        let guard = extent.ranges.hold(blocks, exclusive).await;
        if moves {
            self.move_waits.note(self.world.monotonic().saturating_sub(began));
        }
        guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_below_the_next_power_of_two() {
        let waits = MoveWaits::default();
        for micros in [0, 1, 2, 3, 4, 5, 1024, 1025] {
            waits.note(Duration::from_micros(micros));
        }
        waits.note(Duration::MAX);
        assert_eq!(
            waits.counts(),
            [(1, 2), (2, 1), (4, 2), (8, 1), (1024, 1), (2048, 1), (1 << 31, 1)]
        );
    }
}
