//! The catalog on a store that is killed, cut and corrupted.
#![allow(clippy::unwrap_used)]

use super::{live::live_row, memory_store::MemoryStore, *};
use crate::testing::{Numbers, TestWorld, block_on};
use crate::world::BackgroundStage;
use futures::future::{Either, select};
use rusqlite::params;
use std::{
    collections::BTreeMap,
    pin::pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

const MIB: u64 = 1 << 20;

fn world() -> Arc<dyn World> {
    TestWorld::new()
}

fn create(store: &Arc<MemoryStore>) -> Arc<Catalog> {
    block_on(Catalog::create(&world(), Arc::clone(store) as Arc<dyn Store>)).unwrap()
}

fn open(store: &Arc<MemoryStore>) -> Result<Arc<Catalog>, CatalogError> {
    block_on(Catalog::open(&world(), Arc::clone(store) as Arc<dyn Store>, false))
        .map(|(catalog, _)| catalog)
}

type Job<T> = Box<dyn FnOnce(&Connection) -> Result<T, FileError> + Send>;

fn set(name: u64, value: u64, padding: usize) -> Job<()> {
    Box::new(move |connection| {
        let text = format!("{value}{}", " ".repeat(padding));
        let sql = "INSERT INTO attribute (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value";
        connection.prepare_cached(sql)?.execute(params![name.to_string(), text])?;
        Ok(())
    })
}

fn all(catalog: &Catalog) -> Result<BTreeMap<u64, u64>, FileError> {
    block_on(catalog.read(|connection| {
        let mut statement = connection.prepare_cached("SELECT name, value FROM attribute")?;
        let mut found = BTreeMap::new();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (name, value): (String, String) = (row.get(0)?, row.get(1)?);
            found.insert(name.parse().unwrap(), value.trim().parse().unwrap());
        }
        Ok(found)
    }))
}

fn store() -> Arc<MemoryStore> {
    MemoryStore::new(2, 4 * MIB, 4 * MIB, Some(7))
}

/// A catalog created on disks full of noise is whole, even after it was closed and opened.
#[test]
fn a_clean_stop_keeps_every_commit() {
    let store = store();
    let catalog = create(&store);
    for name in 0..50 {
        block_on(catalog.write(name % 7 == 0, set(name, name * 2, 0))).unwrap();
    }
    assert!(block_on(catalog.verify()).unwrap().is_empty());
    block_on(catalog.close()).unwrap();
    assert!(block_on(catalog.write(false, set(1, 1, 0))).is_err());
    let (catalog, recovery) = block_on(Catalog::open(&world(), store.reconnect(), false)).unwrap();
    assert_eq!(recovery, Recovery::default());
    assert_eq!(all(&catalog).unwrap(), (0..50).map(|name| (name, name * 2)).collect());
}

/// The process is killed: every answered commit is there, durable or not.
#[test]
fn a_kill_loses_no_acknowledged_commit() {
    let mut store = store();
    let mut catalog = create(&store);
    for round in 0..10 {
        for name in 0..30 {
            block_on(catalog.write(false, set(name, round * 100 + name, 50))).unwrap();
        }
        store = store.reconnect();
        catalog = open(&store).unwrap();
        assert_eq!(
            all(&catalog).unwrap(),
            (0..30).map(|name| (name, round * 100 + name)).collect()
        );
    }
}

/// Failed jobs of a batch are undone alone, and their callers get the reason.
#[test]
fn a_failed_job_is_undone_alone() {
    let store = store();
    let catalog = create(&store);
    let jobs = (0..40_u64).map(|name| {
        let job = set(name, name, 0);
        catalog.write(false, move |connection| {
            job(connection)?;
            if name % 3 == 0 { Err(FileError::NotEmpty) } else { Ok(name) }
        })
    });
    // The first one holds the writer until all the others wait.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let first = catalog.write(false, move |_| {
        let _gone = wait.recv();
        Ok(())
    });
    let (first, results) = block_on(async {
        let (mut first, mut jobs) = (pin!(first), pin!(futures::future::join_all(jobs)));
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut jobs).is_pending());
        drop(go);
        futures::join!(first, jobs)
    });
    let (_, begun) = first.unwrap();
    let mut last = begun;
    for (name, result) in (0..40).zip(results) {
        match result {
            Ok((value, number)) => {
                assert_eq!(value, name);
                assert!(number >= last);
                last = number;
            }
            Err(error) => assert!(name % 3 == 0 && matches!(error, FileError::NotEmpty)),
        }
    }
    assert_eq!(
        all(&catalog).unwrap(),
        (0..40).filter(|name| name % 3 != 0).map(|name| (name, name)).collect()
    );
    assert!(last.0 <= begun.0 + 1, "jobs that wait together are committed together");
}

/// A job that changes no row is part of a commit with a number of its own, which writes nothing and
/// is as durable as the commit before it.
#[test]
fn a_job_that_changes_no_row_is_a_commit() {
    let store = store();
    let catalog = create(&store);
    let nothing = |durable| block_on(catalog.release(durable, |_| Ok(()))).unwrap().1;
    let (_, whole) = block_on(catalog.write(true, set(1, 1, 0))).unwrap();
    let before = store.operations();
    for (turn, durable) in (1..).zip([false, true, false]) {
        let number = nothing(durable);
        assert_eq!(
            (number.0, catalog.committed(), catalog.durable()),
            (whole.0 + turn, number, number)
        );
    }
    assert_eq!(store.operations(), before);
    // A job that failed is part of no commit.
    assert!(block_on(catalog.release(false, |_| Err::<(), _>(FileError::NotEmpty))).is_err());
    assert_eq!(catalog.committed().0, whole.0 + 3);
    // After a commit that is not durable, it is not durable either.
    let (_, open) = block_on(catalog.write(false, set(2, 2, 0))).unwrap();
    let number = nothing(false);
    assert!(number > open && catalog.durable() < open);
    block_on(catalog.make_durable(number)).unwrap();
    assert!(catalog.durable() >= number);
    assert_ne!(store.operations(), before);
}

#[test]
fn waiting_syncs_share_a_durable_point() {
    let store = store();
    let catalog = create(&store);
    let (_, number) = block_on(catalog.write(false, set(1, 1, 0))).unwrap();
    assert!(catalog.durable() < number);
    let points = block_on(futures::future::join_all((0..20).map(|_| catalog.durable_point())));
    assert!(points.into_iter().all(|point| point.unwrap() > number));
    assert!(catalog.durable() >= number && catalog.durable().0 <= number.0 + 2);
    block_on(catalog.wait_durable(number)).unwrap();
    let before = store.operations();
    block_on(catalog.durable_point()).unwrap();
    assert_eq!(store.operations(), before, "nothing to make durable, nothing done");
}

/// A reader in a snapshot neither sees nor stops the writer.
#[test]
fn a_reader_keeps_its_snapshot_while_the_writer_goes_on() {
    let store = store();
    let catalog = create(&store);
    block_on(catalog.write(false, set(1, 1, 0))).unwrap();
    let (started, go_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let reading = {
        let (started, go_on) = (Arc::clone(&started), Arc::clone(&go_on));
        catalog.read(move |connection| {
            let value = |sql| connection.query_row(sql, [], |row| row.get::<_, String>(0));
            let before = value("SELECT value FROM attribute")?;
            started.store(true, Ordering::SeqCst);
            while !go_on.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            Ok((before, value("SELECT value FROM attribute")?))
        })
    };
    let writing = async {
        while !started.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        for value in 2..100 {
            catalog.write(value % 10 == 0, set(1, value, 0)).await.unwrap();
        }
        go_on.store(true, Ordering::SeqCst);
    };
    let (read, ()) = block_on(futures::future::join(reading, writing));
    assert_eq!(read.unwrap(), ("1".to_owned(), "1".to_owned()));
    assert_eq!(all(&catalog).unwrap()[&1], 99);
}

/// Power is cut at the k-th operation of the store, for many k and seeds. Every
/// durable commit survives; what survives is a prefix of the commits, in order;
/// the next life of the catalog goes on from there.
#[test]
fn power_cuts_leave_a_prefix_with_every_durable_commit() {
    let cuts: u64 = 400;
    for seed in 0..cuts {
        let mut numbers = Numbers::new(seed);
        let mirrors = usize::try_from(1 + seed % 3).unwrap();
        let mut store = MemoryStore::new(mirrors, 8 * MIB, MIB, Some(seed));
        let mut catalog = create(&store);
        // `history[n]`: the state after n commits; a commit changes one to three names.
        let mut history: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new()];
        for life in 0..3 {
            store.fail_after(1 + numbers.below(120), seed * 10 + life);
            let base = history.len() - 1;
            let (mut answered, mut durable) = (base, base);
            for _ in 0..2000 {
                let mut state = history.last().unwrap().clone();
                let mut changes = Vec::new();
                for _ in 0..1 + numbers.below(3) {
                    let (name, value) = (numbers.below(40), history.len() as u64);
                    state.insert(name, value);
                    changes.push(set(name, value, usize::try_from(numbers.below(3000)).unwrap()));
                }
                history.push(state);
                let wants = numbers.below(6) == 0;
                let result = block_on(catalog.write(wants, move |connection| {
                    changes.into_iter().try_for_each(|change| change(connection))
                }));
                if result.is_err() {
                    break;
                }
                answered = history.len() - 1;
                let point = numbers.below(15) == 0;
                let checkpoint = numbers.below(40) == 0;
                if wants
                    || (point && block_on(catalog.durable_point()).is_ok())
                    || (checkpoint && block_on(catalog.checkpoint()).is_ok())
                {
                    durable = answered;
                }
            }
            assert!(store.is_dead(), "seed {seed}: the power was cut");
            store = store.restart(seed.wrapping_mul(31) + life);
            // In some cases power fails again while the catalog is being recovered.
            for again in 0..numbers.below(3) {
                store.fail_after(1 + numbers.below(12), seed + again);
                let _ = open(&store);
                store = store.restart(seed + again + 1);
            }
            catalog =
                open(&store).unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"));
            let found = all(&catalog).unwrap();
            let at = (0..history.len()).rev().find(|at| history[*at] == found);
            let at = at.unwrap_or_else(|| panic!("seed {seed}, life {life}: not a prefix"));
            assert!(
                at >= durable,
                "seed {seed}, life {life}: {at} of {answered}, durable were {durable}"
            );
            history.truncate(at + 1);
            assert!(block_on(catalog.verify()).unwrap().is_empty(), "seed {seed}, life {life}");
        }
    }
}

/// A durable job that changes no row writes nothing, and earlier commits are made durable all the
/// same.
#[test]
fn a_durable_job_that_changes_nothing_is_a_durable_point() {
    for (seed, again) in (0..40).flat_map(|seed| [(seed, 5), (seed, 6)]) {
        let store = store();
        let catalog = create(&store);
        block_on(catalog.write(false, set(1, 5, 0))).unwrap();
        block_on(catalog.release(true, set(1, again, 0))).unwrap();
        store.fail_after(0, seed);
        let _ = block_on(catalog.write(false, set(2, 7, 0)));
        let catalog = open(&store.restart(seed)).unwrap();
        assert_eq!(all(&catalog).unwrap().get(&1), Some(&again), "seed {seed}");
    }
}

/// Noise over a page of one mirror: the other is read, and the bad one repaired. Noise over all
/// mirrors: the error says that no mirror is good.
#[test]
fn a_bad_page_is_read_from_the_next_mirror() {
    let store = store();
    let catalog = create(&store);
    for name in 0..200 {
        block_on(catalog.write(false, set(name, name, 300))).unwrap();
    }
    block_on(catalog.close()).unwrap();
    let page = |number: u64| (number - 1) * 4096;
    let noise = [0x5a_u8; 512];
    for number in 1..20 {
        store.corrupt(
            CatalogFile::Database,
            usize::try_from(number % 2).unwrap(),
            page(number) + 1024,
            &noise,
        );
    }
    let store = store.reconnect();
    let catalog = open(&store).unwrap();
    assert_eq!(all(&catalog).unwrap().len(), 200);
    assert!(store.repairs() > 0);
    block_on(catalog.close()).unwrap();

    for mirror in 0..2 {
        (2..30).for_each(|number| {
            store.corrupt(CatalogFile::Database, mirror, page(number) + 64, &noise)
        });
    }
    let store = store.reconnect();
    match open(&store) {
        Ok(catalog) => {
            let error = all(&catalog).unwrap_err();
            assert!(matches!(error, FileError::Catalog(_)), "{error}");
            let asked =
                catalog.query("SELECT * FROM attribute", Live::default(), QueryLimits::default());
            assert!(
                block_on(asked.unwrap().collect()).unwrap_err().message.contains("no good mirror")
            );
        }
        Err(error) => assert!(matches!(error, CatalogError::Sqlite(_)), "{error}"),
    }
    store.corrupt(CatalogFile::Database, 0, 0, &noise);
    store.corrupt(CatalogFile::Database, 1, 0, &noise);
    let store = store.reconnect();
    assert!(matches!(open(&store), Err(CatalogError::Store(StoreError::NoGoodMirror { .. }))));
}

/// The log of one mirror is damaged after a kill: the other mirror has all of it.
#[test]
fn the_longest_log_of_the_mirrors_counts() {
    for bad in 0..2 {
        let store = store();
        let catalog = create(&store);
        for name in 0..20 {
            block_on(catalog.write(false, set(name, name, 100))).unwrap();
        }
        store.corrupt(CatalogFile::Wal, bad, 9000, &[1; 100]);
        let store = store.reconnect();
        let (catalog, recovery) =
            block_on(Catalog::open(&world(), Arc::clone(&store) as Arc<dyn Store>, false)).unwrap();
        assert_eq!(recovery.mirrors_repaired, 1);
        assert!(recovery.commits >= 20);
        assert_eq!(all(&catalog).unwrap().len(), 20);
    }
}

/// Only one mirror has the whole log, recovery is cut short at every step, and then that mirror is
/// lost: what is left is a prefix, and whole.
#[test]
fn recovery_cut_short_never_needs_the_mirror_it_copied_from() {
    for step in 1..25 {
        for seed in 0..4 {
            let mut store = store();
            let catalog = create(&store);
            for name in 0..40 {
                block_on(catalog.write(false, set(name, name, 900))).unwrap();
            }
            store.corrupt(CatalogFile::Wal, 0, 30_000, &[1; 100]);
            store = store.reconnect();
            store.fail_after(step, seed);
            let cut = open(&store).is_err();
            store = store.restart(seed);
            store.lose(1);
            let catalog =
                open(&store).unwrap_or_else(|error| panic!("step {step}, seed {seed}: {error}"));
            let found = all(&catalog).unwrap();
            let count = found.len() as u64;
            assert!(count == 40 || cut, "step {step}, seed {seed}: {count}");
            assert_eq!(
                found,
                (0..count).map(|name| (name, name)).collect(),
                "step {step}, seed {seed}"
            );
            assert!(block_on(catalog.verify()).unwrap().is_empty(), "step {step}, seed {seed}");
        }
    }
}

/// A reader that never ends does not let the log grow beyond its capacity: it is ended, and so is
/// each of its repetitions.
#[test]
fn a_long_reader_ends_when_the_log_is_full() {
    let store = small_log();
    let catalog = create(&store);
    let read = read_while_it_grows(&catalog, |connection| read_slowly(connection, true));
    assert!(matches!(read, Err(FileError::SnapshotTooOld)), "{read:?}");
    assert_eq!(store.capacity(CatalogFile::Wal), MIB);
    assert_eq!(all(&catalog).unwrap().len(), 50);
}

/// A read that was ended because the log ran full is repeated by the catalog, not by its caller.
#[test]
fn a_read_that_was_ended_is_repeated() {
    let catalog = create(&small_log());
    let times = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&times);
    let read = move |connection: &Connection| {
        read_slowly(connection, count.fetch_add(1, Ordering::SeqCst) < 2)
    };
    assert_eq!(read_while_it_grows(&catalog, read).unwrap(), 1);
    assert_eq!(times.load(Ordering::SeqCst), 3);
}

/// A database that needs a small part of its only AU has nothing to give back: its commits leave
/// the log as it is, and the reads beside them.
#[test]
fn a_catalog_in_one_large_au_does_not_end_reads() {
    let store = MemoryStore::new(2, 64 * MIB, 64 * MIB, None);
    store.shrink_by(64 * MIB);
    let catalog = create(&store);
    let write = |value| block_on(catalog.write(false, set(1, value, 0))).unwrap();
    let positions = (0..20).map(|value| {
        write(value);
        catalog.vfs.image().log_position()
    });
    assert!(positions.is_sorted_by(|before, after| before < after), "the log was restarted");
}

/// While a statement runs and the log is more than half full, other statements wait, the engine's
/// own reads and commits go on, and the log is restarted when that statement ends, even without
/// another commit.
#[test]
fn statements_wait_for_the_log_and_commits_do_not() {
    let catalog = create(&small_log());
    for name in 0..500 {
        block_on(catalog.write(false, set(name, name, 0))).unwrap();
    }
    block_on(catalog.checkpoint()).unwrap();
    // More rows than a pipe holds, and no one receives them.
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, hex(zeroblob(1000)) FROM n, attribute";
    let ask = |sql: &str| catalog.query(sql, Live::default(), QueryLimits::default()).unwrap();
    let mut long = ask(endless);
    assert!(matches!(block_on(long.next()), Some(crate::catalog::rows::Piece::Columns(..))));
    let position = || catalog.vfs.image().log_position();
    let mut value = 0;
    while !catalog.barrier.is_held() {
        block_on(catalog.write(false, set(value % 500, value, 0))).unwrap();
        value += 1;
    }
    assert!(position() > MIB / 2);
    let mut late = ask("SELECT count(*) FROM attribute");
    for _ in 0..5 {
        block_on(catalog.write(false, set(value % 500, value, 0))).unwrap();
        assert_eq!(all(&catalog).unwrap().len(), 500);
        value += 1;
    }
    assert!(position() > MIB / 2, "the statement still needs the log");
    drop(long);
    // Columns, and then a row: the statement began after the log had been restarted.
    assert!(matches!(block_on(late.next()), Some(crate::catalog::rows::Piece::Columns(..))));
    assert!(matches!(
        block_on(late.next()),
        Some(crate::catalog::rows::Piece::Part { rows: 1, .. })
    ));
    assert!(position() < MIB / 2);
    assert_eq!(all(&catalog).unwrap().len(), 500);
}

/// A statement is throttled before it begins and while it runs, until the log is so full that
/// commits would have to wait for its end.
#[test]
fn a_statement_that_the_writer_waits_for_is_not_throttled() {
    let world = TestWorld::new();
    let catalog =
        block_on(Catalog::create(&(Arc::clone(&world) as Arc<dyn World>), small_log())).unwrap();
    let endless = "WITH RECURSIVE n(i) AS (SELECT count(*) FROM attribute UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    let statement = catalog.query(endless, Live::default(), QueryLimits::default()).unwrap();
    let wait = |stage, least| {
        for _ in 0..12_000 {
            if world.throttled(stage) >= least {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{stage:?} did not come {least} times");
    };
    wait(BackgroundStage::Running, 10);
    assert_eq!(world.throttled(BackgroundStage::Starting), 1);
    let mut value = 0;
    while !catalog.barrier.is_held() {
        assert_eq!(world.throttled(BackgroundStage::Awaited), 0);
        block_on(catalog.write(false, set(value % 500, value, 0))).unwrap();
        value += 1;
    }
    // Only this can cause it: the log does not grow here, and is not full.
    while world.throttled(BackgroundStage::Awaited) == 0
        && catalog.vfs.image().log_position() < MIB / 4 * 3
    {
        block_on(catalog.write(false, set(value % 500, value, 0))).unwrap();
        value += 1;
    }
    wait(BackgroundStage::Awaited, 1);
    let before = world.throttled(BackgroundStage::Running);
    wait(BackgroundStage::Awaited, 20);
    assert_eq!(world.throttled(BackgroundStage::Running), before);
    drop(statement);
}

fn small_log() -> Arc<MemoryStore> {
    let store = MemoryStore::new(2, 4 * MIB, MIB, None);
    store.limit(64 * MIB, MIB);
    store
}

/// Reads while another task writes, for as long as the read takes.
fn read_while_it_grows(
    catalog: &Catalog,
    read: impl Fn(&Connection) -> Result<i64, FileError> + Send + Sync + 'static,
) -> Result<i64, FileError> {
    block_on(catalog.write(false, set(1, 1, 0))).unwrap();
    let reading = pin!(catalog.read(read));
    let writing = pin!(async {
        for value in 0.. {
            catalog.write(false, set(value % 50, value, 2000)).await.unwrap();
        }
    });
    match block_on(select(reading, writing)) {
        Either::Left((read, _)) => read,
        Either::Right(_) => panic!("writing ended"),
    }
}

/// A read on a snapshot that lasts for ever, or ends.
fn read_slowly(connection: &Connection, for_ever: bool) -> Result<i64, FileError> {
    connection.query_row("SELECT count(*) FROM attribute", [], |row| row.get::<_, i64>(0))?;
    let last = if for_ever { "" } else { "LIMIT 1" };
    let count = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n {last}) SELECT max(i) FROM n"
    );
    Ok(connection.query_row(&count, [], |row| row.get::<_, i64>(0))?)
}

/// The database cannot grow: jobs that need space get an error, releases still run, and then there
/// is space again.
#[test]
fn a_full_group_still_takes_releases() {
    let store = MemoryStore::new(2, MIB, MIB, None);
    store.limit(4 * MIB, MIB);
    let catalog = create(&store);
    let mut name = 0;
    let refused = loop {
        match block_on(catalog.write(false, set(name, name, 3000))) {
            Ok(_) => name += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, FileError::NoSpace), "{refused}");
    assert!(name > 400, "{name}");
    assert_eq!(store.capacity(CatalogFile::Database), 4 * MIB);
    let release = |from: u64, to: u64| {
        block_on(catalog.release(true, move |connection| {
            let sql = "DELETE FROM attribute WHERE CAST(name AS INTEGER) BETWEEN ? AND ?";
            Ok(connection.execute(sql, params![from.cast_signed(), to.cast_signed()])?)
        }))
    };
    assert_eq!(release(0, 199).unwrap().0, 200);
    block_on(catalog.write(false, set(10_000, 1, 3000))).unwrap();
    assert!(block_on(catalog.verify()).unwrap().is_empty());
    block_on(catalog.close()).unwrap();
    let catalog = open(&store.reconnect()).unwrap();
    assert_eq!(all(&catalog).unwrap().len() as u64, name - 200 + 1);
}

/// A catalog that cannot grow says how much is left until jobs are refused, which is nothing when
/// they are. When there is room again, it finds that out without a write.
#[test]
fn a_catalog_says_what_is_left_until_it_refuses() {
    let store = MemoryStore::new(2, MIB, MIB, None);
    store.limit(4 * MIB, MIB);
    let catalog = create(&store);
    assert_eq!(catalog.shortage(), None);
    let mut seen = Vec::new();
    let mut name = 0;
    while block_on(catalog.write(false, set(name, name, 3000))).is_ok() {
        name += 1;
        seen.extend(catalog.shortage());
    }
    assert_eq!(catalog.shortage(), Some(0));
    assert!(seen.len() > 10 && seen.is_sorted_by(|one, next| one >= next), "{seen:?}");
    store.limit(8 * MIB, MIB);
    catalog.look_for_room();
    // It is behind that in the queue.
    block_on(catalog.checkpoint()).unwrap();
    assert_eq!(catalog.shortage(), None);
    // So it is if it had some room left, and the next write would not ask.
    while catalog.shortage().is_none() {
        block_on(catalog.write(false, set(name, name, 3000))).unwrap();
        name += 1;
    }
    store.limit(16 * MIB, MIB);
    catalog.look_for_room();
    block_on(catalog.checkpoint()).unwrap();
    assert_eq!(catalog.shortage(), None);
}

/// The store fails: the batch and everything after it get the reason as their error; nothing hangs.
#[test]
fn a_store_that_fails_stops_the_catalog() {
    let store = store();
    let catalog = create(&store);
    block_on(catalog.write(true, set(1, 1, 0))).unwrap();
    store.fail_writes(true);
    let error = block_on(catalog.write(false, set(2, 2, 0))).unwrap_err();
    assert!(error.to_string().contains("told to fail"), "{error}");
    assert!(matches!(block_on(catalog.durable_point()), Ok(_) | Err(FileError::CatalogStopped(_))));
    assert!(catalog.failure().is_some());
    assert!(block_on(catalog.wait_durable(CommitNumber(99))).is_err());
    assert!(block_on(catalog.close()).is_err());
    let store = store.reconnect();
    store.fail_writes(false);
    assert_eq!(all(&open(&store).unwrap()).unwrap()[&1], 1);
}

#[test]
fn a_later_schema_is_refused() {
    let store = store();
    let catalog = create(&store);
    let later = |connection: &Connection| {
        Ok(connection.pragma_update(None, "user_version", SCHEMA_VERSION + 1)?)
    };
    block_on(catalog.write(true, later)).unwrap();
    block_on(catalog.close()).unwrap();
    assert!(
        matches!(open(&store.reconnect()), Err(CatalogError::Newer { found }) if found == SCHEMA_VERSION + 1)
    );
}

/// A catalog of the first version, with files in it, made with that version's schema.
fn first_version(store: &Arc<MemoryStore>) {
    let catalog = create(store);
    let back = |connection: &Connection| {
        let mut select =
            connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
        let tables =
            select.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
        drop(select);
        tables
            .iter()
            .try_for_each(|table| connection.execute_batch(&format!("DROP TABLE {table}")))?;
        connection.execute_batch(include_str!("upgrade/schema_1.sql"))?;
        connection.execute_batch(
            "INSERT INTO file (number, generation, kind, mode, links, uid, gid, accessed, modified, changed, created)
             VALUES (1, 1, 16384, 493, 2, 0, 0, 0, 0, 0, 0), (256, 3, 32768, 416, 1, 0, 0, 0, 0, 0, 0);
             INSERT INTO entry VALUES (1, x'78', 256, 32768, 1);
             INSERT INTO extent (id, file, number, d0, a0) VALUES (1, 256, 0, 0, 7);",
        )?;
        Ok(connection.pragma_update(None, "user_version", 1)?)
    };
    block_on(catalog.write(true, back)).unwrap();
    block_on(catalog.close()).unwrap();
}

/// The whole schema, apart from its formatting.
fn schema_of(catalog: &Catalog) -> Vec<String> {
    block_on(catalog.read(|connection| {
        let sql = "SELECT m.type || ' ' || m.name || ' ' || coalesce(x.name, '') || ' ' || coalesce(x.type, '') || ' '
                          || coalesce(x.\"notnull\", '') || ' ' || coalesce(x.dflt_value, '') || ' ' || coalesce(x.pk, '')
                   FROM sqlite_master m LEFT JOIN pragma_table_xinfo(m.name) x ORDER BY 1";
        let mut select = connection.prepare(sql)?;
        let mut all: Vec<String> = select.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut select = connection.prepare("SELECT name || number || mirrors || fine || preformatted || system FROM template ORDER BY 1")?;
        all.extend(select.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?);
        all.push(connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?.to_string());
        Ok(all)
    }))
    .unwrap()
}

/// A catalog of an earlier version keeps its content, and is otherwise like a new one. If the power
/// fails during the conversion, the next mount completes it.
#[test]
fn an_earlier_schema_is_brought_up_to_date() {
    let expected = schema_of(&create(&store()));
    let operations = {
        let store = store();
        first_version(&store);
        let before = store.operations();
        let catalog = open(&store.reconnect()).unwrap();
        block_on(catalog.make_indexes()).unwrap();
        assert_eq!(schema_of(&catalog), expected);
        store.operations() - before
    };
    for cut in 0..operations + 3 {
        let store = store();
        first_version(&store);
        let store = store.reconnect();
        store.fail_after(cut, cut);
        drop(open(&store).map(|catalog| block_on(catalog.make_indexes())));
        let store = store.restart(cut);
        let catalog = open(&store).unwrap();
        block_on(catalog.make_indexes()).unwrap();
        assert_eq!(schema_of(&catalog), expected, "cut after {cut} operations");
        let rows = "SELECT (SELECT count(*) FROM file) || (SELECT system FROM entry) || (SELECT a0 || mirrors FROM extent)";
        let found = block_on(catalog.read(move |connection| {
            Ok(connection.query_row(rows, [], |row| row.get::<_, String>(0))?)
        }));
        assert_eq!(found.unwrap(), "2070", "cut after {cut} operations");
        assert!(block_on(catalog.verify()).unwrap().is_empty());
        block_on(catalog.close()).unwrap();
        assert!(open(&store.reconnect()).is_ok());
    }
}

/// A catalog gives space back when its rows are deleted. If the power fails meanwhile, no commit is
/// lost, and the next catalog goes on giving space back.
#[test]
fn a_catalog_shrinks_when_its_rows_are_gone() {
    const ROWS: u64 = 800;
    let kept = |name: &u64| name % 40 == 7;
    let filled = |store: &Arc<MemoryStore>| {
        let catalog = create(store);
        for first in (0..ROWS).step_by(50) {
            for name in first..first + 50 {
                block_on(catalog.write(false, set(name, name, 30_000))).unwrap();
            }
        }
        block_on(catalog.durable_point()).unwrap();
        catalog
    };
    let empty = |catalog: &Catalog| -> Result<(), FileError> {
        let delete = "DELETE FROM attribute WHERE CAST(name AS INTEGER) % 40 <> 7";
        block_on(catalog.release(true, |connection| Ok(connection.execute(delete, [])?)))?;
        // Each write waits for the step that was requested before it.
        (0..200).try_for_each(|_| block_on(catalog.write(false, set(7, 7, 30_000))).map(drop))
    };
    let is_whole = |catalog: &Catalog| {
        assert!(block_on(catalog.verify()).unwrap().is_empty());
        let rows = all(catalog).unwrap();
        (0..ROWS).filter(kept).all(|name| rows.contains_key(&name))
    };
    let capacity = |store: &Arc<MemoryStore>| store.capacity(CatalogFile::Database);
    let operations = {
        let store = store();
        let catalog = filled(&store);
        let (before, large) = (store.operations(), capacity(&store));
        empty(&catalog).unwrap();
        assert!(large > 24 * MIB && capacity(&store) < 8 * MIB, "{large} -> {}", capacity(&store));
        let operations = store.operations() - before;
        block_on(catalog.close()).unwrap();
        let catalog = open(&store.reconnect()).unwrap();
        assert!(is_whole(&catalog));
        assert_eq!(all(&catalog).unwrap().len() as u64, ROWS / 40);
        operations
    };
    for cut in (0..operations)
        .step_by(usize::try_from(operations / 12).unwrap().max(1))
        .chain([operations - 1])
    {
        let store = store();
        let catalog = filled(&store);
        store.fail_after(cut, cut);
        let _ = empty(&catalog);
        drop(catalog);
        let store = store.restart(cut);
        let catalog =
            open(&store).unwrap_or_else(|error| panic!("cut after {cut} operations: {error}"));
        assert!(is_whole(&catalog), "cut after {cut} operations");
        empty(&catalog).unwrap();
        assert!(is_whole(&catalog), "cut after {cut} operations");
        assert!(capacity(&store) < 8 * MIB, "cut after {cut} operations: {}", capacity(&store));
    }
}

/// Threads and the VFS end with the catalog.
#[test]
fn closing_ends_the_threads() {
    let world = TestWorld::new();
    let dynamic: Arc<dyn World> = Arc::clone(&world) as Arc<dyn World>;
    let catalog = block_on(Catalog::create(&dynamic, store())).unwrap();
    block_on(catalog.close()).unwrap();
    drop(catalog);
    while world.running() > 0 {
        block_on(world.sleep(Duration::from_millis(1)));
    }
}

/// The views have ASM's columns; the tree of names can be walked as in DBAs' scripts; statements
/// that are not a SELECT are refused, and errors have their position.
#[test]
fn clients_can_query_the_views() {
    let catalog = create(&store());
    let fill = |connection: &Connection| {
        Ok(connection.execute_batch(
            "INSERT INTO file (number, generation, kind, mode, links, uid, gid, size, blocks, accessed, modified, changed, created)
             VALUES (1, 1, 16384, 493, 3, 0, 0, 0, 0, 0, 0, 0, 0), (256, 2, 16384, 493, 2, 0, 0, 0, 0, 0, 0, 0, 0),
                    (257, 3, 32768, 416, 1, 70, 70, 8192, 128, 0, 1700000000000000000, 0, 0);
             INSERT INTO entry (parent, name, node, kind, cookie) VALUES (1, x'6462', 256, 16384, 1), (256, x'78', 257, 32768, 2);
             INSERT INTO attribute (name, value) VALUES ('compatible.asm', '19.0.0.0.0');",
        )?)
    };
    block_on(catalog.write(false, fill)).unwrap();
    let mut live = Live::default();
    live.add(
        "live_group",
        [live_row! {
            number: 1_u32,
            name: "DATA",
            redundancy: "NORMAL",
            usable: -(5_i64 << 20),
            total: 10_u64 << 20,
        }],
    );
    live.add("live_disk", [live_row! { number: 0_u32, name: "DATA_0000", votes: true }]);
    live.add(
        "live_operation",
        [live_row! { pass: "RESYNC", state: "RUN", so_far: 0_u64, work: 10_u64, rate: 4_u64 }],
    );
    live.add("live_move_wait", [live_row! { micros: 2048_u64, count: 3_u64 }]);
    let limited =
        |sql: &str, limits| block_on(catalog.query(sql, live.clone(), limits).unwrap().collect());
    let query = |sql: &str| limited(sql, QueryLimits::default());
    let text = |sql: &str| match query(sql).unwrap().rows.remove(0).remove(0) {
        crate::admin::Value::Text(text) => text,
        other => format!("{other:?}"),
    };
    for view in
        ["diskgroup", "disk", "file", "alias", "operation", "attribute", "move_wait_histogram"]
    {
        assert!(!query(&format!("SELECT * FROM v$asm_{view}")).unwrap().rows.is_empty(), "{view}");
    }
    assert_eq!(text("SELECT usable_file_mb || compatibility FROM V$ASM_DISKGROUP"), "-519.0.0.0.0");
    assert_eq!(
        text("SELECT redundancy || space || type || permissions FROM v$asm_file"),
        "MIRROR131072DATAFILErw-r-----"
    );
    assert_eq!(text("SELECT modification_date FROM v$asm_file"), "2023-11-14 22:13:20");
    assert_eq!(text("SELECT pass || est_minutes FROM v$asm_operation"), "RESYNC3");
    assert_eq!(
        text("SELECT wait_count || ' in ' || wait_time_format FROM v$asm_move_wait_histogram"),
        "3 in 2 milliseconds"
    );
    let path = "WITH RECURSIVE a(path, i) AS (
        SELECT '+DATA/' || name, reference_index FROM v$asm_alias WHERE parent_index % 16777216 = 0
        UNION ALL SELECT path || '/' || name, reference_index FROM a JOIN v$asm_alias ON parent_index = i)
        SELECT group_concat(path) FROM a";
    assert_eq!(text(path), "+DATA/db,+DATA/db/x");

    for refused in [
        "DELETE FROM attribute",
        "DROP TABLE file",
        "ATTACH 'x' AS y",
        "PRAGMA journal_mode=DELETE",
        "SELECT load_extension('x')",
        "BEGIN",
        "CREATE TEMP TABLE t (x)",
        "SELECT * FROM dbstat",
    ] {
        assert!(query(refused).is_err(), "{refused}");
    }
    let error = query("SELECT * FRM v$asm_file").unwrap_err();
    assert!(error.message.contains("syntax error") && error.hint.unwrap().contains("byte"));
    let forever =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    let short = QueryLimits { time_max: Duration::from_millis(20), ..QueryLimits::default() };
    assert!(limited(forever, short).unwrap_err().message.contains("longer than"));
    let small = QueryLimits { rows_max: 0, ..QueryLimits::default() };
    assert!(limited("SELECT 1", small).unwrap_err().message.contains("larger"));
    assert!(query("SELECT 1").is_ok());
}

/// A million rows are read in their physical order, none is looked up by itself, and queries that
/// only count walk along an index.
#[test]
fn views_of_many_rows_are_read_in_order() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(super::SCHEMA).unwrap();
    connection.execute_batch(&super::columns::CREATE).unwrap();
    let scan = |sql: &str| {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
        let scans: Vec<_> =
            steps.map(Result::unwrap).filter(|step| step.starts_with("SCAN ")).collect();
        scans.join(", ")
    };
    let names = "SELECT name, file_number, parent_index, reference_index FROM v$asm_alias";
    assert_eq!(scan(names), "SCAN e");
    assert_eq!(scan("SELECT file_number, type, bytes FROM v$asm_file"), "SCAN f");
    assert_eq!(scan("SELECT type, sum(space) FROM v$asm_file GROUP BY type"), "SCAN f");
    assert_eq!(
        scan("SELECT type, count(*) FROM file_types GROUP BY type"),
        "SCAN f USING INDEX file_type"
    );
    assert_eq!(scan("SELECT count(*) FROM entries"), "SCAN entry USING COVERING INDEX entry_node");
}

/// A page is written while a reader already has its old bytes from the disk. They are not kept in
/// the cache: the next reader gets the new ones.
#[test]
fn a_page_that_was_read_before_a_write_is_not_kept() {
    let store = MemoryStore::new(1, 4 * MIB, 4 * MIB, Some(7));
    let page = |byte: u8| vec![byte; plinth_format::page::PAGE_SIZE];
    let image =
        |pages: u32| Arc::new(image::Image::new(Arc::clone(&store) as Arc<dyn Store>, pages));
    let write = move |image: &image::Image, byte: u8| {
        image.write_database(0, &page(byte)).unwrap();
        image.sync(CatalogFile::Database).unwrap();
    };
    write(&image(0), 1);
    let image = image(1);
    let writer = Arc::clone(&image);
    store.during_next_read(move || write(&writer, 2));
    let mut found = page(0);
    image.read_database(0, &mut found).unwrap();
    assert_eq!(found[0], 1, "what was there when it was read");
    image.read_database(0, &mut found).unwrap();
    assert_eq!(found[0], 2, "what was written last");
}
