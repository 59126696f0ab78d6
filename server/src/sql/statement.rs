//! The parsed form of statements.

use super::{Query, Role};
use plinth_engine::admin::{Command, LabelPermission, NewGroup};
use std::fmt;

/// A part of the text, and its position: characters from the start, counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At<T> {
    pub value: T,
    pub at: usize,
}

/// Names and paths in a statement with their positions, in the order of the text.
pub type Places = Vec<(String, usize)>;

/// One statement. Names are upper case.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    CreateGroup {
        /// Paths may have wildcards, and `au_size` is still among the attributes.
        new: NewGroup,
        /// The positions of paths, disks and attributes.
        places: Places,
        at: usize,
    },
    DropGroup {
        name: At<String>,
        /// The group is not mounted.
        force: bool,
        /// `INCLUDING CONTENTS`.
        contents: bool,
    },
    Mount {
        groups: Groups,
        force: bool,
        /// Only administrators may use the group.
        restricted: bool,
    },
    Dismount {
        groups: Groups,
        force: bool,
    },
    /// A statement on mounted groups that their engines carry out.
    Alter(Alter),
    /// `EXPLAIN WORK`: what a statement would move. The command in it is an estimate.
    ExplainWork {
        /// Empty unless it was given.
        id: String,
        alter: Alter,
        power: Option<u32>,
    },
    /// `ALTER SYSTEM SET`, or `ALTER SYSTEM RESET` if there is no value.
    AlterSystem {
        parameter: At<SystemParameter>,
        value: Option<At<String>>,
        comment: Option<String>,
    },
    /// `ALTER SYSTEM FILTER`
    Filter(FilterChange),
    /// `ALTER SYSTEM LABEL`.
    AlterLabel(LabelOrder),
    /// `ALTER SESSION SET`: names in lower case, and their values.
    AlterSession(Vec<(At<String>, At<String>)>),
    /// A user that may log in over the network.
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
    /// `SHOW PARAMETER`: parameters whose names contain the text; all if there is none.
    ShowParameter {
        like: Option<At<String>>,
        /// `SHOW SPPARAMETER`: what is stored.
        stored: bool,
    },
    /// `SET`, or `RESET` if there is no value; without a name `RESET ALL`.
    Set {
        name: String,
        value: Option<String>,
    },
    /// Forget a prepared statement; all of them if `None`.
    Deallocate(Option<String>),
    /// `DISCARD ALL`: forget the state of the session.
    Discard,
    /// A statement of PostgreSQL that has no effect here: `SAVEPOINT`, `UNLISTEN` ...; the command
    /// tag of the answer.
    Ignored(&'static str),
    Begin,
    Commit,
    Rollback,
    Query(Query),
}

/// A change of the host's write filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterChange {
    Load,
    Unload,
    /// Whether members are protected: all of them, or the one at a path.
    Set {
        enable: bool,
        disk: Option<At<String>>,
    },
}

/// A statement on the labels of disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelOrder {
    Set {
        label: At<String>,
        path: At<String>,
        permission: LabelPermission,
    },
    /// A label, or the path of a device.
    Clear(At<String>),
    /// Of the devices that the patterns match; else of those that `afd_diskstring` shows.
    Scan(Option<At<String>>),
}

impl LabelOrder {
    /// The place of what a refusal is about.
    #[must_use]
    pub fn place(&self) -> usize {
        match self {
            Self::Set { path, .. } => path.at,
            Self::Clear(label) => label.at,
            Self::Scan(patterns) => patterns.as_ref().map_or(0, |patterns| patterns.at),
        }
    }
}

/// The parameters that `ALTER SYSTEM` sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemParameter {
    Diskstring,
    LabelScan,
    PowerLimit,
    Preferred,
}

impl SystemParameter {
    pub const ALL: [Self; 4] =
        [Self::Diskstring, Self::LabelScan, Self::PowerLimit, Self::Preferred];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Diskstring => "asm_diskstring",
            Self::LabelScan => "afd_diskstring",
            Self::PowerLimit => "asm_power_limit",
            Self::Preferred => "asm_preferred_read_failure_groups",
        }
    }
}

/// A statement on mounted groups: the command for their engines, and the options that only the
/// session uses.
#[derive(Debug, Clone, PartialEq)]
pub struct Alter {
    /// Most commands are for one group.
    pub groups: Groups,
    /// Disks' paths may still have wildcards, and users still have names without numbers.
    pub command: Command,
    /// Whether to wait until the operation that it starts has ended; `None` if the statement does
    /// not say.
    pub wait: Option<bool>,
    /// The positions of names that a refusal may be about.
    pub places: Places,
    /// The position of the clause, for any other refusal.
    pub at: usize,
}

impl Alter {
    /// For one group, whose position is that of refusals.
    #[must_use]
    pub fn one(group: At<String>, command: Command) -> Self {
        Self::of(Groups::Named(vec![group]), command)
    }

    /// For several groups; a refusal has the position of its group.
    #[must_use]
    pub fn of(groups: Groups, command: Command) -> Self {
        let at = match &groups {
            Groups::Named(names) => names.first().map_or(0, |name| name.at),
            Groups::All => 0,
        };
        Self { groups, command, wait: None, places: Places::new(), at }
    }

    #[must_use]
    pub fn at(self, at: usize) -> Self {
        Self { at, ..self }
    }

    #[must_use]
    pub fn wait(self, wait: Option<bool>) -> Self {
        Self { wait, ..self }
    }

    #[must_use]
    pub fn places(self, places: Places) -> Self {
        Self { places, ..self }
    }
}

/// A password, or the verifier that a client made of one; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub At<String>);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// The groups that a statement is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Groups {
    All,
    Named(Vec<At<String>>),
}

impl Statement {
    /// The command tag, with which PostgreSQL's protocol reports completion.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::CreateGroup { .. } => "CREATE DISKGROUP",
            Self::DropGroup { .. } => "DROP DISKGROUP",
            Self::Mount { .. } | Self::Dismount { .. } | Self::Alter(_) => "ALTER DISKGROUP",
            Self::ExplainWork { .. } => "EXPLAIN WORK",
            Self::AlterSystem { .. } | Self::Filter(_) | Self::AlterLabel(_) => "ALTER SYSTEM",
            Self::AlterSession(_) => "ALTER SESSION",
            Self::CreateUser { .. } => "CREATE ROLE",
            Self::AlterUser { .. } => "ALTER ROLE",
            Self::DropUser(_) => "DROP ROLE",
            Self::Show(_) | Self::ShowAll | Self::ShowParameter { .. } => "SHOW",
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
