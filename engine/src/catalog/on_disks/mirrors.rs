//! How mirrors of the catalog are built and grow. `places.rs` decides where.
//!
//! A new mirror is built whole by [`DiskStore::rebuild`], on the catalog's writer thread, so that
//! no other write to the catalog happens meanwhile:
//!
//!   1. Allocate AUs on a disk of a failure group that has no mirror; if it has too few, the rest
//!      on other disks, separate from all other mirrors.
//!   2. Copy both files from the current mirrors; flush.
//!   3. Record the membership that lists the new mirror. A crash before this leaves free AUs.
//!
//! Two mirrors may be in one failure group, built while no other could be written. If all three
//! mirrors exist, the new one replaces one of those two in the same membership. The replaced one's
//! AUs are free when all reads that began before have ended.
//!
//! If the disk is a returning one, that membership also makes it ONLINE
//! ([`DiskStore::bring_online`]).

use super::{
    DiskStore,
    places::{
        MIRRORS, can_list, cut, disks_of, disks_of_others, growing, is_too_many, list, moved,
        neighbours, next_mirror, runs_of, takes_mirrors, units_of,
    },
    units,
};
use crate::{
    catalog::store::{CatalogFile, StoreError},
    disk::{counters::IoClient, disk_io::IoResult, member::Member},
    membership::voters::{Refusal, find},
    planted::{self, Bug},
    space::{InHand, Space},
    world::wait_for,
};
use plinth_format::{
    Au, DiskNumber,
    membership::{CatalogRun, DiskState, MemberDisk, Membership, RUNS_MAX},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// The AUs of a mirror, or numbers of AUs to take: some on each disk, in the order of the file.
type Parts<T> = Vec<(DiskNumber, T)>;

/// A mirror that was copied and is not listed yet.
struct Built {
    aus: Parts<Vec<Au>>,
    runs: Vec<CatalogRun>,
}

/// A mirror, and the AUs of a disk by which it grows.
type Growing = (u8, DiskNumber, Vec<Au>);

/// Bytes copied at once when a mirror is built.
const STEP: u64 = 1 << 20;
/// How long until a change that could not be recorded is tried again.
const AGAIN: Duration = Duration::from_secs(1);

impl DiskStore {
    /// Frees the AUs of mirrors that were removed from the list, by a membership that is recorded.
    pub fn free_struck(&self) {
        // The lock is taken first: AUs that become listed after this are not taken for free ones.
        let mut owned = self.owned.lock();
        let listed = units(&self.voters.current());
        let gone: Vec<_> = owned.difference(&listed).copied().collect();
        for (disk, au) in gone {
            owned.remove(&(disk, au));
            if self.members.get(&disk).is_some_and(|member| member.is_writable()) {
                self.retire(disk, &[au]);
            } else {
                self.space.lock().cancel(disk, au);
            }
        }
        drop(owned);
        self.free_retired();
        self.reserve();
    }

    /// Reserves space for the mirrors that the catalog lacks: in each failure group without one.
    /// Otherwise files could take all space while a disk is away, and its return would not make the
    /// group whole.
    fn reserve(&self) {
        let membership = self.voters.current();
        let mut space = self.space.lock();
        let mut reserved: BTreeMap<DiskNumber, u32> = BTreeMap::new();
        for file in [CatalogFile::Database, CatalogFile::Wal] {
            let units = self.mirror_units(file);
            for disks in self.lacking(&membership, file, &space) {
                let mut left = units;
                for disk in &disks {
                    let here = reserved.entry(*disk).or_default();
                    let take = left.min(space.unowned(*disk).saturating_sub(*here));
                    *here += take;
                    left -= take;
                }
                // AUs that are not free now are reserved when they become free.
                if let Some(emptiest) = disks.first() {
                    *reserved.entry(*emptiest).or_default() += left;
                }
            }
        }
        space.reserve(reserved);
    }

    /// Where mirrors of a file could be built if the disks were ONLINE: the disks of each failure
    /// group without a mirror, the one with the most free space first.
    fn lacking(
        &self,
        membership: &Membership,
        file: CatalogFile,
        space: &Space,
    ) -> Vec<Vec<DiskNumber>> {
        let mirrors = self.current_mirrors(file);
        let group =
            |disk: &DiskNumber| membership.disk(*disk).map(|disk| disk.failure_group.as_str());
        let with: BTreeSet<&str> = mirrors.values().filter_map(group).collect();
        if with.is_empty() || with.len() >= MIRRORS {
            return Vec::new();
        }
        let mut groups: BTreeMap<&str, Vec<DiskNumber>> = BTreeMap::new();
        let stays = |disk: &&MemberDisk| {
            !disk.quorum && !disk.leaving && !with.contains(disk.failure_group.as_str())
        };
        for disk in membership.disks.iter().filter(stays) {
            groups.entry(&disk.failure_group).or_default().push(disk.number);
        }
        let by_room = |mut disks: Vec<DiskNumber>| {
            disks.sort_by_key(|disk| std::cmp::Reverse(space.unowned(*disk)));
            disks
        };
        groups.into_values().map(by_room).collect()
    }

    /// Whether a file may grow by this number of AUs and still leave space for the mirrors that it
    /// lacks, as far as there is such space now.
    fn leaves_room(&self, file: CatalogFile, more: u32) -> bool {
        let membership = self.voters.current();
        let space = self.space.lock();
        let units = self.mirror_units(file);
        self.lacking(&membership, file, &space).iter().all(|disks| {
            let unowned: u32 = disks.iter().map(|disk| space.unowned(*disk)).sum();
            let free: u32 = disks.iter().map(|disk| space.free(*disk)).sum();
            unowned < units || free >= more
        })
    }

    /// Builds mirrors until there are three, or one in each failure group, or two on two disks.
    /// Runs on the catalog's writer thread.
    ///
    /// # Errors
    /// If a copy cannot be read or recorded. No space for a mirror is not an error.
    pub fn rebuild(&self) -> Result<(), StoreError> {
        wait_for(&*self.world, async {
            for file in [CatalogFile::Database, CatalogFile::Wal] {
                while self.build_one(file).await? {
                    crate::reached::at(crate::reached::Mark::CatalogRebuilt);
                }
                self.strike_reserved(file).await;
                while self.move_reserved_unit(file).await? {}
            }
            // AUs that are not free now are reserved when they become free.
            self.reserve();
            Ok(())
        })
    }

    /// Builds the mirrors that the catalog should have on a SYNCING disk once that is ONLINE, and
    /// records them and `edit`, which makes it ONLINE, in one change. Runs on the catalog's writer
    /// thread. A mirror that cannot be built does not prevent the return of the disk:
    /// [`Self::rebuild`] tries again, and reports the reason.
    ///
    /// # Errors
    /// If the change is refused.
    pub fn bring_online(
        &self,
        disk: DiskNumber,
        edit: impl FnOnce(&mut Membership) -> Result<bool, Refusal> + Send,
    ) -> Result<(), Refusal> {
        let _in_hand = self.space.lock().take_in_hand();
        wait_for(&*self.world, async {
            let mut all = Vec::new();
            for file in [CatalogFile::Database, CatalogFile::Wal] {
                all.extend(self.build_ahead(file, disk).await);
            }
            let recorded = self
                .voters
                .change(|next| {
                    if !edit(next)? {
                        return Ok(false);
                    }
                    // This thread is the only one that adds mirrors of the catalog.
                    let fit: Vec<_> =
                        all.iter().filter(|built| can_list(next, &built.runs)).collect();
                    fit.into_iter().for_each(|built| list(next, &built.runs));
                    Ok(true)
                })
                .await;
            for built in &all {
                self.keep_if_listed(recorded.as_ref().ok(), built);
            }
            self.free_struck();
            recorded.map(|_| ())
        })
    }

    /// Builds a mirror of one file with its start on a disk that is about to be ONLINE.
    async fn build_ahead(&self, file: CatalogFile, disk: DiskNumber) -> Option<Built> {
        let mut membership = (*self.voters.current()).clone();
        find(&mut membership, disk)?.state = DiskState::Online;
        let (mirror, parts) =
            self.place_mirror(&membership, file, |candidate| candidate == disk)?;
        self.build(file, mirror, &parts).await.ok()?
    }

    /// Copies a file to newly taken AUs. `None` if there are too few.
    async fn build(
        &self,
        file: CatalogFile,
        mirror: u8,
        parts: &Parts<u32>,
    ) -> Result<Option<Built>, StoreError> {
        let mut built = Built { aus: Vec::new(), runs: Vec::new() };
        let mut at = 0;
        for (disk, units) in parts {
            let Some(aus) = self.allocate(*disk, *units, Space::allocate_reserved) else {
                self.give_back_all(&built.aus);
                return Ok(None);
            };
            built.runs.extend(runs_of(file, mirror, *disk, at, &aus));
            built.aus.push((*disk, aus));
            at += units;
        }
        if let Err(error) = self.copy(file, &built.runs).await {
            self.give_back_all(&built.aus);
            return Err(error);
        }
        Ok(Some(built))
    }

    /// The AUs of a new mirror belong to the catalog if the membership in force lists it, and are
    /// free otherwise. Returns whether it is listed.
    fn keep_if_listed(&self, membership: Option<&Arc<Membership>>, built: &Built) -> bool {
        let listed = membership
            .is_some_and(|found| built.runs.iter().all(|run| found.catalog.contains(run)));
        if listed {
            let units = built.aus.iter().flat_map(|(disk, aus)| aus.iter().map(|au| (*disk, *au)));
            self.owned.lock().extend(units);
        } else {
            self.give_back_all(&built.aus);
        }
        listed
    }

    /// Whether without a disk the catalog would be in fewer failure groups than possible.
    pub fn needs(&self, disk: DiskNumber) -> bool {
        let membership = self.voters.current();
        let groups = |disks: &mut dyn Iterator<Item = &MemberDisk>| {
            disks.map(|disk| disk.failure_group.clone()).collect::<BTreeSet<_>>().len().min(MIRRORS)
        };
        let possible = groups(
            &mut membership
                .disks
                .iter()
                .filter(|other| takes_mirrors(other) && other.number != disk),
        );
        [CatalogFile::Database, CatalogFile::Wal].into_iter().any(|file| {
            let is_on_it = |mirror: u8| disks_of(&membership, file, mirror).contains(&disk);
            let (on_it, others): (Vec<_>, Vec<_>) =
                self.current_mirrors(file).into_iter().partition(|(mirror, _)| is_on_it(*mirror));
            !on_it.is_empty()
                && groups(&mut others.iter().filter_map(|(_, other)| membership.disk(*other)))
                    < possible
        })
    }

    /// Whether the catalog lacks a mirror that could be built.
    pub fn lacks_mirror(&self) -> bool {
        let membership = self.voters.current();
        [CatalogFile::Database, CatalogFile::Wal]
            .into_iter()
            .any(|file| self.place_mirror(&membership, file, |_| true).is_some())
    }

    /// The number of the next mirror of a file, and its places, with its start on one of the
    /// candidates.
    fn place_mirror(
        &self,
        membership: &Membership,
        file: CatalogFile,
        is_candidate: impl Fn(DiskNumber) -> bool,
    ) -> Option<(u8, Parts<u32>)> {
        let mirrors = self.current_mirrors(file);
        let units = units_of(membership, file, *mirrors.keys().next()?);
        let on_one = |_, disk| {
            (is_candidate(disk) && self.space.lock().unowned(disk) >= units)
                .then(|| vec![(disk, units)])
        };
        let in_parts = |mirror, disk| {
            self.parts_for(membership, file, mirror, (disk, units)).filter(|_| is_candidate(disk))
        };
        let leaves = |disk| membership.disk(disk).is_some_and(|disk| disk.leaving);
        let leaves = |run: &&CatalogRun| {
            run.file == file && (leaves(run.disk) || self.is_reserved_for_shrink(run))
        };
        let runs = membership.catalog.iter().filter(leaves);
        let leaving = runs.map(|run| run.mirror).collect();
        let next = |room: &dyn Fn(u8, DiskNumber) -> Option<Parts<u32>>| {
            let (mirror, disk) = next_mirror(membership, file, &leaving, |mirror, disk| {
                room(mirror, disk).is_some()
            })?;
            Some((mirror, room(mirror, disk)?))
        };
        next(&on_one).or_else(|| next(&in_parts))
    }

    /// How a mirror of this number of AUs can be distributed over disks: as many AUs as possible on
    /// its home, and none where the loss of a disk or a failure group would also lose another
    /// mirror. `None` if there is no room for it.
    fn parts_for(
        &self,
        membership: &Membership,
        file: CatalogFile,
        mirror: u8,
        (home, units): (DiskNumber, u32),
    ) -> Option<Parts<u32>> {
        let others = disks_of_others(membership, file, mirror);
        if others.contains(&home) {
            return None;
        }
        let space = self.space.lock();
        let mut left = units;
        let mut parts = Parts::new();
        for disk in [home].into_iter().chain(neighbours(membership, home, &others)) {
            let here = left.min(space.unowned(disk));
            if here > 0 {
                parts.push((disk, here));
                left -= here;
            }
        }
        (left == 0 && parts.first().is_some_and(|(first, _)| *first == home)).then_some(parts)
    }

    /// Whether a run includes space that a disk is giving up.
    fn is_reserved_for_shrink(&self, run: &CatalogRun) -> bool {
        let space = self.space.lock();
        run.aus().any(|au| space.is_reserved_for_shrink(run.disk, au))
    }

    /// A disk that is giving up space in which the catalog has a mirror.
    pub fn in_the_way(&self) -> Option<DiskNumber> {
        self.voters
            .current()
            .catalog
            .iter()
            .find(|run| self.is_reserved_for_shrink(run))
            .map(|run| run.disk)
    }

    /// Removes mirrors that are in the way of a resize and superfluous: there is no place to which
    /// they could move.
    async fn strike_reserved(&self, file: CatalogFile) {
        let is_in_the_way = |membership: &Membership, run: &CatalogRun| {
            run.file == file
                && self.is_reserved_for_shrink(run)
                && is_too_many(membership, file, run.mirror)
                && (self.voters.has_other_mirror(membership, file, run.mirror)
                    || planted::has(Bug::NeededMirrorStruck))
        };
        let strike = |next: &mut Membership| {
            let Some(mirror) =
                next.catalog.iter().find(|run| is_in_the_way(next, run)).map(|run| run.mirror)
            else {
                return Ok(false);
            };
            next.catalog.retain(|run| (run.file, run.mirror) != (file, mirror));
            Ok(true)
        };
        let membership = self.voters.current();
        if membership.catalog.iter().any(|run| is_in_the_way(&membership, run)) {
            // If it cannot be recorded now, the next try will do.
            let _ = self.voters.change(strike).await;
            self.free_struck();
        }
    }

    /// Moves an AU that is in the way of a resize to another place on its disk, if the whole mirror
    /// has no other place. False if no AU is in the way, or there is no room for it.
    async fn move_reserved_unit(&self, file: CatalogFile) -> Result<bool, StoreError> {
        let membership = self.voters.current();
        let Some(run) = membership
            .catalog
            .iter()
            .find(|run| run.file == file && self.is_reserved_for_shrink(run))
            .copied()
        else {
            return Ok(false);
        };
        let is_reserved_for_shrink =
            |au: &Au| self.space.lock().is_reserved_for_shrink(run.disk, *au);
        let Some(old) = run.aus().find(is_reserved_for_shrink) else {
            return Ok(false);
        };
        let _in_hand = self.space.lock().take_in_hand();
        let Some(new) =
            self.allocate(run.disk, 1, Space::allocate_on).and_then(|aus| aus.first().copied())
        else {
            return Ok(false);
        };
        let at =
            if planted::has(Bug::UnitMiscopied) { run.at } else { run.at + (old.0 - run.first.0) };
        if let Err(error) = self.copy(file, &runs_of(file, run.mirror, run.disk, at, &[new])).await
        {
            self.give_back(run.disk, &[new]);
            return Err(error);
        }
        let recorded = self
            .voters
            .change(|next| {
                let Some(runs) = moved(next, run, old, new) else { return Ok(false) };
                let online = can_list(next, &runs);
                if online {
                    list(next, &runs);
                }
                Ok(online)
            })
            .await;
        let is_listed =
            recorded.is_ok_and(|membership| units(&membership).contains(&(run.disk, new)));
        if is_listed {
            self.owned.lock().insert((run.disk, new));
        } else {
            self.give_back(run.disk, &[new]);
        }
        self.free_struck();
        Ok(is_listed)
    }

    async fn build_one(&self, file: CatalogFile) -> Result<bool, StoreError> {
        let membership = self.voters.current();
        let Some((mirror, parts)) = self.place_mirror(&membership, file, |_| true) else {
            return Ok(false);
        };
        let _in_hand = self.space.lock().take_in_hand();
        let Some(built) = self.build(file, mirror, &parts).await? else { return Ok(false) };
        let recorded = self
            .voters
            .change(|next| {
                let online = can_list(next, &built.runs);
                if online {
                    list(next, &built.runs);
                }
                Ok(online)
            })
            .await;
        let listed = self.keep_if_listed(recorded.as_ref().ok(), &built);
        self.free_struck();
        Ok(listed)
    }

    async fn copy(&self, file: CatalogFile, runs: &[CatalogRun]) -> Result<(), StoreError> {
        let error = |offset, reason| Self::failed(file, "copying", offset, STEP as usize, reason);
        let mut members: BTreeMap<DiskNumber, (&Arc<Member>, u64)> = BTreeMap::new();
        for run in runs {
            let member = self
                .members
                .get(&run.disk)
                .ok_or_else(|| error(0, "a disk has left".to_owned()))?;
            members.entry(run.disk).or_insert((member, member.broken()));
            for step in 0..u64::from(run.count) * self.au_size / STEP {
                let offset = u64::from(run.at) * self.au_size + step * STEP;
                let buffer = self.read_best(file, offset, STEP as usize).await?;
                let target = member.layout().au_offset(run.first) + step * STEP;
                let ended =
                    member.start_write(target, buffer.share()).of(IoClient::Catalog).result().await;
                if !ended.is_ok() {
                    return Err(error(offset, ended.reason()));
                }
            }
        }
        for (member, broken) in members.into_values() {
            if planted::has(Bug::CatalogCopyNotFlushed) {
                continue;
            }
            match member.flush().await {
                IoResult::Ok(_) if member.broken() == broken => {}
                IoResult::Ok(_) => return Err(error(0, "a flush failed".to_owned())),
                bad => return Err(error(0, bad.reason())),
            }
        }
        Ok(())
    }

    /// The number of AUs that every mirror of a file has.
    pub(super) fn mirror_units(&self, file: CatalogFile) -> u32 {
        let membership = self.voters.current();
        let mirrors = self.current_mirrors(file);
        mirrors.keys().map(|mirror| units_of(&membership, file, *mirror)).min().unwrap_or(0)
    }

    fn allocate(
        &self,
        disk: DiskNumber,
        units: u32,
        take: impl Fn(&mut Space, DiskNumber) -> Option<Au>,
    ) -> Option<Vec<Au>> {
        if !self.is_space_known.load(Ordering::Acquire) {
            return None;
        }
        let mut space = self.space.lock();
        let mut aus = Vec::new();
        for _ in 0..units {
            match take(&mut space, disk) {
                Some(au) => aus.push(au),
                None => {
                    aus.into_iter().for_each(|au| space.put_back(disk, au));
                    return None;
                }
            }
        }
        aus.sort_unstable();
        Some(aus)
    }

    fn give_back_all(&self, parts: &Parts<Vec<Au>>) {
        parts.iter().for_each(|(disk, aus)| self.give_back(*disk, aus));
    }

    /// Frees AUs that were taken and are not needed. They stay taken while their disk hangs.
    pub(crate) fn give_back(&self, disk: DiskNumber, aus: &[Au]) {
        if self.voters.is_closing() {
            // A membership that lists them may have reached a voter; then the next mount uses it.
            return;
        }
        self.retire(disk, aus);
        self.free_retired();
    }

    pub(super) async fn grow_to(&self, file: CatalogFile, capacity: u64) -> Result<(), StoreError> {
        while !self.try_to_grow(file, capacity).await? {}
        Ok(())
    }

    /// Shrinks a file to this capacity. The AUs are free when the membership that does not list
    /// them is in force, and all reads that began before have ended. After a crash before that they
    /// still belong to the catalog.
    pub(super) async fn shrink_to(
        &self,
        file: CatalogFile,
        capacity: u64,
    ) -> Result<(), StoreError> {
        let keep = u32::try_from(capacity.div_ceil(self.au_size)).unwrap_or(u32::MAX).max(1);
        while let Err(refusal) = self.voters.change(|next| Ok(cut(next, file, keep))).await {
            self.wait_for_voters(refusal).await?;
        }
        self.free_struck();
        Ok(())
    }

    /// After a change that could not be recorded, waits before the next try: the catalog must not
    /// stop because a disk that is to vote does not take the activity log.
    async fn wait_for_voters(&self, refusal: Refusal) -> Result<(), StoreError> {
        if !matches!(refusal, Refusal::Other(_))
            || self.voters.is_closing()
            || self.voters.is_first()
        {
            return Err(StoreError::Stopped(refusal.to_string()));
        }
        self.world.sleep(AGAIN).await;
        Ok(())
    }

    /// Grows a file. False if a disk has gone OFFLINE meanwhile: then it is to be tried with the
    /// remaining disks.
    async fn try_to_grow(&self, file: CatalogFile, capacity: u64) -> Result<bool, StoreError> {
        let membership = self.voters.current();
        let mirrors = self.current_mirrors(file);
        let Some(first) = mirrors.keys().next() else {
            return Err(Self::failed(file, "growing", 0, 0, "no mirror is left".to_owned()));
        };
        let have = units_of(&membership, file, *first);
        let want =
            u32::try_from(capacity.div_ceil(self.au_size)).map_err(|_| StoreError::NoSpace)?;
        if want <= have {
            return Ok(true);
        }
        let (runs, entries, _in_hand) =
            self.take_to_grow(file, &membership, &mirrors, have..want)?;
        let grown = self.record_growth(&runs, &entries).await;
        self.reserve();
        grown
    }

    /// Takes AUs by which the mirrors of a file grow from `size.start` to `size.end` AUs or
    /// somewhat more, all by the same number.
    fn take_to_grow(
        &self,
        file: CatalogFile,
        membership: &Membership,
        mirrors: &BTreeMap<u8, DiskNumber>,
        size: Range<u32>,
    ) -> Result<(Vec<Growing>, Vec<CatalogRun>, InHand), StoreError> {
        let (have, want) = (size.start, size.end);
        // Growth by an eighth of the present size, so that a large catalog has few runs.
        let mut ahead = (want + have / 8) - have;
        if !self.leaves_room(file, ahead) {
            ahead = want - have;
            if !self.leaves_room(file, ahead) {
                return Err(StoreError::NoSpace);
            }
        }
        let in_hand = self.space.lock().take_in_hand();
        let mut taken: Parts<Vec<Au>> = Vec::new();
        let mut runs: Vec<Growing> = Vec::new();
        for (mirror, home) in mirrors {
            // The disks of the other mirrors, and those onto which they grow now: a disk whose loss
            // would lose two mirrors must not get a part of this one.
            let mut others = disks_of_others(membership, file, *mirror);
            others.extend(runs.iter().map(|(_, disk, _)| *disk));
            let found = [*home].into_iter().chain(neighbours(membership, *home, &others)).find_map(
                |disk| {
                    let aus = self
                        .allocate(disk, ahead, Space::allocate_on)
                        .or_else(|| self.allocate(disk, want - have, Space::allocate_on))?;
                    Some((disk, aus))
                },
            );
            let Some((disk, aus)) = found else {
                self.give_back_all(&taken);
                return Err(StoreError::NoSpace);
            };
            runs.push((*mirror, disk, aus.clone()));
            taken.push((disk, aus));
        }
        let least = runs.iter().map(|(.., aus)| aus.len()).min().unwrap_or(0);
        for (_, disk, aus) in &mut runs {
            let extra = aus.split_off(least);
            self.give_back(*disk, &extra);
        }
        let entries: Vec<_> = runs
            .iter()
            .flat_map(|(mirror, disk, aus)| runs_of(file, *mirror, *disk, have, aus))
            .collect();
        if membership.catalog.len() + entries.len() > RUNS_MAX {
            runs.iter().for_each(|(_, disk, aus)| self.give_back(*disk, aus));
            return Err(StoreError::NoSpace);
        }
        Ok((runs, entries, in_hand))
    }

    /// Records a membership in which the mirrors also have these AUs. False if a disk has gone
    /// OFFLINE meanwhile.
    async fn record_growth(
        &self,
        runs: &[Growing],
        entries: &[CatalogRun],
    ) -> Result<bool, StoreError> {
        let recorded = self
            .voters
            .change(|next| {
                // A mirror that was removed from the list meanwhile does not grow. A mirror that
                // would grow onto a disk that has gone OFFLINE meanwhile would be removed because
                // of that.
                let grows = growing(next, entries);
                let online = can_list(next, &grows);
                if online {
                    next.catalog.extend(grows);
                }
                Ok(online)
            })
            .await;
        match recorded {
            Ok(membership) => {
                let listed = units(&membership);
                for (_, disk, aus) in runs {
                    for au in aus {
                        if listed.contains(&(*disk, *au)) {
                            self.owned.lock().insert((*disk, *au));
                        } else {
                            self.give_back(*disk, &[*au]);
                        }
                    }
                }
                Ok(growing(&membership, entries).iter().all(|run| membership.catalog.contains(run)))
            }
            Err(refusal) => {
                // AUs beyond the smallest number have been given back already.
                runs.iter().for_each(|(_, disk, aus)| self.give_back(*disk, aus));
                self.wait_for_voters(refusal).await.map(|()| false)
            }
        }
    }
}
