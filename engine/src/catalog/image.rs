//! The catalog's two files in memory, between SQLite and the mirrored store.
//!
//! The log is kept whole in memory, from its last restart on: readers and checkpoints never read it
//! from a disk, so a damaged frame can do no harm, and a push never needs to read the bytes around
//! it. Its size is limited, see [`Catalog`](super::Catalog).
//!
//! Pages of the database are kept in a cache that all connections share (`pages.rs`); pages that a
//! reader will need next are read together (`readahead.rs`). A checkpoint writes pages into the
//! cache; they reach the store in runs, when they are pushed. Every page is sealed before it goes
//! to the store and verified when it is read.
//!
//! Invariants:
//!
//!   1. Dirty pages and dirty log blocks are never dropped from memory.
//!   2. A page that a reader fetched enters the cache only if nothing was written meanwhile. It is
//!      the version that was written last. If the number of its last write is not known yet, all
//!      mirrors are read, because one of them may have lost a write without an error; afterwards
//!      the number is remembered, and one mirror that has it is enough.
//!   3. `sync` returns after everything written before it is durable on the store.

use super::{
    pages::Pages,
    store::{CatalogFile, Store, StoreError},
    wal,
};
use crate::{
    admin::Problem,
    planted::{self, Bug},
    sync::{
        buffer::{Buffer, Slice},
        lock::Mutex,
    },
};
use plinth_format::page::{self, PAGE_SIZE};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

const BLOCK: usize = 4096;
/// Dirty bytes after which a push does not wait for the end of a commit or checkpoint.
const PUSH_BYTES: usize = 4 << 20;
/// Bytes in one write to the store.
const RUN_BYTES: usize = 1 << 20;

#[derive(Default)]
struct Log {
    /// Bytes of the log from SQLite's view.
    size: u64,
    /// Where the last frame since the last restart ends.
    position: u64,
    blocks: Vec<Box<[u8]>>,
    dirty: BTreeSet<usize>,
}

/// A page that was read, and the number of the write that it comes from.
struct FetchedPage {
    number: u32,
    write: u64,
    bytes: Slice,
}

/// See the module's description.
pub(super) struct Image {
    store: Arc<dyn Store>,
    pages: Mutex<Pages>,
    log: Mutex<Log>,
    /// Held during a push: one run of writes at a time.
    pushing: Mutex<()>,
    /// The number of the last write of pages.
    writes: AtomicU64,
    /// Counts reads for which one mirror is enough: they are distributed round robin over the
    /// mirrors.
    waiters: AtomicU64,
    log_syncs: AtomicU64,
    /// Capacities last seen, which never shrink: they are read again only when they are reached.
    room: [AtomicU64; 2],
    /// The last error, for messages: SQLite passes on only a number.
    error: Mutex<Option<StoreError>>,
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).expect("64-bit")
}

impl Image {
    /// `pages`: the number of pages of the database.
    pub(super) fn new(store: Arc<dyn Store>, pages: u32) -> Self {
        let pages = Pages::new(u64::from(pages) * PAGE_SIZE as u64);
        let writes = AtomicU64::new(wal::first_write(&*store));
        Self {
            store,
            writes,
            waiters: AtomicU64::new(0),
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

    /// The last error.
    pub(super) fn error(&self) -> Option<StoreError> {
        self.error.lock().clone()
    }

    fn note<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &result {
            *self.error.lock() = Some(error.clone());
        }
        result
    }

    pub(super) fn database_size(&self) -> u64 {
        self.pages.lock().size
    }

    pub(super) fn log_size(&self) -> u64 {
        self.log.lock().size
    }

    /// Bytes of the log in use since its last restart.
    pub(super) fn log_position(&self) -> u64 {
        self.log.lock().position
    }

    /// Reads bytes of the database; the part of `into` past its end is left as it is. Returns the
    /// number of bytes read.
    pub(super) fn read_database(&self, offset: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        let size = self.database_size();
        let length = into.len().min(to_usize(size.saturating_sub(offset)));
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let start = to_usize(at % PAGE_SIZE as u64);
            let count = (PAGE_SIZE - start).min(length - done);
            let number =
                u32::try_from(at / PAGE_SIZE as u64).expect("SQLite counts pages in 32 bits") + 1;
            self.with_page(number, |page| {
                into[done..done + count].copy_from_slice(&page[start..start + count])
            })?;
            done += count;
        }
        Ok(length)
    }

    fn with_page(&self, number: u32, use_it: impl FnOnce(&[u8])) -> Result<(), StoreError> {
        let (changes, wanted) = {
            let mut pages = self.pages.lock();
            if let Some(page) = pages.look(number) {
                use_it(page);
                return Ok(());
            }
            (pages.changes, pages.wanted(number))
        };
        let mut found = self.fetch(&wanted);
        if found.first().is_none_or(|page| page.number != number) {
            let offset = u64::from(number - 1) * PAGE_SIZE as u64;
            let age = |bytes: &[u8]| page::written(bytes, number);
            let bytes =
                self.note(self.store.read(CatalogFile::Database, offset, PAGE_SIZE, &age))?;
            let write = age(&bytes).unwrap_or(0);
            found.insert(0, FetchedPage { number, write, bytes: bytes.share() });
        }
        if let Some(page) = found.first() {
            use_it(&page.bytes);
        }
        let mut pages = self.pages.lock();
        if pages.changes == changes || planted::has(Bug::PageCachedLate) {
            for FetchedPage { number, write, bytes } in found {
                pages.insert(number, &bytes);
                pages.learn(number, write);
            }
            pages.look(number);
        }
        Ok(())
    }

    /// Reads pages, all at once: from one mirror, round robin, if their last write is known; from
    /// all if it is not. Returns the pages that are the last version as far as is known, and the
    /// same on every mirror that was read.
    fn fetch(&self, wanted: &[(u32, u64)]) -> Vec<FetchedPage> {
        let file = CatalogFile::Database;
        let mirrors = self.store.mirrors(file);
        let runs: Vec<&[(u32, u64)]> = wanted
            .chunk_by(|one, next| one.0 + 1 == next.0 && (one.1 == 0) == (next.1 == 0))
            .collect();
        let turn = self.waiters.fetch_add(runs.len() as u64, Ordering::Relaxed) as usize;
        let mut reads = Vec::new();
        for (at, run) in runs.iter().enumerate() {
            let (first, write) = run[0];
            let one = mirrors.get((turn + at) % mirrors.len().max(1)).into_iter();
            let from: Vec<&u8> = if write == 0 { mirrors.iter().collect() } else { one.collect() };
            let offset = u64::from(first - 1) * PAGE_SIZE as u64;
            reads.extend(
                from.into_iter().map(|mirror| (at, (*mirror, offset, run.len() * PAGE_SIZE))),
            );
        }
        let places: Vec<_> = reads.iter().map(|(_, place)| *place).collect();
        let copies =
            self.store.read_many(file, &places).into_iter().map(|copy| copy.map(Buffer::share));
        let mut copies = reads.iter().map(|(run, _)| *run).zip(copies).peekable();
        let mut found = Vec::new();
        for (at, run) in runs.iter().enumerate() {
            let mut of_run = Vec::new();
            while let Some((_, copy)) = copies.next_if(|(run, _)| *run == at) {
                of_run.push(copy);
            }
            let Some(of_run) = of_run.into_iter().collect::<Option<Vec<Slice>>>() else { continue };
            let Some((first, others)) = of_run.split_first() else { continue };
            for ((number, known), start) in run.iter().zip((0..).step_by(PAGE_SIZE)) {
                let written =
                    |copy: &Slice| page::written(&copy[start..start + PAGE_SIZE], *number);
                let write = written(first).filter(|write| *known == 0 || known == write);
                if let Some(write) =
                    write.filter(|write| others.iter().all(|copy| written(copy) == Some(*write)))
                {
                    found.push(FetchedPage {
                        number: *number,
                        write,
                        bytes: first.part(start..start + PAGE_SIZE),
                    });
                }
            }
        }
        found
    }

    /// Writes whole pages of the database, into memory.
    pub(super) fn write_database(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        debug_assert!(
            offset.is_multiple_of(PAGE_SIZE as u64) && bytes.len().is_multiple_of(PAGE_SIZE)
        );
        self.make_room(CatalogFile::Database, offset + bytes.len() as u64)?;
        let full = {
            let mut pages = self.pages.lock();
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
        let mut pages = self.pages.lock();
        pages.changes += 1;
        pages.truncate(size);
    }

    /// Reads bytes of the log; the part of `into` past its end is left as it is. Returns the number
    /// of bytes read.
    pub(super) fn read_log(&self, offset: u64, into: &mut [u8]) -> usize {
        let log = self.log.lock();
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
            let mut log = self.log.lock();
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

    /// Empties the log in memory. The store's copy is void once the next log's header is written.
    pub(super) fn truncate_log(&self, size: u64) {
        let mut log = self.log.lock();
        if size == 0 {
            *log = Log::default();
        } else {
            log.size = log.size.min(size);
        }
    }

    /// Gives back the store's space for the database beyond `size` bytes. The caller makes sure
    /// that none of it is needed: every commit is in the database, durably, and the log on the
    /// disks is void.
    pub(super) fn shrink(&self, size: u64) -> Result<(), StoreError> {
        self.room[CatalogFile::Database as usize - 1].store(0, Ordering::Relaxed);
        self.note(self.store.shrink(CatalogFile::Database, size))
    }

    /// The last resort when a file outgrows the space that was allocated in advance.
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

    /// Writes dirty blocks of the log to the store. They are on the disks, though not durable, when
    /// this returns.
    pub(super) fn push_log(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.pushing.lock_for_long();
        let (dirty, runs) = {
            let mut log = self.log.lock();
            let dirty = std::mem::take(&mut log.dirty);
            let runs = runs(&dirty, |block, into| into.copy_from_slice(&log.blocks[block]));
            (dirty, runs)
        };
        if dirty.is_empty() {
            return Ok(());
        }
        let written = self.note(self.store.write_many(CatalogFile::Wal, runs));
        if written.is_err() {
            self.log.lock().dirty.extend(dirty);
        }
        written
    }

    /// Compares each mirror of the log, as far as it was pushed, with memory. The log must not be
    /// written meanwhile.
    pub(super) fn compare_log(&self, repair: bool) -> Vec<Problem> {
        let _one_at_a_time = self.pushing.lock_for_long();
        let (blocks, dirty) = {
            let log = self.log.lock();
            (log.blocks[..to_usize(log.position).div_ceil(BLOCK)].to_vec(), log.dirty.clone())
        };
        let mut problems = Vec::new();
        let mut wrong = |mirror: u8, offset: u64, right: &[Box<[u8]>], what: String| {
            // Its disk may have been dropped, or gone OFFLINE, and the mirror with it.
            if !self.store.mirrors(CatalogFile::Wal).contains(&mirror) {
                return;
            }
            let bytes = Buffer::copy_of(&right.concat()).share();
            let repaired =
                repair && self.store.write_mirror(CatalogFile::Wal, mirror, offset, bytes).is_ok();
            problems.push(Problem {
                text: format!("mirror {mirror} of the catalog's log {what}"),
                repaired,
            });
        };
        for mirror in self.store.mirrors(CatalogFile::Wal) {
            for (at, run) in blocks.chunks(RUN_BYTES / BLOCK).enumerate() {
                let first = at * (RUN_BYTES / BLOCK);
                let offset = (first * BLOCK) as u64;
                match self.store.read_mirror(CatalogFile::Wal, mirror, offset, run.len() * BLOCK) {
                    Ok(found) => {
                        for (index, (block, found)) in
                            run.iter().zip(found.chunks_exact(BLOCK)).enumerate()
                        {
                            if !dirty.contains(&(first + index)) && block[..] != *found {
                                let what = format!(
                                    "is not what was written at {}",
                                    offset + (index * BLOCK) as u64
                                );
                                wrong(
                                    mirror,
                                    offset + (index * BLOCK) as u64,
                                    &run[index..=index],
                                    what,
                                );
                            }
                        }
                    }
                    Err(error) => wrong(mirror, offset, run, format!("cannot be read: {error}")),
                }
            }
        }
        if problems.iter().any(|problem| problem.repaired) && self.note(self.store.flush()).is_err()
        {
            problems.iter_mut().for_each(|problem| problem.repaired = false);
        }
        problems
    }

    /// Writes dirty pages to the store.
    pub(super) fn push_database(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.pushing.lock_for_long();
        let write = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let (dirty, runs) = {
            let mut pages = self.pages.lock();
            pages.changes += 1;
            let dirty = pages.dirty.clone();
            let blocks: BTreeSet<usize> = dirty.iter().map(|number| *number as usize - 1).collect();
            let runs = runs(&blocks, |block, into| {
                let number = u32::try_from(block + 1).expect("a page number");
                into.copy_from_slice(pages.dirty_page(number));
                page::seal(into, number, write);
            });
            dirty.iter().for_each(|number| pages.learn(*number, write));
            (dirty, runs)
        };
        if dirty.is_empty() {
            return Ok(());
        }
        self.note(self.store.write_many(CatalogFile::Database, runs))?;
        // No other thread writes pages while they are being pushed: checkpoints run one at a time.
        let mut pages = self.pages.lock();
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

/// Groups adjacent blocks into runs, each with its byte offset.
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
