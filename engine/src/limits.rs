//! Limits of data that is kept in memory, which histories of the simulator make small.
//!
//! The code at such a limit (a region is closed so that another can be opened, checksums are
//! dropped, a file leaves memory) runs in groups of hundreds of gigabytes under load, and never in
//! a group of a few files. So histories run with small limits, and reach each of them.

#[cfg(feature = "testing")]
use std::sync::atomic::{AtomicBool, Ordering};

/// The greatest size or number of something.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// The limit in force.
    usual: usize,
    /// The limit if limits are small: never without the feature `testing`.
    #[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "limits are what they are"))]
    small: usize,
}

impl Limit {
    #[must_use]
    pub const fn new(usual: usize, small: usize) -> Self {
        Self { usual, small }
    }

    /// The limit in force.
    #[cfg(feature = "testing")]
    #[inline]
    #[must_use]
    pub fn get(self) -> usize {
        if SMALL.load(Ordering::Relaxed) { self.small } else { self.usual }
    }

    /// The limit in force.
    #[cfg(not(feature = "testing"))]
    #[inline]
    #[must_use]
    pub const fn get(self) -> usize {
        self.usual
    }
}

#[cfg(feature = "testing")]
static SMALL: AtomicBool = AtomicBool::new(false);

/// Makes the limits of this process small, or normal again: before any group is mounted.
#[cfg(feature = "testing")]
pub fn be_small(small: bool) {
    SMALL.store(small, Ordering::Relaxed);
}
