//! A disk whose reads take as long as one likes: a FUSE file system with one file, `disk`, that shows another file.
//!
//!     plinth-slow MOUNT FILE
//!
//! It says `ready` when the file is there. Each line of its standard input is a number of microseconds: every read that begins after it takes so
//! much longer. It ends when its standard input does. Nothing else is delayed, and nothing is kept in memory.
#![allow(unsafe_code)]

use fuse_backend_rs::{
    abi::fuse_abi::{Attr, stat64},
    api::{
        filesystem::{Context, Entry, FileSystem, FsOptions, OpenOptions, ZeroCopyReader, ZeroCopyWriter},
        server::Server,
    },
    transport::{FuseBuf, FuseDevWriter, Reader},
};
use rustix::{
    fs::{FallocateFlags, OFlags, fallocate},
    io::Errno,
    mount::{MountFlags, UnmountFlags},
};
use std::{
    ffi::{CStr, CString},
    fs::File,
    io::{self, BufRead},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::FileExt,
    },
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Threads that serve: as many reads may be delayed at once.
const WORKERS: usize = 16;
/// The longest request: 1 MiB of data and its header.
const REQUEST_MAX: usize = (1 << 20) + (64 << 10);
const ROOT: u64 = 1;
const DISK: u64 = 2;
/// Nobody else changes anything, so the kernel may keep what it knows.
const FOREVER: Duration = Duration::from_secs(3600);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(mount), Some(path)) = (arguments.next(), arguments.next()) else { panic!("no mount, no file") };
    let file = File::options().read(true).write(true).open(path).expect("the file");
    let size = file.metadata().expect("the file").len();
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, rustix::fs::Mode::empty())
        .expect("/dev/fuse can be opened");
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
    let options = CString::new(options).expect("no zero byte");
    let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOATIME;
    rustix::mount::mount("slow", &mount, "fuse.slow", flags, Some(options.as_c_str())).expect("a FUSE mount");
    let disk = Arc::new(Disk { file, size, delay: AtomicU64::new(0) });
    let device = Arc::new(device);
    for _ in 0..WORKERS {
        let (device, files) = (Arc::clone(&device), Files(Arc::clone(&disk)));
        thread::spawn(move || serve(&device, files));
    }
    println!("ready");
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        disk.delay.store(line.trim().parse().expect("microseconds"), Ordering::SeqCst);
        println!("{line}");
    }
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

struct Disk {
    file: File,
    size: u64,
    /// Microseconds.
    delay: AtomicU64,
}

/// The disk as the kernel asks for it.
struct Files(Arc<Disk>);

impl Files {
    fn attributes(&self, node: u64) -> stat64 {
        let mut stat = stat64::from(Attr::default());
        stat.st_ino = node;
        stat.st_nlink = 1;
        stat.st_mode = if node == ROOT { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o600 };
        stat.st_blksize = 4096;
        if node == DISK {
            stat.st_size = i64::try_from(self.0.size).expect("a test's disk");
            stat.st_blocks = stat.st_size / 512;
        }
        stat
    }
}

impl FileSystem for Files {
    type Inode = u64;
    type Handle = u64;

    fn init(&self, capable: FsOptions) -> io::Result<FsOptions> {
        Ok(capable & (FsOptions::ASYNC_READ | FsOptions::BIG_WRITES | FsOptions::MAX_PAGES | FsOptions::INIT_EXT))
    }

    fn lookup(&self, _: &Context, parent: u64, name: &CStr) -> io::Result<Entry> {
        if parent != ROOT || name != c"disk" {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        Ok(Entry {
            inode: DISK,
            generation: 0,
            attr: self.attributes(DISK),
            attr_flags: 0,
            attr_timeout: FOREVER,
            entry_timeout: FOREVER,
        })
    }

    fn getattr(&self, _: &Context, node: u64, _: Option<u64>) -> io::Result<(stat64, Duration)> {
        Ok((self.attributes(node), FOREVER))
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
        Ok(())
    }

    fn read(
        &self,
        _: &Context,
        _: u64,
        _: u64,
        answer: &mut dyn ZeroCopyWriter,
        size: u32,
        offset: u64,
        _: Option<u64>,
        _: u32,
    ) -> io::Result<usize> {
        let delay = self.0.delay.load(Ordering::SeqCst);
        if delay > 0 {
            thread::sleep(Duration::from_micros(delay));
        }
        let length = u64::from(size).min(self.0.size.saturating_sub(offset));
        let mut bytes = vec![0; usize::try_from(length).expect("a request's length")];
        self.0.file.read_exact_at(&mut bytes, offset)?;
        answer.write_all(&bytes)?;
        Ok(bytes.len())
    }

    fn write(
        &self,
        _: &Context,
        _: u64,
        _: u64,
        request: &mut dyn ZeroCopyReader,
        size: u32,
        offset: u64,
        _: Option<u64>,
        _: bool,
        _: u32,
        _: u32,
    ) -> io::Result<usize> {
        let mut bytes = vec![0; size as usize];
        request.read_exact(&mut bytes)?;
        self.0.file.write_all_at(&bytes, offset)?;
        Ok(bytes.len())
    }

    fn fsync(&self, _: &Context, _: u64, _: bool, _: u64) -> io::Result<()> {
        self.0.file.sync_data()
    }

    fn fallocate(&self, _: &Context, _: u64, _: u64, mode: u32, offset: u64, length: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if mode != flags.bits() {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        Ok(fallocate(&self.0.file, flags, offset, length)?)
    }
}
