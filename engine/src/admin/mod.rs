//! The types of statements on disk groups, and of their answers.

mod command;
pub mod findings;
mod names;
mod operation;
mod reclaim;

pub use command::{Command, Outcome};
pub use names::{NameOrder, Template};
pub use operation::{
    Estimate, Operation, OperationPass, OperationState, PlannedPass, PlannedStep, Rate,
};

pub use reclaim::{ReclaimMethod, ReclaimOrder, Reclaimable};

use crate::words::sql_words;
use findings::Findings;
use plinth_format::Redundancy;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The parameters of `CREATE DISKGROUP`. Names are upper case.
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
    /// Take it even if it is in use otherwise.
    pub force: bool,
}

/// The disks that a statement adds, and those that it drops.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exchange {
    pub add: Vec<NewDisk>,
    pub drop: Vec<Departure>,
}

/// Disks to be dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    pub which: Selection,
    /// They are lost already: their data is copied from other mirrors.
    pub force: bool,
    /// When they are dropped, their space goes back to thin devices.
    pub reclaim: bool,
}

/// A statement whose moves `EXPLAIN WORK` computes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    Exchange(Exchange),
    Resize(Vec<Resize>),
    Convert(Conversion),
}

/// Another redundancy for a whole group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversion(#[serde(with = "redundancy")] pub Redundancy);

/// The disks that a statement names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selection {
    All,
    Disks(Vec<String>),
    FailureGroups(Vec<String>),
    /// The union of these.
    Several(Vec<Selection>),
}

/// The scope of a CHECK or a SCRUB.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Scope {
    #[default]
    All,
    /// The extents with a mirror there.
    Disks(Selection),
    /// Names, as statements write them.
    Files(Vec<String>),
}

/// The parameters of a SCRUB. By default it reads everything, and changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScrubOrder {
    pub scope: Scope,
    pub repair: bool,
    pub power: ScrubPower,
    /// Even while mirrors move or are being restored.
    pub force: bool,
}

/// How fast a SCRUB reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ScrubPower {
    /// It pauses as long as it reads, and longer if reads take long.
    #[default]
    Auto,
    /// It pauses nine times as long as it reads.
    Low,
    /// It does not pause.
    High,
    /// It does not pause, and reads several extents at once.
    Max,
}

/// The permission of a class of the host's users for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Permission {
    None,
    ReadOnly,
    ReadWrite,
}

/// A user or a user group of a disk group: one of the host's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Principal {
    /// The host's number; `None`: it was not looked up yet, or the host does not know the name.
    pub number: Option<u32>,
    pub name: String,
}

impl Principal {
    /// Only the name is known yet.
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

/// A change of users and user groups, owners and permissions.
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

/// A change of volumes. Names are upper case, sizes bytes.
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
    /// A user or a user group that exists already.
    UserExists,
    /// A user that owns files, or a user group that owns some.
    UserInUse,
    NoSuchVolume,
    VolumeExists,
    /// The group is mounted RESTRICTED.
    Restricted,
    /// The disk belongs to a group, or is in use otherwise.
    DiskInUse,
    DiskTooSmall,
    /// Sector or AU sizes that do not fit together.
    DiskMismatch,
    CannotOpen,
    /// Two devices carry one disk's identity.
    DuplicateDisk,
    NotEnoughFailureGroups,
    /// Fewer voters are discovered than needed.
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
    /// A directory that is not empty.
    NotEmpty,
    /// The system made this name.
    SystemName,
    NoSuchTemplate,
    TemplateExists,
    /// A template of the system.
    SystemTemplate,
    /// A version that cannot go down.
    Lowered,
    /// The catalog or another structure is damaged.
    Damaged,
}

/// A refusal: the reason, the thing, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct AdminError {
    pub code: Code,
    /// One sentence that names the thing and the place.
    pub message: String,
    /// The remedy for the operator, if there is one.
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

/// The phases of a rebalance besides restoring lost mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// Makes the disks equally full. Mirrors on disks that leave move in any case.
    pub balance: bool,
    /// Moves mirrors from the end of a disk to its beginning; `None`: on rotating disks.
    pub compact: Option<bool>,
}

impl Default for Phases {
    fn default() -> Self {
        Self { balance: true, compact: None }
    }
}

/// The parameters of a rebalance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Mirrors that move at once; `None`: as many as now, or the default.
    pub power: Option<u32>,
    /// `None`: those of the present one, if there is one.
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

/// New sizes of some disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resize {
    pub which: Selection,
    /// Bytes; `None`: the size of the device.
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

/// The survey of one path: the rows of `v$asm_disk` that belong to no mounted group.
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
    /// The label, from the header or from a label record.
    #[serde(default)]
    pub label: Option<String>,
    /// The path of its device; the same as `path` unless the disk was found by its label.
    #[serde(default)]
    pub device: String,
    /// Bytes; 0 if it cannot be opened.
    pub size: u64,
    pub logical_sector: u32,
    pub physical_sector: u32,
    pub can_discard: bool,
    /// An engine has it for writing, of this instance or another.
    pub is_held: bool,
    /// Why it is not a candidate: its present use, or the error in its header.
    pub remark: Option<String>,
}

impl Survey {
    /// Whether a path is its own or one of its aliases.
    #[must_use]
    pub fn is_at(&self, path: &str) -> bool {
        self.path == path || self.aliases.iter().any(|alias| alias == path)
    }

    /// A disk that was dropped belongs to no group and has no name, whatever its header still says
    /// of the group that it was in.
    #[must_use]
    pub fn without_former_names(&self) -> Self {
        if self.header != HeaderStatus::Former {
            return self.clone();
        }
        Self {
            group: None,
            group_id: None,
            name: None,
            failure_group: None,
            number: None,
            quorum: false,
            ..self.clone()
        }
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
        /// Free to be taken, and labelled.
        Provisioned = "PROVISIONED",
        /// A header of a later version.
        Incompatible = "INCOMPATIBLE",
        Member = "MEMBER",
        Former = "FORMER",
        /// Two devices carry this disk's identity.
        Conflict = "CONFLICT",
        /// It is in use otherwise.
        Foreign = "FOREIGN",
        /// Another device is used in its place: the multipath map that it is a path of.
        Ignored = "IGNORED",
    }
}

/// Which disks may get a label, besides those that have none and are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LabelPermission {
    /// One that has another label.
    pub rename: bool,
    /// A member of a disk group.
    pub migrate: bool,
    /// One that something else is on: it is wiped.
    pub force: bool,
}

/// The result of `CHECK`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Sentences, each naming a thing, a place and the repair or remedy; and how many there are.
    #[serde(flatten)]
    pub problems: Findings,
    /// Remarks that are no errors, as sentences.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Sentences that name files with mirrors on disks that are not ONLINE.
    #[serde(default)]
    pub missing: Vec<String>,
    pub extents_checked: u64,
    pub bytes_read: u64,
}

impl Report {
    pub(crate) fn bad(&mut self, text: String) {
        self.problems.push(Problem { text, repaired: false });
    }

    /// Whether there are no errors left.
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

/// Another device replaces a disk that is offline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// The disk's name.
    pub disk: String,
    /// The device's path.
    pub path: String,
    /// The device may be in use otherwise: its content is lost.
    pub force: bool,
}

/// New names of disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Renaming {
    /// The old name of each, and the new one.
    Disks(Vec<(String, String)>),
    /// Every disk gets its default name: the group, and its number.
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
