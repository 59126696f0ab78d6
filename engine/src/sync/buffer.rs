//! Memory that a disk can read into and write from without a copy.
//!
//! Direct I/O needs aligned memory that stays in place until the device is done with it. A
//! [`Buffer`] is owned and page aligned; a [`Slice`] is an immutable share of one, so that several
//! mirrors can be written from the same bytes.
//!
//! Large buffers are huge pages (`large.rs`) and are reused: fresh memory costs page faults, which
//! take longer than copying. Large buffers that were not used for a while are given back to the
//! system (`shed`). Small buffers are kept by the thread that drops them, a few of each size:
//! allocating aligned memory and filling it with zeros takes longer than everything else that a
//! small read does outside the kernel. They come from memory that is registered with the kernel, as
//! long as there is some (`arena.rs`).
//!
//! Invariant (R11): bytes that a disk may still be reading cannot change, because a [`Slice`] hands
//! out only `&[u8]` and keeps the buffer alive.

mod arena;
mod large;

pub use arena::registrable;

use crate::sync::pool::{self, Pooled, Reuse};
use crossbeam_queue::ArrayQueue;
use large::Large;
use std::{
    cell::RefCell,
    fmt,
    ops::{Deref, DerefMut, Range},
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread::LocalKey,
};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The alignment of every buffer, in bytes: enough for all sector sizes in use.
pub const ALIGNMENT: usize = 4096;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; ALIGNMENT]);

/// Owned, page-aligned bytes.
pub struct Buffer {
    memory: Memory,
    length: usize,
}

enum Memory {
    Small(Small),
    /// `None`: it was given back.
    Large(Option<Large>),
}

/// Memory of a small buffer: a power of two pages, or none.
enum Small {
    Heap(Vec<Page>),
    Arena(arena::Taken),
}

/// Buffers of this size and more are large. Below it the allocator has memory that it used before.
const SMALL_MAX: usize = 128 << 10;
/// The most large buffers that are kept: 64 MiB.
const KEPT_MAX: usize = 32;

/// The most bytes that a thread keeps in small buffers: 32 buffers of 8 KiB.
const SPARE_MAX: usize = 256 << 10;

/// Small buffers that a thread has dropped, by the logarithm of their number of pages.
#[derive(Default)]
struct Spare {
    buffers: [Vec<Small>; arena::CLASSES],
    bytes: usize,
}

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

impl Default for Small {
    fn default() -> Self {
        Self::Heap(Vec::new())
    }
}

impl Small {
    fn pages(&self) -> &[Page] {
        match self {
            Self::Heap(pages) => pages,
            Self::Arena(taken) => taken.pages(),
        }
    }

    fn pages_mut(&mut self) -> &mut [Page] {
        match self {
            Self::Heap(pages) => pages,
            Self::Arena(taken) => taken.pages_mut(),
        }
    }
}

/// The logarithm of the number of pages of a small buffer for `length` bytes. `None` for no bytes,
/// and for more than a small buffer has.
fn class_of(length: usize) -> Option<usize> {
    let class = length
        .div_ceil(ALIGNMENT)
        .checked_next_power_of_two()
        .filter(|_| length > 0)?
        .trailing_zeros() as usize;
    (class < arena::CLASSES).then_some(class)
}

impl Spare {
    fn take(&mut self, class: usize) -> Option<Small> {
        let buffer = self.buffers[class].pop()?;
        self.bytes -= ALIGNMENT << class;
        Some(buffer)
    }

    /// Keeps a buffer, or gives it back.
    fn put(&mut self, buffer: Small) -> Option<Small> {
        let bytes = buffer.pages().len() * ALIGNMENT;
        let Some(class) = class_of(bytes).filter(|_| self.bytes + bytes <= SPARE_MAX) else {
            return Some(buffer);
        };
        self.bytes += bytes;
        self.buffers[class].push(buffer);
        None
    }
}

/// Large buffers that are not in use.
struct Kept {
    buffers: ArrayQueue<Large>,
    /// About the smallest number of unused buffers since the last `shed`: these were not needed.
    idle: AtomicUsize,
}

static KEPT: LazyLock<Kept> =
    LazyLock::new(|| Kept { buffers: ArrayQueue::new(KEPT_MAX), idle: AtomicUsize::new(0) });

/// Gives memory back to the system that was not used since the last call.
pub fn shed() {
    for _ in 0..KEPT.idle.load(Relaxed) {
        drop(KEPT.buffers.pop());
    }
    KEPT.idle.store(KEPT.buffers.len(), Relaxed);
}

impl Buffer {
    /// A buffer of `length` zero bytes.
    #[must_use]
    pub fn zeroed(length: usize) -> Self {
        match Self::used_before(length) {
            Some(mut buffer) => {
                buffer.fill(0);
                buffer
            }
            None => Self::fresh(length),
        }
    }

    /// A buffer whose every byte the caller writes before any is read: its content is undefined.
    #[must_use]
    pub fn unfilled(length: usize) -> Self {
        let buffer = Self::used_before(length).unwrap_or_else(|| Self::fresh(length));
        // A read before the write, which would be a bug, shall see the same bytes each time, and
        // none that look right.
        #[cfg(any(test, feature = "testing"))]
        let buffer = {
            let mut buffer = buffer;
            buffer.fill(0xa5);
            buffer
        };
        buffer
    }

    /// The same; `None` if there is not enough memory.
    #[must_use]
    pub fn try_unfilled(length: usize) -> Option<Self> {
        match Self::used_before(length) {
            Some(buffer) => Some(buffer),
            None if is_large(length) => Some(Self::fresh(length)),
            None => {
                let pages = Page::new_vec_zeroed(pages_for(length)).ok()?;
                Some(Self { memory: Memory::Small(Small::Heap(pages)), length })
            }
        }
    }

    /// The same, with all of its pages present: a write to it causes no page fault.
    #[must_use]
    pub fn try_present(length: usize) -> Option<Self> {
        let mut buffer = Self::try_unfilled(length)?;
        // Zeros from the allocator may not be backed by pages yet; writing makes them real. All
        // other memory was written when it was allocated.
        if let Memory::Small(Small::Heap(pages)) = &mut buffer.memory {
            pages.iter_mut().for_each(|page| page.0[0] = 1);
        }
        Some(buffer)
    }

    /// Cuts the buffer to `length`, if it is longer.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// A buffer that was used before.
    fn used_before(length: usize) -> Option<Self> {
        if !is_large(length) {
            let class = class_of(length)?;
            // A thread that is ending keeps nothing any more.
            let spare = SPARE.try_with(|spare| spare.borrow_mut().take(class)).ok().flatten();
            let small = spare.or_else(|| arena::take(class).map(Small::Arena))?;
            return Some(Self { memory: Memory::Small(small), length });
        }
        let large = KEPT.buffers.pop()?;
        KEPT.idle.fetch_min(KEPT.buffers.len(), Relaxed);
        Some(Self { memory: Memory::Large(Some(large)), length })
    }

    fn fresh(length: usize) -> Self {
        if is_large(length) {
            return Self { memory: Memory::Large(Some(Large::zeroed())), length };
        }
        let pages = Page::new_vec_zeroed(pages_for(length)).unwrap_or_else(|_| {
            // The allocation failed. There is no caller to report it to and nothing half done: it
            // ends like any failed growth of a `Vec`.
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<Page>())
        });
        Self { memory: Memory::Small(Small::Heap(pages)), length }
    }

    /// A buffer holding a copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::unfilled(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Makes the buffer immutable and shareable, whole.
    #[must_use]
    pub fn share(self) -> Slice {
        let range = 0..self.length;
        Slice { buffer: Pooled::new(|shared: &mut Shared| shared.0 = self), range }
    }
}

/// The memory of a buffer that is not large, or too large to be reused.
fn pages_for(length: usize) -> usize {
    class_of(length).map_or(length.div_ceil(ALIGNMENT), |class| 1 << class)
}

fn is_large(length: usize) -> bool {
    (SMALL_MAX + 1..=large::SIZE).contains(&length)
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match &mut self.memory {
            Memory::Small(pages) => {
                let pages = std::mem::take(pages);
                let too_many = SPARE.try_with(|spare| spare.borrow_mut().put(pages));
                drop(too_many);
            }
            Memory::Large(large) => {
                // Buffers beyond the limit are given back to the system.
                let too_many = large.take().map(|large| KEPT.buffers.push(large));
                drop(too_many);
            }
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Small(small) => &small.pages().as_bytes()[..self.length],
            Memory::Large(large) => large.as_ref().map_or(&[], |large| &large[..self.length]),
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Small(small) => &mut small.pages_mut().as_mut_bytes()[..self.length],
            Memory::Large(large) => {
                large.as_mut().map_or(&mut [], |large| &mut large[..self.length])
            }
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

/// The part that all shares of a buffer have in common.
struct Shared(Buffer);

thread_local! {
    static SPARE_SHARED: pool::Spare<Shared> = RefCell::default();
}

impl Default for Shared {
    fn default() -> Self {
        Self(Buffer { memory: Memory::Small(Small::default()), length: 0 })
    }
}

impl Reuse for Shared {
    fn spare() -> &'static LocalKey<pool::Spare<Self>> {
        &SPARE_SHARED
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// An immutable share of a [`Buffer`].
#[derive(Clone)]
pub struct Slice {
    buffer: Pooled<Shared>,
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
        Self { buffer: self.buffer.clone(), range: start..start + range.len() }
    }
}

impl Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer.0[self.range.clone()]
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

    /// Other tests use large buffers at the same time, so those that are kept may be theirs.
    #[test]
    fn large_buffers_are_reused_and_never_show_earlier_content() {
        for length in [SMALL_MAX + 1, large::SIZE - 5000, large::SIZE] {
            let mut buffer = Buffer::zeroed(length);
            buffer.fill(7);
            drop(buffer);
            assert_eq!(Buffer::zeroed(length).iter().find(|byte| **byte != 0), None);
            let buffer = Buffer::unfilled(length);
            assert_eq!((buffer.len(), buffer.as_ptr().align_offset(ALIGNMENT)), (length, 0));
            assert!(!buffer.contains(&7));
            assert_eq!(&*Buffer::copy_of(&vec![9; length]), &vec![9; length][..]);
        }
        let many: Vec<Buffer> = (0..KEPT_MAX + 10).map(|_| Buffer::unfilled(large::SIZE)).collect();
        drop(many);
        assert!((1..=KEPT_MAX).contains(&KEPT.buffers.len()));
    }

    #[test]
    fn small_buffers_are_reused_and_never_show_earlier_content() {
        for length in [1, 512, 4096, 8192, 5000, SMALL_MAX] {
            let place = {
                let mut buffer = Buffer::unfilled(length);
                buffer.fill(7);
                buffer.as_ptr()
            };
            let again = Buffer::zeroed(length);
            assert_eq!((again.as_ptr(), again.iter().find(|byte| **byte != 0)), (place, None));
            drop(again);
            let buffer = Buffer::unfilled(length);
            assert_eq!((buffer.as_ptr(), buffer.len()), (place, length));
            assert!(!buffer.contains(&7));
        }
        let many: Vec<Buffer> = (0..1000).map(|_| Buffer::unfilled(8192)).collect();
        drop(many);
        assert!(SPARE.with(|spare| (1..=SPARE_MAX).contains(&spare.borrow().bytes)));
        // Buffers of another thread are kept where they are dropped.
        let buffer = std::thread::spawn(|| Buffer::copy_of(&[3; 8192])).join().expect("no panic");
        assert_eq!(&buffer[..], &[3; 8192]);
    }

    #[test]
    fn a_part_of_a_part_is_where_it_should_be() {
        let bytes: Vec<u8> = (0..=255).collect();
        let slice = Buffer::copy_of(&bytes).share();
        assert_eq!(&*slice.part(10..100).part(5..7), &[15, 16]);
    }
}
