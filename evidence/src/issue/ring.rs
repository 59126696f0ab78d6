#![allow(unsafe_code)]
//! Transfers by io_uring: one ring for each worker, used by its thread alone.
//!
//! Memory and files are registered where that is allowed, so that the kernel looks neither up for
//! each transfer.
//!
//! Invariants:
//!
//! 1. A buffer is lent out only while no transfer uses it: the worker has its slot.
//! 2. Never more transfers in flight than slots, and as many places in the rings: no queue is full.
//! 3. Memory of a ring that is dropped with transfers in flight is leaked: the kernel may still
//!    write to it.

use super::engine::{Clock, Ended, Engine, Io, Kind, Slots, Wait};
use io_uring::{IoUring, opcode, types};
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    fs::File,
    io,
    os::fd::AsRawFd,
    ptr::NonNull,
    sync::Arc,
};

/// Memory is aligned as huge pages are, so that the kernel may use these.
const ALIGN: usize = 2 << 20;
const GETEVENTS: u32 = 1;
/// The most that one registered buffer may have.
const REGISTERED_MAX: usize = 1 << 30;

/// Zeroed memory of a fixed address.
struct Memory {
    begin: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is memory, and belongs to one owner.
unsafe impl Send for Memory {}

impl Memory {
    fn new(bytes: usize) -> io::Result<Self> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGN).map_err(io::Error::other)?;
        // SAFETY: the size is not zero.
        let begin = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| {
            io::Error::new(io::ErrorKind::OutOfMemory, format!("no memory for {bytes} bytes"))
        })?;
        Ok(Self { begin, layout })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.begin.as_ptr(), self.layout) };
    }
}

pub struct Ring {
    ring: IoUring,
    files: Arc<Vec<File>>,
    memory: Option<Memory>,
    slots: Slots,
    /// Length of the transfer of each slot, to see a short one.
    in_flight: usize,
    are_files_registered: bool,
    is_memory_registered: bool,
    clock: Clock,
}

impl Ring {
    /// To be called by the thread that will use it.
    ///
    /// # Errors
    /// If this system refuses io_uring, or memory.
    pub fn new(files: Arc<Vec<File>>, slots: Slots, clock: Clock) -> io::Result<Self> {
        let entries = u32::try_from(slots.buffers.len().max(1)).unwrap_or(u32::MAX);
        let entries = entries.next_power_of_two().min(32_768);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            // Linux before 6.1 knows neither.
            .or_else(|_| IoUring::new(entries))?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "its io_uring has no waits with a timeout (Linux 5.11 has)",
            ));
        }
        let memory = Memory::new(slots.bytes())?;
        let descriptors: Vec<_> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let are_files_registered = ring.submitter().register_files(&descriptors).is_ok();
        let part = libc::iovec { iov_base: memory.begin.as_ptr().cast(), iov_len: slots.bytes() };
        let is_memory_registered = slots.bytes() <= REGISTERED_MAX
            // SAFETY: the memory lives as long as the ring.
            && unsafe { ring.submitter().register_buffers(&[part]) }.is_ok();
        Ok(Self {
            ring,
            files,
            memory: Some(memory),
            slots,
            in_flight: 0,
            are_files_registered,
            is_memory_registered,
            clock,
        })
    }

    fn address(&self, slot: usize) -> *mut u8 {
        let begin = self.slots.buffers[slot].0;
        let memory = self.memory.as_ref().expect("it is there until the ring is dropped");
        // SAFETY: buffers lie in the memory.
        unsafe { memory.begin.as_ptr().add(begin) }
    }

    fn entry(&self, io: &Io) -> io_uring::squeue::Entry {
        let address = self.address(io.slot);
        let length = u32::try_from(io.length).unwrap_or(u32::MAX);
        let flags = if io.kind == Kind::DurableWrite { libc::RWF_DSYNC } else { 0 };
        let (fixed, plain) =
            (types::Fixed(io.target as u32), types::Fd(self.files[io.target].as_raw_fd()));
        macro_rules! entry {
            ($code:ident, $($index:expr)?) => {
                if self.are_files_registered {
                    opcode::$code::new(fixed, address, length $(, $index)?)
                } else {
                    opcode::$code::new(plain, address, length $(, $index)?)
                }
                .offset(io.offset)
                .rw_flags(flags)
                .build()
            };
        }
        match (io.kind, self.is_memory_registered) {
            (Kind::Read, true) => entry!(ReadFixed, 0),
            (Kind::Read, false) => entry!(Read,),
            (_, true) => entry!(WriteFixed, 0),
            (_, false) => entry!(Write,),
        }
    }

    fn reap(&mut self, ended: &mut Vec<Ended>) {
        for completion in self.ring.completion() {
            let result = completion.result();
            let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
            ended.push(Ended { slot: completion.user_data() as usize, result });
            self.in_flight -= 1;
        }
    }

    fn enter(&self, wait: Wait) -> io::Result<()> {
        let submitter = self.ring.submitter();
        let ended = match wait {
            Wait::Until(then) => {
                let timeout = types::Timespec::from(self.clock.until(then));
                let arguments = types::SubmitArgs::new().timespec(&timeout);
                submitter.submit_with_args(1, &arguments)
            }
            Wait::No => {
                let count = self.pushed();
                // SAFETY: no argument is passed.
                unsafe { submitter.enter::<()>(count as u32, 0, GETEVENTS, None) }
            }
        };
        match ended {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Signals, the timeout, and a kernel that is short of memory for a moment.
                Some(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn pushed(&self) -> usize {
        // SAFETY: no other queue of this ring is used meanwhile: the ring belongs to one thread.
        unsafe { self.ring.submission_shared() }.len()
    }
}

impl Engine for Ring {
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        let length = self.slots.buffers[slot].1;
        // SAFETY: invariant 1, and buffers do not overlap.
        unsafe { std::slice::from_raw_parts_mut(self.address(slot), length) }
    }

    fn push(&mut self, io: Io) -> io::Result<()> {
        let entry = self.entry(&io).user_data(io.slot as u64);
        // SAFETY: the memory is valid until the completion (invariants 1 and 3), and so are files.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::Error::other("the submission queue is full"))?;
        self.in_flight += 1;
        Ok(())
    }

    fn go(&mut self, wait: Wait, ended: &mut Vec<Ended>) -> io::Result<()> {
        self.enter(wait)?;
        self.reap(ended);
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            std::mem::forget(self.memory.take());
        }
    }
}
