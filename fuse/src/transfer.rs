//! File data between the protocol's buffers and the group, without a copy in between.
//!
//! The library lends its buffers only to what it takes for a file: it calls `read_at_volatile` on the file that an
//! answer is to be filled from, and `write_at_volatile` on the file that a request's data is for. [`Source`] and
//! [`Sink`] are such files, made of a closure.
#![allow(unsafe_code)]

use fuse_backend_rs::{
    abi::fuse_abi::statvfs64, api::filesystem::OpenOptions, file_buf::FileVolatileSlice,
    file_traits::FileReadWriteVolatile,
};
use std::io;

/// Writes through this open may run side by side.
const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// How the kernel moves the data of a file opened with `O_DIRECT`: straight to us, several writes at a time.
pub(crate) fn direct_open() -> OpenOptions {
    let bits = OpenOptions::DIRECT_IO.bits() | OpenOptions::KEEP_CACHE.bits() | PARALLEL_DIRECT_WRITES;
    // SAFETY: any bits are a valid value of a type that is a `u32`; the library passes them on as they are.
    unsafe { OpenOptions::from_bits_unchecked(bits) }
}

/// A zeroed answer to `statfs`: the type has no other maker.
pub(crate) fn no_space() -> statvfs64 {
    // SAFETY: it is plain old data, for which all zeroes is a value.
    unsafe { std::mem::zeroed() }
}

/// Fills the buffer of an answer.
pub(crate) struct Source<F>(pub F);

/// Takes the data of a request.
pub(crate) struct Sink<F>(pub F);

fn not_asked() -> io::Result<usize> {
    Err(io::Error::from_raw_os_error(libc::EIO))
}

impl<F: FnMut(&mut [u8], u64) -> io::Result<usize>> FileReadWriteVolatile for Source<F> {
    fn read_at_volatile(&mut self, slice: FileVolatileSlice<'_>, offset: u64) -> io::Result<usize> {
        // SAFETY: the slice is a part of this worker's answer buffer: initialised, `len` bytes long, alive during
        // this call, and touched by nobody else until it returns.
        let bytes = unsafe { std::slice::from_raw_parts_mut(slice.as_ptr(), slice.len()) };
        (self.0)(bytes, offset)
    }

    fn read_volatile(&mut self, _: FileVolatileSlice<'_>) -> io::Result<usize> {
        not_asked()
    }
    fn write_volatile(&mut self, _: FileVolatileSlice<'_>) -> io::Result<usize> {
        not_asked()
    }
    fn write_at_volatile(&mut self, _: FileVolatileSlice<'_>, _: u64) -> io::Result<usize> {
        not_asked()
    }
}

impl<F: FnMut(&[u8], u64) -> io::Result<usize>> FileReadWriteVolatile for Sink<F> {
    fn write_at_volatile(&mut self, slice: FileVolatileSlice<'_>, offset: u64) -> io::Result<usize> {
        // SAFETY: the slice is a part of this worker's request buffer: initialised, `len` bytes long, alive during
        // this call, and written by nobody until it returns.
        let bytes = unsafe { std::slice::from_raw_parts(slice.as_ptr(), slice.len()) };
        (self.0)(bytes, offset)
    }

    fn read_volatile(&mut self, _: FileVolatileSlice<'_>) -> io::Result<usize> {
        not_asked()
    }
    fn write_volatile(&mut self, _: FileVolatileSlice<'_>) -> io::Result<usize> {
        not_asked()
    }
    fn read_at_volatile(&mut self, _: FileVolatileSlice<'_>, _: u64) -> io::Result<usize> {
        not_asked()
    }
}
