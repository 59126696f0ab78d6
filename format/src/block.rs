//! The number of a block.

use crate::{BLOCK_SIZE, layout::BLOCKS_PER_PIECE, piece::Piece};
use std::{fmt, ops::Range};

/// The number of a block in its extent.
///
/// Counted in blocks of [`BLOCK_SIZE`] bytes from the extent's beginning, below
/// [`Layout::blocks_per_au`](crate::Layout::blocks_per_au), so 16383 at most. The checksum zone has
/// the block's checksum at that place among those of the AU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(pub usize);

impl Block {
    /// The block that many blocks behind it.
    #[inline]
    #[must_use]
    pub fn plus(self, blocks: usize) -> Self {
        Self(self.0 + blocks)
    }

    /// The range of blocks that has this one alone.
    #[inline]
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.0..self.0 + 1
    }

    /// Its first byte: offset in the extent.
    #[inline]
    #[must_use]
    pub fn offset(self) -> u64 {
        (self.0 * BLOCK_SIZE) as u64
    }

    /// The piece in which it is.
    #[inline]
    #[must_use]
    pub fn piece(self) -> Piece {
        Piece(self.0 / BLOCKS_PER_PIECE)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
