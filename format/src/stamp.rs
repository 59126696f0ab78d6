//! The stamp: how recent a disk's content is.
//!
//! A counter, rewritten on all ONLINE disks at mount, dismount, every membership change and each
//! minute, alternating between two slots. `n + 1` is not written to any disk until all ONLINE disks
//! hold `n`, so a disk more than one behind the newest is an old image.

use crate::{
    BLOCK_SIZE, FormatError, MembershipId,
    envelope::{self, ENVELOPE_SIZE, Envelope},
    wire::*,
};
use std::ops::Range;

pub const STAMP_MAGIC: &[u8; 8] = b"PLINTHST";

pub const COUNTER: Range<usize> = 64..72;
pub const WRITTEN: Range<usize> = 72..80; //     nanoseconds since 1970, signed; for people
pub const MEMBERSHIP: Range<usize> = 80..96; //  id of the membership then in force
pub const CLEAN: Range<usize> = 96..97; //       1: written by a dismount, with no I/O in flight

pub const STAMP_SIZE: usize = 97;
const _: () = assert!(COUNTER.start == ENVELOPE_SIZE && STAMP_SIZE == CLEAN.end);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub counter: u64,
    /// Nanoseconds since 1970.
    pub written: i64,
    pub membership: MembershipId,
    pub clean: bool,
}

impl Stamp {
    #[must_use]
    pub fn encode(&self, envelope: Envelope) -> [u8; BLOCK_SIZE] {
        let mut block = [0; BLOCK_SIZE];
        put(&mut block, COUNTER, &self.counter.to_le_bytes());
        put(&mut block, WRITTEN, &self.written.to_le_bytes());
        put(&mut block, MEMBERSHIP, &self.membership.0);
        put(&mut block, CLEAN, &[u8::from(self.clean)]);
        envelope::seal(&mut block[..STAMP_SIZE], STAMP_MAGIC, envelope);
        block
    }

    /// # Errors
    /// If the block, read at `place`, is not a valid stamp.
    pub fn decode(block: &[u8], place: u64) -> Result<(Envelope, Self), FormatError> {
        let (envelope, record) = envelope::open(block, STAMP_MAGIC, "stamp", place)?;
        if record.len() != STAMP_SIZE {
            return Err(FormatError::Length { found: record.len(), limit: STAMP_SIZE });
        }
        Ok((
            envelope,
            Self {
                counter: get_counter(record, COUNTER, "counter")?,
                written: get_i64(record, WRITTEN),
                membership: MembershipId(get(record, MEMBERSHIP)),
                clean: record[CLEAN.start] == 1,
            },
        ))
    }
}
