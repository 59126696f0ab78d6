//! RECLAIM: its order, and its estimate.

use super::Selection;
use crate::words::sql_words;
use serde::{Deserialize, Serialize};

sql_words! {
    /// How space is given back.
    pub enum ReclaimMethod {
        /// To devices that take discards.
        Discard = "DISCARD",
        /// To arrays that keep no zeros, and to devices that take no discards.
        Zero = "ZERO",
    }
}

/// The parameters of a RECLAIM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimOrder {
    pub which: Selection,
    pub method: ReclaimMethod,
    /// `None`: 1, or the one that it has.
    pub power: Option<u32>,
}

/// How much a disk holds, and how much it would hold after a RECLAIM. Bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reclaimable {
    pub disk: String,
    pub size: u64,
    /// AUs in use, without the pieces in them that have no data.
    pub used: u64,
    /// The system area, the checksum zone, copies of the header.
    pub metadata: u64,
    /// Bytes of the metadata, and of the catalog's AUs, that were never written: the disk's file
    /// has no space for them.
    pub unwritten: u64,
    /// Free bytes that share a unit of the device with others: it does not give them back.
    pub cut_off: u64,
    /// The space of the disk's file in its file system, if that can be seen.
    pub allocated: Option<u64>,
    pub takes_discards: bool,
}

impl Reclaimable {
    /// Bytes of free AUs, and of pieces without data.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.size.saturating_sub(self.used + self.metadata)
    }

    /// The most that the device may have allocated for it now.
    #[must_use]
    pub fn holds(&self) -> u64 {
        self.allocated.unwrap_or(self.size)
    }

    /// The most that it would have after a RECLAIM by discards.
    #[must_use]
    pub fn after(&self) -> u64 {
        let stays = self.used + self.metadata + self.cut_off;
        self.holds().min(stays.saturating_sub(self.unwritten))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_file_does_not_become_larger() {
        let disk = |allocated| Reclaimable {
            disk: "D".to_owned(),
            size: 1000,
            used: 200,
            metadata: 100,
            unwritten: 0,
            cut_off: 10,
            allocated,
            takes_discards: true,
        };
        let of = |allocated| (disk(allocated).holds(), disk(allocated).after());
        assert_eq!(of(None), (1000, 310));
        assert_eq!(Reclaimable { unwritten: 70, ..disk(Some(900)) }.after(), 240);
        assert_eq!(of(Some(900)), (900, 310));
        assert_eq!(of(Some(50)), (50, 50));
        assert_eq!(disk(None).free(), 700);
    }
}
