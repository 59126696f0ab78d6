//! The mirrors of an extent: a short list that is copied, not allocated.

use crate::{disk::members::MIRRORS_MAX, space::placement::Mirror};
use plinth_format::{Au, DiskNumber};

/// The mirrors of an extent, in the order of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mirrors {
    all: [Mirror; MIRRORS_MAX],
    count: usize,
}

impl Mirrors {
    /// # Panics
    /// If there are more than [`MIRRORS_MAX`].
    #[must_use]
    pub fn new(mirrors: &[Mirror]) -> Self {
        let mut all = [Mirror { disk: DiskNumber(0), au: Au(0) }; MIRRORS_MAX];
        all[..mirrors.len()].copy_from_slice(mirrors);
        Self { all, count: mirrors.len() }
    }

    /// Adds one behind the others.
    pub(crate) fn push(&mut self, mirror: Mirror) {
        self.all[self.count] = mirror;
        self.count += 1;
    }

    /// Puts a mirror in the place of another one, and returns that one.
    pub(crate) fn replace(&mut self, index: usize, mirror: Mirror) -> Mirror {
        std::mem::replace(&mut self.all[..self.count][index], mirror)
    }

    /// Takes one out; the others keep their order.
    pub(crate) fn remove(&mut self, index: usize) -> Mirror {
        let old = self.all[index];
        self.all.copy_within(index + 1..self.count, index);
        self.count -= 1;
        self.all[self.count] = Mirror { disk: DiskNumber(0), au: Au(0) };
        old
    }
}

impl std::ops::Deref for Mirrors {
    type Target = [Mirror];

    fn deref(&self) -> &[Mirror] {
        &self.all[..self.count]
    }
}

impl IntoIterator for Mirrors {
    type Item = Mirror;
    type IntoIter = std::iter::Take<std::array::IntoIter<Mirror, MIRRORS_MAX>>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter().take(self.count)
    }
}
