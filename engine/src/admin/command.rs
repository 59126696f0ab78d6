//! Statements that the engine of a mounted disk group carries out.
//!
//! One type all the way: the parser makes a command, the instance completes it (paths that match a
//! pattern, numbers of the host's users), the engine's process receives it on its socket, and
//! `Group::carry_out` carries it out. The parser keeps the places of names in the text beside it.

use super::{
    AccessChange, Conversion, Estimate, Exchange, LabelPermission, NameOrder, Order, ReclaimOrder,
    Reclaimable, Renaming, Replacement, Report, Resize, Scope, ScrubOrder, Selection, VolumeChange,
    Work, operation::OperationPass,
};
use serde::{Deserialize, Serialize};

/// A statement on a mounted disk group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    Offline {
        which: Selection,
        /// Seconds after which the disks are dropped; `None`: the repair time of the group.
        drop_after: Option<u64>,
    },
    Online {
        which: Selection,
        /// How many copies run at once; `None`: as many as now.
        power: Option<u32>,
    },
    /// Disks to be added and dropped.
    Exchange {
        exchange: Exchange,
        order: Order,
    },
    /// `EXPLAIN WORK`: the moves of a statement.
    Estimate(Work),
    Undrop,
    /// New devices for disks.
    Replace {
        replacements: Vec<Replacement>,
        power: Option<u32>,
    },
    /// New names of disks.
    Rename(Renaming),
    /// A label for a disk.
    Label {
        disk: String,
        label: String,
        permission: LabelPermission,
    },
    /// New sizes of disks.
    Resize {
        resizes: Vec<Resize>,
        order: Order,
    },
    /// Another redundancy.
    Convert {
        to: Conversion,
        order: Order,
    },
    Rebalance(Order),
    Check {
        repair: bool,
        #[serde(default)]
        scope: Scope,
    },
    /// Starts a scrub.
    Scrub(ScrubOrder),
    StopScrub,
    /// Starts a RECLAIM.
    Reclaim(ReclaimOrder),
    StopReclaim,
    /// How much the disks hold, and would hold after a RECLAIM.
    Reclaimable(Selection),
    /// Users, user groups, owners and permissions.
    Access(AccessChange),
    Volume(VolumeChange),
    /// Templates, directories, aliases, files.
    Names {
        order: NameOrder,
        /// The user that owns what it makes, with root's group; the parser does not know it.
        uid: Option<u32>,
    },
    SetAttribute {
        /// In lower case.
        name: String,
        value: String,
        /// Although the group has files.
        #[serde(default)]
        force: bool,
    },
}

/// The answer to a command that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Report(Report),
    Estimate(Estimate),
    Reclaimable(Vec<Reclaimable>),
}

impl Command {
    /// The order of the rebalance that it begins, if it begins one.
    #[must_use]
    pub fn order(&self) -> Option<Order> {
        match self {
            Self::Exchange { order, .. }
            | Self::Resize { order, .. }
            | Self::Convert { order, .. }
            | Self::Rebalance(order) => Some(*order),
            _ => None,
        }
    }

    /// The operation that continues after the answer, if there is one: `WAIT` waits for its end.
    #[must_use]
    pub fn goes_on_in(&self) -> Option<OperationPass> {
        match self {
            Self::Online { .. } | Self::Replace { .. } => Some(OperationPass::Resync),
            Self::Exchange { order, .. }
            | Self::Resize { order, .. }
            | Self::Convert { order, .. }
            | Self::Rebalance(order) => {
                // A pause has no end.
                (order.power != Some(0)).then_some(OperationPass::Rebalance)
            }
            Self::Scrub(_) => Some(OperationPass::Scrubbing),
            Self::Reclaim(_) => Some(OperationPass::Reclaim),
            _ => None,
        }
    }
}
