//! Limits of what is kept in memory, which histories of the simulator make small.
//!
//! What happens at such a limit (a region is closed so that another can be opened, checksums are dropped, a file leaves memory) happens in
//! groups of hundreds of gigabytes under load, and never in one of a few files. So histories are run with small ones, and meet each.

#[cfg(feature = "testing")]
use std::sync::atomic::{AtomicBool, Ordering};

/// How much there may be of something.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// What holds.
    usual: usize,
    /// What holds where limits are small: never without the feature `testing`.
    #[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "limits are what they are"))]
    small: usize,
}

impl Limit {
    #[must_use]
    pub const fn new(usual: usize, small: usize) -> Self {
        Self { usual, small }
    }

    /// What holds.
    #[cfg(feature = "testing")]
    #[inline]
    #[must_use]
    pub fn get(self) -> usize {
        if SMALL.load(Ordering::Relaxed) { self.small } else { self.usual }
    }

    /// What holds.
    #[cfg(not(feature = "testing"))]
    #[inline]
    #[must_use]
    pub const fn get(self) -> usize {
        self.usual
    }
}

#[cfg(feature = "testing")]
static SMALL: AtomicBool = AtomicBool::new(false);

/// Makes the limits of this process small, or what they are: before any group is mounted.
#[cfg(feature = "testing")]
pub fn be_small(small: bool) {
    SMALL.store(small, Ordering::Relaxed);
}
