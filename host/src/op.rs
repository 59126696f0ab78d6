//! One I/O in flight, in the form that both I/O engines, ring and threads, use.
//!
//! An operation owns its memory and a share of the open file. Both live until the kernel is done
//! with them, even if the caller has stopped waiting (R2), and the lock of a claimed disk lives as
//! long as the file (R1).
//!
//! ```text
//!   submitted --landed: part of it--> submitted again for the rest
//!       |
//!       +--landed: all, or an error--> finished: the file is released, then the waiter is woken
//! ```

use super::{sys, timeout::Handle};
use plinth_engine::{
    completion::{Completer, Done},
    sync::buffer::{Buffer, Slice},
};
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// One system call transfers at most this much; the kernel's own limit is 2 GiB less a page.
pub(super) const TRANSFER_MAX: usize = 1 << 30;

/// A transfer that stops in the middle of a sector has met the end of the medium.
const SECTOR: usize = 512;

pub(super) struct Op {
    /// `None` if only the pool that carries it out has the file.
    pub(super) file: Option<Arc<Handle>>,
    pub(super) work: Work,
    pub(super) completer: Completer,
}

/// `done` counts the bytes transferred so far.
pub(super) enum Work {
    Read {
        offset: u64,
        buffer: Buffer,
        done: usize,
    },
    Write {
        offset: u64,
        data: Slice,
        durably: bool,
        done: usize,
    },
    Flush,
    Punch {
        offset: u64,
        length: u64,
        possible: Arc<AtomicBool>,
    },
    Trim {
        offset: u64,
        length: u64,
        possible: Arc<AtomicBool>,
    },
    /// Zeros, by a request to the block device.
    ZeroOut {
        offset: u64,
        length: u64,
    },
    /// Zeros that are written. Of a file not by fallocate(2): an array below the file system, which
    /// is to see them, would not.
    Zero {
        offset: u64,
        length: u64,
    },
}

/// The error of a flush in a durable write. `ENOSPC` of a flush means that writes are lost, that of
/// a write only that it was not carried out: they must not be confused.
fn failed_flush(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::StorageFull => io::Error::other(format!("flushing: {error}")),
        _ => error,
    }
}

impl Op {
    /// Records the result of one system call. `Some` when the operation has ended, `None` when the
    /// rest must be submitted again.
    pub(super) fn landed(&mut self, returned: io::Result<usize>) -> Option<io::Result<()>> {
        let transferred = match returned {
            Ok(transferred) => transferred,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => {
                return None;
            }
            Err(error) => return Some(Err(error)),
        };
        let (done, length, short) = match &mut self.work {
            Work::Read { buffer, done, .. } => (done, buffer.len(), io::ErrorKind::UnexpectedEof),
            Work::Write { data, done, .. } => (done, data.len(), io::ErrorKind::WriteZero),
            Work::Flush
            | Work::Punch { .. }
            | Work::Trim { .. }
            | Work::ZeroOut { .. }
            | Work::Zero { .. } => return Some(Ok(())),
        };
        *done += transferred;
        if *done >= length {
            return Some(Ok(()));
        }
        let stuck = transferred == 0 || !done.is_multiple_of(SECTOR);
        stuck.then(|| {
            Err(io::Error::new(short, format!("the disk ends {} bytes early", length - *done)))
        })
    }

    /// Carries out the operation at once, blocking.
    pub(super) fn run(mut self) {
        let result = match self.file.take() {
            Some(file) => self.carry_out(&file),
            None => Err(io::Error::other("the disk has no thread left to do this")),
        };
        self.finish(result);
    }

    /// The system calls of the operation. Uses no other descriptor, and wakes no thread.
    pub(super) fn carry_out(&mut self, file: &File) -> io::Result<()> {
        loop {
            let returned = match &mut self.work {
                Work::Read { offset, buffer, done } => {
                    file.read_at(&mut buffer[*done..], *offset + *done as u64)
                }
                Work::Write { offset, data, done, .. } => {
                    file.write_at(&data[*done..], *offset + *done as u64)
                }
                Work::Flush => file.sync_data().map(|()| 0),
                Work::Punch { offset, length, .. } => {
                    use rustix::fs::FallocateFlags as Flags;
                    rustix::fs::fallocate(
                        file,
                        Flags::PUNCH_HOLE | Flags::KEEP_SIZE,
                        *offset,
                        *length,
                    )
                    .map(|()| 0)
                    .map_err(io::Error::from)
                }
                Work::Trim { offset, length, .. } => sys::trim(file, *offset, *length).map(|()| 0),
                Work::ZeroOut { offset, length } => {
                    sys::zero_out(file, *offset, *length).map(|()| 0)
                }
                Work::Zero { offset, length } => write_zeroes(file, *offset, *length).map(|()| 0),
            };
            if let Some(mut result) = self.landed(returned) {
                // Not with `RWF_DSYNC`: file systems in user space, which come here, need not look
                // at that flag.
                if matches!(self.work, Work::Write { durably: true, .. }) {
                    result = result.and_then(|()| file.sync_data().map_err(failed_flush));
                }
                return result;
            }
        }
    }

    /// Releases the file, then wakes the waiter.
    pub(super) fn finish(self, result: io::Result<()>) {
        self.finish_at(result, None);
    }

    /// Like `finish`, with the time of the end, if that is known.
    pub(super) fn finish_at(self, mut result: io::Result<()>, at: Option<Duration>) {
        let Self { file, work, completer } = self;
        drop(file);
        let buffer = match work {
            Work::Read { buffer, .. } => Some(buffer),
            Work::Punch { possible, .. } | Work::Trim { possible, .. } => {
                // A discard is a hint. A disk that does not support it refuses one, and gets no
                // more.
                let refused = |error: &io::Error| {
                    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS))
                };
                if result.as_ref().is_err_and(refused) {
                    possible.store(false, Ordering::Relaxed);
                    result = Ok(());
                }
                None
            }
            Work::Write { .. } | Work::Flush | Work::ZeroOut { .. } | Work::Zero { .. } => None,
        };
        completer.finish_at(Done { result, buffer }, at);
    }
}

/// Writes zeros to the file, a part at a time.
fn write_zeroes(file: &File, offset: u64, length: u64) -> io::Result<()> {
    const PART: u64 = 1 << 20;
    let zeroes = Buffer::zeroed(usize::try_from(length.min(PART)).unwrap_or(0));
    let mut done = 0;
    while done < length {
        let part = usize::try_from((length - done).min(PART)).unwrap_or(0);
        file.write_all_at(&zeroes[..part], offset + done)?;
        done += part as u64;
    }
    Ok(())
}
