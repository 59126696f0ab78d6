//! Power is cut while databases write: every disk of the group at the same moment, at any point.
//!
//! `tests/src/crash.rs` says how it is done. `PLINTH_SEED` chooses other points and other fates of
//! unflushed writes; `PLINTH_KEEP=DIR` keeps the disks of states that were not survived.

use plinth_tests::{
    Host, Instance, MIB, Postgres,
    crash::{
        Between, Loads, Story, by_mount, by_repair, check, must_be_survived, seed, try_states,
    },
    loads::{self, Load, Wrong},
    planted_binary,
    recorder::Event,
    replay::{Cut, HONEST},
    scaled,
};
use plinth_workload::{lock, random::Random};
use std::{
    ops::RangeInclusive,
    path::Path,
    sync::{Arc, Mutex},
};

/// SQLite and small programs of all kinds.
fn small_loads(rounds: u64) -> Loads {
    Arc::new(loads::all().into_iter().map(|load| (load, rounds)).collect())
}

/// Large enough for all the files of these loads.
const SMALL: u64 = 96 * MIB;

fn story(redundancy: &str, disks: usize, rounds: u64, between: Between) -> Story {
    Host::run(|host| {
        Story::record(
            &Instance::new(),
            host,
            redundancy,
            disks,
            SMALL,
            &small_loads(rounds),
            between,
        )
    })
}

/// While SQLite and others write, while an engine recovers from a kill, while the group is
/// dismounted or mounted.
#[test]
fn acknowledged_writes_survive_a_loss_of_power() {
    let seed = seed();
    let shapes: &[_] = &[("NORMAL", 3), ("HIGH", 3), ("EXTERNAL", 1), ("NORMAL", 2)];
    for (number, (redundancy, disks)) in shapes.iter().take(scaled(1, 4)).enumerate() {
        let story = story(redundancy, *disks, scaled(40, 60), Between::Stops);
        println!("{redundancy}, {disks} disks: {} events", story.recording.events.len());
        must_be_survived(&story, &story.cuts(scaled(60, 200), seed + number as u64), &by_mount);
    }
}

/// While a disk is offline, and while it is brought back under load.
#[test]
fn a_resync_survives_a_loss_of_power() {
    let seed = seed();
    for (number, disks) in [3, 2].into_iter().take(scaled(1, 2)).enumerate() {
        let story = story("NORMAL", disks, 30, Between::Absence);
        println!("{disks} disks: {} events", story.recording.events.len());
        must_be_survived(&story, &story.cuts(scaled(30, 200), seed + number as u64), &by_mount);
    }
}

/// While one disk is added and another dropped, while disks get other names and other sizes, while
/// the redundancy changes.
#[test]
fn a_movement_survives_a_loss_of_power() {
    let seed = seed();
    let story = story("NORMAL", 4, scaled(20, 40), Between::Movement);
    println!("{} events", story.recording.events.len());
    must_be_survived(&story, &story.cuts(scaled(30, 200), seed), &by_mount);
}

/// Power is cut, and cut again while the group recovers, is used, or is checked and repaired.
#[test]
fn a_recovery_survives_a_loss_of_power() {
    let seed = seed();
    let first = story("NORMAL", 3, 30, Between::Stops);
    for (number, cut) in first.cuts(scaled(2, 12), seed).into_iter().enumerate() {
        let second = Host::run(|host| {
            if number % 2 == 0 {
                first.sequel(host, &first.state(cut), &|instance, disks| {
                    by_mount(instance, disks);
                    instance.check("DATA");
                    instance.sql("ALTER DISKGROUP data DISMOUNT");
                })
            } else {
                first.sequel(host, &first.state(cut), &|instance, disks| {
                    assert_eq!(check(instance, true, disks).code, Some(0))
                })
            }
        });
        println!("{cut}: {} events", second.recording.events.len());
        must_be_survived(&second, &second.cuts(scaled(8, 20), seed + number as u64), &by_mount);
    }
}

/// One disk of a dismounted group has noise in many places. Power is cut while `check --repair`
/// repairs them: a second one repairs the rest.
#[test]
fn a_repair_survives_a_loss_of_power() {
    let seed = seed();
    let whole = story("NORMAL", 3, 30, Between::Stops);
    for round in 0..scaled(1, 6) {
        let mut damaged = whole.end();
        let mut random = Random::new(seed + round);
        let disk = random.below(3);
        let image = &mut damaged.images[disk];
        let blocks = usize::try_from(image.size() / 4096).expect("a test's disk");
        let (mut block, mut before, mut struck) = (vec![0; 4096], vec![0; 4096], 0);
        while struck < 40 {
            let place = random.below(blocks) as u64 * 4096;
            image.read(place, &mut block);
            whole.recording.base[disk].read(place, &mut before);
            // Space that was never written cannot rot.
            if block != before {
                random.fill(&mut block);
                image.write(place, &block);
                struck += 1;
            }
        }
        let repair = Host::run(|host| {
            whole.sequel(host, &damaged, &|instance, disks| {
                let repaired = check(instance, true, disks);
                assert_eq!(repaired.code, Some(1), "{repaired}");
            })
        });
        println!("noise on disk {disk}: {} events", repair.recording.events.len());
        must_be_survived(&repair, &repair.cuts(scaled(20, 90), seed + round), &by_repair);
    }
}

/// Flushes that end and do nothing, between two acknowledgements of one writer: the test above
/// would find such a mistake.
#[test]
fn a_flush_that_does_nothing_is_found() {
    let seed = seed();
    let story = story("NORMAL", 3, 30, Between::Stops);
    let acknowledged: Vec<_> = (story.from..story.recording.events.len())
        .filter(|event| matches!(story.recording.events[*event], Event::Mark { stream: 0, .. }))
        .collect();
    let mut random = Random::new(seed);
    for _ in 0..scaled(2, 10) {
        let number = 1 + random.below(acknowledged.len() - 1);
        let (before, after) = (acknowledged[number - 1], acknowledged[number]);
        let cuts: Vec<_> = (0..40).map(|_| Cut { at: after + 1, seed: random.number() }).collect();
        must_be_survived(&story, &cuts[..2], &by_mount);
        let failures =
            try_states(&story, &cuts, &|_, event| (before..after).contains(&event), &by_mount, 1);
        assert!(!failures.is_empty(), "no flush from {before} to {after} was needed");
    }
}

/// Engines that leave a flush out, or do it too late, recorded; the states are recovered by one
/// that does not.
#[test]
fn an_engine_that_skips_a_flush_is_found() {
    if !scaled(false, true) {
        println!("only with PLINTH_LONG=1: a build of its own is needed");
        return;
    }
    let seed = seed();
    let program = planted_binary();
    for mistake in ["written-before-flush", "wal-not-synced"] {
        let story = Host::run(|host| {
            let instance = Instance::of(program.clone(), &[("PLINTH_PLANTED", mistake)]);
            Story::record(&instance, host, "NORMAL", 3, SMALL, &small_loads(60), Between::Stops)
        });
        println!("{mistake}: {} events", story.recording.events.len());
        let failures = try_states(&story, &story.cuts(600, seed), HONEST, &by_mount, 1);
        assert!(!failures.is_empty(), "{mistake} was not found");
    }
}

/// One disk of three ends every flush without doing anything, and loses more than its cache.
#[test]
fn a_disk_that_lies_is_found() {
    let seed = seed();
    let story = story("NORMAL", 3, 30, Between::Stops);
    let lie = |disk, event| disk == 1 && event >= story.from;
    let failures = try_states(&story, &story.cuts(60, seed), &lie, &by_mount, 1);
    assert!(!failures.is_empty(), "no flush of the second disk was needed");
}

/// PostgreSQL: one session that commits, and a table that is updated meanwhile.
struct Commits(Mutex<Option<Postgres>>);

impl Commits {
    fn with<T>(&self, work: impl FnOnce(&Postgres) -> T) -> T {
        work(lock(&self.0).as_ref().expect("the cluster runs"))
    }
}

impl Load for Commits {
    fn prepare(&self, dir: &Path) {
        let postgres = Postgres::new(dir, "pg");
        postgres.psql("CREATE EXTENSION amcheck");
        postgres.psql("CREATE TABLE told (n bigint PRIMARY KEY, filler text)");
        postgres.psql("CREATE TABLE counts (id int PRIMARY KEY, n bigint)");
        postgres.psql("INSERT INTO counts SELECT id, 0 FROM generate_series(0, 99) AS id");
        *lock(&self.0) = Some(postgres);
    }

    fn run(&self, _: &Path, operations: RangeInclusive<u64>, durable: &dyn Fn(u64)) {
        let statements = operations.map(|n| {
            let filler = format!("repeat(md5('{n}'), {})", n * 7 % 150);
            let checkpoint = if n % 40 == 0 { "CHECKPOINT; " } else { "" };
            format!(
                "{checkpoint}WITH counted AS (UPDATE counts SET n = n + 1 WHERE id = {}) \
                 INSERT INTO told VALUES ({n}, {filler}) RETURNING n",
                n * 31 % 100
            )
        });
        self.with(|postgres| {
            postgres.session(statements, &mut |line| durable(line.parse().expect("a number")))
        });
    }

    fn finish(&self) {
        drop(lock(&self.0).take());
    }

    fn verify(&self, dir: &Path, acknowledged: u64, last: u64) -> Result<(), Wrong> {
        let postgres = Postgres::existing(dir, "pg");
        let facts = postgres.psql(
            "SELECT count(*), coalesce(min(n), 1), coalesce(max(n), 0), (SELECT sum(n) FROM counts), \
             count(*) FILTER (WHERE filler <> repeat(md5(n::text), (n * 7 % 150)::int)) FROM told",
        );
        let facts: Vec<u64> = facts.split('|').filter_map(|fact| fact.parse().ok()).collect();
        let count = facts.first().copied().unwrap_or(u64::MAX);
        if facts != [count, 1, count, count, 0] || !(acknowledged..=last).contains(&count) {
            return Err(format!(
                "PostgreSQL: {facts:?}, and {acknowledged} commits were acknowledged"
            ));
        }
        postgres.amcheck();
        postgres.stop_and_verify_pages();
        Ok(())
    }
}

/// PostgreSQL, with a log beside it.
#[test]
fn postgres_survives_a_loss_of_power() {
    let seed = seed();
    let loads: Loads = Arc::new(vec![
        (Box::new(Commits(Mutex::new(None))) as Box<dyn Load>, scaled(400, 1_000)),
        (Box::new(loads::Appends), 60),
    ]);
    let story = Host::run(|host| {
        Story::record(&Instance::new(), host, "NORMAL", 2, 256 * MIB, &loads, Between::Nothing)
    });
    println!("{} events", story.recording.events.len());
    must_be_survived(&story, &story.cuts(scaled(5, 50), seed), &by_mount);
}
