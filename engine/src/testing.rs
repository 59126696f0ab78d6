//! Doubles of the world for tests: threads, a clock, and disks in memory.
//!
//! A [`TestWorld`] runs tasks on threads of their own and waits by parking. Its disks are
//! [`MemoryDisk`]s, which refuse misaligned I/O as real ones do and can be made to fail, to hang,
//! to rot and to lose power. Nothing here is in the shipped binary.
//!
//! An [`Image`] is the content of one device with a volatile cache: writes since the last flush may
//! survive, vanish or tear when power is cut, sector by sector, as a seed decides. Blocks that were
//! never written read as zeros or as noise.

// A `Condvar` needs the standard library's mutex, and the disks of a test are not part of the
// engine.
#![allow(clippy::disallowed_types)]

use crate::{
    admin::{NewDisk, NewGroup},
    completion::{Completer, Completion, Done, completion},
    event::Event,
    world::{
        BackgroundStage, Disk, Found, Identity, Io, Sectors, SurvivingWords, Task, Timestamp, World,
    },
};
use plinth_format::Redundancy;
use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The unit of an [`Image`], in bytes.
const BLOCK: usize = 4096;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A small random number generator: the same seed gives the same numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Numbers(u64);

/// The increment for each number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Numbers {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        let (words, rest) = bytes.as_chunks_mut::<8>();
        words.iter_mut().for_each(|word| *word = self.draw().to_le_bytes());
        if !rest.is_empty() {
            rest.copy_from_slice(&self.draw().to_le_bytes()[..rest.len()]);
        }
    }

    /// Fills `bytes` with the numbers that [`Self::fill`] would have put behind the first `start`
    /// bytes.
    fn fill_from(&mut self, start: usize, bytes: &mut [u8]) {
        let (words, inside) = (start as u64 / 8, start % 8);
        self.0 = self.0.wrapping_add(words.wrapping_mul(STEP));
        let (first, rest) = bytes.split_at_mut(((8 - inside) % 8).min(bytes.len()));
        if !first.is_empty() {
            first.copy_from_slice(&self.draw().to_le_bytes()[inside..inside + first.len()]);
        }
        self.fill(rest);
    }
}

/// A block of an image. Cloned images share the blocks that neither has changed.
type Block = Arc<[u8]>;

/// The content of one device, with a volatile cache. See the module's description.
#[derive(Debug, Clone, Default)]
pub struct Image {
    durable: BTreeMap<u64, Block>,
    /// Blocks that differ, or may differ, from `durable`.
    cached: BTreeMap<u64, Block>,
    /// Blocks that a failed flush has lost although reads still return them, as a page cache does.
    ghosts: BTreeMap<u64, Block>,
    noise: Option<u64>,
}

impl Image {
    /// A device full of zeros.
    #[must_use]
    pub fn zeroed() -> Self {
        Self::default()
    }

    /// A device with random content, as a former owner left it.
    #[must_use]
    pub fn noisy(seed: u64) -> Self {
        Self { noise: Some(seed), ..Self::default() }
    }

    /// Fills `into` with the content of a block that was never written, from byte `start` on.
    fn read_untouched(&self, block: u64, start: usize, into: &mut [u8]) {
        match self.noise {
            Some(seed) => {
                Numbers::new(seed ^ block.wrapping_mul(0x2545_f491_4f6c_dd1d))
                    .fill_from(start, into);
            }
            None => into.fill(0),
        }
    }

    fn durable_block(&self, block: u64) -> Block {
        self.durable.get(&block).cloned().unwrap_or_else(|| {
            let mut bytes = [0; BLOCK];
            self.read_untouched(block, 0, &mut bytes);
            Arc::new(bytes)
        })
    }

    fn block(&self, block: u64) -> Block {
        let volatile = self.cached.get(&block).or_else(|| self.ghosts.get(&block));
        volatile.cloned().unwrap_or_else(|| self.durable_block(block))
    }

    /// Fills `into` from `offset`.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for_blocks(offset, into.len(), |block, inside, part| {
            let maps = [&self.cached, &self.ghosts, &self.durable];
            match maps.iter().find_map(|map| map.get(&block)) {
                Some(bytes) => into[part].copy_from_slice(&bytes[inside]),
                None => self.read_untouched(block, inside.start, &mut into[part]),
            }
        });
    }

    /// Writes into the cache.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for_blocks(offset, bytes.len(), |block, inside, part| {
            if inside.len() == BLOCK {
                self.cached.insert(block, Arc::from(&bytes[part]));
                return;
            }
            let old = self.block(block);
            let cached = self.cached.entry(block).or_insert(old);
            Arc::make_mut(cached)[inside].copy_from_slice(&bytes[part]);
        });
    }

    /// Changes bytes in the cache and on the medium: rot, or another program's `dd`.
    pub fn corrupt(&mut self, offset: u64, bytes: &[u8]) {
        for_blocks(offset, bytes.len(), |block, inside, part| {
            for volatile in [&mut self.cached, &mut self.ghosts] {
                if let Some(block) = volatile.get_mut(&block) {
                    Arc::make_mut(block)[inside.clone()].copy_from_slice(&bytes[part.clone()]);
                }
            }
            let mut durable = self.durable_block(block);
            Arc::make_mut(&mut durable)[inside].copy_from_slice(&bytes[part]);
            self.durable.insert(block, durable);
        });
    }

    /// Discards a range; `left` is the content of its blocks afterwards. Blocks that were never
    /// written stay so.
    pub fn discard(&mut self, offset: u64, length: u64, mut left: impl FnMut(&mut [u8])) {
        let blocks = offset.div_ceil(BLOCK as u64)..(offset + length) / BLOCK as u64;
        let maps = [&self.durable, &self.cached, &self.ghosts];
        let held: std::collections::BTreeSet<u64> = maps
            .iter()
            .flat_map(|map| map.range(blocks.clone()).map(|(block, _)| *block))
            .collect();
        for block in held {
            let mut bytes = [0; BLOCK];
            left(&mut bytes);
            self.cached.insert(block, Arc::new(bytes));
        }
    }

    /// The numbers of the blocks that read differently than in an earlier image of the device.
    #[must_use]
    pub fn changed_since(&self, earlier: &Self) -> Vec<u64> {
        let mut touched = self.written();
        touched.retain(|block| self.block(*block) != earlier.block(*block));
        touched
    }

    /// The numbers of the blocks that were written and not discarded.
    #[must_use]
    pub fn written(&self) -> Vec<u64> {
        let all = self.durable.keys().chain(self.cached.keys()).chain(self.ghosts.keys());
        let all: std::collections::BTreeSet<u64> = all.copied().collect();
        all.into_iter().collect()
    }

    /// Makes all writes durable.
    pub fn flush(&mut self) {
        self.ghosts.retain(|block, _| !self.cached.contains_key(block));
        // One by one: `append` would build the whole map anew.
        self.durable.extend(std::mem::take(&mut self.cached));
    }

    /// Makes the blocks of a range durable, and no others.
    pub fn keep(&mut self, offset: u64, length: usize) {
        for_blocks(offset, length, |block, _, _| {
            if let Some(bytes) = self.cached.remove(&block) {
                self.ghosts.remove(&block);
                self.durable.insert(block, bytes);
            }
        });
    }

    /// A flush fails for good: nothing in the cache will ever be durable, and reads do not show it
    /// yet.
    pub fn give_up_cache(&mut self) {
        self.ghosts.extend(std::mem::take(&mut self.cached));
    }

    /// Drops the blocks that failed flushes have lost, so that reads show it.
    pub fn forget_given_up(&mut self) {
        self.ghosts.clear();
    }

    /// Cuts the power: each unflushed sector survives or vanishes.
    pub fn cut_power(&mut self, numbers: &mut Numbers, sector: usize) {
        self.cut(numbers, sector, |_| false);
    }

    /// Cuts the power of a device without atomic sectors: each unflushed one survives, vanishes or
    /// becomes noise.
    pub fn tear_and_cut_power(&mut self, numbers: &mut Numbers, sector: usize) {
        self.cut(numbers, sector, |_| true);
    }

    /// As [`Self::tear_and_cut_power`], but only the blocks (4 KiB) that `is_torn` selects become
    /// noise.
    pub fn cut(&mut self, numbers: &mut Numbers, sector: usize, is_torn: impl Fn(u64) -> bool) {
        self.ghosts.clear();
        // Sometimes all or nothing, which a coin per sector would never produce.
        let keep = numbers.below(4);
        let tear = 2 + 4 * numbers.below(2);
        for (block, new) in std::mem::take(&mut self.cached) {
            let torn = is_torn(block);
            let mut durable = self.durable_block(block);
            let kept = Arc::make_mut(&mut durable);
            for at in (0..BLOCK).step_by(sector) {
                let range = at..at + sector;
                if torn && kept[range.clone()] != new[range.clone()] && numbers.below(tear) == 0 {
                    numbers.fill(&mut kept[range]);
                } else if keep == 0 || (keep != 1 && numbers.below(2) == 0) {
                    kept[range.clone()].copy_from_slice(&new[range]);
                }
            }
            self.durable.insert(block, durable);
        }
    }
}

fn for_blocks(
    offset: u64,
    length: usize,
    mut each: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>),
) {
    let mut done = 0;
    while done < length {
        let at = offset + done as u64;
        let start = usize::try_from(at % BLOCK as u64).expect("below 4096");
        let count = (BLOCK - start).min(length - done);
        each(at / BLOCK as u64, start..start + count, done..done + count);
        done += count;
    }
}

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
                Io::Discard { .. } => self.hang_discards,
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
        }
    }
}

/// Kills the users of some disks after a number of changes to them: the kill falls between two
/// I/Os.
#[derive(Debug, Clone)]
pub struct Fuse(Arc<AtomicI64>);

impl Fuse {
    /// Fires after `changes` writes and flushes. Discards are not counted, since their time is not
    /// fixed.
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
            Io::Read { .. } | Io::Discard { .. } => self.is_blown(),
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
    can_discard: bool,
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
            can_discard: true,
            medium: Arc::new(Mutex::new(medium)),
        }
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
            Io::Discard { .. } => medium.faults.fail_discards,
        };
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
                // The content of discarded blocks is undefined: noise is the hardest case.
                let mut noise = Numbers::new(offset);
                medium.image.discard(offset, length, |bytes| noise.fill(bytes));
            }
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
        Io::Discard { offset, length } => (*offset, *length),
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

    fn can_discard(&self) -> bool {
        self.disk.can_discard
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

/// A group called DATA with AUs of `au_size` and a disk timeout of a second, on these disks with
/// their failure groups; one whose name begins with Q is a quorum failure group.
pub fn new_group<'a>(
    redundancy: Redundancy,
    au_size: u64,
    disks: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> NewGroup {
    let disk = |(path, group): (&str, &str)| NewDisk {
        path: path.to_owned(),
        name: None,
        failure_group: (redundancy != Redundancy::External).then(|| group.to_owned()),
        quorum: group.starts_with('Q'),
        size: None,
        force: false,
    };
    NewGroup {
        name: "DATA".to_owned(),
        redundancy,
        au_size,
        attributes: vec![("disk_timeout".to_owned(), "1".to_owned())],
        disks: disks.into_iter().map(disk).collect(),
    }
}

/// Runs a future to its end on this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Polls a future whenever it is woken, until it ends, or `is_reached` returns true after a poll:
/// then `None`, and it can be polled further.
pub fn run_until<T>(
    mut future: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    mut is_reached: impl FnMut() -> bool,
) -> Option<T> {
    block_on(std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending if is_reached() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    }))
}

#[derive(Default)]
struct Due {
    wakers: BTreeMap<(Instant, u64), Waker>,
    count: u64,
    ended: bool,
}

#[derive(Default)]
struct Alarms {
    due: Mutex<Due>,
    changed: Condvar,
}

impl Alarms {
    fn run(&self) {
        let mut due = lock(&self.due);
        while !due.ended {
            let now = Instant::now();
            while due.wakers.first_key_value().is_some_and(|((when, _), _)| *when <= now) {
                if let Some((_, waker)) = due.wakers.pop_first() {
                    waker.wake();
                }
            }
            let next = due.wakers.first_key_value().map(|((when, _), _)| *when);
            let pause = next.map_or(Duration::from_secs(3600), |when| {
                when.saturating_duration_since(Instant::now())
            });
            due = self.changed.wait_timeout(due, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

struct Sleep {
    alarms: Arc<Alarms>,
    until: Instant,
}

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.until {
            return Poll::Ready(());
        }
        let mut due = lock(&self.alarms.due);
        due.count += 1;
        let key = (self.until, due.count);
        due.wakers.insert(key, context.waker().clone());
        self.alarms.changed.notify_one();
        Poll::Pending
    }
}

/// Words that outlive the process that stores them, as long as any process has them.
pub struct Words(Mutex<Vec<u64>>);

impl Words {
    /// As many words, all 0.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self(Mutex::new(vec![0; count]))
    }
}

impl SurvivingWords for Words {
    fn words(&self) -> io::Result<Vec<u64>> {
        Ok(lock(&self.0).clone())
    }

    fn store(&self, at: usize, word: u64) -> io::Result<()> {
        lock(&self.0)[at] = word;
        Ok(())
    }
}

/// A world of threads, with disks in memory.
pub struct TestWorld {
    start: Instant,
    clock_shift: AtomicI64,
    /// Nanoseconds by which the monotonic clock was moved on.
    advanced: AtomicU64,
    boot: Mutex<[u8; 16]>,
    /// Shared with later processes.
    surviving_words: Arc<Mutex<BTreeMap<String, Arc<Words>>>>,
    notes: Mutex<BTreeMap<String, String>>,
    numbers: Mutex<Numbers>,
    alarms: Arc<Alarms>,
    disks: Mutex<BTreeMap<String, (Identity, MemoryDisk)>>,
    events: Mutex<Vec<Event>>,
    running: Arc<AtomicU64>,
    stages: Mutex<BTreeMap<BackgroundStage, u64>>,
    held_back: Mutex<BTreeMap<String, Vec<Task<'static, ()>>>>,
}

impl TestWorld {
    /// A world without disks whose randomness differs from any other.
    #[must_use]
    pub fn new() -> Arc<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let seed = u64::try_from(now & u128::from(u64::MAX)).expect("masked");
        Self::seeded(
            seed ^ (u64::from(std::process::id()) << 40)
                ^ (COUNT.fetch_add(1, Ordering::Relaxed) << 56),
        )
    }

    /// A world whose randomness follows from `seed`.
    #[must_use]
    pub fn seeded(seed: u64) -> Arc<Self> {
        let alarms = Arc::new(Alarms::default());
        let clock = Arc::clone(&alarms);
        thread::Builder::new()
            .name("alarms".into())
            .spawn(move || clock.run())
            .expect("a thread can start");
        let mut numbers = Numbers::new(seed);
        let mut boot = [0; 16];
        numbers.fill(&mut boot);
        Arc::new(Self {
            start: Instant::now(),
            clock_shift: AtomicI64::new(0),
            advanced: AtomicU64::new(0),
            boot: Mutex::new(boot),
            surviving_words: Arc::default(),
            notes: Mutex::default(),
            numbers: Mutex::new(numbers),
            alarms,
            disks: Mutex::default(),
            events: Mutex::default(),
            running: Arc::default(),
            stages: Mutex::default(),
            held_back: Mutex::default(),
        })
    }

    /// How often code at that stage could have been throttled.
    #[must_use]
    pub fn throttled(&self, stage: BackgroundStage) -> u64 {
        lock(&self.stages).get(&stage).copied().unwrap_or(0)
    }

    /// Makes a disk visible to discovery; its path is its identity.
    pub fn attach(&self, disk: &MemoryDisk) {
        let identity = Identity(disk.path().to_owned());
        lock(&self.disks).insert(disk.path().to_owned(), (identity, disk.clone()));
    }

    /// Hides a disk from discovery. Open handles stay open.
    pub fn detach(&self, path: &str) {
        lock(&self.disks).remove(path);
    }

    /// Another process on the same host, which sees the same disks as `disks`.
    #[must_use]
    pub fn successor(&self, disks: &[MemoryDisk]) -> Arc<Self> {
        let mut world = Self::new();
        Arc::get_mut(&mut world).expect("it is new").surviving_words =
            Arc::clone(&self.surviving_words);
        *lock(&world.boot) = *lock(&self.boot);
        disks.iter().for_each(|disk| world.attach(disk));
        world
    }

    /// Puts it on the same boot of the same host as another world, without the words that the other
    /// one keeps.
    pub fn take_boot_of(&self, other: &Self) {
        *lock(&self.boot) = *lock(&other.boot);
    }

    /// No sleeping thread wakes again: the threads of a killed process stay where they are.
    pub fn stop_time(&self) {
        lock(&self.alarms.due).ended = true;
        self.alarms.changed.notify_one();
    }

    /// Another boot of the host: a new boot id.
    pub fn reboot(&self) {
        lock(&self.numbers).fill(&mut *lock(&self.boot));
    }

    /// Forgets all notes, as a host that has never seen these disks.
    pub fn forget_notes(&self) {
        lock(&self.notes).clear();
    }

    /// Moves the wall clock.
    pub fn shift_clock(&self, by: Duration) {
        let by = i64::try_from(by.as_nanos()).expect("tests live less than 292 years");
        self.clock_shift.fetch_add(by, Ordering::Relaxed);
    }

    /// Moves the monotonic clock on. Sleeping tasks go on sleeping.
    pub fn advance(&self, by: Duration) {
        self.advanced
            .fetch_add(u64::try_from(by.as_nanos()).expect("tests are short"), Ordering::Relaxed);
    }

    /// The events reported so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        lock(&self.events).clone()
    }

    /// From now on tasks of this name are not run: a test takes them by [`Self::take_task`], and
    /// runs them step by step.
    pub fn hold_back(&self, name: &str) {
        lock(&self.held_back).entry(name.to_owned()).or_default();
    }

    /// The first task that was held back and not taken.
    #[must_use]
    pub fn take_task(&self, name: &str) -> Option<Task<'static, ()>> {
        let mut held_back = lock(&self.held_back);
        let tasks = held_back.get_mut(name).filter(|tasks| !tasks.is_empty())?;
        Some(tasks.remove(0))
    }

    /// Tasks and synchronous code that have not ended.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.running.load(Ordering::SeqCst)
    }

    fn start(&self, name: &str, code: impl FnOnce() + Send + 'static) {
        struct Ended(Arc<AtomicU64>);
        impl Drop for Ended {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.running.fetch_add(1, Ordering::SeqCst);
        let ended = Ended(Arc::clone(&self.running));
        let run = move || {
            let _ended = ended;
            code();
        };
        thread::Builder::new().name(name.to_owned()).spawn(run).expect("a thread can start");
    }
}

impl Drop for TestWorld {
    fn drop(&mut self) {
        lock(&self.alarms.due).ended = true;
        self.alarms.changed.notify_one();
    }
}

impl World for TestWorld {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).expect("before the year 2262")
            + self.clock_shift.load(Ordering::Relaxed)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed() + Duration::from_nanos(self.advanced.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> Task<'static, ()> {
        Box::pin(Sleep { alarms: Arc::clone(&self.alarms), until: Instant::now() + duration })
    }

    fn random(&self, bytes: &mut [u8]) {
        lock(&self.numbers).fill(bytes);
    }

    fn boot_id(&self) -> [u8; 16] {
        *lock(&self.boot)
    }

    fn surviving_words(
        &self,
        name: &str,
        words: usize,
    ) -> io::Result<Option<Arc<dyn SurvivingWords>>> {
        // A small number, so that tests reach the limit.
        let new = || Arc::new(Words::new(words.min(108)));
        let kept =
            Arc::clone(lock(&self.surviving_words).entry(name.to_owned()).or_insert_with(new));
        Ok(Some(kept))
    }

    fn recall(&self, name: &str) -> io::Result<Option<String>> {
        Ok(lock(&self.notes).get(name).cloned())
    }

    fn memorise(&self, name: &str, text: &str) -> io::Result<()> {
        lock(&self.notes).insert(name.to_owned(), text.to_owned());
        Ok(())
    }

    fn spawn(&self, name: &str, task: Task<'static, ()>) {
        if let Some(tasks) = lock(&self.held_back).get_mut(name) {
            tasks.push(task);
            return;
        }
        self.start(name, move || block_on(task));
    }

    fn spawn_synchronous(&self, name: &str, code: Box<dyn FnOnce() + Send>) {
        self.start(name, code);
    }

    fn wait(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        block_on(task);
    }

    fn throttle(&self, stage: BackgroundStage) {
        *lock(&self.stages).entry(stage).or_default() += 1;
    }

    fn discover(&self) -> Task<'static, Vec<Found>> {
        let disks = lock(&self.disks);
        let found = |(path, (identity, disk)): (&String, &(Identity, MemoryDisk))| Found {
            path: path.clone(),
            identity: identity.clone(),
            disk: Ok(disk.open()),
        };
        let found: Vec<Found> = disks.iter().map(found).collect();
        Box::pin(async move { found })
    }

    fn event(&self, event: Event) {
        if std::env::var_os("PLINTH_TELL").is_some() {
            eprintln!("{event}");
        }
        lock(&self.events).push(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::buffer::Buffer;

    fn io(disk: &dyn Disk, io: Io) -> Done {
        block_on(disk.submit(io))
    }

    #[test]
    fn a_part_of_a_block_reads_as_in_the_whole() {
        for image in [Image::zeroed(), Image::noisy(7)] {
            let mut whole = vec![1; 3 * BLOCK];
            image.read(5 * BLOCK as u64, &mut whole);
            for (start, length) in
                [(0, 512), (512, 512), (3584, 1024), (4096, 4096), (3, 2), (5, 3), (11, 5000)]
            {
                let mut part = vec![1; length];
                image.read((5 * BLOCK + start) as u64, &mut part);
                assert_eq!(part, whole[start..start + length], "{start} {length}");
            }
        }
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
