//! A simulated disk: takes its time, keeps a volatile cache, and does wrong what it is told to.
//!
//! ```text
//!   submit --> in flight --some time--> performed: read, or written to the cache --flush--> durable
//!                  |                        |
//!                  +-- power cut: each sector of what is in flight or in the cache survives, vanishes or tears
//! ```
//!
//! I/O in flight is performed in any order. It lands also when its process has ended meanwhile, and until it has,
//! nobody else can claim the disk (R1).

use crate::executor::{Core, ProcessId, lock};
use plinth_engine::{
    completion::{Completer, Completion, Done, completion},
    testing::{Image, Numbers, failed, fits},
    world::{Disk, Io, Sectors},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    sync::{Arc, Mutex},
    time::Duration,
};

/// What a disk does wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// Every I/O fails.
    pub gone: bool,
    /// So many more reads, writes or flushes fail.
    pub failing_reads: u32,
    pub failing_writes: u32,
    pub failing_flushes: u32,
    /// I/O is taken and does not end until the disk is healed.
    pub hang: bool,
    /// Each I/O takes so much longer.
    pub slow: Duration,
}

/// One opening of a disk.
type Handle = u64;

struct Flight {
    io: Io,
    completer: Completer,
    handle: Handle,
}

struct Medium {
    image: Image,
    faults: Faults,
    flights: BTreeMap<u64, Flight>,
    /// Flights whose time is over, on a disk that hangs.
    hung: Vec<u64>,
    count: u64,
    /// Openings that were not closed.
    open: BTreeSet<Handle>,
    /// Who claimed the disk.
    holder: Option<(Handle, ProcessId)>,
}

/// A disk. Clones are the same one.
#[derive(Clone)]
pub struct SimDisk {
    core: Arc<Core>,
    path: Arc<str>,
    size: u64,
    sectors: Sectors,
    medium: Arc<Mutex<Medium>>,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDisk({})", self.path)
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
    /// A disk full of what somebody else left there.
    pub fn new(core: &Arc<Core>, path: &str, size: u64, sectors: Sectors) -> Self {
        let medium = Medium {
            image: Image::noisy(core.draw()),
            faults: Faults::default(),
            flights: BTreeMap::new(),
            hung: Vec::new(),
            count: 0,
            open: BTreeSet::new(),
            holder: None,
        };
        Self { core: Arc::clone(core), path: path.into(), size, sectors, medium: Arc::new(Mutex::new(medium)) }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Changes what the disk does wrong.
    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut lock(&self.medium).faults);
    }

    /// Ends every fault; what hung is done now.
    pub fn heal(&self) {
        let hung = {
            let mut medium = lock(&self.medium);
            medium.faults = Faults::default();
            std::mem::take(&mut medium.hung)
        };
        for flight in hung {
            self.land(flight);
        }
    }

    /// Overwrites bytes behind everybody's back.
    pub fn corrupt(&self, offset: u64, bytes: &[u8]) {
        lock(&self.medium).image.corrupt(offset, bytes);
    }

    /// Cuts the power.
    pub fn cut_power(&self) {
        let seed = self.core.draw();
        let mut medium = lock(&self.medium);
        // What was in flight may have come as far as the cache, in any order.
        let mut flights: Vec<Flight> = std::mem::take(&mut medium.flights).into_values().collect();
        let mut numbers = Numbers::new(seed);
        while !flights.is_empty() {
            let index = usize::try_from(numbers.below(flights.len() as u64)).expect("small");
            if let Io::Write { offset, data } = &flights.swap_remove(index).io {
                medium.image.write(*offset, data);
            }
        }
        let sector = self.sectors.physical as usize;
        medium.image.cut_power(&mut numbers, sector);
        medium.hung.clear();
        medium.holder = None;
    }

    /// Opens the disk afresh, for a process.
    pub fn open(&self, process: ProcessId) -> Arc<dyn Disk> {
        let mut medium = lock(&self.medium);
        medium.count += 1;
        let handle = medium.count;
        medium.open.insert(handle);
        drop(medium);
        Arc::new(OpenDisk { disk: self.clone(), handle, process })
    }

    /// The time of a flight is over.
    fn land(&self, id: u64) {
        let (flight, done) = {
            let mut medium = lock(&self.medium);
            if medium.faults.hang && medium.flights.contains_key(&id) {
                medium.hung.push(id);
                return;
            }
            let Some(mut flight) = medium.flights.remove(&id) else { return };
            let io = std::mem::replace(&mut flight.io, Io::Flush);
            (flight, self.perform(&mut medium, io))
        };
        self.core.note(id ^ u64::from(done.result.is_ok()));
        // In a dead process nobody is there to be woken.
        flight.completer.finish(done);
    }

    fn perform(&self, medium: &mut Medium, io: Io) -> Done {
        let faults = &mut medium.faults;
        let refused = faults.gone
            || match &io {
                Io::Read { .. } => some_left(&mut faults.failing_reads),
                Io::Write { .. } => some_left(&mut faults.failing_writes),
                Io::Flush => some_left(&mut faults.failing_flushes),
                Io::Discard { .. } => false,
            };
        if refused {
            if let Io::Flush = io {
                // What a failed flush covered may be lost, and a later flush would not bring it back.
                let seed = self.core.draw();
                medium.image.cut_power(&mut Numbers::new(seed), self.sectors.physical as usize);
            }
            return failed(io, eio());
        }
        match io {
            Io::Read { offset, mut buffer } => {
                medium.image.read(offset, &mut buffer);
                return Done { result: Ok(()), buffer: Some(buffer) };
            }
            Io::Write { offset, data } => {
                medium.image.write(offset, &data);
            }
            Io::Flush => medium.image.flush(),
            Io::Discard { offset, length } => {
                // Zeros, what was there, or noise.
                let mut left = vec![0; usize::try_from(length).expect("below the disk's size")];
                match self.core.below(3) {
                    0 => medium.image.write(offset, &left),
                    1 => {}
                    _ => {
                        self.core.fill(&mut left);
                        medium.image.write(offset, &left);
                    }
                }
            }
        }
        Done { result: Ok(()), buffer: None }
    }

    /// How long an I/O takes: mostly short, now and then long enough that others overtake it.
    fn time(&self, faults: &Faults) -> Duration {
        let micros = match self.core.below(20) {
            0 => 1_000 + self.core.below(8_000),
            1..4 => 100 + self.core.below(900),
            _ => 20 + self.core.below(80),
        };
        Duration::from_micros(micros) + faults.slow
    }
}

struct OpenDisk {
    disk: SimDisk,
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
        &self.disk.path
    }

    fn size(&self) -> u64 {
        self.disk.size
    }

    fn sectors(&self) -> Sectors {
        self.disk.sectors
    }

    fn can_discard(&self) -> bool {
        true
    }

    fn submit(&self, io: Io) -> Completion {
        if !fits(&io, self.disk.size, self.disk.sectors) {
            return Completion::ready(failed(io, io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let (completion, completer) = completion();
        if self.disk.core.is_dead(self.process) {
            return completion;
        }
        let mut medium = lock(&self.disk.medium);
        medium.count += 1;
        let id = medium.count;
        let time = self.disk.time(&medium.faults);
        let flight = Flight { io, completer, handle: self.handle };
        medium.flights.insert(id, flight);
        drop(medium);
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

    fn occupant(&self) -> Option<String> {
        None
    }

    fn user(&self) -> Option<String> {
        None
    }
}

impl Drop for OpenDisk {
    fn drop(&mut self) {
        // Its I/O in flight holds the disk on: see `claim`.
        lock(&self.disk.medium).open.remove(&self.handle);
    }
}
