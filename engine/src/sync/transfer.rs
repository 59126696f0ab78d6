//! Bytes of a request between a front end and the disks, copied only where they have to be.
//!
//! Bytes that were read stay in the memory that the disks filled ([`Found`]) until the front end
//! has passed them on. Bytes to be written go to the disks from the memory in which they came
//! ([`Source::Shared`]) where that is whole blocks, and from a copy otherwise.

use crate::sync::buffer::Slice;
use plinth_format::BLOCK_SIZE;
use smallvec::SmallVec;
use std::{
    borrow::Cow,
    hint::black_box,
    ops::{Deref, Range},
};

/// Bytes of a file, in order, as they were read.
#[derive(Debug, Default)]
pub struct Found {
    runs: SmallVec<[Run; 2]>,
    length: usize,
}

impl From<Slice> for Found {
    fn from(data: Slice) -> Self {
        let mut found = Self::default();
        found.push(data);
        found
    }
}

/// Some of these bytes, contiguous in memory.
#[derive(Debug)]
enum Run {
    Data(Slice),
    Zeros(usize),
}

/// The memory that zeros are sent from.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Pre-faults the memory that zeros are sent from, for threads that must not meet a page fault
/// later.
pub fn touch_zeros() {
    let zeros = black_box(&ZEROS[..]);
    black_box(zeros.iter().step_by(BLOCK_SIZE).fold(0, |all, byte| all | byte));
}

impl Found {
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn push(&mut self, data: Slice) {
        if !data.is_empty() {
            self.length += data.len();
            self.runs.push(Run::Data(data));
        }
    }

    pub fn push_zeros(&mut self, length: usize) {
        if length > 0 {
            self.length += length;
            self.runs.push(Run::Zeros(length));
        }
    }

    pub fn append(&mut self, other: Self) {
        self.length += other.length;
        self.runs.extend(other.runs);
    }

    /// The memory that holds these bytes.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.runs.iter().flat_map(|run| {
            let (data, zeros) = match run {
                Run::Data(data) => (Some(&data[..]), 0),
                Run::Zeros(length) => (None, *length),
            };
            let zeros = (0..zeros)
                .step_by(ZEROS.len())
                .map(move |at| &ZEROS[..ZEROS.len().min(zeros - at)]);
            data.into_iter().chain(zeros)
        })
    }

    /// Copies all bytes to the start of `into`.
    ///
    /// # Panics If `into` is too small.
    pub fn copy_to(&self, into: &mut [u8]) {
        let mut at = 0;
        for run in &self.runs {
            let next = match run {
                Run::Data(data) => {
                    into[at..at + data.len()].copy_from_slice(data);
                    at + data.len()
                }
                Run::Zeros(length) => {
                    into[at..at + length].fill(0);
                    at + length
                }
            };
            at = next;
        }
    }

    /// A part of the bytes, sharing the same memory.
    fn part(&self, wanted: &Range<usize>) -> Self {
        let (mut part, mut at) = (Self::default(), 0);
        for run in &self.runs {
            let length = match run {
                Run::Data(data) => data.len(),
                Run::Zeros(length) => *length,
            };
            let cut =
                wanted.start.clamp(at, at + length) - at..wanted.end.clamp(at, at + length) - at;
            match run {
                Run::Data(data) => part.push(data.part(cut)),
                Run::Zeros(_) => part.push_zeros(cut.len()),
            }
            at += length;
        }
        part
    }

    /// Joins the bytes of several extents in the order of the request: for each extent, the places
    /// in the request where its bytes go, in order.
    pub(crate) fn interleaved<'a>(
        all: impl Iterator<Item = (Self, SmallVec<[Range<usize>; 1]>)> + 'a,
    ) -> Self {
        let mut parts: Vec<(usize, Self)> = Vec::new();
        for (found, ranges) in all {
            let mut from = 0;
            for range in ranges {
                let to = from + range.len();
                parts.push((range.start, found.part(&(from..to))));
                from = to;
            }
        }
        parts.sort_by_key(|(start, _)| *start);
        let mut whole = Self::default();
        parts.into_iter().for_each(|(_, part)| whole.append(part));
        whole
    }
}

/// Bytes to be written.
#[derive(Debug, Clone)]
pub enum Source<'a> {
    /// They belong to the caller, and are copied.
    Bytes(Cow<'a, [u8]>),
    /// Disks can write them from where they are.
    Shared(Slice),
}

impl Deref for Source<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Shared(slice) => slice,
        }
    }
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a> Source<'a> {
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Bytes(Cow::Borrowed(bytes)) => Self::Bytes(Cow::Borrowed(&bytes[range])),
            Self::Bytes(Cow::Owned(bytes)) => Self::Bytes(Cow::Owned(bytes[range].to_vec())),
            Self::Shared(slice) => Self::Shared(slice.part(range)),
        }
    }

    /// The bytes for a disk, if it can write them from where they are: memory with the alignment
    /// that direct I/O needs.
    pub(crate) fn for_disks(&self) -> Option<Slice> {
        match self {
            Self::Shared(slice) if slice.as_ptr().align_offset(BLOCK_SIZE) == 0 => {
                Some(slice.clone())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::buffer::Buffer;

    fn bytes_of(found: &Found) -> Vec<u8> {
        let mut bytes = vec![9; found.len()];
        found.copy_to(&mut bytes);
        assert_eq!(found.slices().collect::<Vec<_>>().concat(), bytes);
        bytes
    }

    #[test]
    fn bytes_are_passed_on_in_order() {
        let mut found = Found::default();
        found.push(Buffer::copy_of(&[1, 2, 3]).share());
        found.push_zeros(100_000);
        found.push(Buffer::copy_of(&[4]).share().part(0..0));
        found.push(Buffer::copy_of(&[4, 5]).share());
        let bytes = bytes_of(&found);
        assert_eq!(
            (bytes.len(), &bytes[..4], &bytes[100_002..]),
            (100_005, &[1, 2, 3, 0][..], &[0, 4, 5][..])
        );
        assert_eq!(bytes_of(&found.part(&(2..5))), [3, 0, 0]);
        assert_eq!(bytes_of(&found.part(&(100_002..100_004))), [0, 4]);
        assert!(found.part(&(7..7)).is_empty());
    }

    #[test]
    fn stripes_are_put_where_they_belong() {
        let found = |bytes: &[u8]| {
            let mut found = Found::default();
            found.push(Buffer::copy_of(bytes).share());
            found
        };
        let all = [
            (found(&[0, 1, 4, 5, 8]), SmallVec::from_iter([0..2, 4..6, 8..9])),
            (found(&[2, 3, 6, 7]), SmallVec::from_iter([2..4, 6..8])),
        ];
        assert_eq!(bytes_of(&Found::interleaved(all.into_iter())), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn only_aligned_memory_is_written_without_a_copy() {
        let slice = Buffer::copy_of(&[7; 3 * BLOCK_SIZE]).share();
        let source = Source::Shared(slice);
        assert!(source.part(BLOCK_SIZE..3 * BLOCK_SIZE).for_disks().is_some());
        assert!(source.part(512..BLOCK_SIZE).for_disks().is_none());
        assert!(Source::from(&source[..]).for_disks().is_none());
    }
}
