//! The catalog's storage on the group's disks (R6).
//!
//! The membership lists, for each of the catalog's two files and each mirror, which AUs
//! of which disk hold which AUs of the file. Reading and writing need nothing else:
//! no allocation, no activity-log entry, no commit.
//!
//! A mirror whose disk fails goes with the disk: the membership that takes the disk
//! offline strikes the mirror, and is recorded before the write returns. A new
//! mirror is built whole by [`DiskStore::rebuild`], on the catalog's writer thread, where
//! nothing else writes:
//!
//!   1. Allocate AUs on a disk of a failure group that has no mirror.
//!   2. Copy both files from the current mirrors; flush.
//!   3. Record the membership that lists the new mirror. A crash before this leaves free AUs.
//!
//! Two mirrors may be in one failure group, built while no other could be written. Where all three are there, the
//! new one takes the place of one of those in the same membership. Its AUs are free when no read that began before is under way.
//!
//! Where the disk is one that returns, that membership is the one that makes it ONLINE ([`DiskStore::bring_online`]).
//!
//! A flush that fails on a disk of the catalog, whoever's it was, may have lost what the catalog wrote there since its own
//! last flush. Such a disk goes offline, or the catalog's next flush fails although the disk would take it (R9).

use crate::{
    admin::{AdminError, Code, Problem},
    buffer::{Buffer, Slice},
    catalog::{
        database_pages,
        store::{CatalogFile, FileName, Store, StoreError},
    },
    event::{Event, Severity},
    member::{Member, Settled},
    members::Members,
    space::{InHand, Space},
    voters::{Refusal, Voters, find},
    world::{World, wait_for},
};
use plinth_format::{
    DiskNumber,
    membership::{CatalogRun, DiskState, MemberDisk, Membership},
    page::{self, PAGE_SIZE},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Bytes copied at once when a mirror is built.
const STEP: u64 = 1 << 20;
/// Sentences about mended pages, and about lost ones, that are kept.
const MENDED_MAX: usize = 1000;
/// Mirrors of the catalog where there are disks for them.
const MIRRORS: usize = 3;

/// The catalog's files on disks. See the module's description.
pub struct DiskStore {
    world: Arc<dyn World>,
    members: Arc<Members>,
    voters: Arc<Voters>,
    space: Arc<Mutex<Space>>,
    /// `space` knows what the files have, too: until then nothing is allocated from it.
    is_space_known: AtomicBool,
    au_size: u64,
    /// The AUs that are marked used on the catalog's behalf.
    owned: Mutex<BTreeSet<(DiskNumber, u32)>>,
    /// Sentences about pages that a read found damaged on one mirror and rewrote, until somebody asks.
    mended: Mutex<Vec<String>>,
    /// Sentences about what is damaged on every mirror, each told once: SQLite's own errors know no place.
    lost: Mutex<BTreeMap<u64, String>>,
    /// While something is written and not flushed: how often each disk had gone, and failed a flush, when that began.
    unflushed: Mutex<Option<BTreeMap<DiskNumber, (u64, u64)>>>,
    /// A flush failed on a disk that stayed.
    flush_failed: AtomicBool,
    retired: Mutex<Retired>,
}

/// What mirrors had that gave way to others, on disks that are written, until nobody reads there.
#[derive(Debug, Default)]
struct Retired {
    readers: usize,
    aus: Vec<(DiskNumber, u32)>,
    /// As long as there are any.
    in_hand: Option<InHand>,
}

/// A read of the catalog, and what it mends.
struct Reading<'a>(&'a DiskStore);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        lock(&self.0.retired).readers -= 1;
        self.0.free_retired();
    }
}

/// A part of a request on one mirror.
struct Part {
    member: Arc<Member>,
    offset: u64,
    /// Bytes of the request.
    range: Range<usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The AUs that a membership gives to the catalog.
#[must_use]
pub fn units(membership: &Membership) -> BTreeSet<(DiskNumber, u32)> {
    let runs = membership.catalog.iter();
    runs.flat_map(|run| (run.first..run.first + run.count).map(|au| (run.disk, au))).collect()
}

/// The disks were let go.
fn let_go() -> StoreError {
    StoreError::Stopped("dismounted by force".to_owned())
}

impl DiskStore {
    /// The store that the membership in force describes, whose AUs are marked used in `space`.
    #[must_use]
    pub fn new(
        world: Arc<dyn World>,
        members: Arc<Members>,
        voters: Arc<Voters>,
        space: Arc<Mutex<Space>>,
        au_size: u64,
    ) -> Self {
        let owned = Mutex::new(units(&voters.current()));
        Self {
            world,
            members,
            voters,
            space,
            is_space_known: AtomicBool::new(false),
            flush_failed: AtomicBool::new(false),
            au_size,
            owned,
            mended: Mutex::default(),
            lost: Mutex::default(),
            unflushed: Mutex::default(),
            retired: Mutex::default(),
        }
    }

    /// From now on the catalog may grow: what files have is marked used in the space it shares with them.
    pub fn space_is_known(&self) {
        self.is_space_known.store(true, Ordering::Release);
    }

    /// Frees AUs of mirrors that were struck: the membership that struck them is recorded.
    pub fn free_struck(&self) {
        let listed = units(&self.voters.current());
        let mut owned = lock(&self.owned);
        let gone: Vec<_> = owned.difference(&listed).copied().collect();
        for (disk, au) in gone {
            owned.remove(&(disk, au));
            if self.members.get(&disk).is_some_and(|member| member.is_writable()) {
                let mut retired = lock(&self.retired);
                retired.in_hand.get_or_insert_with(|| lock(&self.space).take_in_hand());
                retired.aus.push((disk, au));
            } else {
                lock(&self.space).cancel(disk, au);
            }
        }
        drop(owned);
        self.free_retired();
        self.reserve();
    }

    /// Frees what was retired, if nobody reads. Who reads from now on looks at the membership that does not list it.
    fn free_retired(&self) {
        let mut retired = lock(&self.retired);
        if retired.readers > 0 || retired.aus.is_empty() {
            return;
        }
        let mut space = lock(&self.space);
        retired.aus.drain(..).for_each(|(disk, au)| space.cancel(disk, au));
        retired.in_hand = None;
    }

    fn begin_reading(&self) -> Reading<'_> {
        lock(&self.retired).readers += 1;
        Reading(self)
    }

    /// Keeps room for the mirrors that the catalog lacks: on a disk of each failure group without one. Else files could take
    /// all space while a disk is away, and its return would not make the group whole.
    fn reserve(&self) {
        let membership = self.voters.current();
        let mut space = lock(&self.space);
        let mut reserved: BTreeMap<DiskNumber, u32> = BTreeMap::new();
        for file in [CatalogFile::Database, CatalogFile::Wal] {
            let units = self.mirror_units(file);
            for disk in self.lacking(&membership, file, &space) {
                *reserved.entry(disk).or_default() += units;
            }
        }
        space.reserve(reserved);
    }

    /// Where mirrors of a file could be built if the disks were there: the emptiest one in each failure group without a mirror.
    fn lacking(&self, membership: &Membership, file: CatalogFile, space: &Space) -> Vec<DiskNumber> {
        let mirrors = self.current_mirrors(file);
        let group = |disk: &DiskNumber| membership.disk(*disk).map(|disk| disk.failure_group.as_str());
        let with: BTreeSet<&str> = mirrors.values().filter_map(group).collect();
        if with.is_empty() || with.len() >= MIRRORS {
            return Vec::new();
        }
        let mut emptiest: BTreeMap<&str, DiskNumber> = BTreeMap::new();
        let stays = |disk: &&MemberDisk| !disk.quorum && !disk.leaving && !with.contains(disk.failure_group.as_str());
        for disk in membership.disks.iter().filter(stays) {
            let best = emptiest.entry(&disk.failure_group).or_insert(disk.number);
            if space.unowned(disk.number) > space.unowned(*best) {
                *best = disk.number;
            }
        }
        emptiest.into_values().collect()
    }

    /// Whether a file may grow by so many AUs and still have the mirrors that it lacks built, as far as it could before.
    fn leaves_room(&self, file: CatalogFile, more: u32) -> bool {
        let membership = self.voters.current();
        let space = lock(&self.space);
        let units = self.mirror_units(file);
        self.lacking(&membership, file, &space).iter().all(|disk| {
            let unowned = space.unowned(*disk);
            unowned < units || space.free(*disk) >= more
        })
    }

    /// Where a range of a file lies on one mirror. `None` if the mirror does not have it all.
    fn parts(&self, file: CatalogFile, mirror: u8, offset: u64, length: usize) -> Option<Vec<Part>> {
        let membership = self.voters.current();
        let mut parts = Vec::new();
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let unit = u32::try_from(at / self.au_size).ok()?;
            let run = membership
                .catalog
                .iter()
                .find(|run| run.file == file && run.mirror == mirror && (run.at..run.at + run.count).contains(&unit))?;
            let member = self.members.get(&run.disk)?;
            let inside = at - u64::from(run.at) * self.au_size;
            let rest = u64::from(run.count) * self.au_size - inside;
            let take = usize::try_from(rest).unwrap_or(usize::MAX).min(length - done);
            parts.push(Part {
                member: Arc::clone(member),
                offset: member.layout.au_offset(run.first) + inside,
                range: done..done + take,
            });
            done += take;
        }
        Some(parts)
    }

    fn failed(file: CatalogFile, doing: &'static str, offset: u64, length: usize, reason: String) -> StoreError {
        StoreError::Failed { file: FileName(file), doing, offset, length, reason }
    }

    /// Whether a flush has failed on a disk that stayed: what else was written to it may be lost, too.
    pub fn has_failed_to_flush(&self) -> bool {
        self.flush_failed.load(Ordering::Relaxed)
    }

    async fn read_parts(&self, parts: &[Part], length: usize) -> Result<Buffer, (Arc<Member>, Settled)> {
        let mut whole = Buffer::zeroed(length);
        for part in parts {
            match part.member.start_read(part.offset, part.range.len()).settle().await {
                Settled::Ok(Some(buffer)) if parts.len() == 1 => return Ok(buffer),
                Settled::Ok(Some(buffer)) => whole[part.range.clone()].copy_from_slice(&buffer),
                bad => return Err((Arc::clone(&part.member), bad)),
            }
        }
        Ok(whole)
    }

    /// Writes to mirrors; those that fail lose their disks. `Err` if no current mirror took it.
    async fn write_to(&self, file: CatalogFile, mirrors: &[u8], runs: &[(u64, Slice)]) -> Result<(), StoreError> {
        lock(&self.unflushed).get_or_insert_with(|| {
            self.members.values().map(|member| (member.number, (member.losses(), member.broken()))).collect()
        });
        loop {
            let mut jobs = Vec::new();
            for mirror in mirrors {
                for (offset, data) in runs {
                    let Some(parts) = self.parts(file, *mirror, *offset, data.len()) else { continue };
                    for part in parts {
                        jobs.push((*mirror, part.member, part.offset, data.part(part.range)));
                    }
                }
            }
            let flights =
                jobs.iter().map(|(_, member, offset, data)| member.start_write(*offset, data.clone()).settle());
            let settled = futures::future::join_all(flights).await;
            let mut failures: BTreeMap<DiskNumber, Settled> = BTreeMap::new();
            for ((_, member, ..), one) in jobs.iter().zip(settled) {
                if !one.is_ok() {
                    failures.insert(member.number, one);
                }
            }
            if jobs.is_empty() {
                return Err(Self::failed(file, "writing", 0, 0, "no mirror is left".to_owned()));
            }
            if failures.is_empty() {
                return Ok(());
            }
            if !self.drop_failed(file, "writing", &failures).await? {
                return Ok(());
            }
        }
    }

    /// Takes failed disks offline. True: a silent disk could not be spared, so the I/O is to be tried again.
    async fn drop_failed(
        &self,
        file: CatalogFile,
        doing: &'static str,
        failures: &BTreeMap<DiskNumber, Settled>,
    ) -> Result<bool, StoreError> {
        let mut again = false;
        for (disk, settled) in failures {
            match self.voters.expel(*disk, &format!("catalog: {}", settled.reason()), false).await {
                Ok(()) => {}
                Err(Refusal::Closing) => return Err(let_go()),
                Err(_) if matches!(settled, Settled::Overdue) => {
                    // R2: when nothing else is left, wait until the old I/O has ended.
                    while self.members.get(disk).is_some_and(|member| member.is_hung()) && !self.voters.is_closing() {
                        self.world.sleep(Duration::from_millis(50)).await;
                    }
                    if self.voters.is_closing() {
                        return Err(let_go());
                    }
                    again = true;
                }
                Err(refusal) => {
                    return Err(Self::failed(file, doing, 0, 0, format!("{}; {refusal}", settled.reason())));
                }
            }
        }
        Ok(again)
    }

    async fn flush_members(&self, file: CatalogFile, disks: &BTreeSet<DiskNumber>) -> Result<(), StoreError> {
        loop {
            let members: Vec<_> = disks
                .iter()
                .filter_map(|disk| self.members.get(disk))
                .filter(|member| member.state() != DiskState::Offline)
                .collect();
            let mut failures = BTreeMap::new();
            let flushes = futures::future::join_all(members.iter().map(|member| member.flush())).await;
            for (member, settled) in members.iter().zip(flushes) {
                if !settled.is_ok() {
                    failures.insert(member.number, settled);
                }
            }
            if !failures.is_empty() {
                let dropped = self.drop_failed(file, "flushing", &failures).await;
                self.flush_failed.fetch_or(dropped.is_err(), Ordering::Relaxed);
                dropped?;
                continue;
            }
            // A flush for somebody else that failed meanwhile is not made good by ours.
            let broken = {
                let unflushed = lock(&self.unflushed);
                let is_broken = |member: &Member| {
                    let before = unflushed.as_ref().and_then(|unflushed| unflushed.get(&member.number));
                    before.is_some_and(|(losses, broken)| member.losses() == *losses && member.broken() > *broken)
                };
                members.iter().find(|member| is_broken(member)).map(|member| member.number)
            };
            let Some(broken) = broken else {
                *lock(&self.unflushed) = None;
                return Ok(());
            };
            let reason = "a flush failed";
            match self.voters.expel(broken, &format!("catalog: {reason}"), false).await {
                Ok(()) => {}
                Err(Refusal::Closing) => return Err(let_go()),
                Err(refusal) => {
                    self.flush_failed.store(true, Ordering::Relaxed);
                    return Err(Self::failed(file, "flushing", 0, 0, format!("{reason}; {refusal}")));
                }
            }
        }
    }

    /// Mirrors that can be read, and the disk of each one's start.
    fn current_mirrors(&self, file: CatalogFile) -> BTreeMap<u8, DiskNumber> {
        let membership = self.voters.current();
        let mut mirrors = BTreeMap::new();
        for run in membership.catalog.iter().filter(|run| run.file == file) {
            mirrors.entry(run.mirror).or_insert(run.disk);
        }
        mirrors
    }

    /// Builds mirrors until there are three, or one in each failure group, or two on two disks.
    /// Runs on the catalog's writer thread.
    ///
    /// # Errors
    /// If a copy cannot be read or recorded. No space for a mirror is no error.
    pub fn rebuild(&self) -> Result<(), StoreError> {
        wait_for(&*self.world, async {
            for file in [CatalogFile::Database, CatalogFile::Wal] {
                while self.build_one(file).await? {}
            }
            Ok(())
        })
    }

    /// Builds the mirrors that the catalog should have on a SYNCING disk once that is online, and records with
    /// `edit`, in the same change, that it is. Runs on the catalog's writer thread. A mirror that cannot be
    /// built keeps no disk away: [`Self::rebuild`] tries again, and says why.
    ///
    /// # Errors
    /// If the change is refused.
    pub fn bring_online(
        &self,
        disk: DiskNumber,
        edit: impl FnOnce(&mut Membership) -> Result<bool, Refusal> + Send,
    ) -> Result<(), Refusal> {
        let _in_hand = lock(&self.space).take_in_hand();
        wait_for(&*self.world, async {
            let mut runs = Vec::new();
            let mut taken = Vec::new();
            for file in [CatalogFile::Database, CatalogFile::Wal] {
                let Some((aus, built)) = self.build_ahead(file, disk).await else { continue };
                taken.extend(aus);
                runs.extend(built);
            }
            let recorded = self
                .voters
                .change(|next| {
                    if !edit(next)? {
                        return Ok(false);
                    }
                    // Nobody else gives the catalog mirrors: this thread is the only one.
                    list(next, &runs);
                    Ok(true)
                })
                .await;
            match &recorded {
                Ok(membership) if runs.iter().all(|run| membership.catalog.contains(run)) => {
                    lock(&self.owned).extend(taken.iter().map(|au| (disk, *au)));
                }
                _ => self.give_back(disk, &taken),
            }
            self.free_struck();
            recorded.map(|_| ())
        })
    }

    /// A mirror of one file on a disk that is about to be online: its AUs and runs.
    async fn build_ahead(&self, file: CatalogFile, disk: DiskNumber) -> Option<(Vec<u32>, Vec<CatalogRun>)> {
        let mut membership = (*self.voters.current()).clone();
        find(&mut membership, disk)?.state = DiskState::Online;
        let (mirror, _, units) = self.place_mirror(&membership, file, |candidate| candidate == disk)?;
        let aus = self.allocate(disk, units, Space::allocate_reserved)?;
        let runs = runs_of(file, mirror, disk, 0, &aus);
        if self.copy(file, units, self.members.get(&disk)?, &runs).await.is_err() {
            self.give_back(disk, &aus);
            return None;
        }
        Some((aus, runs))
    }

    /// Whether without a disk the catalog would be in fewer failure groups than it could be.
    pub fn needs(&self, disk: DiskNumber) -> bool {
        let membership = self.voters.current();
        let groups = |disks: &mut dyn Iterator<Item = &MemberDisk>| {
            disks.map(|disk| disk.failure_group.clone()).collect::<BTreeSet<_>>().len().min(MIRRORS)
        };
        let possible =
            groups(&mut membership.disks.iter().filter(|other| takes_mirrors(other) && other.number != disk));
        [CatalogFile::Database, CatalogFile::Wal].into_iter().any(|file| {
            let mirrors = self.current_mirrors(file);
            let others = mirrors.values().filter(|other| **other != disk);
            mirrors.values().any(|other| *other == disk)
                && groups(&mut others.filter_map(|other| membership.disk(*other))) < possible
        })
    }

    /// Whether a mirror could be built that is not there.
    pub fn lacks_mirror(&self) -> bool {
        let membership = self.voters.current();
        [CatalogFile::Database, CatalogFile::Wal]
            .into_iter()
            .any(|file| self.place_mirror(&membership, file, |_| true).is_some())
    }

    /// The number of the next mirror of a file, its disk among the candidates, and the AUs it takes.
    fn place_mirror(
        &self,
        membership: &Membership,
        file: CatalogFile,
        is_candidate: impl Fn(DiskNumber) -> bool,
    ) -> Option<(u8, DiskNumber, u32)> {
        let mirrors = self.current_mirrors(file);
        let units = self.unit_count(membership, file, *mirrors.keys().next()?);
        let has_room = |disk| is_candidate(disk) && lock(&self.space).unowned(disk) >= units;
        let leaves = |disk| membership.disk(disk).is_some_and(|disk| disk.leaving);
        let runs = membership.catalog.iter().filter(|run| run.file == file && leaves(run.disk));
        let leaving = runs.map(|run| run.mirror).collect();
        next_mirror(membership, &mirrors, &leaving, has_room).map(|(mirror, disk)| (mirror, disk, units))
    }

    async fn build_one(&self, file: CatalogFile) -> Result<bool, StoreError> {
        let membership = self.voters.current();
        let Some((mirror, disk, units)) = self.place_mirror(&membership, file, |_| true) else { return Ok(false) };
        let _in_hand = lock(&self.space).take_in_hand();
        let Some(aus) = self.allocate(disk, units, Space::allocate_reserved) else { return Ok(false) };
        let Some(member) = self.members.get(&disk) else { return Ok(false) };
        let runs = runs_of(file, mirror, disk, 0, &aus);
        let copied = self.copy(file, units, member, &runs).await;
        if let Err(error) = copied {
            self.give_back(disk, &aus);
            return Err(error);
        }
        let recorded = self
            .voters
            .change(|next| {
                let online = next.disk(disk).is_some_and(|disk| disk.state == DiskState::Online);
                if online {
                    list(next, &runs);
                }
                Ok(online)
            })
            .await;
        let listed = recorded.is_ok_and(|membership| runs.iter().all(|run| membership.catalog.contains(run)));
        if listed {
            lock(&self.owned).extend(aus.iter().map(|au| (disk, *au)));
        } else {
            self.give_back(disk, &aus);
        }
        self.free_struck();
        Ok(listed)
    }

    async fn copy(
        &self,
        file: CatalogFile,
        units: u32,
        member: &Arc<Member>,
        runs: &[CatalogRun],
    ) -> Result<(), StoreError> {
        let error = |offset, reason| Self::failed(file, "copying", offset, STEP as usize, reason);
        let broken = member.broken();
        for run in runs {
            for step in 0..u64::from(run.count) * self.au_size / STEP {
                let offset = u64::from(run.at) * self.au_size + step * STEP;
                let buffer = self.read_best(file, offset, STEP as usize).await?;
                let target = member.layout.au_offset(run.first) + step * STEP;
                let settled = member.start_write(target, buffer.share()).settle().await;
                if !settled.is_ok() {
                    return Err(error(offset, settled.reason()));
                }
            }
        }
        match member.flush().await {
            Settled::Ok(_) if member.broken() == broken => Ok(()),
            Settled::Ok(_) => Err(error(0, "a flush failed".to_owned())),
            bad => Err(error(u64::from(units) * self.au_size, bad.reason())),
        }
    }

    /// The disk that holds a byte of a mirror, in words.
    fn place(&self, file: CatalogFile, mirror: u8, offset: u64) -> String {
        let parts = self.parts(file, mirror, offset, 1).unwrap_or_default();
        parts.first().map_or_else(
            || format!("mirror {mirror}"),
            |part| format!("disk {} ({}), offset {}", part.member.name(), part.member.path(), part.offset),
        )
    }

    fn tell_mended(&self, file: CatalogFile, mirror: u8, offset: u64) {
        let place = self.place(file, mirror, offset);
        let text = format!(
            "{place}: catalog: offset {offset} of the {} was damaged; rewritten from another mirror",
            FileName(file)
        );
        let group = self.voters.current().group_name.clone();
        self.world.event(Event { group, severity: Severity::Warning, disk: None, text: text.clone() });
        let mut mended = lock(&self.mended);
        if mended.len() < MENDED_MAX {
            mended.push(text);
        }
    }

    /// A page of the database is damaged on each of these mirrors.
    fn tell_lost(&self, mirrors: &[u8], offset: u64) {
        let mut lost = lock(&self.lost);
        if lost.len() >= MENDED_MAX || lost.contains_key(&offset) {
            return;
        }
        let places: Vec<_> = mirrors.iter().map(|mirror| self.place(CatalogFile::Database, *mirror, offset)).collect();
        let text = format!(
            "catalog: page {} is damaged on every mirror ({}); restore what does not answer from a backup",
            offset / PAGE_SIZE as u64 + 1,
            places.join("; ")
        );
        lost.insert(offset, text.clone());
        let group = self.voters.current().group_name.clone();
        self.world.event(Event { group, severity: Severity::Alarm, disk: None, text });
    }

    /// Adds to an error what of the catalog was found lost so far: most likely its cause.
    #[must_use]
    pub fn explain(&self, error: AdminError) -> AdminError {
        let lost = lock(&self.lost);
        let Some(first) = lost.values().next() else { return error };
        let more = if lost.len() > 1 { format!(", and {} pages more", lost.len() - 1) } else { String::new() };
        AdminError::new(Code::Damaged, format!("{}: {first}{more}", error.message)).hint(
            "attach the disk that has a good mirror, if there is one; if not, make the group again and restore it from a backup",
        )
    }

    /// What reads found damaged and rewrote since the last call.
    pub fn take_mended(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.mended))
    }

    /// Compares the mirrors of some pages of the database, from `offset` on, and says where the next begin.
    /// Runs on the catalog's writer thread, where nobody else writes them.
    ///
    /// A page that is good nowhere is none that the database uses, or its own check finds it. Of pages that
    /// are good and differ the one that was written last is what the catalog reads.
    pub fn compare_mirrors(&self, offset: u64, repair: bool) -> (Vec<Problem>, Option<u64>) {
        let file = CatalogFile::Database;
        let pages = match database_pages(self) {
            Ok(pages) => pages,
            Err(error) => return (vec![Problem { text: format!("catalog: {error}"), repaired: false }], None),
        };
        let end = u64::from(pages) * PAGE_SIZE as u64;
        let length = usize::try_from(end.saturating_sub(offset).min(STEP)).unwrap_or(0);
        if length == 0 {
            return (Vec::new(), None);
        }
        let before = self.current_mirrors(file);
        let read = |mirror: &u8| {
            let copy = self.read_mirror(file, *mirror, offset, length);
            (*mirror, copy.map_err(|error| format!("{}: {error}", self.place(file, *mirror, offset))))
        };
        let mut copies: Vec<_> = before.keys().map(read).collect();
        // A disk may have been dropped, or gone offline, and have taken its mirror along.
        let after = self.current_mirrors(file);
        copies.retain(|(mirror, _)| before.get(mirror) == after.get(mirror));
        let unread = copies.iter().filter_map(|(_, copy)| copy.as_ref().err().cloned());
        let mut problems: Vec<_> = unread.map(|text| Problem { text, repaired: false }).collect();
        for (at, number) in (0..length).step_by(PAGE_SIZE).zip(offset / PAGE_SIZE as u64 + 1..) {
            let range = at..at + PAGE_SIZE;
            let age = |page: &[u8]| u32::try_from(number).ok().and_then(|number| page::written(page, number));
            let page = |copy: &Result<Buffer, String>| copy.as_ref().ok().map(|copy| copy[range.clone()].to_vec());
            let good = copies.iter().filter_map(|(_, copy)| page(copy).and_then(|page| Some((age(&page)?, page))));
            let Some((_, source)) = good.reduce(|best, other| if other.0 > best.0 { other } else { best }) else {
                continue;
            };
            for (mirror, copy) in &copies {
                let Some(found) = page(copy).filter(|found| *found != source) else { continue };
                let at = offset + at as u64;
                let what = match age(&found) {
                    Some(_) => "is older than on the other mirror",
                    None => "does not match its checksum",
                };
                let text = format!("{}: page {number} of the catalog {what}", self.place(file, *mirror, at));
                let repaired = repair && self.write_mirror(file, *mirror, at, Buffer::copy_of(&source).share()).is_ok();
                problems.push(Problem { text, repaired });
            }
        }
        if repair && problems.iter().any(|problem| problem.repaired) && self.flush().is_err() {
            problems.iter_mut().for_each(|problem| problem.repaired = false);
        }
        (problems, Some(offset + length as u64))
    }

    /// Reads what a new mirror is to hold: of each page of the database the newest that is good, if one is.
    async fn read_best(&self, file: CatalogFile, offset: u64, length: usize) -> Result<Buffer, StoreError> {
        let mut best: Option<Buffer> = None;
        let mut tried = 0;
        for mirror in self.mirrors(file) {
            let Some(parts) = self.parts(file, mirror, offset, length) else { continue };
            tried += 1;
            let Ok(buffer) = self.read_parts(&parts, length).await else { continue };
            let Some(best) = &mut best else {
                best = Some(buffer);
                continue;
            };
            if file != CatalogFile::Database {
                continue;
            }
            for (at, number) in (0..length).step_by(PAGE_SIZE).zip(offset / PAGE_SIZE as u64 + 1..) {
                let range = at..at + PAGE_SIZE;
                let Ok(number) = u32::try_from(number) else { break };
                if page::written(&buffer[range.clone()], number) > page::written(&best[range.clone()], number) {
                    best[range.clone()].copy_from_slice(&buffer[range]);
                }
            }
        }
        best.ok_or(StoreError::NoGoodMirror { file: FileName(file), offset, length, tried })
    }

    /// Rewrites the mirrors on which a read found something wrong with what is right.
    fn mend(&self, file: CatalogFile, wrong: &[u8], offset: u64, right: Buffer) -> Buffer {
        if wrong.is_empty() {
            return right;
        }
        let slice = right.share();
        // Whoever reads has the right bytes, whatever becomes of the mirror that had not: it may be gone by now.
        if wait_for(&*self.world, self.write_to(file, wrong, &[(offset, slice.clone())])).is_ok() {
            // The other mirror may be the next to go.
            let _ = self.flush();
            let current = self.mirrors(file);
            wrong
                .iter()
                .filter(|mirror| current.contains(mirror))
                .for_each(|mirror| self.tell_mended(file, *mirror, offset));
        }
        Buffer::copy_of(&slice)
    }

    /// AUs that every mirror of a file has.
    fn mirror_units(&self, file: CatalogFile) -> u32 {
        let membership = self.voters.current();
        let mirrors = self.current_mirrors(file);
        mirrors.keys().map(|mirror| self.unit_count(&membership, file, *mirror)).min().unwrap_or(0)
    }

    fn unit_count(&self, membership: &Membership, file: CatalogFile, mirror: u8) -> u32 {
        let runs = membership.catalog.iter().filter(|run| run.file == file && run.mirror == mirror);
        runs.map(|run| run.count).sum()
    }

    fn allocate(
        &self,
        disk: DiskNumber,
        units: u32,
        take: impl Fn(&mut Space, DiskNumber) -> Option<u32>,
    ) -> Option<Vec<u32>> {
        if !self.is_space_known.load(Ordering::Acquire) {
            return None;
        }
        let mut space = lock(&self.space);
        let mut aus = Vec::new();
        for _ in 0..units {
            match take(&mut space, disk) {
                Some(au) => aus.push(au),
                None => {
                    aus.into_iter().for_each(|au| space.cancel(disk, au));
                    return None;
                }
            }
        }
        aus.sort_unstable();
        Some(aus)
    }

    fn give_back(&self, disk: DiskNumber, aus: &[u32]) {
        let mut space = lock(&self.space);
        aus.iter().for_each(|au| space.cancel(disk, *au));
    }

    async fn grow_to(&self, file: CatalogFile, capacity: u64) -> Result<(), StoreError> {
        let membership = self.voters.current();
        let mirrors = self.current_mirrors(file);
        let Some(first) = mirrors.keys().next() else {
            return Err(Self::failed(file, "growing", 0, 0, "no mirror is left".to_owned()));
        };
        let have = self.unit_count(&membership, file, *first);
        let want = u32::try_from(capacity.div_ceil(self.au_size)).map_err(|_| StoreError::NoSpace)?;
        if want <= have {
            return Ok(());
        }
        // Growing runs: an eighth more than there is, so that a large catalog has few runs.
        let mut ahead = (want + have / 8) - have;
        if !self.leaves_room(file, ahead) {
            ahead = want - have;
            if !self.leaves_room(file, ahead) {
                return Err(StoreError::NoSpace);
            }
        }
        let _in_hand = lock(&self.space).take_in_hand();
        let mut taken: Vec<(DiskNumber, Vec<u32>)> = Vec::new();
        let mut runs = Vec::new();
        for (mirror, home) in &mirrors {
            let group = |disk: DiskNumber| membership.disk(disk).map(|disk| disk.failure_group.clone());
            let others: BTreeSet<_> =
                mirrors.values().filter(|disk| *disk != home).filter_map(|disk| group(*disk)).collect();
            let neighbours = membership
                .disks
                .iter()
                .filter(|disk| takes_mirrors(disk) && disk.number != *home)
                .filter(|disk| {
                    !others.contains(&disk.failure_group) || Some(&disk.failure_group) == group(*home).as_ref()
                })
                .map(|disk| disk.number)
                .filter(|disk| !mirrors.values().any(|other| other == disk));
            let found = [*home].into_iter().chain(neighbours).find_map(|disk| {
                let aus = self
                    .allocate(disk, ahead, Space::allocate_on)
                    .or_else(|| self.allocate(disk, want - have, Space::allocate_on))?;
                Some((disk, aus))
            });
            let Some((disk, aus)) = found else {
                taken.iter().for_each(|(disk, aus)| self.give_back(*disk, aus));
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
        let entries: Vec<_> =
            runs.iter().flat_map(|(mirror, disk, aus)| runs_of(file, *mirror, *disk, have, aus)).collect();
        let recorded = self
            .voters
            .change(|next| {
                // A mirror struck meanwhile does not grow.
                let alive: BTreeSet<_> =
                    next.catalog.iter().filter(|run| run.file == file).map(|run| run.mirror).collect();
                next.catalog.extend(entries.iter().filter(|run| alive.contains(&run.mirror)).copied());
                Ok(true)
            })
            .await;
        let grown = match recorded {
            Ok(membership) => {
                let listed = units(&membership);
                for (_, disk, aus) in &runs {
                    for au in aus {
                        if listed.contains(&(*disk, *au)) {
                            lock(&self.owned).insert((*disk, *au));
                        } else {
                            self.give_back(*disk, &[*au]);
                        }
                    }
                }
                Ok(())
            }
            Err(refusal) => {
                // What was more than the least is given back already.
                runs.iter().for_each(|(_, disk, aus)| self.give_back(*disk, aus));
                Err(StoreError::Stopped(refusal.to_string()))
            }
        };
        self.reserve();
        grown
    }
}

/// Whether mirrors of the catalog may go to a disk.
fn takes_mirrors(disk: &MemberDisk) -> bool {
    disk.state == DiskState::Online && !disk.quorum && !disk.leaving
}

/// The disk on which the next mirror of the catalog should go: online, in a failure group
/// without one; with fewer than two mirrors any other disk will do.
pub(crate) fn next_disk(
    membership: &Membership,
    used: &[DiskNumber],
    has_room: impl Fn(DiskNumber) -> bool,
) -> Option<DiskNumber> {
    if used.len() >= MIRRORS {
        return None;
    }
    let groups: BTreeSet<_> =
        used.iter().filter_map(|disk| membership.disk(*disk)).map(|disk| disk.failure_group.as_str()).collect();
    let candidates: Vec<_> = membership
        .disks
        .iter()
        .filter(|disk| takes_mirrors(disk) && !used.contains(&disk.number))
        .filter(|disk| has_room(disk.number))
        .collect();
    let elsewhere = candidates.iter().find(|disk| !groups.contains(disk.failure_group.as_str()));
    elsewhere.or_else(|| candidates.first().filter(|_| used.len() < 2)).map(|disk| disk.number)
}

/// Where the next mirror of one of the catalog's files should go: [`next_disk`]. With three, in place of one that is not
/// alone in its failure group, if another group has none; and in place of one on a disk that is being dropped.
fn next_mirror(
    membership: &Membership,
    mirrors: &BTreeMap<u8, DiskNumber>,
    leaving: &BTreeSet<u8>,
    has_room: impl Fn(DiskNumber) -> bool,
) -> Option<(u8, DiskNumber)> {
    let group = |disk: &DiskNumber| membership.disk(*disk).map(|disk| disk.failure_group.as_str());
    let is_spare = |(mirror, disk): &(&u8, &DiskNumber)| {
        mirrors.iter().any(|(other, beside)| other < *mirror && group(beside) == group(disk))
    };
    let free = (0..3).find(|mirror| !mirrors.contains_key(mirror));
    let first = free.or_else(|| mirrors.iter().find(is_spare).map(|(mirror, _)| *mirror));
    // Where there is no disk for one there may be one for the next.
    first.into_iter().chain(leaving.iter().copied()).find_map(|mirror| {
        let others: Vec<DiskNumber> =
            mirrors.iter().filter(|(other, _)| **other != mirror).map(|(_, disk)| *disk).collect();
        next_disk(membership, &others, &has_room).map(|disk| (mirror, disk))
    })
}

/// Lists new mirrors, each in place of the one that had its number.
fn list(membership: &mut Membership, runs: &[CatalogRun]) {
    let is_replaced = |old: &CatalogRun| runs.iter().any(|new| (new.file, new.mirror) == (old.file, old.mirror));
    membership.catalog.retain(|run| !is_replaced(run));
    membership.catalog.extend(runs.iter().copied());
}

/// Ascending AUs of a disk as runs that hold a file from its AU `at` on.
pub(crate) fn runs_of(file: CatalogFile, mirror: u8, disk: DiskNumber, at: u32, aus: &[u32]) -> Vec<CatalogRun> {
    let mut runs: Vec<CatalogRun> = Vec::new();
    for (at, au) in (at..).zip(aus) {
        match runs.last_mut() {
            Some(run) if run.first + run.count == *au => run.count += 1,
            _ => runs.push(CatalogRun { file, mirror, at, count: 1, disk, first: *au }),
        }
    }
    runs
}

impl Store for DiskStore {
    fn capacity(&self, file: CatalogFile) -> u64 {
        u64::from(self.mirror_units(file)) * self.au_size
    }

    fn mirrors(&self, file: CatalogFile) -> Vec<u8> {
        self.current_mirrors(file).into_keys().collect()
    }

    fn epoch(&self) -> u64 {
        // Grows with every mount.
        self.voters.current().generation
    }

    fn read(
        &self,
        file: CatalogFile,
        offset: u64,
        length: usize,
        age: &dyn Fn(&[u8]) -> Option<u64>,
    ) -> Result<Buffer, StoreError> {
        let _reading = self.begin_reading();
        loop {
            let mirrors: Vec<_> = self
                .mirrors(file)
                .into_iter()
                .filter_map(|mirror| Some((mirror, self.parts(file, mirror, offset, length)?)))
                .collect();
            let reads = mirrors.iter().map(|(_, parts)| self.read_parts(parts, length));
            let copies = wait_for(&*self.world, futures::future::join_all(reads));
            let mut silent = Vec::new();
            let mut good: Vec<(u64, u8, Buffer)> = Vec::new();
            let (mut wrong, mut unread) = (Vec::new(), 0);
            for ((mirror, _), copy) in mirrors.iter().zip(copies) {
                match copy {
                    Ok(buffer) => match age(&buffer) {
                        Some(age) => good.push((age, *mirror, buffer)),
                        None => wrong.push(*mirror),
                    },
                    Err((member, settled @ Settled::Overdue)) => {
                        unread += 1;
                        let reason = settled.reason();
                        let expelled = wait_for(&*self.world, self.voters.expel(member.number, &reason, false));
                        silent.extend(expelled.is_err().then_some(member));
                    }
                    Err(_) => {
                        unread += 1;
                        wrong.push(*mirror);
                    }
                }
            }
            if let Some(newest) = good.iter().map(|(age, ..)| *age).max() {
                let (newer, older): (Vec<_>, Vec<_>) = good.into_iter().partition(|(age, ..)| *age == newest);
                wrong.extend(older.iter().map(|(_, mirror, _)| *mirror));
                let (.., right) = newer.into_iter().next().expect("one has this age");
                return Ok(self.mend(file, &wrong, offset, right));
            }
            if silent.is_empty() || self.voters.is_closing() {
                if file == CatalogFile::Database && !mirrors.is_empty() && unread == 0 {
                    self.tell_lost(&wrong, offset);
                }
                if self.voters.is_closing() {
                    return Err(let_go());
                }
                return Err(StoreError::NoGoodMirror { file: FileName(file), offset, length, tried: mirrors.len() });
            }
            // R2: where nothing else is left, wait until one that is silent has answered.
            wait_for(&*self.world, async {
                while silent.iter().all(|member| member.is_hung()) && !self.voters.is_closing() {
                    self.world.sleep(Duration::from_millis(50)).await;
                }
            });
        }
    }

    fn read_mirror(&self, file: CatalogFile, mirror: u8, offset: u64, length: usize) -> Result<Buffer, StoreError> {
        let _reading = self.begin_reading();
        let parts = self
            .parts(file, mirror, offset, length)
            .ok_or_else(|| Self::failed(file, "reading", offset, length, "the mirror does not reach so far".into()))?;
        wait_for(&*self.world, self.read_parts(&parts, length))
            .map_err(|(_, settled)| Self::failed(file, "reading", offset, length, settled.reason()))
    }

    fn write(&self, file: CatalogFile, offset: u64, data: Slice) -> Result<(), StoreError> {
        self.write_many(file, vec![(offset, data)])
    }

    fn write_many(&self, file: CatalogFile, runs: Vec<(u64, Slice)>) -> Result<(), StoreError> {
        wait_for(&*self.world, async { self.write_to(file, &self.mirrors(file), &runs).await })
    }

    fn write_mirror(&self, file: CatalogFile, mirror: u8, offset: u64, data: Slice) -> Result<(), StoreError> {
        wait_for(&*self.world, async {
            match self.write_to(file, &[mirror], &[(offset, data)]).await {
                Err(StoreError::Failed { .. }) if !self.mirrors(file).contains(&mirror) => Ok(()),
                other => other,
            }
        })
    }

    fn flush(&self) -> Result<(), StoreError> {
        let membership = self.voters.current();
        let disks: BTreeSet<_> = membership.catalog.iter().map(|run| run.disk).collect();
        wait_for(&*self.world, self.flush_members(CatalogFile::Wal, &disks))
    }

    fn grow(&self, file: CatalogFile, capacity: u64) -> Result<(), StoreError> {
        wait_for(&*self.world, self.grow_to(file, capacity))
    }
}
