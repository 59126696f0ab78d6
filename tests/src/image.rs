//! The content of a disk, kept in memory and cheap to copy.
//!
//! Only chunks that were written take memory, and copies share unchanged chunks.

use plinth_workload::random::Random;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

const CHUNK: usize = 16 << 10;

/// A disk's bytes. Bytes that were never written are zero.
#[derive(Clone)]
pub struct Image {
    size: u64,
    chunks: BTreeMap<u64, Arc<Vec<u8>>>,
}

impl Image {
    /// A disk of zeros.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { size, chunks: BTreeMap::new() }
    }

    /// A disk that held something else before: in each 64 KiB there are 16 KiB of noise. The engine
    /// may never read it, and it is enough to notice if it does; more would cost time in each state
    /// of a crash test.
    #[must_use]
    pub fn used(size: u64, seed: u64) -> Self {
        let mut image = Self::new(size);
        let mut random = Random::new(seed);
        for number in (0..size / CHUNK as u64).step_by(4) {
            let mut chunk = vec![0; CHUNK];
            random.fill(&mut chunk);
            image.chunks.insert(number, Arc::new(chunk));
        }
        image
    }

    /// The contents of a file.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn load(path: &Path) -> Self {
        let load = || -> io::Result<Self> {
            let mut file = File::open(path)?;
            let mut image = Self::new(file.metadata()?.len());
            let mut chunk = vec![0; CHUNK];
            let mut offset = 0;
            while let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(offset)) {
                offset = data / CHUNK as u64 * CHUNK as u64;
                file.seek(SeekFrom::Start(offset))?;
                let length = (&file).take(CHUNK as u64).read_to_end({
                    chunk.clear();
                    &mut chunk
                })?;
                image.write(offset, &chunk);
                offset += length.max(1) as u64;
            }
            Ok(image)
        };
        load().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for (number, within, range) in parts(offset, into.len()) {
            let into = &mut into[range];
            match self.chunks.get(&number) {
                Some(chunk) => into.copy_from_slice(&chunk[within..within + into.len()]),
                None => into.fill(0),
            }
        }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (number, within, range) in parts(offset, bytes.len()) {
            let bytes = &bytes[range];
            if bytes.len() == CHUNK {
                self.chunks.insert(number, Arc::new(bytes.to_vec()));
                continue;
            }
            let chunk = self.chunks.entry(number).or_insert_with(|| Arc::new(vec![0; CHUNK]));
            Arc::make_mut(chunk)[within..within + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Makes a range zeros.
    pub fn discard(&mut self, offset: u64, length: u64) {
        let length = usize::try_from(length.min(self.size.saturating_sub(offset)))
            .expect("a part of a test's disk");
        for (number, within, range) in parts(offset, length) {
            if range.len() == CHUNK {
                self.chunks.remove(&number);
            } else if let Some(chunk) = self.chunks.get_mut(&number) {
                Arc::make_mut(chunk)[within..within + range.len()].fill(0);
            }
        }
    }

    /// Makes a file of it, with holes.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.size)?;
        for (number, chunk) in &self.chunks {
            let offset = number * CHUNK as u64;
            let length = usize::try_from(self.size - offset).map_or(CHUNK, |left| left.min(CHUNK));
            file.write_all_at(&chunk[..length], offset)?;
        }
        Ok(())
    }
}

/// The chunks that a range touches: number, where in the chunk, which part of the range.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let place = offset + done as u64;
        let within = usize::try_from(place % CHUNK as u64).expect("less than a chunk");
        let range = done..length.min(done + CHUNK - within);
        done = range.end;
        (!range.is_empty()).then_some((place / CHUNK as u64, within, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes, discards and reads at odd places, against a plain array.
    #[test]
    fn an_image_is_a_disk() {
        const SIZE: usize = 5 * CHUNK + 512;
        let mut plain = vec![0; SIZE];
        let mut image = Image::new(SIZE as u64);
        let mut seed = 1_u64;
        let mut random = |limit: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).expect("31 bits") % limit
        };
        for round in 0..500 {
            let start = random(SIZE);
            let length = random(SIZE - start + 1);
            let before = image.clone();
            if round % 5 == 4 {
                image.discard(start as u64, length as u64);
                plain[start..start + length].fill(0);
            } else {
                let bytes = vec![u8::try_from(round % 251).expect("a byte"); length];
                image.write(start as u64, &bytes);
                plain[start..start + length].copy_from_slice(&bytes);
            }
            drop(before);
            let mut read = vec![1; SIZE];
            image.read(0, &mut read);
            assert!(read == plain, "round {round}");
        }
        let file = tempfile::NamedTempFile::new().expect("file");
        image.save(file.path()).expect("save");
        assert!(std::fs::read(file.path()).expect("read") == plain);
        let mut read = vec![1; SIZE];
        Image::load(file.path()).read(0, &mut read);
        assert!(read == plain, "saved and loaded");
    }
}
