//! CRC-32C, and the form of a block's checksum in the checksum zone.
//!
//! A checksum block is 4 KiB of 1024 little-endian `u32`, one for each 4 KiB block of one AU, in
//! order; an AU of more than 4 MiB has several, a smaller one leaves the rest unused. It has no
//! envelope: the mirrors of an extent confirm each other's checksums (`docs/format.md`).

use crate::BLOCK_SIZE;

/// Bytes of a stored checksum.
pub const STORED_SIZE: usize = 4;
/// Checksums in a checksum block.
pub const PER_BLOCK: usize = BLOCK_SIZE / STORED_SIZE;

/// The stored value for an unknown checksum: the block cannot be verified.
pub const UNKNOWN: u32 = 0;

/// CRC-32C (Castagnoli), as in iSCSI, ext4 and btrfs.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_parts(&[bytes])
}

/// CRC-32C of several pieces as if they were one.
#[must_use]
pub fn crc32c_parts(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    u32::try_from(digest.finalize()).expect("a CRC-32 has 32 bits")
}

/// The stored value for a 4 KiB block: its CRC-32C, or 1 if that happens to be 0, which means
/// [`UNKNOWN`].
#[must_use]
pub fn of_block(block: &[u8]) -> u32 {
    debug_assert_eq!(block.len(), BLOCK_SIZE);
    let sum = u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, block))
        .expect("32 bits");
    if sum == UNKNOWN { 1 } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283); // the check value of RFC 3720
        assert_eq!(crc32c_parts(&[b"1234", b"", b"56789"]), 0xe306_9283);
    }

    #[test]
    fn a_stored_checksum_is_never_unknown() {
        assert_ne!(of_block(&[0; BLOCK_SIZE]), UNKNOWN);
    }
}
