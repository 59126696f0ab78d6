//! Pages of the database in memory: a cache, and which pages are evicted from it.
//!
//! Two queues (as in Johnson and Shasha's 2Q, 1994), so that a full scan does not evict pages that
//! are used again and again:
//!
//! ```text
//!   read or written --> passing --(used twice)--> kept --(not used since the hand passed)--> gone
//!                          \-----(used once)----------------------------------------> gone
//! ```
//!
//! While the `passing` queue has more than a quarter of the pages, it is evicted from first. A new
//! page gets the memory of an evicted one: all pages ever cached lie in the same [`ROOM`] places,
//! whichever threads read them.

use super::readahead::ReadAhead;
use crate::limits::Limit;
use plinth_format::page::PAGE_SIZE;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Pages kept: 64 MiB, the catalog of some hundred thousand files.
const ROOM: usize = 16_384;
/// How many of the places are used.
const ROOM_USED: Limit = Limit::new(ROOM, 64);

struct Page {
    bytes: Box<[u8]>,
    /// How often it was used or written since it was cached, or since the eviction passed it; at
    /// most two.
    looks: u8,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Pages {
    /// Bytes of the database from SQLite's view.
    pub size: u64,
    /// Pages that are newer here than on the store. Never evicted.
    pub dirty: BTreeSet<u32>,
    /// Grows with every write and push.
    pub changes: u64,
    cached: BTreeMap<u32, Page>,
    passing: VecDeque<u32>,
    used: VecDeque<u32>,
    /// The number of each page's last write, from the first page on; 0 if it is not known.
    written: Vec<u64>,
    ahead: ReadAhead,
}

impl Pages {
    pub(super) fn new(size: u64) -> Self {
        Self { size, ..Self::default() }
    }

    /// A page, if it is cached.
    pub(super) fn look(&mut self, number: u32) -> Option<&[u8]> {
        let page = self.cached.get_mut(&number)?;
        page.looks = (page.looks + 1).min(2);
        self.ahead.saw(number, &page.bytes);
        Some(&page.bytes)
    }

    /// The pages to read when a page is needed that is not cached: that one first. Each with the
    /// number of its last write, 0 if it is not known.
    pub(super) fn wanted(&mut self, number: u32) -> Vec<(u32, u64)> {
        let end = u32::try_from(self.size / PAGE_SIZE as u64).unwrap_or(u32::MAX).saturating_add(1);
        let Self { cached, written, ahead, .. } = self;
        let wanted = ahead.pages(number, end, |page| cached.get(&page).map(|page| &page.bytes[..]));
        let write = |number: u32| written.get(number as usize - 1).copied().unwrap_or(0);
        wanted.into_iter().map(|number| (number, write(number))).collect()
    }

    /// Remembers the last write of a page.
    pub(super) fn learn(&mut self, number: u32, write: u64) {
        let at = number as usize - 1;
        if self.written.len() <= at {
            self.written.resize(at + 1, 0);
        }
        self.written[at] = write;
    }

    /// Caches a page.
    pub(super) fn insert(&mut self, number: u32, bytes: &[u8]) {
        if let Some(page) = self.cached.get_mut(&number) {
            page.bytes.copy_from_slice(bytes);
            page.looks = (page.looks + 1).min(2);
            return;
        }
        let bytes = match self.evict() {
            Some(mut room) => {
                room.copy_from_slice(bytes);
                room
            }
            None => bytes.into(),
        };
        self.ahead.saw(number, &bytes);
        self.cached.insert(number, Page { bytes, looks: 0 });
        self.passing.push_back(number);
    }

    /// Evicts a page if the cache is full, unless all are dirty.
    fn evict(&mut self) -> Option<Box<[u8]>> {
        let mut room = None;
        let mut left = 2 * (self.passing.len() + self.used.len());
        while self.cached.len() >= ROOM_USED.get() && left > 0 {
            left -= 1;
            // Up to a quarter of the cached pages may be in the first queue.
            let passes = self.passing.len() > ROOM_USED.get() / 4 || self.used.is_empty();
            let queue = if passes { &mut self.passing } else { &mut self.used };
            let Some(victim) = queue.pop_front() else { continue };
            // The page may have been truncated.
            let Some(page) = self.cached.get_mut(&victim) else { continue };
            let stays = if passes { page.looks > 1 } else { page.looks > 0 };
            if self.dirty.contains(&victim) {
                queue.push_back(victim);
            } else if stays {
                page.looks = 0;
                self.used.push_back(victim);
            } else {
                room = self.cached.remove(&victim).map(|page| page.bytes);
            }
        }
        room
    }

    /// # Panics
    /// If the page is not dirty: it may not be cached then.
    pub(super) fn dirty_page(&self, number: u32) -> &[u8] {
        &self.cached[&number].bytes
    }

    /// Truncates the database to this number of bytes.
    pub(super) fn truncate(&mut self, size: u64) {
        self.size = self.size.min(size);
        let first = u32::try_from(size.div_ceil(PAGE_SIZE as u64)).expect("32 bits") + 1;
        drop(self.dirty.split_off(&first));
        drop(self.cached.split_off(&first));
        self.written.truncate(first as usize - 1);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn touch(pages: &mut Pages, number: u32) -> bool {
        if pages.look(number).is_some() {
            return true;
        }
        pages.insert(number, &[0; PAGE_SIZE]);
        // The read for which the page was fetched.
        pages.look(number);
        false
    }

    /// Pages that are used again stay in the cache during scans of ten times its size.
    #[test]
    fn walks_evict_no_page_in_use() {
        let mut pages = Pages::new(1 << 40);
        let room = u32::try_from(ROOM).unwrap();
        let index = 1..=room / 8;
        for _ in 0..2 {
            for number in index.clone() {
                touch(&mut pages, number);
            }
        }
        for walk in 0..10 {
            for number in room..2 * room {
                touch(&mut pages, number + walk * room);
            }
            assert!(index.clone().all(|number| touch(&mut pages, number)), "after {walk} walks");
        }
        assert!(pages.cached.len() <= ROOM);
    }

    /// Dirty pages stay, however many there are, and are evicted like others once they are clean.
    #[test]
    fn dirty_pages_stay() {
        let mut pages = Pages::new(1 << 40);
        let many = u32::try_from(ROOM).unwrap() + 1000;
        for number in 1..=many {
            pages.dirty.insert(number);
            pages.insert(number, &[1; PAGE_SIZE]);
        }
        assert!((1..=many).all(|number| pages.dirty_page(number)[0] == 1));
        pages.dirty.clear();
        for number in many..2 * many {
            touch(&mut pages, number);
        }
        assert!(pages.cached.len() <= ROOM);
        assert!(pages.look(1).is_none() && pages.look(2 * many - 1).is_some());
        pages.truncate(0);
        assert!(pages.look(2 * many - 1).is_none() && pages.cached.is_empty());
    }
}
