//! The id of an extent.

use std::fmt;

/// The id of an extent in its group. The catalog gives each out once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtentId(pub u64);

impl ExtentId {
    /// As a column of the catalog.
    #[must_use]
    pub fn cast_signed(self) -> i64 {
        self.0.cast_signed()
    }

    /// The id behind it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for ExtentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
