#![allow(unsafe_code)]
//! Block devices as the kernel gives them: one io_uring with registered files and buffers,
//! `O_DIRECT`.
//!
//! Unsafe: buffers belong to the kernel while an I/O is in flight; they live as long as the ring,
//! and none is touched before its I/O has ended.

use super::load::{Meter, Outcome, Use};
use io_uring::{IoUring, opcode, squeue, types::Fixed};
use plinth_workload::{
    class::{Class, Generator, Sizes, Sync},
    pattern::FILL,
};
use std::{
    fs::{File, OpenOptions},
    io,
    ops::Range,
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
    time::Duration,
};

pub struct Devices {
    files: Vec<File>,
    size: u64,
}

/// Aligned memory for the I/Os of a round.
struct Memory(Vec<Page>);

#[derive(Clone)]
#[repr(align(4096))]
struct Page([u8; 4096]);

impl Devices {
    /// Opens them, fills the part that is used, so that a sparse file below has it all, and reads
    /// it back.
    pub fn open(paths: &[String], size: u64) -> io::Result<Self> {
        let mut files = Vec::new();
        for path in paths {
            let told = |error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_DIRECT | libc::O_EXCL);
            files.push(options.open(path).map_err(told)?);
        }
        let devices = Self { files, size };
        let whole = Class::parse("write:1048576:4").map_err(io::Error::other)?;
        devices.run_for(&whole, None, 0, Use::Nothing)?;
        let mut page = Box::new(Page([0; 4096]));
        for (file, path) in devices.files.iter().zip(paths) {
            for offset in (0..size).step_by(page.0.len()) {
                file.read_exact_at(&mut page.0, offset)?;
                if page.0 != [FILL; 4096] {
                    return Err(io::Error::other(format!(
                        "{path} does not hold at {offset} what was written there"
                    )));
                }
            }
        }
        Ok(devices)
    }

    pub fn run(
        &self,
        case: &Class,
        time: Duration,
        seed: u64,
        of_bytes: Use,
    ) -> io::Result<Outcome> {
        self.run_for(case, Some(time), seed, of_bytes)
    }

    /// For some time, or once through everything.
    fn run_for(
        &self,
        case: &Class,
        time: Option<Duration>,
        seed: u64,
        of_bytes: Use,
    ) -> io::Result<Outcome> {
        // A log record is written as whole sectors, as a database would.
        let block = case.sizes.largest().next_multiple_of(512);
        let case = &Class { sizes: Sizes::Fixed(block), ..*case };
        let mut round = Round::new(self, case, seed.wrapping_mul(1 << 32))?;
        let meter = Meter::start(time.unwrap_or(Duration::from_secs(1 << 30)));
        let whole = self.size / block;
        loop {
            let goes_on = time.is_none() || !meter.is_over();
            while goes_on
                && (time.is_some() || round.begun < whole)
                && let Some(slot) = round.idle.pop()
            {
                round.begin(slot)?;
            }
            if round.in_flight == 0 {
                break;
            }
            round.ring.submit_and_wait(1)?;
            let ended: Vec<(u64, i32)> =
                round.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
            for (slot, result) in ended {
                round.end(usize::try_from(slot).unwrap_or(0), result, of_bytes)?;
            }
        }
        let done = round.done;
        drop(round);
        Ok(meter.stop(done, case.depth))
    }
}

/// One I/O of a case at a time.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Its operations on devices that have not ended.
    left: usize,
    /// Its write has ended, and the flush after it is in flight.
    is_flushing: bool,
}

/// The I/Os of a case: `depth` slots, each with a buffer, that are begun again when they end.
struct Round<'a> {
    devices: &'a Devices,
    case: &'a Class,
    ios: Generator,
    /// Dropped before the memory, which belongs to the kernel until then.
    ring: IoUring,
    buffers: Vec<libc::iovec>,
    memory: Memory,
    /// Pages of a buffer.
    pages: usize,
    slots: Vec<Slot>,
    idle: Vec<usize>,
    in_flight: usize,
    begun: u64,
    done: u64,
}

impl<'a> Round<'a> {
    fn new(devices: &'a Devices, case: &'a Class, seed: u64) -> io::Result<Self> {
        let pages = usize::try_from(case.sizes.largest().div_ceil(4096)).unwrap_or(1);
        let mut memory = Memory(vec![Page([FILL; 4096]); pages * case.depth]);
        let ring = IoUring::new(1024)?;
        let descriptors: Vec<i32> = devices.files.iter().map(AsRawFd::as_raw_fd).collect();
        ring.submitter().register_files(&descriptors)?;
        let buffers: Vec<libc::iovec> = (0..case.depth)
            .map(|slot| libc::iovec {
                iov_base: memory.0[slot * pages..].as_mut_ptr().cast(),
                iov_len: pages * 4096,
            })
            .collect();
        // SAFETY: the memory outlives the ring, which is dropped first; no buffer is touched while
        // its I/O is in flight.
        unsafe { ring.submitter().register_buffers(&buffers)? };
        Ok(Self {
            devices,
            case,
            ios: Generator::new(*case, devices.size, seed),
            ring,
            buffers,
            memory,
            pages,
            slots: vec![Slot::default(); case.depth],
            idle: (0..case.depth).collect(),
            in_flight: 0,
            begun: 0,
            done: 0,
        })
    }

    /// The devices of one I/O: a read is of one, in turns, as reads of mirrors are; a write is of
    /// all.
    fn devices(&self) -> Range<usize> {
        let count = self.devices.files.len();
        if self.case.reads() {
            let first = usize::try_from(self.begun).unwrap_or(0) % count;
            first..first + 1
        } else {
            0..count
        }
    }

    fn push(&mut self, slot: usize, entry: squeue::Entry) -> io::Result<()> {
        let entry = entry.user_data(slot as u64);
        // SAFETY: the memory of the I/O, if it has any, is a registered buffer.
        unsafe { self.ring.submission().push(&entry).map_err(io::Error::other)? };
        self.in_flight += 1;
        Ok(())
    }

    fn begin(&mut self, slot: usize) -> io::Result<()> {
        let Some(io) = self.ios.next() else { return Ok(()) };
        let devices = self.devices();
        self.begun += 1;
        self.slots[slot].left = devices.len();
        let length = u32::try_from(io.length).map_err(io::Error::other)?;
        let index = u16::try_from(slot).map_err(io::Error::other)?;
        let at = self.buffers[slot].iov_base.cast::<u8>();
        for device in devices {
            let file = Fixed(u32::try_from(device).map_err(io::Error::other)?);
            let entry = if self.case.reads() {
                opcode::ReadFixed::new(file, at, length, index).offset(io.offset).build()
            } else {
                opcode::WriteFixed::new(file, at, length, index).offset(io.offset).build()
            };
            self.push(slot, entry)?;
        }
        Ok(())
    }

    /// An operation on a device has ended: the last write of a case of syncs is followed by a
    /// flush of all devices.
    fn end(&mut self, slot: usize, result: i32, of_bytes: Use) -> io::Result<()> {
        self.in_flight -= 1;
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        self.slots[slot].left -= 1;
        if self.slots[slot].left > 0 {
            return Ok(());
        }
        if self.case.sync == Sync::Each && !self.slots[slot].is_flushing {
            let count = self.devices.files.len();
            self.slots[slot] = Slot { left: count, is_flushing: true };
            for device in 0..count {
                let file = Fixed(u32::try_from(device).map_err(io::Error::other)?);
                let flags = io_uring::types::FsyncFlags::DATASYNC;
                self.push(slot, opcode::Fsync::new(file).flags(flags).build())?;
            }
            return Ok(());
        }
        if self.case.reads() {
            let pages = &self.memory.0[slot * self.pages..][..self.pages];
            pages.iter().for_each(|page| of_bytes.take(&page.0));
        }
        self.slots[slot].is_flushing = false;
        self.done += 1;
        self.idle.push(slot);
        Ok(())
    }
}
