//! The disk header: the group and disk, and how the disk is divided into AUs.
//!
//! Kept four times (first block, middle, end of the disk, and after the first AU), each a 4 KiB
//! block, never all rewritten at once. Of the valid copies the one with the highest sequence
//! counts. In the block the record follows a prefix that other programs recognise
//! ([`label`](crate::label)); blocks of version 1 have no prefix, and their record no label.

use crate::{
    BLOCK_SIZE, DiskId, DiskNumber, FormatError, GroupId, Redundancy,
    envelope::{self, ENVELOPE_SIZE, Envelope},
    is_name,
    label::{self, Label, PREFIX_SIZE},
    layout::{FIRST_AREA, Layout, RecordArea},
    wire::*,
};
use std::{fmt, ops::Range};

pub const HEADER_MAGIC: &[u8; 8] = b"PLINTHDK";

pub const SEQUENCE: Range<usize> = 64..72; //         grows by one with every rewrite
pub const CREATED: Range<usize> = 72..80; //          nanoseconds since 1970, signed
pub const SIZE: Range<usize> = 80..88; //             bytes of the disk that the group uses
pub const AU_SIZE: Range<usize> = 88..96; //          bytes, a power of two
pub const LOGICAL_SECTOR: Range<usize> = 96..100; //  bytes: 512 or 4096
pub const PHYSICAL_SECTOR: Range<usize> = 100..104; // bytes: 512 or 4096
pub const DISK_NUMBER: Range<usize> = 104..106;
pub const STATUS: Range<usize> = 106..107; //         1 member, 2 former
pub const REDUNDANCY: Range<usize> = 107..108; //     1 external, 2 normal, 3 high
pub const QUORUM: Range<usize> = 108..109; //         1: holds no data
//                                  109..112           zero
pub const GROUP_NAME: Range<usize> = 112..144; //     text, zero padded
pub const DISK_NAME: Range<usize> = 144..176; //      text, zero padded
pub const FAILURE_GROUP: Range<usize> = 176..208; //  text, zero padded
pub const FEATURES: Range<usize> = 208..216; //       bits that a reader must know
/// If `renamedg` gave the disk another id: the ids in its marks of lost blocks. Else zero.
pub const ORIGIN_GROUP: Range<usize> = 216..232;
pub const ORIGIN_DISK: Range<usize> = 232..248;
pub const LABEL: Range<usize> = 248..272; //          text, zero padded

/// A bit of FEATURES: every record is also in the middle area ([`Layout::middle_area`]).
pub const MIDDLE_AREA: u64 = 1;

/// Bytes of the record.
pub const HEADER_SIZE: usize = 272;
/// Bytes of the record in a block of version 1, without its origin and with it.
const HEADER_SIZE_1: usize = 216;
const HEADER_SIZE_1_RENAMED: usize = 248;
const _: () = assert!(SEQUENCE.start == ENVELOPE_SIZE && HEADER_SIZE_1 == FEATURES.end);
const _: () = assert!(HEADER_SIZE_1_RENAMED == ORIGIN_DISK.end && HEADER_SIZE == LABEL.end);
const _: () = assert!(PREFIX_SIZE + HEADER_SIZE <= 512, "a sector is written whole");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    Member = 1,
    /// The disk was a member, was dropped in good order, and can be used again.
    Former = 2,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskHeader {
    pub group: GroupId,
    pub disk: DiskId,
    pub sequence: u64,
    /// When the disk became a member: nanoseconds since 1970.
    pub created: i64,
    pub layout: Layout,
    pub logical_sector: u32,
    pub physical_sector: u32,
    pub number: DiskNumber,
    pub status: Status,
    pub redundancy: Redundancy,
    pub quorum: bool,
    /// Every record of the disk is in both of its areas. False on a disk of a program that had only
    /// the first area: then the middle area holds no records.
    pub middle_area: bool,
    pub group_name: String,
    pub name: String,
    pub failure_group: String,
    /// The ids that the disk had before `renamedg`: its marks of lost blocks contain them.
    pub origin: Option<(GroupId, DiskId)>,
    pub label: Option<Label>,
    /// False if it was read from a block of version 1. A header is always written with the prefix.
    pub has_prefix: bool,
}

impl DiskHeader {
    /// The areas that hold the disk's records.
    #[must_use]
    pub fn record_areas(&self) -> Vec<RecordArea> {
        let middle = self.middle_area.then(|| self.layout.middle_area());
        [FIRST_AREA].into_iter().chain(middle).collect()
    }

    /// The block to write at `place`.
    #[must_use]
    pub fn encode(&self, place: u64) -> [u8; BLOCK_SIZE] {
        let mut block = [0; BLOCK_SIZE];
        put(&mut block, 0..PREFIX_SIZE, &label::prefix(self.label.as_ref()));
        let record = &mut block[PREFIX_SIZE..][..HEADER_SIZE];
        put(record, SEQUENCE, &self.sequence.to_le_bytes());
        put(record, CREATED, &self.created.to_le_bytes());
        put(record, SIZE, &self.layout.size().to_le_bytes());
        put(record, AU_SIZE, &self.layout.au_size().to_le_bytes());
        put(record, LOGICAL_SECTOR, &self.logical_sector.to_le_bytes());
        put(record, PHYSICAL_SECTOR, &self.physical_sector.to_le_bytes());
        put(record, DISK_NUMBER, &self.number.0.to_le_bytes());
        put(record, STATUS, &[self.status as u8]);
        put(record, REDUNDANCY, &[self.redundancy as u8]);
        put(record, QUORUM, &[u8::from(self.quorum)]);
        put(record, FEATURES, &(if self.middle_area { MIDDLE_AREA } else { 0 }).to_le_bytes());
        put_text(record, GROUP_NAME, &self.group_name);
        put_text(record, DISK_NAME, &self.name);
        put_text(record, FAILURE_GROUP, &self.failure_group);
        let (origin_group, origin_disk) = self.origin.unwrap_or_default();
        put(record, ORIGIN_GROUP, &origin_group.0);
        put(record, ORIGIN_DISK, &origin_disk.0);
        label::put_label(record, LABEL, self.label.as_ref());
        let envelope = Envelope { group: self.group, disk: self.disk, place };
        envelope::seal(record, HEADER_MAGIC, envelope);
        block
    }

    /// # Errors
    /// If the block, read at `place`, is not a valid header.
    pub fn decode(block: &[u8], place: u64) -> Result<Self, FormatError> {
        let behind = label::behind_prefix(block)?;
        let (envelope, record) =
            envelope::open(behind.unwrap_or(block), HEADER_MAGIC, "disk header", place)?;
        let label = match (behind, record.len()) {
            (Some(_), HEADER_SIZE) => {
                let label = label::get_label(record, LABEL)?;
                label::check_prefix(block, label.as_ref())?;
                label
            }
            (None, HEADER_SIZE_1 | HEADER_SIZE_1_RENAMED) => None,
            (_, found) => return Err(FormatError::Length { found, limit: HEADER_SIZE }),
        };
        let features = get_u64(record, FEATURES);
        if features & !MIDDLE_AREA != 0 {
            return Err(FormatError::Field {
                field: "a feature this program does not know",
                value: features,
            });
        }
        let name = |at, field| {
            let text = get_text(record, at, field)?;
            if is_name(&text) { Ok(text) } else { Err(FormatError::Text { field }) }
        };
        let sector = |at, field| match get_u32(record, at) {
            size @ (512 | 4096) => Ok(size),
            size => Err(FormatError::Field { field, value: u64::from(size) }),
        };
        Ok(Self {
            group: envelope.group,
            disk: envelope.disk,
            sequence: get_counter(record, SEQUENCE, "sequence")?,
            created: get_i64(record, CREATED),
            layout: Layout::new(get_u64(record, SIZE), get_u64(record, AU_SIZE))?,
            logical_sector: sector(LOGICAL_SECTOR, "logical sector size")?,
            physical_sector: sector(PHYSICAL_SECTOR, "physical sector size")?,
            number: DiskNumber(get_u16(record, DISK_NUMBER)),
            status: match record[STATUS.start] {
                1 => Status::Member,
                2 => Status::Former,
                other => {
                    return Err(FormatError::Field { field: "status", value: u64::from(other) });
                }
            },
            redundancy: Redundancy::decode(record[REDUNDANCY.start])?,
            quorum: record[QUORUM.start] == 1,
            middle_area: features & MIDDLE_AREA != 0,
            group_name: name(GROUP_NAME, "group name")?,
            name: name(DISK_NAME, "disk name")?,
            failure_group: name(FAILURE_GROUP, "failure group name")?,
            origin: (record.len() != HEADER_SIZE_1)
                .then(|| (GroupId(get(record, ORIGIN_GROUP)), DiskId(get(record, ORIGIN_DISK))))
                .filter(|origin| *origin != Default::default()),
            label,
            has_prefix: behind.is_some(),
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Member => "MEMBER",
            Self::Former => "FORMER",
        })
    }
}
