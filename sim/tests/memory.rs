//! The memory that the engine takes: no more after ten rounds of work than after three, and no more
//! than the bytes justify when they are hostile.
//!
//! An allocator counts, so each story here runs alone in its process; SQLite's own memory is
//! counted too.
#![allow(unsafe_code)]

use plinth_engine::testing::{Image, Numbers};
use plinth_format::{
    Redundancy,
    layout::{ACTIVITY_SLOT, MEMBERSHIP_SLOT, RecordArea},
    membership::CatalogFile,
    page,
};
use plinth_workload::lock;
use sim::scenario::{DISK_SIZE, World, pattern, reseal, words};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn bytes(layout: Layout) -> i64 {
    i64::try_from(layout.size()).expect("less than all memory")
}

// SAFETY: every call goes to the system's allocator unchanged; the counters are atomics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(bytes(layout), Ordering::Relaxed) + bytes(layout);
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps to `GlobalAlloc::alloc`'s terms.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(bytes(layout), Ordering::Relaxed);
        // SAFETY: `pointer` came from `alloc` above, so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Bytes in use: ours, and SQLite's.
fn in_use() -> i64 {
    // SAFETY: it only reads a counter of SQLite.
    LIVE.load(Ordering::Relaxed) + unsafe { rusqlite::ffi::sqlite3_memory_used() }
}

/// One story at a time, from before its world is made: the counters belong to the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Ten rounds of making, writing, syncing, reading and removing files, with idle minutes between:
/// the memory of a round is given back.
#[test]
fn memory_returns_to_its_base() {
    let _alone = lock(&ALONE);
    for seed in 0..3 {
        let mut world = World::new(seed).disks(&["A", "B"]);
        for disk in 0..2 {
            // Every block is there from the beginning, or the disks would take memory that is
            // counted.
            let mut image = Image::zeroed();
            image.write(0, &pattern(disk as u64, DISK_SIZE as usize));
            image.flush();
            world.disk(disk).set_image(image);
        }
        world.create_of_all(Redundancy::Normal);
        let mut after = Vec::new();
        for round in 0..10_u64 {
            for file in 0..12_u64 {
                let length = [5_000, 60_000, 300_000, 2_500_000][file as usize % 4];
                world.store(&format!("file{file}"), &pattern(round * 100 + file, length));
            }
            world.verify();
            (0..12).for_each(|file| world.remove(&format!("file{file}")));
            world.store("last", b"so that all of it is durable");
            world.remove("last");
            world.wait(Duration::from_secs(1200));
            after.push(in_use());
        }
        let (base, end) = (after[2], after[9]);
        println!("seed {seed}: {after:?}");
        assert!(
            end <= base + 64 * 1024,
            "seed {seed}: {base} bytes after round 3, {end} after round 10: {after:?}"
        );
        world.ends_well();
    }
}

/// Memory that hostile bytes may cost: as much as a whole disk, which is more than any honest mount
/// takes.
const HOSTILE_MAX: i64 = 48 << 20;

/// A group with some files, dismounted or not.
fn victim(seed: u64) -> World {
    let mut world = World::new(seed).disks(&["A", "B"]).group(Redundancy::Normal);
    world.store("table", &pattern(1, 1_500_000));
    world.store("small", &pattern(2, 5_000));
    world.write("table", 0, &pattern(3, 100_000));
    world
}

/// Whatever bytes the disks have now, an engine that reads them gives an answer, in bounded memory,
/// and does not die.
fn is_survived(world: &mut World, what: &str) {
    println!("seed {}: {what}", world.seed);
    let before = in_use();
    PEAK.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
    world.survey();
    match world.try_mount(false) {
        Err(error) => println!("  {}", words(&error)),
        Ok(()) => {
            for name in ["table", "small"] {
                let _ = world.try_read(name, 0, 2_000_000);
                let _ = world.try_write(name, 70_000, &pattern(5, 300_000));
                let _ = world.try_sync(name);
            }
            let _ = world.try_online();
            world.wait(Duration::from_secs(20));
            let report = world.try_check(true);
            println!("  {:?}", report.map(|report| report.problems.len()));
            for name in ["table", "small"] {
                let _ = world.try_remove(name);
            }
            world.wait(Duration::from_secs(90));
            let _ = world.try_dismount();
        }
    }
    let taken = PEAK.load(Ordering::Relaxed) + (in_use() - LIVE.load(Ordering::Relaxed)) - before;
    assert!(taken < HOSTILE_MAX, "seed {}: {what}: {taken} bytes of memory", world.seed);
}

/// Runs a story for each seed, and lists the seeds that failed.
fn survived(seeds: u64, story: impl Fn(u64)) {
    let _alone = lock(&ALONE);
    let tell = |seed: &u64| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| story(*seed))).is_err()
    };
    let failed: Vec<u64> = (0..seeds).filter(tell).collect();
    assert!(failed.is_empty(), "seeds {failed:?}");
}

/// A value as an attacker would choose it.
fn hostile(numbers: &mut Numbers) -> u64 {
    match numbers.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX >> 1,
        3 => u64::from(u32::MAX),
        4 => 1 << numbers.below(64),
        5 => numbers.below(5000),
        6 => 1 + numbers.below(4),
        _ => numbers.draw(),
    }
}

/// Fields of headers, stamps, memberships and activity logs are changed, on one disk or on both,
/// and the checksum is made valid again.
#[test]
fn hostile_records_are_an_error() {
    survived(rounds(60), |seed| {
        let mut world = victim(seed);
        if seed % 3 == 0 {
            world.dismount()
        } else {
            world.kill()
        }
        let mut numbers = Numbers::new(seed);
        let areas = world.areas(0);
        let slots = |of: fn(&RecordArea) -> [u64; 2], length| {
            areas.iter().flat_map(of).map(|place| (place, length)).collect::<Vec<_>>()
        };
        let (what, places): (_, Vec<(u64, usize)>) = match seed % 4 {
            0 => ("header", world.header_places(0).map(|place| (place, 4096)).to_vec()),
            1 => ("stamp", slots(|area| area.stamps, 4096)),
            2 => ("membership", slots(|area| area.memberships, MEMBERSHIP_SLOT)),
            _ => ("activity log", slots(|area| area.activity, ACTIVITY_SLOT)),
        };
        let disks = if numbers.below(2) == 0 { vec![0] } else { vec![0, 1] };
        // The same change to all copies and slots: one that is taken for valid.
        let changes: Vec<(usize, usize, u64)> = (0..1 + numbers.below(3))
            .map(|_| {
                let width = [1, 2, 4, 8][usize::try_from(numbers.below(4)).expect("small")];
                let fields = [48, 200, 600][usize::try_from(numbers.below(3)).expect("small")];
                (
                    64 + usize::try_from(numbers.below(fields)).expect("small") / width * width,
                    width,
                    hostile(&mut numbers),
                )
            })
            .collect();
        for disk in &disks {
            for (place, length) in &places {
                let mut record = world.peek(*disk, *place, *length);
                for (at, width, value) in &changes {
                    record[*at..at + width].copy_from_slice(&value.to_le_bytes()[..*width]);
                }
                reseal(&mut record);
                world.corrupt(*disk, *place, &record);
            }
        }
        is_survived(&mut world, &format!("{what} of {disks:?}: {changes:?}"));
    });
}

/// Bytes in pages of the catalog are changed at random, and the pages sealed again.
#[test]
fn hostile_pages_are_an_error() {
    survived(rounds(40), |seed| {
        let mut world = victim(seed);
        world.dismount();
        let mut numbers = Numbers::new(seed);
        let mut database = Database::of(&world);
        let pages = database.pages();
        let mut what = String::new();
        for _ in 0..1 + numbers.below(6) {
            let (page, at) =
                (usize::try_from(numbers.below(pages)).expect("small"), numbers.below(4088));
            let at = page * 4096
                + usize::try_from(if numbers.below(2) == 0 { at % 120 } else { at })
                    .expect("small");
            let value = hostile(&mut numbers).to_le_bytes()[0];
            database.bytes[at] = value;
            what += &format!(" {at}={value}");
        }
        database.put(&mut world);
        is_survived(&mut world, &format!("pages:{what}"));
    });
}

/// Rows of the catalog have values that no engine would have written, in valid pages.
#[test]
fn hostile_rows_are_an_error() {
    let columns = [
        ("extent", "id file number d0 a0 d1 a1 d2 a2 written pending"),
        (
            "file",
            "number kind mode links size durable_size blocks shared_extent slot mirrors target modified",
        ),
        ("entry", "parent name node kind cookie"),
        ("counter", "value"),
        ("stale", "disk first count"),
        ("attribute", "value"),
    ];
    let all: Vec<(&str, &str)> = columns
        .iter()
        .flat_map(|(table, names)| names.split(' ').map(move |name| (*table, name)))
        .collect();
    survived(rounds(2 * all.len() as u64), |seed| {
        let mut world = victim(seed);
        if seed % 2 == 0 {
            // So that there are stale rows.
            world.offline("B");
            world.write("table", 0, &pattern(8, 10_000));
        }
        world.dismount();
        let mut numbers = Numbers::new(seed);
        let (table, column) = all[usize::try_from(seed).expect("small") % all.len()];
        let value = match numbers.below(6) {
            0 => "NULL".to_owned(),
            1 => "x'ffffffffffffffffffffffffffffffffffffffffffffffffffffffff'".to_owned(),
            2 => "'text'".to_owned(),
            _ => hostile(&mut numbers).cast_signed().to_string(),
        };
        let which =
            ["1", "rowid = (SELECT max(rowid) FROM {})", "rowid = (SELECT min(rowid) FROM {})"];
        let which = which[usize::try_from(numbers.below(3)).expect("small")].replace("{}", table);
        let change = format!("UPDATE OR REPLACE {table} SET {column} = {value} WHERE {which}");
        let mut database = Database::of(&world);
        // Constraints refuse some of the changes.
        if database.change(&change).is_ok() {
            database.put(&mut world);
            is_survived(&mut world, &change);
        }
    });
}

/// The number of the last write that pages claim.
const WRITE: u64 = 1 << 32;

/// Rounds of a story, or ten times as many.
fn rounds(quick: u64) -> u64 {
    if std::env::var_os("PLINTH_LONG").is_some() { quick * 10 } else { quick }
}

/// The catalog's database, of a group that was dismounted, copied out of its first disk.
struct Database {
    place: u64,
    bytes: Vec<u8>,
}

impl Database {
    fn of(world: &World) -> Self {
        let (place, length) =
            world.catalog_place(0, CatalogFile::Database).expect("it has a mirror");
        Self { place, bytes: world.peek(0, place, length) }
    }

    /// Pages in use: SQLite's header says so.
    fn pages(&self) -> u64 {
        u64::from(u32::from_be_bytes(self.bytes[28..32].try_into().expect("four bytes")))
    }

    /// Changes it with SQLite.
    fn change(&mut self, statement: &str) -> rusqlite::Result<()> {
        let folder = std::env::temp_dir().join(format!("plinth-sim-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let path = folder.join("catalog");
        let length = usize::try_from(self.pages()).expect("small") * 4096;
        std::fs::write(&path, &self.bytes[..length]).expect("a file can be written");
        let changed = rusqlite::Connection::open(&path).and_then(|connection| {
            connection.execute_batch(statement)?;
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        });
        let now = std::fs::read(&path).expect("it is there");
        std::fs::remove_dir_all(&folder).expect("it is ours");
        if changed.is_ok() && now.len() <= self.bytes.len() {
            self.bytes[..now.len()].copy_from_slice(&now);
        }
        changed
    }

    /// Seals every page and puts it on every mirror.
    fn put(mut self, world: &mut World) {
        let pages = usize::try_from(self.pages()).expect("small").min(self.bytes.len() / 4096);
        for (number, page) in (1..).zip(self.bytes.chunks_exact_mut(4096).take(pages)) {
            page::seal(page, number, WRITE);
        }
        for disk in 0..world.disk_count() {
            if let Some((place, _)) = world.catalog_place(disk, CatalogFile::Database) {
                let place = if disk == 0 { self.place } else { place };
                world.corrupt(disk, place, &self.bytes[..pages * 4096]);
            }
        }
    }
}
