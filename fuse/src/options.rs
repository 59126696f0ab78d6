//! What the library has no maker for.
#![allow(unsafe_code)]

use fuse_backend_rs::{abi::fuse_abi::statvfs64, api::filesystem::OpenOptions};

/// Writes through this open may run side by side.
const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// How the kernel moves the data of a file opened with `O_DIRECT`: straight to us, several writes at a time.
pub(crate) fn direct_open() -> OpenOptions {
    let bits =
        OpenOptions::DIRECT_IO.bits() | OpenOptions::KEEP_CACHE.bits() | PARALLEL_DIRECT_WRITES;
    // SAFETY: any bits are a valid value of a type that is a `u32`; the library passes them on as they are.
    unsafe { OpenOptions::from_bits_unchecked(bits) }
}

/// A zeroed answer to `statfs`: the type has no other maker.
pub(crate) fn no_space() -> statvfs64 {
    // SAFETY: it is plain old data, for which all zeroes is a value.
    unsafe { std::mem::zeroed() }
}
