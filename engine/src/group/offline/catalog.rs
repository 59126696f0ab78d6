//! The catalog of a group that is not mounted, copied to one SQLite database.
//!
//! The log is chosen and replayed by the code of a mount (`catalog/wal.rs`) on a store that keeps
//! its writes in memory. Of each page that the log does not have, the mirror counts that is right
//! and was written last.
//!
//! An engine may use the group meanwhile. So the pages are read first and the log last: between two
//! restarts of the log it holds every change since the first of them, and a page that a checkpoint
//! wrote while it was being read is in the log, too. If the log was restarted meanwhile, all is
//! read again.

use super::{OfflineGroup, read};
use crate::{
    catalog::{
        CatalogError,
        store::{CatalogFile, FileName, Store, StoreError},
        wal::{self, Recovery},
    },
    sync::{
        buffer::{Buffer, Slice},
        lock::Mutex,
    },
    world::World,
};
use plinth_format::{
    membership::CatalogRun,
    page::{self, PAGE_SIZE},
};
use std::collections::{BTreeMap, BTreeSet};

/// Pages read at a time.
const WINDOW: u32 = 256;
/// How often a catalog is read that is written meanwhile.
const TRIES: u32 = 5;
/// Bytes at the beginning of the log that say which one it is.
const LOG_HEADER: usize = 32;
/// Where the first page has the size of the database in pages, big-endian; and the two bytes that
/// say whether there is a log: 1 is none.
const SIZE_IN_PAGES: std::ops::Range<usize> = 28..32;
const JOURNAL_MODES: std::ops::Range<usize> = 18..20;

/// The result of a copy.
#[derive(Debug, Default)]
pub struct CopiedCatalog {
    pub pages: u32,
    /// Pages without a good mirror: zeros in the copy.
    pub damaged: Vec<u32>,
    /// Mirrors, and how many of their pages are damaged, cannot be read or are old; only those with
    /// some.
    pub wrong: BTreeMap<u8, u32>,
    pub log: Recovery,
    pub remarks: Vec<String>,
}

/// Takes a page and its number.
pub type Put<'a> = &'a mut dyn FnMut(u32, &[u8]) -> Result<(), CatalogError>;

/// The catalog's mirrors on the disks that are there; what is written stays in memory.
struct Mirrors<'a> {
    world: &'a dyn World,
    group: &'a OfflineGroup,
    numbers: BTreeMap<CatalogFile, Vec<u8>>,
    replayed: Mutex<BTreeMap<u32, Vec<u8>>>,
}

impl<'a> Mirrors<'a> {
    fn new(world: &'a dyn World, group: &'a OfflineGroup) -> Self {
        let numbers = [CatalogFile::Database, CatalogFile::Wal].map(|file| {
            let runs = || group.membership.catalog.iter().filter(move |run| run.file == file);
            let all: BTreeSet<u8> = runs().map(|run| run.mirror).collect();
            let is_current = |run: &CatalogRun| {
                group.disk(run.disk).is_some_and(|disk| disk.found.is_some() && disk.is_current())
            };
            let whole = all
                .iter()
                .copied()
                .filter(|mirror| runs().filter(|run| run.mirror == *mirror).all(is_current));
            let whole: Vec<u8> = whole.collect();
            // A log that is old hides commits: such a mirror counts only if there is no other.
            let is_needed = whole.is_empty() || file == CatalogFile::Database;
            (file, if is_needed { all.into_iter().collect() } else { whole })
        });
        Self { world, group, numbers: numbers.into(), replayed: Mutex::default() }
    }

    /// Bytes of one mirror; `None` if a disk is missing or fails.
    fn read_parts(
        &self,
        file: CatalogFile,
        mirror: u8,
        offset: u64,
        length: usize,
    ) -> Option<Buffer> {
        let au_size = self.group.membership.au_size;
        let mut whole = Buffer::zeroed(length);
        let mut done = 0;
        while done < length {
            let at = offset.checked_add(done as u64)?;
            let unit = at / au_size;
            let run = self.group.membership.catalog.iter().find(|run| {
                let from = u64::from(run.at);
                run.file == file
                    && run.mirror == mirror
                    && (from..from + u64::from(run.count)).contains(&unit)
            })?;
            let found = self.group.disk(run.disk)?.found.as_ref()?;
            let inside = at - u64::from(run.at) * au_size;
            let rest = u64::from(run.count) * au_size - inside;
            let take = usize::try_from(rest).unwrap_or(usize::MAX).min(length - done);
            let place = u64::from(run.first.0).checked_mul(au_size)?.checked_add(inside)?;
            let bytes = read(self.world, &*found.disk, place, take).ok()?;
            whole.get_mut(done..done + take)?.copy_from_slice(&bytes);
            done += take;
        }
        Some(whole)
    }

    fn log_headers(&self) -> Vec<Option<Vec<u8>>> {
        let file = CatalogFile::Wal;
        self.mirrors(file)
            .into_iter()
            .map(|mirror| {
                let block = self.read_parts(file, mirror, 0, PAGE_SIZE)?;
                Some(block.get(..LOG_HEADER)?.to_vec())
            })
            .collect()
    }

    fn no_mirror(file: CatalogFile, offset: u64, length: usize) -> StoreError {
        StoreError::NoGoodMirror { file: FileName(file), offset, length, tried: 0 }
    }
}

impl Store for Mirrors<'_> {
    fn capacity(&self, file: CatalogFile) -> u64 {
        let runs = self.group.membership.catalog.iter().filter(|run| run.file == file);
        let ends = runs.map(|run| u64::from(run.at) + u64::from(run.count));
        ends.max().unwrap_or(0) * self.group.membership.au_size
    }

    fn unit(&self) -> u64 {
        self.group.membership.au_size
    }

    fn mirrors(&self, file: CatalogFile) -> Vec<u8> {
        self.numbers.get(&file).cloned().unwrap_or_default()
    }

    fn epoch(&self) -> u64 {
        // Only pages of the copy get a number from it.
        u64::from(u32::MAX)
    }

    fn read(
        &self,
        file: CatalogFile,
        offset: u64,
        length: usize,
        age: &dyn Fn(&[u8]) -> Option<u64>,
    ) -> Result<Buffer, StoreError> {
        let mirrors = self.mirrors(file).into_iter();
        let good = mirrors.filter_map(|mirror| {
            let bytes = self.read_parts(file, mirror, offset, length)?;
            Some((age(&bytes)?, bytes))
        });
        let newest = good.max_by_key(|(age, _)| *age).map(|(_, bytes)| bytes);
        newest.ok_or_else(|| Self::no_mirror(file, offset, length))
    }

    fn read_mirror(
        &self,
        file: CatalogFile,
        mirror: u8,
        offset: u64,
        length: usize,
    ) -> Result<Buffer, StoreError> {
        self.read_parts(file, mirror, offset, length)
            .ok_or_else(|| Self::no_mirror(file, offset, length))
    }

    fn write(&self, file: CatalogFile, offset: u64, data: Slice) -> Result<(), StoreError> {
        if file == CatalogFile::Database {
            let mut replayed = self.replayed.lock();
            let first = u32::try_from(offset / PAGE_SIZE as u64).unwrap_or(u32::MAX);
            for (number, page) in (first.saturating_add(1)..).zip(data.chunks(PAGE_SIZE)) {
                replayed.insert(number, page.to_vec());
            }
        }
        Ok(())
    }

    fn write_mirror(&self, _: CatalogFile, _: u8, _: u64, _: Slice) -> Result<(), StoreError> {
        // The log is used where it was read.
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn grow(&self, _: CatalogFile, _: u64) -> Result<(), StoreError> {
        Ok(())
    }

    fn shrink(&self, _: CatalogFile, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Copies the catalog: `put` gets each page that is good, with its number, in any order; some more
/// than once, and then the last counts. Pages beyond the number that is returned do not belong to
/// it.
///
/// # Errors
/// If there is no mirror at all, or `put` fails.
pub fn copy(
    world: &dyn World,
    group: &OfflineGroup,
    put: Put<'_>,
) -> Result<CopiedCatalog, CatalogError> {
    let mut copied = CopiedCatalog::default();
    for left in (0..TRIES).rev() {
        let mirrors = Mirrors::new(world, group);
        let before = mirrors.log_headers();
        copied = copy_once(&mirrors, put)?;
        if !group.is_in_use || before == mirrors.log_headers() {
            return Ok(copied);
        }
        if left == 0 {
            copied.remarks.push(
                "the catalog was written faster than it could be read: names and places of files \
                 that changed meanwhile may be wrong"
                    .to_owned(),
            );
        }
    }
    Ok(copied)
}

fn copy_once(mirrors: &Mirrors<'_>, put: Put<'_>) -> Result<CopiedCatalog, CatalogError> {
    let capacity = mirrors.capacity(CatalogFile::Database) / PAGE_SIZE as u64;
    let capacity = u32::try_from(capacity).unwrap_or(u32::MAX - 1);
    let mut found = PagesFound::default();
    let mut first = 1;
    while first <= capacity {
        let count = WINDOW.min(capacity - first + 1);
        copy_window(mirrors, first, count, &mut found, put)?;
        first += count;
    }
    let log = wal::recover(mirrors, true)?;
    let PagesFound { mut bad, wrong, mut first_page } = found;
    let replayed = std::mem::take(&mut *mirrors.replayed.lock());
    for (number, bytes) in replayed {
        put(number, &bytes)?;
        bad.remove(&number);
        if number == 1 {
            first_page = Some(bytes);
        }
    }
    let in_header = first_page
        .as_ref()
        .and_then(|page| Some(u32::from_be_bytes(page.get(SIZE_IN_PAGES)?.try_into().ok()?)));
    if let Some(mut page) = first_page {
        // The copy has no log, and opens where no log can be made.
        if let Some(modes) = page.get_mut(JOURNAL_MODES) {
            modes.fill(1);
        }
        page::seal(&mut page, 1, wal::first_write(mirrors));
        put(1, &page)?;
    }
    let pages = log.pages.or(in_header).unwrap_or(capacity);
    let mut copied = CopiedCatalog { pages, log, ..CopiedCatalog::default() };
    copied.damaged = bad.into_iter().filter(|number| *number <= pages).collect();
    for (mirror, _) in wrong.into_iter().filter(|(_, number)| *number <= pages) {
        *copied.wrong.entry(mirror).or_default() += 1;
    }
    Ok(copied)
}

/// The database's pages, as they were found.
#[derive(Default)]
struct PagesFound {
    /// Without a good mirror.
    bad: BTreeSet<u32>,
    /// Mirrors and their pages that are damaged or old.
    wrong: BTreeSet<(u8, u32)>,
    first_page: Option<Vec<u8>>,
}

/// Copies `count` pages from page `first` on: of each the mirror that was written last.
fn copy_window(
    mirrors: &Mirrors<'_>,
    first: u32,
    count: u32,
    all: &mut PagesFound,
    put: Put<'_>,
) -> Result<(), CatalogError> {
    let numbers = mirrors.mirrors(CatalogFile::Database);
    let copies: Vec<Vec<Option<Buffer>>> =
        numbers.iter().map(|mirror| read_window(mirrors, *mirror, first, count)).collect();
    for at in 0..count {
        let number = first + at;
        let of_page = |copy: &Vec<Option<Buffer>>| {
            let bytes = copy.get(at as usize / READ_PAGES)?.as_ref()?;
            let start = at as usize % READ_PAGES * PAGE_SIZE;
            let bytes = bytes.get(start..start + PAGE_SIZE)?.to_vec();
            Some((page::written(&bytes, number)?, bytes))
        };
        let found: Vec<Option<(u64, Vec<u8>)>> = copies.iter().map(of_page).collect();
        let newest = found.iter().flatten().map(|(write, _)| *write).max();
        for (mirror, copy) in numbers.iter().zip(&found) {
            if copy.as_ref().map(|(write, _)| *write) != newest {
                all.wrong.insert((*mirror, number));
            }
        }
        match found.into_iter().flatten().max_by_key(|(write, _)| *write) {
            Some((_, bytes)) => {
                put(number, &bytes)?;
                if number == 1 {
                    all.first_page = Some(bytes);
                }
            }
            None => drop(all.bad.insert(number)),
        }
    }
    Ok(())
}

/// Pages of one read.
const READ_PAGES: usize = 16;

/// Pages of one mirror, [`READ_PAGES`] in each buffer; `None` where they cannot be read.
fn read_window(mirrors: &Mirrors<'_>, mirror: u8, first: u32, count: u32) -> Vec<Option<Buffer>> {
    let (file, size) = (CatalogFile::Database, PAGE_SIZE as u64);
    let starts = (0..count as usize).step_by(READ_PAGES);
    starts
        .map(|start| {
            let pages = READ_PAGES.min(count as usize - start);
            let offset = (u64::from(first - 1) + start as u64) * size;
            let whole = mirrors.read_parts(file, mirror, offset, pages * PAGE_SIZE);
            whole.or_else(|| {
                // One page that cannot be read must not hide the others.
                let mut some = Buffer::zeroed(pages * PAGE_SIZE);
                let mut any = false;
                for at in 0..pages {
                    let offset = offset + (at * PAGE_SIZE) as u64;
                    if let Some(page) = mirrors.read_parts(file, mirror, offset, PAGE_SIZE) {
                        some[at * PAGE_SIZE..(at + 1) * PAGE_SIZE].copy_from_slice(&page);
                        any = true;
                    }
                }
                any.then_some(some)
            })
        })
        .collect()
}
