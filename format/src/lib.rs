//! Every byte Plinth puts on a disk, and nothing else.
//!
//! ```text
//! disk      AU 0             AU 1 ..                             middle           end
//!           system area      checksum zone    data AUs ...       header copy      header copy
//!           (1 MiB used)     (CRC-32C of each 4 KiB of each AU)
//!
//! system area   0         header, first copy
//!               4 KiB     stamp, slot 0
//!               8 KiB     stamp, slot 1
//!               64 KiB    activity log, slot 0
//!               128 KiB   activity log, slot 1
//!               256 KiB   membership, slot 0
//!               512 KiB   membership, slot 1
//! ```
//!
//! Numbers are little-endian. Every record at a fixed place begins with the same
//! [envelope](envelope): magic, version, CRC-32C, group, disk, the place itself and its length, so
//! that a record read from a wrong place, another disk or another group is never taken for the
//! right one. In the block of a header the record follows a [prefix](label), which other programs
//! recognise. Decoders accept any bytes and return an error, never panic, and allocate no more than
//! the record's own length allows.
//!
//! `docs/format.md` has the same tables; a test compares the two.

pub mod activity;
pub mod au;
pub mod block;
pub mod checksum;
pub mod envelope;
pub mod header;
pub mod label;
pub mod layout;
pub mod lost;
pub mod membership;
pub mod page;
pub mod piece;
pub mod stamp;
mod wire;

pub use au::Au;
pub use block::Block;
pub use checksum::crc32c;
pub use envelope::FormatError;
pub use label::Label;
pub use layout::Layout;
pub use piece::Piece;

use std::fmt;

/// The unit of checksums and of metadata, in bytes.
pub const BLOCK_SIZE: usize = 4096;

/// The version of every record. A reader refuses a higher one. Blocks with a prefix have a
/// [version of their own](label::PREFIXED).
pub const VERSION: u32 = 1;

/// Longest name of a group, disk or failure group, in bytes.
pub const NAME_MAX: usize = 30;

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = &'static str;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let mut id = [0; 16];
                if text.len() != 32 || !text.is_ascii() {
                    return Err("an id is 32 hexadecimal digits");
                }
                for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
                    let digits = std::str::from_utf8(digits).map_err(|_| "an id is 32 hexadecimal digits")?;
                    *byte = u8::from_str_radix(digits, 16).map_err(|_| "an id is 32 hexadecimal digits")?;
                }
                Ok(Self(id))
            }
        }
    };
}

random_id!(
    /// A disk group, for its whole life.
    GroupId
);
random_id!(
    /// A disk as a member of a group: new each time it becomes a member.
    DiskId
);
random_id!(
    /// One recorded membership.
    MembershipId
);

/// A disk's number in its group: what extents refer to. Never reused while an extent refers to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DiskNumber(pub u16);

impl fmt::Display for DiskNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many mirrors a group keeps by default.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Redundancy {
    /// One: the storage system below does its own mirroring.
    External = 1,
    /// Two.
    Normal = 2,
    /// Three.
    High = 3,
}

impl Redundancy {
    /// Mirrors of each extent.
    #[must_use]
    pub fn mirrors(self) -> usize {
        self as usize
    }

    fn decode(byte: u8) -> Result<Self, FormatError> {
        match byte {
            1 => Ok(Self::External),
            2 => Ok(Self::Normal),
            3 => Ok(Self::High),
            _ => Err(FormatError::Field { field: "redundancy", value: u64::from(byte) }),
        }
    }
}

impl fmt::Display for Redundancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::External => "EXTERN",
            Self::Normal => "NORMAL",
            Self::High => "HIGH",
        })
    }
}

/// Whether `name` can name a group, disk or failure group: a letter, then letters,
/// digits, `_`, `$` or `#`, at most 30, upper case.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let rest =
        |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_$#".contains(&byte);
    name.len() <= NAME_MAX
        && name.as_bytes().first().is_some_and(u8::is_ascii_uppercase)
        && name.bytes().all(rest)
}
