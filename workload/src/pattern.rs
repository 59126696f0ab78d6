//! Bytes that follow from a number, and their verification.
//!
//! Each program that writes has a stream of its own, and numbers what it writes: so every byte that
//! is found can be attributed, and one that no operation wrote is seen. After a crash a write that
//! was not durable may be there, be there in part, or read as zeros.

use crate::{class::Sizes, random::Random};

/// A difference from what must be there, in words.
pub type Wrong = String;

/// The unit in which a disk writes whole or not at all, in bytes.
pub const SECTOR: usize = 512;

/// The byte with which benchmarks fill.
pub const FILL: u8 = 7;

/// The bytes of an operation, and how many: no other stream and no other number has the same.
///
/// # Panics
/// If the size is more than the memory.
pub fn bytes(stream: u64, number: u64, sizes: Sizes) -> Vec<u8> {
    let mut random = Random::new(stream << 32 | number);
    let length = usize::try_from(sizes.draw(&mut random)).expect("it fits into memory");
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// A sector of a page: it begins with its version, and the rest names version, page and sector.
pub fn sector(page: usize, version: u64, sector: usize) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    bytes[0..8].copy_from_slice(&version.to_le_bytes());
    Random::new(version << 24 | (page * 16 + sector) as u64).fill(&mut bytes[8..]);
    bytes
}

/// The version of the page that a sector says it belongs to.
///
/// # Panics
/// If there are less than eight bytes.
pub fn version_of(sector: &[u8]) -> u64 {
    u64::from_le_bytes(sector[0..8].try_into().expect("8 bytes"))
}

/// # Errors
/// If `holds` is false.
pub fn ensure(holds: bool, wrong: impl FnOnce() -> Wrong) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(wrong()) }
}

/// Compares a file with the bytes that were written to it, of which the first `durable` were
/// durable. Behind them it may be shorter, or zeros.
///
/// # Errors
/// Where it differs.
pub fn compare(what: &str, found: &[u8], written: &[u8], durable: usize) -> Result<(), Wrong> {
    ensure(found.len() >= durable, || {
        format!("{what}: {} bytes, and {durable} were durable", found.len())
    })?;
    ensure(found.len() <= written.len(), || {
        format!("{what}: {} bytes, {} were written", found.len(), written.len())
    })?;
    let wrong = found.iter().zip(written).enumerate();
    let wrong = wrong
        .filter(|(place, (found, written))| found != written && (*place < durable || **found != 0));
    let wrong: Vec<_> = wrong.map(|(place, _)| place).collect();
    ensure(wrong.is_empty(), || {
        format!(
            "{what}: {} bytes wrong from {} to {}, the first {durable} of {} were durable; \
             there is {:02x?}",
            wrong.len(),
            wrong[0],
            wrong[wrong.len() - 1],
            found.len(),
            &found[wrong[0]..found.len().min(wrong[0] + 16)]
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_follow_from_stream_and_number() {
        let sizes = Sizes::Between(10, 20);
        assert_eq!(bytes(1, 2, sizes), bytes(1, 2, sizes));
        assert_ne!(bytes(1, 2, sizes), bytes(1, 3, sizes));
        assert_ne!(bytes(1, 2, Sizes::Fixed(16)), bytes(2, 2, Sizes::Fixed(16)));
        assert!((0..100).all(|number| (10..=20).contains(&bytes(1, number, sizes).len())));
    }

    #[test]
    fn a_sector_names_its_version_page_and_place() {
        let one = sector(3, 9, 2);
        assert_eq!(version_of(&one), 9);
        for other in [sector(4, 9, 2), sector(3, 9, 3), sector(3, 8, 2)] {
            assert_ne!(one[8..], other[8..]);
        }
    }

    #[test]
    fn durable_bytes_are_compared_and_others_may_be_zeros_or_missing() {
        let written = [1, 2, 3, 4];
        let right = [(&written[..], 4), (&[1, 2, 0, 4], 2), (&[1, 2], 2), (&[], 0)];
        for (found, durable) in right {
            assert_eq!(compare("file", found, &written, durable), Ok(()), "{found:?}");
        }
        let wrong = [(&[1, 2][..], 3), (&[1, 2, 3, 4, 5], 0), (&[1, 0, 3], 2), (&[1, 2, 9], 2)];
        for (found, durable) in wrong {
            assert!(compare("file", found, &written, durable).is_err(), "{found:?}");
        }
    }
}
