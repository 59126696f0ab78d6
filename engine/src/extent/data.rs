//! The data path of a mounted group: reads and writes the bytes of its extents, keeps them right,
//! and has all that it needs for that.
//!
//! It knows extents, disks, space and the catalog. It knows no names, no moves of mirrors, no
//! statements and no front ends: the rooms that do stand above it, hold it, and deref to it.

use crate::{
    catalog::{Catalog, attributes::Attributes, on_disks::DiskStore},
    disk::{members::Members, slow::Speeds},
    event::{Event, Severity},
    extent::{
        Extent, Extents, activity::Activity, catalog_mirrors::CatalogMirrors, discards::Discards,
        disputes::Disputes, failed_flush::FailedFlushes, latency_probe::LatencyProber,
        move_waits::MoveWaits, partial_blocks::PartialBlocks, reclaim::Freeing, recovery::Suspects,
        repairs::Repairs, stale::Stale, throttle::Throttle,
    },
    membership::voters::Voters,
    space::{
        Space,
        coming::Parting,
        mirror_sets::{MirrorCount, MirrorSets, mirrors_wanted},
        placement::{Placement, Placements},
        slots::Slots,
    },
    sync::lock::{AsyncMutex, Mutex, MutexGuard},
    world::{Timestamp, World},
};
use plinth_format::{BLOCK_SIZE, DiskNumber, GroupId, MembershipId, Redundancy};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// The data path of a group. See the module's description.
pub struct Data {
    pub(crate) world: Arc<dyn World>,
    pub(crate) id: GroupId,
    pub(crate) name: String,
    pub(crate) au_size: u64,
    /// When the group was created, and mounted: nanoseconds since 1970.
    pub(crate) created: Timestamp,
    pub(crate) mounted: Timestamp,
    pub(crate) members: Arc<Members>,
    pub(crate) mirror_sets: Arc<MirrorSets>,
    pub(crate) voters: Arc<Voters>,
    pub(crate) store: Arc<DiskStore>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) activity: Activity,
    pub(crate) extents: Arc<Extents>,
    pub(crate) stale: Arc<Mutex<Stale>>,
    pub(crate) speeds: Mutex<Speeds>,
    pub(crate) suspects: Arc<Suspects>,
    pub(crate) failed_flushes: Arc<FailedFlushes>,
    pub(crate) space: Arc<Mutex<Space>>,
    pub(crate) placement: Mutex<Option<(MembershipId, Placements)>>,
    pub(crate) slots: Mutex<Slots>,
    pub(crate) freeing: Arc<Freeing>,
    /// Front ends that may give space back soon.
    pub(crate) parting: Arc<dyn Parting>,
    pub(crate) reclaiming: AsyncMutex<()>,
    pub(crate) discards: Discards,
    /// Held while headers may have other names than the record, and while FORMER is written into
    /// one.
    pub(crate) renaming: AsyncMutex<()>,
    /// Held during a look at the engine's own metadata; taken before `renaming`.
    pub(crate) looking: AsyncMutex<()>,
    /// The extent whose checksum blocks are looked at next.
    pub(crate) next_zone: AtomicU64,
    /// Read-held while a file moves from its slot to an extent that no row names yet.
    pub(crate) promoting: tokio::sync::RwLock<()>,
    pub(crate) next_extent: AtomicU64,
    /// Counts the caretaker's rounds: the clock of `Extent::last_used`.
    pub(crate) ticks: AtomicU64,
    pub(crate) repairs: Repairs,
    pub(crate) partial_blocks: PartialBlocks,
    pub(crate) catalog_mirrors: CatalogMirrors,
    pub(crate) disputes: Disputes,
    /// Extents whose checksums no disk could read.
    pub(crate) zones_lost: AtomicU64,
    pub(crate) throttle: Throttle,
    pub(crate) move_waits: MoveWaits,
    pub(crate) latency_prober: Arc<LatencyProber>,
    pub(crate) attributes: Mutex<Attributes>,
    /// Reads are taken as they come: `Group::take_reads_unchecked`.
    pub(crate) unchecked: AtomicBool,
    pub(crate) stopping: AtomicBool,
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Data of {}", self.name)
    }
}

impl Data {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many mirrors each extent has, at least.
    #[must_use]
    pub fn redundancy(&self) -> Redundancy {
        self.voters.current().redundancy
    }

    /// Whether the group is being dismounted.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn attributes(&self) -> Attributes {
        *self.attributes.lock()
    }

    pub(crate) fn boot(&self) -> [u8; 16] {
        self.voters.current().boot
    }

    pub(crate) fn blocks_per_au(&self) -> usize {
        usize::try_from(self.au_size).expect("64 MiB at most") / BLOCK_SIZE
    }

    /// Bytes of one AU's checksums in the zone.
    pub(crate) fn sums_length(&self) -> usize {
        (self.blocks_per_au() * 4).max(BLOCK_SIZE)
    }

    pub(crate) fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock()
    }

    pub(crate) fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock()
    }

    /// The placement for the membership in force, of extents that have as many mirrors as the
    /// group.
    pub(crate) fn placement(&self) -> Arc<Placement> {
        self.placement_for(MirrorCount::AsGroup)
    }

    /// The same, of extents of files that ask for `own` mirrors.
    pub(crate) fn placement_for(&self, own: MirrorCount) -> Arc<Placement> {
        let membership = self.voters.current();
        let mirrors = mirrors_wanted(own, &membership);
        let mut cached = self.placement.lock();
        let known = match &mut *cached {
            Some((id, known)) if *id == membership.id => known,
            other => &mut other.insert((membership.id, BTreeMap::new())).1,
        };
        let make = || Arc::new(Placement::of(&membership, mirrors, &self.space.lock()));
        Arc::clone(known.entry(mirrors).or_insert_with(make))
    }

    /// How many mirrors an extent should have.
    pub(crate) fn wanted_for(&self, extent: &Extent) -> usize {
        mirrors_wanted(extent.own, &self.voters.current())
    }

    /// The placement is another one although the membership is the same.
    pub(crate) fn forget_placement(&self) {
        *self.placement.lock() = None;
    }

    /// A line of the alert log.
    pub(crate) fn tell(&self, severity: Severity, disk: Option<DiskNumber>, text: String) {
        self.world.event(Event { group: self.name.clone(), severity, disk, text });
    }

    /// Runs a task that ends when the group is gone or dismounted.
    pub(crate) fn spawn_while_mounted<F>(
        self: &Arc<Self>,
        name: &str,
        task: impl FnOnce(Weak<Self>) -> F,
    ) where
        F: Future<Output = Option<()>> + Send + 'static,
    {
        let task = task(Arc::downgrade(self));
        self.world.spawn(
            name,
            Box::pin(async move {
                let _ = task.await;
            }),
        );
    }
}
