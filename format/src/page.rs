//! The last bytes of each catalog page: its checksum.
//!
//! The catalog is an SQLite database with 4 KiB pages of which the last
//! [`RESERVED`] bytes are reserved (byte 20 of the database header says so).
//! They hold the CRC-32C of the page's other bytes followed by the page number,
//! so that a page written to a wrong place is noticed. WAL frames have SQLite's
//! own checksums.

use crate::{BLOCK_SIZE, checksum::crc32c_parts, wire::*};
use std::ops::Range;

/// Bytes of a catalog page.
pub const PAGE_SIZE: usize = BLOCK_SIZE;
/// Bytes at the end of each page that SQLite leaves to us.
pub const RESERVED: usize = 8;

pub const PAGE_MAGIC: Range<usize> = PAGE_SIZE - 8..PAGE_SIZE - 4; //    "PLPG"
pub const PAGE_CHECKSUM: Range<usize> = PAGE_SIZE - 4..PAGE_SIZE; // CRC-32C of all before, then the page number (u32)

fn sum(page: &[u8], number: u32) -> u32 {
    crc32c_parts(&[&page[..PAGE_CHECKSUM.start], &number.to_le_bytes()])
}

/// Puts the checksum into page `number` (the first is 1).
pub fn seal(page: &mut [u8], number: u32) {
    put(page, PAGE_MAGIC, b"PLPG");
    let sum = sum(page, number);
    put(page, PAGE_CHECKSUM, &sum.to_le_bytes());
}

/// Whether page `number` is what was sealed.
#[must_use]
pub fn is_good(page: &[u8], number: u32) -> bool {
    page.len() == PAGE_SIZE && page[PAGE_MAGIC] == *b"PLPG" && get_u32(page, PAGE_CHECKSUM) == sum(page, number)
}
