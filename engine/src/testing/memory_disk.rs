//! A disk in memory: it refuses misaligned I/O as real ones do and can be made to fail, to hang, to
//! rot and to lose power.

use super::{Image, Numbers, lock};
use crate::{
    completion::{Completer, Completion, Done, completion},
    world::{
        Disk, Identity, Io, Sectors, SpaceFrom,
        discard_limits::{DiscardLimits, DiscardMeans, NoDiscards},
    },
};
use plinth_format::BLOCK_SIZE;
use std::{
    fmt, io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    thread,
    time::Duration,
};

/// The faults of a [`MemoryDisk`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    pub fail_reads: bool,
    pub fail_writes: bool,
    pub fail_flushes: bool,
    pub fail_discards: bool,
    /// Discards are accepted and do not end until [`MemoryDisk::heal`].
    pub hang_discards: bool,
    /// I/O is accepted and does not end until [`MemoryDisk::heal`].
    pub hang: bool,
    /// Byte ranges in which writes are accepted and do not end until [`MemoryDisk::heal`].
    pub hang_writes: Vec<std::ops::Range<u64>>,
    /// Byte ranges in which reads and writes are accepted and do not end until
    /// [`MemoryDisk::answer`] or [`MemoryDisk::heal`].
    pub hang_in: Vec<std::ops::Range<u64>>,
    /// The next flushes that fail, and lose for ever what was written before them.
    pub flushes_lost: u32,
    /// Byte ranges in which reads fail.
    pub bad: Vec<std::ops::Range<u64>>,
    /// Byte ranges in which writes fail.
    pub worn: Vec<std::ops::Range<u64>>,
    /// Byte ranges in which writes find no room, as on a full thin pool.
    pub no_room: Vec<std::ops::Range<u64>>,
    /// The pool that its space comes from.
    pub pool: Option<String>,
    /// Byte ranges in which durable writes succeed and change nothing.
    pub lost_when_durable: Vec<std::ops::Range<u64>>,
    /// As `bad`, until they are written.
    pub latent: Vec<std::ops::Range<u64>>,
    /// Every I/O fails after this many more.
    pub fail_after: Option<u64>,
    /// It cannot be claimed.
    pub read_only: bool,
    /// Extra latency of reads.
    pub slow_reads: Duration,
    /// The error of a claim.
    pub claim: Option<io::ErrorKind>,
    /// Extra latency of writes.
    pub slow_writes: Duration,
}

impl Faults {
    fn has_no_room(&self, offset: u64, length: usize) -> bool {
        let end = offset + length as u64;
        self.no_room.iter().any(|range| range.start < end && offset < range.end)
    }

    fn hangs(&self, io: &Io) -> bool {
        let touches = |offset: u64, length: usize| {
            let end = offset + length as u64;
            move |range: &std::ops::Range<u64>| range.start < end && offset < range.end
        };
        self.hang
            || match io {
                Io::Read { offset, buffer } => {
                    self.hang_in.iter().any(touches(*offset, buffer.len()))
                }
                Io::Write { offset, data, .. } => {
                    self.hang_in.iter().chain(&self.hang_writes).any(touches(*offset, data.len()))
                }
                Io::Flush => false,
                Io::Discard { .. } | Io::WriteZeroes { .. } => self.hang_discards,
            }
    }
}

/// Numbers of I/Os of a [`MemoryDisk`], by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub discards: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub bytes_discarded: u64,
    pub bytes_zeroed: u64,
}

impl Counts {
    /// Counts an I/O.
    pub fn add(&mut self, io: &Io) {
        match io {
            Io::Read { buffer, .. } => {
                self.reads += 1;
                self.bytes_read += buffer.len() as u64;
            }
            Io::Write { data, .. } => {
                self.writes += 1;
                self.bytes_written += data.len() as u64;
            }
            Io::Flush => self.flushes += 1,
            Io::Discard { length, .. } => {
                self.discards += 1;
                self.bytes_discarded += length;
            }
            Io::WriteZeroes { length, .. } => self.bytes_zeroed += length,
        }
    }
}

/// Kills the users of some disks after a number of changes to them: the kill falls between two
/// I/Os.
#[derive(Debug, Clone)]
pub struct Fuse(Arc<AtomicI64>);

impl Fuse {
    /// Fires after `changes` writes and flushes. Discards, and zeros instead of them, are not
    /// counted, since their time is not fixed.
    #[must_use]
    pub fn new(changes: u64) -> Self {
        Self(Arc::new(AtomicI64::new(i64::try_from(changes).expect("tests change little"))))
    }

    #[must_use]
    pub fn is_blown(&self) -> bool {
        self.0.load(Ordering::SeqCst) < 0
    }

    fn stops(&self, io: &Io) -> bool {
        match io {
            Io::Read { .. } | Io::Discard { .. } | Io::WriteZeroes { .. } => self.is_blown(),
            _ => self.is_blown() || self.0.fetch_sub(1, Ordering::SeqCst) <= 0,
        }
    }
}

struct Medium {
    image: Image,
    fuse: Option<Fuse>,
    faults: Faults,
    hung: Vec<(Io, Completer)>,
    counts: Counts,
    claimed: bool,
    /// Grows when the host dies: handles opened before do nothing any more.
    epoch: u64,
}

/// A disk in memory; it can be opened any number of times with [`MemoryDisk::open`].
#[derive(Clone)]
pub struct MemoryDisk {
    path: Arc<str>,
    size: u64,
    sectors: Sectors,
    discards: Result<DiscardLimits, NoDiscards>,
    medium: Arc<Mutex<Medium>>,
}

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryDisk({})", self.path)
    }
}

impl MemoryDisk {
    /// A disk full of zeros.
    #[must_use]
    pub fn new(path: &str, size: u64, logical: u32, physical: u32) -> Self {
        Self::with_image(path, size, logical, physical, Image::zeroed())
    }

    /// A disk full of noise.
    #[must_use]
    pub fn noisy(path: &str, size: u64, logical: u32, physical: u32, seed: u64) -> Self {
        Self::with_image(path, size, logical, physical, Image::noisy(seed))
    }

    #[must_use]
    pub fn with_image(path: &str, size: u64, logical: u32, physical: u32, image: Image) -> Self {
        let (faults, hung, counts) = (Faults::default(), Vec::new(), Counts::default());
        let medium = Medium { image, fuse: None, faults, hung, counts, claimed: false, epoch: 0 };
        let sectors = Sectors { logical, physical };
        Self {
            path: path.into(),
            size,
            sectors,
            discards: Ok(DiscardLimits {
                means: DiscardMeans::Unmap,
                granularity: BLOCK_SIZE as u64,
                alignment: 0,
                maximum: u64::MAX,
            }),
            medium: Arc::new(Mutex::new(medium)),
        }
    }

    /// The same disk, which honours other discards, or none.
    #[must_use]
    pub fn with_discards(self, discards: Result<DiscardLimits, NoDiscards>) -> Self {
        Self { discards, ..self }
    }

    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Another disk with the same bytes, which is not in use.
    #[must_use]
    pub fn twin(&self) -> Self {
        let image = lock(&self.medium).image.clone();
        Self::with_image(&self.path, self.size, self.sectors.logical, self.sectors.physical, image)
    }

    /// As [`Self::twin`], at another path.
    #[must_use]
    pub fn twin_at(&self, path: &str) -> Self {
        let image = lock(&self.medium).image.clone();
        Self::with_image(path, self.size, self.sectors.logical, self.sectors.physical, image)
    }

    /// A disk of another size with the same bytes.
    #[must_use]
    pub fn of_size(&self, size: u64) -> Self {
        Self { size, ..self.twin() }
    }

    /// From now on `fuse` decides when its users die; their later I/O is never answered.
    pub fn put_fuse(&self, fuse: &Fuse) {
        lock(&self.medium).fuse = Some(fuse.clone());
    }

    /// Frees its memory, when it is not used any more.
    pub fn scrap(&self) {
        lock(&self.medium).image = Image::zeroed();
    }

    /// Cuts the power of a disk without atomic sectors.
    pub fn tear_and_cut_power(&self, seed: u64) {
        let mut medium = lock(&self.medium);
        let sector = self.sectors.physical as usize;
        medium.image.tear_and_cut_power(&mut Numbers::new(seed), sector);
    }

    /// Opens the disk afresh.
    #[must_use]
    pub fn open(&self) -> Arc<dyn Disk> {
        let epoch = lock(&self.medium).epoch;
        Arc::new(OpenDisk { disk: self.clone(), epoch, claimed: AtomicBool::new(false) })
    }

    /// Changes the faults of the disk.
    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut lock(&self.medium).faults);
    }

    /// Ends every fault; hung I/O ends now.
    pub fn heal(&self) {
        let hung = {
            let mut medium = lock(&self.medium);
            medium.faults = Faults::default();
            std::mem::take(&mut medium.hung)
        };
        for (io, completer) in hung {
            completer.finish(self.perform(io));
        }
    }

    /// Ends all hangs; hung I/O ends now. Other faults stay.
    pub fn answer(&self) {
        let hung = {
            let mut medium = lock(&self.medium);
            (medium.faults.hang, medium.faults.hang_in) = (false, Vec::new());
            std::mem::take(&mut medium.hung)
        };
        for (io, completer) in hung {
            completer.finish(self.perform(io));
        }
    }

    /// Number of I/Os that hang.
    #[must_use]
    pub fn hung(&self) -> usize {
        lock(&self.medium).hung.len()
    }

    /// Drops the blocks that failed flushes have lost, so that reads show it.
    pub fn forget_given_up(&self) {
        lock(&self.medium).image.forget_given_up();
    }

    /// Ends hung I/O with errors. Other faults stay.
    pub fn fail_hung(&self) {
        let hung = std::mem::take(&mut lock(&self.medium).hung);
        for (io, completer) in hung {
            completer.finish(failed(io, io::Error::from_raw_os_error(libc::EIO)));
        }
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        lock(&self.medium).counts
    }

    /// Reads without faults.
    #[must_use]
    pub fn peek(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        lock(&self.medium).image.read(offset, &mut bytes);
        bytes
    }

    /// Overwrites bytes on the medium, not through any handle.
    pub fn corrupt(&self, offset: u64, bytes: &[u8]) {
        lock(&self.medium).image.corrupt(offset, bytes);
    }

    /// Cuts the power of the host: unflushed sectors survive or vanish by seed, hung I/O is gone,
    /// and handles opened before do nothing any more.
    pub fn cut_power(&self, seed: u64) {
        let hung = {
            let mut medium = lock(&self.medium);
            medium.image.cut_power(&mut Numbers::new(seed), self.sectors.physical as usize);
            medium.epoch += 1;
            medium.claimed = false;
            std::mem::take(&mut medium.hung)
        };
        for (io, completer) in hung {
            completer.finish(failed(io, io::Error::other("the power was cut")));
        }
    }

    /// Kills the process that used the disk: its writes stay, its handles do nothing any more.
    pub fn kill_users(&self) {
        let mut medium = lock(&self.medium);
        medium.epoch += 1;
        medium.claimed = false;
    }

    /// # Panics
    /// If the disk does not honour all of a discard.
    fn check_discard(&self, offset: u64, length: u64) {
        let limits = self.discards.expect("a disk that discards");
        let range = offset..offset + length;
        assert!(
            limits.inwards(range.clone()) == range && length <= limits.maximum,
            "{}: a discard of {range:?}, and {limits:?}",
            self.path
        );
    }

    fn perform(&self, io: Io) -> Done {
        let mut guard = lock(&self.medium);
        let medium = &mut *guard;
        if let Some(left) = &mut medium.faults.fail_after {
            if *left == 0 {
                return failed(io, io::Error::from_raw_os_error(libc::EIO));
            }
            *left -= 1;
        }
        let refused = match &io {
            Io::Read { offset, buffer } => {
                let range = *offset..*offset + buffer.len() as u64;
                let mut ranges = medium.faults.bad.iter().chain(&medium.faults.latent);
                let bad = ranges.any(|bad| bad.start < range.end && range.start < bad.end);
                medium.faults.fail_reads || bad
            }
            Io::Write { durably: true, .. } | Io::Flush if medium.faults.flushes_lost > 0 => {
                medium.faults.flushes_lost -= 1;
                medium.image.give_up_cache();
                true
            }
            Io::Write { offset, data, durably } => {
                let end = *offset + data.len() as u64;
                let worn =
                    medium.faults.worn.iter().any(|worn| worn.start < end && *offset < worn.end);
                medium.faults.fail_writes || worn || *durably && medium.faults.fail_flushes
            }
            Io::Flush => medium.faults.fail_flushes,
            Io::Discard { .. } | Io::WriteZeroes { .. } => medium.faults.fail_discards,
        };
        if let Io::Write { offset, data, .. } = &io
            && medium.faults.has_no_room(*offset, data.len())
        {
            return failed(io, io::Error::from_raw_os_error(libc::ENOSPC));
        }
        if refused {
            return failed(io, io::Error::from_raw_os_error(libc::EIO));
        }
        medium.counts.add(&io);
        match io {
            Io::Read { offset, mut buffer } => {
                medium.image.read(offset, &mut buffer);
                return Done { result: Ok(()), buffer: Some(buffer) };
            }
            Io::Write { offset, data, durably } => {
                let end = offset + data.len() as u64;
                let mut lost = medium.faults.lost_when_durable.iter();
                if durably && lost.any(|lost| lost.start < end && offset < lost.end) {
                    return Done { result: Ok(()), buffer: None };
                }
                medium.image.write(offset, &data);
                if durably {
                    medium.image.keep(offset, data.len());
                }
                medium.faults.latent.retain(|bad| bad.start < offset || end < bad.end);
            }
            Io::Flush => {
                medium.image.flush();
            }
            Io::Discard { offset, length } => {
                self.check_discard(offset, length);
                // The content of discarded blocks is undefined: noise is the hardest case.
                let mut noise = Numbers::new(offset);
                medium.image.discard(offset, length, |bytes| noise.fill(bytes));
            }
            Io::WriteZeroes { offset, length } => medium.image.write_zeroes(offset, length),
        }
        Done { result: Ok(()), buffer: None }
    }
}

/// Whether a disk of this size accepts an I/O: whole sectors, inside the disk.
#[must_use]
pub fn fits(io: &Io, size: u64, sectors: Sectors) -> bool {
    let sector = u64::from(sectors.logical);
    let (offset, length) = match io {
        Io::Read { offset, buffer } => (*offset, buffer.len() as u64),
        Io::Write { offset, data, .. } => (*offset, data.len() as u64),
        Io::Flush => (0, 0),
        Io::Discard { offset, length } | Io::WriteZeroes { offset, length } => (*offset, *length),
    };
    offset % sector == 0
        && length % sector == 0
        && offset.checked_add(length).is_some_and(|end| end <= size)
}

/// The end of a failed I/O; a read gets its buffer back.
#[must_use]
pub fn failed(io: Io, error: io::Error) -> Done {
    let buffer = if let Io::Read { buffer, .. } = io { Some(buffer) } else { None };
    Done { result: Err(error), buffer }
}

struct OpenDisk {
    disk: MemoryDisk,
    epoch: u64,
    claimed: AtomicBool,
}

impl fmt::Debug for OpenDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl Disk for OpenDisk {
    fn path(&self) -> &str {
        &self.disk.path
    }

    fn size(&self) -> u64 {
        self.disk.size
    }

    fn sectors(&self) -> Sectors {
        self.disk.sectors
    }

    fn identity(&self) -> Identity {
        Identity(self.disk.path.to_string())
    }

    fn discards(&self) -> Result<DiscardLimits, NoDiscards> {
        self.disk.discards
    }

    fn space_from(&self) -> SpaceFrom {
        let words = format!("the storage below {}", self.disk.path);
        SpaceFrom { words, pool: lock(&self.disk.medium).faults.pool.clone() }
    }

    fn submit(&self, io: Io) -> Completion {
        if !fits(&io, self.disk.size, self.disk.sectors) {
            return Completion::ready(failed(io, io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let mut medium = lock(&self.disk.medium);
        if medium.epoch != self.epoch {
            return Completion::ready(failed(
                io,
                io::Error::other("the handle is from before the end"),
            ));
        }
        if medium.faults.hangs(&io) || medium.fuse.as_ref().is_some_and(|fuse| fuse.stops(&io)) {
            let (completion, completer) = completion();
            medium.hung.push((io, completer));
            return completion;
        }
        let slow = match io {
            Io::Read { .. } => medium.faults.slow_reads,
            Io::Write { .. } => medium.faults.slow_writes,
            _ => Duration::ZERO,
        };
        drop(medium);
        if !slow.is_zero() {
            thread::sleep(slow);
        }
        Completion::ready(self.disk.perform(io))
    }

    fn claim(&self) -> io::Result<()> {
        let mut medium = lock(&self.disk.medium);
        if let Some(kind) = medium.faults.claim {
            return Err(kind.into());
        }
        if medium.claimed && !self.claimed.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if medium.faults.read_only {
            return Err(io::Error::new(
                io::ErrorKind::ReadOnlyFilesystem,
                format!("{} is read-only", self.path()),
            ));
        }
        medium.claimed = true;
        self.claimed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn in_use_by(&self) -> Option<String> {
        None
    }

    fn user(&self) -> Option<String> {
        None
    }
}

impl Drop for OpenDisk {
    fn drop(&mut self) {
        let mut medium = lock(&self.disk.medium);
        if self.claimed.load(Ordering::Relaxed) && medium.epoch == self.epoch {
            medium.claimed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        sync::buffer::Buffer,
        testing::{TestWorld, block_on},
        world::World,
    };

    fn io(disk: &dyn Disk, io: Io) -> Done {
        block_on(disk.submit(io))
    }

    #[test]
    fn a_disk_refuses_what_a_real_one_would() {
        let disk = MemoryDisk::new("d", 1 << 20, 4096, 4096);
        let open = disk.open();
        assert!(io(&*open, Io::Read { offset: 512, buffer: Buffer::zeroed(4096) }).result.is_err());
        assert!(
            io(&*open, Io::Read { offset: 1 << 20, buffer: Buffer::zeroed(4096) }).result.is_err()
        );
        assert!(io(&*open, Io::Read { offset: 4096, buffer: Buffer::zeroed(4096) }).result.is_ok());
    }

    #[test]
    fn a_claim_keeps_others_out_until_it_is_dropped() {
        let disk = MemoryDisk::new("d", 1 << 20, 512, 4096);
        let (one, other) = (disk.open(), disk.open());
        one.claim().expect("free");
        one.claim().expect("still ours");
        assert!(other.claim().is_err());
        drop(one);
        other.claim().expect("free again");
    }

    #[test]
    fn flushed_bytes_survive_a_power_cut() {
        let disk = MemoryDisk::noisy("d", 1 << 20, 512, 512, 1);
        let open = disk.open();
        let write = |byte: u8| Io::Write {
            offset: 4096,
            data: Buffer::copy_of(&[byte; 4096]).share(),
            durably: false,
        };
        assert!(io(&*open, write(1)).result.is_ok());
        assert!(io(&*open, Io::Flush).result.is_ok());
        assert!(io(&*open, write(2)).result.is_ok());
        disk.cut_power(3);
        assert!(disk.peek(4096, 4096).iter().all(|byte| *byte == 1 || *byte == 2));
        assert!(io(&*open, Io::Flush).result.is_err(), "the handle is from before the cut");
        assert!(io(&*disk.open(), Io::Flush).result.is_ok());
    }

    #[test]
    fn hung_io_ends_when_the_disk_is_healed() {
        let world = TestWorld::new();
        let disk = MemoryDisk::new("d", 1 << 20, 512, 512);
        disk.faults(|faults| faults.hang = true);
        let open = disk.open();
        let mut flush = open.submit(Io::Flush);
        let expiry = flush.expiry();
        expiry.expire();
        assert!(block_on(flush.or_overdue()).is_none());
        disk.heal();
        assert!(block_on(flush).result.is_ok());
        block_on(world.sleep(Duration::from_millis(1)));
    }
}
