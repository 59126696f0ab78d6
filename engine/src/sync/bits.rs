//! A small set of pieces: which pieces of an extent are marked.

use plinth_format::Piece;

/// A set of pieces. Stored as bytes, bit 0 of byte 0 first, without trailing zero bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bits(Vec<u8>);

impl Bits {
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut bits = Self(bytes.to_vec());
        bits.trim();
        bits
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    #[must_use]
    pub fn has(&self, piece: Piece) -> bool {
        self.0.get(piece.0 / 8).is_some_and(|byte| byte & 1 << (piece.0 % 8) != 0)
    }

    pub fn add(&mut self, piece: Piece) {
        if self.0.len() <= piece.0 / 8 {
            self.0.resize(piece.0 / 8 + 1, 0);
        }
        self.0[piece.0 / 8] |= 1 << (piece.0 % 8);
    }

    pub fn remove(&mut self, piece: Piece) {
        if let Some(byte) = self.0.get_mut(piece.0 / 8) {
            *byte &= !(1 << (piece.0 % 8));
            self.trim();
        }
    }

    pub fn add_all(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = Piece> + '_ {
        (0..self.0.len() * 8).map(Piece).filter(|piece| self.has(*piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_added_removed_and_counted() {
        let mut bits = Bits::default();
        for piece in [3, 64, 1023].map(Piece) {
            bits.add(piece);
            bits.add(piece);
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), [3, 64, 1023].map(Piece));
        assert_eq!(bits.count(), 3);
        bits.remove(Piece(1023));
        assert_eq!(bits.as_bytes().len(), 9);
        assert_eq!(Bits::from_bytes(bits.as_bytes()), bits);
        bits.remove(Piece(3));
        bits.remove(Piece(64));
        assert!(bits.is_empty());
    }
}
