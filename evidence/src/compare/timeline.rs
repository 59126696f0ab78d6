//! A time line of any length as a few hundred slots, without the loss of a peak.

use super::measure::mean_and_deviation;
use crate::{draw::panels::Slot, run::Point};

/// The rate: each slot has the least and the largest rate of its intervals.
#[must_use]
pub fn rates(line: &[Point], slots_max: usize) -> Vec<Slot> {
    slots(line, slots_max, |points| {
        let rate = |point: &Point| point.requests as f64 / point.length;
        let length: f64 = points.iter().map(|point| point.length).sum();
        let requests: f64 = points.iter().map(|point| point.requests as f64).sum();
        let values: Vec<f64> = points.iter().map(rate).collect();
        let deviation = mean_and_deviation(&values).map_or(0.0, |found| found.1);
        Some((values, requests / length, deviation))
    })
}

/// The latency: each slot has the least and the largest mean of its intervals, and the deviation
/// of all its latencies. Intervals without requests have none.
#[must_use]
pub fn latencies(line: &[Point], slots_max: usize) -> Vec<Slot> {
    slots(line, slots_max, |points| {
        let points: Vec<&Point> = points.iter().filter(|point| point.requests > 0).collect();
        let requests: f64 = points.iter().map(|point| point.requests as f64).sum();
        let weighted = |value: &dyn Fn(&Point) -> f64| {
            points.iter().map(|point| value(point) * point.requests as f64).sum::<f64>() / requests
        };
        let mean = weighted(&|point| point.mean);
        // Of the middle, so that nothing is lost to large squares.
        let squares = weighted(&|point| point.deviation.powi(2) + (point.mean - mean).powi(2));
        let values: Vec<f64> = points.iter().map(|point| point.mean).collect();
        (!points.is_empty()).then(|| (values, mean, squares.sqrt()))
    })
}

/// Values, their mean and their deviation.
type Measured = (Vec<f64>, f64, f64);

fn slots(
    line: &[Point],
    slots_max: usize,
    measured: impl Fn(&[Point]) -> Option<Measured>,
) -> Vec<Slot> {
    let each = line.len().div_ceil(slots_max.max(1)).max(1);
    let mut slots = Vec::new();
    for points in line.chunks(each) {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let Some((values, mean, deviation)) = measured(points) else { continue };
        let place = |is_better: fn(f64, f64) -> bool| {
            (0..values.len()).reduce(|best, next| {
                if is_better(values[next], values[best]) { next } else { best }
            })
        };
        let (Some(least), Some(largest)) = (place(|a, b| a < b), place(|a, b| a > b)) else {
            continue;
        };
        slots.push(Slot {
            from: first.at,
            to: last.at + last.length,
            mean,
            deviation,
            least: values[least],
            largest: values[largest],
            rises: least < largest,
        });
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: usize, requests: u64, mean: f64) -> Point {
        let (at, deviation, p99, max) = (at as f64, mean / 10.0, mean, mean);
        Point { at, length: 1.0, requests, bytes: 0, mean, deviation, p99, max }
    }

    #[test]
    fn one_peak_in_eight_hours_stays_in_the_line() {
        let mut line: Vec<Point> = (0..28_800).map(|at| point(at, 1000, 5e5)).collect();
        line[12_345] = point(12_345, 1, 9e8);
        let (rates, latencies) = (rates(&line, 200), latencies(&line, 200));
        assert!(rates.len() <= 200 && latencies.len() <= 200);
        assert_eq!(rates.iter().map(|slot| slot.least).fold(f64::MAX, f64::min), 1.0);
        assert_eq!(latencies.iter().map(|slot| slot.largest).fold(0.0, f64::max), 9e8);
        assert_eq!(latencies.last().map(|slot| slot.to), Some(28_800.0));
    }

    #[test]
    fn the_deviation_of_a_slot_is_that_of_all_its_latencies() {
        let line = [point(0, 1, 100.0), point(1, 1, 300.0)];
        let slots = latencies(&line, 1);
        // Within: 10 and 30, squares 500 in the middle; between: 100 from the mean.
        assert_eq!(slots.len(), 1);
        assert!((slots[0].deviation - (500.0_f64 + 10_000.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn an_interval_without_requests_has_no_latency() {
        let line = [point(0, 10, 100.0), point(1, 0, 0.0), point(2, 10, 100.0)];
        assert_eq!(latencies(&line, 10).len(), 2);
        assert_eq!(rates(&line, 10).len(), 3);
    }
}
