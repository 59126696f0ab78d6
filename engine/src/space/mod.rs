//! Space: the state of every AU of every disk.
//!
//! Kept in memory only, three bits per AU; built at mount by marking the AUs that the membership
//! and the catalog's extents use. Nothing here does I/O or waits.
//!
//! ```text
//!            allocate_on            release(commit)   take_reclaimable(durable)       freed
//!   FREE ------------------> USED ----------------> RELEASED ---------> RECLAIMABLE --------> FREE
//!   ^ ^ |   mark_used          |    the commit that      the commit is       no I/O of the
//!   | | |                      |    frees it was made    durable             former owner is
//!   | | +-- take_to_discard --> DISCARDING --+                               in flight
//!   | +---------- discarded -----------------+
//!   +--------------------------+
//!             cancel: the commit that would have used it was never made
//! ```
//!
//! A FREE AU is *stained* (not discarded yet) while the device may still hold the last owner's
//! data: a bit of its own. A stained AU can be allocated like any other, and then needs no discard;
//! until then `discards.rs` takes it, a run at a time, in the background.
//!
//! Invariants:
//!
//!   1. An AU is in exactly one state, and only FREE ones are allocated (R8: discarding or
//!      allocatable, never both).
//!   2. `take_reclaimable` hands an AU out once, and only when the commit that released it is
//!      durable (R8). Only FREE ones are discarded.
//!   3. System area, checksum zone and header copies are never allocated and never counted.
//!   4. The counters equal a count of the states.
//!
//! While a disk is resized (`resize.rs`) some of its AUs hold data now and will not then. These are
//! *reserved for the shrink*: free ones are not allocated and not counted.

pub mod balance;
pub(crate) mod coming;
pub(crate) mod extent_id;
pub(crate) mod mirror_sets;
pub mod mirrors;
pub mod placement;
pub(crate) mod safe_capacity;
pub(crate) mod slots;
pub(crate) mod stripes;

use crate::{
    planted::{self, Bug},
    world::discard_limits::DiscardLimits,
};
use plinth_format::{Au, DiskNumber, Layout};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The state of an AU: its bits in the planes low and high; DISCARDING differs from RECLAIMABLE by
/// the
/// stain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuState {
    Free,
    Used,
    /// Freed by a commit that is not durable yet.
    Released,
    /// Freed durably; I/O of its former owner may still be in flight.
    Reclaimable,
    /// Without an owner, and being discarded.
    Discarding,
}

/// Why an AU cannot be marked as used: the catalog or the membership is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MarkError {
    #[error("disk {disk} is not in the group, but its AU {au} is in use; run CHECK")]
    UnknownDisk { disk: DiskNumber, au: Au },
    #[error(
        "AU {au} of disk {disk} is in use, but it holds no data or lies beyond the disk's end; run CHECK"
    )]
    NotData { disk: DiskNumber, au: Au },
    #[error("AU {au} of disk {disk} is in use twice; run CHECK")]
    Twice { disk: DiskNumber, au: Au },
}

/// The AUs of every disk of a group.
#[derive(Debug, Default)]
pub struct Space {
    disks: BTreeMap<DiskNumber, DiskSpace>,
    /// AUs that each commit released and `take_reclaimable` has not handed out.
    released: BTreeMap<u64, Vec<(DiskNumber, Au)>>,
    /// AUs that more than one owner names: a damaged catalog. They stay taken when one owner
    /// releases them, since another still has them.
    contested: BTreeSet<(DiskNumber, Au)>,
    /// AUs of a disk that are not given to files: the catalog needs them for a mirror when the disk
    /// is back.
    reserved: BTreeMap<DiskNumber, u32>,
    changes: u64,
    /// Number of [`InHand`] values.
    hands: Arc<AtomicU64>,
}

/// While it exists, AUs may be taken that neither the catalog nor a membership names yet.
#[derive(Debug)]
pub struct InHand(Arc<AtomicU64>);

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Debug)]
struct DiskSpace {
    layout: Layout,
    /// A bit per AU that the disk is to give up; empty if there are none.
    reserved_for_shrink: Vec<u64>,
    /// One bit per AU in each plane; an AU is free if both are 0. An AU that holds no data is
    /// marked used.
    low: Vec<u64>,
    high: Vec<u64>,
    /// A bit per AU that is free, or being discarded, and where the device may hold data.
    stained: Vec<u64>,
    /// Number of stained AUs; none is in words before `first_stain`.
    stains: u32,
    first_stain: usize,
    /// A bit per AU in use that was stained when it was allocated. [`Space::take_stain`] reads and
    /// clears it.
    taken_stained: Vec<u64>,
    /// A bit per AU that was taken when a discard beside it left a part of a unit of the device.
    /// Its next discard completes that unit.
    completes: Vec<u64>,
    discarding: u32,
    /// These two without AUs that are reserved for a shrink.
    total: u32,
    free: u32,
    /// Released or reclaimable.
    pending: u32,
    /// Where the search continues, so that consecutive extents of a file are adjacent and freed AUs
    /// are not reused at once.
    cursor: Au,
    /// No AU is free in words before this one.
    lowest: usize,
}

impl Space {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a disk, all of whose data AUs are free.
    ///
    /// # Panics
    /// If the disk is there already.
    pub fn add_disk(&mut self, disk: DiskNumber, layout: Layout) {
        let before = self.disks.insert(disk, DiskSpace::new(layout));
        assert!(before.is_none(), "disk {disk} added twice");
    }

    /// Reserves the AUs that hold data now and would not in the layout `target`; `None` ends all
    /// reservations.
    pub fn reserve_for_shrink(&mut self, disk: DiskNumber, target: Option<Layout>) {
        self.changes += 1;
        if let Some(space) = self.disks.get_mut(&disk) {
            space.reserve_for_shrink(target);
        }
    }

    #[must_use]
    pub fn is_reserved_for_shrink(&self, disk: DiskNumber, au: Au) -> bool {
        self.disks.get(&disk).is_some_and(|space| space.is_reserved_for_shrink(au))
    }

    /// AUs that are reserved for a shrink and not free.
    #[must_use]
    pub fn reserved_in_use(&self, disk: DiskNumber) -> u32 {
        self.disks.get(&disk).map_or(0, DiskSpace::reserved_in_use)
    }

    /// AUs that are not free, hold data now, and would not in the layout `target`.
    #[must_use]
    pub fn in_the_way(&self, disk: DiskNumber, target: Layout) -> u32 {
        let Some(space) = self.disks.get(&disk) else { return 0 };
        let in_use = lost(space.layout, target).filter(|au| space.state(*au) != AuState::Free);
        u32::try_from(in_use.count()).unwrap_or(u32::MAX)
    }

    /// Gives the disk another layout, and ends its reservations.
    ///
    /// # Panics
    /// If an AU that is not free holds no data in that layout.
    pub fn cut(&mut self, disk: DiskNumber, layout: Layout) {
        self.changes += 1;
        if let Some(space) = self.disks.get_mut(&disk) {
            space.cut(layout);
        }
    }

    /// Forgets a disk and all its AUs, pending ones too.
    pub fn remove_disk(&mut self, disk: DiskNumber) {
        self.disks.remove(&disk);
        self.released.retain(|_, units| {
            units.retain(|(on, _)| *on != disk);
            !units.is_empty()
        });
    }

    /// The disks, ascending.
    pub fn disks(&self) -> impl Iterator<Item = DiskNumber> + '_ {
        self.disks.keys().copied()
    }

    /// Marks an AU as used, at mount.
    ///
    /// # Errors
    /// If that cannot be: two owners, no such disk, or an AU that holds no data.
    pub fn mark_used(&mut self, disk: DiskNumber, au: Au) -> Result<(), MarkError> {
        let Some(space) = self.disks.get_mut(&disk) else {
            return Err(MarkError::UnknownDisk { disk, au });
        };
        if !space.layout.is_data(au) {
            return Err(MarkError::NotData { disk, au });
        }
        if space.state(au) != AuState::Free {
            self.contested.insert((disk, au));
            return Err(MarkError::Twice { disk, au });
        }
        space.set(au, AuState::Used);
        Ok(())
    }

    /// Allocates a free AU of a disk, the next after the last one allocated.
    pub fn allocate_on(&mut self, disk: DiskNumber) -> Option<Au> {
        if self.free(disk) == 0 { None } else { self.allocate_reserved(disk) }
    }

    /// Allocates the first free AU of a disk, if it is before another one.
    pub fn allocate_before(&mut self, disk: DiskNumber, before: Au) -> Option<Au> {
        if self.free(disk) == 0 {
            return None;
        }
        self.changes += 1;
        self.disks.get_mut(&disk)?.allocate_before(before)
    }

    /// The AU before which all AUs in use would be if the disk had no gaps; and the number of AUs
    /// in use that are not before it.
    #[must_use]
    pub fn compact_end(&self, disk: DiskNumber) -> (Au, u32) {
        self.disks.get(&disk).map_or((Au(0), 0), DiskSpace::compact_end)
    }

    /// As [`Self::allocate_on`], for the catalog: also from its reserve.
    pub fn allocate_reserved(&mut self, disk: DiskNumber) -> Option<Au> {
        self.changes += 1;
        self.disks.get_mut(&disk)?.allocate()
    }

    /// Sets how many AUs of each disk files may not use.
    pub fn reserve(&mut self, reserved: BTreeMap<DiskNumber, u32>) {
        self.reserved = reserved;
    }

    /// Gives back an AU that was allocated for a commit that was never made. It may not be written
    /// any more.
    ///
    /// # Panics
    /// If the AU is not in use.
    pub fn cancel(&mut self, disk: DiskNumber, au: Au) {
        if self.contested.contains(&(disk, au)) {
            return;
        }
        self.change(disk, au, AuState::Used, AuState::Free);
    }

    /// Takes back an allocation that came to nothing: the AU was not written. It is stained if it
    /// was before, or if it has a unit of the device to complete. (Otherwise a request that asks
    /// for more than there is would have the same AUs discarded each time it tries again, and each
    /// discard would make it try again.)
    ///
    /// # Panics
    /// If the AU is not in use.
    pub fn put_back(&mut self, disk: DiskNumber, au: Au) {
        let is_owing = self.disks.get(&disk).is_some_and(|space| space.completes(au));
        let was_stained = self.take_stain(disk, au) || is_owing;
        self.cancel(disk, au);
        if let Some(space) = self.disks.get_mut(&disk)
            && space.state(au) == AuState::Free
        {
            space.stain(au, was_stained);
        }
    }

    /// Records that `commit` freed an AU. It stays taken until `take_reclaimable` and `freed`.
    /// Ignores a disk
    /// that was removed, and an AU that [`Self::mark_used`] refused.
    ///
    /// # Panics
    /// If the AU is not in use.
    pub fn release(&mut self, disk: DiskNumber, au: Au, commit: u64) {
        if self.contested.contains(&(disk, au)) || self.state(disk, au).is_none() {
            return;
        }
        if self.change(disk, au, AuState::Used, AuState::Released) {
            self.released.entry(commit).or_default().push((disk, au));
        }
    }

    /// The AUs freed by commits up to `durable`, which may now be discarded. Each is handed out
    /// once and must come back by [`Space::freed`].
    #[must_use = "what is not given to `freed` is lost until the next mount"]
    pub fn take_reclaimable(&mut self, durable: u64) -> Vec<(DiskNumber, Au)> {
        let reclaimable: Vec<_> = match durable.checked_add(1) {
            Some(next) => {
                let later = self.released.split_off(&next);
                std::mem::replace(&mut self.released, later)
            }
            None => std::mem::take(&mut self.released),
        }
        .into_values()
        .flatten()
        .collect();
        for (disk, au) in &reclaimable {
            self.change(*disk, *au, AuState::Released, AuState::Reclaimable);
        }
        reclaimable
    }

    /// Frees a reclaimable AU: no I/O of its former owner is in flight. Ignores a disk that was
    /// removed.
    ///
    /// # Panics
    /// If the AU was not reclaimable.
    pub fn freed(&mut self, disk: DiskNumber, au: Au) {
        self.change(disk, au, AuState::Reclaimable, AuState::Free);
    }

    /// Takes adjacent free AUs of a disk to be discarded: the first, and how many. At most `most`
    /// are stained; the others are those that share a unit of the device with them. Each must come
    /// back by [`Space::discarded`].
    pub fn take_to_discard(
        &mut self,
        disk: DiskNumber,
        most: u32,
        limits: &DiscardLimits,
    ) -> Option<(Au, u32)> {
        self.disks.get_mut(&disk).filter(|space| space.stains > 0)?.take_to_discard(most, limits)
    }

    /// Bytes of a disk's free AUs that its device cannot give back, as they share its units with
    /// AUs in use.
    #[must_use]
    pub fn cut_off(&self, disk: DiskNumber, limits: &DiscardLimits) -> u64 {
        self.disks.get(&disk).map_or(0, |space| space.cut_off(limits))
    }

    /// Takes adjacent free AUs to be discarded, stained or not: the first that are not before
    /// `from`, at most `most`, or what two units of the device need; and those before them that
    /// share a unit with them, as in [`Self::take_to_discard`]. Also the AU to go on from: the last
    /// one that was taken, where a unit begins in it that others complete.
    pub fn take_free_to_discard(
        &mut self,
        disk: DiskNumber,
        from: Au,
        most: u32,
        limits: Option<&DiscardLimits>,
    ) -> Option<((Au, u32), Au)> {
        self.disks.get_mut(&disk)?.take_free_to_discard(from, most, limits)
    }

    /// Ends a discard, or gives it up: `done` if it need not be tried again. Ignores a disk that
    /// was removed.
    ///
    /// # Panics
    /// If the AUs were not being discarded.
    pub fn discarded(&mut self, disk: DiskNumber, first: Au, count: u32, done: bool) {
        let Some(space) = self.disks.get_mut(&disk) else { return };
        for au in first.run(count) {
            let state = space.state(au);
            assert!(
                state == AuState::Discarding,
                "AU {au} of disk {disk} is {state:?}, not {:?}",
                AuState::Discarding
            );
            let is_owing = space.completes(au);
            space.set(au, AuState::Free);
            if done && !is_owing {
                space.stain(au, false);
            }
        }
    }

    /// Whether an AU was stained when its owner allocated it: the device may hold data wherever
    /// nothing was written since. True once.
    pub fn take_stain(&mut self, disk: DiskNumber, au: Au) -> bool {
        let Some(space) = self.disks.get_mut(&disk) else { return false };
        let (word, bit) = place(au);
        let Some(taken) = space.taken_stained.get_mut(word) else { return false };
        let was_stained = *taken & bit != 0;
        *taken &= !bit;
        was_stained
    }

    /// Stains every free AU of a disk.
    pub fn stain(&mut self, disk: DiskNumber) {
        if let Some(space) = self.disks.get_mut(&disk) {
            let free: Vec<Au> =
                space.layout.data_units().filter(|au| space.state(*au) == AuState::Free).collect();
            free.into_iter().for_each(|au| space.stain(au, true));
        }
    }

    /// Free AUs of a disk that were not discarded.
    #[must_use]
    pub fn stains(&self, disk: DiskNumber) -> u32 {
        self.disks.get(&disk).map_or(0, |space| space.stains)
    }

    /// AUs that are being discarded.
    #[must_use]
    pub fn discarding(&self, disk: DiskNumber) -> u32 {
        self.disks.get(&disk).map_or(0, |space| space.discarding)
    }

    /// Whether AUs have more than one owner: the catalog is damaged, and AUs that it does not name
    /// may be in use.
    #[must_use]
    pub fn is_contested(&self) -> bool {
        !self.contested.is_empty()
    }

    /// To be held while AUs are taken.
    #[must_use]
    pub fn take_in_hand(&self) -> InHand {
        self.hands.fetch_add(1, Ordering::AcqRel);
        InHand(Arc::clone(&self.hands))
    }

    /// Whether there are AUs that are neither free nor recorded as owned.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.any_pending() || self.hands.load(Ordering::Acquire) > 0
    }

    /// Grows whenever an AU is taken or given back, but not for a discard.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// AUs that a file can get now.
    #[must_use]
    pub fn free(&self, disk: DiskNumber) -> u32 {
        let free = self.disks.get(&disk).map_or(0, |space| space.free);
        free.saturating_sub(self.reserved.get(&disk).copied().unwrap_or(0))
    }

    /// AUs that a file can get now, or when their discard has ended.
    #[must_use]
    pub fn available(&self, disk: DiskNumber) -> u32 {
        self.unowned(disk).saturating_sub(self.reserved.get(&disk).copied().unwrap_or(0))
    }

    /// AUs without an owner, reserved or not, being discarded or not.
    #[must_use]
    pub fn unowned(&self, disk: DiskNumber) -> u32 {
        self.disks.get(&disk).map_or(0, |space| space.free + space.discarding_open())
    }

    /// AUs that hold data or could.
    #[must_use]
    pub fn total(&self, disk: DiskNumber) -> u32 {
        self.disks.get(&disk).map_or(0, |space| space.total)
    }

    /// The same, with those that are reserved for a shrink.
    #[must_use]
    pub fn capacity(&self, disk: DiskNumber) -> u32 {
        self.disks.get(&disk).map_or(0, |space| {
            space.total
                + space.reserved_for_shrink.iter().map(|word| word.count_ones()).sum::<u32>()
        })
    }

    /// AUs that have an owner, or had one a moment ago.
    #[must_use]
    pub fn used(&self, disk: DiskNumber) -> u32 {
        self.disks.get(&disk).map_or(0, |space| {
            space.total - space.free + space.reserved_in_use() - space.discarding
        })
    }

    /// AUs that have an owner.
    #[must_use]
    pub fn held(&self, disk: DiskNumber) -> u32 {
        self.used(disk) - self.disks.get(&disk).map_or(0, |space| space.pending)
    }

    /// AUs that were freed and are not free yet.
    #[cfg(test)]
    pub fn pending(&self, disk: DiskNumber) -> u32 {
        self.disks.get(&disk).map_or(0, |space| space.pending)
    }

    /// Whether a durable commit, or the end of I/O, would free something.
    #[must_use]
    pub fn any_pending(&self) -> bool {
        self.disks.values().any(|space| space.pending > 0)
    }

    /// `None` if the disk is unknown or the AU holds no data.
    #[must_use]
    pub fn state(&self, disk: DiskNumber, au: Au) -> Option<AuState> {
        let space = self.disks.get(&disk)?;
        space.layout.is_data(au).then(|| space.state(au))
    }

    /// Changes the state. False if the disk was removed.
    fn change(&mut self, disk: DiskNumber, au: Au, from: AuState, to: AuState) -> bool {
        let Some(space) = self.disks.get_mut(&disk) else {
            return false;
        };
        assert!(space.layout.is_data(au), "AU {au} of disk {disk} holds no data");
        self.changes += 1;
        let state = space.state(au);
        assert!(state == from, "AU {au} of disk {disk} is {state:?}, not {from:?}");
        space.set(au, to);
        true
    }
}

impl DiskSpace {
    fn new(layout: Layout) -> Self {
        let words = (layout.au_count() as usize).div_ceil(64);
        let mut space = Self {
            layout,
            reserved_for_shrink: Vec::new(),
            low: vec![u64::MAX; words],
            high: vec![0; words],
            stained: vec![0; words],
            stains: 0,
            first_stain: 0,
            taken_stained: vec![0; words],
            completes: vec![0; words],
            discarding: 0,
            total: 0,
            free: 0,
            pending: 0,
            cursor: Au(0),
            lowest: 0,
        };
        for au in layout.data_units() {
            let (word, bit) = place(au);
            space.low[word] &= !bit;
            space.total += 1;
        }
        space.free = space.total;
        space
    }

    fn reserve_for_shrink(&mut self, target: Option<Layout>) {
        self.reserved_for_shrink.clear();
        self.lowest = 0;
        if let Some(target) = target {
            self.reserved_for_shrink.resize(self.low.len(), 0);
            for au in lost(self.layout, target) {
                let (word, bit) = place(au);
                self.reserved_for_shrink[word] |= bit;
            }
        }
        let open = self.layout.data_units().filter(|au| !self.is_reserved_for_shrink(*au));
        (self.total, self.free) = open.fold((0, 0), |(total, free), au| {
            (total + 1, free + u32::from(self.state(au) == AuState::Free))
        });
    }

    fn is_reserved_for_shrink(&self, au: Au) -> bool {
        let (word, bit) = place(au);
        self.reserved_for_shrink
            .get(word)
            .is_some_and(|reserved_for_shrink| reserved_for_shrink & bit != 0)
    }

    fn reserved_in_use(&self) -> u32 {
        let planes = self.reserved_for_shrink.iter().zip(&self.low).zip(&self.high);
        planes
            .map(|((reserved_for_shrink, low), high)| {
                (reserved_for_shrink & (low | high)).count_ones()
            })
            .sum()
    }

    fn cut(&mut self, layout: Layout) {
        let mut next = Self::new(layout);
        for au in self.layout.data_units() {
            let state = self.state(au);
            if state != AuState::Free {
                assert!(layout.is_data(au), "AU {au} is {state:?}");
                next.set(au, state);
                let (word, bit) = place(au);
                next.taken_stained[word] |= self.taken_stained[word] & bit;
            } else if self.is_stained(au)
                && layout.is_data(au)
                && !planted::has(Bug::StainsLostInCut)
            {
                next.stain(au, true);
            }
            if layout.is_data(au) {
                let (word, bit) = place(au);
                next.completes[word] |= self.completes[word] & bit;
            }
        }
        // The content of the device there is unknown.
        layout
            .data_units()
            .filter(|au| !self.layout.is_data(*au))
            .for_each(|au| next.stain(au, true));
        next.cursor = if self.cursor.0 < layout.au_count() { self.cursor } else { Au(0) };
        *self = next;
    }

    fn state(&self, au: Au) -> AuState {
        let (word, bit) = place(au);
        match (self.low[word] & bit != 0, self.high[word] & bit != 0) {
            (false, false) => AuState::Free,
            (true, false) => AuState::Used,
            (false, true) => AuState::Released,
            (true, true) if self.is_stained(au) => AuState::Discarding,
            (true, true) => AuState::Reclaimable,
        }
    }

    fn is_stained(&self, au: Au) -> bool {
        let (word, bit) = place(au);
        self.stained[word] & bit != 0
    }

    fn stain(&mut self, au: Au, is_stained: bool) {
        let (word, bit) = place(au);
        match (is_stained, self.is_stained(au)) {
            (true, false) => {
                self.stained[word] |= bit;
                self.stains += 1;
                self.first_stain = self.first_stain.min(word);
            }
            (false, true) => {
                self.stained[word] &= !bit;
                self.stains -= 1;
            }
            _ => {}
        }
    }

    /// AUs being discarded that are not reserved for a shrink.
    fn discarding_open(&self) -> u32 {
        if self.discarding == 0 || self.reserved_for_shrink.is_empty() {
            return self.discarding;
        }
        let reserved_for_shrink =
            self.layout.data_units().filter(|au| self.is_reserved_for_shrink(*au));
        let reserved_for_shrink =
            reserved_for_shrink.filter(|au| self.state(*au) == AuState::Discarding).count();
        self.discarding - u32::try_from(reserved_for_shrink).unwrap_or(0)
    }

    /// The AUs of a word that are free and stained. Those being discarded are stained, too.
    fn to_discard(&self, word: usize) -> u64 {
        self.stained[word] & !self.taken(word)
    }

    fn take_to_discard(&mut self, most: u32, limits: &DiscardLimits) -> Option<(Au, u32)> {
        let words = self.stained.len();
        let word = (self.first_stain..words).find(|word| self.to_discard(*word) != 0)?;
        if (self.first_stain..word).all(|word| self.stained[word] == 0) {
            self.first_stain = word;
        }
        let first = au_of(word, !self.to_discard(word));
        let is_ready = |au: Au| {
            let (word, bit) = place(au);
            word < words && self.to_discard(word) & bit != 0
        };
        let count = first.run(most.max(1)).take_while(|au| is_ready(*au)).count();
        let count = u32::try_from(count).expect("as many as a disk has");
        let (first, count) = self.with_neighbours(first, count, limits);
        first.run(count).for_each(|au| self.set(au, AuState::Discarding));
        self.leave_to_neighbours(first, count, limits);
        Some((first, count))
    }

    fn take_free_to_discard(
        &mut self,
        from: Au,
        most: u32,
        limits: Option<&DiscardLimits>,
    ) -> Option<((Au, u32), Au)> {
        let words = self.low.len();
        let (start, bit) = place(from);
        let taken = |word: usize| self.taken(word) | if word == start { bit - 1 } else { 0 };
        let word = (start..words).find(|word| taken(*word) != u64::MAX)?;
        let first = au_of(word, taken(word));
        let is_free = |au: &Au| {
            let (word, bit) = place(*au);
            word < words && self.taken(word) & bit == 0
        };
        let size = self.layout.au_size();
        let coarse = limits
            .filter(|limits| limits.alignment > 0 || !size.is_multiple_of(limits.granularity));
        let least = coarse.map_or(1, |limits| 2 * limits.granularity.div_ceil(size));
        let most = most.max(u32::try_from(least).unwrap_or(u32::MAX));
        let count = first.run(most).take_while(is_free).count();
        let mut count = u32::try_from(count).expect("as many as a disk has");
        let mut next = Au(first.0 + count);
        if let Some(limits) = coarse.filter(|_| count == most) {
            // More may follow: the run ends with a unit.
            let begin = self.layout.au_offset(first);
            let units = limits.inwards(begin..self.layout.au_offset(next));
            let bytes = units.end - begin;
            count = u32::try_from(bytes.div_ceil(size)).expect("at most as many as before");
            next = Au(first.0 + u32::try_from(bytes / size).expect("as many or one less"));
            let behind = Au(first.0 + count);
            if next < behind && is_free(&behind) {
                // If no other run follows, discards complete the unit that begins in the last AU.
                self.stain(behind, true);
            }
        }
        let begin = match coarse.filter(|_| self.completes(first)) {
            Some(limits) => self.with_neighbours(first, count, limits).0,
            None => first,
        };
        let (first, count) = (begin, count + (first.0 - begin.0));
        for au in first.run(count) {
            self.stain(au, true);
            self.set(au, AuState::Discarding);
        }
        if let Some(limits) = coarse {
            self.leave_to_neighbours(first, count, limits);
        }
        Some(((first, count), next))
    }

    /// Notes which AUs, taken now, complete the units of the device at the edges of a run that is
    /// discarded.
    fn leave_to_neighbours(&mut self, first: Au, count: u32, limits: &DiscardLimits) {
        let end = Au(first.0 + count);
        let touched = limits.outwards(self.layout.au_offset(first)..self.layout.au_offset(end));
        let is_taken = |au: &Au| self.state(*au) != AuState::Free;
        let is_before = |au: &Au| self.layout.au_offset(au.next()) > touched.start;
        let mut before = (0..first.0).rev().map(Au).take_while(is_before);
        let is_behind =
            |au: &Au| au.0 < self.layout.au_count() && self.layout.au_offset(*au) < touched.end;
        let mut behind = (end.0..).map(Au).take_while(is_behind);
        for au in [before.find(is_taken), behind.find(is_taken)].into_iter().flatten() {
            let (word, bit) = place(au);
            self.completes[word] |= bit;
        }
    }

    /// Whether the next discard of an AU completes units of the device.
    fn completes(&self, au: Au) -> bool {
        let (word, bit) = place(au);
        self.completes.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds the free AUs to a run that complete units of the device at its edges. Only those
    /// without a stain: a stained one completes its units itself, when it is discarded. So a free
    /// AU without a stain shares a unit that was not discarded only with AUs that are not free, or
    /// are stained: with them it will go.
    fn with_neighbours(&self, first: Au, count: u32, limits: &DiscardLimits) -> (Au, u32) {
        let bytes = |first: Au, end: Au| self.layout.au_offset(first)..self.layout.au_offset(end);
        let end = Au(first.0 + count);
        let touched = limits.outwards(bytes(first, end));
        let is_clean = |au: &Au| {
            let (word, bit) = place(*au);
            au.0 < self.layout.au_count() && (self.taken(word) | self.stained[word]) & bit == 0
        };
        let is_before = |au: &Au| self.layout.au_offset(au.next()) > touched.start;
        let before = (0..first.0).rev().map(Au).take_while(|au| is_before(au) && is_clean(au));
        let is_behind = |au: &Au| self.layout.au_offset(*au) < touched.end;
        let behind = (end.0..).map(Au).take_while(|au| is_behind(au) && is_clean(au));
        let widest = before.last().unwrap_or(first)..behind.last().map_or(end, Au::next);
        let units = limits.inwards(bytes(widest.start, widest.end));
        if units.is_empty() {
            return (first, count);
        }
        let has_units = |au: &Au| {
            self.layout.au_offset(*au) < units.end && self.layout.au_offset(au.next()) > units.start
        };
        let from = (widest.start.0..first.0).map(Au).find(has_units).unwrap_or(first);
        let to = (end.0..widest.end.0).map(Au).take_while(has_units).last().map_or(end, Au::next);
        (from, to.0 - from.0)
    }

    fn cut_off(&self, limits: &DiscardLimits) -> u64 {
        let size = self.layout.au_offset(Au(1));
        if limits.alignment == 0 && size.is_multiple_of(limits.granularity) {
            return 0;
        }
        let is_free = |au: Au| matches!(self.state(au), AuState::Free | AuState::Discarding);
        let mut cut_off = 0;
        let mut next = 0;
        while let Some(first) = (next..self.layout.au_count()).find(|au| is_free(Au(*au))) {
            next = (first..self.layout.au_count())
                .find(|au| !is_free(Au(*au)))
                .unwrap_or(self.layout.au_count());
            let run = self.layout.au_offset(Au(first))..self.layout.au_offset(Au(next));
            let units = limits.inwards(run.clone());
            cut_off += (run.end - run.start) - (units.end - units.start);
        }
        cut_off
    }

    fn set(&mut self, au: Au, to: AuState) {
        let (word, bit) = place(au);
        if to == AuState::Used && self.is_stained(au) {
            self.taken_stained[word] |= bit;
        } else {
            self.taken_stained[word] &= !bit;
        }
        if to == AuState::Discarding {
            self.completes[word] &= !bit;
        }
        match self.state(au) {
            AuState::Free => self.free -= u32::from(!self.is_reserved_for_shrink(au)),
            AuState::Used => (),
            AuState::Released | AuState::Reclaimable => self.pending -= 1,
            AuState::Discarding => self.discarding -= 1,
        }
        // An AU that becomes free had an owner.
        self.stain(au, matches!(to, AuState::Free | AuState::Discarding));
        let (low, high) = match to {
            AuState::Free => (false, false),
            AuState::Used => (true, false),
            AuState::Released => (false, true),
            AuState::Reclaimable | AuState::Discarding => (true, true),
        };
        self.low[word] = self.low[word] & !bit | if low { bit } else { 0 };
        self.high[word] = self.high[word] & !bit | if high { bit } else { 0 };
        match to {
            AuState::Free => {
                self.free += u32::from(!self.is_reserved_for_shrink(au));
                self.lowest = self.lowest.min(word);
            }
            AuState::Used => (),
            AuState::Released | AuState::Reclaimable => self.pending += 1,
            AuState::Discarding => self.discarding += 1,
        }
    }

    /// The AUs of a word that cannot be allocated.
    fn taken(&self, word: usize) -> u64 {
        self.low[word] | self.high[word] | self.reserved_for_shrink.get(word).copied().unwrap_or(0)
    }

    fn allocate_before(&mut self, before: Au) -> Option<Au> {
        let words = before.0.div_ceil(64) as usize;
        for word in self.lowest..words.min(self.low.len()) {
            let taken = self.taken(word);
            self.lowest = word;
            if taken != u64::MAX {
                let au = au_of(word, taken);
                return (au < before).then(|| {
                    self.set(au, AuState::Used);
                    au
                });
            }
        }
        None
    }

    fn compact_end(&self) -> (Au, u32) {
        let open = || self.layout.data_units().filter(|au| !self.is_reserved_for_shrink(*au));
        let used = self.total - self.free - self.discarding_open();
        let end = open().nth(used as usize).unwrap_or(Au(self.layout.au_count()));
        let behind = open()
            .skip(used as usize)
            .filter(|au| !matches!(self.state(*au), AuState::Free | AuState::Discarding))
            .count();
        (end, u32::try_from(behind).unwrap_or(u32::MAX))
    }

    fn allocate(&mut self) -> Option<Au> {
        if self.free == 0 {
            return None;
        }
        let words = self.low.len();
        let (start, bit) = place(self.cursor);
        // The first word is searched twice: from the cursor on, and at the end whole.
        for step in 0..=words {
            let word = (start + step) % words;
            let mut taken = self.taken(word);
            if planted::has(Bug::BarredUnitTaken) {
                taken = self.low[word] | self.high[word];
            }
            if step == 0 {
                taken |= bit - 1;
            }
            if taken != u64::MAX {
                let au = au_of(word, taken);
                self.set(au, AuState::Used);
                self.cursor = if au.0 + 1 < self.layout.au_count() { au.next() } else { Au(0) };
                return Some(au);
            }
        }
        unreachable!("invariant 4: {} AUs are free", self.free)
    }
}

/// AUs that hold data in one layout, and not in another.
fn lost(layout: Layout, target: Layout) -> impl Iterator<Item = Au> {
    layout.data_units().filter(move |au| !target.is_data(*au))
}

/// The first AU of a word whose bit is not set.
fn au_of(word: usize, taken: u64) -> Au {
    Au(u32::try_from(word * 64).expect("a disk has fewer than 2^32 AUs") + taken.trailing_ones())
}

fn place(au: Au) -> (usize, u64) {
    (au.0 as usize / 64, 1 << (au.0 % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{testing::Numbers, world::discard_limits::DiscardMeans};
    use plinth_format::layout::MIB;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const DISK: DiskNumber = DiskNumber(3);
    /// Every block can be discarded by itself.
    const ANY: DiscardLimits = limits(4096, 0);

    const fn limits(granularity: u64, alignment: u64) -> DiscardLimits {
        DiscardLimits { means: DiscardMeans::Unmap, granularity, alignment, maximum: u64::MAX }
    }

    fn layout(units: u64) -> Layout {
        Layout::new(units * MIB, MIB).expect("large enough")
    }

    fn space(units: u64) -> Space {
        let mut space = Space::new();
        space.add_disk(DISK, layout(units));
        space
    }

    #[test]
    fn allocates_every_data_unit_once_and_no_other() {
        for units in [13, 64, 65, 127, 128, 129, 1000] {
            let mut space = space(units);
            let expected: BTreeSet<Au> = layout(units).data_units().collect();
            assert_eq!(space.total(DISK) as usize, expected.len());
            let given: Vec<Au> = std::iter::from_fn(|| space.allocate_on(DISK)).collect();
            assert_eq!(given.len(), expected.len(), "none twice");
            assert_eq!(given.into_iter().collect::<BTreeSet<_>>(), expected);
            assert_eq!((space.free(DISK), space.pending(DISK)), (0, 0));
        }
    }

    /// R8: not before the commit is durable, and not before discard and reads have ended.
    #[test]
    fn a_freed_unit_waits_for_commit_and_discard() {
        let mut space = space(13);
        let given: Vec<Au> = std::iter::from_fn(|| space.allocate_on(DISK)).collect();
        space.release(DISK, given[2], 7);
        space.release(DISK, given[5], 9);
        assert_eq!((space.allocate_on(DISK), space.pending(DISK)), (None, 2));
        assert_eq!(space.take_reclaimable(6), []);
        assert_eq!(space.take_reclaimable(8), [(DISK, given[2])]);
        assert_eq!(space.take_reclaimable(8), [], "handed out once");
        assert_eq!(space.allocate_on(DISK), None, "its I/O has not ended");
        space.freed(DISK, given[2]);
        assert_eq!(space.allocate_on(DISK), Some(given[2]));
        assert_eq!(space.take_reclaimable(u64::MAX), [(DISK, given[5])]);
        space.freed(DISK, given[5]);
        assert_eq!((space.free(DISK), space.pending(DISK)), (1, 0));
    }

    /// A freed AU is discarded once, in runs, and is not allocated meanwhile; an allocation before
    /// that makes the discard needless.
    #[test]
    fn a_free_unit_is_discarded_or_allocated() {
        let mut space = space(40);
        assert_eq!(space.take_to_discard(DISK, 8, &ANY), None, "nothing was written yet");
        space.stain(DISK);
        let total = space.total(DISK);
        assert_eq!((space.stains(DISK), space.free(DISK)), (total, total));
        let (first, count) = space.take_to_discard(DISK, 3, &ANY).expect("a run");
        assert_eq!((count, space.discarding(DISK), space.free(DISK)), (3, 3, total - 3));
        assert_eq!(
            (space.used(DISK), space.unowned(DISK), space.available(DISK)),
            (0, total, total)
        );
        assert_eq!(space.state(DISK, first), Some(AuState::Discarding));
        let given: Vec<Au> = std::iter::from_fn(|| space.allocate_on(DISK)).collect();
        assert_eq!(given.len(), total as usize - 3);
        assert!(!given.contains(&first), "being discarded");
        assert_eq!(space.take_to_discard(DISK, 3, &ANY), None, "the rest is somebody's");
        space.discarded(DISK, first, 2, true);
        space.discarded(DISK, Au(first.0 + 2), 1, false);
        assert_eq!((space.free(DISK), space.stains(DISK)), (3, 1), "one was given up");
        assert_eq!(space.take_to_discard(DISK, 8, &ANY), Some((Au(first.0 + 2), 1)));
        space.discarded(DISK, Au(first.0 + 2), 1, true);
        space.release(DISK, given[0], 1);
        assert_eq!(space.take_to_discard(DISK, 8, &ANY), None, "its commit is not durable");
        assert_eq!(space.take_reclaimable(1), [(DISK, given[0])]);
        assert_eq!(space.take_to_discard(DISK, 8, &ANY), None, "its I/O has not ended");
        space.freed(DISK, given[0]);
        assert_eq!(space.take_to_discard(DISK, 8, &ANY), Some((given[0], 1)));
        space.remove_disk(DISK);
        space.discarded(DISK, given[0], 1, true);
    }

    /// All free AUs are taken in order, stained or not, and no others; and all units of the device
    /// that lie in them go back.
    #[test]
    fn every_free_unit_is_taken_to_be_discarded() {
        let all_limits = [(4096, 0), (MIB, 4096), (3 * MIB, 0), (8 * MIB, 5 * MIB + 512)];
        let all = [13, 64, 65, 127, 128, 129, 1000];
        let all = all.into_iter().flat_map(|units| all_limits.map(|limits| (units, limits)));
        for (units, (granularity, alignment)) in all {
            let limits = limits(granularity, alignment);
            let layout = layout(units);
            let mut space = space(units);
            let total = space.total(DISK);
            let used: Vec<Au> = std::iter::from_fn(|| space.allocate_on(DISK)).collect();
            let is_kept = |au: &Au| au.0.is_multiple_of(31) || (60..70).contains(&au.0);
            used.iter().filter(|au| !is_kept(au)).for_each(|au| space.cancel(DISK, *au));
            let kept = u32::try_from(used.iter().filter(|au| is_kept(au)).count()).expect("few");
            let (mut from, mut taken, mut given_back) = (Au(0), BTreeSet::new(), 0);
            while let Some(((first, count), next)) =
                space.take_free_to_discard(DISK, from, 7, Some(&limits))
            {
                assert!(first >= from && next > first, "it goes on");
                assert_eq!(space.discarding(DISK), count);
                assert_eq!(space.available(DISK), total - kept, "none seems to be in use");
                let bytes = layout.au_offset(first)..layout.au_offset(Au(first.0 + count));
                let whole = limits.inwards(bytes);
                given_back += whole.end - whole.start;
                taken.extend(first.run(count));
                space.discarded(DISK, first, count, true);
                from = next;
            }
            let free: BTreeSet<Au> = layout.data_units().filter(|au| !is_kept(au)).collect();
            assert_eq!(taken, free, "{units} {limits:?}");
            let whole = free.len() as u64 * MIB - space.cut_off(DISK, &limits);
            assert_eq!(given_back, whole, "{units} {limits:?}");
            assert_eq!(space.stains(DISK), 0);
            assert_eq!(space.take_free_to_discard(DISK, Au(u32::MAX), 7, None), None);
        }
    }

    /// Free AUs are taken to be discarded, and then no more: discards complete the unit that begins
    /// in the last of them.
    #[test]
    fn a_unit_that_was_begun_is_completed_by_discards() {
        for (granularity, alignment) in [(MIB, 4096), (3 * MIB, 0), (8 * MIB, 5 * MIB + 512)] {
            let limits = limits(granularity, alignment);
            for most in 1..40 {
                let mut space = space(130);
                let taken = space.take_free_to_discard(DISK, Au(0), most, Some(&limits));
                let ((first, count), _) = taken.expect("a run");
                space.discarded(DISK, first, count, true);
                let bytes = |au: Au| layout(130).au_offset(au);
                let mut end = limits.inwards(bytes(first)..bytes(Au(first.0 + count))).end;
                while let Some((next, count)) = space.take_to_discard(DISK, 1, &limits) {
                    let whole = limits.inwards(bytes(next)..bytes(Au(next.0 + count)));
                    assert!(whole.start <= end, "{limits:?} {most}: a gap");
                    end = end.max(whole.end);
                    space.discarded(DISK, next, count, true);
                }
                assert!(end >= bytes(Au(first.0 + count)), "{limits:?} {most}: it is left out");
            }
        }
    }

    /// In whatever order AUs are freed and discarded: every unit of the device that lies in free
    /// AUs only has gone back, and what has not is what `cut_off` says.
    #[test]
    fn every_unit_goes_back_when_its_last_au_is_free() {
        for (granularity, alignment) in
            [(4096, 0), (MIB / 4, MIB / 8), (MIB, 4096), (3 * MIB, 0), (8 * MIB, 5 * MIB + 512)]
        {
            let limits = limits(granularity, alignment);
            let mut numbers = Numbers::new(granularity + alignment);
            let mut space = space(70);
            let mut used: Vec<Au> = std::iter::from_fn(|| space.allocate_on(DISK)).collect();
            let keep = used.split_off(50);
            let mut given_back = vec![false; 70 * MIB as usize / 512];
            let mut reclaimed = Au(0);
            let mut discard_some = |space: &mut Space, runs: usize| {
                for run in 0..runs {
                    let taken = match run % 2 {
                        0 => space.take_to_discard(DISK, 3, &limits),
                        _ => space.take_free_to_discard(DISK, reclaimed, 3, Some(&limits)).map(
                            |(taken, next)| {
                                reclaimed = next;
                                taken
                            },
                        ),
                    };
                    let Some((first, count)) = taken else { return };
                    let at = layout(70).au_offset(first);
                    for request in limits.requests(at..at + u64::from(count) * MIB) {
                        let sectors = request.start / 512..request.end / 512;
                        sectors.for_each(|sector| given_back[sector as usize] = true);
                    }
                    space.discarded(DISK, first, count, true);
                }
            };
            while !used.is_empty() {
                let which = numbers.below(used.len() as u64) as usize;
                space.cancel(DISK, used.swap_remove(which));
                // Allocations that come to nothing while others are discarded.
                let taken = (0..numbers.below(4)).filter_map(|_| space.allocate_on(DISK));
                let taken: Vec<Au> = taken.collect();
                discard_some(&mut space, numbers.below(3) as usize);
                taken.into_iter().for_each(|au| space.put_back(DISK, au));
            }
            while space.stains(DISK) > 0 {
                discard_some(&mut space, 1);
            }
            assert_eq!(space.stains(DISK), 0);
            let is_free = |au: Au| space.state(DISK, au) == Some(AuState::Free);
            let sectors = (alignment / 512..70 * MIB / 512).step_by(granularity as usize / 512);
            let mut all = 0;
            for unit in sectors {
                let unit = unit..unit + granularity / 512;
                let is_whole = unit.clone().all(|sector| is_free(Au((sector * 512 / MIB) as u32)));
                let is_given = unit
                    .clone()
                    .all(|sector| given_back.get(sector as usize).copied().unwrap_or(false));
                assert_eq!(is_given, is_whole, "{limits:?} {unit:?}");
                all += if is_given { granularity } else { 0 };
            }
            let free = u64::from(space.free(DISK)) * MIB;
            assert_eq!(space.cut_off(DISK, &limits), free - all, "{limits:?}");
            drop(keep);
        }
    }

    /// A disk that is made smaller: AUs reserved for the shrink are not discarded, and a discard in
    /// progress blocks the shrink.
    #[test]
    fn units_reserved_for_a_shrink_are_not_discarded() {
        let mut space = space(200);
        space.stain(DISK);
        let (first, count) = space.take_to_discard(DISK, 1000, &ANY).expect("a run");
        space.reserve_for_shrink(DISK, Some(layout(40)));
        assert!(space.reserved_in_use(DISK) > 0);
        assert_eq!(space.used(DISK), 0);
        space.discarded(DISK, first, count, false);
        assert_eq!(space.reserved_in_use(DISK), 0);
        while let Some((first, count)) = space.take_to_discard(DISK, 1000, &ANY) {
            assert!(first.run(count).all(|au| !space.is_reserved_for_shrink(DISK, au)));
            space.discarded(DISK, first, count, true);
        }
        space.cut(DISK, layout(40));
        assert_eq!((space.stains(DISK), space.free(DISK)), (0, space.total(DISK)));
    }

    /// AUs that were freed and not discarded before a disk gets another size are discarded after
    /// that, as are the AUs that it gains.
    #[test]
    fn another_size_forgets_no_stain() {
        for (before, after) in [(40, 200), (200, 40)] {
            let mut space = space(before);
            let both = |au: &Au| layout(before).is_data(*au) && layout(after).is_data(*au);
            let given: Vec<Au> = std::iter::from_fn(|| space.allocate_on(DISK)).collect();
            let freed: BTreeSet<Au> = given.iter().copied().filter(both).step_by(3).collect();
            freed.iter().for_each(|au| space.cancel(DISK, *au));
            given.iter().filter(|au| !both(au)).for_each(|au| space.cancel(DISK, *au));
            space.reserve_for_shrink(DISK, Some(layout(after)));
            space.cut(DISK, layout(after));
            let mut discarded = BTreeSet::new();
            while let Some((first, count)) = space.take_to_discard(DISK, 8, &ANY) {
                discarded.extend(first.run(count));
                space.discarded(DISK, first, count, true);
            }
            let gained = layout(after).data_units().filter(|au| !layout(before).is_data(*au));
            assert_eq!(discarded, freed.into_iter().chain(gained).collect(), "{before} to {after}");
        }
    }

    #[test]
    fn a_freed_unit_is_not_reused_while_others_are_free() {
        let mut space = space(40);
        let first = space.allocate_on(DISK).expect("free");
        space.cancel(DISK, first);
        assert_ne!(space.allocate_on(DISK), Some(first));
    }

    #[test]
    fn damage_is_an_error() {
        let mut space = space(40);
        let other = DiskNumber(9);
        assert_eq!(space.mark_used(DISK, Au(5)), Ok(()));
        assert_eq!(space.mark_used(DISK, Au(5)), Err(MarkError::Twice { disk: DISK, au: Au(5) }));
        for au in [0, 1, 39, 40, u32::MAX].map(Au) {
            assert_eq!(space.mark_used(DISK, au), Err(MarkError::NotData { disk: DISK, au }));
        }
        assert_eq!(
            space.mark_used(other, Au(5)),
            Err(MarkError::UnknownDisk { disk: other, au: Au(5) })
        );
    }

    #[test]
    #[should_panic(expected = "is Released, not Reclaimable")]
    fn freeing_before_the_commit_is_durable_panics() {
        let mut space = space(40);
        let au = space.allocate_on(DISK).expect("free");
        space.release(DISK, au, 1);
        space.freed(DISK, au);
    }

    #[test]
    fn a_removed_disk_leaves_nothing_behind() {
        let mut space = space(40);
        let au = space.allocate_on(DISK).expect("free");
        let late = space.allocate_on(DISK).expect("free");
        space.release(DISK, au, 1);
        space.remove_disk(DISK);
        space.release(DISK, late, 2);
        space.freed(DISK, late);
        assert_eq!(space.take_reclaimable(u64::MAX), []);
        space.add_disk(DISK, layout(40));
        assert_eq!(space.free(DISK), space.total(DISK));
    }

    proptest! {
        /// Any sequence of calls agrees with a map of states.
        #[test]
        fn agrees_with_a_simple_model(units in 13_u64..200, calls in prop::collection::vec((0_u8..7, any::<u16>()), 0..400)) {
            let mut space = space(units);
            let mut model: BTreeMap<Au, (AuState, u64)> =
                layout(units).data_units().map(|au| (au, (AuState::Free, 0))).collect();
            let mut commit = 1;
            for (call, pick) in calls {
                let of = |model: &BTreeMap<Au, (AuState, u64)>, state| {
                    let list: Vec<Au> = model.iter().filter(|(_, is)| is.0 == state).map(|(au, _)| *au).collect();
                    if list.is_empty() { None } else { Some(list[usize::from(pick) % list.len()]) }
                };
                match call {
                    0 | 1 => match space.allocate_on(DISK) {
                        Some(au) => {
                            prop_assert_eq!(model[&au].0, AuState::Free);
                            model.insert(au, (AuState::Used, 0));
                        }
                        None => prop_assert_eq!(of(&model, AuState::Free), None),
                    },
                    2 => if let Some(au) = of(&model, AuState::Used) {
                        space.release(DISK, au, commit);
                        model.insert(au, (AuState::Released, commit));
                        commit += u64::from(pick % 2);
                    },
                    3 => {
                        let durable = commit.saturating_sub(u64::from(pick % 3));
                        for (_, au) in space.take_reclaimable(durable) {
                            let (state, by) = model[&au];
                            prop_assert!(state == AuState::Released && by <= durable);
                            model.insert(au, (AuState::Reclaimable, 0));
                        }
                        prop_assert!(!model.values().any(|is| is.0 == AuState::Released && is.1 <= durable));
                    }
                    4 => if let Some(au) = of(&model, AuState::Reclaimable) {
                        space.freed(DISK, au);
                        model.insert(au, (AuState::Free, 0));
                    },
                    5 => if let Some((first, count)) = space.take_to_discard(DISK, u32::from(pick % 7), &ANY) {
                        for au in first.run(count) {
                            prop_assert_eq!(model[&au].0, AuState::Free);
                            model.insert(au, (AuState::Discarding, 0));
                        }
                    },
                    _ => if let Some(au) = of(&model, AuState::Discarding) {
                        space.discarded(DISK, au, 1, pick % 3 > 0);
                        model.insert(au, (AuState::Free, 0));
                    },
                }
                let count = |states: &[AuState]| model.values().filter(|is| states.contains(&is.0)).count();
                prop_assert_eq!(space.free(DISK) as usize, count(&[AuState::Free]));
                prop_assert_eq!(space.discarding(DISK) as usize, count(&[AuState::Discarding]));
                prop_assert_eq!(space.pending(DISK) as usize, count(&[AuState::Released, AuState::Reclaimable]));
            }
            for (au, (state, _)) in model {
                prop_assert_eq!(space.state(DISK, au), Some(state));
            }
        }
    }
}
