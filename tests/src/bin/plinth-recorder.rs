//! Shows disks as files and records what they are told; `plinth_tests::recorder` starts it and says what for.
//!
//! It is a process of its own because whoever uses a mounted group may hold locks of its memory while it waits for the
//! disks (an `munmap` of a database's shared memory does): the disks must not need that memory.
//!
//!     plinth-recorder MOUNT LOG NAME=IMAGE ...
//!
//! It says `ready` when the files are there, and ends when its standard input does.
#![allow(unsafe_code)]

use fuse_backend_rs::{
    abi::fuse_abi::{Attr, stat64},
    api::{
        filesystem::{Context, Entry, FileSystem, FsOptions, OpenOptions, ZeroCopyReader, ZeroCopyWriter},
        server::Server,
    },
    transport::{FuseBuf, FuseDevWriter, Reader},
};
use plinth_tests::{
    Image,
    recorder::{Event, Io, MARKS},
};
use rustix::{
    fs::OFlags,
    io::Errno,
    mount::{MountFlags, UnmountFlags},
};
use std::{
    ffi::{CStr, CString},
    fs::File,
    io::{self, BufWriter, Read, Write},
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// Threads that serve: as many as an engine has I/O under way on a few disks.
const WORKERS: usize = 12;
/// The longest request: 1 MiB of data and its header.
const REQUEST_MAX: usize = (1 << 20) + (64 << 10);
const ROOT: u64 = 1;
/// Where marks are written, and the length of the recording is read.
const MARKS_NODE: u64 = 2;
/// Disks are nodes from here on.
const FIRST: u64 = 3;
/// Nobody else changes anything, so the kernel may keep what it knows.
const FOREVER: Duration = Duration::from_secs(3600);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(mount), Some(log)) = (arguments.next(), arguments.next()) else { panic!("no mount, no log") };
    let (names, images): (Vec<_>, Vec<_>) = arguments
        .map(|disk| {
            let (name, image) = disk.split_once('=').expect("NAME=IMAGE");
            (CString::new(name).expect("a name"), Image::load(Path::new(image)))
        })
        .unzip();
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, rustix::fs::Mode::empty())
        .expect("/dev/fuse can be opened");
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
    let options = CString::new(options).expect("no zero byte");
    let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOATIME;
    rustix::mount::mount("recorder", &mount, "fuse.recorder", flags, Some(options.as_c_str())).expect("a FUSE mount");
    let disks = Arc::new(Disks {
        names,
        sizes: images.iter().map(Image::size).collect(),
        state: Mutex::new(State {
            images,
            length: 0,
            log: BufWriter::with_capacity(1 << 20, File::create(log).expect("the log")),
        }),
    });
    let device = Arc::new(device);
    for _ in 0..WORKERS {
        let (device, files) = (Arc::clone(&device), Files(Arc::clone(&disks)));
        thread::spawn(move || serve(&device, files));
    }
    println!("ready");
    let _ = io::stdin().read_to_end(&mut Vec::new());
    let _ = rustix::mount::unmount(&mount, UnmountFlags::DETACH);
}

/// One thread's life: until nobody has the file system any more.
fn serve(device: &OwnedFd, files: Files) {
    let server = Server::new(files);
    let (mut request, mut answer) = (vec![0; REQUEST_MAX], vec![0; REQUEST_MAX]);
    loop {
        let length = match rustix::io::read(device, &mut request[..]) {
            Ok(length) if length > 0 => length,
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
            _ => return,
        };
        let Ok(reader) = Reader::<()>::from_fuse_buffer(FuseBuf::new(&mut request[..length])) else { return };
        let Ok(writer) = FuseDevWriter::<()>::new(device.as_raw_fd(), &mut answer[..]) else { return };
        // A request that was taken back meanwhile cannot be answered, and need not be.
        let _ = server.handle_message(reader, writer.into(), None, None);
    }
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disk(&self, node: u64) -> io::Result<usize> {
        let disk = node.checked_sub(FIRST).and_then(|disk| usize::try_from(disk).ok());
        disk.filter(|disk| *disk < self.sizes.len()).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// Refuses what is not within the disk.
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

    fn attributes(&self, node: u64) -> stat64 {
        let mut stat = stat64::from(Attr::default());
        stat.st_ino = node;
        stat.st_nlink = 1;
        stat.st_mode = if node == ROOT { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o600 };
        stat.st_blksize = 4096;
        if let Ok(disk) = self.disk(node) {
            stat.st_size = i64::try_from(self.sizes[disk]).expect("a test's disk");
            stat.st_blocks = stat.st_size / 512;
        }
        stat
    }
}

/// The disks as the kernel asks for them.
struct Files(Arc<Disks>);

impl FileSystem for Files {
    type Inode = u64;
    type Handle = u64;

    fn init(&self, capable: FsOptions) -> io::Result<FsOptions> {
        Ok(capable & (FsOptions::ASYNC_READ | FsOptions::BIG_WRITES | FsOptions::MAX_PAGES | FsOptions::INIT_EXT))
    }

    fn lookup(&self, _: &Context, parent: u64, name: &CStr) -> io::Result<Entry> {
        let disk = self.0.names.iter().position(|own| own.as_c_str() == name).map(|disk| FIRST + disk as u64);
        let found = disk.or((name.to_bytes() == MARKS.as_bytes()).then_some(MARKS_NODE)).filter(|_| parent == ROOT);
        let node = found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        Ok(Entry {
            inode: node,
            generation: 0,
            attr: self.0.attributes(node),
            attr_flags: 0,
            attr_timeout: FOREVER,
            entry_timeout: FOREVER,
        })
    }

    fn getattr(&self, _: &Context, node: u64, _: Option<u64>) -> io::Result<(stat64, Duration)> {
        Ok((self.0.attributes(node), FOREVER))
    }

    fn open(&self, _: &Context, _: u64, _: u32, _: u32) -> io::Result<(Option<u64>, OpenOptions, Option<u32>)> {
        const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
        // SAFETY: any bits are a valid value of a type that is a `u32`; the library passes them on as they are.
        let options =
            unsafe { OpenOptions::from_bits_unchecked(OpenOptions::DIRECT_IO.bits() | PARALLEL_DIRECT_WRITES) };
        Ok((None, options, None))
    }

    fn release(&self, _: &Context, _: u64, _: u32, _: u64, _: bool, _: bool, _: Option<u64>) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self, _: &Context, _: u64, _: u64, _: u64) -> io::Result<()> {
        // A file was closed, which makes nothing durable.
        Ok(())
    }

    fn read(
        &self,
        _: &Context,
        node: u64,
        _: u64,
        answer: &mut dyn ZeroCopyWriter,
        size: u32,
        offset: u64,
        _: Option<u64>,
        _: u32,
    ) -> io::Result<usize> {
        let bytes = if node == MARKS_NODE {
            let mut state = self.0.lock();
            state.log.flush()?;
            if offset == 0 { state.length.to_string().into_bytes() } else { Vec::new() }
        } else {
            let disk = self.0.disk(node)?;
            let length = u64::from(size).min(self.0.sizes[disk].saturating_sub(offset));
            let mut bytes = vec![0; usize::try_from(length).expect("a request's length")];
            self.0.lock().images[disk].read(offset, &mut bytes);
            bytes
        };
        answer.write_all(&bytes)?;
        Ok(bytes.len())
    }

    fn write(
        &self,
        _: &Context,
        node: u64,
        _: u64,
        request: &mut dyn ZeroCopyReader,
        size: u32,
        offset: u64,
        _: Option<u64>,
        _: bool,
        _: u32,
        _: u32,
    ) -> io::Result<usize> {
        let began = self.0.lock().length;
        let mut bytes = vec![0; size as usize];
        request.read_exact(&mut bytes)?;
        if node == MARKS_NODE {
            let text = String::from_utf8_lossy(&bytes);
            let mut words = text.split_whitespace().map(str::parse);
            let (Some(Ok(stream)), Some(Ok(number))) = (words.next(), words.next()) else {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            };
            let stream = usize::try_from(stream).expect("a small number");
            self.0.lock().record(&Event::Mark { stream, number })?;
        } else {
            let disk = self.0.disk(node)?;
            self.0.within(disk, offset, size.into())?;
            self.0.done(disk, began, Io::Write { offset, bytes: bytes.into() })?;
        }
        Ok(size as usize)
    }

    fn fsync(&self, _: &Context, node: u64, _: bool, _: u64) -> io::Result<()> {
        let disk = self.0.disk(node)?;
        let began = self.0.lock().length;
        // The other disks go on meanwhile: between the ends of flushes that belong together there is room for a cut.
        thread::sleep(Duration::from_micros(100 * (began as u64 % 4)));
        self.0.done(disk, began, Io::Flush)
    }

    fn fallocate(&self, _: &Context, node: u64, _: u64, mode: u32, offset: u64, length: u64) -> io::Result<()> {
        if mode.cast_signed() != libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let disk = self.0.disk(node)?;
        self.0.within(disk, offset, length)?;
        let began = self.0.lock().length;
        self.0.done(disk, began, Io::Discard { offset, length })
    }
}
