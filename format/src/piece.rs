//! The number of a piece.

use crate::layout::{BLOCKS_PER_PIECE, PIECE_SIZE};
use std::{fmt, ops::Range};

/// The number of a piece in its extent, and of a slot in a shared extent, which is one piece.
///
/// Counted in pieces of [`PIECE_SIZE`] bytes from the extent's beginning, below
/// [`Layout::pieces_per_au`](crate::Layout::pieces_per_au), so 1023 at most. The catalog has it as
/// the number of a bit of the written map, and in the row of a file that has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Piece(pub usize);

impl Piece {
    /// The piece in which the byte at an offset of the extent is.
    ///
    /// # Panics
    /// If the offset is in no extent.
    #[inline]
    #[must_use]
    pub fn at(offset: u64) -> Self {
        Self(usize::try_from(offset / PIECE_SIZE).expect("inside an extent"))
    }

    /// The piece behind it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Its first byte: offset in the extent.
    #[inline]
    #[must_use]
    pub fn offset(self) -> u64 {
        self.0 as u64 * PIECE_SIZE
    }

    /// Its blocks: their numbers in the extent.
    #[inline]
    #[must_use]
    pub fn blocks(self) -> Range<usize> {
        self.0 * BLOCKS_PER_PIECE..(self.0 + 1) * BLOCKS_PER_PIECE
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
