//! What statements ask for.

use super::{Query, Role};
use plinth_engine::admin::{
    Order, Permission, Phases, Renaming, Resize, Scope, ScrubOrder, Selection, VolumeChange,
};
use plinth_engine::files::statements::NameOrder;
use plinth_format::Redundancy;
use std::fmt;

/// Something from the text, and where it stands there: characters from the start, counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At<T> {
    pub value: T,
    pub at: usize,
}

/// One statement. Names are upper case.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    CreateGroup(CreateGroup),
    DropGroup {
        name: At<String>,
        /// Of a group that is not mounted.
        force: bool,
        /// `INCLUDING CONTENTS`.
        contents: bool,
    },
    Mount {
        groups: Groups,
        force: bool,
        /// For whoever administers alone.
        restricted: bool,
    },
    Dismount {
        groups: Groups,
        force: bool,
    },
    Offline {
        group: At<String>,
        which: Selection,
        /// Seconds after which the disks are dropped; `None`: the repair time of the group.
        drop_after: Option<u64>,
        at: usize,
    },
    Online {
        group: At<String>,
        which: Selection,
        /// How much at once, and whether to return only when the resync is done.
        resync: Rebalance,
        at: usize,
    },
    /// Disks that come and go.
    Exchange {
        group: At<String>,
        add: Vec<DiskClause>,
        drop: Vec<Drop>,
        rebalance: Rebalance,
        at: usize,
    },
    Undrop {
        groups: Groups,
    },
    /// Other devices in the place of disks.
    Replace {
        group: At<String>,
        replacements: Vec<(At<String>, DiskClause)>,
        resync: Rebalance,
    },
    /// Other names for disks.
    Rename {
        group: At<String>,
        renaming: Renaming,
        at: usize,
    },
    /// Other sizes for disks.
    Resize {
        group: At<String>,
        resizes: Vec<Resize>,
        rebalance: Rebalance,
        at: usize,
    },
    /// Another redundancy.
    Convert {
        group: At<String>,
        to: Redundancy,
        rebalance: Rebalance,
        at: usize,
    },
    Rebalance {
        group: At<String>,
        rebalance: Rebalance,
    },
    /// `EXPLAIN WORK`: what a statement would move.
    ExplainWork {
        /// Empty unless it was given.
        id: String,
        group: At<String>,
        work: Work,
        power: Option<u32>,
        at: usize,
    },
    Check {
        group: At<String>,
        scope: Scope,
        repair: bool,
        at: usize,
    },
    Scrub {
        groups: Groups,
        order: ScrubOrder,
        wait: bool,
        at: usize,
    },
    StopScrub {
        groups: Groups,
    },
    /// Users, user groups, owners and permissions.
    Access {
        group: At<String>,
        change: Access,
        at: usize,
    },
    Volume {
        group: At<String>,
        change: VolumeChange,
        at: usize,
    },
    EnableVolumes {
        groups: Groups,
        change: VolumeChange,
        at: usize,
    },
    /// Templates, directories, aliases, files.
    Names {
        group: At<String>,
        order: NameOrder,
        /// Where each name stands.
        places: Vec<(String, usize)>,
        at: usize,
    },
    SetAttribute {
        group: At<String>,
        name: At<String>,
        value: String,
    },
    /// `ALTER SYSTEM SET asm_diskstring`.
    SetDiskstring(At<String>),
    /// `ALTER SYSTEM SET asm_preferred_read_failure_groups`.
    SetPreferred(At<String>),
    /// Who may come over the network.
    CreateUser {
        name: At<String>,
        password: Password,
        role: Role,
    },
    AlterUser {
        name: At<String>,
        password: Option<Password>,
        role: Option<Role>,
    },
    DropUser(At<String>),
    Show(At<String>),
    ShowAll,
    /// `SET`, or `RESET` if there is no value; without a name `RESET ALL`.
    Set {
        name: String,
        value: Option<String>,
    },
    /// Forget a prepared statement; `None`: all.
    Deallocate(Option<String>),
    /// `DISCARD ALL`: forget what the session has.
    Discard,
    /// What PostgreSQL's clients say and means nothing here: `SAVEPOINT`, `UNLISTEN` ...; the tag
    /// to answer with.
    Ignored(&'static str),
    Begin,
    Commit,
    Rollback,
    Query(Query),
}

/// What becomes of users and user groups, owners and permissions. Names as the host has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    AddUsers(Vec<At<String>>),
    DropUsers {
        users: Vec<At<String>>,
        /// Their files go with them.
        cascade: bool,
    },
    /// The old name of each, and the new one.
    ReplaceUsers(Vec<(At<String>, At<String>)>),
    AddUserGroup {
        name: At<String>,
        members: Vec<At<String>>,
    },
    ModifyUserGroup {
        name: At<String>,
        add: bool,
        members: Vec<At<String>>,
    },
    DropUserGroup(At<String>),
    SetPermission {
        owner: Option<Permission>,
        usergroup: Option<Permission>,
        other: Option<Permission>,
        files: Vec<String>,
    },
    SetOwnership {
        owner: Option<At<String>>,
        usergroup: Option<At<String>>,
        files: Vec<String>,
    },
}

/// A password, or what a client has made of one; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub At<String>);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// `CREATE DISKGROUP`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateGroup {
    pub name: At<String>,
    pub redundancy: Redundancy,
    pub disks: Vec<DiskClause>,
    /// Names in lower case.
    pub attributes: Vec<(At<String>, String)>,
}

/// One `DISK 'path' ...`.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskClause {
    /// May have wildcards.
    pub path: At<String>,
    pub name: Option<At<String>>,
    pub failure_group: Option<String>,
    pub quorum: bool,
    pub size: Option<u64>,
    pub force: bool,
}

/// Some disks of a `DROP`.
#[derive(Debug, Clone, PartialEq)]
pub struct Drop {
    pub which: Selection,
    /// They are gone already.
    pub force: bool,
}

/// The end of a statement that moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebalance {
    pub power: Option<u32>,
    /// `None`: those of the one that is modified.
    pub phases: Option<Phases>,
    /// Return only when it is done; `None`: nothing is said.
    pub wait: Option<bool>,
}

/// What an `EXPLAIN WORK` is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    Exchange(Vec<DiskClause>, Vec<Drop>),
    Resize(Vec<Resize>),
    Convert(Redundancy),
}

impl Default for Rebalance {
    fn default() -> Self {
        Self { power: None, phases: Some(Phases::default()), wait: None }
    }
}

impl Rebalance {
    /// What the engine is asked for.
    #[must_use]
    pub fn order(&self) -> Order {
        Order { power: self.power, phases: self.phases }
    }
}

/// Which groups are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Groups {
    All,
    Named(Vec<At<String>>),
}

impl Statement {
    /// What PostgreSQL's protocol calls the command, when it is done.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::CreateGroup(_) => "CREATE DISKGROUP",
            Self::DropGroup { .. } => "DROP DISKGROUP",
            Self::Mount { .. }
            | Self::Dismount { .. }
            | Self::Offline { .. }
            | Self::Online { .. }
            | Self::Exchange { .. }
            | Self::Undrop { .. }
            | Self::Replace { .. }
            | Self::Rename { .. }
            | Self::Resize { .. }
            | Self::Convert { .. }
            | Self::Rebalance { .. }
            | Self::Check { .. }
            | Self::Names { .. }
            | Self::Scrub { .. }
            | Self::StopScrub { .. }
            | Self::Access { .. }
            | Self::Volume { .. }
            | Self::EnableVolumes { .. }
            | Self::SetAttribute { .. } => "ALTER DISKGROUP",
            Self::ExplainWork { .. } => "EXPLAIN WORK",
            Self::SetDiskstring(_) | Self::SetPreferred(_) => "ALTER SYSTEM",
            Self::CreateUser { .. } => "CREATE ROLE",
            Self::AlterUser { .. } => "ALTER ROLE",
            Self::DropUser(_) => "DROP ROLE",
            Self::Show(_) | Self::ShowAll => "SHOW",
            Self::Set { value: Some(_), .. } => "SET",
            Self::Set { value: None, .. } => "RESET",
            Self::Deallocate(None) => "DEALLOCATE ALL",
            Self::Deallocate(Some(_)) => "DEALLOCATE",
            Self::Discard => "DISCARD ALL",
            Self::Ignored(tag) => tag,
            Self::Begin => "BEGIN",
            Self::Commit => "COMMIT",
            Self::Rollback => "ROLLBACK",
            Self::Query(_) => "SELECT",
        }
    }
}
