//! A disk whose reads or discards take as long as the test wants, and which can lose writes: a FUSE
//! file system with one file, `disk`, that shows another file.
//!
//!     plinth-slow MOUNT FILE
//!
//! It prints `ready` when the file is there. Each line of its standard input is a number of
//! microseconds: every read that begins after it takes that much longer. `discards` and a number:
//! every discard takes so long, and all other I/O waits for its end, as on devices that do one
//! after the other. `loses` and an offset: writes to the 4 KiB there are acknowledged and lost. It
//! ends when its standard input does. Nothing else is delayed, and nothing is kept in memory.

use plinth_tests::fuse_disks::{Files, Served};
use rustix::fs::{FallocateFlags, fallocate};
use std::{
    ffi::CStr,
    fs::File,
    io::{self, BufRead, Read},
    os::unix::fs::FileExt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Threads that serve: as many reads may be delayed at once.
const WORKERS: usize = 16;
const DISK: u64 = 2;
/// The place that loses writes.
const LOST: u64 = 4096;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(mount), Some(path)) = (arguments.next(), arguments.next()) else {
        panic!("no mount, no file")
    };
    let file = File::options().read(true).write(true).open(path).expect("the file");
    let size = file.metadata().expect("the file").len();
    let (reads, discards) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let loses = Arc::new(AtomicU64::new(u64::MAX));
    let disk = Disk {
        file,
        size,
        reads: Arc::clone(&reads),
        discards: Arc::clone(&discards),
        loses: Arc::clone(&loses),
        discarding: RwLock::new(()),
    };
    let _served = Served::start("slow", &mount, WORKERS, disk);
    println!("ready");
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let (what, number) = match line.trim().rsplit_once(' ') {
            Some(("discards", number)) => (&discards, number),
            Some(("loses", number)) => (&loses, number),
            _ => (&reads, line.trim()),
        };
        what.store(number.parse().expect("a number"), Ordering::SeqCst);
        println!("{line}");
    }
}

fn pause(delay: &AtomicU64) {
    let delay = delay.load(Ordering::SeqCst);
    if delay > 0 {
        thread::sleep(Duration::from_micros(delay));
    }
}

struct Disk {
    file: File,
    size: u64,
    /// Microseconds.
    reads: Arc<AtomicU64>,
    discards: Arc<AtomicU64>,
    /// Offset of the place that loses writes; beyond the end: none does.
    loses: Arc<AtomicU64>,
    /// Held by a discard alone, and by all other I/O together.
    discarding: RwLock<()>,
}

impl Files for Disk {
    fn find(&self, name: &CStr) -> Option<u64> {
        (name == c"disk").then_some(DISK)
    }

    fn size(&self, _: u64) -> u64 {
        self.size
    }

    fn read(&self, _: u64, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        pause(&self.reads);
        let _turn = self.discarding.read().unwrap_or_else(PoisonError::into_inner);
        let left = usize::try_from(self.size.saturating_sub(offset)).expect("a test's disk");
        let mut bytes = vec![0; length.min(left)];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    fn write(&self, _: u64, offset: u64, length: usize, bytes: &mut dyn Read) -> io::Result<()> {
        let mut written = vec![0; length];
        bytes.read_exact(&mut written)?;
        let _turn = self.discarding.read().unwrap_or_else(PoisonError::into_inner);
        let lost = self.loses.load(Ordering::SeqCst);
        // Before and after the place.
        let at = |place: u64| {
            let inside = usize::try_from(place.saturating_sub(offset)).unwrap_or(usize::MAX);
            inside.min(length)
        };
        let (before, after) = (at(lost), at(lost.saturating_add(LOST)));
        self.file.write_all_at(&written[..before], offset)?;
        self.file.write_all_at(&written[after..], offset + after as u64)
    }

    fn sync(&self, _: u64) -> io::Result<()> {
        let _turn = self.discarding.read().unwrap_or_else(PoisonError::into_inner);
        self.file.sync_data()
    }

    fn discard(&self, _: u64, offset: u64, length: u64) -> io::Result<()> {
        let _turn = self.discarding.write().unwrap_or_else(PoisonError::into_inner);
        pause(&self.discards);
        Ok(fallocate(
            &self.file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            offset,
            length,
        )?)
    }
}
