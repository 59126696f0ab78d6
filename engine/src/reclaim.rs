//! Taking AUs and slots for new extents, and giving freed ones back (R8).
//!
//! What a commit freed goes this way:
//!
//!   1. The job deletes the rows and buries the extents: no new I/O begins on them.
//!   2. The commit becomes durable.
//!   3. The extent's whole range is held once: I/O in flight has ended.
//!   4. The AUs are discarded, then free. A crash in between costs nothing: at
//!      mount, what no row names is free.
//!
//! A slot's extent goes on. Who still reads or writes the file that had it is waited for by the file's own lock; who comes
//! later finds a buried extent there.
//!
//! A request that finds no space makes pending frees durable before it says so.

use crate::{
    catalog::CommitNumber,
    error::FileError,
    extent::Extent,
    extents::{self, Freed, FreedSlot},
    group::Group,
    lock::{Mutex, MutexGuard},
    mirror_sets::{MirrorSets, mirrors_wanted},
    placement::{Mirror, Placement},
    planted::{self, Bug},
    slots::Slots,
    space::{InHand, Space},
};
use plinth_format::DiskNumber;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, atomic::Ordering},
};

/// What was freed and may not be reused yet, oldest first.
#[derive(Debug, Default)]
struct Pending {
    extents: VecDeque<(CommitNumber, Arc<Extent>)>,
    /// Of which a mirror has moved away.
    moved: VecDeque<(CommitNumber, Arc<Extent>)>,
    slots: VecDeque<(CommitNumber, FreedSlot)>,
}

/// Takes what commits free. Apart from the group, because the jobs that free know no group.
#[derive(Debug)]
pub struct Freeing {
    space: Arc<Mutex<Space>>,
    mirror_sets: Arc<MirrorSets>,
    pending: Mutex<Pending>,
}

/// What may be used again.
struct Settled {
    /// Deleted.
    extents: Vec<Arc<Extent>>,
    /// Of which a mirror has moved away.
    moved: Vec<Arc<Extent>>,
    /// AUs of both.
    units: Vec<(DiskNumber, u32)>,
    slots: Vec<FreedSlot>,
}

/// Takes out what came with commits up to `durable`: they come nearly, not quite, in order.
fn take_settled<T>(pending: &mut VecDeque<(CommitNumber, T)>, durable: CommitNumber) -> Vec<T> {
    let (ready, rest): (VecDeque<_>, _) = pending.drain(..).partition(|(commit, _)| *commit <= durable);
    *pending = rest;
    ready.into_iter().map(|(_, one)| one).collect()
}

/// The same for slots, but for those of a file that somebody still reads or writes: they come later.
fn take_left(pending: &mut VecDeque<(CommitNumber, FreedSlot)>, durable: CommitNumber) -> Vec<FreedSlot> {
    let is_left = |slot: &FreedSlot| planted::has(Bug::ReaderNotWaitedFor) || slot.is_left();
    let (ready, rest) = pending.drain(..).partition(|(commit, slot)| *commit <= durable && is_left(slot));
    *pending = rest;
    let ready: VecDeque<(CommitNumber, FreedSlot)> = ready;
    ready.into_iter().map(|(_, slot)| slot).collect()
}

impl Freeing {
    #[must_use]
    pub fn new(space: Arc<Mutex<Space>>, mirror_sets: Arc<MirrorSets>) -> Self {
        Self { space, mirror_sets, pending: Mutex::default() }
    }

    /// A commit freed extents and slots.
    pub fn note(&self, commit: CommitNumber, freed: Freed) {
        // Together, or `take` would hand out AUs without the extents whose I/O is to be awaited.
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
        pending.moved.extend(freed.left.into_iter().map(|(extent, _)| (commit, extent)));
        pending.slots.extend(freed.slots.into_iter().map(|slot| (commit, slot)));
    }

    #[must_use]
    pub fn has_pending(&self) -> bool {
        let pending = self.pending.lock();
        !pending.extents.is_empty() || !pending.moved.is_empty() || !pending.slots.is_empty()
    }

    /// Takes out what commits up to `durable` freed.
    fn take(&self, durable: CommitNumber) -> Settled {
        let mut pending = self.pending.lock();
        Settled {
            extents: take_settled(&mut pending.extents, durable),
            moved: take_settled(&mut pending.moved, durable),
            slots: take_left(&mut pending.slots, durable),
            units: self.space.lock().settle(durable.0),
        }
    }
}

/// How many extents are given to a file in one commit: all, or none.
pub const ALLOCATED_AT_ONCE: usize = 256;

impl Group {
    pub(crate) fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock()
    }

    pub(crate) fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock()
    }

    /// The placement for the membership in force, of extents that have as many mirrors as the group.
    pub(crate) fn placement(&self) -> Arc<Placement> {
        self.placement_for(0)
    }

    /// The same, of extents of files that ask for `own` mirrors.
    pub(crate) fn placement_for(&self, own: u8) -> Arc<Placement> {
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

    /// Before AUs are taken, until a commit names them or they are given back.
    pub(crate) fn take_in_hand(&self) -> InHand {
        self.space.lock().take_in_hand()
    }

    /// Takes AUs for the mirrors of extents `numbers` of a file that asks for `own` of each; all or none. Until they are given back, each extent keeps a
    /// mirror on an ONLINE disk (R5).
    pub(crate) async fn allocate(&self, file: u64, own: u8, numbers: &[u64]) -> Result<Vec<Vec<Mirror>>, FileError> {
        loop {
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
                        space.cancel(mirror.disk, mirror.au);
                    }
                }
                taken
            };
            if taken.len() < numbers.len() {
                if !self.reclaim(true).await? {
                    return Err(FileError::NoSpace);
                }
                continue;
            }
            // From here on these disks are not expelled; what was decided before is in force when the voters are settled.
            taken.iter().for_each(|mirrors| self.mirror_sets.add(mirrors.iter().map(|mirror| mirror.disk), own));
            self.voters.settled().await;
            // A conversion that began meanwhile counts on it that what comes later has as many mirrors as it wants.
            let as_wanted = placement.mirrors() == mirrors_wanted(own, &self.voters.current());
            if as_wanted && taken.iter().all(|mirrors| self.has_current(mirrors)) {
                return Ok(taken);
            }
            taken.iter().for_each(|mirrors| self.unallocate(mirrors, own));
        }
    }

    /// Whether one of these mirrors is on an ONLINE disk.
    fn has_current(&self, mirrors: &[Mirror]) -> bool {
        mirrors.iter().any(|mirror| self.members.get(&mirror.disk).is_some_and(|member| member.is_readable()))
    }

    /// Sees to it that `extents` more can be allocated, as far as nobody else takes them first.
    pub(crate) async fn make_room(&self, own: u8, extents: u64) -> Result<(), FileError> {
        // Few are refused or given as one.
        if extents <= ALLOCATED_AT_ONCE as u64 {
            return Ok(());
        }
        while self.placement_for(own).allocatable(&self.space.lock()) < extents {
            if !self.reclaim(true).await? {
                return Err(FileError::NoSpace);
            }
        }
        Ok(())
    }

    /// Gives an extent's AUs back that no commit has named.
    pub(crate) fn unallocate(&self, mirrors: &[Mirror], own: u8) {
        self.mirror_sets.remove(mirrors.iter().map(|mirror| mirror.disk), own);
        let mut space = self.space.lock();
        for mirror in mirrors {
            space.cancel(mirror.disk, mirror.au);
        }
    }

    /// Gives an extent's AUs back whose row a job was to insert, after that failed. Not if the catalog has stopped: then the row may be on the
    /// disks all the same, and the next mount finds it. Until then its AUs are nobody else's, and count for R5.
    pub(crate) fn unallocate_refused(&self, mirrors: &[Mirror], own: u8) {
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
        let Settled { extents, moved, units: settled, slots } = self.freeing.take(durable);
        let awaited = moved.iter().filter(|_| !planted::has(Bug::MovedPlaceReused));
        for extent in extents.iter().chain(awaited).filter(|_| !planted::has(Bug::ReaderNotWaitedFor)) {
            let _drained = extent.ranges.hold(0..self.blocks_per_au(), true).await;
        }
        self.extents.rest(extents.iter().map(|extent| extent.id));
        moved.iter().for_each(|extent| self.extents.have_moved(extent));
        let early = planted::has(Bug::DiscardBehindReuse);
        // What was on a disk that leaves is not discarded: it goes back whole, or not at all.
        let membership = self.voters.current();
        let stays = |disk: DiskNumber| membership.disk(disk).is_some_and(|disk| !disk.leaving);
        for (disk, au) in &settled {
            if early {
                self.space.lock().freed(*disk, *au);
            }
            if let Some(member) = self.members.get(disk)
                && member.is_writable()
                && member.can_discard()
                && self.attributes().discard
                && stays(*disk)
            {
                // A discard that fails leaves the AU as it is, which is as good.
                let _ = member.start_discard(member.layout().au_offset(*au), self.au_size).settle().await;
            }
            if !early {
                self.space.lock().freed(*disk, *au);
            }
        }
        let mut gained = !settled.is_empty();
        for FreedSlot { extent, piece, .. } in slots {
            gained = true;
            if self.slots().give_back(extent, piece) {
                self.drop_shared_extent(extent).await?;
            }
        }
        Ok(gained)
    }

    /// Frees a shared extent without files, unless it was taken into use again.
    async fn drop_shared_extent(&self, id: u64) -> Result<(), FileError> {
        if !self.slots().remove_extent(id) {
            return Ok(());
        }
        let extents = Arc::clone(&self.extents);
        let (freed, commit) = self
            .catalog
            .release(false, move |connection| {
                let extent = extents::find(connection, &extents, id)?;
                connection.prepare_cached("DELETE FROM extent WHERE id = ?1")?.execute([id.cast_signed()])?;
                if let Some(extent) = &extent {
                    extent.bury();
                    extents.remove(id);
                }
                Ok(extent)
            })
            .await?;
        self.note_freed(commit, Freed { extents: freed.into_iter().collect(), ..Freed::default() });
        Ok(())
    }
}
