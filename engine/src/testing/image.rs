//! The content of one device with a volatile cache: writes since the last flush may survive, vanish
//! or tear when power is cut, sector by sector, as a seed decides. Blocks that were never written
//! read as zeros or as noise.

use super::Numbers;
use std::{collections::BTreeMap, sync::Arc};

/// The unit of an [`Image`], in bytes.
const BLOCK: usize = 4096;

/// A block of an image. Cloned images share the blocks that neither has changed.
type Block = Arc<[u8]>;

/// The content of one device, with a volatile cache. See the module's description.
#[derive(Debug, Clone, Default)]
pub struct Image {
    durable: BTreeMap<u64, Block>,
    /// Blocks that differ, or may differ, from `durable`.
    cached: BTreeMap<u64, Block>,
    /// Blocks that a failed flush has lost although reads still return them, as a page cache does.
    ghosts: BTreeMap<u64, Block>,
    noise: Option<u64>,
}

impl Image {
    /// A device full of zeros.
    #[must_use]
    pub fn zeroed() -> Self {
        Self::default()
    }

    /// A device with random content, as a former owner left it.
    #[must_use]
    pub fn noisy(seed: u64) -> Self {
        Self { noise: Some(seed), ..Self::default() }
    }

    /// Fills `into` with the content of a block that was never written, from byte `start` on.
    fn read_untouched(&self, block: u64, start: usize, into: &mut [u8]) {
        match self.noise {
            Some(seed) => {
                Numbers::new(seed ^ block.wrapping_mul(0x2545_f491_4f6c_dd1d))
                    .fill_from(start, into);
            }
            None => into.fill(0),
        }
    }

    fn durable_block(&self, block: u64) -> Block {
        self.durable.get(&block).cloned().unwrap_or_else(|| {
            let mut bytes = [0; BLOCK];
            self.read_untouched(block, 0, &mut bytes);
            Arc::new(bytes)
        })
    }

    fn block(&self, block: u64) -> Block {
        let volatile = self.cached.get(&block).or_else(|| self.ghosts.get(&block));
        volatile.cloned().unwrap_or_else(|| self.durable_block(block))
    }

    /// Fills `into` from `offset`.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for_blocks(offset, into.len(), |block, inside, part| {
            let maps = [&self.cached, &self.ghosts, &self.durable];
            match maps.iter().find_map(|map| map.get(&block)) {
                Some(bytes) => into[part].copy_from_slice(&bytes[inside]),
                None => self.read_untouched(block, inside.start, &mut into[part]),
            }
        });
    }

    /// Writes into the cache.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for_blocks(offset, bytes.len(), |block, inside, part| {
            if inside.len() == BLOCK {
                self.cached.insert(block, Arc::from(&bytes[part]));
                return;
            }
            let old = self.block(block);
            let cached = self.cached.entry(block).or_insert(old);
            Arc::make_mut(cached)[inside].copy_from_slice(&bytes[part]);
        });
    }

    /// Writes zeros into the cache.
    pub fn write_zeroes(&mut self, offset: u64, length: u64) {
        let length = usize::try_from(length).expect("a test's disk is small");
        self.write(offset, &vec![0; length]);
    }

    /// Changes bytes in the cache and on the medium: rot, or another program's `dd`.
    pub fn corrupt(&mut self, offset: u64, bytes: &[u8]) {
        for_blocks(offset, bytes.len(), |block, inside, part| {
            for volatile in [&mut self.cached, &mut self.ghosts] {
                if let Some(block) = volatile.get_mut(&block) {
                    Arc::make_mut(block)[inside.clone()].copy_from_slice(&bytes[part.clone()]);
                }
            }
            let mut durable = self.durable_block(block);
            Arc::make_mut(&mut durable)[inside].copy_from_slice(&bytes[part]);
            self.durable.insert(block, durable);
        });
    }

    /// Discards a range; `left` is the content of its blocks afterwards. Blocks that were never
    /// written stay so.
    pub fn discard(&mut self, offset: u64, length: u64, mut left: impl FnMut(&mut [u8])) {
        let blocks = offset.div_ceil(BLOCK as u64)..(offset + length) / BLOCK as u64;
        let maps = [&self.durable, &self.cached, &self.ghosts];
        let held: std::collections::BTreeSet<u64> = maps
            .iter()
            .flat_map(|map| map.range(blocks.clone()).map(|(block, _)| *block))
            .collect();
        for block in held {
            let mut bytes = [0; BLOCK];
            left(&mut bytes);
            self.cached.insert(block, Arc::new(bytes));
        }
    }

    /// The numbers of the blocks that read differently than in an earlier image of the device.
    #[must_use]
    pub fn changed_since(&self, earlier: &Self) -> Vec<u64> {
        let mut touched = self.written();
        touched.retain(|block| self.block(*block) != earlier.block(*block));
        touched
    }

    /// The numbers of the blocks that were written and not discarded.
    #[must_use]
    pub fn written(&self) -> Vec<u64> {
        let all = self.durable.keys().chain(self.cached.keys()).chain(self.ghosts.keys());
        let all: std::collections::BTreeSet<u64> = all.copied().collect();
        all.into_iter().collect()
    }

    /// Makes all writes durable.
    pub fn flush(&mut self) {
        self.ghosts.retain(|block, _| !self.cached.contains_key(block));
        // One by one: `append` would build the whole map anew.
        self.durable.extend(std::mem::take(&mut self.cached));
    }

    /// Makes the blocks of a range durable, and no others.
    pub fn keep(&mut self, offset: u64, length: usize) {
        for_blocks(offset, length, |block, _, _| {
            if let Some(bytes) = self.cached.remove(&block) {
                self.ghosts.remove(&block);
                self.durable.insert(block, bytes);
            }
        });
    }

    /// A flush fails for good: nothing in the cache will ever be durable, and reads do not show it
    /// yet.
    pub fn give_up_cache(&mut self) {
        self.ghosts.extend(std::mem::take(&mut self.cached));
    }

    /// Drops the blocks that failed flushes have lost, so that reads show it.
    pub fn forget_given_up(&mut self) {
        self.ghosts.clear();
    }

    /// Cuts the power: each unflushed sector survives or vanishes.
    pub fn cut_power(&mut self, numbers: &mut Numbers, sector: usize) {
        self.cut(numbers, sector, |_| false);
    }

    /// Cuts the power of a device without atomic sectors: each unflushed one survives, vanishes or
    /// becomes noise.
    pub fn tear_and_cut_power(&mut self, numbers: &mut Numbers, sector: usize) {
        self.cut(numbers, sector, |_| true);
    }

    /// As [`Self::tear_and_cut_power`], but only the blocks (4 KiB) that `is_torn` selects become
    /// noise.
    pub fn cut(&mut self, numbers: &mut Numbers, sector: usize, is_torn: impl Fn(u64) -> bool) {
        self.ghosts.clear();
        // Sometimes all or nothing, which a coin per sector would never produce.
        let keep = numbers.below(4);
        let tear = 2 + 4 * numbers.below(2);
        for (block, new) in std::mem::take(&mut self.cached) {
            let torn = is_torn(block);
            let mut durable = self.durable_block(block);
            let kept = Arc::make_mut(&mut durable);
            for at in (0..BLOCK).step_by(sector) {
                let range = at..at + sector;
                if torn && kept[range.clone()] != new[range.clone()] && numbers.below(tear) == 0 {
                    numbers.fill(&mut kept[range]);
                } else if keep == 0 || (keep != 1 && numbers.below(2) == 0) {
                    kept[range.clone()].copy_from_slice(&new[range]);
                }
            }
            self.durable.insert(block, durable);
        }
    }
}

fn for_blocks(
    offset: u64,
    length: usize,
    mut each: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>),
) {
    let mut done = 0;
    while done < length {
        let at = offset + done as u64;
        let start = usize::try_from(at % BLOCK as u64).expect("below 4096");
        let count = (BLOCK - start).min(length - done);
        each(at / BLOCK as u64, start..start + count, done..done + count);
        done += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_block_reads_as_in_the_whole() {
        for image in [Image::zeroed(), Image::noisy(7)] {
            let mut whole = vec![1; 3 * BLOCK];
            image.read(5 * BLOCK as u64, &mut whole);
            for (start, length) in
                [(0, 512), (512, 512), (3584, 1024), (4096, 4096), (3, 2), (5, 3), (11, 5000)]
            {
                let mut part = vec![1; length];
                image.read((5 * BLOCK + start) as u64, &mut part);
                assert_eq!(part, whole[start..start + length], "{start} {length}");
            }
        }
    }
}
