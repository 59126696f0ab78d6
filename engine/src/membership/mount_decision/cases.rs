//! The two tables of the mount decision: the verdict on one disk, and the case of the mount.
//!
//! Both are in docs/format.md, section 8; a test compares them with [`verdict`] and [`decide`],
//! fact by fact.

use crate::planted::{self, Bug};
use plinth_format::membership::DiskState;

/// The verdict on one disk of the membership: a row of the table of disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskVerdict {
    Absent,
    Duplicate,
    CopyWhole,
    LosingBranch,
    OldImage,
    Stale,
    Current,
}

/// How many devices carry a disk's id. A device without a valid header, or smaller than its header
/// says, does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Devices {
    None,
    One,
    Several,
}

/// The newest membership on a disk, compared with the one that the mount goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    Newest,
    /// An ancestor, or older than the ancestors that are listed.
    Ancestor,
    /// Not on its lineage.
    Other,
    /// None that can be read.
    Nothing,
}

/// The newest stamp on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stamped {
    InStep,
    /// More than one behind: an ONLINE or SYNCING disk behind the newest, an OFFLINE one behind the
    /// stamp at which it went offline.
    Behind,
    /// None that can be read.
    Nothing,
    /// It names a membership of another history.
    Other,
}

/// The facts of the table of disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskFacts {
    pub devices: Devices,
    /// The membership says that nothing on it counts.
    pub marked: bool,
    pub membership: Held,
    pub stamp: Stamped,
    /// Its state in the membership.
    pub state: DiskState,
    /// FORCE, and without the disks whose stamps cannot be read some data could not be read.
    pub needed: bool,
}

/// The table of disks.
#[must_use]
pub fn verdict(facts: DiskFacts) -> DiskVerdict {
    match facts.devices {
        Devices::None => DiskVerdict::Absent,
        Devices::Several => DiskVerdict::Duplicate,
        Devices::One if facts.marked => DiskVerdict::CopyWhole,
        Devices::One if facts.membership == Held::Other || facts.stamp == Stamped::Other => {
            DiskVerdict::LosingBranch
        }
        Devices::One
            if facts.stamp == Stamped::Nothing
                && facts.needed
                && facts.state == DiskState::Online =>
        {
            DiskVerdict::Current
        }
        Devices::One
            if matches!(facts.stamp, Stamped::Behind | Stamped::Nothing)
                && !planted::has(Bug::OldImageAccepted) =>
        {
            DiskVerdict::OldImage
        }
        Devices::One if facts.state == DiskState::Online => DiskVerdict::Current,
        Devices::One => DiskVerdict::Stale,
    }
}

/// Whether a disk that votes is a witness: it could have a newer membership, had there been one.
#[must_use]
pub fn is_witness(facts: DiskFacts) -> bool {
    let verdict = verdict(DiskFacts { needed: false, ..facts });
    matches!(verdict, DiskVerdict::Current | DiskVerdict::Stale)
        && facts.membership != Held::Nothing
}

/// The result of a mount: a row of the table of mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    NoDisks,
    TwoGroups,
    NoMembership,
    /// Two memberships have the highest generation, and neither gives way.
    Fork,
    TwoHistories,
    NoQuorum,
    NothingCurrent,
    CatalogMissing,
    OutOfReach,
    Mount,
    /// The operator answers for disks that are missing or given up.
    Forced,
}

/// The groups whose members are discovered and have the name that is to be mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Groups {
    None,
    One,
    Several,
}

/// The discovered memberships of the highest generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Newest {
    None,
    /// There is one, or exactly one of several stands alone.
    One,
    /// There are several, and none stands alone, or more than one does.
    Split,
}

/// The content of the discovered current disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Current {
    /// There is none.
    Nothing,
    /// Some AU of the catalog is on none of them.
    WithoutCatalog,
    /// Disks that were ONLINE are missing, and with those that were offline before in more failure
    /// groups than the redundancy covers.
    TooFew,
    Enough,
}

/// The facts of the table of mounts. Without a newest membership the last four have no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Facts {
    pub groups: Groups,
    pub newest: Newest,
    /// A discovered membership outside the newest one's lineage stands alone, on a disk that was
    /// not given up.
    pub another: bool,
    /// More than half of the newest membership's voters are witnesses.
    pub majority: bool,
    pub current: Current,
    pub force: bool,
}

/// The table of mounts.
#[must_use]
pub fn decide(facts: Facts) -> Case {
    match (facts.groups, facts.newest) {
        (Groups::None, _) => return Case::NoDisks,
        (Groups::Several, _) => return Case::TwoGroups,
        (Groups::One, Newest::None) => return Case::NoMembership,
        (Groups::One, Newest::Split) => return Case::Fork,
        (Groups::One, Newest::One) => {}
    }
    match facts {
        Facts { another: true, force: false, .. } => Case::TwoHistories,
        Facts { majority: false, force: false, .. } => Case::NoQuorum,
        Facts { current: Current::Nothing, .. } => Case::NothingCurrent,
        Facts { current: Current::WithoutCatalog, .. } => Case::CatalogMissing,
        Facts { current: Current::TooFew, force: false, .. } => Case::OutOfReach,
        Facts { another: false, majority: true, current: Current::Enough, .. } => Case::Mount,
        _ => Case::Forced,
    }
}
