//! The requests and answers on an engine's socket.

use super::exports::{At, Export};
use plinth_engine::{
    admin::{AdminError, Command, Estimate, NewGroup, Operation, Outcome, Reclaimable, Report},
    api::{ConnectionId, Kind},
    files::statements::NewSystemFile,
    views::figures::Figures,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, path::PathBuf};

/// The name of the protocol in greetings.
pub const NAME: &str = "engine";

/// One request; the answer is one or more [`Answer`]s. On the socket it is encoded as its content.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Request {
    /// A statement on the mounted group.
    Admin(Command),
    /// Files of the mounted group, for `plinth ls` and `plinth cp`.
    File(FileRequest),
    /// The engine's process: its group as a whole, its mounts and exports, its notices.
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
        /// The mount is part of a start: missing disks may be late only, so it waits for them.
        #[serde(default)]
        patient: bool,
        /// Mounts that this engine will take over.
        resume: Vec<ConnectionId>,
    },
    /// Checks whether the disks that discovery shows would allow a mount. Nothing is claimed, and
    /// nothing written.
    Rehearse,
    /// The engine exits after its answer.
    Dismount {
        force: bool,
    },
    /// The engine exits after its answer.
    Drop {
        contents: bool,
    },
    /// Forgets the group, which this engine has not mounted. The engine exits after its answer.
    DropUnmounted,
    /// The findings of the last scrub; answered with a `Report`.
    Scrubbed,
    Operations,
    /// Answered with `Figures`.
    Figures,
    /// Answered with `Rows` and their parts, then `Done`.
    Query(String),
    SetDiskstring(String),
    /// Refused if the group is mounted and lacks one of these failure groups.
    CheckFailureGroups(BTreeSet<String>),
    /// Reads prefer these failure groups, from now on and after a mount.
    PreferReads(BTreeSet<String>),
    /// The power of rebalances for which no statement names one, from now on and after a mount.
    PowerDefault(u32),
    /// Serves a mount; its `/dev/fuse` comes with the request.
    Serve {
        mount_point: PathBuf,
        connection: ConnectionId,
        how: How,
    },
    /// This engine will not take over that mount after all.
    GiveUp(ConnectionId),
    /// Answered with a `Device` for each mount, then `Done`.
    Devices,
    /// Answered with a `Kept` for each connection of an NBD client that can outlive the engine,
    /// then with a `Kept` or `Ended` for each that begins or ends, until either side closes the
    /// connection.
    Keep,
    /// Hands over a connection from the previous engine; its memory and its socket come with the
    /// request. It is served again when its export is made.
    Resume,
    /// All connections have been handed over and all exports made: connections without an export
    /// are cut.
    Resumed,
    /// The engine leaves its mounts and NBD clients to another engine, which waits for this one's
    /// end. It exits after its answer.
    HandOver,
    /// Exports a file to NBD clients.
    Export(Export),
    /// Ends an export. While it has clients this is refused, unless `cut` is set.
    Withdraw {
        at: At,
        name: String,
        cut: bool,
    },
    /// Answered with `Exports`.
    Exports,
    /// Answered with `Done`, then with `Notice`s until the engine ends.
    Watch,
}

/// A request on files. Paths begin at the group's root.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum FileRequest {
    /// The attributes of the file or directory at a path.
    Look {
        path: String,
    },
    /// Up to a thousand entries after the cookie.
    List {
        path: String,
        after: u64,
    },
    /// Creates a regular file, or empties an existing one.
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
    /// Creates a file under a system name. The first bytes that will be written to it may come with
    /// the request: the engine infers the type from them, and does not write them.
    MakeSystem {
        new: NewSystemFile,
        mode: u32,
        uid: u32,
        gid: u32,
    },
    /// Resolves a path, with names in any case.
    Find {
        path: String,
    },
    /// Removes the name of a file, or an empty directory.
    Remove {
        path: String,
    },
    /// Renames; a file at the new name is replaced.
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

/// How a mount comes to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    New,
    /// The previous engine served it. `is_shared`: together with others, and its kernel may not
    /// have been notified of changes through those.
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
    Figures(Box<EngineFigures>),
    Estimate(Estimate),
    Reclaimable(Vec<Reclaimable>),
    Rows {
        columns: Vec<String>,
        types: Vec<Option<String>>,
    },
    /// A number of rows, encoded in the body (engine's `rows.rs`).
    Part {
        rows: usize,
    },
    Notice(Notice),
    /// A mount that the engine serves; its `/dev/fuse` comes with it.
    Device {
        mount_point: PathBuf,
        connection: ConnectionId,
    },
    /// A connection of an NBD client: its memory and its socket come with it.
    Kept {
        id: u64,
    },
    /// That connection has ended.
    Ended {
        id: u64,
    },
    /// The exports, and the number of clients of each.
    Exports(Vec<(Export, usize)>),
    File(FileInfo),
    /// The real path as far as it exists, the attributes of the file or directory there, and the
    /// remaining names, which do not exist.
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
    /// The bytes are in the body; fewer than requested at the end of the file.
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
            Ok(Outcome::Reclaimable(disks)) => Self::Reclaimable(disks),
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
    /// The mount points that it serves.
    pub serving: Vec<PathBuf>,
}

/// The figures for monitoring systems.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineFigures {
    /// The mounts that it serves.
    pub mounts: u64,
    /// Its exports to NBD clients, and these clients.
    pub nbd_exports: u64,
    pub nbd_clients: u64,
    /// Its lines in the alert log since its start: notes, warnings, alarms.
    pub events: [u64; 3],
    pub group: Figures,
}

/// An event that the instance must learn of at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// A mount is gone: a program unmounted it.
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
    /// As in `v$asm_file`; for regular files only.
    #[serde(default)]
    pub file_type: Option<String>,
    /// With the file's number, an identity that is never used again: `+DATA.number.incarnation`.
    #[serde(default)]
    pub incarnation: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListEntry {
    pub name: String,
    pub cookie: u64,
    pub info: FileInfo,
}
