//! A simulated disk: it takes time, keeps a volatile cache, and has the faults that it is given.
//!
//! ```text
//!   submit --> in flight --some time--> performed: read, or written to the cache
//!                  |                        |                            |
//!                  |                        |                          flush --> durable
//!                  +-- power cut: each sector in flight or in the cache survives or vanishes;
//!                      in records it may become noise
//! ```
//!
//! I/O in flight is performed in any order. It lands even if its process has ended meanwhile, and
//! until it has, no other process can claim the disk (R1).

use crate::executor::{Core, ProcessId, Touch};
use plinth_engine::{
    completion::{Completer, Completion, Done, completion},
    testing::{Counts, Image, Numbers, failed, fits},
    world::{
        Disk, Identity, Io, Sectors,
        discard_limits::{DiscardLimits, DiscardMeans, NoDiscards},
    },
};
use plinth_format::{
    Au, BLOCK_SIZE,
    header::DiskHeader,
    layout::{HEADER_PLACE, likely_header_places},
};
use plinth_workload::lock;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The faults of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// Every I/O fails.
    pub gone: bool,
    /// That many more reads, writes, flushes or discards fail.
    pub failing_reads: u32,
    pub failing_writes: u32,
    pub failing_flushes: u32,
    pub failing_discards: u32,
    /// I/O is accepted and does not end until the disk is healed.
    pub hang: bool,
    /// Each I/O takes up to this much longer.
    pub slow: Duration,
    /// That many more writes of data take nearly as long as a disk may.
    pub held_writes: u32,
    /// The place of the catalog, whose writes are not held.
    pub not_held: Vec<Range<u64>>,
    /// Blocks that cannot be read until they are written.
    pub latent: BTreeSet<u64>,
    /// Blocks that cannot be written.
    pub worn: BTreeSet<u64>,
    /// That many more writes are acknowledged and not done.
    pub lost_writes: u32,
    /// Only those that begin here.
    pub lost_where: Option<Range<u64>>,
    /// That many more writes, or reads, go to another place of the disk.
    pub misdirected_writes: u32,
    pub misdirected_reads: u32,
    /// Blocks that the thin pool behind the disk still has: writes to more than these fail.
    pub thin: Option<u64>,
}

/// One of [`FLUSHES_SLOW`] flushes takes up to a hundred times as long as a write, in histories
/// whose faults strike midway.
const FLUSHES_SLOW: u64 = 4;

/// One of [`STRAGGLERS`] I/Os takes up to [`STRAGGLER_MAX`], in histories with stragglers: by then
/// every other I/O has overtaken it.
const STRAGGLERS: u64 = 30;
/// In microseconds: half of the time after which a disk counts as hung.
const STRAGGLER_MAX: u64 = 500_000;

/// How long a write is held, in microseconds: from, and up to. After a second its disk counts as
/// hung.
const HELD: (u64, u64) = (200_000, 600_000);

/// In microseconds: the longest that a disk takes that does not hang, however slow it is. After a
/// second it would count as hung.
const ANSWERS: u64 = 900_000;

/// In milliseconds: hung I/O lands at the latest this long after the disk is healed.
const LATE_MAX: u64 = 2000;

/// Blocks of the system area of a disk with the smallest AUs.
pub const SYSTEM_BLOCKS: u64 = 256;

/// The unit of space and of latent errors, in bytes.
pub const BLOCK: u64 = 4096;

/// One opening of a disk.
type Handle = u64;

struct Flight {
    io: Io,
    /// A flush whose work is done: writes that end while it is in flight are not covered.
    done: bool,
    completer: Completer,
    handle: Handle,
    process: ProcessId,
}

struct Medium {
    image: Image,
    size: u64,
    counts: Counts,
    /// Blocks that were written since the space of the thin pool became scarce.
    lent: BTreeSet<u64>,
    faults: Faults,
    /// A flush has failed on the disk while it was gone: its cache is lost by the time it is back.
    loses: bool,
    /// A durable write has failed: for its engine that is a flush that failed.
    failed_durably: bool,
    flights: BTreeMap<u64, Flight>,
    /// Blocks that were written, or came with the device, and were not discarded since: those that
    /// a thin pool has allocated.
    lends: Vec<bool>,
    /// A write was lost or misdirected since the last query.
    went_astray: bool,
    /// I/O whose time is over, on a disk that hangs.
    hung: Vec<u64>,
    count: u64,
    /// The place of its checksums, by the header that was found last.
    sums: Range<u64>,
    /// Openings that were not closed.
    open: BTreeSet<Handle>,
    /// The opening that has claimed the disk.
    holder: Option<(Handle, ProcessId)>,
}

impl Medium {
    fn find_sums(&mut self) {
        if let Some(DiskHeader { layout, .. }) = header_in(&self.image, self.size) {
            self.sums = layout.sums_of(Au(0)).0..layout.sums_of(Au(layout.au_count())).0;
        }
    }

    /// Marks blocks as allocated by the thin pool, or not.
    fn lend(&mut self, offset: u64, length: u64, lends: bool) {
        let blocks = if lends {
            offset / BLOCK..(offset + length).div_ceil(BLOCK)
        } else {
            offset.div_ceil(BLOCK)..(offset + length) / BLOCK
        };
        for block in blocks {
            if let Some(known) =
                usize::try_from(block).ok().and_then(|block| self.lends.get_mut(block))
            {
                *known = lends;
            }
        }
    }
}

/// A disk. Clones are handles of the same one.
#[derive(Clone)]
pub struct SimDisk {
    core: Arc<Core>,
    /// The label of the device, whatever its path.
    label: Arc<str>,
    sectors: Sectors,
    discards: Result<DiscardLimits, NoDiscards>,
    medium: Arc<Mutex<Medium>>,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDisk({})", self.label)
    }
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

fn some_left(count: &mut u32) -> bool {
    let some = *count > 0;
    *count = count.saturating_sub(1);
    some
}

impl SimDisk {
    /// A disk full of foreign data.
    pub fn new(core: &Arc<Core>, label: &str, size: u64, sectors: Sectors) -> Self {
        let seed = core.draw();
        let can_discard = !core.one_in(3);
        let discards = if can_discard { Ok(limits(seed)) } else { Err(NoDiscards::Unsupported) };
        Self::with(core, label, size, sectors, Image::noisy(seed), discards)
    }

    fn with(
        core: &Arc<Core>,
        label: &str,
        size: u64,
        sectors: Sectors,
        image: Image,
        discards: Result<DiscardLimits, NoDiscards>,
    ) -> Self {
        let medium = Medium {
            image,
            size,
            counts: Counts::default(),
            lent: BTreeSet::new(),
            faults: Faults::default(),
            loses: false,
            failed_durably: false,
            flights: BTreeMap::new(),
            lends: vec![true; usize::try_from(size / BLOCK).expect("a small disk")],
            went_astray: false,
            hung: Vec::new(),
            count: 0,
            sums: 0..0,
            open: BTreeSet::new(),
            holder: None,
        };
        Self {
            core: Arc::clone(core),
            label: label.into(),
            sectors,
            discards,
            medium: Arc::new(Mutex::new(medium)),
        }
    }

    /// The same device, with other limits for its discards, if it honours any.
    #[must_use]
    pub fn honouring(self, limits: DiscardLimits) -> Self {
        Self { discards: self.discards.map(|_| limits), ..self }
    }

    /// Another device with the same bytes.
    pub fn clone_as(&self, label: &str) -> Self {
        Self::with(&self.core, label, self.size(), self.sectors, self.image(), self.discards)
    }

    pub fn label(&self) -> &str {
        &self.label
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        lock(&self.medium).size
    }

    /// Makes the device shorter or longer.
    pub fn set_size(&self, size: u64) {
        lock(&self.medium).size = size;
    }

    pub fn sectors(&self) -> Sectors {
        self.sectors
    }

    /// The contents of the disk now.
    pub fn image(&self) -> Image {
        lock(&self.medium).image.clone()
    }

    /// Replaces the contents of the disk: another medium in the same place.
    pub fn set_image(&self, image: Image) {
        let mut medium = lock(&self.medium);
        medium.image = image;
        // The cache of the medium before is lost.
        medium.loses = false;
    }

    /// The bytes from `offset` on, past all faults.
    pub fn peek(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        lock(&self.medium).image.read(offset, &mut bytes);
        bytes
    }

    /// The I/O that has succeeded so far.
    pub fn counts(&self) -> Counts {
        lock(&self.medium).counts
    }

    /// The allocated blocks in these places that could be discarded: their byte offsets.
    pub fn lends(&self, places: &[Range<u64>]) -> Vec<u64> {
        let Ok(limits) = self.discards else { return Vec::new() };
        let medium = lock(&self.medium);
        let units = places.iter().map(|place| limits.inwards(place.clone()));
        let blocks = units.flat_map(|units| units.start / BLOCK..units.end / BLOCK);
        let is_lent = |block: &u64| {
            usize::try_from(*block).is_ok_and(|block| medium.lends.get(block) == Some(&true))
        };
        blocks.filter(is_lent).map(|block| block * BLOCK).collect()
    }

    /// Changes the faults of the disk.
    pub fn faults<T>(&self, change: impl FnOnce(&mut Faults) -> T) -> T {
        change(&mut lock(&self.medium).faults)
    }

    /// Whether a write was lost or misdirected since the last query.
    pub fn take_astray(&self) -> bool {
        std::mem::take(&mut lock(&self.medium).went_astray)
    }

    /// Ends every fault. Hung I/O lands now or, in histories whose faults strike midway, a little
    /// later and in any order: as if one of several paths to the disk had been stuck, so that I/O
    /// on it lands after the others have been used again.
    pub fn heal(&self) {
        let hung = {
            let mut medium = lock(&self.medium);
            medium.faults = Faults::default();
            if std::mem::take(&mut medium.loses) {
                self.lose_cache(&mut medium);
            }
            medium.lent.clear();
            std::mem::take(&mut medium.hung)
        };
        for flight in hung {
            if self.core.fails_midway() {
                let (disk, late) = (self.clone(), Duration::from_millis(self.core.below(LATE_MAX)));
                self.core.after(late, move || disk.land(flight));
            } else {
                self.land(flight);
            }
        }
    }

    /// The disk is back where it was removed, without the contents of its cache that are lost: no
    /// engine may use it with them, and lose them later.
    pub fn reappear(&self) {
        let mut medium = lock(&self.medium);
        medium.faults.gone = false;
        if std::mem::take(&mut medium.loses) {
            self.lose_cache(&mut medium);
        }
    }

    fn lose_cache(&self, medium: &mut Medium) {
        let seed = self.core.draw();
        medium.image.cut_power(&mut Numbers::new(seed), self.sectors.physical as usize);
    }

    /// The cache is kept although a flush has failed: the engine that saw the failure died before
    /// it was recorded, which is not promised to be survived.
    pub fn keep_cache(&self) {
        lock(&self.medium).loses = false;
    }

    /// Whether a durable write has failed since the last query.
    pub fn has_failed_durably(&self) -> bool {
        std::mem::take(&mut lock(&self.medium).failed_durably)
    }

    /// A valid copy of its header, if there is one.
    pub fn header(&self) -> Option<DiskHeader> {
        let medium = lock(&self.medium);
        header_in(&medium.image, medium.size)
    }

    /// Overwrites bytes without the engine's knowledge.
    pub fn corrupt(&self, offset: u64, bytes: &[u8]) {
        lock(&self.medium).image.corrupt(offset, bytes);
    }

    /// Cuts the power: of what was not flushed each sector survives or vanishes, and in records it
    /// may become noise.
    pub fn cut_power(&self) {
        self.lose_power(false);
    }

    /// Cuts the power of a device without atomic sectors: what was not flushed may become noise.
    pub fn tear_and_cut_power(&self) {
        self.lose_power(true);
    }

    fn lose_power(&self, tears_all: bool) {
        let seed = self.core.draw();
        let mut medium = lock(&self.medium);
        // I/O in flight may have reached the cache, in any order.
        let mut flights: Vec<Flight> = std::mem::take(&mut medium.flights).into_values().collect();
        let mut numbers = Numbers::new(seed);
        while !flights.is_empty() {
            let index = usize::try_from(numbers.below(flights.len() as u64)).expect("small");
            if let Io::Write { offset, data, .. } = &flights.swap_remove(index).io {
                medium.image.write(*offset, data);
                medium.lend(*offset, data.len() as u64, true);
            }
        }
        let sector = self.sectors.physical as usize;
        // Bytes of a file may be torn, too, which is all that is promised of them; a torn record
        // must be detected.
        let mut records = BTreeSet::new();
        if let Some(header) = header_in(&medium.image, medium.size) {
            let slots =
                header.record_areas().into_iter().flat_map(|area| area.slots().collect::<Vec<_>>());
            let copies = header.layout.header_places().map(|place| (place, BLOCK_SIZE));
            let all = slots.chain(copies);
            records = all
                .flat_map(|(place, length)| place / BLOCK..(place + length as u64) / BLOCK)
                .collect();
        }
        let is_torn = |block| tears_all || block < SYSTEM_BLOCKS || records.contains(&block);
        medium.image.cut(&mut numbers, sector, is_torn);
        medium.hung.clear();
        medium.loses = false;
        medium.holder = None;
    }

    /// Opens the disk anew, by a path, for a process.
    pub fn open(&self, path: &str, process: ProcessId) -> Arc<dyn Disk> {
        let mut medium = lock(&self.medium);
        medium.count += 1;
        let handle = medium.count;
        medium.open.insert(handle);
        medium.find_sums();
        drop(medium);
        Arc::new(OpenDisk { disk: self.clone(), path: path.into(), handle, process })
    }

    /// The time of an I/O is over.
    fn land(&self, id: u64) {
        let (flight, touch, done) = {
            let mut medium = lock(&self.medium);
            if medium.faults.hang && medium.flights.contains_key(&id) {
                medium.hung.push(id);
                return;
            }
            let Some(mut flight) = medium.flights.remove(&id) else { return };
            let (io, done) = (std::mem::replace(&mut flight.io, Io::Flush), flight.done);
            let touch = touch(&io, medium.size, &medium.sums);
            let lost_before = medium.loses;
            let done = self.perform(&mut medium, io, done);
            // A flush that failed after its engine had ended was reported to none, as one that the
            // engine had no time to record.
            medium.loses = medium.loses && (lost_before || !self.core.is_dead(flight.process));
            if touch == Touch::Header {
                medium.find_sums();
            }
            (flight, touch, done)
        };
        self.core.note(id ^ u64::from(done.result.is_ok()));
        self.core.io(flight.process, touch);
        // In a dead process no task is woken.
        flight.completer.finish(done);
    }

    fn perform(&self, medium: &mut Medium, io: Io, done: bool) -> Done {
        let flushes = medium.faults.failing_flushes;
        if let Some(error) = self.refusal(medium, &io) {
            medium.failed_durably |= matches!(io, Io::Write { durably: true, .. });
            // Writes that a failed flush covered may be lost, and a later flush would not bring
            // them back. A write that fails before its flush loses nothing else.
            if self.core.fails_midway() && !medium.faults.gone {
                self.land_in_part(medium, &io);
            }
            if medium.faults.gone {
                medium.loses |= matches!(io, Io::Flush | Io::Write { durably: true, .. });
            } else if medium.faults.failing_flushes < flushes {
                self.lose_cache(medium);
            }
            return failed(io, error);
        }
        medium.counts.add(&io);
        match io {
            Io::Read { offset, mut buffer } => {
                let astray = some_left(&mut medium.faults.misdirected_reads);
                let offset = if astray {
                    self.elsewhere(medium, offset, buffer.len() as u64)
                } else {
                    offset
                };
                medium.image.read(offset, &mut buffer);
                return Done { result: Ok(()), buffer: Some(buffer) };
            }
            Io::Write { offset, data, durably } => {
                let length = data.len() as u64;
                let is_meant =
                    medium.faults.lost_where.as_ref().is_none_or(|place| place.contains(&offset));
                if is_meant && some_left(&mut medium.faults.lost_writes) {
                    medium.went_astray = true;
                    self.core.tell(|| {
                        format!("  {}: a write of {length} bytes at {offset} is lost", self.label)
                    });
                } else if some_left(&mut medium.faults.misdirected_writes) {
                    let astray = self.elsewhere(medium, offset, length);
                    medium.went_astray = true;
                    self.core.tell(|| {
                        format!(
                            "  {}: a write of {length} bytes at {offset} goes to {astray}",
                            self.label
                        )
                    });
                    medium.image.write(astray, &data);
                } else {
                    medium.image.write(offset, &data);
                    medium.lend(offset, length, true);
                    if durably {
                        medium.image.keep(offset, data.len());
                    }
                    let written = offset.div_ceil(BLOCK)..(offset + length) / BLOCK;
                    medium.faults.latent.retain(|block| !written.contains(block));
                }
            }
            Io::Flush if done => {}
            Io::Flush => medium.image.flush(),
            // Zeros, the old contents, or noise.
            Io::Discard { offset, length } => {
                medium.lend(offset, length, false);
                match self.core.below(3) {
                    0 => medium.image.discard(offset, length, |_| {}),
                    1 => {}
                    _ => {
                        let mut noise = Numbers::new(self.core.draw());
                        medium.image.discard(offset, length, |bytes| noise.fill(bytes));
                    }
                }
            }
            // The array gives zeros back. Blocks that were never written stay as they are: a
            // large disk of zeros would not fit into memory.
            Io::WriteZeroes { offset, length } => {
                medium.lend(offset, length, false);
                medium.image.discard(offset, length, |_| {});
            }
        }
        Done { result: Ok(()), buffer: None }
    }

    /// A write that fails has landed in some sectors, or in none.
    fn land_in_part(&self, medium: &mut Medium, io: &Io) {
        let Io::Write { offset, data, .. } = io else { return };
        let sector = self.sectors.physical as usize;
        let whole = match self.core.below(3) {
            0 => return,
            1 => true,
            _ => false,
        };
        for (at, part) in (*offset..).step_by(sector).zip(data.chunks(sector)) {
            if whole || self.core.one_in(2) {
                medium.image.write(at, part);
            }
        }
    }

    /// The error of an I/O, if it fails.
    fn refusal(&self, medium: &mut Medium, io: &Io) -> Option<io::Error> {
        let Medium { faults, lent, .. } = medium;
        if faults.gone {
            return Some(eio());
        }
        let fails = match io {
            Io::Read { offset, buffer } => {
                let blocks = offset / BLOCK..(offset + buffer.len() as u64).div_ceil(BLOCK);
                some_left(&mut faults.failing_reads) || faults.latent.range(blocks).next().is_some()
            }
            Io::Write { offset, data, durably } => {
                let blocks = offset / BLOCK..(offset + data.len() as u64).div_ceil(BLOCK);
                if let Some(left) = faults.thin {
                    let more: Vec<u64> =
                        blocks.clone().filter(|block| !lent.contains(block)).collect();
                    if more.len() as u64 > left {
                        return Some(io::Error::from_raw_os_error(libc::ENOSPC));
                    }
                    faults.thin = Some(left - more.len() as u64);
                    lent.extend(more);
                }
                some_left(&mut faults.failing_writes)
                    || faults.worn.range(blocks).next().is_some()
                    || *durably && some_left(&mut faults.failing_flushes)
            }
            Io::Flush => some_left(&mut faults.failing_flushes),
            Io::Discard { .. } | Io::WriteZeroes { .. } => some_left(&mut faults.failing_discards),
        };
        fails.then(eio)
    }

    /// Another place for `length` bytes, behind the system area: mirrors protect against a stray
    /// write there.
    fn elsewhere(&self, medium: &Medium, offset: u64, length: u64) -> u64 {
        let blocks = (medium.size.saturating_sub(length) / BLOCK).max(SYSTEM_BLOCKS + 1);
        let there = (SYSTEM_BLOCKS + self.core.below(blocks - SYSTEM_BLOCKS)) * BLOCK;
        if there == offset { there - BLOCK } else { there }
    }

    /// How long an I/O takes: mostly short, now and then long enough that others overtake it.
    fn time(&self, Medium { faults, sums, .. }: &mut Medium, io: &Io) -> Duration {
        let is_data = |place: &u64| {
            *place >= sums.end && !faults.not_held.iter().any(|range| range.contains(place))
        };
        let is_held = matches!(io, Io::Write { offset, .. } if is_data(offset))
            && some_left(&mut faults.held_writes);
        let micros = match self.core.below(20) {
            // An array may take its time over a flush.
            0..8 if matches!(io, Io::Discard { .. } | Io::WriteZeroes { .. }) => {
                1_000 + self.core.below(60_000)
            }
            0 => 1_000 + self.core.below(8_000),
            1..4 => 100 + self.core.below(900),
            _ => 20 + self.core.below(80),
        };
        let is_long =
            self.core.fails_midway() && matches!(io, Io::Flush) && self.core.one_in(FLUSHES_SLOW);
        let micros = if is_long { micros * 100 } else { micros };
        let micros = if is_held { HELD.0 + self.core.below(HELD.1 - HELD.0) } else { micros };
        let is_straggler = self.core.has_stragglers() && self.core.one_in(STRAGGLERS);
        let micros = if is_straggler { micros.max(self.core.below(STRAGGLER_MAX)) } else { micros };
        // A slow disk does not work in order.
        let slow = u64::try_from(faults.slow.as_micros()).expect("not for ever");
        let micros = micros + if slow > 0 { self.core.below(slow) } else { 0 };
        Duration::from_micros(micros.min(ANSWERS))
    }
}

/// The discards that a disk honours. Every second disk has units larger than a block; of some the
/// units lie across the AUs, or are larger than these.
fn limits(seed: u64) -> DiscardLimits {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    let (granularity, alignment, maximum) = match Numbers::new(!seed).below(10) {
        0 => (64 * KIB, 0, u64::MAX),
        1 => (64 * KIB, 12 * KIB, 256 * KIB),
        2 => (256 * KIB, 64 * KIB, 3 * MIB + 512),
        3 => (MIB, 28 * KIB, u64::MAX),
        4 => (2 * MIB, MIB, 2 * MIB),
        _ => (BLOCK, 0, u64::MAX),
    };
    DiscardLimits { means: DiscardMeans::Unmap, granularity, alignment, maximum }
}

/// A valid copy of the header of a disk of `size` bytes, if there is one.
fn header_in(image: &Image, size: u64) -> Option<DiskHeader> {
    let mut block = [0; BLOCK_SIZE];
    [HEADER_PLACE].into_iter().chain(likely_header_places(size)).find_map(|place| {
        image.read(place, &mut block);
        DiskHeader::decode(&block, place).ok()
    })
}

/// Whether a copy of the header may be at a place of a disk of `size` bytes.
fn is_header(place: u64, size: u64) -> bool {
    place == HEADER_PLACE || likely_header_places(size).contains(&place)
}

fn word(io: &Io) -> &'static str {
    match io {
        Io::Read { .. } => "read",
        Io::Write { .. } => "write",
        Io::Discard { .. } => "discard",
        Io::WriteZeroes { .. } => "zeroes",
        Io::Flush => "flush",
    }
}

/// The bytes that an I/O changes, or reads.
fn place(io: &Io) -> Range<u64> {
    match io {
        Io::Read { offset, buffer } => *offset..offset + buffer.len() as u64,
        Io::Write { offset, data, .. } => *offset..offset + data.len() as u64,
        Io::Discard { offset, length } | Io::WriteZeroes { offset, length } => {
            *offset..offset + length
        }
        Io::Flush => 0..0,
    }
}

/// Whether two I/Os must not be in flight at once: both change the same bytes, whichever lands
/// last. The engine must have waited for the first before it writes there, or the place belongs to
/// two files at once (R8).
fn meet(one: &Io, other: &Io) -> bool {
    let changes =
        |io: &Io| matches!(io, Io::Write { .. } | Io::Discard { .. } | Io::WriteZeroes { .. });
    let (here, there) = (place(one), place(other));
    changes(one) && changes(other) && here.start < there.end && there.start < here.end
}

/// The kind of change that an I/O makes to a disk of this size, with its checksums in this place.
fn touch(io: &Io, size: u64, sums: &Range<u64>) -> Touch {
    match io {
        Io::Read { .. } => Touch::Nothing,
        Io::Write { offset, data, .. } if data.len() == BLOCK_SIZE && is_header(*offset, size) => {
            Touch::Header
        }
        Io::Write { offset, .. } if sums.contains(offset) => Touch::Sums,
        // A disk smaller than an AU, where the checksums would begin.
        Io::Discard { length, .. } | Io::WriteZeroes { length, .. } if *length < sums.start => {
            Touch::Hole
        }
        Io::Discard { .. } | Io::WriteZeroes { .. } => Touch::Discard,
        _ => Touch::Something,
    }
}

struct OpenDisk {
    disk: SimDisk,
    path: Box<str>,
    handle: Handle,
    process: ProcessId,
}

impl fmt::Debug for OpenDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl Disk for OpenDisk {
    fn path(&self) -> &str {
        &self.path
    }

    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn sectors(&self) -> Sectors {
        self.disk.sectors
    }

    fn identity(&self) -> Identity {
        Identity(self.disk.label().to_owned())
    }

    fn discards(&self) -> Result<DiscardLimits, NoDiscards> {
        self.disk.discards
    }

    fn submit(&self, io: Io) -> Completion {
        if !fits(&io, self.disk.size(), self.disk.sectors) {
            return Completion::ready(failed(io, io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let (completion, completer) = completion();
        if self.disk.core.is_dead(self.process) {
            return completion;
        }
        let mut medium = lock(&self.disk.medium);
        medium.count += 1;
        let id = medium.count;
        let time = self.disk.time(&mut medium, &io);
        let touch = touch(&io, medium.size, &medium.sums);
        // A flush may cover only the writes that had ended when it was submitted, or also later
        // ones.
        let is_well =
            !medium.faults.gone && !medium.faults.hang && medium.faults.failing_flushes == 0;
        let done = matches!(io, Io::Flush) && is_well && self.disk.core.one_in(2);
        if done {
            medium.image.flush();
        }
        if let Io::Discard { offset, length } = io {
            let (range, limits) = (offset..offset + length, self.disk.discards);
            let is_honoured = limits.is_ok_and(|limits| {
                limits.inwards(range.clone()) == range && length <= limits.maximum
            });
            if !is_honoured {
                let label = self.disk.label();
                self.disk.core.offend(|| format!("{label}: a discard of {range:?}, {limits:?}"));
            }
        }
        let meets = |other: &&Flight| other.process == self.process && meet(&io, &other.io);
        // I/O of a disk that is gone never lands.
        if let Some(other) = medium.flights.values().find(meets).filter(|_| !medium.faults.gone) {
            let label = self.disk.label();
            self.disk.core.offend(|| {
                format!(
                    "{label}: a {} of {:?} begins while a {} of {:?} is in flight",
                    word(&io),
                    place(&io),
                    word(&other.io),
                    place(&other.io)
                )
            });
        }
        let flight = Flight { io, done, completer, handle: self.handle, process: self.process };
        medium.flights.insert(id, flight);
        drop(medium);
        self.disk.core.io(self.process, touch);
        let disk = self.disk.clone();
        self.disk.core.after(time, move || disk.land(id));
        completion
    }

    fn claim(&self) -> io::Result<()> {
        let mut medium = lock(&self.disk.medium);
        let core = &self.disk.core;
        let held = medium.holder.is_some_and(|(handle, process)| {
            handle != self.handle
                && (medium.open.contains(&handle) && !core.is_dead(process)
                    || medium.flights.values().any(|flight| flight.handle == handle))
        });
        if held {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        medium.holder = Some((self.handle, self.process));
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
        // I/O in flight keeps the disk claimed: see `claim`.
        lock(&self.disk.medium).open.remove(&self.handle);
    }
}
