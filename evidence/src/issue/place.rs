//! Where the requests of a class go.
//!
//! ```text
//!   target   |  data: random blocks, large streams from random points  |  log: one stream  |
//! ```
//!
//! With several targets, requests take turns. The log has the end of each target for itself, as log
//! files have: there it is written from begin to end and again from the begin.

use crate::model::Class;
use plinth_workload::random::Random;
use std::ops::Range;

/// Bytes of a scan, before it begins elsewhere.
const SCAN: u64 = 64 << 20;
/// Streams of a large class on each target and thread, taking turns.
const STREAMS: usize = 4;
/// The largest area of a log on one target.
const LOG_MAX: u64 = 1 << 30;
/// Sizes are aligned to at most that.
const ALIGN_MAX: u64 = 1 << 20;

/// The areas of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Areas {
    pub data: Range<u64>,
    pub log: Range<u64>,
}

impl Areas {
    /// `has_log` is whether there is a log, `has_data` whether there is anything else.
    #[must_use]
    pub fn of(size: u64, has_log: bool, has_data: bool) -> Self {
        let size = size & !4095;
        let log = match (has_log, has_data) {
            (false, _) => 0,
            (true, false) => size,
            (true, true) => (size / 16).min(LOG_MAX) & !4095,
        };
        Self { data: 0..size - log, log: size - log..size }
    }
}

/// The places of one class on one thread.
#[derive(Debug, Clone)]
pub struct Places {
    areas: Vec<Range<u64>>,
    size: u64,
    /// Places are multiples of it.
    align: u64,
    order: Order,
    /// The target of the next request.
    target: usize,
    random: Random,
}

#[derive(Debug, Clone)]
enum Order {
    Anywhere,
    /// Of each target its streams, and whose turn it is.
    Scans(Vec<(Vec<Scan>, usize)>),
    /// Of each target the next place.
    Log(Vec<u64>),
}

#[derive(Debug, Clone, Copy, Default)]
struct Scan {
    next: u64,
    left: u64,
}

impl Places {
    /// `areas` are those of the class on each target, none smaller than `size`.
    #[must_use]
    pub fn new(class: Class, size: u64, areas: Vec<Range<u64>>, thread: usize, seed: u64) -> Self {
        let targets = areas.len();
        let order = match class {
            Class::RandomRead | Class::RandomWrite => Order::Anywhere,
            Class::LargeRead | Class::LargeWrite => {
                Order::Scans(vec![(vec![Scan::default(); STREAMS], 0); targets])
            }
            Class::LogWrite => Order::Log(areas.iter().map(|area| area.start).collect()),
        };
        let align = alignment(size);
        let random = Random::new(seed ^ 0x5851_f42d_4c95_7f2d ^ (thread as u64) << 40);
        Self { areas, size, align, order, target: thread % targets.max(1), random }
    }

    /// Target and byte of the next request.
    pub fn next(&mut self) -> (usize, u64) {
        let target = self.target;
        self.target = (target + 1) % self.areas.len();
        let area = self.areas[target].clone();
        let offset = match &mut self.order {
            Order::Anywhere => anywhere(&mut self.random, &area, self.size, self.align),
            Order::Scans(targets) => {
                let (scans, turn) = &mut targets[target];
                let scan = &mut scans[*turn];
                *turn = (*turn + 1) % STREAMS;
                if scan.left == 0 || scan.next + self.size > area.end {
                    scan.next = anywhere(&mut self.random, &area, self.size, self.align);
                    scan.left = SCAN.div_ceil(self.size);
                }
                let offset = scan.next;
                scan.next += self.size;
                scan.left -= 1;
                offset
            }
            Order::Log(targets) => {
                let next = &mut targets[target];
                if *next + self.size > area.end {
                    *next = area.start;
                }
                let offset = *next;
                *next += self.size;
                offset
            }
        };
        (target, offset)
    }

    /// After a place was refused: scans go on elsewhere.
    pub fn avoid(&mut self) {
        if let Order::Scans(targets) = &mut self.order {
            targets.iter_mut().flat_map(|(scans, _)| scans).for_each(|scan| scan.left = 0);
        }
    }
}

/// The largest power of two that divides the size.
#[must_use]
pub fn alignment(size: u64) -> u64 {
    (1 << size.trailing_zeros().min(63)).min(ALIGN_MAX)
}

/// A random place in an area.
fn anywhere(random: &mut Random, area: &Range<u64>, size: u64, align: u64) -> u64 {
    let begin = area.start.next_multiple_of(align);
    let places = area.end.saturating_sub(begin + size) / align + 1;
    begin + random.number() % places * align
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn one(area: Range<u64>) -> Vec<Range<u64>> {
        std::iter::once(area).collect()
    }

    #[test]
    fn the_log_has_the_end_for_itself() {
        let areas = Areas::of(160 * MIB, true, true);
        assert_eq!((areas.data, areas.log), (0..150 * MIB, 150 * MIB..160 * MIB));
        assert_eq!(Areas::of(10_000, false, true).data, 0..8192);
        assert_eq!(Areas::of(MIB, true, false).log, 0..MIB);
        assert_eq!(
            Areas::of(1 << 40, true, true).log.end - Areas::of(1 << 40, true, true).log.start,
            LOG_MAX
        );
    }

    #[test]
    fn requests_take_turns_and_stay_in_their_area() {
        for (class, size) in [
            (Class::RandomRead, 8192),
            (Class::RandomWrite, 65_024),
            (Class::LargeRead, 1_011_712),
            (Class::LogWrite, 9_216),
        ] {
            let areas = vec![0..7 * MIB, MIB..9 * MIB, 0..3 * MIB];
            let mut places = Places::new(class, size, areas.clone(), 1, 7);
            for number in 0..10_000 {
                let (target, offset) = places.next();
                assert_eq!(target, (number + 1) % 3);
                assert_eq!(offset % alignment(size), 0);
                assert!(offset >= areas[target].start && offset + size <= areas[target].end);
            }
        }
    }

    #[test]
    fn random_places_are_even_over_the_target() {
        let mut places = Places::new(Class::RandomRead, 8192, one(0..MIB), 0, 7);
        let mut seen = [0_u32; 128];
        (0..128_000).for_each(|_| seen[(places.next().1 / 8192) as usize] += 1);
        // Five deviations of 1,000.
        assert!(seen.iter().all(|count| (840..1_160).contains(count)), "{seen:?}");
    }

    #[test]
    fn a_log_is_one_stream_and_scans_are_sequences() {
        let mut log = Places::new(Class::LogWrite, 8192, one(MIB..2 * MIB), 0, 7);
        let places: Vec<u64> = (0..129).map(|_| log.next().1).collect();
        assert!((0..128).all(|number| places[number] == MIB + number as u64 * 8192));
        assert_eq!(places[128], MIB);
        let mut scans = Places::new(Class::LargeRead, MIB, one(0..1024 * MIB), 0, 7);
        let places: Vec<u64> = (0..STREAMS * 60).map(|_| scans.next().1).collect();
        let steps = places.windows(STREAMS + 1).filter(|w| w[STREAMS] == w[0] + MIB).count();
        assert!(steps > STREAMS * 50, "{steps}");
    }
}
