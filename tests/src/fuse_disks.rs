#![allow(unsafe_code)]
//! Disks made by a program: a FUSE file system of one folder, with the files of a [`Files`].
//!
//! ```text
//!   engine --O_DIRECT--> kernel --/dev/fuse--> workers --> Files of plinth-recorder, plinth-slow
//! ```
//!
//! Reads and writes go past the kernel's cache, side by side. It is unmounted when it is dropped.
//! Unsafe: one flag of the kernel has no name in the library.

use fuse_backend_rs::{
    abi::fuse_abi::{Attr, stat64},
    api::{
        filesystem::{
            Context, Entry, FileSystem, FsOptions, OpenOptions, ZeroCopyReader, ZeroCopyWriter,
        },
        server::Server,
    },
    transport::{FuseBuf, FuseDevWriter, Reader},
};
use rustix::{
    fs::OFlags,
    io::Errno,
    mount::{MountFlags, UnmountFlags},
};
use std::{
    ffi::{CStr, CString},
    io::{self, Read},
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
    thread,
    time::Duration,
};

/// The longest request: 1 MiB of data and its header.
const REQUEST_MAX: usize = (1 << 20) + (64 << 10);
const ROOT: u64 = 1;
/// No other program changes anything, so the kernel may cache what it knows.
const FOREVER: Duration = Duration::from_secs(3600);

/// The files of the folder, by nodes from 2 on.
pub trait Files: Send + Sync + 'static {
    fn find(&self, name: &CStr) -> Option<u64>;
    /// In bytes; 0 for a file that is no disk.
    fn size(&self, node: u64) -> u64;
    /// # Errors
    /// The error of the read, for the program.
    fn read(&self, node: u64, offset: u64, length: usize) -> io::Result<Vec<u8>>;
    /// Writes `length` bytes, which come from `bytes`.
    ///
    /// # Errors
    /// The error of the write, for the program.
    fn write(&self, node: u64, offset: u64, length: usize, bytes: &mut dyn Read) -> io::Result<()>;
    /// # Errors
    /// The error of the flush, for the program.
    fn sync(&self, node: u64) -> io::Result<()>;
    /// # Errors
    /// The error of the discard, for the program.
    fn discard(&self, node: u64, offset: u64, length: u64) -> io::Result<()>;
}

/// A mount that is served until it is dropped.
pub struct Served {
    mount: String,
}

impl Served {
    /// Mounts files on an empty folder, and serves them with `threads` threads.
    ///
    /// # Panics
    /// Without root, or /dev/fuse.
    pub fn start(name: &str, mount: &str, workers: usize, files: impl Files) -> Self {
        let device = rustix::fs::open(
            "/dev/fuse",
            OFlags::RDWR | OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )
        .expect("/dev/fuse can be opened");
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = CString::new(options).expect("no zero byte");
        let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOATIME;
        rustix::mount::mount(name, mount, format!("fuse.{name}"), flags, Some(options.as_c_str()))
            .expect("a FUSE mount");
        let (device, files) = (Arc::new(device), Arc::new(files));
        for _ in 0..workers {
            let (device, files) = (Arc::clone(&device), Kernel(Arc::clone(&files)));
            thread::spawn(move || serve(&device, files));
        }
        Self { mount: mount.to_owned() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.mount, UnmountFlags::DETACH);
    }
}

/// The life of one thread: until the file system is unmounted.
fn serve<F: Files>(device: &OwnedFd, files: Kernel<F>) {
    let server = Server::new(files);
    let (mut request, mut answer) = (vec![0; REQUEST_MAX], vec![0; REQUEST_MAX]);
    loop {
        let length = match rustix::io::read(device, &mut request[..]) {
            Ok(length) if length > 0 => length,
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
            _ => return,
        };
        let Ok(reader) = Reader::<()>::from_fuse_buffer(FuseBuf::new(&mut request[..length]))
        else {
            return;
        };
        let Ok(writer) = FuseDevWriter::<()>::new(device.as_raw_fd(), &mut answer[..]) else {
            return;
        };
        // A request that was interrupted meanwhile cannot be answered, and need not be.
        let _ = server.handle_message(reader, writer.into(), None, None);
    }
}

/// The files as the kernel requests them.
struct Kernel<F>(Arc<F>);

impl<F: Files> Kernel<F> {
    fn attributes(&self, node: u64) -> stat64 {
        let mut stat = stat64::from(Attr::default());
        stat.st_ino = node;
        stat.st_nlink = 1;
        stat.st_mode = if node == ROOT { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o600 };
        stat.st_blksize = 4096;
        if node != ROOT {
            stat.st_size = i64::try_from(self.0.size(node)).expect("a test's disk");
            stat.st_blocks = stat.st_size / 512;
        }
        stat
    }
}

impl<F: Files> FileSystem for Kernel<F> {
    type Inode = u64;
    type Handle = u64;

    fn init(&self, capable: FsOptions) -> io::Result<FsOptions> {
        Ok(capable
            & (FsOptions::ASYNC_READ
                | FsOptions::BIG_WRITES
                | FsOptions::MAX_PAGES
                | FsOptions::INIT_EXT))
    }

    fn lookup(&self, _: &Context, parent: u64, name: &CStr) -> io::Result<Entry> {
        let found = self.0.find(name).filter(|_| parent == ROOT);
        let node = found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        Ok(Entry {
            inode: node,
            generation: 0,
            attr: self.attributes(node),
            attr_flags: 0,
            attr_timeout: FOREVER,
            entry_timeout: FOREVER,
        })
    }

    fn getattr(&self, _: &Context, node: u64, _: Option<u64>) -> io::Result<(stat64, Duration)> {
        Ok((self.attributes(node), FOREVER))
    }

    fn open(
        &self,
        _: &Context,
        _: u64,
        _: u32,
        _: u32,
    ) -> io::Result<(Option<u64>, OpenOptions, Option<u32>)> {
        const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
        // SAFETY: any bits are a valid value of a type that is a `u32`; the library passes them on
        // as they are.
        let options = unsafe {
            OpenOptions::from_bits_unchecked(OpenOptions::DIRECT_IO.bits() | PARALLEL_DIRECT_WRITES)
        };
        Ok((None, options, None))
    }

    fn release(
        &self,
        _: &Context,
        _: u64,
        _: u32,
        _: u64,
        _: bool,
        _: bool,
        _: Option<u64>,
    ) -> io::Result<()> {
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
        let bytes = self.0.read(node, offset, size as usize)?;
        answer.write_all(&bytes)?;
        Ok(bytes.len())
    }

    fn write(
        &self,
        _: &Context,
        node: u64,
        _: u64,
        mut request: &mut dyn ZeroCopyReader,
        size: u32,
        offset: u64,
        _: Option<u64>,
        _: bool,
        _: u32,
        _: u32,
    ) -> io::Result<usize> {
        self.0.write(node, offset, size as usize, &mut request)?;
        Ok(size as usize)
    }

    fn fsync(&self, _: &Context, node: u64, _: bool, _: u64) -> io::Result<()> {
        self.0.sync(node)
    }

    fn fallocate(
        &self,
        _: &Context,
        node: u64,
        _: u64,
        mode: u32,
        offset: u64,
        length: u64,
    ) -> io::Result<()> {
        if mode.cast_signed() != libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        self.0.discard(node, offset, length)
    }
}
