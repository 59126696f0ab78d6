//! A [`Store`] in memory, whose mirrors can be damaged, whose power fails at the n-th operation,
//! and whose disks may be full. For tests.

use super::store::{CatalogFile, FileName, Store, StoreError};
use crate::{
    sync::{
        buffer::{Buffer, Slice},
        lock::{Mutex, MutexGuard},
    },
    testing::{Image, Numbers},
};
use std::sync::Arc;

struct State {
    /// By mirror; database and log of each.
    mirrors: Vec<[Image; 2]>,
    capacity: [u64; 2],
    capacity_max: [u64; 2],
    /// See [`Store::unit`].
    unit: u64,
    operations: u64,
    /// The operation at which power fails.
    fail_at: Option<u64>,
    dead: bool,
    numbers: Numbers,
    repairs: u64,
    reads: [u64; 2],
    fail_writes: bool,
    lost: Vec<usize>,
    during_read: Option<Box<dyn FnOnce() + Send>>,
}

/// See the module's description. A clone shares the disks but not the connection: after
/// [`MemoryStore::reconnect`] older clones do not work any more.
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    /// Set by `reconnect` on the store that it replaces: none of its operations reaches the disks.
    severed: std::sync::atomic::AtomicBool,
}

fn index(file: CatalogFile) -> usize {
    file as usize - 1
}

impl MemoryStore {
    /// `noise`: the seed of the disks' initial content; zeros if `None`. Capacities are bytes.
    #[must_use]
    pub fn new(mirrors: usize, database: u64, log: u64, noise: Option<u64>) -> Arc<Self> {
        let image =
            |at: u64| noise.map_or_else(Image::zeroed, |seed| Image::noisy(seed.wrapping_add(at)));
        let images =
            (0..mirrors as u64).map(|mirror| [image(mirror * 2), image(mirror * 2 + 1)]).collect();
        let state = State {
            mirrors: images,
            capacity: [database, log],
            capacity_max: [u64::MAX; 2],
            unit: 1,
            operations: 0,
            fail_at: None,
            dead: false,
            numbers: Numbers::new(1),
            repairs: 0,
            reads: [0; 2],
            fail_writes: false,
            lost: Vec::new(),
            during_read: None,
        };
        Arc::new(Self { state: Arc::new(Mutex::new(state)), severed: false.into() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Power fails at the `count`-th operation from now, which may be half done.
    pub fn fail_after(&self, count: u64, seed: u64) {
        let mut state = self.lock();
        state.fail_at = Some(state.operations + count);
        state.numbers = Numbers::new(seed);
    }

    /// Whether power has failed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.lock().dead
    }

    /// Cuts the power and turns it on again: unflushed sectors survive, vanish or are torn by seed.
    #[must_use]
    pub fn restart(&self, seed: u64) -> Arc<Self> {
        let mut numbers = Numbers::new(seed);
        let sector = if seed.is_multiple_of(2) { 512 } else { 4096 };
        for mirror in &mut self.lock().mirrors {
            for image in mirror {
                image.tear_and_cut_power(&mut numbers, sector);
            }
        }
        self.reconnect()
    }

    /// The process ends, the power does not fail: all writes stay.
    #[must_use]
    pub fn reconnect(&self) -> Arc<Self> {
        self.severed.store(true, std::sync::atomic::Ordering::SeqCst);
        let mut state = self.lock();
        state.fail_at = None;
        state.dead = false;
        drop(state);
        Arc::new(Self { state: Arc::clone(&self.state), severed: false.into() })
    }

    /// Files cannot grow beyond these sizes.
    pub fn limit(&self, database: u64, log: u64) {
        self.lock().capacity_max = [database, log];
    }

    /// Files shrink by whole units of this many bytes.
    pub fn shrink_by(&self, unit: u64) {
        self.lock().unit = unit;
    }

    /// Every write and flush fails from now on, or succeeds again.
    pub fn fail_writes(&self, fail: bool) {
        self.lock().fail_writes = fail;
    }

    /// Calls a function when the next read of a mirror has its bytes, before its caller has them.
    pub fn during_next_read(&self, what: impl FnOnce() + Send + 'static) {
        self.lock().during_read = Some(Box::new(what));
    }

    /// Removes a mirror from the list.
    pub fn lose(&self, mirror: usize) {
        self.lock().lost.push(mirror);
    }

    /// Overwrites bytes of one mirror without an error of the store.
    pub fn corrupt(&self, file: CatalogFile, mirror: usize, offset: u64, bytes: &[u8]) {
        self.lock().mirrors[mirror][index(file)].corrupt(offset, bytes);
    }

    /// The bytes of one mirror.
    #[must_use]
    pub fn peek(&self, file: CatalogFile, mirror: usize, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.lock().mirrors[mirror][index(file)].read(offset, &mut bytes);
        bytes
    }

    /// The number of mirrors that reads repaired.
    #[must_use]
    pub fn repairs(&self) -> u64 {
        self.lock().repairs
    }

    /// Reads of a file so far.
    #[must_use]
    pub fn reads(&self, file: CatalogFile) -> u64 {
        self.lock().reads[index(file)]
    }

    /// Operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Counts one operation. `Ok(true)` if it is the last one: then it may be half done.
    fn step(&self, file: CatalogFile, doing: &'static str) -> Result<bool, StoreError> {
        if self.severed.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(StoreError::Stopped("the process has ended".into()));
        }
        let mut state = self.lock();
        state.operations += 1;
        if !state.dead && state.fail_at.is_some_and(|at| state.operations >= at) {
            state.dead = true;
            return Ok(true);
        }
        if state.dead || (state.fail_writes && doing != "reading") {
            let reason = if state.dead { "the power failed" } else { "told to fail" };
            return Err(StoreError::Failed {
                file: FileName(file),
                doing,
                offset: 0,
                length: 0,
                reason: reason.into(),
            });
        }
        Ok(false)
    }

    fn check(&self, file: CatalogFile, offset: u64, length: usize) {
        assert!(
            offset.is_multiple_of(4096) && length.is_multiple_of(4096),
            "misaligned: {length} bytes at {offset}"
        );
        let capacity = self.capacity(file);
        assert!(
            offset + length as u64 <= capacity,
            "{length} bytes at {offset} of {file:?}, capacity {capacity}"
        );
    }

    fn power_failed(file: CatalogFile, doing: &'static str) -> StoreError {
        StoreError::Failed {
            file: FileName(file),
            doing,
            offset: 0,
            length: 0,
            reason: "the power failed".into(),
        }
    }
}

impl Store for MemoryStore {
    fn capacity(&self, file: CatalogFile) -> u64 {
        self.lock().capacity[index(file)]
    }

    fn unit(&self) -> u64 {
        self.lock().unit
    }

    fn mirrors(&self, _file: CatalogFile) -> Vec<u8> {
        let state = self.lock();
        let current = (0..state.mirrors.len()).filter(|mirror| !state.lost.contains(mirror));
        current.map(|mirror| u8::try_from(mirror).expect("few")).collect()
    }

    fn epoch(&self) -> u64 {
        self.operations()
    }

    fn read(
        &self,
        file: CatalogFile,
        offset: u64,
        length: usize,
        age: &dyn Fn(&[u8]) -> Option<u64>,
    ) -> Result<Buffer, StoreError> {
        let mirrors = self.mirrors(file);
        let mut copies = Vec::new();
        for mirror in &mirrors {
            copies.push((*mirror, self.read_mirror(file, *mirror, offset, length)?));
        }
        let newest = copies
            .iter()
            .filter_map(|(_, copy)| Some((age(copy)?, copy)))
            .max_by_key(|(age, _)| *age);
        let Some((_, newest)) = newest else {
            return Err(StoreError::NoGoodMirror {
                file: FileName(file),
                offset,
                length,
                tried: mirrors.len(),
            });
        };
        let mut state = self.lock();
        for (mirror, copy) in &copies {
            if copy[..] != newest[..] {
                state.repairs += 1;
                state.mirrors[usize::from(*mirror)][index(file)].write(offset, newest);
            }
        }
        Ok(Buffer::copy_of(newest))
    }

    fn read_mirror(
        &self,
        file: CatalogFile,
        mirror: u8,
        offset: u64,
        length: usize,
    ) -> Result<Buffer, StoreError> {
        self.check(file, offset, length);
        if self.step(file, "reading")? {
            return Err(Self::power_failed(file, "reading"));
        }
        let mut buffer = Buffer::zeroed(length);
        let mut state = self.lock();
        state.reads[index(file)] += 1;
        state.mirrors[usize::from(mirror)][index(file)].read(offset, &mut buffer);
        let during_read = state.during_read.take();
        drop(state);
        if let Some(what) = during_read {
            what();
        }
        Ok(buffer)
    }

    fn write(&self, file: CatalogFile, offset: u64, data: Slice) -> Result<(), StoreError> {
        self.check(file, offset, data.len());
        let last = self.step(file, "writing")?;
        let mut guard = self.lock();
        let state = &mut *guard;
        for mirror in &mut state.mirrors {
            // Writes in flight reach some mirrors; the cut decides which of their sectors.
            if !last || state.numbers.below(2) == 0 {
                mirror[index(file)].write(offset, &data);
            }
        }
        if last { Err(Self::power_failed(file, "writing")) } else { Ok(()) }
    }

    fn write_mirror(
        &self,
        file: CatalogFile,
        mirror: u8,
        offset: u64,
        data: Slice,
    ) -> Result<(), StoreError> {
        self.check(file, offset, data.len());
        let last = self.step(file, "writing")?;
        let mut state = self.lock();
        if !last || state.numbers.below(2) == 0 {
            state.mirrors[usize::from(mirror)][index(file)].write(offset, &data);
        }
        if last { Err(Self::power_failed(file, "writing")) } else { Ok(()) }
    }

    fn flush(&self) -> Result<(), StoreError> {
        let last = self.step(CatalogFile::Wal, "flushing")?;
        let mut guard = self.lock();
        let state = &mut *guard;
        for mirror in &mut state.mirrors {
            if !last || state.numbers.below(2) == 0 {
                mirror.iter_mut().for_each(Image::flush);
            }
        }
        if last { Err(Self::power_failed(CatalogFile::Wal, "flushing")) } else { Ok(()) }
    }

    fn grow(&self, file: CatalogFile, capacity: u64) -> Result<(), StoreError> {
        let mut state = self.lock();
        if capacity > state.capacity_max[index(file)] {
            return Err(StoreError::NoSpace);
        }
        let now = &mut state.capacity[index(file)];
        *now = capacity.max(*now);
        Ok(())
    }

    fn shrink(&self, file: CatalogFile, capacity: u64) -> Result<(), StoreError> {
        let last = self.step(file, "shrinking")?;
        let mut guard = self.lock();
        let state = &mut *guard;
        // The last record before the power failed is kept or lost, by seed.
        if !last || state.numbers.below(2) == 0 {
            let left = capacity.next_multiple_of(state.unit);
            let now = &mut state.capacity[index(file)];
            *now = left.min(*now);
        }
        if last { Err(Self::power_failed(file, "shrinking")) } else { Ok(()) }
    }
}
