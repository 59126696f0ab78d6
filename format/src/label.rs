//! Labels of disks, and the prefix that other programs recognise.
//!
//! A *label* is a name that an operator gives a disk. Discovery finds the disk by it, whatever its
//! device is called. It stands in the copies of the disk's header. A disk that belongs to no group
//! has no header: it has a *label record* instead, in three copies.
//!
//! ```text
//! block   0    prefix    magic of headers, version 2, "ORCLDISK", the label
//!         64   record    a header (magic PLINTHDK) or a label record (PLINTHLB), with envelope
//! ```
//!
//! The prefix is for other programs. libblkid knows `ORCLDISK` at byte 32 as `oracleasm`, with the
//! label behind it: so `blkid`, `lsblk -f`, `wipefs` and installers do not take the disk for an
//! empty one. Versions of Plinth that know no labels read the magic and the version, and refuse the
//! disk. The prefix says nothing that the record does not say: if they differ, the block is
//! damaged.
//!
//! A block of version 1 has no prefix: the record, a header without a label, begins at byte 0.

use crate::{
    BLOCK_SIZE, DiskId, FormatError, GroupId, VERSION,
    envelope::{self, ENVELOPE_SIZE, Envelope},
    header::HEADER_MAGIC,
    is_name,
    wire::*,
};
use std::{fmt, ops::Range};

/// Bytes of the prefix; the record follows.
pub const PREFIX_SIZE: usize = 64;

pub const PREFIX_MAGIC: Range<usize> = 0..8; //    that of headers
pub const PREFIX_VERSION: Range<usize> = 8..12; // 2
//                                      12..32     zero
pub const TAG: Range<usize> = 32..40; //           `ORCLDISK`
pub const PREFIX_LABEL: Range<usize> = 40..64; //  text, zero padded

/// The version of a block that begins with the prefix.
pub const PREFIXED: u32 = 2;

pub const ORCLDISK: &[u8; 8] = b"ORCLDISK";

/// Longest label, in bytes: the place that libblkid reads has no room for more.
pub const LABEL_MAX: usize = PREFIX_LABEL.end - PREFIX_LABEL.start;

pub const LABEL_MAGIC: &[u8; 8] = b"PLINTHLB";

pub const WHEN: Range<usize> = 64..72; //   nanoseconds since 1970, signed
pub const LABEL: Range<usize> = 72..96; //  text, zero padded
pub const BY: Range<usize> = 96..128; //    text, zero padded

/// Bytes of a label record.
pub const RECORD_SIZE: usize = 128;
const _: () = assert!(WHEN.start == ENVELOPE_SIZE && BY.end == RECORD_SIZE);

/// The name of a disk that its operator chose: upper case, at most [`LABEL_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(String);

impl Label {
    /// The label that a text in upper or lower case names; `None` if it cannot be one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.to_ascii_uppercase();
        (is_name(&text) && text.len() <= LABEL_MAX).then_some(Self(text))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a field with a label, or with none.
pub(crate) fn get_label(bytes: &[u8], at: Range<usize>) -> Result<Option<Label>, FormatError> {
    let text = get_text(bytes, at, "label")?;
    match Label::new(&text) {
        _ if text.is_empty() => Ok(None),
        Some(label) if label.0 == text => Ok(Some(label)),
        _ => Err(FormatError::Text { field: "label" }),
    }
}

pub(crate) fn put_label(bytes: &mut [u8], at: Range<usize>, label: Option<&Label>) {
    put_text(bytes, at, label.map_or("", Label::as_str));
}

/// The prefix of a block whose record has this label.
pub(crate) fn prefix(label: Option<&Label>) -> [u8; PREFIX_SIZE] {
    let mut prefix = [0; PREFIX_SIZE];
    put(&mut prefix, PREFIX_MAGIC, HEADER_MAGIC);
    put(&mut prefix, PREFIX_VERSION, &PREFIXED.to_le_bytes());
    put(&mut prefix, TAG, ORCLDISK);
    put_label(&mut prefix, PREFIX_LABEL, label);
    prefix
}

/// The bytes behind the prefix; `None` if the block has no prefix, as one of version 1 has none.
///
/// # Errors
/// If the block is of a later version.
pub(crate) fn behind_prefix(block: &[u8]) -> Result<Option<&[u8]>, FormatError> {
    if block.len() < PREFIX_SIZE || block[PREFIX_MAGIC] != *HEADER_MAGIC {
        return Ok(None);
    }
    match get_u32(block, PREFIX_VERSION) {
        PREFIXED => Ok(Some(&block[PREFIX_SIZE..])),
        found if found > PREFIXED => Err(FormatError::Version { found, known: PREFIXED }),
        _ => Ok(None),
    }
}

/// # Errors
/// If the prefix is not that of this label.
pub(crate) fn check_prefix(block: &[u8], label: Option<&Label>) -> Result<(), FormatError> {
    if block.starts_with(&prefix(label)) { Ok(()) } else { Err(FormatError::Prefix) }
}

/// The label of a disk that belongs to no group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRecord {
    pub label: Label,
    /// When the disk got it: nanoseconds since 1970.
    pub when: i64,
    /// The user who gave it; for people.
    pub by: String,
}

/// Longest name of a user in a label record, in bytes.
pub const BY_MAX: usize = BY.end - BY.start;

impl LabelRecord {
    /// The block to write at `place`. Of a longer name of the user the beginning is kept.
    #[must_use]
    pub fn encode(&self, place: u64) -> [u8; BLOCK_SIZE] {
        let mut block = [0; BLOCK_SIZE];
        put(&mut block, 0..PREFIX_SIZE, &prefix(Some(&self.label)));
        let record = &mut block[PREFIX_SIZE..][..RECORD_SIZE];
        put(record, WHEN, &self.when.to_le_bytes());
        put_label(record, LABEL, Some(&self.label));
        put_text(record, BY, &self.by[..self.by.floor_char_boundary(BY_MAX)]);
        let envelope = Envelope { group: GroupId::default(), disk: DiskId::default(), place };
        envelope::seal(record, LABEL_MAGIC, envelope);
        block
    }

    /// # Errors
    /// If the block, read at `place`, is not a valid label record behind its prefix.
    pub fn decode(block: &[u8], place: u64) -> Result<Self, FormatError> {
        const NAME: &str = "label record";
        let behind = behind_prefix(block)?.ok_or(FormatError::Magic { expected: NAME })?;
        let (envelope, record) = envelope::open(behind, LABEL_MAGIC, NAME, place)?;
        envelope.expect(GroupId::default(), DiskId::default())?;
        if record.len() != RECORD_SIZE {
            return Err(FormatError::Length { found: record.len(), limit: RECORD_SIZE });
        }
        let label = get_label(record, LABEL)?.ok_or(FormatError::Text { field: "label" })?;
        check_prefix(block, Some(&label))?;
        Ok(Self { label, when: get_i64(record, WHEN), by: get_text(record, BY, "user")? })
    }

    /// Where the copies are on a device of `size` bytes: in the first block, the middle and the
    /// last block. Empty if the device is too small for three.
    #[must_use]
    pub fn places(size: u64) -> Vec<u64> {
        const BLOCK: u64 = BLOCK_SIZE as u64;
        match size / BLOCK {
            0..3 => Vec::new(),
            blocks => vec![0, blocks / 2 * BLOCK, (blocks - 1) * BLOCK],
        }
    }
}

const _: () = assert!(VERSION < PREFIXED, "a block's version says whether it has the prefix");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_short_name_in_upper_case() {
        let label = |text: &str| Label::new(text).map(|label| label.to_string());
        assert_eq!(label("data_1$#").as_deref(), Some("DATA_1$#"));
        assert_eq!(label(&"L".repeat(LABEL_MAX)).as_deref(), Some(&*"L".repeat(24)));
        for text in ["", "1A", "_A", "A B", "A-B", "A\n", "\u{1b}[2J", "Ä", "A\0", &"L".repeat(25)]
        {
            assert_eq!(label(text), None, "{text:?}");
        }
    }

    /// The bytes that libblkid looks at.
    #[test]
    fn other_programs_find_the_label_at_byte_40() {
        let label = Label::new("DATA01").expect("a label");
        let record = LabelRecord { label, when: 1, by: "root".to_owned() };
        let block = record.encode(0);
        assert_eq!(&block[..12], b"PLINTHDK\x02\0\0\0");
        assert_eq!(&block[32..48], b"ORCLDISKDATA01\0\0");
    }

    #[test]
    fn places_are_apart_and_inside() {
        assert_eq!(LabelRecord::places(3 * 4096 - 1), []);
        for size in [3 * 4096, 1 << 20, (1 << 30) + 512] {
            let places = LabelRecord::places(size);
            assert_eq!(places[0], 0);
            assert!(places.is_sorted_by(|one, next| one + 4096 <= *next), "{places:?}");
            assert!(places[2] + 4096 <= size && size < places[2] + 2 * 4096);
        }
    }

    /// A long name of a user is cut, not in the middle of a letter.
    #[test]
    fn a_record_is_read_as_it_was_written() {
        for by in ["", "root", &"ö".repeat(40)] {
            let label = Label::new("L1").expect("a label");
            let record = LabelRecord { label, when: -5, by: by.to_owned() };
            let kept = LabelRecord { by: by.chars().take(16).collect(), ..record.clone() };
            assert_eq!(LabelRecord::decode(&record.encode(4096), 4096), Ok(kept));
        }
    }
}
