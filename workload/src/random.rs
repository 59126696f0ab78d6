//! Numbers by a seed: SplitMix64.
//!
//! The simulator has its own generator (`plinth_engine::testing::Numbers`), with the same numbers
//! for another seed; see the crate's description.

/// A generator: the same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.number() % limit as u64).expect("less than a usize")
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.number().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// The index of one of several weights, the heavier the likelier. `below` draws a number below a
/// limit, once.
///
/// # Panics
/// If there are no weights, or the number is not below the limit.
pub fn weighted(
    weights: impl Iterator<Item = u64> + Clone,
    below: impl FnOnce(u64) -> u64,
) -> usize {
    let mut drawn = below(weights.clone().sum());
    let index = { weights }.position(|weight| {
        let here = drawn < weight;
        drawn = drawn.saturating_sub(weight);
        here
    });
    index.expect("below the sum")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers_in_every_version() {
        let mut random = Random::new(42);
        let numbers = [random.number(), random.number()];
        assert_eq!(numbers, [0xbdd7_3226_2feb_6e95, 0x28ef_e333_b266_f103]);
        let mut bytes = [0; 11];
        Random::new(42).fill(&mut bytes);
        assert_eq!(bytes[..8], numbers[0].to_le_bytes());
        assert_eq!(bytes[8..], numbers[1].to_le_bytes()[..3]);
    }

    #[test]
    fn each_weight_has_its_share_and_zero_has_none() {
        let weights = [2, 0, 3];
        let all: Vec<usize> = (0..5)
            .map(|drawn| {
                weighted(weights.into_iter(), |limit| {
                    assert_eq!(limit, 5);
                    drawn
                })
            })
            .collect();
        assert_eq!(all, [0, 0, 2, 2, 2]);
    }

    #[test]
    fn a_shuffled_list_has_the_same_entries() {
        let mut list: Vec<u32> = (0..100).collect();
        Random::new(1).shuffle(&mut list);
        assert_ne!(list, (0..100).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..100).collect::<Vec<_>>());
    }
}
