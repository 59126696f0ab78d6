//! The requests and answers on an engine's socket.

use super::exports::{At, Export};
use plinth_engine::{
    admin::{AdminError, Command, Estimate, NewGroup, Operation, Outcome, Report},
    api::{ConnectionId, Kind},
    files::statements::NewSystemFile,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, path::PathBuf};

/// The name of the protocol in greetings.
pub const NAME: &str = "engine";

/// One request; the answer is one or more [`Answer`]s. On the socket it looks like what is in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Request {
    /// A statement on the mounted group.
    Admin(Command),
    /// Files of the mounted group, for `plinth ls` and `plinth cp`.
    File(FileRequest),
    /// The engine's process: its group as a whole, its mounts and exports, what it tells.
    Process(ProcessRequest),
}

impl From<Command> for Request {
    fn from(command: Command) -> Self {
        Self::Admin(command)
    }
}

impl From<FileRequest> for Request {
    fn from(request: FileRequest) -> Self {
        Self::File(request)
    }
}

impl From<ProcessRequest> for Request {
    fn from(request: ProcessRequest) -> Self {
        Self::Process(request)
    }
}

/// A request to the process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ProcessRequest {
    Status,
    /// Makes the group; it stays dismounted.
    Create(NewGroup),
    Mount {
        force: bool,
        #[serde(default)]
        restricted: bool,
        /// It is a start: disks that are missing may be late only, and are waited for.
        #[serde(default)]
        patient: bool,
        /// Mounts that it is going to take over.
        resume: Vec<ConnectionId>,
    },
    /// Whether the group could be mounted by what the disks that discovery shows say. Nothing is claimed, and nothing written.
    Rehearse,
    /// The engine exits after its answer.
    Dismount {
        force: bool,
    },
    /// The engine exits after its answer.
    Drop {
        contents: bool,
    },
    /// Gives up the group, which this engine has not mounted. The engine exits after its answer.
    DropUnmounted,
    /// What the last scrub found; answered with a `Report`.
    Scrubbed,
    Operations,
    /// Answered with `Rows` and their parts, then `Done`.
    Query(String),
    SetDiskstring(String),
    /// Refused if the group is mounted and has not all of these failure groups.
    CheckFailureGroups(BTreeSet<String>),
    /// Reads prefer these failure groups, from now on and after a mount.
    PreferReads(BTreeSet<String>),
    /// Serves the mount whose `/dev/fuse` comes with the request.
    Serve {
        mount_point: PathBuf,
        connection: ConnectionId,
        how: How,
    },
    /// A mount that was to be taken over is not.
    GiveUp(ConnectionId),
    /// Answered with a `Device` for each mount, then `Done`.
    Devices,
    /// Answered with a `Kept` for each connection of an NBD client that can outlive the engine; then with those that come and
    /// end, until either side ends.
    Keep,
    /// A connection of an engine before this one: its memory and its socket come with it. It is resumed when its export is made.
    Resume,
    /// There are no more of them, nor exports to be made: what is left of them is cut.
    Resumed,
    /// Leaves its mounts and NBD clients to another engine, which waits for this one's end. The
    /// engine exits after its answer.
    HandOver,
    /// Serves a file to NBD clients.
    Export(Export),
    /// Ends that; while it has clients only if they may be cut.
    Withdraw {
        at: At,
        name: String,
        cut: bool,
    },
    /// Answered with `Exports`.
    Exports,
    /// Answered with `Notice`s until the engine ends.
    Watch,
}

/// A request on files. Paths begin at the group's root.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum FileRequest {
    /// What a name is.
    Look {
        path: String,
    },
    /// Up to a thousand entries after the cookie.
    List {
        path: String,
        after: u64,
    },
    /// Makes a regular file, or empties the one that is there.
    Make {
        path: String,
        mode: u32,
        uid: u32,
        gid: u32,
    },
    MakeDirectory {
        path: String,
        mode: u32,
        uid: u32,
        gid: u32,
    },
    /// Makes a file under a system name. Its first bytes may come with the request, and are not written: they say what it is.
    MakeSystem {
        new: NewSystemFile,
        mode: u32,
        uid: u32,
        gid: u32,
    },
    /// What a path means, names in any case.
    Find {
        path: String,
    },
    /// Takes a name away: of a file, or of an empty directory.
    Remove {
        path: String,
    },
    /// Gives a name to another place; what has it there is replaced.
    Move {
        from: String,
        to: String,
    },
    Read {
        node: u64,
        offset: u64,
        length: usize,
    },
    /// The bytes come with the request.
    Write {
        node: u64,
        offset: u64,
    },
    Sync {
        node: u64,
    },
}

/// What a mount is that is to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    New,
    /// An engine before this one served it. `is_shared`: beside others, of whose changes its kernel
    /// may not have been told.
    TakeOver {
        is_shared: bool,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Answer {
    Done,
    Refused(AdminError),
    Status(Status),
    Report(Report),
    Operations(Vec<Operation>),
    Estimate(Estimate),
    Rows {
        columns: Vec<String>,
        types: Vec<Option<String>>,
    },
    /// So many rows, in the body (engine's `rows.rs`).
    Part {
        rows: usize,
    },
    Notice(Notice),
    /// A mount that it serves; its `/dev/fuse` comes with it.
    Device {
        mount_point: PathBuf,
        connection: ConnectionId,
    },
    /// A connection of an NBD client: its memory and its socket come with it.
    Kept {
        id: u64,
    },
    /// It has ended.
    Ended {
        id: u64,
    },
    /// What is exported, and to how many clients.
    Exports(Vec<(Export, usize)>),
    File(FileInfo),
    /// As far as there is something: its real path, what it is, and the names behind it that are
    /// not there.
    Found {
        path: Vec<String>,
        file: FileInfo,
        missing: Vec<String>,
    },
    /// A file that was made, and its path, `+DATA/DB/DATAFILE/users.259.1234`.
    Made {
        file: FileInfo,
        path: String,
    },
    Entries(Vec<ListEntry>),
    /// In the body; fewer than asked for at the end of the file.
    Bytes,
}

impl From<Result<(), AdminError>> for Answer {
    fn from(result: Result<(), AdminError>) -> Self {
        result.map(|()| Outcome::Done).into()
    }
}

impl From<Result<Outcome, AdminError>> for Answer {
    fn from(result: Result<Outcome, AdminError>) -> Self {
        match result {
            Ok(Outcome::Done) => Self::Done,
            Ok(Outcome::Report(report)) => Self::Report(report),
            Ok(Outcome::Estimate(estimate)) => Self::Estimate(estimate),
            Err(error) => Self::Refused(error),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub pid: u32,
    pub program: String,
    pub mounted: bool,
    pub io: String,
    /// The mount points it serves.
    pub serving: Vec<PathBuf>,
}

/// Something that the instance wants to know at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// A mount is gone: somebody unmounted it.
    Unmounted(PathBuf),
    /// The catalog has stopped, for this reason, and the engine ends.
    Stopped(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    pub node: u64,
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    /// Bytes.
    pub size: u64,
    /// 512-byte units, before mirroring.
    pub blocks: u64,
    /// Nanoseconds since 1970.
    pub modified: i64,
    /// As in `v$asm_file`; of regular files.
    #[serde(default)]
    pub file_type: Option<String>,
    /// With the number, what names the file for ever: `+DATA.number.incarnation`.
    #[serde(default)]
    pub incarnation: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListEntry {
    pub name: String,
    pub cookie: u64,
    pub info: FileInfo,
}
