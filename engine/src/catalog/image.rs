//! The catalog's two files in memory, between SQLite and the mirrored store.
//!
//! The log is kept whole in memory, from its last restart on: readers and
//! checkpoints never read it from a disk, so a rotten frame can do no harm, and a
//! push never needs to read what is around it. Its size is capped, see
//! [`Catalog`](super::Catalog).
//!
//! Pages of the database are kept in a cache that all connections share. A
//! checkpoint writes pages into it; they reach the store in runs, when they are
//! pushed. Every page is sealed before it goes to the store and verified when it comes back.
//!
//! Invariants:
//!
//!   1. Dirty pages and dirty log blocks are never dropped from memory.
//!   2. A page that a reader fetched enters the cache only if nothing was written meanwhile.
//!      It is what was written last: where that is not known yet, all mirrors are read, for one of them may have
//!      lost a write and not know it; afterwards the number of the write is remembered, and one mirror that has it is enough.
//!   3. `sync` returns after everything written before it is durable on the store.

use super::{
    store::{CatalogFile, Store, StoreError},
    wal,
};
use crate::{
    admin::Problem,
    buffer::{Buffer, Slice},
    planted::{self, Bug},
};
use plinth_format::page::{self, PAGE_SIZE};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

const BLOCK: usize = 4096;
/// Pages read at once, at most, by whoever reads page after page.
const AHEAD_MAX: u32 = 64;
/// Readers whose next page is remembered.
const STREAMS: usize = 8;
/// Pages kept in the shared cache: 64 MiB, the catalog of some hundred thousand files.
const CACHE_PAGES: usize = 16_384;
/// Dirty bytes after which a push does not wait for the end of a commit or checkpoint.
const PUSH_BYTES: usize = 4 << 20;
/// Bytes in one write to the store.
const RUN_BYTES: usize = 1 << 20;

struct CachedPage {
    bytes: Box<[u8]>,
    /// Looked at since the clock's hand passed.
    used: bool,
}

#[derive(Default)]
struct Pages {
    /// Bytes of the database as SQLite sees it.
    size: u64,
    cached: BTreeMap<u32, CachedPage>,
    hand: VecDeque<u32>,
    dirty: BTreeSet<u32>,
    /// Grows with every write and push.
    changes: u64,
    /// Where readers are that go through the database in order, the latest last: the page after what they read, and
    /// how many they read at once.
    streams: VecDeque<(u32, u32)>,
    /// The number of each page's last write, from the first page on; 0 where that is not known.
    written: Vec<u64>,
}

impl Pages {
    /// How many pages from one on, at most `count`, have a last write that is known, and what these are.
    fn known(&self, number: u32, count: u32) -> Vec<u64> {
        let from = self.written.iter().skip(number as usize - 1);
        from.take(count as usize).copied().take_while(|write| *write != 0).collect()
    }

    /// Remembers the last write of a page.
    fn learn(&mut self, number: u32, write: u64) {
        let at = number as usize - 1;
        if self.written.len() <= at {
            self.written.resize(at + 1, 0);
        }
        self.written[at] = write;
    }

    /// How many pages to read, from one that is not in memory on: more each time for whoever goes on where it was.
    fn ahead(&mut self, number: u32) -> u32 {
        // A leaf may lie a little further than the one before it.
        let near = |(next, _): &(u32, u32)| (*next..next.saturating_add(4)).contains(&number);
        let known = self.streams.iter().position(near).and_then(|at| self.streams.remove(at));
        let count = known.map_or(1, |(_, count)| (count * 2).min(AHEAD_MAX));
        let end = u32::try_from(self.size / PAGE_SIZE as u64).unwrap_or(u32::MAX).saturating_add(1);
        let last = number.saturating_add(count).min(end);
        // As far as nothing of it is in memory.
        let last = self.cached.range(number + 1..last.max(number + 1)).next().map_or(last, |(cached, _)| *cached);
        if self.streams.len() >= STREAMS {
            self.streams.pop_front();
        }
        self.streams.push_back((last.max(number + 1), count));
        last.saturating_sub(number).max(1)
    }

    /// Takes a page in. It gets the memory of one that goes: all pages that were ever here lie in the same [`CACHE_PAGES`] places,
    /// whichever threads read them.
    fn insert(&mut self, number: u32, bytes: &[u8]) {
        if let Some(page) = self.cached.get_mut(&number) {
            page.bytes.copy_from_slice(bytes);
            page.used = false;
            return;
        }
        let bytes = match self.evict() {
            Some(mut room) => {
                room.copy_from_slice(bytes);
                room
            }
            None => bytes.into(),
        };
        self.cached.insert(number, CachedPage { bytes, used: false });
        self.hand.push_back(number);
    }

    /// Lets a page go if the cache is full, unless all are dirty.
    fn evict(&mut self) -> Option<Box<[u8]>> {
        let (mut left, mut room) = (self.hand.len(), None);
        while self.cached.len() >= CACHE_PAGES && left > 0 {
            left -= 1;
            let Some(victim) = self.hand.pop_front() else { break };
            let keep = self.dirty.contains(&victim);
            match self.cached.get_mut(&victim) {
                Some(page) if keep || page.used => {
                    page.used = false;
                    self.hand.push_back(victim);
                }
                Some(_) => room = self.cached.remove(&victim).map(|page| page.bytes),
                None => {}
            }
        }
        room
    }
}

#[derive(Default)]
struct Log {
    /// Bytes of the log as SQLite sees it.
    size: u64,
    /// Where the last frame since the last restart ends.
    position: u64,
    blocks: Vec<Box<[u8]>>,
    dirty: BTreeSet<usize>,
}

/// See the module's description.
pub(super) struct Image {
    store: Arc<dyn Store>,
    pages: Mutex<Pages>,
    log: Mutex<Log>,
    /// Held while something is being pushed: one run of writes at a time.
    pushing: Mutex<()>,
    /// The number of the last write of pages.
    writes: AtomicU64,
    /// Whose turn it is to be read where one mirror is enough.
    turns: AtomicU64,
    log_syncs: AtomicU64,
    /// Capacities last seen, which never shrink: asked for again only when they are reached.
    room: [AtomicU64; 2],
    /// The last thing that went wrong, for messages: SQLite passes on only a number.
    error: Mutex<Option<StoreError>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).expect("64-bit")
}

impl Image {
    /// `pages`: how many the database has.
    pub(super) fn new(store: Arc<dyn Store>, pages: u32) -> Self {
        let pages = Pages { size: u64::from(pages) * PAGE_SIZE as u64, ..Pages::default() };
        let writes = AtomicU64::new(wal::first_write(&*store));
        Self {
            store,
            writes,
            turns: AtomicU64::new(0),
            log_syncs: AtomicU64::new(0),
            pages: Mutex::new(pages),
            log: Mutex::default(),
            pushing: Mutex::default(),
            room: Default::default(),
            error: Mutex::default(),
        }
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The last thing that went wrong.
    pub(super) fn error(&self) -> Option<StoreError> {
        lock(&self.error).clone()
    }

    fn note<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &result {
            *lock(&self.error) = Some(error.clone());
        }
        result
    }

    pub(super) fn database_size(&self) -> u64 {
        lock(&self.pages).size
    }

    pub(super) fn log_size(&self) -> u64 {
        lock(&self.log).size
    }

    /// Bytes of the log in use since its last restart.
    pub(super) fn log_position(&self) -> u64 {
        lock(&self.log).position
    }

    /// Reads bytes of the database; those past its end are not touched. Returns how many were read.
    pub(super) fn read_database(&self, offset: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        let size = self.database_size();
        let length = into.len().min(to_usize(size.saturating_sub(offset)));
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let start = to_usize(at % PAGE_SIZE as u64);
            let count = (PAGE_SIZE - start).min(length - done);
            let number = u32::try_from(at / PAGE_SIZE as u64).expect("SQLite counts pages in 32 bits") + 1;
            self.with_page(number, |page| into[done..done + count].copy_from_slice(&page[start..start + count]))?;
            done += count;
        }
        Ok(length)
    }

    fn with_page(&self, number: u32, use_it: impl FnOnce(&[u8])) -> Result<(), StoreError> {
        let (changes, count, known) = {
            let mut pages = lock(&self.pages);
            if let Some(page) = pages.cached.get_mut(&number) {
                page.used = true;
                use_it(&page.bytes);
                return Ok(());
            }
            let count = pages.ahead(number);
            (pages.changes, count, pages.known(number, count))
        };
        let known = if known.is_empty() { None } else { self.read_known(number, &known) };
        let several = || if count > 1 { self.read_run(number, count) } else { None };
        let (buffer, writes) = match known.or_else(several) {
            Some(run) => run,
            None => {
                let offset = u64::from(number - 1) * PAGE_SIZE as u64;
                let age = |bytes: &[u8]| page::written(bytes, number);
                let page = self.note(self.store.read(CatalogFile::Database, offset, PAGE_SIZE, &age))?;
                let write = age(&page).unwrap_or(0);
                (page, vec![write])
            }
        };
        use_it(&buffer[..PAGE_SIZE]);
        let mut pages = lock(&self.pages);
        if pages.changes == changes {
            for ((number, page), write) in (number..).zip(buffer.chunks_exact(PAGE_SIZE)).zip(writes) {
                pages.insert(number, page);
                pages.learn(number, write);
            }
        }
        Ok(())
    }

    /// Pages from one on as one mirror has them, up to the first that is not what was written last, by `known`.
    fn read_known(&self, number: u32, known: &[u64]) -> Option<(Buffer, Vec<u64>)> {
        let file = CatalogFile::Database;
        let mirrors = self.store.mirrors(file);
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) as usize;
        let mirror = *mirrors.get(turn % mirrors.len().max(1))?;
        let offset = u64::from(number - 1) * PAGE_SIZE as u64;
        let run = self.store.read_mirror(file, mirror, offset, known.len() * PAGE_SIZE).ok()?;
        let pages = (number..).zip(run.chunks_exact(PAGE_SIZE)).zip(known);
        let right = pages.take_while(|((number, page), write)| page::written(page, *number) == Some(**write));
        let right = right.count();
        (right > 0).then(|| (run, known[..right].to_vec()))
    }

    /// Pages from one on, and the writes they are of, up to the first that has to be looked at by itself, all mirrors have the same.
    fn read_run(&self, number: u32, count: u32) -> Option<(Buffer, Vec<u64>)> {
        let offset = u64::from(number - 1) * PAGE_SIZE as u64;
        let mirrors = self.store.mirrors(CatalogFile::Database);
        let mut copies = self.store.read_mirrors(CatalogFile::Database, &mirrors, offset, count as usize * PAGE_SIZE);
        let first = copies.pop().filter(|_| copies.len() + 1 == mirrors.len())?;
        let pages = (number..).zip(first.chunks_exact(PAGE_SIZE)).enumerate();
        let agreed = pages.map_while(|(at, (number, page))| {
            let same = |copy: &Buffer| {
                let page = copy.chunks_exact(PAGE_SIZE).nth(at);
                page.and_then(|page| page::written(page, number))
            };
            page::written(page, number).filter(|write| copies.iter().all(|copy| same(copy) == Some(*write)))
        });
        let agreed: Vec<_> = agreed.collect();
        (!agreed.is_empty()).then_some((first, agreed))
    }

    /// Writes whole pages of the database, into memory.
    pub(super) fn write_database(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        debug_assert!(offset.is_multiple_of(PAGE_SIZE as u64) && bytes.len().is_multiple_of(PAGE_SIZE));
        self.make_room(CatalogFile::Database, offset + bytes.len() as u64)?;
        let full = {
            let mut pages = lock(&self.pages);
            pages.changes += 1;
            for (at, page) in bytes.chunks_exact(PAGE_SIZE).enumerate() {
                let number = u32::try_from(offset / PAGE_SIZE as u64).expect("32 bits") + 1;
                let number = number + u32::try_from(at).expect("32 bits");
                pages.dirty.insert(number);
                pages.insert(number, page);
            }
            pages.size = pages.size.max(offset + bytes.len() as u64);
            pages.dirty.len() * PAGE_SIZE >= PUSH_BYTES
        };
        if full { self.push_database() } else { Ok(()) }
    }

    pub(super) fn truncate_database(&self, size: u64) {
        let mut pages = lock(&self.pages);
        pages.changes += 1;
        pages.size = pages.size.min(size);
        let first = u32::try_from(size.div_ceil(PAGE_SIZE as u64)).expect("32 bits") + 1;
        drop(pages.dirty.split_off(&first));
        drop(pages.cached.split_off(&first));
        pages.written.truncate(first as usize - 1);
    }

    /// Reads bytes of the log; those past its end are not touched. Returns how many were read.
    pub(super) fn read_log(&self, offset: u64, into: &mut [u8]) -> usize {
        let log = lock(&self.log);
        let length = into.len().min(to_usize(log.size.saturating_sub(offset)));
        let (mut at, mut rest) = (to_usize(offset), &mut into[..length]);
        while !rest.is_empty() {
            let start = at % BLOCK;
            let count = (BLOCK - start).min(rest.len());
            rest[..count].copy_from_slice(&log.blocks[at / BLOCK][start..start + count]);
            rest = &mut rest[count..];
            at += count;
        }
        length
    }

    /// Writes bytes of the log, into memory.
    pub(super) fn write_log(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let end = offset + bytes.len() as u64;
        self.make_room(CatalogFile::Wal, end)?;
        let full = {
            let mut log = lock(&self.log);
            let (mut at, mut rest) = (to_usize(offset), bytes);
            let needed = log.blocks.len().max(to_usize(end).div_ceil(BLOCK));
            log.blocks.resize_with(needed, || vec![0; BLOCK].into());
            while !rest.is_empty() {
                let start = at % BLOCK;
                let count = (BLOCK - start).min(rest.len());
                log.blocks[at / BLOCK][start..start + count].copy_from_slice(&rest[..count]);
                log.dirty.insert(at / BLOCK);
                rest = &rest[count..];
                at += count;
            }
            // A header alone at the start is a restart; frames before it are void.
            log.position = if offset == 0 { end } else { log.position.max(end) };
            log.size = log.size.max(end);
            log.dirty.len() * BLOCK >= PUSH_BYTES
        };
        if full { self.push_log() } else { Ok(()) }
    }

    /// Empties the log in memory. The store's copy is void from when the next log's header is written.
    pub(super) fn truncate_log(&self, size: u64) {
        let mut log = lock(&self.log);
        if size == 0 {
            *log = Log::default();
        } else {
            log.size = log.size.min(size);
        }
    }

    /// Gives back what the store keeps for the database beyond `size` bytes. Nobody may need any of it: all that was
    /// written is in the database, durably, and the log on the disks is void.
    pub(super) fn shrink(&self, size: u64) -> Result<(), StoreError> {
        self.room[CatalogFile::Database as usize - 1].store(0, Ordering::Relaxed);
        self.note(self.store.shrink(CatalogFile::Database, size))
    }

    /// The last resort when a file outgrows what was made ready ahead.
    fn make_room(&self, file: CatalogFile, end: u64) -> Result<(), StoreError> {
        let end = end.next_multiple_of(BLOCK as u64);
        let room = &self.room[file as usize - 1];
        if end <= room.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.store.capacity(file) < end {
            self.note(self.store.grow(file, end))?;
        }
        room.fetch_max(self.store.capacity(file), Ordering::Relaxed);
        Ok(())
    }

    /// Hands dirty blocks of the log to the store. They are on the disks, though not durable, when this returns.
    pub(super) fn push_log(&self) -> Result<(), StoreError> {
        let _one_at_a_time = lock(&self.pushing);
        let (dirty, runs) = {
            let mut log = lock(&self.log);
            let dirty = std::mem::take(&mut log.dirty);
            let runs = runs(&dirty, |block, into| into.copy_from_slice(&log.blocks[block]));
            (dirty, runs)
        };
        if dirty.is_empty() {
            return Ok(());
        }
        let written = self.note(self.store.write_many(CatalogFile::Wal, runs));
        if written.is_err() {
            lock(&self.log).dirty.extend(dirty);
        }
        written
    }

    /// Compares each mirror of the log, as far as it was pushed, with memory. Nobody must write the log meanwhile.
    pub(super) fn compare_log(&self, repair: bool) -> Vec<Problem> {
        let _one_at_a_time = lock(&self.pushing);
        let (blocks, dirty) = {
            let log = lock(&self.log);
            (log.blocks[..to_usize(log.position).div_ceil(BLOCK)].to_vec(), log.dirty.clone())
        };
        let mut problems = Vec::new();
        let mut wrong = |mirror: u8, offset: u64, right: &[Box<[u8]>], what: String| {
            // Its disk may have been dropped, or gone offline, and have taken it along.
            if !self.store.mirrors(CatalogFile::Wal).contains(&mirror) {
                return;
            }
            let bytes = Buffer::copy_of(&right.concat()).share();
            let repaired = repair && self.store.write_mirror(CatalogFile::Wal, mirror, offset, bytes).is_ok();
            problems.push(Problem { text: format!("mirror {mirror} of the catalog's log {what}"), repaired });
        };
        for mirror in self.store.mirrors(CatalogFile::Wal) {
            for (at, run) in blocks.chunks(RUN_BYTES / BLOCK).enumerate() {
                let first = at * (RUN_BYTES / BLOCK);
                let offset = (first * BLOCK) as u64;
                match self.store.read_mirror(CatalogFile::Wal, mirror, offset, run.len() * BLOCK) {
                    Ok(found) => {
                        for (index, (block, found)) in run.iter().zip(found.chunks_exact(BLOCK)).enumerate() {
                            if !dirty.contains(&(first + index)) && block[..] != *found {
                                let what = format!("is not what was written at {}", offset + (index * BLOCK) as u64);
                                wrong(mirror, offset + (index * BLOCK) as u64, &run[index..=index], what);
                            }
                        }
                    }
                    Err(error) => wrong(mirror, offset, run, format!("cannot be read: {error}")),
                }
            }
        }
        if problems.iter().any(|problem| problem.repaired) && self.note(self.store.flush()).is_err() {
            problems.iter_mut().for_each(|problem| problem.repaired = false);
        }
        problems
    }

    /// Hands dirty pages to the store.
    pub(super) fn push_database(&self) -> Result<(), StoreError> {
        let _one_at_a_time = lock(&self.pushing);
        let write = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let (dirty, runs) = {
            let mut pages = lock(&self.pages);
            pages.changes += 1;
            let dirty = pages.dirty.clone();
            let blocks: BTreeSet<usize> = dirty.iter().map(|number| *number as usize - 1).collect();
            let runs = runs(&blocks, |block, into| {
                let number = u32::try_from(block + 1).expect("a page number");
                into.copy_from_slice(&pages.cached[&number].bytes);
                page::seal(into, number, write);
            });
            dirty.iter().for_each(|number| pages.learn(*number, write));
            (dirty, runs)
        };
        if dirty.is_empty() {
            return Ok(());
        }
        self.note(self.store.write_many(CatalogFile::Database, runs))?;
        // Nobody else writes pages while they are being pushed: checkpoints run one at a time.
        let mut pages = lock(&self.pages);
        pages.changes += 1;
        pages.dirty.retain(|number| !dirty.contains(number));
        Ok(())
    }

    /// Makes a file durable.
    pub(super) fn sync(&self, file: CatalogFile) -> Result<(), StoreError> {
        match file {
            CatalogFile::Database => self.push_database()?,
            CatalogFile::Wal => self.push_log()?,
        }
        let is_planted = file == CatalogFile::Wal && planted::has(Bug::LogNotSynced);
        if !is_planted {
            self.note(self.store.flush())?;
        }
        if file == CatalogFile::Wal {
            self.log_syncs.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// How often the log was made durable.
    pub(super) fn log_syncs(&self) -> u64 {
        self.log_syncs.load(Ordering::Acquire)
    }
}

/// Blocks as runs of neighbours, each with its byte offset.
fn runs(blocks: &BTreeSet<usize>, mut fill: impl FnMut(usize, &mut [u8])) -> Vec<(u64, Slice)> {
    let mut runs = Vec::new();
    let mut blocks = blocks.iter().copied().peekable();
    while let Some(first) = blocks.next() {
        let mut end = first + 1;
        while blocks.peek() == Some(&end) && (end - first) * BLOCK < RUN_BYTES {
            blocks.next();
            end += 1;
        }
        let mut buffer = Buffer::zeroed((end - first) * BLOCK);
        for (at, part) in buffer.chunks_exact_mut(BLOCK).enumerate() {
            fill(first + at, part);
        }
        runs.push(((first * BLOCK) as u64, buffer.share()));
    }
    runs
}

const _: () = assert!(wal::HEADER == 32 && PAGE_SIZE == BLOCK);
