//! What statements ask for.

use super::{Query, Role};
use plinth_engine::admin::{Command, NewGroup};
use std::fmt;

/// Something from the text, and where it stands there: characters from the start, counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At<T> {
    pub value: T,
    pub at: usize,
}

/// Where names and paths stand in a statement, in the order in which they stand there.
pub type Places = Vec<(String, usize)>;

/// One statement. Names are upper case.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    CreateGroup {
        /// Paths may have wildcards, and `au_size` is still among the attributes.
        new: NewGroup,
        /// Where paths, disks and attributes stand.
        places: Places,
        at: usize,
    },
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
    /// A statement on mounted groups that their engines carry out.
    Alter(Alter),
    /// `EXPLAIN WORK`: what a statement would move. Its command is an estimate.
    ExplainWork {
        /// Empty unless it was given.
        id: String,
        alter: Alter,
        power: Option<u32>,
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

/// A statement on mounted groups: the command for their engines, and what only the session needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Alter {
    /// Most commands are for one group.
    pub groups: Groups,
    /// Paths of disks may have wildcards, and users are known by name only.
    pub command: Command,
    /// Return only when what it begins has ended; `None`: nothing is said.
    pub wait: Option<bool>,
    /// Where the names are that a refusal may be about.
    pub places: Places,
    /// Where the clause stands: the place of any other refusal.
    pub at: usize,
}

impl Alter {
    /// Of one group, which is the place of refusals.
    #[must_use]
    pub fn one(group: At<String>, command: Command) -> Self {
        Self::of(Groups::Named(vec![group]), command)
    }

    /// Of several groups; each is the place of its own refusals.
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

/// A password, or what a client has made of one; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub At<String>);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
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
            Self::CreateGroup { .. } => "CREATE DISKGROUP",
            Self::DropGroup { .. } => "DROP DISKGROUP",
            Self::Mount { .. } | Self::Dismount { .. } | Self::Alter(_) => "ALTER DISKGROUP",
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
