//! What kinds of programs use a disk group, and how often each does what.

use crate::plan::weighted;

/// What kind of program a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Some of everything.
    Mixed,
    /// Appends and syncs.
    Log,
    /// Pages here and there, checkpoints.
    Pages,
    /// Many small files that come and go.
    Small,
    /// Some of everything, and hardly ever a sync.
    Lazy,
    /// What few programs do, and all at once.
    Wild,
}

impl Profile {
    pub const ALL: [Self; 6] =
        [Self::Mixed, Self::Log, Self::Pages, Self::Small, Self::Lazy, Self::Wild];
    /// Those that keep the disks' caches empty.
    pub const BUSY: [Self; 4] = [Self::Mixed, Self::Log, Self::Pages, Self::Small];

    /// Whether its names are looked at one by one, too.
    pub fn is_wild(self) -> bool {
        self == Self::Wild
    }

    /// Files at a time.
    pub fn files(self) -> u64 {
        match self {
            Self::Small => 30,
            Self::Log => 3,
            Self::Mixed | Self::Pages | Self::Lazy => 6,
            Self::Wild => 8,
        }
    }

    /// Largest file, in sectors.
    pub fn sectors(self) -> u64 {
        match self {
            Self::Small => 200,
            _ => 5 << 11,
        }
    }

    /// Weights of what it does, in the order of [`Act`].
    fn weights(self) -> &'static [u64] {
        match self {
            Self::Mixed => &[8, 5, 4, 4, 3, 4, 5, 21, 20, 4, 8, 2, 14, 6],
            Self::Log => &[3, 2, 2, 2, 0, 3, 2, 60, 5, 0, 10, 0, 11, 2],
            Self::Pages => &[2, 1, 1, 2, 2, 2, 3, 5, 50, 6, 8, 6, 12, 12],
            Self::Small => &[28, 20, 8, 4, 2, 1, 0, 15, 8, 2, 4, 0, 8, 2],
            Self::Lazy => &[8, 6, 4, 5, 4, 6, 5, 21, 24, 5, 1, 0, 14, 8],
            Self::Wild => &[6, 4, 4, 3, 3, 3, 4, 6, 8, 4, 6, 2, 8, 4, 6, 6, 6, 8, 8, 10, 6, 5],
        }
    }

    /// What it does next, by a number below a limit that is drawn.
    pub fn act(self, below: impl FnOnce(u64) -> u64) -> Act {
        ACTS[weighted(self.weights(), below)]
    }
}

/// One thing that a client does.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    Create,
    Unlink,
    Rename,
    Truncate,
    Punch,
    Reserve,
    Extend,
    Append,
    Page,
    Sparse,
    Sync,
    Checkpoint,
    Read,
    Together,
    /// Two files change names.
    Exchange,
    /// Another name for a file.
    Link,
    /// Zeros are written without bytes.
    Zero,
    /// The file ends in the middle of a sector.
    Cut,
    /// A write that begins or ends in the middle of a sector.
    Odd,
    /// Something is written while it is punched, zeroed, or written by somebody else.
    Race,
    /// Something is written while the file is cut or removed.
    WriteGone,
    /// A directory gets another name, or goes.
    Directory,
}

const ACTS: [Act; 22] = [
    Act::Create,
    Act::Unlink,
    Act::Rename,
    Act::Truncate,
    Act::Punch,
    Act::Reserve,
    Act::Extend,
    Act::Append,
    Act::Page,
    Act::Sparse,
    Act::Sync,
    Act::Checkpoint,
    Act::Read,
    Act::Together,
    Act::Exchange,
    Act::Link,
    Act::Zero,
    Act::Cut,
    Act::Odd,
    Act::Race,
    Act::WriteGone,
    Act::Directory,
];
