//! The policy against simulated disks, on a virtual clock: shares are counted, and no test waits.

use super::*;
use crate::testing::Numbers;
use proptest::prelude::*;
use std::{cmp::Reverse, collections::BinaryHeap};

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Service times with two humps: the extra latency of a read whose block is not in the disk's
/// cache.
#[derive(Clone, Copy, Debug, Default)]
struct Humps {
    /// Percentage of reads in the second hump, and their extra latency: uniform between two bounds.
    far: u64,
    bounds: (u64, u64),
    /// The same, between the humps.
    between: u64,
    between_bounds: (u64, u64),
}

/// The service times of a disk.
#[derive(Clone, Copy, Debug)]
struct Device {
    /// Nanoseconds of a read of length 0.
    base: u64,
    /// Nanoseconds more for each KiB.
    per_kib: u64,
    /// Extra latency of every read: the path to it is long.
    extra: u64,
    /// Reads that it serves at once.
    lanes: usize,
    /// Whether it answers.
    hung: bool,
    humps: Humps,
}

const NO_HUMPS: Humps = Humps { far: 0, bounds: (0, 0), between: 0, between_bounds: (0, 0) };
/// Half of all reads come from a cache, and four of ten from rotating disks.
const CACHE: Humps = Humps {
    far: 40,
    bounds: (3 * MILLI, 15 * MILLI),
    between: 10,
    between_bounds: (300 * MICRO, 3 * MILLI),
};
const SSD: Device =
    Device { base: 90 * MICRO, per_kib: 400, extra: 0, lanes: 32, hung: false, humps: NO_HUMPS };
/// Serves one read after the other.
const SERIAL: Device = Device { lanes: 1, ..SSD };

/// An event: a read of a client, or an exploration, ends on a disk.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Client(usize),
    Exploration,
}

/// A read in flight: the client's number or none, and the gauge's record of it.
struct UnderWay<'a> {
    reading: Reading<'a>,
    began: u64,
    length: usize,
}

/// Programs that read from mirrored disks, each one read after the other.
struct Bench<'a> {
    gauges: &'a [ReadGauge],
    devices: Vec<Device>,
    numbers: Numbers,
    now: u64,
    /// The time at which each lane of each disk is free.
    free: Vec<Vec<u64>>,
    ends: BinaryHeap<Reverse<(u64, u64, End, usize)>>,
    order: u64,
    under_way: Vec<Option<UnderWay<'a>>>,
    explorations: Vec<Option<UnderWay<'a>>>,
    /// The programs' load.
    length: Box<dyn Fn(&mut Numbers) -> usize>,
    /// The most by which a latency varies at random, in percent.
    noise: u64,
    turn: usize,
    /// Reads of programs, by disk.
    went: Vec<u64>,
    explored: Vec<u64>,
    /// Nanoseconds for which each disk worked, on all its lanes.
    work: Vec<u64>,
    /// The longest that a program waited.
    longest: u64,
    /// Reads of the first disk since counting began, and how many of them it had before [`LEFT`]
    /// consecutive ones went elsewhere.
    first: u64,
    elsewhere: u64,
    left_after: Option<u64>,
}

/// After this many consecutive reads elsewhere, the disk counts as left.
const LEFT: u64 = 50;

impl<'a> Bench<'a> {
    fn new(gauges: &'a [ReadGauge], devices: &[Device], clients: usize) -> Self {
        Self::seeded(gauges, devices, clients, 1)
    }

    fn seeded(gauges: &'a [ReadGauge], devices: &[Device], clients: usize, seed: u64) -> Self {
        let count = devices.len();
        let mut bench = Self {
            gauges: &gauges[..count],
            devices: devices.to_vec(),
            numbers: Numbers::new(seed),
            now: SECOND,
            free: devices.iter().map(|device| vec![0; device.lanes]).collect(),
            ends: BinaryHeap::new(),
            order: 0,
            under_way: (0..clients).map(|_| None).collect(),
            explorations: (0..count).map(|_| None).collect(),
            length: Box::new(|_| 8192),
            noise: 20,
            turn: 0,
            went: vec![0; count],
            explored: vec![0; count],
            work: vec![0; count],
            longest: 0,
            first: 0,
            elsewhere: 0,
            left_after: None,
        };
        (0..clients).for_each(|client| {
            bench.ends.push(Reverse((bench.now, client as u64, End::Client(client), 0)))
        });
        bench.order = clients as u64;
        bench
    }

    /// The time at which a read that begins now on a disk ends.
    fn serve(&mut self, disk: usize, length: usize) -> u64 {
        let device = self.devices[disk];
        if device.hung {
            return u64::MAX;
        }
        let lane = self.free[disk].iter_mut().min().expect("a lane");
        let exact = device.base + device.per_kib * (length as u64 >> 10);
        let mut took = exact + exact * self.numbers.below(self.noise + 1) / 100;
        let Humps { far, bounds, between, between_bounds } = device.humps;
        let chance = if far + between > 0 { self.numbers.below(100) } else { 100 };
        let of = if chance < far {
            Some(bounds)
        } else {
            (chance < far + between).then_some(between_bounds)
        };
        took += of.map_or(0, |(least, most)| least + self.numbers.below(most - least + 1));
        *lane = (*lane).max(self.now) + took;
        self.work[disk] += took;
        *lane + device.extra
    }

    fn push(&mut self, when: u64, end: End, disk: usize) {
        self.order += 1;
        if when < u64::MAX {
            self.ends.push(Reverse((when, self.order, end, disk)));
        }
    }

    fn read(&mut self, client: usize) {
        let length = (self.length)(&mut self.numbers);
        self.turn += 1;
        let clock = Duration::from_nanos(self.now);
        let mut mirrors = [None; MIRRORS_MAX];
        mirrors.iter_mut().zip(self.gauges).for_each(|(mirror, gauge)| *mirror = Some(gauge));
        let choice = choose(&mirrors[..self.gauges.len()], self.turn, length, clock)
            .expect("there are mirrors");
        if let Some(other) = choice.explore {
            self.gauges[other].set_probe(0, length);
            let (_, length) = self.gauges[other].take_probe().expect("just wanted");
            let reading = self.gauges[other].begin(length, clock, ReadReason::Exploration);
            assert!(self.explorations[other].is_none(), "one at a time");
            self.explorations[other] = Some(UnderWay { reading, began: self.now, length });
            self.explored[other] += 1;
            let end = self.serve(other, length);
            self.push(end, End::Exploration, other);
        }
        let reading = self.gauges[choice.index].begin(length, clock, choice.reason);
        self.under_way[client] = Some(UnderWay { reading, began: self.now, length });
        self.went[choice.index] += 1;
        if choice.index == 0 {
            (self.first, self.elsewhere) = (self.first + 1, 0);
        } else {
            self.elsewhere += 1;
            if self.elsewhere == LEFT && self.left_after.is_none() {
                self.left_after = Some(self.first);
            }
        }
        let end = self.serve(choice.index, length);
        self.push(end, End::Client(client), choice.index);
    }

    /// Lets time pass; the counters start again.
    fn run(&mut self, time: u64) -> &mut Self {
        self.went.fill(0);
        self.explored.fill(0);
        self.work.fill(0);
        self.longest = 0;
        (self.first, self.elsewhere, self.left_after) = (0, 0, None);
        let until = self.now + time;
        while let Some(Reverse((when, ..))) = self.ends.peek()
            && *when <= until
        {
            let Reverse((when, _, end, disk)) = self.ends.pop().expect("just seen");
            self.now = when;
            let at = Duration::from_nanos(when);
            let took = |began: u64| Took { at, time: Duration::from_nanos(when - began) };
            match end {
                End::Client(client) => {
                    if let Some(done) = self.under_way[client].take() {
                        self.longest = self.longest.max(when - done.began);
                        done.reading.ended(took(done.began));
                    }
                    self.read(client);
                }
                End::Exploration => {
                    let done = self.explorations[disk].take().expect("under way");
                    done.reading.ended(took(done.began));
                    self.gauges[disk].end_probe(done.length, at);
                }
            }
        }
        self.now = until;
        self
    }

    /// The disk's share of all reads, explorations included, in ten-thousandths.
    fn share(&self, disk: usize) -> u64 {
        let all: u64 = self.went.iter().chain(&self.explored).sum();
        assert!(all > 0, "nothing was read");
        (self.went[disk] + self.explored[disk]) * 10_000 / all
    }
}

fn gauges() -> [ReadGauge; 3] {
    Default::default()
}

fn slower(extra: u64) -> Device {
    Device { extra, ..SSD }
}

/// The name of a load, and the length of its next read.
type Load = (&'static str, fn(&mut Numbers) -> usize);

/// Loads that a database puts on its disks.
fn loads() -> [Load; 3] {
    [
        ("blocks", |_| 8192),
        ("scans", |_| 1 << 20),
        ("both", |numbers| if numbers.below(4) == 0 { 1 << 20 } else { 8192 }),
    ]
}

#[test]
fn equal_disks_share_the_load() {
    for device in [SSD, SERIAL] {
        for clients in [1, 2, 8, 32] {
            for (load, length) in loads() {
                for disks in [2, 3] {
                    let gauges = gauges();
                    let mut bench = Bench::new(&gauges, &vec![device; disks], clients);
                    bench.length = Box::new(length);
                    bench.run(SECOND).run(2 * SECOND);
                    // A share of the work: one disk may have more short reads, and the other more
                    // long ones.
                    let even = bench.work.iter().sum::<u64>() / disks as u64;
                    for work in &bench.work {
                        let fair = even * 9 / 10..=even * 11 / 10;
                        assert!(
                            fair.contains(work),
                            "{load}, {clients} clients, {:?} lanes: {:?}, work {:?}",
                            device.lanes,
                            bench.went,
                            bench.work
                        );
                    }
                }
            }
        }
    }
}

/// Two sites with the same storage, half of whose reads come from a cache; the path to one is 0.3
/// ms longer. Nearly all reads go to the near site, for any load, any number of concurrent reads
/// and any speed of the cache.
#[test]
fn the_nearer_site_is_read_though_service_times_have_two_humps() {
    for base in [60, 200] {
        for clients in [1, 4, 16] {
            for seed in 1..=4 {
                let far = usize::from(seed % 2 == 0);
                let near = Device { base: base * MICRO, humps: CACHE, ..SSD };
                let mut devices = [near; 2];
                devices[far].extra = 300 * MICRO;
                let gauges = gauges();
                let mut bench = Bench::seeded(&gauges, &devices, clients, seed);
                bench.run(2 * SECOND).run(10 * SECOND);
                let case = format!(
                    "seed {seed}, {base} us, {clients} clients: {:?} {:?}",
                    bench.went, bench.explored
                );
                assert!(bench.share(far) <= 500, "{case}");
                assert!(bench.explored[far] > 0, "{case}: it is looked at");
            }
        }
    }
}

/// The near site becomes slow: in its cache, behind it, or both. It is left within some reads, and
/// read again when it has recovered.
#[test]
fn a_site_that_becomes_slow_is_left_though_service_times_have_two_humps() {
    let near = Device { humps: CACHE, ..SSD };
    let slower_behind = Humps { bounds: (200 * MILLI, 400 * MILLI), ..CACHE };
    let slow = [
        ("all by 1 ms", Device { extra: MILLI, ..near }),
        ("all by 20 ms", Device { extra: 20 * MILLI, ..near }),
        ("behind the cache", Device { humps: slower_behind, ..near }),
        ("without the cache", Device { base: 5 * MILLI, ..near }),
    ];
    for (what, slow) in slow {
        for clients in [1, 4, 16] {
            for seed in 1..=2 {
                let gauges = gauges();
                let devices = [near, Device { extra: 300 * MICRO, ..near }];
                let mut bench = Bench::seeded(&gauges, &devices, clients, seed);
                bench.run(SECOND).run(5 * SECOND);
                let case = format!("seed {seed}, {what}, {clients} clients");
                assert!(
                    bench.share(1) <= 500,
                    "{case}: before: {:?} {:?}",
                    bench.went,
                    bench.explored
                );
                bench.devices[0] = slow;
                bench.run(20 * SECOND);
                let left = bench.left_after.expect("it is left");
                assert!(left <= 64 + 2 * clients as u64, "{case}: {left} reads until it is left");
                assert!(bench.share(0) <= 500, "{case}: {:?} {:?}", bench.went, bench.explored);
                bench.devices[0] = near;
                bench.run(5 * SECOND).run(5 * SECOND);
                assert!(
                    bench.share(1) <= 500,
                    "{case}: after: {:?} {:?}",
                    bench.went,
                    bench.explored
                );
            }
        }
    }
}

/// Equally distant sites share the load, though one read may take a hundred times as long as
/// another.
#[test]
fn equal_sites_share_the_load_though_service_times_have_two_humps() {
    for clients in [1, 4, 16] {
        for seed in 1..=2 {
            let gauges = gauges();
            let mut bench =
                Bench::seeded(&gauges, &[Device { humps: CACHE, ..SSD }; 2], clients, seed);
            bench.run(2 * SECOND).run(10 * SECOND);
            assert!(
                (3500..6500).contains(&bench.share(0)),
                "seed {seed}, {clients} clients: {:?}",
                bench.went
            );
        }
    }
}

/// Reads with random latencies are no reason to avoid a disk.
#[test]
fn equal_disks_share_the_load_however_noisy_they_are() {
    for noise in [100, 300, 1000] {
        let gauges = gauges();
        let mut bench = Bench::new(&gauges, &[SSD, SSD], 4);
        bench.noise = noise;
        bench.run(10 * SECOND);
        assert!((3500..6500).contains(&bench.share(0)), "{noise}: {:?}", bench.went);
    }
}

#[test]
fn a_slow_mirror_is_set_aside_within_a_second_and_used_when_it_is_fast_again() {
    for extra in [300 * MICRO, 20 * MILLI] {
        for clients in [1, 2, 8, 16] {
            for slow in 0..2 {
                let case = format!("{extra} ns more, {clients} clients, disk {slow}");
                let gauges = gauges();
                let mut bench = Bench::new(&gauges, &[SSD, SSD], clients);
                bench.run(SECOND);
                assert!(
                    (4000..6000).contains(&bench.share(slow)),
                    "{case}: before: {:?}",
                    bench.went
                );
                bench.devices[slow] = slower(extra);
                bench.run(SECOND / 2);
                assert!(bench.went[1 - slow] > bench.went[slow], "{case}: {:?}", bench.went);
                bench.run(10 * SECOND);
                assert!(bench.share(slow) <= 200, "{case}: {:?} {:?}", bench.went, bench.explored);
                assert!(bench.explored[slow] > 0, "{case}: it is looked at");
                assert_eq!(
                    bench.explored[1 - slow],
                    0,
                    "{case}: what is read need not be explored"
                );
                assert!(
                    bench.longest < extra / 4 + MILLI,
                    "{case}: a program waited for {} ns",
                    bench.longest
                );
                bench.devices[slow] = SSD;
                bench.run(3 * SECOND).run(SECOND);
                assert!(
                    (4000..6000).contains(&bench.share(slow)),
                    "{case}: after: {:?}",
                    bench.went
                );
            }
        }
    }
}

/// A slower disk helps where the faster one cannot serve everything: both work all the time.
#[test]
fn a_slower_mirror_is_read_where_the_faster_one_is_overloaded() {
    for base in [135 * MICRO, 360 * MICRO] {
        let gauges = gauges();
        let mut bench = Bench::new(&gauges, &[SERIAL, Device { base, ..SERIAL }], 32);
        bench.run(SECOND).run(4 * SECOND);
        let idle =
            bench.work.iter().map(|work| 4 * SECOND - work.min(&(4 * SECOND))).collect::<Vec<_>>();
        assert!(
            idle.iter().all(|idle| *idle < 4 * SECOND / 10),
            "{base}: {:?} idle {idle:?}",
            bench.went
        );
    }
}

/// It is slow from the beginning: no fast read was ever measured.
#[test]
fn a_mirror_that_was_always_slow_is_set_aside() {
    for extra in [300 * MICRO, 20 * MILLI] {
        let gauges = gauges();
        let mut bench = Bench::new(&gauges, &[SSD, slower(extra), slower(extra)], 4);
        bench.run(SECOND).run(10 * SECOND);
        let others = bench.share(1) + bench.share(2);
        assert!(others <= 200, "{extra}: {:?} {:?}", bench.went, bench.explored);
        assert!(bench.explored[1] > 0 && bench.explored[2] > 0);
    }
}

/// Only the first reads go to the disk that hangs, and their programs wait for them.
#[test]
fn a_disk_that_does_not_answer_is_avoided_before_it_has_answered() {
    for clients in [2, 16] {
        let gauges = gauges();
        let mut bench = Bench::new(&gauges, &[SSD, SSD], clients);
        bench.run(SECOND);
        bench.devices[0].hung = true;
        bench.run(SECOND);
        let caught = bench.went[0];
        assert!(caught < clients as u64, "{caught} of {clients} programs are caught");
        bench.run(30 * SECOND);
        assert_eq!(bench.went[0], 0, "with {} caught", caught);
        assert!(bench.explored[0] <= 1, "an exploration waits like everybody");
        assert!(bench.went[1] > 1000);
    }
}

/// A hung disk answers none of its reads for a while, and then all: overdue reads count for it from
/// their end on.
#[test]
fn an_overdue_read_makes_a_disk_slow_at_once() {
    let gauges = gauges();
    let now = Duration::from_secs(1);
    let quick = Took { at: now, time: Duration::from_micros(100) };
    for gauge in &gauges[..2] {
        (0..50).for_each(|_| gauge.begin(8192, now, ReadReason::Equal).ended(quick));
    }
    let overdue = gauges[0].begin(8192, now, ReadReason::Equal);
    overdue.note_overdue(Duration::from_secs(11));
    drop(overdue);
    let mirrors = [Some(&gauges[0]), Some(&gauges[1])];
    for turn in 0..2 {
        let choice = choose(&mirrors, turn, 8192, Duration::from_secs(12)).expect("two");
        assert_eq!((choice.index, choice.reason), (1, ReadReason::Faster));
    }
    assert_eq!(gauges[0].estimates()[0], Some(Duration::from_secs(10)));
    // Another disk takes its place.
    gauges[0].forget();
    assert_eq!(
        choose(&mirrors, 0, 8192, Duration::from_secs(12)).map(|choice| choice.reason),
        Some(ReadReason::Equal)
    );
}

/// One of two equal disks also serves long reads that only it can: that does not make it slow for
/// the others.
#[test]
fn a_disk_that_serves_long_reads_does_not_count_as_slow() {
    let gauges = gauges();
    let mut turn = 0;
    let mut went = [0_u64; 2];
    for step in 0..20_000_u64 {
        let now = Duration::from_nanos(SECOND + step * MILLI);
        let took =
            |length: u64| Took { at: now, time: Duration::from_nanos(90 * MICRO + 4 * length) };
        gauges[0].begin(1 << 20, now, ReadReason::Only).ended(took(1 << 20));
        turn += 1;
        let choice = choose(&[Some(&gauges[0]), Some(&gauges[1])], turn, 8192, now).expect("two");
        went[choice.index] += 1;
        gauges[choice.index].begin(8192, now, choice.reason).ended(took(8192));
    }
    assert_eq!(went, [10_000, 10_000]);
    let estimates = gauges[0].estimates().map(|time| time.map(|time| time.as_micros()));
    assert!(
        estimates[0].is_some_and(|time| time < 200) && estimates[3].is_some_and(|time| time > 4000),
        "{estimates:?}"
    );
    assert_eq!(gauges[1].estimates()[3], None);
}

/// A disk that is busy with reads that only it can serve gets fewer of the others.
#[test]
fn the_disk_with_fewer_reads_in_flight_is_read() {
    let gauges = gauges();
    let now = Duration::from_secs(1);
    for gauge in &gauges[..2] {
        (0..50).for_each(|_| {
            gauge
                .begin(8192, now, ReadReason::Equal)
                .ended(Took { at: now, time: Duration::from_millis(5) });
        });
    }
    let busy = gauges[0].begin(8192, now, ReadReason::Only);
    for turn in 0..4 {
        assert_eq!(
            choose(&[Some(&gauges[0]), Some(&gauges[1])], turn, 8192, now).map(|one| one.index),
            Some(1)
        );
    }
    drop(busy);
    let index =
        |turn| choose(&[Some(&gauges[0]), Some(&gauges[1])], turn, 8192, now).map(|one| one.index);
    assert_eq!([index(0), index(1), index(2)], [Some(0), Some(1), Some(0)], "each in its turn");
}

/// Preferred disks are read, however slow they are, and the others not even explored; without a
/// preference the others are as fast as they are.
#[test]
fn preferred_disks_are_read_and_no_others() {
    let gauges = gauges();
    gauges[0].prefer(Preference::Yes);
    gauges[1].prefer(Preference::No);
    gauges[2].prefer(Preference::No);
    let mut bench = Bench::new(&gauges, &[slower(20 * MILLI), SSD, SSD], 8);
    bench.run(60 * SECOND);
    assert_eq!((&bench.went[1..], &bench.explored[..]), (&[0, 0][..], &[0, 0, 0][..]));
    assert!(gauges[0].count(ReadReason::Preferred) > 10_000);
    // The faster of two preferred disks.
    gauges[1].prefer(Preference::Yes);
    bench.run(SECOND).run(10 * SECOND);
    assert!(
        bench.share(0) <= 200 && bench.went[2] == 0 && bench.explored[2] == 0,
        "{:?}",
        bench.went
    );
    // A preferred disk cannot be read: first the other preferred one, then the rest.
    let now = Duration::from_nanos(bench.now);
    let first = choose(&[None, Some(&gauges[1]), Some(&gauges[2])], 0, 8192, now).expect("two");
    let last = choose(&[None, None, Some(&gauges[2])], 0, 8192, now).expect("one");
    assert_eq!((first.index, first.reason), (1, ReadReason::Retry));
    assert_eq!((last.index, last.reason), (2, ReadReason::Retry));
    assert_eq!(choose(&[None, None, None], 0, 8192, now), None);
    assert_eq!(choose(&[], 0, 8192, now), None);
}

/// One hiccup, as disks have them, costs a disk a few reads, not seconds.
#[test]
fn a_hiccup_is_soon_forgotten() {
    let gauges = gauges();
    let mut bench = Bench::new(&gauges, &[SSD, SSD], 2);
    bench.run(SECOND);
    bench.devices[0] = slower(50 * MILLI);
    bench.run(200 * MICRO);
    bench.devices[0] = SSD;
    bench.run(SECOND / 2).run(SECOND);
    assert!((4000..6000).contains(&bench.share(0)), "{:?}", bench.went);
}

/// A disk that fails at once is not fast, and one that takes long to fail is slow.
#[test]
fn failures_make_no_disk_fast() {
    let gauges = gauges();
    let now = Duration::from_secs(1);
    let took = |time| Took { at: now, time };
    for _ in 0..50 {
        gauges[0].begin(8192, now, ReadReason::Equal).ended(took(Duration::from_millis(1)));
    }
    let before = gauges[0].estimates();
    (0..50).for_each(|_| {
        gauges[0].begin(8192, now, ReadReason::Exploration).failed(took(Duration::ZERO))
    });
    assert_eq!(gauges[0].estimates(), before);
    for _ in 0..50 {
        gauges[1].begin(8192, now, ReadReason::Equal).ended(took(Duration::from_millis(1)));
    }
    (0..5).for_each(|_| {
        gauges[0].begin(8192, now, ReadReason::Equal).failed(took(Duration::from_secs(5)))
    });
    for turn in 0..2 {
        let choice = choose(&[Some(&gauges[0]), Some(&gauges[1])], turn, 8192, now).expect("two");
        assert_eq!((choice.index, choice.reason), (1, ReadReason::Faster));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any disks: reads in flight are counted right, explorations stay within their budget, and
    /// a disk that is by far the slowest gets almost none.
    #[test]
    fn any_disks(
        bases in prop::collection::vec(20..2000_u64, 2..=3),
        far in 0..3_usize,
        clients in 1..12_usize,
        noise in 0..60_u64,
        lanes in prop::sample::select(vec![8_usize, 32]),
    ) {
        let gauges = gauges();
        let mut devices: Vec<Device> =
            bases.iter().map(|base| Device { base: base * MICRO, lanes, ..SSD }).collect();
        let far = far % devices.len();
        devices[far].extra = 40 * MILLI;
        let mut bench = Bench::new(&gauges, &devices, clients);
        bench.noise = noise;
        bench.run(2 * SECOND).run(10 * SECOND);
        prop_assert!(bench.share(far) <= 200, "{:?} {:?} of {bases:?}", bench.went, bench.explored);
        let reads: u64 = bench.went.iter().sum();
        for explored in &bench.explored {
            prop_assert!(explored * EXPLORE_PASSED <= reads + EXPLORE_PASSED, "{:?} {:?}", bench.went, bench.explored);
        }
        bench.under_way.clear();
        bench.explorations.clear();
        prop_assert!(gauges.iter().all(|gauge| gauge.queued.load(Relaxed) == 0));
    }
}
