//! The types of the calls between front ends and the engine.

pub mod types;

use crate::{api::types::FileType, world::Timestamp};
use serde::{Deserialize, Serialize};

/// A file's number in its group: the inode number. Never reused with the same generation.
pub type Node = u64;

/// The id of a mount for its whole life, whichever engine serves it. Random, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConnectionId(pub u64);

/// The root directory.
pub const ROOT: Node = 1;

/// Longest name of a directory entry, in bytes.
pub const NAME_MAX: usize = 255;
/// Longest symbolic link, in bytes.
pub const SYMLINK_MAX: usize = 4095;
/// Most hard links to one file.
pub const LINK_MAX: u32 = 65_000;
/// Longest extended attribute value, and longest list of names, in bytes.
pub const XATTR_MAX: usize = 65_536;

/// The kind of a file; the values are those of `S_IFMT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum Kind {
    Fifo = 0o010_000,
    CharDevice = 0o020_000,
    Directory = 0o040_000,
    BlockDevice = 0o060_000,
    Regular = 0o100_000,
    Symlink = 0o120_000,
    Socket = 0o140_000,
}

impl Kind {
    /// The kind in a mode's `S_IFMT` bits, if they name one. No bits at all mean a regular file, as
    /// in `mknod`.
    #[must_use]
    pub fn of_mode(mode: u32) -> Option<Self> {
        Some(match mode & 0o170_000 {
            0o010_000 => Self::Fifo,
            0o020_000 => Self::CharDevice,
            0o040_000 => Self::Directory,
            0o060_000 => Self::BlockDevice,
            0 | 0o100_000 => Self::Regular,
            0o120_000 => Self::Symlink,
            0o140_000 => Self::Socket,
            _ => return None,
        })
    }
}

const SET_UID: u32 = 0o4000;
pub(crate) const SET_GID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

/// A mode without the bits that are cleared when a file's owner or content changes: set-user-id,
/// and set-group-id if the group may execute it.
#[must_use]
pub(crate) fn without_set_id(mode: u32) -> u32 {
    if mode & GROUP_EXECUTE == 0 { mode & !SET_UID } else { mode & !(SET_UID | SET_GID) }
}

/// The attributes that `stat` returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    pub node: Node,
    /// Differs between two files that had the same node number.
    pub generation: u64,
    pub kind: Kind,
    /// Permission, set-id and sticky bits: `0o7777`.
    pub mode: u32,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    /// Device number of a special file, as the kernel encodes it.
    pub rdev: u32,
    /// Bytes.
    pub size: u64,
    /// Space taken before mirroring, in 512-byte units, as `st_blocks`.
    pub blocks: u64,
    pub accessed: Timestamp,
    pub modified: Timestamp,
    pub changed: Timestamp,
    pub created: Timestamp,
    /// Its type for its database. `None`: no regular file, or made before types were stored.
    pub file_type: Option<FileType>,
    /// Mirrors of each of its extents; 0: as the group.
    pub mirrors: u8,
    /// Striped in chunks over several extents.
    pub fine: bool,
    /// Space that it is given is written with zeros.
    pub preformatted: bool,
}

/// The changes of `chmod`, `chown`, `truncate` and `utimensat`. Set-id bits are
/// cleared as ext4 does when owner or size change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<SetTime>,
    pub modified: Option<SetTime>,
    /// The kernel asks to clear the set-id bits (a write or truncate by an unprivileged caller).
    pub kill_set_id: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    Now,
    At(Timestamp),
}

/// The caller that makes a new file: it becomes the owner, unless the directory's set-group-id bit
/// says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
}

/// The kind of a new file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewFile {
    Regular,
    Directory,
    Symlink {
        target: Vec<u8>,
    },
    /// FIFO, socket, character or block device.
    Special {
        kind: Kind,
        rdev: u32,
    },
}

/// `renameat2`'s flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RenameMode {
    #[default]
    Replace,
    NoReplace,
    Exchange,
}

/// One entry of a directory, without `.` and `..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: Vec<u8>,
    pub node: Node,
    pub kind: Kind,
    /// The cookie to go on after this entry: stable while other entries are added and removed.
    /// Never 0.
    pub cookie: u64,
}

/// `fallocate`'s modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocate {
    /// Reserve space; grow the file unless `keep_size`.
    Reserve { keep_size: bool },
    /// Free the space; the range reads as zeros. The size stays.
    PunchHole,
    /// The range reads as zeros and is reserved.
    ZeroRange { keep_size: bool },
}

/// The two kinds of `lseek` that need the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    Data,
    Hole,
}

/// `setxattr`'s flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetXattr {
    #[default]
    Any,
    Create,
    Replace,
}

/// The answer to `statfs`: usable space, after mirroring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// Bytes in a block of the counts below.
    pub block_size: u32,
    pub blocks: u64,
    pub blocks_free: u64,
    pub files: u64,
    pub files_free: u64,
}

/// Data that a front end may have cached was changed by another way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalidation {
    /// Attributes and all pages of a file.
    Node(Node),
    /// The entry `name` of a directory, and the directory's attributes.
    Entry { parent: Node, name: Vec<u8> },
}

/// A front end that caches, and is notified of changes made by others. Called on the thread that
/// made the change, which may not be a thread of the front end; must not call the group back.
pub trait Watcher: Send + Sync {
    fn invalidate(&self, what: &Invalidation);

    /// The file has no name any more: if the kernel does not have it, call
    /// `Session::release_reference`, on another thread.
    fn still_holds(&self, _: Node) {}
}
