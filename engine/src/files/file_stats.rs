//! What front ends do with each file, and how long they wait: `v$asm_file_histogram`.
//!
//! A file has a *place* for its counts from its first request on, of which there are [`PLACES`]: so
//! it costs the same however many files there are. The caretaker keeps some places free: it takes
//! those of the files that were not used for longest. A file that is removed gives its place back.
//! Its counts are added to the *rest*, as are requests that find no place free.
//!
//! ```text
//!   free --first request of a file--> its --caretaker, removal--> leaving --a round later--> free
//!                                     counts                      counts go to the rest
//! ```
//!
//! A request looks whose the place is, then counts, without a lock. Between the two the place may
//! begin to leave; it is emptied a round of the caretaker later, so that the request is not lost.
//!
//! Requests are counted as they were made and carried out: with the time spent waiting for disks,
//! the catalog and others.

use crate::{
    api::Node,
    disk::timings::{Bucket, Timings},
    files::file_system::FileSystem,
    sync::lock::{Mutex, MutexGuard},
};
use std::{
    collections::HashMap,
    fmt,
    sync::{
        OnceLock,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

/// Files that are counted apart: those used last. A place takes about 3 KiB.
const PLACES: usize = 4096;
/// Places that the caretaker keeps free.
const SPARE: usize = PLACES / 8;
/// Requests of more bytes are large: what a file of one slot can hold is small.
const SMALL: u64 = plinth_format::layout::PIECE_SIZE;

/// The kind of a request, as the view shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileClass {
    SmallRead,
    LargeRead,
    SmallWrite,
    LargeWrite,
    Sync,
}

impl FileClass {
    pub const ALL: [Self; 5] =
        [Self::SmallRead, Self::LargeRead, Self::SmallWrite, Self::LargeWrite, Self::Sync];

    /// A read of the given number of bytes.
    #[must_use]
    pub fn read(bytes: u64) -> Self {
        if bytes <= SMALL { Self::SmallRead } else { Self::LargeRead }
    }

    /// A write of the given number of bytes.
    #[must_use]
    pub fn write(bytes: u64) -> Self {
        if bytes <= SMALL { Self::SmallWrite } else { Self::LargeWrite }
    }
}

impl fmt::Display for FileClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SmallRead => "SMALL READ",
            Self::LargeRead => "LARGE READ",
            Self::SmallWrite => "SMALL WRITE",
            Self::LargeWrite => "LARGE WRITE",
            Self::Sync => "SYNC",
        })
    }
}

/// A file's place; in the file, so that it is found at once.
#[derive(Debug, Default)]
pub struct PlaceOf(AtomicU32);

#[derive(Debug, Default)]
struct Counts {
    /// 0: of no file.
    owner: AtomicU64,
    /// When it was last used: the caretaker's rounds.
    used: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    timings: [Timings; FileClass::ALL.len()],
}

#[derive(Debug, Default)]
struct Register {
    places: HashMap<Node, u32>,
    free: Vec<u32>,
    leaving: Vec<u32>,
}

/// The counts of all files. See the module's description.
#[derive(Debug)]
pub struct FileStats {
    places: Box<[OnceLock<Box<Counts>>]>,
    register: Mutex<Register>,
    /// A hint: no place is free.
    is_full: AtomicBool,
    rounds: AtomicU64,
    rest: Counts,
}

/// The counts of one file; with number 0, of all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCounts {
    pub node: Node,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Of each class: how many, how long they took together, and their histogram.
    pub classes: [(u64, Duration, Vec<Bucket>); FileClass::ALL.len()],
}

impl Default for FileStats {
    fn default() -> Self {
        let free = (0..u32::try_from(PLACES).unwrap_or(u32::MAX)).rev().collect();
        Self {
            places: std::iter::repeat_with(OnceLock::new).take(PLACES).collect(),
            register: Mutex::new(Register { free, ..Register::default() }),
            is_full: AtomicBool::new(false),
            rounds: AtomicU64::new(1),
            rest: Counts::default(),
        }
    }
}

impl Counts {
    fn note(&self, class: FileClass, bytes: u64, now: Duration, took: Duration) {
        self.timings[class as usize].note(now, took);
        match class {
            FileClass::SmallRead | FileClass::LargeRead => {
                self.bytes_read.fetch_add(bytes, Relaxed)
            }
            FileClass::SmallWrite | FileClass::LargeWrite => {
                self.bytes_written.fetch_add(bytes, Relaxed)
            }
            FileClass::Sync => 0,
        };
    }

    fn pour_into(&self, other: &Self) {
        other.bytes_read.fetch_add(self.bytes_read.swap(0, Relaxed), Relaxed);
        other.bytes_written.fetch_add(self.bytes_written.swap(0, Relaxed), Relaxed);
        self.timings.iter().zip(&other.timings).for_each(|(own, other)| own.pour_into(other));
    }

    fn add_to(&self, other: &Self) {
        other.bytes_read.fetch_add(self.bytes_read.load(Relaxed), Relaxed);
        other.bytes_written.fetch_add(self.bytes_written.load(Relaxed), Relaxed);
        self.timings.iter().zip(&other.timings).for_each(|(own, other)| own.add_to(other));
    }

    fn read(&self, node: Node) -> FileCounts {
        let class = |class: FileClass| {
            let timings = &self.timings[class as usize];
            (timings.count(), timings.total(), timings.buckets())
        };
        FileCounts {
            node,
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            classes: FileClass::ALL.map(class),
        }
    }
}

impl FileStats {
    fn register(&self) -> MutexGuard<'_, Register> {
        self.register.lock()
    }

    fn at(&self, place: u32) -> &Counts {
        self.places[place as usize].get_or_init(Box::default)
    }

    /// A request of a file has ended.
    pub fn note(
        &self,
        place: &PlaceOf,
        node: Node,
        class: FileClass,
        bytes: u64,
        now: Duration,
        took: Duration,
    ) {
        let counts = self.counts_of(place, node);
        if let Some(counts) = counts {
            counts.used.store(self.rounds.load(Relaxed), Relaxed);
        }
        counts.unwrap_or(&self.rest).note(class, bytes, now, took);
    }

    /// `None`: it has no place, and none is free.
    fn counts_of(&self, place: &PlaceOf, node: Node) -> Option<&Counts> {
        if let Some(known) = place.0.load(Relaxed).checked_sub(1) {
            let counts = self.at(known);
            if counts.owner.load(Acquire) == node {
                return Some(counts);
            }
        }
        if self.is_full.load(Relaxed) {
            return None;
        }
        let mut register = self.register();
        let found = match register.places.get(&node) {
            Some(found) => *found,
            None => {
                let Some(free) = register.free.pop() else {
                    self.is_full.store(true, Relaxed);
                    return None;
                };
                register.places.insert(node, free);
                self.at(free).owner.store(node, Release);
                free
            }
        };
        place.0.store(found + 1, Relaxed);
        Some(self.at(found))
    }

    /// A file is no more.
    pub fn forget(&self, node: Node) {
        let mut register = self.register();
        if let Some(place) = register.places.remove(&node) {
            self.at(place).owner.store(0, Release);
            register.leaving.push(place);
        }
    }

    /// A round of the caretaker: places become free.
    pub fn tend(&self) {
        self.rounds.fetch_add(1, Relaxed);
        let mut register = self.register();
        let register = &mut *register;
        for place in std::mem::take(&mut register.leaving) {
            self.at(place).pour_into(&self.rest);
            register.free.push(place);
        }
        if register.free.len() < SPARE {
            let mut by_use: Vec<(u64, Node, u32)> = register
                .places
                .iter()
                .map(|(node, place)| (self.at(*place).used.load(Relaxed), *node, *place))
                .collect();
            by_use.sort_unstable();
            by_use.truncate(SPARE);
            for (_, node, place) in by_use {
                self.at(place).owner.store(0, Release);
                register.places.remove(&node);
                register.leaving.push(place);
            }
        }
        self.is_full.store(register.free.is_empty(), Relaxed);
    }

    /// The counts of all other files, as number 0, then of the files with places, ascending.
    #[must_use]
    pub fn all(&self) -> Vec<FileCounts> {
        let register = self.register();
        let mut places: Vec<(Node, u32)> =
            register.places.iter().map(|(node, place)| (*node, *place)).collect();
        places.sort_unstable();
        let rest = Counts::default();
        for counts in register.leaving.iter().map(|place| self.at(*place)).chain([&self.rest]) {
            counts.add_to(&rest);
        }
        drop(register);
        let files = places.into_iter().map(|(node, place)| self.at(place).read(node));
        std::iter::once(rest.read(0)).chain(files).collect()
    }

    /// The counts of all files together. They never shrink: counts that leave a place are added to
    /// the rest under the same lock.
    #[must_use]
    pub fn totals(&self) -> FileCounts {
        let totals = Counts::default();
        let register = self.register();
        for counts in self.places.iter().filter_map(OnceLock::get) {
            counts.add_to(&totals);
        }
        self.rest.add_to(&totals);
        drop(register);
        totals.read(0)
    }
}

impl FileSystem {
    /// A front end's request has ended well: counts it, and how long it took.
    pub(crate) fn note_request(
        &self,
        file: &crate::files::File,
        class: FileClass,
        bytes: u64,
        began: Duration,
    ) {
        let now = self.world.monotonic();
        let took = now.saturating_sub(began);
        self.throttle.end(took);
        self.file_stats.note(&file.place, file.node, class, bytes, now, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn requests(counts: &FileCounts) -> u64 {
        counts.classes.iter().map(|(count, ..)| count).sum()
    }

    #[test]
    fn each_class_of_requests_has_its_own_counts() {
        let stats = FileStats::default();
        let place = PlaceOf::default();
        stats.note(&place, 300, FileClass::read(65_536), 65_536, MS, MS);
        stats.note(&place, 300, FileClass::read(65_537), 65_537, MS, MS);
        stats.note(&place, 300, FileClass::write(1), 1, MS, MS);
        stats.note(&place, 300, FileClass::write(1 << 20), 1 << 20, MS, MS);
        stats.note(&place, 300, FileClass::Sync, 0, MS, MS);
        // The file was forgotten and is used again.
        stats.note(&PlaceOf::default(), 300, FileClass::Sync, 0, MS, MS);
        let all = stats.all();
        assert_eq!(all.iter().map(|one| one.node).collect::<Vec<_>>(), [0, 300]);
        assert_eq!((all[1].bytes_read, all[1].bytes_written), (131_073, 1_048_577));
        assert_eq!(all[1].classes.each_ref().map(|(count, ..)| *count), [1, 1, 1, 1, 2]);
        assert_eq!(
            all[1].classes[4].2.last().map(|bucket| (bucket.below, bucket.count)),
            Some((1024, 2))
        );
        assert_eq!(requests(&all[0]), 0);
    }

    /// A file that is removed counts with the others, and its place is the next one's.
    #[test]
    fn a_file_that_is_removed_leaves_its_counts() {
        let stats = FileStats::default();
        let place = PlaceOf::default();
        for round in 0..10 * PLACES as u64 {
            stats.note(&place, 300 + round, FileClass::write(7), 7, MS, MS);
            stats.forget(300 + round);
            stats.tend();
        }
        let all = stats.all();
        assert_eq!((all.len(), all[0].bytes_written), (1, 70 * PLACES as u64));
        assert!(stats.places.iter().filter(|place| place.get().is_some()).count() <= 2);
    }

    /// Many more files than places: none is lost, and those used last have theirs.
    #[test]
    fn memory_is_bounded_and_nothing_is_lost() {
        let stats = FileStats::default();
        let files: Vec<(Node, PlaceOf)> =
            (256..256 + 3 * PLACES as u64).map(|node| (node, PlaceOf::default())).collect();
        for (index, (node, place)) in files.iter().enumerate() {
            stats.note(place, *node, FileClass::SmallRead, 10, MS, MS);
            if index % 100 == 99 {
                stats.tend();
            }
        }
        let all = stats.all();
        assert!(all.len() <= PLACES + 1, "{}", all.len());
        assert_eq!(all.iter().map(requests).sum::<u64>(), files.len() as u64);
        assert_eq!(all.iter().map(|one| one.bytes_read).sum::<u64>(), 10 * files.len() as u64);
        let (last, place) = files.last().expect("there are some");
        stats.note(place, *last, FileClass::SmallRead, 10, MS, MS);
        let of_last = stats.all().into_iter().find(|one| one.node == *last).expect("used last");
        assert_eq!(requests(&of_last), 2);
        // A place that was another's meanwhile is not taken for one's own.
        let (first, place) = &files[0];
        stats.note(place, *first, FileClass::Sync, 0, MS, MS);
        let of_first = stats.all().into_iter().find(|one| one.node == *first).expect("used last");
        assert_eq!(requests(&of_first), 1);
    }
}
