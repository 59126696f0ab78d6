//! The mark of a lost block: a resync writes it where no mirror could be read.
//!
//! The returning disk has old bytes there, and must not stay OFFLINE because of them. The old bytes
//! must not be taken for right, even if there is no checksum to refute them; and if the mirror that
//! could not be read becomes readable after all, only that one counts. The mark is an empty
//! envelope, sealed over the whole block, so that no file's bytes can be mistaken for it.

use crate::{
    BLOCK_SIZE, FormatError,
    envelope::{self, Envelope},
};

pub const LOST_MAGIC: &[u8; 8] = b"PLINTHLB";

/// The mark for a block at its place.
#[must_use]
pub fn mark(envelope: Envelope) -> [u8; BLOCK_SIZE] {
    let mut block = [0; BLOCK_SIZE];
    envelope::seal(&mut block, LOST_MAGIC, envelope);
    block
}

/// Whether a block of file data, read at `expected.place`, is the mark of that place.
#[must_use]
pub fn is_mark(block: &[u8], expected: Envelope) -> bool {
    let opened = envelope::open(block, LOST_MAGIC, "lost block", expected.place).and_then(
        |(found, record)| {
            found.expect(expected.group, expected.disk)?;
            if record.len() == BLOCK_SIZE {
                Ok(())
            } else {
                Err(FormatError::Length { found: record.len(), limit: BLOCK_SIZE })
            }
        },
    );
    opened.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DiskId, GroupId};

    #[test]
    fn a_mark_is_of_one_place() {
        let here = Envelope { group: GroupId([1; 16]), disk: DiskId([2; 16]), place: 1 << 30 };
        let block = mark(here);
        assert!(is_mark(&block, here));
        assert!(!is_mark(&block, Envelope { place: 1 << 31, ..here }));
        assert!(!is_mark(&block, Envelope { disk: DiskId([3; 16]), ..here }));
        assert!(!is_mark(&block, Envelope { group: GroupId([3; 16]), ..here }));
        for place in [0, 12, 63, 64, BLOCK_SIZE - 1] {
            let mut torn = block;
            torn[place] ^= 1;
            assert!(!is_mark(&torn, here), "byte {place}");
        }
        assert!(!is_mark(&[0; BLOCK_SIZE], here));
        assert!(!is_mark(&[], here));
        let mut short = [0; BLOCK_SIZE];
        envelope::seal(&mut short[..64], LOST_MAGIC, here);
        assert!(!is_mark(&short, here));
    }
}
