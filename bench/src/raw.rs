#![allow(unsafe_code)]
//! Block devices as the kernel gives them: one io_uring with registered files and buffers, `O_DIRECT`.
//!
//! Unsafe: buffers belong to the kernel while an I/O is under way; they live as long as the ring, and none is touched before its I/O has ended.

use super::load::{Case, Kind, Meter, Outcome, Use};
use io_uring::{IoUring, opcode, types::Fixed};
use std::{
    fs::{File, OpenOptions},
    io,
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
    /// Opens them, fills the part that is used, so that a sparse file below has it all, and reads it back.
    pub fn open(paths: &[String], size: u64) -> io::Result<Self> {
        let mut files = Vec::new();
        for path in paths {
            let told = |error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_DIRECT | libc::O_EXCL);
            files.push(options.open(path).map_err(told)?);
        }
        let devices = Self { files, size };
        devices.run_for(
            &Case { kind: Kind::Write, block: 1 << 20, depth: 4 },
            None,
            0,
            Use::Nothing,
        )?;
        let mut page = Box::new(Page([0; 4096]));
        for (file, path) in devices.files.iter().zip(paths) {
            for offset in (0..size).step_by(page.0.len()) {
                file.read_exact_at(&mut page.0, offset)?;
                if page.0 != [7; 4096] {
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
        case: &Case,
        time: Duration,
        seed: u64,
        of_bytes: Use,
    ) -> io::Result<Outcome> {
        self.run_for(case, Some(time), seed, of_bytes)
    }

    /// For some time, or once through everything.
    fn run_for(
        &self,
        case: &Case,
        time: Option<Duration>,
        seed: u64,
        of_bytes: Use,
    ) -> io::Result<Outcome> {
        // What is not whole sectors is written as whole sectors, as a database would.
        let block = case.block.next_multiple_of(512);
        let case = &Case { block, ..*case };
        let mirrors = if case.kind.reads() { 1 } else { self.files.len() };
        let pages = usize::try_from(block.div_ceil(4096)).unwrap_or(1);
        let mut memory = Memory(vec![Page([7; 4096]); pages * case.depth]);
        let mut ring = IoUring::new(1024)?;
        let descriptors: Vec<i32> = self.files.iter().map(AsRawFd::as_raw_fd).collect();
        ring.submitter().register_files(&descriptors)?;
        let length = u32::try_from(block).map_err(io::Error::other)?;
        let buffers: Vec<libc::iovec> = (0..case.depth)
            .map(|slot| libc::iovec {
                iov_base: memory.0[slot * pages..].as_mut_ptr().cast(),
                iov_len: pages * 4096,
            })
            .collect();
        // SAFETY: the memory outlives the ring, which is dropped first; nobody touches what is under way.
        unsafe { ring.submitter().register_buffers(&buffers)? };
        let meter = Meter::start(time.unwrap_or(Duration::from_secs(1 << 30)));
        let whole = self.size / block;
        let (mut state, mut begun, mut done) = (seed.wrapping_mul(1 << 32), 0_u64, 0_u64);
        let mut left = vec![0_usize; case.depth];
        let mut flushing = vec![false; case.depth];
        let mut idle: Vec<usize> = (0..case.depth).collect();
        let mut in_flight = 0;
        loop {
            let goes_on = if time.is_some() { !meter.is_over() } else { begun < whole };
            while let (true, Some(slot)) =
                (goes_on && (time.is_some() || begun < whole), idle.pop())
            {
                let offset = case.offset(self.size, begun, &mut state);
                // Reads take turns, as those of mirrors do.
                let first = if mirrors == 1 {
                    usize::try_from(begun).unwrap_or(0) % self.files.len()
                } else {
                    0
                };
                begun += 1;
                for device in first..first + mirrors {
                    let index = u16::try_from(slot).map_err(io::Error::other)?;
                    let file = Fixed(u32::try_from(device).map_err(io::Error::other)?);
                    let at = buffers[slot].iov_base.cast::<u8>();
                    let entry = if case.kind.reads() {
                        opcode::ReadFixed::new(file, at, length, index).offset(offset).build()
                    } else {
                        opcode::WriteFixed::new(file, at, length, index).offset(offset).build()
                    };
                    // SAFETY: as above.
                    unsafe {
                        ring.submission()
                            .push(&entry.user_data(slot as u64))
                            .map_err(io::Error::other)?
                    };
                    in_flight += 1;
                }
                left[slot] = mirrors;
            }
            if in_flight == 0 {
                break;
            }
            ring.submit_and_wait(1)?;
            let ended: Vec<(usize, i32)> = ring
                .completion()
                .map(|entry| (usize::try_from(entry.user_data()).unwrap_or(0), entry.result()))
                .collect();
            for (slot, result) in ended {
                in_flight -= 1;
                if result < 0 {
                    return Err(io::Error::from_raw_os_error(-result));
                }
                left[slot] -= 1;
                if left[slot] > 0 {
                    continue;
                }
                if case.kind == Kind::Sync && !flushing[slot] {
                    flushing[slot] = true;
                    for device in 0..mirrors {
                        let file = Fixed(u32::try_from(device).map_err(io::Error::other)?);
                        let flags = io_uring::types::FsyncFlags::DATASYNC;
                        let entry =
                            opcode::Fsync::new(file).flags(flags).build().user_data(slot as u64);
                        // SAFETY: it has no memory.
                        unsafe { ring.submission().push(&entry).map_err(io::Error::other)? };
                        in_flight += 1;
                    }
                    left[slot] = mirrors;
                    continue;
                }
                if case.kind.reads() {
                    memory.0[slot * pages..][..pages]
                        .iter()
                        .for_each(|page| of_bytes.take(&page.0));
                }
                flushing[slot] = false;
                done += 1;
                idle.push(slot);
            }
        }
        drop(ring);
        Ok(meter.stop(done, case.depth))
    }
}
