//! Shows disks as files and records their I/O; `plinth_tests::recorder` starts it and describes its
//! purpose.
//!
//! It is a process of its own because a program that uses a mounted group may hold locks of its
//! memory while it waits for the disks (an `munmap` of a database's shared memory does): the disks
//! must not need that memory.
//!
//!     plinth-recorder MOUNT LOG NAME=IMAGE ...
//!
//! It prints `ready` when the files are there, and ends when its standard input does.

use plinth_tests::{
    Image,
    fuse_disks::{Files, Served},
    recorder::{Event, Io, MARKS},
};
use plinth_workload::lock;
use std::{
    ffi::{CStr, CString},
    fs::File,
    io::{self, BufWriter, Read, Write},
    path::Path,
    sync::{Mutex, MutexGuard},
    thread,
    time::Duration,
};

/// Threads that serve: as many as an engine has I/O in flight on a few disks.
const WORKERS: usize = 12;
/// Marks are written to this file, and the length of the recording is read from it.
const MARKS_NODE: u64 = 2;
/// Disks are nodes from here on.
const FIRST: u64 = 3;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(mount), Some(log)) = (arguments.next(), arguments.next()) else {
        panic!("no mount, no log")
    };
    let (names, images): (Vec<_>, Vec<_>) = arguments
        .map(|disk| {
            let (name, image) = disk.split_once('=').expect("NAME=IMAGE");
            (CString::new(name).expect("a name"), Image::load(Path::new(image)))
        })
        .unzip();
    let disks = Disks {
        names,
        sizes: images.iter().map(Image::size).collect(),
        state: Mutex::new(State {
            images,
            length: 0,
            log: BufWriter::with_capacity(1 << 20, File::create(log).expect("the log")),
        }),
    };
    let _served = Served::start("recorder", &mount, WORKERS, disks);
    println!("ready");
    let _ = io::stdin().read_to_end(&mut Vec::new());
}

struct Disks {
    names: Vec<CString>,
    sizes: Vec<u64>,
    state: Mutex<State>,
}

struct State {
    images: Vec<Image>,
    /// Events in the log.
    length: usize,
    log: BufWriter<File>,
}

impl State {
    fn record(&mut self, event: &Event) -> io::Result<()> {
        self.length += 1;
        event.put(&mut self.log)
    }
}

impl Disks {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn disk(&self, node: u64) -> io::Result<usize> {
        let disk = node.checked_sub(FIRST).and_then(|disk| usize::try_from(disk).ok());
        disk.filter(|disk| *disk < self.sizes.len())
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// Refuses a range that is not within the disk.
    fn within(&self, disk: usize, offset: u64, length: u64) -> io::Result<()> {
        let fits = offset.checked_add(length).is_some_and(|end| end <= self.sizes[disk]);
        if fits { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
    }

    /// Does an I/O that was submitted at `began`, and records its end.
    fn done(&self, disk: usize, began: usize, io: Io) -> io::Result<()> {
        let mut state = self.lock();
        match &io {
            Io::Write { offset, bytes } => state.images[disk].write(*offset, bytes),
            Io::Discard { offset, length } => state.images[disk].discard(*offset, *length),
            Io::Flush => {}
        }
        state.record(&Event::Io { disk, began, io })
    }
}

impl Files for Disks {
    fn find(&self, name: &CStr) -> Option<u64> {
        let disk = self
            .names
            .iter()
            .position(|own| own.as_c_str() == name)
            .map(|disk| FIRST + disk as u64);
        disk.or((name.to_bytes() == MARKS.as_bytes()).then_some(MARKS_NODE))
    }

    fn size(&self, node: u64) -> u64 {
        self.disk(node).map_or(0, |disk| self.sizes[disk])
    }

    fn read(&self, node: u64, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        if node == MARKS_NODE {
            let mut state = self.lock();
            state.log.flush()?;
            return Ok(if offset == 0 {
                state.length.to_string().into_bytes()
            } else {
                Vec::new()
            });
        }
        let disk = self.disk(node)?;
        let left = usize::try_from(self.sizes[disk].saturating_sub(offset)).expect("a test's disk");
        let mut bytes = vec![0; length.min(left)];
        self.lock().images[disk].read(offset, &mut bytes);
        Ok(bytes)
    }

    fn write(&self, node: u64, offset: u64, length: usize, bytes: &mut dyn Read) -> io::Result<()> {
        let began = self.lock().length;
        let mut written = vec![0; length];
        bytes.read_exact(&mut written)?;
        if node == MARKS_NODE {
            let text = String::from_utf8_lossy(&written);
            let mut words = text.split_whitespace().map(str::parse);
            let (Some(Ok(stream)), Some(Ok(number))) = (words.next(), words.next()) else {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            };
            let stream = usize::try_from(stream).expect("a small number");
            return self.lock().record(&Event::Mark { stream, number });
        }
        let disk = self.disk(node)?;
        self.within(disk, offset, length as u64)?;
        self.done(disk, began, Io::Write { offset, bytes: written.into() })
    }

    fn sync(&self, node: u64) -> io::Result<()> {
        let disk = self.disk(node)?;
        let began = self.lock().length;
        // The other disks go on meanwhile: between the ends of flushes that belong together there
        // is room for a cut.
        thread::sleep(Duration::from_micros(100 * (began as u64 % 4)));
        self.done(disk, began, Io::Flush)
    }

    fn discard(&self, node: u64, offset: u64, length: u64) -> io::Result<()> {
        let disk = self.disk(node)?;
        self.within(disk, offset, length)?;
        let began = self.lock().length;
        self.done(disk, began, Io::Discard { offset, length })
    }
}
