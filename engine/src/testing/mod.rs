//! Doubles of the world for tests: threads, a clock, and disks in memory. Nothing here is in the
//! shipped binary.

// A `Condvar` needs the standard library's mutex, and the disks of a test are not part of the
// engine.
#![allow(clippy::disallowed_types)]

mod image;
mod memory_disk;
mod test_world;

pub use image::Image;
pub use memory_disk::{Counts, Faults, Fuse, MemoryDisk, failed, fits};
pub use test_world::{TestWorld, Words};

use crate::admin::{NewDisk, NewGroup};
use plinth_format::Redundancy;
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
    thread,
};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A small random number generator: the same seed gives the same numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Numbers(u64);

/// The increment for each number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Numbers {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        let (words, rest) = bytes.as_chunks_mut::<8>();
        words.iter_mut().for_each(|word| *word = self.draw().to_le_bytes());
        if !rest.is_empty() {
            rest.copy_from_slice(&self.draw().to_le_bytes()[..rest.len()]);
        }
    }

    /// Fills `bytes` with the numbers that [`Self::fill`] would have put behind the first `start`
    /// bytes.
    fn fill_from(&mut self, start: usize, bytes: &mut [u8]) {
        let (words, inside) = (start as u64 / 8, start % 8);
        self.0 = self.0.wrapping_add(words.wrapping_mul(STEP));
        let (first, rest) = bytes.split_at_mut(((8 - inside) % 8).min(bytes.len()));
        if !first.is_empty() {
            first.copy_from_slice(&self.draw().to_le_bytes()[inside..inside + first.len()]);
        }
        self.fill(rest);
    }
}

/// A group called DATA with AUs of `au_size` and a disk timeout of a second, on these disks with
/// their failure groups; one whose name begins with Q is a quorum failure group.
pub fn new_group<'a>(
    redundancy: Redundancy,
    au_size: u64,
    disks: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> NewGroup {
    let disk = |(path, group): (&str, &str)| NewDisk {
        path: path.to_owned(),
        name: None,
        failure_group: (redundancy != Redundancy::External).then(|| group.to_owned()),
        quorum: group.starts_with('Q'),
        size: None,
        force: false,
    };
    NewGroup {
        name: "DATA".to_owned(),
        redundancy,
        au_size,
        attributes: vec![("disk_timeout".to_owned(), "1".to_owned())],
        disks: disks.into_iter().map(disk).collect(),
    }
}

/// Runs a future to its end on this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Polls a future whenever it is woken, until it ends, or `is_reached` returns true after a poll:
/// then `None`, and it can be polled further.
pub fn run_until<T>(
    mut future: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    mut is_reached: impl FnMut() -> bool,
) -> Option<T> {
    block_on(std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending if is_reached() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    }))
}
