//! What statements ask for.

use plinth_engine::admin::{Order, Phases, Renaming, Resize, Selection};
use plinth_format::Redundancy;

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
        at: usize,
    },
    Check {
        group: At<String>,
        repair: bool,
    },
    SetAttribute {
        group: At<String>,
        name: At<String>,
        value: String,
    },
    /// `ALTER SYSTEM SET asm_diskstring`.
    SetDiskstring(At<String>),
    Show(At<String>),
    ShowAll,
    /// What PostgreSQL's clients say and means nothing here: `SET`, `RESET`, `DISCARD` ...; the tag to answer with.
    Ignored(&'static str),
    Begin,
    Commit,
    Rollback,
    /// For the query engine: the text, and where it starts.
    Query(At<String>),
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
            | Self::SetAttribute { .. } => "ALTER DISKGROUP",
            Self::ExplainWork { .. } => "EXPLAIN WORK",
            Self::SetDiskstring(_) => "ALTER SYSTEM",
            Self::Show(_) | Self::ShowAll => "SHOW",
            Self::Ignored(tag) => tag,
            Self::Begin => "BEGIN",
            Self::Commit => "COMMIT",
            Self::Rollback => "ROLLBACK",
            Self::Query(_) => "SELECT",
        }
    }

    /// Whether only who administers may do it.
    #[must_use]
    pub fn administers(&self) -> bool {
        matches!(
            self.tag(),
            "CREATE DISKGROUP" | "DROP DISKGROUP" | "ALTER DISKGROUP" | "ALTER SYSTEM" | "EXPLAIN WORK"
        )
    }
}
