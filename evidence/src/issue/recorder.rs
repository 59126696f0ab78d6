//! Counts and latencies of the classes of a run: of all of it, and of each interval.
//!
//! ```text
//!   worker   tally of this second --+
//!   worker   tally of this second --+--> recorder --> totals of the round, time line, observer
//!   worker   tally of this second --+
//! ```
//!
//! A worker keeps a [`Tally`] of each class, and hands them over once a second: so it takes a lock
//! once a second, and the recorder needs no more memory after eight hours than after a minute. The
//! time comes from the caller.
//!
//! Invariants:
//!
//! 1. A time line has at most [`POINTS_MAX`] points. One more, and neighbours become one point; the
//!    points after it are measured over twice the time. Of points that became one, the larger 99th
//!    percentile is kept, which is a bound and no more.
//! 2. The histogram has borders at most 1 % apart, from 64 ns to an hour; what took longer counts
//!    as an hour, and is in the moments as it was.

use crate::{
    buckets::{Buckets, Moments},
    run::Point,
};
use hdrhistogram::Histogram;

/// In nanoseconds: one hour.
const LATENCY_MAX: u64 = 3_600_000_000_000;
/// 1 %.
const DIGITS: u8 = 2;
/// A point is about 120 bytes of JSON: five classes stay below 1 MB.
pub const POINTS_MAX: usize = 1024;
/// Nanoseconds of the shortest interval.
pub const INTERVAL: u64 = 1_000_000_000;

/// Requests of one class in some time.
#[derive(Debug, Clone)]
pub struct Tally {
    histogram: Histogram<u64>,
    sum: f64,
    sum_of_squares: f64,
    min: u64,
    max: u64,
    pub requests: u64,
    pub bytes: u64,
    pub errors: u64,
}

impl Default for Tally {
    fn default() -> Self {
        let histogram =
            Histogram::new_with_bounds(64, LATENCY_MAX, DIGITS).expect("bounds in their order");
        Self {
            histogram,
            sum: 0.0,
            sum_of_squares: 0.0,
            min: u64::MAX,
            max: 0,
            requests: 0,
            bytes: 0,
            errors: 0,
        }
    }
}

impl Tally {
    /// A request that ended well, and took that many nanoseconds.
    pub fn add(&mut self, latency: u64, bytes: u64) {
        self.histogram.saturating_record(latency);
        let value = latency as f64;
        self.sum += value;
        self.sum_of_squares += value * value;
        self.min = self.min.min(latency);
        self.max = self.max.max(latency);
        self.requests += 1;
        self.bytes += bytes;
    }

    pub fn merge(&mut self, other: &Self) {
        if other.requests > 0 {
            // Equal bounds: it cannot fail.
            let _ = self.histogram.add(&other.histogram);
        }
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
    }

    pub fn clear(&mut self) {
        if self.requests > 0 {
            self.histogram.reset();
        }
        (self.sum, self.sum_of_squares, self.min, self.max) = (0.0, 0.0, u64::MAX, 0);
        (self.requests, self.bytes, self.errors) = (0, 0, 0);
    }

    /// Nanoseconds; 0 without requests.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.sum / self.requests as f64 }
    }

    /// Nanoseconds; 0 without requests.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares = self.sum_of_squares / (self.requests.max(1) as f64);
        (squares - mean * mean).max(0.0).sqrt()
    }

    /// Nanoseconds; 0 without requests.
    #[must_use]
    pub fn percentile(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share).min(self.max)
    }

    /// Nanoseconds.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    #[must_use]
    pub fn buckets(&self) -> Buckets {
        let pairs = self.histogram.iter_recorded().map(|step| {
            (self.histogram.highest_equivalent(step.value_iterated_to()), step.count_at_value())
        });
        let mut buckets = Buckets::new(pairs);
        buckets.moments = (self.requests > 0).then_some(Moments {
            sum: self.sum,
            sum_of_squares: self.sum_of_squares,
            min: self.min,
            max: self.max,
        });
        buckets
    }

    fn point(&self, begin: u64, end: u64) -> Point {
        Point {
            at: begin as f64 / 1e9,
            length: end.saturating_sub(begin) as f64 / 1e9,
            requests: self.requests,
            bytes: self.bytes,
            mean: self.mean(),
            deviation: self.deviation(),
            p99: self.percentile(0.99) as f64,
            max: self.max as f64,
        }
    }
}

/// A time line of bounded length.
#[derive(Debug, Clone)]
struct Line {
    points: Vec<Point>,
    /// Of the interval that has not ended.
    open: Tally,
    /// Its begin.
    begin: u64,
    /// Nanoseconds of an interval.
    length: u64,
}

impl Line {
    fn new(begin: u64) -> Self {
        Self { points: Vec::new(), open: Tally::default(), begin, length: INTERVAL }
    }

    /// The requests since the last call, up to `end`.
    fn add(&mut self, tally: &Tally, end: u64) {
        self.open.merge(tally);
        if end >= self.begin.saturating_add(self.length) {
            self.close(end);
        }
    }

    fn close(&mut self, end: u64) {
        if end <= self.begin {
            return;
        }
        self.points.push(self.open.point(self.begin, end));
        self.open.clear();
        self.begin = end;
        if self.points.len() > POINTS_MAX {
            let pairs = self.points.chunks(2);
            self.points = pairs.filter_map(|pair| pair.iter().copied().reduce(joined)).collect();
            self.length = self.length.saturating_mul(2);
        }
    }
}

/// Two neighbours as one point.
fn joined(a: Point, b: Point) -> Point {
    let requests = a.requests + b.requests;
    let share = |of: &Point| of.requests as f64 / requests.max(1) as f64;
    let mean = a.mean * share(&a) + b.mean * share(&b);
    let squares = |of: &Point| (of.mean * of.mean + of.deviation * of.deviation) * share(of);
    Point {
        at: a.at,
        length: a.length + b.length,
        requests,
        bytes: a.bytes + b.bytes,
        mean,
        deviation: (squares(&a) + squares(&b) - mean * mean).max(0.0).sqrt(),
        p99: a.p99.max(b.p99),
        max: a.max.max(b.max),
    }
}

/// One class in a round.
#[derive(Debug, Clone)]
struct Track {
    total: Tally,
    line: Line,
}

/// Tallies of all classes for a stretch of time, with the time line.
#[derive(Debug, Clone)]
pub struct Recorder {
    tracks: Vec<Track>,
    /// Nanoseconds.
    begin: u64,
    end: u64,
}

impl Recorder {
    /// `begin` is a time of the caller's clock in nanoseconds.
    #[must_use]
    pub fn new(classes: usize, begin: u64) -> Self {
        let track = Track { total: Tally::default(), line: Line::new(begin) };
        Self { tracks: vec![track; classes], begin, end: begin }
    }

    /// The tallies of all classes since the last call, and the time up to which they are.
    pub fn add(&mut self, tallies: &[Tally], end: u64) {
        for (track, tally) in self.tracks.iter_mut().zip(tallies) {
            track.total.merge(tally);
            track.line.add(tally, end);
        }
        self.end = self.end.max(end);
    }

    /// Ends the interval that has begun.
    pub fn close(&mut self) {
        for track in &mut self.tracks {
            if track.line.open.requests > 0 || track.line.points.is_empty() {
                track.line.close(self.end);
            }
        }
    }

    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.end.saturating_sub(self.begin) as f64 / 1e9
    }

    #[must_use]
    pub fn total(&self, class: usize) -> &Tally {
        &self.tracks[class].total
    }

    /// With times from the begin of this recorder.
    #[must_use]
    pub fn line(&self, class: usize) -> Vec<Point> {
        let begin = self.begin as f64 / 1e9;
        let points = self.tracks[class].line.points.iter();
        points.map(|point| Point { at: point.at - begin, ..*point }).collect()
    }

    /// Adds what came behind: its begin is the end of this one.
    pub fn append(&mut self, next: &Self) {
        for (track, other) in self.tracks.iter_mut().zip(&next.tracks) {
            track.total.merge(&other.total);
            track.line.points.extend(&other.line.points);
        }
        self.end = self.end.max(next.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn recorded(seconds: u64, requests_per_second: u64) -> Recorder {
        let mut recorder = Recorder::new(1, 0);
        let mut tallies = vec![Tally::default(); 1];
        for second in 0..seconds {
            for tally in &mut tallies {
                tally.clear();
                for request in 0..requests_per_second {
                    tally.add(100_000 + (second * 7919 + request * 104_729) % 900_000, 8192);
                }
            }
            recorder.add(&tallies, (second + 1) * SECOND);
        }
        recorder.close();
        recorder
    }

    #[test]
    fn eight_hours_need_no_more_than_an_hour_and_lose_no_request() {
        let day = recorded(8 * 3600, 3);
        let line = day.line(0);
        let text = serde_json::to_string(&line).expect("numbers")
            + &serde_json::to_string(&day.total(0).buckets()).expect("numbers");
        // Of each of five classes.
        assert!(text.len() * 5 < 1_000_000, "{} bytes", text.len());
        assert!((POINTS_MAX / 4..=POINTS_MAX).contains(&line.len()));
        assert_eq!(line.iter().map(|point| point.requests).sum::<u64>(), 8 * 3600 * 3);
        let length: f64 = line.iter().map(|point| point.length).sum();
        assert!((length - 8.0 * 3600.0).abs() < 1e-6, "{length}");
        assert_eq!(day.total(0).requests, 8 * 3600 * 3);
        assert_eq!(day.total(0).buckets().requests(), 8 * 3600 * 3);
    }

    #[test]
    fn points_that_became_one_keep_mean_and_deviation() {
        let day = recorded(POINTS_MAX as u64 * 3, 5);
        let total = day.total(0);
        let line = day.line(0).into_iter().reduce(joined).expect("there are points");
        assert!((line.mean - total.mean()).abs() < 1e-3);
        assert!((line.deviation - total.deviation()).abs() < 1e-1);
        assert_eq!(line.max as u64, total.max());
    }

    #[test]
    fn borders_are_one_per_cent_apart_from_below_a_microsecond_to_an_hour() {
        for latency in [500, 1_000, 123_456, 7_777_777, 3_000_000_000, 3_599_000_000_000] {
            let mut tally = Tally::default();
            tally.add(latency, 1);
            let border = tally.buckets().counts()[0].0;
            let apart = (border as f64 - latency as f64) / latency as f64;
            assert!((0.0..=0.0129).contains(&apart) || border - latency < 64, "{latency} {border}");
        }
        let mut tally = Tally::default();
        tally.add(2 * LATENCY_MAX, 1);
        assert_eq!(tally.max(), 2 * LATENCY_MAX);
        assert_eq!(tally.buckets().requests(), 1);
    }

    #[test]
    fn a_cleared_tally_is_a_new_one() {
        let mut tally = Tally::default();
        tally.add(1_000, 512);
        tally.errors = 1;
        tally.clear();
        assert_eq!((tally.requests, tally.bytes, tally.errors, tally.max()), (0, 0, 0, 0));
        assert!(tally.buckets().is_empty());
        tally.add(2_000_000_000, 512);
        assert_eq!(tally.buckets().requests(), 1);
    }
}
