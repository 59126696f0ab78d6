//! A file that can be recognised on a disk: every 4 KiB block names itself.
//!
//! It is how a test finds, damages and inspects the mirrors of a block without knowing
//! anything about the catalog.

use crate::MIB;
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

const BLOCK: usize = 4096;

/// The file, and its contents.
pub struct Blocks {
    path: PathBuf,
    seed: u64,
    count: u64,
}

impl Blocks {
    /// Writes a new file of `count` blocks and syncs it.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn new(path: PathBuf, seed: u64, count: u64) -> Self {
        let blocks = Self { path, seed, count };
        let file = File::create(&blocks.path)
            .unwrap_or_else(|error| panic!("{}: {error}", blocks.path.display()));
        for start in (0..count).step_by(256) {
            let chunk: Vec<u8> =
                (start..count.min(start + 256)).flat_map(|index| blocks.block(index)).collect();
            file.write_all_at(&chunk, start * BLOCK as u64).expect("write");
        }
        file.sync_all().expect("fsync");
        blocks
    }

    /// The contents of block `index`: its name, then bytes that follow from it.
    #[must_use]
    pub fn block(&self, index: u64) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK);
        block.extend_from_slice(b"PLTESTBK");
        block.extend_from_slice(&self.seed.to_le_bytes());
        block.extend_from_slice(&index.to_le_bytes());
        let mut state = self.seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        while block.len() < BLOCK {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            block.extend_from_slice(&state.to_le_bytes());
        }
        block
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Reads the whole file past every cache and compares.
    ///
    /// # Panics
    /// If a byte differs or cannot be read.
    #[track_caller]
    pub fn must_read_right(&self) {
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(&self.path)
            .unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
        // Twice the room, to find an aligned part in it.
        let mut room = vec![0; 2 * BLOCK];
        let skip = room.as_ptr().align_offset(BLOCK);
        for index in 0..self.count {
            let block = &mut room[skip..skip + BLOCK];
            file.read_exact(block)
                .unwrap_or_else(|error| panic!("{}, block {index}: {error}", self.path.display()));
            assert!(
                *block == self.block(index)[..],
                "{}: block {index} reads wrong",
                self.path.display()
            );
        }
    }

    /// The places of the blocks on a disk: index to byte offset.
    ///
    /// # Panics
    /// If the disk cannot be read.
    #[must_use]
    pub fn find(&self, disk: &Path) -> BTreeMap<u64, u64> {
        let mut file =
            File::open(disk).unwrap_or_else(|error| panic!("{}: {error}", disk.display()));
        let mut found = BTreeMap::new();
        let mut chunk = vec![0; 1 << 20];
        let mut offset = 0;
        while let Some(data) = next_data(&file, offset) {
            offset = data / BLOCK as u64 * BLOCK as u64;
            file.seek(SeekFrom::Start(offset)).expect("seek");
            let length = read_up_to(&mut file, &mut chunk).expect("read");
            if length < BLOCK {
                break;
            }
            for (place, block) in (offset..).step_by(BLOCK).zip(chunk[..length].chunks_exact(BLOCK))
            {
                if block.starts_with(b"PLTESTBK") && block[8..16] == self.seed.to_le_bytes() {
                    let index = u64::from_le_bytes(block[16..24].try_into().expect("8 bytes"));
                    if index < self.count && *block == self.block(index)[..] {
                        found.insert(index, place);
                    }
                }
            }
            offset += length as u64;
        }
        found
    }
}

/// Overwrites `length` bytes at `offset` of a disk file with noise, without the engine's knowledge.
///
/// # Panics
/// If it cannot.
pub fn noise(disk: &Path, offset: u64, length: usize) {
    let mut bytes = vec![0; length];
    File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes)).expect("noise");
    overwrite(disk, offset, &bytes);
}

/// Overwrites bytes of a disk file, without the engine's knowledge.
///
/// # Panics
/// If it cannot.
pub fn overwrite(disk: &Path, offset: u64, bytes: &[u8]) {
    let file = OpenOptions::new()
        .write(true)
        .open(disk)
        .unwrap_or_else(|error| panic!("{}: {error}", disk.display()));
    file.write_all_at(bytes, offset).expect("write to a disk");
    file.sync_all().expect("sync of a disk");
}

/// Bytes of a disk.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn bytes(disk: &Path, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    File::open(disk)
        .and_then(|file| file.read_exact_at(&mut bytes, offset))
        .expect("read from a disk");
    bytes
}

/// The places of the header of a disk with AUs of 4 MiB, as `docs/format.md` has them: first,
/// middle, last and spare copy.
///
/// # Panics
/// If the disk cannot be looked at.
#[must_use]
pub fn header_places(disk: &Path) -> [u64; 4] {
    let (au_size, block) = (4 * MIB, BLOCK as u64);
    // Of a device, metadata has no length.
    let size = File::open(disk).and_then(|mut file| file.seek(SeekFrom::End(0))).expect("disk");
    let blocks = size / au_size * au_size / block;
    [0, blocks / 2 * block, (blocks - 1) * block, au_size]
}

fn next_data(file: &File, offset: u64) -> Option<u64> {
    rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)).ok()
}

fn read_up_to(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < into.len() {
        match file.read(&mut into[length..])? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}
