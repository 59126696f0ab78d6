//! A real disk: a block device, a partition or a regular file.
//!
//! It is opened read-only, to be looked at: that disturbs nobody who uses it, and no
//! udev rule takes the closing of it for a change. `claim` then takes it for writing:
//!
//!   1. What is open is opened once more, for writing; a block device with `O_EXCL`,
//!      which the kernel refuses while it is mounted, swapped to, or part of an LVM,
//!      MD or multipath device.
//!   2. The new open file description gets a write lock (R1).
//!   3. From then on all I/O goes through this very description.
//!
//! The kernel drops lock and exclusive use when the description is gone, which an
//! I/O in flight prevents, also after the process was killed. So nothing but this
//! disk and its operations may hold a share of it.
//!
//! A ring is only for media whose submission never blocks: block devices, and files of the
//! file systems in [`NEVER_BLOCKS`]. A FUSE or network file system makes the submitter
//! wait when its server hangs (seen: a FUSE file with more than twelve requests under
//! way), and with it all other disks of that thread; such a file has threads of its own.
//!
//! Nor does a file of such a file system get writes that are to be durable by a flag (`RWF_DSYNC`): with direct I/O Linux leaves it
//! to the server to look at that, and hardly any does. A thread writes and then flushes.
//!
//! I/O is direct. Where a file system refuses that (`EINVAL`), or wants more than
//! 4 KiB of alignment, it goes through the page cache, and a flush is what makes it durable.

use super::{
    IoEngine, executor, occupant,
    op::{Op, Work},
    patience::{Handle, PATIENCE, within},
    pool::Pool,
    sys,
};
use plinth_engine::{
    completion::{Completion, Done, completion},
    world::{Disk, Identity, Io, Sectors},
};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// The largest sector, and the alignment of every buffer.
const SECTOR_MAX: u32 = 4096;

/// Local file systems that honour `IOCB_NOWAIT`, by the magic of statfs(2).
const NEVER_BLOCKS: [u64; 6] = [
    0xef53,      // ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0xf2f5_2010, // F2FS
    0xca45_1a4e, // bcachefs
    0x0102_1994, // tmpfs
];

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Medium {
    Block { major: u32, minor: u32 },
    File { device: u64, inode: u64 },
}

pub(super) struct RealDisk {
    path: String,
    medium: Medium,
    size: AtomicU64,
    sectors: Sectors,
    direct: bool,
    can_discard: Arc<AtomicBool>,
    rotates: bool,
    engine: IoEngine,
    /// For looking, until the disk is claimed.
    file: Arc<Handle>,
    /// For everything, once it is.
    claimed: OnceLock<Arc<Handle>>,
    pool: Pool,
}

/// A path that leads to something that cannot be a disk.
#[derive(Debug, thiserror::Error)]
#[error("{0} is neither a block device nor a regular file")]
pub(super) struct NotADisk(String);

impl Medium {
    /// What the path leads to; `None` if that cannot be a disk.
    pub(super) fn of(metadata: &fs::Metadata) -> Option<Self> {
        let kind = metadata.file_type();
        if kind.is_block_device() {
            let device = metadata.rdev();
            Some(Self::Block { major: rustix::fs::major(device), minor: rustix::fs::minor(device) })
        } else if kind.is_file() {
            Some(Self::File { device: metadata.dev(), inode: metadata.ino() })
        } else {
            None
        }
    }

    /// Its directory in sysfs, if it is a block device.
    pub(super) fn sysfs(self) -> Option<String> {
        match self {
            Self::Block { major, minor } => Some(format!("/sys/dev/block/{major}:{minor}")),
            Self::File { .. } => None,
        }
    }

    /// Whether it says that it rotates. A loop device says what its file's device says, or nothing that is so.
    fn rotates(self) -> bool {
        const LOOP_MAJOR: u32 = 7;
        let Self::Block { major, .. } = self else { return false };
        let says = |sysfs: String| {
            ["queue", "../queue"]
                .iter()
                .find_map(|queue| fs::read_to_string(format!("{sysfs}/{queue}/rotational")).ok())
        };
        major != LOOP_MAJOR && self.sysfs().and_then(says).is_some_and(|says| says.trim() == "1")
    }

    /// The device's world-wide name if it has one, else its number; a file's place.
    pub(super) fn identity(self) -> Identity {
        let (major, minor, sysfs) = match (self, self.sysfs()) {
            (Self::Block { major, minor }, Some(sysfs)) => (major, minor, sysfs),
            (Self::File { device, inode }, _) => return Identity(format!("file:{device}:{inode}")),
            (Self::Block { .. }, None) => unreachable!("a block device has a sysfs path"),
        };
        let word = |path: String| {
            let text = fs::read_to_string(path).ok()?;
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            (!text.is_empty()).then_some(text)
        };
        let partition = word(format!("{sysfs}/partition"));
        // sysfs resolves the link before "..", so this is the whole disk of a partition.
        let whole = if partition.is_some() { format!("{sysfs}/..") } else { sysfs };
        let name = ["device/wwid", "wwid", "dm/uuid"].iter().find_map(|leaf| word(format!("{whole}/{leaf}")));
        Identity(match (name, partition) {
            (Some(name), Some(partition)) => format!("wwid:{name}:{partition}"),
            (Some(name), None) => format!("wwid:{name}"),
            (None, _) => format!("block:{major}:{minor}"),
        })
    }
}

impl RealDisk {
    /// Opens a disk to look at it. May hang as long as the device does.
    ///
    /// # Errors
    /// What the operating system says, or that this cannot be a disk.
    pub(super) fn open(path: &str, engine: IoEngine) -> io::Result<Self> {
        let medium = Medium::of(&fs::metadata(path)?).ok_or_else(|| io::Error::other(NotADisk(path.to_owned())))?;
        let (mut file, mut direct) = match open_with(Path::new(path), OFlags::RDONLY, true) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                (open_with(Path::new(path), OFlags::RDONLY, false)?, false)
            }
            opened => (opened?, true),
        };
        if direct && matches!(medium, Medium::File { .. }) && file_alignment(&file) > SECTOR_MAX {
            (file, direct) = (open_with(Path::new(path), OFlags::RDONLY, false)?, false);
        }
        if Medium::of(&file.metadata()?) != Some(medium) {
            return Err(io::Error::other(format!("{path} changed while it was being opened; try again")));
        }
        let sectors = match medium {
            Medium::Block { .. } => block_sectors(&file)?,
            Medium::File { .. } if direct && file_alignment(&file) > 512 => {
                Sectors { logical: SECTOR_MAX, physical: SECTOR_MAX }
            }
            Medium::File { .. } => Sectors { logical: 512, physical: 512 },
        };
        let size = size_of(&file, sectors)?;
        let file_system = rustix::fs::fstatfs(&file)?.f_type as u64;
        let engine = match medium {
            Medium::File { .. } if !NEVER_BLOCKS.contains(&file_system) => IoEngine::Threads,
            _ => engine,
        };
        let can_discard = medium.sysfs().is_none_or(|sysfs| {
            ["queue", "../queue"]
                .iter()
                .find_map(|queue| fs::read_to_string(format!("{sysfs}/{queue}/discard_max_bytes")).ok())
                .is_some_and(|bytes| bytes.trim() != "0")
        });
        Ok(Self {
            path: path.to_owned(),
            medium,
            size: AtomicU64::new(size),
            sectors,
            direct,
            can_discard: Arc::new(AtomicBool::new(can_discard)),
            rotates: medium.rotates(),
            engine,
            file: Arc::new(Handle::new(file)),
            claimed: OnceLock::new(),
            pool: Pool::default(),
        })
    }

    fn file(&self) -> &Arc<Handle> {
        self.claimed.get().unwrap_or(&self.file)
    }

    /// Why an I/O cannot even be tried.
    fn refusal(&self, io: &Io) -> Option<io::Error> {
        let refuse = |kind, text: String| Some(io::Error::new(kind, text));
        let (offset, length) = match io {
            Io::Read { offset, buffer } => (*offset, buffer.len() as u64),
            Io::Write { offset, data, .. } => (*offset, data.len() as u64),
            Io::Discard { offset, length } => (*offset, *length),
            Io::Flush => (0, 0),
        };
        if !matches!(io, Io::Read { .. }) && self.claimed.get().is_none() {
            return refuse(io::ErrorKind::PermissionDenied, "not claimed for writing".into());
        }
        let size = self.size();
        if offset.checked_add(length).is_none_or(|end| end > size) {
            let kind =
                if matches!(io, Io::Read { .. }) { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidInput };
            return refuse(kind, format!("ends at {}, and the disk has {size} bytes", offset.saturating_add(length)));
        }
        let sector = u64::from(self.sectors.logical);
        if !offset.is_multiple_of(sector) || !length.is_multiple_of(sector) {
            return refuse(io::ErrorKind::InvalidInput, format!("not a multiple of the sector, {sector} bytes"));
        }
        None
    }
}

/// Whole sectors of a device or a file, in bytes.
fn size_of(file: impl AsFd, sectors: Sectors) -> io::Result<u64> {
    // Seeking to the end gives the size of both alike.
    let size = rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?;
    Ok(size - size % u64::from(sectors.logical))
}

impl Disk for RealDisk {
    fn identity(&self) -> Identity {
        self.medium.identity()
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn measure(&self) -> u64 {
        if let Ok(size) = size_of(&***self.file(), self.sectors) {
            self.size.store(size, Ordering::Relaxed);
        }
        self.size()
    }

    fn sectors(&self) -> Sectors {
        self.sectors
    }

    fn rotates(&self) -> bool {
        self.rotates
    }

    fn can_discard(&self) -> bool {
        self.can_discard.load(Ordering::Relaxed)
    }

    fn submit(&self, io: Io) -> Completion {
        if let Some(error) = self.refusal(&io) {
            let buffer = match io {
                Io::Read { buffer, .. } => Some(buffer),
                _ => None,
            };
            return Completion::ready(Done { result: Err(error), buffer });
        }
        let work = match io {
            Io::Read { buffer, .. } if buffer.is_empty() => {
                return Completion::ready(Done { result: Ok(()), buffer: Some(buffer) });
            }
            Io::Write { data, .. } if data.is_empty() => {
                return Completion::ready(Done { result: Ok(()), buffer: None });
            }
            Io::Discard { length, .. } if length == 0 || !self.can_discard() => {
                return Completion::ready(Done { result: Ok(()), buffer: None });
            }
            Io::Read { offset, buffer } => Work::Read { offset, buffer, done: 0 },
            Io::Write { offset, data, durably } => Work::Write { offset, data, durably, done: 0 },
            Io::Flush => Work::Flush,
            Io::Discard { offset, length } => {
                let possible = Arc::clone(&self.can_discard);
                match self.medium {
                    Medium::Block { .. } => Work::Trim { offset, length, possible },
                    Medium::File { .. } => Work::Punch { offset, length, possible },
                }
            }
        };
        let (completion, completer) = completion();
        let op = Op { file: Arc::clone(self.file()), work, completer };
        let for_ring = self.engine == IoEngine::Uring && !matches!(op.work, Work::Trim { .. });
        match if for_ring { executor::submit(op) } else { Err(op) } {
            Ok(()) => {}
            Err(op) => self.pool.start(op),
        }
        completion
    }

    fn claim(&self) -> io::Result<()> {
        if self.claimed.get().is_some() {
            return Ok(());
        }
        let (looking, path, medium, direct) = (Arc::clone(&self.file), self.path.clone(), self.medium, self.direct);
        let claimed = within(PATIENCE, "disk-claim", move || open_and_lock(&looking, &path, medium, direct))??;
        // Of two threads that claim at once the second was refused above.
        let _ = self.claimed.set(Arc::new(claimed));
        Ok(())
    }

    fn occupant(&self) -> Option<String> {
        occupant::of(self.medium, &self.file, self.size(), self.sectors)
    }

    fn user(&self) -> Option<String> {
        occupant::user(self.medium)
    }
}

impl std::fmt::Debug for RealDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RealDisk")
            .field("path", &self.path)
            .field("medium", &self.medium)
            .field("size", &self.size())
            .field("claimed", &self.claimed.get().is_some())
            .finish_non_exhaustive()
    }
}

/// Opens what is open already once more, for writing, whatever its path leads to by now, and locks it.
fn open_and_lock(looking: &File, path: &str, medium: Medium, direct: bool) -> io::Result<Handle> {
    let same = format!("/proc/self/fd/{}", looking.as_raw_fd());
    let exclusive = if medium.sysfs().is_some() { OFlags::EXCL } else { OFlags::empty() };
    // The kernel opens a read-only device for writing, and refuses the writes.
    let is_read_only = |sysfs| fs::read_to_string(sysfs + "/ro").is_ok_and(|ro| ro.trim() == "1");
    let opened = match medium.sysfs().is_some_and(is_read_only) {
        true => Err(io::Error::from_raw_os_error(libc::EROFS)),
        false => open_with(Path::new(&same), OFlags::RDWR | exclusive, direct).map(Handle::new),
    };
    opened.and_then(|file| sys::lock(&file).map(|()| file)).map_err(|error| {
        let text = match (error.kind(), error.raw_os_error(), medium) {
            (io::ErrorKind::WouldBlock, ..) => {
                format!("{path} is held by another engine, or by I/O that one left behind")
            }
            (_, Some(libc::EBUSY), _) => {
                let user = occupant::user(medium).unwrap_or_else(|| "a program has it for itself".into());
                format!("{path} is in use: {user}")
            }
            (_, Some(libc::EROFS), Medium::Block { .. }) => format!("{path} is read-only: blockdev --setrw {path}"),
            (_, Some(libc::EROFS), Medium::File { .. }) => {
                format!("{path} is read-only: so is its file system; remount that read-write")
            }
            (_, Some(libc::EACCES | libc::EPERM), _) => {
                format!("{path} cannot be written: {error}; give the engine's user permission")
            }
            _ => format!("{path} cannot be opened and locked for writing: {error}"),
        };
        io::Error::new(error.kind(), text)
    })
}

fn open_with(path: &Path, flags: OFlags, direct: bool) -> io::Result<File> {
    let mut flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    flags.set(OFlags::DIRECT, direct);
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

fn block_sectors(file: &File) -> io::Result<Sectors> {
    let logical = rustix::fs::ioctl_blksszget(file)?;
    if logical != 512 && logical != 4096 {
        let text = format!("sectors of {logical} bytes; 512 and 4096 are supported");
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let physical = if rustix::fs::ioctl_blkpbszget(file)? >= SECTOR_MAX { SECTOR_MAX } else { logical };
    Ok(Sectors { logical, physical })
}

/// What direct I/O on the file must be a multiple of; 512 bytes if the file system does not say.
fn file_alignment(file: &File) -> u32 {
    match rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        // Memory is aligned to 4 KiB anyway; only a wish beyond that counts.
        Ok(answer) if answer.stx_dio_mem_align > SECTOR_MAX => answer.stx_dio_mem_align,
        Ok(answer) => answer.stx_dio_offset_align.max(512),
        Err(_) => 512,
    }
}
