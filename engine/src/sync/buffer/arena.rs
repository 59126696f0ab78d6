#![allow(unsafe_code)]
//! Memory for small buffers that is registered with the kernel once.
//!
//! For each direct I/O the kernel looks up the pages of its memory, pins them and releases them
//! again: a tenth of the cost of an 8 KiB read. Memory can be registered with a ring once
//! (registered buffers), which saves that. So the small buffers of a process that has rings come
//! from one *arena* as long as it has a free cell of their size; when it has none they come from
//! the allocator, and everything else is the same.
//!
//! The arena is divided into cells of fixed sizes for good, so it cannot fragment. Its memory is
//! never given back to the system.

use super::{ALIGNMENT, Page};
use crossbeam_queue::ArrayQueue;
use std::{
    alloc::{Layout, alloc},
    num::NonZero,
    ptr::NonNull,
    slice,
    sync::OnceLock,
    thread,
};

/// Sizes of cells: 1, 2, 4 ... pages.
pub(super) const CLASSES: usize = 6;
/// Bytes for the cells of each size, in eighths of the arena. Most reads and writes of databases
/// are 8 KiB.
const SHARES: [usize; CLASSES] = [1, 3, 1, 1, 1, 1];
/// The minimum is a huge page for each share.
const LEAST: usize = 16 << 20;
const MOST: usize = 64 << 20;
const PER_PROCESSOR: usize = 4 << 20;

/// The alignment of the arena: a huge page.
const HUGE: usize = 2 << 20;

struct Arena {
    start: Place,
    length: usize,
    free: [ArrayQueue<Place>; CLASSES],
}

/// The first page of a cell.
struct Place(NonNull<Page>);

// SAFETY: it is memory like any other; the owner of a cell has exclusive access.
unsafe impl Send for Place {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for Place {}

/// A cell in use; free again when dropped.
pub(super) struct Taken {
    place: Place,
    class: usize,
}

static ARENA: OnceLock<Option<Arena>> = OnceLock::new();

/// The arena's memory, to be registered with the kernel. Allocated by the first call, and kept as
/// long as the process lives. `None` if there is not enough memory.
pub fn registrable() -> Option<(*mut u8, usize)> {
    let arena = ARENA.get_or_init(Arena::new).as_ref()?;
    Some((arena.start.0.as_ptr().cast(), arena.length))
}

/// A free cell of `1 << class` pages. Its content is undefined.
pub(super) fn take(class: usize) -> Option<Taken> {
    let arena = ARENA.get()?.as_ref()?;
    let place = arena.free.get(class)?.pop()?;
    Some(Taken { place, class })
}

impl Arena {
    fn new() -> Option<Self> {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let length =
            processors.saturating_mul(PER_PROCESSOR).clamp(LEAST, MOST).next_multiple_of(8 * HUGE);
        let layout = Layout::from_size_align(length, HUGE).ok()?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        // SAFETY: the memory was just allocated and is not shared yet. The advice comes before the
        // first byte is written, or ordinary pages would be there already; if it is refused the
        // pages stay ordinary.
        unsafe {
            libc::madvise(start.as_ptr().cast(), length, libc::MADV_HUGEPAGE);
            start.write_bytes(0, length);
        }
        let mut at = 0;
        let free = std::array::from_fn(|class| {
            let (size, share) = (ALIGNMENT << class, length / 8 * SHARES[class]);
            let queue = ArrayQueue::new(share / size);
            for place in (at..at + share).step_by(size) {
                // SAFETY: the shares are no more than the whole, and the start is aligned to more
                // than a page.
                let place = unsafe { start.add(place) }.cast();
                let _ = queue.push(Place(place));
            }
            at += share;
            queue
        });
        Some(Self { start: Place(start.cast()), length, free })
    }
}

impl Taken {
    pub fn pages(&self) -> &[Page] {
        // SAFETY: the cell has that many pages, each with all bytes initialised since the arena was
        // made, and no other owner.
        unsafe { slice::from_raw_parts(self.place.0.as_ptr(), 1 << self.class) }
    }

    pub fn pages_mut(&mut self) -> &mut [Page] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.place.0.as_ptr(), 1 << self.class) }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(arena) = ARENA.get().and_then(Option::as_ref) {
            // The queue has room for all cells.
            let _ = arena.free[self.class].push(Place(self.place.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn cells_do_not_overlap_and_lie_in_the_arena() {
        let (start, length) = registrable().expect("there is memory");
        let mut taken = Vec::new();
        for (class, share) in SHARES.into_iter().enumerate() {
            // Other tests use some cells at the same time.
            let most = length / 8 * share / (ALIGNMENT << class);
            let places: Vec<_> = std::iter::from_fn(|| take(class)).take(most).collect();
            assert!(places.len() > most / 2, "class {class}");
            taken.extend(places);
        }
        let mut pages = BTreeSet::new();
        for page in taken.iter().flat_map(Taken::pages) {
            let at = std::ptr::from_ref(page).addr() - start.addr();
            assert!(at + ALIGNMENT <= length && at.is_multiple_of(ALIGNMENT) && pages.insert(at));
        }
        drop(taken);
        assert!(take(0).is_some(), "they are free again");
    }
}
