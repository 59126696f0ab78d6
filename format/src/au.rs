//! The number of an allocation unit.

use std::fmt;

/// The number of an allocation unit (AU) on its disk.
///
/// Counted in AUs from the disk's beginning: AU 0 is the system area. A disk has the AUs below
/// [`Layout::au_count`](crate::Layout::au_count), and [`Layout::is_data`](crate::Layout::is_data)
/// says which of them hold data. The catalog names the AUs of extents, the membership those of the
/// catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Au(pub u32);

impl Au {
    /// The AU behind it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// `count` adjacent AUs from this one on, ascending.
    pub fn run(self, count: u32) -> impl Iterator<Item = Self> + use<> {
        (self.0..self.0.saturating_add(count)).map(Self)
    }
}

impl fmt::Display for Au {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
