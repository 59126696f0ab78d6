//! A real disk: a block device, a partition or a regular file.
//!
//! It is opened read-only at first: that disturbs no user of the device, and udev rules do not
//! treat the close as a change. Discovery has it opened and read by another process, which may hang
//! instead of this one (`probe.rs`). `claim` then takes it for writing:
//!
//!   1. It is opened once more, for writing; a block device with `O_EXCL`, which the kernel refuses
//!      while it is mounted, swapped to, or part of an LVM, MD or multipath device.
//!   2. The new open file description gets a write lock (R1).
//!   3. It is sent to this process, if another one opened it. From then on all I/O goes through
//!      this very description.
//!
//! The kernel drops the lock and the exclusive use when the description is gone, which an I/O in
//! flight prevents, even after the process was killed. So only this disk and its operations may
//! have a share of it. A disk that has threads and no ring is in the file table of those threads
//! alone (`apart.rs`): closing it, as the end of a process does, may hang as long as an I/O does.
//!
//! A ring is only for media whose submission never blocks: block devices, and files of the file
//! systems in [`NEVER_BLOCKS`]. A FUSE or network file system makes the submitter wait when its
//! server hangs (seen: a FUSE file with more than twelve requests in flight), and with it all other
//! disks of that thread; such a file has threads of its own.
//!
//! A file of such a file system is not written with the flag for durable writes (`RWF_DSYNC`)
//! either: with direct I/O Linux leaves the flag to the server, and hardly any server honours it. A
//! thread writes and then flushes.
//!
//! I/O is direct. Where a file system refuses that (`EINVAL`), or needs more than 4 KiB of
//! alignment, I/O goes through the page cache, and a flush makes it durable.

use super::{
    IoEngine, discards, executor, filter, holder, multipath,
    op::{Op, Work},
    pool::Pool,
    probe::Looked,
    signature, space_from, sys,
    timeout::{DISK_TIMEOUT, Handle, within},
};
use plinth_engine::{
    completion::{Completer, Completion, Done, completion},
    sync::buffer::Buffer,
    world::{
        Disk, Identity, Io, Sectors, SpaceFrom,
        discard_limits::{DiscardLimits, DiscardMeans, NoDiscards},
    },
};
use rustix::{
    fs::{AtFlags, Mode, OFlags, SeekFrom, StatxFlags},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
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

/// The device or file that a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Medium {
    Block { major: u32, minor: u32 },
    File { device: u64, inode: u64 },
}

/// Properties of a disk that has been opened for probing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) medium: Medium,
    pub(super) identity: String,
    pub(super) size: u64,
    logical: u32,
    physical: u32,
    pub(super) direct: bool,
    /// Submitting I/O to a ring can block on its file system.
    blocks_submitter: bool,
    discards: Result<DiscardLimits, NoDiscards>,
    rotates: bool,
    is_held: bool,
    /// The multipath map that it is a path of.
    pub(super) map: Option<String>,
    /// The label, if it was wanted.
    pub(super) label: Option<String>,
}

impl About {
    pub(super) fn sectors(&self) -> Sectors {
        Sectors { logical: self.logical, physical: self.physical }
    }
}

/// An open file, and the threads for its I/O.
struct Access {
    /// `None` if only the threads of its pool have it.
    file: Option<Arc<Handle>>,
    pool: OnceLock<Pool>,
}

/// How a disk is read until it is claimed.
enum Looking {
    Here(Arc<Access>),
    Looker(Looked),
}

pub(super) struct RealDisk {
    path: String,
    /// The path of the device: another one if the disk was found by its label.
    device: String,
    medium: Medium,
    identity: String,
    size: AtomicU64,
    sectors: Sectors,
    direct: bool,
    discards: Result<DiscardLimits, NoDiscards>,
    /// Cleared when a discard is refused as not supported.
    may_discard: Arc<AtomicBool>,
    rotates: bool,
    was_held: bool,
    engine: IoEngine,
    /// The path where it was last found, and the time when its threads last failed to answer.
    present: Mutex<(String, Option<Instant>)>,
    /// Set until the disk is claimed.
    looking: Mutex<Option<Arc<Looking>>>,
    /// Used for all I/O once the disk is claimed.
    claimed: OnceLock<Access>,
}

/// A path that leads to something that cannot be a disk.
#[derive(Debug, thiserror::Error)]
#[error("{0} is neither a block device nor a regular file")]
pub(super) struct NotADisk(pub(super) String);

impl Medium {
    /// The device or file that the metadata describe; `None` if that cannot be a disk.
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

    /// The file at this path, or the file of this loop device; and where the disk begins in it.
    fn file(self, path: &str) -> Option<(PathBuf, u64)> {
        match self {
            Self::File { device, inode } => fs::metadata(path)
                .is_ok_and(|file| (file.dev(), file.ino()) == (device, inode))
                .then(|| (PathBuf::from(path), 0)),
            Self::Block { .. } => {
                let read = |leaf| fs::read_to_string(self.sysfs()? + "/loop/" + leaf).ok();
                let offset = read("offset")?.trim().parse().ok()?;
                Some((read("backing_file")?.trim_end_matches('\n').into(), offset))
            }
        }
    }

    /// The bytes that its file takes in its file system.
    fn allocated(self, path: &str) -> Option<u64> {
        let (file, _) = self.file(path)?;
        Some(fs::metadata(file).ok()?.blocks() * 512)
    }

    /// Those of the bytes in `ranges` that its file has no space for.
    fn unwritten(self, path: &str, ranges: &[Range<u64>]) -> Option<u64> {
        let (file, begin) = self.file(path)?;
        let file = File::open(file).ok()?;
        let of = |range: &Range<u64>| {
            holes(&file, begin.checked_add(range.start)?..begin.checked_add(range.end)?)
        };
        ranges.iter().map(of).sum()
    }

    /// Whether the device reports that it rotates. A loop device reports the value of the device
    /// that holds its file, or a meaningless one.
    fn rotates(self) -> bool {
        const LOOP_MAJOR: u32 = 7;
        let Self::Block { major, .. } = self else { return false };
        major != LOOP_MAJOR && self.queue("rotational").is_some_and(|says| says == "1")
    }

    /// An attribute in sysfs of the queue of a block device; of the whole disk, if it is a
    /// partition.
    pub(super) fn queue(self, leaf: &str) -> Option<String> {
        let sysfs = self.sysfs()?;
        ["queue", "../queue"]
            .iter()
            .find_map(|queue| fs::read_to_string(format!("{sysfs}/{queue}/{leaf}")).ok())
            .map(|text| text.trim().to_owned())
    }

    /// The device's world-wide name if it has one, else its number; a file's device and inode.
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
        let name = ["device/wwid", "wwid", "dm/uuid"]
            .iter()
            .find_map(|leaf| word(format!("{whole}/{leaf}")));
        Identity(match (name, partition) {
            (Some(name), Some(partition)) => format!("wwid:{name}:{partition}"),
            (Some(name), None) => format!("wwid:{name}"),
            (None, _) => format!("block:{major}:{minor}"),
        })
    }
}

/// The bytes in `range` that a file has no space for.
fn holes(file: &File, range: Range<u64>) -> Option<u64> {
    let mut at = range.start;
    let mut bytes = 0;
    while at < range.end {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.clamp(at, range.end),
            // There is none behind it.
            Err(Errno::NXIO) => range.end,
            Err(_) => return None,
        };
        bytes += data - at;
        if data == range.end {
            break;
        }
        at = rustix::fs::seek(file, SeekFrom::Hole(data)).ok()?.max(data + 1);
    }
    Some(bytes)
}

/// How long threads of a disk may take to find its path. They may all hang, as may those of a whole
/// shelf, whose disks are asked one after the other.
const PRESENT_TIMEOUT: Duration = Duration::from_millis(50);
/// How long they are not asked again after that.
const PRESENT_REST: Duration = Duration::from_secs(10);

/// The present path of an open disk: `path` if that still leads to it; else the path that the
/// kernel reports. Other links to it are not known here.
fn present(file: &File, path: &str, medium: Medium) -> String {
    let is_there = |path: &str| medium_of(path).is_ok_and(|there| there == medium);
    if is_there(path) {
        return path.to_owned();
    }
    let found = match medium {
        Medium::Block { .. } => medium.sysfs().and_then(|sysfs| {
            let event = fs::read_to_string(format!("{sysfs}/uevent")).ok()?;
            Some(format!("/dev/{}", event.lines().find_map(|line| line.strip_prefix("DEVNAME="))?))
        }),
        Medium::File { .. } => fs::read_link(format!("/proc/thread-self/fd/{}", file.as_raw_fd()))
            .ok()
            .and_then(|path| path.into_os_string().into_string().ok()),
    };
    // A disk without a name keeps the path that it had.
    found
        .filter(|path| is_there(path))
        .unwrap_or_else(|| format!("{path} (no path leads there now)"))
}

/// The device or file that a path leads to. May hang.
pub(super) fn medium_of(path: &str) -> io::Result<Medium> {
    Medium::of(&fs::metadata(path)?).ok_or_else(|| io::Error::other(NotADisk(path.to_owned())))
}

/// Opens a disk for probing. May hang as long as the device does.
pub(super) fn open_to_look(path: &str, medium: Medium) -> io::Result<(File, About)> {
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
        return Err(io::Error::other(format!(
            "{path} changed while it was being opened; try again"
        )));
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
    let about = About {
        medium,
        identity: medium.identity().0,
        size,
        logical: sectors.logical,
        physical: sectors.physical,
        direct,
        blocks_submitter: matches!(medium, Medium::File { .. })
            && !NEVER_BLOCKS.contains(&file_system),
        discards: discards::of(medium, &file, sectors),
        rotates: medium.rotates(),
        is_held: sys::is_locked(&file),
        map: multipath::map_over(medium),
        label: None,
    };
    Ok((file, about))
}

impl Access {
    fn of(file: Handle) -> Self {
        Self { file: Some(Arc::new(file)), pool: OnceLock::new() }
    }

    /// Prepares I/O on the claimed file: with a ring the file is in this process's table, without
    /// one in the table of its threads only.
    fn for_engine(file: Handle, engine: IoEngine) -> io::Result<Self> {
        match engine {
            IoEngine::Uring => Ok(Self::of(file)),
            IoEngine::Threads => Ok(Self { file: None, pool: Pool::start(&file)?.into() }),
        }
    }

    fn start(&self, work: Work, completer: Completer, by_ring: bool) {
        let op = Op { file: self.file.clone(), work, completer };
        let op = match if by_ring { executor::submit(op) } else { Err(op) } {
            Ok(()) => return,
            Err(op) => op,
        };
        if self.pool.get().is_none()
            && let Some(file) = &self.file
            && let Ok(pool) = Pool::start(file)
        {
            // If two threads do this at once, the second one's pool is dropped unused.
            let _ = self.pool.set(pool);
        }
        match self.pool.get() {
            Some(pool) => pool.submit(op),
            // No thread can be started: the calling thread carries it out.
            None => op.run(),
        }
    }

    /// See [`present`]. `None` if there is no answer.
    fn present(&self, path: &str, medium: Medium) -> Option<String> {
        match (&self.file, self.pool.get()) {
            (Some(file), _) => Some(present(file, path, medium)),
            (None, Some(pool)) => {
                let path = path.to_owned();
                pool.call(PRESENT_TIMEOUT, move |file| present(file, &path, medium)).ok()
            }
            (None, None) => None,
        }
    }

    fn size(&self, sectors: Sectors) -> io::Result<u64> {
        match (&self.file, self.pool.get()) {
            (Some(file), _) => size_of(&***file, sectors),
            (None, Some(pool)) => pool.call(DISK_TIMEOUT, move |file| size_of(file, sectors))?,
            (None, None) => Err(io::Error::other("it is not open")),
        }
    }
}

impl RealDisk {
    /// Opens a disk for probing, in this process. May hang as long as the device does.
    ///
    /// # Errors
    /// If the operating system refuses, or this cannot be a disk.
    pub(super) fn open(path: &str, engine: IoEngine) -> io::Result<Self> {
        let (file, about) = open_to_look(path, medium_of(path)?)?;
        let looking = Looking::Here(Arc::new(Access::of(Handle::new(file))));
        Ok(Self::new(path, path, about, engine, looking))
    }

    /// A disk that a looker has opened, at the path of its device.
    pub(super) fn looked(
        path: &str,
        device: &str,
        about: About,
        engine: IoEngine,
        looked: Looked,
    ) -> Self {
        Self::new(path, device, about, engine, Looking::Looker(looked))
    }

    fn new(path: &str, device: &str, about: About, engine: IoEngine, looking: Looking) -> Self {
        Self {
            path: path.to_owned(),
            device: device.to_owned(),
            medium: about.medium,
            size: AtomicU64::new(about.size),
            sectors: about.sectors(),
            direct: about.direct,
            discards: about.discards,
            may_discard: Arc::new(AtomicBool::new(true)),
            rotates: about.rotates,
            was_held: about.is_held,
            engine: if about.blocks_submitter { IoEngine::Threads } else { engine },
            identity: about.identity,
            present: Mutex::new((device.to_owned(), None)),
            looking: Mutex::new(Some(Arc::new(looking))),
            claimed: OnceLock::new(),
        }
    }

    fn looking(&self) -> Option<Arc<Looking>> {
        self.looking.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads a disk that is not claimed.
    fn look(&self, offset: u64, buffer: Buffer, completer: Completer) {
        match self.looking().as_deref() {
            Some(Looking::Here(access)) => {
                let work = Work::Read { offset, buffer, done: 0 };
                access.start(work, completer, self.engine == IoEngine::Uring);
            }
            Some(Looking::Looker(looked)) => looked.read(offset, buffer, completer),
            // The disk was claimed meanwhile.
            None => match self.claimed.get() {
                Some(access) => {
                    let work = Work::Read { offset, buffer, done: 0 };
                    access.start(work, completer, self.engine == IoEngine::Uring);
                }
                None => unreachable!("a disk is looked at until it is claimed"),
            },
        }
    }

    /// Why an I/O is refused before it is submitted.
    fn refusal(&self, io: &Io) -> Option<io::Error> {
        let refuse = |kind, text: String| Some(io::Error::new(kind, text));
        let (offset, length) = match io {
            Io::Read { offset, buffer } => (*offset, buffer.len() as u64),
            Io::Write { offset, data, .. } => (*offset, data.len() as u64),
            Io::Discard { offset, length } | Io::WriteZeroes { offset, length } => {
                (*offset, *length)
            }
            Io::Flush => (0, 0),
        };
        if !matches!(io, Io::Read { .. }) && self.claimed.get().is_none() {
            return refuse(io::ErrorKind::PermissionDenied, "not claimed for writing".into());
        }
        let size = self.size();
        if offset.checked_add(length).is_none_or(|end| end > size) {
            let kind = if matches!(io, Io::Read { .. }) {
                io::ErrorKind::UnexpectedEof
            } else {
                io::ErrorKind::InvalidInput
            };
            return refuse(
                kind,
                format!("ends at {}, and the disk has {size} bytes", offset.saturating_add(length)),
            );
        }
        let sector = u64::from(self.sectors.logical);
        if !offset.is_multiple_of(sector) || !length.is_multiple_of(sector) {
            return refuse(
                io::ErrorKind::InvalidInput,
                format!("not a multiple of the sector, {sector} bytes"),
            );
        }
        None
    }
}

/// The whole sectors of a device or a file, in bytes.
fn size_of(file: impl AsFd, sectors: Sectors) -> io::Result<u64> {
    // Seeking to the end gives the size of both alike.
    let size = rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?;
    Ok(size - size % u64::from(sectors.logical))
}

impl Disk for RealDisk {
    fn identity(&self) -> Identity {
        Identity(self.identity.clone())
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn present_path(&self) -> String {
        // A label stays with its disk.
        if self.path == self.device { self.device() } else { self.path.clone() }
    }

    fn device(&self) -> String {
        // A disk that is not claimed was found just now, at this path.
        let Some(access) = self.claimed.get() else { return self.device.clone() };
        let lock = || self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, silent) = lock().clone();
        if silent.is_some_and(|when| when.elapsed() < PRESENT_REST) {
            return last;
        }
        let present = access.present(&self.device, self.medium);
        let silent = present.is_none().then(Instant::now);
        let path = present.unwrap_or(last);
        *lock() = (path.clone(), silent);
        path
    }

    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn measure(&self) -> u64 {
        let size = match (self.claimed.get(), self.looking().as_deref()) {
            (Some(access), _) => access.size(self.sectors),
            (None, Some(Looking::Here(access))) => access.size(self.sectors),
            // The size that it had when it was found.
            _ => return self.size(),
        };
        if let Ok(size) = size {
            self.size.store(size, Ordering::Relaxed);
        }
        self.size()
    }

    fn sectors(&self) -> Sectors {
        self.sectors
    }

    fn space_from(&self) -> SpaceFrom {
        space_from::describe(&self.device(), self.medium)
    }

    fn rotates(&self) -> bool {
        self.rotates
    }

    fn discards(&self) -> Result<DiscardLimits, NoDiscards> {
        match self.discards {
            Ok(limits) if !self.may_discard.load(Ordering::Relaxed) => Err(match limits.means {
                DiscardMeans::Unmap => NoDiscards::Refused,
                DiscardMeans::Punch => NoDiscards::RefusedHole,
            }),
            known => known,
        }
    }

    fn allocated(&self) -> Option<u64> {
        let (path, medium) = (self.device(), self.medium);
        within(DISK_TIMEOUT, "allocated", move || medium.allocated(&path)).ok().flatten()
    }

    fn unwritten(&self, ranges: &[Range<u64>]) -> Option<u64> {
        let (path, medium, ranges) = (self.device(), self.medium, ranges.to_vec());
        let look = move || medium.unwritten(&path, &ranges);
        within(DISK_TIMEOUT, "unwritten", look).ok().flatten()
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
            Io::WriteZeroes { length: 0, .. } => {
                return Completion::ready(Done { result: Ok(()), buffer: None });
            }
            Io::Discard { length, .. } if length == 0 || !self.can_discard() => {
                return Completion::ready(Done { result: Ok(()), buffer: None });
            }
            Io::Read { offset, buffer } => Work::Read { offset, buffer, done: 0 },
            Io::Write { offset, data, durably } => Work::Write { offset, data, durably, done: 0 },
            Io::Flush => Work::Flush,
            Io::Discard { offset, length } => {
                let possible = Arc::clone(&self.may_discard);
                match self.medium {
                    Medium::Block { .. } => Work::Trim { offset, length, possible },
                    Medium::File { .. } => Work::Punch { offset, length, possible },
                }
            }
            Io::WriteZeroes { offset, length } => match self.medium {
                Medium::Block { .. } => Work::ZeroOut { offset, length },
                Medium::File { .. } => Work::Zero { offset, length },
            },
        };
        let (completion, completer) = completion();
        let is_for_ring =
            !matches!(work, Work::Trim { .. } | Work::ZeroOut { .. } | Work::Zero { .. });
        let by_ring = self.engine == IoEngine::Uring && is_for_ring;
        match (self.claimed.get(), work) {
            (Some(access), work) => access.start(work, completer, by_ring),
            (None, Work::Read { offset, buffer, .. }) => self.look(offset, buffer, completer),
            (None, _) => unreachable!("only reads are not refused before the claim"),
        }
        completion
    }

    fn claim(&self) -> io::Result<()> {
        if self.claimed.get().is_some() {
            return Ok(());
        }
        let file = match self.looking() {
            None => return Ok(()),
            Some(looking) => match &*looking {
                Looking::Looker(looked) => Handle::new(looked.claim()?),
                Looking::Here(access) => {
                    let Some(file) = access.file.clone() else {
                        return Err(io::Error::other("it is not open"));
                    };
                    let (path, medium, direct) = (self.path.clone(), self.medium, self.direct);
                    let claim =
                        move || open_and_lock(&file, &path, medium, direct).map(Handle::new);
                    within(DISK_TIMEOUT, "disk-claim", claim)??
                }
            },
        };
        // The kind of this error must not be one that means that the disk is held.
        let access = Access::for_engine(file, self.engine).map_err(|error| {
            io::Error::other(format!("{}: no thread for its I/O: {error}", self.path))
        })?;
        // Of two threads that claim at once the second was refused above.
        let _ = self.claimed.set(access);
        let looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(looking);
        Ok(())
    }

    fn was_held(&self) -> bool {
        self.was_held
    }

    fn holder(&self) -> Option<String> {
        let name = match self.medium {
            Medium::File { device, inode } => holder::name_of(device, inode),
            // The lock is on the device's node in the file system.
            Medium::Block { .. } => {
                let node = fs::metadata(&self.path).ok()?;
                holder::name_of(node.dev(), node.ino())
            }
        };
        holder::of(&name)
    }

    fn in_use_by(&self) -> Option<String> {
        let said = match self.looking().as_deref() {
            Some(Looking::Looker(looked)) => looked.in_use_by(),
            Some(Looking::Here(access)) => match access.file.clone() {
                Some(file) => {
                    let (medium, size, sectors) = (self.medium, self.size(), self.sectors);
                    within(DISK_TIMEOUT, "in-use-by", move || {
                        signature::of_file(medium, &file, size, sectors)
                    })
                }
                None => return None,
            },
            // The disk is claimed: its engine knows its content.
            None => return None,
        };
        said.unwrap_or_else(|error| Some(format!("unknown content: {error}")))
    }

    fn user(&self) -> Option<String> {
        signature::in_use(self.medium)
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

/// Opens an open file once more, for writing, even if its path leads to something else by now, and
/// locks it.
pub(super) fn open_and_lock(
    looking: &File,
    path: &str,
    medium: Medium,
    direct: bool,
) -> io::Result<File> {
    let same = format!("/proc/self/fd/{}", looking.as_raw_fd());
    let exclusive = if medium.sysfs().is_some() { OFlags::EXCL } else { OFlags::empty() };
    let _may_write = filter::claim(medium);
    // The kernel opens a read-only device for writing, and refuses the writes.
    let is_read_only = |sysfs| fs::read_to_string(sysfs + "/ro").is_ok_and(|ro| ro.trim() == "1");
    let opened = match medium.sysfs().is_some_and(is_read_only) {
        true => Err(io::Error::from_raw_os_error(libc::EROFS)),
        false => open_with(Path::new(&same), OFlags::RDWR | exclusive, direct),
    };
    opened.and_then(|file| sys::lock(&file).map(|()| file)).map_err(|error| {
        let text = match (error.kind(), error.raw_os_error(), medium) {
            (io::ErrorKind::WouldBlock, ..) => {
                format!("{path} is held by another engine, or by I/O that one left behind")
            }
            (_, Some(libc::EBUSY), _) => {
                let user = signature::in_use(medium)
                    .unwrap_or_else(|| "a program has it for itself".into());
                format!("{path} is in use: {user}")
            }
            (_, Some(libc::EROFS), Medium::Block { .. }) => {
                format!("{path} is read-only: blockdev --setrw {path}")
            }
            (_, Some(libc::EROFS), Medium::File { .. }) => {
                format!("{path} is read-only: so is its file system; remount that read-write")
            }
            (_, Some(libc::EACCES | libc::EPERM), _) => {
                format!("{path} cannot be written: {error}; give the engine's user permission")
            }
            _ => format!("{path} cannot be opened and locked for writing: {error}"),
        };
        // The remaining kinds mean: held by an engine, as far as this process can see, or by I/O
        // that an engine left behind (R1). `Other` means: in use by another program, and unusable.
        let is_anothers =
            error.raw_os_error() == Some(libc::EBUSY) && signature::in_use(medium).is_some();
        io::Error::new(if is_anothers { io::ErrorKind::Other } else { error.kind() }, text)
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
    let physical =
        if rustix::fs::ioctl_blkpbszget(file)? >= SECTOR_MAX { SECTOR_MAX } else { logical };
    Ok(Sectors { logical, physical })
}

/// The alignment that direct I/O on the file requires; 512 bytes if the file system does not report
/// it.
fn file_alignment(file: &File) -> u32 {
    match rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        // Buffers are aligned to 4 KiB anyway; only a larger value matters.
        Ok(answer) if answer.stx_dio_mem_align > SECTOR_MAX => answer.stx_dio_mem_align,
        Ok(answer) => answer.stx_dio_offset_align.max(512),
        Err(_) => 512,
    }
}
