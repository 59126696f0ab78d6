#![allow(unsafe_code)]
//! The system calls that no library offers safely: locks of an open file description and the
//! discard of a block device.

use std::{fs::File, io, os::fd::AsRawFd};

/// Takes the write lock on the whole file for this open file description (R1). It is held until the
/// description is gone: closed by all processes that share it, and with no I/O of it in flight.
///
/// # Errors
/// `WouldBlock` if another description holds it.
pub(super) fn lock(file: &File) -> io::Result<()> {
    // The locks of an open file description want `l_pid` zero, and length zero means "to the end".
    let mut lock = libc::flock { l_type: 0, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open, and `lock` is a `struct flock` that outlives the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    match result {
        -1 => {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // Either may say that the lock is held: fcntl(2).
                Some(libc::EAGAIN | libc::EACCES) => Err(io::ErrorKind::WouldBlock.into()),
                _ => Err(error),
            }
        }
        _ => Ok(()),
    }
}

/// Whether another description than this one holds a lock on the file. `false` if that cannot be
/// found out.
pub(super) fn is_locked(file: &File) -> bool {
    let mut lock = libc::flock { l_type: 0, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open, and `lock` is a `struct flock` that outlives the call.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    asked == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
}

/// Tells a block device that it may forget these bytes. Blocks until it has.
pub(super) fn trim(file: &File, offset: u64, length: u64) -> io::Result<()> {
    /// `_IO(0x12, 119)` of linux/fs.h.
    const BLKDISCARD: libc::c_ulong = 0x1277;
    of_range(file, BLKDISCARD, offset, length)
}

/// Makes these bytes of a block device zeros: by a command of the device (WRITE SAME, Write
/// Zeroes), or the kernel writes them. Blocks until that is done.
pub(super) fn zero_out(file: &File, offset: u64, length: u64) -> io::Result<()> {
    /// `_IO(0x12, 127)` of linux/fs.h.
    const BLKZEROOUT: libc::c_ulong = 0x127f;
    of_range(file, BLKZEROOUT, offset, length)
}

/// A request to a block device that is about a range of its bytes.
fn of_range(file: &File, request: libc::c_ulong, offset: u64, length: u64) -> io::Result<()> {
    let range = [offset, length];
    // SAFETY: the descriptor is open, and both requests above read two u64 from `range`, which
    // outlives the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), request as _, range.as_ptr()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
