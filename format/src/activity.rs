//! The activity log: the runs of extents in which writes may be in flight.
//!
//! Two slots of 64 KiB on each voter, written in turn; of two valid ones the one with the higher
//! sequence counts. An entry is a run of extent ids.

use crate::{
    BLOCK_SIZE, FormatError, MembershipId,
    envelope::{self, ENVELOPE_SIZE, Envelope},
    layout::ACTIVITY_SLOT,
    wire::*,
};
use std::ops::Range;

pub const ACTIVITY_MAGIC: &[u8; 8] = b"PLINTHAL";

pub const SEQUENCE: Range<usize> = 64..72; //    grows by one with every write
pub const MEMBERSHIP: Range<usize> = 72..88; //  id of the membership then in force
pub const BOOT: Range<usize> = 88..104; //       the host's boot id when it was written
pub const COUNT: Range<usize> = 104..108; //     entries
//                             108..112           zero
pub const ENTRIES: usize = 112; //               entries begin here

/// An entry: first extent id (8 bytes), extents (4 bytes), zero (4 bytes).
pub const ENTRY_SIZE: usize = 16;
/// Entries that fit into a slot.
pub const ENTRIES_MAX: usize = (ACTIVITY_SLOT - ENTRIES) / ENTRY_SIZE;
const _: () = assert!(SEQUENCE.start == ENVELOPE_SIZE);

/// A run of extents: `first .. first + count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region {
    pub first: u64,
    pub count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityLog {
    pub sequence: u64,
    pub membership: MembershipId,
    pub boot: [u8; 16],
    pub regions: Vec<Region>,
}

impl ActivityLog {
    /// The record, padded to whole blocks.
    ///
    /// # Panics
    /// If there are more than [`ENTRIES_MAX`] regions.
    #[must_use]
    pub fn encode(&self, envelope: Envelope) -> Vec<u8> {
        assert!(self.regions.len() <= ENTRIES_MAX);
        let length = ENTRIES + self.regions.len() * ENTRY_SIZE;
        let mut bytes = vec![0; length.next_multiple_of(BLOCK_SIZE)];
        put(&mut bytes, SEQUENCE, &self.sequence.to_le_bytes());
        put(&mut bytes, MEMBERSHIP, &self.membership.0);
        put(&mut bytes, BOOT, &self.boot);
        put(
            &mut bytes,
            COUNT,
            &u32::try_from(self.regions.len()).expect("4089 at most").to_le_bytes(),
        );
        for (entry, region) in bytes[ENTRIES..].chunks_exact_mut(ENTRY_SIZE).zip(&self.regions) {
            put(entry, 0..8, &region.first.to_le_bytes());
            put(entry, 8..12, &region.count.to_le_bytes());
        }
        envelope::seal(&mut bytes[..length], ACTIVITY_MAGIC, envelope);
        bytes
    }

    /// # Errors
    /// If the bytes, read at `place`, are not a valid activity log.
    pub fn decode(bytes: &[u8], place: u64) -> Result<(Envelope, Self), FormatError> {
        let (envelope, record) = envelope::open(bytes, ACTIVITY_MAGIC, "activity log", place)?;
        if record.len() < ENTRIES {
            return Err(FormatError::Length { found: record.len(), limit: ACTIVITY_SLOT });
        }
        let count = get_u32(record, COUNT) as usize;
        if record.len() != ENTRIES + count.min(ENTRIES_MAX) * ENTRY_SIZE {
            return Err(FormatError::Field { field: "number of regions", value: count as u64 });
        }
        let regions = record[ENTRIES..]
            .chunks_exact(ENTRY_SIZE)
            .map(|entry| Region { first: get_u64(entry, 0..8), count: get_u32(entry, 8..12) })
            .collect();
        let log = Self {
            sequence: get_counter(record, SEQUENCE, "sequence")?,
            membership: MembershipId(get(record, MEMBERSHIP)),
            boot: get(record, BOOT),
            regions,
        };
        Ok((envelope, log))
    }
}
