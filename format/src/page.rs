//! The last bytes of each catalog page: its checksum.
//!
//! The catalog is an SQLite database with 4 KiB pages of which the last [`RESERVED`] bytes are
//! reserved (byte 20 of the database header gives their number). They hold a number that grows with
//! every write, so that a mirror that missed a write is recognised; and the CRC-32C of the page's
//! other bytes followed by the page number, so that a page written to a wrong place is noticed. WAL
//! frames have SQLite's own checksums.

use crate::{BLOCK_SIZE, checksum::crc32c_parts, wire::*};
use std::ops::Range;

/// Bytes of a catalog page.
pub const PAGE_SIZE: usize = BLOCK_SIZE;
/// Bytes at the end of each page that SQLite does not use.
pub const RESERVED: usize = 16;

pub const PAGE_WRITE: Range<usize> = PAGE_SIZE - 16..PAGE_SIZE - 8; //   grows with every write
pub const PAGE_MAGIC: Range<usize> = PAGE_SIZE - 8..PAGE_SIZE - 4; //    "PLPG"
pub const PAGE_CHECKSUM: Range<usize> = PAGE_SIZE - 4..PAGE_SIZE; // CRC-32C, described above

fn sum(page: &[u8], number: u32) -> u32 {
    crc32c_parts(&[&page[..PAGE_CHECKSUM.start], &number.to_le_bytes()])
}

/// Stores the number of the write and the checksum in page `number` (the first is 1).
pub fn seal(page: &mut [u8], number: u32, write: u64) {
    put(page, PAGE_WRITE, &write.to_le_bytes());
    put(page, PAGE_MAGIC, b"PLPG");
    let sum = sum(page, number);
    put(page, PAGE_CHECKSUM, &sum.to_le_bytes());
}

/// The number of the last write of page `number`; `None` if its checksum is wrong.
#[must_use]
pub fn written(page: &[u8], number: u32) -> Option<u64> {
    let good = page.len() == PAGE_SIZE
        && page[PAGE_MAGIC] == *b"PLPG"
        && get_u32(page, PAGE_CHECKSUM) == sum(page, number);
    good.then(|| get_u64(page, PAGE_WRITE))
}

/// Whether the checksum of page `number` is right.
#[must_use]
pub fn is_good(page: &[u8], number: u32) -> bool {
    written(page, number).is_some()
}
