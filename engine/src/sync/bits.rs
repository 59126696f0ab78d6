//! A small set of numbers: which pieces of an extent are marked.

/// A set of numbers below a limit known to its user. Stored as bytes, bit 0 of
/// byte 0 first, without trailing zero bytes.
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
    pub fn has(&self, number: usize) -> bool {
        self.0.get(number / 8).is_some_and(|byte| byte & 1 << (number % 8) != 0)
    }

    pub fn add(&mut self, number: usize) {
        if self.0.len() <= number / 8 {
            self.0.resize(number / 8 + 1, 0);
        }
        self.0[number / 8] |= 1 << (number % 8);
    }

    pub fn remove(&mut self, number: usize) {
        if let Some(byte) = self.0.get_mut(number / 8) {
            *byte &= !(1 << (number % 8));
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

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len() * 8).filter(|number| self.has(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_added_removed_and_counted() {
        let mut bits = Bits::default();
        for number in [3, 64, 1023] {
            bits.add(number);
            bits.add(number);
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), [3, 64, 1023]);
        assert_eq!(bits.count(), 3);
        bits.remove(1023);
        assert_eq!(bits.as_bytes().len(), 9);
        assert_eq!(Bits::from_bytes(bits.as_bytes()), bits);
        bits.remove(3);
        bits.remove(64);
        assert!(bits.is_empty());
    }
}
