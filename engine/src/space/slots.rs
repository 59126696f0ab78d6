//! The free slots of the shared extents.

use crate::{space::extent_id::ExtentId, sync::bits::Bits};
use plinth_format::Piece;
use std::collections::{BTreeMap, BTreeSet};

/// The shared extents and their free slots. Built at mount from the files' rows.
#[derive(Debug, Default)]
pub struct Slots {
    per_extent: usize,
    used: BTreeMap<ExtentId, Bits>,
    with_room: BTreeSet<ExtentId>,
}

impl Slots {
    #[must_use]
    pub fn new(per_extent: usize) -> Self {
        Self { per_extent, ..Self::default() }
    }

    /// A shared extent with all slots free.
    pub fn add_extent(&mut self, id: ExtentId) {
        self.used.entry(id).or_default();
        self.with_room.insert(id);
    }

    /// Marks a slot used; false if it was used already or does not exist: damage.
    pub fn mark_used(&mut self, id: ExtentId, piece: Piece) -> bool {
        let Some(used) = self.used.get_mut(&id) else { return false };
        if piece.0 >= self.per_extent || used.has(piece) {
            return false;
        }
        used.add(piece);
        if used.count() == self.per_extent {
            self.with_room.remove(&id);
        }
        true
    }

    /// Takes a free slot of the lowest extent that has one, so that others empty.
    pub fn take(&mut self) -> Option<(ExtentId, Piece)> {
        let id = *self.with_room.first()?;
        let piece = (0..self.per_extent)
            .map(Piece)
            .find(|piece| !self.used.get(&id).is_some_and(|used| used.has(*piece)))?;
        self.mark_used(id, piece).then_some((id, piece))
    }

    /// Frees a slot. True: its extent has no used slot any more.
    pub fn give_back(&mut self, id: ExtentId, piece: Piece) -> bool {
        let Some(used) = self.used.get_mut(&id) else { return false };
        used.remove(piece);
        self.with_room.insert(id);
        used.is_empty()
    }

    /// Removes an empty shared extent; false if it is in use again.
    pub fn remove_extent(&mut self, id: ExtentId) -> bool {
        if self.used.get(&id).is_none_or(|used| !used.is_empty()) {
            return false;
        }
        self.used.remove(&id);
        self.with_room.remove(&id);
        true
    }

    #[must_use]
    pub fn free(&self) -> usize {
        self.used.values().map(|used| self.per_extent - used.count()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_given_once() {
        let mut slots = Slots::new(2);
        assert_eq!(slots.take(), None);
        slots.add_extent(ExtentId(7));
        slots.add_extent(ExtentId(9));
        assert_eq!(
            [slots.take(), slots.take(), slots.take()],
            [(ExtentId(7), Piece(0)), (ExtentId(7), Piece(1)), (ExtentId(9), Piece(0))].map(Some)
        );
        assert!(!slots.mark_used(ExtentId(7), Piece(1)));
        assert!(!slots.mark_used(ExtentId(8), Piece(0)));
        assert!(!slots.give_back(ExtentId(7), Piece(0)));
        assert!(slots.give_back(ExtentId(7), Piece(1)));
        assert!(!slots.remove_extent(ExtentId(9)));
        assert!(slots.remove_extent(ExtentId(7)));
        assert_eq!(slots.take(), Some((ExtentId(9), Piece(1))));
        assert_eq!(slots.take(), None);
        assert_eq!(slots.free(), 0);
    }
}
