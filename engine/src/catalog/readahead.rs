//! Predicts which pages of the database a reader will need next.
//!
//! A walk along a table or an index reads leaf after leaf, and each would wait for a disk. The next
//! leaf is known: the inner page above them lists all its leaves, in order, wherever in the file
//! they are.
//!
//!   1. The inner pages that were used last are remembered.
//!   2. A page that is not cached, and is listed in one of them, is read together with those that
//!      follow it there.
//!   3. If no inner page is known, the pages that follow in the file are read.
//!
//! How many are read depends on the reads before: one page for a lookup; for a walk that continues
//! where it stopped, twice as many each time, up to [`AHEAD_MAX`]. This only decides which pages
//! are read; a wrong guess costs a read and nothing else.

use std::collections::VecDeque;

/// Most pages read at once.
const AHEAD_MAX: u32 = 64;
/// Walks that are remembered; a lookup of one page counts as one, too.
const WALKS: usize = 32;
/// Inner pages that are remembered.
const INNER: usize = 32;
/// Without an inner page: how much further in the file than expected the next leaf may lie.
const NEAR: u32 = 4;

/// The page that a walk reads next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Page(u32),
    /// The first page below another inner page.
    Inner,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct ReadAhead {
    /// The latest last.
    inner: VecDeque<u32>,
    /// The next page of each walk, and how many pages its last read had; the latest walk last.
    walks: VecDeque<(Next, u32)>,
}

impl ReadAhead {
    /// Notes that a page is used.
    pub(super) fn saw(&mut self, number: u32, page: &[u8]) {
        if !is_inner(page, number) || self.inner.back() == Some(&number) {
            return;
        }
        self.inner.retain(|known| *known != number);
        if self.inner.len() >= INNER {
            self.inner.pop_front();
        }
        self.inner.push_back(number);
    }

    /// The pages to read when `number` is needed and not cached: that first, then others that are
    /// not cached either, all below `end`. `cached` returns pages that are cached.
    pub(super) fn pages<'a>(
        &mut self,
        number: u32,
        end: u32,
        cached: impl Fn(u32) -> Option<&'a [u8]>,
    ) -> Vec<u32> {
        let below = self.inner.iter().rev().find_map(|inner| {
            let children: Vec<u32> = children(cached(*inner)?, *inner).collect();
            let at = children.iter().position(|child| *child == number)?;
            Some((at, children))
        });
        let is_missing = |page: &u32| (1..end).contains(page) && cached(*page).is_none();
        let (count, next, mut wanted): (u32, Next, Vec<u32>);
        match below {
            Some((at, children)) => {
                count = self
                    .count(|next| next == Next::Page(number) || (at == 0 && next == Next::Inner));
                let (now, later) =
                    children[at + 1..].split_at((count as usize - 1).min(children.len() - at - 1));
                wanted = now.iter().copied().filter(is_missing).collect();
                next = later.iter().copied().find(is_missing).map_or(Next::Inner, Next::Page);
            }
            None => {
                count = self.count(
                    |next| matches!(next, Next::Page(page) if (page..page.saturating_add(NEAR)).contains(&number)),
                );
                wanted =
                    (number + 1..number.saturating_add(count)).take_while(is_missing).collect();
                next = Next::Page(wanted.last().map_or(number, |last| *last) + 1);
            }
        }
        if self.walks.len() >= WALKS {
            self.walks.pop_front();
        }
        self.walks.push_back((next, count));
        wanted.insert(0, number);
        wanted
    }

    /// How many pages a walk gets that needs a page now; the walk is removed from the list.
    fn count(&mut self, is_it: impl Fn(Next) -> bool) -> u32 {
        let known = self
            .walks
            .iter()
            .rposition(|(next, _)| is_it(*next))
            .and_then(|at| self.walks.remove(at));
        known.map_or(1, |(_, count)| (count * 2).min(AHEAD_MAX))
    }
}

/// The offset of the header of a page: the first page has the database's before it.
fn header(number: u32) -> usize {
    if number == 1 { 100 } else { 0 }
}

/// Whether a page is an inner page of a table or an index (SQLite's file format, section 1.6).
fn is_inner(page: &[u8], number: u32) -> bool {
    matches!(page.get(header(number)), Some(2 | 5))
}

/// The pages below an inner page, in order; any bytes are accepted.
fn children(page: &[u8], number: u32) -> impl Iterator<Item = u32> + '_ {
    let header = header(number);
    let short = |at: usize| {
        page.get(at..at + 2).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    };
    let long = |at: usize| {
        page.get(at..at + 4).map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
    };
    let cells = if is_inner(page, number) { short(header + 3).unwrap_or(0) } else { 0 };
    let last = if cells > 0 { long(header + 8) } else { None };
    (0..cells).filter_map(move |cell| long(short(header + 12 + 2 * cell)?)).chain(last)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const END: u32 = 10_000;

    /// An inner page over these.
    fn over(children: &[u32]) -> Vec<u8> {
        let mut page = vec![0; 4096];
        page[0] = 5;
        let (last, cells) = children.split_last().unwrap();
        page[3..5].copy_from_slice(&u16::try_from(cells.len()).unwrap().to_be_bytes());
        page[8..12].copy_from_slice(&last.to_be_bytes());
        for (at, child) in cells.iter().enumerate() {
            let cell = 4000 - 8 * at;
            page[12 + 2 * at..14 + 2 * at]
                .copy_from_slice(&u16::try_from(cell).unwrap().to_be_bytes());
            page[cell..cell + 4].copy_from_slice(&child.to_be_bytes());
        }
        page
    }

    /// Walks along pages, caches them, and returns how often it had to wait.
    fn walk(
        ahead: &mut ReadAhead,
        cached: &mut BTreeMap<u32, Vec<u8>>,
        pages: impl IntoIterator<Item = u32>,
    ) -> usize {
        let mut waits = 0;
        for number in pages {
            if let Some(page) = cached.get(&number) {
                ahead.saw(number, page);
                continue;
            }
            waits += 1;
            let read = ahead.pages(number, END, |page| cached.get(&page).map(Vec::as_slice));
            assert_eq!(read[0], number);
            assert!(read.iter().all(|page| !cached.contains_key(page) && *page < END), "{read:?}");
            cached.extend(read.into_iter().map(|page| (page, vec![13; 4096])));
        }
        waits
    }

    /// Leaves at any places are read in the order of the inner pages, and from one inner page to
    /// the next.
    #[test]
    fn a_walk_follows_the_tree() {
        let leaves: Vec<Vec<u32>> = (0..4)
            .map(|inner| {
                (0..250).map(|at| 100 + (at * 7919 + inner * 13) % 1009 * 7 + inner).collect()
            })
            .collect();
        let mut cached: BTreeMap<u32, Vec<u8>> =
            (2..6).zip(leaves.iter().map(|leaves| over(leaves))).collect();
        let mut ahead = ReadAhead::default();
        let order = (2..6)
            .zip(&leaves)
            .flat_map(|(inner, leaves)| std::iter::once(inner).chain(leaves.iter().copied()));
        // 1 + 2 + ... + 64 and then 64 at a time.
        let waits = walk(&mut ahead, &mut cached, order.collect::<Vec<_>>());
        assert!(waits <= 7 + 4 * 5, "{waits} waits for 1000 leaves");
    }

    /// Without a known inner page the order of the file is followed, over small gaps.
    #[test]
    fn a_walk_follows_the_file() {
        let (mut ahead, mut cached) = (ReadAhead::default(), BTreeMap::new());
        let waits = walk(&mut ahead, &mut cached, (100..1100).filter(|page| page % 40 != 0));
        assert!(waits <= 25, "{waits} waits for 1000 pages");
    }

    /// A lookup reads its page alone.
    #[test]
    fn a_lookup_reads_one_page() {
        let leaves: Vec<u32> = (0..250).map(|at| 100 + at * 3).collect();
        let mut cached = BTreeMap::from([(2, over(&leaves))]);
        let mut ahead = ReadAhead::default();
        for at in 0..100 {
            ahead.saw(2, &cached[&2]);
            let read = ahead
                .pages(leaves[at * 7919 % 250], END, |page| cached.get(&page).map(Vec::as_slice));
            assert_eq!(read.len(), 1);
            cached.insert(read[0], vec![13; 4096]);
        }
    }

    /// Bytes that are not an inner page, or a malformed one, lead to no page outside the database.
    #[test]
    fn strange_pages_are_harmless() {
        let mut state = 1_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        for round in 0..200 {
            let mut page: Vec<u8> = (0..4096).map(|_| next() as u8).collect();
            let number = 1 + round % 2;
            page[header(number)] = 5;
            let children: Vec<u32> = children(&page, number).collect();
            let cached = BTreeMap::from([(number, page)]);
            let mut ahead = ReadAhead::default();
            ahead.saw(number, &cached[&number]);
            for child in children.into_iter().take(50) {
                ahead.walks.push_back((Next::Page(child), 64));
                let read = ahead.pages(child, END, |page| cached.get(&page).map(Vec::as_slice));
                assert!(read[0] == child && read[1..].iter().all(|page| (1..END).contains(page)));
            }
        }
        assert_eq!(children(&[5, 0, 0], 2).count(), 0);
    }
}
