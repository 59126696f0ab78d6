//! Memory that a disk can read into and write from without a copy.
//!
//! Direct I/O wants aligned memory that stays put until the device is done with
//! it. A [`Buffer`] is owned, page aligned and zeroed; a [`Slice`] is an immutable
//! share of one, so that several mirrors can be written from the same bytes.
//!
//! Invariant (R11): nobody can change bytes that a disk may still be reading,
//! because a [`Slice`] hands out only `&[u8]` and keeps the buffer alive.

use std::{
    fmt,
    ops::{Deref, DerefMut, Range},
    sync::Arc,
};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The alignment of every buffer, in bytes: enough for all sector sizes in use.
pub const ALIGNMENT: usize = 4096;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; ALIGNMENT]);

/// Owned, page-aligned bytes.
pub struct Buffer {
    pages: Vec<Page>,
    length: usize,
}

impl Buffer {
    /// A buffer of `length` zero bytes.
    #[must_use]
    pub fn zeroed(length: usize) -> Self {
        let count = length.div_ceil(ALIGNMENT);
        let pages = Page::new_vec_zeroed(count).unwrap_or_else(|_| {
            // The allocator said no; there is nobody to report it to and
            // nothing half done: the same end as any failed `Vec` growth.
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<Page>())
        });
        Self { pages, length }
    }

    /// A buffer holding a copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Makes the buffer immutable and shareable, whole.
    #[must_use]
    pub fn share(self) -> Slice {
        let range = 0..self.length;
        Slice { buffer: Arc::new(self), range }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.pages.as_slice().as_bytes()[..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages.as_mut_slice().as_mut_bytes()[..self.length]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

/// An immutable share of a [`Buffer`].
#[derive(Clone)]
pub struct Slice {
    buffer: Arc<Buffer>,
    range: Range<usize>,
}

impl Slice {
    /// The part `range` of this slice, sharing the same memory.
    ///
    /// # Panics
    /// If `range` does not lie inside the slice.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.range.len());
        let start = self.range.start + range.start;
        Self { buffer: Arc::clone(&self.buffer), range: start..start + range.len() }
    }
}

impl Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({} bytes)", self.range.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_zeroed() {
        for length in [0, 1, 512, 4096, 5000] {
            let buffer = Buffer::zeroed(length);
            assert_eq!(buffer.len(), length);
            assert_eq!(buffer.as_ptr().align_offset(ALIGNMENT), 0);
            assert!(buffer.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn a_part_of_a_part_is_where_it_should_be() {
        let bytes: Vec<u8> = (0..=255).collect();
        let slice = Buffer::copy_of(&bytes).share();
        assert_eq!(&*slice.part(10..100).part(5..7), &[15, 16]);
    }
}
