//! Which discards a device honours, and why another one honours none.
//!
//! A device gives space back in whole *units* of its granularity. Of a discard that begins or ends
//! inside a unit it ignores that part, silently. So discards are made of whole units here, and what
//! is left out is known: it shares a unit with data, and cannot go back before that data is gone.

use crate::planted::{self, Bug};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Bytes of one discard at most, whatever the device would take: a large discard may keep a device
/// busy for seconds.
pub const REQUEST_MAX: u64 = 64 << 20;

/// How a device gives space back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiscardMeans {
    /// A block device discards: TRIM, UNMAP, deallocate.
    Unmap,
    /// A file gets a hole.
    Punch,
}

impl DiscardMeans {
    /// As the views name it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unmap => "UNMAP",
            Self::Punch => "PUNCH",
        }
    }
}

/// Why a device gives no space back, in words for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NoDiscards {
    #[error("the device does not support discards: its discard_max_bytes is 0")]
    Unsupported,
    #[error(
        "discards are switched off for the device: its discard_max_bytes is 0, its \
         discard_max_hw_bytes is not"
    )]
    SwitchedOff,
    #[error("the kernel uses the device as one that is not thin: its provisioning_mode is {}", .0.word())]
    NotThin(ProvisioningMode),
    #[error("the device has refused a discard as not supported")]
    Refused,
    #[error("it is a file, and its file system has refused to punch a hole")]
    RefusedHole,
    #[error("it is a dump, and is not written")]
    Dump,
}

/// A `provisioning_mode` of a SCSI disk with which Linux sends it no discards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProvisioningMode {
    Full,
    Disabled,
}

impl ProvisioningMode {
    fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Disabled => "disabled",
        }
    }
}

/// The discards that a device honours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscardLimits {
    pub means: DiscardMeans,
    /// Bytes of a unit; not zero.
    pub granularity: u64,
    /// Byte offset on this disk at which a unit begins, less than the granularity. Not zero where a
    /// partition begins inside a unit.
    pub alignment: u64,
    /// Bytes of one discard at most.
    pub maximum: u64,
}

impl DiscardLimits {
    /// The whole units inside a range of bytes; empty if there are none.
    #[must_use]
    pub fn inwards(&self, range: Range<u64>) -> Range<u64> {
        let (start, end) = (self.up(range.start), self.down(range.end));
        if start < end { start..end } else { range.start..range.start }
    }

    /// The units that a range of bytes touches, as far as the disk has them.
    #[must_use]
    pub fn outwards(&self, range: Range<u64>) -> Range<u64> {
        self.down(range.start)..self.up(range.end)
    }

    /// The discards that give a range of bytes back: whole units, and none larger than the device
    /// and [`REQUEST_MAX`] allow.
    pub fn requests(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let units = if planted::has(Bug::DiscardOutwards) {
            self.outwards(range)
        } else {
            self.inwards(range)
        };
        let most = self.request_max();
        let end = units.end;
        units
            .step_by(usize::try_from(most).unwrap_or(usize::MAX))
            .map(move |start| start..end.min(start + most))
    }

    /// Bytes of one discard at most: whole units.
    #[must_use]
    pub fn request_max(&self) -> u64 {
        let most = self.maximum.min(REQUEST_MAX);
        (most - most % self.granularity).max(self.granularity)
    }

    /// The end of the last whole unit before `offset`; zero if there is none.
    fn down(&self, offset: u64) -> u64 {
        offset.checked_sub(self.alignment).map_or(0, |inside| offset - inside % self.granularity)
    }

    /// The beginning of the first unit from `offset` on.
    fn up(&self, offset: u64) -> u64 {
        let Some(inside) = offset.checked_sub(self.alignment) else { return self.alignment };
        self.alignment + inside.next_multiple_of(self.granularity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits(granularity: u64, alignment: u64, maximum: u64) -> DiscardLimits {
        DiscardLimits { means: DiscardMeans::Unmap, granularity, alignment, maximum }
    }

    #[test]
    fn ranges_shrink_to_whole_units() {
        let limits = limits(64, 24, u64::MAX);
        assert_eq!(limits.inwards(0..1000), 24..984);
        assert_eq!(limits.inwards(24..88), 24..88);
        assert_eq!(limits.inwards(25..88), 25..25);
        assert_eq!(limits.inwards(25..200), 88..152);
        assert_eq!(limits.inwards(0..24), 0..0);
        assert_eq!(limits.outwards(25..88), 24..88);
        assert_eq!(limits.outwards(3..25), 0..88);
    }

    #[test]
    fn a_request_is_never_larger_than_device_and_engine_allow() {
        let all = |limits: DiscardLimits, range| limits.requests(range).collect::<Vec<_>>();
        assert_eq!(all(limits(64, 0, 200), 0..500), [0..192, 192..384, 384..448]);
        assert_eq!(all(limits(64, 0, 1), 0..130), [0..64, 64..128], "a unit is the least");
        assert_eq!(all(limits(4096, 0, u64::MAX), 0..3 * REQUEST_MAX).len(), 3);
        assert!(all(limits(4096, 0, u64::MAX), 1..4096).is_empty());
    }

    proptest! {
        /// Requests cover exactly the units that are whole, each once.
        #[test]
        fn requests_are_the_whole_units(
            granularity in 1_u64..100,
            alignment in 0_u64..100,
            maximum in 0_u64..1000,
            start in 0_u64..5000,
            length in 0_u64..5000,
        ) {
            let limits = limits(granularity, alignment % granularity, maximum);
            let range = start..start + length;
            let mut next = None;
            let mut covered = 0;
            for request in limits.requests(range.clone()) {
                prop_assert!(range.start <= request.start && request.end <= range.end);
                prop_assert!(next.is_none_or(|next| next == request.start));
                let length = request.end - request.start;
                prop_assert!(length <= maximum.max(granularity));
                prop_assert_eq!(request.start % granularity, limits.alignment % granularity);
                prop_assert_eq!(length % granularity, 0);
                next = Some(request.end);
                covered += length;
            }
            let is_whole = |unit: &u64| *unit >= range.start && unit + granularity <= range.end;
            let step = usize::try_from(granularity).expect("small");
            let whole = (limits.alignment..range.end).step_by(step).filter(is_whole).count();
            prop_assert_eq!(covered, whole as u64 * granularity);
        }
    }
}
