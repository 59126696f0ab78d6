//! Values of library types for which the library has no constructor.
#![allow(unsafe_code)]

use fuse_backend_rs::{abi::fuse_abi::statvfs64, api::filesystem::OpenOptions};

/// Writes through this open may run in parallel.
const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// How the kernel moves the data of a file opened with `O_DIRECT`: past its page cache, several
/// writes at a time.
pub(crate) fn direct_open() -> OpenOptions {
    let bits =
        OpenOptions::DIRECT_IO.bits() | OpenOptions::KEEP_CACHE.bits() | PARALLEL_DIRECT_WRITES;
    // SAFETY: the type is a `u32`, of which any bits are a valid value; the library passes them on
    // unchanged.
    unsafe { OpenOptions::from_bits_unchecked(bits) }
}

/// A zeroed answer to `statfs`.
pub(crate) fn no_space() -> statvfs64 {
    // SAFETY: the type is plain old data, of which all zeros is a valid value.
    unsafe { std::mem::zeroed() }
}
