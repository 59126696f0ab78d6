//! The mapping of a file's bytes to its extents.
//!
//! COARSE: the extents hold the file one after the other. FINE: eight extents are a *set*, over
//! which the file is striped in chunks of 128 KiB:
//!
//! ```text
//!   COARSE  extent 0: 0 ... A      extent 1: A ... 2A   ...                     (A: an AU)
//!   FINE    extent 0: chunks 0, 8, 16 ...   extent 1: chunks 1, 9, 17 ...
//!           ...                             extent 7: chunks 7, 15, 23 ...
//!           extent 8: the chunks behind 8A, as extent 0 has those from 0
//! ```
//!
//! COARSE is the same with sets of one extent and chunks of an AU, so there is one rule for both.
//! Pure; all other code of the engine uses this mapping.
//!
//! Invariants:
//!
//!   1. The bytes that a range of the file has in one extent are one range there: the chunks of an
//!      extent are in the order of the file.
//!   2. A piece (64 KiB) of a file is a piece of one extent.

use plinth_format::layout::PIECE_SIZE;
use std::ops::Range;

/// Bytes of a chunk of FINE, and extents of a set: the same as ASM's.
const CHUNK: u64 = 128 << 10;
const WIDTH: u64 = 8;

const _: () = assert!(CHUNK.is_multiple_of(PIECE_SIZE));

/// The striping of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripes {
    au_size: u64,
    chunk: u64,
    width: u64,
}

impl Stripes {
    #[must_use]
    pub fn new(fine: bool, au_size: u64) -> Self {
        if fine {
            Self { au_size, chunk: CHUNK, width: WIDTH }
        } else {
            Self { au_size, chunk: au_size, width: 1 }
        }
    }

    /// Bytes of a set.
    fn set_size(&self) -> u64 {
        self.au_size * self.width
    }

    /// How many of the set's first `bytes` are in its extent `index`.
    fn part_of_set(&self, index: u64, bytes: u64) -> u64 {
        let round = self.chunk * self.width;
        let rest = (bytes % round).saturating_sub(index * self.chunk).min(self.chunk);
        bytes / round * self.chunk + rest
    }

    /// The part of an extent that a range of the file covers; perhaps none.
    #[must_use]
    pub fn inside(&self, number: u64, start: u64, end: u64) -> Range<u64> {
        let base = (number / self.width).saturating_mul(self.set_size());
        let at = |offset: u64| {
            self.part_of_set(number % self.width, offset.saturating_sub(base).min(self.set_size()))
        };
        at(start)..at(end)
    }

    /// The extents of all sets that the range touches; some of them may not be touched.
    #[must_use]
    pub fn around(&self, start: u64, end: u64) -> Range<u64> {
        let first = start / self.set_size() * self.width;
        first..(end.div_ceil(self.set_size()) * self.width).max(first)
    }

    /// The extents that the range touches, and the part of each.
    pub fn touched(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
        let stripes = *self;
        let cut = move |number| (number, stripes.inside(number, start, end));
        self.around(start, end).map(cut).filter(|(_, inside)| !inside.is_empty())
    }

    /// The number of extents that the range touches.
    #[must_use]
    pub fn count(&self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let all = self.around(start, end);
        let some = |numbers: Range<u64>| {
            numbers.filter(|number| !self.inside(*number, start, end).is_empty()).count() as u64
        };
        if all.end - all.start <= 2 * self.width {
            return some(all);
        }
        let (head, tail) = (all.start + self.width, all.end - self.width);
        some(all.start..head) + (tail - head) + some(tail..all.end)
    }

    /// The extent of a byte of the file, the offset in it, and the end of the chunk in the file.
    #[must_use]
    pub fn locate(&self, offset: u64) -> (u64, u64, u64) {
        let chunk = offset % self.set_size() / self.chunk;
        let number = offset / self.set_size() * self.width + chunk % self.width;
        (
            number,
            chunk / self.width * self.chunk + offset % self.chunk,
            (offset / self.chunk + 1) * self.chunk,
        )
    }

    /// The places in the file of bytes of an extent, chunk by chunk.
    pub fn in_file(
        &self,
        number: u64,
        inside: Range<u64>,
    ) -> impl Iterator<Item = Range<u64>> + use<> {
        let stripes = *self;
        let base = number / self.width * self.set_size() + number % self.width * self.chunk;
        let mut at = inside.start;
        std::iter::from_fn(move || {
            let start =
                base + at / stripes.chunk * stripes.chunk * stripes.width + at % stripes.chunk;
            let take = (stripes.chunk - at % stripes.chunk).min(inside.end.checked_sub(at)?);
            at += take;
            (take > 0).then(|| start..start + take)
        })
    }

    /// The first byte in the file of an extent's set.
    #[must_use]
    pub fn set_start(&self, number: u64) -> u64 {
        (number / self.width).saturating_mul(self.set_size())
    }

    /// The extents of the set that has a byte of the file.
    #[must_use]
    pub fn set_of(&self, offset: u64) -> Range<u64> {
        let first = offset / self.set_size() * self.width;
        first..first + self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;

    const AU: u64 = 1 << 20;

    /// Every byte has one place, no two the same, pieces stay together, and all functions agree.
    #[test]
    fn every_byte_has_its_place() {
        for fine in [false, true] {
            let stripes = Stripes::new(fine, AU);
            let mut taken = std::collections::BTreeSet::new();
            for piece in 0..20 * AU / PIECE_SIZE {
                let (number, at, chunk_end) = stripes.locate(piece * PIECE_SIZE);
                assert!(
                    at % PIECE_SIZE == 0 && at < AU && taken.insert((number, at)),
                    "{fine} {piece}"
                );
                assert_eq!(stripes.locate(piece * PIECE_SIZE + 5), (number, at + 5, chunk_end));
                let mut back = stripes.in_file(number, at..at + PIECE_SIZE);
                assert_eq!(back.next(), Some(piece * PIECE_SIZE..(piece + 1) * PIECE_SIZE));
                assert_eq!(back.next(), None);
                assert!(stripes.set_of(piece * PIECE_SIZE).contains(&number));
            }
        }
        assert_eq!(Stripes::new(true, AU).locate(3 * CHUNK + 1), (3, 1, 4 * CHUNK));
        assert_eq!(Stripes::new(true, AU).locate(8 * CHUNK), (0, CHUNK, 9 * CHUNK));
        assert_eq!(Stripes::new(true, AU).locate(8 * AU), (8, 0, 8 * AU + CHUNK));
        assert_eq!(Stripes::new(false, AU).locate(3 * AU + 1), (3, 1, 4 * AU));
    }

    #[test]
    fn ranges_are_cut_and_put_together_again() {
        let mut numbers = Numbers::new(1);
        for fine in [false, true] {
            let stripes = Stripes::new(fine, AU);
            for _ in 0..500 {
                let start = numbers.below(40 * AU);
                let end = start + numbers.below(30 * AU);
                let touched: Vec<_> = stripes.touched(start, end).collect();
                assert_eq!(touched.len() as u64, stripes.count(start, end));
                let mut ranges: Vec<Range<u64>> = touched
                    .iter()
                    .flat_map(|(number, inside)| stripes.in_file(*number, inside.clone()))
                    .collect();
                ranges.sort_by_key(|range| range.start);
                let mut at = start;
                for range in ranges {
                    assert_eq!(range.start, at, "{fine} {start} {end}");
                    at = range.end;
                }
                assert_eq!(at, end);
                for (number, inside) in touched {
                    assert!(inside.end <= AU);
                    let (found, at, _) = stripes
                        .locate(stripes.in_file(number, inside.clone()).next().expect("one").start);
                    assert_eq!((found, at), (number, inside.start));
                }
            }
            assert_eq!(stripes.inside(5, 0, u64::MAX), 0..AU);
            assert!(stripes.inside(5, u64::MAX, u64::MAX).is_empty());
        }
    }
}
