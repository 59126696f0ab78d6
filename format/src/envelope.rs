//! The first 64 bytes of every record at a fixed place: its group and disk, its place, and a
//! checksum over the whole record.

use crate::{DiskId, GroupId, VERSION, checksum::crc32c, wire::*};
use std::ops::Range;

/// Bytes of the envelope; the record's own fields follow.
pub const ENVELOPE_SIZE: usize = 64;

pub const MAGIC: Range<usize> = 0..8; //     what the record is
pub const RECORD_VERSION: Range<usize> = 8..12; //  1
pub const CHECKSUM: Range<usize> = 12..16; // CRC-32C of the record, these bytes as zero
pub const GROUP: Range<usize> = 16..32; //   the group's id
pub const DISK: Range<usize> = 32..48; //    the id of the disk it was written to
pub const PLACE: Range<usize> = 48..56; //   the offset on that disk it was written to, bytes
pub const LENGTH: Range<usize> = 56..60; //  bytes of the record, envelope included
//                                 60..64     zero

/// Why bytes are not the expected record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("no {expected} here")]
    Magic { expected: &'static str },
    #[error("format version {found}; this program reads up to {known}: use a newer one")]
    Version { found: u32, known: u32 },
    #[error("checksum is {found:08x}, expected {expected:08x}")]
    Checksum { found: u32, expected: u32 },
    #[error("written for offset {found}, read at {expected}")]
    Place { found: u64, expected: u64 },
    #[error("belongs to disk {found}, not {expected}")]
    Disk { found: DiskId, expected: DiskId },
    #[error("belongs to group {found}, not {expected}")]
    Group { found: GroupId, expected: GroupId },
    #[error("length {found} is not between {ENVELOPE_SIZE} and {limit}")]
    Length { found: usize, limit: usize },
    #[error("{field} is {value}")]
    Field { field: &'static str, value: u64 },
    #[error("{field} is not text")]
    Text { field: &'static str },
    #[error("the first bytes of the block do not agree with the record behind them")]
    Prefix,
}

/// The fields of the envelope that differ from place to place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    pub group: GroupId,
    pub disk: DiskId,
    /// Byte offset on the disk.
    pub place: u64,
}

/// Writes the envelope around a finished record and seals it with the checksum.
/// `record` is the whole record, envelope included, without padding.
pub fn seal(record: &mut [u8], magic: &[u8; 8], envelope: Envelope) {
    let length = u32::try_from(record.len()).expect("records are smaller than 4 GiB");
    record[..ENVELOPE_SIZE].fill(0);
    put(record, MAGIC, magic);
    put(record, RECORD_VERSION, &VERSION.to_le_bytes());
    put(record, GROUP, &envelope.group.0);
    put(record, DISK, &envelope.disk.0);
    put(record, PLACE, &envelope.place.to_le_bytes());
    put(record, LENGTH, &length.to_le_bytes());
    let sum = crc32c(record);
    put(record, CHECKSUM, &sum.to_le_bytes());
}

/// Checks the envelope of the record at the start of `bytes`, read at offset `place`
/// of a disk, and returns the record without what follows it.
///
/// # Errors
/// The first mismatch: magic, version, length, checksum, place.
pub fn open<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    name: &'static str,
    place: u64,
) -> Result<(Envelope, &'a [u8]), FormatError> {
    if bytes.len() < ENVELOPE_SIZE || bytes[MAGIC] != *magic {
        return Err(FormatError::Magic { expected: name });
    }
    let version = get_u32(bytes, RECORD_VERSION);
    if version == 0 || version > VERSION {
        return Err(FormatError::Version { found: version, known: VERSION });
    }
    let length = get_u32(bytes, LENGTH) as usize;
    if length < ENVELOPE_SIZE || length > bytes.len() {
        return Err(FormatError::Length { found: length, limit: bytes.len() });
    }
    let record = &bytes[..length];
    let found = get_u32(record, CHECKSUM);
    let expected = crate::checksum::crc32c_parts(&[
        &record[..CHECKSUM.start],
        &[0; 4],
        &record[CHECKSUM.end..],
    ]);
    if found != expected {
        return Err(FormatError::Checksum { found, expected });
    }
    let envelope = Envelope {
        group: GroupId(get(record, GROUP)),
        disk: DiskId(get(record, DISK)),
        place: get_u64(record, PLACE),
    };
    if envelope.place != place {
        return Err(FormatError::Place { found: envelope.place, expected: place });
    }
    Ok((envelope, record))
}

impl Envelope {
    /// # Errors
    /// If the record is another group's or another disk's.
    pub fn expect(&self, group: GroupId, disk: DiskId) -> Result<(), FormatError> {
        if self.group != group {
            return Err(FormatError::Group { found: self.group, expected: group });
        }
        if self.disk != disk {
            return Err(FormatError::Disk { found: self.disk, expected: disk });
        }
        Ok(())
    }
}
