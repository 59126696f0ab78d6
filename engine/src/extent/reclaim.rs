//! Taking AUs and slots for new extents, and giving freed ones back (R8).
//!
//! Space that a commit freed goes this way:
//!
//!   1. The job deletes the rows and marks the extents deleted (tombstones): no new I/O begins on
//!      them.
//!   2. The commit becomes durable.
//!   3. The extent's whole range is held once: I/O in flight has ended. I/O that does not end
//!      within the disk timeout keeps its extent back, and nothing else.
//!   4. The AUs are free, and discarded unless they are taken before (`discards.rs`). A crash in
//!      between costs nothing: at mount, AUs that no row names are free.
//!
//! A slot's extent stays. Readers and writers of the file that had the slot are waited for by the
//! file's own lock; later ones find a tombstone there.
//!
//! A request that finds no space makes pending frees durable before it fails, and waits for space
//! that is about to become free (`coming.rs`): jobs that remove a large file, another task's
//! reclaiming, a front end that closes a file that was removed just now.

use crate::{
    catalog::CommitNumber,
    disk::member::TICK_MS,
    error::FileError,
    extent::data::Data,
    extent::{
        self, Extent,
        layout::{Freed, FreedSlot},
        scope::find,
    },
    planted::{self, Bug},
    reached::{self, Mark},
    space::{
        InHand, Space,
        coming::{Coming, Release, Waiting},
        extent_id::ExtentId,
        mirror_sets::{MirrorCount, MirrorSets, mirrors_wanted},
        placement::Mirror,
    },
    sync::lock::Mutex,
};
use futures::{
    channel::oneshot,
    future::{self, Either},
};
use plinth_format::{Au, DiskNumber};
use std::{
    collections::{BTreeSet, VecDeque},
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Space that was freed and may not be reused yet, oldest first.
#[derive(Debug, Default)]
struct Pending {
    extents: VecDeque<(CommitNumber, Arc<Extent>)>,
    /// Of which a mirror has moved away, and from where.
    moved: VecDeque<(CommitNumber, (Arc<Extent>, Mirror))>,
    slots: VecDeque<(CommitNumber, FreedSlot)>,
    /// Extents whose I/O does not end: nothing waits for it.
    stuck: Vec<Vacated>,
}

/// An extent that was deleted, or of which a mirror has moved away, durably; and the AUs that are
/// free when its I/O has ended.
#[derive(Debug)]
struct Vacated {
    extent: Arc<Extent>,
    is_deleted: bool,
    units: Vec<(DiskNumber, Au)>,
}

/// Takes what commits free. Apart from the group, because the jobs that free know no group.
#[derive(Debug)]
pub struct Freeing {
    space: Arc<Mutex<Space>>,
    mirror_sets: Arc<MirrorSets>,
    pending: Mutex<Pending>,
    coming: Arc<Coming>,
}

/// Space that may be used again.
struct Reusable {
    left: Vec<Vacated>,
    /// Extents of earlier rounds whose I/O did not end then.
    stuck: Vec<Vacated>,
    slots: Vec<FreedSlot>,
}

/// Takes out what came with commits up to `durable`: they come nearly, not quite, in order.
fn take_durable<T>(pending: &mut VecDeque<(CommitNumber, T)>, durable: CommitNumber) -> Vec<T> {
    let (ready, rest): (VecDeque<_>, _) =
        pending.drain(..).partition(|(commit, _)| *commit <= durable);
    *pending = rest;
    ready.into_iter().map(|(_, one)| one).collect()
}

/// The same for slots, except those of a file that is still being read or written: they come later.
fn take_left(
    pending: &mut VecDeque<(CommitNumber, FreedSlot)>,
    durable: CommitNumber,
) -> Vec<FreedSlot> {
    let is_left = |slot: &FreedSlot| planted::has(Bug::ReaderNotWaitedFor) || slot.is_left();
    let (ready, rest) =
        pending.drain(..).partition(|(commit, slot)| *commit <= durable && is_left(slot));
    *pending = rest;
    let ready: VecDeque<(CommitNumber, FreedSlot)> = ready;
    ready.into_iter().map(|(_, slot)| slot).collect()
}

impl Freeing {
    #[must_use]
    pub fn new(space: Arc<Mutex<Space>>, mirror_sets: Arc<MirrorSets>) -> Self {
        Self { space, mirror_sets, pending: Mutex::default(), coming: Arc::default() }
    }

    /// Before a job that frees something, until what it freed is noted.
    #[must_use]
    pub fn begin(&self) -> Release {
        self.coming.begin()
    }

    /// Space that is about to become free.
    #[must_use]
    pub fn coming(&self) -> &Arc<Coming> {
        &self.coming
    }

    /// A commit freed extents and slots.
    pub fn note(&self, commit: CommitNumber, freed: Freed) {
        // Under one lock, or `take` would hand out AUs without the extents whose I/O is to be
        // awaited.
        let mut pending = self.pending.lock();
        {
            let mut space = self.space.lock();
            for extent in &freed.extents {
                self.mirror_sets.remove(extent.disks(), extent.own);
                for mirror in extent.mirrors() {
                    space.release(mirror.disk, mirror.au, commit.0);
                }
            }
            for (_, mirror) in &freed.left {
                space.release(mirror.disk, mirror.au, commit.0);
            }
        }
        pending.extents.extend(freed.extents.into_iter().map(|extent| (commit, extent)));
        pending.moved.extend(freed.left.into_iter().map(|left| (commit, left)));
        pending.slots.extend(freed.slots.into_iter().map(|slot| (commit, slot)));
    }

    #[must_use]
    pub fn has_pending(&self) -> bool {
        let pending = self.pending.lock();
        let has_noted =
            !pending.extents.is_empty() || !pending.moved.is_empty() || !pending.slots.is_empty();
        has_noted || !pending.stuck.is_empty()
    }

    /// Whether AUs were freed that no round has looked at yet.
    fn has_noted_units(&self) -> bool {
        let pending = self.pending.lock();
        !pending.extents.is_empty() || !pending.moved.is_empty()
    }

    /// Takes out what commits up to `durable` freed.
    fn take(&self, durable: CommitNumber) -> Reusable {
        let mut pending = self.pending.lock();
        let reclaimable: BTreeSet<(DiskNumber, Au)> =
            self.space.lock().take_reclaimable(durable.0).into_iter().collect();
        // Some are not free for all that: of a damaged catalog, or on a disk that has left.
        let units = |mirrors: &mut dyn Iterator<Item = Mirror>| {
            mirrors
                .map(|mirror| (mirror.disk, mirror.au))
                .filter(|unit| reclaimable.contains(unit))
                .collect()
        };
        let deleted = take_durable(&mut pending.extents, durable).into_iter().map(|extent| {
            let units = units(&mut extent.mirrors().into_iter());
            Vacated { extent, is_deleted: true, units }
        });
        let mut left: Vec<Vacated> = deleted.collect();
        let moved = take_durable(&mut pending.moved, durable).into_iter();
        left.extend(moved.map(|(extent, mirror)| {
            let units = units(&mut std::iter::once(mirror));
            Vacated { extent, is_deleted: false, units }
        }));
        let stuck = std::mem::take(&mut pending.stuck);
        Reusable { left, stuck, slots: take_left(&mut pending.slots, durable) }
    }
}

/// How long a catalog that cannot grow waits for space that is being freed.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// How many extents are given to a file in one commit: all, or none.
pub const ALLOCATED_AT_ONCE: usize = 256;

impl Data {
    /// Before AUs are taken, until a commit names them or they are given back.
    pub(crate) fn take_in_hand(&self) -> InHand {
        self.space.lock().take_in_hand()
    }

    /// Takes AUs for the mirrors of extents `numbers` of a file that asks for `own` of each; all or
    /// none. Until they are given back, each extent keeps a mirror on an ONLINE disk (R5).
    pub(crate) async fn allocate(
        &self,
        file: u64,
        own: MirrorCount,
        numbers: &[u64],
    ) -> Result<Vec<Vec<Mirror>>, FileError> {
        let mut waiting = None;
        loop {
            let seen = self.freeing.coming().freed();
            let placement = self.placement_for(own);
            let taken = {
                let mut space = self.space.lock();
                let mut taken = Vec::with_capacity(numbers.len());
                for number in numbers {
                    match placement.choose(file, *number, &mut space) {
                        Ok(mirrors) => taken.push(mirrors),
                        Err(_) => break,
                    }
                }
                if taken.len() < numbers.len() {
                    for mirror in taken.drain(..).flatten() {
                        space.put_back(mirror.disk, mirror.au);
                    }
                }
                taken
            };
            if taken.len() < numbers.len() {
                if !Box::pin(self.wait_for_space(seen, &mut waiting)).await? {
                    return Err(FileError::NoSpace);
                }
                continue;
            }
            // From here on these disks are not expelled; decisions from before are in force when
            // the voters are ended.
            taken.iter().for_each(|mirrors| {
                self.mirror_sets.add(mirrors.iter().map(|mirror| mirror.disk), own)
            });
            self.voters.wait_for_changes().await;
            // A conversion that began meanwhile relies on it that new extents have as many mirrors
            // as it wants.
            let as_wanted = placement.mirrors() == mirrors_wanted(own, &self.voters.current());
            if as_wanted && taken.iter().all(|mirrors| self.has_current(mirrors)) {
                return Ok(taken);
            }
            taken.iter().for_each(|mirrors| self.unallocate(mirrors, own));
        }
    }

    /// Whether one of these mirrors is on an ONLINE disk.
    fn has_current(&self, mirrors: &[Mirror]) -> bool {
        mirrors
            .iter()
            .any(|mirror| self.members.get(&mirror.disk).is_some_and(|member| member.is_readable()))
    }

    /// Makes sure that `extents` more can be allocated, unless other tasks take them first.
    pub(crate) async fn make_room(&self, own: MirrorCount, extents: u64) -> Result<(), FileError> {
        // Few are refused or given as one.
        if extents <= ALLOCATED_AT_ONCE as u64 {
            return Ok(());
        }
        let mut waiting = None;
        loop {
            let seen = self.freeing.coming().freed();
            if self.placement_for(own).allocatable(&self.space.lock()) >= extents {
                return Ok(());
            }
            if !Box::pin(self.wait_for_space(seen, &mut waiting)).await? {
                return Err(FileError::NoSpace);
            }
        }
    }

    /// Waits until more is free than when [`Coming::freed`] was `seen`. False: nothing is coming.
    /// The caller holds no range of blocks: deleted extents are free only when all their ranges are
    /// released. `waiting` is kept until it has what it needs, or gives up.
    async fn wait_for_space(
        &self,
        seen: u64,
        waiting: &mut Option<Waiting>,
    ) -> Result<bool, FileError> {
        let coming = self.freeing.coming();
        waiting.get_or_insert_with(|| coming.wait());
        loop {
            let changed = coming.listen();
            let gained = self.reclaim(true).await?;
            reached::at(Mark::SpaceAwaited);
            if gained || coming.freed() != seen {
                return Ok(true);
            }
            if coming.is_under_way() {
                changed.await;
            } else if self.freeing.has_noted_units() {
                // Since then.
            } else if self.is_discarding() {
                changed.await;
            } else if let Some(rest) = self.parting.parting() {
                future::select(changed, self.world.sleep(rest)).await;
            } else {
                return Ok(coming.freed() != seen);
            }
        }
    }

    /// Waits until more is free on a disk than when [`Coming::freed`] was `seen`. False: nothing
    /// was pending.
    pub(crate) async fn wait_for_units(
        &self,
        disk: DiskNumber,
        seen: u64,
    ) -> Result<bool, FileError> {
        let coming = self.freeing.coming();
        loop {
            let changed = coming.listen();
            if self.reclaim(true).await? || coming.freed() != seen {
                return Ok(true);
            }
            if !self.is_discarding_on(disk) {
                return Ok(coming.freed() != seen);
            }
            changed.await;
        }
    }

    /// Whether AUs have no owner for the time that their discard takes.
    fn is_discarding(&self) -> bool {
        self.members.values().any(|member| self.is_discarding_on(member.number))
    }

    fn is_discarding_on(&self, disk: DiskNumber) -> bool {
        self.space.lock().discarding(disk) > self.discards.late(disk)
    }

    /// The catalog cannot grow: whether something has become free meanwhile, or does so soon.
    pub(crate) async fn make_room_for_catalog(self: Arc<Self>) -> bool {
        let coming = self.freeing.coming();
        let seen = coming.freed();
        if !coming.is_under_way()
            && !self.has_pending()
            && !self.is_discarding()
            && self.parting.parting().is_none()
        {
            return false;
        }
        // The caller may hold what reclaiming waits for: a range of an extent that was deleted
        // meanwhile. So a task waits, for a limited time.
        let (sender, receiver) = oneshot::channel();
        let group = Arc::clone(&self);
        let wait = async move {
            let _ = sender.send(group.wait_for_space(seen, &mut None).await.unwrap_or(false));
        };
        self.world.spawn("reclaim", Box::pin(wait));
        match future::select(receiver, self.world.sleep(ROOM_PATIENCE)).await {
            Either::Left((gained, _)) => gained.unwrap_or(false),
            Either::Right(_) => false,
        }
    }

    /// Gives an extent's AUs back that no commit has named.
    pub(crate) fn unallocate(&self, mirrors: &[Mirror], own: MirrorCount) {
        self.mirror_sets.remove(mirrors.iter().map(|mirror| mirror.disk), own);
        let mut space = self.space.lock();
        for mirror in mirrors {
            space.cancel(mirror.disk, mirror.au);
        }
    }

    /// Gives back the AUs of an extent whose row a job was to insert, after the job failed. Not if
    /// the catalog has stopped: then the row may be on the disks all the same, and the next mount
    /// finds it. Until then its AUs stay taken, and count for R5.
    pub(crate) fn unallocate_refused(&self, mirrors: &[Mirror], own: MirrorCount) {
        if self.catalog.failure().is_none() || planted::has(Bug::DoubtfulPlaceFreed) {
            self.unallocate(mirrors, own);
        }
    }

    pub(crate) fn next_extent_ids(&self, count: u64) -> u64 {
        self.next_extent.fetch_add(count, Ordering::Relaxed)
    }

    pub(crate) fn note_freed(&self, commit: CommitNumber, freed: Freed) {
        self.freeing.note(commit, freed);
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.freeing.has_pending()
    }

    /// Makes freed space reusable, as far as its commits are durable; with `force` they
    /// are made durable first. False if nothing was gained.
    pub(crate) async fn reclaim(&self, force: bool) -> Result<bool, FileError> {
        let _one_at_a_time = self.reclaiming.lock().await;
        let early = planted::has(Bug::UnitReusedEarly);
        if force && self.has_pending() && !early {
            self.catalog.durable_point().await?;
        }
        let durable = if early { self.catalog.committed() } else { self.catalog.durable() };
        let Reusable { left, stuck, slots } = self.freeing.take(durable);
        let mut gained = false;
        let mut still = Vec::new();
        for (left, is_stuck) in stuck
            .into_iter()
            .map(|left| (left, true))
            .chain(left.into_iter().map(|left| (left, false)))
        {
            if !self.has_ended(&left, is_stuck).await {
                still.push(left);
                continue;
            }
            if left.is_deleted {
                self.extents.expire_tombstones(std::iter::once(left.extent.id));
            } else {
                self.extents.note_moved(&left.extent);
            }
            let mut space = self.space.lock();
            left.units.iter().for_each(|(disk, au)| space.freed(*disk, *au));
            gained |= !left.units.is_empty();
        }
        if !still.is_empty() {
            reached::at(Mark::StuckExtent);
            self.freeing.pending.lock().stuck.extend(still);
        }
        for FreedSlot { extent, piece, .. } in slots {
            gained = true;
            self.discards.note(extent, [piece]);
            if self.slots().give_back(extent, piece) {
                self.drop_shared_extent(extent).await?;
            }
        }
        if gained {
            self.freeing.coming().note_freed();
        }
        Ok(gained)
    }

    /// Waits until I/O for the previous owner has ended, as long as a disk may take; where it did
    /// not the last time, not at all.
    async fn has_ended(&self, left: &Vacated, is_stuck: bool) -> bool {
        let is_awaited = left.is_deleted || !planted::has(Bug::MovedPlaceReused);
        if !is_awaited || planted::has(Bug::ReaderNotWaitedFor) {
            return true;
        }
        let all = 0..self.blocks_per_au();
        if left.extent.ranges.try_hold(all.clone(), true).is_some() {
            return true;
        }
        if is_stuck {
            return false;
        }
        let patience = Duration::from_millis(self.attributes().disk_timeout_ticks * TICK_MS);
        let held = pin!(left.extent.ranges.hold(all, true));
        matches!(future::select(held, self.world.sleep(patience)).await, Either::Left(_))
            || planted::has(Bug::StuckExtentFreed)
    }

    /// Frees a shared extent without files, unless it was taken into use again.
    async fn drop_shared_extent(&self, id: ExtentId) -> Result<(), FileError> {
        if !self.slots().remove_extent(id) {
            return Ok(());
        }
        reached::at(Mark::SharedExtentGone);
        let extents = Arc::clone(&self.extents);
        let _release = self.freeing.begin();
        let (freed, commit) = self
            .catalog
            .release(false, move |connection| {
                let extent = find(connection, &extents, id)?;
                extent::delete(connection, &extent)?.remove_from(&extents);
                Ok(extent)
            })
            .await?;
        self.note_freed(commit, Freed { extents: freed.into_iter().collect(), ..Freed::default() });
        Ok(())
    }
}
