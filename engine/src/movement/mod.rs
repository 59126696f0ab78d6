//! Mirrors that move: rebalances, conversions, resizes, disks that come, go and return.

pub(crate) mod absent;
pub(crate) mod convert;
pub(crate) mod disks;
mod dropped_space;
pub(crate) mod explain;
pub(crate) mod goals;
pub(crate) mod label;
pub(crate) mod mover;
pub(crate) mod orders;
mod passes;
mod plan;
pub(crate) mod progress;
mod rebalance;
pub(crate) mod rename;
pub(crate) mod repair_time;
pub(crate) mod replace;
pub(crate) mod resize;
pub(crate) mod resync;

use crate::{
    catalog::attributes::DropAfter,
    files::file_system::FileSystem,
    movement::{absent::Absences, orders::Rebalance, progress::Progress},
    sync::lock::{AsyncMutex, Mutex},
};
use plinth_format::DiskNumber;
use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, atomic::AtomicU32},
};

/// A group whose disks come, go and return, and whose mirrors move. It knows of no front ends, and
/// of no checks.
pub struct Movement {
    pub(crate) file_system: Arc<FileSystem>,
    pub(crate) onlining: AsyncMutex<()>,
    /// Extents that each resync copies at once.
    pub(crate) resync_power: AtomicU32,
    /// Held while disks are added or dropped.
    pub(crate) exchanging: AsyncMutex<()>,
    pub(crate) resyncs: Mutex<BTreeMap<DiskNumber, Progress>>,
    pub(crate) absences: Absences,
    pub(crate) rebalance: Arc<Rebalance>,
    /// Held while an attribute, or the repair time of an offline disk, is set: the current values
    /// are read, changed, stored and put back.
    pub(crate) setting: AsyncMutex<()>,
    /// The repair times that statements gave to offline disks.
    pub(crate) drop_after: Mutex<BTreeMap<DiskNumber, DropAfter>>,
}

impl Deref for Movement {
    type Target = Arc<FileSystem>;

    fn deref(&self) -> &Arc<FileSystem> {
        &self.file_system
    }
}

impl std::fmt::Debug for Movement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Movement of {}", self.name)
    }
}

impl Movement {
    pub(crate) fn new(
        file_system: Arc<FileSystem>,
        drop_after: BTreeMap<DiskNumber, DropAfter>,
    ) -> Arc<Self> {
        Arc::new(Self {
            file_system,
            onlining: AsyncMutex::new(()),
            resync_power: AtomicU32::new(orders::POWER_DEFAULT),
            exchanging: AsyncMutex::new(()),
            resyncs: Mutex::default(),
            absences: Absences::default(),
            rebalance: Arc::new(Rebalance::new(Self::start_rebalance)),
            setting: AsyncMutex::new(()),
            drop_after: Mutex::new(drop_after),
        })
    }
}
