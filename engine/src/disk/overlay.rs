//! A world whose disks can be written without a change to the real disks.
//!
//! An [`Overlay`] stands around another world. Its disks are read through to the real ones; writes
//! to them stay in memory, and are gone with the overlay. A group is mounted on it, with log
//! replay, recovery and everything else, and examined in the state that a mount would bring about.
//!
//! ```text
//!   read     real bytes, with the sectors that were written over them
//!   write    into memory, by sector: the real disk is not read
//!   flush    nothing
//!   discard  forgets what was written; reads return the real bytes again
//! ```
//!
//! Invariants:
//!
//!   1. The real disk gets reads and a claim, nothing else.
//!   2. All opens of one device, by its identity, share the written bytes.
//!   3. The memory for all devices is bounded. A write beyond the bound fails, and
//!      [`Overlay::is_full`] returns true from then on: the state of the group after that failure
//!      proves nothing.
//!
//! A disk that cannot be claimed because it is read-only is used all the same, with a remark.

use crate::{
    completion::{Completion, Done},
    event::Event,
    sync::lock::Mutex,
    world::{
        Disk, Found, Identity, Io, Sectors, Sign, Signs, Task, Timestamp, World,
        discard_limits::{DiscardLimits, NoDiscards},
    },
};
use futures::StreamExt;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    ops::Range,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The unit in which memory is allocated, in bytes.
const BLOCK: usize = 4096;
/// The smallest sector, in bytes: written bytes of a block are tracked by sector.
const SECTOR: usize = 512;
/// Memory for written bytes. A check of a group writes its log, a few catalog pages and the blocks
/// that recovery copies: some hundred MiB at the very worst.
pub const LIMIT: usize = 1 << 30;

/// A block of which some sectors were written.
struct Block {
    /// One bit for each sector, the lowest for the first.
    written: u8,
    bytes: Box<[u8; BLOCK]>,
}

/// Memory for all devices of an overlay.
struct Budget {
    left: AtomicUsize,
    full: AtomicBool,
    limit: usize,
}

/// The written blocks of one device.
struct Layer {
    blocks: Mutex<BTreeMap<u64, Block>>,
    budget: Arc<Budget>,
}

type Layers = Arc<Mutex<BTreeMap<Identity, Arc<Layer>>>>;

/// The sectors of a block that a range of its bytes covers.
fn mask(inside: &Range<usize>) -> u8 {
    (inside.start / SECTOR..inside.end.div_ceil(SECTOR)).fold(0, |mask, sector| mask | 1 << sector)
}

/// Splits `length` bytes from `offset` on at block borders: the block, the bytes inside it, the
/// bytes of the request.
fn cut(offset: u64, length: u64) -> impl Iterator<Item = (u64, Range<usize>, u64)> {
    let end = offset.saturating_add(length);
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let start = usize::try_from(at % BLOCK as u64).unwrap_or(0);
        let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(BLOCK - start);
        let item = (at / BLOCK as u64, start..start + count, at - offset);
        at += count as u64;
        Some(item)
    })
}

impl Layer {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut blocks = self.blocks.lock();
        for (number, inside, done) in cut(offset, data.len() as u64) {
            let done = usize::try_from(done).unwrap_or(usize::MAX);
            if !blocks.contains_key(&number) {
                let take = |left: usize| left.checked_sub(BLOCK);
                if self
                    .budget
                    .left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                    .is_err()
                {
                    self.budget.full.store(true, Ordering::Release);
                    let text = format!(
                        "more than {} MiB were written to disks that are not to change",
                        self.budget.limit >> 20
                    );
                    return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
                }
            }
            let block = blocks
                .entry(number)
                .or_insert_with(|| Block { written: 0, bytes: Box::new([0; BLOCK]) });
            block.written |= mask(&inside);
            let length = inside.len();
            block.bytes[inside].copy_from_slice(&data[done..done + length]);
        }
        Ok(())
    }

    fn forget(&self, offset: u64, length: u64) {
        let mut blocks = self.blocks.lock();
        let end = offset.saturating_add(length);
        let touched: Vec<u64> = blocks
            .range(offset / BLOCK as u64..end.div_ceil(BLOCK as u64))
            .map(|(number, _)| *number)
            .collect();
        for number in touched {
            let start = (number * BLOCK as u64).max(offset);
            let stop = ((number + 1) * BLOCK as u64).min(end);
            let Some((_, inside, _)) = cut(start, stop - start).next() else { continue };
            if let Some(block) = blocks.get_mut(&number) {
                block.written &= !mask(&inside);
                if block.written == 0 {
                    blocks.remove(&number);
                    self.budget.left.fetch_add(BLOCK, Ordering::Relaxed);
                }
            }
        }
    }

    /// Puts the written sectors over bytes of the real disk.
    fn cover(&self, offset: u64, bytes: &mut [u8]) {
        let blocks = self.blocks.lock();
        for (number, inside, done) in cut(offset, bytes.len() as u64) {
            let Some(block) = blocks.get(&number) else { continue };
            let done = usize::try_from(done).unwrap_or(usize::MAX);
            for at in inside.clone().step_by(SECTOR) {
                let end = (at + SECTOR).min(inside.end);
                if block.written & 1 << (at / SECTOR) != 0 {
                    let to = done + at - inside.start;
                    bytes[to..to + end - at].copy_from_slice(&block.bytes[at..end]);
                }
            }
        }
    }

    fn has_all(&self, offset: u64, length: usize) -> bool {
        let blocks = self.blocks.lock();
        cut(offset, length as u64).all(|(number, inside, _)| {
            blocks.get(&number).is_some_and(|block| block.written & mask(&inside) == mask(&inside))
        })
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        let count = self.blocks.lock().len();
        self.budget.left.fetch_add(count * BLOCK, Ordering::Relaxed);
    }
}

/// An open disk of an [`Overlay`].
struct Covered {
    real: Arc<dyn Disk>,
    layer: Arc<Layer>,
    read_only: Arc<Mutex<BTreeSet<String>>>,
}

impl fmt::Debug for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, covered", self.real)
    }
}

impl Covered {
    fn check(&self, io: &Io) -> io::Result<()> {
        let (offset, length) = match io {
            Io::Read { offset, buffer } => (*offset, buffer.len() as u64),
            Io::Write { offset, data, .. } => (*offset, data.len() as u64),
            Io::Discard { offset, length } | Io::WriteZeroes { offset, length } => {
                (*offset, *length)
            }
            Io::Flush => (0, 0),
        };
        let sector = u64::from(self.real.sectors().logical).max(SECTOR as u64);
        let fits = offset.checked_add(length).is_some_and(|end| end <= self.real.size());
        if offset % sector == 0 && length % sector == 0 && fits {
            return Ok(());
        }
        let text = format!("{length} bytes at {offset}: not whole sectors of the disk");
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }
}

impl Disk for Covered {
    fn path(&self) -> &str {
        self.real.path()
    }

    fn present_path(&self) -> String {
        self.real.present_path()
    }

    fn size(&self) -> u64 {
        self.real.size()
    }

    fn measure(&self) -> u64 {
        self.real.measure()
    }

    fn sectors(&self) -> Sectors {
        self.real.sectors()
    }

    fn identity(&self) -> Identity {
        self.real.identity()
    }

    fn rotates(&self) -> bool {
        self.real.rotates()
    }

    fn discards(&self) -> Result<DiscardLimits, NoDiscards> {
        self.real.discards()
    }

    fn submit(&self, io: Io) -> Completion {
        let result = self.check(&io);
        let result = match io {
            Io::Read { offset, mut buffer } => {
                if result.is_err() {
                    return Completion::ready(Done { result, buffer: Some(buffer) });
                }
                if self.layer.has_all(offset, buffer.len()) {
                    self.layer.cover(offset, &mut buffer);
                    return Completion::ready(Done { result: Ok(()), buffer: Some(buffer) });
                }
                let layer = Arc::clone(&self.layer);
                return self.real.submit(Io::Read { offset, buffer }).map(move |mut done| {
                    if done.result.is_ok()
                        && let Some(buffer) = &mut done.buffer
                    {
                        layer.cover(offset, buffer);
                    }
                    done
                });
            }
            Io::Write { offset, data, .. } => result.and_then(|()| self.layer.write(offset, &data)),
            Io::Flush => Ok(()),
            Io::Discard { offset, length } => result.map(|()| self.layer.forget(offset, length)),
            Io::WriteZeroes { offset, length } => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                result.and_then(|()| self.layer.write(offset, &vec![0; length]))
            }
        };
        Completion::ready(Done { result, buffer: None })
    }

    fn claim(&self) -> io::Result<()> {
        match self.real.claim() {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                let path = self.real.path();
                let text = format!(
                    "disk {path} cannot be taken for writing ({error}): whether another engine uses it is not known"
                );
                self.read_only.lock().insert(text);
                Ok(())
            }
            other => other,
        }
    }

    fn was_held(&self) -> bool {
        self.real.was_held()
    }

    fn holder(&self) -> Option<String> {
        self.real.holder()
    }

    fn in_use_by(&self) -> Option<String> {
        self.real.in_use_by()
    }

    fn user(&self) -> Option<String> {
        self.real.user()
    }
}

/// A world around another. See the module's description.
pub struct Overlay {
    world: Arc<dyn World>,
    /// By device. `None`: disks are handed out as they are.
    layers: Option<Layers>,
    budget: Arc<Budget>,
    read_only: Arc<Mutex<BTreeSet<String>>>,
    events: Mutex<Vec<Event>>,
}

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Overlay")
    }
}

impl Overlay {
    /// A world in which no write reaches a disk; up to `limit` bytes are kept in memory.
    #[must_use]
    pub fn new(world: Arc<dyn World>, limit: usize) -> Self {
        Self { layers: Some(Layers::default()), ..Self::through(world, limit) }
    }

    /// A world with the disks themselves; only the events are kept back.
    #[must_use]
    pub fn transparent(world: Arc<dyn World>) -> Self {
        Self::through(world, 0)
    }

    fn through(world: Arc<dyn World>, limit: usize) -> Self {
        let budget = Budget { left: AtomicUsize::new(limit), full: AtomicBool::new(false), limit };
        Self {
            world,
            layers: None,
            budget: Arc::new(budget),
            read_only: Arc::default(),
            events: Mutex::default(),
        }
    }

    /// Whether a write failed for want of memory.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.budget.full.load(Ordering::Acquire)
    }

    /// The events that a group on this world reported.
    #[must_use]
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock())
    }

    /// A sentence for each disk that was used without a claim.
    #[must_use]
    pub fn unclaimed(&self) -> Vec<String> {
        self.read_only.lock().iter().cloned().collect()
    }

    /// Puts this overlay over a disk that was found.
    fn cover(&self) -> impl Fn(Found) -> Found + Send + 'static {
        let (layers, read_only, budget) =
            (self.layers.clone(), Arc::clone(&self.read_only), Arc::clone(&self.budget));
        move |mut one| {
            if let (Some(layers), Ok(real)) = (&layers, one.disk.clone()) {
                let new =
                    || Arc::new(Layer { blocks: Mutex::default(), budget: Arc::clone(&budget) });
                let layer =
                    Arc::clone(layers.lock().entry(one.identity.clone()).or_insert_with(new));
                one.disk = Ok(Arc::new(Covered { real, layer, read_only: Arc::clone(&read_only) }));
            }
            one
        }
    }
}

impl World for Overlay {
    fn now(&self) -> Timestamp {
        self.world.now()
    }

    fn monotonic(&self) -> Duration {
        self.world.monotonic()
    }

    fn sleep(&self, duration: Duration) -> Task<'static, ()> {
        self.world.sleep(duration)
    }

    fn random(&self, bytes: &mut [u8]) {
        self.world.random(bytes);
    }

    fn boot_id(&self) -> [u8; 16] {
        self.world.boot_id()
    }

    fn spawn(&self, name: &str, task: Task<'static, ()>) {
        self.world.spawn(name, task);
    }

    fn spawn_synchronous(&self, name: &str, code: Box<dyn FnOnce() + Send>) {
        self.world.spawn_synchronous(name, code);
    }

    fn wait(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        self.world.wait(task);
    }

    fn discover(&self) -> Task<'static, Vec<Found>> {
        let (discovery, cover) = (self.world.discover(), self.cover());
        Box::pin(async move { discovery.await.into_iter().map(cover).collect() })
    }

    fn look(&self) -> Signs {
        let Signs { heard, progress } = self.world.look();
        let cover = self.cover();
        let heard = heard.map(move |sign| match sign {
            Sign::Answered(found) => Sign::Answered(cover(found)),
            other => other,
        });
        Signs { heard: Box::pin(heard), progress }
    }

    fn event(&self, event: Event) {
        self.events.lock().push(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        sync::buffer::Buffer,
        testing::{MemoryDisk, TestWorld, block_on},
    };

    fn open(overlay: &Overlay) -> Arc<dyn Disk> {
        block_on(overlay.discover()).remove(0).disk.expect("it opens")
    }

    fn read(disk: &dyn Disk, offset: u64, length: usize) -> Vec<u8> {
        let done = block_on(disk.submit(Io::Read { offset, buffer: Buffer::zeroed(length) }));
        done.result.expect("it reads");
        done.buffer.expect("a read brings its buffer").to_vec()
    }

    fn write(disk: &dyn Disk, offset: u64, bytes: &[u8]) -> io::Result<()> {
        block_on(disk.submit(Io::Write {
            offset,
            data: Buffer::copy_of(bytes).share(),
            durably: false,
        }))
        .result
    }

    #[test]
    fn what_is_written_covers_the_disk_by_sector() {
        let world = TestWorld::new();
        let real = MemoryDisk::noisy("d", 1 << 20, 512, 4096, 1);
        world.attach(&real);
        let before = real.peek(0, 1 << 20);
        let overlay = Overlay::new(world, 1 << 20);
        let (one, other) = (open(&overlay), open(&overlay));
        write(&*one, 1024, &[7; 8192]).expect("there is room");
        let mut model = before.clone();
        model[1024..1024 + 8192].fill(7);
        for (offset, length) in [(0, 16384), (512, 1024), (1024, 8192), (8704, 1024), (4096, 4096)]
        {
            assert_eq!(
                read(&*other, offset, length),
                model[offset as usize..][..length],
                "{offset} {length}"
            );
        }
        let discard = Io::Discard { offset: 2048, length: 4096 };
        assert!(block_on(one.submit(discard)).result.is_ok());
        model[2048..6144].copy_from_slice(&before[2048..6144]);
        assert_eq!(read(&*other, 0, 16384), model[..16384]);
        let zeroes = Io::WriteZeroes { offset: 512, length: 1024 };
        assert!(block_on(one.submit(zeroes)).result.is_ok());
        model[512..1536].fill(0);
        assert_eq!(read(&*other, 0, 16384), model[..16384]);
        assert_eq!(real.peek(0, 1 << 20), before);
        assert!(write(&*one, 100, &[0; 512]).is_err());
        assert!(write(&*one, (1 << 20) - 512, &[0; 1024]).is_err());
    }

    #[test]
    fn memory_is_bounded() {
        let world = TestWorld::new();
        world.attach(&MemoryDisk::new("d", 1 << 20, 512, 4096));
        let overlay = Overlay::new(world, 8192);
        let disk = open(&overlay);
        write(&*disk, 0, &[1; 8192]).expect("there is room");
        write(&*disk, 0, &[2; 8192]).expect("the same room");
        assert!(!overlay.is_full());
        assert!(write(&*disk, 8192, &[1; 512]).is_err());
        assert!(overlay.is_full());
    }
}
