//! Workers on a fake engine with a clock of its own.

use super::{
    arrival::{Arrivals, Schedule},
    collect::Collector,
    engine::{Ended, Engine, Io, Kind, Wait},
    lanes::{Lane, Lanes, Limits, Pace, Sizes},
    place::Places,
    recorder::{POINTS_MAX, Recorder},
    stamp::Stamp,
    verify::Versions,
    worker::{Data, Worker},
};
use crate::model::Class;
use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    sync::{Arc, Mutex},
};

const SECOND: u64 = 1_000_000_000;
const SIZE: usize = 8192;
const TARGET: u64 = 1 << 20;

/// A disk in memory, which stops for a while. Time goes on only while its worker waits.
struct Fake {
    now: u64,
    /// Of a transfer.
    latency: u64,
    stall: Range<u64>,
    /// By the time of their end.
    ends: BTreeMap<(u64, usize), Io>,
    buffers: Vec<Vec<u8>>,
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Of each that many writes, one is written up to this byte only.
    lost: Option<(u64, usize)>,
    writes: u64,
    /// By how much timers are late.
    late: u64,
}

impl Fake {
    fn new(slots: usize, stall: Range<u64>) -> Self {
        Self {
            now: 0,
            latency: 100_000,
            stall,
            ends: BTreeMap::new(),
            buffers: vec![vec![0; SIZE]; slots],
            bytes: Arc::new(Mutex::new(vec![0; TARGET as usize])),
            lost: None,
            writes: 0,
            late: 0,
        }
    }

    fn transfer(&mut self, io: Io) {
        let mut bytes = self.bytes.lock().expect("no panic");
        let place = io.offset as usize..io.offset as usize + io.length;
        let buffer = &mut self.buffers[io.slot][..io.length];
        if io.kind == Kind::Read {
            buffer.copy_from_slice(&bytes[place]);
            return;
        }
        self.writes += 1;
        let is_lost = |(of, _): &(u64, usize)| self.writes.is_multiple_of(*of);
        let kept = self.lost.filter(is_lost).map_or(io.length, |(_, kept)| kept);
        bytes[place][..kept].copy_from_slice(&buffer[..kept]);
    }
}

impl Engine for Fake {
    fn now(&self) -> u64 {
        self.now
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        &mut self.buffers[slot]
    }

    fn push(&mut self, io: Io) -> io::Result<()> {
        let end = self.now + self.latency;
        let end = if self.stall.contains(&end) { self.stall.end } else { end };
        self.ends.insert((end, io.slot), io);
        Ok(())
    }

    fn go(&mut self, wait: Wait, ended: &mut Vec<Ended>) -> io::Result<()> {
        if let Wait::Until(then) = wait {
            let first = self.ends.first_key_value().map_or(u64::MAX, |((end, _), _)| *end);
            self.now = self.now.max(first.min(then + self.late));
        }
        while let Some(entry) = self.ends.first_entry()
            && entry.key().0 <= self.now
        {
            let io = entry.remove();
            self.transfer(io);
            ended.push(Ended { slot: io.slot, result: Ok(io.length) });
        }
        Ok(())
    }
}

struct Load {
    fake: Fake,
    kinds: Vec<Kind>,
    rate: f64,
    depth: usize,
    is_closed: bool,
    is_verified: bool,
    seconds: u64,
}

impl Load {
    fn reads(fake: Fake, seconds: u64) -> Self {
        let kinds = vec![Kind::Read];
        let (rate, depth) = (1_000.0, fake.buffers.len());
        Self { fake, kinds, rate, depth, is_closed: false, is_verified: false, seconds }
    }

    /// The measurements, unissued requests, and the messages about wrong blocks.
    fn run(self) -> (Recorder, u64, Vec<String>) {
        let limits = Arc::new(Limits::default());
        let end = self.seconds * SECOND;
        limits.set(end, end + 10 * SECOND);
        let stamp = Stamp::new(7);
        let versions = Versions::new(stamp.clone(), 4096, &[TARGET], 1 << 40);
        let versions = self.is_verified.then(|| Arc::new(versions));
        let lanes = self.kinds.iter().enumerate().map(|(class, kind)| {
            let schedule = Schedule::new(Arrivals::Spread, self.rate, 0, 1, class as u64);
            let pace = if self.is_closed { Pace::Closed(schedule) } else { Pace::Open(schedule) };
            let of = if *kind == Kind::Read { Class::RandomRead } else { Class::RandomWrite };
            let places =
                Places::new(of, SIZE as u64, std::iter::once(0..TARGET).collect(), 0, class as u64);
            Lane::new(class, Sizes::fixed(SIZE), *kind, places, pace, self.depth, self.rate)
        });
        let mut lanes = Lanes::new(lanes.collect(), limits, versions.clone());
        let depth = self.depth;
        let slots: Vec<Range<usize>> =
            (0..self.kinds.len()).map(|class| class * depth..(class + 1) * depth).collect();
        let collector = Collector::new(1, self.kinds.len(), 0, None);
        let data = Data { stamp, version: 1, versions };
        let worker = Worker::new(self.fake, &collector, data, 0, 0, &slots);
        let ending = worker.run(&mut lanes).expect("the fake does not fail");
        let (recorder, _, wrong) = collector.result(ending.last.max(end));
        (recorder, ending.unissued, wrong.first)
    }
}

/// Requests of a histogram up to these nanoseconds, give or take a border.
fn up_to(recorder: &Recorder, nanoseconds: u64) -> u64 {
    let buckets = recorder.total(0).buckets();
    buckets.counts().iter().filter(|(border, _)| *border <= nanoseconds).map(|(_, n)| n).sum()
}

/// The target stops for a second at 1,000 requests a second. All that were due meanwhile have
/// waited, the first for a second and the last for nearly nothing.
#[test]
fn a_stall_of_a_second_is_seen_by_all_requests_that_were_due_meanwhile() {
    for slots in [1_500, 16] {
        let (recorder, unissued, _) =
            Load::reads(Fake::new(slots, 3 * SECOND..4 * SECOND), 10).run();
        assert_eq!((recorder.total(0).requests, unissued), (10_000, 0));
        let fast = up_to(&recorder, 2_000_000);
        let slow = 10_000 - fast;
        assert!((950..=1_050).contains(&slow), "{slow} with {slots} slots");
        // Evenly: each tenth of a second has its hundred.
        for tenth in 1..10 {
            let count = up_to(&recorder, tenth * SECOND / 10) - fast;
            let wanted = tenth as i64 * 100;
            assert!((count as i64 - wanted).abs() <= 15, "{count} up to {tenth} tenths");
        }
        assert!(recorder.total(0).max() <= SECOND + 1_000_000);
    }
}

#[test]
fn a_closed_loop_sees_the_same_stall_once() {
    let mut load = Load::reads(Fake::new(1, 3 * SECOND..4 * SECOND), 10);
    load.is_closed = true;
    let (recorder, _, _) = load.run();
    let requests = recorder.total(0).requests;
    assert_eq!(requests - up_to(&recorder, 2_000_000), 1);
}

#[test]
fn requests_that_a_target_never_gets_to_are_counted() {
    let mut fake = Fake::new(1, 0..0);
    fake.latency = 10_000_000;
    let (recorder, unissued, _) = Load::reads(fake, 30).run();
    let issued = recorder.total(0).requests;
    // 100 a second for 30 seconds and ten more.
    assert!((3_990..=4_010).contains(&issued), "{issued}");
    assert!((issued + unissued).abs_diff(30_000) <= 2, "{issued} and {unissued}");
    assert!(recorder.total(0).max() > 29 * SECOND);
}

#[test]
fn a_timer_that_ends_late_is_no_latency_of_the_target_up_to_a_millisecond() {
    for (late, least, most) in [(80_000, 100_000, 101_000), (5_000_000, 1_000_000, 5_200_000)] {
        let mut fake = Fake::new(64, 0..0);
        fake.late = late;
        let (recorder, _, _) = Load::reads(fake, 5).run();
        assert_eq!(recorder.total(0).requests, 5_000);
        let mean = recorder.total(0).mean() as u64;
        assert!((least..=most).contains(&mean), "{mean} with {late}");
    }
}

#[test]
fn eight_hours_of_a_worker_have_every_request_in_a_bounded_time_line() {
    let mut load = Load::reads(Fake::new(8, 5 * SECOND..6 * SECOND), 8 * 3600);
    load.rate = 2.0;
    let (recorder, unissued, _) = load.run();
    assert_eq!((recorder.total(0).requests, unissued), (8 * 3600 * 2, 0));
    let line = recorder.line(0);
    assert!(line.len() <= POINTS_MAX);
    assert_eq!(line.iter().map(|point| point.requests).sum::<u64>(), 8 * 3600 * 2);
    assert!((recorder.seconds() - 8.0 * 3600.0).abs() < 1.0);
}

fn verified(lost: Option<(u64, usize)>) -> Vec<String> {
    let mut fake = Fake::new(32, 0..0);
    fake.lost = lost;
    let mut load = Load::reads(fake, 10);
    load.kinds = vec![Kind::Read, Kind::Write];
    load.depth = 16;
    load.is_verified = true;
    load.run().2
}

#[test]
fn a_run_that_verifies_finds_nothing_on_a_target_that_keeps_what_it_acknowledges() {
    assert_eq!(verified(None), Vec::<String>::new());
}

#[test]
fn a_run_that_verifies_finds_a_lost_write_and_a_torn_one() {
    let lost = verified(Some((100, 0)));
    assert!(lost.iter().any(|text| text.contains("older version")), "{lost:?}");
    let torn = verified(Some((100, 512)));
    assert!(torn.iter().any(|text| text.contains("torn")), "{torn:?}");
}
