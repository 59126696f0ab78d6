//! The words in which operators and the engine talk about disk groups.

mod command;
pub mod findings;
mod names;
mod operation;

pub use command::{Command, Outcome};
pub use names::{NameOrder, Template};
pub use operation::{
    Estimate, Operation, OperationPass, OperationState, PlannedPass, PlannedStep, Rate,
};

use crate::words::sql_words;
use findings::Findings;
use plinth_format::Redundancy;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What `CREATE DISKGROUP` asks for. Names are upper case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewGroup {
    pub name: String,
    /// Mirrors: 1 external, 2 normal, 3 high.
    #[serde(with = "redundancy")]
    pub redundancy: Redundancy,
    /// Bytes; `au_size` is not among `attributes`.
    pub au_size: u64,
    pub attributes: Vec<(String, String)>,
    pub disks: Vec<NewDisk>,
}

/// One disk of `CREATE DISKGROUP`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewDisk {
    /// One path, as discovery shows it.
    pub path: String,
    /// `GROUP_0000` if not given.
    pub name: Option<String>,
    /// The disk's own name if not given.
    pub failure_group: Option<String>,
    pub quorum: bool,
    /// Bytes to use; all if not given.
    pub size: Option<u64>,
    /// Take it although something else lives on it.
    pub force: bool,
}

/// What a statement asks for: disks that come, and disks that go.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exchange {
    pub add: Vec<NewDisk>,
    pub drop: Vec<Departure>,
}

/// Disks that go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    pub which: Selection,
    /// They are gone already: what they had is copied from other mirrors.
    pub force: bool,
}

/// What a statement would do, for who asks how much that moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    Exchange(Exchange),
    Resize(Vec<Resize>),
    Convert(Conversion),
}

/// Another number of mirrors for everything in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversion(#[serde(with = "redundancy")] pub Redundancy);

/// Which disks a statement means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selection {
    All,
    Disks(Vec<String>),
    FailureGroups(Vec<String>),
    /// What any of these names.
    Several(Vec<Selection>),
}

/// What a CHECK or a SCRUB looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Scope {
    #[default]
    All,
    /// What has a mirror there.
    Disks(Selection),
    /// Names, as statements write them.
    Files(Vec<String>),
}

/// What a SCRUB is told. By default it looks at everything, and changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScrubOrder {
    pub scope: Scope,
    pub repair: bool,
    pub power: ScrubPower,
    /// Also while mirrors move or are made again.
    pub force: bool,
}

/// How fast a SCRUB reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ScrubPower {
    /// It rests as long as it reads, and longer where reads take long.
    #[default]
    Auto,
    /// It rests nine times as long as it reads.
    Low,
    /// It does not rest.
    High,
    /// It does not rest, and reads several extents at once.
    Max,
}

/// What some of those who use the host may do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Permission {
    None,
    ReadOnly,
    ReadWrite,
}

/// A user or a user group of a disk group: one of the host's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Principal {
    /// The host's number; `None`: nobody has looked it up, or the host does not know the name.
    pub number: Option<u32>,
    pub name: String,
}

impl Principal {
    /// Of whom only the name is known yet.
    #[must_use]
    pub fn named(name: String) -> Self {
        Self { number: None, name }
    }

    /// The host's number.
    ///
    /// # Errors
    /// If the host has none for this name.
    pub fn known(&self) -> Result<u32, AdminError> {
        self.number.ok_or_else(|| {
            let text = format!("this host has no user or group {}", self.name);
            AdminError::new(Code::NoSuchUser, text)
        })
    }
}

/// What becomes of users and user groups, owners and permissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessChange {
    AddUsers(Vec<Principal>),
    DropUsers {
        users: Vec<String>,
        /// Their files go with them.
        cascade: bool,
    },
    /// The old name of each, and the new user.
    ReplaceUsers(Vec<(String, Principal)>),
    AddUserGroup {
        group: Principal,
        members: Vec<String>,
    },
    ModifyUserGroup {
        name: String,
        add: bool,
        members: Vec<String>,
    },
    DropUserGroup(String),
    SetPermission {
        owner: Option<Permission>,
        usergroup: Option<Permission>,
        other: Option<Permission>,
        files: Vec<String>,
    },
    SetOwnership {
        owner: Option<String>,
        usergroup: Option<String>,
        files: Vec<String>,
    },
}

/// What becomes of volumes. Names are upper case, sizes bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumeChange {
    Add {
        name: String,
        size: u64,
        /// Of each extent; `None`: as the group.
        mirrors: Option<u8>,
        stripe_width: u64,
        stripe_columns: u64,
    },
    Modify {
        name: String,
        mount_path: Option<String>,
        usage: Option<String>,
    },
    Resize {
        name: String,
        size: u64,
    },
    Drop {
        name: String,
    },
    Enable {
        /// `None`: all of them.
        volumes: Option<Vec<String>>,
        enable: bool,
    },
}

/// A stable code for each kind of refusal. `docs/sql.md` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    /// No such disk group.
    NoGroup,
    GroupExists,
    NotMounted,
    AlreadyMounted,
    /// A path that discovery does not show.
    UnknownDisk,
    /// No disk or failure group of this name in the group.
    NoSuchDisk,
    /// No user or user group of this name in the group, or on the host.
    NoSuchUser,
    /// A user or a user group that is there already.
    UserExists,
    /// A user that has files, or a user group that has some.
    UserInUse,
    NoSuchVolume,
    VolumeExists,
    /// The group is mounted RESTRICTED.
    Restricted,
    /// The disk belongs to a group, or something else lives on it.
    DiskInUse,
    DiskTooSmall,
    /// Sector or AU sizes that do not go together.
    DiskMismatch,
    CannotOpen,
    /// Two devices carry one disk's identity.
    DuplicateDisk,
    NotEnoughFailureGroups,
    /// Fewer than the voters needed are in sight.
    NoQuorum,
    /// Some extent would have, or has, no current mirror.
    WouldLoseData,
    /// Files are open, or a mount point is in use.
    Busy,
    /// Another engine holds the disks.
    HeldElsewhere,
    Invalid,
    NotSupported,
    NoSpace,
    Io,
    /// No file, directory or alias of this name.
    NoSuchFile,
    /// A file, directory or alias has this name.
    NameExists,
    /// A directory with something in it.
    NotEmpty,
    /// The system made this name.
    SystemName,
    NoSuchTemplate,
    TemplateExists,
    /// A template of the system.
    SystemTemplate,
    /// A version that only goes up.
    Lowered,
    /// The catalog or another structure is damaged.
    Damaged,
}

/// A refusal: what, which, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct AdminError {
    pub code: Code,
    /// One sentence that names the thing and the place.
    pub message: String,
    /// What the operator can do, if there is something.
    pub hint: Option<String>,
}

impl AdminError {
    #[must_use]
    pub fn new(code: Code, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }
}

/// What a rebalance does beside restoring what was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// Evens out how full the disks are. What is on disks that leave moves in any case.
    pub balance: bool,
    /// Moves what lies at the end of a disk to its beginning; `None`: on disks that rotate.
    pub compact: Option<bool>,
}

impl Default for Phases {
    fn default() -> Self {
        Self { balance: true, compact: None }
    }
}

/// How a rebalance is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Mirrors that move at once; `None`: as many as now, or the default.
    pub power: Option<u32>,
    /// `None`: those of the one under way, if there is one.
    pub phases: Option<Phases>,
}

impl Default for Order {
    fn default() -> Self {
        Self::from(None)
    }
}

impl From<Option<u32>> for Order {
    fn from(power: Option<u32>) -> Self {
        Self { power, phases: Some(Phases::default()) }
    }
}

/// Other sizes for some disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resize {
    pub which: Selection,
    /// Bytes; `None`: all that the device has.
    pub size: Option<u64>,
}

/// One value of a query's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// A query's result.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rows {
    pub columns: Vec<String>,
    /// The declared types, where there are any.
    pub types: Vec<Option<String>>,
    pub rows: Vec<Vec<Value>>,
}

/// What discovery says of one path: the rows of `v$asm_disk` that belong to no mounted group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    pub path: String,
    /// Other paths that lead to the same device.
    pub aliases: Vec<String>,
    pub header: HeaderStatus,
    /// From the header, if there is one.
    pub group: Option<String>,
    pub group_id: Option<String>,
    pub name: Option<String>,
    pub failure_group: Option<String>,
    pub number: Option<u16>,
    pub quorum: bool,
    /// Bytes; 0 if it cannot be opened.
    pub size: u64,
    pub logical_sector: u32,
    pub physical_sector: u32,
    pub can_discard: bool,
    /// Somebody has it for writing: an engine, of this instance or another.
    pub is_held: bool,
    /// Why it is not a candidate: what lives on it, what is wrong with the header.
    pub remark: Option<String>,
}

impl Survey {
    /// Whether a path leads to it.
    #[must_use]
    pub fn is_at(&self, path: &str) -> bool {
        self.path == path || self.aliases.iter().any(|alias| alias == path)
    }
}

sql_words! {
    /// `V$ASM_DISK.HEADER_STATUS`, in ASM's words.
    #[derive(Default)]
    pub enum HeaderStatus {
        /// Cannot be read.
        #[default]
        Unknown = "UNKNOWN",
        /// Free to be taken.
        Candidate = "CANDIDATE",
        /// A header of a later version.
        Incompatible = "INCOMPATIBLE",
        Member = "MEMBER",
        Former = "FORMER",
        /// Two devices carry this disk's identity.
        Conflict = "CONFLICT",
        /// Something else lives on it.
        Foreign = "FOREIGN",
    }
}

/// What `CHECK` found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Sentences, each naming a thing, a place and what was done or can be done; and how many there are.
    #[serde(flatten)]
    pub problems: Findings,
    /// What is worth knowing and not wrong, in sentences.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Sentences that name files of which mirrors are on disks that are not ONLINE.
    #[serde(default)]
    pub missing: Vec<String>,
    pub extents_checked: u64,
    pub bytes_read: u64,
}

impl Report {
    pub(crate) fn bad(&mut self, text: String) {
        self.problems.push(Problem { text, repaired: false });
    }

    /// Whether nothing is wrong any more.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.problems.left() == 0
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub text: String,
    pub repaired: bool,
}

/// Another device takes the place of a disk that is offline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// The disk's name.
    pub disk: String,
    /// The device's path.
    pub path: String,
    /// The device may be somebody's: what is on it is lost.
    pub force: bool,
}

/// Other names for disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Renaming {
    /// The old name of each, and the new one.
    Disks(Vec<(String, String)>),
    /// Every disk is called what it would be called without a name: the group, and its number.
    All,
}

mod redundancy {
    use plinth_format::Redundancy;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(value: &Redundancy, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(*value as u8)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Redundancy, D::Error> {
        match u8::deserialize(deserializer)? {
            1 => Ok(Redundancy::External),
            2 => Ok(Redundancy::Normal),
            3 => Ok(Redundancy::High),
            other => Err(D::Error::custom(format!("redundancy {other}"))),
        }
    }
}
